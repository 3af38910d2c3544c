//! A run of a notebook, read and judged: what `show`, `explain`, `report`, `compare` and the end of `run`
//! have in common.
//!
//! Invariant: a notebook is only read. What cannot be read in it is told, and does not count; nobody is kept
//! from reading the rest.

mod described;
mod error;
mod events;
pub mod gate;
mod history;
mod judged;
pub mod listing;
mod over_time;
pub mod pages;
mod played;
mod recorded;
mod remedy;
mod removable;
mod replayed;
mod versus;

pub use error::{Error, Result};
pub use events::{events_of, events_text};
pub use history::Past;
pub use over_time::points;
pub use played::Playable;
pub use recorded::{recording_json, recording_text};
pub use remedy::{Remedy, remedy};
pub use removable::{Kept, Removable, in_words, only_run};
pub use replayed::{Measured, Replayable, Told};
pub use versus::{before, common_metric, of_levels, of_runs};

use crate::judged::{Judged, Source, one_cell};
use analysis::explain::{Case, explain_with, not_measured};
use analysis::facts::residency::Residency;
use analysis::facts::usage::Usage as MachineUsage;
use analysis::fidelity::{Shares, shares};
use analysis::summary::{RunData, RunSummary};
use domain::finding::{Finding, NotMeasured};
use domain::ids::{CellId, RunId, TrialKey};
use domain::inert::Lines;
use domain::inventory::Inventory;
use domain::lab::LabAccount;
use domain::order;
use domain::plan::Plan;
use domain::study::Study;
use domain::trace::{Series, Trace};
use domain::trial::{Provenance, Run, Trial};
use notebook::{Notebook, Problem};
use parse::study::StudyErrors;
use report::inventory::{Style, one_line, text as inventory_text};
use report::{Report, TraceView};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// Warns whoever reads a notebook.
pub type Warn = fn(&dyn Display);

/// How many rows of a trace are read for a picture of a few hundred points.
const TRACE_ROWS: usize = 4_000;

/// A run, read and judged.
pub struct Results {
    /// The run with its study and trials.
    pub data: RunData,
    /// Its figures by cell, of one metric.
    pub summary: RunSummary,
    /// What explains them.
    pub findings: Vec<Finding>,
    /// What a finding would have needed, and was not measured.
    pub not_measured: Vec<NotMeasured>,
    warn: Warn,
    machine: Option<String>,
    inventory: Option<String>,
    taken: Option<Inventory>,
    traces: Vec<(TrialKey, TraceView)>,
    usages: Vec<(TrialKey, MachineUsage)>,
}

impl Results {
    /// Reads a run and judges it by one metric: the one asked for, else the study's.
    ///
    /// # Errors
    /// Those of [`data`]; [`Error::Metric`] where no trial reports the metric that was asked for.
    pub fn load(notebook: &Notebook, id: &RunId, metric: Option<&str>, warn: Warn) -> Result<Self> {
        Self::of(notebook, data(notebook, id, warn)?, metric, warn)
    }

    /// Reads one cell of a run and judges it by itself: by the storage that it stood on and by the traces of
    /// all its trials, where a run of several cells is judged by how they differ and by one trial of each.
    ///
    /// # Errors
    /// Those of [`data`]; [`Error::Cell`] where the run has no valid trial of such a cell.
    pub fn load_cell(notebook: &Notebook, id: &RunId, cell: &str, warn: Warn) -> Result<Self> {
        Self::of(notebook, of_cell(data(notebook, id, warn)?, cell)?, None, warn)
    }

    fn of(notebook: &Notebook, data: RunData, metric: Option<&str>, warn: Warn) -> Result<Self> {
        let id = &data.run.id;
        if let Some(metric) = metric {
            check_metric(&data, metric)?;
        }
        let inventory = inventory(notebook, id, warn);
        let source = Source { notebook, metric, inventory: inventory.as_ref(), warn };
        let run = Judged::of(data, source);
        let cells = run.cells(source);
        let cases: Vec<Case<'_>> = cells.iter().map(Judged::case).collect();
        let case = run.case();
        let (findings, not_measured) = (explain_with(&case, &cases), not_measured(&case));
        let Judged { data, summary, usages, .. } = run;
        Ok(Self {
            findings,
            not_measured,
            machine: inventory.as_ref().map(one_line),
            inventory: inventory.as_ref().map(|i| inventory_text(i, Style::Full)),
            taken: inventory,
            traces: Vec::new(),
            data,
            summary,
            warn,
            usages,
        })
    }

    /// How busy the machine was in a recording; nothing where it has no trace that can be read.
    pub fn usage(&self) -> MachineUsage {
        self.usages.first().map(|(_, usage)| usage.clone()).unwrap_or_default()
    }

    /// What the events of a recording say, and the command that draws them, which begins with `program`;
    /// `None` where none were recorded, or they cannot be read, which is told.
    pub fn events(&self, notebook: &Notebook, program: &str) -> Option<Lines> {
        let trial = self.data.trials.first().filter(|_| self.data.study.is_recording())?;
        events_shown(notebook, (&self.data.run.id, &trial.key), program, self.warn)
    }

    /// Adds the traces that a page draws by itself: of each cell the first valid trial, the verdict's two
    /// cells before all others, then the other trials in their order.
    pub fn with_traces(self, notebook: &Notebook) -> Self {
        let keys = keys_to_draw(&self.data, &told(&self.data, &self.summary));
        if keys.is_empty() { self } else { self.with_traces_of(notebook, keys) }
    }

    /// Adds the traces of these trials, or without any those of [`Results::with_traces`]. One that cannot be
    /// read is told, and not drawn.
    pub fn with_traces_of(mut self, notebook: &Notebook, keys: Vec<TrialKey>) -> Self {
        if keys.is_empty() {
            return self.with_traces(notebook);
        }
        for key in keys {
            let account = self.data.trials.iter().find(|t| t.key == key).and_then(|t| t.lab.as_ref());
            match trace(notebook, &self.data.run.id, &key, account) {
                Ok(Some(view)) => self.traces.push((key, view)),
                Ok(None) => {}
                Err(error) => {
                    (self.warn)(&format_args!("the trace of `{key}` is not drawn: {error}"));
                }
            }
        }
        self
    }

    /// As the report crate takes it.
    pub fn report(&self) -> Report<'_> {
        Report {
            data: &self.data,
            summary: &self.summary,
            findings: &self.findings,
            not_measured: &self.not_measured,
            machine: self.machine.as_deref(),
            inventory_text: self.inventory.as_deref(),
            traces: &self.traces,
        }
    }

    /// The machine; `None` where it is not known.
    pub fn machine(&self) -> Option<&Inventory> {
        self.taken.as_ref()
    }

    /// Whether any cell of the plan has no valid trial.
    pub fn is_incomplete(&self) -> bool {
        self.summary.cells.iter().any(|cell| cell.points.is_empty())
    }
}

/// How fast the CPUs of a trial ran and in which states they were; nothing where it has no trace. One that
/// cannot be read is told.
pub fn residency(notebook: &Notebook, id: &RunId, key: &TrialKey, warn: Warn) -> Residency {
    let of_cpus = |series: &Series| series.name.starts_with("freq.") || series.name.starts_with("idle.");
    let read = || -> notebook::Result<Option<Residency>> {
        let Some(mut reader) = notebook.trace(id, key)? else { return Ok(None) };
        Ok(Some(Residency::of(&reader.read(TRACE_ROWS, of_cpus)?)))
    };
    let read = read().unwrap_or_else(|error| {
        warn(&format_args!("the trace of `{key}` is not shown: {error}"));
        None
    });
    read.unwrap_or_default()
}

/// How long each trial that counts was in each P-state, by cell. A trace that cannot be read is told.
pub fn states_by_cell(notebook: &Notebook, runs: &[RunData], warn: Warn) -> BTreeMap<CellId, Vec<Shares>> {
    let mut states: BTreeMap<CellId, Vec<Shares>> = BTreeMap::new();
    for run in runs {
        for trial in run.trials.iter().filter(|trial| trial.validity.is_valid()) {
            let residency = residency(notebook, &run.run.id, &trial.key, warn);
            if let Some(shares) = shares(trial, &residency.pstates) {
                states.entry(trial.key.cell.clone()).or_default().push(shares);
            }
        }
    }
    states
}

/// What the events of a trial say, and the command that draws them, which begins with `program`; `None` where
/// none are kept, or they cannot be read, which is told.
pub fn events_shown(
    notebook: &Notebook,
    (run, key): (&RunId, &TrialKey),
    program: &str,
    warn: Warn,
) -> Option<Lines> {
    let facts = events_of(notebook, run, key).unwrap_or_else(|error| {
        warn(&error);
        None
    })?;
    let mut text = Lines::default();
    text.blank();
    text.append(&events_text(&facts));
    text.line("as a timeline, for a browser:");
    text.line(format_args!(
        "    {program} export {run} --trace {} --format timeline --out {run}.html",
        key.folder()
    ));
    Some(text)
}

/// A run with one of its cells alone.
fn of_cell(mut data: RunData, cell: &str) -> Result<RunData> {
    let valid = data.trials.iter().filter(|trial| trial.validity.is_valid());
    let known: BTreeSet<&str> = valid.map(|trial| trial.key.cell.as_str()).collect();
    if !known.contains(cell) {
        return Err(Error::Cell {
            run: data.run.id.clone(),
            cell: cell.to_owned(),
            known: known.into_iter().map(str::to_owned).collect(),
        });
    }
    let id = CellId::from_stored(cell);
    Ok(match Plan::new(data.study.clone(), data.run.seed) {
        Ok(plan) => one_cell(&data, &plan, &id),
        // A study whose cells cannot be told any more is judged by its trials.
        Err(_) => {
            data.trials.retain(|trial| trial.key.cell == id);
            data.skipped.clear();
            data
        }
    })
}

/// A run as it is in a notebook.
pub struct Stored {
    /// The run with its study and trials.
    pub data: RunData,
    /// What of it could not be read.
    pub problems: Vec<Problem>,
    /// What a reader of the figures has to know of how they were read.
    pub notes: Vec<String>,
}

/// A run with its study and trials. What cannot be read is told, and does not count.
///
/// # Errors
/// Those of [`read`].
pub fn data(notebook: &Notebook, id: &RunId, warn: Warn) -> Result<RunData> {
    let Stored { data, problems, notes } = read(notebook, id)?;
    tell(&problems, warn);
    notes.iter().for_each(|note| warn(note));
    Ok(data)
}

/// Names what a notebook holds that cannot be read.
pub fn tell(problems: &[Problem], warn: Warn) {
    for problem in problems {
        warn(&format_args!("passed over `{}`: {}", problem.path.display(), problem.reason));
    }
}

/// The same, with what could not be read, which is not told yet. Where this version does not read the run's
/// study, its trials say what was measured.
///
/// # Errors
/// [`Error::Notebook`] where there is no such run; [`Error::Study`] where neither its study nor its trials
/// say what its cells were.
pub fn read(notebook: &Notebook, id: &RunId) -> Result<Stored> {
    let run = notebook.run(id)?;
    let (trials, problems) = notebook.trials(id)?;
    let mut notes = Vec::new();
    let study = match study_of(&run, &trials) {
        Ok(study) => study,
        Err(errors) => {
            let Some(study) = described::study_of(&run, &trials) else {
                return Err(Error::Study { run: id.clone(), errors });
            };
            let first = errors.list().first().map_or_else(String::new, |error| format!(" ({error})"));
            notes.push(format!(
                "this version does not read the study of `{id}`{first}; cells and figures are those of its \
                 trials, levels are in the order of their names, and threshold and confidence are the usual ones"
            ));
            study
        }
    };
    let skipped = notebook.skipped(id).unwrap_or_else(|error| {
        notes.push(format!("which cells of `{id}` could not be run cannot be read: {error}"));
        BTreeMap::new()
    });
    Ok(Stored { data: RunData { run, study, trials, skipped }, problems, notes })
}

/// The study as the run's machine has it. Simulations of the lab's own machine that an earlier version made
/// have it as hosts do, which their cells show.
pub(crate) fn study_of(run: &Run, trials: &[Trial]) -> std::result::Result<Study, StudyErrors> {
    let in_lab = || parse::study::parse_for_lab(&run.study_text);
    match run.provenance {
        Provenance::Lab => in_lab(),
        _ if run.simulates_the_lab() => match in_lab() {
            Ok(study) if has_cells(&study, run, trials) => Ok(study),
            _ => parse::study::parse(&run.study_text),
        },
        _ => parse::study::parse(&run.study_text),
    }
}

/// Whether all of these trials are of cells of the study.
fn has_cells(study: &Study, run: &Run, trials: &[Trial]) -> bool {
    let Ok(plan) = Plan::new(study.clone(), run.seed) else { return false };
    trials.iter().all(|trial| plan.cells.iter().any(|cell| cell.id == trial.key.cell))
}

fn trace(
    notebook: &Notebook,
    id: &RunId,
    key: &TrialKey,
    account: Option<&LabAccount>,
) -> notebook::Result<Option<TraceView>> {
    let Some(mut reader) = notebook.trace(id, key)? else { return Ok(None) };
    let trace = reader.read(TRACE_ROWS, |_| true)?;
    Ok(Some(match account {
        Some(account) => TraceView::of_lab(&trace, account),
        None => TraceView::from_trace(&trace),
    }))
}

/// What was sampled in a trial, thinned; `None` where it has no trace.
fn trial_trace(notebook: &Notebook, id: &RunId, key: &TrialKey) -> notebook::Result<Option<Trace>> {
    let Some(mut reader) = notebook.trace(id, key)? else { return Ok(None) };
    reader.read(TRACE_ROWS, |_| true).map(Some)
}

/// The machine of a run; `None` where it is not known, or cannot be read, which is told.
fn inventory(notebook: &Notebook, id: &RunId, warn: Warn) -> Option<Inventory> {
    // An imported run's machine is not known: `null`.
    let read = || -> std::result::Result<Option<Inventory>, String> {
        let text = notebook.machine_json(id).map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    };
    read().unwrap_or_else(|error| {
        warn(&format_args!("the machine of `{id}` cannot be read: {error}"));
        None
    })
}

fn check_metric(data: &RunData, metric: &str) -> Result<()> {
    let measurements = data.trials.iter().filter_map(|t| t.measurement.as_ref());
    let known: BTreeSet<&str> =
        measurements.flat_map(|m| m.outcome.metrics.keys().map(String::as_str)).collect();
    if known.contains(metric) {
        return Ok(());
    }
    let known: Vec<&str> = known.into_iter().collect();
    let others = if known.is_empty() {
        ", nor any other".to_owned()
    } else {
        format!("; there are {}", known.join(", "))
    };
    Err(Error::Metric { run: data.run.id.clone(), metric: metric.to_owned(), others })
}

fn keys_to_draw(data: &RunData, told: &[CellId]) -> Vec<TrialKey> {
    let mut cells = BTreeSet::new();
    let valid = data.trials.iter().filter(|t| t.validity.is_valid());
    let (mut first, later): (Vec<_>, Vec<_>) = valid.partition(|t| cells.insert(t.key.cell.clone()));
    let place = |trial: &Trial| told.iter().position(|cell| *cell == trial.key.cell).unwrap_or(told.len());
    order::by_key(&mut first, |trial| place(trial));
    first.into_iter().chain(later).map(|t| t.key.clone()).take(report::MAX_TRACES).collect()
}

/// The cells that the verdict holds against each other, the one that it tells of first.
fn told(data: &RunData, summary: &RunSummary) -> Vec<CellId> {
    let Some(about) = analysis::answer::about(data, summary) else { return Vec::new() };
    let levels = [&about.comparison.b, &about.comparison.a];
    levels.into_iter().filter_map(|level| Some(about.cell_of(level)?.cell.clone())).collect()
}
