//! `flyball list`.

use crate::args::{Filter, Global, List};
use crate::exit::End;
use crate::look_only::look_only;
use crate::terminal::Columns;
use crate::{places, terminal};
use analysis::in_short::in_short;
use analysis::summarise::summarise;
use anyhow::Result;
use domain::time::Timestamp;
use domain::trial::{Provenance, Run};
use machine::{LocalMachine, Machine};
use notebook::{Notebook, RunEntry, TrialCounts};
use serde_json::json;

/// The version of the JSON form of a list.
const SCHEMA: u32 = 1;

/// How many runs are judged, the newest first. Each takes a second at worst: all of its trials are read, and
/// its factors compared. Nothing of it is kept, for a verdict may differ in the next version.
const MAX_JUDGED: usize = 20;

/// A run with its verdict, where it is among those that are judged.
type Judged = (RunEntry, Option<String>);

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
    let notebook = Notebook::open(&folder)?;
    let (runs, problems) = notebook.runs()?;
    terminal::damaged(&problems);
    tell_of_old_recordings(&notebook)?;
    let there_are = !runs.is_empty();
    let runs = filtered(runs, arguments, LocalMachine.now());
    if runs.is_empty() {
        say_none(arguments, there_are);
    }
    if runs.len() > MAX_JUDGED && !global.json {
        terminal::note(format_args!(
            "the newest {MAX_JUDGED} have their verdict here; `flyball show RUN` has any, and filters choose others"
        ));
    }
    let judged: Vec<Judged> = runs
        .into_iter()
        .enumerate()
        .map(|(at, entry)| {
            let verdict = (at < MAX_JUDGED).then(|| verdict(&notebook, &entry.run));
            (entry, verdict)
        })
        .collect();
    print(global, &judged)
}

/// Recordings of versions before 0.2 are no runs.
fn tell_of_old_recordings(notebook: &Notebook) -> Result<()> {
    let (recordings, problems) = notebook.recordings()?;
    terminal::damaged(&problems);
    if !recordings.is_empty() {
        let names: Vec<&str> = recordings.iter().map(|recording| recording.name.as_str()).collect();
        terminal::note(format_args!(
            "recordings of an earlier version, which are no runs, are in `{}`: {}",
            notebook.folder().join("recordings").display(),
            names.join(", ")
        ));
    }
    Ok(())
}

fn filtered(runs: Vec<RunEntry>, arguments: &List, now: Timestamp) -> Vec<RunEntry> {
    let study = arguments.study.as_ref().or(arguments.filter.of_study.as_ref());
    let is_meant = |entry: &RunEntry| {
        study.is_none_or(|study| entry.run.study == *study) && passes(&arguments.filter, &entry.run, now)
    };
    runs.into_iter().filter(is_meant).take(arguments.filter.last.unwrap_or(usize::MAX)).collect()
}

fn passes(filter: &Filter, run: &Run, now: Timestamp) -> bool {
    let Filter { since, until, provenance, machine, unfinished, finished, of_study: _, last: _ } = filter;
    since.is_none_or(|moment| run.started >= moment.from(now))
        && until.is_none_or(|moment| run.started < moment.from(now))
        && provenance.is_none_or(|kind| run.provenance == kind)
        && machine.as_ref().is_none_or(|machine| run.machine.starts_with(machine.as_str()))
        && !(*unfinished && run.finished.is_some())
        && !(*finished && run.finished.is_none())
}

fn say_none(arguments: &List, there_are: bool) {
    let study = arguments.study.as_ref().or(arguments.filter.of_study.as_ref());
    match study {
        Some(study) => terminal::say(format_args!(
            "there is no such run of the study `{study}`; `flyball list` shows all"
        )),
        None if there_are => terminal::say("no run is like that; `flyball list` shows all"),
        None => terminal::say("the notebook has no runs yet; `flyball run` and `flyball check` begin one"),
    }
}

/// What a run found, in a few words; why that cannot be told, where it cannot.
fn verdict(notebook: &Notebook, run: &Run) -> String {
    // What is damaged in the notebook has been told once already.
    match results::read(notebook, &run.id) {
        Ok(stored) => in_short(&stored.data, &summarise(&stored.data, None)),
        Err(_) => "this version cannot read its study".to_owned(),
    }
}

fn print(global: &Global, runs: &[Judged]) -> Result<End> {
    if global.json {
        terminal::json(&as_json(runs))?;
    } else if !runs.is_empty() {
        terminal::lines(&as_table(runs).lines(terminal::width()))?;
    }
    Ok(End::Done)
}

fn as_table(runs: &[Judged]) -> Columns {
    let mut table = Columns::new(&["RUN", "ON", "TRIALS", "VERDICT"]);
    for (entry, verdict) in runs {
        let all = all(&entry.trials);
        let trials = match entry.trials.valid {
            valid if valid == all => all.to_string(),
            valid => format!("{valid} of {all}"),
        };
        let unfinished = if entry.run.finished.is_none() { "unfinished; " } else { "" };
        let verdict = verdict.as_deref().unwrap_or("-");
        table.row([
            entry.run.id.0.clone(),
            on(entry.run.provenance).to_owned(),
            trials,
            format!("{unfinished}{verdict}"),
        ]);
    }
    table
}

/// As `--on` has it: one column in a narrow table.
fn on(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Simulation => "sim",
        Provenance::Imported => "import",
        other => other.name(),
    }
}

fn as_json(runs: &[Judged]) -> String {
    let run = |(entry, verdict): &Judged| {
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
            "verdict": verdict,
        })
    };
    format!("{:#}", json!({ "schema": SCHEMA, "runs": runs.iter().map(run).collect::<Vec<_>>() }))
}

fn all(counts: &TrialCounts) -> u64 {
    counts.valid + counts.disturbed + counts.failed
}
