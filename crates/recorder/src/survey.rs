//! The first reading of a spool: which columns there are, and the totals.

use crate::replay::{Head, Replay, Sampled, Tick};
use crate::source::{Source, disks};
use crate::task::Owner;
use crate::{Error, Result};
use domain::Nanos;
use domain::trace::{Role, Series, SeriesKind, SeriesUnit, TraceHead, growth};
use domain::trial::{DiskTotals, RecorderReport, ThreadTime};
use parse::proc::diskstats;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// What is known of a recording as a whole.
#[derive(Debug)]
pub struct Survey {
    head: Head,
    /// The columns, source by source.
    pub blocks: Vec<Block>,
    /// Whether roles have columns.
    pub has_roles: bool,
    /// The owners that were found out later than their processes.
    pub owners: BTreeMap<u32, Owner>,
    /// The recorder's account.
    pub report: RecorderReport,
    /// CPU time by role.
    pub roles: BTreeMap<Role, Nanos>,
    /// The busiest threads.
    pub threads: Vec<ThreadTime>,
    /// The disks that did anything.
    pub disks: Vec<DiskTotals>,
}

/// The columns of one source: its items one after the other.
#[derive(Debug)]
pub struct Block {
    /// The number of its first column.
    pub first: usize,
    source: Source,
    items: Vec<String>,
    numbers: HashMap<String, usize>,
    /// The place within the block at which each item's columns begin, and the end of the last.
    places: Vec<usize>,
}

impl Block {
    fn new(source: Source) -> Self {
        let (items, numbers) = (Vec::new(), HashMap::new());
        let mut block = Self { first: 0, source, items, numbers, places: vec![0] };
        // Sources of one item have it even where no sample could be read: the column is there, and empty.
        if !block.source.names_items() {
            block.add("");
        }
        block
    }

    fn add(&mut self, item: &str) -> usize {
        if let Some(number) = self.numbers.get(item) {
            return *number;
        }
        let number = self.items.len();
        self.places.push(self.end() + self.source.series(item).len());
        self.items.push(item.to_owned());
        self.numbers.insert(item.to_owned(), number);
        number
    }

    /// The column of an item's value.
    pub fn column(&self, item: &str, field: usize) -> Option<usize> {
        self.numbers.get(item).map(|number| self.first + self.places[*number] + field)
    }

    /// All columns of this source.
    pub fn columns(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.end()
    }

    /// How many columns there are so far.
    fn end(&self) -> usize {
        self.places.last().copied().unwrap_or_default()
    }
}

impl Survey {
    /// Reads the whole spool once.
    ///
    /// # Errors
    /// Where it cannot be read, or a text in it is not as its format says.
    pub fn read(path: &Path) -> Result<Self> {
        let mut replay = Replay::open(path, BTreeMap::new())?;
        let mut blocks: Vec<Block> =
            replay.sources.iter().map(|sampled| Block::new(sampled.source.clone())).collect();
        let mut disks = DiskTally::default();
        let (mut samples, mut last) = (0, None::<Tick>);
        let mut roles = [0; Role::ALL.len()];
        while let Some(tick) = replay.next()? {
            for (sampled, block) in replay.sources.iter().zip(&mut blocks).filter(|(s, _)| s.changed) {
                survey_source(sampled, block, &mut disks).map_err(|error| Error::Text {
                    path: path.to_owned(),
                    time: tick.time,
                    error,
                })?;
            }
            if let Some(tasks) = &replay.tasks {
                roles = tasks.roles();
            }
            disks.is_first_sample = false;
            samples += 1;
            last = Some(tick);
        }
        place(&mut blocks);
        let mut absent = std::mem::take(&mut replay.absent);
        if replay.end.is_none() {
            absent.push("the recording was not ended properly: its last samples may be missing".to_owned());
        }
        let report = RecorderReport {
            samples,
            missed: last.map_or(0, |tick| tick.missed),
            cpu: replay.end.or(last.map(|tick| tick.own)).unwrap_or(Nanos::ZERO),
            span: last.map_or(Nanos::ZERO, |tick| tick.time),
            frequency: replay.head.frequency,
            absent,
        };
        let used = Role::ALL.into_iter().zip(roles).filter(|(_, ns)| *ns > 0);
        Ok(Self {
            head: replay.head,
            blocks,
            has_roles: replay.tasks.is_some(),
            owners: replay.tasks.as_ref().map(|tasks| tasks.owners()).unwrap_or_default(),
            report,
            roles: used.map(|(role, ns)| (role, Nanos::new(ns))).collect(),
            threads: replay.tasks.map(|tasks| tasks.busiest()).unwrap_or_default(),
            disks: disks.totals(),
        })
    }

    /// The head of the trace that this becomes.
    pub fn trace_head(&self) -> TraceHead {
        let items = |block: &Block| -> Vec<Series> {
            block.items.iter().flat_map(|item| block.source.series(item)).collect()
        };
        let mut series: Vec<Series> = self.blocks.iter().flat_map(items).collect();
        let nanos =
            |name| Series { name, unit: SeriesUnit::Nanos, kind: SeriesKind::Counter { wraps_at: None } };
        if self.has_roles {
            series.extend(Role::ALL.map(|role| nanos(format!("role.{role}.ns"))));
        }
        series.push(nanos("recorder.ns".to_owned()));
        TraceHead {
            series,
            interval: self.head.interval,
            start: self.head.start,
            frequency: self.head.frequency,
        }
    }

    /// How many columns the sources have together; the roles' and the recorder's follow.
    pub fn source_columns(&self) -> usize {
        self.blocks.last().map_or(0, |block| block.columns().end)
    }
}

fn place(blocks: &mut [Block]) {
    let mut first = 0;
    for block in blocks {
        block.first = first;
        first = block.columns().end;
    }
}

fn survey_source(
    sampled: &Sampled,
    block: &mut Block,
    disks: &mut DiskTally,
) -> std::result::Result<(), parse::proc::Error> {
    let is_disks = sampled.source.is(disks::NAME);
    if is_disks {
        disks.begin_sample();
    }
    if let Some(text) = &sampled.text {
        sampled.source.values(text, &mut |item, field, value| {
            let number = block.add(item);
            if is_disks {
                disks.take(number, item, field, value);
            }
        })?;
    }
    Ok(())
}

/// Adds up what each disk did.
#[derive(Debug)]
struct DiskTally {
    disks: Vec<Tally>,
    sample: u64,
    is_first_sample: bool,
}

#[derive(Debug)]
struct Tally {
    device: String,
    seen: u64,
    last: [u64; diskstats::FIELDS.len()],
    sum: [u64; diskstats::FIELDS.len()],
}

impl Default for DiskTally {
    fn default() -> Self {
        Self { disks: Vec::new(), sample: 0, is_first_sample: true }
    }
}

impl DiskTally {
    fn begin_sample(&mut self) {
        self.sample += 1;
    }

    fn take(&mut self, number: usize, device: &str, field: usize, value: u64) {
        if number == self.disks.len() {
            let (seen, zero) = (self.sample, [0; diskstats::FIELDS.len()]);
            self.disks.push(Tally { device: device.to_owned(), seen, last: zero, sum: zero });
        }
        let tally = &mut self.disks[number];
        if self.is_first_sample {
            tally.last[field] = value;
            return;
        }
        if self.sample - tally.seen > 1 {
            // It was away, and a device begins at zero.
            tally.last = [0; diskstats::FIELDS.len()];
        }
        tally.seen = self.sample;
        let grown = spent(diskstats::FIELDS[field], tally.last[field], value);
        // Saturating, for a damaged spool may hold any number.
        tally.sum[field] = tally.sum[field].saturating_add(grown);
        tally.last[field] = value;
    }

    /// Those that did anything. The order is that of their first appearance, which is the file's.
    fn totals(self) -> Vec<DiskTotals> {
        let total = |tally: Tally| {
            let [read_ios, read_sectors, _, write_ios, write_sectors, _, _, io_ms, _] = tally.sum;
            let busy = Nanos::new(io_ms.saturating_mul(1_000_000));
            DiskTotals { device: tally.device, read_ios, read_sectors, write_ios, write_sectors, busy }
        };
        let active = |disk: &DiskTotals| disk.read_ios + disk.write_ios > 0 || disk.busy > Nanos::ZERO;
        self.disks.into_iter().map(total).filter(active).collect()
    }
}

/// What a counter of a disk grew by: milliseconds wrap. One that began anew did so with the device, which
/// counts from zero.
fn spent(field: &str, before: u64, now: u64) -> u64 {
    let wraps_at = field.ends_with("_ms").then_some(diskstats::MILLIS_WRAP_AT);
    growth(before, now, wraps_at).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_that_wrap_are_added_and_what_falls_otherwise_begins_again() {
        assert_eq!(spent("io_ms", 4_294_967_290, 4), 10);
        assert_eq!(spent("io_ms", 12, 3), 3, "the device was removed and added again");
        assert_eq!(spent("read_ios", 100, 4), 4);
        assert_eq!(spent("read_ios", 100, 104), 4);
    }
}
