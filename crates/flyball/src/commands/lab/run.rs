//! `flyball lab run STUDY`: the loop over trials is here on the host, and each trial is measured by this same program in
//! a guest, where it is on an ordinary host.

use super::start::{self, Running, Workshop};
use crate::args::{Global, LabRun};
use crate::commands::run::{end, read_study};
use crate::course::{self, CANNOT_GO_ON, Course, Ended, Made, NotMade};
use crate::exit::End;
use crate::interrupt::Interrupt;
use crate::measuring::{Begin, Measured, RunOrder, run_folder};
use crate::results::Results;
use crate::{places, preflight, put};
use ::lab::guest::{Opening, Reply, Request};
use ::lab::image::Image;
use anyhow::{Context, Result, bail};
use domain::plan::{Cell, Plan};
use domain::rng::Seed;
use domain::trial::{Disturbance, Provenance, TrialKey};
use domain::{Nanos, Study};
use machine::ledger::RestoreReport;
use machine::{LocalMachine, Machine};
use notebook::{Notebook, RunFolder, Staging};
use std::io::Write;
use std::time::Duration;

/// How long making the target may take in a guest.
const OPENING: Duration = Duration::from_secs(900);

/// How much longer than its own timeout a trial may take in a guest, from the begin of its workload to the next word: the
/// end of its processes, and settings put back.
const MARGIN: Duration = Duration::from_secs(60);

/// Where file targets are in a guest whose study does not say otherwise: in its memory.
const WORK: &str = "/run/flyball/work";

/// Runs a study in lab machines.
pub fn run(global: &Global, arguments: &LabRun) -> Result<End> {
    let (study, text) = read_study(&arguments.study)?;
    let file = places::absolute(&arguments.study)?;
    let notebook = Notebook::create(&places::absolute(&places::notebook(global)?)?)?;
    let lab = start::with_options(study.lab.clone(), &arguments.machine)?;
    preflight::in_itself(&Plan::new(study.clone(), Seed(0))?)?;
    let mut workshop = Workshop::new(lab, &start::home(Some(&file)))?;
    let interrupt = Interrupt::catch()?;
    let image = workshop.image(arguments.kernels.first().map(String::as_str))?;
    workshop.calibrate(&image, interrupt.flag())?;
    let mut bed = Bed { workshop: &workshop, image, interrupt: &interrupt, running: None, opened: None };
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
    let ended = bed.measure(study, &text, &folder);
    bed.end(Some(&folder))?;
    let ended = ended?;
    if ended == Ended::AllMeasured {
        folder.finish(LocalMachine.now())?;
    }
    let run = folder.run().id.clone();
    let measured = Measured { notebook, run, interrupted: ended == Ended::Interrupted, left_alone: false };
    let results = Results::load(&measured.notebook, &measured.run, None)?;
    put(&if global.json { report::json(&results.report()) } else { report::text(&results.report()) })?;
    eprintln!("`flyball report {}` writes the page", measured.run);
    Ok(end(&measured, &results))
}

/// The machine that trials are made on, one at a time.
struct Bed<'a> {
    workshop: &'a Workshop,
    image: Image,
    interrupt: &'a Interrupt,
    running: Option<Running>,
    /// What the guest is told of the study, once there is a run.
    opened: Option<Opening>,
}

impl Bed<'_> {
    /// What the first machine is. It goes on running.
    fn inspect(&mut self) -> Result<(String, String)> {
        let mut running = self.workshop.start(&self.image, false, Seed(0), self.interrupt.flag())?;
        running.vm.ask(&Request::Inspect, "while it was inspected")?;
        let reply = running.vm.receive(OPENING, self.interrupt.flag())?.0;
        self.running = Some(running);
        match reply {
            Reply::Inspected { inventory, identity } => Ok((inventory, self.workshop.identity(&identity))),
            other => refused("be inspected", other),
        }
    }

    fn measure(&mut self, study: Study, text: &str, folder: &RunFolder) -> Result<Ended> {
        let plan = Plan::new(study, folder.run().seed)?;
        let (mut schedule, before) = course::schedule(&plan, folder)?;
        if schedule.next().is_none() {
            return Ok(Ended::AllMeasured);
        }
        self.opened = Some(Opening {
            study: text.to_owned(),
            run: folder.run().id.0.clone(),
            seed: folder.run().seed.0,
            machine: folder.run().machine.clone(),
            dilation: self.workshop.dilation(),
            paced: self.workshop.is_paced(),
            work: plan.study.lab.work.clone().unwrap_or_else(|| WORK.to_owned()),
        });
        self.open()?;
        let patience = self.patience(&plan);
        let ground = || Ok(());
        let course = Course { plan: &plan, folder, interrupt: self.interrupt, limit: None, ground: &ground };
        course.measure_all(&mut schedule, before, &mut |cell, key, staging| {
            self.trial(cell, key, staging, patience)
        })
    }

    fn open(&mut self) -> Result<()> {
        let opening = self.opened.clone().context("a machine is opened for a study before there is a run")?;
        let vm = &mut self.running.as_mut().context("there is no machine")?.vm;
        vm.ask(&Request::Open(opening), "while it made the target")?;
        match vm.receive(OPENING, self.interrupt.flag())?.0 {
            Reply::Done => Ok(()),
            other => refused("make the study's target", other),
        }
    }

    /// How long a trial may take at most, in the guest's time, which is ours.
    fn patience(&self, plan: &Plan) -> Duration {
        let measure = &plan.study.measure;
        let all = Duration::from(measure.timeout) + Duration::from(measure.settle) + MARGIN;
        all.mul_f64(self.workshop.dilation())
    }

    fn trial(
        &mut self,
        cell: &Cell,
        key: &TrialKey,
        staging: &mut Staging,
        patience: Duration,
    ) -> Result<Made, NotMade> {
        let _ = cell;
        let running = self.running.as_mut().context("there is no machine").map_err(NotMade::Broken)?;
        let Running { vm, disks } = running;
        let request =
            Request::Trial { block: key.block, cell: key.cell.as_str().to_owned(), attempt: key.attempt };
        // What the disks did between trials belongs to none.
        disks.take_account();
        vm.ask(&request, "while it measured").map_err(lost)?;
        let paced_from = loop {
            match vm.receive(patience, self.interrupt.flag()).map_err(lost)? {
                (Reply::File { path }, piece) => {
                    let mut file = staging.take_in(&path).map_err(|e| NotMade::Broken(e.into()))?;
                    file.write_all(&piece)
                        .context("cannot store what the guest measured")
                        .map_err(NotMade::Broken)?;
                }
                (Reply::Measured { paced_from_ns }, _) => break paced_from_ns.map(Nanos::new),
                (Reply::Unsupported { why }, _) => return Err(NotMade::Unsupported(why)),
                (other, _) => {
                    return Err(NotMade::Broken(refused::<()>("measure a trial", other).unwrap_err()));
                }
            }
        };
        let (mut trial, script) = staging.taken_in().map_err(|e| NotMade::Broken(e.into()))?;
        let record = vm.record().map_err(lost)?;
        let dilation = self.workshop.dilation();
        let loaded = &self.workshop.loaded;
        loaded
            .account(&record, disks.take_account(), dilation, paced_from, &mut trial)
            .map_err(NotMade::Broken)?;
        for complaint in disks.take_complaints() {
            let detail = format!("a disk's server complained: {complaint}");
            trial.disturb(Disturbance { kind: "disk-server".into(), detail });
        }
        Ok(Made { trial, script, restored: RestoreReport::default() })
    }

    /// Ends the machine, and keeps its kernel's log with the run.
    fn end(&mut self, folder: Option<&RunFolder>) -> Result<()> {
        let Some(running) = self.running.take() else { return Ok(()) };
        let log = running.vm.log();
        running.vm.power_off();
        let Some(folder) = folder else { return Ok(()) };
        let release = &self.image.kernel.release;
        let name = format!("guest-{release}-{}.log", LocalMachine.now().unix_nanos() / 1_000_000);
        Ok(folder.keep_log(&name, &log.text())?)
    }
}

fn lost(error: ::lab::Error) -> NotMade {
    match error {
        ::lab::Error::Interrupted => NotMade::Interrupted,
        other => NotMade::Broken(anyhow::Error::new(other).context(CANNOT_GO_ON)),
    }
}

fn refused<T>(what: &str, reply: Reply) -> Result<T> {
    match reply {
        Reply::Failed { why } => bail!("the guest cannot {what}: {why}"),
        other => bail!("the guest was asked to {what}, and answered {other:?}; please report this"),
    }
}
