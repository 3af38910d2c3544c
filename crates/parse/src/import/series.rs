//! What a tool sampled over time, on its way to metrics and a trace.
//!
//! A parser says when a sample was taken and then names each value of it. Here they become columns: a mean a
//! column, which is a metric, and the rows of a trace. What the recorder counts, and a tool gives as a rate
//! or a share over an interval, becomes the recorder's counter: it grows by the rate times the interval. So
//! an imported trace is drawn as a measured one is. Everything else is a gauge under the tool's own name.
//!
//! Samples that a text scatters over several tables are joined by their times, in memory and bounded; samples
//! that come in order ([`Samples::onward`]) are handed on row by row.

use super::error::{Error, Place};
use super::scan::same;
use domain::bench::Sink;
use domain::outcome::{Better, Metric};
use domain::time::{Nanos, Timestamp};
use domain::trace::{FrequencySource, Series as TraceSeries, SeriesKind, SeriesUnit, TraceHead};
use domain::units::Unit;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A bound on columns: a machine of 512 CPUs with all of sadf's activities has some ten thousand.
pub const MAX_COLUMNS: usize = 20_000;

/// A bound on values that are joined in memory, of 16 bytes each; a day of `sar -A` every ten seconds has a
/// quarter of it.
pub const MAX_VALUES: usize = 8 << 20;

/// A bound on samples: three years of them, one a second.
pub const MAX_SAMPLES: u64 = 100_000_000;

/// A bound on metrics of one trial; the trace has all columns.
pub const MAX_METRICS: usize = 400;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Of 1.
    Share,
    /// Bytes a second.
    BytesPerSecond,
    /// Events a second.
    PerSecond,
    /// Seconds.
    Seconds,
    /// Watts.
    Watts,
    /// Hertz.
    Hertz,
    /// Whatever the tool counts there.
    Number,
}

impl Quantity {
    /// How it is stored in a trace, and how many of that are one.
    const fn stored(self) -> (SeriesUnit, f64) {
        match self {
            Self::Share => (SeriesUnit::Ppm, 1e6),
            Self::BytesPerSecond => (SeriesUnit::BytesPerSecond, 1.0),
            Self::PerSecond => (SeriesUnit::MilliPerSecond, 1e3),
            Self::Seconds => (SeriesUnit::Nanos, 1e9),
            Self::Watts => (SeriesUnit::Microwatts, 1e6),
            Self::Hertz => (SeriesUnit::Kilohertz, 1e-3),
            Self::Number => (SeriesUnit::Thousandths, 1e3),
        }
    }

    /// As a metric: its value, unit and which way is good.
    fn metric(self, value: f64) -> Metric {
        let (value, unit, better) = match self {
            Self::Share => (value, Unit::Share, Better::Lower),
            Self::BytesPerSecond => (value, Unit::BytesPerSecond, Better::Higher),
            Self::PerSecond => (value, Unit::PerSecond, Better::Higher),
            Self::Seconds => (value, Unit::Seconds, Better::Lower),
            Self::Watts => (value, Unit::Watts, Better::Lower),
            Self::Hertz => (value / 1e6, Unit::Other("MHz".to_owned()), Better::Higher),
            Self::Number => (value, Unit::Count, Better::Lower),
        };
        Metric { value, unit, better }
    }
}

/// The recorder's counter that a rate fills.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// The recorder's column.
    pub column: String,
    /// Its unit.
    pub unit: SeriesUnit,
    /// How much it grows in a second at a value of one.
    pub per_second: f64,
}

/// What a column is.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The metric that its mean is.
    pub name: String,
    /// Its column in a trace, where it is a gauge.
    pub column: String,
    /// What it holds.
    pub quantity: Quantity,
    /// What the tool's figure is multiplied by.
    pub scale: f64,
    /// The recorder's counter of the same meaning.
    pub counter: Option<Counter>,
    /// Whether its mean is a metric; not of each CPU and each process.
    pub is_metric: bool,
}

#[derive(Clone, Debug)]
struct Column {
    object: Vec<u8>,
    /// What stands before the key, and the key.
    field: Vec<u8>,
    /// Where the key begins.
    key: usize,
    /// Columns of equal numbers have the same object and the same before their keys.
    owner: usize,
    shape: Shape,
    sum: f64,
    count: u64,
    /// Whether each value had an interval, so that the counter can grow.
    counts: bool,
}

/// What is known of an object while its values come: nothing at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owner(Option<usize>);

/// Where rows go.
enum Keep<'s> {
    /// Nowhere: columns and means alone.
    Means,
    /// Into memory, by time.
    Rows(BTreeMap<i64, Vec<(u32, f64)>>),
    /// On, in their order.
    Onward(Onward<'s>),
}

struct Onward<'s> {
    sink: &'s mut dyn Sink,
    sums: Vec<f64>,
    row: Vec<Option<u64>>,
    rows: u64,
    start: i64,
}

/// What is known of time where a tool prints no clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// How far samples are apart, where somebody said so.
    pub interval: Option<Nanos>,
}

/// Takes samples.
pub struct Samples<'s> {
    what: &'static str,
    pace: Pace,
    columns: Vec<Column>,
    by_key: HashMap<Vec<u8>, HashMap<Vec<u8>, usize>>,
    /// What columns are called, or may come to be.
    names: HashSet<String>,
    cursor: usize,
    now: i64,
    interval: Option<Nanos>,
    first: Option<(i64, Option<Nanos>)>,
    last: i64,
    samples: u64,
    values: usize,
    /// Whether a sample has no time but its number.
    clockless: bool,
    /// Whether the first sample counts since boot, and is dropped when a second one comes.
    since_boot: bool,
    dropped_first: bool,
    backwards: u64,
    keep: Keep<'s>,
}

/// Samples of one tool, gathered.
#[derive(Clone, Debug)]
pub struct Series {
    columns: Vec<Column>,
    rows: BTreeMap<i64, Vec<(u32, f64)>>,
    start: i64,
    interval: Nanos,
    /// From its first sample's beginning to its last sample.
    pub span: Nanos,
    /// How many samples there are.
    pub samples: u64,
    /// What a reader should know.
    pub notes: Vec<String>,
    clockless: bool,
}

impl<'s> Samples<'s> {
    fn new(what: &'static str, pace: Pace, keep: Keep<'s>) -> Self {
        Self {
            what,
            pace,
            columns: Vec::new(),
            by_key: HashMap::new(),
            names: HashSet::new(),
            cursor: 0,
            now: 0,
            interval: None,
            first: None,
            last: i64::MIN,
            samples: 0,
            values: 0,
            clockless: false,
            since_boot: false,
            dropped_first: false,
            backwards: 0,
            keep,
        }
    }

    /// Joined in memory by their times.
    pub fn joined(what: &'static str, pace: Pace) -> Self {
        Self::new(what, pace, Keep::Rows(BTreeMap::new()))
    }

    /// Columns and means alone: the first of two readings.
    pub fn means(what: &'static str, pace: Pace) -> Self {
        Self::new(what, pace, Keep::Means)
    }

    /// Handed on to `sink`, whose trace has the columns that a first reading found.
    ///
    /// # Errors
    /// Where the sink cannot begin.
    pub fn onward(
        what: &'static str,
        pace: Pace,
        known: &Series,
        sink: &'s mut dyn Sink,
    ) -> Result<Self, Error> {
        let head = known.head();
        sink.begin(&head)?;
        let count = known.columns.len();
        let onward =
            Onward { sink, sums: vec![0.0; count], row: vec![None; count], rows: 0, start: known.start };
        let mut samples = Self::new(what, pace, Keep::Onward(onward));
        for column in &known.columns {
            samples.add(Column { sum: 0.0, count: 0, ..column.clone() });
        }
        Ok(samples)
    }

    /// Says that the first of several samples counts since the machine's start, as with iostat and vmstat.
    pub fn first_is_since_boot(&mut self) {
        self.since_boot = true;
    }

    /// Begins a sample: when it was taken, in nanoseconds of whatever clock the file has, and over which
    /// interval.
    ///
    /// # Errors
    /// Where there are too many, or a row cannot be stored.
    pub fn begin(&mut self, place: Place, at: Option<i64>, interval: Option<Nanos>) -> Result<(), Error> {
        if self.samples == 1 && self.since_boot {
            self.drop_first();
        } else if self.first.is_some() {
            self.end()?;
        }
        if self.samples >= MAX_SAMPLES {
            return Err(Error::at(
                self.what,
                place,
                format!("it has more than {MAX_SAMPLES} samples; split the file"),
            ));
        }
        let step = self.pace.interval.unwrap_or(Nanos::from_secs(1));
        self.clockless |= at.is_none();
        let number = i64::try_from(self.samples).unwrap_or(i64::MAX);
        let by_number = number.saturating_mul(i64::try_from(step.get()).unwrap_or(i64::MAX));
        self.now = at.unwrap_or(by_number);
        self.interval = interval.or(if at.is_none() { self.pace.interval } else { None });
        self.first.get_or_insert((self.now, self.interval));
        self.samples += 1;
        self.cursor = 0;
        Ok(())
    }

    /// Takes a value of the sample that was begun last. What it is, is asked once.
    ///
    /// # Errors
    /// Where there are too many columns or values.
    pub fn put(
        &mut self,
        place: Place,
        object: &str,
        field: &(impl AsRef<[u8]> + ?Sized),
        value: f64,
        shape: &dyn Fn() -> Shape,
    ) -> Result<(), Error> {
        self.put_of(&mut Owner::default(), place, object.as_bytes(), (b"", field.as_ref()), value, shape)
    }

    /// As [`Samples::put`], of an object whose values come one after the other: `owner` is a new one for the
    /// first of them. A field is what stands before the keys of all, and the key.
    ///
    /// # Errors
    /// As [`Samples::put`].
    #[inline(always)]
    pub fn put_of(
        &mut self,
        owner: &mut Owner,
        place: Place,
        object: &[u8],
        (prefix, key): (&[u8], &[u8]),
        value: f64,
        shape: &dyn Fn() -> Shape,
    ) -> Result<(), Error> {
        // Samples repeat their order, so the column is nearly always the one after the last.
        let guess = self.cursor;
        if let Some(column) = self.columns.get(guess)
            && owner.0 == Some(column.owner)
            && same(&column.field[column.key..], key)
        {
            self.cursor = guess + 1;
            return self.take(place, guess, value);
        }
        let index = self.index(place, object, (prefix, key), shape)?;
        // `a/b` may be the key `b` after `a/`, or `a/b` after nothing.
        let column = &self.columns[index];
        owner.0 = (column.key == prefix.len()).then_some(column.owner);
        self.cursor = index + 1;
        self.take(place, index, value)
    }

    #[inline]
    fn take(&mut self, place: Place, index: usize, value: f64) -> Result<(), Error> {
        let column = &mut self.columns[index];
        let value = value * column.shape.scale;
        if column.shape.quantity == Quantity::Seconds && value == 0.0 {
            // Of no operation there is no latency; tools print zero.
            return Ok(());
        }
        column.sum += value;
        column.count += 1;
        let kept = match (&column.shape.counter, self.interval) {
            (Some(counter), Some(interval)) => value * interval.secs() * counter.per_second,
            (Some(_), None) => {
                column.counts = false;
                value
            }
            (None, _) => value,
        };
        match &mut self.keep {
            Keep::Means => {}
            Keep::Rows(rows) => {
                self.values += 1;
                if self.values > MAX_VALUES {
                    let reason = format!(
                        "it has more than {MAX_VALUES} values; `sadf -j` of the same data has no such bound"
                    );
                    return Err(Error::at(self.what, place, reason));
                }
                rows.entry(self.now).or_default().push((index as u32, kept));
            }
            Keep::Onward(onward) => onward.row[index] = column.stored(kept, &mut onward.sums[index]),
        }
        Ok(())
    }

    #[inline(never)]
    fn index(
        &mut self,
        place: Place,
        object: &[u8],
        (prefix, key): (&[u8], &[u8]),
        shape: &dyn Fn() -> Shape,
    ) -> Result<usize, Error> {
        if let Some(column) = self.columns.get(self.cursor)
            && column.key == prefix.len()
            && column.field[column.key..] == *key
            && column.field[..column.key] == *prefix
            && column.object == object
        {
            return Ok(self.cursor);
        }
        let field = [prefix, key].concat();
        let known = self.by_key.get(object).and_then(|fields| fields.get(&field)).copied();
        let index = match known {
            Some(index) => index,
            None if self.columns.len() >= MAX_COLUMNS => {
                return Err(Error::at(self.what, place, format!("it has more than {MAX_COLUMNS} columns")));
            }
            None => {
                let mut shape = shape();
                // A column has the counter's name, or its own where an interval is missing: neither may be
                // another's.
                while self.names.contains(&shape.column)
                    || shape.counter.as_ref().is_some_and(|counter| self.names.contains(&counter.column))
                {
                    shape.counter = None;
                    shape.column = format!("{}.{}", shape.column, String::from_utf8_lossy(&field));
                }
                self.names.insert(shape.column.clone());
                self.names.extend(shape.counter.as_ref().map(|counter| counter.column.clone()));
                let same = |last: &&Column| {
                    last.object == object && last.key == prefix.len() && last.field[..last.key] == *prefix
                };
                let owner = self.columns.last().filter(same).map_or(self.columns.len(), |last| last.owner);
                self.add(Column {
                    object: object.into(),
                    field,
                    key: prefix.len(),
                    owner,
                    shape,
                    sum: 0.0,
                    count: 0,
                    counts: true,
                })
            }
        };
        Ok(index)
    }

    fn add(&mut self, column: Column) -> usize {
        let index = self.columns.len();
        self.by_key.entry(column.object.clone()).or_default().insert(column.field.clone(), index);
        self.columns.push(column);
        index
    }

    fn drop_first(&mut self) {
        self.dropped_first = true;
        self.first = None;
        self.values = 0;
        for column in &mut self.columns {
            (column.sum, column.count, column.counts) = (0.0, 0, true);
        }
        match &mut self.keep {
            Keep::Means => {}
            Keep::Rows(rows) => rows.clear(),
            Keep::Onward(onward) => {
                onward.row.fill(None);
                onward.sums.fill(0.0);
            }
        }
    }

    /// Ends the sample that was begun last.
    fn end(&mut self) -> Result<(), Error> {
        let is_new = self.now > self.last;
        self.backwards += u64::from(!is_new);
        self.last = self.last.max(self.now);
        if let Keep::Onward(onward) = &mut self.keep {
            if is_new && onward.rows == 0 && self.now > onward.start {
                onward.sink.row(Nanos::ZERO, &zeros(&self.columns, |index| onward.row[index].is_some()))?;
            }
            if is_new {
                onward.rows += 1;
                let since = self.now.saturating_sub(onward.start).max(0);
                onward.sink.row(Nanos::new(since.unsigned_abs()), &onward.row)?;
            }
            onward.row.fill(None);
        }
        Ok(())
    }

    /// How many samples were begun so far.
    pub fn count(&self) -> u64 {
        self.samples
    }

    /// All of it; `None` where no sample came.
    ///
    /// # Errors
    /// Where the last row cannot be stored.
    pub fn finish(mut self) -> Result<Option<Series>, Error> {
        let Some((first, first_interval)) = self.first else { return Ok(None) };
        self.end()?;
        let rows = match self.keep {
            Keep::Rows(rows) => rows,
            Keep::Means | Keep::Onward(_) => BTreeMap::new(),
        };
        let mut samples = self.samples - u64::from(self.dropped_first);
        let mut first = first;
        if let (Some((earliest, _)), false) = (rows.first_key_value(), rows.is_empty()) {
            (samples, first) = (rows.len() as u64, *earliest);
        }
        let second = rows.keys().nth(1).map(|at| Nanos::new(at.abs_diff(first)));
        let interval = first_interval.or(second.filter(|_| !self.clockless)).unwrap_or(Nanos::ZERO);
        let before = first_interval.map_or(0, |interval| i64::try_from(interval.get()).unwrap_or(0));
        let start = first.saturating_sub(before);
        let mut notes = Vec::new();
        if self.dropped_first {
            notes.push("left out its first sample, which counts since the machine's start".to_owned());
        } else if self.since_boot && self.samples == 1 {
            notes.push("it has one sample: where that is the first that the tool printed, it counts since the machine's start".to_owned());
        }
        if self.clockless && self.pace.interval.is_none() {
            notes.push("it has no clock: its samples are drawn one second apart; --interval TIME says how far they are".to_owned());
        }
        if self.backwards > 0 && rows.is_empty() {
            notes.push(format!(
                "{} samples are not later than the one before; the trace leaves them out",
                self.backwards
            ));
        }
        Ok(Some(Series {
            columns: self.columns,
            rows,
            start,
            interval,
            span: Nanos::new(self.last.abs_diff(start)),
            samples,
            notes,
            clockless: self.clockless,
        }))
    }
}

/// The row in which counters begin, of the columns that the first sample has.
fn zeros(columns: &[Column], is_there: impl Fn(usize) -> bool) -> Vec<Option<u64>> {
    columns.iter().enumerate().map(|(index, c)| (c.is_counter() && is_there(index)).then_some(0)).collect()
}

impl Column {
    fn is_counter(&self) -> bool {
        self.shape.counter.is_some() && self.counts
    }

    /// A value as the trace has it; a counter's is added to its sum.
    fn stored(&self, value: f64, sum: &mut f64) -> Option<u64> {
        let number = if self.is_counter() {
            *sum += value;
            *sum
        } else {
            value * self.shape.quantity.stored().1
        };
        (0.0..9e18).contains(&number).then(|| number.round() as u64)
    }

    fn series(&self) -> TraceSeries {
        match &self.shape.counter {
            Some(counter) if self.counts => TraceSeries {
                name: counter.column.clone(),
                unit: counter.unit,
                kind: SeriesKind::Counter { wraps_at: None },
            },
            _ => TraceSeries {
                name: self.shape.column.clone(),
                unit: self.shape.quantity.stored().0,
                kind: SeriesKind::Gauge,
            },
        }
    }
}

impl Series {
    /// Of a trace that has this head already: its rows are handed on as they are, and it has no columns here.
    pub(super) fn of_trace(head: &TraceHead, samples: u64, span: Nanos) -> Self {
        Self {
            columns: Vec::new(),
            rows: BTreeMap::new(),
            start: head.start.unix_nanos(),
            interval: head.interval,
            span,
            samples,
            notes: Vec::new(),
            clockless: false,
        }
    }

    /// The trace's head.
    pub fn head(&self) -> TraceHead {
        let has_frequency = self.columns.iter().any(|c| c.shape.column.starts_with("freq."));
        TraceHead {
            series: self.columns.iter().map(Column::series).collect(),
            interval: self.interval,
            start: Timestamp::from_unix_nanos(if self.clockless { 0 } else { self.start }),
            frequency: if has_frequency { FrequencySource::Tool } else { FrequencySource::None },
        }
    }

    /// When its first sample's interval began, where it has a clock with a date.
    pub fn started(&self) -> Option<Timestamp> {
        // Before 2000 it is a time of day.
        const DATED: i64 = 946_684_800_000_000_000;
        (!self.clockless && self.start > DATED).then(|| Timestamp::from_unix_nanos(self.start))
    }

    /// The means, by name, at most [`MAX_METRICS`]; and how many were left out.
    pub fn metrics(&self) -> (BTreeMap<String, Metric>, usize) {
        let wanted = self.columns.iter().filter(|c| c.shape.is_metric && c.count > 0);
        let all = wanted.map(|c| (c.shape.name.clone(), c.shape.quantity.metric(c.sum / c.count as f64)));
        let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
        let mut left_out = 0;
        for (name, metric) in all.filter(|(_, metric)| metric.value.is_finite()) {
            if metrics.len() < MAX_METRICS { drop(metrics.insert(name, metric)) } else { left_out += 1 }
        }
        (metrics, left_out)
    }

    /// Hands on the rows that were joined in memory.
    ///
    /// # Errors
    /// Where one cannot be stored.
    pub fn pour(&self, sink: &mut dyn Sink) -> Result<(), Error> {
        sink.begin(&self.head())?;
        let mut sums = vec![0.0; self.columns.len()];
        if let Some((at, values)) = self.rows.first_key_value()
            && *at > self.start
        {
            let is_there = |index: usize| values.iter().any(|(there, _)| *there as usize == index);
            sink.row(Nanos::ZERO, &zeros(&self.columns, is_there))?;
        }
        let mut row: Vec<Option<u64>> = Vec::new();
        for (at, values) in &self.rows {
            row.clear();
            row.resize(self.columns.len(), None);
            for (index, value) in values {
                let index = *index as usize;
                if let Some(column) = self.columns.get(index) {
                    row[index] = column.stored(*value, &mut sums[index]);
                }
            }
            sink.row(Nanos::new(at.abs_diff(self.start)), &row)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        let (name, column) = ("mean".to_owned(), "column".to_owned());
        Shape { name, column, quantity: Quantity::Number, scale: 1.0, counter: None, is_metric: true }
    }

    #[test]
    fn values_find_their_columns_in_whatever_order_they_come() {
        // Objects, what stands before their keys, and their values; the last two are the same column.
        type Object<'a> = (&'a str, &'a str, &'a [(&'a str, f64)]);
        let first: [Object<'_>; 4] = [
            ("sda", "", &[("reads", 1.0), ("writes", 2.0)]),
            ("sdb", "", &[("reads", 3.0), ("writes", 4.0)]),
            ("1", "fan/", &[("rpm", 5.0), ("low", 6.0)]),
            ("1", "", &[("fan/rpm", 7.0)]),
        ];
        let second: [Object<'_>; 5] = [
            ("sdb", "", &[("writes", 10.0), ("reads", 20.0)]),
            ("sda", "", &[("writes", 30.0), ("reads", 40.0)]),
            ("1", "", &[("fan/rpm", 50.0), ("low", 60.0)]),
            ("1", "temp/", &[("low", 70.0)]),
            ("1", "fan/", &[("low", 80.0), ("rpm", 90.0)]),
        ];
        let mut samples = Samples::means("text", Pace::default());
        for objects in [&first[..], &second[..]] {
            samples.begin(Place::default(), None, None).unwrap();
            for (object, prefix, values) in objects {
                let mut owner = Owner::default();
                for (key, value) in *values {
                    let field = (prefix.as_bytes(), key.as_bytes());
                    samples
                        .put_of(&mut owner, Place::default(), object.as_bytes(), field, *value, &shape)
                        .unwrap();
                }
            }
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let series = samples.finish().unwrap().unwrap();
        let sums: Vec<_> =
            series.columns.iter().map(|c| (text(&c.object) + " " + &text(&c.field), c.sum)).collect();
        let wanted = [
            ("sda reads", 41.0),
            ("sda writes", 32.0),
            ("sdb reads", 23.0),
            ("sdb writes", 14.0),
            ("1 fan/rpm", 5.0 + 7.0 + 50.0 + 90.0),
            ("1 fan/low", 86.0),
            ("1 low", 60.0),
            ("1 temp/low", 70.0),
        ];
        assert_eq!(sums, wanted.map(|(name, sum)| (name.to_owned(), sum)));
    }
}
