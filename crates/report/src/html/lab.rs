//! A lab machine: what its virtual CPUs did, and what its time dilation leaves as it is.

use crate::{Report, lab};
use maud::{Markup, html};

pub(super) fn body(report: &Report) -> Option<Markup> {
    let (states, unscaled) = (lab::states(report), lab::unscaled(report));
    let energy = lab::energy_note(report);
    (states.is_some() || unscaled.is_some() || energy.is_some()).then(|| {
        html! {
            @if let Some(states) = &states { (table(report, states)) }
            @if let Some(note) = energy { p class="note" { (note) } }
            @if let Some((title, what)) = &unscaled {
                h3 { (title) }
                ul { @for one in what { li { (super::prose(one)) } } }
            }
        }
    })
}

fn table(report: &Report, states: &lab::States) -> Markup {
    html! {
        p class="note" { (lab::STATES_TITLE) ", over the valid trials of each cell, as the plugin that paces them counted it." }
        div class="scroll" tabindex="0" role="group" aria-label=(lab::STATES_TITLE) {
            table {
                thead { tr {
                    @for (i, name) in states.head().iter().enumerate() { th scope="col" class=[(i > 0).then_some("n")] { (name) } }
                } }
                tbody { @for row in states.table(report) { tr {
                    @for (i, field) in row.iter().enumerate() { td class=[(i > 0).then_some("n")] { (field) } }
                } } }
            }
        }
    }
}
