//! `flyball completions`, `flyball man`: both from the one definition of the arguments.

use crate::args::Cli;
use crate::exit::End;
use crate::terminal;
use anyhow::{Context, Result};
use clap::CommandFactory;
use std::path::Path;

/// Prints a completion script.
pub fn completions(shell: clap_complete::Shell) -> Result<End> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "flyball", &mut script);
    terminal::document(&String::from_utf8_lossy(&script))?;
    Ok(End::Done)
}

/// Writes `flyball.1` and a page for each command.
pub fn man(folder: &Path) -> Result<End> {
    let cannot = || format!("cannot write the man pages to `{}`", folder.display());
    files::output::make_folder(folder)?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(cannot)?;
    Ok(End::Done)
}
