//! The JSON of a report, its jobs summed while they are read.

use super::super::version;
use super::bins::Bins;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The report, with its jobs already summed.
#[derive(Deserialize)]
pub(super) struct Report {
    #[serde(rename = "fio version")]
    pub(super) version: String,
    #[serde(rename = "global options", default)]
    pub(super) global: Options,
    pub(super) jobs: Totals,
}

/// Of the options that a report repeats, those that decide what its figures mean.
#[derive(Default, Deserialize)]
#[serde(from = "BTreeMap<String, serde_json::Value>")]
pub struct Options {
    /// The engine, where it was given.
    pub ioengine: Option<String>,
}

impl From<BTreeMap<String, serde_json::Value>> for Options {
    /// An option that was given twice is there twice, and the last one counts.
    fn from(all: BTreeMap<String, serde_json::Value>) -> Self {
        Self { ioengine: all.get("ioengine").and_then(|value| value.as_str()).map(str::to_owned) }
    }
}

/// The sum over all jobs.
#[derive(Default)]
pub struct Totals {
    pub(super) read: Flow,
    pub(super) write: Flow,
    /// Reads and writes together, with `unified_rw_reporting`.
    pub(super) mixed: Flow,
    /// fsync, fdatasync and sync_file_range, of all jobs.
    pub(super) sync: Latencies,
    /// The engines of jobs that have some; `None` for one that has no such option of its own.
    syncing_engines: BTreeSet<Option<String>>,
    pub(super) user_ms: Sum,
    pub(super) system_ms: Sum,
    pub(super) context_switches: Sum,
    /// The first job that failed, and its errno.
    pub failed: Option<(String, i32)>,
    /// How many I/O errors `continue_on_error` let pass.
    pub(super) passed_over: u64,
}

/// A sum, which is unknown once a part of it is.
#[derive(Clone, Copy)]
pub(super) struct Sum(pub(super) Option<f64>);

impl Default for Sum {
    fn default() -> Self {
        Self(Some(0.0))
    }
}

impl Sum {
    fn add(&mut self, part: Option<f64>) {
        self.0 = self.0.zip(part).map(|(sum, part)| sum + part);
    }
}

/// What went one way.
#[derive(Clone, Default)]
pub struct Flow {
    pub(super) bytes: u64,
    pub(super) ios: u64,
    pub(super) longest_ms: u64,
    pub(super) latency: Latencies,
}

/// Completion latencies of several jobs.
#[derive(Clone, Default)]
pub(super) struct Latencies {
    sum_ns: f64,
    samples: u64,
    bins: Bins,
    /// Whether each job that has samples also has bins.
    lacks_bins: bool,
    /// How many jobs and directions have samples.
    sources: usize,
    /// fio's own percentiles of the last of them.
    reported: BTreeMap<String, u64>,
}

/// What fio reports of one job, or of a group of them.
#[derive(Default, Deserialize)]
pub struct Job {
    /// Its name in the job file.
    pub jobname: String,
    /// The errno that it ended with; 0 for none.
    pub error: i32,
    /// In milliseconds; summed over the jobs of a group.
    pub job_runtime: u64,
    /// In percent.
    pub usr_cpu: Option<f64>,
    /// In percent.
    pub sys_cpu: Option<f64>,
    /// Context switches.
    pub ctx: Option<u64>,
    /// What was read.
    pub read: Option<Direction>,
    /// What was written.
    pub write: Option<Direction>,
    /// Both, with `unified_rw_reporting`.
    pub mixed: Option<Direction>,
    /// What it synced; absent before fio 3.
    pub sync: Option<Syncs>,
    /// I/O errors that `continue_on_error` let pass.
    pub total_err: Option<u64>,
    /// Its own options.
    #[serde(rename = "job options", default)]
    pub options: Options,
}

/// The calls of fsync, fdatasync and sync_file_range of a job.
#[derive(Default, Deserialize)]
pub struct Syncs {
    /// How long each took.
    #[serde(default)]
    pub lat_ns: Latency,
}

/// What a job did in one direction.
#[derive(Default, Deserialize)]
pub struct Direction {
    /// Bytes.
    pub io_bytes: u64,
    /// Requests.
    pub total_ios: u64,
    /// In milliseconds.
    pub runtime: u64,
    /// Completion latency.
    pub clat_ns: Latency,
}

/// A distribution of latencies, in nanoseconds.
#[derive(Default, Deserialize)]
pub struct Latency {
    /// Their mean.
    pub mean: f64,
    /// How many there are.
    #[serde(rename = "N")]
    pub samples: u64,
    /// fio's own percentiles, by fio's own names.
    #[serde(default)]
    pub percentile: BTreeMap<String, u64>,
    /// The bins of json+.
    #[serde(default)]
    pub bins: Bins,
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
    /// Adds a job.
    pub fn add(&mut self, job: Job) {
        // With `unified_rw_reporting=both`, `mixed` repeats what `read` and `write` say.
        let mixed = if job.read.is_none() && job.write.is_none() { job.mixed } else { None };
        for (flow, direction) in
            [(&mut self.read, job.read), (&mut self.write, job.write), (&mut self.mixed, mixed)]
        {
            if let Some(direction) = direction {
                flow.add(direction);
            }
        }
        if let Some(syncs) = job.sync.filter(|syncs| syncs.lat_ns.samples > 0) {
            self.sync.add(syncs.lat_ns);
            self.syncing_engines.insert(job.options.ioengine);
        }
        let time = |percent: Option<f64>| percent.map(|percent| percent / 100.0 * job.job_runtime as f64);
        self.user_ms.add(time(job.usr_cpu));
        self.system_ms.add(time(job.sys_cpu));
        self.context_switches.add(job.ctx.map(|count| count as f64));
        self.passed_over = self.passed_over.saturating_add(job.total_err.unwrap_or(0));
        if job.error != 0 && self.failed.is_none() {
            self.failed = Some((job.jobname, job.error));
        }
    }

    /// Whether the latency of each sync is told by this version of fio, whose engine is `default` for jobs
    /// that name none.
    pub(super) fn tells_sync_latency(&self, version: &str, default: Option<&str>) -> bool {
        let mut engines = self.syncing_engines.iter().map(|engine| engine.as_deref().or(default));
        engines.all(|engine| version::tells_sync_latency(version, engine))
    }
}

impl Flow {
    fn add(&mut self, direction: Direction) {
        self.bytes = self.bytes.saturating_add(direction.io_bytes);
        self.ios = self.ios.saturating_add(direction.total_ios);
        self.longest_ms = self.longest_ms.max(direction.runtime);
        self.latency.add(direction.clat_ns);
    }

    pub(super) fn merged(&self, other: &Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            ios: self.ios.saturating_add(other.ios),
            longest_ms: self.longest_ms.max(other.longest_ms),
            latency: self.latency.merged(&other.latency),
        }
    }
}

impl Latencies {
    pub(super) fn add(&mut self, latency: Latency) {
        if latency.samples == 0 {
            return;
        }
        self.sum_ns += latency.mean * latency.samples as f64;
        self.samples = self.samples.saturating_add(latency.samples);
        self.lacks_bins |= latency.bins.is_empty();
        self.sources += 1;
        self.reported = latency.percentile;
        if self.bins.is_empty() {
            self.bins = latency.bins;
        } else {
            self.bins.add(&latency.bins);
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
        merged.bins.add(&other.bins);
        merged
    }

    /// How many there are.
    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    pub(super) fn mean_ns(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum_ns / self.samples as f64)
    }

    pub(super) fn percentile_ns(&self, percent: f64) -> Option<u64> {
        if self.lacks_bins {
            let own = self.reported.get(&format!("{percent:.6}")).copied();
            return own.filter(|_| self.sources == 1);
        }
        self.bins.at(percent / 100.0)
    }
}
