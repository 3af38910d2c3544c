//! `flyball run STUDY --on sim`: the same study, plan, schedule and notebook; trials come from a model.

use super::run::{conclude, request};
use crate::exit::{End, Usage};
use crate::interrupt::Interrupt;
use crate::places;
use crate::shown::Length;
use crate::study::{ReadStudy, read_study};
use anyhow::Result;
use command_line::{Global, Run};
use domain::inert::Lines;
use domain::plan::Plan;
use domain::rng::Seed;
use domain::trial::Provenance;
use machine::{LocalMachine, Machine};
use session::simulation::{Machines, Simulation};
use session::{fresh_seed, preflight};
use terminal::{self, Watching};

/// Simulates a study, or shows what would be.
pub fn run(global: &Global, arguments: &Run) -> Result<End> {
    if arguments.events.events.sets.is_some() {
        return Err(Usage(
            "a simulated machine has no events that could be recorded; leave `--events` out".into(),
        )
        .into());
    }
    let ReadStudy { study, source } = read_study(&arguments.study)?;
    let plan = Plan::new(study.clone(), Seed(0))?;
    preflight::in_itself(&plan)?;
    let machines = Machines::of(&plan, arguments.machine.as_deref(), &source.folder()?)?;
    let notebook = places::absolute(&places::notebook(global)?)?;
    let conditions =
        results::gate::prepare_for(&plan, &arguments.gate.fail_if, &notebook, Provenance::Simulation)?;
    if arguments.dry_run {
        return show(&plan, &machines, arguments.seed);
    }
    let interrupt = Interrupt::catch()?;
    let request = request((&study, &source), &notebook, (arguments.seed, arguments.new), &interrupt);
    let mut watching = Watching::default();
    let measured = session::run(&request, &mut Simulation::on(machines)?, &mut watching)?;
    conclude(global, &measured, Length::of(arguments.full), &conditions, arguments.gate.junit.as_deref())
}

/// What would be simulated, and what cannot be.
fn show(plan: &Plan, machines: &Machines, seed: Option<u64>) -> Result<End> {
    let seed = Seed(seed.unwrap_or_else(|| fresh_seed(LocalMachine.now())));
    let mut text = Lines::default();
    text.line(format_args!(
        "study {}, seed {seed}, simulated: nothing of this machine is read or written",
        plan.study.name
    ));
    for named in machines.named.values() {
        text.line(format_args!("machine {}: {}", named.spec.name, named.spec.about));
    }
    let mut end = End::Done;
    for cell in &plan.cells {
        match machines.check(&plan.study, cell, seed) {
            Ok(()) => text.line(format_args!("  {}", cell.id)),
            Err(error) => {
                text.line(format_args!("  {}: {error}", cell.id));
                end = End::Incomplete;
            }
        }
    }
    terminal::lines(&text)?;
    Ok(end)
}
