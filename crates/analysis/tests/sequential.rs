//! What may be believed of a comparison that ends as soon as it is clear: how often a change that does
//! nothing is kept, how often the interval covers, and how many trials it takes, on simulated noise with
//! fixed seeds.

mod noise;

use analysis::schedule::{Standing, gain, standing};
use analysis::stats::permutation;
use domain::outcome::Better;
use domain::rng::{Rng, Seed};
use noise::Noise;

/// Comparisons for each noise: a rate of 5% is then known to ±0.7%.
const COMPARISONS: usize = 1_000;

/// The kinds of noise of this run: two, chosen by the seed, or all. What is drawn of each has a fixed seed.
fn noises() -> impl Iterator<Item = Noise> {
    let mut all = [Noise::Lognormal, Noise::Tail, Noise::Bimodal, Noise::Outliers, Noise::Coarse];
    let extent = testing::Extent::of(2, all.len() as u64);
    let first = (extent.seed % all.len() as u64) as usize;
    all.rotate_left(first);
    all.into_iter().take(extent.count as usize)
}

/// As `flyball tune` asks for: one in twenty a side.
const CONFIDENCE: f64 = 0.9;
const MAX_BLOCKS: usize = 20;

/// How a comparison ended: whether the change is kept, after how many blocks, and whether the interval ever
/// missed the factor.
struct Ended {
    is_kept: bool,
    blocks: usize,
    missed: bool,
}

/// Looks after each block, and stops where it is clear or cannot become so.
fn compared(noise: Noise, factor: f64, threshold: f64, rng: &mut Rng) -> Ended {
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    let mut missed = false;
    while pairs.len() < MAX_BLOCKS {
        // The machine drifts from block to block, for both alike.
        let block = (0.05 * rng.normal()).exp();
        pairs.push((block * noise.draw(rng), block * factor * noise.draw(rng)));
        let Some(gain) = gain(&pairs, Better::Higher, CONFIDENCE) else { continue };
        missed |= gain.low > factor || gain.high < factor;
        let left = MAX_BLOCKS - pairs.len();
        let standing = standing(&pairs, Better::Higher, CONFIDENCE, threshold, left);
        if standing != Standing::Open {
            return Ended { is_kept: standing == Standing::Gain, blocks: pairs.len(), missed };
        }
    }
    Ended { is_kept: false, blocks: MAX_BLOCKS, missed }
}

fn many(noise: Noise, factor: f64, threshold: f64) -> Vec<Ended> {
    let mut rng: Rng = Seed(2026).stream(&format!("{noise:?} {factor} {threshold}"));
    (0..COMPARISONS).map(|_| compared(noise, factor, threshold, &mut rng)).collect()
}

fn share(all: &[Ended], is_so: impl Fn(&Ended) -> bool) -> f64 {
    all.iter().filter(|one| is_so(one)).count() as f64 / all.len() as f64
}

#[test]
fn a_change_that_does_nothing_is_kept_less_than_once_in_twenty_however_often_one_looks() {
    for noise in noises() {
        let kept = share(&many(noise, 1.0, 0.0), |one| one.is_kept);
        assert!((0.005..=0.055).contains(&kept), "{noise:?}: {kept}");
        let with_threshold = share(&many(noise, 1.0, 0.02), |one| one.is_kept);
        assert!(with_threshold <= kept + 0.005, "{noise:?}: {with_threshold} against {kept}");
    }
}

#[test]
fn a_change_that_harms_is_never_kept() {
    for noise in noises() {
        let kept = share(&many(noise, 0.9, 0.0), |one| one.is_kept);
        assert!(kept < 0.005, "{noise:?}: {kept}");
    }
}

#[test]
fn the_interval_covers_at_every_look() {
    for noise in noises() {
        for factor in [1.0, 1.3] {
            let missed = share(&many(noise, factor, 0.02), |one| one.missed);
            assert!(missed <= 0.105, "{noise:?} {factor}: {missed}");
        }
    }
}

/// Ten trials each, and the rank test at the same error a side.
fn found_by_ten_each(noise: Noise, factor: f64) -> f64 {
    let mut rng: Rng = Seed(7).stream(&format!("{noise:?} {factor}"));
    let mut side = |factor: f64| -> Vec<f64> {
        (0..10).map(|_| (0.05 * rng.normal()).exp() * factor * noise.draw(&mut rng)).collect()
    };
    let mut one = || {
        let (a, b) = (side(1.0), side(factor));
        permutation::two_groups(&a, &b).is_some_and(|p| p < 2.0 * 0.05)
    };
    (0..COMPARISONS).filter(|_| one()).count() as f64 / COMPARISONS as f64
}

#[test]
fn a_gain_of_a_third_takes_little_more_than_half_the_trials_of_ten_each_and_is_found_as_often() {
    for noise in noises() {
        let all = many(noise, 1.33, 0.02);
        let found = share(&all, |one| one.is_kept);
        let trials = all.iter().map(|one| 2 * one.blocks).sum::<usize>() as f64 / all.len() as f64;
        let ten_each = found_by_ten_each(noise, 1.33);
        assert!(found >= ten_each - 0.005 && found > 0.98, "{noise:?}: {found} against {ten_each}");
        assert!(trials <= 13.0, "{noise:?}: {trials} trials");
    }
}
