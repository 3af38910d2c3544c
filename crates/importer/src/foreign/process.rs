//! The importing process's half: it starts the reader, hands it files, and takes values back, none of which
//! it believes.

use super::wire::{self, Answer, Receiver, Request, VERSION};
use crate::error::{Doing, Error, Result, refused};
use domain::bench::Sink;
use domain::inert;
use domain::outcome::{Better, Metric, Outcome};
use domain::profile::{Interrupts, Profile, Subsystem};
use domain::time::{Nanos, Timestamp};
use domain::trace::{FrequencySource, Role, Series, SeriesKind, SeriesUnit, TraceHead};
use domain::trial::{MAX_THREADS, ThreadTime};
use domain::units::Unit;
use parse::import::series::MAX_COLUMNS;
use parse::import::{Kind, MAX_PARTS, Pace};
use rustix::io::IoSlice;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair,
};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Once;

/// What is read at once.
const CHUNK: usize = 64 << 10;

/// A bound on what a reader may say of one file, but for samples: ten thousand results of a hundred metrics
/// have some 40 MB.
const MAX_UNDERSTOOD: usize = 128 << 20;

/// The longest name of a function, in characters: the kernel's have 511 bytes (`KSYM_NAME_LEN`).
const MAX_FUNCTION: usize = 512;

/// A bound on the events of one file, which are no longer than the file.
const MAX_EVENTS: usize = 1 << 30;

/// What a process dies of that made a forbidden call, used up its CPU time, or gave up: its memory, as a
/// rule.
const SIGSYS: i32 = Signal::SYS.as_raw();
const SIGXCPU: i32 = Signal::XCPU.as_raw();
const SIGABRT: i32 = Signal::ABORT.as_raw();

/// A result, as it came over from the reader.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its name, which becomes a cell's: `dd`, `sysbench-oltp`, fio's job.
    pub name: String,
    /// What was reported.
    pub outcome: Outcome,
    /// The command that made it, where the file states it.
    pub command: Option<Vec<String>>,
    /// When it began, where the file states it.
    pub started: Option<Timestamp>,
    /// What the file says of this result alone.
    pub facts: BTreeMap<String, String>,
    /// What was sampled.
    pub samples: Option<Samples>,
    /// CPU time by role, of a trace of Flyball's own; the reader does not compute it.
    pub roles: BTreeMap<Role, Nanos>,
    /// What CPU time was spent in, by call stacks.
    pub profile: Option<Profile>,
    /// The threads that used most CPU time, by events.
    pub threads: Vec<ThreadTime>,
}

/// What is known of samples before they are read.
#[derive(Clone, Copy, Debug)]
pub struct Samples {
    /// How many there are.
    pub count: u64,
    /// From the first one's beginning to the last.
    pub span: Nanos,
    /// Which of the file's results they are of.
    pub part: u32,
}

impl Part {
    /// How long it took, where the file states it.
    pub fn elapsed(&self) -> Option<Nanos> {
        let elapsed = self.outcome.metrics.get("elapsed").map(|m| m.value).filter(|s| (0.0..1e9).contains(s));
        elapsed.map(|s| Nanos::new((s * 1e9) as u64)).or_else(|| self.samples.map(|samples| samples.span))
    }
}

/// All that a file holds.
#[derive(Clone, Debug)]
pub struct Imported {
    /// What the file is.
    pub kind: Kind,
    /// Its results, in the file's order.
    pub parts: Vec<Part>,
    /// What it says of the machine and of itself, by short names.
    pub facts: BTreeMap<String, String>,
    /// What was left out, and what a reader should know.
    pub notes: Vec<String>,
}

/// Why something was not read, and whether the file was read to its end before.
#[derive(Debug)]
pub struct Failure {
    /// What went wrong.
    pub why: Error,
    /// Whether the file was read to its end before.
    pub at_end: bool,
}

/// Whatever came to nothing before the reader could say how far it had read.
impl<E: Into<Error>> From<E> for Failure {
    fn from(why: E) -> Self {
        Self { why: why.into(), at_end: false }
    }
}

/// A reader of one file.
pub struct Reader {
    link: Link<BufReader<Box<dyn Read>>>,
    process: Option<Child>,
}

/// Both directions.
struct Link<R> {
    requests: OwnedFd,
    answers: Receiver<R>,
}

impl Reader {
    /// Starts this program once more as a reader, and waits until its walls stand; warns where none does.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(warn: fn(&str)) -> Result<Self> {
        let (requests, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .doing(|| "make a socket to the process that reads the file".into())?;
        let mut command = this_program("read-foreign")?;
        command.stdin(theirs).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().doing(|| "start the process that reads the file".into())?;
        let answers = process
            .stdout
            .take()
            .ok_or_else(|| Error::Refused("the process that reads the file has no output".into()))?;
        let mut reader = Self::over(requests, Box::new(answers));
        reader.process = Some(process);
        reader.greet(warn)?;
        Ok(reader)
    }

    fn over(requests: OwnedFd, answers: Box<dyn Read>) -> Self {
        let answers = Receiver::new(BufReader::with_capacity(CHUNK, answers));
        Self { link: Link { requests, answers }, process: None }
    }

    fn greet(&mut self, warn: fn(&str)) -> Result<()> {
        let (answer, _) = self.receive().map_err(|failure| failure.why)?;
        match answer {
            Answer::Ready { version: VERSION, gaps } => warn_of(&gaps, warn),
            Answer::Ready { version, .. } => {
                return refused(format!(
                    "this program was replaced while it ran (it reads files in version {version}); start it again"
                ));
            }
            other => return Err(unexpected(&other).why),
        }
        Ok(())
    }

    /// Whether a file that begins so is anything that is known.
    ///
    /// # Errors
    /// Where the reader fails.
    pub fn recognises(&mut self, file: BorrowedFd<'_>) -> Result<bool, Failure> {
        self.ask(&Request::Recognise, Some(file))?;
        match self.receive()?.0 {
            Answer::Known(is_known) => Ok(is_known),
            other => Err(unexpected(&other)),
        }
    }

    /// Keeps the functions of a kernel, for the recordings that are read next.
    ///
    /// # Errors
    /// Where they are none, or the reader fails.
    pub fn kallsyms(&mut self, file: BorrowedFd<'_>) -> Result<(), Failure> {
        self.ask(&Request::Kallsyms, Some(file))?;
        match self.receive()?.0 {
            Answer::Known(true) => Ok(()),
            Answer::Known(false) => Err(Error::Refused("it is empty".into()).into()),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads a file, but for its samples. Whether it was read to its end comes with it.
    ///
    /// # Errors
    /// Where it is not understood, or the reader fails.
    pub fn understand(
        &mut self,
        file: BorrowedFd<'_>,
        is_gzip: bool,
        kind: Option<Kind>,
        pace: Pace,
    ) -> Result<(Imported, bool), Failure> {
        let kind = kind.map(|kind| kind.name().to_owned());
        let interval_ns = pace.interval.map(Nanos::get);
        self.ask(&Request::Understand { kind, interval_ns, is_gzip }, Some(file))?;
        let mut imported =
            Imported { kind: Kind::Text(None), parts: Vec::new(), facts: BTreeMap::new(), notes: Vec::new() };
        let mut said = 0;
        loop {
            let (answer, length) = self.receive()?;
            said += length;
            if said > MAX_UNDERSTOOD {
                let most = MAX_UNDERSTOOD >> 20;
                return Err(Error::Refused(format!(
                    "what it says of itself takes more than {most} MiB; split the file"
                ))
                .into());
            }
            match answer {
                Answer::Part(part) if imported.parts.len() < MAX_PARTS => {
                    let number = imported.parts.len() as u32;
                    imported.parts.push(accepted(*part, number)?);
                }
                Answer::Fact(name, text) => drop(imported.facts.insert(name, text)),
                Answer::Note(note) => imported.notes.push(note),
                Answer::Understood { kind, at_end } => {
                    imported.kind =
                        Kind::from_name(&kind).ok_or_else(|| Error::Refused("it is of no kind".into()))?;
                    return Ok((imported, at_end));
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Hands on the samples of a result of the file that was understood last. Whether it was read to its end
    /// comes back.
    ///
    /// # Errors
    /// Where the file has changed, a row cannot be stored, or the reader fails.
    pub fn stream(
        &mut self,
        file: Option<BorrowedFd<'_>>,
        is_gzip: bool,
        part: u32,
        sink: &mut dyn Sink,
    ) -> Result<bool, Failure> {
        self.ask(&Request::Stream { part, is_gzip }, file)?;
        let columns = self.head(sink)?;
        loop {
            match self.receive()?.0 {
                Answer::Rows { times_ns, values } if values.len() == times_ns.len() * columns => {
                    for (index, time_ns) in times_ns.iter().enumerate() {
                        sink.row(Nanos::new(*time_ns), &values[index * columns..][..columns])?;
                    }
                }
                Answer::Streamed { at_end } => return Ok(at_end),
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Writes the events of the file that was understood last.
    ///
    /// # Errors
    /// Where they cannot be written, or the reader fails.
    pub fn events(&mut self, to: &mut dyn Write) -> Result<(), Failure> {
        self.ask(&Request::Events, None)?;
        let mut written = 0;
        loop {
            match self.receive()?.0 {
                Answer::Events(bytes) if written + bytes.len() <= MAX_EVENTS => {
                    written += bytes.len();
                    to.write_all(&bytes).doing(|| "store the events".into())?;
                }
                Answer::Streamed { .. } => return Ok(()),
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// What comes before the rows; how many columns they have.
    fn head(&mut self, sink: &mut dyn Sink) -> Result<usize, Failure> {
        let mut series = Vec::new();
        loop {
            match self.receive()?.0 {
                Answer::Column(column) if series.len() < MAX_COLUMNS => series.push(accepted_column(column)?),
                Answer::Head { interval_ns, start_ns, frequency } => {
                    let columns = series.len();
                    let frequency = FrequencySource::from_name(&frequency);
                    sink.begin(&TraceHead {
                        series,
                        interval: Nanos::new(interval_ns),
                        start: Timestamp::from_unix_nanos(start_ns),
                        frequency: frequency
                            .ok_or_else(|| Error::Refused("frequencies come from nowhere".into()))?,
                    })?;
                    return Ok(columns);
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    fn ask(&mut self, request: &Request, file: Option<BorrowedFd<'_>>) -> Result<(), Failure> {
        let bytes = postcard::to_allocvec(request)
            .map_err(|error| Error::Refused(format!("cannot ask for it: {error}")))?;
        let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            beside.push(SendAncillaryMessage::ScmRights(&files));
        }
        let requests = self.link.requests.as_fd();
        // Its own end is what an error here means; an input or output error of ours it must not be taken for.
        match sendmsg(requests, &[IoSlice::new(&bytes)], &mut beside, SendFlags::NOSIGNAL) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.death()),
        }
    }

    fn receive(&mut self) -> Result<(Answer, usize), Failure> {
        match self.link.answers.receive() {
            Ok(Some((Answer::Failed { why, at_end }, _))) => {
                Err(Failure { why: Error::Refused(why), at_end })
            }
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.death()),
            Err(why) => {
                Err(Error::Refused(format!("the process that reads it answers what no reader does: {why}"))
                    .into())
            }
        }
    }

    /// Why it is gone. One that only looks dead is, afterwards.
    fn death(&mut self) -> Failure {
        let Some(mut process) = self.process.take() else {
            return Error::Refused("nobody reads it".into()).into();
        };
        let _ = process.kill();
        match process.wait() {
            Ok(status) => {
                Error::Refused(format!("the process that reads it {}", how_it_ended(status))).into()
            }
            Err(error) => Error::Refused(format!("the process that reads it is gone: {error}")).into(),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// This program as another command, in an empty environment.
pub fn this_program(command: &str) -> Result<Command> {
    let program = std::env::current_exe()
        .doing(|| "find this program's own file, to start a confined process".into())?;
    let mut started = Command::new(program);
    started.arg(command).env_clear();
    Ok(started)
}

fn how_it_ended(status: ExitStatus) -> String {
    match status.signal() {
        Some(SIGSYS) => "made a system call that reading a file does not need, and was killed for it: \
             the file exploits a fault, or this system's C library is one that Flyball does not know; please report it"
            .to_owned(),
        Some(SIGXCPU) => "took more than an hour of CPU time, and was stopped".to_owned(),
        Some(SIGABRT) => "gave up: most likely the file needs more than the 2 GiB of memory that it may have".to_owned(),
        _ if status.code() == Some(PANICKED) => "met damage that its decoder does not survive".to_owned(),
        _ if status.code() == Some(NOT_EXECUTED) => "could not be started: the system does not execute this program's own \
             file; where an emulator of its processor runs it, as qemu-user, register that with binfmt_misc"
            .to_owned(),
        _ => format!("ended before it had answered ({status})"),
    }
}

/// With this the child of the C library's `posix_spawn` ends where it could not execute the program. The
/// error number reaches the parent through memory that both share. qemu-user makes a fork of a vfork
/// (`linux-user/syscall.c`, `do_fork`), which shares none, so that the parent takes it for started.
const NOT_EXECUTED: i32 = 127;

/// The exit code of a program that panicked, as the standard library has it (`library/std/src/rt.rs`).
const PANICKED: i32 = 101;

/// Root reads without any wall only where the kernel has none at all; that is said once.
fn warn_of(gaps: &[String], warn: fn(&str)) {
    static SAID: Once = Once::new();
    if gaps.len() == confine::Wall::ALL.len() && rustix::process::geteuid().is_root() {
        SAID.call_once(|| {
            warn(&format!(
                "nothing confines the process that reads the file, which is root: {}",
                gaps.join("; ")
            ));
        });
    }
}

fn unexpected(answer: &Answer) -> Failure {
    let what = format!("{answer:?}");
    let what: String = what.chars().take(60).collect();
    Error::Refused(format!("the process that reads it answers what was not asked: {what}")).into()
}

/// What a reader of ours says of a result; another may say anything.
fn accepted(part: wire::Part, number: u32) -> Result<Part> {
    let mut metrics = BTreeMap::new();
    for (name, wire::Metric { value, unit, higher_is_better }) in part.metrics {
        if !value.is_finite() {
            return refused("the process that reads it answers a metric that is no number");
        }
        let unit = match unit {
            wire::Unit::BytesPerSecond => Unit::BytesPerSecond,
            wire::Unit::PerSecond => Unit::PerSecond,
            wire::Unit::Seconds => Unit::Seconds,
            wire::Unit::Joules => Unit::Joules,
            wire::Unit::Watts => Unit::Watts,
            wire::Unit::Hertz => Unit::Hertz,
            wire::Unit::Share => Unit::Share,
            wire::Unit::Count => Unit::Count,
            wire::Unit::Other(name) => Unit::Other(name),
        };
        let better = if higher_is_better { Better::Higher } else { Better::Lower };
        metrics.insert(name, Metric { value, unit, better });
    }
    let samples = part.series.map(|series| Samples {
        count: series.samples,
        span: Nanos::new(series.span_ns),
        part: number,
    });
    Ok(Part {
        name: part.name,
        outcome: Outcome { metrics, tool: part.tool, warnings: part.warnings },
        command: part.command,
        started: part.started_ns.map(Timestamp::from_unix_nanos),
        facts: part.facts.into_iter().collect(),
        samples,
        roles: BTreeMap::new(),
        profile: part.profile.map(accepted_profile).transpose()?,
        threads: part.threads.into_iter().take(MAX_THREADS).map(accepted_thread).collect::<Result<_>>()?,
    })
}

/// Of a role that there is.
fn accepted_thread(thread: wire::Thread) -> Result<ThreadTime> {
    let wire::Thread { name, tid, role, cpu_ns } = thread;
    let role = Role::from_name(&role).ok_or_else(|| {
        Error::Refused("the process that reads it answers a thread of a role that there is not".into())
    })?;
    let name = inert::one_line(&name).chars().take(MAX_FUNCTION).collect();
    Ok(ThreadTime { name, tid, role, cpu: Nanos::new(cpu_ns) })
}

/// Of names that there are, and of no more functions and handlers than a profile has.
fn accepted_profile(profile: wire::Profile) -> Result<Profile> {
    let no_such =
        || Error::Refused("the process that reads it answers a profile of what there is not".into());
    let of = |name: &str| Subsystem::from_name(name).ok_or_else(no_such);
    let mut accepted =
        Profile { period: Nanos::new(profile.period_ns), lost: profile.lost, ..Profile::default() };
    for (role, subsystem, count) in profile.samples {
        let role = Role::from_name(&role).ok_or_else(no_such)?;
        accepted.samples.insert((role, of(&subsystem)?), count);
    }
    for (subsystem, count) in profile.inclusive {
        accepted.inclusive.insert(of(&subsystem)?, count);
    }
    for (name, count) in profile.functions.into_iter().take(Profile::MAX_FUNCTIONS) {
        let name = inert::one_line(&name).chars().take(MAX_FUNCTION).collect();
        accepted.functions.insert(name, count);
    }
    if let Some(interrupts) = profile.interrupts {
        let of_them = accepted.interrupts.insert(Interrupts::default());
        of_them.unsampled = interrupts.unsampled;
        for (subsystem, count) in interrupts.held_off {
            of_them.held_off.insert(of(&subsystem)?, count);
        }
        for (name, ns) in interrupts.handlers_ns.into_iter().take(Interrupts::MAX_HANDLERS) {
            let name = inert::one_line(&name).chars().take(MAX_FUNCTION).collect();
            of_them.handlers.insert(name, Nanos::new(ns));
        }
    }
    Ok(accepted)
}

fn accepted_column(column: wire::Column) -> Result<Series> {
    let unit = SeriesUnit::from_name(&column.unit);
    let kind = match column.counter {
        Some(wire::Counter { wraps_at }) => SeriesKind::Counter { wraps_at },
        None => SeriesKind::Gauge,
    };
    Ok(Series {
        name: column.name,
        unit: unit.ok_or_else(|| Error::Refused("a column has no unit".into()))?,
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::reader::answer_all;
    use crate::foreign::wire::Sender;
    use domain::bench::SinkError;
    use domain::rng::Seed;
    use std::fs::File;
    use std::io::Cursor;

    const SADF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tools/sadf/12.6.json");

    /// Takes a trace into memory.
    #[derive(Debug, Default, PartialEq)]
    struct Rows(Vec<TraceHead>, Vec<(Nanos, Vec<Option<u64>>)>);

    impl Sink for Rows {
        fn begin(&mut self, head: &TraceHead) -> Result<(), SinkError> {
            self.0.push(head.clone());
            Ok(())
        }

        fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> Result<(), SinkError> {
            self.1.push((time, values.to_vec()));
            Ok(())
        }
    }

    fn sockets() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    /// One who says what he likes.
    fn liar(bytes: Vec<u8>) -> (Reader, OwnedFd) {
        let (ours, theirs) = sockets();
        (Reader::over(ours, Box::new(Cursor::new(bytes))), theirs)
    }

    fn bytes_of(answers: &[Answer]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut sender = Sender::new(&mut bytes);
        for answer in answers {
            sender.send(answer).unwrap().unwrap();
        }
        drop(sender);
        bytes
    }

    fn understood(bytes: Vec<u8>) -> Result<Imported, String> {
        let (mut reader, _theirs) = liar(bytes);
        let nothing = File::open("/dev/null").unwrap();
        let understood = reader.understand(nothing.as_fd(), false, None, Pace::default());
        understood.map(|(imported, _)| imported).map_err(|failure| format!("{:#}", failure.why))
    }

    fn streamed(bytes: Vec<u8>) -> Result<Rows, String> {
        let (mut reader, _theirs) = liar(bytes);
        let mut rows = Rows::default();
        let streamed = reader.stream(None, false, 0, &mut rows);
        streamed.map(|_| rows).map_err(|failure| format!("{:#}", failure.why))
    }

    fn part(value: f64) -> Answer {
        let metric = wire::Metric { value, unit: wire::Unit::Other("MHz".into()), higher_is_better: true };
        Answer::Part(Box::new(wire::Part {
            name: "dd".into(),
            tool: "dd".into(),
            metrics: vec![("throughput".into(), metric)],
            warnings: Vec::new(),
            command: None,
            started_ns: Some(1),
            facts: vec![("size".into(), "4k".into())],
            series: Some(wire::Series { samples: 2, span_ns: 3 }),
            profile: None,
            threads: Vec::new(),
        }))
    }

    fn column(name: &str) -> Answer {
        Answer::Column(wire::Column { name: name.into(), unit: "ticks".into(), counter: None })
    }

    fn head() -> Answer {
        Answer::Head { interval_ns: 1, start_ns: 2, frequency: "none".into() }
    }

    fn end() -> Answer {
        Answer::Understood { kind: "text".into(), at_end: true }
    }

    #[test]
    fn what_comes_over_from_a_reader_is_what_is_in_the_file() {
        let (ours, theirs) = sockets();
        let (from, to) = std::io::pipe().unwrap();
        let thread = std::thread::spawn(move || answer_all(theirs, to, Vec::new()));
        let mut reader = Reader::over(ours, Box::new(from));
        reader.greet(|_| {}).unwrap();
        let pace = Pace::default();
        let again = || File::open(SADF).unwrap();
        assert!(reader.recognises(again().as_fd()).unwrap());
        let (imported, _) = reader.understand(again().as_fd(), false, None, pace).unwrap();
        let mut rows = Rows::default();
        reader.stream(Some(again().as_fd()), false, 0, &mut rows).unwrap();

        let read = || BufReader::new(again());
        let wanted = parse::import::read(Kind::Sysstat, &mut read(), pace).unwrap();
        let series = wanted.parts[0].series.as_ref().unwrap();
        let mut wanted_rows = Rows::default();
        parse::import::stream(Kind::Sysstat, &mut read(), pace, series, &mut wanted_rows).unwrap();
        assert_eq!(imported.kind, Kind::Sysstat);
        assert_eq!((imported.facts, imported.notes), (wanted.facts, wanted.notes));
        assert_eq!(imported.parts[0].outcome, wanted.parts[0].outcome);
        assert_eq!(imported.parts[0].elapsed(), Some(series.span));
        assert_eq!(rows, wanted_rows);
        assert!(rows.1.len() > 1 && rows.0[0].series.len() > 100);
        drop(reader);
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn a_reader_that_says_what_cannot_be_is_refused() {
        let fine = understood(bytes_of(&[part(1.0), Answer::Note("n".into()), end()])).unwrap();
        assert_eq!((fine.parts.len(), fine.parts[0].elapsed()), (1, Some(Nanos::new(3))));
        let too_long = (u32::try_from(wire::MAX_MESSAGE).unwrap() + 1).to_le_bytes();
        let trailing = [&[3, 0, 0, 0][..], &[1, 1, 0]].concat();
        let many = (0..=MAX_PARTS).map(|_| part(1.0));
        let endless = Answer::Note("x".repeat(wire::MAX_MESSAGE - 100));
        for (bytes, wanted) in [
            (bytes_of(&[part(f64::NAN), end()]), "is no number"),
            (bytes_of(&[Answer::Understood { kind: "excel".into(), at_end: true }]), "of no kind"),
            (bytes_of(&[Answer::Known(true)]), "what was not asked"),
            (bytes_of(&[Answer::Failed { why: "it is cut short".into(), at_end: true }]), "it is cut short"),
            (bytes_of(&[part(1.0)]), "nobody reads it"),
            (too_long.to_vec(), "are allowed"),
            (vec![1, 0, 0, 0, 99], "what no reader does"),
            (trailing, "what no reader does"),
            (bytes_of(&many.collect::<Vec<_>>()), "what was not asked"),
            (bytes_of(&endless_notes(endless)), "takes more than"),
        ] {
            let why = understood(bytes).unwrap_err();
            assert!(why.contains(wanted), "{wanted}: {why}");
        }
    }

    fn endless_notes(note: Answer) -> Vec<Answer> {
        let Answer::Note(text) = note else { unreachable!("it is a note") };
        (0..=MAX_UNDERSTOOD / wire::MAX_MESSAGE + 1).map(|_| Answer::Note(text.clone())).collect()
    }

    #[test]
    fn a_trace_of_another_form_than_its_head_says_is_refused() {
        let rows = |values: Vec<Option<u64>>| Answer::Rows { times_ns: vec![5, 6], values };
        let last = Answer::Streamed { at_end: true };
        let fine = [column("a"), column("b"), head(), rows(vec![Some(1), None, None, Some(2)]), last];
        let told = streamed(bytes_of(&fine)).unwrap();
        assert_eq!(told.1[1], (Nanos::new(6), vec![None, Some(2)]));
        let unit = Answer::Column(wire::Column { name: "a".into(), unit: "miles".into(), counter: None });
        for (answers, wanted) in [
            (vec![column("a"), head(), rows(vec![Some(1)])], "what was not asked"),
            (vec![head(), rows(vec![Some(1)])], "what was not asked"),
            (vec![rows(Vec::new())], "what was not asked"),
            (vec![unit], "has no unit"),
            (vec![Answer::Head { interval_ns: 1, start_ns: 2, frequency: "guess".into() }], "from nowhere"),
            ((0..=MAX_COLUMNS).map(|n| column(&n.to_string())).collect(), "what was not asked"),
        ] {
            let why = streamed(bytes_of(&answers)).unwrap_err();
            assert!(why.contains(wanted), "{wanted}: {why}");
        }
    }

    #[test]
    fn damaged_answers_are_taken_or_refused_and_never_believed_to_be_longer_than_they_are() {
        let whole = bytes_of(&[part(1.0), Answer::Fact("a".into(), "b".into()), part(2.0), end()]);
        let rows = Answer::Rows { times_ns: vec![1, 2], values: vec![Some(1), Some(u64::MAX)] };
        let trace = bytes_of(&[column("a"), head(), rows, Answer::Streamed { at_end: false }]);
        let mut random = Seed(5).stream("damaged answers");
        for _ in 0..20_000 {
            for (bytes, is_trace) in [(&whole, false), (&trace, true)] {
                let mut bytes = bytes.clone();
                for _ in 0..=random.below(3) {
                    let at = random.below(bytes.len());
                    bytes[at] = random.below(256) as u8;
                }
                bytes.truncate(bytes.len() - random.below(4));
                // Neither panics, hangs nor takes memory; what it says is of no interest.
                let _ = if is_trace { streamed(bytes).is_ok() } else { understood(bytes).is_ok() };
            }
        }
    }

    #[test]
    fn the_death_of_a_reader_names_its_reason() {
        let ended = |signal: i32| how_it_ended(ExitStatus::from_raw(signal));
        assert!(ended(SIGSYS).contains("system call") && ended(SIGXCPU).contains("CPU time"));
        assert!(ended(SIGABRT).contains("2 GiB") && ended(9).contains("signal: 9"));
        assert!(ended(PANICKED << 8).contains("damage"));
        assert!(ended(NOT_EXECUTED << 8).contains("binfmt_misc") && ended(1 << 8).contains("exit status: 1"));
    }
}
