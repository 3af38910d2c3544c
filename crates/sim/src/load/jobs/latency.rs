//! Latencies, counted in buckets.

/// A histogram of nanoseconds: each power of two is divided into 64 buckets, so that a value is known to
/// 1.6%, as in fio (`FIO_IO_U_PLAT_VAL`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
}

const BITS: u32 = 6;
const PER_POWER: u64 = 1 << BITS;

impl Latencies {
    /// Counts one.
    pub fn add(&mut self, ns: u64) {
        let bucket = bucket(ns);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.sum += u128::from(ns);
    }

    /// How many.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The mean in nanoseconds; `None` of none.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The value below or at which this share lies, in nanoseconds; `None` of none.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut below = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= wanted {
                return Some(middle(bucket));
            }
        }
        None
    }
}

fn bucket(ns: u64) -> usize {
    if ns < PER_POWER {
        return ns as usize;
    }
    let power = u64::BITS - 1 - ns.leading_zeros();
    let shift = power - BITS;
    ((u64::from(shift) + 1) * PER_POWER + (ns >> shift) - PER_POWER) as usize
}

fn middle(bucket: usize) -> f64 {
    let bucket = bucket as u64;
    if bucket < PER_POWER {
        return bucket as f64;
    }
    let shift = bucket / PER_POWER - 1;
    let base = (bucket % PER_POWER + PER_POWER) << shift;
    base as f64 + (1_u64 << shift) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_is_known_to_one_part_in_64(ns in 0_u64..1 << 50) {
            let seen = middle(bucket(ns));
            prop_assert!((seen - ns as f64).abs() <= (ns as f64 / 64.0).max(0.5), "{ns}: {seen}");
        }
    }

    #[test]
    fn of_none_there_is_no_mean_and_of_one_it_is_that() {
        let mut latencies = Latencies::default();
        assert_eq!((latencies.mean(), latencies.quantile(0.5)), (None, None));
        latencies.add(40);
        assert_eq!((latencies.mean(), latencies.quantile(0.99)), (Some(40.0), Some(40.0)));
    }
}
