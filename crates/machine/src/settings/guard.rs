//! Files that look like settings and are not: writing them is an act without an inverse.

use super::Error;

/// How such a file is recognised.
enum Where {
    /// The whole path.
    Is(&'static str),
    /// The end of it.
    Ends(&'static str),
    /// A folder somewhere in it.
    Within(&'static str),
}

use Where::{Ends, Is, Within};

/// From `Documentation/admin-guide/sysctl`, `Documentation/ABI` and `Documentation/admin-guide/md.rst`.
const ACTS: &[(Where, &str)] = &[
    (Is("/proc/sys/vm/drop_caches"), "writing it drops the page cache once"),
    (Is("/proc/sys/vm/compact_memory"), "writing it compacts memory once"),
    (Is("/proc/sys/vm/stat_refresh"), "writing it folds the counters once"),
    (Is("/proc/sys/kernel/modules_disabled"), "the kernel never takes it back"),
    (Is("/proc/sys/kernel/kexec_load_disabled"), "the kernel never takes it back"),
    (Is("/proc/sys/kernel/unprivileged_bpf_disabled"), "the kernel may never take it back"),
    (Is("/proc/sys/kernel/yama/ptrace_scope"), "the kernel may never take it back"),
    (Is("/proc/sys/kernel/ns_last_pid"), "it counts on by itself"),
    (Is("/proc/sys/kernel/core_pattern"), "it names a program that runs as root"),
    (Is("/proc/sys/kernel/modprobe"), "it names a program that runs as root"),
    (Is("/proc/sys/kernel/hotplug"), "it names a program that runs as root"),
    (Is("/proc/sys/kernel/hostname"), "it is the machine's name"),
    (Within("/proc/sys/kernel/random/"), "it belongs to the random number generator"),
    (Within("/sys/power/"), "writing it can suspend the machine"),
    (Within("/sys/firmware/"), "it is kept in the firmware"),
    (Within("/sys/kernel/config/"), "it makes and removes objects"),
    (Within("/sys/kernel/security/"), "it belongs to a security module"),
    (Ends("/uevent"), "writing it makes the kernel send an event"),
    (Ends("/online"), "taking a CPU or memory away is not undone by one write"),
    (Ends("/state"), "it changes what the device is, not how fast it is"),
    (Ends("/array_state"), "writing it can stop the array"),
    (Ends("/sync_action"), "writing it starts or stops a resync"),
    (Ends("/reshape_position"), "it is part of the array's data"),
    (Ends("/resync_start"), "it is part of the array's data"),
    (Ends("/raid_disks"), "it reshapes the array"),
    (Ends("/level"), "it reshapes the array"),
    (Ends("/layout"), "it reshapes the array"),
    (Ends("/chunk_size"), "it reshapes the array"),
    (Ends("/component_size"), "it resizes the array"),
    (Ends("/array_size"), "it resizes the array"),
    (Ends("/consistency_policy"), "it changes the array's data on its members"),
    (Ends("/metadata_version"), "it is part of the array's data"),
    (Ends("/bind"), "it attaches a driver"),
    (Ends("/unbind"), "it takes a driver away"),
    (Ends("/remove"), "it removes the device"),
    (Ends("/delete"), "it removes the device"),
    (Ends("/rescan"), "it makes the bus look for devices"),
    (Ends("/reset"), "it resets the device"),
];

/// Refuses what has no inverse, and paths that do not stay where they seem to lead.
pub(crate) fn check(path: &str) -> Result<(), Error> {
    let refuse = |reason: &str| Err(Error::NotASetting { path: path.to_owned(), reason: reason.to_owned() });
    if !(path.starts_with("/sys/") || path.starts_with("/proc/sys/")) {
        return refuse("settings live under /sys and /proc/sys");
    }
    if path.split('/').skip(1).any(|part| matches!(part, "" | "." | "..")) || path.contains('\0') {
        return refuse("the path is not in its plain form");
    }
    let act = ACTS.iter().find(|(place, _)| match place {
        Is(whole) => path == *whole,
        Ends(end) => path.ends_with(end),
        Within(folder) => path.starts_with(folder),
    });
    act.map_or(Ok(()), |(_, reason)| refuse(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_without_an_inverse_are_refused() {
        for path in [
            "/proc/sys/vm/drop_caches",
            "/proc/sys/kernel/modules_disabled",
            "/sys/power/state",
            "/sys/block/md0/md/array_state",
            "/sys/block/sda/device/delete",
            "/sys/devices/system/cpu/cpu1/online",
        ] {
            assert!(matches!(check(path), Err(Error::NotASetting { .. })), "{path}");
        }
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_refused() {
        for path in ["/etc/passwd", "/sys/../etc/passwd", "/sys//x", "/proc/1/oom_adj", "sys/x", "/sys/x/"] {
            assert!(check(path).is_err(), "{path}");
        }
        assert!(check("/sys/block/sda/queue/iosched/read_expire").is_ok());
    }
}
