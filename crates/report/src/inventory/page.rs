//! The page: sections with a name at the left, and lines that are broken at words.

use crate::command::{TIED, command_lines, tied};
use domain::inert::one_line;
use std::fmt::Write;

/// Where a terminal that nobody made wider ends comfortably.
const WIDTH: usize = 100;

/// Where text begins; the names of all sections are shorter.
const INDENT: usize = 13;

/// How far a broken line goes in.
const HANGING: usize = 2;

pub(crate) struct Page {
    text: String,
    section: &'static str,
    width: usize,
    /// Whether a blank line stands before each section.
    spacing: Spacing,
}

/// What stands between sections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spacing {
    Blank,
    None,
}

impl Default for Page {
    fn default() -> Self {
        Self::new(WIDTH, Spacing::Blank)
    }
}

impl Page {
    /// An empty page; one that is narrower than its margin and a word is as wide as these.
    pub(crate) fn new(width: usize, spacing: Spacing) -> Self {
        Self { text: String::new(), section: "", width: width.max(2 * INDENT), spacing }
    }

    /// Begins a section; it is there once a line follows.
    pub(crate) fn section(&mut self, name: &'static str) {
        self.section = name;
    }

    /// A line, broken where it is too long.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        self.hanging(HANGING, line);
    }

    /// A line whose following ones, where it is too long, go in as far as said: under the text of a table's
    /// last column.
    pub(crate) fn hanging(&mut self, inward: usize, line: impl AsRef<str>) {
        let line = &*tied(&one_line(line.as_ref()));
        let own = line.len() - line.trim_start().len();
        let mut column = 0;
        self.begin(own);
        for (index, word) in words(line.trim_start(), self.width).enumerate() {
            let length = word.chars().count();
            if index > 0 && INDENT + own + column + word.trim_end().chars().count() > self.width {
                self.text.truncate(self.text.trim_end_matches(' ').len());
                self.text.push('\n');
                self.begin(own + inward);
                column = inward;
            }
            self.text.push_str(&word.replace(TIED, " "));
            column += length;
        }
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text.push('\n');
    }

    /// A command to type, on lines of its own below the line that says what it is for.
    pub(crate) fn command(&mut self, command: &str) {
        for line in command_lines(command, self.width) {
            self.text.push_str(&line);
            self.text.push('\n');
        }
    }

    /// A line of parts with commas between; nothing where there are no parts.
    pub(crate) fn parts(&mut self, parts: impl IntoIterator<Item = Option<String>>) {
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if !parts.is_empty() {
            self.line(list_of(parts));
        }
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }

    /// The margin: the section's name on its first line, blank afterwards.
    fn begin(&mut self, inward: usize) {
        let name = std::mem::take(&mut self.section);
        if !name.is_empty() && !self.text.is_empty() && self.spacing == Spacing::Blank {
            self.text.push('\n');
        }
        write!(self.text, "{name:INDENT$}{:inward$}", "").expect("a string takes everything");
    }
}

/// From this length a part of a list may be broken.
const LONG_PART: usize = 40;

/// Where a line may be broken: after blanks, and after the commas of a word that would leave half a line
/// empty.
fn words(line: &str, width: usize) -> impl Iterator<Item = &str> {
    let long = move |word: &&str| word.chars().count() > width / 2;
    line.split_inclusive(' ').flat_map(move |word| {
        let at: &[char] = if long(&word) { &[','] } else { &[] };
        word.split_inclusive(at)
    })
}

/// Parts with commas between, each kept together where it is short.
pub(crate) fn list_of(parts: impl IntoIterator<Item = String>) -> String {
    let keep = |part: String| match part.chars().count() {
        0..LONG_PART => part.replace(' ', &TIED.to_string()),
        _ => part,
    };
    parts.into_iter().map(keep).collect::<Vec<_>>().join(", ")
}

/// `one policy`, `3 policies`.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {many}"),
    }
}

/// `on` or `off`.
pub(crate) fn on_off(state: bool) -> &'static str {
    if state { "on" } else { "off" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_at_words_and_go_in() {
        let mut page = Page::default();
        page.section("CPU");
        page.line("word ".repeat(30).trim_end());
        page.line("short");
        let text = page.finish();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|l| l.chars().count() <= WIDTH));
        assert!(lines[0].starts_with("CPU          word"));
        assert!(lines[1].starts_with("               word"));
        assert_eq!(lines[2], "             short");
    }
}
