//! One thread: the disks of one link (or one disk alone), their model, and the transports through which they
//! are reached.
//!
//! It waits for the next thing at a transport or the model's next event, whichever is first, and never for
//! one thing alone. Waits end within a few tens of microseconds of their time (timer slack 1 ns); the last
//! [`SPIN`] of a wait is spent asking again and again.

use super::clock;
use super::model::{Drives, Refusal};
use crate::turns;
use domain::time::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long before its end a wait becomes asking again and again.
const SPIN: Nanos = Nanos::from_micros(20);

/// How a disk is reached: a transport's end here. Each transport belongs to one disk of the group, by number.
pub(super) trait Transport: Send + 'static {
    /// Whom an answer goes to, and what it is.
    type Ticket: Send + 'static;

    /// How much earlier than it is due an answer begins to be sent: what sending it and waking the client
    /// takes at least. A client that answers at once is then back when the model expects it.
    const LEAD: Nanos;

    /// Adds what is to be waited for.
    fn watch<'a>(&'a self, descriptors: &mut Vec<PollFd<'a>>);

    /// Takes what has come. What happened to what was watched is given in that order.
    fn serve(&mut self, ready: &[PollFlags], now: Nanos, drives: &mut Drives<Self::Ticket>);

    /// Sends an answer. A client that has left is not answered.
    fn answer(&mut self, ticket: Self::Ticket, refusal: Option<Refusal>, drives: &mut Drives<Self::Ticket>);
}

/// The disks of one thread.
pub(super) struct Group<D: Transport> {
    drives: Drives<D::Ticket>,
    /// By the disk's number.
    transports: Vec<D>,
    stop: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
}

impl<D: Transport> Group<D> {
    pub(super) const fn new(
        drives: Drives<D::Ticket>,
        transports: Vec<D>,
        stop: Arc<AtomicBool>,
        wake: Arc<OwnedFd>,
    ) -> Self {
        Self { drives, transports, stop, wake }
    }

    /// Serves until it is told to stop.
    pub(super) fn run(mut self) {
        // It sleeps nearly always, and what it is late by is time that the disk would not have taken.
        turns::first();
        // Where this is refused, waits end some 50 us later: the account will tell.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let (mut ready, mut ends, mut due) = (Vec::new(), Vec::new(), Vec::new());
        while !self.stop.load(Ordering::Acquire) {
            self.wait(&mut ready, &mut ends);
            self.drives.advance(clock::now() + D::LEAD, &mut due);
            for done in due.drain(..) {
                let (drive, deadline) = (done.drive, done.deadline());
                self.transports[drive].answer(done.ticket, done.refusal, &mut self.drives);
                self.drives.count_lateness(drive, deadline);
            }
            let now = clock::now();
            let mut start = 0;
            for (transport, end) in self.transports.iter_mut().zip(&ends) {
                transport.serve(&ready[start..*end], now, &mut self.drives);
                start = *end;
            }
        }
        // Its machine has flushed what it wanted to keep, or was killed.
        self.drives.cut_power();
    }

    /// Waits for the transports or for the model: what happened to what the transports watch, and where each
    /// transport's part ends.
    fn wait(&mut self, ready: &mut Vec<PollFlags>, ends: &mut Vec<usize>) {
        let deadline = self.drives.next_event().map(|at| at.saturating_sub(D::LEAD));
        let mut descriptors = Vec::with_capacity(ready.len());
        ends.clear();
        for transport in &self.transports {
            transport.watch(&mut descriptors);
            ends.push(descriptors.len());
        }
        descriptors.push(PollFd::new(&self.wake, PollFlags::IN));
        loop {
            let left = deadline.map(|deadline| deadline.saturating_sub(clock::now()));
            let timeout = left.map(|left| timespec(left.saturating_sub(SPIN)));
            // An interruption is a short wait; any other error is our own bug, and waiting would not end it.
            let woken = poll(&mut descriptors, timeout.as_ref()).unwrap_or(0);
            let due = deadline.is_some_and(|deadline| clock::now() >= deadline);
            if woken > 0 || due || self.stop.load(Ordering::Acquire) {
                break;
            }
        }
        ready.clear();
        ready.extend(descriptors.iter().map(PollFd::revents));
    }
}

fn timespec(span: Nanos) -> Timespec {
    let ns = span.get();
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}
