//! What block devices were asked for, as events show: requests, how long each waited in the queue of its
//! device, and how long the device took.

use crate::time::Nanos;
use crate::took::Took;

/// Under which a trial's environment says by what was summed up how long devices took, where no events were
/// recorded.
pub const TIMES_FROM: &str = "times_of_devices";

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It discards, or erases.
    Discard,
    /// It empties the device's cache.
    Flush,
    /// Anything else.
    Other,
}

impl Op {
    /// All of them.
    pub const ALL: [Op; 5] = [Op::Read, Op::Write, Op::Discard, Op::Flush, Op::Other];

    /// As it is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Discard => "discard",
            Op::Flush => "flush",
            Op::Other => "other",
        }
    }

    /// The operation of such a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }
}

/// What one device did of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Requests that completed; of a layer without requests (md, dm), bios.
    pub count: u64,
    /// Their sectors of 512 B.
    pub sectors: u64,
    /// From the bio that a request begins with to the driver.
    pub queue: Took,
    /// In the driver and the device.
    pub service: Took,
    /// Of a layer of bios alone: from queueing to completion.
    pub whole: Took,
}

impl Served {
    /// Adds what it did at another time.
    pub fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sectors = self.sectors.saturating_add(other.sectors);
        self.queue.merge(&other.queue);
        self.service.merge(&other.service);
        self.whole.merge(&other.whole);
    }

    /// The mean time of one, queue and service together; of a layer the whole.
    pub fn mean(&self) -> Option<Nanos> {
        let parts = Some(self.queue.mean().unwrap_or(Nanos::ZERO).saturating_add(self.service.mean()?));
        self.whole.mean().or(parts)
    }
}
