//! Sections of a run's report that are said in the same words in text and in Markdown.

use crate::Report;
use crate::cpu_share::{notable, shown};
use crate::document::{Block, Rich, Table};
use crate::lab;
use crate::wording::{factor_levels, percent, workloads};
use analysis::costs::{self, Cost};
use analysis::summary::CellSummary;
use domain::Nanos;
use domain::outcome::Metric;
use domain::trace::Role;
use domain::trial::{DiskTotals, Measurement, ThreadTime};
use domain::units::Bytes;

/// What is known of a lab machine; nothing for any other.
pub(crate) fn virtual_machine(report: &Report) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some(states) = lab::states(report) {
        blocks.push(heading(lab::STATES_TITLE));
        blocks.push(times_in_states(report, &states));
    }
    blocks.extend(lab::energy_note(report).map(|note| Block::Remark(Rich::plain(note))));
    let pace = lab::pace(report);
    if !pace.is_empty() {
        blocks.extend([heading(lab::PACE_TITLE), lines(pace)]);
    }
    if let Some((title, what)) = lab::unscaled(report) {
        blocks.extend([heading(&title), lines(what)]);
    }
    blocks
}

fn times_in_states(report: &Report, states: &lab::States) -> Block {
    let head: Vec<Rich> = states.head().iter().map(Rich::plain).collect();
    let fields = |row: &Vec<String>| row.iter().map(Rich::plain).collect();
    let rows = states.table(report).iter().map(fields).collect();
    Block::Table(Table { numbers: (1..head.len()).collect(), head, rows })
}

/// The title of [`costs`].
pub(crate) const COSTS_TITLE: &str = "Latency, energy and CPU beside it";

/// Latency, energy and CPU of each cell, medians over its valid trials; nothing where no tool reports any.
pub(crate) fn costs(report: &Report) -> Vec<Block> {
    let table = costs_table(report);
    table.map_or_else(Vec::new, |table| vec![heading(COSTS_TITLE), Block::Table(table)])
}

/// The same as a table. The metric that the report is about is not repeated.
pub(crate) fn costs_table(report: &Report) -> Option<Table> {
    let of = |cell: &CellSummary| (cell_label(report, cell), costs::of_cell(report.data, &cell.cell));
    let cells: Vec<(String, Vec<Cost>)> = report.summary.cells.iter().map(of).collect();
    let is_known = |metric: &str| {
        metric != report.summary.metric && cells.iter().flat_map(|(_, all)| all).any(|c| c.metric == metric)
    };
    let known: Vec<&str> = costs::METRICS.into_iter().filter(|metric| is_known(metric)).collect();
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
        other => other,
    }
}

/// A cell by its workload, where there are several, and its levels.
fn cell_label(report: &Report, cell: &CellSummary) -> String {
    let levels: Vec<&str> = factor_levels(report, cell).into_iter().map(|(_, level)| level).collect();
    let is_only = workloads(&report.summary.cells).len() == 1 && !levels.is_empty();
    let workload = (!is_only).then_some(cell.workload.as_str());
    workload.into_iter().chain(levels).collect::<Vec<_>>().join(" ")
}

/// Of a recording, what its one trial has: figures, CPU time by role, the busiest threads and the disks.
pub(crate) fn recorded(report: &Report) -> Vec<Block> {
    let titled = |(title, block): (&'static str, Block)| [heading(title), block];
    recorded_parts(report).into_iter().flat_map(titled).collect()
}

/// The same, each part with its title.
pub(crate) fn recorded_parts(report: &Report) -> Vec<(&'static str, Block)> {
    let measured = report.data.trials.iter().find_map(|trial| trial.measurement.as_ref());
    let Some(measurement) = measured else { return Vec::new() };
    let parts = [
        ("Figures", figures(measurement)),
        ("Whose CPU time it was", roles(measurement)),
        ("The busiest threads", threads(measurement)),
        ("What each block device did, layers above disks included", disks(measurement)),
    ];
    parts.into_iter().filter_map(|(title, table)| Some((title, Block::Table(table?)))).collect()
}

/// How many threads a recording's report names; its trial has more.
const MAX_THREADS: usize = 8;

fn figures(measurement: &Measurement) -> Option<Table> {
    let row = |(name, metric): (&String, &Metric)| vec![name.clone(), metric.unit.show(metric.value)];
    let rows: Vec<_> = measurement.outcome.metrics.iter().map(row).collect();
    (!rows.is_empty()).then(|| table(&["metric", "value"], &[1], rows))
}

fn roles(measurement: &Measurement) -> Option<Table> {
    let cores = |cpu: &Nanos| cpu.secs() / measurement.duration.secs();
    let all: Vec<(Role, f64)> = measurement.roles.iter().map(|(role, cpu)| (*role, cores(cpu))).collect();
    let row = |(role, cores): &(Role, f64)| {
        vec![role.to_string(), measurement.roles[role].to_string(), shown(*cores)]
    };
    let rows: Vec<_> = notable(&all).map(row).collect();
    (!rows.is_empty()).then(|| table(&["role", "CPU time", "CPUs"], &[1, 2], rows))
}

fn threads(measurement: &Measurement) -> Option<Table> {
    let row = |thread: &ThreadTime| {
        vec![thread.name.clone(), thread.cpu.to_string(), thread.role.to_string(), thread.tid.to_string()]
    };
    let rows: Vec<_> = measurement.threads.iter().take(MAX_THREADS).map(row).collect();
    (!rows.is_empty()).then(|| table(&["thread", "CPU time", "role", "id"], &[1, 3], rows))
}

fn disks(measurement: &Measurement) -> Option<Table> {
    let row = |disk: &DiskTotals| {
        let share = disk.busy.secs() / measurement.duration.secs();
        vec![
            disk.device.clone(),
            Bytes::from_sectors(disk.read_sectors).to_string(),
            disk.read_ios.to_string(),
            Bytes::from_sectors(disk.write_sectors).to_string(),
            disk.write_ios.to_string(),
            percent(Some(share.min(1.0)).filter(|share| share.is_finite())),
        ]
    };
    let rows: Vec<_> = measurement.disks.iter().map(row).collect();
    let head = ["device", "read", "reads", "written", "writes", "busy"];
    (!rows.is_empty()).then(|| table(&head, &[1, 2, 3, 4, 5], rows))
}

fn table(head: &[&str], numbers: &[usize], rows: Vec<Vec<String>>) -> Table {
    let rich = |fields: Vec<String>| fields.iter().map(Rich::plain).collect();
    Table {
        head: head.iter().map(Rich::plain).collect(),
        rows: rows.into_iter().map(rich).collect(),
        numbers: numbers.to_vec(),
    }
}

/// What could not be measured, and why; nothing where all was.
pub(crate) fn not_measured(report: &Report) -> Vec<Block> {
    if report.not_measured.is_empty() {
        return Vec::new();
    }
    let line = |lacking: &domain::finding::NotMeasured| format!("{}: {}", lacking.what, lacking.why);
    vec![heading("What could not be measured, and why"), lines(report.not_measured.iter().map(line))]
}

fn heading(title: &str) -> Block {
    Block::Heading(2, Rich::plain(title))
}

fn lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Block {
    Block::Lines(lines.into_iter().map(Rich::plain).collect())
}
