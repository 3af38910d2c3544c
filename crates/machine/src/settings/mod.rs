//! Settings by short names: where each lives on this machine, and how its values are written.
//!
//! A name is one of the table ([`KNOWN`]), or of a family: `turbo`; a governor's tunable
//! (`ondemand.up_threshold`); a scheduler's (`iosched.read_expire`); `idle.C6.disable` or
//! `idle.state3.disable`; a sysctl (`vm.dirty_ratio`); a whole path under `/sys` or `/proc/sys`.
//!
//! Nothing here writes: that is the [ledger](crate::ledger)'s alone.

mod catalogue;
mod effects;
pub(crate) mod error;
mod guard;
mod identity;
pub mod listing;
mod survey;
mod sysctls;
mod tunables;
mod value;

pub use catalogue::{Form, KNOWN, Known, SYSCTL_ROOTS, Scope};
pub use error::Error;
pub use survey::{HeldValue, Surveyed, is_meant, survey};
pub use tunables::misspelt_value;
pub use value::same;

pub(crate) use effects::{RANKS, choices, kept_paths, order_limits, rank, twin};
pub(crate) use guard::check as check_path;
pub(crate) use identity::{Identity, component_after, identity};
pub(crate) use value::{is_rounding, means_absent, read, read_late};

use crate::Machine;
use domain::setting::{CPU_DMA_LATENCY, SettingName, latency_limit_us};
use std::io;
use std::path::Path;

pub(crate) const CPU: &str = "/sys/devices/system/cpu";
pub(crate) const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq";

/// The device of `kernel/power/qos.c`: a limit that is written to it lasts until it is closed, and it reads
/// as the strictest limit that anyone holds.
pub(crate) const LATENCY: &str = "/dev/cpu_dma_latency";

/// One file that a setting means on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The setting, with its object where it has one.
    pub setting: SettingName,
    /// The file.
    pub path: String,
    /// How its values are written.
    pub form: Form,
}

/// The files that a setting means here: one, or one for each policy or CPU. `target` is the study's block
/// device, which a block setting without an object means.
///
/// # Errors
/// [`Error::UnknownSetting`], [`Error::NeedsDevice`], [`Error::NotASetting`]; [`Error::Unsupported`] where
/// this machine does not have it (a governor's tunables are there only while that governor is in use).
pub fn resolve(
    machine: &dyn Machine,
    setting: &SettingName,
    target: Option<&str>,
) -> Result<Vec<Place>, Error> {
    let places = candidates(machine, setting, target)?;
    for place in places.iter().filter(|place| !is_held(&place.path)) {
        guard::check(&place.path)?;
    }
    let absent = |place: &Place| match machine.read(Path::new(&place.path)) {
        Ok(_) => None,
        Err(error) if means_absent(&error) => {
            Some(format!("there is no `{}`{}", place.path, sysctls::hint(machine, &place.path)))
        }
        // Whether it can be used shows when it is read for the ledger, with its error.
        Err(_) => None,
    };
    match places.iter().find_map(absent) {
        Some(reason) => Err(unsupported(setting, reason)),
        None => Ok(places),
    }
}

/// Whether the name is one that could exist on some machine.
///
/// # Errors
/// [`Error::UnknownSetting`].
pub fn check_name(setting: &SettingName) -> Result<(), Error> {
    let name = setting.name.as_str();
    let family = name.split_once('.').is_some_and(|(head, tail)| {
        !tail.is_empty() && (domain::cpufreq::has_tunables(head) || head == "iosched" || head == "idle")
    });
    let sysctl = SYSCTL_ROOTS.iter().any(|root| name.starts_with(root));
    let in_table = KNOWN.iter().any(|k| k.name == name);
    if in_table || family || sysctl || name == "turbo" || name.starts_with('/') {
        return Ok(());
    }
    let nearest = tunables::of_a_scheduler(name).or_else(|| catalogue::nearest(name));
    Err(Error::UnknownSetting { name: name.to_owned(), nearest })
}

/// Why a setting is written wrongly: it is none that is here, none that another kernel is known to have, and
/// almost one of those. `None` of any other: it may be another kernel's, and shows when it is used.
pub fn misspelt(machine: &dyn Machine, setting: &SettingName) -> Option<Error> {
    sysctls::misspelt(machine, setting).or_else(|| tunables::misspelt(machine, setting))
}

/// Why a setting of the CPUs' frequency policy can never be used here: there is no policy. `None` for any
/// other setting, and where there is one.
pub fn without_policy(machine: &dyn Machine, setting: &SettingName) -> Option<Error> {
    let name = setting.name.as_str();
    let of_policy = KNOWN.iter().any(|known| known.name == name && matches!(known.scope, Scope::Policy));
    let of_governor = name.split_once('.').is_some_and(|(head, _)| domain::cpufreq::has_tunables(head));
    let whole = SettingName { name: setting.name.clone(), object: None };
    (of_policy || of_governor).then(|| policies(machine, &whole).err()).flatten()
}

/// Why a limit on the CPUs' latency can never be held here: the kernel has no such device. `None` for any
/// other setting, and where there is one.
pub fn without_latency_device(machine: &dyn Machine, setting: &SettingName) -> Option<Error> {
    (setting.name == CPU_DMA_LATENCY).then(|| resolve(machine, setting, None).err()).flatten()
}

/// Whether a value there is in force only while a process holds the file open.
pub fn is_held(path: &str) -> bool {
    path == LATENCY
}

/// What writing 3 to `vm.drop_caches` does: forgets clean pages, directory entries and inodes. An act, not a
/// setting: there is nothing to put back. Call `sync` first, for dirty pages stay.
///
/// # Errors
/// As the kernel gives them; `PermissionDenied` without root.
pub fn drop_caches(machine: &dyn Machine) -> io::Result<()> {
    machine.write(Path::new("/proc/sys/vm/drop_caches"), b"3")
}

/// Has an array of RAID4, 5 or 6 forget the stripes by which its cache has grown beyond its
/// `stripe_cache_size`: under load it grows, one stripe at a time, and nothing makes it shrink but want of
/// memory (`drivers/md/raid5.c`: `raid5d`, `raid5_cache_scan`). Writing the size that it has drops what is
/// above (`raid5_set_cache_size`). An act, as above.
///
/// False where the device has no such cache.
///
/// # Errors
/// As the kernel gives them.
pub fn forget_grown_stripes(machine: &dyn Machine, device: &str) -> io::Result<bool> {
    let path = format!("/sys/block/{device}/md/stripe_cache_size");
    match machine.text(&path) {
        Some(size) => machine.write(Path::new(&path), size.as_bytes()).map(|()| true),
        None => Ok(false),
    }
}

fn unsupported(setting: &SettingName, reason: impl Into<String>) -> Error {
    Error::Unsupported { setting: setting.to_string(), reason: reason.into() }
}

fn candidates(
    machine: &dyn Machine,
    setting: &SettingName,
    target: Option<&str>,
) -> Result<Vec<Place>, Error> {
    check_name(setting)?;
    let name = setting.name.as_str();
    if let Some(known) = KNOWN.iter().find(|k| k.name == name) {
        return in_table(machine, setting, known, target);
    }
    if name.starts_with('/') {
        return Ok(vec![place(setting, None, name.to_owned(), Form::Plain)]);
    }
    if name == "turbo" {
        return turbo(machine, setting);
    }
    match name.split_once('.') {
        Some(("idle", tail)) => idle(machine, setting, tail),
        Some(("iosched", tail)) => {
            let disk = disk(machine, setting, target)?;
            let path = format!("/sys/block/{disk}/queue/iosched/{tail}");
            Ok(vec![place(setting, Some(&disk), path, Form::Plain)])
        }
        Some((governor, tail)) if domain::cpufreq::has_tunables(governor) => {
            tunable(machine, setting, governor, tail)
        }
        _ => {
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            Ok(vec![place(setting, None, path, Form::Plain)])
        }
    }
}

fn in_table(
    machine: &dyn Machine,
    setting: &SettingName,
    known: &Known,
    target: Option<&str>,
) -> Result<Vec<Place>, Error> {
    let at = |object: &str, folder: &str| {
        place(setting, Some(object), format!("{folder}/{object}/{}", known.file), known.form)
    };
    match known.scope {
        Scope::Machine => Ok(vec![place(setting, None, format!("{CPU}/{}", known.file), known.form)]),
        Scope::Policy => Ok(policies(machine, setting)?.iter().map(|p| at(p, CPUFREQ)).collect()),
        Scope::Cpu => Ok(cpus(machine, setting)?.iter().map(|c| at(c, CPU)).collect()),
        Scope::Held if setting.object.is_some() => Err(unsupported(
            setting,
            "the limit is one for the whole machine; leave out what follows the `@`",
        )),
        Scope::Held => Ok(vec![place(setting, None, format!("/dev/{}", known.file), known.form)]),
        Scope::Block => {
            let disk = disk(machine, setting, target)?;
            Ok(vec![at(&disk, "/sys/block")])
        }
    }
}

fn place(setting: &SettingName, object: Option<&str>, path: String, form: Form) -> Place {
    let object = object.map(str::to_owned).or_else(|| setting.object.clone());
    Place { setting: SettingName { name: setting.name.clone(), object }, path, form }
}

/// The names in `folder` that are `prefix` and a number, in the order of the numbers.
pub(crate) fn numbered(machine: &dyn Machine, folder: &str, prefix: &str) -> Vec<String> {
    let names = machine.list(Path::new(folder)).unwrap_or_default();
    let number = |name: &String| name.strip_prefix(prefix)?.parse::<u32>().ok();
    let mut found: Vec<(u32, String)> = names.into_iter().filter_map(|n| Some((number(&n)?, n))).collect();
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

/// The policies that a setting means: the one named, the one that a named CPU belongs to, or all.
fn policies(machine: &dyn Machine, setting: &SettingName) -> Result<Vec<String>, Error> {
    let all = numbered(machine, CPUFREQ, "policy");
    let Some(object) = &setting.object else {
        if all.is_empty() {
            return Err(unsupported(setting, "this machine has no cpufreq policy"));
        }
        return Ok(all);
    };
    if all.contains(object) {
        return Ok(vec![object.clone()]);
    }
    let link = object
        .strip_prefix("cpu")
        .and_then(|_| machine.link(Path::new(&format!("{CPU}/{object}/cpufreq"))).ok());
    let policy = link.and_then(|l| Some(l.file_name()?.to_string_lossy().into_owned()));
    match policy.filter(|p| all.contains(p)) {
        Some(policy) => Ok(vec![policy]),
        None => Err(unsupported(setting, format!("there is no cpufreq policy `{object}`"))),
    }
}

fn cpus(machine: &dyn Machine, setting: &SettingName) -> Result<Vec<String>, Error> {
    let all = numbered(machine, CPU, "cpu");
    match &setting.object {
        Some(object) if all.contains(object) => Ok(vec![object.clone()]),
        Some(object) => Err(unsupported(setting, format!("there is no CPU `{object}`"))),
        // A CPU that is off has no such files; it is not meant.
        None => Ok(all.into_iter().filter(|cpu| is_on(machine, cpu)).collect()),
    }
}

fn is_on(machine: &dyn Machine, cpu: &str) -> bool {
    machine.text(&format!("{CPU}/{cpu}/online")).is_none_or(|online| online != "0")
}

/// The whole disk that a setting means; a partition means its disk, which holds the queue.
fn disk(machine: &dyn Machine, setting: &SettingName, target: Option<&str>) -> Result<String, Error> {
    let object = setting.object.as_deref().or(target);
    let object = object.ok_or_else(|| Error::NeedsDevice { setting: setting.to_string() })?;
    let name = object.strip_prefix("/dev/").unwrap_or(object);
    // sysfs has `!` where a device's name has a slash: `cciss/c0d0`.
    let name = name.replace('/', "!");
    whole_disk(machine, &name)
        .ok_or_else(|| unsupported(setting, format!("there is no block device `{object}`")))
}

/// The disk, array or mapping of a block device's name in sysfs: itself, or what it is a partition of. `None`
/// where there is no such device.
pub fn whole_disk(machine: &dyn Machine, name: &str) -> Option<String> {
    let is_whole = |name: &str| machine.list(Path::new(&format!("/sys/block/{name}"))).is_ok();
    if is_whole(name) {
        return Some(name.to_owned());
    }
    // `../../devices/…/block/sda/sda2`: a partition lies in the folder of its disk.
    let link = machine.link(Path::new(&format!("/sys/class/block/{name}"))).ok()?;
    let parent = link.parent()?.file_name()?.to_string_lossy().into_owned();
    is_whole(&parent).then_some(parent)
}

/// `intel_pstate/no_turbo`, else the boost switch of the machine, else that of each policy.
fn turbo(machine: &dyn Machine, setting: &SettingName) -> Result<Vec<Place>, Error> {
    let here = |path: &str| machine.text(path).is_some();
    let no_turbo = format!("{CPU}/intel_pstate/no_turbo");
    if setting.object.is_none() && here(&no_turbo) {
        return Ok(vec![place(setting, None, no_turbo, Form::Inverted)]);
    }
    let boost = format!("{CPUFREQ}/boost");
    if setting.object.is_none() && here(&boost) {
        return Ok(vec![place(setting, None, boost, Form::Switch)]);
    }
    let of = |p: &String| place(setting, Some(p), format!("{CPUFREQ}/{p}/boost"), Form::Switch);
    let places: Vec<_> = policies(machine, setting)?.iter().map(of).filter(|p| here(&p.path)).collect();
    if places.is_empty() {
        return Err(unsupported(setting, "neither intel_pstate nor cpufreq has a turbo switch here"));
    }
    Ok(places)
}

/// A governor's tunable: one file for the machine, or one for each policy, by what the driver chose.
fn tunable(
    machine: &dyn Machine,
    setting: &SettingName,
    governor: &str,
    file: &str,
) -> Result<Vec<Place>, Error> {
    let global = format!("{CPUFREQ}/{governor}");
    if machine.list(Path::new(&global)).is_ok() {
        return Ok(vec![place(setting, None, format!("{global}/{file}"), Form::Plain)]);
    }
    let uses = |policy: &&String| machine.list(Path::new(&format!("{CPUFREQ}/{policy}/{governor}"))).is_ok();
    let policies = policies(machine, setting)?;
    let of = |p: &String| place(setting, Some(p), format!("{CPUFREQ}/{p}/{governor}/{file}"), Form::Plain);
    let places: Vec<_> = policies.iter().filter(uses).map(of).collect();
    if places.is_empty() {
        let reason = format!("no policy runs the governor `{governor}` now; set it together with `governor`");
        return Err(unsupported(setting, reason));
    }
    Ok(places)
}

/// `C6.disable` or `state3.disable`, on every CPU that has such a state.
fn idle(machine: &dyn Machine, setting: &SettingName, tail: &str) -> Result<Vec<Place>, Error> {
    let bad =
        || Error::UnknownSetting { name: setting.name.clone(), nearest: Some("idle.C6.disable".to_owned()) };
    let (wanted, file) = tail.rsplit_once('.').ok_or_else(bad)?;
    if file != "disable" {
        return Err(bad());
    }
    let mut places = Vec::new();
    for cpu in cpus(machine, setting)? {
        let folder = format!("{CPU}/{cpu}/cpuidle");
        for state in numbered(machine, &folder, "state") {
            let named = || machine.text(&format!("{folder}/{state}/name"));
            if state == wanted || named().is_some_and(|n| n.eq_ignore_ascii_case(wanted)) {
                places.push(place(setting, Some(&cpu), format!("{folder}/{state}/disable"), Form::Switch));
            }
        }
    }
    if places.is_empty() {
        return Err(unsupported(setting, format!("no CPU has an idle state `{wanted}`")));
    }
    Ok(places)
}

impl Place {
    /// The kernel's text for a value as people write it.
    ///
    /// # Errors
    /// [`Error::BadValue`], saying what the setting takes.
    pub fn encode(&self, machine: &dyn Machine, value: &str) -> Result<String, Error> {
        // sysfs takes a page at the most.
        const LONGEST: usize = 4095;
        let bad = |reason: &str| Error::BadValue {
            setting: self.setting.to_string(),
            value: value.to_owned(),
            reason: reason.to_owned(),
        };
        let value = value.trim();
        if value.is_empty() || value.len() > LONGEST || value.contains(['\n', '\0']) {
            return Err(bad("a value is one line of text, not empty"));
        }
        match self.form {
            Form::Plain => Ok(value.to_owned()),
            Form::Switch => {
                switch(value).map(|on| u8::from(on).to_string()).ok_or_else(|| bad("it takes on or off"))
            }
            Form::Inverted => {
                switch(value).map(|on| u8::from(!on).to_string()).ok_or_else(|| bad("it takes on or off"))
            }
            Form::Latency => latency_limit_us(value).map(|us| us.to_string()).ok_or_else(|| {
                bad("it takes whole microseconds up to 2000s (20us, 1ms, 20 for µs), or none for no limit")
            }),
            Form::Frequency => self
                .frequency_khz(machine, value)
                .ok_or_else(|| bad("it takes a frequency (2800MHz, 2.8GHz, 2800000 for kHz), min or max")),
        }
    }

    fn frequency_khz(&self, machine: &dyn Machine, value: &str) -> Option<String> {
        let folder = self.path.rsplit_once('/')?.0;
        match value {
            "min" => return machine.text(&format!("{folder}/cpuinfo_min_freq")),
            "max" => return machine.text(&format!("{folder}/cpuinfo_max_freq")),
            _ => {}
        }
        let digits = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
        let (number, unit) = value.split_at(digits);
        let khz: f64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "khz" => 1.0,
            "mhz" => 1e3,
            "ghz" => 1e6,
            _ => return None,
        };
        let khz = number.parse::<f64>().ok()? * khz;
        // A terahertz is no clock of this century.
        (khz.is_finite() && (1.0..1e9).contains(&khz)).then(|| (khz.round() as u64).to_string())
    }
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "1" | "on" | "true" | "yes" => Some(true),
        "0" | "off" | "false" | "no" => Some(false),
        _ => None,
    }
}
