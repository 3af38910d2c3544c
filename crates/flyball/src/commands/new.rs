//! `flyball new`: writes a study to begin with, from what is typed or from one that ships.

use crate::exit::End;
use crate::study::read_study;
use anyhow::Result;
use command_line::New;
use session::draft::{self, Wanted, all_levels, copied, made};
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
            let settings = all_levels(&arguments.governors, &arguments.levels);
            copied(&read.source, &read.study, arguments.name.as_deref(), &settings)?
        }
        None => made(&Wanted {
            name: arguments.name.as_deref(),
            tool: arguments.tool.as_deref(),
            governors: &arguments.governors,
            levels: &arguments.levels,
            target: arguments.target.as_deref(),
            user: arguments.user.as_deref(),
            password_file: arguments.password_file.as_deref(),
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
    draft::write(&out, &drafted.text)?;
    let out = out.to_string_lossy();
    terminal::say(format_args!("wrote {out}; next: `flyball run {} --dry-run`", report::shell_quoted(&out)));
    Ok(End::Done)
}
