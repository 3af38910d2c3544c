//! The trials that are not counted, and why.

use super::{command, heading, item, lines};
use crate::Report;
use crate::document::Block;
use crate::wording::{
    MAX_LEFT_OUT, counted, how_to_see_more, left_out as not_counted, left_out_kinds, standing, trial_name,
    why_not_counted,
};
use domain::Trial;

/// The first few of them, and how to see the others; nothing where all trials count.
pub(super) fn left_out(report: &Report) -> Vec<Block> {
    let trials = not_counted(report);
    if trials.is_empty() {
        return Vec::new();
    }
    let count = counted(trials.len(), "trial");
    let line = |trial: &&Trial| {
        let (name, standing) = (trial_name(&trial.key), standing(&trial.validity));
        format!("{}, {name}: {standing}, {}", trial.key.cell, why_not_counted(&trial.validity))
    };
    let mut blocks = vec![
        heading(format!("{count} not counted: {}", left_out_kinds(&trials))),
        lines(trials.iter().take(MAX_LEFT_OUT).map(line)),
    ];
    if let Some((more, to_type)) = how_to_see_more(report, &trials) {
        blocks.extend([item(more), command(to_type)]);
    }
    blocks
}
