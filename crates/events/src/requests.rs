//! The way of requests through a device: from the bio to the driver to the completion.
//!
//! A device with a driver of requests: a bio is queued (block_bio_queue), becomes a request or a part of one,
//! is given to the driver (block_rq_issue), and the driver completes it (block_rq_complete), in parts or as a
//! whole. A layer of bios alone (md, dm) queues a bio and completes it (block_bio_complete).
//!
//! Requests are told apart by whole disk and sector: a bio of a partition is shown with the disk's sector
//! already (kernel `block/blk-core.c`, `blk_partition_remap`).

use crate::event::Span;
use crate::file::Tables;
use domain::Nanos;
use std::collections::HashMap;

/// Most requests and bios that are followed at once; beyond, the oldest knowledge is dropped and counted.
const MAX_IN_FLIGHT: usize = 1 << 20;

/// A request that has ended, or a bio of a layer without requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The whole disk, and all that was done there, in whatever parts.
    pub span: Span,
    /// When the bio that it begins with was queued, where that was seen.
    pub queued: Option<Nanos>,
    /// When the driver got it, where that was seen; never for a layer of bios.
    pub issued: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
struct Issued {
    time: Nanos,
    queued: Option<Nanos>,
    /// The first sector, and how many there were.
    sector: u64,
    sectors: u32,
    /// Sectors that are not done yet.
    left: u32,
}

/// Requests and bios on their way.
#[derive(Debug)]
pub struct InFlight<'t> {
    tables: &'t Tables,
    bios: HashMap<(u32, u64), Nanos>,
    issued: HashMap<(u32, u64), Issued>,
    /// Those that were no longer followed.
    pub forgotten: u64,
}

impl<'t> InFlight<'t> {
    /// None yet, of a recording that declares these devices.
    pub fn new(tables: &'t Tables) -> Self {
        Self { tables, bios: HashMap::new(), issued: HashMap::new(), forgotten: 0 }
    }

    fn place(&self, span: &Span) -> (u32, u64) {
        (self.tables.disk_of(span.device), span.sector)
    }

    /// A bio is given to a device.
    pub fn queue(&mut self, now: Nanos, span: &Span) {
        if self.bios.len() >= MAX_IN_FLIGHT {
            self.forgotten += self.bios.len() as u64;
            self.bios.clear();
        }
        // A bio that lost its end, or was merged, gives way to the next one at its place.
        self.bios.insert(self.place(span), now);
    }

    /// A request is given to the driver: when its first bio was queued, where that was seen.
    pub fn issue(&mut self, now: Nanos, span: &Span) -> Option<Nanos> {
        if self.issued.len() >= MAX_IN_FLIGHT {
            self.forgotten += self.issued.len() as u64;
            self.issued.clear();
        }
        let place = self.place(span);
        let queued = self.bios.remove(&place);
        let Span { sector, sectors, .. } = *span;
        self.issued.insert(place, Issued { time: now, queued, sector, sectors, left: sectors });
        queued
    }

    /// The driver has done a request, or a part of it from its begin on: the request, once all of it is done.
    pub fn complete(&mut self, span: &Span) -> Option<Ended> {
        let place = self.place(span);
        let Some(issued) = self.issued.remove(&place) else {
            return Some(Ended { span: Span { device: place.0, ..*span }, queued: None, issued: None });
        };
        let left = issued.left.saturating_sub(span.sectors);
        if left > 0 {
            let rest = (place.0, span.sector.saturating_add(span.sectors.into()));
            self.issued.insert(rest, Issued { left, ..issued });
            return None;
        }
        let span = Span { device: place.0, sector: issued.sector, sectors: issued.sectors };
        Some(Ended { span, queued: issued.queued, issued: Some(issued.time) })
    }

    /// A bio of a layer without requests has ended.
    pub fn complete_bio(&mut self, span: &Span) -> Ended {
        let place = self.place(span);
        Ended { span: Span { device: place.0, ..*span }, queued: self.bios.remove(&place), issued: None }
    }

    /// What is in flight may have ended in what was lost.
    pub fn lose(&mut self) {
        self.forgotten += (self.bios.len() + self.issued.len()) as u64;
        self.bios.clear();
        self.issued.clear();
    }
}
