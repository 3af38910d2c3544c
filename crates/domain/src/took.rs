//! How long many things took: a sum and a distribution of bounded size.

use crate::time::Nanos;

/// Each power of two has so many buckets: a quantile is wrong by at most an eighth.
const PARTS: usize = 8;

/// Buckets for all of 64 bits; the times below [`PARTS`] have one each.
const BUCKETS: usize = 62 * PARTS;

/// How long things took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// How many.
    pub count: u64,
    /// All together.
    pub sum: Nanos,
    /// The longest.
    pub max: Nanos,
    /// Each bucket's, or none: nothing was taken up, or an earlier version kept sums alone.
    buckets: Vec<u64>,
}

impl Took {
    /// Sums without a distribution.
    pub const fn sums(count: u64, sum: Nanos, max: Nanos) -> Self {
        Self { count, sum, max, buckets: Vec::new() }
    }

    /// The same with a distribution, as [`Self::buckets`] gives it; `None` where there is no such bucket.
    pub fn with_buckets(mut self, buckets: impl IntoIterator<Item = (u16, u64)>) -> Option<Self> {
        for (bucket, count) in buckets {
            self.buckets.resize(BUCKETS, 0);
            let known = self.buckets.get_mut(usize::from(bucket))?;
            *known = known.saturating_add(count);
        }
        Some(self)
    }

    /// Takes one up.
    pub fn add(&mut self, ns: u64) {
        if self.buckets.is_empty() {
            self.buckets.resize(BUCKETS, 0);
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(Nanos::new(ns));
        self.max = self.max.max(Nanos::new(ns));
        let bucket = &mut self.buckets[usize::from(bucket(ns))];
        *bucket = bucket.saturating_add(1);
    }

    /// Takes up all of others.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), 0);
        for (own, others) in self.buckets.iter_mut().zip(&other.buckets) {
            *own = own.saturating_add(*others);
        }
    }

    /// The same of times that were all so many times as long.
    #[must_use]
    pub fn scaled(&self, by: f64) -> Self {
        let longer = |ns: u64| Nanos::new((ns as f64 * by).round() as u64);
        let mut scaled = Self::sums(self.count, longer(self.sum.get()), longer(self.max.get()));
        for (at, count) in self.buckets() {
            scaled.buckets.resize(BUCKETS, 0);
            // A bucket goes where its middle goes.
            let middle = upper_end(at) - (upper_end(at) - lower_end(at)) / 2;
            let to = &mut scaled.buckets[usize::from(bucket(longer(middle).get()))];
            *to = to.saturating_add(count);
        }
        scaled
    }

    /// The mean; `None` of none.
    pub fn mean(&self) -> Option<Nanos> {
        self.sum.get().checked_div(self.count).map(Nanos::new)
    }

    /// The upper end of the bucket that the quantile is in, by nearest rank; `None` of none, and where not
    /// all of them are in the distribution.
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        let all = self.buckets.iter().fold(0_u64, |all, count| all.saturating_add(*count));
        if all == 0 || all != self.count {
            return None;
        }
        let rank = ((all as f64 * share).ceil() as u64).clamp(1, all);
        let mut seen = 0_u64;
        for (bucket, count) in self.buckets() {
            seen = seen.saturating_add(count);
            if seen >= rank {
                return Some(Nanos::new(upper_end(bucket)).min(self.max));
            }
        }
        None
    }

    /// The buckets that hold any, in order, each with how many.
    pub fn buckets(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        (0..).zip(&self.buckets).filter(|(_, count)| **count > 0).map(|(at, count)| (at, *count))
    }
}

/// The bucket of a time in nanoseconds: its highest bit and the three below that.
pub const fn bucket(ns: u64) -> u16 {
    if ns < PARTS as u64 {
        return ns as u16;
    }
    let bit = ns.ilog2();
    let part = (ns >> (bit - 3)) as u16 & (PARTS as u16 - 1);
    (bit as u16 - 2) * PARTS as u16 + part
}

/// The shortest time of a bucket.
const fn lower_end(bucket: u16) -> u64 {
    if (bucket as usize) < PARTS {
        return bucket as u64;
    }
    let (bit, part) = (bucket as usize / PARTS + 2, bucket as u64 % PARTS as u64);
    (1_u64 << bit) + part * (1_u64 << (bit - 3))
}

/// The longest.
const fn upper_end(bucket: u16) -> u64 {
    if (bucket as usize) < PARTS {
        return bucket as u64;
    }
    lower_end(bucket) + ((1_u64 << (bucket as usize / PARTS - 1)) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: impl IntoIterator<Item = u64>) -> Took {
        let mut took = Took::default();
        times.into_iter().for_each(|ns| took.add(ns));
        took
    }

    #[test]
    fn of_none_nothing_is_known() {
        let none = Took::default();
        assert_eq!((none.mean(), none.quantile(0.5)), (None, None));
    }

    #[test]
    fn quantiles_are_by_nearest_rank_within_an_eighth() {
        let took = of(1..=1000);
        assert_eq!((took.count, took.sum.get(), took.max), (1000, 500_500, Nanos::new(1000)));
        for (share, exact) in [(0.5, 500), (0.99, 990), (1.0, 1000)] {
            let found = took.quantile(share).unwrap().get();
            assert!(found >= exact && found <= exact + exact / 8, "{share}: {found}");
        }
    }

    #[test]
    fn what_lacks_a_part_of_its_distribution_has_no_quantiles() {
        let mut took = of([10, 20]);
        let sums = Took::sums(3, Nanos::new(30), Nanos::new(15));
        assert_eq!((sums.mean(), sums.quantile(0.5)), (Some(Nanos::new(10)), None));
        took.merge(&sums);
        assert_eq!((took.count, took.max, took.quantile(0.5)), (5, Nanos::new(20), None));
        assert_eq!(sums.with_buckets([(BUCKETS as u16, 1)]), None, "there is no such bucket");
    }

    #[test]
    fn those_of_two_recordings_are_those_of_both_and_longer_ones_are_so_much_longer() {
        let (mut some, others) = (of(1..=500), of(501..=1000));
        some.merge(&others);
        assert_eq!(some, of(1..=1000));
        let shorter = of((1..=1000).map(|us| us * 1000)).scaled(0.001);
        let found = shorter.quantile(0.5).unwrap().get();
        assert!((shorter.count, shorter.sum.get()) == (1000, 500_500) && found.abs_diff(500) < 63, "{found}");
    }

    #[test]
    fn each_time_is_in_a_bucket_that_holds_it() {
        let around =
            |bit: u32| [0, 1, 7, 8, 9, 15].map(|more| (1_u64 << bit).saturating_add(more << (bit / 2)));
        for ns in (0..64).flat_map(around).chain(0..200).chain([u64::MAX]) {
            let (begin, end) = (lower_end(bucket(ns)), upper_end(bucket(ns)));
            assert!(begin <= ns && ns <= end && end - begin <= ns / 8, "{ns}: {begin} to {end}");
        }
    }

    #[test]
    fn a_distribution_is_that_of_its_buckets() {
        let took = of([0, 1, 1, 900, 1 << 40, u64::MAX]);
        let again = Took::sums(took.count, took.sum, took.max).with_buckets(took.buckets());
        assert_eq!(again, Some(took));
    }
}
