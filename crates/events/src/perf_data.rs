//! What `perf record` has written, as a file of this crate's form.
//!
//! The form of `perf.data` is that of the kernel's `tools/perf/Documentation/perf.data-file-format.txt` and
//! `tools/perf/util/header.c`; that of its tracing data is `tools/perf/util/trace-event-info.c`. perf's
//! samples of tracepoints are the raw records that [`decode`](crate::decode()) reads, with more or fewer
//! fields in front. What is neither a known tracepoint nor a loss, nor says who a process is, is passed over
//! and counted.
//!
//! perf ends a round where it has drained all rings once (`PERF_RECORD_FINISHED_ROUND`). What is older than
//! the youngest record of the round before has been written by then: that is the time that our own rounds
//! have.

use crate::file::{Head, Kind, LONGEST_FRAME, MAGIC, header};
use crate::owner::Owner;
use crate::records::{COMM, FORK, Fields, LOST, LOST_SAMPLES, SAMPLE};
use domain::event_set::Set;
use domain::{Nanos, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Why a file of perf's cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input or output failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It could be read, had it been written in another way.
    #[error("{0}")]
    Otherwise(&'static str),
    /// What stands there cannot be meant.
    #[error("the {what} at byte {at} cannot be read")]
    Damaged {
        /// From the file's begin.
        at: u64,
        /// What was expected there.
        what: &'static str,
    },
}

/// What a converted file is of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// The kernel's release, where the file states it.
    pub kernel: Option<String>,
    /// The host's name, where the file states it.
    pub host: Option<String>,
    /// perf's version, where the file states it.
    pub perf: Option<String>,
    /// perf's command line, where the file states it.
    pub command: Vec<String>,
    /// How many records of known tracepoints there are.
    pub events: u64,
    /// From the first to the last of them.
    pub span: Nanos,
    /// Samples of anything else, which are left out.
    pub others: u64,
}

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

/// Records of perf's own.
const FINISHED_ROUND: u32 = 68;
const COMPRESSED_RECORDS: [u32; 2] = [81, 83];
/// `PERF_RECORD_AUXTRACE`: bytes follow the record.
const AUXTRACE: u32 = 71;

/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;

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

/// `sample_id_all` of `struct perf_event_attr`.
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// `PERF_RECORD_MISC_COMM_EXEC`.
const EXEC: u16 = 1 << 13;

/// Bounds on what a hostile file may ask for.
const MAX_ATTRS: u64 = 4096;
const MAX_IDS: u64 = 1 << 20;
const MAX_TEXT: u64 = 1 << 20;
const MAX_TABLES: u64 = 256 << 20;
const MAX_TASKS: usize = 1 << 20;

/// What a child of perf's is called until it executes the command that was given
/// (`evlist__prepare_workload` of tools/perf/util/evlist.c): other programs begin meanwhile as well.
const PERFS_CHILD: &str = "perf-exec";

/// The number of a process that makes the kernel's threads.
const KTHREADD: u32 = 2;

/// How one event's samples lie.
#[derive(Clone, Copy, Debug)]
struct Attr {
    kind: u32,
    sample_type: u64,
    read_format: u64,
    has_id_of_all: bool,
}

/// A part of the file.
#[derive(Clone, Copy, Debug)]
struct Section {
    offset: u64,
    size: u64,
}

/// Reads a file of perf's, and writes it in the form of this crate.
///
/// # Errors
/// Where it is no such file, has no tracepoint that is known, or is damaged: with the offset.
pub fn convert<R: Read + Seek, W: Write>(mut input: R, output: W) -> Result<Converted, Error> {
    let layout = Layout::read(&mut input)?;
    let mut converted = layout.converted.clone();
    let mut writer = Writer { to: output, waiting: BTreeMap::new(), youngest: 0 };
    let first = Scan::of(&mut input, &layout)?;
    let begin = first.begin.ok_or(Error::Otherwise(NO_TRACEPOINT))?;
    writer.begin(&converted, &layout.formats, layout.cpus.max(first.cpus), begin)?;
    writer.tasks(&first)?;
    let mut records = Records::new(&mut input, layout.data)?;
    while let Some(record) = records.next()? {
        match record.kind {
            SAMPLE => match layout.sample(record.body) {
                Some(sample) if layout.is_known(sample.raw) => {
                    writer.sample(&sample)?;
                    converted.events += 1;
                }
                _ => converted.others += 1,
            },
            LOST | LOST_SAMPLES => writer.loss(&record, &layout)?,
            FINISHED_ROUND => writer.round()?,
            _ => {}
        }
    }
    if converted.events == 0 {
        return Err(Error::Otherwise(NO_TRACEPOINT));
    }
    writer.end()?;
    converted.span = Nanos::new(writer.youngest.saturating_sub(begin));
    Ok(converted)
}

const COMPRESSED_FILE: &str =
    "its records are compressed; `perf record` without `-z` writes a file that is read";

const NO_TRACEPOINT: &str = "it has no sample of a tracepoint that is read here; `perf record -a -e 'sched:sched_switch' \
-e 'sched:sched_waking' -e 'block:block_bio_*' -e 'block:block_rq_*' -e 'power:cpu_idle' -e 'power:cpu_frequency'` records some";

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
    fn read<R: Read + Seek>(input: &mut R) -> Result<Self, Error> {
        let end = input.seek(SeekFrom::End(0))?;
        input.seek(SeekFrom::Start(0))?;
        let mut bytes = Bytes { input, at: 0, end };
        let magic = bytes.take::<8>("magic")?;
        if magic != *PERF_MAGIC {
            let mut swapped = *PERF_MAGIC;
            swapped.reverse();
            return Err(Error::Otherwise(if magic == swapped {
                "it was recorded on a machine of another byte order, which is not read"
            } else {
                "it does not begin as a file of perf record's"
            }));
        }
        // In a pipe there is no more of a header than this (`struct perf_pipe_file_header`).
        if bytes.u64("size of the header")? < 104 {
            return Err(Error::Otherwise(
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
        bytes.seek(data.offset.saturating_add(data.size))?;
        let mut sections = Vec::new();
        for feature in (0..FEATURES).filter(|feature| has(*feature)) {
            sections.push((feature, bytes.section("section of a feature")?));
        }
        if has(COMPRESSED) {
            return Err(Error::Otherwise(COMPRESSED_FILE));
        }
        for (feature, section) in sections {
            layout.feature(&mut bytes, feature, section)?;
        }
        Ok(layout)
    }

    fn attrs<R: Read + Seek>(
        &mut self,
        bytes: &mut Bytes<'_, R>,
        section: Section,
        size: u64,
    ) -> Result<(), Error> {
        let damaged = Error::Damaged { at: section.offset, what: "table of events" };
        // `struct perf_event_attr` of its first version, and the place of the event's numbers.
        if !(80..=4096).contains(&size) || section.size / size > MAX_ATTRS {
            return Err(damaged);
        }
        for number in 0..section.size / size {
            let at = section.offset + number * size;
            bytes.seek(at)?;
            let kind = bytes.u32("type of an event")?;
            bytes.seek(at + 24)?;
            let (sample_type, read_format, flags) =
                (bytes.u64("event")?, bytes.u64("event")?, bytes.u64("event")?);
            bytes.seek(at + size - 16)?;
            let ids = bytes.section("numbers of an event")?;
            if ids.size / 8 > MAX_IDS {
                return Err(damaged);
            }
            bytes.seek(ids.offset)?;
            for _ in 0..ids.size / 8 {
                let id = bytes.u64("number of an event")?;
                self.by_id.insert(id, self.attrs.len());
            }
            let has_id_of_all = flags & SAMPLE_ID_ALL != 0;
            self.attrs.push(Attr { kind, sample_type, read_format, has_id_of_all });
        }
        Ok(())
    }

    fn feature<R: Read + Seek>(
        &mut self,
        bytes: &mut Bytes<'_, R>,
        feature: u32,
        section: Section,
    ) -> Result<(), Error> {
        bytes.seek(section.offset)?;
        match feature {
            TRACING_DATA => self.tracing_data(bytes)?,
            HOST => self.converted.host = Some(bytes.string()?),
            RELEASE => self.converted.kernel = Some(bytes.string()?),
            VERSION => self.converted.perf = Some(bytes.string()?),
            CPUS => self.cpus = bytes.u32("number of CPUs")?,
            COMMAND => {
                let count = bytes.u32("number of words")?;
                for _ in 0..count.min(1024) {
                    self.converted.command.push(bytes.string()?);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Formats of tracepoints. In front of them are those of ftrace's own records.
    fn tracing_data<R: Read + Seek>(&mut self, bytes: &mut Bytes<'_, R>) -> Result<(), Error> {
        let what = "tracing data";
        let begin = bytes.at;
        if bytes.take::<10>(what)? != *b"\x17\x08\x44tracing" {
            return Err(Error::Damaged { at: begin, what });
        }
        bytes.ended_by_zero(what)?;
        let [is_big, _long] = bytes.take::<2>(what)?;
        if is_big != u8::from(cfg!(target_endian = "big")) {
            return Err(Error::Damaged { at: begin, what });
        }
        bytes.u32(what)?;
        for _ in ["header_page", "header_event"] {
            bytes.ended_by_zero(what)?;
            let size = bytes.u64(what)?;
            bytes.pass(size)?;
        }
        let count = bytes.u32(what)?;
        for _ in 0..count.min(MAX_ATTRS as u32) {
            let size = bytes.u64(what)?;
            bytes.pass(size)?;
        }
        let known: BTreeSet<&str> = Set::ALL.iter().flat_map(|set| set.tracepoints()).copied().collect();
        let systems = bytes.u32(what)?;
        for _ in 0..systems.min(MAX_ATTRS as u32) {
            let system = bytes.ended_by_zero(what)?;
            let count = bytes.u32(what)?;
            for _ in 0..count.min(MAX_ATTRS as u32) {
                let at = bytes.at;
                let size = bytes.u64(what)?;
                let text = bytes.text(size, what)?;
                let name = text.lines().find_map(|line| line.strip_prefix("name: ")).unwrap_or_default();
                let id = text.lines().find_map(|line| line.strip_prefix("ID: "));
                let id = id.and_then(|id| id.trim().parse().ok()).ok_or(Error::Damaged { at, what })?;
                let name = format!("{system}/{}", name.trim());
                if known.contains(name.as_str()) {
                    self.formats.insert(id, format!("{name}\n{text}"));
                }
            }
        }
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

    /// The parts of a sample that matter; `None` of one that is none of a tracepoint, or damaged.
    fn sample<'r>(&self, body: &'r [u8]) -> Option<Sample<'r>> {
        let attr = self.attr_of(body)?;
        // perf's own tracepoints have all of these.
        const NEEDED: u64 = sample::RAW | sample::TIME | sample::CPU;
        if attr.kind != TRACEPOINT || attr.sample_type & NEEDED != NEEDED {
            return None;
        }
        let mut fields = Fields(body);
        let mut sample = Sample { time: 0, cpu: 0, raw: &[] };
        for field in [sample::IDENTIFIER, sample::IP, sample::TID, sample::TIME, sample::ADDR] {
            if attr.sample_type & field != 0 {
                let value = fields.u64()?;
                if field == sample::TIME {
                    sample.time = value;
                }
            }
        }
        for field in [sample::ID, sample::STREAM_ID, sample::CPU, sample::PERIOD] {
            if attr.sample_type & field != 0 {
                let value = fields.u64()?;
                if field == sample::CPU {
                    sample.cpu = value as u32;
                }
            }
        }
        if attr.sample_type & sample::READ != 0 {
            pass_read(&mut fields, attr.read_format)?;
        }
        if attr.sample_type & sample::CALLCHAIN != 0 {
            let count = fields.u64()?;
            fields.pass(count.checked_mul(8)?)?;
        }
        let size = fields.u32()? as usize;
        sample.raw = fields.0.get(..size)?;
        Some(sample)
    }

    fn is_known(&self, raw: &[u8]) -> bool {
        let number = raw.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
        number.is_some_and(|number| self.formats.contains_key(&number))
    }

    /// When something happened that is no sample, and where: the fields stand at its end
    /// (`perf_event__sample_id` of the kernel's `kernel/events/core.c`).
    fn place_of(&self, body: &[u8]) -> Option<(u64, u32)> {
        let attr = self.attrs.iter().find(|attr| attr.has_id_of_all)?;
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
}

/// What of a sample is written.
struct Sample<'r> {
    time: u64,
    cpu: u32,
    raw: &'r [u8],
}

/// What is found out before anything is written.
#[derive(Default)]
struct Scan {
    /// When the first known sample was.
    begin: Option<u64>,
    /// One more than the highest number of a CPU.
    cpus: u32,
    /// Processes and threads before that: name, process, and who made it.
    tasks: BTreeMap<u32, (u32, String)>,
    parents: BTreeMap<u32, u32>,
    /// The process that executed perf's own command.
    workload: Option<u32>,
}

impl Scan {
    fn of<R: Read + Seek>(input: &mut R, layout: &Layout) -> Result<Self, Error> {
        let mut scan = Self::default();
        let mut records = Records::new(input, layout.data)?;
        while let Some(record) = records.next()? {
            match record.kind {
                SAMPLE => {
                    if let Some(sample) = layout.sample(record.body) {
                        scan.begin = Some(scan.begin.map_or(sample.time, |begin| begin.min(sample.time)));
                        scan.cpus = scan.cpus.max(sample.cpu.saturating_add(1));
                    }
                }
                COMM => scan.comm(&record),
                FORK => scan.fork(&record),
                kind if COMPRESSED_RECORDS.contains(&kind) => {
                    return Err(Error::Otherwise(COMPRESSED_FILE));
                }
                _ => {}
            }
        }
        Ok(scan)
    }

    fn comm(&mut self, record: &Record<'_>) {
        let mut fields = Fields(record.body);
        let (Some(pid), Some(tid)) = (fields.u32(), fields.u32()) else { return };
        let end = fields.0.iter().position(|byte| *byte == 0).unwrap_or(fields.0.len());
        let name = String::from_utf8_lossy(&fields.0[..end]).into_owned();
        if record.misc & EXEC != 0 {
            let is_perfs = self.tasks.get(&pid).is_some_and(|(_, name)| name == PERFS_CHILD);
            self.workload = self.workload.or(is_perfs.then_some(pid));
        } else if self.tasks.len() < MAX_TASKS {
            self.tasks.entry(tid).or_insert((pid, name));
        }
    }

    fn fork(&mut self, record: &Record<'_>) {
        let mut fields = Fields(record.body);
        if let (Some(pid), Some(parent)) = (fields.u32(), fields.u32())
            && self.parents.len() < MAX_TASKS
        {
            self.parents.entry(pid).or_insert(parent);
        }
    }

    /// The workload's process and all that it made, and they made.
    fn workloads(&self) -> BTreeSet<u32> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (pid, parent) in self.parents.iter().filter(|(pid, parent)| pid != parent) {
            children.entry(*parent).or_default().push(*pid);
        }
        let mut found = BTreeSet::new();
        let mut next: Vec<u32> = self.workload.into_iter().collect();
        while let Some(pid) = next.pop() {
            if found.insert(pid) {
                next.extend(children.remove(&pid).unwrap_or_default());
            }
        }
        found
    }

    fn owner(&self, pid: u32) -> Owner {
        let is_kernel = pid == KTHREADD || self.parents.get(&pid) == Some(&KTHREADD);
        match is_kernel {
            true => Owner::Kernel,
            false if self.workload == Some(pid) => Owner::Workload,
            false => Owner::Other,
        }
    }
}

/// Writes frames.
struct Writer<W> {
    to: W,
    /// By CPU, what is not written yet.
    waiting: BTreeMap<u16, Vec<u8>>,
    /// The latest time.
    youngest: u64,
}

/// So much waits of a CPU.
const CHUNK: usize = 256 << 10;

impl<W: Write> Writer<W> {
    fn frame(&mut self, kind: Kind, cpu: u16, bytes: &[u8]) -> Result<(), Error> {
        for part in bytes.chunks(LONGEST_FRAME) {
            self.to.write_all(&header(kind, cpu, part.len()))?;
            self.to.write_all(part)?;
        }
        Ok(())
    }

    fn begin(
        &mut self,
        of: &Converted,
        formats: &BTreeMap<u16, String>,
        cpus: u32,
        begin: u64,
    ) -> Result<(), Error> {
        self.to.write_all(MAGIC)?;
        let head = Head {
            origin: Nanos::new(begin),
            start: Timestamp::from_unix_nanos(0),
            cpus,
            ring_bytes: 0,
            kernel: of.kernel.clone().unwrap_or_default(),
        };
        self.frame(Kind::Head, 0, &head.bytes())?;
        for format in formats.values() {
            self.frame(Kind::Format, 0, format.as_bytes())?;
        }
        self.frame(Kind::Begin, 0, &begin.to_le_bytes())
    }

    fn tasks(&mut self, scan: &Scan) -> Result<(), Error> {
        let (first, others): (Vec<_>, Vec<_>) = scan.tasks.iter().partition(|(tid, (pid, _))| *tid == pid);
        for (pid, (_, name)) in first {
            let bytes = [&pid.to_le_bytes()[..], &[scan.owner(*pid) as u8], name.as_bytes()].concat();
            self.frame(Kind::Task, 0, &bytes)?;
        }
        for (tid, (pid, _)) in others {
            if scan.tasks.contains_key(pid) {
                self.frame(Kind::Thread, 0, &[tid.to_le_bytes(), pid.to_le_bytes()].concat())?;
            }
        }
        for pid in scan.workloads() {
            let bytes = [&pid.to_le_bytes()[..], &[Owner::Workload as u8]].concat();
            self.frame(Kind::Owner, 0, &bytes)?;
        }
        Ok(())
    }

    fn sample(&mut self, sample: &Sample<'_>) -> Result<(), Error> {
        let size = (sample.raw.len() as u32).to_ne_bytes();
        self.record(SAMPLE, sample.cpu, sample.time, &[&sample.time.to_ne_bytes(), &size, sample.raw])
    }

    fn loss(&mut self, record: &Record<'_>, layout: &Layout) -> Result<(), Error> {
        let Some((time, cpu)) = layout.place_of(record.body) else { return Ok(()) };
        let counts = if record.kind == LOST { record.body.get(..16) } else { record.body.get(..8) };
        match counts {
            Some(counts) => self.record(record.kind, cpu, time, &[counts, &time.to_ne_bytes()]),
            None => Ok(()),
        }
    }

    fn record(&mut self, kind: u32, cpu: u32, time: u64, parts: &[&[u8]]) -> Result<(), Error> {
        self.youngest = self.youngest.max(time);
        let length = 8 + parts.iter().map(|part| part.len()).sum::<usize>();
        let (Ok(size), Ok(cpu)) = (u16::try_from(length.next_multiple_of(8)), u16::try_from(cpu)) else {
            return Ok(());
        };
        let waiting = self.waiting.entry(cpu).or_default();
        let end = waiting.len() + usize::from(size);
        waiting.extend(kind.to_ne_bytes());
        waiting.extend(0_u16.to_ne_bytes());
        waiting.extend(size.to_ne_bytes());
        parts.iter().for_each(|part| waiting.extend(*part));
        waiting.resize(end, 0);
        if end < CHUNK {
            return Ok(());
        }
        let full = std::mem::take(waiting);
        self.frame(Kind::Data, cpu, &full)
    }

    fn flush(&mut self) -> Result<(), Error> {
        for (cpu, bytes) in std::mem::take(&mut self.waiting) {
            self.frame(Kind::Data, cpu, &bytes)?;
        }
        Ok(())
    }

    fn round(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.frame(Kind::Round, 0, &self.youngest.to_le_bytes())
    }

    fn end(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.frame(Kind::End, 0, &self.youngest.to_le_bytes())?;
        Ok(self.to.flush()?)
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
struct Records<'i, R> {
    input: &'i mut R,
    left: u64,
    at: u64,
    buffer: Vec<u8>,
}

impl<'i, R: Read + Seek> Records<'i, R> {
    fn new(input: &'i mut R, data: Section) -> Result<Self, Error> {
        input.seek(SeekFrom::Start(data.offset))?;
        Ok(Self { input, left: data.size, at: data.offset, buffer: Vec::new() })
    }

    fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        const HEADER: u64 = 8;
        let damaged = Error::Damaged { at: self.at, what: "record" };
        if self.left < HEADER {
            return Ok(None);
        }
        let mut head = [0; HEADER as usize];
        self.input.read_exact(&mut head).map_err(|_| Error::Damaged { at: self.at, what: "record" })?;
        let kind = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]);
        let misc = u16::from_ne_bytes([head[4], head[5]]);
        let size = u64::from(u16::from_ne_bytes([head[6], head[7]]));
        if size < HEADER || size > self.left {
            return Err(damaged);
        }
        self.buffer.resize((size - HEADER) as usize, 0);
        self.input
            .read_exact(&mut self.buffer)
            .map_err(|_| Error::Damaged { at: self.at, what: "record" })?;
        (self.left, self.at) = (self.left - size, self.at + size);
        if kind == AUXTRACE {
            let behind = self.buffer.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
            if behind > self.left {
                return Err(damaged);
            }
            self.input.seek(SeekFrom::Current(behind as i64))?;
            (self.left, self.at) = (self.left - behind, self.at + behind);
        }
        Ok(Some(Record { kind, misc, body: &self.buffer }))
    }
}

/// Reads what stands around the records; no length that the file states takes memory that it has not.
struct Bytes<'i, R> {
    input: &'i mut R,
    at: u64,
    end: u64,
}

impl<R: Read + Seek> Bytes<'_, R> {
    fn seek(&mut self, at: u64) -> Result<(), Error> {
        self.at = self.input.seek(SeekFrom::Start(at))?;
        Ok(())
    }

    fn pass(&mut self, count: u64) -> Result<(), Error> {
        let to = self.at.saturating_add(count);
        if to > self.end {
            return Err(Error::Damaged { at: self.at, what: "length" });
        }
        self.seek(to)
    }

    fn take<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes).map_err(|_| Error::Damaged { at: self.at, what })?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, Error> {
        self.take(what).map(u32::from_ne_bytes)
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, Error> {
        self.take(what).map(u64::from_ne_bytes)
    }

    fn section(&mut self, what: &'static str) -> Result<Section, Error> {
        let at = self.at;
        let section = Section { offset: self.u64(what)?, size: self.u64(what)? };
        if section.offset.checked_add(section.size).is_none_or(|end| end > self.end) {
            return Err(Error::Damaged { at, what });
        }
        Ok(section)
    }

    fn text(&mut self, size: u64, what: &'static str) -> Result<String, Error> {
        if size > MAX_TEXT || size > self.end.saturating_sub(self.at) || self.at > MAX_TABLES.max(self.end) {
            return Err(Error::Damaged { at: self.at, what });
        }
        let mut bytes = vec![0; size as usize];
        self.input.read_exact(&mut bytes).map_err(|_| Error::Damaged { at: self.at, what })?;
        self.at += size;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Its length, then the text and zeros.
    fn string(&mut self) -> Result<String, Error> {
        let size = self.u32("length of a text")?;
        let text = self.text(size.into(), "text")?;
        Ok(text.split('\0').next().unwrap_or_default().to_owned())
    }

    fn ended_by_zero(&mut self, what: &'static str) -> Result<String, Error> {
        let mut bytes = Vec::new();
        while bytes.len() < 256 {
            match self.take::<1>(what)?[0] {
                0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                byte => bytes.push(byte),
            }
        }
        Err(Error::Damaged { at: self.at, what })
    }
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
