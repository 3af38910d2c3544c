//! `flyball record`: what this machine, a process or a command did, without a study.

use crate::exit::End;
use crate::interrupt::Interrupt;
use crate::{places, typed};
use anyhow::{Context, Result};
use command_line::{Global, Record};
use machine::supervise::{Supervisor, wait_for_the_end_of, watch_main};
use notebook::{Notebook, RecordingFolder};
use runner::following::{Ending, Watched};
use rustix::process::getppid;
use session::recordings::{Done, Place, RecordRequest, record as follow};
use std::io::{self, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

/// Records, and shows what was recorded.
pub fn record(global: &Global, arguments: &Record) -> Result<End> {
    let done = recorded(global, arguments, &|| {})?;
    show(global, &done)?;
    Ok(end(&done.ending))
}

/// How this program ends after a recording: as the command did, where that failed.
pub fn end(ending: &Ending) -> End {
    match ending.status {
        Some(status) if !status.success() => End::Child(code_of(status)),
        _ => End::Done,
    }
}

/// Records until what is recorded ends, the time is over, or somebody asks us to stop. `announce` is called
/// before the recording begins, once nothing that was asked for is known to be impossible.
pub fn recorded(global: &Global, arguments: &Record, announce: &dyn Fn()) -> Result<Done> {
    let interrupt = Interrupt::catch()?;
    let notebook = places::notebook(global)?;
    let request = RecordRequest {
        watched: Watched::of(arguments.pid, &arguments.command).map_err(session::Error::from)?,
        interval: arguments.interval,
        duration: arguments.duration,
        place: arguments.out.as_deref().map_or(Place::Notebook(&notebook), Place::Folder),
        typed: typed(),
        interrupt: interrupt.flag(),
    };
    let command = watching(global, arguments)?;
    let begin = || {
        announce();
        Ok(Supervisor::start(command)?)
    };
    Ok(follow(&request, begin)?)
}

fn show(global: &Global, done: &Done) -> Result<()> {
    let Done { recording, kept, .. } = done;
    if global.json {
        terminal::json(&results::recording_json(recording, kept.run.as_ref(), &kept.folder))?;
    } else {
        let folder = kept.folder.display().to_string();
        let place = kept.run.as_ref().map_or(folder, ToString::to_string);
        terminal::lines(&report::within(&results::recording_text(recording, place), terminal::width()))?;
    }
    if let Some(run) = &kept.run {
        let program = places::this_program(global);
        terminal::say(format_args!("show it: `{program} show {run}`; its page: `{program} report {run}`"));
    }
    Ok(())
}

/// The code that a shell gives to it: 128 and the number of the signal where one ended it.
fn code_of(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1)
}

/// This program once more, to end what is recorded should this process be killed, and to remove what was half
/// written. Dropped before it was told that all is done, it takes us for dead: what an error leaves running
/// is ended too.
fn watching(global: &Global, arguments: &Record) -> Result<Command> {
    let program = std::env::current_exe()
        .context("cannot find this program's own file, to watch over the recording")?;
    let mut command = Command::new(program);
    match &arguments.out {
        Some(folder) => command.arg("watch-recording").arg("--out").arg(places::absolute(folder)?),
        None => command
            .arg("--notebook")
            .arg(places::absolute(&places::notebook(global)?)?)
            .arg("watch-recording"),
    };
    Ok(command)
}

/// The watcher's own half.
pub fn watch(global: &Global, out: Option<&Path>) -> Result<End> {
    let recording = getppid();
    let Some(ended) = watch_main(BufReader::new(io::stdin()), terminal::verbatim())? else {
        return Ok(End::Done);
    };
    if ended > 0 {
        // Standard error is still the terminal of the one that died.
        terminal::note(format_args!(
            "flyball was killed while it recorded; ended what it recorded: {ended} processes"
        ));
    }
    wait_for_the_end_of(recording);
    match out {
        Some(folder) => RecordingFolder::sweep(folder)?,
        // Opening a notebook sweeps it.
        None => drop(Notebook::open(&places::notebook(global)?)?),
    }
    Ok(End::Done)
}
