//! The settings that have a short name: one table. Everything else under `/sys` and `/proc/sys` goes by its
//! path.

use domain::setting::CPU_DMA_LATENCY;

/// What a setting belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A cpufreq policy: a file of `/sys/devices/system/cpu/cpufreq/policyN`.
    Policy,
    /// A CPU: a file under `/sys/devices/system/cpu/cpuN`.
    Cpu,
    /// The machine: a file under `/sys/devices/system/cpu`.
    Machine,
    /// A block device: a file under `/sys/block/NAME`.
    Block,
    /// The machine: a device under `/dev`, whose value is in force while a process holds it open.
    Held,
}

/// How a value is written, beyond the kernel's own text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As it stands.
    Plain,
    /// kHz for the kernel; `2800MHz`, `2.8GHz`, `min` and `max` are taken as well.
    Frequency,
    /// `0` and `1`; `on` and `off` are taken as well.
    Switch,
    /// A switch that the kernel keeps the other way round: `on` is written as `0`.
    Inverted,
    /// Microseconds; `20us`, `1ms` and `none` are taken as well.
    Latency,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The short name.
    pub name: &'static str,
    /// What it belongs to.
    pub scope: Scope,
    /// The file, below the folder that the scope names.
    pub file: &'static str,
    /// How its values are written.
    pub form: Form,
    /// What it decides, in a few words.
    pub about: &'static str,
}

const fn known(
    name: &'static str,
    scope: Scope,
    file: &'static str,
    form: Form,
    about: &'static str,
) -> Known {
    Known { name, scope, file, form, about }
}

use Form::{Frequency, Latency, Plain, Switch};
use Scope::{Block, Cpu, Held, Machine, Policy};

/// The table. Sources: `Documentation/admin-guide/pm/{cpufreq,intel_pstate,amd-pstate,cpuidle}.rst`,
/// `Documentation/power/pm_qos_interface.rst`,
/// `Documentation/ABI/stable/sysfs-block`, `Documentation/admin-guide/md.rst` of the kernel.
pub const KNOWN: &[Known] = &[
    known("governor", Policy, "scaling_governor", Plain, "who chooses the frequency"),
    known("min_freq", Policy, "scaling_min_freq", Frequency, "the lowest frequency allowed"),
    known("max_freq", Policy, "scaling_max_freq", Frequency, "the highest frequency allowed"),
    known("setspeed", Policy, "scaling_setspeed", Frequency, "the frequency under the governor userspace"),
    known("epp", Policy, "energy_performance_preference", Plain, "energy against speed, for the hardware"),
    known("epb", Cpu, "power/energy_perf_bias", Plain, "energy against speed, on older hardware"),
    known("intel_pstate.status", Machine, "intel_pstate/status", Plain, "active, passive or off"),
    known("max_perf_pct", Machine, "intel_pstate/max_perf_pct", Plain, "the highest speed, in percent"),
    known("min_perf_pct", Machine, "intel_pstate/min_perf_pct", Plain, "the lowest speed, in percent"),
    known(
        "hwp_dynamic_boost",
        Machine,
        "intel_pstate/hwp_dynamic_boost",
        Switch,
        "boost after waiting for I/O",
    ),
    known(
        "energy_efficiency",
        Machine,
        "intel_pstate/energy_efficiency",
        Switch,
        "the hardware's own saving",
    ),
    known("amd_pstate.status", Machine, "amd_pstate/status", Plain, "active, passive, guided or disable"),
    known("idle_governor", Machine, "cpuidle/current_governor", Plain, "who chooses the idle state"),
    known(CPU_DMA_LATENCY, Held, CPU_DMA_LATENCY, Latency, "how long a CPU may take to wake, µs"),
    known("scheduler", Block, "queue/scheduler", Plain, "the I/O scheduler"),
    known("read_ahead_kb", Block, "queue/read_ahead_kb", Plain, "how far sequential reads run ahead, KiB"),
    known("nr_requests", Block, "queue/nr_requests", Plain, "requests that may wait"),
    known("rq_affinity", Block, "queue/rq_affinity", Plain, "which CPU completes a request"),
    known("nomerges", Block, "queue/nomerges", Plain, "whether neighbouring requests are merged"),
    known(
        "wbt_lat_usec",
        Block,
        "queue/wbt_lat_usec",
        Plain,
        "the latency that writeback is throttled for, µs",
    ),
    known("max_sectors_kb", Block, "queue/max_sectors_kb", Plain, "the largest request, KiB"),
    known("write_cache", Block, "queue/write_cache", Plain, "whether the kernel sends flushes"),
    known("stripe_cache_size", Block, "md/stripe_cache_size", Plain, "RAID5 and 6: stripes in memory"),
    known("group_thread_cnt", Block, "md/group_thread_cnt", Plain, "RAID5 and 6: threads a NUMA node"),
    known("preread_bypass_threshold", Block, "md/preread_bypass_threshold", Plain, "RAID5 and 6: fairness"),
    known("sync_speed_min", Block, "md/sync_speed_min", Plain, "resync at least, KiB/s"),
    known("sync_speed_max", Block, "md/sync_speed_max", Plain, "resync at most, KiB/s"),
];

/// The sysctls that go by their dotted names: `vm.dirty_ratio`.
pub const SYSCTL_ROOTS: &[&str] = &["vm.", "kernel.", "dev.raid.", "fs."];

/// Names with a rule of their own instead of a line in the table, for suggestions.
const FAMILIES: &[&str] = &[
    "turbo",
    "idle.C6.disable",
    "iosched.read_expire",
    "ondemand.up_threshold",
    "ondemand.sampling_down_factor",
    "ondemand.io_is_busy",
    "conservative.up_threshold",
    "schedutil.rate_limit_us",
    "vm.dirty_ratio",
    "vm.dirty_background_ratio",
    "vm.dirty_expire_centisecs",
];

/// The known name that is written most like this one, where one is near enough to be meant.
pub(crate) fn nearest(name: &str) -> Option<String> {
    most_alike(name, KNOWN.iter().map(|k| k.name).chain(FAMILIES.iter().copied())).map(str::to_owned)
}

/// The name that is written most like this one, where one is near enough to be meant.
pub(crate) fn most_alike<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    // Jaro-Winkler: below 0.8 the suggestions begin to look random.
    const NEAR: f64 = 0.8;
    let scored = names.into_iter().map(|candidate| (strsim::jaro_winkler(name, candidate), candidate));
    let (score, best) = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (score >= NEAR).then_some(best)
}

/// How many letters may be wrong, missing, too many or exchanged in a name that is meant to be another.
const MAX_SLIPS: usize = 2;

/// The name that is meant by one that is none of them: it differs by a letter or two, and by no more than a
/// third of its own. What is farther off may be another kernel's.
pub(super) fn slip_of<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let slips = |other: &&str| strsim::osa_distance(name, other);
    let meant = names.into_iter().min_by_key(slips)?;
    let at_most = MAX_SLIPS.min(meant.chars().count() / 3);
    (1..=at_most).contains(&slips(&meant)).then_some(meant)
}
