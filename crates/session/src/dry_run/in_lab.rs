//! The plan of a run in a lab machine: the machine, what is done in it once, and what each cell runs.

use super::stacks;
use super::text::{describe_beside, times};
use crate::availability::disturbs_pacing;
use crate::begin::fresh_seed;
use crate::error::Result;
use crate::guests::LabSpec;
use crate::preflight;
use domain::ids::TrialKey;
use domain::inert::Lines;
use domain::lab::{Dilation, GuestClock, HwpModel, IdleState, Lab, PStateDriver, PStateTable, Ratios};
use domain::plan::{Cell, Plan};
use domain::rng::Seed;
use domain::study::{Study, Target};
use domain::units::Hertz;
use machine::{LocalMachine, Machine};
use runner::Devices;
use runner::beside;
use runner::tools::{self, Job};
use std::path::Path;

/// The plan in words. Nothing is started.
///
/// # Errors
/// Where the study has no plan.
pub fn in_lab(spec: &LabSpec, study: Study, seed: Option<u64>) -> Result<Lines> {
    let seed = Seed(seed.unwrap_or_else(|| fresh_seed(LocalMachine.now())));
    let plan = Plan::new(study, seed)?;
    let mut text = Lines::default();
    machine(&mut text, spec);
    text.blank();
    text.line(format_args!(
        "{} cells, seed {seed}; each is measured {}",
        plan.cells.len(),
        times(&plan.study.measure)
    ));
    stacks::describe(&mut text, &stacks::of(&plan, Devices::OfTheGuest));
    for each in &plan.cells {
        cell(&mut text, &plan, &plan.in_trial(each, &TrialKey::first(each.id.clone())));
    }
    Ok(text)
}

fn machine(text: &mut Lines, spec: &LabSpec) {
    let lab = &spec.lab;
    let kernel = lab.kernel.as_deref().unwrap_or("the newest that can be had, or the factor's");
    text.line(format_args!("lab machine: {} virtual CPUs, {}, kernel: {kernel}", lab.vcpus, lab.memory));
    for table in spec.models.tables() {
        pstates(text, table);
    }
    if let Some(slowness) = slowness(lab) {
        text.line(format_args!("{slowness}"));
    }
    for disk in &lab.disks {
        let size = disk.size.map_or("of its model's size".to_owned(), |size| size.to_string());
        let link = disk.link.as_ref().map_or(String::new(), |link| format!(", on the link `{link}`"));
        text.line(format_args!("disk `{}`: {}, {size}{link}", disk.name, disk.model));
    }
    for module in &lab.modules {
        text.line(format_args!("in the guest, once: modprobe {module}"));
    }
    for line in &lab.prepare {
        text.line(format_args!("in the guest, once: {line}"));
    }
}

/// How much slower it is than the machine that it stands for, and what that does to the guest's time.
fn slowness(lab: &Lab) -> Option<String> {
    let dilation = match lab.dilation {
        Dilation::Fixed(1.0) => return None,
        Dilation::Fixed(factor) => factor.to_string(),
        Dilation::Auto => "found before the first trial".to_owned(),
    };
    let what = match lab.clock() {
        GuestClock::Slowed => "the guest's clock is as many times slower while its CPUs are paced",
        GuestClock::Host => "times in the guest are as many times longer, and rates as many times lower",
    };
    Some(format!("time dilation {dilation}: {what}"))
}

/// A table of P-states.
fn pstates(text: &mut Lines, table: &PStateTable) {
    /// More than these are told by their range.
    const MAX_LISTED: usize = 8;
    let states: Vec<String> = table.states.iter().map(|s| s.frequency.to_string()).collect();
    let states = match states.as_slice() {
        [highest, .., lowest] if states.len() > MAX_LISTED => {
            format!("{} from {lowest} to {highest}", states.len())
        }
        _ => states.join(", "),
    };
    let pace = (table.pace / 1e5).round() / 10.0;
    text.line(format_args!("P-states `{}`: {states}; {pace} million instructions a second", table.name));
    if let Some(ratios) = table.driver.ratios() {
        text.line(format_args!("{}", processor(table, ratios)));
    }
    if !table.idle.is_empty() {
        let state = |s: &IdleState| format!("{} ({} to leave)", s.name, s.latency);
        let states: Vec<String> = table.idle.iter().map(state).collect();
        text.line(format_args!("idle states: {}; latencies and watts are modelled", states.join(", ")));
    }
}

/// The processor of a table for a driver that uses its registers, and what of it is invented.
fn processor(table: &PStateTable, ratios: &Ratios) -> String {
    let base = Hertz::from_mhz(u64::from(ratios.base) * 100);
    let (driver, choice) = match table.driver {
        PStateDriver::Amd(_) => ("amd_pstate", "CPPC"),
        PStateDriver::Intel(_) | PStateDriver::Acpi => ("intel_pstate", "HWP"),
    };
    let Some(HwpModel { window, period, setpoint: (first, last) }) = ratios.hwp else {
        return format!("{driver} without {choice}, turbo above {base}; watts (RAPL) are modelled");
    };
    format!(
        "{driver} with {choice}, turbo above {base}; modelled: what {choice} chooses (each {period}, by the last {window}, \
         setpoint {first} to {last} by EPP), watts (RAPL)"
    )
}

fn cell(text: &mut Lines, plan: &Plan, cell: &Cell) {
    text.blank();
    text.line(&cell.id);
    if let Some(why) = disturbs_pacing(cell) {
        text.line(format_args!("  not possible: {why}"));
    }
    if let Some(kernel) = &cell.kernel {
        text.line(format_args!("  kernel {kernel}"));
    }
    if let Some(table) = &cell.pstates {
        text.line(format_args!("  P-states {table}"));
    }
    for setting in &cell.settings {
        text.line(format_args!("  write {setting}"));
    }
    let target = match &plan.study.target {
        kind if plan.study.stack.is_some() => Some((Path::new("TARGET"), preflight::size_of(kind))),
        Target::None | Target::Server(_) => None,
        Target::LabDevice(path) | Target::ReadOnly(path) => {
            Some((Path::new(path), preflight::size_of(&plan.study.target)))
        }
        Target::File(size) | Target::Loop(size) | Target::Folder { size, .. } => {
            Some((Path::new("TARGET"), *size))
        }
    };
    let access = (&plan.study.target).into();
    let job = Job { host: tools::host(), access, ..Job::planned(&cell.workload, target, Path::new("RAW")) };
    match beside::commands(&job, &cell.beside) {
        Ok(beside) => describe_beside(text, &beside),
        Err(error) => text.line(format_args!("  cannot run beside it: {error}")),
    }
    match tools::invocation(&job) {
        Ok(invocation) => {
            text.line(format_args!("  run {}", invocation.argv.join(" ")));
        }
        Err(error) => {
            text.line(format_args!("  cannot run: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_slow_says_how_that_shows_in_it() {
        let of = |dilation, pstates: Option<&str>| {
            slowness(&Lab { dilation, pstates: pstates.map(str::to_owned), ..Lab::default() })
        };
        assert_eq!(of(Dilation::Fixed(1.0), Some("server-8")), None);
        let paced = of(Dilation::Fixed(160.0), Some("server-8")).unwrap();
        assert_eq!(
            paced,
            "time dilation 160: the guest's clock is as many times slower while its CPUs are paced"
        );
        let unpaced = of(Dilation::Fixed(4.0), None).unwrap();
        assert!(unpaced.starts_with("time dilation 4: times in the guest are"), "{unpaced}");
        let found = of(Dilation::Auto, Some("server-8")).unwrap();
        assert!(found.starts_with("time dilation found before the first trial: the guest's"), "{found}");
    }
}
