//! A run while it is measured, and one trial of it while it is written.

use crate::error::{Error, Result};
use crate::notebook::{Notebook, check_name};
use crate::reading::Problem;
use crate::record;
use crate::trace::TraceSink;
use domain::ids::{CellId, RunId, TrialKey};
use domain::inventory::Storage;
use domain::time::Timestamp;
use domain::trial::{Run, Trial};
use files::durable::{self, Permissions};
use files::lock::{self, Lock};
use files::own::{self, Access};
use files::staging::StagingDir;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

const TRIAL: &str = "trial.json";
const SCRIPT: &str = "reproduce.sh";
pub(crate) const TRACE: &str = "trace.parquet";
/// What the kernel's tracepoints told, where they were recorded (the crate `events` reads it).
pub(crate) const EVENTS: &str = "events.bin";
/// The machine's storage during the trial, where the study built some.
pub(crate) const STORAGE: &str = "storage.json";
/// The folder of what the tool wrote itself.
pub(crate) const RAW: &str = "raw";
/// What the name of a trial's staging folder begins with.
pub(crate) const TRIAL_STAGED: &str = "trial";
/// Which cells this machine cannot run; absent where there is none.
pub(crate) const SKIPPED: &str = "skipped.json";

/// A run that this process measures. Nobody else can, until this is dropped or the process ends, however it
/// ends.
#[derive(Debug)]
pub struct RunFolder {
    notebook: Notebook,
    run: Run,
    _lock: Lock,
}

impl RunFolder {
    pub(crate) const LOCK: &str = ".lock";

    pub(crate) fn new(notebook: Notebook, run: Run, lock: Lock) -> Self {
        Self { notebook, run, _lock: lock }
    }

    /// Takes the lock of the run in `folder`, or says who holds it.
    pub(crate) fn lock(folder: &Path, id: &RunId) -> Result<Lock> {
        let path = folder.join(Self::LOCK);
        match Lock::try_take(&path)? {
            Some(mut lock) => {
                lock.sign(&path, &std::process::id().to_string())?;
                Ok(lock)
            }
            None => Err(Error::RunBusy { run: id.0.clone(), pid: holder_once_signed(&path) }),
        }
    }

    /// The run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.notebook.run_folder(&self.run.id)
    }

    /// Its trials so far, in the order in which they were measured, and what could not be read.
    ///
    /// # Errors
    /// Where the run's folder cannot be listed.
    pub fn trials(&self) -> Result<(Vec<Trial>, Vec<Problem>)> {
        self.notebook.trials(&self.run.id)
    }

    /// Keeps a log beside the trials: what a lab machine's kernel printed.
    ///
    /// # Errors
    /// Where it is there already, or cannot be written.
    pub fn keep_log(&self, name: &str, text: &str) -> Result<()> {
        check_name(name)?;
        let folder = self.path().join("logs");
        durable::make_folder(&folder)?;
        Ok(durable::write_new(&folder.join(name), text, Permissions::Plain)?)
    }

    /// Notes cells that this machine cannot run, and why, beside those that were noted before.
    ///
    /// # Errors
    /// Where its file cannot be read or written.
    pub fn note_skipped(&self, cells: &BTreeMap<CellId, String>) -> Result<()> {
        let mut all = self.notebook.skipped(&self.run.id)?;
        all.extend(cells.iter().map(|(cell, why)| (cell.clone(), why.clone())));
        let text = record::skipped_text(&all);
        Ok(durable::replace(&self.path().join(SKIPPED), text.as_bytes(), Permissions::Plain)?)
    }

    /// Forgets which cells could not be run: they are tried again.
    ///
    /// # Errors
    /// [`Error::Newer`] where a newer version of this program wrote the note: it may say more than which
    /// cells were left out. Where it cannot be removed.
    pub fn forget_skipped(&self) -> Result<()> {
        if let Err(error @ Error::Newer { .. }) = self.notebook.skipped(&self.run.id) {
            return Err(error);
        }
        let path = self.path().join(SKIPPED);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Begins to write a trial.
    ///
    /// # Errors
    /// Where the trial is there already, or the notebook cannot be written.
    pub fn begin(&self, key: &TrialKey) -> Result<Staging> {
        check_name(&key.folder())?;
        let target = self.path().join("trials").join(key.folder());
        // Asked here as well, so that nobody measures for minutes what cannot be stored. An empty folder is
        // not a trial: the rename replaces it.
        if target.join(TRIAL).exists() {
            return Err(Error::Exists { path: target });
        }
        let staged = StagingDir::begin(&self.notebook.staging(), TRIAL_STAGED)?;
        durable::make_folder(&staged.folder().join(RAW))?;
        let sink = TraceSink::new(staged.folder().join(TRACE));
        Ok(Staging { run: self.run.id.clone(), key: key.clone(), staged, sink, target })
    }

    /// Marks the run as finished: nothing is missing of it.
    ///
    /// # Errors
    /// Where its file cannot be written.
    pub fn finish(&mut self, finished: Timestamp) -> Result<()> {
        let run = Run { finished: Some(finished), ..self.run.clone() };
        durable::replace(
            &self.path().join("run.json"),
            record::run_text(&run).as_bytes(),
            Permissions::Plain,
        )?;
        self.run = run;
        Ok(())
    }
}

/// A trial that is being measured, in a staging folder. Dropped without [`Staging::commit`], it leaves
/// nothing.
#[derive(Debug)]
pub struct Staging {
    run: RunId,
    key: TrialKey,
    staged: StagingDir,
    sink: TraceSink,
    target: PathBuf,
}

impl Staging {
    /// The folder for what the tools write: reports, logs. All of it is kept.
    pub fn raw_dir(&self) -> PathBuf {
        self.staged.folder().join(RAW)
    }

    /// Where the trial's trace goes; to be given to [`domain::Bench::run`]. Without a first call of its
    /// [`domain::Sink::begin`] the trial has no trace.
    pub fn sink(&mut self) -> &mut TraceSink {
        &mut self.sink
    }

    /// The file for events, beside the trace, for whoever writes it whole.
    pub fn events_file(&self) -> PathBuf {
        self.staged.folder().join(EVENTS)
    }

    /// The file for events, beside the trace, to be written piece by piece.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn events(&self) -> Result<File> {
        let path = self.events_file();
        own::open_or_make(&path, Access::Append, 0o644).map_err(Error::io("write", &path))
    }

    /// Keeps the machine's storage as it was during the trial.
    ///
    /// # Errors
    /// Where it is kept already, or cannot be written.
    pub fn keep_storage(&self, storage: &Storage) -> Result<()> {
        let text = record::storage_text(storage);
        Ok(durable::write_new(&self.staged.folder().join(STORAGE), &text, Permissions::Plain)?)
    }

    /// A file of a trial that was measured elsewhere, to be written here: `trial.json`, `reproduce.sh`,
    /// `trace.parquet`, `events.bin`, `storage.json`, or one below `raw`. Opened again, it is gone on with.
    ///
    /// # Errors
    /// Where the name is none of a trial's, or the file cannot be written.
    pub fn take_in(&self, name: &str) -> Result<File> {
        let parts: Vec<Component<'_>> = Path::new(name).components().collect();
        let is_plain = parts.iter().all(|part| matches!(part, Component::Normal(_)));
        let is_known = match parts.as_slice() {
            [_] => [TRIAL, SCRIPT, TRACE, EVENTS, STORAGE].contains(&name),
            [first, _, ..] => first.as_os_str() == RAW,
            [] => false,
        };
        if !is_plain || !is_known {
            let reason = "it is no file of a trial".to_owned();
            return Err(Error::BadName { name: name.to_owned(), reason });
        }
        let path = self.staged.folder().join(name);
        if let Some(folder) = path.parent() {
            durable::make_folder(folder)?;
        }
        own::open_or_make(&path, Access::Append, 0o644).map_err(Error::io("write", &path))
    }

    /// The trial that was taken in, and its script, once all of it is there. What is then committed takes
    /// their place.
    ///
    /// # Errors
    /// Where it is not there, or cannot be read.
    pub fn taken_in(&self) -> Result<(Trial, String)> {
        let (trial, script) = (self.staged.folder().join(TRIAL), self.staged.folder().join(SCRIPT));
        let taken = (record::read_trial(&trial)?, record::read_text(&script)?);
        for path in [trial, script] {
            fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        }
        Ok(taken)
    }

    /// Stores the trial, durably, and gives its folder. `reproduce` is a shell script.
    ///
    /// # Errors
    /// Where a trial of this key is there already, a metric is no number, the trace is not whole, or the disk
    /// is full. Then nothing of this trial is kept.
    ///
    /// # Panics
    /// Where `trial` is not the one that was begun.
    pub fn commit(self, trial: &Trial, reproduce: &str) -> Result<PathBuf> {
        assert_eq!(
            (&trial.run, &trial.key),
            (&self.run, &self.key),
            "another trial was begun than is stored"
        );
        let Self { staged, sink, target, .. } = self;
        sink.close()?;
        write_trial(staged.folder(), trial, reproduce)?;
        staged.publish(&target)?;
        Ok(target)
    }
}

/// The files of a trial, without its trace.
pub(crate) fn write_trial(folder: &Path, trial: &Trial, reproduce: &str) -> Result<()> {
    let text = record::trial_text(trial)?;
    durable::write_new(&folder.join(TRIAL), &text, Permissions::Plain)?;
    Ok(durable::write_new(&folder.join(SCRIPT), reproduce, Permissions::Executable)?)
}

/// The process that holds a run's lock. It signs right after it took it, so an unsigned lock is looked at
/// again.
fn holder_once_signed(path: &Path) -> Option<u32> {
    const LOOKS: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(5);
    for _ in 0..LOOKS {
        let alive = |pid: &u32| Path::new("/proc").join(pid.to_string()).exists();
        if let Some(pid) = lock::signature(path).and_then(|pid| pid.parse().ok()).filter(alive) {
            return Some(pid);
        }
        std::thread::sleep(PAUSE);
    }
    None
}
