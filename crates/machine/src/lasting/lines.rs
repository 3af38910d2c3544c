//! What the methods have in common: the order of lines, globs over all objects of a kind, comments. Pure.

use super::record::Entry;
use crate::settings::rank;
use domain::order;

/// The first lines of every file of ours.
pub(super) const HEADER: &str = "\
# Written by `flyball tune --persist`, whole and anew each time: lines of your own belong into another file.
# `flyball status` shows what differs from it by now, `flyball tune --undo` takes it back.
";

/// In the order in which they have to be written: what re-creates or resets others first, and what was asked
/// for one object after what was asked for all.
pub(super) fn in_order(entries: &[&Entry]) -> Vec<Entry> {
    let mut sorted: Vec<Entry> = entries.iter().map(|&entry| entry.clone()).collect();
    order::by_key(&mut sorted, |entry| (rank(&entry.path), !entry.means_all()));
    sorted
}

/// A path, perhaps with a glob, its value, and a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub path: String,
    pub value: String,
    pub comment: String,
}

/// One line for each file; one with a glob where all policies or CPUs were meant and got the same value, so
/// that those that appear later get it too.
pub(super) fn lines(entries: &[&Entry]) -> Vec<Line> {
    let sorted = in_order(entries);
    let agree = |path: &str, value: &str| {
        let same = |e: &&Entry| e.means_all() && globbed(&e.path).as_deref() == Some(path);
        sorted.iter().filter(same).all(|e| e.new == value)
    };
    let mut lines: Vec<Line> = Vec::new();
    for entry in &sorted {
        let glob = globbed(&entry.path).filter(|glob| entry.means_all() && agree(glob, &entry.new));
        let path = glob.unwrap_or_else(|| entry.path.clone());
        if !lines.iter().any(|line| line.path == path) {
            lines.push(Line { path, value: entry.new.clone(), comment: comment(entry) });
        }
    }
    lines
}

/// `…/policy3/…` as `…/policy*/…`, and the same for CPUs; `None` for what belongs to neither.
fn globbed(path: &str) -> Option<String> {
    let mut found = false;
    let part = |part: &str| {
        for prefix in ["policy", "cpu"] {
            if let Some(number) = part.strip_prefix(prefix)
                && !number.is_empty()
                && number.bytes().all(|b| b.is_ascii_digit())
            {
                found = true;
                return format!("{prefix}[0-9]*");
            }
        }
        part.to_owned()
    };
    let parts: Vec<String> = path.split('/').map(part).collect();
    found.then(|| parts.join("/"))
}

/// What a person wants to know who finds the line: which setting, what it was, and why.
pub(super) fn comment(entry: &Entry) -> String {
    let old = entry.old().map_or_else(|| "the same before".to_owned(), |old| format!("before: {old}"));
    let reason = if entry.reason.is_empty() { String::new() } else { format!("; {}", entry.reason) };
    let text = format!("# {}, {old}{reason}", entry.asked);
    text.replace(|c: char| c.is_control(), " ")
}

/// Why a value or path does not fit where these characters mean something else; `None` where it does.
pub(super) fn forbidden(text: &str, characters: &[char]) -> Option<String> {
    let bad = text.chars().find(|c| c.is_control() || characters.contains(c))?;
    Some(format!("`{text}` holds {bad:?}, which means something else there; set it by a script of your own"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::lasting::record::{Inverse, PersistMethod};
    use crate::settings::Identity;

    /// An entry for the tests of all methods.
    pub(crate) fn entry(method: PersistMethod, asked: &str, path: &str, old: &str, new: &str) -> Entry {
        Entry {
            setting: asked.into(),
            asked: asked.into(),
            path: path.into(),
            identity: Identity::default(),
            device: None,
            inverse: Some(Inverse { old: old.into(), instead: None, keeps: vec![] }),
            new: new.into(),
            method,
            only_at_boot: false,
            reason: String::new(),
            when_ns: 0,
            boot: "boot-1".into(),
        }
    }

    #[test]
    fn only_numbered_policies_and_cpus_become_globs() {
        let cpu = "/sys/devices/system/cpu";
        assert_eq!(globbed(&format!("{cpu}/cpufreq/boost")), None);
        assert_eq!(globbed(&format!("{cpu}/cpufreq/ondemand/up_threshold")), None);
        let glob = globbed(&format!("{cpu}/cpu12/cpuidle/state2/disable"));
        assert_eq!(glob.as_deref(), Some("/sys/devices/system/cpu/cpu[0-9]*/cpuidle/state2/disable"));
    }
}
