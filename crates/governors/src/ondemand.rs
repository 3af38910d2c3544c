//! ondemand: the highest frequency above a threshold of load, else one in proportion to the load.
//!
//! Follows `drivers/cpufreq/cpufreq_ondemand.c`, 6.1 and 6.12 (which do not differ but in
//! [`default_io_is_busy`]). Left out: AMD's frequency sensitivity (`amd_freq_sensitivity.c`), which replaces
//! the bias. Held against the kernel by `tests/replay.rs`.

use crate::dbs::{Sampling, Tuning, default_sampling_rate_us, min_sampling_rate_us};
use crate::tunable::{TunableError, Tunables};
use crate::{KernelVersion, Policy, Readings, Relation};
use domain::time::Nanos;
use domain::units::Hertz;
use std::collections::BTreeMap;

pub(crate) const TUNABLES: Tunables = Tunables {
    governor: "ondemand",
    names: &[
        "sampling_rate",
        "up_threshold",
        "sampling_down_factor",
        "ignore_nice_load",
        "powersave_bias",
        "io_is_busy",
    ],
};

/// The threshold where idle time is counted in microseconds, as on every kernel whose tick stops (80 on
/// others).
const UP_THRESHOLD: u32 = 95;
const MAX_SAMPLING_DOWN_FACTOR: u32 = 100_000;

/// Whether ondemand takes waiting for disks as work where nothing was set: on Intel's CPUs of family 6 from
/// model 15 on; from 6.12.58 and 6.18 on all of Intel's from the Pentium Pro on. The governor itself cannot
/// know and begins with 0.
pub fn default_io_is_busy(kernel: KernelVersion, vendor: &str, family: u32, model: u32) -> bool {
    let intel = vendor == "GenuineIntel";
    if kernel.has((6, 18), &[(6, 12, 58)]) {
        intel && (family > 6 || (family == 6 && model >= 1))
    } else {
        intel && family == 6 && model >= 15
    }
}

/// Two frequencies whose average the bias wants, and for how long each (`struct od_policy_dbs_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dither {
    low: Hertz,
    high_us: u32,
    low_us: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ondemand {
    tuning: Tuning,
    powersave_bias: u32,
    pub(crate) sampling: Sampling,
    dither: Option<Dither>,
    /// The next work sets the lower of two frequencies and looks at no load (`OD_SUB_SAMPLE`).
    sub_sample: bool,
}

impl Ondemand {
    pub(crate) fn new(kernel: KernelVersion, hz: u32, policy: &Policy) -> Self {
        let tuning = Tuning {
            sampling_rate_us: default_sampling_rate_us(kernel, hz, policy),
            min_sampling_rate_us: min_sampling_rate_us(hz),
            up_threshold: UP_THRESHOLD,
            sampling_down_factor: 1,
            ignore_nice_load: false,
            io_is_busy: false,
        };
        Self { tuning, powersave_bias: 0, sampling: Sampling::new(policy), dither: None, sub_sample: false }
    }

    pub(crate) fn tunables(&self) -> BTreeMap<&'static str, String> {
        let own = [
            ("powersave_bias", self.powersave_bias.to_string()),
            ("io_is_busy", u8::from(self.tuning.io_is_busy).to_string()),
        ];
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
            "up_threshold" => self.tuning.up_threshold = TUNABLES.number("up_threshold", value, 1, 100)?,
            "sampling_down_factor" => {
                self.tuning.sampling_down_factor =
                    TUNABLES.number("sampling_down_factor", value, 1, MAX_SAMPLING_DOWN_FACTOR)?;
                self.sampling.rate_mult = 1;
            }
            "ignore_nice_load" => {
                let ignore = TUNABLES.capped("ignore_nice_load", value, 1)? == 1;
                if ignore != self.tuning.ignore_nice_load {
                    self.tuning.ignore_nice_load = ignore;
                    self.sampling.forget(now, &self.tuning, readings);
                }
            }
            "io_is_busy" => {
                self.tuning.io_is_busy = TUNABLES.capped("io_is_busy", value, 1)? == 1;
                self.sampling.forget(now, &self.tuning, readings);
            }
            _ => {
                self.powersave_bias = TUNABLES.capped("powersave_bias", value, 1000)?;
                self.dither = None;
            }
        }
        Ok(())
    }

    pub(crate) fn start(&mut self, now: Nanos, policy: &Policy, readings: &impl Readings) -> Option<Hertz> {
        self.sub_sample = false;
        self.dither = None;
        self.sampling.start(now, &self.tuning, readings);
        policy.apply_limits()
    }

    pub(crate) fn limits_changed(&mut self, policy: &Policy) -> Option<Hertz> {
        self.sampling.sample_at_once();
        policy.apply_limits()
    }

    /// The queued work (`od_dbs_update`).
    pub(crate) fn work(&mut self, now: Nanos, policy: &Policy, readings: &impl Readings) -> Option<Hertz> {
        let sub_sample = std::mem::take(&mut self.sub_sample) && !self.sampling.is_at_once();
        if sub_sample {
            let (low, low_us) = self.dither.map_or((Hertz::from_khz(0), 0), |d| (d.low, d.low_us));
            self.sampling.set_delay_us(low_us);
            return policy.request(low, Relation::AtMost);
        }
        let request = self.sample(now, policy, readings);
        let delay_us = match self.dither {
            Some(dither) => {
                self.sub_sample = true;
                dither.high_us
            }
            None => self.tuning.sampling_rate_us.wrapping_mul(self.sampling.rate_mult),
        };
        self.sampling.set_delay_us(delay_us);
        request
    }

    fn sample(&mut self, now: Nanos, policy: &Policy, readings: &impl Readings) -> Option<Hertz> {
        let load = self.sampling.load(now, &self.tuning, readings).load;
        self.dither = None;
        if load > self.tuning.up_threshold {
            if policy.current < policy.max {
                self.sampling.rate_mult = self.tuning.sampling_down_factor;
            }
            return self.highest(policy);
        }
        self.sampling.rate_mult = 1;
        let (min_khz, max_khz) = (policy.hardware_min.khz() as u32, policy.hardware_max.khz() as u32);
        let next_khz = min_khz.wrapping_add(load.wrapping_mul(max_khz.wrapping_sub(min_khz)) / 100);
        let mut next = Hertz::from_khz(u64::from(next_khz));
        if self.powersave_bias != 0 {
            next = self.biased(policy, next, Relation::AtLeast);
        }
        policy.request(next, Relation::Closest)
    }

    /// `dbs_freq_increase`.
    fn highest(&mut self, policy: &Policy) -> Option<Hertz> {
        if self.powersave_bias != 0 {
            let wanted = self.biased(policy, policy.max, Relation::AtMost);
            return policy.request(wanted, Relation::AtLeast);
        }
        if policy.current == policy.max {
            return None;
        }
        policy.request(policy.max, Relation::AtMost)
    }

    /// The higher of the two frequencies around the one that the bias leaves of a wanted one
    /// (`generic_powersave_bias_target`).
    fn biased(&mut self, policy: &Policy, wanted: Hertz, relation: Relation) -> Hertz {
        if policy.table.is_none() {
            return wanted;
        }
        let wanted_khz = policy.resolve(wanted, relation).khz() as u32;
        let average_khz = wanted_khz.wrapping_sub(wanted_khz.wrapping_mul(self.powersave_bias) / 1000);
        let average = Hertz::from_khz(u64::from(average_khz));
        let low = policy.resolve(average, Relation::AtMost);
        let high = policy.resolve(average, Relation::AtLeast);
        if low == high {
            return low;
        }
        let (low_khz, high_khz) = (low.khz() as u32, high.khz() as u32);
        let period_us = self.tuning.sampling_rate_us;
        let apart_khz = high_khz.wrapping_sub(low_khz);
        // 32 bits: a wide gap between two states times a long period wraps, as in the kernel.
        let weighted = average_khz.wrapping_sub(low_khz).wrapping_mul(period_us);
        let high_us = weighted.wrapping_add(apart_khz / 2) / apart_khz;
        self.dither = Some(Dither { low, high_us, low_us: period_us.wrapping_sub(high_us) });
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbs::tests::{Counters, Told, at_ms, laptop};
    use crate::{Governor, Update};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const OLD: KernelVersion = KernelVersion::new(6, 1, 192);

    fn governor(tunables: &[(&str, &str)]) -> Governor {
        let tunables: BTreeMap<String, String> =
            tunables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Governor::new("ondemand", &tunables, OLD, 250, &laptop()).unwrap()
    }

    /// Updates at these times (ms) with this idle time in all; the frequency (MHz) after each.
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
    fn load_at_the_threshold_is_proportional_and_above_it_is_the_highest() {
        let (mut ondemand, mut policy) = (governor(&[("up_threshold", "90")]), laptop());
        assert_eq!(ondemand.start(Nanos::ZERO, &policy, &Told::idle_ms(0)), None);
        // 90%: 350 + 0.9 * 2450 = 2555, closest 2800 (245 against 455).
        // 91% above; 60%: 1820, closest 2100; 50%: 1575, closest 1400.
        let seen = run(&mut ondemand, &mut policy, &[(100, 10), (110, 10), (120, 14), (130, 19), (140, 29)]);
        assert_eq!(seen, [2800, 2800, 2100, 1400, 350]);
    }

    #[test]
    fn an_update_within_the_period_decides_nothing() {
        let (mut ondemand, mut policy) = (governor(&[]), laptop());
        ondemand.start(Nanos::ZERO, &policy, &Told::idle_ms(0));
        assert_eq!(run(&mut ondemand, &mut policy, &[(10, 0), (19, 9), (20, 9)]), [2800, 2800, 700]);
        assert_eq!(ondemand.due(), Some(Nanos::from_millis(30)));
    }

    #[test]
    fn sampling_down_factor_keeps_the_highest_for_that_many_periods() {
        let (mut ondemand, mut policy) = (governor(&[("sampling_down_factor", "5")]), laptop());
        ondemand.start(Nanos::ZERO, &policy, &Told::idle_ms(0));
        assert_eq!(run(&mut ondemand, &mut policy, &[(10, 0)]), [2800]);
        assert_eq!(ondemand.due(), Some(Nanos::from_millis(60)));
        // Still above: the factor stays. Then below it: one period again.
        assert_eq!(run(&mut ondemand, &mut policy, &[(60, 0)]), [2800]);
        assert_eq!(ondemand.due(), Some(Nanos::from_millis(110)));
        assert_eq!(run(&mut ondemand, &mut policy, &[(110, 30)]), [1400]);
        assert_eq!(ondemand.due(), Some(Nanos::from_millis(120)));
    }

    #[test]
    fn the_bias_dithers_between_two_frequencies() {
        let (mut ondemand, mut policy) = (governor(&[("powersave_bias", "100")]), laptop());
        ondemand.start(Nanos::ZERO, &policy, &Told::idle_ms(0));
        // 2800 less a tenth: 2520 lies between 2100 and 2800; (420 * 10000 + 350) / 700 = 6 ms of the higher.
        assert_eq!(run(&mut ondemand, &mut policy, &[(10, 0)]), [2800]);
        assert_eq!(ondemand.due(), Some(Nanos::from_millis(16)));
        assert_eq!(run(&mut ondemand, &mut policy, &[(16, 0)]), [2100]);
        assert_eq!(ondemand.due(), Some(Nanos::from_millis(20)));
        assert_eq!(run(&mut ondemand, &mut policy, &[(20, 0)]), [2800]);
    }

    #[test]
    fn limits_bring_the_frequency_back_and_sample_at_once() {
        let (mut ondemand, mut policy) = (governor(&[]), laptop());
        ondemand.start(Nanos::ZERO, &policy, &Told::idle_ms(0));
        assert_eq!(run(&mut ondemand, &mut policy, &[(10, 0)]), [2800]);
        policy.max = Hertz::from_mhz(1400);
        let request = ondemand.limits_changed(Nanos::from_millis(11), &policy, &Told::idle_ms(0));
        assert_eq!(request, Some(Hertz::from_mhz(1400)));
        policy.current = Hertz::from_mhz(1400);
        assert_eq!(run(&mut ondemand, &mut policy, &[(12, 0)]), [1400], "the next update samples");
        assert_eq!(ondemand.due(), Some(Nanos::from_millis(22)));
    }

    #[test]
    fn io_is_busy_by_default_where_the_kernel_says_so() {
        let old = |family, model| default_io_is_busy(OLD, "GenuineIntel", family, model);
        assert_eq!([old(6, 14), old(6, 15), old(15, 15)], [false, true, false]);
        let new = KernelVersion::new(6, 12, 117);
        assert!(default_io_is_busy(new, "GenuineIntel", 18, 1));
        assert!(!default_io_is_busy(new, "AuthenticAMD", 25, 1));
    }

    proptest! {
        #[test]
        fn requests_are_of_the_table_and_within_limits(
            busy_us in proptest::collection::vec(0u64..12_000, 1..60),
            bias in 0u32..1001, threshold in 1u32..101, low in 0usize..5, high in 0usize..5,
        ) {
            let mut policy = laptop();
            let all = policy.table.clone().unwrap().all().to_vec();
            (policy.min, policy.max) = (all[low.min(high)], all[low.max(high)]);
            let (bias, threshold) = (bias.to_string(), threshold.to_string());
            let mut ondemand = governor(&[("powersave_bias", &bias), ("up_threshold", &threshold)]);
            let mut told = Told::one(Counters::default());
            if let Some(request) = ondemand.start(Nanos::ZERO, &policy, &told) {
                policy.current = request;
            }
            let mut now = Nanos::ZERO;
            for busy in busy_us {
                now = now + Nanos::from_millis(12);
                told.0[0].idle = told.0[0].idle + Nanos::from_micros(12_000 - busy);
                if let Some(request) = ondemand.update(Update { now, cpu: 0, iowait: false }, &policy, &told) {
                    prop_assert!((policy.min..=policy.max).contains(&request), "{request:?}");
                    prop_assert!(all.contains(&request));
                    policy.current = request;
                }
            }
        }

        #[test]
        fn more_load_never_asks_for_less(one in 0u64..10_001, other in 0u64..10_001) {
            let asked = |busy_us: u64| {
                let (mut ondemand, mut policy) = (governor(&[]), laptop());
                ondemand.start(Nanos::ZERO, &policy, &Told::idle_ms(0));
                let idle = Nanos::from_micros(10_000 - busy_us);
                let told = Told::one(Counters { idle, ..Counters::default() });
                if let Some(request) = ondemand.update(at_ms(10), &policy, &told) {
                    policy.current = request;
                }
                policy.current
            };
            prop_assert!(asked(one.min(other)) <= asked(one.max(other)));
        }
    }
}
