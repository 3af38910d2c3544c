//! Links: what a transfer occupies, for how long, and who waits for a cable.

use crate::events::{Event, Events};
use crate::spec::LinkSpec;
use domain::units::Bytes;
use event_queue::Time;
use std::collections::VecDeque;

/// How long bytes take at a rate, in nanoseconds, rounded up.
pub(crate) fn span_of(bytes: u64, rate: Bytes) -> Time {
    // Below 2^34 bytes the product fits in 64 bits, where a division is several times faster.
    if bytes < 1 << 34 {
        return (bytes * 1_000_000_000).div_ceil(rate.get());
    }
    (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.get())) as Time
}

/// A disk's own port.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) rate: Bytes,
    free_at: Time,
    /// The link behind it, by its number in the bank.
    pub(crate) link: Option<usize>,
}

impl Port {
    pub(crate) const fn new(rate: Bytes, link: Option<usize>) -> Self {
        Self { rate, free_at: 0, link }
    }

    /// Occupies the port, and the link where there is one, with bytes that are ready now; when they are
    /// across.
    pub(crate) fn transfer(&mut self, now: Time, bytes: u64, links: &mut [Link]) -> Time {
        let ready = now.max(self.free_at);
        let own = span_of(bytes, self.rate);
        let end = match self.link {
            None => ready + own,
            Some(link) => transfer(links, link, ready, bytes, own),
        };
        self.free_at = end;
        end
    }
}

/// A link that several disks share. One behind the other are a chain: a cable, the bus that its controller is
/// on.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    spec: LinkSpec,
    /// The link behind it, by its number.
    next: Option<usize>,
    free_at: Time,
    /// Which drive's command has the cable, where one at a time may.
    holder: Option<u32>,
    waiting: VecDeque<u32>,
}

impl Link {
    pub(crate) fn new(spec: LinkSpec, next: Option<usize>) -> Self {
        Self { spec, next, free_at: 0, holder: None, waiting: VecDeque::new() }
    }

    fn may_take(&self, drive: u32) -> bool {
        let is_first = self.waiting.front().is_none_or(|first| *first == drive);
        !self.spec.one_command || (self.holder.is_none() && is_first)
    }

    fn hold(&mut self, drive: u32) {
        if self.spec.one_command {
            self.waiting.pop_front();
            self.holder = Some(drive);
        }
    }

    fn wait(&mut self, drive: u32) {
        if !self.waiting.contains(&drive) {
            self.waiting.push_back(drive);
        }
    }

    fn let_go(&mut self, now: Time, drive: u32, events: &mut Events) {
        if self.holder != Some(drive) {
            return;
        }
        self.holder = None;
        if let Some(next) = self.waiting.front() {
            events.plan(now, (*next, Event::Admit));
        }
    }
}

/// A chain of links, from the disk's side.
fn chain(links: &[Link], first: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(first), |link| links[*link].next)
}

/// First come, first served; bytes pass all links of the chain at once, at the rate of the slowest. A link
/// that is faster than the others carries other disks' bytes in between.
fn transfer(links: &mut [Link], first: usize, ready: Time, bytes: u64, at_port: Time) -> Time {
    let start = chain(links, first).fold(ready, |start, link| start.max(links[link].free_at));
    let mut longest = at_port;
    let mut next = Some(first);
    while let Some(number) = next {
        let link = &mut links[number];
        let occupied = link.spec.transfer_time.get() + span_of(bytes, link.spec.rate);
        link.free_at = start + occupied;
        longest = longest.max(occupied);
        next = link.next;
    }
    start + longest
}

/// Whether this drive's command may start now; where not, it is woken by [`Event::Admit`] later. All links of
/// the chain that want one command at a time are taken, or none.
pub(crate) fn take(links: &mut [Link], first: usize, drive: u32) -> bool {
    let taken = chain(links, first).find(|link| !links[*link].may_take(drive));
    if let Some(taken) = taken {
        links[taken].wait(drive);
        return false;
    }
    let mut next = Some(first);
    while let Some(number) = next {
        links[number].hold(drive);
        next = links[number].next;
    }
    true
}

/// This drive's command is over.
pub(crate) fn release(links: &mut [Link], first: usize, now: Time, drive: u32, events: &mut Events) {
    let mut next = Some(first);
    while let Some(number) = next {
        links[number].let_go(now, drive, events);
        next = links[number].next;
    }
}
