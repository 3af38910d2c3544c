//! What strangers wrote is read by a process that can do nothing else.
//!
//! The one that was asked to import opens the file, hands its descriptor to this same program, started again
//! as `read-foreign`, and takes values back: never text that would still have to be understood. The reader
//! raises its walls (crate `confine`) before it has seen a byte of the file. What it answers is not believed
//! either: lengths are bounded, each value is decoded strictly, and a reader that dies is an error of the
//! import. Programs of others that unpack a file are confined likewise, as `unpack-foreign`.
//!
//! The design is OpenSSH's privilege separation (Provos, Friedl and Honeyman, "Preventing Privilege
//! Escalation", 2003).

mod process;
mod reader;
mod recorded;
mod unpacking;
mod wire;

pub use process::{Failure, Imported, Part, Reader};
pub use reader::serve;
pub use unpacking::{Unpacking, unpack};

/// A bound on what a file unpacks to: a day of `sadf -j` of a large machine at one sample a second is some 10
/// GB. Packed zeros would otherwise be read for ever.
pub const MAX_UNPACKED: u64 = 64 << 30;
