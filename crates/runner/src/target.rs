//! The study's target: a file of Flyball's own, or a loop device over one, and nothing else.

use crate::Error;
use domain::units::Bytes;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The name of the target's file in the work folder.
const FILE: &str = "target";

/// What the workloads of a study read and write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    file: PathBuf,
    /// What workloads are given: the file, or the loop device's node.
    path: PathBuf,
    size: Bytes,
    /// Device and inode number of the file.
    identity: (u64, u64),
    /// The loop device's name, where there is one: `loop3`.
    device: Option<String>,
}

impl Target {
    /// What workloads are given: the file, or the loop device's node.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// The loop device's name, where the target is one: what a block device's settings mean without an object.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Whether it is still the one that was made: same file, same size, same device.
    ///
    /// # Errors
    /// [`Error::TargetChanged`].
    pub fn verify(&self) -> Result<(), Error> {
        let changed = |why: String| Err(Error::TargetChanged { path: self.file.clone(), why });
        let metadata = match fs::symlink_metadata(&self.file) {
            Ok(metadata) => metadata,
            Err(error) => return changed(format!("it cannot be looked at ({error})")),
        };
        if !metadata.file_type().is_file() {
            return changed("it is no plain file any more".into());
        }
        if (metadata.dev(), metadata.ino()) != self.identity {
            return changed("another file has taken its place".into());
        }
        if metadata.len() != self.size.get() {
            return changed(format!(
                "it has {}, and was made with {}",
                Bytes::new(metadata.len()),
                self.size
            ));
        }
        match &self.device {
            Some(name) => self.verify_loop(name),
            None => Ok(()),
        }
    }

    fn verify_loop(&self, name: &str) -> Result<(), Error> {
        let backing = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).unwrap_or_default();
        if Path::new(backing.trim_end()) == self.file {
            return Ok(());
        }
        let why = format!("`{name}` lies over `{}` now", backing.trim_end());
        Err(Error::TargetChanged { path: self.file.clone(), why })
    }

    /// The target over a file that was just made.
    pub(crate) fn over(file: PathBuf, size: Bytes, device: Option<String>) -> Result<Self, Error> {
        let metadata = fs::symlink_metadata(&file).map_err(|e| Error::file("look at", &file, e))?;
        let path = device.as_ref().map_or_else(|| file.clone(), |name| Path::new("/dev").join(name));
        Ok(Self { identity: (metadata.dev(), metadata.ino()), file, path, size, device })
    }
}

/// Makes the work folder where it is missing, and makes sure that nobody else can put anything into it.
fn own_folder(folder: &Path) -> Result<PathBuf, Error> {
    let failed = |e| Error::file("use the work folder", folder, e);
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    let metadata = fs::symlink_metadata(folder).map_err(failed)?;
    let ours = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
    if !ours || metadata.mode() & 0o022 != 0 {
        return Err(Error::OpenFolder(folder.to_owned()));
    }
    fs::canonicalize(folder).map_err(failed)
}
