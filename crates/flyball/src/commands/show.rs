//! `flyball show`: a run of the notebook, or one of its trials.

use crate::shown::{self, Length, opened, trial_key};
use crate::{exit::End, places};
use anyhow::{Result, bail};
use command_line::{Global, Show};

/// Shows a run, or one of its trials.
pub fn show(global: &Global, arguments: &Show) -> Result<End> {
    let notebook = opened(global, None)?;
    let id = notebook.find(&arguments.run)?;
    if let Some(name) = &arguments.trial {
        let key = trial_key(name)?;
        let folder = notebook.trial_folder(&id, &key);
        if !folder.exists() {
            bail!("the run `{id}` has no trial `{name}`; `flyball export {id}` lists its trials");
        }
        let trial = notebook.trial(&id, &key)?;
        if global.json {
            terminal::json(&notebook.trial_json(&id, &key)?)?;
        } else {
            let states = results::residency(&notebook, &id, &key, terminal::warn);
            terminal::document(&report::Wide(terminal::screen_width()).trial_text(&trial, &states))?;
            let program = places::this_program(global);
            let events = results::events_shown(&notebook, (&id, &key), &program, terminal::warn);
            if let Some(events) = events {
                terminal::lines(&report::within(&events, terminal::width()))?;
            }
            terminal::say(format_args!("all of it: {}", folder.display()));
        }
        return Ok(End::Done);
    }
    let results = shown::load(&notebook, &id, None)?;
    shown::print(global, &results, Length::of(arguments.full))?;
    if let Some(events) = results.events(&notebook, &places::this_program(global)).filter(|_| !global.json) {
        terminal::lines(&report::within(&events, terminal::width()))?;
    }
    Ok(End::Done)
}
