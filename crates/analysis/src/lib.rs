//! Statistics, comparison, scheduling of repeats, and the rules that explain. Pure.
//!
//! Invariant: every number that reaches a report is computed here, from trials, with its estimator's source
//! in its docstring; nothing here knows how it will be shown.

pub mod answer;
pub mod causes;
pub mod compare;
pub mod compare_runs;
pub mod costs;
pub mod explain;
pub mod facts;
pub mod fidelity;
pub mod gate;
pub mod history;
pub mod in_short;
pub mod page;
pub mod published;
pub mod recorded;
pub mod schedule;
pub mod server;
pub mod stats;
pub mod summarise;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod trade_off;
pub mod usual;
pub mod words;
