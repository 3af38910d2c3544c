//! What happens at a time, and what happens at once.

use super::ids::{BioId, PartId};
use crate::cpu::Cost;

/// What happens at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Timer(PartId, u64),
    /// A CPU is through with a piece of work: its alarm.
    Executed(u32),
    Tick(u32),
    /// The kworker of a CPU's governor has something to do.
    GovernorWork(u32),
    /// A CPU that loops while it is idle has done so for long enough.
    PollOver(u32),
    /// RCU's thread has something to do.
    GracePeriod,
    /// A policy's request takes effect, unless there was a later one.
    Frequency {
        policy: u32,
        generation: u32,
    },
    /// The hardware looks at who shares turbo's budget.
    Budget,
    /// A policy's hardware looks at it.
    Hardware(u32),
    /// Row of the trace.
    Sample,
}

/// What is to happen now, after the call that asked for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Submit(BioId),
    Done(BioId),
    Worked(PartId, u64),
    Unplug(PartId),
    Charge(Cost),
}
