//! Why a file of another tool could not be read.

use domain::bench::SinkError;
use std::io;

/// Where in a file something stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the file's start.
    pub offset: u64,
    /// From 1.
    pub line: u64,
}

/// Why a file was not understood.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is what it seems to be, and then makes no sense, or exceeds a bound.
    #[error("cannot read it as {what}: byte {} (line {}): {reason}; understood before that: {understood}", place.offset, place.line)]
    Malformed {
        /// The kind of file.
        what: &'static str,
        /// Where reading stopped.
        place: Place,
        /// What was expected and found there.
        reason: String,
        /// What was made of the file up to there.
        understood: String,
    },
    /// Nothing in it is known.
    #[error(
        "cannot tell which tool wrote it: it begins with `{head}`, and holds none of {looked_for}; is it the right file? --as KIND names what it is"
    )]
    Unknown {
        /// Its first line.
        head: String,
        /// What was looked for.
        looked_for: String,
    },
    /// It is of its kind, and holds no figure.
    #[error("there is nothing to import in it: it is of the kind {what}, and holds no figure: {reason}")]
    Nothing {
        /// The kind of file.
        what: &'static str,
        /// What is missing.
        reason: String,
    },
    /// A Parquet file that is no trace of Flyball's, or a damaged one.
    #[error("cannot read it as a trace of Flyball's: {reason}; {next}")]
    Trace {
        /// What is wrong with it.
        reason: String,
        /// What to do.
        next: String,
    },
    /// It could not be read from where it lies.
    #[error("cannot read it: {0}")]
    Read(#[from] io::Error),
    /// What was read could not be stored.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

impl Error {
    /// A fault of a file of this kind.
    pub(super) fn at(what: &'static str, place: Place, reason: impl Into<String>) -> Self {
        Self::Malformed { what, place, reason: reason.into(), understood: "nothing".to_owned() }
    }

    /// A fault that did not know its place.
    pub(super) fn located(mut self, at: Place) -> Self {
        if let Self::Malformed { place, .. } = &mut self
            && *place == Place::default()
        {
            *place = at;
        }
        self
    }

    /// With what was made of the file before the fault.
    pub(super) fn after(mut self, so_far: &str) -> Self {
        if let Self::Malformed { understood, .. } = &mut self {
            so_far.clone_into(understood);
        }
        self
    }
}
