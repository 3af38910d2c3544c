//! The run beside what others published of its study's cells.

use super::prose;
use crate::Report;
use crate::published::{self, LEGEND, NUMBERS, TITLE};
use crate::wording::counted;
use analysis::published::{Agreement, Beside};
use maud::{Markup, html};

pub(super) fn body(report: &Report) -> Option<Markup> {
    let rows = &report.summary.published;
    let (apart, notes) = (published::disagreements(report), published::notes(report));
    (!rows.is_empty()).then(|| {
        html! {
            p { strong { (published::sentence(report)) } " " (published::provenance(report)) }
            @let (open, folded) = split(rows);
            @if !open.is_empty() { (table(report, &open)) }
            @if !folded.is_empty() {
                details { summary { (counted(folded.len(), "row")) " that agree" } (table(report, &folded)) }
            }
            p class="note" { (LEGEND) }
            @if !apart.is_empty() {
                div class="screen-only" {
                    h3 { "What does not agree" }
                    ul { @for sentence in &apart { li { (prose(sentence)) } } }
                }
            }
            @if !notes.is_empty() {
                h3 { "Notes of the rows" }
                ul { @for note in &notes { li { (prose(note)) } } }
            }
            h3 { "Published in" }
            ol class="sources" { @for source in published::sources(report) { li { (source) } } }
        }
    })
}

/// From this many rows on those that agree are folded.
const LONG_TABLE: usize = 13;

/// The rows to show at once, and those to fold.
fn split(rows: &[Beside]) -> (Vec<&Beside>, Vec<&Beside>) {
    rows.iter().partition(|row| rows.len() < LONG_TABLE || row.agrees != Agreement::Yes)
}

fn table(report: &Report, rows: &[&Beside]) -> Markup {
    let class = |column: usize| NUMBERS.contains(&column).then_some("n");
    let head = published::head(report);
    html! {
        div class="scroll" tabindex="0" role="group" aria-label=(TITLE) {
            table class="published sortable" {
                thead { tr { @for (i, name) in head.iter().enumerate() { th scope="col" class=[class(i)] { (name) } } } }
                tbody { @for row in rows { tr class=[(row.agrees == Agreement::No).then_some("apart")] {
                    @for (i, field) in published::row(report, row).iter().enumerate() { td class=[class(i)] data-label=(head[i]) { (field) } }
                } } }
            }
        }
    }
}
