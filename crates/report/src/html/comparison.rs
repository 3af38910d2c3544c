//! The page of a comparison.

use super::{effects, page, prose};
use crate::ComparisonReport;
use crate::wording::{bootstrap, direction, range};
use analysis::summary::Comparison;
use domain::units::Unit;
use maud::{Markup, html};

/// A comparison as one HTML file.
pub fn comparison_html(report: &ComparisonReport) -> String {
    page(
        &report.title,
        &html! {
            header {
                p class="overline" { "Flyball comparison" }
                h1 { (report.title) }
                p class="verdict" { (prose(&report.sentence)) }
            }
            main {
                section {
                    h2 { "Ratios" }
                    p class="note" { "B over A. The shaded band is the practical threshold: a difference within it is not worth a claim." }
                    (effects::table(&groups(report), effects::Says::Verdicts))
                }
                section {
                    h2 { "In words" }
                    @for (context, c) in &report.comparisons { (in_words(context, c)) }
                }
                @if !report.notes.is_empty() {
                    section { h2 { "To know besides" } ul { @for note in &report.notes { li { (prose(note)) } } } }
                }
            }
        },
    )
}

fn groups(report: &ComparisonReport) -> Vec<(String, Vec<Comparison>)> {
    report.comparisons.iter().map(|(context, c)| (context.clone(), vec![c.clone()])).collect()
}

fn in_words(context: &str, c: &Comparison) -> Markup {
    html! {
        p { strong { (context) } br; (prose(&c.sentence)) br;
            span class="note" { "Medians of " (c.metric) " " (both(&c.unit, c.medians)) ", " (direction(c.better)) "; " (c.trials.0) " and " (c.trials.1) " trials. " (bootstrap(c)) } }
    }
}

/// Two values in the order A, B.
fn both(unit: &Unit, (a, b): (f64, f64)) -> String {
    range(unit, a, b).replacen(" to ", " and ", 1)
}
