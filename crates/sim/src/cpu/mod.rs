//! CPUs, the threads that run on them, and the time that work takes at the frequency of the moment.
//!
//! Work is a [`Cost`]: cycles, which take as long as the frequency makes them, and a stall, which takes as long as memory
//! makes it. A thread executes its pieces of work one after the other; it sleeps when it has none. Threads share a CPU by
//! virtual run time, as CFS does (`kernel/sched/fair.c`): the one that ran least is next, a slice ends at a tick, one that
//! wakes up goes before one that has run for long. An interrupt goes before everything.
//!
//! Left out: nice values, groups, bandwidth, SMT siblings that slow each other down, migration costs, NUMA, the load balancer
//! (an idle CPU takes a thread that waits elsewhere), EEVDF's lag (6.6 and later).

mod idle;
mod policy;
mod power;
mod tracking;

pub use idle::IdleSpec;
pub use policy::{Chooser, PolicySpec};
pub use power::{PowerModel, PowerState};

use idle::Idleness;
use policy::{Policy, Seen, Seen1};
use tracking::{Had, Tracking};

use crate::engine::{Event, PartId};
use domain::time::Nanos;
use domain::trace::Role;
use domain::units::Hertz;
use event_queue::{Queue, Time};
use governors::pelt::Task;
use governors::{KernelVersion, Update};
use std::collections::VecDeque;

/// A thread, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u32);

/// What work costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Cycles of the CPU's clock.
    pub cycles: u64,
    /// Time that no frequency shortens, in nanoseconds: waiting for memory.
    pub stall_ns: u64,
}

impl Cost {
    /// Nothing.
    pub const NONE: Self = Self { cycles: 0, stall_ns: 0 };

    /// Cycles alone.
    pub const fn cycles(cycles: u64) -> Self {
        Self { cycles, stall_ns: 0 }
    }

    /// Whether it is nothing.
    pub const fn is_nothing(self) -> bool {
        self.cycles == 0 && self.stall_ns == 0
    }

    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { cycles: self.cycles + other.cycles, stall_ns: self.stall_ns + other.stall_ns }
    }

    /// So many times.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self { cycles: self.cycles * count, stall_ns: self.stall_ns * count }
    }

    fn at(self, khz: u64) -> u64 {
        self.stall_ns + (self.cycles * 1_000_000).div_ceil(khz)
    }

    /// What is left after `done` of `whole` nanoseconds.
    fn rest(self, done: u64, whole: u64) -> Self {
        let left = whole - done;
        let whole = whole.max(1);
        let share = |all: u64| match all.checked_mul(left) {
            Some(product) => product.div_ceil(whole),
            None => (u128::from(all) * u128::from(left)).div_ceil(u128::from(whole)) as u64,
        };
        Self { cycles: share(self.cycles), stall_ns: share(self.stall_ns) }
    }
}

/// A CPU that is idle in a state for so long at least saves what entering and leaving it costs.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleState {
    /// `C1`, `C6`.
    pub name: String,
    /// From an interrupt to the first instruction.
    pub exit_latency_ns: u64,
    /// The shortest stay that is worth it.
    pub target_residency_ns: u64,
    /// Power of one CPU in it.
    pub watts: f64,
}

#[derive(Clone, Copy, Debug)]
struct Work {
    cost: Cost,
    part: PartId,
    token: u64,
}

#[derive(Clone, Debug)]
struct Thread {
    name: String,
    role: Role,
    /// Bit n: may run on CPU n.
    allowed: u64,
    work: VecDeque<Work>,
    /// So many pieces at the front are there because of the one before them, or are being executed: what is put first next
    /// goes behind them.
    first: usize,
    state: State,
    cpu: usize,
    vruntime: u64,
    used_ns: u64,
    /// What the scheduler believes that it uses, where a governor asks.
    task: Task,
    /// Whether its signals count on [`Thread::cpu`].
    attached: bool,
    waits_for_disk: bool,
    holds_plug: bool,
    /// For so many things it waits inside a call of the kernel, whatever else it has to do.
    held_up: u32,
    interrupt: bool,
}

impl Thread {
    fn can_run(&self) -> bool {
        !self.work.is_empty() && self.held_up == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Sleeping,
    Ready,
    Running,
}

#[derive(Clone, Debug)]
struct Cpu {
    policy: usize,
    running: Option<ThreadId>,
    /// Not idle: until nobody wants it.
    busy: bool,
    ready: Vec<ThreadId>,
    interrupt: ThreadId,
    /// The running thread's present piece: from when to when; no end between two pieces.
    begun: Time,
    ends: Option<Time>,
    /// Its work was stopped in the middle, to go on at another frequency.
    interrupted: bool,
    /// Since when the running thread has had the CPU.
    dispatched: Time,
    ticking: bool,
    accounted: Time,
    busy_ns: u64,
    idle_ns: u64,
    iowait_ns: u64,
    sleepers_on_disk: u32,
    aperf: u64,
    idle_calls: u64,
    tracking: Tracking,
    idleness: Option<Idleness>,
    /// When the governor's hook was last called for other than a disk.
    hooked: Time,
}

/// What one CPU has done until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Executing.
    pub busy_ns: u64,
    /// Not executing, waiting for disks included.
    pub idle_ns: u64,
    /// The part of the idle time with a sleeper that waits for a disk.
    pub iowait_ns: u64,
    /// Cycles executed.
    pub cycles: u64,
}

/// How long a thread may run before another one of the same CPU has its turn, and by how much less one that wakes up must
/// have run to go before it at once (`sysctl_sched_min_granularity`, `sysctl_sched_wakeup_granularity` of 6.1 on 8 CPUs; the
/// kernel scales both with the number of CPUs).
const SLICE_NS: u64 = 3_000_000;
const WAKE_UP_NS: u64 = 4_000_000;
/// What a thread that slept is let have run less than the others (half of `sysctl_sched_latency`).
const SLEEPER_NS: u64 = 12_000_000;

/// All CPUs and threads of a machine.
#[derive(Clone, Debug)]
pub struct Cpus {
    cpus: Vec<Cpu>,
    policies: Vec<Policy>,
    threads: Vec<Thread>,
    tick_ns: u64,
    switch: Cost,
    power: PowerModel,
    kernel: KernelVersion,
    /// Whether a governor asks for utilisation.
    tracks: bool,
    base_khz: u64,
    busy: usize,
    /// CPUs that run a thread other than their interrupt's.
    working: usize,
    budget: Budget,
    seen: Vec<Seen1>,
}

/// How many CPUs share turbo's budget. The hardware looks at fixed intervals, and a CPU that sleeps for less than one counts as one
/// that works: such sleeps are C1, in which a core is active to it (Intel, "Turbo Boost Technology in Intel Core Microarchitecture
/// (Nehalem) Based Processors", 2008).
#[derive(Clone, Debug, Default)]
struct Budget {
    /// Whether any policy has turbo.
    exists: bool,
    /// What limits now.
    active: usize,
    /// The most that have been busy at once since the hardware last looked.
    most: usize,
    /// The next look is planned: something has changed.
    planned: bool,
}

/// Between two looks (D. Hackenberg et al., "An Energy Efficiency Feature Survey of the Intel Haswell Processor", IPDPSW 2015, which
/// finds P-states of Haswell-EP changed at such intervals).
const BUDGET_NS: u64 = 500_000;

/// What all CPUs of a machine have in common.
#[derive(Clone, Debug)]
pub struct CpusSpec {
    /// Which CPUs share a frequency; each CPU is in exactly one.
    pub policies: Vec<PolicySpec>,
    /// Ticks a second.
    pub hz: u64,
    /// What a switch between threads costs.
    pub switch: Cost,
    /// What they take.
    pub power: PowerModel,
    /// Whose scheduler and governors these are.
    pub kernel: KernelVersion,
    /// At which TSC and MPERF count, in kHz.
    pub base_khz: u64,
    /// Idle states, where there are any that take time to leave.
    pub idle: Option<IdleSpec>,
}

/// How often, at most, the governor's hook is called for other than a disk: the scheduler calls it where averages have
/// changed, which they do each 1024 µs.
const HOOK_NS: u64 = 1 << 20;

impl Cpus {
    /// Idle CPUs.
    ///
    /// # Panics
    /// Where a CPU is in no policy or in two: whoever reads a machine file has checked that.
    pub fn new(spec: CpusSpec) -> Self {
        let CpusSpec { policies, hz, switch, power, kernel, base_khz, idle } = spec;
        let count = policies.iter().map(|p| p.cpus.len()).sum();
        let mut all = Self {
            cpus: Vec::new(),
            policies: Vec::new(),
            threads: Vec::new(),
            tick_ns: 1_000_000_000 / hz,
            switch,
            power,
            kernel,
            tracks: policy::asks_for_utilisation(&policies),
            base_khz,
            busy: 0,
            working: 0,
            budget: Budget {
                exists: policies.iter().any(|policy| !policy.turbo.is_empty()),
                ..Budget::default()
            },
            seen: Vec::new(),
        };
        for cpu in 0..count {
            let mut of = (0..policies.len()).filter(|p| policies[*p].cpus.contains(&cpu));
            let policy = of.next().unwrap_or_else(|| panic!("CPU {cpu} is in no policy"));
            let interrupt = all.thread(&format!("irq/{cpu}"), Role::Interrupt, 1 << cpu);
            all.threads[interrupt.0 as usize].interrupt = true;
            all.cpus.push(Cpu::new(policy, interrupt, idle.as_ref().map(Idleness::new)));
        }
        all.policies = policies.into_iter().map(Policy::new).collect();
        for policy in 0..all.policies.len() {
            all.start(policy);
        }
        all
    }

    /// The governor takes over its policy, long before anything happens: its first request is in effect.
    fn start(&mut self, policy: usize) {
        let seen = self.look(0, policy);
        if let Some(request) = self.policies[policy].start(&Seen(&seen)) {
            self.policies[policy].want(request);
            self.policies[policy].grant();
        }
        self.seen = seen;
        let khz = self.policies[policy].allowed_khz(0);
        self.policies[policy].khz = khz;
    }

    /// How many CPUs there are.
    pub fn count(&self) -> usize {
        self.cpus.len()
    }

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
            used_ns: 0,
            task: Tracking::task(),
            attached: false,
            waits_for_disk: false,
            holds_plug: false,
            held_up: 0,
            interrupt: false,
        });
        ThreadId((self.threads.len() - 1) as u32)
    }

    /// Says whether a thread, where it sleeps next, waits for a disk (`io_schedule`).
    pub fn waits_for_disk(&mut self, thread: ThreadId, waits: bool) {
        self.threads[thread.0 as usize].waits_for_disk = waits;
    }

    /// A thread that has not run yet is as if it had run on that CPU last.
    pub fn leave_on(&mut self, thread: ThreadId, cpu: usize) {
        self.threads[thread.0 as usize].cpu = cpu;
    }

    /// Where a thread runs or last ran.
    pub fn cpu_of(&self, thread: ThreadId) -> usize {
        self.threads[thread.0 as usize].cpu
    }

    /// A frequency of a policy, now.
    pub fn khz(&self, cpu: usize) -> u64 {
        self.policies[self.cpus[cpu].policy].khz
    }

    /// Name, role and CPU time of each thread.
    pub fn thread_times(&self) -> impl Iterator<Item = (&str, Role, u64)> {
        self.threads.iter().map(|t| (t.name.as_str(), t.role, t.used_ns))
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

    pub(crate) fn holds_plug(&self, thread: ThreadId) -> bool {
        let thread = &self.threads[thread.0 as usize];
        // The kernel flushes a plug when its thread blocks.
        thread.holds_plug && thread.can_run()
    }

    pub(crate) fn has_nothing_to_do(&self, thread: ThreadId) -> bool {
        let thread = &self.threads[thread.0 as usize];
        thread.work.is_empty() && thread.held_up == 0
    }

    /// A thread waits inside a call of the kernel: after the piece of work that it executes it sleeps, whatever it has to do.
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

    /// What a CPU has done, and the state it is in, brought up to now.
    pub fn times(&mut self, now: Time, cpu: usize) -> CpuTimes {
        self.account(now, cpu);
        let cpu = &self.cpus[cpu];
        CpuTimes { busy_ns: cpu.busy_ns, idle_ns: cpu.idle_ns, iowait_ns: cpu.iowait_ns, cycles: cpu.aperf }
    }

    /// The part of a CPU's time that interrupts took.
    pub fn interrupt_time(&self, cpu: usize) -> u64 {
        self.threads[self.cpus[cpu].interrupt.0 as usize].used_ns
    }

    /// How many policies there are.
    pub fn policies(&self) -> usize {
        self.policies.len()
    }

    /// The frequencies that a policy has had or can have, in kHz, lowest first, and how long it has had each until now.
    pub fn residency(&mut self, now: Time, policy: usize) -> &[(u64, u64)] {
        self.policies[policy].catch_up(now);
        self.policies[policy].residency()
    }

    /// Each idle state of a CPU: its name, the nanoseconds in it and how often it was entered, up to now.
    pub fn idle_states(&self, now: Time, cpu: usize) -> impl Iterator<Item = (&str, u64, u64)> {
        self.cpus[cpu].idleness.iter().flat_map(move |idleness| idleness.stays(now))
    }

    /// How often a policy changed its frequency.
    pub fn transitions(&self, policy: usize) -> u64 {
        self.policies[policy].transitions
    }

    /// Joules of all CPUs until now.
    pub fn joules(&mut self, now: Time) -> f64 {
        (0..self.cpus.len()).for_each(|cpu| self.account(now, cpu));
        self.power.joules()
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
        let cpu = self.place(thread, waker);
        self.account(now, cpu);
        let least = self.least_vruntime(cpu);
        let before = self.threads[thread.0 as usize].cpu;
        let entry = &mut self.threads[thread.0 as usize];
        let from_disk = entry.waits_for_disk && !entry.interrupt;
        if from_disk {
            entry.waits_for_disk = false;
            self.account(now, before);
            self.cpus[before].sleepers_on_disk = self.cpus[before].sleepers_on_disk.saturating_sub(1);
        }
        self.move_to(thread, cpu);
        let entry = &mut self.threads[thread.0 as usize];
        entry.vruntime = entry.vruntime.max(least.saturating_sub(SLEEPER_NS));
        entry.state = State::Ready;
        let (vruntime, interrupt) = (entry.vruntime, entry.interrupt);
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
        // Between two pieces of work the thread's next step decides; see `proceed`.
        if self.cpus[cpu].ends.is_none() {
            return;
        }
        let other = &self.threads[running.0 as usize];
        if !other.interrupt && (interrupt || vruntime + WAKE_UP_NS < other.vruntime) {
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

    /// Which CPU a thread that wakes up runs on: the one that it ran on where that is idle, else the waker's, else any idle
    /// one, else where it ran (`select_task_rq_fair`, much simplified).
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

    fn least_vruntime(&self, cpu: usize) -> u64 {
        let cpu = &self.cpus[cpu];
        let all = cpu.ready.iter().chain(cpu.running.iter());
        let threads = all.map(|t| &self.threads[t.0 as usize]).filter(|t| !t.interrupt);
        threads.map(|t| t.vruntime).min().unwrap_or(0)
    }

    /// Gives an idle CPU to the ready thread that is next.
    fn dispatch(&mut self, now: Time, queue: &mut Queue<Event>, cpu: usize) {
        self.account(now, cpu);
        let threads = &self.threads;
        let key = |t: &ThreadId| {
            let thread = &threads[t.0 as usize];
            (!thread.interrupt, thread.vruntime, t.0)
        };
        let ready = &self.cpus[cpu].ready;
        let Some(at) = (0..ready.len()).min_by_key(|at| key(&ready[*at])) else { return };
        let thread = self.cpus[cpu].ready.swap_remove(at);
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
        }
        if !entry.interrupt {
            if let Some(first) = entry.work.front_mut() {
                first.cost = first.cost.and(self.switch);
            }
            if self.tracks {
                self.cpus[cpu].tracking.waited(&mut entry.task);
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
    fn begin(&mut self, now: Time, queue: &mut Queue<Event>, cpu: usize) {
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
    fn interrupt_work(&mut self, now: Time, cpu: usize) {
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

    /// The piece that a CPU is through with: whose it was and what for. [`Cpus::proceed`] must follow, when all that it has
    /// led to is told.
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
        if entry.can_run() && (entry.interrupt || !waiting_interrupt) {
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
    }

    fn idle(&mut self, now: Time, queue: &mut Queue<Event>, cpu: usize) {
        let entry = &mut self.cpus[cpu];
        entry.busy = false;
        entry.idle_calls += 1;
        if self.tracks {
            entry.tracking.goes_idle();
        }
        if let Some(idleness) = &mut entry.idleness {
            idleness.enter(now, self.tick_ns - now % self.tick_ns, entry.sleepers_on_disk);
        }
        self.count_busy(now, queue, self.busy - 1);
    }

    /// An idle CPU takes a thread that waits elsewhere (`newidle_balance`).
    fn steal(&mut self, now: Time, cpu: usize) {
        let may = |thread: &ThreadId| {
            let thread = &self.threads[thread.0 as usize];
            !thread.interrupt && thread.allowed & (1 << (cpu % 64)) != 0
        };
        let from = (0..self.cpus.len()).filter(|other| *other != cpu);
        let from = from.filter(|other| self.cpus[*other].ready.iter().any(may));
        let Some(from) = from.max_by_key(|other| self.cpus[*other].ready.len()) else { return };
        let Some(at) = self.cpus[from].ready.iter().position(may) else { return };
        let thread = self.cpus[from].ready.remove(at);
        self.account(now, from);
        self.move_to(thread, cpu);
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
        self.hook(now, queue, cpu, false);
        let over = now - self.cpus[cpu].dispatched >= SLICE_NS;
        if over && !self.cpus[cpu].ready.is_empty() && self.cpus[cpu].ends.is_some() {
            self.put_back(now, cpu);
            self.dispatch(now, queue, cpu);
        }
    }

    /// The scheduler calls the governor's hook (`cpufreq_update_util`).
    fn hook(&mut self, now: Time, queue: &mut Queue<Event>, cpu: usize, from_disk: bool) {
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
        let request = self.policies[policy].update(update, &Seen(&seen));
        self.seen = seen;
        if let Some(request) = request {
            self.request(now, queue, policy, request);
        }
    }

    /// Plans the hardware's next look at a policy that is not idle.
    fn watch(&mut self, now: Time, queue: &mut Queue<Event>, policy: usize) {
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
        let busy = self.policies[policy].spec.cpus.iter().any(|cpu| self.cpus[*cpu].busy);
        if busy {
            self.watch(now, queue, policy);
        }
    }

    /// What a policy's governor reads now.
    fn look(&mut self, now: Time, policy: usize) -> Vec<Seen1> {
        let mut seen = std::mem::take(&mut self.seen);
        seen.clear();
        for index in 0..self.policies[policy].spec.cpus.len() {
            let cpu = self.policies[policy].spec.cpus[index];
            self.account(now, cpu);
            let entry = &self.cpus[cpu];
            let (utilisation, least) = policy::utilisation(&entry.tracking, self.kernel);
            seen.push(Seen1 {
                idle_ns: entry.idle_ns,
                iowait_ns: entry.iowait_ns,
                utilisation,
                least,
                idle_calls: entry.idle_calls,
                aperf: entry.aperf,
                mperf: cycles(entry.busy_ns, self.base_khz),
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

    /// More or fewer CPUs are busy, which decides how far each may go.
    fn count_busy(&mut self, now: Time, queue: &mut Queue<Event>, busy: usize) {
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

    /// A policy's CPUs go on at the frequency that they should have.
    fn adapt(&mut self, now: Time, queue: &mut Queue<Event>, policy: usize) {
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

    /// Brings a CPU's times up to now.
    fn account(&mut self, now: Time, cpu: usize) {
        let entry = &mut self.cpus[cpu];
        let span = now - entry.accounted;
        if span == 0 {
            return;
        }
        entry.accounted = now;
        let khz = self.policies[entry.policy].khz;
        let idle_watts = entry.idleness.as_ref().and_then(Idleness::watts);
        self.power.spend(khz, entry.running.is_some(), idle_watts, span);
        match entry.running {
            Some(thread) => {
                entry.busy_ns += span;
                entry.aperf += cycles(span, khz);
                let thread = &mut self.threads[thread.0 as usize];
                thread.used_ns += span;
                thread.vruntime += span;
            }
            None => {
                entry.idle_ns += span;
                if entry.sleepers_on_disk > 0 {
                    entry.iowait_ns += span;
                }
            }
        }
        if self.tracks {
            let view = &self.policies[entry.policy].spec.view;
            let frequency = if view.frequency_invariant {
                (khz * 1024 / view.hardware_max.khz()).min(1024)
            } else {
                1024
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
const fn cycles(ns: u64, khz: u64) -> u64 {
    match ns.checked_mul(khz) {
        Some(product) => product / 1_000_000,
        None => (ns as u128 * khz as u128 / 1_000_000) as u64,
    }
}

impl Cpu {
    fn new(policy: usize, interrupt: ThreadId, idleness: Option<Idleness>) -> Self {
        Self {
            policy,
            running: None,
            busy: false,
            ready: Vec::new(),
            interrupt,
            begun: 0,
            ends: None,
            interrupted: false,
            dispatched: 0,
            ticking: false,
            accounted: 0,
            busy_ns: 0,
            idle_ns: 0,
            iowait_ns: 0,
            sleepers_on_disk: 0,
            aperf: 0,
            idle_calls: 0,
            tracking: Tracking::new(),
            idleness,
            hooked: 0,
        }
    }
}
