//! `flyball gc`: which runs could go, what they take, and their removal.
//!
//! What killed programs left half written needs no command: it is swept whenever a notebook is opened.

use super::rm;
use crate::exit::End;
use crate::shown::opened;
use anyhow::Result;
use command_line::{Gc, Global};
use domain::Nanos;
use domain::ids::RunId;
use domain::time::Timestamp;
use domain::trial::Run;
use domain::units::Bytes;
use machine::{LocalMachine, Machine};
use notebook::Notebook;
use report::Columns;
use serde_json::json;
use std::collections::BTreeMap;

/// The version of the JSON form.
const SCHEMA: u32 = 1;

/// A run that could go: why, and what it takes.
struct Candidate {
    run: RunId,
    why: &'static str,
    size: Bytes,
}

/// Shows what could go, or removes it.
pub fn gc(global: &Global, arguments: &Gc) -> Result<End> {
    let notebook = opened(global, None)?;
    let (entries, problems) = notebook.runs()?;
    terminal::damaged(&problems);
    let runs: Vec<Run> = entries.into_iter().map(|entry| entry.run).collect();
    let mut candidates = Vec::new();
    for (run, why) in chosen(&notebook, &runs, arguments, LocalMachine.now()) {
        // What is being measured is nobody's leftover, whatever else it is.
        if !notebook.is_measured(&run.id)? {
            candidates.push(Candidate { run: run.id.clone(), why, size: notebook.run_size(&run.id)? });
        }
    }
    print(global, &candidates, arguments)?;
    if arguments.yes {
        let sizes: Vec<(RunId, Bytes)> = candidates.into_iter().map(|c| (c.run, c.size)).collect();
        rm::remove(&notebook, &sizes)?;
    }
    Ok(End::Done)
}

/// The runs that could go and why, newest first.
fn chosen<'r>(
    notebook: &Notebook,
    runs: &'r [Run],
    arguments: &Gc,
    now: Timestamp,
) -> Vec<(&'r Run, &'static str)> {
    let abandoned = notebook.abandoned(runs);
    let mut rank: BTreeMap<&str, usize> = BTreeMap::new();
    let why = |run: &'r Run| {
        let at = rank.entry(run.study.as_str()).or_default();
        *at += 1;
        let is_beyond = arguments.keep.map(|keep| *at > keep);
        let is_old = arguments.older_than.map(|span| is_older(run, span, now));
        let why = if abandoned.contains(&run) {
            "unfinished, and a newer run of its study has begun"
        } else {
            why_finished(is_old, is_beyond)?
        };
        Some((run, why))
    };
    runs.iter().filter_map(why).collect()
}

fn why_finished(is_old: Option<bool>, is_beyond: Option<bool>) -> Option<&'static str> {
    match (is_old, is_beyond) {
        (Some(true), Some(true) | None) => Some("older than was asked"),
        (None, Some(true)) => Some("beyond the newest that are kept"),
        _ => None,
    }
}

fn is_older(run: &Run, span: Nanos, now: Timestamp) -> bool {
    let age = now.unix_nanos().saturating_sub(run.started.unix_nanos());
    u64::try_from(age).is_ok_and(|age| age > span.get())
}

fn print(global: &Global, candidates: &[Candidate], arguments: &Gc) -> Result<()> {
    let total = Bytes::new(candidates.iter().map(|c| c.size.get()).sum());
    if global.json {
        let run = |c: &Candidate| json!({ "run": c.run.0, "why": c.why, "bytes": c.size.get() });
        let runs: Vec<_> = candidates.iter().map(run).collect();
        let value = json!({ "schema": SCHEMA, "removed": arguments.yes, "bytes": total.get(), "runs": runs });
        return Ok(terminal::json(&format!("{value:#}"))?);
    }
    if candidates.is_empty() {
        return Ok(terminal::line(
            "nothing could go; --older-than 90d and --keep 5 choose finished runs too",
        )?);
    }
    let mut table = Columns::new(&["RUN", "TAKES", "WHY"]);
    for Candidate { run, why, size } in candidates {
        table.row([run.0.clone(), size.to_string(), (*why).to_owned()]);
    }
    terminal::lines(&table.lines(terminal::width()))?;
    if !arguments.yes {
        let count = candidates.len();
        terminal::say(format_args!(
            "{total} in {count} {}; the same command with --yes removes them for good",
            if count == 1 { "run" } else { "runs" }
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::why_finished;

    #[test]
    fn what_is_to_be_kept_is_kept_whatever_its_age() {
        assert!(why_finished(Some(true), None).is_some());
        assert!(why_finished(Some(true), Some(true)).is_some());
        assert!(why_finished(None, Some(true)).is_some());
        for kept in [(Some(true), Some(false)), (Some(false), Some(true)), (None, Some(false)), (None, None)]
        {
            assert!(why_finished(kept.0, kept.1).is_none(), "{kept:?}");
        }
    }
}
