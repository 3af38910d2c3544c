//! Kernel files, tools' outputs and study files: text to values. Pure.

pub mod proc;
pub mod study;
pub mod tools;
