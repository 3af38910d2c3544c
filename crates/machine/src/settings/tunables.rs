//! Tunables of governors and I/O schedulers, and names of both, that are written wrongly.
//!
//! They are there only while their governor or scheduler is in use, so that a wrong one does not show by its
//! absence. Wrongly written is what is not here, is none that any kernel is known to have, and differs by a
//! letter or two from one that is. Everything else may be another kernel's, and its cells are skipped.

use super::catalogue::slip_of;
use super::error::Error;
use super::{CPU, CPUFREQ, numbered};
use crate::Machine;
use domain::cpufreq::GOVERNORS;
use domain::setting::{SettingName, SettingRequest};
use std::path::Path;

/// The tunables of I/O schedulers in any version of the kernel: `block/{mq-deadline,kyber-iosched,
/// bfq-iosched}.c`, and up to 5.0 `block/{deadline,cfq}-iosched.c`.
const OF_SCHEDULERS: &[&str] = &[
    "async_depth",
    "back_seek_max",
    "back_seek_penalty",
    "fifo_batch",
    "fifo_expire_async",
    "fifo_expire_sync",
    "front_merges",
    "group_idle",
    "group_idle_us",
    "low_latency",
    "max_budget",
    "prio_aging_expire",
    "quantum",
    "read_expire",
    "read_lat_nsec",
    "slice_async",
    "slice_async_rq",
    "slice_async_us",
    "slice_idle",
    "slice_idle_us",
    "slice_sync",
    "slice_sync_us",
    "strict_guarantees",
    "target_latency",
    "target_latency_us",
    "timeout_sync",
    "write_expire",
    "write_lat_nsec",
    "writes_starved",
];

/// I/O schedulers in any version of the kernel.
const SCHEDULERS: &[&str] = &["adios", "bfq", "cfq", "deadline", "kyber", "mq-deadline", "none", "noop"];

/// Governors of the idle states: `drivers/cpuidle/governors`.
const IDLE_GOVERNORS: &[&str] = &["haltpoll", "ladder", "menu", "teo"];

/// Why a tunable is written wrongly; `None` of any other setting.
pub(super) fn misspelt(machine: &dyn Machine, setting: &SettingName) -> Option<Error> {
    let (family, file) = setting.name.split_once('.')?;
    let (whose, known, folders) = match (family, domain::cpufreq::tunables(family)) {
        ("iosched", _) => ("any scheduler".to_owned(), OF_SCHEDULERS, of_disks(machine, "queue/iosched")),
        (_, []) => return None,
        (governor, tunables) => {
            (format!("the governor `{governor}`"), tunables, of_policies(machine, governor))
        }
    };
    let here: Vec<String> =
        folders.iter().flat_map(|folder| machine.list(Path::new(folder)).unwrap_or_default()).collect();
    let name = setting.name.clone();
    not_one_of(file, known, &here).map(|meant| Error::NoTunable {
        name,
        whose,
        nearest: format!("{family}.{meant}"),
    })
}

/// The setting that is meant by a scheduler's name and a tunable, `mq-deadline.read_expire`: tunables are
/// those of the scheduler in use, `iosched`. `None` of any other name.
pub(super) fn of_a_scheduler(name: &str) -> Option<String> {
    let (scheduler, file) = name.split_once('.').filter(|(head, _)| SCHEDULERS.contains(head))?;
    let known = OF_SCHEDULERS.iter().copied().find(|known| *known == file);
    let meant = known.or_else(|| slip_of(file, OF_SCHEDULERS.iter().copied())).unwrap_or(file);
    (scheduler != "none" && !meant.is_empty()).then(|| format!("iosched.{meant}"))
}

/// Why the value of a setting that takes a name (`governor`, `scheduler`, `idle_governor`) is written
/// wrongly; `None` of any other setting.
pub fn misspelt_value(machine: &dyn Machine, request: &SettingRequest) -> Option<Error> {
    let governors: Vec<&str> = GOVERNORS.iter().map(|governor| governor.name).collect();
    let (known, files) = match request.setting.name.as_str() {
        "governor" => (&governors[..], of_policies(machine, "scaling_available_governors")),
        "scheduler" => (SCHEDULERS, of_disks(machine, "queue/scheduler")),
        "idle_governor" => (IDLE_GOVERNORS, vec![format!("{CPU}/cpuidle/available_governors")]),
        _ => return None,
    };
    let texts = files.iter().filter_map(|file| machine.text(file));
    // The scheduler in use stands in brackets.
    let here: Vec<String> = texts
        .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>())
        .map(|word| word.trim_matches(['[', ']']).to_owned())
        .collect();
    let (setting, value) = (request.setting.to_string(), request.value.clone());
    not_one_of(&value, known, &here).map(|nearest| Error::NoSuchName {
        setting,
        value: value.clone(),
        nearest,
    })
}

/// The name that is meant by one that is neither known nor here.
fn not_one_of(name: &str, known: &[&str], here: &[String]) -> Option<String> {
    let all = || known.iter().copied().chain(here.iter().map(String::as_str));
    if all().any(|other| other == name) {
        return None;
    }
    slip_of(name, all()).map(str::to_owned)
}

/// A file of each policy, and the same of the machine, as a governor's folder may be either.
fn of_policies(machine: &dyn Machine, file: &str) -> Vec<String> {
    let policies = numbered(machine, CPUFREQ, "policy");
    let of_policies = policies.iter().map(|policy| format!("{CPUFREQ}/{policy}/{file}"));
    std::iter::once(format!("{CPUFREQ}/{file}")).chain(of_policies).collect()
}

/// A file of each disk.
fn of_disks(machine: &dyn Machine, file: &str) -> Vec<String> {
    let disks = machine.list(Path::new("/sys/block")).unwrap_or_default();
    disks.iter().map(|disk| format!("/sys/block/{disk}/{file}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordedMachine;

    /// A machine with one policy and one disk, where these files are besides.
    fn machine(more: &[&str]) -> (tempfile::TempDir, RecordedMachine) {
        let there = [
            "rw|/sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors|performance schedutil",
            "rw|/sys/block/sda/queue/scheduler|none [mq-deadline]",
        ];
        let files = tempfile::tempdir().unwrap();
        std::fs::create_dir(files.path().join("sys")).unwrap();
        let list = [&there, more].concat().join("\n");
        std::fs::write(files.path().join("sys/inlinefiles.txt"), format!("{list}\n")).unwrap();
        let machine = RecordedMachine::open(files.path()).unwrap();
        (files, machine)
    }

    fn told(name: &str) -> Option<String> {
        let (_files, machine) = machine(&[]);
        misspelt(&machine, &SettingName::parse(name)).map(|error| error.to_string())
    }

    fn told_of(name: &str, value: &str) -> Option<String> {
        let (_files, machine) = machine(&[]);
        let request = SettingRequest { setting: SettingName::parse(name), value: value.to_owned() };
        misspelt_value(&machine, &request).map(|error| error.to_string())
    }

    #[test]
    fn a_tunable_that_is_almost_another_is_told_with_that() {
        for (name, meant) in [
            ("ondemand.up_treshold", "`ondemand.up_threshold`"),
            ("schedutil.rate_limit_ms", "`schedutil.rate_limit_us`"),
            ("iosched.read_expir", "`iosched.read_expire`"),
            ("iosched.fifo_bach@sda", "`iosched.fifo_batch`"),
        ] {
            let error = told(name).unwrap_or_else(|| panic!("{name} is not told"));
            assert!(error.ends_with(&format!("did you mean {meant}?")), "{error}");
        }
    }

    #[test]
    fn a_tunable_of_another_kernel_is_no_mistake() {
        for name in [
            "ondemand.sampling_rate_min",
            "schedutil.up_rate_limit_us",
            "schedutil.efficiency_freq",
            "iosched.prio_aging_expire",
            "iosched.wr_max_time",
            "interactive.boost",
            "governor",
            "vm.dirty_ratoi",
        ] {
            assert_eq!(told(name), None, "{name}");
        }
    }

    #[test]
    fn what_is_here_is_no_mistake_however_it_is_written() {
        let (_files, machine) = machine(&[
            "rw|/sys/devices/system/cpu/cpufreq/policy0/schedutil/rate_limit_ms|1",
            "rw|/sys/block/sda/queue/iosched/read_expir|1",
        ]);
        for name in ["schedutil.rate_limit_ms", "iosched.read_expir"] {
            assert!(misspelt(&machine, &SettingName::parse(name)).is_none(), "{name}");
        }
    }

    #[test]
    fn a_tunable_by_its_schedulers_name_is_one_of_the_scheduler_in_use() {
        for (name, meant) in [
            ("mq-deadline.read_expir", Some("iosched.read_expire")),
            ("bfq.slice_idle", Some("iosched.slice_idle")),
            ("bfq.wr_max_time", Some("iosched.wr_max_time")),
            ("none.read_expire", None),
            ("vm.dirty_ratio", None),
        ] {
            assert_eq!(of_a_scheduler(name).as_deref(), meant, "{name}");
        }
    }

    #[test]
    fn a_governor_or_scheduler_that_is_almost_another_is_told_with_that() {
        for (setting, value, meant) in [
            ("governor", "performence", "performance"),
            ("governor@cpu0", "ondemad", "ondemand"),
            ("scheduler", "mq-dedline", "mq-deadline"),
            ("idle_governor", "menue", "menu"),
        ] {
            let error = told_of(setting, value).unwrap_or_else(|| panic!("{value} is not told"));
            assert!(error.ends_with(&format!("did you mean `{meant}`?")), "{error}");
        }
    }

    #[test]
    fn a_governor_or_scheduler_that_may_be_another_kernels_is_no_mistake() {
        for (setting, value) in [
            ("governor", "ondemand"),
            ("governor", "walt"),
            ("scheduler", "kyber"),
            ("scheduler", "ssg"),
            ("idle_governor", "teo"),
            ("read_ahead_kb", "nonee"),
        ] {
            assert_eq!(told_of(setting, value), None, "{setting} = {value}");
        }
    }
}
