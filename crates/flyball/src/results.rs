//! A run from the notebook with everything that is computed from it: what `show`, `explain`, `report` and the
//! end of `run` have in common.

use crate::args::Global;
use crate::exit::Usage;
use crate::look_only::look_only;
use crate::{places, terminal};
use analysis::explain::{Case, explain, not_measured};
use analysis::summarise::summarise;
use analysis::summary::{RunData, RunSummary};
use analysis::usage::Usage as MachineUsage;
use anyhow::{Result, bail};
use domain::finding::{Finding, NotMeasured};
use domain::ids::{CellId, NoTrialKey, RunId, TrialKey};
use domain::inventory::Inventory;
use domain::lab::LabAccount;
use domain::trial::{Provenance, Trial};
use notebook::{Notebook, Problem};
use report::inventory::{Style, one_line, text as inventory_text};
use report::{Report, TraceView};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How many rows of a trace are read for a picture of a few hundred points.
const TRACE_ROWS: usize = 4_000;

/// Of how many trials the trace is read for what it says of the machine.
const MAX_USAGES: usize = 64;

/// How much of a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// What one screen holds.
    Screen,
    /// All of it.
    Full,
}

impl Length {
    /// As `--full` says.
    pub const fn of(full: bool) -> Self {
        if full { Self::Full } else { Self::Screen }
    }
}

/// A run, read and judged.
pub struct Results {
    pub data: RunData,
    pub summary: RunSummary,
    pub findings: Vec<Finding>,
    pub not_measured: Vec<NotMeasured>,
    machine: Option<String>,
    inventory: Option<String>,
    taken: Option<Inventory>,
    traces: Vec<(TrialKey, TraceView)>,
    usages: Vec<(TrialKey, MachineUsage)>,
}

impl Results {
    /// Reads a run and judges it by one metric: the one asked for, else the study's.
    pub fn load(notebook: &Notebook, id: &RunId, metric: Option<&str>) -> Result<Self> {
        let data = data(notebook, id)?;
        if let Some(metric) = metric {
            check_metric(&data, metric)?;
        }
        let summary = summarise(&data, metric);
        let inventory = inventory(notebook, id);
        let device = data.trials.iter().find_map(|t| t.environment.get("device"));
        let usages = usages(notebook, &data);
        let case = Case {
            data: &data,
            summary: &summary,
            inventory: inventory.as_ref(),
            target_device: device.map(String::as_str),
            usages: &usages,
        };
        Ok(Self {
            findings: explain(&case),
            not_measured: not_measured(&case),
            machine: inventory.as_ref().map(one_line),
            inventory: inventory.as_ref().map(|i| inventory_text(i, Style::Full)),
            taken: inventory,
            traces: Vec::new(),
            data,
            summary,
            usages,
        })
    }

    /// How busy the machine was in a recording; nothing where it has no trace that can be read.
    pub fn usage(&self) -> MachineUsage {
        self.usages.first().map(|(_, usage)| usage.clone()).unwrap_or_default()
    }

    /// Adds the traces that a page draws by itself: of each cell the first valid trial, the verdict's two
    /// cells before all others, then the other trials in their order.
    pub fn with_traces(self, notebook: &Notebook) -> Self {
        let keys = keys_to_draw(&self.data, &told(&self.data, &self.summary));
        self.with_traces_of(notebook, keys)
    }

    /// Adds the traces of these trials. One that cannot be read is told, and not drawn.
    pub fn with_traces_of(mut self, notebook: &Notebook, keys: Vec<TrialKey>) -> Self {
        for key in keys {
            let account = self.data.trials.iter().find(|t| t.key == key).and_then(|t| t.lab.as_ref());
            match trace(notebook, &self.data.run.id, &key, account) {
                Ok(Some(view)) => self.traces.push((key, view)),
                Ok(None) => {}
                Err(error) => {
                    terminal::warning(format_args!("the trace of `{}` is not drawn: {error}", key.folder()))
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

    /// Prints the report as text, or as JSON, which is the same at any length.
    pub fn print(&self, global: &Global, length: Length) -> Result<()> {
        let report = self.report();
        if global.json {
            return Ok(terminal::json(&report::json(&report))?);
        }
        // A recording is one trial: its text is short, and what it shows is nowhere else.
        let is_short = length == Length::Screen && !self.data.study.is_recording();
        Ok(terminal::document(&if is_short {
            report::short_text(&report, &places::this_program(global), terminal::screen_width())
        } else {
            report::text(&report)
        })?)
    }

    /// Whether any cell of the plan has no valid trial.
    pub fn is_incomplete(&self) -> bool {
        self.summary.cells.iter().any(|cell| cell.points.is_empty())
    }
}

/// How busy the machine was in each recording, and in each trial that another tool watched. A trace that
/// cannot be read is told where it is drawn.
fn usages(notebook: &Notebook, data: &RunData) -> Vec<(TrialKey, MachineUsage)> {
    let is_recording = data.study.is_recording();
    let is_watched = |trial: &&Trial| is_recording || trial.provenance == Provenance::Imported;
    let watched = data.trials.iter().filter(is_watched).take(MAX_USAGES);
    let usage = |trial: &Trial| {
        let mut reader = notebook.trace(&data.run.id, &trial.key).ok()??;
        let trace = reader.read(TRACE_ROWS, |series| !series.name.starts_with("role.")).ok()?;
        Some((trial.key.clone(), MachineUsage::of(&trace)))
    };
    watched.filter_map(usage).collect()
}

/// Opens the notebook, and reads and writes nothing but it and `out` from now on.
pub fn opened(global: &Global, out: Option<&Path>) -> Result<Notebook> {
    let folder = places::notebook(global)?;
    look_only(&folder, out);
    Ok(Notebook::open(&folder)?)
}

/// A trial by its name.
pub fn trial_key(name: &str) -> Result<TrialKey> {
    Ok(name.parse().map_err(|error: NoTrialKey| Usage(error.to_string()))?)
}

/// A run with its study and trials. What cannot be read is told, and does not count.
pub fn data(notebook: &Notebook, id: &RunId) -> Result<RunData> {
    let (data, problems) = read(notebook, id)?;
    terminal::damaged(&problems);
    Ok(data)
}

/// The same, with what could not be read, which is not told yet.
pub fn read(notebook: &Notebook, id: &RunId) -> Result<(RunData, Vec<Problem>)> {
    let run = notebook.run(id)?;
    let parsed = match run.provenance {
        Provenance::Lab => parse::study::parse_for_lab,
        _ => parse::study::parse,
    };
    let study = parsed(&run.study_text).map_err(|e| {
        anyhow::anyhow!("cannot read the study of `{id}` as this version of Flyball reads it:\n{e}")
    })?;
    let (trials, problems) = notebook.trials(id)?;
    let skipped = notebook.skipped(id).unwrap_or_else(|error| {
        terminal::warning(format_args!("which cells of `{id}` could not be run cannot be read: {error}"));
        BTreeMap::new()
    });
    Ok((RunData { run, study, trials, skipped }, problems))
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

fn inventory(notebook: &Notebook, id: &RunId) -> Option<Inventory> {
    // An imported run's machine is not known: `null`.
    let read = || -> Result<Option<Inventory>> { Ok(serde_json::from_str(&notebook.machine_json(id)?)?) };
    match read() {
        Ok(inventory) => inventory,
        Err(error) => {
            terminal::warning(format_args!("the machine of `{id}` cannot be read: {error}"));
            None
        }
    }
}

fn check_metric(data: &RunData, metric: &str) -> Result<()> {
    let measurements = data.trials.iter().filter_map(|t| t.measurement.as_ref());
    let known: BTreeSet<&str> =
        measurements.flat_map(|m| m.outcome.metrics.keys().map(String::as_str)).collect();
    if known.contains(metric) {
        return Ok(());
    }
    let known: Vec<&str> = known.into_iter().collect();
    if known.is_empty() {
        bail!("no trial of `{}` reports the metric `{metric}`, nor any other", data.run.id);
    }
    bail!("no trial of `{}` reports the metric `{metric}`; there are {}", data.run.id, known.join(", "))
}

fn keys_to_draw(data: &RunData, told: &[CellId]) -> Vec<TrialKey> {
    let mut cells = BTreeSet::new();
    let valid = data.trials.iter().filter(|t| t.validity.is_valid());
    let (mut first, later): (Vec<_>, Vec<_>) = valid.partition(|t| cells.insert(t.key.cell.clone()));
    let place = |trial: &Trial| told.iter().position(|cell| *cell == trial.key.cell).unwrap_or(told.len());
    first.sort_by_key(|trial| place(trial));
    first.into_iter().chain(later).map(|t| t.key.clone()).take(report::MAX_TRACES).collect()
}

/// The cells that the verdict holds against each other, the one that it tells of first.
fn told(data: &RunData, summary: &RunSummary) -> Vec<CellId> {
    let Some(about) = analysis::answer::about(data, summary) else { return Vec::new() };
    let levels = [&about.comparison.b, &about.comparison.a];
    levels.into_iter().filter_map(|level| Some(about.cell_of(level)?.cell.clone())).collect()
}
