//! The stripe cache: stripes of 4 KiB a member, the lists that they wait on, and the parts of requests that
//! they hold.
//!
//! Follows the data structures of `drivers/md/raid5.h`. One list of inactive stripes, where the kernel has
//! eight by a hash of the place.

use crate::engine::BioId;
use event_queue::Slab;
use std::collections::BTreeMap;

/// Nothing.
pub(super) const NONE: u32 = u32::MAX;

/// A block of a stripe, on one member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// The cache has what the member has, or will have.
    pub(super) up_to_date: bool,
    /// A request to the member is on its way, or about to be.
    pub(super) locked: bool,
    /// What is to be written covers all of it.
    pub(super) overwritten: bool,
    pub(super) wants_read: bool,
    pub(super) wants_write: bool,
    /// Lists of [`Share`]s: to be read, to be written, and drained into the cache.
    pub(super) to_read: u32,
    pub(super) to_write: u32,
    pub(super) written: u32,
}

impl Block {
    /// The cache has it not, and has not asked for it.
    pub(super) const fn misses(&self) -> bool {
        !self.locked && !self.up_to_date
    }

    /// All of it is to be written.
    pub(super) const fn is_replaced(&self) -> bool {
        self.to_write != NONE && self.overwritten
    }
}

const EMPTY: Block = Block {
    up_to_date: false,
    locked: false,
    overwritten: false,
    wants_read: false,
    wants_write: false,
    to_read: NONE,
    to_write: NONE,
    written: NONE,
};

/// The part of a request that lies in a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) bio: BioId,
    /// Within the block.
    from: u32,
    to: u32,
    pub(super) next: u32,
}

/// Where a stripe waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Somebody has it.
    Nowhere,
    Inactive,
    Handle,
    Hold,
    Delayed,
    Bitmap,
}

const PLACES: usize = 6;

/// How far a resync is with a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sync {
    No,
    /// Its blocks are read.
    Reading,
    /// What was wrong is written.
    Writing,
}

/// A stripe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Its number: the offset on the members, in 4 KiB.
    pub(super) row: u64,
    pub(super) parity: u32,
    pub(super) second: Option<u32>,
    /// Who has it: submitters, plugs, requests, the thread that handles it.
    pub(super) count: u32,
    pub(super) place: Place,
    /// It is to be handled.
    pub(super) handle: bool,
    pub(super) delayed: bool,
    pub(super) preread: bool,
    pub(super) bit_delay: bool,
    pub(super) full_write: bool,
    pub(super) io_started: bool,
    pub(super) plugged: bool,
    /// Not handled since it began to be of use: may join a batch.
    pub(super) batch_ready: bool,
    /// The first stripe of its batch; itself where it is that.
    pub(super) batch: u32,
    /// The next stripe of the batch.
    pub(super) batch_next: u32,
    /// Data was drained and parity computed; to be written when it is handled next.
    pub(super) drained: bool,
    pub(super) sync: Sync,
    /// Somebody waits for what it writes; and wants it on the medium.
    pub(super) waited_for: bool,
    pub(super) fua: bool,
    /// How often it was handled since anything happened to it.
    pub(super) in_vain: u32,
    previous: u32,
    next: u32,
}

/// All stripes.
#[derive(Debug)]
pub(super) struct Stripes {
    pub(super) heads: Vec<Head>,
    blocks: Vec<Block>,
    members: usize,
    by_row: BTreeMap<u64, u32>,
    /// First and last of each list, and how long it is.
    lists: [(u32, u32, usize); PLACES],
    pub(super) shares: Slab<Share>,
    /// Those that somebody has, or that are to be handled.
    pub(super) active: usize,
}

const BLOCK: u32 = 4096;

impl Stripes {
    pub(super) fn new(members: u32, count: usize) -> Self {
        let lists = [(NONE, NONE, 0); PLACES];
        let mut all = Self {
            heads: Vec::new(),
            blocks: Vec::new(),
            members: members as usize,
            by_row: BTreeMap::new(),
            lists,
            shares: Slab::default(),
            active: 0,
        };
        (0..count).for_each(|_| all.grow());
        all
    }

    /// One more.
    pub(super) fn grow(&mut self) {
        let head = Head {
            row: u64::MAX,
            parity: 0,
            second: None,
            count: 0,
            place: Place::Nowhere,
            handle: false,
            delayed: false,
            preread: false,
            bit_delay: false,
            full_write: false,
            io_started: false,
            plugged: false,
            batch_ready: false,
            batch: NONE,
            batch_next: NONE,
            drained: false,
            sync: Sync::No,
            waited_for: false,
            fua: false,
            in_vain: 0,
            previous: NONE,
            next: NONE,
        };
        self.heads.push(head);
        self.blocks.resize(self.heads.len() * self.members, EMPTY);
        self.put(self.heads.len() as u32 - 1, Place::Inactive);
    }

    pub(super) fn head(&mut self, stripe: u32) -> &mut Head {
        &mut self.heads[stripe as usize]
    }

    pub(super) fn block(&mut self, stripe: u32, member: u32) -> &mut Block {
        &mut self.blocks[stripe as usize * self.members + member as usize]
    }

    pub(super) fn blocks(&self, stripe: u32) -> &[Block] {
        &self.blocks[stripe as usize * self.members..][..self.members]
    }

    pub(super) fn len_of(&self, place: Place) -> usize {
        self.lists[place as usize].2
    }

    pub(super) fn first_of(&self, place: Place) -> Option<u32> {
        Some(self.lists[place as usize].0).filter(|first| *first != NONE)
    }

    /// To the end of a list.
    pub(super) fn put(&mut self, stripe: u32, place: Place) {
        debug_assert_eq!(self.heads[stripe as usize].place, Place::Nowhere);
        let list = &mut self.lists[place as usize];
        let last = std::mem::replace(&mut list.1, stripe);
        list.2 += 1;
        if last == NONE {
            list.0 = stripe;
        } else {
            self.heads[last as usize].next = stripe;
        }
        let head = &mut self.heads[stripe as usize];
        (head.place, head.previous, head.next) = (place, last, NONE);
    }

    /// From whatever list it is on.
    pub(super) fn take(&mut self, stripe: u32) {
        let Head { place, previous, next, .. } = self.heads[stripe as usize];
        if place == Place::Nowhere {
            return;
        }
        let list = &mut self.lists[place as usize];
        list.2 -= 1;
        if previous == NONE {
            list.0 = next;
        } else {
            self.heads[previous as usize].next = next;
        }
        let list = &mut self.lists[place as usize];
        if next == NONE {
            list.1 = previous;
        } else {
            self.heads[next as usize].previous = previous;
        }
        self.heads[stripe as usize].place = Place::Nowhere;
    }

    /// The stripe of a row, where the cache has it, and one more who has it (`find_get_stripe`).
    pub(super) fn find(&mut self, row: u64) -> Option<u32> {
        let stripe = *self.by_row.get(&row)?;
        let head = &mut self.heads[stripe as usize];
        head.count += 1;
        if head.count == 1 {
            if !head.handle {
                self.active += 1;
            }
            self.take(stripe);
        }
        Some(stripe)
    }

    /// The least recently used inactive stripe becomes that of a row (`get_free_stripe`, `init_stripe`).
    pub(super) fn claim(&mut self, row: u64, parity: u32, second: Option<u32>) -> Option<u32> {
        let stripe = self.first_of(Place::Inactive)?;
        self.take(stripe);
        let before = self.heads[stripe as usize].row;
        self.by_row.remove(&before);
        self.by_row.insert(row, stripe);
        self.active += 1;
        let head = &mut self.heads[stripe as usize];
        (head.row, head.parity, head.second, head.count) = (row, parity, second, 1);
        head.batch_ready = true;
        for member in 0..self.members as u32 {
            let block = self.block(stripe, member);
            debug_assert!(!block.locked && block.to_write == NONE && block.written == NONE);
            *block = EMPTY;
        }
        Some(stripe)
    }

    /// A part of a read.
    pub(super) fn add_read(&mut self, stripe: u32, member: u32, bio: BioId) {
        let next = self.block(stripe, member).to_read;
        self.block(stripe, member).to_read = self.shares.put(Share { bio, from: 0, to: BLOCK, next });
    }

    /// A part of a write; by place, so that it shows whether all is covered (`add_stripe_bio`).
    pub(super) fn add_write(&mut self, stripe: u32, member: u32, bio: BioId, from: u32, to: u32) {
        let mut before = NONE;
        let mut next = self.block(stripe, member).to_write;
        while next != NONE && self.shares[next].from <= from {
            (before, next) = (next, self.shares[next].next);
        }
        let share = self.shares.put(Share { bio, from, to, next });
        if before == NONE {
            self.block(stripe, member).to_write = share;
        } else {
            self.shares[before].next = share;
        }
        let (mut covered, mut at) = (0, self.block(stripe, member).to_write);
        while at != NONE && self.shares[at].from <= covered {
            covered = covered.max(self.shares[at].to);
            at = self.shares[at].next;
        }
        self.block(stripe, member).overwritten = covered >= BLOCK;
    }

    /// The members with data of a stripe.
    fn is_data(&self, stripe: u32, member: u32) -> bool {
        let head = &self.heads[stripe as usize];
        member != head.parity && Some(member) != head.second
    }

    /// Whether all its data is to be overwritten.
    pub(super) fn is_full_write(&self, stripe: u32) -> bool {
        let blocks = self.blocks(stripe);
        (0..self.members as u32).all(|m| {
            !self.is_data(stripe, m)
                || (blocks[m as usize].overwritten && blocks[m as usize].to_write != NONE)
        })
    }

    pub(super) fn can_batch(&self, stripe: u32) -> bool {
        self.heads[stripe as usize].batch_ready && self.is_full_write(stripe)
    }

    /// The stripe of a row, without taking it.
    pub(super) fn peek(&self, row: u64) -> Option<u32> {
        self.by_row.get(&row).copied()
    }
}
