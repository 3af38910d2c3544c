//! All settings that have a short name, as they are on a machine: what each means, what it holds now, what it
//! takes, and whether it can be written.
//!
//! Reading only. What a machine does not have is in the list too, with the reason.

use super::catalogue::{Form, KNOWN, Known, SYSCTL_ROOTS, Scope};
use super::{CPU, CPUFREQ, Error, Place, cpus, effects, guard, is_held, numbered, resolve, value};
use crate::Machine;
use domain::cpufreq::GOVERNORS;
use domain::setting::SettingName;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

/// How deep below its root a sysctl may lie: `fs.inotify.max_user_watches` lies two folders deep.
const MAX_DEPTH: usize = 4;

/// A folder of sysctls that is looked into by nobody: it may be mounted by being listed.
const NOT_LISTED: &str = "/proc/sys/fs/binfmt_misc";

/// One setting on one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// Its short name.
    pub name: String,
    /// What it decides, in a few words.
    pub about: String,
    /// What it takes: the values that the kernel offers here, or the range.
    pub takes: Option<String>,
    /// What it holds, one object each; empty where this machine does not have it.
    pub held: Vec<HeldValue>,
    /// Why this machine does not have it, where it does not.
    pub absent: Option<String>,
}

/// What a setting holds for one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldValue {
    /// The policy, CPU or disk; `None` for a setting of the machine.
    pub object: Option<String>,
    /// The file.
    pub path: String,
    /// What it holds; `None` where it cannot be read.
    pub value: Option<String>,
    /// Why it cannot be written here; `None` where it can.
    pub not_writable: Option<String>,
}

/// Looks at every setting that has a short name: those of the table, the families of governors, schedulers
/// and idle states that are there now, and sysctls.
pub fn survey(machine: &dyn Machine) -> Vec<Surveyed> {
    let mut all: Vec<Surveyed> = KNOWN.iter().map(|known| in_table(machine, known)).collect();
    all.push(turbo(machine));
    all.extend(tunables(machine));
    all.extend(idle_states(machine));
    all.extend(of_schedulers(machine));
    for root in SYSCTL_ROOTS {
        let root = root.trim_end_matches('.');
        sysctls(machine, &format!("/proc/sys/{}", root.replace('.', "/")), root, 1, &mut all);
    }
    all
}

/// Whether a word stands for this setting: a part of its name, or of what it decides.
pub fn is_meant(setting: &Surveyed, word: &str) -> bool {
    let word = word.to_lowercase();
    setting.name.to_lowercase().contains(&word) || setting.about.to_lowercase().contains(&word)
}

fn in_table(machine: &dyn Machine, known: &Known) -> Surveyed {
    let objects = match known.scope {
        Scope::Machine | Scope::Held => vec![None],
        Scope::Policy => numbered(machine, CPUFREQ, "policy").into_iter().map(Some).collect(),
        Scope::Cpu => {
            cpus(machine, &SettingName::parse(known.name)).unwrap_or_default().into_iter().map(Some).collect()
        }
        Scope::Block => disks(machine).into_iter().map(Some).collect(),
    };
    let places = objects.into_iter().filter_map(|object| {
        let setting = SettingName { name: known.name.to_owned(), object };
        resolve(machine, &setting, None).ok()
    });
    let held: Vec<HeldValue> = places.flatten().filter_map(|place| here(machine, &place)).collect();
    let absent = held.is_empty().then(|| why_absent(known.scope, known.file));
    let takes = held.first().and_then(|first| takes_in_table(machine, known, &first.path));
    surveyed(known.name, known.about, takes, held, absent)
}

fn surveyed(
    name: &str,
    about: &str,
    takes: Option<String>,
    held: Vec<HeldValue>,
    absent: Option<String>,
) -> Surveyed {
    Surveyed { name: name.to_owned(), about: about.to_owned(), takes, held, absent }
}

fn why_absent(scope: Scope, file: &str) -> String {
    match scope {
        Scope::Policy => format!("no cpufreq policy has `{file}`"),
        Scope::Cpu => format!("no CPU has `{file}`"),
        Scope::Machine => format!("there is no `{CPU}/{file}`"),
        Scope::Block => format!("no disk has `{file}`"),
        Scope::Held => format!("there is no `/dev/{file}`"),
    }
}

/// What a place holds; `None` where it is not there after all.
fn here(machine: &dyn Machine, place: &Place) -> Option<HeldValue> {
    let read = match value::read(machine, &place.path) {
        Ok(None) => return None,
        Ok(value) => value,
        Err(_) => None,
    };
    let not_writable = match read.as_deref() {
        // `show_setspeed` of `drivers/cpufreq/cpufreq.c`.
        Some("<unsupported>") => Some("the governor that is in use does not take it".to_owned()),
        _ => not_writable(machine, &place.path),
    };
    let value = read.map(|value| in_words(place.form, value));
    Some(HeldValue { object: place.setting.object.clone(), path: place.path.clone(), value, not_writable })
}

/// A value as a person would write it.
fn in_words(form: Form, value: String) -> String {
    match (form, value.as_str()) {
        (Form::Switch, "1") | (Form::Inverted, "0") => "on".to_owned(),
        (Form::Switch, "0") | (Form::Inverted, "1") => "off".to_owned(),
        (Form::Frequency, khz) => match khz.parse::<f64>() {
            Ok(khz) => format!("{}MHz", khz / 1e3),
            Err(_) => value,
        },
        (Form::Latency, us) if us == domain::setting::NO_LATENCY_LIMIT_US.to_string() => "none".to_owned(),
        (Form::Latency, us) => format!("{us}us"),
        _ => value,
    }
}

fn not_writable(machine: &dyn Machine, path: &str) -> Option<String> {
    let refused = guard::check(path).err().filter(|_| !is_held(path));
    if let Some(Error::NotASetting { reason, .. }) = refused {
        return Some(format!("refused: {reason}"));
    }
    machine.writable(Path::new(path)).err().map(|error| match error.kind() {
        ErrorKind::ReadOnlyFilesystem => "its filesystem is mounted for reading only".to_owned(),
        ErrorKind::PermissionDenied => "it takes root".to_owned(),
        ErrorKind::Unsupported => "the kernel has it for reading only".to_owned(),
        _ => error.to_string(),
    })
}

/// What a setting of the table takes; the file is asked where the kernel has a list or a limit.
fn takes_in_table(machine: &dyn Machine, known: &Known, path: &str) -> Option<String> {
    if let Some(offered) = effects::choices(machine, path) {
        return Some(offered.split_whitespace().collect::<Vec<_>>().join(", "));
    }
    let folder = path.rsplit_once('/')?.0;
    let beside = |file: &str| machine.text(&format!("{folder}/{file}"));
    let megahertz = |file: &str| Some(beside(file)?.parse::<f64>().ok()? / 1e3);
    let text = match known.name {
        _ if known.form == Form::Frequency => {
            return Some(format!(
                "{}MHz to {}MHz, min, max",
                megahertz("cpuinfo_min_freq")?,
                megahertz("cpuinfo_max_freq")?
            ));
        }
        _ if known.form == Form::Switch => "on, off",
        _ if known.form == Form::Latency => "0us to 2000s, none",
        "epb" => "0 (speed) to 15 (saving)",
        "intel_pstate.status" => "active, passive, off",
        "amd_pstate.status" => "active, passive, guided, disable",
        "max_perf_pct" | "min_perf_pct" => "0 to 100",
        "rq_affinity" => "0 (any CPU), 1 (the group of the asking CPU), 2 (the asking CPU)",
        "nomerges" => "0 (all merges), 1 (simple ones), 2 (none)",
        "write_cache" => "write back, write through",
        "read_ahead_kb" => "KiB; 0 turns it off",
        "nr_requests" => "4 or more; at most the device's tags where it has no scheduler",
        "wbt_lat_usec" => "microseconds; 0 turns it off, -1 is the kernel's default",
        "max_sectors_kb" => return Some(format!("KiB, up to {}", beside("max_hw_sectors_kb")?)),
        "stripe_cache_size" => "17 to 32768",
        "group_thread_cnt" => "0 to 8192",
        "preread_bypass_threshold" => "0 to stripe_cache_size",
        "sync_speed_min" | "sync_speed_max" => "KiB/s, system",
        _ => return None,
    };
    Some(text.to_owned())
}

fn turbo(machine: &dyn Machine) -> Surveyed {
    let found = resolve(machine, &SettingName::parse("turbo"), None);
    let (held, absent) = match &found {
        Ok(places) => (places.iter().filter_map(|place| here(machine, place)).collect(), None),
        Err(error) => (Vec::new(), Some(reason_of(error))),
    };
    let about = "frequencies above the base frequency";
    surveyed("turbo", about, Some("on, off".to_owned()), held, absent)
}

fn reason_of(error: &Error) -> String {
    match error {
        Error::Unsupported { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}

/// The tunables of the governors that are in use.
fn tunables(machine: &dyn Machine) -> Vec<Surveyed> {
    let mut found = Vec::new();
    for governor in
        GOVERNORS.iter().filter(|governor| !governor.tunables.is_empty()).map(|governor| governor.name)
    {
        let policies = numbered(machine, CPUFREQ, "policy");
        let folders = std::iter::once(format!("{CPUFREQ}/{governor}"))
            .chain(policies.iter().map(|policy| format!("{CPUFREQ}/{policy}/{governor}")));
        let files: BTreeSet<String> =
            folders.flat_map(|folder| machine.list(Path::new(&folder)).unwrap_or_default()).collect();
        for file in files {
            let about = about_file(&file).map_or_else(|| format!("a tunable of {governor}"), str::to_owned);
            found.extend(by_name(machine, &format!("{governor}.{file}"), &about, None));
        }
    }
    found
}

/// Whether each idle state that any CPU has may be entered.
fn idle_states(machine: &dyn Machine) -> Vec<Surveyed> {
    let all = cpus(machine, &SettingName::parse("epb")).unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    for cpu in all {
        let folder = format!("{CPU}/{cpu}/cpuidle");
        for state in numbered(machine, &folder, "state") {
            let name = machine.text(&format!("{folder}/{state}/name")).unwrap_or(state);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let takes = || Some("on (never entered), off".to_owned());
    let of = |name: &String| {
        let about = format!("whether CPUs are kept from the idle state {name}");
        by_name(machine, &format!("idle.{name}.disable"), &about, takes())
    };
    names.iter().filter_map(of).collect()
}

/// The tunables of the I/O schedulers that are in use.
fn of_schedulers(machine: &dyn Machine) -> Vec<Surveyed> {
    let mut found: Vec<Surveyed> = Vec::new();
    for disk in disks(machine) {
        let folder = format!("/sys/block/{disk}/queue/iosched");
        for file in machine.list(Path::new(&folder)).unwrap_or_default() {
            let name = format!("iosched.{file}");
            let setting = SettingName { name: name.clone(), object: Some(disk.clone()) };
            let places = resolve(machine, &setting, None).unwrap_or_default();
            let held = places.iter().filter_map(|place| here(machine, place));
            match found.iter_mut().find(|one| one.name == name) {
                Some(one) => one.held.extend(held),
                None => {
                    let about = about_file(&file).unwrap_or("a tunable of the I/O scheduler in use");
                    found.push(surveyed(&name, about, None, held.collect(), None));
                }
            }
        }
    }
    found
}

fn by_name(machine: &dyn Machine, name: &str, about: &str, takes: Option<String>) -> Option<Surveyed> {
    let places = resolve(machine, &SettingName::parse(name), None).ok()?;
    let held: Vec<HeldValue> = places.iter().filter_map(|place| here(machine, place)).collect();
    (!held.is_empty()).then(|| surveyed(name, about, takes, held, None))
}

/// Disks that hold something: a loop device without a file has a size of 0.
fn disks(machine: &dyn Machine) -> Vec<String> {
    let names = machine.list(Path::new("/sys/block")).unwrap_or_default();
    let is_used =
        |name: &String| machine.text(&format!("/sys/block/{name}/size")).is_some_and(|size| size != "0");
    names.into_iter().filter(is_used).collect()
}

/// Every sysctl of one line below a folder.
fn sysctls(machine: &dyn Machine, folder: &str, prefix: &str, depth: usize, all: &mut Vec<Surveyed>) {
    if folder == NOT_LISTED || depth > MAX_DEPTH {
        return;
    }
    for name in machine.list(Path::new(folder)).unwrap_or_default() {
        let (path, dotted) = (format!("{folder}/{name}"), format!("{prefix}.{name}"));
        // A name with a dot of its own has no dotted form that leads back to it.
        if name.contains('.') {
            continue;
        }
        match value::read(machine, &path) {
            Ok(Some(value)) => {
                let not_writable = not_writable(machine, &path);
                let held = HeldValue { object: None, path, value: Some(value), not_writable };
                all.push(surveyed(&dotted, about_sysctl(&dotted), None, vec![held], None));
            }
            Ok(None) => {}
            Err(_) => sysctls(machine, &path, &dotted, depth + 1, all),
        }
    }
}

/// What tunables of governors and I/O schedulers decide. Source: `Documentation/admin-guide/pm/cpufreq.rst`,
/// `Documentation/block/{deadline-iosched,bfq-iosched,kyber-iosched}.rst`.
const TUNABLES: &[(&str, &str)] = &[
    ("down_threshold", "load in percent below which the frequency goes down"),
    ("fifo_batch", "requests that are issued in one batch"),
    ("freq_step", "how far the frequency moves at once, percent of the highest"),
    ("front_merges", "whether a request is merged before another"),
    ("ignore_nice_load", "whether niced work counts as idle"),
    ("io_is_busy", "whether waiting for I/O counts as work"),
    ("low_latency", "whether interactive programs come first"),
    ("powersave_bias", "how far frequencies are lowered, in 1/10 percent"),
    ("rate_limit_us", "how long a frequency is kept at least, µs"),
    ("read_expire", "how long a read may wait, ms"),
    ("sampling_down_factor", "how many times longer the highest frequency is kept"),
    ("sampling_rate", "how often load is looked at, µs"),
    ("slice_idle", "how long the next request of a queue is waited for, ms"),
    ("up_threshold", "load in percent above which the frequency goes up"),
    ("write_expire", "how long a write may wait, ms"),
    ("writes_starved", "how many times reads may go before writes"),
];

fn about_file(file: &str) -> Option<&'static str> {
    TUNABLES.iter().find(|(known, _)| *known == file).map(|(_, about)| *about)
}

/// What the sysctls decide that matter most to storage and CPUs. Source:
/// `Documentation/admin-guide/sysctl/{vm,kernel,fs}.rst`, `Documentation/admin-guide/md.rst`.
const SYSCTLS: &[(&str, &str)] = &[
    ("dev.raid.speed_limit_max", "resync of all arrays at most, KiB/s"),
    ("dev.raid.speed_limit_min", "resync of all arrays at least, KiB/s"),
    ("fs.aio-max-nr", "asynchronous requests that may be in flight"),
    ("kernel.nmi_watchdog", "whether CPUs are watched for hard lock-ups"),
    ("kernel.numa_balancing", "whether pages move to the node that uses them"),
    ("kernel.perf_event_paranoid", "what users may measure"),
    ("kernel.randomize_va_space", "how addresses are randomised"),
    ("kernel.sched_autogroup_enabled", "whether sessions share the CPU as groups"),
    ("kernel.timer_migration", "whether timers move to busy CPUs"),
    ("vm.dirty_background_bytes", "dirty memory from which writeback begins, bytes"),
    ("vm.dirty_background_ratio", "dirty memory from which writeback begins, percent"),
    ("vm.dirty_bytes", "dirty memory from which writers wait, bytes"),
    ("vm.dirty_expire_centisecs", "how old dirty data may become, 1/100 s"),
    ("vm.dirty_ratio", "dirty memory from which writers wait, percent"),
    ("vm.dirty_writeback_centisecs", "how often writeback looks for old data, 1/100 s"),
    ("vm.nr_hugepages", "huge pages that are set aside"),
    ("vm.overcommit_memory", "whether more memory is promised than there is"),
    ("vm.swappiness", "how readily memory is swapped, from 0 to 200"),
    ("vm.vfs_cache_pressure", "how readily inodes and names are forgotten, percent"),
    ("vm.zone_reclaim_mode", "whether a node reclaims before it asks others"),
];

fn about_sysctl(name: &str) -> &'static str {
    let known = SYSCTLS.iter().find(|(known, _)| *known == name);
    known.map_or("a sysctl; see Documentation/admin-guide/sysctl of the kernel", |(_, about)| about)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordedMachine;

    fn recorded(name: &str) -> Vec<Surveyed> {
        let folder = format!("{}/../../fixtures/machines/{name}", env!("CARGO_MANIFEST_DIR"));
        survey(&RecordedMachine::open(Path::new(&folder)).unwrap())
    }

    fn named<'s>(all: &'s [Surveyed], name: &str) -> &'s Surveyed {
        all.iter().find(|setting| setting.name == name).unwrap_or_else(|| panic!("no `{name}`"))
    }

    #[test]
    fn a_setting_has_its_objects_their_values_and_what_the_kernel_offers() {
        let all = recorded("adl0");
        let governor = named(&all, "governor");
        assert_eq!(governor.held.len(), 16);
        assert_eq!(governor.held[0].object.as_deref(), Some("policy0"));
        assert_eq!(governor.held[0].value.as_deref(), Some("powersave"));
        assert_eq!(governor.takes.as_deref(), Some("performance, powersave"));
        assert_eq!(named(&all, "max_freq").held[0].value.as_deref(), Some("4700MHz"));
        assert_eq!(named(&all, "turbo").held[0].value.as_deref(), Some("on"), "no_turbo is 0");
        assert_eq!(named(&all, "idle.C6.disable").held.len(), 16);
        let setspeed = &named(&all, "setspeed").held[0];
        assert!(
            setspeed.not_writable.as_deref().is_some_and(|why| why.contains("the governor")),
            "{setspeed:?}"
        );
    }

    #[test]
    fn what_a_machine_does_not_have_is_listed_with_the_reason() {
        let all = recorded("adl0");
        let absent = named(&all, "amd_pstate.status");
        assert!(absent.held.is_empty());
        assert!(absent.absent.as_deref().is_some_and(|why| why.contains("amd_pstate/status")), "{absent:?}");
        assert!(KNOWN.iter().all(|known| all.iter().any(|setting| setting.name == known.name)));
    }

    #[test]
    fn what_is_an_act_is_refused_and_what_the_kernel_has_for_reading_only_is_said() {
        let all = survey(&crate::LocalMachine);
        let why = |name: &str| named(&all, name).held[0].not_writable.clone().unwrap_or_default();
        assert!(
            why("kernel.hostname").starts_with("refused: it is the machine's name"),
            "{}",
            why("kernel.hostname")
        );
        assert_eq!(why("kernel.ostype"), "the kernel has it for reading only");
    }

    #[test]
    fn a_word_means_settings_by_name_and_by_meaning() {
        let all = recorded("adl0");
        let count = |word: &str| all.iter().filter(|setting| is_meant(setting, word)).count();
        assert!(count("GOVERNOR") > 1 && count("energy") >= 3);
        assert_eq!(count("no-such-setting"), 0);
    }
}
