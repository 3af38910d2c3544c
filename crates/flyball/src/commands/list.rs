//! `flyball list`.

use crate::exit::End;
use crate::look_only::look_only;
use crate::places;
use anyhow::Result;
use command_line::{Filter, Global, List};
use domain::time::Timestamp;
use domain::trial::Run;
use machine::{LocalMachine, Machine};
use notebook::{Notebook, RunEntry};
use results::listing::{Judged, MAX_JUDGED, as_json, as_table, judged, of_earlier_versions};

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
    let (recordings, problems) = notebook.recordings()?;
    terminal::damaged(&problems);
    of_earlier_versions(&notebook, &recordings).iter().for_each(terminal::note);
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
    print(global, &judged(&notebook, runs))
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

fn print(global: &Global, runs: &[Judged]) -> Result<End> {
    if global.json {
        terminal::json(&as_json(runs))?;
    } else if !runs.is_empty() {
        terminal::lines(&as_table(runs).lines(terminal::width()))?;
    }
    Ok(End::Done)
}
