//! The part of a trace in which its load was under way: without a tool's start and end.

use analysis::facts::loaded::{LEAST_INTERVALS, part};
use analysis::facts::rates::{names_between, rates};
use domain::trace::{Role, Trace, growth};
use std::collections::BTreeMap;

/// An interval with less than this share of the median of all that have work is the load's beginning or end.
const UNDER_WAY: f64 = 0.8;

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
    part(trace, first..last + 2)
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
