//! Why a change cannot last.

use super::record::PersistMethod;
use crate::settings;
use std::io;
use std::path::PathBuf;

/// Everything that can go wrong with a lasting change, beyond what any setting can.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The change itself.
    #[error(transparent)]
    Setting(#[from] settings::Error),
    /// A file that is not ours stands where ours would.
    #[error(
        "cannot write `{}`: a file is there that is not as Flyball wrote it; nothing was changed, move it away or merge it by hand", path.display()
    )]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// Another program would fight the value.
    #[error(
        "cannot make `{setting}` last: {rival} is active here and changes {changes}; switch it off (`systemctl disable --now {unit}`), or write it nevertheless with --ignore-rivals"
    )]
    Rival {
        /// The setting.
        setting: String,
        /// The program.
        rival: String,
        /// What it changes.
        changes: String,
        /// Its unit.
        unit: String,
    },
    /// The value cannot be said in the file that would carry it.
    #[error("cannot make `{setting}` last by {method}: {reason}")]
    Unfit {
        /// The setting.
        setting: String,
        /// What would carry it.
        method: PersistMethod,
        /// Why not, and what to do.
        reason: String,
    },
    /// A file of the configuration, or the record.
    #[error("cannot {what} `{}`: {source}{hint}", path.display())]
    File {
        /// What was attempted.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
        /// What to do next, beginning with `; `.
        hint: &'static str,
    },
    /// Another version of this program has written the record.
    #[error("cannot use {what}; nothing was touched; {}", settings::error::use_that("flyball tune --undo", by.as_deref()))]
    NotUnderstood {
        /// On what, and what is not understood of it.
        what: String,
        /// The version of the Flyball that wrote it, where it says one.
        by: Option<String>,
    },
    /// The record is no record.
    #[error(
        "cannot read the record of lasting changes `{}`: {reason}; it was left as it is, mend it, or move it away and remove the files that it names by hand", path.display()
    )]
    Damaged {
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It failed half-way, and could be taken neither back nor forward.
    #[error(
        "{cause}; the lasting change is decided but not complete: the next start of Flyball completes it, or run `flyball restore` now"
    )]
    Unfinished {
        /// Why.
        cause: Box<Error>,
    },
    /// It failed, and not everything could be put back.
    #[error("{cause}; and not everything could be put back: {left}; run `flyball restore`")]
    NotUndone {
        /// Why it failed.
        cause: Box<Error>,
        /// What is still changed.
        left: String,
    },
}
