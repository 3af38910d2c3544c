//! RAID4, RAID5 and RAID6: requests go through the stripe cache, and parity is computed by the array's
//! thread.
//!
//! Follows `drivers/md/raid5.c` (6.1, 6.12), function by function where it decides about order and amount:
//!
//! - **Reads** of an array that misses nothing go to the members at once, cut by chunks
//!   (`chunk_aligned_read`).
//! - **All else** is cut into stripes of 4 KiB a member, row by row (`raid5_make_request`). A stripe that the
//!   cache does not have takes the place of the least recently used inactive one. Without any, the submitter
//!   waits until a quarter of the cache is free (`raid5_get_active_stripe`), and the thread adds one stripe.
//! - **Handling** (`handle_stripe`): read-modify-write or reconstruction, whichever reads less; a lost block
//!   counts as twice all members (`handle_stripe_dirtying`). What must read first, and for which nobody
//!   waits, is delayed until no other stripe prereads (`raid5_activate_delayed`); such stripes are passed by
//!   as `preread_bypass` says (`__get_priority_stripe`). A stripe is handled to read, to compute, to write,
//!   and when all is done.
//! - **Full stripes** that lie one after the other in a chunk are handled as one batch
//!   (`stripe_add_to_batch_list`).
//! - **Threads**: one, `mdX_raid5`, takes eight stripes at a time under one plug that lasts until nothing is
//!   to do, so that requests of 4 KiB merge; with `group_thread_cnt`, so many workers beside it.
//! - **Resync and rebuild** stripe by stripe through the same cache (`raid5_sync_request`).
//!
//! Left out: the journal and partial parity log, `skip_copy`, bad blocks, errors, discards (refused by
//! default), the eight hash lists of inactive stripes, shrinking of the cache, groups of workers by NUMA node
//! and their sorted dispatch to hard disks, waiting of writes that overlap others which are not drained yet.

mod enter;
mod handle;
mod threads;

use super::Geometry;
use super::array::{ArraySpec, Below, Kind, MdCosts, Tag};
use super::bitmap::{BitmapSpec, MetaWrites, WriteIntent};
use super::clean;
use super::resync::{Go, LEFT, Progress, Repair, ResyncSpec};
use super::stripes::{NONE, Stripes, Sync};
use crate::block::PLUGS_EACH_BIO;
use crate::cpu::{Cpus, ThreadId};
use crate::engine::{Bio, BioId, Core, Part, PartId};
use disks::Op;
use domain::stack::Md;
use domain::trace::Role;
use domain::units::Bytes;
use event_queue::Time;
use std::collections::VecDeque;

/// A stripe's block on one member.
const BLOCK: u64 = 4096;
/// The kernel splits requests at so much (`RAID5_MAX_REQ_STRIPES` blocks).
const LARGEST: u64 = 256 * BLOCK;
/// Stripes that a thread takes at a time (`MAX_STRIPE_BATCH`).
const MAX_TAKEN: usize = 8;
/// Stripes that may preread while others become due (`IO_THRESHOLD`).
const PREREADING: u32 = 1;
/// A stripe that is handled so often while nothing happens to it never ends: a mistake of ours.
const IN_VAIN: u32 = 1000;
/// A cache never grows beyond this (`raid5_set_cache_size`).
const MAX_STRIPES: usize = 32768;
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
            bitmap: BitmapSpec::of(md),
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
    /// The thread that waits with it for a stripe.
    holds_up: Option<ThreadId>,
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
    /// Whether a request without a plug of its submitter's has one for its stripes ([`PLUGS_EACH_BIO`]).
    plugs_each: bool,
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
            plugs_each: array.kernel >= PLUGS_EACH_BIO,
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

impl Parity {
    /// A request that goes through the stripe cache, and the submitter that it holds up already. Without a
    /// stripe it waits, and its submitter with it.
    fn begin(&mut self, core: &mut Core, id: BioId, bio: &Bio, held_up: Option<ThreadId>) {
        let entered = match bio.op {
            Op::Discard => {
                self.below.expect(core, id, 0);
                Ok(())
            }
            _ => {
                let begun = self.begin_submission(core, id, bio);
                self.enter(core, begun)
            }
        };
        match (entered, held_up) {
            (Ok(()), Some(thread)) => core.let_on(thread),
            (Ok(()), None) => {}
            (Err(stopped), _) => {
                let holds_up = held_up.or_else(|| core.hold_up());
                self.waiting.push_back(Submission { holds_up, ..stopped });
                self.wake(core, 0);
            }
        }
    }
}

impl Part for Parity {
    fn submit(&mut self, core: &mut Core, id: BioId) {
        let bio = self.below.begin(core, id);
        self.others += bio.len;
        match bio.op {
            Op::Flush => self.below.flush(core, id),
            Op::Read if !self.is_degraded() => self.read_at_once(core, id, &bio),
            Op::Write | Op::Discard if !self.below.may_write(core, id) => {}
            Op::Read | Op::Write | Op::Discard => self.begin(core, id, &bio, None),
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
            Kind::SuperFlush | Kind::SuperWrite => {
                for (id, submitter) in self.below.superblock_is_written(core, tag) {
                    let bio = core.bios[id.0];
                    self.begin(core, id, &bio, submitter);
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
        match token {
            clean::TIMER => self.below.call_clean(core),
            RESYNC_AGAIN => {
                self.steps = false;
                self.resync_goes_on(core);
            }
            _ => {
                let bitmap = self.bitmap.as_mut().expect("the daemon's timer is set where there is a bitmap");
                bitmap.daemon(core, &self.below, &mut self.meta);
            }
        }
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

    fn device(&self) -> Option<usize> {
        Some(self.below.device)
    }

    fn counters(&self, out: &mut dyn FnMut(&str, u64)) {
        out("stripe_cache_size", self.stripes.heads.len() as u64);
        out("stripe_cache_active", self.stripes.active as u64);
        out("stripes_handled", self.counts.handled);
        out("stripes_reconstructed", self.counts.reconstructed);
        out("stripes_modified", self.counts.modified);
        out("stripes_batched", self.counts.batched);
        out("stripe_waits", self.counts.waits);
        if self.spec.resync.is_some() {
            out(LEFT, self.resync.as_ref().map_or(0, Progress::left));
        }
    }
}

#[cfg(test)]
mod tests;
