//! CPUs, the threads that run on them, and the time that work takes at the frequency of the moment.
//!
//! Work is a [`Cost`]: cycles, which take as long as the frequency makes them, and a stall, which takes as
//! long as memory makes it. A thread executes its pieces of work one after the other; it sleeps when it has
//! none. Threads share a CPU by virtual run time (`kernel/sched/fair.c`). As CFS has it, the one that ran
//! least is next, a slice ends at a tick, and one that wakes up goes before one that has run for long; from
//! 6.6 on it is as EEVDF has it. An interrupt goes before everything.
//!
//! Left out: nice values, groups, bandwidth, SMT siblings that slow each other down, migration costs, NUMA,
//! the load balancer (an idle CPU takes a thread that waits elsewhere).
//!
//! | file | what is in it |
//! |---|---|
//! | `cost`, `thread` | what work costs; what each thread has to do |
//! | `scheduler`, `eevdf` | who runs on which CPU; who is next from 6.6 on |
//! | `frequency`, `policy`, `turbo` | when governors are asked; one policy; how far turbo goes |
//! | `idle` | idle states |
//! | `upkeep` | ticks, the governors' kworkers, RCU's thread |
//! | `accounting`, `power`, `tracking` | time, energy, and the scheduler's own averages (PELT) |

mod accounting;
mod cost;
mod eevdf;
mod frequency;
mod idle;
mod policy;
mod power;
mod scheduler;
mod thread;
mod tracking;
mod turbo;
mod upkeep;

pub use accounting::CpuTimes;
pub use cost::Cost;
pub use idle::{IdleSpec, IdleState};
pub use policy::{Begins, Chooser, IdleTime, PolicySpec};
pub use power::{PowerModel, PowerState};
pub use thread::ThreadId;
pub use upkeep::Upkeep;

use domain::time::Nanos;
use domain::trace::Role;
use eevdf::Turn;
use event_queue::Time;
use governors::KernelVersion;
use idle::Idleness;
use policy::{Policy, Seen1};
use scheduler::Turns;
use thread::Thread;
use tracking::Tracking;
use turbo::Budget;
use upkeep::Rcu;

/// One CPU: what it runs, who waits for it, and what it has done.
#[derive(Clone, Debug)]
struct Cpu {
    policy: usize,
    running: Option<ThreadId>,
    /// Not idle: until nobody wants it.
    busy: bool,
    ready: Vec<ThreadId>,
    interrupt: ThreadId,
    /// Where its governor decides, once it has had to.
    governor_worker: Option<ThreadId>,
    /// The running thread's present piece: from when to when; no end between two pieces.
    begun: Time,
    ends: Option<Time>,
    /// Its work was stopped in the middle, to go on at another frequency.
    interrupted: bool,
    /// Another thread is to run as soon as the kernel's work for the present one is done.
    resched: bool,
    /// From 6.6 on: whose turn it is.
    turn: Turn,
    /// Since when the running thread has had the CPU.
    dispatched: Time,
    ticking: bool,
    accounted: Time,
    busy_ns: u64,
    idle_ns: u64,
    /// Ticks that found it idle.
    idle_ticks: u64,
    iowait_ns: u64,
    sleepers_on_disk: u32,
    aperf: u64,
    /// Time for which it looped while it was idle.
    polled_ns: u64,
    idle_calls: u64,
    tracking: Tracking,
    idleness: Option<Idleness>,
    /// When the governor's hook was last called for other than a disk.
    hooked: Time,
}

/// All CPUs and threads of a machine.
#[derive(Clone, Debug)]
pub struct Cpus {
    cpus: Vec<Cpu>,
    policies: Vec<Policy>,
    threads: Vec<Thread>,
    tick_ns: u64,
    turns: Turns,
    switch: Cost,
    upkeep: Upkeep,
    rcu: Option<Rcu>,
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

/// What all CPUs of a machine have in common.
#[derive(Clone, Debug)]
pub struct CpusSpec {
    /// Which CPUs share a frequency; each CPU is in exactly one.
    pub policies: Vec<PolicySpec>,
    /// From one tick of the scheduler to the next.
    pub tick: Nanos,
    /// What a switch between threads costs.
    pub switch: Cost,
    /// What the kernel does for itself.
    pub upkeep: Upkeep,
    /// What they take.
    pub power: PowerModel,
    /// Whose scheduler and governors these are.
    pub kernel: KernelVersion,
    /// At which TSC and MPERF count, in kHz.
    pub base_khz: u64,
    /// By how much shorter the scheduler's slices are than the kernel's: 1 but for some lab machines, which
    /// are slower than those that they stand for.
    pub slice_dilation: f64,
    /// Idle states, where there are any that take time to leave.
    pub idle: Option<IdleSpec>,
}

#[cfg(test)]
impl CpusSpec {
    /// CPUs of these policies, for tests: ticks of 4 ms, and nothing costs anything but work.
    pub(crate) fn bare(kernel: KernelVersion, policies: Vec<PolicySpec>) -> Self {
        Self {
            base_khz: policies[0].view.current.khz(),
            policies,
            slice_dilation: 1.0,
            tick: Nanos::from_millis(4),
            switch: Cost::NONE,
            upkeep: Upkeep::default(),
            power: PowerModel::default(),
            kernel,
            idle: None,
        }
    }
}

impl Cpus {
    /// Idle CPUs.
    ///
    /// # Panics
    /// Where a CPU is in no policy or in two: whoever reads a machine file has checked that.
    pub fn new(spec: CpusSpec) -> Self {
        let CpusSpec { policies, tick, switch, upkeep, power, kernel, base_khz, slice_dilation, idle } = spec;
        let count = policies.iter().map(|p| p.cpus.len()).sum();
        let mut all = Self {
            cpus: Vec::new(),
            policies: Vec::new(),
            threads: Vec::new(),
            tick_ns: tick.get(),
            turns: Turns::of(kernel, count).shortened(slice_dilation),
            switch,
            upkeep,
            rcu: None,
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

    /// How many CPUs there are.
    pub fn count(&self) -> usize {
        self.cpus.len()
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
            governor_worker: None,
            begun: 0,
            ends: None,
            interrupted: false,
            resched: false,
            turn: Turn::default(),
            dispatched: 0,
            ticking: false,
            accounted: 0,
            busy_ns: 0,
            idle_ns: 0,
            idle_ticks: 0,
            iowait_ns: 0,
            sleepers_on_disk: 0,
            aperf: 0,
            polled_ns: 0,
            idle_calls: 0,
            tracking: Tracking::new(),
            idleness,
            hooked: 0,
        }
    }
}
