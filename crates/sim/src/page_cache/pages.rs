//! The pages of a file that are in memory, and what state each is in.
//!
//! Pages leave in the order in which they came, but for those that were used since and get a second round: an
//! approximation of the kernel's two lists (`mm/vmscan.c`, `mm/workingset.c`), with which it agrees on
//! streams and on files that fit. Pages that are dirty, or on their way to or from a device, stay.

use std::collections::VecDeque;

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;

/// In memory.
const PRESENT: u8 = 1;
/// Holds what the file holds.
const UPTODATE: u8 = 2;
/// Differs from what the device holds.
const DIRTY: u8 = 4;
/// Is being written.
const WRITEBACK: u8 = 8;
/// The next read-ahead is due when this page is read.
const MARK: u8 = 16;
/// Used since it came or was last looked at.
const USED: u8 = 32;
/// In a transaction of the journal, with its data, that is not committed: may not be written to its place.
const HELD: u8 = 64;

const PER_CHUNK: u64 = 512;

#[derive(Clone)]
struct Chunk {
    flags: [u8; PER_CHUNK as usize],
    dirty: u16,
    writeback: u16,
}

impl Chunk {
    const fn new() -> Self {
        Self { flags: [0; PER_CHUNK as usize], dirty: 0, writeback: 0 }
    }
}

/// A run of pages: the first and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

/// The pages in memory.
pub(crate) struct Pages {
    chunks: Vec<Option<Box<Chunk>>>,
    coming: VecDeque<u64>,
    capacity: u64,
    present: u64,
    dirty: u64,
    writeback: u64,
}

impl Pages {
    /// None, of a file of so many pages; at most `capacity` of them in memory where they can leave.
    pub(crate) fn new(capacity: u64) -> Self {
        Self { chunks: Vec::new(), coming: VecDeque::new(), capacity, present: 0, dirty: 0, writeback: 0 }
    }

    /// How many are in memory.
    pub(crate) fn present(&self) -> u64 {
        self.present
    }

    /// How many are dirty and not being written.
    pub(crate) fn dirty(&self) -> u64 {
        self.dirty
    }

    /// How many are being written.
    pub(crate) fn writeback(&self) -> u64 {
        self.writeback
    }

    fn flags(&self, page: u64) -> u8 {
        match self.chunks.get((page / PER_CHUNK) as usize) {
            Some(Some(chunk)) => chunk.flags[(page % PER_CHUNK) as usize],
            _ => 0,
        }
    }

    fn set(&mut self, page: u64, on: u8, off: u8) {
        let index = (page / PER_CHUNK) as usize;
        if self.chunks.len() <= index {
            self.chunks.resize(index + 1, None);
        }
        let chunk = self.chunks[index].get_or_insert_with(|| Box::new(Chunk::new()));
        let flags = &mut chunk.flags[(page % PER_CHUNK) as usize];
        let before = *flags;
        *flags = (before | on) & !off;
        let after = *flags;
        let change = |of: u8| i32::from(after & of != 0) - i32::from(before & of != 0);
        let count = |all: &mut u64, change: i32| *all = all.wrapping_add_signed(i64::from(change));
        // A page that was dirtied again while it is being written counts once, as being written.
        let waits = |flags: u8| i32::from(flags & DIRTY != 0 && flags & WRITEBACK == 0);
        count(&mut self.present, change(PRESENT));
        count(&mut self.dirty, waits(after) - waits(before));
        count(&mut self.writeback, change(WRITEBACK));
        chunk.dirty = (i32::from(chunk.dirty) + change(DIRTY)) as u16;
        chunk.writeback = (i32::from(chunk.writeback) + change(WRITEBACK)) as u16;
    }

    pub(crate) fn is_present(&self, page: u64) -> bool {
        self.flags(page) & PRESENT != 0
    }

    pub(crate) fn is_uptodate(&self, page: u64) -> bool {
        self.flags(page) & UPTODATE != 0
    }

    pub(crate) fn is_in_writeback(&self, page: u64) -> bool {
        self.flags(page) & WRITEBACK != 0
    }

    pub(crate) fn is_dirty(&self, page: u64) -> bool {
        self.flags(page) & DIRTY != 0
    }

    /// Whether a page may be written to its place now: dirty, not being written, not held by a transaction.
    pub(crate) fn may_be_written(&self, page: u64) -> bool {
        self.flags(page) & (DIRTY | WRITEBACK | HELD) == DIRTY
    }

    pub(crate) fn is_marked(&self, page: u64) -> bool {
        self.flags(page) & MARK != 0
    }

    pub(crate) fn mark(&mut self, page: u64, marked: bool) {
        if marked { self.set(page, MARK, 0) } else { self.set(page, 0, MARK) }
    }

    pub(crate) fn mark_used(&mut self, page: u64) {
        self.set(page, USED, 0);
    }

    /// A page comes into memory, without its content; how many others had to leave.
    pub(crate) fn insert(&mut self, page: u64) -> u64 {
        let left = self.make_room();
        self.set(page, PRESENT, UPTODATE | MARK | USED);
        self.coming.push_back(page);
        left
    }

    pub(crate) fn set_uptodate(&mut self, page: u64) {
        self.set(page, UPTODATE, 0);
    }

    /// A page is written to in memory.
    pub(crate) fn set_dirty(&mut self, page: u64) {
        self.set(page, DIRTY | UPTODATE, 0);
    }

    pub(crate) fn hold(&mut self, page: u64, held: bool) {
        if held { self.set(page, HELD, 0) } else { self.set(page, 0, HELD) }
    }

    /// A page begins to be written.
    pub(crate) fn begin_writeback(&mut self, page: u64) {
        self.set(page, WRITEBACK, DIRTY);
    }

    /// A page is written.
    pub(crate) fn end_writeback(&mut self, page: u64) {
        self.set(page, 0, WRITEBACK);
    }

    /// A page leaves memory unless it is dirty or on its way; whether it is gone.
    pub(crate) fn drop_clean(&mut self, page: u64) -> bool {
        let flags = self.flags(page);
        if flags & (DIRTY | WRITEBACK) != 0 || flags & (PRESENT | UPTODATE) == PRESENT {
            return false;
        }
        self.set(page, 0, u8::MAX);
        true
    }

    /// A dirty page need not be written any more, unless it is on its way or a transaction holds it; whether
    /// that was so.
    pub(crate) fn forget_dirty(&mut self, page: u64) -> bool {
        let forgets = self.may_be_written(page);
        if forgets {
            self.set(page, 0, DIRTY);
        }
        forgets
    }

    /// One of those that came last that are being read.
    pub(crate) fn being_read(&self) -> Option<u64> {
        let is_being_read = |page: &&u64| self.flags(**page) & (PRESENT | UPTODATE) == PRESENT;
        self.coming.iter().rev().find(is_being_read).copied()
    }

    fn next_with(&self, from: u64, end: u64, flag: u8, count: fn(&Chunk) -> u16) -> Option<u64> {
        let mut page = from;
        while page < end {
            let index = (page / PER_CHUNK) as usize;
            let next_chunk = (page / PER_CHUNK + 1) * PER_CHUNK;
            match self.chunks.get(index) {
                None => return None,
                Some(Some(chunk)) if count(chunk) > 0 => {
                    let rest = page..next_chunk.min(end);
                    let found = rest.clone().find(|p| chunk.flags[(p % PER_CHUNK) as usize] & flag != 0);
                    if found.is_some() {
                        return found;
                    }
                }
                Some(_) => {}
            }
            page = next_chunk;
        }
        None
    }

    /// The first dirty page from `from` on and before `end`.
    pub(crate) fn next_dirty(&self, from: u64, end: u64) -> Option<u64> {
        self.next_with(from, end, DIRTY, |chunk| chunk.dirty)
    }

    /// The first page from `from` on and before `end` that is being written.
    pub(crate) fn next_in_writeback(&self, from: u64, end: u64) -> Option<u64> {
        self.next_with(from, end, WRITEBACK, |chunk| chunk.writeback)
    }

    /// Pages leave until there is room for one more; how many did.
    fn make_room(&mut self) -> u64 {
        let mut left = 0;
        let mut looked_at = 0;
        while self.present >= self.capacity && looked_at < 2 * self.coming.len() {
            let Some(page) = self.coming.pop_front() else { break };
            let flags = self.flags(page);
            if flags & PRESENT == 0 {
                continue;
            }
            looked_at += 1;
            let stays = flags & (DIRTY | WRITEBACK | HELD | USED) != 0 || flags & UPTODATE == 0;
            if stays {
                self.set(page, 0, USED);
                self.coming.push_back(page);
            } else {
                self.set(page, 0, u8::MAX);
                left += 1;
            }
        }
        // Pages that were dropped leave their place in the order behind; it must not grow for ever.
        if self.coming.len() as u64 > 2 * self.present + 1024 {
            let mut seen = std::collections::BTreeSet::new();
            let coming = std::mem::take(&mut self.coming);
            self.coming = coming.into_iter().filter(|p| self.is_present(*p) && seen.insert(*p)).collect();
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_leave_in_the_order_of_their_coming_and_used_ones_have_a_second_round() {
        let mut pages = Pages::new(3);
        for page in [10, 20, 30] {
            assert_eq!(pages.insert(page), 0);
            pages.set_uptodate(page);
        }
        pages.mark_used(10);
        assert_eq!(pages.insert(40), 1);
        assert!(pages.is_present(10) && !pages.is_present(20));
        assert_eq!(pages.present(), 3);
    }

    #[test]
    fn dirty_pages_stay_and_are_found_in_order() {
        let mut pages = Pages::new(2);
        for page in [5, 600, 5_000] {
            pages.insert(page);
            pages.set_dirty(page);
        }
        assert_eq!((pages.present(), pages.dirty()), (3, 3));
        assert_eq!(pages.next_dirty(0, u64::MAX), Some(5));
        assert_eq!(pages.next_dirty(6, u64::MAX), Some(600));
        assert_eq!(pages.next_dirty(601, 5_000), None);
        pages.begin_writeback(600);
        assert_eq!((pages.dirty(), pages.writeback()), (2, 1));
        assert_eq!(pages.next_in_writeback(0, u64::MAX), Some(600));
        // Written to again while it is being written: dirty afterwards.
        pages.set_dirty(600);
        assert_eq!((pages.dirty(), pages.writeback()), (2, 1));
        pages.end_writeback(600);
        assert_eq!((pages.dirty(), pages.writeback()), (3, 0));
    }

    #[test]
    fn a_page_that_is_being_read_is_not_dropped() {
        let mut pages = Pages::new(2);
        pages.insert(1);
        assert!(!pages.drop_clean(1));
        pages.set_uptodate(1);
        assert!(pages.drop_clean(1) && !pages.is_present(1));
    }

    #[test]
    fn dropping_and_inserting_for_ever_takes_no_more_memory() {
        let mut pages = Pages::new(1 << 20);
        for _ in 0..100_000 {
            pages.insert(7);
            pages.set_uptodate(7);
            pages.drop_clean(7);
        }
        assert!(pages.coming.len() < 2_000);
    }
}
