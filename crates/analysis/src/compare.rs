//! B against A: by what factor they differ, how sure that is, and what may be claimed.
//!
//! A difference is claimed where all of these hold: the interval of the ratio lies wholly beyond the
//! practical threshold (so it clears "no difference", too), and the permutation test's p-value, adjusted for
//! being one of several of its family (see [`crate::stats::multiplicity`]), is below 1 - confidence. Two
//! groups are called the same where the whole interval lies within the threshold. All else is undecided, and
//! says what would decide it.
//!
//! What was 0 has no ratio to what it is now. Such groups are judged where there is nothing to doubt and as
//! many trials as an interval needs: both always 0 are the same; one always 0 and the other never differ
//! beyond any threshold, and the test alone decides.
//!
//! Trials of one run come in blocks, and blocks drift. Where both groups have [`MIN_PAIRS`] blocks in common
//! and their values move together from block to block, they are compared within blocks; else as two
//! independent groups, which under drift claims less, never more.
//!
//! Where a trial of either ran beside other work, they are compared within blocks whatever their correlation:
//! load comes and goes over minutes, and hits neighbours alike (blocking: Box, Hunter and Hunter, "Statistics
//! for Experimenters", 2nd ed., §3.2; the signed-rank test: Wilcoxon, Biometrics Bulletin 1, 1945). Too few
//! shared blocks for an interval are undecided.
//!
//! Where a study ends as soon as its comparison is clear (`until = "decided"`), the number of trials depends
//! on what they gave, and neither test nor interval of above holds. Its cells are compared within blocks by a
//! confidence sequence ([`crate::stats::sequential`]), which does.
//!
//! A model's seeds are no sample: its comparisons are judged as those of trials are, so that a difference
//! which another seed would undo is none, and carry no p-value, and no interval without width.

use crate::stats::interval::Interval;
use crate::stats::quantile::median;
use crate::stats::ratio::RatioEstimate;
use crate::stats::{bootstrap, multiplicity, permutation, ratio, sequential};
use crate::summary::{Comparison, Point, RunData, Verdict};
use crate::words::{difference, distance, gives, interval_words, metric_words, of_model, p_words, percent};
use domain::ids::TrialKey;
use domain::outcome::Better;
use domain::study::Until;
use domain::trial::Provenance;
use domain::units::Unit;
use std::collections::{BTreeMap, BTreeSet};

/// With fewer pairs than this the signed-rank test at 0.05 claims far less often than it may (6 pairs: 3.1%).
pub const MIN_PAIRS: usize = 7;

/// Values that correlate over blocks more than this are compared within blocks: from 0.5 on, what pairing
/// saves in noise outweighs the halved number of values.
const MOVE_TOGETHER: f64 = 0.5;

/// A forecast of more trials than this says only that the difference lies at the threshold.
const MAX_FORECAST: f64 = 500.0;

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// What it is called in the sentence.
    pub name: &'a str,
    /// Its valid trials.
    pub points: &'a [Point],
}

/// Whether two groups' blocks are the same passes over the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// Both are of one run: block 3 of A ran beside block 3 of B.
    Shared,
    /// They are of different runs: equal block numbers mean nothing.
    Unrelated,
}

/// By what measure groups are compared.
#[derive(Clone, Debug)]
pub struct Yardstick<'a> {
    /// The metric.
    pub metric: &'a str,
    /// Its unit.
    pub unit: Unit,
    /// Which way is good.
    pub better: Better,
    /// Of the intervals, such as 0.95; tests claim at 1 minus this.
    pub confidence: f64,
    /// The practical threshold, as a share.
    pub threshold: f64,
    /// Whether blocks are shared.
    pub blocks: Blocks,
    /// What the trials were made under.
    pub under: Conditions,
}

/// What is known of the trials that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Where their figures come from.
    pub provenance: Provenance,
    /// Those that count although other work ran beside them.
    pub under_load: BTreeSet<TrialKey>,
    /// What decided how many there are.
    pub until: Until,
}

impl Conditions {
    /// Of a run's trials.
    pub fn of(data: &RunData) -> Self {
        let loaded = data.trials.iter().filter(|trial| trial.is_under_load());
        Self {
            provenance: data.run.provenance,
            under_load: loaded.map(|trial| trial.key.clone()).collect(),
            until: data.study.measure.until,
        }
    }

    /// Of trials that nothing ran beside.
    pub const fn quiet(provenance: Provenance) -> Self {
        Self { provenance, under_load: BTreeSet::new(), until: Until::Precise }
    }
}

/// One comparison on its own; `None` where a side has no trial.
pub fn compare(a: Group<'_>, b: Group<'_>, by: &Yardstick<'_>) -> Option<Comparison> {
    compare_family(&[(a, b)], by).pop().flatten()
}

/// Comparisons that are read together, so that each claim must stand up as one of several. In their order;
/// `None` where a side has no trial.
pub fn compare_family(pairs: &[(Group<'_>, Group<'_>)], by: &Yardstick<'_>) -> Vec<Option<Comparison>> {
    let measured: Vec<Option<Measured>> =
        pairs.iter().map(|(a, b)| measure(a.points, b.points, by)).collect();
    let p_values: Vec<f64> = measured.iter().flatten().filter_map(|m| m.p).collect();
    let mut adjusted = multiplicity::adjusted(&p_values).into_iter();
    let family = p_values.len();
    let judged = pairs.iter().zip(measured).map(|((a, b), measured)| {
        let measured = measured?;
        let adjusted_p = measured.p.and_then(|_| adjusted.next());
        let in_pairs = measured.pairs.is_some();
        let until = by.under.until;
        let chance = Chance { adjusted_p, family, confidence: by.confidence, in_pairs, until };
        Some(judge(*a, *b, by, &measured, chance))
    });
    judged.collect()
}

/// What two groups' values say.
struct Measured {
    medians: (f64, f64),
    estimate: Option<RatioEstimate>,
    bootstrap: Option<Interval>,
    p: Option<f64>,
    /// How many blocks were compared within; `None` for independent groups.
    pairs: Option<usize>,
    /// What zeros decide; `None` where they do not.
    zeros: Option<Zeros>,
}

/// How groups stand to each other in which every trial is 0, or none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zeros {
    /// All trials of both are 0.
    Both,
    /// All trials of one, and none of the other.
    One,
}

fn zeros(a: &[f64], b: &[f64], confidence: f64) -> Option<Zeros> {
    let (all, none) = (|v: &[f64]| v.iter().all(|v| *v == 0.0), |v: &[f64]| v.iter().all(|v| *v > 0.0));
    let found = match (all(a), all(b)) {
        (true, true) => Zeros::Both,
        (true, false) if none(b) => Zeros::One,
        (false, true) if none(a) => Zeros::One,
        _ => return None,
    };
    ratio::are_enough(a.len(), b.len(), confidence).then_some(found)
}

/// How far chance explains a p-value among others.
struct Chance {
    adjusted_p: Option<f64>,
    family: usize,
    confidence: f64,
    /// Whether blocks were compared within.
    in_pairs: bool,
    /// What ended the run.
    until: Until,
}

fn measure(a: &[Point], b: &[Point], by: &Yardstick<'_>) -> Option<Measured> {
    let values = |points: &[Point]| points.iter().map(|p| p.value).collect::<Vec<_>>();
    let (of_a, of_b) = (values(a), values(b));
    let medians = (median(&of_a)?, median(&of_b)?);
    if by.under.until.is_search() {
        // How often a cell was measured depends on its own values.
        return Some(Measured {
            medians,
            estimate: None,
            bootstrap: None,
            p: None,
            pairs: None,
            zeros: None,
        });
    }
    if let Some(pairs) = pairs(a, b, by) {
        let ratios: Vec<f64> = pairs.iter().map(|(a, b)| b / a).collect();
        let logs: Vec<f64> = ratios.iter().map(|r| r.ln()).collect();
        if by.under.until == Until::Decided {
            return Some(sequential(medians, &logs, by.confidence));
        }
        let estimate = ratio::pairs(&ratios, by.confidence);
        let bootstrap = bootstrap::pairs(&ratios, by.confidence);
        let p = permutation::pairs(&logs);
        return Some(Measured { medians, estimate, bootstrap, p, pairs: Some(pairs.len()), zeros: None });
    }
    let estimate = ratio::two_groups(&of_a, &of_b, by.confidence);
    let bootstrap = bootstrap::two_groups(&of_a, &of_b, by.confidence);
    let (p, zeros) = (permutation::two_groups(&of_a, &of_b), zeros(&of_a, &of_b, by.confidence));
    Some(Measured { medians, estimate, bootstrap, p, pairs: None, zeros })
}

/// Pairs of which the last was the last because the others were not clear yet.
fn sequential(medians: (f64, f64), logs: &[f64], confidence: f64) -> Measured {
    let interval = sequential::interval(logs, confidence);
    let estimate = median(logs).map(|ratio| RatioEstimate { ratio: ratio.exp(), interval });
    let p = sequential::p_value(logs);
    Measured { medians, estimate, bootstrap: None, p, pairs: Some(logs.len()), zeros: None }
}

/// The values of the blocks that both sides have, where they are compared within blocks: where that is worth
/// it, and always under load.
fn pairs(a: &[Point], b: &[Point], by: &Yardstick<'_>) -> Option<Vec<(f64, f64)>> {
    if by.blocks == Blocks::Unrelated || a.iter().chain(b).any(|p| p.value <= 0.0) {
        return None;
    }
    let is_under_load = a.iter().chain(b).any(|point| by.under.under_load.contains(&point.key));
    let of_b: BTreeMap<u32, f64> = b.iter().map(|p| (p.key.block, p.value)).collect();
    let pairs: Vec<(f64, f64)> = a.iter().filter_map(|p| Some((p.value, *of_b.get(&p.key.block)?))).collect();
    if is_under_load || by.under.until == Until::Decided {
        return Some(pairs);
    }
    let logs: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (a.ln(), b.ln())).collect();
    (pairs.len() >= MIN_PAIRS && correlation(&logs)? > MOVE_TOGETHER).then_some(pairs)
}

/// Pearson's correlation; `None` where a side does not vary.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let (x, y) = pairs.iter().fold((0.0, 0.0), |(x, y), (a, b)| (x + a / n, y + b / n));
    let sum = |f: fn(f64, f64) -> f64| pairs.iter().map(|(a, b)| f(a - x, b - y)).sum::<f64>();
    let scale = (sum(|a, _| a * a) * sum(|_, b| b * b)).sqrt();
    (scale > 0.0).then(|| sum(|a, b| a * b) / scale)
}

fn judge(a: Group<'_>, b: Group<'_>, by: &Yardstick<'_>, measured: &Measured, chance: Chance) -> Comparison {
    let interval = measured.estimate.and_then(|e| e.interval);
    let (of_a, of_b) = measured.medians;
    let of_medians = Some(of_b / of_a).filter(|ratio| of_a > 0.0 && of_b > 0.0 && ratio.is_normal());
    let mut comparison = Comparison {
        a: a.name.to_owned(),
        b: b.name.to_owned(),
        metric: by.metric.to_owned(),
        unit: by.unit.clone(),
        better: by.better,
        trials: (a.points.len(), b.points.len()),
        medians: measured.medians,
        ratio: measured.estimate.map(|e| e.ratio).or(of_medians),
        interval,
        // Where values lie so far apart that a ratio of resamples is beyond a float, it says nothing.
        bootstrap: interval.and(measured.bootstrap).filter(|i| i.low > 0.0 && i.high.is_finite()),
        p: measured.p.filter(|_| interval.is_some() || measured.zeros.is_some()),
        threshold: by.threshold,
        verdict: Verdict::Undecided,
        sentence: String::new(),
        seeds: seeds(by, (a.points.len(), b.points.len())),
    };
    comparison.verdict = match measured.zeros {
        None => verdict(&comparison, &chance),
        Some(Zeros::Both) => Verdict::Same,
        Some(Zeros::One) => verdict_of_zeros(&comparison, &chance),
    };
    comparison.sentence = sentence(&comparison, measured, &chance);
    if comparison.seeds.is_some() {
        without_chance(&mut comparison);
    }
    comparison
}

/// How many seeds a model ran with, of the side that has fewer; `None` of what was measured.
fn seeds(by: &Yardstick<'_>, trials: (usize, usize)) -> Option<usize> {
    (by.under.provenance == Provenance::Simulation).then_some(trials.0.min(trials.1))
}

/// Seeds are no sample of anything: a model has no p-value, and no interval where all seeds give the same.
fn without_chance(comparison: &mut Comparison) {
    comparison.p = None;
    comparison.interval = comparison.interval.filter(Interval::has_width);
    comparison.bootstrap = comparison.interval.and(comparison.bootstrap);
}

fn verdict(comparison: &Comparison, chance: &Chance) -> Verdict {
    let (Some(interval), Some(p)) = (comparison.interval, chance.adjusted_p) else {
        return Verdict::Undecided;
    };
    let beyond = 1.0 + comparison.threshold;
    if interval.low >= 1.0 / beyond && interval.high <= beyond {
        return Verdict::Same;
    }
    let larger = interval.low > beyond;
    if p >= 1.0 - interval.confidence || !(larger || interval.high < 1.0 / beyond) {
        return Verdict::Undecided;
    }
    if larger == (comparison.better == Better::Higher) { Verdict::Better } else { Verdict::Worse }
}

/// Where every ratio of a trial to another is without bound, the test alone decides.
fn verdict_of_zeros(comparison: &Comparison, chance: &Chance) -> Verdict {
    let (a, b) = comparison.medians;
    match chance.adjusted_p {
        Some(p) if p < 1.0 - chance.confidence => {
            if (b > a) == (comparison.better == Better::Higher) {
                Verdict::Better
            } else {
                Verdict::Worse
            }
        }
        _ => Verdict::Undecided,
    }
}

fn sentence(comparison: &Comparison, measured: &Measured, chance: &Chance) -> String {
    let Comparison { a, b, .. } = comparison;
    let threshold = percent(comparison.threshold);
    let details = details(comparison, measured);
    match comparison.verdict {
        Verdict::Better => format!("{b} is better than {a}: {} ({details})", difference(comparison)),
        Verdict::Worse => format!("{b} is worse than {a}: {} ({details})", difference(comparison)),
        Verdict::Same if comparison.ratio.is_none() => {
            format!("no difference: {} ({details})", gives("has", comparison))
        }
        Verdict::Same => {
            format!("no difference: {}, within {threshold} ({details})", gives("has", comparison))
        }
        Verdict::Undecided => {
            let lacking = what_would_tell(comparison, chance);
            format!("cannot tell yet: {} ({details}); {lacking}", gives("has", comparison))
        }
    }
}

fn details(comparison: &Comparison, measured: &Measured) -> String {
    if let Some(seeds) = comparison.seeds {
        return of_model(comparison.interval.as_ref(), seeds);
    }
    let interval = comparison.interval.as_ref().map(interval_words);
    let p = comparison.p.map(p_words);
    let trials = match measured.pairs {
        Some(pairs) => format!("{pairs} pairs in the same blocks"),
        None => format!("{} against {} trials", comparison.trials.0, comparison.trials.1),
    };
    interval.into_iter().chain(p).chain([trials]).collect::<Vec<_>>().join(", ")
}

/// What an undecided comparison lacks.
fn what_would_tell(comparison: &Comparison, chance: &Chance) -> String {
    let Some(interval) = comparison.interval else { return what_an_interval_lacks(comparison, chance) };
    let threshold = percent(comparison.threshold);
    if chance.until == Until::Decided && comparison.excludes_gain() {
        return format!("a gain above {threshold} is excluded");
    }
    let cleared = interval.low > 1.0 || interval.high < 1.0;
    let by_chance = chance.adjusted_p.is_some_and(|p| p >= 1.0 - interval.confidence);
    let doubt = if cleared && by_chance && chance.family > 1 {
        format!("among {} comparisons chance alone may give that; ", chance.family)
    } else if cleared {
        format!("the difference may be below {threshold}; ")
    } else {
        String::new()
    };
    match more_trials(comparison) {
        Some(more) => format!("{doubt}about {more} more trials a side would tell"),
        None if margin(comparison) > (1.0 + comparison.threshold).ln() => {
            format!("{doubt}the trials differ so much among themselves that more of them will hardly tell")
        }
        None => format!("{doubt}it lies so close to {threshold} that more trials will hardly tell"),
    }
}

fn what_an_interval_lacks(comparison: &Comparison, chance: &Chance) -> String {
    if chance.until.is_search() {
        return "what trials choose they do not prove: it has to be measured anew".to_owned();
    }
    if chance.in_pairs {
        return "an interval within blocks needs more of them, such as 6 for 95%".to_owned();
    }
    if ratio::are_enough(comparison.trials.0, comparison.trials.1, chance.confidence) {
        let metric = metric_words(&comparison.metric);
        return match comparison.p {
            None => format!("where not every trial's {metric} is above zero, a ratio has no interval"),
            Some(_) => format!("among {} comparisons chance alone may give that", chance.family),
        };
    }
    "an interval needs more trials, such as 4 on each side for 95%".to_owned()
}

/// How many more trials a side would narrow the interval enough for a verdict, if the estimate stays where it
/// is: its width falls with the root of the number of trials. `None` beyond [`MAX_FORECAST`].
fn more_trials(comparison: &Comparison) -> Option<usize> {
    let interval = comparison.interval?;
    let trials = comparison.trials.0.min(comparison.trials.1) as f64;
    let half = (interval.high / interval.low).ln() / 2.0;
    let more = (trials * ((half / margin(comparison)).powi(2) - 1.0)).ceil().max(1.0);
    (more <= MAX_FORECAST).then_some(more as usize)
}

/// How far the estimate lies from the threshold, as a logarithm.
fn margin(comparison: &Comparison) -> f64 {
    (distance(comparison) - (1.0 + comparison.threshold).ln()).abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::{CellId, TrialKey};
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn points(values: &[f64]) -> Vec<Point> {
        let key = |block| TrialKey { block, cell: CellId::from_stored("c"), attempt: 0 };
        values.iter().zip(0..).map(|(value, block)| Point { key: key(block), value: *value }).collect()
    }

    fn yardstick(better: Better) -> Yardstick<'static> {
        let (metric, unit) = match better {
            Better::Higher => ("throughput", Unit::BytesPerSecond),
            Better::Lower => ("latency_mean", Unit::Seconds),
        };
        Yardstick {
            metric,
            unit,
            better,
            confidence: 0.95,
            threshold: 0.02,
            blocks: Blocks::Shared,
            under: Conditions::quiet(Provenance::Host),
        }
    }

    #[test]
    fn a_model_has_no_p_value_and_no_interval_without_width() {
        let by = Yardstick { under: Conditions::quiet(Provenance::Simulation), ..yardstick(Better::Higher) };
        let judge = |a: &[f64], b: &[f64]| {
            let (a, b) = (points(a), points(b));
            compare(Group { name: "A", points: &a }, Group { name: "B", points: &b }, &by).unwrap()
        };
        let alike = judge(&[10.0; 6], &[20.0; 6]);
        assert_eq!((alike.p, alike.interval, alike.bootstrap), (None, None, None));
        assert_eq!((alike.verdict, alike.extent()), (Verdict::Better, Some((2.0, 2.0))));
        assert_eq!(alike.sentence, "B is better than A: 2.00 times the throughput (model, 6 seeds)");
        let varied = judge(&[10.0, 10.1, 10.2, 9.9, 9.8, 10.05], &[20.0, 20.1, 20.2, 19.9, 19.8, 20.05]);
        assert!(varied.p.is_none() && varied.interval.is_some());
        assert!(varied.sentence.ends_with(", model, 6 seeds)"), "{}", varied.sentence);
        let few = judge(&[10.0, 10.1], &[20.0, 20.1]);
        assert_eq!((few.verdict, few.extent()), (Verdict::Undecided, None));
    }

    #[test]
    fn trials_under_load_are_compared_within_blocks() {
        // Load comes and goes: what it takes from one block it takes from both sides.
        let load = [1.0, 0.4, 0.9, 0.5, 1.0, 0.3, 0.8];
        let side = |gain: f64, n: usize| -> Vec<f64> {
            load.iter()
                .take(n)
                .zip(1..)
                .map(|(l, i)| 100.0 * l * gain * (1.0 + f64::from(i) / 500.0))
                .collect()
        };
        let judge = |n: usize, loaded: &[u32]| {
            let (a, b) = (points(&side(1.0, n)), points(&side(1.1, n)));
            let keys = loaded.iter().map(|block| a[*block as usize].key.clone()).collect();
            let under = Conditions { under_load: keys, ..Conditions::quiet(Provenance::Host) };
            let by = Yardstick { under, ..yardstick(Better::Higher) };
            compare(Group { name: "A", points: &a }, Group { name: "B", points: &b }, &by).unwrap()
        };
        let found = judge(6, &[1]);
        assert_eq!(found.verdict, Verdict::Better, "{}", found.sentence);
        assert!(found.sentence.contains("6 pairs in the same blocks"), "{}", found.sentence);
        assert_eq!(judge(6, &[]).verdict, Verdict::Undecided, "as two groups the load hides it");
        let few = judge(5, &[1]);
        assert_eq!(few.verdict, Verdict::Undecided);
        assert!(few.sentence.ends_with("an interval within blocks needs more of them, such as 6 for 95%"));
    }

    fn of(a: &[f64], b: &[f64], better: Better) -> Option<Comparison> {
        let (a, b) = (points(a), points(b));
        let group = |name, points| Group { name, points };
        compare(group("ondemand", &a), group("performance", &b), &yardstick(better))
    }

    fn check(a: &[f64], b: &[f64], better: Better, verdict: Verdict, sentence: Expect) {
        let got = of(a, b, better).unwrap();
        assert_eq!(got.verdict, verdict, "{}", got.sentence);
        sentence.assert_eq(&got.sentence);
    }

    const SLOW: [f64; 8] = [100.0, 101.0, 99.0, 102.0, 98.0, 100.5, 101.5, 99.5];

    fn times(factor: f64) -> Vec<f64> {
        // Turned round, so that values do not move together from block to block.
        SLOW.iter().rev().map(|v| v * factor).collect()
    }

    #[test]
    fn a_clear_gain_is_claimed_with_its_numbers() {
        let expected = expect![
            "performance is better than ondemand: 1.24 times the throughput (95% interval 1.22 to 1.26, p < 0.001, 8 against 8 trials)"
        ];
        check(&SLOW, &times(1.24), Better::Higher, Verdict::Better, expected);
    }

    #[test]
    fn more_latency_is_worse() {
        let expected = expect![
            "performance is worse than ondemand: 1.24 times the mean latency (95% interval 1.22 to 1.26, p < 0.001, 8 against 8 trials)"
        ];
        check(&SLOW, &times(1.24), Better::Lower, Verdict::Worse, expected);
    }

    #[test]
    fn equal_groups_are_the_same() {
        let expected = expect![[
            "no difference: performance has 1.000 times the throughput of ondemand, within 2% (95% interval 0.985 to 1.015, p = 1.000, 8 against 8 trials)"
        ]];
        check(&SLOW, &times(1.0), Better::Higher, Verdict::Same, expected);
    }

    #[test]
    fn a_gain_that_may_be_below_the_threshold_is_not_claimed() {
        let expected = expect![
            "cannot tell yet: performance has 1.025 times the throughput of ondemand (95% interval 1.010 to 1.040, p = 0.007, 8 against 8 trials); the difference may be below 2%; about 67 more trials a side would tell"
        ];
        check(&SLOW, &times(1.025), Better::Higher, Verdict::Undecided, expected);
    }

    #[test]
    fn trials_that_differ_wildly_are_not_said_to_lie_close_to_the_threshold() {
        let wild = [1.0, 400.0, 2.0, 900.0, 1.0, 500.0, 3.0, 800.0];
        let turned: Vec<f64> = wild.iter().rev().map(|v| v * 1.15).collect();
        let got = of(&wild, &turned, Better::Higher).unwrap();
        assert_eq!(got.verdict, Verdict::Undecided);
        assert!(
            got.sentence.ends_with("differ so much among themselves that more of them will hardly tell"),
            "{}",
            got.sentence
        );
    }

    #[test]
    fn too_few_trials_decide_nothing_however_far_apart() {
        let expected = expect![[
            "cannot tell yet: performance has 9.00 times the throughput of ondemand (3 against 3 trials); an interval needs more trials, such as 4 on each side for 95%"
        ]];
        check(&[1.0; 3], &[9.0; 3], Better::Higher, Verdict::Undecided, expected);
    }

    #[test]
    fn an_empty_side_gives_no_comparison() {
        assert_eq!(of(&[], &SLOW, Better::Higher), None);
    }

    #[test]
    fn drift_that_hides_a_gain_is_taken_out_by_blocks() {
        let drifting: Vec<f64> = (0..8).map(|b| 100.0 * 1.2_f64.powi(b)).collect();
        let faster: Vec<f64> = drifting.iter().zip(SLOW).map(|(v, noise)| v * 1.1 * noise / 100.0).collect();
        let expected = expect![
            "performance is better than ondemand: 1.10 times the throughput (95% interval 1.089 to 1.115, p = 0.008, 8 pairs in the same blocks)"
        ];
        check(&drifting, &faster, Better::Higher, Verdict::Better, expected);
    }

    #[test]
    fn one_small_p_value_among_many_comparisons_is_no_claim() {
        let a = points(&SLOW[..5]);
        let b = points(&times(1.3)[..5]);
        let group = |points| Group { name: "x", points };
        let mut family = vec![(group(&a), group(&b))];
        let by = yardstick(Better::Higher);
        assert_eq!(compare_family(&family, &by)[0].as_ref().unwrap().verdict, Verdict::Better);
        family.extend(vec![(group(&a), group(&a)); 9]);
        let alone = compare_family(&family, &by).swap_remove(0).unwrap();
        assert_eq!(alone.verdict, Verdict::Undecided);
        assert!(
            alone.sentence.contains("among 10 comparisons chance alone may give that"),
            "{}",
            alone.sentence
        );
    }

    #[test]
    fn what_was_always_zero_is_said_to_have_been_zero() {
        let (zero, some) = ([0.0; 8], SLOW);
        let worse = expect![
            "performance is worse than ondemand: median mean latency was 0 with ondemand and is 100 s with performance (p < 0.001, 8 against 8 trials)"
        ];
        check(&zero, &some, Better::Lower, Verdict::Worse, worse);
        check(
            &some,
            &zero,
            Better::Lower,
            Verdict::Better,
            expect![
                "performance is better than ondemand: median mean latency was 100 s with ondemand and is 0 with performance (p < 0.001, 8 against 8 trials)"
            ],
        );
        let same = expect![
            "no difference: median throughput is 0 with both ondemand and performance (p = 1.000, 8 against 8 trials)"
        ];
        check(&zero, &zero, Better::Higher, Verdict::Same, same);
    }

    #[test]
    fn zeros_decide_nothing_where_they_are_few_or_not_all() {
        let few = expect![
            "cannot tell yet: median throughput was 0 with ondemand and is 5.00 B/s with performance (3 against 3 trials); an interval needs more trials, such as 4 on each side for 95%"
        ];
        check(&[0.0; 3], &[5.0; 3], Better::Higher, Verdict::Undecided, few);
        let some = expect![
            "cannot tell yet: median throughput was 0 with ondemand and is 5.00 B/s with performance (6 against 6 trials); where not every trial's throughput is above zero, a ratio has no interval"
        ];
        check(&[0.0, 0.0, 0.0, 0.0, 0.0, 5.0], &[5.0; 6], Better::Higher, Verdict::Undecided, some);
    }

    /// Values among which zeros are as frequent as others, and some that lie as far apart as a double
    /// reaches.
    fn with_zeros() -> impl Strategy<Value = Vec<f64>> {
        let value = prop_oneof![4 => Just(0.0), 4 => 1.0..2.0_f64, 1 => Just(1e-300), 1 => Just(1e300), 1 => -1.0..0.0_f64];
        let mixed = proptest::collection::vec(value, 1..12);
        prop_oneof![mixed, (1_usize..12).prop_map(|n| vec![0.0; n])]
    }

    #[test]
    fn a_bootstrap_beyond_a_float_is_left_out() {
        let (a, b) = ([1e300, 1e300, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.187, 1e300, 1e-300]);
        assert_eq!(of(&a, &b, Better::Higher).unwrap().bootstrap, None);
    }

    proptest! {
        #[test]
        fn no_comparison_says_what_is_no_number(a in with_zeros(), b in with_zeros()) {
            let got = of(&a, &b, Better::Higher).unwrap();
            let no_number = |word: &str| matches!(word.trim_matches(|c: char| !c.is_alphanumeric()), "NaN" | "inf");
            prop_assert!(!got.sentence.split(' ').any(no_number), "{}", got.sentence);
            let ends = got.interval.iter().chain(&got.bootstrap).flat_map(|i| [i.low, i.high]);
            prop_assert!(ends.chain(got.ratio).all(|v| v.is_finite() && v > 0.0), "{:?}", got);
        }

        #[test]
        fn turning_a_comparison_round_turns_its_verdict_round(
            a in proptest::collection::vec(1.0..2.0_f64, 1..12),
            b in proptest::collection::vec(1.0..2.0_f64, 1..12),
        ) {
            let forth = of(&a, &b, Better::Higher).unwrap();
            let back = of(&b, &a, Better::Higher).unwrap();
            let turned = match forth.verdict {
                Verdict::Better => Verdict::Worse,
                Verdict::Worse => Verdict::Better,
                same => same,
            };
            prop_assert_eq!(back.verdict, turned);
            prop_assert!((forth.ratio.unwrap() * back.ratio.unwrap() - 1.0).abs() < 1e-9);
        }

        #[test]
        fn a_claim_always_clears_the_threshold_and_the_test(
            a in proptest::collection::vec(1.0..1.3_f64, 4..10),
            b in proptest::collection::vec(1.1..1.5_f64, 4..10),
        ) {
            let got = of(&a, &b, Better::Higher).unwrap();
            if got.verdict == Verdict::Better {
                prop_assert!(got.interval.unwrap().low > 1.02 && got.p.unwrap() < 0.05);
            }
        }
    }
}
