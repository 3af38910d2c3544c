//! Why a notebook could not do what was asked.

use crate::record;
use std::io;
use std::path::{Path, PathBuf};

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a notebook could not do what was asked. Each text says what was attempted, on what, why it failed and
/// what to do next.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No notebook at this place.
    #[error(
        "cannot open the notebook `{}`: there is none; run a study first, or name another with --notebook",
        path.display()
    )]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A folder with other things in it.
    #[error(
        "cannot make a notebook of `{}`: it holds `{found}` and no `notebook.json`; name a new or empty folder \
         with --notebook",
        path.display()
    )]
    NotEmpty {
        /// The folder.
        path: PathBuf,
        /// One of the things in it.
        found: String,
    },
    /// Written by a later version of this program.
    #[error(
        "cannot read `{}`: it has schema {found}, and this is flyball {this}, which knows schemas up to {known}; \
         use {needed}",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u64,
        /// The newest schema that this program knows.
        known: u64,
        /// The version of this program.
        this: &'static str,
        /// Which version to use, in words: `flyball 0.7.0 or newer`.
        needed: String,
    },
    /// Not what this program writes: torn, edited or somebody else's.
    #[error("cannot read `{}`: {reason}", path.display())]
    Damaged {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it, with the line where there is one.
        reason: String,
    },
    /// The system said no.
    #[error("cannot {doing} `{}`: {source}{}", path.display(), next_step(source))]
    Io {
        /// What was attempted: `write`, `make durable`.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Another process measures this run.
    #[error(
        "cannot open the run `{run}`: {} is measuring it; wait until it ends, or stop it first",
        holder(*pid)
    )]
    RunBusy {
        /// Which run.
        run: String,
        /// The process, where its lock names one.
        pid: Option<u32>,
    },
    /// Somebody else holds a lock that is only ever held for moments.
    #[error("cannot lock `{}`: another process holds it for more than {limit:?}; see who with `fuser`", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How long was waited.
        limit: std::time::Duration,
    },
    /// It is there already, and nothing in a notebook is written twice.
    #[error("cannot store `{}`: it is there already, and what was measured is never overwritten", path.display())]
    Exists {
        /// What is there.
        path: PathBuf,
    },
    /// A name that cannot be a folder's.
    #[error("cannot store `{name}`: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A value that cannot be stored, since reading it would give another.
    #[error(
        "cannot store the trial {trial}: its {what} is {value}, which is not a number that a tool can have measured"
    )]
    NotANumber {
        /// The trial.
        trial: String,
        /// Which value.
        what: String,
        /// It.
        value: f64,
    },
    /// Nothing goes by this name.
    #[error("cannot find a run for `{wanted}`: {reason}{}", suggestions(near))]
    NoSuchRun {
        /// What was asked for.
        wanted: String,
        /// Why nothing fits.
        reason: String,
        /// The names that come nearest, nearest first.
        near: Vec<String>,
    },
    /// A trace that could not be written.
    #[error("cannot write the trace `{}`: {reason}", path.display())]
    TraceNotWritten {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Root would write where somebody else decides what a name leads to.
    #[error("cannot write into `{}` as root: {why}", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// Who may change it, and what to do.
        why: String,
    },
    /// The index failed, and could not be made again.
    #[error("cannot use the index `{}`: {source}; it can be deleted without loss", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}

impl Error {
    /// For `map_err`: what was attempted, on what.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { doing, path: path.to_owned(), source }
    }

    pub(crate) fn foreign(path: &Path, why: impl ToString) -> Error {
        Error::Foreign { path: path.to_owned(), why: why.to_string() }
    }

    pub(crate) fn damaged(path: &Path, reason: impl ToString) -> Error {
        Error::Damaged { path: path.to_owned(), reason: reason.to_string() }
    }

    /// A trace that could not be read.
    pub(crate) fn of_trace(path: &Path, error: trace_file::Error) -> Error {
        match error {
            trace_file::Error::Newer { found, written_by } => Error::newer(path, found, written_by),
            other => Error::damaged(path, other),
        }
    }

    /// A file that a later version of this program wrote.
    pub(crate) fn newer(path: &Path, found: u64, written_by: Option<String>) -> Error {
        Error::Newer {
            path: path.to_owned(),
            found,
            known: record::SCHEMA,
            this: record::PROGRAM,
            needed: trace_file::needed(written_by.as_deref()),
        }
    }

    /// Why, without the path; for a [`crate::Problem`], which carries the path itself.
    pub(crate) fn reason(&self) -> String {
        match self {
            Error::Damaged { reason, .. } => reason.clone(),
            Error::Io { doing, source, .. } => format!("cannot {doing} it: {source}"),
            other => other.to_string(),
        }
    }
}

impl From<files::Error> for Error {
    fn from(error: files::Error) -> Self {
        match error {
            files::Error::Io { action, path, source } => Self::Io { doing: action, path, source },
            files::Error::Locked { path, limit } => Self::Locked { path, limit },
            files::Error::Exists { path } => Self::Exists { path },
            files::Error::Untrusted(why) => {
                Self::Foreign { path: why.path().to_owned(), why: why.to_string() }
            }
            files::Error::Full { path, reason } => Self::Damaged { path, reason },
        }
    }
}

fn next_step(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space there, or name another notebook with --notebook (all earlier trials are safe)"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; name a notebook on a writable file system with --notebook",
        io::ErrorKind::PermissionDenied => "; run as its owner, or name another notebook with --notebook",
        io::ErrorKind::InvalidFilename => "; give the study's levels shorter names",
        _ => "",
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or("another flyball".to_owned(), |pid| format!("another flyball (pid {pid})"))
}

fn suggestions(near: &[String]) -> String {
    if near.is_empty() {
        return "; `flyball list` shows all".to_owned();
    }
    let names: Vec<String> = near.iter().map(|n| format!("`{n}`")).collect();
    format!("; did you mean {}?", names.join(" or "))
}
