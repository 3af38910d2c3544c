//! How much of a request's time is the CPU's, and what faster CPUs can give at most.
//!
//! A closed loop of N requests in flight does X of them a second, each of which takes R = N/X. With U cores
//! in use, the CPU's own time of a request is U/X. It waits behind others for the busiest thread: where that
//! is busy for a share u of its time, 1/(1-u) times as long in the mean. So the CPU's share of R is
//! U/N/(1-u), and 1 at most. A bound, no prediction: what is done beside the request counts as well.
//!
//! Sources: Little, Operations Research 9(3), 1961; Kleinrock, Queueing Systems volume 1, 3.2.

use super::case::{Case, CaseCell, evidence};
use crate::usage::Usage;
use crate::words::percent;
use domain::finding::{Evidence, Gain};
use domain::inventory::Policy;
use domain::outcome::Better;
use domain::trace::Role;
use domain::trial::Measurement;
use domain::units::significant;

/// Less than this is lost between two trials.
const MIN_GAIN: f64 = 1.05;

/// Writes into the page cache wait for nobody but its limits: many are on their way to the device.
const BEHIND_THE_CACHE: f64 = 32.0;

/// What CPUs that are some times as fast can give a load.
pub(super) enum Bound {
    /// Nothing that could be told from noise.
    Nothing,
    /// So many times as much at most.
    AtMost {
        /// The ratio, above 1.
        times: f64,
        /// What it rests on.
        figures: Vec<Evidence>,
    },
    /// Neither a load's threads nor its requests were recorded.
    Unknown,
}

/// Of the load that waits most for its CPUs.
pub(super) fn bound(case: &Case<'_>, faster: f64) -> Bound {
    let cells = case.cells();
    let of_cells = cells.iter().filter_map(|cell| Some((of_cell(cell)?, cell.source())));
    let of_usages = case.usages.iter().map(|(key, usage)| (key, of_usage(usage)));
    let watched =
        || of_usages.filter_map(|(key, share)| Some((share?, format!("trace of {}", key.folder()))));
    let most = of_cells.max_by(|(a, _), (b, _)| a.total_cmp(b));
    let most = most.or_else(|| watched().max_by(|(a, _), (b, _)| a.total_cmp(b)));
    let Some((share, source)) = most else { return Bound::Unknown };
    let times = gain(share, faster);
    if times < MIN_GAIN {
        return Bound::Nothing;
    }
    let figures = vec![
        evidence("the CPUs' share of a request's time, at most", percent(share), source),
        evidence(
            "what CPUs that are faster in this proportion give, at most",
            format!("{} times", significant(times)),
            format!("that share, {} times as fast", significant(faster)),
        ),
    ];
    Bound::AtMost { times, figures }
}

/// What a load gains by CPUs that are `faster` times as fast, where this is their share of its time.
pub(super) fn gain(share: f64, faster: f64) -> f64 {
    1.0 / (1.0 - share.clamp(0.0, 1.0) * (1.0 - 1.0 / faster.max(1.0)))
}

/// The frequency in Hz at which the busiest CPU ran in the mean, idle time included, and its policy; the
/// lowest of several traces. `None` where it was not counted.
pub(super) fn ran_at<'a>(case: &Case<'a>) -> Option<(f64, &'a Policy)> {
    let policies = &case.inventory?.cpufreq.as_ref()?.policies;
    let of = |usage: &Usage| {
        let (busiest, _) = usage.cpus.iter().max_by(|(_, a), (_, b)| a.busy().total_cmp(&b.busy()))?;
        let policy = policies.iter().find(|policy| policy.cpus.contains(*busiest))?;
        let name = format!("policy{}", policy.id);
        let states = &usage.pstates.iter().find(|states| states.policy == name)?.shares;
        let mean = states.iter().map(|(at, share)| at.hz() as f64 * share).sum::<f64>();
        (mean > 0.0).then_some((mean, policy))
    };
    case.usages.iter().filter_map(|(_, usage)| of(usage)).min_by(|(a, _), (b, _)| a.total_cmp(b))
}

/// The gain of a finding: none at worst.
pub(super) fn expected(case: &Case<'_>, times: f64) -> Option<Gain> {
    let metric = &case.summary.metric;
    let ratio = if case.summary.better == Better::Higher { times } else { 1.0 / times };
    Some(Gain { metric: metric.clone(), low: ratio.min(1.0), ratio, high: ratio.max(1.0) })
}

/// Of a cell whose threads were recorded and whose depth is known.
fn of_cell(cell: &CaseCell<'_>) -> Option<f64> {
    let profile = cell.profile();
    let in_flight = match profile.depth {
        _ if cell.writes_behind() => BEHIND_THE_CACHE,
        depth => f64::from(depth?.max(1)),
    };
    // What runs beside the load is no part of a request.
    let cores = cell.median_of(|m| {
        let of_load = m.roles.iter().filter(|(role, _)| **role != Role::Beside);
        per_second(m, of_load.map(|(_, used)| used.secs()).sum())
    })?;
    let busiest = cell.median_of(|m| {
        let of_load = m.threads.iter().filter(|thread| thread.role != Role::Beside);
        per_second(m, of_load.map(|thread| thread.cpu.secs()).fold(0.0, f64::max))
    })?;
    Some(share(cores, in_flight, busiest))
}

fn per_second(measured: &Measurement, seconds: f64) -> Option<f64> {
    let known = !measured.roles.is_empty() && measured.duration.get() > 0;
    known.then(|| seconds / measured.duration.secs())
}

/// Of a machine that was watched: its busiest disk tells how many requests were in flight.
fn of_usage(usage: &Usage) -> Option<f64> {
    let cores = usage.machine?.busy() * usage.cpus.len().max(1) as f64;
    let busiest = usage.cpus.iter().map(|(_, cpu)| cpu.busy()).fold(0.0, f64::max);
    let in_flight = usage.disks.first().and_then(|disk| disk.depth).unwrap_or(0.0);
    Some(share(cores, in_flight.max(1.0), busiest))
}

/// The share of a request's time that is executed or waits for that: of so many cores in use, with so many
/// requests in flight, where the busiest thread is so busy.
pub(super) fn share(cores: f64, in_flight: f64, busiest: f64) -> f64 {
    // One alone waits behind no other.
    let queued = if in_flight > 1.0 { 1.0 / (1.0 - busiest.min(0.999)) } else { 1.0 };
    (cores / in_flight * queued).min(1.0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::testing::{fio_run, with_thread};
    use super::*;
    use crate::summarise::summarise;

    #[test]
    fn a_single_request_in_flight_waits_for_all_that_is_executed() {
        assert!((share(0.2, 1.0, 0.2) - 0.2).abs() < 1e-9);
        assert!((gain(0.5, 2.0) - 4.0 / 3.0).abs() < 1e-9);
        assert!((gain(1.0, 3.0) - 3.0).abs() < 1e-9 && (gain(0.3, 1.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_load_beside_the_workload_is_no_part_of_a_request() {
        let of = |beside_ms: u64| {
            let mut data = fio_run(&["rw=randread bs=4k iodepth=4 ioengine=libaio direct=1"], |_, _| vec![]);
            with_thread(&mut data, "fio", Role::Workload, 300);
            if beside_ms > 0 {
                with_thread(&mut data, "bzip2", Role::Beside, beside_ms);
            }
            let summary = summarise(&data, None);
            of_cell(&Case::new(&data, &summary).cells()[0]).unwrap()
        };
        assert!((of(990) - of(0)).abs() < 1e-9, "{} instead of {}", of(990), of(0));
    }

    #[test]
    fn many_in_flight_hide_the_cpus_until_a_thread_has_no_time_left() {
        assert!(share(0.6, 32.0, 0.5) < 0.05);
        assert!(share(1.5, 32.0, 0.98) > 0.9);
    }
}
