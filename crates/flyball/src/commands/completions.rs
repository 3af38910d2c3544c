//! `flyball completions`: a shell's completion script, from the definition of the arguments.

use crate::args::Cli;
use crate::exit::End;
use crate::terminal;
use anyhow::Result;
use clap::CommandFactory;

/// Prints a completion script.
pub fn completions(shell: clap_complete::Shell) -> Result<End> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "flyball", &mut script);
    terminal::document(&String::from_utf8_lossy(&script))?;
    Ok(End::Done)
}
