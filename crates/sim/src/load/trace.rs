//! Recorded traces as a list of timed requests: fio's iologs of versions 2 and 3, and what blkparse prints.
//!
//! Formats: fio(1), "Trace file format" (the times of version 3 are microseconds: a log of fio 3.33 with
//! `thinktime=100ms` counts 100000 between requests); blkparse(1), "Output description", default format.
//! Strict: what cannot be read, or is not modelled, is an error with its line.

use domain::order;
use domain::time::Nanos;
use domain::units::Bytes;
use std::io::{self, BufRead, Read};
use thiserror::Error;

/// The longest line: fio's file names have at most 256 characters, and blkparse's command names 16.
const LONGEST_LINE: usize = 4096;
/// Requests that a trace may have, lest memory run out: some 200 MB.
const MAX_REQUESTS: usize = 4 << 20;
/// Files that a trace may name.
const MAX_FILES: usize = 1 << 16;
/// Waits in an iolog below this are none.
const SHORTEST_WAIT: Nanos = Nanos::from_micros(100);

/// What a trace asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceAction {
    /// To read.
    Read,
    /// To write; and whether it has to be on the medium when it is done (FUA).
    Write {
        /// It has to.
        fua: bool,
    },
    /// To write back all of the file.
    Sync,
    /// To write back the file's data.
    DataSync,
    /// To flush the device's cache.
    Flush,
}

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// When it is asked for, from the trace's beginning.
    pub at: Nanos,
    /// Index into [`Trace::files`].
    pub file: usize,
    /// What.
    pub action: TraceAction,
    /// Where; zero for syncs and flushes.
    pub offset: Bytes,
    /// How much; zero for syncs and flushes.
    pub len: Bytes,
}

/// A recorded trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Files, or devices as `major,minor`, in the order in which they first occur.
    pub files: Vec<String>,
    /// Requests, in the order of their times.
    pub requests: Vec<TraceRequest>,
}

/// Why a trace cannot be used.
#[derive(Debug, Error)]
pub enum TraceError {
    /// A line cannot be read, or asks for what is not modelled.
    #[error("line {line} of the trace: {why}: `{text}`")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        why: String,
        /// Its beginning.
        text: String,
    },
    /// The trace asks for nothing.
    #[error("the trace has no request")]
    Empty,
    /// Reading failed.
    #[error("cannot read the trace at line {line}: {source}")]
    Read {
        /// The line, from 1.
        line: usize,
        /// Why.
        source: io::Error,
    },
}

/// Lines with their numbers, none longer than [`LONGEST_LINE`].
struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    number: usize,
}

impl<R: BufRead> Lines<R> {
    fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), number: 0 }
    }

    /// Reads the next line; whether there was one.
    fn advance(&mut self) -> Result<bool, TraceError> {
        self.buffer.clear();
        self.number += 1;
        let room = LONGEST_LINE as u64 + 1;
        let read = self.reader.by_ref().take(room).read_until(b'\n', &mut self.buffer);
        let read = read.map_err(|source| TraceError::Read { line: self.number, source })?;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        } else if self.buffer.len() > LONGEST_LINE {
            return Err(self.refuse("it is longer than any line of a trace"));
        }
        Ok(read > 0)
    }

    fn text(&self) -> Result<&str, TraceError> {
        std::str::from_utf8(&self.buffer).map_err(|_| self.refuse("it is no text"))
    }

    fn refuse(&self, why: impl Into<String>) -> TraceError {
        /// As much of a line as an error repeats.
        const SHOWN: usize = 80;
        let text: String = String::from_utf8_lossy(&self.buffer).chars().take(SHOWN).collect();
        TraceError::Line { line: self.number, why: why.into(), text }
    }
}

/// Reads a trace of either kind, told by how it begins; of blkparse's events, what was asked for.
///
/// # Errors
/// As [`read_iolog`] and [`read_blkparse`].
pub fn read(mut reader: impl BufRead) -> Result<Trace, TraceError> {
    let head = reader.fill_buf().map_err(|source| TraceError::Read { line: 1, source })?;
    match head.starts_with(b"fio version") {
        true => read_iolog(reader),
        false => read_blkparse(reader, BlkEvent::Queued),
    }
}

/// Reads an iolog of fio, version 2 or 3. Files are added, opened and closed as fio demands it; trims are not
/// modelled.
///
/// # Errors
/// Where a line cannot be read or is not modelled, the trace is empty, or reading fails.
pub fn read_iolog(reader: impl BufRead) -> Result<Trace, TraceError> {
    let mut lines = Lines::new(reader);
    lines.advance()?;
    let timed = match lines.text()?.trim_end() {
        "fio version 2 iolog" => false,
        "fio version 3 iolog" => true,
        _ => return Err(lines.refuse("an iolog begins with `fio version 2 iolog` or `fio version 3 iolog`")),
    };
    let mut log = Iolog { trace: Trace::default(), open: Vec::new(), now: Nanos::ZERO };
    while lines.advance()? {
        let mut words = lines.text()?.split_ascii_whitespace();
        if timed && let Some(time) = words.next() {
            log.now = later(time, log.now).map_err(|why| lines.refuse(why))?;
        }
        let words: Vec<&str> = words.collect();
        if words.is_empty() && !timed {
            continue;
        }
        log.line(&words, timed).map_err(|why| lines.refuse(why))?;
    }
    nonempty(log.trace)
}

/// Microseconds that do not lie before those of the line before.
fn later(text: &str, before: Nanos) -> Result<Nanos, String> {
    let us = text.parse::<u64>().ok().and_then(|us| us.checked_mul(1000));
    let at = us.map(Nanos::new).ok_or("a time in microseconds is wanted first")?;
    if at < before { Err("its time lies before that of the line before".into()) } else { Ok(at) }
}

struct Iolog {
    trace: Trace,
    /// Whether each file is open.
    open: Vec<bool>,
    now: Nanos,
}

impl Iolog {
    fn line(&mut self, words: &[&str], timed: bool) -> Result<(), String> {
        match *words {
            [name, "add"] => self.add(name),
            [name, "open"] => self.set_open(name, true),
            [name, "close"] => self.set_open(name, false),
            [name, action, offset, len] => self.request(name, action, offset, len, timed),
            [] => Ok(()),
            _ => Err("a file, an action, an offset and a length are wanted".into()),
        }
    }

    fn add(&mut self, name: &str) -> Result<(), String> {
        if self.trace.files.iter().any(|known| known == name) {
            return Ok(());
        }
        if self.trace.files.len() == MAX_FILES {
            return Err(format!("a trace may name {MAX_FILES} files"));
        }
        self.trace.files.push(name.to_owned());
        self.open.push(false);
        Ok(())
    }

    fn file(&self, name: &str) -> Result<usize, String> {
        self.trace.files.iter().position(|known| known == name).ok_or("the file was not added before".into())
    }

    fn set_open(&mut self, name: &str, open: bool) -> Result<(), String> {
        let file = self.file(name)?;
        self.open[file] = open;
        Ok(())
    }

    fn request(
        &mut self,
        name: &str,
        action: &str,
        offset: &str,
        len: &str,
        timed: bool,
    ) -> Result<(), String> {
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no number"));
        let (offset, len) = (number(offset)?, number(len)?);
        if action == "wait" && !timed {
            let wait = offset.checked_mul(1000).map(Nanos::new).ok_or("it waits too long")?;
            if wait >= SHORTEST_WAIT {
                self.now =
                    self.now.get().checked_add(wait.get()).map(Nanos::new).ok_or("it waits too long")?;
            }
            return Ok(());
        }
        let file = self.file(name)?;
        if !self.open[file] {
            return Err("the file was not opened before".into());
        }
        let (action, moves) = match action {
            "read" => (TraceAction::Read, true),
            "write" => (TraceAction::Write { fua: false }, true),
            "sync" => (TraceAction::Sync, false),
            "datasync" => (TraceAction::DataSync, false),
            "trim" => return Err("the simulation does not model trims".into()),
            _ => return Err(format!("`{action}` is no action of an iolog")),
        };
        if moves && (len == 0 || offset.checked_add(len).is_none()) {
            return Err("its length is none".into());
        }
        let (offset, len) = if moves { (offset, len) } else { (0, 0) };
        push(
            &mut self.trace,
            TraceRequest { at: self.now, file, action, offset: Bytes::new(offset), len: Bytes::new(len) },
        )
    }
}

fn push(trace: &mut Trace, request: TraceRequest) -> Result<(), String> {
    if trace.requests.len() == MAX_REQUESTS {
        return Err(format!("a trace may have {MAX_REQUESTS} requests"));
    }
    trace.requests.push(request);
    Ok(())
}

fn nonempty(trace: Trace) -> Result<Trace, TraceError> {
    if trace.requests.is_empty() { Err(TraceError::Empty) } else { Ok(trace) }
}

/// Which of blktrace's events stands for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlkEvent {
    /// It was handed to the block layer (`Q`): what was asked for.
    Queued,
    /// It was handed to the device's driver (`D`), merged and sorted.
    Issued,
}

/// Reads what blkparse prints, up to its summary. Other events than the chosen one are passed over; discards
/// of that event are errors. Times count from the first request.
///
/// # Errors
/// Where a line cannot be read or is not modelled, the trace is empty, or reading fails.
pub fn read_blkparse(reader: impl BufRead, event: BlkEvent) -> Result<Trace, TraceError> {
    let wanted = match event {
        BlkEvent::Queued => "Q",
        BlkEvent::Issued => "D",
    };
    let mut lines = Lines::new(reader);
    let mut trace = Trace::default();
    while lines.advance()? {
        let words: Vec<&str> = lines.text()?.split_ascii_whitespace().collect();
        match words.first() {
            None => continue,
            Some(first) if first.starts_with("CPU") || first.starts_with("Total") => break,
            Some(_) => {}
        }
        blk_line(&mut trace, &words, wanted).map_err(|why| lines.refuse(why))?;
    }
    // Each CPU has a buffer of its own; blkparse sorts them, but not over all of a long trace.
    order::by_key(&mut trace.requests, |request| request.at);
    let first = trace.requests.first().map_or(Nanos::ZERO, |request| request.at);
    for request in &mut trace.requests {
        request.at = request.at - first;
    }
    nonempty(trace)
}

/// `8,0  3  1  0.000000000  697  Q  WS 223490 + 8 [kjournald]`.
fn blk_line(trace: &mut Trace, words: &[&str], wanted: &str) -> Result<(), String> {
    let [device, _cpu, _sequence, time, _process, event, kind, rest @ ..] = words else {
        // Events without a request, as of plugging, may be shorter.
        let other = words.get(5).is_some_and(|event| *event != wanted);
        return if other {
            Ok(())
        } else {
            Err("device, CPU, sequence, time, process, action are wanted".into())
        };
    };
    if *event != wanted {
        return Ok(());
    }
    let at = seconds(time).ok_or("the time is no number of seconds")?;
    let Some(action) = blk_action(kind, rest)? else { return Ok(()) };
    let (offset, len) = match (action, rest) {
        (TraceAction::Flush, _) => (0, 0),
        (_, [sector, "+", sectors, ..]) => {
            let bytes = |text: &str| text.parse::<u64>().ok()?.checked_mul(512);
            let (offset, len) = bytes(sector).zip(bytes(sectors)).ok_or("sectors are wanted")?;
            if len == 0 || offset.checked_add(len).is_none() {
                return Err("its length is none".into());
            }
            (offset, len)
        }
        _ => return Err("`SECTOR + SECTORS` is wanted".into()),
    };
    let file = device_index(trace, device)?;
    push(trace, TraceRequest { at, file, action, offset: Bytes::new(offset), len: Bytes::new(len) })
}

/// What the letters of a request say: `R`, `W` or `D`iscard; `F` before them a flush, behind them FUA;
/// `S`ync, `M`etadata, `A`head.
fn blk_action(kind: &str, rest: &[&str]) -> Result<Option<TraceAction>, String> {
    let Some(direction) = kind.find(['R', 'W', 'D']) else {
        return if kind.contains('F') { Ok(Some(TraceAction::Flush)) } else { Ok(None) };
    };
    let has_data = rest.get(1) == Some(&"+") && rest.get(2) != Some(&"0");
    match &kind[direction..=direction] {
        "D" => Err("the simulation does not model discards".into()),
        "R" => Ok(Some(TraceAction::Read)),
        _ if kind[..direction].contains('F') && !has_data => Ok(Some(TraceAction::Flush)),
        _ => Ok(Some(TraceAction::Write { fua: kind[direction..].contains('F') })),
    }
}

/// `12.000000345` in nanoseconds.
fn seconds(text: &str) -> Option<Nanos> {
    let (whole, part) = text.split_once('.')?;
    if part.is_empty() || part.len() > 9 {
        return None;
    }
    let ns = part.parse::<u64>().ok()? * 10_u64.pow(9 - part.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns).map(Nanos::new)
}

fn device_index(trace: &mut Trace, device: &str) -> Result<usize, String> {
    let numbers = device.split_once(',').map(|(major, minor)| (major.parse::<u32>(), minor.parse::<u32>()));
    if !matches!(numbers, Some((Ok(_), Ok(_)))) {
        return Err("a device as `major,minor` is wanted first".into());
    }
    if let Some(index) = trace.files.iter().position(|known| known == device) {
        return Ok(index);
    }
    if trace.files.len() == MAX_FILES {
        return Err(format!("a trace may name {MAX_FILES} devices"));
    }
    trace.files.push(device.to_owned());
    Ok(trace.files.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn shown(trace: Result<Trace, TraceError>) -> String {
        match trace {
            Err(error) => error.to_string(),
            Ok(trace) => {
                let line = |r: &TraceRequest| {
                    format!(
                        "{} {} {:?} {}+{}\n",
                        r.at.get() / 1000,
                        trace.files[r.file],
                        r.action,
                        r.offset.get(),
                        r.len.get()
                    )
                };
                trace.requests.iter().map(line).collect()
            }
        }
    }

    fn check_iolog(text: &str, expected: Expect) {
        expected.assert_eq(&shown(read_iolog(text.as_bytes())));
    }

    fn check_blkparse(text: &str, event: BlkEvent, expected: Expect) {
        expected.assert_eq(&shown(read_blkparse(text.as_bytes(), event)));
    }

    #[test]
    fn version_3_has_a_time_in_microseconds_on_each_line() {
        // Written by fio 3.33 with rw=rw, fsync and a file of its own.
        check_iolog(
            "fio version 3 iolog\n19 /t/f add\n117 /t/f open\n120 /t/f read 0 4096\n398 /t/f write 0 4096\n\
             410 /t/f sync 0 0\n411 /t/f datasync 0 0\n500 /t/f close\n",
            expect![[r#"
                120 /t/f Read 0+4096
                398 /t/f Write { fua: false } 0+4096
                410 /t/f Sync 0+0
                411 /t/f DataSync 0+0
            "#]],
        );
    }

    #[test]
    fn version_2_waits_and_short_waits_are_none() {
        check_iolog(
            "fio version 2 iolog\n/t/f add\n/t/f open\n/t/f read 0 512\n/t/f wait 250 0\n/t/f wait 99 0\n\
             /t/f write 512 512\n/t/f wait 1000 0\n/t/f read 1024 512",
            expect![[r#"
                0 /t/f Read 0+512
                250 /t/f Write { fua: false } 512+512
                1250 /t/f Read 1024+512
            "#]],
        );
    }

    #[test]
    fn an_iologs_errors_name_the_line() {
        let three = |line: &str| format!("fio version 3 iolog\n1 f add\n2 f open\n{line}\n");
        check_iolog(
            "fio version 1 iolog\n",
            expect![
                "line 1 of the trace: an iolog begins with `fio version 2 iolog` or `fio version 3 iolog`: `fio version 1 iolog`"
            ],
        );
        check_iolog(
            "",
            expect![
                "line 1 of the trace: an iolog begins with `fio version 2 iolog` or `fio version 3 iolog`: ``"
            ],
        );
        check_iolog("fio version 3 iolog\n", expect!["the trace has no request"]);
        check_iolog(
            &three("3 f trim 0 512"),
            expect!["line 4 of the trace: the simulation does not model trims: `3 f trim 0 512`"],
        );
        check_iolog(
            &three("3 f wait 0 512"),
            expect!["line 4 of the trace: `wait` is no action of an iolog: `3 f wait 0 512`"],
        );
        check_iolog(
            &three("1 f read 0 512"),
            expect!["line 4 of the trace: its time lies before that of the line before: `1 f read 0 512`"],
        );
        check_iolog(
            &three("3 g read 0 512"),
            expect!["line 4 of the trace: the file was not added before: `3 g read 0 512`"],
        );
        check_iolog(
            &three("3 f read 0"),
            expect![
                "line 4 of the trace: a file, an action, an offset and a length are wanted: `3 f read 0`"
            ],
        );
        check_iolog(
            &three("3 f read 0 0"),
            expect!["line 4 of the trace: its length is none: `3 f read 0 0`"],
        );
        check_iolog(
            &three("3 f close\n4 f read 0 1"),
            expect!["line 5 of the trace: the file was not opened before: `4 f read 0 1`"],
        );
    }

    #[test]
    fn a_line_without_end_is_an_error_and_no_memory() {
        let text = format!("fio version 3 iolog\n{}", "x".repeat(100_000));
        let error = shown(read_iolog(text.as_bytes()));
        assert!(error.starts_with("line 2 of the trace: it is longer than any line of a trace"), "{error}");
    }

    /// As in blkparse(1), with the events that a write with a flush leaves.
    const BLKPARSE: &str = "\
  8,0    3        1     1.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     1.000001829   697  P   R [kjournald]
  8,0    3        3     1.000002197   697  Q   W 223490 + 8 [kjournald]
  8,0    3        4     1.000005533   697  M   W 223498 + 8 [kjournald]
  8,0    3       34     1.000024890   697  D   W 223490 + 56 [kjournald]
  8,0    1       11     1.009507758     0  C   W 223490 + 56 [0]
  8,16   0        1     1.000500000   700  Q  RM 64 + 16 [cat]
  8,0    0        2     1.000600000   700  Q FWFS 128 + 8 [jbd2]
  8,0    0        3     1.000700000   700  Q FWS [jbd2]
  8,0    0        4     1.000800000   700  Q  FN [jbd2]
  8,0    3       35     1.000900000   697  U   N [kjournald] 1

CPU3 (8,0):
 Reads Queued:           0,        0KiB\t Writes Queued:           7,      128KiB
";

    #[test]
    fn what_was_queued_is_what_was_asked_for() {
        check_blkparse(
            BLKPARSE,
            BlkEvent::Queued,
            expect![[r#"
                0 8,0 Write { fua: false } 114426880+4096
                497 8,16 Read 32768+8192
                597 8,0 Write { fua: true } 65536+4096
                697 8,0 Flush 0+0
                797 8,0 Flush 0+0
            "#]],
        );
        check_blkparse(
            BLKPARSE,
            BlkEvent::Issued,
            expect![[r#"
                0 8,0 Write { fua: false } 114426880+28672
            "#]],
        );
    }

    #[test]
    fn blkparses_errors_name_the_line() {
        let line = |text: &str| format!("  8,0 0 1 0.5 1 Q R 0 + 8 [x]\n{text}\n");
        check_blkparse(
            &line("8,0 0 2 0.6 1 Q DS 8 + 8 [x]"),
            BlkEvent::Queued,
            expect![
                "line 2 of the trace: the simulation does not model discards: `8,0 0 2 0.6 1 Q DS 8 + 8 [x]`"
            ],
        );
        check_blkparse(
            &line("8,0 0 2 soon 1 Q R 8 + 8 [x]"),
            BlkEvent::Queued,
            expect!["line 2 of the trace: the time is no number of seconds: `8,0 0 2 soon 1 Q R 8 + 8 [x]`"],
        );
        check_blkparse(
            &line("sda 0 2 0.6 1 Q R 8 + 8 [x]"),
            BlkEvent::Queued,
            expect![
                "line 2 of the trace: a device as `major,minor` is wanted first: `sda 0 2 0.6 1 Q R 8 + 8 [x]`"
            ],
        );
        check_blkparse(
            &line("8,0 0 2 0.6 1 Q R 8 [x]"),
            BlkEvent::Queued,
            expect!["line 2 of the trace: `SECTOR + SECTORS` is wanted: `8,0 0 2 0.6 1 Q R 8 [x]`"],
        );
        check_blkparse(
            &line("nonsense"),
            BlkEvent::Queued,
            expect![
                "line 2 of the trace: device, CPU, sequence, time, process, action are wanted: `nonsense`"
            ],
        );
        check_blkparse("", BlkEvent::Queued, expect!["the trace has no request"]);
    }

    proptest! {
        #[test]
        fn whatever_the_bytes_nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = read_iolog(&bytes[..]);
            let _ = read_iolog(&[b"fio version 3 iolog\n", &bytes[..]].concat()[..]);
            let _ = read_blkparse(&bytes[..], BlkEvent::Queued);
        }

        #[test]
        fn whatever_the_words_nothing_panics(text in "([0-9]{1,20}[ ,.]|[QDRWF+ \n]|read |write |add |open |f ){0,60}") {
            let _ = read_iolog(format!("fio version 2 iolog\nf add\nf open\n{text}").as_bytes());
            let _ = read_blkparse(text.as_bytes(), BlkEvent::Issued);
        }
    }
}
