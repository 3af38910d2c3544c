//! A fixed-interval sampler over kept descriptors.
//!
//! [`Recorder`] samples in a thread of its own: at each deadline it reads kernel files with `pread` into
//! fixed buffers and appends what has changed, raw, to a buffer that a second thread writes to the *spool
//! file*, so that a disk under load never holds the sampler up. [`Recording`] gives the spool its meaning
//! afterwards: a trace, row by row into a [`domain::Sink`], CPU time by role, the busiest threads, totals of
//! each disk.
//!
//! ```text
//! Recorder::start ─► Sampler ─► spool::Writer ─► file ─► replay ─┬► survey (columns, totals) ─► Recording
//!                                                              └► Live: rows while it is written
//! ```
//!
//! Invariants: the sampling loop neither parses nor allocates (finding new processes does); a row that could
//! not be taken is counted, never made up; a value that could not be read is `None`; memory is bounded by the
//! number of live threads and devices, not by the length of a recording.
//!
//! # How CPU time by role is known
//! Each process, and each thread of the kernel is one, has a clock that adds up all its threads, also those
//! that have ended: `clock_gettime` on the clock of its process id reads it in a fifth of a microsecond
//! without a descriptor. Roles are sums of these. New processes are found by the last thread id that
//! `/proc/loadavg` names: only ids that were given out since the last look are looked at. Single threads of
//! processes that have several are read more slowly, from kept `/proc/PID/task/TID/schedstat` descriptors,
//! for the list of the busiest threads alone.
//!
//! # What it cannot see
//! A process that lives shorter than an interval, and what a process runs between its last sample and its
//! end. For the workload [`Recording::set_cpu`] closes this gap with what `wait4` accounts. The time
//! of a thread that is running may be stale by up to one scheduler tick.

mod buffers;
mod clock;
mod columns;
mod decode;
mod event_rings;
mod live;
mod paced;
mod patch;
mod recorder;
mod recording;
mod replay;
mod request_sums;
mod sampler;
mod source;
mod spool;
mod survey;
mod task;
mod tasks;
mod texts;
mod threads;

pub use clock::children as children_cpu;
pub use clock::monotonic;
pub use event_rings::symbols::{append as name_functions, of as functions_at};
pub use event_rings::{Events, ring_bytes};
pub use live::Live;
pub use paced::Paced;
pub use recorder::{Interval, MAX_INTERVAL, MIN_INTERVAL, Recorder, RecorderConfig, Roots, ThreadScope};
pub use recording::Recording;
pub use spool::Writing;

use domain::Nanos;
use domain::lab::CONTROL_PORT_VARIABLE;
use std::io;
use std::path::PathBuf;

/// Why nothing could be recorded or read back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The interval is not one that the sampler keeps.
    #[error("cannot record every {0}: the interval has to be between {MIN_INTERVAL} and {MAX_INTERVAL}")]
    Interval(Nanos),
    /// The spool file cannot be made, written or read.
    #[error("cannot {action} the recording `{path}`: {error}; choose a writable folder with space left")]
    Spool {
        /// `create`, `write`, `read`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// The file is no spool of this version.
    #[error("cannot read `{0}`: it is not a recording of this version of flyball; record again")]
    Foreign(PathBuf),
    /// There is not even `/proc/stat`.
    #[error("cannot record: `{path}`: {error}; mount procfs on /proc")]
    NoProc {
        /// The file that every Linux has.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// The sampler's thread could not be started, or ended by itself.
    #[error("cannot run the sampler's thread: {0}; free memory or raise the limit on threads (ulimit -u)")]
    Thread(String),
    /// The virtual CPUs of a lab machine cannot be paced.
    #[error(
        "cannot pace the virtual CPUs of this lab machine: {0}; run as root, or unset {CONTROL_PORT_VARIABLE} to \
         record them unpaced"
    )]
    Pace(io::Error),
    /// A recorded text does not read as its format says.
    #[error("cannot read the sample at {time} of the recording `{path}`: {error}")]
    Text {
        /// The spool file.
        path: PathBuf,
        /// Time of the sample since the recording's start.
        time: Nanos,
        /// What is wrong with the text.
        error: parse::proc::Error,
    },
    /// The sink refused the trace.
    #[error(transparent)]
    Sink(#[from] domain::bench::SinkError),
}

/// What this crate returns.
pub type Result<T> = std::result::Result<T, Error>;
