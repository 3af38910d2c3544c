//! What CPUs and threads have done until now.

use super::Cpus;
use super::idle::Idleness;
use super::tracking::Had;
use domain::trace::Role;
use event_queue::Time;

/// What one CPU has done until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Executing.
    pub busy_ns: u64,
    /// Not executing, waiting for disks included.
    pub idle_ns: u64,
    /// The part of the idle time with a sleeper that waits for a disk.
    pub iowait_ns: u64,
    /// The part of the idle time for which it looped (`POLL`).
    pub polled_ns: u64,
    /// Cycles executed, those of looping too.
    pub cycles: u64,
}

impl Cpus {
    /// Name, role and CPU time of each thread.
    pub fn thread_times(&self) -> impl Iterator<Item = (&str, Role, u64)> {
        self.threads.iter().map(|t| (t.name.as_str(), t.role, t.used_ns))
    }

    /// What a CPU has done, and the state it is in, brought up to now.
    pub fn times(&mut self, now: Time, cpu: usize) -> CpuTimes {
        self.account(now, cpu);
        let cpu = &self.cpus[cpu];
        CpuTimes {
            busy_ns: cpu.busy_ns,
            idle_ns: cpu.idle_ns,
            iowait_ns: cpu.iowait_ns,
            polled_ns: cpu.polled_ns,
            cycles: cpu.aperf,
        }
    }

    /// The part of a CPU's time that interrupts took.
    pub fn interrupt_time(&self, cpu: usize) -> u64 {
        self.threads[self.cpus[cpu].interrupt.0 as usize].used_ns
    }

    /// The frequencies that a policy has had or can have, in kHz, lowest first, and how long it has had each
    /// until now.
    pub fn residency(&mut self, now: Time, policy: usize) -> &[(u64, u64)] {
        self.policies[policy].catch_up(now);
        self.policies[policy].residency()
    }

    /// Joules of all CPUs until now.
    pub fn joules(&mut self, now: Time) -> f64 {
        (0..self.cpus.len()).for_each(|cpu| self.account(now, cpu));
        self.power.joules()
    }

    /// Brings a CPU's times up to now.
    pub(super) fn account(&mut self, now: Time, cpu: usize) {
        let entry = &mut self.cpus[cpu];
        let span = now - entry.accounted;
        if span == 0 {
            return;
        }
        entry.accounted = now;
        let khz = self.policies[entry.policy].khz;
        let idle_watts = entry.idleness.as_ref().and_then(Idleness::watts);
        // To the kernel a CPU that loops is idle; to its clocks it is not.
        let polls = entry.running.is_none() && entry.idleness.as_ref().is_some_and(Idleness::polls);
        self.power.spend(khz, entry.running.is_some() || polls, idle_watts, span);
        if polls {
            entry.aperf += cycles(span, khz);
            entry.polled_ns += span;
        }
        match entry.running {
            Some(thread) => {
                entry.busy_ns += span;
                entry.aperf += cycles(span, khz);
                self.threads[thread.0 as usize].used_ns += span;
                // An interrupt's time counts to whom it interrupts: no `CONFIG_IRQ_TIME_ACCOUNTING`.
                let counts = entry.turn.current.unwrap_or(thread);
                self.threads[counts.0 as usize].vruntime += span as i64;
            }
            None => {
                entry.idle_ns += span;
                entry.idle_ticks += now / self.tick_ns - (now - span) / self.tick_ns;
                if entry.sleepers_on_disk > 0 {
                    entry.iowait_ns += span;
                }
            }
        }
        if self.tracks {
            let spec = &self.policies[entry.policy].spec;
            let frequency = match spec.view.frequency_invariant {
                true => (khz * 1024 / spec.capacity_khz.max(1)).min(1024),
                false => 1024,
            };
            let had = match entry.running {
                None => Had::Idle,
                Some(thread) if self.threads[thread.0 as usize].interrupt => Had::Interrupt,
                Some(thread) => {
                    let waiting = entry.ready.iter().filter(|t| !self.threads[t.0 as usize].interrupt);
                    let runnable = 1 + waiting.count() as u64;
                    Had::Thread(&mut self.threads[thread.0 as usize].task, runnable)
                }
            };
            entry.tracking.pass(now, span, had, frequency);
        }
    }
}

/// Cycles in so many nanoseconds.
pub(super) const fn cycles(ns: u64, khz: u64) -> u64 {
    match ns.checked_mul(khz) {
        Some(product) => product / 1_000_000,
        None => (ns as u128 * khz as u128 / 1_000_000) as u64,
    }
}
