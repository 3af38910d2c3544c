//! Kernel files, tools' outputs and study files: text to values. Pure.

pub mod kernel;
pub mod tools;
pub mod proc;
