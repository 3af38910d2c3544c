//! What was built, read back from the kernel and held against what was asked for.

use super::Error;
use crate::{Machine, inventory};
use domain::inventory::BlockKind;

/// What a layer is, as the kernel shows it; for the trial's environment.
pub(super) type Shown = String;

/// Holds one value against another.
pub(super) struct Check<'a> {
    pub layer: &'a str,
}

impl Check<'_> {
    pub fn same(&self, what: &str, asked: &str, got: Option<&str>) -> Result<(), Error> {
        if got == Some(asked) {
            return Ok(());
        }
        Err(Error::NotTaken {
            layer: self.layer.to_owned(),
            what: what.to_owned(),
            asked: asked.to_owned(),
            got: got.unwrap_or("nothing").to_owned(),
        })
    }
}

pub(super) fn kind_of(machine: &dyn Machine, name: &str) -> Result<Option<BlockKind>, Error> {
    let devices = inventory::block_devices(machine).map_err(|e| Error::Inventory(e.to_string()))?;
    Ok(devices.into_iter().find(|device| device.name == name).map(|device| device.kind))
}
