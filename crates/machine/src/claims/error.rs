//! Why a disk is not claimed, not overwritten, or not given back.

use super::reason::Reason;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// What was to be done with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Look at it.
    Examine,
    /// Claim it.
    Claim,
    /// Overwrite it.
    Overwrite,
    /// Write back what was there when it was claimed.
    GiveBack,
    /// Erase what Flyball has left on it.
    Erase,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Doing::Examine => "examine",
            Doing::Claim => "claim",
            Doing::Overwrite => "overwrite",
            Doing::GiveBack => "give back",
            Doing::Erase => "erase what Flyball has left on",
        })
    }
}

/// Everything that says no. Whatever it is, nothing was written to the device.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The path leads to nothing, or to nothing that is a whole disk.
    #[error("cannot {doing} `{}`: {reason}", path.display())]
    NoDisk {
        /// What was attempted.
        doing: Doing,
        /// On what.
        path: PathBuf,
        /// Why not, and what to do next.
        reason: String,
    },
    /// Something on it, or something that uses it, is not to be lost. All of it, not only the first.
    #[error("cannot {doing} `{}`: {}; nothing was written; {hint}", path.display(), listed(reasons))]
    Refused {
        /// What was attempted.
        doing: Doing,
        /// On what.
        path: PathBuf,
        /// Everything that stands against it.
        reasons: Vec<Reason>,
        /// What to do next.
        hint: String,
    },
    /// It has no claim.
    #[error("cannot {doing} `{}`: it is not claimed; look at it and claim it: `flyball claim {}`", path.display(), path.display())]
    NotClaimed {
        /// What was attempted.
        doing: Doing,
        /// On what.
        path: PathBuf,
    },
    /// The claim is about another device.
    #[error("cannot {doing} `{}`: it is not the device that was claimed: {differences}; nothing was written; {hint}", path.display())]
    AnotherDevice {
        /// What was attempted.
        doing: Doing,
        /// On what.
        path: PathBuf,
        /// What differs.
        differences: String,
        /// What to do next.
        hint: String,
    },
    /// It is claimed already.
    #[error("cannot claim `{}`: {reason}; give it back (`--give-back`), or give up the claim and leave the device as it is (`--forget`)", path.display())]
    AlreadyClaimed {
        /// On what.
        path: PathBuf,
        /// What the claim says.
        reason: String,
    },
    /// The device, or what the system tells of it, cannot be read or written.
    #[error("cannot {what} `{}`: {source}{hint}", path.display())]
    Device {
        /// What was attempted.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
        /// What to do next, beginning with `; `.
        hint: &'static str,
    },
    /// The signatures on it cannot be found out.
    #[error("cannot find out what is on `{}`: `wipefs`: {reason}; without it nothing is overwritten: install util-linux", path.display())]
    Wipefs {
        /// On what.
        path: PathBuf,
        /// Why it failed.
        reason: String,
    },
    /// The claim itself.
    #[error("cannot {what} `{}`: {source}; without the claim on the disk nothing is overwritten", path.display())]
    State {
        /// What was attempted.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A claim of before what was on the disk was written down.
    #[error("cannot {doing} `{}`: its claim was made by an older Flyball, which did not write down what was on the disk, so that nobody can tell what has come to it since; nothing was written; look at it, and claim it anew: `flyball claim {} --forget`, then `flyball claim {}{}`", path.display(), path.display(), path.display(), overwriting(kinds))]
    Outdated {
        /// What was attempted.
        doing: Doing,
        /// On what.
        path: PathBuf,
        /// What is on it now, in the words of `--overwrite`.
        kinds: BTreeSet<String>,
    },
    /// A claim that a newer version has written.
    #[error("cannot read the claim `{}`: {written_by} wrote it, in a newer form ({schema}) than this one knows ({known}); nothing was touched; use that version, or give the disk back with it", path.display(), known = super::SCHEMA)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        schema: u64,
        /// Who says to have written it.
        written_by: String,
    },
    /// What Flyball knows its own superblocks by cannot be used.
    #[error("cannot use the secret `{}`, by which Flyball knows what it has left on disks: {reason}; nothing was written; mend that, or remove it: then what was left counts as somebody else's", path.display())]
    Secret {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A claim that cannot be understood.
    #[error("cannot read the claim `{}`: {reason}; nothing is overwritten while it stands; look at the device, then remove the file", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// The option that names these, with a space before it.
pub(super) fn overwriting(kinds: &BTreeSet<String>) -> String {
    let words: Vec<&str> = kinds.iter().map(String::as_str).collect();
    if words.is_empty() { String::new() } else { format!(" --overwrite {}", words.join(",")) }
}

fn listed(reasons: &[Reason]) -> String {
    reasons.iter().map(ToString::to_string).collect::<Vec<String>>().join("; ")
}
