//! What perf or trace-cmd has recorded becomes events of this program's form, and the samples that follow
//! from them: CPU time by role, and what devices completed. All of it is read in the confined process.

use super::wire;
use analysis::recorded::CPU_TIME;
use domain::bench::{Sink, SinkError};
use domain::outcome::CPU_BUSY;
use domain::profile::Profile;
use domain::time::{Nanos, Timestamp};
use domain::trace::{FrequencySource, Role, Series, SeriesKind, SeriesUnit, TraceHead};
use events::facts::{Did, Facts, Interval, intervals};
use events::foreign::{Converted, converter, converter_naming};
use events::{Op, Tables};
use parse::import::Kind;
use std::collections::BTreeMap;
use std::io::{BufRead, Cursor, Read};

/// A larger file is not read: it is in memory once as it is, and once converted.
const MAX_BYTES: u64 = 512 << 20;

const NAMED: &str = "it has the names of the kernel's functions itself; import it without --kallsyms";

/// Samples are so far apart at least, and there are so many at most.
const LEAST_STEP: u64 = 10_000_000;
const MOST_STEPS: u64 = 4000;

/// The share of the CPUs' time of which it may be unknown who ran, for the rest to stand for all.
const MOST_UNKNOWN: f64 = 0.05;

/// Devices that have columns.
const MAX_DEVICES: usize = 64;

/// A file, converted.
pub(super) struct Recorded {
    /// In the form of the crate `events`.
    pub events: Vec<u8>,
    columns: Vec<Column>,
    step: u64,
    steps: usize,
    /// The last step ends here.
    span: u64,
}

/// A column of counters, as what came to it in each step.
struct Column {
    name: String,
    unit: SeriesUnit,
    grown: Vec<u64>,
}

/// What is said of it.
pub(super) struct Said {
    pub part: wire::Part,
    pub facts: Vec<(String, String)>,
    pub notes: Vec<String>,
}

/// Reads a recording of this kind. `kallsyms` are the functions of the kernel that recorded it, or none.
pub(super) fn read(kind: Kind, input: &mut dyn BufRead, kallsyms: &[u8]) -> Result<(Recorded, Said), String> {
    let convert = converter(kind).ok_or("it holds no events")?;
    let mut bytes = Vec::new();
    input.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        let most = MAX_BYTES >> 20;
        return Err(format!("it is larger than {most} MiB; record for a shorter time, or fewer events"));
    }
    let mut events = Vec::new();
    let converted = match converter_naming(kind) {
        Some(convert) => convert(&bytes, kallsyms, &mut events),
        None if kallsyms.is_empty() => convert(&bytes, &mut events),
        None => return Err(NAMED.to_owned()),
    };
    let converted = converted.map_err(|error| error.to_string())?;
    drop(bytes);
    let damaged = |error: events::Error| error.to_string();
    let facts = Facts::read(|| Ok(Cursor::new(&events))).map_err(damaged)?;
    let tables = Tables::read(Cursor::new(&events)).map_err(damaged)?;
    let mut steps = Steps::new(&tables, converted.span.get());
    intervals(Cursor::new(&events), &tables, |interval| steps.take(&tables, interval)).map_err(damaged)?;
    let said = said(kind, converted, &facts, steps.count as u64);
    let span = steps.span;
    let columns = steps.columns.into_values().collect();
    Ok((Recorded { events, columns, step: steps.step, steps: steps.count, span }, said))
}

fn said(kind: Kind, converted: Converted, facts: &Facts, samples: u64) -> Said {
    let span = converted.span;
    let (mut busy, mut known, mut unknown) = (0, 0, 0);
    for cpu in facts.cpus.values() {
        busy += cpu.busy_ns;
        known += cpu.busy_ns + cpu.idle_ns;
        unknown += cpu.unknown_ns;
    }
    // Of one command alone only its own switches are recorded.
    let is_told = known > 0 && unknown as f64 <= MOST_UNKNOWN * (known + unknown) as f64;
    let metric = |value: f64, unit| wire::Metric { value, unit, higher_is_better: false };
    let mut metrics = vec![("elapsed".to_owned(), metric(span.secs(), wire::Unit::Seconds))];
    if is_told {
        metrics.push((CPU_BUSY.to_owned(), metric(busy as f64 / known as f64, wire::Unit::Share)));
    }
    let of_workload = |profile: &Profile| profile.count(|role, _| role == Role::Workload);
    if let Some(profile) = facts.profile.as_ref().filter(|profile| of_workload(profile) > 0) {
        let spent = profile.time(of_workload(profile)).secs();
        metrics.push((CPU_TIME.to_owned(), metric(spent, wire::Unit::Seconds)));
    }
    let tool = tool(kind);
    let mut notes = converted.notes;
    if facts.all_lost() > 0 {
        notes.push(format!("{tool} lost {} events", facts.all_lost()));
    }
    if converted.others > 0 {
        notes.push(format!("{} other samples are left out", converted.others));
    }
    if facts.unread > 0 {
        notes.push(format!("{} records cannot be read", facts.unread));
    }
    let version = converted.version.filter(|version| !version.is_empty());
    let tool = version.map_or_else(|| tool.to_owned(), |version| format!("{tool}-{version}"));
    let part = wire::Part {
        name: "recorded".to_owned(),
        tool,
        metrics,
        warnings: Vec::new(),
        command: (!converted.command.is_empty()).then_some(converted.command),
        started_ns: None,
        facts: Vec::new(),
        series: Some(wire::Series { samples, span_ns: span.get() }),
        profile: facts.profile.as_ref().map(on_the_wire),
    };
    let named = [("kernel", converted.kernel), ("host", converted.host)];
    let facts = named.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?))).collect();
    Said { part, facts, notes }
}

fn on_the_wire(profile: &Profile) -> wire::Profile {
    let samples = profile.samples.iter();
    let inclusive = profile.inclusive.iter();
    wire::Profile {
        period_ns: profile.period.get(),
        lost: profile.lost,
        samples: samples
            .map(|((role, of), count)| (role.to_string(), of.name().to_owned(), *count))
            .collect(),
        inclusive: inclusive.map(|(of, count)| (of.name().to_owned(), *count)).collect(),
        functions: profile.functions.iter().map(|(name, count)| (name.clone(), *count)).collect(),
    }
}

/// The tool that records files of this kind.
fn tool(kind: Kind) -> &'static str {
    if kind == Kind::TraceDat { "trace-cmd" } else { "perf" }
}

/// Sums by step while intervals come.
struct Steps {
    origin: u64,
    span: u64,
    step: u64,
    count: usize,
    columns: BTreeMap<String, Column>,
    devices: usize,
}

impl Steps {
    fn new(tables: &Tables, span: u64) -> Self {
        let step = span.div_ceil(MOST_STEPS).max(LEAST_STEP);
        let count = span.div_ceil(step).max(1) as usize;
        let origin = tables.head.origin.get();
        Self { origin, span, step, count, columns: BTreeMap::new(), devices: 0 }
    }

    fn take(&mut self, tables: &Tables, interval: &Interval) {
        match interval.what {
            Did::Ran { thread, function, .. } => {
                let executed = function.and_then(|address| tables.function(address));
                let name = format!("role.{}.ns", thread.role(executed));
                let (begin, end) = (self.since(interval.begin), self.since(interval.end));
                self.spread(name, begin, end);
            }
            Did::Request { ended, op: Op::Read | Op::Write, .. } => {
                let device = tables.device_name(ended.span.device);
                let way =
                    if matches!(interval.what, Did::Request { op: Op::Read, .. }) { "read" } else { "write" };
                // The last event is the end of the last step.
                let at = ((self.since(interval.end) / self.step) as usize).min(self.count - 1);
                self.add(format!("disk.{device}.{way}_ios"), SeriesUnit::Count, at, 1);
                let sectors = ended.span.sectors.into();
                self.add(format!("disk.{device}.{way}_sectors"), SeriesUnit::Sectors, at, sectors);
            }
            _ => {}
        }
    }

    fn since(&self, time: Nanos) -> u64 {
        time.get().saturating_sub(self.origin)
    }

    /// Counts each step's part of a time.
    fn spread(&mut self, name: String, mut begin: u64, end: u64) {
        while begin < end {
            let at = begin / self.step;
            let until = end.min((at + 1) * self.step);
            self.add(name.clone(), SeriesUnit::Nanos, at as usize, until - begin);
            begin = until;
        }
    }

    fn add(&mut self, name: String, unit: SeriesUnit, at: usize, more: u64) {
        if !self.columns.contains_key(&name) {
            let is_device = name.starts_with("disk.");
            if is_device && self.devices >= 4 * MAX_DEVICES {
                return;
            }
            self.devices += usize::from(is_device);
            let column = Column { name: name.clone(), unit, grown: vec![0; self.count] };
            self.columns.insert(name.clone(), column);
        }
        let place = self.columns.get_mut(&name).and_then(|column| column.grown.get_mut(at));
        if let Some(sum) = place {
            *sum = sum.saturating_add(more);
        }
    }
}

impl Recorded {
    /// Hands on the samples: counters at the end of each step, and zero at the begin.
    pub fn stream(&self, sink: &mut dyn Sink) -> Result<(), SinkError> {
        let series = self.columns.iter().map(|column| Series {
            name: column.name.clone(),
            unit: column.unit,
            kind: SeriesKind::Counter { wraps_at: None },
        });
        sink.begin(&TraceHead {
            series: series.collect(),
            interval: Nanos::new(self.step),
            start: Timestamp::from_unix_nanos(0),
            frequency: FrequencySource::None,
        })?;
        let mut sums = vec![Some(0_u64); self.columns.len()];
        sink.row(Nanos::ZERO, &sums)?;
        for step in 0..self.steps {
            for (sum, column) in sums.iter_mut().zip(&self.columns) {
                *sum = sum.map(|sum| sum.saturating_add(column.grown[step]));
            }
            let end = (self.step * (step as u64 + 1)).min(self.span.max(1));
            sink.row(Nanos::new(end), &sums)?;
        }
        Ok(())
    }
}
