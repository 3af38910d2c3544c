//! Taking the inventory of a machine, one file a part. Everything here only reads.
//!
//! A file that is not there is `None`; a file that holds what its format does not allow is an error, for a
//! number that was guessed would be believed.

mod absent;
mod block;
mod cpu;
mod cpufreq;
mod cpuidle;
mod identity;
mod kernel;
mod md;
mod memory;
mod mounts;
mod power;
mod reader;
mod rivals;
mod virtualisation;

pub use identity::identity;
pub use rivals::{process_names, rivals, unit_names};

use crate::Machine;
use domain::inventory::{Cpufreq, Inventory, Kernel, Power, SCHEMA, Storage, Virtualisation};
use parse::kernel::cpuinfo::Processor;
use reader::Reader;

/// Why there is no inventory.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file does not hold what it should.
    #[error("cannot take the inventory: `{path}`: {source}; please report this with the file's text")]
    Parse {
        /// Which file, or the command whose output it is.
        path: String,
        /// What is wrong with it.
        source: parse::kernel::Error,
    },
    /// Nothing that every Linux has is there.
    #[error(
        "cannot take the inventory: neither `/sys/devices/system/cpu/online` nor `/proc/cpuinfo` can be read; \
         is this the root of a machine, with /proc and /sys mounted?"
    )]
    NoCpus,
}

/// The block devices of a machine alone.
///
/// # Errors
/// [`Error::Parse`].
pub fn block_devices(machine: &dyn Machine) -> Result<Vec<domain::inventory::BlockDevice>, Error> {
    block::take(&Reader::new(machine))
}

/// The frequency policies of a machine alone, with the tunables of their governors; `None` where it has none.
///
/// # Errors
/// See [`Error`].
pub fn cpufreq(machine: &dyn Machine) -> Result<Option<Cpufreq>, Error> {
    let reader = Reader::new(machine);
    let cpuinfo = reader.text("/proc/cpuinfo").unwrap_or_default();
    let processors = processors(&cpuinfo)?;
    let online = cpu::online(&reader, &processors)?;
    cpufreq::take(&reader, &processors, &online)
}

/// The governors of frequency policies as they are now; one that cannot be read stays as it was.
pub fn renew_governors(machine: &dyn Machine, cpufreq: &mut Cpufreq) {
    let reader = Reader::new(machine);
    for policy in &mut cpufreq.policies {
        let path = format!("/sys/devices/system/cpu/cpufreq/policy{}/scaling_governor", policy.id);
        if let Some(governor) = reader.text(&path) {
            policy.governor = Some(governor);
        }
    }
}

/// Looks at a machine.
///
/// # Errors
/// See [`Error`]. What a machine lacks is no error, but stands in [`Inventory::absent`].
pub fn take(machine: &dyn Machine) -> Result<Inventory, Error> {
    let reader = Reader::new(machine);
    let cpuinfo = reader.text("/proc/cpuinfo").unwrap_or_default();
    let processors = processors(&cpuinfo)?;
    let online = cpu::online(&reader, &processors)?;
    let cpufreq = cpufreq::take(&reader, &processors, &online)?;
    let kernel = kernel::take(&reader)?;
    let Storage { devices, mounts, .. } = storage_of(&reader)?;
    let mut inventory = Inventory {
        schema: SCHEMA,
        host: reader.text("/proc/sys/kernel/hostname"),
        os: reader.text("/etc/os-release").and_then(|text| parse::kernel::os_release::pretty_name(&text)),
        cpus: cpu::take(&reader, online.clone(), &processors, cpufreq.as_ref())?,
        frequency_sources: cpufreq::sources(&reader, cpufreq.as_ref()),
        cpufreq,
        cpuidle: cpuidle::take(&reader, &online)?,
        kernel,
        memory: memory::take(&reader)?,
        devices,
        mounts,
        power: power::take(&reader)?,
        virtualisation: virtualisation::take(&reader, &processors)?,
        rivals: rivals::take(&reader),
        absent: Vec::new(),
    };
    inventory.absent = absent::of(&inventory);
    Ok(inventory)
}

/// Block devices and mounted filesystems alone.
///
/// # Errors
/// See [`Error`].
pub fn storage(machine: &dyn Machine) -> Result<Storage, Error> {
    storage_of(&Reader::new(machine))
}

fn storage_of(reader: &Reader<'_>) -> Result<Storage, Error> {
    let mut devices = block::take(reader)?;
    let mounts = mounts::take(reader, &devices)?;
    block::put_loops_on_their_filesystems(&mut devices, &mounts);
    Ok(Storage { schema: SCHEMA, devices, mounts })
}

/// The kernel alone.
///
/// # Errors
/// See [`Error`].
pub fn kernel(machine: &dyn Machine) -> Result<Kernel, Error> {
    kernel::take(&Reader::new(machine))
}

/// What counts or shows energy alone.
///
/// # Errors
/// As [`take`].
pub fn power(machine: &dyn Machine) -> Result<Power, Error> {
    power::take(&Reader::new(machine))
}

/// What stands between the kernel and the hardware, alone.
///
/// # Errors
/// See [`Error`].
pub fn virtualisation(machine: &dyn Machine) -> Result<Virtualisation, Error> {
    let reader = Reader::new(machine);
    virtualisation::take(&reader, &processors(&reader.text("/proc/cpuinfo").unwrap_or_default())?)
}

fn processors(cpuinfo: &str) -> Result<Vec<Processor<'_>>, Error> {
    reader::parsed("/proc/cpuinfo", cpuinfo, parse::kernel::cpuinfo::parse)
}
