//! `flyball mark`: a mark in recordings that go on.

use crate::exit::End;
use crate::places;
use anyhow::{Context, Result, bail};
use command_line::{Global, Mark};
use runner::marks;
use session::recordings::{Place, underway};
use std::fs::File;
use std::path::Path;

/// Marks the recording that this process runs in; else those that go on into the notebook, or into the folder
/// that is named.
pub fn mark(global: &Global, arguments: &Mark) -> Result<End> {
    let name = &arguments.name;
    let own = places::marks().filter(|_| arguments.out.is_none() && global.notebook.is_none());
    let found: Vec<File> = match own {
        Some(pipe) => vec![of_this_process(&pipe)?],
        None => underway_at(global, arguments)?,
    };
    let count = found.len();
    for pipe in found {
        marks::mark(pipe, name).context("cannot mark the recording: it has just ended")?;
    }
    if count > 1 {
        terminal::say(format_args!("marked {count} recordings that go on there"));
    }
    Ok(End::Done)
}

fn of_this_process(pipe: &Path) -> Result<File> {
    let opened = marks::open(pipe).with_context(|| {
        let number = marks::DESCRIPTOR_VARIABLE;
        format!(
            "cannot mark by `{}`; who may not open it writes a line to the descriptor ${number}",
            pipe.display()
        )
    })?;
    opened.with_context(|| format!("cannot mark: the recording that `{}` was of has ended", pipe.display()))
}

fn underway_at(global: &Global, arguments: &Mark) -> Result<Vec<File>> {
    let notebook = places::notebook(global)?;
    let place = arguments.out.as_deref().map_or(Place::Notebook(&notebook), Place::Folder);
    let found = underway(place)?;
    if found.is_empty() {
        let program = places::this_program(global);
        match &arguments.out {
            Some(folder) => bail!("cannot mark: nothing is being recorded into `{}`", folder.display()),
            None => bail!(
                "cannot mark: nothing is being recorded into the notebook `{}`; begin with `{program} record`, or name the place of a recording by --notebook or --out",
                notebook.display()
            ),
        }
    }
    Ok(found)
}
