//! A recording: what `flyball record` keeps of a machine, or of one command, without a study.

use crate::error::{Error, Result};
use crate::notebook::Notebook;
use crate::reading::{self, Problem};
use crate::record;
use crate::run_folder::EVENTS;
use crate::trace::{TraceReader, TraceSink};
use domain::calls::Calls;
use domain::order;
use domain::outcome::Metric;
use domain::phase::Phase;
use domain::profile::Profile;
use domain::spent::Spent;
use domain::time::{Nanos, Timestamp};
use domain::trace::Role;
use domain::trial::{DiskTotals, RecorderReport, ThreadTime};
use domain::windows::GovernorWindows;
use files::durable::{self, Permissions};
use files::staging::{self, StagingDir};
use files::trust;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is known of a recording besides its trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// Its name, which is its folder's.
    pub name: String,
    /// Which machine: a digest of what identifies it (see `machine::identity`).
    pub machine: String,
    /// When it began.
    pub started: Timestamp,
    /// The command that was recorded; `None` where the machine was, until somebody stopped it.
    pub command: Option<Vec<String>>,
    /// The command's exit code; `None` where there was no command, or a signal ended it.
    pub exit_code: Option<i32>,
    /// What else decides what was seen, by short names; as in a trial.
    pub environment: BTreeMap<String, String>,
    /// What it says as a whole: of its trace, and of a server that was watched.
    pub metrics: BTreeMap<String, Metric>,
    /// What is to be said of its figures.
    pub warnings: Vec<String>,
    /// How long it took, on a monotonic clock.
    pub duration: Nanos,
    /// CPU time by role, zeros left out.
    pub roles: BTreeMap<Role, Nanos>,
    /// The threads that used most CPU time, most first.
    pub threads: Vec<ThreadTime>,
    /// Block devices that did anything.
    pub disks: Vec<DiskTotals>,
    /// What CPU time was spent in, where call stacks were sampled.
    pub profile: Option<Profile>,
    /// How busy CPUs were between two samples of their governor, where events were recorded and each CPU has
    /// a governor of its own that decides by that.
    pub windows: Option<GovernorWindows>,
    /// What threads spent their time on, by role; empty where no switches were recorded.
    pub spent: BTreeMap<Role, Spent>,
    /// System calls and what filesystems made of them; `None` where they were not recorded.
    pub calls: Option<Calls>,
    /// What was done from one mark to the next; empty where nobody marked anything.
    pub phases: Vec<Phase>,
    /// The recorder's own account.
    pub recorder: RecorderReport,
}

impl Recording {
    /// Reads the recording in a folder, and its trace where something was sampled.
    ///
    /// # Errors
    /// Where either cannot be read.
    pub fn open(folder: &Path) -> Result<(Self, Option<TraceReader>)> {
        let recording = record::read_recording(&folder.join("recording.json"))?;
        Ok((recording, TraceReader::open_if_there(&folder.join("trace.parquet"))?))
    }
}

/// A recording that is being made, in a staging folder. Dropped without [`RecordingFolder::commit`], it
/// leaves nothing.
#[derive(Debug)]
pub struct RecordingFolder {
    staged: StagingDir,
    sink: TraceSink,
    target: PathBuf,
    /// Dropped after `staged`, which is in it.
    own_staging: Option<OwnStaging>,
}

/// The staging folder of a recording outside any notebook; removed when the recording is done.
#[derive(Debug)]
struct OwnStaging(PathBuf);

impl Drop for OwnStaging {
    fn drop(&mut self) {
        // Another recording beside this one may still be using it; then the last of them removes it.
        let _ = staging::remove_if_empty(&self.0);
    }
}

impl RecordingFolder {
    /// Begins a recording in a folder of its own outside any notebook: `--out DIR`. It is written beside it,
    /// in a folder that is removed when it is done.
    ///
    /// # Errors
    /// Where `folder` is there and not empty, or its parent cannot be written.
    pub fn at(folder: &Path) -> Result<Self> {
        if rustix::process::geteuid().is_root() {
            trust::check_folder_of(folder).map_err(|why| Error::foreign(folder, why))?;
        }
        if let Ok(mut entries) = std::fs::read_dir(folder)
            && entries.next().is_some()
        {
            return Err(Error::Exists { path: folder.to_owned() });
        }
        // What cannot be swept takes room, and is no reason not to record.
        let _ = Self::sweep(folder);
        let staging = staging_of(folder);
        let begun = Self::begin(&staging, folder.to_owned())?;
        Ok(Self { own_staging: Some(OwnStaging(staging)), ..begun })
    }

    /// Removes what recordings into `folder` that were killed left beside it.
    ///
    /// # Errors
    /// Where it is there and cannot be removed.
    pub fn sweep(folder: &Path) -> Result<()> {
        let staging = staging_of(folder);
        if !holds_recordings_alone(&staging) {
            return Ok(());
        }
        staging::sweep(&staging)?;
        Ok(staging::remove_if_empty(&staging)?)
    }

    pub(crate) fn begin(staging: &Path, target: PathBuf) -> Result<Self> {
        if target.join("recording.json").exists() {
            return Err(Error::Exists { path: target });
        }
        let staged = StagingDir::begin(staging, "recording")?;
        durable::make_folder(&staged.folder().join("raw"))?;
        let sink = TraceSink::new(staged.folder().join("trace.parquet"));
        Ok(Self { staged, sink, target, own_staging: None })
    }

    /// That of [`RecordingFolder::raw_dir`] of each recording that is being written to `folder`, or was when
    /// its writer died.
    pub fn underway(folder: &Path) -> Vec<PathBuf> {
        let begun = staging::begun(&staging_of(folder), "recording").into_iter();
        begun.map(|folder| folder.join("raw")).collect()
    }

    /// The folder for whatever else is to be kept: the command's output.
    pub fn raw_dir(&self) -> PathBuf {
        self.staged.folder().join("raw")
    }

    /// The file for events, beside the trace.
    pub fn events_file(&self) -> PathBuf {
        self.staged.folder().join(EVENTS)
    }

    /// Where the trace goes.
    pub fn sink(&mut self) -> &mut TraceSink {
        &mut self.sink
    }

    /// Stores the recording, durably, and gives its folder.
    ///
    /// # Errors
    /// Where one of this name is there already, the trace is not whole, or the disk is full.
    pub fn commit(self, recording: &Recording) -> Result<PathBuf> {
        let Self { staged, sink, target, own_staging: _own_staging } = self;
        sink.close()?;
        let text = record::recording_text(recording);
        durable::write_new(&staged.folder().join("recording.json"), &text, Permissions::Plain)?;
        staged.publish(&target)?;
        Ok(target)
    }
}

fn staging_of(folder: &Path) -> PathBuf {
    let mut staging = folder.as_os_str().to_owned();
    staging.push(".staging");
    PathBuf::from(staging)
}

/// Whether a folder is there and has only what recordings make in it: one of somebody else's that happens to
/// be called so is left alone.
fn holds_recordings_alone(staging: &Path) -> bool {
    let is_folder = std::fs::symlink_metadata(staging).is_ok_and(|metadata| metadata.is_dir());
    let Ok(mut entries) = std::fs::read_dir(staging) else { return false };
    is_folder
        && entries.all(|entry| entry.is_ok_and(|e| e.file_name().to_str().is_some_and(is_of_a_recording)))
}

/// `.lock`, `recording-4711-0.part`, `recording-4711-0.part.lock`.
fn is_of_a_recording(name: &str) -> bool {
    let numbers = name.strip_prefix("recording-").and_then(|rest| {
        rest.strip_suffix(".part").or_else(|| rest.strip_suffix(".part.lock"))?.split_once('-')
    });
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    name == ".lock" || numbers.is_some_and(|(pid, n)| is_number(pid) && is_number(n))
}

impl Notebook {
    /// The recordings, newest first, and what could not be read.
    ///
    /// # Errors
    /// Where the folder cannot be listed.
    pub fn recordings(&self) -> Result<(Vec<Recording>, Vec<Problem>)> {
        let mut recordings = Vec::new();
        let mut problems = Vec::new();
        for (_, folder) in reading::folders(&self.recordings_folder(), &mut problems)? {
            match record::read_recording(&folder.join("recording.json")) {
                Ok(recording) => recordings.push(recording),
                Err(e) => problems.push(Problem::new(&folder, &e)),
            }
        }
        order::by(&mut recordings, |a, b| (b.started, &b.name).cmp(&(a.started, &a.name)));
        Ok((recordings, problems))
    }

    /// The trace of a recording; `None` where nothing was sampled.
    ///
    /// # Errors
    /// Where there is one that cannot be read.
    pub fn recording_trace(&self, name: &str) -> Result<Option<TraceReader>> {
        TraceReader::open_if_there(&self.recordings_folder().join(name).join("trace.parquet"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_the_dead_left_beside_a_recording_is_swept_and_nobody_elses_folder_is() {
        let root = tempfile::tempdir().unwrap();
        let (out, staging) = (root.path().join("out"), root.path().join("out.staging"));
        let leave = || {
            fs::create_dir_all(staging.join("recording-1-0.part/raw")).unwrap();
            fs::write(staging.join("recording-1-0.part.lock"), "").unwrap();
            fs::write(staging.join(".lock"), "").unwrap();
        };
        leave();
        drop(RecordingFolder::at(&out).unwrap());
        assert!(!staging.exists());
        leave();
        let living = RecordingFolder::begin(&staging, out.clone()).unwrap();
        RecordingFolder::sweep(&out).unwrap();
        assert!(living.raw_dir().exists() && !staging.join("recording-1-0.part").exists());
        drop(living);
        for others in ["film.part", "recording-1-0.part/../notes", "recording-x-0.part"] {
            leave();
            fs::create_dir_all(staging.join(others)).unwrap();
            RecordingFolder::sweep(&out).unwrap();
            assert!(staging.join(others).exists() && staging.join("recording-1-0.part").exists(), "{others}");
            fs::remove_dir_all(&staging).unwrap();
        }
    }
}
