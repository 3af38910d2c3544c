//! A striped logical volume over all devices below: lvmraid(7).

use super::layer::{Described, Kind, Misfit, misfit};
use super::values::{CHUNKS, Values};
use super::{MAX_DEVICES, Part, StackError};
use crate::units::Bytes;
use std::fmt;

pub(super) const KIND: Kind = Kind {
    name: "lvm",
    keys: &["kind", "use", "on", "stripes", "stripe_size"],
    read: |values| read(values).map(Part::Lvm),
};

/// A logical volume over all that is below.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lvm {
    /// Over how many devices; `None` for all.
    pub stripes: Option<u32>,
    /// How much goes to each before the next.
    pub stripe_size: Bytes,
}

impl Described for Lvm {
    fn gives(&self, _below: u32) -> u32 {
        1
    }

    fn fits(&self, below: u32) -> Result<(), Misfit> {
        if self.stripes.is_some_and(|stripes| stripes > below) {
            return misfit("stripes", format!("is more than the {below} devices below"));
        }
        Ok(())
    }
}

impl fmt::Display for Lvm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lvm striped by {}", self.stripe_size)
    }
}

fn read(values: &Values<'_>) -> Result<Lvm, StackError> {
    let stripes = values.count("stripes", 1..=MAX_DEVICES)?;
    let stripe_size = values.size("stripe_size", CHUNKS)?.unwrap_or(Bytes::from_kib(64));
    if !stripe_size.get().is_power_of_two() {
        return values.refuse("stripe_size", "has to be a power of two");
    }
    Ok(Lvm { stripes, stripe_size })
}
