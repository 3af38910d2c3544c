//! `flyball tune`: settings that outlast a restart of the machine.

use super::tune_measured;
use crate::exit::{End, Usage};
use crate::interrupt::Interrupt;
use crate::machine_lock::lock_machine;
use crate::places;
use anyhow::{Result, bail};
use command_line::{Global, Tune};
use domain::setting::SettingRequest;
use machine::lasting::{
    self, LastingChanges, LastingContext, LastingRequest, LastingStatus, LocalFiles, Roots, Undone, Written,
};
use machine::{Ledger, LocalMachine};
use std::path::Path;

/// Measures a change and keeps it where it is better; makes settings last without that; or takes that back.
pub fn tune(global: &Global, arguments: &Tune) -> Result<End> {
    if arguments.undo {
        return undo(global);
    }
    if let Some(finding) = &arguments.finding {
        return tune_measured::finding(global, arguments, finding);
    }
    if arguments.search {
        return tune_measured::search_listed(global, arguments);
    }
    if arguments.set.is_empty() {
        return Err(usage("nothing to tune: name a setting with --set SETTING=VALUE, or undo with --undo"));
    }
    if !tune_measured::load_of(arguments).is_none() {
        return tune_measured::load(global, arguments, &arguments.set);
    }
    if !arguments.persist {
        return Err(usage(
            "nothing to do: measure the change by what it is for, `flyball tune --set SETTING=VALUE -- COMMAND` (or --pid, --server, --metric-command), or write it without that with --persist",
        ));
    }
    persist(global, arguments)
}

fn usage(text: &str) -> anyhow::Error {
    Usage(text.to_owned()).into()
}

/// Writes settings for good, or shows what would be written.
fn persist(global: &Global, arguments: &Tune) -> Result<End> {
    let (made, written) = match arguments.dry_run {
        true => (plan(arguments, &arguments.set)?, Written::No),
        false => (keep(arguments, &arguments.set)?, Written::Yes),
    };
    if global.json {
        terminal::json(&made.as_json(written))?;
    } else {
        terminal::lines(&made.as_text(written))?;
    }
    if arguments.dry_run {
        terminal::say(
            "nothing was written; without --dry-run it is, and `flyball tune --undo` takes it back",
        );
    }
    made.notes.iter().for_each(terminal::note);
    Ok(End::Done)
}

/// What keeping these settings would write, and where.
pub fn plan(arguments: &Tune, settings: &[SettingRequest]) -> Result<LastingChanges> {
    let (state, roots) = (places::state()?, places::roots());
    let site = site(&roots, &state);
    Ok(lasting::plan(&site, &order(arguments, settings))?)
}

/// Writes these settings for good.
pub fn keep(arguments: &Tune, settings: &[SettingRequest]) -> Result<LastingChanges> {
    let (state, roots) = (places::state()?, places::roots());
    let site = site(&roots, &state);
    // From here on a signal only sets a flag: what follows takes moments.
    let _uninterrupted = Interrupt::catch()?;
    let _lock = lock_machine()?;
    let (ledger, report) = Ledger::open(&state, &LocalMachine).map_err(session::Error::of_machine)?;
    terminal::restored(&report);
    Ok(lasting::make(ledger, &site, &order(arguments, settings))?)
}

fn site<'p>(roots: &'p Roots, state: &'p Path) -> LastingContext<'p> {
    LastingContext { machine: &LocalMachine, files: &LocalFiles, roots, state }
}

fn order(arguments: &Tune, settings: &[SettingRequest]) -> LastingRequest {
    LastingRequest {
        requests: settings.to_vec(),
        reason: arguments.comment.clone().unwrap_or_default(),
        ignore_rivals: arguments.ignore_rivals,
    }
}

fn undo(global: &Global) -> Result<End> {
    let (state, roots) = (places::state()?, places::roots());
    let site = site(&roots, &state);
    let undone = if state.exists() {
        let _uninterrupted = Interrupt::catch()?;
        let _lock = lock_machine()?;
        let (ledger, report) = Ledger::open(&state, &LocalMachine).map_err(session::Error::of_machine)?;
        terminal::restored(&report);
        lasting::undo(ledger, &site)?
    } else {
        Undone::default()
    };
    if global.json {
        terminal::json(&undone.as_json())?;
    } else {
        terminal::lines(&undone.as_text())?;
    }
    terminal::restored(&undone.report);
    undone.notes.iter().for_each(terminal::note);
    if undone.report.failed().next().is_some() {
        bail!("not every value could be put back; what is left is in the ledger now: run `flyball restore`");
    }
    let left = undone.report.foreign().next().is_some() || undone.files_left > 0;
    Ok(if left { End::LeftAlone } else { End::Done })
}

/// The lasting changes in this state folder, held against the machine.
pub fn lasting(state: &Path) -> Result<LastingStatus> {
    let roots = places::roots();
    Ok(lasting::status(&site(&roots, state))?)
}
