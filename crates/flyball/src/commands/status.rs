//! `flyball status`: what is changed now.

use super::tune;
use crate::exit::End;
use crate::places;
use anyhow::{Result, bail};
use command_line::Global;
use machine::LocalMachine;
use machine::lasting::LastingStatus;
use machine::ledger::status as read_status;

/// Shows what is changed now, who changed it, and what `restore` would do; what of it is not known is an
/// error in the end.
pub fn status(global: &Global) -> Result<End> {
    let state = places::state()?;
    let mut status = read_status(&state, &LocalMachine)?;
    let lasting = tune::lasting(&state).unwrap_or_else(|error| {
        status.problems.push(format!("{error:#}"));
        LastingStatus::default()
    });
    if global.json {
        terminal::json(&status.as_json(&lasting.as_json()))?;
    } else {
        let mut text = status.as_text();
        text.append(&lasting.as_text());
        terminal::lines(&text)?;
    }
    if status.problems.is_empty() { Ok(End::Done) } else { bail!(status.problems.join("; ")) }
}
