//! Why a guest could not do what it was asked for.

use domain::plan::PlanError;
use std::io;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a guest could not start, or not do what the host asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel, or a program in the guest, could not be used.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was attempted, on what.
        doing: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The host no longer reads or writes the port.
    #[error("the host is gone: {0}")]
    HostGone(#[source] io::Error),
    /// The host asked for what cannot be, or something in the guest ended otherwise than it should.
    #[error("{0}")]
    Refused(String),
    /// The study came over, and is not understood.
    #[error("cannot read the study: {0}")]
    Study(#[from] parse::study::StudyErrors),
    /// The study has no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The machine could not be inspected.
    #[error(transparent)]
    Inventory(#[from] machine::inventory::Error),
    /// The ledger of changes could not be opened.
    #[error(transparent)]
    Settings(#[from] machine::settings::Error),
    /// The trials could not be kept until the host has them.
    #[error(transparent)]
    Notebook(#[from] notebook::Error),
    /// The storage of the study could not be built.
    #[error(transparent)]
    Storage(#[from] runner::Error),
    /// A trial ended the run.
    #[error(transparent)]
    Stop(#[from] runner::Stop),
}

/// What was attempted, beside the system's error.
pub(crate) trait Doing<T> {
    /// `open `/dev/port``: it comes after "cannot".
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io { doing: what(), source: source.into() })
    }
}
