//! `flyball run STUDY`.

use crate::commands::gate;
use crate::exit::{End, Usage};
use crate::interrupt::Interrupt;
use crate::machine_lock::supervisor;
use crate::shown::{self, Length};
use crate::study::{ReadStudy, read_study};
use crate::{places, typed};
use anyhow::Result;
use command_line::{Global, On, Run};
use domain::plan::Plan;
use domain::rng::Seed;
use domain::study::Study;
use domain::trial::Provenance;
use machine::LocalMachine;
use results::Results;
use results::gate::{Conditions, prepare_for};
use session::dry_run::DryRun;
use session::host::{Host, HostPlaces};
use session::studies::StudySource;
use session::{Begin, Measured, Request};
use std::path::{Path, PathBuf};
use terminal::Watching;

/// Runs a study, or shows what running it would do.
pub fn run(global: &Global, arguments: &Run) -> Result<End> {
    match (arguments.on, &arguments.machine) {
        (On::Sim, _) => return super::simulate::run(global, arguments),
        (On::Host, Some(_)) => {
            return Err(Usage("`--machine` names a simulated machine; add `--on sim`".into()).into());
        }
        (On::Host, None) => {}
    }
    let ReadStudy { mut study, source } = read_study(&arguments.study)?;
    study.measure.under_load |= arguments.under_load;
    arguments.events.add_to(&mut study.measure);
    let notebook = places::absolute(&places::notebook(global)?)?;
    let work = match &arguments.work {
        Some(folder) => places::absolute(folder)?,
        None => notebook.join("work"),
    };
    let conditions = prepare_for(
        &Plan::new(study.clone(), Seed(0))?,
        &arguments.gate.fail_if,
        &notebook,
        Provenance::Host,
    )?;
    if arguments.dry_run {
        return show_plan(global, &DryRun::on_a_host(study, arguments.seed, &work)?);
    }
    let interrupt = Interrupt::catch()?;
    let request = request((&study, &source), &notebook, (arguments.seed, arguments.new), &interrupt);
    let offer = (!study.measure.under_load).then(|| report::under_load_command(&request.command));
    let measured = on_this_machine(&request, work, offer)?;
    conclude(global, &measured, Length::of(arguments.full), &conditions, arguments.gate.junit.as_deref())
}

/// What is asked of a run of a study: its seed where it is given, and whether it begins anew.
pub fn request<'a>(
    (study, source): (&'a Study, &'a StudySource),
    notebook: &'a Path,
    (seed, is_new): (Option<u64>, bool),
    interrupt: &'a Interrupt,
) -> Request<'a> {
    let begin = if is_new { Begin::Anew } else { Begin::Resume };
    let (text, home, command, interrupt) = (&*source.text, source.home(), typed(), interrupt.flag());
    Request { study, text, home, notebook, seed, begin, limit: None, command, interrupt }
}

/// Measures what is missing on this machine, with targets in the folder `work`. `offer` is the command that
/// counts trials beside other work, where there is one.
pub fn on_this_machine(request: &Request<'_>, work: PathBuf, offer: Option<String>) -> Result<Measured> {
    let state = places::state()?;
    let supervisor = supervisor(&state)?;
    let host = HostPlaces { state, work, lock: places::machine_lock(), supervisor };
    let mut watching = offer.map_or_else(Watching::default, Watching::offering);
    let mut host = Host::acquire(request.study, host, &LocalMachine, request.interrupt, &mut watching)?;
    Ok(session::run(request, &mut host, &mut watching)?)
}

/// Prints a plan. It ends as the run would: incomplete where cells cannot run here.
pub fn show_plan(global: &Global, plan: &DryRun) -> Result<End> {
    if global.json {
        terminal::json(&plan.as_json())?;
    } else {
        terminal::lines(&plan.as_text())?;
    }
    Ok(if plan.is_possible() { End::Done } else { End::Incomplete })
}

/// Shows what was measured, and judges it.
pub fn conclude(
    global: &Global,
    measured: &Measured,
    length: Length,
    conditions: &Conditions,
    junit: Option<&Path>,
) -> Result<End> {
    let results = shown::load(&measured.notebook, &measured.run, None)?;
    shown::print(global, &results, length)?;
    if length == Length::Full && !global.json {
        terminal::say(format_args!("`flyball report {}` writes the page", measured.run));
    }
    let end = end(measured, &results);
    let passes = gate::passes(conditions, junit, &measured.notebook, &results)?;
    Ok(if passes || end == End::Interrupted { end } else { End::Failed })
}

/// How a command that measured ends.
pub fn end(measured: &Measured, results: &Results) -> End {
    if measured.interrupted {
        terminal::say("interrupted; everything is as before, and the next run measures what is missing");
        End::Interrupted
    } else if measured.left_alone {
        End::LeftAlone
    } else if results.is_incomplete() {
        End::Incomplete
    } else {
        End::Done
    }
}
