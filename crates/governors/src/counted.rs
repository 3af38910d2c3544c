//! Readings and policies for the tests of drivers that read counters.

use crate::driver::Driver;
use crate::{Policy, Readings};
use domain::time::Nanos;
use domain::units::Hertz;

/// Readings that are what they are set to, for every CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fixed {
    pub(crate) aperf: u64,
    pub(crate) mperf: u64,
    pub(crate) tsc: u64,
}

impl Readings for Fixed {
    fn idle(&self, _cpu: usize) -> Nanos {
        Nanos::ZERO
    }
    fn iowait(&self, _cpu: usize) -> Nanos {
        Nanos::ZERO
    }
    fn nice(&self, _cpu: usize) -> Nanos {
        Nanos::ZERO
    }
    fn utilisation(&self, _cpu: usize) -> u64 {
        0
    }
    fn idle_calls(&self, _cpu: usize) -> u64 {
        0
    }
    fn aperf(&self, _cpu: usize) -> u64 {
        self.aperf
    }
    fn mperf(&self, _cpu: usize) -> u64 {
        self.mperf
    }
    fn tsc(&self, _cpu: usize) -> u64 {
        self.tsc
    }
}

/// A policy of one CPU without a table, with these limits in MHz, at its lower one.
pub(crate) fn policy(min_mhz: u64, max_mhz: u64) -> Policy {
    let (min, max) = (Hertz::from_mhz(min_mhz), Hertz::from_mhz(max_mhz));
    Policy {
        cpus: 1,
        table: None,
        hardware_min: min,
        hardware_max: max,
        min,
        max,
        current: min,
        transition_latency_ns: 0,
        fast_switch: true,
        frequency_invariant: true,
        driver: Driver::Frequencies,
    }
}
