//! Recordings of other tools, in the form of this crate's files.
//!
//! ```text
//! perf.data, trace.dat ── formats and raw records ─┐
//! perf script's text ── fields, encoded again ─────┴─► Writer ─► a file of ours ─► decode ─► who is whose
//! ```
//!
//! Each tool has a module with one function `convert`; what they share is here. What is neither a known
//! tracepoint nor a loss, nor says who a thread is, is passed over and counted.
//!
//! Not here: samples that follow from the events, and what is said of a file; both are the importer's.

mod bytes;
mod formats;
mod stacks;
mod tasks;
mod told;
mod writer;

pub(crate) use bytes::{Bytes, Section};
pub(crate) use formats::{Formats, MAGIC as FORMATS_MAGIC, event_formats, ftrace_formats, headers};
pub(crate) use stacks::{Gaps, Kernel, Names, Sampled, Threads, notes_of_clock, thread_name};
pub(crate) use tasks::{PERFS_CHILD, Tasks};
pub(crate) use told::{KTHREADD, Told};
pub(crate) use writer::Writer;

use domain::Nanos;
use parse::import::Kind;

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could be read, had it been written in another way.
    #[error("{0}")]
    Otherwise(String),
    /// What stands there cannot be meant.
    #[error("the {what} at byte {at} cannot be read")]
    Damaged {
        /// From the file's begin.
        at: u64,
        /// What was expected there.
        what: &'static str,
    },
    /// Its events cannot be read.
    #[error(transparent)]
    Events(#[from] crate::Error),
}

impl Error {
    pub(crate) fn otherwise(why: impl Into<String>) -> Self {
        Self::Otherwise(why.into())
    }
}

/// What a converted file is of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// The kernel's release, where the file states it.
    pub kernel: Option<String>,
    /// The host's name, where the file states it.
    pub host: Option<String>,
    /// The tool's version, where the file states it.
    pub version: Option<String>,
    /// The tool's command line, where the file states it.
    pub command: Vec<String>,
    /// How many records of known tracepoints there are.
    pub events: u64,
    /// How many call stacks of the clock there are.
    pub stacks: u64,
    /// From the first to the last of all these.
    pub span: Nanos,
    /// Records of anything else, which are left out.
    pub others: u64,
    /// What else is to be known of them.
    pub notes: Vec<String>,
}

/// Reads a whole file of a tool's, and appends it in the form of this crate's.
pub type Convert = fn(&[u8], &mut Vec<u8>) -> Result<Converted, Error>;

/// The same, with the functions of the kernel that recorded it: a copy of its `/proc/kallsyms`.
pub type ConvertNaming = fn(&[u8], &[u8], &mut Vec<u8>) -> Result<Converted, Error>;

/// What reads files of this kind with the names of functions beside them; `None` where files have the names
/// themselves.
pub fn converter_naming(kind: Kind) -> Option<ConvertNaming> {
    (kind == Kind::PerfData).then_some(crate::perf_data::convert_naming)
}

/// What reads files of this kind; `None` where they hold no events.
pub fn converter(kind: Kind) -> Option<Convert> {
    match kind {
        Kind::PerfData => Some(crate::perf_data::convert),
        Kind::TraceDat => Some(crate::trace_dat::convert),
        Kind::PerfScript => Some(crate::perf_script::convert),
        _ => None,
    }
}

/// What a tool would have to record for a file to be read: in the words of its own options.
pub(crate) const NO_TRACEPOINT: &str = "it has no event of a tracepoint that is read here";
