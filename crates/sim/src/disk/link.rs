//! Links: what a transfer occupies, for how long, and who waits for a cable.

use super::events::{Event, Events};
use super::spec::LinkSpec;
use crate::queue::Time;
use domain::units::Bytes;
use std::collections::VecDeque;

/// How long bytes take at a rate, in nanoseconds, rounded up.
pub(super) fn span_of(bytes: u64, rate: Bytes) -> Time {
    // Below 2^34 bytes the product fits in 64 bits, where a division is several times faster.
    if bytes < 1 << 34 {
        return (bytes * 1_000_000_000).div_ceil(rate.get());
    }
    (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.get())) as Time
}

/// A disk's own port.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) rate: Bytes,
    free_at: Time,
    /// The link behind it, by its number in the bank.
    pub(super) link: Option<usize>,
}

impl Port {
    pub(super) const fn new(rate: Bytes, link: Option<usize>) -> Self {
        Self { rate, free_at: 0, link }
    }

    /// Occupies the port, and the link where there is one, with bytes that are ready now; when they are across.
    pub(super) fn transfer(&mut self, now: Time, bytes: u64, links: &mut [Link]) -> Time {
        let ready = now.max(self.free_at);
        let own = span_of(bytes, self.rate);
        let end = match self.link {
            None => ready + own,
            Some(link) => links[link].transfer(ready, bytes, own),
        };
        self.free_at = end;
        end
    }
}

/// A link that several disks share.
#[derive(Clone, Debug)]
pub(super) struct Link {
    spec: LinkSpec,
    free_at: Time,
    /// Which drive's command has the cable, where one at a time may.
    holder: Option<u32>,
    waiting: VecDeque<u32>,
}

impl Link {
    pub(super) fn new(spec: LinkSpec) -> Self {
        Self { spec, free_at: 0, holder: None, waiting: VecDeque::new() }
    }

    /// First come, first served. A link that is faster than the port carries others' bytes in between.
    fn transfer(&mut self, ready: Time, bytes: u64, at_port: Time) -> Time {
        let start = ready.max(self.free_at);
        let occupied = self.spec.transfer_time.get() + span_of(bytes, self.spec.rate);
        self.free_at = start + occupied;
        start + occupied.max(at_port)
    }

    /// Whether this drive's command may start now; where not, it is woken by [`Event::Admit`] later.
    pub(super) fn take(&mut self, drive: u32) -> bool {
        if !self.spec.one_command {
            return true;
        }
        if self.holder.is_none() && self.waiting.front().is_none_or(|first| *first == drive) {
            self.waiting.pop_front();
            self.holder = Some(drive);
            return true;
        }
        if !self.waiting.contains(&drive) {
            self.waiting.push_back(drive);
        }
        false
    }

    /// This drive's command is over.
    pub(super) fn release(&mut self, now: Time, drive: u32, events: &mut Events) {
        if self.holder != Some(drive) {
            return;
        }
        self.holder = None;
        if let Some(next) = self.waiting.front() {
            events.plan(now, (*next, Event::Admit));
        }
    }
}
