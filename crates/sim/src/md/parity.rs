//! RAID4, RAID5 and RAID6: requests go through the stripe cache, and parity is computed by the array's thread.
//!
//! Follows `drivers/md/raid5.c` (6.1, 6.12), function by function where it decides about order and amount:
//!
//! - **Reads** of an array that misses nothing go to the members at once, cut by chunks (`chunk_aligned_read`).
//! - **All else** is cut into stripes of 4 KiB a member, row by row (`raid5_make_request`). A stripe that the cache does not have
//!   takes the place of the least recently used inactive one. Without any, the submitter waits until a quarter of the cache is
//!   free (`raid5_get_active_stripe`), and the thread adds one stripe.
//! - **Handling** (`handle_stripe`, here [`Parity::handle`]): read-modify-write or reconstruction, whichever reads less; a lost
//!   block counts as twice all members (`handle_stripe_dirtying`). What must read first, and for which nobody waits, is
//!   delayed until no other stripe prereads (`raid5_activate_delayed`); such stripes are passed by as `preread_bypass` says
//!   (`__get_priority_stripe`). A stripe is handled to read, to compute, to write, and when all is done.
//! - **Full stripes** that lie one after the other in a chunk are handled as one batch (`stripe_add_to_batch_list`).
//! - **Threads**: one, `mdX_raid5`, takes eight stripes at a time under one plug that lasts until nothing is to do, so that
//!   requests of 4 KiB merge; with `group_thread_cnt`, so many workers beside it.
//! - **Resync and rebuild** stripe by stripe through the same cache (`raid5_sync_request`).
//!
//! Left out: the journal and partial parity log, `skip_copy`, bad blocks, errors, discards (refused by default), the eight hash
//! lists of inactive stripes, shrinking of the cache, groups of workers by NUMA node and their sorted dispatch to hard disks,
//! waiting of writes that overlap others which are not drained yet, the superblock's mark of a clean array.

use super::Geometry;
use super::array::{ArraySpec, Below, Kind, MdCosts, Tag};
use super::bitmap::{BitmapSpec, MetaWrites, WriteIntent};
use super::resync::{Content, Go, Progress, Repair, ResyncSpec};
use super::stripes::{Head, NONE, Place, Stripes, Sync};
use crate::core::{Bio, BioId, Core, Part, PartId};
use crate::cpu::{Cost, Cpus, ThreadId};
use crate::disk::Op;
use crate::queue::Time;
use domain::stack::{Bitmap, Md, MdLevel};
use domain::trace::Role;
use domain::units::Bytes;
use std::collections::VecDeque;

/// A stripe's block on one member.
const BLOCK: u64 = 4096;
/// The kernel splits requests at so much (`RAID5_MAX_REQ_STRIPES` blocks).
const LARGEST: u64 = 256 * BLOCK;
/// Stripes that a thread takes at a time (`MAX_STRIPE_BATCH`).
const MOST_TAKEN: usize = 8;
/// Stripes that may preread while others become due (`IO_THRESHOLD`).
const PREREADING: u32 = 1;
/// A stripe that is handled so often while nothing happens to it never ends: a mistake of ours.
const IN_VAIN: u32 = 1000;
/// A cache never grows beyond this (`raid5_set_cache_size`).
const MOST_STRIPES: usize = 32768;
/// A resync that finds no stripe waits for a tick afterwards: 250 Hz.
const TICK: Time = 4_000_000;

/// Work of threads; the worker's number is above the kind.
const STEP: u64 = 0;
const HANDLE: u64 = 1;
const RELEASE: u64 = 2;
const RESUME: u64 = 3;
const RESYNC_STEP: u64 = 4;
const KIND_BITS: u32 = 3;
/// Timers.
const DAEMON: u64 = 0;
const RESYNC_AGAIN: u64 = 1;

/// When to read, modify and write (`md/rmw_level`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadModifyWrite {
    /// Never.
    Never,
    /// Where that reads less.
    Less,
    /// Where that reads less, or as much.
    LessOrEqual,
}

/// How an array with parity works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParitySpec {
    /// `md/stripe_cache_size`: what it begins with.
    pub stripe_cache_size: u32,
    /// `md/group_thread_cnt`.
    pub group_threads: u32,
    /// `md/preread_bypass_threshold`.
    pub preread_bypass: u32,
    /// `md/rmw_level`.
    pub read_modify_write: ReadModifyWrite,
    /// A write-intent bitmap.
    pub bitmap: Option<BitmapSpec>,
    /// What it does by itself from the beginning of time on.
    pub resync: Option<ResyncSpec>,
}

impl Default for ParitySpec {
    /// The kernel's own.
    fn default() -> Self {
        Self {
            stripe_cache_size: 256,
            group_threads: 0,
            preread_bypass: 1,
            read_modify_write: ReadModifyWrite::Less,
            bitmap: None,
            resync: None,
        }
    }
}

impl ParitySpec {
    /// What a study asks for; without a resync.
    pub fn of(md: &Md) -> Self {
        let usual = Self::default();
        Self {
            stripe_cache_size: md.stripe_cache_size.unwrap_or(usual.stripe_cache_size),
            group_threads: md.group_thread_cnt.unwrap_or(usual.group_threads),
            bitmap: (md.bitmap == Bitmap::Internal).then(BitmapSpec::default),
            ..usual
        }
    }
}

/// How far a request is on its way into stripes.
#[derive(Clone, Copy, Debug)]
struct Submission {
    id: BioId,
    /// From here on, up to [`LARGEST`] bytes.
    at: u64,
    /// The chunks' row, and the offset in a chunk.
    number: u64,
    inside: u64,
    /// The stripe before, with which one may be a batch.
    last: Option<u32>,
}

struct Worker {
    thread: ThreadId,
    busy: bool,
    taken: Vec<u32>,
}

/// What a stripe is like when it is handled (`struct stripe_head_state`).
#[derive(Clone, Copy, Debug, Default)]
struct State {
    locked: u32,
    up_to_date: u32,
    to_read: u32,
    to_write: u32,
    non_overwrite: u32,
    written: u32,
    failed: u32,
    failed_members: [Option<u32>; 2],
    syncing: bool,
    dec_preread: bool,
}

impl State {
    fn is_failed(&self, member: u32) -> bool {
        self.failed_members.contains(&Some(member))
    }
}

/// An array with parity.
pub struct Parity {
    below: Below,
    geometry: Geometry,
    costs: MdCosts,
    spec: ParitySpec,
    chunk: u64,
    stripes: Stripes,
    workers: Vec<Worker>,
    prereading: u32,
    pending_full_writes: u32,
    bypassed: u32,
    last_hold: u32,
    plugged: Vec<(Option<ThreadId>, u32)>,
    /// Submitters without a stripe.
    waiting: VecDeque<Submission>,
    resuming: bool,
    exhausted: bool,
    wants_more: bool,
    has_grown: bool,
    bitmap: Option<WriteIntent>,
    meta: MetaWrites,
    /// The thread waits for the bitmap.
    writes_bitmap: bool,
    resync: Option<Progress>,
    resync_thread: ThreadId,
    steps: bool,
    resync_waits: bool,
    others: u64,
    counts: Counts,
}

/// What was decided, for the trace and for tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    handled: u64,
    reconstructed: u64,
    modified: u64,
    batched: u64,
    waits: u64,
}

impl Parity {
    /// The part `me`, which counts as `device`.
    ///
    /// # Panics
    /// Where the array's level is another, or it misses more than it can.
    pub fn new(core: &mut Core, me: PartId, device: usize, array: &ArraySpec, spec: ParitySpec) -> Self {
        let level = array.geometry.level();
        assert!(level.has_parity(), "level {} has no parity", level.name());
        let missing = array.members.iter().filter(|member| member.is_none()).count() as u32
            + u32::from(matches!(spec.resync, Some(ResyncSpec { repair: Repair::Rebuild(_), .. })));
        let geometry = array.geometry.clone();
        let parities = geometry.members() - geometry.data_members();
        assert!(missing <= parities, "{} misses {missing} members and has {parities} parities", array.name);
        let thread = |cpus: &mut Cpus, name: String| cpus.thread(&name, Role::Array, 0);
        let mut workers = Vec::new();
        for nth in 0..=spec.group_threads {
            let name = match nth {
                0 => format!("{}_raid{}", array.name, level.name()),
                _ => format!("kworker/u:{nth}+raid5wq/{}", array.name),
            };
            let thread = thread(&mut core.cpus, name);
            workers.push(Worker { thread, busy: false, taken: Vec::new() });
        }
        if spec.resync.is_some() {
            core.at(core.now, me, RESYNC_AGAIN);
        }
        Self {
            below: Below::new(me, device, array),
            costs: array.costs,
            spec,
            chunk: geometry.chunk().expect("an array with parity has chunks").get(),
            stripes: Stripes::new(geometry.members(), spec.stripe_cache_size as usize),
            workers,
            prereading: 0,
            pending_full_writes: 0,
            bypassed: 0,
            last_hold: NONE,
            plugged: Vec::new(),
            waiting: VecDeque::new(),
            resuming: false,
            exhausted: false,
            wants_more: false,
            has_grown: false,
            bitmap: spec.bitmap.map(WriteIntent::new),
            meta: MetaWrites::default(),
            writes_bitmap: false,
            resync: spec.resync.map(|resync| Progress::new(resync, geometry.used().get(), core.now)),
            resync_thread: thread(&mut core.cpus, format!("{}_resync", array.name)),
            steps: false,
            resync_waits: false,
            others: 0,
            counts: Counts::default(),
            geometry,
        }
    }

    /// Whether a member has what belongs into a row.
    fn is_in_sync(&self, member: u32, row: u64) -> bool {
        let rebuilt = match &self.resync {
            Some(progress) if progress.spec.repair == Repair::Rebuild(member) => progress.repaired(),
            _ => u64::MAX,
        };
        self.below.is_there(member) && (row + 1) * BLOCK <= rebuilt
    }

    fn is_degraded(&self) -> bool {
        let rebuilds = |progress: &Progress| matches!(progress.spec.repair, Repair::Rebuild(_));
        self.below.members.iter().any(Option::is_none) || self.resync.as_ref().is_some_and(rebuilds)
    }

    /// Whether parity cannot be trusted there yet.
    fn must_reconstruct(&self, row: u64) -> bool {
        let resyncs = |progress: &&Progress| matches!(progress.spec.repair, Repair::Resync(_));
        self.resync.as_ref().filter(resyncs).is_some_and(|progress| row * BLOCK >= progress.repaired())
    }

    fn read_at_once(&mut self, core: &mut Core, id: BioId, bio: &Bio) {
        let mut parts = 0;
        for piece in self.geometry.pieces(Bytes::new(bio.offset), Bytes::new(bio.len)) {
            let (member, offset) = (piece.place.member, piece.place.offset.get());
            core.submit(self.below.share(id, bio, member, offset, piece.len.get()));
            parts += 1;
        }
        self.below.expect(core, id, parts);
        core.charge(self.costs.map.times(parts));
    }

    fn begin_submission(&self, core: &mut Core, id: BioId, bio: &Bio) -> Submission {
        // Held until all its stripes are found.
        core.bios[id.0].scratch = 1;
        self.submission_at(id, bio.offset)
    }

    fn submission_at(&self, id: BioId, at: u64) -> Submission {
        let number = at / self.chunk / u64::from(self.geometry.data_members());
        Submission { id, at, number, inside: 0, last: None }
    }

    /// Puts a request into stripes, row by row; where there is no stripe, gives how far it is.
    fn enter(&mut self, core: &mut Core, mut on: Submission) -> Result<(), Submission> {
        let bio = core.bios[on.id.0];
        let data = u64::from(self.geometry.data_members());
        let mut stripes = 0;
        while on.at < bio.end() {
            let end = bio.end().min(on.at + LARGEST);
            while on.number * data * self.chunk < end {
                let first_chunk = on.number * data * self.chunk;
                // One chunk of it alone: only so many rows.
                let low = on.at.max(first_chunk);
                let high = end.min(first_chunk + data * self.chunk);
                let (from, to) = match low / self.chunk == (high - 1) / self.chunk {
                    true => (low % self.chunk / BLOCK * BLOCK, (high - 1) % self.chunk + 1),
                    false => (0, self.chunk),
                };
                on.inside = on.inside.max(from);
                while on.inside < to {
                    if self.covers(first_chunk, on.inside, low, high) {
                        let row = (on.number * self.chunk + on.inside) / BLOCK;
                        let Some(stripe) = self.get(row) else {
                            core.charge(self.costs.map.times(stripes));
                            on.last = None;
                            return Err(on);
                        };
                        self.add(core, stripe, &bio, on.id, (first_chunk, on.inside, low, high));
                        self.make_due(core, stripe, &bio, &mut on.last);
                        stripes += 1;
                    }
                    on.inside += BLOCK;
                }
                on.number += 1;
                on.inside = 0;
            }
            on = Submission { last: on.last, ..self.submission_at(on.id, end) };
        }
        core.charge(self.costs.map.times(stripes));
        self.below.part_done(core, on.id);
        Ok(())
    }

    /// Whether any block of a row lies in a range.
    fn covers(&self, first_chunk: u64, inside: u64, low: u64, high: u64) -> bool {
        (0..u64::from(self.geometry.data_members())).any(|index| {
            let at = first_chunk + index * self.chunk + inside;
            at < high && at + BLOCK > low
        })
    }

    /// The stripe of a row, with one more who has it; none where the cache is exhausted (`raid5_get_active_stripe`).
    fn get(&mut self, row: u64) -> Option<u32> {
        if let Some(found) = self.stripes.find(row) {
            return Some(found);
        }
        if !self.exhausted {
            let stripe = self.geometry.stripe(row * BLOCK / self.chunk);
            if let Some(claimed) = self.stripes.claim(row, stripe.parity, stripe.second) {
                return Some(claimed);
            }
            self.wants_more |= !self.has_grown;
        }
        self.exhausted = true;
        self.counts.waits += 1;
        None
    }

    /// Adds what of a range lies in a stripe (`add_all_stripe_bios`).
    fn add(&mut self, core: &mut Core, stripe: u32, bio: &Bio, id: BioId, range: (u64, u64, u64, u64)) {
        let (first_chunk, inside, low, high) = range;
        let row = self.stripes.head(stripe).row;
        let order = self.geometry.stripe(row * BLOCK / self.chunk);
        for index in 0..order.data_members() {
            let at = first_chunk + u64::from(index) * self.chunk + inside;
            let (from, to) = (at.max(low), (at + BLOCK).min(high));
            if from >= to {
                continue;
            }
            core.bios[id.0].scratch += 1;
            let member = order.data(index);
            if bio.op == Op::Read {
                self.stripes.add_read(stripe, member, id);
                continue;
            }
            if self.stripes.block(stripe, member).to_write == NONE
                && let Some(bitmap) = &mut self.bitmap
            {
                bitmap.start(row * BLOCK, BLOCK);
                self.stripes.head(stripe).bit_delay = true;
                if !bitmap.timed {
                    bitmap.timed = true;
                    core.at(core.now + bitmap.spec.daemon, self.below.me, DAEMON);
                }
            }
            self.stripes.add_write(stripe, member, id, (from - at) as u32, (to - at) as u32);
        }
    }

    /// A stripe has got something to do (`make_stripe_request`).
    fn make_due(&mut self, core: &mut Core, stripe: u32, bio: &Bio, last: &mut Option<u32>) {
        if bio.op == Op::Write && self.stripes.can_batch(stripe) {
            self.join_batch(core, stripe, *last);
            *last = Some(stripe);
        }
        let head = self.stripes.head(stripe);
        head.handle = true;
        head.in_vain = 0;
        head.delayed = false;
        head.waited_for |= bio.sync;
        head.fua |= bio.fua && bio.op == Op::Write;
        let alone = head.batch == NONE || head.batch == stripe;
        if alone && bio.sync && !head.preread {
            head.preread = true;
            self.prereading += 1;
        }
        if !self.stripes.head(stripe).plugged && core.plug(self.below.me) {
            self.stripes.head(stripe).plugged = true;
            self.plugged.push((core.context(), stripe));
        } else {
            self.release(core, stripe);
        }
    }

    /// As `stripe_add_to_batch_list`.
    fn join_batch(&mut self, core: &mut Core, stripe: u32, last: Option<u32>) {
        let row = self.stripes.head(stripe).row;
        if (row * BLOCK).is_multiple_of(self.chunk) || self.stripes.head(stripe).batch != NONE {
            return;
        }
        let before = last.filter(|last| self.stripes.heads[*last as usize].row == row - 1);
        let Some(before) = before.or_else(|| self.stripes.peek(row - 1)) else { return };
        if !self.stripes.can_batch(before) {
            return;
        }
        let entry = self.stripes.head(before);
        if entry.batch == NONE {
            entry.batch = before;
        }
        let (first, next) = (entry.batch, std::mem::replace(&mut entry.batch_next, stripe));
        let head = self.stripes.head(stripe);
        (head.batch, head.batch_next) = (first, next);
        head.count += 1;
        let (prereads, delays) = (std::mem::take(&mut head.preread), std::mem::take(&mut head.bit_delay));
        let (waited_for, fua) = (head.waited_for, head.fua);
        let head = self.stripes.head(first);
        head.bit_delay |= delays;
        head.waited_for |= waited_for;
        head.fua |= fua;
        self.counts.batched += 1;
        if prereads {
            self.preread_ends(core);
        }
    }

    fn preread_ends(&mut self, core: &mut Core) {
        self.prereading -= 1;
        if self.prereading < PREREADING {
            self.wake(core, 0);
        }
    }

    /// One less has a stripe; where nobody has, it goes to a list (`do_release_stripe`).
    fn release(&mut self, core: &mut Core, stripe: u32) {
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

    fn wake(&mut self, core: &mut Core, worker: usize) {
        let waits = worker == 0 && self.writes_bitmap;
        let entry = &mut self.workers[worker];
        if !entry.busy && !waits {
            entry.busy = true;
            core.run(entry.thread, Cost::NONE, self.below.me, (worker as u64) << KIND_BITS | STEP);
        }
    }

    /// As `raid5_wakeup_stripe_thread`.
    fn wake_for_handling(&mut self, core: &mut Core) {
        if self.spec.group_threads == 0 {
            return self.wake(core, 0);
        }
        let wanted = self.stripes.len_of(Place::Handle).div_ceil(MOST_TAKEN);
        for worker in 1..=wanted.min(self.workers.len() - 1) {
            self.wake(core, worker);
        }
    }

    /// Whether those who wait for a stripe may try again, and then they do.
    fn resume_waiting(&mut self, core: &mut Core) {
        let may = self.stripes.len_of(Place::Inactive) > 0
            && (self.stripes.active < self.stripes.heads.len() * 3 / 4 || !self.exhausted);
        if self.resuming || !may || (self.waiting.is_empty() && !self.resync_waits) {
            return;
        }
        self.exhausted = false;
        if let Some(first) = self.waiting.front() {
            self.resuming = true;
            let thread = core.bios[first.id.0].thread.unwrap_or(self.workers[0].thread);
            core.run(thread, Cost::NONE, self.below.me, RESUME);
        }
        if std::mem::take(&mut self.resync_waits) {
            core.at(core.now + TICK, self.below.me, RESYNC_AGAIN);
        }
    }

    fn resume(&mut self, core: &mut Core) {
        self.resuming = false;
        while let Some(next) = self.waiting.pop_front() {
            if let Err(stopped) = self.enter(core, next) {
                self.waiting.push_front(stopped);
                return;
            }
        }
    }

    /// A thread looks for stripes (`raid5d`, `raid5_do_work`).
    fn step(&mut self, core: &mut Core, worker: usize) {
        core.hold_plug();
        if worker == 0 && !self.stripes_may_go(core) {
            core.release_plug();
            self.workers[0].busy = false;
            return;
        }
        let mut taken = std::mem::take(&mut self.workers[worker].taken);
        while taken.len() < MOST_TAKEN
            && let Some(stripe) = self.next_stripe()
        {
            self.stripes.take(stripe);
            self.stripes.head(stripe).count += 1;
            taken.push(stripe);
        }
        let count = taken.len() as u64;
        self.workers[worker].taken = taken;
        if count == 0 {
            core.release_plug();
            self.workers[worker].busy = false;
            if worker == 0 && std::mem::take(&mut self.wants_more) && self.stripes.heads.len() < MOST_STRIPES
            {
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

    /// The bitmap is written for those that wait for it, and delayed ones become due; not while it is being written.
    fn stripes_may_go(&mut self, core: &mut Core) -> bool {
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
    fn next_stripe(&mut self) -> Option<u32> {
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

    fn handle_taken(&mut self, core: &mut Core, worker: usize) {
        let taken = std::mem::take(&mut self.workers[worker].taken);
        let mut cost = Cost::NONE;
        for stripe in &taken {
            cost = cost.and(self.handle(core, *stripe));
        }
        self.workers[worker].taken = taken;
        let token = (worker as u64) << KIND_BITS | RELEASE;
        core.run(self.workers[worker].thread, cost, self.below.me, token);
    }

    fn release_taken(&mut self, core: &mut Core, worker: usize) {
        let mut taken = std::mem::take(&mut self.workers[worker].taken);
        for stripe in taken.drain(..) {
            self.release(core, stripe);
        }
        self.workers[worker].taken = taken;
        self.step(core, worker);
    }

    /// Whether a stripe is no other than the first of its batch; it can then be joined no more (`clear_batch_ready`).
    fn leads(&mut self, stripe: u32) -> bool {
        let head = self.stripes.head(stripe);
        head.batch_ready = false;
        if head.batch == NONE {
            return true;
        }
        if head.batch != stripe {
            return false;
        }
        let mut next = head.batch_next;
        while next != NONE {
            let head = self.stripes.head(next);
            head.batch_ready = false;
            next = head.batch_next;
        }
        true
    }

    /// What a stripe is like now; reads whose blocks are there are answered.
    fn analyse(&mut self, core: &mut Core, stripe: u32, cost: &mut Cost) -> State {
        let head = *self.stripes.head(stripe);
        let mut state = State { syncing: head.sync != Sync::No, ..State::default() };
        for member in (0..self.geometry.members()).rev() {
            let block = *self.stripes.block(stripe, member);
            state.locked += u32::from(block.locked);
            state.up_to_date += u32::from(block.up_to_date);
            if block.to_read != NONE && block.up_to_date {
                self.stripes.block(stripe, member).to_read = NONE;
                let answered = self.answer(core, block.to_read);
                *cost = cost.and(self.copied(answered));
            } else {
                state.to_read += u32::from(block.to_read != NONE);
            }
            if block.to_write != NONE {
                state.to_write += 1;
                state.non_overwrite += u32::from(!block.overwritten);
            }
            state.written += u32::from(block.written != NONE);
            if !self.is_in_sync(member, head.row) {
                if state.failed < 2 {
                    state.failed_members[state.failed as usize] = Some(member);
                }
                state.failed += 1;
            }
        }
        state
    }

    /// Answers the shares of a list; how many there were.
    fn answer(&mut self, core: &mut Core, mut share: u32) -> u64 {
        let mut count = 0;
        while share != NONE {
            let gone = self.stripes.shares.remove(share);
            self.below.part_done(core, gone.bio);
            share = gone.next;
            count += 1;
        }
        count
    }

    fn copied(&self, blocks: u64) -> Cost {
        Cost::cycles(blocks * BLOCK * self.costs.copy_byte_1024 / 1024)
    }

    /// So many blocks go into the parities.
    fn computed(&self, blocks: u64) -> Cost {
        let parities = if self.geometry.level() == MdLevel::Raid6 { 2 } else { 1 };
        Cost::cycles(parities * blocks * BLOCK * self.costs.xor_byte_1024 / 1024)
    }

    /// Does what can be done with a stripe now (`handle_stripe`); what it costs beside looking.
    fn handle(&mut self, core: &mut Core, stripe: u32) -> Cost {
        let mut cost = Cost::NONE;
        self.counts.handled += 1;
        let head = self.stripes.head(stripe);
        head.handle = false;
        head.in_vain += 1;
        let head = *head;
        assert!(
            head.in_vain < IN_VAIN,
            "stripe {head:?} is handled for ever: {:?}",
            self.stripes.blocks(stripe)
        );
        if !self.leads(stripe) {
            return cost;
        }
        self.stripes.head(stripe).delayed = false;
        let mut state = self.analyse(core, stripe, &mut cost);
        if std::mem::take(&mut self.stripes.head(stripe).drained) {
            self.want_writes(stripe);
            state.dec_preread = std::mem::take(&mut self.stripes.head(stripe).preread);
        }
        if state.written > 0 && self.parities_are_written(stripe, &state) {
            self.answer_writes(core, stripe);
        }
        let fills = state.to_read > 0
            || state.non_overwrite > 0
            || (state.to_write > 0 && state.failed > 0)
            || (state.syncing && state.up_to_date < self.geometry.members());
        if fills {
            self.fill(stripe, &mut state, &mut cost);
        }
        if state.to_write > 0 {
            self.dirty(stripe, &mut state, &mut cost);
        }
        if state.syncing {
            self.sync(core, stripe, &mut state, &mut cost);
        }
        self.submit_blocks(core, stripe);
        if state.dec_preread {
            self.preread_ends(core);
        }
        cost
    }

    /// The stripes of a batch, or the one.
    fn batch_of(&self, stripe: u32) -> Vec<u32> {
        let mut all = vec![stripe];
        if self.stripes.heads[stripe as usize].batch == stripe {
            let mut next = self.stripes.heads[stripe as usize].batch_next;
            while next != NONE {
                all.push(next);
                next = self.stripes.heads[next as usize].batch_next;
            }
        }
        all
    }

    fn has_parity(&self, stripe: u32, member: u32) -> bool {
        let head = &self.stripes.heads[stripe as usize];
        head.parity == member || head.second == Some(member)
    }

    fn want_writes(&mut self, stripe: u32) {
        for one in self.batch_of(stripe) {
            for member in 0..self.geometry.members() {
                let parity = self.has_parity(one, member);
                let block = self.stripes.block(one, member);
                block.wants_write = block.locked && (parity || block.written != NONE);
            }
        }
    }

    fn parities_are_written(&self, stripe: u32, state: &State) -> bool {
        let head = &self.stripes.heads[stripe as usize];
        let blocks = self.stripes.blocks(stripe);
        let is_written = |member: u32| {
            let block = &blocks[member as usize];
            state.is_failed(member) || (!block.locked && block.up_to_date)
        };
        is_written(head.parity) && head.second.is_none_or(is_written)
    }

    /// Answers writes that are on the members (`handle_stripe_clean_event`), and ends the batch.
    fn answer_writes(&mut self, core: &mut Core, stripe: u32) {
        let batch = self.batch_of(stripe);
        let mut answered = 0;
        for one in &batch {
            let row = self.stripes.head(*one).row;
            for member in 0..self.geometry.members() {
                let block = *self.stripes.block(*one, member);
                if block.written == NONE || block.locked || !block.up_to_date {
                    continue;
                }
                self.stripes.block(*one, member).written = NONE;
                answered += self.answer(core, block.written);
                if let Some(bitmap) = &mut self.bitmap {
                    bitmap.end(row * BLOCK, BLOCK);
                }
            }
        }
        if std::mem::take(&mut self.stripes.head(stripe).full_write) {
            self.pending_full_writes -= 1;
            if self.pending_full_writes == 0 {
                self.wake(core, 0);
            }
        }
        if answered > 0 && batch.len() > 1 {
            for one in &batch {
                let head = self.stripes.head(*one);
                (head.batch, head.batch_next) = (NONE, NONE);
            }
            for one in &batch[1..] {
                // Its requests are done with the batch, but those that came meanwhile.
                let has_more =
                    self.stripes.blocks(*one).iter().any(|b| b.to_write != NONE || b.to_read != NONE);
                self.stripes.head(*one).handle = has_more;
                self.release(core, *one);
            }
        }
    }

    /// Reads or computes what is needed (`handle_stripe_fill`, `fetch_block`).
    fn fill(&mut self, stripe: u32, state: &mut State, cost: &mut Cost) {
        let members = self.geometry.members();
        for member in (0..members).rev() {
            if !self.needs(stripe, member, state) {
                continue;
            }
            let head = *self.stripes.head(stripe);
            let is_lost = state.is_failed(member);
            let is_first_of_two = head.second.is_some() && head.parity == member;
            if state.up_to_date == members - 1 && (is_first_of_two || is_lost) {
                self.stripes.block(stripe, member).up_to_date = true;
                state.up_to_date += 1;
                *cost = cost.and(self.computed(u64::from(members) - 1));
                self.stripes.head(stripe).handle = true;
                break;
            }
            if state.up_to_date + 2 == members && state.failed >= 2 {
                for member in 0..members {
                    self.stripes.block(stripe, member).up_to_date = true;
                }
                state.up_to_date += 2;
                *cost = cost.and(self.computed(2 * u64::from(members)));
                self.stripes.head(stripe).handle = true;
                break;
            }
            if !is_lost {
                self.want_read(stripe, member, state);
            }
        }
        self.stripes.head(stripe).handle = true;
    }

    fn want_read(&mut self, stripe: u32, member: u32, state: &mut State) {
        let block = self.stripes.block(stripe, member);
        (block.locked, block.wants_read) = (true, true);
        state.locked += 1;
    }

    /// As `need_this_block`.
    fn needs(&self, stripe: u32, member: u32, state: &State) -> bool {
        let blocks = self.stripes.blocks(stripe);
        let head = &self.stripes.heads[stripe as usize];
        let block = &blocks[member as usize];
        if block.locked || block.up_to_date {
            return false;
        }
        if block.to_read != NONE || (block.to_write != NONE && !block.overwritten) || state.syncing {
            return true;
        }
        let failed = || state.failed_members.iter().flatten().map(|m| (*m, &blocks[*m as usize]));
        if failed().any(|(_, lost)| lost.to_read != NONE) {
            return true;
        }
        if state.failed == 0 || state.to_write == 0 || (!state.is_failed(member) && !head.preread) {
            return false;
        }
        if failed().any(|(_, lost)| lost.to_write != NONE && !lost.up_to_date && !lost.overwritten) {
            return true;
        }
        let reconstructs = self.spec.read_modify_write == ReadModifyWrite::Never
            || (state.failed >= 2
                && failed().any(|(m, lost)| {
                    (lost.to_write != NONE || self.has_parity(stripe, m)) && !lost.up_to_date
                }));
        if !reconstructs && !self.must_reconstruct(head.row) {
            return false;
        }
        failed().any(|(m, lost)| !self.has_parity(stripe, m) && !lost.up_to_date && !lost.overwritten)
    }

    /// Decides how new data becomes parity, and reads for it or computes it (`handle_stripe_dirtying`).
    fn dirty(&mut self, stripe: u32, state: &mut State, cost: &mut Cost) {
        let members = self.geometry.members();
        let head = *self.stripes.head(stripe);
        let (mut modify, mut reconstruct) = (0, 0);
        if self.spec.read_modify_write == ReadModifyWrite::Never
            || (self.must_reconstruct(head.row) && state.failed == 0)
        {
            (modify, reconstruct) = (2, 1);
        } else {
            for member in 0..members {
                let block = *self.stripes.block(stripe, member);
                let (parity, lost) = (self.has_parity(stripe, member), state.is_failed(member));
                let weight = if lost { 2 * members } else { 1 };
                let misses = block.misses();
                if misses && (parity || block.to_write != NONE) {
                    modify += weight;
                }
                if misses && !parity && !block.is_replaced() {
                    reconstruct += weight;
                }
            }
        }
        self.stripes.head(stripe).handle = true;
        let prefers = self.spec.read_modify_write == ReadModifyWrite::LessOrEqual;
        if modify > 0 && (modify < reconstruct || (modify == reconstruct && prefers)) {
            for member in 0..members {
                let block = *self.stripes.block(stripe, member);
                let is_of_use = block.to_write != NONE || self.has_parity(stripe, member);
                if is_of_use && block.misses() && !state.is_failed(member) {
                    self.preread(stripe, member, state);
                }
            }
        }
        if reconstruct > 0 && (reconstruct < modify || (reconstruct == modify && !prefers)) {
            reconstruct = 0;
            for member in 0..members {
                let block = *self.stripes.block(stripe, member);
                let is_of_use = block.misses() && !block.is_replaced() && !self.has_parity(stripe, member);
                if is_of_use {
                    reconstruct += 1;
                    self.preread(stripe, member, state);
                }
            }
        }
        if reconstruct > members && modify > members && !head.preread {
            self.stripes.head(stripe).delayed = true;
        }
        if state.locked == 0 && (reconstruct == 0 || modify == 0) && !self.stripes.head(stripe).bit_delay {
            self.compute_parity(stripe, state, reconstruct == 0, cost);
        }
    }

    fn preread(&mut self, stripe: u32, member: u32, state: &mut State) {
        match self.stripes.head(stripe).preread && !state.is_failed(member) {
            true => self.want_read(stripe, member, state),
            false => self.stripes.head(stripe).delayed = true,
        }
    }

    /// Drains data into the cache and computes the parities (`schedule_reconstruction`, `raid_run_ops`).
    fn compute_parity(&mut self, stripe: u32, state: &mut State, whole: bool, cost: &mut Cost) {
        let members = self.geometry.members();
        for one in self.batch_of(stripe) {
            let (mut drained, mut shares) = (0, 0);
            for member in 0..members {
                let block = *self.stripes.block(one, member);
                if block.to_write == NONE || !(whole || block.up_to_date) {
                    continue;
                }
                let entry = self.stripes.block(one, member);
                debug_assert_eq!(entry.written, NONE, "a block is drained while it is written");
                (entry.locked, entry.up_to_date, entry.overwritten) = (true, true, false);
                (entry.written, entry.to_write) = (entry.to_write, NONE);
                drained += 1;
                let mut share = entry.written;
                while share != NONE {
                    shares += 1;
                    share = self.stripes.shares[share].next;
                }
            }
            if drained == 0 {
                return;
            }
            let head = *self.stripes.head(one);
            for parity in [Some(head.parity), head.second].into_iter().flatten() {
                let block = self.stripes.block(one, parity);
                (block.locked, block.up_to_date) = (true, true);
            }
            let data = u64::from(self.geometry.data_members());
            let inputs = if whole { data } else { 2 * drained + 1 };
            *cost = cost.and(self.copied(shares)).and(self.computed(inputs));
            if one == stripe {
                state.locked += drained as u32;
                if whole && drained == data && !self.stripes.head(stripe).full_write {
                    self.stripes.head(stripe).full_write = true;
                    self.pending_full_writes += 1;
                }
            }
            match whole {
                true => self.counts.reconstructed += 1,
                false => self.counts.modified += 1,
            }
        }
        state.locked += 1;
        let head = self.stripes.head(stripe);
        (head.drained, head.handle) = (true, true);
    }

    /// What a resync does with a stripe that it asked for (`handle_parity_checks5`, `handle_parity_checks6`).
    fn sync(&mut self, core: &mut Core, stripe: u32, state: &mut State, cost: &mut Cost) {
        if state.locked > 0 || self.stripes.head(stripe).drained {
            return;
        }
        let Some(progress) = &self.resync else { return };
        if self.stripes.head(stripe).sync == Sync::Reading {
            if state.up_to_date < self.geometry.members() {
                return;
            }
            *cost = cost.and(self.computed(u64::from(self.geometry.members())));
            let head = *self.stripes.head(stripe);
            let wrong: Vec<u32> = match progress.spec.repair {
                Repair::Rebuild(new) => vec![new],
                Repair::Resync(Content::Agrees) => Vec::new(),
                Repair::Resync(Content::Differs) => {
                    [Some(head.parity), head.second].into_iter().flatten().collect()
                }
            };
            for member in wrong.into_iter().filter(|member| self.below.is_there(*member)) {
                let block = self.stripes.block(stripe, member);
                (block.locked, block.wants_write) = (true, true);
                state.locked += 1;
            }
            self.stripes.head(stripe).sync = Sync::Writing;
            if state.locked > 0 {
                return;
            }
        }
        self.stripes.head(stripe).sync = Sync::No;
        if let Some(progress) = &mut self.resync {
            progress.done(BLOCK);
        }
        self.resync_goes_on(core);
    }

    /// Submits what blocks want, member by member, so that requests to one lie one after the other (`ops_run_io`).
    fn submit_blocks(&mut self, core: &mut Core, stripe: u32) {
        let batch = self.batch_of(stripe);
        let Head { waited_for, fua, .. } = *self.stripes.head(stripe);
        for member in (0..self.geometry.members()).rev() {
            for one in &batch {
                let row = self.stripes.head(*one).row;
                let block = self.stripes.block(*one, member);
                let op = match (std::mem::take(&mut block.wants_write), std::mem::take(&mut block.wants_read))
                {
                    (true, _) => Op::Write,
                    (false, true) => Op::Read,
                    (false, false) => continue,
                };
                if !self.below.is_there(member) {
                    self.stripes.block(*one, member).locked = false;
                    self.stripes.head(stripe).handle = true;
                    continue;
                }
                let head = self.stripes.head(stripe);
                head.count += 1;
                head.io_started = true;
                let tag = Tag { kind: Kind::Stripe, member, number: *one };
                let bio = self.below.request(op, tag, row * BLOCK, BLOCK);
                let write = op == Op::Write;
                core.submit(Bio { sync: !write || waited_for, fua: write && fua, ..bio });
            }
        }
    }

    /// A block is read or written.
    fn block_is_done(&mut self, core: &mut Core, bio: &Bio, tag: Tag) {
        let block = self.stripes.block(tag.number, tag.member);
        block.locked = false;
        block.up_to_date |= bio.op == Op::Read;
        let head = self.stripes.head(tag.number);
        let first = if head.batch == NONE { tag.number } else { head.batch };
        let head = self.stripes.head(first);
        (head.handle, head.in_vain) = (true, 0);
        self.release(core, first);
    }

    fn resync_goes_on(&mut self, core: &mut Core) {
        let Some(progress) = &mut self.resync else { return };
        if self.steps || self.resync_waits {
            return;
        }
        match progress.go(core.now, self.others) {
            Go::Now => {
                self.steps = true;
                core.run(self.resync_thread, self.costs.map, self.below.me, RESYNC_STEP);
            }
            Go::At(then) => {
                self.steps = true;
                core.at(then, self.below.me, RESYNC_AGAIN);
            }
            Go::WhenDone => {}
            Go::Finished => self.resync = None,
        }
    }

    /// As `raid5_sync_request`.
    fn resync_step(&mut self, core: &mut Core) {
        let Some(row) = self.resync.as_ref().map(|progress| progress.position / BLOCK) else { return };
        let Some(stripe) = self.get(row) else {
            self.resync_waits = true;
            return;
        };
        let head = self.stripes.head(stripe);
        (head.sync, head.handle, head.in_vain) = (Sync::Reading, true, 0);
        if let Some(progress) = &mut self.resync {
            progress.begin(BLOCK);
        }
        self.release(core, stripe);
        self.resync_goes_on(core);
    }
}

impl Part for Parity {
    fn submit(&mut self, core: &mut Core, id: BioId) {
        let bio = self.below.begin(core, id);
        self.others += bio.len;
        match bio.op {
            Op::Flush => self.below.flush(core, id),
            Op::Discard => self.below.expect(core, id, 0),
            Op::Read if !self.is_degraded() => self.read_at_once(core, id, &bio),
            Op::Read | Op::Write => {
                let begun = self.begin_submission(core, id, &bio);
                if let Err(stopped) = self.enter(core, begun) {
                    self.waiting.push_back(stopped);
                    self.wake(core, 0);
                }
            }
        }
    }

    fn done(&mut self, core: &mut Core, bio: &Bio) {
        let tag = Tag::of(bio.tag);
        match tag.kind {
            Kind::Flush | Kind::Data => drop(self.below.part_done(core, BioId(tag.number))),
            Kind::MetaFlush | Kind::MetaWrite => {
                let spec = self.bitmap.as_ref().expect("a bitmap's page is done where there is one").spec;
                if self.meta.done(core, &self.below, &spec, tag) {
                    self.writes_bitmap = false;
                    self.wake(core, 0);
                }
            }
            Kind::Stripe | Kind::ResyncRead | Kind::ResyncWrite => self.block_is_done(core, bio, tag),
        }
    }

    fn worked(&mut self, core: &mut Core, token: u64) {
        let worker = (token >> KIND_BITS) as usize;
        match token & ((1 << KIND_BITS) - 1) {
            STEP => self.step(core, worker),
            HANDLE => self.handle_taken(core, worker),
            RELEASE => self.release_taken(core, worker),
            RESUME => self.resume(core),
            _ => {
                self.steps = false;
                self.resync_step(core);
            }
        }
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        if token == RESYNC_AGAIN {
            self.steps = false;
            return self.resync_goes_on(core);
        }
        let bitmap = self.bitmap.as_mut().expect("the daemon's timer is set where there is a bitmap");
        let pages = bitmap.round();
        bitmap.timed = !bitmap.is_idle();
        if bitmap.timed {
            core.at(core.now + bitmap.spec.daemon, self.below.me, DAEMON);
        }
        self.meta.write(core, &self.below, &pages, false);
    }

    fn unplug(&mut self, core: &mut Core) {
        let context = core.context();
        let mine = |entry: &mut (Option<ThreadId>, u32)| entry.0 == context;
        let released: Vec<u32> = self.plugged.extract_if(.., mine).map(|(_, stripe)| stripe).collect();
        for stripe in released {
            self.stripes.head(stripe).plugged = false;
            self.release(core, stripe);
        }
    }

    fn size(&self) -> u64 {
        self.geometry.size().get()
    }

    fn counters(&self, out: &mut dyn FnMut(&str, u64)) {
        out("stripe_cache_size", self.stripes.heads.len() as u64);
        out("stripe_cache_active", self.stripes.active as u64);
        out("stripes_handled", self.counts.handled);
        out("stripes_reconstructed", self.counts.reconstructed);
        out("stripes_modified", self.counts.modified);
        out("stripes_batched", self.counts.batched);
        out("stripe_waits", self.counts.waits);
    }
}

#[cfg(test)]
mod tests;
