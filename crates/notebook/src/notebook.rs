//! A notebook, opened.

use crate::aside::{self, Aside};
use crate::durable::{self, Mode};
use crate::error::{Error, Result};
use crate::index::Index;
use crate::lock::Lock;
use crate::record;
use crate::recording::RecordingFolder;
use crate::run_folder::RunFolder;
use domain::trial::{Run, RunId};
use serde::Deserialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The file that makes a folder a notebook.
const MARK: &str = "notebook.json";

/// A bound on names of runs and recordings; file systems allow 255 bytes, and what is written aside adds some.
const LONGEST_NAME: usize = 200;

/// A folder of runs, trials and recordings.
#[derive(Clone, Debug)]
pub struct Notebook {
    root: PathBuf,
}

/// What the mark says. A later version may say more, and is then refused by its number.
#[derive(Deserialize)]
struct Mark {
    flyball_notebook: u64,
}

impl Notebook {
    /// Opens the notebook in `folder`, and removes what killed programs left half written in it. A notebook that
    /// cannot be written is opened all the same, for reading.
    ///
    /// # Errors
    /// Where there is none, or it is of a newer version.
    pub fn open(folder: &Path) -> Result<Self> {
        let mark = folder.join(MARK);
        if !mark.exists() {
            return Err(Error::Missing { path: folder.to_owned() });
        }
        let text = record::read_text(&mark)?;
        let Mark { flyball_notebook } = serde_json::from_str(&text).map_err(|e| Error::damaged(&mark, e))?;
        record::check_schema(&mark, flyball_notebook, None)?;
        let notebook = Self { root: folder.to_owned() };
        // Leftovers are never read as results, so failing to remove them is no reason to read nothing.
        let _ = aside::sweep(&notebook.staging());
        Ok(notebook)
    }

    /// Opens the notebook in `folder`, or makes one where the folder is missing or empty.
    ///
    /// # Errors
    /// As [`Notebook::open`]; where the folder holds something else; where it cannot be written.
    pub fn create(folder: &Path) -> Result<Self> {
        if !folder.join(MARK).exists() {
            durable::make_folder(folder)?;
            Self::mark(folder)?;
        }
        Self::open(folder)
    }

    /// Marks an empty folder as a notebook. Of several that begin at the same moment one does it, and the others wait.
    fn mark(folder: &Path) -> Result<()> {
        let lock = File::open(folder).map_err(Error::io("open", folder))?;
        lock.lock().map_err(Error::io("lock", folder))?;
        if folder.join(MARK).exists() {
            return Ok(());
        }
        refuse_foreign(folder)?;
        let text = format!("{{\"flyball_notebook\": {}}}\n", record::SCHEMA);
        durable::replace(&folder.join(MARK), &text)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.root
    }

    /// Where its index is, for people's own SQL; see [`Notebook::index`].
    pub fn index_path(&self) -> PathBuf {
        self.root.join("index.sqlite")
    }

    /// The index, brought up to date with the folders.
    ///
    /// # Errors
    /// Where the folders cannot be listed. An index that is damaged or cannot be written is no error: it is made
    /// again, in memory if need be.
    pub fn index(&self) -> Result<Index> {
        Index::open(self)
    }

    /// Begins a run, which this process alone may then measure. `inventory_json` is kept as it is given.
    ///
    /// # Errors
    /// Where there is a run of this id, or the notebook cannot be written.
    pub fn create_run(&self, run: &Run, inventory_json: &str) -> Result<RunFolder> {
        check_name(&run.id.0)?;
        let aside = Aside::begin(&self.staging(), "run")?;
        let folder = aside.folder();
        durable::write_new(&folder.join("run.json"), &record::run_text(run), Mode::Plain)?;
        durable::write_new(&folder.join("study.toml"), &run.study_text, Mode::Plain)?;
        durable::write_new(&folder.join("machine.json"), inventory_json, Mode::Plain)?;
        durable::make_folder(&folder.join("trials"))?;
        // The lock is taken before the run can be seen; so nobody else can measure it first.
        let lock_path = folder.join(RunFolder::LOCK);
        let mut lock = Lock::try_take(&lock_path)?.expect("nobody else knows this folder yet");
        lock.sign(&lock_path)?;
        durable::make_folder(&self.runs_folder())?;
        aside.publish(&self.run_folder(&run.id))?;
        Ok(RunFolder::new(self.clone(), run.clone(), lock))
    }

    /// Opens a run to measure what is missing of it, which this process alone may then do.
    ///
    /// # Errors
    /// Where there is no such run, or another process measures it.
    pub fn open_run(&self, id: &RunId) -> Result<RunFolder> {
        let run = self.run(id)?;
        let lock = RunFolder::lock(&self.run_folder(id), id)?;
        Ok(RunFolder::new(self.clone(), run, lock))
    }

    /// Begins a recording of this name: `flyball record` without a study.
    ///
    /// # Errors
    /// Where there is one of this name, or the notebook cannot be written.
    pub fn begin_recording(&self, name: &str) -> Result<RecordingFolder> {
        check_name(name)?;
        durable::make_folder(&self.recordings_folder())?;
        RecordingFolder::begin(&self.staging(), self.recordings_folder().join(name))
    }

    pub(crate) fn staging(&self) -> PathBuf {
        self.root.join("staging")
    }

    pub(crate) fn runs_folder(&self) -> PathBuf {
        self.root.join("runs")
    }

    pub(crate) fn recordings_folder(&self) -> PathBuf {
        self.root.join("recordings")
    }

    /// Where a run is.
    pub fn run_folder(&self, id: &RunId) -> PathBuf {
        self.runs_folder().join(&id.0)
    }
}

/// A folder with other people's things in it does not become a notebook by a mistyped path.
fn refuse_foreign(folder: &Path) -> Result<()> {
    // `lost+found` is on every fresh ext4; the other is what a kill between two steps of this leaves.
    const HARMLESS: [&str; 2] = ["lost+found", "notebook.part"];
    for entry in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let name = entry.map_err(Error::io("list", folder))?.file_name();
        if !HARMLESS.iter().any(|harmless| name == *harmless) {
            return Err(Error::NotEmpty {
                path: folder.to_owned(),
                found: name.to_string_lossy().into_owned(),
            });
        }
    }
    Ok(())
}

/// Whether a name can be a folder of its own.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let bad = |reason: &str| Err(Error::BadName { name: name.to_owned(), reason: reason.to_owned() });
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
        return bad("it cannot be a folder's name; use letters, digits, `-` and `_`");
    }
    if name.len() > LONGEST_NAME {
        return bad("it is too long for a folder's name; give the study, or its levels, shorter names");
    }
    Ok(())
}
