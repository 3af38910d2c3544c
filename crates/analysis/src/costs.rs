//! What stands beside a cell's metric, whatever that is: latency, energy and CPU time, which a gain may cost.
//!
//! Each figure is the median over the cell's valid trials ([`crate::stats::quantile`]); what no trial reports
//! is left out.

use crate::stats::quantile::median;
use crate::summarise::metric_kind;
use crate::summary::RunData;
use domain::ids::CellId;
use domain::lab::ENERGY_MODELLED;
use domain::outcome::CPU_BUSY;
use domain::units::Unit;

/// The metrics, in the order in which they are shown.
pub const METRICS: [&str; 6] =
    ["latency_p50", "latency_p99", "latency_p999", ENERGY_MODELLED, "energy", CPU_BUSY];

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

/// What a cell's valid trials report of these.
pub fn of_cell(data: &RunData, cell: &CellId) -> Vec<Cost> {
    let of = |metric: &'static str| {
        let own = data.trials.iter().filter(|trial| trial.key.cell == *cell && trial.validity.is_valid());
        let values: Vec<f64> =
            own.filter_map(|trial| trial.metric(metric)).filter(|v| v.is_finite()).collect();
        Some(Cost { metric, unit: metric_kind(data, metric).unit, median: median(&values)? })
    };
    METRICS.into_iter().filter_map(of).collect()
}

/// How many of a cell's valid trials ran beside other work.
pub fn under_load(data: &RunData, cell: &CellId) -> usize {
    data.trials.iter().filter(|trial| trial.key.cell == *cell && trial.is_under_load()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{failed, run, study};
    use domain::trial::Disturbance;

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
    fn trials_beside_other_work_are_counted_by_cell() {
        let mut data = measured();
        let cell = data.trials[0].key.cell.clone();
        let load = Disturbance { kind: "other-load".into(), detail: "others used 0.5 CPUs".into() };
        data.trials[0].measurement.as_mut().unwrap().disturbances.push(load);
        let loaded: usize = ["a", "b"].iter().map(|f| under_load(&data, &CellId::new(["w", f]))).sum();
        assert_eq!((under_load(&data, &cell), loaded), (1, 1));
    }
}
