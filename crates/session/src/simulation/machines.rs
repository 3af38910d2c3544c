//! Simulated machines, disks and links: those that ship with the program, by name, and a user's own, by path.

use super::fitting::{Fit, fitting};
use super::lab_machine::{LAB, of_lab};
use super::{Outcome, Rows};
use crate::disk_files;
use crate::error::{Error, Result};
use crate::shipped::hint;
use analysis::words::by_reason;
use disks::{DiskSpec, LinkSpec};
use domain::bench::{BenchError, Sink};
use domain::plan::{Cell, Plan};
use domain::rng::Seed;
use domain::study::Study;
use domain::trial::simulated_machine;
use sim::assemble::{Models, SimRequest};
use sim::bench::{Simulated, simulate};
use sim::load::{Trace, read_trace};
use sim::machine::{Driver, MachineSpec};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::BufReader;
use std::path::{Path, PathBuf};

macro_rules! shipped {
    ($($name:literal),*) => {
        &[$(($name, include_str!(concat!("../../../../studies/machines/", $name, ".toml")))),*]
    };
}

/// The shipped machines: name and file.
pub const SHIPPED: &[(&str, &str)] = shipped![
    "lab",
    "lab-unpaced",
    "p4-2002",
    "p4-2002-ata100",
    "p4-2002-cables",
    "p4-2002-cables-slow",
    "p4-2002-slow",
    "pentium4-1500",
    "pentium4-2800",
    "pentium4-2800-one-thread",
    "pentium4-2800-own-clocks",
    "pentium4-2800-slow-san",
    "pentium4-2800-submitter",
    "pentium4-2800-ticks",
    "server-nvme",
    "skylake-leap421",
    "skylake-leap422",
    "skylake-leap422-acpi",
    "skylake-leap422-no-hwp",
    "wd-green-i7-860",
    "wd-green-server",
    "xeon-e5-acpi",
    "xeon-e5-acpi-turbo",
    "xeon-e5-acpi-turbo-quick",
    "xeon-e5-pstate",
    "xeon-e5-pstate-hz1000",
    "xeon-e5-pstate-hz300",
    "xeon-e5-pstate-quick"
];

/// The command that lists them.
pub const LIST: &str = "flyball sim machines";

/// A machine with its text, by which it is told from others.
#[derive(Clone, Debug)]
pub struct Named {
    /// The machine.
    pub spec: MachineSpec,
    /// Its file.
    pub text: String,
}

/// A machine as a command line names it: a file of the folder that the command was given in counts before one
/// of the study's.
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
///
/// # Errors
/// [`Error::Usage`].
pub fn load(name_or_path: &str, folder: &Path) -> Result<Named> {
    let shipped = SHIPPED.iter().find(|(name, _)| *name == name_or_path);
    let text = match shipped {
        Some((_, text)) => (*text).to_owned(),
        None => {
            let path = folder.join(name_or_path);
            files::regular::text(&path, MAX_FILE).map_err(|error| {
                Error::Usage(format!(
                    "cannot read the machine `{}`: {error}; {}",
                    path.display(),
                    hint(name_or_path, SHIPPED.iter().map(|(name, _)| *name), LIST)
                ))
            })?
        }
    };
    let spec = MachineSpec::parse(&text)
        .map_err(|error| Error::Usage(format!("the machine `{name_or_path}` is wrong: {error}")))?;
    Ok(Named { spec, text })
}

/// Why a lab machine cannot take the place of the machine of this name: its frequencies are not chosen as
/// `acpi-cpufreq` has them chosen. A file that cannot be read is the simulation's to refuse.
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

/// Disks, links and traces, seen from a folder.
#[derive(Clone, Copy, Debug)]
pub struct FileModels<'a>(pub &'a Path);

impl Models for FileModels<'_> {
    fn disk(&self, name: &str) -> std::result::Result<DiskSpec, String> {
        disk_files::disk(name, self.0).map_err(|error| error.to_string())
    }

    fn link(&self, name: &str) -> std::result::Result<LinkSpec, String> {
        disk_files::link(name, self.0).map_err(|error| error.to_string())
    }

    fn trace(&self, file: &str) -> std::result::Result<Trace, String> {
        let path = self.0.join(file);
        let because = |why: String| format!("cannot read the trace `{}`: {why}", path.display());
        let opened = files::regular::open(&path).map_err(|error| because(error.to_string()))?;
        read_trace(BufReader::new(opened)).map_err(|error| because(error.to_string()))
    }
}

/// What to do about a study that names no machine: those that fit it, and why the others do not.
fn without_machine(plan: &Plan, folder: &Path) -> String {
    let (fit, other): (Vec<Fit>, Vec<Fit>) =
        fitting(plan, folder).into_iter().partition(|fit| fit.against.is_none());
    let names: Vec<&str> = fit.iter().map(|fit| fit.name).collect();
    let fit = match names[..] {
        [] => "no shipped machine fits it; name a file of your own with --machine".to_owned(),
        _ => format!("add --machine NAME; these fit it: {}", names.join(", ")),
    };
    let mut text =
        format!("the study `{}` does not say which machine is to be simulated; {fit}", plan.study.name);
    let against = other.iter().filter_map(|fit| Some((fit.name.to_owned(), fit.against.as_deref()?)));
    for (why, names, _) in by_reason(against, SHIPPED.len()) {
        text += &format!("\nnot {}: {why}", names.join(", "));
    }
    text + "\nor write `[sim]` and `machine = \"NAME\"` in the study; a file of a machine is as good as a name"
}

/// The machines that a plan's cells are simulated on.
#[derive(Debug)]
pub struct Machines {
    /// By the name that the study or the command line has for it.
    pub named: BTreeMap<String, Named>,
    fallback: String,
    /// The machine that takes the place of the study's.
    asked: Option<String>,
    folder: PathBuf,
}

/// What tells machines apart: the lab's own also by what the lab would give this cell.
fn key_of(name: &str, cell: &Cell) -> String {
    match name {
        LAB => format!("{LAB} {:?} {:?}", cell.kernel, cell.pstates),
        _ => name.to_owned(),
    }
}

impl Machines {
    /// Those of a plan; `asked` takes the place of the study's.
    ///
    /// # Errors
    /// [`Error::Usage`] where none is named, or one cannot be read.
    pub fn of(plan: &Plan, asked: Option<&str>, folder: &Path) -> Result<Self> {
        let mut named = BTreeMap::new();
        let mut fallback = None;
        let asked = asked.map(named_here);
        for cell in &plan.cells {
            let Some(name) = asked.as_deref().or(cell.machine.as_deref()) else {
                return Err(Error::Usage(without_machine(plan, folder)));
            };
            let key = key_of(name, cell);
            fallback.get_or_insert_with(|| key.clone());
            if let Entry::Vacant(free) = named.entry(key) {
                free.insert(match name {
                    LAB => of_lab(&plan.study, cell, folder)?,
                    _ => load(name, folder)?,
                });
            }
        }
        let fallback = fallback.ok_or_else(|| Error::Usage("the study has no cells".into()))?;
        Ok(Self { named, fallback, asked, folder: folder.to_owned() })
    }

    /// The one of cells that name none.
    pub fn first(&self) -> &Named {
        &self.named[&self.fallback]
    }

    /// The one that a cell is simulated on.
    pub fn for_cell(&self, cell: &Cell) -> &Named {
        let name = self.asked.as_ref().or(cell.machine.as_ref());
        name.and_then(|name| self.named.get(&key_of(name, cell))).unwrap_or_else(|| self.first())
    }

    /// Which machines these are: their names, and a number that another text would not have.
    pub fn identity(&self) -> String {
        let names: Vec<&str> = self.named.values().map(|named| named.spec.name.as_str()).collect();
        let texts: Vec<&str> = self.named.values().map(|named| named.text.as_str()).collect();
        let text = format!("{} {}", env!("CARGO_PKG_VERSION"), texts.concat());
        simulated_machine(&names, Seed(0).stream(&text).bits() as u32)
    }

    pub(super) fn simulate(&self, study: &Study, cell: &Cell, seed: Seed) -> Outcome {
        let mut rows = Rows::default();
        let simulated = self.simulate_on(&self.for_cell(cell).spec, study, cell, seed, &mut rows)?;
        Ok((simulated, rows))
    }

    /// Whether a cell can be simulated.
    ///
    /// # Errors
    /// See [`BenchError`].
    pub fn check(&self, study: &Study, cell: &Cell, seed: Seed) -> std::result::Result<(), BenchError> {
        let models = FileModels(&self.folder);
        let machine = &self.for_cell(cell).spec;
        sim::bench::check(&SimRequest { machine, models: &models, study, cell, seed })
    }

    /// Simulates a cell on a machine whose disks are found where these machines' are.
    ///
    /// # Errors
    /// See [`BenchError`].
    pub fn simulate_on(
        &self,
        machine: &MachineSpec,
        study: &Study,
        cell: &Cell,
        seed: Seed,
        sink: &mut dyn Sink,
    ) -> std::result::Result<Simulated, BenchError> {
        let models = FileModels(&self.folder);
        simulate(&SimRequest { machine, models: &models, study, cell, seed }, sink)
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
