//! `flyball tune`: settings that outlast a restart of the machine.

use crate::args::{Global, Tune};
use crate::exit::{End, Usage};
use crate::interrupt::Interrupt;
use crate::machine_lock::lock_machine;
use crate::{places, terminal};
use anyhow::{Result, bail};
use machine::lasting::{self, LastingContext, LastingRequest, LastingStatus, LocalFiles, Undone, Written};
use machine::{Ledger, LocalMachine};
use std::path::Path;

/// Makes settings last, or takes that back.
pub fn tune(global: &Global, arguments: &Tune) -> Result<End> {
    if let Some(finding) = &arguments.finding {
        return Err(usage(format!(
            "cannot tune the finding `{finding}`: measuring a remedy before and after is not there yet; apply it yourself with `flyball tune --set SETTING=VALUE --persist`"
        )));
    }
    if arguments.undo {
        return undo(global);
    }
    if arguments.set.is_empty() {
        return Err(usage(
            "nothing to tune: name a setting with --set SETTING=VALUE, or take all back with --undo".into(),
        ));
    }
    if !arguments.persist {
        return Err(usage(
            "cannot tune without --persist: measuring a change before and after, to keep it or not, is not there yet; keep it with --persist, or vary it in a study (`flyball run`)".into(),
        ));
    }
    persist(global, arguments)
}

fn usage(text: String) -> anyhow::Error {
    Usage(text).into()
}

fn persist(global: &Global, arguments: &Tune) -> Result<End> {
    let (state, roots) = (places::state()?, places::roots());
    let site = LastingContext { machine: &LocalMachine, files: &LocalFiles, roots: &roots, state: &state };
    let order = LastingRequest {
        requests: arguments.set.clone(),
        reason: arguments.comment.clone().unwrap_or_default(),
        ignore_rivals: arguments.ignore_rivals,
    };
    let made = if arguments.dry_run {
        lasting::plan(&site, &order)?
    } else {
        // From here on a signal only sets a flag: what follows takes moments.
        let _uninterrupted = Interrupt::catch()?;
        let _lock = lock_machine()?;
        let (ledger, report) = Ledger::open(&state, &LocalMachine).map_err(session::Error::of_machine)?;
        terminal::restored(&report);
        lasting::make(ledger, &site, &order)?
    };
    let written = if arguments.dry_run { Written::No } else { Written::Yes };
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

fn undo(global: &Global) -> Result<End> {
    let (state, roots) = (places::state()?, places::roots());
    let site = LastingContext { machine: &LocalMachine, files: &LocalFiles, roots: &roots, state: &state };
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
    let site = LastingContext { machine: &LocalMachine, files: &LocalFiles, roots: &roots, state };
    Ok(lasting::status(&site)?)
}
