//! Files of events that a test makes up, record by record, by the formats of a real kernel.

#![allow(dead_code, reason = "each test uses a part of it")]

use domain::{Nanos, Timestamp};
use events::{Facts, Head, Kind, MAGIC, Owner, Tables, header};
use parse::kernel::tracepoint::Format;
use std::collections::BTreeMap;
use std::io::Cursor;

const FORMATS: &str = include_str!("../../fixtures/formats-6.18");

/// Where interrupts are in `common_flags`.
pub const HARDIRQ: u64 = 0x08;

/// A file that grows.
pub struct File {
    pub bytes: Vec<u8>,
    formats: BTreeMap<String, Format>,
}

impl File {
    /// With a head for two CPUs, all formats, and a begin at zero.
    pub fn new() -> Self {
        Self::since(Nanos::ZERO)
    }

    /// The same of a trace whose time was zero when the monotonic clock showed this.
    pub fn since(origin: Nanos) -> Self {
        Self::of(origin, 2, |_| true)
    }

    /// With those formats alone whose names fit.
    pub fn with_formats(fits: impl Fn(&str) -> bool) -> Self {
        Self::of(Nanos::ZERO, 2, fits)
    }

    /// The same for so many CPUs.
    pub fn of_cpus(cpus: u32) -> Self {
        Self::of(Nanos::ZERO, cpus, |_| true)
    }

    fn of(origin: Nanos, cpus: u32, fits: impl Fn(&str) -> bool) -> Self {
        let head = Head {
            origin,
            start: Timestamp::from_unix_nanos(0),
            cpus,
            ring_bytes: 4096,
            kernel: "6.18.44".to_owned(),
        };
        let mut file = Self { bytes: MAGIC.to_vec(), formats: BTreeMap::new() };
        file.frame(Kind::Head, 0, &head.bytes());
        for text in FORMATS.split("== ").skip(1) {
            let (name, format) = text.split_once('\n').unwrap();
            if !fits(name) {
                continue;
            }
            file.formats.insert(name.to_owned(), Format::parse(format).unwrap());
            file.frame(Kind::Format, 0, text.as_bytes());
        }
        file.frame(Kind::Begin, 0, &0_u64.to_le_bytes());
        file
    }

    pub fn frame(&mut self, kind: Kind, cpu: u16, bytes: &[u8]) {
        self.bytes.extend(header(kind, cpu, bytes.len()));
        self.bytes.extend(bytes);
    }

    /// A process that was there at the start.
    pub fn task(&mut self, pid: u32, owner: Owner, name: &str) {
        let bytes = [&pid.to_le_bytes()[..], &[owner as u8], name.as_bytes()].concat();
        self.frame(Kind::Task, 0, &bytes);
    }

    /// A record of a tracepoint, with these fields; all others are zero.
    pub fn record(&self, time: u64, name: &str, fields: &[(&str, u64)]) -> Vec<u8> {
        let format = &self.formats[name];
        let mut raw = vec![0; format.fields.iter().map(|f| (f.offset + f.size) as usize).max().unwrap()];
        let mut set = |field: &str, value: u64| {
            let field = format.field(field).unwrap_or_else(|| panic!("{name} has no {field}"));
            let (at, size) = (field.offset as usize, (field.size as usize).min(8));
            raw[at..at + size].copy_from_slice(&value.to_ne_bytes()[..size]);
        };
        set("common_type", format.id.into());
        fields.iter().for_each(|(field, value)| set(field, *value));
        let mut body = time.to_ne_bytes().to_vec();
        body.extend((raw.len() as u32).to_ne_bytes());
        body.extend(raw);
        record_of(9, &body)
    }

    /// One event in a frame of its own.
    pub fn event(&mut self, cpu: u16, time: u64, name: &str, fields: &[(&str, u64)]) {
        let record = self.record(time, name, fields);
        self.frame(Kind::Data, cpu, &record);
    }

    /// The handler of an interrupt begins, while a thread runs.
    pub fn handler(&mut self, cpu: u16, time: u64, irq: u64, name: &str, tid: u64) {
        const ENTRY: &str = "irq/irq_handler_entry";
        let end = self.formats[ENTRY].fields.iter().map(|f| f.offset + f.size).max().unwrap();
        let place = u64::from(end) | (name.len() as u64) << 16;
        let record = self.record(time, ENTRY, &[("irq", irq), ("name", place), ("common_pid", tid)]);
        // Header, time, size, then the record's own, which the name follows.
        let mut raw = record[8 + 8 + 4..8 + 8 + 4 + end as usize].to_vec();
        raw.extend(name.as_bytes());
        let body = [&time.to_ne_bytes()[..], &(raw.len() as u32).to_ne_bytes(), &raw].concat();
        self.frame(Kind::Data, cpu, &record_of(9, &body));
    }

    /// A device that is a whole disk.
    pub fn device(&mut self, number: u32, name: &str) {
        let bytes = [&number.to_le_bytes()[..], &number.to_le_bytes(), name.as_bytes()].concat();
        self.frame(Kind::Device, 0, &bytes);
    }

    /// A frequency policy.
    pub fn policy(&mut self, number: u16, cpus: &[u16]) {
        let bytes: Vec<u8> = cpus.iter().flat_map(|cpu| cpu.to_le_bytes()).collect();
        self.frame(Kind::Policy, number, &bytes);
    }

    /// A switch on a CPU; the state is `prev_state`.
    pub fn switch(&mut self, cpu: u16, time: u64, from: u64, state: u64, to: u64) {
        let fields = [("common_pid", from), ("prev_pid", from), ("prev_state", state), ("next_pid", to)];
        self.event(cpu, time, "sched/sched_switch", &fields);
    }

    /// A request's event: `Q`, `D` (issue) or `C`.
    pub fn block(&mut self, time: u64, what: &str, device: u64, sector: u64, sectors: u64, rwbs: char) {
        let fields = [("dev", device), ("sector", sector), ("nr_sector", sectors), ("rwbs", rwbs as u64)];
        self.event(0, time, what, &fields);
    }

    /// A frame that says how many perf lost.
    /// A sampled call stack of a process's only thread: of a program where there are no addresses, else of
    /// the kernel, from the address that ran.
    pub fn stack(&mut self, cpu: u16, time: u64, pid: u32, addresses: &[u64]) {
        let misc: u16 = if addresses.is_empty() { 2 } else { 1 };
        let mut record = [pid.to_ne_bytes(), pid.to_ne_bytes()].concat();
        record.extend(time.to_ne_bytes());
        // The mark that the kernel's part follows counts as one (`PERF_CONTEXT_KERNEL`).
        let marked = if addresses.is_empty() { &[][..] } else { &[-128_i64 as u64][..] };
        record.extend(((marked.len() + addresses.len()) as u64).to_ne_bytes());
        marked.iter().chain(addresses).for_each(|address| record.extend(address.to_ne_bytes()));
        self.of_clock(cpu, 9, misc, &record);
    }

    /// One process makes another.
    pub fn fork(&mut self, cpu: u16, time: u64, parent: u32, child: u32) {
        let mut record: Vec<u8> =
            [child, parent, child, parent].iter().flat_map(|id| id.to_ne_bytes()).collect();
        record.extend(time.to_ne_bytes());
        self.of_clock(cpu, 7, 0, &record);
    }

    /// A record of the clock that samples call stacks.
    pub fn of_clock(&mut self, cpu: u16, kind: u32, misc: u16, bytes: &[u8]) {
        let size = (8 + bytes.len()) as u16;
        let record = [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &size.to_ne_bytes(), bytes].concat();
        self.frame(Kind::Profile, cpu, &record);
    }

    /// A function of the kernel.
    pub fn symbol(&mut self, address: u64, name: &str) {
        self.frame(Kind::Symbol, 0, &[&address.to_le_bytes()[..], name.as_bytes()].concat());
    }

    pub fn lost(&mut self, cpu: u16, time: u64, count: u64) {
        let body = [7_u64, count, time].map(u64::to_ne_bytes).concat();
        self.frame(Kind::Data, cpu, &record_of(2, &body));
    }

    pub fn round(&mut self, time: u64) {
        self.frame(Kind::Round, 0, &time.to_le_bytes());
    }

    pub fn end(&mut self, time: u64) {
        self.frame(Kind::End, 0, &time.to_le_bytes());
    }

    pub fn facts(&self) -> Facts {
        Facts::read(|| Ok(Cursor::new(&self.bytes))).unwrap()
    }

    pub fn tables(&self) -> Tables {
        Tables::read(Cursor::new(&self.bytes)).unwrap()
    }
}

fn record_of(kind: u32, body: &[u8]) -> Vec<u8> {
    let size = (8 + body.len()).next_multiple_of(8);
    let mut record = kind.to_ne_bytes().to_vec();
    record.extend([0, 0]);
    record.extend((size as u16).to_ne_bytes());
    record.extend(body);
    record.resize(size, 0);
    record
}
