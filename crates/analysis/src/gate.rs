//! Whether a run's cells meet conditions that they must not meet.
//!
//! A bound is broken where the whole interval of the cell's median lies beyond it; where only the median
//! does, nothing is claimed, and the ruling says so. Fewer trials than an interval needs leave the median to
//! decide alone, which is said too. Being worse than another run is decided as [`crate::compare_runs`]
//! decides it.

use crate::compare_runs::{AcrossProvenances, CompareError, compare_runs};
use crate::summarise::{metric_kind, summarise};
use crate::summary::{CellSummary, Lack, RunData, RunSummary, Verdict};
use crate::words::{counted, listed, percent};
use domain::gate::{Condition, Rule};
use domain::ids::CellId;
use domain::per_work;
use domain::plan::{Cell, Plan};
use domain::study::Study;
use domain::units::Unit;
use std::collections::{BTreeMap, BTreeSet};
use workloads::Metrics;
use workloads::report::reported;

/// The metric that every workload has on a host.
const ELAPSED: &str = "elapsed";

/// What one condition says of one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The condition, as it was written.
    pub condition: String,
    /// Which cell.
    pub cell: CellId,
    /// Its workload.
    pub workload: String,
    /// Whether it meets it.
    pub ruling: Ruling,
    /// The figures that decided, in a sentence.
    pub why: String,
}

/// Whether a cell meets a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It does: the run failed.
    Met,
    /// It does not.
    NotMet,
    /// Its median does, its interval does not exclude the contrary: nothing is claimed.
    Undecided,
    /// It was not measured, so nobody knows; that fails a run too.
    NotMeasured,
}

impl Ruling {
    /// Whether the run failed by it.
    pub const fn fails(self) -> bool {
        matches!(self, Self::Met | Self::NotMeasured)
    }
}

/// Why a condition cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// Nothing reports its metric.
    #[error(
        "cannot judge `{condition}`: no trial of `{run}` reports the metric `{metric}`; there are {known}"
    )]
    Metric {
        /// The condition.
        condition: String,
        /// The run.
        run: String,
        /// The metric that it names.
        metric: String,
        /// Those there are.
        known: String,
    },
    /// No workload reports its metric.
    #[error(
        "cannot judge `{condition}`: no workload of its cells reports the metric `{metric}`; there are {known}"
    )]
    Unreported {
        /// The condition.
        condition: String,
        /// The metric that it names.
        metric: String,
        /// Those there are.
        known: String,
    },
    /// Its value is not in the metric's unit.
    #[error("cannot judge `{condition}`: `{value}` is no value of {metric}; write it like `{example}`")]
    Value {
        /// The condition.
        condition: String,
        /// Its value.
        value: String,
        /// The metric.
        metric: String,
        /// How one is written.
        example: String,
    },
    /// No cell has its levels.
    #[error("cannot judge `{condition}`: no cell of the study has {levels}; its factors are {factors}")]
    Levels {
        /// The condition.
        condition: String,
        /// What it asks for.
        levels: String,
        /// What there is.
        factors: String,
    },
    /// The other run cannot be held against this one.
    #[error("cannot judge `{condition}`: {error}")]
    Compare {
        /// The condition.
        condition: String,
        /// Why not.
        error: CompareError,
    },
    /// It would be held against itself.
    #[error("cannot judge `{condition}`: that is this run itself; name another one, such as `{study}~1`")]
    Itself {
        /// The condition.
        condition: String,
        /// The study.
        study: String,
    },
}

/// Judges every cell that a condition is about. `baseline` is the run that [`Rule::WorseThan`] names.
///
/// # Errors
/// Where it is about nothing: a metric, a unit, levels or a run that do not fit.
pub fn judge(
    data: &RunData,
    condition: &Condition,
    baseline: Option<&RunData>,
) -> Result<Vec<Judged>, GateError> {
    let metric = known_metric(data, condition)?;
    let summary = summarise(data, metric);
    let cells = chosen(data, &summary, condition)?;
    let rulings: Vec<(Ruling, String)> = match (&condition.rule, baseline) {
        (Rule::Below(value) | Rule::Above(value), _) => {
            let unit = metric_kind(data, &summary.metric).unit;
            let bound = bound(condition, value, &summary.metric, &unit)?;
            let below = matches!(condition.rule, Rule::Below(_));
            cells.iter().map(|cell| beyond(cell, &summary, bound, below)).collect()
        }
        (Rule::WorseThan { by, .. }, Some(baseline)) => {
            worse(data, baseline, &summary, *by, &cells, condition)?
        }
        (Rule::WorseThan { .. }, None) => unreachable!("who judges such a condition reads its run first"),
    };
    let judged = cells.iter().zip(rulings).map(|(cell, (ruling, why))| Judged {
        condition: condition.text.clone(),
        cell: cell.cell.clone(),
        workload: cell.workload.clone(),
        ruling,
        why,
    });
    Ok(judged.collect())
}

fn known_metric<'c>(data: &RunData, condition: &'c Condition) -> Result<Option<&'c str>, GateError> {
    let Some(metric) = condition.metric.as_deref() else { return Ok(None) };
    let measured = data.trials.iter().filter_map(|trial| trial.measurement.as_ref());
    let known: BTreeSet<&str> = measured.flat_map(|m| m.outcome.metrics.keys()).map(String::as_str).collect();
    if known.is_empty() || known.contains(metric) {
        return Ok(Some(metric));
    }
    Err(GateError::Metric {
        condition: condition.text.clone(),
        run: data.run.id.to_string(),
        metric: metric.to_owned(),
        known: known.into_iter().collect::<Vec<_>>().join(", "),
    })
}

/// Whether a condition can be judged of a plan, before any of its cells was measured.
///
/// # Errors
/// [`GateError::Levels`] where no cell has the levels that the condition names; [`GateError::Unreported`]
/// where no workload of these cells reports its metric; [`GateError::Value`] where its value is not in the
/// metric's unit. What only trials can tell, they will.
pub fn check(condition: &Condition, plan: &Plan) -> Result<(), GateError> {
    let study = &plan.study;
    let cells: Vec<&Cell> = plan.cells.iter().filter(|cell| is_about(condition, &cell.levels)).collect();
    if cells.is_empty() {
        return Err(no_such_levels(condition, study));
    }
    let metric = condition.metric.as_ref().unwrap_or(&study.measure.metric);
    let workloads: BTreeSet<&str> = cells.iter().map(|cell| cell.workload.name.as_str()).collect();
    let workloads = || study.workloads.iter().filter(|workload| workloads.contains(workload.name.as_str()));
    if workloads().any(|workload| workloads::of(&workload.tool).metrics() == Metrics::Any) {
        return Ok(());
    }
    let mut known: BTreeMap<&str, Unit> =
        workloads().flat_map(|workload| reported(study, workload)).collect();
    // A host times what does not time itself.
    known.insert(ELAPSED, Unit::Seconds);
    let by_tools = |name: &&str| per_work::metric(name, 0.0).is_none();
    let Some(unit) = known.get(metric.as_str()) else {
        return Err(GateError::Unreported {
            condition: condition.text.clone(),
            metric: metric.clone(),
            known: known.into_keys().filter(by_tools).collect::<Vec<_>>().join(", "),
        });
    };
    match &condition.rule {
        Rule::Below(value) | Rule::Above(value) => bound(condition, value, metric, unit).map(|_| ()),
        Rule::WorseThan { .. } => Ok(()),
    }
}

/// The value of a condition in the base unit of its metric.
fn bound(condition: &Condition, value: &str, metric: &str, unit: &Unit) -> Result<f64, GateError> {
    unit.parse(value).ok_or_else(|| GateError::Value {
        condition: condition.text.clone(),
        value: value.to_owned(),
        metric: metric.to_owned(),
        example: unit.example(),
    })
}

fn is_about(condition: &Condition, levels: &BTreeMap<String, String>) -> bool {
    condition.levels.iter().all(|(factor, level)| levels.get(factor) == Some(level))
}

fn chosen<'s>(
    data: &RunData,
    summary: &'s RunSummary,
    condition: &Condition,
) -> Result<Vec<&'s CellSummary>, GateError> {
    let cells: Vec<&CellSummary> =
        summary.cells.iter().filter(|cell| is_about(condition, &cell.levels)).collect();
    if cells.is_empty() { Err(no_such_levels(condition, &data.study)) } else { Ok(cells) }
}

fn no_such_levels(condition: &Condition, study: &Study) -> GateError {
    let levels: Vec<String> = condition.levels.iter().map(|(f, l)| format!("{f}={l}")).collect();
    let factors = study.factors.iter().map(|factor| {
        let levels: Vec<&str> = factor.levels.iter().map(|level| level.name.as_str()).collect();
        format!("{} ({})", factor.name, levels.join(", "))
    });
    GateError::Levels {
        condition: condition.text.clone(),
        levels: listed(&levels),
        factors: listed(&factors.collect::<Vec<_>>()),
    }
}

/// Why a cell cannot be judged.
pub fn not_measured(cell: &CellSummary) -> String {
    match &cell.lack {
        Some(Lack::NotPossible(why)) => format!("it could not be run: {why}"),
        Some(Lack::NotReported) => "no trial of it reports the metric".to_owned(),
        None => "it has no valid trial".to_owned(),
    }
}

fn beyond(cell: &CellSummary, summary: &RunSummary, bound: f64, below: bool) -> (Ruling, String) {
    let Some(median) = cell.median else { return (Ruling::NotMeasured, not_measured(cell)) };
    let show = |value: f64| summary.unit.show(value);
    let is_beyond = |value: f64| if below { value < bound } else { value > bound };
    let said =
        format!("{} is {} in the median of {}", summary.metric, show(median), trials(cell.points.len()));
    let side = match (below, is_beyond(median)) {
        (true, true) => "below",
        (true, false) => "not below",
        (false, true) => "above",
        (false, false) => "not above",
    };
    let said = format!("{said}, {side} {}", show(bound));
    match &cell.interval {
        None => {
            let ruling = if is_beyond(median) { Ruling::Met } else { Ruling::NotMet };
            (ruling, format!("{said}; these are too few for an interval"))
        }
        Some(interval) => {
            let whole = interval.wholly(is_beyond);
            let ruling = match (whole, is_beyond(median)) {
                (true, _) => Ruling::Met,
                (false, true) => Ruling::Undecided,
                (false, false) => Ruling::NotMet,
            };
            let (low, high) = (show(interval.low), show(interval.high));
            (ruling, format!("{said}; {} interval {low} to {high}", percent(interval.confidence)))
        }
    }
}

fn trials(count: usize) -> String {
    counted(count, "trial")
}

fn worse(
    data: &RunData,
    baseline: &RunData,
    summary: &RunSummary,
    by: Option<f64>,
    cells: &[&CellSummary],
    condition: &Condition,
) -> Result<Vec<(Ruling, String)>, GateError> {
    if data.run.id == baseline.run.id {
        return Err(GateError::Itself { condition: condition.text.clone(), study: data.study.name.clone() });
    }
    let (mut ours, mut theirs) = (data.clone(), baseline.clone());
    if let Some(by) = by {
        ours.study.measure.threshold = by;
        theirs.study.measure.threshold = by;
    }
    let compared = compare_runs(&theirs, &ours, Some(&summary.metric), AcrossProvenances::Refuse)
        .map_err(|error| GateError::Compare { condition: condition.text.clone(), error })?;
    let ruling = |cell: &&CellSummary| {
        if cell.points.is_empty() {
            return (Ruling::NotMeasured, not_measured(cell));
        }
        match compared.cells.iter().find(|c| c.cell == cell.cell) {
            None => (Ruling::NotMeasured, format!("`{}` has no valid trial of it", baseline.run.id)),
            Some(found) => {
                let ruling = match found.comparison.verdict {
                    Verdict::Worse => Ruling::Met,
                    Verdict::Better | Verdict::Same => Ruling::NotMet,
                    Verdict::Undecided => Ruling::Undecided,
                };
                (ruling, found.comparison.sentence.clone())
            }
        }
    };
    Ok(cells.iter().map(ruling).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, study};
    use domain::ids::RunId;

    /// Two cells of ten trials: 100 MB/s ± 5%, and `second` of that.
    fn data(id: &str, second: f64) -> RunData {
        let mut data = run(study(&[("block", &["4k", "64k"])]), 10, |levels, block| {
            let noise = 1.0 + 0.01 * (f64::from(block) - 4.5);
            let factor = if levels["block"] == "64k" { second } else { 1.0 };
            vec![("throughput", 1e8 * factor * noise)]
        });
        data.run.id = RunId(id.into());
        data
    }

    fn rulings(data: &RunData, condition: &str, baseline: Option<&RunData>) -> Vec<Ruling> {
        let judged = judge(data, &condition.parse().unwrap(), baseline).unwrap();
        judged.into_iter().map(|judged| judged.ruling).collect()
    }

    #[test]
    fn a_bound_is_broken_by_an_interval_and_not_by_a_median() {
        use Ruling::*;
        let data = data("a", 2.0);
        for (condition, expected) in [
            ("throughput < 90 MB/s", [NotMet, NotMet]),
            ("throughput < 101 MB/s", [Undecided, NotMet]),
            ("throughput < 99 MB/s", [NotMet, NotMet]),
            ("throughput < 150 MB/s", [Met, NotMet]),
            ("throughput > 150 MB/s", [NotMet, Met]),
            ("throughput < 500 MB/s", [Met, Met]),
        ] {
            assert_eq!(rulings(&data, condition, None), expected, "{condition}");
        }
        assert_eq!(rulings(&data, "throughput < 150 MB/s where block=64k", None), [NotMet]);
    }

    #[test]
    fn a_cell_without_trials_is_no_pass() {
        let mut data = data("a", 2.0);
        data.trials.retain(|trial| trial.levels["block"] == "4k");
        let expected = [Ruling::NotMet, Ruling::NotMeasured];
        assert_eq!(rulings(&data, "throughput < 1 MB/s", None), expected);
        assert!(expected[1].fails());
        data.trials.truncate(2);
        let judged = judge(&data, &"throughput < 500 MB/s".parse().unwrap(), None).unwrap();
        assert_eq!(judged[0].ruling, Ruling::Met);
        assert!(judged[0].why.ends_with("too few for an interval"), "{}", judged[0].why);
    }

    #[test]
    fn worse_than_another_run_is_judged_cell_by_cell() {
        let (before, after) = (data("before", 2.0), data("after", 1.6));
        assert_eq!(rulings(&after, "worse than before", Some(&before)), [Ruling::NotMet, Ruling::Met]);
        assert_eq!(rulings(&before, "worse than after", Some(&after)), [Ruling::NotMet; 2]);
        let by = |share: &str| rulings(&after, &format!("worse than before by {share}"), Some(&before))[1];
        assert_eq!([by("10%"), by("40%")], [Ruling::Met, Ruling::NotMet]);
    }

    #[test]
    fn what_is_about_nothing_is_an_error_that_says_what_there_is() {
        let data = data("a", 2.0);
        for (condition, why) in [
            ("iops < 5 /s", "no trial of `a` reports the metric `iops`; there are throughput"),
            ("throughput < 5 ms", "`5 ms` is no value of throughput; write it like `7.6 MB/s`"),
            (
                "throughput < 5 MB/s where block=8k",
                "no cell of the study has block=8k; its factors are block (4k, 64k)",
            ),
            ("worse than a", "that is this run itself; name another one, such as `s~1`"),
        ] {
            let error = judge(&data, &condition.parse().unwrap(), Some(&data)).unwrap_err().to_string();
            assert!(error.contains(why), "{condition}: {error}");
        }
    }
}
