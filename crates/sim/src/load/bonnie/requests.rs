//! What Bonnie's processes ask for, phase by phase ([`workloads::bonnie::options`]): offsets and lengths, and
//! how many characters go through the program one by one.
//!
//! Read for behaviour: bonnie++ 2.00a (`bonnie++.cpp`, `bon_io.cpp`). Of Bonnie 1.x what its reports show and
//! what is known of it: characters go through stdio, whose buffer is a block of the filesystem; seeks are of
//! 4 KiB and within the first file; a process's first seek, and each tenth from there, writes.

use domain::rng::{Rng, Seed};
use domain::units::Bytes;
use workloads::bonnie::options::{Bonnie, Flavour, Phase};

/// What stdio writes and reads at a time: `st_blksize` of the filesystems that are modelled. Characters of
/// bonnie++, each a system call, are taken together by as many: a page.
pub(crate) const BUFFER: u64 = 4096;
/// What bonnie++ writes and reads by the character (`DefaultByteIO`).
const BYTE_IO: u64 = 3 << 20;
/// One seek in so many writes back (`UpdateSeek`).
const UPDATE: u64 = 10;
/// What Bonnie 1.x reads at a seek.
const SEEK_BLOCK: u64 = 4096;

/// A read or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whether it writes.
    pub write: bool,
    /// Where in the set of files, which lie one behind the other: bytes.
    pub offset: u64,
    /// In bytes.
    pub len: u64,
    /// How many of these bytes the program handles one by one.
    pub chars: u64,
}

/// Whether a phase begins with files that are new.
pub const fn makes_files(phase: Phase) -> bool {
    matches!(phase, Phase::PerCharWrite | Phase::BlockWrite)
}

/// What a phase moves on a set of so many bytes: bytes, or seeks.
pub fn amount(load: &Bonnie, phase: Phase, total: Bytes) -> u64 {
    let total = total.get();
    match phase {
        Phase::Seeks => u64::from(load.seeks),
        Phase::PerCharWrite | Phase::PerCharRead if load.flavour == Flavour::BonniePlusPlus => {
            total.min(BYTE_IO)
        }
        _ => total,
    }
}

/// The requests of a phase that goes from end to end.
///
/// # Panics
/// For [`Phase::Seeks`], which several processes share: see [`Tickets`].
pub fn requests(load: &Bonnie, phase: Phase, total: Bytes) -> Requests {
    let (block, writes, reads) = match phase {
        Phase::PerCharWrite => (BUFFER, true, false),
        Phase::PerCharRead => (BUFFER, false, true),
        Phase::BlockWrite => (load.chunk.get(), true, false),
        Phase::BlockRead => (load.chunk.get(), false, true),
        Phase::Rewrite => (load.chunk.get(), true, true),
        Phase::Seeks => panic!("seeks have no order"),
    };
    let chars = if matches!(phase, Phase::PerCharWrite | Phase::PerCharRead) { block } else { 0 };
    Requests { block, writes, reads, chars, next: 0, end: amount(load, phase, total), has_read: false }
}

/// Those requests, in order.
#[derive(Clone, Debug)]
pub struct Requests {
    block: u64,
    writes: bool,
    reads: bool,
    chars: u64,
    next: u64,
    end: u64,
    /// The block at `next` is read, and is now to be written.
    has_read: bool,
}

impl Iterator for Requests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let len = self.block.min(self.end - self.next);
        if len == 0 {
            return None;
        }
        let request = |write| Request { write, offset: self.next, len, chars: self.chars.min(len) };
        let request = request(self.writes && (self.has_read || !self.reads));
        self.has_read = self.reads && self.writes && !request.write;
        if !self.has_read {
            self.next += len;
        }
        Some(request)
    }
}

/// The seeks that all processes share.
#[derive(Clone, Debug)]
pub struct Tickets {
    flavour: Flavour,
    block: u64,
    blocks: u64,
    left: u32,
    rng: Rng,
}

impl Tickets {
    /// Of a set of so many bytes.
    pub fn new(load: &Bonnie, total: Bytes, seed: Seed) -> Self {
        let (block, span) = match load.flavour {
            Flavour::BonniePlusPlus => (load.chunk.get(), total),
            Flavour::Bonnie1 => (SEEK_BLOCK, load.file_size.unwrap_or(total)),
        };
        Self {
            flavour: load.flavour,
            block,
            blocks: span.get() / block,
            left: load.seeks,
            rng: seed.stream("bonnie's seeks"),
        }
    }

    /// The next for a process that has had so many; and whether what is read is then written back.
    pub fn next(&mut self, had: u32) -> Option<(Request, bool)> {
        self.left = self.left.checked_sub(1)?;
        let number = self.rng.bits();
        let updates = match self.flavour {
            Flavour::BonniePlusPlus => number.is_multiple_of(UPDATE),
            Flavour::Bonnie1 => u64::from(had).is_multiple_of(UPDATE),
        };
        let offset = number % self.blocks * self.block;
        Some((Request { write: false, offset, len: self.block, chars: 0 }, updates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn load(options: &[(&str, &str)]) -> Bonnie {
        let options: BTreeMap<String, String> =
            options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Bonnie::parse(&options).unwrap()
    }

    const OLD: &[(&str, &str)] = &[("flavour", "bonnie-1"), ("size", "8MiB"), ("file_size", "4MiB")];
    const TOTAL: Bytes = Bytes::from_mib(8);

    /// Bytes read, bytes written, characters.
    fn moved(load: &Bonnie, phase: Phase) -> (u64, u64, u64) {
        let sum = |write| requests(load, phase, TOTAL).filter(|r| r.write == write).map(|r| r.len).sum();
        (sum(false), sum(true), requests(load, phase, TOTAL).map(|r| r.chars).sum())
    }

    #[test]
    fn each_phase_moves_the_whole_set_once_each_way_that_it_goes() {
        let (load, all) = (load(OLD), TOTAL.get());
        let expected = [
            (Phase::PerCharWrite, (0, all, all)),
            (Phase::Rewrite, (all, all, 0)),
            (Phase::BlockWrite, (0, all, 0)),
            (Phase::PerCharRead, (all, 0, all)),
            (Phase::BlockRead, (all, 0, 0)),
        ];
        for (phase, sums) in expected {
            assert_eq!(moved(&load, phase), sums, "{phase:?}");
            assert_eq!(amount(&load, phase, TOTAL), all);
        }
    }

    #[test]
    fn a_rewrite_reads_each_chunk_and_writes_it_where_it_was() {
        let chunk = 16 << 10;
        let all: Vec<Request> = requests(&load(OLD), Phase::Rewrite, TOTAL).collect();
        assert_eq!(all.len() as u64, 2 * TOTAL.get() / chunk);
        for (number, pair) in all.chunks(2).enumerate() {
            let offset = number as u64 * chunk;
            assert_eq!(pair[0], Request { write: false, offset, len: chunk, chars: 0 });
            assert_eq!(pair[1], Request { write: true, ..pair[0] });
        }
    }

    #[test]
    fn bonnie_plus_plus_takes_few_characters_and_smaller_chunks() {
        let load = load(&[("size", "8MiB")]);
        assert_eq!(moved(&load, Phase::PerCharWrite), (0, 3 << 20, 3 << 20));
        assert!(requests(&load, Phase::BlockWrite, TOTAL).all(|request| request.len == 8192));
    }

    #[test]
    fn seeks_stay_within_the_first_file_and_one_in_ten_writes() {
        let mut tickets = Tickets::new(&load(OLD), TOTAL, Seed(1));
        let (mut had, mut written) = ([0; 3], 0);
        for turn in 0.. {
            let who = &mut had[turn % 3];
            let Some((request, updates)) = tickets.next(*who) else { break };
            assert!(request.offset + request.len <= 4 << 20 && request.len == 4096, "{request:?}");
            *who += 1;
            written += u32::from(updates);
        }
        // Each process's first, and each tenth from there.
        assert_eq!((had.iter().sum::<u32>(), written), (4000, 402));

        let load = load(&[("size", "8MiB")]);
        let mut tickets = Tickets::new(&load, TOTAL, Seed(1));
        let all: Vec<(Request, bool)> = std::iter::from_fn(|| tickets.next(0)).collect();
        let written = all.iter().filter(|(_, updates)| *updates).count();
        assert_eq!(all.len(), 8192);
        assert!((700..940).contains(&written), "{written} of 8192");
        assert!(all.iter().any(|(request, _)| request.offset > 4 << 20));
    }
}
