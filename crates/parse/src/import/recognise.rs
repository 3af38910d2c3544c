//! Which tool wrote a file, by its first bytes.

use super::perf_script::is_perf_script;
use super::tables;

/// How much of a file is looked at.
pub const HEAD: usize = 64 << 10;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// fio's json and json+.
    FioJson,
    /// fio's terse form.
    FioTerse,
    /// One of fio's logs: `bw`, `iops`, `lat`, or not known which.
    FioLog(Option<&'static str>),
    /// JSON of sadf, iostat, mpstat or pidstat.
    Sysstat,
    /// hyperfine's JSON.
    Hyperfine,
    /// IOMeter's CSV.
    Iometer,
    /// Phoronix Test Suite's result file, XML or JSON.
    Phoronix,
    /// powertop's CSV.
    Powertop,
    /// `info.yml` of stats-collect.
    StatsCollect,
    /// A trace of Flyball's own, which is Parquet.
    Trace,
    /// What `perf record` writes; the crate `events` reads it.
    PerfData,
    /// What `trace-cmd record` writes; the crate `events` reads it.
    TraceDat,
    /// What `perf script` prints; the crate `events` reads it.
    PerfScript,
    /// sysstat's binary file.
    Sa,
    /// Text with reports and tables of any tool, or of this one alone.
    Text(Option<&'static str>),
}

/// Tools whose reports are text.
const REPORTS: [&str; 9] =
    ["fio", "bonnie", "sysbench", "pgbench", "dd", "hdparm", "perf", "cpupower", "mdstat"];

const FILES: [(&str, Kind); 17] = [
    ("fio-json", Kind::FioJson),
    ("fio-terse", Kind::FioTerse),
    ("fio-log", Kind::FioLog(None)),
    ("fio-bw-log", Kind::FioLog(Some("bw"))),
    ("fio-iops-log", Kind::FioLog(Some("iops"))),
    ("fio-lat-log", Kind::FioLog(Some("lat"))),
    ("sysstat-json", Kind::Sysstat),
    ("hyperfine", Kind::Hyperfine),
    ("iometer", Kind::Iometer),
    ("phoronix", Kind::Phoronix),
    ("powertop", Kind::Powertop),
    ("stats-collect", Kind::StatsCollect),
    ("flyball-trace", Kind::Trace),
    ("perf-data", Kind::PerfData),
    ("trace-dat", Kind::TraceDat),
    ("perf-script", Kind::PerfScript),
    ("text", Kind::Text(None)),
];

impl Kind {
    /// Its name, as `--as` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sa => "sysstat's binary file",
            Self::Text(Some(tool)) => tool,
            _ => FILES.iter().find(|(_, kind)| *kind == self).map_or("text", |(name, _)| name),
        }
    }

    /// The kind of such a name.
    pub fn from_name(name: &str) -> Option<Self> {
        let file = FILES.iter().find(|(n, _)| *n == name).map(|(_, kind)| *kind);
        let text = || REPORTS.into_iter().chain(tables::tools()).find(|tool| *tool == name);
        file.or_else(|| text().map(|tool| Self::Text(Some(tool))))
    }

    /// All names.
    pub fn names() -> Vec<&'static str> {
        FILES.iter().map(|(name, _)| *name).chain(REPORTS).chain(tables::tools()).collect()
    }

    /// Whether its samples go on row by row, whatever their number: [`super::stream`].
    pub const fn is_streamed(self) -> bool {
        matches!(self, Self::Sysstat | Self::FioLog(_) | Self::Trace)
    }

    /// Whether it holds events, which the crate `events` reads.
    pub const fn has_events(self) -> bool {
        matches!(self, Self::PerfData | Self::TraceDat | Self::PerfScript)
    }
}

/// The kind of a file that begins so. What nothing else claims is text, which is searched for reports; none
/// for binary data.
pub fn recognise(head: &[u8]) -> Option<Kind> {
    // `SYSSTAT_MAGIC` of sa.h, in either byte order.
    if head.starts_with(&[0x96, 0xd5]) || head.starts_with(&[0xd5, 0x96]) {
        return Some(Kind::Sa);
    }
    // Of any Parquet file; whether it is a trace, its end says.
    if head.starts_with(b"PAR1") {
        return Some(Kind::Trace);
    }
    // In either byte order.
    if head.starts_with(b"PERFILE2") || head.starts_with(b"2ELIFREP") {
        return Some(Kind::PerfData);
    }
    if head.starts_with(b"\x17\x08\x44tracing") {
        return Some(Kind::TraceDat);
    }
    let text = String::from_utf8_lossy(&head[..head.len().min(HEAD)]);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let has = |part: &str| text.contains(part);
    if text.starts_with('{') {
        if has("\"sysstat\"") {
            return Some(Kind::Sysstat);
        }
        if has("\"results\"") && has("\"command\"") && has("\"mean\"") {
            return Some(Kind::Hyperfine);
        }
        if has("\"systems\"") && (has("\"results\"") || has("\"identifier\"")) {
            return Some(Kind::Phoronix);
        }
    }
    // fio warns before its JSON begins.
    if has("\"fio version\"") {
        return Some(Kind::FioJson);
    }
    if has("<PhoronixTestSuite>") {
        return Some(Kind::Phoronix);
    }
    if has("'Test Type,Test Description") || has("'Target Type,Target Name") {
        return Some(Kind::Iometer);
    }
    if has("P o w e r T O P") && has(";") {
        return Some(Kind::Powertop);
    }
    if has("toolname: stats-collect") && has("reportid:") {
        return Some(Kind::StatsCollect);
    }
    let first = text.lines().next().unwrap_or("");
    if is_terse(first) {
        return Some(Kind::FioTerse);
    }
    if is_log(first) {
        return Some(Kind::FioLog(None));
    }
    if is_perf_script(text) {
        return Some(Kind::PerfScript);
    }
    let control =
        text.chars().take(1000).filter(|c| c.is_control() && !c.is_whitespace() || *c == '\u{fffd}').count();
    (control < 20).then_some(Kind::Text(None))
}

/// `3;fio-3.33;job;0;0;…`.
fn is_terse(line: &str) -> bool {
    let mut fields = line.split(';');
    let version = fields.next().and_then(|f| f.parse::<u8>().ok());
    version.is_some_and(|v| (2..=5).contains(&v)) && fields.next().is_some_and(|f| f.starts_with("fio-"))
}

/// `12, 345, 0, 4096, 0`: milliseconds, value, direction, block size, and with newer versions offset and
/// priority.
fn is_log(line: &str) -> bool {
    let fields: Vec<&str> = line.split(", ").collect();
    let numbers = fields.iter().all(|f| f.parse::<u64>().is_ok() || f.starts_with("0x"));
    numbers && (4..=7).contains(&fields.len()) && matches!(fields[2], "0" | "1" | "2")
}
