//! Files that a user asks for: pages, exports, reports.
//!
//! Such a file takes the place of the old one when it is whole, and no link in its place is followed. Root
//! writes none where somebody else decides what the name of its folder leads to. A device or a pipe of that
//! name (`/dev/null`) is written to.

use crate::durable::{Permissions, Replacement};
use crate::error::{Error, Result};
use crate::trust;
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, openat};
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where such a file goes.
#[derive(Debug)]
pub enum Output {
    /// Into the place of a file, once it is whole.
    File(Replacement),
    /// To a device or a pipe, at once.
    Stream(File),
}

impl Output {
    /// Begins to write.
    ///
    /// # Errors
    /// [`Error::Untrusted`] for root; where it cannot be written; where it is a pipe that nobody reads.
    pub fn open(path: &Path) -> Result<Self> {
        let kind = fs::metadata(path).map(|metadata| FileType::from_raw_mode(metadata.mode()));
        match kind {
            Ok(FileType::CharacterDevice | FileType::Fifo) => {
                stream(path).map(Self::Stream).map_err(Error::io("write to", path))
            }
            Ok(FileType::RegularFile) | Err(_) => {
                check(path)?;
                Replacement::begin(path, Permissions::Plain)
                    .map(Self::File)
                    .map_err(|error| in_place(path, error))
            }
            Ok(_) => {
                let text = "it is no file, and nothing that can be written to like one; name another";
                Err(Error::io("write to", path)(io::Error::new(io::ErrorKind::InvalidInput, text)))
            }
        }
    }

    /// Puts a file into its place.
    ///
    /// # Errors
    /// Where it cannot be flushed or renamed.
    pub fn finish(self) -> Result<()> {
        match self {
            Self::File(file) => file.finish(),
            Self::Stream(_) => Ok(()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stream(file) => file.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stream(file) => file.flush(),
        }
    }
}

/// Writes such a file.
///
/// # Errors
/// Those of [`Output::open`]; where it cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut output = Output::open(path)?;
    output.write_all(bytes).map_err(Error::io("write", path))?;
    output.finish()
}

/// Makes a folder for such files where it is missing.
///
/// # Errors
/// [`Error::Untrusted`] for root; where it cannot be made.
pub fn make_folder(path: &Path) -> Result<()> {
    check(&path.join("file"))?;
    DirBuilder::new().recursive(true).create(path).map_err(|error| {
        let told = format!("{error}; name a folder that you may write to");
        Error::io("make the folder", path)(io::Error::new(error.kind(), told))
    })?;
    check(&path.join("file"))
}

fn check(file: &Path) -> Result<()> {
    if geteuid().is_root() {
        trust::check_folder_of(file)?;
    }
    Ok(())
}

/// Why a file cannot be begun, and what to do. It is named as it was given, and not as what it is until it is
/// whole.
fn in_place(path: &Path, error: Error) -> Error {
    let error = io::Error::from(error);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let next = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("the folder `{}` is not there; make it, or name another", folder.display())
        }
        io::ErrorKind::PermissionDenied => {
            format!("you may not write to the folder `{}`; name another", folder.display())
        }
        _ => "name another file".to_owned(),
    };
    Error::io("write to", path)(io::Error::new(error.kind(), format!("{error}; {next}")))
}

/// Opening a pipe that nobody reads fails, where it would wait for ever.
fn stream(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty())?;
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file.into())
}

/// A folder of such files, which was not there before.
#[derive(Debug)]
pub struct NewFolder(PathBuf);

impl NewFolder {
    /// Makes it.
    ///
    /// # Errors
    /// Where something of that name is there already; those of [`make_folder`].
    pub fn make(path: &Path) -> Result<Self> {
        if fs::symlink_metadata(path).is_ok() {
            let text = "it is there already; name one that is not there yet";
            let error = io::Error::new(io::ErrorKind::AlreadyExists, text);
            return Err(Error::io("make the folder", path)(error));
        }
        make_folder(path)?;
        Ok(Self(path.to_owned()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file in it, and the folders on the way.
    ///
    /// # Errors
    /// Where one of them cannot be made or written.
    pub fn write(&self, path: &Path, content: &mut dyn Read) -> Result<()> {
        let path = self.0.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Error::io("make the folder", folder))?;
        }
        let mut file = Output::open(&path)?;
        io::copy(content, &mut file).map_err(Error::io("write", &path))?;
        file.finish()
    }

    /// Takes it away again where nothing was written. Where something was, that stays, and the error that
    /// comes next says why it is not all.
    pub fn remove_if_empty(self) {
        let _ = fs::remove_dir(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_is_replaced_whole_and_a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, page) = (folder.path().join("victim"), folder.path().join("page.html"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &page).unwrap();
        write(&page, b"new").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::read_to_string(&page).unwrap(), "new");
        // Given up half-way, it leaves the old one.
        let mut half = Output::open(&page).unwrap();
        half.write_all(b"ha").unwrap();
        drop(half);
        assert_eq!(fs::read_to_string(&page).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_device_is_written_to_and_a_pipe_without_a_reader_is_an_error_at_once() {
        write(Path::new("/dev/null"), b"text").unwrap();
        assert!(Path::new("/dev/null").metadata().unwrap().mode() & 0o170_000 == 0o020_000);
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(write(&pipe, b"text").is_err());
        assert!(write(folder.path(), b"text").is_err());
    }
}
