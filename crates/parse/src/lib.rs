//! Kernel files, tools' outputs and study files: text to values. Pure.

pub mod kernel;
pub mod study;
pub mod tools;
pub mod proc;
