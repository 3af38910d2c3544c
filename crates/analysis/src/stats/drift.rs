//! Drift: do all cells become faster or slower from block to block?
//!
//! The seasonal Kendall test of Hirsch, Slack and Smith, "Techniques of trend analysis for monthly water
//! quality data", Water Resources Research 18(1), 1982, with cells in the place of seasons: within each cell
//! later trials are held against earlier ones, and only the signs are added up over cells. The size of the
//! drift is their seasonal slope: the median of all such slopes, here of logarithms. Assumption: cells are
//! independent of each other; ties are not corrected for, which only makes the test claim less.

use super::normal_below;
use super::quantile::median;

/// One trial's place and value.
pub type Placed = (u32, f64);

/// What was found over all cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Last block against first, as a ratio: 0.9 means that values fell by a tenth over the run.
    pub ratio: f64,
    /// The two-sided p-value of "no drift", by the normal approximation with continuity correction.
    pub p: f64,
}

/// The drift over all cells' (block, value) pairs. `None` where no cell has two blocks, or a value is not
/// positive.
pub fn drift(cells: &[Vec<Placed>]) -> Option<Drift> {
    let mut signs = 0_i64;
    let mut variance = 0.0;
    let mut slopes = Vec::new();
    for cell in cells {
        if cell.iter().any(|(_, value)| *value <= 0.0) {
            return None;
        }
        for (i, (block, value)) in cell.iter().enumerate() {
            for (earlier, before) in cell[..i].iter().filter(|(earlier, _)| earlier != block) {
                let slope = (value / before).ln() / (f64::from(*block) - f64::from(*earlier));
                signs += if slope == 0.0 { 0 } else { slope.signum() as i64 };
                slopes.push(slope);
            }
        }
        variance += sign_variance(cell.len());
    }
    let blocks = cells.iter().flatten().map(|(block, _)| *block);
    let span = f64::from(blocks.clone().max()?) - f64::from(blocks.min()?);
    let slope = median(&slopes)?;
    let z = (signs.abs() as f64 - 1.0).max(0.0) / variance.sqrt();
    Some(Drift { ratio: (slope * span).exp(), p: (2.0 * normal_below(-z)).min(1.0) })
}

/// The variance of Kendall's sum of signs of `n` values without ties.
fn sign_variance(n: usize) -> f64 {
    let n = n as f64;
    n * (n - 1.0) * (2.0 * n + 5.0) / 18.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cell_gives_kendalls_test_of_hollander_and_wolfes_example() {
        // Table 8.1, tuna lightness by panel score: K = 16, n = 9, so z = 15 / √92 and p = 0.118 (exact:
        // 0.1194).
        let lightness = [44.4, 45.9, 41.9, 53.3, 44.7, 44.1, 50.7, 45.2, 60.1];
        let panel = [26, 31, 25, 50, 36, 40, 52, 28, 38];
        let mut cell: Vec<Placed> = panel.into_iter().zip(lightness).collect();
        cell.sort_by_key(|(block, _)| *block);
        let got = drift(&[cell]).unwrap();
        assert!((got.p - 0.1178).abs() < 5e-4, "{}", got.p);
    }

    #[test]
    fn a_steady_fall_in_all_cells_is_found_with_its_size() {
        let cell = |start: f64| (0..6).map(|b| (b, start * 0.98_f64.powi(b as i32))).collect::<Vec<_>>();
        let got = drift(&[cell(100.0), cell(3.0)]).unwrap();
        assert!((got.ratio - 0.98_f64.powi(5)).abs() < 1e-12);
        assert!(got.p < 0.001, "{}", got.p);
    }

    #[test]
    fn equal_values_do_not_drift_and_too_few_cannot_be_judged() {
        let level: Vec<Placed> = (0..5).map(|b| (b, 7.0)).collect();
        assert_eq!(drift(&[level]), Some(Drift { ratio: 1.0, p: 1.0 }));
        assert_eq!(drift(&[]), None);
        assert_eq!(drift(&[vec![(0, 1.0)]]), None);
        assert_eq!(drift(&[vec![(0, 1.0), (1, 0.0)]]), None);
    }
}
