//! `flyball lab run STUDY`: the loop over trials is here on the host, and each trial is measured by this same program in
//! a guest, where it is on an ordinary host.

use super::bed::Bed;
use super::start::{self, Workshop};
use crate::args::{Global, LabRun};
use crate::commands::gate;
use crate::commands::run::{conclude, parse_study_for_lab, read_study_for_lab};
use crate::course::{self, Course, Ended, NotMade};
use crate::exit::{End, Usage};
use crate::interrupt::Interrupt;
use crate::measuring::{Begin, Measured, RunOrder, run_folder};
use crate::{machines, places, preflight};
use anyhow::Result;
use domain::Study;
use domain::plan::{Cell, Plan};
use domain::rng::Seed;
use domain::trial::Provenance;
use machine::{LocalMachine, Machine};
use notebook::{Notebook, RunFolder};
use std::path::Path;

/// Runs a study in lab machines.
pub fn run(global: &Global, arguments: &LabRun) -> Result<End> {
    let (mut study, text) = read(arguments)?;
    study.lab = start::with_options(study.lab, &arguments.machine)?;
    let file = places::absolute(&arguments.study)?;
    let plan = Plan::new(study.clone(), Seed(0))?;
    preflight::in_the_lab(&plan)?;
    preflight::for_tools(&plan)?;
    let workshop = Workshop::new(study.lab.clone(), start::flavour(&study), &start::home(Some(&file)))?;
    if arguments.dry_run {
        return super::dry_run::show(&workshop, study, arguments.seed);
    }
    let notebook = places::absolute(&places::notebook(global)?)?;
    let conditions = gate::prepare_for(&plan, &arguments.gate.fail_if, &notebook)?;
    let notebook = Notebook::create(&notebook)?;
    let interrupt = Interrupt::catch()?;
    let first = Plan::new(study.clone(), Seed(0))?.cells.first().and_then(|cell| cell.kernel.clone());
    let mut bed = Bed::make(workshop, first, &interrupt)?;
    let (inventory, identity) = bed.inspect()?;
    let order = RunOrder {
        study: &study.name,
        text: &text,
        home: file.parent(),
        seed: arguments.seed,
        begin: if arguments.new { Begin::Anew } else { Begin::Resume },
        provenance: Provenance::Lab,
        identity: &identity,
    };
    let mut folder = run_folder(&order, &notebook, &inventory)?;
    let home = start::home(Some(&file));
    let ended = measure(&mut bed, study, &text, &folder, &home, &interrupt);
    for log in bed.end() {
        folder.keep_log(&log.name, &log.text)?;
    }
    if ended? == Ended::AllMeasured {
        folder.finish(LocalMachine.now())?;
    }
    let run = folder.run().id.clone();
    let measured = Measured { notebook, run, interrupted: interrupt.came(), left_alone: false };
    conclude(global, &measured, &conditions, arguments.gate.junit.as_deref())
}

fn measure(
    bed: &mut Bed<'_>,
    study: Study,
    text: &str,
    folder: &RunFolder,
    home: &Path,
    interrupt: &Interrupt,
) -> Result<Ended> {
    let plan = Plan::new(study, folder.run().seed)?;
    let (mut schedule, before) = course::schedule(&plan, folder)?;
    if schedule.next().is_none() {
        return Ok(Ended::AllMeasured);
    }
    bed.open(&plan, text, folder.run());
    let course = Course { plan: &plan, folder, interrupt, limit: None, ground: &|| Ok(()) };
    course.measure_all(&mut schedule, before, &mut |cell, key, staging| match unlike(&plan.study, cell, home)
    {
        Some(why) => Err(NotMade::Unsupported(why)),
        None => bed.trial(cell, key, staging),
    })
}

/// Why a lab machine cannot be the one that a level of this cell is about. The machine of `[sim]` is the simulation's alone.
fn unlike(study: &Study, cell: &Cell, home: &Path) -> Option<String> {
    let levels = study.factors.iter().flat_map(|factor| {
        let chosen = cell.levels.get(&factor.name);
        factor.levels.iter().filter(move |level| Some(&level.name) == chosen)
    });
    let machines = levels.filter_map(|level| level.machine.as_deref());
    machines.filter_map(|machine| machines::unlike_the_lab(machine, home)).next()
}

/// The study, with the kernels that were asked for: one is the machine's, several are a factor. What is added is added
/// to the text, so that what the notebook keeps says all of it.
fn read(arguments: &LabRun) -> Result<(Study, String)> {
    let (mut study, text) = read_study_for_lab(&arguments.study)?;
    let kernels = &arguments.kernels;
    if kernels.is_empty() {
        return Ok((study, text));
    }
    if preflight::varies_kernels(&study) {
        let name = &study.name;
        return Err(
            Usage(format!("the study `{name}` varies the kernel itself; leave `--kernel` out")).into()
        );
    }
    if let [only] = kernels.as_slice() {
        study.lab.kernel = Some(only.clone());
        return Ok((study, text));
    }
    let list: Vec<String> = kernels.iter().map(|kernel| format!("{kernel:?}")).collect();
    let text = format!(
        "{}\n\n# Added by `--kernel`.\n[factor.kernel]\nlab = \"kernel\"\nlevels = [{}]\n",
        text.trim_end(),
        list.join(", ")
    );
    let study = parse_study_for_lab(&text, &format!("{} with --kernel", arguments.study.display()))?;
    Ok((study, text))
}
