//! Options of fio, sysbench, pgbench and bonnie and operands of dd in a study: read as they stand, and refused where the tool's
//! own list does ([`workloads::fio::options`], [`workloads::dd::options`], [`workloads::sysbench::options`], [`workloads::pgbench::options`],
//! [`workloads::bonnie::options`]).

use super::node::{Node, nearest};
use domain::study::Tool;
use std::collections::BTreeMap;
use workloads::options::OptionError;
use workloads::options::Refusal;
use workloads::{bonnie::options as bonnie, dd, fio, pgbench::options as pgbench, sysbench::options as oltp};

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
        Tool::Fio => {
            let names = fio::options::names().chain(fio::options::OURS);
            let checked = fio::options::check_ours(option, value);
            (checked.unwrap_or_else(|| fio::options::check(option, value)), nearest(option, names))
        }
        Tool::Dd => (dd::options::check(option, value), nearest(option, dd::options::NAMES)),
        Tool::Sysbench => {
            (oltp::check(option, value).map_err(refused("sysbench")), nearest(option, oltp::OPTIONS))
        }
        Tool::Pgbench => {
            (pgbench::check(option, value).map_err(refused("pgbench")), nearest(option, pgbench::OPTIONS))
        }
        Tool::Bonnie => {
            (bonnie::check(option, value).map_err(refused("bonnie")), nearest(option, bonnie::OPTIONS))
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

/// A refusal of an option that the study's own words know.
fn refused(tool: &'static str) -> impl Fn(OptionError) -> Refusal {
    move |error| match error.unknown {
        true => Refusal::Unknown { tool },
        false => Refusal::Value(error.problem),
    }
}
