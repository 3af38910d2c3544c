//! What `flyball compare --history` shows: where a metric changed over the runs of a study, what may have
//! caused it, and the experiment that would tell.

use crate::inventory::page::{Page, Spacing};
use crate::wording::capitalised;
use analysis::causes::{Cause, Experiment, Replayed, Share, Side, Standing, Told};
use analysis::history::{By, CellChange, Change, Dated, History};
use analysis::stats::change_points::FEWEST;
use analysis::words::{counted, listed, metric_words, percent, ratio_words};
use domain::units::Unit;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The version of the JSON form.
const SCHEMA: u32 = 1;

/// Cells of a change that a screen shows; JSON has all.
const ON_A_SCREEN: usize = 8;

/// A history with what may have caused its changes.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryReport<'a> {
    /// What changed.
    pub history: &'a History,
    /// How many runs of the study are no part of it, since they are of another machine.
    pub others: usize,
    /// Of each change, what may have caused it, what explains most first; and the experiments that tell, the
    /// one that needs least first.
    pub explained: Vec<(Vec<Cause>, Vec<Experiment>)>,
    /// That the figures are a model's.
    pub note: Option<String>,
}

/// A screen of this width; `program` is how this program is typed.
pub fn text(report: &HistoryReport<'_>, program: &str, width: usize) -> String {
    let history = report.history;
    let mut page = Page::new(width, Spacing::None);
    page.section("History");
    page.line(head(history));
    let names: BTreeSet<&str> = names(history).collect();
    page.line(capitalised(&history.sentence, &names));
    notes(report).into_iter().for_each(|note| page.line(note));
    for (change, (causes, experiments)) in history.changes.iter().zip(&report.explained) {
        page.section("Change");
        dates(history, change).into_iter().for_each(|line| page.line(line));
        cells(history, change).into_iter().for_each(|line| page.line(line));
        page.section("Causes");
        if causes.is_empty() {
            page.line("nothing that is recorded differs between these two runs");
        }
        for (cause, number) in causes.iter().zip(1..) {
            page.line(format!("{number}. {}", difference(cause)));
            evidence(cause).into_iter().for_each(|line| page.line(format!("   {line}")));
        }
        page.section("Next");
        for experiment in experiments {
            page.line(&experiment.what);
            experiment.commands.iter().for_each(|command| page.command(command));
            page.line(&experiment.reading);
        }
    }
    if let (true, By::Runs, Some(last)) = (history.changes.is_empty(), history.by, history.runs.last()) {
        page.section("Next");
        page.line("the newest run alone, which is no change until another confirms it:");
        page.command(&format!("{program} compare {}", last.id));
    }
    page.finish()
}

fn head(history: &History) -> String {
    let runs = counted(history.runs.len(), "run");
    match (history.runs.first(), history.runs.last()) {
        (Some(first), Some(last)) if history.runs.len() > 1 => {
            format!("{}: {runs} from {} to {}", history.study, moment(first), moment(last))
        }
        _ => format!("{}: {runs}", history.study),
    }
}

fn names(history: &History) -> impl Iterator<Item = &str> {
    let cells = history.changes.iter().flat_map(|change| &change.cells).map(|cell| cell.cell.as_str());
    cells.chain([history.study.as_str()])
}

fn notes(report: &HistoryReport<'_>) -> Vec<String> {
    let history = report.history;
    let mut notes: Vec<String> = report.note.clone().into_iter().collect();
    if history.by == By::LastTwo && history.runs.len() > 1 {
        notes.push(format!(
            "{} do not tell what runs differ by: the last two are compared by what their trials differ by. From {FEWEST} runs on \
changes are told from that.",
            counted(history.runs.len(), "run")
        ));
    }
    if history.left_out > 0 {
        notes.push(format!("{} older ones are left out.", history.left_out));
    }
    if report.others > 0 {
        notes.push(format!("Not part of it: {} of other machines.", counted(report.others, "run")));
    }
    if !history.drifts.is_empty() {
        let drifts =
            history.drifts.iter().map(|(cell, ratio)| format!("{} times in {cell}", ratio_words(*ratio)));
        notes.push(format!(
            "Drift, with no one place, from the first run to the last: {}.",
            listed(&drifts.collect::<Vec<_>>())
        ));
    }
    if !history.too_few.is_empty() {
        let cells = history.too_few.iter().map(|(cell, runs)| format!("{cell} ({runs})"));
        notes.push(format!("Measured in fewer than {FEWEST} runs: {}.", listed(&cells.collect::<Vec<_>>())));
    }
    if !history.changes.is_empty() && !history.level.is_empty() {
        let visible = history.visible().map_or_else(String::new, |visible| {
            format!("; a step of {} would have been seen in each", percent(visible))
        });
        notes.push(format!("No change in {}{visible}.", counted(history.level.len(), "other cell")));
    }
    notes
}

/// `2026-11-20 14:05`.
fn moment(run: &Dated) -> String {
    run.started.iso().chars().take("2026-11-20T14:05".len()).collect::<String>().replace('T', " ")
}

fn dates(history: &History, change: &Change) -> [String; 2] {
    let line = |word: &str, at: usize| {
        let run = &history.runs[at];
        format!("{word} {} ({})", run.id, moment(run))
    };
    [line("last before:", change.before), line("first after:", change.after)]
}

/// A line for each cell below a header.
fn cells(history: &History, change: &Change) -> Vec<String> {
    let show = |value: f64| history.unit.show(value);
    let row = |one: &CellChange| {
        let interval = one
            .interval
            .map_or_else(|| "–".to_owned(), |i| format!("{} to {}", ratio_words(i.low), ratio_words(i.high)));
        let levels = format!("{} to {}", show(one.levels.0), show(one.levels.1));
        [ratio_words(one.ratio), interval, p(one), levels, one.cell.to_string()]
    };
    let confidence = change.cells.iter().find_map(|cell| cell.interval).map_or(0.95, |i| i.confidence);
    let of = metric_words(&history.metric);
    let head = [
        "times".to_owned(),
        format!("{} interval", percent(confidence)),
        "p".to_owned(),
        of,
        "cell".to_owned(),
    ];
    let rows: Vec<[String; 5]> =
        std::iter::once(head).chain(change.cells.iter().take(ON_A_SCREEN).map(row)).collect();
    let widths: Vec<usize> =
        (0..4).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    let line = |row: &[String; 5]| {
        let cells = row[..4].iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}  {}", cells.collect::<Vec<_>>().join("  "), row[4])
    };
    let more = change.cells.len().saturating_sub(ON_A_SCREEN);
    let more = (more > 0).then(|| format!("and {more} more, with --json"));
    rows.iter().map(line).chain(more).collect()
}

fn p(one: &CellChange) -> String {
    match one.p {
        None => "model".to_owned(),
        Some(p) if p < 0.001 => "< 0.001".to_owned(),
        Some(p) => format!("{p:.3}"),
    }
}

/// `kernel: 6.1.0, then 6.12.9`.
fn difference(cause: &Cause) -> String {
    let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
    let of = &cause.difference;
    format!("{}: {}, then {}", of.what, side(&of.a), side(&of.b))
}

/// What speaks for a difference, a sentence each.
fn evidence(cause: &Cause) -> Vec<String> {
    let replayed = match &cause.replayed {
        Replayed::Share(share, cell) => {
            let word = match cause.standing {
                Standing::Little => "; little",
                Standing::NotKnown | Standing::Diagnosed => "; it may be none of it",
                Standing::Predicted => "",
            };
            let all = if share.value > 1.0 { "all and more, " } else { "" };
            let share = share_words(*share);
            Some(format!("predicted: undone alone it brings back {all}{share} of the change of {cell}{word}"))
        }
        Replayed::Not(why) => Some(format!("no prediction: {why}")),
        Replayed::No => None,
    };
    let told = cause.told.iter().map(|Told { rule, title, of }| {
        let side = match of {
            Side::Before => "before",
            Side::After => "after",
        };
        format!("rule {rule}, {side} alone: {title}")
    });
    let cleared =
        cause.cleared_by.as_ref().map(|run| format!("{run} had it the other way, without the change"));
    let not_known = (cause.standing == Standing::NotKnown && cause.replayed == Replayed::No)
        .then(|| "what it explains is not known".to_owned());
    replayed.into_iter().chain(told).chain(cleared).chain(not_known).collect()
}

/// `94% (60% to 130%)`.
fn share_words(share: Share) -> String {
    let whole = |share: f64| format!("{:.0}%", share * 100.0);
    format!("{} ({} to {})", whole(share.value), whole(share.low), whole(share.high))
}

/// The same, all of it, as JSON.
pub fn json(report: &HistoryReport<'_>) -> String {
    let history = report.history;
    let run = |run: &Dated| json!({ "run": run.id.to_string(), "started": run.started.iso() });
    let changes: Vec<Value> = history
        .changes
        .iter()
        .zip(&report.explained)
        .map(|(change, explained)| change_json(history, change, explained))
        .collect();
    let value = json!({
        "schema": SCHEMA,
        "kind": "history",
        "study": history.study,
        "metric": history.metric,
        "unit": unit(&history.unit),
        "threshold": history.threshold,
        "verdict": history.sentence,
        "by": match history.by { By::Runs => "runs", By::LastTwo => "last-two" },
        "simulation": report.note,
        "runs": history.runs.iter().map(run).collect::<Vec<_>>(),
        "left_out": history.left_out,
        "of_other_machines": report.others,
        "changes": changes,
        "drifts": history.drifts.iter().map(|(cell, ratio)| json!({ "cell": cell.as_str(), "ratio": ratio })).collect::<Vec<_>>(),
        "unchanged": history.level.iter().map(|(cell, visible)| json!({ "cell": cell.as_str(), "visible_share": visible })).collect::<Vec<_>>(),
        "too_few_runs": history.too_few.iter().map(|(cell, runs)| json!({ "cell": cell.as_str(), "runs": runs })).collect::<Vec<_>>(),
    });
    domain::inert::json(&format!("{value:#}\n")).into_owned()
}

fn unit(unit: &Unit) -> Value {
    serde_json::to_value(unit).unwrap_or(Value::Null)
}

fn change_json(
    history: &History,
    change: &Change,
    (causes, experiments): &(Vec<Cause>, Vec<Experiment>),
) -> Value {
    let cell = |one: &CellChange| {
        json!({
            "cell": one.cell.as_str(),
            "before": one.levels.0,
            "after": one.levels.1,
            "runs_before": one.runs.0,
            "runs_after": one.runs.1,
            "ratio": one.ratio,
            "ratio_low": one.interval.map(|i| i.low),
            "ratio_high": one.interval.map(|i| i.high),
            "confidence": one.interval.map(|i| i.confidence),
            "p": one.p,
            "better": one.is_better(history.better),
        })
    };
    let experiment =
        |one: &Experiment| json!({ "what": one.what, "commands": one.commands, "reading": one.reading });
    json!({
        "before": history.runs[change.before].id.to_string(),
        "after": history.runs[change.after].id.to_string(),
        "cells": change.cells.iter().map(cell).collect::<Vec<_>>(),
        "causes": causes.iter().map(cause_json).collect::<Vec<_>>(),
        "experiments": experiments.iter().map(experiment).collect::<Vec<_>>(),
    })
}

fn cause_json(cause: &Cause) -> Value {
    let (share, why) = match &cause.replayed {
        Replayed::Share(Share { low, value, high }, cell) => {
            let of = json!({ "cell": cell.as_str(), "share": value, "share_low": low, "share_high": high });
            (Some(of), None)
        }
        Replayed::Not(why) => (None, Some(why)),
        Replayed::No => (None, None),
    };
    let told = |one: &Told| {
        json!({
            "rule": one.rule,
            "title": one.title,
            "only": match one.of { Side::Before => "before", Side::After => "after" },
        })
    };
    json!({
        "what": cause.difference.what,
        "before": cause.difference.a,
        "after": cause.difference.b,
        "standing": match cause.standing {
            Standing::Predicted => "predicted",
            Standing::Diagnosed => "diagnosed",
            Standing::NotKnown => "not-known",
            Standing::Little => "little",
        },
        "predicted": share,
        "no_prediction": why,
        "cleared_by": cause.cleared_by.as_ref().map(ToString::to_string),
        "rules": cause.told.iter().map(told).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::compare_runs::Difference;
    use analysis::stats::interval::Interval;
    use domain::ids::{CellId, RunId};
    use domain::outcome::Better;
    use domain::time::Timestamp;
    use expect_test::expect;

    fn history() -> History {
        let run = |day: i64| Dated {
            id: RunId(format!("raid10-202611{day:02}-090000-7f3a")),
            started: Timestamp::from_civil(2026, 11, day, 9 * 3600).unwrap(),
        };
        let cell = |name: &str, ratio: f64| CellChange {
            cell: CellId::from_stored(name),
            levels: (7.8e8, 7.8e8 * ratio),
            runs: (4, 3),
            ratio,
            interval: Some(Interval { low: ratio - 0.02, high: ratio + 0.02, confidence: 0.95 }),
            p: Some(0.0004),
        };
        History {
            study: "raid10".into(),
            metric: "throughput".into(),
            unit: Unit::BytesPerSecond,
            better: Better::Higher,
            threshold: 0.02,
            is_model: false,
            runs: (1..8).map(run).collect(),
            left_out: 0,
            by: By::Runs,
            changes: vec![Change {
                before: 3,
                after: 4,
                cells: vec![cell("randwrite", 0.8), cell("randread", 0.86)],
            }],
            drifts: vec![],
            level: vec![(CellId::from_stored("seqread"), Some(0.04))],
            too_few: vec![],
            sentence: "throughput changed once in 7 runs: 0.80 times in randwrite, the most of 2 cells"
                .into(),
        }
    }

    fn cause(what: &str, replayed: Replayed, standing: Standing) -> Cause {
        let difference = Difference { what: what.into(), a: Some("old".into()), b: Some("new".into()) };
        Cause { difference, replayed, told: vec![], cleared_by: None, standing }
    }

    fn report(history: &History) -> HistoryReport<'_> {
        let share = Share { low: 0.4, value: 0.93, high: 1.5 };
        let governor = Replayed::Share(share, CellId::from_stored("randread"));
        let told = Told { rule: "governor", title: "the CPUs stay slow".into(), of: Side::After };
        let cleared_by = Some(RunId("raid10-20261102-090000-7f3a".into()));
        let causes = vec![
            Cause { told: vec![told], ..cause("governor", governor, Standing::Predicted) },
            cause("kernel", Replayed::No, Standing::NotKnown),
            Cause { cleared_by, ..cause("microcode", Replayed::No, Standing::Little) },
        ];
        let experiment = Experiment {
            what: "governor as before and as after, all else as it is now:".into(),
            commands: vec!["flyball new raid10-cause --from raid10.toml --levels governor=old,new".into()],
            reading: "As much between the levels as the change: it was governor.".into(),
        };
        HistoryReport { history, others: 2, explained: vec![(causes, vec![experiment])], note: None }
    }

    #[test]
    fn a_change_is_shown_with_its_causes_in_eighty_columns() {
        let history = history();
        let text = text(&report(&history), "flyball", 80);
        expect![[r#"
            History      raid10: 7 runs from 2026-11-01 09:00 to 2026-11-07 09:00
                         Throughput changed once in 7 runs: 0.80 times in randwrite, the
                           most of 2 cells
                         Not part of it: 2 runs of other machines.
                         No change in 1 other cell; a step of 4% would have been seen in
                           each.
            Change       last before: raid10-20261104-090000-7f3a (2026-11-04 09:00)
                         first after: raid10-20261105-090000-7f3a (2026-11-05 09:00)
                         times  95% interval  p        throughput            cell
                         0.80   0.78 to 0.82  < 0.001  780 MB/s to 624 MB/s  randwrite
                         0.86   0.84 to 0.88  < 0.001  780 MB/s to 671 MB/s  randread
            Causes       1. governor: old, then new
                            predicted: undone alone it brings back 93% (40% to 150%) of the
                              change of randread
                            rule governor, after alone: the CPUs stay slow
                         2. kernel: old, then new
                            what it explains is not known
                         3. microcode: old, then new
                            raid10-20261102-090000-7f3a had it the other way, without the
                              change
            Next         governor as before and as after, all else as it is now:
                flyball new raid10-cause --from raid10.toml --levels governor=old,new
                         As much between the levels as the change: it was governor.
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn json_has_the_figures_and_no_cause_is_more_than_predicted() {
        let history = history();
        let value: Value = serde_json::from_str(&json(&report(&history))).unwrap();
        let change = &value["changes"][0];
        assert_eq!(change["before"], "raid10-20261104-090000-7f3a");
        assert_eq!(
            (&change["cells"][0]["ratio"], &change["cells"][0]["better"]),
            (&json!(0.8), &json!(false))
        );
        assert_eq!(change["causes"][0]["predicted"]["share"], 0.93);
        let standings = ["predicted", "not-known", "little"];
        for (cause, standing) in change["causes"].as_array().unwrap().iter().zip(standings) {
            assert_eq!(cause["standing"], standing);
        }
        assert_eq!(value["unchanged"][0], json!({ "cell": "seqread", "visible_share": 0.04 }));
    }

    #[test]
    fn without_a_change_the_newest_run_leads_on() {
        let history = History { changes: vec![], sentence: "no change".into(), ..history() };
        let report = HistoryReport { history: &history, others: 0, explained: vec![], note: None };
        let text = text(&report, "flyball", 80);
        assert!(text.ends_with("\n    flyball compare raid10-20261107-090000-7f3a\n"), "{text}");
    }
}
