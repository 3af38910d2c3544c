//! One file a command. Each gathers what it needs, calls the crate that knows, and prints.

mod paperwork;

use crate::args::{Cli, Command};
use crate::exit::End;
use anyhow::Result;

/// Carries out what was typed.
pub fn dispatch(cli: Cli) -> Result<End> {
    let global = &cli.global;
    match cli.command {
        Command::Completions { shell } => paperwork::completions(shell),
        Command::Man { folder } => paperwork::man(&folder),
        _ => unreachable!("the commands come with the crates that serve them"),
    }
}
