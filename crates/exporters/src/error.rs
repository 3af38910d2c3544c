//! Why an export could not be written.

use std::io;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an export could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is stored could not be read.
    #[error(transparent)]
    Notebook(#[from] notebook::Error),
    /// The system, or the library of a format, said no.
    #[error("cannot write the export: {0}")]
    Write(String),
    /// What is stored cannot be written in this format. The text says all.
    #[error("{0}")]
    Unsuitable(String),
}

impl Error {
    /// For `map_err` on a format's library.
    pub(crate) fn write(error: impl ToString) -> Self {
        Self::Write(error.to_string())
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::write(error)
    }
}
