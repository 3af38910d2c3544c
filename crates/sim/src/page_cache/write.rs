//! Buffered writes (`generic_perform_write`), and the pauses of who writes too much (`balance_dirty_pages`).

use super::pages::PAGE;
use super::read::METADATA;
use super::readahead::Window;
use super::{ASK, CHUNK, File, Stage, Then};
use crate::engine::Core;

/// How long a writer that is at the limit waits before it looks again (`wb_max_pause` at its largest is 200
/// ms; the kernel's other pauses are 10 ms).
const AT_THE_LIMIT_NS: u64 = 20_000_000;

impl File {
    /// Takes the right to change the file, or waits for it.
    pub(super) fn take_lock(&mut self, id: u32) -> bool {
        match self.lock {
            Some(holder) if holder != id => {
                if !self.for_lock.contains(&id) {
                    self.for_lock.push_back(id);
                }
                false
            }
            _ => {
                self.lock = Some(id);
                self.asks[id].has_lock = true;
                true
            }
        }
    }

    pub(super) fn release_lock(&mut self, core: &mut Core, id: u32) {
        self.asks[id].has_lock = false;
        self.lock = self.for_lock.pop_front();
        if let Some(next) = self.lock {
            self.asks[next].has_lock = true;
            self.wake(core, next);
        }
    }

    /// Whether the journal has room for so many blocks; if not, the request sleeps until there may be.
    pub(super) fn has_room(&mut self, core: &mut Core, id: u32, blocks: u64) -> bool {
        let there_is = self.fs.as_mut().is_none_or(|fs| fs.has_room(core, blocks));
        if !there_is {
            self.for_room.push(id);
        }
        there_is
    }

    /// The next pages of a write.
    pub(super) fn write(&mut self, core: &mut Core, id: u32) {
        if !self.take_lock(id) {
            return;
        }
        let ask = self.asks[id];
        if ask.at >= ask.end {
            self.write_is_over(core, id);
            return;
        }
        let first = ask.at / PAGE;
        let to = ask.end.min((first + CHUNK) * PAGE);
        let last = to.div_ceil(PAGE);
        if self.waits_for_content(core, id, ask.at, to) {
            return;
        }
        if !self.has_room(core, id, last - first + METADATA) {
            return;
        }
        let fresh = (first..last).filter(|page| !self.pages.is_dirty(*page)).count() as u64;
        if self.dirty_pages() + fresh > self.spec.memory.dirty_pages().max(CHUNK) {
            self.wake_flusher(core);
            self.pause(core, id, AT_THE_LIMIT_NS);
            return;
        }
        self.enter_dirty(core, first, last);
        self.asks[id].stage = Stage::WriteCopied { to, fresh };
        let cost = self.spec.costs.dirty.times(last - first).and(self.copy(to - ask.at));
        self.go(core, id, cost);
    }

    /// A page of which only a part is written must be there first: reads it, or waits for it.
    fn waits_for_content(&mut self, core: &mut Core, id: u32, from: u64, to: u64) -> bool {
        let parts = [(from, from / PAGE), (to, to / PAGE)];
        for (_, page) in parts.into_iter().filter(|(at, _)| !at.is_multiple_of(PAGE)) {
            if self.pages.is_uptodate(page) {
                continue;
            }
            if !self.pages.is_present(page) {
                self.read_window(core, Some(Window { start: page, count: 1, mark_from_end: 0 }));
            }
            if !self.pages.is_uptodate(page) {
                self.for_page.push((page, id));
                return true;
            }
        }
        // A page that is being read ahead is waited for, even if all of it is written.
        let reading = (from / PAGE..to.div_ceil(PAGE))
            .find(|page| self.pages.is_present(*page) && !self.pages.is_uptodate(*page));
        if let Some(page) = reading {
            self.for_page.push((page, id));
        }
        reading.is_some()
    }

    fn enter_dirty(&mut self, core: &mut Core, first: u64, last: u64) {
        let (mut came, mut left) = (0, 0);
        let was_clean = self.pages.dirty() == 0;
        for page in first..last {
            if !self.pages.is_present(page) {
                came += 1;
                left += self.pages.insert(page);
            }
            self.pages.mark_used(page);
            self.pages.set_dirty(page);
        }
        self.counts.most_dirty = self.counts.most_dirty.max(self.dirty_pages());
        core.charge(self.spec.costs.insert.times(came).and(self.spec.costs.evict.times(left)));
        let journals = self.journals_data();
        if let Some(fs) = &mut self.fs {
            fs.touch(core);
            if fs.allocates_at_write() {
                fs.allocate(core, first, last - first);
                // Each page begins and ends a change of its own.
                fs.charge_handles(core, last - first);
            }
            if journals {
                fs.journal_data(core, first..last);
            }
        }
        if journals {
            (first..last).for_each(|page| self.pages.hold(page, true));
        }
        self.is_dirty_now(core, was_clean);
    }

    /// Copied; now the writer pauses if too much is dirty.
    pub(super) fn write_copied(&mut self, core: &mut Core, id: u32, to: u64, fresh: u64) {
        let ask = &mut self.asks[id];
        ask.at = to;
        ask.stage = Stage::Write;
        let thread = ask.thread;
        let dirty = self.dirty_pages();
        if self.pages.dirty() > self.spec.memory.background_pages() {
            self.wake_flusher(core);
        }
        match self.throttle.pause(core.now, thread, fresh, dirty) {
            0 => self.write(core, id),
            pause => {
                self.wake_flusher(core);
                self.pause(core, id, pause);
            }
        }
    }

    fn pause(&mut self, core: &mut Core, id: u32, ns: u64) {
        self.counts.pauses += 1;
        self.counts.paused_ns += ns;
        core.at(core.now + ns, self.me, ASK | u64::from(id));
    }

    fn write_is_over(&mut self, core: &mut Core, id: u32) {
        self.release_lock(core, id);
        let ask = &mut self.asks[id];
        if !ask.fua {
            self.finish(core, id);
            return;
        }
        (ask.stage, ask.then, ask.cursor) = (Stage::SyncWrite, Then::Commit, ask.offset / PAGE);
        ask.data_only = true;
        self.sync_write(core, id);
    }
}
