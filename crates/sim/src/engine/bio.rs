//! Requests on their way.

use super::ids::PartId;
use crate::cpu::ThreadId;
use disks::Op;
use event_queue::Time;

/// A request: to a block device, or to a file of a filesystem.
#[derive(Clone, Copy, Debug)]
pub struct Bio {
    /// What is asked. A flush of a file is `fsync(2)`.
    pub op: Op,
    /// Forced unit access: done when it is on the medium. A write to a file: `O_DSYNC`.
    pub fua: bool,
    /// To a file: past the page cache (`O_DIRECT`). A device has no use for it.
    pub direct: bool,
    /// A flush of a file: the data and what it takes to find it (`fdatasync(2)`).
    pub data_only: bool,
    /// Somebody waits for it (`REQ_SYNC`): reads, direct writes, the journal; not writeback.
    pub sync: bool,
    /// Whoever submits it holds a plug (`blk_start_plug`): readahead, writeback, filesystems, arrays'
    /// threads. Not a direct request to a block device, which is one bio (`fops.c: __blkdev_direct_IO_async`,
    /// `__blkdev_direct_IO_simple`), nor one that `io_submit(2)` was given alone (`fs/aio.c`: from three on).
    pub plugged: bool,
    /// Whose it is; gets [`Part::done`].
    pub owner: PartId,
    /// To whom it goes.
    pub to: PartId,
    /// From the start of the device or file, in bytes.
    pub offset: u64,
    /// In bytes.
    pub len: u64,
    /// The owner's own number for it.
    pub tag: u64,
    /// For the part that it was submitted to, to keep what it likes with it while it has it.
    pub scratch: u64,
    /// When it was submitted.
    pub submitted: Time,
    /// The thread in whose context it was submitted; none by a timer.
    pub thread: Option<ThreadId>,
}

impl Bio {
    /// A request from `owner` to `to`.
    pub const fn new(owner: PartId, to: PartId, op: Op, offset: u64, len: u64, tag: u64) -> Self {
        Self {
            op,
            fua: false,
            direct: false,
            data_only: false,
            sync: true,
            plugged: true,
            owner,
            to,
            offset,
            len,
            tag,
            scratch: 0,
            submitted: 0,
            thread: None,
        }
    }

    /// The first byte after it.
    pub const fn end(&self) -> u64 {
        self.offset + self.len
    }
}
