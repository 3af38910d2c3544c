//! Virtual time: a queue of events, and slots for what is on its way.
//!
//! The disk models and the simulator of whole machines are both discrete-event simulations; this is what they
//! share. The crate knows neither, so that neither has to know the other for its sake.
//!
//! Goals: events of one time come in the order in which they were planned; no allocation once everything has
//! grown. Not a goal: real time, which no caller of these types needs.

mod queue;
mod slab;

pub use queue::{LineId, Queue, Time};
pub use slab::Slab;
