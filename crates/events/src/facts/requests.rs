//! Requests: what each block device was given, how long it waited in the device's queue, and how long the
//! device took.
//!
//! *Queue* is from the bio that a request begins with to its issue, *service* from issue to completion. A
//! layer of bios alone (md, dm) has neither: *whole* is from the queueing of a bio to its completion. Sums
//! count what completed, as diskstats does (kernel `block/blk-mq.c`, `blk_account_io_done`;
//! `block/blk-core.c`, `bio_end_io_acct`).

use crate::event::Span;
use crate::file::Tables;
use crate::requests::{Ended, InFlight};
use domain::Nanos;
use domain::request::Op;
use domain::request::Served;
use domain::took::Took;
use std::collections::BTreeMap;

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
    pub queue: Took,
    /// In the driver and the device.
    pub service: Took,
    /// Of a layer of bios alone: from queueing to completion.
    pub whole: Took,
}

impl Done {
    /// As sums alone.
    pub fn served(&self) -> Served {
        let Self { count, sectors, queue, service, whole, .. } = self.clone();
        Served { count, sectors, queue, service, whole }
    }
}

/// All requests of a recording.
#[derive(Debug)]
pub struct Requests<'t> {
    tables: &'t Tables,
    /// By device and operation.
    pub done: BTreeMap<(u32, Op), Done>,
    in_flight: InFlight<'t>,
}

impl<'t> Requests<'t> {
    pub fn new(tables: &'t Tables) -> Self {
        Self { tables, done: BTreeMap::new(), in_flight: InFlight::new(tables) }
    }

    /// The sums of a device, or of the disk that it is a part of.
    fn of(&mut self, device: u32, op: Op) -> Option<&mut Done> {
        let disk = self.tables.disk_of(device);
        let has_room = self.done.len() < MAX_DEVICES * Op::ALL.len();
        (has_room || self.done.contains_key(&(disk, op))).then(|| self.done.entry((disk, op)).or_default())
    }

    pub fn queued(&mut self, now: u64, span: &Span, op: Op) {
        if let Some(done) = self.of(span.device, op) {
            done.bios += 1;
        }
        self.in_flight.queue(Nanos::new(now), span);
    }

    pub fn issued(&mut self, now: u64, span: &Span, op: Op) {
        let queued = self.in_flight.issue(Nanos::new(now), span);
        if let (Some(queued), Some(done)) = (queued, self.of(span.device, op)) {
            done.queue.add(now.saturating_sub(queued.get()));
        }
    }

    /// The driver may complete a request in parts: sectors count at once, the request with its last. Gives
    /// the request then.
    pub fn completed(&mut self, now: u64, span: &Span, op: Op, failed: bool) -> Option<Ended> {
        let ended = self.in_flight.complete(span);
        let Some(done) = self.of(span.device, op) else { return ended };
        done.sectors = done.sectors.saturating_add(span.sectors.into());
        let ended = ended?;
        done.count += 1;
        done.failed += u64::from(failed);
        if let Some(issued) = ended.issued {
            done.service.add(now.saturating_sub(issued.get()));
        }
        Some(ended)
    }

    /// A bio of a layer without requests has ended.
    pub fn bio_completed(&mut self, now: u64, span: &Span, op: Op, failed: bool) -> Ended {
        let ended = self.in_flight.complete_bio(span);
        let Some(done) = self.of(span.device, op) else { return ended };
        done.count += 1;
        done.failed += u64::from(failed);
        done.sectors = done.sectors.saturating_add(span.sectors.into());
        if let Some(queued) = ended.queued {
            done.whole.add(now.saturating_sub(queued.get()));
        }
        ended
    }

    pub fn lost(&mut self) {
        self.in_flight.lose();
    }
}
