//! A run of the notebook on the terminal: what the commands that show one have in common.

use crate::exit::Usage;
use crate::look_only::look_only;
use crate::places;
use analysis::summary::RunData;
use anyhow::Result;
use command_line::Global;
use domain::ids::{NoTrialKey, RunId, TrialKey};
use notebook::Notebook;
use results::Results;
use std::path::Path;

/// How much of a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// What one screen holds.
    Screen,
    /// All of it.
    Full,
}

impl Length {
    /// As `--full` says.
    pub const fn of(full: bool) -> Self {
        if full { Self::Full } else { Self::Screen }
    }
}

/// Opens the notebook, and reads and writes nothing but it and `out` from now on.
pub fn opened(global: &Global, out: Option<&Path>) -> Result<Notebook> {
    let folder = places::notebook(global)?;
    look_only(&folder, out);
    Ok(Notebook::open(&folder)?)
}

/// Reads a run and judges it; what cannot be read is told.
pub fn load(notebook: &Notebook, id: &RunId, metric: Option<&str>) -> Result<Results> {
    Ok(Results::load(notebook, id, metric, terminal::warn)?)
}

/// Reads a run; what cannot be read is told.
pub fn data(notebook: &Notebook, id: &RunId) -> Result<RunData> {
    Ok(results::data(notebook, id, terminal::warn)?)
}

/// A trial by its name.
pub fn trial_key(name: &str) -> Result<TrialKey> {
    Ok(name.parse().map_err(|error: NoTrialKey| Usage(error.to_string()))?)
}

/// Prints the report as text, or as JSON, which is the same at any length.
pub fn print(global: &Global, results: &Results, length: Length) -> Result<()> {
    let report = results.report();
    if global.json {
        return Ok(terminal::json(&report::json(&report))?);
    }
    // A recording is one trial: its text is short, and what it shows is nowhere else.
    let is_short = length == Length::Screen && !results.data.study.is_recording();
    let (width, program) = (terminal::screen_width(), places::this_program(global));
    if !is_short {
        return Ok(terminal::document(&report::Wide(width).text(&report, &program))?);
    }
    Ok(terminal::screen(&report::short_text(&report, &program, width))?)
}
