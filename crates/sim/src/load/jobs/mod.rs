//! Loads: jobs that ask, wait, and count what they were given, as fio does.
//!
//! A job is a thread. With a synchronous engine it asks for one thing, sleeps until that is done, and asks
//! for the next. With an asynchronous one it asks until so many are in flight, then sleeps until at least one
//! is done, takes all that are, and asks again (`io_submit(2)`, `io_getevents(2)`). A flush is a call in
//! which the job sleeps (`fsync(2)`), whatever else it has in flight, or is in flight itself. Latencies are
//! taken as fio takes them: from the end of the submission to the moment at which the job sees the
//! completion (clat).

mod latency;
mod request;

pub use latency::Latencies;
pub use request::{IoRequest, Manner, RequestSource};

use crate::cpu::{Cost, ThreadId};
use crate::engine::{Bio, BioId, Core, Part, PartId};
use disks::Op;
use event_queue::Time;

/// How a job asks.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// As its thread is called.
    pub name: String,
    /// Most in flight; 1 for a synchronous engine.
    pub depth: u32,
    /// Whether the job sleeps in the kernel's own wait for a disk (`io_schedule`): synchronous engines.
    pub sleeps_on_disk: bool,
    /// Whether a flush is in flight as other requests are: `io_uring`. Otherwise the job sleeps in its call
    /// until it is done, and neither asks nor sees completions meanwhile (fio 3.33, `engines/libaio.c`).
    pub flushes_in_flight: bool,
    /// Asks not before this time.
    pub start: Time,
    /// What is done before this time is not counted (`ramp_time`, from the start).
    pub counted_from: Time,
    /// Asks no more after this time (`runtime`); none: until there is nothing more to ask.
    pub until: Option<Time>,
    /// At most so many requests a second.
    pub rate_iops: Option<u64>,
    /// At most so many bytes a second.
    pub rate_bytes: Option<u64>,
    /// So long a pause after each so many requests, when none is in flight any more (fio's `backend.c`,
    /// `handle_thinktime`).
    pub think: Option<(Time, u32)>,
    /// What its process executes before all times of the job count: it is made, and sets itself up.
    pub begin: Cost,
    /// What it executes after its last completion, before it is gone.
    pub end: Cost,
    /// Submission of one request, by the job's thread.
    pub submit: Cost,
    /// What a completion costs the job's thread.
    pub complete: Cost,
    /// What a pause costs it, when it is over.
    pub pause: Cost,
    /// What each page of a request past the page cache costs besides at its submission: to hold it.
    pub page: Cost,
    /// And at its completion: to let it go.
    pub page_end: Cost,
    /// What each byte costs besides, where the program touches it: cycles in units of 1/1024.
    pub byte_cycles_1024: u64,
}

/// What jobs were given.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Completed reads and their bytes.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Completed writes.
    pub writes: u64,
    /// Bytes of them.
    pub write_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Of reads and writes.
    pub latencies: Latencies,
    /// Of flushes.
    pub sync_latencies: Latencies,
    /// From the first moment that counts.
    pub begun: Time,
    /// To the last completion.
    pub ended: Time,
}

/// A completed request.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// When it was submitted.
    since: Time,
    op: Op,
    len: u64,
    /// Past the page cache.
    direct: bool,
}

struct Job {
    spec: JobSpec,
    /// When it was added: the times of its requests count from then.
    begun: Time,
    source: Box<dyn RequestSource>,
    thread: ThreadId,
    in_flight: u32,
    /// Completed and not yet seen.
    seen: Vec<Seen>,
    waits: Waits,
    next: Option<IoRequest>,
    /// Requests completed, from the beginning and again from when it counts.
    completed: u64,
    /// How many of them the last pause came after. It is not begun again where the job counts, so that there
    /// are no pauses then until as many are completed as before (`last_thinktime_blocks`; fio 3.33).
    paused_after: u64,
    /// It pauses as soon as nothing is in flight.
    is_to_pause: bool,
    /// It pauses, or has not paid for its pause yet.
    paused: bool,
    /// The earliest time of anything after a pause.
    paused_until: Time,
    /// The earliest time of the next read or write under a rate. Flushes have none (fio's `get_rw_ddir`).
    due: Time,
    /// How far its process is.
    startup: Startup,
    /// The source has been told that it counts.
    counts: bool,
    over: bool,
}

/// How far a job's process is. One whose start costs nothing is `Over` from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Startup {
    /// It is still to be made.
    ToCome,
    /// It sets itself up.
    UnderWay,
    /// It waits until the main thread lets it begin.
    Done,
    /// It has begun.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Has work, or is just asking.
    No,
    ForDisk,
    /// In the call of a flush.
    ForFlush,
    /// A flush that was submitted then is done, and its call returns.
    ToReturn(Time),
    ForTime,
}

/// Jobs that run at the same time; when all have ended, the machine stops, unless they run beside others.
pub struct Jobs {
    me: PartId,
    target: PartId,
    jobs: Vec<Job>,
    running: usize,
    watchers: Vec<Watcher>,
    stops_the_machine: bool,
    given: std::rc::Rc<std::cell::RefCell<Given>>,
}

const KINDS: u64 = 7;
const SUBMITTED: u64 = 0;
const REAPED: u64 = 1;
const STARTED: u64 = 2;
const WATCHED: u64 = 3;
const RETURNED: u64 = 4;
const SET_UP: u64 = 5;
const ENDED: u64 = 6;

/// A thread that looks at the jobs again and again.
#[derive(Clone, Copy, Debug)]
pub struct Watcher {
    /// The thread.
    pub thread: ThreadId,
    /// How long it sleeps between two looks.
    pub every: Time,
    /// The same while a job is still to begin.
    pub every_before: Time,
    /// What a look costs it.
    pub cost: Cost,
    /// Whether it is fio's main thread. It makes the jobs, waits until they have set themselves up, and lets
    /// them begin (`run_threads`). Each look frees something through RCU, for it looks for a file by which it
    /// may be asked for its state (`check_for_running_stats`), and the name of a file that a tmpfs does not
    /// have is freed at once (`always_delete_dentry`, fs/libfs.c).
    pub is_main: bool,
}

impl Jobs {
    /// Jobs as the part `me` that ask `target`; what they were given can be read while they run.
    pub fn new(me: PartId, target: PartId) -> Self {
        Self {
            me,
            target,
            jobs: Vec::new(),
            running: 0,
            watchers: Vec::new(),
            stops_the_machine: true,
            given: std::rc::Rc::default(),
        }
    }

    /// The same beside a workload, which says when the machine stops.
    pub fn beside(me: PartId, target: PartId) -> Self {
        Self { stops_the_machine: false, ..Self::new(me, target) }
    }

    /// Has a thread look at the jobs while they run, as fio's main thread does and its helper.
    pub fn watched_by(&mut self, core: &mut Core, watcher: Watcher) {
        core.at(core.now + watcher.every, self.me, self.watchers.len() as u64 * KINDS + WATCHED);
        self.watchers.push(watcher);
    }

    /// A watcher has looked, and sleeps. fio's main thread lets jobs begin that have set themselves up.
    fn watch_again(&mut self, core: &mut Core, index: usize) {
        let watcher = self.watchers[index];
        if watcher.is_main {
            core.call_rcu();
            for job in 0..self.jobs.len() {
                if self.jobs[job].startup == Startup::Done {
                    self.begin(core, job);
                }
            }
        }
        let is_before = self.jobs.iter().any(|job| job.startup != Startup::Over);
        let every = if is_before { watcher.every_before } else { watcher.every };
        core.at(core.now + every, self.me, index as u64 * KINDS + WATCHED);
    }

    /// Where what was given is counted.
    pub fn given(&self) -> std::rc::Rc<std::cell::RefCell<Given>> {
        std::rc::Rc::clone(&self.given)
    }

    /// Adds a job with its thread. Times of the job begin now.
    pub fn add(
        &mut self,
        core: &mut Core,
        thread: ThreadId,
        mut spec: JobSpec,
        source: Box<dyn RequestSource>,
    ) {
        let index = self.jobs.len() as u64;
        let begun = core.now;
        spec.start += begun;
        spec.counted_from += begun;
        spec.until = spec.until.map(|until| until + begun);
        core.at(spec.start, self.me, index * KINDS + STARTED);
        self.given.borrow_mut().begun = spec.counted_from;
        let due = spec.start;
        let startup = if spec.begin.is_nothing() { Startup::Over } else { Startup::ToCome };
        self.jobs.push(Job {
            spec,
            begun,
            source,
            thread,
            in_flight: 0,
            seen: Vec::new(),
            waits: Waits::ForTime,
            next: None,
            completed: 0,
            paused_after: 0,
            is_to_pause: false,
            paused: false,
            paused_until: due,
            due,
            startup,
            counts: false,
            over: false,
        });
        self.running += 1;
    }

    /// The job's process is there and set up. It waits for the main thread, where there is one.
    fn set_up(&mut self, core: &mut Core, index: usize) {
        self.jobs[index].startup = Startup::Done;
        if !self.watchers.iter().any(|watcher| watcher.is_main) {
            self.begin(core, index);
        }
    }

    /// The job's times begin now.
    fn begin(&mut self, core: &mut Core, index: usize) {
        let job = &mut self.jobs[index];
        job.startup = Startup::Over;
        let late = core.now - job.spec.start;
        job.begun += late;
        job.spec.counted_from += late;
        job.spec.until = job.spec.until.map(|until| until + late);
        self.given.borrow_mut().begun = job.spec.counted_from;
        self.step(core, index);
    }

    /// The job's next step: to ask, to wait, or to end.
    fn step(&mut self, core: &mut Core, index: usize) {
        let me = self.me;
        let job = &mut self.jobs[index];
        let token = |kind| index as u64 * KINDS + kind;
        if !job.over && job.spec.until.is_some_and(|until| core.now >= until) {
            job.over = true;
            job.next = None;
        }
        if !job.counts && core.now >= job.spec.counted_from {
            job.counts = true;
            job.completed = 0;
            job.source.counts();
        }
        if job.next.is_none() && !job.over {
            job.next = job.source.next();
            job.over = job.next.is_none();
        }
        if job.over && job.in_flight == 0 && job.next.is_none() {
            job.next = job.source.finish();
        }
        if job.is_to_pause && job.in_flight == 0 {
            job.pause(core.now);
        }
        let blocked = job.in_flight >= job.spec.depth || job.is_to_pause;
        let due = job.next.map_or(job.due, |next| job.earliest(&next));
        // What is done is looked at when nothing can be asked (fio's `do_io`: `queue_full`,
        // `wait_for_completions`).
        if !job.seen.is_empty() && (job.next.is_none() || blocked || core.now < due) {
            job.waits = Waits::No;
            let cost = job.complete_cost();
            core.run(job.thread, cost, me, token(REAPED));
            return;
        }
        if job.next.is_none() || blocked {
            if job.in_flight == 0 {
                self.end(core, index);
                return;
            }
            job.waits = Waits::ForDisk;
            core.cpus.waits_for_disk(job.thread, job.spec.sleeps_on_disk);
            return;
        }
        if core.now < due {
            job.waits = Waits::ForTime;
            core.cpus.waits_for_disk(job.thread, false);
            core.at(due, me, token(STARTED));
            return;
        }
        job.waits = Waits::No;
        let pause = if std::mem::take(&mut job.paused) { job.spec.pause } else { Cost::NONE };
        core.run(job.thread, pause.and(job.submit_cost()), me, token(SUBMITTED));
    }

    fn ask(&mut self, core: &mut Core, index: usize) {
        let (me, target) = (self.me, self.target);
        let job = &mut self.jobs[index];
        let ask = job.next.take().expect("a job that submits has something to ask");
        job.in_flight += 1;
        job.set_due(core.now, &ask);
        let bio = Bio::new(me, target, ask.op, ask.offset, ask.len, index as u64);
        let (direct, plugged) = (ask.direct, !ask.direct);
        let is_call = ask.op == Op::Flush && !job.spec.flushes_in_flight;
        if is_call {
            job.waits = Waits::ForFlush;
            core.cpus.waits_for_disk(job.thread, true);
        }
        core.submit(Bio { direct, plugged, fua: ask.fua, data_only: ask.data_only, ..bio });
        if !is_call {
            self.step(core, index);
        }
    }

    /// The call of a flush returns.
    fn returned(&mut self, core: &mut Core, index: usize) {
        let job = &mut self.jobs[index];
        let Waits::ToReturn(since) = job.waits else { unreachable!("no flush is done") };
        job.in_flight -= 1;
        if core.now >= job.spec.counted_from {
            self.given.borrow_mut().count(core.now, since, Op::Flush, 0);
        }
        self.step(core, index);
    }

    /// The job sees what is done.
    fn reap(&mut self, core: &mut Core, index: usize) {
        let job = &mut self.jobs[index];
        let mut given = self.given.borrow_mut();
        job.count_to_pause();
        for Seen { since, op, len, .. } in job.seen.drain(..) {
            job.in_flight -= 1;
            if core.now < job.spec.counted_from {
                continue;
            }
            given.count(core.now, since, op, len);
        }
        drop(given);
        self.step(core, index);
    }

    /// The job has nothing more to ask, nor to wait for.
    fn end(&mut self, core: &mut Core, index: usize) {
        let job = &mut self.jobs[index];
        job.waits = Waits::No;
        self.given.borrow_mut().ended = core.now;
        if job.spec.end.is_nothing() {
            self.ended(core);
        } else {
            core.run(job.thread, job.spec.end, self.me, index as u64 * KINDS + ENDED);
        }
    }

    /// A job's process is gone.
    fn ended(&mut self, core: &mut Core) {
        self.running -= 1;
        if self.running == 0 && self.stops_the_machine {
            core.stop();
        }
    }
}

impl Job {
    fn submit_cost(&self) -> Cost {
        let bytes = self.next.map_or(0, |next| if next.op == Op::Write { next.len } else { 0 });
        let pages = self.next.map_or(0, |next| if next.direct { next.len.div_ceil(PAGE) } else { 0 });
        self.spec.submit.and(self.spec.page.times(pages)).and(self.touch(bytes))
    }

    fn complete_cost(&self) -> Cost {
        let read: u64 = self.seen.iter().filter(|seen| seen.op == Op::Read).map(|seen| seen.len).sum();
        let direct = self.seen.iter().filter(|seen| seen.direct);
        let pages: u64 = direct.map(|seen| seen.len.div_ceil(PAGE)).sum();
        let calls = self.spec.complete.times(self.seen.len() as u64);
        calls.and(self.spec.page_end.times(pages)).and(self.touch(read))
    }

    fn touch(&self, bytes: u64) -> Cost {
        Cost::cycles(bytes * self.spec.byte_cycles_1024 / 1024)
    }

    /// When this request may come.
    fn earliest(&self, next: &IoRequest) -> Time {
        let of_rate = if next.op == Op::Flush { 0 } else { self.due };
        of_rate.max(self.paused_until).max(self.begun + next.not_before)
    }

    /// When the next read or write may come.
    fn set_due(&mut self, now: Time, ask: &IoRequest) {
        if ask.op == Op::Flush {
            return;
        }
        let mut due = self.due.max(now.saturating_sub(CATCH_UP_NS));
        if let Some(iops) = self.spec.rate_iops {
            due += 1_000_000_000 / iops.max(1);
        }
        if let Some(rate) = self.spec.rate_bytes {
            due += (u128::from(ask.len) * 1_000_000_000 / u128::from(rate.max(1))) as u64;
        }
        self.due = due;
    }

    /// What it sees now counts towards its next pause.
    fn count_to_pause(&mut self) {
        if let Some((_, every)) = self.spec.think {
            self.completed += self.seen.iter().filter(|seen| seen.op != Op::Flush).count() as u64;
            self.is_to_pause |= self.completed >= self.paused_after + u64::from(every.max(1));
        }
    }

    /// Pauses from now on.
    fn pause(&mut self, now: Time) {
        (self.paused_after, self.is_to_pause) = (self.completed, false);
        if let Some((pause, _)) = self.spec.think {
            self.paused_until = now + pause;
            self.due = self.due.max(self.paused_until);
            self.paused = true;
        }
    }
}

const PAGE: u64 = 4096;

/// A job that fell behind its rate makes up for so much of it.
const CATCH_UP_NS: Time = 1_000_000_000;

impl Given {
    fn count(&mut self, now: Time, since: Time, op: Op, len: u64) {
        match op {
            Op::Read => (self.reads, self.read_bytes) = (self.reads + 1, self.read_bytes + len),
            Op::Write => (self.writes, self.write_bytes) = (self.writes + 1, self.write_bytes + len),
            // The close of a device.
            Op::Discard => return,
            Op::Flush => {
                self.flushes += 1;
                self.sync_latencies.add(now - since);
                return;
            }
        }
        self.latencies.add(now - since);
    }
}

impl Part for Jobs {
    fn done(&mut self, core: &mut Core, bio: &Bio) {
        let index = bio.tag as usize;
        let job = &mut self.jobs[index];
        if job.waits == Waits::ForFlush && bio.op == Op::Flush {
            job.waits = Waits::ToReturn(bio.submitted);
            core.run(job.thread, job.spec.complete, self.me, bio.tag * KINDS + RETURNED);
            return;
        }
        job.seen.push(Seen { since: bio.submitted, op: bio.op, len: bio.len, direct: bio.direct });
        if job.waits == Waits::ForDisk {
            self.step(core, index);
        }
    }

    fn worked(&mut self, core: &mut Core, token: u64) {
        let index = (token / KINDS) as usize;
        match token % KINDS {
            SUBMITTED => self.ask(core, index),
            REAPED => self.reap(core, index),
            RETURNED => self.returned(core, index),
            SET_UP => self.set_up(core, index),
            ENDED => self.ended(core),
            WATCHED => self.watch_again(core, index),
            other => unreachable!("a job has no work {other}"),
        }
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        let index = (token / KINDS) as usize;
        if token % KINDS == WATCHED {
            let watcher = self.watchers[index];
            core.run(watcher.thread, watcher.cost, self.me, token);
            return;
        }
        let job = &mut self.jobs[index];
        if job.startup == Startup::ToCome {
            job.startup = Startup::UnderWay;
            job.waits = Waits::No;
            core.run(job.thread, job.spec.begin, self.me, index as u64 * KINDS + SET_UP);
        } else if job.waits == Waits::ForTime {
            self.step(core, index);
        }
    }

    fn submit(&mut self, core: &mut Core, bio: BioId) {
        unreachable!("{:?} was submitted to a load", core.bios[bio.0]);
    }
}
