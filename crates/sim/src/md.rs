//! Models of Linux software arrays (md(4)), and of LVM's stripes.
//!
//! [`geometry`] says where each byte of an array lies on its members; it is exact, and held against real arrays. The parts of a
//! simulated machine are [`striped`] (linear, RAID0, LVM) and [`mirror`] (RAID1, RAID10), with [`bitmap`] and [`resync`];
//! each says which kernel file it follows and what it leaves out.

mod array;
pub mod bitmap;
pub mod geometry;
pub mod mirror;
pub mod resync;
pub mod striped;
#[cfg(test)]
mod tests;

pub use array::{ArraySpec, MdCosts, Member};
pub use bitmap::BitmapSpec;
pub use geometry::{Geometry, Holds, NoGeometry, Piece, Place, Stripe};
pub use mirror::Mirror;
pub use resync::{Content, Repair, ResyncSpec};
pub use striped::{Striped, logical_volume};
