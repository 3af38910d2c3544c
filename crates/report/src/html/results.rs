//! Every cell: its trials, median, interval, what it is relative to the best, and its spread.

use crate::Report;
use crate::svg::{MARKS, Scale, axis, shown_in, strip};
use crate::wording::{
    direction, factor_levels, factors, interval, levels, percent, relative, value, workloads,
};
use analysis::summary::CellSummary;
use domain::units::{Unit, significant};
use maud::{Markup, html};

pub(super) fn body(report: &Report) -> Option<Markup> {
    let cells = &report.summary.cells;
    (!cells.is_empty()).then(|| {
        html! {
            @for workload in workloads(cells) {
                @let mine: Vec<&CellSummary> = cells.iter().filter(|c| c.workload == workload).collect();
                h3 { (workload) }
                (table(report, &mine))
                (heat(report, &mine))
            }
        }
    })
}

fn table(report: &Report, cells: &[&CellSummary]) -> Markup {
    let unit = &report.summary.unit;
    let scale = Scale::covering(cells.iter().flat_map(|c| strip::values(c)));
    let widest = cells.iter().filter_map(|c| c.spread).fold(0.0, f64::max);
    let names = factors(report, cells);
    let note = scale.as_ref().and_then(Scale::note);
    html! {
        p class="note" {
            (report.summary.metric) @if let Some(scale) = &scale { (unit_of(scale, unit)) } ", " (direction(report.summary.better))
            @if let Some(note) = note { "; " (note) }
            @if let Some((last, rest)) = names.split_last() {
                "; rows by " (last) @if !rest.is_empty() { " within " (rest.join(", ")) }
            }
        }
        table class="cells" {
            thead { tr {
                th scope="col" { (names.last().copied().unwrap_or("cell")) } th scope="col" { "trials" }
                th scope="col" class="n" { "median" } th scope="col" class="n" { (confidence(cells)) " interval" }
                th scope="col" class="n" { "of best" } th scope="col" class="n" { "spread" }
            } }
            @if cells.len() > LONG_TABLE { (axis_row(scale.as_ref(), unit)) }
            @for group in groups(report, cells) {
                tbody {
                    @if let Some(title) = &group.title { tr class="group" { th colspan="6" scope="rowgroup" { (title) } } }
                    @for (name, series, cell) in &group.rows {
                        tr {
                            th scope="row" class="name" { (swatch(*series)) span { (name) } }
                            td class="track" {
                                @if let Some(scale) = &scale { (strip::row(cell, &levels(report, cell), unit, scale, *series)) }
                            }
                            td class="n median" { (value(unit, cell.median)) }
                            td class="n range" { (interval(unit, cell)) }
                            td class="n best" { (of_best(cell.relative)) }
                            td class="n spread" data-label="spread" { (spread(cell.spread, widest)) }
                        }
                    }
                }
            }
            (axis_row(scale.as_ref(), unit))
        }
    }
}

/// From this many rows on the lower axis is out of sight at the first of them, so it stands above them too.
const LONG_TABLE: usize = 12;

fn axis_row(scale: Option<&Scale>, unit: &Unit) -> Markup {
    html! {
        @if let Some(scale) = scale {
            tbody class="axis-row" { tr { td {} td class="track" { (axis(scale, unit)) } td colspan="4" {} } }
        }
    }
}

/// ` in MB/s`, or nothing for a plain count.
fn unit_of(scale: &Scale, unit: &Unit) -> String {
    let (_, name) = shown_in(scale, unit);
    if name.is_empty() { name } else { format!(" in {name}") }
}

/// Cells that share all levels but that of the last factor.
struct Group<'a> {
    title: Option<String>,
    rows: Vec<(&'a str, usize, &'a CellSummary)>,
}

fn groups<'a>(report: &Report<'a>, cells: &[&'a CellSummary]) -> Vec<Group<'a>> {
    let last_factor = factors(report, cells).last().copied().unwrap_or_default();
    let mut order: Vec<&str> = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    for cell in cells {
        let (mine, others): (Vec<_>, Vec<_>) =
            factor_levels(report, cell).into_iter().partition(|(f, _)| *f == last_factor);
        let name = mine.first().map_or(cell.cell.as_str(), |(_, level)| level);
        let title = others.iter().map(|(f, l)| format!("{f} {l}")).collect::<Vec<_>>().join(", ");
        let title = (!title.is_empty()).then_some(title);
        let series = order.iter().position(|n| *n == name).unwrap_or_else(|| {
            order.push(name);
            order.len() - 1
        });
        match groups.last_mut().filter(|g| g.title == title) {
            Some(group) => group.rows.push((name, series, cell)),
            None => groups.push(Group { title, rows: vec![(name, series, cell)] }),
        }
    }
    groups
}

fn confidence(cells: &[&CellSummary]) -> String {
    let first = cells.iter().find_map(|c| c.interval.as_ref());
    first.map(|i| format!("{:.0}%", i.confidence * 100.0)).unwrap_or_default()
}

fn swatch(series: usize) -> Markup {
    let series = series % MARKS;
    html! {
        svg class="swatch" width="12" height="12" aria-hidden="true" {
            use href={ "#m" (series) } class={ "dot s" (series) } x="6" y="6" {}
        }
    }
}

fn of_best(share: Option<f64>) -> Markup {
    let class = (share == Some(1.0)).then_some("top");
    html! { @if let Some(share) = share { (meter(share)) } span class=[class] { (relative(share)) } }
}

fn spread(share: Option<f64>, widest: f64) -> Markup {
    match share {
        None => html! { "–" },
        Some(s) => html! { (meter(if widest > 0.0 { s / widest } else { 0.0 })) span { (percent(Some(s))) } },
    }
}

/// A small bar at the side of a figure.
fn meter(share: f64) -> Markup {
    let width = format!("width:{}%", significant(share.clamp(0.0, 1.0) * 100.0));
    html! { span class="meter" aria-hidden="true" { span style=(width) {} } }
}

/// From this many cells on, two factors are also shown as a table of one against the other.
const HEAT_FROM: usize = 6;

/// Two factors against each other, shaded by the value relative to the best.
fn heat(report: &Report, cells: &[&CellSummary]) -> Markup {
    let names = factors(report, cells);
    let [down, across] = names.as_slice() else { return html! {} };
    if cells.len() < HEAT_FROM {
        return html! {};
    }
    let levels_of = |factor: &str| {
        let mut found: Vec<&str> = Vec::new();
        for level in cells.iter().filter_map(|c| c.levels.get(factor)) {
            if !found.contains(&level.as_str()) {
                found.push(level);
            }
        }
        found
    };
    let at = |d: &str, a: &str| {
        let here = |c: &&&CellSummary| {
            c.levels.get(*down).is_some_and(|l| l == d) && c.levels.get(*across).is_some_and(|l| l == a)
        };
        cells.iter().find(here)
    };
    let columns = levels_of(across);
    html! {
        p class="note" { "Medians, " (down) " down, " (across) " across; the stronger the shade, the nearer to the best:" }
        div class="scroll" tabindex="0" role="group" aria-label={ (down) " by " (across) } {
            table class="heat" {
                thead { tr { th {} @for a in &columns { th scope="col" { (a) } } } }
                tbody { @for d in levels_of(down) { tr {
                    th scope="row" { (d) }
                    @for a in &columns { (heat_cell(report, at(d, a).copied())) }
                } } }
            }
        }
    }
}

fn heat_cell(report: &Report, cell: Option<&CellSummary>) -> Markup {
    let shade = cell.and_then(|c| c.relative).map(|r| format!("--share:{}", significant(r.clamp(0.0, 1.0))));
    html! {
        td class="n" style=[shade] { (value(&report.summary.unit, cell.and_then(|c| c.median))) }
    }
}
