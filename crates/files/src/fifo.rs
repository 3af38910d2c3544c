//! Named pipes of Flyball's own (fifo(7)): whoever may open one writes a line, and one process reads.

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mknodat, openat};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The reading end. Dropped, it takes the name with it.
#[derive(Debug)]
pub struct Fifo {
    path: PathBuf,
    end: OwnedFd,
}

impl Fifo {
    /// Makes a pipe that this user alone, and root, may open.
    ///
    /// # Errors
    /// As mknod(2) and open(2) give them: where something of this name is there, or the filesystem has no
    /// pipes.
    pub fn make(path: &Path) -> io::Result<Self> {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        // Open for writing too: a pipe that nobody else writes to has no end of file then.
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(CWD, path, flags, Mode::empty()) {
            Ok(end) => Ok(Self { path: path.to_owned(), end }),
            Err(error) => {
                fs::remove_file(path)?;
                Err(error.into())
            }
        }
    }

    /// What is read from; reading does not wait.
    pub fn reading_end(&self) -> &OwnedFd {
        &self.end
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        // A staging folder that is gone has taken it along.
        let _ = fs::remove_file(&self.path);
    }
}

/// Opens a pipe for writing, which waits where the pipe is full; `None` where nobody reads it, or there is
/// none.
///
/// # Errors
/// As open(2) gives them; [`io::ErrorKind::InvalidInput`] where it is no pipe.
pub fn open_for_writing(path: &Path) -> io::Result<Option<File>> {
    // A pipe that nobody reads would be waited for without this.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match openat(CWD, path, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::NXIO) => return Ok(None),
        other => other?,
    };
    if FileType::from_raw_mode(fstat(&opened)?.st_mode) != FileType::Fifo {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no named pipe"));
    }
    rustix::fs::fcntl_setfl(&opened, OFlags::empty())?;
    Ok(Some(opened.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_line_arrives_and_a_pipe_that_nobody_reads_is_not_waited_for() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("marks");
        assert!(open_for_writing(&path).unwrap().is_none());
        let pipe = Fifo::make(&path).unwrap();
        open_for_writing(&path).unwrap().unwrap().write_all(b"load\n").unwrap();
        let mut bytes = [0; 16];
        assert_eq!(rustix::io::read(pipe.reading_end(), &mut bytes).unwrap(), 5);
        assert_eq!(rustix::io::read(pipe.reading_end(), &mut bytes), Err(Errno::AGAIN));
        drop(pipe);
        assert!(!path.exists());
        // As one is that a killed reader left.
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(open_for_writing(&path).unwrap().is_none());
    }

    #[test]
    fn what_is_no_pipe_is_not_written_to() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "kept").unwrap();
        assert_eq!(open_for_writing(&file).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(open_for_writing(&link).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    }
}
