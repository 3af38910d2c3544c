//! What a lab machine is made of, and a machine that runs.

use super::models::{Attached, LabModels};
use crate::error::{Error, Result};
use crate::observer::{Event, Observer};
use domain::lab::{Dilated, Dilation, Lab, Pacing};
use domain::rng::Seed;
use lab::calibrate::{self, Fit};
use lab::guest::{Reply, Request};
use lab::image::{self, Flavour, Image};
use lab::kernel::Kernels;
use lab::vm::{PStatesSpec, Spec, Vm};
use lab::{KeptDisks, pacing};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long a preparation may take: filesystems are made, arrays resynchronise.
const PREPARATION: Duration = Duration::from_secs(900);

/// How long the guest works to show how fast this host can pace it: long enough for a hundred processes.
const CALIBRATION: Duration = Duration::from_millis(1500);

/// How often it is tried where other load of the host kept the guest from working.
const CALIBRATIONS: u32 = 4;

/// The marks that the guest sets around that work.
const MARKS: (u8, u8) = (2, 3);

/// Where the lab's things are.
#[derive(Clone, Debug)]
pub struct LabPlaces {
    /// Kernels and images.
    pub cache: PathBuf,
    /// This program, which is put into guests.
    pub program: PathBuf,
    /// QEMU, where it is not the one in the usual folders.
    pub qemu: Option<PathBuf>,
    /// QEMU's plugin, where it is not beside this program.
    pub plugin: Option<PathBuf>,
}

/// What lab machines are made of, whichever kernel they run.
#[derive(Debug)]
pub struct LabSpec {
    /// What the study, or the command line, asks for.
    pub lab: Lab,
    /// The tables and models that it names.
    pub models: LabModels,
    /// Where its disks are kept, if they are.
    kept: Option<KeptDisks>,
    /// What is random about its machines: where platters stand, and what a power cut leaves.
    seed: Seed,
    kernels: Kernels,
    flavour: Flavour,
    images: PathBuf,
    places: LabPlaces,
}

/// A machine that runs, and the disks that it has.
pub struct RunningGuest {
    /// The machine.
    pub vm: Vm,
    /// Its disks; dropped after it.
    pub disks: Attached,
}

impl LabSpec {
    /// For this machine, and those that differ by one of these tables of P-states. `home` is the folder of
    /// the study, from which its files are named.
    ///
    /// # Errors
    /// [`Error::Usage`] where a table or model is not there or wrong; where the plugin is not found.
    pub fn new(
        lab: Lab,
        tables: &BTreeSet<String>,
        flavour: Flavour,
        home: &Path,
        places: LabPlaces,
    ) -> Result<Self> {
        Ok(Self {
            models: LabModels::read(&lab, tables, home, &places)?,
            lab,
            kept: None,
            seed: Seed(0),
            kernels: Kernels::new(&places.cache.join("kernels")),
            flavour,
            images: places.cache.join("images"),
            places,
        })
    }

    /// Keeps the disks of its machines in a folder. Nobody else can use that until this is dropped.
    ///
    /// # Errors
    /// [`Error::Usage`] where it has none; [`Error::Busy`] where somebody else uses them.
    pub fn keep_disks(&mut self, folder: &Path, seed: Seed) -> Result<()> {
        if self.lab.disks.is_empty() {
            let text = "cannot keep the disks of a machine that has none; give it one with --disk MODEL:SIZE, or a study \
                        that has some with --study";
            return Err(Error::Usage(text.into()));
        }
        self.kept = Some(KeptDisks::open(folder).map_err(|error| match error {
            lab::Error::DisksInUse { .. } => Error::Busy(error.to_string()),
            other => other.into(),
        })?);
        self.seed = seed;
        Ok(())
    }

    /// Ends a machine in order.
    ///
    /// # Errors
    /// Where disks that are kept may not have all that was written.
    pub fn power_off(&self, running: RunningGuest, interrupt: &AtomicBool) -> Result<()> {
        let RunningGuest { vm, disks: _disks } = running;
        match self.kept {
            Some(_) => Ok(vm.power_off_kept(interrupt)?),
            None => {
                vm.power_off();
                Ok(())
            }
        }
    }

    /// The image with this kernel, which is downloaded and built where it is missing.
    ///
    /// # Errors
    /// Those of the lab.
    pub fn image(&self, kernel: Option<&str>, observer: &mut dyn Observer) -> Result<Image> {
        let mut talk = |text: &str| observer.on(&Event::Talk(text));
        let kernel = match kernel {
            Some(wanted) => self.kernels.get(wanted, &mut talk)?,
            None => self.kernels.get_default(&mut talk)?,
        };
        Ok(image::make(&self.images, &kernel, &self.places.program, self.flavour, &mut talk)?)
    }

    /// How many times slower the machine is than the one that it stands for.
    pub fn dilation(&self) -> f64 {
        match (&self.models.fit, self.lab.dilation) {
            (Some(fit), _) => fit.dilation,
            (None, Dilation::Fixed(dilation)) => dilation,
            // Without P-states nothing is paced, and there is nothing to fit.
            (None, Dilation::Auto) => 1.0,
        }
    }

    /// The same, divided between what the guest stretches and its clock.
    pub fn dilated(&self) -> Dilated {
        self.lab.clock().divide(self.dilation())
    }

    /// Whether its CPUs are paced.
    pub fn is_paced(&self) -> bool {
        self.models.table().is_some()
    }

    /// What identifies the machine: the guest's own digest, and everything that the guest cannot see.
    pub fn identity(&self, guest: &str) -> String {
        lab::digest(&format!("{guest} {}", self.models.describe(&self.lab, self.dilation())))
    }

    /// Finds out how fast this host can pace the machine's CPUs, and what that makes of its pace and
    /// dilation.
    ///
    /// A machine without P-states is not asked. One that the host kept from its work is asked again, a few
    /// times.
    ///
    /// # Errors
    /// Where this host is too busy with other things; those of the lab.
    pub fn calibrate(
        &mut self,
        image: &Image,
        interrupt: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        if !self.is_paced() {
            return Ok(());
        }
        let mut left = CALIBRATIONS;
        let rates = loop {
            left -= 1;
            match self.rates(image, interrupt, observer)? {
                Ok(rates) => break rates,
                Err(error) if left > 0 => observer.on(&Event::Talk(&format!("{error}; once more"))),
                Err(error) => return Err(Error::during("this host is too busy with other things")(error)),
            }
        };
        let fit = self.models.fit(self.lab.dilation, &rates);
        let fit = fit.map_err(|error| Error::Refused(error.to_string()))?;
        let Some(Fit { pace, dilation, headroom }) = fit else { return Ok(()) };
        observer.on(&Event::Talk(&format!(
            "pace {} million instructions a second, headroom {headroom:.1}, time dilation {dilation:.3}",
            (pace / 1e5).round() / 10.0
        )));
        Ok(())
    }

    /// What each virtual CPU executes a second, unpaced; the inner error where that could not be seen.
    fn rates(
        &self,
        image: &Image,
        interrupt: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<std::result::Result<Vec<f64>, calibrate::Error>> {
        let mut vm = persistently(observer, || Ok(Vm::start(self.spec(image, false), interrupt)?))?;
        let span_ms = u64::try_from(CALIBRATION.as_millis()).expect("it is short");
        vm.ask(&Request::Calibrate { span_ms }, "while it was calibrated")?;
        match vm.receive(CALIBRATION * 20, interrupt)?.0 {
            Reply::Done => {}
            Reply::Failed { why } => {
                return Err(Error::Refused(format!("cannot calibrate the lab machine: {why}")));
            }
            other => {
                return Err(Error::Refused(format!(
                    "the guest answered its calibration with {other:?}; please report this"
                )));
            }
        }
        let record = pacing::parse(&vm.record()?)?;
        vm.power_off();
        let marks = (record.last_control(MARKS.0), record.last_control(MARKS.1));
        let (Some(from), Some(to)) = marks else {
            return Err(Error::Refused(
                "cannot calibrate the lab machine: the plugin saw none of the guest's marks; please report this".into(),
            ));
        };
        Ok(calibrate::rates(from, to))
    }

    /// Starts a machine, and prepares it as the study asks.
    ///
    /// # Errors
    /// Where it does not start, or what prepares it fails.
    pub fn start(
        &self,
        image: &Image,
        console: Console,
        interrupt: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<RunningGuest> {
        let (mut vm, disks) = persistently(observer, || {
            let kept = self.kept.as_ref();
            let mut disks = self.models.attach(&self.lab, kept, self.dilation(), self.seed)?;
            let mut spec = self.spec(image, console == Console::Open);
            spec.disks = disks.take_ends();
            Ok((Vm::start(spec, interrupt)?, disks))
        })?;
        let prepare = Request::Prepare {
            modules: self.lab.modules.clone(),
            lines: self.lab.prepare.clone(),
            paced: self.is_paced(),
            stretched: self.dilated().stretched,
        };
        vm.ask(&prepare, "while it prepared")?;
        match vm.receive(PREPARATION, interrupt)?.0 {
            Reply::Done => Ok(RunningGuest { vm, disks }),
            Reply::Failed { why } => Err(Error::Refused(format!("cannot prepare the lab machine: {why}"))),
            other => Err(Error::Refused(format!(
                "the guest answered its preparation with {other:?}; please report this"
            ))),
        }
    }

    /// By how much a virtual CPU fell behind its pace, in the worst of the spans in which they were paced;
    /// `None` where that is within the bound of a trial.
    ///
    /// # Errors
    /// Where the plugin's record cannot be read.
    pub fn lateness(&self, running: &RunningGuest) -> Result<Option<String>> {
        let Some(table) = self.models.table() else { return Ok(None) };
        let record = pacing::parse(&running.vm.record()?)?;
        let spans: Vec<Pacing> = record
            .spans
            .iter()
            .map(|span| span.pacing(table, record.pace))
            .collect::<std::result::Result<_, _>>()?;
        let late = spans.iter().filter_map(|span| Some((span.lateness()?, pacing::judge(span)?.detail)));
        let worst = late.max_by(|(a, _), (b, _)| a.total_cmp(b));
        Ok(worst.map(|(_, detail)| detail))
    }

    fn spec<'a>(&'a self, image: &'a Image, console: bool) -> Spec<'a> {
        Spec {
            qemu: self.places.qemu.as_deref(),
            image,
            vcpus: self.lab.vcpus,
            memory: self.lab.memory,
            pstates: self.models.table().map(|table| PStatesSpec {
                table,
                plugin: &self.models.plugin,
                dilated: self.dilated(),
            }),
            disks: Vec::new(),
            console,
        }
    }
}

/// How often a machine is started where QEMU fails by a mistake of its own.
const STARTS: u32 = 4;

/// Whether a machine has a console that can be typed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Console {
    /// It has none.
    None,
    /// It has one.
    Open,
}

/// Starts a machine, and again where QEMU itself failed in a way that is known to be rare.
fn persistently<T>(observer: &mut dyn Observer, mut start: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..STARTS {
        match start() {
            Err(Error::Lab(error)) if error.is_mistake_of_qemu() => {
                let text = "QEMU failed an assertion of its own while it started; starting it again";
                observer.on(&Event::Talk(text));
            }
            other => return other,
        }
    }
    start()
}
