//! The A/A floor: how far identical trials of this machine lie apart by chance.
//!
//! Each cell's trials are split into two random halves, again and again; the ratio of the halves' medians
//! would be 1 on a machine without noise. The floor is the 95th percentile of its distance from 1. A/A tests
//! are described by Kohavi, Tang and Xu, "Trustworthy Online Controlled Experiments", ch. 19. Halves hold
//! half of the trials, so the floor is larger than the noise of a comparison of whole cells, by up to √2: it
//! is on the safe side.

use super::quantile::{median, quantile};
use domain::rng::Seed;

/// Splits for each cell: the 95th percentile is then known to about one percent of itself.
const SPLITS: usize = 400;

/// A half needs two trials, or its median is a single trial's value.
const FEWEST: usize = 4;

/// Which percentile.
const PERCENTILE: f64 = 0.95;

/// The floor over several cells, as a share: 0.03 means that halves of identical trials differ by up to 3%.
/// Cells with fewer than four trials, or with a value that is not positive, are left out; `None` where none
/// is left.
pub fn aa_floor<'a>(cells: impl IntoIterator<Item = &'a [f64]>, seed: Seed) -> Option<f64> {
    let mut rng = seed.stream("a/a floor");
    let mut distances = Vec::new();
    for cell in cells {
        if cell.len() < FEWEST || cell.iter().any(|v| *v <= 0.0) {
            continue;
        }
        let mut values = cell.to_vec();
        for _ in 0..SPLITS {
            rng.shuffle(&mut values);
            let (a, b) = values.split_at(values.len() / 2);
            let (a, b) = (median(a)?, median(b)?);
            distances.push((a / b).max(b / a) - 1.0);
        }
    }
    quantile(&distances, PERCENTILE).filter(|floor| floor.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_trials_have_a_floor_of_zero() {
        assert_eq!(aa_floor([&[3.0; 6][..]], Seed(1)), Some(0.0));
    }

    #[test]
    fn too_few_trials_have_no_floor() {
        assert_eq!(aa_floor([&[][..], &[1.0], &[1.0, 2.0, 3.0], &[1.0, 0.0, 1.0, 1.0]], Seed(1)), None);
    }

    #[test]
    fn the_floor_of_four_trials_is_the_largest_of_their_three_splits() {
        // Medians of pairs: {1, 2} against {3, 4} is the farthest split, and every third one.
        let floor = aa_floor([&[1.0, 2.0, 3.0, 4.0][..]], Seed(1)).unwrap();
        assert!((floor - (3.5 / 1.5 - 1.0)).abs() < 1e-12, "{floor}");
    }

    #[test]
    fn the_floor_of_normal_noise_is_that_of_the_normal_law() {
        // The median of 100 has the deviation 1.253 σ / √100; the difference of two √2 of it; 1.96 of those.
        let mut rng = Seed(5).stream("test");
        let cells: Vec<Vec<f64>> =
            (0..40).map(|_| (0..200).map(|_| 1.0 + 0.01 * rng.normal()).collect()).collect();
        let floor = aa_floor(cells.iter().map(Vec::as_slice), Seed(1)).unwrap();
        assert!((floor / 0.00347 - 1.0).abs() < 0.1, "{floor}");
    }
}
