//! Estimators of benchmark statistics: one file each, with its assumption, its reference and a worked
//! example.
//!
//! Chosen for what repeated benchmarks look like: few values (5 to 15), noise that is skewed, has outliers or
//! two modes, and is multiplicative, so that everything here rests on ranks, order statistics and ratios, and
//! nothing on a normal distribution. Values are finite; a caller drops what is not.

pub mod attribution;
pub mod bootstrap;
pub mod change_points;
pub mod drift;
pub mod floor;
pub mod halving;
pub mod interval;
pub mod median_interval;
pub mod multiplicity;
pub mod outlier;
pub mod permutation;
pub mod quantile;
pub mod ratio;
pub mod sequential;

/// The standard normal distribution function, by the complementary error function.
pub(crate) fn normal_below(z: f64) -> f64 {
    libm::erfc(-z / std::f64::consts::SQRT_2) / 2.0
}
