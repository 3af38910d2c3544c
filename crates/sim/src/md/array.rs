//! What all arrays have in common: members, the requests to them that a request is made of, and what work
//! costs.

use super::Geometry;
use super::clean::CleanMark;
use crate::cpu::Cost;
use crate::engine::{Bio, BioId, Core, PartId};
use crate::machine::Costs;
use disks::Op;
use domain::units::Bytes;
use event_queue::Time;
use governors::KernelVersion;

/// A member of an array, which is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The part that it is.
    pub part: PartId,
    /// Whether it has heads that move (`queue/rotational`).
    pub rotational: bool,
    /// Whether it is read only where no other member has the data (`--write-mostly`, RAID1).
    pub write_mostly: bool,
}

/// An array to simulate.
#[derive(Clone, Debug)]
pub struct ArraySpec {
    /// Its name: `md0`. Its threads are named after it.
    pub name: String,
    /// Where its bytes lie.
    pub geometry: Geometry,
    /// By role; `None` for one that is missing.
    pub members: Vec<Option<Member>>,
    /// Where the data area begins on each member (`dev-*/offset`).
    pub data_offset: Bytes,
    /// The kernel that is meant.
    pub kernel: KernelVersion,
    /// What work costs.
    pub costs: MdCosts,
    /// How long after its last write an array with redundancy is marked clean (`md/safe_mode_delay`), zero
    /// for never; `None` where it knows no such mark: in nanoseconds.
    pub safe_mode_delay: Option<Time>,
}

/// What an array's work costs. All defaults are assumed: orders of magnitude of a current kernel on a current
/// CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MdCosts {
    /// A request that goes on to a member: clone, address, submission. To whoever submits.
    pub map: Cost,
    /// A request that the array's thread sends on or takes care of.
    pub thread: Cost,
    /// A wake-up of a thread of RAID 4, 5 or 6.
    pub wake: Cost,
    /// A stripe of 4 KiB a member that RAID 4, 5 or 6 looks at once.
    pub stripe: Cost,
    /// A member's block in such a look.
    pub stripe_member: Cost,
    /// A block of a stripe that is read from a member or written to it. To the array's thread, which does all
    /// but its completion.
    pub stripe_io: Cost,
    /// A page of a request that is passed on the way to the one that is copied: `async_copy_data` begins with
    /// the request's first page for each stripe.
    pub stripe_seek: Cost,
    /// Each byte that goes into a parity, in 1/1024 of a cycle: 0.12 cycles with SSE or AVX from a cache.
    pub xor_byte_1024: u64,
    /// What such a byte costs more where the parities are RAID 6's, likewise.
    pub syndrome_byte_1024: u64,
    /// Each byte that is copied between a request and the stripe cache, likewise.
    pub copy_byte_1024: u64,
}

impl Default for MdCosts {
    fn default() -> Self {
        Self {
            map: Cost::cycles(800),
            thread: Cost::cycles(1_500),
            wake: Cost::NONE,
            stripe: Cost::cycles(4_000),
            stripe_member: Cost::NONE,
            stripe_io: Cost::NONE,
            stripe_seek: Cost::NONE,
            xor_byte_1024: 123,
            syndrome_byte_1024: 0,
            copy_byte_1024: 256,
        }
    }
}

impl MdCosts {
    /// Those of a machine: `md_map`, `md_thread`, `md_wake`, the `stripe…` ones, `xor_byte`, `syndrome_byte`
    /// and `copy_byte`.
    pub fn of(costs: &Costs) -> Self {
        Self {
            map: costs.once("md_map"),
            thread: costs.once("md_thread"),
            wake: costs.once("md_wake"),
            stripe: costs.once("stripe"),
            stripe_member: costs.once("stripe_member"),
            stripe_io: costs.once("stripe_io"),
            stripe_seek: costs.once("stripe_seek"),
            xor_byte_1024: costs.byte_1024("xor_byte"),
            syndrome_byte_1024: costs.byte_1024("syndrome_byte"),
            copy_byte_1024: costs.byte_1024("copy_byte"),
        }
    }

    /// Nothing costs anything.
    pub const FREE: Self = Self {
        map: Cost::NONE,
        thread: Cost::NONE,
        wake: Cost::NONE,
        stripe: Cost::NONE,
        stripe_member: Cost::NONE,
        stripe_io: Cost::NONE,
        stripe_seek: Cost::NONE,
        xor_byte_1024: 0,
        syndrome_byte_1024: 0,
        copy_byte_1024: 0,
    };
}

/// What a request to a member is for: the highest byte of its tag. Below it a byte with the member; then a
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Data,
    Flush,
    MetaFlush,
    MetaWrite,
    ResyncRead,
    ResyncWrite,
    Stripe,
    SuperFlush,
    SuperWrite,
}

const KINDS: [Kind; 9] = [
    Kind::Data,
    Kind::Flush,
    Kind::MetaFlush,
    Kind::MetaWrite,
    Kind::ResyncRead,
    Kind::ResyncWrite,
    Kind::Stripe,
    Kind::SuperFlush,
    Kind::SuperWrite,
];

/// The tag of a request to a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub(super) kind: Kind,
    pub(super) member: u32,
    pub(super) number: u32,
}

impl Tag {
    pub(super) const fn word(self) -> u64 {
        (self.kind as u64) << 56 | (self.member as u64) << 40 | self.number as u64
    }

    pub(super) fn of(word: u64) -> Self {
        let member = (word >> 40 & 0xffff) as u32;
        Self { kind: KINDS[(word >> 56) as usize], member, number: word as u32 }
    }
}

/// The way down from an array.
#[derive(Clone, Debug)]
pub(super) struct Below {
    pub(super) me: PartId,
    pub(super) device: usize,
    pub(super) data_offset: u64,
    pub(super) members: Vec<Option<Member>>,
    pub(super) mark: CleanMark,
}

impl Below {
    pub(super) fn new(me: PartId, device: usize, spec: &ArraySpec) -> Self {
        let (wanted, there) = (spec.geometry.members() as usize, spec.members.len());
        assert_eq!(wanted, there, "an array of {wanted} members is given {there}");
        Self {
            me,
            device,
            data_offset: spec.data_offset.get(),
            members: spec.members.clone(),
            mark: CleanMark::new(spec.safe_mode_delay.filter(|_| spec.geometry.level().is_redundant())),
        }
    }

    pub(super) fn is_there(&self, member: u32) -> bool {
        self.members[member as usize].is_some()
    }

    /// A request to a place in a member's data area.
    ///
    /// # Panics
    /// Where the member is missing.
    pub(super) fn request(&self, op: Op, tag: Tag, offset: u64, len: u64) -> Bio {
        let member =
            self.members[tag.member as usize].expect("whoever asks has seen that the member is there");
        Bio::new(self.me, member.part, op, self.data_offset + offset, len, tag.word())
    }

    /// The same, as a part of a request to the array.
    pub(super) fn share(&self, parent: BioId, of: &Bio, member: u32, offset: u64, len: u64) -> Bio {
        let tag = Tag { kind: Kind::Data, member, number: parent.0 };
        let bio = self.request(of.op, tag, offset, len);
        Bio { fua: of.fua, sync: of.sync, plugged: of.plugged, ..bio }
    }

    /// A request has come to the array.
    pub(super) fn begin(&self, core: &mut Core, id: BioId) -> Bio {
        core.count_start(self.device);
        core.bios[id.0].scratch = 0;
        core.bios[id.0]
    }

    /// It has so many parts; without any it is done.
    pub(super) fn expect(&mut self, core: &mut Core, id: BioId, parts: u64) {
        core.bios[id.0].scratch = parts;
        if parts == 0 {
            self.end(core, id);
        }
    }

    /// A part of it is done; whether it was the last, with which the request is done too.
    pub(super) fn part_done(&mut self, core: &mut Core, id: BioId) -> bool {
        let left = &mut core.bios[id.0].scratch;
        *left -= 1;
        if *left == 0 {
            self.end(core, id);
            return true;
        }
        false
    }

    fn end(&mut self, core: &mut Core, id: BioId) {
        let bio = core.bios[id.0];
        self.count_write(core, bio.op);
        core.count_end(self.device, bio.op, bio.len, bio.submitted, 0);
        core.complete(id);
    }

    /// A flush goes to every member (`md.c: md_flush_request`).
    pub(super) fn flush(&mut self, core: &mut Core, id: BioId) {
        let count = self.members.iter().flatten().count() as u64;
        self.expect(core, id, count);
        for member in (0..self.members.len() as u32).filter(|member| self.is_there(*member)) {
            let tag = Tag { kind: Kind::Flush, member, number: id.0 };
            let bio = self.request(Op::Flush, tag, 0, 0);
            core.submit(bio);
        }
    }
}
