//! fio's report: `--output-format=json+` or `json`, alone or beside `normal`, of fio 3.
//!
//! Rates are computed from fio's counts as fio's own "Run status" lines do it: the bytes of all jobs over the
//! longest job's time (`show_run_stats` in fio's stat.c). So it does not matter whether jobs were reported
//! one by one or with `group_reporting`; `job_runtime`, which that option sums over the jobs, is used for CPU
//! time alone.
//!
//! Latencies are fio's completion latencies (`clat`), reads and writes together. Percentiles come from the
//! merged bins of json+, by fio's own rule (`calc_clat_percentiles`: the first bin at which the running sum
//! reaches the share), so for one job they equal the ones that fio prints. Plain `json` has no bins: there
//! fio's own figures are taken where one job in one direction reported, and several jobs have no percentile.
//!
//! The latencies of fsync and its like (`sync` in the report) are metrics of their own: a write has completed
//! before it is synced. They are left out where fio counts them wrongly.
//!
//! Not a goal: trims, per-priority statistics, fio's interval logs.

pub mod bins;
pub mod jobs;
pub mod text;

use crate::report::{Metrics, ToolError, tail};
use domain::{Metric, Outcome};
use jobs::{Report, Totals};
use serde::Deserialize;
use serde_json::de::IoRead;
use serde_json::error::Category;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

const TOOL: &str = "fio";

/// A bound on the text before the JSON. Warnings take some kilobytes; more is not a report of fio.
const MAX_PREAMBLE: usize = 1 << 20;

/// Reads a report as it comes, so that memory does not grow with its length: thousands of jobs and their bins
/// may take hundreds of megabytes, and this program is to stay below one hundred. At some 100 MB/s that is a
/// fifth of what is possible from memory, and less than a millisecond for the report of a usual job.
///
/// # Errors
/// Where there is no report, it is cut short, fio says that it failed, or nothing was read or written; and
/// where reading fails.
pub fn read(mut report: impl BufRead) -> Result<Outcome, ToolError> {
    let failed = |source| ToolError::Read { tool: TOOL, source };
    let mut preamble = Vec::new();
    let start = loop {
        let before = preamble.len();
        let room = (MAX_PREAMBLE - before) as u64;
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
    // Text after the JSON is left alone: `--output-format=json,normal` puts the other form there.
    let report = Report::deserialize(&mut serde_json::Deserializer::new(IoRead::new(json)))
        .map_err(|error| malformed(&error, read_bytes.get(), at_end.get()))?;
    outcome(report, &String::from_utf8_lossy(&preamble))
}

fn no_report(text: &[u8]) -> ToolError {
    if text.trim_ascii().is_empty() {
        return ToolError::Empty { tool: TOOL };
    }
    ToolError::NoReport { tool: TOOL, wanted: "JSON", tail: tail(&String::from_utf8_lossy(text)) }
}

fn malformed(error: &serde_json::Error, offset: usize, at_end: bool) -> ToolError {
    let text = error.to_string();
    let reason = match error.classify() {
        Category::Io => return ToolError::Read { tool: TOOL, source: io::Error::other(text) },
        Category::Eof | Category::Syntax if at_end => "it ends here, unfinished",
        _ => text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason),
    };
    let (line, column, reason) = (error.line(), error.column(), reason.to_owned());
    ToolError::Malformed { tool: TOOL, offset: offset as u64, line, column, reason }
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
    if jobs.passed_over > 0 {
        warnings.push(format!("{} I/O errors were passed over", jobs.passed_over));
    }
    let tells_sync_latency = jobs.tells_sync_latency(&report.version, report.global.ioengine.as_deref());
    if !tells_sync_latency {
        warnings.push(format!("{}: {SYNC_LATENCY_LEFT_OUT}", report.version));
    }
    Ok(Outcome { metrics: metrics(&jobs, tells_sync_latency)?.0, tool: report.version, warnings })
}

const SYNC_LATENCY_LEFT_OUT: &str = "left out how long calls of fsync took: with libaio, fio 3.31 to 3.40 counts that \
from the write before; psync, io_uring, and fio 3.41 tell it";

/// Why the metrics of jobs that this version of fio ran lack the latencies of calls that sync, where they do.
pub fn why_no_sync_latency(jobs: &Totals, version: &str) -> Option<&'static str> {
    (!jobs.tells_sync_latency(version, None)).then_some(SYNC_LATENCY_LEFT_OUT)
}

/// What the `normal` format says of jobs and versions before it starts; nobody is warned by it.
fn is_banner(line: &str) -> bool {
    line.contains(": (g=") || line.starts_with("fio-") || line.starts_with("Starting ") || line == "..."
}

/// The percentiles that are metrics, and what fio calls them.
pub const PERCENTILES: [(&str, &str, f64); 3] = [
    ("latency_p50", "50.000000", 50.0),
    ("latency_p99", "99.000000", 99.0),
    ("latency_p999", "99.900000", 99.9),
];

/// The same of calls that sync.
const SYNC_PERCENTILES: [(&str, f64); 3] =
    [("sync_latency_p50", 50.0), ("sync_latency_p99", 99.0), ("sync_latency_p999", 99.9)];

/// The metrics of jobs that this version of fio ran, summed; without latencies that it does not tell.
///
/// # Errors
/// Where they did nothing, or for too short a time.
pub fn metrics_of(jobs: &Totals, version: &str) -> Result<BTreeMap<String, Metric>, ToolError> {
    metrics(jobs, jobs.tells_sync_latency(version, None)).map(|metrics| metrics.0)
}

fn metrics(jobs: &Totals, tells_sync_latency: bool) -> Result<Metrics, ToolError> {
    let all = jobs.read.merged(&jobs.write).merged(&jobs.mixed);
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
        (&jobs.read, "read_throughput", "read_iops"),
        (&jobs.write, "write_throughput", "write_iops"),
    ] {
        if flow.bytes > 0 && flow.longest_ms > 0 {
            metrics.put(throughput, flow.bytes as f64 * 1e3 / flow.longest_ms as f64);
            metrics.put(iops, flow.ios as f64 * 1e3 / flow.longest_ms as f64);
        }
    }
    if let Some(mean_ns) = all.latency.mean_ns() {
        metrics.put("latency_mean", mean_ns / 1e9);
    }
    for (name, _, percent) in PERCENTILES {
        if let Some(ns) = all.latency.percentile_ns(percent) {
            metrics.put(name, ns as f64 / 1e9);
        }
    }
    put_syncs(jobs, all.longest_ms, tells_sync_latency, &mut metrics);
    let sums = [
        ("cpu_user", jobs.user_ms, 1.0),
        ("cpu_system", jobs.system_ms, 1.0),
        ("context_switches", jobs.context_switches, 1e3),
    ];
    for (name, sum, scale) in sums {
        if let Some(sum) = sum.0 {
            metrics.put(name, sum * scale / all.longest_ms as f64);
        }
    }
    Ok(metrics)
}

/// How often calls were made that sync, and what each took; nothing where there was none.
fn put_syncs(jobs: &Totals, longest_ms: u64, tells_latency: bool, metrics: &mut Metrics) {
    let Some(mean_ns) = jobs.sync.mean_ns() else { return };
    metrics.put("syncs", jobs.sync.samples() as f64 * 1e3 / longest_ms as f64);
    if !tells_latency {
        return;
    }
    metrics.put("sync_latency_mean", mean_ns / 1e9);
    for (name, percent) in SYNC_PERCENTILES {
        if let Some(ns) = jobs.sync.percentile_ns(percent) {
            metrics.put(name, ns as f64 / 1e9);
        }
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
mod tests;
