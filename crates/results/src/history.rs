//! A study's runs over time, and what may have caused each change: differences between the runs on either
//! side of it, undone one at a time in replays.

use crate::over_time::alike;
use crate::{Error, Replayable, Result, Results, Warn};
use analysis::causes::{Cause, Cleared, DRIVER, Evidence, Experiment, Share, Undone, ranked};
use analysis::compare_runs::{Difference, differences};
use analysis::history::{CellChange, Change, History, Judged, history};
use domain::ids::{CellId, RunId};
use domain::order;
use domain::setting::{SettingName, SettingRequest};
use domain::trial::Trial;
use notebook::Notebook;
use replay::{Machine, Prediction, Replay};
use report::history::HistoryReport;
use std::collections::{BTreeMap, BTreeSet};

/// A study's runs, oldest first, with what changed.
pub struct Past {
    runs: Vec<Results>,
    /// What changed.
    pub history: History,
    /// How many finished runs of the study are of another machine, or of another kind, and are no part of it.
    pub others: usize,
}

/// Of how many cells of a change a trial is replayed, the largest changes first: a replay takes a second or
/// two.
const MOST_REPLAYED: usize = 6;

impl Past {
    /// The runs of the named run's study up to that run, on its machine, by one metric: the one asked for,
    /// else the study's.
    ///
    /// # Errors
    /// Where a run cannot be read, none is finished, or the last two have no cell in common.
    pub fn load(notebook: &Notebook, id: &RunId, metric: Option<&str>, warn: Warn) -> Result<Self> {
        let last = notebook.run(id)?.started;
        let (mut runs, others) = alike(notebook, id, metric, warn)?;
        runs.retain(|run| run.data.run.started <= last);
        order::by(&mut runs, |a, b| {
            let key = |run: &Results| (run.data.run.started, run.data.run.id.clone());
            key(a).cmp(&key(b))
        });
        if runs.is_empty() {
            return Err(Error::NoneFinished(notebook.run(id)?.study));
        }
        let judged: Vec<Judged<'_>> =
            runs.iter().map(|run| Judged { data: &run.data, summary: &run.summary }).collect();
        let history = history(&judged)?;
        Ok(Self { runs, history, others })
    }

    /// The newest run.
    pub fn last(&self) -> &Results {
        self.runs.last().expect("a history has a run")
    }

    /// As the report crate takes it; `experiments` makes the experiments that tell causes apart.
    pub fn report(
        &self,
        notebook: &Notebook,
        warn: Warn,
        experiments: impl Fn(&[Cause]) -> Vec<Experiment>,
    ) -> HistoryReport<'_> {
        let explained = self.history.changes.iter().map(|change| {
            let causes = self.causes(notebook, change, warn);
            let experiments = experiments(&causes);
            (causes, experiments)
        });
        let note = report::simulation_note(&self.last().data.run);
        HistoryReport { history: &self.history, others: self.others, explained: explained.collect(), note }
    }

    /// The runs on either side of a change.
    fn sides(&self, change: &Change) -> (&Results, &Results) {
        let at = |index: usize| &self.runs[self.history.left_out + index];
        (at(change.before), at(change.after))
    }

    /// What may have caused a change, what explains most first. What cannot be replayed says why.
    fn causes(&self, notebook: &Notebook, change: &Change, warn: Warn) -> Vec<Cause> {
        let (a, b) = self.sides(change);
        let mut undone = Vec::new();
        for cell in change.cells.iter().take(MOST_REPLAYED) {
            if let Some(of_cell) = of_cell(a, b, &cell.cell) {
                let policies = policies(&of_cell);
                undone.extend(replayed(notebook, &of_cell, &policies, cell, &self.history.metric, warn));
            }
        }
        let differences = all_differences(a, b, change);
        let cleared = self.cleared(change, &differences);
        let evidence =
            Evidence { undone: &undone, cleared: &cleared, before: &a.findings, after: &b.findings };
        ranked(differences, &evidence)
    }

    /// Which differences a run of either level clears: it had what the other side has.
    fn cleared(&self, change: &Change, differences: &[Difference]) -> Vec<Cleared> {
        let (a, b) = self.sides(change);
        // Of several cells the shortest level: all of them were at it.
        let fewest = |side: fn(&CellChange) -> usize| change.cells.iter().map(side).min().unwrap_or(0);
        let (before, after) = (fewest(|cell| cell.runs.0), fewest(|cell| cell.runs.1));
        let earlier = (change.before + 1).saturating_sub(before)..change.before;
        let later = change.after + 1..(change.after + after).min(self.history.runs.len());
        let at = |index: usize| &self.runs[self.history.left_out + index];
        let mut cleared = Vec::new();
        for (run, other, is_earlier) in
            earlier.map(|index| (at(index), b, true)).chain(later.map(|index| (at(index), a, false)))
        {
            let (first, second) = if is_earlier { (run, other) } else { (other, run) };
            let still = all_differences(first, second, change);
            let is_gone = |one: &&Difference| still.iter().all(|known| known.what != one.what);
            let by = |one: &Difference| Cleared { what: one.what.clone(), by: run.data.run.id.clone() };
            cleared.extend(differences.iter().filter(is_gone).map(by));
        }
        cleared
    }
}

/// Everything that differs between two runs: their environment, the settings that the study made in the cells
/// of a change, and the policies in force there, which win over what trials saw of them.
fn all_differences(a: &Results, b: &Results, change: &Change) -> Vec<Difference> {
    let mut all = differences(&a.data, &b.data);
    for of_cell in change.cells.iter().filter_map(|cell| of_cell(a, b, &cell.cell)) {
        let of_policies = policies(&of_cell).into_iter().map(|policy| policy.difference);
        for difference in of_policies.chain(of_cell.settings()) {
            all.retain(|known| known.what != difference.what);
            all.push(difference);
        }
    }
    all
}

/// A trial of a cell on either side.
struct OfCell<'r> {
    a: (&'r Results, &'r Trial),
    b: (&'r Results, &'r Trial),
}

fn of_cell<'r>(a: &'r Results, b: &'r Results, cell: &CellId) -> Option<OfCell<'r>> {
    let first = |results: &'r Results| {
        let counts = |trial: &&Trial| trial.key.cell == *cell && trial.validity.is_valid();
        Some((results, results.data.trials.iter().find(counts)?))
    };
    Some(OfCell { a: first(a)?, b: first(b)? })
}

impl OfCell<'_> {
    /// Settings that the study made, other than those of CPUs.
    fn settings(&self) -> Vec<Difference> {
        let made = |trial: &Trial| -> BTreeMap<String, String> {
            let others = trial.settings.iter().filter(|made| !replay::is_of_cpus(&made.setting.name));
            others.map(|made| (made.setting.to_string(), made.got.trim().to_owned())).collect()
        };
        let (of_a, of_b) = (made(self.a.1), made(self.b.1));
        let names: BTreeSet<&String> = of_a.keys().chain(of_b.keys()).collect();
        let differ = names.into_iter().filter(|name| of_a.get(*name) != of_b.get(*name));
        let difference = |name: &String| Difference {
            what: name.clone(),
            a: of_a.get(name).cloned(),
            b: of_b.get(name).cloned(),
        };
        differ.map(difference).collect()
    }
}

/// A difference of frequency policy or idle states, and how it is undone.
struct Policy {
    difference: Difference,
    undo: Undo,
}

/// How a difference is undone in a replay.
enum Undo {
    /// By these settings.
    Settings(Vec<SettingRequest>),
    /// By the other machine's policy as a whole.
    Whole(Box<Machine>),
}

/// What a setting is where an inventory does not have it.
const UNSEEN: [(&str, &str); 2] = [("turbo", "1"), ("hwp_dynamic_boost", "0")];

/// How the policies in force differ; nothing where a machine's is not known.
fn policies(of: &OfCell<'_>) -> Vec<Policy> {
    let machine =
        |(results, trial): (&Results, &Trial)| Machine::of(results.machine()?, &trial.settings).ok();
    let (Some(a), Some(b)) = (machine(of.a), machine(of.b)) else { return Vec::new() };
    if a.spec.cpu.driver != b.spec.cpu.driver {
        let named = |machine: &Machine| {
            let governor = value(&machine.in_force, "governor");
            Some(format!("{} with {}", machine.spec.cpu.driver.name(), governor.unwrap_or("no governor")))
        };
        let difference = Difference { what: DRIVER.to_owned(), a: named(&a), b: named(&b) };
        return vec![Policy { difference, undo: Undo::Whole(Box::new(a)) }];
    }
    let known = |machine: &Machine| machine.in_force.iter().map(|one| one.setting.name.clone()).collect();
    let (of_a, of_b): (BTreeSet<String>, BTreeSet<String>) = (known(&a), known(&b));
    let policy = |name: &String| {
        let unseen = UNSEEN.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
        let old = value(&a.in_force, name).or(unseen)?;
        let new = value(&b.in_force, name).or(unseen)?;
        let difference = Difference { what: name.clone(), a: Some(old.to_owned()), b: Some(new.to_owned()) };
        (old != new).then(|| Policy { difference, undo: Undo::Settings(undo(name, old, &a, &of_b)) })
    };
    of_a.union(&of_b).filter_map(policy).collect()
}

/// A setting as it was. A governor comes with those of its tunables that the other one does not have.
fn undo(name: &str, old: &str, a: &Machine, known_after: &BTreeSet<String>) -> Vec<SettingRequest> {
    let mut settings = vec![SettingRequest { setting: SettingName::parse(name), value: old.to_owned() }];
    if name == "governor" {
        let own = format!("{old}.");
        let of_it = |one: &&SettingRequest| {
            one.setting.name.starts_with(&own) && !known_after.contains(&one.setting.name)
        };
        settings.extend(a.in_force.iter().filter(of_it).cloned());
    }
    settings
}

fn value<'s>(settings: &'s [SettingRequest], name: &str) -> Option<&'s str> {
    settings.iter().find(|one| one.setting.name == name).map(|one| one.value.as_str())
}

/// What undoing each policy brings back of a cell's change.
fn replayed(
    notebook: &Notebook,
    of: &OfCell<'_>,
    policies: &[Policy],
    change: &CellChange,
    metric: &str,
    warn: Warn,
) -> Vec<Undone> {
    if policies.is_empty() {
        return Vec::new();
    }
    let (results, trial) = of.b;
    let replay = Replayable::open(notebook, &results.data.run.id, warn)
        .and_then(|run| run.replay(trial))
        .map_err(|error| error.to_string());
    let undone = |policy: &Policy| Undone {
        what: policy.difference.what.clone(),
        cell: change.cell.clone(),
        share: replay
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|replay| share(replay, &policy.undo, change, metric)),
    };
    policies.iter().map(undone).collect()
}

fn share(replay: &Replay, undo: &Undo, change: &CellChange, metric: &str) -> Result<Share, String> {
    if !replay.fit().is_good() {
        return Err("the model of a replay does not fit the trial".to_owned());
    }
    let predicted = match undo {
        Undo::Settings(settings) => replay.predict(settings),
        Undo::Whole(machine) => replay.predict_on(machine),
    };
    let predicted = predicted.map_err(|error| error.to_string())?;
    let of_metric = of_metric(metric, &replay.load().counted, &predicted)
        .ok_or_else(|| format!("a replay predicts no `{metric}`"))?;
    Share::of(of_metric, change).ok_or_else(|| "the interval of the change holds no change".to_owned())
}

/// How many times the metric is predicted: least, most likely, most. A closed loop's rate decides its
/// throughput and, by Little's law, the mean latency.
fn of_metric(metric: &str, counted: &str, predicted: &Prediction) -> Option<(f64, f64, f64)> {
    let rate = predicted.rate;
    let is_rate = metric.ends_with("throughput") || metric.ends_with("iops") || metric == counted;
    match metric {
        _ if is_rate => Some((rate.low, rate.value, rate.high)),
        "elapsed" | "latency_mean" => Some((1.0 / rate.high, 1.0 / rate.value, 1.0 / rate.low)),
        _ => None,
    }
}
