//! `flyball compare`: two runs, or the levels of a factor.

use crate::exit::{End, Usage};
use crate::shown;
use crate::shown::opened;
use analysis::compare_runs::{AcrossProvenances, CompareError, Difference, RunComparison, compare_runs};
use analysis::summarise::compare_levels;
use analysis::summary::{Comparison, RunData};
use anyhow::{Result, anyhow, bail};
use command_line::{Compare, Global};
use domain::ids::RunId;
use domain::outcome::CPU_BUSY;
use domain::trial::Run;
use notebook::Notebook;
use report::ComparisonReport;

/// Holds two runs, or a factor's levels, against each other.
pub fn compare(global: &Global, arguments: &Compare) -> Result<End> {
    let notebook = opened(global, None)?;
    match &arguments.factor {
        Some(factor) => levels(global, arguments, &notebook, factor),
        None => runs(global, arguments, &notebook),
    }
}

fn runs(global: &Global, arguments: &Compare, notebook: &Notebook) -> Result<End> {
    let (a, b) = match &arguments.b {
        Some(b) => (notebook.find(&arguments.a)?, notebook.find(b)?),
        None => {
            let run = notebook.find(&arguments.a)?;
            (before(notebook, &run, arguments)?, run)
        }
    };
    if a == b {
        return Err(Usage(format!(
            "cannot compare `{a}` with itself; name another run, or levels with --factor"
        ))
        .into());
    }
    let (a, b) = (shown::data(notebook, &a)?, shown::data(notebook, &b)?);
    let across = if arguments.across { AcrossProvenances::Allow } else { AcrossProvenances::Refuse };
    let metric = arguments.metric.as_deref().or_else(|| of_recordings(&a, &b));
    let found = compare_runs(&a, &b, metric, across).map_err(|error| match error {
        CompareError::Provenance { .. } => anyhow!("{error}; add --across"),
        other => other.into(),
    })?;
    let comparisons: Vec<(String, Comparison)> =
        found.cells.iter().map(|c| (c.cell.to_string(), c.comparison.clone())).collect();
    let title = format!("B, which is {}, against A, which is {}", found.b, found.a);
    let models = [&a, &b].into_iter().filter_map(|data| report::simulation_note(&data.run));
    let notes = models.chain(notes(&found)).collect();
    show(global, &ComparisonReport { title, sentence: found.verdict, comparisons, notes })
}

/// What two recordings have in common of which not both have a time of their own.
fn of_recordings(a: &RunData, b: &RunData) -> Option<&'static str> {
    let are_recordings = a.study.is_recording() && b.study.is_recording();
    let differ = a.study.measure.metric != b.study.measure.metric;
    (are_recordings && differ).then_some(CPU_BUSY)
}

/// The run of the same study that was begun before this one, on the same kind of machine unless any is
/// wanted.
fn before(notebook: &Notebook, run: &RunId, arguments: &Compare) -> Result<RunId> {
    let (entries, _) = notebook.runs()?;
    let mut runs = entries.into_iter().map(|entry| entry.run).skip_while(|other| other.id != *run);
    let this = runs.next().ok_or_else(|| anyhow!("cannot compare `{run}`: it is gone"))?;
    let older: Vec<Run> = runs.filter(|other| other.study == this.study).collect();
    let alike = |other: &&Run| arguments.across || other.provenance == this.provenance;
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
    bail!("cannot compare `{run}` with the run before it: {what}; name another run, or levels with --factor")
}

fn levels(global: &Global, arguments: &Compare, notebook: &Notebook, factor: &str) -> Result<End> {
    let id = notebook.find(&arguments.a)?;
    let results = shown::load(notebook, &id, arguments.metric.as_deref())?;
    let known: Vec<&str> = results.data.study.factors.iter().map(|f| f.name.as_str()).collect();
    if !known.contains(&factor) {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(Usage(format!("the study of `{id}` has no factor `{factor}`; it has {known}")).into());
    }
    let effects = compare_levels(&results.data, factor, arguments.metric.as_deref());
    let title = format!("the levels of {factor} in {id}");
    let sentence = analysis::answer::of_factor(factor, &effects, results.data.study.measure.threshold);
    let mut comparison = ComparisonReport::of_effects(title, sentence, &effects);
    comparison.notes.extend(report::simulation_note(&results.data.run));
    show(global, &comparison)
}

fn show(global: &Global, comparison: &ComparisonReport) -> Result<End> {
    if global.json {
        terminal::json(&report::comparison_json(comparison))?;
    } else {
        terminal::document(&report::Wide(terminal::screen_width()).comparison_text(comparison))?;
    }
    Ok(End::Done)
}

/// What the reader has to know besides the figures.
fn notes(found: &RunComparison) -> Vec<String> {
    let only = |cells: &[domain::ids::CellId], run: &RunId| {
        let names: Vec<&str> = cells.iter().map(domain::ids::CellId::as_str).collect();
        (!names.is_empty()).then(|| format!("only {run} has {}", names.join(", ")))
    };
    let differs = |d: &Difference| {
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        format!("{} differs: {} and {}", d.what, side(&d.a), side(&d.b))
    };
    let cells = [only(&found.only_a, &found.a), only(&found.only_b, &found.b)];
    cells.into_iter().flatten().chain(found.differences.iter().map(differs)).collect()
}
