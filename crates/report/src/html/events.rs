//! What recorded events say of each cell: what CPU time was spent in, and what governors saw.

use crate::Report;
use crate::document::{Block, Table, in_html};
use crate::sections::{
    BECAME, BECAME_NOTE, CallsTable, SERVED_NOTE, TIMES, TIMES_NOTE, WAITS_NOTE, layers_table, served_table,
    spent_note, spent_table, waits_table, windows_notes, windows_table,
};
use crate::wording::cell_label;
use analysis::facts::cell_events;
use domain::windows::{GovernorWindows, Windows};
use maud::{Markup, html};

/// Cells whose windows are drawn; the table has all of them.
const DRAWN_CELLS: usize = 24;

/// The width of a bar, in percentage points of load.
const STEP: u8 = 5;

pub(super) fn spent(report: &Report) -> Option<Markup> {
    noted(&spent_note(report), spent_table(report)?)
}

pub(super) fn waits(report: &Report) -> Option<Markup> {
    noted(WAITS_NOTE, waits_table(report)?)
}

pub(super) fn served(report: &Report) -> Option<Markup> {
    noted(SERVED_NOTE, served_table(report)?)
}

pub(super) fn became(report: &Report) -> Option<Markup> {
    noted(BECAME_NOTE, layers_table(report, &BECAME)?)
}

pub(super) fn times(report: &Report) -> Option<Markup> {
    noted(TIMES_NOTE, layers_table(report, &TIMES)?)
}

pub(super) fn calls(report: &Report, of: &CallsTable) -> Option<Markup> {
    noted(of.note, of.of_cells(report)?)
}

fn noted(note: &str, table: Table) -> Option<Markup> {
    Some(html! {
        p class="note" { (note) }
        (in_html(&Block::Table(table)))
    })
}

pub(super) fn windows(report: &Report) -> Option<Markup> {
    let table = windows_table(report)?;
    let drawn =
        report.summary.cells.iter().filter_map(|cell| {
            Some((cell_label(report, cell), cell_events::windows(report.data, &cell.cell)?))
        });
    let drawn: Vec<(String, GovernorWindows)> = drawn.take(DRAWN_CELLS).collect();
    Some(html! {
        p class="note" {
            "How busy a CPU was between two samples of its governor, which goes up where that is above its threshold. Each row is the busiest CPU of a cell, from idle on the left to busy all the time on the right; the line is the threshold."
        }
        @for note in windows_notes(report) { p class="note" { (note) } }
        div class="bars windows" {
            @for (name, all) in &drawn {
                @if let Some((_, windows)) = all.busiest() { (row(name, all.threshold, windows)) }
            }
        }
        (in_html(&Block::Table(table)))
    })
}

fn row(name: &str, threshold: Option<f64>, windows: &Windows) -> Markup {
    let mut bars = [0u64; (Windows::FULL / STEP) as usize];
    for (load, count) in windows.by_load(|_| true) {
        // A full window stands in the last bar.
        let bar = usize::from(load / STEP).min(bars.len() - 1);
        bars[bar] = bars[bar].saturating_add(count);
    }
    let most = bars.iter().copied().max().unwrap_or(0).max(1);
    html! {
        div class="bar" {
            span class="what" { (name) }
            span class="rail loads" aria-hidden="true" {
                @for (bar, count) in bars.iter().enumerate() {
                    @let from = bar * usize::from(STEP);
                    @let title = format!("{from} to {}%: {count} windows", from + usize::from(STEP));
                    span style=(format!("height:{:.1}%", *count as f64 / most as f64 * 100.0)) title=(title) {}
                }
                @if let Some(threshold) = threshold {
                    b style=(format!("left:{threshold:.1}%")) title=(format!("goes up above {threshold:.0}%")) {}
                }
            }
            span class="n" { (windows.all()) }
        }
    }
}
