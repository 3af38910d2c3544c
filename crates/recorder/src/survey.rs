//! The first reading of a spool: which columns there are, and the totals.

use crate::columns::{Block, Columns};
use crate::replay::{Head, Replay, Sampled, Tick};
use crate::source::{disks, online};
use crate::task::Owner;
use crate::{Error, Result};
use domain::Nanos;
use domain::trace::{Role, TraceHead, growth};
use domain::trial::{DiskTotals, RecorderReport, ThreadTime};
use parse::proc::diskstats;
use std::collections::BTreeMap;
use std::path::Path;

/// What is known of a recording as a whole.
#[derive(Debug)]
pub struct Survey {
    head: Head,
    /// The columns.
    pub columns: Columns,
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

impl Survey {
    /// Reads the whole spool once.
    ///
    /// # Errors
    /// Where it cannot be read, or a text in it is not as its format says.
    pub fn read(path: &Path) -> Result<Self> {
        let mut replay = Replay::open(path, BTreeMap::new())?;
        let mut columns = Columns::of(&replay);
        let mut disks = DiskTally::default();
        let mut cpus = online::Changes::default();
        let (mut samples, mut last) = (0, None::<Tick>);
        let mut roles = [0; Role::ALL.len()];
        while let Some(tick) = replay.next()? {
            for (sampled, block) in replay.sources.iter().zip(&mut columns.blocks).filter(|(s, _)| s.changed)
            {
                let text = sampled.text.as_ref().filter(|_| sampled.source.is(online::NAME));
                let changed = text.map_or(Ok(()), |text| cpus.take(tick.time, text));
                let surveyed = changed.and_then(|()| survey_source(sampled, block, &mut disks));
                surveyed.map_err(|error| Error::Text { path: path.to_owned(), time: tick.time, error })?;
            }
            if let Some(tasks) = &replay.tasks {
                roles = tasks.roles();
            }
            disks.is_first_sample = false;
            samples += 1;
            last = Some(tick);
        }
        columns.place(&replay);
        let mut absent = std::mem::take(&mut replay.absent);
        let (cpu_changes, more_changes) = cpus.finish();
        absent.extend(more_changes);
        if replay.end.is_none() {
            absent.push("the recording was not ended properly: its last samples may be missing".to_owned());
        }
        let report = RecorderReport {
            samples,
            missed: last.map_or(0, |tick| tick.missed),
            cpu: replay.end.or(last.map(|tick| tick.own)).unwrap_or(Nanos::ZERO),
            span: last.map_or(Nanos::ZERO, |tick| tick.time),
            frequency: replay.head.frequency,
            // What follows from its trace is known once that is read.
            energy: None,
            cpu_changes,
            absent,
        };
        let used = Role::ALL.into_iter().zip(roles).filter(|(_, ns)| *ns > 0);
        Ok(Self {
            head: replay.head,
            columns,
            owners: replay.tasks.as_ref().map(|tasks| tasks.owners()).unwrap_or_default(),
            report,
            roles: used.map(|(role, ns)| (role, Nanos::new(ns))).collect(),
            threads: replay.tasks.map(|tasks| tasks.busiest()).unwrap_or_default(),
            disks: disks.totals(),
        })
    }

    /// The head of the trace that this becomes.
    pub fn trace_head(&self) -> TraceHead {
        self.columns.head(&self.head)
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
            let device = tally.device;
            DiskTotals {
                device,
                read_ios,
                read_sectors,
                write_ios,
                write_sectors,
                busy,
                accesses: None,
                served: Default::default(),
                passage: None,
            }
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
