//! What `flyball compare` shows: two runs, or two levels of a factor, side by side.

use analysis::summary::Comparison;

/// A list of comparisons and what they come to.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonReport<'a> {
    /// What is held against what: `readahead@1a2b3c against readahead@9f8e7d`.
    pub title: &'a str,
    /// All comparisons in one sentence.
    pub sentence: &'a str,
    /// Cell by cell, or level by level; each with what it is about: `seqread, block 4k`.
    pub comparisons: &'a [(String, Comparison)],
    /// What the reader has to know besides: cells that only one side has, different kernels, different
    /// machines.
    pub notes: &'a [String],
}
