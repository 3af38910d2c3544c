//! A file, or a block device's own pages, between loads and a device: page cache, read-ahead, writeback,
//! direct I/O, `fsync`.
//!
//! A part that takes requests to a file ([`Bio`]): reads and writes, buffered or past the page cache
//! (`direct`), `fua` for `O_DSYNC`, flushes for `fsync(2)` or, with `data_only`, `fdatasync(2)`, and
//! discards for files that are removed and for the last close of a device. A request goes through steps in
//! the context of the thread that asked; between two steps it may sleep: for a page, for a commit, because
//! too much is dirty. The file lies on a filesystem ([`crate::fs`]) or is the device itself.
//!
//! Follows `mm/filemap.c`, `mm/readahead.c`, `mm/page-writeback.c`, `fs/fs-writeback.c`,
//! `fs/iomap/direct-io.c`, `fs/ext4/{inode,page-io,fsync}.c`, of 6.1 and 6.12.
//!
//! Approximations:
//! - one file, one device's worth of dirty limits; memory is what pages of this file may take;
//! - pages leave memory as [`pages`] says, and at once, without kswapd;
//! - an asynchronous engine that asks for several buffered requests has them all under way in its one thread,
//!   where the kernel would let it wait for each;
//! - a page may be written to while it is being written (no stable pages: md's parity levels ask for them).
//!
//! Left out: mmap, large folios, sparse files' unwritten holes but for reads that find them, control groups.

mod flusher;
mod free;
mod pages;
mod read;
mod readahead;
mod sync;
mod throttle;
mod write;

pub use readahead::{Advice, ReadAheadKind};
pub use throttle::MemorySpec;

use crate::cpu::{Cost, ThreadId};
use crate::engine::{Bio, BioId, Core, Part, PartId};
use crate::fs::journal::{Happened, Tid};
use crate::fs::{Filesystem, FsSpec};
use disks::Op;
use domain::units::Bytes;
use event_queue::{Slab, Time};
use flusher::Flusher;
use pages::{PAGE, Pages, Run};
use readahead::State;
use std::collections::{BTreeMap, VecDeque};
use throttle::Throttle;

/// What the page cache costs CPUs. All assumed, of the order that profiles of 5.x and 6.x kernels show; a
/// machine's own figures belong into its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheCosts {
    /// A request's way through the kernel to the file and back.
    pub request: Cost,
    /// To find a page in memory.
    pub find: Cost,
    /// To copy 1024 bytes to or from the program.
    pub copy_kib: Cost,
    /// To get a page and enter it.
    pub insert: Cost,
    /// To throw a page out.
    pub evict: Cost,
    /// To begin and end a write to a page in memory (`write_begin`, `write_end`).
    pub dirty: Cost,
    /// To take a dirty page for writing, for whoever writes it.
    pub write: Cost,
    /// To make and submit a request to the device.
    pub bio: Cost,
    /// To end a page's reading or writing, in the interrupt.
    pub end: Cost,
    /// To pin a page of the program's and let it go, in direct I/O.
    pub pin: Cost,
    /// What it takes to go on after having slept.
    pub wake: Cost,
}

impl Default for CacheCosts {
    fn default() -> Self {
        Self {
            request: Cost::cycles(1_200),
            find: Cost::cycles(150),
            copy_kib: Cost { cycles: 100, stall_ns: 60 },
            insert: Cost::cycles(900),
            evict: Cost::cycles(400),
            dirty: Cost::cycles(1_500),
            write: Cost::cycles(800),
            bio: Cost::cycles(1_500),
            end: Cost::cycles(250),
            pin: Cost::cycles(150),
            wake: Cost::cycles(800),
        }
    }
}

/// A file between loads and a device.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSpec {
    /// As its threads are called: `sda1`, `md127`.
    pub name: String,
    /// Its size. On a filesystem the most that it may grow to, in bytes; otherwise the device's.
    pub size: Bytes,
    /// How much of it is laid out before the load begins, in bytes. A block device is all there.
    pub laid_out: Bytes,
    /// `read_ahead_kb`.
    pub read_ahead: Bytes,
    /// Which kernel's read-ahead.
    pub read_ahead_kind: ReadAheadKind,
    /// What each program says about its reads; [`File::advise`] changes it for one.
    pub advice: Advice,
    /// `max_sectors_kb` of the device below: how far a large read may go beyond the window.
    pub most_request: Bytes,
    /// Pages that a read takes at a time (`PAGEVEC_SIZE`): 15 until 6.9, then 31.
    pub batch_pages: u64,
    /// `nr_requests` of the device below: how many requests the flusher may have on their way.
    pub most_in_flight: u64,
    /// The flusher lets go of its plug after so many pages; none: when it has no more, or waits.
    pub flush_pages: Option<u64>,
    /// Memory and dirty limits.
    pub memory: MemorySpec,
    /// What it costs.
    pub costs: CacheCosts,
}

impl FileSpec {
    /// A file of this size, all of it laid out, with the kernel's defaults: 128 KiB of read-ahead, 1280 KiB a
    /// request, 64 requests; `memory` bytes for its pages.
    pub fn new(name: &str, size: Bytes, memory: Bytes, kernel: (u16, u16)) -> Self {
        let (major, minor) = kernel;
        Self {
            name: name.to_owned(),
            size,
            laid_out: size,
            read_ahead: Bytes::from_kib(128),
            read_ahead_kind: ReadAheadKind::of_kernel(major, minor),
            advice: Advice::Normal,
            most_request: Bytes::from_kib(1280),
            batch_pages: if (major, minor) >= (6, 10) { 31 } else { 15 },
            most_in_flight: 64,
            flush_pages: None,
            memory: MemorySpec::with_defaults(memory.get()),
            costs: CacheCosts::default(),
        }
    }
}

/// The largest request that the page cache makes: 256 pages (`BIO_MAX_VECS`).
const MAX_BIO: u64 = 256;
/// Pages of a buffered write between two looks at the limits.
const CHUNK: u64 = 32;

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Read,
    ReadCopied(u64),
    Write,
    WriteCopied { to: u64, fresh: u64 },
    Direct,
    DirectGo,
    DirectOnItsWay,
    SyncWrite,
    SyncSubmit(Run),
    SyncWait,
    Commit,
    HomeWait,
    Free,
    Close,
    Flushing,
    Over,
}

/// What comes when a file's pages have been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Direct,
    Commit,
}

#[derive(Clone, Copy, Debug)]
struct IoRequest {
    bio: BioId,
    op: Op,
    thread: Option<ThreadId>,
    offset: u64,
    end: u64,
    at: u64,
    data_only: bool,
    fua: bool,
    stage: Stage,
    then: Then,
    /// The page from which on it looks while it writes or waits.
    cursor: u64,
    pending: u64,
    has_lock: bool,
}

/// A request to the device.
#[derive(Clone, Copy, Debug)]
enum Sent {
    /// Pages that are read.
    Read(Run),
    /// Pages that are written; `fresh`: their blocks were allocated for it; `flusher`: it is one of the
    /// flusher's.
    Write { run: Run, fresh: bool, flusher: bool },
    /// A part of a direct request.
    Direct(u32),
    /// A flush.
    Flush(u32),
}

/// Whose tokens and tags: in their upper byte.
const KIND_SHIFT: u32 = 56;
const ASK: u64 = 1 << KIND_SHIFT;
const SENT: u64 = 2 << KIND_SHIFT;
const FLUSHER: u64 = 3 << KIND_SHIFT;
const JOURNAL: u64 = 4 << KIND_SHIFT;
const HOME: u64 = 5 << KIND_SHIFT;
const CONVERTED: u64 = 6 << KIND_SHIFT;
const KINDS: u64 = 0xff << KIND_SHIFT;

/// A file.
pub struct File {
    me: PartId,
    below: PartId,
    spec: FileSpec,
    pages: Pages,
    fs: Option<Filesystem>,
    asks: Slab<IoRequest>,
    sent: Slab<Sent>,
    states: BTreeMap<Option<ThreadId>, State>,
    advice: BTreeMap<Option<ThreadId>, Advice>,
    throttle: Throttle,
    flusher: Flusher,
    converter: Option<ThreadId>,
    /// Who sleeps for a page, for room in the journal, for a commit, for blocks of metadata.
    for_page: Vec<(u64, u32)>,
    for_room: Vec<u32>,
    for_commit: Vec<(Tid, u32)>,
    for_home: Vec<u32>,
    /// Who writes, and who sleeps for the right to (`i_rwsem`).
    lock: Option<u32>,
    for_lock: VecDeque<u32>,
    /// Pages that a commit waits for: from, to.
    ordered: Option<(u64, u64)>,
    dirty_since: Option<Time>,
    counts: Counts,
}

/// What a file's pages did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages that reads found in memory.
    pub hits: u64,
    /// Pages that they did not.
    pub misses: u64,
    /// Bytes of data read from the device, asked for or ahead.
    pub read_bytes: u64,
    /// Bytes of data written to their places.
    pub written_bytes: u64,
    /// Bytes that the journal has written: its descriptors, blocks, records and superblock.
    pub journal_bytes: u64,
    /// Bytes of metadata written to their places.
    pub metadata_bytes: u64,
    /// Transactions committed.
    pub commits: u64,
    /// How often a writer paused because too much was dirty, and how long in all, in nanoseconds.
    pub pauses: u64,
    /// Nanoseconds of them.
    pub paused_ns: u64,
    /// The most pages that were dirty or being written at a time.
    pub most_dirty: u64,
}

impl File {
    /// The part `me`: a file of a filesystem on `below`, which is `size_below` large. Makes the flusher's
    /// thread, the journal's and others that the filesystem has.
    ///
    /// # Panics
    /// Where the file does not fit the filesystem.
    pub fn on_filesystem(
        core: &mut Core,
        me: PartId,
        below: PartId,
        size_below: Bytes,
        spec: FileSpec,
        fs: FsSpec,
    ) -> Self {
        let sizes = (spec.size.get(), spec.laid_out.get());
        let device = (below, size_below.get());
        let filesystem = Filesystem::new(core, me, (JOURNAL, HOME), fs, device, sizes, &spec.name);
        let converter = Filesystem::conversion_thread(core, &spec.name);
        Self { converter: Some(converter), fs: Some(filesystem), ..Self::on_device(core, me, below, spec) }
    }

    /// The part `me`: the block device `below` through its own pages, as `open("/dev/…")` gives it. Makes the
    /// flusher's thread.
    pub fn on_device(core: &mut Core, me: PartId, below: PartId, spec: FileSpec) -> Self {
        let flusher = Flusher::new(core, &spec.name);
        Self {
            me,
            below,
            pages: Pages::new((spec.memory.bytes / PAGE).max(1)),
            fs: None,
            asks: Slab::default(),
            sent: Slab::default(),
            states: BTreeMap::new(),
            advice: BTreeMap::new(),
            throttle: Throttle::new(spec.memory),
            flusher,
            converter: None,
            for_page: Vec::new(),
            for_room: Vec::new(),
            for_commit: Vec::new(),
            for_home: Vec::new(),
            lock: None,
            for_lock: VecDeque::new(),
            ordered: None,
            dirty_since: None,
            counts: Counts::default(),
            spec,
        }
    }

    /// What a thread says about its reads (`posix_fadvise(2)`), for this file.
    pub fn advise(&mut self, thread: ThreadId, advice: Advice) {
        self.advice.insert(Some(thread), advice);
    }

    /// What has been done until now.
    pub fn counts(&self) -> Counts {
        let journal = self.fs.as_ref().and_then(|fs| fs.journal.as_ref());
        Counts {
            journal_bytes: journal.map_or(0, |journal| journal.bytes()),
            commits: journal.map_or(0, |journal| journal.commits()),
            metadata_bytes: self.fs.as_ref().map_or(0, |fs| fs.home.bytes()),
            ..self.counts
        }
    }

    fn journals_data(&self) -> bool {
        self.fs.as_ref().is_some_and(|fs| fs.spec.journals_data())
    }

    /// Where a page lies on the device in bytes, and how many pages from there are contiguous.
    fn place(&self, page: u64) -> (u64, u64) {
        match &self.fs {
            Some(fs) => {
                let (place, run) = fs.place(page);
                (place, run / PAGE)
            }
            None => (page * PAGE, u64::MAX / PAGE),
        }
    }

    /// Whether a page has no block on the device.
    fn is_hole(&self, page: u64) -> bool {
        self.fs.as_ref().is_some_and(|fs| !fs.is_allocated(page))
    }

    /// Pages that are dirty or being written.
    fn dirty_pages(&self) -> u64 {
        self.pages.dirty() + self.pages.writeback()
    }

    /// A request's thread does work, then the request goes on.
    fn go(&mut self, core: &mut Core, ask: u32, cost: Cost) {
        let token = ASK | u64::from(ask);
        match self.asks[ask].thread {
            Some(thread) if core.context() != Some(thread) => core.run(thread, cost, self.me, token),
            Some(_) => core.run_here(cost, self.me, token),
            None => core.run_here(Cost::NONE, self.me, token),
        }
    }

    /// The thread of a request sleeps next: for a device (`io_schedule`), or for somebody else.
    fn sleeps(&self, core: &mut Core, ask: u32, for_device: bool) {
        if let Some(thread) = self.asks[ask].thread {
            core.cpus.waits_for_disk(thread, for_device);
        }
    }

    /// A request that slept goes on.
    fn wake(&mut self, core: &mut Core, ask: u32) {
        self.go(core, ask, self.spec.costs.wake);
    }

    /// Does what a request does next, until it sleeps or has work.
    fn step(&mut self, core: &mut Core, ask: u32) {
        match self.asks[ask].stage {
            Stage::Read => self.read(core, ask),
            Stage::ReadCopied(to) => self.read_copied(core, ask, to),
            Stage::Write => self.write(core, ask),
            Stage::WriteCopied { to, fresh } => self.write_copied(core, ask, to, fresh),
            Stage::Direct => self.direct(core, ask),
            Stage::DirectGo => self.direct_go(core, ask),
            Stage::SyncWrite => self.sync_write(core, ask),
            Stage::SyncSubmit(run) => self.sync_submit(core, ask, run),
            Stage::SyncWait => self.sync_wait(core, ask),
            Stage::Commit => self.commit(core, ask),
            Stage::HomeWait => self.home_wait(core, ask),
            Stage::Free => self.free(core, ask),
            Stage::Close => self.close(core, ask),
            Stage::Over => self.finish(core, ask),
            Stage::DirectOnItsWay | Stage::Flushing => {
                unreachable!("a request that waits for the device has nothing to do")
            }
        }
    }

    fn finish(&mut self, core: &mut Core, id: u32) {
        let ask = self.asks.remove(id);
        debug_assert!(!ask.has_lock, "a request that is over holds the file's lock");
        core.complete(ask.bio);
    }

    /// A request to the device.
    fn to_device(&self, op: Op, offset: u64, len: u64) -> Bio {
        Bio::new(self.me, self.below, op, offset, len, 0)
    }

    /// Sends it.
    fn send(&mut self, core: &mut Core, bio: Bio, sent: Sent) {
        let tag = SENT | u64::from(self.sent.put(sent));
        core.submit(Bio { tag, ..bio });
    }

    fn device_is_done(&mut self, core: &mut Core, bio: &Bio) {
        let sent = self.sent.remove((bio.tag & !KINDS) as u32);
        match sent {
            Sent::Read(run) => {
                core.charge(self.spec.costs.end.times(run.count));
                for page in run.first..run.first + run.count {
                    self.pages.set_uptodate(page);
                }
                self.wake_for_pages(core, run);
            }
            Sent::Write { run, fresh, flusher } => {
                self.flusher_is_rid_of_one(core, flusher);
                match self.converter.filter(|_| fresh && self.converts()) {
                    Some(thread) => {
                        let convert = self.fs.as_ref().map_or(Cost::NONE, |fs| fs.spec.costs.convert);
                        let token = CONVERTED | u64::from(self.sent.put(sent));
                        core.run(thread, convert, self.me, token);
                    }
                    None => self.written(core, run),
                }
            }
            Sent::Direct(ask) => self.direct_is_done(core, ask),
            Sent::Flush(ask) => {
                self.asks[ask].stage = Stage::Over;
                self.wake(core, ask);
            }
        }
    }

    /// Whether blocks that were allocated for a write become written ones when it is done.
    fn converts(&self) -> bool {
        self.fs.as_ref().is_some_and(|fs| fs.spec.makes_unwritten())
    }

    /// Pages have been written.
    fn written(&mut self, core: &mut Core, run: Run) {
        core.charge(self.spec.costs.end.times(run.count));
        let journals = self.journals_data();
        for page in run.first..run.first + run.count {
            self.pages.end_writeback(page);
            if journals
                && !self.pages.may_be_written(page)
                && let Some(fs) = &mut self.fs
            {
                fs.page_is_home(core, page);
            }
        }
        self.throttle.wrote(core.now, run.count);
        self.wake_for_pages(core, run);
        self.ordered_go_on(core);
    }

    fn wake_for_pages(&mut self, core: &mut Core, run: Run) {
        let mut at = 0;
        while at < self.for_page.len() {
            let (page, ask) = self.for_page[at];
            if (run.first..run.first + run.count).contains(&page) {
                self.for_page.remove(at);
                self.wake(core, ask);
            } else {
                at += 1;
            }
        }
    }

    /// What the journal did, for those who wait for it.
    fn after_journal(&mut self, core: &mut Core) {
        loop {
            let happened = self.fs.as_mut().map(Filesystem::take_happened).unwrap_or_default();
            if happened.is_empty() {
                break;
            }
            for one in happened {
                match one {
                    Happened::Room => self.there_is_room(core),
                    Happened::Committed { data } => self.committed(core, &data),
                    Happened::WriteData(from, to) => self.write_ordered(core, from, to),
                    Happened::WritePages(pages) => self.write_pages(core, &pages),
                }
            }
        }
        if self.fs.as_ref().is_some_and(|fs| fs.home.dirty_blocks() > 0) {
            self.arm(core);
        }
    }

    fn there_is_room(&mut self, core: &mut Core) {
        for ask in std::mem::take(&mut self.for_room) {
            self.wake(core, ask);
        }
        self.flusher_goes_on(core);
    }

    fn committed(&mut self, core: &mut Core, data: &[u64]) {
        for page in data {
            self.pages.hold(*page, false);
        }
        let committed = self.fs.as_ref().and_then(|fs| fs.journal.as_ref()).map_or(0, |j| j.committed());
        let mut waiting = std::mem::take(&mut self.for_commit);
        waiting.retain(|(tid, ask)| {
            let over = *tid <= committed;
            if over {
                self.asks[*ask].stage = Stage::Over;
                self.wake(core, *ask);
            }
            !over
        });
        self.for_commit.append(&mut waiting);
        self.flusher_goes_on(core);
    }
}

impl Part for File {
    fn submit(&mut self, core: &mut Core, id: BioId) {
        let bio = core.bios[id.0];
        assert!(
            bio.op == Op::Flush || (bio.len > 0 && bio.end() <= self.spec.size.get()),
            "{bio:?} in a file of {} bytes",
            self.spec.size.get()
        );
        let direct = bio.direct && !self.journals_data();
        let stage = match bio.op {
            Op::Flush => Stage::SyncWrite,
            Op::Read if direct => Stage::Direct,
            Op::Read => Stage::Read,
            Op::Write if direct => Stage::Direct,
            Op::Write => Stage::Write,
            Op::Discard if self.fs.is_some() => Stage::Free,
            Op::Discard => Stage::Close,
        };
        let (offset, end) =
            if bio.op == Op::Flush { (0, self.spec.size.get()) } else { (bio.offset, bio.end()) };
        let ask = self.asks.put(IoRequest {
            bio: id,
            op: bio.op,
            thread: bio.thread,
            offset,
            end,
            at: offset,
            data_only: bio.data_only,
            fua: bio.fua,
            stage,
            then: if direct { Then::Direct } else { Then::Commit },
            cursor: offset / PAGE,
            pending: 0,
            has_lock: false,
        });
        self.go(core, ask, self.spec.costs.request);
    }

    fn done(&mut self, core: &mut Core, bio: &Bio) {
        match bio.tag & KINDS {
            SENT => self.device_is_done(core, bio),
            JOURNAL => {
                if let Some(Filesystem { journal: Some(journal), home, .. }) = &mut self.fs {
                    journal.done(core, home, bio);
                }
            }
            HOME => {
                if let Some(fs) = &mut self.fs {
                    fs.home_done(core, bio);
                }
                self.flusher_is_rid_of_one(core, false);
                for ask in std::mem::take(&mut self.for_home) {
                    self.wake(core, ask);
                }
            }
            other => unreachable!("a file has no request of the kind {other:#x}"),
        }
        self.after_journal(core);
    }

    fn worked(&mut self, core: &mut Core, token: u64) {
        let number = (token & !KINDS) as u32;
        match token & KINDS {
            ASK => self.step(core, number),
            FLUSHER => self.flush(core, token & !KINDS),
            CONVERTED => {
                let Sent::Write { run, .. } = self.sent.remove(number) else {
                    unreachable!("only writes are converted")
                };
                if let Some(fs) = &mut self.fs {
                    fs.convert(core);
                }
                self.written(core, run);
            }
            JOURNAL => {
                if let Some(Filesystem { journal: Some(journal), home, .. }) = &mut self.fs {
                    journal.worked(core, home, token);
                }
            }
            other => unreachable!("a file has no work of the kind {other:#x}"),
        }
        self.after_journal(core);
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        match token & KINDS {
            ASK => self.wake(core, (token & !KINDS) as u32),
            FLUSHER => self.tick(core),
            JOURNAL => {
                if let Some(Filesystem { journal: Some(journal), .. }) = &mut self.fs {
                    journal.timer(core, token);
                }
            }
            other => unreachable!("a file has no timer of the kind {other:#x}"),
        }
        self.after_journal(core);
    }

    fn size(&self) -> u64 {
        self.spec.size.get()
    }

    fn counters(&self, out: &mut dyn FnMut(&str, u64)) {
        let counts = self.counts();
        out("dirty_bytes", self.pages.dirty() * PAGE);
        out("writeback_bytes", self.pages.writeback() * PAGE);
        out("cached_bytes", self.pages.present() * PAGE);
        out("most_dirty_bytes", counts.most_dirty * PAGE);
        out("device_write_rate", self.throttle.rate() * PAGE);
        out("data_read_bytes", counts.read_bytes);
        out("data_written_bytes", counts.written_bytes);
        out("page_hits", counts.hits);
        out("page_misses", counts.misses);
        out("journal_bytes", counts.journal_bytes);
        out("metadata_bytes", counts.metadata_bytes);
        out("commits", counts.commits);
        out("writer_pauses", counts.pauses);
        out("writer_paused_ns", counts.paused_ns);
    }
}

#[cfg(test)]
mod tests;
