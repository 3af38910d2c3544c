//! Building a stack of storage for a cell, and taking it down again: only as far as the next one differs.
//!
//! Every part is written down in the [ledger](crate::Ledger) before it appears, so that it is taken down
//! whatever happens to this process. Every command is kept, and what was built is read back from the kernel
//! and held against what was asked for.

mod commands;
mod devices;
mod filesystem;
mod kernel;
mod layer;
mod loop_device;
mod lvm;
mod mapping;
mod md;
pub(crate) mod names;
mod planned;
mod verify;

pub use commands::Argv;
pub use layer::Program;
pub(crate) use lvm::deactivate;
pub use planned::planned;

use crate::claims::{Claimed, Secret};
use crate::ledger::{Ledger, RestoreReport};
use crate::settings::Error as SettingError;
use crate::{LocalMachine, Machine};
use domain::stack::{Layer, Part, Stack};
use kernel::Modules;
use layer::{Construction, Made, Site};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The list of layers: what builds each, and with which programs. Nothing else here tells layers apart.
macro_rules! layers {
    ($($layer:ident => $programs:expr,)*) => {
        const PROGRAMS: &[&[Program]] = &[$($programs),*];

        /// What builds a layer.
        fn construction(part: &Part) -> &dyn Construction {
            match part {
                $(Part::$layer(layer) => layer,)*
            }
        }
    };
}

layers! {
    Devices => devices::PROGRAMS,
    Md => md::PROGRAMS,
    Crypt => mapping::crypt::PROGRAMS,
    Integrity => mapping::integrity::PROGRAMS,
    Lvm => lvm::PROGRAMS,
    Loop => loop_device::PROGRAMS,
    Filesystem => filesystem::PROGRAMS,
}

/// Every program that some layer needs, each once, by its name.
pub fn programs() -> Vec<Program> {
    let all: BTreeMap<&str, Program> = PROGRAMS.iter().copied().flatten().map(|p| (p.name, *p)).collect();
    all.into_values().collect()
}

/// How long a program that builds may take: mkfs of a large and slow disk writes its inode tables.
const LIMIT: Duration = Duration::from_secs(3600);

/// How long it may take to read or write all of the devices once: 10 TB at 100 MB/s.
const WHOLE: Duration = Duration::from_secs(100_000);
const POLL: Duration = Duration::from_millis(100);

/// Why a stack does not stand.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not possible on this machine.
    #[error("{0}")]
    Unsupported(String),
    /// A program is not installed.
    #[error("cannot {doing}: there is no program `{program}`; install Debian's `{package}`")]
    Missing {
        /// What was attempted.
        doing: String,
        /// The program.
        program: String,
        /// What has it.
        package: &'static str,
    },
    /// A program said no.
    #[error("cannot {doing}: `{command}` said: {said}")]
    Command {
        /// What was attempted.
        doing: String,
        /// The command line.
        command: String,
        /// Its last words.
        said: String,
    },
    /// What was built is not what was asked for.
    #[error("the layer `{layer}` did not become what was asked for: {what} is `{got}`, asked was `{asked}`")]
    NotTaken {
        /// The layer.
        layer: String,
        /// Which property.
        what: String,
        /// What the study says.
        asked: String,
        /// What the kernel shows.
        got: String,
    },
    /// Something of an earlier stack is still there.
    #[error("cannot take down what was made: {0}")]
    NotDown(String),
    /// A disk that is not claimed, or not fit to be overwritten.
    #[error(transparent)]
    Claim(#[from] crate::claims::ClaimError),
    /// The ledger, or a file or loop device of our own.
    #[error(transparent)]
    Ledger(#[from] SettingError),
    /// A file or device.
    #[error("cannot {what} `{path}`: {source}")]
    File {
        /// What was attempted.
        what: &'static str,
        /// On what.
        path: String,
        /// Why it failed.
        source: io::Error,
    },
    /// What was built cannot be read back.
    #[error("{0}")]
    Inventory(String),
    /// A resync that was waited for does not end.
    #[error("the first resync of `{0}` did not end within {limit:?}; write `resync = \"skip\"`, or use smaller devices", limit = WHOLE)]
    Resync(String),
    /// Somebody asked us to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Where stacks are built.
#[derive(Clone, Debug)]
pub struct BuildContext {
    /// Files and mount points are made here; only this user can write to it. An absolute path without links.
    pub work: PathBuf,
    /// Whether this is a lab machine, whose disks hold nothing and are new at each start.
    pub lab_disks: bool,
    /// Flyball's state folder, where claims are.
    pub state: PathBuf,
}

/// A block device that a layer gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its node: `/dev/md200`, `/dev/mapper/…`.
    pub path: String,
    /// Its kernel name, as settings know it: `md200`, `dm-0`.
    pub name: String,
    /// `major:minor`.
    number: String,
}

impl Device {
    fn at(path: &str) -> Result<Self, Error> {
        let failed = |source| Error::File { what: "look at the device", path: path.to_owned(), source };
        let metadata = fs::metadata(path).map_err(failed)?;
        if !metadata.file_type().is_block_device() {
            return Err(failed(io::Error::other("it is no block device")));
        }
        let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
        let number = format!("{major}:{minor}");
        let link = LocalMachine.link(Path::new(&format!("/sys/dev/block/{number}"))).map_err(failed)?;
        let name = link.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self { path: path.to_owned(), name, number })
    }
}

impl Device {
    /// A path below /dev, for LVM looks nowhere else. A claimed disk is held open, so that its number stays
    /// its own; that the node still means that number is looked at here.
    fn node(&self) -> Result<String, Error> {
        if self.path.starts_with("/dev/") {
            return Ok(self.path.clone());
        }
        let node = Self::at(&format!("/dev/{}", self.name.replace('!', "/")))?;
        if node.number == self.number {
            return Ok(node.path);
        }
        let source = io::Error::other("it is another device now");
        Err(Error::File { what: "build on", path: node.path, source })
    }
}

/// What workloads are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Top {
    /// A block device.
    Device(Device),
    /// A mounted filesystem's folder, and the device that it is on.
    Folder(PathBuf, Device),
}

/// A stack that stands.
#[derive(Clone, Debug)]
pub struct Standing {
    /// What workloads work on.
    pub top: Top,
    /// Layer to what the kernel shows of it.
    pub shown: BTreeMap<String, String>,
    /// Every command that built it, the devices' first.
    pub commands: Vec<Argv>,
}

/// A layer that stands.
#[derive(Debug)]
struct Storey {
    layer: Layer,
    devices: Vec<Device>,
    folder: Option<PathBuf>,
    shown: String,
    commands: Vec<Argv>,
    /// Its changes in the ledger.
    ids: BTreeSet<u64>,
    /// The disks of others that it has, held so that nothing else gets their numbers.
    claimed: Vec<Claimed>,
}

/// Why this machine's kernel cannot build a stack; `None` where it can, as far as can be told. Nothing is
/// loaded or changed.
pub fn lacking(stack: &Stack) -> Option<String> {
    kernel::check(stack, Modules::LookFor).err().map(|error| error.to_string())
}

/// Builds stacks, one at a time.
#[derive(Debug)]
pub struct Builder {
    context: BuildContext,
    token: String,
    standing: Vec<Storey>,
    /// Names that were dealt out.
    made: u32,
    /// What was run for the layer that is being built.
    ran: Vec<Argv>,
    /// The claimed disks of the layer that is being built.
    claimed: Vec<Claimed>,
}

impl Builder {
    /// Nothing stands yet.
    ///
    /// # Errors
    /// [`Error::File`] where the kernel gives no random numbers.
    pub fn new(context: BuildContext) -> Result<Self, Error> {
        Ok(Self {
            context,
            token: random(names::token())?,
            standing: Vec::new(),
            made: 0,
            ran: Vec::new(),
            claimed: Vec::new(),
        })
    }

    /// Makes this stack stand: what stands and is not of it goes, what is missing is built. `interrupt` is
    /// set by somebody else when everything is to end.
    ///
    /// # Errors
    /// [`Error`]; what was begun of a layer is taken down again, the layers below stand.
    pub fn stand(
        &mut self,
        ledger: &mut Ledger<'_>,
        stack: &Stack,
        interrupt: &AtomicBool,
    ) -> Result<Standing, Error> {
        kernel::check(stack, Modules::Load)?;
        let kept = self.kept(stack);
        let goes: Vec<bool> = self.standing.iter().map(|built| !kept.contains(&built.layer.name)).collect();
        self.take_down(ledger, &goes)?;
        for layer in &stack.layers {
            if kept.contains(&layer.name) {
                continue;
            }
            let last = ledger.last();
            match self.build(ledger, layer, interrupt) {
                Ok(built) => self.standing.push(Storey { ids: ledger.since(last), ..built }),
                Err(error) => {
                    self.ran.clear();
                    self.claimed.clear();
                    let report = ledger.undo_these(&ledger.since(last));
                    let left: Vec<String> = report.failed().map(ToString::to_string).collect();
                    return Err(if left.is_empty() {
                        error
                    } else {
                        Error::NotDown(format!("{error}; {}", left.join("; ")))
                    });
                }
            }
        }
        // Nobody else gets a disk that workloads work on themselves.
        let top = self.standing.iter_mut().find(|built| built.layer.name == stack.top().name);
        top.into_iter().flat_map(|top| &mut top.claimed).try_for_each(Claimed::retake_exclusive)?;
        let top = self.built(&stack.top().name);
        let device = |at: &Storey| {
            at.devices.first().cloned().expect("it gives one: `StackSpec::build` has seen to it")
        };
        Ok(Standing {
            top: match &top.folder {
                Some(folder) => Top::Folder(folder.clone(), device(self.built(&top.layer.on[0]))),
                None => Top::Device(device(top)),
            },
            shown: self.standing.iter().map(|b| (b.layer.name.clone(), b.shown.clone())).collect(),
            commands: self.standing.iter().flat_map(|built| built.commands.clone()).collect(),
        })
    }

    /// Takes everything down, in reverse order.
    ///
    /// # Errors
    /// [`Error::NotDown`].
    pub fn clear(&mut self, ledger: &mut Ledger<'_>) -> Result<(), Error> {
        self.take_down(ledger, &vec![true; self.standing.len()])
    }

    /// The layers that stand as this stack wants them, with all that they stand on.
    fn kept(&self, stack: &Stack) -> BTreeSet<String> {
        let mut kept = BTreeSet::new();
        for layer in &stack.layers {
            let stands =
                self.standing.iter().any(|built| built.layer == *layer) && !layer.resyncs_in_background();
            if stands && named_by(layer).all(|name| kept.contains(name)) {
                kept.insert(layer.name.clone());
            }
        }
        kept
    }

    fn take_down(&mut self, ledger: &mut Ledger<'_>, goes: &[bool]) -> Result<(), Error> {
        let going = self.standing.iter().zip(goes).filter(|(_, goes)| **goes);
        let ids: BTreeSet<u64> = going.flat_map(|(built, _)| built.ids.iter().copied()).collect();
        // Undoing opens the disks for itself alone.
        self.standing
            .iter_mut()
            .zip(goes)
            .filter(|(_, goes)| **goes)
            .for_each(|(built, _)| built.claimed.clear());
        let report: RestoreReport = ledger.undo_these(&ids);
        let left: Vec<String> = report.failed().chain(report.foreign()).map(ToString::to_string).collect();
        if !left.is_empty() {
            return Err(Error::NotDown(left.join("; ")));
        }
        let mut goes = goes.iter();
        self.standing.retain(|_| !goes.next().copied().unwrap_or(false));
        Ok(())
    }

    fn built(&self, name: &str) -> &Storey {
        self.standing
            .iter()
            .find(|built| built.layer.name == name)
            .expect("layers come after what they stand on")
    }

    fn build(
        &mut self,
        ledger: &mut Ledger<'_>,
        layer: &Layer,
        interrupt: &AtomicBool,
    ) -> Result<Storey, Error> {
        if interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let below: Vec<Device> = layer.on.iter().flat_map(|name| self.built(name).devices.clone()).collect();
        // The tools take for themselves what they build on.
        let stands_on: Vec<&String> = named_by(layer).collect();
        let those = self.standing.iter_mut().filter(|built| stands_on.contains(&&built.layer.name));
        those.flat_map(|built| &mut built.claimed).for_each(Claimed::release_exclusive);
        let beside = layer.beside().and_then(|name| self.built(name).devices.first().cloned());
        let mut site = Site { ledger, layer, below: &below, beside: beside.as_ref(), interrupt };
        let Made { devices, folder, shown } = construction(&layer.part).build(self, &mut site)?;
        let (commands, claimed) = (std::mem::take(&mut self.ran), std::mem::take(&mut self.claimed));
        Ok(Storey { layer: layer.clone(), devices, folder, shown, commands, ids: BTreeSet::new(), claimed })
    }

    /// What makes UUIDs this machine's Flyball's.
    fn secret(&self) -> Result<Secret, Error> {
        Ok(Secret::of(&self.context.state)?)
    }

    fn uuid(&self) -> Result<String, Error> {
        random(self.secret()?.uuid())
    }

    /// A name that nobody else has.
    fn name(&mut self, layer: &Layer) -> String {
        self.made += 1;
        format!("flyball-{}-{}-{}", self.token, layer.name, self.made)
    }

    fn run(&mut self, doing: &str, argv: &[String]) -> Result<(), Error> {
        self.run_within(LIMIT, doing, argv)
    }

    /// Runs a program and keeps its command line.
    fn run_within(&mut self, limit: Duration, doing: &str, argv: &[String]) -> Result<(), Error> {
        let words: Vec<&str> = argv.iter().map(String::as_str).collect();
        self.ran.push(argv.to_vec());
        let output = match LocalMachine.run(&words, limit) {
            Ok(output) => output,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (program, doing) = (argv[0].clone(), doing.to_owned());
                let package = package_of(&program);
                return Err(Error::Missing { doing, program, package });
            }
            Err(source) => return Err(Error::File { what: "run", path: argv[0].clone(), source }),
        };
        if output.code == Some(0) {
            return Ok(());
        }
        let said = match output.code {
            Some(_) => output.last_words(),
            None => format!("it was killed; {}", output.last_words()),
        };
        Err(Error::Command { doing: doing.to_owned(), command: argv.join(" "), said })
    }
}

/// The layers that a layer names.
fn named_by(layer: &Layer) -> impl Iterator<Item = &String> {
    layer.on.iter().chain(layer.beside())
}

fn paths(devices: &[Device]) -> Vec<String> {
    devices.iter().map(|device| device.path.clone()).collect()
}

fn random<T>(result: io::Result<T>) -> Result<T, Error> {
    result.map_err(|source| Error::File { what: "read", path: "/dev/urandom".into(), source })
}

fn package_of(program: &str) -> &'static str {
    match programs().iter().find(|known| known.name == program) {
        Some(known) => known.package,
        None if program == "modprobe" => "kmod",
        None => "util-linux",
    }
}

/// Whether this machine's devices are udev's.
pub(crate) fn has_udev() -> bool {
    Path::new("/run/udev/control").exists()
}
