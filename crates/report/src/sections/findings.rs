//! What was found, and what could not be measured.

use super::{command, heading, item, lines, paragraph};
use crate::Report;
use crate::document::{Block, Rich};
use crate::next::typed;
use crate::wording::{capitalised, expected, names};
use domain::finding::{Finding, NotMeasured, Remedy};

/// One line each, for the first screen.
pub(super) fn titles(report: &Report) -> Vec<Block> {
    match report.findings.is_empty() {
        true => Vec::new(),
        false => std::iter::once(heading("Findings")).chain(numbered(report).map(paragraph)).collect(),
    }
}

/// `1. The read-ahead of loop0 is too small (shown)`.
fn numbered(report: &Report) -> impl Iterator<Item = String> {
    let names = names(report);
    let numbered = (1..).zip(report.findings);
    numbered.map(move |(n, f)| format!("{n}. {} ({})", capitalised(&f.title, &names), f.confidence.name()))
}

/// Each with its evidence, reason, expected gain, remedy and next command, which begins with `program`.
pub(super) fn findings(title: &str, report: &Report, program: &str) -> Vec<Block> {
    if report.findings.is_empty() {
        return Vec::new();
    }
    let numbered = numbered(report).zip(report.findings);
    let each = numbered.flat_map(|(title, finding)| in_full(title, finding, program));
    std::iter::once(heading(title)).chain(each).collect()
}

fn in_full(title: String, finding: &Finding, program: &str) -> Vec<Block> {
    let evidence = finding.evidence.iter().map(|e| format!("{}: {} ({})", e.what, e.figure, e.source));
    let mut blocks = vec![Block::Heading(3, Rich::plain(title)), lines(evidence), item(&finding.reason)];
    blocks.extend(finding.gain.as_ref().map(|gain| item(format!("Expected: {}", expected(gain)))));
    blocks.extend(finding.remedy.iter().flat_map(remedy));
    if !finding.next.is_empty() {
        blocks.extend([item("Next:"), command(typed(&finding.next, program))]);
    }
    blocks
}

fn remedy(remedy: &Remedy) -> [Block; 2] {
    let settings = remedy.settings.iter().map(|setting| Rich::code(setting.to_string())).collect();
    let what = Rich::plain(format!("Remedy: {}", remedy.what));
    [Block::Outline(vec![(what, settings)]), item(format!("Undo: {}", remedy.undo))]
}

/// How a run whose cells were compared is judged cell by cell: the command for the one that is furthest from
/// the best of its workload. Nothing where there is one cell.
pub(super) fn one_by_one(report: &Report, program: &str) -> Vec<Block> {
    let cells = &report.summary.cells;
    let rated = cells.iter().filter_map(|cell| Some((&cell.cell, cell.relative?)));
    let furthest = rated.min_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|_| cells.len() > 1);
    let Some((cell, _)) = furthest else { return Vec::new() };
    let explain = format!("{program} explain {} --cell {cell}", report.data.run.id);
    vec![heading("One cell by its own trace and storage"), command(explain)]
}

/// What could not be measured, and why; nothing where all was.
pub(super) fn not_measured(report: &Report) -> Vec<Block> {
    if report.not_measured.is_empty() {
        return Vec::new();
    }
    let line = |lacking: &NotMeasured| format!("{}: {}", lacking.what, lacking.why);
    vec![heading("What could not be measured, and why"), lines(report.not_measured.iter().map(line))]
}
