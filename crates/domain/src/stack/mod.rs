//! How storage is built, from devices up: arrays, encryption, striped volumes, filesystems.
//!
//! A [`StackSpec`] is what a study writes, as text; what a level changes is laid over it key by key, so that
//! every part of a stack can be a factor. A [`Stack`] is what one cell's spec means: only the layers that it
//! needs, each after what it stands on.
//!
//! Not a goal: whether a machine has the tools, the kernel and the devices for it; whoever builds it says
//! that.

mod build;
mod crypt;
mod integrity;
mod values;

pub use crypt::{Crypt, CryptKind};
pub use integrity::{Integrity, IntegrityMode, TagAlgorithm};

use crate::time::Nanos;
use crate::units::Bytes;
use std::collections::BTreeMap;
use std::fmt;
use values::Values;

/// A bound on the layers of a stack.
pub const MAX_LAYERS: usize = 32;

/// A bound on the devices of one layer: a guest names its disks `sda` to `sdz`.
pub const MAX_DEVICES: u32 = 26;

/// The keys that a layer of a kind has; `None` for what is no kind.
pub fn keys(kind: &str) -> Option<&'static [&'static str]> {
    KINDS.iter().find(|known| known.name == kind).map(|known| known.keys)
}

/// The names of all kinds, in the order in which they are told.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name)
}

/// All that reading a study has to know of a kind of layer.
struct Kind {
    /// The value of its key `kind`.
    name: &'static str,
    /// With those that every kind has.
    keys: &'static [&'static str],
    read: fn(&Values<'_>) -> Result<Part, StackError>,
}

const KINDS: [Kind; 6] = [
    Kind {
        name: "devices",
        keys: &[
            "kind",
            "use",
            "on",
            "count",
            "claimed",
            "lab",
            "loop",
            "null_blk",
            "scsi_debug",
            "attributes",
        ],
        read: |values| build::devices(values).map(Part::Devices),
    },
    Kind {
        name: "md",
        keys: &[
            "kind",
            "use",
            "on",
            "level",
            "layout",
            "chunk",
            "bitmap",
            "bitmap_chunk",
            "write_mostly",
            "spares",
            "missing",
            "resync",
            "stripe_cache_size",
            "group_thread_cnt",
            "safe_mode_delay",
        ],
        read: |values| build::md(values).map(Part::Md),
    },
    Kind {
        name: "crypt",
        keys: crypt::KEYS,
        read: |values| crypt::read(values).map(|crypt| Part::Mapping(Mapping::Crypt(crypt))),
    },
    Kind {
        name: "integrity",
        keys: integrity::KEYS,
        read: |values| integrity::read(values).map(|layer| Part::Mapping(Mapping::Integrity(layer))),
    },
    Kind {
        name: "lvm",
        keys: &["kind", "use", "on", "stripes", "stripe_size"],
        read: |values| build::lvm(values).map(Part::Lvm),
    },
    Kind {
        name: "filesystem",
        keys: &["kind", "use", "on", "type", "features", "data", "journal", "mkfs", "mount"],
        read: |values| build::filesystem(values).map(Part::Filesystem),
    },
];

/// A stack as a study writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackSpec {
    /// In the order of the file.
    pub layers: Vec<LayerSpec>,
}

/// One `[stack.NAME]` table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSpec {
    /// Its name: letters, digits, `-` and `_`.
    pub name: String,
    /// Key to value. A list is its entries with a space between, a boolean `true` or `false`.
    pub values: BTreeMap<String, String>,
}

/// What a level changes in a spec: `LAYER.KEY` to value.
pub type Changes = BTreeMap<String, String>;

/// Why a spec means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`stack.{layer}{}` {reason}", key.as_ref().map(|k| format!(".{k}")).unwrap_or_default())]
pub struct StackError {
    /// The layer.
    pub layer: String,
    /// The key in it, where one key is to blame.
    pub key: Option<String>,
    /// What is wrong, and what to do.
    pub reason: String,
}

/// A stack to build.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stack {
    /// What is needed, each layer after those that it stands on; the last one is the top, which workloads
    /// work on.
    pub layers: Vec<Layer>,
}

/// One layer of a stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layer {
    /// Its name in the study.
    pub name: String,
    /// The layers that it stands on, in order. Empty for devices. A journal's layer is not among them.
    pub on: Vec<String>,
    /// What it is.
    pub part: Part,
}

/// What a layer is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Block devices that hold nothing: gives as many as it has.
    Devices(Devices),
    /// A Linux software array over all devices below (md(4)): gives one.
    Md(Md),
    /// A device-mapper target on each device below: gives as many as there are.
    Mapping(Mapping),
    /// A striped logical volume over all devices below (lvmraid(7)): gives one.
    Lvm(Lvm),
    /// A mounted filesystem on the one device below: gives a folder.
    Filesystem(Filesystem),
}

/// Where devices come from. A machine takes the first source that it has: claimed devices, the lab's disks,
/// then what can be made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Devices {
    /// How many.
    pub count: u32,
    /// Paths of claimed devices of this machine; at least `count` of them.
    pub claimed: Vec<String>,
    /// Disks of the lab machine, by their names in `[[lab.disk]]`; at least `count` of them.
    pub lab: Vec<String>,
    /// What is made otherwise, and how large each is.
    pub made: Option<(VirtualDevice, Bytes)>,
}

/// Devices that Flyball makes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VirtualDevice {
    /// A file in the work folder, and a loop device over it.
    Loop,
    /// Memory, through the kernel's `null_blk`, with further attributes of its configfs folder: name to
    /// value.
    NullBlk(BTreeMap<String, String>),
    /// Memory, through the kernel's `scsi_debug`, with further module parameters.
    ScsiDebug(BTreeMap<String, String>),
}

impl VirtualDevice {
    /// Its key in a study.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::NullBlk(_) => "null_blk",
            Self::ScsiDebug(_) => "scsi_debug",
        }
    }
}

/// An array (mdadm(8), md(4)).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Md {
    /// `linear`, `0`, `1`, `4`, `5`, `6` or `10`.
    pub level: MdLevel,
    /// As mdadm names it: `n2`, `f2`, `o2`, `left-symmetric`; `None` for mdadm's own choice.
    pub layout: Option<String>,
    /// Chunk size, where the level has one; `None` for mdadm's own choice.
    pub chunk: Option<Bytes>,
    /// Whether it has a write-intent bitmap.
    pub bitmap: Bitmap,
    /// What one bit of it stands for; `None` for mdadm's own choice.
    pub bitmap_chunk: Option<Bytes>,
    /// So many of the members that are there, the last ones, are read only where no other has the data.
    /// Level 1 alone.
    pub write_mostly: u32,
    /// So many of the devices below, the last ones, are spares.
    pub spares: u32,
    /// So many members, the last ones before the spares, are left out: the array is degraded.
    pub missing: u32,
    /// What becomes of the first resync.
    pub resync: Resync,
    /// `md/stripe_cache_size`, in pages a device; levels 4, 5 and 6.
    pub stripe_cache_size: Option<u32>,
    /// `md/group_thread_cnt`; levels 4, 5 and 6.
    pub group_thread_cnt: Option<u32>,
    /// `md/safe_mode_delay`, of levels with redundancy: so long after its last write an array is marked
    /// clean, for which its members are flushed, and again before the next write (md(4)). Zero: never.
    pub safe_mode_delay: Option<Nanos>,
}

/// The kernel's own `safe_mode_delay` (`drivers/md/md.c`: `DEFAULT_SAFEMODE_DELAY`), to which it adds a tick.
pub const SAFE_MODE_DELAY: Nanos = Nanos::from_millis(200);

/// A level of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MdLevel {
    /// One after the other.
    Linear,
    /// Striped.
    Raid0,
    /// Mirrored.
    Raid1,
    /// Striped, with a disk of parity.
    Raid4,
    /// Striped, with parity on each in turn.
    Raid5,
    /// Striped, with two parities.
    Raid6,
    /// Striped and mirrored.
    Raid10,
}

impl MdLevel {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Linear, Self::Raid0, Self::Raid1, Self::Raid4, Self::Raid5, Self::Raid6, Self::Raid10];

    /// As mdadm takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Raid0 => "0",
            Self::Raid1 => "1",
            Self::Raid4 => "4",
            Self::Raid5 => "5",
            Self::Raid6 => "6",
            Self::Raid10 => "10",
        }
    }

    /// Whether it has parity, and with it a stripe cache.
    pub const fn has_parity(self) -> bool {
        matches!(self, Self::Raid4 | Self::Raid5 | Self::Raid6)
    }

    /// Whether it survives the loss of a member, and with it has resync, bitmap and spares.
    pub const fn is_redundant(self) -> bool {
        !matches!(self, Self::Linear | Self::Raid0)
    }

    /// Whether data is laid out in chunks.
    pub const fn has_chunks(self) -> bool {
        !matches!(self, Self::Raid1)
    }

    /// The least number of members.
    pub const fn least_members(self) -> u32 {
        match self {
            Self::Linear | Self::Raid0 | Self::Raid1 | Self::Raid10 => 2,
            Self::Raid4 | Self::Raid5 => 3,
            Self::Raid6 => 4,
        }
    }
}

/// A write-intent bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bitmap {
    /// None.
    None,
    /// On the members.
    Internal,
    /// On the members, without a lock: `drivers/md/md-llbitmap.c`, since Linux 6.18.
    Lockless,
}

impl Bitmap {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Internal, Self::Lockless];

    /// Its name in a study.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Internal => "internal",
            Self::Lockless => "llbitmap",
        }
    }
}

/// What becomes of the first resync of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resync {
    /// It is waited for.
    Wait,
    /// The members are said to be in agreement (`--assume-clean`). Mirrors and parity are then wrong where
    /// nothing was written, which costs no time and matters to nobody who reads only what was written.
    Skip,
    /// It runs in the background of the workload and is started anew for each trial: of a missing member, its
    /// rebuilding on a spare.
    Background,
}

/// A device-mapper target that stands on one device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mapping {
    /// Encryption.
    Crypt(Crypt),
    /// Checksums of what is stored.
    Integrity(Integrity),
}

/// A logical volume over all that is below.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lvm {
    /// Over how many devices; `None` for all.
    pub stripes: Option<u32>,
    /// How much goes to each before the next.
    pub stripe_size: Bytes,
}

/// A filesystem, made and mounted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Filesystem {
    /// Which one.
    pub kind: FilesystemKind,
    /// Whether an ext4 is made with ext3's features alone.
    pub features: Features,
    /// ext3 and ext4: `data=`; `None` for the kernel's own choice.
    pub data: Option<JournalMode>,
    /// Where its journal is.
    pub journal: Journal,
    /// Further words for mkfs.
    pub mkfs: Vec<String>,
    /// Further mount options.
    pub mount: Vec<String>,
}

/// Filesystems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "these are their names")]
pub enum FilesystemKind {
    Ext2,
    Ext3,
    Ext4,
    Xfs,
    Btrfs,
}

impl FilesystemKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Ext2, Self::Ext3, Self::Ext4, Self::Xfs, Self::Btrfs];

    /// As mount(8) takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ext2 => "ext2",
            Self::Ext3 => "ext3",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Whether it is one of the ext family.
    pub const fn is_ext(self) -> bool {
        matches!(self, Self::Ext2 | Self::Ext3 | Self::Ext4)
    }
}

/// Which features an ext4 is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Features {
    /// Its own.
    Own,
    /// Those of ext3: no extents, no checksums.
    Ext3,
}

/// ext3's and ext4's `data=` (ext4(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JournalMode {
    /// Data goes through the journal.
    Journal,
    /// Data goes to its place before its metadata goes to the journal.
    Ordered,
    /// Data goes to its place at any time.
    Writeback,
}

impl JournalMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Journal, Self::Ordered, Self::Writeback];

    /// As mount(8) takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Ordered => "ordered",
            Self::Writeback => "writeback",
        }
    }
}

/// Where a filesystem's journal is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Journal {
    /// In the filesystem; what has no journal (ext2, btrfs) has none.
    Internal,
    /// Left out (ext4).
    None,
    /// On the one device that this layer gives.
    External(String),
}

impl StackSpec {
    /// The spec with a level's changes; later ones win.
    ///
    /// # Errors
    /// A change that names no layer of this spec.
    pub fn with(&self, changes: &Changes) -> Result<Self, StackError> {
        let mut spec = self.clone();
        for (path, value) in changes {
            let (layer, key) = path.split_once('.').unwrap_or((path, ""));
            let found = spec.layers.iter_mut().find(|known| known.name == layer);
            let Some(found) = found.filter(|_| !key.is_empty()) else {
                let names: Vec<String> = self.layers.iter().map(|l| format!("`{}`", l.name)).collect();
                let reason = format!(
                    "is nothing that a level can change; write `LAYER.KEY`, and the layers are {}",
                    names.join(", ")
                );
                return Err(StackError { layer: path.clone(), key: None, reason });
            };
            found.values.insert(key.to_owned(), value.clone());
        }
        Ok(spec)
    }

    /// What it means.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn build(&self) -> Result<Stack, StackError> {
        build::build(self)
    }

    /// What is wrong with it: of each layer the first thing, or else the first of how they fit. Empty where
    /// [`StackSpec::build`] gives a stack.
    pub fn problems(&self) -> Vec<StackError> {
        build::problems(self)
    }
}

impl Part {
    /// The timers of the kernel's that it sets, each with the kernel's own value.
    pub fn timers(&mut self) -> Vec<(&mut Option<Nanos>, Nanos)> {
        match self {
            Self::Md(md) if md.level.is_redundant() => vec![(&mut md.safe_mode_delay, SAFE_MODE_DELAY)],
            Self::Md(_) | Self::Devices(_) | Self::Lvm(_) | Self::Filesystem(_) => Vec::new(),
            Self::Mapping(Mapping::Crypt(_)) => Vec::new(),
            Self::Mapping(Mapping::Integrity(integrity)) => integrity.timers(),
        }
    }
}

impl Layer {
    /// Whether it is an array that is to be synchronised while workloads run.
    pub fn resyncs_in_background(&self) -> bool {
        matches!(&self.part, Part::Md(Md { resync: Resync::Background, .. }))
    }
}

impl Stack {
    /// The layer that workloads work on.
    pub fn top(&self) -> &Layer {
        self.layers.last().expect("a stack has a layer: `StackSpec::build` has seen to it")
    }

    /// A layer by its name.
    pub fn layer(&self, name: &str) -> Option<&Layer> {
        self.layers.iter().find(|layer| layer.name == name)
    }

    /// Whether an array of it is to be synchronised while workloads run, and so is made anew for each trial.
    pub fn resyncs_in_background(&self) -> bool {
        self.layers.iter().any(Layer::resyncs_in_background)
    }

    /// Whether workloads work on a filesystem, and not on a block device.
    pub fn ends_in_a_filesystem(&self) -> bool {
        matches!(self.top().part, Part::Filesystem(_))
    }

    /// How many devices a layer gives; a filesystem gives none.
    pub fn width(&self, name: &str) -> u32 {
        let Some(layer) = self.layer(name) else { return 0 };
        match &layer.part {
            Part::Devices(devices) => devices.count,
            Part::Md(_) | Part::Lvm(_) => 1,
            Part::Mapping(_) => layer.on.iter().map(|below| self.width(below)).sum(),
            Part::Filesystem(_) => 0,
        }
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers: Vec<String> = self.layers.iter().map(|layer| layer.part.to_string()).collect();
        f.write_str(&layers.join(" > "))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Devices(Devices { count: 1, .. }) => f.write_str("1 device"),
            Self::Devices(devices) => write!(f, "{} devices", devices.count),
            Self::Md(md) => {
                let level = md.level.name();
                if md.level == MdLevel::Linear {
                    f.write_str(level)?
                } else {
                    write!(f, "raid{level}")?
                }
                md.layout.iter().try_for_each(|layout| write!(f, " {layout}"))?;
                md.chunk.iter().try_for_each(|chunk| write!(f, " {chunk}"))?;
                if md.missing > 0 { write!(f, " degraded by {}", md.missing) } else { Ok(()) }
            }
            Self::Mapping(Mapping::Crypt(crypt)) => crypt.fmt(f),
            Self::Mapping(Mapping::Integrity(integrity)) => integrity.fmt(f),
            Self::Lvm(lvm) => write!(f, "lvm striped by {}", lvm.stripe_size),
            Self::Filesystem(fs) => {
                f.write_str(fs.kind.name())?;
                if fs.features == Features::Ext3 {
                    f.write_str(" with ext3's features")?;
                }
                fs.data.iter().try_for_each(|mode| write!(f, " data={}", mode.name()))?;
                match &fs.journal {
                    Journal::Internal => Ok(()),
                    Journal::None => f.write_str(" without journal"),
                    Journal::External(layer) => write!(f, " journal on {layer}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
