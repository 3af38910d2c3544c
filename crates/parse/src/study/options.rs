//! Options of fio and operands of dd: which there are, and which are Flyball's own business.
//!
//! fio's names are a list, not left to fio, for two reasons: a mistyped one is found before anything runs, and
//! fio takes any unambiguous beginning of an option's name, so that `filen = "/dev/sda"` would be its `filename`.

use super::node::{Node, nearest};
use domain::study::Tool;
use std::collections::BTreeMap;

/// Options by name, as the tool takes them.
pub(super) type Options = BTreeMap<String, String>;

/// The job options of fio 3.42 with their other names, and those of its engines for files and block devices.
const FIO_OPTIONS: &str = include_str!("fio_options.txt");

/// A bound on the options of one table: there are fewer of them in all.
const MOST_OPTIONS: usize = 300;

/// dd's operands, and `direction`, which says whether the target is read (the default) or written.
pub(super) const DD_OPTIONS: [&str; 13] = [
    "bs",
    "cbs",
    "conv",
    "count",
    "direction",
    "ibs",
    "iflag",
    "iseek",
    "obs",
    "oflag",
    "oseek",
    "seek",
    "skip",
];

const TARGET: &str = "Flyball runs fio on the study's target and on nothing else";
const REPORT: &str = "Flyball sets it, to read fio's report";
const RUNS: &str = "it runs another program; make that a workload of its own with `tool = \"command\"`";
const LOSES: &str = "it removes or resizes the target, which the next trial needs";
const FILLS: &str = "it writes past the target, until the disk is full";
const REPLAYS: &str = "it names files of its own, and may write to any of them";
const CHANGES: &str = "it changes the machine, and nobody changes it back";

/// What a study may not set for fio, and why.
pub(super) const FIO_REFUSED: [(&str, &str); 36] = [
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
    ("file_append", FILLS),
    ("fill_device", FILLS),
    ("fill_fs", FILLS),
    ("read_iolog", REPLAYS),
    ("write_iolog", REPLAYS),
    ("replay_redirect", REPLAYS),
    ("merge_blktrace_file", REPLAYS),
    ("cgroup", CHANGES),
    ("cgroup_nodelete", CHANGES),
    ("ioscheduler", "it changes the machine; use the setting `scheduler`, which is put back"),
];

/// Engines of fio that do not stay on the target.
const FIO_ENGINES_REFUSED: [(&str, &str); 8] = [
    ("exec", RUNS),
    ("external", RUNS),
    ("filecreate", LOSES),
    ("filedelete", LOSES),
    ("dircreate", LOSES),
    ("dirdelete", LOSES),
    ("ftruncate", LOSES),
    ("e4defrag", LOSES),
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
        let allowed = |known: &&str| FIO_REFUSED.iter().all(|(refused, _)| refused != known);
        return Some(unknown("fio", option, FIO_OPTIONS.lines().filter(allowed)));
    }
    if option == "ioengine" {
        let engine = value.split(':').next().unwrap_or_default();
        let refused = FIO_ENGINES_REFUSED.iter().find(|(name, _)| *name == engine);
        return refused.map(|(name, why)| format!("fio's engine `{name}` cannot be used here: {why}"));
    }
    let is_log = option.starts_with("write_") && option.ends_with("_log");
    (is_log && value.contains('/'))
        .then(|| "fio's logs go to the trial's folder; give a name without `/`".into())
}

fn dd_refusal(option: &str, value: &str) -> Option<String> {
    match option {
        "if" | "of" => Some(
            "cannot be set here: Flyball runs dd on the study's target and on nothing else; write `direction = \"read\"` or `\"write\"`".into(),
        ),
        "status" => Some("cannot be set here: Flyball sets it, to read dd's report".into()),
        "direction" if value != "read" && value != "write" => Some(format!("is `{value}`; write `read` or `write`")),
        _ if DD_OPTIONS.contains(&option) => None,
        _ => Some(unknown("dd", option, DD_OPTIONS)),
    }
}

fn unknown<'k>(tool: &str, option: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    match nearest(option, known) {
        Some(near) => format!("{tool} has no such option; did you mean `{near}`?"),
        None => format!("{tool} has no such option; see `man {tool}`"),
    }
}
