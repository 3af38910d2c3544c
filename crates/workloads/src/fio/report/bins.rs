//! Latencies counted in bins, as json+ has them.

use domain::order;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::cmp::Ordering;
use std::fmt;

/// The middle of each bin in nanoseconds, ascending, and the number of samples in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bins(Vec<(u64, u64)>);

impl Bins {
    /// From bins in any order. What is there twice is summed.
    pub fn new(mut bins: Vec<(u64, u64)>) -> Self {
        // fio prints them in order.
        if bins.is_sorted_by(|first, second| first.0 < second.0) {
            return Self(bins);
        }
        order::by_key(&mut bins, |(middle_ns, _)| *middle_ns);
        bins.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(later.1);
            }
            same
        });
        Self(bins)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds what others have counted.
    pub(super) fn add(&mut self, other: &Self) {
        let mut sum = Vec::with_capacity(self.0.len().max(other.0.len()));
        let (mut ours, mut theirs) = (self.0.as_slice(), other.0.as_slice());
        while let ([first, rest @ ..], [second, more @ ..]) = (ours, theirs) {
            match first.0.cmp(&second.0) {
                Ordering::Less => {
                    sum.push(*first);
                    ours = rest;
                }
                Ordering::Greater => {
                    sum.push(*second);
                    theirs = more;
                }
                Ordering::Equal => {
                    sum.push((first.0, first.1.saturating_add(second.1)));
                    (ours, theirs) = (rest, more);
                }
            }
        }
        sum.extend_from_slice(ours);
        sum.extend_from_slice(theirs);
        self.0 = sum;
    }

    /// The first bin at which the running sum reaches this share of all samples, by its middle in
    /// nanoseconds.
    pub(super) fn at(&self, share: f64) -> Option<u64> {
        let counts = || self.0.iter().map(|(_, count)| *count);
        let wanted = share * counts().fold(0, u64::saturating_add) as f64;
        let mut sum = 0_u64;
        let reaches = |count| {
            sum = sum.saturating_add(count);
            sum as f64 >= wanted
        };
        counts().position(reaches).map(|index| self.0[index].0)
    }
}

impl<'de> Deserialize<'de> for Bins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Bins;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the bins of a latency")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Bins, A::Error> {
                let mut bins = Vec::new();
                while let Some(bin) = members.next_entry()? {
                    bins.push(bin);
                }
                Ok(Bins::new(bins))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn they_are_what_a_tree_would_have(a in prop::collection::vec((0_u64..50, any::<u64>()), 0..40), b in prop::collection::vec((0_u64..50, 0_u64..9), 0..40)) {
            let mut tree = BTreeMap::<u64, u64>::new();
            for (middle, count) in a.iter().chain(&b) {
                let sum = tree.entry(*middle).or_default();
                *sum = sum.saturating_add(*count);
            }
            let mut bins = Bins::new(a);
            bins.add(&Bins::new(b));
            prop_assert_eq!(bins.0, tree.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_share_is_reached_by_the_first_bin_that_has_it() {
        let bins = Bins::new(vec![(30, 1), (10, 2), (20, 1)]);
        assert_eq!([0.0, 0.5, 0.51, 0.75, 1.0].map(|share| bins.at(share).unwrap()), [10, 10, 20, 20, 30]);
        assert_eq!(Bins::default().at(0.5), None);
    }

    #[test]
    fn they_are_read_from_an_object() {
        let bins: Bins = serde_json::from_str(r#"{"20": 1, "10": 2}"#).unwrap();
        assert_eq!(bins.0, [(10, 2), (20, 1)]);
        assert!(serde_json::from_str::<Bins>(r#"{"x": 1}"#).is_err());
    }
}
