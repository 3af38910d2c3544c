//! Writes frames of a file of this crate's form.

use super::Converted;
use crate::file::{Head, Kind, LONGEST_FRAME, MAGIC, header};
use crate::owner::Owner;
use crate::records::{COMM, LOST_SAMPLES, SAMPLE};
use domain::{Nanos, Timestamp};
use std::collections::BTreeMap;

/// So much waits of a CPU.
const CHUNK: usize = 256 << 10;

/// A bound on the functions of one call stack: perf records 127 unless `kernel.perf_event_max_stack` is
/// raised.
const MAX_STACK: usize = 1024;

/// A bound on the name of a thread, of which the kernel keeps 15 bytes.
const MAX_NAME: usize = 64;

/// `PERF_RECORD_MISC_KERNEL` and `_USER`.
const CPUMODE_KERNEL: u16 = 1;
const CPUMODE_USER: u16 = 2;

/// Writes frames.
#[derive(Debug)]
pub struct Writer<'o> {
    to: &'o mut Vec<u8>,
    /// By kind of frame and CPU, what is not written yet.
    waiting: BTreeMap<(Kind, u16), Vec<u8>>,
    /// The latest time.
    pub youngest: u64,
}

impl<'o> Writer<'o> {
    /// Writes what stands in front of the records. `begin` is the time of the first.
    pub fn begin(
        to: &'o mut Vec<u8>,
        of: &Converted,
        formats: &BTreeMap<u16, String>,
        cpus: u32,
        begin: u64,
    ) -> Self {
        let mut writer = Self { to, waiting: BTreeMap::new(), youngest: 0 };
        writer.to.extend(MAGIC);
        let head = Head {
            origin: Nanos::new(begin),
            start: Timestamp::from_unix_nanos(0),
            cpus,
            ring_bytes: 0,
            kernel: of.kernel.clone().unwrap_or_default(),
        };
        writer.frame(Kind::Head, 0, &head.bytes());
        for format in formats.values() {
            writer.frame(Kind::Format, 0, format.as_bytes());
        }
        writer.frame(Kind::Begin, 0, &begin.to_le_bytes());
        writer
    }

    fn frame(&mut self, kind: Kind, cpu: u16, bytes: &[u8]) {
        for part in bytes.chunks(LONGEST_FRAME) {
            self.to.extend(header(kind, cpu, part.len()));
            self.to.extend(part);
        }
    }

    /// A process that was there when the recording began.
    pub fn task(&mut self, pid: u32, owner: Owner, name: &str) {
        self.frame(Kind::Task, 0, &[&pid.to_le_bytes()[..], &[owner as u8], name.as_bytes()].concat());
    }

    /// A thread of one of those.
    pub fn thread(&mut self, tid: u32, pid: u32) {
        self.frame(Kind::Thread, 0, &[tid.to_le_bytes(), pid.to_le_bytes()].concat());
    }

    /// A process that is somebody's.
    pub fn owner(&mut self, pid: u32, owner: Owner) {
        self.frame(Kind::Owner, 0, &[&pid.to_le_bytes()[..], &[owner as u8]].concat());
    }

    /// A function of the kernel.
    pub fn symbol(&mut self, address: u64, name: &str) {
        self.frame(Kind::Symbol, 0, &[&address.to_le_bytes()[..], name.as_bytes()].concat());
    }

    /// A tracepoint's record.
    pub fn event(&mut self, cpu: u32, time: u64, raw: &[u8]) {
        let size = (raw.len() as u32).to_ne_bytes();
        self.record((Kind::Data, SAMPLE, 0), cpu, time, &[&time.to_ne_bytes(), &size, raw]);
    }

    /// How much CPU time a call stack stands for.
    pub fn period(&mut self, ns: u64) {
        self.frame(Kind::Period, 0, &ns.to_le_bytes());
    }

    /// A call stack, from the function that ran on; `None` of a program, of which no functions are kept.
    pub fn stack(&mut self, cpu: u32, time: u64, (pid, tid): (u32, u32), addresses: Option<&[u64]>) {
        let misc = if addresses.is_some() { CPUMODE_KERNEL } else { CPUMODE_USER };
        let addresses = addresses.unwrap_or_default();
        let addresses = &addresses[..addresses.len().min(MAX_STACK)];
        let mut body = [pid.to_ne_bytes(), tid.to_ne_bytes()].concat();
        body.extend(time.to_ne_bytes());
        body.extend((addresses.len() as u64).to_ne_bytes());
        body.extend(addresses.iter().flat_map(|address| address.to_ne_bytes()));
        self.record((Kind::Profile, SAMPLE, misc), cpu, time, &[&body]);
    }

    /// The name of a thread whose call stacks are recorded.
    pub fn named(&mut self, pid: u32, tid: u32, name: &str) {
        let mut name: Vec<u8> = name.bytes().take(MAX_NAME).filter(|byte| *byte != 0).chain([0]).collect();
        // The time is what the record ends with.
        name.resize(name.len().next_multiple_of(8), 0);
        let parts: [&[u8]; 4] = [&pid.to_ne_bytes(), &tid.to_ne_bytes(), &name, &0_u64.to_ne_bytes()];
        self.record((Kind::Profile, COMM, 0), 0, 0, &parts);
    }

    /// So many call stacks were lost before this time.
    pub fn lost_stacks(&mut self, cpu: u32, time: u64, count: u64) {
        let parts: [&[u8]; 2] = [&count.to_ne_bytes(), &time.to_ne_bytes()];
        self.record((Kind::Profile, LOST_SAMPLES, 0), cpu, time, &parts);
    }

    /// So many were lost before this time.
    pub fn loss(&mut self, cpu: u32, time: u64, count: u64) {
        self.record((Kind::Data, LOST_SAMPLES, 0), cpu, time, &[&count.to_ne_bytes(), &time.to_ne_bytes()]);
    }

    /// A record of this type and `misc`, in a frame of this kind.
    fn record(&mut self, (frame, kind, misc): (Kind, u32, u16), cpu: u32, time: u64, parts: &[&[u8]]) {
        self.youngest = self.youngest.max(time);
        let length = 8 + parts.iter().map(|part| part.len()).sum::<usize>();
        let (Ok(size), Ok(cpu)) = (u16::try_from(length.next_multiple_of(8)), u16::try_from(cpu)) else {
            return;
        };
        let waiting = self.waiting.entry((frame, cpu)).or_default();
        let end = waiting.len() + usize::from(size);
        waiting.extend(kind.to_ne_bytes());
        waiting.extend(misc.to_ne_bytes());
        waiting.extend(size.to_ne_bytes());
        parts.iter().for_each(|part| waiting.extend(*part));
        waiting.resize(end, 0);
        if end >= CHUNK {
            let full = std::mem::take(waiting);
            self.frame(frame, cpu, &full);
        }
    }

    fn flush(&mut self) {
        for ((frame, cpu), bytes) in std::mem::take(&mut self.waiting) {
            self.frame(frame, cpu, &bytes);
        }
    }

    /// Everything that is older than this stands before the next round.
    pub fn round(&mut self, time: u64) {
        self.flush();
        self.frame(Kind::Round, 0, &time.to_le_bytes());
    }

    /// Nothing is recorded any more.
    pub fn end(&mut self) {
        self.flush();
        self.frame(Kind::End, 0, &self.youngest.to_le_bytes());
    }

    /// What is written so far.
    pub fn written(&self) -> &[u8] {
        self.to
    }
}
