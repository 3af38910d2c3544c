//! Short names of contents.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// How many bytes of a SHA-256 make a name: two different contents share one with a chance of one in 2^64.
const BYTES: usize = 8;

/// The name of a text.
pub fn of_text(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest[..BYTES].iter().fold(String::new(), |mut name, byte| {
        // Writing to a String cannot fail.
        let _ = write!(name, "{byte:02x}");
        name
    })
}
