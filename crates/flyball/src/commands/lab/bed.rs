//! The machine that a study's trials are made on: one at a time, started anew where a trial wants another kernel.

use super::start::{Running, Workshop};
use crate::course::{CANNOT_GO_ON, Made, NotMade};
use crate::interrupt::Interrupt;
use ::lab::Awake;
use ::lab::guest::{Opening, Reply, Request};
use ::lab::image::Image;
use anyhow::{Context, Result, anyhow, bail};
use domain::Nanos;
use domain::plan::{Cell, Plan};
use domain::trial::{Disturbance, Run, TrialKey};
use machine::ledger::RestoreReport;
use machine::{LocalMachine, Machine};
use notebook::Staging;
use std::io::Write;
use std::time::Duration;

/// How long making the target, or an inventory, may take in a guest.
const OPENING: Duration = Duration::from_secs(900);

/// How much longer than its own timeout a trial may take in a guest, from the begin of its workload to the next word: the
/// end of its processes, and settings put back.
const MARGIN: Duration = Duration::from_secs(60);

/// Where file targets are in a guest whose study does not say otherwise: in its memory.
const WORK: &str = "/run/flyball/work";

/// What a guest's kernel printed.
pub struct KernelLog {
    /// A file's name.
    pub name: String,
    pub text: String,
}

/// The machine that trials are made on.
pub struct Bed<'a> {
    workshop: Workshop,
    interrupt: &'a Interrupt,
    image: Image,
    /// The kernel of the machine that runs, as the study names it.
    kernel: Option<String>,
    running: Option<Running>,
    /// What each guest is told of the study; `None` until there is a run.
    opening: Option<Opening>,
    /// Whether the one that runs has been told.
    is_open: bool,
    /// How long a trial may take, in the guest's time, which is ours.
    patience: Duration,
    logs: Vec<KernelLog>,
    _awake: Awake,
}

impl<'a> Bed<'a> {
    /// A machine with this kernel, calibrated, prepared and running.
    pub fn make(mut workshop: Workshop, kernel: Option<String>, interrupt: &'a Interrupt) -> Result<Self> {
        let image = workshop.image(kernel.as_deref())?;
        let awake = Awake::keep();
        workshop.calibrate(&image, interrupt.flag())?;
        let running = Some(workshop.start(&image, false, interrupt.flag())?);
        Ok(Self {
            workshop,
            interrupt,
            image,
            kernel,
            running,
            opening: None,
            is_open: false,
            patience: MARGIN,
            logs: Vec::new(),
            _awake: awake,
        })
    }

    /// What the machine is: its inventory as JSON, and what identifies it.
    pub fn inspect(&mut self) -> Result<(String, String)> {
        let Running { vm, .. } = self.running()?;
        vm.ask(&Request::Inspect, "while it was inspected")?;
        match self.reply(OPENING)? {
            Reply::Inspected { inventory, identity } => {
                let release = &self.image.kernel.release;
                Ok((inventory, self.workshop.identity(&format!("{identity} {release}"))))
            }
            other => refused("be inspected", other),
        }
    }

    /// Says which study is to be measured. Each machine is told when its first trial comes.
    pub fn open(&mut self, plan: &Plan, text: &str, run: &Run) {
        let dilation = self.workshop.dilation();
        let measure = &plan.study.measure;
        let all = Duration::from(measure.timeout) + Duration::from(measure.settle) + MARGIN;
        self.patience = all.mul_f64(dilation);
        self.opening = Some(Opening {
            study: text.to_owned(),
            run: run.id.0.clone(),
            seed: run.seed.0,
            machine: run.machine.clone(),
            dilation,
            paced: self.workshop.is_paced(),
            work: plan.study.lab.work.clone().unwrap_or_else(|| WORK.to_owned()),
        });
    }

    /// Makes one trial.
    pub fn trial(&mut self, cell: &Cell, key: &TrialKey, staging: &mut Staging) -> Result<Made, NotMade> {
        self.measure(cell, key, staging).map_err(|error| match error.downcast::<::lab::Error>() {
            Ok(::lab::Error::Interrupted) => NotMade::Interrupted,
            Ok(other) => NotMade::Broken(anyhow::Error::new(other).context(CANNOT_GO_ON)),
            Err(other) => match other.downcast::<Unsupported>() {
                Ok(Unsupported(why)) => NotMade::Unsupported(why),
                Err(other) => NotMade::Broken(other),
            },
        })
    }

    fn measure(&mut self, cell: &Cell, key: &TrialKey, staging: &mut Staging) -> Result<Made> {
        self.switch(cell)?;
        let Running { vm, disks } = self.running()?;
        // What the disks did between trials belongs to none.
        disks.take_account();
        disks.take_complaints();
        let request =
            Request::Trial { block: key.block, cell: key.cell.as_str().to_owned(), attempt: key.attempt };
        vm.ask(&request, "while it measured")?;
        let paced_from = self.take_in(staging)?;
        let (mut trial, script) = staging.taken_in()?;
        let dilation = self.workshop.dilation();
        let Running { vm, disks } = self.running()?;
        let (record, served, complaints) = (vm.record()?, disks.take_account(), disks.take_complaints());
        self.workshop.loaded.account(&record, served, dilation, paced_from, &mut trial)?;
        for complaint in complaints {
            let detail = format!("a disk's server complained: {complaint}");
            trial.disturb(Disturbance { kind: "disk-server".into(), detail });
        }
        Ok(Made { trial, script, restored: RestoreReport::default() })
    }

    /// Takes in the files of a trial as they come; gives when it began to be paced.
    fn take_in(&mut self, staging: &Staging) -> Result<Option<Nanos>> {
        let patience = self.patience;
        let flag = self.interrupt.flag();
        let Running { vm, disks } = self.running()?;
        loop {
            match vm.receive(patience, flag)? {
                // What made the target belongs to no trial either.
                (Reply::Begun, _) => drop(disks.take_account()),
                (Reply::File { path }, piece) => {
                    let written = staging.take_in(&path)?.write_all(&piece);
                    written.context("cannot store what the guest measured")?;
                }
                (Reply::Measured { paced_from_ns }, _) => return Ok(paced_from_ns.map(Nanos::new)),
                (Reply::Unsupported { why }, _) => return Err(Unsupported(why).into()),
                (other, _) => return refused("measure a trial", other),
            }
        }
    }

    /// Sees to it that the machine runs the kernel that a cell wants, and knows the study.
    fn switch(&mut self, cell: &Cell) -> Result<()> {
        if self.kernel != cell.kernel || self.running.is_none() {
            self.stop();
            self.image = self.workshop.image(cell.kernel.as_deref())?;
            self.kernel.clone_from(&cell.kernel);
            self.running = Some(self.workshop.start(&self.image, false, self.interrupt.flag())?);
            self.is_open = false;
        }
        if self.is_open {
            return Ok(());
        }
        let opening = self.opening.clone().ok_or_else(|| anyhow!("a trial was begun before its run"))?;
        self.running()?.vm.ask(&Request::Open(opening), "while it made the target")?;
        match self.reply(OPENING)? {
            Reply::Done => {
                self.is_open = true;
                Ok(())
            }
            other => refused("make the study's target", other),
        }
    }

    fn running(&mut self) -> Result<&mut Running> {
        self.running.as_mut().context("the lab machine does not run any more")
    }

    fn reply(&mut self, patience: Duration) -> Result<Reply> {
        let flag = self.interrupt.flag();
        Ok(self.running()?.vm.receive(patience, flag)?.0)
    }

    fn stop(&mut self) {
        let Some(running) = self.running.take() else { return };
        let log = running.vm.log();
        running.vm.power_off();
        let name = format!("{:02}-{}.log", self.logs.len(), self.image.kernel.release);
        let when = LocalMachine.now().iso().replace([':', '.'], "-");
        self.logs.push(KernelLog { name: format!("guest-{when}-{name}"), text: log.text() });
    }

    /// Ends the machine; gives what the kernels printed.
    pub fn end(&mut self) -> Vec<KernelLog> {
        self.stop();
        std::mem::take(&mut self.logs)
    }
}

/// A cell cannot run on this machine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unsupported(String);

fn refused<T>(what: &str, reply: Reply) -> Result<T> {
    match reply {
        Reply::Failed { why } => bail!("the guest cannot {what}: {why}"),
        other => bail!("the guest was asked to {what}, and answered {other:?}; please report this"),
    }
}
