//! Disk models: when a request that arrives now is done.
//!
//! A [`DiskSet`] holds disks and the links that some of them share. It is told of requests
//! ([`DiskSet::submit`]), asked when something happens next ([`DiskSet::next_event`]), and moved on
//! ([`DiskSet::advance`]); a discrete-event simulator and a real-time server both drive it so. A request's
//! time is not known when it arrives: a disk with a command queue serves it in an order that depends on what
//! arrives later.
//!
//! Goals: integer nanoseconds, the same times for the same requests, no allocation per request once the
//! queues have grown. Not goals: errors, power, vibration, and the data itself, which these models never see.
//!
//! A server (the lab's) and a simulator (`sim`) are built on this crate; it knows neither. Files that a user
//! names are theirs to read: this crate takes their text.
//!
//! What is modelled, and what is left out, stands with each kind: [`spec`] for the parameters, `hdd` and
//! `ssd` for the machinery. `docs/DISK-FORMAT.md` is the reference of the files.

pub mod closed_loop;
mod disk_set;
mod drive;
mod events;
mod hdd;
mod link;
pub mod shipped;
pub mod spec;
mod ssd;

pub use disk_set::DiskSet;
pub use spec::{DiskSpec, LinkSpec};

use domain::time::Nanos;
use domain::units::Bytes;
use thiserror::Error;

/// What is asked of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read a range.
    Read,
    /// Write a range; done when the disk says so, which with a write cache is before it is on the medium.
    Write,
    /// All writes that were answered before this was submitted are on the medium when this is answered.
    Flush,
    /// The range holds nothing of value any more (TRIM, UNMAP).
    Discard,
}

/// A request to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The caller's own number for it, handed back with its completion; the model gives it no meaning.
    pub id: u64,
    /// What is asked.
    pub op: Op,
    /// Forced unit access: a write is answered when it is on the medium. Without effect on other requests.
    pub fua: bool,
    /// Where it begins, from the start of the disk. Without meaning for a flush.
    pub offset: Bytes,
    /// How long it is. Without meaning for a flush.
    pub len: Bytes,
}

/// A request that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Which disk of the bank, in the order in which they were added.
    pub disk: usize,
    /// The request's own number.
    pub id: u64,
    /// When it was submitted.
    pub submitted: Nanos,
    /// When it was done.
    pub at: Nanos,
}

/// Why a request was not taken; the disk is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// A read, write or discard of nothing.
    #[error("a request of no bytes")]
    Empty,
    /// It reaches beyond the disk's end.
    #[error("a request beyond the end of the disk: {len} bytes at {offset} of {size}")]
    BeyondEnd {
        /// Where it begins, in bytes.
        offset: u64,
        /// Its length in bytes.
        len: u64,
        /// The disk's size in bytes.
        size: u64,
    },
    /// It does not begin and end at a logical block.
    #[error("a request that is not aligned to blocks of {block} bytes: {len} bytes at {offset}")]
    Unaligned {
        /// Where it begins, in bytes.
        offset: u64,
        /// Its length in bytes.
        len: u64,
        /// The logical block in bytes.
        block: u64,
    },
    /// The bank has no disk of this number.
    #[error("the bank has no disk {0}")]
    NoSuchDisk(usize),
}
