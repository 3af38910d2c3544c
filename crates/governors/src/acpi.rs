//! What `acpi-cpufreq` makes of the firmware's P-states: a table and limits.
//!
//! Follows `drivers/cpufreq/acpi-cpufreq.c` (`acpi_cpufreq_cpu_init`), `drivers/acpi/processor_perflib.c`
//! (`acpi_processor_get_platform_limit`) and `drivers/cpufreq/freq_table.c`
//! (`cpufreq_frequency_table_cpuinfo`, `cpufreq_frequency_table_verify`) of 6.12 and 6.1. Generic governors
//! choose from the table; so this has no `update`.
//!
//! Boost changes no limit here: `boost` switches a bit in the CPU that decides whether the firmware's first
//! P-state may run above its frequency. `cpuinfo_max_freq` lies above the table wherever the firmware tells
//! the boost ratio, and stays there with boost off.
//!
//! Left out: coordination domains, `acpi_pstate_strict`, old firmware's faults.

use crate::driver::Driver;
use crate::{FrequencyTable, Policy, TableError};
use domain::time::Nanos;
use domain::units::Hertz;
use thiserror::Error;

/// Firmware that names more than 20 µs is not believed where the CPU is told by register (a fault of old
/// firmware).
const LONGEST_REGISTER_LATENCY: Nanos = Nanos::from_micros(20);

/// One P-state of the firmware's object `_PSS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcpiPstate {
    /// `CoreFrequency`, whole MHz there.
    pub frequency: Hertz,
    /// `Latency`, whole microseconds there.
    pub latency: Nanos,
}

/// How the firmware has P-states requested (`_PCT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// By a register of the CPU.
    Register,
    /// By an I/O port.
    Port,
}

/// The boost ratio, as the firmware's object `_CPC` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoostRatio {
    /// The highest performance.
    pub highest: u32,
    /// The nominal performance.
    pub nominal: u32,
    /// The nominal frequency, where it is told.
    pub nominal_frequency: Option<Hertz>,
}

/// What the firmware says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcpiTables {
    /// `_PSS`: P0 first.
    pub states: Vec<AcpiPstate>,
    /// `_PCT`.
    pub control: Control,
    /// `_CPC`, where there is one.
    pub boost: Option<BoostRatio>,
}

/// Why the driver does not load.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AcpiRefused {
    /// At least two P-states are needed.
    #[error("the firmware has {0} P-states; acpi-cpufreq needs two")]
    TooFew(usize),
    /// A frequency of zero.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// `acpi-cpufreq` for a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcpiCpufreq {
    states: Vec<AcpiPstate>,
    table: FrequencyTable,
    hardware_max: Hertz,
    latency: Nanos,
    platform_limit: usize,
}

impl AcpiCpufreq {
    /// From the firmware's tables.
    ///
    /// # Errors
    /// Where there are fewer than two P-states, or one has no frequency.
    pub fn new(tables: &AcpiTables) -> Result<Self, AcpiRefused> {
        let states = &tables.states;
        if states.len() < 2 {
            return Err(AcpiRefused::TooFew(states.len()));
        }
        let table = FrequencyTable::new(descending(states))?;
        let first = states[0].frequency;
        let boosted = tables.boost.and_then(|boost| boosted(boost, first));
        let longest = states.iter().map(|state| state.latency).max().unwrap_or_default();
        let latency = match tables.control {
            Control::Register => longest.min(LONGEST_REGISTER_LATENCY),
            Control::Port => longest,
        };
        Ok(Self {
            states: states.clone(),
            hardware_max: boosted.unwrap_or(table.highest()).max(table.highest()),
            table,
            latency,
            platform_limit: 0,
        })
    }

    /// The firmware's limit has changed (`_PPC`): the first P-state that may be used. A number that there is
    /// no P-state for changes nothing, as in the kernel.
    pub fn set_platform_limit(&mut self, first: usize) {
        if first < self.states.len() {
            self.platform_limit = first;
        }
    }

    /// `bios_limit`: the highest frequency that the firmware permits; `None` where it permits all.
    pub fn platform_limit(&self) -> Option<Hertz> {
        (self.platform_limit > 0).then(|| self.states[self.platform_limit].frequency)
    }

    /// The policy, with what was written to `scaling_min_freq` and `scaling_max_freq`, or `None` where
    /// nothing was. `current` is the highest frequency permitted: the firmware leaves the CPU in P0.
    pub fn policy(&self, cpus: usize, asked_min: Option<Hertz>, asked_max: Option<Hertz>) -> Policy {
        let (lowest, highest) = (self.table.lowest(), self.hardware_max);
        let asked_max = asked_max.unwrap_or(highest);
        let max =
            self.platform_limit().map_or(asked_max, |limit| asked_max.min(limit)).clamp(lowest, highest);
        let min = asked_min.unwrap_or(lowest).clamp(lowest, highest).min(max);
        let max = self.with_a_state_inside(min, max);
        Policy {
            cpus,
            table: Some(self.table.clone()),
            hardware_min: lowest,
            hardware_max: highest,
            min: min.min(max),
            max,
            current: self.table.highest().min(max),
            transition_latency_ns: self.latency.get(),
            fast_switch: cpus == 1,
            // A CPU with ACPI P-states and no APERF is older than ten years, or virtual.
            frequency_invariant: true,
            driver: Driver::Frequencies,
        }
    }

    /// Limits between two states are lowered to the state below (`cpufreq_frequency_table_verify`).
    fn with_a_state_inside(&self, min: Hertz, max: Hertz) -> Hertz {
        if self.table.all().iter().any(|f| (min..=max).contains(f)) {
            return max;
        }
        self.table.all().iter().rev().find(|f| **f <= max).copied().unwrap_or(self.table.lowest())
    }
}

/// The P-states whose frequency is lower than all before them: others are skipped.
fn descending(states: &[AcpiPstate]) -> Vec<Hertz> {
    let mut frequencies: Vec<Hertz> = Vec::new();
    for state in states {
        if frequencies.last().is_none_or(|last| state.frequency < *last) {
            frequencies.push(state.frequency);
        }
    }
    frequencies
}

/// The highest boost frequency, in the driver's arithmetic (a ratio in 1/1024); `None` where the firmware's
/// numbers are missing or out of order.
fn boosted(boost: BoostRatio, first: Hertz) -> Option<Hertz> {
    let usable = boost.nominal > 0 && boost.highest >= boost.nominal;
    usable.then(|| {
        let ratio = (u64::from(boost.highest) << 10) / u64::from(boost.nominal);
        let nominal = boost.nominal_frequency.unwrap_or(first);
        Hertz::from_khz((nominal.khz() * ratio) >> 10)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(mhz: &[u64]) -> AcpiTables {
        let state =
            |mhz: &u64| AcpiPstate { frequency: Hertz::from_mhz(*mhz), latency: Nanos::from_micros(10) };
        AcpiTables { states: mhz.iter().map(state).collect(), control: Control::Register, boost: None }
    }

    fn mhz(limit: Hertz) -> u64 {
        limit.khz() / 1000
    }

    #[test]
    fn without_limits_the_policy_spans_the_table() {
        let policy = AcpiCpufreq::new(&tables(&[2801, 2800, 1400, 350])).unwrap().policy(1, None, None);
        assert_eq!(
            [policy.hardware_min, policy.hardware_max, policy.min, policy.max].map(mhz),
            [350, 2801, 350, 2801]
        );
        assert_eq!(policy.transition_latency_ns, 10_000);
    }

    #[test]
    fn a_boost_ratio_puts_the_hardware_maximum_above_the_table() {
        let boost = BoostRatio { highest: 166, nominal: 124, nominal_frequency: None };
        let driver = AcpiCpufreq::new(&AcpiTables { boost: Some(boost), ..tables(&[3400, 2200]) }).unwrap();
        // 166·1024/124 = 1370; 3400·1370/1024 = 4548.8.
        assert_eq!(driver.policy(1, None, None).hardware_max, Hertz::from_khz(4_548_828));
        let odd = BoostRatio { highest: 100, ..boost };
        let driver = AcpiCpufreq::new(&AcpiTables { boost: Some(odd), ..tables(&[3400, 2200]) }).unwrap();
        assert_eq!(mhz(driver.policy(1, None, None).hardware_max), 3400);
    }

    #[test]
    fn the_firmware_limits_the_policy_and_a_number_too_high_does_nothing() {
        let mut driver = AcpiCpufreq::new(&tables(&[2800, 2100, 1400])).unwrap();
        driver.set_platform_limit(1);
        let policy = driver.policy(1, None, None);
        assert_eq!((mhz(policy.max), mhz(policy.hardware_max)), (2100, 2800));
        driver.set_platform_limit(3);
        assert_eq!(driver.platform_limit(), Some(Hertz::from_mhz(2100)));
        let minimum_above = driver.policy(1, Some(Hertz::from_mhz(2800)), None);
        assert_eq!((mhz(minimum_above.min), mhz(minimum_above.max)), (2100, 2100));
        driver.set_platform_limit(0);
        assert_eq!(mhz(driver.policy(1, None, None).max), 2800);
    }

    #[test]
    fn limits_between_two_states_fall_to_the_one_below() {
        let driver = AcpiCpufreq::new(&tables(&[2800, 1400, 700])).unwrap();
        let policy = driver.policy(1, Some(Hertz::from_mhz(1500)), Some(Hertz::from_mhz(2000)));
        assert_eq!((mhz(policy.min), mhz(policy.max)), (1400, 1400));
    }

    #[test]
    fn states_out_of_order_are_skipped_and_long_latencies_not_believed() {
        let mut odd = tables(&[2000, 2400, 1000, 1000]);
        odd.states[2].latency = Nanos::from_micros(110);
        let register = AcpiCpufreq::new(&odd).unwrap().policy(2, None, None);
        assert_eq!(register.table.unwrap().all().len(), 2);
        assert_eq!((register.transition_latency_ns, register.fast_switch), (20_000, false));
        odd.control = Control::Port;
        assert_eq!(AcpiCpufreq::new(&odd).unwrap().policy(1, None, None).transition_latency_ns, 110_000);
    }

    #[test]
    fn one_state_is_too_few() {
        assert_eq!(AcpiCpufreq::new(&tables(&[2000])), Err(AcpiRefused::TooFew(1)));
        assert!(AcpiCpufreq::new(&tables(&[2000, 0])).is_err());
    }
}
