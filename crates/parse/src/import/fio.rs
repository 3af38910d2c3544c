//! fio's json and json+ (fio 3), terse (versions 3 to 5) and logs.
//!
//! Jobs of one name in one report ran beside each other (`numjobs`), so they are one result; jobs of
//! different names are results of their own, whether or not they ran at once: fio does not say. Figures are
//! computed as for trials that Flyball ran itself ([`workloads::fio::report`]).
//!
//! Sources: fio's HOWTO ("Terse output", "Log file formats") and `stat.c`.

use super::error::Error;
use super::json::{Plain, Taken, Token, Tokens};
use super::lines::Lines;
use super::meaning;
use super::scan::whole;
use super::series::{Pace, Quantity, Samples, Series, Shape};
use super::{Imported, Part, Place, part_of_series};
use domain::bench::Sink;
use domain::outcome::{Better, Metric, Outcome};
use domain::time::Timestamp;
use domain::units::Unit;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, Read};
use workloads::fio::report::bins::Bins;
use workloads::fio::report::jobs::{Direction, Job, Latency, Options, Syncs, Totals};
use workloads::fio::report::{PERCENTILES, metrics_of, why_no_sync_latency};

const JSON: &str = "fio-json";
const TERSE: &str = "fio-terse";
const LOG: &str = "fio-log";

/// A bound on the text before the JSON: warnings take some kilobytes.
const MAX_PREAMBLE: u64 = 1 << 20;

/// Reads one report after the other: with `--status-interval` fio writes one each time, of all that was done
/// until then, and the last one counts. Reports of different runs that stand in one file all count, and are
/// no repeats of each other.
pub(super) fn json(input: &mut dyn BufRead) -> Result<Imported, Error> {
    let (notes, first, place) = preamble(input)?;
    let mut all = Imported { notes, ..Imported::default() };
    let mut last = Imported::default();
    let mut replaced = 0;
    let mut tokens = Tokens::new(first.as_slice().chain(input), JSON);
    loop {
        let one = report(&mut tokens).map_err(|error| moved(error, place))?;
        if is_later(&last.parts, &one.parts) {
            replaced += 1;
        } else {
            keep(&mut all, last);
        }
        last = one;
        if all.parts.len() + last.parts.len() > super::MAX_PARTS {
            let error = tokens.fault(format!("it has more than {} jobs", super::MAX_PARTS));
            return Err(moved(error, place));
        }
        // What follows the last report is left alone.
        if !tokens.next_document(MAX_PREAMBLE)? {
            break;
        }
    }
    keep(&mut all, last);
    if replaced > 0 {
        all.notes.push(format!("left out {replaced} reports that were written before the run's last one"));
    }
    Ok(all)
}

/// Adds a report's results to those of other runs, under other names where theirs are the same.
fn keep(all: &mut Imported, report: Imported) {
    all.notes.extend(report.notes);
    for mut part in report.parts {
        let before = all.parts.iter().filter(|known| known.kind == part.name).count();
        part.kind.clone_from(&part.name);
        if before > 0 {
            part.name = format!("{}-{}", part.name, before + 1);
        }
        all.parts.push(part);
    }
}

/// Whether a report is of the same run as the one before, and later: of the same jobs, which were at work
/// already when that one was written.
fn is_later(before: &[Part], now: &[Part]) -> bool {
    let same =
        !now.is_empty() && before.len() == now.len() && before.iter().zip(now).all(|(a, b)| a.name == b.name);
    let ended = |parts: &[Part]| parts.iter().filter_map(|part| part.started).max();
    let lasted = now
        .iter()
        .filter_map(|part| part.outcome.metrics.get("elapsed"))
        .map(|m| m.value)
        .fold(0.0, f64::max);
    match (ended(before), ended(now)) {
        (Some(before), Some(now)) => {
            let between = now.unix_nanos().saturating_sub(before.unix_nanos());
            same && between >= 0 && (between as f64) < lasted * 1e9
        }
        _ => false,
    }
}

fn report<R: Read>(tokens: &mut Tokens<R>) -> Result<Imported, Error> {
    let mut reader = JsonReader {
        tokens,
        version: "fio".to_owned(),
        ended: None,
        jobs: Vec::new(),
        index: HashMap::new(),
        bins: Vec::new(),
        global: BTreeMap::new(),
        options: BTreeMap::new(),
    };
    let walked = reader.walk();
    let so_far = format!("{} jobs", reader.jobs.len());
    walked.map_err(|error| error.after(&so_far))?;
    let mut imported = Imported::default();
    for (name, totals) in reader.jobs {
        let mut outcome = Outcome { tool: reader.version.clone(), ..Outcome::default() };
        match metrics_of(&totals, &outcome.tool) {
            Ok(metrics) => outcome.metrics = metrics,
            Err(error) => {
                imported.notes.push(format!("left out the job `{name}`: {error}"));
                continue;
            }
        }
        if let Some((_, errno)) = &totals.failed {
            imported.notes.push(format!(
                "the job `{name}` ended with error {errno}: {}",
                io::Error::from_raw_os_error(*errno)
            ));
        }
        if let Some(why) = why_no_sync_latency(&totals, &outcome.tool) {
            imported.notes.push(format!("the job `{name}`: {why}"));
        }
        let mut part = Part::new(&name, outcome);
        part.facts.extend(reader.options.remove(&name).unwrap_or_default());
        part.started = reader.ended;
        imported.parts.push(part);
    }
    Ok(imported)
}

/// What fio says before its JSON, the JSON's first line, and where that begins.
fn preamble(input: &mut dyn BufRead) -> Result<(Vec<String>, Vec<u8>, Place), Error> {
    let mut notes = Vec::new();
    let mut place = Place { offset: 0, line: 1 };
    loop {
        let mut line = Vec::new();
        let read = input.take(MAX_PREAMBLE).read_until(b'\n', &mut line)? as u64;
        if line.starts_with(b"{") {
            return Ok((notes, line, place));
        }
        if read == 0 || place.offset > MAX_PREAMBLE {
            return Err(Error::at(JSON, place, "expected a line that begins with `{`, and found none"));
        }
        place = Place { offset: place.offset + read, line: place.line + 1 };
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        if !text.is_empty() && notes.len() < 20 {
            notes.push(text);
        }
    }
}

/// An error whose place was counted from the JSON's beginning.
fn moved(mut error: Error, by: Place) -> Error {
    if let Error::Malformed { place, .. } = &mut error {
        *place = Place { offset: place.offset + by.offset, line: place.line + by.line - 1 };
    }
    error
}

struct JsonReader<'t, R> {
    tokens: &'t mut Tokens<R>,
    version: String,
    ended: Option<Timestamp>,
    jobs: Vec<(String, Totals)>,
    /// Where in `jobs` a name is.
    index: HashMap<String, usize>,
    /// The bins that were read last; kept for its room alone.
    bins: Vec<(u64, u64)>,
    /// The options that all jobs have which name no other value.
    global: BTreeMap<String, String>,
    options: BTreeMap<String, BTreeMap<String, String>>,
}

/// Which number or member of a job a key is.
enum Member {
    Way(&'static str),
    Syncs,
    Options,
    Other,
}

impl<R: Read> JsonReader<'_, R> {
    fn walk(&mut self) -> Result<(), Error> {
        let mut has_jobs = false;
        loop {
            match self.tokens.token()? {
                Some(Token::Key("fio version")) => {
                    if let Some(Token::Text(text)) = self.tokens.token()? {
                        text.clone_into(&mut self.version);
                    }
                }
                Some(Token::Key("timestamp_ms")) => {
                    let ms = self.tokens.number()?.filter(|ms| (0.0..9e12).contains(ms));
                    self.ended = ms.map(|ms| Timestamp::from_unix_nanos((ms * 1e6) as i64));
                }
                Some(Token::Key("global options")) => self.global = self.texts()?,
                Some(Token::Key("jobs")) => {
                    has_jobs = true;
                    self.list()?;
                }
                Some(Token::Key(_)) => self.tokens.skip()?,
                Some(_) => {}
                None if has_jobs => return Ok(()),
                None => return Err(self.tokens.fault("expected the list `jobs`, and found none")),
            }
        }
    }

    fn list(&mut self) -> Result<(), Error> {
        match self.tokens.token()? {
            Some(Token::Array) => {}
            _ => return Err(self.tokens.fault("expected the list of jobs")),
        }
        while let Some(Token::Object) = self.tokens.token()? {
            let (job, options) = self.job()?;
            let name = job.jobname.clone();
            let index = match self.index.get(&name) {
                Some(index) => *index,
                None if self.jobs.len() >= super::MAX_PARTS => {
                    let reason = format!("it has more than {} jobs of different names", super::MAX_PARTS);
                    return Err(self.tokens.fault(reason));
                }
                None => {
                    self.index.insert(name.clone(), self.jobs.len());
                    self.jobs.push((name.clone(), Totals::default()));
                    self.options.insert(name, options);
                    self.jobs.len() - 1
                }
            };
            self.jobs[index].1.add(job);
        }
        Ok(())
    }

    fn job(&mut self) -> Result<(Job, BTreeMap<String, String>), Error> {
        let (mut job, mut options) = (Job::default(), self.global.clone());
        let mut time = None;
        loop {
            let member = match self.tokens.token()? {
                Some(Token::Key("jobname")) => {
                    if let Some(Token::Text(name)) = self.tokens.token()? {
                        name.clone_into(&mut job.jobname);
                    }
                    continue;
                }
                Some(Token::Key("error")) => {
                    job.error = self.tokens.number()?.map_or(0, |n| n as i32);
                    continue;
                }
                Some(Token::Key("job_runtime")) => {
                    time = Some(self.count()?);
                    continue;
                }
                Some(Token::Key("ctx")) => {
                    job.ctx = Some(self.count()?);
                    continue;
                }
                Some(Token::Key("total_err")) => {
                    job.total_err = Some(self.count()?);
                    continue;
                }
                Some(Token::Key("usr_cpu")) => {
                    job.usr_cpu = self.tokens.number()?;
                    continue;
                }
                Some(Token::Key("sys_cpu")) => {
                    job.sys_cpu = self.tokens.number()?;
                    continue;
                }
                Some(Token::Key("read")) => Member::Way("read"),
                Some(Token::Key("write")) => Member::Way("write"),
                Some(Token::Key("mixed")) => Member::Way("mixed"),
                Some(Token::Key("sync")) => Member::Syncs,
                Some(Token::Key("job options")) => Member::Options,
                Some(Token::Key(_)) => Member::Other,
                _ => break,
            };
            match member {
                Member::Way("read") => job.read = Some(self.direction()?),
                Member::Way("write") => job.write = Some(self.direction()?),
                Member::Way(_) => job.mixed = Some(self.direction()?),
                Member::Syncs => job.sync = Some(self.syncs()?),
                Member::Options => options.extend(self.texts()?),
                Member::Other => self.tokens.skip()?,
            }
        }
        // Up to 3.11 it does not say of how much time CPU is a share: of one thread's, or of a group's
        // together.
        match time {
            Some(time) => job.job_runtime = time,
            None => (job.usr_cpu, job.sys_cpu) = (None, None),
        }
        job.options = Options { ioengine: options.get("option ioengine").cloned() };
        Ok((job, options))
    }

    fn count(&mut self) -> Result<u64, Error> {
        Ok(self.tokens.number()?.filter(|n| *n >= 0.0).map_or(0, |n| n as u64))
    }

    fn direction(&mut self) -> Result<Direction, Error> {
        const WANTED: [&[u8]; 5] = [b"io_bytes", b"total_ios", b"runtime", b"clat_ns", b"clat"];
        let mut direction = Direction::default();
        let mut samples = None;
        self.open()?;
        loop {
            self.pass_over(&WANTED)?;
            match self.tokens.token()? {
                Some(Token::Key("io_bytes")) => direction.io_bytes = self.count()?,
                Some(Token::Key("total_ios")) => direction.total_ios = self.count()?,
                Some(Token::Key("runtime")) => direction.runtime = self.count()?,
                Some(Token::Key("clat_ns")) => (direction.clat_ns, samples) = self.latency()?,
                Some(Token::Key("clat")) => {
                    (direction.clat_ns, samples) = self.latency()?;
                    in_nanoseconds(&mut direction.clat_ns);
                }
                Some(Token::Key(_)) => self.tokens.skip()?,
                _ => break,
            }
        }
        if counts_kibibytes(&self.version) {
            direction.io_bytes = direction.io_bytes.saturating_mul(1024);
        }
        // Up to 3.18 it does not say how many samples there are; that each request is one is the default.
        let all = if direction.clat_ns.mean > 0.0 { direction.total_ios } else { 0 };
        direction.clat_ns.samples = samples.unwrap_or(all);
        Ok(direction)
    }

    /// What a job synced (fio 3; before that reports do not tell it).
    fn syncs(&mut self) -> Result<Syncs, Error> {
        const WANTED: [&[u8]; 1] = [b"lat_ns"];
        let mut syncs = Syncs::default();
        self.open()?;
        loop {
            self.pass_over(&WANTED)?;
            match self.tokens.token()? {
                Some(Token::Key("lat_ns")) => {
                    let (lat_ns, samples) = self.latency()?;
                    syncs.lat_ns = Latency { samples: samples.unwrap_or(0), ..lat_ns };
                }
                Some(Token::Key(_)) => self.tokens.skip()?,
                _ => return Ok(syncs),
            }
        }
    }

    /// A latency, and how many samples it says that it is of.
    fn latency(&mut self) -> Result<(Latency, Option<u64>), Error> {
        const WANTED: [&[u8]; 4] = [b"mean", b"N", b"percentile", b"bins"];
        let mut latency = Latency::default();
        let mut samples = None;
        self.open()?;
        loop {
            self.pass_over(&WANTED)?;
            match self.tokens.token()? {
                Some(Token::Key("mean")) => latency.mean = self.tokens.number()?.unwrap_or(0.0),
                Some(Token::Key("N")) => samples = Some(self.count()?),
                Some(Token::Key("percentile")) => {
                    self.counts(|key, count| {
                        let known = PERCENTILES.iter().find(|(_, name, _)| name.as_bytes() == key);
                        latency.percentile.extend(known.map(|(_, name, _)| ((*name).to_owned(), count)));
                    })?;
                }
                Some(Token::Key("bins")) => {
                    let mut bins = std::mem::take(&mut self.bins);
                    bins.clear();
                    self.counts(|key, count| bins.extend(whole(key).map(|middle| (middle, count))))?;
                    latency.bins = Bins::new(bins.clone());
                    self.bins = bins;
                }
                Some(Token::Key(_)) => self.tokens.skip()?,
                _ => return Ok((latency, samples)),
            }
        }
    }

    /// Passes over the plain members that come next, up to one of these.
    fn pass_over(&mut self, wanted: &[&[u8]]) -> Result<(), Error> {
        self.tokens.members(|key, _| Ok(if wanted.contains(&key) { Taken::No } else { Taken::Yes }))
    }

    /// An object of counts by name.
    fn counts(&mut self, mut take: impl FnMut(&[u8], u64)) -> Result<(), Error> {
        self.open()?;
        let mut name = Vec::new();
        loop {
            self.tokens.members(|key, value| {
                if let Plain::Number(number) = value
                    && number >= 0.0
                {
                    take(key, number as u64);
                }
                Ok(Taken::Yes)
            })?;
            match self.tokens.token()? {
                Some(Token::Key(key)) => key.as_bytes().clone_into(&mut name),
                _ => return Ok(()),
            }
            if let Some(number) = self.tokens.number()?.filter(|n| *n >= 0.0) {
                take(&name, number as u64);
            }
        }
    }

    fn texts(&mut self) -> Result<BTreeMap<String, String>, Error> {
        const MAX_OPTIONS: usize = 300;
        let mut texts = BTreeMap::new();
        self.open()?;
        loop {
            let name = match self.tokens.token()? {
                Some(Token::Key(key)) => key.to_owned(),
                _ => return Ok(texts),
            };
            if let (Some(Token::Text(text)), true) = (self.tokens.token()?, texts.len() < MAX_OPTIONS) {
                texts.insert(format!("option {name}"), text.to_owned());
            }
        }
    }

    fn open(&mut self) -> Result<(), Error> {
        match self.tokens.token()? {
            Some(Token::Object) => Ok(()),
            _ => Err(self.tokens.fault("expected an object of fio's")),
        }
    }
}

/// Whether `io_bytes` counts kibibytes, as it did up to 2.20 (`show_ddir_status` of stat.c; 2.21 has
/// `io_kbytes` for that).
fn counts_kibibytes(version: &str) -> bool {
    let mut numbers = version.trim_start_matches("fio-").split(['.', '-']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < (2, 21),
        _ => false,
    }
}

/// What was measured in microseconds, as up to 2.21; the bins' keys were then their places and no latencies.
fn in_nanoseconds(latency: &mut Latency) {
    latency.mean *= 1e3;
    latency.percentile.values_mut().for_each(|value| *value = value.saturating_mul(1000));
    latency.bins = Bins::default();
}

/// One line a job; the fields that are read stand at the same places in versions 3 to 5, but for how long a
/// direction is.
pub(super) fn terse(input: &mut dyn BufRead) -> Result<Imported, Error> {
    let mut lines = Lines::new(input, TERSE);
    let mut imported = Imported::default();
    loop {
        let so_far = format!("{} jobs", imported.parts.len());
        let Some(line) = lines.line().map_err(|error| error.after(&so_far))? else { return Ok(imported) };
        if line.text.trim().is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.text.split(';').collect();
        let wrong = |reason: &str| Error::at(TERSE, line.place, reason).after(&so_far);
        let version =
            fields[0].parse::<u8>().map_err(|_| wrong("expected the version of the terse form, a number"))?;
        // `show_thread_status_terse_all` of stat.c: version 5 has six more fields a direction, versions 4 and
        // 5 trims.
        let (length, ways) = match version {
            3 => (41, 2),
            4 => (41, 3),
            5 => (47, 3),
            other => {
                return Err(wrong(&format!(
                    "expected version 3, 4 or 5 of the terse form, and found {other}"
                )));
            }
        };
        let cpu = 5 + length * ways;
        if fields.len() < cpu + 5 {
            let found = fields.len();
            return Err(wrong(&format!(
                "expected at least {} fields, and found {found}: the line is cut short",
                cpu + 5
            )));
        }
        let [name, tool] = [fields[2], fields[1]];
        let outcome =
            Outcome { tool: tool.to_owned(), metrics: terse_metrics(&fields, length, cpu), warnings: vec![] };
        if outcome.metrics.is_empty() {
            imported.notes.push(format!("left out the job `{name}`: it did nothing"));
        } else {
            imported.parts.push(Part::new(name, outcome));
        }
    }
}

fn terse_metrics(fields: &[&str], length: usize, cpu: usize) -> BTreeMap<String, Metric> {
    use Better::{Higher, Lower};
    let number = |index: usize| {
        fields.get(index).and_then(|f| f.trim_end_matches('%').parse::<f64>().ok()).filter(|v| v.is_finite())
    };
    let mut metrics = BTreeMap::new();
    let mut put = |name: &str, value: Option<f64>, unit: Unit, better: Better| {
        if let Some(value) = value {
            metrics.insert(name.to_owned(), Metric { value, unit, better });
        }
    };
    let mut sums = [0.0; 2];
    let mut longest = 0.0_f64;
    let mut latency = Vec::new();
    for (way, start) in [("read", 5), ("write", 5 + length)] {
        let [Some(kib), Some(rate), Some(iops), Some(ms)] = [0, 1, 2, 3].map(|n| number(start + n)) else {
            continue;
        };
        if kib <= 0.0 || ms <= 0.0 {
            continue;
        }
        longest = longest.max(ms);
        put(&format!("{way}_throughput"), Some(rate * 1024.0), Unit::BytesPerSecond, Higher);
        put(&format!("{way}_iops"), Some(iops), Unit::PerSecond, Higher);
        (sums[0], sums[1]) = (sums[0] + rate * 1024.0, sums[1] + iops);
        let percentiles = fields.get(start + 12..start + 32).unwrap_or(&[]).iter();
        latency.push((number(start + 10), percentiles.copied().collect::<Vec<&str>>()));
    }
    if longest <= 0.0 {
        return metrics;
    }
    put("throughput", Some(sums[0]), Unit::BytesPerSecond, Higher);
    put("iops", Some(sums[1]), Unit::PerSecond, Higher);
    put("elapsed", Some(longest / 1e3), Unit::Seconds, Lower);
    // Of two directions there is no percentile together; microseconds, as `1.000000%=50`.
    if let [(mean, percentiles)] = latency.as_slice() {
        put("latency_mean", mean.map(|us| us / 1e6), Unit::Seconds, Lower);
        for (percent, name) in [("50.0", "latency_p50"), ("99.0", "latency_p99"), ("99.9", "latency_p999")] {
            let named = |text: &&&str| text.split_once('%').is_some_and(|(p, _)| same(p, percent));
            let value = percentiles
                .iter()
                .find(named)
                .and_then(|t| t.split_once('='))
                .and_then(|(_, v)| v.parse::<f64>().ok());
            put(name, value.filter(|v| v.is_finite()).map(|us| us / 1e6), Unit::Seconds, Lower);
        }
    }
    put("cpu_user", number(cpu).map(|p| p / 100.0), Unit::Share, Lower);
    put("cpu_system", number(cpu + 1).map(|p| p / 100.0), Unit::Share, Lower);
    metrics
}

fn same(a: &str, b: &str) -> bool {
    a.parse::<f64>().ok().zip(b.parse::<f64>().ok()).is_some_and(|(a, b)| (a - b).abs() < 1e-9)
}

/// Reads a log for its means.
pub(super) fn log(
    input: &mut dyn BufRead,
    what: Option<&'static str>,
    pace: Pace,
) -> Result<Imported, Error> {
    let mut samples = Samples::means(LOG, pace);
    log_lines(input, what, &mut samples)?;
    let mut imported = Imported::default();
    if what.is_none() {
        imported.notes.push(
            "the log does not say what it is of: --as fio-bw-log, fio-iops-log or fio-lat-log does"
                .to_owned(),
        );
    }
    if let Some(series) = samples.finish()? {
        imported.parts.push(part_of_series(LOG, "fio", series, &mut imported.notes));
    }
    Ok(imported)
}

/// Reads it again, and hands the samples on.
pub(super) fn stream_log(
    input: &mut dyn BufRead,
    what: Option<&'static str>,
    pace: Pace,
    known: &Series,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let mut samples = Samples::onward(LOG, pace, known, sink)?;
    log_lines(input, what, &mut samples)?;
    samples.finish().map(|_| ())
}

/// `12, 345, 0, 4096, 0`: milliseconds, a value, the direction.
fn log_lines(
    input: &mut dyn BufRead,
    what: Option<&'static str>,
    samples: &mut Samples<'_>,
) -> Result<(), Error> {
    let mut lines = Lines::new(input, LOG);
    let mut last = None;
    loop {
        let so_far = |samples: &Samples<'_>| format!("{} samples", samples.count());
        let Some(line) = lines.line().map_err(|error| error.after(&so_far(samples)))? else { return Ok(()) };
        let mut fields = line.text.split(',').map(str::trim);
        let mut number = || super::json::number(fields.next()?.as_bytes());
        let row = (number(), number(), number());
        let (Some(ms), Some(value), Some(way)) = row else {
            if line.text.trim().is_empty() {
                continue;
            }
            let reason = "expected milliseconds, a value and a direction, parted by commas";
            return Err(Error::at(LOG, line.place, reason).after(&so_far(samples)));
        };
        let way = match way as u8 {
            0 => "read",
            1 => "write",
            _ => "trim",
        };
        let at = (ms.clamp(0.0, 9e12) * 1e6) as i64;
        if last != Some(at) {
            samples.begin(line.place, Some(at), None)?;
            last = Some(at);
        }
        samples.put(line.place, "", way, value, &|| log_shape(what, way))?;
    }
}

/// Bandwidth is in KiB a second, latency in nanoseconds (fio 3).
fn log_shape(what: Option<&'static str>, way: &str) -> Shape {
    let (name, quantity, scale) = match what {
        Some("bw") => ("throughput", Quantity::BytesPerSecond, 1024.0),
        Some("iops") => ("iops", Quantity::PerSecond, 1.0),
        Some("lat") => ("latency_mean", Quantity::Seconds, 1e-9),
        _ => return meaning::other("fio", "log", way, true),
    };
    let name = format!("{way}_{name}");
    Shape { column: format!("fio.{name}"), name, quantity, scale, counter: None, is_metric: true }
}
