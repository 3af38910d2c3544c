//! A run of one trial that is stored with it, by one rename: what was recorded without a plan.

use crate::error::Result;
use crate::notebook::{Notebook, check_name, write_run};
use crate::run_folder::{EVENTS, RAW, TRACE, write_trial};
use crate::trace::TraceSink;
use domain::ids::TrialKey;
use domain::trial::{Run, Trial};
use files::durable;
use files::own;
use files::staging::{self, StagingDir};
use std::path::PathBuf;

/// A run that is being made, in a staging folder. Dropped without [`WholeRun::commit`], it leaves nothing; so
/// does a killed program, once the notebook is opened again.
#[derive(Debug)]
pub struct WholeRun {
    notebook: Notebook,
    key: TrialKey,
    staged: StagingDir,
    sink: TraceSink,
}

impl WholeRun {
    pub(crate) fn begin(notebook: Notebook, key: TrialKey) -> Result<Self> {
        let staged = StagingDir::begin(&notebook.staging(), "run")?;
        let trial = staged.folder().join("trials").join(key.folder());
        durable::make_folder(&trial.join(RAW))?;
        let sink = TraceSink::new(trial.join(TRACE));
        Ok(Self { notebook, key, staged, sink })
    }

    /// That of [`WholeRun::raw_dir`] of each such run that is being written into this notebook, or was when
    /// its writer died: whoever is told more by it has to look.
    pub(crate) fn underway(notebook: &Notebook) -> Vec<PathBuf> {
        let trials = staging::begun(&notebook.staging(), "run").into_iter();
        let trials = trials.flat_map(|folder| staging::folders_in(&folder.join("trials")));
        trials.map(|folder| folder.join(RAW)).collect()
    }

    /// The folder for whatever else is to be kept with the trial.
    pub fn raw_dir(&self) -> PathBuf {
        self.trial_folder().join(RAW)
    }

    /// The file for events, beside the trace.
    pub fn events_file(&self) -> PathBuf {
        self.trial_folder().join(EVENTS)
    }

    /// Where the trial's trace goes. Without a first call of its [`domain::Sink::begin`] the trial has no
    /// trace.
    pub fn sink(&mut self) -> &mut TraceSink {
        &mut self.sink
    }

    /// Stores the run and its trial, durably, and gives the run's folder. `inventory_json` is kept as it is
    /// given, `reproduce` is a shell script.
    ///
    /// # Errors
    /// Where there is a run of this id, a metric is no number, the trace is not whole, or the disk is full.
    /// Then nothing is kept.
    ///
    /// # Panics
    /// Where `trial` is not the one that was begun, or not of this run.
    pub fn commit(self, run: &Run, inventory_json: &str, trial: &Trial, reproduce: &str) -> Result<PathBuf> {
        assert_eq!((&trial.run, &trial.key), (&run.id, &self.key), "another trial was begun than is stored");
        check_name(&run.id.0)?;
        let trial_folder = self.trial_folder();
        let Self { notebook, staged, sink, .. } = self;
        sink.close()?;
        write_run(staged.folder(), run, inventory_json)?;
        write_trial(&trial_folder, trial, reproduce)?;
        own::make_folder(&notebook.runs_folder())?;
        let target = notebook.run_folder(&run.id);
        staged.publish(&target)?;
        Ok(target)
    }

    fn trial_folder(&self) -> PathBuf {
        self.staged.folder().join("trials").join(self.key.folder())
    }
}
