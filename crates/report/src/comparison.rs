//! What `flyball compare` shows: two runs, or the levels of a factor, side by side.

use crate::wording::joined;
use analysis::summary::{Comparison, FactorEffect};

/// A list of comparisons and what they come to.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonReport {
    /// What is held against what: `readahead@1a2b3c against readahead@9f8e7d`.
    pub title: String,
    /// All comparisons in one sentence.
    pub sentence: String,
    /// Cell by cell, or level by level; each with what it is about: `seqread, block 4k`.
    pub comparisons: Vec<(String, Comparison)>,
    /// What the reader has to know besides: cells that only one side has, different kernels, different
    /// machines.
    pub notes: Vec<String>,
}

impl ComparisonReport {
    /// The levels of factors held against each other within one run, each in its context.
    pub fn of_effects(title: String, sentence: String, effects: &[FactorEffect]) -> Self {
        let in_context = |effect: &FactorEffect| {
            let context = joined([effect.factor.as_str(), &effect.context]);
            effect.comparisons.iter().map(move |c| (context.clone(), c.clone())).collect::<Vec<_>>()
        };
        Self {
            title,
            sentence,
            comparisons: effects.iter().flat_map(in_context).collect(),
            notes: Vec::new(),
        }
    }
}
