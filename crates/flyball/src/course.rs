//! The loop over a run's trials, whatever kind of machine makes them.

use crate::interrupt::Interrupt;
use crate::measuring::{refuse_leftovers, tell};
use crate::terminal::{self, Progress};
use analysis::schedule::Schedule;
use anyhow::{Context, Result};
use domain::Nanos;
use domain::plan::{Cell, CellId, Plan};
use domain::trial::{Trial, TrialKey, Validity};
use machine::ledger::RestoreReport;
use notebook::{Problem, RunFolder, Staging};
use runner::Stop;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Why no further trial is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All is measured, or all that there was time for.
    AllMeasured,
    Interrupted,
    LeftAlone,
}

/// What the loop over trials looks at.
pub struct Course<'a> {
    pub plan: &'a Plan,
    pub folder: &'a RunFolder,
    pub interrupt: &'a Interrupt,
    /// After this long no further trial is begun; `None` for no bound.
    pub limit: Option<Duration>,
    /// Whether what trials stand on is still there; asked after each.
    pub ground: &'a dyn Fn() -> Result<()>,
}

/// What is said before the reason why a run ends early.
pub const CANNOT_GO_ON: &str =
    "the run cannot go on (what was measured is kept, and running it again measures what is missing)";

/// A trial that was made aside, to be kept.
pub struct Made {
    pub trial: Trial,
    /// `reproduce.sh`.
    pub script: String,
    pub restored: RestoreReport,
}

/// Why a trial was not made.
pub enum NotMade {
    Interrupted,
    /// Not possible on this machine; every trial of this cell would be so.
    Unsupported(String),
    /// The run cannot go on.
    Broken(anyhow::Error),
}

impl From<Stop> for NotMade {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Interrupted => Self::Interrupted,
            Stop::Unsupported(reason) => Self::Unsupported(reason),
            other => Self::Broken(other.into()),
        }
    }
}

/// Makes one trial, aside.
pub type MakeTrial<'a> = dyn FnMut(&Cell, &TrialKey, &mut Staging) -> Result<Made, NotMade> + 'a;

/// What is to be measured of a run, and how many trials are there already.
pub fn schedule(plan: &Plan, folder: &RunFolder) -> Result<(Schedule, usize)> {
    let (trials, problems) = folder.trials()?;
    crate::results::tell(&problems);
    let mut schedule = Schedule::new(plan, &trials)?;
    folder.forget_skipped()?;
    problems.iter().filter_map(damaged).for_each(|key| schedule.pass_over(&key));
    terminal::say(format_args!("run {}, seed {}, {} cells", folder.run().id, plan.seed, plan.cells.len()));
    if !trials.is_empty() {
        terminal::say(format_args!("{} trials are there already; measuring what is missing", trials.len()));
    }
    Ok((schedule, trials.len()))
}

/// The trial that a damaged folder was.
fn damaged(problem: &Problem) -> Option<TrialKey> {
    TrialKey::from_folder(problem.path.file_name()?.to_str()?)
}

impl Course<'_> {
    /// One trial after the other, each kept before the next begins. `before` trials are there already.
    pub fn measure_all(
        &self,
        schedule: &mut Schedule,
        before: usize,
        make: &mut MakeTrial<'_>,
    ) -> Result<Ended> {
        let mut pace = Pace::new(before);
        let ended = self.measure_each(schedule, &mut pace, make);
        pace.progress.clear();
        ended
    }

    fn measure_each(
        &self,
        schedule: &mut Schedule,
        pace: &mut Pace,
        make: &mut MakeTrial<'_>,
    ) -> Result<Ended> {
        let mut skipped: BTreeMap<String, CellId> = BTreeMap::new();
        while let Some(next) = schedule.next() {
            if self.interrupt.came() {
                return Ok(Ended::Interrupted);
            }
            if self.limit.is_some_and(|limit| pace.begun.elapsed() >= limit) {
                let left = schedule.remaining().at_least;
                pace.progress.say(&format!("the time is over; {left} planned trials were not made"));
                return Ok(Ended::AllMeasured);
            }
            let cell = &self.plan.cells[next.cell];
            let key = schedule.key(next);
            pace.show(&key.folder(), schedule);
            let mut staging = self.folder.begin(&key)?;
            let made = match make(cell, &key, &mut staging) {
                Ok(made) => made,
                Err(NotMade::Interrupted) => return Ok(Ended::Interrupted),
                Err(NotMade::Unsupported(reason)) => {
                    self.folder.note_skipped(&BTreeMap::from([(cell.id.clone(), reason.clone())]))?;
                    schedule.skip(next.cell);
                    // A reason is said once.
                    let told = match skipped.get(&reason) {
                        Some(first) => format!("skipped: {}: as {first}", cell.id),
                        None => format!("skipped: {}: {reason}", cell.id),
                    };
                    pace.progress.say(&told);
                    skipped.entry(reason).or_insert_with(|| cell.id.clone());
                    continue;
                }
                Err(NotMade::Broken(error)) => return Err(error),
            };
            staging.commit(&made.trial, &made.script)?;
            tell(&made.restored);
            refuse_leftovers(&made.restored)?;
            (self.ground)().context(CANNOT_GO_ON)?;
            pace.told(&made.trial);
            schedule.record(&made.trial)?;
            if made.restored.foreign().next().is_some() {
                return Ok(Ended::LeftAlone);
            }
        }
        for cell in schedule.given_up() {
            pace.progress.say(&format!("given up: {}: every attempt failed", self.plan.cells[cell].id));
        }
        Ok(Ended::AllMeasured)
    }
}

/// Progress, and how long trials take here.
struct Pace {
    progress: Progress,
    begun: Instant,
    before: usize,
    done: usize,
}

impl Pace {
    fn new(before: usize) -> Self {
        Self { progress: Progress::new(), begun: Instant::now(), before, done: 0 }
    }

    fn show(&self, what: &str, schedule: &Schedule) {
        let remaining = schedule.remaining().likely as u64;
        let so_far = (self.before + self.done) as u64;
        let spent = self.begun.elapsed().as_nanos() as u64;
        let each = spent.checked_div(self.done as u64);
        self.progress.show(what, so_far, so_far + remaining, each.map(|ns| Nanos::new(ns * remaining)));
    }

    fn told(&mut self, trial: &Trial) {
        self.done += 1;
        let name = trial.key.folder();
        match &trial.validity {
            Validity::Valid => {}
            Validity::Disturbed(all) => {
                let reasons: Vec<&str> = all.iter().map(|d| d.detail.as_str()).collect();
                self.progress.say(&format!("disturbed: {name}: {}", reasons.join("; ")));
            }
            Validity::Failed(reason) => self.progress.say(&format!("failed: {name}: {reason}")),
        }
    }
}
