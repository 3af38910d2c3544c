//! A disk's data: sparse, in memory or in a file.

use super::Backing;
use super::kept::Kept;
use super::region::Region;
use domain::rng::Rng;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Memory is taken in pages of this: random 4 KiB writes take what they write.
pub(super) const PAGE: usize = 4096;

/// Pages of a leaf of the table.
const LEAF: u64 = 512;

/// After how many further pages the memory is told how much is in use: 1 MiB.
const TELL: u32 = 256;

/// A disk's data.
#[derive(Debug)]
pub(super) enum Store {
    Memory(Pages),
    File(File),
    Kept(Kept),
}

/// What an answer says is on the medium, whatever happens to the disk's power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    Nothing,
    /// A write that is forced, or to a disk without a write cache.
    Range {
        offset: u64,
        len: u64,
    },
    /// All that was written before this flush came.
    WrittenBefore(u64),
}

/// What a disk is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// In bytes.
    pub(super) size: u64,
    /// What is written whole or not at all, in bytes.
    pub(super) sector: u64,
}

impl Store {
    /// A disk of zeros, or the one that was kept. The random numbers decide what is left where its power is
    /// cut.
    pub(super) fn new(backing: &Backing, shape: Shape, rng: Rng) -> io::Result<Self> {
        let Shape { size, sector } = shape;
        match backing {
            Backing::Kept(path) => Ok(Self::Kept(Kept::open(path, size, sector, rng)?)),
            Backing::Memory(most) => Ok(Self::Memory(Pages::new(most.get(), size)?)),
            Backing::File(path) => {
                let file = File::options().read(true).write(true).create_new(true).open(path)?;
                file.set_len(size)?;
                Ok(Self::File(file))
            }
        }
    }

    /// Reads into all of `to`.
    pub(super) fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.read_exact_at(to, offset),
            Self::Kept(kept) => kept.read(offset, to),
            Self::Memory(pages) => {
                for (page, within, part) in parts(offset, to.len()) {
                    match pages.find(page) {
                        Some(held) => to[part.clone()].copy_from_slice(&held[within..within + part.len()]),
                        None => to[part].fill(0),
                    }
                }
                Ok(())
            }
        }
    }

    /// Stores all of `from`.
    pub(super) fn write(&mut self, offset: u64, from: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all_at(from, offset),
            Self::Kept(kept) => kept.write(offset, from),
            Self::Memory(pages) => {
                for (page, within, part) in parts(offset, from.len()) {
                    pages.write(page, within, &from[part])?;
                }
                Ok(())
            }
        }
    }

    /// Makes a range zeros, and gives back what whole pages it takes.
    pub(super) fn zero(&mut self, offset: u64, len: u64) -> io::Result<()> {
        match self {
            Self::File(file) => {
                let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
                Ok(rustix::fs::fallocate(&*file, flags, offset, len)?)
            }
            Self::Kept(kept) => kept.zero(offset, len),
            Self::Memory(pages) => {
                pages.zero(offset, offset + len);
                Ok(())
            }
        }
    }

    /// A flush came; what its answer promises.
    pub(super) fn receive_flush(&mut self) -> Promise {
        match self {
            Self::Kept(kept) => kept.receive_flush(),
            Self::Memory(_) | Self::File(_) => Promise::Nothing,
        }
    }

    /// Puts on the medium what an answer promises. What goes with its machine has no medium.
    pub(super) fn keep(&mut self, promise: Promise) -> io::Result<()> {
        match self {
            Self::Kept(kept) => kept.keep(promise),
            Self::Memory(_) | Self::File(_) => Ok(()),
        }
    }

    /// Power fails: what is not on the medium is lost, or some of it.
    pub(super) fn cut_power(&mut self) {
        if let Self::Kept(kept) = self {
            kept.cut_power();
        }
    }
}

/// Pages in memory, found through a table of two levels. Nothing in it ever grows by copying: a request that
/// waited for that would be late.
#[derive(Debug)]
pub(super) struct Pages {
    /// Leaf of each [`LEAF`] pages, and slot of each page: each one more than its number, 0 for none.
    top: Vec<u32>,
    leaves: Vec<Leaf>,
    region: Region,
    /// Slots that were handed out so far, and those that came back.
    used: u32,
    free: Vec<u32>,
    most: u32,
}

/// Boxed, so that a further one moves none of the others.
#[derive(Debug)]
struct Leaf(Box<[u32; LEAF as usize]>);

impl Pages {
    fn new(most: u64, size: u64) -> io::Result<Self> {
        let most =
            (most.min(size.next_multiple_of(PAGE as u64)) / PAGE as u64).clamp(1, u64::from(u32::MAX) - 1);
        let leaves = size.div_ceil(PAGE as u64 * LEAF) as usize;
        Ok(Self {
            top: vec![0; leaves],
            leaves: Vec::new(),
            region: Region::new(most as usize * PAGE)?,
            used: 0,
            free: Vec::new(),
            most: most as u32,
        })
    }

    fn slot(&self, page: u64) -> Option<u32> {
        let leaf = self.top[(page / LEAF) as usize].checked_sub(1)?;
        self.leaves[leaf as usize].0[(page % LEAF) as usize].checked_sub(1)
    }

    fn find(&self, page: u64) -> Option<&[u8]> {
        let start = self.slot(page)? as usize * PAGE;
        Some(&self.region.bytes()[start..start + PAGE])
    }

    /// Writes to a page; none is taken where zeros are written to none.
    fn write(&mut self, page: u64, within: usize, bytes: &[u8]) -> io::Result<()> {
        let slot = match self.slot(page) {
            Some(slot) => slot,
            None if bytes.iter().all(|byte| *byte == 0) => return Ok(()),
            None => self.add(page)?,
        };
        let start = slot as usize * PAGE + within;
        self.region.bytes_mut()[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// A page of zeros.
    fn add(&mut self, page: u64) -> io::Result<u32> {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.region.bytes_mut()[slot as usize * PAGE..][..PAGE].fill(0);
                slot
            }
            None if self.used == self.most => return Err(io::ErrorKind::StorageFull.into()),
            None => {
                self.used += 1;
                if self.used.is_multiple_of(TELL) {
                    self.region.used(self.used as usize * PAGE);
                }
                self.used - 1
            }
        };
        let top = &mut self.top[(page / LEAF) as usize];
        if *top == 0 {
            self.leaves.push(Leaf(Box::new([0; LEAF as usize])));
            *top = self.leaves.len() as u32;
        }
        self.leaves[*top as usize - 1].0[(page % LEAF) as usize] = slot + 1;
        Ok(slot)
    }

    fn zero(&mut self, start: u64, end: u64) {
        let size = PAGE as u64;
        let mut page = start / size;
        while page * size < end {
            if self.top[(page / LEAF) as usize] == 0 {
                page = (page / LEAF + 1) * LEAF;
                continue;
            }
            let within = |byte: u64| (byte.clamp(page * size, (page + 1) * size) - page * size) as usize;
            self.zero_page(page, within(start)..within(end));
            page += 1;
        }
    }

    fn zero_page(&mut self, page: u64, part: std::ops::Range<usize>) {
        let Some(slot) = self.slot(page) else { return };
        if part.len() < PAGE {
            self.region.bytes_mut()[slot as usize * PAGE..][part].fill(0);
            return;
        }
        let leaf = self.top[(page / LEAF) as usize] - 1;
        self.leaves[leaf as usize].0[(page % LEAF) as usize] = 0;
        self.free.push(slot);
    }
}

/// A range page by page: the page's number, where in it, and which part of the caller's bytes.
pub(super) fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let within = (at % PAGE as u64) as usize;
        let part = done..len.min(done + PAGE - within);
        done = part.end;
        Some((at / PAGE as u64, within, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::rng::Seed;
    use domain::units::Bytes;
    use proptest::prelude::*;

    const SIZE: usize = 64 << 10;

    fn store(backing: &Backing) -> Store {
        Store::new(backing, Shape { size: SIZE as u64, sector: 512 }, Seed(1).stream("cut")).unwrap()
    }

    fn memory(most: u64) -> Store {
        store(&Backing::Memory(Bytes::new(most)))
    }

    #[test]
    fn a_full_memory_says_so_and_zeros_need_none() {
        let mut store = memory(PAGE as u64);
        store.write(0, &[1; PAGE]).unwrap();
        assert_eq!(store.write(8192, &[1; 512]).unwrap_err().kind(), io::ErrorKind::StorageFull);
        store.write(8192, &[0; 512]).unwrap();
        store.write(512, &[2; 512]).unwrap();
        store.zero(0, SIZE as u64).unwrap();
        store.write(8192, &[1; 512]).unwrap();
        let mut got = [7; PAGE];
        store.read(8192, &mut got).unwrap();
        assert!(got[..512].iter().all(|byte| *byte == 1) && got[512..].iter().all(|byte| *byte == 0));
    }

    proptest! {
        #[test]
        fn memory_and_file_hold_what_a_plain_array_holds(
            acts in prop::collection::vec((0..3_u8, 0..SIZE as u64, 1..20_000_usize, any::<u8>()), 1..40),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let file = Backing::File(folder.path().join("data"));
            let mut stores = [memory(1 << 20), store(&file)];
            let mut plain = vec![0_u8; SIZE];
            for (act, start, len, byte) in acts {
                let len = len.min(SIZE - start as usize);
                let range = start as usize..start as usize + len;
                for store in &mut stores {
                    match act {
                        0 => store.write(start, &vec![byte; len]).unwrap(),
                        1 => store.zero(start, len as u64).unwrap(),
                        _ => {
                            let mut got = vec![7; len];
                            store.read(start, &mut got).unwrap();
                            prop_assert_eq!(&got[..], &plain[range.clone()]);
                        }
                    }
                }
                match act {
                    0 => plain[range].fill(byte),
                    1 => plain[range].fill(0),
                    _ => {}
                }
            }
        }
    }
}
