//! How to do it again: the study file verbatim, the seed, the literal commands, the versions.

use crate::wording::{command_line, run_again, tools};
use crate::{Report, lab};
use domain::ids::CellId;
use domain::trial::Trial;
use maud::{Markup, html};

pub(super) fn body(report: &Report) -> Option<Markup> {
    let run = &report.data.run;
    let is_recording = report.data.study.is_recording();
    Some(html! {
        @if !is_recording {
            p { "The same plan in the same order, with the study below saved as " code { (run.study) ".toml" } ":" }
        }
        pre class="command" { code { (run_again(report)) } }
        dl class="facts" {
            @if !is_recording { dt { "Seed" } dd { (run.seed) } }
            dt { "Flyball" } dd { (run.flyball) }
            @if let Some(revision) = &run.revision { dt { "Study at" } dd { (revision) } }
            @for tool in tools(report) { dt { "Tool" } dd { (tool) } }
        }
    })
}

/// What it takes to do it again, verbatim: folded on a screen, an appendix on paper.
pub(super) fn appendix(report: &Report) -> Option<Markup> {
    Some(html! {
        div class="appendix" {
            details class="printed" { summary { "The study file" } pre { code { (report.data.run.study_text) } } }
            (commands(report))
        }
    })
}

/// The commands of one trial of each cell; those of the others differ in nothing but their trial.
fn commands(report: &Report) -> Markup {
    let of_cell =
        |id: &CellId| report.data.trials.iter().find(|t| t.key.cell == *id && t.measurement.is_some());
    let trials: Vec<&Trial> = report.summary.cells.iter().filter_map(|c| of_cell(&c.cell)).collect();
    html! {
        @if !trials.is_empty() {
            details {
                summary { "The commands, one trial of each cell" }
                @if let Some(d) = lab::dilation(report) {
                    p class="note" { "As they ran in the guest, where everything takes " (d) " times as long." }
                }
                @for t in trials {
                    h4 { (t.key.folder()) }
                    @if !t.settings.is_empty() {
                        ul class="settings" { @for s in &t.settings {
                            li { code { (s.path) } ": " (s.before) " → " (s.got) @if s.got != s.asked { strong { " (asked for " (s.asked) ")" } } }
                        } }
                    }
                    pre { code { @for argv in t.measurement.iter().flat_map(|m| &m.commands) { (command_line(argv)) "\n" } } }
                }
            }
        }
    }
}
