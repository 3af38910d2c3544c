//! `flyball inspect`.

use crate::exit::End;
use anyhow::{Context, Result};
use command_line::{Global, Inspect};
use machine::{LocalMachine, RecordedMachine};
use report::inventory::{Style, text_within};

/// Shows this machine, or a recorded one.
pub fn inspect(global: &Global, arguments: &Inspect) -> Result<End> {
    let inventory = match &arguments.root {
        Some(folder) => machine::inventory::take(&RecordedMachine::open(folder)?)?,
        None => machine::inventory::take(&LocalMachine)?,
    };
    if global.json {
        let text = serde_json::to_string_pretty(&inventory).context("cannot write the inventory as JSON")?;
        terminal::json(&text)?;
    } else {
        terminal::screen(&text_within(&inventory, Style::Full, terminal::width()))?;
    }
    Ok(End::Done)
}
