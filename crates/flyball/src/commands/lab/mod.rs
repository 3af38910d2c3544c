//! `flyball lab …`: studies, commands and shells in virtual machines.

mod exec;
mod run;
mod shell;
mod start;
mod stored;

use crate::exit::End;
use anyhow::Result;
use command_line::{Global, Lab};

/// Carries out what was typed after `lab`.
pub fn dispatch(global: &Global, command: &Lab) -> Result<End> {
    match command {
        Lab::Run(arguments) => run::run(global, arguments),
        Lab::Shell(arguments) => shell::shell(arguments),
        Lab::Exec(arguments) => exec::exec(arguments),
        Lab::Kernels(arguments) => stored::kernels(global, arguments),
        Lab::Images => stored::images(global),
        Lab::Clean => stored::clean(),
    }
}
