//! How busy a machine was while it was watched: shares of time of CPUs and disks, by a trace's counters.
//!
//! Sources: proc(5) (`/proc/stat`), `Documentation/admin-guide/iostats.rst` (`/proc/diskstats`), iostat(1)
//! (`%util`, `await`, `aqu-sz`), `Documentation/accounting/psi.rst`,
//! `Documentation/admin-guide/pm/cpuidle.rst`, arch/x86/events/msr.c (APERF, MPERF, TSC),
//! mm/page-writeback.c (`balance_dirty_pages`).

use crate::facts::rates::{SECTOR_BYTES, Step, names_between, rates};
use crate::facts::residency::{self, PStates};
use crate::facts::window_loads::{self, WindowLoads};
use domain::order;
use domain::time::Nanos;
use domain::trace::{SeriesUnit, Trace};
use std::collections::BTreeMap;

/// A CPU or disk that is this busy has no time left that counts.
pub const AT_LIMIT: f64 = 0.9;

/// How busy a machine was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// From the first sample to the last.
    pub span: Nanos,
    /// All CPUs together; `None` where they were not sampled.
    pub machine: Option<CpuUsage>,
    /// Each CPU by its number, in the trace's order.
    pub cpus: Vec<(u32, CpuUsage)>,
    /// How many CPUs executed something, mean: what is left of their time by the kernel's count of idle time,
    /// which it takes from its clock at each entry and exit (`get_idle_time` of fs/proc/stat.c; with NO_HZ).
    /// Interrupts that came while a CPU was idle are in it, and in no thread's time. `None` where CPUs were
    /// not sampled in ticks.
    pub executed: Option<f64>,
    /// By its number, the share of each CPU's time in which a thread ran, where events tell that and nobody
    /// sampled what it did: [`Usage::cpus`] is empty then.
    pub ran: Vec<(u32, f64)>,
    /// Block devices that did anything, the busiest first.
    pub disks: Vec<DiskUsage>,
    /// How long tasks waited for what they needed.
    pub pressure: Pressure,
    /// The time of each frequency policy at each frequency, where the driver counts it.
    pub pstates: Vec<PStates>,
    /// The load of each CPU by windows, as a governor sees it.
    pub loads: Vec<WindowLoads>,
    /// At which frequency each CPU ran, by its number; empty where no counters were sampled.
    pub awake: Vec<(u32, Awake)>,
    /// Each idle state by its number, all CPUs together; empty where none was sampled.
    pub idle: Vec<(u32, Idling)>,
    /// Data that waited to be written; `None` where it was not sampled.
    pub unwritten: Option<Unwritten>,
}

/// What a CPU's own counters say of the time in which it was not idle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Awake {
    /// The share of the time in which it was not idle (MPERF of TSC).
    pub share: f64,
    /// Its mean frequency in that time, in Hz (APERF of MPERF, times the rate of TSC).
    pub hertz: f64,
}

/// An idle state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Idling {
    /// How often it was entered, by all CPUs, a second.
    pub entries: f64,
    /// The CPUs that were in it, mean.
    pub cpus: f64,
}

/// Data that waited to be written, against the kernel's limits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Unwritten {
    /// The share of samples in which there was so much that writers are slowed down: more than half way from
    /// the background threshold to the threshold.
    pub slowed: f64,
    /// The most that waited, as a share of the threshold.
    pub most: f64,
}

/// Shares of the time of a CPU, or of all; they add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuUsage {
    /// Programs, `nice` ones too.
    pub user: f64,
    /// The kernel, on behalf of programs and in its own threads.
    pub system: f64,
    /// Hard and soft interrupts.
    pub interrupts: f64,
    /// Idle while a task that slept last on this CPU waits for I/O. A lower bound of what is waited for.
    pub iowait: f64,
    /// What the hypervisor gave to others while this CPU had something to do.
    pub steal: f64,
}

impl CpuUsage {
    /// The share in which the CPU executed something.
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.interrupts
    }
}

/// A block device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskUsage {
    /// Its name: `vda`, `md127`.
    pub device: String,
    /// The share of the time in which it had at least one request in flight.
    pub busy: f64,
    /// Requests in flight, mean; `None` where it was not counted.
    pub depth: Option<f64>,
    /// Reads.
    pub read: Transfers,
    /// Writes.
    pub write: Transfers,
    /// How it began and ended; `None` where the trace is too short for that.
    pub course: Option<Course>,
}

/// How a device wrote in the first and in the last quarter of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Course {
    /// The first quarter.
    pub first: Phase,
    /// The last.
    pub last: Phase,
}

/// A part of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Phase {
    /// The share of the time in which the device had at least one request in flight.
    pub busy: f64,
    /// Completed writes a second.
    pub writes: f64,
    /// Bytes written a second.
    pub written: f64,
    /// Bytes read a second.
    pub read: f64,
}

/// What a device did in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transfers {
    /// Completed requests a second.
    pub rate: f64,
    /// Bytes a second.
    pub bytes: f64,
    /// Seconds from queueing to completion, mean over requests; `None` where none completed.
    pub latency: Option<f64>,
}

/// Shares of the time in which a task waited, by PSI. `None` where the kernel does not count it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// At least one task waited for a CPU.
    pub cpu: Option<f64>,
    /// At least one task waited for I/O.
    pub io: Option<f64>,
    /// At least one task waited for memory: reclaim, swap, refaults.
    pub memory: Option<f64>,
}

impl Usage {
    /// What a trace shows.
    pub fn of(trace: &Trace) -> Self {
        let numbered = names_between(trace, "cpu", ".idle").into_iter().filter_map(|n| n.parse().ok());
        let cpus: Vec<(u32, CpuUsage)> =
            numbered.filter_map(|n: u32| Some((n, cpu(trace, &format!("cpu{n}"))?))).collect();
        let mut disks: Vec<DiskUsage> =
            names_between(trace, "disk.", ".io_ms").into_iter().filter_map(|d| disk(trace, d)).collect();
        order::by(&mut disks, |a, b| b.busy.total_cmp(&a.busy));
        let first = trace.times.first().copied().unwrap_or_default();
        Self {
            span: trace.times.last().copied().unwrap_or_default().saturating_sub(first),
            machine: cpu(trace, "cpu").or_else(|| together(&cpus)),
            executed: executed(trace, cpus.len()),
            cpus,
            ran: ran(trace),
            disks,
            pressure: Pressure {
                cpu: stalled(trace, "cpu"),
                io: stalled(trace, "io"),
                memory: stalled(trace, "memory"),
            },
            pstates: residency::pstates(trace),
            loads: window_loads::loads(trace),
            awake: awake(trace),
            idle: idle(trace),
            unwritten: unwritten(trace),
        }
    }
}

/// The mean rate of a counter over the time for which it is known.
fn mean(trace: &Trace, column: &str, scale: f64) -> Option<f64> {
    mean_of(rates(trace, column, scale))
}

fn mean_of(steps: impl Iterator<Item = Step>) -> Option<f64> {
    let length = |step: &Step| step.to.saturating_sub(step.from).secs();
    let weigh =
        |(sum, time): (f64, f64), step: Step| (sum + step.value * length(&step), time + length(&step));
    let (sum, time) = steps.fold((0.0, 0.0), weigh);
    (time > 0.0).then(|| sum / time)
}

fn ran(trace: &Trace) -> Vec<(u32, f64)> {
    let share =
        |cpu: &str| Some((cpu.parse().ok()?, mean(trace, &format!("cpu{cpu}.ran_ns"), 1e-9)?.min(1.0)));
    names_between(trace, "cpu", ".ran_ns").into_iter().filter_map(share).collect()
}

fn awake(trace: &Trace) -> Vec<(u32, Awake)> {
    let of = |cpu: &str| {
        let counted = |what: &str| mean(trace, &format!("freq.cpu{cpu}.{what}"), 1.0);
        let (aperf, mperf, tsc) = (counted("aperf")?, counted("mperf")?, counted("tsc")?);
        let known = mperf > 0.0 && tsc > 0.0;
        known.then(|| Awake { share: (mperf / tsc).min(1.0), hertz: tsc * aperf / mperf })
    };
    let cpus = names_between(trace, "freq.cpu", ".mperf").into_iter();
    cpus.filter_map(|cpu| Some((cpu.parse().ok()?, of(cpu)?))).collect()
}

fn idle(trace: &Trace) -> Vec<(u32, Idling)> {
    let mut states: BTreeMap<u32, Idling> = BTreeMap::new();
    for name in names_between(trace, "idle.cpu", ".entries") {
        let Some(state) = name.split_once(".state").and_then(|(_, state)| state.parse().ok()) else {
            continue;
        };
        let Some(entries) = mean(trace, &format!("idle.cpu{name}.entries"), 1.0) else { continue };
        let sum = states.entry(state).or_default();
        sum.entries += entries;
        sum.cpus += mean(trace, &format!("idle.cpu{name}.us"), 1e-6).unwrap_or(0.0);
    }
    states.into_iter().collect()
}

fn unwritten(trace: &Trace) -> Option<Unwritten> {
    let pages = |name: &str| trace.column(&format!("memory.{name}_pages"));
    let (dirty, writeback) = (pages("dirty")?, pages("writeback")?);
    let (limit, background) = (pages("dirty_threshold")?, pages("background_threshold")?);
    let sample = |row: usize| {
        let waits = dirty[row]? + writeback[row]?;
        let (limit, background) = (limit[row].filter(|limit| *limit > 0)?, background[row]?);
        Some((2 * waits > limit + background, waits as f64 / limit as f64))
    };
    let samples: Vec<(bool, f64)> = (0..trace.times.len()).filter_map(sample).collect();
    let slowed = samples.iter().filter(|(slowed, _)| *slowed).count();
    let most = samples.iter().map(|(_, share)| *share).max_by(f64::total_cmp)?;
    Some(Unwritten { slowed: slowed as f64 / samples.len() as f64, most })
}

/// A quarter of a shorter trace tells nothing of how a device began.
const SHORTEST_COURSE: Nanos = Nanos::from_secs(8);

fn course(trace: &Trace, device: &str) -> Option<Course> {
    let (begin, end) = (*trace.times.first()?, *trace.times.last()?);
    let span = end.saturating_sub(begin);
    let quarter = Nanos::new(span.get() / 4);
    let phase = |from: Nanos, to: Nanos| {
        let mean = |quantity: &str, scale: f64| {
            let steps = rates(trace, &format!("disk.{device}.{quantity}"), scale);
            mean_of(steps.filter(|step| step.from >= from && step.to <= to))
        };
        Some(Phase {
            busy: mean("io_ms", 1e-3)?.min(1.0),
            writes: mean("write_ios", 1.0)?,
            written: mean("write_sectors", SECTOR_BYTES)?,
            read: mean("read_sectors", SECTOR_BYTES)?,
        })
    };
    if span < SHORTEST_COURSE {
        return None;
    }
    Some(Course { first: phase(begin, begin + quarter)?, last: phase(end.saturating_sub(quarter), end)? })
}

/// Of a CPU; `None` where it was not sampled. Imported shares have another unit than ticks: only their
/// proportions count.
fn cpu(trace: &Trace, name: &str) -> Option<CpuUsage> {
    let part = |state: &str| mean(trace, &format!("{name}.{state}"), 1.0);
    let idle = part("idle")?;
    let of = |states: &[&str]| states.iter().filter_map(|state| part(state)).sum::<f64>();
    let (user, system) = (of(&["user", "nice"]), of(&["system"]));
    let (interrupts, iowait, steal) = (of(&["irq", "softirq"]), of(&["iowait"]), of(&["steal"]));
    let all = user + system + interrupts + iowait + steal + idle;
    let share = |value: f64| value / all;
    (all > 0.0).then(|| CpuUsage {
        user: share(user),
        system: share(system),
        interrupts: share(interrupts),
        iowait: share(iowait),
        steal: share(steal),
    })
}

/// How many of so many CPUs were not idle. Of a short trace it is off by a tick.
fn executed(trace: &Trace, cpus: usize) -> Option<f64> {
    let idle = trace.head.series.iter().find(|series| series.name == "cpu.idle");
    idle.filter(|idle| idle.unit == SeriesUnit::Ticks && cpus > 0)?;
    let ticks = |state: &str| mean(trace, &format!("cpu.{state}"), 1.0 / USER_HZ).unwrap_or(0.0);
    Some((cpus as f64 - ["idle", "iowait", "steal"].map(ticks).iter().sum::<f64>()).max(0.0))
}

/// Ticks a second of `/proc/stat`, on every architecture (proc(5)).
const USER_HZ: f64 = 100.0;

/// The mean over CPUs.
fn together(cpus: &[(u32, CpuUsage)]) -> Option<CpuUsage> {
    let mean =
        |part: fn(&CpuUsage) -> f64| cpus.iter().map(|(_, cpu)| part(cpu)).sum::<f64>() / cpus.len() as f64;
    (!cpus.is_empty()).then(|| CpuUsage {
        user: mean(|c| c.user),
        system: mean(|c| c.system),
        interrupts: mean(|c| c.interrupts),
        iowait: mean(|c| c.iowait),
        steal: mean(|c| c.steal),
    })
}

/// Of a device; `None` where it was not sampled or did nothing.
fn disk(trace: &Trace, device: &str) -> Option<DiskUsage> {
    let column = |quantity: &str| format!("disk.{device}.{quantity}");
    let busy = mean(trace, &column("io_ms"), 1e-3)?;
    let transfers = |way: &str| {
        let rate = mean(trace, &column(&format!("{way}_ios")), 1.0).unwrap_or(0.0);
        let waited = mean(trace, &column(&format!("{way}_ms")), 1e-3);
        Transfers {
            rate,
            bytes: mean(trace, &column(&format!("{way}_sectors")), SECTOR_BYTES).unwrap_or(0.0),
            latency: waited.filter(|_| rate > 0.0).map(|waited| waited / rate),
        }
    };
    let (read, write) = (transfers("read"), transfers("write"));
    let depth = mean(trace, &column("weighted_ms"), 1e-3);
    // The kernel books by its tick, and may show a little more than all of the time.
    let course = course(trace, device);
    (busy > 0.0).then(|| DiskUsage {
        device: device.to_owned(),
        busy: busy.min(1.0),
        depth,
        read,
        write,
        course,
    })
}

fn stalled(trace: &Trace, what: &str) -> Option<f64> {
    mean(trace, &format!("psi.{what}.some_us"), 1e-6).map(|share| share.min(1.0))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use domain::Timestamp;
    use domain::trace::{FrequencySource, Series, SeriesKind, TraceHead};

    /// A trace of one second steps whose counters grow by these amounts a second.
    pub fn growing(seconds: u64, counters: &[(&str, u64)]) -> Trace {
        let series = |(name, _): &(&str, u64)| Series {
            name: (*name).to_owned(),
            unit: SeriesUnit::Count,
            kind: SeriesKind::Counter { wraps_at: None },
        };
        let head = TraceHead {
            series: counters.iter().map(series).collect(),
            interval: Nanos::from_millis(1000),
            start: Timestamp::from_unix_nanos(0),
            frequency: FrequencySource::None,
        };
        let mut trace = Trace::new(head);
        for second in 0..=seconds {
            trace.times.push(Nanos::from_millis(1000 * second));
            for ((_, each), column) in counters.iter().zip(&mut trace.columns) {
                column.push(Some(7 + each * second));
            }
        }
        trace
    }

    fn is(value: f64, wanted: f64) {
        assert!((value - wanted).abs() < 1e-9, "{value} is not {wanted}");
    }

    #[test]
    fn shares_of_a_cpu_are_parts_of_all_that_was_counted() {
        let counters = [("cpu.user", 60), ("cpu.nice", 10), ("cpu.system", 20), ("cpu.softirq", 10)];
        let more = [("cpu.iowait", 40), ("cpu.steal", 20), ("cpu.idle", 40)];
        let usage = Usage::of(&growing(5, &[&counters[..], &more[..]].concat()));
        let cpu = usage.machine.unwrap();
        is(cpu.user, 0.35);
        is(cpu.busy(), 0.5);
        is(cpu.iowait, 0.2);
        is(cpu.steal, 0.1);
        assert_eq!(usage.span, Nanos::from_millis(5000));
    }

    #[test]
    fn what_cpus_executed_is_what_their_idle_time_leaves() {
        // Two CPUs: the tick saw 0.3 of them at work, and their clocks 2 - 1.1 - 0.2 - 0.1.
        let of_cpus = [("cpu0.idle", 60), ("cpu1.idle", 50), ("cpu.system", 30)];
        let mut trace =
            growing(4, &[&of_cpus[..], &[("cpu.idle", 110), ("cpu.iowait", 20), ("cpu.steal", 10)]].concat());
        assert_eq!(Usage::of(&trace).executed, None, "these are no ticks");
        for series in &mut trace.head.series {
            series.unit = SeriesUnit::Ticks;
        }
        is(Usage::of(&trace).executed.unwrap(), 0.6);
    }

    #[test]
    fn a_machine_without_a_sum_is_the_mean_of_its_cpus() {
        let counters = [("cpu0.user", 100), ("cpu0.idle", 0), ("cpu1.user", 20), ("cpu1.idle", 80)];
        let usage = Usage::of(&growing(3, &counters));
        assert_eq!(usage.cpus.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [0, 1]);
        is(usage.machine.unwrap().busy(), 0.6);
    }

    #[test]
    fn where_threads_were_seen_to_run_a_cpu_has_the_share_of_its_time_and_nothing_else() {
        let usage = Usage::of(&growing(3, &[("cpu1.ran_ns", 250_000_000), ("cpu10.ran_ns", 1_000_000_000)]));
        assert_eq!(usage.ran, [(1, 0.25), (10, 1.0)]);
        assert!(usage.cpus.is_empty() && usage.machine.is_none());
    }

    #[test]
    fn a_disk_has_its_rates_latencies_and_depth() {
        let counters = [("disk.sda.io_ms", 900), ("disk.sda.read_ios", 50), ("disk.sda.read_ms", 1000)];
        let more = [("disk.sda.read_sectors", 400), ("disk.sda.weighted_ms", 2500), ("disk.sdb.io_ms", 0)];
        let usage = Usage::of(&growing(4, &[&counters[..], &more[..]].concat()));
        let [sda] = usage.disks.as_slice() else { panic!("a disk that did nothing is not listed") };
        is(sda.busy, 0.9);
        is(sda.read.bytes, 204_800.0);
        is(sda.read.latency.unwrap(), 0.02);
        is(sda.depth.unwrap(), 2.5);
        assert_eq!(sda.write.latency, None);
    }

    #[test]
    fn a_cpu_ran_at_the_frequency_that_its_counters_tell_while_it_was_not_idle() {
        let counters = [("freq.cpu3.aperf", 300), ("freq.cpu3.mperf", 500), ("freq.cpu3.tsc", 2000)];
        let usage = Usage::of(&growing(4, &counters));
        let [(3, awake)] = usage.awake.as_slice() else { panic!("{:?}", usage.awake) };
        is(awake.share, 0.25);
        is(awake.hertz, 1200.0);
        assert!(Usage::of(&growing(4, &[("freq.cpu3.mperf", 0), ("freq.cpu3.tsc", 9)])).awake.is_empty());
    }

    #[test]
    fn an_idle_state_is_the_sum_over_cpus() {
        let counters = [("idle.cpu0.state2.entries", 40), ("idle.cpu0.state2.us", 500_000)];
        let more = [("idle.cpu1.state2.entries", 2), ("idle.cpu1.state2.us", 250_000)];
        let usage = Usage::of(&growing(3, &[&counters[..], &more[..]].concat()));
        let [(2, state)] = usage.idle.as_slice() else { panic!("{:?}", usage.idle) };
        is(state.entries, 42.0);
        is(state.cpus, 0.75);
    }

    #[test]
    fn writers_are_slowed_half_way_between_the_thresholds() {
        let names = ["dirty", "writeback", "background_threshold", "dirty_threshold"];
        let columns: Vec<String> = names.iter().map(|name| format!("memory.{name}_pages")).collect();
        let counters: Vec<(&str, u64)> = columns.iter().map(|name| (name.as_str(), 0)).collect();
        let mut trace = growing(3, &counters);
        let rows = [[100, 0, 100, 200], [100, 51, 100, 200], [150, 0, 100, 200], [190, 0, 100, 200]];
        for (row, values) in rows.iter().enumerate() {
            values.iter().zip(&mut trace.columns).for_each(|(value, column)| column[row] = Some(*value));
        }
        let unwritten = Usage::of(&trace).unwritten.unwrap();
        is(unwritten.slowed, 0.5);
        is(unwritten.most, 0.95);
    }

    #[test]
    fn a_disk_has_a_course_where_the_trace_is_long_enough() {
        let names = ["io_ms", "read_sectors", "write_ios", "write_sectors"];
        let columns: Vec<String> = names.iter().map(|name| format!("disk.sda.{name}")).collect();
        let counters: Vec<(&str, u64)> = columns.iter().map(|name| (name.as_str(), 0)).collect();
        let mut trace = growing(16, &counters);
        for second in 0..17_u64 {
            let written = if second <= 4 { second * 8000 } else { 32_000 + (second - 4) * 2000 };
            let row = [second * 900, 0, written / 8, written];
            row.iter().zip(&mut trace.columns).for_each(|(v, column)| column[second as usize] = Some(*v));
        }
        let course = Usage::of(&trace).disks[0].course.unwrap();
        is(course.first.written, 8000.0 * 512.0);
        is(course.last.written, 2000.0 * 512.0);
        is(course.last.writes, 250.0);
        is(course.last.busy, 0.9);
        assert_eq!(Usage::of(&growing(6, &counters)).disks.len(), 0);
        trace.times.iter_mut().for_each(|time| *time = Nanos::new(time.get() / 4));
        assert_eq!(Usage::of(&trace).disks[0].course, None);
    }

    #[test]
    fn what_was_not_sampled_is_not_known() {
        let usage = Usage::of(&growing(2, &[("psi.io.some_us", 250_000)]));
        assert_eq!((usage.machine, usage.pressure.cpu), (None, None));
        is(usage.pressure.io.unwrap(), 0.25);
        assert_eq!(Usage::of(&growing(0, &[("cpu.user", 1), ("cpu.idle", 1)])).machine, None);
    }
}
