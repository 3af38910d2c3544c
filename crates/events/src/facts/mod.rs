//! From events to facts: what each CPU, thread and device did.
//!
//! Work is conserved: a CPU's time is busy, idle or unknown, and the CPU time of its threads is its busy
//! time. Interrupts count to the thread that they interrupt, as they do in the scheduler's own account
//! without `CONFIG_IRQ_TIME_ACCOUNTING`.

mod accesses;
mod calls;
mod cpus;
mod intervals;
mod passages;
mod requests;
mod tasks;
mod windows;

pub use cpus::CpuSpent;
pub use domain::spent::{Spent, Wait};
pub use intervals::{Between, Did, Interval, Thread, intervals};
pub use requests::Done;
pub use tasks::ThreadSpent;
pub use windows::SAMPLES_LOAD;

use crate::Result;
use crate::decode::{Losses, decode};
use crate::event::{Comm, Context, Event, Left, Span, What};
use crate::file::Tables;
use crate::held_off::HeldOff;
use crate::profile::{self, Seen};
use crate::requests::Ended;
use crate::subsystem::plain;
use accesses::Patterns;
use calls::{SystemCalls, Who};
use cpus::{Cpu, IDLE};
use domain::Nanos;
use domain::access::AccessPattern;
use domain::calls::Calls;
use domain::passage::Passage;
use domain::profile::Profile;
use domain::request::{Op, Served};
use domain::trace::Role;
use domain::windows::{Boundary, Bounded};
use parse::proc::role::work_role;
use passages::Passages;
use requests::Requests;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};
use tasks::{Before, Sums, Tasks};
use windows::{Decisions, Executions, FrequencyRequests, Now, Piece};

/// What a recording of events says as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// How long all was recorded.
    pub span: Nanos,
    /// Whether the recording was ended properly.
    pub is_whole: bool,
    /// By tracepoint, `group/name`.
    pub kinds: BTreeMap<String, Counted>,
    /// Lost events, by CPU.
    pub lost: BTreeMap<u16, u64>,
    /// Of these, those that the kernel announced: their ring was full.
    pub announced: u64,
    /// Records that could not be read.
    pub unread: u64,
    /// What is not recorded, and why.
    pub absent: Vec<String>,
    /// By CPU.
    pub cpus: BTreeMap<u16, CpuSpent>,
    /// By role.
    pub roles: BTreeMap<Role, Spent>,
    /// The busiest first.
    pub threads: Vec<ThreadSpent>,
    /// What kworkers executed, by the function's name or address: how often, how long.
    pub work: BTreeMap<String, (u64, Nanos)>,
    /// By device and operation.
    pub devices: BTreeMap<(String, Op), Done>,
    /// By device and operation, what the kernel summed up itself, where that was done without events.
    pub served: BTreeMap<(String, Op), Served>,
    /// System calls, and what filesystems made of them; `None` where they were not recorded.
    pub calls: Option<Calls>,
    /// What devices that stand on others made of what they were given.
    pub passages: BTreeMap<String, Passage>,
    /// How devices were used, by their names.
    pub accesses: BTreeMap<String, AccessPattern>,
    /// How busy CPUs were between two samples of ondemand or conservative ([`SAMPLES_LOAD`]), between two
    /// decisions of intel_pstate, and between two requests for a frequency: by CPU, or by the number of the
    /// policy where one is declared, whose busiest CPU it is then. Which of these are the governor's, the
    /// events do not tell.
    pub windows: Bounded,
    /// The CPUs of each declared policy, by its number.
    pub policies: BTreeMap<u16, Vec<u16>>,
    /// What CPU time was spent in, where call stacks were sampled.
    pub profile: Option<Profile>,
}

/// The events of one tracepoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// In the file.
    pub recorded: u64,
    /// Lost, on all CPUs.
    pub lost: u64,
}

impl Facts {
    /// Reads a recording: what it declares, its events, and its profile where there is one.
    ///
    /// # Errors
    /// Where it cannot be read, or is damaged.
    pub fn read<R: Read + Seek>(open: impl FnMut() -> std::io::Result<R>) -> Result<Self> {
        Self::read_naming(open, |_| BTreeMap::new())
    }

    /// The same, of a recording that names no functions yet: `name` is asked once for those that these
    /// addresses are in, by where they begin.
    ///
    /// # Errors
    /// As above.
    pub fn read_naming<R: Read + Seek>(
        mut open: impl FnMut() -> std::io::Result<R>,
        name: impl FnOnce(&BTreeSet<u64>) -> BTreeMap<u64, String>,
    ) -> Result<Self> {
        let tables = Tables::read(open()?)?;
        let mut seen = tables.period.map(|_| Seen::read(open()?)).transpose()?;
        let mut held_off = seen.as_mut().and_then(|seen| seen.held_off(&tables));
        let mut nobody = |_: &Interval| {};
        let mut collecting = Collecting::giving(&tables, &mut nobody);
        let losses = decode(open()?, &tables, |event| {
            collecting.take(event);
            if let Some(held_off) = &mut held_off {
                held_off.take(event);
            }
        })?;
        let mut addresses: BTreeSet<u64> = collecting.tasks.functions.keys().copied().collect();
        addresses.extend(seen.iter().flat_map(|seen| &seen.addresses));
        let mut symbols = tables.symbols.clone();
        if symbols.is_empty() && !addresses.is_empty() {
            symbols = name(&addresses);
        }
        let mut facts = collecting.finish(&losses, &symbols);
        if let Some(seen) = seen {
            facts.unread += seen.unread;
            facts.profile =
                Some(profile::sum(open()?, &tables, &seen, held_off.map(HeldOff::finish), &symbols)?);
        }
        Ok(facts)
    }

    /// All that was lost.
    pub fn all_lost(&self) -> u64 {
        self.lost.values().fold(0, |all, lost| all.saturating_add(*lost))
    }

    /// What fired and has neither a record nor an announcement of its loss.
    pub fn unannounced(&self) -> u64 {
        self.all_lost().saturating_sub(self.announced)
    }

    /// By CPU, where there are any: switches without a record although the kernel counts none as lost.
    pub fn unseen_switches(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let is_counted = self.kinds.get("sched/sched_switch").is_some_and(|kind| kind.lost == 0);
        let by_cpu = self.cpus.iter().map(|(number, cpu)| (*number, cpu.unseen_switches));
        by_cpu.filter(move |(_, unseen)| is_counted && *unseen > 0)
    }

    /// All that was recorded.
    pub fn all_recorded(&self) -> u64 {
        self.kinds.values().fold(0, |all, kind| all.saturating_add(kind.recorded))
    }
}

/// Takes events up, in the order of time, and gives the intervals that they end.
#[derive(Debug)]
struct Collecting<'t, F> {
    give: F,
    tables: &'t Tables,
    begin: u64,
    last: u64,
    /// How many changes of CPUs were taken up.
    cpu_changes: usize,
    cpus: BTreeMap<u16, Cpu>,
    tasks: Tasks<'t>,
    requests: Requests<'t>,
    passages: Passages<'t>,
    calls: SystemCalls<'t>,
    patterns: Patterns,
    executions: Executions,
    decisions: Decisions,
    frequency_requests: FrequencyRequests,
}

impl<'t, F: FnMut(&Interval)> Collecting<'t, F> {
    /// Of a recording that declares this.
    fn giving(tables: &'t Tables, give: F) -> Self {
        let begin = tables.begin.map_or(0, Nanos::get);
        Self {
            give,
            tables,
            begin,
            last: begin,
            cpu_changes: 0,
            cpus: BTreeMap::new(),
            tasks: Tasks::new(tables, begin),
            requests: Requests::new(tables),
            passages: Passages::new(tables),
            calls: SystemCalls::new(tables),
            patterns: Patterns::default(),
            executions: Executions::default(),
            decisions: Decisions::default(),
            frequency_requests: FrequencyRequests::default(),
        }
    }

    /// The next event. One from before all was recorded says who ran, and its time counts from the begin.
    fn take(&mut self, event: &Event) {
        let end = self.tables.end.map_or(u64::MAX, Nanos::get);
        let now = event.time.get().clamp(self.begin, end.max(self.begin));
        self.last = now.max(self.last);
        self.cpus_change_until(now);
        let Event { cpu, tid, context, what, .. } = *event;
        match what {
            What::Switch { prev, prev_comm, left, next, next_comm, .. } => {
                let begin = self.begin;
                let at = self.cpus.entry(cpu).or_insert_with(|| Cpu::new(begin));
                let before = at.until(now, prev);
                at.switched_to(next);
                if let Some((tid, ns)) = before {
                    self.ran(now, cpu, tid, ns, Some(prev_comm));
                }
                if prev != IDLE {
                    self.tasks.leaves(now, prev, prev_comm, left);
                    self.calls.leaves(now, cpu, prev, before.is_some());
                    if left == Left::Dead {
                        self.calls.dies(prev);
                    }
                }
                if next != IDLE {
                    let before = self.tasks.runs(now, next, next_comm);
                    self.calls.runs(now, cpu, next, before.as_ref());
                    self.did_not_run(now, before);
                }
            }
            What::Waking { tid: woken, .. } => {
                let before = self.tasks.wakes(now, cpu, tid, context, woken);
                if self.calls.holds(woken) {
                    let by = self.who(tid, context);
                    self.calls.woken(now, woken, before.and_then(|before| before.wait), by);
                }
                self.did_not_run(now, before);
            }
            What::Fork { parent, child } => self.tasks.forks(now, parent, child),
            What::LockBegin => self.tasks.locks(tid, true),
            What::LockEnd => self.tasks.locks(tid, false),
            What::Timer => self.tasks.cause(now, cpu, tid, context, Wait::Timer),
            What::WorkBegin { function, work } => {
                self.works(now, cpu, tid, Some(function));
                self.executes(now, cpu, tid, function, work);
            }
            What::WorkEnd => {
                self.works(now, cpu, tid, None);
                self.executions.ends(tid);
            }
            What::Frequency { cpu: of, khz } => {
                self.asks(now, of, Some(tid).filter(|_| !context.is_interrupt()));
                self.of_cpu(now, of, AT, |cpu| cpu.runs_at(now, khz));
            }
            What::Idle { cpu: of, state } => self.of_cpu(now, of, IN_STATE, |cpu| cpu.idles(now, state)),
            What::IrqBegin { irq, .. } => {
                self.tasks.cause(now, cpu, tid, context, Wait::Interrupt);
                self.of_cpu(now, cpu.into(), IN_IRQ, |cpu| cpu.irq(now, Some(irq)));
            }
            What::IrqEnd => self.of_cpu(now, cpu.into(), IN_IRQ, |cpu| cpu.irq(now, None)),
            What::SoftirqBegin { vector } => {
                self.of_cpu(now, cpu.into(), IN_SOFTIRQ, |cpu| cpu.softirq(now, Some(vector)));
            }
            What::SoftirqEnd => self.of_cpu(now, cpu.into(), IN_SOFTIRQ, |cpu| cpu.softirq(now, None)),
            What::BioQueue { span, op, purpose } => {
                self.requests.queued(now, &span, op);
                self.queues(now, tid, context, &span, op);
                self.patterns.queued(self.tables.disk_of(span.device), &span, op, purpose);
            }
            What::BioRemap { span, from, from_sector, op } => {
                self.passages.remapped(now, &span, from, from_sector, op);
            }
            What::Issue { span, op } => {
                self.requests.issued(now, &span, op);
                self.passages.issued(&span, op);
            }
            What::Complete { span, op, failed } => {
                self.tasks.cause(now, cpu, tid, context, Wait::Io);
                self.passages.completed(now, &span, op);
                if let Some(ended) = self.requests.completed(now, &span, op, failed) {
                    self.request(now, ended, op, failed);
                }
            }
            What::BioComplete { span, op, failed } => {
                self.tasks.cause(now, cpu, tid, context, Wait::Io);
                self.passages.bio_completed(now, &span, op);
                let ended = self.requests.bio_completed(now, &span, op, failed);
                self.request(now, ended, op, failed);
            }
            // An idle CPU calls nobody.
            What::CallBegin { .. } | What::CallEnd { .. } if tid == IDLE => {}
            What::CallBegin { call } => {
                self.is_seen(now, cpu, tid);
                self.calls.begins(now, cpu, tid, call);
            }
            What::CallEnd { call, returned } => {
                let on = self.is_seen(now, cpu, tid).then_some(cpu);
                let (thread, _) = self.tasks.thread(tid);
                self.calls.ends(now, on, tid, thread.role(None), call, returned);
            }
            What::Lost { count } => {
                self.lost(cpu);
                self.give(now, now, Did::Lost { cpu, count });
            }
            What::Pstate { mperf, tsc, .. } => self.decides(now, cpu, mperf, tsc),
            // An end is seen by its last switch.
            What::Exit { .. } | What::Other => {}
        }
        for (call, is_doubtful) in self.passages.ended.drain(..) {
            self.calls.bio_ended(now, call, is_doubtful);
        }
    }

    /// A bio is given to a device: by a system call where its thread is in one.
    fn queues(&mut self, now: u64, tid: u32, context: Context, span: &Span, op: Op) {
        let call = self.calls.of_thread(tid).filter(|_| !context.is_interrupt());
        let is_on_top = self.passages.queued(now, span, op, call);
        if !self.calls.is_recorded() {
            return;
        }
        if is_on_top {
            let who = self.who(tid, context);
            self.calls.counts(span, op, who);
        }
        let is_flush = span.sectors == 0 && self.passages.is_followed();
        if let Some(call) = call.filter(|_| is_on_top || is_flush) {
            self.calls.queued(now, call, span);
        }
    }

    /// Whose thread does something, or an interrupt.
    fn who(&mut self, tid: u32, context: Context) -> Who {
        if context.is_interrupt() {
            return Who::Role(Role::Interrupt);
        }
        let (thread, function) = self.tasks.thread(tid);
        Who::of(&thread, function)
    }

    /// A thread is seen on a CPU; whether it was known that it runs there. If so it has run until now,
    /// whatever is lost from here on; else the time until now is not known.
    fn is_seen(&mut self, now: u64, cpu: u16, tid: u32) -> bool {
        let begin = self.begin;
        let at = self.cpus.entry(cpu).or_insert_with(|| Cpu::new(begin));
        if !self.calls.has_switches() {
            return false;
        }
        let was_known = at.is_running(tid);
        if let Some((tid, ns)) = at.until(now, tid) {
            self.ran(now, cpu, tid, ns, None);
        }
        was_known
    }

    /// A kworker's time until now belongs to what it did before.
    fn works(&mut self, now: u64, cpu: u16, tid: u32, function: Option<u64>) {
        let begin = self.begin;
        if let Some((tid, ns)) = self.cpus.entry(cpu).or_insert_with(|| Cpu::new(begin)).until(now, tid) {
            self.ran(now, cpu, tid, ns, None);
        }
        self.tasks.works(tid, function);
    }

    /// A kworker begins to execute a function: a window of it ends.
    fn executes(&mut self, now: u64, cpu: u16, tid: u32, function: u64, work: Option<u64>) {
        let tables = self.tables;
        let (here, piece) = match tables.policy_of(cpu) {
            Some((here, _)) => (here, work.map_or(Piece::On(here), Piece::Work)),
            None => (cpu, Piece::On(cpu)),
        };
        let Some(policy) = self.executions.executes(tid, function, piece, here) else { return };
        let alone = [cpu];
        let (khz, done) = self.done(now, tables.policies.get(&policy).map_or(&alone, Vec::as_slice));
        if let Some((time, busy)) = self.executions.begins(function, piece, khz, &done) {
            self.window(now, policy, Between::Executions(function), time, busy);
        }
    }

    /// The driver is asked for a frequency, by a thread or in an interrupt; of all CPUs of a policy there is
    /// an event each.
    fn asks(&mut self, now: u64, of: u32, thread: Option<u32>) {
        let tables = self.tables;
        let Some(cpu) = self.cpu(of).map(|(number, _)| number) else { return };
        let alone = [cpu];
        let (policy, members) = tables.policy_of(cpu).unwrap_or((cpu, &alone));
        if members.first() != Some(&cpu) {
            return;
        }
        if let Some(thread) = thread {
            self.executions.changes(thread, policy);
        }
        let (khz, done) = self.done(now, members);
        if let Some((time, busy)) = self.frequency_requests.asks(policy, khz, &done) {
            self.window(now, policy, Between::Requests, time, busy);
        }
    }

    /// What CPUs have done until now, and the frequency that they had been told to run at.
    fn done(&self, now: u64, members: &[u16]) -> (Option<u32>, Vec<Now>) {
        let done = |member: &u16| {
            // Without switches nobody knows when another thread ran, or none.
            let (busy, unknown) = self.cpus.get(member).map_or((0, now), |of| of.until_now(now));
            Now { at: now, busy, unknown }
        };
        let khz = members.first().and_then(|first| self.cpus.get(first)?.khz());
        (khz, members.iter().map(done).collect())
    }

    fn window(&mut self, now: u64, cpu: u16, between: Between, time: Nanos, busy: Nanos) {
        self.give(now.saturating_sub(time.get()), now, Did::Window { cpu, between, busy });
    }

    /// intel_pstate goes by the share of the time, in ticks of the TSC, in which MPERF counted.
    fn decides(&mut self, now: u64, cpu: u16, mperf: u64, tsc: u64) {
        let khz = self.cpus.get(&cpu).and_then(Cpu::khz);
        if let Some((time, busy)) = self.decisions.decides(cpu, khz, now, mperf, tsc) {
            self.window(now, cpu, Between::Decisions, time, busy);
        }
    }

    fn give(&mut self, begin: u64, end: u64, what: Did) {
        (self.give)(&Interval { begin: Nanos::new(begin.min(end)), end: Nanos::new(end), what });
    }

    fn ran(&mut self, now: u64, cpu: u16, tid: u32, ns: u64, name: Option<Comm>) {
        let (thread, function) = self.tasks.ran(tid, ns, name);
        self.give(now.saturating_sub(ns), now, Did::Ran { cpu, thread, function });
    }

    fn did_not_run(&mut self, now: u64, before: Option<Before>) {
        let Some(Before { thread, since, wait }) = before else { return };
        let what = wait.map_or(Did::WasReady(thread), |wait| Did::Waited(thread, wait));
        self.give(since, now, what);
    }

    fn request(&mut self, now: u64, ended: Ended, op: Op, failed: bool) {
        let begin = ended.queued.or(ended.issued).map_or(now, Nanos::get);
        self.give(begin, now, Did::Request { ended, op, failed });
    }

    /// Changes a CPU, and gives what it did until now, as `did` calls that.
    fn of_cpu(
        &mut self,
        now: u64,
        number: u32,
        did: fn(u16, u32) -> Did,
        change: impl FnOnce(&mut Cpu) -> Option<(u32, u64)>,
    ) {
        let Some((number, cpu)) = self.cpu(number) else { return };
        if let Some((value, since)) = change(cpu) {
            self.give(since, now, did(number, value));
        }
    }

    /// A CPU that there can be.
    fn cpu(&mut self, number: u32) -> Option<(u16, &mut Cpu)> {
        let number = u16::try_from(number).ok().filter(|_| number < self.tables.head.cpus)?;
        let begin = self.begin;
        Some((number, self.cpus.entry(number).or_insert_with(|| Cpu::new(begin))))
    }

    /// CPUs that went and came until now. What one did since its last event is not known, until its first
    /// event once it is back: perf takes its events away with it and gives none back (kernel/events/core.c,
    /// `perf_event_exit_cpu`), so that they have to be opened anew.
    fn cpus_change_until(&mut self, now: u64) {
        let changes = &self.tables.cpu_changes;
        while let Some((_, number, _)) = changes.get(self.cpu_changes).filter(|(at, ..)| at.get() <= now) {
            self.cpu_changes += 1;
            self.lost(*number);
            let Some((number, cpu)) = self.cpu((*number).into()) else { continue };
            let until = cpu.accounted();
            if let Some((khz, since)) = cpu.ends_at(until) {
                self.give(since, until, AT(number, khz));
            }
        }
    }

    fn lost(&mut self, cpu: u16) {
        if let Some((_, cpu)) = self.cpu(cpu.into()) {
            cpu.lost();
        }
        self.tasks.lost(cpu);
        self.requests.lost();
        self.passages.lost();
        self.calls.lost();
        self.executions.lost();
    }

    /// The recording's end: what is under way ends here. Gives when that is.
    fn end(&mut self) -> u64 {
        let end = self.tables.end.map_or(self.last, Nanos::get).max(self.begin);
        self.cpus_change_until(end);
        let numbers: Vec<u16> = self.cpus.keys().copied().collect();
        for cpu in numbers {
            self.of_cpu(end, cpu.into(), AT, |cpu| cpu.ends_at(end));
            self.of_cpu(end, cpu.into(), IN_STATE, |cpu| cpu.idles(end, None));
            let last = self.cpus.get_mut(&cpu).and_then(|cpu| cpu.finish(end));
            if let Some((tid, ns)) = last {
                self.ran(end, cpu, tid, ns, None);
            }
        }
        let mut waiting = Vec::new();
        self.tasks.end_all(end, |before| waiting.push(before));
        for before in waiting {
            self.did_not_run(end, Some(before));
        }
        end
    }

    /// What follows from all of them; `symbols` names the functions of kworkers.
    fn finish(mut self, losses: &Losses, symbols: &BTreeMap<u64, String>) -> Facts {
        let tables = self.tables;
        let end = self.end();
        let Sums { mut roles, threads, functions } = self.tasks.finish();
        let mut work = BTreeMap::new();
        let mut samples_load = None;
        for (address, (ns, count)) in functions {
            let name = symbols.get(&address).map(|name| plain(name).to_owned());
            if name.as_deref() == Some(SAMPLES_LOAD) {
                samples_load = Some(address);
            }
            if let Some(name) = &name {
                move_work(&mut roles, work_role(name), ns);
            }
            let of = work.entry(name.unwrap_or_else(|| format!("{address:#x}"))).or_insert((0, Nanos::ZERO));
            *of = (of.0 + count, Nanos::new(of.1.get().saturating_add(ns)));
        }
        let plain_names = symbols.iter().map(|(address, name)| (*address, plain(name).to_owned())).collect();
        let calls = self.calls.finish(&plain_names, self.passages.is_followed());
        let named = |device| tables.device_name(device);
        let mut windows: Bounded = [
            (
                Boundary::Sample,
                samples_load.map_or_else(BTreeMap::new, |address| self.executions.of(address)),
            ),
            (Boundary::Decision, self.decisions.windows()),
            (Boundary::Request, self.frequency_requests.windows()),
        ]
        .into();
        windows.retain(|_, of_it| !of_it.is_empty());
        Facts {
            span: Nanos::new(end - self.begin),
            is_whole: tables.begin.is_some() && tables.end.is_some(),
            kinds: kinds(tables, losses),
            lost: losses.by_cpu(tables),
            announced: losses.announced.values().fold(0, |all, lost| all.saturating_add(*lost)),
            unread: losses.unread,
            absent: tables.absent.clone(),
            cpus: self.cpus.into_iter().map(|(number, cpu)| (number, cpu.spent)).collect(),
            roles,
            threads,
            work,
            devices: self.requests.done.into_iter().map(|((d, op), done)| ((named(d), op), done)).collect(),
            served: tables
                .served
                .iter()
                .map(|((d, op), served)| ((named(*d), *op), served.clone()))
                .collect(),
            calls,
            passages: self.passages.finish(),
            accesses: self.patterns.finish().map(|(disk, pattern)| (named(disk), pattern)).collect(),
            windows,
            policies: tables.policies.clone(),
            profile: None,
        }
    }
}

const AT: fn(u16, u32) -> Did = |cpu, khz| Did::RanAt { cpu, khz };
const IN_STATE: fn(u16, u32) -> Did = |cpu, state| Did::Idled { cpu, state };
const IN_IRQ: fn(u16, u32) -> Did = |cpu, irq| Did::Irq { cpu, irq };
const IN_SOFTIRQ: fn(u16, u32) -> Did = |cpu, vector| Did::Softirq { cpu, vector };

/// A kworker's time belongs to the role of what it executed.
fn move_work(roles: &mut BTreeMap<Role, Spent>, to: Role, ns: u64) {
    if to == Role::Kworker {
        return;
    }
    let Some(kworkers) = roles.get_mut(&Role::Kworker) else { return };
    let moved = ns.min(kworkers.cpu_ns);
    kworkers.cpu_ns -= moved;
    let spent = roles.entry(to).or_default();
    spent.cpu_ns = spent.cpu_ns.saturating_add(moved);
}

/// What fired and is not in the file was lost.
fn kinds(tables: &Tables, losses: &Losses) -> BTreeMap<String, Counted> {
    let mut kinds: BTreeMap<String, Counted> = BTreeMap::new();
    for (number, point) in &tables.tracepoints {
        kinds.entry(point.name.clone()).or_default();
        let recorded = losses.recorded.range((*number, 0)..=(*number, u16::MAX));
        let recorded = recorded.map(|(_, count)| *count).sum();
        let fired = tables.fired.iter().filter(|((_, of), _)| of == number).map(|(_, count)| *count);
        let fired = fired.fold(0_u64, u64::saturating_add);
        let lost = fired.saturating_sub(recorded);
        kinds.insert(point.name.clone(), Counted { recorded, lost });
    }
    kinds
}
