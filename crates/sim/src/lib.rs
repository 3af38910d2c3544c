//! Models, in virtual time: today those of disks and of the links that they share, and what loads ask of them.
//!
//! Invariant: the same model, seed and requests give the same service times, to the nanosecond; nothing here reads a
//! clock.

pub mod disk;
pub mod load;
pub mod workload;
