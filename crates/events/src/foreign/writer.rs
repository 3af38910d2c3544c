//! Writes frames of a file of this crate's form.

use super::Converted;
use crate::file::{Head, Kind, LONGEST_FRAME, MAGIC, header};
use crate::owner::Owner;
use crate::records::{LOST_SAMPLES, SAMPLE};
use domain::{Nanos, Timestamp};
use std::collections::BTreeMap;

/// So much waits of a CPU.
const CHUNK: usize = 256 << 10;

/// Writes frames.
#[derive(Debug)]
pub struct Writer<'o> {
    to: &'o mut Vec<u8>,
    /// By CPU, what is not written yet.
    waiting: BTreeMap<u16, Vec<u8>>,
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
        self.record(SAMPLE, cpu, time, &[&time.to_ne_bytes(), &size, raw]);
    }

    /// So many were lost before this time.
    pub fn loss(&mut self, cpu: u32, time: u64, count: u64) {
        self.record(LOST_SAMPLES, cpu, time, &[&count.to_ne_bytes(), &time.to_ne_bytes()]);
    }

    fn record(&mut self, kind: u32, cpu: u32, time: u64, parts: &[&[u8]]) {
        self.youngest = self.youngest.max(time);
        let length = 8 + parts.iter().map(|part| part.len()).sum::<usize>();
        let (Ok(size), Ok(cpu)) = (u16::try_from(length.next_multiple_of(8)), u16::try_from(cpu)) else {
            return;
        };
        let waiting = self.waiting.entry(cpu).or_default();
        let end = waiting.len() + usize::from(size);
        waiting.extend(kind.to_ne_bytes());
        waiting.extend(0_u16.to_ne_bytes());
        waiting.extend(size.to_ne_bytes());
        parts.iter().for_each(|part| waiting.extend(*part));
        waiting.resize(end, 0);
        if end >= CHUNK {
            let full = std::mem::take(waiting);
            self.frame(Kind::Data, cpu, &full);
        }
    }

    fn flush(&mut self) {
        for (cpu, bytes) in std::mem::take(&mut self.waiting) {
            self.frame(Kind::Data, cpu, &bytes);
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
