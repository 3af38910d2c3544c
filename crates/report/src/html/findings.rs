//! The findings as cards, and what could not be found out.

use super::prose;
use crate::Report;
use crate::wording::{capitalised, certain, change, counted, names};
use domain::finding::{Finding, Gain, Remedy};
use maud::{Markup, html};

pub(super) fn body(report: &Report) -> Option<Markup> {
    Some(html! {
        @if report.findings.is_empty() {
            p { "No rule found a cause in what was measured. That is not a proof that there is none." }
        }
        @let names = names(report);
        @for finding in report.findings { (card(finding, &capitalised(&finding.title, &names))) }
        @if report.findings.len() > PRINTED {
            p class="paper-only note" { (counted(report.findings.len() - PRINTED, "more finding")) " on the page, not printed." }
        }
    })
}

/// How many findings paper has, the most important: the style hides those after them.
const PRINTED: usize = 2;

fn card(finding: &Finding, title: &str) -> Markup {
    html! {
        article class="finding" {
            p class="overline" {
                span class={ "confidence " (finding.confidence.name()) } { (finding.confidence.name()) }
                " · rule " (finding.rule)
            }
            h3 { (prose(title)) }
            p { (prose(&finding.reason)) }
            (evidence(finding))
            dl class="steps" {
                @if let Some(gain) = &finding.gain { (expected(gain)) }
                @if let Some(remedy) = &finding.remedy { (what_to_do(remedy)) }
                @if !finding.next.is_empty() {
                    dt { "Next" }
                    dd { pre class="command" { code { (finding.next) } } }
                }
            }
        }
    }
}

fn evidence(finding: &Finding) -> Markup {
    html! {
        table class="evidence" {
            thead { tr { th scope="col" { "Evidence" } th scope="col" { "Figure" } th scope="col" { "From" } } }
            tbody { @for e in &finding.evidence { tr {
                td { (prose(&e.what)) } td class="figure" { (prose(&e.figure)) } td class="source" { (prose(&e.source)) }
            } } }
        }
    }
}

fn expected(gain: &Gain) -> Markup {
    html! {
        dt { "Expected" }
        dd {
            (gain.metric) " " strong { (change(gain.ratio)) } (certain(gain))
        }
    }
}

fn what_to_do(remedy: &Remedy) -> Markup {
    html! {
        dt { "Remedy" }
        dd {
            (prose(&remedy.what))
            @for setting in &remedy.settings { br; code { (setting) } }
        }
        dt { "Undo" }
        dd { (prose(&remedy.undo)) }
    }
}

pub(super) fn not_measured(report: &Report) -> Option<Markup> {
    (!report.not_measured.is_empty()).then(|| {
        html! {
            dl class="reasons" {
                @for n in report.not_measured { dt { (prose(&n.what)) } dd { (prose(&n.why)) } }
            }
        }
    })
}
