//! The write-intent bitmap: before data goes to members, what says that it is on its way is on all of them.
//!
//! Follows `drivers/md/md-bitmap.c: md_bitmap_startwrite, md_bitmap_unplug, md_bitmap_endwrite,
//! md_bitmap_daemon_work` (6.1, 6.12). A bit is set and its page written, with a flush before it and forced,
//! before the first write to its part of the array; it is cleared in memory two rounds of the daemon after
//! the last, and its page written in a third.
//!
//! Left out: bitmaps in files, clusters, write-behind.

use super::array::{Below, Kind, Tag};
use crate::engine::{Bio, Core};
use disks::Op;
use domain::stack::{Bitmap, Md};
use domain::units::Bytes;
use event_queue::Time;
use std::collections::BTreeMap;

/// How a bitmap is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitmapSpec {
    /// What one bit stands for. mdadm(8), `--bitmap-chunk`: 64 MiB at least where it chooses itself.
    pub chunk: Bytes,
    /// Where it lies, from the beginning of each member: 8 KiB with metadata 1.2.
    pub offset: Bytes,
    /// How often the daemon looks (`bitmap/time_base`): 5 s.
    pub daemon: Time,
}

impl Default for BitmapSpec {
    fn default() -> Self {
        Self { chunk: Bytes::from_mib(64), offset: Bytes::from_kib(8), daemon: 5_000_000_000 }
    }
}

impl BitmapSpec {
    /// What a study asks for; `None` where the array has none.
    pub fn of(md: &Md) -> Option<Self> {
        let usual = Self::default();
        (md.bitmap != Bitmap::None).then(|| Self { chunk: md.bitmap_chunk.unwrap_or(usual.chunk), ..usual })
    }
}

/// The timer of an array that the daemon has.
const TIMER: u64 = 0;

/// A page of the bitmap on the members, and how many bits it has; its superblock takes 256 bytes of the first
/// one.
const PAGE: u64 = 4096;
const SUPERBLOCK_BITS: u64 = 256 * 8;

/// A bitmap in memory.
#[derive(Clone, Debug)]
pub(super) struct WriteIntent {
    pub(super) spec: BitmapSpec,
    /// By part of the array: 0 is not there; 1 will be cleared in the next round, 2 in the one after; above
    /// that there are writes on their way.
    counters: BTreeMap<u64, u32>,
    pages: BTreeMap<u64, Page>,
    timed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// A bit was set that the members do not have.
    dirty: bool,
    /// Bits were cleared; to be written in the round after the next.
    pending: bool,
    needs_write: bool,
}

impl WriteIntent {
    pub(super) const fn new(spec: BitmapSpec) -> Self {
        Self { spec, counters: BTreeMap::new(), pages: BTreeMap::new(), timed: false }
    }

    fn parts(&self, offset: u64, len: u64) -> std::ops::RangeInclusive<u64> {
        let chunk = self.spec.chunk.get();
        offset / chunk..=(offset + len.max(1) - 1) / chunk
    }

    const fn page(part: u64) -> u64 {
        (part + SUPERBLOCK_BITS) / (PAGE * 8)
    }

    /// A write begins.
    pub(super) fn start(&mut self, offset: u64, len: u64) {
        for part in self.parts(offset, len) {
            let counter = self.counters.entry(part).or_insert(0);
            if *counter == 0 {
                self.pages.entry(Self::page(part)).or_default().dirty = true;
            }
            *counter = (*counter).max(2) + 1;
        }
    }

    /// It has ended.
    pub(super) fn end(&mut self, offset: u64, len: u64) {
        for part in self.parts(offset, len) {
            let counter = self.counters.get_mut(&part).expect("a write that ends has begun");
            *counter -= 1;
        }
    }

    /// Whether the members have all bits that are set.
    pub(super) fn is_written(&self) -> bool {
        self.pages.values().all(|page| !page.dirty)
    }

    /// The pages that have to be written before data goes on; they then count as written.
    pub(super) fn take_dirty(&mut self) -> Vec<u64> {
        let dirty = self.pages.iter_mut().filter(|(_, page)| page.dirty);
        let taken = dirty.map(|(number, page)| {
            *page = Page::default();
            *number
        });
        taken.collect()
    }

    /// There is something for the daemon: its timer is set, where it is not.
    pub(super) fn wake_daemon(&mut self, core: &mut Core, below: &Below) {
        if !std::mem::replace(&mut self.timed, true) {
            core.at(core.now + self.spec.daemon, below.me, TIMER);
        }
    }

    /// The daemon's timer: a round, and the next where there is still something.
    pub(super) fn daemon(&mut self, core: &mut Core, below: &Below, meta: &mut MetaWrites) {
        let pages = self.round();
        self.timed = false;
        if !self.is_idle() {
            self.wake_daemon(core, below);
        }
        meta.write(core, below, &pages, false);
    }

    /// A round of the daemon: the pages that are to be written.
    fn round(&mut self) -> Vec<u64> {
        for page in self.pages.values_mut() {
            page.needs_write |= std::mem::take(&mut page.pending);
        }
        let pages = &mut self.pages;
        self.counters.retain(|part, counter| {
            if *counter == 1 {
                pages.entry(Self::page(*part)).or_default().pending = true;
                return false;
            }
            if *counter == 2 {
                *counter = 1;
            }
            true
        });
        let due = self.pages.iter_mut().filter(|(_, page)| page.needs_write && !page.dirty);
        let taken = due.map(|(number, page)| {
            page.needs_write = false;
            *number
        });
        taken.collect()
    }

    /// Whether the daemon has anything to look at.
    fn is_idle(&self) -> bool {
        self.counters.is_empty() && self.pages.values().all(|page| !page.pending && !page.needs_write)
    }
}

/// Pages on their way to the members: to each a flush, then the page, forced (`md.c: md_super_write`).
#[derive(Clone, Debug, Default)]
pub(super) struct MetaWrites {
    /// Requests that are not done, of those that somebody waits for, and of the daemon's.
    awaited: u32,
    lazy: u32,
}

/// Set in the number of what nobody waits for.
const LAZY: u32 = 1 << 31;

impl MetaWrites {
    /// Whether somebody waits.
    pub(super) const fn is_awaited(&self) -> bool {
        self.awaited > 0
    }

    pub(super) fn write(&mut self, core: &mut Core, below: &Below, pages: &[u64], awaited: bool) {
        for page in pages {
            for member in (0..below.members.len() as u32).filter(|member| below.is_there(*member)) {
                *if awaited { &mut self.awaited } else { &mut self.lazy } += 1;
                let number = *page as u32 | if awaited { 0 } else { LAZY };
                core.submit(below.request(Op::Flush, Tag { kind: Kind::MetaFlush, member, number }, 0, 0));
            }
        }
    }

    /// A request of these is done; whether nobody waits any more.
    pub(super) fn done(&mut self, core: &mut Core, below: &Below, spec: &BitmapSpec, tag: Tag) -> bool {
        if tag.kind == Kind::MetaFlush {
            let offset = spec.offset.get() + u64::from(tag.number & !LAZY) * PAGE;
            let tag = Tag { kind: Kind::MetaWrite, ..tag };
            let bio = below.request(Op::Write, tag, 0, PAGE);
            core.submit(Bio { fua: true, offset, ..bio });
            return false;
        }
        if tag.number & LAZY != 0 {
            self.lazy -= 1;
            return false;
        }
        self.awaited -= 1;
        self.awaited == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_bit_is_written_before_the_first_write_and_cleared_three_rounds_after_the_last() {
        let mut bitmap = WriteIntent::new(BitmapSpec::default());
        bitmap.start(0, 4096);
        assert!(!bitmap.is_written());
        assert_eq!(bitmap.take_dirty(), [0]);
        bitmap.start(4096, 4096);
        assert!(bitmap.is_written(), "the same part of the array");
        bitmap.end(0, 4096);
        assert_eq!((bitmap.round(), bitmap.round()), (vec![], vec![]), "a write is on its way");
        bitmap.end(4096, 4096);
        assert_eq!(bitmap.round(), [0_u64; 0]);
        assert_eq!(bitmap.round(), [0_u64; 0]);
        assert!(!bitmap.is_idle());
        assert_eq!(bitmap.round(), [0]);
        assert!(bitmap.is_idle());
        bitmap.start(0, 4096);
        assert!(!bitmap.is_written(), "cleared, so it is set again");
    }

    #[test]
    fn a_write_over_two_parts_sets_both_bits_and_a_later_page_has_later_bits() {
        let mut bitmap = WriteIntent::new(BitmapSpec::default());
        bitmap.start(64 * MIB - 4096, 8192);
        assert_eq!(bitmap.counters.len(), 2);
        bitmap.start(40_000 * 64 * MIB, 4096);
        assert_eq!(bitmap.take_dirty(), [0, 1]);
    }
}
