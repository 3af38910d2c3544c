//! Processes and threads, as perf lists them where it begins to record, and tells of them after.

use super::{KTHREADD, Writer};
use crate::owner::Owner;
use std::collections::{BTreeMap, BTreeSet};

/// A bound on threads.
const MAX_TASKS: usize = 1 << 20;

/// What a child of perf's is called until it executes the command that was given
/// (`evlist__prepare_workload` of tools/perf/util/evlist.c): other programs begin meanwhile as well.
pub const PERFS_CHILD: &str = "perf-exec";

/// Who there is.
#[derive(Debug, Default)]
pub struct Tasks {
    /// By thread, its process and its first name.
    known: BTreeMap<u32, (u32, String)>,
    /// By process, who made it.
    parents: BTreeMap<u32, u32>,
    /// The process that executed perf's own command.
    workload: Option<u32>,
}

impl Tasks {
    /// Whether nobody was told of.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The process of a thread, where it was told of.
    pub fn process_of(&self, tid: u32) -> Option<u32> {
        self.known.get(&tid).map(|(pid, _)| *pid)
    }

    /// Whether one of these executed the command that perf was given.
    pub fn has_workload(&self) -> bool {
        self.workload.is_some()
    }

    /// A thread has this name.
    pub fn named(&mut self, pid: u32, tid: u32, name: String) {
        if self.known.len() < MAX_TASKS {
            self.known.entry(tid).or_insert((pid, name));
        }
    }

    /// A process executes a program.
    pub fn executes(&mut self, pid: u32) {
        let is_perfs = self.known.get(&pid).is_some_and(|(_, name)| name == PERFS_CHILD);
        self.workload = self.workload.or(is_perfs.then_some(pid));
    }

    /// A process makes another, or a thread.
    pub fn forks(&mut self, pid: u32, parent: u32) {
        if self.parents.len() < MAX_TASKS {
            self.parents.entry(pid).or_insert(parent);
        }
    }

    /// The workload's process and all that it made, and they made.
    fn workloads(&self) -> BTreeSet<u32> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (pid, parent) in self.parents.iter().filter(|(pid, parent)| pid != parent) {
            children.entry(*parent).or_default().push(*pid);
        }
        let mut found = BTreeSet::new();
        let mut next: Vec<u32> = self.workload.into_iter().collect();
        while let Some(pid) = next.pop() {
            if found.insert(pid) {
                next.extend(children.remove(&pid).unwrap_or_default());
            }
        }
        found
    }

    /// Whether a process is the kernel's.
    pub fn is_kernel(&self, pid: u32) -> bool {
        pid == KTHREADD || self.parents.get(&pid) == Some(&KTHREADD)
    }

    fn owner(&self, pid: u32) -> Owner {
        match self.is_kernel(pid) {
            true => Owner::Kernel,
            false if self.workload == Some(pid) => Owner::Workload,
            false => Owner::Other,
        }
    }

    /// Writes who there is, and whose.
    pub fn write(&self, to: &mut Writer<'_>) {
        let (first, others): (Vec<_>, Vec<_>) = self.known.iter().partition(|(tid, (pid, _))| *tid == pid);
        for (pid, (_, name)) in first {
            to.task(*pid, self.owner(*pid), name);
        }
        for (tid, (pid, _)) in others {
            if self.known.get(pid).is_some_and(|(process, _)| process == pid) {
                to.thread(*tid, *pid);
            }
        }
        for pid in self.workloads() {
            to.owner(pid, Owner::Workload);
        }
    }
}
