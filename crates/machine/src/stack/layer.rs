//! What building has to know of a kind of layer.

use super::commands::Argv;
use super::kernel::Modules;
use super::verify::Shown;
use super::{Builder, Device, Error};
use crate::ledger::Ledger;
use domain::stack::Layer;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// A program that layers are built, read back or taken down with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// As it is called.
    pub name: &'static str,
    /// Names by which it goes as well; it does what the name says.
    pub also: &'static [&'static str],
    /// Debian's package that has it.
    pub package: &'static str,
}

impl Program {
    pub(super) const fn of(name: &'static str, package: &'static str) -> Self {
        Self { name, also: &[], package }
    }
}

/// A layer, as it is built. What is below it is ours when it is asked to build; before a part of it appears,
/// it writes that down in the ledger.
pub(super) trait Construction {
    /// Looks for what it needs of the kernel.
    ///
    /// # Errors
    /// [`Error::Unsupported`], naming the layer and what is missing.
    fn needs(&self, layer: &Layer, modules: Modules) -> Result<(), Error>;

    /// Adds the commands that would build it; gives the nodes of its devices.
    fn plan(&self, plan: &Plan<'_>, all: &mut Vec<Argv>) -> Vec<String>;

    /// Builds it, reads it back from the kernel and holds that against what was asked for.
    ///
    /// # Errors
    /// [`Error`]; what was begun is in the ledger.
    fn build(&self, builder: &mut Builder, site: &mut Site<'_, '_>) -> Result<Made, Error>;
}

/// Where a layer would be built.
pub(super) struct Plan<'a> {
    pub layer: &'a Layer,
    /// The nodes below.
    pub below: &'a [String],
    /// The node that it uses beside those.
    pub beside: Option<&'a String>,
    /// Whether this is for a lab machine.
    pub lab_disks: bool,
}

/// Where a layer is built.
pub(super) struct Site<'s, 'l> {
    pub ledger: &'s mut Ledger<'l>,
    pub layer: &'s Layer,
    pub below: &'s [Device],
    /// The device that it uses beside those.
    pub beside: Option<&'s Device>,
    /// Set by somebody else when everything is to end.
    pub interrupt: &'s AtomicBool,
}

/// What building a layer gave.
pub(super) struct Made {
    pub devices: Vec<Device>,
    pub folder: Option<PathBuf>,
    pub shown: Shown,
}

impl Made {
    pub(super) const fn devices(devices: Vec<Device>, shown: Shown) -> Self {
        Self { devices, folder: None, shown }
    }
}
