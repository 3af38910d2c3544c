//! Commands that the user is told to type, laid out so that what is copied runs: on lines of their own,
//! broken only between a shell's words, with a backslash at the end of each line but the last.

use domain::inert::one_line;

/// How far a command goes in.
pub const COMMAND_INDENT: usize = 4;

/// How far the lines that continue it go in besides.
const HANGING: usize = 2;

/// What a broken line ends with.
const CONTINUES: &str = " \\";

/// What stands for an interval where a figure is a model's; a number of seeds follows.
const MODEL: &str = "model, ";

/// A blank at which no line is broken.
pub(crate) const TIED: char = '\u{a0}';

/// A command of a shell as lines of at most `width` columns. A word that is wider than that stays whole.
pub fn command_lines(command: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = " ".repeat(COMMAND_INDENT);
    let mut is_empty = true;
    let command = one_line(command);
    let words = shell_words(&command);
    for (at, word) in words.iter().enumerate() {
        let end = if at + 1 < words.len() { CONTINUES.len() } else { 0 };
        if !is_empty && line.chars().count() + 1 + word.chars().count() + end > width {
            lines.push(line + CONTINUES);
            line = " ".repeat(COMMAND_INDENT + HANGING);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// The words of a command as a shell divides it, with their quotes.
pub(crate) fn shell_words(command: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut begin = 0;
    let mut quote = None;
    let mut is_escaped = false;
    for (at, c) in command.char_indices() {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (None | Some('"'), '\\') => is_escaped = true,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, ' ') => {
                words.push(&command[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    words.push(&command[begin..]);
    words.retain(|word| !word.is_empty());
    words
}

/// A sentence in which each command of this program, in backquotes, and each "model, 6 seeds" has blanks at
/// which no line is broken.
pub(crate) fn tied(text: &str) -> String {
    with_commands_tied(&with_models_tied(text))
}

fn with_models_tied(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(MODEL) {
        let number = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let is_count = number > 0 && after[number..].starts_with(" seed");
        shown.push_str(before);
        if is_count {
            shown.push_str(&MODEL.replace(' ', &TIED.to_string()));
            shown.push_str(&after[..number]);
            shown.push(TIED);
            rest = &after[number + 1..];
        } else {
            shown.push_str(MODEL);
            rest = after;
        }
    }
    shown + rest
}

fn with_commands_tied(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, command, after)) = first_command(rest) {
        shown.push_str(before);
        shown.push('`');
        shown.push_str(&command.replace(' ', &TIED.to_string()));
        shown.push('`');
        rest = after;
    }
    shown + rest
}

/// The first command of this program that stands in backquotes, with what is before and after those.
pub fn first_command(text: &str) -> Option<(&str, &str, &str)> {
    let is_command =
        |at: usize| ["`flyball ", "`sudo flyball "].iter().any(|begin| text[at..].starts_with(begin));
    let open = text.match_indices('`').map(|(at, _)| at).find(|at| is_command(*at))?;
    let (command, after) = text[open + 1..].split_once('`')?;
    Some((&text[..open], command, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: &str = "flyball --notebook '/srv/my results' show --full readahead-20261120-140502-7f3a";

    /// What a shell makes of the lines.
    fn joined(lines: &[String]) -> String {
        let text = lines.join("\n").replace("\\\n", "");
        shell_words(text.trim()).join(" ")
    }

    #[test]
    fn a_command_is_broken_as_a_shell_takes_it_and_within_no_word() {
        for width in [20, 40, 60, 80, 200] {
            let lines = command_lines(COMMAND, width);
            assert_eq!(joined(&lines), COMMAND, "{width}");
            for line in &lines {
                let is_one_word = shell_words(line).len() <= 2;
                assert!(
                    line.starts_with("    ") && (line.chars().count() <= width || is_one_word),
                    "{width}: {line}"
                );
            }
        }
        assert_eq!(command_lines(COMMAND, 200).len(), 1);
        assert_eq!(command_lines(COMMAND, 60).len(), 2);
    }

    #[test]
    fn words_are_those_of_a_shell() {
        assert_eq!(shell_words(r#"a  'b c'd "e \" f" g\ h"#), ["a", "'b c'd", r#""e \" f""#, r"g\ h"]);
    }

    #[test]
    fn a_models_number_of_seeds_is_tied() {
        let text = "12 times (model, 6 seeds) in a; a model, 6 of them, model, 1 seed";
        let expected = "12 times (model,~6~seeds) in a; a model, 6 of them, model,~1~seed";
        assert_eq!(tied(text).replace(TIED, "~"), expected);
    }

    #[test]
    fn only_a_command_of_this_program_is_tied() {
        let text = "see `flyball list x`, `a b` and `flyball gc`";
        assert_eq!(tied(text).replace(TIED, "~"), "see `flyball~list~x`, `a b` and `flyball~gc`");
        assert_eq!(tied("an odd `flyball x"), "an odd `flyball x");
    }
}
