//! A run, or one cell of it, with all that the rules judge it by.

use crate::{Warn, trial_trace};
use analysis::explain::Case;
use analysis::facts::in_force::in_force;
use analysis::facts::loaded::{loaded, paced, while_loaded};
use analysis::facts::usage::Usage as MachineUsage;
use analysis::summarise::summarise;
use analysis::summary::{RunData, RunSummary};
use domain::ids::{CellId, TrialKey};
use domain::inventory::{Inventory, Storage};
use domain::order;
use domain::plan::Plan;
use domain::trial::{Provenance, Trial};
use notebook::Notebook;
use std::collections::BTreeMap;

/// Of how many trials the trace is read for what it says of the machine.
const MAX_TRACES: usize = 64;

/// How many cells of a study are judged by themselves, each by the trace of one trial.
const MAX_CELLS: usize = 32;

/// What a run is read from.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub notebook: &'a Notebook,
    /// The metric that it is judged by, where it is not the study's.
    pub metric: Option<&'a str>,
    /// The machine; `None` where it is not known.
    pub inventory: Option<&'a Inventory>,
    pub warn: Warn,
}

/// A run, or one cell of it.
pub(crate) struct Judged {
    pub data: RunData,
    pub summary: RunSummary,
    pub usages: Vec<(TrialKey, MachineUsage)>,
    /// The machine with the storage and the settings of the trials.
    machine: Option<Inventory>,
}

impl Judged {
    /// The run by itself.
    pub(crate) fn of(data: RunData, source: Source<'_>) -> Self {
        Self::by(data, source, MAX_TRACES)
    }

    fn by(data: RunData, source: Source<'_>, traces: usize) -> Self {
        let Source { notebook, metric, inventory, warn } = source;
        let summary = summarise(&data, metric);
        let usages = usages(notebook, &data, &summary, traces);
        let storage = built_storage(notebook, &data, &summary, warn);
        let in_trials = inventory.cloned().map(|machine| match storage {
            Some(storage) => machine.with_storage(storage),
            None => machine,
        });
        let machine = in_trials.map(|machine| in_force(&machine, &data.trials));
        Self { data, summary, usages, machine }
    }

    /// The cells of a study of several, each by itself: those furthest from the best of their workload, no
    /// more than [`MAX_CELLS`]. None of what was watched as a whole.
    pub(crate) fn cells(&self, source: Source<'_>) -> Vec<Judged> {
        let mut rated: Vec<_> = self.summary.cells.iter().filter(|cell| !cell.points.is_empty()).collect();
        if rated.len() < 2 || !self.usages.is_empty() || self.data.study.is_recording() {
            return Vec::new();
        }
        let Ok(plan) = Plan::new(self.data.study.clone(), self.data.run.seed) else { return Vec::new() };
        let share = |relative: Option<f64>| relative.unwrap_or(f64::INFINITY);
        order::by(&mut rated, |a, b| share(a.relative).total_cmp(&share(b.relative)));
        rated.truncate(MAX_CELLS);
        let alone = rated.iter().map(|cell| one_cell(&self.data, &plan, &cell.cell));
        alone.map(|data| Self::by(data, source, 1)).collect()
    }

    /// As the rules take it.
    pub(crate) fn case(&self) -> Case<'_> {
        let device = self.data.trials.iter().find_map(|trial| trial.environment.get("device"));
        Case {
            data: &self.data,
            summary: &self.summary,
            inventory: self.machine.as_ref(),
            target_device: device.map(String::as_str),
            usages: &self.usages,
        }
    }
}

/// A run with one of its cells alone. A study whose cells cannot be told any more stays as it is.
pub(crate) fn one_cell(data: &RunData, plan: &Plan, cell: &CellId) -> RunData {
    RunData {
        run: data.run.clone(),
        study: plan.study_of(cell).unwrap_or_else(|| data.study.clone()),
        trials: data.trials.iter().filter(|trial| trial.key.cell == *cell).cloned().collect(),
        skipped: BTreeMap::new(),
    }
}

/// How busy the machine was in each recording, in each trial that another tool watched, and in the valid
/// trials of a study of one cell, which has nothing to compare that cell with. A trace that cannot be read is
/// told where it is drawn.
fn usages(
    notebook: &Notebook,
    data: &RunData,
    summary: &RunSummary,
    most: usize,
) -> Vec<(TrialKey, MachineUsage)> {
    let is_recording = data.study.is_recording();
    let is_alone = summary.cells.len() == 1;
    let is_watched = |trial: &&Trial| {
        is_recording || trial.provenance == Provenance::Imported || is_alone && trial.validity.is_valid()
    };
    let watched = data.trials.iter().filter(is_watched).take(most);
    let plan = Plan::new(data.study.clone(), data.run.seed);
    let cells = plan.map(|plan| plan.cells).unwrap_or_default();
    let usage = |trial: &Trial| {
        let trace = trial_trace(notebook, &data.run.id, &trial.key).ok()??;
        let options = cells.iter().find(|cell| cell.id == trial.key.cell).map(|cell| &cell.workload.options);
        let trace = paced(trace, trial.lab.as_ref());
        let measured = trial.measurement.as_ref().filter(|_| !is_recording);
        let trace = match measured.zip(options) {
            Some((measured, options)) => while_loaded(trace, loaded(measured, options)),
            None => trace,
        };
        Some((trial.key.clone(), MachineUsage::of(&trace)))
    };
    watched.filter_map(usage).collect()
}

/// The storage that a study of one cell built, as its first valid trial had it. Cells of another study may
/// stand on different ones.
fn built_storage(notebook: &Notebook, data: &RunData, summary: &RunSummary, warn: Warn) -> Option<Storage> {
    let trial = data.trials.iter().find(|trial| trial.validity.is_valid())?;
    if summary.cells.len() != 1 {
        return None;
    }
    notebook.storage(&data.run.id, &trial.key).unwrap_or_else(|error| {
        warn(&format_args!("the storage of the trial `{}` is not known: {error}", trial.key));
        None
    })
}
