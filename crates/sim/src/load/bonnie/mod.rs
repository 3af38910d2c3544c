//! Bonnie: one process that writes, rewrites and reads its files from end to end, phase by phase, then
//! several that seek in them.
//!
//! Each phase is timed as the programs do: from its files' opening to their closing, which for bonnie++
//! flushes them. Removing the old files before new ones are written is not timed. The CPU time of a phase is
//! that of bonnie's own threads, as `getrusage(2)` gives it: what they execute themselves, system calls and
//! read-ahead that they begin included; not that of the flusher, the journal, the array's thread, nor of
//! interrupts.
//!
//! Left out: opening and closing by name, the files' bounds but for where new files begin and how far seeks
//! go, the pipe with the seekers' tickets, bonnie++'s test of many small files.

mod requests;

use crate::cpu::{Cost, ThreadId};
use crate::engine::{Bio, Core, Part, PartId};
use disks::Op;
use domain::rng::Seed;
use domain::trace::Role;
use domain::units::Bytes;
use event_queue::Time;
pub(crate) use requests::BUFFER;
use requests::{Request, Requests, Tickets, amount, makes_files, requests};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use workloads::bonnie::options::{Bonnie, Flavour, Phase};

/// What a run asks and costs.
#[derive(Clone, Debug)]
pub struct BonnieSpec {
    /// The load.
    pub load: Bonnie,
    /// All files together.
    pub total: Bytes,
    /// A system call that reads or writes, on its way down.
    pub call: Cost,
    /// The way back.
    pub back: Cost,
    /// What the program does to write a page's characters one by one, and to read them.
    pub chars_written: Cost,
    /// Likewise.
    pub chars_read: Cost,
}

/// A phase that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which.
    pub phase: Phase,
    /// Bytes, or seeks.
    pub amount: u64,
    /// How long it took, in nanoseconds.
    pub elapsed: Time,
    /// CPU time of bonnie's threads in it, in nanoseconds.
    pub cpu: Time,
}

/// Seekers are given so long to start before their time counts.
const START_NS: Time = 3_000_000_000;

/// What a process does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Move(Request),
    /// The files are closed.
    Flush,
    /// The old files are removed.
    Remove,
}

/// A process.
struct Process {
    thread: ThreadId,
    act: Option<Act>,
    /// What is to be written back of what it just read.
    writes_back: Option<Request>,
    /// Seeks that it has had.
    had: u32,
    /// It has closed its files.
    closed: bool,
    /// What it has to do of the last answer.
    owes: Cost,
}

/// The part.
pub struct BonnieLoad {
    me: PartId,
    target: PartId,
    spec: BonnieSpec,
    seed: Seed,
    phases: VecDeque<Phase>,
    /// The present one.
    phase: Phase,
    requests: Option<Requests>,
    tickets: Option<Tickets>,
    /// The first does all but seek.
    processes: Vec<Process>,
    /// How many processes are at work.
    working: usize,
    begun: Time,
    cpu_before: Time,
    done: Rc<RefCell<Vec<Done>>>,
}

/// Kinds of work: of the process above it.
const KINDS: u64 = 4;
const ASK: u64 = 0;
const ENDED: u64 = 1;
/// Timers.
const BEGIN: u64 = 2;
const SEEK: u64 = 3;

impl BonnieLoad {
    /// A load as the part `me` on a file that takes [`BonnieSpec::total`], with its threads. Before the
    /// machine runs.
    pub fn new(core: &mut Core, me: PartId, target: PartId, spec: BonnieSpec, seed: Seed) -> Self {
        let mut phases: VecDeque<Phase> = spec.load.phases().into();
        let process = |number: u32| Process {
            thread: core.cpus.thread(&format!("bonnie/{number}"), Role::Workload, 0),
            act: None,
            writes_back: None,
            had: 0,
            closed: false,
            owes: Cost::NONE,
        };
        let processes = (0..=spec.load.seekers).map(process).collect();
        core.at(core.now, me, BEGIN);
        Self {
            me,
            target,
            phase: phases.pop_front().expect("bonnie does something in any case"),
            phases,
            seed,
            requests: None,
            tickets: None,
            processes,
            working: 0,
            begun: 0,
            cpu_before: 0,
            done: Rc::default(),
            spec,
        }
    }

    /// Where phases that are over are told.
    pub fn told(&self) -> Rc<RefCell<Vec<Done>>> {
        Rc::clone(&self.done)
    }

    /// The CPU time of bonnie's threads until now; none of them may be at work.
    fn cpu(&self, core: &Core) -> Time {
        let own = |at: usize| self.processes.iter().any(|process| process.thread.0 as usize == at);
        core.cpus.thread_times().enumerate().filter(|(at, _)| own(*at)).map(|(_, (_, _, ns))| ns).sum()
    }

    /// A phase begins: the old files go first, or the seekers are waited for.
    fn begin(&mut self, core: &mut Core) {
        match self.phase {
            Phase::Seeks => core.at(core.now + START_NS, self.me, SEEK),
            phase if makes_files(phase) && !self.done.borrow().is_empty() => {
                self.processes[0].act = Some(Act::Remove);
                self.ask(core, 0);
            }
            _ => self.time(core),
        }
    }

    /// From now on it counts.
    fn time(&mut self, core: &mut Core) {
        (self.begun, self.cpu_before) = (core.now, self.cpu(core));
        if self.phase != Phase::Seeks {
            self.requests = Some(requests(&self.spec.load, self.phase, self.spec.total));
            self.working = 1;
            return self.go_on(core, 0);
        }
        self.tickets = Some(Tickets::new(&self.spec.load, self.spec.total, self.seed));
        self.working = self.processes.len() - 1;
        for process in 1..self.processes.len() {
            self.go_on(core, process);
        }
    }

    /// What a process does after an answer, or first of all.
    fn go_on(&mut self, core: &mut Core, index: usize) {
        let act = self.next_act(index);
        let process = &mut self.processes[index];
        process.act = act;
        let cost = std::mem::replace(&mut process.owes, Cost::NONE);
        let (cost, kind) = match act {
            Some(act) => (cost.and(self.spec.before(&act)), ASK),
            None => (cost, ENDED),
        };
        core.run(process.thread, cost, self.me, index as u64 * KINDS + kind);
    }

    fn next_act(&mut self, index: usize) -> Option<Act> {
        let process = &mut self.processes[index];
        if let Some(request) = process.writes_back.take() {
            return Some(Act::Move(request));
        }
        if let Some(tickets) = &mut self.tickets {
            if let Some((request, updates)) = tickets.next(process.had) {
                process.had += 1;
                process.writes_back = updates.then_some(Request { write: true, ..request });
                return Some(Act::Move(request));
            }
        } else if let Some(request) = self.requests.as_mut().and_then(Iterator::next) {
            return Some(Act::Move(request));
        }
        let flushes = self.spec.load.flavour == Flavour::BonniePlusPlus;
        let closes = !std::mem::replace(&mut process.closed, true);
        (flushes && closes).then_some(Act::Flush)
    }

    /// Sends what a process does.
    fn ask(&mut self, core: &mut Core, index: usize) {
        let process = &self.processes[index];
        let act = process.act.expect("a process that asks has something to ask");
        let (op, offset, len) = match act {
            Act::Move(request) => {
                (if request.write { Op::Write } else { Op::Read }, request.offset, request.len)
            }
            Act::Flush => (Op::Flush, 0, 0),
            Act::Remove => (Op::Discard, 0, self.spec.total.get()),
        };
        core.cpus.waits_for_disk(process.thread, true);
        core.submit(Bio::new(self.me, self.target, op, offset, len, index as u64));
    }

    /// A process is through with the phase.
    fn ended(&mut self, core: &mut Core, index: usize) {
        self.processes[index].closed = false;
        self.working -= 1;
        if self.working > 0 {
            return;
        }
        let done = Done {
            phase: self.phase,
            amount: amount(&self.spec.load, self.phase, self.spec.total),
            elapsed: core.now - self.begun,
            cpu: self.cpu(core) - self.cpu_before,
        };
        self.done.borrow_mut().push(done);
        match self.phases.pop_front() {
            Some(next) => {
                self.phase = next;
                self.begin(core);
            }
            None => core.stop(),
        }
    }
}

impl BonnieSpec {
    /// What a process does before it asks.
    fn before(&self, act: &Act) -> Cost {
        match act {
            Act::Move(request) if request.write => self.call.and(share(self.chars_written, request.chars)),
            _ => self.call,
        }
    }

    /// And once it has its answer.
    fn after(&self, act: &Act) -> Cost {
        match act {
            Act::Move(request) if !request.write => self.back.and(share(self.chars_read, request.chars)),
            _ => self.back,
        }
    }
}

/// What so many characters cost, of what a page of them does.
fn share(page: Cost, chars: u64) -> Cost {
    Cost { cycles: page.cycles * chars / BUFFER, stall_ns: page.stall_ns * chars / BUFFER }
}

impl Part for BonnieLoad {
    fn done(&mut self, core: &mut Core, bio: &Bio) {
        let index = bio.tag as usize;
        let act = self.processes[index].act.take().expect("an answer is to what was asked");
        if act == Act::Remove {
            return self.time(core);
        }
        self.processes[index].owes = self.spec.after(&act);
        self.go_on(core, index);
    }

    fn worked(&mut self, core: &mut Core, token: u64) {
        let index = (token / KINDS) as usize;
        match token % KINDS {
            ASK => self.ask(core, index),
            ENDED => self.ended(core, index),
            other => unreachable!("bonnie has no work {other}"),
        }
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        match token {
            BEGIN => self.begin(core),
            SEEK => self.time(core),
            other => unreachable!("bonnie has no timer {other}"),
        }
    }
}

#[cfg(test)]
mod tests;
