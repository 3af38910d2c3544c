//! `flyball list`.

use crate::args::{Global, List};
use crate::exit::End;
use crate::foreign::look_only;
use crate::{places, terminal};
use anyhow::Result;
use domain::inert::{Lines, one_line};
use notebook::{Notebook, RunEntry, TrialCounts};
use serde_json::json;

/// The version of the JSON form of a list.
const SCHEMA: u32 = 1;

/// Lists the runs of the notebook, the newest first.
pub fn list(global: &Global, arguments: &List) -> Result<End> {
    let folder = places::notebook(global)?;
    if !folder.exists() {
        terminal::say(format_args!(
            "there is no notebook in `{}` yet; `flyball run` and `flyball check` begin one",
            folder.display()
        ));
        return print(global, &[]);
    }
    look_only(&folder, None);
    let (runs, problems) = Notebook::open(&folder)?.runs()?;
    terminal::damaged(&problems);
    let wanted = |entry: &RunEntry| arguments.study.as_ref().is_none_or(|study| entry.run.study == *study);
    let runs: Vec<RunEntry> = runs.into_iter().filter(wanted).collect();
    if let (Some(study), true) = (&arguments.study, runs.is_empty()) {
        terminal::say(format_args!("there is no run of the study `{study}`; `flyball list` shows all"));
    }
    print(global, &runs)
}

fn print(global: &Global, runs: &[RunEntry]) -> Result<End> {
    if global.json {
        terminal::json(&as_json(runs))?;
    } else {
        terminal::lines(&as_text(runs))?;
    }
    Ok(End::Done)
}

fn as_text(runs: &[RunEntry]) -> Lines {
    let width = runs.iter().map(|entry| one_line(&entry.run.id.0).chars().count()).max().unwrap_or(0);
    let lines = runs.iter().map(|entry| {
        let run = &entry.run;
        let state = if run.finished.is_some() { "finished" } else { "unfinished" };
        let revision = run.revision.as_deref().unwrap_or("-");
        format!(
            "{:width$}  {}  {:10}  {:10}  {:4} trials, {} not counted  {revision}",
            one_line(&run.id.0),
            run.started.iso(),
            run.provenance.name(),
            state,
            all(&entry.trials),
            entry.trials.disturbed + entry.trials.failed,
        )
    });
    lines.collect()
}

fn as_json(runs: &[RunEntry]) -> String {
    let run = |entry: &RunEntry| {
        let run = &entry.run;
        json!({
            "run": run.id.0,
            "study": run.study,
            "started": run.started.iso(),
            "finished": run.finished.map(domain::Timestamp::iso),
            "provenance": run.provenance.name(),
            "machine": run.machine,
            "seed": run.seed.0,
            "revision": run.revision,
            "trials": all(&entry.trials),
            "valid": entry.trials.valid,
        })
    };
    format!("{:#}", json!({ "schema": SCHEMA, "runs": runs.iter().map(run).collect::<Vec<_>>() }))
}

fn all(counts: &TrialCounts) -> u64 {
    counts.valid + counts.disturbed + counts.failed
}
