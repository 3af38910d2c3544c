//! What each factor changes in each context, and how much of the variance it explains.

use crate::Report;
use crate::svg::forest;
use crate::wording::{
    CONTEXT_TITLE, asked_and_context, bootstrap, counted, p_value, ratio, ratio_interval, verdict_sign,
    verdict_word,
};
use analysis::summary::{Comparison, FactorEffect};
use maud::{Markup, html};

/// Contexts of one factor that are shown at once; the others are folded.
const OPEN_CONTEXTS: usize = 6;

pub(super) fn body(report: &Report) -> Option<Markup> {
    let (asked, context) = asked_and_context(report);
    let has_any = |effects: &[&FactorEffect]| effects.iter().any(|e| !e.comparisons.is_empty());
    (has_any(&asked) || has_any(&context)).then(|| html! {
        p class="note" {
            "Each level against the factor's first, everything else held fixed. ▲ better, ▼ worse, = no difference, ? undecided. "
            "The shaded band is the practical threshold: a difference within it is not worth a claim."
        }
        (by_factor(&asked, Says::Verdicts))
        @if has_any(&context) {
            // Paper has the factors that the question is about.
            div class="screen-only" {
                h3 { (CONTEXT_TITLE) }
                (by_factor(&context, Says::Curves))
            }
        }
    })
}

/// What a table of comparisons is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// An answer to a question.
    Verdicts,
    /// How the metric goes with a factor that nobody asks about.
    Curves,
}

fn by_factor(effects: &[&FactorEffect], says: Says) -> Markup {
    let effects: Vec<&FactorEffect> = effects.iter().copied().filter(|e| !e.comparisons.is_empty()).collect();
    let mut factors: Vec<&str> = Vec::new();
    for effect in &effects {
        if !factors.contains(&effect.factor.as_str()) {
            factors.push(&effect.factor);
        }
    }
    html! {
        @for factor in factors {
            @let mine: Vec<&FactorEffect> = effects.iter().copied().filter(|e| e.factor == factor).collect();
            h3 { (factor) }
            (of_factor(&mine, says))
        }
    }
}

fn of_factor(effects: &[&FactorEffect], says: Says) -> Markup {
    let (open, folded) = effects.split_at(effects.len().min(OPEN_CONTEXTS));
    let groups = |effects: &[&FactorEffect]| -> Vec<(String, Vec<Comparison>)> {
        effects.iter().map(|e| (e.context.clone(), e.comparisons.clone())).collect()
    };
    html! {
        (table(&groups(open), says))
        @if !folded.is_empty() {
            details { summary { (counted(folded.len(), "more context")) } (table(&groups(folded), says)) }
        }
    }
}

/// Comparisons in groups, on one axis.
pub(super) fn table(groups: &[(String, Vec<Comparison>)], says: Says) -> Markup {
    let scale = forest::scale(groups.iter().flat_map(|(_, comparisons)| comparisons));
    let flat = groups.iter().all(|(context, comparisons)| !context.is_empty() && comparisons.len() == 1);
    html! {
        table class="cells ratios" {
            thead { tr {
                th scope="col" { "against" } th scope="col" { "change" } th scope="col" class="n" { "ratio" }
                th scope="col" class="n" { "interval" } th scope="col" class="n" { "p" } th scope="col" { @if says == Says::Verdicts { "verdict" } }
            } }
            @for (context, comparisons) in groups {
                tbody {
                    @if !flat && !context.is_empty() { tr class="group" { th colspan="6" scope="rowgroup" { (context) } } }
                    @for c in comparisons { tr title={ (c.sentence) ". " (bootstrap(c)) } {
                        th scope="row" class="name" { (name(c, flat.then_some(context))) }
                        td class="track" { (forest::row(c, &scale)) }
                        td class="n median" { (ratio(c)) }
                        td class="n range" { (ratio_interval(c)) }
                        td class="n best" data-label="p" { (p_value(c)) }
                        td class="verdict-cell" {
                            @if says == Says::Verdicts { (verdict_sign(c.verdict)) " " (verdict_word(c.verdict)) }
                        }
                    } }
                }
            }
            tbody class="axis-row" { tr { td {} td class="track" { (forest::axis(&scale)) } td colspan="4" {} } }
        }
    }
}

/// Where each context has one comparison, the context stands in the row instead of above it.
fn name(c: &Comparison, context: Option<&String>) -> Markup {
    html! {
        @match context {
            Some(context) => { span { (context) } br; span class="against small" { (c.b) " against " (c.a) } }
            None => { span { (c.b) span class="against" { " against " (c.a) } } }
        }
    }
}

pub(super) fn attribution(report: &Report) -> Option<Markup> {
    let all = &report.summary.attribution;
    let mut workloads: Vec<&str> = Vec::new();
    for a in all {
        if !workloads.contains(&a.workload.as_str()) {
            workloads.push(&a.workload);
        }
    }
    (!all.is_empty()).then(|| html! {
        p class="note" { "How much of the variance of the values (of their logarithms) each factor and pair of factors explains; the residual is what trials of one cell differ by." }
        div class="bars" {
            @for workload in workloads {
                h3 { (workload) }
                @for a in all.iter().filter(|a| a.workload == workload) {
                    @let percent = format!("{:.1}%", a.share * 100.0);
                    div class={ "bar" @if a.source == "residual" { " residual" } } {
                        span class="what" { (a.source) }
                        span class="rail" aria-hidden="true" { span style={ "width:" (format!("{:.2}%", a.share.clamp(0.0, 1.0) * 100.0)) } {} }
                        span class="n" { (percent) }
                    }
                }
            }
        }
    })
}
