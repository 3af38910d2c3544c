//! Which trial comes next, and how many are left.
//!
//! Blocks run one after another, each in the order that the plan's seed gives it. Every cell takes part in
//! the first `repeats_min` blocks; in later ones, up to `repeats_max`, only cells whose median is not yet
//! known to `±precision` by the valid trials of the blocks before. At 0.95 an interval needs six valid
//! trials, so with `repeats_min = 5` each cell is measured six times at least. A trial that was disturbed or
//! failed is retried up to `retries` times, and then missing from its block. A cell whose every attempt in
//! its first two blocks failed is given up.
//!
//! Where a study goes on until it is decided, blocks go on until its two cells' blocks say whether the second
//! is better than the first by more than the threshold, or that it is not, or until the blocks that are left
//! could not say so whatever they gave ([`standing`]).
//!
//! Where it looks for the best of its cells, it does so by successive halving ([`crate::stats::halving`]):
//! after `repeats_min` blocks the best quarter goes on, for twice as many blocks, and so forth. Where it
//! looks for the trade-off of speed and watts, the quarter goes on that the fewest others beat in both, and
//! in any case all that none beats ([`crate::trade_off`]).
//!
//! Where events are recorded apart, one block more has a trial of each cell that records them
//! ([`domain::study::Measure::traced_block`]). It decides nothing about the others.
//!
//! All of it is decided from the trials that exist, and for each cell from its own earlier blocks alone:
//! killed at any point and begun again, a run asks for the same trials.

use crate::costs;
use crate::stats::halving;
use crate::stats::interval::Interval;
use crate::stats::median_interval::half_width;
use crate::stats::quantile::median;
use crate::stats::sequential;
use crate::trade_off;
use domain::ids::TrialKey;
use domain::order;
use domain::outcome::Better;
use domain::plan::Plan;
use domain::study::Until;
use domain::trial::{Trial, Validity};
use std::collections::BTreeMap;

/// A cell that failed throughout this many blocks is given up: what fails twice in a row, retries included,
/// is not chance, and may cost the whole timeout each time.
const BLOCKS_TO_GIVE_UP: u32 = 2;

/// The next trial to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// From zero.
    pub block: u32,
    /// Which of the plan's cells.
    pub cell: usize,
    /// From zero.
    pub attempt: u32,
}

/// How many trials are left, retries not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// If every cell is precise as soon as it can be.
    pub at_least: usize,
    /// As many as the spread seen so far asks for: an interval narrows with the root of the number of trials.
    pub likely: usize,
    /// If no cell ever becomes precise.
    pub at_most: usize,
}

/// Why a trial has no place in a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Its cell is none of the plan's.
    #[error("cannot continue with trial `{}`: the study has no such cell; run the study as it was, or begin a new run", .0.folder())]
    ForeignCell(TrialKey),
    /// Its block is beyond the last.
    #[error("cannot continue with trial `{}`: the study ends before that block; run the study as it was, or begin a new run", .0.folder())]
    ForeignBlock(TrialKey),
}

/// What became of one cell in one block.
#[derive(Clone, Debug, Default)]
struct Slot {
    /// Attempts made.
    attempts: u32,
    /// How many of them cannot be read any more: their numbers are taken, and nothing else is known.
    lost: u32,
    /// How many of them failed, rather than being disturbed.
    failures: u32,
    /// Whether one was measured as it was to be.
    is_done: bool,
    /// The deciding metric of the one that counts, where the tool reported it.
    value: Option<f64>,
    /// The watts that the machine took meanwhile, where they are known.
    watts: Option<f64>,
}

impl Slot {
    /// Whether no further attempt is to be made.
    fn is_used_up(&self, retries: u32) -> bool {
        self.attempts - self.lost > retries
    }
}

/// Decides which trial of a run comes next.
#[derive(Clone, Debug)]
pub struct Schedule {
    plan: Plan,
    /// By cell and block.
    slots: BTreeMap<(usize, u32), Slot>,
    /// Cells that cannot run here.
    skipped: Vec<bool>,
    /// Where the search for the next trial begins: all before it is settled.
    block: u32,
    /// The order of that block.
    order: Vec<usize>,
    /// Which way the deciding metric is good; `None` until a trial reports it.
    better: Option<Better>,
}

/// By what factor the second value of pairs is better than the first, whichever way is good; `None` where
/// they are too few, or one is not positive. Holds however often one looks.
pub fn gain(pairs: &[(f64, f64)], better: Better, confidence: f64) -> Option<Interval> {
    sequential::interval(&logs(pairs, better)?, confidence)
}

/// How pairs stand to the question whether the second value is better than the first by more than so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is.
    Gain,
    /// It is not.
    NoGain,
    /// More pairs may tell.
    Open,
    /// The pairs that are left cannot tell, whatever they are.
    OutOfReach,
}

/// How pairs stand where so many more may come.
pub fn standing(
    pairs: &[(f64, f64)],
    better: Better,
    confidence: f64,
    threshold: f64,
    more: usize,
) -> Standing {
    // As `Comparison::excludes_gain` and the verdict have it.
    let worth = 1.0 + threshold;
    match gain(pairs, better, confidence) {
        Some(gain) if gain.low > worth => Standing::Gain,
        Some(gain) if gain.high < worth => Standing::NoGain,
        _ => match logs(pairs, better) {
            Some(logs) if !sequential::can_yet_tell(&logs, worth, confidence, more) => Standing::OutOfReach,
            _ => Standing::Open,
        },
    }
}

/// How much better the second values are, as logarithms; `None` where one is not positive.
fn logs(pairs: &[(f64, f64)], better: Better) -> Option<Vec<f64>> {
    let log = |(a, b): &(f64, f64)| match better {
        Better::Higher => (b / a).ln(),
        Better::Lower => (a / b).ln(),
    };
    pairs.iter().all(|(a, b)| *a > 0.0 && *b > 0.0).then(|| pairs.iter().map(log).collect())
}

impl Schedule {
    /// The schedule of a plan of which some trials exist already.
    ///
    /// # Errors
    /// Where a trial does not belong to the plan.
    pub fn new(plan: &Plan, existing: &[Trial]) -> Result<Self, ScheduleError> {
        let skipped = vec![false; plan.cells.len()];
        let order = plan.block_order(0);
        let mut schedule =
            Self { plan: plan.clone(), slots: BTreeMap::new(), skipped, block: 0, order, better: None };
        existing.iter().try_for_each(|trial| schedule.record(trial))?;
        Ok(schedule)
    }

    /// The trial to run now; the same one until it is recorded. `None` where all is measured.
    #[expect(
        clippy::should_implement_trait,
        reason = "what comes next depends on what is recorded in between"
    )]
    pub fn next(&mut self) -> Option<Next> {
        while self.block < self.all_blocks() {
            let block = self.block;
            let open = self
                .order
                .iter()
                .copied()
                .find(|cell| self.is_open(*cell, block) && self.wants(*cell, block));
            if let Some(cell) = open {
                let attempt = self.slots.get(&(cell, block)).map_or(0, |slot| slot.attempts);
                return Some(Next { block, cell, attempt });
            }
            self.block += 1;
            self.order = self.plan.block_order(self.block);
        }
        None
    }

    /// The key of such a trial.
    pub fn key(&self, next: Next) -> TrialKey {
        TrialKey { block: next.block, cell: self.plan.cells[next.cell].id.clone(), attempt: next.attempt }
    }

    /// Takes note of a trial that was run.
    ///
    /// # Errors
    /// Where it does not belong to the plan.
    pub fn record(&mut self, trial: &Trial) -> Result<(), ScheduleError> {
        let key = &trial.key;
        let cell = self.plan.cells.iter().position(|cell| cell.id == key.cell);
        let cell = cell.ok_or_else(|| ScheduleError::ForeignCell(key.clone()))?;
        if key.block >= self.all_blocks() {
            return Err(ScheduleError::ForeignBlock(key.clone()));
        }
        let slot = self.slots.entry((cell, key.block)).or_default();
        slot.attempts = slot.attempts.max(key.attempt + 1);
        match trial.validity {
            Validity::Valid if !slot.is_done => {
                slot.is_done = true;
                self.better = self.better.or_else(|| direction(trial, &self.plan.study.measure.metric));
                slot.value = trial.metric(&self.plan.study.measure.metric);
                slot.watts = costs::power(trial);
            }
            Validity::Traced => slot.is_done = true,
            Validity::Failed(_) => slot.failures += 1,
            Validity::Valid | Validity::Disturbed(_) => {}
        }
        Ok(())
    }

    /// Takes note of a trial that is there and cannot be read: it is measured again, under the next number.
    /// One that does not belong to the plan is nothing to it.
    pub fn pass_over(&mut self, key: &TrialKey) {
        if let Some(cell) = self.plan.cells.iter().position(|cell| cell.id == key.cell) {
            let slot = self.slots.entry((cell, key.block)).or_default();
            slot.attempts = slot.attempts.max(key.attempt + 1);
            slot.lost += 1;
        }
    }

    /// Whether any trial could be measured undisturbed.
    pub fn has_valid(&self) -> bool {
        self.slots.values().any(|slot| slot.is_done)
    }

    /// Asks no more for a cell that cannot run here.
    pub fn skip(&mut self, cell: usize) {
        self.skipped[cell] = true;
    }

    /// The cells that were given up because every attempt failed, in the order of the plan.
    pub fn given_up(&self) -> Vec<usize> {
        (0..self.plan.cells.len()).filter(|cell| self.gave_up(*cell, BLOCKS_TO_GIVE_UP)).collect()
    }

    /// What is left, for an estimate of the time.
    pub fn remaining(&self) -> Remaining {
        let (counted, traced) = (self.remaining_that_count(), self.traced_left());
        Remaining {
            at_least: counted.at_least + traced,
            likely: counted.likely + traced,
            at_most: counted.at_most + traced,
        }
    }

    /// How many trials that record events are left.
    fn traced_left(&self) -> usize {
        let Some(block) = self.plan.study.measure.traced_block() else { return 0 };
        let is_left = |cell: &usize| self.is_open(*cell, block) && self.wants(*cell, block);
        (0..self.plan.cells.len()).filter(is_left).count()
    }

    fn remaining_that_count(&self) -> Remaining {
        if self.plan.study.measure.until.is_search() {
            let done: u32 = (0..self.plan.cells.len()).map(|cell| self.blocks_done(cell)).sum();
            let left = halving::trials(&self.rounds()).saturating_sub(done as usize);
            // Of a front all go on, however many there are.
            let most = |cell: usize| {
                let done = self.blocks_done(cell);
                if self.wants(cell, done) { (self.most_blocks() - done) as usize } else { 0 }
            };
            let at_most = match self.plan.study.measure.until {
                Until::Front => (0..self.plan.cells.len()).map(most).sum(),
                _ => left,
            };
            return Remaining { at_least: left.min(at_most), likely: left.min(at_most), at_most };
        }
        let mut remaining = Remaining { at_least: 0, likely: 0, at_most: 0 };
        for cell in 0..self.plan.cells.len() {
            let done = self.blocks_done(cell);
            let [least, likely, most] = self.blocks_wanted(cell, done);
            remaining.at_least += least.saturating_sub(done) as usize;
            remaining.likely += likely.saturating_sub(done) as usize;
            remaining.at_most += most.saturating_sub(done) as usize;
        }
        remaining
    }

    fn least_blocks(&self) -> u32 {
        self.plan.study.measure.repeats_min
    }

    fn most_blocks(&self) -> u32 {
        self.plan.study.measure.repeats_max.max(self.least_blocks())
    }

    /// With the block that records events, where there is one.
    fn all_blocks(&self) -> u32 {
        self.plan.study.measure.traced_block().map_or(self.most_blocks(), |block| block + 1)
    }

    /// Whether a cell takes part in a block, by what its earlier blocks gave.
    fn wants(&self, cell: usize, block: u32) -> bool {
        if self.skipped[cell] || self.gave_up(cell, block) {
            return false;
        }
        if block >= self.most_blocks() {
            return true;
        }
        let is_enough = match self.plan.study.measure.until {
            Until::Best | Until::Front => return self.is_in_the_race(cell, block),
            Until::Precise => self.is_precise(cell, block),
            Until::Decided if self.lacks_a_side(block) => return false,
            Until::Decided => self.is_decided(block),
        };
        block < self.least_blocks() || !is_enough
    }

    /// How often cells are measured where the best is looked for.
    fn rounds(&self) -> Vec<halving::Round> {
        let cells = self.skipped.iter().filter(|is_skipped| !**is_skipped).count();
        halving::rounds(cells, self.least_blocks(), self.most_blocks())
    }

    /// Whether a cell is among those that a block measures, by the medians of the rounds before.
    fn is_in_the_race(&self, cell: usize, block: u32) -> bool {
        let all = 0..self.plan.cells.len();
        let mut left: Vec<usize> =
            all.filter(|one| !self.skipped[*one] && !self.gave_up(*one, block)).collect();
        let mut until = 0;
        for round in self.rounds() {
            let mut ranked = match self.plan.study.measure.until {
                Until::Front => self.by_how_many_beat_it(&left, until),
                _ => self.by_value(&left, until),
            };
            order::by(&mut ranked, |(a, _), (b, _)| a.total_cmp(b));
            // Of a front all go on.
            let unbeaten = ranked.iter().filter(|(rank, _)| *rank == 0.0).count();
            let is_front = self.plan.study.measure.until == Until::Front;
            let most = if is_front { round.cells.max(unbeaten) } else { round.cells };
            left = ranked.into_iter().take(most).map(|(_, one)| one).collect();
            if block < round.until {
                return left.contains(&cell);
            }
            until = round.until;
        }
        false
    }

    /// Cells with their medians of the blocks before this one, the best least. A cell of which nothing is
    /// known is behind all others.
    fn by_value(&self, cells: &[usize], until: u32) -> Vec<(f64, usize)> {
        let sign = if self.better == Some(Better::Lower) { 1.0 } else { -1.0 };
        let value = |one: usize| median(&self.values(one, until)).map(|value| sign * value);
        cells.iter().map(|one| (value(*one).unwrap_or(f64::INFINITY), *one)).collect()
    }

    /// Cells with how many others are as good in both speed and watts, and better in one, by the medians of
    /// the blocks before this one.
    fn by_how_many_beat_it(&self, cells: &[usize], until: u32) -> Vec<(f64, usize)> {
        let better = self.better.unwrap_or(Better::Higher);
        let both = |one: usize| Some((median(&self.values(one, until))?, median(&self.watts(one, until))?));
        let places: Vec<Option<(f64, f64)>> = cells.iter().map(|one| both(*one)).collect();
        let beaten_by = |place: (f64, f64)| {
            places.iter().flatten().filter(|other| trade_off::beats(**other, place, better)).count() as f64
        };
        let rank = |place: &Option<(f64, f64)>| place.map_or(f64::INFINITY, beaten_by);
        places.iter().map(rank).zip(cells.iter().copied()).collect()
    }

    /// Whether there is nothing to decide, for one of the cells cannot be measured.
    fn lacks_a_side(&self, block: u32) -> bool {
        (0..self.plan.cells.len()).any(|cell| self.skipped[cell] || self.gave_up(cell, block))
    }

    /// Whether the blocks before this one tell if the second of two cells is better than the first, or no
    /// later one can.
    fn is_decided(&self, block: u32) -> bool {
        let measure = &self.plan.study.measure;
        let value = |cell, block| self.slots.get(&(cell, block)).and_then(|slot: &Slot| slot.value);
        let pair = |block| Some((value(0, block)?, value(1, block)?));
        let pairs: Vec<(f64, f64)> = (0..block).filter_map(pair).collect();
        // Zeros have no ratio, however many there are.
        if !pairs.is_empty() && pairs.iter().all(|pair| *pair == (0.0, 0.0)) {
            return true;
        }
        let better = self.better.unwrap_or(Better::Higher);
        let more = self.most_blocks().saturating_sub(block) as usize;
        standing(&pairs, better, measure.confidence, measure.threshold, more) != Standing::Open
    }

    /// Whether a block still lacks its trial of a cell, and may try once more.
    fn is_open(&self, cell: usize, block: u32) -> bool {
        let slot = self.slots.get(&(cell, block));
        slot.is_none_or(|slot| !slot.is_done && !slot.is_used_up(self.plan.study.measure.retries))
    }

    /// Whether every attempt of the first blocks, all before `block`, failed.
    fn gave_up(&self, cell: usize, block: u32) -> bool {
        let retries = self.plan.study.measure.retries;
        let failed = |slot: &Slot| slot.is_used_up(retries) && slot.failures >= slot.attempts - slot.lost;
        let all_failed = |block| self.slots.get(&(cell, block)).is_some_and(failed);
        block >= BLOCKS_TO_GIVE_UP && (0..BLOCKS_TO_GIVE_UP).all(all_failed)
    }

    fn is_precise(&self, cell: usize, block: u32) -> bool {
        let measure = &self.plan.study.measure;
        let values: Vec<f64> = self.values(cell, block);
        half_width(&values, measure.confidence).is_some_and(|half| half <= measure.precision)
    }

    /// The cell's valid values in the blocks before this one.
    fn values(&self, cell: usize, block: u32) -> Vec<f64> {
        self.slots.range((cell, 0)..(cell, block)).filter_map(|(_, slot)| slot.value).collect()
    }

    /// The watts of the cell's valid trials in the blocks before this one.
    fn watts(&self, cell: usize, block: u32) -> Vec<f64> {
        self.slots.range((cell, 0)..(cell, block)).filter_map(|(_, slot)| slot.watts).collect()
    }

    /// The number of blocks that the cell is through with.
    fn blocks_done(&self, cell: usize) -> u32 {
        (0..self.most_blocks()).find(|block| self.is_open(cell, *block)).unwrap_or(self.most_blocks())
    }

    /// How many blocks a cell will take part in: at least, likely, at most.
    fn blocks_wanted(&self, cell: usize, done: u32) -> [u32; 3] {
        if !self.wants(cell, done) {
            return [done; 3];
        }
        let most = self.most_blocks();
        let least = self.least_blocks().max(done + 1).min(most);
        let measure = &self.plan.study.measure;
        let half = match measure.until {
            Until::Precise => half_width(&self.values(cell, done), measure.confidence),
            // How many pairs it takes depends on a difference that is not known.
            Until::Decided | Until::Best | Until::Front => None,
        };
        let likely = match half {
            Some(half) => f64::from(done) * (half / measure.precision).powi(2),
            // Nothing is known yet: half way is as good a guess as any.
            None => f64::from(least + most) / 2.0,
        };
        [least, (likely.ceil() as u32).clamp(least, most), most]
    }
}

/// Which way a metric of a trial is good.
fn direction(trial: &Trial, metric: &str) -> Option<Better> {
    trial.measurement.as_ref()?.outcome.metrics.get(metric).map(|metric| metric.better)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{failed, plan_of, valid};
    use domain::trial::Disturbance;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// What a scripted machine answers to each trial.
    type Script<'a> = &'a dyn Fn(&TrialKey) -> Answer;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Answer {
        Value(f64),
        /// With watts.
        Both(f64, f64),
        Disturbed,
        Failed,
        NoMetric,
    }

    fn trial(key: TrialKey, answer: Answer) -> Trial {
        match answer {
            Answer::Value(value) => valid(key, &[("throughput", value)]),
            Answer::Both(value, watts) => valid(key, &[("throughput", value), ("power", watts)]),
            Answer::NoMetric => valid(key, &[]),
            Answer::Failed => failed(key),
            Answer::Disturbed => {
                let disturbance = Disturbance { kind: "steal".into(), detail: "3% steal".into() };
                Trial {
                    validity: Validity::Disturbed(vec![disturbance]),
                    ..valid(key, &[("throughput", 1.0)])
                }
            }
        }
    }

    /// Runs until the end, or for so many trials.
    fn run(plan: &Plan, mut done: Vec<Trial>, script: Script<'_>, limit: usize) -> Vec<Trial> {
        let mut schedule = Schedule::new(plan, &done).unwrap();
        for _ in 0..limit {
            let Some(next) = schedule.next() else { break };
            assert_eq!(schedule.next(), Some(next));
            let trial = trial(schedule.key(next), script(&schedule.key(next)));
            schedule.record(&trial).unwrap();
            done.push(trial);
        }
        done
    }

    fn blocks_of(trials: &[Trial], cell: &str) -> usize {
        trials.iter().filter(|t| t.key.cell.as_str() == cell && t.validity.is_valid()).count()
    }

    #[test]
    fn events_that_are_recorded_apart_take_one_more_trial_of_each_cell_which_decides_nothing() {
        let mut plan = plan_of(&["a", "b"]);
        plan.study.measure.events = Some("sched".parse().unwrap());
        let shared = run(&plan, vec![], &|_| Answer::Value(100.0), 1000);
        plan.study.measure.events_apart = true;
        let traced = plan.study.measure.traced_block().unwrap();
        let mut schedule = Schedule::new(&plan, &[]).unwrap();
        assert_eq!(schedule.remaining().at_least, 2 * 5 + 2);
        let mut done = Vec::new();
        while let Some(next) = schedule.next() {
            let mut made = trial(schedule.key(next), Answer::Value(100.0));
            if next.block == traced {
                made.validity = match next.attempt {
                    0 => Validity::Failed("fio".into()),
                    _ => Validity::Traced,
                };
            }
            schedule.record(&made).unwrap();
            done.push(made);
        }
        let counted: Vec<_> = done.iter().filter(|trial| trial.key.block != traced).collect();
        assert_eq!(counted.len(), shared.len(), "what counts is measured as often");
        let last: Vec<_> = done[counted.len()..].iter().map(|t| (t.key.block, t.key.attempt)).collect();
        assert_eq!(last, [(traced, 0), (traced, 1), (traced, 0), (traced, 1)]);
        assert_eq!(schedule.remaining(), Remaining { at_least: 0, likely: 0, at_most: 0 });
        assert_eq!(Schedule::new(&plan, &done).unwrap().next(), None);
        plan.study.measure.events_apart = false;
        assert!(Schedule::new(&plan, &done).is_err(), "no such block without it");
    }

    #[test]
    fn a_quiet_cell_stops_as_soon_as_its_interval_exists() {
        let trials = run(&plan_of(&["a", "b"]), vec![], &|_| Answer::Value(100.0), 1000);
        assert_eq!((blocks_of(&trials, "w_a"), blocks_of(&trials, "w_b")), (6, 6));
    }

    #[test]
    fn only_the_noisy_cell_goes_on_and_stops_at_the_cap() {
        let noisy = |key: &TrialKey| {
            let noisy = key.cell.as_str() == "w_b";
            Answer::Value(if noisy { [50.0, 100.0, 200.0][key.block as usize % 3] } else { 100.0 })
        };
        let trials = run(&plan_of(&["a", "b"]), vec![], &noisy, 1000);
        assert_eq!((blocks_of(&trials, "w_a"), blocks_of(&trials, "w_b")), (6, 15));
    }

    #[test]
    fn each_block_follows_the_plans_order() {
        let plan = plan_of(&["a", "b", "c"]);
        let trials = run(&plan, vec![], &|_| Answer::Value(1.0), 3);
        let order: Vec<_> = plan.block_order(0).into_iter().map(|cell| plan.cells[cell].id.clone()).collect();
        assert_eq!(trials.iter().map(|t| t.key.cell.clone()).collect::<Vec<_>>(), order);
    }

    #[test]
    fn a_trial_that_cannot_be_read_any_more_is_measured_again_under_the_next_number() {
        let mut plan = plan_of(&["a"]);
        plan.study.measure.retries = 0;
        let mut schedule = Schedule::new(&plan, &[]).unwrap();
        let first = schedule.next().unwrap();
        schedule.pass_over(&schedule.key(first));
        let again = schedule.next().unwrap();
        assert_eq!(again, Next { attempt: 1, ..first });
        schedule.record(&trial(schedule.key(again), Answer::Failed)).unwrap();
        assert_eq!(schedule.next().unwrap().block, 1, "one failure is all that this study allows");
    }

    #[test]
    fn a_disturbed_trial_is_retried_at_once_and_then_missing_from_its_block() {
        let always = |key: &TrialKey| if key.block == 0 { Answer::Disturbed } else { Answer::Value(1.0) };
        let trials = run(&plan_of(&["a", "b"]), vec![], &always, 1000);
        let first: Vec<_> = trials[..2].iter().map(|t| (t.key.cell.as_str(), t.key.attempt)).collect();
        assert_eq!(first[0].0, first[1].0);
        assert_eq!((first[0].1, first[1].1), (0, 1));
        assert_eq!(blocks_of(&trials, "w_a"), 6);
        assert_eq!(trials.iter().map(|t| t.key.block).max(), Some(6));
    }

    #[test]
    fn a_cell_that_only_fails_is_given_up_after_two_blocks_and_named() {
        let plan = plan_of(&["a", "b"]);
        let fails =
            |key: &TrialKey| if key.cell.as_str() == "w_b" { Answer::Failed } else { Answer::Value(1.0) };
        let trials = run(&plan, vec![], &fails, 1000);
        assert_eq!(trials.iter().filter(|t| t.key.cell.as_str() == "w_b").count(), 4);
        assert_eq!(Schedule::new(&plan, &trials).unwrap().given_up(), [1]);
    }

    #[test]
    fn a_skipped_cell_is_asked_for_no_more() {
        let plan = plan_of(&["a"]);
        let mut schedule = Schedule::new(&plan, &[]).unwrap();
        schedule.skip(0);
        assert_eq!((schedule.next(), schedule.remaining().at_most), (None, 0));
    }

    #[test]
    fn what_is_to_be_decided_ends_once_it_is_clear_and_where_a_side_is_missing() {
        let mut plan = plan_of(&["a", "b"]);
        (plan.study.measure.until, plan.study.measure.confidence) = (Until::Decided, 0.9);
        let decided = |factor: f64| {
            let script = move |key: &TrialKey| match key.cell.as_str() {
                "w_b" => Answer::Value(100.0 * factor),
                _ => Answer::Value(100.0),
            };
            run(&plan, vec![], &script, 1000).len()
        };
        let zeros = run(&plan, vec![], &|_: &TrialKey| Answer::Value(0.0), 1000).len();
        assert_eq!(zeros, 10, "zeros have no ratio");
        assert_eq!([decided(2.0), decided(0.5)], [10, 10], "five blocks are the fewest");
        assert!((12..30).contains(&decided(1.0)), "the same takes longer: {}", decided(1.0));
        let mut schedule = Schedule::new(&plan, &[]).unwrap();
        schedule.skip(1);
        assert_eq!((schedule.next(), schedule.remaining().at_most), (None, 0));
    }

    #[test]
    fn what_the_blocks_that_are_left_cannot_decide_any_more_ends() {
        let mut plan = plan_of(&["a", "b"]);
        (plan.study.measure.until, plan.study.measure.confidence) = (Until::Decided, 0.9);
        // Now the one is faster by a fifth and now the other.
        let script = |key: &TrialKey| match (key.cell.as_str(), key.block % 2) {
            ("w_b", 0) => Answer::Value(120.0),
            ("w_b", _) => Answer::Value(80.0),
            _ => Answer::Value(100.0),
        };
        let trials = run(&plan, vec![], &script, 1000);
        let pairs: Vec<(f64, f64)> =
            (0..trials.len() / 2).map(|block| (100.0, if block % 2 == 0 { 120.0 } else { 80.0 })).collect();
        let of = |blocks: usize| standing(&pairs[..blocks], Better::Higher, 0.9, 0.02, 15 - blocks);
        assert!(pairs.len() < 15, "of 15 blocks: {}", pairs.len());
        assert_eq!([of(pairs.len() - 1), of(pairs.len())], [Standing::Open, Standing::OutOfReach]);
        assert_eq!(Schedule::new(&plan, &trials).unwrap().remaining().at_most, 0);
    }

    /// Of so many cells the best is looked for.
    fn search(cells: usize) -> Plan {
        let names: Vec<String> = (0..cells).map(|number| format!("c{number}")).collect();
        let mut plan = plan_of(&names.iter().map(String::as_str).collect::<Vec<_>>());
        plan.study.measure.until = Until::Best;
        (plan.study.measure.repeats_min, plan.study.measure.repeats_max) = (1, 15);
        plan
    }

    #[test]
    fn the_best_of_many_cells_is_found_in_a_fraction_of_their_trials() {
        let plan = search(40);
        // Each cell is 1% better than the one before, and each trial off by up to 3%.
        let script = |key: &TrialKey| {
            let number: f64 = key.cell.as_str()[3..].parse().unwrap();
            let noise = f64::from(key.block * 7 % 5) - 2.0 + (number * 5.0 % 3.0) - 1.0;
            Answer::Value(1.01_f64.powf(number) * (1.0 + noise / 100.0))
        };
        assert_eq!(Schedule::new(&plan, &[]).unwrap().remaining().likely, 40 + 10 * 2 + 3 * 4);
        let trials = run(&plan, vec![], &script, 1000);
        assert_eq!(trials.len(), 40 + 10 * 2 + 3 * 4);
        assert_eq!(Schedule::new(&plan, &trials).unwrap().remaining().at_most, 0);
        let often = |number: usize| blocks_of(&trials, &format!("w_c{number}"));
        assert_eq!((often(0), often(20)), (1, 1));
        assert!((37..40).map(often).all(|blocks| blocks >= 3), "the best are in the second round");
        assert_eq!((0..40).filter(|number| often(*number) == 7).count(), 3);
    }

    #[test]
    fn of_a_trade_off_all_go_on_that_no_other_beats_in_both() {
        let mut plan = search(40);
        plan.study.measure.until = Until::Front;
        (plan.study.measure.repeats_min, plan.study.measure.repeats_max) = (2, 14);
        // Of each two as fast, the second takes more; of the first ones the faster take more.
        let script = |key: &TrialKey| {
            let number: u32 = key.cell.as_str()[3..].parse().unwrap();
            let speed = f64::from(100 + number / 2);
            Answer::Both(speed, speed + f64::from(number % 2) * 50.0)
        };
        let trials = run(&plan, vec![], &script, 1000);
        let often = |number: usize| blocks_of(&trials, &format!("w_c{number}"));
        assert!((0..40).filter(|number| number % 2 == 1).all(|number| often(number) == 2));
        let last = often(0);
        assert!(last > 4 && (0..40).filter(|number| number % 2 == 0).all(|number| often(number) == last));
        assert_eq!(Schedule::new(&plan, &trials).unwrap().remaining().at_most, 0);
        // What has no watts is no choice.
        let script = |key: &TrialKey| match key.cell.as_str() {
            "w_c0" => Answer::Value(1e9),
            _ => script(key),
        };
        let trials = run(&plan, vec![], &script, 1000);
        assert_eq!((blocks_of(&trials, "w_c0"), blocks_of(&trials, "w_c2")), (2, last));
    }

    /// Of cells that differ by up to half. The test prints what it measures.
    #[test]
    fn what_is_found_in_noise_is_near_the_best() {
        let plan = search(40);
        let searches = ::testing::Extent::of(20, 100).count;
        let mut rng = domain::rng::Seed(3).stream("noise");
        for (noise, least) in [(0.01, 0.95), (0.03, 0.85), (0.06, 0.65)] {
            let (mut near, mut lost) = (0_u32, 0.0);
            for _ in 0..searches {
                let truths: Vec<f64> = (0..40).map(|_| 1.0 + rng.unit() / 2.0).collect();
                let of = |key: &TrialKey| truths[key.cell.as_str()[3..].parse::<usize>().unwrap()];
                let mut schedule = Schedule::new(&plan, &[]).unwrap();
                let mut last = BTreeMap::<String, Vec<f64>>::new();
                while let Some(next) = schedule.next() {
                    let key = schedule.key(next);
                    let value = of(&key) * (noise * rng.normal()).exp();
                    last.entry(key.cell.as_str().to_owned()).or_default().push(value);
                    schedule.record(&trial(key, Answer::Value(value))).unwrap();
                }
                let most = last.values().map(Vec::len).max().unwrap();
                let kept = last.iter().filter(|(_, values)| values.len() == most);
                let found =
                    kept.max_by(|a, b| median(a.1).unwrap().total_cmp(&median(b.1).unwrap())).unwrap().0;
                let best = truths.iter().copied().fold(0.0, f64::max);
                let loss = 1.0 - truths[found[3..].parse::<usize>().unwrap()] / best;
                near += u32::from(loss <= 0.03);
                lost += loss;
            }
            let share = f64::from(near) / searches as f64;
            println!(
                "noise {noise}: {share} within 3%, {:.2}% below the best",
                100.0 * lost / searches as f64
            );
            assert!(share >= least, "{noise}: {share}");
        }
    }

    #[test]
    fn of_a_metric_that_is_better_lower_the_lowest_go_on_and_what_fails_does_not() {
        let mut plan = search(8);
        plan.study.measure.metric = "latency_p50".into();
        let mut schedule = Schedule::new(&plan, &[]).unwrap();
        schedule.skip(7);
        let mut asked = BTreeMap::<String, usize>::new();
        while let Some(next) = schedule.next() {
            let key = schedule.key(next);
            let number: f64 = key.cell.as_str()[3..].parse().unwrap();
            *asked.entry(key.cell.as_str().to_owned()).or_default() += 1;
            let trial =
                if number == 0.0 { failed(key) } else { valid(key, &[("latency_p50", 1.0 + number)]) };
            schedule.record(&trial).unwrap();
        }
        let asked: Vec<(&str, usize)> = asked.iter().map(|(cell, times)| (cell.as_str(), *times)).collect();
        // One is tried twice and gives nothing, one cannot run here, and of the seven others two go on.
        assert_eq!(
            asked,
            [("w_c0", 2), ("w_c1", 3), ("w_c2", 3), ("w_c3", 1), ("w_c4", 1), ("w_c5", 1), ("w_c6", 1)]
        );
    }

    #[test]
    fn a_trial_of_another_study_is_refused() {
        let foreign =
            valid(TrialKey { cell: domain::ids::CellId::from_stored("x"), block: 0, attempt: 0 }, &[]);
        let error = Schedule::new(&plan_of(&["a"]), &[foreign]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot continue with trial `b00.x.a0`: the study has no such cell; run the study as it was, or begin a new run"
        );
    }

    #[test]
    fn what_is_left_is_bounded_from_both_sides_and_guessed_from_the_spread() {
        let plan = plan_of(&["a", "b"]);
        let fresh = Schedule::new(&plan, &[]).unwrap().remaining();
        assert_eq!(fresh, Remaining { at_least: 10, likely: 20, at_most: 30 });
        // Half the width of 94…106 is 6% of 100: 6 · (6 / 5)² = 8.64 blocks.
        let spread =
            |key: &TrialKey| Answer::Value([94.0, 106.0, 100.0, 100.0, 100.0, 100.0][key.block as usize]);
        let later = Schedule::new(&plan, &run(&plan, vec![], &spread, 12)).unwrap().remaining();
        assert_eq!(later, Remaining { at_least: 2, likely: 6, at_most: 18 });
    }

    fn answers() -> impl Strategy<Value = Vec<Answer>> {
        let answer = prop_oneof![
            6 => (90.0..110.0_f64).prop_map(Answer::Value),
            1 => Just(Answer::Disturbed),
            1 => Just(Answer::Failed),
            1 => Just(Answer::NoMetric),
        ];
        proptest::collection::vec(answer, 97)
    }

    /// An answer for each trial, whenever it is asked.
    fn answer(answers: &[Answer], key: &TrialKey) -> Answer {
        let place =
            key.folder().bytes().fold(7_usize, |h, b| h.wrapping_mul(31).wrapping_add(usize::from(b)));
        answers[place % answers.len()]
    }

    proptest! {
        #[test]
        fn whatever_happens_it_ends_with_at_most_one_valid_trial_a_block(answers in answers()) {
            let plan = plan_of(&["a", "b", "c"]);
            let trials = run(&plan, vec![], &|key| answer(&answers, key), 10_000);
            prop_assert!(trials.len() <= 3 * 15 * 2);
            let keys: BTreeSet<_> = trials.iter().map(|t| &t.key).collect();
            prop_assert_eq!(keys.len(), trials.len());
            let valid: Vec<_> = trials.iter().filter(|t| t.validity.is_valid()).collect();
            let places: BTreeSet<_> = valid.iter().map(|t| (t.key.block, &t.key.cell)).collect();
            prop_assert_eq!(places.len(), valid.len());
        }

        #[test]
        fn killed_anywhere_and_begun_again_it_runs_the_same_trials(
            answers in answers(), killed_after in 0..90_usize, is_search in any::<bool>()
        ) {
            let plan = if is_search { search(9) } else { plan_of(&["a", "b", "c"]) };
            let script = |key: &TrialKey| answer(&answers, key);
            let whole = run(&plan, vec![], &script, 10_000);
            let resumed = run(&plan, run(&plan, vec![], &script, killed_after), &script, 10_000);
            prop_assert_eq!(whole, resumed);
        }

        #[test]
        fn what_is_left_never_exceeds_its_bounds(
            answers in answers(), after in 0..60_usize, is_search in any::<bool>()
        ) {
            let plan = if is_search { search(9) } else { plan_of(&["a", "b", "c"]) };
            let script = |key: &TrialKey| answer(&answers, key);
            let some = run(&plan, vec![], &script, after);
            let remaining = Schedule::new(&plan, &some).unwrap().remaining();
            prop_assert!(remaining.at_least <= remaining.likely && remaining.likely <= remaining.at_most);
            let whole = run(&plan, some.clone(), &script, 10_000);
            let places = |trials: &[Trial]| trials.iter().map(|t| (t.key.block, t.key.cell.clone())).collect::<BTreeSet<_>>();
            prop_assert!(places(&whole).difference(&places(&some)).count() <= remaining.at_most);
        }
    }
}
