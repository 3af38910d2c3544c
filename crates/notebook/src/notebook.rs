//! A notebook, opened.

use crate::error::{Error, Result};
use crate::index::Index;
use crate::record;
use crate::run_folder::{RAW, RunFolder, TRIAL_STAGED};
use crate::whole_run::WholeRun;
use domain::ids::{RunId, TrialKey};
use domain::trial::Run;
use files::durable::{self, Permissions};
use files::lock::Lock;
use files::staging::{self, StagingDir};
use files::{own, trust};
use serde::Deserialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The file that makes a folder a notebook.
const MARK: &str = "notebook.json";

/// A bound on names of runs and recordings; file systems allow 255 bytes, and a staging folder's add some.
const LONGEST_NAME: usize = 200;

/// A folder of runs, trials and recordings.
#[derive(Clone, Debug)]
pub struct Notebook {
    root: PathBuf,
    /// Why nothing may be written into it.
    foreign: Option<String>,
}

/// What the mark says. A later version may say more, and is then refused by its number.
#[derive(Deserialize)]
struct Mark {
    flyball_notebook: u64,
    #[serde(default)]
    written_by: Option<String>,
}

impl Notebook {
    /// Opens the notebook in `folder`, and removes what killed programs left half written in it. A notebook
    /// that cannot be written is opened all the same, for reading; so is, by root, one that somebody else may
    /// change.
    ///
    /// # Errors
    /// Where there is none, or it is of a newer version.
    pub fn open(folder: &Path) -> Result<Self> {
        let mark = folder.join(MARK);
        if !mark.exists() {
            return Err(Error::Missing { path: folder.to_owned() });
        }
        let text = record::read_text(&mark)?;
        let Mark { flyball_notebook, written_by } =
            serde_json::from_str(&text).map_err(|e| Error::damaged(&mark, e))?;
        record::check_schema(&mark, flyball_notebook, written_by)?;
        let (root, foreign) = match trusted(folder) {
            Ok(root) => (root, None),
            Err(why) => (folder.to_owned(), Some(why.to_string())),
        };
        let notebook = Self { root, foreign };
        if notebook.foreign.is_none() {
            // Leftovers are never read as results, so failing to remove them is no reason to read nothing.
            let _ = staging::sweep(&notebook.staging());
        }
        Ok(notebook)
    }

    /// Opens the notebook in `folder`, or makes one where the folder is missing or empty.
    ///
    /// # Errors
    /// As [`Notebook::open`]; where the folder holds something else; where it cannot be written.
    pub fn create(folder: &Path) -> Result<Self> {
        let folder = &trusted(folder).map_err(|why| Error::foreign(folder, why))?;
        if !folder.join(MARK).exists() {
            durable::make_folder(folder)?;
            // In a folder like `/tmp` somebody may have been faster.
            trusted(folder).map_err(|why| Error::foreign(folder, why))?;
            Self::mark(folder)?;
        }
        Self::open(folder)
    }

    /// Marks an empty folder as a notebook. Of several that begin at the same moment one does it, and the
    /// others wait.
    fn mark(folder: &Path) -> Result<()> {
        let lock = File::open(folder).map_err(Error::io("open", folder))?;
        lock.lock().map_err(Error::io("lock", folder))?;
        if folder.join(MARK).exists() {
            return Ok(());
        }
        refuse_foreign(folder)?;
        let text = format!(
            "{{\"flyball_notebook\": {}, \"written_by\": \"{}\"}}\n",
            record::SCHEMA,
            record::PROGRAM
        );
        Ok(durable::replace(&folder.join(MARK), text.as_bytes(), Permissions::Plain)?)
    }

    /// An error where nothing may be written into it: root writes into no notebook that somebody else may
    /// change.
    pub(crate) fn check_writable(&self) -> Result<()> {
        match &self.foreign {
            None => Ok(()),
            Some(why) => Err(Error::foreign(&self.root, why)),
        }
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
    /// Where the folders cannot be listed. An index that is damaged or cannot be written is no error: it is
    /// made again, in memory if need be.
    pub fn index(&self) -> Result<Index> {
        Index::open(self)
    }

    /// Begins a run, which this process alone may then measure. `inventory_json` is kept as it is given.
    ///
    /// # Errors
    /// Where there is a run of this id, or the notebook cannot be written.
    pub fn create_run(&self, run: &Run, inventory_json: &str) -> Result<RunFolder> {
        check_name(&run.id.0)?;
        self.check_writable()?;
        let staged = StagingDir::begin(&self.staging(), "run")?;
        let folder = staged.folder();
        write_run(folder, run, inventory_json)?;
        // The lock is taken before the run can be seen; so nobody else can measure it first.
        let lock_path = folder.join(RunFolder::LOCK);
        let mut lock = Lock::try_take(&lock_path)?.expect("nobody else knows this folder yet");
        lock.sign(&lock_path, &std::process::id().to_string())?;
        own::make_folder(&self.runs_folder())?;
        staged.publish(&self.run_folder(&run.id))?;
        Ok(RunFolder::new(self.clone(), run.clone(), lock))
    }

    /// Opens a run to measure what is missing of it, which this process alone may then do.
    ///
    /// # Errors
    /// Where there is no such run, or another process measures it.
    pub fn open_run(&self, id: &RunId) -> Result<RunFolder> {
        self.check_writable()?;
        let run = self.run(id)?;
        let lock = RunFolder::lock(&self.run_folder(id), id)?;
        Ok(RunFolder::new(self.clone(), run, lock))
    }

    /// Begins a run of one trial, `key`, which is there with its trial or not at all: a recording.
    ///
    /// # Errors
    /// Where the notebook cannot be written.
    pub fn begin_whole_run(&self, key: &TrialKey) -> Result<WholeRun> {
        check_name(&key.folder())?;
        self.check_writable()?;
        WholeRun::begin(self.clone(), key.clone())
    }

    /// The folders of what recordings and trials of studies keep besides their traces that are being written
    /// into this notebook, or were when their writers died.
    pub fn underway(&self) -> Vec<PathBuf> {
        let trials = staging::begun(&self.staging(), TRIAL_STAGED).into_iter().map(|folder| folder.join(RAW));
        WholeRun::underway(self).into_iter().chain(trials).collect()
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

/// The files of a run, without its trials.
pub(crate) fn write_run(folder: &Path, run: &Run, inventory_json: &str) -> Result<()> {
    durable::write_new(&folder.join("run.json"), &record::run_text(run), Permissions::Plain)?;
    durable::write_new(&folder.join("study.toml"), &run.study_text, Permissions::Plain)?;
    durable::write_new(&folder.join("machine.json"), inventory_json, Permissions::Plain)?;
    Ok(durable::make_folder(&folder.join("trials"))?)
}

/// The folder with its links resolved. Root is asked for one that nobody else may change: it would write
/// wherever somebody lets a name in it lead. Other users may share a notebook with whom they like.
fn trusted(folder: &Path) -> std::result::Result<PathBuf, trust::Untrusted> {
    if rustix::process::geteuid().is_root() { trust::check(folder) } else { Ok(folder.to_owned()) }
}

/// A folder with other people's things in it does not become a notebook by a mistyped path.
fn refuse_foreign(folder: &Path) -> Result<()> {
    // `lost+found` is on every fresh ext4; the others are what a kill between two steps of this leaves, and
    // did once.
    const HARMLESS: [&str; 3] = ["lost+found", "notebook.json.part", "notebook.part"];
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
