//! The requests of a fio job: direction, offset and length, one after the other, without memory that grows.
//!
//! Follows what fio(1) says of `rw`, `random_distribution`, `norandommap`, `percentage_random`, `bs`, `bsrange` and
//! `bssplit`, checked against logs of fio 3.33 (`write_iolog`). The numbers are other ones than fio's: the generator is
//! this project's, so that a seed gives the same order for ever.
//!
//! A random order without repetition is a permutation of the blocks' numbers: a Feistel network of four rounds over the
//! next even power of two, walked until it lands within the blocks (J. Black and P. Rogaway, "Ciphers with arbitrary
//! finite domains", CT-RSA 2002). fio keeps a bitmap, or a shift register of full period.
//!
//! Zipf's ranks come by rejection-inversion (W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", ACM TOMACS 6(3), 1996), which is exact for each exponent; fio uses the approximation
//! of J. Gray et al. ("Quickly generating billion-record synthetic databases", SIGMOD 1994), which is exact for the first
//! two ranks and up to a fifth off for the next ones. Their rule for `pareto` is used here too: a share h of the accesses
//! goes to a share 1 − h of the blocks. `normal` is fio's own: the mean of twelve uniform numbers, and a uniform deviation.
//! fio then scatters ranks over the blocks by a hash, which lets two ranks meet; here they are scattered by the
//! permutation.
//!
//! Approximate: with block sizes that differ (`bsrange`, `bssplit`, or reads and writes of different size), random
//! requests may repeat blocks, where fio's bitmap cuts lengths so that none is met twice.

use domain::rng::{Rng, Seed};
use domain::units::Bytes;

/// A request that a load asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Whether it writes.
    pub write: bool,
    /// Where it begins on the target.
    pub offset: Bytes,
    /// How long it is; more than zero.
    pub len: Bytes,
}

/// Reads, writes, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Reads alone.
    Reads,
    /// Writes alone.
    Writes,
    /// Each request reads with this probability in percent, and writes otherwise.
    Both(u8),
}

/// How long the requests of a direction are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockSizes {
    /// All alike.
    Fixed(Bytes),
    /// Any multiple of the shortest up to the longest, equally likely (`bsrange`).
    Range(Bytes, Bytes),
    /// Lengths with their shares in percent, which sum to 100 (`bssplit`); none is zero.
    Split(Vec<(Bytes, u8)>),
}

impl BlockSizes {
    /// The shortest.
    pub fn shortest(&self) -> u64 {
        match self {
            Self::Fixed(size) | Self::Range(size, _) => size.get(),
            Self::Split(sizes) => sizes.iter().map(|(size, _)| size.get()).min().unwrap_or(0),
        }
    }

    /// The longest.
    pub fn longest(&self) -> u64 {
        match self {
            Self::Fixed(size) | Self::Range(_, size) => size.get(),
            Self::Split(sizes) => sizes.iter().map(|(size, _)| size.get()).max().unwrap_or(0),
        }
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Fixed(size) => size.get(),
            Self::Range(shortest, longest) => {
                let steps = longest.get() / shortest.get();
                shortest.get() * (1 + rng.below(steps as usize) as u64)
            }
            Self::Split(sizes) => {
                let mut left = rng.below(100) as u64;
                let drawn = sizes.iter().find(|(_, share)| {
                    let here = left < u64::from(*share);
                    left = left.saturating_sub(u64::from(*share));
                    here
                });
                drawn.or(sizes.last()).map_or(0, |(size, _)| size.get())
            }
        }
    }

    /// A length that fits into what is left, drawn again while it does not, as fio does; `None` where none fits.
    fn draw_within(&self, room: u64, rng: &mut Rng) -> Option<u64> {
        /// Draws after which the shortest is taken: fio draws for ever, and a length of 1% fits within that many nearly always.
        const MOST_DRAWS: usize = 1_000;
        if self.shortest() > room {
            return None;
        }
        let fitting = (0..MOST_DRAWS).map(|_| self.draw(rng)).find(|len| *len <= room);
        Some(fitting.unwrap_or(self.shortest()))
    }
}

/// The part of the target that requests stay in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub start: Bytes,
    /// How long it is.
    pub len: Bytes,
    /// How long the whole target is: beyond it, and not beyond the span, sequential requests with holes begin anew.
    pub target: Bytes,
}

/// Whether a random order meets blocks twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Each block once, then the pass is over.
    EachOnce,
    /// As chance has it (`norandommap`, each distribution but the uniform one).
    AsDrawn,
}

/// A zone of `zoned` or `zoned_abs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The share of accesses, in percent.
    pub accesses: u8,
    /// How long it is.
    pub len: Bytes,
}

/// Which blocks are likely.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// By Zipf's law with this exponent, not 1; and where the most likely block lies, from 0 to 1, or anywhere.
    Zipf(f64, Option<f64>),
    /// This share of the accesses goes to the rest of the blocks (0.2: a fifth of them to four fifths); and where.
    Pareto(f64, Option<f64>),
    /// By chance around a middle, with this deviation in percent of the span, 0 to 100; and where.
    Normal(f64, Option<f64>),
    /// By zones, for reads and for writes; where they do not fill the span, the rest is not met.
    Zoned([Vec<Zone>; 2]),
}

/// What so many requests from each random offset on do (`rw=randread:8` with `rw_sequencer`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOf {
    /// They follow each other.
    Following(u32),
    /// They ask for the same.
    Same(u32),
}

/// How offsets follow each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    /// One after the other, with so many bytes left out between (`rw=write:4k`).
    Sequential {
        /// The bytes left out.
        hole: Bytes,
    },
    /// At random.
    Random {
        /// Which blocks are likely.
        distribution: Distribution,
        /// Whether blocks are met twice.
        coverage: Coverage,
        /// The share of requests at a random offset, in percent, of reads and of writes; others follow the last one.
        share: [u8; 2],
        /// Requests from each random offset on.
        run: RunOf,
        /// What offsets are multiples of, of reads and of writes, where it is not the shortest length (`blockalign`).
        align: [Option<Bytes>; 2],
    },
}

/// A job's requests, as asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct PatternSpec {
    /// Directions.
    pub mix: Mix,
    /// Lengths of reads and of writes.
    pub sizes: [BlockSizes; 2],
    /// Where.
    pub span: Span,
    /// In which order.
    pub access: Access,
    /// Whether it begins anew at its end for as long as it is asked (`time_based`).
    pub endless: bool,
}

impl PatternSpec {
    /// The longest request of a direction that occurs.
    pub fn longest(&self) -> u64 {
        self.directions().map(|write| self.sizes[write].longest()).max().unwrap_or(0)
    }

    /// The shortest request of a direction that occurs.
    pub fn shortest(&self) -> u64 {
        self.directions().map(|write| self.sizes[write].shortest()).min().unwrap_or(0)
    }

    fn directions(&self) -> impl Iterator<Item = usize> {
        let (first, last) = match self.mix {
            Mix::Reads => (0, 0),
            Mix::Writes => (1, 1),
            Mix::Both(_) => (0, 1),
        };
        first..=last
    }

    /// What random offsets of a direction are multiples of.
    fn unit(&self, write: usize) -> u64 {
        match &self.access {
            Access::Random { align, .. } => align[write].map(Bytes::get),
            Access::Sequential { .. } => None,
        }
        .unwrap_or_else(|| self.sizes[write].shortest())
        .max(1)
    }

    /// Blocks of a direction in the span, at each of which the shortest request fits.
    fn blocks(&self, write: usize) -> u64 {
        let (len, unit) = (self.span.len.get(), self.unit(write));
        let fitting = len.checked_sub(self.sizes[write].shortest()).map_or(0, |room| room / unit + 1);
        fitting.min(len / unit)
    }

    /// Whether a permutation can stand for fio's bitmap: one block size, aligned to itself.
    fn has_one_block(&self) -> bool {
        let units: Vec<_> = self.directions().map(|write| (self.unit(write), &self.sizes[write])).collect();
        let (unit, sizes) = units[0];
        *sizes == BlockSizes::Fixed(Bytes::new(unit)) && units.iter().all(|other| *other == (unit, sizes))
    }
}

/// A job's requests, one after the other.
#[derive(Clone, Debug)]
pub struct Pattern {
    spec: PatternSpec,
    /// Where the last request of each direction ended, from the span's beginning.
    positions: [u64; 2],
    /// Requests of each direction so far in the run from a random offset.
    in_run: [u32; 2],
    last: [Option<(u64, u64)>; 2],
    order: Option<Permutation>,
    met: u64,
    ranks: [Option<Ranks>; 2],
}

impl Pattern {
    /// At its beginning; a random order is drawn from `rng` here.
    ///
    /// # Panics
    /// Where a length is zero.
    pub fn new(spec: PatternSpec, rng: &mut Rng) -> Self {
        assert!(spec.shortest() > 0, "a request of no length: {spec:?}");
        let ranks = [0, 1].map(|write| Ranks::of(&spec, write));
        let mut pattern =
            Self { spec, positions: [0; 2], in_run: [0; 2], last: [None; 2], order: None, met: 0, ranks };
        pattern.begin(rng);
        pattern
    }

    /// Begins anew, in a new order where it is a random one.
    pub fn begin(&mut self, rng: &mut Rng) {
        (self.positions, self.in_run, self.last) = ([0; 2], [0; 2], [None; 2]);
        self.reorder(rng);
    }

    fn reorder(&mut self, rng: &mut Rng) {
        self.met = 0;
        let once = matches!(&self.spec.access, Access::Random { coverage: Coverage::EachOnce, .. });
        self.order = (once && self.spec.has_one_block()).then(|| {
            let write = usize::from(self.spec.mix == Mix::Writes);
            Permutation::new(self.spec.blocks(write), rng)
        });
    }

    /// The next request; `None` where the pass is over.
    pub fn next(&mut self, rng: &mut Rng) -> Option<Ask> {
        let write = match self.spec.mix {
            Mix::Reads => 0,
            Mix::Writes => 1,
            Mix::Both(reads) => usize::from(rng.below(100) >= usize::from(reads)),
        };
        let (offset, len) = match self.spec.access {
            Access::Sequential { hole } => self.next_sequential(write, hole.get(), rng)?,
            Access::Random { run, share, .. } => self.next_random(write, run, share[write], rng)?,
        };
        self.positions[write] = offset + len;
        self.last[write] = Some((offset, len));
        Some(Ask {
            write: write == 1,
            offset: Bytes::new(self.spec.span.start.get() + offset),
            len: Bytes::new(len),
        })
    }

    fn next_sequential(&mut self, write: usize, hole: u64, rng: &mut Rng) -> Option<(u64, u64)> {
        let position = self.positions[write];
        let mut offset = if position > 0 { position + hole } else { 0 };
        let beyond_target = self.spec.span.start.get() + offset >= self.spec.span.target.get();
        if hole > 0 && beyond_target {
            offset = 0;
        }
        match self.fit(write, offset, rng) {
            None if self.spec.endless => self.fit(write, 0, rng).map(|len| (0, len)),
            fitted => fitted.map(|len| (offset, len)),
        }
    }

    /// A length for a request at an offset of the span.
    fn fit(&self, write: usize, offset: u64, rng: &mut Rng) -> Option<u64> {
        let room = self.spec.span.len.get().checked_sub(offset)?;
        self.spec.sizes[write].draw_within(room, rng)
    }

    fn next_random(&mut self, write: usize, run: RunOf, share: u8, rng: &mut Rng) -> Option<(u64, u64)> {
        let (RunOf::Following(length) | RunOf::Same(length)) = run;
        let within_run = self.in_run[write] > 0;
        self.in_run[write] = (self.in_run[write] + 1) % length.max(1);
        if let (true, RunOf::Same(_), Some(last)) = (within_run, run, self.last[write]) {
            return Some(last);
        }
        let following = within_run || (share < 100 && rng.below(100) >= usize::from(share));
        if following && let Some(len) = self.fit(write, self.positions[write], rng) {
            return Some((self.positions[write], len));
        }
        let offset = self.random_block(write, rng)? * self.spec.unit(write);
        self.fit(write, offset, rng).map(|len| (offset, len))
    }

    fn random_block(&mut self, write: usize, rng: &mut Rng) -> Option<u64> {
        let blocks = self.spec.blocks(write);
        if blocks == 0 {
            return None;
        }
        if self.order.is_some() && self.met == blocks {
            if !self.spec.endless {
                return None;
            }
            self.reorder(rng);
        }
        if let Some(order) = &self.order {
            self.met += 1;
            return Some(order.at(self.met - 1));
        }
        Some(match &self.ranks[write] {
            Some(ranks) => ranks.draw(rng),
            None => rng.below(blocks as usize) as u64,
        })
    }
}

/// A permutation of the numbers below a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Permutation {
    bound: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    fn new(bound: u64, rng: &mut Rng) -> Self {
        let bits = u64::BITS - bound.saturating_sub(1).leading_zeros();
        Self { bound, half_bits: bits.div_ceil(2).max(1), keys: [(); 4].map(|()| rng.bits()) }
    }

    /// The number that stands at an index below the bound.
    fn at(&self, index: u64) -> u64 {
        let mut number = self.round_trip(index);
        // The walk comes back to the index itself at the latest, which lies below the bound.
        while number >= self.bound {
            number = self.round_trip(number);
        }
        number
    }

    fn round_trip(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mixed(right ^ key) & mask));
        }
        (left << self.half_bits) | right
    }
}

/// Bits that depend on all bits of a number (the finaliser of splitmix64).
fn mixed(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Blocks that are not equally likely: by rank, and where ranks lie.
#[derive(Clone, Debug)]
struct Ranks {
    kind: RankKind,
    scattered: Permutation,
    shift: u64,
}

#[derive(Clone, Debug)]
enum RankKind {
    Zipf(Zipf),
    /// The exponent of the uniform number.
    Pareto(f64),
    /// The deviation's width, in blocks.
    Normal(u64),
    /// The share of accesses up to and with each zone, and its blocks.
    Zoned(Vec<(u32, u64, u64)>),
}

impl Ranks {
    fn of(spec: &PatternSpec, write: usize) -> Option<Self> {
        let Access::Random { distribution, .. } = &spec.access else { return None };
        let blocks = spec.blocks(write).max(1);
        let (kind, middle) = match distribution {
            Distribution::Uniform => return None,
            Distribution::Zipf(theta, middle) => (RankKind::Zipf(Zipf::new(blocks, *theta)), *middle),
            Distribution::Pareto(share, middle) => {
                (RankKind::Pareto(share.ln() / (1.0 - share).ln()), *middle)
            }
            Distribution::Normal(percent, middle) => {
                let width = (blocks as f64 * percent / 100.0).ceil() as u64;
                (RankKind::Normal(width.min(blocks / 2)), *middle)
            }
            Distribution::Zoned(zones) => {
                (RankKind::Zoned(zone_blocks(&zones[write], spec.unit(write), blocks)), None)
            }
        };
        // Reads and writes have the same hot blocks, and so has every seed, as in fio.
        let scattered = Permutation::new(blocks, &mut Seed(blocks).stream("scattered ranks"));
        let shift = middle.map_or(0, |middle| {
            let wanted = ((blocks as f64 * middle) as u64).min(blocks - 1);
            (wanted + blocks - scattered.at(0)) % blocks
        });
        Some(Self { kind, scattered, shift })
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        let blocks = self.scattered.bound;
        let rank = match &self.kind {
            RankKind::Zipf(zipf) => zipf.draw(rng) - 1,
            RankKind::Pareto(power) => ((blocks - 1) as f64 * rng.unit().powf(*power)) as u64,
            RankKind::Normal(width) => normal(blocks, *width, rng),
            RankKind::Zoned(zones) => return zoned(zones, rng),
        };
        (self.scattered.at(rank.min(blocks - 1)) + self.shift) % blocks
    }
}

/// fio's normal distribution: the mean of twelve uniform numbers, moved by up to half a width either way.
fn normal(blocks: u64, width: u64, rng: &mut Rng) -> u64 {
    let mean = (0..12).map(|_| rng.unit()).sum::<f64>() / 12.0 * blocks as f64;
    let moved = (rng.unit() - 0.5) * width as f64;
    (mean + moved).clamp(0.0, (blocks - 1) as f64) as u64
}

/// The blocks of each zone, cut at the end of the span; empty ones are left out.
fn zone_blocks(zones: &[Zone], unit: u64, blocks: u64) -> Vec<(u32, u64, u64)> {
    let (mut share, mut end_bytes) = (0, 0_u64);
    let mut found = Vec::new();
    for zone in zones {
        let first = (end_bytes / unit).min(blocks);
        end_bytes = end_bytes.saturating_add(zone.len.get());
        let end = (end_bytes / unit).min(blocks);
        if end > first {
            share += u32::from(zone.accesses);
            found.push((share, first, end));
        }
    }
    found
}

fn zoned(zones: &[(u32, u64, u64)], rng: &mut Rng) -> u64 {
    let Some((all, ..)) = zones.last().filter(|(all, ..)| *all > 0) else { return 0 };
    let drawn = rng.below(*all as usize) as u32;
    let (_, first, end) = zones.iter().find(|(share, ..)| drawn < *share).unwrap_or(&zones[zones.len() - 1]);
    first + rng.below((end - first) as usize) as u64
}

/// Zipf's law over 1 to `count`: a rank's probability is proportional to its power −theta.
#[derive(Clone, Debug)]
struct Zipf {
    count: f64,
    theta: f64,
    /// The integral from 1 on up to 1.5, less the first rank's probability mass.
    low: f64,
    /// The integral up to `count` + 0.5.
    high: f64,
    /// How far from its rank a number is accepted at once.
    near: f64,
}

impl Zipf {
    fn new(count: u64, theta: f64) -> Self {
        let mut zipf = Self { count: count as f64, theta, low: 0.0, high: 0.0, near: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.count + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - 2_f64.powf(-theta));
        zipf
    }

    /// The integral of x^−theta, from 1.
    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.theta;
        if power == 0.0 { x.ln() } else { (x.powf(power) - 1.0) / power }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.theta;
        if power == 0.0 { area.exp() } else { (area * power + 1.0).max(0.0).powf(1.0 / power) }
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.high + rng.unit() * (self.low - self.high);
            let x = self.inverse(area);
            let rank = x.round().clamp(1.0, self.count);
            if rank - x <= self.near || area >= self.integral(rank + 0.5) - rank.powf(-self.theta) {
                return rank as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::rng::Rng;
    use proptest::prelude::*;

    fn rng() -> Rng {
        Seed(1).stream("offsets")
    }

    fn kib(kib: u64) -> Bytes {
        Bytes::from_kib(kib)
    }

    fn fixed(size: u64) -> [BlockSizes; 2] {
        [(); 2].map(|()| BlockSizes::Fixed(kib(size)))
    }

    fn random() -> Access {
        Access::Random {
            distribution: Distribution::Uniform,
            coverage: Coverage::EachOnce,
            share: [100; 2],
            run: RunOf::Following(1),
            align: [None; 2],
        }
    }

    fn spec(len_kib: u64, block_kib: u64, access: Access) -> PatternSpec {
        let span = Span { start: Bytes::default(), len: kib(len_kib), target: kib(len_kib) };
        PatternSpec { mix: Mix::Reads, sizes: fixed(block_kib), span, access, endless: false }
    }

    /// Offsets and lengths in KiB, until the pass is over or there are so many.
    fn asked(spec: &PatternSpec, most: usize) -> Vec<(bool, u64, u64)> {
        let mut rng = rng();
        let mut pattern = Pattern::new(spec.clone(), &mut rng);
        let one = |ask: Ask| (ask.write, ask.offset.get() / 1024, ask.len.get() / 1024);
        (0..most).map_while(|_| pattern.next(&mut rng).map(one)).collect()
    }

    fn offsets(spec: &PatternSpec, most: usize) -> Vec<u64> {
        asked(spec, most).into_iter().map(|(_, offset, _)| offset).collect()
    }

    const SEQUENTIAL: Access = Access::Sequential { hole: Bytes::new(0) };

    #[test]
    fn sequential_requests_end_where_the_next_does_not_fit() {
        // fio 3.33: size=64k bs=12k rw=read.
        assert_eq!(offsets(&spec(64, 12, SEQUENTIAL), 100), [0, 12, 24, 36, 48]);
    }

    #[test]
    fn an_offset_is_added_and_endless_ones_begin_anew() {
        let mut spec = spec(16, 4, SEQUENTIAL);
        (spec.span.start, spec.endless) = (kib(100), true);
        assert_eq!(offsets(&spec, 6), [100, 104, 108, 112, 100, 104]);
    }

    #[test]
    fn holes_wrap_at_the_targets_end_and_not_at_the_spans() {
        // fio 3.33: rw=write:4k bs=4k, size=64k of 64k, and size=16k of 96k.
        let holes = Access::Sequential { hole: kib(4) };
        assert_eq!(offsets(&spec(64, 4, holes.clone()), 9), [0, 8, 16, 24, 32, 40, 48, 56, 0]);
        let mut part = spec(16, 4, holes);
        part.span.target = kib(96);
        assert_eq!(offsets(&part, 9), [0, 8]);
    }

    #[test]
    fn reads_and_writes_of_a_sequential_mix_have_their_own_positions() {
        let mix = PatternSpec { mix: Mix::Both(50), ..spec(64, 4, SEQUENTIAL) };
        let asked = asked(&mix, 12);
        for write in [false, true] {
            let offsets: Vec<u64> = asked.iter().filter(|(w, ..)| *w == write).map(|(_, o, _)| *o).collect();
            let expected: Vec<u64> = (0..offsets.len() as u64).map(|i| 4 * i).collect();
            assert_eq!(offsets, expected);
        }
    }

    #[test]
    fn a_random_order_meets_each_block_once_and_then_ends() {
        // fio 3.33: size=60k bs=8k rw=randread: seven blocks, 0 to 48 KiB.
        let mut met = offsets(&spec(60, 8, random()), 100);
        assert_ne!(met, [0, 8, 16, 24, 32, 40, 48]);
        met.sort_unstable();
        assert_eq!(met, [0, 8, 16, 24, 32, 40, 48]);
    }

    #[test]
    fn an_endless_random_order_begins_anew_in_another_one() {
        let endless = PatternSpec { endless: true, ..spec(64, 4, random()) };
        let met = offsets(&endless, 32);
        let (first, second) = met.split_at(16);
        assert_ne!(first, second);
        let sorted = |part: &[u64]| {
            let mut part = part.to_vec();
            part.sort_unstable();
            part
        };
        assert_eq!(sorted(first), sorted(second));
    }

    #[test]
    fn a_run_follows_its_random_offset_or_stays_there() {
        let run = |run| {
            let Access::Random { distribution, coverage, share, align, .. } = random() else {
                unreachable!()
            };
            offsets(&spec(1024, 4, Access::Random { distribution, coverage, share, run, align }), 12)
        };
        for four in run(RunOf::Following(4)).chunks(4) {
            assert_eq!(four.iter().map(|o| o - four[0]).collect::<Vec<_>>(), [0, 4, 8, 12]);
        }
        for four in run(RunOf::Same(4)).chunks(4) {
            assert_eq!(four, [four[0]; 4]);
        }
    }

    #[test]
    fn an_alignment_below_the_length_leaves_room_for_the_last_request() {
        let Access::Random { distribution, run, share, .. } = random() else { unreachable!() };
        let align = [Some(Bytes::new(512)); 2];
        let aligned = Access::Random { distribution, coverage: Coverage::AsDrawn, share, run, align };
        assert_eq!(offsets(&spec(12, 8, aligned), 500).len(), 500);
    }

    #[test]
    fn half_random_requests_follow_the_last_one_half_of_the_time() {
        let Access::Random { distribution, run, align, .. } = random() else { unreachable!() };
        let half = Access::Random { distribution, coverage: Coverage::AsDrawn, share: [50; 2], run, align };
        let met = offsets(&spec(1 << 20, 4, half), 4000);
        let following = met.windows(2).filter(|pair| pair[1] == pair[0] + 4).count();
        // Binomial: 2000 ± 4 times 31.6.
        assert!((1873..=2127).contains(&following), "{following}");
    }

    #[test]
    fn lengths_of_a_range_are_multiples_of_the_shortest_and_fit() {
        let range = PatternSpec {
            sizes: [(); 2].map(|()| BlockSizes::Range(kib(4), kib(16))),
            ..spec(1024, 4, SEQUENTIAL)
        };
        let asked = asked(&range, 10_000);
        assert_eq!(asked.iter().map(|(.., len)| len).sum::<u64>(), 1024, "the span is filled to its end");
        assert!(asked.iter().all(|(.., len)| [4, 8, 12, 16].contains(len)));
    }

    #[test]
    fn lengths_of_a_split_have_their_shares() {
        let split = BlockSizes::Split(vec![(kib(4), 10), (kib(64), 50), (kib(32), 40)]);
        let mut rng = rng();
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..10_000 {
            *counts.entry(split.draw(&mut rng) / 1024).or_insert(0_u32) += 1;
        }
        let share = |size: u64| f64::from(counts[&size]) / 10_000.0;
        for (size, expected) in [(4, 0.1), (64, 0.5), (32, 0.4)] {
            assert!((share(size) - expected).abs() < 0.02, "{counts:?}");
        }
    }

    /// How often each block is met, the most frequent first.
    fn frequencies(distribution: Distribution, draws: usize) -> (Vec<usize>, Vec<usize>) {
        let access = Access::Random {
            distribution,
            coverage: Coverage::AsDrawn,
            share: [100; 2],
            run: RunOf::Following(1),
            align: [None; 2],
        };
        let mut by_block = vec![0; 1024];
        for offset in offsets(&spec(4096, 4, access), draws) {
            by_block[offset as usize / 4] += 1;
        }
        let mut sorted = by_block.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        (sorted, by_block)
    }

    #[test]
    fn zipf_has_the_frequencies_of_its_law() {
        const DRAWS: usize = 51_200;
        for theta in [0.8_f64, 1.2] {
            let (sorted, _) = frequencies(Distribution::Zipf(theta, None), DRAWS);
            let total: f64 = (1..=1024).map(|rank| f64::from(rank).powf(-theta)).sum();
            for rank in 1..=6 {
                let expected = DRAWS as f64 * (rank as f64).powf(-theta) / total;
                let off = (sorted[rank - 1] as f64 - expected).abs();
                assert!(off < 5.0 * expected.sqrt(), "{theta}: {rank}: {} of {expected}", sorted[rank - 1]);
            }
        }
        // fio 3.33 with zipf:1.2 over 1024 blocks met the two most frequent of 51200 so often; its third had 3758, where
        // the law has 3156.
        let (sorted, _) = frequencies(Distribution::Zipf(1.2, None), DRAWS);
        for (ours, fio) in sorted.iter().zip([11_657_usize, 5217]) {
            assert!(ours.abs_diff(fio) < fio / 15, "{ours} {fio}");
        }
    }

    #[test]
    fn pareto_has_the_frequencies_of_its_rule_and_of_fio() {
        const DRAWS: usize = 51_200;
        let (sorted, _) = frequencies(Distribution::Pareto(0.2, None), DRAWS);
        // The first block has (1/1023)^(ln 0.8 / ln 0.2) = 38.3% of all.
        assert!((sorted[0] as f64 / DRAWS as f64 - 0.383).abs() < 0.011, "{}", sorted[0]);
        // fio 3.33 with pareto:0.2.
        for (ours, fio) in sorted.iter().zip([19_487_usize, 1939, 1245, 913, 773, 614]) {
            assert!(ours.abs_diff(fio) < fio / 8, "{ours} {fio}");
        }
        // The rule: four fifths of the accesses to a fifth of the blocks.
        let most: usize = sorted.iter().take(205).sum();
        assert!((most as f64 / DRAWS as f64 - 0.8).abs() < 0.01, "{most}");
    }

    #[test]
    fn normal_is_as_flat_as_fio_makes_it() {
        // fio 3.33: the most frequent of 1024 blocks met 254 of 51200 times with normal:10, and 132 times with normal:50.
        for (percent, fio) in [(10.0, 254_usize), (50.0, 132)] {
            let (sorted, _) = frequencies(Distribution::Normal(percent, None), 51_200);
            assert!(sorted[0].abs_diff(fio) < fio / 6, "{percent}: {} {fio}", sorted[0]);
        }
    }

    #[test]
    fn a_middle_places_the_most_likely_block() {
        for distribution in [Distribution::Zipf(1.2, Some(0.25)), Distribution::Pareto(0.2, Some(0.25))] {
            let (sorted, by_block) = frequencies(distribution, 10_000);
            assert_eq!(by_block[256], sorted[0]);
        }
    }

    #[test]
    fn zones_get_their_share_of_accesses() {
        let zones = [(60, 10), (30, 20), (8, 30), (2, 40)]
            .map(|(accesses, percent)| Zone { accesses, len: Bytes::new((4 << 20) / 100 * percent) });
        let (_, by_block) = frequencies(Distribution::Zoned([zones.to_vec(), zones.to_vec()]), 50_000);
        let share = |from: usize, to: usize| by_block[from..to].iter().sum::<usize>() as f64 / 50_000.0;
        for ((from, to), expected) in
            [((0, 102), 0.6), ((102, 307), 0.3), ((307, 614), 0.08), ((614, 1024), 0.02)]
        {
            assert!((share(from, to) - expected).abs() < 0.012, "{from}: {}", share(from, to));
        }
    }

    proptest! {
        #[test]
        fn a_permutation_meets_each_number_once(bound in 1_u64..3000, seed in any::<u64>()) {
            let permutation = Permutation::new(bound, &mut Seed(seed).stream("x"));
            let mut met: Vec<u64> = (0..bound).map(|index| permutation.at(index)).collect();
            met.sort_unstable();
            prop_assert_eq!(met, (0..bound).collect::<Vec<_>>());
        }

        #[test]
        fn requests_stay_within_the_span(
            len in 1_u64..2_000_000, start in 0_u64..1_000_000, sizes in (1_u64..9000, 1_u64..9000),
            hole in 0_u64..5000, kind in 0_u8..4, reads in 0_u8..=100, endless in any::<bool>(), seed in any::<u64>(),
        ) {
            let (short, long) = (sizes.0.min(sizes.1), sizes.0.max(sizes.1));
            let random = |distribution, coverage, share| Access::Random {
                distribution, coverage, share, run: RunOf::Following(3), align: [None; 2],
            };
            let access = match kind {
                0 => Access::Sequential { hole: Bytes::new(hole) },
                1 => random(Distribution::Uniform, Coverage::EachOnce, [100; 2]),
                2 => random(Distribution::Zipf(1.1, None), Coverage::AsDrawn, [60; 2]),
                _ => random(Distribution::Normal(20.0, Some(0.9)), Coverage::AsDrawn, [100, 30]),
            };
            let span = Span { start: Bytes::new(start), len: Bytes::new(len), target: Bytes::new(start + len) };
            let spec = PatternSpec {
                mix: Mix::Both(reads), span, access, endless,
                sizes: [
                    BlockSizes::Fixed(Bytes::new(short)),
                    BlockSizes::Range(Bytes::new(short), Bytes::new(long)),
                ],
            };
            let mut rng = Seed(seed).stream("x");
            let mut pattern = Pattern::new(spec, &mut rng);
            for _ in 0..300 {
                let Some(ask) = pattern.next(&mut rng) else { break };
                prop_assert!(ask.len.get() > 0);
                prop_assert!(ask.offset.get() >= start && ask.offset.get() + ask.len.get() <= start + len);
            }
        }
    }
}
