//! Files that somebody names, read only where they are regular.
//!
//! Opening a FIFO waits for its other end, opening a device may act on it, and reading either may never end.
//! So a path is opened as a mere name first (`O_PATH`, open(2)), looked at, and only then opened through that
//! descriptor: nothing can take its place in between.

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, fstatfs, openat};
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

/// Opens a regular file or a block device for reading; links are followed. What the kernel makes up as it is
/// read (`/proc`, `/sys`) is refused: reading there may act.
///
/// # Errors
/// As open(2) gives them; [`io::ErrorKind::InvalidInput`] where it is anything else, with what it is.
pub fn open_or_block_device(path: &Path) -> io::Result<File> {
    let name = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let refused = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
    match FileType::from_raw_mode(fstat(&name)?.st_mode) {
        FileType::BlockDevice => {}
        FileType::RegularFile if is_made_up(&name)? => {
            let text = "the kernel makes it up as it is read; name a block device or a file on a disk";
            return Err(refused(text.to_owned()));
        }
        FileType::RegularFile => {}
        other => {
            let text = format!("it is {}; name a block device or a regular file", in_words(other));
            return Err(refused(text));
        }
    }
    through(&name, OFlags::RDONLY)
}

/// Whether it lies on a filesystem of the kernel's own that stores nothing (`linux/magic.h`).
fn is_made_up(name: &OwnedFd) -> io::Result<bool> {
    const MAGICS: [u32; 18] = [
        0x9fa0,      // proc
        0x6265_6572, // sysfs
        0x6462_6720, // debugfs
        0x7472_6163, // tracefs
        0x7363_6673, // securityfs
        0x6265_6570, // configfs
        0xde5e_81e4, // efivarfs
        0x6165_676c, // pstore
        0x0027_e0eb, // cgroup
        0x6367_7270, // cgroup2
        0xcafe_4a11, // bpf
        0x6e73_6673, // nsfs
        0xf97c_ff8c, // selinuxfs
        0x4341_5d53, // smackfs
        0x4249_4e4d, // binfmt_misc
        0x6573_5543, // fusectl
        0x0765_5821, // resctrl
        0x1980_0202, // mqueue
    ];
    // The type of the field differs between architectures; magic numbers have 32 bits.
    let magic = fstatfs(name)?.f_type as u32;
    Ok(MAGICS.contains(&magic))
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
    fn what_is_measured_by_reading_is_a_file_or_a_block_device() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        rustix::fs::mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(open_or_block_device(&path("file")).is_ok());
        let mut linked = open_or_block_device(&path("link")).unwrap();
        assert_eq!(io::read_to_string(&mut linked).unwrap(), "text");
        assert!(io::Write::write(&mut linked, b"x").is_err());
        let told = |path: &Path| open_or_block_device(path).unwrap_err().to_string();
        assert_eq!(told(&path("fifo")), "it is a pipe (FIFO); name a block device or a regular file");
        assert_eq!(
            told(Path::new("/dev/null")),
            "it is a character device; name a block device or a regular file"
        );
        assert_eq!(told(folder.path()), "it is a folder; name a block device or a regular file");
        for made_up in ["/proc/meminfo", "/proc/self/mem", "/sys/kernel/mm/transparent_hugepage/enabled"] {
            if Path::new(made_up).exists() {
                assert!(told(Path::new(made_up)).starts_with("the kernel makes it up"), "{made_up}");
            }
        }
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
