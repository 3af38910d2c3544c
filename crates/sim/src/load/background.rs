//! Work that a machine does for itself at random moments: daemons and timers of a distribution.

use crate::cpu::{Cost, ThreadId};
use crate::engine::{Core, Part, PartId};
use crate::machine::{Background, MachineSpec};
use domain::rng::{Rng, Seed};
use domain::trace::Role;

/// A thread that sleeps and works, both for exponentially distributed times.
pub struct BackgroundWork {
    me: PartId,
    thread: ThreadId,
    rng: Rng,
    /// Mean time between two wake-ups, in nanoseconds.
    every: f64,
    /// Mean work of one, in cycles of the clock.
    cycles: f64,
}

impl BackgroundWork {
    /// A thread that begins to sleep at once, as the part `me`.
    pub fn new(core: &mut Core, me: PartId, work: &Background, machine: &MachineSpec, seed: Seed) -> Self {
        let thread = core.cpus.thread(&work.name, Role::Other, 0);
        let mut background = Self {
            me,
            thread,
            rng: seed.stream(&format!("background: {}", work.name)),
            every: work.every.get() as f64 / machine.dilation,
            cycles: work.work.is * machine.costs.factor / machine.costs.work_per_cycle,
        };
        background.sleep(core);
        background
    }

    fn sleep(&mut self, core: &mut Core) {
        let span = self.exponential(self.every);
        core.at(core.now + span, self.me, 0);
    }

    /// Exponentially distributed with this mean, and at least 1.
    fn exponential(&mut self, mean: f64) -> u64 {
        (-(1.0 - self.rng.unit()).ln() * mean).ceil().max(1.0) as u64
    }
}

impl Part for BackgroundWork {
    fn timer(&mut self, core: &mut Core, _: u64) {
        let cycles = self.exponential(self.cycles);
        core.run(self.thread, Cost::cycles(cycles), self.me, 0);
    }

    fn worked(&mut self, core: &mut Core, _: u64) {
        self.sleep(core);
    }
}
