//! A small machine for tests of single parts: CPUs, devices that take a fixed time and keep a list of what
//! came, and threads that follow a script.

use crate::block::DeviceStats;
use crate::block::{Disk, QueueSpec};
use crate::cpu::{Cost, Cpus, CpusSpec, PolicySpec, ThreadId};
use crate::engine::{Bio, BioId, Core, Part, PartId};
use crate::engine::{Stopped, World};
use disks::{DiskSet, DiskSpec, Op};
use domain::rng::Seed;
use domain::trace::Role;
use event_queue::Time;
use governors::KernelVersion;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// A request that came to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Came {
    pub(crate) at: Time,
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) fua: bool,
    pub(crate) sync: bool,
    pub(crate) thread: Option<ThreadId>,
}

pub(crate) type Log = Rc<RefCell<Vec<Came>>>;

/// A device that serves one request at a time. A write that goes on where the last one ended costs only its
/// transfer, as if they had been made one.
pub(crate) struct Device {
    me: PartId,
    size: u64,
    request_ns: Time,
    kib_ns: Time,
    free: Time,
    /// Where the last write ended.
    written_to: u64,
    log: Log,
}

impl Device {
    fn end(core: &mut Core, bio: BioId, me: PartId) {
        let cpu = core.bios[bio.0].thread.map_or(0, |thread| core.cpus.cpu_of(thread));
        core.interrupt(cpu, Cost::cycles(2_000), me, u64::from(bio.0));
    }
}

impl Part for Device {
    fn submit(&mut self, core: &mut Core, id: BioId) {
        let bio = core.bios[id.0];
        assert!(bio.end() <= self.size, "{bio:?} beyond {}", self.size);
        self.log.borrow_mut().push(Came {
            at: core.now,
            op: bio.op,
            offset: bio.offset,
            len: bio.len,
            fua: bio.fua,
            sync: bio.sync,
            thread: bio.thread,
        });
        let goes_on = bio.op == Op::Write && bio.offset == self.written_to;
        if bio.op == Op::Write {
            self.written_to = bio.end();
        }
        let request_ns = if goes_on { 0 } else { self.request_ns };
        self.free = self.free.max(core.now) + request_ns + bio.len * self.kib_ns / 1024;
        core.at(self.free, self.me, u64::from(id.0));
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        Self::end(core, BioId(token as u32), self.me);
    }

    fn worked(&mut self, core: &mut Core, token: u64) {
        core.complete(BioId(token as u32));
    }

    fn size(&self) -> u64 {
        self.size
    }
}

/// One step of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    IoRequest(Op, u64, u64),
    /// Past the page cache.
    Direct(Op, u64, u64),
    /// A write with `O_DSYNC`.
    Durable(u64, u64),
    /// The same, past the page cache.
    DirectDurable(u64, u64),
    /// `fdatasync`.
    DataSync,
    Fsync,
    Sleep(Time),
}

/// A request of a script that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) script: usize,
    pub(crate) step: usize,
    pub(crate) since: Time,
    pub(crate) at: Time,
}

struct Follower {
    thread: ThreadId,
    steps: VecDeque<Step>,
    depth: usize,
    in_flight: usize,
    next: usize,
    asks: bool,
}

/// Threads with a script each; when all are through, the machine stops.
pub(crate) struct Script {
    me: PartId,
    target: PartId,
    followers: Vec<Follower>,
    answered: Rc<RefCell<Vec<Answered>>>,
}

const ASK_CYCLES: u64 = 3_000;

impl Script {
    fn go_on(&mut self, core: &mut Core, index: usize) {
        let me = self.me;
        let follower = &mut self.followers[index];
        if follower.asks || follower.in_flight >= follower.depth {
            return;
        }
        match follower.steps.front() {
            None => {
                let over = self.followers.iter().all(|f| f.steps.is_empty() && f.in_flight == 0);
                if over {
                    core.stop();
                }
            }
            Some(Step::Sleep(ns)) => {
                let until = core.now + ns;
                follower.asks = true;
                follower.steps.pop_front();
                follower.next += 1;
                core.at(until, me, index as u64);
            }
            Some(_) => {
                follower.asks = true;
                core.run(follower.thread, Cost::cycles(ASK_CYCLES), me, index as u64);
            }
        }
    }
}

impl Part for Script {
    fn worked(&mut self, core: &mut Core, token: u64) {
        let index = token as usize;
        let (me, target) = (self.me, self.target);
        let follower = &mut self.followers[index];
        follower.asks = false;
        let step = follower.steps.pop_front().unwrap();
        let tag = (index as u64) << 32 | follower.next as u64;
        follower.next += 1;
        follower.in_flight += 1;
        let bio = |op, offset, len| Bio::new(me, target, op, offset, len, tag);
        let bio = match step {
            Step::IoRequest(op, offset, len) => bio(op, offset, len),
            Step::Direct(op, offset, len) => Bio { direct: true, plugged: false, ..bio(op, offset, len) },
            Step::Durable(offset, len) => Bio { fua: true, ..bio(Op::Write, offset, len) },
            Step::DirectDurable(offset, len) => {
                Bio { fua: true, direct: true, plugged: false, ..bio(Op::Write, offset, len) }
            }
            Step::Fsync => bio(Op::Flush, 0, 0),
            Step::DataSync => Bio { data_only: true, ..bio(Op::Flush, 0, 0) },
            Step::Sleep(_) => unreachable!(),
        };
        core.submit(bio);
        self.go_on(core, index);
    }

    fn done(&mut self, core: &mut Core, bio: &Bio) {
        let (script, step) = ((bio.tag >> 32) as usize, (bio.tag & 0xffff_ffff) as usize);
        self.answered.borrow_mut().push(Answered { script, step, since: bio.submitted, at: core.now });
        self.followers[script].in_flight -= 1;
        self.go_on(core, script);
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        self.followers[token as usize].asks = false;
        self.go_on(core, token as usize);
    }
}

/// A machine that is being put together.
pub(crate) struct Testbed {
    pub(crate) world: World,
    pub(crate) answered: Rc<RefCell<Vec<Answered>>>,
    /// Where scripts may run, as [`Cpus::thread`] takes it.
    pub(crate) allowed: u64,
}

impl Testbed {
    /// A machine of so many CPUs.
    pub(crate) fn new(cpus: usize, mhz: u64) -> Self {
        let policies = vec![PolicySpec::fixed((0..cpus).collect(), mhz * 1000)];
        let spec = CpusSpec::bare(KernelVersion::new(6, 12, 0), policies);
        let cpus = Cpus::new(CpusSpec { switch: Cost::cycles(2_000), ..spec });
        let core = Core::new(cpus, DiskSet::new(Seed(1)), Seed(1));
        Self { world: World::new(core), answered: Rc::default(), allowed: 0 }
    }

    /// A device; its part and its list.
    pub(crate) fn device(&mut self, size: u64, request_ns: Time, mib_ns: Time) -> (PartId, Log) {
        let log = Log::default();
        let me = self.world.next_part();
        let kib_ns = mib_ns / 1024;
        let device =
            Device { me, size, request_ns, kib_ns, free: 0, written_to: u64::MAX, log: Rc::clone(&log) };
        self.world.add(Box::new(device));
        (me, log)
    }

    /// A disk of a model behind the block layer; its part.
    pub(crate) fn disk(&mut self, spec: &DiskSpec, queue: QueueSpec) -> PartId {
        let number = self.world.core.bank.add_disk(spec, None);
        let device = self.world.core.devices.len();
        self.world.core.devices.push(DeviceStats::new(&format!("sd{number}")));
        let me = self.world.next_part();
        self.world.add(Box::new(Disk::new(me, number, device, spec.capacity, queue)));
        self.world.attach(number, me);
        me
    }

    /// Threads that follow scripts, with so many requests in flight each.
    pub(crate) fn scripts(&mut self, target: PartId, depth: usize, scripts: Vec<Vec<Step>>) {
        let me = self.world.next_part();
        let mut followers = Vec::new();
        for (index, steps) in scripts.into_iter().enumerate() {
            let thread =
                self.world.core.cpus.thread(&format!("script {index}"), Role::Workload, self.allowed);
            self.world.core.at(self.world.core.now, me, index as u64);
            let steps = steps.into();
            followers.push(Follower { thread, steps, depth, in_flight: 0, next: 0, asks: true });
        }
        let answered = Rc::clone(&self.answered);
        self.world.add(Box::new(Script { me, target, followers, answered }));
    }

    /// Runs until the scripts are through.
    ///
    /// # Panics
    /// Where they are not within an hour.
    pub(crate) fn finish(&mut self) {
        let stopped = self.world.run(3_600_000_000_000, None, &mut ());
        assert_eq!(stopped, Stopped::Done, "at {}", self.world.core.now);
    }

    /// Counters of a part, by name.
    pub(crate) fn counters(&self, part: PartId) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        self.world.part(part).counters(&mut |name, value| {
            assert!(all.insert(name.to_owned(), value).is_none(), "two counters `{name}`");
        });
        all
    }

    /// Lets so much time pass, with nobody asking for anything.
    pub(crate) fn idle(&mut self, ns: Time) {
        let until = self.world.core.now + ns;
        self.world.core.resume();
        self.world.run(until, None, &mut ());
    }

    /// CPU time by role, in nanoseconds.
    pub(crate) fn used(&self, role: Role) -> u64 {
        self.world.core.cpus.thread_times().filter(|(_, of, _)| *of == role).map(|(_, _, ns)| ns).sum()
    }
}

/// Bytes written to a device.
pub(crate) fn written(log: &Log) -> u64 {
    log.borrow().iter().filter(|came| came.op == Op::Write).map(|came| came.len).sum()
}

/// Bytes read from a device.
pub(crate) fn read(log: &Log) -> u64 {
    log.borrow().iter().filter(|came| came.op == Op::Read).map(|came| came.len).sum()
}

/// How many flushes came.
pub(crate) fn flushes(log: &Log) -> usize {
    log.borrow().iter().filter(|came| came.op == Op::Flush).count()
}
