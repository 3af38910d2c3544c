//! `flyball completions`: prints a shell's completion script.

use crate::exit::End;
use anyhow::Result;
use clap_complete::Shell;

/// Prints a completion script.
pub fn completions(shell: Shell) -> Result<End> {
    terminal::document(&command_line::completions::script(shell))?;
    Ok(End::Done)
}
