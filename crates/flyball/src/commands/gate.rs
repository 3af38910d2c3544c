//! `--fail-if` and `--junit`: what a run must not be, judged and told.

use crate::args::Gate;
use crate::exit::Usage;
use crate::results::{self, Results};
use analysis::gate::{Judged, Ruling, judge};
use anyhow::{Context, Result};
use domain::gate::{Condition, Rule};
use notebook::Notebook;
use std::fs;

/// Looks for the runs that conditions name before anything is measured: an hour later would be a bad time to find none.
pub fn prepare(gate: &Gate, notebook: &Notebook) -> Result<()> {
    for condition in &gate.fail_if {
        if let Rule::WorseThan { run, .. } = &condition.rule {
            notebook
                .find(run)
                .map_err(|error| Usage(format!("cannot judge by `{condition}`: {error}; nothing was run")))?;
        }
    }
    Ok(())
}

/// Judges a run, says on standard error what failed, and writes the report; whether it passes.
pub fn passes(gate: &Gate, notebook: &Notebook, results: &Results) -> Result<bool> {
    let judged = judged(&gate.fail_if, notebook, results)?;
    for one in judged.iter().filter(|one| one.ruling != Ruling::NotMet) {
        let what = match one.ruling {
            Ruling::Undecided => "undecided",
            Ruling::NotMeasured => "failed, for it was not measured",
            Ruling::Met | Ruling::NotMet => "failed",
        };
        eprintln!("{what}: {}: {}: {}", one.cell, one.condition, one.why);
    }
    if let Some(file) = &gate.junit {
        let text = report::export::junit(&results.data, &results.summary, &judged);
        fs::write(file, text).with_context(|| format!("cannot write JUnit's XML to `{}`", file.display()))?;
    }
    Ok(!judged.iter().any(|one| one.ruling.fails()))
}

/// What every condition says of every cell that it is about.
pub fn judged(conditions: &[Condition], notebook: &Notebook, results: &Results) -> Result<Vec<Judged>> {
    let mut all = Vec::new();
    for condition in conditions {
        let baseline = match &condition.rule {
            Rule::WorseThan { run, .. } => Some(results::data(notebook, &notebook.find(run)?)?),
            Rule::Below(_) | Rule::Above(_) => None,
        };
        let judged = judge(&results.data, condition, baseline.as_ref());
        all.extend(judged.map_err(|error| Usage(error.to_string()))?);
    }
    Ok(all)
}
