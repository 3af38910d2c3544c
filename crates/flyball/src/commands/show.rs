//! `flyball show`: a run of the notebook, or one of its trials.

use crate::exit::End;
use crate::shown::{self, Length, opened, trial_key};
use anyhow::{Context, Result, bail};
use command_line::{Global, Show};

/// A bound on a stored trial, as the notebook has it.
const MAX_TRIAL: u64 = 64 << 20;

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
            let stored = folder.join("trial.json");
            let text = files::regular::text(&stored, MAX_TRIAL)
                .with_context(|| format!("cannot read `{}`", stored.display()))?;
            terminal::json(&text)?;
        } else {
            let states = results::residency(&notebook, &id, &key, terminal::warn);
            terminal::document(&report::Wide(terminal::screen_width()).trial_text(&trial, &states))?;
            terminal::say(format_args!("all of it: {}", folder.display()));
        }
        return Ok(End::Done);
    }
    let results = shown::load(&notebook, &id, None)?;
    shown::print(global, &results, Length::of(arguments.full))?;
    Ok(End::Done)
}
