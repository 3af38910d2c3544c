//! From what was typed to a machine that runs.

use crate::args::{LabMachine, LabShell};
use crate::commands::run::read_study;
use crate::places;
use ::lab::guest::{Reply, Request};
use ::lab::image::{self, Image};
use ::lab::kernel::Kernels;
use ::lab::vm::{Spec, Vm};
use anyhow::{Context, Result, bail};
use domain::lab::Lab;
use domain::units::Bytes;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long a preparation may take: filesystems are made, arrays resynchronise.
const PREPARATION: Duration = Duration::from_secs(900);

/// What machines are made of, whichever kernel they run.
pub struct Workshop {
    /// What the study, or the command line, asks for.
    pub lab: Lab,
    kernels: Kernels,
    images: PathBuf,
    program: PathBuf,
    qemu: Option<PathBuf>,
}

impl Workshop {
    /// For this machine.
    pub fn new(lab: Lab, home: &Path) -> Result<Self> {
        let cache = places::cache()?;
        let program = std::env::current_exe()
            .context("cannot find this program's own file, to put it into the guest")?;
        let kernels = Kernels::new(&cache.join("kernels"));
        Ok(Self { lab, kernels, images: cache.join("images"), program, qemu: places::qemu() })
    }

    /// The image with this kernel, which is downloaded and built where it is missing.
    pub fn image(&self, kernel: Option<&str>) -> Result<Image> {
        let mut talk = |text: &str| eprintln!("{text}");
        let kernel = match kernel {
            Some(wanted) => self.kernels.get(wanted, &mut talk)?,
            None => self.kernels.get_default(&mut talk)?,
        };
        Ok(image::make(&self.images, &kernel, &self.program, &mut talk)?)
    }

    /// How many times slower than the machine that it stands for.
    pub fn dilation(&self) -> f64 {
        1.0
    }

    /// Whether its CPUs are paced.
    pub fn is_paced(&self) -> bool {
        false
    }

    /// Begins to count what the disks do.
    pub fn begin_account(&self) {}

    /// Adds what is known from outside the guest.
    pub fn account(&self, _vm: &Vm, _trial: &mut domain::Trial, _from: Option<domain::Nanos>) -> Result<()> {
        Ok(())
    }

    /// Starts a machine, and prepares it as the study asks.
    pub fn start(
        &self,
        image: &Image,
        log: Option<File>,
        console: bool,
        interrupt: &AtomicBool,
    ) -> Result<Vm> {
        let spec = Spec {
            qemu: self.qemu.as_deref(),
            image,
            vcpus: self.lab.vcpus,
            memory: self.lab.memory,
            pstates: None,
            disks: Vec::new(),
            log,
            console,
        };
        let mut vm = Vm::start(spec, interrupt)?;
        let prepare = Request::Prepare { modules: self.lab.modules.clone(), lines: self.lab.prepare.clone() };
        vm.ask(&prepare, "while it prepared")?;
        match vm.receive(PREPARATION, interrupt)?.0 {
            Reply::Done => Ok(vm),
            Reply::Failed { why } => bail!("cannot prepare the lab machine: {why}"),
            other => bail!("the guest answered its preparation with {other:?}; please report this"),
        }
    }
}

/// The machine that `lab shell` and `lab exec` want.
pub fn workshop(arguments: &LabShell) -> Result<Workshop> {
    let lab = match &arguments.study {
        Some(file) => read_study(file)?.0.lab,
        None => Lab::default(),
    };
    Workshop::new(with_options(lab, &arguments.machine)?, &home(arguments.study.as_deref()))
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

fn disk(index: usize, text: &str) -> Result<domain::lab::LabDisk> {
    let (model, size) = match text.rsplit_once(':') {
        Some((model, size)) => {
            let parsed = Bytes::parse(size);
            (
                model,
                Some(parsed.with_context(|| {
                    format!("cannot read the size `{size}` of `{text}`; write 1GiB, or 500MB")
                })?),
            )
        }
        None => (text, None),
    };
    Ok(domain::lab::LabDisk { name: format!("disk{index}"), model: model.to_owned(), size, link: None })
}

/// The folder that a study's own files are looked for in.
pub fn home(study: Option<&Path>) -> PathBuf {
    study.and_then(Path::parent).map_or_else(PathBuf::new, Path::to_owned)
}
