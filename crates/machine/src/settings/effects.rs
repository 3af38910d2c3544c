//! What a write does besides: which other values the kernel drops or changes with it, and which has to come
//! first.

use super::{CPU, CPUFREQ, numbered, value};
use crate::Machine;
use domain::setting::{AMD_MODE, INTEL_MODE};
use std::path::Path;

/// How early in one set of changes a setting is written: drivers, then turbo, then governors and schedulers
/// (each of these re-creates or resets the later ones), then everything else.
pub(crate) fn rank(setting_or_path: &str) -> u8 {
    match kind(setting_or_path) {
        Kind::Driver => 0,
        Kind::Turbo => 1,
        Kind::Governor | Kind::Scheduler => 2,
        Kind::Other => 3,
    }
}

/// How many ranks there are.
pub(crate) const RANKS: u8 = 4;

enum Kind {
    Driver,
    Turbo,
    Governor,
    Scheduler,
    Other,
}

fn kind(setting_or_path: &str) -> Kind {
    let is = |names: &[&str], ends: &[&str]| {
        names.contains(&setting_or_path) || ends.iter().any(|end| setting_or_path.ends_with(end))
    };
    if is(&[INTEL_MODE, AMD_MODE], &["/intel_pstate/status", "/amd_pstate/status"]) {
        Kind::Driver
    } else if is(&["turbo"], &["/no_turbo", "/cpufreq/boost"]) || is_policy_boost(setting_or_path) {
        Kind::Turbo
    } else if is(&["governor"], &["/scaling_governor"]) {
        Kind::Governor
    } else if is(&["scheduler"], &["/queue/scheduler"]) {
        Kind::Scheduler
    } else {
        Kind::Other
    }
}

fn is_policy_boost(path: &str) -> bool {
    path.contains("/cpufreq/policy") && path.ends_with("/boost")
}

/// The files whose values the kernel may drop or change when `path` is written, in the order in which they
/// have to be put back once `path` is.
///
/// Sources: `drivers/cpufreq/cpufreq.c` (a governor's tunables live as long as a policy uses it),
/// `drivers/cpufreq/intel_pstate.c` (a driver's policies and global limits are made anew; turbo moves the
/// limits; the governor performance forces the EPP), `block/elevator.c` (a scheduler brings its own
/// `nr_requests` and tunables, and bfq switches writeback throttling off).
pub(crate) fn kept_paths(machine: &dyn Machine, path: &str) -> Vec<String> {
    match kind(path) {
        Kind::Driver => {
            let globals = ["no_turbo", "max_perf_pct", "min_perf_pct", "hwp_dynamic_boost"];
            let mut kept: Vec<String> = globals.iter().map(|f| format!("{CPU}/intel_pstate/{f}")).collect();
            for policy in numbered(machine, CPUFREQ, "policy") {
                let folder = format!("{CPUFREQ}/{policy}");
                kept.push(format!("{folder}/scaling_governor"));
                kept.extend(with_governor(machine, &folder));
                kept.extend(["scaling_max_freq", "scaling_min_freq"].map(|f| format!("{folder}/{f}")));
            }
            kept
        }
        Kind::Turbo => {
            let mut kept =
                vec![format!("{CPU}/intel_pstate/max_perf_pct"), format!("{CPU}/intel_pstate/min_perf_pct")];
            for policy in numbered(machine, CPUFREQ, "policy") {
                let files = ["scaling_max_freq", "scaling_min_freq"];
                kept.extend(files.map(|f| format!("{CPUFREQ}/{policy}/{f}")));
            }
            kept
        }
        Kind::Governor => path.rsplit_once('/').map_or_else(Vec::new, |(p, _)| with_governor(machine, p)),
        Kind::Scheduler => path.rsplit_once('/').map_or_else(Vec::new, |(queue, _)| {
            let tunables = files_of(machine, &format!("{queue}/iosched"));
            let others = ["nr_requests", "wbt_lat_usec"].map(|f| format!("{queue}/{f}"));
            tunables.into_iter().chain(others).collect()
        }),
        Kind::Other => Vec::new(),
    }
}

/// What depends on the governor of the policy in `folder`: its tunables, and the EPP.
fn with_governor(machine: &dyn Machine, folder: &str) -> Vec<String> {
    let mut kept = Vec::new();
    if let Some(governor) = machine.text(&format!("{folder}/scaling_governor")) {
        // A name with a slash would lead out of the folder; the kernel has none.
        if !governor.is_empty() && !governor.contains('/') {
            kept.extend(files_of(machine, &format!("{folder}/{governor}")));
            kept.extend(files_of(machine, &format!("{CPUFREQ}/{governor}")));
        }
        if governor == "userspace" {
            kept.push(format!("{folder}/scaling_setspeed"));
        }
    }
    kept.push(format!("{folder}/energy_performance_preference"));
    kept
}

fn files_of(machine: &dyn Machine, folder: &str) -> Vec<String> {
    let names = machine.list(Path::new(folder)).unwrap_or_default();
    names.into_iter().map(|name| format!("{folder}/{name}")).collect()
}

/// Pairs of sysctls of which the kernel zeroes one when the other is written (`mm/page-writeback.c`,
/// `mm/util.c`). Zero cannot be written back into the one that was off: it goes off when the other is
/// written.
const TWINS: &[(&str, &str)] = &[
    ("/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_bytes"),
    ("/proc/sys/vm/dirty_background_ratio", "/proc/sys/vm/dirty_background_bytes"),
    ("/proc/sys/vm/overcommit_ratio", "/proc/sys/vm/overcommit_kbytes"),
];

/// The other one of a pair, where `path` is one.
pub(crate) fn twin(path: &str) -> Option<&'static str> {
    TWINS.iter().find_map(|(a, b)| match path {
        p if p == *a => Some(*b),
        p if p == *b => Some(*a),
        _ => None,
    })
}

/// Puts each lower limit and its upper limit into an order that the kernel takes: it refuses a minimum above
/// the maximum at any moment. The upper one goes first, unless the new maximum lies below the present
/// minimum.
pub(crate) fn order_limits(machine: &dyn Machine, writes: &mut [(super::Place, String)]) {
    const LIMITS: [(&str, &str); 2] =
        [("scaling_min_freq", "scaling_max_freq"), ("min_perf_pct", "max_perf_pct")];
    for (lower, upper) in LIMITS {
        for at in 0..writes.len() {
            let Some(folder) = writes[at].0.path.strip_suffix(lower).filter(|f| f.ends_with('/')) else {
                continue;
            };
            let upper = format!("{folder}{upper}");
            let Some(other) = writes.iter().position(|(place, _)| place.path == upper) else { continue };
            let number = |text: &str| text.parse::<u64>().ok();
            let present_min = value::read(machine, &writes[at].0.path).ok().flatten();
            let falls_below = match (number(&writes[other].1), present_min.as_deref().and_then(number)) {
                (Some(new_max), Some(present_min)) => new_max < present_min,
                _ => false,
            };
            if (other < at) == falls_below {
                writes.swap(at, other);
            }
        }
    }
}

/// What a file takes, where the kernel says so.
pub(crate) fn choices(machine: &dyn Machine, path: &str) -> Option<String> {
    let folder = path.rsplit_once('/')?.0;
    match path.rsplit_once('/')?.1 {
        "scaling_governor" => machine.text(&format!("{folder}/scaling_available_governors")),
        "energy_performance_preference" => {
            machine.text(&format!("{folder}/energy_performance_available_preferences"))
        }
        "current_governor" => machine.text(&format!("{folder}/available_governors")),
        "scheduler" => machine.text(path).map(|text| text.replace(['[', ']'], "")),
        _ => None,
    }
}
