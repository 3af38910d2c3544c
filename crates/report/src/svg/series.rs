//! Lines and stacked areas over the time of a trace.

use super::scale::{Scale, tick_label};
use super::tenths;
use crate::trace_view::{Bucket, Held, Line};
use domain::time::Nanos;
use domain::units::Unit;
use maud::{Markup, html};
use std::fmt::Write;
use std::ops::Range;

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

    /// Where the axis ends. A share ends at all of it: the kernel books busy time in whole ticks, so that
    /// single samples seem to exceed their own span.
    fn end(&self, largest: f64) -> f64 {
        if *self == Self::Of(Unit::Share) { 1.0 } else { largest }
    }
}

const HEIGHT: u32 = 132;

/// Paths have this many steps a pixel upwards, and two a bucket along, so that whole numbers are fine enough.
const FINE: u32 = 4;

/// Lines above each other, from zero: what they add up to is read at the top. Drawn from the top down, so
/// that each covers the one above it but for its own part.
pub(crate) fn stacked(
    lines: &[(usize, &Line)],
    quantity: &Quantity,
    span: Nanos,
    at_least: f64,
    label: &str,
) -> Markup {
    let count = lines.first().map_or(0, |(_, l)| l.buckets.len());
    let mut sums = vec![Some(0.0); count];
    let mut tops = Vec::new();
    for (colour, line) in lines {
        for (sum, bucket) in sums.iter_mut().zip(&line.buckets) {
            *sum = sum.and_then(|s| Some(s + bucket.as_ref()?.mean));
        }
        tops.push((colour, sums.clone()));
    }
    let most = sums.iter().flatten().copied().fold(at_least, f64::max);
    let scale = Scale::from_zero(most);
    framed(
        &scale,
        quantity,
        span,
        count,
        label,
        html! {
            @for (colour, top) in tops.iter().rev() { path class={ "area r" (colour) } d=(area(&scale, top)) {} }
        },
    )
}

/// Lines over each other; a band from the lowest to the highest sample lies behind each.
pub(crate) fn lines(
    lines: &[(usize, &Line)],
    quantity: &Quantity,
    span: Nanos,
    at_least: f64,
    label: &str,
) -> Markup {
    let count = lines.first().map_or(0, |(_, l)| l.buckets.len());
    let most = lines.iter().map(|(_, l)| l.highest()).fold(at_least, f64::max);
    let scale = Scale::from_zero(quantity.end(most));
    framed(
        &scale,
        quantity,
        span,
        count,
        label,
        html! {
            @for (colour, line) in lines { path class={ "band r" (colour) } d=(band(&scale, line)) {} }
            @for (colour, line) in lines { path class={ "stroke r" (colour) " d" (colour % 4) } d=(stroke(&scale, line)) {} }
        },
    )
}

/// How fine steps are along, in pairs of units: finer than any screen.
const STEP_PAIRS: usize = 1_000;

/// Frequencies that were held, as exact steps.
pub(crate) fn steps(lines: &[(usize, &[Held])], span: Nanos, label: &str) -> Markup {
    let hertz = |held: &Held| held.frequency.hz() as f64;
    let most = lines.iter().flat_map(|(_, held)| held.iter().map(hertz)).fold(0.0, f64::max);
    let scale = Scale::from_zero(most);
    let place = |at: Nanos| (at.secs() / span.secs() * (2 * STEP_PAIRS) as f64).round() as i64;
    let path = |held: &[Held]| {
        let mut path = Path::new(&scale);
        for (index, one) in held.iter().enumerate() {
            match index {
                0 => path.begin(place(one.from), hertz(one)),
                _ => path.to(place(one.from), hertz(one)),
            }
            path.to(place(one.to), hertz(one));
        }
        path.d
    };
    framed(
        &scale,
        &Quantity::Hertz,
        span,
        STEP_PAIRS,
        label,
        html! {
            @for (colour, held) in lines { path class={ "stroke r" (colour) " d" (colour % 4) } d=(path(held)) {} }
        },
    )
}

/// The gutter with the vertical labels, the stretched box with the paths, and the time below.
fn framed(
    scale: &Scale,
    quantity: &Quantity,
    span: Nanos,
    count: usize,
    label: &str,
    paths: Markup,
) -> Markup {
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
                svg class="plot" viewBox={ "0 0 " (count.max(1) * 2) " " (HEIGHT * FINE) } width="100%" height=(HEIGHT) preserveAspectRatio="none"
                    data-end=(tick_label(scale.end() / factor)) data-unit=(name) data-seconds=(span.secs()) { (paths) }
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

/// The stretches of buckets that are known, as ranges of indices.
fn stretches<T>(values: &[Option<T>]) -> Vec<Range<usize>> {
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

fn area(scale: &Scale, top: &[Option<f64>]) -> String {
    let mut path = Path::new(scale);
    for range in stretches(top) {
        let (left, right) = ends(&range);
        path.begin(left, 0.0);
        along(&mut path, range, |i| top[i]);
        path.to(right, 0.0);
        path.close();
    }
    path.d
}

fn band(scale: &Scale, line: &Line) -> String {
    let mut path = Path::new(scale);
    let of = |i: usize, end: fn(&Bucket) -> f64| line.buckets[i].as_ref().map(end);
    for range in stretches(&line.buckets) {
        let (left, _) = ends(&range);
        path.begin(left, of(range.start, |b| b.low).unwrap_or(0.0));
        along(&mut path, range.clone(), |i| of(i, |b| b.high));
        for i in range.rev() {
            path.to(2 * i as i64 + 1, of(i, |b| b.low).unwrap_or(0.0));
        }
        path.close();
    }
    path.d
}

fn stroke(scale: &Scale, line: &Line) -> String {
    let mut path = Path::new(scale);
    for range in stretches(&line.buckets) {
        let mean = |i: usize| line.buckets[i].map(|b| b.mean);
        path.begin(ends(&range).0, mean(range.start).unwrap_or(0.0));
        along(&mut path, range, mean);
    }
    path.d
}

/// Through the middle of each bucket of a stretch, and level to its two ends, so that a single one shows too.
fn along(path: &mut Path, range: Range<usize>, value: impl Fn(usize) -> Option<f64>) {
    let (left, right) = ends(&range);
    let known: Vec<(i64, f64)> = range.filter_map(|i| Some((2 * i as i64 + 1, value(i)?))).collect();
    let (Some(first), Some(last)) = (known.first(), known.last()) else { return };
    path.to(left, first.1);
    known.iter().for_each(|(x, v)| path.to(*x, *v));
    path.to(right, last.1);
}

fn ends(range: &Range<usize>) -> (i64, i64) {
    (2 * range.start as i64, 2 * range.end as i64)
}

/// A path in whole numbers, each point relative to the one before: a third of what absolute ones take.
struct Path<'a> {
    scale: &'a Scale,
    d: String,
    at: (i64, i64),
}

impl<'a> Path<'a> {
    fn new(scale: &'a Scale) -> Self {
        Self { scale, d: String::new(), at: (0, 0) }
    }

    fn begin(&mut self, x: i64, value: f64) {
        self.at = (x, self.height(value));
        write!(self.d, "M{} {}l", self.at.0, self.at.1).expect(NEVER);
    }

    fn to(&mut self, x: i64, value: f64) {
        let next = (x, self.height(value));
        let (along, down) = (next.0 - self.at.0, next.1 - self.at.1);
        if (along, down) != (0, 0) {
            let between = if self.d.ends_with('l') || along < 0 { "" } else { " " };
            write!(self.d, "{between}{along}{}{down}", if down < 0 { "" } else { " " }).expect(NEVER);
            self.at = next;
        }
    }

    fn close(&mut self) {
        self.d.push('z');
    }

    fn height(&self, value: f64) -> i64 {
        (y(self.scale, value) * f64::from(FINE)).round() as i64
    }
}

const NEVER: &str = "a String takes all that is written to it";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_ends_a_stretch_and_begins_another() {
        let known = [None, Some(1), Some(2), None, Some(3)];
        assert_eq!(stretches(&known), [1..3, 4..5]);
        assert!(stretches::<u8>(&[]).is_empty());
    }

    #[test]
    fn a_single_bucket_between_gaps_is_still_drawn() {
        let bucket = Bucket { low: 1.0, mean: 1.0, high: 1.0 };
        let line = Line { name: String::new(), buckets: vec![None, Some(bucket), None, None] };
        assert_eq!(stroke(&Scale::from_zero(1.0), &line), "M2 8l1 0 1 0");
    }
}
