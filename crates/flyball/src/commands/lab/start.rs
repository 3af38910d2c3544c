//! From what was typed to what a lab machine is made of.

use crate::exit::Usage;
use crate::places;
use crate::study::{ReadStudy, read_study_for_lab};
use anyhow::{Context, Result};
use command_line::{LabMachine, LabShell};
use domain::lab::{Lab, LabDisk};
use domain::rng::Seed;
use domain::study::Study;
use domain::units::Bytes;
use lab::image::Flavour;
use machine::{LocalMachine, Machine};
use session::fresh_seed;
use session::guests::{LabPlaces, LabSpec, RunningGuest};
use std::collections::BTreeSet;
use std::path::PathBuf;
use workloads::Needs;

/// The machine that `lab shell` and `lab exec` want.
pub fn spec(arguments: &LabShell) -> Result<LabSpec> {
    let (lab, flavour, home) = match &arguments.study {
        Some(named) => {
            let ReadStudy { study, source } = read_study_for_lab(named)?;
            let flavour = flavour(&study);
            (study.lab, flavour, source.folder()?)
        }
        None => (Lab::default(), Flavour::Plain, PathBuf::new()),
    };
    let lab = with_options(lab, &arguments.machine)?;
    let mut spec = LabSpec::new(lab, &BTreeSet::new(), flavour, &home, places()?)?;
    if let Some(folder) = &arguments.keep_disks {
        let seed = Seed(arguments.seed.unwrap_or_else(|| fresh_seed(LocalMachine.now())));
        spec.keep_disks(folder, seed)?;
        terminal::say(format_args!("seed {seed}"));
    }
    Ok(spec)
}

/// Warns where virtual CPUs fell behind their pace while something was measured on them: nobody else can
/// know.
pub fn tell_lateness(spec: &LabSpec, running: &RunningGuest) {
    match spec.lateness(running) {
        Ok(None) => {}
        Ok(Some(late)) => terminal::warning(format_args!("{late}; what was measured then is too slow")),
        Err(error) => {
            terminal::warning(format_args!("whether the virtual CPUs kept their pace is not known: {error}"))
        }
    }
}

/// Where the lab's things are.
pub fn places() -> Result<LabPlaces> {
    let program =
        std::env::current_exe().context("cannot find this program's own file, to put it into the guest")?;
    let (qemu, plugin) = (places::qemu(), places::pstate_plugin());
    Ok(LabPlaces { cache: places::cache()?, program, qemu, plugin })
}

/// What a guest needs to have for a study.
pub fn flavour(study: &Study) -> Flavour {
    let asks = study.workloads.iter().any(|w| workloads::of(&w.tool).needs() == Needs::Server);
    if asks { Flavour::Databases } else { Flavour::Plain }
}

/// What was typed wins over what a study says.
pub fn with_options(mut lab: Lab, options: &LabMachine) -> Result<Lab> {
    if let Some(table) = &options.pstates {
        lab.pstates = Some(session::guests::table_named_here(table));
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
