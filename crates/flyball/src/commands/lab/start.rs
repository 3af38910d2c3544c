//! From what was typed to a machine that runs.

use super::loaded::{Attached, Loaded};
use crate::args::{LabMachine, LabShell};
use crate::commands::run::read_study_for_lab;
use crate::exit::{Busy, Usage};
use crate::measuring::fresh_seed;
use crate::{places, terminal};
use ::lab::calibrate::{self, Fit};
use ::lab::guest::{Reply, Request};
use ::lab::image::{self, Flavour, Image};
use ::lab::kernel::Kernels;
use ::lab::pacing;
use ::lab::vm::{PStatesSpec, Spec, Vm};
use ::lab::{Error, KeptDisks};
use anyhow::{Context, Result, bail};
use domain::lab::{Dilation, Lab, LabDisk};
use domain::rng::Seed;
use domain::study::Study;
use domain::units::Bytes;
use machine::{LocalMachine, Machine};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use workloads::Needs;

/// How long a preparation may take: filesystems are made, arrays resynchronise.
const PREPARATION: Duration = Duration::from_secs(900);

/// How long the guest works to show how fast this host can pace it: long enough for a hundred processes.
const CALIBRATION: Duration = Duration::from_millis(1500);

/// How often it is tried where other load of the host kept the guest from working.
const CALIBRATIONS: u32 = 4;

/// The marks that the guest sets around that work.
const MARKS: (u8, u8) = (2, 3);

/// What machines are made of, whichever kernel they run.
pub struct Workshop {
    /// What the study, or the command line, asks for.
    pub lab: Lab,
    /// The tables and models that it names.
    pub loaded: Loaded,
    /// Where its disks are kept, if they are.
    kept: Option<KeptDisks>,
    /// What is random about its machines: where platters stand, and what a power cut leaves.
    seed: Seed,
    kernels: Kernels,
    flavour: Flavour,
    images: PathBuf,
    program: PathBuf,
    qemu: Option<PathBuf>,
}

/// A machine that runs, and the disks that it has.
pub struct Running {
    /// The machine.
    pub vm: Vm,
    /// Its disks; dropped after it.
    pub disks: Attached,
}

impl Workshop {
    /// For this machine. `home` is the folder of the study, from which its files are named.
    pub fn new(lab: Lab, flavour: Flavour, home: &Path) -> Result<Self> {
        let cache = places::cache()?;
        let program = std::env::current_exe()
            .context("cannot find this program's own file, to put it into the guest")?;
        Ok(Self {
            loaded: Loaded::read(&lab, home, &program)?,
            lab,
            kept: None,
            seed: Seed(0),
            kernels: Kernels::new(&cache.join("kernels")),
            flavour,
            images: cache.join("images"),
            program,
            qemu: places::qemu(),
        })
    }

    /// Keeps the disks of its machines in a folder. Nobody else can use that until this is dropped.
    fn keep_disks(&mut self, folder: &Path, seed: Option<u64>) -> Result<()> {
        if self.lab.disks.is_empty() {
            let text = "cannot keep the disks of a machine that has none; give it one with --disk MODEL:SIZE, or a study \
                        that has some with --study";
            return Err(Usage(text.into()).into());
        }
        self.kept = Some(KeptDisks::open(folder).map_err(|error| match error {
            Error::DisksInUse { .. } => anyhow::Error::new(Busy(error.to_string())),
            other => other.into(),
        })?);
        self.seed = Seed(seed.unwrap_or_else(|| fresh_seed(LocalMachine.now())));
        terminal::say(format_args!("seed {}", self.seed.0));
        Ok(())
    }

    /// Ends a machine in order.
    pub fn power_off(&self, running: Running, interrupt: &AtomicBool) -> Result<()> {
        let Running { vm, disks: _disks } = running;
        match self.kept {
            Some(_) => Ok(vm.power_off_kept(interrupt)?),
            None => {
                vm.power_off();
                Ok(())
            }
        }
    }

    /// The image with this kernel, which is downloaded and built where it is missing.
    pub fn image(&self, kernel: Option<&str>) -> Result<Image> {
        let mut talk = |text: &str| terminal::say(text);
        let kernel = match kernel {
            Some(wanted) => self.kernels.get(wanted, &mut talk)?,
            None => self.kernels.get_default(&mut talk)?,
        };
        Ok(image::make(&self.images, &kernel, &self.program, self.flavour, &mut talk)?)
    }

    /// How many times slower the machine is than the one that it stands for.
    pub fn dilation(&self) -> f64 {
        match (&self.loaded.fit, self.lab.dilation) {
            (Some(fit), _) => fit.dilation,
            (None, Dilation::Fixed(dilation)) => dilation,
            // Without P-states nothing is paced, and there is nothing to fit.
            (None, Dilation::Auto) => 1.0,
        }
    }

    /// Whether its CPUs are paced.
    pub fn is_paced(&self) -> bool {
        self.loaded.table.is_some()
    }

    /// What identifies the machine: the guest's own digest, and everything that the guest cannot see.
    pub fn identity(&self, guest: &str) -> String {
        ::lab::digest(&format!("{guest} {}", self.loaded.describe(&self.lab, self.dilation())))
    }

    /// Finds out how fast this host can pace the machine's CPUs, and what that makes of its pace and dilation.
    ///
    /// A machine without P-states is not asked. One that the host kept from its work is asked again, a few times.
    pub fn calibrate(&mut self, image: &Image, interrupt: &AtomicBool) -> Result<()> {
        let Some(table) = self.loaded.table.clone() else { return Ok(()) };
        let mut left = CALIBRATIONS;
        let rates = loop {
            left -= 1;
            match self.rates(image, interrupt)? {
                Ok(rates) => break rates,
                Err(error) if left > 0 => terminal::say(format_args!("{error}; once more")),
                Err(error) => return Err(error).context("this host is too busy with other things"),
            }
        };
        let fit = calibrate::fit(&table, self.lab.dilation, &rates)?;
        let Fit { pace, dilation, headroom } = fit;
        terminal::say(format_args!(
            "pace {:.0} million instructions a second, headroom {headroom:.1}, time dilation {dilation:.3}",
            pace / 1e6
        ));
        self.loaded.table = Some(domain::lab::PStateTable { pace, ..table });
        self.loaded.fit = Some(fit);
        Ok(())
    }

    /// What each virtual CPU executes a second, unpaced; the inner error where that could not be seen.
    fn rates(
        &self,
        image: &Image,
        interrupt: &AtomicBool,
    ) -> Result<std::result::Result<Vec<f64>, calibrate::Error>> {
        let mut vm = persistently(|| Ok(Vm::start(self.spec(image, false), interrupt)?))?;
        let span_ms = u64::try_from(CALIBRATION.as_millis()).expect("it is short");
        vm.ask(&Request::Calibrate { span_ms }, "while it was calibrated")?;
        match vm.receive(CALIBRATION * 20, interrupt)?.0 {
            Reply::Done => {}
            Reply::Failed { why } => bail!("cannot calibrate the lab machine: {why}"),
            other => bail!("the guest answered its calibration with {other:?}; please report this"),
        }
        let record = pacing::parse(&vm.record()?)?;
        vm.power_off();
        let marks = (record.last_control(MARKS.0), record.last_control(MARKS.1));
        let (Some(from), Some(to)) = marks else {
            bail!(
                "cannot calibrate the lab machine: the plugin saw none of the guest's marks; please report this"
            );
        };
        Ok(calibrate::rates(from, to))
    }

    /// Starts a machine, and prepares it as the study asks.
    pub fn start(&self, image: &Image, console: bool, interrupt: &AtomicBool) -> Result<Running> {
        let (mut vm, disks) = persistently(|| {
            let kept = self.kept.as_ref();
            let mut disks = self.loaded.attach(&self.lab, kept, self.dilation(), self.seed)?;
            let mut spec = self.spec(image, console);
            spec.disks = disks.take_ends();
            Ok((Vm::start(spec, interrupt)?, disks))
        })?;
        let prepare = Request::Prepare {
            modules: self.lab.modules.clone(),
            lines: self.lab.prepare.clone(),
            paced: self.is_paced(),
            dilation: self.dilation(),
        };
        vm.ask(&prepare, "while it prepared")?;
        match vm.receive(PREPARATION, interrupt)?.0 {
            Reply::Done => Ok(Running { vm, disks }),
            Reply::Failed { why } => bail!("cannot prepare the lab machine: {why}"),
            other => bail!("the guest answered its preparation with {other:?}; please report this"),
        }
    }

    fn spec<'a>(&'a self, image: &'a Image, console: bool) -> Spec<'a> {
        Spec {
            qemu: self.qemu.as_deref(),
            image,
            vcpus: self.lab.vcpus,
            memory: self.lab.memory,
            pstates: self
                .loaded
                .table
                .as_ref()
                .map(|table| PStatesSpec { table, plugin: &self.loaded.plugin }),
            disks: Vec::new(),
            console,
        }
    }
}

/// How often a machine is started where QEMU fails by a mistake of its own.
const STARTS: u32 = 4;

/// Starts a machine, and again where QEMU itself failed in a way that is known to be rare.
fn persistently<T>(mut start: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..STARTS {
        match start() {
            Err(error) if error.downcast_ref().is_some_and(Error::is_mistake_of_qemu) => {
                terminal::say("QEMU failed an assertion of its own while it started; starting it again");
            }
            other => return other,
        }
    }
    start()
}

/// The machine that `lab shell` and `lab exec` want.
pub fn workshop(arguments: &LabShell) -> Result<Workshop> {
    let (lab, flavour) = match &arguments.study {
        Some(file) => {
            let study = read_study_for_lab(file)?.0;
            let flavour = flavour(&study);
            (study.lab, flavour)
        }
        None => (Lab::default(), Flavour::Plain),
    };
    let lab = with_options(lab, &arguments.machine)?;
    let mut workshop = Workshop::new(lab, flavour, &home(arguments.study.as_deref()))?;
    if let Some(folder) = &arguments.keep_disks {
        workshop.keep_disks(folder, arguments.seed)?;
    }
    Ok(workshop)
}

/// What a guest needs to have for a study.
pub fn flavour(study: &Study) -> Flavour {
    let asks = study.workloads.iter().any(|w| workloads::of(&w.tool).needs() == Needs::Server);
    if asks { Flavour::Databases } else { Flavour::Plain }
}

/// What was typed wins over what a study says.
pub fn with_options(mut lab: Lab, options: &LabMachine) -> Result<Lab> {
    if let Some(table) = &options.pstates {
        lab.pstates = Some(table.clone());
    }
    lab.vcpus = options.vcpus.unwrap_or(lab.vcpus);
    lab.memory = options.memory.unwrap_or(lab.memory);
    if !options.disks.is_empty() {
        let disks = options.disks.iter().enumerate().map(|(index, text)| disk(index, text));
        lab.disks = disks.collect::<Result<_>>()?;
    }
    Ok(lab)
}

fn disk(index: usize, text: &str) -> Result<LabDisk> {
    let (model, size) = match text.rsplit_once(':') {
        Some((model, size)) => {
            let hint = || Usage(format!("cannot read the size `{size}` of `{text}`; write 1GiB, or 500MB"));
            (model, Some(Bytes::parse(size).ok_or_else(hint)?))
        }
        None => (text, None),
    };
    Ok(LabDisk { name: format!("disk{index}"), model: model.to_owned(), size, link: None })
}

/// The folder that a study's own files are looked for in.
pub fn home(study: Option<&Path>) -> PathBuf {
    study.and_then(Path::parent).map_or_else(PathBuf::new, Path::to_owned)
}
