//! What may be believed of a verdict: error rates and coverage, on simulated noise with fixed seeds.
//!
//! The noises are those of published repeated benchmarks in shape: skewed, with outliers, with two modes
//! (Maricq et al., OSDI 2018, find most of their distributions skewed and several bimodal). Each test states
//! what it measured when it fails. `benches/deciding` prints the whole table.

mod noise;

use analysis::compare::{Blocks, Conditions, Group, Yardstick, compare};
use analysis::stats::median_interval::median_interval;
use analysis::stats::{bootstrap, permutation, ratio};
use analysis::summary::{Point, Verdict};
use domain::ids::{CellId, TrialKey};
use domain::outcome::Better;
use domain::rng::{Rng, Seed};
use domain::trial::Provenance;
use domain::units::Unit;
use noise::Noise;

/// Pairs for each noise and size: a rate of 5% is then known to ±0.4%.
const PAIRS: usize = 3_000;

const NOISES: [Noise; 5] = [Noise::Lognormal, Noise::Tail, Noise::Bimodal, Noise::Outliers, Noise::Coarse];

fn points(values: &[f64]) -> Vec<Point> {
    let key = |block| TrialKey { block, cell: CellId::from_stored("c"), attempt: 0 };
    values.iter().zip(0..).map(|(value, block)| Point { key: key(block), value: *value }).collect()
}

fn yardstick(threshold: f64) -> Yardstick<'static> {
    Yardstick {
        metric: "throughput",
        unit: Unit::BytesPerSecond,
        better: Better::Higher,
        confidence: 0.95,
        threshold,
        blocks: Blocks::Shared,
        under: Conditions::quiet(Provenance::Host),
    }
}

/// The share of pairs of which `judge` says yes.
fn share(noise: Noise, n: usize, judge: impl Fn(&[f64], &[f64]) -> bool) -> f64 {
    let mut rng: Rng = Seed(2026).stream(&format!("{noise:?} {n}"));
    let mut draw = || (0..n).map(|_| noise.draw(&mut rng)).collect::<Vec<_>>();
    let hits = (0..PAIRS).filter(|_| judge(&draw(), &draw())).count();
    hits as f64 / PAIRS as f64
}

/// Averages over the noises: the figure that PERFORMANCE.md bounds.
fn over_noises(n: usize, judge: impl Fn(&[f64], &[f64]) -> bool) -> (f64, Vec<(Noise, f64)>) {
    let each: Vec<(Noise, f64)> = NOISES.iter().map(|noise| (*noise, share(*noise, n, &judge))).collect();
    (each.iter().map(|(_, s)| s).sum::<f64>() / each.len() as f64, each)
}

fn claims(a: &[f64], b: &[f64], threshold: f64) -> bool {
    let (a, b) = (points(a), points(b));
    let group = |points| Group { name: "x", points };
    let verdict =
        compare(group(&a), group(&b), &yardstick(threshold)).expect("both sides have trials").verdict;
    matches!(verdict, Verdict::Better | Verdict::Worse)
}

#[test]
fn the_test_claims_a_difference_in_about_one_of_twenty_identical_pairs() {
    for n in [6, 7, 8, 10, 15] {
        let (rate, each) = over_noises(n, |a, b| permutation::two_groups(a, b).is_some_and(|p| p < 0.05));
        assert!((0.037..=0.064).contains(&rate), "n = {n}: {rate} {each:?}");
    }
}

#[test]
fn five_trials_a_side_claim_less_than_they_may_for_ranks_are_whole() {
    // Of 252 labellings, 8 are the most extreme (3.2%), and the next step would be 14 (5.6%).
    let (rate, each) = over_noises(5, |a, b| permutation::two_groups(a, b).is_some_and(|p| p < 0.05));
    assert!((0.026..=0.038).contains(&rate), "{rate} {each:?}");
}

#[test]
fn a_verdict_without_a_threshold_claims_as_often_as_its_test() {
    for n in [6, 8, 10, 15] {
        let (rate, each) = over_noises(n, |a, b| claims(a, b, 0.0));
        assert!((0.034..=0.064).contains(&rate), "n = {n}: {rate} {each:?}");
    }
}

#[test]
fn the_threshold_only_lowers_the_rate_of_claims() {
    for n in [6, 10, 15] {
        let (rate, each) = over_noises(n, |a, b| claims(a, b, 0.02));
        let (without, _) = over_noises(n, |a, b| claims(a, b, 0.0));
        assert!(rate < without && rate < 0.03, "n = {n}: {rate} against {without} {each:?}");
    }
}

#[test]
fn blocks_that_drift_cause_no_false_claims() {
    // Each block is up to some ten percent faster or slower than the next: for both sides alike.
    for n in [7, 8, 10, 15] {
        let mut rng = Seed(7).stream(&format!("drift {n}"));
        let mut pair = || {
            let block: Vec<f64> = (0..n).map(|_| (0.1 * rng.normal()).exp()).collect();
            let mut side = || block.iter().map(|b| b * Noise::Lognormal.draw(&mut rng)).collect::<Vec<_>>();
            (side(), side())
        };
        let hits = (0..PAIRS).map(|_| pair()).filter(|(a, b)| claims(a, b, 0.0)).count();
        let rate = hits as f64 / PAIRS as f64;
        assert!((0.02..=0.064).contains(&rate), "n = {n}: {rate}");
    }
}

#[test]
fn blocks_that_drift_do_not_hide_a_gain_that_each_of_them_shows() {
    let mut rng = Seed(7).stream("hidden gain");
    let mut found = || {
        let block: Vec<f64> = (0..10).map(|_| (0.2 * rng.normal()).exp()).collect();
        let mut side =
            |gain: f64| block.iter().map(|b| b * gain * (0.02 * rng.normal()).exp()).collect::<Vec<_>>();
        let (a, b) = (side(1.0), side(1.1));
        (claims(&a, &b, 0.02), permutation::two_groups(&a, &b).is_some_and(|p| p < 0.05))
    };
    let all: Vec<(bool, bool)> = (0..500).map(|_| found()).collect();
    let ours = all.iter().filter(|(ours, _)| *ours).count();
    let unpaired = all.iter().filter(|(_, unpaired)| *unpaired).count();
    assert!(ours > 480 && unpaired < 150, "of 500: {ours} within blocks, {unpaired} without");
}

#[test]
fn the_ratio_interval_covers_in_94_to_96_percent() {
    for n in [5, 6, 8, 10, 15] {
        for noise in [Noise::Lognormal, Noise::Tail, Noise::Bimodal, Noise::Outliers] {
            let excludes = |a: &[f64], b: &[f64]| {
                let interval = ratio::two_groups(a, b, 0.95).and_then(|e| e.interval).unwrap();
                interval.low > 1.0 || interval.high < 1.0
            };
            let coverage = 1.0 - share(noise, n, excludes);
            // The bound is 94 to 96; a rate over this many pairs is known to ±0.4% only.
            assert!((0.94 - 0.004..=0.96 + 0.004).contains(&coverage), "{noise:?} n = {n}: {coverage}");
        }
    }
}

#[test]
fn the_bootstrap_interval_covers_at_least_what_it_says() {
    for n in [5, 15] {
        for noise in [Noise::Lognormal, Noise::Tail, Noise::Bimodal, Noise::Outliers] {
            let excludes = |a: &[f64], b: &[f64]| {
                let interval = bootstrap::two_groups(a, b, 0.95).unwrap();
                interval.low > 1.0 || interval.high < 1.0
            };
            let coverage = 1.0 - share(noise, n, excludes);
            assert!((0.95 - 0.004..=0.98).contains(&coverage), "{noise:?} n = {n}: {coverage}");
        }
    }
}

#[test]
fn the_median_interval_covers_at_least_what_it_says() {
    for n in [6, 8, 10, 15] {
        let mut rng = Seed(11).stream(&format!("median {n}"));
        // The median of these logarithms is zero.
        let covers =
            |values: &[f64]| median_interval(values, 0.95).is_some_and(|i| i.low <= 1.0 && 1.0 <= i.high);
        let hits = (0..PAIRS)
            .filter(|_| covers(&(0..n).map(|_| Noise::Lognormal.draw(&mut rng)).collect::<Vec<_>>()))
            .count();
        let coverage = hits as f64 / PAIRS as f64;
        assert!((0.945..=0.999).contains(&coverage), "n = {n}: {coverage}");
    }
}

/// Blocks of a machine that others use: load comes in spells, takes up to two thirds from all that runs in a
/// block, and hits single trials besides.
fn under_load(rng: &mut Rng, noise: Noise, n: usize) -> (Vec<Point>, Vec<Point>) {
    let mut level: f64 = 0.0;
    let mut block = || {
        level = 0.7 * level + 0.3 * rng.normal();
        let left = 1.0 / (1.0 + level.exp());
        let mut trial = || left * noise.draw(rng) * (0.05 * rng.normal()).exp();
        (trial(), trial())
    };
    let (a, b): (Vec<f64>, Vec<f64>) = (0..n).map(|_| block()).unzip();
    (points(&a), points(&b))
}

/// Whether a difference is claimed where every trial ran beside other work.
fn claims_under_load(a: &[Point], b: &[Point]) -> bool {
    let keys = a.iter().map(|point| point.key.clone()).collect();
    let under = Conditions { under_load: keys, ..Conditions::quiet(Provenance::Host) };
    let group = |points| Group { name: "x", points };
    let verdict =
        compare(group(a), group(b), &Yardstick { under, ..yardstick(0.0) }).expect("trials").verdict;
    matches!(verdict, Verdict::Better | Verdict::Worse)
}

#[test]
fn under_load_identical_pairs_are_claimed_to_differ_in_about_one_of_twenty() {
    for n in [7, 8, 10, 15] {
        let rate = |noise: Noise| {
            let mut rng = Seed(2026).stream(&format!("load {noise:?} {n}"));
            let pairs = (0..PAIRS).map(|_| under_load(&mut rng, noise, n));
            pairs.filter(|(a, b)| claims_under_load(a, b)).count() as f64 / PAIRS as f64
        };
        let each: Vec<(Noise, f64)> = NOISES.iter().map(|noise| (*noise, rate(*noise))).collect();
        let mean = each.iter().map(|(_, rate)| rate).sum::<f64>() / each.len() as f64;
        assert!((0.037..=0.064).contains(&mean), "n = {n}: {mean} {each:?}");
    }
}

#[test]
fn under_load_a_gain_that_each_block_shows_is_found_and_one_within_the_noise_is_not() {
    let share = |gain: f64| {
        let mut rng = Seed(2026).stream(&format!("gain {gain}"));
        let mut found = || {
            let (a, mut b) = under_load(&mut rng, Noise::Lognormal, 10);
            b.iter_mut().for_each(|point| point.value *= gain);
            claims_under_load(&a, &b)
        };
        (0..500).filter(|_| found()).count()
    };
    let (large, small) = (share(1.3), share(1.005));
    assert!(large > 450 && small < 50, "of 500: {large} of 30%, {small} of 0.5%");
}
