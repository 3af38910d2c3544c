//! The last rows of a trace, and how fast counters grew in them.

use domain::time::Nanos;
use domain::trace::{Series, SeriesKind, growth};
use std::collections::{HashMap, VecDeque};

/// Over how long rates are means: ten and more ticks of 10 ms a CPU
/// ([`analysis::facts::rates::COARSEST_TICKS`]), and no longer than somebody who looks takes for now.
pub const SPAN: Nanos = Nanos::from_secs(1);

/// The rows of one [`SPAN`], and of each column what was known before them.
#[derive(Clone, Debug, Default)]
pub struct Window {
    series: Vec<Series>,
    rows: VecDeque<(Nanos, Vec<Option<u64>>)>,
    before: Vec<Option<(Nanos, u64)>>,
}

impl Window {
    /// Goes on with these columns: those that there were keep what is known of them.
    pub fn begin(&mut self, series: &[Series]) {
        let old: HashMap<&str, usize> =
            self.series.iter().enumerate().map(|(index, series)| (series.name.as_str(), index)).collect();
        let from: Vec<Option<usize>> =
            series.iter().map(|series| old.get(series.name.as_str()).copied()).collect();
        self.before = from.iter().map(|from| self.before[(*from)?]).collect();
        for (_, values) in &mut self.rows {
            *values = from.iter().map(|from| values[(*from)?]).collect();
        }
        self.series = series.to_vec();
    }

    /// Takes a row, and lets go of those that are older than the span.
    pub fn push(&mut self, time: Nanos, values: &[Option<u64>]) {
        let mut row = Vec::new();
        while self.rows.front().is_some_and(|(old, _)| *old + SPAN <= time) {
            let Some((old, known)) = self.rows.pop_front() else { break };
            for (before, value) in self.before.iter_mut().zip(&known) {
                *before = value.map(|value| (old, value)).or(*before);
            }
            row = known;
        }
        row.clear();
        row.extend_from_slice(values);
        self.rows.push_back((time, row));
    }

    /// What a column held last; `None` where that is older than the span.
    pub fn last(&self, column: usize) -> Option<u64> {
        self.known(column).next_back().map(|(_, value)| value)
    }

    /// What a column held last; `None` where that is older than `span` before the last row.
    pub fn lately(&self, column: usize, span: Nanos) -> Option<u64> {
        let now = self.rows.back()?.0;
        let before = self.before.get(column).copied().flatten();
        let (time, value) = self.known(column).next_back().or(before)?;
        (now.saturating_sub(time) <= span).then_some(value)
    }

    /// By how much a counter grew a second; `None` where that is not known. What is read less often than
    /// once a span is a mean over longer.
    pub fn rate(&self, column: usize) -> Option<f64> {
        let SeriesKind::Counter { wraps_at } = self.series.get(column)?.kind else { return None };
        let (end, after) = self.known(column).next_back()?;
        let (begin, before) = self.before[column].or_else(|| self.known(column).next())?;
        let grown = growth(before, after, wraps_at)? as f64;
        (end > begin).then(|| grown / (end - begin).secs())
    }

    fn known(&self, column: usize) -> impl DoubleEndedIterator<Item = (Nanos, u64)> + '_ {
        self.rows.iter().filter_map(move |(time, values)| Some((*time, (*values.get(column)?)?)))
    }
}
