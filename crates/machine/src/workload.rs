//! Ending a workload with everything that it started, also what left its process group: fio's job processes
//! each begin a session of their own (setsid(2) in fio's `backend.c`), and survive the death of the fio that
//! started them.
//!
//! Every process of a workload carries a mark in its environment, which children inherit and another user's
//! processes cannot have. A process that clears its environment escapes; of the process group that it leads
//! or stays in, the caller takes care.

use crate::lock::{Process, process};
use crate::settings::numbered;
use crate::{LocalMachine, Machine};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The variable that holds the mark.
pub const VARIABLE: &str = "FLYBALL_WORKLOAD";

/// How long killed processes may take to die: one that waits for a disk dies only when the disk answers.
const DEATH: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);

/// How long execve(2) may take to lay out an environment: a page fault or two, on a machine that is out of
/// memory.
const EXECUTION: Duration = Duration::from_millis(500);
const EXECUTION_POLL: Duration = Duration::from_micros(200);

/// Begins the marks of recorded commands. What such a command leaves running when it ends by itself is its
/// owner's, and [`end_orphans`] must never take it for a workload.
const RECORDED: &str = "recorded.";

/// What the processes of one workload carry, `PID.START.COUNT.`, or those of all workloads of one Flyball,
/// `PID.START.`: with its start, a process's id names one process and no other. A recorded command's begins
/// with `recorded.`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(String);

impl Mark {
    /// A mark that no other workload has.
    #[expect(clippy::new_without_default, reason = "no two are equal, and a default would be")]
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let Self(all) = Self::of_all(std::process::id());
        Self(format!("{all}{}.", COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    /// A mark for a command that is recorded.
    pub fn of_recorded_command() -> Self {
        Self(format!("{RECORDED}{}", Self::new().0))
    }

    /// What all workloads carry that this process's parent starts; `None` where it is dead.
    pub(crate) fn of_parent() -> Option<Self> {
        let parent = getppid().filter(|p| !p.is_init())?;
        Some(Self::of_all(parent.as_raw_nonzero().get().unsigned_abs()))
    }

    /// What all workloads carry that this process starts.
    pub(crate) fn of_this_process() -> Self {
        Self::of_all(std::process::id())
    }

    /// Of the commands that the owner of these workloads records.
    pub(crate) fn of_its_recorded_commands(&self) -> Self {
        Self(format!("{RECORDED}{}", self.0))
    }

    fn of_all(pid: u32) -> Self {
        let started = process(&LocalMachine, pid).map_or(0, |p| p.started);
        Self(format!("{pid}.{started}."))
    }

    /// The value of [`VARIABLE`].
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The mark that a process carries.
    fn carried_by(pid: u32) -> Option<Self> {
        let at = |name: &str| format!("/proc/{pid}/{name}");
        // In another container the same numbers are other processes.
        let namespace = |path: &str| LocalMachine.link(Path::new(path)).ok();
        if namespace(&at("ns/pid"))? != namespace("/proc/self/ns/pid")? {
            return None;
        }
        let environment = environment(pid)?;
        let prefix = format!("{VARIABLE}=");
        let mut variables = environment.split(|byte| *byte == 0);
        let mark = variables.find_map(|variable| variable.strip_prefix(prefix.as_bytes()))?;
        Some(Self(String::from_utf8_lossy(mark).into_owned()))
    }

    /// Whether a process carries this mark, as far as we may look.
    pub fn is_carried_by(&self, pid: u32) -> bool {
        Self::carried_by(pid).is_some_and(|mark| mark.0.starts_with(&self.0))
    }

    /// What all workloads carry of the Flyball that made this mark, where that one is dead.
    fn of_dead_owner(&self) -> Option<Self> {
        let mut parts = self.0.split('.');
        let (pid, start): (u32, u64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let lives = process(&LocalMachine, pid).is_some_and(|p| p.started == start && !p.is_zombie());
        (!lives).then(|| Self(format!("{pid}.{start}.")))
    }
}

/// Kills every process that carries the mark, and waits until they are dead, ten seconds at the most. Returns
/// how many there were.
pub fn end(mark: &Mark) -> usize {
    let deadline = Instant::now() + DEATH;
    let mut killed = BTreeMap::new();
    loop {
        // One that is killed may just have started another: until a look finds none, it is not over.
        let found: Vec<u32> = others().filter(|pid| mark.is_carried_by(*pid)).collect();
        for pid in &found {
            killed.entry(*pid).or_insert_with(|| process(&LocalMachine, *pid).map(|p| p.started));
            send(Signal::KILL, *pid, |pid| mark.is_carried_by(pid));
        }
        let alive = |(pid, started): (&u32, &Option<u64>)| {
            process(&LocalMachine, *pid).is_some_and(|p| Some(p.started) == *started && !p.is_zombie())
        };
        if (found.is_empty() && !killed.iter().any(alive)) || Instant::now() >= deadline {
            return killed.len();
        }
        std::thread::sleep(POLL);
    }
}

/// Asks every process that carries the mark to end, and kills what still runs after `grace`. Returns how many
/// there were.
pub fn ask_to_end(mark: &Mark, grace: Duration) -> usize {
    let deadline = Instant::now() + grace;
    let mut asked = BTreeSet::new();
    loop {
        let found: Vec<u32> = others().filter(|pid| mark.is_carried_by(*pid)).collect();
        if found.is_empty() {
            return asked.len();
        }
        if Instant::now() >= deadline {
            return asked.len().max(end(mark));
        }
        // Once each: to many programs a second request means that they must not tidy up.
        for pid in found.into_iter().filter(|pid| asked.insert(*pid)) {
            send(Signal::TERM, pid, |pid| mark.is_carried_by(pid));
        }
        std::thread::sleep(POLL);
    }
}

/// Lets the kernel send this signal to the program when the thread that starts it dies.
pub fn dies_with_us(command: &mut Command, signal: Signal) {
    let us = rustix::process::getpid();
    let ask_for_the_signal = move || {
        rustix::process::set_parent_process_death_signal(Some(signal))?;
        // Died before it was asked for, a parent sends none.
        if getppid() == Some(us) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
    };
    // SAFETY: between fork and exec only system calls are made, which are safe in any program.
    unsafe { command.pre_exec(ask_for_the_signal) };
}

/// Leaves a descriptor of ours open in what a command executes, under the same number.
pub fn inherits(command: &mut Command, descriptor: &OwnedFd) {
    let number = descriptor.as_raw_fd();
    let keep_open = move || {
        // SAFETY: the child's copy is open: the caller's was when the child was forked.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        Ok(fcntl_setfd(descriptor, FdFlags::empty())?)
    };
    // SAFETY: between fork and exec only a system call is made, which is safe in any program.
    unsafe { command.pre_exec(keep_open) };
}

/// Ends what is left of the workloads of every Flyball that is dead, and whose supervisor died with it.
/// Returns how many processes there were.
pub fn end_orphans() -> usize {
    let marks: BTreeSet<Mark> =
        others().filter_map(Mark::carried_by).filter_map(|mark| mark.of_dead_owner()).collect();
    marks.iter().map(end).sum()
}

/// Kills every process that executes this program with its working directory in this folder, and waits until
/// they are dead, ten seconds at the most. Returns how many there were. Both are paths without links.
pub(crate) fn end_working_in(program: &str, folder: &str) -> usize {
    let deadline = Instant::now() + DEATH;
    let mut killed = BTreeSet::new();
    loop {
        let found: Vec<u32> = others().filter(|pid| is_at_work(*pid, program, folder)).collect();
        for pid in &found {
            killed.insert(*pid);
            send(Signal::KILL, *pid, |pid| is_at_work(pid, program, folder));
        }
        if found.is_empty() || Instant::now() >= deadline {
            return killed.len();
        }
        std::thread::sleep(POLL);
    }
}

/// Whether there is such a process.
pub(crate) fn works_in(program: &str, folder: &str) -> bool {
    others().any(|pid| is_at_work(pid, program, folder))
}

/// The dead have neither a program nor a folder.
fn is_at_work(pid: u32, program: &str, folder: &str) -> bool {
    let link = |name: &str| LocalMachine.link(Path::new(&format!("/proc/{pid}/{name}"))).ok();
    // An upgrade replaces a program's file, and a folder may be removed under the process.
    let plain = |path: std::path::PathBuf| {
        let path = path.to_string_lossy().into_owned();
        path.strip_suffix(" (deleted)").map_or(path.clone(), str::to_owned)
    };
    link("exe").map(plain).as_deref() == Some(program)
        && link("cwd").map(plain).is_some_and(|cwd| Path::new(&cwd).starts_with(folder))
}

/// What it was started with. Nobody may look into the processes of others; a dead one has no environment any
/// more.
///
/// While a process becomes another program, `/proc/PID/environ` may be empty or end too soon: between the
/// moment when execve(2) closes the caller's descriptors, and with them the lock that a recovery waits for,
/// and the one when it has laid out the new environment; and to a reader that opened the file before that,
/// whose memory is then gone (fs/proc/base.c, fs/exec.c). What is not as long as the process says is read
/// again.
fn environment(pid: u32) -> Option<Vec<u8>> {
    let path = format!("/proc/{pid}/environ");
    let deadline = Instant::now() + EXECUTION;
    loop {
        let environment = LocalMachine.read(Path::new(&path)).ok()?;
        // Asked after it was read: whatever it has become since, what was read is all of one environment.
        let is_whole = |process: Process| process.environment == Some(environment.len() as u64);
        if process(&LocalMachine, pid).is_none_or(is_whole) || Instant::now() >= deadline {
            return Some(environment);
        }
        std::thread::sleep(EXECUTION_POLL);
    }
}

fn others() -> impl Iterator<Item = u32> {
    let own = std::process::id();
    let pids = numbered(&LocalMachine, "/proc", "").into_iter().filter_map(|pid| pid.parse().ok());
    pids.filter(move |pid| *pid != own)
}

/// Through a descriptor: between the look and the signal the id may have become another process's.
fn send(signal: Signal, pid: u32, is_meant: impl Fn(u32) -> bool) {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(descriptor) = pidfd_open(raw, PidfdFlags::empty()) else { return };
    if is_meant(pid) {
        // That it has ended meanwhile is what we want.
        let _ = pidfd_send_signal(&descriptor, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Stdio};

    fn start(mark: &str) -> Child {
        // In a session of its own, as a job of fio is.
        Command::new("setsid").args(["sleep", "1000"]).env(VARIABLE, mark).spawn().unwrap()
    }

    fn is_alive(child: &mut Child) -> bool {
        child.try_wait().unwrap().is_none()
    }

    #[test]
    fn only_what_carries_the_mark_is_ended() {
        let (mark, other) = (Mark::new(), Mark::new());
        let (mut ours, mut another) = (start(mark.as_str()), start(other.as_str()));
        // Until it has been started it carries the mark of the one that starts it: none.
        while !mark.is_carried_by(ours.id()) || !other.is_carried_by(another.id()) {
            std::thread::sleep(POLL);
        }
        assert_eq!(end(&mark), 1);
        assert!(!is_alive(&mut ours) && is_alive(&mut another));
        assert_eq!(end_orphans(), 0, "the one that started it lives");
        assert!(is_alive(&mut another));
        another.kill().unwrap();
        another.wait().unwrap();
    }

    #[test]
    fn a_process_carries_its_mark_also_while_it_becomes_another_program() {
        let mark = Mark::new();
        // It becomes a new shell as fast as it can, each of which inherits the mark.
        let mut restless = Command::new("sh");
        let script = r#"exec sh -c "$0" "$0""#;
        let mut restless =
            restless.args(["-c", script, script]).env(VARIABLE, mark.as_str()).spawn().unwrap();
        while !mark.is_carried_by(restless.id()) {
            std::thread::sleep(POLL);
        }
        let unseen = (0..5000).filter(|_| !mark.is_carried_by(restless.id())).count();
        assert_eq!((unseen, end(&mark)), (0, 1));
        assert_eq!(restless.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn a_recorded_command_is_asked_first_and_what_one_left_running_is_no_orphan() {
        let mut dead = Command::new("sleep").arg("1000").spawn().unwrap();
        let mark = Mark(format!("{}0.", Mark::of_all(dead.id()).of_its_recorded_commands().0));
        let deaf_script = ["-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"];
        let mut polite = start(mark.as_str());
        let mut deaf = Command::new("sh");
        let mut deaf =
            deaf.args(deaf_script).env(VARIABLE, mark.as_str()).stdout(Stdio::piped()).spawn().unwrap();
        // Until it has set its trap it hears like any other.
        let mut said = [0; 4];
        deaf.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        dead.kill().unwrap();
        dead.wait().unwrap();
        while !mark.is_carried_by(polite.id()) || !mark.is_carried_by(deaf.id()) {
            std::thread::sleep(POLL);
        }
        end_orphans();
        assert!(is_alive(&mut polite) && is_alive(&mut deaf), "what somebody recorded is his");
        assert!(ask_to_end(&mark, Duration::from_secs(2)) >= 2);
        let signal = |child: &mut Child| child.wait().unwrap().signal();
        assert_eq!((signal(&mut polite), signal(&mut deaf)), (Some(15), Some(9)));
    }

    #[test]
    fn what_a_dead_flyball_left_is_ended() {
        let mut dead = Command::new("sleep").arg("1000").spawn().unwrap();
        let mark = format!("{}0.", Mark::of_all(dead.id()).0);
        let mut left = start(&mark);
        while Mark::carried_by(left.id()).is_none() {
            std::thread::sleep(POLL);
        }
        dead.kill().unwrap();
        dead.wait().unwrap();
        end_orphans();
        assert!(!is_alive(&mut left));
    }
}
