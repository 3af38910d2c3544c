//! An interval of the median from order statistics: no assumption but independent trials of one distribution.
//!
//! The number of values below the true median is binomial(n, 1/2), so the j-th and the (n+1-j)-th value
//! enclose it with a known probability. David and Nagaraja, "Order Statistics", 3rd ed., §7.1; Le Boudec,
//! "Performance Evaluation of Computer and Communication Systems", §2.2 and its table A.1; for repeated
//! benchmarks: Maricq et al., "Taming performance variability", OSDI 2018 (CONFIRM).

use super::interval::Interval;
use super::quantile::{median, sorted};

/// The narrowest symmetric interval of order statistics whose probability is at least `confidence`. `None`
/// where even smallest and largest enclose the median less surely than that: below 6 values for 0.95.
pub fn median_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    let (low, high) = ranks(values.len(), confidence)?;
    let sorted = sorted(values);
    Some(Interval { low: sorted[low - 1], high: sorted[high - 1], confidence })
}

/// The ranks, from 1, of the two order statistics.
fn ranks(n: usize, confidence: f64) -> Option<(usize, usize)> {
    let tail = (1.0 - confidence) / 2.0;
    let mut below = 0.0;
    let mut ln_probability = -(n as f64) * std::f64::consts::LN_2;
    let mut rank = 0;
    while 2 * rank < n {
        below += ln_probability.exp();
        // The tolerance keeps a confidence such as 1 - 2 / 2^n, computed elsewhere, from missing its own
        // rank.
        if below > tail * (1.0 + 1e-9) {
            break;
        }
        ln_probability += ((n - rank) as f64 / (rank + 1) as f64).ln();
        rank += 1;
    }
    (rank > 0).then(|| (rank, n + 1 - rank))
}

/// Half the interval's width as a share of the median: the `precision` that a study asks for. `None` where
/// there is no interval or the median is zero.
pub fn half_width(values: &[f64], confidence: f64) -> Option<f64> {
    let interval = median_interval(values, confidence)?;
    let median = median(values)?;
    (median != 0.0).then(|| (interval.high - interval.low) / 2.0 / median.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_le_boudecs_table() {
        // Table A.1 for confidence 0.95, the sizes for which its interval is symmetric.
        let table = [
            (6, 1, 6),
            (8, 1, 8),
            (9, 2, 8),
            (10, 2, 9),
            (12, 3, 10),
            (15, 4, 12),
            (20, 6, 15),
            (30, 10, 21),
        ];
        for (n, low, high) in table {
            assert_eq!(ranks(n, 0.95), Some((low, high)), "n = {n}");
        }
    }

    #[test]
    fn too_few_values_have_no_interval() {
        for n in 0..6 {
            assert_eq!(median_interval(&vec![1.0; n], 0.95), None, "n = {n}");
        }
        assert_eq!(half_width(&[0.0; 6], 0.95), None);
    }

    #[test]
    fn equal_values_have_an_interval_without_width() {
        assert_eq!(
            median_interval(&[4.0; 6], 0.95),
            Some(Interval { low: 4.0, high: 4.0, confidence: 0.95 })
        );
        assert_eq!(half_width(&[4.0; 6], 0.95), Some(0.0));
    }

    #[test]
    fn a_million_values_do_not_underflow() {
        // The normal approximation: n/2 ± 0.98 √n.
        let (low, high) = ranks(1_000_000, 0.95).unwrap();
        assert!((low as i64 - 499_020).abs() <= 2 && (high as i64 - 500_981).abs() <= 2, "{low} {high}");
    }
}
