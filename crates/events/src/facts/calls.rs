//! System calls: what the thread of each did from its begin to its end, and the bios that it queued.
//!
//! A thread has one call at a time. From the begin on each piece of its time is what the thread did then: on
//! a CPU, ready, or waiting for what ended the wait; so the pieces sum up to the whole. It is on a CPU only
//! where that is known to run it: calls have no more CPU time than their thread.
//!
//! A bio is the call's where its thread queued it, and no layer passed it on. Its end is that which the way
//! through layers knows. A bio that asks for a flush alone has no sectors by which its end could be told: it
//! ends with the wait that follows, for whoever asks for one waits for it (block/blk-flush.c,
//! `blkdev_issue_flush`).
//!
//! What is not seen: requests of io_uring and libaio end after their call; those of io_uring that its workers
//! execute (`iou-wrk`) are in no call; pages of mapped files are read by faults, which are no calls.

use super::intervals::Thread;
use super::tasks::Before;
use crate::bios::{Below, CallId};
use crate::event::Span;
use crate::file::Tables;
use domain::Nanos;
use domain::calls::{Call, Called, Calls, Queued, WithBios};
use domain::passage::Bios;
use domain::request::Op;
use domain::spent::{Spent, Wait};
use domain::trace::Role;
use domain::units::Bytes;
use parse::proc::role::work_role;
use std::collections::{BTreeMap, HashMap};

/// Most calls that are followed at once, one of each thread: some 20 MB. Of more the time is not known.
const MAX_UNDER_WAY: usize = 1 << 16;

/// Most sums of one kind that a hostile file can make: of devices, and of functions of kworkers.
const MAX_SUMS: usize = 4096;

/// Whose thread it was: a kworker's function has its name, and so its role, when all was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Role(Role),
    Function(u64),
}

impl Who {
    /// A thread that executes this, where it is a kworker.
    pub fn of(thread: &Thread, function: Option<u64>) -> Self {
        match (thread.role(None), function) {
            (Role::Kworker, Some(function)) => Self::Function(function),
            (role, _) => Self::Role(role),
        }
    }

    fn role(self, names: &BTreeMap<u64, String>) -> Role {
        match self {
            Self::Role(role) => role,
            Self::Function(address) => names.get(&address).map_or(Role::Kworker, |name| work_role(name)),
        }
    }
}

/// What a thread did for a while.
#[derive(Clone, Copy, Debug)]
enum Part {
    Cpu,
    Ready,
    Waited(Wait),
}

/// A call that has begun.
#[derive(Debug)]
struct UnderWay {
    call: Call,
    number: u64,
    begin: u64,
    /// Until when its time is accounted.
    until: u64,
    /// The CPU that its thread is on.
    on: Option<u16>,
    spent: Spent,
    woken_by: BTreeMap<Who, u64>,
    bios: Bios,
    below: Below,
    /// Whether one that asks for a flush alone is on its way.
    flushes: bool,
    /// Whether the end of a bio is not known.
    is_doubtful: bool,
}

impl UnderWay {
    fn account(&mut self, now: u64, part: Part) -> u64 {
        let ns = now.saturating_sub(self.until);
        self.until = now.max(self.until);
        let sum = match part {
            Part::Cpu => &mut self.spent.cpu_ns,
            Part::Ready => &mut self.spent.ready_ns,
            Part::Waited(wait) => &mut self.spent.wait_ns[wait as usize],
        };
        *sum = sum.saturating_add(ns);
        ns
    }

    /// The flush that was on its way has ended by now.
    fn flushed(&mut self, now: u64) {
        if std::mem::take(&mut self.flushes) {
            self.below.ends(now);
        }
    }
}

/// The calls of one kind, and who woke threads in them.
#[derive(Debug, Default)]
struct Sum {
    called: Called,
    woken_by: BTreeMap<Who, u64>,
}

/// All calls of a recording.
#[derive(Debug)]
pub struct SystemCalls<'t> {
    tables: &'t Tables,
    is_recorded: bool,
    has_switches: bool,
    under_way: HashMap<u32, UnderWay>,
    begun: u64,
    sums: BTreeMap<(Role, Call), Sum>,
    /// By whole disk.
    queued: BTreeMap<(u32, Who, Op), Bios>,
}

impl<'t> SystemCalls<'t> {
    pub fn new(tables: &'t Tables) -> Self {
        let has = |begin: &str| tables.tracepoints.values().any(|point| point.name.starts_with(begin));
        Self {
            tables,
            is_recorded: has("syscalls/"),
            has_switches: has("sched/sched_switch"),
            under_way: HashMap::new(),
            begun: 0,
            sums: BTreeMap::new(),
            queued: BTreeMap::new(),
        }
    }

    /// Whether any tracepoint of them is recorded.
    pub fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// Whether it can be told who runs.
    pub fn has_switches(&self) -> bool {
        self.has_switches
    }

    /// A thread begins a call. The end of one that it had begun before was not seen.
    pub fn begins(&mut self, now: u64, cpu: u16, tid: u32, call: Call) {
        self.under_way.remove(&tid);
        if self.under_way.len() >= MAX_UNDER_WAY {
            return;
        }
        self.begun += 1;
        let begun = UnderWay {
            call,
            number: self.begun,
            begin: now,
            until: now,
            on: self.has_switches.then_some(cpu),
            spent: Spent::default(),
            woken_by: BTreeMap::new(),
            bios: Bios::default(),
            below: Below::default(),
            flushes: false,
            is_doubtful: false,
        };
        self.under_way.insert(tid, begun);
    }

    /// A thread of this role ends a call, on the CPU that it is known to have run on until now.
    pub fn ends(&mut self, now: u64, on: Option<u16>, tid: u32, role: Role, call: Call, returned: i64) {
        let sum = self.sums.entry((role, call)).or_default();
        let called = &mut sum.called;
        called.count += 1;
        match u64::try_from(returned) {
            Err(_) => called.failed += 1,
            Ok(moved) if call.moves().is_some() => {
                called.bytes = Bytes::new(called.bytes.get().saturating_add(moved));
            }
            Ok(_) => {}
        }
        let Some(mut ended) = self.under_way.remove(&tid).filter(|begun| begun.call == call) else { return };
        let ran = on.is_some() && ended.on == on;
        let part = if ran { Part::Cpu } else { Part::Waited(Wait::Unknown) };
        ended.account(now, part);
        called.took.add(now.saturating_sub(ended.begin));
        called.spent.add(&ended.spent);
        for (who, ns) in &ended.woken_by {
            add(&mut sum.woken_by, *who, *ns);
        }
        if ended.bios.count == 0 {
            return;
        }
        let mut own = WithBios { count: 1, bios: ended.bios, ..WithBios::default() };
        let times = ended.below.times(ended.begin, now).filter(|_| !ended.is_doubtful);
        if let Some([before, below, between, after]) = times.map(|times| times.map(Nanos::new)) {
            own = WithBios { followed: 1, before, below, between, after, ..own };
        }
        called.with_bios.add(&own);
    }

    /// A thread leaves its CPU; `ran` is whether it is known that it ran there until now.
    pub fn leaves(&mut self, now: u64, cpu: u16, tid: u32, ran: bool) {
        let Some(call) = self.under_way.get_mut(&tid) else { return };
        let is_known = ran && call.on == Some(cpu);
        call.account(now, if is_known { Part::Cpu } else { Part::Waited(Wait::Unknown) });
        call.on = None;
    }

    /// It ended while it was in a call.
    pub fn dies(&mut self, tid: u32) {
        self.under_way.remove(&tid);
    }

    /// It is given a CPU; `before` is what it did until now, where that is known.
    pub fn runs(&mut self, now: u64, cpu: u16, tid: u32, before: Option<&Before>) {
        let Some(call) = self.under_way.get_mut(&tid) else { return };
        let part = match before {
            Some(Before { wait: None, .. }) if call.on.is_none() => Part::Ready,
            _ => Part::Waited(Wait::Unknown),
        };
        call.account(now, part);
        call.on = Some(cpu);
        call.spent.switches += 1;
    }

    /// Whether a thread is in a call.
    pub fn holds(&self, tid: u32) -> bool {
        self.under_way.contains_key(&tid)
    }

    /// One woke it, which ended a wait for this, where that is known.
    pub fn woken(&mut self, now: u64, tid: u32, wait: Option<Wait>, by: Who) {
        let Some(call) = self.under_way.get_mut(&tid) else { return };
        call.flushed(now);
        let Some(wait) = wait.filter(|_| call.on.is_none()) else { return };
        let ns = call.account(now, Part::Waited(wait));
        if wait == Wait::Thread {
            add(&mut call.woken_by, by, ns);
        }
    }

    /// The call that a thread is in.
    pub fn of_thread(&self, tid: u32) -> Option<CallId> {
        self.under_way.get(&tid).map(|call| CallId { tid, number: call.number })
    }

    /// A thread's call queued a bio whose end will be known ([`Self::bio_ended`]), or which asks for a flush
    /// alone.
    pub fn queued(&mut self, now: u64, id: CallId, span: &Span) {
        let Some(call) = self.get(id) else { return };
        if span.sectors == 0 {
            // What a layer makes of it has no sectors either.
            if std::mem::replace(&mut call.flushes, true) {
                return;
            }
        }
        call.bios.add(Bios::one(span.sectors.into()));
        call.below.begins(now);
    }

    /// One of its bios has ended; or nobody knows when it does.
    pub fn bio_ended(&mut self, now: u64, id: CallId, is_doubtful: bool) {
        let Some(call) = self.get(id) else { return };
        call.is_doubtful |= is_doubtful;
        call.below.ends(now);
    }

    fn get(&mut self, id: CallId) -> Option<&mut UnderWay> {
        self.under_way.get_mut(&id.tid).filter(|call| call.number == id.number)
    }

    /// Somebody queued a bio that no layer passed on.
    pub fn counts(&mut self, span: &Span, op: Op, who: Who) {
        let key = (self.tables.disk_of(span.device), who, op);
        if self.queued.len() < MAX_SUMS || self.queued.contains_key(&key) {
            self.queued.entry(key).or_default().add(Bios::one(span.sectors.into()));
        }
    }

    /// What was lost may have ended any call.
    pub fn lost(&mut self) {
        self.under_way.clear();
    }

    /// What follows; `names` are those of functions of kworkers, and bios are told where they were followed.
    pub fn finish(self, names: &BTreeMap<u64, String>, has_bios: bool) -> Option<Calls> {
        let mut queued = Queued::new();
        for ((disk, who, op), bios) in &self.queued {
            let key = (self.tables.device_name(*disk), who.role(names), *op);
            queued.entry(key).or_default().add(*bios);
        }
        let mut of = BTreeMap::new();
        for (key, Sum { mut called, woken_by }) in self.sums {
            for (who, ns) in woken_by {
                let time = called.woken_by.entry(who.role(names)).or_default();
                *time = time.saturating_add(Nanos::new(ns));
            }
            of.insert(key, called);
        }
        self.is_recorded.then(|| Calls { of, queued: has_bios.then_some(queued) })
    }
}

fn add(sums: &mut BTreeMap<Who, u64>, who: Who, ns: u64) {
    // Where a hostile file names more functions, they are kworkers all the same.
    let has_room = sums.len() < MAX_SUMS || sums.contains_key(&who);
    let sum = sums.entry(if has_room { who } else { Who::Role(Role::Kworker) }).or_default();
    *sum = sum.saturating_add(ns);
}
