//! fio's job options: which a workload may set, and which are Flyball's own business (fio(1), version 3).
//!
//! fio's names are a list, not left to fio: a mistyped one is found before anything runs; fio takes any
//! unambiguous beginning of a long option's name (getopt_long_only(3)), so that `filen = "/dev/sda"` would be
//! its `filename` and a list of what is refused would not hold; and an option of a later fio that nobody here
//! has read must not run as root. The study's reader asks here to tell early and where, the runner once more
//! when it makes the command.

use super::steady_state as steady;
use crate::options::{Options, Refusal};
use crate::sysbench::options::Bursts;
use domain::iometer;
use domain::units::Bytes;

/// The job options that touch nothing but the target and the trial's folder, with their other names, by the
/// alphabet.
const OPTIONS: &str = include_str!("options.txt");

/// The engines that do I/O to a file or block device, or none.
pub const ENGINES: [&str; 12] = [
    "cpuio", "io_uring", "libaio", "mmap", "null", "posixaio", "psync", "pvsync", "pvsync2", "splice",
    "sync", "vsync",
];

/// Options whose values may hold a slash that belongs to no path.
const SLASHED: [&str; 4] = ["bssplit", "cmdprio_bssplit", "description", "random_distribution"];

const TARGET: &str = "Flyball runs fio on the study's target and on nothing else";
const REPORT: &str = "Flyball sets it, to read fio's report";
const RUNS: &str = "it runs another program; make that a workload of its own with `tool = \"command\"`";
const LOSES: &str = "it removes the target, which the next trial needs";
const FILES: &str = "it changes which files there are, and the target is one file of a fixed size";
const OTHERS: &str = "it names other files, to read or to write";
const CHANGES: &str = "it changes more of the machine than the target";

/// What is refused with a reason, which is worth more than "unknown". What is neither here nor in [`names`]
/// is refused all the same.
pub const REFUSED: [(&str, &str); 51] = [
    ("filename", TARGET),
    ("filename_format", TARGET),
    ("directory", TARGET),
    ("opendir", TARGET),
    ("unique_filename", TARGET),
    ("allow_mounted_write", TARGET),
    ("name", REPORT),
    ("output", REPORT),
    ("output-format", REPORT),
    ("status-interval", REPORT),
    ("eta", REPORT),
    ("minimal", REPORT),
    ("section", REPORT),
    ("client", REPORT),
    ("server", REPORT),
    ("daemonize", REPORT),
    ("parse-only", REPORT),
    ("showcmd", REPORT),
    ("readonly", REPORT),
    ("exec_prerun", RUNS),
    ("exec_postrun", RUNS),
    ("trigger", RUNS),
    ("trigger-remote", RUNS),
    ("trigger-file", RUNS),
    ("trigger-timeout", RUNS),
    ("exec", RUNS),
    ("unlink", LOSES),
    ("unlink_each_loop", LOSES),
    ("nrfiles", FILES),
    ("nr_files", FILES),
    ("openfiles", FILES),
    ("filesize", FILES),
    ("fill_device", FILES),
    ("fill_fs", FILES),
    ("file_append", FILES),
    ("allow_file_create", FILES),
    ("create_only", FILES),
    ("create_on_open", FILES),
    ("fallocate", FILES),
    ("lockfile", FILES),
    ("replay_redirect", OTHERS),
    ("merge_blktrace_file", OTHERS),
    ("verify_state_load", OTHERS),
    ("verify_state_save", OTHERS),
    ("profile", OTHERS),
    ("cgroup", CHANGES),
    ("cgroup_weight", CHANGES),
    ("cgroup_nodelete", CHANGES),
    ("uid", CHANGES),
    ("gid", CHANGES),
    ("ioscheduler", "it changes the machine; use the setting `scheduler`, which is put back"),
];

/// The options that may be set.
pub fn names() -> impl Iterator<Item = &'static str> {
    OPTIONS.lines()
}

/// Flyball's own options of a workload of fio, which fio does not see: a pattern of IOMeter's, bursts, and
/// what comes before.
pub const OURS: [&str; 6] = ["pattern", "duty_cycle", "period", "precondition", "steady_state", "round"];

/// Looks at one of those by itself; `None` where it is one of fio's.
pub fn check_ours(option: &str, value: &str) -> Option<Result<(), Refusal>> {
    let alone = [(option.to_owned(), value.to_owned())];
    let problem = match option {
        iometer::OPTION => iometer::Pattern::parse(value).is_none().then(|| {
            format!(
                "is `{value}`; write `4 KiB; 75% Read; 0% random` or its like, or one of `{}`",
                iometer::NAMES.join("`, `")
            )
        }),
        "duty_cycle" => Bursts::parse(&alone.into()).err().map(|error| error.problem),
        "period" => {
            let with_a_share = [alone[0].clone(), ("duty_cycle".to_owned(), "50%".to_owned())];
            Bursts::parse(&with_a_share.into()).err().map(|error| error.problem)
        }
        _ => steady::check(option, value)?.err(),
    };
    Some(problem.map_or(Ok(()), |problem| Err(Refusal::Value(problem))))
}

/// Whether fio may be given this option with this value.
///
/// # Errors
/// Why it may not.
pub fn check(option: &str, value: &str) -> Result<(), Refusal> {
    if let Some((_, why)) = REFUSED.iter().find(|(name, _)| *name == option) {
        return Err(Refusal::Forbidden(why));
    }
    if !names().any(|known| known == option) {
        return Err(Refusal::Unknown { tool: "fio" });
    }
    let refuse = |why: &str| Err(Refusal::Value(why.to_owned()));
    if option == "ioengine" && !ENGINES.contains(&value) {
        return refuse(&format!(
            "is `{value}`, which is none of fio's engines that stay on the target: `{}`",
            ENGINES.join("`, `")
        ));
    }
    if value.contains('/') && !SLASHED.contains(&option) {
        return refuse("names a path; logs are given a plain name, and go to the trial's folder");
    }
    if value.contains(|c: char| c.is_control()) {
        return refuse("holds a control character");
    }
    if value.starts_with('\'') || value.starts_with("\"/") {
        return refuse("names a file to read");
    }
    super::values::check(option, value)
}

/// The bytes that an option such as `size` or `offset` means on a target of this size; `None` where they are
/// not clear: fio reads `kB` and `KiB` the other way round than everybody else unless `kb_base` is set.
pub fn extent(value: &str, target: Bytes) -> Option<u64> {
    if let Some(percent) = value.strip_suffix('%') {
        let percent = percent.parse::<u8>().ok().filter(|p| *p <= 100)?;
        return Some(target.get() / 100 * u64::from(percent));
    }
    if value.to_ascii_lowercase().ends_with('b') {
        return None;
    }
    Bytes::parse(value).map(Bytes::get)
}

/// fio makes a file longer that is too short for its job. A size that is not clear is left to the runner,
/// which refuses it.
pub(super) fn reaches_beyond(options: &Options, target: Bytes) -> Option<String> {
    let size =
        |names: &[&str]| names.iter().find_map(|name| extent(options.get(*name)?, target)).unwrap_or(0);
    let jobs = options.get("numjobs").and_then(|n| n.parse::<u64>().ok()).unwrap_or(1);
    let shift = size(&["offset_increment"]).saturating_mul(jobs.saturating_sub(1));
    let end = size(&["size"]).saturating_add(size(&["offset", "fileoffset"])).saturating_add(shift);
    (end > target.get()).then(|| {
        format!(
            "fio would go up to {}, beyond the target's {target}; make `size` or `offset` smaller, or the target larger",
            Bytes::new(end)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_is_both_known_and_refused() {
        for (name, _) in REFUSED {
            assert!(!names().any(|known| known == name), "{name}");
        }
    }

    #[test]
    fn flyballs_own_options_are_looked_at_and_are_none_of_fios() {
        for option in OURS {
            assert!(matches!(check_ours(option, "?"), Some(Err(Refusal::Value(_)))), "{option}");
            assert!(check(option, "1").is_err(), "{option}");
        }
        assert_eq!(check_ours("pattern", "File server"), Some(Ok(())));
        assert_eq!(check_ours("period", "100ms"), Some(Ok(())));
        assert_eq!(check_ours("rw", "read"), None);
    }

    #[test]
    fn a_beginning_of_a_name_is_no_name() {
        assert!(check("filesiz", "1").is_err());
        assert!(check("filen", "x").is_err());
        assert_eq!(check("rw", "read"), Ok(()));
    }

    #[test]
    fn values_that_lead_to_another_file_are_refused() {
        for (option, value) in [
            ("write_bw_log", "/etc/cron.d/x"),
            ("ioengine", "external:x"),
            ("buffer_pattern", "'secret'"),
            ("rw", "read\nfilename=x"),
        ] {
            assert!(matches!(check(option, value), Err(Refusal::Value(_))), "{option} = {value}");
        }
        assert_eq!(check("bssplit", "4k/60:8k/40"), Ok(()));
    }

    #[test]
    fn a_size_that_fio_reads_otherwise_than_people_is_not_clear() {
        let target = Bytes::from_mib(64);
        assert_eq!(extent("32m", target), Some(32 << 20));
        assert_eq!(extent("50%", target), Some(target.get() / 100 * 50));
        for value in ["64MiB", "64MB", "101%", "many"] {
            assert_eq!(extent(value, target), None, "{value}");
        }
    }
}
