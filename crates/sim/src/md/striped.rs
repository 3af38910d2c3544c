//! Arrays without redundancy, and LVM's stripes: a request is cut where its members change, and each piece
//! goes on at once, in the context of whoever asked.
//!
//! Follows `drivers/md/md-linear.c: linear_make_request`, `raid0.c: raid0_make_request` and
//! `drivers/md/dm-stripe.c: stripe_map` (6.1, 6.12). What pieces of a large request do not lose on a disk, a
//! plug makes whole again, where whoever asked has one ([`Bio::plugged`]).
//!
//! Left out: a discard goes to each member chunk by chunk, where the kernel sends one to each member.

use super::array::{ArraySpec, Below, MdCosts, Member, Tag};
use super::{Geometry, NoGeometry};
use crate::engine::{Bio, BioId, Core, Part, PartId};
use disks::Op;
use domain::stack::{Bitmap, Lvm, Md, MdLevel, Resync};
use domain::units::Bytes;
use governors::KernelVersion;

/// A linear array, a RAID0, or a striped volume.
pub struct Striped {
    below: Below,
    geometry: Geometry,
    costs: MdCosts,
}

impl Striped {
    /// The part `me`, which counts as `device`.
    ///
    /// # Panics
    /// Where the array's level is another, or a member is missing.
    pub fn new(me: PartId, device: usize, spec: &ArraySpec) -> Self {
        let level = spec.geometry.level();
        assert!(!level.is_redundant(), "level {} is not without redundancy", level.name());
        assert!(spec.members.iter().all(Option::is_some), "{} does not run without a member", spec.name);
        Self { below: Below::new(me, device, spec), geometry: spec.geometry.clone(), costs: spec.costs }
    }
}

/// A striped logical volume over the first of these devices, as an array: LVM gives each as much as the
/// smallest has, in whole extents. `sizes`: of what LVM may use on each device, beginning at `data_offset` (1
/// MiB, lvm.conf(5) `default_data_alignment`).
///
/// # Errors
/// Where a device has not one extent.
pub fn logical_volume(
    name: &str,
    lvm: &Lvm,
    members: &[Member],
    sizes: &[Bytes],
    costs: MdCosts,
    kernel: KernelVersion,
) -> Result<ArraySpec, NoGeometry> {
    /// vgcreate(8): the extent's usual size.
    const EXTENT: u64 = 4 << 20;
    let stripes = lvm.stripes.map_or(members.len(), |stripes| stripes as usize).min(members.len());
    let least = sizes.iter().take(stripes).min().map_or(0, |size| size.get());
    let md = Md {
        level: MdLevel::Raid0,
        layout: None,
        chunk: Some(lvm.stripe_size),
        bitmap: Bitmap::None,
        bitmap_chunk: None,
        write_mostly: 0,
        spares: 0,
        missing: 0,
        resync: Resync::Skip,
        stripe_cache_size: None,
        group_thread_cnt: None,
        safe_mode_delay: None,
    };
    let geometry = Geometry::over(&md, stripes as u32, Bytes::new(least / EXTENT * EXTENT))?;
    let members = members[..stripes].iter().copied().map(Some).collect();
    let data_offset = Bytes::from_mib(1);
    Ok(ArraySpec {
        name: name.to_owned(),
        geometry,
        members,
        data_offset,
        kernel,
        costs,
        safe_mode_delay: None,
    })
}

impl Part for Striped {
    fn submit(&mut self, core: &mut Core, id: BioId) {
        let bio = self.below.begin(core, id);
        if bio.op == Op::Flush {
            return self.below.flush(core, id);
        }
        let mut pieces = 0;
        for piece in self.geometry.pieces(Bytes::new(bio.offset), Bytes::new(bio.len)) {
            let (member, offset) = (piece.place.member, piece.place.offset.get());
            // As of a mirror: the member has a piece before the next is split off.
            core.charge_in_turn(self.costs.map);
            core.submit(self.below.share(id, &bio, member, offset, piece.len.get()));
            pieces += 1;
        }
        self.below.expect(core, id, pieces);
    }

    fn done(&mut self, core: &mut Core, bio: &Bio) {
        self.below.part_done(core, BioId(Tag::of(bio.tag).number));
    }

    fn size(&self) -> u64 {
        self.geometry.size().get()
    }
}
