//! Files opened and written so that neither a hostile neighbour nor a power cut can spoil them.
//!
//! Invariant: nothing is opened for reading but a regular file, and nothing of Flyball's own is opened for
//! writing through a link or in a folder that somebody else may change.
//!
//! | module | for |
//! |---|---|
//! | [`fifo`] | named pipes of Flyball's own, into which others write a line |
//! | [`regular`] | files that somebody names: opened only where they are regular, so that no read waits for ever |
//! | [`own`] | files that Flyball keeps: never through a link, never somebody else's |
//! | [`trust`] | folders: who else may change what a path means |
//! | [`durable`] | writing that survives a power cut |
//! | [`output`] | files that a user asks for: pages, exports |
//! | [`lock`] | locks between processes |
//! | [`staging`] | a folder that is written aside and renamed into its place |

pub mod durable;
mod error;
pub mod fifo;
pub mod lock;
pub mod output;
pub mod own;
pub mod regular;
pub mod staging;
pub mod trust;

pub use error::{Error, Result};
