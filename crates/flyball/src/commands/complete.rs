//! `flyball complete`: what may stand at a shell's cursor. The scripts of `flyball completions` call it.
//!
//! It says nothing on errors, takes no lock and writes nothing: the notebook's folder of runs is listed, and
//! nothing in it opened. What names there are says [`session::candidates`].

use crate::exit::End;
use crate::places;
use clap::{Arg, Command, CommandFactory};
use command_line::{Cli, Global};
use domain::inert::Lines;
use session::candidates::{Kind, names};
use std::collections::BTreeSet;
use std::ffi::OsString;

/// A bound on names that are offered.
const MAX_OFFERED: usize = 2_000;

/// Prints what begins with the last of these words, each on a line; the words are those behind the program's
/// name, up to the cursor.
pub fn complete(global: &Global, words: &[OsString]) -> End {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Some((begun, before)) = words.split_last() else { return End::Done };
    let before = without_equals(before);
    let begun = if begun == "=" { "" } else { begun };
    let global = &Global { notebook: notebook_of(&before).or_else(|| global.notebook.clone()), json: false };
    let notebook = places::notebook(global).ok();
    let names = kind(&before).map_or_else(BTreeSet::new, |kind| names(kind, notebook.as_deref()));
    let lines: Lines = names.iter().filter(|name| name.starts_with(begun)).take(MAX_OFFERED).collect();
    // Whoever asked may be gone.
    let _ = terminal::lines(&lines);
    End::Done
}

/// bash divides `--set=governor` into three words.
fn without_equals(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).filter(|word| *word != "=").collect()
}

/// The notebook that was typed.
fn notebook_of(words: &[&str]) -> Option<std::path::PathBuf> {
    let at = words.iter().position(|word| *word == "--notebook")?;
    words.get(at + 1).map(Into::into)
}

/// What stands behind these words.
fn kind(words: &[&str]) -> Option<Kind> {
    let mut cli = Cli::command();
    cli.build();
    let mut command: &Command = &cli;
    let mut path = Vec::new();
    let mut positionals = 0;
    let mut awaited: Option<&Arg> = None;
    for word in words {
        if awaited.take().is_some() {
            continue;
        }
        if let Some(long) = word.strip_prefix("--") {
            // Behind a bare `--` stands a command of somebody else's.
            if long.is_empty() {
                return None;
            }
            awaited = command.get_arguments().find(|arg| arg.get_long() == Some(long) && takes_value(arg));
        } else if let Some(short) = word.strip_prefix('-').filter(|short| short.len() == 1) {
            awaited = command
                .get_arguments()
                .find(|arg| short.chars().next() == arg.get_short() && takes_value(arg));
        } else if let Some(below) = command.find_subcommand(word).filter(|_| positionals == 0) {
            command = below;
            path.push(*word);
        } else {
            positionals += 1;
        }
    }
    let arg = awaited.or_else(|| {
        let mut repeated = command.get_positionals().filter(|arg| is_repeated(arg));
        command.get_positionals().nth(positionals).or_else(|| repeated.next())
    })?;
    match of_value(&path, arg)? {
        // What was published is in a study.
        Kind::Runs if awaited.is_none() && words.contains(&"--published") => Some(Kind::Studies),
        kind => Some(kind),
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn is_repeated(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|range| range.max_values() > 1)
}

/// Values of one name are one kind of thing in all commands.
fn of_value(path: &[&str], arg: &Arg) -> Option<Kind> {
    let name = arg.get_value_names()?.first()?.as_str();
    match (path, name) {
        // A machine of the list is one of its runs', and not a simulated one.
        (["list", ..], "MACHINE") => None,
        (["list", ..], "STUDY") | (_, "RUN" | "A" | "B") => Some(Kind::Runs),
        (_, "STUDY") => Some(Kind::Studies),
        (_, "MACHINE") => Some(Kind::Machines),
        (_, "SETTING=VALUE" | "PATTERN") => Some(Kind::Settings),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_at_the_cursor_follows_from_the_words_before_it() {
        for (words, expected) in [
            ("show", Some(Kind::Runs)),
            ("show --full", Some(Kind::Runs)),
            ("compare a", Some(Kind::Runs)),
            ("rm a b c", Some(Kind::Runs)),
            ("--notebook show show", Some(Kind::Runs)),
            ("run", Some(Kind::Studies)),
            ("report --published", Some(Kind::Studies)),
            ("report", Some(Kind::Runs)),
            ("lab run", Some(Kind::Studies)),
            ("run --seed 7", Some(Kind::Studies)),
            ("run quick --machine", Some(Kind::Machines)),
            ("tune --set", Some(Kind::Settings)),
            ("settings", Some(Kind::Settings)),
            ("", None),
            ("show x y z", None),
            ("run --seed", None),
            ("record --", None),
            ("record -- flyball show", None),
            ("list --machine", None),
        ] {
            let words: Vec<&str> = words.split_whitespace().collect();
            assert_eq!(kind(&words), expected, "{words:?}");
        }
    }
}
