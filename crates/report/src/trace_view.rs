//! A trace made small enough to be drawn: at most [`MAX_BUCKETS`] points a line, however long it was.
//!
//! The trace's span is cut into buckets of equal width. Each step between two neighbouring samples gives a
//! rate (difference of the counters / time between them), which counts in every bucket that it overlaps by
//! the length of the overlap. A bucket keeps the mean, which is exact, and the lowest and highest rate, so
//! that a peak of one sample is still seen. Sources that are read less often than others are followed at
//! their own pace (see `neighbours`). A bucket that no step covers stays empty: a gap is a gap.
//!
//! A trace of the lab is in its guest's time; its view is in the time of the machine that is stood for, as
//! all else of the trial is: spans over the time dilation, rates times it.

pub mod frequency;
pub mod grid;
mod truth;

pub use truth::{Held, Truth, VirtualCpu};

use analysis::facts::rates::{SECTOR_BYTES, TICK_SECONDS, coarse, names_between, rates};
use analysis::facts::residency::Residency;
use domain::lab::LabAccount;
use domain::time::Nanos;
use domain::trace::{FrequencySource, Role, Trace};
use grid::Grid;

/// How many points a line has at the most: a plot is rarely wider in pixels.
pub const MAX_BUCKETS: usize = 400;

/// How many lines a plot has at the most: more cannot be told apart. The rest is counted and said.
pub const MAX_LINES: usize = 6;

/// What one bucket holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// The lowest value of a sample in it.
    pub low: f64,
    /// The mean over its time.
    pub mean: f64,
    /// The highest value of a sample in it.
    pub high: f64,
}

/// One quantity over the trace's time.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it is of: `vda read`, `policy0`.
    pub name: String,
    /// One entry a bucket; `None` where nothing is known.
    pub buckets: Vec<Option<Bucket>>,
}

impl Line {
    /// The highest value; zero where nothing is known.
    pub fn highest(&self) -> f64 {
        self.buckets.iter().flatten().map(|b| b.high).fold(0.0, f64::max)
    }
    /// The highest mean of a bucket; zero where nothing is known.
    pub fn highest_mean(&self) -> f64 {
        self.buckets.iter().flatten().map(|b| b.mean).fold(0.0, f64::max)
    }
    fn sum(&self) -> f64 {
        self.buckets.iter().flatten().map(|b| b.mean).sum()
    }
    fn is_ever_above_zero(&self) -> bool {
        self.buckets.iter().flatten().any(|b| b.high > 0.0)
    }
}

/// Lines of one plot, and how many more there were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// At most [`MAX_LINES`].
    pub lines: Vec<Line>,
    /// How many lines of less were left out.
    pub left_out: usize,
}

/// A trace as the page shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceView {
    /// From the first sample to the last.
    pub span: Nanos,
    /// The interval that was asked for.
    pub interval: Nanos,
    /// How many samples were taken.
    pub samples: usize,
    /// The width of a bucket.
    pub bucket: Nanos,
    /// How many CPUs the trace saw; zero where it sampled none.
    pub cpus: usize,
    /// CPU time by role, in cores; roles that took none are left out.
    pub roles: Vec<(Role, Line)>,
    /// CPU time by state, in cores, without idle: user, system, iowait, interrupts, steal.
    pub states: Vec<Line>,
    /// Frequency in hertz, by CPU or policy. A bucket in which a CPU never ran is empty.
    pub frequency: Lines,
    /// Where the frequency came from.
    pub frequency_source: FrequencySource,
    /// Bytes a second of every block device that did anything, reads and writes apart.
    pub throughput: Lines,
    /// The share of its time in which a device had requests in flight.
    pub busy: Lines,
    /// What the lab knows of the frequency from outside; `None` everywhere else, and where nothing was paced.
    pub truth: Option<Truth>,
    /// The time dilation; 1 everywhere but in the lab.
    pub dilation: f64,
    /// How fast CPUs ran and in which states they were, over all of it.
    pub residency: Residency,
}

impl TraceView {
    /// Downsamples a trace. The size of what it gives is bounded by [`MAX_BUCKETS`] and the number of series,
    /// not by the trace's length.
    pub fn from_trace(trace: &Trace) -> Self {
        let grid = Grid::of(trace);
        Self {
            span: grid.span,
            interval: trace.head.interval,
            samples: trace.times.len(),
            bucket: Nanos::new(grid.width_ns),
            cpus: names_between(trace, "cpu", ".user").iter().filter(|n| !n.is_empty()).count(),
            roles: roles(trace, &grid),
            states: states(trace, &grid),
            frequency: frequency::lines(trace, &grid),
            frequency_source: trace.head.frequency,
            throughput: throughput(trace, &grid),
            busy: busy(trace, &grid),
            truth: None,
            dilation: 1.0,
            residency: Residency::of(trace),
        }
    }

    /// The same for a trial of the lab, with its account.
    pub fn of_lab(trace: &Trace, account: &LabAccount) -> Self {
        let d = account.dilation;
        let grid = Grid::of(trace);
        let mut view = Self::from_trace(trace);
        for span in [&mut view.span, &mut view.interval, &mut view.bucket] {
            *span = undilated(*span, d);
        }
        let rates = view.throughput.lines.iter_mut().flat_map(|line| line.buckets.iter_mut().flatten());
        rates.for_each(|b| *b = Bucket { low: b.low * d, mean: b.mean * d, high: b.high * d });
        view.truth = account.pacing.as_ref().and_then(|pacing| Truth::of(pacing, grid.start, grid.span, d));
        view.dilation = d;
        view
    }
}

/// A span of the guest in the time of the machine that is stood for.
fn undilated(span: Nanos, d: f64) -> Nanos {
    Nanos::new((span.get() as f64 / d).round() as u64)
}

/// The lines with the largest sums, in the order that they came in.
fn largest(mut lines: Vec<Line>, most: usize) -> Lines {
    lines.retain(Line::is_ever_above_zero);
    let left_out = lines.len().saturating_sub(most);
    while lines.len() > most {
        let least = (0..lines.len()).min_by(|a, b| lines[*a].sum().total_cmp(&lines[*b].sum()));
        lines.remove(least.expect("there are more lines than fit, so there is one"));
    }
    Lines { lines, left_out }
}

fn roles(trace: &Trace, grid: &Grid) -> Vec<(Role, Line)> {
    let line = |role: Role| grid.line(role.name(), rates(trace, &format!("role.{}.ns", role.name()), 1e-9));
    Role::ALL.map(|role| (role, line(role))).into_iter().filter(|(_, l)| l.is_ever_above_zero()).collect()
}

const STATES: [(&str, &[&str]); 5] = [
    ("user", &["user", "nice"]),
    ("system", &["system"]),
    ("iowait", &["iowait"]),
    ("interrupts", &["irq", "softirq"]),
    ("steal", &["steal"]),
];

fn states(trace: &Trace, grid: &Grid) -> Vec<Line> {
    let lines = STATES.map(|(name, parts)| {
        let parts: Vec<Line> = parts
            .iter()
            .map(|p| grid.line(name, coarse(rates(trace, &format!("cpu.{p}"), TICK_SECONDS))))
            .collect();
        added(name, &parts)
    });
    lines.into_iter().filter(Line::is_ever_above_zero).collect()
}

/// The sum of lines; a bucket that one of them lacks is not known.
fn added(name: &str, parts: &[Line]) -> Line {
    let count = parts.first().map_or(0, |p| p.buckets.len());
    let bucket = |i: usize| {
        parts.iter().try_fold(Bucket { low: 0.0, mean: 0.0, high: 0.0 }, |sum, part| {
            let b = part.buckets[i]?;
            Some(Bucket { low: sum.low + b.low, mean: sum.mean + b.mean, high: sum.high + b.high })
        })
    };
    Line { name: name.to_owned(), buckets: (0..count).map(bucket).collect() }
}

fn throughput(trace: &Trace, grid: &Grid) -> Lines {
    let mut lines = Vec::new();
    for device in names_between(trace, "disk.", ".read_sectors") {
        for way in ["read", "write"] {
            let column = format!("disk.{device}.{way}_sectors");
            lines.push(grid.line(format!("{device} {way}"), rates(trace, &column, SECTOR_BYTES)));
        }
    }
    largest(lines, MAX_LINES)
}

fn busy(trace: &Trace, grid: &Grid) -> Lines {
    let devices = names_between(trace, "disk.", ".io_ms").into_iter();
    let line = |d: &str| grid.line(d, coarse(rates(trace, &format!("disk.{d}.io_ms"), 1e-3)));
    largest(devices.map(line).collect(), MAX_LINES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::time::Timestamp;
    use domain::trace::{Series, SeriesKind, SeriesUnit, TraceHead};

    fn trace(name: &str, kind: SeriesKind, rows: &[(u64, Option<u64>)]) -> Trace {
        let series = vec![Series { name: name.into(), unit: SeriesUnit::Nanos, kind }];
        let head = TraceHead {
            series,
            interval: Nanos::from_millis(10),
            start: Timestamp::default(),
            frequency: FrequencySource::None,
        };
        let times = rows.iter().map(|(ms, _)| Nanos::from_millis(*ms)).collect();
        Trace { head, times, columns: vec![rows.iter().map(|(_, v)| *v).collect()] }
    }

    const COUNTER: SeriesKind = SeriesKind::Counter { wraps_at: None };

    fn cores(trace: &Trace) -> Vec<Option<f64>> {
        let view = TraceView::from_trace(trace);
        view.roles.first().map_or(vec![], |(_, l)| l.buckets.iter().map(|b| b.map(|b| b.mean)).collect())
    }

    #[test]
    fn a_rate_is_the_difference_over_the_time_between() {
        let t =
            trace("role.array.ns", COUNTER, &[(0, Some(7)), (10, Some(5_000_007)), (20, Some(15_000_007))]);
        assert_eq!(cores(&t), [Some(0.5), Some(1.0)]);
    }

    #[test]
    fn a_missing_sample_leaves_a_gap() {
        let ms = 1_000_000;
        let t = trace(
            "role.array.ns",
            COUNTER,
            &[(0, Some(0)), (10, Some(10 * ms)), (20, None), (30, Some(30 * ms)), (40, Some(40 * ms))],
        );
        assert_eq!(cores(&t), [Some(1.0), None, None, Some(1.0)]);
    }

    #[test]
    fn a_source_that_is_read_less_often_has_no_gaps_but_those_of_its_own() {
        let value = |row: u64| (row.is_multiple_of(3) && row != 12).then_some(row * 10_000_000);
        let rows: Vec<_> = (0..=21).map(|row| (row * 10, value(row))).collect();
        let known: Vec<bool> =
            cores(&trace("role.array.ns", COUNTER, &rows)).iter().map(Option::is_some).collect();
        assert_eq!(known, [vec![true; 9], vec![false; 6], vec![true; 6]].concat());
    }

    #[test]
    fn a_counter_that_falls_is_unknown_unless_its_wrap_is_known() {
        let rows = [(0, Some(90)), (10, Some(10)), (20, Some(20))];
        assert_eq!(cores(&trace("role.array.ns", COUNTER, &rows)), [None, Some(1e-6)]);
        let wraps = SeriesKind::Counter { wraps_at: Some(100) };
        assert_eq!(cores(&trace("role.array.ns", wraps, &rows)), [Some(2e-6), Some(1e-6)]);
    }

    #[test]
    fn a_peak_of_one_sample_survives_a_long_trace() {
        let ms = 1_000_000_u64;
        let mut sum = 0;
        let mut row = |i: u64| {
            sum += if i == 50_001 { 10 * ms } else { ms };
            (i * 10, Some(sum))
        };
        let rows: Vec<_> = (0..100_000).map(&mut row).collect();
        let view = TraceView::from_trace(&trace("role.array.ns", COUNTER, &rows));
        let line = &view.roles[0].1;
        assert_eq!(line.buckets.len(), MAX_BUCKETS);
        assert!((line.highest() - 1.0).abs() < 1e-9);
        assert!(line.highest_mean() < 0.11);
    }

    #[test]
    fn a_late_sample_fills_the_time_that_it_speaks_for() {
        let ms = 1_000_000;
        let rows = [(0, Some(0)), (10, Some(10 * ms)), (40, Some(25 * ms))];
        let view = TraceView::from_trace(&trace("role.array.ns", COUNTER, &rows));
        let means: Vec<_> = view.roles[0].1.buckets.iter().map(|b| b.unwrap().mean).collect();
        assert!(means.iter().zip([0.75, 0.5]).all(|(a, b)| (a - b).abs() < 1e-12), "{means:?}");
    }

    #[test]
    fn traces_without_rows_or_of_one_row_have_nothing_to_show() {
        for rows in [&[][..], &[(0, Some(3))], &[(5, Some(3)), (5, Some(9))]] {
            assert_eq!(cores(&trace("role.array.ns", COUNTER, rows)), []);
        }
    }

    #[test]
    fn what_is_booked_in_ticks_is_not_read_tick_by_tick() {
        // Half of a core, booked as a whole tick in every second sample of 10 ms; then 30 ms without a
        // sample.
        let value = |row: u64| (!(25..=27).contains(&row)).then_some(row / 2);
        let rows: Vec<_> = (0..=52).map(|row| (row * 10, value(row))).collect();
        let mut t = trace("cpu.user", COUNTER, &rows);
        let mut nice = t.head.series[0].clone();
        nice.name = "cpu.nice".into();
        t.head.series.push(nice);
        t.columns.push(rows.iter().map(|(_, v)| v.map(|_| 0)).collect());
        let view = TraceView::from_trace(&t);
        let user = &view.states[0];
        assert!(user.buckets.iter().flatten().all(|b| (0.45..=0.55).contains(&b.mean)), "{user:?}");
        assert_eq!(user.buckets.iter().filter(|b| b.is_none()).count(), 4);
    }

    #[test]
    fn devices_beyond_the_bound_are_counted() {
        let mut t = trace("disk.d0.io_ms", COUNTER, &[(0, Some(0)), (10, Some(1))]);
        for i in 1..9_u64 {
            let mut series = t.head.series[0].clone();
            series.name = format!("disk.d{i}.io_ms");
            t.head.series.push(series);
            t.columns.push(vec![Some(0), Some(i + 1)]);
        }
        let busy = TraceView::from_trace(&t).busy;
        assert_eq!((busy.lines.len(), busy.left_out), (MAX_LINES, 3));
        assert_eq!(busy.lines[0].name, "d3");
    }
}
