//! Two runs against each other, cell by cell: two studies, kernels, machines or revisions.
//!
//! Nothing randomises over runs: the machine of today is not that of yesterday. So the practical threshold is
//! raised to the A/A floor of either run, what their identical trials differ by among themselves; and what
//! differs between the runs' environments is listed, for it may be the cause.

use crate::compare::{Blocks, Conditions, Group, Yardstick, compare_family};
use crate::summarise::summarise;
use crate::summary::{CellSummary, Comparison, RunData, RunSummary, Verdict};
use crate::words::{counted, distance, listed, percent};
use domain::ids::{CellId, RunId};
use domain::study::Measure;
use domain::trial::Provenance;
use std::collections::{BTreeMap, BTreeSet};

/// Whether runs from a host, a lab and a simulation may be held against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcrossProvenances {
    /// No: they answer different questions.
    Refuse,
    /// Yes, since the user asked for it: how true is the model?
    Allow,
}

/// One cell of both runs, which its sentence calls A and B.
#[derive(Clone, Debug, PartialEq)]
pub struct CellComparison {
    /// Which cell.
    pub cell: CellId,
    /// B against A.
    pub comparison: Comparison,
}

/// Something that is not the same in both runs, besides the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What: `kernel`, `governor`, `machine`, `study`.
    pub what: String,
    /// In A; several values joined where trials differ among themselves, `None` where A does not have it.
    pub a: Option<String>,
    /// In B.
    pub b: Option<String>,
}

/// Run B against run A.
#[derive(Clone, Debug, PartialEq)]
pub struct RunComparison {
    /// Which run is A.
    pub a: RunId,
    /// Which is B.
    pub b: RunId,
    /// The metric.
    pub metric: String,
    /// The cells that both have measured, in A's order.
    pub cells: Vec<CellComparison>,
    /// Cells that only A has measured.
    pub only_a: Vec<CellId>,
    /// Cells that only B has measured.
    pub only_b: Vec<CellId>,
    /// What else differs.
    pub differences: Vec<Difference>,
    /// The verdict in one sentence.
    pub verdict: String,
}

/// Why two runs cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// They were measured on different kinds of machine.
    #[error(
        "cannot compare `{a}` ({of_a}) with `{b}` ({of_b}): they are of different provenance, and such runs are compared only on request",
        of_a = .provenances.0.name(),
        of_b = .provenances.1.name()
    )]
    Provenance {
        /// Run A.
        a: RunId,
        /// Run B.
        b: RunId,
        /// Of A and of B.
        provenances: (Provenance, Provenance),
    },
    /// No cell was measured in both.
    #[error(
        "cannot compare `{a}` with `{b}`: no cell has valid trials of `{metric}` in both; compare runs of one study, or name a metric that both report"
    )]
    NothingInCommon {
        /// Run A.
        a: RunId,
        /// Run B.
        b: RunId,
        /// The metric.
        metric: String,
    },
}

/// Holds run B against run A by one metric: the one asked for, else the one that A's study decides by.
///
/// # Errors
/// Where their provenance differs and nobody asked for that, or they have no measured cell in common.
pub fn compare_runs(
    a: &RunData,
    b: &RunData,
    metric: Option<&str>,
    across: AcrossProvenances,
) -> Result<RunComparison, CompareError> {
    let ids = (a.run.id.clone(), b.run.id.clone());
    if across == AcrossProvenances::Refuse && a.run.provenance != b.run.provenance {
        let provenances = (a.run.provenance, b.run.provenance);
        return Err(CompareError::Provenance { a: ids.0, b: ids.1, provenances });
    }
    let of_a = summarise(a, metric);
    let of_b = summarise(b, Some(&of_a.metric));
    let threshold = [a.study.measure.threshold, b.study.measure.threshold]
        .into_iter()
        .chain(of_a.aa_floor)
        .chain(of_b.aa_floor)
        .fold(0.0, f64::max);
    let is_model = [a, b].iter().all(|data| data.run.provenance == Provenance::Simulation);
    let under = Conditions::quiet(if is_model { Provenance::Simulation } else { Provenance::Host });
    let cells = common_cells(&a.study.measure, &of_a, &of_b, (threshold, under));
    if cells.is_empty() {
        return Err(CompareError::NothingInCommon { a: ids.0, b: ids.1, metric: of_a.metric });
    }
    Ok(RunComparison {
        a: ids.0,
        b: ids.1,
        metric: of_a.metric.clone(),
        only_a: only_in(&of_a, &of_b),
        only_b: only_in(&of_b, &of_a),
        differences: differences(a, b),
        verdict: verdict(&cells, threshold),
        cells,
    })
}

fn measured(summary: &RunSummary) -> impl Iterator<Item = &CellSummary> {
    summary.cells.iter().filter(|cell| !cell.points.is_empty())
}

fn only_in(one: &RunSummary, other: &RunSummary) -> Vec<CellId> {
    let others: BTreeSet<&CellId> = measured(other).map(|cell| &cell.cell).collect();
    measured(one).map(|cell| cell.cell.clone()).filter(|cell| !others.contains(cell)).collect()
}

fn common_cells(
    measure: &Measure,
    of_a: &RunSummary,
    of_b: &RunSummary,
    (threshold, under): (f64, Conditions),
) -> Vec<CellComparison> {
    let in_b: BTreeMap<&CellId, &CellSummary> = measured(of_b).map(|cell| (&cell.cell, cell)).collect();
    let both: Vec<(&CellSummary, &CellSummary)> =
        measured(of_a).filter_map(|cell| Some((cell, *in_b.get(&cell.cell)?))).collect();
    let groups: Vec<(Group<'_>, Group<'_>)> = both
        .iter()
        .map(|(x, y)| (Group { name: "A", points: &x.points }, Group { name: "B", points: &y.points }))
        .collect();
    let by = Yardstick {
        metric: &of_a.metric,
        unit: of_a.unit.clone(),
        better: of_a.better,
        confidence: measure.confidence,
        threshold,
        blocks: Blocks::Unrelated,
        under,
    };
    let compared = compare_family(&groups, &by);
    let cells = both.iter().zip(compared);
    cells.filter_map(|((x, _), c)| Some(CellComparison { cell: x.cell.clone(), comparison: c? })).collect()
}

fn verdict(cells: &[CellComparison], threshold: f64) -> String {
    let of = |verdict: Verdict| cells.iter().filter(|c| c.comparison.verdict == verdict).collect::<Vec<_>>();
    let all = counted(cells.len(), "cell");
    let (better, worse) = (of(Verdict::Better), of(Verdict::Worse));
    let (same, open) = (of(Verdict::Same), of(Verdict::Undecided));
    let threshold = percent(threshold);
    if better.is_empty() && worse.is_empty() {
        return match (same.len(), open.len()) {
            (_, 0) => format!("no difference above {threshold} ({all} compared)"),
            (0, _) => format!(
                "cannot tell yet: no difference above {threshold} can be claimed, and none excluded ({all} compared); more trials would tell"
            ),
            (same, open) => format!(
                "no difference above {threshold} is seen ({all} compared: {same} the same, {open} cannot be told yet)"
            ),
        };
    }
    let mut parts: Vec<String> = Vec::new();
    for (group, word) in [(&better, "better"), (&worse, "worse")] {
        let Some(most) = group.iter().max_by(|x, y| size(x).total_cmp(&size(y))) else { continue };
        parts.push(format!(
            "{word} in {} of {all}, most in {}: {}",
            group.len(),
            most.cell,
            most.comparison.sentence
        ));
    }
    if !same.is_empty() {
        parts.push(format!("the same within {threshold} in {}", same.len()));
    }
    if !open.is_empty() {
        parts.push(format!("{} cannot be told yet", open.len()));
    }
    parts.join("; ")
}

fn size(cell: &CellComparison) -> f64 {
    distance(&cell.comparison)
}

/// What differs besides the results: the machine, the program, the study, and everything that trials noted of
/// their environment.
pub fn differences(a: &RunData, b: &RunData) -> Vec<Difference> {
    let fixed = [
        ("provenance", Some(a.run.provenance.name().to_owned()), Some(b.run.provenance.name().to_owned())),
        ("machine", Some(a.run.machine.clone()), Some(b.run.machine.clone())),
        ("flyball", Some(a.run.flyball.clone()), Some(b.run.flyball.clone())),
        ("study", Some(a.run.study.clone()), Some(b.run.study.clone())),
        ("revision", a.run.revision.clone(), b.run.revision.clone()),
    ];
    let mut found: Vec<Difference> =
        fixed.into_iter().map(|(what, a, b)| Difference { what: what.to_owned(), a, b }).collect();
    if a.run.study == b.run.study && a.run.study_text != b.run.study_text {
        found.push(Difference {
            what: "study file".into(),
            a: Some("one text".into()),
            b: Some("another".into()),
        });
    }
    let (of_a, of_b) = (environment(a), environment(b));
    let names: BTreeSet<&String> = of_a.keys().chain(of_b.keys()).copied().collect();
    let joined = |of: &BTreeMap<&String, BTreeSet<&str>>, name: &String| {
        of.get(name).map(|values| listed(&values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>()))
    };
    found.extend(names.into_iter().map(|name| Difference {
        what: name.clone(),
        a: joined(&of_a, name),
        b: joined(&of_b, name),
    }));
    found.retain(|difference| difference.a != difference.b);
    found
}

/// What a trial notes of its moment alone: it differs between any two trials, and explains nothing between
/// runs.
const MOMENTARY: [&str; 3] = ["loadavg", "settled", "simulated events"];

/// Every value that each name of the environment had in the run.
fn environment(data: &RunData) -> BTreeMap<&String, BTreeSet<&str>> {
    let mut all: BTreeMap<&String, BTreeSet<&str>> = BTreeMap::new();
    let lasting = data
        .trials
        .iter()
        .flat_map(|t| &t.environment)
        .filter(|(name, _)| !MOMENTARY.contains(&name.as_str()));
    for (name, value) in lasting {
        all.entry(name).or_default().insert(value);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, study};
    use domain::rng::Seed;
    use expect_test::expect;

    /// A run of two cells, whose second is `factor` times as fast, with noise of about 1%.
    fn noisy(id: &str, seed: u64, factor: f64) -> RunData {
        let rng = std::cell::RefCell::new(Seed(seed).stream("noise"));
        let mut data = run(study(&[("block", &["4k", "64k"])]), 10, |levels, _| {
            let factor = if levels["block"] == "64k" { factor } else { 1.0 };
            vec![("throughput", 1e8 * factor * (0.01 * rng.borrow_mut().normal()).exp())]
        });
        data.run.id = RunId(id.into());
        data
    }

    fn compared(a: &RunData, b: &RunData) -> RunComparison {
        compare_runs(a, b, None, AcrossProvenances::Refuse).unwrap()
    }

    #[test]
    fn the_same_study_twice_has_no_difference() {
        let got = compared(&noisy("first", 1, 2.0), &noisy("second", 2, 2.0));
        expect!["no difference above 2.1% (2 cells compared)"].assert_eq(&got.verdict);
        assert_eq!(got.cells.len(), 2);
        assert!(got.differences.is_empty(), "{:?}", got.differences);
    }

    #[test]
    fn the_same_study_twice_hardly_ever_claims_a_difference() {
        let claims =
            (0..200).map(|i| compared(&noisy("a", 2 * i, 2.0), &noisy("b", 2 * i + 1, 2.0))).filter(|got| {
                got.cells.iter().any(|c| matches!(c.comparison.verdict, Verdict::Better | Verdict::Worse))
            });
        assert!(claims.count() <= 2);
    }

    #[test]
    fn blocks_of_different_runs_are_never_taken_for_pairs() {
        // One seed: the noise of block 3 is the same in both runs, as it never is in truth.
        let got = compared(&noisy("a", 1, 2.0), &noisy("b", 1, 3.0));
        let sentence = &got.cells[1].comparison.sentence;
        assert!(sentence.contains("10 against 10 trials"), "{sentence}");
    }

    #[test]
    fn a_cell_that_became_slower_is_found_and_the_other_is_not() {
        let got = compared(&noisy("old", 1, 2.0), &noisy("new", 2, 1.6));
        expect!["worse in 1 of 2 cells, most in w_64k: B is worse than A: 0.80 times the throughput (95% interval 0.79 to 0.81, p < 0.001, 10 against 10 trials); the same within 2.1% in 1"].assert_eq(&got.verdict);
    }

    #[test]
    fn what_differs_in_the_environment_is_listed() {
        let (mut a, mut b) = (noisy("a", 1, 2.0), noisy("b", 2, 2.0));
        for (data, kernel) in [(&mut a, "6.1.0"), (&mut b, "6.12.9")] {
            for trial in &mut data.trials {
                trial.environment.insert("kernel".into(), kernel.into());
                trial.environment.insert("hz".into(), "250".into());
                trial.environment.insert("loadavg".into(), format!("{kernel} {}", trial.key.block));
            }
        }
        let got = compared(&a, &b).differences;
        assert_eq!(
            got,
            [Difference { what: "kernel".into(), a: Some("6.1.0".into()), b: Some("6.12.9".into()) }]
        );
    }

    #[test]
    fn cells_of_one_side_only_are_named() {
        let (mut a, mut b) = (noisy("a", 1, 2.0), noisy("b", 2, 2.0));
        a.study = study(&[("block", &["4k", "64k", "1m"])]);
        let mut more = a.trials[0].clone();
        more.key.cell = CellId::from_stored("w_1m");
        a.trials.push(more);
        b.trials.retain(|t| t.key.cell.as_str() != "w_64k");
        let got = compared(&a, &b);
        assert_eq!(got.only_a.iter().map(CellId::as_str).collect::<Vec<_>>(), ["w_64k", "w_1m"]);
        assert!(got.only_b.is_empty());
    }

    #[test]
    fn host_and_simulation_are_compared_only_when_asked_for() {
        let (a, mut b) = (noisy("a", 1, 2.0), noisy("b", 2, 2.0));
        b.run.provenance = Provenance::Simulation;
        let error = compare_runs(&a, &b, None, AcrossProvenances::Refuse).unwrap_err();
        expect!["cannot compare `a` (host) with `b` (simulation): they are of different provenance, and such runs are compared only on request"].assert_eq(&error.to_string());
        let got = compare_runs(&a, &b, None, AcrossProvenances::Allow).unwrap();
        assert_eq!(got.differences[0].what, "provenance");
    }

    #[test]
    fn runs_without_a_common_cell_are_refused() {
        let (a, mut b) = (noisy("a", 1, 2.0), noisy("b", 2, 2.0));
        b.trials.clear();
        let error = compare_runs(&a, &b, None, AcrossProvenances::Refuse).unwrap_err();
        assert!(matches!(error, CompareError::NothingInCommon { .. }));
    }

    #[test]
    fn noise_of_the_runs_themselves_raises_the_threshold() {
        let mut loud = noisy("loud", 3, 2.0);
        for (trial, noise) in loud.trials.iter_mut().zip([0.8, 1.2, 1.0, 0.9, 1.1].into_iter().cycle()) {
            let metrics = &mut trial.measurement.as_mut().unwrap().outcome.metrics;
            metrics.get_mut("throughput").unwrap().value *= noise;
        }
        let got = compared(&noisy("quiet", 1, 2.0), &loud);
        assert!(got.cells[0].comparison.threshold > 0.1, "{}", got.cells[0].comparison.threshold);
    }
}
