//! What is kept of a simulated trial: the same columns as the recorder's, and the same totals.
//!
//! CPU time is counted exactly, not by ticks, and all of it as `system` but that of interrupts: what these
//! models let programs do is nearly all the kernel's work.

use crate::block::DeviceStats;
use crate::cpu::{Cost, ThreadId};
use crate::engine::{Core, Observer, Part, PartId, World};
use domain::Nanos;
use domain::bench::{Sink, SinkError};
use domain::order;
use domain::time::Timestamp;
use domain::trace::{FrequencySource, Role, Series, SeriesKind, SeriesUnit, TraceHead};
use domain::trial::{DiskTotals, MAX_THREADS, RecorderReport, ThreadTime};
use std::collections::BTreeMap;

/// `USER_HZ`: ticks of 10 ms.
const TICK_NS: u64 = 10_000_000;
/// Sectors of 512 bytes.
const SECTOR: u64 = 512;

/// The thread of Flyball's that takes a sample at each interval, where that costs the machine something. One
/// that is not done when the next is due misses that one, as the recorder does.
pub struct SamplingThread {
    me: PartId,
    thread: ThreadId,
    interval: u64,
    cost: Cost,
    due: u64,
}

impl SamplingThread {
    /// A thread that takes its first sample an interval from now, as the part `me`.
    pub fn new(core: &mut Core, me: PartId, interval: Nanos, cost: Cost) -> Self {
        let thread = core.cpus.thread("flyball-sample", Role::Flyball, 0);
        let mut sampling = Self { me, thread, interval: interval.get().max(1), cost, due: core.now };
        sampling.sleep(core);
        sampling
    }

    fn sleep(&mut self, core: &mut Core) {
        self.due += ((core.now - self.due) / self.interval + 1) * self.interval;
        core.at(self.due, self.me, 0);
    }
}

impl Part for SamplingThread {
    fn timer(&mut self, core: &mut Core, _: u64) {
        core.run(self.thread, self.cost, self.me, 0);
    }

    fn worked(&mut self, core: &mut Core, _: u64) {
        self.sleep(core);
    }
}

/// Takes rows of a machine, and hands them to a sink.
pub struct Recorder<'a> {
    sink: &'a mut dyn Sink,
    interval: Nanos,
    origin: u64,
    begun: bool,
    samples: u64,
    last: u64,
    row: Vec<Option<u64>>,
    failed: Option<SinkError>,
}

impl<'a> Recorder<'a> {
    /// Rows at this interval. Their times count from `origin`, the machine's time at the first of them.
    pub fn new(sink: &'a mut dyn Sink, interval: Nanos, origin: u64) -> Self {
        Self { sink, interval, origin, begun: false, samples: 0, last: 0, row: Vec::new(), failed: None }
    }

    /// Takes the last row, where the machine has gone on since the one before, and says what it did, and with
    /// how much CPU time.
    ///
    /// # Errors
    /// Where the sink could not store a row.
    pub fn finish(mut self, world: &mut World, cpu: Nanos) -> Result<RecorderReport, SinkError> {
        if self.begun && self.failed.is_none() && world.core.now - self.origin > self.last {
            world.observed_by(&mut self);
        }
        match self.failed {
            Some(error) => Err(error),
            None => Ok(RecorderReport {
                samples: self.samples,
                missed: 0,
                cpu,
                span: Nanos::new(self.last),
                frequency: FrequencySource::TimeInState,
                energy: None,
                cpu_changes: Vec::new(),
                absent: Vec::new(),
            }),
        }
    }

    fn store(&mut self, core: &mut Core, parts: &[Box<dyn Part>]) -> Result<(), SinkError> {
        let mut series = Vec::new();
        self.row.clear();
        let row = &mut self.row;
        let begun = self.begun;
        let mut put = |name: &str, unit: SeriesUnit, kind: SeriesKind, value: u64| {
            if !begun {
                series.push(Series { name: name.to_owned(), unit, kind });
            }
            row.push(Some(value));
        };
        columns(core, parts, &mut put);
        if !begun {
            let head = TraceHead {
                series,
                interval: self.interval,
                start: Timestamp::from_unix_nanos(0),
                frequency: FrequencySource::TimeInState,
            };
            self.sink.begin(&head)?;
            self.begun = true;
        }
        self.samples += 1;
        self.last = core.now - self.origin;
        self.sink.row(Nanos::new(self.last), &self.row)
    }
}

impl Observer for Recorder<'_> {
    fn sample(&mut self, core: &mut Core, parts: &[Box<dyn Part>]) {
        if self.failed.is_none()
            && let Err(error) = self.store(core, parts)
        {
            self.failed = Some(error);
            core.stop();
        }
    }
}

const COUNTER: SeriesKind = SeriesKind::Counter { wraps_at: None };

fn columns(core: &mut Core, parts: &[Box<dyn Part>], put: &mut dyn FnMut(&str, SeriesUnit, SeriesKind, u64)) {
    let now = core.now;
    let count = core.cpus.count();
    let mut sums = [0; 4];
    for cpu in 0..count {
        let times = core.cpus.times(now, cpu);
        let irq = core.cpus.interrupt_time(cpu);
        let values = [times.busy_ns - irq, times.idle_ns - times.iowait_ns, times.iowait_ns, irq];
        for ((sum, value), name) in sums.iter_mut().zip(values).zip(CPU_COLUMNS) {
            *sum += value;
            put(&format!("cpu{cpu}.{name}"), SeriesUnit::Ticks, COUNTER, value / TICK_NS);
        }
        for (state, (_, time, entries)) in core.cpus.idle_states(now, cpu).enumerate() {
            put(&format!("idle.cpu{cpu}.state{state}.us"), SeriesUnit::Micros, COUNTER, time / 1000);
            put(&format!("idle.cpu{cpu}.state{state}.entries"), SeriesUnit::Count, COUNTER, entries);
        }
        put(&format!("freq.cpu{cpu}.khz"), SeriesUnit::Kilohertz, SeriesKind::Gauge, core.cpus.khz(cpu));
    }
    for (sum, name) in sums.into_iter().zip(CPU_COLUMNS) {
        put(&format!("cpu.{name}"), SeriesUnit::Ticks, COUNTER, sum / TICK_NS);
    }
    for policy in 0..core.cpus.policies() {
        for (khz, time) in core.cpus.residency(now, policy) {
            put(&format!("freq.policy{policy}.time.{khz}"), SeriesUnit::Ticks, COUNTER, time / TICK_NS);
        }
    }
    for device in &mut core.devices {
        device.catch_up(now);
        device_columns(device, put);
    }
    let roles = roles(core, &Before::default());
    let has_beside = core.cpus.thread_times().any(|(_, role, _)| role == Role::Beside);
    for role in Role::columns(has_beside) {
        let time = roles.get(&role).copied().unwrap_or(Nanos::ZERO);
        put(&format!("role.{role}.ns"), SeriesUnit::Nanos, COUNTER, time.get());
    }
    let microjoules = (core.cpus.joules(now) * 1e6) as u64;
    put("rapl.package-0.uj", SeriesUnit::Microjoules, COUNTER, microjoules);
    for part in parts {
        let device = part.device().map(|device| core.devices[device].name.as_str());
        part.counters(&mut |name, value| match device {
            Some(device) => put(&format!("{device}.{name}"), SeriesUnit::Count, SeriesKind::Gauge, value),
            None => put(name, SeriesUnit::Count, SeriesKind::Gauge, value),
        });
    }
}

const CPU_COLUMNS: [&str; 4] = ["system", "idle", "iowait", "irq"];

fn device_columns(device: &DeviceStats, put: &mut dyn FnMut(&str, SeriesUnit, SeriesKind, u64)) {
    let millis = |ns: u64| ns / 1_000_000;
    let name = &device.name;
    let (read, write) = (&device.reads, &device.writes);
    let values = [
        ("read_ios", SeriesUnit::Count, read.ios),
        ("read_sectors", SeriesUnit::Sectors, read.bytes / SECTOR),
        ("read_ms", SeriesUnit::Millis, millis(read.ns)),
        ("write_ios", SeriesUnit::Count, write.ios),
        ("write_sectors", SeriesUnit::Sectors, write.bytes / SECTOR),
        ("write_ms", SeriesUnit::Millis, millis(write.ns)),
        ("io_ms", SeriesUnit::Millis, millis(device.busy_ns)),
        ("weighted_ms", SeriesUnit::Millis, (device.weighted_ns / 1_000_000) as u64),
    ];
    for (column, unit, value) in values {
        put(&format!("disk.{name}.{column}"), unit, COUNTER, value);
    }
    put(&format!("disk.{name}.in_flight"), SeriesUnit::Count, SeriesKind::Gauge, device.in_flight);
}

/// What a machine had done when the workload began: a load beside it runs before that. Nothing by default.
#[derive(Debug, Default)]
pub struct Before {
    /// When it was.
    pub now: u64,
    /// Joules of all CPUs.
    pub joules: f64,
    /// Idle states entered.
    pub wakeups: u64,
    /// As [`executed`] has it.
    pub executed: (u64, u64),
    used: Vec<u64>,
    disks: Vec<DiskTotals>,
}

impl Before {
    /// All that it has done until now.
    pub fn of(core: &mut Core) -> Self {
        Self {
            now: core.now,
            joules: core.cpus.joules(core.now),
            wakeups: wakeups(core).unwrap_or_default(),
            executed: executed(core),
            used: core.cpus.thread_times().map(|(.., used)| used).collect(),
            disks: disks(core, &Self::default()),
        }
    }

    /// The CPU time of each thread since then.
    fn thread_times<'c>(&'c self, core: &'c Core) -> impl Iterator<Item = (&'c str, Role, u64)> {
        let before = self.used.iter().copied().chain(std::iter::repeat(0));
        core.cpus.thread_times().zip(before).map(|((name, role, used), before)| (name, role, used - before))
    }
}

/// For how many nanoseconds CPUs have executed, and their cycles.
pub fn executed(core: &mut Core) -> (u64, u64) {
    let now = core.now;
    let times = (0..core.cpus.count()).map(|cpu| core.cpus.times(now, cpu));
    times
        .fold((0, 0), |(busy, cycles), times| (busy + times.busy_ns + times.polled_ns, cycles + times.cycles))
}

/// How often CPUs have entered idle states; `None` where they have none.
pub fn wakeups(core: &Core) -> Option<u64> {
    let states = (0..core.cpus.count()).flat_map(|cpu| core.cpus.idle_states(core.now, cpu));
    states.map(|(.., entries)| entries).reduce(|sum, entries| sum + entries)
}

/// CPU time by role since then, zeros left out.
pub fn roles(core: &Core, before: &Before) -> BTreeMap<Role, Nanos> {
    let mut roles = BTreeMap::new();
    for (_, role, used) in before.thread_times(core).filter(|(_, _, used)| *used > 0) {
        let sum = roles.entry(role).or_insert(Nanos::ZERO);
        *sum = *sum + Nanos::new(used);
    }
    roles
}

/// The threads that used most since then, most first.
pub fn threads(core: &Core, before: &Before) -> Vec<ThreadTime> {
    let all = before.thread_times(core).zip(1..).filter(|((_, _, used), _)| *used > 0);
    let mut threads: Vec<ThreadTime> = all
        .map(|((name, role, used), tid)| ThreadTime {
            name: name.to_owned(),
            tid,
            role,
            cpu: Nanos::new(used),
        })
        .collect();
    order::by_key(&mut threads, |thread| (std::cmp::Reverse(thread.cpu), thread.tid));
    threads.truncate(MAX_THREADS);
    threads
}

/// What each device did since then that did anything.
pub fn disks(core: &mut Core, before: &Before) -> Vec<DiskTotals> {
    let now = core.now;
    core.devices.iter_mut().for_each(|device| device.catch_up(now));
    let since = |device: &DeviceStats| {
        let earlier = before.disks.iter().find(|earlier| earlier.device == device.name);
        let earlier = |total: fn(&DiskTotals) -> u64| earlier.map_or(0, total);
        DiskTotals {
            device: device.name.clone(),
            read_ios: device.reads.ios - earlier(|disk| disk.read_ios),
            read_sectors: device.reads.bytes / SECTOR - earlier(|disk| disk.read_sectors),
            write_ios: device.writes.ios - earlier(|disk| disk.write_ios),
            write_sectors: device.writes.bytes / SECTOR - earlier(|disk| disk.write_sectors),
            busy: Nanos::new(device.busy_ns - earlier(|disk| disk.busy.get())),
            accesses: None,
            served: Default::default(),
            passage: None,
        }
    };
    core.devices.iter().map(since).filter(|disk| disk.read_ios + disk.write_ios > 0).collect()
}
