//! A folder that is written aside and then put into its place by one rename.
//!
//! Each has a lock file beside it, held while its writer lives; so what the dead left can be told from what
//! is being written, also on a disk shared by several machines, where process ids mean nothing. Making a
//! folder and sweeping happen under one short lock of the staging folder, which closes the moment between the
//! two steps.

use crate::durable;
use crate::error::{Error, Result};
use crate::lock::{Lock, MOMENT};
use crate::own;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Ends the names of folders that are being written.
const PART: &str = ".part";
/// Ends the names of their locks.
const PART_LOCK: &str = ".part.lock";
/// The lock of the staging folder itself.
const STAGING_LOCK: &str = ".lock";

/// A bound on names tried for one folder: more of them than one process has open at once.
const MAX_NAMES: u32 = 10_000;

/// A folder staged. Dropped without being published, it is removed.
#[derive(Debug)]
pub struct StagingDir {
    folder: PathBuf,
    lock_path: PathBuf,
    _lock: Lock,
}

impl StagingDir {
    /// Makes an empty folder in `staging`, which is made where it is missing. `what` begins its name:
    /// `trial`, `run`.
    ///
    /// # Errors
    /// Where `staging` cannot be written, is a link, or belongs to somebody else; [`Error::Locked`];
    /// [`Error::Full`].
    pub fn begin(staging: &Path, what: &str) -> Result<Self> {
        own::make_folder(staging)?;
        let _short = Lock::take_within(&staging.join(STAGING_LOCK), MOMENT)?;
        let pid = std::process::id();
        for n in 0..MAX_NAMES {
            let folder = staging.join(format!("{what}-{pid}-{n}{PART}"));
            let lock_path = staging.join(format!("{what}-{pid}-{n}{PART_LOCK}"));
            // A lock file that is there may belong to the same process id of another machine or container.
            if is_there(&lock_path) || is_there(&folder) {
                continue;
            }
            let lock =
                Lock::try_take(&lock_path)?.expect("nobody else makes locks while the staging lock is held");
            let staged = Self { folder, lock_path, _lock: lock };
            fs::create_dir(&staged.folder).map_err(Error::io("make the folder", &staged.folder))?;
            return Ok(staged);
        }
        Err(Error::Full {
            path: staging.to_owned(),
            reason: format!("it holds more than {MAX_NAMES} folders of process {pid}; empty it"),
        })
    }

    /// Moves the folder `from`, which stands in the same file system, into `staging` by one rename, so that
    /// dropping this removes it: a kill at any moment leaves it whole in its place, or nothing of it there.
    /// What was not removed yet is then swept like anything half written.
    ///
    /// # Errors
    /// Those of [`StagingDir::begin`]; where `from` is no folder, or a link to one, or cannot be moved.
    pub fn take(staging: &Path, what: &str, from: &Path) -> Result<Self> {
        let staged = Self::begin(staging, what)?;
        if !is_folder(from) {
            let error = io::Error::new(io::ErrorKind::NotADirectory, "it is a link or no folder");
            return Err(Error::io("remove", from)(error));
        }
        // A folder replaces an empty one; a link that has taken its place meanwhile is refused by the kernel.
        fs::rename(from, &staged.folder).map_err(Error::io("remove", from))?;
        durable::flush_folder(durable::parent(from))?;
        Ok(staged)
    }

    /// Removes it now, and says so where that fails; what is left is swept later.
    ///
    /// # Errors
    /// Where something in it cannot be removed.
    pub fn remove(self) -> Result<()> {
        fs::remove_dir_all(&self.folder).map_err(Error::io("remove", &self.folder))
    }

    /// Where to write.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes everything durable and puts it into its place.
    ///
    /// # Errors
    /// [`Error::Exists`] where something is there; where it cannot be written.
    pub fn publish(self, target: &Path) -> Result<()> {
        durable::flush_tree(&self.folder)?;
        match fs::rename(&self.folder, target) {
            Ok(()) => durable::flush_folder(durable::parent(target)),
            Err(e) if is_taken(&e) => Err(Error::Exists { path: target.to_owned() }),
            Err(e) => Err(Error::io("put into its place", target)(e)),
        }
    }
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        // What cannot be removed now is swept later: nobody reads it as a result in the meantime.
        let _ = fs::remove_dir_all(&self.folder);
        let _ = fs::remove_file(&self.lock_path);
    }
}

/// The folders in `staging` whose names begin with `what` and that were not published: of living writers, and
/// of dead ones until they are swept.
pub fn begun(staging: &Path, what: &str) -> Vec<PathBuf> {
    let is_one = |folder: &PathBuf| {
        let stem = folder.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(PART));
        stem.is_some_and(|stem| stem.strip_prefix(what).is_some_and(|rest| rest.starts_with('-')))
    };
    folders_in(staging).into_iter().filter(is_one).collect()
}

/// The folders in a folder, by name; none where it cannot be listed.
pub fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(std::result::Result::ok);
    let mut folders: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| is_folder(path)).collect();
    folders.sort_unstable();
    folders
}

/// Removes what the dead left behind in `staging`.
///
/// # Errors
/// Where the staging folder is there and cannot be swept, as on a read-only disk.
pub fn sweep(staging: &Path) -> Result<()> {
    if !is_folder(staging) {
        return Ok(());
    }
    let _short = Lock::take_within(&staging.join(STAGING_LOCK), MOMENT)?;
    for entry in fs::read_dir(staging).map_err(Error::io("list", staging))? {
        let name = entry.map_err(Error::io("list", staging))?.file_name();
        let Some(stem) = name.to_str().and_then(stem_of) else { continue };
        let lock_path = staging.join(format!("{stem}{PART_LOCK}"));
        let Some(_lock) = Lock::try_take(&lock_path)? else { continue };
        remove_if_there(fs::remove_dir_all(staging.join(format!("{stem}{PART}"))), staging)?;
        remove_if_there(fs::remove_file(&lock_path), staging)?;
    }
    Ok(())
}

/// Removes a staging folder in which nothing is being written.
///
/// # Errors
/// Where it cannot be listed or removed.
pub fn remove_if_empty(staging: &Path) -> Result<()> {
    let mut names = fs::read_dir(staging).map_err(Error::io("list", staging))?;
    let in_use = names.any(|entry| entry.is_ok_and(|e| e.file_name() != STAGING_LOCK));
    if in_use {
        return Ok(());
    }
    fs::remove_dir_all(staging).map_err(Error::io("remove", staging))
}

/// Whether there is anything of this name, be it a link that leads nowhere.
fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// A link to a folder is none: what lies behind it is not ours to sweep.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

fn stem_of(name: &str) -> Option<&str> {
    name.strip_suffix(PART_LOCK).or_else(|| name.strip_suffix(PART))
}

fn remove_if_there(result: io::Result<()>, staging: &Path) -> Result<()> {
    match result {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("sweep", staging)(e)),
        _ => Ok(()),
    }
}

/// A rename of a folder fails so where the target is a folder that is not empty, or no folder at all.
fn is_taken(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
    matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .filter(|n| n != STAGING_LOCK)
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_published_is_there_and_nothing_is_left_aside() {
        let root = tempfile::tempdir().unwrap();
        let staging = root.path().join("staging");
        let staged = StagingDir::begin(&staging, "trial").unwrap();
        fs::write(staged.folder().join("a"), "1").unwrap();
        staged.publish(&root.path().join("place")).unwrap();
        assert_eq!(fs::read_to_string(root.path().join("place/a")).unwrap(), "1");
        assert_eq!(names(&staging), Vec::<String>::new());
    }

    #[test]
    fn what_is_there_is_never_replaced() {
        let root = tempfile::tempdir().unwrap();
        let staging = root.path().join("staging");
        for (text, kind) in [("first", true), ("second", false)] {
            let staged = StagingDir::begin(&staging, "trial").unwrap();
            fs::write(staged.folder().join("a"), text).unwrap();
            assert_eq!(staged.publish(&root.path().join("place")).is_ok(), kind);
        }
        assert_eq!(fs::read_to_string(root.path().join("place/a")).unwrap(), "first");
        assert_eq!(names(&staging), Vec::<String>::new());
    }

    #[test]
    fn the_living_are_not_swept_and_the_dead_are() {
        let root = tempfile::tempdir().unwrap();
        let staging = root.path().join("staging");
        let living = StagingDir::begin(&staging, "trial").unwrap();
        for dead in ["trial-1-0.part", "trial-2-0.part", "notes"] {
            fs::create_dir(staging.join(dead)).unwrap();
        }
        for dead in ["trial-2-0.part.lock", "trial-3-0.part.lock"] {
            fs::write(staging.join(dead), "").unwrap();
        }
        sweep(&staging).unwrap();
        let own = living.folder().file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(names(&staging), ["notes".to_owned(), own.clone(), format!("{own}.lock")]);
    }

    #[test]
    fn a_folder_that_was_taken_is_swept_where_its_taker_died() {
        let root = tempfile::tempdir().unwrap();
        let (staging, place) = (root.path().join("staging"), root.path().join("place"));
        fs::create_dir_all(place.join("inner")).unwrap();
        fs::write(place.join("inner/a"), "1").unwrap();
        let taken = StagingDir::take(&staging, "removed", &place).unwrap();
        assert!(!place.exists() && taken.folder().join("inner/a").exists());
        // Killed here: nothing is dropped, and the kernel lets the lock go.
        let StagingDir { folder, .. } = &taken;
        let (folder, lock) = (folder.clone(), taken.lock_path.clone());
        let kept = root.path().join("kept");
        fs::rename(&folder, &kept).unwrap();
        drop(taken);
        fs::rename(&kept, &folder).unwrap();
        fs::write(&lock, "").unwrap();
        sweep(&staging).unwrap();
        assert_eq!(names(&staging), Vec::<String>::new());
    }

    #[test]
    fn a_link_is_not_taken_and_what_it_leads_to_stays() {
        let root = tempfile::tempdir().unwrap();
        let (staging, victim, link) =
            (root.path().join("staging"), root.path().join("victim"), root.path().join("link"));
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("a"), "1").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        assert!(StagingDir::take(&staging, "removed", &link).is_err());
        // A link inside goes, and not what it leads to.
        let place = root.path().join("place");
        fs::create_dir(&place).unwrap();
        std::os::unix::fs::symlink(&victim, place.join("inner")).unwrap();
        StagingDir::take(&staging, "removed", &place).unwrap().remove().unwrap();
        assert!(!place.exists() && link.is_symlink());
        assert_eq!(fs::read_to_string(victim.join("a")).unwrap(), "1");
        assert_eq!(names(&staging), Vec::<String>::new());
    }

    #[test]
    fn dropping_removes_what_was_written() {
        let root = tempfile::tempdir().unwrap();
        let staged = StagingDir::begin(root.path(), "trial").unwrap();
        fs::create_dir(staged.folder().join("raw")).unwrap();
        drop(staged);
        assert_eq!(names(root.path()), Vec::<String>::new());
    }
}
