//! What decides results besides the settings of a study, read at a trial's start, by short names.
//!
//! A name whose value the machine does not show is left out.

use machine::settings::whole_disk;
use machine::{Machine, inventory};
use parse::kernel::mounts::{self, MountInfo};
use parse::kernel::{cpuinfo, meminfo, selection};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The environment of a trial: short name to value.
pub type Environment = BTreeMap<String, String>;

/// How many layers of block devices are followed downwards; more than 8 (loop, filesystem, LVM, crypt, md,
/// partition, disk) is a loop in the reading.
const MAX_LAYERS: usize = 16;

/// What does not change while the machine runs; read once a study.
pub fn fixed(machine: &dyn Machine) -> Environment {
    let mut all = Environment::new();
    let cpuinfo = machine.text("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpuinfo::parse(&cpuinfo).ok().and_then(|all| all.into_iter().next());
    let memory = machine.text("/proc/meminfo").and_then(|text| meminfo::parse(&text).ok()?.total);
    let hz = inventory::kernel(machine).ok().and_then(|kernel| kernel.hz);
    put(&mut all, "kernel", machine.text("/proc/sys/kernel/osrelease"));
    put(&mut all, "kernel_version", machine.text("/proc/sys/kernel/version"));
    put(&mut all, "cpu_model", cpu.as_ref().and_then(|cpu| cpu.name).map(str::to_owned));
    put(&mut all, "microcode", cpu.as_ref().and_then(|cpu| cpu.microcode).map(str::to_owned));
    put(&mut all, "memory", memory.map(|bytes| bytes.to_string()));
    put(&mut all, "hz", hz.map(|hz| hz.to_string()));
    put(&mut all, "hypervisor", hypervisor(machine));
    all
}

/// What may be different from trial to trial.
pub fn now(machine: &dyn Machine) -> Environment {
    let mut all = Environment::new();
    let cpu = "/sys/devices/system/cpu";
    put(&mut all, "cpus_online", machine.text(&format!("{cpu}/online")));
    put(&mut all, "smt", machine.text(&format!("{cpu}/smt/control")));
    put(&mut all, "mitigations", mitigations(machine));
    put(
        &mut all,
        "clocksource",
        machine.text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    );
    put(&mut all, "thp", machine.text("/sys/kernel/mm/transparent_hugepage/enabled").map(|t| chosen(&t)));
    put(&mut all, "cpuidle_driver", machine.text(&format!("{cpu}/cpuidle/current_driver")));
    put(&mut all, "cpuidle_governor", machine.text(&format!("{cpu}/cpuidle/current_governor")));
    put(&mut all, "no_turbo", machine.text(&format!("{cpu}/intel_pstate/no_turbo")));
    put(&mut all, "boost", machine.text(&format!("{cpu}/cpufreq/boost")));
    put(&mut all, "pstate_status", machine.text(&format!("{cpu}/intel_pstate/status")));
    put(&mut all, "pstate_status", machine.text(&format!("{cpu}/amd_pstate/status")));
    put(&mut all, "loadavg", machine.text("/proc/loadavg"));
    put(&mut all, "power_source", power_source(machine));
    for (name, file) in [
        ("cpufreq_driver", "scaling_driver"),
        ("governor", "scaling_governor"),
        ("epp", "energy_performance_preference"),
        ("min_freq", "scaling_min_freq"),
        ("max_freq", "scaling_max_freq"),
    ] {
        put(&mut all, name, policies(machine, file));
    }
    all
}

/// What lies below a target: filesystem, mount options, devices and their queues. `device` is the loop device
/// over `file`, or `file` itself, where it is a device.
pub fn below(machine: &dyn Machine, file: &Path, device: Option<&str>) -> Environment {
    let mut all = Environment::new();
    // A device's node lies on a filesystem too, which has nothing to do with the device.
    let is_device = fs::metadata(file).is_ok_and(|m| m.file_type().is_block_device());
    if let Some(mount) = mount_of(machine, file).filter(|_| !is_device) {
        all.insert("filesystem".into(), mount.filesystem);
        all.insert("mount_options".into(), mount.options.join(","));
        all.insert("mount_device".into(), mount.source);
    }
    let mut devices: Vec<String> = device.map(str::to_owned).into_iter().collect();
    devices.extend(devices_below(machine, file));
    devices.dedup();
    if devices.is_empty() {
        return all;
    }
    all.insert("device".into(), devices[0].clone());
    all.insert("devices".into(), devices.join(" > "));
    for name in ["scheduler", "read_ahead_kb", "nr_requests", "rotational", "write_cache"] {
        let value = |device: &String| {
            let text = machine.text(&format!("/sys/block/{device}/queue/{name}"))?;
            Some((device.clone(), chosen(&text)))
        };
        put(&mut all, name, folded(devices.iter().filter_map(value).collect()));
    }
    all
}

/// The block devices below a file, folder or block device, nearest first: `loop0`, then what its file lies
/// on. A partition is named by its disk, whose queue it uses. Empty where there is none (tmpfs, a network).
pub fn devices_below(machine: &dyn Machine, path: &Path) -> Vec<String> {
    let Ok(metadata) = fs::metadata(path) else { return Vec::new() };
    let number = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    let first = device_of_number(machine, number).or_else(|| {
        // btrfs and others give files a number of no block device; the mount table knows the device.
        let device = mount_of(machine, path)?.source;
        device_of_number(machine, fs::metadata(device).ok()?.rdev())
    });
    let mut found = Vec::new();
    let mut next: Vec<String> = first.into_iter().collect();
    for _ in 0..MAX_LAYERS {
        let fresh: Vec<String> = next.drain(..).filter(|device| !found.contains(device)).collect();
        if fresh.is_empty() {
            break;
        }
        next = fresh.iter().flat_map(|device| lower(machine, device)).collect();
        found.extend(fresh);
    }
    found
}

/// The disk of a device number, through `/sys/dev/block`.
fn device_of_number(machine: &dyn Machine, number: u64) -> Option<String> {
    let link = format!("/sys/dev/block/{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let target = machine.link(Path::new(&link)).ok()?;
    whole_disk(machine, &target.file_name()?.to_string_lossy())
}

/// What a device lies on: the members of an array or mapping, or the devices below a loop's file.
fn lower(machine: &dyn Machine, device: &str) -> Vec<String> {
    let folder = PathBuf::from(format!("/sys/block/{device}/slaves"));
    let slaves = machine.list(&folder).unwrap_or_default();
    let mut found: Vec<String> = slaves.iter().filter_map(|name| whole_disk(machine, name)).collect();
    let backing = machine.text(&format!("/sys/block/{device}/loop/backing_file"));
    let number = backing.and_then(|file| fs::metadata(file).ok()).map(|m| m.dev());
    found.extend(number.and_then(|number| device_of_number(machine, number)));
    found
}

/// The mount that a path lies on: the longest mount point that begins it, the last of those
/// (proc_pid_mountinfo(5)).
fn mount_of(machine: &dyn Machine, path: &Path) -> Option<MountInfo> {
    let path = fs::canonicalize(path).ok()?;
    mount_in(&machine.text("/proc/self/mountinfo")?, &path)
}

fn mount_in(mountinfo: &str, path: &Path) -> Option<MountInfo> {
    let holding = mounts::mountinfo(mountinfo).flatten().filter(|m| path.starts_with(&m.mountpoint));
    holding.max_by_key(|m| Path::new(&m.mountpoint).components().count())
}

/// A value of every cpufreq policy, as one where they agree.
fn policies(machine: &dyn Machine, file: &str) -> Option<String> {
    let folder = "/sys/devices/system/cpu/cpufreq";
    let names = machine.list(Path::new(folder)).unwrap_or_default();
    let value = |policy: &String| Some((policy.clone(), machine.text(&format!("{folder}/{policy}/{file}"))?));
    folded(names.iter().filter(|name| name.starts_with("policy")).filter_map(value).collect())
}

/// `mq-deadline` where all agree, else `vda: none; sda: mq-deadline`.
fn folded(values: Vec<(String, String)>) -> Option<String> {
    let (_, first) = values.first()?;
    if values.iter().all(|(_, value)| value == first) {
        return Some(first.clone());
    }
    Some(values.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("; "))
}

/// The word in force of `none [mq-deadline] kyber`, else the whole text.
fn chosen(text: &str) -> String {
    selection::parse(text).chosen.unwrap_or_else(|| text.to_owned())
}

/// How many vulnerabilities are mitigated or open, and a digest of the full texts, which tells two machines
/// apart.
fn mitigations(machine: &dyn Machine) -> Option<String> {
    let folder = "/sys/devices/system/cpu/vulnerabilities";
    let names = machine.list(Path::new(folder)).ok()?;
    let texts: Vec<String> = names
        .iter()
        .filter_map(|name| Some(format!("{name}: {}", machine.text(&format!("{folder}/{name}"))?)))
        .collect();
    let count = |word: &str| texts.iter().filter(|text| text.contains(word)).count();
    let digest = texts.join("\n").bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        // FNV-1a.
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Some(format!(
        "{} mitigated, {} vulnerable, digest {digest:016x}",
        count(": Mitigation"),
        count(": Vulnerable")
    ))
}

/// The hypervisor's name, or that there is one.
fn hypervisor(machine: &dyn Machine) -> Option<String> {
    let found = inventory::virtualisation(machine).ok()?;
    found.hypervisor.or_else(|| (found.hypervisor_flag == Some(true)).then(|| "unnamed".to_owned()))
}

/// `mains` or `battery`, on machines that have a choice.
fn power_source(machine: &dyn Machine) -> Option<String> {
    let folder = "/sys/class/power_supply";
    let mains: Vec<String> = machine
        .list(Path::new(folder))
        .ok()?
        .iter()
        .filter(|name| machine.text(&format!("{folder}/{name}/type")).as_deref() == Some("Mains"))
        .filter_map(|name| machine.text(&format!("{folder}/{name}/online")))
        .collect();
    let online = mains.iter().any(|state| state == "1");
    (!mains.is_empty()).then(|| if online { "mains" } else { "battery" }.to_owned())
}

fn put(all: &mut Environment, name: &str, value: Option<String>) {
    if let Some(value) = value.filter(|value| !value.is_empty()) {
        all.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::LocalMachine;

    #[test]
    fn this_machine_shows_its_kernel_and_cpus() {
        let fixed = fixed(&LocalMachine);
        assert!(fixed.contains_key("kernel"), "{fixed:?}");
        assert!(fixed.values().all(|value| !value.is_empty() && !value.contains('\n')));
        assert!(now(&LocalMachine).contains_key("cpus_online"));
    }

    #[test]
    fn the_nearest_mount_is_the_one_that_counts() {
        // A Debian server; the last line is a mount point with a space.
        let text = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
                    40 27 254:16 / /srv rw,noatime - xfs /dev/vdb rw,attr2\n\
                    41 40 0:30 / /srv/a\\040b rw - tmpfs tmp rw,size=1k\n";
        let at = |path: &str| {
            mount_in(text, Path::new(path)).map(|m| (m.filesystem, m.options.join(","), m.source)).unwrap()
        };
        assert_eq!(at("/home/x"), ("ext4".into(), "rw,relatime,discard".into(), "/dev/vda".into()));
        assert_eq!(at("/srv/x"), ("xfs".into(), "rw,noatime,attr2".into(), "/dev/vdb".into()));
        assert_eq!(at("/srv/a b/x").0, "tmpfs");
        assert_eq!(at("/srvx").0, "ext4");
    }

    #[test]
    fn values_fold_only_where_all_agree() {
        let values = |texts: [&str; 2]| {
            vec![("a".to_owned(), texts[0].to_owned()), ("b".to_owned(), texts[1].to_owned())]
        };
        assert_eq!(folded(values(["x", "x"])).as_deref(), Some("x"));
        assert_eq!(folded(values(["x", "y"])).as_deref(), Some("a: x; b: y"));
        assert_eq!(folded(vec![]), None);
    }

    #[test]
    fn the_word_in_brackets_is_the_choice() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("128"), "128");
        assert_eq!(chosen("write back"), "write back");
    }
}
