//! Names and UUIDs of what Flyball builds: random, and to be told from everybody else's.

use crate::claims;
use std::fs::File;
use std::io::{self, Read};

/// A fresh UUID that is told to be Flyball's.
pub(super) fn own_uuid() -> io::Result<String> {
    random().map(claims::own_uuid)
}

/// A fresh identifier of a physical volume, likewise.
pub(super) fn own_pv_uuid() -> io::Result<String> {
    random().map(claims::own_pv_uuid)
}

/// Eight digits that nobody else has at the time.
pub(crate) fn token() -> io::Result<String> {
    Ok(format!("{:08x}", u32::from_le_bytes(random()?)))
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
