//! A run beside what others published of its study's cells.
//!
//! A figure of ours is a cell's median with its order-statistic interval ([`crate::stats::median_interval`]);
//! a relation is the ratio of two cells with its interval, by the estimator of every other comparison
//! ([`crate::compare`]). It agrees where the whole interval lies where the row says, and does not where none
//! of it does; between the two, and without an interval, it is undecided. A model has no noise but its
//! seeds': where a simulation has too few trials for an interval, the range of those it has takes its place.
//! This is the reading of a confidence interval as a pair of one-sided tests (Schuirmann, Journal of
//! Pharmacokinetics and Biopharmaceutics 15, 1987), here at half of 1 - confidence each.
//!
//! Each row is judged by itself: of many, one in twenty may miss by chance at 0.95.

use crate::compare::{Blocks, Conditions, Group, Yardstick, compare};
use crate::stats::interval::Interval;
use crate::summarise::{cells_by, metric_kind};
use crate::summary::{CellSummary, Comparison, RunData, Verdict};
use crate::words::{metric_words, ratio_words};
use domain::ids::CellId;
use domain::plan::{Cell, Plan};
use domain::published::{Figure, Published, Subject};
use domain::rng::Seed;
use domain::study::Study;
use domain::trial::Provenance;
use domain::units::Unit;
use std::collections::BTreeMap;

/// One published row beside one cell of ours, or one relation of two.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// What it is about: `small, governor ondemand over governor performance`.
    pub what: String,
    /// The cell.
    pub cell: CellId,
    /// The cell that it is divided by, where a relation was published.
    pub over: Option<CellId>,
    /// Where it was published.
    pub source: String,
    /// The metric.
    pub metric: String,
    /// What its figures are counted in; a relation is a plain ratio, whatever this says.
    pub unit: Unit,
    /// What was published.
    pub published: Figure,
    /// What this run gives; `None` where a cell of it has no valid trial.
    pub ours: Option<Ours>,
    /// Ours over the published value or bound; `None` where there is neither, or nothing of ours.
    pub ratio: Option<Estimate>,
    /// Whether the two agree.
    pub agrees: Agreement,
    /// What the row says besides.
    pub note: Option<String>,
}

/// What a run gives for a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ours {
    /// The figure.
    pub figure: Estimate,
    /// Valid trials of the cell, and of the one that it is divided by.
    pub trials: (usize, Option<usize>),
    /// What agreement is judged by, from where to where: the interval, or a simulation's range.
    pub extent: Option<(f64, f64)>,
}

/// A figure with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Its interval; `None` where there are too few trials.
    pub interval: Option<Interval>,
}

/// Whether ours and what was published agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agreement {
    /// All that ours is judged by ([`Ours::extent`]) lies where the row says.
    Yes,
    /// None of it does.
    No,
    /// Some of it does, or there are too few trials for an interval.
    Undecided,
    /// The run has no valid trial of it.
    NotMeasured,
}

/// A model that gives so many times what was published of a cell, or so small a part of it, leaves out what
/// decides there: nothing is concluded from that cell. Differences below it are named, and judged by the row.
pub const FAR_OFF: f64 = 2.0;

impl Beside {
    /// Whether a model is so far from what was published that nothing is concluded from it.
    pub fn is_far_off(&self) -> bool {
        let far = |ratio: Estimate| !(1.0 / FAR_OFF..=FAR_OFF).contains(&ratio.value);
        self.agrees == Agreement::No && self.ratio.is_some_and(far)
    }

    /// Whether it is about one of these cells, or about the relation of the two.
    pub(crate) fn is_about(&self, (a, b): (&CellId, &CellId)) -> bool {
        match &self.over {
            None => self.cell == *a || self.cell == *b,
            Some(over) => (&self.cell, over) == (a, b) || (&self.cell, over) == (b, a),
        }
    }

    /// How far off: `the model gives 6.97 times the throughput that was published of dd, governor ondemand`.
    pub fn how_far_off(&self) -> String {
        let ratio = self.ratio.map(|ratio| ratio_words(ratio.value)).unwrap_or_default();
        let metric = metric_words(&self.metric);
        format!("the model gives {ratio} times the {metric} that was published of {}", self.what)
    }
}

/// Takes back the verdict on two cells of a model of which it gives what is far from what was published.
pub(crate) fn withdraw_far_off(rows: &[Beside], cells: (&CellId, &CellId), comparison: &mut Comparison) {
    let far_off = rows.iter().find(|row| row.is_far_off() && row.is_about(cells));
    if let Some(row) = far_off.filter(|_| comparison.seeds.is_some()) {
        comparison.verdict = Verdict::Undecided;
        comparison.sentence =
            format!("no conclusion: {}, more than {FAR_OFF} times apart", row.how_far_off());
    }
}

/// Every row of the study beside the cells of the run that it is about, in the order of the study and of the
/// plan.
pub fn beside(data: &RunData) -> Vec<Beside> {
    if data.study.published.is_empty() {
        return Vec::new();
    }
    // A study without a plan, or a row without a cell, is no study that was read.
    let Ok(plan) = Plan::new(data.study.clone(), data.run.seed) else { return Vec::new() };
    let mut measured: BTreeMap<&str, BTreeMap<CellId, CellSummary>> = BTreeMap::new();
    for row in &data.study.published {
        measured.entry(&row.metric).or_insert_with(|| {
            let cells = cells_by(data, &metric_kind(data, &row.metric));
            cells.into_iter().map(|cell| (cell.cell.clone(), cell)).collect()
        });
    }
    let of_row = |row: &Published| -> Vec<Beside> {
        let subjects = row.subjects(&plan.cells).unwrap_or_default();
        let cells = &measured[row.metric.as_str()];
        subjects.into_iter().map(|subject| beside_one(data, row, subject, cells)).collect()
    };
    data.study.published.iter().flat_map(of_row).collect()
}

fn beside_one(
    data: &RunData,
    row: &Published,
    subject: Subject<'_>,
    cells: &BTreeMap<CellId, CellSummary>,
) -> Beside {
    let ours = match subject.over {
        None => cells.get(&subject.cell.id).and_then(|cell| median_of(data, cell)),
        Some(over) => {
            cells.get(&over.id).zip(cells.get(&subject.cell.id)).and_then(|(a, b)| ratio_of(data, row, a, b))
        }
    };
    let over_published = |ours: Ours| divided(ours.figure, row.figure.reference()?);
    let (ratio, agrees) = (ours.and_then(over_published), agreement(row.figure, ours));
    Beside { ours, ratio, agrees, ..unmeasured_one(&data.study, row, subject) }
}

/// Every row of a study with the cells that it is about, and nothing measured: in the order of [`beside`].
pub(crate) fn unmeasured(study: &Study) -> Vec<Beside> {
    let Ok(plan) = Plan::new(study.clone(), Seed(0)) else { return Vec::new() };
    let of_row = |row: &Published| -> Vec<Beside> {
        let subjects = row.subjects(&plan.cells).unwrap_or_default();
        subjects.into_iter().map(|subject| unmeasured_one(study, row, subject)).collect()
    };
    study.published.iter().flat_map(of_row).collect()
}

fn unmeasured_one(study: &Study, row: &Published, subject: Subject<'_>) -> Beside {
    Beside {
        what: what(study, subject),
        cell: subject.cell.id.clone(),
        over: subject.over.map(|over| over.id.clone()),
        source: row.source.clone(),
        metric: row.metric.clone(),
        unit: row.unit.clone(),
        published: row.figure,
        ratio: None,
        agrees: Agreement::NotMeasured,
        ours: None,
        note: row.note.clone(),
    }
}

fn median_of(data: &RunData, cell: &CellSummary) -> Option<Ours> {
    let figure = Estimate { value: cell.median?, interval: cell.interval };
    Some(Ours {
        figure,
        trials: (cell.points.len(), None),
        extent: extent(data, figure.interval, cell.range),
    })
}

fn extent(data: &RunData, interval: Option<Interval>, range: Option<(f64, f64)>) -> Option<(f64, f64)> {
    let of_seeds = || range.filter(|_| data.run.provenance == Provenance::Simulation);
    interval.map(|interval| (interval.low, interval.high)).or_else(of_seeds)
}

fn ratio_of(data: &RunData, row: &Published, a: &CellSummary, b: &CellSummary) -> Option<Ours> {
    let kind = metric_kind(data, &row.metric);
    let by = Yardstick {
        metric: &row.metric,
        unit: kind.unit,
        better: kind.better,
        confidence: data.study.measure.confidence,
        threshold: data.study.measure.threshold,
        blocks: Blocks::Shared,
        under: Conditions::of(data),
    };
    let group = |points| Group { name: "", points };
    let compared = compare(group(&a.points), group(&b.points), &by)?;
    // Over a cell whose median is zero there is no ratio.
    let figure = Estimate { value: compared.ratio?, interval: compared.interval };
    let range = a.range.zip(b.range).map(|(a, b)| (b.0 / a.1, b.1 / a.0));
    let range = range.filter(|(low, high)| low.is_finite() && high.is_finite());
    Some(Ours {
        figure,
        trials: (b.points.len(), Some(a.points.len())),
        extent: extent(data, figure.interval, range),
    })
}

fn divided(figure: Estimate, by: f64) -> Option<Estimate> {
    let interval = |i: Interval| Interval { low: i.low / by, high: i.high / by, ..i };
    let interval = figure.interval.map(interval).filter(|i| i.wholly(f64::is_finite));
    let value = Some(figure.value / by).filter(|value| value.is_finite())?;
    Some(Estimate { value, interval })
}

fn agreement(published: Figure, ours: Option<Ours>) -> Agreement {
    let (low, high) = published.accepted();
    match ours.map(|ours| ours.extent) {
        None => Agreement::NotMeasured,
        Some(Some((least, most))) if low <= least && most <= high => Agreement::Yes,
        Some(Some((least, most))) if most < low || high < least => Agreement::No,
        Some(_) => Agreement::Undecided,
    }
}

/// `small, depth 1, governor ondemand`, factors in the order of the study; of the cell that it is divided by,
/// only what differs.
pub(crate) fn what(study: &Study, subject: Subject<'_>) -> String {
    let factors = || study.factors.iter().map(|factor| &factor.name);
    let level =
        |cell: &Cell, factor: &String| cell.levels.get(factor).map(|level| format!("{factor} {level}"));
    let Subject { cell, over } = subject;
    let own = factors().filter_map(|factor| level(cell, factor));
    let mut text = std::iter::once(cell.workload.name.clone()).chain(own).collect::<Vec<_>>().join(", ");
    if let Some(over) = over {
        let workload = (over.workload.name != cell.workload.name).then(|| over.workload.name.clone());
        let differs = |factor: &&String| over.levels.get(*factor) != cell.levels.get(*factor);
        let levels = factors().filter(differs).filter_map(|factor| level(over, factor));
        text += &format!(" over {}", workload.into_iter().chain(levels).collect::<Vec<_>>().join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, study};
    use domain::published::Selection;

    fn selection(levels: &[(&str, &str)]) -> Selection {
        let levels = levels.iter().map(|(f, l)| ((*f).to_owned(), (*l).to_owned())).collect();
        Selection { workload: None, levels }
    }

    fn row(level: &str, metric: &str, figure: Figure) -> Published {
        Published {
            source: "a paper".into(),
            of: selection(&[("governor", level)]),
            over: None,
            metric: metric.into(),
            unit: Unit::BytesPerSecond,
            figure,
            note: None,
        }
    }

    fn governors(published: Vec<Published>) -> Study {
        Study { published, ..study(&[("governor", &["performance", "ondemand"])]) }
    }

    /// Trials of 50 and 10 MB/s that vary by ±4%.
    fn measured(study: Study, blocks: u32) -> RunData {
        run(study, blocks, |levels, block| {
            let middle = if levels["governor"] == "performance" { 50e6 } else { 10e6 };
            let noise = 0.96 + 0.01 * f64::from((block * 5 + u32::from(middle > 2e7)) % 9);
            vec![("throughput", middle * noise), ("latency_mean", 1e4 / middle * noise)]
        })
    }

    fn one(row: Published, blocks: u32) -> Beside {
        let mut found = beside(&measured(governors(vec![row]), blocks));
        assert_eq!(found.len(), 1);
        found.remove(0)
    }

    #[test]
    fn nothing_is_concluded_from_a_model_that_is_far_from_what_was_published() {
        use crate::summarise::summarise;
        let value = |value: f64| Figure::Value { value, low: value * 0.9, high: value * 1.1 };
        let verdict = |published: f64, provenance| {
            let row = row("ondemand", "throughput", value(published));
            let mut data = measured(governors(vec![row]), 6);
            data.run.provenance = provenance;
            summarise(&data, None).verdict
        };
        let far = verdict(70e6, Provenance::Simulation);
        assert_eq!(
            far,
            "no conclusion: the model gives 0.14 times the throughput that was published of w, governor ondemand, more than 2 times apart"
        );
        for (published, provenance) in [(14e6, Provenance::Simulation), (70e6, Provenance::Host)] {
            let near = verdict(published, provenance);
            assert!(near.starts_with("governor decides: ondemand gives 0.20 times"), "{near}");
        }
    }

    #[test]
    fn a_relation_that_a_model_misses_is_no_conclusion_and_other_pairs_still_are() {
        use crate::summarise::summarise;
        let mut relation = row("ondemand", "throughput", Figure::AtLeast(0.9));
        relation.over = Some(selection(&[("governor", "performance")]));
        let study = Study {
            published: vec![relation],
            ..study(&[("governor", &["performance", "ondemand", "powersave"])])
        };
        let mut data = measured(study, 6);
        data.run.provenance = Provenance::Simulation;
        let summary = summarise(&data, None);
        let verdicts: Vec<Verdict> = summary.effects[0].comparisons.iter().map(|c| c.verdict).collect();
        assert_eq!(verdicts, [Verdict::Undecided, Verdict::Worse]);
        assert!(summary.verdict.contains("powersave gives 0.20 times"), "{}", summary.verdict);
        assert!(summary.verdict.contains("no conclusion from the rest"), "{}", summary.verdict);
    }

    #[test]
    fn a_study_without_rows_has_nothing_beside_it() {
        assert!(beside(&measured(governors(vec![]), 6)).is_empty());
    }

    #[test]
    fn a_value_stands_beside_the_median_and_its_interval() {
        let got = one(row("performance", "throughput", Figure::within(50e6, 0.1)), 9);
        let ours = got.ours.unwrap();
        assert_eq!((got.what.as_str(), got.agrees), ("w, governor performance", Agreement::Yes));
        assert_eq!(ours.trials, (9, None));
        assert!((ours.figure.value - 50e6).abs() < 1.0, "{}", ours.figure.value);
        let (interval, ratio) = (ours.figure.interval.unwrap(), got.ratio.unwrap());
        assert!((ratio.value - 1.0).abs() < 1e-9);
        assert!((ratio.interval.unwrap().low - interval.low / 50e6).abs() < 1e-9);
    }

    #[test]
    fn the_whole_interval_decides() {
        let agrees = |figure| one(row("performance", "throughput", figure), 9).agrees;
        assert_eq!(agrees(Figure::within(40e6, 0.1)), Agreement::No);
        assert_eq!(agrees(Figure::within(60e6, 0.1)), Agreement::No);
        // Its interval goes from 48.5 to 51.5.
        assert_eq!(agrees(Figure::within(45e6, 0.1)), Agreement::Undecided);
        assert_eq!(agrees(Figure::AtLeast(45e6)), Agreement::Yes);
        assert_eq!(agrees(Figure::AtLeast(50e6)), Agreement::Undecided);
        assert_eq!(agrees(Figure::AtMost(45e6)), Agreement::No);
        assert_eq!(agrees(Figure::Between { low: 45e6, high: 60e6 }), Agreement::Yes);
        assert_eq!(
            one(row("performance", "throughput", Figure::Between { low: 1.0, high: 2.0 }), 9).ratio,
            None
        );
    }

    #[test]
    fn too_few_trials_decide_nothing_and_none_are_said_to_be_none() {
        let few = one(row("performance", "throughput", Figure::within(50e6, 0.1)), 3);
        assert_eq!((few.agrees, few.ours.unwrap().figure.interval), (Agreement::Undecided, None));
        let none = one(row("performance", "throughput", Figure::within(50e6, 0.1)), 0);
        assert_eq!((none.agrees, none.ours, none.ratio), (Agreement::NotMeasured, None, None));
        let unreported = one(row("performance", "joules", Figure::within(5.0, 0.1)), 9);
        assert_eq!(unreported.agrees, Agreement::NotMeasured);
    }

    #[test]
    fn a_model_with_too_few_trials_for_an_interval_is_judged_by_all_of_them() {
        // Three seeds lie between 48 and 52 MB/s and are told to be no interval.
        let of_model = |figure, level, over: bool| {
            let row = row(level, "throughput", figure);
            let over = over.then(|| selection(&[("governor", "performance")]));
            let mut data = measured(governors(vec![Published { over, ..row }]), 3);
            data.run.provenance = Provenance::Simulation;
            beside(&data).remove(0)
        };
        let within = of_model(Figure::within(50e6, 0.1), "performance", false);
        assert_eq!((within.agrees, within.ours.unwrap().figure.interval), (Agreement::Yes, None));
        assert_eq!(of_model(Figure::AtLeast(60e6), "performance", false).agrees, Agreement::No);
        let one_is_there = of_model(Figure::within(50e6, 0.001), "performance", false);
        assert_eq!(one_is_there.agrees, Agreement::Undecided);
        assert_eq!(of_model(Figure::within(0.2, 0.2), "ondemand", true).agrees, Agreement::Yes);
        assert_eq!(of_model(Figure::AtLeast(1.0), "ondemand", true).agrees, Agreement::No);
    }

    #[test]
    fn a_row_may_be_about_another_metric_than_the_studys() {
        let got = one(row("ondemand", "latency_mean", Figure::AtMost(2e-3)), 9);
        assert_eq!(got.agrees, Agreement::Yes);
        assert!((got.ours.unwrap().figure.value - 1e-3).abs() < 1e-9);
    }

    #[test]
    fn a_relation_is_the_ratio_of_two_cells() {
        let over = Some(selection(&[("governor", "performance")]));
        let got = one(Published { over, ..row("ondemand", "throughput", Figure::within(0.1, 0.2)) }, 9);
        let ours = got.ours.unwrap();
        assert_eq!(got.what, "w, governor ondemand over governor performance");
        assert_eq!((got.agrees, ours.trials), (Agreement::No, (9, Some(9))));
        assert!((ours.figure.value - 0.2).abs() < 0.01, "{}", ours.figure.value);
        assert!((got.ratio.unwrap().value - 2.0).abs() < 0.1);
    }

    #[test]
    fn a_row_that_leaves_a_factor_out_is_about_each_level() {
        let all = Published { of: Selection::default(), ..row("", "throughput", Figure::AtLeast(20e6)) };
        let got = beside(&measured(governors(vec![all]), 9));
        let agrees: Vec<Agreement> = got.iter().map(|one| one.agrees).collect();
        assert_eq!(agrees, [Agreement::Yes, Agreement::No]);
    }
}
