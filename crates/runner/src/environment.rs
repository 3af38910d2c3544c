//! What decides results besides the settings of a study, read at a trial's start, by short names.
//!
//! A name whose value the machine does not show is left out.

use domain::units::Bytes;
use machine::Machine;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The environment of a trial: short name to value.
pub type Environment = BTreeMap<String, String>;

/// How long reading the kernel's configuration may take.
const CONFIG_LIMIT: Duration = Duration::from_secs(5);

/// How many layers of block devices are followed downwards; more than 8 (loop, filesystem, LVM, crypt, md,
/// partition, disk) is a loop in the reading.
const MOST_LAYERS: usize = 16;

/// What does not change while the machine runs; read once a study.
pub fn fixed(machine: &dyn Machine) -> Environment {
    let mut all = Environment::new();
    let cpuinfo = machine.text("/proc/cpuinfo").unwrap_or_default();
    put(&mut all, "kernel", machine.text("/proc/sys/kernel/osrelease"));
    put(&mut all, "kernel_version", machine.text("/proc/sys/kernel/version"));
    put(&mut all, "cpu_model", field(&cpuinfo, "model name"));
    put(&mut all, "microcode", field(&cpuinfo, "microcode"));
    put(&mut all, "memory", machine.text("/proc/meminfo").and_then(|text| memory(&text)));
    put(&mut all, "hz", hz(machine));
    put(&mut all, "hypervisor", hypervisor(machine, &cpuinfo));
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

/// What lies below a target: filesystem, mount options, devices and their queues. `device` is the loop device over
/// `file`, where there is one.
pub fn below(machine: &dyn Machine, file: &Path, device: Option<&str>) -> Environment {
    let mut all = Environment::new();
    if let Some(mount) = mount_of(machine, file) {
        all.insert("filesystem".into(), mount.filesystem);
        all.insert("mount_options".into(), mount.options);
        all.insert("mount_device".into(), mount.device);
    }
    let mut devices: Vec<String> = device.map(str::to_owned).into_iter().collect();
    devices.extend(devices_below(machine, file));
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

/// The block devices below a file, folder or block device, nearest first: `loop0`, then what its file lies on. A
/// partition is named by its disk, whose queue it uses. Empty where there is none (tmpfs, a network).
pub fn devices_below(machine: &dyn Machine, path: &Path) -> Vec<String> {
    let Ok(metadata) = fs::metadata(path) else { return Vec::new() };
    let number = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    let first = device_of_number(machine, number).or_else(|| {
        // btrfs and others give files a number of no block device; the mount table knows the device.
        let device = mount_of(machine, path)?.device;
        device_of_number(machine, fs::metadata(device).ok()?.rdev())
    });
    let mut found = Vec::new();
    let mut next: Vec<String> = first.into_iter().collect();
    for _ in 0..MOST_LAYERS {
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
    disk_of(machine, &target)
}

/// `../../devices/…/block/sda/sda2` is a partition of `sda`.
fn disk_of(machine: &dyn Machine, target: &Path) -> Option<String> {
    let mut names = target.iter().rev().map(|name| name.to_string_lossy().into_owned());
    let name = names.next()?;
    if machine.list(Path::new(&format!("/sys/block/{name}"))).is_ok() { Some(name) } else { names.next() }
}

/// What a device lies on: the members of an array or mapping, or the devices below a loop's file.
fn lower(machine: &dyn Machine, device: &str) -> Vec<String> {
    let folder = PathBuf::from(format!("/sys/block/{device}/slaves"));
    let slaves = machine.list(&folder).unwrap_or_default();
    let disks = slaves.iter().filter_map(|name| {
        let target = machine.link(&Path::new("/sys/class/block").join(name)).ok()?;
        disk_of(machine, &target)
    });
    let mut found: Vec<String> = disks.collect();
    let backing = machine.text(&format!("/sys/block/{device}/loop/backing_file"));
    let number = backing.and_then(|file| fs::metadata(file).ok()).map(|m| m.dev());
    found.extend(number.and_then(|number| device_of_number(machine, number)));
    found
}

struct Mount {
    filesystem: String,
    options: String,
    device: String,
}

/// The mount that a path lies on: the longest mount point that begins it, the last of those (proc_pid_mountinfo(5)).
fn mount_of(machine: &dyn Machine, path: &Path) -> Option<Mount> {
    let path = fs::canonicalize(path).ok()?;
    mount_in(&machine.text("/proc/self/mountinfo")?, &path)
}

fn mount_in(mountinfo: &str, path: &Path) -> Option<Mount> {
    let read = |line: &str| {
        let (head, tail) = line.split_once(" - ")?;
        let mut head = head.split(' ').skip(4);
        let point = PathBuf::from(unescaped(head.next()?));
        let options = head.next()?;
        let mut tail = tail.split(' ');
        let (filesystem, device) = (tail.next()?.to_owned(), unescaped(tail.next()?));
        let options = format!("{options},{}", tail.next().unwrap_or_default());
        let mount = Mount { filesystem, options: deduplicated(&options), device };
        path.starts_with(&point).then_some((point.components().count(), mount))
    };
    mountinfo.lines().filter_map(read).max_by_key(|(depth, _)| *depth).map(|(_, mount)| mount)
}

/// The kernel writes space, tab, newline and backslash in octal there.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, character)| text.replace(code, character))
}

/// Options of the mount and of the filesystem overlap.
fn deduplicated(options: &str) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for option in options.split(',').filter(|o| !o.is_empty()) {
        if !seen.contains(&option) {
            seen.push(option);
        }
    }
    seen.join(",")
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

/// The word in brackets of `none [mq-deadline] kyber`, else the whole text.
fn chosen(text: &str) -> String {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(word, _)| word).to_owned()
}

/// How many vulnerabilities are mitigated or open, and a digest of the full texts, which tells two machines apart.
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

/// CONFIG_HZ of the running kernel, where its configuration can be read.
fn hz(machine: &dyn Machine) -> Option<String> {
    let release = machine.text("/proc/sys/kernel/osrelease")?;
    let config = machine.text(&format!("/boot/config-{release}")).or_else(|| {
        machine.read(Path::new("/proc/config.gz")).ok()?;
        let output = machine.run(&["zcat", "/proc/config.gz"], CONFIG_LIMIT).ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    })?;
    config.lines().find_map(|line| line.strip_prefix("CONFIG_HZ=")).map(str::to_owned)
}

fn hypervisor(machine: &dyn Machine, cpuinfo: &str) -> Option<String> {
    let virtual_cpu =
        field(cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|f| f == "hypervisor"));
    let name = machine.text("/sys/hypervisor/type").or_else(|| {
        let vendor = machine.text("/sys/class/dmi/id/sys_vendor")?;
        let product = machine.text("/sys/class/dmi/id/product_name")?;
        virtual_cpu.then(|| format!("{vendor} {product}"))
    });
    name.or_else(|| virtual_cpu.then(|| "unnamed".to_owned()))
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

fn memory(meminfo: &str) -> Option<String> {
    let kib = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib = kib.trim().trim_end_matches(" kB").parse().ok()?;
    Some(Bytes::from_kib(kib).to_string())
}

/// The first value of a key of `/proc/cpuinfo`.
fn field(cpuinfo: &str, key: &str) -> Option<String> {
    let mut pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
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
            mount_in(text, Path::new(path)).map(|m| (m.filesystem, m.options, m.device)).unwrap()
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
    }
}
