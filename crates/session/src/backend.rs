//! The seam between the trial loop and whatever makes trials.

use crate::error::{Error, Result};
use crate::observer::Observer;
use domain::ids::TrialKey;
use domain::inventory::Storage;
use domain::plan::{Cell, Plan};
use domain::trial::{Provenance, Trial};
use machine::ledger::RestoreReport;
use notebook::{RunFolder, Staging};
use std::collections::BTreeMap;

/// Which machine trials are made on.
#[derive(Clone, Debug)]
pub struct MachineRecord {
    /// Its inventory as JSON.
    pub inventory: String,
    /// What tells it from others: an unfinished run is gone on with only where this is the same.
    pub identity: String,
}

/// The run whose trials are to be made.
#[derive(Clone, Copy, Debug)]
pub struct OpenRun<'a> {
    /// Its plan.
    pub plan: &'a Plan,
    /// Where it is kept.
    pub folder: &'a RunFolder,
}

/// A trial, in its staging folder.
#[derive(Debug)]
pub struct TrialMade {
    /// What is kept of it.
    pub trial: Trial,
    /// `reproduce.sh`.
    pub script: String,
    /// What putting its settings back came to.
    pub restored: RestoreReport,
    /// The machine's storage as it was, where the study built some and it is not in the folder already.
    pub storage: Option<Storage>,
}

/// Why a trial was not made.
#[derive(Debug)]
pub enum TrialError {
    /// Somebody asked us to stop.
    Interrupted,
    /// Not possible on this machine; every trial of this cell would be so.
    Unsupported(String),
    /// The run cannot go on.
    Broken(Error),
}

impl From<runner::Stop> for TrialError {
    fn from(stop: runner::Stop) -> Self {
        match stop {
            runner::Stop::Interrupted => Self::Interrupted,
            runner::Stop::Unsupported(reason) => Self::Unsupported(reason),
            other => Self::Broken(Error::Refused(other.to_string())),
        }
    }
}

/// What a guest's kernel printed.
#[derive(Clone, Debug)]
pub struct KernelLog {
    /// A file's name.
    pub name: String,
    /// The log.
    pub text: String,
}

/// What a backend leaves.
#[derive(Debug, Default)]
pub struct Closed {
    /// What putting everything back came to.
    pub restored: RestoreReport,
    /// Logs that are kept with the run.
    pub logs: Vec<KernelLog>,
}

/// Makes trials.
///
/// A backend has its machine from the moment it is made. It is opened once, where anything is to be measured,
/// asked for trials, and closed once, opened or not.
pub trait Backend {
    /// Where its trials come from.
    fn provenance(&self) -> Provenance;

    /// The machine.
    fn machine(&self) -> &MachineRecord;

    /// Cells that are known not to be possible here, by their place in the plan, and why.
    fn unavailable(&self, plan: &Plan) -> BTreeMap<usize, String> {
        let _ = plan;
        BTreeMap::new()
    }

    /// Makes what the trials of a run need.
    ///
    /// # Errors
    /// [`Error::Interrupted`]; where it could not be made.
    fn open(&mut self, run: &OpenRun<'_>, observer: &mut dyn Observer) -> Result<()>;

    /// Makes one trial.
    ///
    /// # Errors
    /// [`TrialError`]. A workload that fails is no error, but a trial that says so.
    fn run_trial(
        &mut self,
        run: &OpenRun<'_>,
        cell: &Cell,
        key: &TrialKey,
        staging: &mut Staging,
        observer: &mut dyn Observer,
    ) -> std::result::Result<TrialMade, TrialError>;

    /// Whether what trials run on is still there; asked after each.
    ///
    /// # Errors
    /// Where it is not.
    fn verify(&self) -> Result<()> {
        Ok(())
    }

    /// Puts everything back.
    ///
    /// # Errors
    /// Where it cannot be told what is left.
    fn close(&mut self) -> Result<Closed>;
}
