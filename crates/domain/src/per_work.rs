//! What a machine took: energy, context switches, wake-ups, of a whole trial and for each gigabyte, I/O or
//! transaction of it; and how fast its CPUs ran.
//!
//! What a unit of work took is a rate of the machine over a rate of the work: watts over bytes a second are
//! joules a byte. The machine's rate is the mean over the whole trial. The rate of the work is the tool's,
//! which leaves out a ramp. What has no counter, or no work, has no figure, and never zero.

use crate::lab::LabAccount;
use crate::outcome::{Better, Metric};
use crate::units::Unit;
use std::collections::BTreeMap;

/// Joules that all packages took, by their counters. Of a model: [`crate::lab::ENERGY_MODELLED`].
pub const ENERGY: &str = "energy";
/// The part of [`ENERGY`] that the cores took.
pub const ENERGY_CORE: &str = "energy_core";
/// Joules that the memory took, which is not in [`ENERGY`] on servers.
pub const ENERGY_DRAM: &str = "energy_dram";
/// Watts of all packages, mean over the time between the counters' first reading and their last; of a model
/// those of its CPUs.
pub const POWER: &str = "power";
/// The same of the cores.
pub const POWER_CORE: &str = "power_core";
/// The same of the memory.
pub const POWER_DRAM: &str = "power_dram";
/// Context switches of the whole machine a second (`ctxt` of `/proc/stat`).
pub const SWITCHES: &str = "switches";
/// How often CPUs left an idle state, all CPUs together, a second (cpuidle's `usage`).
pub const WAKEUPS: &str = "wakeups";

/// The frequency of the CPUs while they were not idle, mean: APERF over MPERF times the rate of the
/// TSC, each CPU by its MPERF (Intel SDM volume 3, 15.2; AMD APM volume 2, 17.3).
pub const BUSY_FREQUENCY: &str = "busy_frequency";

/// All of them: name, unit, which way is good. "GB" is 10^9 bytes.
pub const METRICS: [(&str, Unit, Better); 16] = [
    (BUSY_FREQUENCY, Unit::Hertz, Better::Higher),
    (ENERGY, Unit::Joules, Better::Lower),
    (ENERGY_CORE, Unit::Joules, Better::Lower),
    (ENERGY_DRAM, Unit::Joules, Better::Lower),
    (POWER, Unit::Watts, Better::Lower),
    (POWER_CORE, Unit::Watts, Better::Lower),
    (POWER_DRAM, Unit::Watts, Better::Lower),
    (SWITCHES, Unit::PerSecond, Better::Lower),
    (WAKEUPS, Unit::PerSecond, Better::Lower),
    ("energy_per_gb", Unit::Joules, Better::Lower),
    ("energy_per_io", Unit::Joules, Better::Lower),
    ("energy_per_transaction", Unit::Joules, Better::Lower),
    ("switches_per_io", Unit::Count, Better::Lower),
    ("switches_per_transaction", Unit::Count, Better::Lower),
    ("wakeups_per_io", Unit::Count, Better::Lower),
    ("wakeups_per_transaction", Unit::Count, Better::Lower),
];

/// A kind of work that can be counted, and by which metrics: the first that is there, else the sum of the
/// others.
struct Work {
    whole: &'static str,
    parts: &'static [&'static str],
    /// How much of it one unit is.
    unit: f64,
}

const BYTES: Work = Work { whole: "throughput", parts: &["read_throughput", "write_throughput"], unit: 1e9 };
const IOS: Work = Work { whole: "iops", parts: &["read_iops", "write_iops"], unit: 1.0 };
const TRANSACTIONS: Work = Work { whole: "transactions", parts: &[], unit: 1.0 };

/// A figure, the machine's rate that it is made of, and the work.
const RATIOS: [(&str, &str, &Work); 7] = [
    ("energy_per_gb", POWER, &BYTES),
    ("energy_per_io", POWER, &IOS),
    ("energy_per_transaction", POWER, &TRANSACTIONS),
    ("switches_per_io", SWITCHES, &IOS),
    ("switches_per_transaction", SWITCHES, &TRANSACTIONS),
    ("wakeups_per_io", WAKEUPS, &IOS),
    ("wakeups_per_transaction", WAKEUPS, &TRANSACTIONS),
];

/// Such a metric with its value; `None` for any other name.
pub fn metric(name: &str, value: f64) -> Option<Metric> {
    let (_, unit, better) = METRICS.into_iter().find(|(known, ..)| *known == name)?;
    Some(Metric { value, unit, better })
}

/// Adds what a unit of work took to the metrics of a trial, from its own rates and those of its machine.
pub fn add(metrics: &mut BTreeMap<String, Metric>) {
    let ratios = RATIOS.into_iter().filter_map(|(name, rate, work)| {
        let rate = metrics.get(rate)?.value;
        let done = work.rate(|name| Some(metrics.get(name)?.value)).filter(|done| *done > 0.0)?;
        Some((name.to_owned(), metric(name, rate / done * work.unit)?))
    });
    let ratios: Vec<(String, Metric)> = ratios.collect();
    metrics.extend(ratios);
}

/// Whether a workload that reports these metrics can have such a figure: one of the whole trial always, one
/// of a unit of work where that is reported.
pub fn is_possible(name: &str, reports: impl Fn(&str) -> bool) -> bool {
    let work = RATIOS.iter().find(|(ratio, ..)| *ratio == name).map(|(.., work)| work);
    work.is_none_or(|work| reports(work.whole) || work.parts.iter().any(|part| reports(part)))
}

/// Makes the mean frequency of a paced lab machine's CPUs while they executed that of the plugin's record.
/// What the guest's own counters say, which the plugin answers for, goes in any case: they count before and
/// after the pacing too.
pub fn set_frequency(account: &LabAccount, metrics: &mut BTreeMap<String, Metric>) {
    let Some(pacing) = &account.pacing else { return };
    metrics.remove(BUSY_FREQUENCY);
    let of_record = pacing.busy_frequency().and_then(|hertz| metric(BUSY_FREQUENCY, hertz.hz() as f64));
    metrics.extend(of_record.map(|metric| (BUSY_FREQUENCY.to_owned(), metric)));
}

/// Whether it comes from counters of energy.
pub fn is_of_energy(name: &str) -> bool {
    let of_power = RATIOS.iter().any(|(ratio, rate, _)| *ratio == name && *rate == POWER);
    of_power || [ENERGY, ENERGY_CORE, ENERGY_DRAM, POWER, POWER_CORE, POWER_DRAM].contains(&name)
}

/// Whether a model has it too: watts and frequency of its CPUs, how often these left an idle state, and what
/// a unit of work took of watts and wake-ups. The joules of a whole trial are
/// [`crate::lab::ENERGY_MODELLED`] there.
pub fn is_modelled(name: &str) -> bool {
    let of_those = RATIOS.iter().any(|(ratio, rate, _)| *ratio == name && [POWER, WAKEUPS].contains(rate));
    of_those || [POWER, WAKEUPS, BUSY_FREQUENCY].contains(&name)
}

impl Work {
    fn rate(&self, of: impl Fn(&str) -> Option<f64>) -> Option<f64> {
        let parts: Vec<f64> = self.parts.iter().filter_map(|part| of(part)).collect();
        of(self.whole).or_else(|| (!parts.is_empty()).then(|| parts.iter().sum()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{Pacing, StateRecord, VcpuRecord};
    use crate::time::Nanos;
    use crate::units::Hertz;

    fn with(values: &[(&str, f64)]) -> BTreeMap<String, Metric> {
        let plain = |value: f64| Metric { value, unit: Unit::PerSecond, better: Better::Higher };
        let mut metrics = values.iter().map(|(name, value)| ((*name).to_owned(), plain(*value))).collect();
        add(&mut metrics);
        metrics
    }

    fn value(metrics: &BTreeMap<String, Metric>, name: &str) -> Option<f64> {
        metrics.get(name).map(|metric| metric.value)
    }

    #[test]
    fn a_labs_frequency_is_the_mean_while_its_cpus_executed() {
        let state = |mhz, time, busy| StateRecord {
            frequency: Hertz::from_mhz(mhz),
            // As _PSS names turbo.
            clock: Some(Hertz::from_mhz(if mhz == 2001 { 3000 } else { mhz })),
            time: Nanos::from_millis(time),
            busy: Nanos::from_millis(busy),
            instructions: 0,
        };
        let vcpu = |cpu, states| VcpuRecord {
            cpu,
            states,
            transitions: Vec::new(),
            transitions_total: 0,
            late: Nanos::ZERO,
            idle: Vec::new(),
            requests: Vec::new(),
        };
        let of = |vcpus| {
            let pacing = Pacing { pace: 1e7, began: None, span: Nanos::from_secs(1), vcpus, energy: None };
            let account = LabAccount { dilation: 1.0, slowed: 1.0, pacing: Some(pacing), disks: Vec::new() };
            let guests = metric(BUSY_FREQUENCY, 1.0).unwrap();
            let mut metrics = BTreeMap::from([(BUSY_FREQUENCY.to_owned(), guests)]);
            set_frequency(&account, &mut metrics);
            value(&metrics, BUSY_FREQUENCY)
        };
        let busy = vec![
            vcpu(0, vec![state(2001, 100, 60), state(1000, 900, 20)]),
            vcpu(1, vec![state(1000, 1000, 40)]),
        ];
        assert_eq!(of(busy), Some(2e9));
        assert_eq!(of(vec![vcpu(0, vec![state(3000, 100, 0)])]), None, "nothing was executed");
        let unknown = StateRecord { clock: None, ..state(2001, 100, 60) };
        assert_eq!(of(vec![vcpu(0, vec![unknown, state(1000, 900, 20)])]), None, "an earlier version's");
    }

    #[test]
    fn watts_over_the_work_of_a_second_are_joules_a_unit_of_it() {
        let metrics = with(&[(POWER, 20.0), ("throughput", 5e8), ("iops", 1e4), ("read_iops", 1.0)]);
        assert_eq!(value(&metrics, "energy_per_gb"), Some(40.0));
        assert_eq!(value(&metrics, "energy_per_io"), Some(0.002));
        assert_eq!(metrics["energy_per_io"].unit, Unit::Joules);
        assert_eq!(value(&metrics, "energy_per_transaction"), None, "there are none");
        assert_eq!(value(&metrics, "switches_per_io"), None, "they were not counted");
    }

    #[test]
    fn reads_and_writes_are_added_where_no_tool_gives_their_sum() {
        let metrics = with(&[(SWITCHES, 3e4), ("read_iops", 4e3), ("write_iops", 6e3)]);
        assert_eq!(value(&metrics, "switches_per_io"), Some(3.0));
    }

    #[test]
    fn no_work_is_no_figure() {
        let metrics = with(&[(POWER, 20.0), (WAKEUPS, 100.0), ("iops", 0.0), ("transactions", 50.0)]);
        assert_eq!(value(&metrics, "energy_per_io"), None);
        assert_eq!(value(&metrics, "wakeups_per_transaction"), Some(2.0));
    }

    #[test]
    fn a_figure_of_work_is_possible_where_the_work_is_reported() {
        assert!(is_possible("energy_per_gb", |name| name == "read_throughput"));
        assert!(!is_possible("energy_per_gb", |name| name == "transactions"));
        assert!(is_possible(POWER, |_| false));
    }

    #[test]
    fn what_needs_counters_of_energy_and_what_a_model_has_are_known_by_name() {
        let names =
            |is: fn(&str) -> bool| METRICS.map(|(name, ..)| name).into_iter().filter(|n| is(n)).count();
        assert_eq!((names(is_of_energy), names(is_modelled)), (9, 8));
        assert!(is_of_energy("energy_per_io") && !is_of_energy("switches_per_io"));
        assert!(is_modelled("energy_per_io") && !is_modelled(ENERGY) && !is_modelled("switches_per_io"));
    }

    #[test]
    fn each_figure_of_work_is_among_the_metrics() {
        assert!(RATIOS.iter().all(|(name, ..)| metric(name, 1.0).is_some()));
        assert!(metric("throughput", 1.0).is_none());
    }
}
