//! A machine: its parts, and the loop that lets time pass.

use crate::engine::{Call, Core, Event, Part, PartId};
use disks::Completed;
use domain::time::Nanos;
use event_queue::Time;

/// Who looks at a machine at fixed intervals.
pub trait Observer {
    /// It is time for a row.
    fn sample(&mut self, core: &mut Core, parts: &[Box<dyn Part>]);
}

/// Nobody.
impl Observer for () {
    fn sample(&mut self, _: &mut Core, _: &[Box<dyn Part>]) {}
}

/// A machine.
pub struct World {
    /// What its parts share.
    pub core: Core,
    parts: Vec<Box<dyn Part>>,
    /// By disk of the bank: the part in front of it.
    fronts: Vec<PartId>,
    completed: Vec<Completed>,
    events: u64,
}

/// Why a machine stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// A part said so.
    Done,
    /// Nothing will happen any more, and no part said that it was done: requests are lost, or a load waits
    /// for ever.
    Stuck,
    /// The time was over.
    TimeOver,
}

impl World {
    /// A machine without parts.
    pub fn new(core: Core) -> Self {
        Self { core, parts: Vec::new(), fronts: Vec::new(), completed: Vec::new(), events: 0 }
    }

    /// The number of the part that is added next.
    pub fn next_part(&self) -> PartId {
        PartId(self.parts.len() as u32)
    }

    /// Adds a part; its number is [`World::next_part`] as it was before.
    pub fn add(&mut self, part: Box<dyn Part>) -> PartId {
        self.parts.push(part);
        PartId((self.parts.len() - 1) as u32)
    }

    /// Says which part stands before a disk of the bank: it submits to [`Core::bank`], and gets
    /// [`Part::worked`] with the request's number, without a context, when the disk is done.
    ///
    /// # Panics
    /// Where disks are not attached in their order.
    pub fn attach(&mut self, disk: usize, part: PartId) {
        assert_eq!(disk, self.fronts.len(), "disks are attached in their order");
        self.fronts.push(part);
    }

    /// A part.
    pub fn part(&self, part: PartId) -> &dyn Part {
        &*self.parts[part.0 as usize]
    }

    /// All parts.
    pub fn parts(&self) -> impl Iterator<Item = &dyn Part> {
        self.parts.iter().map(|part| &**part)
    }

    /// A row of the machine as it is now.
    pub fn observed_by(&mut self, observer: &mut dyn Observer) {
        observer.sample(&mut self.core, &self.parts);
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.events + self.core.bank.events()
    }

    /// Lets time pass until a part stops it, nothing is left to happen, or it is `until`. `every`: the
    /// interval of the observer's rows; the first is now.
    pub fn run(&mut self, until: Time, every: Option<Time>, observer: &mut dyn Observer) -> Stopped {
        if let Some(every) = every {
            assert!(every > 0, "an interval of nothing");
            self.core.queue.plan(self.core.now, Event::Sample);
        }
        let mut alive = 0;
        self.calls();
        loop {
            if self.core.is_stopped() {
                return Stopped::Done;
            }
            let queued = self.core.queue.next_at();
            // Disks know nothing of the machine above them: until something is queued there, they go on by
            // themselves.
            let limit = queued.unwrap_or(Time::MAX).min(until);
            if self.disks_go_on(limit) {
                self.completed();
                continue;
            }
            let Some(next) = queued.or_else(|| self.core.bank.next_event().map(Nanos::get)) else {
                return Stopped::Stuck;
            };
            if next > until {
                self.core.now = until;
                return Stopped::TimeOver;
            }
            self.core.now = next;
            self.events += 1;
            let Some((_, event)) = self.core.queue.take() else { return Stopped::Stuck };
            match event {
                Event::Sample => {
                    observer.sample(&mut self.core, &self.parts);
                    // Rows alone keep nothing alive.
                    let is_last =
                        self.core.queue.next_at().is_none() && self.core.bank.next_event().is_none();
                    alive = if is_last { alive + 1 } else { 0 };
                    if alive > 1 {
                        return Stopped::Stuck;
                    }
                    self.core.queue.plan(next + every.unwrap_or(1), Event::Sample);
                }
                other => self.happen(other),
            }
        }
    }

    fn happen(&mut self, event: Event) {
        let (now, core) = (self.core.now, &mut self.core);
        match event {
            Event::Timer(part, token) => {
                self.parts[part.0 as usize].timer(core, token);
                self.calls();
            }
            Event::Executed(cpu) => {
                if let Some((part, token)) = core.executed(cpu as usize) {
                    self.parts[part.0 as usize].worked(core, token);
                }
                self.calls();
                let core = &mut self.core;
                core.cpus.proceed(now, &mut core.queue, cpu as usize);
            }
            Event::Tick(cpu) => core.cpus.tick(now, &mut core.queue, cpu as usize),
            Event::GovernorWork(cpu) => core.cpus.governor_work(now, &mut core.queue, cpu as usize),
            Event::PollOver(cpu) => core.cpus.poll_over(now, &mut core.queue, cpu as usize),
            Event::GracePeriod => core.cpus.grace_period(now, &mut core.queue),
            Event::Frequency { policy, generation } => {
                core.cpus.change(now, &mut core.queue, policy as usize, generation);
            }
            Event::Budget => core.cpus.share_budget(now, &mut core.queue),
            Event::Hardware(policy) => core.cpus.hardware(now, &mut core.queue, policy as usize),
            Event::Sample => unreachable!("rows are taken in the loop"),
        }
    }

    /// Lets disks go on until they are done with something, or where their steps take time from a CPU until
    /// the next one; not beyond a limit. Whether they did.
    fn disks_go_on(&mut self, limit: Time) -> bool {
        let core = &mut self.core;
        if core.disk_step.is_nothing() {
            let Some(at) = core.bank.advance_to_done(limit, &mut self.completed) else { return false };
            core.now = at;
            return true;
        }
        let Some((at, disks)) = core.bank.advance_to_step(limit, &mut self.completed) else { return false };
        core.now = at;
        let cost = core.disk_step.times(u64::from(disks));
        // Whichever CPU is hit.
        let cpu = core.bank.events() as usize % core.cpus.count();
        core.cpus.lengthen(at, &mut core.queue, cpu, cost);
        true
    }

    /// What disks are done with now.
    fn completed(&mut self) {
        for done in self.completed.drain(..) {
            let part = self.fronts[done.disk];
            self.core.calls.push_back((None, Call::Worked(part, done.id)));
        }
        self.calls();
    }

    /// All that is to happen now.
    fn calls(&mut self) {
        let core = &mut self.core;
        while let Some(call) = core.next_call() {
            let parts = &mut self.parts;
            match call {
                Call::Submit(bio) => {
                    let to = core.bios[bio.0].to;
                    parts[to.0 as usize].submit(core, bio);
                }
                Call::Done(bio) => {
                    let bio = core.bios.remove(bio.0);
                    parts[bio.owner.0 as usize].done(core, &bio);
                }
                Call::Worked(part, token) => parts[part.0 as usize].worked(core, token),
                Call::Unplug(part) => parts[part.0 as usize].unplug(core),
                Call::Charge(cost) => core.charge(cost),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Cost, Cpus, CpusSpec, PolicySpec};
    use disks::{DiskSet, DiskSpec, Op, Request};
    use domain::rng::Seed;
    use domain::trace::Role;
    use domain::units::Bytes;
    use governors::KernelVersion;

    const MILLI: Time = 1_000_000;
    const BUSY: u64 = 7;

    /// A disk reads from the beginning on; from a time on a thread has 5 ms of work.
    struct Beside(PartId, Time);

    impl Part for Beside {
        fn timer(&mut self, core: &mut Core, token: u64) {
            if token == BUSY {
                let thread = core.cpus.thread("busy", Role::Workload, 0);
                core.run(thread, Cost::cycles(5 * MILLI), self.0, BUSY);
                return;
            }
            let len = Bytes::from_kib(64);
            let read = Request { id: 0, op: Op::Read, fua: false, offset: Bytes::new(0), len };
            core.bank.submit(Nanos::new(core.now), 0, read).unwrap();
            core.at(self.1, self.0, BUSY);
        }

        fn worked(&mut self, core: &mut Core, token: u64) {
            if token == BUSY {
                core.stop();
            }
        }
    }

    /// How long the 5 ms take beyond themselves, in microseconds.
    fn taken(step_us: u64, from: Time) -> u64 {
        let policy = PolicySpec::fixed(vec![0], 1_000_000);
        let cpus = CpusSpec::bare(KernelVersion::new(6, 12, 0), vec![policy]);
        let mut world = World::new(Core::new(Cpus::new(cpus), DiskSet::new(Seed(1)), Seed(1)));
        world.core.bank.add_disk(&DiskSpec::shipped("samsung-850-evo").unwrap(), None);
        world.core.disk_step = Cost::cycles(step_us * 1000);
        let me = world.next_part();
        world.add(Box::new(Beside(me, from)));
        world.attach(0, me);
        world.core.at(0, me, 0);
        assert_eq!(world.run(100 * MILLI, None, &mut ()), Stopped::Done);
        (world.core.now - from - 5 * MILLI) / 1000
    }

    #[test]
    fn steps_of_an_emulated_disk_take_time_from_a_cpu_that_works() {
        // The command, four pages from as many dies, and their way across the port one after the other.
        assert_eq!(taken(0, 1), 0);
        assert_eq!(taken(10, 1), 7 * 10);
        assert_eq!(taken(10, 2 * MILLI), 0, "the disk is done by then");
    }
}
