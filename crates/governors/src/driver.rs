//! What a driver makes of what a governor of the kernel's asks: `acpi-cpufreq`, and `intel_cpufreq` and
//! `amd_pstate` in passive and guided mode.
//!
//! Follows `drivers/cpufreq/intel_pstate.c` (`intel_cpufreq_target`, `…_fast_switch`, `…_adjust_perf`,
//! `…_update_pstate`) and `amd-pstate.c` (`amd_pstate_target`, `…_fast_switch`, `…_adjust_perf`,
//! `…_update_min_max_limit`) of 6.1.192 and 6.12.117.
//!
//! Left out: `amd_pstate` without boost and with preferred cores; its latency where firmware
//! or the processor tell one (`_CPC` in PCC, fast CPPC); with HWP the upper level of a governor that wants
//! its frequency exactly (`strict_target`: performance, powersave, userspace); hybrid processors. Held
//! against the kernels by `tests/replay.rs`.

use crate::amd_pstate::AmdLevels;
use crate::intel_pstate::{GlobalLimits, Ratios, ratio_limits};
use crate::{KernelVersion, Policy, Relation};
use domain::units::Hertz;

/// A driver whose frequency a governor of the kernel's chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// It sets the frequency that it is asked for, one of its table where it has one: `acpi-cpufreq`.
    #[default]
    Frequencies,
    /// `intel_pstate` in passive mode, which is called `intel_cpufreq`.
    Intel(IntelCpufreq),
    /// `amd_pstate` in passive or guided mode, by the processor's own registers.
    Amd(AmdPassive),
}

/// Where `intel_cpufreq` writes its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// A P-state (`MSR_IA32_PERF_CTL`), without HWP.
    PState,
    /// Levels (`MSR_HWP_REQUEST`).
    Hwp,
}

/// `intel_cpufreq` of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntelCpufreq {
    /// What the CPU can do.
    pub ratios: Ratios,
    /// The limits for all CPUs.
    pub global: GlobalLimits,
    /// Where requests are written.
    pub control: Control,
}

/// Which level `amd_pstate` writes of those that a governor wants (`amd_pstate/status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmdMode {
    /// That which is wanted.
    Passive,
    /// The same as the lowest one, and none that is wanted: above it the processor chooses by itself (6.4 and
    /// later). Of a governor that does not change its frequency (performance, powersave, userspace) as in
    /// passive mode.
    Guided,
}

/// `amd_pstate` in passive or guided mode, of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmdPassive {
    /// What the CPU can do.
    pub levels: AmdLevels,
    /// Whose driver it is.
    pub kernel: KernelVersion,
    /// What it does with a level that is wanted by ondemand, conservative or schedutil.
    pub mode: AmdMode,
}

/// What schedutil asks of a driver that takes performance instead of a frequency (`adjust_perf`), in parts of
/// a capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Performance {
    /// What must not be undercut.
    pub least: u64,
    /// What is wanted.
    pub target: u64,
    /// The whole (`arch_scale_cpu_capacity`).
    pub capacity: u64,
}

/// What stands in the register of requests, without the energy-performance preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The ratio of a P-state.
    PState(u8),
    /// Levels between which the processor chooses, and the one that is wanted.
    Levels {
        /// The lowest.
        min: u8,
        /// The wanted one.
        desired: u8,
        /// The highest.
        max: u8,
    },
}

impl Driver {
    /// The time between two requests that the driver wants (`transition_delay_us`), in microseconds; `None`:
    /// the kernel derives it from the latency.
    pub fn transition_delay_us(&self) -> Option<u32> {
        match self {
            Self::Frequencies => None,
            Self::Intel(intel) if intel.control == Control::Hwp => Some(5_000),
            Self::Intel(_) => Some(500),
            Self::Amd(_) => Some(1_000),
        }
    }

    /// Whether the driver is asked also for the frequency that is set already, since new limits go into its
    /// register (`CPUFREQ_NEED_UPDATE_LIMITS`).
    pub(crate) fn needs_update_limits(&self) -> bool {
        match self {
            Self::Frequencies => false,
            Self::Intel(intel) => intel.control == Control::Hwp,
            Self::Amd(_) => true,
        }
    }

    /// Whether schedutil asks it for performance where utilisation is frequency invariant
    /// (`cpufreq_driver_has_adjust_perf`).
    pub(crate) fn takes_performance(&self) -> bool {
        self.needs_update_limits()
    }

    /// The frequency that counts as the current one after a request within the policy's limits.
    pub(crate) fn set(&self, policy: &Policy, wanted: Hertz, relation: Relation) -> Hertz {
        match self {
            Self::Frequencies | Self::Amd(_) => wanted,
            Self::Intel(intel) => intel.ratios.frequency(intel.ratio(policy, wanted, relation)),
        }
    }

    /// What stands in the register after a request that made the policy's current frequency this one; `None`
    /// for a driver without a register that is modelled.
    pub fn written(&self, policy: &Policy, current: Hertz) -> Option<Written> {
        match self {
            Self::Frequencies => None,
            Self::Intel(intel) => Some(intel.written(policy, current)),
            Self::Amd(amd) => Some(amd.written(policy, current)),
        }
    }

    /// What becomes of a request for performance: the frequency of the level that is wanted, and what stands
    /// in the register. `None` for a driver that takes none.
    pub fn perform(&self, policy: &Policy, asked: Performance) -> Option<(Hertz, Written)> {
        match self {
            Self::Intel(intel) if intel.control == Control::Hwp => Some(intel.perform(policy, asked)),
            Self::Amd(amd) => Some(amd.perform(policy, asked)),
            Self::Frequencies | Self::Intel(_) => None,
        }
    }
}

impl Performance {
    /// A share of this capacity as a level, rounded up; all levels where it is no part.
    fn level(&self, share: u64, highest: u64) -> u64 {
        if share < self.capacity { (highest * share).div_ceil(self.capacity) } else { highest }
    }
}

impl IntelCpufreq {
    /// The ratios that a policy's limits leave (`intel_pstate_prepare_request`).
    fn limits(&self, policy: &Policy) -> (u32, u32) {
        let (min, max) = ratio_limits(&self.ratios, &self.global, policy);
        let min = min.max(self.ratios.lowest);
        (min, max.max(min))
    }

    /// `intel_pstate_freq_to_hwp_rel`, within the limits.
    fn ratio(&self, policy: &Policy, wanted: Hertz, relation: Relation) -> u32 {
        let (khz, step_khz) = (wanted.khz(), self.ratios.scaling.khz());
        let ratio = match relation {
            Relation::AtLeast => khz.div_ceil(step_khz),
            Relation::AtMost => khz / step_khz,
            Relation::Closest => (khz + step_khz / 2) / step_khz,
        };
        let (min, max) = self.limits(policy);
        (ratio as u32).clamp(min, max)
    }

    fn written(&self, policy: &Policy, current: Hertz) -> Written {
        let ratio = (current.khz() / self.ratios.scaling.khz()) as u8;
        match self.control {
            Control::PState => Written::PState(ratio),
            Control::Hwp => Written::Levels { min: ratio, desired: ratio, max: self.limits(policy).1 as u8 },
        }
    }

    /// `intel_cpufreq_adjust_perf`.
    fn perform(&self, policy: &Policy, asked: Performance) -> (Hertz, Written) {
        let highest = u64::from(self.ratios.turbo);
        let (lower, upper) = ratio_limits(&self.ratios, &self.global, policy);
        let (lower, upper) = (u64::from(lower), u64::from(upper));
        let least = asked.level(asked.least, highest).max(u64::from(self.ratios.lowest));
        let min = least.max(lower).min(upper);
        let max = highest.min(upper).max(min);
        let desired = asked.level(asked.target, highest).clamp(min, max);
        let written = Written::Levels { min: min as u8, desired: desired as u8, max: max as u8 };
        (self.ratios.frequency(desired as u32), written)
    }
}

impl AmdPassive {
    /// The policy's limits are in the register (from 6.8, from memory; read in 6.12, and not in 6.1).
    fn has_limits(&self) -> bool {
        self.kernel >= KernelVersion::new(6, 8, 0)
    }

    /// The levels of a policy's limits (`amd_pstate_update_min_max_limit`), in the driver's 32 bits.
    fn limits(&self, policy: &Policy) -> (u64, u64) {
        let (lowest, highest) = (u64::from(self.levels.lowest), u64::from(self.levels.highest));
        if !self.has_limits() {
            return (lowest.min(highest), highest);
        }
        let level = |limit: Hertz| {
            let product = (limit.khz() as u32).wrapping_mul(u32::from(self.levels.highest));
            u64::from(product) / policy.hardware_max.khz().max(1)
        };
        let min = level(policy.min).max(lowest);
        (min, level(policy.max).max(min))
    }

    /// `amd_pstate_update`: three levels within the limits, and what counts as the current frequency.
    fn update(&self, policy: &Policy, min: u64, desired: u64, max: u64) -> (Hertz, Written) {
        let (min, max, max_khz) = match self.has_limits() {
            true => {
                let (lower, upper) = self.limits(policy);
                (min.clamp(lower, upper), max.clamp(lower, upper), policy.max.khz())
            }
            false => (min, max, self.levels.highest_frequency().khz()),
        };
        let desired = desired.max(min).min(max);
        let frequency = Hertz::from_khz(desired * max_khz / max.max(1));
        let (min, desired) = match self.mode {
            AmdMode::Passive => (min, desired),
            AmdMode::Guided => (desired, 0),
        };
        (frequency, Written::Levels { min: min as u8, desired: desired as u8, max: max as u8 })
    }

    /// `amd_pstate_update_freq`.
    fn written(&self, policy: &Policy, current: Hertz) -> Written {
        let (highest, max_khz) = (u64::from(self.levels.highest), self.levels.highest_frequency().khz());
        let desired = (current.khz() * highest + max_khz / 2) / max_khz;
        self.update(policy, u64::from(self.levels.lowest), desired, highest).1
    }

    /// `amd_pstate_adjust_perf`.
    fn perform(&self, policy: &Policy, asked: Performance) -> (Hertz, Written) {
        let highest = u64::from(self.levels.highest);
        let desired = asked.level(asked.target, highest);
        let least = match asked.least < asked.capacity {
            true => asked.level(asked.least, highest),
            false => u64::from(self.levels.lowest),
        };
        let min = least.max(u64::from(self.levels.lowest_nonlinear));
        let max = highest.max(min);
        self.update(policy, min, desired.clamp(min, max), max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted;
    use proptest::prelude::*;

    const OLD: KernelVersion = KernelVersion::new(6, 1, 192);
    const NEW: KernelVersion = KernelVersion::new(6, 12, 117);

    /// 0.8 to 4.0 GHz, turbo 4.2.
    fn intel(control: Control) -> Policy {
        let ratios = Ratios::core(8, 40, 42);
        let driver = IntelCpufreq { ratios, global: GlobalLimits::new(&ratios), control };
        Policy { driver: Driver::Intel(driver), ..counted::policy(800, 4200) }
    }

    /// 1.5 to 2.8 GHz, boost 3.7.
    fn amd(kernel: KernelVersion) -> Policy {
        let levels = AmdLevels {
            highest: 37,
            nominal: 28,
            lowest_nonlinear: 19,
            lowest: 15,
            nominal_frequency: Hertz::from_mhz(2800),
            lowest_frequency: Hertz::from_mhz(1500),
        };
        let driver = AmdPassive { levels, kernel, mode: AmdMode::Passive };
        Policy { driver: Driver::Amd(driver), ..counted::policy(1500, 3699) }
    }

    fn guided() -> Policy {
        let mut policy = amd(NEW);
        let Driver::Amd(driver) = &mut policy.driver else { panic!("{policy:?}") };
        driver.mode = AmdMode::Guided;
        policy
    }

    fn levels(min: u8, desired: u8, max: u8) -> Written {
        Written::Levels { min, desired, max }
    }

    fn asked(least: u64, target: u64) -> Performance {
        Performance { least, target, capacity: 1024 }
    }

    #[test]
    fn intel_rounds_to_ratios_as_it_is_asked_and_keeps_the_limits() {
        let policy = intel(Control::PState);
        let set = |policy: &Policy, mhz, relation| policy.driver.set(policy, Hertz::from_mhz(mhz), relation);
        let all = [Relation::AtLeast, Relation::AtMost, Relation::Closest];
        assert_eq!(all.map(|relation| set(&policy, 2049, relation)), [2100, 2000, 2000].map(Hertz::from_mhz));
        assert_eq!(set(&policy, 2050, Relation::Closest), Hertz::from_mhz(2100));
        assert_eq!(set(&policy, 1, Relation::AtMost), Hertz::from_mhz(800));
        let limited = Policy { max: Hertz::from_mhz(2150), ..policy };
        assert_eq!(set(&limited, 2150, Relation::AtLeast), Hertz::from_mhz(2100));
        assert_eq!(limited.driver.written(&limited, Hertz::from_mhz(2100)), Some(Written::PState(21)));
    }

    #[test]
    fn intel_with_hwp_writes_levels_and_takes_performance() {
        let policy = intel(Control::Hwp);
        let narrow = Policy { min: Hertz::from_mhz(1600), max: Hertz::from_mhz(2100), ..policy.clone() };
        assert_eq!(narrow.driver.written(&narrow, Hertz::from_mhz(1800)), Some(levels(18, 18, 21)));
        let perform = |policy: &Policy, asked| policy.driver.perform(policy, asked).unwrap();
        // 42 · 500 / 1024 = 20.5, 42 · 51 / 1024 = 2.1.
        assert_eq!(perform(&policy, asked(51, 500)), (Hertz::from_mhz(2100), levels(8, 21, 42)));
        assert_eq!(perform(&policy, asked(1024, 1024)).1, levels(42, 42, 42));
        assert_eq!(perform(&narrow, asked(0, 1024)).1, levels(16, 21, 21));
        assert_eq!(perform(&narrow, asked(0, 10)).1, levels(16, 16, 21));
        assert_eq!(intel(Control::PState).driver.perform(&policy, asked(0, 10)), None);
    }

    #[test]
    fn amd_puts_frequencies_into_levels_and_limits_there_in_6_12_alone() {
        for kernel in [OLD, NEW] {
            let policy = amd(kernel);
            // 2000 · 37 / 3699 = 20.005; the current frequency is as it was asked for.
            assert_eq!(policy.driver.written(&policy, Hertz::from_mhz(2000)), Some(levels(15, 20, 37)));
            let set = policy.driver.set(&policy, Hertz::from_mhz(2001), Relation::AtLeast);
            assert_eq!(set, Hertz::from_mhz(2001));
        }
        // 1700 · 37 / 3699 = 17.004, 2500 · 37 / 3699 = 25.006.
        let narrow = |kernel| {
            let policy = Policy { min: Hertz::from_mhz(1700), max: Hertz::from_mhz(2500), ..amd(kernel) };
            policy.driver.written(&policy, Hertz::from_mhz(2000)).unwrap()
        };
        assert_eq!([narrow(OLD), narrow(NEW)], [levels(15, 20, 37), levels(17, 20, 25)]);
    }

    #[test]
    fn amd_gives_performance_above_the_lowest_nonlinear_level() {
        let perform = |policy: &Policy, asked| policy.driver.perform(policy, asked).unwrap();
        for kernel in [OLD, NEW] {
            // 37 · 700 / 1024 = 25.3; 26 · 3699 / 37 = 2599.3.
            let (frequency, written) = perform(&amd(kernel), asked(51, 700));
            assert_eq!((frequency.khz(), written), (2_599_297, levels(19, 26, 37)), "{kernel}");
        }
        let narrow = |kernel| Policy { max: Hertz::from_mhz(1800), ..amd(kernel) };
        // 1800 · 37 / 3699 = 18.005: below that level.
        assert_eq!(perform(&narrow(NEW), asked(0, 700)), (Hertz::from_mhz(1800), levels(18, 18, 18)));
        assert_eq!(perform(&narrow(OLD), asked(0, 700)).1, levels(19, 26, 37));
    }

    #[test]
    fn amd_in_guided_mode_leaves_the_choice_above_what_is_wanted_to_the_processor() {
        let policy = guided();
        assert_eq!(policy.driver.written(&policy, Hertz::from_mhz(2000)), Some(levels(20, 0, 37)));
        // As in passive mode, but for the register.
        let (frequency, written) = policy.driver.perform(&policy, asked(51, 700)).unwrap();
        assert_eq!((frequency.khz(), written), (2_599_297, levels(26, 0, 37)));
        let narrow = Policy { max: Hertz::from_mhz(2500), ..policy };
        assert_eq!(narrow.driver.perform(&narrow, asked(0, 1024)).unwrap().1, levels(25, 0, 25));
    }

    #[test]
    fn each_driver_wants_its_time_between_requests() {
        let delays = [intel(Control::PState), intel(Control::Hwp), amd(OLD), counted::policy(800, 4200)]
            .map(|policy| policy.driver.transition_delay_us());
        assert_eq!(delays, [Some(500), Some(5_000), Some(1_000), None]);
    }

    proptest! {
        #[test]
        fn levels_are_in_order_and_grow_with_what_is_asked(
            a in 0_u64..1100, b in 0_u64..1100, least in 0_u64..1100,
            low in 1500_u64..3700, high in 1500_u64..3700, which in 0_usize..3,
        ) {
            let policy = [intel(Control::Hwp), amd(OLD), amd(NEW)].into_iter().nth(which).unwrap();
            let policy = Policy {
                min: Hertz::from_mhz(low.min(high)), max: Hertz::from_mhz(low.max(high)).min(policy.hardware_max),
                ..policy
            };
            let desired = |target| {
                let written = policy.driver.perform(&policy, asked(least, target)).unwrap().1;
                let Written::Levels { min, desired, max } = written else { panic!("{written:?}") };
                assert!(min <= desired && desired <= max, "{written:?}");
                desired
            };
            prop_assert!(desired(a.min(b)) <= desired(a.max(b)));
        }
    }
}
