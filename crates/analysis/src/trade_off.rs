//! Speed and watts of cells together: which of them no other beats in both.

use crate::costs;
use crate::summary::{CellSummary, RunData, RunSummary};
use domain::order;
use domain::outcome::Better;
use domain::setting::SettingRequest;
use domain::study::Until;
use domain::units::Unit;

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
    let at = |one: &Place<'_>| (one.figure, one.watts);
    // What a search left behind was beaten when it did.
    let most = all.iter().map(|one| one.cell.points.len()).max().unwrap_or_default();
    let is_front = data.study.measure.until == Until::Front;
    let is_candidate = |one: &Place<'_>| !is_front || one.cell.points.len() == most;
    let unbeaten: Vec<bool> = all
        .iter()
        .map(|one| is_candidate(one) && !all.iter().any(|other| beats(at(other), at(one), summary.better)))
        .collect();
    all.iter_mut().zip(unbeaten).for_each(|(one, is_unbeaten)| one.is_unbeaten = is_unbeaten);
    all
}

/// Whether a first figure with its watts is as good as a second in both, and better in one.
pub(crate) fn beats(a: (f64, f64), b: (f64, f64), better: Better) -> bool {
    let (is_as_good, is_better) = match better {
        Better::Higher => (a.0 >= b.0, a.0 > b.0),
        Better::Lower => (a.0 <= b.0, a.0 < b.0),
    };
    is_as_good && a.1 <= b.1 && (is_better || a.1 < b.1)
}

/// Of a search for the trade-off ([`Until::Front`]), the cells that no other beats in both, the fastest
/// first. None of another run, and where there is nothing to choose between.
pub fn front<'a>(data: &RunData, summary: &'a RunSummary) -> Vec<Place<'a>> {
    if data.study.measure.until != Until::Front {
        return Vec::new();
    }
    let all: Vec<&CellSummary> = summary.cells.iter().collect();
    let mut front: Vec<Place<'_>> =
        places(data, summary, &all).into_iter().filter(|place| place.is_unbeaten).collect();
    order::by(&mut front, |a, b| match summary.better {
        Better::Higher => b.figure.total_cmp(&a.figure),
        Better::Lower => a.figure.total_cmp(&b.figure),
    });
    front
}

impl Place<'_> {
    /// The energy of an operation: of a rate that of what it counts one of, of a time that of the whole.
    pub fn joules(&self, unit: &Unit) -> Option<f64> {
        let joules = match unit {
            Unit::Seconds => self.watts * self.figure,
            Unit::PerSecond | Unit::BytesPerSecond => self.watts / self.figure,
            _ => return None,
        };
        joules.is_finite().then_some(joules)
    }
}

/// The settings that a cell writes, by its levels.
pub fn settings<'a>(data: &'a RunData, cell: &CellSummary) -> Vec<&'a SettingRequest> {
    let chosen = data.study.factors.iter().flat_map(|factor| {
        let name = cell.levels.get(&factor.name);
        factor.levels.iter().filter(move |level| Some(&level.name) == name)
    });
    chosen.flat_map(|level| &level.settings).collect()
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
    fn a_search_has_a_front_of_what_it_measured_to_its_end_and_other_runs_have_none() {
        let mut data =
            data(&[("fast", 100.0, 30.0), ("slow", 50.0, 10.0), ("worse", 50.0, 20.0), ("left", 80.0, 15.0)]);
        let names = |data: &RunData| {
            let summary = summarise(data, None);
            let front = front(data, &summary);
            front.iter().map(|one| (one.cell.levels["f"].clone(), one.figure, one.watts)).collect::<Vec<_>>()
        };
        assert!(names(&data).is_empty());
        data.study.measure.until = Until::Front;
        // It was left behind after two blocks.
        data.trials.retain(|trial| trial.key.block < 2 || trial.levels["f"] != "left");
        assert_eq!(names(&data), [("fast".into(), 100.0, 30.0), ("slow".into(), 50.0, 10.0)]);
        let summary = summarise(&data, None);
        assert_eq!(
            summary.verdict,
            "of 4 cells no other beats in throughput and watts together: 2, from `fast` (100 B/s, 30.0 W) to `slow` (50.0 \
             B/s, 10.0 W); these trials chose them, so that what one gains has to be measured anew"
        );
        assert!(summary.effects.iter().flat_map(|one| &one.comparisons).all(|one| one.interval.is_none()));
    }

    #[test]
    fn joules_are_of_an_operation_or_of_the_whole() {
        let mut data = data(&[("a", 100.0, 30.0), ("b", 50.0, 10.0), ("c", 1.0, 20.0)]);
        data.study.measure.until = Until::Front;
        let summary = summarise(&data, None);
        let first = front(&data, &summary)[0];
        assert_eq!(first.joules(&Unit::PerSecond), Some(0.3));
        assert_eq!(first.joules(&Unit::Seconds), Some(3000.0));
        assert_eq!(first.joules(&Unit::Share), None);
        assert_eq!(Place { figure: 0.0, ..first }.joules(&Unit::PerSecond), None);
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
