//! The run beside what was published.

use super::{heading, item, lines, table};
use crate::document::{Block, Rich};
use crate::{Report, published};

/// Nothing where the study has no published figure.
pub(super) fn beside_published(report: &Report) -> Vec<Block> {
    let rows = &report.summary.published;
    if rows.is_empty() {
        return Vec::new();
    }
    let head = published::narrow_head(report);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let rows = rows.iter().map(|row| published::narrow_row(report, row)).collect();
    let apart = published::disagreements(report).into_iter();
    let apart = apart.map(|sentence| Rich::plain(format!("Does not agree: {sentence}")));
    let notes = published::notes(report).into_iter().map(Rich::plain);
    let sources = (1..).zip(published::sources(report)).map(|(n, source)| format!("[{n}] {source}"));
    vec![
        heading(published::TITLE),
        item(published::sentence(report)),
        item(published::provenance(report)),
        Block::Table(table(&head, &published::NARROW_NUMBERS, rows)),
        item(published::LEGEND),
        Block::Lines(apart.chain(notes).collect()),
        lines(sources),
    ]
}
