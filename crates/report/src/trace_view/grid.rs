//! Spans of equal width, and what counters and gauges were in each: exact means, from samples at any
//! distance.

use super::{Bucket, Line, MAX_BUCKETS};
use domain::time::Nanos;
use domain::trace::{SeriesKind, Trace};
use std::collections::BTreeMap;

/// The buckets of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// When the first begins, since the trace's start.
    pub start: Nanos,
    /// From the trace's first sample to its last.
    pub span: Nanos,
    /// The width of each.
    pub width_ns: u64,
    /// How many there are.
    pub count: usize,
}

impl Grid {
    /// As many as a picture has room for.
    pub(crate) fn of(trace: &Trace) -> Self {
        let start = trace.times.first().copied().unwrap_or_default();
        let span = trace.times.last().copied().unwrap_or_default().saturating_sub(start);
        let count = trace.times.len().saturating_sub(1).clamp(1, MAX_BUCKETS);
        let width_ns = span.get().div_ceil(count as u64).max(1);
        Self { start, span, width_ns, count }
    }

    /// Whole ones of this width; what is left at the end is in none.
    pub fn every(trace: &Trace, width: Nanos) -> Self {
        let whole = Self::of(trace);
        let width_ns = width.get().max(1);
        let count = (whole.span.get() / width_ns) as usize;
        Self { width_ns, count, ..whole }
    }

    /// What steps are in each bucket.
    pub fn line(&self, name: impl Into<String>, steps: impl Iterator<Item = Step>) -> Line {
        let mut sums = vec![Sum::EMPTY; self.count];
        for step in steps {
            self.add(&mut sums, step);
        }
        Line { name: name.into(), buckets: sums.into_iter().map(Sum::bucket).collect() }
    }

    /// Counts a step in every bucket that it overlaps.
    fn add(&self, sums: &mut [Sum], step: Step) {
        let from = step.from.saturating_sub(self.start).get();
        let to = step.to.saturating_sub(self.start).get();
        let first = (from / self.width_ns) as usize;
        let last = (to.saturating_sub(1) / self.width_ns) as usize;
        for (i, sum) in sums.iter_mut().enumerate().take(last + 1).skip(first) {
            let left = from.max(i as u64 * self.width_ns);
            let right = to.min((i as u64 + 1) * self.width_ns);
            sum.add(step.value, right.saturating_sub(left) as f64);
        }
    }
}

/// A value that held from one time to another.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Since the trace's start.
    pub from: Nanos,
    /// Since the trace's start.
    pub to: Nanos,
    /// What held.
    pub value: f64,
}

impl Step {
    /// Goes on to the end of the step that follows, at the mean of both.
    fn join(&mut self, next: Step) {
        let (here, there) =
            (self.to.saturating_sub(self.from).secs(), next.to.saturating_sub(next.from).secs());
        self.value = (self.value * here + next.value * there) / (here + there);
        self.to = next.to;
    }
}

#[derive(Clone, Copy)]
struct Sum {
    low: f64,
    high: f64,
    weighted: f64,
    weight: f64,
}

impl Sum {
    const EMPTY: Self = Self { low: f64::INFINITY, high: f64::NEG_INFINITY, weighted: 0.0, weight: 0.0 };

    fn add(&mut self, value: f64, weight: f64) {
        if weight > 0.0 {
            self.low = self.low.min(value);
            self.high = self.high.max(value);
            self.weighted += value * weight;
            self.weight += weight;
        }
    }

    fn bucket(self) -> Option<Bucket> {
        let mean = self.weighted / self.weight;
        (self.weight > 0.0).then_some(Bucket { low: self.low, mean, high: self.high })
    }
}

/// The rates of a counter in units a second, one for each pair of neighbouring samples. A counter that falls
/// without a known wrap was reset: what it counted meanwhile is not known.
pub fn rates<'a>(trace: &'a Trace, name: &str, scale: f64) -> impl Iterator<Item = Step> + 'a {
    let index = trace.head.series.iter().position(|s| s.name == name);
    let wraps_at = index.and_then(|i| match trace.head.series[i].kind {
        SeriesKind::Counter { wraps_at } => wraps_at,
        SeriesKind::Gauge => None,
    });
    let values = index.map_or(&[][..], |i| &trace.columns[i]);
    neighbours(values).filter_map(move |(before, after)| {
        let grown = difference(values[before]?, values[after]?, wraps_at)?;
        let (from, to) = (trace.times[before], trace.times[after]);
        let span = to.saturating_sub(from);
        (span > Nanos::ZERO).then(|| Step { from, to, value: grown as f64 * scale / span.secs() })
    })
}

/// What the kernel books in whole ticks says nothing about a span of one tick: a CPU would seem to be busy
/// twice over in it and idle in the next. Over ten ticks of 10 ms the error is a tenth at the most.
pub(crate) const COARSEST_TICKS: Nanos = Nanos::from_millis(100);

/// Joins steps that touch each other until they are [`COARSEST_TICKS`] long; a shorter rest joins the last.
pub(crate) fn coarse(steps: impl Iterator<Item = Step>) -> impl Iterator<Item = Step> {
    let long = |step: &Step| step.to.saturating_sub(step.from) >= COARSEST_TICKS;
    let mut joined: Vec<Step> = Vec::new();
    for step in steps {
        match joined.last_mut() {
            Some(last) if last.to == step.from && !long(last) => last.join(step),
            _ => joined.push(step),
        }
    }
    let mut whole: Vec<Step> = Vec::new();
    for step in joined {
        match whole.last_mut() {
            Some(last) if last.to == step.from && !long(&step) => last.join(step),
            _ => whole.push(step),
        }
    }
    whole.into_iter()
}

/// Rows of a column that follow each other as its samples usually do. A source that is read at every ninth
/// sample has its values nine rows apart; values that lie further apart than usual have a gap between them.
pub(crate) fn neighbours(column: &[Option<u64>]) -> impl Iterator<Item = (usize, usize)> {
    let usual = usual_distance(column);
    known_pairs(column).filter(move |(before, after)| after - before <= usual)
}

/// Each row that has a value, with the next one that has.
pub(crate) fn known_pairs(column: &[Option<u64>]) -> impl Iterator<Item = (usize, usize)> {
    let known = || column.iter().enumerate().filter(|(_, value)| value.is_some()).map(|(row, _)| row);
    known().zip(known().skip(1))
}

/// How many rows lie between two values most often; the smaller where two distances are equally frequent.
pub(crate) fn usual_distance(column: &[Option<u64>]) -> usize {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for (before, after) in known_pairs(column) {
        *counts.entry(after - before).or_default() += 1;
    }
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map_or(1, |(distance, _)| distance)
}

pub(crate) fn difference(before: u64, after: u64, wraps_at: Option<u64>) -> Option<u64> {
    match after.checked_sub(before) {
        Some(grown) => Some(grown),
        None => wraps_at?.checked_sub(before)?.checked_add(after),
    }
}

/// The parts of series' names between a prefix and a suffix, in the trace's order.
pub fn names_between<'a>(trace: &'a Trace, prefix: &str, suffix: &str) -> Vec<&'a str> {
    let names = trace.head.series.iter().map(|s| s.name.as_str());
    names.filter_map(|n| n.strip_prefix(prefix)?.strip_suffix(suffix)).collect()
}

/// A tick of `/proc/stat` is 10 ms.
pub const TICK_SECONDS: f64 = 0.01;

/// A sector of `/proc/diskstats` is 512 bytes whatever the device's own block size is.
pub const SECTOR_BYTES: f64 = 512.0;
