//! Block devices: a disk behind its queue, and null_blk.
//!
//! [`Disk`] is a request queue with its I/O scheduler, tags and interrupt; `plug` holds what waits under a
//! thread's plug before it; [`null_blk`] answers from memory after a fixed time. [`DeviceStats`] is what
//! `/proc/diskstats` would say of each. The disks themselves, behind their queues, are the crate `disks`.

pub mod null_blk;
pub(crate) mod plug;
mod queue;
mod stats;

pub(crate) use queue::PLUGS_EACH_BIO;
pub use queue::{Disk, Interrupts, QueueSpec, Scheduler};
pub use stats::{DeviceStats, OpStats};
