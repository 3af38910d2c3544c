//! Which factor decides: the share of the variance that each factor, and each pair of factors, explains.
//!
//! Analysis of variance over the cells of a workload, every cell weighing the same however many trials it has
//! (the analysis of unweighted means, Yates 1934; Scheffé, "The Analysis of Variance", §10.4): terms are
//! fitted one after another, main effects first, and a term's share is what it adds to the sum of squares
//! explained. With every combination of levels present, the order does not matter and the shares are the
//! classical η²; where combinations are missing, a later term is given only what earlier ones left
//! (sequential sums of squares). The fit is least squares by cyclic projection (backfitting; Buja, Hastie and
//! Tibshirani, Annals of Statistics 17, 1989).
//!
//! η² counts noise in favour of factors with many levels; whether a factor makes any difference at all is for
//! the comparisons to say.

use std::collections::BTreeMap;

/// One cell: its level of each factor, and its values (logarithms, where ratios are meant).
#[derive(Clone, Debug, PartialEq)]
pub struct FactorCell<'a> {
    /// One level for each factor, in one order of factors for all cells.
    pub levels: Vec<&'a str>,
    /// Its trials' values; a cell without any is left out.
    pub values: Vec<f64>,
}

/// What a share belongs to: the factors' indices. One is a main effect, two a pair, none the residual.
pub type Term = Vec<usize>;

/// Projections settle in one round where all combinations are present; where some are missing, each round
/// takes off a constant factor of the error. A bound, for levels that nearly coincide.
const MAX_ROUNDS: usize = 300;

/// The share of each term in the total variance, the residual last: variance within cells and what only three
/// or more factors together explain. They sum to 1. Empty where there is no variance at all or no cell.
pub fn shares(cells: &[FactorCell<'_>]) -> Vec<(Term, f64)> {
    let cells: Vec<&FactorCell<'_>> = cells.iter().filter(|c| !c.values.is_empty()).collect();
    let means: Vec<f64> = cells.iter().map(|c| mean(&c.values)).collect();
    let grand = mean(&means);
    let between: f64 = means.iter().map(|m| (m - grand).powi(2)).sum();
    let within: f64 = cells.iter().zip(&means).map(|(c, m)| mean_square(&c.values, *m)).sum();
    let total = between + within;
    // Differences at the last bits of a double are no variance.
    if cells.is_empty() || total <= means.len() as f64 * (grand.abs() * 1e-12).powi(2) {
        return Vec::new();
    }
    let terms = terms(cells[0].levels.len());
    let groups: Vec<Vec<usize>> = terms.iter().map(|term| grouping(&cells, term)).collect();
    let mut left = between;
    let mut shares = Vec::new();
    for (count, term) in terms.into_iter().enumerate() {
        let unexplained = residual(&means, &groups[..=count]).min(left);
        shares.push((term, (left - unexplained) / total));
        left = unexplained;
    }
    shares.push((Vec::new(), (left + within) / total));
    shares
}

/// All factors, and then all pairs of them.
fn terms(factors: usize) -> Vec<Term> {
    let singles = (0..factors).map(|f| vec![f]);
    let pairs = (0..factors).flat_map(|f| (f + 1..factors).map(move |g| vec![f, g]));
    singles.chain(pairs).collect()
}

/// For each cell the number of its combination of the term's levels.
fn grouping(cells: &[&FactorCell<'_>], term: &[usize]) -> Vec<usize> {
    let mut numbers = BTreeMap::new();
    cells
        .iter()
        .map(|cell| {
            let combination: Vec<&str> = term.iter().map(|factor| cell.levels[*factor]).collect();
            let next = numbers.len();
            *numbers.entry(combination).or_insert(next)
        })
        .collect()
}

/// The sum of squares that is left when the means of every grouping are fitted at once.
fn residual(means: &[f64], groups: &[Vec<usize>]) -> f64 {
    let grand = mean(means);
    let mut rest: Vec<f64> = means.iter().map(|m| m - grand).collect();
    let squares = |rest: &[f64]| rest.iter().map(|r| r * r).sum::<f64>();
    let mut before = squares(&rest);
    for _ in 0..MAX_ROUNDS {
        groups.iter().for_each(|group| take_off_means(&mut rest, group));
        let now = squares(&rest);
        if before - now <= before * 1e-9 {
            return now;
        }
        before = now;
    }
    before
}

fn take_off_means(rest: &mut [f64], group: &[usize]) {
    let count = group.iter().max().map_or(0, |most| most + 1);
    let mut sums = vec![(0.0, 0.0); count];
    for (value, number) in rest.iter().zip(group) {
        sums[*number].0 += value;
        sums[*number].1 += 1.0;
    }
    for (value, number) in rest.iter_mut().zip(group) {
        *value -= sums[*number].0 / sums[*number].1;
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn mean_square(values: &[f64], centre: f64) -> f64 {
    values.iter().map(|v| (v - centre).powi(2)).sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell<'a>(levels: &[&'a str], values: &[f64]) -> FactorCell<'a> {
        FactorCell { levels: levels.to_vec(), values: values.to_vec() }
    }

    #[test]
    fn two_factors_give_the_sums_of_squares_of_the_tooth_growth_table() {
        // Crampton 1947, R's ToothGrowth; aov(len ~ supp * factor(dose)): 205.35, 2426.43, 108.32, residual
        // 712.11.
        let cells = [
            cell(&["VC", "0.5"], &[4.2, 11.5, 7.3, 5.8, 6.4, 10.0, 11.2, 11.2, 5.2, 7.0]),
            cell(&["VC", "1"], &[16.5, 16.5, 15.2, 17.3, 22.5, 17.3, 13.6, 14.5, 18.8, 15.5]),
            cell(&["VC", "2"], &[23.6, 18.5, 33.9, 25.5, 26.4, 32.5, 26.7, 21.5, 23.3, 29.5]),
            cell(&["OJ", "0.5"], &[15.2, 21.5, 17.6, 9.7, 14.5, 10.0, 8.2, 9.4, 16.5, 9.7]),
            cell(&["OJ", "1"], &[19.7, 23.3, 23.6, 26.4, 20.0, 25.2, 25.8, 21.2, 14.5, 27.3]),
            cell(&["OJ", "2"], &[25.5, 26.4, 22.4, 24.5, 24.8, 30.9, 26.4, 27.3, 29.4, 23.0]),
        ];
        let total = 205.35 + 2426.43 + 108.32 + 712.11;
        let expected = [(vec![0], 205.35), (vec![1], 2426.43), (vec![0, 1], 108.32), (vec![], 712.11)];
        for ((term, share), (expected_term, squares)) in shares(&cells).into_iter().zip(expected) {
            assert_eq!(term, expected_term);
            assert!((share - squares / total).abs() < 1e-5, "{term:?}: {share}");
        }
    }

    #[test]
    fn a_missing_combination_leaves_the_shares_summing_to_one() {
        let cells = [
            cell(&["a", "x"], &[1.0, 1.1]),
            cell(&["a", "y"], &[2.0, 2.1]),
            cell(&["b", "x"], &[3.0, 3.2]),
            cell(&["b", "y"], &[]),
        ];
        let shares = shares(&cells);
        assert!((shares.iter().map(|(_, s)| s).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(shares.iter().all(|(_, s)| (0.0..=1.0).contains(s)), "{shares:?}");
    }

    #[test]
    fn a_cell_measured_more_often_weighs_no_more() {
        let few = [cell(&["a"], &[1.0, 1.2]), cell(&["b"], &[2.0, 2.2])];
        let many = [cell(&["a"], &[1.0, 1.2, 1.0, 1.2]), cell(&["b"], &[2.0, 2.2])];
        assert!((shares(&few)[0].1 - shares(&many)[0].1).abs() < 1e-12);
    }

    #[test]
    fn nothing_and_equal_values_have_no_shares() {
        assert!(shares(&[]).is_empty());
        assert!(shares(&[cell(&["a"], &[5.0; 3]), cell(&["b"], &[5.0; 3])]).is_empty());
        assert_eq!(shares(&[cell(&["a"], &[1.0, 2.0])]), [(vec![0], 0.0), (vec![], 1.0)]);
    }
}
