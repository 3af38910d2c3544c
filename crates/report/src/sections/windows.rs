//! How busy CPUs were between two samples of their governor, against the load above which it goes up.

use super::{heading, item, paragraph, table};
use crate::Report;
use crate::document::{Block, Table};
use crate::wording::cell_label;
use analysis::facts::cell_events;
use analysis::summary::CellSummary;
use domain::time::Nanos;
use domain::units::Hertz;
use domain::windows::{Boundary, GovernorWindows, Windows};
use std::collections::BTreeMap;

/// The title of [`windows_table`].
pub(crate) const WINDOWS_TITLE: &str = "Load between samples of the governor";

/// The busiest CPU's windows, by frequency.
pub(crate) fn windows(all: &GovernorWindows) -> Vec<Block> {
    let Some((cpu, windows)) = all.busiest() else { return Vec::new() };
    let row = |name: String, loads: &Loads| vec![name, sum(loads).to_string(), median(loads), highest(loads)];
    let frequencies = windows.frequencies();
    let at = |khz: &Option<u32>| row(frequency(*khz), &windows.by_load(|other| other == *khz));
    let mut rows: Vec<Vec<String>> = frequencies.iter().map(at).collect();
    if rows.len() > 1 {
        rows.push(row("all".into(), &windows.by_load(|_| true)));
    }
    let head = ["frequency", "windows", "median load", "highest"];
    let told = format!("{}, the busiest: {}.", all.named(cpu), in_words(all, windows));
    let shared = all.shared.contains_key(&cpu).then(|| item(SHARED));
    let notes = notes(std::slice::from_ref(all)).into_iter().map(item);
    let table = Block::Table(table(&head, &[0, 1, 2, 3], rows));
    [table, paragraph(told)].into_iter().chain(shared).chain(notes).collect()
}

/// What is to be said of a governor that decides for several CPUs.
const SHARED: &str = "The governor decides for all CPUs of the policy by the busiest: a window's load is that of its busiest CPU.";

/// What is to be said where a governor saw more than was counted.
const COUNTS_WAITING: &str = "Waits for I/O raise the load that the governor goes by (io_is_busy, or the boost of intel_pstate): it saw more than this.";

/// What is to be said where windows lie between requests.
const REQUESTS: &str = "Windows of schedutil lie between two of its requests for a frequency. It decides by utilisation (PELT, raised by waits for I/O), which is in no event: the load here is the share of a window for which a thread ran.";

/// What is to be said of these windows.
fn notes(all: &[GovernorWindows]) -> Vec<String> {
    let asks = |all: &&GovernorWindows| all.boundary == Boundary::Request;
    let mut limits: Vec<Nanos> = all.iter().filter(asks).filter_map(|all| all.rate_limit).collect();
    limits.sort_unstable();
    limits.dedup();
    let limit = match limits[..] {
        [limit] => format!(" Its rate_limit_us is {limit}."),
        _ => String::new(),
    };
    let requests = all.iter().any(|all| asks(&all)).then(|| format!("{REQUESTS}{limit}"));
    let waiting = all.iter().any(|all| all.counts_waiting).then(|| COUNTS_WAITING.to_owned());
    requests.into_iter().chain(waiting).collect()
}

/// `75 windows of 100 ms in the mean, busy for 44% of their time; 3 above 95%, where the governor goes up`.
fn in_words(all: &GovernorWindows, windows: &Windows) -> String {
    let length = windows.mean_length().map_or_else(String::new, |length| format!(" of {length} in the mean"));
    let busy = windows.load();
    let busy = busy.map_or_else(String::new, |load| format!(", busy for {:.0}% of their time", load * 100.0));
    let above = all.threshold.zip(all.above(windows)).map(|(threshold, above)| {
        let least = if all.counts_waiting { "at least " } else { "" };
        let above = if above == 0 && least.is_empty() { "none".to_owned() } else { above.to_string() };
        format!("; {least}{above} above {threshold:.0}%, where the governor goes up")
    });
    format!("{} windows{length}{busy}{}", windows.all(), above.unwrap_or_default())
}

/// The windows of each cell's busiest CPU; `None` where no trial has any.
pub(crate) fn windows_table(report: &Report) -> Option<Table> {
    let of_cell = |cell: &CellSummary| {
        let all = cell_events::windows(report.data, &cell.cell)?;
        let (cpu, windows) = all.busiest()?;
        let least = if all.counts_waiting { "≥ " } else { "" };
        let share = |count: u64| format!("{least}{:.0}%", 100.0 * count as f64 / windows.all().max(1) as f64);
        let unknown = || "–".to_owned();
        Some(vec![
            cell_label(report, cell),
            all.named(cpu),
            windows.all().to_string(),
            windows.mean_length().map_or_else(unknown, |length| length.to_string()),
            median(&windows.by_load(|_| true)),
            all.threshold.map_or_else(unknown, |threshold| format!("{threshold:.0}%")),
            all.above(windows).map_or_else(unknown, share),
        ])
    };
    let rows: Vec<Vec<String>> = report.summary.cells.iter().filter_map(of_cell).collect();
    let head = ["cell", "busiest", "windows", "length", "median load", "goes up above", "above it"];
    (!rows.is_empty()).then(|| table(&head, &[2, 3, 4, 5, 6], rows))
}

/// What is to be said beside that table, where anything is.
pub(crate) fn windows_notes(report: &Report) -> Vec<String> {
    let cells = report.summary.cells.iter();
    let all: Vec<GovernorWindows> =
        cells.filter_map(|cell| cell_events::windows(report.data, &cell.cell)).collect();
    notes(&all)
}

/// The table with its title.
pub(super) fn windows_of_cells(report: &Report) -> Vec<Block> {
    let Some(table) = windows_table(report) else { return Vec::new() };
    let notes = windows_notes(report).into_iter().map(paragraph);
    [heading(WINDOWS_TITLE), Block::Table(table)].into_iter().chain(notes).collect()
}

/// Windows by load in percent.
type Loads = BTreeMap<u8, u64>;

fn frequency(khz: Option<u32>) -> String {
    khz.map_or_else(|| "not seen".into(), |khz| Hertz::from_khz(u64::from(khz)).to_string())
}

fn sum(loads: &Loads) -> u64 {
    loads.values().fold(0, |all, count| all.saturating_add(*count))
}

/// The load of the window in the middle.
pub(crate) fn median(loads: &Loads) -> String {
    let (middle, mut seen) = (sum(loads).div_ceil(2), 0u64);
    let load = loads.iter().find(|(_, count)| {
        seen = seen.saturating_add(**count);
        seen >= middle && **count > 0
    });
    load.map_or_else(|| "–".into(), |(load, _)| format!("{load}%"))
}

fn highest(loads: &Loads) -> String {
    loads.keys().next_back().map_or_else(|| "–".into(), |load| format!("{load}%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_schedutil_it_is_said_that_its_utilisation_is_not_seen() {
        let ms = Nanos::from_millis;
        let of = |boundary, limit_ms: Option<u64>, counts_waiting| GovernorWindows {
            boundary,
            rate_limit: limit_ms.map(ms),
            counts_waiting,
            ..GovernorWindows::default()
        };
        let asks = |limit_ms| of(Boundary::Request, limit_ms, false);
        let [said] = &notes(&[asks(Some(2)), asks(Some(2))])[..] else { panic!("one remark") };
        assert!(said.contains("PELT") && said.ends_with("Its rate_limit_us is 2 ms."), "{said}");
        for unsure in [vec![asks(None)], vec![asks(Some(2)), asks(Some(4))]] {
            let said = notes(&unsure);
            assert!(said.len() == 1 && !said[0].contains("rate_limit_us"), "{said:?}");
        }
        assert!(notes(&[of(Boundary::Sample, None, false)]).is_empty());
        assert_eq!(notes(&[of(Boundary::Sample, None, true)]), [COUNTS_WAITING]);
    }

    #[test]
    fn windows_between_requests_have_no_threshold() {
        let mut windows = Windows::default();
        windows.add(Some(2_000_000), Nanos::from_millis(8), Nanos::from_millis(2));
        let all = GovernorWindows {
            boundary: Boundary::Request,
            cpus: [(0, windows.clone())].into(),
            ..GovernorWindows::default()
        };
        assert_eq!(in_words(&all, &windows), "1 windows of 8 ms in the mean, busy for 25% of their time");
    }
}
