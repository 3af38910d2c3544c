//! Sections of a run's report that are said in the same words in text and in Markdown.

use crate::Report;
use crate::document::{Block, Rich, Table};
use crate::lab;

/// What is known of a lab machine; nothing for any other.
pub(crate) fn virtual_machine(report: &Report) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some(states) = lab::states(report) {
        blocks.push(heading(lab::STATES_TITLE));
        blocks.push(times_in_states(report, &states));
    }
    blocks.extend(lab::energy_note(report).map(|note| Block::Remark(Rich::plain(note))));
    let pace = lab::pace(report);
    if !pace.is_empty() {
        blocks.extend([heading(lab::PACE_TITLE), lines(pace)]);
    }
    if let Some((title, what)) = lab::unscaled(report) {
        blocks.extend([heading(&title), lines(what)]);
    }
    blocks
}

fn times_in_states(report: &Report, states: &lab::States) -> Block {
    let head: Vec<Rich> = states.head().iter().map(Rich::plain).collect();
    let fields = |row: &Vec<String>| row.iter().map(Rich::plain).collect();
    let rows = states.table(report).iter().map(fields).collect();
    Block::Table(Table { numbers: (1..head.len()).collect(), head, rows })
}

/// What could not be measured, and why; nothing where all was.
pub(crate) fn not_measured(report: &Report) -> Vec<Block> {
    if report.not_measured.is_empty() {
        return Vec::new();
    }
    let line = |lacking: &domain::finding::NotMeasured| format!("{}: {}", lacking.what, lacking.why);
    vec![heading("What could not be measured, and why"), lines(report.not_measured.iter().map(line))]
}

fn heading(title: &str) -> Block {
    Block::Heading(2, Rich::plain(title))
}

fn lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Block {
    Block::Lines(lines.into_iter().map(Rich::plain).collect())
}
