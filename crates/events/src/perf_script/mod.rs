//! What `perf script` has printed, as a file of this crate's form.
//!
//! A line has what the tracepoint's own format prints ([`parse::import::perf_script`]). Known tracepoints are
//! encoded again as records of formats of ours ([`shapes`]), so that all that reads a recording reads them as
//! it reads others.
//!
//! What the text does not have: whether an interrupt was going on. Of the idle task, and between the events
//! of an interrupt, it is known; what else wakes a thread counts as the thread that ran. Functions have names
//! and no addresses: each name gets one of its own. Lines of other events are counted; call stacks, and
//! whatever else stands between the lines, are passed over.

mod shapes;

use crate::file::MAX_CPUS;
use crate::foreign::{Converted, Error, NO_TRACEPOINT, PERFS_CHILD, Tasks, Told, Writer};
use domain::Nanos;
use parse::import::perf_script::{Line, line};
use shapes::{HARDIRQ, SHAPES, SOFTIRQ, encoded, format, shape_of};
use std::collections::BTreeMap;

/// How many records one of our rounds has.
const ROUND: u64 = 1 << 16;

/// A bound on functions: the first ones have names.
const MAX_FUNCTIONS: usize = 1 << 14;

/// A longer line is passed over: the longest event has some hundred bytes.
const MAX_LINE: usize = 4096;

/// perf's own words for who begins, who has a name, and what was lost, as `--show-task-events` and
/// `--show-lost-events` print them.
const FORK: &str = "PERF_RECORD_FORK(";
const COMM: &str = "PERF_RECORD_COMM";
const LOSSES: [&str; 2] = ["PERF_RECORD_LOST", "PERF_RECORD_LOST_SAMPLES"];

/// Reads a text of `perf script`, and appends it in the form of this crate.
///
/// # Errors
/// Where no line is a tracepoint that is known.
pub fn convert(file: &[u8], output: &mut Vec<u8>) -> Result<Converted, Error> {
    let scan = Scan::of(file);
    let begin = scan.begin.ok_or_else(no_tracepoint)?;
    let mut converted = scan.converted;
    let formats = (1..).zip(&SHAPES).map(|(number, shape)| (number, format(number, shape))).collect();
    let mut writer = Writer::begin(output, &converted, &formats, scan.cpus, begin);
    let (mut cpus, mut functions, mut unread) = (Cpus::default(), Functions::default(), 0_u64);
    for line in lines(file) {
        if let Some(count) = lost(&line) {
            writer.loss(line.cpu, line.time_ns, count);
            continue;
        }
        let Some(shape) = shape_of(line.event) else {
            converted.others += u64::from(!line.event.starts_with("PERF_RECORD_"));
            continue;
        };
        let (tid, flags) = cpus.running(&line);
        let Some(raw) = encoded(shape, line.fields, tid, flags, &mut |name| functions.address(name)) else {
            unread += 1;
            continue;
        };
        writer.event(line.cpu, line.time_ns, &raw);
        converted.events += 1;
        if converted.events.is_multiple_of(ROUND) {
            writer.round(writer.youngest);
        }
    }
    writer.end();
    if converted.events == 0 {
        return Err(no_tracepoint());
    }
    if unread > 0 {
        converted.notes.push(format!("{unread} lines of known events cannot be read, and are left out"));
    }
    converted.notes.push(NO_CONTEXT.to_owned());
    converted.span = Nanos::new(writer.youngest.saturating_sub(begin));
    functions.addresses.iter().for_each(|(name, address)| writer.symbol(*address, name));
    if scan.tasks.is_empty() {
        Told::by(writer.written(), PERFS_CHILD)?.write(&mut writer);
    } else {
        scan.tasks.write(&mut writer);
    }
    Ok(converted)
}

const NO_CONTEXT: &str = "the text does not say what happened in an interrupt, so that by whom a thread was woken is less sure \
than from the perf.data: the thread that ran, a timer or a completion just before";

fn no_tracepoint() -> Error {
    Error::otherwise(format!(
        "{NO_TRACEPOINT}; `perf script` of a `perf record -a -e 'sched:sched_switch' -e 'sched:sched_waking' \
         -e 'block:block_rq_*'` has some"
    ))
}

/// Its events, in their order; those of a CPU that cannot be are none.
fn lines(file: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let short = file.split(|byte| *byte == b'\n').filter(|line| line.len() <= MAX_LINE);
    let texts = short.filter_map(|bytes| std::str::from_utf8(bytes).ok());
    texts.filter_map(line).filter(|line| line.cpu < MAX_CPUS)
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
    /// One more than the highest number of a CPU.
    cpus: u32,
    tasks: Tasks,
}

impl Scan {
    fn of(file: &[u8]) -> Self {
        let mut scan = Self::default();
        let header = file.split(|byte| *byte == b'\n').take_while(|line| line.starts_with(b"#"));
        for line in header.filter_map(|line| std::str::from_utf8(line).ok()) {
            scan.header(line);
        }
        for line in lines(file) {
            if shape_of(line.event).is_some() {
                scan.begin = Some(scan.begin.map_or(line.time_ns, |begin| begin.min(line.time_ns)));
            }
            scan.cpus = scan.cpus.max(line.cpu + 1);
            scan.task(&line);
        }
        scan
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
            _ => {}
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
    fn running(&mut self, line: &Line<'_>) -> (u32, u8) {
        let cpu = self.0.entry(line.cpu).or_default();
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
