//! Why a setting, or the ledger that guards it, said no.

use std::io;
use std::path::PathBuf;

/// Everything that can go wrong while a machine is changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No setting has this name.
    #[error("there is no setting `{name}`; {}`flyball settings` lists them, and a whole path under /sys or /proc/sys is one too", nearest.as_ref().map(|n| format!("did you mean `{n}`? ")).unwrap_or_default())]
    UnknownSetting {
        /// As it was typed.
        name: String,
        /// The known name that is written most like it, where one is near.
        nearest: Option<String>,
    },
    /// A sysctl that is not here, and is written almost as one that is.
    #[error(
        "there is no sysctl `{name}`: `{folder}` is here and has no such file; did you mean `{nearest}`?"
    )]
    NoSysctl {
        /// As it was typed.
        name: String,
        /// The folder that is there.
        folder: String,
        /// The sysctl beside it that was meant.
        nearest: String,
    },
    /// A governor's tunable, or an I/O scheduler's, that is not here, that no kernel is known to have, and
    /// that is written almost as one that is.
    #[error("there is no setting `{name}`: {whose} has no such tunable; did you mean `{nearest}`?")]
    NoTunable {
        /// As it was typed.
        name: String,
        /// Which governor, or any scheduler.
        whose: String,
        /// The setting that was meant.
        nearest: String,
    },
    /// A value that is none of the names that a setting is known to take, and is written almost as one of
    /// them.
    #[error("cannot set `{setting}` to `{value}`: there is none of that name; did you mean `{nearest}`?")]
    NoSuchName {
        /// The setting.
        setting: String,
        /// As it was typed.
        value: String,
        /// The name that was meant.
        nearest: String,
    },
    /// The setting exists, but not on this machine, or not now.
    #[error("cannot use the setting `{setting}` here: {reason}")]
    Unsupported {
        /// The setting, with its object.
        setting: String,
        /// What is missing.
        reason: String,
    },
    /// A block device's setting without a block device.
    #[error(
        "the setting `{setting}` belongs to a block device, and this study has none; name one: `{setting}@sda`"
    )]
    NeedsDevice {
        /// The setting.
        setting: String,
    },
    /// A value that the setting cannot mean.
    #[error("cannot set `{setting}` to `{value}`: {reason}")]
    BadValue {
        /// The setting.
        setting: String,
        /// As it was typed.
        value: String,
        /// What it takes.
        reason: String,
    },
    /// Writing there is an act that cannot be taken back.
    #[error("`{path}` is not a setting: {reason}; Flyball writes only what it can put back")]
    NotASetting {
        /// The file.
        path: String,
        /// What writing it does.
        reason: String,
    },
    /// A value could not be read, so it could not be put back either.
    #[error("cannot read `{setting}` before changing it: `{path}`: {source}; nothing was written")]
    Read {
        /// The setting, with its object.
        setting: String,
        /// The file.
        path: String,
        /// As the kernel gave it.
        source: io::Error,
    },
    /// The kernel refused a value.
    #[error("cannot set `{setting}` to `{value}`: `{path}`: {source}{hint}")]
    Write {
        /// The setting, with its object.
        setting: String,
        /// The value as it was written.
        value: String,
        /// The file.
        path: String,
        /// As the kernel gave it.
        source: io::Error,
        /// What to do next, beginning with `; `; empty where nothing is known.
        hint: String,
    },
    /// The kernel accepted a value and then showed another.
    #[error(
        "`{setting}` did not take `{asked}`: `{path}` reads `{got}`; it was put back, ask for a value that this machine has"
    )]
    NotTaken {
        /// The setting, with its object.
        setting: String,
        /// The file.
        path: String,
        /// What was written.
        asked: String,
        /// What it read back as.
        got: String,
    },
    /// The kernel keeps the strictest of all limits, and somebody else's is stricter.
    #[error(
        "cannot hold `{setting}` at `{asked}`: `{path}` reads `{got}`, for another process holds a stricter limit; find it with `fuser -v {path}` and stop it, or ask for no more than that"
    )]
    HeldStricter {
        /// The setting.
        setting: String,
        /// The device.
        path: String,
        /// What was asked for.
        asked: String,
        /// What is in force.
        got: String,
    },
    /// A change failed, and not everything before it could be put back.
    #[error("{cause}; and not everything could be put back: {left}; run `flyball restore`")]
    NotUndone {
        /// Why the change failed.
        cause: Box<Error>,
        /// What is still changed, and why.
        left: String,
    },
    /// Another Flyball is changing this machine.
    #[error("another Flyball{} is changing this machine (it holds `{}`); wait for it to end, or see `flyball status`", pid.map(|p| format!(", process {p},")).unwrap_or_default(), path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
        /// Who holds it, where it has written that down.
        pid: Option<u32>,
    },
    /// The ledger's own folder or file.
    #[error("cannot {what} `{}`: {source}; nothing on this machine is changed without it", path.display())]
    State {
        /// What was attempted.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A file or folder in which the ledger is kept.
    #[error("{0}; nothing on this machine is changed without it")]
    Kept(#[from] files::Error),
    /// The state folder, where somebody else decides what its name leads to.
    #[error("cannot use the state folder: {0}")]
    Untrusted(#[from] files::trust::Untrusted),
    /// Another version of this program has written to the ledger, or to the record of lasting changes.
    #[error("cannot use {what}; nothing was touched; {}", use_that(undo, by.as_deref()))]
    NotUnderstood {
        /// On what, which part of it, and what it says.
        what: String,
        /// The version of the Flyball that wrote it, where it says one.
        by: Option<String>,
        /// The command by which that one undoes it.
        undo: &'static str,
    },
    /// A change may have been lost.
    #[error("{what}; {undone}; nothing is changed before that is seen to: run `flyball restore`")]
    Damaged {
        /// What is damaged.
        what: String,
        /// What became of the changes that are known.
        undone: String,
    },
    /// A file or loop device of our own.
    #[error("cannot {what} `{}`: {source}{hint}", path.display())]
    Own {
        /// What was attempted.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
        /// What to do next, beginning with `; `.
        hint: &'static str,
    },
    /// A claimed disk.
    #[error(transparent)]
    Claim(#[from] crate::claims::ClaimError),
    /// The process that watches over this one.
    #[error("cannot start the supervisor `{}`: {source}; without it a killed run would leave its settings changed until the next start", program.display())]
    Supervisor {
        /// The program that was started.
        program: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// How to go on where another version has written something down that `undo` takes back.
pub(crate) fn use_that(undo: &str, by: Option<&str>) -> String {
    match by {
        Some(by) if by != env!("CARGO_PKG_VERSION") => {
            format!("undo it with the Flyball that wrote it: `{undo}` of version {by}")
        }
        _ => format!(
            "undo it with the Flyball that wrote it (`{undo}`); where that is not known, look at the file, put back by \
             hand what it names, and move it away"
        ),
    }
}
