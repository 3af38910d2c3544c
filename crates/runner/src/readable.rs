//! A block device or file that is somebody's, also one that is mounted or in use: read, and never written.
//!
//! It is opened once, for reading, and looked at through that descriptor alone, so that what its path leads
//! to later does not matter. A tool inherits the descriptor and is given its path below `/proc/self/fd`.
//! Opening that opens the same device anew, with whatever rights are asked for; so the tool is confined
//! besides ([`confine::Reading`]), and only a load that is known to read is run ([`workloads::invocation`]).
//! The device is never set read-only: that would be so for everybody.

use crate::{Error, environment};
use confine::Reading;
use domain::units::Bytes;
use machine::LocalMachine;
use machine::claims::{Use, named_uses};
use rustix::io::{FdFlags, fcntl_setfd};
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Something that is there already, open for reading.
#[derive(Debug)]
pub struct Readable {
    file: File,
    /// As the study names it.
    path: PathBuf,
    identity: Identity,
    size: Bytes,
    /// The disk that it is or lies on, as settings know it.
    device: Option<String>,
}

/// Which one it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    Device {
        /// The kernel's name: `sda1`.
        name: String,
        /// Its device number.
        number: (u32, u32),
        /// Its disk's sequence number, which no other disk of this boot has; kernels before 5.15 have none.
        sequence: Option<String>,
    },
    /// Device and inode number.
    File(u64, u64),
}

impl PartialEq for Readable {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, &self.identity, self.size) == (&other.path, &other.identity, other.size)
    }
}

impl Eq for Readable {}

impl Readable {
    /// Opens a path for reading, links followed, where a block device or a regular file is there.
    ///
    /// # Errors
    /// [`Error::NotReadable`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let refused = |why: String| Error::NotReadable { path: path.to_owned(), why };
        let file = files::regular::open_or_block_device(path)
            .map_err(|error| refused(format!("{error}{}", what_to_do(&error))))?;
        let metadata = file.metadata().map_err(|error| refused(error.to_string()))?;
        let size = length(&file, &metadata).map_err(|error| refused(error.to_string()))?;
        if size == Bytes::new(0) {
            return Err(refused("its size is 0, so that nothing can be read".to_owned()));
        }
        let identity = Identity::of(&metadata);
        let device = environment::devices_below(&LocalMachine, &below_proc(&file)).into_iter().next();
        Ok(Self { file, path: path.to_owned(), identity, size, device })
    }

    /// As the study names it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What a tool is given that is started with [`crate::child::Task::only_reads`]; it leads this process
    /// to the same.
    pub fn given(&self) -> PathBuf {
        below_proc(&self.file)
    }

    /// Its size.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// The disk that it is or lies on, as settings know it.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Who uses it, where it is a block device.
    ///
    /// # Errors
    /// [`Error::NotReadable`] where that cannot be told.
    pub fn uses(&self) -> Result<Vec<Use>, Error> {
        let Identity::Device { number, .. } = &self.identity else { return Ok(Vec::new()) };
        named_uses(*number)
            .map_err(|error| Error::NotReadable { path: self.path.clone(), why: error.to_string() })
    }

    /// What it is, in a few words.
    pub fn in_words(&self) -> String {
        match &self.identity {
            Identity::Device { name, number: (major, minor), .. } => {
                format!("the block device `{name}` ({major}:{minor}) of {}", self.size)
            }
            Identity::File(..) => format!("a file of {}", self.size),
        }
    }

    /// For a trial's environment: what was read, and what kept it from being written.
    pub(crate) fn shown(&self) -> BTreeMap<String, String> {
        let walls = match Reading::gap() {
            None => "the load can only read; Landlock denies the tool to write".to_owned(),
            Some(gap) => format!("the load can only read; that alone, for {gap}"),
        };
        let target = format!("{}: {}", self.path.display(), self.in_words());
        [("target".to_owned(), target), ("read_only".to_owned(), walls)].into()
    }

    /// Why it is not what was opened any more: a descriptor stays with its device, but a loop device may get
    /// another file, and a file may be cut.
    pub(crate) fn changed(&self) -> Option<String> {
        let now = self.file.metadata().and_then(|metadata| Ok((length(&self.file, &metadata)?, metadata)));
        let (size, metadata) = match now {
            Ok(now) => now,
            Err(error) => return Some(format!("it cannot be looked at ({error})")),
        };
        if Identity::of(&metadata) != self.identity {
            return Some("it is not the device any more that it was when it was opened".to_owned());
        }
        // A file may grow while others write to it: what is read stays within what it was.
        (size < self.size).then(|| format!("it has {size}, and had {}", self.size))
    }

    /// Lets a program that is about to be started inherit the descriptor, and holds it to reading. `report`
    /// is the one folder that it may write to.
    ///
    /// # Errors
    /// [`Error::NotReadable`] where the wall cannot be made.
    pub(crate) fn hold(&self, command: &mut Command, report: &Path) -> Result<(), Error> {
        let wall = Reading::prepare(self.file.as_fd(), report).map_err(|why| Error::NotReadable {
            path: self.path.clone(),
            why: format!("the tool cannot be held to reading it: {why}"),
        })?;
        let descriptor: RawFd = self.file.as_raw_fd();
        let prepare = move || {
            // SAFETY: the child has all descriptors of this process, of which this one is open.
            fcntl_setfd(unsafe { BorrowedFd::borrow_raw(descriptor) }, FdFlags::empty())?;
            wall.raise()
        };
        // SAFETY: between fork and exec only system calls are made, which is safe in any program.
        unsafe { command.pre_exec(prepare) };
        Ok(())
    }
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        if !metadata.file_type().is_block_device() {
            return Self::File(metadata.dev(), metadata.ino());
        }
        let number = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
        let sys = fs::canonicalize(format!("/sys/dev/block/{}:{}", number.0, number.1));
        let name = sys.as_ref().ok().and_then(|sys| sys.file_name()).map(|name| name.to_string_lossy());
        // A partition's is its disk's.
        let sequence = sys.as_ref().ok().and_then(|sys| {
            let folders = [Some(sys.as_path()), sys.parent()].into_iter().flatten();
            folders.filter_map(|folder| fs::read_to_string(folder.join("diskseq")).ok()).next()
        });
        Self::Device { name: name.unwrap_or_default().into_owned(), number, sequence }
    }
}

fn what_to_do(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied if rustix::process::geteuid().is_root() => {
            "; this system denies it to root too, as a container does"
        }
        ErrorKind::PermissionDenied => "; run as root, or as a user who may read it",
        _ => "",
    }
}

fn below_proc(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn length(mut file: &File, metadata: &Metadata) -> std::io::Result<Bytes> {
    if metadata.file_type().is_block_device() {
        return file.seek(SeekFrom::End(0)).map(Bytes::new);
    }
    Ok(Bytes::new(metadata.len()))
}
