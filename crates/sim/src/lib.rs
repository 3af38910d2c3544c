//! Models, in virtual time: today those of disks and of the links that they share.
//!
//! Invariant: the same model, seed and requests give the same service times, to the nanosecond; nothing here reads a
//! clock.

pub mod disk;
pub mod md;
pub mod workload;
