//! `flyball man`: man pages, from the definition of the arguments.

use crate::exit::End;
use anyhow::{Context, Result};
use clap::CommandFactory;
use command_line::Cli;
use std::path::Path;

/// Writes `flyball.1` and a page for each command.
pub fn man(folder: &Path) -> Result<End> {
    let cannot = || format!("cannot write the man pages to `{}`", folder.display());
    files::output::make_folder(folder)?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(cannot)?;
    Ok(End::Done)
}
