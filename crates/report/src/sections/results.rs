//! The figures of each cell.

use super::{heading, paragraph, table};
use crate::Report;
use crate::document::{Block, Rich};
use crate::wording::{
    aa_floor, cell_interval, cell_median, direction, factor_levels, factors, load_note, percent, relative,
    workloads,
};
use analysis::summary::CellSummary;

/// A table for each workload, and what they are to be read with.
pub(super) fn results(report: &Report) -> Vec<Block> {
    let cells = &report.summary.cells;
    let mut blocks: Vec<Block> = Vec::new();
    for workload in workloads(cells) {
        let of: Vec<&CellSummary> = cells.iter().filter(|cell| cell.workload == workload).collect();
        blocks.extend(of_workload(report, workload, &of));
    }
    if !cells.is_empty() {
        blocks.push(Block::Remark(Rich::plain(aa_floor(report))));
    }
    blocks.extend(load_note(report).map(paragraph));
    blocks
}

fn of_workload(report: &Report, workload: &str, cells: &[&CellSummary]) -> [Block; 2] {
    let (metric, better) = (&report.summary.metric, direction(report.summary.better));
    let names = factors(report, cells);
    let labels = if names.is_empty() { vec!["cell"] } else { names.clone() };
    let figures = ["n", "median", "interval", "of best", "spread"];
    let head: Vec<&str> = labels.iter().copied().chain(figures).collect();
    let numbers: Vec<usize> = (labels.len()..head.len()).collect();
    let rows = cells.iter().map(|cell| row(report, cell, &names)).collect();
    [heading(format!("{workload}: {metric}, {better}")), Block::Table(table(&head, &numbers, rows))]
}

fn row(report: &Report, cell: &CellSummary, factors: &[&str]) -> Vec<String> {
    let pairs = factor_levels(report, cell);
    let level =
        |factor: &&str| pairs.iter().find(|(name, _)| name == factor).map_or("–", |(_, level)| level);
    let label = if factors.is_empty() {
        vec![cell.cell.to_string()]
    } else {
        factors.iter().map(|factor| level(factor).to_owned()).collect()
    };
    let count = match cell.excluded.len() {
        0 => cell.points.len().to_string(),
        out => format!("{} (+{out} not counted)", cell.points.len()),
    };
    let figures = [
        count,
        cell_median(report, cell),
        cell_interval(report, cell),
        relative(cell.relative),
        percent(cell.spread),
    ];
    label.into_iter().chain(figures).collect()
}
