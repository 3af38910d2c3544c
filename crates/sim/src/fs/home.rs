//! Blocks of metadata that are dirty in the page cache of the block device, and their way to their places.
//!
//! The kernel keeps them as buffers of the device's own inode (`fs/buffer.c`): each is a request of its own,
//! and the block layer makes one of those that touch.

use super::layout::BLOCK;
use crate::engine::{Bio, Core, PartId};
use disks::Op;
use event_queue::Time;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Default)]
struct State {
    dirty: bool,
    writing: bool,
    /// The file's own: its inode, or where its blocks are.
    own: bool,
}

/// The dirty blocks of metadata.
pub(crate) struct Home {
    me: PartId,
    /// Set in tags.
    mine: u64,
    device: PartId,
    blocks: BTreeMap<u64, State>,
    since: Option<Time>,
    dirty: u64,
    writing: u64,
    bytes: u64,
}

impl Home {
    /// None, of the device `device`; `mine` is set in all tags.
    pub(crate) fn new(me: PartId, mine: u64, device: PartId) -> Self {
        Self { me, mine, device, blocks: BTreeMap::new(), since: None, dirty: 0, writing: 0, bytes: 0 }
    }

    /// Bytes written to their places.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Since when one has been dirty.
    pub(crate) fn dirty_since(&self) -> Option<Time> {
        self.since.filter(|_| self.dirty > 0)
    }

    /// How many are on their way.
    pub(crate) fn writing(&self) -> u64 {
        self.writing
    }

    /// How many are dirty and not on their way.
    pub(crate) fn dirty_blocks(&self) -> u64 {
        self.dirty
    }

    /// What is dirty now is looked at; what is dirty later is new.
    pub(crate) fn begin_pass(&mut self, now: Time) {
        self.since = Some(now);
    }

    /// A block has changed; `own`: `fsync` is to write it.
    pub(crate) fn dirty(&mut self, now: Time, block: u64, own: bool) {
        let state = self.blocks.entry(block).or_default();
        state.own = own;
        if !state.dirty {
            state.dirty = true;
            self.dirty += 1;
            if self.dirty == 1 {
                self.since = Some(now);
            }
        }
    }

    /// All that is dirty and not on its way, in order, from a block on.
    pub(crate) fn waiting(&self, from: u64) -> impl Iterator<Item = u64> {
        self.blocks.range(from..).filter(|(_, s)| s.dirty && !s.writing).map(|(block, _)| *block)
    }

    /// The file's own that are dirty and not on their way.
    pub(crate) fn own(&self) -> Vec<u64> {
        self.blocks.iter().filter(|(_, s)| s.own && s.dirty && !s.writing).map(|(block, _)| *block).collect()
    }

    /// Whether one of the file's own is on its way.
    pub(crate) fn writes_own(&self) -> bool {
        self.blocks.values().any(|s| s.own && s.writing)
    }

    /// Writes blocks, as far as they are dirty and not on their way.
    pub(crate) fn write(&mut self, core: &mut Core, blocks: impl Iterator<Item = u64>, sync: bool) {
        for block in blocks {
            let Some(state) = self.blocks.get_mut(&block).filter(|s| s.dirty && !s.writing) else { continue };
            *state = State { dirty: false, writing: true, ..*state };
            self.dirty -= 1;
            self.writing += 1;
            self.bytes += BLOCK;
            let bio = Bio::new(self.me, self.device, Op::Write, block * BLOCK, BLOCK, self.mine | block);
            core.submit(Bio { sync, ..bio });
        }
    }

    /// A block has been written; it is returned where it has not changed since.
    pub(crate) fn done(&mut self, bio: &Bio) -> Option<u64> {
        let block = bio.tag & !self.mine;
        self.writing -= 1;
        let state = self.blocks.get_mut(&block).expect("a block that was written was known");
        state.writing = false;
        if state.dirty {
            return None;
        }
        self.blocks.remove(&block);
        Some(block)
    }
}
