//! `flyball explain`: the findings of a run.

use crate::exit::End;
use crate::shown::{self, opened};
use anyhow::Result;
use command_line::{Explain, Global};

/// Shows the findings of a run alone.
pub fn explain(global: &Global, arguments: &Explain) -> Result<End> {
    let notebook = opened(global, None)?;
    let results = shown::load(&notebook, &notebook.find(&arguments.run)?, None)?;
    if global.json {
        terminal::json(&report::json(&results.report()))?;
    } else {
        terminal::document(&report::Wide(terminal::screen_width()).findings_text(&results.report()))?;
    }
    Ok(End::Done)
}
