//! Every cell: its trials, median, interval, what it is relative to the best, and its spread.

use super::pictures::{Picture, picture};
use super::trade_off;
use crate::Report;
use crate::document::{Block, in_html};
use crate::sections::{COSTS_TITLE, WORK_TITLE, costs_table, energy_note, work_table};
use crate::svg::{MARKS, Scale, axis, shown_in, strip};
use crate::wording::{
    cell_interval, cell_median, counted, direction, factor_levels, factors, is_under_load, load_note,
    percent, relative, workloads,
};
use analysis::summary::CellSummary;
use domain::units::{Unit, significant};
use maud::{Markup, html};

pub(super) fn body(report: &Report) -> Option<Markup> {
    let cells = &report.summary.cells;
    let workloads = workloads(cells).into_iter().map(|workload| {
        let mine: Vec<&CellSummary> = cells.iter().filter(|c| c.workload == workload).collect();
        let picture = picture(report, &mine);
        (workload, mine, picture)
    });
    let mut said: Vec<String> = Vec::new();
    (!cells.is_empty()).then(|| {
        html! {
            p class="note" { (report.summary.metric) ", " (direction(report.summary.better)) }
            @for (workload, mine, picture) in workloads {
                h3 { (workload) }
                @if let Some(note) = picture.note().filter(|note| is_new(&mut said, note)) { p class="note" { (note) } }
                @match picture {
                    Picture::Curves(curves) => { (curves.markup(report, workload)) (folded(report, &mine)) }
                    Picture::Heat(heat) => { (heat.markup(report)) (folded(report, &mine)) }
                    Picture::Rows => (table(report, &mine)),
                }
                @if let Some(figure) = trade_off::figure(report, &mine, workload) { (figure) }
            }
            @if let Some(note) = load_note(report) { p class="note" { (note) } }
            @for (title, costs) in [(COSTS_TITLE, costs_table(report)), (WORK_TITLE, work_table(report))] {
                @if let Some(costs) = costs {
                    h3 { (title) }
                    (in_html(&Block::Table(costs)))
                }
            }
            @if let Some(note) = energy_note(report) { p class="note" { (note) } }
        }
    })
}

/// Whether a note was not said yet; it is now.
fn is_new(said: &mut Vec<String>, note: &String) -> bool {
    let is_new = !said.contains(note);
    if is_new {
        said.push(note.clone());
    }
    is_new
}

/// What a picture was drawn from: every trial of every cell.
fn folded(report: &Report, cells: &[&CellSummary]) -> Markup {
    html! {
        details class="behind" { summary { "Every trial of " (counted(cells.len(), "cell")) } (table(report, cells)) }
    }
}

fn table(report: &Report, cells: &[&CellSummary]) -> Markup {
    let unit = &report.summary.unit;
    let scale = Scale::covering(cells.iter().flat_map(|c| strip::values(c)));
    let widest = cells.iter().filter_map(|c| c.spread).fold(0.0, f64::max);
    let names = factors(report, cells);
    html! {
        @if let Some(note) = axis_note(report, scale.as_ref(), &names) { p class="note" { (note) } }
        table class="cells sortable" {
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
                                @if let Some(scale) = &scale { (strip::row(report, cell, scale, *series)) }
                            }
                            td class={ "n median" @if is_under_load(report, cell) { " loaded" } } data-v=[cell.median] { (cell_median(report, cell)) }
                            td class="n range" { (cell_interval(report, cell)) }
                            td class="n best" data-v=[cell.relative] { (of_best(cell.relative)) }
                            td class="n spread" data-label="spread" data-v=[cell.spread] { (spread(cell.spread, widest)) }
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

/// `in MB/s; rows by depth within layout`; nothing where the table says it all.
fn axis_note(report: &Report, scale: Option<&Scale>, factors: &[&str]) -> Option<String> {
    let unit = scale.map(|scale| shown_in(scale, &report.summary.unit).1).filter(|name| !name.is_empty());
    let rows = factors.split_last().map(|(last, rest)| match rest.is_empty() {
        true => format!("rows by {last}"),
        false => format!("rows by {last} within {}", rest.join(", ")),
    });
    let note = scale.and_then(Scale::note).map(str::to_owned);
    let parts: Vec<String> =
        [unit.map(|name| format!("in {name}")), note, rows].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
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

/// The mark of a level, for a legend.
pub(super) fn swatch(series: usize) -> Markup {
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
