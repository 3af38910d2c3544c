//! Simulated machines, disks and links: those that ship with the program, by name, and a user's own, by path.

use crate::exit::Usage;
use anyhow::Result;
use lab::disk_server;
use sim::assemble::Models;
use sim::disk::{DiskSpec, LinkSpec};
use sim::machine::MachineSpec;
use std::path::Path;

macro_rules! shipped {
    ($($name:literal),*) => {
        &[$(($name, include_str!(concat!("../../../studies/machines/", $name, ".toml")))),*]
    };
}

/// The shipped machines: name and file.
pub const SHIPPED: &[(&str, &str)] = shipped![
    "lab",
    "lab-unpaced",
    "p4-2002",
    "pentium4-2800",
    "server-nvme",
    "skylake-leap421",
    "skylake-leap422",
    "wd-green-server",
    "xeon-e5-acpi",
    "xeon-e5-pstate"
];

/// A machine with its text, by which it is told from others.
pub struct Named {
    pub spec: MachineSpec,
    pub text: String,
}

/// A machine by the name of a shipped one, or by a path from `folder`.
pub fn load(name_or_path: &str, folder: &Path) -> Result<Named> {
    let shipped = SHIPPED.iter().find(|(name, _)| *name == name_or_path);
    let text = match shipped {
        Some((_, text)) => (*text).to_owned(),
        None => {
            let path = folder.join(name_or_path);
            std::fs::read_to_string(&path).map_err(|error| {
                let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
                Usage(format!(
                    "cannot read the machine `{}`: {error}; shipped are {}",
                    path.display(),
                    names.join(", ")
                ))
            })?
        }
    };
    let spec = MachineSpec::parse(&text)
        .map_err(|error| Usage(format!("the machine `{name_or_path}` is wrong: {error}")))?;
    Ok(Named { spec, text })
}

/// Disks and links, seen from a folder.
pub struct Shelf<'a>(pub &'a Path);

impl Models for Shelf<'_> {
    fn disk(&self, name: &str) -> Result<DiskSpec, String> {
        disk_server::load(name, self.0).map_err(|error| error.to_string())
    }

    fn link(&self, name: &str) -> Result<LinkSpec, String> {
        disk_server::load_link(name, self.0).map_err(|error| error.to_string())
    }
}
