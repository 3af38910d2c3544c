//! The write buffer: extents that are answered and not yet on the platter.

use super::geometry::{Geometry, Place};

/// Bytes that are to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) place: Place,
}

#[derive(Clone, Debug)]
pub(super) struct Dirty {
    extents: Vec<Extent>,
    /// Bytes held, those being written now included.
    bytes: u64,
    /// Bytes promised to commands whose data is still on the link, and their number.
    promised: (u64, usize),
    most_bytes: u64,
    most_extents: usize,
}

impl Dirty {
    pub(super) fn new(most_bytes: u64, most_extents: u32) -> Self {
        let most_extents = most_extents as usize;
        Self {
            extents: Vec::with_capacity(most_extents + 1),
            bytes: 0,
            promised: (0, 0),
            most_bytes,
            most_extents,
        }
    }

    /// Whether writes are held at all.
    pub(super) const fn is_on(&self) -> bool {
        self.most_bytes > 0
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(super) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// More than half full: it is time to write, even where reads wait.
    pub(super) fn presses(&self) -> bool {
        self.bytes * 2 > self.most_bytes || self.extents.len() * 2 > self.most_extents
    }

    /// Promises room; `false` where there is none. One that is larger than the buffer has it alone.
    pub(super) fn promise(&mut self, len: u64) -> bool {
        let taken = self.bytes + self.promised.0;
        let room = taken + len <= self.most_bytes || taken == 0;
        if !room || self.extents.len() + self.promised.1 >= self.most_extents {
            return false;
        }
        self.promised = (self.promised.0 + len, self.promised.1 + 1);
        true
    }

    /// Takes in what was promised, joined to an extent that it touches.
    pub(super) fn insert(&mut self, start: u64, end: u64, geometry: &Geometry) {
        self.promised = (self.promised.0 - (end - start), self.promised.1 - 1);
        let touching = self.extents.iter_mut().find(|e| e.start <= end && start <= e.end);
        let Some(extent) = touching else {
            self.bytes += end - start;
            self.extents.push(Extent { start, end, place: geometry.place(start) });
            return;
        };
        let before = extent.end - extent.start;
        if start < extent.start {
            (extent.start, extent.place) = (start, geometry.place(start));
        }
        extent.end = extent.end.max(end);
        self.bytes += extent.end - extent.start - before;
    }

    /// Whether a read lies wholly in what is held.
    pub(super) fn holds(&self, start: u64, end: u64) -> bool {
        self.extents.iter().any(|e| e.start <= start && end <= e.end)
    }

    /// Begins to write an extent's first bytes; they count until [`Self::written`].
    pub(super) fn begin(&mut self, index: usize, most: u64, geometry: &Geometry) -> Extent {
        let extent = self.extents[index];
        let end = extent.end.min(extent.start + most);
        if end == extent.end {
            self.extents.swap_remove(index);
        } else {
            self.extents[index] = Extent { start: end, end: extent.end, place: geometry.place(end) };
        }
        Extent { end, ..extent }
    }

    pub(super) fn written(&mut self, bytes: u64) {
        self.bytes -= bytes;
    }
}
