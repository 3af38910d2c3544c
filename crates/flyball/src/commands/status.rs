//! `flyball status`: what is changed now.

use super::tune;
use crate::exit::End;
use crate::places;
use anyhow::{Result, bail};
use command_line::Global;
use domain::inert::Lines;
use machine::LocalMachine;
use machine::lasting::LastingStatus;
use machine::ledger::{PendingChange, Status, Undone, status as read_status};
use serde_json::json;

/// The version of its JSON form.
const SCHEMA: u32 = 1;

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
        terminal::json(&as_json(&status, &lasting))?;
    } else {
        let mut text = as_text(&status);
        text.append(&lasting.as_text());
        terminal::lines(&text)?;
    }
    if status.problems.is_empty() { Ok(End::Done) } else { bail!(status.problems.join("; ")) }
}

fn as_text(status: &Status) -> Lines {
    let mut lines = Lines::default();
    match &status.holder {
        Some(holder) if holder.alive => {
            lines.line(format_args!("a Flyball is measuring here: process {0}; wait for it, or end it with `kill -INT {0}`: it puts back what is changed", holder.pid));
        }
        _ => {}
    }
    match (status.changes.is_empty(), status.problems.is_empty()) {
        (true, true) => lines.line("nothing is changed"),
        (true, false) => lines.line("nothing that is known is changed"),
        (false, _) => {}
    }
    lines.extend(status.changes.iter().map(line));
    lines
}

fn line(change: &PendingChange) -> String {
    match (&change.before, &change.asked) {
        (Some(before), Some(asked)) => {
            format!("{}: was `{before}`, written `{asked}`: `{}`", change.what, change.path)
        }
        _ => format!("{}: made by Flyball", change.what),
    }
}

fn as_json(status: &Status, lasting: &LastingStatus) -> String {
    let change = |c: &PendingChange| {
        let foreseen = Undone { what: c.what.clone(), path: c.path.clone(), outcome: c.outcome.clone() };
        json!({ "what": c.what, "path": c.path, "before": c.before, "asked": c.asked, "restore": foreseen.to_string() })
    };
    let holder = status.holder.as_ref().map(|h| json!({ "pid": h.pid, "alive": h.alive }));
    let value = json!({
        "schema": SCHEMA,
        "holder": holder,
        "changed": status.changes.iter().map(change).collect::<Vec<_>>(),
        "lasting": lasting.as_json(),
        "notes": status.problems,
    });
    format!("{value:#}")
}
