//! The study's target: a file of Flyball's own, a loop device over one, something that is there and is only
//! read, a server that is there, or in the lab a device that the guest has.
//!
//! What is Flyball's own is made through the ledger, which removes it when it is finished, and when it is
//! opened after a crash. A device is never made, filled or removed here, and only who says
//! [`Devices::OfTheGuest`] gets one at all.

use crate::{Error, ExistingFolder, ExistingServer, Readable, environment, fill};
use domain::database::Kind;
use domain::rng::Seed;
use domain::study;
use domain::units::Bytes;
use machine::stack::{Standing, Top};
use machine::{Ledger, LocalMachine, LoopIo};
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use workloads::TargetAccess;

/// The name of the target's file in the work folder.
const FILE: &str = "target";

/// Whether a study may name a device that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// No: on every machine that could lose something.
    Refused,
    /// Yes: this is a guest of the lab, whose disks are made anew for each start.
    OfTheGuest,
}

/// What the workloads of a study read and write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What workloads are given: the file, or the device's node.
    path: PathBuf,
    size: Bytes,
    kind: TargetKind,
    /// What lies below, where Flyball built it, or the file is in a folder that was there.
    below: Option<Below>,
}

/// What is below a target.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Below {
    /// The block device that the target is, or that its filesystem is on.
    device: String,
    /// For the trial's environment: what each layer is, as the kernel shows it.
    shown: BTreeMap<String, String>,
    /// What built it; empty where it was there.
    commands: Vec<Vec<String>>,
}

/// What a target is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TargetKind {
    /// A file of our own, and the loop device over it where there is one.
    File {
        file: PathBuf,
        /// Its device and inode number.
        identity: (u64, u64),
        looped: Option<Loop>,
    },
    /// A device that was there.
    Device(Device),
    /// What was there, and is only read.
    ReadOnly(Arc<Readable>),
    /// A server that was there.
    Server(Arc<ExistingServer>),
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
        Self { name: name.to_owned(), shown: ["loop/backing_file", "diskseq"].map(|file| shown(name, file)) }
    }
}

/// What sysfs shows of a block device.
fn shown(device: &str, file: &str) -> Option<String> {
    fs::read_to_string(format!("/sys/block/{device}/{file}")).ok()
}

/// A block device of a lab's guest, and how it is told from another that takes its path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Device {
    /// As settings know it: `dm-0`, `sda`, also for a partition of that.
    name: String,
    /// Its device number.
    number: u64,
    /// Its sequence number, which no other disk of this boot has; kernels before 5.15 have none.
    sequence: Option<String>,
    /// How large it is.
    size: Bytes,
}

impl Device {
    /// Looks at an open node; `None` where it is no block device, or sysfs does not know it.
    fn look(path: &Path, metadata: &Metadata) -> Option<Self> {
        if !metadata.file_type().is_block_device() {
            return None;
        }
        let name = environment::devices_below(&LocalMachine, path).into_iter().next()?;
        let sequence = shown(&name, "diskseq");
        let size = device_size(path).ok()?;
        Some(Self { name, number: metadata.rdev(), sequence, size })
    }
}

impl Target {
    /// Makes what a study asks for, in a folder that only this user can write to: a file of incompressible
    /// bytes, and where the study wants one, a loop device over it. `None` where the study has no target.
    /// Whatever was made before an error is removed when the ledger is finished. A device of a lab's guest is
    /// opened and looked at.
    ///
    /// A loop device reads and writes its file past the page cache, so that what is measured is not memory.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; [`Error::OpenFolder`]; [`Error::Ledger`] where the file exists already, or this
    /// user cannot make loop devices; [`Error::File`]; [`Error::Interrupted`]; [`Error::NotInTheLab`] for a
    /// device where devices are refused; [`Error::NoDevice`]; [`Error::NotReadable`].
    pub fn make(
        ledger: &mut Ledger<'_>,
        folder: &Path,
        kind: &study::Target,
        devices: Devices,
        seed: Seed,
        interrupt: &AtomicBool,
    ) -> Result<Option<Self>, Error> {
        let (size, looped) = match kind {
            // Which kind a server is of, the first cell that asks it says.
            study::Target::None | study::Target::Server(_) => return Ok(None),
            study::Target::File(size) => (*size, false),
            study::Target::Loop(size) => (*size, true),
            study::Target::LabDevice(path) => return Self::of_the_guest(path.as_ref(), devices).map(Some),
            study::Target::ReadOnly(path) => return Self::to_read(path.as_ref()).map(Some),
            study::Target::Folder { path, size } => {
                return Self::in_existing(ledger, path.as_ref(), *size, seed, interrupt).map(Some);
            }
        };
        let folder = own_folder(folder)?;
        fill::check_space(&folder, size)?;
        let mut own = ledger.create_file(&folder.join(FILE), size)?;
        fill::fill(&mut own.file, &own.path, size, seed, interrupt)?;
        let device = if looped { Some(ledger.attach_loop(&own, LoopIo::Direct)?) } else { None };
        Self::over(&own.file, own.path, size, device.as_ref().map(|d| d.name.as_str())).map(Some)
    }

    /// The target over a device that is there.
    fn of_the_guest(path: &Path, devices: Devices) -> Result<Self, Error> {
        match devices {
            Devices::Refused => return Err(Error::NotInTheLab { path: path.to_owned() }),
            Devices::OfTheGuest => {}
        }
        // Looked at before it is opened: opening a pipe waits, and other files may act.
        let found = fs::metadata(path).map_err(|e| Error::no_device(path, e.to_string()))?;
        let no_block_device = || Error::no_device(path, "it is no block device".into());
        let device = Device::look(path, &found).ok_or_else(no_block_device)?;
        let size = device_size(path).map_err(|e| Error::no_device(path, e.to_string()))?;
        if size == Bytes::new(0) {
            return Err(Error::no_device(path, "its size is 0".into()));
        }
        Ok(Self { path: path.to_owned(), size, kind: TargetKind::Device(device), below: None })
    }

    /// A file in a folder of our own, made in one that is there already. The ledger knows both before they
    /// appear.
    fn in_existing(
        ledger: &mut Ledger<'_>,
        path: &Path,
        size: Bytes,
        seed: Seed,
        interrupt: &AtomicBool,
    ) -> Result<Self, Error> {
        let existing = ExistingFolder::check(path, size)?;
        let folder = ledger.make_tree(&existing.path, FILE)?;
        let mut own = ledger.create_file(&folder.join(FILE), size)?;
        fill::fill(&mut own.file, &own.path, size, seed, interrupt)?;
        let target = Self::over(&own.file, own.path, size, None)?;
        let below = existing.device.map(|device| Below {
            device,
            shown: [("target".to_owned(), format!("a file of {size} in {}", existing.path.display()))].into(),
            commands: Vec::new(),
        });
        Ok(Self { below, ..target })
    }

    /// The target that is only read.
    fn to_read(path: &Path) -> Result<Self, Error> {
        let readable = Readable::open(path)?;
        let (path, size) = (readable.given(), readable.size());
        Ok(Self { path, size, kind: TargetKind::ReadOnly(Arc::new(readable)), below: None })
    }

    /// A server that is there, in which workloads get databases of Flyball's own.
    ///
    /// # Errors
    /// Those of [`ExistingServer::find`].
    pub(crate) fn in_server(kind: Kind, server: &study::ExistingServer) -> Result<Self, Error> {
        let server = ExistingServer::find(kind, server)?;
        let (path, size) = (server.address(), Bytes::new(0));
        Ok(Self { path, size, kind: TargetKind::Server(Arc::new(server)), below: None })
    }

    /// The server, where the target is one.
    pub(crate) fn server(&self) -> Option<&ExistingServer> {
        match &self.kind {
            TargetKind::Server(server) => Some(server),
            _ => None,
        }
    }

    /// The target on a stack that stands: a file in its filesystem, or its device, filled as far as the study
    /// says how large it is. `about` is the stack in a few words.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::File`], [`Error::NoDevice`], [`Error::Interrupted`].
    pub(crate) fn on_stack(
        standing: Standing,
        about: String,
        kind: &study::Target,
        seed: Seed,
        interrupt: &AtomicBool,
    ) -> Result<Self, Error> {
        let wanted = match kind {
            study::Target::File(size) => Some(*size),
            _ => None,
        };
        let Standing { top, shown, commands } = standing;
        let (mut target, device) = match top {
            Top::Folder(folder, device) => {
                let size = wanted.ok_or_else(|| {
                    Error::Unsupported(
                        "a stack that ends in a filesystem needs `[target] file = SIZE`".into(),
                    )
                })?;
                (Self::in_folder(&folder, size, seed, interrupt)?, device)
            }
            Top::Device(device) => {
                (Self::of_a_stack(Path::new(&device.path), wanted, seed, interrupt)?, device)
            }
        };
        let mut all: BTreeMap<String, String> =
            shown.into_iter().map(|(layer, shown)| (format!("stack.{layer}"), shown)).collect();
        all.insert("stack".into(), about);
        target.below = Some(Below { device: device.name, shown: all, commands });
        Ok(target)
    }

    fn in_folder(folder: &Path, size: Bytes, seed: Seed, interrupt: &AtomicBool) -> Result<Self, Error> {
        fill::check_room(folder, size, Bytes::new(0))?;
        let path = folder.join(FILE);
        let opened = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let mut file = opened.map_err(|e| Error::file("create", &path, e))?;
        fill::fill(&mut file, &path, size, seed, interrupt)?;
        Self::over(&file, path, size, None)
    }

    fn of_a_stack(
        path: &Path,
        wanted: Option<Bytes>,
        seed: Seed,
        interrupt: &AtomicBool,
    ) -> Result<Self, Error> {
        let found = fs::metadata(path).map_err(|e| Error::no_device(path, e.to_string()))?;
        let no_block_device = || Error::no_device(path, "it is no block device".into());
        let device = Device::look(path, &found).ok_or_else(no_block_device)?;
        let whole = device_size(path).map_err(|e| Error::no_device(path, e.to_string()))?;
        if let Some(wanted) = wanted.filter(|wanted| *wanted > whole) {
            return Err(Error::no_device(
                path,
                format!("it has {whole}, and the study's target is {wanted}"),
            ));
        }
        if let Some(wanted) = wanted {
            let opened = File::options().write(true).open(path);
            fill::fill(
                &mut opened.map_err(|e| Error::file("fill", path, e))?,
                path,
                wanted,
                seed,
                interrupt,
            )?;
        }
        let size = wanted.unwrap_or(whole);
        Ok(Self { path: path.to_owned(), size, kind: TargetKind::Device(device), below: None })
    }

    /// What it is, for a trial's environment: short name to value. Empty where it was made, and nothing was
    /// built below it.
    pub fn shown(&self) -> BTreeMap<String, String> {
        match (&self.below, &self.kind) {
            (Some(below), _) => below.shown.clone(),
            (None, TargetKind::ReadOnly(readable)) => readable.shown(),
            (None, TargetKind::Server(server)) => server.shown(),
            (None, _) => BTreeMap::new(),
        }
    }

    /// What a workload may do to it.
    pub fn access(&self) -> TargetAccess {
        if self.to_be_read().is_some() { TargetAccess::ReadOnly } else { TargetAccess::ReadWrite }
    }

    /// What it is where it is only read.
    pub(crate) fn to_be_read(&self) -> Option<&Readable> {
        match &self.kind {
            TargetKind::ReadOnly(readable) => Some(readable),
            _ => None,
        }
    }

    /// Every command that built what lies below; empty where nothing was built.
    pub fn built_by(&self) -> &[Vec<String>] {
        self.below.as_ref().map_or(&[], |below| below.commands.as_slice())
    }

    /// What workloads are given: the file, or the device's node.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// The kernel's name of the device, where the target is one or lies on one of our own: what a block
    /// device's settings mean without an object.
    pub fn device(&self) -> Option<&str> {
        match &self.kind {
            TargetKind::File { looped: Some(device), .. } => Some(&device.name),
            TargetKind::File { looped: None, .. } => self.below.as_ref().map(|below| below.device.as_str()),
            TargetKind::Device(device) => Some(&device.name),
            TargetKind::ReadOnly(readable) => readable.device(),
            TargetKind::Server(server) => server.device(),
        }
    }

    /// What a flush is asked of: where a filesystem was built, the device below it, for one without barriers
    /// sends none down. Nothing is asked of what is only read, nor of a server.
    pub fn to_flush(&self) -> Option<PathBuf> {
        match (&self.below, &self.kind) {
            (_, TargetKind::ReadOnly(_) | TargetKind::Server(_)) => None,
            (Some(below), TargetKind::File { looped: None, .. }) if !below.commands.is_empty() => {
                Some(Path::new("/dev").join(&below.device))
            }
            _ => Some(self.path.clone()),
        }
    }

    /// The file, also where a loop device lies over it; the node of a device that was there; the folder of a
    /// server's data, `None` where that is not visible.
    pub fn file(&self) -> Option<&Path> {
        match &self.kind {
            TargetKind::File { file, .. } => Some(file),
            TargetKind::Device(_) | TargetKind::ReadOnly(_) => Some(&self.path),
            TargetKind::Server(server) => server.data(),
        }
    }

    /// The folder that its file is in; none where it is a block device that no file of ours lies on.
    pub fn folder(&self) -> Option<&Path> {
        match &self.kind {
            TargetKind::File { looped: None, file, .. } => file.parent(),
            TargetKind::File { looped: Some(_), .. }
            | TargetKind::Device(_)
            | TargetKind::ReadOnly(_)
            | TargetKind::Server(_) => None,
        }
    }

    /// Whether it is still the one that was made or opened: same file, same size, same device.
    ///
    /// # Errors
    /// [`Error::TargetChanged`], [`Error::ServerChanged`].
    pub fn verify(&self) -> Result<(), Error> {
        let changed = match &self.kind {
            TargetKind::File { file, identity, looped } => {
                self.file_changed(file, *identity, looped.as_ref())
            }
            TargetKind::Device(device) => self.device_changed(device),
            TargetKind::ReadOnly(readable) => readable.changed(),
            TargetKind::Server(server) => {
                let address = server.address();
                return server.changed().map_or(Ok(()), |why| Err(Error::ServerChanged { address, why }));
            }
        };
        let path = self.to_be_read().map_or(self.file().unwrap_or(&self.path), Readable::path);
        match changed {
            Some(why) => Err(Error::TargetChanged { path: path.to_owned(), why }),
            None => Ok(()),
        }
    }

    fn file_changed(&self, file: &Path, identity: (u64, u64), looped: Option<&Loop>) -> Option<String> {
        let metadata = match fs::symlink_metadata(file) {
            Ok(metadata) => metadata,
            Err(error) => return Some(format!("it cannot be looked at ({error})")),
        };
        if !metadata.file_type().is_file() {
            return Some("it is no plain file any more".into());
        }
        if (metadata.dev(), metadata.ino()) != identity {
            return Some("another file has taken its place".into());
        }
        if metadata.len() != self.size.get() {
            return Some(format!("it has {}, and was made with {}", Bytes::new(metadata.len()), self.size));
        }
        match looped {
            Some(device) if Loop::look(&device.name) != *device => {
                Some(format!("`{}` is not the loop device over it any more", device.name))
            }
            _ => None,
        }
    }

    fn device_changed(&self, device: &Device) -> Option<String> {
        let metadata = match fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) => return Some(format!("it cannot be looked at ({error})")),
        };
        if Device::look(&self.path, &metadata).as_ref() != Some(device) {
            return Some(format!("it is not `{}` any more, as it was when it was opened", device.name));
        }
        match device_size(&self.path) {
            Ok(size) if size == device.size => None,
            Ok(size) => Some(format!("it has {size}, and had {}", device.size)),
            Err(error) => Some(format!("it cannot be opened ({error})")),
        }
    }

    /// The target over a file that was just made, and is still open.
    pub(crate) fn over(open: &File, file: PathBuf, size: Bytes, device: Option<&str>) -> Result<Self, Error> {
        let metadata = open.metadata().map_err(|e| Error::file("look at", &file, e))?;
        let path = device.map_or_else(|| file.clone(), |name| Path::new("/dev").join(name));
        let identity = (metadata.dev(), metadata.ino());
        let looped = device.map(Loop::look);
        Ok(Self { path, size, kind: TargetKind::File { file, identity, looped }, below: None })
    }
}

/// The size of a block device: its node's end.
fn device_size(path: &Path) -> std::io::Result<Bytes> {
    File::open(path)?.seek(SeekFrom::End(0)).map(Bytes::new)
}

/// Makes the work folder where it is missing, and makes sure that nobody else can put anything into it, or
/// another folder into its place: a workload would write through a link there to any file of this machine.
pub(crate) fn own_folder(folder: &Path) -> Result<PathBuf, Error> {
    let path = files::trust::make(folder, 0o700)?;
    let metadata = fs::symlink_metadata(&path).map_err(|e| Error::file("use the work folder", &path, e))?;
    let ours = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
    if !ours || metadata.mode() & 0o022 != 0 {
        return Err(Error::OpenFolder(path));
    }
    Ok(path)
}
