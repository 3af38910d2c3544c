//! Where the blocks of the one file lie on a device, and which blocks of metadata change when some of them
//! are allocated.
//!
//! The file is the first of an empty filesystem, and its place depends on nothing but the offset, as if it
//! had been written from beginning to end: true of sequential files and of files that are laid out before
//! they are rewritten or read. All blocks are 4 KiB.
//!
//! - ext2 and ext3 (`fs/ext2/balloc.c`, `Documentation/filesystems/ext2.rst`): groups of 128 MiB, each with
//!   its bitmaps and inode table at its beginning; 12 blocks, then a block of pointers before each 1024
//!   blocks.
//! - ext4 (`Documentation/filesystems/ext4/blockgroup.rst`): the metadata of 16 groups together (`flex_bg`),
//!   extents.
//! - xfs, roughly: four allocation groups, a few blocks at the beginning of each, the log in the third.
//!
//! Left out: reserved blocks for growing, copies of the superblock, fragmentation, other files.

/// Bytes of a block.
pub(crate) const BLOCK: u64 = 4096;
/// Blocks of a group: as many as a bitmap of one block has bits.
const GROUP: u64 = 32_768;
/// Groups whose metadata lie together (`-G`, mke2fs's default).
const FLEX: u64 = 16;
/// Bitmaps and the inode table of one group: one inode for 16 KiB, 256 bytes each (mke2fs.conf).
const GROUP_META: u64 = 2 + 512;
/// Superblock and group descriptors at the very beginning, with room to grow.
const FIRST_META: u64 = 1_026;
/// Blocks that a block of pointers points to.
const POINTERS: u64 = 1_024;
/// Blocks that an inode points to itself.
const DIRECT: u64 = 12;
/// Blocks of an extent of ext4 at most, extents in an inode, and in a block of extents.
const EXTENT: u64 = 32_768;
const EXTENTS_IN_INODE: u64 = 4;
const EXTENTS_IN_BLOCK: u64 = 340;
/// Allocation groups that mkfs.xfs makes on one disk.
const XFS_GROUPS: u64 = 4;
/// Blocks at the beginning of an allocation group: headers, roots of its trees, first inodes.
const XFS_META: u64 = 24;

/// How a filesystem lays a file out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Blocks of pointers.
    Pointers,
    /// ext4's.
    Extents,
    /// xfs's.
    Xfs,
}

/// A contiguous part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    /// First block of the file in it.
    first: u64,
    /// Where that lies.
    place: u64,
    count: u64,
    /// The block of pointers that says so, where there is one.
    pointers: Option<u64>,
}

/// What kind of metadata a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// The file's inode.
    Inode,
    /// Where its blocks are.
    Map,
    /// Which blocks are free.
    Free,
}

/// The file's place.
pub(crate) struct Layout {
    style: Style,
    segments: Vec<Segment>,
    inode: u64,
    /// Blocks of an allocation group of xfs.
    group: u64,
}

impl Layout {
    /// Of a file of `file` bytes on a device of `device` bytes; `journal` blocks of the device are the
    /// journal's, in its middle.
    ///
    /// # Panics
    /// Where it does not fit.
    pub(crate) fn new(style: Style, device: u64, file: u64, journal: u64) -> Self {
        let blocks = device / BLOCK;
        let (start, length) = (Self::journal_start(style, device), journal);
        let mut segments = Builder { style, left: file.div_ceil(BLOCK), next: 0, segments: Vec::new() };
        for (from, to) in zones(style, blocks) {
            for (from, to) in without((from, to), (start, start + length)) {
                segments.fill(from, to);
            }
        }
        assert!(segments.left == 0, "a file of {file} bytes does not fit a filesystem of {device}");
        let inode = match style {
            Style::Xfs => XFS_META - 4,
            Style::Pointers => FIRST_META + 2,
            Style::Extents => FIRST_META + 2 * FLEX,
        };
        Self { style, segments: segments.segments, inode, group: (blocks / XFS_GROUPS).max(1) }
    }

    /// Where the journal begins that is in the filesystem, in blocks: in its middle
    /// (`get_midpoint_journal_block` of e2fsprogs; mkfs.xfs likewise).
    pub(crate) const fn journal_start(style: Style, device: u64) -> u64 {
        let blocks = device / BLOCK;
        match style {
            Style::Xfs => blocks / XFS_GROUPS * (XFS_GROUPS / 2) + XFS_META,
            Style::Pointers => blocks / GROUP / 2 * GROUP + FIRST_META + GROUP_META,
            Style::Extents => blocks / GROUP / 2 * GROUP + FIRST_META + GROUP_META * FLEX,
        }
    }

    fn segment(&self, block: u64) -> Segment {
        let after = self.segments.partition_point(|segment| segment.first <= block);
        self.segments[after - 1]
    }

    /// Where a block of the file lies, and how many blocks from there are contiguous.
    pub(crate) fn place(&self, block: u64) -> (u64, u64) {
        let segment = self.segment(block);
        let inside = block - segment.first;
        (segment.place + inside, segment.count - inside)
    }

    /// The block with the file's inode.
    pub(crate) const fn inode(&self) -> u64 {
        self.inode
    }

    /// The blocks of metadata that change when so many blocks of the file from `first` on are allocated; the
    /// inode among them.
    pub(crate) fn metadata(&self, first: u64, count: u64, out: &mut Vec<(u64, Class)>) {
        out.clear();
        out.push((self.inode, Class::Inode));
        let mut block = first;
        while block < first + count {
            let segment = self.segment(block);
            let (place, run) = self.place(block);
            let run = run.min(first + count - block);
            self.free_lists(place, run, out);
            out.extend(segment.pointers.map(|at| (at, Class::Map)));
            if self.style == Style::Extents && block / EXTENT >= EXTENTS_IN_INODE {
                let leaf =
                    FIRST_META + FLEX * GROUP_META - 1 - block / EXTENT / EXTENTS_IN_BLOCK % (8 * FLEX);
                out.push((leaf, Class::Map));
            }
            block += run;
        }
        out.sort_unstable();
        out.dedup();
    }

    fn free_lists(&self, place: u64, count: u64, out: &mut Vec<(u64, Class)>) {
        if self.style == Style::Xfs {
            // The group's header and the roots of its two trees of free space.
            let group = place / self.group * self.group;
            out.extend([1, 4, 5].map(|at| (group + at, Class::Free)));
            return;
        }
        for group in place / GROUP..=(place + count - 1) / GROUP {
            let bitmap = match self.style {
                Style::Extents => group / FLEX * FLEX * GROUP + FIRST_META + group % FLEX,
                _ => group * GROUP + if group == 0 { FIRST_META } else { 0 },
            };
            // 64 bytes a descriptor in ext4, 32 in ext2 and ext3.
            let per_block = if self.style == Style::Extents { 64 } else { 128 };
            out.extend([(bitmap, Class::Free), (1 + group / per_block, Class::Free)]);
        }
    }
}

/// The parts of the device that may hold the file.
fn zones(style: Style, blocks: u64) -> Vec<(u64, u64)> {
    let (step, meta) = match style {
        Style::Pointers => (GROUP, GROUP_META),
        Style::Extents => (GROUP * FLEX, GROUP_META * FLEX),
        Style::Xfs => (blocks / XFS_GROUPS, XFS_META),
    };
    let all = (0..blocks.div_ceil(step.max(1))).map(|n| {
        let first = if n == 0 && style != Style::Xfs { FIRST_META } else { 0 };
        (n * step + first + meta, ((n + 1) * step).min(blocks))
    });
    all.filter(|(from, to)| from < to).collect()
}

/// A range without another.
fn without(all: (u64, u64), hole: (u64, u64)) -> impl Iterator<Item = (u64, u64)> {
    let before = (all.0, all.1.min(hole.0));
    let after = (all.0.max(hole.1), all.1);
    let parts = if hole.0 >= hole.1 { [all, (0, 0)] } else { [before, after] };
    parts.into_iter().filter(|(from, to)| from < to)
}

struct Builder {
    style: Style,
    left: u64,
    next: u64,
    segments: Vec<Segment>,
}

impl Builder {
    /// Lays as much as fits into this part of the device.
    fn fill(&mut self, mut from: u64, to: u64) {
        while self.left > 0 && from < to {
            let (most, pointers) = match self.style {
                Style::Pointers if self.next < DIRECT => (DIRECT - self.next, 0),
                Style::Pointers => self.pointers(),
                _ => (self.left, 0),
            };
            if from + pointers >= to {
                return;
            }
            let place = from + pointers;
            let count = most.min(self.left).min(to - place);
            let at = match self.segments.last() {
                // On in the next group: the block of pointers stays where it is.
                Some(last) if pointers == 0 && self.next >= DIRECT => last.pointers,
                _ => (pointers > 0).then(|| place - 1),
            };
            self.segments.push(Segment { first: self.next, place, count, pointers: at });
            (self.next, self.left, from) = (self.next + count, self.left - count, place + count);
        }
    }

    /// How many blocks the present block of pointers still has, and how many such blocks come before the next
    /// block: one for each 1024, and at the beginning of what takes two steps one more.
    fn pointers(&self) -> (u64, u64) {
        let inside = (self.next - DIRECT) % POINTERS;
        if inside > 0 {
            return (POINTERS - inside, 0);
        }
        let second = (self.next - DIRECT) / POINTERS;
        (POINTERS, if second == 1 { 2 } else { 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn check(style: Style, device: u64, file: u64, journal: u64) {
        let layout = Layout::new(style, device, file, journal);
        let mut used = std::collections::BTreeSet::new();
        let mut block = 0;
        while block < file / BLOCK {
            let (place, run) = layout.place(block);
            let start = Layout::journal_start(style, device);
            assert!(place + run <= device / BLOCK, "{block}");
            assert!(
                journal == 0 || place + run <= start || place >= start + journal,
                "{block} lies in the journal"
            );
            assert!((place..place + run).all(|p| used.insert(p)), "{block} lies where another one does");
            block += run;
        }
        let mut metadata = Vec::new();
        for first in (0..file / BLOCK).step_by(997) {
            layout.metadata(first, 1, &mut metadata);
            let clash = metadata.iter().find(|(at, _)| used.contains(at));
            assert_eq!(clash, None, "metadata of {first} lies in the file");
        }
    }

    #[test]
    fn no_block_lies_where_another_one_does() {
        for style in [Style::Pointers, Style::Extents, Style::Xfs] {
            check(style, 8 * GIB, 2 * GIB, 16_384);
            check(style, 2 * GIB, GIB, 0);
        }
    }

    #[test]
    fn blocks_of_pointers_lie_between_the_data() {
        let layout = Layout::new(Style::Pointers, GIB, 64 << 20, 0);
        let (first, run) = layout.place(0);
        assert_eq!(run, 12);
        assert_eq!(layout.place(12), (first + 12 + 1, 1024));
        assert_eq!(layout.place(12 + 1024), (first + 12 + 1 + 1024 + 2, 1024));
        assert_eq!(layout.place(12 + 2048), (first + 12 + 1 + 1024 + 2 + 1024 + 1, 1024));
    }

    #[test]
    fn an_extent_goes_on_to_the_next_metadata() {
        let layout = Layout::new(Style::Extents, 8 * GIB, 3 * GIB, 0);
        let (place, run) = layout.place(0);
        assert_eq!(place + run, GROUP * FLEX);
    }

    #[test]
    fn allocation_changes_few_blocks() {
        let mut out = Vec::new();
        for (style, most) in [(Style::Pointers, 4), (Style::Extents, 3), (Style::Xfs, 4)] {
            Layout::new(style, 8 * GIB, GIB, 0).metadata(20_000, 32, &mut out);
            assert!(out.len() <= most, "{style:?}: {out:?}");
            assert!(out.contains(&(Layout::new(style, 8 * GIB, GIB, 0).inode(), Class::Inode)));
        }
    }
}
