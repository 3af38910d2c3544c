//! Which shipped machines fit a study: on which of them its cells can be simulated, and what the others lack.

use super::machines::{Machines, SHIPPED};
use domain::cpufreq::has_tunables;
use domain::order;
use domain::plan::{Cell, Plan};
use domain::rng::Seed;
use domain::study::Target;
use sim::machine::{Driver, MachineSpec};
use std::path::Path;

/// A machine beside a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Its name.
    pub name: &'static str,
    /// What it is, for people.
    pub about: String,
    /// Of how many cells it cannot take the place.
    pub lacking: usize,
    /// Why it does not fit, in a few words; `None` where it fits.
    pub against: Option<String>,
}

/// How many disks a machine has.
pub fn disk_count(machine: &MachineSpec) -> usize {
    machine.disks.iter().map(|entry| entry.count as usize).sum()
}

/// All shipped machines, those that fit first. One fits on which as many cells can be simulated as on any,
/// and some can: what the model itself does not know stands against none of them.
pub fn fitting(plan: &Plan, folder: &Path) -> Vec<Fit> {
    let mut all: Vec<(Fit, Option<String>)> =
        SHIPPED.iter().filter_map(|(name, _)| judged(plan, name, folder)).collect();
    let least = all.iter().map(|(fit, _)| fit.lacking).min().unwrap_or_default();
    let fits = |fit: &Fit| fit.lacking == least && least < plan.cells.len();
    order::by_key(&mut all, |(fit, _)| fit.lacking);
    let told = |(fit, why): (Fit, Option<String>)| Fit { against: why.filter(|_| !fits(&fit)), ..fit };
    all.into_iter().map(told).collect()
}

/// A machine with the number of cells that it cannot take, and the reason of the first.
fn judged(plan: &Plan, name: &'static str, folder: &Path) -> Option<(Fit, Option<String>)> {
    let machines = Machines::of(plan, Some(name), folder).ok()?;
    let spec = &machines.first().spec;
    let refused = plan.cells.iter().filter_map(|cell| {
        let error = machines.check(&plan.study, cell, Seed(0)).err()?;
        Some((cell, error.to_string()))
    });
    let refused: Vec<(&Cell, String)> = refused.collect();
    let why = refused.first().map(|(cell, error)| in_short(cell, spec, error));
    let why = match disk_count(spec) {
        0 if stands_on_a_disk(plan) => why.map(|_| "no disk".to_owned()),
        _ => why,
    };
    Some((Fit { name, about: spec.about.clone(), lacking: refused.len(), against: None }, why))
}

/// Whether a study cannot be simulated on a machine without a disk.
fn stands_on_a_disk(plan: &Plan) -> bool {
    plan.study.stack.is_some() || !matches!(plan.study.target, Target::None | Target::Server(_))
}

/// Why a machine cannot take a cell: by its disks or its driver in a few words, else as the model says it.
fn in_short(cell: &Cell, spec: &MachineSpec, error: &str) -> String {
    let layers = cell.stack.iter().flat_map(|stack| &stack.layers);
    let wanted = layers.filter_map(|layer| layer.devices().map(|devices| devices.count as usize));
    let wanted = wanted.max().unwrap_or(1);
    let has = disk_count(spec);
    if wanted > has && has > 0 {
        return match has {
            1 => format!("1 disk of {wanted}"),
            _ => format!("{has} disks of {wanted}"),
        };
    }
    let governor = cell.settings.iter().find_map(|request| {
        let name = request.setting.name.as_str();
        let family = name.split_once('.').map(|(family, _)| family).filter(|family| has_tunables(family));
        family.or((name == "governor").then_some(request.value.as_str()))
    });
    match governor {
        Some(_) if spec.cpu.driver == Driver::None => "no cpufreq".to_owned(),
        Some(name) if !spec.cpu.driver.has_governors() && !["performance", "powersave"].contains(&name) => {
            format!("{} has no {name}", spec.cpu.driver.name())
        }
        _ => error.to_owned(),
    }
}
