//! Records this machine as a folder that `flyball inspect --root` and tests can read; the format stands in
//! `machine::recorded`.
//!
//! Left out: serial numbers, world-wide names, UUIDs, the host's name and the machine id. Not left out, so
//! look it over before you hand it on: the command line, mount points, and paths of files behind loop
//! devices.

use machine::{LocalMachine, Machine};
use parse::kernel::dm::owner;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Trees of sysfs, with how many folders deep they are read.
const TREES: [(&str, usize); 6] = [
    ("/sys/devices/system/cpu", 4),
    ("/sys/devices/system/clocksource", 1),
    ("/sys/bus/event_source/devices/msr/events", 0),
    ("/sys/bus/event_source/devices/power/events", 0),
    ("/sys/kernel/mm/transparent_hugepage", 0),
    ("/sys/class/dmi/id", 0),
];

/// Folders whose entries are links to what is recorded, with how deep that is read.
const LINKED: [(&str, usize); 2] = [("/sys/block", 3), ("/sys/class/powercap", 1)];

/// Single files of sysfs.
const FILES: [&str; 5] = [
    "/sys/devices/cpu_core/cpus",
    "/sys/devices/cpu_atom/cpus",
    "/sys/devices/cpu_lowpower/cpus",
    "/sys/kernel/debug/sched/preempt",
    "/sys/hypervisor/type",
];

/// Of a disk's own device, which stands above it in the tree.
const OF_DEVICE: [&str; 3] = ["device/model", "device/vendor", "device/name"];

/// Folders of sysfs that say nothing of how fast a machine is, or very much of little.
const SKIPPED_FOLDERS: [&str; 10] = [
    "cache",
    "crash_hotplug",
    "driver",
    "firmware_node",
    "hotplug",
    "integrity",
    "iosched",
    "microcode",
    "subsystem",
    "trace",
];

/// Files that tell one machine from another of its kind, or change with every look.
const SKIPPED_FILES: [&str; 20] = [
    "board_asset_tag",
    "board_serial",
    "chassis_asset_tag",
    "chassis_serial",
    "diskseq",
    "eui",
    "inflight",
    "modalias",
    "nguid",
    "nsid",
    "product_serial",
    "product_uuid",
    "serial",
    "stat",
    "trans_table",
    "uevent",
    "uuid",
    "vpd_pg80",
    "vpd_pg83",
    "wwid",
];

/// The only files of a `power` folder that anybody needs.
const KEPT_OF_POWER: [&str; 2] = ["energy_perf_bias", "pm_qos_resume_latency_us"];

/// Whole files; a `*` stands for every name.
const WHOLE: [&str; 17] = [
    "/.dockerenv",
    "/etc/os-release",
    "/etc/tuned/active_profile",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/cpuinfo",
    "/proc/fs/ext4/*/options",
    "/proc/mdstat",
    "/proc/meminfo",
    "/proc/mounts",
    "/proc/partitions",
    "/proc/self/mountinfo",
    "/proc/stat",
    "/proc/sys/vm/*",
    "/proc/version",
    "/run/.containerenv",
    "/run/systemd/container",
];

/// Commands that only show something.
const COMMANDS: [&[&str]; 2] = [&["dmsetup", "table"], &["systemd-detect-virt", "--vm"]];

/// How long one of them may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(5);

/// The longest value that is kept: sysfs gives a page at most.
const LONGEST_VALUE: usize = 4096;

/// Records the machine whose `/proc` and `/sys` stand below `root` into the new folder `out`. Commands are
/// run where `root` is `/` alone; a copy of a machine may bring what they printed, in a folder `commands`.
///
/// # Errors
/// Where `out` is there already or cannot be written. What cannot be read is left out.
pub fn record_machine(root: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir(out)
        .map_err(|e| format!("cannot record into `{}`: {e}; name a new folder", out.display()))?;
    let root = fs::canonicalize(root)?;
    let mut tree = Tree { root: root.clone(), files: BTreeMap::new(), links: BTreeMap::new() };
    tree.record_all();
    fs::create_dir(out.join("sys"))?;
    fs::write(out.join("sys/inlinefiles.txt"), tree.files_text())?;
    fs::write(out.join("sys/links.txt"), tree.links_text())?;
    for path in whole_files(&root) {
        copy(&root, &path, out)?;
    }
    record_rivals(&root, out)?;
    if root == Path::new("/") { record_commands(out) } else { copy_commands(&root, out) }
}

fn copy_commands(root: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    expand(root, "/commands/*").iter().try_for_each(|path| Ok(copy(root, path, out)?))
}

/// What was found in sysfs, by real paths.
struct Tree {
    root: PathBuf,
    files: BTreeMap<PathBuf, (bool, String)>,
    links: BTreeMap<PathBuf, PathBuf>,
}

impl Tree {
    fn record_all(&mut self) {
        for (path, depth) in TREES {
            self.tree(Path::new(path), depth);
        }
        for (folder, depth) in LINKED {
            for name in names(&self.root, Path::new(folder)) {
                let path = Path::new(folder).join(name);
                self.tree(&path, depth);
                OF_DEVICE.iter().for_each(|file| self.file(&path.join(file)));
            }
        }
        for node in names(&self.root, Path::new("/sys/devices/system/node")) {
            self.file(&Path::new("/sys/devices/system/node").join(node).join("cpulist"));
        }
        FILES.iter().for_each(|file| self.file(Path::new(file)));
    }

    /// A folder with what lies below, links as links.
    fn tree(&mut self, folder: &Path, depth: usize) {
        let Some(folder) = self.real(folder) else { return };
        for name in names(&self.root, &folder) {
            let path = folder.join(&name);
            let Ok(found) = fs::symlink_metadata(self.here(&path)) else { continue };
            if found.is_symlink() {
                self.link(&path);
            } else if found.is_dir() && depth > 0 && !SKIPPED_FOLDERS.contains(&name.as_str()) {
                self.tree(&path, depth - 1);
            } else if found.is_file() && is_kept(&folder, &name) {
                self.file(&path);
            }
        }
    }

    fn file(&mut self, path: &Path) {
        let Some(path) = self.real(path) else { return };
        let here = self.here(&path);
        let (Ok(bytes), Ok(found)) = (fs::read(&here), fs::metadata(&here)) else { return };
        if let Ok(text) = String::from_utf8(bytes)
            && text.len() <= LONGEST_VALUE
            && !text.contains('\0')
        {
            let writable = found.permissions().mode() & 0o200 != 0;
            // The UUID of a mapping begins with who made it, which is needed; the rest tells machines apart.
            let text = if path.ends_with("dm/uuid") { owner(&text).unwrap_or_default() } else { text };
            self.files.insert(path, (writable, text));
        }
    }

    /// The path without links, each of which is recorded; `None` where it leads nowhere.
    fn real(&mut self, path: &Path) -> Option<PathBuf> {
        let mut real = PathBuf::from("/");
        for part in path.strip_prefix("/").ok()? {
            let next = real.join(part);
            self.link(&next);
            let resolved = fs::canonicalize(self.here(&next)).ok()?;
            real = Path::new("/").join(resolved.strip_prefix(&self.root).ok()?);
        }
        Some(real)
    }

    fn link(&mut self, path: &Path) {
        if let Ok(target) = fs::read_link(self.here(path)) {
            self.links.insert(path.to_owned(), target);
        }
    }

    fn here(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn files_text(&self) -> String {
        let mut text = "# Format: <ro|rw>|<path>|<value>, one line for each line of the file\n".to_owned();
        for (path, (writable, value)) in &self.files {
            let mode = if *writable { "rw" } else { "ro" };
            // A file without a line is recorded with an empty one.
            for line in value.lines().chain(value.is_empty().then_some("")) {
                writeln!(text, "{mode}|{}|{line}", path.display()).expect("a string takes everything");
            }
        }
        text
    }

    fn links_text(&self) -> String {
        let line =
            |(path, target): (&PathBuf, &PathBuf)| format!("{}|{}\n", path.display(), target.display());
        self.links.iter().map(line).collect()
    }
}

fn is_kept(folder: &Path, name: &str) -> bool {
    let of_power = folder.file_name().is_some_and(|f| f == "power");
    let of_dm = folder.file_name().is_some_and(|f| f == "dm");
    (of_dm && name == "uuid")
        || (!SKIPPED_FILES.contains(&name) && (!of_power || KEPT_OF_POWER.contains(&name)))
}

fn names(root: &Path, folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root.join(folder.strip_prefix("/").unwrap_or(folder))) else {
        return Vec::new();
    };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The whole files that are there, and the kernel's configuration.
fn whole_files(root: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = WHOLE.iter().flat_map(|pattern| expand(root, pattern)).collect();
    if let Ok(release) = fs::read_to_string(root.join("proc/sys/kernel/osrelease")) {
        found.push(PathBuf::from(format!("/boot/config-{}", release.trim())));
    }
    found.retain(|path| path.parent() != Some(Path::new("/proc/sys/vm")) || is_writeback(path));
    found
}

fn is_writeback(path: &Path) -> bool {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    name.starts_with("dirty_") || name == "swappiness"
}

fn expand(root: &Path, pattern: &str) -> Vec<PathBuf> {
    match pattern.split_once("/*") {
        Some((folder, rest)) => names(root, Path::new(folder))
            .iter()
            .map(|name| PathBuf::from(format!("{folder}/{name}{rest}")))
            .collect(),
        None => vec![PathBuf::from(pattern)],
    }
}

/// Copies a file where there is one; its text, not its kind: `/proc/self` becomes a folder.
fn copy(root: &Path, path: &Path, out: &Path) -> io::Result<()> {
    let inside = path.strip_prefix("/").unwrap_or(path);
    match fs::read(root.join(inside)) {
        Ok(bytes) => put(&out.join(inside), &bytes),
        Err(_) => Ok(()),
    }
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(path.parent().expect("a file in a folder"))?;
    fs::write(path, bytes)
}

/// Of all processes and units, those alone that change what Flyball changes. Of a unit its being there
/// counts.
fn record_rivals(root: &Path, out: &Path) -> io::Result<()> {
    for path in expand(root, "/proc/*/comm") {
        let inside = path.strip_prefix("/").unwrap_or(&path);
        let name = fs::read_to_string(root.join(inside)).unwrap_or_default();
        if machine::inventory::process_names().any(|known| known == name.trim()) {
            put(&out.join(inside), name.as_bytes())?;
        }
    }
    let targets = expand(root, "/etc/systemd/system/*").into_iter();
    let mut folders: Vec<PathBuf> =
        targets.filter(|path| path.extension().is_some_and(|e| e == "wants")).collect();
    folders.extend(["/etc/systemd/system", "/usr/lib/systemd/system"].map(PathBuf::from));
    for folder in folders {
        let inside = folder.strip_prefix("/").unwrap_or(&folder);
        for unit in machine::inventory::unit_names().map(|unit| inside.join(unit)) {
            if fs::symlink_metadata(root.join(&unit)).is_ok() {
                put(&out.join(unit), b"")?;
            }
        }
    }
    Ok(())
}

fn record_commands(out: &Path) -> Result<(), Box<dyn Error>> {
    for (index, argv) in COMMANDS.iter().enumerate() {
        let Ok(output) = LocalMachine.run(argv, COMMAND_LIMIT) else { continue };
        let (Some(code), stdout) = (output.code, String::from_utf8_lossy(&output.stdout)) else { continue };
        let text = format!("$ {}\nexit {code}\n{stdout}", argv.join(" "));
        put(&out.join(format!("commands/{index}.txt")), text.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::inventory::{BlockKind, Inventory};
    use machine::RecordedMachine;

    #[test]
    fn a_recorded_machine_has_the_inventory_of_the_machine_itself() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("this");
        record_machine(Path::new("/"), &out).unwrap();
        let there = machine::inventory::take(&RecordedMachine::open(&out).unwrap()).unwrap();
        let here = machine::inventory::take(&LocalMachine).unwrap();
        assert_eq!(there.cpus, here.cpus);
        assert_eq!(there.kernel.command_line, here.kernel.command_line);
        assert_eq!((there.kernel.hz, &there.kernel.sysctls), (here.kernel.hz, &here.kernel.sysctls));
        assert_eq!(there.cpufreq.is_some(), here.cpufreq.is_some());
        // Other tests may set up loop devices meanwhile: disks alone stay as they are.
        let settings = |i: &Inventory| -> Vec<_> {
            let disks = i.devices.iter().filter(|d| d.kind == BlockKind::Disk);
            disks.map(|d| (d.name.clone(), d.size, d.queue.clone(), i.mounts_of(&d.name).count())).collect()
        };
        assert_eq!(settings(&there), settings(&here));
        assert!(there.devices.iter().all(|d| d.serial.is_none() && d.wwn.is_none()));
        assert_eq!((there.host, there.virtualisation.machine_id_digest), (None, None));
    }

    #[test]
    fn an_existing_folder_is_not_written_into() {
        let folder = tempfile::tempdir().unwrap();
        let error = record_machine(Path::new("/"), folder.path()).unwrap_err().to_string();
        assert!(error.contains("name a new folder"), "{error}");
    }
}
