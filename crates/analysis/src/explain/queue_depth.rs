//! Too few requests in flight: the same work at a greater depth is faster, so at the lesser depth the device idles.
//!
//! Little, "A proof for the queuing formula L = λW", Operations Research 9(3), 1961: requests in flight are
//! requests a second times the time that each takes.

use super::Rule;
use super::case::{Case, CaseCell, evidence, gain};
use crate::summary::{Comparison, Verdict};
use crate::words::{difference, interval_words, percent};
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::units::significant;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    name: "queue-depth",
    doc: "The workload keeps too few requests in flight to use the device.",
    run,
};

/// Options that decide the depth: cells that differ in these alone do the same work.
const DEPTH_OPTIONS: &[&str] = &["iodepth", "numjobs", "ioengine"];

/// Below this gain the device was as good as busy at the lesser depth, and deeper queues only add latency.
const MIN_GAIN: f64 = 1.25;

fn run(case: &Case<'_>) -> Vec<Finding> {
    // Deeper queues cost latency always: only a rate tells whether the device idled.
    if !matches!(case.summary.better, domain::outcome::Better::Higher) {
        return Vec::new();
    }
    let cells = case.cells();
    alike(&cells).into_values().filter_map(|cells| finding(case, cells)).collect()
}

/// Cells that do the same work, least deep first.
fn alike<'c, 'a>(cells: &'c [CaseCell<'a>]) -> BTreeMap<String, Vec<(u32, &'c CaseCell<'a>)>> {
    let mut groups: BTreeMap<String, Vec<(u32, &CaseCell<'_>)>> = BTreeMap::new();
    for cell in cells {
        let Some(depth) = cell.profile().depth.filter(|_| cell.is_fio()) else { continue };
        let options =
            cell.workload().options.iter().filter(|(name, _)| !DEPTH_OPTIONS.contains(&name.as_str()));
        let work = format!("{:?} {:?}", options.collect::<Vec<_>>(), cell.cell.settings);
        groups.entry(work).or_default().push((depth, cell));
    }
    groups.values_mut().for_each(|group| group.sort_by_key(|(depth, _)| *depth));
    groups
}

/// The least deep cell against the one that gives most.
fn finding(case: &Case<'_>, cells: Vec<(u32, &CaseCell<'_>)>) -> Option<Finding> {
    let ((shallow, first), deeper) = cells.split_first()?;
    let (deep, best, comparison) = deeper
        .iter()
        .filter(|(depth, _)| depth > shallow)
        .filter_map(|(depth, cell)| {
            let names = (format!("depth {shallow}"), format!("depth {depth}"));
            Some((depth, *cell, case.compare((&names.0, first), (&names.1, cell))?))
        })
        .max_by(|(.., a), (.., b)| a.ratio.unwrap_or(0.0).total_cmp(&b.ratio.unwrap_or(0.0)))?;
    if comparison.verdict != Verdict::Better || comparison.interval?.low < MIN_GAIN {
        return None;
    }
    let work = first.access().unwrap_or("the workload").to_owned();
    Some(Finding {
        rule: RULE.name,
        title: format!(
            "{work} at depth {shallow} leaves the device idle: depth {deep} gives {}",
            difference(&comparison)
        ),
        reason: format!(
            "With {shallow} in flight the device waits while the CPU handles each completion and sends the next request, and \
a device made of many parts (flash channels, spindles, a remote server) uses one of them at a time. Throughput \
cannot exceed {shallow} divided by the latency of one request, however fast the device."
        ),
        evidence: figures(&comparison, (*shallow, first), (*deep, best)),
        confidence: Confidence::Shown,
        gain: gain(&comparison),
        remedy: Some(Remedy {
            what: format!(
                "let the application keep more requests in flight: more threads, asynchronous I/O, prefetching; {deep} was \
the best that was measured"
            ),
            settings: vec![],
            undo: "put the application's own option back".into(),
        }),
        next: "flyball record -- COMMAND".into(),
    })
}

fn figures(
    comparison: &Comparison,
    shallow: (u32, &CaseCell<'_>),
    deep: (u32, &CaseCell<'_>),
) -> Vec<Evidence> {
    let Comparison { medians, unit, .. } = comparison;
    let certainty = comparison.interval.as_ref().map(interval_words).unwrap_or_default();
    let mut figures = vec![evidence(
        format!("depth {} against depth {}", deep.0, shallow.0),
        format!("{} ({certainty})", difference(comparison)),
        "measured in the same blocks",
    )];
    for ((depth, cell), median) in [(shallow, medians.0), (deep, medians.1)] {
        figures.push(evidence(format!("median at depth {depth}"), unit.show(median), cell.source()));
        figures.extend(device_figures(depth, cell));
    }
    figures
}

/// How busy the device was, and how many requests it had, where that was recorded.
fn device_figures(depth: u32, cell: &CaseCell<'_>) -> Vec<Evidence> {
    let busy = cell.device().and_then(|device| {
        cell.median_of(|m| {
            let totals = m.disks.iter().find(|disk| disk.device == device)?;
            (m.duration.get() > 0).then(|| (totals.busy.secs() / m.duration.secs()).min(1.0))
        })
    });
    let busy = busy
        .map(|share| evidence(format!("device busy at depth {depth}"), percent(share), "/proc/diskstats"));
    let in_flight = cell.metric("iops").zip(cell.metric("latency_mean")).map(|(iops, latency)| {
        let figure = format!("{} requests", significant(iops * latency));
        evidence(format!("in flight at depth {depth}"), figure, "IOPS times mean latency")
    });
    busy.into_iter().chain(in_flight).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{about, findings, fio_run, with_depth, with_device_reads};
    use super::*;
    use domain::Nanos;

    fn depths(factor: f64) -> crate::summary::RunData {
        fio_run(&[&with_depth("1"), &with_depth("8"), &with_depth("32")], move |cell, block| {
            let rate = [1.0, factor.sqrt(), factor][cell] * 1e7;
            vec![("throughput", about(rate, cell, block)), ("iops", rate / 4096.0), ("latency_mean", 4e-4)]
        })
    }

    #[test]
    fn a_device_that_is_faster_at_depth_is_found_idle_at_depth_one() {
        let mut data = depths(9.0);
        with_device_reads(&mut data, "vda", 1 << 20, Nanos::from_millis(800));
        let found = findings(RULE, &data, None, Some("vda"));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].title.starts_with("randread at depth 1 leaves the device idle: depth 32 gives 9.0"),
            "{}",
            found[0].title
        );
        assert!((found[0].gain.as_ref().unwrap().ratio - 9.0).abs() < 0.1);
        let figures: Vec<_> = found[0].evidence.iter().map(|e| format!("{}: {}", e.what, e.figure)).collect();
        assert!(figures.contains(&"device busy at depth 1: 80%".to_owned()), "{figures:?}");
        assert!(figures.contains(&"in flight at depth 1: 0.977 requests".to_owned()), "{figures:?}");
    }

    #[test]
    fn a_device_that_depth_does_not_help_is_no_finding() {
        assert!(findings(RULE, &depths(1.1), None, None).is_empty());
    }

    #[test]
    fn one_depth_alone_or_different_work_is_no_evidence() {
        let one = fio_run(&[&with_depth("1")], |cell, block| vec![("throughput", about(1e7, cell, block))]);
        assert!(findings(RULE, &one, None, None).is_empty());
        let other = with_depth("32").replace("bs=4k", "bs=1m");
        let unlike = fio_run(&[&with_depth("1"), &other], |cell, block| {
            vec![("throughput", about(1e7 * (1 + 8 * cell) as f64, cell, block))]
        });
        assert!(findings(RULE, &unlike, None, None).is_empty());
    }
}
