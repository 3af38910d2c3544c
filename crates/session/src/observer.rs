//! What is said while a study runs: events, which the caller makes words of.

use domain::Nanos;
use domain::ids::{CellId, RunId, TrialKey};
use domain::rng::Seed;
use domain::trial::Trial;
use machine::ledger::RestoreReport;
use notebook::Problem;
use std::path::Path;

/// Something that happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// A run was begun, or found unfinished.
    Begun {
        /// Which one.
        run: &'a RunId,
        /// Its seed.
        seed: Seed,
        /// How many cells the plan has.
        cells: usize,
        /// The metric that decides.
        metric: &'a str,
        /// How many trials are there already.
        trials: usize,
    },
    /// The machine has other work before anything is measured, in words.
    Busy(&'a str),
    /// Folders of the run that cannot be read.
    Damaged(&'a [Problem]),
    /// The study was edited since its last run, which is unfinished, was begun.
    Edited {
        /// That run.
        run: &'a RunId,
        /// Its own copy of the study.
        copy: &'a Path,
    },
    /// Cells that cannot be run here, with the reasons, of how many.
    Unavailable {
        /// The cells.
        cells: &'a [(&'a CellId, &'a str)],
        /// How many the plan has.
        of: usize,
    },
    /// A trial is made from now on.
    TrialBegins {
        /// Which one.
        key: &'a TrialKey,
        /// How many are made already.
        made: u64,
        /// How many there will be, as far as can be told.
        likely: u64,
        /// How long the rest will take.
        left: Option<Nanos>,
    },
    /// A trial is kept.
    TrialKept(&'a Trial),
    /// A cell turned out not to be possible here.
    Skipped {
        /// The cell.
        cell: &'a CellId,
        /// Why.
        reason: &'a str,
        /// The first cell that was skipped for the same reason.
        first: Option<&'a CellId>,
    },
    /// Every attempt at a cell failed.
    GivenUp(&'a CellId),
    /// The time is over; so many planned trials were not made.
    TimeOver(usize),
    /// Other work disturbed so many trials, and none counts: no further one is made.
    Overloaded(usize),
    /// No further trial follows.
    LoopEnded,
    /// What was put back, and what could not be.
    Restored(&'a RestoreReport),
    /// Something that is done now, in words.
    Talk(&'a str),
    /// Something that is wrong, and no reason to end.
    Warning(&'a str),
}

/// Is told what happens.
pub trait Observer {
    /// Something happened.
    fn on(&mut self, event: &Event<'_>);
}

/// Listens to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn on(&mut self, _: &Event<'_>) {}
}
