//! What stands at a shell's cursor, by the definition of the arguments.

use crate::Cli;
use clap::{Arg, Command, CommandFactory};
use domain::ids::Named;

/// What a word behind these words names; `None` where that is nothing that has a name. The words are those
/// behind the program's own.
pub fn named(words: &[&str]) -> Option<Named> {
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
        Named::Runs if awaited.is_none() && words.contains(&"--published") => Some(Named::Studies),
        named => Some(named),
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn is_repeated(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|range| range.max_values() > 1)
}

/// Values of one name are one kind of thing in all commands.
fn of_value(path: &[&str], arg: &Arg) -> Option<Named> {
    let name = arg.get_value_names()?.first()?.as_str();
    match (path, name) {
        // A machine of the list is one of its runs', and not a simulated one.
        (["list", ..], "MACHINE") => None,
        (["list", ..], "STUDY") | (_, "RUN" | "A" | "B") => Some(Named::Runs),
        (_, "STUDY") => Some(Named::Studies),
        (_, "MACHINE") => Some(Named::Machines),
        (_, "SETTING=VALUE" | "PATTERN") => Some(Named::Settings),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_at_the_cursor_follows_from_the_words_before_it() {
        for (words, expected) in [
            ("show", Some(Named::Runs)),
            ("show --full", Some(Named::Runs)),
            ("watch", Some(Named::Runs)),
            ("watch --", None),
            ("compare a", Some(Named::Runs)),
            ("rm a b c", Some(Named::Runs)),
            ("--notebook show show", Some(Named::Runs)),
            ("run", Some(Named::Studies)),
            ("report --published", Some(Named::Studies)),
            ("report", Some(Named::Runs)),
            ("lab run", Some(Named::Studies)),
            ("run --seed 7", Some(Named::Studies)),
            ("run quick --machine", Some(Named::Machines)),
            ("tune --set", Some(Named::Settings)),
            ("settings", Some(Named::Settings)),
            ("", None),
            ("show x y z", None),
            ("run --seed", None),
            ("record --", None),
            ("record -- flyball show", None),
            ("list --machine", None),
        ] {
            let words: Vec<&str> = words.split_whitespace().collect();
            assert_eq!(named(&words), expected, "{words:?}");
        }
    }
}
