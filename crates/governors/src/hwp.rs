//! `intel_pstate` in active mode with HWP: the kernel's part exactly, the hardware's as a stated
//! approximation.
//!
//! The kernel (`drivers/cpufreq/intel_pstate.c` of 6.12 and 6.1: `intel_pstate_hwp_set`,
//! `intel_pstate_hwp_boost_up`, `intel_pstate_hwp_boost_down`, `intel_pstate_update_util_hwp_local`) writes a
//! lowest and a highest level and a hint, and with `hwp_dynamic_boost` raises the lowest level for tasks that
//! waited for disks. What the hardware makes of it is assumed in [`AutonomousSpec`].
//!
//! Left out: CPUs without EPP (they use the bias of 0 to 15), hybrid CPUs' levels that are no multiples of
//! 100 MHz, interrupts about changed guaranteed performance, and the hint that some models replace 128 by as
//! `balance_performance`.

use crate::autonomous::{Autonomous, AutonomousSpec, Epp, Request, within};
use crate::intel_pstate::{GlobalLimits, IntelPolicy, Ratios, ratio_limits};
use crate::{Policy, Readings, Update};
use domain::time::Nanos;
use domain::units::Hertz;
use thiserror::Error;

/// For how long without a boost the raised minimum stays (`hwp_boost_hold_time_ns`).
const BOOST_HOLD: Nanos = Nanos::from_millis(3);

/// The hints by their names in `energy_performance_preference`, as HWP has them.
pub const HWP_PREFERENCES: [(&str, Epp); 4] = [
    ("performance", Epp(0)),
    ("balance_performance", Epp(0x80)),
    ("balance_power", Epp(0xc0)),
    ("power", Epp(0xff)),
];

/// A hint that the driver does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the policy `performance` takes no hint but 0")]
pub struct EppRefused;

/// Whether the kernel raises the minimum for tasks that waited for disks (`hwp_dynamic_boost`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DynamicBoost {
    /// It does: the default in 6.12 where the firmware says enterprise or performance server; in 6.1 only if
    /// the CPU is also one of two Skylake models.
    On,
    /// It does not: the default elsewhere.
    Off,
}

/// `intel_pstate` with HWP, for one CPU: the driver has a policy a CPU.
#[derive(Clone, Debug)]
pub struct Hwp {
    ratios: Ratios,
    global: GlobalLimits,
    policy: IntelPolicy,
    dynamic_boost: DynamicBoost,
    tick: Nanos,
    epp: Epp,
    epp_for_powersave: Epp,
    hardware: Autonomous,
    /// The request without a boost (`hwp_req_cached`).
    written: Request,
    boosted_min: u8,
    last_update: Nanos,
    last_io: Nanos,
}

impl Hwp {
    /// A driver that has not started. In `ratios`, `base` is the guaranteed performance and `turbo` the
    /// highest; `tick` is the kernel's (4 ms with `HZ=250`), `epp` what the firmware has set.
    ///
    /// # Panics
    /// Where a ratio exceeds 255: levels have eight bits.
    pub fn new(
        ratios: Ratios,
        policy: IntelPolicy,
        epp: Epp,
        dynamic_boost: DynamicBoost,
        tick: Nanos,
        hardware: AutonomousSpec,
    ) -> Self {
        assert!(ratios.turbo <= 255 && ratios.base_physical <= 255, "levels have eight bits: {ratios:?}");
        let request = Request { min: level(ratios.lowest), max: level(ratios.turbo), epp };
        let mut hwp = Self {
            ratios,
            global: GlobalLimits::new(&ratios),
            policy,
            dynamic_boost,
            tick,
            epp,
            epp_for_powersave: epp,
            hardware: Autonomous::new(hardware, level(ratios.base_physical), request),
            written: request,
            boosted_min: 0,
            last_update: Nanos::ZERO,
            last_io: Nanos::ZERO,
        };
        hwp.set_policy(policy);
        hwp
    }

    /// The limits for all CPUs; what is changed here holds from [`Hwp::limits_changed`] on.
    pub fn global_mut(&mut self) -> &mut GlobalLimits {
        &mut self.global
    }

    /// Writes `scaling_governor`; holds from [`Hwp::limits_changed`] on. `performance` sets the hint to 0,
    /// and `powersave` puts the old one back where it is still 0.
    pub fn set_policy(&mut self, policy: IntelPolicy) {
        self.policy = policy;
        match policy {
            IntelPolicy::Performance if self.epp != Epp(0) => {
                self.epp_for_powersave = self.epp;
                self.epp = Epp(0);
            }
            IntelPolicy::Powersave if self.epp == Epp(0) => self.epp = self.epp_for_powersave,
            _ => {}
        }
    }

    /// Writes `energy_performance_preference`; holds from [`Hwp::limits_changed`] on.
    ///
    /// # Errors
    /// Where the policy is `performance` and the hint is not 0.
    pub fn set_epp(&mut self, epp: Epp) -> Result<(), EppRefused> {
        if self.policy == IntelPolicy::Performance && epp != Epp(0) {
            return Err(EppRefused);
        }
        (self.epp, self.epp_for_powersave) = (epp, epp);
        Ok(())
    }

    /// What stands in the request register, a boost included.
    pub fn request(&self) -> Request {
        self.hardware.request()
    }

    /// Begins: the lowest level, and the first decision of the hardware a window later.
    pub fn start(&mut self, now: Nanos, policy: &Policy, readings: &impl Readings) -> Option<Hertz> {
        self.hardware.start(now, 0, readings);
        self.boosted_min = 0;
        self.limits_changed(policy);
        Some(self.frequency(policy, self.hardware.level()))
    }

    /// The limits of the policy, those for all CPUs, the hint or the policy's name have changed.
    pub fn limits_changed(&mut self, policy: &Policy) -> Option<Hertz> {
        // With HWP a maximum between base and turbo stays what it is.
        let ratios = Ratios { base_physical: self.ratios.base, ..self.ratios };
        let (min, max) = ratio_limits(&ratios, &self.global, policy);
        let (min, max) = (level(min), level(max));
        let min = if self.policy == IntelPolicy::Performance { max } else { min };
        self.written = Request { min, max, epp: self.epp };
        let changed = self.hardware.ask(self.written);
        changed.map(|level| self.frequency(policy, level))
    }

    /// The scheduler's hook, which there is only for `hwp_dynamic_boost`.
    pub fn update(&mut self, update: Update, policy: &Policy, _readings: &impl Readings) -> Option<Hertz> {
        if self.dynamic_boost == DynamicBoost::Off || self.policy == IntelPolicy::Performance {
            return None;
        }
        let changed = if update.iowait {
            let since = update.now.saturating_sub(self.last_io);
            let again = self.last_io != Nanos::ZERO && since.get() < 2 * self.tick.get();
            self.last_io = update.now;
            if again { self.boost_up(update.now) } else { None }
        } else {
            self.boost_down(update.now)
        };
        changed.map(|level| self.frequency(policy, level))
    }

    /// When the hardware decides next: call [`Hwp::act`] then.
    pub fn due(&self) -> Option<Nanos> {
        Some(self.hardware.due())
    }

    /// Lets the hardware decide where its window is over; the frequency, where it changes.
    pub fn act(&mut self, now: Nanos, policy: &Policy, readings: &impl Readings) -> Option<Hertz> {
        self.hardware.decide(now, 0, readings).map(|level| self.frequency(policy, level))
    }

    fn frequency(&self, policy: &Policy, level: u8) -> Hertz {
        within(policy, self.ratios.frequency(u32::from(level)))
    }

    /// One step up: half-way to guaranteed, guaranteed, the maximum.
    fn boost_up(&mut self, now: Nanos) -> Option<u8> {
        let Request { min, max, .. } = self.written;
        if max == min || self.boosted_min >= max {
            return None;
        }
        let guaranteed = level(self.ratios.base);
        let from = if self.boosted_min == 0 { min } else { self.boosted_min };
        // The kernel keeps the minimum as the boost also where it then finds no step to take.
        self.boosted_min = from;
        let half_way = ((u16::from(guaranteed) + u16::from(min)) / 2) as u8;
        self.boosted_min = if from < half_way {
            half_way
        } else if from < guaranteed {
            guaranteed
        } else if from == guaranteed && max != guaranteed {
            max
        } else {
            return None;
        };
        self.last_update = now;
        self.hardware.ask(Request { min: self.boosted_min, ..self.written })
    }

    /// Back to the minimum where it has been long since the last update.
    fn boost_down(&mut self, now: Nanos) -> Option<u8> {
        let expired = now > self.last_update + BOOST_HOLD;
        self.last_update = now;
        if self.boosted_min == 0 || !expired {
            return None;
        }
        self.boosted_min = 0;
        self.hardware.ask(self.written)
    }
}

fn level(ratio: u32) -> u8 {
    u8::try_from(ratio).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted::{Fixed, policy};
    use crate::intel_pstate::Turbo;
    use proptest::prelude::*;

    const TICK: Nanos = Nanos::from_millis(4);

    fn hwp(policy_name: IntelPolicy, boost: DynamicBoost) -> Hwp {
        let ratios = Ratios::core(8, 24, 35);
        let mut hwp = Hwp::new(ratios, policy_name, Epp(0x80), boost, TICK, AutonomousSpec::default());
        hwp.start(Nanos::ZERO, &policy(800, 3500), &Fixed::default());
        hwp
    }

    fn io(ms: u64) -> Update {
        Update { now: Nanos::from_millis(ms), cpu: 0, iowait: true }
    }

    fn other(ms: u64) -> Update {
        Update { iowait: false, ..io(ms) }
    }

    #[test]
    fn performance_writes_its_maximum_as_minimum_and_the_hint_zero() {
        let mut hwp = hwp(IntelPolicy::Performance, DynamicBoost::Off);
        assert_eq!(hwp.request(), Request { min: 35, max: 35, epp: Epp(0) });
        assert_eq!(hwp.set_epp(Epp(0x80)), Err(EppRefused));
        hwp.set_policy(IntelPolicy::Powersave);
        hwp.limits_changed(&policy(800, 2000));
        assert_eq!(hwp.request(), Request { min: 8, max: 20, epp: Epp(0x80) });
    }

    #[test]
    fn without_turbo_the_maximum_is_guaranteed_performance() {
        let mut hwp = hwp(IntelPolicy::Powersave, DynamicBoost::Off);
        hwp.global_mut().set_turbo(Turbo::Off);
        hwp.limits_changed(&policy(800, 3500));
        assert_eq!(hwp.request().max, 24);
    }

    #[test]
    fn two_waits_within_two_ticks_raise_the_minimum_in_three_steps() {
        let mut hwp = hwp(IntelPolicy::Powersave, DynamicBoost::On);
        let policy = policy(800, 3500);
        assert_eq!(hwp.update(io(10), &policy, &Fixed::default()), None, "the first alone is none");
        let asked: Vec<_> =
            [11, 12, 13, 14].map(|ms| hwp.update(io(ms), &policy, &Fixed::default())).into_iter().collect();
        // (24 + 8) / 2 = 16, then 24, then 35.
        let expected = [Some(1600), Some(2400), Some(3500), None].map(|mhz| mhz.map(Hertz::from_mhz));
        assert_eq!(asked, expected);
        // Other updates keep it for as long as they come within 3 ms of each other.
        assert_eq!(hwp.update(other(16), &policy, &Fixed::default()), None);
        assert_eq!(hwp.request().min, 35);
        hwp.update(other(20), &policy, &Fixed::default());
        assert_eq!(hwp.request().min, 8);
    }

    #[test]
    fn waits_that_are_two_ticks_apart_raise_nothing() {
        let mut hwp = hwp(IntelPolicy::Powersave, DynamicBoost::On);
        for ms in [10, 18, 26, 34] {
            assert_eq!(hwp.update(io(ms), &policy(800, 3500), &Fixed::default()), None);
        }
    }

    #[test]
    fn where_the_maximum_is_guaranteed_there_are_two_steps() {
        let mut hwp = hwp(IntelPolicy::Powersave, DynamicBoost::On);
        let policy = policy(800, 2400);
        hwp.limits_changed(&policy);
        let mins: Vec<_> = [10, 11, 12, 13]
            .map(|ms| {
                hwp.update(io(ms), &policy, &Fixed::default());
                hwp.request().min
            })
            .into_iter()
            .collect();
        assert_eq!(mins, [8, 16, 24, 24]);
    }

    proptest! {
        #[test]
        fn frequencies_lie_within_the_policy(
            steps in proptest::collection::vec((1_u64..9, 0_u64..30_000_000, any::<bool>()), 1..60),
            (a, b) in (800_u64..=3500, 800_u64..=3500),
            epp in any::<u8>(),
        ) {
            let policy = policy(a.min(b), a.max(b));
            let mut hwp = hwp(IntelPolicy::Powersave, DynamicBoost::On);
            hwp.set_epp(Epp(epp)).unwrap();
            let mut asked = vec![hwp.limits_changed(&policy)];
            let (mut ms, mut readings) = (0, Fixed::default());
            for (wait, worked, iowait) in steps {
                ms += wait;
                readings.aperf += worked;
                readings.mperf += worked;
                readings.tsc += wait * 2_400_000;
                asked.push(hwp.update(Update { iowait, ..io(ms) }, &policy, &readings));
                asked.push(hwp.act(Nanos::from_millis(ms), &policy, &readings));
            }
            for frequency in asked.into_iter().flatten() {
                prop_assert!(policy.min <= frequency && frequency <= policy.max);
            }
        }
    }
}
