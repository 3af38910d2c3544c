//! Models of Linux software arrays (md(4)), and of LVM's stripes.
//!
//! [`geometry`] says where each byte of an array lies on its members; it is exact, and held against real
//! arrays. The parts of a simulated machine are [`striped`] (linear, RAID0, LVM) [`mirror`] (RAID1, RAID10)
//! and [`parity`] (RAID4, 5, 6), with [`bitmap`] and [`resync`]; each says which kernel file it follows and
//! what it leaves out.

mod array;
pub mod bitmap;
mod clean;
pub mod geometry;
pub mod mirror;
pub mod parity;
pub mod resync;
pub mod striped;
mod stripes;
#[cfg(test)]
pub(super) mod tests;

pub use array::{ArraySpec, MdCosts, Member};
pub use bitmap::BitmapSpec;
pub use geometry::{Geometry, Holds, NoGeometry, Piece, Place, Stripe};
pub use mirror::Mirror;
pub use parity::{Parity, ParitySpec, ReadModifyWrite};
pub use resync::{Content, Repair, ResyncSpec};
pub use striped::{Striped, logical_volume};
