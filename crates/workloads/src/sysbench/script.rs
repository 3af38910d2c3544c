//! What sysbench is given where its own scripts have no such thing: warming, bursts, pauses.

use super::options::Test;

const TEXT: &str = include_str!("oltp.lua");

/// The name of our script for a test, in the server's folder.
pub fn name(test: Test) -> String {
    format!("flyball_{}.lua", test.name())
}

/// All of them, by name.
pub fn all() -> impl Iterator<Item = (String, String)> {
    Test::ALL.into_iter().map(|test| (name(test), format!("require(\"{}\")\n{TEXT}", test.name())))
}
