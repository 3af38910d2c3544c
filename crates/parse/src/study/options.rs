//! Options of fio and operands of dd: which a study may set, and which are Flyball's own business.
//!
//! fio's names are a list, not left to fio, for two reasons: a mistyped one is found before anything runs, and
//! fio takes any unambiguous beginning of an option's name, so that `filen = "/dev/sda"` would be its `filename`.
//! The runner's drivers stand guard over the same lists once more when a command is made; here the user is told early,
//! and where.

use super::node::{Node, listed, nearest};
use domain::study::Tool;
use std::collections::BTreeMap;

/// Options by name, as the tool takes them.
pub(super) type Options = BTreeMap<String, String>;

/// The job options of fio 3 that touch nothing but the target and the trial's folder, with their other names.
pub(super) const FIO_OPTIONS: &str = include_str!("fio_options.txt");

/// fio's engines that do I/O to a file or block device, or none.
pub(super) const FIO_ENGINES: [&str; 12] = [
    "cpuio", "io_uring", "libaio", "mmap", "null", "posixaio", "psync", "pvsync", "pvsync2", "splice",
    "sync", "vsync",
];

/// fio's options whose values may hold a slash that belongs to no path.
const FIO_SLASHED: [&str; 4] = ["bssplit", "cmdprio_bssplit", "description", "random_distribution"];

/// A bound on the options of one table: there are fewer of them in all.
const MOST_OPTIONS: usize = 300;

/// dd's operands, and two of Flyball's own: `direction` (`read`, the default, or `write`) and `source`, what is
/// written (`zero`, the default, or `random`).
pub(super) const DD_OPTIONS: [&str; 9] =
    ["bs", "conv", "count", "direction", "iflag", "oflag", "seek", "skip", "source"];

const TARGET: &str = "Flyball runs fio on the study's target and on nothing else";
const REPORT: &str = "Flyball sets it, to read fio's report";
const RUNS: &str = "it runs another program; make that a workload of its own with `tool = \"command\"`";
const LOSES: &str = "it removes the target, which the next trial needs";
const FILES: &str = "it changes which files there are, and the target is one file of a fixed size";
const OTHERS: &str = "it names other files, to read or to write";
const CHANGES: &str = "it changes more of the machine than the target";

/// What a study may not set for fio, and why. What is neither here nor known is refused as unknown.
pub(super) const FIO_REFUSED: [(&str, &str); 44] = [
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
    ("unlink", LOSES),
    ("unlink_each_loop", LOSES),
    ("nrfiles", FILES),
    ("filesize", FILES),
    ("fill_device", FILES),
    ("fill_fs", FILES),
    ("file_append", FILES),
    ("allow_file_create", FILES),
    ("create_only", FILES),
    ("fallocate", FILES),
    ("read_iolog", OTHERS),
    ("replay_redirect", OTHERS),
    ("merge_blktrace_file", OTHERS),
    ("verify_state_load", OTHERS),
    ("verify_state_save", OTHERS),
    ("profile", OTHERS),
    ("cgroup", CHANGES),
    ("uid", CHANGES),
    ("gid", CHANGES),
    ("ioscheduler", "it changes the machine; use the setting `scheduler`, which is put back"),
];

/// Reads a table of options, whatever the tool.
pub(super) fn read(node: &Node) -> Option<Options> {
    let entries = node.section()?.entries();
    if entries.len() > MOST_OPTIONS {
        node.refuse(format!("has {} options, more than any tool knows; take some out", entries.len()));
        return None;
    }
    let pairs: Vec<Option<(String, String)>> =
        entries.iter().map(|entry| Some((entry.key.to_owned(), entry.scalar()?.value))).collect();
    pairs.into_iter().collect()
}

/// Why a tool may not be given this option, or does not know it; `None` where all is well.
pub(super) fn refusal(tool: &Tool, option: &str, value: &str) -> Option<String> {
    match tool {
        Tool::Fio => fio_refusal(option, value),
        Tool::Dd => dd_refusal(option, value),
        Tool::Command { .. } => None,
    }
}

fn fio_refusal(option: &str, value: &str) -> Option<String> {
    if let Some((_, why)) = FIO_REFUSED.iter().find(|(name, _)| *name == option) {
        return Some(format!("cannot be set here: {why}"));
    }
    if !FIO_OPTIONS.lines().any(|known| known == option) {
        return Some(unknown("fio", option, FIO_OPTIONS.lines()));
    }
    if option == "ioengine" && !FIO_ENGINES.contains(&value) {
        return Some(format!(
            "is `{value}`, which is none of fio's engines that stay on the target: {}",
            listed(&FIO_ENGINES)
        ));
    }
    (value.contains('/') && !FIO_SLASHED.contains(&option))
        .then(|| "names a path; logs are given a plain name, and go to the trial's folder".into())
}

fn dd_refusal(option: &str, value: &str) -> Option<String> {
    let one_of = |known: [&str; 2]| {
        (!known.contains(&value)).then(|| format!("is `{value}`; write `{}` or `{}`", known[0], known[1]))
    };
    match option {
        "if" | "of" => Some(
            "cannot be set here: Flyball runs dd on the study's target and on nothing else; write `direction = \"read\"` or `\"write\"`".into(),
        ),
        "status" => Some("cannot be set here: Flyball sets it, to read dd's report".into()),
        "direction" => one_of(["read", "write"]),
        "source" => one_of(["zero", "random"]),
        "count" | "skip" | "seek" if value.parse::<u64>().is_err() => {
            Some(format!("is `{value}`; write a plain number of blocks"))
        }
        _ if DD_OPTIONS.contains(&option) => None,
        _ => Some(unknown("dd", option, DD_OPTIONS)),
    }
}

fn unknown<'k>(tool: &str, option: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    match nearest(option, known) {
        Some(near) => format!("is no option of {tool} that a study can set; did you mean `{near}`?"),
        None => {
            format!("is no option of {tool} that a study can set; see docs/STUDY-FORMAT.md and `man {tool}`")
        }
    }
}
