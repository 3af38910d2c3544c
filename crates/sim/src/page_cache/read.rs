//! Buffered reads (`filemap_read`), and direct I/O.

use super::pages::{PAGE, Run};
use super::readahead::{Bounds, State, Window};
use super::{File, IoRequest, MAX_BIO, Sent, Stage, Then};
use crate::engine::{Bio, Core};
use disks::Op;

impl File {
    fn bounds(&self, ask: &IoRequest) -> Bounds {
        Bounds {
            kind: self.spec.read_ahead_kind,
            advice: self.advice.get(&ask.thread).copied().unwrap_or(self.spec.advice),
            window: self.spec.read_ahead.get() / PAGE,
            request: self.spec.most_request.get() / PAGE,
            size: self.spec.size.get().div_ceil(PAGE),
        }
    }

    /// The next pages of a read: as many as are there, or those that are missing.
    pub(super) fn read(&mut self, core: &mut Core, id: u32) {
        let ask = self.asks[id];
        let (index, last) = (ask.at / PAGE, ask.end.div_ceil(PAGE));
        let bounds = self.bounds(&ask);
        let mut state = self.states.get(&ask.thread).copied().unwrap_or(State::new());
        if !self.pages.is_present(index) {
            self.counts.misses += 1;
            let window = state.missing(&self.pages, &bounds, index, last - index);
            self.read_window(core, window);
            if !self.pages.is_present(index) {
                self.read_window(core, Some(Window { start: index, count: 1, mark_from_end: 0 }));
            }
        }
        let mut end = index;
        while end < last && end - index < self.spec.batch_pages && self.pages.is_present(end) {
            end += 1;
            if self.pages.is_marked(end - 1) || !self.pages.is_uptodate(end - 1) {
                break;
            }
        }
        // The read holds its pages: what is read ahead now may throw them out, and they are copied all the
        // same.
        let is_there = self.pages.is_uptodate(end - 1);
        if self.pages.is_marked(end - 1) && !self.pages.is_in_writeback(end - 1) {
            self.pages.mark(end - 1, false);
            let window = state.marked(&self.pages, &bounds, end - 1, last - (end - 1));
            self.read_window(core, window);
        }
        self.states.insert(ask.thread, state);
        if !is_there {
            self.for_page.push((end - 1, id));
            return;
        }
        let to = (end * PAGE).min(ask.end);
        let again = state.previous == Some(index);
        for page in index..end {
            if (page > index || !again) && self.pages.is_present(page) {
                self.pages.mark_used(page);
            }
        }
        self.counts.hits += end - index;
        self.asks[id].stage = Stage::ReadCopied(to);
        let cost = self.spec.costs.find.times(end - index).and(self.copy(to - ask.at));
        self.go(core, id, cost);
    }

    pub(super) fn read_copied(&mut self, core: &mut Core, id: u32, to: u64) {
        let ask = &mut self.asks[id];
        ask.at = to;
        ask.stage = Stage::Read;
        if to < ask.end {
            self.read(core, id);
            return;
        }
        let thread = ask.thread;
        self.states.entry(thread).or_insert(State::new()).previous = Some(to / PAGE);
        self.finish(core, id);
    }

    /// Enters the pages of a window that are not there, and asks for them.
    pub(super) fn read_window(&mut self, core: &mut Core, window: Option<Window>) {
        let Some(window) = window else { return };
        let end = window.start + window.count;
        let mark = (window.mark_from_end > 0).then(|| end - window.mark_from_end);
        let mut page = window.start;
        while page < end {
            if self.pages.is_present(page) {
                page += 1;
                continue;
            }
            let run = self.enter(core, page, end, mark);
            page += run;
        }
    }

    /// Enters pages from one on that are not there, as far as one request reads them; how many.
    fn enter(&mut self, core: &mut Core, first: u64, end: u64, mark: Option<u64>) -> u64 {
        let hole = self.is_hole(first);
        let (place, contiguous) = self.place(first);
        let most = MAX_BIO.min(contiguous).min(end - first);
        let alike = |page: &u64| !self.pages.is_present(*page) && self.is_hole(*page) == hole;
        let count = (first..first + most).take_while(alike).count() as u64;
        let mut left = 0;
        for page in first..first + count {
            left += self.pages.insert(page);
            if mark == Some(page) {
                self.pages.mark(page, true);
            }
            if hole {
                self.pages.set_uptodate(page);
            }
        }
        let costs = &self.spec.costs;
        core.charge(costs.insert.times(count).and(costs.evict.times(left)));
        if !hole {
            let map = self.fs.as_ref().map_or(crate::cpu::Cost::NONE, |fs| fs.spec.costs.map);
            core.charge(self.spec.costs.bio.and(map));
            self.counts.read_bytes += count * PAGE;
            let run = Run { first, count };
            self.send(core, self.to_device(Op::Read, place, count * PAGE), Sent::Read(run));
        }
        count
    }

    /// The last close of a device: what is being read ahead is waited for. (`kill_bdev` throws all pages out,
    /// and waits for the lock of each, which it has while it is read.)
    pub(super) fn close(&mut self, core: &mut Core, id: u32) {
        match self.pages.being_read() {
            Some(page) => self.for_page.push((page, id)),
            None => self.finish(core, id),
        }
    }

    /// What it costs to copy so much.
    pub(super) fn copy(&self, bytes: u64) -> crate::cpu::Cost {
        let kib = self.spec.costs.copy_kib;
        crate::cpu::Cost { cycles: kib.cycles * bytes / 1024, stall_ns: kib.stall_ns * bytes / 1024 }
    }

    /// A direct request: first what is in memory of its range is written, and for a write thrown out.
    pub(super) fn direct(&mut self, core: &mut Core, id: u32) {
        let ask = self.asks[id];
        let (first, end) = (ask.offset / PAGE, ask.end.div_ceil(PAGE));
        let dirty = self.pages.next_dirty(first, end).or_else(|| self.pages.next_in_writeback(first, end));
        if dirty.is_some() {
            let ask = &mut self.asks[id];
            (ask.stage, ask.then, ask.cursor) = (Stage::SyncWrite, Then::Direct, first);
            self.sync_write(core, id);
            return;
        }
        if ask.op == Op::Write {
            if let Some(page) = self.throw_out(first, end) {
                self.for_page.push((page, id));
                return;
            }
            let grows = self.fs.as_ref().is_some_and(|fs| fs.has_holes(first, end - first));
            if grows && !self.take_lock(id) {
                return;
            }
            if !self.has_room(core, id, METADATA) {
                return;
            }
        }
        self.asks[id].stage = Stage::DirectGo;
        let costs = &self.spec.costs;
        let map = self.fs.as_ref().map_or(crate::cpu::Cost::NONE, |fs| fs.spec.costs.map);
        let cost = costs.pin.times(end - first).and(costs.bio).and(map);
        self.go(core, id, cost);
    }

    /// Throws the pages of a range out of memory; one that is being read, where there is one.
    fn throw_out(&mut self, first: u64, end: u64) -> Option<u64> {
        if self.pages.present() == 0 {
            return None;
        }
        let pages = &mut self.pages;
        (first..end)
            .find(|page| pages.is_present(*page) && !pages.drop_clean(*page) && !pages.is_dirty(*page))
    }

    /// A direct request goes to the device, in as many requests as its place and their largest size make
    /// necessary.
    pub(super) fn direct_go(&mut self, core: &mut Core, id: u32) {
        let ask = self.asks[id];
        let (first, end) = (ask.offset / PAGE, ask.end.div_ceil(PAGE));
        let mut fresh = false;
        if let Some(fs) = self.fs.as_mut().filter(|_| ask.op == Op::Write) {
            fresh = fs.allocate(core, first, end - first);
            fs.touch(core);
        }
        let mut at = ask.offset;
        let mut pending = 0;
        let fua = ask.fua && !fresh;
        while at < ask.end {
            let (place, contiguous) = self.place(at / PAGE);
            let most = (contiguous.min(MAX_BIO) * PAGE - at % PAGE).min(ask.end - at);
            if ask.op == Op::Read && self.is_hole(at / PAGE) {
                at = ((at / PAGE + 1) * PAGE).min(ask.end);
                continue;
            }
            let most = if ask.op == Op::Read { self.without_holes(at, most) } else { most };
            let bio = Bio { fua, ..self.to_device(ask.op, place + at % PAGE, most) };
            self.send(core, bio, Sent::Direct(id));
            match ask.op {
                Op::Read => self.counts.read_bytes += most,
                _ => self.counts.written_bytes += most,
            }
            pending += 1;
            at += most;
        }
        let ask = &mut self.asks[id];
        ask.pending = pending;
        ask.stage = Stage::DirectOnItsWay;
        // Where the blocks are new, what makes them the file's is not on the medium yet: FUA alone is not
        // enough.
        ask.fua = ask.fua && fresh;
        ask.data_only = true;
        if pending == 0 {
            self.finish(core, id);
        }
    }

    /// How much from an offset on has blocks.
    fn without_holes(&self, at: u64, most: u64) -> u64 {
        let end = (at / PAGE..(at + most).div_ceil(PAGE)).find(|page| self.is_hole(*page));
        end.map_or(most, |page| page * PAGE - at)
    }

    pub(super) fn direct_is_done(&mut self, core: &mut Core, id: u32) {
        self.asks[id].pending -= 1;
        let ask = self.asks[id];
        if ask.pending > 0 {
            return;
        }
        core.charge(self.spec.costs.end);
        if ask.op == Op::Write {
            self.throw_out(ask.offset / PAGE, ask.end.div_ceil(PAGE));
            if ask.has_lock {
                if let Some(fs) = &mut self.fs {
                    fs.convert(core);
                }
                self.release_lock(core, id);
            }
            if ask.fua {
                let ask = &mut self.asks[id];
                (ask.stage, ask.then) = (Stage::Commit, Then::Commit);
                self.wake(core, id);
                return;
            }
        }
        self.finish(core, id);
    }
}

/// Blocks of metadata that one step may change at most, for which there must be room in the journal (ext4
/// reserves more and gives the rest back).
pub(super) const METADATA: u64 = 16;
