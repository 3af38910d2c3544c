//! A disk that outlives its machine: a file is its medium, and memory is its volatile write cache.
//!
//! A write is in the cache once it has arrived. It is on the medium when an answer promises so (to a flush
//! that came after it, or to the write itself where it is forced), or earlier, where the cache is full. So
//! the file holds at any moment what a disk would hold whose power fails then: kill this process, and what
//! was not flushed is lost. An orderly cut ([`Kept::cut_power`]) is as unkind as a disk: of what is still in
//! the cache it writes some physical sectors and loses the others, by a seed.
//!
//! Left out: a sector that was written twice since the last flush is old or newest, never in between; what is
//! trimmed or made zeros is so on the medium at once; this host's own power, which the file is not flushed
//! against.

use super::store::{PAGE, Promise, parts};
use domain::rng::Rng;
use rustix::fs::FallocateFlags;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The unit in which a page remembers what of it was written: the smallest logical block.
const BLOCK: usize = 512;

/// Pages that the cache holds before it writes the first of them back: 64 MiB, as large as disks have it.
const MAX_PAGES: usize = 16 << 10;

/// A disk in a file, behind a volatile cache.
#[derive(Debug)]
pub(super) struct Kept {
    medium: File,
    cache: BTreeMap<u64, Page>,
    /// What is written whole or not at all when power fails, in bytes: a physical sector, a page at most.
    sector: usize,
    /// Flushes that have come so far.
    flushes: u64,
    /// Decides what a cut leaves.
    rng: Rng,
}

/// What of a page is not yet on the medium.
#[derive(Debug)]
struct Page {
    bytes: Box<[u8; PAGE]>,
    /// A bit for each block that was written.
    dirty: u8,
    /// How many flushes had come when the first of it was written: each later one covers it.
    after: u64,
}

impl Kept {
    /// Opens the disk in a file, or makes one of zeros.
    pub(super) fn open(path: &Path, size: u64, sector: u64, rng: Rng) -> io::Result<Self> {
        let medium = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        match medium.metadata()?.len() {
            // It may also be that its maker was killed before it had a size.
            0 => medium.set_len(size)?,
            len if len == size => {}
            len => {
                return Err(io::Error::other(format!(
                    "`{}` is a disk of {len} bytes, and one of {size} bytes is wanted; ask for the size that it has, or \
                     name another folder",
                    path.display()
                )));
            }
        }
        let sector = (sector as usize).clamp(BLOCK, PAGE);
        Ok(Self { medium, cache: BTreeMap::new(), sector, flushes: 0, rng })
    }

    pub(super) fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        self.medium.read_exact_at(to, offset)?;
        for (number, within, part) in parts(offset, to.len()) {
            let Some(page) = self.cache.get(&number) else { continue };
            let to = &mut to[part];
            let wanted = within..within + to.len();
            for run in runs(page.dirty) {
                let (start, end) = (run.start.max(wanted.start), run.end.min(wanted.end));
                if start < end {
                    to[start - within..end - within].copy_from_slice(&page.bytes[start..end]);
                }
            }
        }
        Ok(())
    }

    /// Takes a write into the cache. It begins and ends at a block.
    pub(super) fn write(&mut self, offset: u64, from: &[u8]) -> io::Result<()> {
        let after = self.flushes;
        for (number, within, part) in parts(offset, from.len()) {
            if self.cache.len() >= MAX_PAGES && !self.cache.contains_key(&number) {
                self.write_back(0..=u64::MAX, 1)?;
            }
            let new = || Page { bytes: Box::new([0; PAGE]), dirty: 0, after };
            let page = self.cache.entry(number).or_insert_with(new);
            page.bytes[within..within + part.len()].copy_from_slice(&from[part.clone()]);
            page.dirty |= blocks(within, within + part.len());
        }
        Ok(())
    }

    /// Makes a range zeros, on the medium and at once.
    pub(super) fn zero(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let page = PAGE as u64;
        let numbers: Vec<u64> = self
            .cache
            .range(offset / page..(offset + len).div_ceil(page))
            .map(|(number, _)| *number)
            .collect();
        for number in numbers {
            let within =
                |byte: u64| (byte.clamp(number * page, (number + 1) * page) - number * page) as usize;
            let zeros = blocks(within(offset), within(offset + len));
            if let Some(held) = self.cache.get_mut(&number) {
                held.dirty &= !zeros;
                if held.dirty == 0 {
                    self.cache.remove(&number);
                }
            }
        }
        Ok(rustix::fs::fallocate(
            &self.medium,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            offset,
            len,
        )?)
    }

    /// A flush came; what its answer promises.
    pub(super) fn receive_flush(&mut self) -> Promise {
        self.flushes += 1;
        Promise::WrittenBefore(self.flushes)
    }

    /// Puts on the medium what an answer promises.
    pub(super) fn keep(&mut self, promise: Promise) -> io::Result<()> {
        match promise {
            Promise::Nothing => Ok(()),
            Promise::Range { offset, len } => {
                let page = PAGE as u64;
                self.write_back(offset / page..=(offset + len).saturating_sub(1) / page, usize::MAX)
            }
            Promise::WrittenBefore(flush) => {
                let covered = |(number, page): (&u64, &Page)| (page.after < flush).then_some(*number);
                let numbers: Vec<u64> = self.cache.iter().filter_map(covered).collect();
                numbers.into_iter().try_for_each(|number| self.write_back(number..=number, 1))
            }
        }
    }

    /// Writes pages of a range from the cache to the medium, the first of them first, and so many at most.
    fn write_back(&mut self, range: std::ops::RangeInclusive<u64>, most: usize) -> io::Result<()> {
        let numbers: Vec<u64> = self.cache.range(range).map(|(number, _)| *number).take(most).collect();
        for number in numbers {
            let page = &self.cache[&number];
            write_blocks(&self.medium, number, page, page.dirty)?;
            // Only what was really written leaves the cache.
            self.cache.remove(&number);
        }
        Ok(())
    }

    /// Power fails: of what is in the cache, some sectors reach the medium and the others are lost.
    ///
    /// How large a share reaches it is drawn as well, so that there are cuts after which hardly anything is
    /// lost, and others that leave nothing.
    pub(super) fn cut_power(&mut self) {
        let share = self.rng.unit();
        for (number, page) in std::mem::take(&mut self.cache) {
            let mut survives = 0;
            for start in (0..PAGE).step_by(self.sector) {
                if self.rng.unit() < share {
                    survives |= blocks(start, start + self.sector);
                }
            }
            // What cannot be written is lost, as all of it may be.
            let _ = write_blocks(&self.medium, number, &page, page.dirty & survives);
        }
    }
}

/// Writes some blocks of a page to the medium.
fn write_blocks(medium: &File, number: u64, page: &Page, which: u8) -> io::Result<()> {
    let start = number * PAGE as u64;
    runs(which).try_for_each(|run| medium.write_all_at(&page.bytes[run.clone()], start + run.start as u64))
}

/// The blocks of a page from one byte to another, as bits.
fn blocks(from: usize, to: usize) -> u8 {
    let up_to = |byte: usize| ((1_u16 << (byte / BLOCK)) - 1) as u8;
    up_to(to) & !up_to(from)
}

/// The runs of neighbouring blocks among some, in bytes of their page.
fn runs(blocks: u8) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut left = blocks;
    std::iter::from_fn(move || {
        let first = left.trailing_zeros();
        if first == 8 {
            return None;
        }
        let count = (left >> first).trailing_ones();
        let end = first + count;
        left &= !(((1_u16 << end) - 1) as u8);
        Some(first as usize * BLOCK..end as usize * BLOCK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::rng::Seed;
    use proptest::prelude::*;
    use std::path::PathBuf;

    const SIZE: usize = 64 << 10;

    struct Bench {
        _folder: tempfile::TempDir,
        path: PathBuf,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            Self { path: folder.path().join("disk"), _folder: folder }
        }

        fn open(&self, sector: u64, seed: u64) -> Kept {
            Kept::open(&self.path, SIZE as u64, sector, Seed(seed).stream("cut")).unwrap()
        }

        fn medium(&self) -> Vec<u8> {
            std::fs::read(&self.path).unwrap()
        }
    }

    fn flush(disk: &mut Kept) {
        let promise = disk.receive_flush();
        disk.keep(promise).unwrap();
    }

    #[test]
    fn what_was_not_flushed_is_read_back_and_not_in_the_file() {
        let bench = Bench::new();
        let mut disk = bench.open(512, 1);
        disk.write(512, &[1; 8192]).unwrap();
        let mut got = [0; 1024];
        disk.read(0, &mut got).unwrap();
        assert!(got[..512] == [0; 512] && got[512..] == [1; 512]);
        assert!(bench.medium() == [0; SIZE]);
        flush(&mut disk);
        assert!(bench.medium()[512..512 + 8192] == [1; 8192]);
    }

    #[test]
    fn a_flush_that_was_not_answered_promises_nothing_and_none_covers_what_comes_later() {
        let bench = Bench::new();
        let mut disk = bench.open(512, 1);
        disk.write(0, &[1; 512]).unwrap();
        let promise = disk.receive_flush();
        disk.write(4096, &[2; 512]).unwrap();
        assert!(bench.medium() == [0; SIZE]);
        disk.keep(promise).unwrap();
        assert_eq!((bench.medium()[0], bench.medium()[4096]), (1, 0));
    }

    #[test]
    fn a_sector_that_is_written_again_under_a_flush_is_on_the_medium_after_it() {
        let bench = Bench::new();
        let mut disk = bench.open(512, 1);
        disk.write(0, &[1; 512]).unwrap();
        let promise = disk.receive_flush();
        disk.write(0, &[2; 512]).unwrap();
        disk.keep(promise).unwrap();
        assert_eq!(bench.medium()[0], 2, "old would be wrong: the first write was to be there at least");
    }

    #[test]
    fn a_disk_is_found_again_and_another_size_is_refused() {
        let bench = Bench::new();
        let mut disk = bench.open(512, 1);
        disk.write(4096, &[3; 4096]).unwrap();
        flush(&mut disk);
        drop(disk);
        let mut got = [0; 4096];
        bench.open(512, 1).read(4096, &mut got).unwrap();
        assert!(got == [3; 4096]);
        let error = Kept::open(&bench.path, 4096, 512, Seed(1).stream("cut")).unwrap_err().to_string();
        assert!(error.contains("is a disk of 65536 bytes, and one of 4096 bytes is wanted"), "{error}");
    }

    #[test]
    fn a_full_cache_writes_back_and_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let size = (MAX_PAGES + 2) * PAGE;
        let rng = Seed(1).stream("cut");
        let mut disk = Kept::open(&folder.path().join("disk"), size as u64, 512, rng).unwrap();
        for number in 0..MAX_PAGES + 2 {
            disk.write((number * PAGE) as u64, &[1; 512]).unwrap();
        }
        assert_eq!(disk.cache.len(), MAX_PAGES);
        let mut got = [0; 512];
        for number in [0, 1, 2, MAX_PAGES + 1] {
            disk.read((number * PAGE) as u64, &mut got).unwrap();
            assert!(got == [1; 512]);
        }
    }

    #[test]
    fn a_physical_sector_is_never_torn() {
        let bench = Bench::new();
        let mut disk = bench.open(4096, 1);
        disk.write(0, &[1; SIZE]).unwrap();
        disk.cut_power();
        let medium = bench.medium();
        let firsts: Vec<u8> = medium.chunks(4096).map(|sector| sector[0]).collect();
        assert!(medium.chunks(4096).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        assert!(firsts.contains(&0) && firsts.contains(&1), "{firsts:?}: this seed is to leave both");
    }

    #[test]
    fn the_same_seed_leaves_the_same_and_another_one_something_else() {
        let left = |seed| {
            let bench = Bench::new();
            let mut disk = bench.open(512, seed);
            disk.write(0, &[1; SIZE]).unwrap();
            disk.cut_power();
            bench.medium()
        };
        assert!(left(1) == left(1));
        assert!(left(1) != left(2));
    }

    /// What is done to a disk.
    #[derive(Clone, Debug)]
    enum Act {
        Write(usize, usize),
        Forced(usize, usize),
        Zero(usize, usize),
        Flush,
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let range = || (0..SIZE / BLOCK, 1..40_usize);
        let act = prop_oneof![
            4 => range().prop_map(|(at, len)| Act::Write(at, len)),
            1 => range().prop_map(|(at, len)| Act::Forced(at, len)),
            1 => range().prop_map(|(at, len)| Act::Zero(at, len)),
            1 => Just(Act::Flush),
        ];
        prop::collection::vec(act, 1..40)
    }

    proptest! {
        #[test]
        fn after_a_cut_flushed_sectors_are_there_and_others_are_as_one_write_since_left_them(
            acts in acts(), seed in any::<u64>(),
        ) {
            let bench = Bench::new();
            let mut disk = bench.open(512, seed);
            // Of each block: what it must hold at least, and what was written to it since.
            let mut allowed: Vec<Vec<u8>> = vec![vec![0]; SIZE / BLOCK];
            let mut newest = vec![0_u8; SIZE / BLOCK];
            for (number, act) in acts.into_iter().enumerate() {
                let byte = number as u8 + 1;
                let end = |at: usize, len: usize| (at + len).min(SIZE / BLOCK);
                match act {
                    Act::Write(at, len) => {
                        disk.write((at * BLOCK) as u64, &vec![byte; (end(at, len) - at) * BLOCK]).unwrap();
                        for block in at..end(at, len) {
                            allowed[block].push(byte);
                            newest[block] = byte;
                        }
                    }
                    Act::Forced(at, len) => {
                        let bytes = (end(at, len) - at) * BLOCK;
                        disk.write((at * BLOCK) as u64, &vec![byte; bytes]).unwrap();
                        disk.keep(Promise::Range { offset: (at * BLOCK) as u64, len: bytes as u64 }).unwrap();
                        for block in at..end(at, len) {
                            allowed[block] = vec![byte];
                            newest[block] = byte;
                        }
                    }
                    Act::Zero(at, len) => {
                        disk.zero((at * BLOCK) as u64, ((end(at, len) - at) * BLOCK) as u64).unwrap();
                        for block in at..end(at, len) {
                            allowed[block] = vec![0];
                            newest[block] = 0;
                        }
                    }
                    Act::Flush => {
                        flush(&mut disk);
                        for (allowed, newest) in allowed.iter_mut().zip(&newest) {
                            *allowed = vec![*newest];
                        }
                    }
                }
                let mut got = vec![0; SIZE];
                disk.read(0, &mut got).unwrap();
                prop_assert!(got.chunks(BLOCK).zip(&newest).all(|(block, byte)| block.iter().all(|b| b == byte)));
            }
            disk.cut_power();
            for (number, block) in bench.medium().chunks(BLOCK).enumerate() {
                prop_assert!(block.iter().all(|byte| *byte == block[0]), "block {number} is torn");
                prop_assert!(allowed[number].contains(&block[0]), "block {number}: {} of {:?}", block[0], allowed[number]);
            }
        }
    }
}
