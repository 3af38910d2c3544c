//! Reports in text: those of fio, bonnie++, sysbench, pgbench, dd, hdparm, cpupower, perf stat and
//! `/proc/mdstat`, with whatever prose stands around them.
//!
//! A report is known by a line that only its tool prints, and ends with its last line, or with the next
//! report. Each becomes a trial; what only describes a machine (`/proc/mdstat`, cpupower) is kept as facts.

use super::lines::Line;
use super::{Part, Parts, mdstat};
use domain::outcome::{Better, Metric, Outcome};
use domain::units::Unit;
use std::collections::BTreeMap;
use workloads::bonnie::report as bonnie;
use workloads::dd::report as dd;
use workloads::fio::report::{metrics_of, text as fio, why_no_sync_latency};
use workloads::hdparm::report as hdparm;
use workloads::pgbench::report as pgbench;
use workloads::sysbench::report as sysbench;

/// A bound on the lines of one report; sysbench's with all warnings has some hundred.
const MAX_LINES: usize = 1000;

/// Lines of bonnie's table after its first, with a mail's broken lines.
const MAX_TABLE: usize = 40;

/// Which report is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Nothing,
    Bonnie,
    Sysbench,
    Pgbench,
    Mdstat,
}

/// The columns of cpupower's monitor, and of each the sum of its values and how many there were.
type Monitor = (Vec<String>, BTreeMap<String, (f64, f64)>);

/// Reads lines into results.
pub struct Figures {
    only: Option<&'static str>,
    open: Open,
    text: String,
    lines: usize,
    /// The run of fio so far.
    fio: fio::Reader,
    /// dd's lines so far.
    dd: Vec<String>,
    /// The command that was seen last, as in a terminal's record.
    command: Option<Vec<String>>,
    hdparm: Option<(String, BTreeMap<String, Metric>)>,
    perf: BTreeMap<String, (f64, u64, Unit)>,
    cpu: Option<String>,
    /// cpupower's monitor so far.
    monitor: Option<Monitor>,
    /// What was found.
    pub parts: Parts,
    /// What was said of the machine.
    pub facts: BTreeMap<String, String>,
}

impl Figures {
    /// Of all tools, or of one.
    pub fn new(only: Option<&'static str>) -> Self {
        Self {
            only,
            open: Open::Nothing,
            text: String::new(),
            lines: 0,
            fio: fio::Reader::default(),
            dd: Vec::new(),
            command: None,
            hdparm: None,
            perf: BTreeMap::new(),
            cpu: None,
            monitor: None,
            parts: Parts::default(),
            facts: BTreeMap::new(),
        }
    }

    fn wants(&self, tool: &str) -> bool {
        self.only.is_none_or(|only| only == tool)
    }

    /// Takes a line; false where it is of no report.
    pub fn line(&mut self, line: &Line<'_>) -> bool {
        let text = line.text.as_ref();
        if self.wants("bonnie") && bonnie::is_csv(text) {
            self.close();
            self.bonnie_csv(text);
            return true;
        }
        if self.open == Open::Nothing && self.fio_line(text) {
            return true;
        }
        let begins = self.begins(text);
        if begins != Open::Nothing {
            self.close();
            self.open = begins;
        }
        if self.open != Open::Nothing {
            self.more(text);
            return true;
        }
        self.dd_line(text) || self.hdparm_line(text) || self.perf_line(text) || self.cpupower_line(text)
    }

    fn begins(&self, text: &str) -> Open {
        // The files' half may stand alone: no data was measured.
        let half = text.contains("---Sequential Output") || text.contains("---Sequential Create");
        let bonnie = half && self.open != Open::Bonnie
            || text
                .strip_prefix("Bonnie ")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            || text.starts_with("Version ") && text.contains("---Sequential Output");
        match () {
            () if bonnie && self.wants("bonnie") => Open::Bonnie,
            () if sysbench::begins(text) && self.wants("sysbench") => Open::Sysbench,
            // Its version comes first from 14 on.
            () if self.open != Open::Pgbench && pgbench::begins(text) && self.wants("pgbench") => {
                Open::Pgbench
            }
            () if text.starts_with("Personalities :") && self.wants("mdstat") => Open::Mdstat,
            () => Open::Nothing,
        }
    }

    fn more(&mut self, text: &str) {
        let room = match self.open {
            Open::Bonnie => MAX_TABLE,
            _ => MAX_LINES,
        };
        let blank = text.trim().is_empty();
        let ends = match self.open {
            // The two halves of bonnie++'s table stand without a blank between them.
            Open::Bonnie => {
                (blank || text.starts_with("____"))
                    && (self.text.contains("-Per Ch") || self.text.contains("-Create--"))
            }
            Open::Sysbench => text.trim_start().starts_with("execution time (avg/stddev)"),
            // Up to 13 the rate with the time to connect comes first.
            Open::Pgbench => text.starts_with("tps = ") && !text.contains("including connections"),
            Open::Mdstat => text.starts_with("unused devices:"),
            Open::Nothing => true,
        };
        self.text.push_str(text);
        self.text.push('\n');
        self.lines += 1;
        if ends || self.lines >= room {
            self.close();
        }
    }

    fn close(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.lines = 0;
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => {}
            Open::Bonnie => match bonnie::text(&text) {
                Ok(report) => self.parts.push(part_of_bonnie(report)),
                Err(error) => self.parts.note(format!("passed over a table of bonnie: {error}")),
            },
            Open::Sysbench => match sysbench::report(&text) {
                Ok(outcome) => self.parts.push(Part::new(&sysbench_name(&text), outcome)),
                Err(error) => self.parts.note(format!("passed over a report of sysbench: {error}")),
            },
            Open::Pgbench => match pgbench::report(&text) {
                Ok(outcome) => self.parts.push(Part::new("pgbench", outcome)),
                Err(error) => self.parts.note(format!("passed over a report of pgbench: {error}")),
            },
            Open::Mdstat => {
                let (facts, metrics) = mdstat::read(&text);
                self.facts.extend(facts);
                if !metrics.is_empty() {
                    self.parts.aside("mdstat", outcome("mdstat", metrics));
                }
            }
        }
    }

    /// A line of fio's normal output.
    fn fio_line(&mut self, text: &str) -> bool {
        if !self.wants("fio") {
            return false;
        }
        match self.fio.line(text) {
            fio::Line::Taken => true,
            fio::Line::Foreign => false,
            fio::Line::Other => {
                self.end_fio();
                self.fio.line(text) == fio::Line::Taken
            }
        }
    }

    fn end_fio(&mut self) {
        let (jobs, version, replaced) = self.fio.finish();
        if replaced > 0 {
            self.parts.note(format!(
                "left out {replaced} reports of jobs that were written before the run's last one"
            ));
        }
        for job in jobs {
            if let Some((_, errno)) = &job.totals.failed {
                let why = std::io::Error::from_raw_os_error(*errno);
                self.parts.note(format!("the job `{}` ended with error {errno}: {why}", job.name));
            }
            if let Some(why) = why_no_sync_latency(&job.totals, &version) {
                self.parts.note(format!("the job `{}`: {why}", job.name));
            }
            match metrics_of(&job.totals, &version) {
                Ok(metrics) => {
                    let mut part = Part::new(&job.name, outcome(&version, metrics));
                    part.facts = job.facts;
                    self.parts.push(part);
                }
                Err(error) => self.parts.note(format!("left out the job `{}`: {error}", job.name)),
            }
        }
    }

    fn bonnie_csv(&mut self, text: &str) {
        match bonnie::csv(text) {
            Ok(report) => {
                let part = part_of_bonnie(report);
                self.parts.push_exact(Part { exact: true, ..part });
            }
            Err(error) => self.parts.note(format!("passed over a line of bonnie's CSV: {error}")),
        }
    }

    /// `65536000 bytes (66 MB) copied, 8.64089 seconds, 7.6 MB/s` and the lines before it.
    fn dd_line(&mut self, text: &str) -> bool {
        if !self.wants("dd") {
            return false;
        }
        if let Some(command) = dd_command(text) {
            self.command = Some(command);
            return false;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if let [count, "records", "in" | "out"] = words.as_slice()
            && count.contains('+')
        {
            self.dd.push(text.trim().to_owned());
            return true;
        }
        let sum = text.contains("copied, ") || text.contains(" transferred in ");
        let is_sum = sum && words.get(1).is_some_and(|w| w.starts_with("byte"));
        if !is_sum {
            return false;
        }
        self.dd.push(text.trim().to_owned());
        let lines = std::mem::take(&mut self.dd);
        match dd::parse(&(lines.join("\n") + "\n")) {
            Ok(outcome) => {
                self.parts.push(Part { command: self.command.take(), ..Part::new("dd", outcome) });
            }
            Err(error) => self.parts.note(format!("passed over a report of dd: {error}")),
        }
        true
    }

    /// ` Timing buffered disk reads: 320 MB in  3.00 seconds = 106.55 MB/sec`, below `/dev/sda:`.
    fn hdparm_line(&mut self, text: &str) -> bool {
        if !self.wants("hdparm") {
            return false;
        }
        let text = text.trim();
        if let Some(device) = text.strip_suffix(':').filter(|t| t.starts_with("/dev/") && !t.contains(' ')) {
            self.end_hdparm();
            self.hdparm = Some((device.to_owned(), BTreeMap::new()));
            return true;
        }
        let Some((_, metrics)) = &mut self.hdparm else { return false };
        let Some((name, value)) = hdparm::line(text) else { return false };
        if let Some(value) = value {
            let metric = Metric { value, unit: Unit::BytesPerSecond, better: Better::Higher };
            metrics.insert(name.to_owned(), metric);
        }
        true
    }

    fn end_hdparm(&mut self) {
        let Some((device, metrics)) = self.hdparm.take().filter(|(_, metrics)| !metrics.is_empty()) else {
            return;
        };
        let mut part = Part::new("hdparm", outcome("hdparm", metrics));
        part.facts.insert("device".to_owned(), device);
        self.parts.push(part);
    }

    /// perf stat's `-x,` and `-j`: a count, its unit, an event. With `-I` counts of one event are summed.
    fn perf_line(&mut self, text: &str) -> bool {
        if !self.wants("perf") {
            return false;
        }
        let Some((value, unit, event)) = perf_json(text).or_else(|| perf_csv(text)) else { return false };
        let Some(value) = value else { return true };
        let unit = match unit.as_str() {
            "" => Unit::Count,
            "Joules" => Unit::Joules,
            "msec" => Unit::Other("ms".to_owned()),
            other => Unit::Other(other.to_owned()),
        };
        let sum = self.perf.entry(event).or_insert((0.0, 0, unit));
        (sum.0, sum.1) = (sum.0 + value, sum.1 + 1);
        true
    }

    /// cpupower's `frequency-info` and `idle-info`: what it says of the first CPU is a fact.
    fn cpupower_line(&mut self, text: &str) -> bool {
        const FACTS: [(&str, &str); 7] = [
            ("driver", "cpufreq driver"),
            ("CPUidle driver", "cpuidle driver"),
            ("CPUidle governor", "cpuidle governor"),
            ("hardware limits", "frequency limits"),
            ("current policy", "frequency policy"),
            ("current CPU frequency", "frequency"),
            ("energy performance preference", "energy performance preference"),
        ];
        if !self.wants("cpupower") {
            return false;
        }
        if self.monitor_line(text) {
            return true;
        }
        let text = text.trim();
        if let Some(cpu) = text.strip_prefix("analyzing CPU ") {
            self.cpu = Some(cpu.trim_end_matches(':').to_owned());
            self.facts.entry("cpupower".to_owned()).or_insert_with(|| "frequency and idle states".to_owned());
            return true;
        }
        let in_report = self.cpu.is_some() || text.starts_with("CPUidle ");
        if let Some(rest) = text.strip_prefix("The governor \"").filter(|_| in_report)
            && let Some((governor, _)) = rest.split_once('"')
        {
            self.facts.entry("governor".to_owned()).or_insert_with(|| governor.to_owned());
            return true;
        }
        let Some((key, value)) = text.split_once(':').filter(|_| in_report) else { return false };
        let (Some((_, name)), false) =
            (FACTS.iter().find(|(k, _)| *k == key.trim()), value.trim().is_empty())
        else {
            return false;
        };
        let is_known = !value.contains("Unable") && !value.contains("Not Available");
        if is_known {
            self.facts.entry((*name).to_owned()).or_insert_with(|| value.trim().to_owned());
        }
        true
    }

    /// `cpupower monitor`: below ` CPU| POLL | halt` shares, or `Freq` in MHz, a row a CPU; their means are
    /// metrics.
    fn monitor_line(&mut self, text: &str) -> bool {
        let cells: Vec<&str> = text.split('|').map(str::trim).collect();
        if cells.len() >= 2 && cells.contains(&"CPU") {
            self.monitor = Some((cells.into_iter().map(str::to_owned).collect(), BTreeMap::new()));
            return true;
        }
        let Some((names, sums)) = &mut self.monitor else { return false };
        let is_row = cells.len() == names.len() && cells.iter().all(|cell| cell.parse::<f64>().is_ok());
        if !is_row {
            return false;
        }
        for (name, cell) in names.iter().zip(&cells) {
            if let (false, Ok(value)) = (matches!(name.as_str(), "CPU" | "CORE" | "PKG"), cell.parse::<f64>())
            {
                let sum: &mut (f64, f64) = sums.entry(name.clone()).or_default();
                (sum.0, sum.1) = (sum.0 + value, sum.1 + 1.0);
            }
        }
        true
    }

    fn end_monitor(&mut self) {
        let Some((_, sums)) = self.monitor.take().filter(|(_, sums)| !sums.is_empty()) else { return };
        let metric = |(name, (sum, count)): (String, (f64, f64))| match name.as_str() {
            "Freq" | "Aver" => {
                ("freq.all".to_owned(), sum / count, Unit::Other("MHz".to_owned()), Better::Higher)
            }
            _ => (format!("idle.{name}"), sum / count / 100.0, Unit::Share, Better::Higher),
        };
        let metrics = sums.into_iter().map(metric).filter(|(_, value, ..)| value.is_finite());
        let metrics =
            metrics.map(|(name, value, unit, better)| (name, Metric { value, unit, better })).collect();
        self.parts.push(Part::new("cpupower-monitor", outcome("cpupower", metrics)));
    }

    /// Ends what is open.
    pub fn finish(&mut self) {
        self.close();
        self.end_fio();
        self.end_hdparm();
        self.end_monitor();
        if !self.perf.is_empty() {
            let perf = std::mem::take(&mut self.perf).into_iter();
            let metric = |(name, (value, _, unit)): (String, (f64, u64, Unit))| {
                (name, Metric { value, unit, better: Better::Lower })
            };
            self.parts.push(Part::new("perf", outcome("perf stat", perf.map(metric).collect())));
        }
    }
}

fn outcome(tool: &str, metrics: BTreeMap<String, Metric>) -> Outcome {
    Outcome { metrics, tool: tool.to_owned(), warnings: Vec::new() }
}

fn part_of_bonnie(report: bonnie::Report) -> Part {
    let mut part = Part::new("bonnie", report.outcome);
    part.facts.extend(report.label.map(|label| ("label".to_owned(), label)));
    part.facts.extend(report.size.map(|size| ("size".to_owned(), size)));
    part
}

/// The test, where the report's lines show which it was.
fn sysbench_name(text: &str) -> String {
    let kind = match text {
        _ if text.contains("SQL statistics:") || text.contains("OLTP test statistics:") => "oltp",
        _ if text.contains("Extra file open flags") || text.contains("File operations:") => "fileio",
        _ if text.contains("Prime numbers limit") || text.contains("CPU speed:") => "cpu",
        _ if text.contains("memory speed test") || text.contains("Total operations:") => "memory",
        _ => return "sysbench".to_owned(),
    };
    format!("sysbench-{kind}")
}

/// `# dd if=/dev/sda of=/dev/null bs=64k`: the words, where no shell would change them.
fn dd_command(text: &str) -> Option<Vec<String>> {
    let start = text.find("dd if=").or_else(|| text.find("dd of="))?;
    let before = text[..start].trim_end();
    let is_prompt = before.is_empty() || before.ends_with(['#', '$', '>', '%']);
    let words: Vec<&str> = text[start..].split_whitespace().collect();
    let plain = words.iter().all(|w| !w.contains(['\'', '"', '|', ';', '&', '`', '*', '<', '\\']));
    (is_prompt && plain).then(|| words.into_iter().map(str::to_owned).collect())
}

type PerfCount = (Option<f64>, String, String);

/// `0.66,msec,task-clock,656950,100.00,0.007,CPUs utilized`, after a time with `-I`, and `;` or a tab as
/// well.
fn perf_csv(text: &str) -> Option<PerfCount> {
    let separator = [',', ';', '\t'].into_iter().find(|s| text.matches(*s).count() >= 4)?;
    let fields: Vec<&str> = text.split(separator).map(str::trim).collect();
    // The last two of what is always there are the time that the counter ran, in ns, and its share.
    let is_share =
        |text: &str| text.parse::<f64>().is_ok_and(|s| (0.0..=100.0).contains(&s)) && text.contains('.');
    let is_row = |f: &[&str]| {
        f.len() >= 5
            && is_count(f[0])
            && is_event(f[2])
            && f[3].bytes().all(|b| b.is_ascii_digit())
            && is_share(f[4])
    };
    let start = (0..2).find(|skip| fields.get(*skip..).is_some_and(is_row))?;
    let row = &fields[start..];
    Some((row[0].parse().ok(), row[1].to_owned(), row[2].to_owned()))
}

fn is_count(text: &str) -> bool {
    matches!(text, "<not counted>" | "<not supported>") || text.parse::<f64>().is_ok_and(f64::is_finite)
}

fn is_event(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=@,+ ".contains(c))
}

/// `{"counter-value" : "0.743258", "unit" : "msec", "event" : "task-clock", …}`.
fn perf_json(text: &str) -> Option<PerfCount> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Row {
        counter_value: String,
        #[serde(default)]
        unit: String,
        event: String,
    }
    if !text.trim_start().starts_with('{') || !text.contains("\"counter-value\"") {
        return None;
    }
    let row: Row = serde_json::from_str(text.trim().trim_end_matches(',')).ok()?;
    Some((row.counter_value.parse().ok().filter(|v: &f64| v.is_finite()), row.unit, row.event))
}
