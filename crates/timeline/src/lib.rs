//! What each CPU, thread and device did, as one page that one zooms into: from a whole recording down to a
//! microsecond.
//!
//! ```text
//! events ─► Interval ─┐
//!                     ├► Timeline: groups of tracks, packed as they come ─► page: one file, gzip within
//! samples ─► steps ───┘                                                       └► view.js draws it
//! ```
//!
//! Invariants: equal input gives equal bytes; what is drawn are the intervals that the facts of the same
//! recording are sums of; a page loads nothing, and no text of a recording is markup in it; memory is bounded
//! by what is drawn, and what is left out is said.
//!
//! Not here: files, and what the samples mean (`exporters` gives them as steps).

mod classes;
mod packed;
mod page;
mod tracks;

pub use page::{About, write};
pub use tracks::{Step, Timeline};
