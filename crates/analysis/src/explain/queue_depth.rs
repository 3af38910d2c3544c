//! Too few requests in flight: the same work at a greater depth is faster, so at the lesser depth the device
//! idles.
//!
//! Little, "A proof for the queuing formula L = λW", Operations Research 9(3), 1961: requests in flight are
//! requests a second times the time that each takes.

use super::Rule;
use super::pair::{Pair, Part};
use crate::facts::case::{Case, CaseCell, evidence, gain};
use crate::summary::{Comparison, Verdict};
use crate::words::{bracketed_certainty, difference, percent};
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::order;
use domain::units::significant;

pub(super) const RULE: Rule = Rule {
    name: "queue-depth",
    doc: "The workload keeps too few requests in flight to use the device.",
    needs: "cells that differ in depth alone",
    source: "Little, Operations Research 9(3), 1961",
    yields_to: &[],
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
    let with_depth: Vec<(u32, &CaseCell<'_>)> = cells
        .iter()
        .filter_map(|cell| Some((cell.profile().depth.filter(|_| cell.is_fio())?, cell)))
        .collect();
    let shallowest = with_depth.iter().filter(|of| is_shallowest(**of, &with_depth));
    let mut gains: Vec<Deeper<'_, '_>> = shallowest.filter_map(|of| best(case, *of, &with_depth)).collect();
    order::by(&mut gains, |a, b| ratio(&b.comparison).total_cmp(&ratio(&a.comparison)));
    by_work(case, &gains)
}

/// Cells that differ in depth alone.
fn deeper<'c, 'a>(a: (u32, &'c CaseCell<'a>), b: (u32, &'c CaseCell<'a>)) -> Option<Pair<'c, 'a>> {
    let pair = Pair::of(a.1, b.1, |part: &Part| part.is_option(DEPTH_OPTIONS))?;
    (a.0 < b.0).then_some(pair)
}

fn is_shallowest(of: (u32, &CaseCell<'_>), all: &[(u32, &CaseCell<'_>)]) -> bool {
    !all.iter().any(|other| deeper(*other, of).is_some())
}

/// A pair of depths, and what the deeper one gives.
struct Deeper<'c, 'a> {
    depths: (u32, u32),
    pair: Pair<'c, 'a>,
    comparison: Comparison,
}

fn ratio(comparison: &Comparison) -> f64 {
    comparison.ratio.unwrap_or(0.0)
}

/// The least deep cell against the one that gives most.
fn best<'c, 'a>(
    case: &Case<'_>,
    shallow: (u32, &'c CaseCell<'a>),
    all: &[(u32, &'c CaseCell<'a>)],
) -> Option<Deeper<'c, 'a>> {
    let of = |deep: &(u32, &'c CaseCell<'a>)| {
        let pair = deeper(shallow, *deep)?;
        let names = (format!("depth {}", shallow.0), format!("depth {}", deep.0));
        let comparison = pair.compare(case, (&names.0, &names.1))?;
        Some(Deeper { depths: (shallow.0, deep.0), pair, comparison })
    };
    let best =
        all.iter().filter_map(of).max_by(|a, b| ratio(&a.comparison).total_cmp(&ratio(&b.comparison)))?;
    let gains = best.comparison.verdict == Verdict::Better && best.comparison.extent()?.0 >= MIN_GAIN;
    gains.then_some(best)
}

/// One finding for each kind of access and depth: the largest gain, and where else it is so.
fn by_work(case: &Case<'_>, gains: &[Deeper<'_, '_>]) -> Vec<Finding> {
    let work = |of: &Deeper<'_, '_>| (of.pair.a().access().map(str::to_owned), of.depths.0);
    let mut found: Vec<((Option<String>, u32), Finding)> = Vec::new();
    for of in gains {
        let key = work(of);
        match found.iter_mut().find(|(known, _)| *known == key) {
            Some((_, finding)) => also(finding, of),
            None => found.push((key, finding(case, of))),
        }
    }
    found.into_iter().map(|(_, finding)| finding).collect()
}

fn also(finding: &mut Finding, of: &Deeper<'_, '_>) {
    let what = format!("depth {} against depth {}, in `{}`", of.depths.1, of.depths.0, of.pair.a().cell.id);
    finding.evidence.push(evidence(what, difference(&of.comparison), of.pair.b().source()));
    finding.compared.push(of.pair.cells());
}

fn finding(case: &Case<'_>, of: &Deeper<'_, '_>) -> Finding {
    let Deeper { depths: (shallow, deep), pair, comparison } = of;
    let work = pair.a().access().unwrap_or("the workload");
    let mut figures = figures(comparison, (*shallow, pair.a()), (*deep, pair.b()));
    figures.extend(pair.costs(case, "it"));
    Finding {
        rule: RULE.name,
        title: format!(
            "{work} at depth {shallow} leaves the device idle: depth {deep} gives {}",
            difference(comparison)
        ),
        reason: format!(
            "With {shallow} in flight the device waits while the CPU handles each completion and sends the next request, and \
a device made of many parts (flash channels, spindles, a remote server) uses one of them at a time. Throughput \
cannot exceed {shallow} divided by the latency of one request, however fast the device."
        ),
        evidence: figures,
        confidence: Confidence::Shown,
        gain: gain(comparison),
        remedy: Some(Remedy {
            what: format!(
                "let the application keep more requests in flight: more threads, asynchronous I/O, prefetching; {deep} was \
the best that was measured"
            ),
            settings: vec![],
            undo: "put the application's own option back".into(),
        }),
        next: "flyball record -- COMMAND".into(),
        compared: vec![pair.cells()],
    }
}

fn figures(
    comparison: &Comparison,
    shallow: (u32, &CaseCell<'_>),
    deep: (u32, &CaseCell<'_>),
) -> Vec<Evidence> {
    let Comparison { medians, unit, .. } = comparison;
    let mut figures = vec![evidence(
        format!("depth {} against depth {}", deep.0, shallow.0),
        format!("{}{}", difference(comparison), bracketed_certainty(comparison)),
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
            Some((totals.busy.secs() / cell.loaded(m)?).min(1.0))
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
