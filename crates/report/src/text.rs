//! Plain text for a terminal: on the first screen the verdict, the figures and what was found, one line each;
//! below that the details, in the order of the other forms. No colours, no control characters; tables are as
//! wide as their content, or as the terminal, and no word is broken.

use crate::command::{TIED, command_lines, tied};
use crate::document::{Block, in_text};
use crate::wording::one_line;
use crate::{ComparisonReport, Report, sections};
use analysis::facts::residency::Residency;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width as ComfyWidth, presets};
use domain::calls::Calls;
use domain::inert;
use domain::phase::Phase;
use domain::profile::Profile;
use domain::time::Nanos;
use domain::trial::Trial;
use std::fmt::{Display, Write};

/// The width where no terminal has another: a hundred columns, which the documentation assumes too.
const WIDTH: usize = 100;

const INDENT: &str = "   ";

/// Text of so many columns.
#[derive(Clone, Copy, Debug)]
pub struct Wide(pub usize);

impl Default for Wide {
    fn default() -> Self {
        Self(WIDTH)
    }
}

impl Wide {
    /// A run. Commands of its findings begin with `program`.
    pub fn text(self, report: &Report, program: &str) -> String {
        rendered(&sections::run(report, program), self)
    }

    /// The findings of a run, and what could not be measured, alone. Commands begin with `program`.
    pub fn findings_text(self, report: &Report, program: &str) -> String {
        rendered(&sections::findings_alone(report, program), self)
    }

    /// One trial, with what its trace says of frequencies and states.
    pub fn trial_text(self, of: &Trial, residency: &Residency) -> String {
        rendered(&sections::trial(of, residency), self)
    }

    /// What CPU time was spent in.
    pub fn profile_text(self, of: &Profile) -> String {
        rendered(&sections::profile(of), self)
    }

    /// How long system calls took that were recorded for so long, and what filesystems made of them.
    pub fn calls_text(self, of: &Calls, time: Nanos) -> String {
        let tables = sections::calls_of(of, time).into_iter();
        // What figures are stands in the report.
        let titled = |(title, blocks): (&'static str, Vec<Block>)| {
            let tables = blocks.into_iter().filter(|block| matches!(block, Block::Table(_)));
            std::iter::once(sections::heading(title)).chain(tables).collect::<Vec<_>>()
        };
        rendered(&tables.flat_map(titled).collect::<Vec<_>>(), self)
    }

    /// What was done from mark to mark; empty where nothing was marked.
    pub fn phases_text(self, of: &[Phase]) -> String {
        let table = sections::phases(of).map(Block::Table);
        table.map_or_else(String::new, |table| rendered(&[table], self))
    }

    /// A comparison.
    pub fn comparison_text(self, report: &ComparisonReport) -> String {
        rendered(&sections::comparison(report), self)
    }
}

/// A run as text of the usual width.
pub fn text(report: &Report) -> String {
    Wide::default().text(report, "flyball")
}

/// The findings of a run, and what could not be measured, alone, as text of the usual width.
pub fn findings_text(report: &Report) -> String {
    Wide::default().findings_text(report, "flyball")
}

/// One trial as text of the usual width.
pub fn trial_text(trial: &Trial, residency: &Residency) -> String {
    Wide::default().trial_text(trial, residency)
}

/// A comparison as text of the usual width.
pub fn comparison_text(report: &ComparisonReport) -> String {
    Wide::default().comparison_text(report)
}

/// Blocks as text of so many columns.
fn rendered(blocks: &[Block], Wide(width): Wide) -> String {
    let mut out = Text::of_width(width);
    in_text(blocks, &mut out);
    out.finish()
}

/// Text that grows; every piece becomes inert on its way in.
pub(crate) struct Text {
    text: String,
    width: usize,
    /// Whether a heading was written last.
    is_headed: bool,
}

impl Default for Text {
    fn default() -> Self {
        Self::of_width(WIDTH)
    }
}

impl Text {
    /// Empty, to be so many columns wide.
    pub(crate) fn of_width(width: usize) -> Self {
        Self { text: String::new(), width, is_headed: false }
    }

    /// All of it.
    pub(crate) fn finish(self) -> String {
        self.text
    }

    pub(crate) fn line(&mut self, text: impl Display) {
        self.wrapped("", &one_line(&text.to_string()));
    }

    pub(crate) fn item(&mut self, text: impl Display) {
        self.wrapped(INDENT, &one_line(&text.to_string()));
    }

    /// What is to be copied, on lines of its own.
    pub(crate) fn command(&mut self, command: &str) {
        for line in command_lines(command, self.width) {
            writeln!(self.text, "{line}").expect(NEVER);
        }
    }

    /// Breaks between words; a word that is too long stands on a line of its own.
    fn wrapped(&mut self, indent: &str, text: &str) {
        self.is_headed = false;
        let mut line = String::new();
        for word in tied(text).split(' ').map(|word| word.replace(TIED, " ")) {
            let length = indent.len() + line.chars().count() + 1 + word.chars().count();
            if !line.is_empty() && length > self.width {
                writeln!(self.text, "{indent}{line}").expect(NEVER);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word);
        }
        writeln!(self.text, "{indent}{line}").expect(NEVER);
    }

    pub(crate) fn blank(&mut self) {
        self.text.push('\n');
    }

    pub(crate) fn heading(&mut self, text: impl Display) {
        self.blank();
        self.line(text);
        self.is_headed = true;
    }

    /// The heading of a part: straight below that of the whole without a blank line.
    pub(crate) fn subheading(&mut self, text: impl Display) {
        if !std::mem::take(&mut self.is_headed) {
            self.blank();
        }
        self.line(text);
    }

    /// Columns in `numbers` are set flush right. No word is broken: a table for which that leaves no room has
    /// a row's first column on a line, and the others below it with their names.
    pub(crate) fn table(&mut self, head: &[&str], numbers: &[usize], rows: Vec<Vec<String>>) {
        let head: Vec<String> = head.iter().map(|name| inert::one_line(name).into_owned()).collect();
        let inert_row = |row: &Vec<String>| row.iter().map(|field| tied(&inert::one_line(field))).collect();
        let rows: Vec<Vec<String>> = rows.iter().map(inert_row).collect();
        let least = longest_words(&head, &rows);
        let room: usize = least.iter().map(|word| word + PADDING).sum();
        if room > self.width && head.len() > 1 {
            if !head[0].is_empty() {
                self.wrapped("  ", &head[0]);
            }
            return rows.iter().for_each(|row| self.stacked(&head, row));
        }
        let mut table = Table::new();
        table
            .load_preset(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(u16::try_from(self.width).unwrap_or(u16::MAX));
        table.set_header(head);
        table.add_rows(rows);
        for (at, word) in least.into_iter().enumerate() {
            let Some(column) = table.column_mut(at) else { continue };
            let word = u16::try_from(word + PADDING).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::LowerBoundary(ComfyWidth::Fixed(word)));
            if numbers.contains(&at) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in table.lines() {
            writeln!(self.text, " {}", line.trim_end().replace(TIED, " ")).expect(NEVER);
        }
    }

    /// One row as its first column and, below that, what the others have.
    fn stacked(&mut self, head: &[String], row: &[String]) {
        let Some((first, others)) = row.split_first() else { return };
        self.wrapped("  ", first);
        let pairs = head[1..].iter().zip(others).filter(|(_, field)| !field.is_empty());
        let pairs: Vec<String> =
            pairs.map(|(name, field)| format!("{name} {field}").replace(' ', &TIED.to_string())).collect();
        self.wrapped("      ", &pairs.join(", "));
    }
}

/// What a column takes beside its text; the last one's is cut off, for the blank that begins a line.
const PADDING: usize = 2;

/// The longest word of each column.
fn longest_words(head: &[String], rows: &[Vec<String>]) -> Vec<usize> {
    let longest = |at: usize| {
        let fields = rows.iter().filter_map(|row| row.get(at)).chain([&head[at]]);
        fields.flat_map(|field| field.split(' ')).map(|word| word.chars().count()).max().unwrap_or_default()
    };
    (0..head.len()).map(longest).collect()
}

const NEVER: &str = "a String takes all that is written to it";
