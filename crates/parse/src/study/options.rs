//! Options of fio and sysbench and operands of dd in a study: read as they stand, and refused where the tool's own list does
//! ([`crate::tools::fio::options`], [`crate::tools::dd::options`], [`domain::oltp`]).

use super::node::{Node, nearest};
use crate::tools::{Refusal, dd, fio};
use domain::oltp;
use domain::study::Tool;
use std::collections::BTreeMap;

/// Options by name, as the tool takes them.
pub(super) type Options = BTreeMap<String, String>;

/// A bound on the options of one table: there are fewer of them in all.
const MOST_OPTIONS: usize = 300;

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
    let (checked, near) = match tool {
        Tool::Fio => (fio::options::check(option, value), nearest(option, fio::options::names())),
        Tool::Dd => (dd::options::check(option, value), nearest(option, dd::options::NAMES)),
        Tool::Sysbench => {
            let checked = oltp::check(option, value).map_err(|error| match error.unknown {
                true => Refusal::Unknown { tool: "sysbench" },
                false => Refusal::Value(error.problem),
            });
            (checked, nearest(option, oltp::OPTIONS))
        }
        Tool::Imported | Tool::Command { .. } => return None,
    };
    let refusal = checked.err()?;
    Some(match (&refusal, near) {
        (Refusal::Unknown { .. }, Some(near)) => format!("{refusal}; did you mean `{near}`?"),
        (Refusal::Unknown { tool }, None) => format!("{refusal}; see docs/STUDY-FORMAT.md and `man {tool}`"),
        _ => refusal.to_string(),
    })
}
