//! Reading a machine, and changing it so that it can be undone.
//!
//! Invariant: nothing in this program writes to a machine except through the ledger of this crate.

mod access;
pub mod inventory;
mod recorded;

pub use access::{CommandOutput, LocalMachine, Machine};
pub use inventory::identity;
pub use recorded::{RecordedError, RecordedMachine};
