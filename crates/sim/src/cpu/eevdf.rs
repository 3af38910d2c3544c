//! Who is next from 6.6 on (EEVDF): of the threads that have not run more than the mean, the one whose slice
//! would end first.
//!
//! Follows `kernel/sched/fair.c` (6.12): `place_entity`, `update_entity_lag`, `pick_eevdf` with
//! `RUN_TO_PARITY`, `update_deadline`, and `DELAY_DEQUEUE` with `requeue_delayed_entity`. A thread keeps,
//! while it sleeps, by how much it had run less than the mean, so that one that runs little goes before one
//! that runs much each time that it wakes up. Left out: weights, slices of a thread's own, groups.

use super::scheduler::WakeUp;
use super::{Cpus, ThreadId};
use governors::KernelVersion;

/// From here on a thread that goes to sleep stays on the queue where it has run more than the others
/// (`DELAY_DEQUEUE`).
const DELAYS_DEQUEUE: KernelVersion = KernelVersion::new(6, 12, 0);

/// What a CPU's queue knows besides who is on it.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn {
    /// Who runs, or is interrupted.
    pub(super) current: Option<ThreadId>,
    /// The deadline that it had when it was chosen. It keeps the CPU until then, as long as it has not run
    /// more than the mean.
    chosen_until: i64,
    /// It is interrupted within a piece of the kernel's work, which it ends before another thread has its
    /// turn: Debian's kernels give up the CPU at chosen places (`PREEMPT_VOLUNTARY`).
    pub(super) within: bool,
    /// How long it had run when the queue last looked.
    seen: i64,
    /// Those that sleep and stay on the queue until they are chosen.
    delayed: Vec<ThreadId>,
}

impl Cpus {
    /// Whether this kernel has it.
    pub(crate) fn has_deadlines(&self) -> bool {
        matches!(self.turns.wake_up, WakeUp::Slice)
    }

    fn vruntime(&self, thread: ThreadId) -> i64 {
        self.threads[thread.0 as usize].vruntime
    }

    fn deadline(&self, thread: ThreadId) -> i64 {
        self.threads[thread.0 as usize].deadline
    }

    /// Whether a thread sleeps and is still on the queue of the CPU on which it ran.
    pub(super) fn is_delayed(&self, thread: ThreadId) -> bool {
        self.cpus[self.threads[thread.0 as usize].cpu].turn.delayed.contains(&thread)
    }

    /// Who is on a queue, delayed ones too.
    fn queued(&self, cpu: usize) -> impl Iterator<Item = ThreadId> {
        let cpu = &self.cpus[cpu];
        let all = cpu.ready.iter().chain(&cpu.running).chain(&cpu.turn.delayed).copied();
        all.filter(|thread| !self.is_interrupt(*thread))
    }

    /// How many are on a queue, and the mean of their run times (`avg_vruntime`).
    fn mean(of: impl Iterator<Item = i64>) -> Option<(i64, i64)> {
        let (count, sum) = of.fold((0, 0), |(n, sum), vruntime| (n + 1, sum + i128::from(vruntime)));
        (count > 0).then(|| (count, sum.div_euclid(i128::from(count)) as i64))
    }

    fn mean_of(&self, cpu: usize) -> Option<(i64, i64)> {
        Self::mean(self.queued(cpu).map(|thread| self.vruntime(thread)))
    }

    /// A thread that is not on the CPU's queue gets its place there. One that had run less than the mean when
    /// it left its queue has run that much less than this one's.
    pub(super) fn place_anew(&mut self, thread: ThreadId, cpu: usize) {
        let slice = self.turns.slice_ns as i64;
        let others = self.mean_of(cpu);
        let entry = &mut self.threads[thread.0 as usize];
        let lag = std::mem::take(&mut entry.lag);
        if let Some((others, mean)) = others {
            entry.vruntime = mean - lag * (others + 1) / others;
        }
        entry.deadline = entry.vruntime + slice;
    }

    /// A delayed thread wakes up before it was chosen. Only behind the mean it is placed anew, and that does
    /// not have what the thread that runs has run since the queue last looked.
    pub(super) fn requeue(&mut self, thread: ThreadId) {
        let cpu = self.threads[thread.0 as usize].cpu;
        let (current, seen) = (self.cpus[cpu].turn.current, self.cpus[cpu].turn.seen);
        let as_seen = |other: ThreadId| if Some(other) == current { seen } else { self.vruntime(other) };
        let all = Self::mean(self.queued(cpu).map(as_seen));
        let others = Self::mean(self.queued(cpu).filter(|other| *other != thread).map(as_seen));
        let slice = self.turns.slice_ns as i64;
        self.cpus[cpu].turn.delayed.retain(|other| *other != thread);
        let entry = &mut self.threads[thread.0 as usize];
        if let (Some((_, mean)), Some((_, of_others))) = (all, others)
            && entry.vruntime < mean
        {
            entry.vruntime = of_others;
            entry.deadline = of_others + slice;
        }
    }

    /// The queue looks at how long its thread has run (`update_curr`). At its deadline it gets another one,
    /// and others have their turn.
    pub(super) fn look_at_current(&mut self, cpu: usize) {
        let Some(current) = self.cpus[cpu].turn.current else { return };
        let slice = self.turns.slice_ns as i64;
        let entry = &mut self.threads[current.0 as usize];
        self.cpus[cpu].turn.seen = entry.vruntime;
        if entry.vruntime >= entry.deadline {
            entry.deadline = entry.vruntime + slice;
            let others_wait = self.queued(cpu).nth(1).is_some();
            self.cpus[cpu].resched |= others_wait;
        }
    }

    /// A thread that has woken up may be who is next.
    pub(super) fn check_woken(&mut self, cpu: usize, woken: ThreadId) {
        self.look_at_current(cpu);
        let Some(current) = self.cpus[cpu].turn.current else { return };
        if !self.cpus[cpu].resched && current != woken {
            self.cpus[cpu].resched = self.most_urgent(cpu) == Some(woken);
        }
    }

    /// Who is next of those on the queue (`pick_eevdf`).
    fn most_urgent(&self, cpu: usize) -> Option<ThreadId> {
        let (_, mean) = self.mean_of(cpu)?;
        let (current, chosen_until) = (self.cpus[cpu].turn.current, self.cpus[cpu].turn.chosen_until);
        let may = |thread: &ThreadId| self.vruntime(*thread) <= mean;
        let current = current.filter(|thread| self.queued(cpu).any(|other| other == *thread)).filter(may);
        if current.is_some_and(|current| self.deadline(current) == chosen_until) {
            return current;
        }
        let others = self.queued(cpu).filter(|thread| Some(*thread) != current).filter(may);
        let best = others.min_by_key(|thread| (self.deadline(*thread), thread.0));
        match (best, current) {
            (Some(best), Some(current)) if self.deadline(current) < self.deadline(best) => Some(current),
            (best, current) => best.or(current),
        }
    }

    /// Who is to run; it is still among those that are ready. A thread that was only interrupted goes on.
    pub(super) fn choose(&mut self, cpu: usize) -> Option<ThreadId> {
        let within = std::mem::take(&mut self.cpus[cpu].turn.within);
        if (within || !self.cpus[cpu].resched)
            && let Some(current) = self.cpus[cpu].turn.current
        {
            return Some(current);
        }
        loop {
            let best = self.most_urgent(cpu)?;
            let delayed = &mut self.cpus[cpu].turn.delayed;
            let Some(at) = delayed.iter().position(|thread| *thread == best) else {
                self.cpus[cpu].resched = false;
                return Some(best);
            };
            // It has run no more than the mean by now, and so it leaves the queue at last, without a lag.
            delayed.swap_remove(at);
            self.threads[best.0 as usize].lag = 0;
        }
    }

    /// A thread gets the CPU that another one had, or none.
    pub(super) fn begins_turn(&mut self, cpu: usize, thread: ThreadId) {
        let entry = &self.threads[thread.0 as usize];
        let (chosen_until, seen) = (entry.deadline, entry.vruntime);
        let turn = &mut self.cpus[cpu].turn;
        (turn.current, turn.chosen_until, turn.seen) = (Some(thread), chosen_until, seen);
    }

    /// The thread that had the CPU goes to sleep. It is not on the queue any more, or else it is delayed.
    pub(super) fn leaves_to_sleep(&mut self, cpu: usize, thread: ThreadId) {
        self.cpus[cpu].turn.current = None;
        let lag = self.lag(cpu, thread);
        if lag < 0 && self.kernel >= DELAYS_DEQUEUE {
            self.cpus[cpu].turn.delayed.push(thread);
        } else {
            self.threads[thread.0 as usize].lag = lag;
        }
    }

    /// A thread that is ready goes to another CPU.
    pub(super) fn leaves_for(&mut self, from: usize, thread: ThreadId) {
        self.threads[thread.0 as usize].lag = self.lag(from, thread);
    }

    /// By how much a thread that has just left a CPU's queue had run less than the mean there, itself
    /// included (`update_entity_lag`).
    fn lag(&self, cpu: usize, thread: ThreadId) -> i64 {
        let own = self.vruntime(thread);
        let others = self.queued(cpu).map(|other| self.vruntime(other));
        let (_, mean) = Self::mean(others.chain([own])).expect("at least itself");
        let most = (2 * self.turns.slice_ns).max(self.tick_ns) as i64;
        (mean - own).clamp(-most, most)
    }

    /// Whether a thread has the CPU, interrupted or not.
    pub(super) fn is_current(&self, cpu: usize, thread: ThreadId) -> bool {
        self.cpus[cpu].turn.current == Some(thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Cost, Cpus, CpusSpec, PolicySpec};
    use crate::engine::{Core, Part, PartId, Stopped, World};
    use disks::DiskSet;
    use domain::rng::Seed;
    use domain::trace::Role;
    use event_queue::Time;
    use std::cell::RefCell;
    use std::rc::Rc;

    const MICRO: Time = 1_000;
    const MILLI: Time = 1_000_000;

    /// Work that comes at a time, on a CPU of 1 GHz, in parts between which the kernel gives up the CPU; an
    /// interrupt's where there is no thread.
    #[derive(Clone, Copy)]
    struct Comes {
        at: Time,
        thread: Option<u32>,
        cycles: u64,
        parts: u64,
    }

    const fn work(at: Time, thread: u32, cycles: u64) -> Comes {
        Comes { at, thread: Some(thread), cycles, parts: 1 }
    }

    const fn interrupt(at: Time, cycles: u64) -> Comes {
        Comes { at, thread: None, cycles, parts: 1 }
    }

    struct Script {
        me: PartId,
        comes: Vec<Comes>,
        done: Rc<RefCell<Vec<(u64, Time)>>>,
    }

    impl Part for Script {
        fn timer(&mut self, core: &mut Core, token: u64) {
            let Comes { thread, cycles, parts, .. } = self.comes[token as usize];
            let cost = Cost::cycles(cycles);
            match thread {
                Some(thread) => core.run_in_parts(ThreadId(1 + thread), cost, parts, self.me, token),
                None => core.interrupt(0, cost, self.me, token),
            }
        }

        fn worked(&mut self, core: &mut Core, token: u64) {
            let mut done = self.done.borrow_mut();
            done.push((token, core.now));
            if done.len() == self.comes.len() {
                core.stop();
            }
        }
    }

    /// Which of it is done, and when; the first of the threads may only compute.
    fn run(switch: Cost, only_computes: bool, comes: &[Comes]) -> Vec<(u64, Time)> {
        let spec = CpusSpec::bare(KernelVersion::new(6, 12, 0), vec![PolicySpec::fixed(vec![0], 1_000_000)]);
        let mut cpus = Cpus::new(CpusSpec { switch, ..spec });
        let threads = [0, 1].map(|n| cpus.thread(&format!("thread {n}"), Role::Workload, 0));
        if only_computes {
            cpus.only_computes(threads[0]);
        }
        let mut world = World::new(Core::new(cpus, DiskSet::new(Seed(1)), Seed(1)));
        let me = world.next_part();
        let done = Rc::default();
        world.add(Box::new(Script { me, comes: comes.to_vec(), done: Rc::clone(&done) }));
        for (token, comes) in comes.iter().enumerate() {
            world.core.at(comes.at, me, token as u64);
        }
        assert_eq!(world.run(1_000 * MILLI, None, &mut ()), Stopped::Done);
        done.take()
    }

    fn ends_of(thread: u32, comes: &[Comes], only_computes: bool) -> Vec<Time> {
        let done = run(Cost::NONE, only_computes, comes).into_iter();
        done.filter(|(token, _)| comes[*token as usize].thread == Some(thread)).map(|(_, at)| at).collect()
    }

    #[test]
    fn who_had_run_less_before_it_slept_goes_first_when_it_wakes_up() {
        let long = Comes { parts: 160, ..work(0, 0, 16 * MILLI) };
        let at = |at, cycles| work(at * MILLI + MILLI / 20, 1, cycles);
        // It waits for the tick at 4 ms once, while the other runs, and so has run less by 3.45 ms from then
        // on, whenever it comes.
        let comes = [long, at(0, MILLI / 2), at(5, MILLI / 2), at(10, MILLI / 2)];
        let ends = ends_of(1, &comes, false);
        assert_eq!(ends, [4_500 * MICRO, 5_600 * MICRO, 10_600 * MICRO]);
    }

    #[test]
    fn the_kernel_gives_up_the_cpu_between_parts_and_a_program_at_once() {
        let long = |parts| Comes { parts, ..work(0, 0, 12 * MILLI) };
        // The second time it goes first, for it has waited the first time.
        let comes = |parts| [long(parts), work(MILLI / 2, 1, MILLI), work(6 * MILLI, 1, MILLI)];
        assert_eq!(ends_of(1, &comes(1), false)[1], 9 * MILLI, "the tick at 8 ms");
        assert_eq!(ends_of(1, &comes(8), false)[1], 8 * MILLI, "after 6 ms of work");
        assert_eq!(ends_of(1, &comes(1), true)[1], 7 * MILLI);
        let beside = [&comes(8)[..], &[interrupt(6 * MILLI - 10 * MICRO, 100 * MICRO)]].concat();
        assert_eq!(ends_of(1, &beside, false)[1], 8_100 * MICRO, "an interrupt was there when it woke up");
    }

    #[test]
    fn an_interrupt_is_no_switch() {
        let comes = [work(0, 0, 2 * MILLI), interrupt(MILLI, 10 * MICRO)];
        assert_eq!(run(Cost::cycles(MICRO), false, &comes), [(1, 1_010 * MICRO), (0, 2_011 * MICRO)]);
    }

    #[test]
    fn threads_that_always_want_the_cpu_take_turns_at_ticks() {
        let comes = [work(0, 0, 7 * MILLI), work(0, 1, 7 * MILLI)];
        assert_eq!(run(Cost::NONE, false, &comes), [(0, 11 * MILLI), (1, 14 * MILLI)]);
    }
}
