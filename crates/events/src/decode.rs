//! The records of all CPUs as events in the order of time.
//!
//! The recorder drains all rings at each of its wake-ups and writes the moment at which it began. What is
//! older than the begin of one such round is in the file before the end of the next: so events of two rounds
//! are in memory, sorted, and given out up to that moment. An event whose interrupt wrote others between its
//! own time and its place is put right by the same sorting.

use crate::event::{Context, Event, What};
use crate::file::{Frames, Kind, MAX_CPUS, Tables};
use crate::layout::Layouts;
use crate::records::{LOST, LOST_SAMPLES, Records, SAMPLE};
use crate::{Error, Result};
use domain::Nanos;
use std::collections::BTreeMap;
use std::io::{Read, Seek};

/// A bound on the records that wait for their turn. Two rounds of 256 MiB of rings are the most that is
/// recorded; a file without rounds would otherwise be read as a whole.
const MAX_WAITING: usize = 1 << 30;

/// What is counted while a file is decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Events, by number of their tracepoint and CPU.
    pub recorded: BTreeMap<(u16, u16), u64>,
    /// What perf said that it lost, by CPU.
    pub announced: BTreeMap<u16, u64>,
    /// Records that do not read as their format says.
    pub unread: u64,
}

impl Losses {
    /// How many were lost, by CPU: the larger of what perf announced and what fired and is not there. perf
    /// announces a loss with the next event that finds room, and a file that was not ended has no counts.
    pub fn by_cpu(&self, tables: &Tables) -> BTreeMap<u16, u64> {
        let mut lost = self.announced.clone();
        let mut counted: BTreeMap<u16, u64> = BTreeMap::new();
        for ((cpu, number), fired) in &tables.fired {
            let recorded = self.recorded.get(&(*number, *cpu)).copied().unwrap_or(0);
            let of_cpu = counted.entry(*cpu).or_default();
            *of_cpu = of_cpu.saturating_add(fired.saturating_sub(recorded));
        }
        for (cpu, count) in counted.into_iter().filter(|(_, count)| *count > 0) {
            let announced = lost.entry(cpu).or_default();
            *announced = count.max(*announced);
        }
        lost
    }
}

/// A record that waits for its turn.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    time: u64,
    /// Where its raw bytes begin in the arena, or how many were lost.
    at: u64,
    length: u32,
    cpu: u16,
    is_loss: bool,
}

/// Gives all events of a file to `take`, in the order of time.
///
/// # Errors
/// Where the input cannot be read, or is damaged: with the offset.
pub fn decode<R: Read + Seek>(input: R, tables: &Tables, mut take: impl FnMut(&Event)) -> Result<Losses> {
    let mut frames = Frames::new(input)?;
    let mut merging = Merging::new(tables);
    loop {
        let at = frames.at;
        let Some(frame) = frames.next()? else { break };
        let Some(bytes) = frames.bytes(&frame)? else { break };
        match frame.kind {
            Kind::Data => merging.add(frame.cpu, bytes, at)?,
            Kind::Round => {
                let began = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
                let began = began.ok_or(Error::Damaged { at, what: "time of a round" })?;
                let until = std::mem::replace(&mut merging.round, began);
                merging.give_until(until, &mut take);
            }
            _ => {}
        }
    }
    merging.give_until(u64::MAX, &mut take);
    Ok(merging.finish(tables))
}

struct Merging {
    layouts: Layouts,
    cpus: u32,
    /// When the last round began.
    round: u64,
    waiting: Vec<Waiting>,
    arena: Vec<u8>,
    spare: Vec<u8>,
    records: Records,
    /// By CPU, then tracepoint in the order of their numbers.
    counts: Vec<Vec<u64>>,
    losses: Losses,
}

impl Merging {
    fn new(tables: &Tables) -> Self {
        Self {
            layouts: Layouts::new(tables),
            cpus: tables.head.cpus.min(MAX_CPUS),
            round: 0,
            waiting: Vec::new(),
            arena: Vec::new(),
            spare: Vec::new(),
            records: Records::default(),
            counts: Vec::new(),
            losses: Losses::default(),
        }
    }

    /// Takes in a frame's records. `at` is where the frame begins.
    fn add(&mut self, cpu: u16, bytes: &[u8], at: u64) -> Result<()> {
        if u32::from(cpu) >= self.cpus {
            return Err(Error::Damaged { at, what: "number of the CPU in the frame" });
        }
        if self.arena.len() + bytes.len() > MAX_WAITING {
            return Err(Error::Damaged { at, what: "amount of records between two rounds" });
        }
        let mut records = std::mem::take(&mut self.records);
        let split = records.split(cpu, bytes, at, |record| self.record(cpu, record.kind, record.bytes));
        self.records = records;
        split
    }

    fn record(&mut self, cpu: u16, kind: u32, record: &[u8]) {
        let understood = match kind {
            SAMPLE => self.sample(cpu, record),
            // Which event, how many, then the time.
            LOST => self.loss(cpu, record, 8),
            LOST_SAMPLES => self.loss(cpu, record, 0),
            _ => Some(()),
        };
        self.losses.unread += u64::from(understood.is_none());
    }

    /// Time u64, size u32, raw bytes: PERF_SAMPLE_TIME and PERF_SAMPLE_RAW alone.
    fn sample(&mut self, cpu: u16, record: &[u8]) -> Option<()> {
        let (time, rest) = record.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let raw = rest.get(..u32::from_ne_bytes(*size) as usize)?;
        let at = self.arena.len() as u64;
        self.arena.extend_from_slice(raw);
        let time = u64::from_ne_bytes(*time);
        self.waiting.push(Waiting { time, at, length: raw.len() as u32, cpu, is_loss: false });
        Some(())
    }

    fn loss(&mut self, cpu: u16, record: &[u8], skipped: usize) -> Option<()> {
        let (count, rest) = record.get(skipped..)?.split_first_chunk()?;
        let time = u64::from_ne_bytes(*rest.first_chunk()?);
        let at = u64::from_ne_bytes(*count);
        self.waiting.push(Waiting { time, at, length: 0, cpu, is_loss: true });
        Some(())
    }

    /// Gives out what is older, and keeps the rest.
    fn give_until(&mut self, until: u64, take: &mut impl FnMut(&Event)) {
        // Runs of one CPU are sorted but for interrupts: the stable sort finds and merges them.
        self.waiting.sort_by_key(|waiting| waiting.time);
        let ready = self.waiting.partition_point(|waiting| waiting.time < until);
        let waiting = std::mem::take(&mut self.waiting);
        for one in &waiting[..ready] {
            self.give(one, take);
        }
        self.keep(waiting, ready);
    }

    fn keep(&mut self, mut waiting: Vec<Waiting>, given: usize) {
        waiting.drain(..given);
        self.spare.clear();
        for one in waiting.iter_mut().filter(|one| !one.is_loss) {
            let from = one.at as usize;
            one.at = self.spare.len() as u64;
            self.spare.extend_from_slice(&self.arena[from..from + one.length as usize]);
        }
        std::mem::swap(&mut self.arena, &mut self.spare);
        self.waiting = waiting;
    }

    fn give(&mut self, one: &Waiting, take: &mut impl FnMut(&Event)) {
        let time = Nanos::new(one.time);
        if one.is_loss {
            let lost = self.losses.announced.entry(one.cpu).or_default();
            *lost = lost.saturating_add(one.at);
            let (context, what) = (Context::of_flags(0), What::Lost { count: one.at });
            return take(&Event { time, cpu: one.cpu, tid: 0, context, what });
        }
        let from = one.at as usize;
        let raw = &self.arena[from..from + one.length as usize];
        let Some((place, event)) = self.layouts.read(time, one.cpu, raw) else {
            self.losses.unread += 1;
            return;
        };
        *count_of(&mut self.counts, usize::from(one.cpu), place) += 1;
        take(&event);
    }

    fn finish(mut self, tables: &Tables) -> Losses {
        for (cpu, counts) in self.counts.iter().enumerate() {
            let named = tables.tracepoints.keys().zip(counts).filter(|(_, count)| **count > 0);
            self.losses.recorded.extend(named.map(|(number, count)| ((*number, cpu as u16), *count)));
        }
        self.losses
    }
}

fn count_of(counts: &mut Vec<Vec<u64>>, cpu: usize, place: usize) -> &mut u64 {
    if counts.len() <= cpu {
        counts.resize_with(cpu + 1, Vec::new);
    }
    let of_cpu = &mut counts[cpu];
    if of_cpu.len() <= place {
        of_cpu.resize(place + 1, 0);
    }
    &mut of_cpu[place]
}
