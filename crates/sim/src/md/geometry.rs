//! Where each byte of an array lies on its members: the address maps of md, for every level and layout.
//!
//! Offsets on a member count from the beginning of its data area (`data_offset` in sysfs); the size of a
//! member is that of its data area too: `component_size`, or `dev-N/size` where members differ.
//!
//! Follows `drivers/md/{md-linear,raid0,raid10,raid5}.c` of Linux 6.1 and 6.12, which agree. Left out:
//! reshaping, that is arrays in the middle of a change of their layout. Held against real arrays by
//! `crates/flyball/tests/lab_md_maps.rs`.

mod layout;
#[cfg(test)]
mod tests;

pub use layout::{FarSets, ParityLayout, Raid0Layout, Raid10Layout};

use domain::stack::{Md, MdLevel};
use domain::units::Bytes;
use thiserror::Error;

/// mdadm's own choice of a chunk (mdadm(8), `--chunk`).
pub const USUAL_CHUNK: Bytes = Bytes::from_kib(512);

/// Chunks of parity levels and RAID10 are whole pages (`raid5.c: setup_conf`, `raid10.c: setup_geo`).
const PAGE: u64 = 4096;

/// So many members keep every product of this map below 2^64 with members of up to 2^54 bytes.
const MAX_MEMBERS: usize = 512;
const LARGEST_MEMBER: u64 = 1 << 54;

/// Where the bytes of an array lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    level: MdLevel,
    members: u32,
    /// In bytes; 0 where the level has none.
    chunk: u64,
    size: u64,
    /// How much of each member is of use; the least where members differ.
    used: u64,
    map: Map,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Map {
    /// Where each member ends in the array.
    Linear(Box<[u64]>),
    Striped(Raid0Layout, Box<[Zone]>),
    Mirrored,
    Parity(ParityLayout),
    Raid10 {
        layout: Raid10Layout,
        set: u64,
        stride: u64,
    },
}

/// A part of a RAID0 in which the same members take part.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Zone {
    /// In the array.
    start: u64,
    end: u64,
    /// On each of the members.
    member_start: u64,
    members: Box<[u32]>,
}

/// A byte on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which member, from 0, by its role in the array.
    pub member: u32,
    /// From the beginning of the member's data area.
    pub offset: Bytes,
}

/// A range of an array that is contiguous on each member that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// From the beginning of the array.
    pub offset: Bytes,
    /// How long it is.
    pub len: Bytes,
    /// Where its first copy begins; of the others [`Geometry::place`] tells.
    pub place: Place,
}

/// What a member has at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holds {
    /// This byte of the array.
    Data(Bytes),
    /// The exclusive or of a stripe's data.
    Parity,
    /// RAID6's second syndrome.
    SecondParity,
    /// Nothing of the array.
    Nothing,
}

/// A stripe of a level with parity: a chunk on every member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// Its number: the offset on the members, in chunks.
    pub number: u64,
    /// The member that has its parity.
    pub parity: u32,
    /// The member that has its second parity: RAID6 alone.
    pub second: Option<u32>,
    layout: ParityLayout,
    members: u32,
}

/// Why there is no such array.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no array of level {level} over {members} members: {reason}")]
pub struct NoGeometry {
    /// As mdadm names it.
    pub level: &'static str,
    /// How many there were to be.
    pub members: usize,
    /// What is wrong.
    pub reason: String,
}

/// The chunk that an array is made with: mdadm's own choice where it does not say; `None` where the level has
/// none.
pub fn chunk_of(md: &Md) -> Option<Bytes> {
    let chunk = md.chunk.or((md.level != MdLevel::Linear).then_some(USUAL_CHUNK));
    chunk.filter(|_| md.level.has_chunks())
}

impl Geometry {
    /// The map of an array over active members with data areas of these sizes, missing ones among them,
    /// spares not. What the study left to mdadm is what mdadm chooses.
    ///
    /// # Errors
    /// Where the kernel would not run such an array, or would lay it out wrongly.
    pub fn new(md: &Md, sizes: &[Bytes]) -> Result<Self, NoGeometry> {
        let layout = md.layout.as_deref();
        let refuse = |reason| NoGeometry { level: md.level.name(), members: sizes.len(), reason };
        let chunk = chunk_of(md).unwrap_or_default();
        match md.level {
            MdLevel::Linear => linear(chunk, sizes),
            MdLevel::Raid0 => Raid0Layout::parse(layout).and_then(|layout| striped(layout, chunk, sizes)),
            MdLevel::Raid1 => mirrored(sizes),
            MdLevel::Raid4 | MdLevel::Raid5 | MdLevel::Raid6 => ParityLayout::parse(md.level, layout)
                .and_then(|layout| parity(md.level, layout, chunk, sizes)),
            MdLevel::Raid10 => Raid10Layout::parse(layout).and_then(|layout| raid10(layout, chunk, sizes)),
        }
        .map_err(refuse)
    }

    /// The map over as many members of one size.
    ///
    /// # Errors
    /// As [`Geometry::new`].
    pub fn over(md: &Md, members: u32, size: Bytes) -> Result<Self, NoGeometry> {
        Self::new(md, &vec![size; members as usize])
    }

    /// A RAID10 whose layout mdadm has no name for: near and far copies at once, or far copies within sets
    /// (dm-raid(4)'s `raid10_use_far_sets`).
    ///
    /// # Errors
    /// As [`Geometry::new`].
    pub fn raid10(layout: Raid10Layout, chunk: Bytes, sizes: &[Bytes]) -> Result<Self, NoGeometry> {
        raid10(layout, chunk, sizes).map_err(|reason| NoGeometry {
            level: MdLevel::Raid10.name(),
            members: sizes.len(),
            reason,
        })
    }

    /// Which level.
    pub const fn level(&self) -> MdLevel {
        self.level
    }

    /// How many active members, missing ones among them.
    pub const fn members(&self) -> u32 {
        self.members
    }

    /// How large the array is (`/sys/block/mdN/size`).
    pub const fn size(&self) -> Bytes {
        Bytes::new(self.size)
    }

    /// How much of the least member's data area is of use; what a resync goes over.
    pub const fn used(&self) -> Bytes {
        Bytes::new(self.used)
    }

    /// The chunk; none where the level has none.
    pub fn chunk(&self) -> Option<Bytes> {
        (self.chunk != 0).then_some(Bytes::new(self.chunk))
    }

    /// How many members hold each byte of data.
    pub const fn copies(&self) -> u32 {
        match &self.map {
            Map::Mirrored => self.members,
            Map::Raid10 { layout, .. } => layout.near * layout.far,
            Map::Linear(_) | Map::Striped(..) | Map::Parity(_) => 1,
        }
    }

    /// RAID10's copies on adjacent members, and those further down; (1, 1) for other levels.
    pub const fn near_and_far(&self) -> (u32, u32) {
        match &self.map {
            Map::Raid10 { layout, .. } => (layout.near, layout.far),
            Map::Linear(_) | Map::Striped(..) | Map::Mirrored | Map::Parity(_) => (1, 1),
        }
    }

    /// How many members of a stripe hold data, where the level has parity: the others hold that.
    pub const fn data_members(&self) -> u32 {
        match self.level {
            MdLevel::Raid4 | MdLevel::Raid5 => self.members - 1,
            MdLevel::Raid6 => self.members - 2,
            MdLevel::Linear | MdLevel::Raid0 | MdLevel::Raid1 | MdLevel::Raid10 => self.members,
        }
    }

    /// Where a byte's copy lies, from 0, in the kernel's own order.
    ///
    /// # Panics
    /// Beyond the array's end, or where there are not so many copies.
    pub fn place(&self, offset: Bytes, copy: u32) -> Place {
        let at = offset.get();
        assert!(at < self.size, "a place at {at} of an array of {} bytes", self.size);
        assert!(copy < self.copies(), "copy {copy} of {}", self.copies());
        let (member, offset) = match &self.map {
            Map::Linear(ends) => {
                let member = ends.partition_point(|end| *end <= at);
                (member as u32, at - if member == 0 { 0 } else { ends[member - 1] })
            }
            Map::Striped(layout, zones) => {
                zones[zones.partition_point(|zone| zone.end <= at)].place(*layout, self.chunk, at)
            }
            Map::Mirrored => (copy, at),
            Map::Parity(_) => {
                let (number, inside) = (at / self.chunk, at % self.chunk);
                let data = u64::from(self.data_members());
                let stripe = self.stripe(number / data);
                (stripe.data((number % data) as u32), stripe.number * self.chunk + inside)
            }
            Map::Raid10 { layout, set, stride } => self.raid10_place(*layout, *set, *stride, at, copy),
        };
        Place { member, offset: Bytes::new(offset) }
    }

    /// As `raid10.c: __raid10_find_phys`.
    fn raid10_place(&self, layout: Raid10Layout, set: u64, stride: u64, at: u64, copy: u32) -> (u32, u64) {
        let (members, near, far) = (u64::from(self.members), u64::from(layout.near), u64::from(layout.far));
        let (nth_near, nth_far) = (u64::from(copy) / far, u64::from(copy) % far);
        let nth = at / self.chunk * near;
        let row = nth / members * if layout.offset { far } else { 1 };
        let mut member = nth % members + nth_near;
        let mut offset = row * self.chunk + at % self.chunk;
        if member >= members {
            // Copies that run over the last member begin the next row of the first ones.
            member -= members;
            offset += self.chunk;
        }
        let (start, len) = far_set(members, set, member);
        member = start + (member - start + nth_far * near) % len;
        (member as u32, offset + nth_far * stride)
    }

    /// What the array has at a place of a member; the inverse of [`Geometry::place`].
    ///
    /// # Panics
    /// Where there is no such member.
    pub fn holds(&self, place: Place) -> Holds {
        assert!(place.member < self.members, "member {} of {}", place.member, self.members);
        let (member, at) = (place.member, place.offset.get());
        let found = match &self.map {
            Map::Linear(ends) => match member {
                0 => at,
                _ => ends[member as usize - 1] + at,
            },
            Map::Striped(layout, zones) => {
                let zone =
                    zones.iter().rev().find(|zone| zone.member_start <= at && zone.members.contains(&member));
                match zone.and_then(|zone| zone.array_offset(*layout, self.chunk, member, at)) {
                    Some(found) => found,
                    None => return Holds::Nothing,
                }
            }
            Map::Mirrored => at,
            Map::Parity(_) if at >= self.used => return Holds::Nothing,
            Map::Parity(_) => match self.stripe(at / self.chunk).index_of(member) {
                Ok(index) => {
                    let number = at / self.chunk * u64::from(self.data_members()) + u64::from(index);
                    number * self.chunk + at % self.chunk
                }
                Err(parity) => return parity,
            },
            Map::Raid10 { layout, set, stride } => {
                self.raid10_array_offset(*layout, *set, *stride, member, at)
            }
        };
        let is_there = |copy| self.place(Bytes::new(found), copy) == place;
        match found < self.size && (0..self.copies()).any(is_there) {
            true => Holds::Data(Bytes::new(found)),
            false => Holds::Nothing,
        }
    }

    /// As `raid10.c: raid10_find_virt`: which byte would lie there, where any does.
    fn raid10_array_offset(&self, layout: Raid10Layout, set: u64, stride: u64, member: u32, at: u64) -> u64 {
        let (members, near, far) = (u64::from(self.members), u64::from(layout.near), u64::from(layout.far));
        let (nth_far, row) = match layout.offset {
            true => (at / self.chunk % far, at / self.chunk / far),
            false => (at / stride, at % stride / self.chunk),
        };
        let (start, len) = far_set(members, set, u64::from(member));
        let shift = nth_far * near % len;
        let first = start + (u64::from(member) - start + len - shift) % len;
        (row * members + first) / near * self.chunk + at % self.chunk
    }

    /// Cuts a range of the array into pieces, each contiguous on the members that hold it, in the order of
    /// the array.
    ///
    /// # Panics
    /// Where the range reaches beyond the array's end.
    pub fn pieces(&self, offset: Bytes, len: Bytes) -> impl Iterator<Item = Piece> + '_ {
        let end = offset.get() + len.get();
        assert!(end <= self.size, "{len} at {offset} of an array of {}", self.size());
        let mut at = offset.get();
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let offset = Bytes::new(at);
                let len = self.contiguous(at).min(end - at);
                at += len;
                Piece { offset, len: Bytes::new(len), place: self.place(offset, 0) }
            })
        })
    }

    /// How many bytes from here on lie on the same members without a gap.
    fn contiguous(&self, at: u64) -> u64 {
        match &self.map {
            Map::Linear(ends) => ends[ends.partition_point(|end| *end <= at)] - at,
            Map::Mirrored => self.size - at,
            // Each member has everything: the kernel does not split such requests either.
            Map::Raid10 { layout, .. } if layout.near == self.members => self.size - at,
            Map::Striped(..) | Map::Parity(_) | Map::Raid10 { .. } => self.chunk - at % self.chunk,
        }
    }

    /// A stripe by its number, of a level with parity.
    ///
    /// # Panics
    /// Where the level has none.
    pub fn stripe(&self, number: u64) -> Stripe {
        let Map::Parity(layout) = &self.map else { panic!("a stripe of level {}", self.level.name()) };
        let (parity, second) = layout.parities(self.members, number, self.level == MdLevel::Raid6);
        Stripe { number, parity, second, layout: *layout, members: self.members }
    }
}

impl Zone {
    /// As `raid0.c: map_sector`.
    fn place(&self, layout: Raid0Layout, chunk: u64, at: u64) -> (u32, u64) {
        let count = self.members.len() as u64;
        let row = (at - self.start) / (chunk * count);
        let turn = (at - self.turns_from(layout)) / chunk % count;
        (self.members[turn as usize], self.member_start + row * chunk + at % chunk)
    }

    /// Where the turns of the members are counted from: the original layout counts from the array's
    /// beginning.
    fn turns_from(&self, layout: Raid0Layout) -> u64 {
        match layout {
            Raid0Layout::Original => 0,
            Raid0Layout::Alternate => self.start,
        }
    }

    fn array_offset(&self, layout: Raid0Layout, chunk: u64, member: u32, at: u64) -> Option<u64> {
        let count = self.members.len() as u64;
        let index = self.members.iter().position(|m| *m == member)? as u64;
        let first = (self.start - self.turns_from(layout)) / chunk % count;
        let turn = (index + count - first) % count;
        let row = (at - self.member_start) / chunk;
        let found = self.start + (row * count + turn) * chunk + at % chunk;
        (found < self.end).then_some(found)
    }
}

impl Stripe {
    /// How many chunks of data it has.
    pub const fn data_members(&self) -> u32 {
        self.members - 1 - self.second.is_some() as u32
    }

    /// Whether the second parity counts as DDF has it: members with parity take part as zeros, and the first
    /// member is first.
    pub const fn is_ddf(&self) -> bool {
        matches!(
            self.layout,
            ParityLayout::DdfZeroRestart | ParityLayout::DdfNRestart | ParityLayout::DdfNContinue
        )
    }

    /// The member that has its data chunk of this index, from 0, in the array's order.
    ///
    /// # Panics
    /// Where it has not so many.
    pub fn data(&self, index: u32) -> u32 {
        assert!(index < self.data_members(), "data chunk {index} of {}", self.data_members());
        self.layout.data(self.members, self.parity, self.second, index)
    }

    /// Which data chunk of it a member has, or which parity.
    ///
    /// # Errors
    /// What it has instead of data.
    pub fn index_of(&self, member: u32) -> Result<u32, Holds> {
        if member == self.parity {
            return Err(Holds::Parity);
        }
        if Some(member) == self.second {
            return Err(Holds::SecondParity);
        }
        (0..self.data_members()).find(|index| self.data(*index) == member).ok_or(Holds::Nothing)
    }
}

type Built = Result<Geometry, String>;

fn linear(rounding: Bytes, sizes: &[Bytes]) -> Built {
    let sizes = usable(sizes, rounding.get().max(512), 1)?;
    let mut end = 0;
    let add = |size: &u64| {
        end += size;
        end
    };
    let ends: Box<[u64]> = sizes.iter().map(add).collect();
    Ok(Geometry {
        level: MdLevel::Linear,
        members: sizes.len() as u32,
        chunk: 0,
        size: ends[ends.len() - 1],
        used: least(&sizes),
        map: Map::Linear(ends),
    })
}

/// As `raid0.c: create_strip_zones`.
fn striped(layout: Raid0Layout, chunk: Bytes, sizes: &[Bytes]) -> Built {
    let chunk = chunk.get();
    if chunk == 0 || !chunk.is_multiple_of(512) {
        return Err(format!("a chunk of {chunk} bytes is no multiple of 512"));
    }
    let sizes = usable(sizes, chunk, 1)?;
    let mut zones: Vec<Zone> = Vec::new();
    loop {
        let (start, member_start) = zones.last().map_or((0, 0), |zone| {
            (zone.end, zone.member_start + (zone.end - zone.start) / zone.members.len() as u64)
        });
        let taller = |(_, size): &(usize, &u64)| **size > member_start;
        let members: Box<[u32]> = sizes.iter().enumerate().filter(taller).map(|(m, _)| m as u32).collect();
        let Some(height) = members.iter().map(|m| sizes[*m as usize] - member_start).min() else { break };
        let end = start + height * members.len() as u64;
        zones.push(Zone { start, end, member_start, members });
    }
    // As raid0_size: a mask on sectors, which for a chunk that is no power of two gives less than there is.
    let mask = !(chunk / 512 - 1);
    let size = sizes.iter().map(|size| ((size / 512) & mask) * 512).sum();
    Ok(Geometry {
        level: MdLevel::Raid0,
        members: sizes.len() as u32,
        chunk,
        size,
        used: least(&sizes),
        map: Map::Striped(layout, zones.into()),
    })
}

fn mirrored(sizes: &[Bytes]) -> Built {
    let size = least(&usable(sizes, 512, 1)?);
    let members = sizes.len() as u32;
    Ok(Geometry { level: MdLevel::Raid1, members, chunk: 0, size, used: size, map: Map::Mirrored })
}

/// As `raid5.c: setup_conf, raid5_size`.
fn parity(level: MdLevel, layout: ParityLayout, chunk: Bytes, sizes: &[Bytes]) -> Built {
    let (chunk, parities) = (whole_pages(chunk)?, if level == MdLevel::Raid6 { 2 } else { 1 });
    let used = least(&usable(sizes, chunk, parities * 2)?);
    let members = sizes.len() as u32;
    let size = used * (u64::from(members) - parities as u64);
    Ok(Geometry { level, members, chunk, size, used, map: Map::Parity(layout) })
}

/// As `raid10.c: setup_geo, raid10_size, calc_sectors`.
fn raid10(layout: Raid10Layout, chunk: Bytes, sizes: &[Bytes]) -> Built {
    let chunk = whole_pages(chunk)?;
    let whole = least(&usable(sizes, chunk, 2)?);
    let (near, far, members) = (u64::from(layout.near), u64::from(layout.far), sizes.len() as u64);
    let copies = near * far;
    if copies < 2 {
        return Err("it has one copy of everything, and RAID10 needs two".into());
    }
    if copies > members {
        return Err(format!("it has {copies} copies of everything, more than members"));
    }
    let set = match layout.sets {
        FarSets::One => members,
        FarSets::Divided => members / far,
        FarSets::Small => copies,
    };
    // The kernel puts copies that lie in the last, larger set's neighbour into that set: `d >
    // last_far_set_start` in __raid10_find_phys is asked of the number after the shift.
    let (_, last) = far_set(members, set, members - 1);
    if layout.sets != FarSets::One && near > 1 && last != set {
        return Err("the kernel mixes up far sets of near copies where the last set is larger".into());
    }
    // A copy that runs over the last member goes one chunk further down, which with offset copies is taken.
    if layout.offset && !members.is_multiple_of(near) {
        return Err("the kernel overwrites offset copies of near copies that run over the last member".into());
    }
    if set < far * near {
        return Err(format!("a far set of {set} members has no room for {copies} copies"));
    }
    let array_chunks = whole / chunk / far * members / near;
    let used_chunks = (array_chunks * copies).div_ceil(members);
    let stride = if layout.offset { chunk } else { used_chunks / far * chunk };
    if array_chunks == 0 {
        return Err(format!("its members of {whole} bytes are too small for chunks of {chunk}"));
    }
    Ok(Geometry {
        level: MdLevel::Raid10,
        members: members as u32,
        chunk,
        size: array_chunks * chunk,
        used: used_chunks * chunk,
        map: Map::Raid10 { layout, set, stride },
    })
}

/// Where the far set of a member begins, and how many it has: the last one has what is left over.
fn far_set(members: u64, set: u64, member: u64) -> (u64, u64) {
    let last = (members / set - 1) * set;
    if member >= last { (last, members - last) } else { (member / set * set, set) }
}

fn whole_pages(chunk: Bytes) -> Result<u64, String> {
    let chunk = chunk.get();
    match chunk >= PAGE && chunk.is_power_of_two() {
        true => Ok(chunk),
        false => Err(format!("a chunk of {chunk} bytes is no power of two, or less than a page of {PAGE}")),
    }
}

/// What of each member is of use: whole units. At least so many members.
fn usable(sizes: &[Bytes], unit: u64, fewest: usize) -> Result<Vec<u64>, String> {
    if sizes.len() < fewest {
        return Err(format!("it needs {fewest} members at least"));
    }
    if sizes.len() > MAX_MEMBERS {
        return Err(format!("it has more than {MAX_MEMBERS} members"));
    }
    if sizes.iter().any(|size| size.get() < unit) {
        return Err(format!("a member has less than {unit} bytes, which is the least that is of use"));
    }
    if sizes.iter().any(|size| size.get() > LARGEST_MEMBER) {
        return Err("a member is larger than 16 PiB".into());
    }
    Ok(sizes.iter().map(|size| size.get() / unit * unit).collect())
}

fn least(sizes: &[u64]) -> u64 {
    sizes.iter().copied().min().expect("`usable` has seen to it that there is a member")
}
