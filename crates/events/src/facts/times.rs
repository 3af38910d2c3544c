//! Many times, as a sum and a distribution of bounded size.

use domain::Nanos;
use domain::request::Took;

/// Each power of two has so many buckets: a quantile is wrong by at most an eighth.
const PARTS: usize = 8;

/// Buckets for all of 64 bits.
const BUCKETS: usize = 64 * PARTS;

/// How long things took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    count: u64,
    sum: u64,
    max: u64,
    buckets: Vec<u32>,
}

impl Times {
    /// Takes one up.
    pub fn add(&mut self, ns: u64) {
        if self.buckets.is_empty() {
            self.buckets.resize(BUCKETS, 0);
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(ns);
        self.max = self.max.max(ns);
        let bucket = &mut self.buckets[bucket(ns)];
        *bucket = bucket.saturating_add(1);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All together.
    pub fn sum(&self) -> Nanos {
        Nanos::new(self.sum)
    }

    /// The mean; `None` of none.
    pub fn mean(&self) -> Option<Nanos> {
        self.sum.checked_div(self.count).map(Nanos::new)
    }

    /// As sums alone.
    pub fn took(&self) -> Took {
        Took { count: self.count, sum: self.sum(), max: Nanos::new(self.max) }
    }

    /// The longest; `None` of none.
    pub fn max(&self) -> Option<Nanos> {
        (self.count > 0).then_some(Nanos::new(self.max))
    }

    /// The upper end of the bucket that the quantile is in, by nearest rank; `None` of none.
    pub fn quantile(&self, share: f64) -> Option<Nanos> {
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                return Some(Nanos::new(upper_end(index).min(self.max)));
            }
        }
        None
    }
}

/// The highest bit and the three below it.
fn bucket(ns: u64) -> usize {
    if ns < PARTS as u64 {
        return ns as usize;
    }
    let bit = 63 - ns.leading_zeros() as usize;
    let part = (ns >> (bit - 3)) as usize & (PARTS - 1);
    (bit - 2) * PARTS + part
}

fn upper_end(bucket: usize) -> u64 {
    if bucket < PARTS {
        return bucket as u64;
    }
    let (bit, part) = (bucket / PARTS + 2, (bucket % PARTS) as u64);
    let width = 1_u64 << (bit - 3);
    (1_u64 << bit).saturating_add(part * width).saturating_add(width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn of_none_nothing_is_known() {
        let none = Times::default();
        assert_eq!((none.mean(), none.max(), none.quantile(0.5)), (None, None, None));
    }

    #[test]
    fn quantiles_are_by_nearest_rank_within_an_eighth() {
        let mut times = Times::default();
        (1..=1000).for_each(|ns| times.add(ns));
        assert_eq!((times.count(), times.sum().get(), times.max()), (1000, 500_500, Some(Nanos::new(1000))));
        for (share, exact) in [(0.5, 500), (0.99, 990), (1.0, 1000)] {
            let found = times.quantile(share).unwrap().get();
            assert!(found >= exact && found <= exact + exact / 8, "{share}: {found}");
        }
    }

    proptest! {
        #[test]
        fn each_time_is_in_a_bucket_that_ends_behind_it(ns: u64) {
            let end = upper_end(bucket(ns));
            prop_assert!(end >= ns && end - ns <= ns / 8 + 1, "{ns}: {end}");
        }
    }
}
