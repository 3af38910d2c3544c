//! Locks between processes: `flock` on a file, which the kernel lets go when its holder dies.

use crate::error::{Error, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to wait for a lock that is only ever held for moments: a slow disk's flush fits in.
pub(crate) const MOMENT: Duration = Duration::from_secs(10);

/// How often a held lock is tried again.
const POLL: Duration = Duration::from_millis(5);

/// A lock, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Takes the lock, or gives `None` where somebody holds it.
    pub(crate) fn try_take(path: &Path) -> Result<Option<Self>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(Error::io("make the lock file", path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(Error::io("lock", path)(e)),
        }
    }

    /// Takes the lock, waiting for `limit` at most.
    pub(crate) fn take_within(path: &Path, limit: Duration) -> Result<Self> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(lock) = Self::try_take(path)? {
                return Ok(lock);
            }
            if Instant::now() >= deadline {
                return Err(Error::Locked { path: path.to_owned(), limit });
            }
            std::thread::sleep(POLL);
        }
    }

    /// Writes this process's id into the lock file, for those who find it held.
    pub(crate) fn sign(&mut self, path: &Path) -> Result<()> {
        let text = format!("{}\n", std::process::id());
        let file = &mut self.0;
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(text.as_bytes())
        };
        write(file).map_err(Error::io("write", path))
    }
}

/// The process that signed a lock; `None` where the file names no process.
pub(crate) fn holder(path: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(path).ok()?.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
