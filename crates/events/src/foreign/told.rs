//! Whose threads are, where a file has no list of them: as far as its events tell.
//!
//! - What kthreadd makes is the kernel's, and so is who executes work of a work queue, and who has a name
//!   that the kernel alone gives ([`is_kernel_name`]).
//! - The command that a recorder was given bears the recorder's name, or that of its kind, until it is
//!   executed: a thread that changes from that name to another is the workload. So is the one that a recorder
//!   is known to have executed it in ([`Told::executed`]).
//! - A thread that is woken before anything else was seen of it has been there, blocked, since the begin: one
//!   that is new runs first (`wake_up_new_task` of the kernel's `kernel/sched/core.c`). Where events were
//!   lost, nobody knows what came before.
//!
//! Everybody else is somebody's of whom nothing is known.

use super::{Error, Writer};
use crate::decode::decode;
use crate::event::{Comm, Event, What};
use crate::file::Tables;
use crate::owner::Owner;
use parse::proc::role::is_kernel_name;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

/// A bound on threads.
const MAX_THREADS: usize = 1 << 20;

/// The number of the process that makes the kernel's threads.
pub const KTHREADD: u32 = 2;

/// What events tell of threads and functions.
#[derive(Debug)]
pub struct Told {
    /// What the command is called before it is executed.
    starter: &'static str,
    /// By thread, the first name, and whether it was there when the recording began.
    threads: BTreeMap<u32, Thread>,
    workload: Option<u32>,
    has_switches: bool,
    has_losses: bool,
    /// Where the functions begin that work queues executed.
    pub functions: BTreeSet<u64>,
}

#[derive(Debug, Default)]
struct Thread {
    name: Option<Comm>,
    was_there: bool,
    is_kernel: bool,
}

impl Told {
    /// By the events of a file of this crate's form. The command is called `starter` until it is executed.
    pub fn by(file: &[u8], starter: &'static str) -> Result<Self, Error> {
        let tables = Tables::read(Cursor::new(file))?;
        let mut told = Self {
            starter,
            threads: BTreeMap::new(),
            workload: None,
            has_switches: false,
            has_losses: false,
            functions: BTreeSet::new(),
        };
        decode(Cursor::new(file), &tables, |event| told.take(event))?;
        Ok(told)
    }

    fn take(&mut self, event: &Event) {
        match event.what {
            What::Switch { prev, prev_comm, next, next_comm, .. } => {
                self.has_switches = true;
                self.named(prev, prev_comm, false);
                self.named(next, next_comm, false);
            }
            What::Waking { tid, comm, .. } => self.named(tid, comm, true),
            What::Fork { parent, child } => {
                let is_kernel = parent == KTHREADD;
                if let Some(thread) = self.thread(child) {
                    thread.is_kernel |= is_kernel;
                }
            }
            What::WorkBegin { function, .. } => {
                if self.functions.len() < MAX_THREADS {
                    self.functions.insert(function);
                }
                if let Some(thread) = self.thread(event.tid) {
                    thread.is_kernel = true;
                }
            }
            What::Lost { .. } => self.has_losses = true,
            _ => {}
        }
    }

    /// The one of these that can only be the command, where no name told it.
    pub fn executed(&mut self, threads: &BTreeSet<u32>) {
        let one = threads.first().copied().filter(|_| threads.len() == 1 && self.has_switches);
        self.workload = self.workload.or(one);
    }

    /// The idle task is nobody.
    fn thread(&mut self, tid: u32) -> Option<&mut Thread> {
        let has_room = self.threads.len() < MAX_THREADS || self.threads.contains_key(&tid);
        (tid != 0 && has_room).then(|| self.threads.entry(tid).or_default())
    }

    fn named(&mut self, tid: u32, name: Comm, is_woken: bool) {
        let (starter, is_new) = (self.starter, !self.threads.contains_key(&tid));
        let Some(thread) = self.thread(tid) else { return };
        thread.was_there |= is_new && is_woken;
        let first = *thread.name.get_or_insert(name);
        if first != name && first.text() == starter {
            self.workload.get_or_insert(tid);
        }
    }

    /// Writes who was there, and who is whose. Which threads are one process nobody tells: each is its own.
    pub fn write(&self, to: &mut Writer<'_>) {
        let is_sure = self.has_switches && !self.has_losses;
        for (tid, thread) in &self.threads {
            let name = thread.name.unwrap_or_default();
            let is_kernel = thread.is_kernel || *tid == KTHREADD || is_kernel_name(&name.text());
            let owner = if is_kernel { Owner::Kernel } else { Owner::Other };
            if thread.was_there && is_sure {
                to.task(*tid, owner, &name.text());
            } else if is_kernel {
                to.owner(*tid, owner);
            }
        }
        if let Some(tid) = self.workload {
            to.owner(tid, Owner::Workload);
        }
    }
}
