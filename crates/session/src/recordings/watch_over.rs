//! The half of a recording that outlives it: where the process that records is killed, this one ends what it
//! recorded and removes what was half written.

use super::Place;
use crate::error::Result;
use machine::supervise::watch_main;
use notebook::{Notebook, RecordingFolder};
use rustix::process::{Pid, getppid};
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a killed process may take to close its files, and how often that is looked at.
const MAX_DYING: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);

/// The command of a watcher over a recording into this place, an absolute one; `program` is this program.
pub fn watcher(program: &Path, place: Place<'_>) -> Command {
    let mut command = Command::new(program);
    match place {
        Place::Folder(folder) => command.arg("watch-recording").arg("--out").arg(folder),
        Place::Notebook(folder) => command.arg("--notebook").arg(folder).arg("watch-recording"),
    };
    command
}

/// Watches over the recording of this process's parent until that is done or dead. Returns how many processes
/// had to be ended.
///
/// # Errors
/// Where what it left cannot be ended or removed.
pub fn watch_over(place: Place<'_>, input: impl BufRead, verbatim: impl Write) -> Result<usize> {
    let recording = getppid();
    let Some(ended) = watch_main(input, verbatim)? else { return Ok(0) };
    wait_for_the_end_of(recording);
    match place {
        Place::Folder(folder) => RecordingFolder::sweep(folder)?,
        // Opening a notebook sweeps it.
        Place::Notebook(folder) => drop(Notebook::open(folder)?),
    }
    Ok(ended)
}

/// Waits until a parent that is dying has closed its files.
///
/// The kernel closes one after the other, so the pipe may tell of its end while the parent still holds the
/// lock of what it has half written. Its children are given to another parent after that (kernel/exit.c).
fn wait_for_the_end_of(parent: Option<Pid>) {
    let deadline = Instant::now() + MAX_DYING;
    while getppid() == parent && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
}
