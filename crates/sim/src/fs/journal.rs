//! A filesystem's journal: transactions, their commit, and the return of their blocks to their places
//! (checkpoint).
//!
//! Follows jbd2 (`fs/jbd2/{transaction,commit,checkpoint,journal}.c`, 6.1 and 6.12): changes go into the
//! running transaction; it is committed by a thread of its own, after 5 s, when somebody waits for it
//! (fsync), or when it is a quarter of the log large. A commit writes data that must be there before
//! (`data=ordered`), meanwhile descriptor blocks and a copy of each changed block in order of the log, waits
//! for both, and then writes the commit record behind a flush and with FUA. The blocks are then dirty in
//! their places; where the log has no room for a quarter of itself, whoever wants to begin a change writes
//! those of the oldest transactions there, flushes, and moves the log's beginning on in its superblock.
//!
//! **xfs's log** goes through the same machine with another format ([`Format::Compact`]): instead of whole
//! blocks it writes the changed bytes, in buffers of 32 KiB, the last one of which is the commit record. That
//! is an approximation, as are its period and its checkpoint.
//!
//! Left out: the order in which a handle waits for a locked transaction, copies of blocks that change while
//! they are written, revoke records, checksums but for their cost, `journal_async_commit`, fast commits (off
//! by default), aborts.

use super::home::Home;
use super::layout::BLOCK;
use crate::cpu::{Cost, ThreadId};
use crate::engine::{Bio, Core, PartId};
use disks::Op;
use event_queue::Time;
use std::collections::{BTreeMap, BTreeSet};

/// What a transaction's record is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// jbd2: whole blocks, and a descriptor before each so many of them; one more block is the commit record.
    Blocks {
        /// Entries that fit into a descriptor.
        per_descriptor: u64,
    },
    /// xfs: for each changed block so many bytes, written in units.
    Compact {
        /// Bytes of a changed block.
        bytes: u64,
    },
}

impl Format {
    /// ext4's: entries of 16 bytes (`csum_v3`, `64bit`), an identification and a checksum.
    pub const EXT4: Self = Self::Blocks { per_descriptor: (BLOCK - 12 - 16 - 4) / 16 };
    /// ext3's: entries of 8 bytes.
    pub const EXT3: Self = Self::Blocks { per_descriptor: (BLOCK - 12 - 16) / 8 };
    /// xfs's: about what an inode's core or an entry of a tree and its headers take. Assumed.
    pub const XFS: Self = Self::Compact { bytes: 256 };
}

/// Bytes of one of xfs's log buffers (`logbsize`).
const LOG_BUFFER: u64 = 32 << 10;
/// What it keeps free, in blocks (`jbd2_log_space_left`).
const KEPT_FREE: u64 = 32;
/// Blocks that a checkpoint submits under one plug (`JBD2_NR_BATCH`).
const BATCH: usize = 64;

/// What journalling costs CPUs. All assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalCosts {
    /// To begin and end a change, for whoever makes it.
    pub handle: Cost,
    /// To begin a commit, for the journal's thread.
    pub commit: Cost,
    /// To checksum a block, enter it into a descriptor and submit it, for the journal's thread.
    pub block: Cost,
    /// To make and submit the commit record, and again to file what was committed, for the journal's thread.
    pub record: Cost,
    /// To submit a block to its place, for whoever does it.
    pub checkpoint: Cost,
}

impl Default for JournalCosts {
    fn default() -> Self {
        Self {
            handle: Cost::cycles(1_500),
            commit: Cost::cycles(20_000),
            block: Cost::cycles(4_000),
            record: Cost::cycles(8_000),
            checkpoint: Cost::cycles(1_500),
        }
    }
}

/// A journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalSpec {
    pub(crate) format: Format,
    /// Where it lies, and where there: bytes.
    pub(crate) device: PartId,
    pub(crate) start: u64,
    /// Blocks, its superblock not counted.
    pub(crate) blocks: u64,
    /// Where the file lies.
    pub(crate) data_device: PartId,
    /// After how long a transaction is committed that nobody waits for.
    pub(crate) commit_ns: Time,
    /// Whether it flushes, and writes the record with FUA (`barrier=1`).
    pub(crate) barrier: bool,
    pub(crate) costs: JournalCosts,
}

/// Set in the number of a page of the file that is journalled with its data; other numbers are blocks of the
/// device.
pub(crate) const DATA: u64 = 1 << 63;

/// Number of a transaction; 0 for one before the first.
pub(crate) type Tid = u64;

#[derive(Default)]
struct Transaction {
    tid: Tid,
    blocks: BTreeSet<u64>,
    requested: bool,
    /// Pages that were allocated within it and are to be written before it is committed: from, to.
    fresh: Option<(u64, u64)>,
}

/// Blocks of a committed transaction that are not in their places.
struct Checkpoint {
    /// What it takes of the log.
    log: u64,
    blocks: BTreeSet<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Log blocks, and data before them, are on their way.
    Writing,
    FlushesData,
    Flushes,
    Records,
    /// The log's beginning moves on.
    Tail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clearing {
    No,
    /// Blocks of the oldest transaction are on their way to their places.
    Writes,
    /// A commit has to come first.
    WaitsForCommit,
    Flushes,
    Tail,
}

/// What a journal tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// A transaction is safe; pages that it held.
    Committed { data: Vec<u64> },
    /// The running transaction is another, or the log has room: who waited for room may look again.
    Room,
    /// These pages are to be written before the commit goes on; then [`Journal::data_is_written`].
    WriteData(u64, u64),
    /// These pages are to be written to their places.
    WritePages(Vec<u64>),
}

/// What a thread is done with, or what a request was.
const COMMIT: u64 = 0;
const LOG: u64 = 1;
const RECORD: u64 = 2;
const END: u64 = 3;
const TAIL: u64 = 4;
const CLEARING: u64 = 5;
const DATA_FLUSH: u64 = 6;
const FLUSH: u64 = 7;

/// The journal.
pub(crate) struct Journal {
    me: PartId,
    /// Set in tokens and tags, so that the part knows whose they are.
    mine: u64,
    spec: JournalSpec,
    thread: ThreadId,
    running: Option<Transaction>,
    committing: Option<Transaction>,
    checkpoints: BTreeMap<Tid, Checkpoint>,
    /// To which committed transaction a block belongs.
    owners: BTreeMap<u64, Tid>,
    last: Tid,
    committed: Tid,
    head: u64,
    free: u64,
    phase: Phase,
    pending: u64,
    waits_for_data: bool,
    /// Blocks of log that the present commit has written.
    log: u64,
    clearing: Clearing,
    /// What the checkpoint waits for.
    awaited: BTreeSet<u64>,
    happened: Vec<Happened>,
    bytes: u64,
    commits: u64,
}

impl Journal {
    /// An empty one, with its thread. `mine`: set in all tokens and tags.
    pub(crate) fn new(me: PartId, mine: u64, spec: JournalSpec, thread: ThreadId) -> Self {
        assert!(spec.blocks >= 1024, "a journal of {} blocks: jbd2 wants 1024 at least", spec.blocks);
        Self {
            me,
            mine,
            spec,
            thread,
            running: None,
            committing: None,
            checkpoints: BTreeMap::new(),
            owners: BTreeMap::new(),
            last: 0,
            committed: 0,
            head: 0,
            free: spec.blocks,
            phase: Phase::Idle,
            pending: 0,
            waits_for_data: false,
            log: 0,
            clearing: Clearing::No,
            awaited: BTreeSet::new(),
            happened: Vec::new(),
            bytes: 0,
            commits: 0,
        }
    }

    /// Bytes that it has written.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Transactions that it has committed.
    pub(crate) fn commits(&self) -> u64 {
        self.commits
    }

    /// The last transaction that is safe.
    pub(crate) fn committed(&self) -> Tid {
        self.committed
    }

    /// What has happened since this was last asked.
    pub(crate) fn take_happened(&mut self) -> Vec<Happened> {
        std::mem::take(&mut self.happened)
    }

    /// Whether a block is in a transaction that is not committed: it may not be written to its place.
    pub(crate) fn holds(&self, block: u64) -> bool {
        let within = |t: &Option<Transaction>| t.as_ref().is_some_and(|t| t.blocks.contains(&block));
        within(&self.running) || within(&self.committing)
    }

    /// The newest transaction that is not committed.
    pub(crate) fn newest(&self) -> Option<Tid> {
        self.running.as_ref().or(self.committing.as_ref()).map(|t| t.tid)
    }

    /// The largest transaction (`j_max_transaction_buffers`).
    fn most(&self) -> u64 {
        self.spec.blocks / 4
    }

    /// What the largest transaction takes of the log.
    fn wanted_free(&self) -> u64 {
        self.most() + self.most() / 128 + KEPT_FREE
    }

    /// Whether so many blocks may be changed now. If not, what it takes is begun, and [`Happened::Room`] will
    /// tell.
    pub(crate) fn has_room(&mut self, core: &mut Core, home: &mut Home, blocks: u64) -> bool {
        assert!(
            blocks <= self.most(),
            "{blocks} blocks in one change, and a transaction has {}",
            self.most()
        );
        // What is being committed counts as free until it is filed.
        let in_commit = self.committing.as_ref().map_or(0, |t| self.log.max(t.blocks.len() as u64));
        if self.free < self.wanted_free() + in_commit {
            self.clear(core, home);
            return false;
        }
        if let Some(running) = &self.running
            && running.blocks.len() as u64 + blocks > self.most()
        {
            let tid = running.tid;
            self.request(core, tid);
            return false;
        }
        true
    }

    /// A block is changed, or a page with its data ([`DATA`]). There must be room; costs whoever changes.
    pub(crate) fn change(&mut self, core: &mut Core, block: u64) -> Tid {
        let running = self.run(core);
        running.blocks.insert(block);
        running.tid
    }

    /// Pages were allocated that are to be written before the running transaction is committed.
    pub(crate) fn write_before_commit(&mut self, core: &mut Core, from: u64, to: u64) {
        let running = self.run(core);
        let (first, end) = running.fresh.unwrap_or((from, to));
        running.fresh = Some((first.min(from), end.max(to)));
    }

    fn run(&mut self, core: &mut Core) -> &mut Transaction {
        if self.running.is_none() {
            self.last += 1;
            core.at(core.now + self.spec.commit_ns, self.me, self.mine | self.last);
        }
        self.running.get_or_insert_with(|| Transaction { tid: self.last, ..Transaction::default() })
    }

    /// Has a transaction committed soon, where it is not by now.
    pub(crate) fn request(&mut self, core: &mut Core, tid: Tid) {
        let Some(running) = self.running.as_mut().filter(|t| t.tid <= tid && !t.requested) else { return };
        running.requested = true;
        if self.phase == Phase::Idle {
            core.run(self.thread, self.spec.costs.commit, self.me, self.mine | COMMIT);
        }
    }

    /// A transaction is old enough.
    pub(crate) fn timer(&mut self, core: &mut Core, token: u64) {
        let tid = token & !self.mine;
        if self.running.as_ref().is_some_and(|t| t.tid == tid) {
            self.request(core, tid);
        }
    }

    fn begin(&mut self, core: &mut Core) {
        if self.phase != Phase::Idle || !self.running.as_ref().is_some_and(|t| t.requested) {
            return;
        }
        let transaction = self.running.take().expect("it was just looked at");
        core.cpus.waits_for_disk(self.thread, true);
        self.phase = Phase::Writing;
        self.log = 0;
        // One for the log itself, until it is submitted.
        self.pending = 1;
        if let Some((from, to)) = transaction.fresh {
            self.waits_for_data = true;
            self.happened.push(Happened::WriteData(from, to));
        }
        let cost = self.spec.costs.block.times(transaction.blocks.len() as u64);
        self.committing = Some(transaction);
        self.happened.push(Happened::Room);
        core.run_here(cost, self.me, self.mine | LOG);
    }

    /// How many blocks, or with xfs buffers, a transaction's record is before its last one; and the bytes of
    /// that.
    fn record(&self) -> (u64, u64) {
        let changed = self.committing.as_ref().map_or(0, |t| t.blocks.len() as u64);
        match self.spec.format {
            Format::Blocks { per_descriptor } => (changed + changed.div_ceil(per_descriptor), BLOCK),
            Format::Compact { bytes } => {
                let all = (512 + changed * bytes).next_multiple_of(BLOCK);
                let last = all % LOG_BUFFER;
                let whole = all / LOG_BUFFER;
                if last == 0 { (whole - 1, LOG_BUFFER) } else { (whole, last) }
            }
        }
    }

    fn write_log(&mut self, core: &mut Core) {
        let (count, _) = self.record();
        let len = if matches!(self.spec.format, Format::Blocks { .. }) { BLOCK } else { LOG_BUFFER };
        for _ in 0..count {
            self.write_next(core, len, false, LOG);
        }
        self.pending = self.pending + count - 1;
        self.go_on(core);
    }

    /// The next part of the log; at its end it goes on at its beginning.
    fn write_next(&mut self, core: &mut Core, len: u64, fua: bool, tag: u64) {
        let blocks = len / BLOCK;
        if self.head + blocks > self.spec.blocks {
            self.log += self.spec.blocks - self.head;
            self.head = 0;
        }
        // The superblock is the first block.
        let offset = self.spec.start + (1 + self.head) * BLOCK;
        self.head = (self.head + blocks) % self.spec.blocks;
        self.log += blocks;
        self.bytes += len;
        let bio = Bio::new(self.me, self.spec.device, Op::Write, offset, len, self.mine | tag);
        core.submit(Bio { fua, ..bio });
    }

    /// The data that had to be written before is.
    pub(crate) fn data_is_written(&mut self, core: &mut Core) {
        if std::mem::take(&mut self.waits_for_data) {
            self.go_on(core);
        }
    }

    /// Once everything before the record is there, the thread makes it.
    fn go_on(&mut self, core: &mut Core) {
        let over = self.phase == Phase::Writing && self.pending == 0 && !self.waits_for_data;
        if over {
            self.phase = Phase::FlushesData;
            core.run(self.thread, self.spec.costs.record, self.me, self.mine | RECORD);
        }
    }

    fn flush(&mut self, core: &mut Core, device: PartId, tag: u64) {
        core.submit(Bio::new(self.me, device, Op::Flush, 0, 0, self.mine | tag));
    }

    fn submit_record(&mut self, core: &mut Core) {
        let elsewhere = self.spec.device != self.spec.data_device;
        let has_data = self.committing.as_ref().is_some_and(|t| t.fresh.is_some());
        if self.spec.barrier && elsewhere && has_data {
            self.flush(core, self.spec.data_device, DATA_FLUSH);
        } else {
            self.flush_log(core);
        }
    }

    fn flush_log(&mut self, core: &mut Core) {
        self.phase = Phase::Flushes;
        match self.spec.barrier {
            true => self.flush(core, self.spec.device, FLUSH),
            false => self.write_record(core),
        }
    }

    fn write_record(&mut self, core: &mut Core) {
        self.phase = Phase::Records;
        let (_, len) = self.record();
        self.write_next(core, len, self.spec.barrier, RECORD);
    }

    /// A request is done.
    pub(crate) fn done(&mut self, core: &mut Core, home: &mut Home, bio: &Bio) {
        match bio.tag & !self.mine {
            LOG => {
                self.pending -= 1;
                self.go_on(core);
            }
            DATA_FLUSH => self.flush_log(core),
            FLUSH => self.write_record(core),
            RECORD => core.run(self.thread, self.spec.costs.record, self.me, self.mine | END),
            TAIL if self.clearing == Clearing::Tail => self.cleared(core, home),
            TAIL => {
                self.drop_clear_ones();
                self.end(core, home);
            }
            CLEARING => {
                self.clearing = Clearing::Tail;
                self.write_tail(core);
            }
            other => unreachable!("a journal has no request {other}"),
        }
    }

    /// The thread is done with a step.
    pub(crate) fn worked(&mut self, core: &mut Core, home: &mut Home, token: u64) {
        let step = token & !self.mine;
        if matches!(step, LOG | RECORD) {
            // For blocks and for the record it waits as for any buffer (`wait_on_buffer`, `io_schedule`).
            core.cpus.waits_for_disk(self.thread, true);
        }
        match step {
            COMMIT => self.begin(core),
            LOG => self.write_log(core),
            RECORD => self.submit_record(core),
            END => self.file(core, home),
            other => unreachable!("a journal has no work {other}"),
        }
    }

    /// What was committed is now to go to its places.
    fn file(&mut self, core: &mut Core, home: &mut Home) {
        let transaction = self.committing.take().expect("a commit that ends has a transaction");
        self.committed = transaction.tid;
        self.commits += 1;
        for block in &transaction.blocks {
            if let Some(before) = self.owners.insert(*block, transaction.tid) {
                self.disown(*block, before);
            }
            if block & DATA == 0 {
                home.dirty(core.now, *block, false);
            }
        }
        assert!(self.log <= self.free, "{} blocks of log, and {} are free", self.log, self.free);
        self.free -= self.log;
        let data = transaction.blocks.iter().filter(|b| **b & DATA != 0).map(|b| b & !DATA);
        let data: Vec<u64> = data.filter(|page| !self.holds(page | DATA)).collect();
        self.checkpoints.insert(transaction.tid, Checkpoint { log: self.log, blocks: transaction.blocks });
        self.log = 0;
        self.happened.push(Happened::Committed { data });
        // The log's beginning moves on with a commit only where that frees much.
        if self.clearing == Clearing::No && self.clear_ones() >= self.most() {
            self.phase = Phase::Tail;
            self.write_tail(core);
            return;
        }
        self.end(core, home);
    }

    fn end(&mut self, core: &mut Core, home: &mut Home) {
        self.phase = Phase::Idle;
        core.cpus.waits_for_disk(self.thread, false);
        self.happened.push(Happened::Room);
        if self.running.as_ref().is_some_and(|t| t.requested) {
            core.run(self.thread, self.spec.costs.commit, self.me, self.mine | COMMIT);
        }
        if self.clearing == Clearing::WaitsForCommit {
            self.clearing = Clearing::No;
            self.clear(core, home);
        }
        self.clear_on(core, home);
    }

    fn disown(&mut self, block: u64, tid: Tid) {
        if let Some(checkpoint) = self.checkpoints.get_mut(&tid) {
            checkpoint.blocks.remove(&block);
        }
        self.awaited.remove(&block);
    }

    /// A block, or a page, is in its place as it was last committed.
    pub(crate) fn is_home(&mut self, core: &mut Core, home: &mut Home, block: u64) {
        if let Some(tid) = self.owners.remove(&block) {
            self.disown(block, tid);
        }
        self.clear_on(core, home);
    }

    /// Once the blocks that a checkpoint waits for are in their places, it goes on.
    fn clear_on(&mut self, core: &mut Core, home: &mut Home) {
        if self.clearing == Clearing::Writes && self.awaited.is_empty() {
            self.clearing = Clearing::No;
            self.clear(core, home);
        }
    }

    /// How much of the log the oldest transactions take that have nothing left to go home.
    fn clear_ones(&self) -> u64 {
        self.checkpoints.values().take_while(|c| c.blocks.is_empty()).map(|c| c.log).sum()
    }

    fn drop_clear_ones(&mut self) {
        while let Some((tid, checkpoint)) = self.checkpoints.first_key_value() {
            if !checkpoint.blocks.is_empty() {
                return;
            }
            let (tid, log) = (*tid, checkpoint.log);
            self.free += log;
            self.checkpoints.remove(&tid);
        }
    }

    /// Makes room in the log (`__jbd2_log_wait_for_space`, `jbd2_log_do_checkpoint`).
    fn clear(&mut self, core: &mut Core, home: &mut Home) {
        if self.clearing != Clearing::No || self.phase == Phase::Tail {
            return;
        }
        if self.clear_ones() > 0 {
            if self.spec.barrier {
                self.clearing = Clearing::Flushes;
                self.flush(core, self.spec.data_device, CLEARING);
            } else {
                self.clearing = Clearing::Tail;
                self.write_tail(core);
            }
            return;
        }
        let Some((_, oldest)) = self.checkpoints.first_key_value() else {
            self.clearing = Clearing::WaitsForCommit;
            if let Some(tid) = self.newest() {
                self.request(core, tid);
            }
            return;
        };
        let (held, ready): (Vec<u64>, Vec<u64>) = oldest.blocks.iter().partition(|b| self.holds(**b));
        if ready.is_empty() {
            self.clearing = Clearing::WaitsForCommit;
            let in_commit =
                self.committing.as_ref().is_some_and(|t| held.iter().any(|b| t.blocks.contains(b)));
            if let Some(running) = self.running.as_ref().filter(|_| !in_commit) {
                self.request(core, running.tid);
            }
            return;
        }
        self.clearing = Clearing::Writes;
        self.awaited = ready.iter().copied().collect();
        let (pages, blocks): (Vec<u64>, Vec<u64>) = ready.iter().partition(|b| **b & DATA != 0);
        if !pages.is_empty() {
            self.happened.push(Happened::WritePages(pages.iter().map(|p| p & !DATA).collect()));
        }
        core.charge(self.spec.costs.checkpoint.times(blocks.len() as u64));
        for batch in blocks.chunks(BATCH) {
            home.write(core, batch.iter().copied(), true);
        }
    }

    fn write_tail(&mut self, core: &mut Core) {
        self.bytes += BLOCK;
        let bio = Bio::new(self.me, self.spec.device, Op::Write, self.spec.start, BLOCK, self.mine | TAIL);
        core.submit(Bio { fua: self.spec.barrier, ..bio });
    }

    /// The log's beginning has moved on.
    fn cleared(&mut self, core: &mut Core, home: &mut Home) {
        self.clearing = Clearing::No;
        self.drop_clear_ones();
        if self.free < self.wanted_free() {
            self.clear(core, home);
        }
        self.happened.push(Happened::Room);
    }
}
