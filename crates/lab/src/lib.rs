//! The lab: a real kernel in a virtual machine, with virtual P-states and modelled disks.
//!
//! Invariant: whatever happens, no process, socket or file of a lab machine is left when it is dropped; a trial whose
//! CPUs or disks could not keep their pace is never called valid.

pub mod acpi;
pub mod calibrate;
pub mod dilation;
pub mod disk_server;
pub mod guest;
pub mod image;
pub mod kernel;
pub mod machine;
pub mod pacing;
pub mod pstates;
