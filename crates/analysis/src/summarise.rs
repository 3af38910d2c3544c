//! A run of a study as numbers, and the answer to its question.

use crate::answer;
use crate::compare::{Blocks, Conditions, Group, Yardstick, compare_family};
use crate::published::{Beside, beside, withdraw_far_off};
use crate::stats::attribution::{FactorCell, shares};
use crate::stats::floor::aa_floor;
use crate::stats::median_interval::median_interval;
use crate::stats::quantile::{median, quantile, relative_iqr};
use crate::summary::{
    Attribution, CellSummary, Comparison, Excluded, FactorEffect, Lack, Point, RunData, RunSummary,
};
use domain::ids::{CellId, TrialKey};
use domain::order;
use domain::outcome::{Better, Metric};
use domain::per_work;
use domain::plan::Plan;
use domain::trial::Trial;
use domain::units::Unit;
use std::collections::{BTreeMap, BTreeSet};

/// What a metric is, and which way is good.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricKind {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Which way is good.
    pub better: Better,
}

/// Sums up a run by one metric: the one asked for, else the one that its study decides by.
pub fn summarise(data: &RunData, metric: Option<&str>) -> RunSummary {
    let metric = metric_kind(data, metric.unwrap_or(&data.study.measure.metric));
    let mut cells = cells_by(data, &metric);
    relate_to_best(&mut cells, metric.better);
    let published = beside(data);
    let effects = effects(data, &cells, &metric, &published);
    let values: Vec<Vec<f64>> = cells.iter().map(values).collect();
    let mut summary = RunSummary {
        attribution: attribution(data, &cells),
        aa_floor: aa_floor(values.iter().map(Vec::as_slice), data.run.seed),
        metric: metric.name,
        unit: metric.unit,
        better: metric.better,
        cells,
        effects,
        published,
        verdict: String::new(),
    };
    summary.verdict = answer::of_run(data, &summary);
    summary
}

/// The median of a metric over a cell's valid trials; `None` where none reports it.
pub fn median_of(data: &RunData, cell: &CellId, metric: &str) -> Option<f64> {
    let trials: Vec<&Trial> = data.trials.iter().filter(|trial| trial.key.cell == *cell).collect();
    let (points, _) = sorted_out(&trials, metric);
    median(&points.iter().map(|point| point.value).collect::<Vec<_>>())
}

/// The levels of one factor against its first, in every context that the study measured.
pub fn compare_levels(data: &RunData, factor: &str, metric: Option<&str>) -> Vec<FactorEffect> {
    let mut effects = summarise(data, metric).effects;
    effects.retain(|effect| effect.factor == factor);
    effects
}

/// What the run's trials say that a metric is; by its name alone where none reports it.
pub fn metric_kind(data: &RunData, name: &str) -> MetricKind {
    let reported = data.trials.iter().find_map(|t| t.measurement.as_ref()?.outcome.metrics.get(name));
    let (unit, better) = match reported {
        Some(Metric { unit, better, .. }) => (unit.clone(), *better),
        None if name.starts_with("latency") || name == "elapsed" => (Unit::Seconds, Better::Lower),
        None if name.ends_with("iops") => (Unit::PerSecond, Better::Higher),
        None => match per_work::metric(name, 0.0) {
            Some(known) => (known.unit, known.better),
            None => (Unit::BytesPerSecond, Better::Higher),
        },
    };
    MetricKind { name: name.to_owned(), unit, better }
}

/// The cells in the order of the plan; then those that only trials know, as an imported run's.
pub(crate) fn cells_by(data: &RunData, metric: &MetricKind) -> Vec<CellSummary> {
    let planned = Plan::new(data.study.clone(), data.run.seed).map(|plan| plan.cells).unwrap_or_default();
    let planned = planned.into_iter().map(|cell| (cell.id, cell.workload.name, cell.levels));
    let measured = data.trials.iter().map(|t| (t.key.cell.clone(), t.workload.clone(), t.levels.clone()));
    let mut by_cell: BTreeMap<&CellId, Vec<&Trial>> = BTreeMap::new();
    for trial in &data.trials {
        by_cell.entry(&trial.key.cell).or_default().push(trial);
    }
    let mut seen = BTreeSet::new();
    let new = planned.chain(measured).filter(|(id, ..)| seen.insert(id.clone()));
    new.map(|(id, workload, levels)| {
        let trials = by_cell.get(&id).map_or(&[][..], Vec::as_slice);
        let (points, excluded) = sorted_out(trials, &metric.name);
        let lack = lack(data, &id, trials, &points);
        cell_summary(
            CellSummary { points, excluded, lack, ..empty_cell(id, workload, levels) },
            data.study.measure.confidence,
        )
    })
    .collect()
}

fn lack(data: &RunData, cell: &CellId, trials: &[&Trial], points: &[Point]) -> Option<Lack> {
    let not_reported = || trials.iter().any(|trial| trial.validity.is_valid()).then_some(Lack::NotReported);
    match data.skipped.get(cell) {
        _ if !points.is_empty() => None,
        Some(why) if trials.is_empty() => Some(Lack::NotPossible(why.clone())),
        _ => not_reported(),
    }
}

/// Valid values, one for each block, and everything else.
fn sorted_out(trials: &[&Trial], metric: &str) -> (Vec<Point>, Vec<Excluded>) {
    let mut points: Vec<Point> = Vec::new();
    let mut excluded = Vec::new();
    for trial in trials {
        let key = trial.key.clone();
        let value = trial.metric(metric).filter(|value| value.is_finite());
        match value.filter(|_| trial.validity.is_valid()) {
            Some(value) if !points.iter().any(|p: &Point| p.key.block == key.block) => {
                points.push(Point { key, value })
            }
            _ if !trial.validity.is_spoilt() => {}
            _ => excluded.push(Excluded { key, value, validity: trial.validity.clone() }),
        }
    }
    (points, excluded)
}

fn empty_cell(cell: CellId, workload: String, levels: BTreeMap<String, String>) -> CellSummary {
    CellSummary {
        cell,
        workload,
        levels,
        points: vec![],
        excluded: vec![],
        median: None,
        interval: None,
        range: None,
        spread: None,
        relative: None,
        lack: None,
    }
}

fn cell_summary(cell: CellSummary, confidence: f64) -> CellSummary {
    let values = values(&cell);
    CellSummary {
        median: median(&values),
        interval: median_interval(&values, confidence),
        range: quantile(&values, 0.0).zip(quantile(&values, 1.0)),
        spread: relative_iqr(&values),
        ..cell
    }
}

/// The values of a cell's valid trials.
pub(crate) fn values(cell: &CellSummary) -> Vec<f64> {
    cell.points.iter().map(|p| p.value).collect()
}

/// Fills in each cell's median relative to the best of its workload.
fn relate_to_best(cells: &mut [CellSummary], better: Better) {
    let mut best: BTreeMap<String, f64> = BTreeMap::new();
    for cell in cells.iter() {
        let Some(median) = cell.median else { continue };
        let best = best.entry(cell.workload.clone()).or_insert(median);
        *best = if better == Better::Higher { best.max(median) } else { best.min(median) };
    }
    for cell in cells {
        let Some((median, best)) = cell.median.zip(best.get(&cell.workload)) else { continue };
        let (part, whole) = if better == Better::Higher { (median, *best) } else { (*best, median) };
        // The best is 1, also where it is 0.
        cell.relative = if part == whole { Some(1.0) } else { (whole > 0.0).then_some(part / whole) };
    }
}

/// Every factor in every context, judged together as one family of comparisons.
fn effects(
    data: &RunData,
    cells: &[CellSummary],
    metric: &MetricKind,
    published: &[Beside],
) -> Vec<FactorEffect> {
    let mut effects = Vec::new();
    let mut pairs = Vec::new();
    for factor in &data.study.factors {
        for (context, members) in contexts(cells, &factor.name) {
            let at = |level: &str| members.iter().find(|cell| cell.levels[&factor.name] == level);
            let mut levels =
                factor.levels.iter().filter_map(|level| Some((level.name.as_str(), at(&level.name)?)));
            let Some((first, baseline)) = levels.next() else { continue };
            let group = |name, cell: &CellSummary| (name, cell.cell.clone());
            let against: Vec<_> =
                levels.map(|(name, cell)| (group(first, baseline), group(name, cell))).collect();
            effects.push((factor.name.clone(), context, against.len()));
            pairs.extend(against);
        }
    }
    let points: BTreeMap<&CellId, &[Point]> = cells.iter().map(|c| (&c.cell, c.points.as_slice())).collect();
    let groups: Vec<(Group<'_>, Group<'_>)> = pairs
        .iter()
        .map(|((a, a_cell), (b, b_cell))| {
            (Group { name: a, points: points[a_cell] }, Group { name: b, points: points[b_cell] })
        })
        .collect();
    let mut compared = compare_family(&groups, &yardstick(data, metric));
    for (comparison, ((_, a), (_, b))) in compared.iter_mut().zip(&pairs) {
        let judged = comparison.as_mut();
        judged.into_iter().for_each(|comparison| withdraw_far_off(published, (a, b), comparison));
    }
    let mut compared = compared.into_iter();
    let mut take = |count: usize| -> Vec<Comparison> { compared.by_ref().take(count).flatten().collect() };
    let with_comparisons = effects.into_iter().map(|(factor, context, count)| FactorEffect {
        factor,
        context,
        comparisons: take(count),
    });
    with_comparisons.filter(|effect| !effect.comparisons.is_empty()).collect()
}

fn yardstick<'a>(data: &RunData, metric: &'a MetricKind) -> Yardstick<'a> {
    Yardstick {
        metric: &metric.name,
        unit: metric.unit.clone(),
        better: metric.better,
        confidence: data.study.measure.confidence,
        threshold: data.study.measure.threshold,
        blocks: Blocks::Shared,
        under: Conditions::of(data),
    }
}

/// The cells that have a level of the factor, by the workload and the other levels: `seqread, block 64k`. In
/// the order of the plan.
pub(crate) fn contexts<'a>(cells: &'a [CellSummary], factor: &str) -> Vec<(String, Vec<&'a CellSummary>)> {
    let mut contexts: Vec<(String, Vec<&CellSummary>)> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.levels.contains_key(factor)) {
        let others = cell.levels.iter().filter(|(name, _)| *name != factor);
        let parts = std::iter::once(cell.workload.clone())
            .chain(others.map(|(name, level)| format!("{name} {level}")));
        let context = parts.collect::<Vec<_>>().join(", ");
        match contexts.iter_mut().find(|(known, _)| *known == context) {
            Some((_, members)) => members.push(cell),
            None => contexts.push((context, vec![cell])),
        }
    }
    contexts
}

/// For each workload, what its factors explain, most first.
fn attribution(data: &RunData, cells: &[CellSummary]) -> Vec<Attribution> {
    data.study.workloads.iter().flat_map(|workload| workload_attribution(&workload.name, cells)).collect()
}

fn workload_attribution(workload: &str, cells: &[CellSummary]) -> Vec<Attribution> {
    let of_workload: Vec<&CellSummary> = cells.iter().filter(|cell| cell.workload == workload).collect();
    let Some(first) = of_workload.first() else { return Vec::new() };
    let factors: Vec<&String> = first.levels.keys().collect();
    let logs = |cell: &CellSummary| values(cell).into_iter().filter(|v| *v > 0.0).map(f64::ln).collect();
    let measured: Vec<FactorCell<'_>> = of_workload
        .iter()
        .map(|cell| FactorCell {
            levels: cell.levels.values().map(String::as_str).collect(),
            values: logs(cell),
        })
        .collect();
    // One cell shows no effect of anything, and one trial of each no noise to hold an effect against.
    let several = measured.iter().filter(|cell| !cell.values.is_empty()).count() > 1;
    let repeated = measured.iter().any(|cell| cell.values.len() > 1);
    if factors.is_empty() || !several || !repeated {
        return Vec::new();
    }
    let source = |term: &[usize]| match term {
        [] => "residual".to_owned(),
        factor => factor.iter().map(|f| factors[*f].as_str()).collect::<Vec<_>>().join(" × "),
    };
    let shares = shares(&measured).into_iter();
    let mut rows: Vec<Attribution> = shares
        .map(|(term, share)| Attribution { workload: workload.to_owned(), source: source(&term), share })
        .collect();
    order::by(&mut rows, |a, b| b.share.total_cmp(&a.share));
    rows
}

/// Where a cell's trials are, for a finding's evidence: its first and last key.
pub(crate) fn keys(cell: &CellSummary) -> String {
    let folder = |point: &Point| TrialKey::folder(&point.key);
    match (cell.points.first().map(folder), cell.points.last().map(folder)) {
        (Some(first), Some(last)) if first != last => format!("trials {first} to {last}"),
        (Some(only), _) => format!("trial {only}"),
        _ => format!("cell {}", cell.cell),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Verdict;
    use crate::testing::{failed, run, study};
    use domain::trial::Disturbance;
    use expect_test::expect;

    /// Noise of about one percent that is not the same in any two cells.
    fn noise(seed: u32, block: u32) -> f64 {
        1.0 + f64::from((block * 7 + seed * 5) % 11) / 1000.0
    }

    fn two_factors() -> RunData {
        let study = study(&[("block", &["4k", "64k"]), ("governor", &["ondemand", "performance"])]);
        run(study, 6, |levels, block| {
            let block_size = if levels["block"] == "64k" { 3.9 } else { 1.0 };
            let seed =
                u32::from(levels["governor"] == "performance") + 2 * u32::from(levels["block"] == "64k");
            vec![
                ("throughput", 100e6 * block_size * noise(seed, block)),
                ("latency_mean", 0.001 / block_size),
            ]
        })
    }

    #[test]
    fn the_answer_is_about_the_factor_that_is_asked_about() {
        let mut data = two_factors();
        data.study.primary = vec!["governor".into()];
        expect!["no factor makes a difference above 2%: at most, performance gives 1.000 times the throughput of ondemand in w, block 64k"].assert_eq(&summarise(&data, None).verdict);
        data.study.primary = vec![];
        data.study.question = "Does the block size decide?".into();
        assert!(summarise(&data, None).verdict.starts_with("block decides"));
        assert!(!summarise(&data, None).verdict.contains("governor makes"));
    }

    #[test]
    fn a_factor_that_is_asked_about_and_was_not_varied_is_not_answered_for_by_another() {
        let mut data = two_factors();
        data.study.primary = vec!["governor".into()];
        data.trials.retain(|trial| trial.levels["governor"] == "ondemand");
        let verdict = summarise(&data, None).verdict;
        assert!(verdict.starts_with("nothing can be said of governor"), "{verdict}");
        assert!(verdict.contains("of the rest, block decides"), "{verdict}");
    }

    #[test]
    fn an_answer_from_trials_under_load_says_so() {
        let mut data = two_factors();
        let load = Disturbance { kind: "other-load".into(), detail: "others used 0.5 CPUs".into() };
        data.trials[3].measurement.as_mut().unwrap().disturbances.push(load);
        let verdict = summarise(&data, None).verdict;
        assert!(verdict.starts_with("under load: block decides"), "{verdict}");
    }

    #[test]
    fn the_deciding_factor_is_named_with_its_numbers() {
        let summary = summarise(&two_factors(), None);
        expect!["block decides: 64k gives 3.90 times the throughput of 4k (95% interval 3.88 to 3.92) in w, governor ondemand; governor makes no difference above 2%"].assert_eq(&summary.verdict);
    }

    #[test]
    fn cells_come_in_the_plans_order_and_relate_to_the_best() {
        let summary = summarise(&two_factors(), None);
        let names: Vec<_> = summary.cells.iter().map(|c| c.cell.as_str()).collect();
        assert_eq!(names, ["w_4k_ondemand", "w_4k_performance", "w_64k_ondemand", "w_64k_performance"]);
        assert!(summary.cells.iter().any(|c| c.relative == Some(1.0)));
        assert!((summary.cells[0].relative.unwrap() - 1.0 / 3.9).abs() < 0.01);
        assert_eq!(summary.cells[0].points.len(), 6);
        assert!(summary.cells[0].interval.is_some());
    }

    #[test]
    fn less_latency_is_the_best() {
        let summary = summarise(&two_factors(), Some("latency_mean"));
        assert_eq!(summary.better, Better::Lower);
        assert_eq!(summary.cells[2].relative, Some(1.0));
        assert!((summary.cells[0].relative.unwrap() - 1.0 / 3.9).abs() < 1e-9);
    }

    #[test]
    fn each_factor_is_compared_in_each_context() {
        let summary = summarise(&two_factors(), None);
        let seen: Vec<_> = summary
            .effects
            .iter()
            .map(|e| (e.factor.as_str(), e.context.as_str(), e.comparisons[0].verdict))
            .collect();
        assert_eq!(
            seen,
            [
                ("block", "w, governor ondemand", Verdict::Better),
                ("block", "w, governor performance", Verdict::Better),
                ("governor", "w, block 4k", Verdict::Same),
                ("governor", "w, block 64k", Verdict::Same),
            ]
        );
        assert_eq!(compare_levels(&two_factors(), "governor", None).len(), 2);
    }

    #[test]
    fn attribution_gives_the_deciding_factor_nearly_all() {
        let summary = summarise(&two_factors(), None);
        assert_eq!(summary.attribution[0].source, "block");
        assert!(summary.attribution[0].share > 0.99);
        let sources: BTreeSet<_> = summary.attribution.iter().map(|a| a.source.as_str()).collect();
        assert_eq!(sources, BTreeSet::from(["block", "governor", "block × governor", "residual"]));
    }

    #[test]
    fn nothing_is_attributed_from_single_trials_or_a_single_cell() {
        let mut once = two_factors();
        once.trials.retain(|trial| trial.key.block == 0);
        assert_eq!(summarise(&once, None).attribution, vec![]);
        let mut alone = two_factors();
        let cell = alone.trials[0].key.cell.clone();
        alone.trials.retain(|trial| trial.key.cell == cell);
        assert_eq!(summarise(&alone, None).attribution, vec![]);
    }

    #[test]
    fn what_failed_is_excluded_and_named() {
        let mut data = two_factors();
        let key = TrialKey { attempt: 1, ..data.trials[0].key.clone() };
        data.trials.push(failed(key.clone()));
        let summary = summarise(&data, None);
        let cell = summary.cells.iter().find(|c| c.cell == key.cell).unwrap();
        assert_eq!((cell.points.len(), cell.excluded.len()), (6, 1));
        assert_eq!(cell.excluded[0].key, key);
    }

    #[test]
    fn a_second_valid_trial_of_a_block_does_not_count_twice() {
        let mut data = two_factors();
        let again =
            Trial { key: TrialKey { attempt: 1, ..data.trials[0].key.clone() }, ..data.trials[0].clone() };
        data.trials.push(again);
        assert!(summarise(&data, None).cells.iter().all(|c| c.points.len() == 6));
    }

    #[test]
    fn a_run_without_trials_has_cells_and_says_that_nothing_was_measured() {
        let data = run(study(&[("block", &["4k", "64k"])]), 0, |_, _| vec![]);
        let summary = summarise(&data, None);
        assert_eq!((summary.cells.len(), summary.aa_floor, summary.effects.len()), (2, None, 0));
        expect!["nothing has been measured yet"].assert_eq(&summary.verdict);
        assert!(summary.cells.iter().all(|cell| cell.lack.is_none()));
    }

    #[test]
    fn cells_that_could_not_be_run_or_do_not_report_say_so() {
        let mut data = run(study(&[("block", &["4k", "64k"])]), 0, |_, _| vec![]);
        let cells: Vec<CellId> = summarise(&data, None).cells.into_iter().map(|cell| cell.cell).collect();
        data.skipped = cells.iter().map(|cell| (cell.clone(), "no array".to_owned())).collect();
        let summary = summarise(&data, None);
        assert!(summary.cells.iter().all(|cell| cell.lack == Some(Lack::NotPossible("no array".into()))));
        expect!["nothing was measured: this machine cannot run any of the 2 cells"]
            .assert_eq(&summary.verdict);
        let silent = summarise(&two_factors(), Some("joules"));
        assert!(silent.cells.iter().all(|cell| cell.lack == Some(Lack::NotReported)));
        // What was measured before counts, whatever cannot be run now.
        let mut measured = two_factors();
        measured.skipped = [(measured.trials[0].key.cell.clone(), "no array".to_owned())].into();
        assert!(summarise(&measured, None).cells.iter().all(|cell| cell.lack.is_none()));
    }

    #[test]
    fn a_metric_that_nobody_reports_is_said_to_be_absent() {
        expect!["no trial reports `joules`; what they report is `latency_mean` and `throughput`"]
            .assert_eq(&summarise(&two_factors(), Some("joules")).verdict);
    }

    #[test]
    fn a_study_where_nothing_matters_says_so() {
        let data = run(study(&[("governor", &["a", "b"])]), 8, |levels, block| {
            vec![("throughput", 1e8 * noise(u32::from(levels["governor"] == "a"), block))]
        });
        expect![
            "no factor makes a difference above 2%: at most, b gives 1.000 times the throughput of a in w"
        ]
        .assert_eq(&summarise(&data, None).verdict);
    }

    #[test]
    fn a_study_too_short_to_tell_says_what_it_lacks() {
        let data = run(study(&[("governor", &["a", "b"])]), 2, |_, block| {
            vec![("throughput", 1e8 * noise(0, block))]
        });
        expect!["whether governor matters cannot be told yet: b has 1.000 times the throughput of a (2 against 2 trials); an interval needs more trials, such as 4 on each side for 95%"].assert_eq(&summarise(&data, None).verdict);
    }

    #[test]
    fn a_study_without_factors_reports_its_medians() {
        let data = run(study(&[]), 6, |_, block| vec![("throughput", 57e6 * noise(1, block))]);
        expect!["median throughput: w 57.3 MB/s (95% interval 57.0 MB/s to 57.5 MB/s, 6 trials)"]
            .assert_eq(&summarise(&data, None).verdict);
    }
}
