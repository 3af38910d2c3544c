//! Writing so that it survives a power cut: files and folders are flushed before anybody is told of them.

use crate::error::{Error, Result};
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Who may do what with a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permissions {
    /// 0600: nobody else may read it.
    Private,
    /// 0644.
    Plain,
    /// 0755.
    Executable,
}

impl Permissions {
    fn bits(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::Plain => 0o644,
            Self::Executable => 0o755,
        }
    }
}

/// Makes a file that is not there yet, open for writing. A link is something that is there.
///
/// # Errors
/// As open(2) gives them; [`io::ErrorKind::AlreadyExists`].
pub fn create_new(path: &Path, permissions: Permissions) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::from_raw_mode(permissions.bits()))?.into())
}

/// Writes a file that is not there yet. It is durable only after [`flush_tree`] of its folder.
///
/// # Errors
/// Where it is there, or cannot be written.
pub fn write_new(path: &Path, text: &str, permissions: Permissions) -> Result<()> {
    let mut file = create_new(path, permissions).map_err(Error::io("create", path))?;
    file.write_all(text.as_bytes()).map_err(Error::io("write", path))
}

/// Replaces a file in one step, and makes that durable: a reader sees the old bytes or the new ones.
///
/// # Errors
/// Where the folder cannot be written; then the old file is as it was.
pub fn replace(path: &Path, bytes: &[u8], permissions: Permissions) -> Result<()> {
    let mut file = Replacement::begin(path, permissions)?;
    file.write_all(bytes).map_err(Error::io("write", path))?;
    file.finish()
}

/// A file that takes another's place once it is whole. Dropped before [`Replacement::finish`], it is removed.
#[derive(Debug)]
pub struct Replacement {
    path: PathBuf,
    aside: PathBuf,
    file: File,
}

impl Replacement {
    /// Begins to write what shall be `path`.
    ///
    /// # Errors
    /// Where its folder cannot be written.
    pub fn begin(path: &Path, permissions: Permissions) -> Result<Self> {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".part");
        let aside = PathBuf::from(aside);
        let file = create_anew(&aside, permissions).map_err(Error::io("create", &aside))?;
        Ok(Self { path: path.to_owned(), aside, file })
    }

    /// Puts it into its place, durably.
    ///
    /// # Errors
    /// Where it cannot be flushed or renamed; then the old file is as it was.
    pub fn finish(self) -> Result<()> {
        self.file.sync_all().map_err(Error::io("make durable", &self.aside))?;
        fs::rename(&self.aside, &self.path).map_err(Error::io("replace", &self.path))?;
        flush_folder(parent(&self.path))
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        // What is half written is nothing to anybody; after the rename there is none of this name.
        let _ = fs::remove_file(&self.aside);
    }
}

/// Makes a new file, also in the place of one that a death has left; what a link there points to is not
/// touched.
///
/// # Errors
/// As open(2) and unlink(2) give them.
pub fn create_anew(path: &Path, permissions: Permissions) -> io::Result<File> {
    match create_new(path, permissions) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            create_new(path, permissions)
        }
        other => other,
    }
}

/// Makes every file and folder under `folder` durable, and the folder itself.
///
/// # Errors
/// Where one cannot be opened or flushed.
pub fn flush_tree(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let entry = entry.map_err(Error::io("list", folder))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(Error::io("look at", &path))?;
        if kind.is_dir() {
            flush_tree(&path)?;
        } else if kind.is_file() {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let open = openat(CWD, &path, flags, Mode::empty()).map_err(io::Error::from);
            let file = File::from(open.map_err(Error::io("open", &path))?);
            file.sync_all().map_err(Error::io("make durable", &path))?;
        }
    }
    flush_folder(folder)
}

/// Makes the names in a folder durable.
///
/// # Errors
/// Where it cannot be opened or flushed.
pub fn flush_folder(folder: &Path) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = openat(CWD, folder, flags, Mode::empty()).map_err(io::Error::from);
    let file = File::from(open.map_err(Error::io("open", folder))?);
    file.sync_all().map_err(Error::io("make durable", folder))
}

/// Makes a folder and those above it where they are missing, durably.
///
/// # Errors
/// Where one cannot be made.
pub fn make_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    make_folder(parent(folder))?;
    match fs::create_dir(folder) {
        // Another process was faster, and flushes it too.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(e) => Err(Error::io("make the folder", folder)(e)),
        Ok(()) => flush_folder(parent(folder)),
    }
}

/// The folder that holds `path`.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn a_link_in_the_way_is_replaced_and_what_it_points_to_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, path) = (folder.path().join("victim"), folder.path().join("record.json"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &path).unwrap();
        symlink(&victim, folder.path().join("record.json.part")).unwrap();
        replace(&path, b"new", Permissions::Private).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(!folder.path().join("record.json.part").exists());
    }

    #[test]
    fn a_new_file_is_not_made_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link");
        symlink(folder.path().join("nowhere"), &path).unwrap();
        assert!(write_new(&path, "text", Permissions::Plain).is_err());
        assert!(!folder.path().join("nowhere").exists());
    }
}
