//! The binary: arguments, commands, terminal.
//!
//! Invariant: this is the only crate that prints, exits, or reads the environment.

mod commands;
mod exit;
mod interrupt;
mod look_only;
mod machine_lock;
mod places;
mod shown;
mod study;

use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    terminal::watch_panics();
    let cli = match terminal::arguments() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match commands::dispatch(cli) {
        Ok(end) => end.into(),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::error(&error, error.is::<exit::Faults>());
            exit::code_of(&error)
        }
    }
}

/// What was typed after the program's name, which a notebook keeps.
fn typed() -> Vec<String> {
    std::env::args().skip(1).collect()
}

/// Whether the reader of our output went away, as `flyball list | head -1` does.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = |e: &(dyn std::error::Error + 'static)| e.downcast_ref::<io::Error>().map(io::Error::kind);
    error.chain().any(|e| kind(e) == Some(io::ErrorKind::BrokenPipe))
}
