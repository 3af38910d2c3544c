//! What the threads of each cell's workload spent their time on, and how long its block devices took.

use super::{heading, paragraph, table};
use crate::Report;
use crate::document::{Block, Table};
use crate::wording::{cell_label, percent};
use analysis::facts::cell_events::{self, OfDevice};
use domain::order;
use domain::spent::{Spent, Wait};
use domain::took::Took;
use domain::trace::Role;
use domain::trial::Measurement;
use domain::units::Unit;

/// The title of [`waits_table`].
pub(crate) const WAITS_TITLE: &str = "What the workload's threads waited for";

/// What the shares are of.
pub(crate) const WAITS_NOTE: &str = "Shares of the time of the workload's threads in the trials of a cell that recorded events. Those of a tool that only watch its jobs are among them. A thread is ready where it could run and had no CPU; a wait is for what ended it.";

/// The title of [`served_table`].
pub(crate) const SERVED_TITLE: &str = "How long block devices took";

/// What is counted.
pub(crate) const SERVED_NOTE: &str = "Means, of the trials of a cell that recorded events, and of a recording by what the kernel summed up. Queue: from the bio to the driver; device: from the driver to the completion; whole, of layers without requests such as md and dm: from the bio's queueing to its completion. 99% within: of the device's time, or of the whole.";

/// Rows of devices of one cell: those with most requests.
const MAX_DEVICES: usize = 6;

/// The shares of each cell; `None` where no switches were recorded.
pub(crate) fn waits_table(report: &Report) -> Option<Table> {
    let of_cell = |cell: &analysis::summary::CellSummary| {
        let spent = *cell_events::spent(report.data, &cell.cell).get(&Role::Workload)?;
        Some((cell_label(report, cell), spent))
    };
    let cells: Vec<(String, Spent)> = report.summary.cells.iter().filter_map(of_cell).collect();
    let seen: Vec<Wait> = Wait::ALL
        .into_iter()
        .filter(|wait| cells.iter().any(|(_, spent)| spent.wait_ns[*wait as usize] > 0))
        .collect();
    let row = |(label, spent): &(String, Spent)| {
        let all = spent.all().get().max(1) as f64;
        let waited = seen.iter().map(|wait| spent.wait_ns[*wait as usize]);
        let shares = [spent.cpu_ns, spent.ready_ns].into_iter().chain(waited);
        let shares = shares.map(|ns| percent(Some(ns as f64 / all)));
        [label.clone()].into_iter().chain(shares).collect()
    };
    let rows: Vec<Vec<String>> = cells.iter().map(row).collect();
    let head: Vec<&str> =
        ["cell", "on a CPU", "ready"].into_iter().chain(seen.iter().map(|wait| title(*wait))).collect();
    let numbers: Vec<usize> = (1..head.len()).collect();
    (!rows.is_empty()).then(|| table(&head, &numbers, rows))
}

const fn title(wait: Wait) -> &'static str {
    match wait {
        Wait::Io => "I/O",
        Wait::Interrupt => "irq",
        Wait::Lock | Wait::Timer | Wait::Thread | Wait::Unknown => wait.name(),
    }
}

/// The columns of a device.
const COLUMNS: [&str; 7] = ["device", "what", "a second", "queue", "device took", "whole", "99% within"];

/// How long devices took in each cell; `None` where no requests were recorded.
pub(crate) fn served_table(report: &Report) -> Option<Table> {
    let of_cell = |cell: &analysis::summary::CellSummary| {
        let label = cell_label(report, cell);
        let rows = rows(cell_events::served(report.data, &cell.cell)).into_iter();
        rows.map(|row| [vec![label.clone()], row].concat()).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = report.summary.cells.iter().flat_map(of_cell).collect();
    let head = [&["cell"], &COLUMNS[..]].concat();
    (!rows.is_empty()).then(|| table(&head, &[3, 4, 5, 6, 7], rows))
}

/// The same of one trial.
pub(super) fn served_of(measurement: &Measurement) -> Option<Table> {
    let rows = rows(cell_events::served_of(measurement).collect());
    (!rows.is_empty()).then(|| table(&COLUMNS, &[2, 3, 4, 5, 6], rows))
}

fn rows(mut served: Vec<OfDevice>) -> Vec<Vec<String>> {
    order::by_key(&mut served, |one| std::cmp::Reverse(one.served.count));
    served.iter().take(MAX_DEVICES).map(row).collect()
}

fn row(one: &OfDevice) -> Vec<String> {
    let OfDevice { device, op, served, time } = one;
    let means = [&served.queue, &served.service, &served.whole].map(Took::mean);
    let within = served.service.quantile(0.99).or_else(|| served.whole.quantile(0.99));
    let times = means.into_iter().chain([within]);
    let times = times.map(|time| time.map_or_else(|| "–".to_owned(), |time| time.to_string()));
    let rate = Unit::PerSecond.show(served.count as f64 / time.secs());
    [device.clone(), op.name().to_owned(), rate].into_iter().chain(times).collect()
}

/// The tables with their titles.
pub(super) fn waits(report: &Report) -> Vec<Block> {
    let tables =
        [(WAITS_TITLE, waits_table(report), WAITS_NOTE), (SERVED_TITLE, served_table(report), SERVED_NOTE)];
    let titled = |(title, table, note): (&'static str, Option<Table>, &'static str)| {
        Some([heading(title), Block::Table(table?), paragraph(note)])
    };
    tables.into_iter().filter_map(titled).flatten().collect()
}
