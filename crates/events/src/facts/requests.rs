//! Requests: what each block device was given, how long it waited in the device's queue, and how long the
//! device took.
//!
//! A device with a driver of requests: a bio is queued (block_bio_queue), becomes a request or a part of one,
//! is given to the driver (block_rq_issue), and the driver completes it (block_rq_complete). *Queue* is from
//! the bio that the request begins with to its issue, *service* from issue to completion. A layer of bios
//! alone (md, dm) has neither: *whole* is from the queueing of a bio to its completion
//! (block_bio_complete). Sums count what completed, as diskstats does (kernel `block/blk-mq.c`,
//! `blk_account_io_done`; `block/blk-core.c`, `bio_end_io_acct`).

use super::times::Times;
use crate::event::{Op, Span};
use crate::file::Tables;
use std::collections::{BTreeMap, HashMap};

/// Most requests and bios that are followed at once; beyond, the oldest knowledge is dropped and counted.
const MAX_IN_FLIGHT: usize = 1 << 20;

/// Most devices that a hostile file can make.
const MAX_DEVICES: usize = 4096;

/// What one device did of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Requests, or bios of a layer without requests, that completed.
    pub count: u64,
    /// Their sectors.
    pub sectors: u64,
    /// Those that failed.
    pub failed: u64,
    /// Bios that were queued.
    pub bios: u64,
    /// From the first bio to the driver.
    pub queue: Times,
    /// In the driver and the device.
    pub service: Times,
    /// Of a layer of bios alone: from queueing to completion.
    pub whole: Times,
}

/// What was passed from one device to the one below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Bios.
    pub bios: u64,
    /// Their sectors.
    pub sectors: u64,
}

#[derive(Clone, Copy, Debug)]
struct Issued {
    time: u64,
    left: u32,
}

/// All requests of a recording.
#[derive(Debug)]
pub struct Requests<'t> {
    tables: &'t Tables,
    /// By device and operation.
    pub done: BTreeMap<(u32, Op), Done>,
    /// From a device to one below.
    pub passed: BTreeMap<(u32, u32), Passed>,
    /// Requests and bios that were no longer followed.
    pub forgotten: u64,
    bios: HashMap<(u32, u64), u64>,
    issued: HashMap<(u32, u64), Issued>,
}

impl<'t> Requests<'t> {
    pub fn new(tables: &'t Tables) -> Self {
        Self {
            tables,
            done: BTreeMap::new(),
            passed: BTreeMap::new(),
            forgotten: 0,
            bios: HashMap::new(),
            issued: HashMap::new(),
        }
    }

    /// The whole disk and the sector: a bio of a partition is shown with the disk's sector already (kernel
    /// `block/blk-core.c`, `blk_partition_remap`).
    fn place(&self, span: &Span) -> (u32, u64) {
        (self.tables.disk_of(span.device), span.sector)
    }

    fn of(&mut self, device: u32, op: Op) -> Option<&mut Done> {
        let has_room = self.done.len() < MAX_DEVICES * Op::ALL.len();
        (has_room || self.done.contains_key(&(device, op)))
            .then(|| self.done.entry((device, op)).or_default())
    }

    pub fn queued(&mut self, now: u64, span: &Span, op: Op) {
        let place = self.place(span);
        if let Some(done) = self.of(place.0, op) {
            done.bios += 1;
        }
        if self.bios.len() >= MAX_IN_FLIGHT {
            self.forgotten += self.bios.len() as u64;
            self.bios.clear();
        }
        // A bio that lost its end, or was merged, gives way to the next one at its place.
        self.bios.insert(place, now);
    }

    pub fn passed(&mut self, span: &Span, from: u32) {
        let (from, to) = (self.tables.disk_of(from), self.tables.disk_of(span.device));
        // Within a disk it is the partition's begin that is added.
        if from == to || self.passed.len() >= MAX_DEVICES {
            return;
        }
        let passed = self.passed.entry((from, to)).or_default();
        passed.bios += 1;
        passed.sectors = passed.sectors.saturating_add(span.sectors.into());
    }

    pub fn issued(&mut self, now: u64, span: &Span, op: Op) {
        let place = self.place(span);
        if self.issued.len() >= MAX_IN_FLIGHT {
            self.forgotten += self.issued.len() as u64;
            self.issued.clear();
        }
        self.issued.insert(place, Issued { time: now, left: span.sectors });
        let Some(queued) = self.bios.remove(&place) else { return };
        if let Some(done) = self.of(place.0, op) {
            done.queue.add(now.saturating_sub(queued));
        }
    }

    /// The driver may complete a request in parts, from its begin on.
    pub fn completed(&mut self, now: u64, span: &Span, op: Op, failed: bool) {
        let place = self.place(span);
        let issued = self.issued.remove(&place);
        let left = issued.map_or(0, |issued| issued.left.saturating_sub(span.sectors));
        if let Some(issued) = issued.filter(|_| left > 0) {
            let rest = (place.0, span.sector.saturating_add(span.sectors.into()));
            self.issued.insert(rest, Issued { left, ..issued });
        }
        let Some(done) = self.of(place.0, op) else { return };
        done.sectors = done.sectors.saturating_add(span.sectors.into());
        if left > 0 {
            return;
        }
        done.count += 1;
        done.failed += u64::from(failed);
        if let Some(issued) = issued {
            done.service.add(now.saturating_sub(issued.time));
        }
    }

    pub fn bio_completed(&mut self, now: u64, span: &Span, op: Op, failed: bool) {
        let place = self.place(span);
        let queued = self.bios.remove(&place);
        let Some(done) = self.of(place.0, op) else { return };
        done.count += 1;
        done.failed += u64::from(failed);
        done.sectors = done.sectors.saturating_add(span.sectors.into());
        if let Some(queued) = queued {
            done.whole.add(now.saturating_sub(queued));
        }
    }

    /// What is in flight may have ended in what was lost.
    pub fn lost(&mut self) {
        self.forgotten += (self.bios.len() + self.issued.len()) as u64;
        self.bios.clear();
        self.issued.clear();
    }
}
