//! Models of Linux software arrays (md(4)), and of LVM's stripes.
//!
//! [`geometry`] says where each byte of an array lies on its members; it is exact, and held against real arrays.

pub mod geometry;

pub use geometry::{Geometry, Holds, NoGeometry, Piece, Place, Stripe};
