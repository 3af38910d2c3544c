//! A block device behind a path, held open so that its number cannot pass to another one while it is looked
//! at.
//!
//! Everything that sysfs tells is read by the device number of the descriptor (`/sys/dev/block/MAJOR:MINOR`),
//! never by the name that was typed: names are given anew when a disk is plugged in.

use super::error::{ClaimError, Doing};
use domain::units::Bytes;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// An open whole disk.
#[derive(Debug)]
pub(crate) struct Node {
    /// As it was typed, made absolute.
    pub path: PathBuf,
    /// Open for reading, not exclusively.
    pub file: File,
    /// The kernel's name: `sda`, `nvme0n1`, `cciss!c0d0`.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// Its folder in sysfs.
    pub sys: PathBuf,
    /// As long as it is now.
    pub size: Bytes,
}

impl Node {
    /// Opens a path for reading, following symbolic links.
    ///
    /// # Errors
    /// [`ClaimError::NoDisk`] where there is no whole disk with some size; [`ClaimError::Device`].
    pub fn open(doing: Doing, path: &Path) -> Result<Self, ClaimError> {
        let none = |reason: &str| ClaimError::NoDisk { doing, path: path.into(), reason: reason.into() };
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(none("there is no such file; `flyball inspect` lists the disks"));
            }
            Err(source) => return Err(device_error("look at", path, source)),
        };
        // Before it is opened: opening a pipe waits, and opening some character devices does things.
        check_kind(&metadata).map_err(|reason| none(&reason))?;
        let file = open(path, OFlags::RDONLY).map_err(|source| device_error("open", path, source))?;
        let metadata = file.metadata().map_err(|source| device_error("look at", path, source))?;
        check_kind(&metadata).map_err(|reason| none(&reason))?;
        let number = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
        let by_number = PathBuf::from(format!("/sys/dev/block/{}:{}", number.0, number.1));
        let sys = fs::canonicalize(&by_number).map_err(|source| device_error("find", &by_number, source))?;
        let name = file_name(&sys);
        if sys.join("partition").exists() {
            let whole = sys.parent().map(file_name).unwrap_or_default();
            return Err(none(&format!(
                "it is a partition of `{0}`, and only whole disks are claimed; name `{1}`",
                whole,
                node_path(&whole).display()
            )));
        }
        let size = (&file).seek(SeekFrom::End(0)).map_err(|source| device_error("measure", path, source))?;
        if size == 0 {
            return Err(none("it has no size: no medium, or no file behind a loop device"));
        }
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self { path, file, name, number, sys, size: Bytes::new(size) })
    }

    /// Opens the same device once more, by the descriptor and not by a name.
    ///
    /// # Errors
    /// As the kernel gives them; `ResourceBusy` where `flags` has `EXCL` and something has it open
    /// exclusively.
    pub fn reopen(&self, flags: OFlags) -> io::Result<File> {
        open(&descriptor_path(&self.file), flags)
    }

    /// A file of its folder in sysfs without the space around; `None` where it is absent, unreadable or
    /// empty.
    pub fn text(&self, file: &str) -> Option<String> {
        text(&self.sys.join(file))
    }

    /// It and its partitions: kernel name and folder in sysfs.
    ///
    /// # Errors
    /// [`ClaimError::Device`].
    pub fn parts(&self) -> Result<Vec<(String, PathBuf)>, ClaimError> {
        parts_of(&self.sys)
    }
}

/// A block device and its partitions, by its folder in sysfs: kernel name and folder.
///
/// # Errors
/// [`ClaimError::Device`].
pub(crate) fn parts_of(sys: &Path) -> Result<Vec<(String, PathBuf)>, ClaimError> {
    let mut parts = vec![(file_name(sys), sys.to_owned())];
    for name in names(sys)? {
        let folder = sys.join(&name);
        if folder.join("partition").exists() {
            parts.push((name, folder));
        }
    }
    Ok(parts)
}

/// `/dev/NAME` for a name of the kernel's, which has `!` for `/`.
pub(crate) fn node_path(name: &str) -> PathBuf {
    Path::new("/dev").join(name.replace('!', "/"))
}

/// The path by which every process reaches the device behind this descriptor of ours, whatever its names are
/// by then.
pub(crate) fn descriptor_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}

/// The names in a folder, sorted; none where it is absent.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>, ClaimError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(device_error("list", folder, source)),
    };
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    let mut names = entries
        .map(name)
        .collect::<io::Result<Vec<String>>>()
        .map_err(|source| device_error("list", folder, source))?;
    names.sort();
    Ok(names)
}

pub(crate) fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

pub(crate) fn device_error(what: &'static str, path: &Path, source: io::Error) -> ClaimError {
    let hint = match source.kind() {
        io::ErrorKind::PermissionDenied if rustix::process::geteuid().is_root() => {
            "; this system denies it to root too, as a container does"
        }
        io::ErrorKind::PermissionDenied => "; run as root",
        _ => "",
    };
    ClaimError::Device { what, path: path.to_owned(), source, hint }
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    Ok(rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())?.into())
}

fn check_kind(metadata: &fs::Metadata) -> Result<(), String> {
    let kind = metadata.file_type();
    if kind.is_block_device() {
        return Ok(());
    }
    let what = if kind.is_char_device() {
        "a character device"
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_file() {
        "a regular file"
    } else {
        "neither file nor disk"
    };
    Err(format!("it is {what}, not a block device; name a disk: `flyball inspect` lists them"))
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
