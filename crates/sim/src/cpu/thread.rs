//! Threads: what each has to do, and where it last ran.

use super::{Cost, Cpus, Tracking};
use crate::engine::PartId;
use domain::trace::Role;
use governors::pelt::Task;
use std::collections::VecDeque;

/// A thread, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u32);

#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) cost: Cost,
    pub(super) part: PartId,
    pub(super) token: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) name: String,
    pub(super) role: Role,
    /// Bit n: may run on CPU n.
    pub(super) allowed: u64,
    pub(super) work: VecDeque<Work>,
    /// So many pieces at the front are there because of the one before them, or are being executed: what is
    /// put first next goes behind them.
    pub(super) first: usize,
    pub(super) state: State,
    pub(super) cpu: usize,
    pub(super) vruntime: i64,
    /// From 6.6 on: its slice is over when it has run so long.
    pub(super) deadline: i64,
    /// And by how much it had run less than the mean when it left its CPU's queue (`se->vlag`).
    pub(super) lag: i64,
    pub(super) used_ns: u64,
    /// What the scheduler believes that it uses, where a governor asks.
    pub(super) task: Task,
    /// Whether its signals count on [`Thread::cpu`].
    pub(super) attached: bool,
    pub(super) waits_for_disk: bool,
    pub(super) holds_plug: bool,
    /// For so many things it waits inside a call of the kernel, whatever else it has to do.
    pub(super) held_up: u32,
    pub(super) interrupt: bool,
    /// It executes nothing of the kernel's.
    pub(super) only_computes: bool,
}

impl Thread {
    pub(super) fn can_run(&self) -> bool {
        !self.work.is_empty() && self.held_up == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Sleeping,
    Ready,
    Running,
}

impl Cpus {
    /// A new thread, asleep. `allowed`: bit n where it may run on CPU n; 0 for anywhere.
    pub fn thread(&mut self, name: &str, role: Role, allowed: u64) -> ThreadId {
        self.threads.push(Thread {
            name: name.to_owned(),
            role,
            allowed: if allowed == 0 { u64::MAX } else { allowed },
            work: VecDeque::new(),
            first: 0,
            state: State::Sleeping,
            cpu: if allowed == 0 { 0 } else { allowed.trailing_zeros() as usize },
            vruntime: 0,
            deadline: 0,
            lag: 0,
            used_ns: 0,
            task: Tracking::task(),
            attached: false,
            waits_for_disk: false,
            holds_plug: false,
            held_up: 0,
            interrupt: false,
            only_computes: false,
        });
        ThreadId((self.threads.len() - 1) as u32)
    }

    /// Says whether a thread, where it sleeps next, waits for a disk (`io_schedule`).
    pub fn waits_for_disk(&mut self, thread: ThreadId, waits: bool) {
        self.threads[thread.0 as usize].waits_for_disk = waits;
    }

    /// A thread never enters the kernel, so that another one may take its place at any moment.
    pub fn only_computes(&mut self, thread: ThreadId) {
        self.threads[thread.0 as usize].only_computes = true;
    }

    /// A thread that has not run yet is as if it had run on that CPU last.
    pub fn leave_on(&mut self, thread: ThreadId, cpu: usize) {
        self.threads[thread.0 as usize].cpu = cpu;
    }

    /// Where a thread runs or last ran.
    pub fn cpu_of(&self, thread: ThreadId) -> usize {
        self.threads[thread.0 as usize].cpu
    }

    pub(crate) fn interrupt_of(&self, cpu: usize) -> ThreadId {
        self.cpus[cpu].interrupt
    }

    pub(crate) fn is_interrupt(&self, thread: ThreadId) -> bool {
        self.threads[thread.0 as usize].interrupt
    }

    pub(crate) fn hold_plug(&mut self, thread: ThreadId, holds: bool) {
        self.threads[thread.0 as usize].holds_plug = holds;
    }

    pub(crate) fn is_held_up(&self, thread: ThreadId) -> bool {
        self.threads[thread.0 as usize].held_up > 0
    }

    pub(crate) fn holds_plug(&self, thread: ThreadId) -> bool {
        let thread = &self.threads[thread.0 as usize];
        // The kernel flushes a plug when its thread blocks.
        thread.holds_plug && thread.can_run()
    }

    pub(crate) fn has_nothing_to_do(&self, thread: ThreadId) -> bool {
        let thread = &self.threads[thread.0 as usize];
        thread.work.is_empty() && thread.held_up == 0
    }
}
