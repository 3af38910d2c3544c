//! Reading a machine, and changing it so that it can be undone.
//!
//! Invariant: nothing in this program writes to a machine except through the ledger of this crate.

mod access;
pub mod boot;
pub mod claims;
pub mod database;
pub mod failing;
pub mod inventory;
pub mod lasting;
pub mod ledger;
pub mod lock;
mod loopdev;
mod recorded;
pub mod recovery;
pub mod serving;
pub mod settings;
pub mod stack;
mod strict;
pub mod supervise;
pub mod workload;

pub use access::{CommandOutput, Held, LocalMachine, MAX_OUTPUT, Machine};
pub use inventory::identity;
pub use ledger::Ledger;
pub use lock::{Holder, MachineLock};
pub use loopdev::LoopIo;
pub use recorded::{RecordedError, RecordedMachine};
