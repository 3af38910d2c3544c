//! The first screen: the picture that shows the answer, and the command to type next.

use super::pictures::{Picture, axis_note, metric, picture, said};
use super::{prose, traces};
use crate::Report;
use crate::command::shell_words;
use crate::svg::{Scale, axis, strip};
use crate::wording::{counted, factor_levels, levels, next_command, relative, value, workloads};
use analysis::answer::{About, about, in_order};
use analysis::summary::{CellSummary, Comparison};
use domain::study::Until;
use maud::{Markup, html};

/// How many rows the picture has at the most: with more of them the next command is below a phone's screen.
const MAX_ROWS: usize = 8;

pub(super) fn answer_picture(report: &Report) -> Markup {
    let drawn = match report.data.study.is_recording() {
        true => traces::answer_picture(report),
        false => of_study(report),
    };
    html! { @if let Some(drawn) = drawn { figure id="picture" { (drawn) } } }
}

fn of_study(report: &Report) -> Option<Markup> {
    let cells = &report.summary.cells;
    let about = about(report.data, report.summary).filter(|about| !about.cells.is_empty());
    let Some(about) = about else { return rows_of_all(report) };
    let workload = about.cells[0].workload.as_str();
    let mine: Vec<&CellSummary> = cells.iter().filter(|cell| cell.workload == workload).collect();
    let told = told(&about);
    match picture(report, &mine) {
        Picture::Curves(curves) => curves.of_answer(report, &told, workload),
        // Two figures are no picture where there is room for what they are a part of.
        Picture::Heat(_) | Picture::Rows if about.cells.len() < 3 && mine.len() <= MAX_ROWS => {
            let rows: Vec<Row> = mine
                .iter()
                .map(|c| Row { name: levels(report, c), cell: c, is_told: is_in(&told, c) })
                .collect();
            rows_markup(report, &format!("by cell: {workload}"), &rows, mine.len())
        }
        Picture::Heat(_) | Picture::Rows => rows_of_answer(report, &about, &told),
    }
}

/// The two cells that the verdict holds against each other.
fn told<'a>(about: &About<'a>) -> Vec<&'a CellSummary> {
    let Comparison { a, b, .. } = about.comparison;
    [a, b].into_iter().filter_map(|level| about.cell_of(level)).collect()
}

/// The levels of the factor where the verdict holds two of them against each other.
fn rows_of_answer(report: &Report, about: &About, told: &[&CellSummary]) -> Option<Markup> {
    let first = about.cells.first()?;
    let others = factor_levels(report, first).into_iter().filter(|(factor, _)| *factor != about.factor);
    let place = others.map(|(factor, level)| format!("{factor} {level}"));
    let place = std::iter::once(first.workload.clone()).chain(place).collect::<Vec<_>>().join(", ");
    let name = |cell: &CellSummary| cell.levels.get(about.factor).cloned().unwrap_or_default();
    let shown = chosen(&about.cells, told);
    let rows: Vec<Row> =
        shown.iter().map(|c| Row { name: name(c), cell: c, is_told: is_in(told, c) }).collect();
    rows_markup(report, &format!("by {}: {place}", about.factor), &rows, about.cells.len())
}

/// Of a run in which nothing was compared: what there is.
fn rows_of_all(report: &Report) -> Option<Markup> {
    let cells = &report.summary.cells;
    let is_one = workloads(cells).len() == 1;
    let name = |cell: &CellSummary| match (is_one, cell.levels.is_empty()) {
        (_, true) => cell.workload.clone(),
        (true, false) => levels(report, cell),
        (false, false) => format!("{} · {}", cell.workload, levels(report, cell)),
    };
    let measured = in_order(report.data, report.summary).into_iter().filter(|cell| cell.median.is_some());
    // A search tells of what it found, which is first.
    let is_search = report.data.study.measure.until == Until::Best;
    let row = |(at, cell): (usize, _)| Row { name: name(cell), cell, is_told: is_search && at == 0 };
    let rows: Vec<Row> = measured.take(MAX_ROWS).enumerate().map(row).collect();
    rows_markup(report, "by cell", &rows, cells.len())
}

fn is_in(cells: &[&CellSummary], cell: &CellSummary) -> bool {
    cells.iter().any(|one| one.cell == cell.cell)
}

/// As many as fit, those of the verdict among them, in the order of the plan.
fn chosen<'a>(cells: &[&'a CellSummary], told: &[&CellSummary]) -> Vec<&'a CellSummary> {
    let mut others = MAX_ROWS.saturating_sub(told.len());
    let mut fits = |cell: &CellSummary| {
        is_in(told, cell)
            || others.checked_sub(1).is_some_and(|left| {
                others = left;
                true
            })
    };
    cells.iter().copied().filter(|cell| fits(cell)).collect()
}

struct Row<'a> {
    name: String,
    cell: &'a CellSummary,
    is_told: bool,
}

fn rows_markup(report: &Report, place: &str, rows: &[Row], all: usize) -> Option<Markup> {
    let unit = &report.summary.unit;
    let scale = Scale::covering(rows.iter().flat_map(|row| strip::ends(row.cell)))?;
    let left_out = all.saturating_sub(rows.len());
    Some(html! {
        figcaption { (metric(report, Some(&scale))) ", " (place) (axis_note(Some(&scale))) }
        div class="answer-rows" {
            @for row in rows {
                span class=(if row.is_told { "what told" } else { "what" }) { (row.name) }
                span class="track" { (strip::compact(row.cell, &said(report, row.cell), &scale, row.is_told)) }
                span class="n" { (value(unit, row.cell.median)) }
                span class="n against" { @if let Some(share) = of_best(row, rows) { (relative(Some(share))) " of best" } }
            }
            span {} span class="track" { (axis(&scale, unit)) } span {} span {}
        }
        @if left_out > 0 { p class="note" { "and " (counted(left_out, "more cell")) " in the results" } }
    })
}

/// A row's median relative to the best row of its workload, which is 1.
fn of_best(row: &Row, rows: &[Row]) -> Option<f64> {
    let same = rows.iter().filter(|other| other.cell.workload == row.cell.workload);
    let best = same.filter_map(|other| other.cell.relative).fold(0.0, f64::max);
    row.cell.relative.filter(|_| best > 0.0).map(|share| share / best)
}

/// The command to type next, and why.
pub(super) fn next(report: &Report) -> Markup {
    let (why, command) = next_command(report);
    html! {
        div id="next" {
            p { (prose(&why)) " " strong { "Next:" } }
            pre class="command" { code { (unbroken(&command)) } }
        }
    }
}

/// A command whose words are not broken where they fit a line: a browser breaks lines behind hyphens too, and
/// so within options.
fn unbroken(command: &str) -> Markup {
    html! {
        @for (at, word) in shell_words(command).into_iter().enumerate() {
            @if at > 0 { " " }
            span { (word) }
        }
    }
}
