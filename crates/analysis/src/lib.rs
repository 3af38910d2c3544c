//! Statistics, comparison, scheduling of repeats, and the rules that explain. Pure.
//!
//! Invariant: every number that reaches a report is computed here, from trials, with its estimator's source
//! in its docstring; nothing here knows how it will be shown.

pub mod compare;
pub mod stats;
pub mod summary;
pub mod words;
