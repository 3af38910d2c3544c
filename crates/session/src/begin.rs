//! The run that trials belong to: the one that is unfinished, or a new one.

use crate::error::{Error, Result};
use crate::observer::{Event, Observer};
use domain::Timestamp;
use domain::ids::RunId;
use domain::rng::Seed;
use domain::trial::{Provenance, Run};
use machine::{LocalMachine, Machine};
use notebook::{Notebook, RunFolder};
use std::path::Path;
use std::time::Duration;

/// A bound on a look at the study's git repository; a huge one on a cold disk takes longer, and is not waited
/// for.
const GIT_PATIENCE: Duration = Duration::from_secs(5);

/// What to do where the last run of this study is unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Go on with it: only what is missing is measured.
    Resume,
    /// Begin a new one.
    Anew,
}

/// The run that a study's trials belong to, before it is known whether it is a new one.
#[derive(Debug)]
pub struct RunRequest<'a> {
    /// The study's name.
    pub study: &'a str,
    /// The study file.
    pub text: &'a str,
    /// The folder of the study file, where it has one.
    pub home: Option<&'a Path>,
    /// The seed that was asked for.
    pub seed: Option<u64>,
    /// Whether an unfinished run is gone on with.
    pub begin: Begin,
    /// Where its trials come from.
    pub provenance: Provenance,
    /// What identifies the machine.
    pub identity: &'a str,
    /// What was typed.
    pub command: Vec<String>,
}

/// Opens the run that is unfinished, or begins one.
///
/// # Errors
/// [`Error::Busy`] where another Flyball writes to it; those of the notebook.
pub fn begin_run(
    request: &RunRequest<'_>,
    notebook: &Notebook,
    inventory: &str,
    observer: &mut dyn Observer,
) -> Result<RunFolder> {
    if request.begin == Begin::Resume {
        if let Some(id) = notebook.unfinished(request.study, request.text, request.identity)? {
            let has_seed = |run: &Run| request.seed.is_none_or(|seed| run.seed == Seed(seed));
            if has_seed(&notebook.run(&id)?) {
                return notebook.open_run(&id).map_err(Error::of_notebook);
            }
        } else {
            tell_of_edit(request, notebook, observer)?;
        }
    }
    let now = LocalMachine.now();
    let run = Run {
        id: RunId::begun(request.study, now),
        study: request.study.to_owned(),
        study_text: request.text.to_owned(),
        seed: Seed(request.seed.unwrap_or_else(|| fresh_seed(now))),
        started: now,
        finished: None,
        provenance: request.provenance,
        machine: request.identity.to_owned(),
        flyball: env!("CARGO_PKG_VERSION").to_owned(),
        revision: request.home.and_then(|folder| revision(&LocalMachine, folder)),
        command: request.command.clone(),
    };
    notebook.create_run(&run, inventory).map_err(Error::of_notebook)
}

/// Says that the study was edited since its last run was cut short.
fn tell_of_edit(request: &RunRequest<'_>, notebook: &Notebook, observer: &mut dyn Observer) -> Result<()> {
    let other = notebook.unfinished_of_another_text(request.study, request.text, request.identity)?;
    if let Some((run, copy)) = &other {
        observer.on(&Event::Edited { run, copy });
    }
    Ok(())
}

/// A seed short enough to be typed again.
pub fn fresh_seed(now: Timestamp) -> u64 {
    Seed(now.unix_nanos() as u64).stream("seed").bits() & 0xffff_ffff
}

/// The git commit of a folder, with `+` where its tree is not clean; `None` where there is none.
fn revision(machine: &dyn Machine, folder: &Path) -> Option<String> {
    let folder = folder.to_str()?;
    let git = |arguments: &[&str]| {
        let argv = [&["git", "-C", folder], arguments].concat();
        let output = machine.run(&argv, GIT_PATIENCE).ok()?;
        (output.code == Some(0)).then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit}+") })
}
