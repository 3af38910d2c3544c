//! Text laid out for so many columns: a table whose last column flows, words broken into lines, and lines in
//! which a command stays whole.

use crate::command::{TIED, command_lines, first_command};
use crate::inventory::page::list_of;
use domain::inert::{Lines, one_line};

/// Below this many columns the last one stands on lines of its own.
const MIN_LAST: usize = 28;

/// How far lines of its own are indented.
const INDENT: usize = 2;

/// Between two columns.
const GAP: usize = 2;

/// Rows of cells below a header.
pub struct Columns {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// A table with this header.
    pub fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    /// One more row, with as many cells as the header has. What a terminal would obey is made inert.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        assert_eq!(N, self.head.len(), "a row has as many cells as the header");
        self.rows.push(cells.iter().map(|cell| one_line(cell).into_owned()).collect());
    }

    /// As lines of at most `width` columns; one line a row where there is none, as into a pipe. A word
    /// that is wider than that stays whole.
    pub fn lines(&self, width: Option<usize>) -> Lines {
        let head: Vec<String> = self.head.iter().map(|&name| name.to_owned()).collect();
        let all: Vec<&Vec<String>> = std::iter::once(&head).chain(&self.rows).collect();
        let widths: Vec<usize> = (0..head.len())
            .map(|at| all.iter().map(|row| row[at].chars().count()).max().unwrap_or_default())
            .collect();
        let before: usize = widths[..widths.len() - 1].iter().map(|width| width + GAP).sum();
        let mut lines = Lines::default();
        for row in all {
            let (last, first) = row.split_last().expect("a table has columns");
            let padded: String =
                first.iter().zip(&widths).map(|(cell, w)| format!("{cell:<0$}", w + GAP)).collect();
            lines.extend(flowing(padded, before, last, width));
        }
        lines
    }
}

/// One row: `padded` is `before` columns wide, and `last` follows it or stands below.
fn flowing(padded: String, before: usize, last: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else { return vec![format!("{padded}{last}").trim_end().to_owned()] };
    let beside = width.saturating_sub(before);
    let (indent, mut rows, room) = if beside >= MIN_LAST {
        (before, Vec::new(), beside)
    } else {
        (INDENT, vec![padded.trim_end().to_owned()], width.saturating_sub(INDENT))
    };
    for (at, text) in wrapped(last, room).into_iter().enumerate() {
        let begin = if at == 0 && rows.is_empty() { padded.clone() } else { " ".repeat(indent) };
        rows.push(format!("{begin}{text}").trim_end().to_owned());
    }
    rows
}

/// A text broken between words, each line at most `width` wide unless one word is wider; one line, empty,
/// where there are no words.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// A line broken between words into lines of at most so many columns, of which all but the first go in, so
/// that none looks like a message of its own. A command that has no room behind the text before it stands on
/// lines of its own, as a shell takes them.
pub fn broken(line: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut rest = line;
    while let Some((before, command, after)) = first_command(rest) {
        fill(&mut lines, before, width);
        let quoted = format!("`{command}`");
        let last = lines.last_mut().expect("there is always a line");
        let behind = after.split(' ').next().unwrap_or_default();
        let length = last.chars().count() + 1 + quoted.chars().count() + behind.chars().count();
        if length <= width {
            last.push_str(if last.trim().is_empty() || last.ends_with(OPENING) { "" } else { " " });
            last.push_str(&quoted);
            last.push_str(behind);
            rest = &after[behind.len()..];
        } else {
            lines.retain(|line| !line.trim().is_empty());
            lines.extend(command_lines(command, width));
            lines.push(" ".repeat(INDENT));
            rest = after.trim_start_matches(AFTER_COMMAND);
        }
    }
    fill(&mut lines, rest, width);
    lines.retain(|line| !line.trim().is_empty());
    lines
}

/// Lines of at most so many columns; as they are where there is no width, as into a pipe. What follows of a
/// line that is broken goes further in than its beginning; a short part between commas stays whole.
pub fn within(lines: &Lines, width: Option<usize>) -> Lines {
    let Some(width) = width else { return lines.as_str().lines().collect() };
    let each = lines.as_str().lines().flat_map(|line| {
        if line.chars().count() <= width {
            return vec![line.to_owned()];
        }
        let (own, text) = line.split_at(line.len() - line.trim_start().len());
        let text =
            if text.contains('`') { text.to_owned() } else { list_of(text.split(", ").map(str::to_owned)) };
        let parts = broken(&text, width.saturating_sub(own.len() + INDENT));
        let each = parts.iter().enumerate();
        // Deeper than what stands below the line.
        let margin = |at: usize| if at > 0 { " ".repeat(INDENT) } else { String::new() };
        each.map(|(at, part)| format!("{own}{}{}", margin(at), part.replace(TIED, " "))).collect()
    });
    each.collect()
}

/// What may stand before a command without a blank between, and what follows a command in a sentence, which
/// its own lines do without.
const OPENING: [char; 2] = ['(', '"'];
const AFTER_COMMAND: [char; 5] = [',', ';', '.', ':', ' '];

/// Appends words to the last line, and begins others where it is full.
fn fill(lines: &mut Vec<String>, text: &str, width: usize) {
    for piece in pieces(text.trim()).into_iter().filter(|piece| !piece.is_empty()) {
        let last = lines.last_mut().expect("there is always a line");
        let is_empty = last.trim().is_empty();
        if !is_empty && last.chars().count() + 1 + piece.chars().count() > width {
            lines.push(format!("{}{piece}", " ".repeat(INDENT)));
        } else {
            last.push_str(if is_empty { "" } else { " " });
            last.push_str(&piece);
        }
    }
}

/// Words, those within one pair of backquotes together.
fn pieces(line: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut is_open = false;
    for word in line.split(' ') {
        match pieces.last_mut().filter(|_| is_open) {
            Some(last) => {
                last.push(' ');
                last.push_str(word);
            }
            None => pieces.push(word.to_owned()),
        }
        is_open ^= word.matches('`').count() % 2 == 1;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Columns {
        let mut table = Columns::new(&["RUN", "ON", "VERDICT"]);
        table.row([
            "raid-levels-20261124-041500-7f3a".into(),
            "sim".into(),
            "level: five words that go on here".into(),
        ]);
        table.row(["quick".into(), "host".into(), "none".into()]);
        table
    }

    #[test]
    fn a_long_line_of_several_goes_in_below_its_beginning_and_a_pipe_gets_it_whole() {
        let lines: Lines =
            ["a short one", "  b00.read.a0: fio-3.33, iops 17.4 k/s, six more"].into_iter().collect();
        let narrow = within(&lines, Some(32));
        let wanted = "a short one\n  b00.read.a0: fio-3.33,\n      iops 17.4 k/s, six more\n";
        assert_eq!(narrow.as_str(), wanted);
        assert_eq!(within(&lines, None).as_str(), lines.as_str());
        assert_eq!(within(&Lines::default(), Some(30)).as_str(), "");
    }

    #[test]
    fn a_line_is_broken_between_words_and_a_command_never_within() {
        let line = "the same beside other work: `flyball run study.toml --under-load` counts such trials";
        let lines = broken(line, 60);
        assert_eq!(
            lines,
            [
                "the same beside other work:",
                "    flyball run study.toml --under-load",
                "  counts such trials"
            ]
        );
        let narrow = broken(line, 36);
        assert_eq!(narrow[1..3], ["    flyball run study.toml \\", "      --under-load"]);
        let beside = broken(line, 70);
        assert_eq!(beside[0], "the same beside other work: `flyball run study.toml --under-load`");
        assert_eq!(broken(line, 200), [line]);
        assert_eq!(broken("an odd ` stays", 5), ["an", "  odd", "  ` stays"]);
        assert_eq!(broken("gone (`flyball gc`), and `x y`", 80), ["gone (`flyball gc`), and `x y`"]);
    }

    #[test]
    fn a_row_is_one_line_where_nothing_limits_it() {
        assert_eq!(table().lines(None).as_str().lines().count(), 3);
    }

    #[test]
    fn the_last_column_flows_between_words_and_keeps_its_column() {
        let text = table().lines(Some(70)).as_str().to_owned();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("RUN ") && lines[0].ends_with("VERDICT"), "{text}");
        assert_eq!(lines[2].trim(), "here", "{text}");
        assert_eq!(lines[2].find("here"), lines[1].find("level:"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 70), "{text}");
    }

    #[test]
    fn where_there_is_no_room_it_stands_below_and_no_word_is_broken() {
        for width in [20, 40, 60] {
            let text = table().lines(Some(width)).as_str().to_owned();
            let long = |line: &&str| line.chars().count() > width;
            assert!(text.lines().filter(long).all(|line| !line.starts_with(' ')), "{width}: {text}");
            for word in ["level:", "words", "raid-levels-20261124-041500-7f3a", "VERDICT"] {
                assert!(text.split_whitespace().any(|shown| shown == word), "{width}: {text}");
            }
        }
        assert!(table().lines(Some(60)).as_str().contains("\n  level: five words"), "below");
    }
}
