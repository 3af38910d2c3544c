//! `flyball run STUDY --on sim`: the same study, plan, schedule and notebook; trials come from a model.

use super::run::{conclude, request};
use crate::exit::{End, Usage};
use crate::interrupt::Interrupt;
use crate::places;
use crate::shown::Length;
use crate::study::{ReadStudy, read_study_on};
use anyhow::Result;
use command_line::{Global, Run};
use domain::plan::Plan;
use domain::rng::Seed;
use domain::trial::Provenance;
use session::preflight;
use session::simulation::{Machines, Simulation};
use terminal::{self, Watching};

/// Simulates a study, or shows what would be.
pub fn run(global: &Global, arguments: &Run) -> Result<End> {
    if arguments.events.events.sets.is_some() {
        return Err(Usage(
            "a simulated machine has no events that could be recorded; leave `--events` out".into(),
        )
        .into());
    }
    let ReadStudy { study, source } = read_study_on(&arguments.study, arguments.machine.as_deref())?;
    let plan = Plan::new(study.clone(), Seed(0))?;
    preflight::in_itself(&plan)?;
    let machines = Machines::of(&plan, arguments.machine.as_deref(), &source.folder()?)?;
    let notebook = places::absolute(&places::notebook(global)?)?;
    let conditions =
        results::gate::prepare_for(&plan, &arguments.gate.fail_if, &notebook, Provenance::Simulation)?;
    if arguments.dry_run {
        let (text, complete) = session::dry_run::in_simulation(&plan, &machines, arguments.seed);
        terminal::lines(&text)?;
        return Ok(if complete { End::Done } else { End::Incomplete });
    }
    let interrupt = Interrupt::catch()?;
    let request = request((&study, &source), &notebook, (arguments.seed, arguments.new), &interrupt);
    let mut watching = Watching::default();
    let measured = session::run(&request, &mut Simulation::on(machines)?, &mut watching)?;
    conclude(global, &measured, Length::of(arguments.full), &conditions, arguments.gate.junit.as_deref())
}
