//! One seed a run decides everything that is random in it.
//!
//! The generator is written out here, not taken from a library, so that a seed gives the same order and the
//! same bytes for ever: xoshiro256** seeded by splitmix64 (Blackman and Vigna, "Scrambled linear
//! pseudorandom number generators", ACM TOMS 47(4), 2021).

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a run's randomness grows from; printed first and stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Seed {
    /// A generator for one purpose. Different purposes of one seed are independent streams.
    pub fn stream(self, purpose: &str) -> Rng {
        // FNV-1a over the purpose separates the streams.
        let tag = purpose
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        let mut state = self.0 ^ tag;
        Rng([(); 4].map(|()| splitmix64(&mut state)))
    }
}

/// A deterministic generator.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// 64 uniform bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `0..bound`, without modulo bias (Lemire 2019).
    ///
    /// # Panics
    /// Where `bound` is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "a number below zero was asked for");
        let bound = bound as u64;
        loop {
            let wide = u128::from(self.bits()) * u128::from(bound);
            if (wide as u64) >= bound.wrapping_neg() % bound {
                return (wide >> 64) as usize;
            }
        }
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Fisher and Yates's shuffle: every order equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_gives_the_published_sequence() {
        // Reference values of the generator for state 1234567 (Vigna's splitmix64.c).
        let mut state = 1_234_567;
        let got = [(); 3].map(|()| splitmix64(&mut state));
        assert_eq!(got, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn one_seed_gives_one_order_for_ever() {
        let mut order: Vec<u8> = (0..8).collect();
        Seed(7).stream("order").shuffle(&mut order);
        let mut again: Vec<u8> = (0..8).collect();
        Seed(7).stream("order").shuffle(&mut again);
        assert_eq!(order, again);
        let mut other: Vec<u8> = (0..8).collect();
        Seed(7).stream("bootstrap").shuffle(&mut other);
        assert_ne!(order, other);
    }

    #[test]
    fn every_order_of_three_is_about_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        let mut rng = Seed(1).stream("test");
        for _ in 0..6_000 {
            let mut items = [0, 1, 2];
            rng.shuffle(&mut items);
            *counts.entry(items).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|n| (900..1100).contains(n)), "{counts:?}");
    }
}
