//! The runs of a study over time: in which cells the metric changed, between which two runs, and by what
//! factor.
//!
//! Each cell is a series of its own ([`crate::stats::change_points`]), in which a run is one value. The cells
//! of a study are several tests: a cell has changes where the p-value of its strongest split, adjusted as one
//! of them ([`crate::stats::multiplicity`]), is below 1 - confidence, and of its steps those count whose
//! whole interval lies beyond the practical threshold, as in every comparison. Changes of several cells
//! between the same two runs are one.
//!
//! Of fewer runs than [`FEWEST`] nothing tells what runs differ by. The last two are then compared as
//! [`crate::compare_runs`] does, by what their trials differ by, and the history says so.

use crate::compare_runs::{AcrossProvenances, CompareError, compare_runs};
use crate::stats::change_points::{Course, FEWEST, Found, MOST, Search, Step, Value};
use crate::stats::interval::Interval;
use crate::stats::multiplicity;
use crate::summary::{Comparison, RunData, RunSummary, Verdict};
use crate::words::{counted, metric_words, percent, ratio_words};
use domain::ids::{CellId, RunId};
use domain::order;
use domain::outcome::Better;
use domain::time::Timestamp;
use domain::trial::Provenance;
use domain::units::Unit;
use std::collections::BTreeMap;

/// One run with its figures.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// The run.
    pub data: &'a RunData,
    /// Its figures, all runs' by one metric.
    pub summary: &'a RunSummary,
}

/// A run of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dated {
    /// Which run.
    pub id: RunId,
    /// When it was begun.
    pub started: Timestamp,
}

/// A study's runs over time.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The study's name.
    pub study: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// Which way is good.
    pub better: Better,
    /// The practical threshold, as a share.
    pub threshold: f64,
    /// Whether the figures are a model's: its seeds are no sample, so that it has no p-values.
    pub is_model: bool,
    /// The runs, oldest first; at most [`MOST`].
    pub runs: Vec<Dated>,
    /// How many older ones were left out.
    pub left_out: usize,
    /// By what changes were looked for.
    pub by: By,
    /// The changes, oldest first.
    pub changes: Vec<Change>,
    /// The cells that drift: last / first.
    pub drifts: Vec<(CellId, f64)>,
    /// The cells without a change that is claimed, in the order of the plan, with the smallest step that
    /// would have been seen in each, as a share; `None` where nothing tells.
    pub level: Vec<(CellId, Option<f64>)>,
    /// The cells that were measured in too few runs, and in how many.
    pub too_few: Vec<(CellId, usize)>,
    /// What was found, in one sentence.
    pub sentence: String,
}

/// By what changes are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By what runs of one level differ by among themselves.
    Runs,
    /// By what the trials of the last two runs differ by: there are too few runs.
    LastTwo,
}

/// A change between two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The index of the last run before it.
    pub before: usize,
    /// The index of the first run after it.
    pub after: usize,
    /// What changed there, the largest first.
    pub cells: Vec<CellChange>,
}

/// What one cell changed by.
#[derive(Clone, Debug, PartialEq)]
pub struct CellChange {
    /// Which cell.
    pub cell: CellId,
    /// The levels before and after, in the metric's base unit.
    pub levels: (f64, f64),
    /// How many runs have these levels.
    pub runs: (usize, usize),
    /// After / before.
    pub ratio: f64,
    /// Its interval; `None` of a model whose runs are all alike.
    pub interval: Option<Interval>,
    /// How often noise alone gives as much, adjusted for the number of cells; `None` of a model.
    pub p: Option<f64>,
}

impl CellChange {
    /// Whether after is better than before.
    pub fn is_better(&self, better: Better) -> bool {
        (self.ratio > 1.0) == (better == Better::Higher)
    }

    fn size(&self) -> f64 {
        self.ratio.ln().abs()
    }
}

/// Looks for changes in runs of one study, oldest first, which are all of one metric.
///
/// # Errors
/// Those of [`compare_runs`] where there are only two or three runs.
///
/// # Panics
/// Without a run.
pub fn history(runs: &[Judged<'_>]) -> Result<History, CompareError> {
    let left_out = runs.len().saturating_sub(MOST);
    let runs = &runs[left_out..];
    let last = runs.last().expect("a history is of one run at least");
    let summary = last.summary;
    let dated = |run: &Judged<'_>| Dated { id: run.data.run.id.clone(), started: run.data.run.started };
    let mut history = History {
        study: last.data.run.study.clone(),
        metric: summary.metric.clone(),
        unit: summary.unit.clone(),
        better: summary.better,
        threshold: last.data.study.measure.threshold,
        is_model: last.data.run.provenance == Provenance::Simulation,
        runs: runs.iter().map(dated).collect(),
        left_out,
        by: if runs.len() < FEWEST { By::LastTwo } else { By::Runs },
        changes: Vec::new(),
        drifts: Vec::new(),
        level: Vec::new(),
        too_few: Vec::new(),
        sentence: String::new(),
    };
    match (history.by, runs) {
        (By::Runs, _) => history.look(runs, last.data.study.measure.confidence),
        (By::LastTwo, [.., a, b]) => history.compare(a, b)?,
        (By::LastTwo, _) => {}
    }
    history.sentence = history.in_words();
    Ok(history)
}

impl History {
    fn look(&mut self, runs: &[Judged<'_>], confidence: f64) {
        let mut search = Search::new(confidence);
        let mut found: Vec<(CellId, Vec<usize>, Found)> = Vec::new();
        for (cell, series) in series(runs) {
            let (places, values): (Vec<usize>, Vec<Value>) = series.into_iter().unzip();
            match search.found(&values) {
                Some(one) => found.push((cell, places, one)),
                None => self.too_few.push((cell, values.len())),
            }
        }
        let adjusted = multiplicity::adjusted(&found.iter().map(|(.., one)| one.p).collect::<Vec<_>>());
        for ((cell, places, one), adjusted) in found.into_iter().zip(adjusted) {
            let is_claimed = adjusted < 1.0 - confidence;
            let steps = match one.course {
                Course::Drift { ratio } if is_claimed => {
                    self.drifts.push((cell, ratio));
                    continue;
                }
                Course::Steps(steps) if is_claimed => steps,
                Course::Steps(_) | Course::Drift { .. } | Course::Level => Vec::new(),
            };
            let beyond = 1.0 + self.threshold;
            let counts = |step: &Step| step.interval.low > beyond || step.interval.high < 1.0 / beyond;
            let steps: Vec<Step> = steps.into_iter().filter(counts).collect();
            if steps.is_empty() {
                // A step that is smaller than the threshold is none, however little runs differ.
                self.level.push((cell, Some(one.visible.max(0.0) + self.threshold)));
                continue;
            }
            for step in steps {
                let change = CellChange {
                    cell: cell.clone(),
                    levels: step.levels,
                    runs: (step.at - step.from, step.to - step.at),
                    ratio: step.ratio,
                    interval: Some(step.interval).filter(|i| !self.is_model || i.has_width()),
                    p: Some(step.p.max(adjusted)).filter(|_| !self.is_model),
                };
                self.add((places[step.at - 1], places[step.at]), change);
            }
        }
        order::by_key(&mut self.changes, |change| change.after);
        for change in &mut self.changes {
            order::by(&mut change.cells, |a, b| b.size().total_cmp(&a.size()));
        }
    }

    fn compare(&mut self, a: &Judged<'_>, b: &Judged<'_>) -> Result<(), CompareError> {
        let compared = compare_runs(a.data, b.data, Some(&self.metric), AcrossProvenances::Refuse)?;
        let (before, after) = (self.runs.len() - 2, self.runs.len() - 1);
        for found in compared.cells {
            let Comparison { verdict, ratio, interval, p, medians, .. } = found.comparison;
            match (verdict, ratio) {
                (Verdict::Better | Verdict::Worse, Some(ratio)) => {
                    let change =
                        CellChange { cell: found.cell, levels: medians, runs: (1, 1), ratio, interval, p };
                    self.add((before, after), change);
                }
                _ => self.level.push((found.cell, None)),
            }
        }
        Ok(())
    }

    /// Adds what a cell changed by between two runs. A cell that some run has not measured changed somewhere
    /// within a wider gap; where that has another's place within it, they are one change.
    fn add(&mut self, (before, after): (usize, usize), of_cell: CellChange) {
        let overlaps = |change: &&mut Change| before < change.after && change.before < after;
        match self.changes.iter_mut().find(overlaps) {
            Some(change) => {
                change.before = change.before.max(before);
                change.after = change.after.min(after);
                change.cells.push(of_cell);
            }
            None => self.changes.push(Change { before, after, cells: vec![of_cell] }),
        }
    }

    /// Of the cells without a change, the largest of the steps that would have been seen.
    pub fn visible(&self) -> Option<f64> {
        self.level.iter().filter_map(|(_, visible)| *visible).reduce(f64::max)
    }

    fn in_words(&self) -> String {
        let metric = metric_words(&self.metric);
        let runs = counted(self.runs.len(), "run");
        let none = self.changes.is_empty() && self.drifts.is_empty();
        if self.runs.len() < 2 {
            return format!("{runs} of {} is no history; changes of {metric} need {FEWEST} runs", self.study);
        }
        if none && self.by == By::LastTwo {
            return format!("no change of {metric} between the last two runs can be claimed");
        }
        if none && self.level.is_empty() {
            return format!(
                "no cell was measured in {FEWEST} of the {runs}; fewer show no change of {metric}"
            );
        }
        if none {
            let visible = self.visible().map_or_else(String::new, |visible| {
                format!("; a step of {} would have been seen", percent(visible))
            });
            return format!("no change of {metric} over {runs}{visible}");
        }
        let mut parts = Vec::new();
        match &self.changes[..] {
            [] => {}
            [one] => parts.push(format!("{metric} changed once in {runs}: {}", largest(one))),
            [.., newest] => parts.push(format!(
                "{metric} changed {} times in {runs}, last: {}",
                self.changes.len(),
                largest(newest)
            )),
        }
        if !self.drifts.is_empty() {
            parts.push(format!("{} drifted", counted(self.drifts.len(), "cell")));
        }
        parts.join("; ")
    }
}

fn largest(change: &Change) -> String {
    let Some(first) = change.cells.first() else { return String::new() };
    let ratio = ratio_words(first.ratio);
    match change.cells.len() {
        1 => format!("{ratio} times in {}", first.cell),
        cells => format!("{ratio} times in {}, the most of {cells} cells", first.cell),
    }
}

/// Each cell's values with the indices of their runs, in the order in which cells first appear in the newest
/// plan. A run in which a trial gave 0 has no value: that has no logarithm.
fn series(runs: &[Judged<'_>]) -> Vec<(CellId, Vec<(usize, Value)>)> {
    let mut order: Vec<&CellId> = Vec::new();
    let mut all: BTreeMap<&CellId, Vec<(usize, Value)>> = BTreeMap::new();
    for run in runs.iter().rev() {
        for cell in &run.summary.cells {
            if !order.contains(&&cell.cell) {
                order.push(&cell.cell);
            }
        }
    }
    for (index, run) in runs.iter().enumerate() {
        for cell in &run.summary.cells {
            let trials: Vec<f64> = cell.points.iter().map(|point| point.value).collect();
            if let Some(value) = Value::of(&trials) {
                all.entry(&cell.cell).or_default().push((index, value));
            }
        }
    }
    order.into_iter().filter_map(|cell| Some((cell.clone(), all.remove(cell)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarise::summarise;
    use crate::testing::{run, study};
    use domain::rng::Seed;
    use expect_test::expect;

    /// Runs of two cells, 1% apart by chance, each with five trials that differ by 1%. What a run gives of
    /// each cell: by its index.
    fn runs(count: usize, seed: u64, factor: impl Fn(usize, &str) -> f64) -> Vec<RunData> {
        let rng = std::cell::RefCell::new(Seed(seed).stream("noise"));
        let noise = || (0.01 * rng.borrow_mut().normal()).exp();
        let one = |index: usize| {
            let own = noise();
            let mut data = run(study(&[("block", &["4k", "64k"])]), 5, |levels, _| {
                vec![("throughput", 1e8 * own * factor(index, &levels["block"]) * noise())]
            });
            data.run.id = RunId(format!("s-{index}"));
            data
        };
        (0..count).map(one).collect()
    }

    fn of(runs: &[RunData]) -> History {
        let summaries: Vec<RunSummary> = runs.iter().map(|data| summarise(data, None)).collect();
        let judged: Vec<Judged<'_>> =
            runs.iter().zip(&summaries).map(|(data, summary)| Judged { data, summary }).collect();
        history(&judged).unwrap()
    }

    #[test]
    fn cells_that_change_between_the_same_runs_are_one_change() {
        let found = of(&runs(9, 1, |run, block| match (run < 5, block) {
            (true, _) => 1.0,
            (false, "4k") => 0.7,
            (false, _) => 0.85,
        }));
        assert_eq!(found.by, By::Runs);
        let [change] = &found.changes[..] else { panic!("{found:?}") };
        assert_eq!((change.before, change.after), (4, 5));
        let cells: Vec<&str> = change.cells.iter().map(|cell| cell.cell.as_str()).collect();
        assert_eq!(cells, ["w_4k", "w_64k"]);
        assert_eq!(change.cells[0].runs, (5, 4));
        assert!((change.cells[1].ratio - 0.85).abs() < 0.02, "{change:?}");
        assert!(!change.cells[0].is_better(found.better));
        expect!["throughput changed once in 9 runs: 0.70 times in w_4k, the most of 2 cells"]
            .assert_eq(&found.sentence);
    }

    #[test]
    fn cells_that_change_elsewhere_are_changes_of_their_own() {
        let found = of(&runs(12, 2, |run, block| match (run, block) {
            (4.., "4k") | (8.., _) => 0.8,
            _ => 1.0,
        }));
        let places: Vec<(usize, usize, usize)> =
            found.changes.iter().map(|change| (change.before, change.after, change.cells.len())).collect();
        assert_eq!(places, [(3, 4, 1), (7, 8, 1)]);
    }

    #[test]
    fn a_cell_that_a_run_has_not_measured_changes_with_the_others() {
        let mut all = runs(10, 3, |run, _| if run < 5 { 1.0 } else { 0.8 });
        all[5].trials.retain(|trial| trial.key.cell.as_str() != "w_64k");
        let found = of(&all);
        let [change] = &found.changes[..] else { panic!("{found:?}") };
        assert_eq!((change.before, change.after, change.cells.len()), (4, 5, 2));
    }

    #[test]
    fn without_a_change_it_says_what_would_have_been_seen() {
        let found = of(&runs(8, 4, |_, _| 1.0));
        assert!(found.changes.is_empty() && found.level.len() == 2);
        let visible = found.visible().unwrap();
        assert!((0.03..0.1).contains(&visible), "{visible}");
        let said = format!("no change of throughput over 8 runs; a step of {} would", percent(visible));
        assert!(found.sentence.starts_with(&said), "{}", found.sentence);
    }

    #[test]
    fn two_or_three_runs_are_compared_as_two_runs_are_and_one_is_no_history() {
        let found = of(&runs(2, 5, |run, _| if run < 1 { 1.0 } else { 0.8 }));
        assert_eq!((found.by, found.changes.len(), found.changes[0].after), (By::LastTwo, 1, 1));
        let found = of(&runs(3, 5, |_, _| 1.0));
        expect!["no change of throughput between the last two runs can be claimed"]
            .assert_eq(&found.sentence);
        let found = of(&runs(1, 5, |_, _| 1.0));
        expect!["1 run of s is no history; changes of throughput need 4 runs"].assert_eq(&found.sentence);
    }

    #[test]
    fn a_step_below_the_practical_threshold_is_no_change() {
        let mut all = runs(16, 6, |run, _| if run < 8 { 1.0 } else { 0.95 });
        assert_eq!(of(&all).changes.len(), 1);
        all.iter_mut().for_each(|data| data.study.measure.threshold = 0.1);
        let found = of(&all);
        assert!(found.changes.is_empty() && found.visible().unwrap() > 0.1, "{found:?}");
    }

    #[test]
    fn a_drift_has_no_place() {
        let found = of(&runs(14, 7, |run, _| 0.97_f64.powi(run as i32)));
        assert!(found.changes.is_empty(), "{found:?}");
        assert_eq!(found.drifts.len(), 2);
        assert!((found.drifts[0].1 - 0.97_f64.powi(13)).abs() < 0.05, "{found:?}");
    }
}
