//! The part of a trace in which its load was under way: without a tool's start and end.

use analysis::facts::rates::{names_between, rates};
use domain::lab::Pacing;
use domain::trace::{Role, Trace, growth};
use std::collections::BTreeMap;
use std::ops::Range;

/// An interval with less than this share of the median of all that have work is the load's beginning or end.
const UNDER_WAY: f64 = 0.8;

/// Fewer intervals tell less than all of them.
const LEAST_INTERVALS: usize = 3;

/// The rows of the time in which a lab machine's CPUs were paced: before and after it they are not those of
/// the machine that it stands for. All of them where too few lie within, or nobody knows which.
pub(crate) fn paced(trace: &Trace, pacing: Option<&Pacing>) -> Trace {
    let Some((pacing, began)) = pacing.and_then(|pacing| Some((pacing, pacing.began?))) else {
        return trace.clone();
    };
    let first = trace.times.partition_point(|time| *time < began);
    let end = trace.times.partition_point(|time| *time <= began + pacing.span);
    if end.saturating_sub(first) > LEAST_INTERVALS { cut(trace, first..end) } else { trace.clone() }
}

/// The rows between the first and the last interval in which devices had their usual work; all rows where no
/// device worked, or where that leaves too few.
pub(crate) fn steady(trace: &Trace) -> Trace {
    let work = work(trace);
    let mut usual: Vec<f64> = work.iter().copied().filter(|work| *work > 0.0).collect();
    usual.sort_by(f64::total_cmp);
    let Some(median) = usual.get(usual.len() / 2) else { return trace.clone() };
    let is_under_way = |work: &f64| *work >= UNDER_WAY * median;
    let first = work.iter().position(is_under_way);
    let last = work.iter().rposition(is_under_way);
    let (Some(first), Some(last)) = (first, last) else { return trace.clone() };
    if last + 1 - first < LEAST_INTERVALS {
        return trace.clone();
    }
    // An interval lies between two rows.
    cut(trace, first..last + 2)
}

fn cut(trace: &Trace, rows: Range<usize>) -> Trace {
    Trace {
        head: trace.head.clone(),
        times: trace.times[rows.clone()].to_vec(),
        columns: trace.columns.iter().map(|column| column[rows.clone()].to_vec()).collect(),
    }
}

/// Requests a second of all devices together, by interval.
fn work(trace: &Trace) -> Vec<f64> {
    let mut all = vec![0.0; trace.times.len().saturating_sub(1)];
    for way in ["read_ios", "write_ios"] {
        for device in names_between(trace, "disk.", &format!(".{way}")) {
            for step in rates(trace, &format!("disk.{device}.{way}"), 1.0) {
                if let Ok(row) = trace.times.binary_search(&step.from)
                    && let Some(sum) = all.get_mut(row)
                {
                    *sum += step.value;
                }
            }
        }
    }
    all
}

/// CPU time by role, in CPUs, from the first row to the last; `None` where it was not sampled.
pub(crate) fn roles(trace: &Trace) -> Option<BTreeMap<Role, f64>> {
    let span = trace.times.last()?.saturating_sub(*trace.times.first()?).secs();
    let used = |role: Role| {
        let name = format!("role.{role}.ns");
        let index = trace.head.series.iter().position(|series| series.name == name)?;
        let values = &trace.columns[index];
        let grown = growth((*values.first()?)?, (*values.last()?)?, None)?;
        Some((role, grown as f64 / 1e9 / span))
    };
    let all: BTreeMap<Role, f64> =
        Role::ALL.into_iter().filter_map(used).filter(|(_, used)| *used > 0.0).collect();
    (!all.is_empty() && span > 0.0).then_some(all)
}
