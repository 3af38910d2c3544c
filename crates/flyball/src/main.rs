//! The binary: arguments, commands, terminal.
//!
//! Invariant: this is the only crate that prints, exits, or reads the environment.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod commands;
mod course;
mod exit;
mod guest;
mod here;
mod importing;
mod interrupt;
mod machines;
mod measuring;
mod places;
mod preflight;
mod progress;
mod results;

use clap::Parser;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    match commands::dispatch(cli) {
        Ok(end) => end.into(),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", chain(&error));
            exit::code_of(&error)
        }
    }
}

/// The error and its causes, leaving out a cause that the text before it already says.
fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Whether the reader of our output went away, as `flyball list | head -1` does.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = |e: &(dyn std::error::Error + 'static)| e.downcast_ref::<io::Error>().map(io::Error::kind);
    error.chain().any(|e| kind(e) == Some(io::ErrorKind::BrokenPipe))
}

/// Prints data, as lines. Unlike `print!` it returns the error of a closed pipe.
fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let end: &[u8] = if text.is_empty() || text.ends_with('\n') { b"" } else { b"\n" };
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(end)).and_then(|()| out.flush());
    written.map_err(|e| io::Error::new(e.kind(), format!("cannot write to standard output: {e}")))
}
