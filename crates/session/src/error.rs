//! Why a study could not be run.

use std::error::Error as StdError;
use std::io;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a study could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The study, or what was typed, is wrong.
    #[error("{0}")]
    Usage(String),
    /// Another Flyball has what is needed.
    #[error("{0}")]
    Busy(String),
    /// Somebody asked us to stop.
    #[error("interrupted")]
    Interrupted,
    /// Not done, for the reason that the text has.
    #[error("{0}")]
    Refused(String),
    /// What was attempted when something else failed.
    #[error("{what}")]
    While {
        /// In words.
        what: String,
        /// What failed.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The study gives no plan.
    #[error(transparent)]
    Plan(#[from] domain::plan::PlanError),
    /// The trials that are there are not the study's.
    #[error(transparent)]
    Schedule(#[from] analysis::schedule::ScheduleError),
    /// The notebook could not be used.
    #[error(transparent)]
    Notebook(#[from] notebook::Error),
    /// The ledger, or a setting, could not be used.
    #[error(transparent)]
    Machine(#[from] machine::settings::Error),
    /// A workload or what it runs on could not be made.
    #[error(transparent)]
    Runner(#[from] runner::Error),
    /// What is to be recorded cannot be followed.
    #[error(transparent)]
    Following(#[from] runner::following::Error),
    /// Nothing can be sampled.
    #[error(transparent)]
    Recorder(#[from] recorder::Error),
    /// A lab machine could not be used.
    #[error(transparent)]
    Lab(#[from] lab::Error),
    /// What the plugin recorded cannot be used, or the plugin cannot be found.
    #[error(transparent)]
    Pacing(#[from] lab::pacing::Error),
    /// A lab machine's disks cannot be served.
    #[error(transparent)]
    DiskServer(#[from] lab::disk_server::DiskServerError),
    /// A table of P-states cannot be read.
    #[error(transparent)]
    PStates(#[from] lab::pstates::Error),
    /// The machine cannot be looked at.
    #[error(transparent)]
    Inventory(#[from] machine::inventory::Error),
    /// A folder is not one to rely on.
    #[error(transparent)]
    Untrusted(#[from] files::trust::Untrusted),
}

impl Error {
    /// For `map_err`: what was attempted.
    pub fn during<E: Into<Box<dyn StdError + Send + Sync>>>(
        what: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::While { what, source: source.into() }
    }

    /// Whether somebody asked for the end.
    pub fn is_interrupt(&self) -> bool {
        match self {
            Self::Interrupted | Self::Lab(lab::Error::Interrupted) => true,
            Self::While { source, .. } => source.downcast_ref::<Self>().is_some_and(Self::is_interrupt),
            _ => false,
        }
    }

    /// The error of a ledger or a lock, where another Flyball has it.
    pub fn of_machine(error: machine::settings::Error) -> Self {
        match error {
            machine::settings::Error::Busy { .. } => Self::Busy(error.to_string()),
            other => Self::Machine(other),
        }
    }

    /// The error of a notebook, where another Flyball writes to the run.
    pub fn of_notebook(error: notebook::Error) -> Self {
        match error {
            notebook::Error::RunBusy { .. } => Self::Busy(error.to_string()),
            other => Self::Notebook(other),
        }
    }
}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        Self::Refused(source.to_string())
    }
}
