//! What `perf script` has printed, as a file of this crate's form.
//!
//! A line has what the tracepoint's own format prints ([`parse::import::perf_script`]). Known tracepoints are
//! encoded again as records of formats of ours ([`shapes`]), so that all that reads a recording reads them as
//! it reads others.
//!
//! What the text does not have: whether an interrupt was going on. Of the idle task, and between the events
//! of an interrupt, it is known; what else wakes a thread counts as the thread that ran. Functions have names
//! and no addresses: each name gets one of its own. Samples of a clock, with the call stacks below them,
//! become the profile ([`Sampled`]); their time does not need an order. Lines of other events are counted;
//! whatever else stands between the lines, call stacks of tracepoints among them, is passed over.

mod shapes;

use crate::file::MAX_CPUS;
use crate::foreign::{Converted, Error, Gaps, NO_TRACEPOINT, Names, PERFS_CHILD, Sampled, Tasks};
use crate::foreign::{Threads, Told, Writer, notes_of_clock, thread_name};
use domain::Nanos;
use parse::import::perf_script::{Clock, Frame, Line, frame, line};
use shapes::{HARDIRQ, SHAPES, SOFTIRQ, encoded, format, shape_of};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// How many records one of our rounds has.
const ROUND: u64 = 1 << 16;

/// A bound on functions: the first ones have names.
const MAX_FUNCTIONS: usize = 1 << 14;

/// A longer line is passed over: the longest event has some hundred bytes.
const MAX_LINE: usize = 4096;

/// A bound on the functions of one call stack.
const MAX_FRAMES: usize = 1024;

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// perf's own words for who begins, who has a name, and what was lost, as `--show-task-events` and
/// `--show-lost-events` print them.
const FORK: &str = "PERF_RECORD_FORK(";
const COMM: &str = "PERF_RECORD_COMM";
const LOSSES: [&str; 2] = ["PERF_RECORD_LOST", "PERF_RECORD_LOST_SAMPLES"];

/// Reads a text of `perf script`, and appends it in the form of this crate.
///
/// # Errors
/// Where no line is a tracepoint that is known, or a sample of a clock.
pub fn convert(file: &[u8], output: &mut Vec<u8>) -> Result<Converted, Error> {
    let scan = Scan::of(file);
    let begin = scan.begin().ok_or_else(nothing)?;
    let mut converted = scan.converted.clone();
    // What is not declared was not recorded: a text says nothing of events that it has none of.
    let declared = (1..).zip(&SHAPES).filter(|(number, _)| scan.events.contains(number));
    let formats = declared.map(|(number, shape)| (number, format(number, shape))).collect();
    let mut writer = Writer::begin(output, &converted, &formats, scan.cpus, begin);
    let clock = scan.clock();
    if let Some((_, samples)) = &clock {
        writer.period(samples.period);
    }
    let samples_have_stacks = clock.as_ref().is_some_and(|(_, samples)| samples.with_stacks);
    let mut texts = Texts::default();
    let (mut unread, mut names) = (0_u64, Names::default());
    each(file, |line, frames| {
        if clock.as_ref().is_some_and(|(clock, _)| Clock::of(line.event) == Some(*clock)) {
            // Of a program there is none where perf was told to record the kernel's alone.
            let is_programs = samples_have_stacks && frames.is_empty() && line.fields.is_empty();
            match stack(line, frames).or(is_programs.then_some(None)) {
                Some(stack) => {
                    let tid = line.tid.unwrap_or(0);
                    let pid = line.pid.or_else(|| scan.tasks.process_of(tid)).unwrap_or(tid);
                    let functions: Option<Vec<Option<&str>>> =
                        stack.as_ref().map(|names| names.iter().map(Option::as_deref).collect());
                    let functions = functions.as_deref();
                    let sampled = Sampled { cpu: line.cpu, time: line.time_ns, pid, tid, functions };
                    sampled.write(&mut names, &mut writer, &mut converted);
                }
                None => converted.others += 1,
            }
            return;
        }
        unread += u64::from(texts.event(line, &mut writer, &mut converted).is_none());
    });
    writer.end();
    if converted.events == 0 && converted.stacks == 0 {
        return Err(nothing());
    }
    if unread > 0 {
        converted.notes.push(format!("{unread} lines of known events cannot be read, and are left out"));
    }
    if converted.events > 0 {
        converted.notes.push(NO_CONTEXT.to_owned());
    }
    converted.span = Nanos::new(writer.youngest.saturating_sub(begin));
    texts.functions.addresses.iter().for_each(|(name, address)| writer.symbol(*address, name));
    names.write(&mut writer);
    if let Some((clock, samples)) = clock {
        let is_measured = samples.is_measured;
        converted.notes.extend(notes_of_clock(&samples.event, clock, samples.with_stacks, is_measured));
        let called = thread_name(&converted.command).filter(|_| !scan.tasks.has_workload());
        samples.threads.write(&mut writer, |name| !samples.has_cpus || Some(name) == called);
    }
    if scan.tasks.is_empty() {
        Told::by(writer.written(), PERFS_CHILD)?.write(&mut writer);
    } else {
        scan.tasks.write(&mut writer);
    }
    Ok(converted)
}

/// The functions of the kernel that ran at a sample, the innermost first: none of a program. `None` where the
/// line has no call stack, nor a function of its own.
fn stack<'t>(line: &Line<'t>, frames: &[Frame<'t>]) -> Option<Option<Vec<Option<Cow<'t, str>>>>> {
    let own: Vec<Frame<'t>>;
    let frames = if frames.is_empty() {
        own = vec![frame(line.fields)?];
        &own
    } else {
        frames
    };
    if !frames.first()?.is_kernel {
        return Some(None);
    }
    Some(Some(frames.iter().take_while(|frame| frame.is_kernel).map(named).collect()))
}

/// As a symbol of the kernel's: `name`, or `name [module]`. Files of modules may have a hyphen where the
/// kernel has an underscore.
fn named<'t>(frame: &Frame<'t>) -> Option<Cow<'t, str>> {
    match (frame.name, frame.module) {
        (name, Some(module)) => {
            let (name, module) = (name.unwrap_or("[unknown]"), module.replace('-', "_"));
            Some(Cow::Owned(format!("{name} [{module}]")))
        }
        (name, None) => name.map(Cow::Borrowed),
    }
}

/// What tracepoints become.
#[derive(Default)]
struct Texts {
    cpus: Cpus,
    functions: Functions,
}

impl Texts {
    /// Writes the event of a line. `None` where it is known and cannot be read.
    fn event(&mut self, line: &Line<'_>, writer: &mut Writer<'_>, converted: &mut Converted) -> Option<()> {
        let cpu = line.cpu.unwrap_or(0);
        if let Some(count) = lost(line) {
            writer.loss(cpu, line.time_ns, count);
            return Some(());
        }
        let Some(shape) = shape_of(line.event) else {
            converted.others += u64::from(!line.event.starts_with("PERF_RECORD_"));
            return Some(());
        };
        let (tid, flags) = self.cpus.running(line, cpu);
        let functions = &mut self.functions;
        let raw = encoded(shape, line.fields, tid, flags, &mut |name| functions.address(name))?;
        writer.event(cpu, line.time_ns, &raw);
        converted.events += 1;
        if converted.events.is_multiple_of(ROUND) {
            writer.round(writer.youngest);
        }
        Some(())
    }
}

const NO_CONTEXT: &str = "the text does not say what happened in an interrupt, so that by whom a thread was woken is less sure \
than from the perf.data: the thread that ran, a timer or a completion just before";

fn nothing() -> Error {
    Error::otherwise(format!(
        "{NO_TRACEPOINT}, and no samples of cpu-clock or cycles; `perf script` of a `perf record -a -g -e cpu-clock`, or of a \
         `perf record -a -e 'sched:sched_switch' -e 'sched:sched_waking' -e 'block:block_rq_*'` has some"
    ))
}

/// Gives its events, in their order, each with the call stack below it; those of a CPU that cannot be are
/// none.
fn each<'t>(file: &'t [u8], mut take: impl FnMut(&Line<'t>, &[Frame<'t>])) {
    let mut current: Option<Line<'t>> = None;
    let mut frames: Vec<Frame<'t>> = Vec::new();
    for bytes in file.split(|byte| *byte == b'\n') {
        // Of a longer one, which names a function of C++, the begin tells whose it is.
        let Some(text) = begin_of(bytes) else { continue };
        let event = (bytes.len() <= MAX_LINE).then(|| line(text)).flatten();
        if event.is_some() || text.trim().is_empty() {
            current.iter().for_each(|line| take(line, &frames));
            frames.clear();
            current = event.filter(|line| line.cpu.is_none_or(|cpu| cpu < MAX_CPUS));
        } else if current.is_some_and(|line| Clock::of(line.event).is_some()) && frames.len() < MAX_FRAMES {
            frames.extend(frame(text));
        }
    }
    current.iter().for_each(|line| take(line, &frames));
}

/// As much of a line as is looked at.
fn begin_of(bytes: &[u8]) -> Option<&str> {
    let begin = &bytes[..bytes.len().min(MAX_LINE)];
    match std::str::from_utf8(begin) {
        Ok(text) => Some(text),
        Err(error) if bytes.len() > MAX_LINE => std::str::from_utf8(&begin[..error.valid_up_to()]).ok(),
        Err(_) => None,
    }
}

/// `PERF_RECORD_LOST lost 12`.
fn lost(line: &Line<'_>) -> Option<u64> {
    let is_loss = LOSSES.contains(&line.event);
    is_loss.then(|| line.fields.strip_prefix("lost ")?.split_whitespace().next()?.parse().ok())?
}

/// What is found out before anything is written.
#[derive(Default)]
struct Scan {
    converted: Converted,
    /// When the first known event was.
    begin: Option<u64>,
    /// The numbers of the known events that there are.
    events: BTreeSet<u16>,
    /// One more than the highest number of a CPU.
    cpus: u32,
    tasks: Tasks,
    clocks: BTreeMap<Clock, Samples>,
    /// By event, how often a second it is sampled, as the header says it.
    frequencies: BTreeMap<String, u64>,
}

/// The samples of a clock.
#[derive(Default)]
struct Samples {
    /// As perf calls the event.
    event: String,
    begin: u64,
    /// How much CPU time each stands for, in nanoseconds; zero where that is not known.
    period: u64,
    is_measured: bool,
    with_stacks: bool,
    has_cpus: bool,
    threads: Threads,
    gaps: Gaps,
}

impl Samples {
    fn take(&mut self, line: &Line<'_>, frames: &[Frame<'_>], clock: Clock, pid: Option<u32>) {
        let stack = stack(line, frames);
        if stack.is_none() && !line.fields.is_empty() {
            return;
        }
        if self.event.is_empty() {
            line.event.clone_into(&mut self.event);
            self.begin = line.time_ns;
        }
        self.begin = self.begin.min(line.time_ns);
        if clock.counts_time() && self.period == 0 {
            self.period = line.period.unwrap_or(0);
        }
        self.with_stacks |= !frames.is_empty();
        self.has_cpus |= line.cpu.is_some();
        let tid = line.tid.unwrap_or(0);
        self.gaps.take(line.cpu.unwrap_or(tid), line.time_ns);
        let functions = || stack.iter().flatten().flatten().flatten().map(Cow::as_ref);
        let is_kernel = || Threads::is_kernel(tid, line.comm, functions());
        self.threads.take(pid.unwrap_or(tid), tid, line.comm, is_kernel);
    }
}

impl Scan {
    fn of(file: &[u8]) -> Self {
        let mut scan = Self::default();
        let header = file.split(|byte| *byte == b'\n').take_while(|line| line.starts_with(b"#"));
        for line in header.filter_map(|line| std::str::from_utf8(line).ok()) {
            scan.header(line);
        }
        each(file, |line, frames| {
            if let Some((number, _)) = shape_of(line.event) {
                scan.events.insert(number);
                scan.begin = Some(scan.begin.map_or(line.time_ns, |begin| begin.min(line.time_ns)));
            }
            scan.cpus = scan.cpus.max(line.cpu.unwrap_or(0) + 1);
            scan.task(line);
            if let Some(clock) = Clock::of(line.event) {
                let pid = line.pid.or_else(|| scan.tasks.process_of(line.tid?));
                scan.clocks.entry(clock).or_default().take(line, frames, clock, pid);
            }
        });
        for (clock, samples) in &mut scan.clocks {
            if !clock.counts_time() {
                samples.period = scan.frequencies.get(&samples.event).map_or(0, |hertz| SECOND / hertz);
            }
            if samples.period == 0 {
                samples.period = std::mem::take(&mut samples.gaps).median().unwrap_or(0);
                samples.is_measured = true;
            }
        }
        scan
    }

    /// The best clock of which there are samples.
    fn clock(&self) -> Option<(Clock, &Samples)> {
        let known = |(_, samples): &(&Clock, &Samples)| samples.period > 0;
        self.clocks.iter().find(known).map(|(clock, samples)| (*clock, samples))
    }

    /// When the first of what is kept was.
    fn begin(&self) -> Option<u64> {
        self.begin.into_iter().chain(self.clock().map(|(_, samples)| samples.begin)).min()
    }

    /// `# hostname : vm`, of `--header`.
    fn header(&mut self, line: &str) {
        let Some((key, value)) = line.trim_start_matches('#').split_once(':') else { return };
        let text = || Some(value.trim().chars().take(MAX_LINE).collect::<String>());
        match key.trim() {
            "hostname" => self.converted.host = text(),
            "os release" => self.converted.kernel = text(),
            "perf version" => self.converted.version = text(),
            // perf prints its words without quotes: where one ended is seen by the spaces alone.
            "cmdline" => self.converted.command = value.split_whitespace().map(str::to_owned).collect(),
            "event" => self.frequency(value),
            _ => {}
        }
    }

    /// `name = cycles, , id = { 7 }, …, { sample_period, sample_freq } = 4000, …, freq = 1, …`.
    fn frequency(&mut self, text: &str) {
        let of = |key: &str| text.split_once(key)?.1.split([',', ' ']).find(|word| !word.is_empty());
        let is_frequency = of(" freq = ") == Some("1");
        let hertz = of("{ sample_period, sample_freq } = ").and_then(|hertz| hertz.parse().ok());
        if let (true, Some(name), Some(hertz @ 1..=SECOND)) = (is_frequency, of("name = "), hertz)
            && self.frequencies.len() < MAX_FUNCTIONS
        {
            self.frequencies.insert(name.to_owned(), hertz);
        }
    }

    /// `PERF_RECORD_FORK(3:3):(2:2)` and `PERF_RECORD_COMM exec: dd:7/7`.
    fn task(&mut self, line: &Line<'_>) {
        if let Some(pairs) = line.event.strip_prefix(FORK) {
            let mut first = pairs.split("):(").filter_map(|pair| pair.split(':').next()?.parse().ok());
            if let (Some(pid), Some(parent)) = (first.next(), first.next()) {
                self.tasks.forks(pid, parent);
            }
        }
        if line.event != COMM {
            return;
        }
        let (is_exec, named) =
            line.fields.strip_prefix("exec: ").map_or((false, line.fields), |named| (true, named));
        let parts = named.rsplit_once(':').and_then(|(name, ids)| Some((name, ids.split_once('/')?)));
        let Some((name, (pid, tid))) = parts else { return };
        match (pid.parse(), tid.parse()) {
            (Ok(pid), Ok(_)) if is_exec => self.tasks.executes(pid),
            (Ok(pid), Ok(tid)) => self.tasks.named(pid, tid, name.to_owned()),
            _ => {}
        }
    }
}

/// What each CPU does, as far as the text says it.
#[derive(Default)]
struct Cpus(BTreeMap<u32, Cpu>);

#[derive(Default)]
struct Cpu {
    /// Who was switched to last.
    thread: Option<u32>,
    /// What interrupts that thread.
    context: u8,
}

impl Cpus {
    /// Who runs at this line, and what interrupts it. The idle task does nothing by itself but to become idle
    /// and to go to another thread.
    fn running(&mut self, line: &Line<'_>, number: u32) -> (u32, u8) {
        let cpu = self.0.entry(number).or_default();
        let tid = line.tid.or(cpu.thread).unwrap_or(0);
        let (group, name) = line.event.split_once(':').unwrap_or_default();
        let before = cpu.context;
        match name {
            "irq_handler_entry" => cpu.context |= HARDIRQ,
            "irq_handler_exit" => cpu.context &= !HARDIRQ,
            "softirq_entry" => cpu.context |= SOFTIRQ,
            "softirq_exit" => cpu.context &= !SOFTIRQ,
            "sched_switch" => {
                *cpu = Cpu { thread: next_of(line.fields), context: 0 };
                return (tid, 0);
            }
            _ => {}
        }
        let interrupts_idle = tid == 0 && group != "power";
        match before | cpu.context {
            0 if interrupts_idle => (tid, HARDIRQ),
            context => (tid, context),
        }
    }
}

/// The thread that a switch goes to.
fn next_of(fields: &str) -> Option<u32> {
    let (_, next) = fields.rsplit_once(" ==> ")?;
    let of_key = || next.rsplit_once(" next_pid=")?.1.split_whitespace().next();
    let in_short = || Some(next.rsplit_once(" [")?.0.rsplit_once(':')?.1);
    of_key().or_else(in_short)?.parse().ok()
}

/// Addresses of functions whose names alone are known.
#[derive(Default)]
struct Functions {
    addresses: BTreeMap<String, u64>,
}

impl Functions {
    /// One where no code is: below the first page.
    fn address(&mut self, name: &str) -> u64 {
        let count = self.addresses.len();
        if let Some(address) = self.addresses.get(name) {
            return *address;
        }
        if count >= MAX_FUNCTIONS {
            return 0;
        }
        let address = count as u64 + 1;
        self.addresses.insert(name.to_owned(), address);
        address
    }
}
