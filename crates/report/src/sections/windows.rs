//! How busy CPUs were between two samples of their governor, against the load above which it goes up.

use super::{heading, item, paragraph, table};
use crate::Report;
use crate::document::{Block, Table};
use crate::wording::cell_label;
use analysis::cell_events;
use domain::units::Hertz;
use domain::windows::{GovernorWindows, Windows};

/// The title of [`windows_table`].
pub(crate) const WINDOWS_TITLE: &str = "What the governor saw";

/// The busiest CPU's windows, by frequency.
pub(crate) fn windows(all: &GovernorWindows) -> Vec<Block> {
    let Some((cpu, windows)) = all.busiest() else { return Vec::new() };
    let row = |name: String, loads: &[u64]| vec![name, sum(loads).to_string(), median(loads), highest(loads)];
    let frequencies = windows.frequencies();
    let at = |khz: &Option<u32>| row(frequency(*khz), &windows.by_load(|other| other == *khz));
    let mut rows: Vec<Vec<String>> = frequencies.iter().map(at).collect();
    if rows.len() > 1 {
        rows.push(row("all".into(), &windows.by_load(|_| true)));
    }
    let head = ["frequency", "windows", "median load", "highest"];
    let told = format!("CPU {cpu}, the busiest of {}: {}.", all.cpus.len(), in_words(all, windows));
    let counts = all.io_is_busy.then(|| item(WAITING_COUNTS));
    [Block::Table(table(&head, &[0, 1, 2, 3], rows)), paragraph(told)].into_iter().chain(counts).collect()
}

/// What is to be said where the governor saw more than was counted.
const WAITING_COUNTS: &str =
    "The governor counts a CPU that waits for I/O as busy (io_is_busy): it saw more load than this.";

/// `75 windows of 100 ms, busy for 44% of them; of the load above which the governor goes up, 95%, none came
/// near`.
fn in_words(all: &GovernorWindows, windows: &Windows) -> String {
    let length = windows.mean_length().map_or_else(String::new, |length| format!(" of {length} in the mean"));
    let busy = windows.load().map_or_else(String::new, |load| format!(", busy for {:.0}%", load * 100.0));
    let reached = all.threshold.map(|threshold| match windows.from(threshold) {
        0 => format!("; none reached the {threshold:.0}% above which the governor goes up"),
        some => format!("; {some} reached the {threshold:.0}% above which the governor goes up"),
    });
    format!("{} windows{length}{busy}{}", windows.all(), reached.unwrap_or_default())
}

/// The windows of each cell's busiest CPU; `None` where no trial has any.
pub(crate) fn windows_table(report: &Report) -> Option<Table> {
    let of_cell = |cell: &analysis::summary::CellSummary| {
        let all = cell_events::windows(report.data, &cell.cell)?;
        let (cpu, windows) = all.busiest()?;
        let share = |count: u64| format!("{:.0}%", 100.0 * count as f64 / windows.all().max(1) as f64);
        Some(vec![
            cell_label(report, cell),
            format!("CPU {cpu}"),
            windows.all().to_string(),
            windows.mean_length().map_or_else(|| "–".into(), |length| length.to_string()),
            median(&windows.by_load(|_| true)),
            all.threshold.map_or_else(|| "–".into(), |threshold| format!("{threshold:.0}%")),
            all.threshold.map_or_else(|| "–".into(), |threshold| share(windows.from(threshold))),
        ])
    };
    let rows: Vec<Vec<String>> = report.summary.cells.iter().filter_map(of_cell).collect();
    let head = ["cell", "busiest", "windows", "length", "median load", "goes up above", "reached it"];
    (!rows.is_empty()).then(|| table(&head, &[2, 3, 4, 5, 6], rows))
}

/// The table with its title.
pub(super) fn windows_of_cells(report: &Report) -> Vec<Block> {
    let titled = |table| [heading(WINDOWS_TITLE), Block::Table(table)];
    windows_table(report).map(titled).into_iter().flatten().collect()
}

fn frequency(khz: Option<u32>) -> String {
    khz.map_or_else(|| "not seen".into(), |khz| Hertz::from_khz(u64::from(khz)).to_string())
}

fn sum(loads: &[u64]) -> u64 {
    loads.iter().fold(0, |all, count| all.saturating_add(*count))
}

/// The class that the window in the middle is in.
fn median(loads: &[u64]) -> String {
    let (middle, mut seen) = (sum(loads).div_ceil(2), 0u64);
    let class = loads.iter().position(|count| {
        seen = seen.saturating_add(*count);
        seen >= middle && *count > 0
    });
    class_in_words(class)
}

fn highest(loads: &[u64]) -> String {
    class_in_words(loads.iter().rposition(|count| *count > 0))
}

/// `40 to 45%`.
fn class_in_words(class: Option<usize>) -> String {
    let step = usize::from(Windows::STEP);
    class.map_or_else(|| "–".into(), |n| format!("{} to {}%", n * step, (n + 1) * step))
}
