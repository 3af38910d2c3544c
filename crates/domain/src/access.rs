//! How a block device was used: the bios that were given to it.

use crate::units::Bytes;

/// What was given to a device, by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessPattern {
    /// Reads.
    pub reads: Accesses,
    /// Writes.
    pub writes: Accesses,
}

/// The bios of one direction, as they were submitted: before the block layer merges them (kernel
/// `block/blk-core.c`, tracepoint `block_bio_queue`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// How many.
    pub bios: u64,
    /// Their sectors of 512 bytes.
    pub sectors: u64,
    /// The sectors of those that begin where one of the last before them ended.
    pub in_order: u64,
    /// Bios that the page cache submitted to read (`REQ_RAHEAD`), asked for by somebody or not.
    pub ahead: u64,
    /// Bios that somebody waits for (`REQ_SYNC`): direct requests, synchronous writes, and what fsync
    /// writes back. Other writes are the kernel's own writing back.
    pub synchronous: u64,
}

impl Accesses {
    /// The share of sectors that continues what was before, 0 to 1; `None` where nothing was submitted.
    pub fn share_in_order(&self) -> Option<f64> {
        (self.sectors > 0).then(|| self.in_order as f64 / self.sectors as f64)
    }

    /// The share of bios that the page cache submitted, 0 to 1; `None` where nothing was submitted.
    pub fn share_ahead(&self) -> Option<f64> {
        self.share(self.ahead)
    }

    /// The share of bios that somebody waits for, 0 to 1; `None` where nothing was submitted.
    pub fn share_synchronous(&self) -> Option<f64> {
        self.share(self.synchronous)
    }

    /// The mean size of a bio; `None` where nothing was submitted.
    pub fn mean(&self) -> Option<Bytes> {
        let sectors = self.sectors.checked_div(self.bios)?;
        Some(Bytes::new(sectors.saturating_mul(512)))
    }

    fn share(&self, of: u64) -> Option<f64> {
        (self.bios > 0).then(|| of as f64 / self.bios as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_sizes_are_of_what_was_submitted() {
        let some = Accesses { bios: 4, sectors: 32, in_order: 24, ahead: 1, synchronous: 2 };
        assert_eq!((some.share_in_order(), some.share_ahead()), (Some(0.75), Some(0.25)));
        assert_eq!(some.share_synchronous(), Some(0.5));
        assert_eq!(some.mean(), Some(Bytes::from_kib(4)));
        let none = Accesses::default();
        assert_eq!((none.share_in_order(), none.share_ahead(), none.mean()), (None, None, None));
    }
}
