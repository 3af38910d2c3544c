//! What is kept of a simulated trial: the same columns as the recorder's, and the same totals.
//!
//! CPU time is counted exactly, not by ticks, and all of it as `system` but that of interrupts: what these
//! models let programs do is nearly all the kernel's work.

use crate::block::DeviceStats;
use crate::engine::Observer;
use crate::engine::{Core, Part};
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

/// Takes rows of a machine, and hands them to a sink.
pub struct Recorder<'a> {
    sink: &'a mut dyn Sink,
    interval: Nanos,
    begun: bool,
    samples: u64,
    last: u64,
    row: Vec<Option<u64>>,
    failed: Option<SinkError>,
}

impl<'a> Recorder<'a> {
    /// Rows at this interval.
    pub fn new(sink: &'a mut dyn Sink, interval: Nanos) -> Self {
        Self { sink, interval, begun: false, samples: 0, last: 0, row: Vec::new(), failed: None }
    }

    /// What it did.
    ///
    /// # Errors
    /// Where the sink could not store a row.
    pub fn finish(self) -> Result<RecorderReport, SinkError> {
        match self.failed {
            Some(error) => Err(error),
            None => Ok(RecorderReport {
                samples: self.samples,
                missed: 0,
                cpu: Nanos::ZERO,
                span: Nanos::new(self.last),
                frequency: FrequencySource::TimeInState,
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
        self.last = core.now;
        self.sink.row(Nanos::new(core.now), &self.row)
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
    let roles = roles(core);
    for role in Role::ALL {
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

/// CPU time by role, zeros left out.
pub fn roles(core: &Core) -> BTreeMap<Role, Nanos> {
    let mut roles = BTreeMap::new();
    for (_, role, used) in core.cpus.thread_times().filter(|(_, _, used)| *used > 0) {
        let sum = roles.entry(role).or_insert(Nanos::ZERO);
        *sum = *sum + Nanos::new(used);
    }
    roles
}

/// The threads that used most, most first.
pub fn threads(core: &Core) -> Vec<ThreadTime> {
    let all = core.cpus.thread_times().zip(1..).filter(|((_, _, used), _)| *used > 0);
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

/// What each device did that did anything.
pub fn disks(core: &mut Core) -> Vec<DiskTotals> {
    let now = core.now;
    core.devices.iter_mut().for_each(|device| device.catch_up(now));
    let did = core.devices.iter().filter(|d| d.reads.ios + d.writes.ios > 0);
    did.map(|device| DiskTotals {
        device: device.name.clone(),
        read_ios: device.reads.ios,
        read_sectors: device.reads.bytes / SECTOR,
        write_ios: device.writes.ios,
        write_sectors: device.writes.bytes / SECTOR,
        busy: Nanos::new(device.busy_ns),
        accesses: None,
        served: Default::default(),
        passage: None,
    })
    .collect()
}
