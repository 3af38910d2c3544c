//! One cell as a row: its interval as a bar, its median as a stroke, and every single trial as a dot.

use super::scale::Scale;
use super::{MARKS, grid, mark, percent};
use crate::Report;
use crate::wording::{cell_interval, levels, standing, trial_name, value, why_not_counted};
use analysis::summary::CellSummary;
use maud::{Markup, html};

const HEIGHT: u32 = 34;

/// Dots are moved up and down in turn, so that equal values stay countable.
const JITTER: [f64; 5] = [0.0, -4.5, 4.5, -8.0, 8.0];

/// The row of a cell. `series` decides colour and shape of its dots.
pub(crate) fn row(report: &Report, cell: &CellSummary, scale: &Scale, series: usize) -> Markup {
    let unit = &report.summary.unit;
    let middle = f64::from(HEIGHT) / 2.0;
    let shape = format!("m{}", series % MARKS);
    let class = format!("dot s{}", series % MARKS);
    let y = |i: usize| middle + JITTER[i % JITTER.len()];
    html! {
        svg class="strip" width="100%" height=(HEIGHT) role="img" aria-label=(described(report, cell)) {
            (grid(scale, HEIGHT))
            @if let Some(i) = &cell.interval {
                (bar(scale.place(i.low), scale.place(i.high), series, HEIGHT / 2))
            }
            @for (i, trial) in cell.excluded.iter().enumerate() {
                @if let Some(v) = trial.value {
                    @let title = format!(
                        "{}: {}, not counted ({}): {}",
                        trial_name(&trial.key), unit.show(v), standing(&trial.validity), why_not_counted(&trial.validity)
                    );
                    (mark("mx", "dot out", scale.place(v), y(i + 1), &title))
                }
            }
            @for (i, point) in cell.points.iter().enumerate() {
                @let title = format!("{}: {}", trial_name(&point.key), unit.show(point.value));
                (mark(&shape, &class, scale.place(point.value), y(i), &title))
            }
            @if let Some(median) = cell.median {
                @let x = percent(scale.place(median));
                line class="median" x1=(x) x2=(x) y1="4" y2=(HEIGHT - 4) {}
            }
        }
    }
}

/// The height of a row that shows a cell without its trials.
const COMPACT: u32 = 20;

/// A cell as its median alone, with its interval; all that is known of it is said when pointed at.
pub(crate) fn compact(cell: &CellSummary, title: &str, scale: &Scale, is_told: bool) -> Markup {
    let (shape, class) = if is_told { ("m3", "dot s1") } else { ("m0", "dot s0") };
    let middle = COMPACT / 2;
    html! {
        svg class="compact" width="100%" height=(COMPACT) role="img" aria-label=(title) {
            (grid(scale, COMPACT))
            @if let Some(i) = &cell.interval {
                (bar(scale.place(i.low), scale.place(i.high), usize::from(is_told), middle))
            }
            @if let Some(median) = cell.median {
                (mark(shape, class, scale.place(median), f64::from(middle), title))
            }
        }
    }
}

/// The values that a row without trials shows, for its axis.
pub(crate) fn ends(cell: &CellSummary) -> impl Iterator<Item = f64> + '_ {
    cell.interval.iter().flat_map(|i| [i.low, i.high]).chain(cell.median)
}

/// All values that the row shows, for the axis.
pub(crate) fn values(cell: &CellSummary) -> impl Iterator<Item = f64> + '_ {
    let points = cell.points.iter().map(|p| p.value);
    let ends = cell.interval.iter().flat_map(|i| [i.low, i.high]);
    points.chain(cell.excluded.iter().filter_map(|e| e.value)).chain(ends)
}

fn bar(low: f64, high: f64, series: usize, middle: u32) -> Markup {
    let class = format!("interval s{}", series % MARKS);
    html! {
        rect class=(class) x=(percent(low)) y=(middle - 6) width=(percent((high - low).max(0.001))) height="12" rx="2" {}
    }
}

fn described(report: &Report, cell: &CellSummary) -> String {
    let out = match cell.excluded.len() {
        0 => String::new(),
        n => format!(", {n} not counted"),
    };
    let trials = cell.points.len();
    format!(
        "{}: median {}, interval {}, {trials} valid trials{out}",
        levels(report, cell),
        value(&report.summary.unit, cell.median),
        cell_interval(report, cell)
    )
}
