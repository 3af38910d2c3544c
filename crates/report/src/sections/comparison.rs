//! Two runs, or two versions of one, compared.

use super::factors::comparisons;
use super::{heading, lines};
use crate::ComparisonReport;
use crate::document::{Block, Rich};
use crate::wording::{capitalised, comparison_row};

/// A comparison as a document.
pub(crate) fn comparison(report: &ComparisonReport) -> Vec<Block> {
    let sides =
        report.comparisons.iter().flat_map(|(context, c)| [context.as_str(), c.a.as_str(), c.b.as_str()]);
    let verdict = capitalised(&report.sentence, &sides.flat_map(|side| side.split([' ', ','])).collect());
    let mut blocks =
        vec![Block::Heading(1, Rich::plain(&report.title)), Block::Verdict(Rich::plain(verdict))];
    if !report.comparisons.is_empty() {
        let rows = report.comparisons.iter().map(|(context, c)| comparison_row(context, c)).collect();
        let words = report.comparisons.iter().map(|(context, c)| format!("{context}: {}", c.sentence));
        blocks.extend([Block::Gap, comparisons(rows, &[]), heading("In words"), lines(words)]);
    }
    if !report.notes.is_empty() {
        blocks.extend([heading("To know besides"), lines(&report.notes)]);
    }
    blocks
}
