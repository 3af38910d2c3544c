//! `flyball restore`: undoes what is changed, now or at boot.

use crate::exit::End;
use crate::machine_lock::lock_machine;
use crate::places;
use anyhow::{Context, Result, bail};
use command_line::{Global, Restore};
use domain::inert::Lines;
use machine::LocalMachine;
use machine::boot;
use machine::ledger::RestoreReport;
use machine::recovery;
use std::path::{Path, PathBuf};

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
        terminal::json(&report.as_json())?;
    } else {
        terminal::lines(&report.in_words())?;
    }
    terminal::restored(&report);
    if let Some(left) = report.left() {
        bail!(left);
    }
    Ok(if report.foreign().next().is_some() { End::LeftAlone } else { End::Done })
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
