//! A folder that is there already, on a filesystem in use, in which Flyball makes a folder of its own.
//!
//! Nothing is made in it but that one folder, under a name that nobody else has; the ledger removes it at the
//! end, and after a crash. It is found again by its path, so that nobody but root and this user may be able
//! to change what that path leads to ([`files::trust`]).

use crate::{Error, environment, fill};
use domain::units::Bytes;
use machine::LocalMachine;
use std::fs;
use std::path::{Path, PathBuf};

/// What stays free at least, whatever the filesystem's size.
pub const MIN_FREE: Bytes = Bytes::from_mib(1024);

/// What share of a filesystem stays free: one tenth. Filesystems become slow and programs fail well before
/// nothing is left.
const FREE_SHARE: u64 = 10;

/// What stays free at most: a tenth of a large filesystem is more than its programs need, and it would refuse
/// a target of a few hundred mebibytes where tens of gibibytes are free.
const MAX_FREE: Bytes = Bytes::from_mib(10 << 10);

/// How much of a filesystem in use is free, and how much of that stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// What is free for this user.
    pub free: Bytes,
    /// What has to stay free.
    pub reserve: Bytes,
}

impl Room {
    /// Looks at the filesystem that a folder is on.
    pub fn look(path: &Path) -> Result<Self, Error> {
        let space =
            rustix::fs::statvfs(path).map_err(|e| Error::file("look for space in", path, e.into()))?;
        let whole = Bytes::new(space.f_blocks.saturating_mul(space.f_frsize));
        let free = Bytes::new(space.f_bavail.saturating_mul(space.f_frsize));
        Ok(Self { free, reserve: reserve_of(whole) })
    }

    /// What it is, in a few words.
    pub fn in_words(self) -> String {
        format!("{} are free there, {} stay free", self.free, self.reserve)
    }
}

/// What of a filesystem of this size has to stay free.
fn reserve_of(whole: Bytes) -> Bytes {
    Bytes::new(whole.get() / FREE_SHARE).clamp(MIN_FREE, MAX_FREE)
}

/// A folder that may be used, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingFolder {
    /// Its path, links resolved.
    pub path: PathBuf,
    /// What is free for this user.
    pub free: Bytes,
    /// What has to stay free.
    pub reserve: Bytes,
    /// The disk below its filesystem, as settings know it; none on tmpfs or a network.
    pub device: Option<String>,
}

impl ExistingFolder {
    /// Looks at a folder in which a target of this size is to be made.
    ///
    /// # Errors
    /// [`Error::Untrusted`] where somebody else decides what the path leads to; [`Error::File`] where it is
    /// not there; [`Error::NoSpace`].
    pub fn check(path: &Path, size: Bytes) -> Result<Self, Error> {
        // It may be `/tmp`: in a folder with the sticky bit names belong to their owners.
        files::trust::check_folder_of(&path.join("any"))?;
        let path = fs::canonicalize(path).map_err(|e| Error::file("use the folder", path, e))?;
        let Room { free, reserve } = Room::look(&path)?;
        fill::check_room(&path, size, reserve)?;
        let device = environment::devices_below(&LocalMachine, &path).into_iter().next();
        Ok(Self { path, free, reserve, device })
    }

    /// What it is, in a few words.
    pub fn in_words(&self) -> String {
        let room = Room { free: self.free, reserve: self.reserve };
        format!("{} ({})", self.path.display(), room.in_words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_stays_free_between_the_least_and_the_most() {
        let gib = |n: u64| Bytes::from_mib(n << 10);
        for (whole, reserve) in [
            (Bytes::new(0), MIN_FREE),
            (gib(10), gib(1)),
            (gib(20), gib(2)),
            (gib(100), gib(10)),
            (gib(9000), gib(10)),
        ] {
            assert_eq!(reserve_of(whole), reserve, "{whole}");
        }
    }
}
