//! Writing of a file's pages by who waits for it: `fsync(2)`, direct I/O over dirty pages, and data that a
//! commit waits for.

use super::pages::{PAGE, Run};
use super::read::METADATA;
use super::{File, MAX_BIO, Sent, Stage, Then};
use crate::cpu::Cost;
use crate::engine::{Bio, Core};
use crate::fs::Needs;
use disks::Op;

impl File {
    /// Pages from one on that can be written with one request.
    pub(super) fn gather(&self, first: u64, end: u64) -> Run {
        let (_, contiguous) = self.place(first);
        let most = self.spec.flush_pages.unwrap_or(MAX_BIO).min(MAX_BIO).min(contiguous).min(end - first);
        let count = (first..first + most).take_while(|page| self.pages.may_be_written(*page)).count();
        Run { first, count: count as u64 }
    }

    /// Takes pages for writing: their blocks are allocated, and they count as being written. Whether blocks
    /// were allocated.
    pub(super) fn take(&mut self, core: &mut Core, run: Run) -> bool {
        let fresh = self.fs.as_mut().is_some_and(|fs| fs.allocate(core, run.first, run.count));
        if self.pages.writeback() == 0 {
            self.throttle.begins(core.now);
        }
        for page in run.first..run.first + run.count {
            self.pages.begin_writeback(page);
        }
        fresh
    }

    /// What it costs to take pages for writing and to submit them.
    pub(super) fn taking(&self, run: Run) -> Cost {
        let map = self.fs.as_ref().map_or(Cost::NONE, |fs| fs.spec.costs.map);
        // A block device's own pages are buffers, each a request of its own until the block layer makes one
        // of them.
        let bios = if self.fs.is_some() { 1 } else { run.count };
        self.spec.costs.write.times(run.count).and(self.spec.costs.bio.times(bios)).and(map)
    }

    /// Submits pages that were taken: a file's as one request, a block device's page by page, which are
    /// buffers (`block_write_full_folio`).
    pub(super) fn submit_run(&mut self, core: &mut Core, run: Run, fresh: bool, sync: bool, flusher: bool) {
        let (place, _) = self.place(run.first);
        self.counts.written_bytes += run.count * PAGE;
        let each = if self.fs.is_some() { run.count } else { 1 };
        for done in (0..run.count).step_by(each as usize) {
            let bio = Bio { sync, ..self.to_device(Op::Write, place + done * PAGE, each * PAGE) };
            // The flusher counts them as one, as the block layer makes one of them.
            let flusher = flusher && done + each == run.count;
            let run = Run { first: run.first + done, count: each };
            self.send(core, bio, Sent::Write { run, fresh, flusher });
        }
    }

    /// The next dirty pages of the range.
    pub(super) fn sync_write(&mut self, core: &mut Core, id: u32) {
        let ask = self.asks[id];
        let end = ask.end.div_ceil(PAGE);
        let mut page = ask.cursor;
        let run = loop {
            let Some(next) = self.pages.next_dirty(page, end) else {
                let ask = &mut self.asks[id];
                (ask.stage, ask.cursor) = (Stage::SyncWait, ask.offset / PAGE);
                core.release_plug();
                self.sync_wait(core, id);
                return;
            };
            if self.pages.is_in_writeback(next) {
                self.asks[id].cursor = next;
                self.for_page.push((next, id));
                return;
            }
            let run = self.gather(next, end);
            if run.count > 0 {
                break run;
            }
            // Held by a transaction, which the commit takes care of.
            page = next + 1;
        };
        self.asks[id].cursor = run.first;
        let allocates = self.fs.as_ref().is_some_and(|fs| fs.has_holes(run.first, run.count));
        if allocates && !self.has_room(core, id, METADATA) {
            return;
        }
        core.hold_plug();
        let fresh = self.take(core, run);
        let ask = &mut self.asks[id];
        ask.stage = Stage::SyncSubmit(run);
        // Whether it was allocated for this is kept where the number of parts of a direct request is
        // otherwise.
        ask.pending = u64::from(fresh);
        let cost = self.taking(run);
        self.go(core, id, cost);
    }

    pub(super) fn sync_submit(&mut self, core: &mut Core, id: u32, run: Run) {
        let ask = &mut self.asks[id];
        let fresh = std::mem::take(&mut ask.pending) > 0;
        (ask.stage, ask.cursor) = (Stage::SyncWrite, run.first + run.count);
        self.submit_run(core, run, fresh, true, false);
        self.sync_write(core, id);
    }

    /// Waits for the pages of the range that are being written.
    pub(super) fn sync_wait(&mut self, core: &mut Core, id: u32) {
        let ask = self.asks[id];
        let end = ask.end.div_ceil(PAGE);
        if let Some(page) = self.pages.next_in_writeback(ask.cursor, end) {
            self.sleeps(core, id, ask.op == Op::Flush);
            self.asks[id].cursor = page;
            self.for_page.push((page, id));
            return;
        }
        self.asks[id].stage = match ask.then {
            Then::Direct => Stage::Direct,
            Then::Commit => Stage::Commit,
        };
        self.step(core, id);
    }

    /// The data is written: what else it takes to be safe.
    pub(super) fn commit(&mut self, core: &mut Core, id: u32) {
        let data_only = self.asks[id].data_only;
        let needs = match &mut self.fs {
            Some(fs) => fs.needs(core, data_only),
            None => Needs::Flush,
        };
        match needs {
            Needs::Nothing => self.finish(core, id),
            Needs::Flush => self.flush_device(core, id),
            Needs::Commit(tid) => {
                // `jbd2_log_wait_commit` waits for the journal's thread, which waits for the device.
                self.sleeps(core, id, false);
                self.for_commit.push((tid, id));
            }
            Needs::Home => {
                self.asks[id].stage = Stage::HomeWait;
                if let Some(fs) = &mut self.fs {
                    let own = fs.home.own();
                    core.charge(fs.spec.costs.journal.checkpoint.times(own.len() as u64));
                    fs.home.write(core, own.into_iter(), true);
                }
                self.home_wait(core, id);
            }
        }
    }

    /// Waits for the file's own blocks of metadata.
    pub(super) fn home_wait(&mut self, core: &mut Core, id: u32) {
        if self.fs.as_ref().is_some_and(|fs| fs.home.writes_own()) {
            self.for_home.push(id);
            return;
        }
        match self.fs.as_ref().is_none_or(|fs| fs.spec.barrier) {
            true => self.flush_device(core, id),
            false => self.finish(core, id),
        }
    }

    fn flush_device(&mut self, core: &mut Core, id: u32) {
        self.asks[id].stage = Stage::Flushing;
        self.sleeps(core, id, true);
        core.charge(self.spec.costs.bio);
        self.send(core, self.to_device(Op::Flush, 0, 0), Sent::Flush(id));
    }

    /// A commit waits for these pages.
    pub(super) fn write_ordered(&mut self, core: &mut Core, from: u64, to: u64) {
        self.ordered = Some((from, to));
        let mut page = from;
        while let Some(next) = self.pages.next_dirty(page, to) {
            let run = self.gather(next, to);
            page = next + run.count.max(1);
            if run.count > 0 && self.fs.as_ref().is_some_and(|fs| fs.is_allocated(next)) {
                self.write_now(core, run);
            }
        }
        self.ordered_go_on(core);
    }

    /// A checkpoint waits for these pages.
    pub(super) fn write_pages(&mut self, core: &mut Core, pages: &[u64]) {
        for page in pages {
            if self.pages.may_be_written(*page) {
                let run = self.gather(*page, page + MAX_BIO);
                self.write_now(core, run);
            }
        }
    }

    fn write_now(&mut self, core: &mut Core, run: Run) {
        core.charge(self.taking(run));
        let fresh = self.take(core, run);
        self.submit_run(core, run, fresh, true, false);
    }

    /// Once none of the pages is on its way any more, the commit goes on.
    pub(super) fn ordered_go_on(&mut self, core: &mut Core) {
        let Some((from, to)) = self.ordered else { return };
        if self.pages.next_in_writeback(from, to).is_none() {
            self.ordered = None;
            if let Some(journal) = self.fs.as_mut().and_then(|fs| fs.journal.as_mut()) {
                journal.data_is_written(core);
            }
        }
    }
}
