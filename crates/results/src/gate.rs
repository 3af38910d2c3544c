//! `--fail-if`: what a run must not be, judged.

use crate::{Error, Result, Results, Warn, data};
use analysis::gate::{Judged, check, judge};
use domain::gate::{Condition, Rule};
use domain::ids::RunId;
use domain::plan::Plan;
use domain::trial::Provenance;
use notebook::Notebook;
use std::path::Path;

/// Conditions, each with the run that it names.
#[derive(Debug)]
pub struct Conditions(Vec<(Condition, Option<RunId>)>);

/// Finds the runs that conditions name: before anything is measured, for an hour later would be a bad time to
/// find none, and a study's name means its last run so far. `notebook` is the notebook's folder, which may
/// not be there yet.
///
/// # Errors
/// [`Error::Condition`] where a run that is named is not there.
pub fn prepare(conditions: &[Condition], notebook: &Path) -> Result<Conditions> {
    let find = |condition: &Condition| {
        let run =
            match &condition.rule {
                Rule::WorseThan { run, .. } => {
                    let found = Notebook::open(notebook).and_then(|notebook| notebook.find(run));
                    Some(found.map_err(|error| {
                        Error::Condition(format!("cannot judge by `{condition}`: {error}"))
                    })?)
                }
                Rule::Below(_) | Rule::Above(_) => None,
            };
        Ok((condition.clone(), run))
    };
    conditions.iter().map(find).collect::<Result<_>>().map(Conditions)
}

/// The same for a run that is to be, on this kind of machine: whatever a plan can tell of its conditions is
/// told first.
///
/// # Errors
/// [`Error::Condition`] for what can be known to make no sense.
pub fn prepare_for(
    plan: &Plan,
    conditions: &[Condition],
    notebook: &Path,
    provenance: Provenance,
) -> Result<Conditions> {
    for condition in conditions {
        check(condition, plan).map_err(|error| Error::Condition(error.to_string()))?;
    }
    let prepared = prepare(conditions, notebook)?;
    for (condition, run) in &prepared.0 {
        let Some(run) = run else { continue };
        let other = Notebook::open(notebook)?.run(run)?.provenance;
        if other != provenance {
            return Err(Error::Condition(format!(
                "cannot judge by `{condition}`: `{run}` is of another kind of machine ({}) than this run will be ({}); \
                 name a run of the same kind",
                other.name(),
                provenance.name()
            )));
        }
    }
    Ok(prepared)
}

/// What every condition says of every cell that it is about.
///
/// # Errors
/// [`Error::Condition`] where the run has nothing to judge by it; where another run cannot be read.
pub fn judged(
    conditions: &Conditions,
    notebook: &Notebook,
    results: &Results,
    warn: Warn,
) -> Result<Vec<Judged>> {
    let mut all = Vec::new();
    for (condition, run) in &conditions.0 {
        let baseline = run.as_ref().map(|run| data(notebook, run, warn)).transpose()?;
        let judged = judge(&results.data, condition, baseline.as_ref());
        all.extend(judged.map_err(|error| Error::Condition(error.to_string()))?);
    }
    Ok(all)
}
