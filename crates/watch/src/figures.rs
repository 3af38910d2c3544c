//! The figures of a moment. They are means over the window, in the quantities of `analysis::facts::usage`.

use crate::index::{CpuColumns, DiskColumns, Index};
use crate::window::Window;
use analysis::facts::usage::{CpuUsage, Pressure, Transfers};
use domain::inventory::{CpuList, Inventory};
use domain::time::Nanos;
use domain::trace::Role;
use std::collections::BTreeMap;

/// Bytes of a sector of `/proc/diskstats`.
const SECTOR_BYTES: f64 = 512.0;

/// What one CPU does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuNow {
    /// Its number.
    pub number: u32,
    /// Shares of its time; `None` where they are not known.
    pub usage: Option<CpuUsage>,
    /// Its frequency in Hz: while it was not idle where counters say so, else of all time.
    pub hertz: Option<f64>,
    /// The idle state in which it was longest, and the share of the time; `None` where none is known.
    pub idle: Option<(u32, f64)>,
}

/// A reading of power that is older is not shown: the recorder takes one every two seconds at the least
/// often.
const POWER_SPAN: Nanos = Nanos::from_secs(3);

/// What one block device does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskNow {
    /// Its name.
    pub device: String,
    /// The share of the time in which it had a request in flight.
    pub busy: Option<f64>,
    /// Requests in flight, mean.
    pub depth: Option<f64>,
    /// Reads.
    pub read: Transfers,
    /// Writes.
    pub write: Transfers,
}

impl DiskNow {
    /// Whether it did anything.
    pub fn is_active(&self) -> bool {
        self.read.rate > 0.0 || self.write.rate > 0.0 || self.busy.is_some_and(|busy| busy > 0.0)
    }
}

/// What a machine does at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// All CPUs together.
    pub machine: Option<CpuUsage>,
    /// Each CPU.
    pub cpus: Vec<CpuNow>,
    /// Block devices, in the trace's order.
    pub disks: Vec<DiskNow>,
    /// CPU seconds a second, by role.
    pub roles: BTreeMap<Role, f64>,
    /// Shares of the time in which tasks waited.
    pub pressure: Pressure,
    /// Watts by domain, sensor or battery.
    pub watts: Vec<(String, f64)>,
}

impl Figures {
    /// Those of a window. The inventory tells the CPUs of a frequency policy.
    pub fn of(index: &Index, window: &Window, inventory: Option<&Inventory>) -> Self {
        let now = Reading { window };
        let policies: Vec<(u32, f64)> =
            index.policies.iter().filter_map(|(id, states)| Some((*id, now.policy(states)?))).collect();
        let of_policy = |cpu: u32| {
            let cpufreq = inventory.and_then(|inventory| inventory.cpufreq.as_ref());
            let has = |cpus: &CpuList| cpus.contains(cpu);
            let policy = cpufreq?.policies.iter().find(|policy| has(&policy.cpus))?.id;
            policies.iter().find(|(id, _)| *id == policy).map(|(_, hertz)| *hertz)
        };
        let cpu = |(number, columns): (&u32, &CpuColumns)| CpuNow {
            number: *number,
            usage: now.usage(columns),
            hertz: now.hertz(columns).or_else(|| of_policy(*number)),
            idle: now.idle(columns),
        };
        let share = |column: Option<usize>| column.and_then(|c| now.rate(c, 1e-6)).map(|s| s.min(1.0));
        let [on_cpu, on_io, on_memory] = index.pressure;
        Self {
            machine: now.usage(&index.machine),
            cpus: index.cpus.iter().map(cpu).collect(),
            disks: index.disks.iter().map(|disk| now.disk(disk)).collect(),
            roles: index.roles.iter().filter_map(|(role, c)| Some((*role, now.rate(*c, 1e-9)?))).collect(),
            pressure: Pressure { cpu: share(on_cpu), io: share(on_io), memory: share(on_memory) },
            watts: {
                let counted = index.energy.iter().map(|(of, column)| (of, now.rate(*column, 1e-6)));
                let shown = index.power.iter().map(|(of, column)| (of, now.watts(*column)));
                counted.chain(shown).filter_map(|(of, watts)| Some((of.clone(), watts?))).collect()
            },
        }
    }
}

struct Reading<'a> {
    window: &'a Window,
}

impl Reading<'_> {
    fn rate(&self, column: usize, scale: f64) -> Option<f64> {
        self.window.rate(column).map(|rate| rate * scale)
    }

    /// Watts that are sampled, and more seldom than other columns.
    fn watts(&self, column: usize) -> Option<f64> {
        self.window.lately(column, POWER_SPAN).map(|value| value as f64 * 1e-6)
    }

    fn usage(&self, columns: &CpuColumns) -> Option<CpuUsage> {
        let rates = columns.states.map(|column| column.and_then(|column| self.window.rate(column)));
        let [.., idle] = rates;
        idle?;
        let [user, nice, system, irq, softirq, iowait, steal, idle] = rates.map(Option::unwrap_or_default);
        let all = user + nice + system + irq + softirq + iowait + steal + idle;
        (all > 0.0).then(|| CpuUsage {
            user: (user + nice) / all,
            system: system / all,
            interrupts: (irq + softirq) / all,
            iowait: iowait / all,
            steal: steal / all,
        })
    }

    fn hertz(&self, columns: &CpuColumns) -> Option<f64> {
        let [aperf, mperf, tsc] = columns.counters.map(|c| c.and_then(|c| self.window.rate(c)));
        let counted = || {
            let (aperf, mperf, tsc) = (aperf?, mperf?, tsc?);
            (mperf > 0.0).then(|| tsc * aperf / mperf)
        };
        counted().or_else(|| Some(self.window.last(columns.khz?)? as f64 * 1e3))
    }

    /// The mean frequency of a policy's time, idle time included.
    fn policy(&self, states: &BTreeMap<u64, usize>) -> Option<f64> {
        let parts = states.iter().filter_map(|(khz, column)| Some((*khz, self.window.rate(*column)?)));
        let (sum, time) = parts
            .fold((0.0, 0.0), |(sum, time), (khz, share)| (khz as f64 * 1e3 * share + sum, time + share));
        (time > 0.0).then(|| sum / time)
    }

    fn idle(&self, columns: &CpuColumns) -> Option<(u32, f64)> {
        let shares = columns.idle.iter().filter_map(|(state, c)| Some((*state, self.rate(*c, 1e-6)?)));
        shares.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(state, share)| (state, share.min(1.0)))
    }

    fn disk(&self, columns: &DiskColumns) -> DiskNow {
        let rates = columns.of.map(|column| column.and_then(|column| self.window.rate(column)));
        let [read_ios, read_sectors, read_ms, write_ios, write_sectors, write_ms, io_ms, weighted_ms] = rates;
        let transfers = |ios: Option<f64>, sectors: Option<f64>, ms: Option<f64>| {
            let rate = ios.unwrap_or_default();
            Transfers {
                rate,
                bytes: sectors.unwrap_or_default() * SECTOR_BYTES,
                latency: ms.filter(|_| rate > 0.0).map(|ms| ms * 1e-3 / rate),
            }
        };
        DiskNow {
            device: columns.device.clone(),
            // The kernel books by its tick, and may show a little more than all of the time.
            busy: io_ms.map(|ms| (ms * 1e-3).min(1.0)),
            depth: weighted_ms.map(|ms| ms * 1e-3),
            read: transfers(read_ios, read_sectors, read_ms),
            write: transfers(write_ios, write_sectors, write_ms),
        }
    }
}
