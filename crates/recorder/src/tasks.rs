//! Which processes there are, whose they are, and what their clocks show.

use crate::clock;
use crate::recorder::Roots;
use crate::spool::{Kind, Writer};
use crate::task::{NAME_BYTES, Name, Owner, Process, is_renaming_time};
use crate::threads::{Base, Member, Threads};
use domain::Nanos;
use parse::proc::loadavg::loadavg;
use parse::proc::pid_stat::{PidStat, pid_stat};
use parse::proc::role::is_kworker;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// How often it is asked whether threads were made. Half a microsecond, and what lives shorter is missed.
const DISCOVERY_PERIOD: Nanos = Nanos::from_millis(10);

/// How often threads that have a descriptor are read: only their totals are used.
const THREAD_PERIOD: Nanos = Nanos::from_millis(250);

/// Where more threads than this were made since the last look, all of `/proc` is listed instead of trying
/// each number.
const MAX_CANDIDATES: u32 = 1024;

/// The share of a core that listing all of `/proc` may take: after a listing that took t, the next is not
/// before 100 t.
const LISTING_COSTS: u64 = 100;

/// A clock that has not moved for this many samples is read only every [`QUIET_PERIOD`], until it moves
/// again: most of a server's threads sleep. The workload's are always read.
const QUIET_AFTER: u16 = 32;

/// How often a quiet clock is read: by so much can the first work of a thread that had slept be shown late.
const QUIET_PERIOD: Nanos = Nanos::from_millis(100);

/// What is kept free for processes that appear within one sample.
const GROWTH: usize = 4096;

/// All processes of the machine, followed.
#[derive(Debug)]
pub struct Tasks {
    proc: PathBuf,
    loadavg: File,
    last_tid: u32,
    list_at: Option<u64>,
    next_listing_ns: u64,
    next_id: u32,
    /// The first processes of the workload, of a server that it asks, and of loads beside it.
    roots: Vec<(u32, Owner)>,
    processes: Vec<Followed>,
    by_pid: HashMap<u32, Known>,
    threads: Threads,
    discover_every: u64,
    threads_every: u64,
    quiet_every: u64,
    clocks: Vec<u8>,
}

/// What a process's descendants need to know of it.
#[derive(Clone, Copy, Debug)]
struct Known {
    id: u32,
    owner: Owner,
    parent: u32,
    group: u32,
    session: u32,
    base_ns: u64,
}

#[derive(Debug)]
struct Followed {
    id: u32,
    pid: u32,
    owner: Owner,
    last_ns: u64,
    quiet: u16,
    moves: u32,
    /// A kworker's `comm`, opened when it first works.
    comm: Option<File>,
    is_kworker: bool,
    name: Name,
}

impl Tasks {
    /// Lists all that live, and declares them.
    ///
    /// # Errors
    /// Where `/proc` cannot be listed or processes have no clocks.
    pub fn open(roots: &Roots, interval: Nanos, spool: &mut Writer) -> io::Result<Self> {
        clock::process(std::process::id()).ok_or_else(io::Error::last_os_error)?;
        let every = |period: Nanos| period.get().div_ceil(interval.get()).max(1);
        let mut tasks = Self {
            proc: roots.proc.clone(),
            loadavg: File::open(roots.proc.join("loadavg"))?,
            last_tid: 0,
            list_at: None,
            next_listing_ns: 0,
            next_id: 0,
            roots: Vec::new(),
            processes: Vec::new(),
            by_pid: HashMap::new(),
            threads: Threads::new(&roots.proc),
            discover_every: every(DISCOVERY_PERIOD),
            threads_every: every(THREAD_PERIOD),
            quiet_every: every(QUIET_PERIOD),
            clocks: Vec::new(),
        };
        tasks.last_tid = tasks.read_last_tid().unwrap_or(0);
        tasks.list(Birth::Before, spool)?;
        tasks.threads.sample(spool);
        Ok(tasks)
    }

    /// The most that one sample takes in a spool.
    pub fn sample_bytes(&self) -> usize {
        self.processes.len() * (12 + NAME_BYTES) + self.threads.sample_bytes() + GROWTH
    }

    /// How many threads had no descriptor left.
    pub fn unfollowed_threads(&self) -> usize {
        self.threads.unfollowed
    }

    /// Those that are followed: process id, owner, name.
    pub fn known(&self) -> impl Iterator<Item = (u32, Owner, &Name)> {
        self.processes.iter().map(|process| (process.pid, process.owner, &process.name))
    }

    /// A first process of the workload, or of a load beside it: it and its descendants are that from the
    /// recording's start on.
    pub fn follow(&mut self, root: u32, owner: Owner, spool: &mut Writer) {
        self.discover(spool);
        self.roots.push((root, owner));
        let family = self.descendants(root);
        for process in &mut self.processes {
            if family.contains(&process.pid) && process.owner != owner {
                process.owner = owner;
                spool.frame(Kind::Owner, 0, &[&process.id.to_le_bytes(), &[owner as u8]]);
                if let Some(known) = self.by_pid.get_mut(&process.pid) {
                    known.owner = owner;
                }
            }
        }
    }

    /// Finds new processes and reads the clocks whose turn it is.
    pub fn sample(&mut self, tick: u64, now: Nanos, spool: &mut Writer) {
        if tick.is_multiple_of(self.discover_every) {
            self.discover(spool);
        }
        if self.list_at.is_some_and(|at| now.get() >= at) {
            self.list_again(now, spool);
        }
        self.sample_clocks(Some(tick), spool);
        if tick.is_multiple_of(self.threads_every) {
            self.threads.sample(spool);
        }
    }

    /// Finds new processes and reads all clocks.
    pub fn sample_all(&mut self, spool: &mut Writer) {
        self.discover(spool);
        if self.list_at.is_some() {
            // At the end the cost no longer disturbs anybody; a process that cannot be listed is gone.
            let _ = self.list(Birth::During, spool);
        }
        self.sample_clocks(None, spool);
        for process in &mut self.processes {
            process.name_at_end(&self.proc, spool);
        }
        self.threads.sample(spool);
        self.threads.name_at_end(spool);
    }

    fn sample_clocks(&mut self, tick: Option<u64>, spool: &mut Writer) {
        self.clocks.clear();
        let mut index = 0;
        while index < self.processes.len() {
            let process = &mut self.processes[index];
            if tick.is_some_and(|tick| !process.is_due(tick, self.quiet_every)) {
                index += 1;
                continue;
            }
            match clock::process(process.pid) {
                Some(ns) if ns == process.last_ns => process.quiet = process.quiet.saturating_add(1),
                Some(ns) => {
                    process.moved(ns, &self.proc, spool);
                    self.clocks.extend(process.id.to_le_bytes());
                    self.clocks.extend(ns.to_le_bytes());
                }
                None => {
                    self.clocks.extend(process.id.to_le_bytes());
                    self.clocks.extend(u64::MAX.to_le_bytes());
                    self.by_pid.remove(&process.pid);
                    self.processes.swap_remove(index);
                    continue;
                }
            }
            index += 1;
        }
        if !self.clocks.is_empty() {
            spool.frame(Kind::Clocks, 0, &[&self.clocks]);
        }
    }

    fn read_last_tid(&self) -> Option<u32> {
        let mut text = [0; 128];
        let length = self.loadavg.read_at(&mut text, 0).ok()?;
        Some(loadavg(std::str::from_utf8(&text[..length]).ok()?).ok()?.last_tid)
    }

    /// Looks at the thread ids that were given out since the last look.
    fn discover(&mut self, spool: &mut Writer) {
        let Some(last) = self.read_last_tid() else { return };
        let before = std::mem::replace(&mut self.last_tid, last);
        match last.checked_sub(before) {
            Some(new) if new <= MAX_CANDIDATES => {
                (before + 1..=last).for_each(|tid| self.add(tid, Birth::During, spool));
            }
            // Too many, or the numbers began again from low ones.
            _ => self.list_at = Some(self.next_listing_ns),
        }
    }

    fn list_again(&mut self, now: Nanos, spool: &mut Writer) {
        let before = clock::own_thread();
        // What cannot be listed is looked for next time.
        let _ = self.list(Birth::During, spool);
        let cost = clock::own_thread().saturating_sub(before);
        self.list_at = None;
        self.next_listing_ns = now.get() + cost.get() * LISTING_COSTS;
    }

    fn list(&mut self, birth: Birth, spool: &mut Writer) -> io::Result<()> {
        for pid in numbers(&self.proc)? {
            self.add(pid, birth, spool);
        }
        Ok(())
    }

    /// Follows a thread id that may be a process's, a thread's, or nobody's any more.
    fn add(&mut self, tid: u32, birth: Birth, spool: &mut Writer) {
        if self.by_pid.contains_key(&tid) {
            if birth == Birth::During && self.list_at.is_some() {
                self.add_threads_of(tid, birth, spool);
            }
            return;
        }
        match clock::process(tid) {
            Some(ns) => self.add_process(tid, ns, birth, spool),
            None => {
                if let Some(process) = thread_group(&self.proc, tid) {
                    self.add_thread_and_leader(process, tid, birth, spool);
                }
            }
        }
    }

    fn add_process(&mut self, pid: u32, ns: u64, birth: Birth, spool: &mut Writer) {
        let Ok(text) = fs::read(self.proc.join(pid.to_string()).join("stat")) else { return };
        let text = String::from_utf8_lossy(&text);
        let Ok(stat) = pid_stat(&text) else { return };
        let base_ns = if birth == Birth::Before { ns } else { 0 };
        let owner = self.owner(pid, &stat);
        // The name in `stat` is the whole one only in newer kernels; `comm` has a kworker's queue in all.
        let mut name = Name::new(stat.name.as_bytes());
        if owner == Owner::Kernel {
            name = Name::read(&self.proc, pid).unwrap_or(name);
        }
        let id = self.new_id();
        let process = Process { id, pid, owner, base_ns, name: name.text() };
        spool.frame(Kind::Process, 0, &[&process.fields(), process.name.as_bytes()]);
        let is_kworker = owner == Owner::Kernel && is_kworker(&process.name);
        let known =
            Known { id, owner, parent: stat.parent, group: stat.group, session: stat.session, base_ns };
        self.by_pid.insert(pid, known);
        self.processes.push(Followed {
            id,
            pid,
            owner,
            last_ns: base_ns,
            quiet: 0,
            moves: 0,
            comm: None,
            is_kworker,
            name,
        });
        if stat.threads > 1 {
            self.add_threads_of(pid, birth, spool);
        }
    }

    fn owner(&self, pid: u32, stat: &PidStat<'_>) -> Owner {
        if stat.is_kernel() {
            return Owner::Kernel;
        }
        let is_led = |(root, _): &&(u32, Owner)| [pid, stat.group, stat.session].contains(root);
        if let Some((_, owner)) = self.roots.iter().find(is_led) {
            return *owner;
        }
        if pid == std::process::id() {
            return Owner::Flyball;
        }
        match self.by_pid.get(&stat.parent).map(|known| known.owner) {
            Some(owner @ (Owner::Workload | Owner::Beside | Owner::Flyball)) => owner,
            _ => Owner::Other,
        }
    }

    /// The root, what stems from it, and what is in its group or session.
    fn descendants(&self, root: u32) -> BTreeSet<u32> {
        let belongs = |pid: &u32, known: &Known| [*pid, known.group, known.session].contains(&root);
        let first = self.by_pid.iter().filter(|(pid, known)| belongs(pid, known)).map(|(pid, _)| *pid);
        let mut found: BTreeSet<u32> = first.collect();
        loop {
            let before = found.len();
            let children = self.by_pid.iter().filter(|(_, known)| found.contains(&known.parent));
            let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
            found.extend(children);
            if found.len() == before {
                return found;
            }
        }
    }

    fn add_threads_of(&mut self, pid: u32, birth: Birth, spool: &mut Writer) {
        let tids = numbers(&self.proc.join(pid.to_string()).join("task")).unwrap_or_default();
        if tids.len() > 1 {
            tids.into_iter().for_each(|tid| self.add_thread(pid, tid, birth, spool));
        }
    }

    /// A process that had one thread has a second now: from here on its first is followed too.
    fn add_thread_and_leader(&mut self, pid: u32, tid: u32, birth: Birth, spool: &mut Writer) {
        if !self.by_pid.contains_key(&pid) {
            return self.add(pid, birth, spool);
        }
        self.add_thread(pid, pid, birth, spool);
        self.add_thread(pid, tid, birth, spool);
    }

    fn add_thread(&mut self, pid: u32, tid: u32, birth: Birth, spool: &mut Writer) {
        let Some(process) = self.by_pid.get(&pid).copied() else { return };
        let base = match birth {
            Birth::Before => Base::Now,
            // What a lone thread had used when the recording began is what its process had.
            Birth::During if tid == pid => Base::Ns(process.base_ns),
            Birth::During => Base::Ns(0),
        };
        let id = self.new_id();
        self.threads.add(Member { id, process: process.id, pid, tid, base }, spool);
    }

    fn new_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }
}

/// Whether a process was there before the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Birth {
    Before,
    During,
}

impl Followed {
    fn is_due(&self, tick: u64, quiet_every: u64) -> bool {
        self.quiet < QUIET_AFTER
            || matches!(self.owner, Owner::Workload | Owner::Beside)
            || (tick + u64::from(self.id)).is_multiple_of(quiet_every)
    }

    /// Its clock has moved. A kworker's name says for which queue it worked, so it is read each time; another
    /// process may have become another program.
    fn moved(&mut self, ns: u64, proc: &Path, spool: &mut Writer) {
        self.last_ns = ns;
        self.quiet = 0;
        self.moves = self.moves.saturating_add(1);
        let name = match self.owner {
            Owner::Kernel if self.is_kworker => self.queue_name(proc),
            Owner::Kernel => None,
            _ if is_renaming_time(self.moves) => Name::read(proc, self.pid),
            _ => None,
        };
        if let Some(name) = name {
            self.rename(name, spool);
        }
    }

    /// The name of one that has moved since its name was read.
    fn name_at_end(&mut self, proc: &Path, spool: &mut Writer) {
        let is_stale = self.owner != Owner::Kernel && self.moves > 0 && !is_renaming_time(self.moves);
        if let Some(name) = is_stale.then(|| Name::read(proc, self.pid)).flatten() {
            self.rename(name, spool);
        }
    }

    fn rename(&mut self, name: Name, spool: &mut Writer) {
        if name != self.name {
            self.name = name;
            spool.frame(Kind::Name, 0, &[&self.id.to_le_bytes(), name.as_bytes()]);
        }
    }

    fn queue_name(&mut self, proc: &Path) -> Option<Name> {
        if self.comm.is_none() {
            self.comm = File::open(proc.join(self.pid.to_string()).join("comm")).ok();
        }
        let mut bytes = [0; NAME_BYTES];
        let length = self.comm.as_ref()?.read_at(&mut bytes, 0).ok()?;
        Some(Name::new(bytes[..length].trim_ascii_end()))
    }
}

/// The process that a thread id belongs to; `/proc/TID` is there for threads too, though not listed.
fn thread_group(proc: &Path, tid: u32) -> Option<u32> {
    let status = fs::read_to_string(proc.join(tid.to_string()).join("status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// The names in a folder that are numbers.
fn numbers(folder: &Path) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(folder)?.filter_map(Result::ok);
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}
