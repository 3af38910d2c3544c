//! Writing so that it survives a power cut: files and folders are flushed before anybody is told of them.

use crate::error::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Who may run a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Plain,
    Executable,
}

/// Writes a file that is not there yet. It is durable only after [`flush_tree`] of its folder.
pub(crate) fn write_new(path: &Path, text: &str, mode: Mode) -> Result<()> {
    let bits = if mode == Mode::Executable { 0o755 } else { 0o644 };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(bits)
        .open(path)
        .map_err(Error::io("create", path))?;
    file.write_all(text.as_bytes()).map_err(Error::io("write", path))
}

/// Replaces a file in one step: a reader sees the old text or the new one.
pub(crate) fn replace(path: &Path, text: &str) -> Result<()> {
    let part = path.with_extension("part");
    let mut file = File::create(&part).map_err(Error::io("create", &part))?;
    file.write_all(text.as_bytes()).map_err(Error::io("write", &part))?;
    file.sync_all().map_err(Error::io("make durable", &part))?;
    fs::rename(&part, path).map_err(Error::io("replace", path))?;
    flush_folder(parent(path))
}

/// Makes every file and folder under `folder` durable, and the folder itself.
pub(crate) fn flush_tree(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let entry = entry.map_err(Error::io("list", folder))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(Error::io("look at", &path))?;
        if kind.is_dir() {
            flush_tree(&path)?;
        } else if kind.is_file() {
            let file = File::open(&path).map_err(Error::io("open", &path))?;
            file.sync_all().map_err(Error::io("make durable", &path))?;
        }
    }
    flush_folder(folder)
}

/// Makes the names in a folder durable.
pub(crate) fn flush_folder(folder: &Path) -> Result<()> {
    let file = File::open(folder).map_err(Error::io("open", folder))?;
    file.sync_all().map_err(Error::io("make durable", folder))
}

/// Makes a folder and those above it where they are missing, durably.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
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
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
