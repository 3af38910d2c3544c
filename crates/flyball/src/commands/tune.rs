//! `flyball tune`: settings that outlast a restart of the machine, and how `flyball status` shows them.

use crate::args::{Global, Tune};
use crate::exit::{End, Usage};
use crate::interrupt::Interrupt;
use crate::machine_lock::lock_machine;
use crate::{places, terminal};
use anyhow::{Result, bail};
use domain::inert::Lines;
use machine::lasting::{
    self, Entry, FileState, LastingChanges, LastingContext, LastingRequest, LastingStatus, LocalFiles, Undone,
};
use machine::{Ledger, LocalMachine};
use serde_json::{Value, json};
use std::path::Path;

/// The version of the JSON form.
const SCHEMA: u32 = 1;

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
    if global.json {
        terminal::json(&made_as_json(&made, arguments.dry_run))?;
    } else {
        terminal::lines(&made_as_text(&made, arguments.dry_run))?;
    }
    made.notes.iter().for_each(terminal::note);
    Ok(End::Done)
}

fn made_as_text(made: &LastingChanges, dry_run: bool) -> Lines {
    let written = if dry_run { "would write" } else { "written" };
    let entry = |e: &Entry| {
        let old = e.old().map_or_else(|| "it is that already".to_owned(), |old| format!("was `{old}`"));
        let old = if e.only_at_boot { "the kernel takes it at boot alone".to_owned() } else { old };
        format!("{} = {} ({old}), kept by: {}", e.setting, e.new, e.method)
    };
    let mut lines: Lines = made.entries.iter().map(entry).collect();
    for file in &made.files {
        match &file.content {
            Some(content) if dry_run => {
                lines.line(format_args!("{written} {}:", file.path.display()));
                lines.extend(content.lines());
            }
            Some(_) => lines.line(format_args!("{written} {}", file.path.display())),
            None => lines.line(format_args!("not needed any more: {}", file.path.display())),
        }
    }
    lines
}

fn made_as_json(made: &LastingChanges, dry_run: bool) -> String {
    let files =
        made.files.iter().map(|f| json!({ "path": f.path, "vehicle": f.method, "content": f.content }));
    let value = json!({
        "schema": SCHEMA,
        "dry_run": dry_run,
        "settings": made.entries.iter().map(entry_as_json).collect::<Vec<_>>(),
        "files": files.collect::<Vec<_>>(),
        "notes": made.notes,
    });
    format!("{value:#}")
}

fn entry_as_json(entry: &Entry) -> Value {
    json!({
        "setting": entry.setting,
        "path": entry.path,
        "before": entry.old(),
        "value": entry.new,
        "vehicle": entry.method,
        "only_at_boot": entry.only_at_boot,
        "command_line": lasting::command_line_word(entry),
        "why": entry.reason,
        "when_ns": entry.when_ns,
    })
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
        terminal::json(&undone_as_json(&undone))?;
    } else {
        terminal::lines(&undone_as_text(&undone))?;
    }
    terminal::restored(&undone.report);
    undone.notes.iter().for_each(terminal::note);
    if undone.report.failed().next().is_some() {
        bail!("not every value could be put back; what is left is in the ledger now: run `flyball restore`");
    }
    let left = undone.report.foreign().next().is_some() || undone.files_left > 0;
    Ok(if left { End::LeftAlone } else { End::Done })
}

fn undone_as_text(undone: &Undone) -> Lines {
    if undone.removed.is_empty() && undone.report.undone.is_empty() && undone.files_left == 0 {
        return ["nothing lasts that Flyball changed"].into_iter().collect();
    }
    let restored = undone.report.restored().map(ToString::to_string);
    undone.removed.iter().map(|path| format!("removed {path}")).chain(restored).collect()
}

fn undone_as_json(undone: &Undone) -> String {
    let texts = |all: &mut dyn Iterator<Item = &machine::ledger::Undone>| {
        all.map(ToString::to_string).collect::<Vec<String>>()
    };
    let value = json!({
        "schema": SCHEMA,
        "removed": undone.removed,
        "restored": texts(&mut undone.report.restored()),
        "left_alone": texts(&mut undone.report.foreign()),
        "failed": texts(&mut undone.report.failed()),
        "notes": undone.notes,
    });
    format!("{value:#}")
}

/// The lasting changes in this state folder, held against the machine.
pub fn lasting(state: &Path) -> Result<LastingStatus> {
    let roots = places::roots();
    let site = LastingContext { machine: &LocalMachine, files: &LocalFiles, roots: &roots, state };
    Ok(lasting::status(&site)?)
}

/// For `status`; empty where nothing lasts.
pub fn drift_as_text(status: &LastingStatus) -> Lines {
    let mut lines = Lines::default();
    for (entry, drifts) in &status.entries {
        let why = if entry.reason.is_empty() { String::new() } else { format!(" ({})", entry.reason) };
        lines.line(format_args!("lasting: {} = {}, by {}{why}", entry.setting, entry.new, entry.method));
        lines.extend(drifts.iter().map(|drift| format!("  drift: {drift}")));
    }
    for (file, state) in &status.files {
        let path = file.path.display();
        match state {
            FileState::AsWritten => {}
            FileState::Gone => {
                lines.line(format_args!("drift: `{path}` is gone: nothing brings its values back at boot"));
            }
            FileState::Edited => lines.line(format_args!("drift: `{path}` is not as Flyball wrote it")),
        }
    }
    if status.unfinished {
        lines.line("note: a lasting change was cut short; `flyball restore` completes it");
    }
    lines
}

/// The same for `status --json`.
pub fn drift_as_json(status: &LastingStatus) -> Value {
    let entry = |(entry, drifts): &(Entry, Vec<lasting::Drift>)| {
        let mut value = entry_as_json(entry);
        value["drift"] = drifts.iter().map(ToString::to_string).collect();
        value
    };
    let file = |(file, state): &(lasting::OwnText, FileState)| {
        let state = match state {
            FileState::AsWritten => "as_written",
            FileState::Gone => "gone",
            FileState::Edited => "edited",
        };
        json!({ "path": file.path, "vehicle": file.method, "state": state })
    };
    json!({
        "settings": status.entries.iter().map(entry).collect::<Vec<_>>(),
        "files": status.files.iter().map(file).collect::<Vec<_>>(),
        "unfinished": status.unfinished,
    })
}
