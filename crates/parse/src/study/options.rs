//! Options of tools in a study: read as they stand, and refused where the tool's own list does
//! ([`workloads::Tool::check`]).

use super::node::{Node, nearest};
use domain::study::Tool;
pub(super) use workloads::Options;
use workloads::options::Refusal;

/// A bound on the options of one table: there are fewer of them in all.
const MAX_OPTIONS: usize = 300;

/// Reads a table of options, whatever the tool.
pub(super) fn read(node: &Node) -> Option<Options> {
    read_with(node, |_, _| ())
}

/// The same of a tool, which each option is held against, whatever else is wrong with the study.
pub(super) fn read_for(tool: &Tool, node: &Node) -> Option<Options> {
    read_with(node, |entry, value| {
        if let Some(problem) = refusal(tool, entry.key, value) {
            entry.refuse_key(problem);
        }
    })
}

fn read_with(node: &Node, look_at: impl Fn(&Node, &str)) -> Option<Options> {
    let entries = node.section()?.entries();
    if entries.len() > MAX_OPTIONS {
        node.refuse(format!("has {} options, more than any tool knows; take some out", entries.len()));
        return None;
    }
    let pair = |entry: &Node| {
        let value = entry.scalar()?.value;
        look_at(entry, &value);
        Some((entry.key.to_owned(), value))
    };
    let pairs: Vec<Option<(String, String)>> = entries.iter().map(pair).collect();
    pairs.into_iter().collect()
}

/// Why a tool may not be given this option, or does not know it; `None` where all is well.
pub(super) fn refusal(tool: &Tool, option: &str, value: &str) -> Option<String> {
    let known = workloads::of(tool);
    let refusal = known.check(option, value).err()?;
    Some(match (&refusal, nearest(option, known.options())) {
        (Refusal::Unknown { .. }, Some(near)) => format!("{refusal}; did you mean `{near}`?"),
        (Refusal::Unknown { tool }, None) => format!("{refusal}; see docs/STUDY-FORMAT.md and `man {tool}`"),
        _ => refusal.to_string(),
    })
}
