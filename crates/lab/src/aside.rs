//! A folder that something is made in before it is renamed to where it belongs; removed when it is dropped, and by
//! the next one to come where its maker was killed.

use crate::{Error, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const PREFIX: &str = ".aside-";

/// Such a folder.
#[derive(Debug)]
pub struct Aside {
    path: PathBuf,
    /// Held while it is in use, so that nobody takes it for a leftover.
    _lock: File,
}

impl Aside {
    /// One within `parent`, which is made where it is missing.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn new(parent: &Path) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        fs::create_dir_all(parent).map_err(|e| Error::file("make", parent, e))?;
        sweep(parent);
        let name = format!("{PREFIX}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = parent.join(name);
        fs::create_dir(&path).map_err(|e| Error::file("make", &path, e))?;
        let lock = File::open(&path).map_err(|e| Error::file("open", &path, e))?;
        lock.try_lock().map_err(|e| Error::file("lock", &path, std::io::Error::other(e)))?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Aside {
    /// Gives what was made here under this name its place. What is there already stays where it is as good, for somebody
    /// else has made the same meanwhile, and goes where it is not.
    ///
    /// # Errors
    /// Where it cannot be renamed.
    pub fn publish(&self, name: &str, to: &Path, is_good: impl Fn(&Path) -> bool) -> Result<()> {
        if to.exists() && !is_good(to) {
            // It goes with this folder.
            match fs::rename(to, self.path.join("damaged")) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::file("replace", to, e));
                }
                _ => {}
            }
        }
        match fs::rename(self.path.join(name), to) {
            Err(e) if !to.exists() => Err(Error::file("make", to, e)),
            _ => Ok(()),
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // What cannot be removed now is swept away by the next one.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes what killed programs left.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_aside = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let is_left = || File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok());
        if is_aside && is_left() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leftover_is_swept_away_and_one_in_use_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let used = Aside::new(parent.path()).unwrap();
        let left = parent.path().join(".aside-1-0");
        fs::create_dir(&left).unwrap();
        let other = Aside::new(parent.path()).unwrap();
        assert!(used.path().exists() && other.path().exists() && !left.exists());
    }
}
