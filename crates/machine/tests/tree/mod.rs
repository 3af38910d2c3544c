//! A machine in memory that answers as the kernel does where that matters to undoing: governors whose
//! tunables come and go, limits that refuse to cross, files that round, ignore, refuse or vanish; and of
//! storage, that what something stands on cannot go.

#![allow(clippy::unwrap_used)]

use domain::Timestamp;
use machine::{CommandOutput, Held, Machine};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

pub const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq";
pub const INTEL_PSTATE: &str = "/sys/devices/system/cpu/intel_pstate";
pub const QUEUE: &str = "/sys/block/sda/queue";

const LATENCY: &str = "/dev/cpu_dma_latency";
const GOVERNORS: &str = "conservative ondemand userspace powersave performance schedutil";
const EINVAL: i32 = 22;
const EBUSY: i32 = 16;

const ROOT: &str = "21 1 253:0 / / rw,relatime - ext4 /dev/vda rw";
const NULL_BLK: &str = "/sys/kernel/config/nullb";

/// Where a governor's tunables lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunables {
    /// One folder, for as long as any policy uses the governor.
    Global,
    /// A folder in each policy.
    PerPolicy,
}

#[derive(Debug)]
pub struct Tree {
    files: RefCell<BTreeMap<String, String>>,
    /// Folders that may be empty; all others are there by the files in them.
    folders: RefCell<BTreeSet<String>>,
    tunables: Tunables,
    /// How often each file was written.
    pub writes: RefCell<BTreeMap<String, u32>>,
    /// Who holds a limit on the CPUs' latency, and which.
    limits: Limits,
}

/// Limits in microseconds, by who holds them.
type Limits = Rc<RefCell<BTreeMap<u32, i32>>>;

/// The device of PM QoS, open; closing it takes its limit back.
#[derive(Debug)]
pub struct OpenDevice {
    number: u32,
    limits: Limits,
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        self.limits.borrow_mut().remove(&self.number);
    }
}

impl Tree {
    /// Two policies, one disk, some sysctls; `governor` in use, with tunables that are not its defaults.
    pub fn new(tunables: Tunables, governor: &str) -> Self {
        let tree = Self {
            files: RefCell::default(),
            folders: RefCell::default(),
            tunables,
            writes: RefCell::default(),
            limits: Limits::default(),
        };
        tree.set("/proc/sys/kernel/random/boot_id", "boot-1");
        tree.set("/proc/self/mountinfo", ROOT);
        for policy in 0..2 {
            let at = |file: &str| format!("{CPUFREQ}/policy{policy}/{file}");
            tree.set(&at("related_cpus"), &policy.to_string());
            tree.set(&at("cpuinfo_min_freq"), "800000");
            tree.set(&at("cpuinfo_max_freq"), "3500000");
            tree.set(&at("scaling_min_freq"), "1200000");
            tree.set(&at("scaling_max_freq"), "2800000");
            tree.set(&at("scaling_available_governors"), GOVERNORS);
            tree.set(&at("scaling_governor"), "performance");
            tree.set(&at("energy_performance_preference"), "performance");
            tree.set(&format!("/sys/devices/system/cpu/cpu{policy}/cpuidle/state0/name"), "POLL");
            tree.set(&format!("/sys/devices/system/cpu/cpu{policy}/cpuidle/state1/name"), "C6");
            tree.set(&format!("/sys/devices/system/cpu/cpu{policy}/cpuidle/state1/disable"), "0");
            tree.set(&format!("/sys/devices/system/cpu/cpu{policy}/power/energy_perf_bias"), "6");
        }
        tree.set(&format!("{CPUFREQ}/boost"), "1");
        tree.set("/sys/block/sda/diskseq", "9");
        tree.set(&format!("{QUEUE}/scheduler"), "[none] mq-deadline bfq");
        tree.set(&format!("{QUEUE}/nr_requests"), "100");
        tree.set(&format!("{QUEUE}/read_ahead_kb"), "128");
        tree.set(&format!("{QUEUE}/wbt_lat_usec"), "75000");
        tree.set(&format!("{QUEUE}/rq_affinity"), "1");
        tree.set("/proc/sys/vm/dirty_ratio", "20");
        tree.set("/proc/sys/vm/dirty_bytes", "0");
        tree.set("/proc/sys/vm/swappiness", "60");
        for policy in 0..2 {
            tree.kernel_writes(&format!("{CPUFREQ}/policy{policy}/scaling_governor"), governor).unwrap();
        }
        let tuned: Vec<String> =
            tree.files.borrow().keys().filter(|k| k.ends_with("/up_threshold")).cloned().collect();
        tuned.iter().for_each(|path| tree.set(path, "40"));
        tree
    }

    /// The same with intel_pstate in active mode, and limits that are not its defaults.
    #[allow(dead_code, reason = "not every test has this driver")]
    pub fn with_intel_pstate(self) -> Self {
        for (file, value) in
            [("status", "active"), ("no_turbo", "1"), ("max_perf_pct", "90"), ("min_perf_pct", "20")]
        {
            self.set(&format!("{INTEL_PSTATE}/{file}"), value);
        }
        self
    }

    /// A driver is registered anew: everything that belonged to the old one starts from its defaults.
    fn switch_driver(&self, mode: &str) -> io::Result<()> {
        for (file, value) in
            [("status", mode), ("no_turbo", "0"), ("max_perf_pct", "100"), ("min_perf_pct", "22")]
        {
            self.set(&format!("{INTEL_PSTATE}/{file}"), value);
        }
        for policy in 0..2 {
            let folder = format!("{CPUFREQ}/policy{policy}");
            self.switch_governor(&folder, if mode == "active" { "powersave" } else { "schedutil" })?;
            self.set(&format!("{folder}/scaling_min_freq"), "800000");
            self.set(&format!("{folder}/scaling_max_freq"), "3500000");
            self.set(&format!("{folder}/energy_performance_preference"), "balance_performance");
        }
        Ok(())
    }

    /// Somebody holds a limit.
    #[allow(dead_code, reason = "not every test has another process")]
    pub fn limit(&self, limit_us: i32) -> OpenDevice {
        let limits = Rc::clone(&self.limits);
        let number = limits.borrow().last_key_value().map_or(0, |(last, _)| last + 1);
        limits.borrow_mut().insert(number, limit_us);
        OpenDevice { number, limits }
    }

    /// The strictest of all.
    fn limit_in_force(&self) -> i32 {
        self.limits.borrow().values().copied().min().unwrap_or(2_000_000_000)
    }

    pub fn set(&self, path: &str, value: &str) {
        self.files.borrow_mut().insert(path.to_owned(), value.to_owned());
    }

    pub fn get(&self, path: &str) -> Option<String> {
        self.files.borrow().get(path).cloned()
    }

    /// All files and values; of a folder that may be empty, that it is there.
    pub fn snapshot(&self) -> BTreeMap<String, String> {
        let folders = self.folders.borrow().iter().map(|path| (format!("{path}/"), String::new())).collect();
        let mut all: BTreeMap<String, String> = folders;
        all.extend(self.files.borrow().clone());
        if !self.limits.borrow().is_empty() {
            all.insert(LATENCY.to_owned(), self.limit_in_force().to_string());
        }
        all
    }

    /// A folder that may be empty.
    #[allow(dead_code, reason = "not every test has such")]
    pub fn make_folder(&self, path: &str) {
        self.folders.borrow_mut().insert(path.to_owned());
    }

    /// A device stands on others: `dm-0` on `loop8`, of number `7:8`.
    #[allow(dead_code, reason = "not every test has such")]
    pub fn stand_on(&self, name: &str, below: &[(&str, &str)]) {
        for (slave, number) in below {
            self.set(&format!("/sys/block/{name}/slaves/{slave}/dev"), number);
        }
    }

    /// Something is mounted on a folder, over whatever is there already.
    #[allow(dead_code, reason = "not every test has such")]
    pub fn mount(&self, number: &str, source: &str, folder: &str) {
        let all = self.get("/proc/self/mountinfo").unwrap();
        let line = format!("40 21 {number} / {folder} rw,relatime - ext4 {source} rw");
        self.set("/proc/self/mountinfo", &format!("{all}\n{line}"));
    }

    /// Whether another device stands on this one, or it is mounted.
    fn is_used(&self, name: &str) -> bool {
        let number = self.get(&format!("/sys/block/{name}/dev")).unwrap_or_default();
        let slave = format!("/slaves/{name}/dev");
        let mounted = self.get("/proc/self/mountinfo").unwrap();
        self.files.borrow().keys().any(|path| path.ends_with(&slave))
            || mounted.lines().any(|line| line.split(' ').nth(2) == Some(&number))
    }

    /// The kernel name of a device-mapper device.
    fn mapped(&self, name: &str) -> Option<String> {
        let files = self.files.borrow();
        let (path, _) = files.iter().find(|(path, value)| path.ends_with("/dm/name") && *value == name)?;
        path.split('/').nth(3).map(str::to_owned)
    }

    fn remove_device(&self, name: &str) -> Result<(), &'static str> {
        if self.is_used(name) {
            return Err("Device or resource busy");
        }
        self.remove(&format!("/sys/block/{name}"));
        Ok(())
    }

    fn unmount(&self, folder: &str) -> Result<(), &'static str> {
        let all = self.get("/proc/self/mountinfo").unwrap();
        let mut lines: Vec<&str> = all.lines().collect();
        let top = lines.iter().rposition(|line| line.split(' ').nth(4) == Some(folder));
        lines.remove(top.ok_or("not mounted")?);
        self.set("/proc/self/mountinfo", &lines.join("\n"));
        Ok(())
    }

    fn remove_folder(&self, path: &str) -> Result<(), &'static str> {
        let mounted = self.get("/proc/self/mountinfo").unwrap();
        if mounted.lines().any(|line| line.split(' ').nth(4) == Some(path)) {
            return Err("Device or resource busy");
        }
        self.remove(path);
        self.folders.borrow_mut().remove(path).then_some(()).ok_or("No such file or directory")
    }

    fn remove_module(&self, name: &str) -> Result<(), &'static str> {
        let device = format!("{NULL_BLK}/");
        if self.folders.borrow().iter().any(|path| path.starts_with(&device)) {
            return Err("Module is in use.");
        }
        self.remove(&format!("/sys/module/{name}"));
        Ok(())
    }

    fn command(&self, argv: &[&str]) -> Result<(), &'static str> {
        match argv {
            ["umount", folder] => self.unmount(folder),
            ["rmdir", folder] => self.remove_folder(folder),
            ["rm", "-rf", "--one-file-system", "--", folder] => {
                self.remove(folder);
                self.folders.borrow_mut().remove(*folder);
                Ok(())
            }
            ["mdadm", "--stop", node] => self.remove_device(node.trim_start_matches("/dev/")),
            ["dmsetup", "remove", "--retry", name] => {
                self.remove_device(&self.mapped(name).ok_or("No such device")?)
            }
            ["lvm", "vgchange", .., "--activate", "n", group] => {
                self.remove_device(&self.mapped(&format!("{group}-data")).ok_or("Volume group not found")?)
            }
            ["modprobe", "-r", name] => self.remove_module(name),
            other => panic!("no such command: {other:?}"),
        }
    }

    /// The object goes away with all of its files.
    pub fn remove(&self, folder: &str) {
        let inside = format!("{folder}/");
        self.files.borrow_mut().retain(|path, _| !path.starts_with(&inside) && path != folder);
    }

    fn number(&self, path: &str) -> u64 {
        self.get(path).unwrap().parse().unwrap()
    }

    fn kernel_writes(&self, path: &str, value: &str) -> io::Result<()> {
        let error = |code| Err(io::Error::from_raw_os_error(code));
        if !self.files.borrow().contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (folder, file) = path.rsplit_once('/').unwrap();
        match file {
            "scaling_governor" => return self.switch_governor(folder, value),
            "scheduler" => return self.switch_scheduler(folder, value),
            "status" => return self.switch_driver(value),
            "scaling_min_freq" | "scaling_max_freq" => {
                let Ok(khz) = value.parse::<u64>() else { return error(EINVAL) };
                // Rounded down to a step of 100 MHz, and clamped, as by a driver with a table.
                let khz = (khz / 100_000 * 100_000).clamp(800_000, 3_500_000);
                let other = if file == "scaling_min_freq" { "scaling_max_freq" } else { "scaling_min_freq" };
                let other = self.number(&format!("{folder}/{other}"));
                if (file == "scaling_min_freq" && khz > other) || (file == "scaling_max_freq" && khz < other)
                {
                    return error(EINVAL);
                }
                self.set(path, &khz.to_string());
                return Ok(());
            }
            "energy_performance_preference"
                if self.get(&format!("{folder}/scaling_governor")).as_deref() == Some("performance") =>
            {
                return error(EBUSY);
            }
            // The kernel counts read-ahead in pages.
            "read_ahead_kb" => {
                let Ok(kib) = value.parse::<u64>() else { return error(EINVAL) };
                self.set(path, &(kib / 4 * 4).to_string());
                return Ok(());
            }
            // Accepts everything and does nothing.
            "rq_affinity" => return Ok(()),
            "dirty_ratio" | "dirty_bytes" => {
                // Zero bytes are out of range, which is ignored; the other one of the pair goes off.
                if value == "0" {
                    return Ok(());
                }
                let other = if file == "dirty_ratio" { "dirty_bytes" } else { "dirty_ratio" };
                self.set(&format!("{folder}/{other}"), "0");
            }
            "energy_perf_bias" => return error(EINVAL),
            _ => {}
        }
        self.set(path, value);
        Ok(())
    }

    fn switch_governor(&self, folder: &str, new: &str) -> io::Result<()> {
        if !GOVERNORS.split(' ').any(|g| g == new) {
            return Err(io::Error::from_raw_os_error(EINVAL));
        }
        let path = format!("{folder}/scaling_governor");
        let old = self.get(&path).unwrap();
        if old == new {
            return Ok(());
        }
        self.set(&path, new);
        let used = |governor: &str| {
            (0..2).any(|p| {
                self.get(&format!("{CPUFREQ}/policy{p}/scaling_governor")).as_deref() == Some(governor)
            })
        };
        let place = |governor: &str| match self.tunables {
            Tunables::Global => format!("{CPUFREQ}/{governor}"),
            Tunables::PerPolicy => format!("{folder}/{governor}"),
        };
        if self.tunables == Tunables::PerPolicy || !used(&old) {
            self.remove(&place(&old));
        }
        let defaults: &[(&str, &str)] = match new {
            "ondemand" => &[("io_is_busy", "0"), ("sampling_down_factor", "1"), ("up_threshold", "95")],
            "conservative" => &[("down_threshold", "20"), ("up_threshold", "80")],
            "schedutil" => &[("rate_limit_us", "1000")],
            _ => &[],
        };
        for (file, value) in defaults {
            let path = format!("{}/{file}", place(new));
            if self.get(&path).is_none() {
                self.set(&path, value);
            }
        }
        // intel_pstate forces the preference while its governor is performance, and then gives its default.
        let epp = if new == "performance" { "performance" } else { "balance_performance" };
        self.set(&format!("{folder}/energy_performance_preference"), epp);
        Ok(())
    }

    fn switch_scheduler(&self, queue: &str, new: &str) -> io::Result<()> {
        let words = ["none", "mq-deadline", "bfq"];
        if !words.contains(&new) {
            return Err(io::Error::from_raw_os_error(EINVAL));
        }
        let shown = words.map(|w| if w == new { format!("[{w}]") } else { w.to_owned() });
        self.set(&format!("{queue}/scheduler"), &shown.join(" "));
        self.remove(&format!("{queue}/iosched"));
        let (requests, wbt) = match new {
            "none" => ("128", "75000"),
            "mq-deadline" => ("256", "75000"),
            _ => ("256", "0"),
        };
        if new == "mq-deadline" {
            self.set(&format!("{queue}/iosched/read_expire"), "500");
        }
        self.set(&format!("{queue}/nr_requests"), requests);
        self.set(&format!("{queue}/wbt_lat_usec"), wbt);
        Ok(())
    }
}

impl Machine for &Tree {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if path == Path::new(LATENCY) {
            return Ok(self.limit_in_force().to_ne_bytes().to_vec());
        }
        let text = self.get(path.to_str().unwrap()).ok_or(io::ErrorKind::NotFound)?;
        Ok(format!("{text}\n").into_bytes())
    }

    fn write(&self, path: &Path, value: &[u8]) -> io::Result<()> {
        let path = path.to_str().unwrap();
        *self.writes.borrow_mut().entry(path.to_owned()).or_default() += 1;
        self.kernel_writes(path, std::str::from_utf8(value).unwrap().trim())
    }

    fn hold(&self, path: &Path, value: &[u8]) -> io::Result<Held> {
        assert_eq!(path, Path::new(LATENCY));
        Ok(Box::new(self.limit(i32::from_ne_bytes(value.try_into().unwrap()))))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let inside = format!("{}/", folder.to_str().unwrap());
        let files = self.files.borrow();
        let names = files.keys().filter_map(|path| path.strip_prefix(&inside));
        let names: BTreeSet<String> = names.map(|rest| rest.split('/').next().unwrap().to_owned()).collect();
        if names.is_empty() && !self.folders.borrow().contains(folder.to_str().unwrap()) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(names.into_iter().collect())
    }

    fn link(&self, _: &Path) -> io::Result<PathBuf> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn run(&self, argv: &[&str], _: Duration) -> io::Result<CommandOutput> {
        let (code, said) = self.command(argv).map_or_else(|said| (1, said), |()| (0, ""));
        Ok(CommandOutput { code: Some(code), stdout: Vec::new(), stderr: said.into() })
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix_nanos(0)
    }
}
