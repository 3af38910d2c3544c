//! How large the binary is: it has commands, and what is more than that belongs to the crate whose invariant
//! it serves. docs/DESIGN.md says what is left.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Its lines of Rust, tests of its own files included.
const MAX_LINES: usize = 3_000;

/// The lines of one command's file.
const MAX_COMMAND: usize = 150;

/// Where the files of commands are, in the crate's sources.
const COMMANDS: &str = "commands";

/// What is too large, as lines for people; `files` are all sources of the binary below `source`.
pub fn check(source: &Path, files: &[PathBuf]) -> Result<Vec<String>, Box<dyn Error>> {
    let mut sizes = Vec::new();
    for file in files {
        sizes.push((file.strip_prefix(source)?.to_owned(), fs::read_to_string(file)?.lines().count()));
    }
    Ok(too_large(&sizes))
}

fn too_large(sizes: &[(PathBuf, usize)]) -> Vec<String> {
    let all: usize = sizes.iter().map(|(_, lines)| lines).sum();
    let whole = (all > MAX_LINES).then(|| {
        format!(
            "the binary has {all} lines, and {MAX_LINES} are allowed: what is not about typing belongs to another crate"
        )
    });
    let is_long = |(file, lines): &&(PathBuf, usize)| file.starts_with(COMMANDS) && *lines > MAX_COMMAND;
    let long = sizes.iter().filter(is_long).map(|(file, lines)| {
        format!("{}: {lines} lines, and a command's file has at most {MAX_COMMAND}", file.display())
    });
    whole.into_iter().chain(long).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_binary_and_a_long_command_are_told_and_what_fits_is_not() {
        let sizes =
            |main, command| vec![("main.rs".into(), main), (PathBuf::from(COMMANDS).join("run.rs"), command)];
        assert_eq!(too_large(&sizes(MAX_LINES - MAX_COMMAND, MAX_COMMAND)), Vec::<String>::new());
        let long = too_large(&sizes(0, MAX_COMMAND + 1));
        assert!(long.len() == 1 && long[0].starts_with("commands/run.rs: 151 lines"), "{long:?}");
        assert!(too_large(&sizes(MAX_LINES + 1, 0))[0].starts_with("the binary has"));
    }
}
