//! Reading a notebook. What cannot be read is skipped and reported, and stops nobody from reading the rest.

use crate::error::{Error, Result};
use crate::index::{Index, TrialCounts};
use crate::notebook::Notebook;
use crate::record;
use crate::run_folder::{EVENTS, RAW, SKIPPED, STORAGE, TRACE};
use crate::trace::TraceReader;
use domain::ids::{CellId, RunId, TrialKey};
use domain::inventory::Storage;
use domain::order;
use domain::trial::{Run, Trial};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Something in a notebook that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

impl Problem {
    pub(crate) fn new(path: &Path, error: &Error) -> Self {
        Self { path: path.to_owned(), reason: error.reason() }
    }
}

/// A run as `list` shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEntry {
    /// The run.
    pub run: Run,
    /// How many trials it has.
    pub trials: TrialCounts,
}

impl Notebook {
    /// All runs with the number of their trials, newest first, and what could not be read.
    ///
    /// # Errors
    /// Where the folder cannot be listed.
    pub fn runs(&self) -> Result<(Vec<RunEntry>, Vec<Problem>)> {
        let (runs, mut problems) = self.runs_alone()?;
        let mut index = self.index()?;
        let counts = match index.counts() {
            Ok(counts) => counts,
            // Somebody damaged or removed it just now.
            Err(_) => {
                index = Index::in_memory(self)?;
                index.counts()?
            }
        };
        problems
            .extend(index.problems().iter().filter(|p| !problems.contains(p)).cloned().collect::<Vec<_>>());
        let entry = |run: Run| {
            let trials = counts.get(&run.id.0).copied().unwrap_or_default();
            RunEntry { run, trials }
        };
        Ok((runs.into_iter().map(entry).collect(), problems))
    }

    /// All runs without their trials, newest first, and what could not be read.
    pub(crate) fn runs_alone(&self) -> Result<(Vec<Run>, Vec<Problem>)> {
        let mut runs = Vec::new();
        let mut problems = Vec::new();
        for (name, folder) in folders(&self.runs_folder(), &mut problems)? {
            // Not `run`, whose error names what comes near, and reads all of them for it.
            match self.read_run(&RunId(name)) {
                Ok(run) => runs.push(run),
                Err(e) => problems.push(Problem::new(&folder, &e)),
            }
        }
        // The id settles which of two is newer where the clock stood still or stepped back.
        order::by(&mut runs, |a, b| (b.started, &b.id).cmp(&(a.started, &a.id)));
        Ok((runs, problems))
    }

    /// One run.
    ///
    /// # Errors
    /// Where there is none of this id, or it cannot be read.
    pub fn run(&self, id: &RunId) -> Result<Run> {
        let folder = self.run_folder(id);
        if !folder.is_dir() {
            return Err(self.no_such_run(&id.0, "there is none of this name".to_owned()));
        }
        self.read_run(id)
    }

    fn read_run(&self, id: &RunId) -> Result<Run> {
        let folder = self.run_folder(id);
        let path = folder.join("run.json");
        let run = record::read_run(&path, record::read_text(&folder.join("study.toml"))?)?;
        if run.id != *id {
            return Err(Error::damaged(
                &path,
                format!("it is that of the run `{}`; rename the folder back", run.id),
            ));
        }
        Ok(run)
    }

    /// The inventory that was given when the run was begun, as JSON.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn machine_json(&self, id: &RunId) -> Result<String> {
        record::read_text(&self.run_folder(id).join("machine.json"))
    }

    /// The trials of a run, in the order in which they were begun, and what could not be read.
    ///
    /// # Errors
    /// Where there is no such run, or its folder cannot be listed.
    pub fn trials(&self, id: &RunId) -> Result<(Vec<Trial>, Vec<Problem>)> {
        let (keys, mut problems) = self.trial_keys(id)?;
        let mut trials = Vec::new();
        for key in keys {
            match self.trial(id, &key) {
                Ok(trial) => trials.push(trial),
                Err(e) => problems.push(Problem::new(&self.trial_folder(id, &key), &e)),
            }
        }
        // The key settles the order of two where the clock stood still.
        order::by(&mut trials, |a, b| (a.started, &a.key).cmp(&(b.started, &b.key)));
        Ok((trials, problems))
    }

    /// The cells of a run that its machine could not run, and why.
    ///
    /// # Errors
    /// Where the note is there, and cannot be read.
    pub fn skipped(&self, id: &RunId) -> Result<BTreeMap<CellId, String>> {
        let path = self.run_folder(id).join(SKIPPED);
        if path.exists() { record::read_skipped(&path) } else { Ok(BTreeMap::new()) }
    }

    /// The keys of a run's trials, sorted, and what is in the folder besides. No trial is read.
    ///
    /// # Errors
    /// Where there is no such run, or its folder cannot be listed.
    pub fn trial_keys(&self, id: &RunId) -> Result<(Vec<TrialKey>, Vec<Problem>)> {
        let folder = self.run_folder(id);
        if !folder.is_dir() {
            return Err(self.no_such_run(&id.0, "there is none of this name".to_owned()));
        }
        let mut problems = Vec::new();
        let mut keys = Vec::new();
        for (name, path) in folders(&folder.join("trials"), &mut problems)? {
            match name.parse() {
                Ok(key) => keys.push(key),
                Err(_) => {
                    problems.push(Problem { path, reason: "its name is not that of a trial".to_owned() })
                }
            }
        }
        keys.sort();
        Ok((keys, problems))
    }

    /// One trial.
    ///
    /// # Errors
    /// Where there is none, or it is torn, or another's.
    pub fn trial(&self, id: &RunId, key: &TrialKey) -> Result<Trial> {
        let path = self.trial_folder(id, key).join("trial.json");
        let trial = record::read_trial(&path)?;
        if (&trial.run, &trial.key) != (id, key) {
            let reason =
                format!("it is the trial `{}` of the run `{}`, copied here", trial.key.folder(), trial.run);
            return Err(Error::damaged(&path, reason));
        }
        Ok(trial)
    }

    /// A trial as its file has it, which is JSON.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn trial_json(&self, id: &RunId, key: &TrialKey) -> Result<String> {
        record::read_text(&self.trial_folder(id, key).join("trial.json"))
    }

    /// The machine's storage as it was during a trial; `None` where the study built none.
    ///
    /// # Errors
    /// Where there is some that cannot be read.
    pub fn storage(&self, id: &RunId, key: &TrialKey) -> Result<Option<Storage>> {
        let path = self.trial_folder(id, key).join(STORAGE);
        if !path.exists() {
            return Ok(None);
        }
        record::read_storage(&path).map(Some)
    }

    /// The trace of a trial; `None` where nothing was recorded.
    ///
    /// # Errors
    /// Where there is one that cannot be read.
    pub fn trace(&self, id: &RunId, key: &TrialKey) -> Result<Option<TraceReader>> {
        TraceReader::open_if_there(&self.trial_folder(id, key).join(TRACE))
    }

    /// The file of a trial's trace, which is Parquet.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub fn trace_file(&self, id: &RunId, key: &TrialKey) -> Result<File> {
        let path = self.trial_folder(id, key).join(TRACE);
        files::regular::open(&path).map_err(Error::io("open", &path))
    }

    /// The events of a trial, as `recorder` wrote them; `None` where none were recorded.
    ///
    /// # Errors
    /// Where there are some that cannot be opened.
    pub fn events_file(&self, id: &RunId, key: &TrialKey) -> Result<Option<File>> {
        let path = self.trial_folder(id, key).join(EVENTS);
        match files::regular::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some).map_err(Error::io("open", &path)),
        }
    }

    /// The names of what the tool of a trial wrote itself, sorted; none where it wrote nothing.
    ///
    /// # Errors
    /// Where the folder cannot be listed.
    pub fn raw_names(&self, id: &RunId, key: &TrialKey) -> Result<Vec<String>> {
        let folder = self.trial_folder(id, key).join(RAW);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::io("list", &folder)(e)),
        };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }

    /// One of them.
    ///
    /// # Errors
    /// Where it is no regular file, or cannot be opened.
    pub fn raw_file(&self, id: &RunId, key: &TrialKey, name: &str) -> Result<File> {
        let path = self.trial_folder(id, key).join(RAW).join(name);
        files::regular::open(&path).map_err(Error::io("open", &path))
    }

    /// Where a trial is.
    pub fn trial_folder(&self, id: &RunId, key: &TrialKey) -> PathBuf {
        self.run_folder(id).join("trials").join(key.folder())
    }

    /// The latest run of this study with the same text and on the same machine, where it is not finished: the
    /// one to go on with.
    ///
    /// # Errors
    /// Where the runs cannot be listed.
    pub fn unfinished(&self, study: &str, study_text: &str, machine: &str) -> Result<Option<RunId>> {
        let (runs, _) = self.runs_alone()?;
        let alike = |run: &Run| run.study == study && run.machine == machine && run.study_text == study_text;
        let latest = runs.into_iter().find(alike);
        Ok(latest.filter(|run| run.finished.is_none()).map(|run| run.id))
    }

    /// The latest run of this study on this machine, where it is not finished and of another text: the one
    /// that somebody who has edited the study since may expect to go on with. And where its own copy of the
    /// study is.
    ///
    /// # Errors
    /// Where the runs cannot be listed.
    pub fn unfinished_of_another_text(
        &self,
        study: &str,
        study_text: &str,
        machine: &str,
    ) -> Result<Option<(RunId, PathBuf)>> {
        let (runs, _) = self.runs_alone()?;
        let latest = runs.into_iter().find(|run| run.study == study && run.machine == machine);
        let other = latest.filter(|run| run.finished.is_none() && run.study_text != study_text);
        Ok(other.map(|run| (run.id.clone(), self.run_folder(&run.id).join("study.toml"))))
    }
}

/// The folders in `parent`, sorted by name. Hidden entries are passed over, anything else that is no folder
/// is a problem. None where `parent` is missing.
pub(crate) fn folders(parent: &Path, problems: &mut Vec<Problem>) -> Result<Vec<(String, PathBuf)>> {
    let entries = match fs::read_dir(parent) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("list", parent)(e)),
    };
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::io("list", parent))?.path();
        let name = path.file_name().unwrap_or_default();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let reason = match name.to_str() {
            Some(name) if path.is_dir() => {
                folders.push((name.to_owned(), path));
                continue;
            }
            Some(_) => "it is not a folder, and not of this program",
            None => "its name is no text, and not of this program",
        };
        problems.push(Problem { path, reason: reason.to_owned() });
    }
    folders.sort();
    Ok(folders)
}
