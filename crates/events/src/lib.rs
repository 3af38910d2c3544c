//! Recorded tracepoints: the form of their file, typed events in the order of time, and the facts that
//! follow from them.
//!
//! ```text
//! recorder ─► file (raw perf records, formats) ─► Tables ─┬► decode: merged by time ─► Event ─┬► Facts
//!                                                         └► call stacks ─► Subsystem: Profile ─┘
//! ```
//!
//! Invariants: no bytes, whatever they are, make anything here panic; an error names the offset; memory is
//! bounded by what was drained at two wake-ups and by the threads and requests that live, not by the length
//! of a recording; what was lost is counted, and what follows a loss is unknown until it is seen again.
//!
//! Not here: files (whoever has one opens it), and recording, which is `recorder`'s.

mod bios;
mod decode;
mod event;
pub mod facts;
mod file;
pub mod foreign;
mod held_off;
mod layout;
mod owner;
pub mod perf_data;
pub mod perf_script;
mod profile;
mod records;
mod requests;
mod served;
mod subsystem;
pub mod trace_dat;

pub use decode::{Losses, decode};
pub use domain::request::Op;
pub use event::{Comm, Context, Event, Left, Span, What};
pub use facts::Facts;
pub use file::{Device, HEADER, Head, Kind, Known, LONGEST_FRAME, MAGIC, Tables, Tracepoint, header};
pub use owner::Owner;
pub use requests::{Ended, InFlight};
pub use served::served_bytes;

use std::io;

/// Why a file of events cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input failed.
    #[error("cannot read the events: {0}")]
    Io(#[from] io::Error),
    /// It is something else, or of another version.
    #[error("it is no recording of events of this version of flyball")]
    Foreign,
    /// What stands there cannot be meant.
    #[error("the recording of events is damaged: the {what} at byte {at} cannot be read")]
    Damaged {
        /// From the file's begin.
        at: u64,
        /// What was expected there.
        what: &'static str,
    },
    /// A tracepoint's format cannot be read.
    #[error("cannot read the format of {name} at byte {at}: {error}")]
    Format {
        /// `group/name`.
        name: String,
        /// From the file's begin.
        at: u64,
        /// What is wrong with it.
        error: parse::kernel::Error,
    },
}

/// What this crate returns.
pub type Result<T> = std::result::Result<T, Error>;
