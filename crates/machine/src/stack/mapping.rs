//! Device-mapper targets, one on each device below: what building has to know of each kind of them.

mod crypt;
mod integrity;

use super::commands::{self, Argv};
use super::verify::Shown;
use super::{Builder, Device, Error, WHOLE};
use crate::claims::mark_integrity;
use crate::ledger::{Built, Ledger};
use crate::{LocalMachine, Machine};
use domain::stack::{Layer, Mapping};
use std::path::Path;

/// One step of making a mapping.
#[derive(Debug)]
pub(super) enum Step {
    /// A program, and what it is run for.
    Run(&'static str, Argv),
    /// The UUID goes into the superblock of dm-integrity. It says whose that is and changes nothing that is
    /// measured, so that it is not among the commands.
    Mark,
}

/// A kind of target. The device below is ours and cleared when its steps begin; the ledger has the mapping's
/// name.
pub(super) trait Target {
    /// The kernel's module that has it.
    fn module(&self) -> &'static str;

    /// What makes the mapping `name` on this device. Where the target's superblock has a UUID, it is `uuid`.
    fn steps(&self, device: &str, name: &str, uuid: &str) -> Vec<Step>;

    /// Holds the mapping that the kernel has against what was asked for.
    ///
    /// # Errors
    /// [`Error::NotTaken`]; where the kernel does not say what it has.
    fn verify(&self, machine: &dyn Machine, layer: &str, device: &Device) -> Result<Shown, Error>;
}

pub(super) fn target(mapping: &Mapping) -> &dyn Target {
    match mapping {
        Mapping::Crypt(crypt) => crypt,
        Mapping::Integrity(integrity) => integrity,
    }
}

/// The commands that make a mapping, its device's clearing first.
pub(super) fn commands(mapping: &Mapping, device: &String, name: &str, uuid: &str) -> Vec<Argv> {
    let command = |step| match step {
        Step::Run(_, argv) => Some(argv),
        Step::Mark => None,
    };
    let clear = commands::wipe(std::slice::from_ref(device));
    [clear]
        .into_iter()
        .chain(target(mapping).steps(device, name, uuid).into_iter().filter_map(command))
        .collect()
}

fn mark(device: &Device, uuid: &str) -> Result<(), Error> {
    let failed = |source| Error::File { what: "write a UUID to", path: device.path.clone(), source };
    mark_integrity(Path::new(&device.path), uuid).map_err(failed)
}

impl Builder {
    pub(super) fn mappings(
        &mut self,
        ledger: &mut Ledger<'_>,
        layer: &Layer,
        mapping: &Mapping,
        below: &[Device],
    ) -> Result<(Vec<Device>, Shown), Error> {
        let target = target(mapping);
        let (mut devices, mut shown) = (Vec::new(), Shown::new());
        for device in below {
            let name = self.name(layer);
            ledger.announce_built(Built::Mapping { name: name.clone(), below: device.number.clone() })?;
            let clear = commands::wipe(std::slice::from_ref(&device.path));
            self.run(&format!("clear the device for {}", target.module()), &clear)?;
            let uuid = self.uuid()?;
            for step in target.steps(&device.path, &name, &uuid) {
                match step {
                    Step::Run(doing, argv) => self.run_within(WHOLE, doing, &argv)?,
                    Step::Mark => mark(device, &uuid)?,
                }
            }
            let mapped = Device::at(&format!("/dev/mapper/{name}"))?;
            shown = target.verify(&LocalMachine, &layer.name, &mapped)?;
            devices.push(mapped);
        }
        Ok((devices, shown))
    }
}
