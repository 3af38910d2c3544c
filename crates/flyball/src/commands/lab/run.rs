//! `flyball lab run STUDY`: the loop over trials is here on the host, and each trial is measured by this same
//! program in a guest, where it is on an ordinary host.

use super::start;
use crate::args::{Global, LabRun};
use crate::commands::gate;
use crate::commands::run::{conclude, parse_study_for_lab, read_study_for_lab};
use crate::exit::{End, Usage};
use crate::interrupt::Interrupt;
use crate::results::Length;
use crate::terminal::Watching;
use crate::{places, typed};
use anyhow::Result;
use domain::Study;
use domain::plan::Plan;
use domain::rng::Seed;
use notebook::Notebook;
use session::guests::{Guests, LabSpec};
use session::{Begin, Request, preflight};

/// Runs a study in lab machines.
pub fn run(global: &Global, arguments: &LabRun) -> Result<End> {
    let (mut study, text) = read(arguments)?;
    study.lab = start::with_options(study.lab, &arguments.machine)?;
    let file = places::absolute(&arguments.study)?;
    let plan = Plan::new(study.clone(), Seed(0))?;
    preflight::in_the_lab(&plan)?;
    preflight::for_tools(&plan)?;
    let home = start::home(Some(&file));
    let spec = LabSpec::new(study.lab.clone(), start::flavour(&study), &home, start::places()?)?;
    if arguments.dry_run {
        return super::dry_run::show(&spec, study, arguments.seed);
    }
    let notebook = places::absolute(&places::notebook(global)?)?;
    let conditions = gate::prepare_for(&plan, &arguments.gate.fail_if, &notebook)?;
    // What cannot be written is told before anything is booted.
    Notebook::create(&notebook)?;
    let interrupt = Interrupt::catch()?;
    let request = Request {
        study: &study,
        text: &text,
        home: file.parent(),
        notebook: &notebook,
        seed: arguments.seed,
        begin: if arguments.new { Begin::Anew } else { Begin::Resume },
        limit: None,
        command: typed(),
        interrupt: interrupt.flag(),
    };
    let mut watching = Watching::default();
    let mut guests = Guests::boot(spec, &study, home, interrupt.flag(), &mut watching)?;
    let measured = session::run(&request, &mut guests, &mut watching)?;
    conclude(global, &measured, Length::of(arguments.full), &conditions, arguments.gate.junit.as_deref())
}

/// The study, with the kernels that were asked for: one is the machine's, several are a factor. What is added
/// is added to the text, so that what the notebook keeps says all of it.
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
