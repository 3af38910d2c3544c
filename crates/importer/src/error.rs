//! Why a file was not imported.

use domain::bench::SinkError;
use std::io;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a file was not imported, or could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be imported.
    #[error("cannot import {what}: {why}")]
    Import {
        /// `` `FILE` ``, or ``the samples of `FILE` ``.
        what: String,
        /// Why.
        #[source]
        why: Box<Error>,
    },
    /// A file, a socket or a process could not be used.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was attempted, on what.
        doing: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The system refused what was attempted on the file itself.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The file is none that can be imported, or the process that reads it did not; the text says why, and
    /// what to do.
    #[error("{0}")]
    Refused(String),
    /// A row could not be stored.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The notebook could not be read or written.
    #[error(transparent)]
    Notebook(#[from] notebook::Error),
    /// No run could be begun.
    #[error(transparent)]
    Session(#[from] session::Error),
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

/// What was to be imported, beside why it was not.
pub(crate) trait Importing<T> {
    /// `` `FILE` ``, or ``the samples of `FILE` ``.
    fn importing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Error>> Importing<T> for std::result::Result<T, E> {
    fn importing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|why| Error::Import { what: what(), why: Box::new(why.into()) })
    }
}

/// The refusal that this text says.
pub(crate) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(Error::Refused(why.into()))
}
