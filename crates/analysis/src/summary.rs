//! A run of a study as numbers: what reports show and rules judge.

use crate::published::Beside;
use crate::stats::interval::Interval;
use domain::ids::{CellId, TrialKey};
use domain::outcome::Better;
use domain::study::Study;
use domain::trial::{Run, Trial, Validity};
use domain::units::Unit;
use std::collections::BTreeMap;

/// Everything that is known of one run: the input of every analysis.
#[derive(Clone, Debug)]
pub struct RunData {
    /// The run.
    pub run: Run,
    /// Its study, read from the run's own copy of the file.
    pub study: Study,
    /// Its trials, in the order in which they were measured.
    pub trials: Vec<Trial>,
    /// The cells that the machine could not run, and why.
    pub skipped: BTreeMap<CellId, String>,
}

/// One valid trial's value.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Which trial.
    pub key: TrialKey,
    /// In the metric's base unit.
    pub value: f64,
}

/// A trial that was not counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Excluded {
    /// Which trial.
    pub key: TrialKey,
    /// Its value all the same, where it has one.
    pub value: Option<f64>,
    /// Why it does not count.
    pub validity: Validity,
}

/// One cell by one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSummary {
    /// Which cell.
    pub cell: CellId,
    /// Its workload.
    pub workload: String,
    /// Factor name to level name.
    pub levels: BTreeMap<String, String>,
    /// The valid trials, in the order of measurement.
    pub points: Vec<Point>,
    /// The others.
    pub excluded: Vec<Excluded>,
    /// The median; `None` without a valid trial.
    pub median: Option<f64>,
    /// The order-statistic interval of the median; `None` where there are too few trials for its confidence.
    pub interval: Option<Interval>,
    /// Smallest and largest value.
    pub range: Option<(f64, f64)>,
    /// Robust spread: the interquartile range as a share of the median.
    pub spread: Option<f64>,
    /// The median relative to the best cell of the same workload, which is 1: 0.8 means "20% worse",
    /// whichever way is good.
    pub relative: Option<f64>,
    /// Why there is no trial that counts, where it is not that all failed or were disturbed.
    pub lack: Option<Lack>,
}

/// Why a cell has nothing to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Its machine could not run it, and why.
    NotPossible(String),
    /// It has valid trials, and none of them reports the metric.
    NotReported,
}

impl Lack {
    /// In a few words, for a table.
    pub fn short(&self) -> &'static str {
        match self {
            Self::NotPossible(_) => "not possible here",
            Self::NotReported => "not reported",
        }
    }
}

/// What can be said of two groups of trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// B is better than A: the interval clears both no difference and the practical threshold.
    Better,
    /// B is worse than A, likewise.
    Worse,
    /// The whole interval lies within the practical threshold: as good as equal.
    Same,
    /// No difference can be claimed, and none excluded: the interval is too wide.
    Undecided,
}

/// B against A.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What A is called.
    pub a: String,
    /// What B is called.
    pub b: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// Which way is good.
    pub better: Better,
    /// Trials of A and of B.
    pub trials: (usize, usize),
    /// Median of A and of B.
    pub medians: (f64, f64),
    /// By what factor B differs from A: the Hodges–Lehmann estimate, which is the ratio of the medians where
    /// the noise has one shape on both sides (see [`crate::stats::ratio`]). `None` where a median is not
    /// above zero: what was 0 and is not any more, has no ratio.
    pub ratio: Option<f64>,
    /// Its interval; `None` where a side has too few trials.
    pub interval: Option<Interval>,
    /// The interval of the ratio of the medians by resampling, which asks nothing of the noise's shape and is
    /// wider for it (see [`crate::stats::bootstrap`]): a second line of evidence that no verdict rests on;
    /// `None` likewise.
    pub bootstrap: Option<Interval>,
    /// The p-value of the permutation test; `None` likewise.
    pub p: Option<f64>,
    /// The practical threshold it was judged by.
    pub threshold: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict in words, with its numbers.
    pub sentence: String,
    /// Of a model, how many seeds each side has at least: it has no p-value, and no interval where all of
    /// them give the same. `None` of what was measured.
    pub seeds: Option<usize>,
}

impl Comparison {
    /// Whether B is not better than A by more than the threshold, as far as the interval tells.
    pub fn excludes_gain(&self) -> bool {
        let worth = 1.0 + self.threshold;
        self.interval.is_some_and(|interval| match self.better {
            Better::Higher => interval.high < worth,
            Better::Lower => interval.low > 1.0 / worth,
        })
    }

    /// The interval of the ratio; of a model whose seeds all give the same, the ratio itself.
    pub fn extent(&self) -> Option<(f64, f64)> {
        let interval = self.interval.map(|interval| (interval.low, interval.high));
        let is_certain = matches!(self.verdict, Verdict::Better | Verdict::Worse | Verdict::Same);
        let of_seeds = || self.seeds.filter(|_| is_certain).and(self.ratio);
        interval.or_else(|| of_seeds().map(|ratio| (ratio, ratio)))
    }
}

/// The levels of a factor held against each other, within one combination of everything else.
#[derive(Clone, Debug, PartialEq)]
pub struct FactorEffect {
    /// Which factor; `workload` for the workloads themselves is never compared.
    pub factor: String,
    /// The workload and the other factors' levels that were held fixed, as text: `seqread, block 64k`.
    pub context: String,
    /// Each other level against the factor's first.
    pub comparisons: Vec<Comparison>,
}

/// How much of the variance of a workload's values one factor, or a pair of them, explains.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribution {
    /// Of which workload.
    pub workload: String,
    /// One factor's name, two joined by ` × `, or `residual`.
    pub source: String,
    /// Share of the variance of the logarithms, 0..=1.
    pub share: f64,
}

/// A run as numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// The metric that decides.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// Which way is good.
    pub better: Better,
    /// In the order of the plan.
    pub cells: Vec<CellSummary>,
    /// Each factor's effect in each context.
    pub effects: Vec<FactorEffect>,
    /// Which factor explains how much; most first within a workload.
    pub attribution: Vec<Attribution>,
    /// The A/A floor: the difference, as a share, that identical trials of this run show among themselves
    /// (95th percentile over random halves); `None` where there are too few trials.
    pub aa_floor: Option<f64>,
    /// The cells beside what others published of them; empty where the study has none of that.
    pub published: Vec<Beside>,
    /// The answer in one sentence.
    pub verdict: String,
}
