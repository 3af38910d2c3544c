//! The folder in which a lab machine's disks are kept between its starts. One machine at a time has it.
//!
//! A folder that holds anything else is refused: an image that somebody else made is not written to.

use crate::{Error, Result};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// The file that makes a folder one of kept disks, locked by whoever uses them. The kernel lets go of the lock when its
/// holder dies.
const MARK: &str = "lab-disks";

/// A folder of kept disks, locked until this is dropped.
#[derive(Debug)]
pub struct KeptDisks {
    folder: PathBuf,
    _lock: File,
}

impl KeptDisks {
    /// Opens the folder, or makes it where it is missing or empty.
    ///
    /// # Errors
    /// [`Error::DisksInUse`] where another machine has it; where it holds something else; where it cannot be written.
    pub fn open(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|e| Error::file("make the folder", folder, e))?;
        let mark = folder.join(MARK);
        if !mark.exists() {
            refuse_foreign(folder)?;
        }
        let lock = File::options().write(true).create(true).truncate(false).open(&mark);
        let lock = lock.map_err(|e| Error::file("open", &mark, e))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { folder: folder.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Error::DisksInUse { folder: folder.to_owned() }),
            Err(TryLockError::Error(e)) => Err(Error::file("lock", &mark, e)),
        }
    }

    /// Where a disk of this name is.
    pub fn file(&self, disk: &str) -> PathBuf {
        self.folder.join(format!("{disk}.img"))
    }
}

fn refuse_foreign(folder: &Path) -> Result<()> {
    let mut entries = fs::read_dir(folder).map_err(|e| Error::file("list", folder, e))?;
    let Some(entry) = entries.next() else { return Ok(()) };
    let name = entry.map_err(|e| Error::file("list", folder, e))?.file_name();
    // Another one that makes it at the same moment has put its mark there; the lock decides between the two.
    if name == MARK {
        return Ok(());
    }
    Err(Error::machine(format!(
        "cannot keep a lab machine's disks in `{}`: it holds `{}`, and no disks of a lab machine; name a folder that is \
         empty or not there",
        folder.display(),
        name.to_string_lossy(),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_had_by_one_at_a_time_and_found_again() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        let first = KeptDisks::open(&folder).unwrap();
        let text = KeptDisks::open(&folder).unwrap_err().to_string();
        assert!(text.contains("another lab machine has them"), "{text}");
        fs::write(first.file("disk0"), "").unwrap();
        drop(first);
        assert_eq!(KeptDisks::open(&folder).unwrap().file("disk0"), folder.join("disk0.img"));
    }

    #[test]
    fn a_folder_with_something_else_in_it_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("disk0.img"), "somebody's").unwrap();
        let text = KeptDisks::open(folder.path()).unwrap_err().to_string();
        assert!(text.contains("it holds `disk0.img`, and no disks of a lab machine"), "{text}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
