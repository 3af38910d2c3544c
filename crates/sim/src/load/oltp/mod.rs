//! A database under sysbench's OLTP tests, as a closed loop of clients and one server thread for each
//! connection (sysbench 1.0, `src/lua/oltp_common.lua`; MariaDB 10.11,
//! `thread_handling=one-thread-per-connection`).
//!
//! A client sends a statement, waits for its answer, and sends the next; after the last it pauses, and begins
//! the next transaction. Without a network, clients are threads of the same machine, and cost it what a
//! statement costs its client. With one they are elsewhere, whose CPUs are always quick enough: a message
//! takes its turn on the link of its direction, then the delay; at the server its interrupt is handled by the
//! CPU on which the connection's thread last ran, and wakes it from there: so a card steers that learns from
//! what is sent where (Intel's Flow Director, `drivers/net/ethernet/intel/ixgbe`, by default; "accelerated
//! RFS" in `Documentation/networking/scaling.rst`). With queues by a hash alone two CPUs have to wake up for
//! a message.
//!
//! A statement is cycles, and a stall that no frequency shortens, which stands for its misses to memory. Both
//! vary from statement to statement, evenly by half each way. What a statement is of a whole transaction is
//! assumed: see [`statements`].
//!
//! A transaction that wrote flushes the log when it commits: the first writes what all have put into it
//! since, and flushes; those that commit meanwhile wait, and go together with the next (`log_write_up_to`,
//! InnoDB's group commit).
//!
//! Left out: **latches and locks**, so that threads hinder each other by the CPU alone, and nothing fails;
//! the data itself, which is in memory, so that how rows are chosen has no effect; writing back of pages;
//! parsing at the first use of a statement.
//!
//! With bursts, transactions begin in them alone, and those that have begun run out. What counts as measured
//! time is that with a burst on or a transaction under way; so each transaction and all of its time counts,
//! and no gap does.

use crate::cpu::{Cost, ThreadId};
use crate::engine::{Bio, Core, Part, PartId};
use crate::load::jobs::Latencies;
use disks::Op;
use domain::rng::{Rng, Seed};
use domain::trace::Role;
use event_queue::{LineId, Time};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use workloads::sysbench::options::{Network, Test};

/// One statement of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// What the server's thread does for it, on the average.
    pub cost: Cost,
    /// What the client sends, and what it gets, in bytes.
    pub request: u64,
    /// Likewise.
    pub answer: u64,
    /// What it puts into the log.
    pub log: u64,
    /// Whether it ends what wrote: the log is flushed before it is answered.
    pub commits: bool,
}

/// A load.
#[derive(Clone, Debug, PartialEq)]
pub struct OltpSpec {
    /// How many.
    pub clients: u32,
    /// Those of one transaction, in order; at least one.
    pub statements: Vec<Statement>,
    /// By how much a statement's cost varies: 0.5 for half each way, 0 for not at all.
    pub spread: f64,
    /// What a statement costs its client, where that is a thread of this machine.
    pub client: Cost,
    /// What a message costs the server's CPU: its interrupt at arrival, its sending.
    pub packet: Cost,
    /// What a statement takes a client that is elsewhere, from an answer to the next message.
    pub client_ns: Time,
    /// Where clients are elsewhere.
    pub network: Option<Network>,
    /// A pause after each transaction.
    pub think: Time,
    /// No transaction begins at this time or later.
    pub until: Option<Time>,
    /// Nor after so many.
    pub events: Option<u64>,
    /// Transactions a second that come by themselves, at random (a Poisson process).
    pub rate: Option<u32>,
    /// Bursts: the period, and for how long of it.
    pub bursts: Option<(Time, Time)>,
    /// Where the log is: a device, and its size.
    pub log: Option<(PartId, u64)>,
}

/// What clients were given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Served {
    /// Transactions that are done.
    pub transactions: u64,
    /// Statements of theirs.
    pub queries: u64,
    /// Of whole transactions; where they come at a rate, from the moment at which they came.
    pub latencies: Latencies,
    /// Time that counts, in nanoseconds: all of it, or with bursts that with a burst on or a transaction
    /// under way.
    pub measured: Time,
    /// When the last client was done.
    pub ended: Time,
    /// Transactions times nanoseconds under way, from begin to end.
    pub under_way: u128,
    /// What the server's threads were asked to execute for statements.
    pub asked: Cost,
    /// Flushes of the log.
    pub flushes: u64,
    /// More waited than the queue holds.
    pub overrun: bool,
}

/// What a statement is of a transaction, in quarters of a read of one row: assumed. A range has a hundred
/// rows, found with one search and sent together. Four statements that write make a transaction dearer than
/// reading alone.
const ROW: u64 = 4;
const RANGE: u64 = 12;
const WRITE: u64 = 8;
const BOUNDARY: u64 = 1;
/// All of a transaction that reads, for which a machine file has the cost: two boundaries, ten rows, four
/// ranges.
const READ_ONLY: u64 = 2 * BOUNDARY + 10 * ROW + 4 * RANGE;

/// Bytes on the wire with their headers, about: a row's answer has its column of 120 characters, a range's a
/// hundred of them.
const REQUEST_BYTES: u64 = 150;
const ROW_BYTES: u64 = 300;
const RANGE_BYTES: u64 = 13_000;
const DONE_BYTES: u64 = 80;
/// What a statement that writes puts into the log: the order of a row's old and new image.
const LOG_BYTES: u64 = 700;

/// The statements of a test, as `oltp_common.lua` sends them, where a transaction that reads costs
/// `transaction`.
pub fn statements(test: Test, transaction: Cost) -> Vec<Statement> {
    let share = |quarters: u64, answer: u64, log: u64| Statement {
        cost: Cost {
            cycles: transaction.cycles * quarters / READ_ONLY,
            stall_ns: transaction.stall_ns * quarters / READ_ONLY,
        },
        request: REQUEST_BYTES,
        answer,
        log,
        commits: false,
    };
    let row = share(ROW, ROW_BYTES, 0);
    let boundary = share(BOUNDARY, DONE_BYTES, 0);
    if test == Test::PointSelect {
        return vec![row];
    }
    let mut all = vec![boundary];
    all.extend([row; 10]);
    // A sum is one number; the others are sent as they are.
    for answer in [RANGE_BYTES, DONE_BYTES, RANGE_BYTES, RANGE_BYTES] {
        all.push(share(RANGE, answer, 0));
    }
    if test == Test::ReadWrite {
        all.extend([share(WRITE, DONE_BYTES, LOG_BYTES); 4]);
    }
    all.push(Statement { commits: test == Test::ReadWrite, ..boundary });
    all
}

/// The most transactions that wait for a client where they come at a rate (sysbench's `MAX_QUEUE_LEN`).
const MAX_WAITING: usize = 100_000;
/// A block of the log, and the size at which it begins anew.
const LOG_BLOCK: u64 = 4096;
const LOG_SIZE: u64 = 96 << 20;
/// A thread that is woken has to come to a CPU first; what it does there is counted elsewhere.
const WOKEN: Cost = Cost::cycles(1);

struct Client {
    /// Of its connection.
    server: ThreadId,
    /// Its own, where it runs on this machine.
    own: Option<ThreadId>,
    statement: usize,
    /// The present transaction: since when.
    begun: Option<Time>,
    state: Waits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// For an answer, or for the server.
    Busy,
    /// Pauses.
    Thinks,
    /// For a burst, or for a transaction to come.
    Idle,
    Gone,
}

/// The log: who waits for it.
#[derive(Default)]
struct Log {
    /// Being written: those that wait for it.
    writing: Option<Vec<usize>>,
    /// For the next time.
    waiting: Vec<usize>,
    /// The first of those is being woken, to write.
    leads: bool,
    bytes: u64,
    at: u64,
}

/// One direction of the network. What is sent later arrives later.
struct Way {
    /// Until when it is taken.
    taken: Time,
    arrivals: LineId,
}

/// Clients, server and log. When the last client is done, the machine stops.
pub struct Oltp {
    me: PartId,
    spec: OltpSpec,
    clients: Vec<Client>,
    running: usize,
    /// A burst is on, or there are none.
    on: bool,
    /// The time is up.
    over: bool,
    begun: u64,
    under_way: u64,
    /// Since when the measured time runs.
    measuring: Option<Time>,
    /// Came by themselves, and wait for a client: since when.
    waiting: VecDeque<Time>,
    /// By direction.
    link: [Way; 2],
    log: Log,
    rng: Rng,
    served: Rc<RefCell<Served>>,
}

const KINDS: u64 = 8;
const BEGIN: u64 = 0;
const ARRIVED: u64 = 1;
const RECEIVED: u64 = 2;
const WORKED: u64 = 3;
const ANSWERED: u64 = 4;
const LOGGED: u64 = 5;
const LEADS: u64 = 6;
/// Of no client: the token's upper part says which.
const CLOCK: u64 = 7;
const BURST_ON: u64 = 0;
const BURST_OFF: u64 = 1;
const END: u64 = 2;
const COMES: u64 = 3;

const TO_SERVER: usize = 0;
const TO_CLIENT: usize = 1;

impl Oltp {
    /// A load as the part `me`, with its threads. Before the machine runs.
    ///
    /// # Panics
    /// Where a transaction has no statement, or a commit no log to go to: whoever reads a load has checked
    /// that.
    pub fn new(core: &mut Core, me: PartId, spec: OltpSpec, seed: Seed) -> Self {
        assert!(!spec.statements.is_empty(), "a transaction of nothing");
        let commits = spec.statements.iter().any(|statement| statement.commits);
        assert!(!commits || spec.log.is_some(), "a commit without a log");
        let cpus = core.cpus.count();
        let clients: Vec<Client> = (0..spec.clients)
            .map(|number| Client {
                server: {
                    let server = core.cpus.thread(&format!("server/{number}"), Role::Workload, 0);
                    // A thread is made while the others sleep, and gets the CPU that has done least.
                    core.cpus.leave_on(server, number as usize % cpus);
                    server
                },
                own: spec
                    .network
                    .is_none()
                    .then(|| core.cpus.thread(&format!("client/{number}"), Role::Workload, 0)),
                statement: 0,
                begun: None,
                state: Waits::Thinks,
            })
            .collect();
        for number in 0..u64::from(spec.clients) {
            core.at(core.now, me, number * KINDS + BEGIN);
        }
        let clock = |core: &mut Core, at, which| core.at(at, me, which * KINDS + CLOCK);
        if let Some((_, on)) = spec.bursts {
            clock(core, core.now + on, BURST_OFF);
        }
        if let Some(until) = spec.until {
            clock(core, core.now + until, END);
        }
        let mut load = Self {
            me,
            running: clients.len(),
            clients,
            on: true,
            over: false,
            begun: 0,
            under_way: 0,
            measuring: Some(core.now),
            waiting: VecDeque::new(),
            link: [Way { taken: 0, arrivals: core.line() }, Way { taken: 0, arrivals: core.line() }],
            log: Log::default(),
            rng: seed.stream("oltp"),
            served: Rc::default(),
            spec,
        };
        load.plan_next(core);
        load
    }

    /// Where what was given is counted.
    pub fn served(&self) -> Rc<RefCell<Served>> {
        Rc::clone(&self.served)
    }

    fn clock(&self, core: &mut Core, at: Time, which: u64) {
        core.at(at, self.me, which * KINDS + CLOCK);
    }

    fn token(client: usize, kind: u64) -> u64 {
        client as u64 * KINDS + kind
    }

    /// A client that is free begins a transaction, waits until it may, or goes.
    fn begin(&mut self, core: &mut Core, client: usize) {
        if !self.over && self.spec.events.is_some_and(|most| self.begun >= most) {
            self.end(core);
        }
        if self.over {
            self.go(core, client);
            return;
        }
        let since = match self.spec.rate {
            None => self.on.then_some(core.now),
            Some(_) => self.waiting.pop_front(),
        };
        let Some(since) = since else {
            self.clients[client].state = Waits::Idle;
            return;
        };
        self.begun += 1;
        self.under_way += 1;
        if self.measuring.is_none() {
            self.measuring = Some(core.now);
        }
        let entry = &mut self.clients[client];
        (entry.begun, entry.statement, entry.state) = (Some(since), 0, Waits::Busy);
        self.ask(core, client);
    }

    /// No transaction begins any more.
    fn end(&mut self, core: &mut Core) {
        self.over = true;
        self.on = false;
        self.waiting.clear();
        self.rest(core.now);
        self.wake(core);
    }

    /// A client is done for good.
    fn go(&mut self, core: &mut Core, client: usize) {
        if std::mem::replace(&mut self.clients[client].state, Waits::Gone) == Waits::Gone {
            return;
        }
        self.running -= 1;
        if self.running == 0 {
            self.on = false;
            self.rest(core.now);
            self.served.borrow_mut().ended = core.now;
            core.stop();
        }
    }

    /// Free clients look again whether they may begin.
    fn wake(&mut self, core: &mut Core) {
        for client in 0..self.clients.len() {
            if self.clients[client].state == Waits::Idle {
                self.begin(core, client);
            }
        }
    }

    /// The measured time ends where there is no burst and nothing under way.
    fn rest(&mut self, now: Time) {
        if !self.on
            && self.under_way == 0
            && let Some(since) = self.measuring.take()
        {
            self.served.borrow_mut().measured += now - since;
        }
    }

    /// The client sends its next statement.
    fn ask(&mut self, core: &mut Core, client: usize) {
        match self.spec.network {
            None => self.serve(core, client),
            Some(network) => {
                let bytes = self.spec.statements[self.clients[client].statement].request;
                let ready = core.now + self.spec.client_ns;
                self.transmit(core, network, TO_SERVER, ready, bytes, Self::token(client, ARRIVED));
            }
        }
    }

    /// Sends a message that is ready then; the timer `token` is its arrival at the other end.
    fn transmit(
        &mut self,
        core: &mut Core,
        network: Network,
        way: usize,
        ready: Time,
        bytes: u64,
        token: u64,
    ) {
        let takes = network
            .bandwidth
            .map_or(0, |rate| (u128::from(bytes) * 1_000_000_000 / u128::from(rate.get().max(1))) as Time);
        let way = &mut self.link[way];
        way.taken = way.taken.max(ready) + takes;
        core.at_in(way.arrivals, way.taken + network.delay.get(), self.me, token);
    }

    /// The server's thread of the connection executes the statement.
    fn serve(&mut self, core: &mut Core, client: usize) {
        let entry = &self.clients[client];
        let cost = self.spec.statements[entry.statement].cost;
        let factor = 1.0 + self.spec.spread * (2.0 * self.rng.unit() - 1.0);
        let varied = |whole: u64| (whole as f64 * factor).round() as u64;
        let cost = Cost { cycles: varied(cost.cycles), stall_ns: varied(cost.stall_ns) };
        let mut served = self.served.borrow_mut();
        served.asked = served.asked.and(cost);
        // The answer is sent by the same thread.
        let sending = if self.spec.network.is_some() { self.spec.packet } else { Cost::NONE };
        core.run(entry.server, cost.and(sending), self.me, Self::token(client, WORKED));
    }

    /// The server is through with a statement: it answers, or sees to the log before.
    fn served_one(&mut self, core: &mut Core, client: usize) {
        let statement = self.spec.statements[self.clients[client].statement];
        self.log.bytes += statement.log;
        if statement.commits {
            self.log.waiting.push(client);
            self.write_log(core);
        } else {
            self.answer(core, client);
        }
    }

    /// Writes what is in the log, where nobody does and somebody waits.
    fn write_log(&mut self, core: &mut Core) {
        let Some((device, size)) = self.spec.log else { return };
        if self.log.leads || self.log.writing.is_some() || self.log.waiting.is_empty() {
            return;
        }
        let group = std::mem::take(&mut self.log.waiting);
        let room = size.min(LOG_SIZE) / LOG_BLOCK * LOG_BLOCK;
        let len = std::mem::take(&mut self.log.bytes).div_ceil(LOG_BLOCK).max(1) * LOG_BLOCK;
        let len = len.min(room);
        if self.log.at + len > room {
            self.log.at = 0;
        }
        let offset = self.log.at;
        self.log.at += len;
        // The first of them writes; the others wait for it, and not for a disk.
        core.cpus.waits_for_disk(self.clients[group[0]].server, true);
        self.log.writing = Some(group);
        core.submit(Bio { direct: true, ..Bio::new(self.me, device, Op::Write, offset, len, 0) });
    }

    /// The log is on the medium: those who waited answer, and the next group goes.
    fn logged(&mut self, core: &mut Core) {
        self.served.borrow_mut().flushes += 1;
        let group = self.log.writing.take().expect("a log that was flushed was written");
        for client in group {
            core.run(self.clients[client].server, WOKEN, self.me, Self::token(client, LOGGED));
        }
        if let Some(first) = self.log.waiting.first() {
            self.log.leads = true;
            core.run(self.clients[*first].server, WOKEN, self.me, Self::token(*first, LEADS));
        }
    }

    fn answer(&mut self, core: &mut Core, client: usize) {
        let token = Self::token(client, ANSWERED);
        match (self.spec.network, self.clients[client].own) {
            (Some(network), _) => {
                let bytes = self.spec.statements[self.clients[client].statement].answer;
                self.transmit(core, network, TO_CLIENT, core.now, bytes, token);
            }
            (None, Some(own)) => core.run(own, self.spec.client, self.me, token),
            (None, None) => unreachable!("a client without a network is a thread"),
        }
    }

    /// The client has its answer.
    fn answered(&mut self, core: &mut Core, client: usize) {
        let entry = &mut self.clients[client];
        entry.statement += 1;
        if entry.statement < self.spec.statements.len() {
            self.ask(core, client);
            return;
        }
        let since = entry.begun.take().expect("an answer belongs to a transaction");
        entry.state = Waits::Thinks;
        self.under_way -= 1;
        {
            let mut served = self.served.borrow_mut();
            served.transactions += 1;
            served.queries += self.spec.statements.len() as u64;
            served.latencies.add(core.now - since);
            served.under_way += u128::from(core.now - since);
        }
        self.rest(core.now);
        match self.spec.think {
            0 => self.begin(core, client),
            pause => core.at(core.now + pause, self.me, Self::token(client, BEGIN)),
        }
    }

    /// When the next transaction comes, where they come by themselves.
    fn plan_next(&mut self, core: &mut Core) {
        let Some(rate) = self.spec.rate.filter(|_| !self.over && self.on) else { return };
        let pause = -(1.0 - self.rng.unit()).ln() / f64::from(rate);
        let at = core.now + (pause * 1e9).round() as Time;
        self.clock(core, at, COMES);
    }

    fn tick(&mut self, core: &mut Core, which: u64) {
        match which {
            BURST_ON if !self.over => {
                self.on = true;
                if self.measuring.is_none() {
                    self.measuring = Some(core.now);
                }
                let (_, on) = self.spec.bursts.expect("bursts begin where there are any");
                self.clock(core, core.now + on, BURST_OFF);
                self.plan_next(core);
                self.wake(core);
            }
            BURST_OFF if !self.over => {
                self.on = false;
                self.rest(core.now);
                let (period, on) = self.spec.bursts.expect("bursts end where there are any");
                self.clock(core, core.now + period - on, BURST_ON);
            }
            END => self.end(core),
            COMES if !self.over && self.on => {
                self.waiting.push_back(core.now);
                if self.waiting.len() > MAX_WAITING {
                    self.served.borrow_mut().overrun = true;
                    core.stop();
                    return;
                }
                self.plan_next(core);
                let free = self.clients.iter().position(|client| client.state == Waits::Idle);
                if let Some(client) = free {
                    self.begin(core, client);
                }
            }
            BURST_ON | BURST_OFF | COMES => {}
            other => unreachable!("no clock {other}"),
        }
    }
}

impl Part for Oltp {
    fn worked(&mut self, core: &mut Core, token: u64) {
        let client = (token / KINDS) as usize;
        match token % KINDS {
            RECEIVED => self.serve(core, client),
            WORKED => self.served_one(core, client),
            LOGGED => self.answer(core, client),
            LEADS => {
                self.log.leads = false;
                self.write_log(core);
            }
            ANSWERED => self.answered(core, client),
            other => unreachable!("a database has no work {other}"),
        }
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        let client = (token / KINDS) as usize;
        match token % KINDS {
            BEGIN => self.begin(core, client),
            ARRIVED => {
                let cpu = core.cpus.cpu_of(self.clients[client].server);
                core.interrupt(cpu, self.spec.packet, self.me, Self::token(client, RECEIVED));
            }
            ANSWERED => self.answered(core, client),
            CLOCK => self.tick(core, token / KINDS),
            other => unreachable!("a database has no timer {other}"),
        }
    }

    fn done(&mut self, core: &mut Core, bio: &Bio) {
        match bio.op {
            Op::Write => {
                let flush = Bio::new(self.me, bio.to, Op::Flush, 0, 0, 0);
                core.submit(Bio { direct: true, data_only: true, ..flush });
            }
            _ => self.logged(core),
        }
    }

    fn counters(&self, out: &mut dyn FnMut(&str, u64)) {
        out("oltp.under_way", self.under_way);
    }
}

#[cfg(test)]
mod tests;
