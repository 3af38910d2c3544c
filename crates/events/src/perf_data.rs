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

use crate::foreign::{Bytes, Converted, Error, FORMATS_MAGIC, NO_TRACEPOINT, Section, Tasks, Writer};
use crate::foreign::{event_formats, ftrace_formats, headers};
use crate::records::{COMM, FORK, Fields, LOST, LOST_SAMPLES, SAMPLE};
use domain::Nanos;
use std::collections::BTreeMap;

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

/// How one event's samples lie.
#[derive(Clone, Copy, Debug)]
struct Attr {
    kind: u32,
    sample_type: u64,
    read_format: u64,
    has_id_of_all: bool,
}

/// Reads a file of perf's, and appends it in the form of this crate.
///
/// # Errors
/// Where it is no such file, has no tracepoint that is known, or is damaged: with the offset.
pub fn convert(file: &[u8], output: &mut Vec<u8>) -> Result<Converted, Error> {
    let layout = Layout::read(file)?;
    let mut converted = layout.converted.clone();
    let records = Records::of(file, layout.data)?;
    let first = Scan::of(records.clone(), &layout)?;
    let begin = first.begin.ok_or_else(no_tracepoint)?;
    let cpus = layout.cpus.max(first.cpus);
    let mut writer = Writer::begin(output, &converted, &layout.formats, cpus, begin);
    first.tasks.write(&mut writer);
    for record in records {
        let record = record?;
        match record.kind {
            SAMPLE => match layout.sample(record.body) {
                Some(sample) if layout.is_known(sample.raw) => {
                    writer.event(sample.cpu, sample.time, sample.raw);
                    converted.events += 1;
                }
                _ => converted.others += 1,
            },
            LOST | LOST_SAMPLES => layout.loss(&record, &mut writer),
            FINISHED_ROUND => writer.round(writer.youngest),
            _ => {}
        }
    }
    if converted.events == 0 {
        return Err(no_tracepoint());
    }
    writer.end();
    converted.span = Nanos::new(writer.youngest.saturating_sub(begin));
    Ok(converted)
}

const COMPRESSED_FILE: &str =
    "its records are compressed; `perf record` without `-z` writes a file that is read";

const RECORDED_SO: &str = "`perf record -a -e 'sched:sched_switch' -e 'sched:sched_waking' -e 'block:block_bio_*' \
-e 'block:block_rq_*' -e 'power:cpu_idle' -e 'power:cpu_frequency'` records some";

fn no_tracepoint() -> Error {
    Error::otherwise(format!("{NO_TRACEPOINT}; {RECORDED_SO}"))
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
            bytes.seek(at + 24);
            let (sample_type, read_format, flags) =
                (bytes.u64("event")?, bytes.u64("event")?, bytes.u64("event")?);
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
            let has_id_of_all = flags & SAMPLE_ID_ALL != 0;
            self.attrs.push(Attr { kind, sample_type, read_format, has_id_of_all });
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

    /// Writes how many were lost: behind which event, or alone.
    fn loss(&self, record: &Record<'_>, writer: &mut Writer<'_>) {
        let Some((time, cpu)) = self.place_of(record.body) else { return };
        let mut fields = Fields(record.body);
        if record.kind == LOST {
            fields.u64();
        }
        if let Some(count) = fields.u64() {
            writer.loss(cpu, time, count);
        }
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
    /// Processes and threads before that.
    tasks: Tasks,
}

impl Scan {
    fn of(records: Records<'_>, layout: &Layout) -> Result<Self, Error> {
        let mut scan = Self::default();
        for record in records {
            let record = record?;
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
                    return Err(Error::otherwise(COMPRESSED_FILE));
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
