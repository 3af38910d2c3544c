//! Median, quantiles and robust spread.
//!
//! Quantiles are type 7 of Hyndman and Fan, "Sample quantiles in statistical packages", The American
//! Statistician 50(4), 1996: linear interpolation of the order statistics at `(n - 1) p`, the default of R,
//! NumPy and spreadsheets, so that a reader who recomputes a figure finds the same one.

/// The values in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The quantile at `p` in 0..=1; `None` without values.
///
/// # Panics
/// Where `p` is outside 0..=1.
pub fn quantile(values: &[f64], p: f64) -> Option<f64> {
    assert!((0.0..=1.0).contains(&p), "a quantile at {p} was asked for");
    let sorted = sorted(values);
    let last = sorted.len().checked_sub(1)?;
    let position = last as f64 * p;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (position - below as f64) * (sorted[above] - sorted[below]))
}

/// The median; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The interquartile range as a share of the median: a spread that one outlier among five cannot move far.
/// `None` with fewer than two values or where the median is zero, or so near to it that no double holds the
/// share.
pub fn relative_iqr(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let range = quantile(values, 0.75)? - quantile(values, 0.25)?;
    let median = median(values)?;
    Some(range / median.abs()).filter(|share| share.is_finite())
}

/// The sample standard deviation as a share of the mean. `None` with fewer than two values or where the mean
/// is zero, or so near to it that no double holds the share.
pub fn relative_deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (values.len() - 1) as f64).sqrt();
    Some(deviation / mean.abs()).filter(|share| share.is_finite())
}

/// The root of the mean square, which pools the standard deviations of groups of one size; `None` without
/// values.
pub fn root_mean_square(values: &[f64]) -> Option<f64> {
    let squares: f64 = values.iter().map(|value| value * value).sum();
    (!values.is_empty()).then(|| (squares / values.len() as f64).sqrt())
}

/// The median absolute deviation from the median, not scaled; `None` without values.
/// Hampel, "The influence curve and its role in robust estimation", JASA 69, 1974.
pub fn mad(values: &[f64]) -> Option<f64> {
    let centre = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|v| (v - centre).abs()).collect();
    median(&deviations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_that_of_r_and_of_spreadsheets() {
        // R 4: quantile(1:10, 0.25) is 3.25. Microsoft's PERCENTILE.INC: {1,3,2,4} at 0.3 is 1.9.
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(quantile(&ten, 0.25), Some(3.25));
        assert!((quantile(&[1.0, 3.0, 2.0, 4.0], 0.3).unwrap() - 1.9).abs() < 1e-12);
    }

    #[test]
    fn no_value_has_no_median_and_one_is_its_own() {
        assert_eq!((median(&[]), mad(&[]), relative_iqr(&[])), (None, None, None));
        assert_eq!((median(&[7.0]), mad(&[7.0]), relative_iqr(&[7.0])), (Some(7.0), Some(0.0), None));
    }

    #[test]
    fn deviations_are_those_of_samples_and_are_pooled_as_variances() {
        // R 4: sd(c(9, 10, 11)) is 1.
        assert!((relative_deviation(&[9.0, 10.0, 11.0]).unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(relative_deviation(&[1.0]), None);
        assert_eq!(relative_deviation(&[-1.0, 1.0]), None);
        assert!((root_mean_square(&[0.03, 0.04]).unwrap() - 0.035_355).abs() < 1e-6);
        assert_eq!(root_mean_square(&[]), None);
    }

    #[test]
    fn equal_values_have_no_spread() {
        assert_eq!(relative_iqr(&[3.0; 5]), Some(0.0));
        assert_eq!(relative_iqr(&[0.0; 5]), None);
    }

    #[test]
    fn the_median_absolute_deviation_is_that_of_the_textbook_example() {
        // The example of Rousseeuw and Croux's and of most introductions: (1, 1, 2, 2, 4, 6, 9) has 1.
        assert_eq!(mad(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), Some(1.0));
    }
}
