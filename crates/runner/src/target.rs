//! The study's target: a file of Flyball's own, or a loop device over one, and nothing else.
//!
//! It is made through the ledger, which removes it when it is finished, and when it is opened after a crash.

use crate::{Error, fill};
use domain::rng::Seed;
use domain::study;
use domain::units::Bytes;
use machine::{Ledger, LoopIo};
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

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
    /// The loop device, where there is one.
    device: Option<Loop>,
}

/// A loop device over the target's file, and how it is told from another that takes its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Loop {
    /// `loop3`.
    name: String,
    /// What sysfs shows of it: its file and its sequence number, which no other binding has.
    shown: [Option<String>; 2],
}

impl Loop {
    fn look(name: &str) -> Self {
        let show = |file| fs::read_to_string(format!("/sys/block/{name}/{file}")).ok();
        Self { name: name.to_owned(), shown: ["loop/backing_file", "diskseq"].map(show) }
    }
}

impl Target {
    /// Makes what a study asks for, in a folder that only this user can write to: a file of incompressible bytes,
    /// and where the study wants one, a loop device over it. `None` where the study has no target. Whatever was
    /// made before an error is removed when the ledger is finished.
    ///
    /// A loop device reads and writes its file past the page cache, so that what is measured is not memory.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; [`Error::OpenFolder`]; [`Error::Ledger`] where the file exists already, or this user
    /// cannot make loop devices; [`Error::File`]; [`Error::Interrupted`].
    pub fn make(
        ledger: &mut Ledger<'_>,
        folder: &Path,
        kind: study::Target,
        seed: Seed,
        interrupt: &AtomicBool,
    ) -> Result<Option<Self>, Error> {
        let (size, looped) = match kind {
            study::Target::None => return Ok(None),
            study::Target::File(size) => (size, false),
            study::Target::Loop(size) => (size, true),
        };
        let folder = own_folder(folder)?;
        fill::check_space(&folder, size)?;
        let mut own = ledger.create_file(&folder.join(FILE), size)?;
        fill::fill(&mut own.file, &own.path, size, seed, interrupt)?;
        let device = if looped { Some(ledger.attach_loop(&own, LoopIo::Direct)?) } else { None };
        Self::over(&own.file, own.path, size, device.as_ref().map(|d| d.name.as_str())).map(Some)
    }

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
        self.device.as_ref().map(|device| device.name.as_str())
    }

    /// The file, also where a loop device lies over it.
    pub fn file(&self) -> &Path {
        &self.file
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
            Some(device) if Loop::look(&device.name) != *device => {
                changed(format!("`{}` is not the loop device over it any more", device.name))
            }
            _ => Ok(()),
        }
    }

    /// The target over a file that was just made, and is still open.
    pub(crate) fn over(open: &File, file: PathBuf, size: Bytes, device: Option<&str>) -> Result<Self, Error> {
        let metadata = open.metadata().map_err(|e| Error::file("look at", &file, e))?;
        let path = device.map_or_else(|| file.clone(), |name| Path::new("/dev").join(name));
        let device = device.map(Loop::look);
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
