//! A second line of evidence on a ratio: the percentile bootstrap of the ratio of the medians.
//!
//! Trials are drawn from those of each side with replacement, as many as there are, [`RESAMPLES`] times; the
//! interval holds the middle share of the ratios of their medians. For pairs whole blocks are drawn, and the
//! median of their ratios is taken. Efron, "Bootstrap methods: another look at the jackknife", Annals of
//! Statistics 7, 1979; Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, §13.3.
//!
//! Assumption: trials are independent draws of what is measured; unlike [`super::ratio`] it asks nothing of
//! their shape. What it asks instead is more trials: a median can only be redrawn from the few values that
//! there are, so that at 5 to 15 a side the interval is up to three times as wide, and covers 95.5 to 97.5%
//! where it says 95 and both sides have noise of one shape, 92.2 to 96.0% where one is three times as noisy
//! (`benches/deciding/README.md`). No verdict rests on it.
//!
//! The seed comes from the values: the same trials give the same interval, whoever asks.

use super::interval::Interval;
use super::quantile::{quantile, sorted};
use domain::rng::{Rng, Seed};

/// How often trials are drawn: what Efron and Tibshirani (§14.5) ask of a percentile interval.
pub const RESAMPLES: usize = 1_000;

/// The interval of median B / median A for two independent groups; `None` where one is empty or holds a value
/// that is not positive.
pub fn two_groups(a: &[f64], b: &[f64], confidence: f64) -> Option<Interval> {
    let seed = seed_of(a.iter().chain(b));
    let (mut a, mut b) = (Resampled::new(a)?, Resampled::new(b)?);
    interval(seed, confidence, |rng| b.median(rng) / a.median(rng))
}

/// The interval of the median of the pairs' own ratios; `None` without pairs or where one is not positive.
pub fn pairs(ratios: &[f64], confidence: f64) -> Option<Interval> {
    let seed = seed_of(ratios);
    let mut ratios = Resampled::new(ratios)?;
    interval(seed, confidence, |rng| ratios.median(rng))
}

/// FNV-1a over the values: one seed for all would let its luck in the tails stand in every report alike.
fn seed_of<'v>(values: impl IntoIterator<Item = &'v f64>) -> Seed {
    let bytes = values.into_iter().flat_map(|v| v.to_bits().to_le_bytes());
    Seed(bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    }))
}

fn interval(seed: Seed, confidence: f64, mut draw: impl FnMut(&mut Rng) -> f64) -> Option<Interval> {
    let mut rng = seed.stream("bootstrap");
    let drawn: Vec<f64> = (0..RESAMPLES).map(|_| draw(&mut rng)).collect();
    let drawn = sorted(&drawn);
    let tail = (1.0 - confidence) / 2.0;
    let (low, high) = (quantile(&drawn, tail)?, quantile(&drawn, 1.0 - tail)?);
    (low.is_finite() && high.is_finite()).then_some(Interval { low, high, confidence })
}

/// One side: how often each of its values was drawn is all that a median needs to know, so that nothing is
/// sorted but once.
struct Resampled {
    sorted: Vec<f64>,
    times_drawn: Vec<usize>,
}

impl Resampled {
    fn new(values: &[f64]) -> Option<Self> {
        let usable = !values.is_empty() && values.iter().all(|v| *v > 0.0);
        usable.then(|| Self { sorted: sorted(values), times_drawn: vec![0; values.len()] })
    }

    /// The median of as many values as there are, drawn with replacement.
    fn median(&mut self, rng: &mut Rng) -> f64 {
        let n = self.sorted.len();
        self.times_drawn.fill(0);
        for _ in 0..n {
            self.times_drawn[rng.below(n)] += 1;
        }
        f64::midpoint(self.of_rank((n - 1) / 2), self.of_rank(n / 2))
    }

    /// The drawn value of this rank, from zero.
    fn of_rank(&self, rank: usize) -> f64 {
        let mut left = rank;
        for (value, times) in self.sorted.iter().zip(&self.times_drawn) {
            if left < *times {
                return *value;
            }
            left -= times;
        }
        unreachable!("{rank} is below the number of draws")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_those_of_efrons_distribution_of_a_resampled_median() {
        // Efron 1979, §3: of 13 values, the resampled median is the 2nd or 12th with probability 0.0015, the
        // 3rd or 11th with 0.0142, the 4th or 10th with 0.0550. The middle 95% therefore go from the 4th to
        // the 10th.
        let values: Vec<f64> = (1..=13).map(f64::from).collect();
        let of_one = pairs(&values, 0.95).unwrap();
        assert_eq!((of_one.low, of_one.high), (4.0, 10.0));
        let against_one = two_groups(&[1.0], &values, 0.95).unwrap();
        assert_eq!((against_one.low, against_one.high), (4.0, 10.0));
    }

    #[test]
    fn resampled_medians_fall_on_each_value_as_often_as_efron_counted() {
        let values: Vec<f64> = (1..=13).map(f64::from).collect();
        let (mut side, mut rng) = (Resampled::new(&values).unwrap(), Seed(1979).stream("count"));
        let draws = 40_000;
        let mut seen = [0_u32; 14];
        (0..draws).for_each(|_| seen[side.median(&mut rng) as usize] += 1);
        for (rank, probability) in [(4, 0.0550), (5, 0.1242), (6, 0.1936), (7, 0.2230), (10, 0.0550)] {
            let share = f64::from(seen[rank]) / f64::from(draws);
            assert!((share - probability).abs() < 0.007, "{rank}: {share} {probability}");
        }
    }

    #[test]
    fn a_side_without_values_or_with_one_that_is_not_positive_has_none() {
        assert_eq!(two_groups(&[], &[1.0], 0.95), None);
        assert_eq!(two_groups(&[1.0, 0.0], &[1.0], 0.95), None);
        assert_eq!(pairs(&[], 0.95), None);
    }

    #[test]
    fn one_value_and_equal_values_have_an_interval_without_width() {
        let expected = Some(Interval { low: 2.0, high: 2.0, confidence: 0.95 });
        assert_eq!(two_groups(&[3.0], &[6.0], 0.95), expected);
        assert_eq!(two_groups(&[5.0; 6], &[10.0; 6], 0.95), expected);
        assert_eq!(pairs(&[2.0; 4], 0.95), expected);
    }

    #[test]
    fn the_same_trials_give_the_same_interval() {
        let (a, b) = ([3.0, 1.0, 2.0, 5.0], [4.0, 4.5, 6.0, 2.5, 3.0]);
        assert_eq!(two_groups(&a, &b, 0.95), two_groups(&a, &b, 0.95));
    }
}
