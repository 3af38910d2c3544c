//! `flyball replay`: what other frequency policies would have given a trial.

use crate::exit::{End, Usage};
use crate::places;
use crate::shown::{opened, trial_key};
use anyhow::Result;
use command_line::{Global, Replay};
use report::replayed::{self, Replayed};
use results::{Replayable, Told};
use session::recorded_on;
use std::path::Path;

/// Predicts; or holds predictions against what the run measured.
pub fn replay(global: &Global, arguments: &Replay) -> Result<End> {
    // Before nothing but the notebook can be read.
    let machine = arguments.machine.as_deref().map(|name| recorded_on(name, Path::new("")));
    let told = Told { machine: machine.transpose()?, in_force: arguments.in_force.clone() };
    let notebook = opened(global, None)?;
    let id = notebook.find(&arguments.run)?;
    let key = arguments.trial.as_deref().map(trial_key).transpose()?;
    let run = Replayable::on(&notebook, &id, told, terminal::warn)?;
    if arguments.check {
        let checked = run.checked(key.as_ref(), terminal::warn)?;
        match global.json {
            true => terminal::json(&replayed::checked_json(&checked))?,
            false => terminal::lines(&report::within(&replayed::checked_text(&checked), terminal::width()))?,
        }
        return Ok(End::Done);
    }
    let trial = run.trial(key.as_ref())?;
    let replay = run.replay(trial)?;
    let asked = replay::asked(&arguments.governor, &arguments.set, &arguments.sweep);
    let replayed = Replayed {
        trial,
        replay: &replay,
        is_whole: arguments.all || !asked.is_empty(),
        predicted: Replayable::predicted(&replay, asked).map_err(Usage)?,
        command: run.command(),
        told_machine: arguments.machine.as_deref(),
        others: !run.others(trial).is_empty(),
    };
    if global.json {
        terminal::json(&replayed::json(&replayed))?;
    } else {
        let program = places::this_program(global);
        terminal::screen(&replayed::text(&replayed, &program, terminal::screen_width()))?;
    }
    Ok(End::Done)
}
