//! `flyball new`: writes a study to begin with, from what is typed or from one that ships.

use crate::exit::End;
use crate::study::read_study;
use anyhow::{Context, Result, bail};
use command_line::New;
use session::draft::{Wanted, copied, made};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Standard output, as a file's name.
const STDOUT: &str = "-";

/// Writes a study, and says what to do with it.
pub fn new(arguments: &New) -> Result<End> {
    let file = arguments.out.as_deref().filter(|out| *out != Path::new(STDOUT));
    let file = file.map(|out| report::shell_quoted(&out.to_string_lossy()));
    let drafted = match &arguments.from {
        Some(from) => {
            let read = read_study(from)?;
            copied(&read.source, &read.study, arguments.name.as_deref())?
        }
        None => made(&Wanted {
            name: arguments.name.as_deref(),
            tool: arguments.tool.as_deref(),
            governors: &arguments.governors,
            levels: &arguments.levels,
            target: arguments.target.as_deref(),
            command: &arguments.command,
            file: file.as_deref(),
        })?,
    };
    drafted.note.iter().for_each(terminal::note);
    let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("{}.toml", drafted.name)));
    if out == Path::new(STDOUT) {
        terminal::document(&drafted.text)?;
        return Ok(End::Done);
    }
    write(&out, &drafted.text)?;
    let out = out.to_string_lossy();
    terminal::say(format_args!("wrote {out}; next: `flyball run {} --dry-run`", report::shell_quoted(&out)));
    Ok(End::Done)
}

/// Writes a file that is not there yet.
fn write(path: &Path, text: &str) -> Result<()> {
    let cannot = || format!("cannot write the study `{}`", path.display());
    // A link of that name is not followed either.
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{}: it is there already; give another NAME, or --out FILE", cannot())
        }
        opened => opened.with_context(cannot)?,
    };
    file.write_all(text.as_bytes()).with_context(cannot)
}
