//! Latency, energy and CPU time of each cell, beside what the report is about; and what a gigabyte, an I/O or
//! a transaction of it took.

use super::{heading, item, table};
use crate::Report;
use crate::document::{Block, Rich, Table};
use crate::wording::{cell_label, counted, value, workloads};
use analysis::costs::{self, Cost};
use analysis::summary::{CellSummary, RunData};
use analysis::trade_off::{Place, places};
use domain::ids::CellId;
use domain::order;
use domain::units::Unit;

/// The title of [`costs_table`].
pub(crate) const COSTS_TITLE: &str = "Latency, energy and CPU beside it";

/// The title of [`work_table`].
pub(crate) const WORK_TITLE: &str = "What a unit of work took";

/// Both tables, each with its title; nothing where no trial has any of it.
pub(super) fn costs(report: &Report) -> Vec<Block> {
    let tables = [(COSTS_TITLE, costs_table(report)), (WORK_TITLE, work_table(report))];
    let titled = tables.into_iter().filter_map(|(title, table)| Some([heading(title), Block::Table(table?)]));
    let chosen = workloads(&report.summary.cells).into_iter().filter_map(|workload| {
        let mine = report.summary.cells.iter().filter(|cell| cell.workload == workload);
        trade_off(report, &places(report.data, report.summary, &mine.collect::<Vec<_>>())).map(item)
    });
    let by = energy_note(report).map(|note| Block::Remark(Rich::plain(note)));
    titled.flatten().chain(by).chain(chosen).collect()
}

/// By what the energy of the valid trials was measured; `None` where no trial says it.
pub(crate) fn energy_note(report: &Report) -> Option<String> {
    let by = costs::energy_by(report.data);
    let mut named = by.iter();
    match (named.next(), by.len()) {
        (None, _) => None,
        (Some((what, _)), 1) => Some(format!("Energy and watts are by {what}.")),
        _ => {
            let each = by.iter().map(|(what, trials)| format!("{what} in {}", counted(*trials, "trial")));
            Some(format!(
                "Energy and watts are by different sources, and these trials are not alike in them: {}.",
                each.collect::<Vec<_>>().join("; ")
            ))
        }
    }
}

/// How many cells of a trade-off are named.
const MOST_NAMED: usize = 5;

/// Which cells of a workload no other beats in speed and watts; `None` where there is nothing to choose
/// between.
pub(crate) fn trade_off(report: &Report, places: &[Place<'_>]) -> Option<String> {
    let mut places: Vec<&Place<'_>> = places.iter().filter(|place| place.is_unbeaten).collect();
    order::by(&mut places, |a, b| b.watts.total_cmp(&a.watts));
    // Of many, both ends and some in between.
    let (last, most) = (places.len().saturating_sub(1), places.len().min(MOST_NAMED));
    let named = (0..most).map(|at| {
        let place = places[at * last / most.saturating_sub(1).max(1)];
        let figure = value(&report.summary.unit, Some(place.figure));
        format!("{} ({figure}, {})", cell_label(report, place.cell), Unit::Watts.show(place.watts))
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match places.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(", and {}", counted(more, "other")),
    };
    let metric = &report.summary.metric;
    (!places.is_empty()).then(|| format!("In {metric} and watts together no other cell beats {named}{more}"))
}

/// Latency, energy and CPU of each cell, medians over its valid trials.
pub(crate) fn costs_table(report: &Report) -> Option<Table> {
    medians(report, &costs::METRICS, costs::of_cell)
}

/// Watts, energy, context switches and wake-ups of each cell, over its work; medians over its valid trials.
pub(crate) fn work_table(report: &Report) -> Option<Table> {
    medians(report, &costs::WORK, costs::of_work)
}

/// The metric that the report is about is not repeated.
fn medians(
    report: &Report,
    metrics: &[&'static str],
    of_cell: fn(&RunData, &CellId) -> Vec<Cost>,
) -> Option<Table> {
    let of = |cell: &CellSummary| (cell_label(report, cell), of_cell(report.data, &cell.cell));
    let cells: Vec<(String, Vec<Cost>)> = report.summary.cells.iter().map(of).collect();
    let is_known = |metric: &str| {
        metric != report.summary.metric && cells.iter().flat_map(|(_, all)| all).any(|c| c.metric == metric)
    };
    let known: Vec<&str> = metrics.iter().copied().filter(|metric| is_known(metric)).collect();
    let row = |(label, all): &(String, Vec<Cost>)| {
        let shown = |metric: &&str| {
            let cost = all.iter().find(|cost| cost.metric == *metric);
            cost.map_or_else(|| "–".to_owned(), |cost| cost.unit.show(cost.median))
        };
        std::iter::once(label.clone()).chain(known.iter().map(shown)).collect()
    };
    let measured = cells.iter().filter(|(_, all)| !all.is_empty());
    let rows: Vec<Vec<String>> = measured.map(row).collect();
    let head: Vec<&str> = std::iter::once("cell").chain(known.iter().copied().map(short)).collect();
    let numbers: Vec<usize> = (1..head.len()).collect();
    (!known.is_empty()).then(|| table(&head, &numbers, rows))
}

/// What a column is called.
fn short(metric: &str) -> &str {
    match metric {
        "latency_p50" => "p50",
        "latency_p99" => "p99",
        "latency_p999" => "p99.9",
        // That it is modelled, a note of the report says.
        "energy_modelled" => "energy",
        "cpu_busy" => "CPU",
        "power" => "watts",
        "energy_per_gb" => "energy/GB",
        "energy_per_io" => "energy/IO",
        "energy_per_transaction" => "energy/transaction",
        "switches_per_io" => "switches/IO",
        "switches_per_transaction" => "switches/transaction",
        "wakeups_per_io" => "wake-ups/IO",
        "wakeups_per_transaction" => "wake-ups/transaction",
        other => other,
    }
}
