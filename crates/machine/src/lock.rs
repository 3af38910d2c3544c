//! One Flyball at a time changes a machine: an exclusive lock on a file, which the kernel drops when its holder dies.

use crate::Machine;
use crate::settings::Error;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The lock, held while this lives.
#[derive(Debug)]
pub(crate) struct Lock {
    // Dropping it closes the descriptor, and so gives the lock up.
    _file: File,
}

/// A process that holds or held the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its id.
    pub pid: u32,
    /// Whether it still runs: there is a process of this id that was started when the holder was.
    pub alive: bool,
}

/// How often a lock that is held is tried again.
const POLL: Duration = Duration::from_millis(5);

fn file_in(folder: &Path) -> PathBuf {
    folder.join("lock")
}

impl Lock {
    /// Takes the lock, waiting for it for `patience` at most.
    ///
    /// # Errors
    /// [`Error::Busy`] with the holder's id; [`Error::State`] where the folder cannot be written.
    pub fn take(folder: &Path, machine: &dyn Machine, patience: Duration) -> Result<Self, Error> {
        let path = file_in(folder);
        let state = |what| {
            let path = path.clone();
            move |source| Error::State { what, path, source }
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o644);
        let mut file = options.open(&path).map_err(state("open the lock"))?;
        let deadline = Instant::now() + patience;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(POLL),
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(Error::Busy { path, pid: holder(folder, machine).map(|h| h.pid) });
                }
                Err(error) => return Err(state("take the lock")(error.into())),
            }
        }
        let pid = std::process::id();
        let started = process(machine, pid).map_or(0, |p| p.started);
        write_holder(&mut file, pid, started).map_err(state("write to the lock"))?;
        Ok(Self { _file: file })
    }
}

fn write_holder(file: &mut File, pid: u32, started: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.set_len(0)?;
    file.write_all(format!("{pid} {started}\n").as_bytes())
}

/// Who holds the lock, or held it last; `None` where nobody has written that down.
pub(crate) fn holder(folder: &Path, machine: &dyn Machine) -> Option<Holder> {
    let text = fs::read_to_string(file_in(folder)).ok()?;
    let (pid, start) = text.trim().split_once(' ')?;
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
}

impl Process {
    /// Dead, and not yet asked about by its parent: it holds no file, lock or device any more. Where nobody asks (a
    /// container without an init) it stays like this for ever.
    pub fn is_zombie(self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// `None` where there is no such process.
pub(crate) fn process(machine: &dyn Machine, pid: u32) -> Option<Process> {
    let stat = machine.text(&format!("/proc/{pid}/stat"))?;
    // The name in parentheses may hold anything, even a parenthesis; the field after it is the third.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Process {
        state: fields.first()?.chars().next()?,
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}
