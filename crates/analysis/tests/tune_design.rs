//! How many trials `flyball tune` takes, how often it keeps what does nothing, and how often its interval
//! covers: on simulated noise with fixed seeds, beside ten trials each. The schedule and the verdict are
//! those of the program. The table of `benches/deciding/README.md` is printed by
//! `cargo test --release -p analysis --test tune_design -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod noise;

use analysis::compare::{Blocks, Conditions, Group, Yardstick, compare};
use analysis::schedule::Schedule;
use analysis::stats::permutation;
use analysis::stats::quantile::{median, quantile};
use analysis::summary::{Comparison, Point, Verdict};
use domain::ids::{RunId, TrialKey};
use domain::lab::Lab;
use domain::outcome::{Better, Metric, Outcome};
use domain::plan::Plan;
use domain::rng::{Rng, Seed};
use domain::study::{Factor, Level, Measure, Sim, Study, Target, Tool, Until, Workload};
use domain::time::{Nanos, Timestamp};
use domain::trial::{Measurement, Provenance, Trial, Validity};
use domain::units::{Bytes, Unit};
use noise::Noise;
use std::collections::BTreeMap;

/// Comparisons for each noise and gain: a rate of 5% is then known to ±0.5%.
const COMPARISONS: usize = 2_000;

const NOISES: [Noise; 5] = [Noise::Lognormal, Noise::Tail, Noise::Bimodal, Noise::Outliers, Noise::Coarse];

/// As `flyball tune` asks for (`UNTIL` of crates/session/src/tuning.rs, whose tests hold it to these).
fn measure() -> Measure {
    Measure {
        metric: "elapsed".into(),
        repeats_min: 5,
        repeats_max: 20,
        until: Until::Decided,
        confidence: 0.9,
        threshold: 0.02,
        ..Measure::default()
    }
}

/// A study of a command before and after a change.
fn plan() -> Plan {
    let level = |name: &str| Level {
        name: name.into(),
        options: BTreeMap::new(),
        settings: vec![],
        stack: Default::default(),
        beside: Default::default(),
        kernel: None,
        machine: None,
        pstates: None,
    };
    let change =
        Factor { name: "change".into(), levels: ["before", "after"].map(level).into(), workloads: vec![] };
    let study = Study {
        name: "tune".into(),
        question: "?".into(),
        primary: vec![],
        target: Target::File(Bytes::from_mib(256)),
        workloads: vec![Workload { name: "w".into(), tool: Tool::Fio, options: BTreeMap::new() }],
        beside: vec![],
        factors: vec![change],
        settings: vec![],
        measure: measure(),
        stack: None,
        lab: Lab::default(),
        sim: Sim::default(),
        published: vec![],
        page: None,
    };
    Plan::new(study, Seed(1)).unwrap()
}

/// A trial that took so many seconds.
fn trial(key: TrialKey, metric: &str, seconds: f64) -> Trial {
    let value = Metric { value: seconds, unit: Unit::Seconds, better: Better::Lower };
    let outcome =
        Outcome { metrics: [(metric.to_owned(), value)].into(), tool: "command".into(), warnings: vec![] };
    let measurement = Measurement {
        outcome,
        commands: vec![],
        duration: Nanos::from_secs(1),
        roles: Default::default(),
        threads: vec![],
        disks: vec![],
        recorder: None,
        profile: None,
        windows: None,
        phases: vec![],
        spent: Default::default(),
        calls: None,
        disturbances: vec![],
    };
    Trial {
        run: RunId("r".into()),
        key,
        study: "tune".into(),
        workload: "w".into(),
        levels: Default::default(),
        provenance: Provenance::Host,
        machine: "m".into(),
        started: Timestamp::from_unix_nanos(0),
        settings: vec![],
        environment: Default::default(),
        validity: Validity::Valid,
        measurement: Some(measurement),
        lab: None,
        origin: None,
    }
}

/// One comparison, and how many trials it took.
fn tuned(plan: &Plan, mut draw: impl FnMut(usize) -> f64) -> (Comparison, usize) {
    let measure = &plan.study.measure;
    let mut schedule = Schedule::new(plan, &[]).unwrap();
    let mut points: [Vec<Point>; 2] = Default::default();
    while let Some(next) = schedule.next() {
        let (key, value) = (schedule.key(next), draw(next.cell));
        points[next.cell].push(Point { key: key.clone(), value });
        schedule.record(&trial(key, &measure.metric, value)).unwrap();
    }
    let by = Yardstick {
        metric: &measure.metric,
        unit: Unit::Seconds,
        better: Better::Lower,
        confidence: measure.confidence,
        threshold: measure.threshold,
        blocks: Blocks::Shared,
        under: Conditions { until: measure.until, ..Conditions::quiet(Provenance::Host) },
    };
    let [a, b] = &points;
    let compared = compare(Group { name: "a", points: a }, Group { name: "b", points: b }, &by);
    (compared.unwrap(), a.len() + b.len())
}

/// What many comparisons gave.
struct Measured {
    /// The share of which it is known whether the change gains more than the threshold.
    decided: f64,
    /// The share of which the change is kept.
    kept: f64,
    /// The share whose interval has the true ratio; those without one count.
    covered: f64,
    /// Mean of trials, and how many nine tenths take at most.
    trials: (f64, f64),
}

fn measured(noise: Noise, gain: f64, comparisons: usize) -> Measured {
    let plan = plan();
    let mut rng: Rng = Seed(2026).stream(&format!("tune {noise:?} {gain}"));
    let mut one = || {
        let draw = |cell| if cell == 0 { 1.0 } else { 1.0 / gain } / noise.draw(&mut rng);
        tuned(&plan, draw)
    };
    let all: Vec<(Comparison, usize)> = (0..comparisons).map(|_| one()).collect();
    let share = |is: &dyn Fn(&Comparison) -> bool| {
        all.iter().filter(|(compared, _)| is(compared)).count() as f64 / all.len() as f64
    };
    let trials: Vec<f64> = all.iter().map(|(_, trials)| *trials as f64).collect();
    let ratio = 1.0 / gain;
    Measured {
        decided: share(&|one| one.verdict == Verdict::Better || one.excludes_gain()),
        kept: share(&|one| one.verdict == Verdict::Better),
        covered: share(&|one| one.interval.is_none_or(|within| within.low <= ratio && ratio <= within.high)),
        trials: (trials.iter().sum::<f64>() / trials.len() as f64, quantile(&trials, 0.9).unwrap()),
    }
}

/// The share that ten trials each keep by the rank test, of the same question and at the same error.
fn kept_by_ten_each(noise: Noise, gain: f64, comparisons: usize) -> f64 {
    let measure = measure();
    let mut rng: Rng = Seed(2026).stream(&format!("ten {noise:?} {gain}"));
    let mut side = |factor: f64| (0..10).map(|_| factor * noise.draw(&mut rng)).collect::<Vec<f64>>();
    let mut is_kept = || {
        let (a, b) = (side(1.0 + measure.threshold), side(gain));
        let p = permutation::two_groups(&a, &b).unwrap();
        p < 1.0 - measure.confidence && median(&b) > median(&a)
    };
    (0..comparisons).filter(|_| is_kept()).count() as f64 / comparisons as f64
}

#[test]
fn a_gain_that_dwarfs_the_noise_takes_half_of_ten_each_and_what_does_nothing_is_not_kept() {
    let dwarfs = measured(Noise::Lognormal, 1.5, 100);
    assert_eq!((dwarfs.kept, dwarfs.trials), (1.0, (10.0, 10.0)));
    let nothing = measured(Noise::Lognormal, 1.0, 100);
    assert!(nothing.kept <= 0.05 && nothing.covered >= 0.9, "{} {}", nothing.kept, nothing.covered);
    assert!(nothing.trials.0 < 36.0, "{}", nothing.trials.0);
}

#[test]
#[ignore = "prints a table; it judges nothing"]
fn trials_of_tune() {
    println!(
        "| noise | gain | decided | kept | covered | trials | nine tenths within | of ten each | ten each: kept |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for noise in NOISES {
        for gain in [1.0, 1.03, 1.05, 1.1, 1.2] {
            let Measured { decided, kept, covered, trials: (mean, most) } =
                measured(noise, gain, COMPARISONS);
            let ten = kept_by_ten_each(noise, gain, COMPARISONS);
            println!(
                "| {noise:?} | {:.0}% | {:.1}% | {:.1}% | {:.1}% | {mean:.1} | {most:.0} | {:.2} | {:.1}% |",
                100.0 * (gain - 1.0),
                100.0 * decided,
                100.0 * kept,
                100.0 * covered,
                mean / 20.0,
                100.0 * ten,
            );
        }
    }
}
