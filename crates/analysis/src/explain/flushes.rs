//! The workload spends its time in calls of fsync: each waits until the device has its cache on the medium.
//!
//! Sources: block/blk-flush.c; `Documentation/block/writeback_cache_control.rst`; fsync(2).

use super::Rule;
use crate::facts::arrays::disks_below;
use crate::facts::case::{Case, CaseCell, evidence};
use crate::words::percent;
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::inventory::WriteCache;
use domain::units::Unit;

pub(super) const RULE: Rule = Rule {
    name: "flushes",
    doc: "A good part of the workload's time is spent in calls of fsync and fdatasync.",
    needs: "the tool's calls of fsync and their latency",
    source: "block/blk-flush.c; Documentation/block/writeback_cache_control.rst; fsync(2)",
    yields_to: &[],
    run,
};

/// From this share of a job's time on, nothing else decides as much.
const MIN_SHARE: f64 = 0.5;

/// A job that is in one call at a time for so much of it would be a quarter faster without (1/(1-share)).
const NOTABLE: f64 = 0.2;

/// Calls of fsync in a cell.
pub(super) struct Syncs {
    /// Calls a second, of all jobs.
    rate: f64,
    /// Seconds that one takes, mean.
    pub(super) latency: f64,
    /// Whether calls are in flight as other requests are, so that no job waits for one.
    in_flight: bool,
    /// The share of a job's time; of its queue depth where calls are in flight.
    share: f64,
}

/// Engines whose calls of fsync are in flight as other requests are (fio's `engines/io_uring.c` and
/// `engines/posixaio.c`; libaio of fio 3.41).
const IN_FLIGHT: [&str; 2] = ["io_uring", "posixaio"];

/// A thread is in one call at a time; times are rounded. More than this are in flight.
const ONE_AT_A_TIME: f64 = 1.05;

impl Syncs {
    /// Of a cell whose jobs are in them for most of their time.
    pub(super) fn that_decide(cell: &CaseCell<'_>) -> Option<Self> {
        Self::of(cell).filter(|syncs| syncs.share >= MIN_SHARE)
    }

    /// Of a cell whose jobs would be notably faster without, or are in them for most of their time.
    fn that_count(cell: &CaseCell<'_>) -> Option<Self> {
        let is_single = cell.profile().depth == Some(1);
        let least = if is_single { NOTABLE } else { MIN_SHARE };
        Self::of(cell).filter(|syncs| syncs.share >= least)
    }

    fn of(cell: &CaseCell<'_>) -> Option<Self> {
        let (rate, latency) = (cell.metric("syncs")?, cell.metric("sync_latency_mean")?);
        let number = |name| cell.option(&[name]).map_or(Some(1.0), |text| text.parse::<f64>().ok());
        let at_a_time = rate * latency / number("numjobs")?.max(1.0);
        let engine = cell.option(&["ioengine"]);
        let depth = number("iodepth")?.max(1.0);
        let in_flight =
            depth > 1.0 && (engine.is_some_and(|it| IN_FLIGHT.contains(&it)) || at_a_time > ONE_AT_A_TIME);
        let share = if in_flight { at_a_time / depth } else { at_a_time };
        // A rate that is kept is none the higher without them.
        (!cell.keeps_its_pace()).then(|| Self { rate, latency, in_flight, share: share.min(1.0) })
    }

    /// What decides, as figures.
    pub(super) fn figures(&self, cell: &CaseCell<'_>) -> Vec<Evidence> {
        vec![
            evidence("calls of fsync and fdatasync", Unit::PerSecond.show(self.rate), cell.source()),
            evidence("time that one takes, mean", Unit::Seconds.show(self.latency), cell.source()),
            if self.in_flight {
                let how = "the product of these, by the jobs and the depth of each";
                evidence("share of the queue depth that they take", percent(self.share), how)
            } else {
                evidence(
                    "share of a job's time in them",
                    percent(self.share),
                    "the product of these, by the jobs",
                )
            },
        ]
    }

    /// What a cell does, in words that follow its name.
    pub(super) fn told(&self) -> String {
        let (share, latency) = (percent(self.share), Unit::Seconds.show(self.latency));
        if self.in_flight {
            format!("has {share} of its queue depth in fsync, {latency} for each call")
        } else {
            format!("spends {share} of its time in fsync, {latency} for each call")
        }
    }

    fn share(&self) -> f64 {
        self.share
    }
}

fn run(case: &Case<'_>) -> Vec<Finding> {
    let cells = case.cells();
    let found = cells.iter().filter_map(|cell| Some((cell, Syncs::that_count(cell)?)));
    let most = found.max_by(|(_, a), (_, b)| a.share().total_cmp(&b.share()));
    most.map(|(cell, syncs)| finding(case, cell, &syncs)).into_iter().collect()
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>, syncs: &Syncs) -> Finding {
    let mut figures = syncs.figures(cell);
    figures.extend(caches(case, cell));
    Finding {
        rule: RULE.name,
        title: format!("{} {}", cell.named(), syncs.told()),
        reason: "fsync returns when the data are on the medium. The filesystem commits its journal for it, and the kernel has a \
device with a volatile cache write that cache out. The latency of a write does not contain this time."
            .into(),
        evidence: figures,
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy {
            what: "let the application make several changes durable with one call (group commit), or use a device whose cache \
survives a power cut. Telling the kernel that there is no volatile cache, or mounting without barriers, loses data that \
was reported as safe, and is not proposed"
                .into(),
            settings: vec![],
            undo: "put the application's own option back".into(),
        }),
        next: case.show_again(),
        compared: vec![],
    }
}

/// What the kernel believes of the caches of the disks below.
fn caches(case: &Case<'_>, cell: &CaseCell<'_>) -> Vec<Evidence> {
    let Some((inventory, device)) = case.inventory.zip(cell.device()) else { return Vec::new() };
    let disks = disks_below(inventory, device).into_iter();
    let told = disks.filter_map(|disk| {
        let cache = match disk.queue.as_ref()?.write_cache? {
            WriteCache::WriteBack => "volatile: the kernel sends flushes",
            WriteCache::WriteThrough => "none that is volatile: the kernel sends no flush",
        };
        let path = format!("/sys/block/{}/queue/write_cache", disk.name);
        Some(evidence(format!("write cache of {}", disk.name), cache, path))
    });
    told.take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn writes(rate: f64, latency: f64, options: &str) -> crate::summary::RunData {
        fio_run(&[options], move |_, _| {
            vec![("throughput", 4e5), ("syncs", rate), ("sync_latency_mean", latency)]
        })
    }

    #[test]
    fn a_workload_that_is_in_fsync_most_of_the_time_is_found() {
        let data = writes(110.0, 8e-3, "rw=randwrite bs=4k fsync=1");
        let mut machine = bare_machine();
        machine.devices[0].queue.as_mut().unwrap().write_cache = Some(WriteCache::WriteBack);
        let found = findings(RULE, &data, Some(&machine), Some("vda")).swap_remove(0);
        assert_eq!(found.title, "w0 spends 88% of its time in fsync, 8.00 ms for each call");
        assert!(found.evidence[3].figure.starts_with("volatile"), "{:?}", found.evidence);
        assert!(found.remedy.unwrap().settings.is_empty(), "what weakens durability is nobody's to set");
    }

    #[test]
    fn rare_syncs_and_those_of_many_jobs_are_no_finding() {
        assert!(findings(RULE, &writes(10.0, 8e-3, "fsync=32"), None, None).is_empty());
        assert!(findings(RULE, &writes(110.0, 8e-3, "fsync=1 numjobs=8"), None, None).is_empty());
    }

    #[test]
    fn a_job_with_one_request_at_a_time_loses_by_a_part_of_its_time() {
        let of = |rate, depth| {
            let options = format!("rw=write bs=128k direct=1 fsync=1 ioengine=libaio iodepth={depth}");
            findings(RULE, &writes(rate, 1e-3, &options), None, None).len()
        };
        assert_eq!([of(300.0, 1), of(150.0, 1), of(300.0, 16)], [1, 0, 0]);
        let options = "rw=write bs=128k direct=1 fsync=1 rate_iops=20";
        let paced =
            fio_run(&[options], |_, _| vec![("iops", 20.0), ("syncs", 20.0), ("sync_latency_mean", 15e-3)]);
        assert!(findings(RULE, &paced, None, None).is_empty(), "it has the rate it asks for");
    }

    #[test]
    fn calls_that_are_in_flight_take_a_share_of_the_queue_depth() {
        let of = |rate, engine: &str| {
            let options = format!("rw=randwrite fsync=1 iodepth=16 ioengine={engine}");
            let found = findings(RULE, &writes(rate, 8e-3, &options), None, None);
            found.first().map(|found| found.title.clone())
        };
        let most = "w0 spends 80% of its time in fsync, 8.00 ms for each call";
        let in_flight = "w0 has 80% of its queue depth in fsync, 8.00 ms for each call";
        assert_eq!(of(1600.0, "io_uring").as_deref(), Some(in_flight));
        assert_eq!(of(110.0, "io_uring"), None);
        assert_eq!(of(1600.0, "libaio").as_deref(), Some(in_flight), "more than one at a time");
        assert_eq!(of(100.0, "libaio").as_deref(), Some(most), "one at a time");
        assert!(of(125.5, "psync").unwrap().contains("100% of its time"), "one at a time, but for rounding");
    }

    #[test]
    fn a_tool_that_tells_no_syncs_is_no_evidence() {
        let data = fio_run(&["rw=randwrite fsync=1"], |_, _| vec![("throughput", 4e5)]);
        assert!(findings(RULE, &data, None, None).is_empty());
    }
}
