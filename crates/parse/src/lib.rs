//! Kernel files, files that are imported and study files: text to values. Pure.
//!
//! Invariant: no text, whatever its bytes, makes anything here panic; an error names the place and the value.

pub mod import;
pub mod kernel;
pub mod proc;
pub mod study;
