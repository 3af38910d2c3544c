//! RAID1 and RAID10: a write goes to all copies, a read to one.
//!
//! Follows `drivers/md/raid1.c`, `raid10.c`, `raid1-10.c` (6.1, 6.12):
//!
//! - **Which copy is read** ([`Mirror::choose_of_raid1`], [`Mirror::choose_of_raid10`]): RAID1 stays on a
//!   disk while reads are sequential. Otherwise, where any disk is no hard disk, or one has nothing to do, it
//!   takes that with the least pending; else the nearest head. RAID10 does not look for sequential reads:
//!   nearest head, an idle disk counting as near with near copies; the lowest address with far ones; the
//!   least pending with disks without heads. Where a resync has not been, the first copy.
//! - **Writes** are submitted at once where there is no bitmap (since 6.6); with one, or before, they wait
//!   for the plug to be let go, and then for the bitmap to be written; then the array's thread submits them.
//! - **Resync and rebuild** in units of 64 KiB, 32 at a time: read from one copy, then write to others.
//!
//! A write-mostly member of RAID1 is written as any other, and read where no other has the data.
//!
//! Left out: write-behind, failfast, bad blocks, errors; an optimal I/O size that members may give; the bound
//! of 64 MiB at which RAID1 splits requests; barriers between resync and others.

use super::Geometry;
use super::array::{ArraySpec, Below, Kind, MdCosts, Tag};
use super::bitmap::{BitmapSpec, MetaWrites, WriteIntent};
use super::clean;
use super::geometry::Place;
use super::resync::{Content, Go, LEFT, Progress, Repair, ResyncSpec};
use crate::block::PLUGS_EACH_BIO;
use crate::cpu::{Cpus, ThreadId};
use crate::engine::{Bio, BioId, Core, Part, PartId};
use disks::Op;
use domain::stack::MdLevel;
use domain::trace::Role;
use domain::units::Bytes;
use event_queue::Slab;
use std::collections::VecDeque;

/// A resync's request, and how many there are at a time (`RESYNC_BLOCK_SIZE`, `RESYNC_DEPTH`).
const UNIT: u64 = 64 << 10;
const UNITS: usize = 32;

/// Work of threads.
const SUBMIT_WAITING: u64 = 0;
const RESYNC_STEP: u64 = 1;
/// Set in the number of a unit whose copies are to be written.
const UNIT_WRITE: u64 = 1 << 32;
/// Timers.
const RESYNC_AGAIN: u64 = 1;

/// What is known of a member for choosing.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    /// Where the last request ended.
    position: u64,
    /// Where a sequential read would go on.
    sequential: u64,
    pending: u32,
}

/// A part of a resync.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// Where it begins: as [`Progress`] counts.
    at: u64,
    len: u64,
    /// Requests that are not done.
    left: u32,
}

/// A mirror.
pub struct Mirror {
    below: Below,
    geometry: Geometry,
    costs: MdCosts,
    heads: Vec<Head>,
    knows_flash: bool,
    any_without_heads: bool,
    /// Whether writes wait for the plug.
    defers: bool,
    /// Whether a write without a plug of its submitter's has one of its own ([`PLUGS_EACH_BIO`]).
    plugs_each: bool,
    thread: ThreadId,
    bitmap: Option<WriteIntent>,
    meta: MetaWrites,
    /// Writes under a plug, and whose.
    plugged: Vec<(Option<ThreadId>, Bio)>,
    /// Writes that wait for the bitmap.
    waiting: VecDeque<Bio>,
    ready: VecDeque<Bio>,
    resync: Option<Progress>,
    /// Whether there was one from the beginning.
    resyncs: bool,
    resync_thread: ThreadId,
    steps: bool,
    units: Slab<Unit>,
    /// Bytes that others moved on the members.
    others: u64,
}

/// From here on RAID10 reads from the disk with least pending where there is one without heads. 4.4 takes the
/// first idle one and then the nearest, as of hard disks, and 6.1 does not; when it changed is assumed.
const KNOWS_FLASH: governors::KernelVersion = governors::KernelVersion::new(5, 8, 0);

/// From here on a write-mostly disk without heads counts among the disks of RAID1 without heads (`raid1.c`:
/// `nonrot_disks`).
const COUNTS_WRITE_MOSTLY: governors::KernelVersion = governors::KernelVersion::new(6, 9, 0);

impl Mirror {
    /// The part `me`, which counts as `device`. A resync begins when time does.
    ///
    /// # Panics
    /// Where the array's level is another.
    pub fn new(
        core: &mut Core,
        me: PartId,
        device: usize,
        spec: &ArraySpec,
        bitmap: Option<BitmapSpec>,
        resync: Option<ResyncSpec>,
    ) -> Self {
        let level = spec.geometry.level();
        assert!(matches!(level, MdLevel::Raid1 | MdLevel::Raid10), "level {} is no mirror", level.name());
        let geometry = spec.geometry.clone();
        let thread =
            |cpus: &mut Cpus, what: &str| cpus.thread(&format!("{}_{what}", spec.name), Role::Array, 0);
        let resync = resync.map(|resync| {
            let by_member = level == MdLevel::Raid1 || matches!(resync.repair, Repair::Rebuild(_));
            let end = if by_member { geometry.used() } else { geometry.size() };
            core.at(core.now, me, RESYNC_AGAIN);
            Progress::new(resync, end.get(), core.now)
        });
        let direct = spec.kernel >= governors::KernelVersion::new(6, 6, 0);
        Self {
            below: Below::new(me, device, spec),
            costs: spec.costs,
            heads: vec![Head::default(); geometry.members() as usize],
            knows_flash: spec.kernel >= KNOWS_FLASH,
            any_without_heads: spec.members.iter().flatten().any(|member| {
                !member.rotational && (!member.write_mostly || spec.kernel >= COUNTS_WRITE_MOSTLY)
            }),
            defers: bitmap.is_some() || !direct,
            plugs_each: spec.kernel >= PLUGS_EACH_BIO,
            thread: thread(&mut core.cpus, &format!("raid{}", level.name())),
            bitmap: bitmap.map(WriteIntent::new),
            meta: MetaWrites::default(),
            plugged: Vec::new(),
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
            resyncs: resync.is_some(),
            resync,
            resync_thread: thread(&mut core.cpus, "resync"),
            steps: false,
            units: Slab::default(),
            others: 0,
            geometry,
        }
    }

    /// Whether a member has what lies before this end of its data.
    fn has(&self, member: u32, end: u64) -> bool {
        let rebuilt = match &self.resync {
            Some(Progress { spec: ResyncSpec { repair: Repair::Rebuild(new), .. }, .. })
                if *new == member =>
            {
                self.resync.as_ref().map_or(0, Progress::repaired)
            }
            _ => u64::MAX,
        };
        self.below.is_there(member) && end <= rebuilt
    }

    /// Whether copies may differ there, so that all have to read the same one.
    fn may_differ(&self, end: u64) -> bool {
        match &self.resync {
            Some(progress) => matches!(progress.spec.repair, Repair::Resync(_)) && end > progress.repaired(),
            None => false,
        }
    }

    fn read(&mut self, core: &mut Core, id: BioId, bio: &Bio) {
        let mut parts = 0;
        let mut at = bio.offset;
        while at < bio.end() {
            let piece = self.geometry.pieces(Bytes::new(at), Bytes::new(bio.end() - at)).next();
            let len = piece.expect("a range that is not empty has a piece").len.get();
            let place = match self.geometry.level() {
                MdLevel::Raid1 => self.choose_of_raid1(at, len),
                _ => self.choose_of_raid10(at, len),
            };
            self.heads[place.member as usize].pending += 1;
            // The kernel splits a piece off, sends it on, and its member has it before the next is split off.
            core.charge_in_turn(self.costs.map);
            core.submit(self.below.share(id, bio, place.member, place.offset.get(), len));
            at += len;
            parts += 1;
        }
        self.below.expect(core, id, parts);
    }

    /// As `raid1.c: read_balance`.
    ///
    /// # Panics
    /// Where no member has it: an array without members is none.
    fn choose_of_raid1(&mut self, at: u64, len: u64) -> Place {
        let has_it = (0..self.geometry.members()).filter(|member| self.has(*member, at + len));
        let is_last_resort =
            |member: &u32| self.below.members[*member as usize].is_some_and(|member| member.write_mostly);
        // Among the last resorts there is no choosing: the first one.
        let others = has_it.clone().any(|member| !is_last_resort(&member));
        let readable = has_it.filter(|member| !others || !is_last_resort(member)).take(if others {
            usize::MAX
        } else {
            1
        });
        let head = |member: &u32| &self.heads[*member as usize];
        let is_next = |member: &u32| head(member).sequential == at || head(member).position == at;
        let first_only = self.may_differ(at + len);
        let chosen = readable.clone().find(|member| first_only || is_next(member)).or_else(|| {
            let least = readable.clone().min_by_key(|member| head(member).pending)?;
            match self.any_without_heads || head(&least).pending == 0 {
                true => Some(least),
                false => readable.min_by_key(|member| head(member).position.abs_diff(at)),
            }
        });
        let member = chosen.unwrap_or_else(|| panic!("no member has the {len} bytes at {at}"));
        self.heads[member as usize].sequential = at + len;
        Place { member, offset: Bytes::new(at) }
    }

    /// As `raid10.c: read_balance`.
    ///
    /// # Panics
    /// As above.
    fn choose_of_raid10(&mut self, at: u64, len: u64) -> Place {
        let copies = (0..self.geometry.copies()).map(|copy| self.geometry.place(Bytes::new(at), copy));
        let mut readable = copies.filter(|place| self.has(place.member, place.offset.get() + len));
        let head = |place: &Place| &self.heads[place.member as usize];
        let (near, far) = self.geometry.near_and_far();
        let distance = |place: &Place| match place.offset.get() {
            _ if near > 1 && head(place).pending == 0 => 0,
            offset if far > 1 => offset,
            offset => head(place).position.abs_diff(offset),
        };
        let without_heads = |place: &Place| {
            let member = self.below.members[place.member as usize];
            member.is_some_and(|member| !member.rotational)
        };
        let chosen = match self.may_differ(at + len) {
            true => readable.next(),
            false => {
                let by_load = readable.clone().filter(|place| self.knows_flash && without_heads(place));
                let least = by_load.min_by_key(|place| head(place).pending);
                least.or_else(|| readable.min_by_key(distance))
            }
        };
        chosen.unwrap_or_else(|| panic!("no member has the {len} bytes at {at}"))
    }

    fn write(&mut self, core: &mut Core, id: BioId, bio: &Bio) {
        if let Some(bitmap) = &mut self.bitmap {
            bitmap.start(bio.offset, bio.len);
            bitmap.wake_daemon(core, &self.below);
        }
        let mut parts = 0;
        let plugs = self.defers && (bio.plugged || self.plugs_each) && core.plug(self.below.me);
        for piece in self.geometry.pieces(Bytes::new(bio.offset), Bytes::new(bio.len)) {
            let copies = (0..self.geometry.copies()).map(|copy| self.geometry.place(piece.offset, copy));
            let copies = copies.filter(|place| self.below.is_there(place.member));
            // All copies of a piece are sent on before a member has the first of them.
            core.charge_in_turn(self.costs.map.times(copies.clone().count() as u64));
            for place in copies {
                self.heads[place.member as usize].pending += 1;
                let share = self.below.share(id, bio, place.member, place.offset.get(), piece.len.get());
                parts += 1;
                match (self.defers, plugs) {
                    (false, _) => drop(core.submit(share)),
                    (true, true) => self.plugged.push((core.context(), share)),
                    (true, false) => self.waiting.push_back(share),
                }
            }
        }
        self.below.expect(core, id, parts);
        if self.defers && !plugs {
            self.let_waiting_go(core);
        }
    }

    /// What waits for the bitmap goes to the thread once that is written.
    fn let_waiting_go(&mut self, core: &mut Core) {
        if self.meta.is_awaited() || self.waiting.is_empty() {
            return;
        }
        let dirty = self.bitmap.as_mut().map(WriteIntent::take_dirty).unwrap_or_default();
        if !dirty.is_empty() {
            self.meta.write(core, &self.below, &dirty, true);
            return;
        }
        let cost = self.costs.thread.times(self.waiting.len() as u64);
        self.ready.append(&mut self.waiting);
        core.run(self.thread, cost, self.below.me, SUBMIT_WAITING);
    }

    fn ended(&mut self, core: &mut Core, bio: &Bio, tag: Tag) {
        let head = &mut self.heads[tag.member as usize];
        head.position = bio.end() - self.below.data_offset;
        head.pending -= 1;
        let parent = BioId(tag.number);
        let whole = core.bios[parent.0];
        if self.below.part_done(core, parent)
            && whole.op != Op::Read
            && let Some(bitmap) = &mut self.bitmap
        {
            bitmap.end(whole.offset, whole.len);
        }
    }

    /// Begins what a resync may do now.
    fn resync_goes_on(&mut self, core: &mut Core) {
        let Some(progress) = &mut self.resync else { return };
        if self.steps || self.units.len() >= UNITS {
            return;
        }
        match progress.go(core.now, self.others) {
            Go::Now => {
                self.steps = true;
                core.run(self.resync_thread, self.costs.thread, self.below.me, RESYNC_STEP);
            }
            Go::At(then) => {
                self.steps = true;
                core.at(then, self.below.me, RESYNC_AGAIN);
            }
            Go::WhenDone => {}
            Go::Finished => self.resync = None,
        }
    }

    fn resync_step(&mut self, core: &mut Core) {
        let Some(progress) = &mut self.resync else { return };
        let (at, len) = progress.begin(UNIT.min(self.geometry.chunk().map_or(UNIT, Bytes::get)));
        let unit = self.units.put(Unit { at, len, left: 0 });
        let reads = self.resync_reads(at);
        self.units[unit].left = reads.len() as u32;
        for place in &reads {
            let tag = Tag { kind: Kind::ResyncRead, member: place.member, number: unit };
            core.submit(self.below.request(Op::Read, tag, place.offset.get(), len));
        }
        if reads.is_empty() {
            self.unit_done(unit);
        }
    }

    /// Which copies a unit is read from.
    fn resync_reads(&self, at: u64) -> Vec<Place> {
        let copies = self.copies_of_unit(at);
        match self.repair() {
            Repair::Rebuild(_) => copies.into_iter().take(1).collect(),
            // RAID10 compares all copies; RAID1 does not.
            Repair::Resync(_) if self.geometry.level() == MdLevel::Raid10 => copies,
            Repair::Resync(_) => copies.into_iter().take(1).collect(),
        }
    }

    fn repair(&self) -> Repair {
        let progress = self.resync.as_ref().expect("a resync's request is done while it goes on");
        progress.spec.repair
    }

    /// Where a unit lies on members that have it.
    fn copies_of_unit(&self, at: u64) -> Vec<Place> {
        let data = match (self.geometry.level(), self.repair()) {
            (MdLevel::Raid10, Repair::Rebuild(new)) => {
                match self.geometry.holds(Place { member: new, offset: Bytes::new(at) }) {
                    super::Holds::Data(data) => data,
                    _ => return Vec::new(),
                }
            }
            _ => Bytes::new(at),
        };
        let new = if let Repair::Rebuild(new) = self.repair() { Some(new) } else { None };
        let copies = (0..self.geometry.copies()).map(|copy| self.geometry.place(data, copy));
        copies.filter(|place| self.below.is_there(place.member) && Some(place.member) != new).collect()
    }

    /// Which copies of it are written then.
    fn resync_writes(&self, at: u64) -> Vec<Place> {
        match self.repair() {
            Repair::Rebuild(new) => vec![Place { member: new, offset: Bytes::new(at) }],
            Repair::Resync(Content::Agrees) if self.geometry.level() == MdLevel::Raid10 => Vec::new(),
            Repair::Resync(_) => self.copies_of_unit(at).into_iter().skip(1).collect(),
        }
    }

    fn unit_is_read(&mut self, core: &mut Core, unit: u32) {
        let Unit { at, len, .. } = self.units[unit];
        let writes = self.resync_writes(at);
        if writes.is_empty() {
            self.unit_done(unit);
            return self.resync_goes_on(core);
        }
        self.units[unit].left = writes.len() as u32;
        for place in writes {
            let tag = Tag { kind: Kind::ResyncWrite, member: place.member, number: unit };
            core.submit(self.below.request(Op::Write, tag, place.offset.get(), len));
        }
    }

    fn unit_done(&mut self, unit: u32) {
        let unit = self.units.remove(unit);
        if let Some(progress) = &mut self.resync {
            progress.done(unit.len);
        }
    }

    /// A request of a resync is done.
    fn resync_done(&mut self, core: &mut Core, tag: Tag) {
        let unit = &mut self.units[tag.number];
        unit.left -= 1;
        if unit.left > 0 {
            return;
        }
        if tag.kind == Kind::ResyncRead {
            // The array's thread looks at what was read (`sync_request_write`).
            let token = u64::from(tag.number) | UNIT_WRITE;
            core.run(self.thread, self.costs.thread, self.below.me, token);
            return;
        }
        self.unit_done(tag.number);
        self.resync_goes_on(core);
    }
}

impl Part for Mirror {
    fn counters(&self, out: &mut dyn FnMut(&str, u64)) {
        if self.resyncs {
            out(LEFT, self.resync.as_ref().map_or(0, Progress::left));
        }
    }

    fn submit(&mut self, core: &mut Core, id: BioId) {
        let bio = self.below.begin(core, id);
        self.others += bio.len;
        match bio.op {
            Op::Flush => self.below.flush(core, id),
            Op::Read => self.read(core, id, &bio),
            Op::Write | Op::Discard if !self.below.may_write(core, id) => {}
            Op::Write | Op::Discard => self.write(core, id, &bio),
        }
    }

    fn done(&mut self, core: &mut Core, bio: &Bio) {
        let tag = Tag::of(bio.tag);
        match tag.kind {
            Kind::Flush => drop(self.below.part_done(core, BioId(tag.number))),
            Kind::MetaFlush | Kind::MetaWrite => {
                let spec = self.bitmap.as_ref().expect("a bitmap's page is done where there is one").spec;
                if self.meta.done(core, &self.below, &spec, tag) {
                    self.let_waiting_go(core);
                }
            }
            Kind::SuperFlush | Kind::SuperWrite => {
                for (id, submitter) in self.below.superblock_is_written(core, tag) {
                    let bio = core.bios[id.0];
                    self.write(core, id, &bio);
                    if let Some(thread) = submitter {
                        core.let_on(thread);
                    }
                }
            }
            Kind::ResyncRead | Kind::ResyncWrite => self.resync_done(core, tag),
            Kind::Data | Kind::Stripe => self.ended(core, bio, tag),
        }
    }

    fn worked(&mut self, core: &mut Core, token: u64) {
        match token {
            SUBMIT_WAITING => {
                // Under the thread's own plug (`flush_pending_writes`).
                for bio in self.ready.drain(..) {
                    core.submit(Bio { plugged: true, ..bio });
                }
            }
            RESYNC_STEP => {
                self.steps = false;
                self.resync_step(core);
                self.resync_goes_on(core);
            }
            unit => self.unit_is_read(core, unit as u32),
        }
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        match token {
            clean::TIMER => self.below.call_clean(core),
            RESYNC_AGAIN => {
                self.steps = false;
                self.resync_goes_on(core);
            }
            _ => {
                let bitmap = self.bitmap.as_mut().expect("the daemon's timer is set where there is a bitmap");
                bitmap.daemon(core, &self.below, &mut self.meta);
            }
        }
    }

    fn unplug(&mut self, core: &mut Core) {
        let context = core.context();
        let mine = |entry: &mut (Option<ThreadId>, Bio)| entry.0 == context;
        let released: Vec<Bio> = self.plugged.extract_if(.., mine).map(|(_, bio)| bio).collect();
        let written = !self.meta.is_awaited() && self.bitmap.as_ref().is_none_or(WriteIntent::is_written);
        if written {
            for bio in released {
                core.submit(bio);
            }
            return;
        }
        self.waiting.extend(released);
        self.let_waiting_go(core);
    }

    fn size(&self) -> u64 {
        self.geometry.size().get()
    }
}
