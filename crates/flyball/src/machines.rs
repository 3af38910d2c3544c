//! Simulated machines, disks and links: those that ship with the program, by name, and a user's own, by path.

use crate::disk_files;
use crate::exit::Usage;
use anyhow::Result;
use disks::{DiskSpec, LinkSpec};
use domain::lab::{Dilation, PStateDomains};
use domain::study::Study;
use governors::KernelVersion;
use sim::assemble::Models;
use sim::load::{Trace, read_trace};
use sim::machine::{Driver, MachineSpec, PState};
use std::io::BufReader;
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
    "p4-2002-slow",
    "pentium4-1500",
    "pentium4-2800",
    "server-nvme",
    "skylake-leap421",
    "skylake-leap422",
    "wd-green-server",
    "xeon-e5-acpi",
    "xeon-e5-acpi-turbo",
    "xeon-e5-pstate",
    "xeon-e5-pstate-hz1000",
    "xeon-e5-pstate-hz300"
];

/// A machine with its text, by which it is told from others.
pub struct Named {
    pub spec: MachineSpec,
    pub text: String,
}

/// A machine as a command line names it: a file of the folder that the command was given in counts before one of the study's.
pub fn named_here(name_or_path: &str) -> String {
    let is_shipped = name_or_path == LAB || SHIPPED.iter().any(|(name, _)| *name == name_or_path);
    match std::path::absolute(name_or_path) {
        Ok(path) if !is_shipped && path.is_file() => path.display().to_string(),
        _ => name_or_path.to_owned(),
    }
}

/// A bound on a machine file; the largest that is shipped has 20 KiB.
const MAX_FILE: u64 = 4 << 20;

/// A machine by the name of a shipped one, or by a path from `folder`.
pub fn load(name_or_path: &str, folder: &Path) -> Result<Named> {
    let shipped = SHIPPED.iter().find(|(name, _)| *name == name_or_path);
    let text = match shipped {
        Some((_, text)) => (*text).to_owned(),
        None => {
            let path = folder.join(name_or_path);
            files::regular::text(&path, MAX_FILE).map_err(|error| {
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

/// Why a lab machine cannot take the place of the machine of this name: its frequencies are not chosen as `acpi-cpufreq` has
/// them chosen. A file that cannot be read is the simulation's to refuse.
pub fn unlike_the_lab(name_or_path: &str, folder: &Path) -> Option<String> {
    let cpu = load(name_or_path, folder).ok()?.spec.cpu;
    let has = match cpu.driver {
        Driver::None => return None,
        Driver::AcpiCpufreq if cpu.turbo.is_empty() => return None,
        Driver::AcpiCpufreq => "turbo".to_owned(),
        other => format!("the driver `{}`", other.name()),
    };
    Some(format!(
        "it is about the machine `{name_or_path}`, which has {has}; a lab machine has `acpi-cpufreq` without turbo"
    ))
}

/// The name that stands for the lab's own machine.
pub const LAB: &str = "lab";

/// The same without a table of P-states.
const LAB_UNPACED: &str = "lab-unpaced";

/// The lab's machine as a study has it: its table of P-states, CPUs and memory, in the time of the machine that is stood for.
pub fn of_lab(study: &Study, kernel: Option<&str>, folder: &Path) -> Result<Named> {
    let mut named = load(if study.lab.pstates.is_some() { LAB } else { LAB_UNPACED }, folder)?;
    let (lab, spec) = (&study.lab, &mut named.spec);
    if let Some(kernel) = kernel.or(lab.kernel.as_deref()).and_then(KernelVersion::parse) {
        spec.kernel = kernel;
    }
    spec.memory = lab.memory;
    spec.cpu.count = lab.vcpus as usize;
    let dilation = match lab.dilation {
        Dilation::Fixed(dilation) => Some(dilation),
        Dilation::Auto => None,
    };
    match &lab.pstates {
        Some(name) => {
            let table = lab::pstates::load(name, folder)?;
            let rate = dilation.map_or(table.stands_for.unwrap_or(table.pace), |d| table.pace * d);
            spec.cpu.states = table.states.iter().rev().map(pstate).collect();
            spec.cpu.shared = table.domains == PStateDomains::Shared;
            spec.cpu.transition = table.latency;
            spec.cpu.base = table.states[0].frequency;
            spec.cpu.work_per_cycle = rate / (table.states[0].frequency.hz() as f64);
        }
        // Its costs are times of the guest's.
        None => spec.cpu.work_per_cycle = dilation.unwrap_or(1.0),
    }
    spec.costs.work_per_cycle = spec.cpu.work_per_cycle;
    spec.about = format!("{}, as the study has it", spec.about);
    named.text = format!("{}\n{lab:?} {kernel:?}", named.text);
    Ok(named)
}

fn pstate(state: &domain::lab::PState) -> PState {
    PState { frequency: state.frequency, busy_watts: state.busy_watts, idle_watts: state.idle_watts }
}

/// Disks, links and traces, seen from a folder.
pub struct Shelf<'a>(pub &'a Path);

impl Models for Shelf<'_> {
    fn disk(&self, name: &str) -> Result<DiskSpec, String> {
        disk_files::disk(name, self.0).map_err(|error| error.to_string())
    }

    fn link(&self, name: &str) -> Result<LinkSpec, String> {
        disk_files::link(name, self.0).map_err(|error| error.to_string())
    }

    fn trace(&self, file: &str) -> Result<Trace, String> {
        let path = self.0.join(file);
        let because = |why: String| format!("cannot read the trace `{}`: {why}", path.display());
        let opened = files::regular::open(&path).map_err(|error| because(error.to_string()))?;
        read_trace(BufReader::new(opened)).map_err(|error| because(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_machine_takes_the_place_of_those_with_its_driver() {
        let told = |name| unlike_the_lab(name, Path::new("/nonexistent"));
        assert_eq!(told("xeon-e5-acpi"), None);
        assert_eq!(told("lab-unpaced"), None);
        assert_eq!(told("no-such-machine"), None);
        let why = told("xeon-e5-pstate").unwrap();
        assert!(why.contains("`xeon-e5-pstate`, which has the driver `intel_pstate`"), "{why}");
        assert!(told("xeon-e5-acpi-turbo").unwrap().contains("which has turbo"));
    }
}
