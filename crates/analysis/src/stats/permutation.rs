//! The permutation test: how often chance alone, in labelling the trials, would separate two groups this far.
//!
//! The statistic is the sum of ranks, so that one outlier weighs no more than its rank: for two groups the
//! test of Wilcoxon, Mann and Whitney, for pairs that of Wilcoxon's signed ranks. Its whole distribution over
//! all permutations is counted exactly, ties included, by dynamic programming (Streitberg and Röhmel, "Exact
//! distributions for permutation and rank tests", Statistical Software Newsletter 12(1), 1986); nothing is
//! sampled, so there is no seed. Only above [`MAX_EXACT`] values the normal approximation stands in, whose
//! error is then below 0.001.
//!
//! Assumption: under "no difference" every labelling is equally likely, which random order within blocks
//! gives. Labels drawn freely over blocks that drift make the test claim less, never more.

use super::normal_below;

/// Above this many values the normal approximation is used: counting would take tens of milliseconds.
pub const MAX_EXACT: usize = 100;

/// The two-sided p-value of two independent groups; `None` where one is empty.
pub fn two_groups(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let ranks = doubled_ranks(&all);
    let observed: usize = ranks[a.len()..].iter().sum();
    if all.len() <= MAX_EXACT {
        return Some(two_sided(&subset_sums(&ranks, b.len()), observed));
    }
    let (n, m) = (a.len() as f64, b.len() as f64);
    let mean = m * (n + m + 1.0);
    let squares: f64 = ranks.iter().map(|r| (*r as f64 - (n + m + 1.0)).powi(2)).sum();
    let variance = n * m / ((n + m) * (n + m - 1.0)) * squares;
    Some(two_sided_normal(observed as f64 - mean, variance))
}

/// The two-sided p-value of differences within pairs: each sign is as likely as the other. Differences of
/// zero are kept and share the lowest ranks (Pratt, JASA 54, 1959). `None` without pairs.
pub fn pairs(differences: &[f64]) -> Option<f64> {
    if differences.is_empty() {
        return None;
    }
    let sizes: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
    let ranked = doubled_ranks(&sizes).into_iter().zip(differences).filter(|(_, d)| **d != 0.0);
    let (ranks, signs): (Vec<usize>, Vec<bool>) = ranked.map(|(rank, d)| (rank, *d > 0.0)).unzip();
    let observed: usize = ranks.iter().zip(&signs).filter(|(_, up)| **up).map(|(rank, _)| rank).sum();
    if ranks.len() <= MAX_EXACT {
        return Some(two_sided(&signed_sums(&ranks), observed));
    }
    let total: f64 = ranks.iter().map(|r| *r as f64).sum();
    let variance: f64 = ranks.iter().map(|r| (*r as f64).powi(2) / 4.0).sum();
    Some(two_sided_normal(observed as f64 - total / 2.0, variance))
}

/// Twice each value's rank, so that the mean rank of ties is whole.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|i, j| values[*i].total_cmp(&values[*j]));
    let mut ranks = vec![0; values.len()];
    let mut start = 0;
    for tie in order.chunk_by(|i, j| values[*i] == values[*j]) {
        for index in tie {
            ranks[*index] = 2 * start + tie.len() + 1;
        }
        start += tie.len();
    }
    ranks
}

/// How probable each sum is when `take` of the scores are drawn, all subsets equally likely.
pub(crate) fn subset_sums(scores: &[usize], take: usize) -> Vec<f64> {
    let most: usize = scores.iter().sum();
    // ways[k][s]: subsets of k scores, among those seen so far, with sum s.
    let mut ways = vec![vec![0.0; most + 1]; take + 1];
    ways[0][0] = 1.0;
    let mut seen_sum = 0;
    for (seen, score) in scores.iter().enumerate() {
        for k in (0..take.min(seen + 1)).rev() {
            let (fewer, more) = ways.split_at_mut(k + 1);
            for (to, from) in more[0][*score..].iter_mut().zip(&fewer[k][..=seen_sum]) {
                *to += from;
            }
        }
        seen_sum += score;
    }
    normalised(ways.pop().expect("take + 1 rows were made"))
}

/// How probable each sum is when every score counts or not by the toss of a coin.
pub(crate) fn signed_sums(scores: &[usize]) -> Vec<f64> {
    let most: usize = scores.iter().sum();
    let mut ways = vec![0.0; most + 1];
    ways[0] = 1.0;
    for score in scores {
        for sum in (*score..=most).rev() {
            ways[sum] += ways[sum - score];
        }
    }
    normalised(ways)
}

fn normalised(mut ways: Vec<f64>) -> Vec<f64> {
    let total: f64 = ways.iter().sum();
    ways.iter_mut().for_each(|w| *w /= total);
    ways
}

/// The probability of a sum at least as far from the mean as the observed one.
fn two_sided(probabilities: &[f64], observed: usize) -> f64 {
    let mean: f64 = probabilities.iter().enumerate().map(|(sum, p)| sum as f64 * p).sum();
    // Sums are whole and means are sums of products: a hair's breadth keeps equal distances equal.
    let distance = (observed as f64 - mean).abs() - 1e-6;
    let far = probabilities.iter().enumerate().filter(|(sum, _)| (*sum as f64 - mean).abs() >= distance);
    far.map(|(_, p)| p).sum::<f64>().min(1.0)
}

/// The same by the normal approximation. Doubled ranks move in steps of two, so half a step is one.
fn two_sided_normal(distance: f64, variance: f64) -> f64 {
    if variance <= 0.0 {
        return 1.0;
    }
    (2.0 * normal_below(-(distance.abs() - 1.0).max(0.0) / variance.sqrt())).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hollander and Wolfe, "Nonparametric Statistical Methods", 2nd ed., table 4.1: permeability of the
    /// human chorioamnion.
    const AT_TERM: [f64; 10] = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
    const EARLIER: [f64; 5] = [1.15, 0.88, 0.90, 0.74, 1.21];

    #[test]
    fn two_groups_give_the_p_value_of_hollander_and_wolfes_example() {
        // R's wilcox.test gives 0.1272 one-sided.
        let p = two_groups(&AT_TERM, &EARLIER).unwrap();
        assert!((p - 2.0 * 0.1272).abs() < 1e-4, "{p}");
    }

    #[test]
    #[expect(clippy::approx_constant, reason = "3.14 is a patient's score")]
    fn pairs_give_the_p_value_of_hollander_and_wolfes_example() {
        // Table 3.1, Hamilton depression scale; R's wilcox.test gives V = 40, 0.01953 one-sided.
        let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let differences: Vec<f64> = before.iter().zip(after).map(|(x, y)| x - y).collect();
        assert!((pairs(&differences).unwrap() - 2.0 * 0.019_531_25).abs() < 1e-9);
    }

    #[test]
    fn signed_sums_give_fishers_count_for_darwins_maize() {
        // Fisher, "The Design of Experiments", §21: 863 of 32,768 sums are at least 314, in eighths of an
        // inch.
        let differences = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48_i32];
        let sizes: Vec<usize> = differences.iter().map(|d| d.unsigned_abs() as usize).collect();
        let total: usize = sizes.iter().sum();
        let least = (total + 314) / 2;
        let p: f64 = signed_sums(&sizes)[least..].iter().sum();
        assert_eq!((p * 32_768.0).round(), 863.0);
    }

    #[test]
    fn nothing_separates_equal_values() {
        assert_eq!(two_groups(&[1.0; 5], &[1.0; 5]), Some(1.0));
        assert_eq!(pairs(&[0.0; 5]), Some(1.0));
        assert_eq!(two_groups(&[1.0; 200], &[1.0; 200]), Some(1.0));
    }

    #[test]
    fn an_empty_side_has_no_p_value_and_one_value_each_proves_nothing() {
        assert_eq!(two_groups(&[], &[1.0]), None);
        assert_eq!(pairs(&[]), None);
        assert_eq!(two_groups(&[1.0], &[2.0]), Some(1.0));
        assert_eq!(pairs(&[1.0]), Some(1.0));
    }

    #[test]
    fn the_approximation_for_many_values_meets_the_count_for_few() {
        let group = |n: usize, shift: f64| (0..n).map(|i| (i * 37 % n) as f64 + shift).collect::<Vec<_>>();
        let exact = two_groups(&group(50, 0.0), &group(50, 8.3)).unwrap();
        let (a, b) = (group(50, 0.0), group(50, 8.3));
        let ranks = doubled_ranks(&a.iter().chain(&b).copied().collect::<Vec<_>>());
        let observed: usize = ranks[50..].iter().sum();
        let variance = 4.0 * 50.0 * 50.0 * 101.0 / 12.0;
        let approximate = two_sided_normal(observed as f64 - 50.0 * 101.0, variance);
        assert!((exact - approximate).abs() < 0.001, "{exact} {approximate}");
    }
}
