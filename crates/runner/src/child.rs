//! One child process, held within bounds: its time, its output, its life.
//!
//! - It leads a process group of its own, so that a Ctrl-C at the terminal reaches only Flyball, and so that
//!   everything it started can be ended with it.
//! - It dies with the thread that started it (`PR_SET_PDEATHSIG`, prctl(2)): a `kill -9` of Flyball does not
//!   leave the workload running. Its own children are not covered by that; Flyball's supervisor ends those.
//! - It carries a mark in its environment ([`machine::workload`]), by which its children are found and ended
//!   that left the group, as fio's jobs do.
//! - Its output goes to files, not to memory, up to [`MAX_PRINTED`].

use crate::beside::Beside;
use crate::marks::Marks;
use crate::{Error, Readable};
use domain::Nanos;
use domain::units::Bytes;
use machine::workload::{self, Mark};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, kill_process_group, pidfd_open};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a running child's interruption and output are looked at, at the most and at the least: as often
/// as the recorder samples. Ten wake-ups a second are below what an idle kernel does by itself, and Ctrl-C
/// feels immediate; a study that samples seldom, because its machine is slow, is not to be woken more often
/// by this. The child's end is seen at once, through its pidfd.
const LOOK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// What a child gets between SIGTERM and SIGKILL: fio with deep queues takes about a second to end.
pub const GRACE: Duration = Duration::from_secs(3);

/// How long a killed child is waited for: one that is still there sits in the kernel, on a device that does
/// not answer, and may sit there for ever.
pub const LAST_WAIT: Duration = Duration::from_secs(10);

/// What a child may print, standard output and error together: the longest report known, fio's json+ with
/// hundreds of jobs, is below 100 MiB, and a disk is not filled with garbage.
pub const MAX_PRINTED: Bytes = Bytes::from_mib(256);

/// What is kept of each stream of a child that printed more: enough to see what it was, in a notebook that is
/// kept.
const KEPT_OF_TOO_MUCH: Bytes = Bytes::from_mib(1);

/// What is run, and within which bounds.
pub struct Task<'a> {
    /// Program and arguments.
    pub argv: &'a [String],
    /// The folder it runs in; `None` for that of Flyball.
    pub folder: Option<&'a Path>,
    /// Where its standard output goes.
    pub stdout: PathBuf,
    /// Where its standard error goes.
    pub stderr: PathBuf,
    /// Its limit on open files: the recorder raises that of Flyball, and a workload must run as it does by
    /// itself.
    pub descriptors: Rlimit,
    /// What it finds in its environment besides.
    pub environment: &'a [(String, String)],
    /// How often the recorder samples.
    pub interval: Nanos,
    /// How long it may take.
    pub timeout: Nanos,
    /// Set by somebody else when it is to be ended.
    pub interrupt: &'a AtomicBool,
    /// What it is ended with, once one of them does not run as it should.
    pub beside: &'a Beside,
    /// What it reads, and writes to nothing but its report then; none where what it works on is Flyball's
    /// own.
    pub only_reads: Option<&'a Readable>,
    /// Where it marks what it does, in the recording of it; none where it is not recorded.
    pub marks: Option<&'a Marks>,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal that was not ours.
    Killed(i32),
    /// By us, because its time was over.
    TimedOut,
    /// By us, because it printed too much.
    PrintedTooMuch,
    /// By us, because somebody asked us to stop.
    Interrupted,
    /// By us, because a load beside it did not run any more.
    Abandoned,
}

/// What a child left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How it ended.
    pub how: How,
    /// From just before its start to its end, on a monotonic clock.
    pub elapsed: Nanos,
    /// User time of it and all descendants that were waited for (getrusage(2)).
    pub user: Nanos,
    /// System time, likewise.
    pub system: Nanos,
}

/// Runs a child to its end, whichever that is. `started` is told its process id, which is also its group's.
///
/// # Errors
/// [`Error::MissingTool`] where there is no such program, [`Error::File`] where its output cannot be stored,
/// [`Error::Child`] where it cannot be started or does not die.
///
/// # Panics
/// Where `argv` is empty.
pub fn run(task: &Task<'_>, started: &mut dyn FnMut(u32)) -> Result<Ended, Error> {
    let running = start(task)?;
    started(running.pid());
    running.finish(task)
}

/// Starts a child, which dies with this value.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// Where `argv` is empty.
pub(crate) fn start(task: &Task<'_>) -> Result<Running, Error> {
    let (program, arguments) = task.argv.split_first().expect("a command has at least a program");
    let stdout = File::create(&task.stdout).map_err(|e| Error::file("create", &task.stdout, e))?;
    let stderr = File::create(&task.stderr).map_err(|e| Error::file("create", &task.stderr, e))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    command.env("LC_ALL", "C").env_remove("LANGUAGE").process_group(0);
    forget_settings(&mut command);
    command.envs(task.environment.iter().map(|(name, value)| (name, value)));
    if let Some(folder) = task.folder {
        command.current_dir(folder);
    }
    let mark = Mark::new();
    command.env(workload::VARIABLE, mark.as_str());
    if let Some(marks) = task.marks {
        marks.tell(&mut command);
    }
    prepare(&mut command, task.descriptors);
    if let (Some(readable), Some(report)) = (task.only_reads, task.stdout.parent()) {
        readable.hold(&mut command, report)?;
    }

    let begin = Instant::now();
    let child = command.spawn().map_err(|e| spawn_error(program, e))?;
    let output = [task.stdout.clone(), task.stderr.clone()];
    let pid = Pid::from_child(&child);
    let mut running =
        Running { program: program.clone(), pid, pidfd: None, mark, output, begin, ended: None };
    let pidfd = pidfd_open(pid, PidfdFlags::empty());
    running.pidfd = Some(pidfd.map_err(|e| Error::child("watch", program, e.into()))?);
    Ok(running)
}

/// What somebody has set for the databases of their own does not reach ours (PostgreSQL's documentation,
/// "Environment Variables" of libpq; MariaDB's, "MariaDB Environment Variables").
pub(crate) fn forget_settings(command: &mut Command) {
    const NAMES: [&str; 15] = [
        "PGCHANNELBINDING",
        "PGDATA",
        "PGDATABASE",
        "PGHOSTADDR",
        "PGOPTIONS",
        "PGPASSFILE",
        "PGPASSWORD",
        "PGREQUIREAUTH",
        "PGSERVICE",
        "PGSSLMODE",
        "PGTARGETSESSIONATTRS",
        "MYSQL_HOME",
        "MYSQL_PWD",
        "MYSQL_TCP_PORT",
        "MYSQL_UNIX_PORT",
    ];
    for name in NAMES {
        command.env_remove(name);
    }
}

/// A child that has not been waited for. Until it has, its group's number is not given to anybody else.
#[derive(Debug)]
pub(crate) struct Running {
    program: String,
    pid: Pid,
    pidfd: Option<OwnedFd>,
    mark: Mark,
    /// Its standard output and error.
    output: [PathBuf; 2],
    begin: Instant,
    /// Once it has been waited for.
    ended: Option<Ended>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.signal(Signal::KILL);
            workload::end(&self.mark);
            // One that does not end, even so, is not waited for; whoever drops it has worse to tell.
            if self.pidfd.is_none() || self.ended_within(LAST_WAIT).unwrap_or_default() {
                let _ = self.reap();
            }
        }
    }
}

impl Running {
    /// Its process id, which is its group's as well.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Its program, as it was started.
    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    fn finish(mut self, task: &Task<'_>) -> Result<Ended, Error> {
        let cause = self.watch(task)?;
        self.take_away(cause)
    }

    /// Ends it with all that it started, by SIGTERM first: some programs then tell what they did. Where it
    /// still ran, [`Ended::how`] is [`How::Interrupted`] or [`How::PrintedTooMuch`].
    pub(crate) fn stop(mut self) -> Result<Ended, Error> {
        if self.ended_within(Duration::ZERO)? {
            return self.take_away(None);
        }
        let cause = if self.has_printed_too_much() { How::PrintedTooMuch } else { How::Interrupted };
        self.end()?;
        self.take_away(Some(cause))
    }

    /// Kills what is left of it and of what it started, and waits for it. `cause`: why it was ended, where we
    /// did that.
    fn take_away(&mut self, cause: Option<How>) -> Result<Ended, Error> {
        let elapsed = nanos(self.begin.elapsed());
        self.signal(Signal::KILL);
        let (status, usage) = self.reap()?;
        workload::end(&self.mark);
        let how = match cause {
            Some(how) => how,
            None if libc::WIFSIGNALED(status) => How::Killed(libc::WTERMSIG(status)),
            None => How::Exited(libc::WEXITSTATUS(status)),
        };
        let (user, system) = (time_of(usage.ru_utime), time_of(usage.ru_stime));
        let ended = Ended { how, elapsed, user, system };
        self.ended = Some(ended);
        if how == How::PrintedTooMuch {
            self.output.iter().try_for_each(|path| shorten(path))?;
        }
        Ok(ended)
    }

    /// Whether it printed more than it may.
    pub(crate) fn has_printed_too_much(&self) -> bool {
        let size = |path: &PathBuf| path.metadata().map_or(0, |m| m.len());
        self.output.iter().map(size).sum::<u64>() > MAX_PRINTED.get()
    }

    /// Waits for the end; where we had to bring it about, says why.
    fn watch(&self, task: &Task<'_>) -> Result<Option<How>, Error> {
        let timeout = Duration::from(task.timeout);
        let look = Duration::from(task.interval).clamp(LOOK.0, LOOK.1);
        loop {
            let left = timeout.saturating_sub(self.begin.elapsed());
            if self.ended_within(left.min(look))? {
                return Ok(None);
            }
            let cause = if task.interrupt.load(Ordering::Relaxed) {
                How::Interrupted
            } else if self.begin.elapsed() >= timeout {
                How::TimedOut
            } else if self.has_printed_too_much() {
                How::PrintedTooMuch
            } else if !task.beside.all_run() {
                How::Abandoned
            } else {
                continue;
            };
            self.end()?;
            return Ok(Some(cause));
        }
    }

    /// SIGTERM, and SIGKILL for what does not heed it.
    fn end(&self) -> Result<(), Error> {
        self.signal(Signal::TERM);
        if self.ended_within(GRACE)? {
            return Ok(());
        }
        self.signal(Signal::KILL);
        if self.ended_within(LAST_WAIT)? {
            return Ok(());
        }
        Err(Error::Tool(format!(
            "`{}` (process {}) does not end, even by SIGKILL: it waits inside the kernel, most likely for a device \
             that does not answer; see /proc/{}/stack",
            self.program,
            self.pid.as_raw_nonzero(),
            self.pid.as_raw_nonzero(),
        )))
    }

    /// Whether it ends within that time.
    pub(crate) fn ended_within(&self, span: Duration) -> Result<bool, Error> {
        let pidfd = self.pidfd.as_ref().expect("a child is watched only once its pidfd is open");
        let deadline = Instant::now() + span;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).expect("waits are a few seconds");
            match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                // A signal to us may be the interruption: let the caller look.
                Err(rustix::io::Errno::INTR) if left < LOOK.0 => return Ok(false),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(Error::child("wait for", &self.program, e.into())),
            }
        }
    }

    /// Signals the whole group; that it is gone already is what we want.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
    }

    fn reap(&self) -> Result<(i32, libc::rusage), Error> {
        let mut status = 0;
        // SAFETY: a rusage is plain integers, for which zeros are a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        loop {
            // SAFETY: both pointers are to locals that live through the call. (rustix has no wait4.)
            let got = unsafe { libc::wait4(self.pid.as_raw_nonzero().get(), &mut status, 0, &mut usage) };
            if got >= 0 {
                return Ok((status, usage));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(Error::child("wait for", &self.program, error));
            }
        }
    }
}

/// Keeps the beginning of a file.
fn shorten(path: &Path) -> Result<(), Error> {
    let shorten = || {
        let file = File::options().write(true).open(path)?;
        let length = file.metadata()?.len();
        file.set_len(length.min(KEPT_OF_TOO_MUCH.get()))
    };
    shorten().map_err(|e| Error::file("shorten", path, e))
}

pub(crate) fn prepare(command: &mut Command, descriptors: Rlimit) {
    let parent = rustix::process::getpid();
    let prepare = move || {
        rustix::process::setrlimit(Resource::Nofile, descriptors)?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have died before the line above took effect.
        if rustix::process::getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    };
    // SAFETY: between fork and exec only system calls are made, which is safe in any program.
    unsafe { command.pre_exec(prepare) };
}

pub(crate) fn spawn_error(program: &str, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::NotFound {
        return Error::missing(program);
    }
    Error::child("start", program, error)
}

fn nanos(span: Duration) -> Nanos {
    Nanos::new(u64::try_from(span.as_nanos()).expect("a child runs for less than 584 years"))
}

fn time_of(time: libc::timeval) -> Nanos {
    Nanos::from_micros(time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn argv(words: &[&str]) -> Vec<String> {
        words.iter().map(|w| (*w).to_owned()).collect()
    }

    fn run_here(
        words: &[&str],
        timeout: Nanos,
        interrupt: &AtomicBool,
    ) -> (Result<Ended, Error>, String, u32) {
        let folder = tempfile::tempdir().unwrap();
        let argv = argv(words);
        let stdout = folder.path().join("stdout");
        let task = Task {
            argv: &argv,
            folder: Some(folder.path()),
            stdout: stdout.clone(),
            stderr: folder.path().join("stderr"),
            descriptors: Rlimit { current: Some(77), maximum: Some(77) },
            environment: &[],
            interval: Nanos::from_millis(10),
            timeout,
            interrupt,
            beside: &Beside::default(),
            only_reads: None,
            marks: None,
        };
        let mut group = 0;
        let ended = run(&task, &mut |pid| group = pid);
        (ended, std::fs::read_to_string(stdout).unwrap_or_default(), group)
    }

    /// Whether nothing of it runs any more; what is dead and not yet reaped by init does not count.
    fn group_is_gone(group: u32) -> bool {
        let alive = |stat: String| {
            let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').map(str::to_owned).collect();
            fields[2] == group.to_string() && !["Z", "X"].contains(&fields[0].as_str())
        };
        let runs = || {
            let stats = std::fs::read_dir("/proc").unwrap().flatten();
            stats.filter_map(|e| std::fs::read_to_string(e.path().join("stat")).ok()).any(alive)
        };
        // A killed process needs a moment to die.
        (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            !runs()
        })
    }

    const LONG: Nanos = Nanos::from_secs(30);

    #[test]
    fn output_exit_code_and_cpu_time_come_back_from_the_environment_that_was_asked_for() {
        let script = "echo $LC_ALL $(ulimit -n); i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3";
        let (ended, stdout, _) = run_here(&["sh", "-c", script], LONG, &AtomicBool::new(false));
        let ended = ended.unwrap();
        assert_eq!((ended.how, stdout.as_str()), (How::Exited(3), "C 77\n"));
        assert!(ended.user + ended.system > Nanos::ZERO);
        assert!(ended.user + ended.system <= ended.elapsed + Nanos::from_millis(20), "{ended:?}");
    }

    #[test]
    fn a_child_that_hangs_is_ended_with_all_that_it_started() {
        let (ended, _, group) = run_here(
            &["sh", "-c", "sleep 1000 & sleep 1000"],
            Nanos::from_millis(200),
            &AtomicBool::new(false),
        );
        assert_eq!(ended.unwrap().how, How::TimedOut);
        assert!(group_is_gone(group));
    }

    #[test]
    fn a_child_that_ignores_sigterm_is_killed() {
        let script = "trap '' TERM; while :; do sleep 1; done";
        let (ended, _, group) =
            run_here(&["sh", "-c", script], Nanos::from_millis(200), &AtomicBool::new(false));
        assert_eq!(ended.unwrap().how, How::TimedOut);
        assert!(group_is_gone(group));
    }

    #[test]
    fn what_a_child_leaves_running_in_the_background_is_ended() {
        let (ended, _, group) = run_here(&["sh", "-c", "sleep 1000 &"], LONG, &AtomicBool::new(false));
        assert_eq!(ended.unwrap().how, How::Exited(0));
        assert!(group_is_gone(group));
    }

    #[test]
    fn an_interruption_ends_it() {
        let interrupt = Arc::new(AtomicBool::new(false));
        let setter = Arc::clone(&interrupt);
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(150));
            setter.store(true, Ordering::Relaxed);
        });
        let (ended, _, group) = run_here(&["sleep", "1000"], LONG, &interrupt);
        thread.join().unwrap();
        assert_eq!(ended.unwrap().how, How::Interrupted);
        assert!(group_is_gone(group));
    }

    #[test]
    fn a_kill_by_somebody_else_is_told_apart() {
        let (ended, _, _) = run_here(&["sh", "-c", "kill -9 $$"], LONG, &AtomicBool::new(false));
        assert_eq!(ended.unwrap().how, How::Killed(9));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let (ended, _, _) = run_here(&["no-such-program"], LONG, &AtomicBool::new(false));
        assert_eq!(
            ended.unwrap_err().to_string(),
            "cannot run `no-such-program`: there is no such program in PATH; install it, or give its whole path in the study"
        );
    }

    #[test]
    fn what_left_its_group_is_ended_as_well() {
        let script = "setsid sh -c 'echo $$; exec sleep 1000' & sleep 0.5";
        let (ended, stdout, _) = run_here(&["sh", "-c", script], LONG, &AtomicBool::new(false));
        assert_eq!(ended.unwrap().how, How::Exited(0));
        let pid: u32 = stdout.trim().parse().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        assert!(stat.as_ref().map_or(true, |s| s.contains(") Z ")), "{stat:?}");
    }

    #[test]
    fn garbage_without_end_is_stopped() {
        let (ended, _, _) = run_here(&["head", "-c", "400M", "/dev/zero"], LONG, &AtomicBool::new(false));
        // 400 MiB may be written between two looks; the child then ends by itself.
        let how = ended.unwrap().how;
        assert!(matches!(how, How::PrintedTooMuch | How::Exited(0)), "{how:?}");
        let (ended, stdout, _) = run_here(&["yes"], LONG, &AtomicBool::new(false));
        assert_eq!(ended.unwrap().how, How::PrintedTooMuch);
        assert_eq!(stdout.len() as u64, KEPT_OF_TOO_MUCH.get());
    }
}
