//! What the CPU time of each cell was spent in.

use super::profile::NOT_RECORDED;
use super::{heading, paragraph, table};
use crate::Report;
use crate::document::{Block, Table};
use crate::wording::cell_label;
use analysis::facts::cell_events;
use domain::order;
use domain::profile::{Profile, Subsystem};

/// The title of [`spent_table`].
pub(crate) const SPENT_TITLE: &str = "What CPU time was spent in";

/// Parts that have a column of their own, the busiest.
const MAX_PARTS: usize = 5;

/// The shares of programs and of the parts of the kernel in each cell's CPU time; `None` where no trial has
/// call stacks.
pub(crate) fn spent_table(report: &Report) -> Option<Table> {
    let cells = cells(report);
    if cells.is_empty() {
        return None;
    }
    let share = |profile: &Profile, part: Subsystem| {
        profile.count(|_, other| other == part) as f64 / profile.all() as f64
    };
    let most = |part: Subsystem| cells.iter().map(|(_, profile)| share(profile, part)).fold(0.0, f64::max);
    let mut parts: Vec<Subsystem> = Subsystem::ALL.into_iter().filter(|part| most(*part) > 0.0).collect();
    order::by(&mut parts, |a, b| most(*b).total_cmp(&most(*a)));
    let are_all = parts.len() <= MAX_PARTS;
    parts.truncate(MAX_PARTS);
    let row = |(label, profile): &(String, Profile)| {
        let shares: Vec<f64> = parts.iter().map(|part| share(profile, *part)).collect();
        let others = (!are_all).then(|| (1.0 - shares.iter().sum::<f64>()).max(0.0));
        let shown = shares.into_iter().chain(others).map(|share| format!("{:.1}%", share * 100.0));
        let time = profile.time(profile.all()).to_string();
        [label.clone(), time].into_iter().chain(shown).collect()
    };
    let rows = cells.iter().map(row).collect();
    let head: Vec<&str> = ["cell", "CPU time"]
        .into_iter()
        .chain(parts.iter().map(|part| part.name()))
        .chain((!are_all).then_some("others"))
        .collect();
    let numbers: Vec<usize> = (1..head.len()).collect();
    Some(table(&head, &numbers, rows))
}

/// Those that have call stacks.
fn cells(report: &Report) -> Vec<(String, Profile)> {
    let of_cell = |cell: &analysis::summary::CellSummary| {
        let profile = cell_events::profile(report.data, &cell.cell).filter(|profile| profile.all() > 0)?;
        Some((cell_label(report, cell), profile))
    };
    report.summary.cells.iter().filter_map(of_cell).collect()
}

/// The table with its title, and what its figures are.
pub(super) fn spent(report: &Report) -> Vec<Block> {
    let Some(table) = spent_table(report) else { return Vec::new() };
    vec![heading(SPENT_TITLE), Block::Table(table), paragraph(spent_note(report))]
}

/// What the shares are of, and where interrupts of devices are in them.
pub(crate) fn spent_note(report: &Report) -> String {
    let are_known = cells(report).iter().all(|(_, profile)| profile.interrupts.is_some());
    let interrupts = if are_known {
        "Those that interrupts of devices held off count to interrupt."
    } else {
        NOT_RECORDED
    };
    format!("{SPENT_NOTE} {interrupts}")
}

const SPENT_NOTE: &str = "Shares of the call stacks that were sampled on busy CPUs in the trials of a cell that recorded them: of what ran, not of what it worked for.";
