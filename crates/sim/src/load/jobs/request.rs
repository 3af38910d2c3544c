//! What jobs ask for, and where they get it.

use crate::load::Transfer;
use disks::Op;
use event_queue::Time;

/// What a job asks for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoRequest {
    /// A flush is `fsync(2)`, a discard the [close](Self::close) of a device or the removal of a file.
    pub op: Op,
    /// Where, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub len: u64,
    /// Past the page cache (`O_DIRECT`).
    pub direct: bool,
    /// A write that is on the medium when it returns (`O_DSYNC`).
    pub fua: bool,
    /// A flush of the data alone (`fdatasync(2)`).
    pub data_only: bool,
    /// Not before this time.
    pub not_before: Time,
}

impl IoRequest {
    /// A read or write past the page cache.
    pub const fn direct(op: Op, offset: u64, len: u64) -> Self {
        Self { op, offset, len, direct: true, fua: false, data_only: false, not_before: 0 }
    }

    /// `fsync(2)`, or `fdatasync(2)`.
    pub const fn flush(data_only: bool) -> Self {
        Self { op: Op::Flush, offset: 0, len: 0, direct: false, fua: false, data_only, not_before: 0 }
    }

    /// The last close(2) of a block device of this size: its pages leave memory, and those that are being
    /// read are waited for (`kill_bdev`, block/bdev.c).
    pub const fn close(size: u64) -> Self {
        Self { op: Op::Discard, len: size, ..Self::flush(false) }
    }
}

/// Where a job gets what it asks for.
pub trait RequestSource {
    /// The next; `None` where there is nothing more.
    fn next(&mut self) -> Option<IoRequest>;

    /// What is asked from now on counts; told once, before the first such one.
    fn counts(&mut self) {}

    /// What it does at its end, one after the other, also where its time is up.
    fn finish(&mut self) -> Option<IoRequest> {
        None
    }
}

impl<F: FnMut() -> Option<IoRequest>> RequestSource for F {
    fn next(&mut self) -> Option<IoRequest> {
        self()
    }
}

/// How a job's transfers are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// Past the page cache (`O_DIRECT`).
    pub direct: bool,
    /// A write is on the medium when it returns (`O_DSYNC`).
    pub fua: bool,
}

impl Manner {
    /// What a transfer is asked for as.
    pub fn of(self, transfer: Transfer) -> IoRequest {
        let op = if transfer.write { Op::Write } else { Op::Read };
        let (offset, len) = (transfer.offset.get(), transfer.len.get());
        IoRequest {
            fua: self.fua && transfer.write,
            direct: self.direct,
            ..IoRequest::direct(op, offset, len)
        }
    }
}
