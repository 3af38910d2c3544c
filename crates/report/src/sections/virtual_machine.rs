//! What is known of a lab's machine; nothing for any other.

use super::{heading, lines};
use crate::document::{Block, Rich, Table};
use crate::{Report, lab};

/// What is known of a lab machine; nothing for any other.
pub(super) fn virtual_machine(report: &Report) -> Vec<Block> {
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
        blocks.extend([heading(title), lines(what)]);
    }
    blocks
}

fn times_in_states(report: &Report, states: &lab::States) -> Block {
    let head: Vec<Rich> = states.head().iter().map(Rich::plain).collect();
    let fields = |row: &Vec<String>| row.iter().map(Rich::plain).collect();
    let rows = states.table(report).iter().map(fields).collect();
    Block::Table(Table { numbers: (1..head.len()).collect(), head, rows })
}
