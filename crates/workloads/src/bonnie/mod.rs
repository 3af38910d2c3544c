//! Bonnie, in either of its kinds.

pub mod options;
pub mod report;
