//! What happens next: the bank's queue of events, ordered by time and then by when they were planned.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A point in virtual time, in nanoseconds. Inside the model bare; [`domain::time::Nanos`] at its edge.
pub(super) type Time = u64;

/// Something that happens to one drive.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A cable that was taken is free: commands may start.
    Admit,
    /// The controller has understood this command.
    Understood(u32),
    /// This command's data may be put on the link.
    Transfer(u32),
    /// This command's data is across the link.
    Across(u32),
    /// A hard disk's mechanism has done what it was at.
    Mechanism,
    /// A hard disk may have been idle for so long that it writes what it holds.
    Idle,
    /// A die is done with what it was at.
    Die(u32),
    /// A page read from flash is in the controller.
    PageRead(u32),
    /// A page is across the link.
    PageAcross(u32),
    /// A flush has also written the map.
    Flushed(u32),
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    at: Time,
    order: u64,
    drive: u32,
    event: Event,
}

impl Planned {
    const fn key(&self) -> (Time, u64) {
        (self.at, self.order)
    }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Planned {}
impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Planned {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// The queue. Its memory grows to the most events that were ever planned at once, and stays.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<Planned>>,
    order: u64,
}

impl Events {
    pub(super) fn plan(&mut self, at: Time, drive: u32, event: Event) {
        self.order += 1;
        self.heap.push(Reverse(Planned { at, order: self.order, drive, event }));
    }

    pub(super) fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(planned)| planned.at)
    }

    /// The next event, where it is not later than `now`.
    pub(super) fn take(&mut self, now: Time) -> Option<(Time, u32, Event)> {
        if self.next_at()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(planned)| (planned.at, planned.drive, planned.event))
    }
}
