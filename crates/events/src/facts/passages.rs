//! The way of bios through devices that stand on others (md, dm): what each became below, and where its time
//! went.
//!
//! A layer that passes a bio on names the device and the sector of its own that it is for
//! (block_bio_remap). The bio below is linked to the one bio above that holds this sector and is on its way,
//! and to none where several do. Only reads and writes with data are followed. What the kernel does, and what
//! cannot be seen for it:
//!
//! - block_bio_queue fires once for each bio (`block/blk-core.c`, `submit_bio_noacct_nocheck`): a bio that a
//!   layer passes on itself and not as a clone (NVMe multipath; md RAID0 of kernels without `md_account_bio`)
//!   is not queued again, and ends as the request does that it became a part of.
//! - A bio that is split ends with its last part, whose end is its own (`block/bio.c`, `bio_chain`;
//!   `drivers/md/dm.c`, `dm_split_and_process_bio`).
//! - Of parity, md names sector 0 (`drivers/md/raid5.c`, `raid5_compute_blocknr`), and of a block that it
//!   reads to compute parity the sector of that block: neither is linked. Nothing is linked to sector 0.
//! - dm-crypt names no sector in kernels without `dm_submit_bio_remap` (`drivers/md/dm.c`): nothing
//!   that is seen is passed on there. Nor is what md writes for itself: superblocks, bitmaps, a resync.
//! - A write that asks for a flush behind it ends below with its data.

use crate::bios::{Bio, CallId, Id, OnTheirWay};
use crate::event::Span;
use crate::file::Tables;
use domain::Nanos;
use domain::passage::{Bios, Given, Passage, Passed};
use domain::request::Op;
use std::collections::{BTreeMap, BTreeSet};

/// Most devices, and pairs of them, that a hostile file can make.
const MAX_DEVICES: usize = 4096;

/// Most bios that are followed at once: some 30 MB. Where more are on their way, nothing is known of them.
const MAX_ON_THEIR_WAY: usize = 1 << 17;

/// The way of all bios of a recording.
#[derive(Debug)]
pub struct Passages<'t> {
    tables: &'t Tables,
    /// Whether what it takes to follow any is recorded.
    is_followed: bool,
    given: BTreeMap<(u32, Op), Given>,
    /// From a device to one below.
    passed: BTreeMap<(u32, u32, Op), Passed>,
    /// Pairs of which bios below were seen to be queued: they are clones.
    cloned: BTreeSet<(u32, u32)>,
    bios: OnTheirWay,
    /// Of bios that system calls queued and that are on their way no more: the call, and whether it is not
    /// known when they ended. Who asks takes them away.
    pub ended: Vec<(CallId, bool)>,
}

impl<'t> Passages<'t> {
    pub fn new(tables: &'t Tables) -> Self {
        let has = |name: &str| tables.tracepoints.values().any(|point| point.name == name);
        Self {
            tables,
            is_followed: has("block/block_bio_queue") && has("block/block_bio_remap"),
            given: BTreeMap::new(),
            passed: BTreeMap::new(),
            cloned: BTreeSet::new(),
            bios: OnTheirWay::default(),
            ended: Vec::new(),
        }
    }

    /// Whether it is known which bios layers pass on, and when bios end.
    pub fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// A bio is given to a device, by a system call or not; whether it reads or writes and no layer passed it
    /// on.
    pub fn queued(&mut self, now: u64, span: &Span, op: Op, call: Option<CallId>) -> bool {
        let (disk, op) = (self.tables.disk_of(span.device), kind(span, op));
        if let Some(given) = self.given(disk, op) {
            given.bios.add(Bios::one(span.sectors.into()));
        }
        if !self.follows(op) {
            return false;
        }
        let mut known = self.bios.at(disk, span.sector, op);
        let is_announced = |id: &Id| self.bios.get(*id).is_some_and(|bio| !bio.is_queued);
        let announced = known.iter().position(is_announced).map(|at| known.remove(at));
        // Their end was not seen, or they are on their way to the same place: nobody knows which ends first.
        let is_doubtful = !known.is_empty();
        known.into_iter().for_each(|id| self.give_up(id));
        match announced {
            Some(id) => self.begins(id, now, span, is_doubtful),
            None => drop(self.insert(Bio { is_queued: true, is_doubtful, call, ..bio(disk, span, op, now) })),
        }
        announced.is_none()
    }

    /// One that was announced is queued.
    fn begins(&mut self, id: Id, now: u64, span: &Span, is_doubtful: bool) {
        let Some(bio) = self.bios.get_mut(id) else { return };
        bio.is_queued = true;
        bio.begin = now;
        let is_other = bio.sectors != span.sectors;
        let (device, above, parent) = (bio.device, bio.above, bio.parent);
        if let Some(above) = above {
            self.cloned.insert((above, device));
        }
        if let Some(parent) = parent.and_then(|parent| self.bios.get_mut(parent)) {
            parent.below.begins(now);
        }
        if is_other {
            self.bios.move_to(id, device, span.sector, span.sectors);
        }
        if is_doubtful || is_other {
            self.doubt(id);
        }
    }

    /// A layer passes on a bio that is for a sector of its own.
    pub fn remapped(&mut self, now: u64, span: &Span, from: u32, sector: u64, op: Op) {
        let (above, below, op) =
            (self.tables.disk_of(from), self.tables.disk_of(span.device), kind(span, op));
        if above == below {
            return self.within_disk(below, span, from, sector, op);
        }
        let pair = (above, below, op);
        if self.passed.len() >= MAX_DEVICES && !self.passed.contains_key(&pair) {
            return;
        }
        let bios = Bios::one(span.sectors.into());
        self.passed.entry(pair).or_default().bios.add(bios);
        if !self.follows(op) {
            return;
        }
        // Two that wait for their queueing at one place: nobody knows whose is queued first.
        let others = self.bios.at(span.device, span.sector, op);
        let others: Vec<Id> = others.into_iter().filter(|id| !self.is_queued(*id)).collect();
        let is_doubtful = !others.is_empty();
        others.into_iter().for_each(|id| self.give_up(id));
        let parent = self.parent(above, sector, span.sectors, op);
        if let Some(parent) = parent.and_then(|id| self.bios.get_mut(id)) {
            let covered = if parent.op == op { parent.overlap(sector, span.sectors) } else { 0 };
            parent.below.announce(bios, covered.into());
            parent.is_doubtful |= is_doubtful;
        }
        let bio = bio(span.device, span, op, now);
        self.insert(Bio { is_doubtful, above: Some(above), parent, ..bio });
    }

    /// The begin of a partition is added to what was announced for it.
    fn within_disk(&mut self, disk: u32, span: &Span, from: u32, sector: u64, op: Op) {
        let announced = self.bios.at(from, sector, op).into_iter().find(|id| !self.is_queued(*id));
        if let Some(id) = announced {
            self.bios.move_to(id, disk, span.sector, span.sectors);
        }
    }

    /// The one bio of a device that such a bio below can be of.
    fn parent(&mut self, device: u32, sector: u64, sectors: u32, op: Op) -> Option<Id> {
        if sector == 0 {
            return None;
        }
        let mut all = self.bios.holding(device, sector, sectors, op);
        if op == Op::Read {
            // To write a part of a stripe, md reads what is there.
            all.extend(self.bios.holding(device, sector, sectors, Op::Write));
        }
        if let [one] = all[..] {
            return Some(one);
        }
        for id in all {
            if let Some(bio) = self.bios.get_mut(id) {
                bio.is_doubtful = true;
            }
        }
        None
    }

    /// A request is given to the driver: it is for what any layer passed on that it holds.
    pub fn issued(&mut self, span: &Span, op: Op) {
        let (disk, op) = (self.tables.disk_of(span.device), kind(span, op));
        if !self.follows(op) {
            return;
        }
        let held = self.there(disk, span, op).into_iter().filter_map(|id| self.bios.get(id)?.above);
        for above in held.collect::<BTreeSet<u32>>() {
            if let Some(passed) = self.passed.get_mut(&(above, disk, op)) {
                passed.requests += 1;
            }
        }
    }

    /// The driver has done a request, or a part of it.
    pub fn completed(&mut self, now: u64, span: &Span, op: Op) {
        let (disk, op) = (self.tables.disk_of(span.device), kind(span, op));
        if !self.follows(op) {
            return;
        }
        let done = |bio: &Bio| bio.overlap(span.sector, span.sectors);
        let all = self.there(disk, span, op);
        let held = all.iter().filter_map(|id| self.bios.get(*id)).map(|bio| u64::from(done(bio)));
        let is_doubtful = held.sum::<u64>() > span.sectors.into();
        for id in all {
            if is_doubtful {
                self.doubt(id);
            }
            let Some(bio) = self.bios.get_mut(id) else { continue };
            bio.left = bio.left.saturating_sub(done(bio));
            if bio.left == 0 {
                self.ends(id, now);
            }
        }
    }

    /// A bio of a layer without requests has ended, or a part of it.
    pub fn bio_completed(&mut self, now: u64, span: &Span, op: Op) {
        let disk = self.tables.disk_of(span.device);
        let end = span.sector.saturating_add(span.sectors.into());
        let is_last = |bio: &Bio| bio.sector <= span.sector && bio.end() == end;
        let all = self.there(disk, span, op).into_iter();
        let all: Vec<Id> = all.filter(|id| self.bios.get(*id).is_some_and(is_last)).collect();
        if all.len() > 1 {
            all.iter().for_each(|id| self.doubt(*id));
        }
        if let Some(oldest) = all.into_iter().min() {
            self.ends(oldest, now);
        }
    }

    /// What holds any of these sectors and has been given to the device: a clone only where its queueing was
    /// seen.
    fn there(&self, disk: u32, span: &Span, op: Op) -> Vec<Id> {
        let is_clone = |bio: &Bio| bio.above.is_some_and(|above| self.cloned.contains(&(above, bio.device)));
        let is_there = |bio: &Bio| bio.is_queued || !is_clone(bio);
        let all = self.bios.holding(disk, span.sector, span.sectors, op).into_iter();
        all.filter(|id| self.bios.get(*id).is_some_and(is_there)).collect()
    }

    /// What is on its way may have ended in what was lost.
    pub fn lost(&mut self) {
        self.bios.forget();
    }

    /// What each device that stands on others made of what it was given.
    pub fn finish(self) -> BTreeMap<String, Passage> {
        let named = |device| self.tables.device_name(device);
        let mut all: BTreeMap<u32, Passage> = BTreeMap::new();
        for ((above, below, op), passed) in self.passed {
            let of_it = &mut all.entry(above).or_default().passed;
            of_it.entry((named(below), op)).or_default().add(passed);
        }
        for ((device, op), given) in self.given {
            if let Some(passage) = all.get_mut(&device) {
                passage.given.insert(op, given);
            }
        }
        all.into_iter().map(|(device, passage)| (named(device), passage)).collect()
    }

    fn follows(&self, op: Op) -> bool {
        self.is_followed && matches!(op, Op::Read | Op::Write)
    }

    fn is_queued(&self, id: Id) -> bool {
        self.bios.get(id).is_some_and(|bio| bio.is_queued)
    }

    fn given(&mut self, disk: u32, op: Op) -> Option<&mut Given> {
        let has_room = self.given.len() < MAX_DEVICES || self.given.contains_key(&(disk, op));
        has_room.then(|| self.given.entry((disk, op)).or_default())
    }

    fn insert(&mut self, bio: Bio) -> Id {
        if self.bios.len() >= MAX_ON_THEIR_WAY {
            self.ended.extend(self.bios.calls().map(|call| (call, true)));
            self.bios.forget();
        }
        self.bios.insert(bio)
    }

    /// What was seen of a bio may be another's: so may be when it ended for the one above.
    fn doubt(&mut self, id: Id) {
        let Some(bio) = self.bios.get_mut(id) else { return };
        bio.is_doubtful = true;
        if let Some(parent) = bio.parent.and_then(|parent| self.bios.get_mut(parent)) {
            parent.is_doubtful = true;
        }
    }

    fn give_up(&mut self, id: Id) {
        self.doubt(id);
        let call = self.bios.remove(id).and_then(|bio| bio.call);
        self.ended.extend(call.map(|call| (call, true)));
    }

    /// A bio has ended, and with it the one above that it is itself.
    fn ends(&mut self, id: Id, now: u64) {
        let mut ended = Some(id);
        while let Some(bio) = ended.take().and_then(|id| self.bios.remove(id)) {
            self.count(&bio, now);
            self.ended.extend(bio.call.map(|call| (call, bio.is_doubtful)));
            let Some((id, parent)) = bio.parent.and_then(|id| Some((id, self.bios.get_mut(id)?))) else {
                return;
            };
            parent.is_doubtful |= bio.is_doubtful;
            if bio.is_queued {
                return parent.below.ends(now);
            }
            parent.below.was(bio.begin, now);
            parent.left = parent.left.saturating_sub(bio.sectors);
            ended = (parent.left == 0).then_some(id);
        }
    }

    fn count(&mut self, bio: &Bio, now: u64) {
        let times = bio.times(now);
        let Some(given) = self.given(bio.device, bio.op) else { return };
        if !bio.is_queued {
            given.bios.add(Bios::one(bio.sectors.into()));
        }
        let Some([before, below, between, after]) = times.map(|times| times.map(Nanos::new)) else { return };
        let (bios, followed, made) = (Bios::default(), 1, bio.below.made);
        given.add(&Given { bios, followed, made, before, below, between, after });
    }
}

/// A bio without sectors is a flush, whatever it is called (kernel `block/blk-flush.c`).
fn kind(span: &Span, op: Op) -> Op {
    if span.sectors == 0 { Op::Flush } else { op }
}

/// One that begins now, of which nothing else is known.
fn bio(device: u32, span: &Span, op: Op, now: u64) -> Bio {
    let Span { sector, sectors, .. } = *span;
    Bio {
        device,
        sector,
        sectors,
        op,
        begin: now,
        is_queued: false,
        is_doubtful: false,
        above: None,
        parent: None,
        call: None,
        left: sectors,
        below: Default::default(),
    }
}
