//! Programs that change the same settings as Flyball would.

use super::reader::Reader;
use domain::inventory::Rival;
use std::collections::BTreeSet;

/// How one of them is known.
struct Known {
    name: &'static str,
    /// `/proc/PID/comm`, which holds 15 characters; `None` for one that does not stay in memory.
    process: Option<&'static str>,
    units: &'static [&'static str],
    changes: &'static str,
}

const KNOWN: [Known; 9] = [
    Known {
        name: "tuned",
        process: Some("tuned"),
        units: &["tuned.service"],
        changes: "governor, EPP, read-ahead, schedulers, vm.dirty_*, by its profile",
    },
    Known {
        name: "power-profiles-daemon",
        process: Some("power-profiles-"),
        units: &["power-profiles-daemon.service"],
        changes: "EPP and turbo, by its profile",
    },
    Known {
        name: "TLP",
        process: None,
        units: &["tlp.service"],
        changes: "governor, EPP, turbo and disk power, at boot and when the power supply changes",
    },
    Known {
        name: "auto-cpufreq",
        process: Some("auto-cpufreq"),
        units: &["auto-cpufreq.service"],
        changes: "governor, EPP and turbo, by load",
    },
    Known {
        name: "thermald",
        process: Some("thermald"),
        units: &["thermald.service"],
        changes: "frequency and power limits, by temperature",
    },
    Known {
        name: "irqbalance",
        process: Some("irqbalance"),
        units: &["irqbalance.service"],
        changes: "which CPU serves a disk's interrupts",
    },
    Known {
        name: "cpufrequtils",
        process: None,
        units: &["cpufrequtils.service", "loadcpufreq.service"],
        changes: "governor, once at boot",
    },
    Known {
        name: "cpupower",
        process: None,
        units: &["cpupower.service"],
        changes: "governor, once at boot",
    },
    Known {
        name: "ondemand",
        process: None,
        units: &["ondemand.service"],
        changes: "governor, once after boot",
    },
];

/// Where units are installed, and where links to enabled ones stand.
const UNIT_FOLDERS: [&str; 3] = ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];

/// The `comm` of every process that is looked for; a recording keeps these alone.
pub fn process_names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().filter_map(|known| known.process)
}

/// The units that are looked for, likewise.
pub fn unit_names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().flat_map(|known| known.units.iter().copied())
}

/// The programs on this machine that change the same settings as Flyball would; quicker than a whole
/// inventory.
pub fn rivals(machine: &dyn crate::Machine) -> Vec<Rival> {
    take(&Reader::new(machine))
}

pub(super) fn take(reader: &Reader) -> Vec<Rival> {
    let running = running(reader);
    let installed: BTreeSet<String> = UNIT_FOLDERS.iter().flat_map(|folder| reader.names(folder)).collect();
    let enabled = enabled(reader);
    let rival = |known: &Known| {
        let runs = known.process.is_some_and(|p| running.contains(p));
        let has_unit = known.units.iter().any(|unit| installed.contains(*unit));
        (runs || has_unit).then(|| Rival {
            name: known.name.to_owned(),
            running: runs,
            enabled: has_unit.then(|| known.units.iter().any(|unit| enabled.contains(*unit))),
            profile: profile(reader, known.name),
            changes: known.changes.to_owned(),
        })
    };
    KNOWN.iter().filter_map(rival).collect()
}

fn running(reader: &Reader) -> BTreeSet<String> {
    let processes = reader.names("/proc").into_iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    processes.filter_map(|pid| reader.text(&format!("/proc/{pid}/comm"))).collect()
}

/// Units that some target wants at boot.
fn enabled(reader: &Reader) -> BTreeSet<String> {
    let folder = UNIT_FOLDERS[0];
    let targets = reader.names(folder).into_iter().filter(|name| name.ends_with(".wants"));
    targets.flat_map(|target| reader.names(&format!("{folder}/{target}"))).collect()
}

fn profile(reader: &Reader, name: &str) -> Option<String> {
    match name {
        "tuned" => reader.text("/etc/tuned/active_profile"),
        "power-profiles-daemon" => {
            let state = reader.text("/var/lib/power-profiles-daemon/state.ini")?;
            state.lines().find_map(|line| line.strip_prefix("Profile=").map(str::to_owned))
        }
        _ => None,
    }
}
