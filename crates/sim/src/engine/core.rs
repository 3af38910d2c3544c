//! The core: what all parts of a machine share.

use super::{Bio, BioId, Call, Event, PartId};
use crate::block::DeviceStats;
use crate::block::plug::Plugs;
use crate::cpu::{Cost, Cpus, ThreadId};
use disks::{DiskSet, Op};
use domain::rng::{Rng, Seed};
use event_queue::{LineId, Queue, Slab, Time};
use governors::KernelVersion;
use std::collections::VecDeque;

/// What all parts of a machine share.
#[derive(Debug)]
pub struct Core {
    /// The virtual time.
    pub now: Time,
    /// Requests on their way.
    pub bios: Slab<Bio>,
    /// CPUs and threads.
    pub cpus: Cpus,
    /// What each block device did: as `/proc/diskstats`.
    pub devices: Vec<DeviceStats>,
    /// The disks. Parts that stand before one submit to it.
    pub bank: DiskSet,
    /// What each step of a disk takes from a CPU that works at the time, where disks are emulated on the
    /// CPU's own host; nothing elsewhere.
    pub disk_step: Cost,
    /// For what is random in parts.
    pub rng: Rng,
    pub(crate) queue: Queue<Event>,
    pub(crate) calls: VecDeque<(Option<ThreadId>, Call)>,
    context: Option<ThreadId>,
    plugged: Vec<(ThreadId, PartId)>,
    plugs: Plugs,
    stopped: bool,
}

impl Core {
    /// CPUs and disks, at time zero.
    pub fn new(cpus: Cpus, bank: DiskSet, seed: Seed) -> Self {
        let executed = (0..cpus.count() as u32).map(Event::Executed).collect();
        Self {
            now: 0,
            bios: Slab::default(),
            cpus,
            devices: Vec::new(),
            bank,
            disk_step: Cost::NONE,
            rng: seed.stream("core"),
            queue: Queue::with_alarms(executed),
            calls: VecDeque::new(),
            context: None,
            plugged: Vec::new(),
            plugs: Plugs::default(),
            stopped: false,
        }
    }

    /// The thread in whose context this call runs; none in a timer's.
    pub fn context(&self) -> Option<ThreadId> {
        self.context
    }

    /// Hands a request to the part that it is for.
    pub fn submit(&mut self, mut bio: Bio) -> BioId {
        bio.submitted = self.now;
        bio.thread = self.context;
        let id = BioId(self.bios.put(bio));
        self.calls.push_back((self.context, Call::Submit(id)));
        id
    }

    /// Answers a request.
    pub fn complete(&mut self, bio: BioId) {
        self.calls.push_back((self.context, Call::Done(bio)));
    }

    /// Asks for [`Part::timer`] at a time, which is not before now.
    pub fn at(&mut self, time: Time, part: PartId, token: u64) {
        self.queue.plan(time.max(self.now), Event::Timer(part, token));
    }

    /// Something is freed that waits for a grace period of RCU.
    pub fn call_rcu(&mut self) {
        self.cpus.call_rcu(self.now, &mut self.queue);
    }

    /// A new line, for [`Core::at_in`].
    pub fn line(&mut self) -> LineId {
        self.queue.line()
    }

    /// As [`Core::at`], where no earlier call for this line named a later time: cheaper.
    pub fn at_in(&mut self, line: LineId, time: Time, part: PartId, token: u64) {
        self.queue.append(line, time.max(self.now), Event::Timer(part, token));
    }

    /// Has a thread do work, after all that it has to do; then [`Part::worked`]. The thread is woken where it
    /// sleeps.
    pub fn run(&mut self, thread: ThreadId, cost: Cost, part: PartId, token: u64) {
        if cost.is_nothing() && self.cpus.has_nothing_to_do(thread) {
            self.calls.push_back((Some(thread), Call::Worked(part, token)));
            return;
        }
        self.cpus.give(self.now, &mut self.queue, thread, self.context, cost, part, token);
    }

    /// As [`Core::run`], where the kernel gives up the CPU between so many equal parts of the work if another
    /// thread is to have it (`cond_resched`).
    pub fn run_in_parts(&mut self, thread: ThreadId, cost: Cost, parts: u64, part: PartId, token: u64) {
        // Before 6.6 a thread that wakes up takes the CPU at once.
        let gives_up = self.cpus.has_deadlines() && !cost.is_nothing();
        let before = if gives_up { parts.saturating_sub(1) } else { 0 };
        let each = cost.divided(before + 1);
        for _ in 0..before {
            self.cpus.give(self.now, &mut self.queue, thread, self.context, each, PartId::NOBODY, 0);
        }
        self.run(thread, cost.less(each.times(before)), part, token);
    }

    /// Has the thread of this context do work before anything else that it has to do, but after what else was
    /// asked of it here; then [`Part::worked`]. Without a context it costs nothing, for a timer's handler is
    /// nobody's.
    pub fn run_here(&mut self, cost: Cost, part: PartId, token: u64) {
        match self.context {
            Some(thread) if !cost.is_nothing() => {
                self.cpus.give_first(self.now, &mut self.queue, thread, cost, part, token);
            }
            context => self.calls.push_back((context, Call::Worked(part, token))),
        }
    }

    /// Has the thread of this context do work before anything else that it has to do, for nothing but the
    /// time that it takes. Without a context it costs nothing.
    pub fn charge(&mut self, cost: Cost) {
        if let Some(thread) = self.context.filter(|_| !cost.is_nothing()) {
            self.cpus.give_first(self.now, &mut self.queue, thread, cost, PartId::NOBODY, 0);
        }
    }

    /// As [`Core::charge`], between what was asked for in this call before and what is asked for after: of
    /// two requests that are submitted, the second costs after the first has gone down.
    pub fn charge_in_turn(&mut self, cost: Cost) {
        if !cost.is_nothing() {
            self.calls.push_back((self.context, Call::Charge(cost)));
        }
    }

    /// The thread of this context waits inside the call that it has made, until [`Core::let_on`]; a timer's
    /// or an interrupt's handler cannot. Who is held up, if anybody.
    pub fn hold_up(&mut self) -> Option<ThreadId> {
        let thread = self.plugger()?;
        self.cpus.hold_up(thread);
        Some(thread)
    }

    /// Whether the thread of this context waits inside the call that it has made.
    pub(crate) fn is_held_up(&self) -> bool {
        self.context.is_some_and(|thread| self.cpus.is_held_up(thread))
    }

    /// What a thread waited for since [`Core::hold_up`] has come.
    pub fn let_on(&mut self, thread: ThreadId) {
        self.cpus.let_on(self.now, &mut self.queue, thread, self.context);
    }

    /// A call of [`Part::worked`] in the context of a thread that is held up, and goes on within its call of
    /// the kernel.
    pub fn go_on(&mut self, thread: ThreadId, part: PartId, token: u64) {
        self.calls.push_back((Some(thread), Call::Worked(part, token)));
    }

    /// Interrupts a CPU; when it has executed the handler, [`Part::worked`].
    pub fn interrupt(&mut self, cpu: usize, cost: Cost, part: PartId, token: u64) {
        let thread = self.cpus.interrupt_of(cpu);
        self.run(thread, cost, part, token);
    }

    /// Who may have a plug in this context: any thread but an interrupt's.
    fn plugger(&self) -> Option<ThreadId> {
        self.context.filter(|thread| !self.cpus.is_interrupt(*thread))
    }

    /// The request under this context's plug with which a bio to `disk` may merge.
    pub(crate) fn plugged(&self, disk: PartId, kernel: KernelVersion) -> Option<u32> {
        self.plugs.candidate(self.plugger()?, disk, kernel)
    }

    /// That request has so many bytes now.
    pub(crate) fn plugged_grew(&mut self, disk: PartId, request: u32, bytes: u64) {
        if let Some(thread) = self.plugger() {
            self.plugs.grown(thread, disk, request, bytes);
        }
    }

    /// Whether a disk's request waits for the plug of this context to be let go; the disk then gets
    /// [`Part::unplug`], and finds it in [`Core::unplugged`].
    pub(crate) fn plug_request(
        &mut self,
        disk: PartId,
        request: u32,
        bytes: u64,
        kernel: KernelVersion,
    ) -> bool {
        let Some(thread) = self.plugger() else { return false };
        if self.plugs.is_full(thread, kernel) {
            // At once: before whatever else this context leads to.
            for disk in self.plugs.let_go(thread).into_iter().rev() {
                self.calls.push_front((Some(thread), Call::Unplug(disk)));
            }
        }
        self.plugs.add(thread, disk, request, bytes);
        true
    }

    /// The requests of a disk that waited under a plug and do so no more.
    pub(crate) fn unplugged(&mut self, disk: PartId) -> Vec<u32> {
        self.plugs.released(disk)
    }

    /// Whether what is submitted to `part` now can wait for a plug to be let go; it then gets
    /// [`Part::unplug`]. Whether the submitter has one is for the part to see.
    pub fn plug(&mut self, part: PartId) -> bool {
        let Some(thread) = self.plugger() else { return false };
        if !self.plugged.contains(&(thread, part)) {
            self.plugged.push((thread, part));
        }
        true
    }

    /// The plug of this context's thread outlasts the context.
    pub fn hold_plug(&mut self) {
        if let Some(thread) = self.context {
            self.cpus.hold_plug(thread, true);
        }
    }

    /// The plug of this context's thread is let go when the context ends.
    pub fn release_plug(&mut self) {
        if let Some(thread) = self.context {
            self.cpus.hold_plug(thread, false);
        }
    }

    /// Nothing more is of interest: the machine stops after this call.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// A machine that was stopped runs on, for tests that look at what comes afterwards.
    #[cfg(test)]
    pub(crate) fn resume(&mut self) {
        self.stopped = false;
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// A CPU has executed a piece of work: whom to tell, with what, in the context of its thread, which is
    /// that of what follows.
    pub(crate) fn executed(&mut self, cpu: usize) -> Option<(PartId, u64)> {
        let (thread, part, token) = self.cpus.executed(self.now, cpu)?;
        self.context = Some(thread);
        (part != PartId::NOBODY).then_some((part, token))
    }

    /// The next call, with its context.
    pub(crate) fn next_call(&mut self) -> Option<Call> {
        loop {
            if let Some((context, call)) = self.calls.pop_front() {
                self.context = context;
                return Some(call);
            }
            self.context = None;
            if !self.let_go() {
                return None;
            }
        }
    }

    /// Lets go of plugs that nobody holds, what waits above disks first; whether there was one.
    fn let_go(&mut self) -> bool {
        if self.plugged.is_empty() && self.plugs.is_empty() {
            return false;
        }
        let before = self.calls.len();
        let (cpus, calls) = (&self.cpus, &mut self.calls);
        self.plugged.retain(|(thread, part)| {
            let held = cpus.holds_plug(*thread);
            if !held {
                calls.push_back((Some(*thread), Call::Unplug(*part)));
            }
            held
        });
        let ended: Vec<ThreadId> = self.plugs.threads().filter(|thread| !cpus.holds_plug(*thread)).collect();
        for thread in ended {
            let unplugged = |disk| (Some(thread), Call::Unplug(disk));
            self.calls.extend(self.plugs.end(thread).into_iter().map(unplugged));
        }
        self.calls.len() != before
    }

    /// A request begins on a block device.
    pub fn count_start(&mut self, device: usize) {
        self.devices[device].start(self.now);
    }

    /// A request that began at `since` is done on a block device; `merged` further ones were merged into it.
    pub fn count_end(&mut self, device: usize, op: Op, bytes: u64, since: Time, merged: u64) {
        self.devices[device].end(self.now, op, bytes, since, merged);
    }
}
