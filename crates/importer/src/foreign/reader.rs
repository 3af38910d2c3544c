//! The reader's own half: behind its walls it reads what it is handed, and answers with values.

use super::MAX_UNPACKED;
use super::recorded::{self, Recorded, Said};
use super::wire::{self, Answer, Request, Sender};
use crate::error::{Error as ImportError, Result, refused};
use confine::Limits;
use domain::bench::{Sink, SinkError};
use domain::outcome::{Better, Metric};
use domain::time::Nanos;
use domain::trace::{Series as TraceSeries, SeriesKind, TraceHead};
use domain::units::Unit;
use flate2::read::MultiGzDecoder;
use parse::import::{Error, HEAD, Imported, Kind, Pace, recognise};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// What a reader may use. Of memory, what the bounds of `parse::import` come to: 8 Mi values that are each a
/// sample of their own take one GiB, a document of 64 MiB with its values less. Of time, an hour for
/// [`MAX_UNPACKED`] at 20 MB/s. Of descriptors, the standard ones and the file.
const LIMITS: Limits = Limits { memory: 2 << 30, cpu_s: 3600, descriptors: 8, processes: Some(0) };

/// What is read at once, and what is answered at once.
const CHUNK: usize = 64 << 10;

/// A bound on the names of a kernel's functions: those of 300,000 take some 15 MiB.
const MAX_KALLSYMS: u64 = 128 << 20;

/// A request is a few words.
const MAX_REQUEST: usize = 512;

/// `flyball read-foreign`: raises the walls, and answers what comes over standard input until nobody asks any
/// more. The answers are bytes for standard output, which nothing may hold back.
///
/// # Errors
/// Where the one who asks is gone, or says what is no request.
pub fn serve(output: impl Write) -> Result<()> {
    let gaps = confine::reader(&LIMITS);
    let gaps = gaps.into_iter().map(|gap| format!("{:?}: {}", gap.wall, gap.why)).collect();
    answer_all(rustix::stdio::stdin(), BufWriter::with_capacity(CHUNK, output), gaps)
}

/// Answers what is asked over a socket.
pub fn answer_all(requests: impl AsFd, answers: impl Write, gaps: Vec<String>) -> Result<()> {
    let mut answers = Answers::new(answers);
    answers.say(&Answer::Ready { version: wire::VERSION, gaps })?;
    answers.sender.flush()?;
    let (mut known, mut kallsyms) = (None, Vec::new());
    while let Some((request, file)) = next(requests.as_fd())? {
        let end = Rc::new(Cell::new(false));
        let answered = caught(|| answer(request, file, &end, (&mut known, &mut kallsyms), &mut answers));
        let last = answered.unwrap_or_else(|why| Answer::Failed { why, at_end: end.get() });
        answers.say(&last)?;
        answers.sender.flush()?;
    }
    Ok(())
}

/// The next request, and the file that came with it; `None` where nobody asks any more.
fn next(requests: impl AsFd) -> Result<Option<(Request, Option<File>)>> {
    let mut bytes = [0; MAX_REQUEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(&requests, &mut [IoSliceMut::new(&mut bytes)], &mut beside, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other.map_err(std::io::Error::from)?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return refused(format!("a request is longer than {MAX_REQUEST} bytes"));
    }
    let files = beside.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let file: Option<OwnedFd> = files.flatten().next();
    let request = wire::decoded(&bytes[..received.bytes]).map_err(ImportError::Refused)?;
    Ok(Some((request, file.map(File::from))))
}

/// With a panic as an error like others: a file that meets a fault of ours is not imported, and it is said
/// why.
fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref().copied()).unwrap_or("it does not say which");
        Err(format!("the reader has a fault, please report it: {text}"))
    })
}

/// What was understood last, for whoever asks for its samples.
enum Known {
    File { kind: Kind, pace: Pace, imported: Imported },
    Events(Recorded),
}

/// How many bytes of events go in one message.
const EVENTS: usize = 1 << 20;

/// Carries out a request; the last answer to it comes back, or why there is none.
fn answer<W: Write>(
    request: Request,
    file: Option<File>,
    end: &Rc<Cell<bool>>,
    (known, kallsyms): (&mut Option<Known>, &mut Vec<u8>),
    answers: &mut Answers<W>,
) -> Result<Answer, String> {
    let input = |is_gzip| match file {
        Some(file) => opened(file, is_gzip, end),
        None => Box::new(io::empty()),
    };
    match request {
        Request::Recognise => {
            let head = head_of(&mut *input(false))?;
            Ok(Answer::Known(recognise(&head).is_some()))
        }
        Request::Kallsyms => {
            let mut input = input(false).take(MAX_KALLSYMS + 1);
            kallsyms.clear();
            input.read_to_end(kallsyms).map_err(|error| error.to_string())?;
            if kallsyms.len() as u64 > MAX_KALLSYMS {
                return Err(format!(
                    "it is larger than {} MiB, and no copy of /proc/kallsyms",
                    MAX_KALLSYMS >> 20
                ));
            }
            Ok(Answer::Known(!kallsyms.is_empty()))
        }
        Request::Understand { kind, interval_ns, is_gzip } => {
            let kind = kind.map(|name| of_name(&name)).transpose()?;
            let pace = Pace { interval: interval_ns.map(Nanos::new) };
            let mut input = input(is_gzip);
            let head = head_of(&mut *input)?;
            let kind = kind.map_or_else(|| kind_of(&head), Ok)?;
            let mut whole = head.as_slice().chain(&mut *input);
            *known = Some(if kind.has_events() {
                let (recorded, said) = recorded::read(kind, &mut whole, kallsyms)?;
                tell_said(said, answers)?;
                Known::Events(recorded)
            } else {
                let imported =
                    parse::import::read(kind, &mut whole, pace).map_err(|error| in_words(error, &head))?;
                tell(&imported, answers)?;
                Known::File { kind, pace, imported }
            });
            Ok(Answer::Understood { kind: kind.name().to_owned(), at_end: end.get() })
        }
        Request::Stream { part, is_gzip } => {
            match known.as_ref().ok_or("nothing was understood before")? {
                Known::Events(recorded) => recorded.stream(answers).map_err(|error| error.to_string())?,
                Known::File { kind, pace, imported } => {
                    let series = imported.parts.get(part as usize).and_then(|part| part.series.as_ref());
                    let series = series.ok_or("there is no such series")?;
                    let mut input = input(is_gzip);
                    parse::import::stream(*kind, &mut *input, *pace, series, answers)
                        .map_err(|error| error.to_string())?;
                }
            }
            Ok(Answer::Streamed { at_end: end.get() })
        }
        Request::Events => {
            let Some(Known::Events(recorded)) = known else { return Err("there are no events".to_owned()) };
            for part in recorded.events.chunks(EVENTS) {
                answers.say(&Answer::Events(part.to_vec())).map_err(|error| error.to_string())?;
            }
            Ok(Answer::Streamed { at_end: true })
        }
    }
}

fn of_name(name: &str) -> Result<Kind, String> {
    Kind::from_name(name).ok_or_else(|| format!("there is no kind of file `{name}`"))
}

/// A file's bytes, unpacked. `end` says when the last was read.
fn opened(file: File, is_gzip: bool, end: &Rc<Cell<bool>>) -> Box<dyn BufRead> {
    let bounded = |input| Bounded { input, left: MAX_UNPACKED, end: Rc::clone(end) };
    let input: Box<dyn Read> = if is_gzip { Box::new(Gunzip::new(file)) } else { Box::new(file) };
    Box::new(BufReader::with_capacity(CHUNK, bounded(input)))
}

fn head_of(input: &mut dyn BufRead) -> Result<Vec<u8>, String> {
    let mut head = Vec::new();
    input.take(HEAD as u64).read_to_end(&mut head).map_err(|error| error.to_string())?;
    Ok(head)
}

fn kind_of(head: &[u8]) -> Result<Kind, String> {
    if head.trim_ascii().is_empty() {
        return Err("it is empty: the tool has written no result; run the tool again, or name the file that has its output".to_owned());
    }
    if let Some(told) = in_another_way(head) {
        return Err(told.to_owned());
    }
    recognise(head).ok_or_else(|| {
        format!("it is neither text nor anything that is known; looked for {}", Kind::names().join(", "))
    })
}

/// What a file is that could be read, were it written in another way.
fn in_another_way(head: &[u8]) -> Option<&'static str> {
    match head {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Some("it is in UTF-16; `iconv -f UTF-16 -t UTF-8 FILE` writes it in UTF-8, which is read")
        }
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', ..] => {
            Some("bzip2 packed it; unpack it first (gzip, xz and zstd are read as they are)")
        }
        [b'P', b'K', 3, 4, ..] => Some("it is a ZIP archive; unpack it, and name the files in it"),
        [0x1f, 0x8b, ..] => Some("it is packed twice; unpack it once"),
        _ => None,
    }
}

/// Text in which nothing was found is a file of an unknown kind: it says what was looked for.
fn in_words(error: Error, head: &[u8]) -> String {
    const SHOWN: usize = 200;
    let Error::Nothing { what: "text", .. } = error else { return error.to_string() };
    let line = head[..head.len().min(SHOWN)].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let head = domain::inert::of_bytes(line.trim_ascii());
    let looked_for = format!("what these write: {}", Kind::names().join(", "));
    Error::Unknown { head, looked_for }.to_string()
}

/// Sends what was understood, but for the samples.
fn tell<W: Write>(imported: &Imported, answers: &mut Answers<W>) -> Result<(), String> {
    let mut say = |answer| answers.say(&answer).map_err(|error| error.to_string());
    for part in &imported.parts {
        say(Answer::Part(Box::new(on_the_wire(part))))?;
    }
    for (name, text) in &imported.facts {
        say(Answer::Fact(name.clone(), text.clone()))?;
    }
    imported.notes.iter().try_for_each(|note| say(Answer::Note(note.clone())))
}

fn tell_said<W: Write>(said: Said, answers: &mut Answers<W>) -> Result<(), String> {
    let mut say = |answer| answers.say(&answer).map_err(|error| error.to_string());
    say(Answer::Part(Box::new(said.part)))?;
    said.facts.into_iter().try_for_each(|(name, text)| say(Answer::Fact(name, text)))?;
    said.notes.into_iter().try_for_each(|note| say(Answer::Note(note)))
}

fn on_the_wire(part: &parse::import::Part) -> wire::Part {
    let metric = |(name, metric): (&String, &Metric)| {
        let unit = match &metric.unit {
            Unit::BytesPerSecond => wire::Unit::BytesPerSecond,
            Unit::PerSecond => wire::Unit::PerSecond,
            Unit::Seconds => wire::Unit::Seconds,
            Unit::Joules => wire::Unit::Joules,
            Unit::Watts => wire::Unit::Watts,
            Unit::Hertz => wire::Unit::Hertz,
            Unit::Share => wire::Unit::Share,
            Unit::Count => wire::Unit::Count,
            Unit::Other(name) => wire::Unit::Other(name.clone()),
        };
        let higher_is_better = metric.better == Better::Higher;
        (name.clone(), wire::Metric { value: metric.value, unit, higher_is_better })
    };
    let series = part.series.as_ref();
    wire::Part {
        name: part.name.clone(),
        tool: part.outcome.tool.clone(),
        metrics: part.outcome.metrics.iter().map(metric).collect(),
        warnings: part.outcome.warnings.clone(),
        command: part.command.clone(),
        started_ns: part.started.map(domain::Timestamp::unix_nanos),
        facts: part.facts.iter().map(|(name, text)| (name.clone(), text.clone())).collect(),
        series: series.map(|s| wire::Series { samples: s.samples, span_ns: s.span.get() }),
        profile: None,
        threads: Vec::new(),
    }
}

/// Where answers go. Rows of a trace gather, and go in one message.
struct Answers<W> {
    sender: Sender<W>,
    times_ns: Vec<u64>,
    values: Vec<Option<u64>>,
}

/// How many values go in one message, or one row of more.
const MAX_GATHERED: usize = 4096;

impl<W: Write> Answers<W> {
    fn new(to: W) -> Self {
        Self { sender: Sender::new(to), times_ns: Vec::new(), values: Vec::new() }
    }

    fn say(&mut self, answer: &Answer) -> io::Result<()> {
        self.say_rows()?;
        self.say_now(answer)
    }

    fn say_rows(&mut self) -> io::Result<()> {
        if self.times_ns.is_empty() {
            return Ok(());
        }
        let (times_ns, values) = (std::mem::take(&mut self.times_ns), std::mem::take(&mut self.values));
        self.say_now(&Answer::Rows { times_ns, values })
    }

    fn say_now(&mut self, answer: &Answer) -> io::Result<()> {
        let too_long = || {
            io::Error::other(format!("it has a result or a row of more than {} MiB", wire::MAX_MESSAGE >> 20))
        };
        self.sender.send(answer)?.ok_or_else(too_long)
    }
}

impl<W: Write> Sink for Answers<W> {
    fn begin(&mut self, head: &TraceHead) -> Result<(), SinkError> {
        let failed = |error: io::Error| SinkError(error.to_string());
        for TraceSeries { name, unit, kind } in &head.series {
            let counter = match kind {
                SeriesKind::Counter { wraps_at } => Some(wire::Counter { wraps_at: *wraps_at }),
                SeriesKind::Gauge => None,
            };
            let unit = unit.name().to_owned();
            self.say(&Answer::Column(wire::Column { name: name.clone(), unit, counter })).map_err(failed)?;
        }
        let head = Answer::Head {
            interval_ns: head.interval.get(),
            start_ns: head.start.unix_nanos(),
            frequency: head.frequency.name().to_owned(),
        };
        self.say(&head).map_err(failed)
    }

    fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> Result<(), SinkError> {
        self.times_ns.push(time.get());
        self.values.extend_from_slice(values);
        if self.times_ns.len().max(self.values.len()) < MAX_GATHERED {
            return Ok(());
        }
        self.say_rows().map_err(|error| SinkError(error.to_string()))
    }
}

/// Ends with an error where more comes than was allowed.
struct Bounded<R> {
    input: R,
    left: u64,
    end: Rc<Cell<bool>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(to)?;
        if count == 0 && !to.is_empty() {
            self.end.set(true);
        }
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            io::Error::other(format!(
                "it unpacks to more than {} GiB; is it what it seems to be?",
                MAX_UNPACKED >> 30
            ))
        })?;
        Ok(count)
    }
}

/// What gzip packed. An error says how far it could be read.
struct Gunzip {
    decoder: MultiGzDecoder<BufReader<File>>,
    unpacked: u64,
}

impl Gunzip {
    fn new(file: File) -> Self {
        Self { decoder: MultiGzDecoder::new(BufReader::new(file)), unpacked: 0 }
    }

    /// How much of the file was taken in.
    fn position(&self) -> io::Result<u64> {
        let input = self.decoder.get_ref();
        let mut file = input.get_ref();
        Ok(file.stream_position()? - input.buffer().len() as u64)
    }
}

impl Read for Gunzip {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.decoder.read(to).map_err(|error| {
            let Ok(at) = self.position() else { return error };
            let unpacked = self.unpacked;
            io::Error::new(
                error.kind(),
                format!(
                    "{error}, at byte {at} of the packed file, of which {unpacked} bytes could be unpacked"
                ),
            )
        })?;
        self.unpacked += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_ours_is_an_answer_that_names_it() {
        let why = caught::<()>(|| panic!("line {} of a sample", 7)).unwrap_err();
        assert!(why.contains("please report it: line 7 of a sample"), "{why}");
        assert_eq!(caught(|| Ok(1)), Ok(1));
    }
}
