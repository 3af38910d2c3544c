//! Who runs: threads share a CPU by virtual run time, and an interrupt goes before everything.
//!
//! Follows `kernel/sched/fair.c` (6.1 and 6.12), much simplified: what is left out stands in the head of
//! [`super`].

use super::thread::{State, Work};
use super::{Cost, Cpus, ThreadId};
use crate::engine::{Event, PartId};
use event_queue::{Queue, Time};
use governors::KernelVersion;

/// From here on a thread keeps its CPU until its slice is over (EEVDF with `RUN_TO_PARITY`).
const EEVDF: KernelVersion = KernelVersion::new(6, 6, 0);

/// How long threads of one CPU run in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    /// How long a thread may run before another one of its CPU has its turn, at a tick
    /// (`sysctl_sched_min_granularity`; `sysctl_sched_base_slice`).
    pub(super) slice_ns: u64,
    /// How one that wakes up goes before the one that runs.
    pub(super) wake_up: WakeUp,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum WakeUp {
    /// It has run less by `least_ns` (`sysctl_sched_wakeup_granularity`); one that slept is taken to have run
    /// less than the others by at most `sleeper_ns` (half of `sysctl_sched_latency`).
    Granularity { least_ns: u64, sleeper_ns: u64 },
    /// It is who is next ([`super::eevdf`]).
    Slice,
}

impl Turns {
    /// Those of a kernel on so many CPUs (`get_update_sysctl_factor`).
    pub(super) fn of(kernel: KernelVersion, cpus: usize) -> Self {
        let factor = 1 + u64::from(cpus.clamp(1, 8).ilog2());
        if kernel >= EEVDF {
            // 0.7 ms in a guest of one CPU with Linux 6.12 (`/sys/kernel/debug/sched/debug`).
            return Self { slice_ns: 700_000 * factor, wake_up: WakeUp::Slice };
        }
        let wake_up = WakeUp::Granularity { least_ns: 1_000_000 * factor, sleeper_ns: 3_000_000 * factor };
        Self { slice_ns: 750_000 * factor, wake_up }
    }

    /// The same in the time of a machine that is so many times faster.
    pub(super) fn shortened(self, times: f64) -> Self {
        let shorter = |ns: u64| (ns as f64 / times) as u64;
        let wake_up = match self.wake_up {
            WakeUp::Granularity { least_ns, sleeper_ns } => {
                WakeUp::Granularity { least_ns: shorter(least_ns), sleeper_ns: shorter(sleeper_ns) }
            }
            WakeUp::Slice => WakeUp::Slice,
        };
        Self { slice_ns: shorter(self.slice_ns), wake_up }
    }
}

impl Cpus {
    /// A thread waits inside a call of the kernel: after the piece of work that it executes it sleeps,
    /// whatever it has to do.
    pub(crate) fn hold_up(&mut self, thread: ThreadId) {
        self.threads[thread.0 as usize].held_up += 1;
    }

    /// One of the things that it waits for has come.
    pub(crate) fn let_on(
        &mut self,
        now: Time,
        queue: &mut Queue<Event>,
        thread: ThreadId,
        waker: Option<ThreadId>,
    ) {
        let entry = &mut self.threads[thread.0 as usize];
        entry.held_up -= 1;
        if entry.can_run() && entry.state == State::Sleeping {
            self.wake(now, queue, thread, waker);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what a piece of work is made of, from one caller")]
    pub(crate) fn give(
        &mut self,
        now: Time,
        queue: &mut Queue<Event>,
        thread: ThreadId,
        waker: Option<ThreadId>,
        cost: Cost,
        part: PartId,
        token: u64,
    ) {
        let entry = &mut self.threads[thread.0 as usize];
        entry.work.push_back(Work { cost, part, token });
        if entry.can_run() && entry.state == State::Sleeping {
            self.wake(now, queue, thread, waker);
        }
    }

    pub(crate) fn give_first(
        &mut self,
        now: Time,
        queue: &mut Queue<Event>,
        thread: ThreadId,
        cost: Cost,
        part: PartId,
        token: u64,
    ) {
        let entry = &mut self.threads[thread.0 as usize];
        let at = entry.first.min(entry.work.len());
        entry.work.insert(at, Work { cost, part, token });
        entry.first = at + 1;
        if entry.can_run() && entry.state == State::Sleeping {
            self.wake(now, queue, thread, Some(thread));
        }
    }

    fn wake(&mut self, now: Time, queue: &mut Queue<Event>, thread: ThreadId, waker: Option<ThreadId>) {
        let is_delayed = self.is_delayed(thread);
        let cpu = if is_delayed { self.cpu_of(thread) } else { self.place(thread, waker) };
        self.account(now, cpu);
        let before = self.threads[thread.0 as usize].cpu;
        let entry = &mut self.threads[thread.0 as usize];
        let from_disk = entry.waits_for_disk && !entry.interrupt;
        if from_disk {
            entry.waits_for_disk = false;
            self.account(now, before);
            self.cpus[before].sleepers_on_disk = self.cpus[before].sleepers_on_disk.saturating_sub(1);
        }
        self.move_to(thread, cpu);
        let interrupt = self.is_interrupt(thread);
        match self.turns.wake_up {
            WakeUp::Granularity { sleeper_ns, .. } => {
                let least = self.least_vruntime(cpu) - sleeper_ns as i64;
                let entry = &mut self.threads[thread.0 as usize];
                entry.vruntime = entry.vruntime.max(least);
            }
            WakeUp::Slice if interrupt => {}
            WakeUp::Slice if is_delayed => self.requeue(thread),
            WakeUp::Slice => {
                self.look_at_current(cpu);
                self.place_anew(thread, cpu);
            }
        }
        let entry = &mut self.threads[thread.0 as usize];
        entry.state = State::Ready;
        let vruntime = entry.vruntime;
        if self.tracks && !interrupt {
            let kernel = self.kernel;
            self.cpus[cpu].tracking.wakes(&mut self.threads[thread.0 as usize].task, kernel);
        }
        self.cpus[cpu].ready.push(thread);
        if !interrupt {
            self.hook(now, queue, cpu, from_disk);
        }
        let Some(running) = self.cpus[cpu].running else {
            self.dispatch(now, queue, cpu);
            return;
        };
        if self.has_deadlines() && !interrupt {
            self.check_woken(cpu, thread);
        }
        // Between two pieces of work the thread's next step decides; see `proceed`.
        if self.cpus[cpu].ends.is_none() {
            return;
        }
        let other = &self.threads[running.0 as usize];
        let goes_before = match self.turns.wake_up {
            WakeUp::Granularity { least_ns, .. } => vruntime + (least_ns as i64) < other.vruntime,
            WakeUp::Slice => self.cpus[cpu].resched && other.only_computes,
        };
        if !other.interrupt && (interrupt || goes_before) {
            self.cpus[cpu].turn.within = interrupt && !other.only_computes;
            self.put_back(now, cpu);
            self.dispatch(now, queue, cpu);
        }
    }

    /// A thread that does not run belongs to a CPU from now on, and so do its signals.
    fn move_to(&mut self, thread: ThreadId, cpu: usize) {
        let entry = &mut self.threads[thread.0 as usize];
        let before = std::mem::replace(&mut entry.cpu, cpu);
        if !self.tracks || entry.interrupt || (entry.attached && before == cpu) {
            return;
        }
        if std::mem::replace(&mut entry.attached, true) {
            self.cpus[before].tracking.leaves(&mut entry.task);
        }
        self.cpus[cpu].tracking.comes(&mut entry.task);
    }

    /// Which CPU a thread that wakes up runs on: the one that it ran on where that is idle, else the waker's,
    /// else any idle one, else where it ran (`select_task_rq_fair`, much simplified).
    fn place(&self, thread: ThreadId, waker: Option<ThreadId>) -> usize {
        let entry = &self.threads[thread.0 as usize];
        let allowed = |cpu: usize| entry.allowed & (1 << (cpu % 64)) != 0;
        // An interrupt runs on top of whatever runs there: a CPU that does nothing else is idle (`idle_cpu`).
        let idle = |cpu: usize| {
            let running = self.cpus[cpu].running;
            running.is_none_or(|thread| self.is_interrupt(thread)) && self.cpus[cpu].ready.is_empty()
        };
        if entry.interrupt || (allowed(entry.cpu) && idle(entry.cpu)) {
            return entry.cpu;
        }
        let near = waker.map(|waker| self.threads[waker.0 as usize].cpu);
        let count = self.cpus.len();
        let around = (entry.cpu + 1..count).chain(0..=entry.cpu);
        let candidates = || near.into_iter().chain(around.clone()).filter(|cpu| allowed(*cpu));
        // Where all work, none needs to be asked.
        let free = || (self.working < count).then(|| candidates().find(|cpu| idle(*cpu)))?;
        let shortest = || candidates().min_by_key(|cpu| self.cpus[*cpu].ready.len());
        free().or_else(|| allowed(entry.cpu).then_some(entry.cpu)).or_else(shortest).unwrap_or(entry.cpu)
    }

    fn least_vruntime(&self, cpu: usize) -> i64 {
        let cpu = &self.cpus[cpu];
        let all = cpu.ready.iter().chain(cpu.running.iter());
        let threads = all.map(|t| &self.threads[t.0 as usize]).filter(|t| !t.interrupt);
        threads.map(|t| t.vruntime).min().unwrap_or(0)
    }

    /// Who is next of those that are ready: an interrupt, else as the scheduler has it.
    fn next(&mut self, cpu: usize) -> Option<ThreadId> {
        let interrupt = self.cpus[cpu].interrupt;
        if self.cpus[cpu].ready.contains(&interrupt) {
            return Some(interrupt);
        }
        if self.has_deadlines() {
            return self.choose(cpu);
        }
        let ready = self.cpus[cpu].ready.iter().copied();
        ready.min_by_key(|thread| (self.threads[thread.0 as usize].vruntime, thread.0))
    }

    /// Gives an idle CPU to the ready thread that is next.
    fn dispatch(&mut self, now: Time, queue: &mut Queue<Event>, cpu: usize) {
        self.account(now, cpu);
        let Some(thread) = self.next(cpu) else { return };
        let ready = &mut self.cpus[cpu].ready;
        let at = ready.iter().position(|other| *other == thread).expect("who is next is ready");
        ready.swap_remove(at);
        let goes_on = self.is_current(cpu, thread);
        let was_idle = !std::mem::replace(&mut self.cpus[cpu].busy, true);
        self.run_thread(cpu, Some(thread));
        if was_idle {
            self.count_busy(now, queue, self.busy + 1);
            self.watch(now, queue, self.cpus[cpu].policy);
        }
        self.cpus[cpu].dispatched = now;
        let entry = &mut self.threads[thread.0 as usize];
        entry.state = State::Running;
        let wake_up = match (&mut self.cpus[cpu].idleness, was_idle) {
            (Some(idleness), true) => idleness.leave(now),
            _ => 0,
        };
        if let Some(first) = entry.work.front_mut() {
            first.cost.stall_ns += wake_up;
            if was_idle {
                first.cost = first.cost.and(self.upkeep.idle_exit);
            }
        }
        if !entry.interrupt && !goes_on {
            if let Some(first) = entry.work.front_mut() {
                first.cost = first.cost.and(self.switch);
            }
            if self.tracks {
                self.cpus[cpu].tracking.waited(&mut entry.task);
            }
            if self.has_deadlines() {
                self.begins_turn(cpu, thread);
            }
        }
        self.begin(now, queue, cpu);
        if !self.cpus[cpu].ticking {
            self.cpus[cpu].ticking = true;
            let next = (now / self.tick_ns + 1) * self.tick_ns;
            queue.plan(next, Event::Tick(cpu as u32));
        }
    }

    /// Begins the running thread's next piece of work.
    pub(super) fn begin(&mut self, now: Time, queue: &mut Queue<Event>, cpu: usize) {
        let khz = self.khz(cpu);
        let entry = &mut self.cpus[cpu];
        let thread = entry.running.expect("a CPU that begins work runs a thread");
        let running = &mut self.threads[thread.0 as usize];
        running.first = running.first.max(1);
        let work = running.work.front().expect("a thread that runs has work");
        entry.begun = now;
        let ends = now + work.cost.at(khz);
        entry.ends = Some(ends);
        queue.set_alarm(cpu, ends);
    }

    /// Keeps what is left of the present piece.
    pub(super) fn interrupt_work(&mut self, now: Time, cpu: usize) {
        let entry = &mut self.cpus[cpu];
        entry.interrupted = entry.ends.is_some();
        let Some(ends) = entry.ends.take() else { return };
        let thread = entry.running.expect("a CPU with work runs a thread");
        let (done, whole) = (now - entry.begun, ends - entry.begun);
        if let Some(work) = self.threads[thread.0 as usize].work.front_mut() {
            work.cost = work.cost.rest(done, whole);
        }
    }

    /// Which thread a CPU runs from now on; the one that it ran.
    fn run_thread(&mut self, cpu: usize, thread: Option<ThreadId>) -> Option<ThreadId> {
        let before = std::mem::replace(&mut self.cpus[cpu].running, thread);
        let works = |thread: Option<ThreadId>| thread.is_some_and(|thread| !self.is_interrupt(thread));
        self.working = self.working + usize::from(works(thread)) - usize::from(works(before));
        before
    }

    /// Takes the CPU from the running thread.
    fn put_back(&mut self, now: Time, cpu: usize) {
        self.account(now, cpu);
        self.interrupt_work(now, cpu);
        if let Some(thread) = self.run_thread(cpu, None) {
            self.threads[thread.0 as usize].state = State::Ready;
            self.cpus[cpu].ready.push(thread);
        }
    }

    /// The piece that a CPU is through with: whose it was and what for. [`Cpus::proceed`] must follow, when
    /// all that it has led to is told.
    pub(crate) fn executed(&mut self, now: Time, cpu: usize) -> Option<(ThreadId, PartId, u64)> {
        // Work that was interrupted, and has not begun again, has no end.
        self.cpus[cpu].ends?;
        self.account(now, cpu);
        self.cpus[cpu].ends = None;
        let thread = self.cpus[cpu].running?;
        let entry = &mut self.threads[thread.0 as usize];
        entry.first = 0;
        let work = entry.work.pop_front()?;
        Some((thread, work.part, work.token))
    }

    /// Goes on after a piece of work: with the thread's next one, with another thread, or idle.
    pub(crate) fn proceed(&mut self, now: Time, queue: &mut Queue<Event>, cpu: usize) {
        if self.cpus[cpu].ends.is_some() {
            return;
        }
        let Some(thread) = self.cpus[cpu].running else { return };
        let entry = &self.threads[thread.0 as usize];
        let waiting_interrupt = self.cpus[cpu].ready.contains(&self.cpus[cpu].interrupt);
        // What was put first belongs to the same call of the kernel, which is not left before its end.
        let gives_way = self.cpus[cpu].resched && entry.first == 0;
        if entry.can_run() && (entry.interrupt || !(waiting_interrupt || gives_way)) {
            self.begin(now, queue, cpu);
            return;
        }
        if entry.can_run() {
            self.put_back(now, cpu);
            self.dispatch(now, queue, cpu);
            return;
        }
        self.account(now, cpu);
        self.run_thread(cpu, None);
        self.sleep(thread, cpu);
        self.wait_for_grace(now, queue, thread);
        self.decide_in_worker(now, queue, cpu, thread);
        if !self.threads[thread.0 as usize].interrupt {
            self.hook(now, queue, cpu, false);
        }
        if self.cpus[cpu].ready.is_empty() {
            self.steal(now, cpu);
        }
        self.dispatch(now, queue, cpu);
        if self.cpus[cpu].running.is_none() {
            self.idle(now, queue, cpu);
        }
    }

    /// The running thread has nothing to do.
    fn sleep(&mut self, thread: ThreadId, cpu: usize) {
        let entry = &mut self.threads[thread.0 as usize];
        entry.state = State::Sleeping;
        if entry.interrupt {
            return;
        }
        if entry.waits_for_disk {
            self.cpus[cpu].sleepers_on_disk += 1;
        }
        if self.tracks {
            self.cpus[cpu].tracking.sleeps(&mut entry.task, self.kernel);
        }
        if self.has_deadlines() {
            self.look_at_current(cpu);
            self.leaves_to_sleep(cpu, thread);
        }
    }

    /// An idle CPU takes a thread that waits elsewhere (`newidle_balance`).
    fn steal(&mut self, now: Time, cpu: usize) {
        let may = |from: usize, thread: &ThreadId| {
            let may_here = self.threads[thread.0 as usize].allowed & (1 << (cpu % 64)) != 0;
            !self.is_interrupt(*thread) && may_here && !self.is_current(from, *thread)
        };
        let from = (0..self.cpus.len()).filter(|other| *other != cpu);
        let from = from.filter(|other| self.cpus[*other].ready.iter().any(|thread| may(*other, thread)));
        let Some(from) = from.max_by_key(|other| self.cpus[*other].ready.len()) else { return };
        let Some(at) = self.cpus[from].ready.iter().position(|thread| may(from, thread)) else { return };
        let thread = self.cpus[from].ready.remove(at);
        self.account(now, from);
        if self.has_deadlines() {
            self.leaves_for(from, thread);
        }
        self.move_to(thread, cpu);
        if self.has_deadlines() {
            self.place_anew(thread, cpu);
        }
        self.cpus[cpu].ready.push(thread);
    }

    /// The scheduler's tick: the running thread's slice may be over. It ticks on while the CPU is busy.
    pub(crate) fn tick(&mut self, now: Time, queue: &mut Queue<Event>, cpu: usize) {
        self.account(now, cpu);
        if self.cpus[cpu].running.is_none() {
            self.cpus[cpu].ticking = false;
            return;
        }
        queue.plan(now + self.tick_ns, Event::Tick(cpu as u32));
        self.execute_tick(now, queue, cpu);
        self.hook(now, queue, cpu, false);
        let over = if self.has_deadlines() {
            self.look_at_current(cpu);
            let running = self.cpus[cpu].running;
            self.cpus[cpu].resched && !running.is_some_and(|thread| self.is_interrupt(thread))
        } else {
            now - self.cpus[cpu].dispatched >= self.turns.slice_ns && !self.cpus[cpu].ready.is_empty()
        };
        if over && self.cpus[cpu].ends.is_some() {
            self.put_back(now, cpu);
            self.dispatch(now, queue, cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{CpusSpec, PolicySpec};
    use crate::engine::{Core, Part, Stopped, World};
    use disks::DiskSet;
    use domain::rng::Seed;
    use domain::trace::Role;

    const MILLI: Time = 1_000_000;

    /// A thread has 30 ms of work on a CPU of 1 GHz; another one wakes up with 1 ms of it.
    struct Two(PartId);

    impl Part for Two {
        fn timer(&mut self, core: &mut Core, token: u64) {
            let (name, milliseconds) = if token == 0 { ("long", 30) } else { ("short", 1) };
            let thread = core.cpus.thread(name, Role::Workload, 0);
            core.run(thread, Cost::cycles(milliseconds * MILLI), self.0, token);
        }

        fn worked(&mut self, core: &mut Core, token: u64) {
            if token == 1 {
                core.stop();
            }
        }
    }

    /// When a thread is done that wakes up 10.5 ms after the other one has begun.
    fn ends(kernel: KernelVersion) -> Time {
        let cpus = CpusSpec::bare(kernel, vec![PolicySpec::fixed(vec![0], 1_000_000)]);
        let mut world = World::new(Core::new(Cpus::new(cpus), DiskSet::new(Seed(1)), Seed(1)));
        let me = world.next_part();
        world.add(Box::new(Two(me)));
        world.core.at(0, me, 0);
        world.core.at(21 * MILLI / 2, me, 1);
        assert_eq!(world.run(100 * MILLI, None, &mut ()), Stopped::Done);
        world.core.now
    }

    #[test]
    fn who_wakes_up_goes_first_and_from_6_6_at_the_next_tick() {
        assert_eq!(ends(KernelVersion::new(6, 1, 0)), 23 * MILLI / 2);
        // A tick at 12 ms finds the slice of the other one over.
        assert_eq!(ends(KernelVersion::new(6, 12, 0)), 13 * MILLI);
    }

    /// The array's thread wakes a program and sleeps; the program goes on, wakes it by its first call, and
    /// then makes a second one.
    struct Calls {
        me: PartId,
        done: std::rc::Rc<std::cell::RefCell<Vec<u64>>>,
    }

    const PROGRAM: u64 = 0;
    const FIRST: u64 = 1;
    const SECOND: u64 = 2;
    const THREAD: u64 = 3;

    impl Part for Calls {
        fn timer(&mut self, core: &mut Core, _: u64) {
            let thread = core.cpus.thread("thread", Role::Array, 0);
            core.cpus.thread("program", Role::Workload, 0);
            core.run(thread, Cost::cycles(50_000), self.me, PROGRAM);
        }

        fn worked(&mut self, core: &mut Core, token: u64) {
            self.done.borrow_mut().push(token);
            let all: Vec<ThreadId> = (0..3).map(ThreadId).collect();
            match token {
                PROGRAM => {
                    core.run(all[2], Cost::cycles(100_000), self.me, FIRST);
                    // It has a little to do after that.
                    core.run(all[1], Cost::cycles(20_000), PartId::NOBODY, 0);
                }
                FIRST => {
                    core.run(all[1], Cost::cycles(1), self.me, THREAD);
                    core.run(all[2], Cost::cycles(100_000), self.me, SECOND);
                }
                SECOND => core.stop(),
                _ => {}
            }
        }
    }

    #[test]
    fn who_slept_after_others_were_woken_goes_before_the_one_that_runs_since() {
        let order = |kernel| {
            let cpus = CpusSpec::bare(kernel, vec![PolicySpec::fixed(vec![0], 1_000_000)]);
            let mut world = World::new(Core::new(Cpus::new(cpus), DiskSet::new(Seed(1)), Seed(1)));
            let me = world.next_part();
            let done = std::rc::Rc::default();
            world.add(Box::new(Calls { me, done: std::rc::Rc::clone(&done) }));
            world.core.at(0, me, 0);
            assert_eq!(world.run(100 * MILLI, None, &mut ()), Stopped::Done);
            done.take()
        };
        for kernel in [KernelVersion::new(6, 1, 0), KernelVersion::new(6, 6, 0)] {
            assert_eq!(order(kernel), [PROGRAM, FIRST, SECOND], "{kernel:?}");
        }
        assert_eq!(order(KernelVersion::new(6, 12, 0)), [PROGRAM, FIRST, THREAD, SECOND]);
    }

    #[test]
    fn slices_are_shorter_in_the_time_of_a_faster_machine() {
        let turns = |dilation| Turns::of(KernelVersion::new(6, 12, 0), 1).shortened(dilation).slice_ns;
        assert_eq!([turns(1.0), turns(4.0)], [700_000, 175_000]);
    }
}
