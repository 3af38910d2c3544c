//! fio's report: `--output-format=json+` or `json`, alone or beside `normal`, of fio 3.
//!
//! Rates are computed from fio's counts as fio's own "Run status" lines do it: the bytes of all jobs over the
//! longest job's time (`show_run_stats` in fio's stat.c). So it does not matter whether jobs were reported one
//! by one or with `group_reporting`; `job_runtime`, which that option sums over the jobs, is used for CPU time alone.
//!
//! Latencies are fio's completion latencies (`clat`), reads and writes together. Percentiles come from the merged
//! bins of json+, by fio's own rule (`calc_clat_percentiles`: the first bin at which the running sum reaches
//! the share), so for one job they equal the ones that fio prints. Plain `json` has no bins: there fio's own
//! figures are taken where one job in one direction reported, and several jobs have no percentile.
//!
//! Not a goal: trims, syncs, per-priority statistics, fio's interval logs.

use super::{Metrics, ToolError, tail};
use domain::Outcome;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::de::{IoRead, Read as JsonRead, SliceRead};
use serde_json::error::Category;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, Read};

const TOOL: &str = "fio";

/// A bound on the text before the JSON. Warnings take some kilobytes; more is not a report of fio.
const MOST_PREAMBLE: usize = 1 << 20;

/// Reads a report that is in memory; see [`read`] for one that is not.
///
/// # Errors
/// Where there is no report, it is cut short, fio says that it failed, or nothing was read or written.
pub fn parse(report: &[u8]) -> Result<Outcome, ToolError> {
    let start = json_start(report).ok_or_else(|| no_report(report))?;
    let (preamble, json) = report.split_at(start);
    let report = deserialize(SliceRead::new(json)).map_err(|error| {
        let lines_before = error.line().saturating_sub(1);
        let line_starts = json.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        let line_start = std::iter::once(0).chain(line_starts).nth(lines_before).unwrap_or(json.len());
        let offset = line_start + error.column();
        malformed(&error, Stop { offset: start + offset, at_end: offset >= json.len() })
    })?;
    outcome(report, &String::from_utf8_lossy(preamble))
}

/// Reads a report as it comes: memory does not grow with the number of jobs.
///
/// # Errors
/// As [`parse`], and where reading fails.
pub fn read(mut report: impl BufRead) -> Result<Outcome, ToolError> {
    let failed = |source| ToolError::Read { tool: TOOL, source };
    let mut preamble = Vec::new();
    let start = loop {
        let before = preamble.len();
        let room = (MOST_PREAMBLE - before) as u64;
        report.by_ref().take(room).read_until(b'\n', &mut preamble).map_err(failed)?;
        if preamble[before..].starts_with(b"{") {
            break before;
        }
        if preamble.len() == before {
            return Err(no_report(&preamble));
        }
    };
    let first_line = preamble.split_off(start);
    let (read_bytes, at_end) = (Cell::new(start), Cell::new(false));
    let json = Counted { inner: (&first_line[..]).chain(report), bytes: &read_bytes, at_end: &at_end };
    let report = deserialize(IoRead::new(json))
        .map_err(|error| malformed(&error, Stop { offset: read_bytes.get(), at_end: at_end.get() }))?;
    outcome(report, &String::from_utf8_lossy(&preamble))
}

/// Where the JSON begins: at the first line that opens with a brace.
fn json_start(report: &[u8]) -> Option<usize> {
    if report.starts_with(b"{") {
        return Some(0);
    }
    let searched = &report[..report.len().min(MOST_PREAMBLE)];
    searched.windows(2).position(|pair| pair == b"\n{").map(|at| at + 1)
}

fn no_report(text: &[u8]) -> ToolError {
    if text.trim_ascii().is_empty() {
        return ToolError::Empty { tool: TOOL };
    }
    ToolError::NoReport { tool: TOOL, wanted: "JSON", tail: tail(&String::from_utf8_lossy(text)) }
}

/// Text after the JSON is left alone: `--output-format=json,normal` puts the other form there.
fn deserialize<'de>(input: impl JsonRead<'de>) -> Result<Report, serde_json::Error> {
    Report::deserialize(&mut serde_json::Deserializer::new(input))
}

/// Where reading stopped.
struct Stop {
    offset: usize,
    at_end: bool,
}

fn malformed(error: &serde_json::Error, stop: Stop) -> ToolError {
    let text = error.to_string();
    let reason = match error.classify() {
        Category::Io => return ToolError::Read { tool: TOOL, source: io::Error::other(text) },
        Category::Eof | Category::Syntax if stop.at_end => "it ends here, unfinished",
        _ => text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason),
    };
    let (line, column, reason) = (error.line(), error.column(), reason.to_owned());
    ToolError::Malformed { tool: TOOL, offset: stop.offset as u64, line, column, reason }
}

fn outcome(report: Report, preamble: &str) -> Result<Outcome, ToolError> {
    let jobs = report.jobs;
    let notes: Vec<&str> =
        preamble.lines().map(str::trim).filter(|line| !line.is_empty() && !is_banner(line)).collect();
    if let Some((job, errno)) = &jobs.failed {
        let own_words = notes.iter().find(|line| line.contains("error="));
        let reason = own_words.map_or_else(
            || io::Error::from_raw_os_error(*errno).to_string(),
            |line| line.trim_start_matches("fio: ").to_owned(),
        );
        return Err(ToolError::Failed { tool: TOOL, message: format!("job `{job}`: {reason}") });
    }
    let mut warnings: Vec<String> = notes.into_iter().map(str::to_owned).collect();
    warnings.extend(jobs.passed_over.iter().cloned());
    Ok(Outcome { metrics: jobs.metrics()?.0, tool: report.version, warnings })
}

/// What the `normal` format says of jobs and versions before it starts; nobody is warned by it.
fn is_banner(line: &str) -> bool {
    line.contains(": (g=") || line.starts_with("fio-") || line.starts_with("Starting ") || line == "..."
}

impl Totals {
    fn metrics(&self) -> Result<Metrics, ToolError> {
        let all = self.read.merged(&self.write).merged(&self.mixed);
        if all.bytes == 0 {
            return Err(ToolError::NothingDone { tool: TOOL });
        }
        if all.longest_ms == 0 {
            return Err(ToolError::TooShort { tool: TOOL });
        }
        let mut metrics = Metrics::default();
        metrics.put("elapsed", all.longest_ms as f64 / 1e3);
        for (flow, throughput, iops) in [
            (&all, "throughput", "iops"),
            (&self.read, "read_throughput", "read_iops"),
            (&self.write, "write_throughput", "write_iops"),
        ] {
            if flow.bytes > 0 && flow.longest_ms > 0 {
                metrics.put(throughput, flow.bytes as f64 * 1e3 / flow.longest_ms as f64);
                metrics.put(iops, flow.ios as f64 * 1e3 / flow.longest_ms as f64);
            }
        }
        if let Some(mean_ns) = all.latency.mean_ns() {
            metrics.put("latency_mean", mean_ns / 1e9);
        }
        for (name, percent) in [("latency_p50", 50.0), ("latency_p99", 99.0), ("latency_p999", 99.9)] {
            if let Some(ns) = all.latency.percentile_ns(percent) {
                metrics.put(name, ns as f64 / 1e9);
            }
        }
        metrics.put("cpu_user", self.user_ms / all.longest_ms as f64);
        metrics.put("cpu_system", self.system_ms / all.longest_ms as f64);
        metrics.put("context_switches", self.context_switches as f64 * 1e3 / all.longest_ms as f64);
        Ok(metrics)
    }
}

/// The report, with its jobs already summed.
#[derive(Deserialize)]
struct Report {
    #[serde(rename = "fio version")]
    version: String,
    jobs: Totals,
}

/// The sum over all jobs.
#[derive(Default)]
struct Totals {
    read: Flow,
    write: Flow,
    /// Reads and writes together, with `unified_rw_reporting`.
    mixed: Flow,
    user_ms: f64,
    system_ms: f64,
    context_switches: u64,
    /// The first job that failed, and its errno.
    failed: Option<(String, i32)>,
    /// What `continue_on_error` let pass, a sentence a job.
    passed_over: Vec<String>,
}

/// What went one way.
#[derive(Clone, Default)]
struct Flow {
    bytes: u64,
    ios: u64,
    longest_ms: u64,
    latency: Latencies,
}

/// Completion latencies of several jobs.
#[derive(Clone, Default)]
struct Latencies {
    sum_ns: f64,
    samples: u64,
    /// Middle of the bin in nanoseconds, to the number of samples in it.
    bins: BTreeMap<u64, u64>,
    /// Whether each job that has samples also has bins.
    lacks_bins: bool,
    /// How many jobs and directions have samples.
    sources: usize,
    /// fio's own percentiles of the last of them.
    reported: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    error: i32,
    job_runtime: u64,
    usr_cpu: f64,
    sys_cpu: f64,
    ctx: u64,
    read: Option<Direction>,
    write: Option<Direction>,
    mixed: Option<Direction>,
    total_err: Option<u64>,
}

#[derive(Deserialize)]
struct Direction {
    io_bytes: u64,
    total_ios: u64,
    /// In milliseconds.
    runtime: u64,
    clat_ns: Latency,
}

#[derive(Deserialize)]
struct Latency {
    mean: f64,
    #[serde(rename = "N")]
    samples: u64,
    #[serde(default)]
    percentile: BTreeMap<String, u64>,
    #[serde(default)]
    bins: BTreeMap<u64, u64>,
}

impl<'de> Deserialize<'de> for Totals {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(JobsVisitor)
    }
}

/// Sums the jobs up one by one, so that they are never all in memory.
struct JobsVisitor;

impl<'de> Visitor<'de> for JobsVisitor {
    type Value = Totals;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the jobs of a fio report")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut jobs: A) -> Result<Totals, A::Error> {
        let mut totals = Totals::default();
        while let Some(job) = jobs.next_element::<Job>()? {
            totals.add(job);
        }
        Ok(totals)
    }
}

impl Totals {
    fn add(&mut self, job: Job) {
        // With `unified_rw_reporting=both`, `mixed` repeats what `read` and `write` say.
        let mixed = if job.read.is_none() && job.write.is_none() { job.mixed } else { None };
        for (flow, direction) in
            [(&mut self.read, job.read), (&mut self.write, job.write), (&mut self.mixed, mixed)]
        {
            if let Some(direction) = direction {
                flow.add(direction);
            }
        }
        self.user_ms += job.usr_cpu / 100.0 * job.job_runtime as f64;
        self.system_ms += job.sys_cpu / 100.0 * job.job_runtime as f64;
        self.context_switches = self.context_switches.saturating_add(job.ctx);
        if let Some(errors) = job.total_err.filter(|n| *n > 0) {
            self.passed_over.push(format!("job `{}` passed over {errors} I/O errors", job.jobname));
        }
        if job.error != 0 && self.failed.is_none() {
            self.failed = Some((job.jobname, job.error));
        }
    }
}

impl Flow {
    fn add(&mut self, direction: Direction) {
        self.bytes = self.bytes.saturating_add(direction.io_bytes);
        self.ios = self.ios.saturating_add(direction.total_ios);
        self.longest_ms = self.longest_ms.max(direction.runtime);
        self.latency.add(direction.clat_ns);
    }

    fn merged(&self, other: &Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            ios: self.ios.saturating_add(other.ios),
            longest_ms: self.longest_ms.max(other.longest_ms),
            latency: self.latency.merged(&other.latency),
        }
    }
}

impl Latencies {
    fn add(&mut self, latency: Latency) {
        if latency.samples == 0 {
            return;
        }
        self.sum_ns += latency.mean * latency.samples as f64;
        self.samples = self.samples.saturating_add(latency.samples);
        self.lacks_bins |= latency.bins.is_empty();
        self.sources += 1;
        self.reported = latency.percentile;
        self.add_bins(&latency.bins);
    }

    fn add_bins(&mut self, bins: &BTreeMap<u64, u64>) {
        for (middle_ns, count) in bins {
            let sum = self.bins.entry(*middle_ns).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    fn merged(&self, other: &Self) -> Self {
        let mut merged = self.clone();
        merged.sum_ns += other.sum_ns;
        merged.samples = merged.samples.saturating_add(other.samples);
        merged.lacks_bins |= other.lacks_bins;
        merged.sources += other.sources;
        if self.sources == 0 {
            merged.reported = other.reported.clone();
        }
        merged.add_bins(&other.bins);
        merged
    }

    fn mean_ns(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum_ns / self.samples as f64)
    }

    fn percentile_ns(&self, percent: f64) -> Option<u64> {
        if self.lacks_bins {
            let own = self.reported.get(&format!("{percent:.6}")).copied();
            return own.filter(|_| self.sources == 1);
        }
        let total: u64 = self.bins.values().fold(0, |sum, n| sum.saturating_add(*n));
        let wanted = percent / 100.0 * total as f64;
        let mut sum = 0_u64;
        let reaches = |(_, count): &(&u64, &u64)| {
            sum = sum.saturating_add(**count);
            sum as f64 >= wanted
        };
        self.bins.iter().find(reaches).map(|(middle_ns, _)| *middle_ns)
    }
}

/// Counts what passes, for the offset of an error.
struct Counted<'a, R> {
    inner: R,
    bytes: &'a Cell<usize>,
    at_end: &'a Cell<bool>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes.set(self.bytes.get() + count);
        self.at_end.set(count == 0);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::shown;
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    macro_rules! fixture {
        ($name:literal) => {
            &include_bytes!(concat!("../../../../fixtures/tools/fio/", $name, ".json"))[..]
        };
    }

    fn check(report: &[u8], expected: Expect) {
        expected.assert_eq(&shown(parse(report)));
    }

    fn value(report: &[u8], metric: &str) -> f64 {
        parse(report).unwrap().metrics[metric].value
    }

    #[test]
    fn a_read_has_no_figures_of_writes() {
        check(
            fixture!("read-3.33"),
            expect![[r#"
            fio-3.33
            context_switches = 446 /s
            cpu_system = 27.2%
            cpu_user = 0%
            elapsed = 202 ms
            iops = 17.4 k/s
            latency_mean = 56.0 µs
            latency_p50 = 9.41 µs
            latency_p99 = 2.18 ms
            latency_p999 = 3.49 ms
            read_iops = 17.4 k/s
            read_throughput = 2.28 GB/s
            throughput = 2.28 GB/s
        "#]],
        );
    }

    #[test]
    fn a_write_at_depth_is_read() {
        check(
            fixture!("write-3.33"),
            expect![[r#"
            fio-3.33
            context_switches = 990 /s
            cpu_system = 7.46%
            cpu_user = 7.46%
            elapsed = 201 ms
            iops = 3.94 k/s
            latency_mean = 976 µs
            latency_p50 = 963 µs
            latency_p99 = 1.65 ms
            latency_p999 = 2.64 ms
            throughput = 4.13 GB/s
            write_iops = 3.94 k/s
            write_throughput = 4.13 GB/s
        "#]],
        );
    }

    #[test]
    fn reads_and_writes_are_told_apart_and_summed() {
        check(
            fixture!("mixed-3.33"),
            expect![[r#"
            fio-3.33
            context_switches = 40.4 k/s
            cpu_system = 23.9%
            cpu_user = 0%
            elapsed = 201 ms
            iops = 40.4 k/s
            latency_mean = 24.2 µs
            latency_p50 = 15.3 µs
            latency_p99 = 36.6 µs
            latency_p999 = 453 µs
            read_iops = 20.0 k/s
            read_throughput = 82.0 MB/s
            throughput = 166 MB/s
            write_iops = 20.4 k/s
            write_throughput = 83.7 MB/s
        "#]],
        );
    }

    #[test]
    fn jobs_of_their_own_are_summed() {
        check(
            fixture!("four-jobs-3.33"),
            expect![[r#"
            fio-3.33
            context_switches = 88.6 k/s
            cpu_system = 38.8%
            cpu_user = 14.4%
            elapsed = 201 ms
            iops = 88.6 k/s
            latency_mean = 44.4 µs
            latency_p50 = 42.2 µs
            latency_p99 = 69.1 µs
            latency_p999 = 465 µs
            read_iops = 43.3 k/s
            read_throughput = 178 MB/s
            throughput = 363 MB/s
            write_iops = 45.2 k/s
            write_throughput = 185 MB/s
        "#]],
        );
    }

    #[test]
    fn a_group_of_jobs_has_the_same_figures_as_its_jobs() {
        let (jobs, group) = (fixture!("four-jobs-3.33"), fixture!("four-jobs-grouped-3.33"));
        // Two runs of one workload on a shared machine: within a factor, where a wrong sum is off by four.
        for metric in ["throughput", "elapsed", "latency_mean", "cpu_system", "context_switches"] {
            let ratio = value(jobs, metric) / value(group, metric);
            assert!((0.5..2.0).contains(&ratio), "{metric}: {ratio}");
        }
    }

    #[test]
    fn percentiles_from_bins_are_the_ones_that_fio_prints() {
        for report in [fixture!("read-3.33"), fixture!("write-3.39"), fixture!("four-jobs-grouped-3.39")] {
            let json: serde_json::Value = serde_json::from_slice(report).unwrap();
            for direction in ["read", "write"] {
                let clat = json["jobs"][0][direction]["clat_ns"].clone();
                let Ok(latency) = serde_json::from_value::<Latency>(clat) else { continue };
                let own = latency.percentile.clone();
                let mut latencies = Latencies::default();
                latencies.add(latency);
                for (percent, ns) in own {
                    let percent: f64 = percent.parse().unwrap();
                    assert_eq!(latencies.percentile_ns(percent), Some(ns), "{direction} {percent}");
                }
            }
        }
    }

    #[test]
    fn fio_3_39_is_read_as_3_33_is() {
        check(
            fixture!("mixed-3.39"),
            expect![[r#"
            fio-3.39
            context_switches = 36.9 k/s
            cpu_system = 25.4%
            cpu_user = 1.99%
            elapsed = 201 ms
            iops = 36.9 k/s
            latency_mean = 26.5 µs
            latency_p50 = 29.3 µs
            latency_p99 = 49.4 µs
            latency_p999 = 313 µs
            read_iops = 18.1 k/s
            read_throughput = 74.3 MB/s
            throughput = 151 MB/s
            write_iops = 18.8 k/s
            write_throughput = 76.8 MB/s
        "#]],
        );
        for report in [fixture!("read-3.39"), fixture!("four-jobs-3.39"), fixture!("four-jobs-grouped-3.39")]
        {
            assert_eq!(parse(report).unwrap().tool, "fio-3.39");
        }
    }

    #[test]
    fn the_normal_form_around_the_json_is_left_alone() {
        check(
            fixture!("json-normal-3.33"),
            expect![[r#"
            fio-3.33
            context_switches = 51.3 k/s
            cpu_system = 27.4%
            cpu_user = 1.99%
            elapsed = 201 ms
            iops = 51.3 k/s
            latency_mean = 19.0 µs
            latency_p50 = 16.8 µs
            latency_p99 = 33.5 µs
            latency_p999 = 118 µs
            read_iops = 51.3 k/s
            read_throughput = 210 MB/s
            throughput = 210 MB/s
        "#]],
        );
        assert_eq!(parse(fixture!("json-normal-3.39")).unwrap().warnings, [""; 0]);
    }

    #[test]
    fn jobs_without_bins_have_no_percentile_together() {
        let outcome = parse(fixture!("four-jobs-plain-3.33")).unwrap();
        assert!(outcome.metrics.contains_key("latency_mean"));
        assert!(!outcome.metrics.contains_key("latency_p99"));
    }

    #[test]
    fn latency_that_fio_did_not_measure_is_absent() {
        let outcome = parse(fixture!("no-clat-3.33")).unwrap();
        assert!(outcome.metrics.contains_key("throughput"));
        assert!(!outcome.metrics.keys().any(|name| name.starts_with("latency")));
    }

    #[test]
    fn unified_reporting_has_sums_and_no_directions() {
        let outcome = parse(fixture!("unified-3.33")).unwrap();
        assert!(outcome.metrics.contains_key("throughput") && outcome.metrics.contains_key("latency_p99"));
        assert!(!outcome.metrics.contains_key("read_throughput"));
    }

    #[test]
    fn a_note_before_the_json_is_a_warning() {
        let warned = [
            "note: both iodepth >= 1 and synchronous I/O engine are selected, queue depth will be capped at 1",
        ];
        assert_eq!(parse(fixture!("warning-3.33")).unwrap().warnings, warned);
        assert_eq!(parse(fixture!("warning-3.39")).unwrap().warnings, warned);
    }

    #[test]
    fn a_failed_job_fails_in_fios_own_words() {
        check(
            fixture!("no-space-3.33"),
            expect![[r#"
            fio failed: job `nospace`: pid=19375, err=28/file:io_u.c:1876, func=io_u error, error=No space left on device
        "#]],
        );
        check(
            fixture!("no-space-3.39"),
            expect![[r#"
            fio failed: job `nospace`: pid=19649, err=28/file:io_u.c:1976, func=io_u error, error=No space left on device
        "#]],
        );
        check(
            fixture!("missing-file-3.33"),
            expect![[r#"
            fio neither read nor wrote anything; check its size, count and runtime options, and that it is a reading or writing workload
        "#]],
        );
    }

    #[test]
    fn a_complaint_without_a_report_is_shown() {
        check(
            fixture!("bad-option-3.33"),
            expect![[r#"
            cannot read the report of fio: it holds no JSON; the text ends with `and write mix | : readwrite  Sequential read and write mix | : randrw     Random read and write mix | : trimwrite  Trim and write mix, trims preceding writes | : randtrimwrite Randomly trim and write mix, trims preceding writes`; see what fio wrote to its standard error
        "#]],
        );
        check(
            fixture!("engine-missing-3.39"),
            expect![[r#"
            cannot read the report of fio: it holds no JSON; the text ends with `fio: file:ioengines.c:135, func=dlopen, error=libaio: cannot open shared object file: No such file or directory`; see what fio wrote to its standard error
        "#]],
        );
        check(
            b"",
            expect![[r#"
            cannot read the report of fio: it is empty; see what fio wrote to its standard error
        "#]],
        );
        check(
            b"{}",
            expect![[r#"
            cannot read the report of fio: byte 2 (line 1, column 2 of its JSON): missing field `fio version`; was fio killed, or the disk full? run the trial again
        "#]],
        );
    }

    #[test]
    fn a_report_that_is_cut_short_names_the_byte() {
        check(
            &fixture!("read-3.33")[..5000],
            expect![[r#"
                cannot read the report of fio: byte 5000 (line 195, column 18 of its JSON): it ends here, unfinished; was fio killed, or the disk full? run the trial again
            "#]],
        );
        check(
            b"note: x\n{\n  \"jobs\" : [\n  nan ]",
            expect![[r#"
            cannot read the report of fio: byte 27 (line 3, column 4 of its JSON): expected ident; was fio killed, or the disk full? run the trial again
        "#]],
        );
    }

    #[test]
    fn no_input_or_output_is_no_rate() {
        let idle = r#"{"fio version": "fio-3.33", "jobs": []}"#;
        check(
            idle.as_bytes(),
            expect![[r#"
            fio neither read nor wrote anything; check its size, count and runtime options, and that it is a reading or writing workload
        "#]],
        );
    }

    #[test]
    fn a_stream_is_read_as_memory_is() {
        for report in [fixture!("four-jobs-3.33"), fixture!("warning-3.39"), fixture!("json-normal-3.33")] {
            assert_eq!(read(report).unwrap(), parse(report).unwrap());
        }
        for report in
            [fixture!("no-space-3.33"), fixture!("bad-option-3.33"), &fixture!("read-3.33")[..5000], b""]
        {
            assert_eq!(read(report).unwrap_err().to_string(), parse(report).unwrap_err().to_string());
        }
    }

    #[test]
    fn endless_text_without_a_report_is_given_up() {
        let endless = io::BufReader::new(io::repeat(b'x'));
        assert!(matches!(read(endless), Err(ToolError::NoReport { .. })));
    }

    proptest! {
        #[test]
        fn a_report_cut_anywhere_is_an_error_or_the_same_outcome(at in 0_usize..13_541) {
            let whole = fixture!("read-3.33");
            match parse(&whole[..at]) {
                Ok(outcome) => prop_assert_eq!(outcome, parse(whole).unwrap()),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }

        #[test]
        fn damaged_bytes_never_make_it_panic(at in 0_usize..13_541, byte: u8) {
            let mut report = fixture!("read-3.33").to_vec();
            report[at] = byte;
            let _ = (parse(&report), read(&report[..]));
        }
    }
}
