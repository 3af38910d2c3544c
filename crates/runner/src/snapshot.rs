//! What the machine looks like at one moment, as far as it can disturb a trial.
//!
//! Two of these, around a workload, are what [`crate::guards`] judges. Reading one costs a few milliseconds,
//! most of it for the list of processes, and is done outside the time that is measured.

use domain::time::{Nanos, Timestamp};
use machine::Machine;
use parse::kernel::mounts;
use parse::proc::{pid_stat, schedstat, stat};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// CPU time of all CPUs since boot, in nanoseconds, from `/proc/stat`. Its grain is a tick of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTotals {
    /// user + nice + system: what threads used.
    pub threads: Nanos,
    /// irq + softirq.
    pub interrupts: Nanos,
    /// What the hypervisor gave to somebody else while this machine wanted it.
    pub steal: Nanos,
}

/// The machine at one moment. What it does not have is `None` or empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Civil time; it may step.
    pub civil: Timestamp,
    /// `CLOCK_MONOTONIC`: stands still while the machine sleeps.
    pub monotonic: Nanos,
    /// `CLOCK_BOOTTIME`: goes on while the machine sleeps.
    pub boottime: Nanos,
    /// Which CPUs are online, as the kernel writes it: `0-7`.
    pub online: Option<String>,
    /// How many lines for single CPUs `/proc/stat` has.
    pub cpus: u32,
    /// CPU time of all.
    pub cpu: Option<CpuTotals>,
    /// CPU time of each kernel thread, by thread id.
    pub kernel_threads: BTreeMap<u32, Nanos>,
    /// CPU time of Flyball's own process, recorder included, children not.
    pub flyball: Nanos,
    /// Arrays that are being resynced, rebuilt, checked or reshaped: `md0: resync`.
    pub resyncing: Vec<String>,
    /// How often CPUs were throttled for heat since boot, cores and packages together.
    pub throttles: Option<u64>,
    /// What block devices are mounted where: `/dev/vda on /`.
    pub mounts: BTreeSet<String>,
}

impl Snapshot {
    /// Reads all of it.
    pub fn read(machine: &dyn Machine) -> Self {
        let stat = machine.text("/proc/stat").unwrap_or_default();
        Self {
            civil: machine.now(),
            monotonic: clock(ClockId::Monotonic),
            boottime: clock(ClockId::Boottime),
            online: machine.text("/sys/devices/system/cpu/online"),
            cpus: stat::cpu_lines(&stat).flatten().skip(1).count() as u32,
            cpu: cpu_totals(&stat),
            kernel_threads: kernel_threads(machine),
            flyball: clock(ClockId::ProcessCPUTime),
            resyncing: resyncing(machine),
            throttles: throttles(machine),
            mounts: mounts(&machine.text("/proc/self/mountinfo").unwrap_or_default()),
        }
    }
}

/// A clock of the kernel, in nanoseconds.
pub(crate) fn clock(id: ClockId) -> Nanos {
    let time = clock_gettime(id);
    Nanos::new(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The totals of the first line of `/proc/stat`; `None` where it cannot be read.
pub(crate) fn cpu_totals(stat: &str) -> Option<CpuTotals> {
    let [user, nice, system, _, _, irq, softirq, steal] = stat::cpu_lines(stat).next()?.ok()?.ticks;
    let nanos = |ticks: u64| Nanos::from_millis(ticks * 10);
    Some(CpuTotals {
        threads: nanos(user? + nice? + system?),
        interrupts: nanos(irq.unwrap_or(0) + softirq.unwrap_or(0)),
        steal: nanos(steal.unwrap_or(0)),
    })
}

fn kernel_threads(machine: &dyn Machine) -> BTreeMap<u32, Nanos> {
    let processes = machine.list(Path::new("/proc")).unwrap_or_default();
    let tids = processes.iter().filter_map(|name| name.parse::<u32>().ok());
    let time_of = |tid: u32| {
        let text = machine.text(&format!("/proc/{tid}/stat"))?;
        if !pid_stat::pid_stat(&text).ok()?.is_kernel() {
            return None;
        }
        let ns = schedstat::cpu_time(&machine.text(&format!("/proc/{tid}/schedstat"))?).ok()?;
        Some((tid, Nanos::new(ns)))
    };
    tids.filter_map(time_of).collect()
}

/// Arrays whose `sync_action` is not idle (kernel `Documentation/admin-guide/md.rst`).
pub(crate) fn resyncing(machine: &dyn Machine) -> Vec<String> {
    let blocks = machine.list(Path::new("/sys/block")).unwrap_or_default();
    let active = |name: &String| {
        let action = machine.text(&format!("/sys/block/{name}/md/sync_action"))?;
        (!["idle", "frozen", ""].contains(&action.as_str())).then(|| format!("{name}: {action}"))
    };
    blocks.iter().filter(|name| name.starts_with("md")).filter_map(active).collect()
}

/// The counters of `arch/x86/kernel/cpu/mce/therm_throt.c`; `None` where no CPU has any.
fn throttles(machine: &dyn Machine) -> Option<u64> {
    let cpus = machine.list(Path::new("/sys/devices/system/cpu")).unwrap_or_default();
    let numbered = |name: &&String| name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok());
    let counters = cpus.iter().filter(numbered).flat_map(|cpu| {
        ["core", "package"].map(|what| {
            machine.text(&format!("/sys/devices/system/cpu/{cpu}/thermal_throttle/{what}_throttle_count"))
        })
    });
    counters.flatten().filter_map(|text| text.parse::<u64>().ok()).reduce(|a, b| a + b)
}

/// Mounts of block devices (proc_pid_mountinfo(5)); others, such as tmpfs of a login, disturb nothing.
fn mounts(mountinfo: &str) -> BTreeSet<String> {
    let of_devices = mounts::mountinfo(mountinfo).flatten().filter(|m| m.source.starts_with("/dev/"));
    of_devices.map(|m| format!("{} on {}", m.source, m.mountpoint)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::LocalMachine;

    #[test]
    fn this_machine_is_read() {
        let snapshot = Snapshot::read(&LocalMachine);
        assert!(snapshot.cpus > 0);
        assert!(snapshot.cpu.unwrap().threads > Nanos::ZERO);
        assert!(snapshot.boottime >= snapshot.monotonic);
    }

    #[test]
    fn totals_are_the_columns_in_nanoseconds() {
        // /proc/stat of a virtual machine with 2 CPUs, Linux 6.18.
        let totals = cpu_totals("cpu  18136 1724 4672 475076 2171 0 353 6 0 0\n").unwrap();
        assert_eq!(totals.threads, Nanos::from_millis(245_320));
        assert_eq!((totals.interrupts, totals.steal), (Nanos::from_millis(3530), Nanos::from_millis(60)));
        assert_eq!(cpu_totals(""), None);
    }

    #[test]
    fn only_mounts_of_block_devices_count() {
        let text = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
                    25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684096k\ntorn line";
        assert_eq!(mounts(text).into_iter().collect::<Vec<_>>(), ["/dev/vda on /"]);
    }
}
