//! `flyball complete`: what may stand at a shell's cursor. The scripts of `flyball completions` call it.
//!
//! It says nothing on errors, takes no lock and writes nothing: the notebook's folder of runs is listed, and
//! nothing in it opened. A name is offered only where a shell takes it as one word that means itself, so that
//! nothing hostile in a notebook or folder reaches a command line.

use crate::args::{Cli, Global};
use crate::exit::End;
use crate::{places, terminal};
use clap::{Arg, Command, CommandFactory};
use domain::inert::Lines;
use machine::settings::{KNOWN, SYSCTL_ROOTS};
use session::{simulation, studies};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// A bound on entries of a folder that are looked at: a shell waits for them.
const MAX_ENTRIES: usize = 20_000;

/// A bound on names that are offered.
const MAX_OFFERED: usize = 2_000;

/// What names are offered of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Runs,
    Studies,
    Machines,
    Settings,
}

/// Prints what begins with the last of these words, each on a line; the words are those behind the program's
/// name, up to the cursor.
pub fn complete(global: &Global, words: &[OsString]) -> End {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Some((begun, before)) = words.split_last() else { return End::Done };
    let before = without_equals(before);
    let begun = if begun == "=" { "" } else { begun };
    let global = &Global { notebook: notebook_of(&before).or_else(|| global.notebook.clone()), json: false };
    let names = kind(&before).map_or_else(BTreeSet::new, |kind| names(kind, global));
    let offered = names.iter().filter(|name| name.starts_with(begun) && is_plain(name));
    let lines: Lines = offered.take(MAX_OFFERED).collect();
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

fn names(kind: Kind, global: &Global) -> BTreeSet<String> {
    match kind {
        Kind::Runs => runs(global),
        Kind::Studies => {
            let shipped = studies::SHIPPED.iter().map(|study| study.name.to_owned());
            shipped.chain(entries(Path::new(".")).filter(|name| name.ends_with(".toml"))).collect()
        }
        Kind::Machines => simulation::SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect(),
        Kind::Settings => KNOWN.iter().map(|known| known.name.to_owned()).chain(sysctls()).collect(),
    }
}

/// The runs, and the studies of which they are: these stand for the last run of each.
fn runs(global: &Global) -> BTreeSet<String> {
    let Ok(notebook) = places::notebook(global) else { return BTreeSet::new() };
    let runs: Vec<String> = entries(&notebook.join("runs")).collect();
    let studies: Vec<String> = runs.iter().filter_map(|run| study_of(run)).map(str::to_owned).collect();
    runs.into_iter().chain(studies).collect()
}

/// The study in `quick-20261120-140502-7f3a`.
fn study_of(run: &str) -> Option<&str> {
    let mut parts = run.rsplitn(4, '-');
    let (_, time, date, study) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_number = |text: &str, length| text.len() == length && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(time, 6) && is_number(date, 8)).then_some(study)
}

fn sysctls() -> impl Iterator<Item = String> {
    SYSCTL_ROOTS.iter().flat_map(|root| {
        let folder = Path::new("/proc/sys").join(root.trim_end_matches('.').replace('.', "/"));
        entries(&folder).map(move |name| format!("{root}{name}"))
    })
}

/// The names in a folder; none where it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().take(MAX_ENTRIES);
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

/// Whether a shell takes the name as one word that means itself.
fn is_plain(name: &str) -> bool {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || "-_./@+".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_of_a_name)
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

    #[test]
    fn only_a_word_that_means_itself_is_offered() {
        assert!(
            ["quick-20261120-140502-7f3a", "published/raid10", "read_ahead_kb@sda"].into_iter().all(is_plain)
        );
        for name in
            ["", "a b", "$(id)", "`id`", "a;b", "-rf", "--yes", "*", "a\u{1b}[2J", "~x", "a'b", "a\nb", "é"]
        {
            assert!(!is_plain(name), "{name}");
        }
        assert_eq!(study_of("a-b-20261120-140502-7f3a"), Some("a-b"));
        assert_eq!(study_of("a-b"), None);
    }
}
