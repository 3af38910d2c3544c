//! Names of what Flyball builds: random, and to be told from everybody else's. UUIDs are the
//! [secret](crate::claims)'s.

use crate::claims;
use std::io;

/// Eight digits that nobody else has at the time.
pub(crate) fn token() -> io::Result<String> {
    Ok(format!("{:08x}", u32::from_le_bytes(claims::random()?)))
}
