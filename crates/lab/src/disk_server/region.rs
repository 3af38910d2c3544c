//! Memory that is reserved as a whole and taken as it is used, a little ahead of its use.
//!
//! A disk that is written takes memory at its own rate, and a page that is touched for the first time costs
//! the one who touches it: inside a virtual machine that was 13 us for 4 KiB, so that a 7200-rpm disk kept
//! one of two CPUs busy with its writes and answered them late. Here a thread of its own touches the next
//! bytes.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// How far memory is touched ahead at least: a hard disk's write buffer, which is filled at the link's rate.
const MIN_AHEAD: usize = 16 << 20;

/// How far memory is touched ahead at most: a third of a second of a 7200-rpm disk. Until then it is as much
/// again as is in use, so that a disk that is hardly written takes hardly any.
const MAX_AHEAD: usize = 64 << 20;

/// How much is touched at a time: a huge page.
const STEP: usize = 2 << 20;

/// What a region's thread is told when it is to end.
const END: usize = usize::MAX;

/// A mapping of zeros.
#[derive(Debug)]
pub(super) struct Region {
    mapping: Arc<Mapping>,
    /// Up to where memory is to be touched.
    wanted: Arc<AtomicUsize>,
    toucher: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is no thread's own. Its bytes are reached through `Region` alone, which borrows as
// usual; the thread that touches ahead has the kernel fault pages in, and neither reads nor writes them.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Region {
    /// So many bytes, not none.
    pub(super) fn new(len: usize) -> io::Result<Self> {
        let mapping = Arc::new(Mapping::new(len)?);
        let wanted = Arc::new(AtomicUsize::new(MIN_AHEAD));
        let touch = (Arc::clone(&mapping), Arc::clone(&wanted));
        let thread = std::thread::Builder::new().name("disk-memory".to_owned());
        let toucher = thread.spawn(move || touch_ahead(&touch.0, &touch.1))?;
        Ok(Self { mapping, wanted, toucher: Some(toucher) })
    }

    /// The first so many bytes are in use.
    pub(super) fn used(&self, bytes: usize) {
        let wanted = bytes + bytes.clamp(MIN_AHEAD, MAX_AHEAD);
        if self.wanted.fetch_max(wanted, Ordering::Relaxed) < wanted {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(toucher) = &self.toucher {
            toucher.thread().unpark();
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is this long, readable, begins as zeros, and lives as long as this value.
        unsafe { std::slice::from_raw_parts(self.mapping.start.as_ptr(), self.mapping.len) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and writable; no other reference is there while this value is borrowed so.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.start.as_ptr(), self.mapping.len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.wanted.store(END, Ordering::Relaxed);
        self.wake();
        if let Some(toucher) = self.toucher.take() {
            // It cannot panic, and a disk's end is no place to do so.
            let _ = toucher.join();
        }
    }
}

impl Mapping {
    fn new(len: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at a place that the kernel chooses takes nothing from anyone.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags) }?;
        // SAFETY: advice about our own new mapping changes no contents. A kernel without huge pages may
        // refuse it.
        let _ = unsafe { madvise(start, len, Advice::LinuxHugepage) };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// Has the kernel fault in a step's pages; whether it did (Linux 5.14 and later do).
    fn touch(&self, from: usize) -> bool {
        let len = STEP.min(self.len - from);
        // SAFETY: the range lies in our own mapping, and this advice changes no contents.
        unsafe { madvise(self.start.as_ptr().add(from).cast::<c_void>(), len, Advice::LinuxPopulateWrite) }
            .is_ok()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference to it outlives this value.
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.len) };
    }
}

fn touch_ahead(mapping: &Mapping, wanted: &AtomicUsize) {
    let mut touched = 0;
    while touched < mapping.len {
        match wanted.load(Ordering::Relaxed) {
            END => return,
            wanted if touched >= wanted => std::thread::park(),
            _ if !mapping.touch(touched) => return,
            _ => touched += STEP,
        }
    }
}
