//! Every trial: what was disturbed and why, the order of measurement, and the whole table.

use super::prose;
use crate::document::{Block, in_html};
use crate::sections::{PHASES_TITLE, phases_of_cells};
use crate::svg::order::{Counts, Measured, plot};
use crate::wording::{
    MAX_LEFT_OUT, aa_floor, counted, left_out_kinds, standing, traced, trial_name, value, why_not_counted,
};
use crate::{Report, lab};
use domain::trial::Trial;
use maud::{Markup, html};

pub(super) fn steadiness(report: &Report) -> Option<Markup> {
    let plot = plot(&in_order(report));
    let pace = lab::pace(report);
    (plot.is_some() || !pace.is_empty()).then(|| {
        html! {
            @if let Some(plot) = plot {
                p { (aa_floor(report)) }
                p class="note" { "Each trial over its cell's median, in the order of measurement." }
                (plot)
            }
            @for sentence in &pace { p { (sentence) } }
        }
    })
}

fn in_order(report: &Report) -> Vec<Measured> {
    let metric = &report.summary.metric;
    let measured = |trial: &Trial| {
        let cell = report.summary.cells.iter().find(|c| c.cell == trial.key.cell)?;
        let (value, median) = (trial.metric(metric)?, cell.median.filter(|m| *m > 0.0)?);
        let counts = if trial.validity.is_valid() { Counts::Yes } else { Counts::No };
        let title =
            format!("{}, {}: {}", trial.key.cell, trial_name(&trial.key), report.summary.unit.show(value));
        let ratio = Some(value / median).filter(|ratio| ratio.is_finite())?;
        Some(Measured { ratio, counts, title })
    };
    report.data.trials.iter().filter_map(measured).collect()
}

pub(super) fn body(report: &Report) -> Option<Markup> {
    let trials = &report.data.trials;
    let left_out: Vec<(usize, &Trial)> =
        trials.iter().enumerate().filter(|(_, t)| t.validity.is_spoilt()).collect();
    let traced = traced(report);
    Some(html! {
        @match (trials.len(), left_out.len()) {
            (0, _) => p { "No trial was measured." },
            (n, 0) => p {
                "Nothing was disturbed and nothing failed: " (counted(n - traced, "trial")) " of " (n) " count."
            },
            (n, out) => {
                p { (out) " of " (counted(n, "trial")) " " (if out == 1 { "is" } else { "are" }) " not counted:" }
                p class="note" { (left_out_kinds(&left_out.iter().map(|(_, t)| *t).collect::<Vec<_>>())) }
                @let (open, folded) = left_out.split_at(left_out.len().min(MAX_LEFT_OUT));
                (table(report, open))
                @if !folded.is_empty() {
                    details { summary { (folded.len()) " more not counted" } (table(report, folded)) }
                }
            }
        }
        @if traced > 0 {
            p { (counted(traced, "trial")) " recorded events and are counted for nothing else." }
        }
        @for (trial, table) in phases_of_cells(report) {
            h3 { (PHASES_TITLE) ", " (trial) }
            (in_html(&Block::Table(table)))
        }
        @if !trials.is_empty() {
            details {
                summary { "All " (counted(trials.len(), "trial")) ", in the order of measurement" }
                (table(report, &trials.iter().enumerate().collect::<Vec<_>>()))
            }
        }
    })
}

fn table(report: &Report, trials: &[(usize, &Trial)]) -> Markup {
    let summary = report.summary;
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="Trials" {
            table class="trials sortable" {
                thead { tr {
                    th scope="col" class="n" { "#" } th scope="col" { "Cell" } th scope="col" { "Trial" }
                    th scope="col" class="n" { (summary.metric) } th scope="col" { "Standing" } th scope="col" { "Why, and what the tool warned of" }
                } }
                tbody { @for (index, t) in trials { tr class=(standing(&t.validity)) {
                    td class="n" data-v=(index) { (index + 1) } td class="long" { (t.key.cell) } td { (trial_name(&t.key)) }
                    td class="n" data-v=[t.metric(&summary.metric)] { (value(&summary.unit, t.metric(&summary.metric))) }
                    td { (standing(&t.validity)) } td class="long" { (prose(&remarks(t))) }
                } } }
            }
        }
    }
}

fn remarks(trial: &Trial) -> String {
    let warnings = trial.measurement.iter().flat_map(|m| m.outcome.warnings.iter().cloned());
    let why = Some(why_not_counted(&trial.validity)).filter(|w| !w.is_empty());
    why.into_iter().chain(warnings).collect::<Vec<_>>().join("; ")
}
