//! Reading a spool: what was known at each sample. One that is still written is read as far as it goes, and
//! on from there.

use crate::patch;
use crate::source::Source;
use crate::spool::{Fields, Kind, Reader};
use crate::task::{Owner, Process, Thread};
use crate::{Error, Result};
use domain::order;
use domain::trace::{FrequencySource, Role};
use domain::trial::{MAX_THREADS, ThreadTime};
use domain::{Nanos, Timestamp};
use parse::proc::schedstat::cpu_time;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The size of reads from the spool.
const READ_BYTES: usize = 256 << 10;

/// A spool that is being read, at one of its samples.
#[derive(Debug)]
pub struct Replay {
    path: PathBuf,
    reader: Reader<BufReader<File>>,
    /// The sample that is taken in, of which not all has come perhaps.
    begun: Option<Tick>,
    /// The one after it.
    next: Option<Tick>,
    ticks: u64,
    /// Whether a frame made no sense: nothing after it can be trusted.
    is_damaged: bool,
    /// What was declared before the first sample.
    pub head: Head,
    /// The system's sources, by their number.
    pub sources: Vec<Sampled>,
    /// The processes; `None` where none are recorded.
    pub tasks: Option<TaskTable>,
    /// What is not sampled, and why.
    pub absent: Vec<String>,
    /// The sampler's CPU time, where the recording was ended properly.
    pub end: Option<Nanos>,
}

/// What a recording says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// From one sample to the next.
    pub interval: Nanos,
    /// When it began.
    pub start: Timestamp,
    /// Where frequencies came from.
    pub frequency: FrequencySource,
}

/// One source, as it was at a sample.
#[derive(Debug)]
pub struct Sampled {
    /// What it is.
    pub source: Source,
    /// Its text; `None` where it could not be read.
    pub text: Option<Vec<u8>>,
    /// Whether the text is another than at the sample before.
    pub changed: bool,
    every: u64,
    phase: u64,
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// From zero.
    pub number: u64,
    /// Since the recording's start.
    pub time: Nanos,
    /// The sampler's CPU time until then.
    pub own: Nanos,
    /// Rows that are missing until then.
    pub missed: u64,
    complete: bool,
}

impl Sampled {
    /// Whether it was its turn at this sample: between its turns nothing is known of it.
    pub fn is_due(&self, tick: &Tick) -> bool {
        tick.complete || tick.number % self.every == self.phase
    }
}

impl Replay {
    /// Opens a spool and reads it up to its first sample. `owners` are those that a first reading has found
    /// out later than the processes themselves.
    ///
    /// # Errors
    /// Where it cannot be read, or is not a spool of this version.
    pub fn open(path: &Path, owners: BTreeMap<u32, Owner>) -> Result<Self> {
        let error = |error| Error::Spool { action: "read", path: path.to_owned(), error };
        let file = File::open(path).map_err(error)?;
        let input = BufReader::with_capacity(READ_BYTES, file);
        let foreign = || Error::Foreign(path.to_owned());
        let mut reader = Reader::new(input).map_err(error)?.ok_or_else(foreign)?;
        let first = reader.next().map_err(error)?.filter(|frame| frame.kind == Kind::Head);
        let head = first.and_then(|frame| Head::read(frame.bytes)).ok_or_else(foreign)?;
        let mut replay = Self {
            path: path.to_owned(),
            reader,
            begun: None,
            next: None,
            ticks: 0,
            is_damaged: false,
            head,
            sources: Vec::new(),
            tasks: None,
            absent: Vec::new(),
            end: None,
        };
        let mut table = TaskTable { owners, ..TaskTable::default() };
        replay.advance(&mut table)?;
        replay.tasks = (table.declared > 0).then_some(table);
        Ok(replay)
    }

    /// Goes to the next sample; `None` at the end. A last sample that is not whole is dropped, or had where
    /// the rest of it is there when this is asked again.
    ///
    /// # Errors
    /// Where the spool cannot be read.
    pub fn next(&mut self) -> Result<Option<Tick>> {
        if self.begun.is_none() {
            if self.next.is_none() {
                // What is declared before the first sample had not come yet.
                self.take_in()?;
            }
            let Some(tick) = self.next.take() else { return Ok(None) };
            self.begun = Some(tick);
            for sampled in &mut self.sources {
                sampled.changed = false;
            }
        }
        self.take_in()?;
        let is_whole = self.next.is_some() || self.end.is_some();
        Ok(if is_whole { self.begun.take() } else { None })
    }

    fn take_in(&mut self) -> Result<()> {
        if self.is_damaged || self.end.is_some() {
            return Ok(());
        }
        let mut table = self.tasks.take().unwrap_or_default();
        let taken = self.advance(&mut table);
        self.tasks = (table.declared > 0).then_some(table);
        taken
    }

    /// Takes in frames up to the next sample's, or the end.
    fn advance(&mut self, tasks: &mut TaskTable) -> Result<()> {
        loop {
            let error = |error| Error::Spool { action: "read", path: self.path.clone(), error };
            let Some(frame) = self.reader.next().map_err(error)? else { return Ok(()) };
            let bytes = frame.bytes;
            let sampled = self.sources.get_mut(usize::from(frame.source));
            let understood = match frame.kind {
                Kind::Head => None,
                Kind::Source => Sampled::read(bytes).map(|sampled| self.sources.push(sampled)),
                Kind::Tick => {
                    self.next = Tick::read(self.ticks, bytes);
                    self.ticks += 1;
                    return Ok(());
                }
                Kind::Whole => sampled.map(|sampled| sampled.replace(bytes)),
                Kind::Patch => sampled.and_then(|sampled| sampled.patch(bytes)),
                Kind::Gone => sampled.map(Sampled::lose),
                Kind::Process => Process::read(bytes).map(|process| tasks.add_process(process)),
                Kind::Thread => Thread::read(bytes).map(|thread| tasks.add_thread(thread)),
                Kind::Name => tasks.rename(Fields(bytes)),
                Kind::Owner => tasks.reassign(Fields(bytes)),
                Kind::Clocks => tasks.clocks(bytes),
                Kind::ThreadTimes => tasks.thread_times(bytes),
                Kind::Absent => {
                    self.absent.push(Fields(bytes).text());
                    Some(())
                }
                Kind::End => {
                    self.end = Fields(bytes).u64().map(Nanos::new);
                    return Ok(());
                }
            };
            if understood.is_none() {
                self.is_damaged = true;
                return Ok(());
            }
        }
    }
}

impl Head {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            interval: Nanos::new(fields.u64()?),
            start: Timestamp::from_unix_nanos(i64::from_le_bytes(fields.bytes()?)),
            frequency: FrequencySource::from_name(&fields.text())?,
        })
    }
}

impl Tick {
    fn read(number: u64, bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            number,
            time: Nanos::new(fields.u64()?),
            own: Nanos::new(fields.u64()?),
            missed: fields.u64()?,
            complete: fields.u8()? != 0,
        })
    }
}

impl Sampled {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let (every, phase) = (fields.u16()?.max(1).into(), fields.u16()?.into());
        let source = Source::from_label(&fields.text())?;
        Some(Self { source, text: None, changed: false, every, phase })
    }

    fn replace(&mut self, bytes: &[u8]) {
        let text = self.text.get_or_insert_default();
        text.clear();
        text.extend_from_slice(bytes);
        self.changed = true;
    }

    fn patch(&mut self, bytes: &[u8]) -> Option<()> {
        self.changed = true;
        patch::apply(self.text.as_mut()?, bytes)
    }

    fn lose(&mut self) {
        self.text = None;
        self.changed = true;
    }
}

/// What is known of all processes at a sample.
#[derive(Debug, Default)]
pub struct TaskTable {
    processes: HashMap<u32, Work>,
    threads: HashMap<u32, ThreadWork>,
    roles: [u64; Role::ALL.len()],
    owners: BTreeMap<u32, Owner>,
    declared: u64,
    has_beside: bool,
    busiest: Vec<ThreadTime>,
}

#[derive(Debug)]
struct Work {
    pid: u32,
    owner: Owner,
    last_ns: u64,
    has_threads: bool,
    now: usize,
    /// By role: one for most, several for a kworker.
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    role: Role,
    name: String,
    ns: u64,
}

#[derive(Debug)]
struct ThreadWork {
    process: u32,
    tid: u32,
    role: Role,
    name: String,
    base_ns: u64,
    last_ns: u64,
}

impl TaskTable {
    /// CPU time by role since the recording's start, ns, in the order of [`Role::ALL`].
    pub fn roles(&self) -> [u64; Role::ALL.len()] {
        self.roles
    }

    /// Whether any load ran beside the workload.
    pub fn has_beside(&self) -> bool {
        self.has_beside
    }

    /// The owners that were found out later than their processes.
    pub fn owners(&self) -> BTreeMap<u32, Owner> {
        self.owners.clone()
    }

    /// The threads that used most, most first: those that ended and those that live.
    pub fn busiest(mut self) -> Vec<ThreadTime> {
        for id in self.threads.keys().copied().collect::<Vec<_>>() {
            self.end_thread(id);
        }
        for id in self.processes.keys().copied().collect::<Vec<_>>() {
            self.end_process(id);
        }
        keep_busiest(&mut self.busiest);
        self.busiest
    }

    fn add_process(&mut self, process: Process) {
        let owner = self.owners.get(&process.id).copied().unwrap_or(process.owner);
        self.has_beside |= owner == Owner::Beside;
        let part = Part { role: owner.role(&process.name), name: process.name, ns: 0 };
        let (pid, last_ns) = (process.pid, process.base_ns);
        let work = Work { pid, owner, last_ns, has_threads: false, now: 0, parts: vec![part] };
        self.processes.insert(process.id, work);
        self.declared += 1;
    }

    fn add_thread(&mut self, thread: Thread) {
        let Thread { id, process, tid, base_ns, name } = thread;
        let Some(work) = self.processes.get_mut(&process) else { return };
        work.has_threads = true;
        let role = work.parts[work.now].role;
        let work = ThreadWork { process, tid, role, name, base_ns, last_ns: base_ns };
        self.threads.insert(id, work);
    }

    fn rename(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let id = fields.u32()?;
        let name = fields.text();
        if let Some(work) = self.processes.get_mut(&id) {
            work.rename(name);
        } else if let Some(thread) = self.threads.get_mut(&id) {
            thread.name = name;
        }
        Some(())
    }

    fn reassign(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let (id, owner) = (fields.u32()?, Owner::from_byte(fields.u8()?)?);
        self.owners.insert(id, owner);
        self.has_beside |= owner == Owner::Beside;
        let Some(work) = self.processes.get_mut(&id) else { return Some(()) };
        work.owner = owner;
        for part in &mut work.parts {
            let before = &mut self.roles[index(part.role)];
            *before = before.saturating_sub(part.ns);
            part.role = owner.role(&part.name);
            let after = &mut self.roles[index(part.role)];
            *after = after.saturating_add(part.ns);
        }
        let role = work.parts[work.now].role;
        for thread in self.threads.values_mut().filter(|thread| thread.process == id) {
            thread.role = role;
        }
        Some(())
    }

    fn clocks(&mut self, bytes: &[u8]) -> Option<()> {
        let mut fields = Fields(bytes);
        while !fields.0.is_empty() {
            let (id, ns) = (fields.u32()?, fields.u64()?);
            match self.processes.get_mut(&id) {
                Some(_) if ns == u64::MAX => self.end_process(id),
                Some(work) => {
                    // A clock never goes back; where it did, another process has taken the number.
                    let part = &mut work.parts[work.now];
                    let spent = ns.saturating_sub(work.last_ns);
                    // Saturating, for a damaged spool may hold any number.
                    part.ns = part.ns.saturating_add(spent);
                    let role = &mut self.roles[index(part.role)];
                    *role = role.saturating_add(spent);
                    work.last_ns = ns;
                }
                None => {}
            }
        }
        Some(())
    }

    fn thread_times(&mut self, bytes: &[u8]) -> Option<()> {
        let mut fields = Fields(bytes);
        while !fields.0.is_empty() {
            let (id, digits) = (fields.u32()?, fields.bytes::<20>()?);
            let time = std::str::from_utf8(&digits).ok().and_then(|text| cpu_time(text).ok());
            match (self.threads.get_mut(&id), time) {
                (Some(thread), Some(ns)) => thread.last_ns = thread.last_ns.max(ns),
                (Some(_), None) => self.end_thread(id),
                (None, _) => {}
            }
        }
        Some(())
    }

    fn end_process(&mut self, id: u32) {
        let Some(work) = self.processes.remove(&id) else { return };
        if !work.has_threads {
            for part in work.parts {
                self.rank(ThreadTime {
                    name: part.name,
                    tid: work.pid,
                    role: part.role,
                    cpu: Nanos::new(part.ns),
                });
            }
        }
    }

    fn end_thread(&mut self, id: u32) {
        let Some(thread) = self.threads.remove(&id) else { return };
        let cpu = Nanos::new(thread.last_ns.saturating_sub(thread.base_ns));
        self.rank(ThreadTime { name: thread.name, tid: thread.tid, role: thread.role, cpu });
    }

    fn rank(&mut self, thread: ThreadTime) {
        if thread.cpu == Nanos::ZERO {
            return;
        }
        self.busiest.push(thread);
        // Only the busiest are of interest, so the list stays short however many threads end.
        if self.busiest.len() >= 16 * MAX_THREADS {
            keep_busiest(&mut self.busiest);
        }
    }
}

impl Work {
    /// A kworker's name tells whose work it does from here on; others only become another program.
    fn rename(&mut self, name: String) {
        let role = self.owner.role(&name);
        self.now = self.parts.iter().position(|part| part.role == role).unwrap_or_else(|| {
            self.parts.push(Part { role, name: String::new(), ns: 0 });
            self.parts.len() - 1
        });
        self.parts[self.now].name = name;
    }
}

fn keep_busiest(threads: &mut Vec<ThreadTime>) {
    order::by(threads, |a, b| b.cpu.cmp(&a.cpu).then(a.tid.cmp(&b.tid)).then(a.role.cmp(&b.role)));
    threads.truncate(MAX_THREADS);
}

fn index(role: Role) -> usize {
    role as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_numbered_in_the_order_in_which_they_are_shown() {
        for (number, role) in Role::ALL.into_iter().enumerate() {
            assert_eq!(index(role), number);
        }
    }

    fn table(name: &str, owner: Owner) -> TaskTable {
        let mut table = TaskTable::default();
        table.add_process(Process { id: 1, pid: 35, owner, base_ns: 1000, name: name.to_owned() });
        table
    }

    fn clock(table: &mut TaskTable, ns: u64) {
        let frame = [&1_u32.to_le_bytes()[..], &ns.to_le_bytes()].concat();
        table.clocks(&frame).unwrap();
    }

    fn rename(table: &mut TaskTable, name: &str) {
        let frame = [&1_u32.to_le_bytes()[..], name.as_bytes()].concat();
        table.rename(Fields(&frame)).unwrap();
    }

    #[test]
    fn a_kworkers_time_goes_to_the_queue_that_it_worked_for() {
        let mut table = table("kworker/u8:2-events", Owner::Kernel);
        for (name, ns) in [("kcryptd/253:0", 1700), ("flush-254:0", 1900), ("kcryptd/253:1", 2000)] {
            rename(&mut table, &format!("kworker/u8:2+{name}"));
            clock(&mut table, ns);
        }
        assert_eq!(table.roles()[Role::Crypt as usize], 800);
        assert_eq!(table.roles()[Role::Writeback as usize], 200);
        let busiest = table.busiest();
        let shown: Vec<_> = busiest.iter().map(|t| (t.name.as_str(), t.role, t.cpu.get())).collect();
        let crypt = ("kworker/u8:2+kcryptd/253:1", Role::Crypt, 800);
        assert_eq!(shown, [crypt, ("kworker/u8:2+flush-254:0", Role::Writeback, 200)]);
    }

    #[test]
    fn a_process_that_ended_keeps_its_time_in_the_role() {
        let mut table = table("fio", Owner::Workload);
        clock(&mut table, 5000);
        clock(&mut table, u64::MAX);
        assert_eq!(table.roles()[Role::Workload as usize], 4000);
        assert_eq!(table.busiest()[0].cpu, Nanos::new(4000));
    }

    #[test]
    fn a_clock_that_fell_belongs_to_another_process_and_takes_nothing_away() {
        let mut table = table("fio", Owner::Workload);
        for ns in [5000, 10, 30] {
            clock(&mut table, ns);
        }
        assert_eq!(table.roles()[Role::Workload as usize], 4020);
    }
}
