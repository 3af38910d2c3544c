//! A set of disks and the links that they share: the state machine that callers drive.

use crate::drive::Drive;
use crate::events::{Event, Events};
use crate::link::Link;
use crate::{Completed, DiskSpec, LinkSpec, Refused, Request};
use domain::rng::Seed;
use domain::time::Nanos;
use event_queue::Time;

/// Disks, and the links that some of them share, in one virtual time.
///
/// Time never runs back: a moment that lies before one already seen counts as that one.
#[derive(Clone, Debug)]
pub struct DiskSet {
    now: Time,
    drives: Vec<Drive>,
    shared: Shared,
    seed: Seed,
    handled: u64,
}

/// What the drives of a set have in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    pub(crate) events: Events,
    pub(crate) links: Vec<Link>,
    pub(crate) done: Vec<Completed>,
}

impl DiskSet {
    /// An empty set. The seed decides where each platter's angle is at the beginning, and what an SSD went
    /// through.
    pub fn new(seed: Seed) -> Self {
        Self { now: 0, drives: Vec::new(), shared: Shared::default(), seed, handled: 0 }
    }

    /// Adds a link; its number is how many were there before.
    pub fn add_link(&mut self, spec: &LinkSpec) -> usize {
        self.add_link_behind(spec, None)
    }

    /// Adds a link whose bytes then pass the link `next`, as a cable's pass the bus that its controller is
    /// on.
    ///
    /// # Panics
    /// Where the set has no such link.
    pub fn add_link_behind(&mut self, spec: &LinkSpec, next: Option<usize>) -> usize {
        let links = &mut self.shared.links;
        assert!(next.is_none_or(|next| next < links.len()), "a link on a link that is not there");
        links.push(Link::new(spec.clone(), next));
        links.len() - 1
    }

    /// Adds a disk, on a link or on its own; its number is how many were there before.
    ///
    /// # Panics
    /// Where the set has no such link.
    pub fn add_disk(&mut self, spec: &DiskSpec, link: Option<usize>) -> usize {
        assert!(link.is_none_or(|link| link < self.shared.links.len()), "a disk on a link that is not there");
        let index = self.drives.len();
        let rng = self.seed.stream(&format!("disk {index}"));
        self.drives.push(Drive::new(index as u32, spec, link, rng, &mut self.shared.events));
        index
    }

    /// Hands a request to a disk now. What happened until now is taken account of first.
    ///
    /// # Errors
    /// [`Refused`] where the disk has no such blocks; then nothing has changed but the time.
    pub fn submit(&mut self, now: Nanos, disk: usize, request: Request) -> Result<(), Refused> {
        self.run(now.get());
        let drive = self.drives.get_mut(disk).ok_or(Refused::NoSuchDisk(disk))?;
        drive.submit(self.now, request, &mut self.shared)
    }

    /// When something happens next, where anything will without a further request. A request may be done
    /// then, or a disk may only have come further with one.
    #[inline]
    pub fn next_event(&mut self) -> Option<Nanos> {
        match self.shared.done.is_empty() {
            true => self.shared.events.next_at().map(Nanos::new),
            false => Some(Nanos::new(self.now)),
        }
    }

    /// Moves on to now, and appends what is done to `done`, in the order of time.
    pub fn advance(&mut self, now: Nanos, done: &mut Vec<Completed>) {
        self.run(now.get());
        done.append(&mut self.shared.done);
    }

    /// Moves on to the first moment at which something is done, appends that to `done`, and says when it is;
    /// where nothing is done until `limit`, moves no further than what happens until then.
    #[inline]
    pub fn advance_to_done(&mut self, limit: Time, done: &mut Vec<Completed>) -> Option<Time> {
        while self.shared.done.is_empty() {
            let (at, (drive, event)) = self.shared.events.take_until(limit)?;
            self.now = self.now.max(at);
            self.handle(at, drive, event);
        }
        self.run(self.now);
        done.append(&mut self.shared.done);
        Some(self.now)
    }

    /// Moves on to the next moment at which something happens, if there is one until `limit`, and appends
    /// what is done then to `done`: when it is, and to how many disks something happens.
    pub fn advance_to_step(&mut self, limit: Time, done: &mut Vec<Completed>) -> Option<(Time, u32)> {
        if !self.shared.done.is_empty() {
            done.append(&mut self.shared.done);
            return Some((self.now, 0));
        }
        let (at, (first, event)) = self.shared.events.take_until(limit)?;
        self.now = self.now.max(at);
        self.handle(at, first, event);
        let (mut last, mut disks) = (first, 1);
        while let Some((at, (drive, event))) = self.shared.events.take_until(self.now) {
            disks += u32::from(std::mem::replace(&mut last, drive) != drive);
            self.handle(at, drive, event);
        }
        done.append(&mut self.shared.done);
        Some((self.now, disks))
    }

    /// How many events there were.
    pub const fn events(&self) -> u64 {
        self.handled
    }

    /// Requests that were taken and are not yet done, over all disks.
    pub fn in_flight(&self) -> usize {
        self.drives.iter().map(Drive::in_flight).sum()
    }

    fn run(&mut self, now: Time) {
        while let Some((at, (drive, event))) = self.shared.events.take_until(now) {
            self.now = self.now.max(at);
            self.handle(at, drive, event);
        }
        self.now = self.now.max(now);
    }

    fn handle(&mut self, at: Time, drive: u32, event: Event) {
        self.handled += 1;
        self.drives[drive as usize].handle(at, event, &mut self.shared);
    }
}
