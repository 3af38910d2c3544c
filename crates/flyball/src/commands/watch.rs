//! `flyball watch`: a machine at work in the terminal, or a trial as it was.

use super::record::{end, recorded};
use crate::exit::{End, Usage};
use crate::interrupt::Interrupt;
use crate::places;
use crate::shown::{opened, trial_key};
use anyhow::Result;
use command_line::{Events, Global, Record, Server, Watch};
use machine::LocalMachine;
use machine::ledger::status;
use results::Playable;
use terminal::{Looking, Recorded};

/// Shows what this machine, a process or a command does while it is recorded, or plays a trial.
pub fn watch(global: &Global, arguments: &Watch) -> Result<End> {
    if global.json || !terminal::is_for_keys() {
        let instead = "to watch is to see it on a terminal, with keys; `flyball record` does without one, and `flyball show` has --json";
        return Err(Usage(instead.to_owned()).into());
    }
    match &arguments.run {
        Some(run) => play(global, arguments, run),
        None => look(global, arguments),
    }
}

fn look(global: &Global, arguments: &Watch) -> Result<End> {
    let state = places::state()?;
    let changed = || match status(&state, &LocalMachine) {
        Ok(status) => status.in_short(),
        Err(error) => vec![format!("not known: {error}")],
    };
    let program = places::this_program(global);
    let charset = terminal::charset(arguments.ascii);
    let looking = Looking::new(charset, &program, &changed);
    let record = Record {
        interval: Some(arguments.interval),
        events: Events::default(),
        out: None,
        duration: None,
        pid: arguments.pid,
        server: Server::default(),
        command: arguments.command.clone(),
    };
    let done = recorded(global, &record, Some(&looking), &|| {})?;
    looking.say_what_was_printed()?;
    if let Some(run) = &done.kept.run {
        terminal::say(format_args!("what was found: `{program} explain {run}`"));
        terminal::say(format_args!(
            "see it again: `{program} watch {run}`; all of it: `{program} show {run}`"
        ));
    }
    Ok(end(&done.ending))
}

fn play(global: &Global, arguments: &Watch, run: &str) -> Result<End> {
    let notebook = opened(global, None)?;
    let key = arguments.trial.as_deref().map(trial_key).transpose()?;
    let program = places::this_program(global);
    let playable = Playable::open(&notebook, &notebook.find(run)?, key.as_ref(), terminal::warn)?;
    let explain = format!("{program} explain {}", playable.trial.run);
    let interrupt = Interrupt::catch()?;
    terminal::play(
        &mut Recorded::of(playable, &program),
        terminal::charset(arguments.ascii),
        interrupt.flag(),
    )?;
    terminal::say(format_args!("what was found: `{explain}`"));
    Ok(End::Done)
}
