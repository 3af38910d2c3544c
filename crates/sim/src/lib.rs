//! Machines as models, in virtual time: CPUs and threads, disks and links, arrays, encryption, filesystems, loads.
//!
//! Invariant: the same model, seed and requests give the same course, to the nanosecond; nothing here reads a clock.
//!
//! [`core`] is where to begin: what a part of a machine is, and how parts speak. [`world`] lets time pass.

pub mod assemble;
pub mod bench;
pub mod block;
pub mod bonnie;
pub mod cache;
pub mod calibrate;
pub mod core;
pub mod cpu;
pub mod crypt;
pub mod fs;
pub mod jobs;
pub mod load;
pub mod machine;
pub mod md;
pub mod memory;
pub mod oltp;
mod plug;
pub mod record;
#[cfg(test)]
mod testbed;
pub mod world;
