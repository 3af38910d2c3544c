//! Rates of the counters of a trace, from samples at any distance.

use domain::time::Nanos;
use domain::trace::{SeriesKind, Trace, growth};
use std::collections::BTreeMap;

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
        let grown = growth(values[before]?, values[after]?, wraps_at)?;
        let (from, to) = (trace.times[before], trace.times[after]);
        let span = to.saturating_sub(from);
        (span > Nanos::ZERO).then(|| Step { from, to, value: grown as f64 * scale / span.secs() })
    })
}

/// What the kernel books in whole ticks says nothing about a span of one tick: a CPU would seem to be busy
/// twice over in it and idle in the next. Over ten ticks of 10 ms the error is a tenth at the most.
pub const COARSEST_TICKS: Nanos = Nanos::from_millis(100);

/// Joins steps that touch each other until they are [`COARSEST_TICKS`] long; a shorter rest joins the last.
pub fn coarse(steps: impl Iterator<Item = Step>) -> impl Iterator<Item = Step> {
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
pub fn neighbours(column: &[Option<u64>]) -> impl Iterator<Item = (usize, usize)> {
    let usual = usual_distance(column);
    known_pairs(column).filter(move |(before, after)| after - before <= usual)
}

/// Each row that has a value, with the next one that has.
pub fn known_pairs(column: &[Option<u64>]) -> impl Iterator<Item = (usize, usize)> {
    let known = || column.iter().enumerate().filter(|(_, value)| value.is_some()).map(|(row, _)| row);
    known().zip(known().skip(1))
}

/// How many rows lie between two values most often; the smaller where two distances are equally frequent.
pub fn usual_distance(column: &[Option<u64>]) -> usize {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for (before, after) in known_pairs(column) {
        *counts.entry(after - before).or_default() += 1;
    }
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map_or(1, |(distance, _)| distance)
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
