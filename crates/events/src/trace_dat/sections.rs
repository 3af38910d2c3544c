//! The parts of a `trace.dat`: options, formats, names of functions, and where the data of each CPU are.

use crate::file::MAX_CPUS;
use crate::foreign::{Bytes, Converted, Error, FORMATS_MAGIC, Formats, Section};
use crate::foreign::{event_formats, ftrace_formats, headers};

/// Bounds on what a hostile file may ask for.
const MAX_OPTIONS: usize = 1 << 16;
const MAX_OPTION_SECTIONS: usize = 256;
const MAX_BUFFERS: usize = 256;
const MAX_OPTION_TEXT: usize = 4096;

/// Options, by their numbers in trace-cmd.dat.v7(5); those of version 6 have the same.
pub(super) mod option {
    pub const DONE: u16 = 0;
    pub const BUFFER: u16 = 3;
    pub const TRACECLOCK: u16 = 4;
    pub const UNAME: u16 = 5;
    pub const CPUCOUNT: u16 = 8;
    pub const VERSION: u16 = 9;
    pub const HEADER_INFO: u16 = 16;
    pub const FTRACE_EVENTS: u16 = 17;
    pub const EVENT_FORMATS: u16 = 18;
    pub const KALLSYMS: u16 = 19;
    pub const PRINTK: u16 = 20;
    pub const CMDLINES: u16 = 21;
    pub const BUFFER_TEXT: u16 = 22;
}

/// The flag of a section that is compressed.
pub(super) const COMPRESSED: u16 = 1;

const TEXT_ALONE: &str = "it has the text of a latency tracer and no events; `trace-cmd record -e sched -e block` without `-p` \
records some";

/// What one instance of tracing recorded.
#[derive(Clone, Debug, Default)]
pub struct Buffer {
    /// The clock that its times are of.
    pub clock: String,
    /// The data of each CPU.
    pub cpus: Vec<(u16, Section)>,
}

impl Buffer {
    fn bytes(&self) -> u64 {
        self.cpus.iter().fold(0, |all, (_, section)| all.saturating_add(section.size))
    }
}

/// All that stands around the data.
#[derive(Debug, Default)]
pub struct Sections<'f> {
    /// `events/header_page` of tracefs.
    pub page: String,
    /// Those of tracepoints.
    pub formats: Formats,
    /// `/proc/kallsyms`.
    pub functions: &'f [u8],
    /// How many CPUs the machine has, where that is stated.
    pub cpus: u32,
    buffers: Vec<Buffer>,
    /// Instances that are not even looked at.
    passed_over: usize,
    clock: String,
    uname: String,
    version: String,
}

impl<'f> Sections<'f> {
    pub fn read(file: &'f [u8]) -> Result<Self, Error> {
        let mut bytes = Bytes::new(file);
        let what = "begin of the file";
        if bytes.take::<10>(what)? != *FORMATS_MAGIC {
            return Err(Error::otherwise("it does not begin as a file of trace-cmd's"));
        }
        let version = bytes.ended_by_zero(what)?;
        let [is_big, _long] = bytes.take::<2>(what)?;
        if is_big != u8::from(cfg!(target_endian = "big")) {
            return Err(Error::otherwise(
                "it was recorded on a machine of another byte order, which is not read",
            ));
        }
        bytes.u32(what)?;
        let mut sections = Self::default();
        match version.as_str() {
            "6" => sections.version_6(&mut bytes)?,
            "7" => sections.version_7(&mut bytes)?,
            other => {
                let other: String = other.chars().take(20).collect();
                return Err(Error::otherwise(format!(
                    "it is of version `{other}` of the form, and 6 and 7 are read; `trace-cmd convert -i FILE -o OTHER \
                     --file-version 7 --compression none` writes a file that is read"
                )));
            }
        }
        for buffer in &mut sections.buffers {
            // No two CPUs have the same data.
            if buffer.bytes() > file.len() as u64 {
                return Err(Error::Damaged { at: 0, what: "size of the data of CPUs" });
            }
            if buffer.clock.is_empty() {
                buffer.clock.clone_from(&sections.clock);
            }
        }
        Ok(sections)
    }

    /// One part behind the other.
    fn version_6(&mut self, bytes: &mut Bytes<'f>) -> Result<(), Error> {
        self.page = headers(bytes)?.page;
        ftrace_formats(bytes)?;
        self.formats = event_formats(bytes)?;
        let size = bytes.u32("size of the names of functions")?;
        self.functions = bytes.slice(size.into(), "names of functions")?;
        let size = bytes.u32("size of the formats of printk")?;
        bytes.slice(size.into(), "formats of printk")?;
        let size = bytes.u64("size of the names of processes")?;
        bytes.slice(size, "names of processes")?;
        let cpus = bytes.u32("number of CPUs")?;
        let what = "kind of the data";
        let mut at = bytes.at;
        let mut kind = bytes.take::<10>(what)?;
        if kind == *b"options  \0" {
            self.options_of_6(bytes)?;
            at = bytes.at;
            kind = bytes.take::<10>(what)?;
        }
        match &kind {
            b"flyrecord\0" => {}
            b"latency  \0" => return Err(Error::otherwise(TEXT_ALONE)),
            _ => return Err(Error::Damaged { at, what }),
        }
        let mut buffer = Buffer::default();
        for cpu in 0..cpus {
            buffer.cpu(cpu, bytes)?;
        }
        self.cpus = self.cpus.max(cpus);
        self.buffers.push(buffer);
        Ok(())
    }

    fn options_of_6(&mut self, bytes: &mut Bytes<'f>) -> Result<(), Error> {
        for _ in 0..MAX_OPTIONS {
            let mut ahead = *bytes;
            // The end is a number alone.
            if ahead.u16("option")? == option::DONE {
                *bytes = ahead;
                return Ok(());
            }
            match option_of(bytes)? {
                (option::BUFFER, _) => self.passed_over += 1,
                (number, body) => self.option(number, body)?,
            }
        }
        Err(Error::Damaged { at: bytes.at, what: "number of options" })
    }

    /// Sections, whose places options tell.
    fn version_7(&mut self, bytes: &mut Bytes<'f>) -> Result<(), Error> {
        let what = "name of the compression";
        // What was compressed is unpacked by now.
        for _ in ["name of the compression", "its version"] {
            bytes.ended_by_zero(what)?;
        }
        let mut next = bytes.u64("place of the options")?;
        for _ in 0..MAX_OPTION_SECTIONS {
            if next == 0 {
                return Ok(());
            }
            let section = section_at(bytes, next)?;
            next = self.options_of_7(bytes, section)?;
        }
        Err(Error::Damaged { at: next, what: "number of sections of options" })
    }

    /// Where the next section of options is; zero behind the last.
    fn options_of_7(&mut self, bytes: &mut Bytes<'f>, section: Section) -> Result<u64, Error> {
        bytes.seek(section.offset);
        let end = section.offset + section.size;
        while bytes.at < end {
            let (number, mut body) = option_of(bytes)?;
            match number {
                option::DONE => return body.u64("place of the next options"),
                option::BUFFER if self.buffers.len() < MAX_BUFFERS => self.buffer(bytes, &mut body)?,
                option::BUFFER => self.passed_over += 1,
                option::BUFFER_TEXT if self.buffers.is_empty() => return Err(Error::otherwise(TEXT_ALONE)),
                option::HEADER_INFO..=option::KALLSYMS => {
                    let section = section_at(bytes, body.u64("place of a section")?)?;
                    self.section(number, *bytes, section)?;
                }
                _ => self.option(number, body)?,
            }
        }
        Ok(0)
    }

    fn section(&mut self, number: u16, mut bytes: Bytes<'f>, section: Section) -> Result<(), Error> {
        bytes.seek(section.offset);
        match number {
            option::HEADER_INFO => self.page = headers(&mut bytes)?.page,
            option::FTRACE_EVENTS => ftrace_formats(&mut bytes)?,
            option::EVENT_FORMATS => self.formats = event_formats(&mut bytes)?,
            _ => {
                let size = bytes.u32("size of the names of functions")?;
                self.functions = bytes.slice(size.into(), "names of functions")?;
            }
        }
        Ok(())
    }

    /// What an option says that is the same in both versions.
    fn option(&mut self, number: u16, mut body: Bytes<'f>) -> Result<(), Error> {
        match number {
            option::TRACECLOCK => self.clock = chosen(&text_of(body)),
            option::UNAME => self.uname = text_of(body),
            option::VERSION => self.version = text_of(body),
            option::CPUCOUNT => self.cpus = self.cpus.max(body.u32("number of CPUs")?),
            _ => {}
        }
        Ok(())
    }

    fn buffer(&mut self, bytes: &Bytes<'f>, body: &mut Bytes<'f>) -> Result<(), Error> {
        let what = "instance";
        section_at(bytes, body.u64(what)?)?;
        body.ended_by_zero(what)?;
        let mut buffer = Buffer { clock: body.ended_by_zero(what)?, cpus: Vec::new() };
        body.u32(what)?;
        for _ in 0..body.u32(what)? {
            let cpu = body.u32("number of a CPU")?;
            // The places are those of the file, and not of the option.
            let at = body.at;
            let section = Section { offset: body.u64(what)?, size: body.u64(what)? };
            bytes.within(section, "data of a CPU")?;
            buffer.add(cpu, section, at)?;
        }
        self.buffers.push(buffer);
        Ok(())
    }

    /// The one with the most bytes.
    pub fn largest_buffer(&self) -> Option<&Buffer> {
        // Of equals the first.
        self.buffers.iter().rev().max_by_key(|buffer| buffer.bytes())
    }

    /// What the file says of itself.
    pub fn converted(&self) -> Converted {
        // `Linux HOST RELEASE MACHINE`.
        let mut words = self.uname.split_whitespace().skip(1).map(str::to_owned);
        let (host, kernel) = (words.next(), words.next());
        let version = self.version.split_whitespace().next().map(str::to_owned);
        let others = self.passed_over + self.buffers.iter().filter(|one| one.bytes() > 0).count();
        let mut notes = Vec::new();
        if others > 1 {
            notes.push(format!("{} other instances of tracing are left out", others - 1));
        }
        Converted { kernel, host, version, notes, ..Converted::default() }
    }
}

impl Buffer {
    fn cpu(&mut self, cpu: u32, bytes: &mut Bytes<'_>) -> Result<(), Error> {
        let at = bytes.at;
        let section = bytes.section("data of a CPU")?;
        self.add(cpu, section, at)
    }

    fn add(&mut self, cpu: u32, section: Section, at: u64) -> Result<(), Error> {
        let number = u16::try_from(cpu).ok().filter(|_| cpu < MAX_CPUS);
        let number = number.ok_or(Error::Damaged { at, what: "number of a CPU" })?;
        self.cpus.push((number, section));
        Ok(())
    }
}

/// The bytes of a section behind its header.
fn section_at(bytes: &Bytes<'_>, at: u64) -> Result<Section, Error> {
    let mut bytes = *bytes;
    bytes.seek(at);
    let what = "section";
    bytes.u16(what)?;
    let flags = bytes.u16(what)?;
    bytes.u32(what)?;
    let section = Section { size: bytes.u64(what)?, offset: bytes.at };
    // The head says that nothing is.
    if flags & COMPRESSED != 0 {
        return Err(Error::Damaged { at, what });
    }
    bytes.within(section, what)?;
    Ok(section)
}

/// The next option: its number, and what it says.
fn option_of<'f>(bytes: &mut Bytes<'f>) -> Result<(u16, Bytes<'f>), Error> {
    let what = "option";
    let number = bytes.u16(what)?;
    let size = bytes.u32(what)?;
    Ok((number, bytes.part(size.into(), what)?))
}

/// An option that is a text.
fn text_of(mut body: Bytes<'_>) -> String {
    let bytes = body.rest();
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = &text[..text.len().min(MAX_OPTION_TEXT)];
    String::from_utf8_lossy(text).trim().to_owned()
}

/// The clock in brackets among those that there are: `[local] global counter`.
fn chosen(clocks: &str) -> String {
    let in_brackets = clocks.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    in_brackets.map_or(clocks, |(clock, _)| clock).to_owned()
}
