//! conservative: a step up above one threshold of load, a step down below another.
//!
//! Follows `drivers/cpufreq/cpufreq_conservative.c`, 6.1 and 6.12, with three changes that came by stable
//! releases:
//!
//! * the wanted frequency is reset when limits change (6.1.168, 6.12.80, 7.0);
//! * a step is asked of the driver also where the wanted frequency is at a limit already (6.1.178, 6.12.97,
//!   7.2). Before, the steps for idle periods could bring the wanted frequency to the minimum, and then
//!   nothing was asked;
//! * steps for idle periods need a load below `down_threshold` in the sample itself (6.12.117, 7.3).
//!
//! For other stable series the mainline release decides, which is inferred from the dates of these. Held
//! against the kernel by `tests/replay.rs`.

use crate::dbs::{Sampling, Tuning, default_sampling_rate_us, min_sampling_rate_us};
use crate::tunable::{TunableError, Tunables};
use crate::{KernelVersion, Policy, Readings, Relation};
use domain::time::Nanos;
use domain::units::Hertz;
use std::collections::BTreeMap;

pub(crate) const TUNABLES: Tunables = Tunables {
    governor: "conservative",
    names: &[
        "sampling_rate",
        "sampling_down_factor",
        "up_threshold",
        "down_threshold",
        "ignore_nice_load",
        "freq_step",
    ],
};

/// The step where a percentage of the highest frequency comes to nothing, in kHz.
const MIN_STEP_KHZ: u32 = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conservative {
    tuning: Tuning,
    down_threshold: u32,
    /// Percent of the policy's maximum.
    freq_step: u32,
    pub(crate) sampling: Sampling,
    down_skip: u32,
    requested_khz: u32,
    resets_on_limits: bool,
    asks_at_limits: bool,
    steps_need_low_load: bool,
}

impl Conservative {
    pub(crate) fn new(kernel: KernelVersion, hz: u32, policy: &Policy) -> Self {
        let tuning = Tuning {
            sampling_rate_us: default_sampling_rate_us(kernel, hz, policy),
            min_sampling_rate_us: min_sampling_rate_us(hz),
            up_threshold: 80,
            sampling_down_factor: 1,
            ignore_nice_load: false,
            io_is_busy: false,
        };
        Self {
            tuning,
            down_threshold: 20,
            freq_step: 5,
            sampling: Sampling::new(policy),
            down_skip: 0,
            requested_khz: policy.current.khz() as u32,
            resets_on_limits: kernel.has((7, 0), &[(6, 1, 168), (6, 12, 80)]),
            asks_at_limits: kernel.has((7, 2), &[(6, 1, 178), (6, 12, 97)]),
            steps_need_low_load: kernel.has((7, 3), &[(6, 1, u16::MAX), (6, 12, 117)]),
        }
    }

    pub(crate) fn tunables(&self) -> BTreeMap<&'static str, String> {
        let own =
            [("down_threshold", self.down_threshold.to_string()), ("freq_step", self.freq_step.to_string())];
        self.tuning.shown().into_iter().chain(own).collect()
    }

    pub(crate) fn set(
        &mut self,
        name: &str,
        value: &str,
        now: Nanos,
        readings: &impl Readings,
    ) -> Result<(), TunableError> {
        match TUNABLES.find(name)? {
            "sampling_rate" => {
                self.tuning.set_sampling_rate(&TUNABLES, value)?;
                self.sampling.sample_at_once();
            }
            "sampling_down_factor" => {
                self.tuning.sampling_down_factor = TUNABLES.number("sampling_down_factor", value, 1, 10)?;
            }
            "up_threshold" => {
                let up = TUNABLES.number("up_threshold", value, 0, 100)?;
                self.set_thresholds("up_threshold", value, self.down_threshold, up)?;
            }
            "down_threshold" => {
                let down = TUNABLES.number("down_threshold", value, 1, 100)?;
                self.set_thresholds("down_threshold", value, down, self.tuning.up_threshold)?;
            }
            "ignore_nice_load" => {
                let ignore = TUNABLES.capped("ignore_nice_load", value, 1)? == 1;
                if ignore != self.tuning.ignore_nice_load {
                    self.tuning.ignore_nice_load = ignore;
                    self.sampling.forget(now, &self.tuning, readings);
                }
            }
            _ => self.freq_step = TUNABLES.capped("freq_step", value, 100)?,
        }
        Ok(())
    }

    fn set_thresholds(
        &mut self,
        name: &'static str,
        value: &str,
        down: u32,
        up: u32,
    ) -> Result<(), TunableError> {
        if down >= up {
            let want = format!("`down_threshold` ({down}) must be below `up_threshold` ({up})");
            return Err(TUNABLES.refuse(name, value, want));
        }
        (self.down_threshold, self.tuning.up_threshold) = (down, up);
        Ok(())
    }

    pub(crate) fn start(&mut self, now: Nanos, policy: &Policy, readings: &impl Readings) -> Option<Hertz> {
        self.sampling.start(now, &self.tuning, readings);
        self.down_skip = 0;
        self.requested_khz = policy.current.khz() as u32;
        self.limits_changed(policy)
    }

    pub(crate) fn limits_changed(&mut self, policy: &Policy) -> Option<Hertz> {
        let request = policy.apply_limits();
        self.sampling.sample_at_once();
        if self.resets_on_limits {
            self.requested_khz = request.unwrap_or(policy.current).khz() as u32;
        }
        request
    }

    pub(crate) fn wanted(&self) -> Hertz {
        Hertz::from_khz(u64::from(self.requested_khz))
    }

    /// The queued work (`cs_dbs_update`).
    pub(crate) fn work(&mut self, now: Nanos, policy: &Policy, readings: &impl Readings) -> Option<Hertz> {
        let request = self.step(now, policy, readings);
        self.sampling.set_delay_us(self.tuning.sampling_rate_us);
        request
    }

    fn step(&mut self, now: Nanos, policy: &Policy, readings: &impl Readings) -> Option<Hertz> {
        let mut wanted_khz = self.requested_khz;
        let seen = self.sampling.load(now, &self.tuning, readings);
        if self.freq_step == 0 {
            return None;
        }
        let (min_khz, max_khz) = (policy.min.khz() as u32, policy.max.khz() as u32);
        if wanted_khz > max_khz || wanted_khz < min_khz {
            wanted_khz = policy.current.khz() as u32;
            self.requested_khz = wanted_khz;
        }
        let step_khz = match self.freq_step.wrapping_mul(max_khz) / 100 {
            0 => MIN_STEP_KHZ,
            step => step,
        };

        let low = !self.steps_need_low_load || seen.sample_load < self.down_threshold;
        if let Some(periods) = seen.idle_periods.filter(|_| low) {
            wanted_khz = lowered(wanted_khz, periods.wrapping_mul(step_khz), min_khz);
        }

        if seen.load > self.tuning.up_threshold {
            self.down_skip = 0;
            if !self.asks_at_limits && wanted_khz == max_khz {
                return None;
            }
            wanted_khz = wanted_khz.wrapping_add(step_khz).min(max_khz);
            return self.ask(wanted_khz, policy, Relation::AtMost);
        }
        self.down_skip += 1;
        if self.down_skip < self.tuning.sampling_down_factor {
            return None;
        }
        self.down_skip = 0;
        if seen.load >= self.down_threshold || (!self.asks_at_limits && wanted_khz == min_khz) {
            return None;
        }
        self.ask(lowered(wanted_khz, step_khz, min_khz), policy, Relation::AtLeast)
    }

    fn ask(&mut self, wanted_khz: u32, policy: &Policy, relation: Relation) -> Option<Hertz> {
        self.requested_khz = wanted_khz;
        policy.request(Hertz::from_khz(u64::from(wanted_khz)), relation)
    }
}

fn lowered(wanted_khz: u32, by_khz: u32, min_khz: u32) -> u32 {
    if wanted_khz > min_khz.wrapping_add(by_khz) { wanted_khz.wrapping_sub(by_khz) } else { min_khz }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbs::tests::{Counters, Told, at_ms, laptop};
    use crate::{Governor, Update};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const OLD: KernelVersion = KernelVersion::new(6, 1, 100);
    const NEW: KernelVersion = KernelVersion::new(6, 12, 117);

    fn governor(kernel: KernelVersion, tunables: &[(&str, &str)]) -> Governor {
        let tunables: BTreeMap<String, String> =
            tunables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Governor::new("conservative", &tunables, kernel, 250, &laptop()).unwrap()
    }

    #[test]
    fn after_a_long_rest_it_has_come_down_step_by_step() {
        for kernel in [OLD, NEW] {
            let mut policy = laptop();
            policy.current = policy.max;
            let mut governor = governor(kernel, &[("freq_step", "1")]);
            governor.start(Nanos::ZERO, &policy, &Told::idle_ms(0));
            assert_eq!(governor.has_rested(Nanos::ZERO, &policy, &Told::idle_ms(0)), Some(policy.min));
            assert_eq!(governor.wanted(), Some(policy.min));
        }
    }

    fn run(governor: &mut Governor, policy: &mut Policy, updates: &[(u64, u64)]) -> Vec<u64> {
        let mut seen = Vec::new();
        for (at, idle) in updates {
            if let Some(request) = governor.update(at_ms(*at), policy, &Told::idle_ms(*idle)) {
                policy.current = request;
            }
            seen.push(policy.current.khz() / 1000);
        }
        seen
    }

    #[test]
    fn steps_add_up_until_they_reach_a_state_of_the_table() {
        let (mut conservative, mut policy) = (governor(OLD, &[]), laptop());
        conservative.start(Nanos::ZERO, &policy, &Told::idle_ms(0));
        // 5% of 2800 is 140 MHz; the highest state at or below 350 + 140 n.
        let busy: Vec<(u64, u64)> = (1..=8).map(|n| (n * 10, 0)).collect();
        let seen = run(&mut conservative, &mut policy, &busy);
        assert_eq!(seen, [350, 350, 700, 700, 700, 700, 700, 1400]);
    }

    #[test]
    fn loads_at_the_thresholds_change_nothing() {
        let mut policy = Policy { current: Hertz::from_mhz(1400), ..laptop() };
        let mut conservative = governor(OLD, &[("freq_step", "30"), ("sampling_rate", "100000")]);
        conservative.start(Nanos::ZERO, &policy, &Told::idle_ms(0));
        // 80%, 20%; then 81% and 19%: 1400 + 840 = 2240 MHz, and back.
        assert_eq!(run(&mut conservative, &mut policy, &[(100, 20), (200, 100)]), [1400, 1400]);
        assert_eq!(run(&mut conservative, &mut policy, &[(300, 119), (400, 200)]), [2100, 1400]);
    }

    #[test]
    fn sampling_down_factor_delays_steps_down_alone() {
        let mut policy = Policy { current: Hertz::from_mhz(2800), ..laptop() };
        let mut conservative =
            governor(OLD, &[("sampling_down_factor", "3"), ("freq_step", "25"), ("sampling_rate", "20000")]);
        conservative.start(Nanos::ZERO, &policy, &Told::idle_ms(0));
        let idle: Vec<(u64, u64)> = (1..=6).map(|n| (n * 20, n * 19)).collect();
        assert_eq!(run(&mut conservative, &mut policy, &idle), [2800, 2800, 2100, 2100, 2100, 1400]);
    }

    #[test]
    fn steps_for_idle_periods_reach_the_driver_only_in_newer_kernels() {
        // 300 ms idle of 300: 30 periods of 140 MHz take the wanted frequency to the minimum.
        let seen = |kernel| {
            let mut policy = Policy { current: Hertz::from_mhz(2800), ..laptop() };
            let mut conservative = governor(kernel, &[]);
            conservative.start(Nanos::ZERO, &policy, &Told::idle_ms(0));
            run(&mut conservative, &mut policy, &[(300, 300)])
        };
        assert_eq!(seen(OLD), [2800], "at the minimum already: nothing is asked");
        assert_eq!(seen(NEW), [350]);
    }

    #[test]
    fn a_busy_sample_after_a_long_idle_one_lowers_first_only_in_older_kernels() {
        // Idle for 25 ms of 125: 2 periods, sample load 80, at 2100 MHz. Then above the threshold by the load
        // before.
        let seen = |kernel| {
            let mut policy = Policy { current: Hertz::from_mhz(2100), ..laptop() };
            let mut conservative = governor(kernel, &[("freq_step", "26")]);
            conservative.start(Nanos::ZERO, &policy, &Told::idle_ms(0));
            run(&mut conservative, &mut policy, &[(10, 0), (135, 25)])
        };
        assert_eq!(seen(OLD), [2800, 1400]);
        assert_eq!(seen(NEW), [2800, 2800]);
    }

    #[test]
    fn a_step_of_nothing_keeps_the_frequency() {
        let (mut conservative, mut policy) = (governor(NEW, &[("freq_step", "0")]), laptop());
        conservative.start(Nanos::ZERO, &policy, &Told::idle_ms(0));
        assert_eq!(run(&mut conservative, &mut policy, &[(10, 0), (20, 0)]), [350, 350]);
    }

    proptest! {
        #[test]
        fn requests_are_within_limits(
            busy_us in proptest::collection::vec(0u64..12_000, 1..60),
            step in 0u32..101, low in 0usize..5, high in 0usize..5, new in any::<bool>(),
        ) {
            let mut policy = laptop();
            let all = policy.table.clone().unwrap().all().to_vec();
            (policy.min, policy.max) = (all[low.min(high)], all[low.max(high)]);
            let kernel = if new { NEW } else { OLD };
            let mut conservative = governor(kernel, &[("freq_step", &step.to_string())]);
            let mut told = Told::one(Counters::default());
            if let Some(request) = conservative.start(Nanos::ZERO, &policy, &told) {
                policy.current = request;
            }
            let mut now = Nanos::ZERO;
            for busy in busy_us {
                now = now + Nanos::from_millis(12);
                told.0[0].idle = told.0[0].idle + Nanos::from_micros(12_000 - busy);
                if let Some(request) = conservative.update(Update { now, cpu: 0, iowait: false }, &policy, &told) {
                    prop_assert!((policy.min..=policy.max).contains(&request), "{request:?}");
                    policy.current = request;
                }
            }
        }
    }
}
