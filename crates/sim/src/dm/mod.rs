//! The device mapper's targets: what stands between a filesystem and the devices below, by name.
//!
//! [`crypt`] is dm-crypt. Logical volumes are [`crate::md::logical_volume`]: LVM's stripes are laid out as an
//! array's are.

pub mod crypt;
