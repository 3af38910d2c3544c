//! The superblock's mark of a clean array: members that agree need no resync after a crash, so what may make
//! them differ waits until the mark is gone.
//!
//! Follows `drivers/md/md.c: md_write_start, md_write_end, md_safemode_timeout, set_in_sync, md_super_write`
//! (6.1, 6.12). A first write to a clean array waits for the superblock of every member, with a flush before
//! it and forced; one to two delays after the last write the array is marked clean again, at the same price,
//! while reads go on and a next write waits for both. Members with a full write cache pay for the flush: it
//! is written out.
//!
//! Left out: the CPU time of it; the last seconds before an array stops.

use super::array::{Below, Kind, Tag};
use crate::cpu::ThreadId;
use crate::engine::{Bio, BioId, Core};
use disks::Op;
use event_queue::Time;
use std::collections::VecDeque;

/// The timer of an array that it is for.
pub(super) const TIMER: u64 = 2;

/// Where the superblock of metadata 1.2 lies on a member, and how much of it is written: a block, where the
/// kernel writes as few logical blocks as hold it.
const PLACE: u64 = 4096;
const LEN: u64 = 4096;

/// A write that waits, and the thread that waits with it.
pub(super) type Waiter = (BioId, Option<ThreadId>);

/// What an array's superblock says, and who waits for it.
#[derive(Clone, Debug)]
pub(super) struct CleanMark {
    /// How long after its last write an array is called clean; zero: never. `None`: nobody marks anything.
    delay: Option<Time>,
    is_clean: bool,
    /// Writes to the array on their way.
    writes: u32,
    /// Of those, who wait for the mark to be gone, each with its submitter.
    held: VecDeque<Waiter>,
    /// Requests to members that are not done, and whether the mark has changed since they began.
    pending: u32,
    is_stale: bool,
    due: Time,
    is_timed: bool,
}

impl CleanMark {
    /// Of an array that has just been made.
    pub(super) fn new(delay: Option<Time>) -> Self {
        Self {
            delay,
            is_clean: delay.is_some(),
            writes: 0,
            held: VecDeque::new(),
            pending: 0,
            is_stale: false,
            due: 0,
            is_timed: false,
        }
    }

    /// A write to the array begins; whether it may go on.
    fn begin(&mut self) -> bool {
        self.writes += 1;
        !self.is_clean && self.held.is_empty()
    }

    /// One has ended; when the timer is to be set, where it is not (`md_write_end`).
    fn end(&mut self, now: Time) -> Option<Time> {
        self.writes -= 1;
        let delay = self.delay.filter(|delay| *delay > 0)?;
        self.due = now.next_multiple_of(delay) + delay;
        (!std::mem::replace(&mut self.is_timed, true)).then_some(self.due)
    }
}

impl Below {
    /// A write has come to the array; whether it may go on (`md_write_start`). Where not, its submitter
    /// waits, and both come from [`Below::superblock_is_written`] later.
    pub(super) fn may_write(&mut self, core: &mut Core, id: BioId) -> bool {
        if self.mark.delay.is_none() {
            return true;
        }
        let goes = self.mark.begin();
        if !goes {
            self.mark.held.push_back((id, core.hold_up()));
        }
        if std::mem::take(&mut self.mark.is_clean) {
            self.write_superblock(core);
        }
        goes
    }

    /// A request to the array has ended.
    pub(super) fn count_write(&mut self, core: &mut Core, op: Op) {
        if self.mark.delay.is_some()
            && matches!(op, Op::Write | Op::Discard)
            && let Some(due) = self.mark.end(core.now)
        {
            core.at(due, self.me, TIMER);
        }
    }

    /// The timer: where nobody has written for a while, the array is clean.
    pub(super) fn call_clean(&mut self, core: &mut Core) {
        if core.now < self.mark.due {
            return core.at(self.mark.due, self.me, TIMER);
        }
        self.mark.is_timed = false;
        if self.mark.writes == 0 && !self.mark.is_clean {
            self.mark.is_clean = true;
            self.write_superblock(core);
        }
    }

    fn write_superblock(&mut self, core: &mut Core) {
        if self.mark.pending > 0 {
            self.mark.is_stale = true;
            return;
        }
        self.mark.pending = self.members.iter().flatten().count() as u32;
        for member in (0..self.members.len() as u32).filter(|member| self.is_there(*member)) {
            let tag = Tag { kind: Kind::SuperFlush, member, number: 0 };
            core.submit(self.request(Op::Flush, tag, 0, 0));
        }
    }

    /// A request of these is done: the writes that may go on now, whose submitters are to be let on.
    pub(super) fn superblock_is_written(&mut self, core: &mut Core, tag: Tag) -> VecDeque<Waiter> {
        if tag.kind == Kind::SuperFlush {
            let bio = self.request(Op::Write, Tag { kind: Kind::SuperWrite, ..tag }, 0, LEN);
            core.submit(Bio { fua: true, offset: PLACE, ..bio });
            return VecDeque::new();
        }
        self.mark.pending -= 1;
        if self.mark.pending > 0 {
            return VecDeque::new();
        }
        if std::mem::take(&mut self.mark.is_stale) {
            self.write_superblock(core);
        }
        match self.mark.pending == 0 && !self.mark.is_clean {
            true => std::mem::take(&mut self.mark.held),
            false => VecDeque::new(),
        }
    }
}
