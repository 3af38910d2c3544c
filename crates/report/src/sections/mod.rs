//! What a report says, as blocks of the document model: a run, a recording, a trial, a comparison. Text and
//! Markdown are these documents; the page draws its own pictures and takes the blocks that have none.

mod calls;
mod comparison;
mod costs;
mod factors;
mod findings;
mod layers;
mod left_out;
mod phases;
mod profile;
mod published;
mod recorded;
mod results;
mod run;
mod server;
mod spent;
mod trial;
mod virtual_machine;
mod waits;
mod windows;

pub(crate) use calls::{CallsTable, MADE, TOOK, WAY, calls_of, times};
pub(crate) use comparison::comparison;
pub(crate) use costs::{COSTS_TITLE, WORK_TITLE, costs_table, energy_note, trade_off, work_table};
pub(crate) use layers::{BECAME, BECAME_NOTE, BECAME_TITLE, TIMES, TIMES_NOTE, TIMES_TITLE, layers_table};
pub(crate) use phases::{PHASES_TITLE, phases, phases_of_cells};
pub(crate) use profile::profile;
pub(crate) use recorded::recorded_parts;
pub use recorded::use_in_words;
pub(crate) use run::{findings_alone, run};
pub(crate) use spent::{SPENT_TITLE, spent_note, spent_table};
pub(crate) use trial::trial;
pub(crate) use waits::{SERVED_NOTE, SERVED_TITLE, WAITS_NOTE, WAITS_TITLE, served_table, waits_table};
pub(crate) use windows::{WINDOWS_TITLE, median, windows_notes, windows_table};

use crate::document::{Block, Rich, Table};

pub(crate) fn heading(title: impl AsRef<str>) -> Block {
    Block::Heading(2, Rich::plain(title))
}

fn paragraph(text: impl AsRef<str>) -> Block {
    Block::Paragraph(Rich::plain(text))
}

fn item(text: impl AsRef<str>) -> Block {
    Block::Item(Rich::plain(text))
}

fn lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Block {
    Block::Lines(lines.into_iter().map(Rich::plain).collect())
}

/// What is to be typed.
fn command(command: impl Into<String>) -> Block {
    Block::Code("sh", command.into())
}

/// A table of plain text; the columns in `numbers` are figures.
pub(crate) fn table(head: &[&str], numbers: &[usize], rows: Vec<Vec<String>>) -> Table {
    let rich = |fields: Vec<String>| fields.iter().map(Rich::plain).collect();
    Table {
        head: head.iter().map(Rich::plain).collect(),
        rows: rows.into_iter().map(rich).collect(),
        numbers: numbers.to_vec(),
    }
}

/// The same under a title; nothing where it has no row.
fn titled_table(title: &str, head: &[&str], numbers: &[usize], rows: Vec<Vec<String>>) -> Vec<Block> {
    match rows.is_empty() {
        true => Vec::new(),
        false => vec![heading(title), Block::Table(table(head, numbers, rows))],
    }
}
