//! What frequency governors saw and chose while a machine was watched: the load of each CPU by windows, and
//! the time that each policy spent at each frequency.
//!
//! Sources: proc(5) (`/proc/stat`); `Documentation/cpu-freq/cpufreq-stats.rst` (`time_in_state`, in ticks of
//! 10 ms).

use crate::rates::{Step, TICK_SECONDS, coarse, names_between, rates};
use crate::stats::quantile::{median, quantile};
use domain::trace::Trace;
use domain::units::Hertz;

/// The time of a policy's CPUs at each frequency.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyUsage {
    /// The N of `policyN`.
    pub policy: u32,
    /// Shares of the time, ascending by frequency; they add up to 1.
    pub states: Vec<(Hertz, f64)>,
}

/// How busy a CPU was in windows of 100 ms, which is as fine as ticks tell. A governor that looks more often
/// sees more of its bursts: ondemand at the least every two ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowLoads {
    /// The CPU.
    pub cpu: u32,
    /// The share of a window in which it was not idle, median over windows.
    pub median: f64,
    /// The same of the window that is exceeded by one in twenty.
    pub high: f64,
}

impl PolicyUsage {
    /// The highest frequency of those that were counted, and the share of the time at it.
    pub fn highest(&self) -> Option<(Hertz, f64)> {
        self.states.last().copied()
    }
}

/// Of each policy whose driver counts it, in the trace's order.
pub fn policies(trace: &Trace) -> Vec<PolicyUsage> {
    let names = names_between(trace, "freq.policy", "");
    let mut policies: Vec<(u32, Vec<(Hertz, f64)>)> = Vec::new();
    for (policy, khz) in names.into_iter().filter_map(|name| name.split_once(".time.")) {
        let (Ok(policy), Ok(khz)) = (policy.parse::<u32>(), khz.parse::<u64>()) else { continue };
        let column = format!("freq.policy{policy}.time.{khz}");
        let seconds = rates(trace, &column, TICK_SECONDS).map(|step| step.value * length(&step)).sum();
        match policies.iter_mut().find(|(known, _)| *known == policy) {
            Some((_, states)) => states.push((Hertz::from_khz(khz), seconds)),
            None => policies.push((policy, vec![(Hertz::from_khz(khz), seconds)])),
        }
    }
    policies.into_iter().filter_map(|(policy, states)| shares(policy, states)).collect()
}

fn shares(policy: u32, mut states: Vec<(Hertz, f64)>) -> Option<PolicyUsage> {
    let all: f64 = states.iter().map(|(_, seconds)| seconds).sum();
    states.sort_by_key(|(frequency, _)| *frequency);
    states.iter_mut().for_each(|(_, seconds)| *seconds /= all);
    (all > 0.0).then_some(PolicyUsage { policy, states })
}

/// Of each CPU that was sampled, in the trace's order.
pub fn loads(trace: &Trace) -> Vec<WindowLoads> {
    let cpus = names_between(trace, "cpu", ".idle").into_iter().filter_map(|name| name.parse().ok());
    cpus.filter_map(|cpu| load(trace, cpu)).collect()
}

const BUSY: [&str; 5] = ["user", "nice", "system", "irq", "softirq"];
const NOT_BUSY: [&str; 3] = ["idle", "iowait", "steal"];

fn load(trace: &Trace, cpu: u32) -> Option<WindowLoads> {
    let column =
        |state: &str| -> Vec<Step> { coarse(rates(trace, &format!("cpu{cpu}.{state}"), 1.0)).collect() };
    let (busy, idle) = (BUSY.map(column), NOT_BUSY.map(column));
    let windows = idle[0].len();
    // All columns come of one file, and have the same windows unless one of them began anew.
    let sum = |columns: &[Vec<Step>], window: usize| -> f64 {
        columns.iter().filter_map(|steps| steps.get(window)).map(|step| step.value).sum()
    };
    let loads = (0..windows).filter_map(|window| {
        let (busy, idle) = (sum(&busy, window), sum(&idle, window));
        (busy + idle > 0.0).then(|| busy / (busy + idle))
    });
    let loads: Vec<f64> = loads.collect();
    Some(WindowLoads { cpu, median: median(&loads)?, high: quantile(&loads, 0.95)? })
}

fn length(step: &Step) -> f64 {
    step.to.saturating_sub(step.from).secs()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::usage::tests::growing;

    #[test]
    fn a_policys_time_is_shared_among_its_frequencies() {
        let counters = [
            ("freq.policy0.time.2800000", 10),
            ("freq.policy0.time.800000", 90),
            ("freq.policy1.time.800000", 0),
        ];
        let policies = policies(&growing(3, &counters));
        let [policy] = policies.as_slice() else { panic!("a policy that counted nothing is not known") };
        assert_eq!(policy.policy, 0);
        let (highest, share) = policy.highest().unwrap();
        assert_eq!(highest, Hertz::from_khz(2_800_000));
        assert!((share - 0.1).abs() < 1e-9 && (policy.states[0].1 - 0.9).abs() < 1e-9);
    }

    #[test]
    fn a_cpus_load_is_that_of_its_windows() {
        let mut trace = growing(20, &[("cpu0.user", 30), ("cpu0.idle", 70), ("cpu1.user", 50)]);
        // One second in twenty it was busy throughout.
        for row in 11..=20 {
            trace.columns[0][row] = trace.columns[0][row].map(|ticks| ticks + 70);
            trace.columns[1][row] = trace.columns[1][row].map(|ticks| ticks - 70);
        }
        let loads = loads(&trace);
        let [load] = loads.as_slice() else { panic!("without idle time there is no load") };
        assert!((load.median - 0.3).abs() < 1e-9 && load.high <= 1.0 && load.high >= 0.3, "{load:?}");
        assert_eq!(load.cpu, 0);
    }

    #[test]
    fn what_was_not_sampled_has_neither() {
        let trace = growing(2, &[("psi.io.some_us", 5)]);
        assert!(policies(&trace).is_empty() && loads(&trace).is_empty());
    }
}
