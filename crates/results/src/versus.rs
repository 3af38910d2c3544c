//! What a comparison of two runs needs besides their figures: with which run, by which metric, and how they
//! differ otherwise.

use crate::{Error, Result};
use analysis::compare_runs::{AcrossProvenances, Difference, RunComparison};
use analysis::summarise::compare_levels;
use analysis::summary::RunData;
use domain::ids::{CellId, RunId};
use domain::outcome::CPU_BUSY;
use domain::trial::Run;
use notebook::Notebook;
use report::ComparisonReport;

/// The metric that two recordings have in common of which not both have a time of their own.
pub fn common_metric(a: &RunData, b: &RunData) -> Option<&'static str> {
    let are_recordings = a.study.is_recording() && b.study.is_recording();
    let differ = a.study.measure.metric != b.study.measure.metric;
    (are_recordings && differ).then_some(CPU_BUSY)
}

/// The run of the same study that was begun before this one, on the same kind of machine unless any is
/// wanted.
pub fn before(notebook: &Notebook, run: &RunId, across: AcrossProvenances) -> Result<RunId> {
    let (entries, _) = notebook.runs()?;
    let mut runs = entries.into_iter().map(|entry| entry.run).skip_while(|other| other.id != *run);
    let this = runs.next().ok_or_else(|| Error::NoneBefore { run: run.clone(), why: "it is gone".into() })?;
    let older: Vec<Run> = runs.filter(|other| other.study == this.study).collect();
    let alike = |other: &&Run| across == AcrossProvenances::Allow || other.provenance == this.provenance;
    if let Some(found) = older.iter().find(alike) {
        return Ok(found.id.clone());
    }
    let kind = this.provenance.name();
    let what = match older.first() {
        None => format!("no run of the study `{}` is older", this.study),
        Some(other) => format!(
            "no older run of the study `{}` is of its kind of machine ({kind}); `{}` is of another, and --across \
             compares them",
            this.study, other.id
        ),
    };
    Err(Error::NoneBefore {
        run: run.clone(),
        why: format!("{what}; name another run, or levels with --factor"),
    })
}

/// Two runs that were compared, as the report crate takes them.
pub fn of_runs(a: &RunData, b: &RunData, found: RunComparison) -> ComparisonReport {
    let models = [a, b].into_iter().filter_map(|data| report::simulation_note(&data.run));
    ComparisonReport {
        title: format!("B, which is {}, against A, which is {}", found.b, found.a),
        notes: models.chain(differences(&found)).collect(),
        comparisons: found.cells.into_iter().map(|c| (c.cell.to_string(), c.comparison)).collect(),
        sentence: found.verdict,
    }
}

/// The levels of a factor of a run likewise, by a metric or the study's.
///
/// # Errors
/// A sentence, where its study has no such factor.
pub fn of_levels(
    data: &RunData,
    factor: &str,
    metric: Option<&str>,
) -> std::result::Result<ComparisonReport, String> {
    let id = &data.run.id;
    let known: Vec<&str> = data.study.factors.iter().map(|f| f.name.as_str()).collect();
    if !known.contains(&factor) {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(format!("the study of `{id}` has no factor `{factor}`; it has {known}"));
    }
    let effects = compare_levels(data, factor, metric);
    let title = format!("the levels of {factor} in {id}");
    let sentence = analysis::answer::of_factor(factor, &effects, data.study.measure.threshold);
    let mut comparison = ComparisonReport::of_effects(title, sentence, &effects);
    comparison.notes.extend(report::simulation_note(&data.run));
    Ok(comparison)
}

/// What the reader has to know besides the figures: cells that one lacks, and how the runs differ.
fn differences(found: &RunComparison) -> Vec<String> {
    let only = |cells: &[CellId], run: &RunId| {
        let names: Vec<&str> = cells.iter().map(CellId::as_str).collect();
        (!names.is_empty()).then(|| format!("only {run} has {}", names.join(", ")))
    };
    let differs = |d: &Difference| {
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        format!("{} differs: {} and {}", d.what, side(&d.a), side(&d.b))
    };
    let cells = [only(&found.only_a, &found.a), only(&found.only_b, &found.b)];
    cells.into_iter().flatten().chain(found.differences.iter().map(differs)).collect()
}
