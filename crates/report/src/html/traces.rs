//! Any trial over time: frequency, CPU by role and by state, throughput of every layer, devices' busy share.

use super::processors::{colour, legend};
use crate::document::{Block, in_html};
use crate::svg::series::{self, Quantity};
use crate::trace_view::{Held, Line, Lines, VirtualCpu};
use crate::wording::{counted, trial_name};
use crate::{MAX_TRACES, Report, TraceView, states};
use analysis::answer::about;
use analysis::facts::rates::COARSEST_TICKS;
use domain::Nanos;
use domain::ids::TrialKey;
use domain::trace::FrequencySource;
use domain::units::Unit;
use maud::{Markup, html};

pub(super) fn body(report: &Report) -> Option<Markup> {
    let shown = &report.traces[..report.traces.len().min(MAX_TRACES)];
    let left_out = report.traces.len() - shown.len();
    let opened = opened(report, shown);
    (!shown.is_empty()).then(|| html! {
        @for note in notes(shown) { p class="note" { (note) } }
        label id="trace-choice" hidden { "Trial " select {} }
        @for (i, (key, view)) in shown.iter().enumerate() {
            details class="trace" open[i == opened] {
                summary { (title(report, key)) }
                (one(view))
            }
        }
        @if left_out > 0 {
            p class="note" { (counted(left_out, "more trace")) " in the notebook; " code { "flyball export " (report.data.run.id) " --trace TRIAL" } " writes any of them." }
        }
    })
}

/// The trace that is open at first: of the cell that the verdict is about, else the first.
fn opened(report: &Report, shown: &[(TrialKey, TraceView)]) -> usize {
    let told = about(report.data, report.summary).and_then(|about| about.cell_of(&about.comparison.b));
    told.and_then(|cell| shown.iter().position(|(key, _)| key.cell == cell.cell)).unwrap_or(0)
}

/// How all plots are to be read, said once for all trials.
fn notes(shown: &[(TrialKey, TraceView)]) -> Vec<String> {
    let mut ticks: Vec<Nanos> = Vec::new();
    let mut dilations: Vec<f64> = Vec::new();
    for (_, view) in shown {
        let coarsest = coarsest(view);
        if !ticks.contains(&coarsest) {
            ticks.push(coarsest);
        }
        if view.dilation != 1.0 && !dilations.contains(&view.dilation) {
            dilations.push(view.dilation);
        }
    }
    let ticks = ticks.iter().map(Nanos::to_string).collect::<Vec<_>>().join(" or ");
    let plots = format!(
        "Bands reach from the lowest to the highest sample. The kernel books the states and the busy share in \
         whole ticks; their points are means over at least {ticks}."
    );
    let own = |d: &f64| format!("Times and rates are the machine's own: the guest took {d} times as long.");
    std::iter::once(plots).chain(dilations.iter().map(own)).collect()
}

/// Of a recording: whose CPU time it was over its time.
pub(super) fn answer_picture(report: &Report) -> Option<Markup> {
    let (_, view) = report.traces.first()?;
    let lines = role_lines(view);
    (!lines.is_empty()).then(|| {
        html! {
            figcaption { (ROLES) }
            (legend(lines.iter().map(|(c, l)| (*c, l.name.clone()))))
            (series::stacked(&lines, &Quantity::Of(Unit::Count), view.span, 1.0, ROLES))
        }
    })
}

fn title(report: &Report, key: &TrialKey) -> String {
    let trial = report.data.trials.iter().find(|t| t.key == *key);
    let value = trial.and_then(|t| t.metric(&report.summary.metric)).map(|v| report.summary.unit.show(v));
    let head = format!("{}, {}", key.cell, trial_name(key));
    value.map_or(head.clone(), |v| format!("{head}: {v}"))
}

fn one(view: &TraceView) -> Markup {
    html! {
        p class="note" {
            (counted(view.samples, "sample")) " over " (view.span) ", every " (view.interval)
            " as asked; a point of the plots is the mean over " (view.bucket) "."
        }
        div class="charts" {
        (frequency(view))
        @if let Some(truth) = truth(view) { (truth) }
        (roles(view))
        (states(view))
        (rates("Throughput by device", &view.throughput, &Quantity::Of(Unit::BytesPerSecond), view, 0.0, "No block device did anything."))
        (rates("Device busy", &view.busy, &Quantity::Of(Unit::Share), view, 1.0, "No block device was busy."))
        }
        @for (title, table) in states::tables(&view.residency) {
            details class="behind" { summary { (title) } (in_html(&Block::Table(table))) }
        }
    }
}

fn frequency(view: &TraceView) -> Markup {
    if view.frequency_source == FrequencySource::None {
        return chart(
            "Frequency",
            html! { p class="absent" { "This machine shows no frequency: neither APERF and MPERF counters nor cpufreq." } },
        );
    }
    let title = format!("Frequency, from {}", view.frequency_source.name());
    rates(&title, &view.frequency, &Quantity::Hertz, view, 0.0, "The source gave no value during this trial.")
}

/// The longest that the kernel's ticks blur, in the time that is shown.
fn coarsest(view: &TraceView) -> Nanos {
    Nanos::new((COARSEST_TICKS.get() as f64 / view.dilation).round() as u64)
}

/// What the lab knows, below what the guest saw.
fn truth(view: &TraceView) -> Option<Markup> {
    let truth = view.truth.as_ref().filter(|_| view.span > Nanos::ZERO)?;
    let title = "Frequency, the plugin's record of each change: ground truth";
    let lines: Vec<(usize, &[Held])> =
        truth.cpus.iter().enumerate().map(|(i, cpu)| (i, &cpu.held[..])).collect();
    let cut = |cpu: &VirtualCpu| match cpu.changes {
        (all, kept) if all > kept as u64 => format!(", the first {kept} of {all} changes"),
        _ => String::new(),
    };
    Some(chart(
        title,
        html! {
            ul class="legend" {
                @for (i, cpu) in truth.cpus.iter().enumerate() { li { (key(i)) "virtual CPU " (cpu.cpu) (cut(cpu)) } }
                @if truth.left_out > 0 { li { "and " (counted(truth.left_out, "more CPU")) " not drawn" } }
                @if !truth.aligned { li { "when it began on the trace's clock is not known: shown from its start" } }
            }
            (series::steps(&lines, view.span, title))
        },
    ))
}

const ROLES: &str = "CPU time by role, in cores";

fn role_lines(view: &TraceView) -> Vec<(usize, &Line)> {
    view.roles.iter().map(|(role, line)| (colour(*role), line)).collect()
}

fn roles(view: &TraceView) -> Markup {
    stack(ROLES, &role_lines(view), view, 1.0, "No thread's CPU time was recorded.")
}

/// The colours of the states: far apart, in the order of `TraceView::states`.
const STATE_COLOURS: [(&str, usize); 5] =
    [("user", 0), ("system", 1), ("iowait", 3), ("interrupts", 8), ("steal", 10)];

fn states(view: &TraceView) -> Markup {
    let colour = |line: &Line| STATE_COLOURS.iter().find(|(n, _)| *n == line.name).map_or(11, |(_, c)| *c);
    let lines: Vec<(usize, &Line)> = view.states.iter().map(|line| (colour(line), line)).collect();
    let title = match view.cpus {
        0 => "CPU time by state, in cores".to_owned(),
        n => format!("CPU time by state, in cores of {n}; the rest is idle"),
    };
    stack(&title, &lines, view, view.cpus as f64, "The CPUs' states were not recorded.")
}

fn stack(title: &str, lines: &[(usize, &Line)], view: &TraceView, at_least: f64, absent: &str) -> Markup {
    chart(
        title,
        html! {
            @if lines.is_empty() { p class="absent" { (absent) } } @else {
                (legend(lines.iter().map(|(c, l)| (*c, l.name.clone()))))
                (series::stacked(lines, &Quantity::Of(Unit::Count), view.span, at_least, title))
            }
        },
    )
}

fn rates(
    title: &str,
    lines: &Lines,
    quantity: &Quantity,
    view: &TraceView,
    at_least: f64,
    absent: &str,
) -> Markup {
    let coloured: Vec<(usize, &Line)> = lines.lines.iter().enumerate().collect();
    chart(
        title,
        html! {
            @if coloured.is_empty() { p class="absent" { (absent) } } @else {
                ul class="legend" {
                    @for (i, line) in &coloured { li { (key(*i)) (line.name) } }
                    @if lines.left_out > 0 { li { "and " (counted(lines.left_out, "lesser line")) " not drawn" } }
                }
                (series::lines(&coloured, quantity, view.span, at_least, title))
            }
        },
    )
}

/// A piece of the line as it is drawn: colour and dashes.
fn key(i: usize) -> Markup {
    html! {
        svg class="key" width="22" height="8" aria-hidden="true" {
            line class={ "stroke r" (i) " d" (i % 4) } x1="0" x2="22" y1="4" y2="4" {}
        }
    }
}

fn chart(title: &str, content: Markup) -> Markup {
    html! { figure class="chart" { figcaption { (title) } (content) } }
}
