//! Marks in recordings that go on, and in trials of studies.

use super::Place;
use crate::error::{Error, Result};
use notebook::{Notebook, RecordingFolder};
use runner::marks::{self, DESCRIPTOR_VARIABLE};
use std::fs::File;
use std::path::Path;

/// Marks the recording whose pipe this is, else all that go on into this place; gives how many were marked.
///
/// # Errors
/// Where nothing is recorded there, or the recording has just ended.
pub fn mark(name: &str, pipe: Option<&Path>, place: Place<'_>) -> Result<usize> {
    let found = match pipe {
        Some(pipe) => vec![of_this_process(pipe)?],
        None => underway(place)?,
    };
    let count = found.len();
    for pipe in found {
        marks::mark(pipe, name).map_err(Error::during("cannot mark the recording, which has just ended"))?;
    }
    Ok(count)
}

fn of_this_process(pipe: &Path) -> Result<File> {
    let shown = pipe.display();
    let opened = marks::open(pipe).map_err(Error::during(format!(
        "cannot mark by `{shown}`; who may not open it writes a line to the descriptor ${DESCRIPTOR_VARIABLE}"
    )))?;
    opened
        .ok_or_else(|| Error::Refused(format!("cannot mark: the recording that `{shown}` was of has ended")))
}

/// The pipes of the recordings and trials that go on into this place. A trial in the lab has its own within
/// the machine.
fn underway(place: Place<'_>) -> Result<Vec<File>> {
    let folders = match place {
        Place::Folder(folder) => RecordingFolder::underway(folder),
        Place::Notebook(folder) => Notebook::open(folder)?.underway(),
    };
    // One whose writer has died meanwhile has no pipe, or one that nobody reads.
    let found: Vec<File> =
        folders.iter().filter_map(|folder| marks::of_recording(folder).ok().flatten()).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    Err(Error::Refused(match place {
        Place::Folder(folder) => {
            format!("cannot mark: nothing is being recorded into `{}`", folder.display())
        }
        Place::Notebook(folder) => format!(
            "cannot mark: nothing is being recorded into the notebook `{}`, and no trial of a study runs on this host for it; begin with `flyball record`, or name the place of a recording by --notebook or --out",
            folder.display()
        ),
    }))
}
