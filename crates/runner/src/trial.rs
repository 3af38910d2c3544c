//! One whole trial.

/// The value of `caches` in a trial's environment where the whole page cache was dropped.
pub const DROPPED_ALL: &str = "dropped all";
/// The same where only the target's pages were, for want of root.
pub const DROPPED_TARGET: &str = "dropped the target's";
