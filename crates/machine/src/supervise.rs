//! A second process that undoes what the first leaves changed when it is killed.
//!
//! The worker starts it before it changes anything, with a pipe on its standard input. On the pipe the worker
//! announces the process groups that it starts (`group PGID START`, START being when its leader was started)
//! and that have ended (`gone PGID`), and says `done` when everything is undone. When the pipe closes without
//! that word, the worker is dead: its groups are killed, and what carries its [mark](crate::workload); its
//! lock falls free, and its ledger is undone.

use crate::ledger::{Ledger, RestoreReport};
use crate::settings::{Error, numbered};
use crate::workload::{self, Mark};
use crate::{LocalMachine, Machine, MachineLock, lock};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process_group, setsid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How long the supervisor may take to start: it is this program, already in memory.
const START: Duration = Duration::from_secs(10);
/// How long it may take to end after `done`: it has nothing left to do.
const END: Duration = Duration::from_secs(5);
/// How long killed processes may take to die: one that waits for a disk dies only when the disk answers.
const DEATH: Duration = Duration::from_secs(10);
/// How long the worker's lock may take to fall free once the worker is dead.
const LOCK: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);

/// Two numbers and a word are 40 bytes.
const LONGEST_LINE: u64 = 64;
/// A worker runs one workload at a time.
const MAX_GROUPS: usize = 1024;

const READY: &str = "ready\n";

/// The worker's end of the pipe. Dropping it without [`Supervisor::done`] is what a death looks like.
#[derive(Debug)]
pub struct Supervisor {
    child: Child,
    pipe: ChildStdin,
    program: PathBuf,
}

impl Supervisor {
    /// Starts the supervisor, and returns when it is beyond the reach of the terminal's signals. `command` is
    /// this program with the arguments that make it call [`supervise_main`]; its standard error stays the
    /// caller's.
    ///
    /// # Errors
    /// [`Error::Supervisor`].
    pub fn start(mut command: Command) -> Result<Self, Error> {
        let program = PathBuf::from(command.get_program());
        let failed = |source| Error::Supervisor { program: program.clone(), source };
        // Where this process is somebody's workload itself, its supervisor must outlive it all the same.
        command.env_remove(workload::VARIABLE).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let pipe = child.stdin.take().expect("it was asked for as a pipe");
        let answer = child.stdout.take().expect("it was asked for as a pipe");
        if let Err(error) = wait_for_ready(answer) {
            // It is useless; should it live after all, the closing of its pipe ends it.
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed(error));
        }
        Ok(Self { child, pipe, program })
    }

    /// The same for one that holds the machine's lock as well, so that nobody else measures between the
    /// worker's death and the end of undoing.
    ///
    /// # Errors
    /// [`Error::Supervisor`].
    pub fn start_with(lock: &MachineLock, mut command: Command) -> Result<Self, Error> {
        inherit(&mut command, lock);
        Self::start(command)
    }

    /// Announces a process group that dies with this process. Call it right after its leader is started.
    ///
    /// # Errors
    /// [`Error::Supervisor`] where the supervisor is gone.
    pub fn group(&mut self, pgid: u32) -> Result<(), Error> {
        match lock::process(&LocalMachine, pgid) {
            Some(leader) => self.say(&format!("group {pgid} {}\n", leader.started)),
            // It has ended already.
            None => Ok(()),
        }
    }

    /// Says that a process group has ended.
    ///
    /// # Errors
    /// [`Error::Supervisor`] where the supervisor is gone.
    pub fn gone(&mut self, pgid: u32) -> Result<(), Error> {
        self.say(&format!("gone {pgid}\n"))
    }

    /// Says that everything is undone, and waits for the supervisor to end.
    ///
    /// # Errors
    /// [`Error::Supervisor`] where it is gone already, or does not end.
    pub fn done(mut self) -> Result<(), Error> {
        self.say("done\n")?;
        let Self { mut child, pipe, program } = self;
        drop(pipe);
        let deadline = Instant::now() + END;
        let failed = |source| Error::Supervisor { program: program.clone(), source };
        while child.try_wait().map_err(failed)?.is_none() {
            if Instant::now() >= deadline {
                return Err(failed(io::ErrorKind::TimedOut.into()));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn say(&mut self, line: &str) -> Result<(), Error> {
        let program = self.program.clone();
        self.pipe.write_all(line.as_bytes()).map_err(|source| Error::Supervisor { program, source })
    }
}

/// The child keeps the descriptor of the lock open until it ends, and never looks at it.
fn inherit(command: &mut Command, lock: &MachineLock) {
    let descriptor = lock.as_fd().as_raw_fd();
    let keep_open = move || {
        // SAFETY: the parent holds the lock until this program has replaced the forked process.
        let lock = unsafe { BorrowedFd::borrow_raw(descriptor) };
        Ok(fcntl_setfd(lock, FdFlags::empty())?)
    };
    // SAFETY: between fork and exec one system call is made, which is safe in any program.
    unsafe { command.pre_exec(keep_open) };
}

/// A thread reads, so that a program that never answers is given up.
fn wait_for_ready(answer: impl Read + Send + 'static) -> io::Result<()> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(answer.take(LONGEST_LINE)).read_line(&mut line);
        // Nobody listens any more where it came too late.
        let _ = sender.send(read.map(|_| line));
    });
    match receiver.recv_timeout(START) {
        Ok(Ok(line)) if line == READY => Ok(()),
        Ok(Ok(_)) => Err(io::Error::other("it ended or answered something else than `ready`")),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// How a worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It said that everything is undone.
    Done,
    /// It died, and was cleaned up after.
    Recovered {
        /// The process groups that were killed.
        killed: Vec<u32>,
        /// What undoing its changes came to.
        report: RestoreReport,
    },
}

/// The supervisor's own half: leaves the terminal's session, ignores its signals, says `ready`, listens on
/// `input` until the worker says `done` or dies, and cleans up after it.
///
/// # Errors
/// [`Error::Busy`] where the lock does not fall free; those of [`Ledger::open`].
pub fn supervise_main(
    input: impl BufRead,
    mut ready: impl Write,
    state: &Path,
    machine: &dyn Machine,
) -> Result<Ending, Error> {
    let failed = |what| move |source| Error::State { what, path: state.to_owned(), source };
    let workloads = Mark::of_parent();
    outlive_the_terminal().map_err(failed("leave the terminal while watching over"))?;
    // A worker that is dead before it could hear this has closed `input` as well.
    let _ = ready.write_all(READY.as_bytes()).and_then(|()| ready.flush());
    drop(ready);
    let groups = match listen(input) {
        Heard::Done => return Ok(Ending::Done),
        Heard::Silence(groups) => groups,
    };
    let killed = kill_groups(&groups, machine);
    if let Some(mark) = &workloads {
        workload::end(mark);
        // What the worker had begun to start when it died carries the mark only once it is started, and until
        // then has the worker's lock: whoever gets the lock sees all that is left.
        drop(lock::Lock::take(state, machine, LOCK)?);
        workload::end(mark);
    }
    let (_ledger, report) = Ledger::take_over(LOCK, state, machine, workloads)?;
    Ok(Ending::Recovered { killed, report })
}

/// How long what a dead recording left running may take to end, once asked, before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// As [`supervise_main`], over a recording, which changes nothing: where it dies, what it records is asked to
/// end, and killed where it does not. Returns how many processes that were; `None` where the recording said
/// `done`.
///
/// # Errors
/// Where it cannot leave the terminal.
pub fn watch_main(input: impl BufRead, mut ready: impl Write) -> io::Result<Option<usize>> {
    let workloads = Mark::of_parent();
    outlive_the_terminal()?;
    // A recording that is dead before it could hear this has closed `input` as well.
    let _ = ready.write_all(READY.as_bytes()).and_then(|()| ready.flush());
    drop(ready);
    if matches!(listen(input), Heard::Done) {
        return Ok(None);
    }
    // A parent that was dead at our start had started nothing yet.
    Ok(Some(workloads.map_or(0, |mark| {
        workload::end(&mark) + workload::ask_to_end(&mark.of_its_recorded_commands(), GRACE)
    })))
}

fn outlive_the_terminal() -> io::Result<()> {
    let heard = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        // Nobody looks at the flag: setting it takes the place of dying.
        signal_hook::flag::register(signal, Arc::clone(&heard))?;
    }
    // Fails where this process leads a group; then no signal reaches it but those above.
    let _ = setsid();
    Ok(())
}

enum Heard {
    Done,
    /// With the groups that were announced and have not ended, and when their leaders were started.
    Silence(BTreeMap<u32, u64>),
}

fn listen(mut input: impl BufRead) -> Heard {
    let mut groups = BTreeMap::new();
    loop {
        let mut line = String::new();
        match input.by_ref().take(LONGEST_LINE).read_line(&mut line) {
            Ok(0) | Err(_) => return Heard::Silence(groups),
            Ok(_) => {}
        }
        // Without its newline a line is torn: the worker died in the middle of it.
        let Some(line) = line.strip_suffix('\n') else { continue };
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["done"] => return Heard::Done,
            ["group", pgid, start] => {
                if let (Ok(pgid), Ok(start), true) = (pgid.parse(), start.parse(), groups.len() < MAX_GROUPS)
                {
                    groups.insert(pgid, start);
                }
            }
            ["gone", pgid] => {
                groups.retain(|known, _| pgid.parse() != Ok(*known));
            }
            _ => {}
        }
    }
}

/// Kills the groups that are still the announced ones, waits until they are dead, and returns them.
fn kill_groups(groups: &BTreeMap<u32, u64>, machine: &dyn Machine) -> Vec<u32> {
    // While any process is in a group, no new process gets its number. So a leader that was started at
    // another time means that the group is gone; a leader that is missing may have left processes behind.
    let ours = |(pgid, start): &(&u32, &u64)| {
        lock::process(machine, **pgid).is_none_or(|leader| leader.started == **start)
    };
    let as_pid = |pgid: u32| i32::try_from(pgid).ok().and_then(Pid::from_raw).filter(|p| !p.is_init());
    let kill = |(pgid, _): (&u32, &u64)| {
        let pid = as_pid(*pgid)?;
        kill_process_group(pid, Signal::KILL).ok().map(|()| *pgid)
    };
    let killed: Vec<u32> = groups.iter().filter(ours).filter_map(kill).collect();
    let deadline = Instant::now() + DEATH;
    while any_alive(&killed, machine) && Instant::now() < deadline {
        std::thread::sleep(POLL);
    }
    killed
}

/// Whether a process of these groups still runs. Asking by a signal would count zombies as well.
fn any_alive(groups: &[u32], machine: &dyn Machine) -> bool {
    if groups.is_empty() {
        return false;
    }
    let pids = numbered(machine, "/proc", "").into_iter().filter_map(|pid| pid.parse().ok());
    let mut processes = pids.filter_map(|pid| lock::process(machine, pid));
    processes.any(|process| groups.contains(&process.group) && !process.is_zombie())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(text: &str) -> Option<Vec<(u32, u64)>> {
        match listen(text.as_bytes()) {
            Heard::Done => None,
            Heard::Silence(groups) => Some(groups.into_iter().collect()),
        }
    }

    #[test]
    fn only_the_whole_word_done_ends_the_watch() {
        assert_eq!(heard("group 5 77\ndone\n"), None);
        assert_eq!(heard("done"), Some(vec![]));
        assert_eq!(heard("undone\n"), Some(vec![]));
        assert_eq!(heard(""), Some(vec![]));
    }

    #[test]
    fn a_group_that_is_gone_or_torn_is_not_killed() {
        assert_eq!(heard("group 5 77\ngroup 6 78\ngone 5\ngroup 7 7"), Some(vec![(6, 78)]));
        assert_eq!(heard(&format!("{}\ngroup 6 78\n", "x".repeat(1000))), Some(vec![(6, 78)]));
    }
}
