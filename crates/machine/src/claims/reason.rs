//! What stands against overwriting a device.

use super::seen::Moment;
use super::signatures::Signature;
use serde::Serialize;
use std::fmt;

/// One thing that stands against it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// It, or a part of it, is in use.
    InUse(Use),
    /// Something is on it.
    Holds(Signature),
    /// It is not empty, and no known signature says what it is.
    Data,
    /// A signature is on it that was not seen.
    Came {
        /// Which.
        signature: Signature,
        /// Since when.
        since: Moment,
    },
    /// A signature says something else than the one that was seen in its place.
    Another {
        /// What was seen.
        was: Signature,
        /// What is there now.
        is: Signature,
        /// Since when.
        since: Moment,
    },
    /// A signature that was seen is there no more.
    Gone {
        /// Which.
        signature: Signature,
        /// Since when.
        since: Moment,
    },
    /// Its beginning or end is not what was seen.
    Changed {
        /// Which.
        part: Part,
        /// Since when.
        since: Moment,
    },
    /// What lies between is not what was seen.
    Samples {
        /// How many samples differ.
        differ: u64,
        /// Of how many.
        of: u64,
        /// Since when.
        since: Moment,
    },
    /// A run overwrote it, and ended before it had looked at what it left.
    Unfinished,
}

/// One of the two parts of a disk that are read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The first 8 MiB.
    Head,
    /// The last MiB.
    Tail,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::InUse(how) => how.fmt(f),
            Reason::Holds(signature) => write!(f, "it holds {signature}"),
            Reason::Data => f.write_str("it holds unknown data (`data`)"),
            Reason::Came { signature, since } => write!(f, "{signature} has come {since}"),
            Reason::Another { was, is, since } => write!(f, "{was} has become {is} {since}"),
            Reason::Gone { signature, since } => write!(f, "{signature} has gone {since}"),
            Reason::Changed { part: Part::Head, since } => write!(f, "its first 8 MiB have changed {since}"),
            Reason::Changed { part: Part::Tail, since } => write!(f, "its last MiB has changed {since}"),
            Reason::Samples { differ, of, since } => {
                write!(f, "its contents have changed {since}: {differ} of {of} samples differ")
            }
            Reason::Unfinished => f.write_str(
                "the last run that overwrote it did not come to write down what it left there, so that nobody can tell \
                 what of it is Flyball's",
            ),
        }
    }
}

/// How a device is in use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "use", rename_all = "snake_case")]
pub enum Use {
    /// It, or a partition of it, is mounted.
    Mounted {
        /// The device or partition.
        device: String,
        /// Where, as that namespace sees it.
        mountpoint: String,
        /// A process that sees it there, where we do not.
        seen_by: Option<u32>,
    },
    /// It, or a partition of it, is swapped to.
    Swap {
        /// The device or partition.
        device: String,
    },
    /// A running array has it as a member or spare.
    Array {
        /// The device or partition.
        device: String,
        /// `md0`.
        array: String,
    },
    /// A mapping stands on it.
    Mapping {
        /// The device or partition.
        device: String,
        /// `dm-0`.
        mapping: String,
        /// `vg-lv`.
        name: String,
        /// Whose it is: `LVM`, `CRYPT`; empty where it does not say.
        owner: String,
    },
    /// Some other device stands on it.
    Holder {
        /// The device or partition.
        device: String,
        /// Its name.
        holder: String,
    },
    /// A mounted btrfs has it as one of its devices.
    Btrfs {
        /// The device or partition.
        device: String,
        /// The filesystem.
        uuid: String,
    },
    /// Something has it open for itself alone, and nothing says what.
    Exclusive,
    /// Another process has it, or a partition of it, open.
    Open {
        /// The device or partition.
        device: String,
        /// The process.
        pid: u32,
        /// Its name.
        command: String,
    },
    /// Another program has locked it.
    Locked,
    /// It cannot be written.
    ReadOnly,
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Use::Mounted { device, mountpoint, seen_by: None } => {
                write!(f, "`{device}` is mounted on `{mountpoint}`")
            }
            Use::Mounted { device, mountpoint, seen_by: Some(pid) } => {
                write!(f, "`{device}` is mounted on `{mountpoint}` in the mount namespace of process {pid}")
            }
            Use::Swap { device } => write!(f, "`{device}` is in use as swap"),
            Use::Array { device, array } => {
                write!(f, "`{device}` is a member of the running array `{array}`")
            }
            Use::Mapping { device, mapping, name, owner } => {
                let owner = if owner.is_empty() { "device mapper" } else { owner };
                write!(f, "`{device}` is below the open mapping `{name}` ({mapping}, {owner})")
            }
            Use::Holder { device, holder } => write!(f, "`{device}` is held by `{holder}`"),
            Use::Btrfs { device, uuid } => {
                write!(f, "`{device}` is a device of the mounted btrfs {uuid}")
            }
            Use::Exclusive => f.write_str("something has it open exclusively"),
            Use::Open { device, pid, command } => {
                write!(f, "`{device}` is open in process {pid} (`{command}`)")
            }
            Use::Locked => f.write_str("another program has locked it (flock)"),
            Use::ReadOnly => f.write_str("it is read-only"),
        }
    }
}
