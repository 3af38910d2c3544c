//! `flyball explain`: the findings of a run, and the rules.

use crate::exit::{End, Usage};
use crate::shown::{self, opened};
use anyhow::Result;
use command_line::{Explain, Global};

/// Shows the findings of a run alone, or what a rule is.
pub fn explain(global: &Global, arguments: &Explain) -> Result<End> {
    if let Some(name) = &arguments.rule {
        let text = report::rules(name).map_err(Usage)?;
        terminal::lines(&report::within(&text, terminal::width()))?;
        return Ok(End::Done);
    }
    let notebook = opened(global, None)?;
    let results =
        shown::load(&notebook, &notebook.find(arguments.run.as_deref().unwrap_or_default())?, None)?;
    if global.json {
        terminal::json(&report::json(&results.report()))?;
    } else {
        terminal::document(&report::Wide(terminal::screen_width()).findings_text(&results.report()))?;
    }
    Ok(End::Done)
}
