//! What `perf record` has written, as a file of this crate's form.
//!
//! The form of `perf.data` is that of the kernel's `tools/perf/Documentation/perf.data-file-format.txt` and
//! `tools/perf/util/header.c`; that of its tracing data is `tools/perf/util/trace-event-info.c`. perf's
//! samples of tracepoints are the raw records that [`decode`](crate::decode()) reads, with more or fewer
//! fields in front; those of a clock with their call stacks become the profile ([`Sampled`]). What is
//! neither, nor a loss, nor says who a process is, is passed over and counted.
//!
//! The file has the addresses of call stacks and no names of the kernel's functions: a copy of that kernel's
//! `/proc/kallsyms` has them. Without it what ran in a module is known by where the module lies, and the rest
//! is unnamed: whatever called a function without a name says nothing of what it works for.
//!
//! perf ends a round where it has drained all rings once (`PERF_RECORD_FINISHED_ROUND`). What is older than
//! the youngest record of the round before has been written by then: that is the time that our own rounds
//! have.

use crate::foreign::{Bytes, Converted, Error, FORMATS_MAGIC, Gaps, Kernel, NO_TRACEPOINT, Names, Sampled};
use crate::foreign::{Section, Tasks, Writer, event_formats, ftrace_formats, headers, notes_of_clock};
use crate::owner::Owner;
use crate::records::{COMM, FORK, Fields, LOST, LOST_SAMPLES, SAMPLE};
use domain::Nanos;
use parse::import::perf_script::{Clock, module};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What it begins with, as this machine's byte order writes it.
pub const PERF_MAGIC: &[u8; 8] = b"PERFILE2";

/// Features (`tools/perf/util/header.h`).
const TRACING_DATA: u32 = 1;
const HOST: u32 = 3;
const RELEASE: u32 = 4;
const VERSION: u32 = 5;
const CPUS: u32 = 7;
const COMMAND: u32 = 11;
const COMPRESSED: u32 = 27;
const FEATURES: u32 = 256;

/// A mapping of code (`include/uapi/linux/perf_event.h`); those of the kernel have the first form.
const MMAP: u32 = 1;

/// Records of perf's own.
const FINISHED_ROUND: u32 = 68;
const COMPRESSED_RECORDS: [u32; 2] = [81, 83];
/// `PERF_RECORD_AUXTRACE`: bytes follow the record.
const AUXTRACE: u32 = 71;

/// `PERF_TYPE_*`.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const TRACEPOINT: u32 = 2;

/// The byte of `misc` that tells where the CPU was, and its values.
const CPUMODE: u16 = 7;
const IN_KERNEL: u16 = 1;
const IN_USER: [u16; 2] = [2, 5];

/// Marks between the parts of a call stack (`PERF_CONTEXT_*`): what follows is the kernel's.
const MARKS: u64 = -4095_i64 as u64;
const KERNEL_FOLLOWS: u64 = -128_i64 as u64;

/// `PERF_SAMPLE_*`.
mod sample {
    pub const IP: u64 = 1;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// Flags of `struct perf_event_attr`.
const EXCLUDE_USER: u64 = 1 << 4;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const FREQ: u64 = 1 << 10;
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// `PERF_RECORD_MISC_COMM_EXEC`.
const EXEC: u16 = 1 << 13;

/// Bounds on what a hostile file may ask for.
const MAX_ATTRS: u64 = 4096;
const MAX_IDS: u64 = 1 << 20;
const MAX_ADDRESSES: usize = 1 << 20;
const MAX_MODULES: usize = 1 << 14;

/// How one event's samples lie.
#[derive(Clone, Copy, Debug)]
struct Attr {
    kind: u32,
    config: u64,
    /// Or how often a second, where the flags say so.
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
}

impl Attr {
    /// Whether its samples are events of a tracepoint, as perf records them.
    fn is_event(&self) -> bool {
        const NEEDED: u64 = sample::RAW | sample::TIME | sample::CPU;
        self.kind == TRACEPOINT && self.sample_type & NEEDED == NEEDED
    }

    /// The clock that it is.
    fn clock(&self) -> Option<Clock> {
        // Above these bits is which kind of core it is of.
        match (self.kind, self.config & u64::from(u32::MAX)) {
            (SOFTWARE, 0) => Some(Clock::Cpu),
            (SOFTWARE, 1) => Some(Clock::Task),
            (HARDWARE, 0) => Some(Clock::Cycles),
            _ => None,
        }
    }

    /// How much time a sample of a clock stands for, where that is known.
    fn period_ns(&self, clock: Clock) -> Option<u64> {
        let period = match (self.flags & FREQ != 0, clock.counts_time()) {
            (true, _) => SECOND.checked_div(self.period)?,
            (false, true) => self.period,
            (false, false) => return None,
        };
        Some(period).filter(|period| *period > 0)
    }

    /// As perf would call it, with what it leaves out.
    fn name(&self, clock: Clock) -> String {
        let name = match clock {
            Clock::Cpu => "cpu-clock",
            Clock::Task => "task-clock",
            Clock::Cycles => "cycles",
        };
        let of_what = match (self.flags & EXCLUDE_KERNEL != 0, self.flags & EXCLUDE_USER != 0) {
            (true, false) => ":u",
            (false, true) => ":k",
            _ => "",
        };
        format!("{name}{of_what}")
    }
}

/// Reads a file of perf's, and appends it in the form of this crate.
///
/// # Errors
/// Where it is no such file, has neither a tracepoint that is known nor samples of a clock, or is damaged:
/// with the offset.
pub fn convert(file: &[u8], output: &mut Vec<u8>) -> Result<Converted, Error> {
    convert_naming(file, &[], output)
}

/// The same, with the functions of the kernel that it was recorded on: a copy of its `/proc/kallsyms`.
///
/// # Errors
/// As above, and where the functions are of another kernel, or have no addresses.
pub fn convert_naming(file: &[u8], kallsyms: &[u8], output: &mut Vec<u8>) -> Result<Converted, Error> {
    let layout = Layout::read(file)?;
    let mut converted = layout.converted.clone();
    let records = Records::of(file, layout.data)?;
    let mut first = Scan::of(records.clone(), &layout)?;
    let clock = first.clock(&layout);
    let clock_begin = clock.as_ref().map(|of| of.begin);
    let begin = first.begin.into_iter().chain(clock_begin).min().ok_or_else(nothing)?;
    let cpus = layout.cpus.max(first.cpus);
    let mut stacks = Stacks::of(&first, kallsyms)?;
    let mut writer = Writer::begin(output, &converted, &layout.formats, cpus, begin);
    if let Some(of) = &clock {
        writer.period(of.period);
    }
    first.tasks.write(&mut writer);
    for record in records {
        let record = record?;
        match record.kind {
            SAMPLE => match layout.read_sample(&record) {
                Some((attr, sample)) if clock.as_ref().is_some_and(|of| attr.clock() == Some(of.clock)) => {
                    stacks.write(&sample, &mut writer, &mut converted);
                }
                Some((attr, sample)) if attr.is_event() && layout.is_known(sample.raw) => {
                    writer.event(sample.cpu.unwrap_or(0), sample.time, sample.raw);
                    converted.events += 1;
                }
                _ => converted.others += 1,
            },
            LOST | LOST_SAMPLES => layout.loss(&record, &mut writer),
            FINISHED_ROUND => writer.round(writer.youngest),
            _ => {}
        }
    }
    if converted.events == 0 && converted.stacks == 0 {
        return Err(nothing());
    }
    writer.end();
    stacks.names.write(&mut writer);
    writer.owner(0, Owner::Kernel);
    if let Some(of) = clock {
        converted.notes.extend(notes_of_clock(&of.event, of.clock, of.with_stacks, of.is_measured));
        converted.notes.extend((kallsyms.is_empty()).then(|| UNNAMED.to_owned()));
        if !of.has_cpus && !first.tasks.has_workload() {
            // Of a process that perf was told to record: nobody else is in the file.
            let own = stacks.pids.iter().filter(|pid| !first.tasks.is_kernel(**pid));
            own.for_each(|pid| writer.owner(*pid, Owner::Workload));
        }
    }
    converted.span = Nanos::new(writer.youngest.saturating_sub(begin));
    Ok(converted)
}

const UNNAMED: &str = "the file has no names of the kernel's functions, so that of its shares those of modules alone are \
told apart; `--kallsyms FILE` with a copy of /proc/kallsyms of that machine, read as root in the same boot, gives \
all, and so does the text of `perf script`, made there";

/// Call stacks, and what is known of the kernel's functions.
struct Stacks<'k> {
    kernel: Kernel<'k>,
    modules: BTreeMap<u64, (u64, String)>,
    /// By address, those that were looked up.
    found: HashMap<u64, Option<String>>,
    names: Names,
    pids: BTreeSet<u32>,
}

impl<'k> Stacks<'k> {
    fn of(first: &Scan, kallsyms: &'k [u8]) -> Result<Self, Error> {
        let kernel = Kernel::read(kallsyms);
        if !kallsyms.is_empty() && kernel.is_empty() {
            return Err(Error::otherwise(
                "the file of the kernel's functions has no addresses: copy /proc/kallsyms as root",
            ));
        }
        if let (Some(there), Some(here)) = (kernel.text, first.text)
            && there != here
        {
            return Err(Error::otherwise(format!(
                "the file of the kernel's functions is of another kernel, or of another boot: `_text` is at {there:#x} in \
                 it, and at {here:#x} in the recording"
            )));
        }
        let modules = first.modules.clone();
        Ok(Self { kernel, modules, found: HashMap::new(), names: Names::default(), pids: BTreeSet::new() })
    }

    fn write(&mut self, sample: &Sample<'_>, writer: &mut Writer<'_>, converted: &mut Converted) {
        self.pids.insert(sample.pid);
        let addresses = sample.addresses();
        // What a function without a name was called by tells nothing of it.
        let depth = if self.kernel.is_empty() { 1 } else { usize::MAX };
        let addresses = addresses.as_ref().map(|addresses| &addresses[..addresses.len().min(depth)]);
        addresses.unwrap_or_default().iter().for_each(|address| self.find(*address));
        let functions: Option<Vec<Option<&str>>> = addresses.map(|addresses| {
            addresses.iter().map(|address| self.found.get(address).and_then(Option::as_deref)).collect()
        });
        let Sample { cpu, time, pid, tid, .. } = *sample;
        let sampled = Sampled { cpu, time, pid, tid, functions: functions.as_deref() };
        sampled.write(&mut self.names, writer, converted);
    }

    fn find(&mut self, address: u64) {
        if self.found.len() < MAX_ADDRESSES && !self.found.contains_key(&address) {
            let name = self.kernel.name(address).or_else(|| self.in_module(address));
            self.found.insert(address, name);
        }
    }

    fn in_module(&self, address: u64) -> Option<String> {
        let (begin, (length, name)) = self.modules.range(..=address).next_back()?;
        (address - begin < *length).then(|| format!("[unknown] [{name}]"))
    }
}

const COMPRESSED_FILE: &str =
    "its records are compressed; `perf record` without `-z` writes a file that is read";

const RECORDED_SO: &str = "`perf record -a -e 'sched:sched_switch' -e 'sched:sched_waking' -e 'block:block_bio_*' \
-e 'block:block_rq_*' -e 'power:cpu_idle' -e 'power:cpu_frequency'` records some";

fn nothing() -> Error {
    Error::otherwise(format!(
        "{NO_TRACEPOINT}, and no samples of cpu-clock or cycles; {RECORDED_SO}, and `perf record -a -g` call stacks"
    ))
}

/// What stands around the records.
struct Layout {
    attrs: Vec<Attr>,
    by_id: BTreeMap<u64, usize>,
    data: Section,
    /// Those of known tracepoints: `group/name`, a line break, and the format; by number.
    formats: BTreeMap<u16, String>,
    cpus: u32,
    converted: Converted,
}

impl Layout {
    fn read(file: &[u8]) -> Result<Self, Error> {
        let mut bytes = Bytes::new(file);
        let magic = bytes.take::<8>("magic")?;
        if magic != *PERF_MAGIC {
            let mut swapped = *PERF_MAGIC;
            swapped.reverse();
            return Err(Error::otherwise(if magic == swapped {
                "it was recorded on a machine of another byte order, which is not read"
            } else {
                "it does not begin as a file of perf record's"
            }));
        }
        // In a pipe there is no more of a header than this (`struct perf_pipe_file_header`).
        if bytes.u64("size of the header")? < 104 {
            return Err(Error::otherwise(
                "perf wrote it into a pipe; `perf record -o FILE` writes a file that is read",
            ));
        }
        let attr_size = bytes.u64("size of an event")?;
        let (attrs, data) = (bytes.section("events")?, bytes.section("records")?);
        bytes.section("types of events")?;
        let mut flags = [0_u64; 4];
        for flag in &mut flags {
            *flag = bytes.u64("features")?;
        }
        let mut layout = Self {
            attrs: Vec::new(),
            by_id: BTreeMap::new(),
            data,
            formats: BTreeMap::new(),
            cpus: 0,
            converted: Converted::default(),
        };
        layout.attrs(&mut bytes, attrs, attr_size)?;
        let has = |feature: u32| flags[(feature / 64) as usize] >> (feature % 64) & 1 == 1;
        bytes.seek(data.offset.saturating_add(data.size));
        let mut sections = Vec::new();
        for feature in (0..FEATURES).filter(|feature| has(*feature)) {
            sections.push((feature, bytes.section("section of a feature")?));
        }
        if has(COMPRESSED) {
            return Err(Error::otherwise(COMPRESSED_FILE));
        }
        for (feature, section) in sections {
            layout.feature(&mut bytes, feature, section)?;
        }
        Ok(layout)
    }

    fn attrs(&mut self, bytes: &mut Bytes<'_>, section: Section, size: u64) -> Result<(), Error> {
        let damaged = Error::Damaged { at: section.offset, what: "table of events" };
        // `struct perf_event_attr` of its first version, and the place of the event's numbers.
        if !(80..=4096).contains(&size) || section.size / size > MAX_ATTRS {
            return Err(damaged);
        }
        for number in 0..section.size / size {
            let at = section.offset + number * size;
            bytes.seek(at);
            let kind = bytes.u32("type of an event")?;
            bytes.seek(at + 8);
            let mut words = [0_u64; 5];
            for word in &mut words {
                *word = bytes.u64("event")?;
            }
            let [config, period, sample_type, read_format, flags] = words;
            bytes.seek(at + size - 16);
            let ids = bytes.section("numbers of an event")?;
            if ids.size / 8 > MAX_IDS {
                return Err(damaged);
            }
            bytes.seek(ids.offset);
            for _ in 0..ids.size / 8 {
                let id = bytes.u64("number of an event")?;
                self.by_id.insert(id, self.attrs.len());
            }
            self.attrs.push(Attr { kind, config, period, sample_type, read_format, flags });
        }
        Ok(())
    }

    fn feature(&mut self, bytes: &mut Bytes<'_>, feature: u32, section: Section) -> Result<(), Error> {
        bytes.seek(section.offset);
        match feature {
            TRACING_DATA => self.tracing_data(bytes)?,
            HOST => self.converted.host = Some(string(bytes)?),
            RELEASE => self.converted.kernel = Some(string(bytes)?),
            VERSION => self.converted.version = Some(string(bytes)?),
            CPUS => self.cpus = bytes.u32("number of CPUs")?,
            COMMAND => {
                let count = bytes.u32("number of words")?;
                for _ in 0..count.min(1024) {
                    self.converted.command.push(string(bytes)?);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Formats of tracepoints. In front of them are those of ftrace's own records.
    fn tracing_data(&mut self, bytes: &mut Bytes<'_>) -> Result<(), Error> {
        let what = "tracing data";
        let begin = bytes.at;
        if bytes.take::<10>(what)? != *FORMATS_MAGIC {
            return Err(Error::Damaged { at: begin, what });
        }
        bytes.ended_by_zero(what)?;
        let [is_big, _long] = bytes.take::<2>(what)?;
        if is_big != u8::from(cfg!(target_endian = "big")) {
            return Err(Error::Damaged { at: begin, what });
        }
        bytes.u32(what)?;
        headers(bytes)?;
        ftrace_formats(bytes)?;
        self.formats = event_formats(bytes)?.known;
        Ok(())
    }

    /// How a sample of this body lies. Where there is more than one event, its number stands in each sample,
    /// at one place for all: in front, or behind the address.
    fn attr_of(&self, body: &[u8]) -> Option<&Attr> {
        let first = self.attrs.first()?;
        if self.attrs.len() == 1 {
            return Some(first);
        }
        let place = if first.sample_type & sample::IDENTIFIER != 0 {
            0
        } else if first.sample_type & sample::ID != 0 {
            let before = [sample::IP, sample::TID, sample::TIME, sample::ADDR];
            before.iter().filter(|field| first.sample_type & **field != 0).count()
        } else {
            return self.attrs.iter().all(|attr| attr.sample_type == first.sample_type).then_some(first);
        };
        let id = body.get(8 * place..)?.first_chunk()?;
        self.attrs.get(*self.by_id.get(&u64::from_ne_bytes(*id))?)
    }

    /// The parts of a sample that matter, and which event's it is; `None` of one that has no time, or is
    /// damaged.
    fn read_sample<'r>(&self, record: &Record<'r>) -> Option<(&Attr, Sample<'r>)> {
        let attr = self.attr_of(record.body).filter(|attr| attr.sample_type & sample::TIME != 0)?;
        let mut fields = Fields(record.body);
        let mut sample = Sample { misc: record.misc, ..Sample::default() };
        for field in [sample::IDENTIFIER, sample::IP, sample::TID, sample::TIME, sample::ADDR] {
            if attr.sample_type & field == 0 {
                continue;
            }
            if field == sample::TID {
                (sample.pid, sample.tid) = (fields.u32()?, fields.u32()?);
                continue;
            }
            let value = fields.u64()?;
            match field {
                sample::IP => sample.ip = Some(value),
                sample::TIME => sample.time = value,
                _ => {}
            }
        }
        for field in [sample::ID, sample::STREAM_ID, sample::CPU, sample::PERIOD] {
            if attr.sample_type & field != 0 {
                let value = fields.u64()?;
                if field == sample::CPU {
                    sample.cpu = Some(value as u32);
                }
            }
        }
        if attr.sample_type & sample::READ != 0 {
            pass_read(&mut fields, attr.read_format)?;
        }
        if attr.sample_type & sample::CALLCHAIN != 0 {
            let length = usize::try_from(fields.u64()?.checked_mul(8)?).ok()?;
            sample.stack = fields.0.get(..length)?;
            fields.pass(length as u64)?;
        }
        if attr.sample_type & sample::RAW != 0 {
            let size = fields.u32()? as usize;
            sample.raw = fields.0.get(..size)?;
        }
        Some((attr, sample))
    }

    fn is_known(&self, raw: &[u8]) -> bool {
        let number = raw.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
        number.is_some_and(|number| self.formats.contains_key(&number))
    }

    /// When something happened that is no sample, and where: the fields stand at its end
    /// (`perf_event__sample_id` of the kernel's `kernel/events/core.c`).
    fn place_of(&self, body: &[u8]) -> Option<(u64, u32)> {
        let attr = self.attrs.iter().find(|attr| attr.flags & SAMPLE_ID_ALL != 0)?;
        let fields =
            [sample::TID, sample::TIME, sample::ID, sample::STREAM_ID, sample::CPU, sample::IDENTIFIER];
        let present: Vec<u64> = fields.into_iter().filter(|field| attr.sample_type & field != 0).collect();
        let mut behind = Fields(body.get(body.len().checked_sub(8 * present.len())?..)?);
        let (mut time, mut cpu) = (None, 0);
        for field in present {
            let value = behind.u64()?;
            match field {
                sample::TIME => time = Some(value),
                sample::CPU => cpu = value as u32,
                _ => {}
            }
        }
        Some((time?, cpu))
    }

    /// Writes how many were lost: behind which event, or alone.
    fn loss(&self, record: &Record<'_>, writer: &mut Writer<'_>) {
        let Some((time, cpu)) = self.place_of(record.body) else { return };
        let mut fields = Fields(record.body);
        if record.kind == LOST {
            fields.u64();
        }
        match fields.u64() {
            // What a ring of several events lost could be events.
            Some(count) if self.formats.is_empty() => writer.lost_stacks(cpu, time, count),
            Some(count) => writer.loss(cpu, time, count),
            None => {}
        }
    }
}

/// What of a sample is read.
#[derive(Clone, Copy, Debug, Default)]
struct Sample<'r> {
    misc: u16,
    pid: u32,
    tid: u32,
    time: u64,
    cpu: Option<u32>,
    /// Where the CPU was.
    ip: Option<u64>,
    /// The addresses of the call stack, and marks between its parts.
    stack: &'r [u8],
    raw: &'r [u8],
}

impl Sample<'_> {
    /// The addresses of the kernel on the stack, the one that ran first; `None` of a program. A call returns
    /// behind itself, which may be in the next function: of all but the first the byte before is meant.
    fn addresses(&self) -> Option<Vec<u64>> {
        if IN_USER.contains(&(self.misc & CPUMODE)) {
            return None;
        }
        let words = self.stack.chunks_exact(8).filter_map(|bytes| bytes.first_chunk().copied());
        let mut is_kernels = true;
        let mut addresses = Vec::new();
        for word in words.map(u64::from_ne_bytes) {
            if word >= MARKS {
                is_kernels = word == KERNEL_FOLLOWS;
            } else if is_kernels {
                addresses.push(if addresses.is_empty() { word } else { word.saturating_sub(1) });
            }
        }
        if addresses.is_empty() {
            addresses.extend(self.ip);
        }
        Some(addresses)
    }
}

/// The event whose samples are the profile.
#[derive(Debug)]
struct OfClock {
    clock: Clock,
    event: String,
    begin: u64,
    period: u64,
    is_measured: bool,
    with_stacks: bool,
    has_cpus: bool,
}

/// The samples of a clock.
#[derive(Default)]
struct Samples {
    begin: Option<u64>,
    gaps: Gaps,
    with_stacks: bool,
    has_cpus: bool,
}

/// What is found out before anything is written.
#[derive(Default)]
struct Scan {
    /// When the first known sample of a tracepoint was.
    begin: Option<u64>,
    /// One more than the highest number of a CPU.
    cpus: u32,
    clocks: BTreeMap<Clock, Samples>,
    /// Processes and threads before that.
    tasks: Tasks,
    /// Where the kernel's text begins.
    text: Option<u64>,
    /// Modules of the kernel by where they begin: length and name.
    modules: BTreeMap<u64, (u64, String)>,
}

impl Scan {
    fn of(records: Records<'_>, layout: &Layout) -> Result<Self, Error> {
        let mut scan = Self::default();
        for record in records {
            let record = record?;
            match record.kind {
                SAMPLE => {
                    if let Some((attr, sample)) = layout.read_sample(&record) {
                        scan.sample(attr, &sample);
                    }
                }
                COMM => scan.comm(&record),
                FORK => scan.fork(&record),
                MMAP if record.misc & CPUMODE == IN_KERNEL => scan.mapping(&record),
                kind if COMPRESSED_RECORDS.contains(&kind) => {
                    return Err(Error::otherwise(COMPRESSED_FILE));
                }
                _ => {}
            }
        }
        Ok(scan)
    }

    fn sample(&mut self, attr: &Attr, sample: &Sample<'_>) {
        let earlier = |begin: Option<u64>| begin.map_or(sample.time, |begin| begin.min(sample.time));
        if let Some(clock) = attr.clock() {
            let of = self.clocks.entry(clock).or_default();
            of.begin = Some(earlier(of.begin));
            of.gaps.take(sample.cpu.unwrap_or(sample.tid), sample.time);
            of.with_stacks |= !sample.stack.is_empty();
            of.has_cpus |= sample.cpu.is_some();
        } else if attr.is_event() {
            self.begin = Some(earlier(self.begin));
        } else {
            return;
        }
        self.cpus = self.cpus.max(sample.cpu.unwrap_or(0).saturating_add(1));
    }

    /// The best clock of which there are samples.
    fn clock(&mut self, layout: &Layout) -> Option<OfClock> {
        let clocks = std::mem::take(&mut self.clocks);
        clocks.into_iter().find_map(|(clock, samples)| {
            let attr = layout.attrs.iter().find(|attr| attr.clock() == Some(clock))?;
            let Samples { begin, gaps, with_stacks, has_cpus } = samples;
            let stated = attr.period_ns(clock);
            let (period, is_measured) = (stated.or_else(|| gaps.median())?, stated.is_none());
            let (event, begin) = (attr.name(clock), begin?);
            Some(OfClock { clock, event, begin, period, is_measured, with_stacks, has_cpus })
        })
    }

    /// Where the kernel and its modules lie: `[kernel.kallsyms]_text`, and files or `[raid10]`
    /// (tools/perf/util/synthetic-events.c).
    fn mapping(&mut self, record: &Record<'_>) {
        let mut fields = Fields(record.body);
        let (Some(_), Some(begin), Some(length), Some(offset)) =
            (fields.u64(), fields.u64(), fields.u64(), fields.u64())
        else {
            return;
        };
        let end = fields.0.iter().position(|byte| *byte == 0).unwrap_or(fields.0.len());
        let name = String::from_utf8_lossy(&fields.0[..end]).into_owned();
        if name.starts_with("[kernel.kallsyms]") {
            self.text = name.ends_with("_text").then_some(offset).or(self.text);
        } else if let Some(module) = module(&name)
            && self.modules.len() < MAX_MODULES
        {
            self.modules.insert(begin, (length, module.replace('-', "_")));
        }
    }

    fn comm(&mut self, record: &Record<'_>) {
        let mut fields = Fields(record.body);
        let (Some(pid), Some(tid)) = (fields.u32(), fields.u32()) else { return };
        let end = fields.0.iter().position(|byte| *byte == 0).unwrap_or(fields.0.len());
        let name = String::from_utf8_lossy(&fields.0[..end]).into_owned();
        match record.misc & EXEC {
            0 => self.tasks.named(pid, tid, name),
            _ => self.tasks.executes(pid),
        }
    }

    fn fork(&mut self, record: &Record<'_>) {
        let mut fields = Fields(record.body);
        if let (Some(pid), Some(parent)) = (fields.u32(), fields.u32()) {
            self.tasks.forks(pid, parent);
        }
    }
}

/// A record of perf's without its header.
#[derive(Clone, Copy, Debug)]
struct Record<'r> {
    kind: u32,
    misc: u16,
    body: &'r [u8],
}

/// The records, one after the other.
#[derive(Clone)]
struct Records<'f> {
    bytes: Bytes<'f>,
    end: u64,
}

impl<'f> Records<'f> {
    fn of(file: &'f [u8], data: Section) -> Result<Self, Error> {
        let mut bytes = Bytes::new(file);
        bytes.seek(data.offset);
        Ok(Self { bytes, end: data.offset + data.size })
    }

    fn read(&mut self) -> Result<Record<'f>, Error> {
        const HEADER: u64 = 8;
        let what = "record";
        let (at, left) = (self.bytes.at, self.end - self.bytes.at);
        let kind = self.bytes.u32(what)?;
        let (misc, size) = (self.bytes.u16(what)?, u64::from(self.bytes.u16(what)?));
        if size < HEADER || size > left {
            return Err(Error::Damaged { at, what });
        }
        let body = self.bytes.slice(size - HEADER, what)?;
        if kind == AUXTRACE {
            let behind = body.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
            if behind > left - size {
                return Err(Error::Damaged { at, what });
            }
            self.bytes.slice(behind, what)?;
        }
        Ok(Record { kind, misc, body })
    }
}

impl<'f> Iterator for Records<'f> {
    type Item = Result<Record<'f>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.end.saturating_sub(self.bytes.at) < 8 {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.end = 0;
        }
        Some(read)
    }
}

/// Its length, then the text and zeros.
fn string(bytes: &mut Bytes<'_>) -> Result<String, Error> {
    let size = bytes.u32("length of a text")?;
    let text = bytes.text(size.into(), "text")?;
    Ok(text.split('\0').next().unwrap_or_default().to_owned())
}

/// Passes over a `struct read_format`.
fn pass_read(fields: &mut Fields<'_>, format: u64) -> Option<()> {
    const ENABLED: u64 = 1;
    const RUNNING: u64 = 1 << 1;
    const ID: u64 = 1 << 2;
    const GROUP: u64 = 1 << 3;
    const LOST: u64 = 1 << 4;
    let has = |bit: u64| u64::from(format & bit != 0);
    if format & GROUP == 0 {
        return fields.pass(8 * (1 + has(ENABLED) + has(RUNNING) + has(ID) + has(LOST)));
    }
    let count = fields.u64()?;
    let each = 8 * (1 + has(ID) + has(LOST));
    fields.pass((8 * (has(ENABLED) + has(RUNNING))).checked_add(count.checked_mul(each)?)?)
}
