//! What each factor changes, what decides, and whose CPU time it was.

use super::{heading, table, titled_table};
use crate::Report;
use crate::cpu_share::{cores_by_role, notable, shown};
use crate::document::Block;
use crate::wording::{CONTEXT_TITLE, asked_and_context, comparison_row, comparison_table, percent};
use analysis::summary::{CellSummary, FactorEffect};

/// Comparisons by factor, those that the question is about first, and the shares of the variance.
pub(super) fn effects(report: &Report) -> Vec<Block> {
    let (asked, context) = asked_and_context(report);
    let shares = report.summary.attribution.iter();
    let shares = shares.map(|a| vec![a.workload.clone(), a.source.clone(), percent(Some(a.share))]).collect();
    [
        by_factor("What each factor changes", &asked, &[]),
        by_factor(CONTEXT_TITLE, &context, &["p", "verdict"]),
        titled_table(
            "What decides: share of the variance explained",
            &["workload", "by", "share"],
            &[2],
            shares,
        ),
    ]
    .concat()
}

fn by_factor(title: &str, effects: &[&FactorEffect], left_out: &[&str]) -> Vec<Block> {
    let rows_of = |effect: &&FactorEffect| -> Vec<Vec<String>> {
        let context = match effect.context.is_empty() {
            true => effect.factor.clone(),
            false => format!("{} in {}", effect.factor, effect.context),
        };
        effect.comparisons.iter().map(|comparison| comparison_row(&context, comparison)).collect()
    };
    match effects.is_empty() {
        true => Vec::new(),
        false => vec![heading(title), comparisons(effects.iter().flat_map(rows_of).collect(), left_out)],
    }
}

const HEAD: [&str; 6] = ["", "against", "ratio", "interval", "p", "verdict"];

/// Comparisons as a table, without the columns in `left_out`.
pub(super) fn comparisons(rows: Vec<Vec<String>>, left_out: &[&str]) -> Block {
    let (head, rows) = comparison_table(HEAD, rows, left_out);
    let is_number = |column: &usize| ["ratio", "interval", "p"].contains(&head[*column]);
    let numbers: Vec<usize> = (0..head.len()).filter(is_number).collect();
    Block::Table(table(&head, &numbers, rows))
}

/// The CPU time of each cell by role.
pub(super) fn processors(report: &Report) -> Vec<Block> {
    let row = |cell: &CellSummary| {
        let roles = cores_by_role(report, cell)?;
        let parts = notable(&roles).map(|(role, cores)| format!("{role} {}", shown(*cores)));
        let parts = parts.collect::<Vec<_>>().join(", ");
        let parts = if parts.is_empty() { "less than 0.01 each".to_owned() } else { parts };
        Some(vec![cell.cell.to_string(), parts])
    };
    let rows = report.summary.cells.iter().filter_map(row).collect();
    titled_table("Whose CPU time it was, in cores", &["cell", "roles"], &[], rows)
}
