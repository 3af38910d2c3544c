//! What stands beside a cell's metric, whatever that is: latency, energy and CPU time, which a gain may cost,
//! what a gigabyte, an I/O or a transaction took, and the cores in use and watts that follow from these.
//!
//! Each figure is the median over the cell's valid trials ([`crate::stats::quantile`]); what no trial reports
//! is left out.

use crate::stats::quantile::median;
use crate::summarise::metric_kind;
use crate::summary::RunData;
use domain::ids::CellId;
use domain::inventory::CpuList;
use domain::lab::ENERGY_MODELLED;
use domain::outcome::CPU_BUSY;
use domain::per_work::ENERGY;
use domain::trial::Trial;
use domain::units::Unit;
use std::collections::BTreeMap;

/// The metrics, in the order in which they are shown.
pub const METRICS: [&str; 6] =
    ["latency_p50", "latency_p99", "latency_p999", ENERGY_MODELLED, ENERGY, CPU_BUSY];

/// The machine's rates and what a unit of work took of them ([`domain::per_work`]), in the order in which
/// they are shown.
pub const WORK: [&str; 8] = [
    POWER,
    "energy_per_gb",
    "energy_per_io",
    "energy_per_transaction",
    "switches_per_io",
    "switches_per_transaction",
    "wakeups_per_io",
    "wakeups_per_transaction",
];

/// CPUs that executed something, on average over a trial: [`CPU_BUSY`] times the CPUs online, or the CPU time
/// of all roles over the trial's duration where the machine does not say how many CPUs it has.
pub const CORES_IN_USE: &str = "cores_in_use";

/// Watts on average over a trial: its energy over the time in which that was counted.
pub use domain::per_work::POWER;

/// What follows from a trial's own figures, in the order in which it is shown.
pub const DERIVED: [(&str, Unit); 2] = [(CORES_IN_USE, Unit::Count), (POWER, Unit::Watts)];

/// One of them, of one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// The metric's name.
    pub metric: &'static str,
    /// In which it is counted.
    pub unit: Unit,
    /// The median over the valid trials.
    pub median: f64,
}

/// What a cell's valid trials report of [`METRICS`].
pub fn of_cell(data: &RunData, cell: &CellId) -> Vec<Cost> {
    medians(data, cell, &METRICS)
}

/// What they report of [`WORK`].
pub fn of_work(data: &RunData, cell: &CellId) -> Vec<Cost> {
    medians(data, cell, &WORK)
}

fn medians(data: &RunData, cell: &CellId, metrics: &[&'static str]) -> Vec<Cost> {
    let of = |metric: &'static str| {
        let own = data.trials.iter().filter(|trial| trial.key.cell == *cell && trial.validity.is_valid());
        let values: Vec<f64> =
            own.filter_map(|trial| trial.metric(metric)).filter(|v| v.is_finite()).collect();
        Some(Cost { metric, unit: metric_kind(data, metric).unit, median: median(&values)? })
    };
    metrics.iter().copied().filter_map(of).collect()
}

/// What follows from the figures of a cell's valid trials.
pub fn derived(data: &RunData, cell: &CellId) -> Vec<Cost> {
    let of = |(metric, unit): (&'static str, Unit)| {
        let own = data.trials.iter().filter(|trial| trial.key.cell == *cell && trial.validity.is_valid());
        let value = if metric == CORES_IN_USE { cores_in_use } else { power };
        let values: Vec<f64> = own.filter_map(value).filter(|v| v.is_finite()).collect();
        Some(Cost { metric, unit, median: median(&values)? })
    };
    DERIVED.into_iter().filter_map(of).collect()
}

/// By what the energy of trials was measured, each with the number of trials. Trials by different sources
/// are not alike.
pub fn energy_by(data: &RunData) -> BTreeMap<String, usize> {
    let mut by = BTreeMap::new();
    let accounts = data.trials.iter().filter_map(|trial| {
        trial.measurement.as_ref()?.recorder.as_ref()?.energy.as_ref().filter(|_| trial.validity.is_valid())
    });
    for account in accounts {
        let sampled = if account.source.is_sampled() { ": sampled power" } else { "" };
        *by.entry(format!("{}{sampled}", account.what())).or_default() += 1;
    }
    by
}

fn cores_in_use(trial: &Trial) -> Option<f64> {
    let online = trial.environment.get("cpus_online").and_then(|list| CpuList::parse(list));
    if let (Some(cpus), Some(busy)) = (online, trial.metric(CPU_BUSY)) {
        return Some(busy * cpus.len() as f64);
    }
    // Without any role nothing was recorded, which is not that nothing ran.
    let measurement = trial.measurement.as_ref().filter(|measurement| !measurement.roles.is_empty())?;
    let used: f64 = measurement.roles.values().map(|time| time.secs()).sum();
    Some(used / measurement.duration.secs())
}

/// What the trial has, or follows from its energy, as of one that an earlier version kept.
pub(crate) fn power(trial: &Trial) -> Option<f64> {
    if let Some(power) = trial.metric(POWER) {
        return Some(power);
    }
    // A lab machine's energy is that of the time in which its CPUs were paced.
    if let Some(pacing) = trial.lab.as_ref().and_then(|account| account.pacing.as_ref()) {
        return Some(pacing.energy?.joules() / pacing.span.secs());
    }
    let energy = trial.metric(ENERGY).or_else(|| trial.metric(ENERGY_MODELLED))?;
    Some(energy / trial.measurement.as_ref()?.duration.secs())
}

/// How many of a cell's valid trials ran beside other work.
pub fn under_load(data: &RunData, cell: &CellId) -> usize {
    data.trials.iter().filter(|trial| trial.key.cell == *cell && trial.is_under_load()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{failed, run, study};
    use domain::time::Nanos;
    use domain::trace::Role;
    use domain::trial::{Disturbance, Validity};

    fn measured() -> RunData {
        run(study(&[("f", &["a", "b"])]), 3, |levels, block| {
            let p99 = 0.001 * f64::from(block + 1);
            match levels["f"].as_str() {
                "a" => vec![("throughput", 1e8), ("latency_p99", p99)],
                _ => vec![("throughput", 1e8)],
            }
        })
    }

    #[test]
    fn a_cell_has_the_medians_of_what_its_valid_trials_report() {
        let mut data = measured();
        let expected = Cost { metric: "latency_p99", unit: Unit::Seconds, median: 0.002 };
        assert_eq!(of_cell(&data, &CellId::new(["w", "a"])), [expected]);
        assert_eq!(of_cell(&data, &CellId::new(["w", "b"])), []);
        data.trials.iter_mut().for_each(|trial| *trial = failed(trial.key.clone()));
        assert_eq!(of_cell(&data, &CellId::new(["w", "a"])), []);
    }

    #[test]
    fn cores_and_watts_follow_from_a_trials_figures() {
        let mut data = run(study(&[("f", &["a", "b"])]), 3, |_, _| {
            vec![("throughput", 1e8), (CPU_BUSY, 0.25), (ENERGY_MODELLED, 30.0)]
        });
        for trial in &mut data.trials {
            trial.environment.insert("cpus_online".into(), "0-5,8,10-11".into());
            trial.measurement.as_mut().unwrap().duration = Nanos::from_secs(2);
        }
        let cost = |metric, unit, median| Cost { metric, unit, median };
        let cell = CellId::new(["w", "a"]);
        let expected = [cost(CORES_IN_USE, Unit::Count, 2.25), cost(POWER, Unit::Watts, 15.0)];
        assert_eq!(derived(&data, &cell), expected);
        for trial in &mut data.trials {
            trial.environment.clear();
            let measurement = trial.measurement.as_mut().unwrap();
            measurement.roles = [(Role::Workload, Nanos::from_secs(3))].into();
            measurement.outcome.metrics.remove(ENERGY_MODELLED);
        }
        assert_eq!(derived(&data, &cell), [cost(CORES_IN_USE, Unit::Count, 1.5)]);
        data.trials.iter_mut().for_each(|trial| trial.measurement.as_mut().unwrap().roles.clear());
        assert_eq!(derived(&data, &cell), [], "nothing was recorded");
    }

    #[test]
    fn watts_that_were_counted_go_before_those_that_follow_from_energy() {
        let data = run(study(&[("f", &["a", "b"])]), 3, |_, block| {
            let watts = 10.0 + f64::from(block);
            vec![("throughput", 1e8), (ENERGY, 30.0), (POWER, watts), ("energy_per_gb", watts * 10.0)]
        });
        let cell = CellId::new(["w", "a"]);
        let of = |costs: &[Cost]| costs.iter().map(|cost| (cost.metric, cost.median)).collect::<Vec<_>>();
        assert_eq!(of(&derived(&data, &cell)), [(POWER, 11.0)]);
        assert_eq!(of(&of_work(&data, &cell)), [(POWER, 11.0), ("energy_per_gb", 110.0)]);
        assert_eq!(of(&of_cell(&data, &cell)), [(ENERGY, 30.0)]);
    }

    #[test]
    fn what_energy_was_measured_by_is_told_with_its_trials() {
        use domain::energy::{EnergyAccount, EnergySource};
        use domain::trace::FrequencySource;
        use domain::trial::RecorderReport;
        let mut data = measured();
        assert!(energy_by(&data).is_empty());
        for (number, trial) in data.trials.iter_mut().enumerate() {
            let (source, of) = match number {
                0 => (EnergySource::Battery, "BAT0"),
                _ => (EnergySource::Rapl, "package-0"),
            };
            let energy = EnergyAccount { source, of: vec![of.into()], readings: Some(number as u64) };
            trial.measurement.as_mut().unwrap().recorder = Some(RecorderReport {
                samples: 1,
                missed: 0,
                cpu: Nanos::ZERO,
                span: Nanos::ZERO,
                frequency: FrequencySource::None,
                energy: Some(energy),
                cpu_changes: vec![],
                absent: vec![],
            });
        }
        data.trials[5] = failed(data.trials[5].key.clone());
        let expected = [("RAPL, package-0".to_owned(), 4), ("battery, BAT0: sampled power".to_owned(), 1)];
        assert_eq!(energy_by(&data), expected.into());
        // Both have their energy, and neither is counted.
        data.trials[0].validity = Validity::Disturbed(vec![]);
        data.trials[1].validity = Validity::Traced;
        assert_eq!(energy_by(&data), [("RAPL, package-0".to_owned(), 3)].into());
    }

    #[test]
    fn trials_beside_other_work_are_counted_by_cell() {
        let mut data = measured();
        let cell = data.trials[0].key.cell.clone();
        let load = Disturbance { kind: "other-load".into(), detail: "others used 0.5 CPUs".into() };
        data.trials[0].measurement.as_mut().unwrap().disturbances.push(load);
        let loaded: usize = ["a", "b"].iter().map(|f| under_load(&data, &CellId::new(["w", f]))).sum();
        assert_eq!((under_load(&data, &cell), loaded), (1, 1));
    }
}
