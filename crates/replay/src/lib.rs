//! A recorded load, run again by the simulator's CPUs under other frequency policies: what another governor,
//! tunable or limit would have given.
//!
//! ```text
//! Trial, Trace ─→ Load {rate, in flight, CPU time by role} ─┐
//! Inventory    ─→ Machine {CPUs, driver, policy in force}  ─┤
//!                                                           ├→ fit: a request's cycles and wait
//!                                                           └→ predict: the same under other settings
//! ```
//!
//! A load is a closed loop: N requests are in flight, and each takes cycles of some threads and then waits
//! for its device. Two unknowns, the cycles and the wait, are fitted to what was recorded under the policy of
//! the recording. The time at each frequency is not fitted: it tells whether the model fits ([`Fit`]).
//!
//! What samples do not tell is bounded by running both ends: the share of CPU time that waits for memory, so
//! that no frequency shortens it, and whether a device that has several requests in flight could take more.
//! So is what a recording of another tool does not hold ([`NotRecorded`]).
//!
//! Left out: loads whose requests come at a rate of their own (they gain latency, not throughput), phases of
//! a load that differ from each other, SMT, policies that some but not all CPUs share.
//!
//! Invariant: equal recordings give equal predictions; no file, clock or process is touched.
//!
//! Sources: Little, Operations Research 9(3), 1961; Denning and Buzen, "The operational analysis of queueing
//! network models", Computing Surveys 10(3), 1978.

mod fit;
mod flows;
mod load;
mod machine;
mod predict;
mod steady;
mod what_if;

pub use fit::{Fit, MOST_STALLED, Replay, UNSEEN_INTERRUPTS};
pub use load::{Demand, Load, NotRecorded, Unfit};
pub use machine::{Machine, UnknownMachine, is_of_cpus};
pub use predict::{Direction, Estimate, Prediction};
pub use what_if::{WhatIf, asked, what_matters};
