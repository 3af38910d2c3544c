//! The file of a recording's events: frames of raw perf records, and what is needed to read them.
//!
//! ```text
//! magic, then frames: kind u8, 0 u8, cpu u16, length u32, then so many bytes
//! ```
//! Numbers of frames are little-endian; perf's records are in the byte order of the machine that recorded
//! them, which the head tells. Of one CPU, the bytes of all [`Kind::Data`] frames together are its records,
//! one behind the other: a frame may end within one. A frame that is cut ends the file: what stands before
//! it is used.

use crate::served::served_of;
use crate::{Error, Owner, Result};
use domain::request::{Op, Served};
use domain::{Nanos, Timestamp};
use parse::kernel::tracepoint::Format;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Seek};

/// What every such file begins with; the last two bytes are the version.
pub const MAGIC: &[u8; 8] = b"FLYEVT01";

/// The bytes of a frame in front of its own.
pub const HEADER: usize = 8;

/// The longest frame that is believed: one holds at most a ring of a CPU.
pub const LONGEST_FRAME: usize = 64 << 20;

/// How a machine writes this number tells its byte order.
const ORDER: u16 = 0x0102;

/// The most CPUs that Linux has (`NR_CPUS` of x86, with MAXSMP).
pub const MAX_CPUS: u32 = 8192;

/// Bounds on what a file declares: a stranger's could declare anything.
const MAX_FORMATS: usize = 1 << 10;
const MAX_TASKS: usize = 4 << 20;
const MAX_DEVICES: usize = 1 << 16;
pub(crate) const MAX_SYMBOLS: usize = 1 << 16;
const MAX_NOTES: usize = 1 << 12;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// [`Head`].
    Head = 1,
    /// A tracepoint: `group/name`, a line's end, and its format as tracefs has it.
    Format = 2,
    /// Raw records of the header's CPU.
    Data = 3,
    /// All CPUs were drained; it began at this time u64 ns: what is older is before this frame.
    Round = 4,
    /// A process at the recording's start: pid u32, owner u8, name.
    Task = 5,
    /// A thread at the recording's start: tid u32, pid u32.
    Thread = 6,
    /// A process turned out to be somebody's, from the start on: pid u32, owner u8.
    Owner = 7,
    /// A block device: its number u32, that of the whole disk u32, its name.
    Device = 8,
    /// A function of the kernel: address u64, name.
    Symbol = 9,
    /// What fired of a tracepoint on the header's CPU, lost or not: its number u16, count u64.
    Fired = 10,
    /// Something that is not recorded, and why.
    Absent = 11,
    /// From here on all is recorded: time u64 ns.
    Begin = 12,
    /// Nothing is recorded any more: time u64 ns.
    End = 13,
    /// Raw records of the header's CPU, of the clock that samples call stacks.
    Profile = 14,
    /// How much CPU time a sampled call stack stands for: u64 ns.
    Period = 15,
    /// The header's CPU was found offline, or online again: time u64 ns, whether it is online u8. Its records
    /// end before that; what follows once it is back is of rings that were opened anew.
    Cpu = 16,
    /// The CPUs of a frequency policy, u16 each; the header has the policy's number.
    Policy = 17,
    /// What the kernel summed up of requests, where that was done without events ([`crate::served_bytes`]).
    Served = 18,
}

impl Kind {
    const ALL: [Kind; 18] = [
        Kind::Head,
        Kind::Format,
        Kind::Data,
        Kind::Round,
        Kind::Task,
        Kind::Thread,
        Kind::Owner,
        Kind::Device,
        Kind::Symbol,
        Kind::Fired,
        Kind::Absent,
        Kind::Begin,
        Kind::End,
        Kind::Profile,
        Kind::Period,
        Kind::Cpu,
        Kind::Policy,
        Kind::Served,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).wrapping_sub(1)).copied()
    }
}

/// A frame's header.
pub fn header(kind: Kind, cpu: u16, length: usize) -> [u8; HEADER] {
    let mut bytes = [kind as u8, 0, 0, 0, 0, 0, 0, 0];
    bytes[2..4].copy_from_slice(&cpu.to_le_bytes());
    // No frame is longer than `LONGEST_FRAME`.
    bytes[4..].copy_from_slice(&(length as u32).to_le_bytes());
    bytes
}

/// What a recording of events says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The monotonic clock when the trace's time was zero: events and samples share that clock.
    pub origin: Nanos,
    /// When that was.
    pub start: Timestamp,
    /// How many CPUs there are, those that are offline too.
    pub cpus: u32,
    /// The bytes of one CPU's ring.
    pub ring_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
}

impl Head {
    /// Its frame's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = ORDER.to_ne_bytes().to_vec();
        bytes.extend(self.origin.get().to_le_bytes());
        bytes.extend(self.start.unix_nanos().to_le_bytes());
        bytes.extend(self.cpus.to_le_bytes());
        bytes.extend(self.ring_bytes.to_le_bytes());
        bytes.extend(self.kernel.as_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let order = fields.take::<2>()?;
        if u16::from_ne_bytes(order) != ORDER {
            return None;
        }
        Some(Self {
            origin: Nanos::new(fields.u64()?),
            start: Timestamp::from_unix_nanos(i64::from_le_bytes(fields.take()?)),
            cpus: fields.u32()?,
            ring_bytes: fields.u64()?,
            kernel: fields.text(),
        })
    }
}

/// A tracepoint that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracepoint {
    /// `group/name`.
    pub name: String,
    /// Where its fields lie.
    pub format: Format,
}

/// A process or thread that was there when the recording began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its process.
    pub pid: u32,
    /// Whose it is.
    pub owner: Owner,
    /// The process's name.
    pub name: String,
}

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The number of the whole disk: its own, or that of the disk which it is a part of.
    pub disk: u32,
    /// Its name.
    pub name: String,
}

/// What a file declares, besides its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// What it says of itself.
    pub head: Head,
    /// The tracepoints, by the number of their records.
    pub tracepoints: BTreeMap<u16, Tracepoint>,
    /// Who was there at the start, by thread.
    pub tasks: HashMap<u32, Known>,
    /// Processes that are somebody's from their start on, though that was found out later.
    pub owners: BTreeMap<u32, Owner>,
    /// Block devices, by number.
    pub devices: BTreeMap<u32, Device>,
    /// Functions of the kernel, by the address at which they begin: `name`, or `name [module]`.
    pub symbols: BTreeMap<u64, String>,
    /// What fired, by CPU and number of the tracepoint.
    pub fired: BTreeMap<(u16, u16), u64>,
    /// What is not recorded, and why.
    pub absent: Vec<String>,
    /// Since when all is recorded; `None` where the file ends before that.
    pub begin: Option<Nanos>,
    /// Until when; `None` where it was not ended properly.
    pub end: Option<Nanos>,
    /// How much CPU time a sampled call stack stands for; `None` where none were.
    pub period: Option<Nanos>,
    /// CPUs that were found offline, or online again, in order: when, which, whether it is online.
    pub cpu_changes: Vec<(Nanos, u16, bool)>,
    /// The CPUs of each frequency policy, by its number; empty where they were not declared.
    pub policies: BTreeMap<u16, Vec<u16>>,
    /// What the kernel summed up without events, by number of the disk and operation.
    pub served: BTreeMap<(u32, Op), Served>,
    /// The policy of each CPU.
    policy_of: BTreeMap<u16, u16>,
}

impl Tables {
    /// Reads all frames but those of records, which are passed over.
    ///
    /// # Errors
    /// Where the input cannot be read, is no such file, or declares what it cannot mean.
    pub fn read<R: Read + Seek>(input: R) -> Result<Self> {
        let mut frames = Frames::new(input)?;
        let at = frames.at;
        let head = frames.next()?.filter(|frame| frame.kind == Kind::Head);
        let Some(frame) = head else { return Err(Error::Foreign) };
        let bytes = frames.bytes(&frame)?.unwrap_or_default();
        let head = Head::read(bytes).ok_or(Error::Damaged { at, what: "head, or another byte order" })?;
        let mut tables = Self {
            head,
            tracepoints: BTreeMap::new(),
            tasks: HashMap::new(),
            owners: BTreeMap::new(),
            devices: BTreeMap::new(),
            symbols: BTreeMap::new(),
            fired: BTreeMap::new(),
            absent: Vec::new(),
            begin: None,
            end: None,
            period: None,
            cpu_changes: Vec::new(),
            policies: BTreeMap::new(),
            served: BTreeMap::new(),
            policy_of: BTreeMap::new(),
        };
        loop {
            let at = frames.at;
            let Some(frame) = frames.next()? else { break };
            if matches!(frame.kind, Kind::Data | Kind::Round | Kind::Profile) {
                frames.skip(&frame)?;
                continue;
            }
            let Some(bytes) = frames.bytes(&frame)? else { break };
            tables.take(&frame, bytes, at)?;
        }
        Ok(tables)
    }

    fn take(&mut self, frame: &Frame, bytes: &[u8], at: u64) -> Result<()> {
        let mut fields = Fields(bytes);
        let understood = match frame.kind {
            Kind::Format => return self.take_format(&fields.text(), at),
            Kind::Task => self.task(fields),
            Kind::Thread => self.thread(fields),
            Kind::Owner => self.owner(fields),
            Kind::Device => self.device(fields),
            Kind::Symbol => self.symbol(fields),
            Kind::Fired => self.fired(frame.cpu, fields),
            Kind::Absent => {
                if self.absent.len() < MAX_NOTES {
                    self.absent.push(fields.text());
                }
                Some(())
            }
            Kind::Begin => fields.u64().map(|ns| self.begin = Some(Nanos::new(ns))),
            Kind::End => fields.u64().map(|ns| self.end = Some(Nanos::new(ns))),
            Kind::Period => fields.u64().filter(|ns| *ns > 0).map(|ns| self.period = Some(Nanos::new(ns))),
            Kind::Cpu => self.cpu(frame.cpu, fields),
            Kind::Policy => self.policy(frame.cpu, bytes),
            Kind::Served => self.served(bytes),
            Kind::Head | Kind::Data | Kind::Round | Kind::Profile => None,
        };
        understood.ok_or(Error::Damaged { at, what: "frame" })
    }

    fn take_format(&mut self, text: &str, at: u64) -> Result<()> {
        let (name, format) = text.split_once('\n').ok_or(Error::Damaged { at, what: "format" })?;
        let format =
            Format::parse(format).map_err(|error| Error::Format { name: name.to_owned(), at, error })?;
        if self.tracepoints.len() >= MAX_FORMATS {
            return Err(Error::Damaged { at, what: "number of formats" });
        }
        self.tracepoints.insert(format.id, Tracepoint { name: name.to_owned(), format });
        Ok(())
    }

    fn task(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let (pid, owner) = (fields.u32()?, Owner::from_byte(fields.take::<1>()?[0])?);
        self.add_task(pid, Known { pid, owner, name: fields.text() })
    }

    fn thread(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let (tid, pid) = (fields.u32()?, fields.u32()?);
        let process = self.tasks.get(&pid)?.clone();
        self.add_task(tid, process)
    }

    fn add_task(&mut self, tid: u32, known: Known) -> Option<()> {
        let has_room = self.tasks.len() < MAX_TASKS;
        has_room.then(|| drop(self.tasks.insert(tid, known)))
    }

    fn owner(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let (pid, owner) = (fields.u32()?, Owner::from_byte(fields.take::<1>()?[0])?);
        if self.owners.len() >= MAX_TASKS {
            return None;
        }
        self.owners.insert(pid, owner);
        Some(())
    }

    fn device(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let (number, disk) = (fields.u32()?, fields.u32()?);
        let device = Device { disk, name: fields.text() };
        (self.devices.len() < MAX_DEVICES).then(|| drop(self.devices.insert(number, device)))
    }

    fn symbol(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let address = fields.u64()?;
        let name = fields.text();
        (self.symbols.len() < MAX_SYMBOLS).then(|| drop(self.symbols.insert(address, name)))
    }

    /// A CPU has one policy.
    fn policy(&mut self, number: u16, bytes: &[u8]) -> Option<()> {
        let (cpus, rest) = bytes.as_chunks::<2>();
        let cpus: Vec<u16> = cpus.iter().map(|cpu| u16::from_le_bytes(*cpu)).collect();
        if !rest.is_empty() || cpus.is_empty() || u32::from(number) >= MAX_CPUS {
            return None;
        }
        for cpu in &cpus {
            let is_new = u32::from(*cpu) < MAX_CPUS && self.policy_of.insert(*cpu, number).is_none();
            is_new.then_some(())?;
        }
        self.policies.insert(number, cpus).is_none().then_some(())
    }

    fn served(&mut self, bytes: &[u8]) -> Option<()> {
        let (of, served) = served_of(bytes)?;
        (self.served.len() < MAX_DEVICES).then(|| drop(self.served.insert(of, served)))
    }

    /// The number of the policy that a CPU's frequency is decided in, with all CPUs of it; `None` where that
    /// was not declared.
    pub fn policy_of(&self, cpu: u16) -> Option<(u16, &[u16])> {
        let number = *self.policy_of.get(&cpu)?;
        Some((number, self.policies.get(&number)?))
    }

    fn cpu(&mut self, cpu: u16, mut fields: Fields<'_>) -> Option<()> {
        let (at, online) = (fields.u64()?, fields.take::<1>()?[0] != 0);
        if u32::from(cpu) >= MAX_CPUS || self.cpu_changes.len() >= MAX_NOTES {
            return None;
        }
        self.cpu_changes.push((Nanos::new(at), cpu, online));
        Some(())
    }

    fn fired(&mut self, cpu: u16, mut fields: Fields<'_>) -> Option<()> {
        let tracepoint = u16::from_le_bytes(fields.take()?);
        let count = fields.u64()?;
        if !self.tracepoints.contains_key(&tracepoint) || u32::from(cpu) >= MAX_CPUS {
            return None;
        }
        self.fired.insert((cpu, tracepoint), count);
        Some(())
    }

    /// Whose a thread was when the recording began.
    pub fn owner_of(&self, tid: u32) -> Option<Owner> {
        let pid = self.tasks.get(&tid).map_or(tid, |known| known.pid);
        self.owners.get(&pid).copied().or_else(|| self.tasks.get(&tid).map(|known| known.owner))
    }

    /// The whole disk that a device is, or is a part of.
    pub fn disk_of(&self, device: u32) -> u32 {
        self.devices.get(&device).map_or(device, |known| known.disk)
    }

    /// The name of the function at this address, without its module.
    pub fn function(&self, address: u64) -> Option<&str> {
        self.symbols.get(&address).map(|name| crate::subsystem::plain(name))
    }

    /// A device's name; `MAJOR:MINOR` where it was not there at the start and at the end.
    pub fn device_name(&self, device: u32) -> String {
        // The kernel's own number: twenty bits of minor (include/linux/kdev_t.h).
        let number = || format!("{}:{}", device >> 20, device & 0xf_ffff);
        self.devices.get(&device).map_or_else(number, |known| known.name.clone())
    }
}

/// A frame whose header was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub kind: Kind,
    pub cpu: u16,
    pub length: usize,
}

/// Reads frames, one at a time.
#[derive(Debug)]
pub(crate) struct Frames<R> {
    input: R,
    buffer: Vec<u8>,
    /// Where the next frame begins.
    pub at: u64,
}

impl<R: Read + Seek> Frames<R> {
    pub fn new(mut input: R) -> Result<Self> {
        let mut magic = [0; MAGIC.len()];
        if !fill(&mut input, &mut magic)? || magic != *MAGIC {
            return Err(Error::Foreign);
        }
        Ok(Self { input, buffer: Vec::new(), at: MAGIC.len() as u64 })
    }

    /// The next header; `None` at the end, and where the file is torn.
    pub fn next(&mut self) -> Result<Option<Frame>> {
        let mut header = [0; HEADER];
        if !fill(&mut self.input, &mut header)? {
            return Ok(None);
        }
        let kind =
            Kind::from_byte(header[0]).ok_or(Error::Damaged { at: self.at, what: "kind of a frame" })?;
        let cpu = u16::from_le_bytes([header[2], header[3]]);
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        if length > LONGEST_FRAME {
            return Err(Error::Damaged { at: self.at, what: "length of a frame" });
        }
        self.at += (HEADER + length) as u64;
        Ok(Some(Frame { kind, cpu, length }))
    }

    /// The bytes of the frame whose header was just read; `None` where it is cut.
    pub fn bytes(&mut self, frame: &Frame) -> Result<Option<&[u8]>> {
        self.buffer.clear();
        // As many as there are: a length alone takes no memory.
        let taken = (&mut self.input).take(frame.length as u64).read_to_end(&mut self.buffer)?;
        Ok((taken == frame.length).then_some(&self.buffer))
    }

    pub fn skip(&mut self, frame: &Frame) -> Result<()> {
        self.input.seek_relative(frame.length as i64)?;
        Ok(())
    }
}

/// Whether there was enough to fill it.
fn fill(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        other => other.map(|()| true),
    }
}

/// Takes numbers off the front of a frame.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// What is left, as text.
    fn text(&mut self) -> String {
        String::from_utf8_lossy(std::mem::take(&mut self.0)).into_owned()
    }
}
