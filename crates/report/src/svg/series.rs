//! Lines and stacked areas over the time of a trace.

use super::scale::{Scale, tick_label};
use super::tenths;
use crate::trace_view::{Bucket, Line};
use domain::time::Nanos;
use domain::units::Unit;
use maud::{Markup, html};
use std::fmt::Write;

/// What a line's values are, for its axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Quantity {
    /// A quantity of the workload's tools.
    Of(Unit),
    /// Frequencies in hertz.
    Hertz,
}

impl Quantity {
    /// `shown = value / scale`, and the unit of what is shown.
    fn axis(&self, largest: f64) -> (f64, String) {
        match self {
            Self::Of(unit) => unit.axis(largest),
            Self::Hertz if largest >= 1e9 => (1e9, "GHz".to_owned()),
            Self::Hertz => (1e6, "MHz".to_owned()),
        }
    }
}

const HEIGHT: u32 = 132;
const WIDTH: f64 = 1000.0;

/// Lines above each other, from zero: what they add up to is read at the top.
pub(crate) fn stacked(lines: &[(usize, &Line)], quantity: &Quantity, span: Nanos, at_least: f64, label: &str) -> Markup {
    let count = lines.first().map_or(0, |(_, l)| l.buckets.len());
    let total = |i: usize| lines.iter().filter_map(|(_, l)| l.buckets[i]).map(|b| b.mean).sum::<f64>();
    let most = (0..count).map(total).fold(at_least, f64::max);
    let scale = Scale::from_zero(most);
    let mut base = vec![0.0; count];
    let mut areas = Vec::new();
    for (colour, line) in lines {
        let top: Vec<Option<f64>> =
            line.buckets.iter().zip(&base).map(|(b, base)| b.map(|b| base + b.mean)).collect();
        areas.push((colour, area(&scale, &base, &top)));
        for (base, top) in base.iter_mut().zip(top) {
            *base = top.unwrap_or(*base);
        }
    }
    framed(&scale, quantity, span, label, html! {
        @for (colour, d) in &areas { path class={ "area r" (colour) } d=(d) {} }
    })
}

/// Lines over each other; a band from the lowest to the highest sample lies behind each.
pub(crate) fn lines(lines: &[(usize, &Line)], quantity: &Quantity, span: Nanos, at_least: f64, label: &str) -> Markup {
    let most = lines.iter().map(|(_, l)| l.highest()).fold(at_least, f64::max);
    let scale = Scale::from_zero(most);
    framed(&scale, quantity, span, label, html! {
        @for (colour, line) in lines { path class={ "band r" (colour) } d=(band(&scale, line)) {} }
        @for (colour, line) in lines { path class={ "trace r" (colour) " d" (colour % 4) } d=(stroke(&scale, line)) {} }
    })
}

/// The gutter with the vertical labels, the stretched box with the paths, and the time below.
fn framed(scale: &Scale, quantity: &Quantity, span: Nanos, label: &str, paths: Markup) -> Markup {
    let ticks = scale.ticks();
    let (factor, name) = quantity.axis(ticks.iter().fold(0.0, |most, t| t.abs().max(most)));
    let text_y = |t: f64| (y(scale, t) + 4.0).clamp(10.0, f64::from(HEIGHT) - 1.0);
    html! {
        div class="timed" {
            svg class="gutter" width="44" height=(HEIGHT) aria-hidden="true" {
                @for tick in &ticks { text x="38" y=(tenths(text_y(*tick))) text-anchor="end" { (tick_label(tick / factor)) } }
            }
            svg width="100%" height=(HEIGHT) role="img" aria-label=(label) {
                @for tick in &ticks {
                    line class="grid" x1="0" x2="100%" y1=(tenths(y(scale, *tick))) y2=(tenths(y(scale, *tick))) {}
                }
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } width="100%" height=(HEIGHT) preserveAspectRatio="none" { (paths) }
            }
            span class="unit" { (name) }
            div class="ends" { span { "0 s" } span { (span) } }
        }
    }
}

/// The height of a value, with room for the stroke at both ends.
fn y(scale: &Scale, value: f64) -> f64 {
    2.0 + (1.0 - scale.place(value)) * f64::from(HEIGHT - 4)
}

fn x(i: usize, count: usize) -> f64 {
    (i as f64 + 0.5) / count.max(1) as f64 * WIDTH
}

/// The stretches of buckets that are known, as ranges of indices.
fn stretches<T>(values: &[Option<T>]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    for i in 0..=values.len() {
        if values.get(i).is_none_or(Option::is_none) {
            if start < i {
                found.push(start..i);
            }
            start = i + 1;
        }
    }
    found
}

fn area(scale: &Scale, base: &[f64], top: &[Option<f64>]) -> String {
    let mut d = String::new();
    for range in stretches(top) {
        let there = range.clone().filter_map(|i| Some((i, top[i]?)));
        outline(&mut d, scale, top.len(), there, range.rev().map(|i| (i, base[i])));
    }
    d
}

fn band(scale: &Scale, line: &Line) -> String {
    let mut d = String::new();
    let known = |of: fn(&Bucket) -> f64| move |i: usize| Some((i, of(line.buckets[i].as_ref()?)));
    for range in stretches(&line.buckets) {
        let there = range.clone().filter_map(known(|b| b.high));
        outline(&mut d, scale, line.buckets.len(), there, range.rev().filter_map(known(|b| b.low)));
    }
    d
}

/// Along the upper edge and back along the lower one. A stretch of a single bucket is drawn at its full width.
fn outline(
    d: &mut String,
    scale: &Scale,
    count: usize,
    there: impl Iterator<Item = (usize, f64)>,
    back: impl Iterator<Item = (usize, f64)>,
) {
    let half = WIDTH / count.max(1) as f64 / 2.0;
    let (there, back): (Vec<_>, Vec<_>) = (there.collect(), back.collect());
    let (Some(first), Some(last)) = (there.first(), there.last()) else { return };
    let (left, right) = (x(first.0, count) - half, x(last.0, count) + half);
    let mut at = |c: char, x: f64, v: f64| write_point(d, c, x, y(scale, v));
    at('M', left, first.1);
    there.iter().for_each(|(i, v)| at('L', x(*i, count), *v));
    at('L', right, last.1);
    if let (Some(right_base), Some(left_base)) = (back.first(), back.last()) {
        at('L', right, right_base.1);
        back.iter().for_each(|(i, v)| at('L', x(*i, count), *v));
        at('L', left, left_base.1);
    }
    d.push('Z');
}

fn stroke(scale: &Scale, line: &Line) -> String {
    let count = line.buckets.len();
    let half = WIDTH / count.max(1) as f64 / 2.0;
    let mut d = String::new();
    for range in stretches(&line.buckets) {
        let means: Vec<(usize, f64)> = range.filter_map(|i| Some((i, line.buckets[i]?.mean))).collect();
        let (Some(first), Some(last)) = (means.first(), means.last()) else { continue };
        write_point(&mut d, 'M', x(first.0, count) - half, y(scale, first.1));
        means.iter().for_each(|(i, v)| write_point(&mut d, 'L', x(*i, count), y(scale, *v)));
        write_point(&mut d, 'L', x(last.0, count) + half, y(scale, last.1));
    }
    d
}

fn write_point(d: &mut String, command: char, x: f64, y: f64) {
    write!(d, "{command}{} {}", tenths(x), tenths(y)).expect("a String takes all that is written to it");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_ends_a_stretch_and_begins_another() {
        let known = [None, Some(1), Some(2), None, Some(3)];
        assert_eq!(stretches(&known), [1..3, 4..5]);
        assert_eq!(stretches::<u8>(&[]), []);
    }

    #[test]
    fn a_single_bucket_between_gaps_is_still_drawn() {
        let bucket = Bucket { low: 1.0, mean: 1.0, high: 1.0 };
        let line = Line { name: String::new(), buckets: vec![None, Some(bucket), None, None] };
        assert_eq!(stroke(&Scale::from_zero(1.0), &line), "M250 2L375 2L500 2");
    }
}
