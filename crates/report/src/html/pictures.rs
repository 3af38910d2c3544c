//! How the cells of a workload are drawn: as curves along a factor that is an amount, as a heat map of two
//! factors that are names, else as a row a cell.

use crate::numeric::{self, Axis};
use crate::svg::curve::{self, Curve, Point};
use crate::svg::{Scale, shown_in};
use crate::wording::{cell_interval, direction, factor_levels, factors, is_of_seeds, relative, value};
use crate::{Report, lab};
use analysis::costs::{self, Cost};
use analysis::summary::CellSummary;
use domain::ids::CellId;
use domain::order;
use domain::study::Factor;
use domain::units::{Unit, significant};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// From this many cells on, two factors are shown against each other.
const HEAT_FROM: usize = 6;

/// More plots than this of one workload are a heat map instead.
const MAX_PLOTS: usize = 6;

/// What shows the cells of a workload best.
pub(super) enum Picture<'a> {
    Curves(Curves<'a>),
    Heat(Heat<'a>),
    Rows,
}

impl Picture<'_> {
    /// How it is to be read.
    pub(super) fn note(&self) -> Option<String> {
        match self {
            Self::Curves(curves) => Some(curves.note()),
            Self::Heat(heat) => Some(heat.note()),
            Self::Rows => None,
        }
    }
}

/// A plot for each combination of the other factors' levels.
pub(super) struct Curves<'a> {
    along: &'a str,
    axis: Axis<'a>,
    /// The factor of which each level is a line.
    lines: Option<&'a Factor>,
    plots: Vec<Plot<'a>>,
}

struct Plot<'a> {
    /// The levels of the other factors; empty where there are none.
    title: String,
    cells: Vec<&'a CellSummary>,
}

/// One factor across, all combinations of the others down.
pub(super) struct Heat<'a> {
    across: &'a str,
    columns: Vec<&'a str>,
    down: Vec<&'a str>,
    rows: Vec<(String, Vec<Option<&'a CellSummary>>)>,
}

/// The picture of the cells of one workload.
pub(super) fn picture<'a>(report: &Report<'a>, cells: &[&'a CellSummary]) -> Picture<'a> {
    let varied: Vec<&'a str> =
        factors(report, cells).into_iter().filter(|name| levels_of(cells, name).len() > 1).collect();
    let curves = curves(report, cells, &varied);
    if let Some(curves) = curves.filter(|curves| curves.plots.len() <= MAX_PLOTS) {
        return Picture::Curves(curves);
    }
    match varied.len() >= 2 && cells.len() >= HEAT_FROM {
        true => Picture::Heat(heat(cells, &varied)),
        false => Picture::Rows,
    }
}

fn levels_of<'a>(cells: &[&'a CellSummary], factor: &str) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for level in cells.iter().filter_map(|cell| cell.levels.get(factor)) {
        if !found.contains(&level.as_str()) {
            found.push(level);
        }
    }
    found
}

/// The levels that a cell has of some factors: `layout raid5, chunk 64k`.
fn named(cell: &CellSummary, factors: &[&str]) -> String {
    let levels = factors.iter().filter_map(|name| Some(format!("{name} {}", cell.levels.get(*name)?)));
    levels.collect::<Vec<_>>().join(", ")
}

fn grouped<'a>(cells: &[&'a CellSummary], by: &[&str]) -> Vec<(String, Vec<&'a CellSummary>)> {
    let mut groups: Vec<(String, Vec<&CellSummary>)> = Vec::new();
    for cell in cells {
        let name = named(cell, by);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push(cell),
            None => groups.push((name, vec![cell])),
        }
    }
    groups
}

/// Along a factor that the question is not about, where there is one: what it is about are the lines.
fn curves<'a>(report: &Report<'a>, cells: &[&'a CellSummary], varied: &[&'a str]) -> Option<Curves<'a>> {
    let study = &report.data.study;
    let known: Vec<&'a Factor> =
        varied.iter().filter_map(|name| study.factors.iter().find(|f| f.name == *name)).collect();
    let on_axis = |factor: &&'a Factor| {
        let there = levels_of(cells, &factor.name);
        Some((*factor, numeric::axis(factor, |level| there.contains(&level))?))
    };
    let mut candidates: Vec<(&Factor, Axis)> = known.iter().filter_map(on_axis).collect();
    // The sort is stable: of equals the first of the study.
    order::by_key(&mut candidates, |(f, axis)| {
        (study.asks_about(&f.name), std::cmp::Reverse(axis.levels.len()))
    });
    let (along, axis) = candidates.into_iter().next()?;
    let others = || known.iter().copied().filter(|factor| factor.name != along.name);
    let lines = others().find(|factor| study.asks_about(&factor.name)).or_else(|| others().next());
    let apart: Vec<&str> = varied
        .iter()
        .copied()
        .filter(|name| *name != along.name && lines.is_none_or(|lines| lines.name != *name))
        .collect();
    let plots = grouped(cells, &apart).into_iter().map(|(title, cells)| Plot { title, cells }).collect();
    Some(Curves { along: &along.name, axis, lines, plots })
}

impl<'a> Curves<'a> {
    /// All plots, each with its title.
    pub(super) fn markup(&self, report: &Report, workload: &str) -> Markup {
        let scale = self.scale(report, &[]);
        let beside = Beside::all(report, self.plots.iter().flat_map(|plot| &plot.cells).copied());
        html! {
            (self.legend())
            @for plot in &self.plots {
                figure class="chart" {
                    @if !plot.title.is_empty() { figcaption { (plot.title) } }
                    (self.drawn(report, plot, scale.as_ref(), &[], TALL, workload))
                    @for beside in &beside { (self.drawn_beside(plot, beside, workload)) }
                }
            }
        }
    }

    /// Cores in use and watts along the same axis, where the trials have them; bare medians.
    fn drawn_beside(&self, plot: &Plot, beside: &Beside, workload: &str) -> Markup {
        let curves = self.lines_of(plot, |cell| beside.point(cell));
        let label = format!("{} of {workload} along {}", beside.name, self.along);
        let drawn = curve::plot(&curves, &self.axis, beside.scale.as_ref(), &beside.unit, LOW, &label);
        html! { @if let Some(drawn) = drawn {
            p class="note" { (beside.name) (axis_note(beside.scale.as_ref())) }
            (drawn)
        } }
    }

    /// The one plot that has the cells of `told`, which it marks.
    pub(super) fn of_answer(&self, report: &Report, told: &[&CellSummary], workload: &str) -> Option<Markup> {
        let has = |plot: &&Plot| told.iter().any(|cell| plot.cells.iter().any(|c| c.cell == cell.cell));
        let plot = self.plots.iter().find(has).or_else(|| self.plots.first())?;
        let scale = self.scale(report, told);
        let place = [workload, &plot.title].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        Some(html! {
            figcaption { (metric(report, scale.as_ref())) ", by " (self.along) ": " (place.join(", ")) (axis_note(scale.as_ref())) }
            (self.legend())
            (self.drawn(report, plot, scale.as_ref(), told, SHORT, workload))
        })
    }

    fn scale(&self, report: &Report, told: &[&CellSummary]) -> Option<Scale> {
        let of = |plot| self.lines_of(plot, |cell| measured(report, cell, told));
        let all: Vec<Curve> = self.plots.iter().flat_map(of).collect();
        Scale::covering(curve::values(&all))
    }

    fn note(&self) -> String {
        let lines = self.lines.map(|lines| format!(", a line for each {}", lines.name)).unwrap_or_default();
        let spacing = self.axis.spacing.note().map(|note| format!(", {note}")).unwrap_or_default();
        format!("Medians along {}{spacing}{lines}; bands are their intervals.", self.along)
    }

    /// The levels of the lines that any plot has, with their index in the study.
    fn series(&self) -> Vec<(usize, &'a str)> {
        let there = |level: &str, lines: &Factor| {
            let mut cells = self.plots.iter().flat_map(|plot| &plot.cells);
            cells.any(|cell| cell.levels.get(&lines.name).is_some_and(|l| l == level))
        };
        let of = |lines: &'a Factor| {
            let levels = lines.levels.iter().enumerate().map(|(i, level)| (i, level.name.as_str()));
            levels.filter(|(_, level)| there(level, lines)).collect::<Vec<_>>()
        };
        self.lines.map(of).unwrap_or_default()
    }

    fn legend(&self) -> Markup {
        let series = self.series();
        html! { @if !series.is_empty() {
            ul class="legend" { @for (index, name) in series { li { (super::results::swatch(index)) " " (name) } } }
        } }
    }

    fn lines_of(&self, plot: &Plot, point: impl Fn(&CellSummary) -> Option<Point>) -> Vec<Curve> {
        let on = |cell: &CellSummary, level: &str| cell.levels.get(self.along).is_some_and(|l| l == level);
        let points = |cells: &[&CellSummary]| -> Vec<Option<Point>> {
            let at =
                |(level, _): &(&str, f64)| cells.iter().find(|cell| on(cell, level)).and_then(|c| point(c));
            self.axis.levels.iter().map(at).collect()
        };
        let Some(lines) = self.lines else { return vec![Curve { series: 0, points: points(&plot.cells) }] };
        let mine = |level: &str| -> Vec<&CellSummary> {
            let is = |cell: &&CellSummary| cell.levels.get(&lines.name).is_some_and(|l| l == level);
            plot.cells.iter().copied().filter(is).collect()
        };
        self.series()
            .into_iter()
            .map(|(series, level)| Curve { series, points: points(&mine(level)) })
            .collect()
    }

    fn drawn(
        &self,
        report: &Report,
        plot: &Plot,
        scale: Option<&Scale>,
        told: &[&CellSummary],
        height: u32,
        workload: &str,
    ) -> Markup {
        let label = format!("{} of {workload} along {}", report.summary.metric, self.along);
        let curves = self.lines_of(plot, |cell| measured(report, cell, told));
        let drawn = curve::plot(&curves, &self.axis, scale, &report.summary.unit, height, &label);
        drawn.unwrap_or_else(|| html! { p class="absent" { "No trial was measured that counts." } })
    }
}

/// The point of a cell's metric, marked where the verdict is about it.
fn measured(report: &Report, cell: &CellSummary, told: &[&CellSummary]) -> Option<Point> {
    Some(Point {
        median: cell.median?,
        interval: cell.interval.as_ref().map(|i| (i.low, i.high)),
        title: said(report, cell),
        is_told: told.iter().any(|t| t.cell == cell.cell),
    })
}

/// What is drawn below a metric's curves.
struct Beside {
    name: &'static str,
    unit: Unit,
    scale: Option<Scale>,
    medians: BTreeMap<CellId, f64>,
}

impl Beside {
    /// Those that any of these cells has.
    fn all<'a>(report: &Report, cells: impl Iterator<Item = &'a CellSummary>) -> Vec<Self> {
        let cells: Vec<(&CellSummary, Vec<Cost>)> =
            cells.map(|cell| (cell, costs::derived(report.data, &cell.cell))).collect();
        let of = |(metric, unit): (&str, Unit)| {
            let own =
                |costs: &[Cost]| costs.iter().find(|cost| cost.metric == metric).map(|cost| cost.median);
            let medians: BTreeMap<CellId, f64> =
                cells.iter().filter_map(|(cell, costs)| Some((cell.cell.clone(), own(costs)?))).collect();
            let is_modelled = metric == costs::POWER && lab::energy_note(report).is_some();
            let name = match metric {
                costs::CORES_IN_USE => "cores in use",
                _ if is_modelled => "watts, modelled",
                _ => "watts",
            };
            let scale = Scale::covering(medians.values().copied());
            (!medians.is_empty()).then_some(Self { name, unit, scale, medians })
        };
        costs::DERIVED.into_iter().filter_map(of).collect()
    }

    fn point(&self, cell: &CellSummary) -> Option<Point> {
        let median = *self.medians.get(&cell.cell)?;
        let levels = cell.levels.iter().map(|(factor, level)| format!("{factor} {level}"));
        let place = std::iter::once(cell.workload.clone()).chain(levels).collect::<Vec<_>>().join(", ");
        let title = format!("{place}: {} {}", self.unit.show(median), self.name);
        Some(Point { median, interval: None, title, is_told: false })
    }
}

/// The height of a plot among the results, of the one in the first screen, and of what is beside, in pixels.
const TALL: u32 = 220;
const SHORT: u32 = 170;
const LOW: u32 = 110;

/// `transactions in k/s, higher is better`, as an axis shows it.
pub(super) fn metric(report: &Report, scale: Option<&Scale>) -> String {
    let summary = report.summary;
    let unit = scale.map(|scale| shown_in(scale, &summary.unit).1).filter(|name| !name.is_empty());
    let unit = unit.map(|name| format!(" in {name}")).unwrap_or_default();
    format!("{}{unit}, {}", summary.metric, direction(summary.better))
}

/// `; logarithmic axis`, where lengths are not to be read plainly.
pub(super) fn axis_note(scale: Option<&Scale>) -> String {
    scale.and_then(Scale::note).map(|note| format!("; {note}")).unwrap_or_default()
}

/// What a cell's mark says: where, figure, interval, n.
pub(super) fn said(report: &Report, cell: &CellSummary) -> String {
    let unit = &report.summary.unit;
    let levels = factor_levels(report, cell).into_iter().map(|(factor, level)| format!("{factor} {level}"));
    let place = std::iter::once(cell.workload.clone()).chain(levels).collect::<Vec<_>>().join(", ");
    let best = cell.relative.map(|_| format!(", {} of best", relative(cell.relative))).unwrap_or_default();
    let (median, interval) = (value(unit, cell.median), cell_interval(report, cell));
    let interval = match &cell.interval {
        _ if is_of_seeds(report, cell) => interval,
        Some(i) => format!("{:.0}% interval {interval}", i.confidence * 100.0),
        None => format!("interval {interval}"),
    };
    format!("{place}: median {median}{best}; {interval}; n = {}", cell.points.len())
}

/// Across is the factor of the fewest levels, so that the map is narrow.
fn heat<'a>(cells: &[&'a CellSummary], varied: &[&'a str]) -> Heat<'a> {
    let fewest = varied.iter().rev().min_by_key(|name| levels_of(cells, name).len());
    let across = *fewest.expect("a heat map is of two factors or more");
    let columns = levels_of(cells, across);
    let down: Vec<&str> = varied.iter().copied().filter(|name| *name != across).collect();
    let at = |members: &[&'a CellSummary], column: &str| {
        members.iter().copied().find(|cell| cell.levels.get(across).is_some_and(|l| l == column))
    };
    let row = |(_, members): (String, Vec<&'a CellSummary>)| {
        let name = down.iter().filter_map(|factor| Some(members[0].levels.get(*factor)?.as_str()));
        (name.collect::<Vec<_>>().join(" · "), columns.iter().map(|c| at(&members, c)).collect())
    };
    let rows = grouped(cells, &down).into_iter().map(row).collect();
    Heat { across, columns, down, rows }
}

impl Heat<'_> {
    fn note(&self) -> String {
        format!(
            "{} down, {} across: relative to the best, which is 1; the stronger the shade, the nearer to it.",
            self.down.join(" · "),
            self.across
        )
    }

    /// Relative to the best, which is 1; the median below it.
    pub(super) fn markup(&self, report: &Report) -> Markup {
        let title = format!("{} by {}", self.down.join(" · "), self.across);
        html! {
            div class="scroll" tabindex="0" role="group" aria-label=(title) {
                table class="heat" {
                    thead { tr { th {} @for column in &self.columns { th scope="col" { (column) } } } }
                    tbody { @for (name, cells) in &self.rows { tr {
                        th scope="row" { (name) }
                        @for cell in cells { (heat_cell(report, *cell)) }
                    } } }
                }
            }
        }
    }
}

fn heat_cell(report: &Report, cell: Option<&CellSummary>) -> Markup {
    let Some(cell) = cell else { return html! { td class="n" { "–" } } };
    let shade = cell.relative.map(|r| format!("--share:{}", significant(r.clamp(0.0, 1.0))));
    let class = if cell.relative == Some(1.0) { "n top" } else { "n" };
    html! {
        td class=(class) style=[shade] title=(said(report, cell)) {
            @if cell.relative.is_some() { (relative(cell.relative)) br; }
            span class="small" { (value(&report.summary.unit, cell.median)) }
        }
    }
}
