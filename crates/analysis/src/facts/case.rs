//! A run with its machine, and what is asked of its cells: options, accesses, figures.

use super::used;
use crate::facts::usage::Usage;
use crate::stats::quantile::median;
use crate::summarise::keys;
use crate::summary::{CellSummary, Comparison, Point, RunData, RunSummary, Verdict};
use domain::access::AccessPattern;
use domain::finding::{Evidence, Gain};
use domain::ids::TrialKey;
use domain::inventory::{BlockDevice, Inventory};
use domain::outcome::Better;
use domain::plan::{Cell, Plan};
use domain::trace::Role;
use domain::trial::{Measurement, Trial};
use domain::units::Bytes;
use workloads::{Direction, Profile};

/// A measured run, and what is known of the machine that it ran on.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The run.
    pub data: &'a RunData,
    /// The same as numbers.
    pub summary: &'a RunSummary,
    /// The machine, where it was inspected.
    pub inventory: Option<&'a Inventory>,
    /// The block device below the workloads' target: `vda`, `loop0`; `None` where there is none or it is not
    /// known.
    pub target_device: Option<&'a str>,
    /// How busy the machine was during trials that watched it: recordings, imported traces, and trials of a
    /// study of one cell. Of other studies nothing is needed here: their cells are compared.
    pub usages: &'a [(TrialKey, Usage)],
}

impl<'a> Case<'a> {
    /// A run without its machine.
    pub fn new(data: &'a RunData, summary: &'a RunSummary) -> Self {
        Self { data, summary, inventory: None, target_device: None, usages: &[] }
    }

    /// The cells that have a valid trial, with the options that they ran with.
    pub(crate) fn cells(&self) -> Vec<CaseCell<'a>> {
        let is_recorded = self.data.study.is_recording();
        let plan = Plan::new(self.data.study.clone(), self.data.run.seed);
        let cells = plan.map(|plan| plan.cells).unwrap_or_default().into_iter();
        let with_trials = cells.map(|cell| {
            let summary = self.summary.cells.iter().find(|s| s.cell == cell.id);
            let own = self.data.trials.iter().filter(|t| t.key.cell == cell.id && t.validity.is_valid());
            let own: Vec<&Trial> = own.collect();
            let device = self.target_device.or_else(|| used::most_used(self.inventory, &own));
            CaseCell { cell, summary, trials: own, device, is_recorded }
        });
        with_trials.filter(|cell| !cell.trials.is_empty()).collect()
    }

    /// The largest of these shares over all trials that were watched, with its usage and the trial.
    pub(crate) fn worst_usage(
        &self,
        share: impl Fn(&Usage) -> Option<f64>,
    ) -> Option<(String, &'a Usage, f64)> {
        let shares = self.usages.iter().filter_map(|(key, usage)| Some((key, usage, share(usage)?)));
        let (key, usage, share) = shares.max_by(|(.., a), (.., b)| a.total_cmp(b))?;
        Some((format!("trace of {}", key.folder()), usage, share))
    }

    /// The share of all CPUs' time that the command or process used which was watched, and that share with
    /// the kernel's threads, which work for it too; `None` where the whole machine was watched.
    pub(crate) fn own_share(&self, usage: &Usage) -> Option<(f64, f64)> {
        let (key, _) = self.usages.iter().find(|(_, known)| std::ptr::eq(known, usage))?;
        let trial = self.data.trials.iter().find(|trial| trial.key == *key)?;
        let measured = trial.measurement.as_ref()?;
        let own = measured.roles.get(&Role::Workload)?;
        let programs = [Role::Other, Role::Flyball, Role::Beside];
        let no_program = measured.roles.iter().filter(|(role, _)| !programs.contains(role));
        let with_kernel: f64 = no_program.map(|(_, used)| used.secs()).sum();
        let all = measured.duration.secs() * usage.cpus.len() as f64;
        (all > 0.0).then(|| (own.secs() / all, with_kernel / all))
    }

    /// The device below the target, as the inventory has it.
    pub(crate) fn device(&self) -> Option<&'a BlockDevice> {
        self.inventory?.device(self.target_device?)
    }
}

/// A cell with its valid trials.
#[derive(Clone, Debug)]
pub(crate) struct CaseCell<'a> {
    pub cell: Cell,
    pub summary: Option<&'a CellSummary>,
    pub trials: Vec<&'a Trial>,
    /// The run's target device, for trials that do not name their own.
    device: Option<&'a str>,
    /// Whether it is no cell of a study.
    is_recorded: bool,
}

impl<'a> CaseCell<'a> {
    pub(crate) fn points(&self) -> &'a [Point] {
        self.summary.map_or(&[], |summary| summary.points.as_slice())
    }

    /// Whether it is a recording: its rates are those of the disks, and of no tool.
    pub(crate) const fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// How a sentence calls it: by its levels, or what was recorded by no name that tells anything.
    pub(crate) fn named(&self) -> &str {
        if self.is_recorded { "the load" } else { self.cell.id.as_str() }
    }

    /// The block device below this cell's target: where a study builds its storage, cells differ in it.
    pub(crate) fn device(&self) -> Option<&'a str> {
        let own = self.trials.iter().find_map(|trial| trial.environment.get("device"));
        own.map(String::as_str).or(self.device)
    }

    /// The value of the first of these options that is set; a name and its aliases.
    pub(crate) fn option(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.cell.workload.options.get(*name)).map(String::as_str)
    }

    pub(crate) fn is_fio(&self) -> bool {
        workloads::fio::is_job(&self.cell.workload)
    }

    /// Whether it waits for its writes to be on the medium: fio's options.
    pub(crate) fn is_synced(&self) -> bool {
        let is_set = |name: &&str| self.option(&[name]).is_some_and(|value| value != "0");
        self.is_fio() && ["fsync", "fdatasync", "sync"].iter().any(is_set)
    }

    /// How many bytes its jobs keep in flight; `None` where nothing tells, infinite for writes into the page
    /// cache, which wait for nobody.
    pub(crate) fn bytes_in_flight(&self) -> Option<f64> {
        if self.writes_behind() {
            return Some(f64::INFINITY);
        }
        Some(f64::from(self.profile().depth?) * self.block_size()?.get() as f64)
    }

    /// Whether it writes into the page cache and waits for nothing but its limits.
    pub(crate) fn writes_behind(&self) -> bool {
        self.profile().writes() && !self.profile().is_direct() && !self.is_synced()
    }

    /// Bytes a second that the tool wrote, over the time for which its disks' are ([`CaseCell::did`]);
    /// median.
    pub(crate) fn written_by_tool(&self) -> Option<f64> {
        self.median_of(|measured| {
            let metric = |name: &str| measured.outcome.metrics.get(name).map(|metric| metric.value);
            let seconds = metric("elapsed").unwrap_or(measured.duration.secs());
            Some(metric("write_throughput")? * seconds / self.loaded(measured)?)
        })
    }

    /// Whether its options make it pause: it is no measure of what the machine can do.
    pub(crate) fn pauses(&self) -> bool {
        PAUSES.iter().any(|name| self.cell.workload.options.contains_key(*name))
    }

    /// Whether it reaches the rate that its options ask for: whatever is removed, it asks for no more. fio's
    /// `rate` and `rate_iops` are of one job (fio(1)); a rate that is not read is none.
    pub(crate) fn keeps_its_pace(&self) -> bool {
        let jobs = self.option(&["numjobs"]).map_or(Some(1.0), |text| text.parse::<f64>().ok());
        let reaches = |asked: Option<f64>, metric: &str| {
            let asked = asked.zip(jobs).map(|(each, jobs)| each * jobs).filter(|all| *all > 0.0);
            asked.zip(self.metric(metric)).is_some_and(|(asked, given)| given >= AT_ITS_PACE * asked)
        };
        let requests = self.option(&["rate_iops"]).and_then(|text| text.parse::<f64>().ok());
        let bytes = self.option(&["rate"]).and_then(Bytes::parse).map(|bytes| bytes.get() as f64);
        self.is_fio() && (reaches(requests, "iops") || reaches(bytes, "throughput"))
    }

    /// Whether a load beside it may work on its target: what devices did is of both then.
    pub(crate) fn shares_its_target(&self) -> bool {
        let mut loads = self.cell.beside.iter().map(|companion| &companion.load);
        loads.any(|load| !workloads::of(&load.tool).is_of_the_cpu(&load.options))
    }

    /// What I/O it does: by its options, or where these do not tell by what its device was given.
    pub(crate) fn profile(&self) -> Profile {
        let profile = workloads::of(&self.cell.workload.tool).profile(&self.cell.workload);
        let is_known = profile.direction != Direction::Unknown;
        if is_known {
            profile
        } else {
            self.pattern().and_then(|pattern| used::profile(&pattern)).unwrap_or(profile)
        }
    }

    /// How its device was used, where that was recorded.
    pub(crate) fn pattern(&self) -> Option<AccessPattern> {
        let device = self.device()?;
        let disks = self.trials.iter().filter_map(|trial| trial.measurement.as_ref()).flat_map(|m| &m.disks);
        disks.filter(|disk| disk.device == device).find_map(|disk| disk.accesses)
    }

    /// Whether it reads here and there, by its options or by what its device was given.
    pub(crate) fn reads_at_random(&self) -> bool {
        let reads = || self.profile().direction == Direction::Reads;
        match self.access() {
            Some(access) => access == "randread",
            None => reads() && self.pattern().is_some_and(|pattern| used::is_random(&pattern.reads)),
        }
    }

    /// Whether it writes one byte after another.
    pub(crate) fn writes_in_order(&self) -> bool {
        match self.access() {
            Some(access) => access == "write",
            // dd has no access that tells reads from writes in order; its writes are in order always.
            None if self.block_size().is_some() => self.profile().writes(),
            None => self.pattern().is_some_and(|pattern| used::writes_in_order(&pattern)),
        }
    }

    /// What fio does: `randread`, `write`, …; `None` for other tools.
    pub(crate) fn access(&self) -> Option<&str> {
        self.is_fio().then(|| workloads::fio::access(&self.cell.workload.options))
    }

    /// The size of a request, where the tool was told one.
    pub(crate) fn block_size(&self) -> Option<Bytes> {
        Bytes::parse(self.option(&["bs", "blocksize"])?)
    }

    /// The median over the valid trials of something that each may have.
    pub(crate) fn median_of(&self, figure: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.trials.iter().filter_map(|t| figure(t.measurement.as_ref()?)).collect();
        median(&values)
    }

    /// The median of a metric.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        self.median_of(|m| m.outcome.metrics.get(name).map(|metric| metric.value))
    }

    /// Where its figures were measured.
    pub(crate) fn source(&self) -> String {
        self.summary.map_or_else(|| format!("cell {}", self.cell.id), keys)
    }
}

/// Options by which a job pauses on purpose: its load is no longer the same in each window.
const PAUSES: &[&str] = &["duty_cycle", "thinktime", "rate", "rate_iops"];

/// A rate within so much of the one asked for is reached; the rest is the beginning and the end of a trial.
const AT_ITS_PACE: f64 = 0.97;

/// A figure with its source.
pub(crate) fn evidence(
    what: impl Into<String>,
    figure: impl Into<String>,
    source: impl Into<String>,
) -> Evidence {
    Evidence { what: what.into(), figure: figure.into(), source: source.into() }
}

/// What B would give instead of A, where that is claimed to be better.
pub(crate) fn gain(comparison: &Comparison) -> Option<Gain> {
    let (low, high) = comparison.extent().filter(|_| comparison.verdict == Verdict::Better)?;
    let metric = comparison.metric.clone();
    Some(Gain { metric, low, ratio: comparison.ratio?, high })
}

/// How good the ratio is, whichever way is good: above 1 is a gain; none is no gain that has a figure.
pub(crate) fn goodness(comparison: &Comparison) -> f64 {
    let ratio = comparison.ratio.unwrap_or(1.0);
    if comparison.better == Better::Higher { ratio } else { 1.0 / ratio }
}
