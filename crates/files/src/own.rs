//! Files that Flyball keeps: locks, the ledger, records.
//!
//! Such a file is opened only where it is a regular one with a single name, not through a link, and belongs
//! to this user, to root or to the owner of its folder. Whoever may write into the folder could otherwise let
//! Flyball write to a file elsewhere.

use crate::durable;
use crate::error::Error;
use crate::regular::{check_regular, read_all, through};
use rustix::fs::{CWD, Gid, Mode, OFlags, Uid, fchown, fstat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
    /// Writing at its end alone.
    Append,
}

impl Access {
    fn flags(self) -> OFlags {
        match self {
            Self::Read => OFlags::RDONLY,
            Self::Write => OFlags::RDWR,
            Self::Append => OFlags::WRONLY | OFlags::APPEND,
        }
    }
}

/// Opens a file of Flyball's own that is there.
///
/// # Errors
/// As open(2) gives them; [`io::ErrorKind::InvalidInput`] where it is a link, no regular file, has another
/// name too, or belongs to somebody else.
pub fn open(path: &Path, access: Access) -> io::Result<File> {
    let name = openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    check(&name, path)?;
    through(&name, access.flags())
}

/// The same, and makes an empty one where there is none, with these permissions.
///
/// # Errors
/// As [`open`].
pub fn open_or_make(path: &Path, access: Access, mode: u32) -> io::Result<File> {
    /// Somebody removes it as often as we look: no living program does that.
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        match open(path, access) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let flags = access.flags() | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(CWD, path, flags, Mode::from_raw_mode(mode)) {
            // Somebody was faster: theirs is looked at like any other.
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
            Ok(file) => return Ok(file.into()),
        }
    }
    Err(io::Error::other("somebody makes and removes it again and again"))
}

/// Opens a file for writing at its end that may belong to another user, in a folder of that user: a server's.
/// It is made where it is missing.
///
/// # Errors
/// As open(2) gives them; [`io::ErrorKind::InvalidInput`] where it is a link, no regular file, or has another
/// name too.
pub fn append_to_anothers(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = openat(CWD, path, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
    let stat = check_regular(&file)?;
    if stat.st_nlink != 1 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it has another name elsewhere (a hard link)",
        ));
    }
    Ok(file.into())
}

/// Makes a folder and gives it to another user, in a folder of that user.
///
/// # Errors
/// As mkdir(2), open(2) and fchown(2) give them; [`io::ErrorKind::InvalidInput`] where another folder has
/// taken its place.
pub fn make_folder_for(path: &Path, user: u32) -> io::Result<()> {
    fs::create_dir(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(CWD, path, flags, Mode::empty())?;
    if fstat(&folder)?.st_uid != geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "another folder has taken its place"));
    }
    Ok(fchown(&folder, Some(Uid::from_raw(user)), Some(Gid::from_raw(user)))?)
}

/// The whole of a file of Flyball's own, of at most `limit` bytes.
///
/// # Errors
/// Those of [`open`]; [`io::ErrorKind::FileTooLarge`] where it is longer.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_all(open(path, Access::Read)?, limit)
}

/// Makes a folder of Flyball's own where it is missing, durably, within one that is there.
///
/// # Errors
/// Where it cannot be made, is a link or no folder, or belongs to somebody else.
pub fn make_folder(path: &Path) -> crate::Result<()> {
    durable::make_folder(path)?;
    let metadata = fs::symlink_metadata(path).map_err(Error::io("look at", path))?;
    let wrong = if !metadata.is_dir() {
        "it is a link or no folder"
    } else if !belongs(metadata.uid(), path) {
        "it belongs to somebody else"
    } else {
        return Ok(());
    };
    let text = format!("{wrong}: look at it, then remove it");
    Err(Error::io("write to", path)(io::Error::new(io::ErrorKind::InvalidInput, text)))
}

fn check(name: &OwnedFd, path: &Path) -> io::Result<()> {
    let stat = check_regular(name)?;
    let wrong = if stat.st_nlink != 1 {
        "it has another name elsewhere (a hard link)".to_owned()
    } else if !belongs(stat.st_uid, path) {
        format!("it belongs to user {}, who is neither you nor root", stat.st_uid)
    } else {
        return Ok(());
    };
    let text = format!("{wrong}: somebody has put it there; look at it, then remove it");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Whether the owner of `path` is one that may be relied on.
fn belongs(owner: u32, path: &Path) -> bool {
    if owner == 0 || owner == geteuid().as_raw() {
        return true;
    }
    // A notebook on a shared disk belongs to whoever made it. Root relies on nobody.
    let folder = path.parent().and_then(|folder| fs::symlink_metadata(folder).ok());
    !geteuid().is_root() && folder.is_some_and(|folder| folder.uid() == owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_link_is_never_followed_and_what_it_points_to_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, symbolic, hard) =
            (folder.path().join("victim"), folder.path().join("symbolic"), folder.path().join("hard"));
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &symbolic).unwrap();
        for access in [Access::Read, Access::Write, Access::Append] {
            let error = open_or_make(&symbolic, access, 0o600).unwrap_err();
            assert_eq!(error.to_string(), "it is a symbolic link, not a file; name a regular file");
        }
        fs::hard_link(&victim, &hard).unwrap();
        let error = open_or_make(&hard, Access::Write, 0o600).unwrap_err().to_string();
        assert!(error.starts_with("it has another name elsewhere"), "{error}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_link_that_leads_nowhere_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("nowhere"), &link).unwrap();
        assert!(open_or_make(&link, Access::Write, 0o600).is_err());
        assert!(!folder.path().join("nowhere").exists());
    }

    #[test]
    fn what_is_missing_is_made_and_what_is_there_is_not_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        open_or_make(&path, Access::Append, 0o600).unwrap().write_all(b"one").unwrap();
        open_or_make(&path, Access::Append, 0o600).unwrap().write_all(b"two").unwrap();
        assert_eq!(read(&path, 6).unwrap(), b"onetwo");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn somebody_elses_file_is_refused() {
        if !geteuid().is_root() {
            testing::skip("giving a file to somebody else needs root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        std::os::unix::fs::chown(&path, Some(4242), Some(4242)).unwrap();
        let error = open(&path, Access::Write).unwrap_err().to_string();
        assert!(error.contains("belongs to user 4242"), "{error}");
    }
}
