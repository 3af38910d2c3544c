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
mod devices;
mod filesystem;
mod integrity;
mod layer;
mod loop_device;
mod lvm;
mod md;
mod values;

pub use crypt::{Crypt, CryptKind};
pub use devices::{Devices, VirtualDevice};
pub use filesystem::{Features, Filesystem, FilesystemKind, Journal, JournalMode};
pub use integrity::{Integrity, IntegrityMode, TagAlgorithm};
pub use loop_device::Loop;
pub use lvm::Lvm;
pub use md::{Bitmap, Md, MdLevel, Resync, SAFE_MODE_DELAY};

use crate::time::Nanos;
use layer::{Described, Kind};
use std::collections::BTreeMap;
use std::fmt;

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

/// The list of layers: the file that knows one, and its type. Their order is that in which they are told.
macro_rules! layers {
    ($($(#[$doc:meta])* $layer:ident in $file:ident,)*) => {
        /// What a layer is.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Part {
            $($(#[$doc])* $layer($layer),)*
        }

        const KINDS: &[Kind] = &[$($file::KIND),*];

        impl Part {
            fn described(&self) -> &dyn Described {
                match self {
                    $(Self::$layer(layer) => layer,)*
                }
            }

            fn described_mut(&mut self) -> &mut dyn Described {
                match self {
                    $(Self::$layer(layer) => layer,)*
                }
            }
        }
    };
}

layers! {
    /// Block devices that hold nothing: gives as many as it has.
    Devices in devices,
    /// A Linux software array over all devices below (md(4)): gives one.
    Md in md,
    /// Encryption of each device below: gives as many as there are.
    Crypt in crypt,
    /// Checksums of what is stored, on each device below: gives as many as there are.
    Integrity in integrity,
    /// A striped logical volume over all devices below (lvmraid(7)): gives one.
    Lvm in lvm,
    /// A loop device over each device below: gives as many as there are.
    Loop in loop_device,
    /// A mounted filesystem on the one device below: gives a folder.
    Filesystem in filesystem,
}

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
        self.described_mut().timers()
    }
}

impl Layer {
    /// Whether it is an array that is to be synchronised while workloads run.
    pub fn resyncs_in_background(&self) -> bool {
        self.part.described().resyncs_in_background()
    }

    /// The devices that it is, where it is a source of such.
    pub fn devices(&self) -> Option<&Devices> {
        if let Part::Devices(devices) = &self.part { Some(devices) } else { None }
    }

    /// The array that it is, where it is one.
    pub fn array(&self) -> Option<&Md> {
        if let Part::Md(md) = &self.part { Some(md) } else { None }
    }

    /// The layer that it uses beside those that it stands on, such as that of a filesystem's journal.
    pub fn beside(&self) -> Option<&String> {
        self.part.described().beside().map(|(_, name)| name)
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
        self.top().part.described().is_folder()
    }

    /// How many devices a layer stands on.
    pub fn below(&self, layer: &Layer) -> u32 {
        layer.on.iter().map(|below| self.width(below)).sum()
    }

    /// How many devices a layer gives; a filesystem gives none.
    pub fn width(&self, name: &str) -> u32 {
        let Some(layer) = self.layer(name) else { return 0 };
        layer.part.described().gives(self.below(layer))
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
        self.described().fmt(f)
    }
}

#[cfg(test)]
mod tests;
