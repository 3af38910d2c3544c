//! Closed-loop load on one modelled disk, in virtual time: the model's own prediction of what a benchmark
//! will report.
//!
//! So many requests are kept in flight as the depth says; the next is submitted in the moment in which one is
//! done. Not a goal: the time that a host takes for its part of each request.

use crate::{Completed, DiskSet, DiskSpec, LinkSpec, Op, Refused, Request};
use domain::rng::{Rng, Seed};
use domain::time::Nanos;
use domain::units::{Bytes, Ratio};

/// Which blocks are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessOrder {
    /// One after the other from the beginning of the range, and again from there.
    Sequential,
    /// Uniform over the range's blocks.
    Random,
}

/// A closed-loop load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pattern {
    /// Which blocks.
    pub order: AccessOrder,
    /// The share of requests that read; the others write.
    pub reads: Ratio,
    /// The size of each request.
    pub block: Bytes,
    /// Requests in flight.
    pub depth: u32,
    /// Where on the disk.
    pub offset: Bytes,
    /// How much of it; at least a block.
    pub range: Bytes,
    /// Time before anything is counted.
    pub warm_up: Nanos,
    /// Time that is counted.
    pub duration: Nanos,
}

/// What a load on a disk will see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Requests that were done in the counted time.
    pub requests: u64,
    /// Requests a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Mean time of a request.
    pub mean: Nanos,
    /// Half of the requests took no longer; within 1.6%, as all quantiles here.
    pub median: Nanos,
    /// 99% took no longer.
    pub p99: Nanos,
    /// The longest.
    pub longest: Nanos,
}

/// Predicts what a load on this disk alone will see; `link` is one that no other disk uses.
///
/// # Errors
/// Where the pattern asks for blocks that the disk does not have.
pub fn predict(
    disk: &DiskSpec,
    link: Option<&LinkSpec>,
    pattern: &Pattern,
    seed: Seed,
) -> Result<Prediction, Refused> {
    let mut bank = DiskSet::new(seed);
    let link = link.map(|link| bank.add_link(link));
    let disk = bank.add_disk(disk, link);
    drive(&mut bank, disk, pattern, seed)
}

/// Drives a disk of a set with a load, from the set's own beginning; other disks of it stay idle.
///
/// # Errors
/// Where the pattern asks for blocks that the disk does not have.
pub fn drive(bank: &mut DiskSet, disk: usize, pattern: &Pattern, seed: Seed) -> Result<Prediction, Refused> {
    let mut load = Load::new(*pattern, seed);
    let end = pattern.warm_up + pattern.duration;
    let mut seen = Seen::new();
    let mut done: Vec<Completed> = Vec::new();
    for _ in 0..pattern.depth {
        bank.submit(Nanos::ZERO, disk, load.next())?;
    }
    while let Some(at) = bank.next_event().filter(|at| *at <= end) {
        bank.advance(at, &mut done);
        for completed in done.drain(..) {
            if completed.at > pattern.warm_up {
                seen.add(completed.at - completed.submitted);
            }
            bank.submit(completed.at, disk, load.next())?;
        }
    }
    Ok(seen.predict(pattern))
}

/// How long so many requests of a load take on this disk alone, from the first submission to the last
/// completion: what a benchmark measures that stops after an amount of data. The pattern's times have no
/// meaning here.
///
/// # Errors
/// Where the pattern asks for blocks that the disk does not have.
pub fn time_for(
    disk: &DiskSpec,
    link: Option<&LinkSpec>,
    pattern: &Pattern,
    requests: u64,
    seed: Seed,
) -> Result<Nanos, Refused> {
    let mut bank = DiskSet::new(seed);
    let link = link.map(|link| bank.add_link(link));
    let disk = bank.add_disk(disk, link);
    let mut load = Load::new(*pattern, seed);
    let mut done: Vec<Completed> = Vec::new();
    let mut last = Nanos::ZERO;
    for _ in 0..requests.min(u64::from(pattern.depth)) {
        bank.submit(Nanos::ZERO, disk, load.next())?;
    }
    while bank.in_flight() > 0 {
        let Some(at) = bank.next_event() else { break };
        bank.advance(at, &mut done);
        for completed in done.drain(..) {
            last = completed.at;
            if load.count < requests {
                bank.submit(last, disk, load.next())?;
            }
        }
    }
    Ok(last)
}

/// The requests of a load, one after the other.
struct Load {
    pattern: Pattern,
    rng: Rng,
    blocks: u64,
    count: u64,
}

impl Load {
    fn new(pattern: Pattern, seed: Seed) -> Self {
        let blocks = (pattern.range.get() / pattern.block.get().max(1)).max(1);
        Self { pattern, rng: seed.stream("load"), blocks, count: 0 }
    }

    fn next(&mut self) -> Request {
        let block = match self.pattern.order {
            AccessOrder::Sequential => self.count % self.blocks,
            AccessOrder::Random => self.rng.below(self.blocks as usize) as u64,
        };
        let reads = match self.pattern.reads.get() {
            1.0 => true,
            0.0 => false,
            share => self.rng.unit() < share,
        };
        self.count += 1;
        Request {
            id: self.count,
            op: if reads { Op::Read } else { Op::Write },
            fua: false,
            offset: Bytes::new(self.pattern.offset.get() + block * self.pattern.block.get()),
            len: self.pattern.block,
        }
    }
}

/// Steps of the histogram within a power of two.
const STEPS: u64 = 64;

/// Times, counted in a histogram with steps of 1/64 of a power of two.
struct Seen {
    counts: Vec<u64>,
    requests: u64,
    sum: u128,
    longest: u64,
}

impl Seen {
    fn new() -> Self {
        Self { counts: vec![0; 64 * STEPS as usize], requests: 0, sum: 0, longest: 0 }
    }

    fn add(&mut self, time: Nanos) {
        let time = time.get();
        self.counts[step_of(time)] += 1;
        self.requests += 1;
        self.sum += u128::from(time);
        self.longest = self.longest.max(time);
    }

    fn quantile(&self, share: f64) -> Nanos {
        let wanted = (self.requests as f64 * share).ceil() as u64;
        let mut counted = 0;
        let found = self.counts.iter().position(|count| {
            counted += count;
            counted >= wanted
        });
        Nanos::new(found.map_or(0, value_of).min(self.longest))
    }

    fn predict(&self, pattern: &Pattern) -> Prediction {
        let seconds = pattern.duration.secs();
        let iops = if seconds > 0.0 { self.requests as f64 / seconds } else { 0.0 };
        Prediction {
            requests: self.requests,
            iops,
            bytes_per_second: iops * pattern.block.get() as f64,
            mean: Nanos::new((self.sum / u128::from(self.requests.max(1))) as u64),
            median: self.quantile(0.5),
            p99: self.quantile(0.99),
            longest: Nanos::new(self.longest),
        }
    }
}

fn step_of(time: u64) -> usize {
    if time < STEPS {
        return time as usize;
    }
    let power = u64::from(time.ilog2());
    let step = (time >> (power - u64::from(STEPS.ilog2()))) - STEPS;
    ((power - u64::from(STEPS.ilog2()) + 1) * STEPS + step) as usize
}

/// The largest time that is counted at this step.
fn value_of(step: usize) -> u64 {
    let (band, step) = (step as u64 / STEPS, step as u64 % STEPS);
    if band == 0 {
        return step;
    }
    ((STEPS + step + 1) << (band - 1)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_within_a_64th_of_itself() {
        for time in [0, 1, 63, 64, 65, 127, 128, 1_000, 123_456_789, u64::MAX / 2] {
            let value = value_of(step_of(time));
            assert!(value >= time && value - time <= time / 64, "{time} {value}");
        }
    }

    #[test]
    fn quantiles_of_nothing_and_of_one() {
        assert_eq!(Seen::new().quantile(0.5), Nanos::ZERO);
        let mut seen = Seen::new();
        seen.add(Nanos::from_millis(3));
        assert_eq!(seen.quantile(0.99), Nanos::from_millis(3));
    }
}
