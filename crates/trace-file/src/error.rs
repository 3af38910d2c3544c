//! Why a file could not be read as a trace.

use crate::{PROGRAM, SCHEMA};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a file could not be read as a trace. The texts come after what was attempted, on what.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A Parquet file that does not say of itself that it is a trace.
    #[error("its metadata has no `{missing}`, so it is no trace")]
    NoTrace {
        /// The key of the metadata that is missing.
        missing: &'static str,
        /// The names of its columns, at most [`Error::MAX_SHOWN`].
        columns: Vec<String>,
        /// Which program wrote it, where it says so.
        written_by: Option<String>,
    },
    /// Written by a later version of this program.
    #[error(
        "it has schema {found}, and this is flyball {PROGRAM}, which knows schemas up to {SCHEMA}; use {}",
        needed(written_by.as_deref())
    )]
    Newer {
        /// Its schema.
        found: u64,
        /// The version that wrote it, where it says so.
        written_by: Option<String>,
    },
    /// Torn, edited, or not what this program writes.
    #[error("{0}")]
    Damaged(String),
    /// A trace could not be written.
    #[error("{0}")]
    Unwritten(String),
}

impl Error {
    /// How many columns of a file that is no trace are named.
    pub const MAX_SHOWN: usize = 8;

    /// For `map_err`.
    pub(crate) fn damaged(reason: impl ToString) -> Self {
        Self::Damaged(reason.to_string())
    }
}

/// Which version reads a trace that this one does not know, in words.
pub fn needed(written_by: Option<&str>) -> String {
    written_by.map_or("the version that wrote it".to_owned(), |version| format!("flyball {version} or newer"))
}
