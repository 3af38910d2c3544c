//! What is recorded, from its begin to its end: the machine, a command that is started for it, or a process
//! that was running before.
//!
//! Invariant: a command and all that it started have ended when following it ends; a process that was
//! running before is only looked at.

use crate::marks::Marks;
use crate::tail::Tail;
use machine::workload::{self, Mark};
use parse::proc::pid_stat::pid_stat;
use recorder::Recorder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the end is looked for: ten wake-ups a second are below what an idle kernel does.
const LOOK: Duration = Duration::from_millis(100);

/// How long an interrupted command may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Why something cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for is not there, or is not to be followed; the text says what to do.
    #[error("{0}")]
    Refused(String),
    /// The system refused.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was attempted, on what.
        doing: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: what was attempted.
    fn io<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source: source.into() }
    }
}

type Result<T> = std::result::Result<T, Error>;

/// What is recorded.
#[derive(Debug)]
pub enum Watched<'a> {
    /// Whatever the machine does.
    Machine,
    /// A command, which is started.
    Command(&'a [String]),
    /// A process that was running before.
    Process(Process),
    /// The process of a server that is watched. Where the server is started again, recording goes on.
    Server(Process),
}

/// What a command reads from and prints to.
#[derive(Clone, Copy, Debug)]
pub enum Streams<'a> {
    /// Our own streams.
    Ours,
    /// It has nothing to read, and the last of what it prints is kept.
    Kept(&'a Tail),
}

/// How a recording ended.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// That of the command; `None` where there was none.
    pub status: Option<ExitStatus>,
    /// Whether the command or process ended before anybody stopped the recording.
    pub by_itself: bool,
}

impl Ending {
    /// The code of a command that failed, as a shell gives it: 128 and the number of the signal where one
    /// ended it. `None` where none failed.
    pub fn failure(&self) -> Option<i32> {
        let status = self.status.filter(|status| !status.success())?;
        status.code().or_else(|| Some(128 + status.signal()?)).or(Some(1))
    }
}

impl<'a> Watched<'a> {
    /// A process where there is one, else a command where it has a word, else the process of a server where
    /// it is known, else the machine.
    ///
    /// # Errors
    /// Where a process cannot be followed.
    pub fn of(pid: Option<u32>, command: &'a [String], server: Option<u32>) -> Result<Self> {
        match (pid, server) {
            (Some(pid), _) => Ok(Self::Process(Process::open(pid)?)),
            (None, _) if !command.is_empty() => Ok(Self::Command(command)),
            (None, Some(server)) => Ok(Self::Server(Process::open(server)?)),
            (None, None) => Ok(Self::Machine),
        }
    }

    /// Starts the command, or follows the process, until it ends, the time is over or somebody asks us to
    /// stop. A command is told where it can mark what it does.
    ///
    /// # Errors
    /// Where the command cannot be started or waited for.
    pub fn follow(
        &self,
        until: &Until<'_>,
        recorder: &Recorder,
        marks: Option<&Marks>,
        streams: Streams<'_>,
    ) -> Result<Ending> {
        match self {
            Self::Machine => Ok(wait_for(until)),
            Self::Server(process) => {
                process.begin(recorder)?;
                Ok(wait_for(until))
            }
            Self::Command(argv) => run(argv, until, recorder, marks, streams),
            Self::Process(process) => process.follow(until, recorder),
        }
    }
}

/// When a recording is over, whatever is recorded.
#[derive(Debug)]
pub struct Until<'a> {
    interrupt: &'a AtomicBool,
    deadline: Option<Instant>,
}

impl<'a> Until<'a> {
    /// After a time, where there is one, or an interruption.
    pub fn new(interrupt: &'a AtomicBool, time: Option<Duration>) -> Self {
        Self { interrupt, deadline: time.and_then(|time| Instant::now().checked_add(time)) }
    }

    fn is_over(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn next_look(&self) -> Duration {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(LOOK, |left| left.min(LOOK))
    }
}

/// A process that was running before. Its descriptor stays that process's alone: where its number is given to
/// another, nobody follows that one.
#[derive(Debug)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name, as `/proc/PID/comm` has it.
    pub name: String,
    pidfd: OwnedFd,
}

impl Process {
    /// # Errors
    /// Where there is no such process, or it is one that is not to be followed.
    pub(crate) fn open(pid: u32) -> Result<Self> {
        let refuse = |why: String| Error::Refused(format!("cannot follow process {pid}: {why}"));
        let missing = || refuse("there is none; `pgrep -l NAME` finds one by its name".to_owned());
        if pid == std::process::id() {
            return Err(refuse("it is this recording itself; leave --pid out to record the machine".into()));
        }
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(missing)?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| missing())?;
        let leader = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
        if let Some(leader) = leader.filter(|leader: &u32| *leader != pid) {
            return Err(refuse(format!("it is a thread of process {leader}; write --pid {leader}")));
        }
        let pidfd = match pidfd_open(number, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Err(missing()),
            other => other.map_err(Error::io(format!("follow process {pid}")))?,
        };
        // What is read now is of the process that the descriptor is of, if that is still there afterwards.
        let stat = fs::read(format!("/proc/{pid}/stat")).map_err(|_| missing())?;
        let stat = String::from_utf8_lossy(&stat).into_owned();
        let stat = pid_stat(&stat).map_err(|error| refuse(error.to_string()))?;
        if has_ended(&pidfd)? {
            return Err(missing());
        }
        if stat.is_kernel() {
            let why =
                "it is a thread of the kernel, which works for all; leave --pid out to record the machine";
            return Err(refuse(why.to_owned()));
        }
        Ok(Self { pid, name: stat.name.to_owned(), pidfd })
    }

    /// Whether it is gone.
    pub(crate) fn has_ended(&self) -> Result<bool> {
        has_ended(&self.pidfd)
    }

    fn begin(&self, recorder: &Recorder) -> Result<()> {
        // One that has ended since then has a number that may be another's.
        if !has_ended(&self.pidfd)? {
            recorder.follow(self.pid);
        }
        Ok(())
    }

    fn follow(&self, until: &Until<'_>, recorder: &Recorder) -> Result<Ending> {
        self.begin(recorder)?;
        while !until.is_over() {
            if ends_within(&self.pidfd, until.next_look())? {
                return Ok(Ending { status: None, by_itself: true });
            }
        }
        Ok(Ending { status: None, by_itself: false })
    }
}

/// Nothing ends by itself.
fn wait_for(until: &Until<'_>) -> Ending {
    while !until.is_over() {
        std::thread::sleep(until.next_look());
    }
    Ending { status: None, by_itself: false }
}

/// Runs a command, with the streams that it is to have.
fn run(
    argv: &[String],
    until: &Until<'_>,
    recorder: &Recorder,
    marks: Option<&Marks>,
    streams: Streams<'_>,
) -> Result<Ending> {
    let (program, rest) = argv.split_first().expect("without a command the machine is recorded");
    let mut command = Command::new(program);
    command.args(rest);
    if let Some(marks) = marks {
        marks.tell(&mut command);
    }
    let Streams::Kept(tail) = streams else { return run_to_its_end(command, program, until, recorder) };
    let (output, input) = pipe_with(PipeFlags::CLOEXEC).map_err(Error::io("take what the command prints"))?;
    let errors = input.try_clone().map_err(Error::io("take what the command prints"))?;
    command.stdin(Stdio::null()).stdout(input).stderr(errors);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| tail.keep(&output, &over));
        // The thread that starts the command is the one whose end it would not survive: this one.
        let _is_over = IsOver(&over);
        run_to_its_end(command, program, until, recorder)
    })
}

/// Says that a command has ended, also where following it panics: its reader waits for that.
struct IsOver<'a>(&'a AtomicBool);

impl Drop for IsOver<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The command stays in our process group: one in the background may not read from the terminal.
fn run_to_its_end(
    mut command: Command,
    program: &str,
    until: &Until<'_>,
    recorder: &Recorder,
) -> Result<Ending> {
    let mark = Mark::of_recorded_command();
    command.env(workload::VARIABLE, mark.as_str());
    // Where the watcher is killed as well.
    workload::dies_with_us(&mut command, Signal::TERM);
    let mut child = command
        .spawn()
        .map_err(|e| Error::Refused(format!(
            "cannot run `{program}`: {e}; nothing was recorded; name a program by its path, or one that `command -v` finds"
        )))?;
    // What it prints to is its own alone from now on.
    drop(command);
    recorder.follow(child.id());
    let pidfd =
        pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).map_err(Error::io("watch the command"))?;
    while !until.is_over() {
        if ends_within(&pidfd, until.next_look())? {
            return Ok(Ending { status: Some(waited(&mut child)?), by_itself: true });
        }
    }
    Ok(Ending { status: Some(stop(&mut child, &pidfd, &mark)?), by_itself: false })
}

/// Asks a command and all that it started to end, and kills what does not.
fn stop(child: &mut Child, pidfd: &OwnedFd, mark: &Mark) -> Result<ExitStatus> {
    // One that has cleared its environment, or runs as somebody else.
    if !mark.is_carried_by(child.id()) {
        kill_process(Pid::from_child(child), Signal::TERM).map_err(Error::io("end the command"))?;
    }
    workload::ask_to_end(mark, GRACE);
    if !ends_within(pidfd, GRACE)? {
        child.kill().map_err(Error::io("end the command"))?;
    }
    waited(child)
}

fn waited(child: &mut Child) -> Result<ExitStatus> {
    child.wait().map_err(Error::io("wait for the command"))
}

fn has_ended(process: &OwnedFd) -> Result<bool> {
    ends_within(process, Duration::ZERO)
}

/// Waits for the end of a process, without a wake-up until it comes or the span is over.
fn ends_within(process: &OwnedFd, span: Duration) -> Result<bool> {
    let timeout = Timespec::try_from(span).expect("spans are seconds");
    match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        // A signal to us: the caller looks whether it was the interruption.
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(Error::io("wait for the end of a process")(error)),
    }
}
