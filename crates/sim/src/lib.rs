//! Machines as models, in virtual time: CPUs and threads, disks and links, arrays, encryption, filesystems,
//! loads.
//!
//! Invariant: the same model, seed and requests give the same course, to the nanosecond; nothing here reads a
//! clock.
//!
//! [`engine`] is where to begin: what a part of a machine is, how parts speak, and how time passes. The other
//! folders follow a request down: [`load`], [`fs`] with [`page_cache`], [`dm`], [`md`], [`block`]; [`cpu`]
//! executes what all of them cost. [`machine`] is a machine as its file gives it, [`assemble`] builds one for
//! a study's cell, [`bench`] runs it, and [`record`] keeps what it did.

pub mod assemble;
pub mod bench;
pub mod block;
pub mod calibrate;
pub mod cpu;
pub mod dm;
pub mod engine;
pub mod fs;
pub mod load;
pub mod machine;
pub mod md;
pub mod page_cache;
pub mod record;
#[cfg(test)]
mod testbed;
