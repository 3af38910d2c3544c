//! Requests that wait under their threads' plugs (`struct blk_plug`): one list a thread, whatever disks it is
//! for.
//!
//! Follows `blk_add_rq_to_plug`, `blk_mq_flush_plug_list` (`block/blk-mq.c`) and `blk_attempt_plug_merge`
//! (`block/blk-merge.c`). A list is let go when its thread's context ends or it blocks, and before that at 32
//! requests (64 where they are for several disks), or where one has grown to 128 KiB. A bio merges with one
//! request of the list, if at all.
//!
//! The list's order changed with 6.13 and 6.16, both of which 6.12.y has (seen in 6.12.117): it was the
//! newest request of a disk that could take a bio, and the newest of all whose size counted. Now it is the
//! newest of all, if that is for the disk, else the disk's oldest; and the size of the list's oldest counts.

use crate::cpu::ThreadId;
use crate::engine::PartId;
use governors::KernelVersion;

/// A list is let go at so many requests, and at twice as many for several disks (`BLK_MAX_REQUEST_COUNT`).
const MOST: usize = 32;
/// Or where a request is so large (`BLK_PLUG_FLUSH_SIZE`), in bytes.
const LARGE: u64 = 128 << 10;
/// Since when a list begins with its oldest request.
const OLDEST_FIRST: KernelVersion = KernelVersion::new(6, 12, 0);

#[derive(Clone, Copy, Debug)]
struct Waiting {
    disk: PartId,
    request: u32,
    bytes: u64,
}

/// One thread's, the oldest first.
#[derive(Clone, Debug)]
struct List {
    thread: ThreadId,
    waiting: Vec<Waiting>,
    several: bool,
}

/// The lists of all threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plugs {
    lists: Vec<List>,
    /// What was let go and has not been taken by its disk.
    released: Vec<(PartId, u32)>,
}

impl Plugs {
    fn list(&self, thread: ThreadId) -> Option<&List> {
        self.lists.iter().find(|list| list.thread == thread)
    }

    /// With which request of this thread's a bio to a disk may merge.
    pub(crate) fn candidate(&self, thread: ThreadId, disk: PartId, kernel: KernelVersion) -> Option<u32> {
        let waiting = &self.list(thread)?.waiting;
        let is_its = |one: &&Waiting| one.disk == disk;
        let newest = waiting.last().filter(is_its);
        let other = || match kernel >= OLDEST_FIRST {
            true => waiting.iter().find(is_its),
            false => waiting.iter().rfind(is_its),
        };
        newest.or_else(other).map(|one| one.request)
    }

    /// A request of this thread's has so many bytes now.
    pub(crate) fn grown(&mut self, thread: ThreadId, disk: PartId, request: u32, bytes: u64) {
        let list = self.lists.iter_mut().find(|list| list.thread == thread);
        let mut waiting = list.into_iter().flat_map(|list| &mut list.waiting);
        if let Some(one) = waiting.find(|one| one.disk == disk && one.request == request) {
            one.bytes = bytes;
        }
    }

    /// Whether a thread's list has to be let go before another request joins it.
    pub(crate) fn is_full(&self, thread: ThreadId, kernel: KernelVersion) -> bool {
        let Some(List { waiting, several, .. }) = self.list(thread) else { return false };
        let looked_at = if kernel >= OLDEST_FIRST { waiting.first() } else { waiting.last() };
        let most = if *several { 2 * MOST } else { MOST };
        waiting.len() >= most || looked_at.is_some_and(|one| one.bytes >= LARGE)
    }

    /// One more.
    pub(crate) fn add(&mut self, thread: ThreadId, disk: PartId, request: u32, bytes: u64) {
        let one = Waiting { disk, request, bytes };
        match self.lists.iter_mut().find(|list| list.thread == thread) {
            Some(list) => {
                list.several |= list.waiting.last().is_some_and(|last| last.disk != disk);
                list.waiting.push(one);
            }
            None => self.lists.push(List { thread, waiting: vec![one], several: false }),
        }
    }

    /// Whether no thread has a list.
    pub(crate) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Threads with a list.
    pub(crate) fn threads(&self) -> impl Iterator<Item = ThreadId> {
        self.lists.iter().map(|list| list.thread)
    }

    /// A plug ends: its list is let go, and no more.
    pub(crate) fn end(&mut self, thread: ThreadId) -> Vec<PartId> {
        let disks = self.let_go(thread);
        self.lists.retain(|list| list.thread != thread);
        disks
    }

    /// Lets a thread's list go; the disks that have something to take then, in the order of their first
    /// requests.
    pub(crate) fn let_go(&mut self, thread: ThreadId) -> Vec<PartId> {
        let list = self.lists.iter_mut().find(|list| list.thread == thread);
        let mut disks = Vec::new();
        for Waiting { disk, request, .. } in list.into_iter().flat_map(|list| list.waiting.drain(..)) {
            if !disks.contains(&disk) {
                disks.push(disk);
            }
            self.released.push((disk, request));
        }
        disks
    }

    /// What a disk is to take, in the order in which it came.
    pub(crate) fn released(&mut self, disk: PartId) -> Vec<u32> {
        self.released.extract_if(.., |one| one.0 == disk).map(|(_, request)| request).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PartId = PartId(1);
    const B: PartId = PartId(2);
    const ME: ThreadId = ThreadId(7);
    const OLD: KernelVersion = KernelVersion::new(6, 1, 0);
    const NEW: KernelVersion = KernelVersion::new(6, 12, 0);

    fn with(requests: &[(PartId, u32, u64)]) -> Plugs {
        let mut plugs = Plugs::default();
        requests.iter().for_each(|(disk, request, bytes)| plugs.add(ME, *disk, *request, *bytes));
        plugs
    }

    #[test]
    fn a_bio_merges_with_the_newest_of_all_or_else_the_oldest_of_its_disk() {
        let plugs = with(&[(A, 1, 4096), (A, 2, 4096), (B, 3, 4096)]);
        assert_eq!(plugs.candidate(ME, B, NEW), Some(3));
        assert_eq!(plugs.candidate(ME, A, NEW), Some(1));
        assert_eq!(plugs.candidate(ME, A, OLD), Some(2));
        assert_eq!(plugs.candidate(ThreadId(8), A, NEW), None);
    }

    #[test]
    fn a_list_is_full_at_32_requests_64_of_several_disks_or_a_large_one() {
        let many = |disks: &[PartId], count: usize| {
            let request = |n: usize| (disks[n % disks.len()], n as u32, 4096);
            with(&(0..count).map(request).collect::<Vec<_>>()).is_full(ME, NEW)
        };
        assert_eq!([31, 32].map(|count| many(&[A], count)), [false, true]);
        assert_eq!([63, 64].map(|count| many(&[A, B], count)), [false, true]);
        let mut plugs = with(&[(A, 1, 4096), (B, 2, 128 << 10)]);
        assert_eq!((plugs.is_full(ME, NEW), plugs.is_full(ME, OLD)), (false, true));
        plugs.grown(ME, A, 1, 128 << 10);
        assert!(plugs.is_full(ME, NEW));
    }

    #[test]
    fn what_is_let_go_is_taken_once_by_each_disk_in_order() {
        let mut plugs = with(&[(B, 5, 1), (A, 6, 1), (B, 4, 1)]);
        assert_eq!(plugs.let_go(ME), [B, A]);
        assert_eq!(plugs.end(ME), []);
        assert_eq!((plugs.released(B), plugs.released(B), plugs.released(A)), (vec![5, 4], vec![], vec![6]));
    }
}
