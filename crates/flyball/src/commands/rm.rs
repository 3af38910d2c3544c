//! `flyball rm`: runs that are not wanted any more.

use crate::exit::{Busy, End, Usage};
use crate::shown::opened;
use anyhow::{Context, Result};
use command_line::{Global, Rm};
use domain::ids::RunId;
use domain::units::Bytes;
use notebook::Notebook;
use std::collections::BTreeSet;

/// Removes runs: all that were named, or none where one of them cannot be.
pub fn rm(global: &Global, arguments: &Rm) -> Result<End> {
    let notebook = opened(global, None)?;
    let found: Result<BTreeSet<RunId>> =
        arguments.runs.iter().map(|name| Ok(results::only_run(&notebook, name)?)).collect();
    let runs: Vec<RunId> = found?.into_iter().collect();
    refuse_measured(&notebook, &runs)?;
    let sizes = runs.iter().map(|run| Ok((run.clone(), notebook.run_size(run)?)));
    let sizes: Vec<(RunId, Bytes)> = sizes.collect::<Result<_>>()?;
    if !arguments.yes && !agreed(&sizes)? {
        terminal::say("nothing was removed");
        return Ok(End::Done);
    }
    remove(&notebook, &sizes)?;
    Ok(End::Done)
}

/// Removes runs one after the other, and says so of each.
pub fn remove(notebook: &Notebook, runs: &[(RunId, Bytes)]) -> Result<()> {
    for (run, size) in runs {
        notebook.remove_run(run)?;
        terminal::say(format_args!("removed `{run}`, {size}"));
    }
    Ok(())
}

fn refuse_measured(notebook: &Notebook, runs: &[RunId]) -> Result<()> {
    for run in runs {
        if notebook.is_measured(run).with_context(|| format!("cannot remove `{run}`"))? {
            let text = format!(
                "cannot remove `{run}`: another flyball is measuring it; wait until it ends, or stop it first"
            );
            return Err(Busy(text).into());
        }
    }
    Ok(())
}

fn agreed(runs: &[(RunId, Bytes)]) -> Result<bool> {
    let what = results::in_words(runs);
    let answer = terminal::confirmed(format_args!("remove {what} for good?"))?;
    let nobody = || Usage(format!("nobody can be asked here whether to remove {what}; add --yes"));
    Ok(answer.ok_or_else(nobody)?)
}
