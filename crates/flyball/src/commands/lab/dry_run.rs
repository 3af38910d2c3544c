//! `flyball lab run STUDY --dry-run`: the machine, what is done in it once, and what each cell runs. Nothing is started.

use super::start::Workshop;
use crate::commands::stacks;
use crate::exit::End;
use crate::{measuring, preflight, put};
use anyhow::Result;
use domain::plan::{Cell, Plan};
use domain::rng::Seed;
use domain::study::{Study, Target};
use domain::trial::TrialKey;
use machine::{LocalMachine, Machine};
use runner::Devices;
use runner::tools::{self, Job};
use std::fmt::Write;
use std::path::Path;

/// Prints the plan.
pub fn show(workshop: &Workshop, study: Study, seed: Option<u64>) -> Result<End> {
    let seed = Seed(seed.unwrap_or_else(|| measuring::fresh_seed(LocalMachine.now())));
    let plan = Plan::new(study, seed)?;
    let mut text = String::new();
    machine(&mut text, workshop);
    let _ = writeln!(
        text,
        "\n{} cells, seed {seed}; each is measured {} to {} times",
        plan.cells.len(),
        plan.study.measure.repeats_min,
        plan.study.measure.repeats_max
    );
    stacks::describe(&mut text, &stacks::of(&plan, Devices::OfTheGuest));
    for each in &plan.cells {
        cell(&mut text, &plan, &plan.in_trial(each, &TrialKey::first(each.id.clone())));
    }
    put(&text)?;
    eprintln!("nothing was started");
    Ok(End::Done)
}

// Writing to a String cannot fail, in here and below.
fn machine(text: &mut String, workshop: &Workshop) {
    let lab = &workshop.lab;
    let kernel = lab.kernel.as_deref().unwrap_or("the newest that can be had, or the factor's");
    let _ = writeln!(text, "lab machine: {} virtual CPUs, {}, kernel: {kernel}", lab.vcpus, lab.memory);
    if let Some(table) = &workshop.loaded.table {
        let states: Vec<String> = table.states.iter().map(|s| s.frequency.to_string()).collect();
        let pace = table.pace / 1e6;
        let _ = writeln!(
            text,
            "P-states `{}`: {}; {pace:.0} million instructions a second",
            table.name,
            states.join(", ")
        );
    }
    for disk in &lab.disks {
        let size = disk.size.map_or("of its model's size".to_owned(), |size| size.to_string());
        let link = disk.link.as_ref().map_or(String::new(), |link| format!(", on the link `{link}`"));
        let _ = writeln!(text, "disk `{}`: {}, {size}{link}", disk.name, disk.model);
    }
    for module in &lab.modules {
        let _ = writeln!(text, "in the guest, once: modprobe {module}");
    }
    for line in &lab.prepare {
        let _ = writeln!(text, "in the guest, once: {line}");
    }
}

fn cell(text: &mut String, plan: &Plan, cell: &Cell) {
    let _ = writeln!(text, "\n{}", cell.id);
    if let Some(kernel) = &cell.kernel {
        let _ = writeln!(text, "  kernel {kernel}");
    }
    for setting in &cell.settings {
        let _ = writeln!(text, "  write {setting}");
    }
    let target = match &plan.study.target {
        kind if plan.study.stack.is_some() => Some((Path::new("TARGET"), preflight::size_of(kind))),
        Target::None => None,
        Target::LabDevice(path) => Some((Path::new(path), preflight::size_of(&plan.study.target))),
        Target::File(size) | Target::Loop(size) => Some((Path::new("TARGET"), *size)),
    };
    match tools::invocation(&Job {
        workload: &cell.workload,
        target,
        raw: Path::new("RAW"),
        server: None,
        folder: None,
    }) {
        Ok(invocation) => {
            let _ = writeln!(text, "  run {}", invocation.argv.join(" "));
        }
        Err(error) => {
            let _ = writeln!(text, "  cannot run: {error}");
        }
    }
}
