//! The binary: arguments, commands, terminal.
fn main() {}
