//! Requests in a closed loop on the simulator's CPUs.
//!
//! Each request is executed by threads of one kind after the other, then waits for its device, is announced
//! by an interrupt on the CPU of its submitter, and begins anew.

use crate::load::Load;
use crate::machine::Machine;
use disks::DiskSet;
use domain::bench::BenchError;
use domain::rng::{Rng, Seed};
use domain::setting::SettingRequest;
use domain::trace::Role;
use event_queue::Time;
use governors::autonomous::AutonomousSpec;
use sim::cpu::{Begins, Cost, ThreadId};
use sim::engine::{Core, Part, PartId, World};
use std::cell::RefCell;
use std::rc::Rc;

/// What of a load is not seen, but fitted or bounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unseen {
    /// Cycles of a request in Hz·s for each second of CPU time that was recorded: the frequency at which the
    /// recorded CPU time passed.
    pub(crate) hertz: f64,
    /// Seconds that a request waits for its device.
    pub(crate) wait: f64,
    /// The share of CPU time, at `hertz`, that waits for memory.
    pub(crate) stalled: f64,
    /// Requests in flight.
    pub(crate) in_flight: u32,
    /// The share of CPU time that passes while the device works.
    pub(crate) overlap: f64,
    /// Seconds of interrupts' CPU time for a request, recorded or not.
    pub(crate) interrupts: f64,
    /// Whether a CPU that waits for the device counts as waiting for I/O.
    pub(crate) waits_for_io: bool,
    /// Waits differ from their mean by this share of it at most.
    pub(crate) spread: f64,
    /// Completions of the device a second at most; `None`: as many as come.
    pub(crate) device_limit: Option<f64>,
    /// What governors had seen before: one that stays where it is between two thresholds (conservative) is
    /// then at the lowest or at the highest frequency to begin with.
    pub(crate) begins: Begins,
    /// How a processor that chooses its frequency itself does so.
    pub(crate) hardware: AutonomousSpec,
}

/// What a replay of some seconds gave.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ran {
    /// Requests a second.
    pub(crate) rate: f64,
    /// CPU time, of all that ran, by request, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Mean frequency in Hz of the policy whose CPU was busiest, idle time included.
    pub(crate) frequency: f64,
    /// The share of all CPUs' time in which they were busy.
    pub(crate) busy: f64,
}

/// Threads of one kind.
struct Station {
    threads: Vec<ThreadId>,
    /// Requests that each has, the one in work included.
    queued: Vec<u32>,
    cost: Cost,
}

/// Where a request is: which station's which thread.
#[derive(Clone, Copy, Default)]
struct Request {
    station: usize,
    thread: usize,
    /// What it waits for: its device, and CPU work beside that.
    outstanding: u8,
}

struct Flows {
    me: PartId,
    stations: Vec<Station>,
    requests: Vec<Request>,
    interrupt: Cost,
    /// Executed while the device works.
    beside: Cost,
    waits_for_io: bool,
    wait: f64,
    spread: f64,
    /// From one completion of the device to the next at least, in ns.
    spacing: Time,
    free: Time,
    rng: Rng,
    done: Rc<RefCell<u64>>,
}

/// An interrupt's work has this number beside the request's.
const INTERRUPT: u64 = 1 << 32;
/// Work beside the device likewise.
const BESIDE: u64 = 1 << 33;
const REQUEST: u64 = INTERRUPT - 1;

impl Flows {
    /// A request goes to a station: its own thread where that is the workload's, else the one with the
    /// fewest.
    fn begin(&mut self, core: &mut Core, request: usize, station: usize) {
        let at = &mut self.stations[station];
        let thread = match station {
            0 => request % at.threads.len(),
            _ => (0..at.threads.len()).min_by_key(|thread| at.queued[*thread]).unwrap_or(0),
        };
        at.queued[thread] += 1;
        self.requests[request] = Request { station, thread, outstanding: 0 };
        // What wakes a thread that waits for a disk tells governors so; where it runs on, it has more to do.
        let (id, cost) = (at.threads[thread], at.cost);
        core.run(id, cost, self.me, request as u64);
        core.cpus.waits_for_disk(id, false);
    }

    fn wait(&mut self, core: &mut Core, request: usize) {
        let spread = 1.0 + self.spread * (2.0 * self.rng.unit() - 1.0);
        let mut until = core.now + (self.wait * spread * 1e9) as Time;
        if self.spacing > 0 {
            until = until.max(self.free);
            self.free = until + self.spacing;
        }
        self.requests[request].outstanding = 1;
        core.at(until, self.me, request as u64);
        if !self.beside.is_nothing() {
            self.requests[request].outstanding = 2;
            let Request { station, thread, .. } = self.requests[request];
            let id = self.stations[station].threads[thread];
            core.cpus.waits_for_disk(id, false);
            core.run(id, self.beside, self.me, request as u64 | BESIDE);
        }
    }

    /// The device, or the CPU beside it, is done with a request.
    fn ended(&mut self, core: &mut Core, request: usize) {
        let outstanding = &mut self.requests[request].outstanding;
        *outstanding = outstanding.saturating_sub(1);
        if *outstanding > 0 {
            return;
        }
        *self.done.borrow_mut() += 1;
        if self.interrupt.is_nothing() {
            self.begin(core, request, 0);
            return;
        }
        let own = self.stations[0].threads[request % self.stations[0].threads.len()];
        core.interrupt(core.cpus.cpu_of(own), self.interrupt, self.me, request as u64 | INTERRUPT);
    }
}

impl Part for Flows {
    fn worked(&mut self, core: &mut Core, token: u64) {
        let request = (token & REQUEST) as usize;
        if token & BESIDE != 0 {
            let Request { station, thread, .. } = self.requests[request];
            if station == 0 && self.stations[station].queued[thread] == 0 {
                core.cpus.waits_for_disk(self.stations[station].threads[thread], self.waits_for_io);
            }
            self.ended(core, request);
            return;
        }
        if token & INTERRUPT != 0 {
            self.begin(core, request, 0);
            return;
        }
        let Request { station, thread, .. } = self.requests[request];
        let at = &mut self.stations[station];
        at.queued[thread] -= 1;
        if station == 0 && at.queued[thread] == 0 {
            core.cpus.waits_for_disk(at.threads[thread], self.waits_for_io);
        }
        match station + 1 < self.stations.len() {
            true => self.begin(core, request, station + 1),
            false => self.wait(core, request),
        }
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        self.ended(core, token as usize);
    }
}

/// What takes CPU time beside the load: the kernel's ticks, on CPUs that are busy, and other threads.
struct Beside {
    me: PartId,
    every: Time,
    tick: Cost,
    thread: ThreadId,
    work: Cost,
    /// By CPU: how long it had been busy at the last tick.
    busy: Vec<u64>,
}

impl Part for Beside {
    fn timer(&mut self, core: &mut Core, _: u64) {
        for cpu in 0..self.busy.len() {
            let busy = core.cpus.times(core.now, cpu).busy_ns;
            let was_busy = std::mem::replace(&mut self.busy[cpu], busy) < busy;
            // The tick stops on idle CPUs (NO_HZ_IDLE).
            if was_busy && !self.tick.is_nothing() {
                core.interrupt(cpu, self.tick, self.me, 0);
            }
        }
        if !self.work.is_nothing() {
            core.run(self.thread, self.work, self.me, 0);
        }
        core.at(core.now + self.every, self.me, 0);
    }

    fn worked(&mut self, _: &mut Core, _: u64) {}
}

/// Cycles, or ns, of one piece of work at most: some minutes.
const LONGEST_WORK: f64 = 1e12;

/// Time that a run takes to forget how it began, as a share of the time that counts.
const WARM: f64 = 0.25;
/// Requests that count, and the bounds of the time in seconds.
const REQUESTS: f64 = 4_000.0;
const SHORTEST: f64 = 2.0;
const LONGEST: f64 = 60.0;
/// More requests tell nothing more.
const MOST_REQUESTS: f64 = 40_000.0;

/// Runs a load for some seconds under a policy.
///
/// # Errors
/// [`BenchError`] where the machine refuses a setting.
pub(crate) fn run(
    machine: &Machine,
    load: &Load,
    settings: &[SettingRequest],
    unseen: Unseen,
) -> Result<Ran, BenchError> {
    let mut spec = machine.spec.clone();
    spec.cpu.begins = unseen.begins;
    spec.cpu.hardware = unseen.hardware;
    let cpus = sim::assemble::cpus(&spec, settings)?;
    let seed = Seed(1);
    let mut world = World::new(Core::new(cpus, DiskSet::new(seed), seed));
    let done = Rc::new(RefCell::new(0));
    let flows = flows(&mut world, load, unseen, Rc::clone(&done));
    let flows = world.add(Box::new(flows));
    start(&mut world.core, flows, unseen.in_flight, unseen.wait);
    if load.beside + load.tick > 0.0 {
        let beside = beside(&mut world, machine, load, unseen);
        let every = beside.every;
        let me = world.add(Box::new(beside));
        world.core.at(every, me, 0);
    }
    let seconds = (REQUESTS / load.rate).clamp(SHORTEST, LONGEST).min(MOST_REQUESTS / load.rate);
    let (warm, end) = ((seconds * WARM * 1e9) as Time, (seconds * (1.0 + WARM) * 1e9) as Time);
    world.run(warm, None, &mut ());
    let before = Seen::of(&mut world.core, &done);
    world.run(end, None, &mut ());
    let after = Seen::of(&mut world.core, &done);
    Ok(after.since(&before, seconds))
}

fn flows(world: &mut World, load: &Load, unseen: Unseen, done: Rc<RefCell<u64>>) -> Flows {
    let cost = |seconds: f64| Cost {
        cycles: (seconds * unseen.hertz * (1.0 - unseen.stalled)).round().min(LONGEST_WORK) as u64,
        stall_ns: (seconds * unseen.stalled * 1e9).round().min(LONGEST_WORK) as u64,
    };
    let mut station = |role: Role, seconds: f64, threads: u32| {
        let name = format!("{role}");
        let threads: Vec<ThreadId> =
            (0..threads.min(unseen.in_flight)).map(|_| world.core.cpus.thread(&name, role, 0)).collect();
        let before = seconds * (1.0 - unseen.overlap);
        Station { queued: vec![0; threads.len()], threads, cost: cost(before) }
    };
    let stations =
        load.demands.iter().map(|demand| station(demand.role, demand.seconds, demand.threads)).collect();
    Flows {
        me: world.next_part(),
        stations,
        requests: vec![Request::default(); unseen.in_flight as usize],
        interrupt: cost(unseen.interrupts * (1.0 - unseen.overlap)),
        beside: cost((load.cpu_seconds() + unseen.interrupts - load.interrupts) * unseen.overlap),
        waits_for_io: unseen.waits_for_io,
        wait: unseen.wait,
        spread: unseen.spread,
        spacing: unseen.device_limit.map_or(0, |rate| (1e9 / rate) as Time),
        free: 0,
        rng: Seed(1).stream("replay"),
        done,
    }
}

fn beside(world: &mut World, machine: &Machine, load: &Load, unseen: Unseen) -> Beside {
    let highest = machine.spec.cpu.states.last().map_or(0.0, |state| state.frequency.hz() as f64);
    let every = 1.0 / machine.spec.hz as f64;
    Beside {
        me: world.next_part(),
        every: (every * 1e9) as Time,
        tick: Cost::cycles((load.tick * highest).round().min(LONGEST_WORK) as u64),
        thread: world.core.cpus.thread("beside", Role::Other, 0),
        work: Cost::cycles((load.beside * every * unseen.hertz).round().min(LONGEST_WORK) as u64),
        busy: vec![0; world.core.cpus.count()],
    }
}

/// All requests are under way at the beginning, one after the other within a wait.
fn start(core: &mut Core, flows: PartId, in_flight: u32, wait: f64) {
    for request in 0..in_flight {
        let at = wait * 1e9 * f64::from(request) / f64::from(in_flight);
        core.at(at as Time, flows, request.into());
    }
}

/// Counters at a moment.
struct Seen {
    done: u64,
    cpu_ns: u64,
    busy: Vec<u64>,
    residency: Vec<Vec<(u64, u64)>>,
}

impl Seen {
    fn of(core: &mut Core, done: &Rc<RefCell<u64>>) -> Self {
        let now = core.now;
        let count = core.cpus.count();
        Self {
            done: *done.borrow(),
            cpu_ns: core.cpus.thread_times().map(|(.., used)| used).sum(),
            busy: (0..count).map(|cpu| core.cpus.times(now, cpu).busy_ns).collect(),
            residency: (0..core.cpus.policies()).map(|p| core.cpus.residency(now, p).to_vec()).collect(),
        }
    }

    fn since(&self, before: &Self, seconds: f64) -> Ran {
        let done = (self.done - before.done) as f64;
        let busy: Vec<u64> = self.busy.iter().zip(&before.busy).map(|(now, then)| now - then).collect();
        let busiest = (0..busy.len()).max_by_key(|cpu| busy[*cpu]).unwrap_or(0);
        // One policy for all, or one for each.
        let policy = busiest.min(self.residency.len().saturating_sub(1));
        let at = |seen: &Self, khz: u64| {
            seen.residency[policy].iter().find(|(known, _)| *known == khz).map_or(0, |(_, time)| *time)
        };
        let times = self.residency[policy].iter().map(|(khz, time)| (*khz, time - at(before, *khz)));
        let (sum, time) = times.fold((0.0, 0.0), |(sum, all), (khz, time)| {
            (sum + khz as f64 * 1e3 * time as f64, all + time as f64)
        });
        Ran {
            rate: done / seconds,
            cpu_seconds: if done > 0.0 { (self.cpu_ns - before.cpu_ns) as f64 / 1e9 / done } else { 0.0 },
            frequency: if time > 0.0 { sum / time } else { 0.0 },
            busy: busy.iter().sum::<u64>() as f64 / 1e9 / seconds / busy.len().max(1) as f64,
        }
    }
}
