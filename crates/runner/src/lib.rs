//! From a planned trial to a measured one: tools, settling, guards.
//!
//! Invariants: only files and loop devices of Flyball's own are written, and in a lab's guest the devices
//! that it was started with; in a server that is somebody's, a database of Flyball's own; what is read
//! besides is opened for reading, by a tool that cannot write to it; a workload never outlives its trial; a
//! setting that a trial changed is restored before the trial is returned.

pub mod beside;
pub mod busy;
pub mod child;
pub mod environment;
mod error;
pub mod event_facts;
mod existing_folder;
mod existing_server;
pub mod fill;
pub mod following;
pub mod guards;
pub mod host;
pub mod marks;
mod readable;
pub mod reproduce;
mod running_load;
pub mod server;
pub mod server_rates;
pub mod settle;
pub mod snapshot;
mod steady;
mod storage_setup;
mod tail;
mod target;
pub mod testing;
pub mod tools;
mod trial;
pub mod watched_server;

pub use error::Error;
pub use existing_folder::{ExistingFolder, MIN_FREE};
pub use existing_server::ExistingServer;
pub use host::HostBench;
pub use readable::Readable;
pub use running_load::WatchedLoad;
pub use storage_setup::StorageSetup;
pub use tail::Tail;
pub use target::{Devices, Target};
pub use trial::{BetweenTrials, DROPPED_ALL, DROPPED_TARGET, Done, Host, Stop, TrialContext, TrialFiles};
