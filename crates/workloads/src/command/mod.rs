//! Any command; its metrics are taken from its output by pattern.

pub mod pattern;
