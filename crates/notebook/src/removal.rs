//! Removing runs, and what they take.
//!
//! A run goes by one rename into the staging folder, so that it is there whole or not at all, whenever this
//! program is killed. No link is followed, and nothing outside the notebook is touched.

use crate::error::{Error, Result};
use crate::notebook::{Notebook, check_name};
use crate::run_folder::RunFolder;
use domain::ids::RunId;
use domain::trial::Run;
use domain::units::Bytes;
use files::staging::StagingDir;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What `st_blocks` counts in, whatever the file system's own blocks are (stat(2)).
const BLOCK: u64 = 512;

impl Notebook {
    /// Removes a run for good, also one that cannot be read.
    ///
    /// # Errors
    /// [`Error::RunBusy`] where a process measures it; [`Error::NoSuchRun`]; where its folder is a link, or
    /// cannot be removed.
    pub fn remove_run(&self, id: &RunId) -> Result<()> {
        check_name(&id.0)?;
        self.check_writable()?;
        let folder = self.run_folder(id);
        self.check_own_folder(id, &folder)?;
        // Held until the folder is gone, so that nobody begins to measure what is being removed.
        let _lock = RunFolder::lock(&folder, id)?;
        Ok(StagingDir::take(&self.staging(), "removed", &folder)?.remove()?)
    }

    /// Whether a run of this id stands here, be it one that cannot be read.
    pub fn has_run(&self, id: &RunId) -> bool {
        check_name(&id.0).is_ok() && is_folder(&self.run_folder(id))
    }

    /// Whether a process measures this run now.
    ///
    /// # Errors
    /// Where its lock cannot be looked at.
    pub fn is_measured(&self, id: &RunId) -> Result<bool> {
        match RunFolder::lock(&self.run_folder(id), id) {
            Ok(_) => Ok(false),
            Err(Error::RunBusy { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// What a run takes on the disk. What vanishes meanwhile counts as nothing.
    ///
    /// # Errors
    /// Where its folder cannot be listed.
    pub fn run_size(&self, id: &RunId) -> Result<Bytes> {
        check_name(&id.0)?;
        let folder = self.run_folder(id);
        self.check_own_folder(id, &folder)?;
        Ok(Bytes::new(taken_below(&folder)?))
    }

    /// Those of `runs` that were never finished and that no later `run` would go on with, since a newer run
    /// of the same study on the same machine has begun. `runs` are the notebook's, newest first.
    pub fn abandoned<'r>(&self, runs: &'r [Run]) -> Vec<&'r Run> {
        let newer = |at: usize, run: &Run| {
            runs[..at].iter().any(|other| other.study == run.study && other.machine == run.machine)
        };
        let abandoned = runs.iter().enumerate().filter(|(at, run)| run.finished.is_none() && newer(*at, run));
        abandoned.map(|(_, run)| run).collect()
    }

    fn check_own_folder(&self, id: &RunId, folder: &Path) -> Result<()> {
        match fs::symlink_metadata(folder) {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(Error::damaged(
                folder,
                "it is a link or no folder, and not of this program; look at it and remove it by hand",
            )),
            Err(_) => Err(self.no_such_run(&id.0, "there is none of this name".to_owned())),
        }
    }
}

fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// The blocks of a folder and of all that is in it, links as themselves.
fn taken_below(folder: &Path) -> Result<u64> {
    let mut sum = fs::symlink_metadata(folder).map_or(0, |metadata| taken(&metadata));
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        other => other.map_err(Error::io("list", folder))?,
    };
    for entry in entries {
        let path = entry.map_err(Error::io("list", folder))?.path();
        sum += match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => taken_below(&path)?,
            Ok(metadata) => taken(&metadata),
            Err(_) => 0,
        };
    }
    Ok(sum)
}

fn taken(metadata: &Metadata) -> u64 {
    metadata.blocks() * BLOCK
}
