//! `flyball status`, `flyball restore`, and the supervisor's half of a run.

use crate::args::Global;
use crate::exit::End;
use crate::session::{busy, tell};
use crate::{places, put};
use anyhow::{Result, bail};
use machine::ledger::{PendingChange, Status, Undone, status as read_status};
use machine::settings::Error;
use machine::supervise::{Ending, supervise_main};
use machine::{Ledger, LocalMachine};
use serde_json::json;
use std::io::{self, BufReader};
use std::path::Path;

/// The version of the JSON form of `status`.
const SCHEMA: u32 = 1;

/// Shows what is changed now, who changed it, and what `restore` would do.
pub fn status(global: &Global) -> Result<End> {
    let status = read_status(&places::state()?, &LocalMachine)?;
    put(&if global.json { as_json(&status) } else { as_text(&status) })?;
    Ok(End::Done)
}

/// Puts everything back.
pub fn restore() -> Result<End> {
    let state = places::state()?;
    if !state.exists() {
        put("nothing was ever changed here")?;
        return Ok(End::Done);
    }
    machine::workload::end_orphans();
    let (_ledger, report) = Ledger::open(&state, &LocalMachine).map_err(busy)?;
    for undone in report.restored() {
        put(&undone.to_string())?;
    }
    tell(&report);
    if report.failed().next().is_some() {
        bail!("not everything could be put back; what is left stays in the ledger: see `flyball status`");
    }
    if report.undone.is_empty() {
        put("nothing is changed")?;
    }
    Ok(if report.foreign().next().is_some() { End::LeftAlone } else { End::Done })
}

/// Watches over the process at the other end of standard input.
pub fn supervise(state: &Path) -> Result<End> {
    let ending = match supervise_main(BufReader::new(io::stdin()), io::stdout(), state, &LocalMachine) {
        // Who was faster to take the lock has put everything back as the first thing it did.
        Err(Error::Busy { .. }) => return Ok(End::Done),
        other => other?,
    };
    if let Ending::Recovered { report, .. } = &ending {
        // Standard error is still the terminal of the one that died.
        report.restored().for_each(|undone| eprintln!("flyball was killed; {undone}"));
        tell(report);
    }
    Ok(End::Done)
}

fn as_text(status: &Status) -> String {
    let mut lines = Vec::new();
    match &status.holder {
        Some(holder) if holder.alive => {
            lines.push(format!("a Flyball is measuring here: process {}", holder.pid))
        }
        _ => {}
    }
    if status.changes.is_empty() {
        lines.push("nothing is changed".to_owned());
    }
    lines.extend(status.changes.iter().map(line));
    lines.extend(status.notes.iter().map(|note| format!("note: {note}")));
    lines.join("\n")
}

fn line(change: &PendingChange) -> String {
    match (&change.before, &change.asked) {
        (Some(before), Some(asked)) => {
            format!("{}: was `{before}`, written `{asked}`: `{}`", change.what, change.path)
        }
        _ => format!("{}: made by Flyball", change.what),
    }
}

fn as_json(status: &Status) -> String {
    let change = |c: &PendingChange| {
        let foreseen = Undone { what: c.what.clone(), path: c.path.clone(), fate: c.fate.clone() };
        json!({ "what": c.what, "path": c.path, "before": c.before, "asked": c.asked, "restore": foreseen.to_string() })
    };
    let holder = status.holder.as_ref().map(|h| json!({ "pid": h.pid, "alive": h.alive }));
    let value = json!({
        "schema": SCHEMA,
        "holder": holder,
        "changed": status.changes.iter().map(change).collect::<Vec<_>>(),
        "notes": status.notes,
    });
    format!("{value:#}")
}
