//! What perf or trace-cmd has recorded becomes events of this program's form, and the samples that follow
//! from them: CPU time by role and CPU, what devices completed and how long that took, the time at each
//! frequency. They are the recorder's own columns, so that what takes a recording takes an import. All of it
//! is read in the confined process.
//!
//! What no event tells is no column: whether a CPU ran a program or the kernel, and what an idle one waited
//! for.

use super::wire;
use analysis::recorded::CPU_TIME;
use analysis::words::counted;
use domain::bench::{Sink, SinkError};
use domain::order;
use domain::outcome::CPU_BUSY;
use domain::profile::Profile;
use domain::time::{Nanos, Timestamp};
use domain::trace::{FrequencySource, Role, Series, SeriesKind, SeriesUnit, TraceHead};
use domain::trial::MAX_THREADS;
use events::facts::{Did, Facts, Interval, Thread, intervals};
use events::foreign::{Converted, converter, converter_naming};
use events::{Comm, Ended, Op, Tables};
use parse::import::Kind;
use std::collections::{BTreeMap, BTreeSet};
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

/// CPUs that have columns, and frequencies of all CPUs together: a file may name 65,536 of either.
const MAX_CPUS: u16 = 1024;
const MAX_FREQUENCIES: usize = 1024;

/// Threads whose CPU time is summed. Of more, later ones are left out: of a file they are damage.
const MAX_SUMMED: usize = 1 << 18;

/// Stretches of a device's time that are told apart, until the older are forgotten: a request that takes
/// longer than so many others apart from each other is none.
const MAX_STRETCHES: usize = 4096;

/// The share of the time for which a CPU's frequency has to be known: `cpu_frequency` tells changes alone, so
/// that nothing is known before the first.
const LEAST_KNOWN: f64 = 0.9;

/// A file, converted.
pub(super) struct Recorded {
    /// In the form of the crate `events`.
    pub events: Vec<u8>,
    columns: Vec<Column>,
    frequency: FrequencySource,
    step: u64,
    steps: usize,
    /// The last step ends here.
    span: u64,
}

/// A column of counters, as what came to it in each step: a time in ns, whatever its unit.
struct Column {
    name: String,
    unit: SeriesUnit,
    grown: Vec<u64>,
}

impl Column {
    fn all(&self) -> u64 {
        self.grown.iter().fold(0, |sum, grown| sum.saturating_add(*grown))
    }

    /// What has come, in the column's unit.
    fn counted(&self, grown: u64) -> u64 {
        match self.unit {
            SeriesUnit::Millis => grown / 1_000_000,
            SeriesUnit::Ticks => grown / 10_000_000,
            _ => grown,
        }
    }
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
    let mut said = said(kind, converted, &facts, steps.count as u64);
    said.part.threads = steps.threads();
    said.notes.extend(steps.leave_out_frequencies());
    let Steps { span, step, count: steps, columns, .. } = steps;
    let has_frequencies = columns.keys().any(|name| name.starts_with("freq."));
    let frequency = if has_frequencies { FrequencySource::TimeInState } else { FrequencySource::None };
    Ok((Recorded { events, columns: columns.into_values().collect(), frequency, step, steps, span }, said))
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
        threads: Vec::new(),
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
        interrupts: profile.interrupts.as_ref().map(|interrupts| {
            let held_off = interrupts.held_off.iter();
            let handlers = interrupts.handlers.iter();
            wire::Interrupts {
                held_off: held_off.map(|(of, count)| (of.name().to_owned(), *count)).collect(),
                unsampled: interrupts.unsampled,
                handlers_ns: handlers.map(|(name, time)| (name.clone(), time.get())).collect(),
            }
        }),
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
    devices: BTreeMap<u32, Device>,
    frequencies: usize,
    /// By role and number: the name, and the CPU time.
    threads: BTreeMap<(Role, u32), (Comm, u64)>,
}

/// A device, and when anything was on its way there.
#[derive(Default)]
struct Device {
    name: String,
    /// Apart from each other, the latest last.
    stretches: Vec<(u64, u64)>,
}

impl Device {
    /// Takes up a request of this time, which ends behind all others; gives the parts of it in which nothing
    /// else was on its way.
    fn alone(&mut self, begin: u64, end: u64) -> Vec<(u64, u64)> {
        let (mut parts, mut from, mut until) = (Vec::new(), begin, end);
        while let Some((b, e)) = self.stretches.pop_if(|(_, e)| *e > begin) {
            parts.push((e.min(until), until));
            until = b.max(begin);
            from = from.min(b);
        }
        parts.push((begin, until));
        self.stretches.push((from, end));
        if self.stretches.len() > MAX_STRETCHES {
            self.stretches.drain(..MAX_STRETCHES / 2);
        }
        parts
    }
}

/// md's number (Documentation/admin-guide/devices.txt of the kernel).
const MD: u32 = 9;

impl Steps {
    fn new(tables: &Tables, span: u64) -> Self {
        let step = span.div_ceil(MOST_STEPS).max(LEAST_STEP);
        let count = span.div_ceil(step).max(1) as usize;
        let origin = tables.head.origin.get();
        Self {
            origin,
            span,
            step,
            count,
            columns: BTreeMap::new(),
            devices: BTreeMap::new(),
            frequencies: 0,
            threads: BTreeMap::new(),
        }
    }

    fn take(&mut self, tables: &Tables, interval: &Interval) {
        let (begin, end) = (self.since(interval.begin), self.since(interval.end));
        match interval.what {
            Did::Ran { cpu, thread, function } => {
                let executed = function.and_then(|address| tables.function(address));
                let role = thread.role(executed);
                self.spread(&format!("role.{role}.ns"), SeriesUnit::Nanos, begin, end);
                if cpu < MAX_CPUS {
                    self.spread(&format!("cpu{cpu}.ran_ns"), SeriesUnit::Nanos, begin, end);
                }
                self.thread(role, &thread, end.saturating_sub(begin));
            }
            Did::RanAt { cpu, khz } => {
                let name = format!("freq.cpu{cpu}.time.{khz}");
                let is_new = !self.columns.contains_key(&name);
                if !is_new || self.frequencies < MAX_FREQUENCIES {
                    self.frequencies += usize::from(is_new);
                    self.spread(&name, SeriesUnit::Ticks, begin, end);
                }
            }
            Did::Request { ended, op: Op::Read, .. } => self.request(tables, &ended, "read", (begin, end)),
            Did::Request { ended, op: Op::Write, .. } => self.request(tables, &ended, "write", (begin, end)),
            _ => {}
        }
    }

    /// As `/proc/diskstats` counts it (kernel `Documentation/admin-guide/iostats.rst`). What a layer of bios
    /// alone takes is what devices and threads below take, and no latency of a device; md's has no threads.
    fn request(&mut self, tables: &Tables, ended: &Ended, way: &str, (begin, end): (u64, u64)) {
        let number = ended.span.device;
        if !self.devices.contains_key(&number) {
            if self.devices.len() >= MAX_DEVICES {
                return;
            }
            let name = tables.device_name(number);
            self.devices.insert(number, Device { name, stretches: Vec::new() });
        }
        let Some(device) = self.devices.get_mut(&number) else { return };
        let (name, alone) = (device.name.clone(), device.alone(begin, end));
        let column = |what: &str| format!("disk.{name}.{what}");
        self.add(&column(&format!("{way}_ios")), SeriesUnit::Count, end, 1);
        self.add(&column(&format!("{way}_sectors")), SeriesUnit::Sectors, end, ended.span.sectors.into());
        for (begin, end) in alone {
            self.spread(&column("io_ms"), SeriesUnit::Millis, begin, end);
        }
        let has_requests = ended.issued.is_some();
        if has_requests || number >> 20 == MD {
            self.spread(&column("weighted_ms"), SeriesUnit::Millis, begin, end);
        }
        if has_requests {
            self.add(&column(&format!("{way}_ms")), SeriesUnit::Millis, end, end.saturating_sub(begin));
        }
    }

    fn thread(&mut self, role: Role, thread: &Thread, ns: u64) {
        let has_room = self.threads.len() < MAX_SUMMED || self.threads.contains_key(&(role, thread.tid));
        if has_room {
            let (name, sum) = self.threads.entry((role, thread.tid)).or_default();
            *name = thread.name;
            *sum = sum.saturating_add(ns);
        }
    }

    fn since(&self, time: Nanos) -> u64 {
        time.get().saturating_sub(self.origin)
    }

    /// Counts each step's part of a time.
    fn spread(&mut self, name: &str, unit: SeriesUnit, begin: u64, end: u64) {
        let (step, mut begin) = (self.step, begin);
        while begin < end {
            let until = end.min((begin / step).saturating_add(1).saturating_mul(step));
            self.add(name, unit, begin, until - begin);
            begin = until;
        }
    }

    /// Counts something at a time.
    fn add(&mut self, name: &str, unit: SeriesUnit, time: u64, more: u64) {
        // The last event is the end of the last step.
        let at = ((time / self.step) as usize).min(self.count - 1);
        if !self.columns.contains_key(name) {
            let column = Column { name: name.to_owned(), unit, grown: vec![0; self.count] };
            self.columns.insert(name.to_owned(), column);
        }
        if let Some(sum) = self.columns.get_mut(name).and_then(|column| column.grown.get_mut(at)) {
            *sum = sum.saturating_add(more);
        }
    }

    /// Those that used most, and of each role the first: a command that sleeps is one.
    fn threads(&mut self) -> Vec<wire::Thread> {
        let mut all: Vec<_> = std::mem::take(&mut self.threads).into_iter().collect();
        order::by_key(&mut all, |(of, (_, ns))| (std::cmp::Reverse(*ns), *of));
        let mut roles = BTreeSet::new();
        let (firsts, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|((role, _), _)| roles.insert(*role));
        let mut all: Vec<_> = firsts.into_iter().chain(others).take(MAX_THREADS).collect();
        order::by_key(&mut all, |(of, (_, ns))| (std::cmp::Reverse(*ns), *of));
        let thread = |((role, tid), (name, cpu_ns)): ((Role, u32), (Comm, u64))| wire::Thread {
            name: name.text().into_owned(),
            tid,
            role: role.to_string(),
            cpu_ns,
        };
        all.into_iter().map(thread).collect()
    }

    /// Leaves out the frequencies of CPUs of which they are known for a part of the time alone, which would
    /// stand for all of it; gives what is to be said of that.
    fn leave_out_frequencies(&mut self) -> Option<String> {
        let of = |name: &str| Some(name.strip_prefix("freq.")?.split_once(".time.")?.0.to_owned());
        let mut known: BTreeMap<String, u64> = BTreeMap::new();
        for (cpu, column) in self.columns.iter().filter_map(|(name, column)| Some((of(name)?, column))) {
            let sum = known.entry(cpu).or_default();
            *sum = sum.saturating_add(column.all());
        }
        known.retain(|_, known| (*known as f64) < LEAST_KNOWN * self.span as f64);
        self.columns.retain(|name, _| of(name).is_none_or(|cpu| !known.contains_key(&cpu)));
        (!known.is_empty()).then(|| {
            format!(
                "the frequency of {} is known for less than {:.0}% of the time, and left out: cpu_frequency tells changes alone",
                counted(known.len(), "CPU"),
                LEAST_KNOWN * 100.0
            )
        })
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
            frequency: self.frequency,
        })?;
        let mut sums = vec![0_u64; self.columns.len()];
        let mut row = vec![Some(0); self.columns.len()];
        sink.row(Nanos::ZERO, &row)?;
        for step in 0..self.steps {
            for ((sum, value), column) in sums.iter_mut().zip(&mut row).zip(&self.columns) {
                *sum = sum.saturating_add(column.grown[step]);
                *value = Some(column.counted(*sum));
            }
            let end = (self.step * (step as u64 + 1)).min(self.span.max(1));
            sink.row(Nanos::new(end), &row)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use domain::rng::Seed;
    use events::Owner;

    /// What a recording of one switch declares, and no steps yet of a second from 0 on.
    fn begun() -> (Tables, Steps) {
        let line = "a 7 [000] 5.000001: sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> \
                    next_comm=b next_pid=8 next_prio=120\n";
        let mut events = Vec::new();
        converter(Kind::PerfScript).unwrap()(line.as_bytes(), &mut events).unwrap();
        let tables = Tables::read(Cursor::new(&events)).unwrap();
        let steps = Steps { origin: 0, ..Steps::new(&tables, 1_000_000_000) };
        (tables, steps)
    }

    #[test]
    fn a_devices_time_is_that_in_which_anything_was_on_its_way() {
        for seed in 0..50 {
            let mut rng = Seed(seed).stream("requests");
            let (mut device, mut busy, mut found) = (Device::default(), [false; 400], 0);
            for end in 1..400 {
                if rng.below(3) > 0 {
                    continue;
                }
                let begin = end - rng.below(40).min(end);
                busy[begin..end].fill(true);
                let parts = device.alone(begin as u64, end as u64);
                found += parts.iter().map(|(begin, end)| end - begin).sum::<u64>();
            }
            assert_eq!(found, busy.iter().filter(|busy| **busy).count() as u64, "seed {seed}");
        }
    }

    #[test]
    fn stretches_of_a_devices_time_are_bounded() {
        let mut device = Device::default();
        let all: u64 =
            (0..20_000_u64).flat_map(|at| device.alone(10 * at, 10 * at + 4)).map(|(b, e)| e - b).sum();
        assert_eq!(all, 80_000);
        assert!(device.stretches.len() <= MAX_STRETCHES);
    }

    #[test]
    fn counters_of_times_are_in_the_recorders_units() {
        let of = |unit| Column { name: String::new(), unit, grown: vec![] }.counted(25_000_000);
        assert_eq!([SeriesUnit::Millis, SeriesUnit::Ticks, SeriesUnit::Nanos].map(of), [25, 2, 25_000_000]);
    }

    #[test]
    fn a_frequency_that_is_known_for_a_part_of_the_time_is_left_out_and_said() {
        let (tables, mut steps) = begun();
        let mut at = |cpu, khz, begin: u64, end: u64| {
            let what = Did::RanAt { cpu, khz };
            let of = |ms: u64| Nanos::from_millis(ms);
            steps.take(&tables, &Interval { begin: of(begin), end: of(end), what });
        };
        at(0, 800_000, 20, 500);
        at(0, 2_800_000, 500, 1000);
        at(1, 800_000, 700, 1000);
        let said = steps.leave_out_frequencies().expect("CPU 1 is not known");
        assert!(said.starts_with("the frequency of 1 CPU is known for less than 90%"), "{said}");
        let names: Vec<&str> = steps.columns.keys().map(String::as_str).collect();
        assert_eq!(names, ["freq.cpu0.time.2800000", "freq.cpu0.time.800000"]);
    }

    #[test]
    fn a_file_of_ever_more_cpus_frequencies_and_threads_has_bounded_columns() {
        let (tables, mut steps) = begun();
        for number in 0..5000_u16 {
            let thread = Thread { tid: number.into(), name: Comm::default(), owner: None };
            for what in [
                Did::RanAt { cpu: number, khz: number.into() },
                Did::Ran { cpu: number, thread, function: None },
            ] {
                steps.take(&tables, &Interval { begin: Nanos::ZERO, end: Nanos::from_millis(1), what });
            }
        }
        assert!(
            steps.columns.len() <= MAX_FREQUENCIES + usize::from(MAX_CPUS) + 1,
            "{}",
            steps.columns.len()
        );
        assert_eq!(steps.threads().len(), MAX_THREADS);
    }

    #[test]
    fn a_thread_that_hardly_ran_is_named_where_it_is_the_first_of_its_role() {
        let (tables, mut steps) = begun();
        for tid in 0..100 {
            let owner = Some(if tid == 50 { Owner::Workload } else { Owner::Other });
            let thread = Thread { tid, name: Comm::default(), owner };
            let what = Did::Ran { cpu: 0, thread, function: None };
            let end = Nanos::new(if tid == 50 { 1 } else { 1_000 });
            steps.take(&tables, &Interval { begin: Nanos::ZERO, end, what });
        }
        let threads = steps.threads();
        let last = threads.last().unwrap();
        assert_eq!((threads.len(), last.tid, last.role.as_str()), (MAX_THREADS, 50, "workload"));
    }
}
