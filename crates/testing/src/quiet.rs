//! Tests of a figure that other load of the host changes.

use crate::skip;
use std::time::Instant;

/// How often such a test measures before it gives up.
const ATTEMPTS: usize = 5;

/// From this share of an attempt's time, tasks that waited for a CPU may explain a wrong figure.
const BUSY: f64 = 0.2;

/// Measures until a figure is within its bounds. `attempt` returns the figure where it is not.
///
/// A wrong figure fails the test where no other load explains it. Where the host was busy in every attempt,
/// the test is skipped as not measured, with the last figure. Busy is the kernel's own measure: the share of
/// time in which some task waited for a CPU (`some` of `/proc/pressure/cpu`,
/// Documentation/accounting/psi.rst), or without PSI a load average above the number of CPUs.
///
/// # Panics
/// Where the figure is wrong on a quiet host.
pub fn on_a_quiet_host(mut attempt: impl FnMut() -> Result<(), String>) {
    let mut figures = String::new();
    for _ in 0..ATTEMPTS {
        let (result, load) = with_load(&mut attempt);
        let Err(wrong) = result else { return };
        let percent = load.0.unwrap_or(0.0) * 100.0;
        figures = format!("{wrong}; tasks waited for a CPU in {percent:.0}% of the time");
        assert!(load.is_busy(), "{figures}, so no other load explains it");
        println!("once more: {figures}");
    }
    skip(format!("not measured, for the host was busy in each of {ATTEMPTS} attempts: {figures}"));
}

/// The share of the time in which some task waited for a CPU; `None` without PSI.
#[derive(Clone, Copy, Debug)]
pub struct HostLoad(Option<f64>);

impl HostLoad {
    /// Whether other load may explain a wrong figure.
    pub fn is_busy(self) -> bool {
        self.0.map_or_else(is_loaded, |share| share > BUSY)
    }
}

/// Measures something, and how much tasks waited for a CPU meanwhile.
pub fn with_load<T>(measure: impl FnOnce() -> T) -> (T, HostLoad) {
    let (begun, before) = (Instant::now(), stalled_micros());
    let measured = measure();
    let waited = before.zip(stalled_micros()).map(|(before, after)| (after - before) / 1e6);
    (measured, HostLoad(waited.map(|waited| waited / begun.elapsed().as_secs_f64())))
}

/// The time in which some task waited for a CPU since boot, in microseconds; `None` without PSI.
fn stalled_micros() -> Option<f64> {
    total(&std::fs::read_to_string("/proc/pressure/cpu").ok()?)
}

fn total(pressure: &str) -> Option<f64> {
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    some.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

fn is_loaded() -> bool {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    load > f64::from(u32::try_from(cpus).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::{on_a_quiet_host, total};

    #[test]
    fn the_kernels_total_is_read() {
        let text = "some avg10=1.53 avg60=0.87 avg300=0.22 total=1234567\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(total(text), Some(1_234_567.0));
        assert_eq!(total("full avg10=0.00 total=7\n"), None);
    }

    #[test]
    fn a_right_figure_is_measured_once() {
        let mut attempts = 0;
        on_a_quiet_host(|| {
            attempts += 1;
            Ok(())
        });
        assert_eq!(attempts, 1);
    }
}
