//! Spans of equal width, and what counters and gauges were in each: exact means, from samples at any
//! distance.

use super::{Bucket, Line, MAX_BUCKETS};
use analysis::facts::rates::Step;
use domain::time::Nanos;
use domain::trace::Trace;

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
