//! Turbo: how far CPUs may go while so many of them work.

use super::Cpus;
use crate::engine::Event;
use event_queue::{Queue, Time};

/// How many CPUs share turbo's budget. The hardware looks at fixed intervals, and a CPU that sleeps for less
/// than one counts as one that works: such sleeps are C1, in which a core is active to it (Intel, "Turbo
/// Boost Technology in Intel Core Microarchitecture (Nehalem) Based Processors", 2008).
#[derive(Clone, Debug, Default)]
pub(super) struct Budget {
    /// Whether any policy has turbo.
    pub(super) exists: bool,
    /// What limits now.
    pub(super) active: usize,
    /// The most that have been busy at once since the hardware last looked.
    pub(super) most: usize,
    /// The next look is planned: something has changed.
    pub(super) planned: bool,
}

/// Between two looks (D. Hackenberg et al., "An Energy Efficiency Feature Survey of the Intel Haswell
/// Processor", IPDPSW 2015, which finds P-states of Haswell-EP changed at such intervals).
const BUDGET_NS: u64 = 500_000;

impl Cpus {
    /// More or fewer CPUs are busy, which decides how far each may go.
    pub(super) fn count_busy(&mut self, now: Time, queue: &mut Queue<Event>, busy: usize) {
        self.busy = busy;
        self.budget.most = self.budget.most.max(busy);
        self.plan_budget(now, queue);
    }

    fn plan_budget(&mut self, now: Time, queue: &mut Queue<Event>) {
        if self.budget.exists && !self.budget.planned {
            self.budget.planned = true;
            queue.plan((now / BUDGET_NS + 1) * BUDGET_NS, Event::Budget);
        }
    }

    /// The hardware looks at how many CPUs share turbo's budget.
    pub(crate) fn share_budget(&mut self, now: Time, queue: &mut Queue<Event>) {
        let most = std::mem::replace(&mut self.budget.most, self.busy);
        self.budget.planned = false;
        if most != self.busy {
            self.plan_budget(now, queue);
        }
        if most == self.budget.active {
            return;
        }
        self.budget.active = most;
        for policy in 0..self.policies.len() {
            if !self.policies[policy].spec.turbo.is_empty() {
                self.adapt(now, queue, policy);
            }
        }
    }
}
