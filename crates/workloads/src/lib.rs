//! All that is known of a workload tool: its options, its command line, its report, its I/O. Pure.
//!
//! One folder a tool: `options.rs` says which options a study may set, `report.rs` reads what the tool prints.
//!
//! Invariant: no text, whatever its bytes, makes anything here panic; an error names the place and the value.

pub mod bonnie;
pub mod command;
pub mod dd;
pub mod fio;
pub mod options;
pub mod pgbench;
pub mod report;
pub mod server;
pub mod sysbench;
