//! `flyball lab run STUDY`: the loop over trials is here on the host, and each trial is measured by this same
//! program in a guest, where it is on an ordinary host.

use super::start;
use crate::commands::run::{conclude, request};
use crate::exit::{End, Usage};
use crate::interrupt::Interrupt;
use crate::places;
use crate::shown::Length;
use crate::study::{ReadStudy, parse_study_for_lab, read_study_for_lab};
use anyhow::Result;
use command_line::{Global, LabRun};
use domain::plan::Plan;
use domain::rng::Seed;
use domain::trial::Provenance;
use notebook::Notebook;
use results::gate::prepare_for;
use session::guests::{Guests, LabSpec};
use session::preflight;
use session::studies::StudySource;
use terminal::Watching;

/// Runs a study in lab machines.
pub fn run(global: &Global, arguments: &LabRun) -> Result<End> {
    let ReadStudy { mut study, source } = read(arguments)?;
    if arguments.machine.pstates.is_some() && preflight::varies_pstates(&study) {
        let name = &study.name;
        return Err(Usage(format!(
            "levels of the study `{name}` name tables of P-states; leave `--pstates` out"
        ))
        .into());
    }
    arguments.events.add_to(&mut study.measure);
    study.lab = start::with_options(study.lab, &arguments.machine)?;
    let plan = Plan::new(study.clone(), Seed(0))?;
    preflight::in_the_lab(&plan)?;
    preflight::for_tools(&plan)?;
    let home = source.folder()?;
    let tables = plan.cells.iter().filter_map(|cell| cell.pstates.clone()).collect();
    let spec = LabSpec::new(study.lab.clone(), &tables, start::flavour(&study), &home, start::places()?)?;
    if arguments.dry_run {
        terminal::lines(&session::dry_run::in_lab(&spec, study, arguments.seed)?)?;
        terminal::say("nothing was started");
        return Ok(End::Done);
    }
    let notebook = places::absolute(&places::notebook(global)?)?;
    let conditions = prepare_for(&plan, &arguments.gate.fail_if, &notebook, Provenance::Lab)?;
    // What cannot be written is told before anything is booted.
    Notebook::create(&notebook)?;
    let interrupt = Interrupt::catch()?;
    let request = request((&study, &source), &notebook, (arguments.seed, arguments.new), &interrupt);
    let mut watching = Watching::default();
    let mut guests = Guests::boot(spec, &study, home, interrupt.flag(), &mut watching)?;
    let measured = session::run(&request, &mut guests, &mut watching)?;
    conclude(global, &measured, Length::of(arguments.full), &conditions, arguments.gate.junit.as_deref())
}

/// The study, with the kernels that were asked for: one is the machine's, several are a factor. What is added
/// is added to the text, so that what the notebook keeps says all of it.
fn read(arguments: &LabRun) -> Result<ReadStudy> {
    let ReadStudy { mut study, source } = read_study_for_lab(&arguments.study)?;
    let kernels = &arguments.kernels;
    if kernels.is_empty() {
        return Ok(ReadStudy { study, source });
    }
    if preflight::varies_kernels(&study) {
        let name = &study.name;
        return Err(
            Usage(format!("the study `{name}` varies the kernel itself; leave `--kernel` out")).into()
        );
    }
    if let [only] = kernels.as_slice() {
        study.lab.kernel = Some(only.clone());
        return Ok(ReadStudy { study, source });
    }
    let list: Vec<String> = kernels.iter().map(|kernel| format!("{kernel:?}")).collect();
    let text = format!(
        "{}\n\n# Added by `--kernel`.\n[factor.kernel]\nlab = \"kernel\"\nlevels = [{}]\n",
        source.text.trim_end(),
        list.join(", ")
    );
    let study = parse_study_for_lab(&text, &format!("{} with --kernel", source.shown))?;
    Ok(ReadStudy { study, source: StudySource { text: text.into(), ..source } })
}
