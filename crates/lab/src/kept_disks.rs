//! The folder in which a lab machine's disks are kept between its starts. One machine at a time has it.
//!
//! A folder that holds anything else is refused: an image that somebody else made is not written to. A disk
//! is its bytes and nothing else; how they are kept is said by the mark, which names a version. The first one
//! left it empty.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The file that makes a folder one of kept disks, locked by whoever uses them. The kernel lets go of the
/// lock when its holder dies.
const MARK: &str = "lab-disks";

/// How disks are kept now, which is also what an empty mark says: `NAME.img` is a disk's medium, byte for
/// byte.
const VERSION: u64 = 1;

/// The Flyball that this is.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// A mark takes a line; what is longer is none.
const LONGEST_MARK: u64 = 4096;

/// What a mark says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    flyball_lab_disks: u64,
    written_by: String,
}

/// A folder of kept disks, locked until this is dropped.
#[derive(Debug)]
pub struct KeptDisks {
    folder: PathBuf,
    lock: File,
}

impl KeptDisks {
    /// Opens the folder, or makes it where it is missing or empty.
    ///
    /// # Errors
    /// [`Error::DisksInUse`] where another machine has it; [`Error::NewerDisks`] where another version of
    /// this program keeps them otherwise; where it holds something else; where it cannot be written.
    pub fn open(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|e| Error::file("make the folder", folder, e))?;
        let mark = folder.join(MARK);
        if !mark.exists() {
            refuse_foreign(folder)?;
        }
        let lock = File::options().read(true).write(true).create(true).truncate(false).open(&mark);
        let lock = lock.map_err(|e| Error::file("open", &mark, e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::DisksInUse { folder: folder.to_owned() }),
            Err(TryLockError::Error(e)) => return Err(Error::file("lock", &mark, e)),
        }
        check_mark(&lock, &mark)?;
        Ok(Self { folder: folder.to_owned(), lock })
    }

    /// Where a disk of this name is.
    pub fn file(&self, disk: &str) -> PathBuf {
        self.folder.join(format!("{disk}.img"))
    }
}

impl Drop for KeptDisks {
    /// Closing the file is not enough: a child that another thread has just forked has it open until it
    /// begins its own program.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

/// Refuses what another version has marked; a mark that is empty gets its words.
fn check_mark(mut file: &File, path: &Path) -> Result<()> {
    let mut text = String::new();
    file.take(LONGEST_MARK).read_to_string(&mut text).map_err(|e| Error::file("read", path, e))?;
    if text.is_empty() {
        let mark = Mark { flyball_lab_disks: VERSION, written_by: PROGRAM.to_owned() };
        let text = serde_json::to_string(&mark).expect("a number and a text");
        // In one write, so that it is there or not; killed before it, the mark is as empty as it was.
        return file.write_all(format!("{text}\n").as_bytes()).map_err(|e| Error::file("write", path, e));
    }
    match serde_json::from_str::<Mark>(&text) {
        Ok(mark) if mark.flyball_lab_disks == VERSION => Ok(()),
        mark => Err(Error::NewerDisks {
            mark: path.to_owned(),
            this: PROGRAM,
            why: mark.map_or_else(
                |error| error.to_string(),
                |mark| format!("they are kept by version {}, and {VERSION} is known", mark.flyball_lab_disks),
            ),
            needed: writer(&text).map_or("the Flyball that made it".to_owned(), |by| format!("Flyball {by}")),
        }),
    }
}

/// Who wrote a mark, whatever else it says.
fn writer(text: &str) -> Option<String> {
    let mark: serde_json::Value = serde_json::from_str(text).ok()?;
    let by = mark.get("written_by")?.as_str()?;
    let is_version = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    (by.len() < 100 && by.chars().all(is_version)).then(|| by.to_owned())
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
    fn disks_of_the_first_version_are_opened_and_say_their_version_from_then_on() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join(MARK);
        fs::write(&mark, "").unwrap();
        fs::write(folder.path().join("disk0.img"), "a disk").unwrap();
        for _ in 0..2 {
            KeptDisks::open(folder.path()).unwrap();
            let text = fs::read_to_string(&mark).unwrap();
            assert_eq!(text, format!("{{\"flyball_lab_disks\":1,\"written_by\":\"{PROGRAM}\"}}\n"));
        }
        assert_eq!(fs::read_to_string(folder.path().join("disk0.img")).unwrap(), "a disk");
    }

    #[test]
    fn disks_of_a_newer_version_are_refused_and_left_as_they_are() {
        for (text, told) in [
            (r#"{"flyball_lab_disks":2,"written_by":"9.9.9"}"#, "kept by version 2"),
            (r#"{"flyball_lab_disks":1,"written_by":"9.9.9","packed":true}"#, "unknown field `packed`"),
            (r#"{"flyball_lab_disks":1"#, "EOF"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let mark = folder.path().join(MARK);
            fs::write(&mark, text).unwrap();
            let error = KeptDisks::open(folder.path()).unwrap_err().to_string();
            assert!(error.contains(told) && error.contains(mark.to_str().unwrap()), "{error}");
            assert_eq!(error.contains("use Flyball 9.9.9"), text.contains("9.9.9"), "{error}");
            assert_eq!(fs::read_to_string(&mark).unwrap(), text);
        }
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
