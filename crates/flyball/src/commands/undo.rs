//! `flyball status`, `flyball restore`, and the supervisor's half of a run.

use super::tune;
use crate::args::{Global, Restore};
use crate::exit::End;
use crate::machine_lock::lock_machine;
use crate::{places, terminal};
use anyhow::{Context, Result, bail};
use domain::inert::Lines;
use machine::LocalMachine;
use machine::boot;
use machine::lasting::LastingStatus;
use machine::ledger::{PendingChange, RestoreReport, Status, Undone, status as read_status};
use machine::recovery;
use machine::settings::Error;
use machine::supervise::{Ending, supervise_main};
use serde_json::json;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// The version of the JSON forms of `status` and `restore`.
const SCHEMA: u32 = 1;

/// Shows what is changed now, who changed it, and what `restore` would do; what of it is not known is an error in the end.
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
        text.append(&tune::drift_as_text(&lasting));
        terminal::lines(&text)?;
    }
    if status.problems.is_empty() { Ok(End::Done) } else { bail!(status.problems.join("; ")) }
}

/// Puts everything back, or sees to it that this happens at boot.
pub fn restore(global: &Global, arguments: &Restore) -> Result<End> {
    if arguments.install || arguments.uninstall {
        return service(arguments);
    }
    let state = places::state()?;
    let report = if state.exists() {
        let _lock = lock_machine()?;
        recovery::recover(&state, &LocalMachine).map_err(session::Error::of_machine)?.1
    } else {
        RestoreReport::default()
    };
    if global.json {
        terminal::json(&restored_as_json(&report))?;
    } else {
        terminal::lines(&restored_as_text(&report))?;
    }
    terminal::restored(&report);
    refuse_what_is_left(&report)?;
    Ok(if report.foreign().next().is_some() { End::LeftAlone } else { End::Done })
}

/// An error where something is still changed, or may be.
fn refuse_what_is_left(report: &RestoreReport) -> Result<()> {
    let mut left = Vec::new();
    if report.failed().next().is_some() {
        left.push(
            "not everything could be put back; what is left stays in the ledger: see `flyball status`"
                .to_owned(),
        );
    }
    if !report.damage.is_empty() {
        let damage = report.damage.join("; ");
        left.push(format!("what is known was undone, and more may be changed: {damage}"));
    }
    if left.is_empty() { Ok(()) } else { bail!(left.join("; ")) }
}

/// Installs or removes the service that restores at boot.
fn service(arguments: &Restore) -> Result<End> {
    let roots = places::roots();
    if arguments.uninstall {
        let removed = boot::uninstall(&roots)?;
        if removed.is_empty() {
            terminal::line("the service is not installed")?;
        } else {
            terminal::lines(&lines("removed", &removed))?;
        }
        return Ok(End::Done);
    }
    let program = std::env::current_exe().context("cannot find where this program lies")?;
    let written = boot::install(&roots, &program, &places::absolute(&places::state()?)?)?;
    terminal::lines(&lines("wrote", &written))?;
    Ok(End::Done)
}

fn lines(what: &str, paths: &[PathBuf]) -> Lines {
    paths.iter().map(|path| format!("{what} {}", path.display())).collect()
}

fn restored_as_text(report: &RestoreReport) -> Lines {
    if report.undone.is_empty() {
        let all = report.damage.is_empty();
        let line = if all { "nothing is changed" } else { "nothing that is known is changed" };
        return [line].into_iter().collect();
    }
    report.restored().collect()
}

fn restored_as_json(report: &RestoreReport) -> String {
    let all =
        |undone: &mut dyn Iterator<Item = &Undone>| undone.map(ToString::to_string).collect::<Vec<String>>();
    let value = json!({
        "schema": SCHEMA,
        "restored": all(&mut report.restored()),
        "left_alone": all(&mut report.foreign()),
        "failed": all(&mut report.failed()),
        "notes": report.notes,
        "damage": report.damage,
    });
    format!("{value:#}")
}

/// Watches over the process at the other end of standard input.
pub fn supervise(state: &Path) -> Result<End> {
    let ending = match supervise_main(BufReader::new(io::stdin()), terminal::verbatim(), state, &LocalMachine)
    {
        // Who was faster to take the lock has put everything back as the first thing it did.
        Err(Error::Busy { .. }) => return Ok(End::Done),
        other => other?,
    };
    if let Ending::Recovered { report, .. } = &ending {
        // Standard error is still the terminal of the one that died.
        report.restored().for_each(|undone| terminal::say(format_args!("flyball was killed; {undone}")));
        terminal::restored(report);
    }
    Ok(End::Done)
}

fn as_text(status: &Status) -> Lines {
    let mut lines = Lines::default();
    match &status.holder {
        Some(holder) if holder.alive => {
            lines.line(format_args!("a Flyball is measuring here: process {}", holder.pid));
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
        let foreseen = Undone { what: c.what.clone(), path: c.path.clone(), fate: c.fate.clone() };
        json!({ "what": c.what, "path": c.path, "before": c.before, "asked": c.asked, "restore": foreseen.to_string() })
    };
    let holder = status.holder.as_ref().map(|h| json!({ "pid": h.pid, "alive": h.alive }));
    let value = json!({
        "schema": SCHEMA,
        "holder": holder,
        "changed": status.changes.iter().map(change).collect::<Vec<_>>(),
        "lasting": tune::drift_as_json(lasting),
        "notes": status.problems,
    });
    format!("{value:#}")
}
