//! Locks between processes: `flock` on a file, which the kernel lets go when its holder dies.

use crate::error::{Error, Result};
use crate::own::{self, Access};
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to wait for a lock that is only ever held for moments: a slow disk's flush fits in.
pub const MOMENT: Duration = Duration::from_secs(10);

/// How often a held lock is tried again.
const POLL: Duration = Duration::from_millis(5);

/// What is read of a signature: a process id and when it was started.
const MAX_SIGNATURE: u64 = 64;

/// A lock, held until it is dropped.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Takes the lock, or gives `None` where somebody holds it. The file is made where there is none.
    ///
    /// # Errors
    /// Where the file cannot be used as one of Flyball's own (see [`own::open`]).
    pub fn try_take(path: &Path) -> Result<Option<Self>> {
        let file =
            own::open_or_make(path, Access::Write, 0o644).map_err(Error::io("use the lock file", path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(Error::io("lock", path)(e)),
        }
    }

    /// Takes the lock, waiting for `limit` at most.
    ///
    /// # Errors
    /// Those of [`Lock::try_take`]; [`Error::Locked`].
    pub fn take_within(path: &Path, limit: Duration) -> Result<Self> {
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

    /// Writes a line into the lock file, for those who find it held: who holds it.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn sign(&mut self, path: &Path, signature: &str) -> Result<()> {
        let text = format!("{signature}\n");
        let file = &mut self.0;
        let write = |file: &mut File| -> io::Result<()> {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(text.as_bytes())
        };
        write(file).map_err(Error::io("write", path))
    }
}

impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What a lock's holder, or its last one, has written into it; `None` where there is nothing of the kind.
pub fn signature(path: &Path) -> Option<String> {
    let mut text = String::new();
    own::open(path, Access::Read).ok()?.take(MAX_SIGNATURE).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_once_and_names_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut first = Lock::try_take(&path).unwrap().unwrap();
        first.sign(&path, "4711").unwrap();
        assert!(Lock::try_take(&path).unwrap().is_none());
        assert_eq!(signature(&path).as_deref(), Some("4711"));
        drop(first);
        assert!(Lock::try_take(&path).unwrap().is_some());
    }

    #[test]
    fn a_lock_that_is_a_link_empties_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, path) = (folder.path().join("victim"), folder.path().join("lock"));
        std::fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let error = Lock::try_take(&path).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        assert_eq!(signature(&path), None);
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    }
}
