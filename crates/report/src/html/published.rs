//! The run beside what others published of its study's cells.

use super::prose;
use crate::Report;
use crate::published::{self, LEGEND, NUMBERS, TITLE};
use analysis::published::{Agreement, Beside};
use maud::{Markup, html};

pub(super) fn body(report: &Report) -> Option<Markup> {
    let rows = &report.summary.published;
    let (apart, notes) = (published::disagreements(report), published::notes(report));
    (!rows.is_empty()).then(|| {
        html! {
            p { strong { (published::sentence(report)) } " " (published::provenance(report)) }
            (table(report, rows))
            p class="note" { (LEGEND) }
            @if !apart.is_empty() {
                h3 { "What does not agree" }
                ul { @for sentence in &apart { li { (prose(sentence)) } } }
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

fn table(report: &Report, rows: &[Beside]) -> Markup {
    let class = |column: usize| NUMBERS.contains(&column).then_some("n");
    html! {
        div class="scroll" tabindex="0" role="group" aria-label=(TITLE) {
            table class="published" {
                thead { tr { @for (i, name) in published::head(report).iter().enumerate() { th scope="col" class=[class(i)] { (name) } } } }
                tbody { @for row in rows { tr class=[(row.agrees == Agreement::No).then_some("apart")] {
                    @for (i, field) in published::row(report, row).iter().enumerate() { td class=[class(i)] { (field) } }
                } } }
            }
        }
    }
}
