//! Frequencies: when a governor is asked, and when what it asks for takes effect.

use super::accounting::cycles;
use super::idle::Idleness;
use super::policy::{self, Begins, IdleTime, Seen, Seen1};
use super::{Cpus, ThreadId};
use crate::engine::Event;
use domain::time::Nanos;
use domain::units::Hertz;
use event_queue::{Queue, Time};
use governors::Update;

/// How often, at most, the governor's hook is called for other than a disk: the scheduler calls it where
/// averages have changed, which they do each 1024 µs.
const HOOK_NS: u64 = 1 << 20;

impl Cpus {
    /// The governor takes over its policy, long before anything happens: its first request is in effect.
    pub(super) fn start(&mut self, policy: usize) {
        let seen = self.look(0, policy);
        if let Some(request) = self.policies[policy].start(&Seen(&seen)) {
            self.policies[policy].want(request);
            self.policies[policy].grant();
        }
        if self.policies[policy].spec.begins == Begins::Idle
            && let Some(request) = self.policies[policy].has_rested(&Seen(&seen))
        {
            self.policies[policy].want(request);
            self.policies[policy].grant();
        }
        self.seen = seen;
        let khz = self.policies[policy].allowed_khz(0);
        self.policies[policy].khz = khz;
    }

    /// A frequency of a policy, now.
    pub fn khz(&self, cpu: usize) -> u64 {
        self.policies[self.cpus[cpu].policy].khz
    }

    /// How many policies there are.
    pub fn policies(&self) -> usize {
        self.policies.len()
    }

    /// How often a policy changed its frequency.
    pub fn transitions(&self, policy: usize) -> u64 {
        self.policies[policy].transitions
    }

    /// The scheduler calls the governor's hook (`cpufreq_update_util`).
    pub(super) fn hook(&mut self, now: Time, queue: &mut Queue<Event>, cpu: usize, from_disk: bool) {
        let policy = self.cpus[cpu].policy;
        if !from_disk {
            if now - self.cpus[cpu].hooked < HOOK_NS || !self.policies[policy].is_due(now) {
                return;
            }
            self.cpus[cpu].hooked = now;
        } else if !self.policies[policy].minds_disks() && !self.policies[policy].is_due(now) {
            return;
        }
        let seen = self.look(now, policy);
        let index = self.policies[policy].spec.cpus.iter().position(|c| *c == cpu).unwrap_or(0);
        let update = Update { now: Nanos::new(now), cpu: index, iowait: from_disk };
        let (mut request, is_queued) = self.policies[policy].hook(update, &Seen(&seen));
        if is_queued && self.upkeep.sample.is_nothing() {
            request = self.policies[policy].work(now, &Seen(&seen));
        } else if is_queued {
            // It is woken when the scheduler is through.
            queue.plan(now, Event::GovernorWork(cpu as u32));
        }
        self.seen = seen;
        if let Some(request) = request {
            self.request(now, queue, policy, request);
        }
    }

    /// A thread goes to sleep: a governor's worker has looked at the load, or handed on what was decided.
    pub(super) fn decide_in_worker(
        &mut self,
        now: Time,
        queue: &mut Queue<Event>,
        cpu: usize,
        thread: ThreadId,
    ) {
        if self.cpus[cpu].governor_worker != Some(thread) {
            return;
        }
        let policy = self.cpus[cpu].policy;
        let seen = self.look(now, policy);
        let request = self.policies[policy].work(now, &Seen(&seen));
        self.seen = seen;
        if let Some(request) = request {
            self.request(now, queue, policy, request);
        }
    }

    /// Plans the hardware's next look at a policy that is not idle.
    pub(super) fn watch(&mut self, now: Time, queue: &mut Queue<Event>, policy: usize) {
        let entry = &mut self.policies[policy];
        if let Some(due) = entry.hardware_due()
            && !entry.watched
        {
            entry.watched = true;
            queue.plan(due.max(now), Event::Hardware(policy as u32));
        }
    }

    /// The hardware looks at a policy.
    pub(crate) fn hardware(&mut self, now: Time, queue: &mut Queue<Event>, policy: usize) {
        let seen = self.look(now, policy);
        self.policies[policy].watched = false;
        let request = self.policies[policy].act(now, &Seen(&seen));
        self.seen = seen;
        if let Some(request) = request {
            self.request(now, queue, policy, request);
        }
        let works = |cpu: &usize| {
            let entry = &self.cpus[*cpu];
            entry.busy || entry.idleness.as_ref().is_some_and(Idleness::polls)
        };
        if self.policies[policy].spec.cpus.iter().any(works) {
            self.watch(now, queue, policy);
        }
    }

    /// What a policy's governor reads now.
    fn look(&mut self, now: Time, policy: usize) -> Vec<Seen1> {
        let mut seen = std::mem::take(&mut self.seen);
        seen.clear();
        let idle_time = self.policies[policy].spec.idle_time;
        for index in 0..self.policies[policy].spec.cpus.len() {
            let cpu = self.policies[policy].spec.cpus[index];
            self.account(now, cpu);
            let entry = &self.cpus[cpu];
            let (utilisation, least) = policy::utilisation(&entry.tracking, self.kernel);
            seen.push(Seen1 {
                idle_ns: match idle_time {
                    IdleTime::Exact => entry.idle_ns,
                    IdleTime::Ticks => entry.idle_ticks * self.tick_ns,
                },
                iowait_ns: entry.iowait_ns,
                utilisation,
                least,
                idle_calls: entry.idle_calls,
                aperf: entry.aperf,
                mperf: cycles(entry.busy_ns + entry.polled_ns, self.base_khz),
                tsc: cycles(now, self.base_khz),
            });
        }
        seen
    }

    /// A frequency is requested of a policy; it takes effect after the transition.
    fn request(&mut self, now: Time, queue: &mut Queue<Event>, policy: usize, frequency: Hertz) {
        if let Some(generation) = self.policies[policy].want(frequency) {
            let at = now + self.policies[policy].spec.transition_ns;
            queue.plan(at, Event::Frequency { policy: policy as u32, generation });
        }
    }

    /// A requested frequency takes effect.
    pub(crate) fn change(&mut self, now: Time, queue: &mut Queue<Event>, policy: usize, generation: u32) {
        if self.policies[policy].generation == generation {
            self.policies[policy].grant();
            self.adapt(now, queue, policy);
        }
    }

    /// A policy's CPUs go on at the frequency that they should have.
    pub(super) fn adapt(&mut self, now: Time, queue: &mut Queue<Event>, policy: usize) {
        let khz = self.policies[policy].allowed_khz(self.budget.active);
        if khz == self.policies[policy].khz {
            return;
        }
        let count = self.policies[policy].spec.cpus.len();
        for index in 0..count {
            let cpu = self.policies[policy].spec.cpus[index];
            self.account(now, cpu);
            self.interrupt_work(now, cpu);
        }
        self.policies[policy].run_at(now, khz);
        for index in 0..count {
            let cpu = self.policies[policy].spec.cpus[index];
            let running = self.cpus[cpu].running;
            if running.is_some_and(|thread| !self.has_nothing_to_do(thread)) && self.cpus[cpu].interrupted {
                self.begin(now, queue, cpu);
            }
        }
    }
}
