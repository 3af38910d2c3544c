//! `flyball gc`: which runs could go, what they take, and their removal.
//!
//! What killed programs left half written needs no command: it is swept whenever a notebook is opened.

use super::rm;
use crate::exit::End;
use crate::shown::opened;
use anyhow::Result;
use command_line::{Gc, Global};
use domain::trial::Run;
use machine::{LocalMachine, Machine};
use results::{Kept, Removable};

/// Shows what could go, or removes it.
pub fn gc(global: &Global, arguments: &Gc) -> Result<End> {
    let notebook = opened(global, None)?;
    let (entries, problems) = notebook.runs()?;
    terminal::damaged(&problems);
    let runs: Vec<Run> = entries.into_iter().map(|entry| entry.run).collect();
    let kept = Kept { newest: arguments.keep, older_than: arguments.older_than };
    let removable = Removable::of(&notebook, &runs, &kept, LocalMachine.now())?;
    print(global, &removable, arguments)?;
    if arguments.yes {
        rm::remove(&notebook, &removable.into_sizes())?;
    }
    Ok(End::Done)
}

fn print(global: &Global, removable: &Removable, arguments: &Gc) -> Result<()> {
    if global.json {
        return Ok(terminal::json(&removable.as_json(arguments.yes))?);
    }
    if removable.is_empty() {
        return Ok(terminal::line(
            "nothing could go; --older-than 90d and --keep 5 choose finished runs too",
        )?);
    }
    terminal::lines(&removable.as_text(terminal::width()))?;
    if !arguments.yes {
        let what = removable.in_words();
        terminal::say(format_args!("{what}; the same command with --yes removes them for good"));
    }
    Ok(())
}
