//! Why a file could not be used.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a file or folder could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system said no.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried: `open`, `make the folder`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// Root would write where somebody else decides what a name leads to.
    #[error("cannot write there as root: {0}")]
    Untrusted(#[from] crate::trust::Untrusted),
    /// Somebody holds the lock.
    #[error(
        "cannot lock `{}`: another process has held it for {} s; end that process, or wait for it",
        path.display(), limit.as_secs()
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How long it was waited for.
        limit: Duration,
    },
    /// What was to be made is there already.
    #[error("`{}` is there already", path.display())]
    Exists {
        /// What.
        path: PathBuf,
    },
    /// Too much lies in a staging folder.
    #[error("the staging folder `{}` is full: {reason}", path.display())]
    Full {
        /// The folder.
        path: PathBuf,
        /// What it holds.
        reason: String,
    },
}

/// The result of using a file.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// For `map_err`: what was tried, on what.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

impl From<Error> for io::Error {
    /// For who says himself what he tried, on what.
    fn from(error: Error) -> Self {
        match error {
            Error::Io { source, .. } => source,
            other => Self::other(other),
        }
    }
}
