//! Speed and watts of cells together: which of them no other beats in both.

use crate::costs;
use crate::summary::{CellSummary, RunData, RunSummary};
use domain::outcome::Better;

/// Where a cell stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place<'a> {
    /// The cell.
    pub cell: &'a CellSummary,
    /// Its median of the metric that decides.
    pub figure: f64,
    /// Its median of watts.
    pub watts: f64,
    /// Whether no other cell is as good in both and better in one: the Pareto front. By medians, so that of
    /// cells that differ by less than noise it may be either.
    pub is_unbeaten: bool,
}

/// Fewer cells have no picture.
const MIN_CELLS: usize = 3;

/// Cells whose watts differ by less than this share are equally frugal.
const MIN_SPREAD: f64 = 0.02;

/// The places of those cells that have both figures, in their order. None where they are too few, where all
/// take as many watts, and where the metric is itself one of energy.
pub fn places<'a>(data: &RunData, summary: &RunSummary, cells: &[&'a CellSummary]) -> Vec<Place<'a>> {
    if summary.metric.starts_with("energy") || summary.metric == costs::POWER {
        return Vec::new();
    }
    let watts = |cell: &CellSummary| {
        costs::derived(data, &cell.cell)
            .into_iter()
            .find(|cost| cost.metric == costs::POWER)
            .map(|it| it.median)
    };
    let place = |cell: &&'a CellSummary| {
        Some(Place { cell, figure: cell.median?, watts: watts(cell)?, is_unbeaten: false })
    };
    let mut all: Vec<Place<'_>> = cells.iter().filter_map(place).collect();
    let least = all.iter().map(|one| one.watts).fold(f64::INFINITY, f64::min);
    let most = all.iter().map(|one| one.watts).fold(0.0, f64::max);
    if all.len() < MIN_CELLS || most <= least * (1.0 + MIN_SPREAD) {
        return Vec::new();
    }
    let unbeaten: Vec<bool> =
        all.iter().map(|one| !all.iter().any(|other| beats(other, one, summary.better))).collect();
    all.iter_mut().zip(unbeaten).for_each(|(one, is_unbeaten)| one.is_unbeaten = is_unbeaten);
    all
}

fn beats(a: &Place<'_>, b: &Place<'_>, better: Better) -> bool {
    let (is_as_good, is_better) = match better {
        Better::Higher => (a.figure >= b.figure, a.figure > b.figure),
        Better::Lower => (a.figure <= b.figure, a.figure < b.figure),
    };
    is_as_good && a.watts <= b.watts && (is_better || a.watts < b.watts)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::summarise::summarise;
    use crate::testing::{run, study};

    /// Levels with throughput and watts.
    fn data(levels: &[(&str, f64, f64)]) -> RunData {
        let names: Vec<&str> = levels.iter().map(|(name, ..)| *name).collect();
        run(study(&[("f", &names)]), 6, |cell, _| {
            let (_, throughput, watts) = levels.iter().find(|(name, ..)| *name == cell["f"]).unwrap();
            vec![("throughput", *throughput), ("power", *watts)]
        })
    }

    fn unbeaten(data: &RunData, metric: Option<&str>) -> Vec<String> {
        let summary = summarise(data, metric);
        let cells: Vec<&CellSummary> = summary.cells.iter().collect();
        let front = places(data, &summary, &cells).into_iter().filter(|one| one.is_unbeaten);
        front.map(|one| one.cell.levels["f"].clone()).collect()
    }

    #[test]
    fn what_is_slower_and_takes_more_is_beaten_and_the_rest_is_a_choice() {
        let data =
            data(&[("fast", 100.0, 30.0), ("slow", 50.0, 10.0), ("worse", 50.0, 20.0), ("mid", 80.0, 15.0)]);
        assert_eq!(unbeaten(&data, None), ["fast", "slow", "mid"]);
    }

    #[test]
    fn two_cells_equal_watts_and_a_metric_of_energy_have_no_choice() {
        let watts = |levels: &[(&str, f64, f64)]| unbeaten(&data(levels), None).len();
        assert_eq!(watts(&[("a", 1.0, 30.0), ("b", 2.0, 10.0)]), 0);
        assert_eq!(watts(&[("a", 1.0, 10.0), ("b", 2.0, 10.1), ("c", 3.0, 10.0)]), 0);
        let three = data(&[("a", 1.0, 30.0), ("b", 2.0, 10.0), ("c", 3.0, 20.0)]);
        assert!(unbeaten(&three, Some("power")).is_empty());
    }
}
