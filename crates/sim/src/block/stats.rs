//! What block devices did.

use disks::Op;
use event_queue::Time;

/// What one block device did, as `/proc/diskstats` counts it (`Documentation/admin-guide/iostats.rst`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// `sda`, `md127`, `dm-0`.
    pub name: String,
    /// Completed reads, and their bytes and nanoseconds.
    pub reads: OpStats,
    /// Completed writes likewise.
    pub writes: OpStats,
    /// Completed flushes.
    pub flushes: u64,
    /// Requests begun and not done.
    pub in_flight: u64,
    /// Time with requests in flight, until `since`.
    pub busy_ns: u64,
    /// In flight times nanoseconds, until `since`.
    pub weighted_ns: u128,
    since: Time,
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpStats {
    /// How many.
    pub ios: u64,
    /// How many more were merged into them.
    pub merges: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their time from begin to end, summed, in nanoseconds.
    pub ns: u64,
}

impl DeviceStats {
    /// Nothing yet.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Brings the times up to now.
    pub fn catch_up(&mut self, now: Time) {
        let span = now - self.since;
        if self.in_flight > 0 {
            self.busy_ns += span;
            self.weighted_ns += u128::from(span) * u128::from(self.in_flight);
        }
        self.since = now;
    }

    pub(crate) fn start(&mut self, now: Time) {
        self.catch_up(now);
        self.in_flight += 1;
    }

    pub(crate) fn end(&mut self, now: Time, op: Op, bytes: u64, since: Time, merged: u64) {
        self.catch_up(now);
        self.in_flight -= 1;
        let kind = match op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            Op::Flush | Op::Discard => {
                self.flushes += u64::from(op == Op::Flush);
                return;
            }
        };
        kind.ios += 1;
        kind.merges += merged;
        kind.bytes += bytes;
        kind.ns += now - since;
    }
}
