//! `flyball record`: what this machine, a process or a command did, without a study.

use crate::exit::End;
use crate::interrupt::Interrupt;
use crate::{places, typed};
use anyhow::{Context, Result};
use command_line::{Global, Record};
use machine::supervise::Supervisor;
use runner::following::Ending;
use session::recordings::{
    Done, Onlooker, Place, RecordRequest, find, record as follow, watch_over, watcher,
};
use std::io::{self, BufReader};
use std::path::Path;
use std::process::Command;

/// Records, and shows what was recorded.
pub fn record(global: &Global, arguments: &Record) -> Result<End> {
    let done = recorded(global, arguments, None, &|| {})?;
    show(global, &done)?;
    Ok(end(&done.ending))
}

/// How this program ends after a recording: as the command did, where that failed.
pub fn end(ending: &Ending) -> End {
    ending.failure().map_or(End::Done, End::Child)
}

/// Records until what is recorded ends, the time is over, or somebody asks us to stop. `announce` is called
/// before the recording begins, once nothing that was asked for is known to be impossible.
pub fn recorded(
    global: &Global,
    arguments: &Record,
    onlooker: Option<&dyn Onlooker>,
    announce: &dyn Fn(),
) -> Result<Done> {
    let interrupt = Interrupt::catch()?;
    let notebook = places::notebook(global)?;
    let (watched, server) = find(arguments.pid, &arguments.command, arguments.server.named())?;
    let request = RecordRequest {
        watched,
        server,
        interval: arguments.interval,
        events: arguments.events.sets.clone(),
        duration: arguments.duration,
        place: place(arguments.out.as_deref(), &notebook),
        typed: typed(),
        interrupt: interrupt.flag(),
        onlooker,
    };
    let command = watching(arguments.out.as_deref(), &notebook)?;
    let begin = || {
        announce();
        Ok(Supervisor::start(command)?)
    };
    Ok(follow(&request, begin)?)
}

fn show(global: &Global, done: &Done) -> Result<()> {
    let Done { recording, events, kept, .. } = done;
    if global.json {
        terminal::json(&results::recording_json(
            recording,
            events.as_ref(),
            kept.run.as_ref(),
            &kept.folder,
        ))?;
    } else {
        let folder = kept.folder.display().to_string();
        let place = kept.run.as_ref().map_or(folder, ToString::to_string);
        let text = results::recording_text(recording, events.as_ref(), place);
        terminal::lines(&report::within(&text, terminal::width()))?;
    }
    if let Some(run) = &kept.run {
        let program = places::this_program(global);
        terminal::say(format_args!("show it: `{program} show {run}`; its page: `{program} report {run}`"));
    }
    Ok(())
}

/// This program once more, to end what is recorded should this process be killed, and to remove what was half
/// written. Dropped before it was told that all is done, it takes us for dead: what an error leaves running
/// is ended too.
fn watching(out: Option<&Path>, notebook: &Path) -> Result<Command> {
    let program = std::env::current_exe()
        .context("cannot find this program's own file, to watch over the recording")?;
    let absolute = places::absolute(out.unwrap_or(notebook))?;
    Ok(watcher(&program, place(out.and(Some(&absolute)), &absolute)))
}

/// Where a recording goes: a folder where one is named, else the notebook.
pub fn place<'a>(out: Option<&'a Path>, notebook: &'a Path) -> Place<'a> {
    out.map_or(Place::Notebook(notebook), Place::Folder)
}

/// The watcher's own half.
pub fn watch(global: &Global, out: Option<&Path>) -> Result<End> {
    let notebook = places::notebook(global)?;
    let ended = watch_over(place(out, &notebook), BufReader::new(io::stdin()), terminal::verbatim())?;
    if ended > 0 {
        // Standard error is still the terminal of the one that died.
        terminal::note(format_args!(
            "flyball was killed while it recorded; ended what it recorded: {ended} processes"
        ));
    }
    Ok(End::Done)
}
