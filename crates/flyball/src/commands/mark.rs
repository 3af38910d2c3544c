//! `flyball mark`: a mark in recordings that go on.

use super::record::place;
use crate::exit::End;
use crate::places;
use anyhow::Result;
use command_line::{Global, Mark};

/// Marks the recording that this process runs in, where no other place is named; else those that go on there.
pub fn mark(global: &Global, arguments: &Mark) -> Result<End> {
    let is_named = arguments.out.is_some() || global.notebook.is_some();
    let own = places::marks().filter(|_| !is_named);
    let notebook = places::notebook(global)?;
    let place = place(arguments.out.as_deref(), &notebook);
    let count = session::recordings::mark(&arguments.name, own.as_deref(), place)?;
    if count > 1 {
        terminal::say(format_args!("marked {count} recordings that go on there"));
    }
    Ok(End::Done)
}
