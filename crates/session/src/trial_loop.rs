//! One trial after the other, each kept before the next begins.

use crate::backend::{Backend, OpenRun, TrialError};
use crate::error::{Error, Result};
use crate::observer::{Event, Observer};
use crate::refuse_leftovers;
use analysis::schedule::Schedule;
use domain::Nanos;
use domain::ids::{CellId, TrialKey};
use domain::plan::Plan;
use notebook::{Problem, RunFolder};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What is said before the reason why a run ends early.
pub const CANNOT_GO_ON: &str =
    "the run cannot go on (what was measured is kept, and running it again measures what is missing)";

/// Why no further trial is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All is measured, or all that there was time for.
    AllMeasured,
    Interrupted,
    /// Somebody else has changed a setting that was ours.
    LeftAlone,
    /// Other work disturbed every trial.
    Overloaded,
}

/// After so many trials that the load of others disturbed, and none that counts, a run ends: a machine that
/// is so busy gives no figure however long it is tried, and there is a way to measure beside its load.
const TRIALS_WITHOUT_ONE: usize = 8;

/// What the loop looks at.
pub(crate) struct TrialLoop<'a> {
    pub plan: &'a Plan,
    pub folder: &'a RunFolder,
    pub interrupt: &'a AtomicBool,
    /// After this long no further trial is begun; `None` for no bound.
    pub limit: Option<Duration>,
}

impl TrialLoop<'_> {
    /// What is to be measured, and how many trials are there already.
    pub fn schedule(&self, observer: &mut dyn Observer) -> Result<(Schedule, usize)> {
        let (trials, problems) = self.folder.trials()?;
        observer.on(&Event::Damaged(&problems));
        let mut schedule = Schedule::new(self.plan, &trials)?;
        self.folder.forget_skipped()?;
        problems.iter().filter_map(damaged).for_each(|key| schedule.pass_over(&key));
        observer.on(&Event::Begun {
            run: &self.folder.run().id,
            seed: self.plan.seed,
            cells: self.plan.cells.len(),
            metric: &self.plan.study.measure.metric,
            trials: trials.len(),
        });
        Ok((schedule, trials.len()))
    }

    /// Cells that cannot be run are said before the first trial, and nothing is made for them.
    pub fn leave_out(
        &self,
        unavailable: &BTreeMap<usize, String>,
        schedule: &mut Schedule,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        if unavailable.is_empty() {
            return Ok(());
        }
        let id = |index: &usize| &self.plan.cells[*index].id;
        let told: Vec<(&CellId, &str)> = unavailable.iter().map(|(i, why)| (id(i), why.as_str())).collect();
        observer.on(&Event::Unavailable { cells: &told, of: self.plan.cells.len() });
        unavailable.keys().for_each(|index| schedule.skip(*index));
        let noted = unavailable.iter().map(|(index, why)| (id(index).clone(), why.clone())).collect();
        Ok(self.folder.note_skipped(&noted)?)
    }

    /// Makes what is missing. `before` trials are there already.
    pub fn measure_all(
        &self,
        schedule: &mut Schedule,
        before: usize,
        backend: &mut dyn Backend,
        observer: &mut dyn Observer,
    ) -> Result<Ended> {
        let mut pace = Pace { begun: Instant::now(), before, made: 0 };
        let mut skipped = BTreeMap::new();
        let mut overloaded = 0;
        while let Some(next) = schedule.next() {
            if self.interrupt.load(Ordering::Relaxed) {
                return Ok(Ended::Interrupted);
            }
            if self.limit.is_some_and(|limit| pace.begun.elapsed() >= limit) {
                observer.on(&Event::TimeOver(schedule.remaining().at_least));
                return Ok(Ended::AllMeasured);
            }
            let key = schedule.key(next);
            observer.on(&pace.event(&key, schedule));
            match self.one(next.cell, &key, backend, observer) {
                Ok(made) => {
                    pace.made += 1;
                    schedule.record(&made.trial)?;
                    if made.restored.foreign().next().is_some() {
                        return Ok(Ended::LeftAlone);
                    }
                    overloaded += usize::from(made.trial.validity.is_disturbed_by_load());
                    if overloaded >= TRIALS_WITHOUT_ONE && !schedule.has_valid() {
                        observer.on(&Event::Overloaded(overloaded));
                        return Ok(Ended::Overloaded);
                    }
                }
                Err(TrialError::Interrupted) => return Ok(Ended::Interrupted),
                Err(TrialError::Unsupported(reason)) => {
                    self.skip(next.cell, reason, &mut skipped, observer)?;
                    schedule.skip(next.cell);
                }
                Err(TrialError::Broken(error)) => return Err(error),
            }
        }
        schedule
            .given_up()
            .into_iter()
            .for_each(|cell| observer.on(&Event::GivenUp(&self.plan.cells[cell].id)));
        Ok(Ended::AllMeasured)
    }

    /// Makes a trial and keeps it.
    fn one(
        &self,
        cell: usize,
        key: &TrialKey,
        backend: &mut dyn Backend,
        observer: &mut dyn Observer,
    ) -> std::result::Result<crate::TrialMade, TrialError> {
        let run = OpenRun { plan: self.plan, folder: self.folder };
        let mut staging = self.folder.begin(key).map_err(broken)?;
        let made = backend.run_trial(&run, &self.plan.cells[cell], key, &mut staging, observer)?;
        if let Some(storage) = &made.storage {
            staging.keep_storage(storage).map_err(broken)?;
        }
        staging.commit(&made.trial, &made.script).map_err(broken)?;
        observer.on(&Event::Restored(&made.restored));
        refuse_leftovers(&made.restored).map_err(broken)?;
        backend.verify().map_err(|error| broken(Error::during(CANNOT_GO_ON)(error)))?;
        observer.on(&Event::TrialKept(&made.trial));
        Ok(made)
    }

    /// Notes a cell that is not possible here. `skipped` has the first cell of each reason.
    fn skip(
        &self,
        cell: usize,
        reason: String,
        skipped: &mut BTreeMap<String, CellId>,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let cell = &self.plan.cells[cell].id;
        self.folder.note_skipped(&BTreeMap::from([(cell.clone(), reason.clone())]))?;
        observer.on(&Event::Skipped { cell, reason: &reason, first: skipped.get(&reason) });
        skipped.entry(reason).or_insert_with(|| cell.clone());
        Ok(())
    }
}

fn broken(error: impl Into<Error>) -> TrialError {
    TrialError::Broken(error.into())
}

/// The trial that a damaged folder was.
fn damaged(problem: &Problem) -> Option<TrialKey> {
    problem.path.file_name()?.to_str()?.parse().ok()
}

/// How long trials take here.
struct Pace {
    begun: Instant,
    before: usize,
    made: usize,
}

impl Pace {
    fn event<'a>(&self, key: &'a TrialKey, schedule: &Schedule) -> Event<'a> {
        let remaining = schedule.remaining().likely as u64;
        let made = (self.before + self.made) as u64;
        let each = (self.begun.elapsed().as_nanos() as u64).checked_div(self.made as u64);
        Event::TrialBegins {
            key,
            made,
            likely: made + remaining,
            left: each.map(|ns| Nanos::new(ns * remaining)),
        }
    }
}
