//! `flyball explain`: the findings of a run, and the rules.

use crate::exit::{End, Usage};
use crate::places;
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
        let wide = report::Wide(terminal::screen_width());
        terminal::document(&wide.findings_text(&results.report(), &places::this_program(global)))?;
    }
    Ok(End::Done)
}
