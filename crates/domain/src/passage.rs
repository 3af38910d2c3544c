//! What block devices that stand on others (md, dm) made of what they were given, as events show: how many
//! bios became how many, and where the time of each went.
//!
//! A bio is what is given to a device, before the block layer merges it with others.

use crate::request::Op;
use crate::time::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// Bios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bios {
    /// How many.
    pub count: u64,
    /// Their sectors of 512 B.
    pub sectors: u64,
}

impl Bios {
    /// One of so many sectors.
    pub const fn one(sectors: u64) -> Self {
        Self { count: 1, sectors }
    }

    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.sectors = self.sectors.saturating_add(other.sectors);
    }
}

/// What a device passed on to one below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// All of it, before the block layer merges it.
    pub bios: Bios,
    /// The requests of the device below that hold any of them; none of a layer without requests. Of bios that
    /// were on their way when events were lost none are known.
    pub requests: u64,
}

impl Passed {
    /// Adds what was passed on at another time, or to another device.
    pub fn add(&mut self, other: Self) {
        self.bios.add(other.bios);
        self.requests = self.requests.saturating_add(other.requests);
    }

    /// Requests; of a layer without requests, bios.
    const fn count(&self) -> u64 {
        if self.requests > 0 { self.requests } else { self.bios.count }
    }
}

/// The bios of one operation that a device was given.
///
/// A bio is followed where its queueing, its end, and bios below of all its sectors were seen from queueing
/// to end, and none of these could have been another's. Its time is `before`, `below`, `between` and `after`,
/// to the nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// All of them.
    pub bios: Bios,
    /// How many of them were followed.
    pub followed: u64,
    /// What these became below.
    pub made: Bios,
    /// Of those followed, from queueing to the first bio below: encryption, a queue of the layer's.
    pub before: Nanos,
    /// Of those followed, while any of their bios below was on its way.
    pub below: Nanos,
    /// Of those followed, from the end of one bio below to the next: parity is computed.
    pub between: Nanos,
    /// Of those followed, from the end of the last bio below to their own: decryption.
    pub after: Nanos,
}

impl Given {
    /// Adds what was given at another time.
    pub fn add(&mut self, other: &Self) {
        self.bios.add(other.bios);
        self.followed = self.followed.saturating_add(other.followed);
        self.made.add(other.made);
        let own = [&mut self.before, &mut self.below, &mut self.between, &mut self.after];
        for (own, other) in own.into_iter().zip(other.times()) {
            *own = own.saturating_add(other);
        }
    }

    /// Before, below, between and after: sums over those followed.
    pub const fn times(&self) -> [Nanos; 4] {
        [self.before, self.below, self.between, self.after]
    }

    /// The mean of each of [`Self::times`]; `None` where none was followed.
    pub fn means(&self) -> Option<[Nanos; 4]> {
        let mean = |sum: Nanos| sum.get().checked_div(self.followed).map(Nanos::new);
        let [before, below, between, after] = self.times();
        Some([mean(before)?, mean(below)?, mean(between)?, mean(after)?])
    }

    /// The share that was followed; `None` of none.
    pub fn share_followed(&self) -> Option<f64> {
        ratio(self.followed, self.bios.count)
    }
}

/// What one device made of what it was given.
///
/// A bio without sectors counts as [`Op::Flush`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// What it was given, by operation.
    pub given: BTreeMap<Op, Given>,
    /// What it passed on, by the device below and the operation, whether or not it is known for whose bio.
    pub passed: BTreeMap<(String, Op), Passed>,
}

/// What moves data: only these are followed and compared.
const TRANSFERS: [Op; 2] = [Op::Read, Op::Write];

impl Passage {
    /// Adds what it did at another time.
    pub fn add(&mut self, other: &Self) {
        for (op, given) in &other.given {
            self.given.entry(*op).or_default().add(given);
        }
        for (to, passed) in &other.passed {
            self.passed.entry(to.clone()).or_default().add(*passed);
        }
    }

    /// What it was given of an operation.
    pub fn given(&self, op: Op) -> Given {
        self.given.get(&op).copied().unwrap_or_default()
    }

    /// What it passed on of an operation, to all devices.
    pub fn passed(&self, op: Op) -> Passed {
        let mut all = Passed::default();
        self.of(op).for_each(|passed| all.add(*passed));
        all
    }

    /// How many requests that were, of layers without requests bios.
    pub fn became(&self, op: Op) -> u64 {
        self.of(op).map(Passed::count).fold(0, u64::saturating_add)
    }

    fn of(&self, op: Op) -> impl Iterator<Item = &Passed> {
        self.passed.iter().filter(move |((_, other), _)| *other == op).map(|(_, passed)| passed)
    }

    /// The devices below that it passed anything to.
    pub fn onto(&self) -> BTreeSet<&str> {
        self.passed.keys().map(|(device, _)| device.as_str()).collect()
    }

    /// How many reads and writes below ([`Self::became`]) one read or write became; `None` where it was given
    /// none.
    pub fn amplification(&self) -> Option<f64> {
        ratio(self.sum(|op| self.became(op)), self.sum(|op| self.given(op).bios.count))
    }

    /// How many bytes below one byte read or written became; `None` where it was given none.
    pub fn amplification_of_bytes(&self) -> Option<f64> {
        let passed = self.sum(|op| self.passed(op).bios.sectors);
        ratio(passed, self.sum(|op| self.given(op).bios.sectors))
    }

    /// The share of the bios below that read or write which are those of a followed one; `None` of none.
    pub fn share_linked(&self) -> Option<f64> {
        let made = self.sum(|op| self.given(op).made.count);
        ratio(made, self.sum(|op| self.passed(op).bios.count))
    }

    fn sum(&self, of: impl Fn(Op) -> u64) -> u64 {
        TRANSFERS.into_iter().map(of).fold(0, u64::saturating_add)
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A RAID5's: each write read two blocks and wrote two, of which data alone is known to be its own.
    fn parity() -> Passage {
        let given = Given {
            bios: Bios { count: 10, sectors: 80 },
            followed: 8,
            made: Bios { count: 16, sectors: 128 },
            before: Nanos::new(80),
            below: Nanos::new(800),
            between: Nanos::new(8),
            after: Nanos::new(16),
        };
        let passed = |count| Passed { bios: Bios { count, sectors: 8 * count }, requests: 0 };
        let to = |device: &str, op| (device.to_owned(), op);
        Passage {
            given: [(Op::Write, given)].into(),
            passed: [
                (to("sda", Op::Read), passed(5)),
                (to("sda", Op::Write), passed(5)),
                (to("sdb", Op::Read), passed(15)),
                (to("sdb", Op::Write), passed(15)),
                (to("sdb", Op::Flush), Passed { bios: Bios { count: 100, sectors: 0 }, requests: 100 }),
            ]
            .into(),
        }
    }

    #[test]
    fn a_write_that_became_two_reads_and_two_writes_is_amplified_by_four() {
        let mut all = parity();
        assert_eq!((all.amplification(), all.amplification_of_bytes()), (Some(4.0), Some(4.0)));
        assert_eq!((all.passed(Op::Read).bios.count, all.onto().len()), (20, 2));
        assert_eq!((all.share_linked(), all.given(Op::Write).share_followed()), (Some(0.4), Some(0.8)));
        assert_eq!(all.given(Op::Write).means(), Some([10, 100, 1, 2].map(Nanos::new)));
        all.add(&parity());
        assert_eq!((all.given(Op::Write).followed, all.passed(Op::Write).bios.count), (16, 40));
        assert_eq!(all.given(Op::Write).means(), parity().given(Op::Write).means());
    }

    #[test]
    fn what_is_merged_below_counts_as_the_requests_that_it_is() {
        let mut all = parity();
        for ((_, op), passed) in &mut all.passed {
            passed.requests = if *op == Op::Write { 3 } else { 0 };
        }
        assert_eq!((all.became(Op::Read), all.became(Op::Write)), (20, 6));
        assert_eq!((all.amplification(), all.amplification_of_bytes()), (Some(2.6), Some(4.0)));
    }

    #[test]
    fn of_nothing_nothing_is_known() {
        let none = Passage::default();
        assert_eq!((none.amplification(), none.share_linked()), (None, None));
        assert_eq!((none.given(Op::Read).means(), none.given(Op::Read).share_followed()), (None, None));
    }
}
