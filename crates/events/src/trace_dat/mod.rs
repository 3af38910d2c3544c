//! What `trace-cmd record` has written, as a file of this crate's form.
//!
//! The forms are those of trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5): formats, names of functions, and for
//! each CPU the sub-buffers of the kernel's ring as they were ([`ring`]), with the records that perf has.
//!
//! Of one CPU sub-buffers are in the order of time. They are taken by the time at which they begin, so that
//! what is older than the next one has been written: that is the time that our rounds have.
//!
//! A compressed file is unpacked first ([`unpack`]). Times that are no nanoseconds are refused, with what to
//! do. Of several instances, the one with the most bytes is read.

mod ring;
mod sections;
mod unpack;

use crate::file::MAX_SYMBOLS;
use crate::foreign::{Converted, Error, Formats, NO_TRACEPOINT, Told, Writer};
use domain::Nanos;
use parse::kernel::kallsyms::function;
use ring::{Entry, Page, SubBuffers};
use sections::{Buffer, Sections};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// How many sub-buffers one of our rounds has.
const ROUND: usize = 256;

/// What the child of trace-cmd's is called until it executes the command that was given.
const STARTER: &str = "trace-cmd";

/// The clocks of the kernel that count nanoseconds (`trace_clocks` of its `kernel/trace/trace.c`).
const CLOCKS: [&str; 7] = ["local", "global", "perf", "mono", "mono_raw", "boot", "tai"];

/// The one that each CPU has for itself.
const LOCAL: &str = "local";

/// Reads a file of trace-cmd's, and appends it in the form of this crate.
///
/// # Errors
/// Where it is no such file, has no tracepoint that is known, is compressed in a way or of a clock that is
/// not known, or is damaged: with the offset.
pub fn convert(file: &[u8], output: &mut Vec<u8>) -> Result<Converted, Error> {
    match unpack::unpacked(file)? {
        Cow::Borrowed(file) => convert_plain(file, output),
        Cow::Owned(file) => convert_plain(&file, output).map_err(|error| match error {
            Error::Damaged { .. } => Error::otherwise(format!("of what is unpacked {error}")),
            other => other,
        }),
    }
}

fn convert_plain(file: &[u8], output: &mut Vec<u8>) -> Result<Converted, Error> {
    let sections = Sections::read(file)?;
    let mut converted = sections.converted();
    let buffer = sections.largest_buffer().ok_or_else(no_tracepoint)?;
    check_clock(buffer, &mut converted)?;
    let page = Page::of_header(&sections.page)?;
    let formats = &sections.formats.known;
    let is_known = |raw: &[u8]| number_of(raw).is_some_and(|number| formats.contains_key(&number));
    let streams = || streams(file, page, buffer);
    let begin = streams()?.iter().filter_map(|stream| first_known(stream, is_known)).min();
    let begin = begin.ok_or_else(no_tracepoint)?;
    let cpus = buffer.cpus.iter().map(|(cpu, _)| u32::from(*cpu) + 1).max().unwrap_or(0);
    let mut writer = Writer::begin(output, &converted, formats, cpus.max(sections.cpus), begin);
    let mut uncounted = 0_u64;
    let mut starts = Starts::of(&sections.formats);
    for_each_sub_buffer(streams()?, |step| match step {
        Step::Entry(cpu, Entry::Event { time, raw }) if is_known(raw) => {
            starts.take(cpu, raw);
            writer.event(cpu.into(), time, raw);
            converted.events += 1;
        }
        Step::Entry(cpu, Entry::Event { raw, .. }) => {
            starts.take(cpu, raw);
            converted.others += 1;
        }
        Step::Entry(cpu, Entry::Loss { time, count }) => {
            starts.settled.insert(cpu);
            uncounted += u64::from(count.is_none());
            // There was one at least.
            writer.loss(cpu.into(), time, count.unwrap_or(1));
        }
        Step::Round(time) => writer.round(time),
    })?;
    writer.end();
    if uncounted > 0 {
        converted.notes.push(format!(
            "at {uncounted} places events were lost and the file does not say how many; each counts as one"
        ));
    }
    converted.span = Nanos::new(writer.youngest.saturating_sub(begin));
    let mut told = Told::by(writer.written(), STARTER)?;
    told.executed(&starts.executed);
    told.write(&mut writer);
    for (address, name) in named(sections.functions, &told.functions) {
        writer.symbol(address, name);
    }
    Ok(converted)
}

/// The number of a record's tracepoint, and the thread that ran: the first fields of all
/// (`trace_define_common_fields` of the kernel's `kernel/trace/trace_events.c`).
fn number_of(raw: &[u8]) -> Option<u16> {
    raw.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

fn thread_of(raw: &[u8]) -> Option<u32> {
    raw.get(4..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// Who ran when tracing began, and executed a program before its CPU went to another thread. trace-cmd's
/// child switches tracing on and then executes the command.
#[derive(Debug)]
struct Starts {
    switch: Option<u16>,
    executes: Option<u16>,
    /// CPUs that went to another thread, or that lost events.
    settled: BTreeSet<u16>,
    executed: BTreeSet<u32>,
}

impl Starts {
    fn of(formats: &Formats) -> Self {
        let is_switch = |text: &String| text.starts_with("sched/sched_switch\n");
        let switch = formats.known.iter().find(|(_, text)| is_switch(text)).map(|(number, _)| *number);
        Self { switch, executes: formats.executes, settled: BTreeSet::new(), executed: BTreeSet::new() }
    }

    fn take(&mut self, cpu: u16, raw: &[u8]) {
        let number = number_of(raw);
        if self.settled.contains(&cpu) || number.is_none() {
            return;
        }
        if number == self.switch {
            self.settled.insert(cpu);
        } else if number == self.executes {
            self.executed.extend(thread_of(raw));
        }
    }
}

fn no_tracepoint() -> Error {
    Error::otherwise(format!(
        "{NO_TRACEPOINT}; `trace-cmd record -e sched -e block -e workqueue -e power COMMAND` records some"
    ))
}

/// Refuses a clock that counts no nanoseconds.
fn check_clock(buffer: &Buffer, converted: &mut Converted) -> Result<(), Error> {
    let clock = &buffer.clock;
    if !CLOCKS.contains(&clock.as_str()) {
        return Err(Error::otherwise(format!(
            "its times are of the clock `{}`, which is not known to count nanoseconds; `trace-cmd record -C mono` \
             records times that are read",
            clock.chars().take(40).collect::<String>()
        )));
    }
    if clock == LOCAL {
        converted.notes.push(
            "its times are of the clock `local`, which each CPU has for itself: where these differ, so does the order \
             of events on two CPUs; `trace-cmd record -C mono` records times of one clock"
                .to_owned(),
        );
    }
    Ok(())
}

/// The sub-buffers of each CPU.
fn streams<'f>(file: &'f [u8], page: Page, buffer: &Buffer) -> Result<Vec<SubBuffers<'f>>, Error> {
    let mut streams = Vec::new();
    for (cpu, section) in &buffer.cpus {
        streams.push(SubBuffers::of(file, page, *cpu, *section)?);
    }
    Ok(streams)
}

/// When the first event was that is known.
fn first_known(stream: &SubBuffers<'_>, is_known: impl Fn(&[u8]) -> bool) -> Option<u64> {
    let mut stream = stream.clone();
    let mut first = None;
    while first.is_none()
        && let Some(sub_buffer) = stream.next()
    {
        // What is damaged is found again, and told, when all is read.
        let _ = sub_buffer.each(|entry| match entry {
            Entry::Event { time, raw } if first.is_none() && is_known(raw) => first = Some(time),
            _ => {}
        });
    }
    first
}

enum Step<'f> {
    Entry(u16, Entry<'f>),
    /// All that is older than this has been given.
    Round(u64),
}

/// Gives what is in the sub-buffers of all CPUs, by the time at which they begin.
fn for_each_sub_buffer<'f>(
    mut streams: Vec<SubBuffers<'f>>,
    mut take: impl FnMut(Step<'f>),
) -> Result<(), Error> {
    let begins = |stream: &SubBuffers<'_>, number: usize| Some(Reverse((stream.next_begins()?, number)));
    let mut order: BinaryHeap<Reverse<(u64, usize)>> =
        streams.iter().enumerate().filter_map(|(number, stream)| begins(stream, number)).collect();
    let mut given = 0;
    while let Some(Reverse((time, number))) = order.pop() {
        if given > 0 && given % ROUND == 0 {
            take(Step::Round(time));
        }
        given += 1;
        let Some(sub_buffer) = streams[number].next() else { continue };
        sub_buffer.each(|entry| take(Step::Entry(sub_buffer.cpu, entry)))?;
        order.extend(begins(&streams[number], number));
    }
    Ok(())
}

/// The names of those functions.
fn named<'f>(kallsyms: &'f [u8], addresses: &BTreeSet<u64>) -> BTreeMap<u64, &'f str> {
    let lines = kallsyms.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let functions = lines.filter_map(function).filter(|function| addresses.contains(&function.address));
    let mut found = BTreeMap::new();
    for function in functions {
        if found.len() < MAX_SYMBOLS {
            found.entry(function.address).or_insert(function.name);
        }
    }
    found
}
