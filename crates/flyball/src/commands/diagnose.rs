//! `flyball diagnose`: one screen about this machine under the load that it has.

use crate::commands::record::{end, recorded};
use crate::exit::End;
use crate::{places, shown};
use analysis::server::WatchedServer;
use anyhow::{Context, Result};
use command_line::{Diagnose, Events, Global, Record};
use domain::time::Nanos;
use domain::trace::Role;
use report::{Diagnosis, diagnosis_text};
use session::recordings::watched_in_words;

/// For how long a running load is watched: long enough for a journal's commit, a write-back and a cron job,
/// short enough to wait for.
const WATCHED: Nanos = Nanos::from_millis(20_000);

/// Watches the machine, or a command or process on it, and says what limits it.
pub fn diagnose(global: &Global, arguments: &Diagnose) -> Result<End> {
    let is_command = !arguments.command.is_empty();
    let duration = arguments.duration.or_else(|| (!is_command).then_some(WATCHED));
    let announce = || {
        if let Some(duration) = duration.filter(|_| !global.json) {
            terminal::say(format_args!("watching for {duration}; Ctrl-C ends it sooner"));
        }
    };
    let done = recorded(
        global,
        &Record {
            interval: None,
            out: None,
            events: Events::default(),
            duration,
            pid: arguments.pid,
            server: arguments.server.clone(),
            command: arguments.command.clone(),
        },
        None,
        &announce,
    )?;
    let run = done.kept.run.as_ref().context("the recording is no run of the notebook")?;
    let results = shown::load(&shown::opened(global, None)?, run, None)?;
    if global.json {
        terminal::json(&report::json(&results.report()))?;
        return Ok(end(&done.ending));
    }
    let recording = &done.recording;
    let text = diagnosis_text(
        &Diagnosis {
            inventory: &done.inventory,
            usage: &results.usage(),
            duration: recording.duration,
            watched: &watched_in_words(recording),
            server: WatchedServer::of(&recording.environment, &recording.metrics).as_ref(),
            own_cpu: recording.roles.get(&Role::Workload).copied(),
            threads: &recording.threads,
            findings: &results.findings,
            not_measured: &results.not_measured,
            run: &run.0,
            program: &places::this_program(global),
        },
        terminal::screen_width(),
    );
    terminal::screen(&text)?;
    Ok(end(&done.ending))
}
