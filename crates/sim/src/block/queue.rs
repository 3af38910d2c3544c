//! The block layer before a disk: requests made of contiguous bios, the I/O scheduler, the driver's tags, and
//! the interrupt that ends a request.
//!
//! Follows `block/blk-merge.c`, `block/blk-mq.c`, `block/mq-deadline.c`, `block/blk-flush.c` (6.1, 6.12). A
//! bio that touches a request under its thread's plug ([`super::plug`]), or one that waits in the scheduler,
//! becomes part of it up to `max_sectors_kb` and `max_segments`. Flushes that wait for the same turn are one.
//!
//! Without a plug of the submitter's, a request goes to the driver before the next is submitted, so that
//! pieces of one large request to an array stay apart: `__submit_bio` plugs each bio alone (since 6.10), and
//! the plug's end runs the queue at once. Before, `blk_mq_submit_bio` left it to a worker to run the queue of
//! a scheduler, so that what came meanwhile merged there.
//!
//! Left out: priorities and zones of mq-deadline, bfq and kyber, write-back throttling (wbt), polling,
//! several hardware queues (a disk has one, as SATA has), the bound on requests that wait (`nr_requests`).

use crate::cpu::Cost;
use crate::engine::{Bio, BioId, Core, Part, PartId};
use disks::{Op, Request};
use domain::time::Nanos;
use domain::units::Bytes;
use event_queue::{Slab, Time};
use governors::KernelVersion;
use std::collections::{BTreeSet, VecDeque};

/// How requests wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// In the order of their coming.
    None,
    /// By place, reads before writes, none for longer than its deadline.
    MqDeadline,
}

/// Which CPU gets the interrupt at a request's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupts {
    /// The one that submitted it: a queue for each CPU, or `rq_affinity`.
    Submitter,
    /// Any, at random: a controller of one interrupt that is delivered to whichever CPU the chipset takes.
    Any,
    /// One for each disk, drawn when it first answers: where irqbalance(1) or the driver has put the
    /// interrupt.
    Drawn,
}

/// What stands before a disk.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueSpec {
    /// Which scheduler.
    pub scheduler: Scheduler,
    /// Requests that the driver takes at a time.
    pub tags: u32,
    /// `max_sectors_kb`, in bytes.
    pub most_bytes: u64,
    /// `max_segments`: pieces of memory that lie apart, in one request.
    pub most_segments: u32,
    /// What handing a request to the driver costs, before the disk has it. To whoever does that.
    pub dispatch: Cost,
    /// And for each page of it.
    pub dispatch_page: Cost,
    /// What the interrupt at a request's end costs, before the bios' owners are told.
    pub interrupt: Cost,
    /// On which CPU.
    pub interrupts: Interrupts,
    /// The kernel that is meant.
    pub kernel: KernelVersion,
}

/// Of a request's memory.
const PAGE: u64 = 4096;

/// Since when each bio has a plug of its own (`blk-core.c: __submit_bio`).
pub(crate) const PLUGS_EACH_BIO: KernelVersion = KernelVersion::new(6, 10, 0);

/// mq-deadline's tunables at their defaults: how long a read and a write wait at most, how many requests go
/// in one direction before deadlines are looked at, how often reads go before waiting writes.
const READ_EXPIRE_NS: Time = 500_000_000;
const WRITE_EXPIRE_NS: Time = 5_000_000_000;
const FIFO_BATCH: u32 = 16;
const WRITES_STARVED: u32 = 2;

#[derive(Clone, Copy, Debug)]
struct Asked {
    op: Op,
    fua: bool,
    sync: bool,
    offset: u64,
    len: u64,
    /// First and last of its bios; each has the next one's number, plus one, in `scratch`.
    first: BioId,
    last: BioId,
    bios: u32,
    since: Time,
    cpu: u32,
    /// Pieces of memory that lie apart.
    segments: u32,
}

/// A disk with its request queue.
pub struct Disk {
    me: PartId,
    disk: usize,
    device: usize,
    size: u64,
    spec: QueueSpec,
    requests: Slab<Asked>,
    waiting: Waiting,
    in_flight: u32,
    /// The CPU of its interrupt, where that is drawn.
    interrupted: Option<usize>,
}

/// A bio's pages lie in one piece as far as a segment goes (`max_segment_size`); those of several bios lie
/// apart.
const SEGMENT: u64 = 64 << 10;

const fn segments(bytes: u64) -> u32 {
    bytes.div_ceil(SEGMENT) as u32
}

/// Set in the number of a request whose interrupt is being handled, and of one that the driver is getting.
const HANDLED: u64 = 1 << 63;
const DISPATCHED: u64 = 1 << 62;

impl Disk {
    /// The part `me`, before the disk number `disk` of the bank, which is `size` bytes; it counts as
    /// `device`.
    pub fn new(me: PartId, disk: usize, device: usize, size: Bytes, spec: QueueSpec) -> Self {
        let waiting = match spec.scheduler {
            Scheduler::None => Waiting::Fifo(VecDeque::new()),
            Scheduler::MqDeadline => Waiting::Deadline(Box::default()),
        };
        let size = size.get();
        Self {
            me,
            disk,
            device,
            size,
            spec,
            requests: Slab::default(),
            waiting,
            in_flight: 0,
            interrupted: None,
        }
    }

    /// Whether a request without a plug waits for a worker to run the queue (`blk_mq_submit_bio` before
    /// 6.10).
    fn runs_later(&self) -> bool {
        self.spec.kernel < PLUGS_EACH_BIO && self.spec.scheduler != Scheduler::None
    }

    /// Whether the bio became part of this request.
    fn merge(&mut self, core: &mut Core, request: u32, id: BioId) -> bool {
        let bio = core.bios[id.0];
        let asked = &mut self.requests[request];
        let fits = asked.op == bio.op
            && asked.fua == bio.fua
            && matches!(bio.op, Op::Read | Op::Write)
            && asked.len + bio.len <= self.spec.most_bytes
            && asked.segments + segments(bio.len) <= self.spec.most_segments;
        if !fits {
            return false;
        }
        if asked.offset + asked.len == bio.offset {
            core.bios[asked.last.0].scratch = u64::from(id.0) + 1;
            asked.last = id;
        } else if bio.end() == asked.offset {
            core.bios[id.0].scratch = u64::from(asked.first.0) + 1;
            asked.first = id;
            asked.offset = bio.offset;
        } else {
            return false;
        }
        asked.len += bio.len;
        asked.segments += segments(bio.len);
        asked.bios += 1;
        asked.sync |= bio.sync;
        true
    }

    /// Whether the bio became part of a request that waits in the scheduler (`blk_mq_sched_bio_merge`).
    fn merge_waiting(&mut self, core: &mut Core, id: BioId) -> bool {
        let Bio { op, offset, len, .. } = core.bios[id.0];
        let Some(request) = self.waiting.beside(&self.requests, op, (offset, offset + len)) else {
            return false;
        };
        self.waiting.forget(&self.requests, request);
        let merged = self.merge(core, request, id);
        self.waiting.put_again(&self.requests, request);
        if merged {
            self.fill_gap(core, request);
        }
        merged
    }

    /// A request that has grown may touch the next (`attempt_back_merge`, `attempt_front_merge`).
    fn fill_gap(&mut self, core: &mut Core, request: u32) {
        let Asked { op, offset, len, .. } = self.requests[request];
        let end = offset + len;
        if let Some(before) = self.waiting.ending_at(&self.requests, op, offset)
            && self.fit(before, request)
        {
            self.waiting.remove(&self.requests, request);
            self.join(core, before, request);
        } else if let Some(after) = self.waiting.beginning_at(&self.requests, op, end)
            && self.fit(request, after)
        {
            self.waiting.remove(&self.requests, after);
            self.join(core, request, after);
        }
    }

    /// Whether the second may become the end of the first.
    fn fit(&self, first: u32, second: u32) -> bool {
        let (first, second) = (&self.requests[first], &self.requests[second]);
        first.op == second.op
            && first.fua == second.fua
            && matches!(first.op, Op::Read | Op::Write)
            && first.len + second.len <= self.spec.most_bytes
            && first.segments + second.segments <= self.spec.most_segments
    }

    fn ask(&mut self, core: &mut Core, id: BioId) -> u32 {
        let bio = &core.bios[id.0];
        let cpu = bio.thread.map_or(0, |thread| core.cpus.cpu_of(thread) as u32);
        let asked = Asked {
            op: bio.op,
            fua: bio.fua,
            sync: bio.sync,
            offset: bio.offset,
            len: bio.len,
            first: id,
            last: id,
            bios: 1,
            since: core.now,
            cpu,
            segments: segments(bio.len),
        };
        core.count_start(self.device);
        self.requests.put(asked)
    }

    /// A request goes from the plug, or at once, to the scheduler. Where it goes on from one that waits there
    /// it becomes its end, and that one likewise (`elv_attempt_insert_merge`).
    fn insert(&mut self, core: &mut Core, mut request: u32) {
        let mut waits = false;
        loop {
            let Asked { op, offset, .. } = self.requests[request];
            let before = self.waiting.ending_at(&self.requests, op, offset);
            let Some(before) = before.filter(|before| self.fit(*before, request)) else { break };
            if waits {
                self.waiting.remove(&self.requests, request);
            }
            self.join(core, before, request);
            (request, waits) = (before, true);
        }
        if !waits {
            self.waiting.put(&self.requests, request, core.now);
        }
    }

    /// The second request becomes the end of the first, which waits.
    fn join(&mut self, core: &mut Core, into: u32, request: u32) {
        let other = self.requests.remove(request);
        let asked = &mut self.requests[into];
        core.bios[asked.last.0].scratch = u64::from(other.first.0) + 1;
        asked.last = other.last;
        asked.len += other.len;
        asked.segments += other.segments;
        asked.bios += other.bios;
        asked.sync |= other.sync;
        core.devices[self.device].in_flight -= 1;
    }

    fn dispatch(&mut self, core: &mut Core) {
        while self.in_flight < self.spec.tags {
            let Some(request) = self.waiting.next(&self.requests, core.now) else { return };
            self.in_flight += 1;
            let pages = self.requests[request].len.div_ceil(PAGE);
            let cost = self.spec.dispatch.and(self.spec.dispatch_page.times(pages));
            if cost.is_nothing() || core.is_held_up() {
                // Who is held up has handed on all that it had before, and pays for it when it goes on.
                core.charge(cost);
                self.to_disk(core, request);
            } else {
                core.run_here(cost, self.me, u64::from(request) | DISPATCHED);
            }
        }
    }

    fn to_disk(&self, core: &mut Core, request: u32) {
        let asked = &self.requests[request];
        let request = Request {
            id: u64::from(request),
            op: asked.op,
            fua: asked.fua,
            offset: Bytes::new(asked.offset),
            len: Bytes::new(asked.len),
        };
        let taken = core.bank.submit(Nanos::new(core.now), self.disk, request);
        taken.unwrap_or_else(|refused| {
            panic!("{request:?} for {}: {refused}", core.devices[self.device].name)
        });
    }

    fn end(&mut self, core: &mut Core, request: u32) {
        let asked = self.requests.remove(request);
        core.count_end(self.device, asked.op, asked.len, asked.since, u64::from(asked.bios) - 1);
        let mut next = Some(asked.first);
        while let Some(bio) = next {
            let link = core.bios[bio.0].scratch;
            next = (bio != asked.last).then(|| BioId((link - 1) as u32));
            core.complete(bio);
        }
        self.dispatch(core);
    }
}

impl Part for Disk {
    fn submit(&mut self, core: &mut Core, bio: BioId) {
        core.bios[bio.0].scratch = 0;
        let waits = core.bios[bio.0].plugged || self.runs_later();
        if waits
            && let Some(request) = core.plugged(self.me, self.spec.kernel)
            && self.merge(core, request, bio)
        {
            core.plugged_grew(self.me, request, self.requests[request].len);
            return;
        }
        if self.merge_waiting(core, bio) {
            return;
        }
        let request = self.ask(core, bio);
        let bytes = self.requests[request].len;
        if waits && core.plug_request(self.me, request, bytes, self.spec.kernel) {
            return;
        }
        self.insert(core, request);
        self.dispatch(core);
    }

    fn unplug(&mut self, core: &mut Core) {
        for request in core.unplugged(self.me) {
            self.insert(core, request);
        }
        self.dispatch(core);
    }

    fn worked(&mut self, core: &mut Core, token: u64) {
        if token & HANDLED != 0 {
            self.end(core, (token & !HANDLED) as u32);
            return;
        }
        if token & DISPATCHED != 0 {
            self.to_disk(core, (token & !DISPATCHED) as u32);
            return;
        }
        self.in_flight -= 1;
        let cpu = match self.spec.interrupts {
            Interrupts::Submitter => self.requests[token as u32].cpu as usize,
            Interrupts::Any => core.rng.below(core.cpus.count()),
            Interrupts::Drawn => *self.interrupted.get_or_insert_with(|| core.rng.below(core.cpus.count())),
        };
        core.interrupt(cpu, self.spec.interrupt, self.me, token | HANDLED);
        self.dispatch(core);
    }

    fn size(&self) -> u64 {
        self.size
    }
}

/// Requests that wait for a tag.
enum Waiting {
    Fifo(VecDeque<u32>),
    Deadline(Box<Deadline>),
}

#[derive(Default)]
struct Deadline {
    /// Neither read nor write: they go first, in order.
    others: VecDeque<u32>,
    directions: [Direction; 2],
    direction: usize,
    batch: u32,
    starved: u32,
}

const READ: usize = 0;
const WRITE: usize = 1;

/// By place, and by arrival; and where the last one that went began.
#[derive(Default)]
struct Direction {
    position: u64,
    sorted: BTreeSet<(u64, u32)>,
    arrivals: VecDeque<(Time, u32)>,
}

impl Waiting {
    /// One that waits and ends where a bio begins, or else begins where it ends.
    fn beside(&self, requests: &Slab<Asked>, op: Op, range: (u64, u64)) -> Option<u32> {
        if !matches!(op, Op::Read | Op::Write) {
            return None;
        }
        match self {
            // Without a scheduler the newest few are looked at (`blk_bio_list_merge`).
            Self::Fifo(all) => all.iter().rev().take(8).copied().find(|other| {
                let other = &requests[*other];
                other.op == op && (other.offset + other.len == range.0 || other.offset == range.1)
            }),
            Self::Deadline(_) => {
                self.ending_at(requests, op, range.0).or_else(|| self.beginning_at(requests, op, range.1))
            }
        }
    }

    fn sorted(&self, op: Op) -> Option<&BTreeSet<(u64, u32)>> {
        match (self, op) {
            (Self::Deadline(all), Op::Read | Op::Write) => {
                Some(&all.directions[usize::from(op == Op::Write)].sorted)
            }
            _ => None,
        }
    }

    /// One that waits for the scheduler and ends there.
    fn ending_at(&self, requests: &Slab<Asked>, op: Op, at: u64) -> Option<u32> {
        let before = self.sorted(op)?.range(..(at, 0)).next_back()?.1;
        (requests[before].offset + requests[before].len == at).then_some(before)
    }

    /// One that waits for the scheduler and begins there.
    fn beginning_at(&self, requests: &Slab<Asked>, op: Op, at: u64) -> Option<u32> {
        let after = self.sorted(op)?.range((at, 0)..).next()?.1;
        (requests[after].offset == at).then_some(after)
    }

    fn put(&mut self, requests: &Slab<Asked>, request: u32, now: Time) {
        let asked = &requests[request];
        match self {
            Self::Fifo(all) => all.push_back(request),
            Self::Deadline(all) => match asked.op {
                Op::Read | Op::Write => {
                    let direction = &mut all.directions[usize::from(asked.op == Op::Write)];
                    direction.sorted.insert((asked.offset, request));
                    direction.arrivals.push_back((now, request));
                }
                Op::Flush | Op::Discard => all.others.push_back(request),
            },
        }
    }

    /// Takes one out for good.
    fn remove(&mut self, requests: &Slab<Asked>, request: u32) {
        self.forget(requests, request);
        if let Self::Deadline(all) = self {
            let write = requests[request].op == Op::Write;
            all.directions[usize::from(write)].arrivals.retain(|(_, other)| *other != request);
        }
    }

    /// Takes one out of the order by place while it changes.
    fn forget(&mut self, requests: &Slab<Asked>, request: u32) {
        if let Self::Deadline(all) = self {
            let asked = &requests[request];
            all.directions[usize::from(asked.op == Op::Write)].sorted.remove(&(asked.offset, request));
        }
    }

    fn put_again(&mut self, requests: &Slab<Asked>, request: u32) {
        if let Self::Deadline(all) = self {
            let asked = &requests[request];
            all.directions[usize::from(asked.op == Op::Write)].sorted.insert((asked.offset, request));
        }
    }

    fn next(&mut self, requests: &Slab<Asked>, now: Time) -> Option<u32> {
        match self {
            Self::Fifo(all) => all.pop_front(),
            Self::Deadline(all) => all.next(requests, now),
        }
    }
}

impl Deadline {
    /// `__dd_dispatch_request`: on from where the direction is, up to a batch; then reads, unless writes have
    /// starved; then from where that direction was last, or from the oldest where that waits too long or
    /// nothing lies further on.
    fn next(&mut self, requests: &Slab<Asked>, now: Time) -> Option<u32> {
        if let Some(request) = self.others.pop_front() {
            return Some(request);
        }
        if self.batch < FIFO_BATCH
            && let Some(next) = self.directions[self.direction].onward()
        {
            return Some(self.take(requests, next));
        }
        let [reads, writes] = [READ, WRITE].map(|d| !self.directions[d].sorted.is_empty());
        self.direction = match (reads, writes) {
            (false, false) => return None,
            (true, false) => READ,
            (false, true) => WRITE,
            (true, true) => {
                let starving = self.starved >= WRITES_STARVED;
                self.starved += 1;
                usize::from(starving)
            }
        };
        if self.direction == WRITE {
            self.starved = 0;
        }
        self.batch = 0;
        let queue = &self.directions[self.direction];
        let expire = if self.direction == WRITE { WRITE_EXPIRE_NS } else { READ_EXPIRE_NS };
        let oldest = queue.arrivals.front().copied();
        let is_late = oldest.is_some_and(|(since, _)| now.saturating_sub(since) >= expire);
        let onward = queue.onward().filter(|_| !is_late);
        let next = onward.or_else(|| oldest.map(|(_, request)| (requests[request].offset, request)))?;
        Some(self.take(requests, next))
    }

    fn take(&mut self, requests: &Slab<Asked>, next: (u64, u32)) -> u32 {
        let queue = &mut self.directions[self.direction];
        queue.sorted.remove(&next);
        if let Some(at) = queue.arrivals.iter().position(|(_, request)| *request == next.1) {
            queue.arrivals.remove(at);
        }
        self.batch += 1;
        queue.position = requests[next.1].offset;
        next.1
    }
}

impl Direction {
    /// The next one at or beyond where this direction is.
    fn onward(&self) -> Option<(u64, u32)> {
        self.sorted.range((self.position, 0)..).next().copied()
    }
}
