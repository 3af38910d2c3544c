//! Trials in lab machines: one machine at a time, started anew where a trial wants another kernel. The loop
//! over trials is on the host, and each trial is measured by this same program in a guest, where it is on an
//! ordinary host.

mod models;
mod spec;
pub(crate) mod tables;

pub use models::{Attached, LabModels};
pub use spec::{Console, LabPlaces, LabSpec, RunningGuest};
pub use tables::table_named_here;

use crate::availability;
use crate::backend::{Backend, Closed, KernelLog, MachineRecord, OpenRun, TrialError, TrialMade};
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::simulation::unlike_the_lab;
use crate::trial_loop::CANNOT_GO_ON;
use domain::Nanos;
use domain::ids::TrialKey;
use domain::plan::{Cell, Plan};
use domain::rng::Seed;
use domain::study::Study;
use domain::trial::{Disturbance, Provenance};
use lab::Awake;
use lab::guest::{Opening, Reply, Request};
use lab::image::Image;
use machine::ledger::RestoreReport;
use machine::{LocalMachine, Machine};
use notebook::Staging;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long making the target, or an inventory, may take in a guest.
const OPENING: Duration = Duration::from_secs(900);

/// How much longer than its own timeout a trial may take in a guest, from the begin of its workload to the
/// next word: the end of its processes, and settings put back.
const MARGIN: Duration = Duration::from_secs(60);

/// Where file targets are in a guest whose study does not say otherwise: in its memory.
const WORK: &str = "/run/flyball/work";

/// The machine that trials are made on.
pub struct Guests<'a> {
    spec: LabSpec,
    interrupt: &'a AtomicBool,
    /// The folder of the study file.
    home: PathBuf,
    record: MachineRecord,
    image: Image,
    /// The kernel of the machine that runs, as the study names it.
    kernel: Option<String>,
    /// Its table of P-states, likewise.
    pstates: Option<String>,
    running: Option<RunningGuest>,
    /// What each guest is told of the study; `None` until there is a run.
    opening: Option<Opening>,
    /// Whether the one that runs has been told.
    is_open: bool,
    /// How long a trial may take, in the guest's time, which is ours.
    patience: Duration,
    logs: Vec<KernelLog>,
    _awake: Awake,
}

impl<'a> Guests<'a> {
    /// A machine with the kernel of the study's first cell, calibrated, prepared, running, and inspected.
    ///
    /// # Errors
    /// Where there is no image, or the machine does not start.
    pub fn boot(
        mut spec: LabSpec,
        study: &Study,
        home: PathBuf,
        interrupt: &'a AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let plan = Plan::new(study.clone(), Seed(0))?;
        let first = plan.cells.first();
        let kernel = first.and_then(|cell| cell.kernel.clone());
        let pstates = first.and_then(|cell| cell.pstates.clone());
        spec.models.choose(pstates.as_deref());
        let image = spec.image(kernel.as_deref(), observer)?;
        let awake = Awake::keep();
        spec.calibrate(&image, interrupt, observer)?;
        let running = Some(spec.start(&image, Console::None, interrupt, observer)?);
        let mut guests = Self {
            spec,
            interrupt,
            home,
            record: MachineRecord { inventory: String::new(), identity: String::new() },
            image,
            kernel,
            pstates,
            running,
            opening: None,
            is_open: false,
            patience: MARGIN,
            logs: Vec::new(),
            _awake: awake,
        };
        guests.record = guests.inspect()?;
        Ok(guests)
    }

    fn inspect(&mut self) -> Result<MachineRecord> {
        self.running()?.vm.ask(&Request::Inspect, "while it was inspected")?;
        match self.reply(OPENING)? {
            Reply::Inspected { inventory, identity } => {
                let release = &self.image.kernel.release;
                Ok(MachineRecord {
                    inventory,
                    identity: self.spec.identity(&format!("{identity} {release}")),
                })
            }
            other => refused("be inspected", other),
        }
    }

    fn measure(
        &mut self,
        cell: &Cell,
        key: &TrialKey,
        staging: &mut Staging,
        observer: &mut dyn Observer,
    ) -> std::result::Result<TrialMade, TrialError> {
        self.switch(cell, observer).map_err(broken)?;
        let RunningGuest { vm, disks } = self.running().map_err(broken)?;
        // What the disks did between trials belongs to none.
        disks.take_account();
        disks.take_complaints();
        let request =
            Request::Trial { block: key.block, cell: key.cell.as_str().to_owned(), attempt: key.attempt };
        vm.ask(&request, "while it measured").map_err(broken)?;
        let paced_from = self.take_in(staging)?;
        self.account(paced_from, staging).map_err(broken)
    }

    /// The trial that was taken in, with what is known from outside its guest.
    fn account(&mut self, paced_from: Option<Nanos>, staging: &mut Staging) -> Result<TrialMade> {
        let (mut trial, script) = staging.taken_in()?;
        let dilated = self.spec.dilated();
        let RunningGuest { vm, disks } = self.running()?;
        let (record, served, complaints) = (vm.record()?, disks.take_account(), disks.take_complaints());
        self.spec.models.account(&record, served, dilated, paced_from, &mut trial)?;
        for complaint in complaints {
            let detail = format!("a disk's server complained: {complaint}");
            trial.disturb(Disturbance { kind: "disk-server".into(), detail });
        }
        Ok(TrialMade { trial, script, restored: RestoreReport::default(), storage: None })
    }

    /// Takes in the files of a trial as they come; gives when it began to be paced.
    fn take_in(&mut self, staging: &Staging) -> std::result::Result<Option<Nanos>, TrialError> {
        let (patience, interrupt) = (self.patience, self.interrupt);
        let RunningGuest { vm, disks } = self.running().map_err(broken)?;
        loop {
            match vm.receive(patience, interrupt).map_err(broken)? {
                // What made the target belongs to no trial either.
                (Reply::Begun, _) => drop(disks.take_account()),
                (Reply::File { path }, piece) => {
                    let mut file = staging.take_in(&path).map_err(broken)?;
                    let failed = Error::during("cannot store what the guest measured");
                    file.write_all(&piece).map_err(|error| broken(failed(error)))?;
                }
                (Reply::Measured { paced_from_ns }, _) => return Ok(paced_from_ns.map(Nanos::new)),
                (Reply::Unsupported { why }, _) => return Err(TrialError::Unsupported(why)),
                (other, _) => return refused("measure a trial", other).map_err(broken),
            }
        }
    }

    /// Sees to it that the machine runs the kernel that a cell wants, has its P-states, and knows the study.
    fn switch(&mut self, cell: &Cell, observer: &mut dyn Observer) -> Result<()> {
        if self.kernel != cell.kernel || self.pstates != cell.pstates || self.running.is_none() {
            self.stop();
            self.image = self.spec.image(cell.kernel.as_deref(), observer)?;
            self.spec.models.choose(cell.pstates.as_deref());
            self.kernel.clone_from(&cell.kernel);
            self.pstates.clone_from(&cell.pstates);
            self.running = Some(self.spec.start(&self.image, Console::None, self.interrupt, observer)?);
            self.is_open = false;
        }
        if self.is_open {
            return Ok(());
        }
        let opening = self.opening.clone().expect("it is opened before its first trial");
        self.running()?.vm.ask(&Request::Open(opening), "while it made the target")?;
        match self.reply(OPENING)? {
            Reply::Done => {
                self.is_open = true;
                Ok(())
            }
            other => refused("make the study's target", other),
        }
    }

    fn running(&mut self) -> Result<&mut RunningGuest> {
        let ended = || Error::Refused("the lab machine does not run any more".into());
        self.running.as_mut().ok_or_else(ended)
    }

    fn reply(&mut self, patience: Duration) -> Result<Reply> {
        let interrupt = self.interrupt;
        Ok(self.running()?.vm.receive(patience, interrupt)?.0)
    }

    fn stop(&mut self) {
        let Some(running) = self.running.take() else { return };
        let log = running.vm.log();
        running.vm.power_off();
        let name = format!("{:02}-{}.log", self.logs.len(), self.image.kernel.release);
        let when = LocalMachine.now().iso().replace([':', '.'], "-");
        self.logs.push(KernelLog { name: format!("guest-{when}-{name}"), text: log.text() });
    }
}

impl Backend for Guests<'_> {
    fn provenance(&self) -> Provenance {
        Provenance::Lab
    }

    fn machine(&self) -> &MachineRecord {
        &self.record
    }

    fn unavailable(&self, plan: &Plan) -> BTreeMap<usize, String> {
        availability::not_in_the_lab(plan)
    }

    /// Says which study is to be measured. Each machine is told when its first trial comes.
    fn open(&mut self, run: &OpenRun<'_>, _: &mut dyn Observer) -> Result<()> {
        let dilation = self.spec.dilation();
        let (study, run) = (&run.plan.study, run.folder.run());
        let all = Duration::from(study.measure.timeout) + Duration::from(study.measure.settle) + MARGIN;
        self.patience = all.mul_f64(dilation);
        self.opening = Some(Opening {
            study: run.study_text.clone(),
            run: run.id.0.clone(),
            seed: run.seed.0,
            machine: run.machine.clone(),
            stretched: self.spec.dilated().stretched,
            slowed: self.spec.dilated().slowed,
            paced: self.spec.is_paced(),
            events: study.measure.events.as_ref().map(ToString::to_string),
            events_apart: study.measure.events_apart,
            work: study.lab.work.clone().unwrap_or_else(|| WORK.to_owned()),
        });
        Ok(())
    }

    fn run_trial(
        &mut self,
        run: &OpenRun<'_>,
        cell: &Cell,
        key: &TrialKey,
        staging: &mut Staging,
        observer: &mut dyn Observer,
    ) -> std::result::Result<TrialMade, TrialError> {
        match other_machine(&run.plan.study, cell, &self.home) {
            Some(why) => Err(TrialError::Unsupported(why)),
            None => self.measure(cell, key, staging, observer),
        }
    }

    fn close(&mut self) -> Result<Closed> {
        self.stop();
        Ok(Closed { restored: RestoreReport::default(), logs: std::mem::take(&mut self.logs) })
    }
}

/// Why a lab machine cannot be the one that a level of this cell is about. A level that names P-states says
/// itself which lab machine is meant. The machine of `[sim]` is the simulation's alone.
fn other_machine(study: &Study, cell: &Cell, home: &Path) -> Option<String> {
    let levels = study.factors.iter().flat_map(|factor| {
        let chosen = cell.levels.get(&factor.name);
        factor.levels.iter().filter(move |level| Some(&level.name) == chosen)
    });
    let machines =
        levels.filter(|level| level.pstates.is_none()).filter_map(|level| level.machine.as_deref());
    machines.filter_map(|machine| unlike_the_lab(machine, home)).next()
}

/// Why a run of which a machine has failed cannot go on.
fn broken(error: impl Into<Error>) -> TrialError {
    match error.into() {
        error if error.is_interrupt() => TrialError::Interrupted,
        error @ Error::Lab(_) => TrialError::Broken(Error::during(CANNOT_GO_ON)(error)),
        other => TrialError::Broken(other),
    }
}

fn refused<T>(what: &str, reply: Reply) -> Result<T> {
    Err(Error::Refused(match reply {
        Reply::Failed { why } => format!("the guest cannot {what}: {why}"),
        other => format!("the guest was asked to {what}, and answered {other:?}; please report this"),
    }))
}
