//! Threads of processes that have several, for the list of the busiest.
//!
//! A process's clock has the sum; what each of its threads used is read from kept `schedstat` descriptors,
//! and more slowly, since only the totals are used: what a thread does in the last quarter of a second before
//! it ends is in the sum, and not in its own figure.

use crate::spool::{Kind, Writer};
use crate::task::{Name, Thread, is_renaming_time};
use parse::proc::schedstat::cpu_time;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Descriptors that are left to the rest of the program.
const SPARED_DESCRIPTORS: usize = 256;

/// A number of `schedstat` has at most 20 digits.
const DIGITS: usize = 20;

/// All that are followed.
#[derive(Debug)]
pub struct Threads {
    proc: PathBuf,
    list: Vec<Followed>,
    tids: HashSet<u32>,
    most: usize,
    times: Vec<u8>,
    /// How many found no descriptor left.
    pub unfollowed: usize,
}

#[derive(Debug)]
struct Followed {
    id: u32,
    tid: u32,
    schedstat: File,
    last: [u8; DIGITS],
    moves: u32,
    name: Name,
}

/// A thread to be followed.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its number in the spool.
    pub id: u32,
    /// The number of its process.
    pub process: u32,
    /// The process id.
    pub pid: u32,
    /// The thread id.
    pub tid: u32,
    /// What does not count of its time.
    pub base: Base,
}

/// What a thread had used when the recording began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// What it has used now.
    Now,
    /// So many nanoseconds.
    Ns(u64),
}

impl Threads {
    /// None yet; raises the limit on descriptors.
    pub fn new(proc: &Path) -> Self {
        Self {
            proc: proc.to_owned(),
            list: Vec::new(),
            tids: HashSet::new(),
            most: raise_descriptors().saturating_sub(SPARED_DESCRIPTORS),
            times: Vec::new(),
            unfollowed: 0,
        }
    }

    /// The most that one sample takes in a spool.
    pub fn sample_bytes(&self) -> usize {
        self.list.len() * (4 + DIGITS)
    }

    /// Follows a thread, if it is still there, is not followed yet, and a descriptor is left.
    pub fn add(&mut self, member: Member, spool: &mut Writer) {
        let Member { id, process, pid, tid, base } = member;
        if self.tids.contains(&tid) {
            return;
        }
        if self.list.len() >= self.most {
            self.unfollowed += 1;
            return;
        }
        let Ok(schedstat) = File::open(self.proc.join(format!("{pid}/task/{tid}/schedstat"))) else { return };
        let Some(name) = Name::read(&self.proc, tid) else { return };
        let base_ns = match base {
            Base::Now => digits(&schedstat).and_then(|digits| number(&digits)).unwrap_or(0),
            Base::Ns(ns) => ns,
        };
        let thread = Thread { id, process, tid, base_ns, name: name.text() };
        spool.frame(Kind::Thread, 0, &[&thread.fields(), thread.name.as_bytes()]);
        self.tids.insert(tid);
        // No reading looks like these zeros: the first is always stored.
        self.list.push(Followed { id, tid, schedstat, last: [0; DIGITS], moves: 0, name });
    }

    /// Reads all of them.
    pub fn sample(&mut self, spool: &mut Writer) {
        let Self { proc, list, tids, times, .. } = self;
        times.clear();
        list.retain_mut(|thread| {
            let time = digits(&thread.schedstat);
            if time == Some(thread.last) {
                return true;
            }
            times.extend(thread.id.to_le_bytes());
            times.extend(time.unwrap_or([b' '; DIGITS]));
            match time {
                Some(time) => thread.moved(time, proc, spool),
                None => _ = tids.remove(&thread.tid),
            }
            time.is_some()
        });
        if !times.is_empty() {
            spool.frame(Kind::ThreadTimes, 0, &[times]);
        }
    }

    /// Reads the names of those that have worked since theirs were read.
    pub fn name_at_end(&mut self, spool: &mut Writer) {
        for thread in self.list.iter_mut().filter(|thread| !is_renaming_time(thread.moves)) {
            thread.read_name(&self.proc, spool);
        }
    }
}

impl Followed {
    /// It has worked.
    fn moved(&mut self, time: [u8; DIGITS], proc: &Path, spool: &mut Writer) {
        self.last = time;
        self.moves = self.moves.saturating_add(1);
        if is_renaming_time(self.moves) {
            self.read_name(proc, spool);
        }
    }

    fn read_name(&mut self, proc: &Path, spool: &mut Writer) {
        if let Some(name) = Name::read(proc, self.tid).filter(|name| *name != self.name) {
            self.name = name;
            spool.frame(Kind::Name, 0, &[&self.id.to_le_bytes(), name.as_bytes()]);
        }
    }
}

/// The first number of `schedstat`, padded with spaces; `None` where the thread has ended.
fn digits(schedstat: &File) -> Option<[u8; DIGITS]> {
    let mut text = [0; 64];
    let length = schedstat.read_at(&mut text, 0).ok()?;
    let end = text[..length].iter().position(|byte| *byte == b' ')?;
    let mut digits = [b' '; DIGITS];
    digits.get_mut(..end)?.copy_from_slice(&text[..end]);
    Some(digits)
}

fn number(digits: &[u8]) -> Option<u64> {
    cpu_time(std::str::from_utf8(digits).ok()?).ok()
}

/// Raises the soft limit on descriptors to the hard one, and says what it is then.
pub fn raise_descriptors() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let before = limit.current;
    limit.current = limit.maximum;
    let now = if setrlimit(Resource::Nofile, limit).is_ok() { limit.current } else { before };
    now.and_then(|now| usize::try_from(now).ok()).unwrap_or(usize::MAX)
}
