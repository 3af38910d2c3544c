//! Noise as repeated benchmarks show it: multiplicative, around 1.

use domain::rng::Rng;

/// A shape of noise.
#[allow(dead_code, reason = "each test program uses some of them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// Logarithms are normal, deviation 5%.
    Lognormal,
    /// A fastest time and a long tail: throughput 1 / (1 + 10% of an exponential).
    Tail,
    /// Three in ten trials run in a slower mode, 20% below.
    Bimodal,
    /// One trial in ten is hit by something else, by 20% of an exponential.
    Outliers,
    /// Normal, but in steps of 1%, so that values tie.
    Coarse,
}

impl Noise {
    /// One trial's factor.
    pub fn draw(self, rng: &mut Rng) -> f64 {
        let exponential = |rng: &mut Rng| -(1.0 - rng.unit()).ln();
        match self {
            Self::Lognormal => (0.05 * rng.normal()).exp(),
            Self::Tail => 1.0 / (1.0 + 0.1 * exponential(rng)),
            Self::Bimodal => {
                let slow = if rng.unit() < 0.3 { -0.2 } else { 0.0 };
                (slow + 0.02 * rng.normal()).exp()
            }
            Self::Outliers => {
                let hit = if rng.unit() < 0.1 { -0.2 * exponential(rng) } else { 0.0 };
                (hit + 0.02 * rng.normal()).exp()
            }
            Self::Coarse => 1.0 + (5.0 * rng.normal()).round().clamp(-50.0, 50.0) / 100.0,
        }
    }
}
