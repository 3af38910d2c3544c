//! Trials simulated before they are asked for.

use super::machines::Machines;
use super::{Outcome, seed_of};
use domain::ids::TrialKey;
use domain::plan::{Cell, Plan};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// How far each core may be ahead of what is kept, in trials: their traces are in memory.
const MAX_AHEAD: usize = 2;

/// Workers that simulate what the schedule will ask for. They end when this is dropped.
pub(super) struct Ahead {
    queue: Arc<Queue>,
    workers: Vec<JoinHandle<()>>,
}

struct Queue {
    plan: Plan,
    machines: Arc<Machines>,
    /// Trials by the places of their cells, in the order in which the schedule will ask, as far as that is
    /// known.
    wanted: Vec<(TrialKey, usize)>,
    workers: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The next of `wanted` to be begun.
    next: usize,
    /// How many of `wanted` were asked for.
    asked: usize,
    done: BTreeMap<TrialKey, Outcome>,
    ended: bool,
}

impl Ahead {
    /// Begins with every cell as often as it is measured at least, but for the trials that are there.
    pub fn begin(plan: &Plan, machines: &Arc<Machines>, there: &[TrialKey]) -> Self {
        let mut wanted = Vec::new();
        for block in 0..plan.study.measure.repeats_min {
            for index in plan.block_order(block) {
                let key = TrialKey { block, cell: plan.cells[index].id.clone(), attempt: 0 };
                if !there.contains(&key) {
                    wanted.push((key, index));
                }
            }
        }
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let queue = Arc::new(Queue {
            plan: plan.clone(),
            machines: Arc::clone(machines),
            wanted,
            workers: count,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let worker = |_| {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || queue.work())
        };
        let workers = (0..count).map(worker).collect();
        Self { queue, workers }
    }

    /// A trial, from a worker where one simulates it, else simulated now.
    pub fn outcome(&self, cell: &Cell, key: &TrialKey) -> Outcome {
        self.queue.wait_for(key).unwrap_or_else(|| self.queue.simulate(cell, key))
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.queue.end();
        for worker in self.workers.drain(..) {
            // What a worker that panicked had to say was said.
            let _ = worker.join();
        }
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn simulate(&self, cell: &Cell, key: &TrialKey) -> Outcome {
        let seed = seed_of(&self.plan, key);
        self.machines.simulate(&self.plan.study, &self.plan.in_trial(cell, key), seed)
    }

    /// Simulates one after the other, not further ahead than there is room for.
    fn work(&self) {
        let _ending = EndsWhenPanicking(self);
        loop {
            let room =
                |state: &mut State| !state.ended && state.next >= state.asked + self.workers * MAX_AHEAD;
            let waiting = self.changed.wait_while(self.state(), room);
            let mut state = waiting.unwrap_or_else(PoisonError::into_inner);
            let Some((key, cell)) = self.wanted.get(state.next).filter(|_| !state.ended) else { return };
            state.next += 1;
            drop(state);
            let outcome = self.simulate(&self.plan.cells[*cell], key);
            self.state().done.insert(key.clone(), outcome);
            self.changed.notify_all();
        }
    }

    /// What was simulated of this; `None` where nobody will.
    fn wait_for(&self, key: &TrialKey) -> Option<Outcome> {
        let place = self.wanted.iter().position(|(wanted, _)| wanted == key)?;
        let mut state = self.state();
        // Cells that are skipped are asked for no more.
        state.asked = state.asked.max(place + 1);
        state.done.retain(|done, _| self.wanted[place..].iter().any(|(wanted, _)| wanted == done));
        self.changed.notify_all();
        let missing = |state: &mut State| !state.ended && !state.done.contains_key(key);
        let mut state = self.changed.wait_while(state, missing).unwrap_or_else(PoisonError::into_inner);
        state.done.remove(key)
    }

    fn end(&self) {
        self.state().ended = true;
        self.changed.notify_all();
    }
}

/// Whoever waits for a worker that panics simulates the trial itself, and says what is wrong.
struct EndsWhenPanicking<'a>(&'a Queue);

impl Drop for EndsWhenPanicking<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}
