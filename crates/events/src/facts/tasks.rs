//! Threads: what each used of CPUs, and what it waited for.
//!
//! A thread runs, could run (*ready*), or is blocked. It leaves a CPU at sched_switch, which tells whether it
//! could go on; it is ready from the sched_waking that ends its wait, which tells by what it was ended; it
//! runs from the next sched_switch on. What ended the wait is what it had waited for.

use super::intervals::{Thread, role};
use crate::event::{Comm, Context, Left};
use crate::file::Tables;
use crate::owner::Owner;
use domain::order;
use domain::spent::{Spent, Wait};
use domain::trace::Role;
use std::collections::{BTreeMap, HashMap};

/// A thread and what it spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadSpent {
    /// Its number.
    pub tid: u32,
    /// Its last name.
    pub name: String,
    /// What it worked for.
    pub role: Role,
    /// Where its time went.
    pub spent: Spent,
}

/// How many threads are kept of those that ended: those that used most.
const MAX_ENDED: usize = 64;

/// When this many have ended, the lesser ones are let go.
const ENDED_ROOM: usize = 1024;

/// A wait that was ended before its thread had left the CPU is that one if it is no older: the waker may see
/// the thread's new state while it is still on its way out (kernel/sched/core.c, `try_to_wake_up`).
const LEAVING_NS: u64 = 50_000;

/// A completion or a timer is the cause of a wake-up if it is no older: one softirq completes many requests,
/// and between two of them are microseconds.
const CAUSE_NS: u64 = 50_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not seen yet.
    Unseen,
    /// Not known since events were lost.
    Lost,
    Running,
    Ready,
    Blocked,
}

#[derive(Debug)]
struct Task {
    owner: Option<Owner>,
    name: Comm,
    state: State,
    since: u64,
    /// The wake-up that came while it ran.
    woken: Option<(u64, Wait)>,
    /// Locks that it waits for.
    locks: u32,
    /// The function that a kworker executes.
    work: Option<u64>,
    spent: Spent,
}

/// What happened last on a CPU that could be the cause of a wake-up.
#[derive(Clone, Copy, Debug)]
struct Cause {
    time: u64,
    tid: u32,
    context: Context,
    wait: Wait,
}

/// By the address of a function: CPU time, and how often it was executed.
pub type Functions = BTreeMap<u64, (u64, u64)>;

/// What all threads did together.
#[derive(Debug)]
pub struct Sums {
    /// By role.
    pub roles: BTreeMap<Role, Spent>,
    /// The busiest first.
    pub threads: Vec<ThreadSpent>,
    /// What kworkers executed.
    pub functions: Functions,
}

/// All threads of a recording.
#[derive(Debug)]
pub struct Tasks<'t> {
    tables: &'t Tables,
    begin: u64,
    live: HashMap<u32, Task>,
    ended: Vec<ThreadSpent>,
    /// Of all threads, those that ended too.
    roles: BTreeMap<Role, Spent>,
    /// By the address of the function: CPU time, and how often it was executed.
    pub functions: Functions,
    causes: HashMap<u16, Cause>,
}

impl<'t> Tasks<'t> {
    /// Those of a recording that begins at this time.
    pub fn new(tables: &'t Tables, begin: u64) -> Self {
        Self {
            tables,
            begin,
            live: HashMap::new(),
            ended: Vec::new(),
            roles: BTreeMap::new(),
            functions: BTreeMap::new(),
            causes: HashMap::new(),
        }
    }

    fn task(&mut self, tid: u32) -> &mut Task {
        let (tables, begin) = (self.tables, self.begin);
        self.live.entry(tid).or_insert_with(|| Task {
            owner: tables.owner_of(tid),
            name: Comm::default(),
            state: State::Unseen,
            since: begin,
            woken: None,
            locks: 0,
            work: None,
            spent: Spent::default(),
        })
    }

    /// A thread has run for so long until now, under this name if that is known: who it is, and what it
    /// executed as a kworker.
    pub fn ran(&mut self, tid: u32, ns: u64, name: Option<Comm>) -> (Thread, Option<u64>) {
        let task = self.task(tid);
        task.spent.cpu_ns = task.spent.cpu_ns.saturating_add(ns);
        task.name = name.unwrap_or(task.name);
        let (thread, function) = (task.thread(tid), task.work);
        if let Some(function) = function {
            let (cpu, _) = self.functions.entry(function).or_default();
            *cpu = cpu.saturating_add(ns);
        }
        (thread, function)
    }

    /// Who a thread is, and what it executes as a kworker. Until it has switched its name is that which it
    /// had when all was declared.
    pub fn thread(&mut self, tid: u32) -> (Thread, Option<u64>) {
        let tables = self.tables;
        let task = self.task(tid);
        let mut thread = task.thread(tid);
        if let Some(known) = tables.tasks.get(&tid).filter(|_| thread.name == Comm::default()) {
            thread.name = Comm::of(&known.name);
        }
        (thread, task.work)
    }

    /// It leaves its CPU.
    pub fn leaves(&mut self, now: u64, tid: u32, name: Comm, left: Left) {
        let task = self.task(tid);
        task.name = name;
        task.since = now;
        let woken = task.woken.take().filter(|(at, _)| now.saturating_sub(*at) <= LEAVING_NS);
        task.state = match left {
            Left::Dead => return self.end(tid),
            Left::Runnable => State::Ready,
            Left::Waiting if woken.is_some() => State::Ready,
            Left::Waiting => State::Blocked,
            Left::Unknown => State::Unseen,
        };
    }

    /// It is given a CPU; gives what it did before, and since when.
    pub fn runs(&mut self, now: u64, tid: u32, name: Comm) -> Option<Before> {
        let was_there = self.tables.tasks.contains_key(&tid);
        let task = self.task(tid);
        task.name = name;
        let before = task.not_running(tid, now, was_there);
        task.state = State::Running;
        task.since = now;
        task.spent.switches += 1;
        before
    }

    /// One wakes another; gives the wait that this ends, and since when it was.
    pub fn wakes(&mut self, now: u64, cpu: u16, waker: u32, context: Context, tid: u32) -> Option<Before> {
        let cause = self.causes.get(&cpu).filter(|cause| {
            (cause.tid, cause.context) == (waker, context) && now.saturating_sub(cause.time) <= CAUSE_NS
        });
        let by = match cause {
            Some(cause) => cause.wait,
            None if context.is_interrupt() => Wait::Interrupt,
            None => Wait::Thread,
        };
        let was_there = self.tables.tasks.contains_key(&tid);
        let task = self.task(tid);
        let wait = if task.locks > 0 { Wait::Lock } else { by };
        let since = now.saturating_sub(task.since);
        match task.state {
            State::Blocked => add_wait(&mut task.spent, wait, since),
            State::Unseen if was_there => add_wait(&mut task.spent, wait, since),
            State::Unseen | State::Lost => {}
            State::Running => {
                task.woken = Some((now, wait));
                return None;
            }
            State::Ready => return None,
        }
        let is_known = task.state == State::Blocked || (task.state == State::Unseen && was_there);
        let before =
            is_known.then(|| Before { thread: task.thread(tid), since: task.since, wait: Some(wait) });
        task.state = State::Ready;
        task.since = now;
        before
    }

    /// Something happened that a wake-up may follow from.
    pub fn cause(&mut self, time: u64, cpu: u16, tid: u32, context: Context, wait: Wait) {
        self.causes.insert(cpu, Cause { time, tid, context, wait });
    }

    /// A thread makes another, which is ready.
    pub fn forks(&mut self, now: u64, parent: u32, child: u32) {
        if self.live.contains_key(&child) {
            // The number was given to another before its end was seen.
            self.end(child);
        }
        let of_parent = self.task(parent).owner;
        let named = self.tables.owners.get(&child).copied();
        let task = self.task(child);
        task.owner = named.or(of_parent).or(task.owner);
        task.state = State::Ready;
        task.since = now;
    }

    /// A thread begins or ends to wait for a lock.
    pub fn locks(&mut self, tid: u32, begins: bool) {
        let task = self.task(tid);
        task.locks = if begins { task.locks.saturating_add(1) } else { task.locks.saturating_sub(1) };
    }

    /// A kworker executes a function, or none.
    pub fn works(&mut self, tid: u32, function: Option<u64>) {
        self.task(tid).work = function;
        if let Some(function) = function {
            let (_, count) = self.functions.entry(function).or_default();
            *count += 1;
        }
    }

    /// What was lost may have woken, blocked or ended anybody: a thread's state is unknown until it is seen
    /// again.
    pub fn lost(&mut self, cpu: u16) {
        self.causes.remove(&cpu);
        for task in self.live.values_mut() {
            task.locks = 0;
            task.woken = None;
            if task.state != State::Running {
                task.state = State::Lost;
            }
        }
    }

    fn end(&mut self, tid: u32) {
        let Some(task) = self.live.remove(&tid) else { return };
        let ended = named(self.tables, tid, &task);
        self.roles.entry(ended.role).or_default().add(&ended.spent);
        self.ended.push(ended);
        if self.ended.len() >= ENDED_ROOM {
            keep_busiest(&mut self.ended, MAX_ENDED);
        }
    }

    /// At the recording's end: what each thread that does not run has done since when, as `each` takes it.
    pub fn end_all(&mut self, now: u64, mut each: impl FnMut(Before)) {
        for (tid, task) in &mut self.live {
            if let Some(before) = task.not_running(*tid, now, false) {
                each(before);
            }
            task.state = State::Lost;
        }
    }

    /// The sums, behind the recording's end: by role, and all threads, the busiest first.
    pub fn finish(mut self) -> Sums {
        for (tid, task) in std::mem::take(&mut self.live) {
            let still_there = named(self.tables, tid, &task);
            self.roles.entry(still_there.role).or_default().add(&still_there.spent);
            self.ended.push(still_there);
        }
        let all = self.ended.len();
        keep_busiest(&mut self.ended, all);
        Sums { roles: self.roles, threads: self.ended, functions: self.functions }
    }
}

/// What a thread did until it ran, or until somebody woke it.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    pub thread: Thread,
    pub since: u64,
    /// What it waited for; `None` where it could run.
    pub wait: Option<Wait>,
}

impl Task {
    fn thread(&self, tid: u32) -> Thread {
        Thread { tid, name: self.name, owner: self.owner }
    }

    /// Accounts the time until now of a thread that did not run; gives what it did, where that is known.
    fn not_running(&mut self, tid: u32, now: u64, was_there: bool) -> Option<Before> {
        let ns = now.saturating_sub(self.since);
        let wait = match self.state {
            State::Ready => {
                self.spent.ready_ns = self.spent.ready_ns.saturating_add(ns);
                None
            }
            State::Blocked => Some(Wait::Unknown),
            State::Unseen if was_there => Some(Wait::Unknown),
            State::Unseen | State::Lost | State::Running => return None,
        };
        if let Some(wait) = wait {
            add_wait(&mut self.spent, wait, ns);
        }
        Some(Before { thread: self.thread(tid), since: self.since, wait })
    }
}

fn add_wait(spent: &mut Spent, wait: Wait, ns: u64) {
    let sum = &mut spent.wait_ns[wait as usize];
    *sum = sum.saturating_add(ns);
}

fn named(tables: &Tables, tid: u32, task: &Task) -> ThreadSpent {
    let mut name = task.name.text().into_owned();
    if let Some(known) = tables.tasks.get(&tid).filter(|_| name.is_empty()) {
        // It was only woken, or a kernel without names in its switches.
        name.clone_from(&known.name);
    }
    let role = role(task.owner, &name);
    ThreadSpent { tid, name, role, spent: task.spent }
}

fn keep_busiest(threads: &mut Vec<ThreadSpent>, most: usize) {
    order::by(threads, |a, b| b.spent.cpu_ns.cmp(&a.spent.cpu_ns).then(a.tid.cmp(&b.tid)));
    threads.truncate(most);
}
