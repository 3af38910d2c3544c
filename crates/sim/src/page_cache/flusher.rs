//! The thread that writes dirty pages back: when there are more than the background limit, and when they are
//! old.
//!
//! Follows `wb_workfn`, `wb_writeback` and `writeback_sb_inodes` (`fs/fs-writeback.c`) and `range_cyclic`
//! (`write_cache_pages`): a pass goes on where the last one ended, in the order of the file, and around once;
//! it ends when the limit is no longer passed, or, of old pages, when all have been taken. Dirty metadata
//! follow in the order of their places. Before 2.6, pages are taken by few, and go to the device before the
//! next are (`write_some_buffers`): [`FileSpec::flush_pages`]. The thread sleeps while as many requests are
//! on their way as the device's queue holds.
//!
//! Left out: write-back throttling (wbt), bandwidth-sized chunks between several files, laptop mode.

use super::pages::{PAGE, Run};
use super::read::METADATA;
use super::{FLUSHER, File};
use crate::cpu::{Cost, ThreadId};
use crate::engine::Core;
use crate::fs::Filesystem;
use domain::trace::Role;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Background,
    Old,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pass {
    why: Why,
    start: u64,
    cursor: u64,
    end: u64,
    wrote: bool,
    /// Next block of metadata; before that, data.
    metadata: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sleeps {
    /// There is nothing to do, or it works.
    No,
    /// Too many requests are on their way.
    Full,
    /// The journal has no room.
    Room,
}

/// The flusher of a file.
pub(super) struct Flusher {
    thread: ThreadId,
    running: bool,
    sleeps: Sleeps,
    pass: Option<Pass>,
    /// Where the next pass begins (`writeback_index`).
    index: u64,
    in_flight: u64,
    /// Pages under the present plug.
    plugged: u64,
    next: Option<(Run, bool)>,
    blocks: Vec<u64>,
    armed: bool,
}

const STEP: u64 = 0;
const SUBMIT: u64 = 1;
const SUBMIT_BLOCKS: u64 = 2;
/// To wake up, find the file and begin. Assumed.
const BEGIN: Cost = Cost::cycles(4_000);
/// Blocks of metadata that are submitted together.
const BATCH: usize = 64;

impl Flusher {
    pub(super) fn new(core: &mut Core, name: &str) -> Self {
        Self {
            thread: core.cpus.thread(&format!("kworker/u:0+flush-{name}"), Role::Writeback, 0),
            running: false,
            sleeps: Sleeps::No,
            pass: None,
            index: 0,
            in_flight: 0,
            plugged: 0,
            next: None,
            blocks: Vec::new(),
            armed: false,
        }
    }
}

impl File {
    /// Something is dirty from now on: pages, where `was_clean`.
    pub(super) fn is_dirty_now(&mut self, core: &mut Core, was_clean: bool) {
        if was_clean || self.dirty_since.is_none() {
            self.dirty_since = Some(core.now);
        }
        self.arm(core);
    }

    /// Has the flusher look at what is old, at the next of its times.
    pub(super) fn arm(&mut self, core: &mut Core) {
        if !self.flusher.armed {
            self.flusher.armed = true;
            core.at(core.now + self.spec.memory.writeback_ns, self.me, FLUSHER);
        }
    }

    pub(super) fn tick(&mut self, core: &mut Core) {
        self.flusher.armed = false;
        if self.is_old(core) || self.metadata_is_old(core) {
            self.wake_flusher(core);
        }
        let blocks = self.fs.as_ref().map_or(0, |fs| fs.home.dirty_blocks());
        if self.pages.dirty() + blocks > 0 {
            self.arm(core);
        }
    }

    fn is_old(&self, core: &Core) -> bool {
        let since = self.dirty_since.filter(|_| self.pages.dirty() > 0);
        since.is_some_and(|since| core.now - since >= self.spec.memory.expire_ns)
    }

    fn metadata_is_old(&self, core: &Core) -> bool {
        let since = self.fs.as_ref().and_then(|fs| fs.home.dirty_since());
        since.is_some_and(|since| core.now - since >= self.spec.memory.expire_ns)
    }

    fn is_too_much(&self) -> bool {
        self.pages.dirty() > self.spec.memory.background_pages()
    }

    /// The flusher looks whether there is something to do.
    pub(super) fn wake_flusher(&mut self, core: &mut Core) {
        if !self.flusher.running {
            self.flusher.running = true;
            core.cpus.waits_for_disk(self.flusher.thread, true);
            core.run(self.flusher.thread, BEGIN, self.me, FLUSHER | STEP);
        }
    }

    fn flusher_wakes(&mut self, core: &mut Core) {
        self.flusher.sleeps = Sleeps::No;
        core.run(self.flusher.thread, self.spec.costs.wake, self.me, FLUSHER | STEP);
    }

    /// A request is done; `counted`: one of the flusher's.
    pub(super) fn flusher_is_rid_of_one(&mut self, core: &mut Core, counted: bool) {
        self.flusher.in_flight -= u64::from(counted);
        let most = self.spec.most_in_flight;
        if self.flusher.sleeps == Sleeps::Full && self.on_their_way() <= most - most / 8 - u64::from(most < 8)
        {
            self.flusher_wakes(core);
        }
    }

    fn on_their_way(&self) -> u64 {
        self.flusher.in_flight + self.fs.as_ref().map_or(0, |fs| fs.home.writing())
    }

    /// The journal has done something that the flusher may have waited for.
    pub(super) fn flusher_goes_on(&mut self, core: &mut Core) {
        if self.flusher.sleeps == Sleeps::Room {
            self.flusher_wakes(core);
        } else if self.is_too_much() {
            self.wake_flusher(core);
        }
    }

    /// The flusher's thread has done a step.
    pub(super) fn flush(&mut self, core: &mut Core, step: u64) {
        match step {
            SUBMIT => {
                let (run, fresh) = self.flusher.next.take().expect("pages that were taken are submitted");
                self.flusher.in_flight += 1;
                self.flusher.plugged += run.count;
                self.submit_run(core, run, fresh, false, true);
                if self.spec.flush_pages.is_some_and(|most| self.flusher.plugged >= most) {
                    self.flusher.plugged = 0;
                    core.release_plug();
                    core.run_here(self.spec.costs.wake, self.me, FLUSHER | STEP);
                    return;
                }
            }
            SUBMIT_BLOCKS => {
                let blocks = std::mem::take(&mut self.flusher.blocks);
                if let Some(fs) = &mut self.fs {
                    fs.home.write(core, blocks.into_iter(), false);
                }
            }
            _ => {}
        }
        self.flush_on(core);
    }

    fn flush_on(&mut self, core: &mut Core) {
        if self.on_their_way() >= self.spec.most_in_flight {
            self.flusher.sleeps = Sleeps::Full;
            return;
        }
        let Some(mut pass) = self.flusher.pass.or_else(|| self.begin_pass(core)) else {
            self.flusher.running = false;
            core.release_plug();
            core.cpus.waits_for_disk(self.flusher.thread, false);
            return;
        };
        core.hold_plug();
        let more = match pass.metadata {
            None => self.flush_pages(core, &mut pass),
            Some(from) => self.flush_metadata(core, &mut pass, from),
        };
        self.flusher.pass = Some(pass);
        if !more {
            self.end_pass(core, pass);
        }
    }

    fn begin_pass(&mut self, core: &Core) -> Option<Pass> {
        let size = self.spec.size.get().div_ceil(PAGE);
        let start = if self.flusher.index < size { self.flusher.index } else { 0 };
        let pass = |why, metadata| Pass { why, start, cursor: start, end: size, wrote: false, metadata };
        if self.is_old(core) {
            self.dirty_since = None;
            return Some(pass(Why::Old, None));
        }
        if self.is_too_much() {
            return Some(pass(Why::Background, None));
        }
        self.metadata_is_old(core).then(|| pass(Why::Old, Some(0)))
    }

    /// The pass is over; another one may have to come.
    fn end_pass(&mut self, core: &mut Core, pass: Pass) {
        self.flusher.pass = None;
        if self.pages.dirty() > 0 && (pass.why == Why::Background || self.dirty_since.is_none()) {
            self.dirty_since = Some(core.now);
        }
        if !pass.wrote {
            // All that is dirty is in a transaction: only its commit helps.
            self.commit_for_flusher(core);
            self.flusher.running = false;
            core.release_plug();
            core.cpus.waits_for_disk(self.flusher.thread, false);
            return;
        }
        self.flush_on(core);
    }

    fn commit_for_flusher(&mut self, core: &mut Core) {
        let too_much = self.is_too_much();
        if let Some(journal) = self.fs.as_mut().and_then(|fs| fs.journal.as_mut())
            && too_much
            && let Some(tid) = journal.newest()
        {
            journal.request(core, tid);
        }
    }

    /// The next pages of the pass; whether it goes on by itself.
    fn flush_pages(&mut self, core: &mut Core, pass: &mut Pass) -> bool {
        let enough = pass.why == Why::Background && !self.is_too_much();
        let run = if enough { None } else { self.next_run(pass) };
        let Some(run) = run else {
            self.flusher.index = pass.cursor;
            let blocks = self.fs.is_some() && !enough;
            pass.metadata = blocks.then_some(0);
            return blocks && self.flush_metadata(core, pass, 0);
        };
        let allocates = self.fs.as_ref().is_some_and(|fs| fs.has_holes(run.first, run.count));
        if allocates && self.fs.as_mut().is_some_and(|fs| !fs.has_room(core, METADATA)) {
            self.flusher.sleeps = Sleeps::Room;
            pass.cursor = run.first;
            return true;
        }
        let fresh = self.take(core, run);
        pass.cursor = run.first + run.count;
        pass.wrote = true;
        self.flusher.next = Some((run, fresh));
        self.flusher.index = pass.cursor;
        let cost = self.taking(run);
        core.run_here(cost, self.me, FLUSHER | SUBMIT);
        true
    }

    /// The next pages that may be written, around the end of the file once.
    fn next_run(&self, pass: &mut Pass) -> Option<Run> {
        loop {
            match self.pages.next_dirty(pass.cursor, pass.end) {
                Some(page) => {
                    let run = self.gather(page, pass.end);
                    if run.count > 0 {
                        return Some(run);
                    }
                    pass.cursor = page + 1;
                }
                None if pass.end > pass.start && pass.start > 0 => (pass.cursor, pass.end) = (0, pass.start),
                None => return None,
            }
        }
    }

    fn flush_metadata(&mut self, core: &mut Core, pass: &mut Pass, from: u64) -> bool {
        if let Some(fs) = self.fs.as_mut().filter(|_| from == 0) {
            fs.home.begin_pass(core.now);
        }
        let room = self.spec.most_in_flight.saturating_sub(self.on_their_way()) as usize;
        let blocks = self.fs.as_ref().map(|fs: &Filesystem| fs.ready_for_home(from, BATCH.min(room.max(1))));
        let blocks = blocks.unwrap_or_default();
        let Some(last) = blocks.last() else { return false };
        pass.metadata = Some(last + 1);
        pass.wrote = true;
        let each = self.fs.as_ref().map_or(Cost::NONE, |fs| fs.spec.costs.journal.checkpoint);
        let cost = each.times(blocks.len() as u64);
        self.flusher.blocks = blocks;
        core.run_here(cost, self.me, FLUSHER | SUBMIT_BLOCKS);
        true
    }
}
