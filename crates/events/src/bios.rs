//! Bios on their way through devices, found by the sectors that they hold.

use domain::passage::Bios;
use domain::request::Op;
use std::collections::{BTreeMap, HashMap};

/// Most that are looked at for one place: of 4 KiB each, so many overlap with 4 MiB. More are no load.
const MAX_LOOKED_AT: usize = 1024;

/// Which bio: a number that none had before.
pub type Id = u64;

/// A system call that is under way: the thread, and a number that no call had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallId {
    pub tid: u32,
    pub number: u64,
}

/// One on its way.
#[derive(Clone, Debug)]
pub struct Bio {
    /// A whole disk; until its queueing is seen also a partition, with sectors of that.
    pub device: u32,
    pub sector: u64,
    pub sectors: u32,
    pub op: Op,
    /// When it was queued; until that is seen, when a layer above announced it.
    pub begin: u64,
    /// Whether its queueing was seen.
    pub is_queued: bool,
    /// Whether what was seen of it, or of what it became, may be another's.
    pub is_doubtful: bool,
    /// The device that passed it on.
    pub above: Option<u32>,
    /// The bio there that it is a part of, where that is known.
    pub parent: Option<Id>,
    /// The system call whose thread queued it, where it was one and no layer announced the bio.
    pub call: Option<CallId>,
    /// Sectors that are not done yet.
    pub left: u32,
    pub below: Below,
}

/// What was seen of what a bio became below.
#[derive(Clone, Copy, Debug, Default)]
pub struct Below {
    /// All of it.
    pub made: Bios,
    /// Sectors of the bio that bios of the same operation hold, each time that one does.
    pub covered: u64,
    /// Those that were announced, and are not queued yet.
    announced: u32,
    under_way: u32,
    /// Since when any is under way.
    since: u64,
    /// When the first was queued.
    first: Option<u64>,
    /// When the last ended.
    last: u64,
    /// How long any was under way, until the last ended.
    busy: u64,
}

impl Below {
    /// The bio is to become another one, which holds so many of its sectors.
    pub fn announce(&mut self, bios: Bios, covered: u64) {
        self.made.add(bios);
        self.covered = self.covered.saturating_add(covered);
        self.announced += 1;
    }

    pub fn begins(&mut self, now: u64) {
        self.announced = self.announced.saturating_sub(1);
        if self.under_way == 0 {
            self.since = now;
        }
        self.under_way += 1;
        self.first.get_or_insert(now);
    }

    pub fn ends(&mut self, now: u64) {
        self.under_way = self.under_way.saturating_sub(1);
        if self.under_way == 0 {
            self.busy = self.busy.saturating_add(now.saturating_sub(self.since));
            self.last = now;
        }
    }

    /// Where the time went of what began then and ends now; `None` where nothing was queued.
    ///
    /// It may end with some under way: a mirror acknowledges a write before its last member has it
    /// (`write-behind`), and a read returns while read-ahead goes on.
    pub fn times(&self, begin: u64, now: u64) -> Option<Times> {
        let Self { under_way, since, first, last, busy, .. } = *self;
        let (busy, last) = match under_way {
            0 => (busy, last),
            _ => (busy.saturating_add(now.saturating_sub(since)), now),
        };
        let whole = now.saturating_sub(begin);
        let (before, after) = (first?.saturating_sub(begin), now.saturating_sub(last));
        let between = whole.checked_sub(before)?.checked_sub(busy)?.checked_sub(after)?;
        Some([before, busy, between, after])
    }

    /// One was under way since `begin`, which is known only now that it has ended.
    pub fn was(&mut self, begin: u64, now: u64) {
        self.announced = self.announced.saturating_sub(1);
        self.first = Some(self.first.map_or(begin, |first| first.min(begin)));
        let since = begin.max(self.last);
        if self.under_way > 0 {
            self.since = self.since.min(since);
            return;
        }
        self.busy = self.busy.saturating_add(now.saturating_sub(since));
        self.last = now;
    }
}

/// Where the time of a bio went: before, below, between and after.
pub type Times = [u64; 4];

impl Bio {
    /// The first sector behind it.
    pub fn end(&self) -> u64 {
        self.sector.saturating_add(self.sectors.into())
    }

    /// How many of its sectors these are.
    pub fn overlap(&self, sector: u64, sectors: u32) -> u32 {
        let end = self.end().min(sector.saturating_add(sectors.into()));
        // No more than it has.
        end.saturating_sub(self.sector.max(sector)) as u32
    }

    /// Where its time went, as it ends; `None` where it became nothing, or not all of that is known.
    pub fn times(&self, now: u64) -> Option<Times> {
        let Below { covered, announced, under_way, .. } = self.below;
        let is_covered = match self.op {
            // Each sector is read once. With more, something else was read meanwhile.
            Op::Read => covered == u64::from(self.sectors) && under_way == 0,
            _ => covered >= u64::from(self.sectors),
        };
        if self.is_doubtful || announced > 0 || !is_covered {
            return None;
        }
        self.below.times(self.begin, now)
    }
}

/// All that are on their way.
#[derive(Debug, Default)]
pub struct OnTheirWay {
    of: HashMap<Id, Bio>,
    /// By device, first sector and number: how many sectors.
    places: BTreeMap<(u32, u64, Id), u32>,
    /// The longest that each device had.
    longest: BTreeMap<u32, u32>,
    next: Id,
}

impl OnTheirWay {
    pub fn insert(&mut self, bio: Bio) -> Id {
        let id = self.next;
        self.next += 1;
        self.place(id, &bio);
        self.of.insert(id, bio);
        id
    }

    fn place(&mut self, id: Id, bio: &Bio) {
        let longest = self.longest.entry(bio.device).or_default();
        *longest = bio.sectors.max(*longest);
        self.places.insert((bio.device, bio.sector, id), bio.sectors);
    }

    pub fn get(&self, id: Id) -> Option<&Bio> {
        self.of.get(&id)
    }

    /// It may be changed in all but its place.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut Bio> {
        self.of.get_mut(&id)
    }

    pub fn remove(&mut self, id: Id) -> Option<Bio> {
        let bio = self.of.remove(&id)?;
        self.places.remove(&(bio.device, bio.sector, id));
        Some(bio)
    }

    /// It goes to another place, with so many sectors.
    pub fn move_to(&mut self, id: Id, device: u32, sector: u64, sectors: u32) {
        let Some(bio) = self.remove(id) else { return };
        let bio = Bio { device, sector, sectors, left: sectors, ..bio };
        self.place(id, &bio);
        self.of.insert(id, bio);
    }

    /// Those of an operation that begin at a sector, the oldest first.
    pub fn at(&self, device: u32, sector: u64, op: Op) -> Vec<Id> {
        let all = self.places.range((device, sector, 0)..=(device, sector, Id::MAX));
        self.of_op(all.map(|((.., id), _)| *id).take(MAX_LOOKED_AT), op)
    }

    /// Those of an operation that hold any of these sectors.
    pub fn holding(&self, device: u32, sector: u64, sectors: u32, op: Op) -> Vec<Id> {
        let longest = self.longest.get(&device).copied().unwrap_or(0);
        let begin = sector.saturating_sub(longest.into());
        let end = sector.saturating_add(sectors.into());
        let near = self.places.range((device, begin, 0)..(device, end, 0)).take(MAX_LOOKED_AT);
        let holding = near.filter(|((_, at, _), own)| at.saturating_add(u64::from(**own)) > sector);
        self.of_op(holding.map(|((.., id), _)| *id), op)
    }

    fn of_op(&self, ids: impl Iterator<Item = Id>, op: Op) -> Vec<Id> {
        ids.filter(|id| self.of.get(id).is_some_and(|bio| bio.op == op)).collect()
    }

    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// The system calls that queued any.
    pub fn calls(&self) -> impl Iterator<Item = CallId> {
        self.of.values().filter_map(|bio| bio.call)
    }

    /// Nothing is known of any any more.
    pub fn forget(&mut self) {
        self.of.clear();
        self.places.clear();
        self.longest.clear();
    }
}
