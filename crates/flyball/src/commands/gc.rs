//! `flyball gc`: which runs could go, what they take, and their removal.
//!
//! What killed programs left half written needs no command: it is swept whenever a notebook is opened.

use super::rm;
use crate::exit::End;
use crate::shown::opened;
use anyhow::Result;
use command_line::{Gc, Global};
use domain::ids::RunId;
use domain::trial::Run;
use domain::units::Bytes;
use machine::{LocalMachine, Machine};
use report::Columns;
use results::{Kept, removable};
use serde_json::json;

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
    let kept = Kept { newest: arguments.keep, older_than: arguments.older_than };
    let mut candidates = Vec::new();
    for (run, why) in removable(&notebook, &runs, &kept, LocalMachine.now()) {
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
