//! Filesystems, as far as one file of theirs is concerned: where it lies, what changes when it is written to,
//! and how that becomes safe.
//!
//! | | ext2 | ext3 | ext4 | xfs |
//! |---|---|---|---|---|
//! | map of blocks | pointers | pointers | extents | extents |
//! | blocks are allocated | at the write | at the write | at writeback | at writeback |
//! | metadata | goes to its place | jbd2 | jbd2 | its log, roughly |
//! | `data=` | | yes | yes | |
//!
//! ext4 allocates extents that count as unwritten and makes them written when the data is there
//! (`dioread_nolock`, the default since 5.6), so that nothing has to be written before a commit; with ext3's
//! features, in `data=ordered`, what was allocated is written before the commit of its transaction
//! (`ext4_jbd2_inode_add_write`).
//!
//! Modelled: allocation, size and time stamps of the inode, journal, checkpoint, flushes and FUA. Left out:
//! everything with names, more than one file, quotas, reserved credits; that metadata would have to be read
//! first (it is in memory). An approximation throughout is xfs: its log, its writing back (`xfsaild` is the
//! flusher here) and its trees.
//!
//! Held against: nothing yet but the counts of the tests beside it.

pub(crate) mod home;
pub(crate) mod journal;
pub(crate) mod layout;

pub use journal::{Format, JournalCosts};

use crate::cpu::{Cost, ThreadId};
use crate::engine::{Bio, Core, PartId};
use domain::stack::{Features, Filesystem as Options, FilesystemKind, Journal as Where, JournalMode};
use domain::trace::Role;
use event_queue::Time;
use home::Home;
use journal::{DATA, Happened, Journal, JournalSpec, Tid};
use layout::{BLOCK, Class, Layout, Style};

/// Where a journal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalPlace {
    /// There is none.
    None,
    /// In the filesystem.
    Internal,
    /// On a device of its own.
    External(PartId),
}

/// A filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsSpec {
    /// Which; btrfs is not modelled.
    pub kind: FilesystemKind,
    /// ext4's own features, or ext3's alone.
    pub features: Features,
    /// `data=`; without effect on ext2, xfs, and without a journal.
    pub data: JournalMode,
    /// Where the journal is.
    pub journal: JournalPlace,
    /// Its size in bytes.
    pub journal_bytes: u64,
    /// `commit=`: how often a transaction is committed that nobody waits for.
    pub commit_ns: Time,
    /// Whether it flushes and uses FUA (`barrier=1`, the default).
    pub barrier: bool,
    /// What it costs.
    pub costs: FsCosts,
}

/// What a filesystem costs CPUs. All assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsCosts {
    /// To allocate a run of blocks, for whoever does it.
    pub allocate: Cost,
    /// To find where a run of blocks lies.
    pub map: Cost,
    /// To make an unwritten extent a written one, for a worker.
    pub convert: Cost,
    /// The journal's.
    pub journal: JournalCosts,
}

impl Default for FsCosts {
    fn default() -> Self {
        Self {
            allocate: Cost::cycles(12_000),
            map: Cost::cycles(700),
            convert: Cost::cycles(6_000),
            journal: JournalCosts::default(),
        }
    }
}

impl FsSpec {
    /// What a stack's layer means on a device of this size, with defaults of the tools and the kernel for
    /// what it leaves open: `data=ordered`, commits every 5 s (xfs: 30 s), barriers, the journal's size as
    /// mke2fs chooses it (`ext2fs_default_journal_size`); `nobarrier` and `commit=` are read from the mount
    /// options. `external`: the part of the journal's device, where the layer names one.
    ///
    /// # Errors
    /// A reason, for btrfs, and for a journal's device that is not given.
    pub fn new(options: &Options, device_bytes: u64, external: Option<PartId>) -> Result<Self, String> {
        if options.kind == FilesystemKind::Btrfs {
            return Err("btrfs is not modelled; take ext2, ext3, ext4 or xfs".to_owned());
        }
        let journal = match (&options.journal, external) {
            _ if options.kind == FilesystemKind::Ext2 => JournalPlace::None,
            (Where::None, _) => JournalPlace::None,
            (Where::Internal, _) => JournalPlace::Internal,
            (Where::External(_), Some(part)) => JournalPlace::External(part),
            (Where::External(layer), None) => {
                return Err(format!("the journal's device `{layer}` is not there"));
            }
        };
        let words = options.mount.iter().flat_map(|word| word.split(','));
        let mut barrier = true;
        let mut commit_ns = if options.kind == FilesystemKind::Xfs { 30 } else { 5 } * SECOND;
        for word in words {
            match word.split_once('=') {
                None if word == "nobarrier" => barrier = false,
                Some(("barrier", value)) => barrier = value != "0",
                Some(("commit", value)) => {
                    let seconds: u64 =
                        value.parse().map_err(|_| format!("`commit={value}` is no number of seconds"))?;
                    commit_ns = if seconds == 0 { 5 } else { seconds } * SECOND;
                }
                _ => {}
            }
        }
        Ok(Self {
            kind: options.kind,
            features: options.features,
            data: options.data.unwrap_or(JournalMode::Ordered),
            journal,
            journal_bytes: journal_bytes(device_bytes),
            commit_ns,
            barrier,
            costs: FsCosts::default(),
        })
    }

    /// Whether data goes through the journal.
    pub fn journals_data(&self) -> bool {
        self.data == JournalMode::Journal && self.kind.is_ext() && self.journal != JournalPlace::None
    }

    /// ext3, or ext4 with its features.
    fn is_like_ext3(&self) -> bool {
        self.kind == FilesystemKind::Ext3
            || (self.kind == FilesystemKind::Ext4 && self.features == Features::Ext3)
    }

    fn style(&self) -> Style {
        match self.kind {
            FilesystemKind::Xfs => Style::Xfs,
            FilesystemKind::Ext4 if self.features == Features::Own => Style::Extents,
            _ => Style::Pointers,
        }
    }

    /// Whether blocks are allocated at writeback (`delalloc`): not by ext2 and ext3 mounts, and not where
    /// data is journalled (`ext4_fill_super`).
    fn delays(&self) -> bool {
        matches!(self.kind, FilesystemKind::Ext4 | FilesystemKind::Xfs) && !self.journals_data()
    }

    /// Whether extents count as unwritten until their data is there.
    pub(crate) fn makes_unwritten(&self) -> bool {
        self.delays() && self.style() != Style::Pointers
    }
}

const SECOND: Time = 1_000_000_000;
/// Time stamps are taken at ticks, of which most kernels have 250 a second (`ktime_get_coarse_real_ts64`).
const STAMP_NS: Time = 4_000_000;

/// The size of a journal that mke2fs chooses for a filesystem of so many bytes (e2fsprogs 1.43.2 and later).
pub fn journal_bytes(device: u64) -> u64 {
    let blocks = match device / BLOCK {
        0..32_768 => 1_024,
        32_768..262_144 => 4_096,
        262_144..524_288 => 8_192,
        524_288..4_194_304 => 16_384,
        4_194_304..8_388_608 => 32_768,
        8_388_608..16_777_216 => 65_536,
        16_777_216..33_554_432 => 131_072,
        _ => 262_144,
    };
    blocks * BLOCK
}

/// What it takes for a file to be safe once its data has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing.
    Nothing,
    /// A flush of the device.
    Flush,
    /// A transaction that is not committed yet.
    Commit(Tid),
    /// Its blocks of metadata in their places.
    Home,
}

/// A filesystem with one file.
pub(crate) struct Filesystem {
    pub(crate) spec: FsSpec,
    layout: Layout,
    /// One bit a block of the file.
    allocated: Vec<u64>,
    pub(crate) journal: Option<Journal>,
    pub(crate) home: Home,
    /// The last transactions with a change of the inode, and with one that it takes to find the data.
    last_change: Tid,
    last_data_change: Tid,
    /// The tick of the inode's time stamps, plus one.
    touched: u64,
    scratch: Vec<(u64, Class)>,
}

impl Filesystem {
    /// Of a file of `file_bytes` at most, of which the first `laid_out` bytes are allocated and written, on
    /// the device `device`. `mine`: what is set in tags and tokens of the journal, and of blocks of metadata.
    pub(crate) fn new(
        core: &mut Core,
        me: PartId,
        mine: (u64, u64),
        spec: FsSpec,
        device: (PartId, u64),
        file: (u64, u64),
        name: &str,
    ) -> Self {
        let (device, device_bytes) = device;
        let (file_bytes, laid_out) = file;
        let style = spec.style();
        let internal = if spec.journal == JournalPlace::Internal { spec.journal_bytes / BLOCK } else { 0 };
        let layout = Layout::new(style, device_bytes, file_bytes, internal);
        let journal_at = match spec.journal {
            JournalPlace::None => None,
            JournalPlace::Internal => Some((device, Layout::journal_start(style, device_bytes) * BLOCK)),
            JournalPlace::External(part) => Some((part, 0)),
        };
        let journal = journal_at.map(|(journal_device, start)| {
            let is_xfs = spec.kind == FilesystemKind::Xfs;
            let name = if is_xfs { format!("kworker/u:0+xfs-cil/{name}") } else { format!("jbd2/{name}-8") };
            let thread = core.cpus.thread(&name, Role::Journal, 0);
            let format = match spec.kind {
                _ if is_xfs => Format::XFS,
                _ if spec.is_like_ext3() => Format::EXT3,
                _ => Format::EXT4,
            };
            let journal = JournalSpec {
                format,
                device: journal_device,
                start,
                blocks: spec.journal_bytes / BLOCK - 1,
                data_device: device,
                commit_ns: spec.commit_ns,
                barrier: spec.barrier,
                costs: spec.costs.journal,
            };
            Journal::new(me, mine.0, journal, thread)
        });
        let mut all = Self {
            spec,
            layout,
            allocated: vec![0; (file_bytes.div_ceil(BLOCK)).div_ceil(64) as usize],
            journal,
            home: Home::new(me, mine.1, device),
            last_change: 0,
            last_data_change: 0,
            touched: 0,
            scratch: Vec::new(),
        };
        all.set_allocated(0, laid_out.div_ceil(BLOCK));
        all
    }

    /// Where a block of the file lies, in bytes, and how many bytes from there are contiguous.
    pub(crate) fn place(&self, block: u64) -> (u64, u64) {
        let (place, run) = self.layout.place(block);
        (place * BLOCK, run * BLOCK)
    }

    pub(crate) fn is_allocated(&self, block: u64) -> bool {
        self.allocated[(block / 64) as usize] & (1 << (block % 64)) != 0
    }

    /// Whether any block of a range is not allocated.
    pub(crate) fn has_holes(&self, first: u64, count: u64) -> bool {
        (first..first + count).any(|block| !self.is_allocated(block))
    }

    fn set_allocated(&mut self, first: u64, count: u64) {
        for block in first..first + count {
            self.allocated[(block / 64) as usize] |= 1 << (block % 64);
        }
    }

    /// Whether blocks are allocated when they are written to in memory.
    pub(crate) fn allocates_at_write(&self) -> bool {
        !self.spec.delays()
    }

    /// Whether so many blocks of metadata may change now; if not, it will be told.
    pub(crate) fn has_room(&mut self, core: &mut Core, blocks: u64) -> bool {
        self.journal.as_mut().is_none_or(|journal| journal.has_room(core, &mut self.home, blocks))
    }

    fn change(&mut self, core: &mut Core, block: u64, class: Class) -> Tid {
        if let Some(journal) = &mut self.journal {
            return journal.change(core, block);
        }
        self.home.dirty(core.now, block, class != Class::Free);
        0
    }

    /// The inode's time stamps change, if the clock that they are taken from has moved on
    /// (`inode_needs_update_time`).
    pub(crate) fn touch(&mut self, core: &mut Core) {
        let tick = core.now / STAMP_NS + 1;
        if tick != std::mem::replace(&mut self.touched, tick) {
            self.last_change = self.change(core, self.layout.inode(), Class::Inode);
            self.charge_handles(core, 1);
        }
    }

    /// So many changes of their own are begun and ended.
    pub(crate) fn charge_handles(&self, core: &mut Core, count: u64) {
        if self.journal.is_some() {
            core.charge(self.spec.costs.journal.handle.times(count));
        }
    }

    /// Allocates a run of blocks, as far as they are not; whether one was not. There must be room.
    pub(crate) fn allocate(&mut self, core: &mut Core, first: u64, count: u64) -> bool {
        if !self.has_holes(first, count) {
            return false;
        }
        self.change_maps(core, first, count);
        self.set_allocated(first, count);
        core.charge(self.spec.costs.allocate);
        let ordered = self.spec.data == JournalMode::Ordered && !self.spec.makes_unwritten();
        if let Some(journal) = self.journal.as_mut().filter(|_| ordered) {
            journal.write_before_commit(core, first, first + count);
        }
        true
    }

    /// Frees blocks, as far as they are allocated. There must be room.
    pub(crate) fn free(&mut self, core: &mut Core, first: u64, count: u64) {
        if (first..first + count).all(|block| !self.is_allocated(block)) {
            return;
        }
        self.change_maps(core, first, count);
        for block in first..first + count {
            self.allocated[(block / 64) as usize] &= !(1 << (block % 64));
        }
        core.charge(self.spec.costs.allocate);
    }

    /// What says where blocks are, and which are free, changes.
    fn change_maps(&mut self, core: &mut Core, first: u64, count: u64) {
        let mut changed = std::mem::take(&mut self.scratch);
        self.layout.metadata(first, count, &mut changed);
        for (block, class) in &changed {
            self.last_change = self.change(core, *block, *class);
        }
        self.scratch = changed;
        self.last_data_change = self.last_change;
    }

    /// Data of blocks that were allocated is written: their extents become written ones.
    pub(crate) fn convert(&mut self, core: &mut Core) {
        self.last_change = self.change(core, self.layout.inode(), Class::Inode);
        self.last_data_change = self.last_change;
    }

    /// Pages go into the running transaction with their data.
    pub(crate) fn journal_data(&mut self, core: &mut Core, pages: impl Iterator<Item = u64>) {
        let journal = self.journal.as_mut().expect("who journals data has a journal");
        for page in pages {
            self.last_change = journal.change(core, page | DATA);
        }
        self.last_data_change = self.last_change;
    }

    /// What is left to do for `fsync(2)`, or `fdatasync(2)`, once the data has been written
    /// (`ext4_sync_file`, `generic_file_fsync`, `xfs_file_fsync`).
    pub(crate) fn needs(&mut self, core: &mut Core, data_only: bool) -> Needs {
        let flush = if self.spec.barrier { Needs::Flush } else { Needs::Nothing };
        let Some(journal) = &mut self.journal else { return Needs::Home };
        let tid = match data_only {
            _ if self.spec.journals_data() => journal.newest().unwrap_or(0),
            true => self.last_data_change,
            false => self.last_change,
        };
        if tid <= journal.committed() {
            return flush;
        }
        journal.request(core, tid);
        Needs::Commit(tid)
    }

    /// What the journal tells.
    pub(crate) fn take_happened(&mut self) -> Vec<Happened> {
        self.journal.as_mut().map(Journal::take_happened).unwrap_or_default()
    }

    /// Dirty blocks that may be written to their places now, at most so many.
    pub(crate) fn ready_for_home(&self, from: u64, most: usize) -> Vec<u64> {
        let held = |block: &u64| self.journal.as_ref().is_some_and(|journal| journal.holds(*block));
        self.home.waiting(from).filter(|block| !held(block)).take(most).collect()
    }

    /// A block of metadata was written to its place.
    pub(crate) fn home_done(&mut self, core: &mut Core, bio: &Bio) {
        let clean = self.home.done(bio);
        if let (Some(block), Some(journal)) = (clean, &mut self.journal) {
            journal.is_home(core, &mut self.home, block);
        }
    }

    /// A page that was journalled with its data was written to its place.
    pub(crate) fn page_is_home(&mut self, core: &mut Core, page: u64) {
        if let Some(journal) = &mut self.journal {
            journal.is_home(core, &mut self.home, page | DATA);
        }
    }

    /// The thread that makes extents written.
    pub(crate) fn conversion_thread(core: &mut Core, name: &str) -> ThreadId {
        core.cpus.thread(&format!("kworker/u:1+ext4-rsv-conver/{name}"), Role::Kworker, 0)
    }
}

#[cfg(test)]
mod tests;
