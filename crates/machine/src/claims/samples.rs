//! What lies between the first 8 MiB and the last MiB of a disk, by samples: a disk is too long to be read
//! whole.
//!
//! What lies there is divided into as many equal parts as there are samples, and one block is drawn in each.
//! Where data fills a fraction `f` of the disk, `n` samples all miss it with probability `(1 - f)^n` at the
//! most: the chance is the product of `1 - f_i` over the parts, which is largest where all parts are filled
//! alike (inequality of the means).
//!
//! 4096 reads of 4 KiB take 34 s of a disk that does 120 a second, and 0.4 s of one that does 10 000.

use super::error::ClaimError;
use super::node::{Node, device_error};
use super::own::random;
use super::signatures::ends;
use domain::rng::Seed;
use rustix::fs::{Advice, OFlags, fadvise};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// How many blocks are read: data that fills 0.1% of the disk is missed with probability 1.7%, 0.2% with
/// 0.03%.
const COUNT: u64 = 4096;
/// How long each is. Filesystems and databases write no less at a time, and disks read no less.
const SIZE: u64 = 4096;
/// What a claim may ask for: memory and time are bounded whatever its file says.
const MAX_COUNT: u64 = 1 << 16;
const MAX_SIZE: u64 = 1 << 16;
/// Enough for a disk to sort requests, and for a solid one to work on several. They take turns, so that heads
/// move one way.
const THREADS: usize = 8;
/// A disk that does ten reads a second is ill; it is not to be measured on.
const LIMIT: Duration = Duration::from_secs(400);
/// Letters of a block's mark: two blocks have the same one by chance once in four thousand million.
const MARK: usize = 8;

/// What was read between head and tail of a disk, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// What their places were drawn from.
    pub seed: Seed,
    /// How many blocks were read.
    pub count: u64,
    /// How many blocks there are.
    pub blocks: u64,
    /// How long a block is, in bytes.
    pub size: u64,
    /// How many of those read are not zero.
    pub nonzero: u64,
    /// SHA-256 of the SHA-256 of each in turn; it alone decides whether they are the same.
    pub sha256: String,
    /// The first letters of the SHA-256 of each, `00000000` for zeros, which tells how many differ; empty
    /// where all are zero.
    pub marks: String,
}

impl Samples {
    /// Reads blocks at places that are drawn anew.
    pub(super) fn draw(node: &Node) -> Result<Self, ClaimError> {
        let seed = random().map_err(|source| device_error("draw samples of", &node.path, source))?;
        Self { seed: Seed(u64::from_le_bytes(seed)), ..Self::plan(COUNT, SIZE) }.read(node)
    }

    /// Reads the blocks at the same places again.
    pub(super) fn again(&self, node: &Node) -> Result<Self, ClaimError> {
        Self { seed: self.seed, ..Self::plan(self.count, self.size) }.read(node)
    }

    fn plan(count: u64, size: u64) -> Self {
        let (sha256, marks) = (String::new(), String::new());
        Self { seed: Seed(0), count, blocks: 0, size, nonzero: 0, sha256, marks }
    }

    fn read(self, node: &Node) -> Result<Self, ClaimError> {
        let failed = |source| device_error("read samples of", &node.path, source);
        let device = node.reopen(OFlags::RDONLY).map_err(failed)?;
        // What others wrote past this device's cache is to be seen, and nothing else is to be read or to
        // stay.
        let advise = |advice| fadvise(&device, 0, None::<NonZeroU64>, advice).map_err(io::Error::from);
        advise(Advice::DontNeed).and_then(|()| advise(Advice::Random)).map_err(failed)?;
        let read = self.of(&device, node.size.get()).map_err(failed)?;
        advise(Advice::DontNeed).map_err(failed)?;
        Ok(read)
    }

    fn of(mut self, device: &File, size: u64) -> io::Result<Self> {
        let places = places(self.seed, size, self.count, self.size);
        let digests = digests(device, &places)?;
        self.blocks = blocks(size, self.size);
        self.count = places.len() as u64;
        self.nonzero = digests.iter().flatten().count() as u64;
        let mut all = Sha256::new();
        digests.iter().for_each(|digest| all.update(digest.unwrap_or_default()));
        self.sha256 = hex(&all.finalize());
        if self.nonzero > 0 {
            self.marks = digests.iter().map(|d| hex(&d.unwrap_or_default()[..MARK / 2])).collect();
        }
        Ok(self)
    }

    /// How many differ from those at the same places.
    pub(super) fn differing_from(&self, other: &Self) -> u64 {
        if self.sha256 == other.sha256 {
            return 0;
        }
        let zeros = "0".repeat(MARK);
        let mark = |of: &Self, n: usize| of.marks.get(n * MARK..(n + 1) * MARK).unwrap_or(&zeros).to_owned();
        let count = usize::try_from(self.count).unwrap_or_default();
        let differing = (0..count).filter(|n| mark(self, *n) != mark(other, *n)).count() as u64;
        differing.max(1)
    }

    /// Why a claim's file cannot mean it.
    pub(super) fn check(&self) -> Result<(), String> {
        let marks = self.marks.len() as u64;
        let is_sound = self.count <= MAX_COUNT
            && (512..=MAX_SIZE).contains(&self.size)
            && (marks == 0 || marks == self.count * MARK as u64)
            && self.marks.is_ascii();
        if is_sound { Ok(()) } else { Err("its samples cannot be what was read".to_owned()) }
    }

    /// How likely it is that all samples miss data that fills this fraction of the disk, at the most.
    pub fn chance_to_miss(&self, fraction: f64) -> f64 {
        if self.count == self.blocks {
            return 0.0;
        }
        (1.0 - fraction).powf(self.count as f64)
    }

    /// How many were read, what they hold, and what may have been missed, for people.
    pub fn in_words(&self) -> String {
        const FRACTION: f64 = 0.001;
        let block = domain::units::Bytes::new(self.size);
        let found = match self.nonzero {
            0 => format!("all {} blocks of {block} that were read between them are zero", self.count),
            nonzero => {
                let verb = if nonzero == 1 { "is" } else { "are" };
                format!(
                    "of {} blocks of {block} that were read between them {nonzero} {verb} not zero",
                    self.count
                )
            }
        };
        if self.count == self.blocks {
            return format!("{found}, and there are no more");
        }
        format!(
            "{found}; data that fills {}% of the disk would be missed with probability {:.1}%",
            FRACTION * 100.0,
            self.chance_to_miss(FRACTION) * 100.0
        )
    }
}

/// How many blocks lie between head and tail; the last one may be shorter.
fn blocks(size: u64, block: u64) -> u64 {
    let [(_, head), (tail, _)] = ends(size);
    (tail - head).div_ceil(block)
}

/// Where the blocks are and how long, in order.
fn places(seed: Seed, size: u64, count: u64, block: u64) -> Vec<(u64, usize)> {
    let [(_, head), (tail, _)] = ends(size);
    let blocks = blocks(size, block);
    let count = count.min(blocks);
    let mut rng = seed.stream("samples of a disk");
    let part =
        |n: u64| u64::try_from(u128::from(n) * u128::from(blocks) / u128::from(count)).unwrap_or(blocks);
    let place = |n| {
        let within = usize::try_from(part(n + 1) - part(n)).unwrap_or(usize::MAX);
        let start = head + (part(n) + rng.below(within) as u64) * block;
        (start, usize::try_from(block.min(tail - start)).unwrap_or_default())
    };
    (0..count).map(place).collect()
}

/// SHA-256 of each block; `None` where it is zero.
type Digests = Vec<Option<[u8; 32]>>;

fn digests(device: &File, places: &[(u64, usize)]) -> io::Result<Digests> {
    let deadline = Instant::now() + LIMIT;
    let share = |thread: usize| -> io::Result<Digests> {
        let mut block = Vec::new();
        let mine = places.iter().skip(thread).step_by(THREADS);
        mine.map(|(start, length)| {
            if Instant::now() >= deadline {
                return Err(io::Error::other(format!("{} reads took more than {LIMIT:?}", places.len())));
            }
            block.resize(*length, 0);
            device.read_exact_at(&mut block, *start)?;
            Ok(block.iter().any(|byte| *byte != 0).then(|| Sha256::digest(&block).into()))
        })
        .collect()
    };
    let shares = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || share(n))).collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("reading does not panic"));
        ended.collect::<io::Result<Vec<Digests>>>()
    })?;
    Ok((0..places.len()).map(|n| shares[n % THREADS][n / THREADS]).collect())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{HEAD, TAIL};

    fn read(device: &File, size: u64, seed: u64) -> Samples {
        Samples { seed: Seed(seed), ..Samples::plan(COUNT, SIZE) }.of(device, size).unwrap()
    }

    fn sparse(size: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        file
    }

    #[test]
    fn each_part_between_head_and_tail_has_one_sample() {
        let size = 10 << 30;
        let places = places(Seed(5), size, COUNT, SIZE);
        assert_eq!(places.len() as u64, COUNT);
        let part = (size - HEAD - TAIL) / COUNT;
        for (n, (start, length)) in places.iter().enumerate() {
            let from = HEAD + n as u64 * part;
            assert!(
                (from.saturating_sub(SIZE)..from + part + SIZE).contains(start) && *length == 4096,
                "{n}: {start}"
            );
        }
        assert_ne!(places, super::places(Seed(6), size, COUNT, SIZE));
        // A stored seed means the same places for ever.
        assert_eq!(places[..2], [(9_891_840, 4096), (13_504_512, 4096)]);
    }

    #[test]
    fn what_is_short_is_read_whole() {
        for size in [0, 512, HEAD, HEAD + TAIL] {
            assert_eq!(places(Seed(1), size, COUNT, SIZE), []);
        }
        let size = HEAD + TAIL + 3 * SIZE + 512;
        let whole = [(HEAD, 4096), (HEAD + SIZE, 4096), (HEAD + 2 * SIZE, 4096), (HEAD + 3 * SIZE, 512)];
        assert_eq!(places(Seed(1), size, COUNT, SIZE), whole);
        let samples = read(&sparse(size), size, 1);
        assert_eq!((samples.count, samples.blocks, samples.chance_to_miss(0.001)), (4, 4, 0.0));
        assert_eq!(
            samples.in_words(),
            "all 4 blocks of 4 KiB that were read between them are zero, and there are no more"
        );
    }

    #[test]
    fn it_is_told_how_many_differ() {
        let size = 64 << 20;
        let file = sparse(size);
        let blank = read(&file, size, 1);
        assert_eq!((blank.nonzero, blank.marks.as_str()), (0, ""));
        assert_eq!(blank.differing_from(&read(&file, size, 1)), 0);
        let places = places(Seed(1), size, COUNT, SIZE);
        for (changed, index) in [7, 700, 4095].into_iter().enumerate() {
            file.write_all_at(&[1], places[index].0 + 4000).unwrap();
            let now = read(&file, size, 1);
            assert_eq!((now.nonzero, blank.differing_from(&now)), (changed as u64 + 1, changed as u64 + 1));
            let verb = ["1 is not zero", "2 are not zero", "3 are not zero"][changed];
            assert!(now.in_words().contains(verb), "{}", now.in_words());
        }
        // What differs in another way than by its mark differs all the same.
        let now = read(&file, size, 1);
        let other = Samples { sha256: "0".repeat(64), ..now.clone() };
        assert_eq!(now.differing_from(&other), 1);
    }

    #[test]
    fn the_chance_to_miss_is_as_it_is_told() {
        let size: u64 = 1 << 30;
        let samples = read(&sparse(size), size, 1);
        assert!((samples.chance_to_miss(0.001) - 0.0166).abs() < 0.0001, "{}", samples.chance_to_miss(0.001));
        assert_eq!(
            samples.in_words(),
            "all 4096 blocks of 4 KiB that were read between them are zero; data that fills 0.1% of the disk would be \
             missed with probability 1.7%"
        );
        // Data that fills 0.1% of it, in pieces of 4 KiB: of 400 seeds some 7 miss it all.
        let blocks = size / SIZE / 1000;
        let data: std::collections::BTreeSet<u64> =
            (0..blocks).map(|n| HEAD + n * (size - HEAD - TAIL - SIZE) / blocks / SIZE * SIZE).collect();
        let misses =
            |seed| places(Seed(seed), size, COUNT, SIZE).iter().all(|(start, _)| !data.contains(start));
        let missed = (0..400).filter(|seed| misses(*seed)).count();
        assert!((1..=20).contains(&missed), "{missed} of 400");
    }

    #[test]
    fn a_claim_cannot_ask_for_more_than_is_bearable() {
        let sound = read(&sparse(64 << 20), 64 << 20, 1);
        assert_eq!(sound.check(), Ok(()));
        let wrong = [
            Samples { count: 1 << 40, ..sound.clone() },
            Samples { size: 0, ..sound.clone() },
            Samples { size: 1 << 40, ..sound.clone() },
            Samples { marks: "00".to_owned(), ..sound.clone() },
        ];
        assert!(wrong.iter().all(|samples| samples.check().is_err()));
    }
}
