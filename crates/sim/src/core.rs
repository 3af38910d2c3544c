//! What the parts of a simulated machine share: virtual time, what happens when, requests on their way, and threads that
//! do work on CPUs.
//!
//! A machine is a list of [`Part`]s: loads at the top, filesystems, encryption, arrays, disks at the bottom. Parts know one
//! another by number alone and speak through the [`Core`]:
//!
//! - a part hands a request down with [`Core::submit`]; the part below gets [`Part::submit`], and answers with
//!   [`Core::complete`] at any later time; then whoever submitted it gets [`Part::done`];
//! - a part has work done by a thread with [`Core::run`]; when the thread has executed it on a CPU, however long that took at
//!   the frequencies that the CPU had, the part gets [`Part::worked`];
//! - [`Core::at`] asks for [`Part::timer`].
//!
//! Calls never nest: what a part asks for in a call comes after that call has returned, in the order in which it was asked,
//! at the same virtual time. So no part is ever entered twice, as the kernel's `submit_bio_noacct` sees to with its list.
//!
//! **Context.** Each call runs in the context of a thread, as code of the kernel does: a submission in that of whoever submits,
//! a completion in that of an interrupt. [`Core::run_here`] charges that thread, before anything else that it has to do.
//! What is submitted to disks within one context is plugged where its submitter plugs ([`Bio::plugged`], `blk_start_plug`): disks
//! see it when the context ends or the thread blocks, and merge what is contiguous. A thread that works in several steps under one plug holds it
//! ([`Core::hold_plug`]) and lets go ([`Core::release_plug`]).
//!
//! Goals: integer nanoseconds; the same seed gives the same course; no allocation per request once everything has grown. Not
//! goals: the data itself, errors.

use crate::cpu::{Cost, Cpus, ThreadId};
use crate::plug::Plugs;
use disks::{Bank, Op};
use domain::rng::{Rng, Seed};
use event_queue::{LineId, Queue, Slab, Time};
use governors::KernelVersion;
use std::collections::VecDeque;

/// A part of a machine, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(pub u32);

impl PartId {
    /// Who wants to be told nothing.
    pub const NOBODY: Self = Self(u32::MAX);
}

/// A request on its way, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BioId(pub u32);

/// A request: to a block device, or to a file of a filesystem.
#[derive(Clone, Copy, Debug)]
pub struct Bio {
    /// What is asked. A flush of a file is `fsync(2)`.
    pub op: Op,
    /// Forced unit access: done when it is on the medium. A write to a file: `O_DSYNC`.
    pub fua: bool,
    /// To a file: past the page cache (`O_DIRECT`). A device has no use for it.
    pub direct: bool,
    /// A flush of a file: the data and what it takes to find it (`fdatasync(2)`).
    pub data_only: bool,
    /// Somebody waits for it (`REQ_SYNC`): reads, direct writes, the journal; not writeback.
    pub sync: bool,
    /// Whoever submits it holds a plug (`blk_start_plug`): readahead, writeback, filesystems, arrays' threads. Not a direct request to
    /// a block device, which is one bio (`fops.c: __blkdev_direct_IO_async`, `__blkdev_direct_IO_simple`), nor one that
    /// `io_submit(2)` was given alone (`fs/aio.c`: from three on).
    pub plugged: bool,
    /// Whose it is; gets [`Part::done`].
    pub owner: PartId,
    /// To whom it goes.
    pub to: PartId,
    /// From the start of the device or file, in bytes.
    pub offset: u64,
    /// In bytes.
    pub len: u64,
    /// The owner's own number for it.
    pub tag: u64,
    /// For the part that it was submitted to, to keep what it likes with it while it has it.
    pub scratch: u64,
    /// When it was submitted.
    pub submitted: Time,
    /// The thread in whose context it was submitted; none by a timer.
    pub thread: Option<ThreadId>,
}

impl Bio {
    /// A request from `owner` to `to`.
    pub const fn new(owner: PartId, to: PartId, op: Op, offset: u64, len: u64, tag: u64) -> Self {
        Self {
            op,
            fua: false,
            direct: false,
            data_only: false,
            sync: true,
            plugged: true,
            owner,
            to,
            offset,
            len,
            tag,
            scratch: 0,
            submitted: 0,
            thread: None,
        }
    }

    /// The first byte after it.
    pub const fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// A part of a machine. Every method has a default that is a mistake of ours: a part implements those that it causes.
pub trait Part {
    /// A request has come.
    fn submit(&mut self, core: &mut Core, bio: BioId) {
        unreachable!("{:?} was submitted to a part that takes none", core.bios[bio.0]);
    }

    /// A request that this part owns is done. It is gone after this call.
    fn done(&mut self, core: &mut Core, bio: &Bio) {
        let _ = core;
        unreachable!("{bio:?} is done, and its owner wants none");
    }

    /// A thread has executed what this part asked for.
    fn worked(&mut self, core: &mut Core, token: u64) {
        let _ = core;
        unreachable!("work {token} was done that nobody asked for");
    }

    /// It is the time that this part asked for.
    fn timer(&mut self, core: &mut Core, token: u64) {
        let _ = core;
        unreachable!("a timer {token} that nobody set");
    }

    /// A plug under which this part was submitted to has been let go.
    fn unplug(&mut self, core: &mut Core) {
        let _ = core;
    }

    /// How large it is, in bytes; 0 for what has no size.
    fn size(&self) -> u64 {
        0
    }

    /// Which of the machine's devices it is, where it is one.
    fn device(&self) -> Option<usize> {
        None
    }

    /// Gauges and counters of this part for the trace, by name; called at the beginning and at each sample, with the same names
    /// in the same order. Those of a device get its name before them.
    fn counters(&self, out: &mut dyn FnMut(&str, u64)) {
        let _ = out;
    }
}

/// What happens at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Timer(PartId, u64),
    /// A CPU is through with a piece of work: its alarm.
    Executed(u32),
    Tick(u32),
    /// A policy's request takes effect, unless there was a later one.
    Frequency {
        policy: u32,
        generation: u32,
    },
    /// The hardware looks at who shares turbo's budget.
    Budget,
    /// A policy's hardware looks at it.
    Hardware(u32),
    /// Row of the trace.
    Sample,
}

/// What is to happen now, after the call that asked for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Submit(BioId),
    Done(BioId),
    Worked(PartId, u64),
    Unplug(PartId),
}

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
    pub bank: Bank,
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
    pub fn new(cpus: Cpus, bank: Bank, seed: Seed) -> Self {
        let executed = (0..cpus.count() as u32).map(Event::Executed).collect();
        Self {
            now: 0,
            bios: Slab::default(),
            cpus,
            devices: Vec::new(),
            bank,
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

    /// A new line, for [`Core::at_in`].
    pub fn line(&mut self) -> LineId {
        self.queue.line()
    }

    /// As [`Core::at`], where no earlier call for this line named a later time: cheaper.
    pub fn at_in(&mut self, line: LineId, time: Time, part: PartId, token: u64) {
        self.queue.append(line, time.max(self.now), Event::Timer(part, token));
    }

    /// Has a thread do work, after all that it has to do; then [`Part::worked`]. The thread is woken where it sleeps.
    pub fn run(&mut self, thread: ThreadId, cost: Cost, part: PartId, token: u64) {
        if cost.is_nothing() && self.cpus.has_nothing_to_do(thread) {
            self.calls.push_back((Some(thread), Call::Worked(part, token)));
            return;
        }
        self.cpus.give(self.now, &mut self.queue, thread, self.context, cost, part, token);
    }

    /// Has the thread of this context do work before anything else that it has to do, but after what else was asked of it here;
    /// then [`Part::worked`]. Without a context it costs nothing, for a timer's handler is nobody's.
    pub fn run_here(&mut self, cost: Cost, part: PartId, token: u64) {
        match self.context {
            Some(thread) if !cost.is_nothing() => {
                self.cpus.give_first(self.now, &mut self.queue, thread, cost, part, token);
            }
            context => self.calls.push_back((context, Call::Worked(part, token))),
        }
    }

    /// Has the thread of this context do work before anything else that it has to do, for nothing but the time that it
    /// takes. Without a context it costs nothing.
    pub fn charge(&mut self, cost: Cost) {
        if let Some(thread) = self.context.filter(|_| !cost.is_nothing()) {
            self.cpus.give_first(self.now, &mut self.queue, thread, cost, PartId::NOBODY, 0);
        }
    }

    /// The thread of this context waits inside the call that it has made, until [`Core::let_on`]; a timer's or an interrupt's
    /// handler cannot. Who is held up, if anybody.
    pub fn hold_up(&mut self) -> Option<ThreadId> {
        let thread = self.plugger()?;
        self.cpus.hold_up(thread);
        Some(thread)
    }

    /// What a thread waited for since [`Core::hold_up`] has come.
    pub fn let_on(&mut self, thread: ThreadId) {
        self.cpus.let_on(self.now, &mut self.queue, thread, self.context);
    }

    /// A call of [`Part::worked`] in the context of a thread that is held up, and goes on within its call of the kernel.
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

    /// Whether a disk's request waits for the plug of this context to be let go; the disk then gets [`Part::unplug`], and finds
    /// it in [`Core::unplugged`].
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

    /// Whether what is submitted to `part` now can wait for a plug to be let go; it then gets [`Part::unplug`]. Whether the
    /// submitter has one is for the part to see.
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

    /// A CPU has executed a piece of work: whom to tell, with what, in the context of its thread, which is that of what follows.
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

/// What one block device did, as `/proc/diskstats` counts it (`Documentation/admin-guide/iostats.rst`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// `sda`, `md127`, `dm-0`.
    pub name: String,
    /// Completed reads, and their bytes and nanoseconds.
    pub reads: OpStats,
    /// Completed writes likewise.
    pub writes: OpStats,
    /// Completed flushes.
    pub flushes: u64,
    /// Requests begun and not done.
    pub in_flight: u64,
    /// Time with requests in flight, until `since`.
    pub busy_ns: u64,
    /// In flight times nanoseconds, until `since`.
    pub weighted_ns: u128,
    since: Time,
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpStats {
    /// How many.
    pub ios: u64,
    /// How many more were merged into them.
    pub merges: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their time from begin to end, summed, in nanoseconds.
    pub ns: u64,
}

impl DeviceStats {
    /// Nothing yet.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Brings the times up to now.
    pub fn catch_up(&mut self, now: Time) {
        let span = now - self.since;
        if self.in_flight > 0 {
            self.busy_ns += span;
            self.weighted_ns += u128::from(span) * u128::from(self.in_flight);
        }
        self.since = now;
    }

    fn start(&mut self, now: Time) {
        self.catch_up(now);
        self.in_flight += 1;
    }

    fn end(&mut self, now: Time, op: Op, bytes: u64, since: Time, merged: u64) {
        self.catch_up(now);
        self.in_flight -= 1;
        let kind = match op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            Op::Flush | Op::Discard => {
                self.flushes += u64::from(op == Op::Flush);
                return;
            }
        };
        kind.ios += 1;
        kind.merges += merged;
        kind.bytes += bytes;
        kind.ns += now - since;
    }
}
