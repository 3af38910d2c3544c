//! `flyball explain`: the findings of a run, and the rules.

use crate::exit::{End, Usage};
use crate::shown::{self, opened};
use anyhow::Result;
use command_line::{Explain, Global};
use results::Results;

/// Shows the findings of a run alone, or what a rule is.
pub fn explain(global: &Global, arguments: &Explain) -> Result<End> {
    if let Some(name) = &arguments.rule {
        let text = report::rules(name).map_err(Usage)?;
        terminal::lines(&report::within(&text, terminal::width()))?;
        return Ok(End::Done);
    }
    let notebook = opened(global, None)?;
    let id = notebook.find(arguments.run.as_deref().unwrap_or_default())?;
    let results = match &arguments.cell {
        Some(cell) => Results::load_cell(&notebook, &id, cell, terminal::warn)?,
        None => shown::load(&notebook, &id, None)?,
    };
    if global.json {
        terminal::json(&report::json(&results.report()))?;
    } else {
        let text = report::Wide(terminal::screen_width()).findings_text(&results.report());
        terminal::document(&[text, results.one_by_one()].concat())?;
    }
    Ok(End::Done)
}
