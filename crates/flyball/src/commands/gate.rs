//! `--fail-if` and `--junit`: what a run must not be, judged and told.

use crate::exit::Usage;
use crate::shown;
use crate::terminal;
use analysis::gate::{Judged, Ruling, check, judge};
use anyhow::{Context, Result};
use domain::gate::{Condition, Rule};
use domain::ids::RunId;
use domain::plan::Plan;
use domain::trial::Provenance;
use exporters::JudgedRun;
use notebook::Notebook;
use results::Results;
use std::path::Path;

/// Conditions, each with the run that it names.
pub struct Conditions(Vec<(Condition, Option<RunId>)>);

/// Finds the runs that conditions name: before anything is measured, for an hour later would be a bad time to
/// find none, and a study's name means its last run so far. `notebook` is the notebook's folder, which may
/// not be there yet.
pub fn prepare(conditions: &[Condition], notebook: &Path) -> Result<Conditions> {
    let find = |condition: &Condition| {
        let run = match &condition.rule {
            Rule::WorseThan { run, .. } => {
                let found = Notebook::open(notebook).and_then(|notebook| notebook.find(run));
                Some(found.map_err(|error| Usage(format!("cannot judge by `{condition}`: {error}")))?)
            }
            Rule::Below(_) | Rule::Above(_) => None,
        };
        Ok((condition.clone(), run))
    };
    conditions.iter().map(find).collect::<Result<_>>().map(Conditions)
}

/// The same for a run that is to be, on this kind of machine: whatever a plan can tell of its conditions is
/// told first.
pub fn prepare_for(
    plan: &Plan,
    conditions: &[Condition],
    notebook: &Path,
    provenance: Provenance,
) -> Result<Conditions> {
    for condition in conditions {
        check(condition, plan).map_err(|error| Usage(error.to_string()))?;
    }
    let prepared = prepare(conditions, notebook)?;
    for (condition, run) in &prepared.0 {
        let Some(run) = run else { continue };
        let other = Notebook::open(notebook)?.run(run)?.provenance;
        if other != provenance {
            return Err(Usage(format!(
                "cannot judge by `{condition}`: `{run}` is of another kind of machine ({}) than this run will be ({}); \
                 name a run of the same kind",
                other.name(),
                provenance.name()
            ))
            .into());
        }
    }
    Ok(prepared)
}

/// Judges a run, says on standard error what failed, and writes the report; whether it passes.
pub fn passes(
    conditions: &Conditions,
    junit: Option<&Path>,
    notebook: &Notebook,
    results: &Results,
) -> Result<bool> {
    let judged = judged(conditions, notebook, results)?;
    for one in judged.iter().filter(|one| one.ruling != Ruling::NotMet) {
        let what = match one.ruling {
            Ruling::Undecided => "undecided",
            Ruling::NotMeasured => "failed, for it was not measured",
            Ruling::Met | Ruling::NotMet => "failed",
        };
        terminal::say(format_args!("{what}: {}: {}: {}", one.cell, one.condition, one.why));
    }
    if let Some(file) = junit {
        let run = JudgedRun { data: &results.data, summary: &results.summary, judged: &judged };
        let text = exporters::junit(&run);
        files::output::write(file, text.as_bytes()).context("cannot keep JUnit's XML")?;
    }
    Ok(!judged.iter().any(|one| one.ruling.fails()))
}

/// What every condition says of every cell that it is about.
pub fn judged(conditions: &Conditions, notebook: &Notebook, results: &Results) -> Result<Vec<Judged>> {
    let mut all = Vec::new();
    for (condition, run) in &conditions.0 {
        let baseline = run.as_ref().map(|run| shown::data(notebook, run)).transpose()?;
        let judged = judge(&results.data, condition, baseline.as_ref());
        all.extend(judged.map_err(|error| Usage(error.to_string()))?);
    }
    Ok(all)
}
