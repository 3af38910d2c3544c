//! `amd_pstate` in active mode (EPP): the kernel's part exactly, the hardware's as a stated approximation.
//!
//! The kernel (`drivers/cpufreq/amd-pstate.c` of 6.12: `amd_pstate_init_freq`, `amd_pstate_epp_update_limit`,
//! `amd_pstate_cpu_boost_update`) writes a lowest and a highest level and a hint. What the hardware makes of
//! it is assumed in [`AutonomousSpec`], and that a level's frequency is proportional to it. The active mode
//! came with 6.3 (not read in source; 6.1 does not have it).
//!
//! The passive and the guided mode are in [`crate::driver`]. Left out: the ranking of preferred cores, quirks
//! of single models.

use crate::autonomous::{Autonomous, AutonomousSpec, Epp, Request, within};
use crate::intel_pstate::{IntelPolicy, Turbo};
use crate::{KernelVersion, Policy, Readings, Update};
use domain::time::Nanos;
use domain::units::Hertz;
use thiserror::Error;

/// The hints by their names in `energy_performance_preference`, as AMD has them.
pub const AMD_PREFERENCES: [(&str, Epp); 4] = [
    ("performance", Epp(0)),
    ("balance_performance", Epp(0x80)),
    ("balance_power", Epp(0xbf)),
    ("power", Epp(0xff)),
];

/// What the CPU's capability register and the ACPI object `_CPC` say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmdLevels {
    /// The level of the highest boost (the numerator of the boost ratio: 166 or 196 or 255, or what the core
    /// says).
    pub highest: u8,
    /// The level of the nominal frequency, at which MPERF and TSC count.
    pub nominal: u8,
    /// The lowest level at which power still falls faster than performance.
    pub lowest_nonlinear: u8,
    /// The lowest level.
    pub lowest: u8,
    /// The nominal frequency.
    pub nominal_frequency: Hertz,
    /// The lowest frequency.
    pub lowest_frequency: Hertz,
}

/// Why levels are refused, as the driver refuses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AmdRefused {
    /// The kernel has no active mode.
    #[error("amd_pstate's active mode came with 6.3; this is {0}")]
    TooOld(KernelVersion),
    /// Frequencies out of order.
    #[error("the lowest frequency {lowest} and the highest {highest} are out of order, or one is zero")]
    Frequencies {
        /// The lowest.
        lowest: Hertz,
        /// The highest.
        highest: Hertz,
    },
    /// The lowest nonlinear frequency does not lie above the lowest and up to the nominal one.
    #[error("the lowest nonlinear frequency {0} does not lie between the lowest and the nominal one")]
    LowestNonlinear(Hertz),
}

impl AmdLevels {
    /// `cpuinfo_max_freq` with boost, in the driver's arithmetic: MHz, and a ratio in 1/1024.
    pub fn highest_frequency(&self) -> Hertz {
        self.mhz_of(self.highest)
    }

    /// `amd_pstate_lowest_nonlinear_freq`.
    pub fn lowest_nonlinear_frequency(&self) -> Hertz {
        self.mhz_of(self.lowest_nonlinear)
    }

    fn mhz_of(&self, level: u8) -> Hertz {
        let ratio = (u64::from(level) << 10) / u64::from(self.nominal);
        Hertz::from_mhz((self.nominal_frequency.khz() / 1000 * ratio) >> 10)
    }

    fn check(&self) -> Result<(), AmdRefused> {
        let (lowest, highest) = (self.lowest_frequency, self.highest_frequency());
        if lowest.khz() == 0 || self.nominal_frequency.khz() == 0 || lowest > highest {
            return Err(AmdRefused::Frequencies { lowest, highest });
        }
        let nonlinear = self.lowest_nonlinear_frequency();
        if nonlinear <= lowest || nonlinear > self.nominal_frequency {
            return Err(AmdRefused::LowestNonlinear(nonlinear));
        }
        Ok(())
    }
}

/// `amd_pstate` in active mode, for one CPU: the driver has a policy a CPU. Its policies are called as
/// Intel's are.
#[derive(Clone, Debug)]
pub struct AmdPstate {
    levels: AmdLevels,
    policy: IntelPolicy,
    epp: Epp,
    boost: Turbo,
    hardware: Autonomous,
}

impl AmdPstate {
    /// A driver that has not started; `epp` is what the firmware has set.
    ///
    /// # Errors
    /// Where the driver would not load.
    pub fn new(
        levels: AmdLevels,
        policy: IntelPolicy,
        epp: Epp,
        version: KernelVersion,
        hardware: AutonomousSpec,
    ) -> Result<Self, AmdRefused> {
        if version < KernelVersion::new(6, 3, 0) {
            return Err(AmdRefused::TooOld(version));
        }
        if levels.nominal == 0 {
            let (lowest, highest) = (levels.lowest_frequency, Hertz::from_khz(0));
            return Err(AmdRefused::Frequencies { lowest, highest });
        }
        levels.check()?;
        let request = Request { min: levels.lowest, max: levels.highest, epp };
        let hardware = Autonomous::new(hardware, levels.nominal, request);
        Ok(Self { levels, policy, epp, boost: Turbo::On, hardware })
    }

    /// `cpuinfo_min_freq` and `cpuinfo_max_freq`, which boost decides.
    pub fn hardware_limits(&self) -> (Hertz, Hertz) {
        let highest = self.levels.highest_frequency();
        let max = if self.boost == Turbo::On { highest } else { highest.min(self.levels.nominal_frequency) };
        (self.levels.lowest_frequency, max)
    }

    /// Writes `boost`. The policy's `hardware_max` and `max` become those of [`AmdPstate::hardware_limits`];
    /// holds from [`AmdPstate::limits_changed`] on.
    pub fn set_boost(&mut self, boost: Turbo) {
        self.boost = boost;
    }

    /// Writes `scaling_governor`; holds from [`AmdPstate::limits_changed`] on.
    pub fn set_policy(&mut self, policy: IntelPolicy) {
        self.policy = policy;
    }

    /// Writes `energy_performance_preference`; with `performance` it has no effect, where the kernel refuses
    /// it.
    pub fn set_epp(&mut self, epp: Epp) {
        self.epp = epp;
    }

    /// What stands in the request register.
    pub fn request(&self) -> Request {
        self.hardware.request()
    }

    /// Begins: the lowest level, and the first decision of the hardware a window later.
    pub fn start(&mut self, now: Nanos, policy: &Policy, readings: &impl Readings) -> Option<Hertz> {
        self.hardware.start(now, 0, readings);
        self.limits_changed(policy);
        Some(self.frequency(policy, self.hardware.level()))
    }

    /// The limits of the policy, boost, the hint or the policy's name have changed.
    pub fn limits_changed(&mut self, policy: &Policy) -> Option<Hertz> {
        let highest = if self.boost == Turbo::On { self.levels.highest } else { self.levels.nominal };
        let of_policy = |limit: Hertz| limit.khz() * u64::from(highest) / policy.hardware_max.khz().max(1);
        let min_limit = of_policy(policy.min).max(u64::from(self.levels.lowest));
        let max_limit = of_policy(policy.max).max(min_limit);
        let clamped = |level: u8| u64::from(level).clamp(min_limit, max_limit).min(255) as u8;
        let max = clamped(highest);
        let (min, epp) = match self.policy {
            IntelPolicy::Performance => (self.levels.nominal.min(max), Epp(0)),
            IntelPolicy::Powersave => (clamped(self.levels.lowest), self.epp),
        };
        let changed = self.hardware.ask(Request { min, max, epp });
        changed.map(|level| self.frequency(policy, level))
    }

    /// The scheduler's hook, which the active mode does not have: nothing.
    pub fn update(&mut self, _update: Update, _policy: &Policy, _readings: &impl Readings) -> Option<Hertz> {
        None
    }

    /// When the hardware decides next: call [`AmdPstate::act`] then.
    pub fn due(&self) -> Option<Nanos> {
        Some(self.hardware.due())
    }

    /// Lets the hardware decide where its window is over; the frequency, where it changes.
    pub fn act(&mut self, now: Nanos, policy: &Policy, readings: &impl Readings) -> Option<Hertz> {
        self.hardware.decide(now, 0, readings).map(|level| self.frequency(policy, level))
    }

    fn frequency(&self, policy: &Policy, level: u8) -> Hertz {
        let khz = self.levels.nominal_frequency.khz() * u64::from(level) / u64::from(self.levels.nominal);
        within(policy, Hertz::from_khz(khz))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted::{Fixed, policy};
    use proptest::prelude::*;

    /// 3.4 GHz nominal at level 124, boost at 166.
    fn levels() -> AmdLevels {
        AmdLevels {
            highest: 166,
            nominal: 124,
            lowest_nonlinear: 63,
            lowest: 20,
            nominal_frequency: Hertz::from_mhz(3400),
            lowest_frequency: Hertz::from_mhz(550),
        }
    }

    fn driver(name: IntelPolicy) -> AmdPstate {
        let version = KernelVersion::new(6, 12, 0);
        AmdPstate::new(levels(), name, Epp(0x80), version, AutonomousSpec::default()).unwrap()
    }

    #[test]
    fn frequencies_are_the_drivers_own_in_its_rounding() {
        // 166·1024/124 = 1370; 3400·1370/1024 = 4548 (of 4548.8).
        assert_eq!(levels().highest_frequency(), Hertz::from_mhz(4548));
        // 63·1024/124 = 520; 3400·520/1024 = 1726.
        assert_eq!(levels().lowest_nonlinear_frequency(), Hertz::from_mhz(1726));
    }

    #[test]
    fn limits_become_levels_of_the_highest() {
        let mut driver = driver(IntelPolicy::Powersave);
        let full = policy(550, 4548);
        driver.start(Nanos::ZERO, &full, &Fixed::default());
        // 550·166/4548 = 20.07.
        assert_eq!(driver.request(), Request { min: 20, max: 166, epp: Epp(0x80) });
        let narrow = Policy { max: Hertz::from_mhz(2000), ..full };
        driver.limits_changed(&narrow);
        // 2000·166/4548 = 72.998, cut.
        assert_eq!(driver.request().max, 72);
    }

    #[test]
    fn performance_asks_for_nominal_at_least_and_the_hint_zero() {
        let mut driver = driver(IntelPolicy::Performance);
        assert_eq!(
            driver.start(Nanos::ZERO, &policy(550, 4548), &Fixed::default()),
            Some(Hertz::from_mhz(3400))
        );
        assert_eq!(driver.request(), Request { min: 124, max: 166, epp: Epp(0) });
    }

    #[test]
    fn without_boost_the_highest_is_nominal() {
        let mut driver = driver(IntelPolicy::Powersave);
        driver.set_boost(Turbo::Off);
        let (min, max) = driver.hardware_limits();
        assert_eq!((min, max), (Hertz::from_mhz(550), Hertz::from_mhz(3400)));
        driver.limits_changed(&policy(550, 3400));
        assert_eq!(driver.request(), Request { min: 20, max: 124, epp: Epp(0x80) });
    }

    #[test]
    fn an_old_kernel_and_levels_out_of_order_are_refused() {
        let new = |levels, version| {
            AmdPstate::new(levels, IntelPolicy::Powersave, Epp(0), version, AutonomousSpec::default())
                .map(|_| ())
        };
        let (old, now) = (KernelVersion::new(6, 1, 0), KernelVersion::new(6, 12, 0));
        assert_eq!(new(levels(), old), Err(AmdRefused::TooOld(old)));
        let odd = AmdLevels { lowest_nonlinear: 20, ..levels() };
        assert_eq!(new(odd, now), Err(AmdRefused::LowestNonlinear(Hertz::from_mhz(547))));
        assert!(new(AmdLevels { nominal: 0, ..levels() }, now).is_err());
    }

    proptest! {
        #[test]
        fn levels_are_in_order_and_frequencies_within_the_policy(
            (a, b) in (550_u64..=4548, 550_u64..=4548), worked in 0_u64..9_000_000, epp in any::<u8>(),
        ) {
            let policy = Policy {
                min: Hertz::from_mhz(a.min(b)), max: Hertz::from_mhz(a.max(b)), ..policy(550, 4548)
            };
            let mut driver = driver(IntelPolicy::Powersave);
            driver.set_epp(Epp(epp));
            let begun = driver.start(Nanos::ZERO, &policy, &Fixed::default());
            let readings = Fixed { aperf: worked, mperf: worked, tsc: 3_400_000 };
            let then = driver.act(Nanos::from_millis(1), &policy, &readings);
            for frequency in begun.into_iter().chain(then) {
                prop_assert!(policy.min <= frequency && frequency <= policy.max);
            }
            prop_assert!(driver.request().min <= driver.request().max);
        }
    }
}
