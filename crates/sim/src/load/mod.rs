//! What a load asks for: which requests, in which order, until when, without knowing who carries them out.
//!
//! A study's workload becomes a [`FioJob`], a [`DdLoad`] or Bonnie's phases ([`bonnie`]), a recorded trace a [`Trace`]. Options whose effect on timing
//! is not modelled are errors that name them: a simulation that passed one over would answer another question.

pub mod bonnie;
mod dd;
mod draws;
mod fio;
mod offsets;
mod stream;
mod trace;
mod value;
mod visited;

pub use dd::{Copied, DdLoad, DdRequests};
pub use draws::{Draws, Seeding};
pub use fio::{
    Advice, Caching, Depth, Ending, Engine, FioJob, Pace, PerDirection, Rate, Replay, SyncedWrites, Syncs,
    Think, ThinkAfter,
};
pub use offsets::{
    Access, Ask, BlockSizes, Coverage, Distribution, Mix, Pattern, PatternSpec, RunOf, Span, Zone,
};
pub use stream::{Step, Stream};
pub use trace::{
    BlkEvent, Trace, TraceAction, TraceError, TraceRequest, read as read_trace, read_blkparse, read_iolog,
};

use thiserror::Error;

/// The metrics that a fio workload reports on a host, which a simulated one has to report by the same names.
pub const FIO_METRICS: [&str; 14] = [
    "elapsed",
    "throughput",
    "iops",
    "read_throughput",
    "read_iops",
    "write_throughput",
    "write_iops",
    "latency_mean",
    "latency_p50",
    "latency_p99",
    "latency_p999",
    "cpu_user",
    "cpu_system",
    "context_switches",
];

/// The metrics that a dd workload reports on a host.
pub const DD_METRICS: [&str; 3] = ["throughput", "iops", "elapsed"];

/// A workload's option that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot simulate `{option} = {value}` of {tool}: {why}")]
pub struct LoadError {
    /// Whose option it is.
    pub tool: &'static str,
    /// The option.
    pub option: String,
    /// Its value.
    pub value: String,
    /// Why not.
    pub why: String,
}
