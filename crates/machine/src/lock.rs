//! One Flyball at a time changes a machine: exclusive locks on files, which the kernel drops when their
//! holders die.
//!
//! There are two. [`MachineLock`] is the machine's: whoever measures or changes anything here has it,
//! whatever its state folder is, and its supervisor has it too. The lock of a state folder is held by whoever
//! has its ledger open.

use crate::Machine;
use crate::settings::Error;
use files::lock::{self, Lock as FileLock};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The lock of a state folder, held while this lives.
#[derive(Debug)]
pub(crate) struct Lock {
    // Dropping it closes the descriptor, and so gives the lock up.
    _file: FileLock,
}

/// The lock of this machine, held while this lives, or while a process lives that was given its descriptor.
#[derive(Debug)]
pub struct MachineLock(FileLock);

/// A process that holds or held a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its id.
    pub pid: u32,
    /// Whether it still runs: there is a process of this id that was started when the holder was.
    pub alive: bool,
}

fn file_in(folder: &Path) -> PathBuf {
    folder.join("lock")
}

impl Lock {
    /// Takes the lock, waiting for it for `patience` at most.
    ///
    /// # Errors
    /// [`Error::Busy`] with the holder's id; [`Error::State`] where the file cannot be used.
    pub fn take(folder: &Path, machine: &dyn Machine, patience: Duration) -> Result<Self, Error> {
        take(&file_in(folder), machine, patience).map(|file| Self { _file: file })
    }
}

impl MachineLock {
    /// Takes the lock of the machine, waiting for it for `patience` at most. `path` is the same for every
    /// Flyball of this machine, in a folder that only root may write to.
    ///
    /// # Errors
    /// [`Error::Busy`] with the holder's id; [`Error::State`] where the file cannot be used.
    pub fn take(path: &Path, machine: &dyn Machine, patience: Duration) -> Result<Self, Error> {
        take(path, machine, patience).map(Self)
    }
}

impl AsFd for MachineLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn take(path: &Path, machine: &dyn Machine, patience: Duration) -> Result<FileLock, Error> {
    let mut lock = match FileLock::take_within(path, patience) {
        Err(files::Error::Locked { path, .. }) => {
            let pid = holder_in(&path, machine).map(|holder| holder.pid);
            return Err(Error::Busy { path, pid });
        }
        other => other?,
    };
    let pid = std::process::id();
    let started = process(machine, pid).map_or(0, |process| process.started);
    lock.sign(path, &format!("{pid} {started}"))?;
    Ok(lock)
}

/// Who holds the lock of a state folder, or held it last; `None` where nobody has written that down.
pub(crate) fn holder(folder: &Path, machine: &dyn Machine) -> Option<Holder> {
    holder_in(&file_in(folder), machine)
}

/// Who holds the lock of this file, or held it last; `None` where nobody has written that down.
pub fn holder_in(path: &Path, machine: &dyn Machine) -> Option<Holder> {
    let text = lock::signature(path)?;
    let (pid, start) = text.split_once(' ')?;
    let (pid, start): (u32, u64) = (pid.parse().ok()?, start.parse().ok()?);
    let process = process(machine, pid);
    Some(Holder { pid, alive: process.is_some_and(|p| p.started == start && !p.is_zombie()) })
}

/// What `/proc/PID/stat` says of a process (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// `R`, `S`, `D`, `Z`, …
    state: char,
    /// The process group.
    pub group: u32,
    /// When it was started, in clock ticks since boot: with its id this names one process and no other.
    pub started: u64,
    /// How long its environment is, in bytes: `env_end` less `env_start`. `None` while it is becoming another
    /// program (execve(2)), with the memory of the new one but not yet its environment.
    pub environment: Option<u64>,
}

impl Process {
    /// Dead, and not yet asked about by its parent: it holds no file, lock or device any more. Where nobody
    /// asks (a container without an init) it stays like this for ever.
    pub fn is_zombie(self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// `None` where there is no such process.
pub(crate) fn process(machine: &dyn Machine, pid: u32) -> Option<Process> {
    let stat = machine.text(&format!("/proc/{pid}/stat"))?;
    // The name in parentheses may hold anything, even a parenthesis; the field after it is the third.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    // `vsize` and `startcode`: of a program's memory the place of its code is set last (fs/binfmt_elf.c).
    // Threads of the kernel and zombies have neither.
    let is_starting = number(20) != 0 && number(23) == 0;
    let environment = number(48).saturating_sub(number(47));
    Some(Process {
        state: fields.first()?.chars().next()?,
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
        environment: (!is_starting).then_some(environment),
    })
}
