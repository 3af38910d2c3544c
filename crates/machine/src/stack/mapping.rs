//! Device-mapper targets, one on each device below: what building has to know of each kind of them.

pub(super) mod crypt;
pub(super) mod integrity;

use super::commands::{self, Argv};
use super::kernel::{self, Modules};
use super::layer::{Construction, Made, Plan, Site};
use super::verify::Shown;
use super::{Builder, Device, Error, WHOLE, planned};
use crate::claims::mark_integrity;
use crate::ledger::Built;
use crate::{LocalMachine, Machine};
use domain::stack::Layer;
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

impl<T: Target> Construction for T {
    fn needs(&self, layer: &Layer, modules: Modules) -> Result<(), Error> {
        let module = self.module();
        kernel::needs(layer, module, module, modules, &|| kernel::is_loaded(&module.replace('-', "_")))
    }

    fn plan(&self, plan: &Plan<'_>, all: &mut Vec<Argv>) -> Vec<String> {
        let mut opened = Vec::new();
        for (index, device) in plan.below.iter().enumerate() {
            let mapped = format!("{}-{index}", plan.name());
            all.push(commands::wipe(std::slice::from_ref(device)));
            all.extend(self.steps(device, &mapped, planned::UUID).into_iter().filter_map(
                |step| match step {
                    Step::Run(_, argv) => Some(argv),
                    Step::Mark => None,
                },
            ));
            opened.push(format!("/dev/mapper/{mapped}"));
        }
        opened
    }

    fn build(&self, builder: &mut Builder, site: &mut Site<'_, '_>) -> Result<Made, Error> {
        let (mut devices, mut shown) = (Vec::new(), Shown::new());
        for device in site.below {
            let name = builder.name(site.layer);
            let below = device.number.clone();
            site.ledger.announce_built(Built::Mapping { name: name.clone(), below })?;
            let clear = commands::wipe(std::slice::from_ref(&device.path));
            builder.run(&format!("clear the device for {}", self.module()), &clear)?;
            let uuid = builder.uuid()?;
            for step in self.steps(&device.path, &name, &uuid) {
                match step {
                    Step::Run(doing, argv) => builder.run_within(WHOLE, doing, &argv)?,
                    Step::Mark => mark(device, &uuid)?,
                }
            }
            let mapped = Device::at(&format!("/dev/mapper/{name}"))?;
            shown = self.verify(&LocalMachine, &site.layer.name, &mapped)?;
            devices.push(mapped);
        }
        Ok(Made::devices(devices, shown))
    }
}

fn mark(device: &Device, uuid: &str) -> Result<(), Error> {
    let failed = |source| Error::File { what: "write a UUID to", path: device.path.clone(), source };
    mark_integrity(Path::new(&device.path), uuid).map_err(failed)
}
