//! `--fail-if` and `--junit`: whether a run passes, told.

use analysis::gate::Ruling;
use anyhow::{Context, Result};
use exporters::JudgedRun;
use notebook::Notebook;
use results::Results;
use results::gate::{Conditions, judged};
use std::path::Path;

/// Judges a run, says on standard error what failed, and writes the report; whether it passes.
pub fn passes(
    conditions: &Conditions,
    junit: Option<&Path>,
    notebook: &Notebook,
    results: &Results,
) -> Result<bool> {
    let judged = judged(conditions, notebook, results, terminal::warn)?;
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
