//! Outliers by the modified z-score of Iglewicz and Hoaglin, "How to Detect and Handle Outliers", ASQC, 1993:
//! the distance from the median in units of the scaled median absolute deviation.
//!
//! They are named, never dropped: a slow trial is a fact about the machine.

use super::quantile::{mad, median};

/// Iglewicz and Hoaglin's own bound.
pub const BOUND: f64 = 3.5;

/// Scales the median absolute deviation to the standard deviation of normal noise.
const NORMAL_QUARTILE: f64 = 0.6745;

/// With fewer values than this nothing is an outlier: the deviation itself is hardly known.
pub const FEWEST: usize = 5;

/// The indices of the outliers, in order. Where more than half of the values are equal, nothing is one: the
/// median absolute deviation, zero, measures nothing then.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let (Some(centre), Some(mad)) = (median(values), mad(values)) else { return Vec::new() };
    if values.len() < FEWEST || mad == 0.0 {
        return Vec::new();
    }
    let far = |v: &f64| NORMAL_QUARTILE * (v - centre).abs() / mad > BOUND;
    values.iter().enumerate().filter(|(_, v)| far(v)).map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_wild_values_of_ten_are_found_though_they_inflate_the_standard_deviation() {
        // Iglewicz and Hoaglin's own example, where plain z-scores (at most 1.9) find nothing.
        assert_eq!(outliers(&[2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3]), [8, 9]);
    }

    #[test]
    fn too_few_or_equal_values_have_no_outliers() {
        for values in [&[][..], &[1.0], &[1.0, 1.1, 1.0, 99.0], &[5.0; 9]] {
            assert!(outliers(values).is_empty(), "{values:?}");
        }
    }
}
