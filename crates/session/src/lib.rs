//! Running a study: a [`Backend`] makes trials, the trial loop asks for them in the order of the schedule,
//! and each is kept in the notebook before the next begins.
//!
//! Four backends make trials: [`host`] on this machine, [`guests`] in lab machines, [`simulation`] by a
//! model, and [`scripted`], for tests, as they are told. All that is said meanwhile goes to an [`Observer`]:
//! this crate prints nothing and reads no environment.
//!
//! Invariant: whatever happens, a backend is closed before [`run`] returns.

mod availability;
mod backend;
mod begin;
pub mod candidates;
pub mod check;
mod disk_files;
pub mod draft;
pub mod dry_run;
mod error;
pub mod experiment;
pub mod guests;
pub mod host;
mod observer;
pub mod overview;
pub mod preflight;
mod recorded_on;
pub mod recordings;
pub mod scripted;
pub mod shipped;
pub mod simulation;
pub mod studies;
pub mod study_text;
mod trial_loop;
pub mod tuning;

pub use availability::{Availability, unavailable_in_words};
pub use backend::{Backend, Closed, KernelLog, MachineRecord, OpenRun, TrialError, TrialMade};
pub use begin::{Begin, RunRequest, begin_run, fresh_seed};
pub use error::{Error, Result};
pub use observer::{Event, Observer, Silent};
pub use recorded_on::recorded_on;
pub use trial_loop::CANNOT_GO_ON;

use domain::ids::RunId;
use domain::plan::Plan;
use domain::study::Study;
use domain::trial::Provenance;
use machine::ledger::RestoreReport;
use machine::{LocalMachine, Machine};
use notebook::{Notebook, RunFolder};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use trial_loop::{Ended, TrialLoop};

/// What is to be run, and where it is kept.
#[derive(Debug)]
pub struct Request<'a> {
    /// The study.
    pub study: &'a Study,
    /// Its text, which the notebook keeps.
    pub text: &'a str,
    /// The folder of the study file, whose git revision is noted; `None` for a study of Flyball's own.
    pub home: Option<&'a Path>,
    /// The notebook; it is made where there is none.
    pub notebook: &'a Path,
    /// The seed that was asked for.
    pub seed: Option<u64>,
    /// Whether an unfinished run is gone on with.
    pub begin: Begin,
    /// After this long no further trial is begun; `None` for no bound.
    pub limit: Option<Duration>,
    /// What was typed, which the notebook keeps.
    pub command: Vec<String>,
    /// Set by somebody else when the run is to end.
    pub interrupt: &'a AtomicBool,
}

/// How a start of a run ended.
#[derive(Debug)]
pub struct Measured {
    /// Where it is kept.
    pub notebook: Notebook,
    /// Which run it is.
    pub run: RunId,
    /// Whether it was asked to stop.
    pub interrupted: bool,
    /// Whether somebody else changed a setting that was ours, so that it was left alone.
    pub left_alone: bool,
}

/// Measures what is missing of a study.
///
/// # Errors
/// Where the notebook cannot be written, a backend cannot go on, or something could not be put back. What was
/// measured is kept.
pub fn run(
    request: &Request<'_>,
    backend: &mut dyn Backend,
    observer: &mut dyn Observer,
) -> Result<Measured> {
    let begun = begin(request, backend, observer);
    let measured = begun.map(|(notebook, folder)| {
        let ended = measure(request, &folder, backend, observer);
        (notebook, folder, ended)
    });
    let closed = backend.close();
    if let Ok(closed) = &closed {
        observer.on(&Event::Restored(&closed.restored));
    }
    let (notebook, mut folder, ended) = measured?;
    let Closed { restored, logs } = closed?;
    for log in logs {
        folder.keep_log(&log.name, &log.text)?;
    }
    let ended = ended?;
    refuse_leftovers(&restored)?;
    if ended == Ended::AllMeasured {
        folder.finish(LocalMachine.now())?;
    }
    Ok(Measured {
        run: folder.run().id.clone(),
        notebook,
        interrupted: ended == Ended::Interrupted || request.interrupt.load(Ordering::Relaxed),
        left_alone: ended == Ended::LeftAlone || restored.foreign().next().is_some(),
    })
}

fn begin(
    request: &Request<'_>,
    backend: &dyn Backend,
    observer: &mut dyn Observer,
) -> Result<(Notebook, RunFolder)> {
    let notebook = Notebook::create(request.notebook)?;
    let machine = backend.machine();
    let run = RunRequest {
        study: &request.study.name,
        text: request.text,
        home: request.home,
        seed: request.seed,
        begin: request.begin,
        provenance: backend.provenance(),
        identity: &machine.identity,
        command: request.command.clone(),
    };
    let folder = begin_run(&run, &notebook, &machine.inventory, observer)?;
    Ok((notebook, folder))
}

fn measure(
    request: &Request<'_>,
    folder: &RunFolder,
    backend: &mut dyn Backend,
    observer: &mut dyn Observer,
) -> Result<Ended> {
    let mut study = request.study.clone();
    if backend.provenance() == Provenance::Simulation {
        // A model has no events, and no trial to record them in.
        study.measure.events = None;
    }
    let plan = Plan::new(study, folder.run().seed)?;
    let trials = TrialLoop { plan: &plan, folder, interrupt: request.interrupt, limit: request.limit };
    let (mut schedule, before) = trials.schedule(observer)?;
    if schedule.next().is_none() {
        return Ok(Ended::AllMeasured);
    }
    trials.leave_out(&backend.unavailable(&plan), &mut schedule, observer)?;
    if schedule.next().is_none() {
        return Ok(Ended::AllMeasured);
    }
    match backend.open(&OpenRun { plan: &plan, folder }, observer) {
        Err(Error::Interrupted) => return Ok(Ended::Interrupted),
        other => other?,
    }
    let ended = trials.measure_all(&mut schedule, before, backend, observer);
    observer.on(&Event::LoopEnded);
    ended
}

/// An error where something could not be put back: nothing more may be changed.
///
/// # Errors
/// What could not be put back.
pub fn refuse_leftovers(report: &RestoreReport) -> Result<()> {
    let left: Vec<String> = report.failed().map(ToString::to_string).collect();
    if left.is_empty() {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "not everything could be put back: {}; see `flyball status`, then run `flyball restore`",
        left.join("; ")
    )))
}
