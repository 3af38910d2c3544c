//! What was done from one mark to the next (`flyball mark`).

use super::table;
use crate::Report;
use crate::document::Table;
use domain::outcome::CPU_BUSY;
use domain::per_work::{BUSY_FREQUENCY, POWER, SWITCHES};
use domain::phase::Phase;
use domain::trial::Trial;
use std::collections::BTreeSet;

/// The title of [`phases`].
pub(crate) const PHASES_TITLE: &str = "From mark to mark";

/// Of so many cells the phases are shown; each trial's own page has them.
const MAX_CELLS: usize = 8;

/// How many phases a table has; the trial has more.
const MAX_PHASES: usize = 40;

/// The metrics that are columns where any phase has them, with what they are called there.
const COLUMNS: [(&str, &str); 6] = [
    (CPU_BUSY, "CPUs busy"),
    (BUSY_FREQUENCY, "frequency"),
    ("read_throughput", "read"),
    ("write_throughput", "written"),
    (POWER, "power"),
    (SWITCHES, "switches"),
];

/// Of a run's trials: that of each cell which was marked first, by its name.
pub(crate) fn phases_of_cells(report: &Report) -> Vec<(String, Table)> {
    let mut seen = BTreeSet::new();
    let marked = report.data.trials.iter().filter(|trial| !trial.validity.is_spoilt());
    let table = |trial: &Trial| {
        let table = phases(&trial.measurement.as_ref()?.phases)?;
        let is_first = seen.insert(trial.key.cell.clone());
        is_first.then(|| (trial.key.folder(), table))
    };
    marked.filter_map(table).take(MAX_CELLS).collect()
}

/// A row a phase; `None` where nothing was marked.
pub(crate) fn phases(all: &[Phase]) -> Option<Table> {
    let is_seen = |name: &str| all.iter().any(|p| p.metrics.get(name).is_some_and(|m| m.value != 0.0));
    let columns: Vec<_> = COLUMNS.into_iter().filter(|(metric, _)| is_seen(metric)).collect();
    let of = |phase: &Phase, metric: &str| {
        phase.metrics.get(metric).map_or_else(|| "–".to_owned(), |metric| metric.unit.show(metric.value))
    };
    let row = |phase: &Phase| {
        let times = [phase.shown_name().to_owned(), phase.begin.to_string(), phase.duration().to_string()];
        times.into_iter().chain(columns.iter().map(|(metric, _)| of(phase, metric))).collect()
    };
    let mut rows: Vec<Vec<String>> = all.iter().take(MAX_PHASES).map(row).collect();
    let more = all.len().saturating_sub(MAX_PHASES);
    if more > 0 {
        let rest = std::iter::repeat_n(String::new(), 2 + columns.len());
        rows.push([format!("… {more} more")].into_iter().chain(rest).collect());
    }
    let head: Vec<&str> =
        ["mark", "at", "lasted"].into_iter().chain(columns.iter().map(|(_, title)| *title)).collect();
    let numbers: Vec<usize> = (1..head.len()).collect();
    (!rows.is_empty()).then(|| table(&head, &numbers, rows))
}
