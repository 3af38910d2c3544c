//! The few things that are done to files of the system's configuration, each so that it may be cut short.

use files::durable::{self, Permissions};
use files::regular;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file of rules or of values is some kilobytes; ours are bounded by the settings of one machine.
const MAX_BYTES: u64 = 16 << 20;

/// What is done to files. Tests put one in its place that dies.
pub trait Files {
    /// What a file holds; `None` where there is none.
    ///
    /// # Errors
    /// As the kernel gives them; `InvalidData` where it is no plain file, or holds no text.
    fn read(&self, path: &Path) -> io::Result<Option<String>>;

    /// Makes a file that is not there, whole or not at all.
    ///
    /// # Errors
    /// As the kernel gives them; `AlreadyExists` where somebody was faster.
    fn make(&self, path: &Path, content: &str) -> io::Result<()>;

    /// Gives a file of ours another content, whole or not at all.
    ///
    /// # Errors
    /// As the kernel gives them.
    fn replace(&self, path: &Path, content: &str) -> io::Result<()>;

    /// Removes a file; one that is gone is no error.
    ///
    /// # Errors
    /// As the kernel gives them.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// The files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalFiles;

impl Files for LocalFiles {
    fn read(&self, path: &Path) -> io::Result<Option<String>> {
        let no_text = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let file = match regular::open_itself(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Err(no_text(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        let bytes = regular::read_all(file, MAX_BYTES).map_err(|error| no_text(error.to_string()))?;
        String::from_utf8(bytes).map(Some).map_err(|_| no_text("it is no text in UTF-8".to_owned()))
    }

    fn make(&self, path: &Path, content: &str) -> io::Result<()> {
        let aside = write_aside(path, content)?;
        match renameat_with(CWD, &aside, CWD, path, RenameFlags::NOREPLACE) {
            // Some file systems cannot rename so; a second name fails just as well where the first one
            // exists.
            Err(Errno::INVAL | Errno::NOSYS) => {
                fs::hard_link(&aside, path)?;
                fs::remove_file(&aside)?;
            }
            other => other?,
        }
        sync_folder(path)
    }

    fn replace(&self, path: &Path, content: &str) -> io::Result<()> {
        fs::rename(write_aside(path, content)?, path)?;
        sync_folder(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        for path in [path, &aside_of(path)] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match sync_folder(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// No tool that reads such folders takes a file that ends like this.
fn aside_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".flyball-new");
    PathBuf::from(name)
}

fn write_aside(path: &Path, content: &str) -> io::Result<PathBuf> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let aside = aside_of(path);
    let mut file = durable::create_anew(&aside, Permissions::Plain)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    Ok(aside)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_exists_is_not_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/file.conf");
        LocalFiles.make(&path, "ours\n").unwrap();
        let error = LocalFiles.make(&path, "other\n").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(LocalFiles.read(&path).unwrap().as_deref(), Some("ours\n"));
        LocalFiles.replace(&path, "new\n").unwrap();
        assert_eq!(LocalFiles.read(&path).unwrap().as_deref(), Some("new\n"));
        LocalFiles.remove(&path).unwrap();
        LocalFiles.remove(&path).unwrap();
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0, "something lies aside");
    }

    #[test]
    fn a_link_is_no_file_of_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link.conf");
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert_eq!(LocalFiles.read(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(LocalFiles.make(&path, "x").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
