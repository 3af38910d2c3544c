//! Loads: what a study's workload asks of a simulated machine, and the threads that ask.
//!
//! | module | what it is |
//! |---|---|
//! | [`fio`], `dd`, `trace`, `replay` | what a tool asks for: its options read, then its requests, one after the other. They know no machine |
//! | [`jobs`] | who asks: threads that submit, wait and count. They are given any [`jobs::RequestSource`], which are those of the line above |
//! | [`bonnie`] | Bonnie's processes, phase by phase, with what each phase asks for |
//! | [`burner`] | threads that are busy for a share of the time, and ask for nothing |
//! | [`oltp`] | a database with sysbench's clients; it computes, and asks its disk for its log alone |
//! | `of_cell` | which of these a study's cell and the loads beside it are, with what it costs the cell's machine |
//!
//! A load on a bare disk model, without a machine around it, is `disks::closed_loop`.
//!
//! Options whose effect on timing is not modelled are errors that name them: a simulation that passed one
//! over would answer another question.

pub mod background;
pub mod bonnie;
pub mod burner;
mod dd;
pub mod fio;
pub mod jobs;
pub(crate) mod of_cell;
pub mod oltp;
mod options;
mod replay;
mod trace;

pub use dd::{Copied, DdLoad, DdRequests};
pub use replay::{ReplayTarget, Replayed};
pub use trace::{
    BlkEvent, Trace, TraceAction, TraceError, TraceRequest, read as read_trace, read_blkparse, read_iolog,
};

use domain::units::Bytes;
use thiserror::Error;

/// A read or a write of a range of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Whether it writes.
    pub write: bool,
    /// Where it begins on the target.
    pub offset: Bytes,
    /// How long it is; more than zero.
    pub len: Bytes,
}

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
