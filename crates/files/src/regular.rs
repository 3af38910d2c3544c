//! Files that somebody names, read only where they are regular.
//!
//! Opening a FIFO waits for its other end, opening a device may act on it, and reading either may never end.
//! So a path is opened as a mere name first (`O_PATH`, open(2)), looked at, and only then opened through that
//! descriptor: nothing can take its place in between.

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// Opens a regular file for reading; links are followed.
///
/// # Errors
/// As open(2) gives them; [`io::ErrorKind::InvalidInput`] where it is no regular file, with what it is.
pub fn open(path: &Path) -> io::Result<File> {
    let name = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    check_regular(&name)?;
    through(&name, OFlags::RDONLY)
}

/// The same where the name itself is the file's: a link is refused.
///
/// # Errors
/// Those of [`open`].
pub fn open_itself(path: &Path) -> io::Result<File> {
    let name = openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    check_regular(&name)?;
    through(&name, OFlags::RDONLY)
}

/// The whole of a regular file of at most `limit` bytes.
///
/// # Errors
/// Those of [`open`]; [`io::ErrorKind::FileTooLarge`] where it is longer.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_all(open(path)?, limit)
}

/// The whole of a regular file of at most `limit` bytes, which is UTF-8.
///
/// # Errors
/// Those of [`read`]; [`io::ErrorKind::InvalidData`] where it is not UTF-8.
pub fn text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("byte {at} is not UTF-8"))
    })
}

/// Reads an open file to its end, which has to come within `limit` bytes.
///
/// # Errors
/// As read(2) gives them; [`io::ErrorKind::FileTooLarge`] where it is longer.
pub fn read_all(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let text = format!("it is longer than the {limit} bytes that such a file may have");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

/// Opens what a descriptor names (`O_PATH`) for use.
pub(crate) fn through(name: &OwnedFd, access: OFlags) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", name.as_raw_fd());
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?.into())
}

/// An error unless the descriptor's file is regular.
pub(crate) fn check_regular(name: &OwnedFd) -> io::Result<rustix::fs::Stat> {
    let stat = fstat(name)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(stat),
        other => {
            let text = format!("it is {}, not a file; name a regular file", in_words(other));
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}

fn in_words(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe (FIFO)",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        _ => "no file that this program knows",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_a_regular_file_is_opened_and_nothing_waits() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        rustix::fs::mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        assert_eq!(text(&path("file"), 4).unwrap(), "text");
        assert_eq!(text(&path("link"), 4).unwrap(), "text");
        let told = |path: &Path| text(path, 4).unwrap_err().to_string();
        assert_eq!(told(&path("fifo")), "it is a pipe (FIFO), not a file; name a regular file");
        assert_eq!(told(&path("socket")), "it is a socket, not a file; name a regular file");
        assert_eq!(told(Path::new("/dev/zero")), "it is a character device, not a file; name a regular file");
        assert_eq!(told(folder.path()), "it is a folder, not a file; name a regular file");
        assert_eq!(text(&path("none"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_longer_than_its_limit_is_refused_and_not_cut() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "12345").unwrap();
        assert_eq!(read(file.path(), 5).unwrap(), b"12345");
        assert_eq!(read(file.path(), 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn text_that_is_not_utf_8_is_refused_with_its_place() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"ab\xff").unwrap();
        assert_eq!(text(file.path(), 9).unwrap_err().to_string(), "byte 2 is not UTF-8");
    }
}
