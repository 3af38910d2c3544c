//! `flyball restore`: undoes what is changed, now or at boot.

use crate::exit::End;
use crate::machine_lock::lock_machine;
use crate::places;
use anyhow::{Context, Result, bail};
use command_line::{Global, Restore};
use domain::inert::Lines;
use machine::LocalMachine;
use machine::boot;
use machine::ledger::{RestoreReport, Undone};
use machine::recovery;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The version of its JSON form.
const SCHEMA: u32 = 1;

/// Puts everything back, or sees to it that this happens at boot.
pub fn restore(global: &Global, arguments: &Restore) -> Result<End> {
    if let Some(program) = &arguments.print_unit {
        let unit = boot::packaged(&places::absolute(program)?, Path::new(places::STATE_OF_ROOT))?;
        terminal::document(&unit)?;
        return Ok(End::Done);
    }
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
