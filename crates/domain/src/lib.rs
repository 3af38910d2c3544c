//! The words of Flyball, as types.
//!
//! A *study* varies *factors* over their *levels*; each combination with a workload is a *cell*; one run of a
//! cell is a *trial*, one pass over all cells in random order a *block*. A trial has an *outcome* (what the
//! workload's own tool reported), a *trace* (what was sampled meanwhile), the *settings* asked for and got.
//! From trials come *findings*, each with evidence and a *remedy*.
//!
//! This crate touches nothing: no file, clock, environment or global random source. Every other crate
//! depends on it, and it depends on none of them.

pub mod access;
pub mod bench;
pub mod calls;
pub mod cpufreq;
pub mod database;
pub mod energy;
pub mod event_set;
pub mod finding;
pub mod gate;
pub mod ids;
pub mod inert;
pub mod inventory;
pub mod iometer;
pub mod lab;
pub mod order;
pub mod outcome;
pub mod page;
pub mod passage;
pub mod per_work;
pub mod phase;
pub mod plan;
pub mod profile;
pub mod published;
pub mod request;
pub mod rng;
pub mod setting;
pub mod shell;
pub mod spent;
pub mod stack;
pub mod study;
pub mod time;
pub mod took;
pub mod trace;
pub mod trial;
pub mod units;
pub mod windows;

pub use bench::{Bench, BenchError, Sink};
pub use outcome::{Better, Metric, Outcome};
pub use study::Study;
pub use time::{Nanos, Timestamp};
pub use trial::Trial;
