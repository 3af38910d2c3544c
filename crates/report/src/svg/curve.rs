//! Medians along a factor that is an amount: a line a level of another factor, its intervals as a band.

use super::scale::{Scale, tick_label};
use super::{MARKS, mark, percent, shown_in, tenths};
use crate::numeric::Axis;
use domain::units::Unit;
use maud::{Markup, html};
use std::fmt::Write;

/// One line.
pub(crate) struct Curve {
    /// The index of its level among those of its factor, which decides colour and mark.
    pub series: usize,
    /// One entry a level of the axis; `None` where nothing was measured.
    pub points: Vec<Option<Point>>,
}

/// One cell.
pub(crate) struct Point {
    /// Its median.
    pub median: f64,
    /// The interval of it.
    pub interval: Option<(f64, f64)>,
    /// What it says when pointed at.
    pub title: String,
    /// Whether the verdict is about it.
    pub is_told: bool,
}

/// Marks at both ends stay within the plot.
const INSET: f64 = 0.03;

/// Paths have this many steps over the width, and [`FINE`] a pixel upwards.
const ACROSS: f64 = 2000.0;
const FINE: f64 = 4.0;

/// Room above and below for the marks, in pixels.
const ROOM: f64 = 7.0;

/// More labels than this touch each other on a phone.
const MAX_LABELS: usize = 7;

/// The lines with their two axes; `None` where nothing has a value.
pub(crate) fn plot(
    curves: &[Curve],
    axis: &Axis,
    scale: Option<&Scale>,
    unit: &Unit,
    height: u32,
    label: &str,
) -> Option<Markup> {
    let scale = scale?;
    let (factor, name) = shown_in(scale, unit);
    let frame = Frame { scale, height: f64::from(height), levels: &axis.levels };
    let stride = axis.levels.len().div_ceil(MAX_LABELS).max(1);
    Some(html! {
        div class="timed curve" {
            svg class="gutter" width="44" height=(height) aria-hidden="true" {
                @for tick in scale.ticks() {
                    text x="38" y=(tenths((frame.y(tick) + 4.0).clamp(10.0, frame.height - 1.0))) text-anchor="end" { (tick_label(tick / factor)) }
                }
            }
            svg width="100%" height=(height) role="img" aria-label=(label) {
                @for tick in scale.ticks() {
                    line class="grid" x1="0" x2="100%" y1=(tenths(frame.y(tick))) y2=(tenths(frame.y(tick))) {}
                }
                @for (_, place) in &axis.levels {
                    @let x = percent(inset(*place));
                    line class="grid faint" x1=(x) x2=(x) y1="0" y2=(height) {}
                }
                svg viewBox={ "0 0 " (ACROSS) " " (frame.height * FINE) } width="100%" height=(height) preserveAspectRatio="none" {
                    @for curve in curves { path class={ "band c" (curve.series % MARKS) } d=(frame.band(curve)) {} }
                    @for curve in curves { path class={ "stroke c" (curve.series % MARKS) " d" (curve.series / MARKS % 4) } d=(frame.stroke(curve)) {} }
                }
                @for curve in curves { (frame.marks(curve)) }
            }
            span class="unit" { (name) }
            svg class="axis" width="100%" height="20" aria-hidden="true" {
                @for (level, place) in axis.levels.iter().step_by(stride) {
                    text x=(percent(inset(*place))) y="14" text-anchor="middle" { (level) }
                }
            }
        }
    })
}

/// All values that the lines show, for their axis.
pub(crate) fn values(curves: &[Curve]) -> impl Iterator<Item = f64> + '_ {
    let points = curves.iter().flat_map(|curve| curve.points.iter().flatten());
    points.flat_map(|p| p.interval.iter().flat_map(|(low, high)| [*low, *high]).chain([p.median]))
}

fn inset(place: f64) -> f64 {
    INSET + place * (1.0 - 2.0 * INSET)
}

struct Frame<'a> {
    scale: &'a Scale,
    height: f64,
    levels: &'a [(&'a str, f64)],
}

impl Frame<'_> {
    fn y(&self, value: f64) -> f64 {
        ROOM + (1.0 - self.scale.place(value)) * (self.height - 2.0 * ROOM)
    }

    /// A point of a path, in whole steps.
    fn at(&self, index: usize, value: f64) -> String {
        let x = inset(self.levels[index].1) * ACROSS;
        format!("{} {}", x.round(), (self.y(value) * FINE).round())
    }

    fn stroke(&self, curve: &Curve) -> String {
        let mut d = String::new();
        for stretch in stretches(&curve.points, |_| true) {
            for (place, (index, point)) in stretch.iter().enumerate() {
                add(&mut d, place, &self.at(*index, point.median));
            }
        }
        d
    }

    /// Along the upper ends, and back along the lower ones.
    fn band(&self, curve: &Curve) -> String {
        let mut d = String::new();
        for stretch in stretches(&curve.points, |point| point.interval.is_some()) {
            let ends: Vec<(usize, (f64, f64))> =
                stretch.iter().filter_map(|(index, point)| Some((*index, point.interval?))).collect();
            let upper = ends.iter().map(|(index, (_, high))| self.at(*index, *high));
            let lower = ends.iter().rev().map(|(index, (low, _))| self.at(*index, *low));
            upper.chain(lower).enumerate().for_each(|(place, at)| add(&mut d, place, &at));
            d.push('z');
        }
        d
    }

    fn marks(&self, curve: &Curve) -> Markup {
        let series = curve.series % MARKS;
        let (shape, class) = (format!("m{series}"), format!("dot s{series}"));
        html! {
            @for ((_, place), point) in self.levels.iter().zip(&curve.points) {
                @if let Some(point) = point {
                    @let (x, y) = (inset(*place), self.y(point.median));
                    @if let Some((low, high)) = point.interval {
                        @let x = percent(x);
                        line class={ "whisker c" (series) } x1=(x) x2=(x) y1=(tenths(self.y(low))) y2=(tenths(self.y(high))) {}
                    }
                    @if point.is_told { circle class="told" cx=(percent(x)) cy=(tenths(y)) r="8.5" {} }
                    (mark(&shape, &class, x, y, &point.title))
                }
            }
        }
    }
}

fn add(d: &mut String, place: usize, at: &str) {
    write!(d, "{}{at}", if place == 0 { "M" } else { "L" })
        .expect("a String takes all that is written to it");
}

/// Points that lie side by side and are drawn, with their indices: a gap is a gap.
fn stretches(points: &[Option<Point>], is_drawn: impl Fn(&Point) -> bool) -> Vec<Vec<(usize, &Point)>> {
    let mut found: Vec<Vec<(usize, &Point)>> = vec![Vec::new()];
    for (index, point) in points.iter().enumerate() {
        match point.as_ref().filter(|point| is_drawn(point)) {
            Some(point) => found.last_mut().expect("it begins with one").push((index, point)),
            None => found.push(Vec::new()),
        }
    }
    found.retain(|stretch| !stretch.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(medians: &[Option<f64>]) -> Curve {
        let point = |median: f64| Point {
            median,
            interval: (median < 3.0).then_some((median - 0.5, median + 0.5)),
            title: String::new(),
            is_told: false,
        };
        Curve { series: 0, points: medians.iter().map(|m| m.map(point)).collect() }
    }

    #[test]
    fn a_cell_that_was_not_measured_breaks_the_line_and_one_without_an_interval_the_band() {
        let levels = [("1", 0.0), ("2", 0.25), ("4", 0.5), ("8", 0.75), ("16", 1.0)];
        let frame = Frame { scale: &Scale::from_zero(4.0), height: 100.0, levels: &levels };
        let curve = curve(&[Some(1.0), Some(2.0), None, Some(3.0), Some(4.0)]);
        let stroke = frame.stroke(&curve);
        assert_eq!((stroke.matches('M').count(), stroke.matches('L').count()), (2, 2), "{stroke}");
        let band = frame.band(&curve);
        assert_eq!((band.matches('M').count(), band.matches('L').count()), (1, 3), "{band}");
    }
}
