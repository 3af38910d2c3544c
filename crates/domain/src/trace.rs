//! A trace: what was sampled during a trial, as raw counters. Rates come from two samples, later.
//!
//! A trace is a table with one column a series and one row a sample. Columns are named `object.quantity`:
//!
//! | column | unit | from |
//! |---|---|---|
//! | `cpu0.user` `.nice` `.system` `.idle` `.iowait` `.irq` `.softirq` `.steal`; `cpu.…` is their sum | ticks of 10 ms | `/proc/stat` |
//! | `system.context_switches`, of all CPUs | count | `ctxt` of `/proc/stat` |
//! | `system.cpus_online` (gauge) | count | `/sys/devices/system/cpu/online` |
//! | `disk.vda.read_ios` `.read_sectors` `.read_ms` `.write_ios` `.write_sectors` `.write_ms` `.in_flight` `.io_ms` `.weighted_ms` | ios, sectors of 512 B, ms | `/proc/diskstats` |
//! | `freq.cpu0.khz` (gauge); `freq.policy0.time.2800000` (ticks of 10 ms); `freq.cpu0.aperf` `.mperf` `.tsc` | | cpufreq, `msr` events |
//! | `idle.cpu0.state1.us` `.entries` | µs, count | cpuidle |
//! | `psi.cpu.some_us` `psi.io.some_us` `.full_us` `psi.memory.…` | µs | `/proc/pressure` |
//! | `memory.dirty_pages` `.writeback_pages` `.dirty_threshold_pages` `.background_threshold_pages` (gauges); `memory.dirtied_pages` `.written_pages` | pages | `/proc/vmstat` |
//! | `rapl.package-0.uj` (wraps at `max_energy_range_uj`) | µJ | powercap |
//! | `hwmon.amd_energy-0.Esocket0.uj`; `hwmon.power_meter-0.power1.average_uw`, `.uw` (gauges) | µJ, µW | hwmon: `energyN_input`; `powerN_average`, else `powerN_input` |
//! | `battery.BAT0.uw` (gauge), what it delivers while the machine runs on its batteries; `supply.on_battery` (gauge), 1 while it does | µW | `/sys/class/power_supply` |
//! | `role.workload.ns` and so on, one for each of [`Role::columns`] | ns of CPU time | clocks of processes (`clock_getcpuclockid(3)`) |
//! | `recorder.ns` | ns of CPU time | the recorder's own thread |
//!
//! An imported trace has the same names where the meaning is the same (a share of an interval becomes a
//! counter that grew by it), and `tool.object.quantity` for everything else (docs/IMPORT.md). Of events there
//! is `cpu0.ran_ns`, how long threads ran on a CPU, and the time at frequencies is by CPU, for no event names
//! a policy: `freq.cpu0.time.2800000`.

use crate::time::{Nanos, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a column counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesUnit {
    /// Ticks of 10 ms (`USER_HZ` is 100 on every architecture Linux runs on today).
    Ticks,
    /// Nanoseconds.
    Nanos,
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
    /// Sectors of 512 bytes.
    Sectors,
    /// Kilohertz.
    Kilohertz,
    /// Microjoules.
    Microjoules,
    /// Events, or things.
    Count,
    /// Millionths of a share.
    Ppm,
    /// Bytes a second.
    BytesPerSecond,
    /// Thousandths of an event a second.
    MilliPerSecond,
    /// Microwatts.
    Microwatts,
    /// Thousandths of whatever a tool counts there.
    Thousandths,
}

impl SeriesUnit {
    /// A short name, as it is stored.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ticks => "ticks",
            Self::Nanos => "ns",
            Self::Micros => "us",
            Self::Millis => "ms",
            Self::Sectors => "sectors",
            Self::Kilohertz => "khz",
            Self::Microjoules => "uj",
            Self::Count => "count",
            Self::Ppm => "ppm",
            Self::BytesPerSecond => "bytes/s",
            Self::MilliPerSecond => "0.001/s",
            Self::Microwatts => "uw",
            Self::Thousandths => "0.001",
        }
    }
    /// The unit of such a name.
    pub fn from_name(name: &str) -> Option<Self> {
        use SeriesUnit::*;
        [
            Ticks,
            Nanos,
            Micros,
            Millis,
            Sectors,
            Kilohertz,
            Microjoules,
            Count,
            Ppm,
            BytesPerSecond,
            MilliPerSecond,
            Microwatts,
            Thousandths,
        ]
        .into_iter()
        .find(|u| u.name() == name)
    }
}

/// How a column is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesKind {
    /// Grows; only differences mean something. Where it wraps, at this value.
    Counter {
        /// The value at which it starts again from zero.
        wraps_at: Option<u64>,
    },
    /// A value of its moment.
    Gauge,
}

/// By how much a counter grew from one sample to the next; `None` where it began anew, as with a device that
/// was removed and added again: how far it had come is not known then.
///
/// A counter that fell has wrapped where it grew by less than half of its range so (serial number arithmetic,
/// RFC 1982), and was reset otherwise: a range takes days, and samples follow each other within minutes.
pub const fn growth(before: u64, after: u64, wraps_at: Option<u64>) -> Option<u64> {
    if after >= before {
        return Some(after - before);
    }
    match wraps_at {
        Some(at) if before <= at && at - before + after < at / 2 => Some(at - before + after),
        _ => None,
    }
}

/// One column of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// `object.quantity`, as in the table above.
    pub name: String,
    /// What it counts.
    pub unit: SeriesUnit,
    /// Counter or gauge.
    pub kind: SeriesKind,
}

/// Where frequencies came from, best first. Reading `scaling_cur_freq` can wake an idle CPU and may show a
/// value that was never run at, so the trace says which it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrequencySource {
    /// APERF, MPERF and TSC counters through perf `msr` events.
    #[serde(rename = "aperf/mperf")]
    AperfMperf,
    /// `cpufreq/stats/time_in_state`.
    TimeInState,
    /// `cpufreq/scaling_cur_freq`.
    ScalingCurFreq,
    /// Another tool stated it, and knows from where.
    Tool,
    /// The machine shows none.
    None,
}

impl FrequencySource {
    /// As it is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AperfMperf => "aperf/mperf",
            Self::TimeInState => "time_in_state",
            Self::ScalingCurFreq => "scaling_cur_freq",
            Self::Tool => "tool",
            Self::None => "none",
        }
    }
    /// The source of such a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::AperfMperf, Self::TimeInState, Self::ScalingCurFreq, Self::Tool, Self::None]
            .into_iter()
            .find(|s| s.name() == name)
    }
}

/// What is known of a trace before its first row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceHead {
    /// The columns.
    pub series: Vec<Series>,
    /// The interval that was asked for.
    pub interval: Nanos,
    /// When time zero of the rows was.
    pub start: Timestamp,
    /// Where frequencies came from.
    pub frequency: FrequencySource,
}

/// A whole trace in memory, by column; for analysis and reports, which downsample first where it is long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The columns' names and units.
    pub head: TraceHead,
    /// When each row was sampled, on a monotonic clock from the trace's start.
    pub times: Vec<Nanos>,
    /// One vector a series, as long as `times`; `None` where a sample has no such value.
    pub columns: Vec<Vec<Option<u64>>>,
}

impl Trace {
    /// A trace without rows.
    pub fn new(head: TraceHead) -> Self {
        let columns = vec![Vec::new(); head.series.len()];
        Self { head, times: Vec::new(), columns }
    }

    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&[Option<u64>]> {
        let index = self.head.series.iter().position(|s| s.name == name)?;
        Some(&self.columns[index])
    }
}

/// Whose CPU time it is. The workload's own is told apart from that of the kernel threads that serve it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The benchmark and all its descendants.
    Workload,
    /// An md array's thread and its group threads: `md127_raid10`, `md0_resync`.
    Array,
    /// `kcryptd`, `dmcrypt_write`.
    Crypt,
    /// `jbd2/*`, `xfsaild/*`, `btrfs-transaction`.
    Journal,
    /// `kworker/*+flush*`: writeback.
    Writeback,
    /// `loop*` threads.
    Loop,
    /// The block layer and drivers: `kworker/*kblockd*`, `nvme*`, `scsi_eh*`.
    Block,
    /// Other `kworker/*`.
    Kworker,
    /// `ksoftirqd/*`, `irq/*`.
    Interrupt,
    /// Every other kernel thread.
    Kernel,
    /// Flyball itself.
    Flyball,
    /// Every other user process.
    Other,
    /// A load that a study has beside its workload, and all its descendants.
    Beside,
}

impl Role {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Role; 13] = [
        Role::Workload,
        Role::Array,
        Role::Crypt,
        Role::Journal,
        Role::Writeback,
        Role::Loop,
        Role::Block,
        Role::Kworker,
        Role::Interrupt,
        Role::Kernel,
        Role::Flyball,
        Role::Other,
        Role::Beside,
    ];

    /// The roles that a trace has columns of: that of loads beside the workload only where there are such.
    pub fn columns(has_beside: bool) -> impl Iterator<Item = Role> {
        Self::ALL.into_iter().filter(move |role| has_beside || *role != Role::Beside)
    }

    /// As it is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Workload => "workload",
            Role::Array => "array",
            Role::Crypt => "crypt",
            Role::Journal => "journal",
            Role::Writeback => "writeback",
            Role::Loop => "loop",
            Role::Block => "block",
            Role::Kworker => "kworker",
            Role::Interrupt => "interrupt",
            Role::Kernel => "kernel",
            Role::Flyball => "flyball",
            Role::Other => "other",
            Role::Beside => "beside",
        }
    }

    /// The role of such a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.name() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::growth;

    #[test]
    fn a_counter_that_fell_has_wrapped_or_began_anew() {
        let millis = Some(1 << 32);
        assert_eq!(growth(3, 10, millis), Some(7));
        assert_eq!(growth((1 << 32) - 6, 4, millis), Some(10));
        assert_eq!(growth(12, 3, millis), None, "a device that was added again");
        assert_eq!(growth(12, 3, None), None);
        assert_eq!(growth(1 << 33, 3, millis), None, "beyond its own range");
    }
}
