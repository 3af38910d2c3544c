//! Many comparisons in one study: keeping the share of false claims among all claims.
//!
//! Benjamini and Hochberg, "Controlling the false discovery rate", JRSS B 57(1), 1995. Valid for comparisons
//! that are independent or positively dependent, as those against one common baseline are. Where nothing
//! differs at all, it claims anything with no more than the probability alpha, exactly like Holm's method;
//! and where much differs it does not, like Holm's, demand p-values that five trials a side cannot reach (the
//! smallest possible is 2/252 = 0.008, which with Holm could not support a single one of seven true
//! differences).

/// Each p-value adjusted for being one among all of them, in their order. A claim at `alpha` needs an
/// adjusted value below it.
pub fn adjusted(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|i, j| p_values[*i].total_cmp(&p_values[*j]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut least = 1.0_f64;
    for (rank, index) in order.iter().enumerate().rev() {
        least = least.min(p_values[*index] * p_values.len() as f64 / (rank + 1) as f64);
        adjusted[*index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_of_benjamini_and_hochbergs_fifteen_are_claimed() {
        // Their §4.1, thrombolysis endpoints: at 0.05 their method claims four, Bonferroni's three.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0000,
        ];
        assert_eq!(adjusted(&p).iter().filter(|p| **p < 0.05).count(), 4);
    }

    #[test]
    fn one_comparison_is_not_adjusted_and_none_gives_none() {
        assert_eq!(adjusted(&[0.03]), [0.03]);
        assert!(adjusted(&[]).is_empty());
    }

    #[test]
    fn equal_p_values_stay_as_they_are() {
        assert_eq!(adjusted(&[0.0079; 8]), [0.0079; 8]);
    }
}
