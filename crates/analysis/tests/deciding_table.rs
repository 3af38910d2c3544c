//! The tables of `benches/deciding/README.md`: how many trials a verdict takes, and which interval of a ratio
//! covers what it says. Run with `cargo test -p analysis --test deciding_table -- --ignored --nocapture`.

mod noise;

use analysis::compare::{Blocks, Conditions, Group, Yardstick, compare};
use analysis::stats::interval::Interval;
use analysis::stats::median_interval::half_width;
use analysis::stats::quantile::median;
use analysis::stats::{bootstrap, ratio};
use analysis::summary::{Point, Verdict};
use domain::ids::{CellId, TrialKey};
use domain::outcome::Better;
use domain::rng::{Rng, Seed};
use domain::trial::Provenance;
use domain::units::Unit;
use noise::Noise;

const PAIRS: usize = 2_000;

/// One trial's factor.
type Draw = Box<dyn Fn(&mut Rng) -> f64>;

/// How many trials of a cell are made.
#[derive(Clone, Copy, Debug)]
enum Policy {
    /// Flyball's defaults: at least 5, until the median is known to ±5%, at most 15.
    Precision,
    /// Until the comparison itself is decided: what Flyball would need if it stopped there.
    Decided,
    /// A fixed number, as hyperfine's 10.
    Fixed(usize),
    /// As the Phoronix Test Suite: at least 3, until the standard deviation is below 3.5%, at most 15.
    Deviation,
}

fn trials(policy: Policy, mut draw: impl FnMut() -> f64) -> Vec<f64> {
    let mut values = Vec::new();
    loop {
        let enough = match policy {
            Policy::Fixed(n) => values.len() >= n,
            Policy::Decided => panic!("decided for two sides at once"),
            Policy::Precision => {
                values.len() >= 5 && half_width(&values, 0.95).is_some_and(|half| half <= 0.05)
            }
            Policy::Deviation => values.len() >= 3 && relative_deviation(&values) < 0.035,
        };
        if enough || values.len() >= 15 && !matches!(policy, Policy::Fixed(_)) {
            return values;
        }
        values.push(draw());
    }
}

/// Both sides in turn, until their comparison is decided: at least 4 trials a side, at most 15.
fn until_decided(mut draw_a: impl FnMut() -> f64, mut draw_b: impl FnMut() -> f64) -> (Vec<f64>, Vec<f64>) {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    while a.len() < 4 || (a.len() < 15 && verdict(&a, &b) == Verdict::Undecided) {
        a.push(draw_a());
        b.push(draw_b());
    }
    (a, b)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn relative_deviation(values: &[f64]) -> f64 {
    let centre = mean(values);
    let squares: f64 = values.iter().map(|v| (v - centre).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt() / centre
}

fn verdict(a: &[f64], b: &[f64]) -> Verdict {
    let points = |values: &[f64]| -> Vec<Point> {
        let key = |block| TrialKey { block, cell: CellId::from_stored("c"), attempt: 0 };
        values.iter().zip(0..).map(|(value, block)| Point { key: key(block), value: *value }).collect()
    };
    let by = Yardstick {
        metric: "throughput",
        unit: Unit::BytesPerSecond,
        better: Better::Higher,
        confidence: 0.95,
        threshold: 0.02,
        blocks: Blocks::Unrelated,
        under: Conditions::quiet(Provenance::Host),
    };
    let (a, b) = (points(a), points(b));
    compare(Group { name: "a", points: &a }, Group { name: "b", points: &b }, &by)
        .expect("both sides have trials")
        .verdict
}

/// What a policy's own users would say: hyperfine and Phoronix print means, and a reader compares those.
fn means_differ(a: &[f64], b: &[f64]) -> bool {
    (mean(b) / mean(a) - 1.0).abs() > 0.02
}

/// Trials a side on average, and how often a difference is claimed by verdict and by comparing means, in
/// percent.
fn run(policy: Policy, noise: impl Fn(&mut Rng) -> f64, gain: f64) -> [f64; 3] {
    let rng = std::cell::RefCell::new(Seed(1).stream("policies"));
    let (a, b) = (|| noise(&mut rng.borrow_mut()), || gain * noise(&mut rng.borrow_mut()));
    let (mut made, mut claimed, mut by_means) = (0, 0, 0);
    for _ in 0..PAIRS {
        let (a, b) = match policy {
            Policy::Decided => until_decided(a, b),
            _ => (trials(policy, a), trials(policy, b)),
        };
        made += a.len() + b.len();
        claimed += usize::from(matches!(verdict(&a, &b), Verdict::Better | Verdict::Worse));
        by_means += usize::from(means_differ(&a, &b));
    }
    let share = |count: usize| 100.0 * count as f64 / PAIRS as f64;
    [made as f64 / PAIRS as f64 / 2.0, share(claimed), share(by_means)]
}

/// The fewest fixed trials a side that claim as often.
fn fewest_fixed(noise: impl Fn(&mut Rng) -> f64, gain: f64, claimed: f64) -> String {
    let enough = (4..=30).find(|n| run(Policy::Fixed(*n), &noise, gain)[1] >= claimed - 0.5);
    enough.map_or("above 30".to_owned(), |n| n.to_string())
}

#[test]
#[ignore = "prints a table; it judges nothing"]
fn trials_for_a_verdict() {
    println!(
        "| noise | gain | policy | trials a side | claimed | fixed trials for that | means differ by 2% |"
    );
    println!("|---|---|---|---|---|---|---|");
    let quiet = |deviation: f64| move |rng: &mut Rng| (deviation * rng.normal()).exp();
    let shaped = |noise: Noise| move |rng: &mut Rng| noise.draw(rng);
    let rows: [(&str, Draw); 7] = [
        ("lognormal 0.5%", Box::new(quiet(0.005))),
        ("lognormal 2%", Box::new(quiet(0.02))),
        ("lognormal 5%", Box::new(quiet(0.05))),
        ("lognormal 15%", Box::new(quiet(0.15))),
        ("long tail", Box::new(shaped(Noise::Tail))),
        ("outliers", Box::new(shaped(Noise::Outliers))),
        ("two modes", Box::new(shaped(Noise::Bimodal))),
    ];
    let policies = [Policy::Precision, Policy::Decided, Policy::Fixed(10), Policy::Deviation];
    for (name, noise) in &rows {
        for (gain, policy) in
            [1.0, 1.1, 1.25].into_iter().flat_map(|gain| policies.map(|policy| (gain, policy)))
        {
            let [made, claimed, means] = run(policy, noise, gain);
            let fixed = if gain > 1.0 { fewest_fixed(noise, gain, claimed) } else { String::new() };
            println!("| {name} | {gain} | {policy:?} | {made:.1} | {claimed:.1}% | {fixed} | {means:.1}% |");
        }
    }
}

#[test]
#[ignore = "prints a table; it judges nothing"]
fn coverage_of_a_ratios_interval() {
    println!(
        "| noise | B's noise | trials | ranks: coverage | width | bootstrap: coverage | width |\n|---|---|---|---|---|---|---|"
    );
    let mut rng = Seed(3).stream("coverage");
    for noise in [Noise::Lognormal, Noise::Tail, Noise::Bimodal, Noise::Outliers] {
        let mut many: Vec<f64> = (0..200_001).map(|_| noise.draw(&mut rng)).collect();
        many.sort_by(f64::total_cmp);
        let centre = many[100_000];
        for wider in [1.0, 3.0] {
            for n in [5, 7, 10, 15] {
                let (mut ranks, mut boot) = (Tally::default(), Tally::default());
                for _ in 0..PAIRS {
                    let mut side = |power: f64| {
                        (0..n).map(|_| (noise.draw(&mut rng) / centre).powf(power)).collect::<Vec<_>>()
                    };
                    let (a, b) = (side(1.0), side(wider));
                    ranks.add(ratio::two_groups(&a, &b, 0.95).and_then(|e| e.interval).unwrap());
                    boot.add(bootstrap::two_groups(&a, &b, 0.95).unwrap());
                }
                println!("| {noise:?} | × {wider} | {n} | {} | {} |", ranks.show(), boot.show());
            }
        }
    }
}

#[derive(Default)]
struct Tally {
    covered: usize,
    widths: Vec<f64>,
}

impl Tally {
    fn add(&mut self, interval: Interval) {
        self.covered += usize::from(interval.low <= 1.0 && 1.0 <= interval.high);
        self.widths.push((interval.high / interval.low).ln());
    }
    fn show(&self) -> String {
        let share = 100.0 * self.covered as f64 / self.widths.len() as f64;
        format!("{share:.1}% | {:.1}%", 100.0 * median(&self.widths).expect("pairs were added"))
    }
}
