//! The lab: a real kernel in a virtual machine, with virtual P-states and modelled disks.
//!
//! Invariant: whatever happens, no process, socket or file of a lab machine is left when it is dropped, but
//! for disks that somebody asked to keep; a trial whose CPUs or disks could not keep their pace is never
//! called valid.

pub mod acpi;
mod awake;
pub mod calibrate;
mod digest;
pub mod dilation;
pub mod disk_server;
mod error;
pub mod guest;
pub mod image;
mod kept_disks;
pub mod kernel;
pub mod pacing;
mod programs;
pub mod pstates;
mod staging;
mod turns;
pub mod vm;

pub use awake::Awake;
pub use digest::of_text as digest;
pub use error::{Error, Result};
pub use kept_disks::KeptDisks;
