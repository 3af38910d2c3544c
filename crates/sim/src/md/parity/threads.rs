//! Which stripe is next, and who handles it (`raid5.c: raid5d, raid5_do_work, do_release_stripe,
//! raid5_activate_delayed, __get_priority_stripe`).

use super::super::bitmap::WriteIntent;
use super::super::stripes::Place;
use super::{
    HANDLE, KIND_BITS, MAX_STRIPES, MAX_TAKEN, PREREADING, Parity, RELEASE, RESUME, RESYNC_AGAIN, STEP, TICK,
    Worker,
};
use crate::cpu::Cost;
use crate::engine::{Core, PartId};

/// A thread that is woken takes stripes when it has a CPU, and finds what has come until then: so it has work
/// to begin with, whatever waking it costs.
const WAKES: Cost = Cost::cycles(1);

impl Parity {
    pub(super) fn preread_ends(&mut self, core: &mut Core) {
        self.prereading -= 1;
        if self.prereading < PREREADING {
            self.wake(core, 0);
        }
    }

    /// One less has a stripe; where nobody has, it goes to a list (`do_release_stripe`).
    pub(super) fn release(&mut self, core: &mut Core, stripe: u32) {
        let head = self.stripes.head(stripe);
        head.count -= 1;
        if head.count > 0 {
            return;
        }
        if !head.handle {
            let prereads = std::mem::take(&mut head.preread);
            (head.io_started, head.waited_for, head.fua) = (false, false, false);
            self.stripes.active -= 1;
            self.stripes.put(stripe, Place::Inactive);
            if prereads {
                self.preread_ends(core);
            }
            return self.resume_waiting(core);
        }
        if head.delayed && !head.preread {
            self.stripes.put(stripe, Place::Delayed);
            return self.wake(core, 0);
        }
        let written = self.bitmap.as_ref().is_none_or(WriteIntent::is_written) && !self.meta.is_awaited();
        if self.stripes.head(stripe).bit_delay && !written {
            self.stripes.put(stripe, Place::Bitmap);
            return self.wake(core, 0);
        }
        let head = self.stripes.head(stripe);
        (head.delayed, head.bit_delay) = (false, false);
        self.stripes.put(stripe, Place::Handle);
        self.wake_for_handling(core);
    }

    pub(super) fn wake(&mut self, core: &mut Core, worker: usize) {
        let waits = worker == 0 && self.writes_bitmap;
        let entry = &mut self.workers[worker];
        if !entry.busy && !waits {
            entry.busy = true;
            let cost = WAKES.and(self.costs.wake.divided(2));
            core.run(entry.thread, cost, self.below.me, (worker as u64) << KIND_BITS | STEP);
        }
    }

    /// A thread has found nothing more to do: it lets its plug go and sleeps. What it lists for itself has
    /// woken it again (`do_release_stripe`), so that it has looked twice by then. Half of what a wake-up
    /// takes comes after the plug; how much of it does was not counted.
    fn sleeps(&mut self, core: &mut Core, worker: usize) {
        core.release_plug();
        let Worker { thread, busy, .. } = &mut self.workers[worker];
        *busy = false;
        let second = self.costs.wake.less(self.costs.wake.divided(2));
        if !second.is_nothing() {
            core.run(*thread, second, PartId::NOBODY, 0);
        }
    }

    /// As `raid5_wakeup_stripe_thread`.
    pub(super) fn wake_for_handling(&mut self, core: &mut Core) {
        if self.spec.group_threads == 0 {
            return self.wake(core, 0);
        }
        let wanted = self.stripes.len_of(Place::Handle).div_ceil(MAX_TAKEN);
        for worker in 1..=wanted.min(self.workers.len() - 1) {
            self.wake(core, worker);
        }
    }

    /// Whether those who wait for a stripe may try again, and then they do.
    pub(super) fn resume_waiting(&mut self, core: &mut Core) {
        let may = self.stripes.len_of(Place::Inactive) > 0
            && (self.stripes.active < self.stripes.heads.len() * 3 / 4 || !self.exhausted);
        if self.resuming || !may || (self.waiting.is_empty() && !self.resync_waits) {
            return;
        }
        self.exhausted = false;
        if let Some(first) = self.waiting.front() {
            self.resuming = true;
            match first.holds_up {
                Some(thread) => core.go_on(thread, self.below.me, RESUME),
                None => {
                    let thread = core.bios[first.id.0].thread.unwrap_or(self.workers[0].thread);
                    core.run(thread, Cost::NONE, self.below.me, RESUME);
                }
            }
        }
        if std::mem::take(&mut self.resync_waits) {
            core.at(core.now + TICK, self.below.me, RESYNC_AGAIN);
        }
    }

    pub(super) fn resume(&mut self, core: &mut Core) {
        self.resuming = false;
        // Somebody else may have found nothing since; whoever waited looks for itself
        // (`raid5_get_active_stripe` clears the bit when its wait is over). Else nobody would be left to wake
        // it.
        self.exhausted = false;
        while let Some(next) = self.waiting.pop_front() {
            if let Err(stopped) = self.enter(core, next) {
                self.waiting.push_front(stopped);
                return;
            }
            if let Some(thread) = next.holds_up {
                core.let_on(thread);
            }
        }
    }

    /// A thread looks for stripes (`raid5d`, `raid5_do_work`).
    pub(super) fn step(&mut self, core: &mut Core, worker: usize) {
        core.hold_plug();
        if worker == 0 && !self.stripes_may_go(core) {
            return self.sleeps(core, worker);
        }
        let mut taken = std::mem::take(&mut self.workers[worker].taken);
        while taken.len() < MAX_TAKEN
            && let Some(stripe) = self.next_stripe()
        {
            self.stripes.take(stripe);
            self.stripes.head(stripe).count += 1;
            taken.push(stripe);
        }
        let count = taken.len() as u64;
        self.workers[worker].taken = taken;
        if count == 0 {
            self.sleeps(core, worker);
            if worker == 0 && std::mem::take(&mut self.wants_more) && self.stripes.heads.len() < MAX_STRIPES {
                self.has_grown = true;
                self.stripes.grow();
                self.resume_waiting(core);
            }
            return;
        }
        self.has_grown = false;
        let token = (worker as u64) << KIND_BITS | HANDLE;
        core.run(self.workers[worker].thread, self.costs.stripe.times(count), self.below.me, token);
    }

    /// The bitmap is written for those that wait for it, and delayed ones become due; not while it is being
    /// written.
    pub(super) fn stripes_may_go(&mut self, core: &mut Core) -> bool {
        if self.stripes.first_of(Place::Bitmap).is_some() {
            let dirty = self.bitmap.as_mut().map(WriteIntent::take_dirty).unwrap_or_default();
            self.meta.write(core, &self.below, &dirty, true);
            if self.meta.is_awaited() {
                self.writes_bitmap = true;
                return false;
            }
            while let Some(stripe) = self.stripes.first_of(Place::Bitmap) {
                self.stripes.take(stripe);
                self.stripes.head(stripe).bit_delay = false;
                self.stripes.put(stripe, Place::Handle);
                self.wake_for_handling(core);
            }
        }
        if self.prereading < PREREADING {
            while let Some(stripe) = self.stripes.first_of(Place::Delayed) {
                self.stripes.take(stripe);
                let head = self.stripes.head(stripe);
                head.delayed = false;
                if !std::mem::replace(&mut head.preread, true) {
                    self.prereading += 1;
                }
                self.stripes.put(stripe, Place::Hold);
            }
        }
        true
    }

    /// As `__get_priority_stripe`.
    pub(super) fn next_stripe(&mut self) -> Option<u32> {
        let hold = self.stripes.first_of(Place::Hold);
        let bypass = self.spec.preread_bypass;
        if let Some(stripe) = self.stripes.first_of(Place::Handle) {
            match hold {
                None => self.bypassed = 0,
                Some(_) if self.stripes.head(stripe).io_started => {}
                Some(first) if first == self.last_hold => self.bypassed += 1,
                Some(first) => {
                    self.last_hold = first;
                    self.bypassed = self.bypassed.saturating_sub(bypass);
                }
            }
            return Some(stripe);
        }
        let may_hold = (bypass > 0 && self.bypassed > bypass) || self.pending_full_writes == 0;
        let stripe = hold.filter(|_| may_hold)?;
        self.bypassed = self.bypassed.saturating_sub(bypass);
        Some(stripe)
    }

    pub(super) fn handle_taken(&mut self, core: &mut Core, worker: usize) {
        let taken = std::mem::take(&mut self.workers[worker].taken);
        let mut cost = Cost::NONE;
        for stripe in &taken {
            cost = cost.and(self.handle(core, *stripe));
        }
        self.workers[worker].taken = taken;
        let token = (worker as u64) << KIND_BITS | RELEASE;
        core.run(self.workers[worker].thread, cost, self.below.me, token);
    }

    pub(super) fn release_taken(&mut self, core: &mut Core, worker: usize) {
        let mut taken = std::mem::take(&mut self.workers[worker].taken);
        for stripe in taken.drain(..) {
            self.release(core, stripe);
        }
        self.workers[worker].taken = taken;
        self.step(core, worker);
    }
}
