//! The load of each CPU by windows of time, as a frequency governor sees it.
//!
//! Source: proc(5) (`/proc/stat`).

use crate::facts::rates::{Step, coarse, names_between, rates};
use crate::stats::quantile::{median, quantile};
use domain::trace::Trace;

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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::facts::usage::tests::growing;

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
    fn what_was_not_sampled_has_no_load() {
        assert!(loads(&growing(2, &[("psi.io.some_us", 5)])).is_empty());
    }
}
