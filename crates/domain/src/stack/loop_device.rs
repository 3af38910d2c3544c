//! A loop device over each device below, as hosts of VM images and containers have it: losetup(8), loop(4).

use super::layer::{Described, Kind};
use super::values::Values;
use super::{Part, StackError};
use std::fmt;

pub(super) const KIND: Kind = Kind {
    name: "loop",
    keys: &["kind", "use", "on", "direct_io", "sector_size"],
    read: |values| read(values).map(Part::Loop),
};

/// A loop device (losetup(8)).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loop {
    /// Whether it reads and writes past the page cache.
    pub direct_io: bool,
    /// Its logical sectors, in bytes: 512 to 4096; `None` for those of the device below where it reads and
    /// writes past the page cache, and for 512 elsewhere.
    pub sector_size: Option<u32>,
}

impl Described for Loop {
    fn gives(&self, below: u32) -> u32 {
        below
    }
}

impl fmt::Display for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.direct_io { "loop direct" } else { "loop buffered" })?;
        self.sector_size.iter().try_for_each(|size| write!(f, " sectors of {size} bytes"))
    }
}

fn read(values: &Values<'_>) -> Result<Loop, StackError> {
    const SECTORS: [(&str, Option<u32>); 4] =
        [("512", Some(512)), ("1024", Some(1024)), ("2048", Some(2048)), ("4096", Some(4096))];
    Ok(Loop {
        direct_io: values.switch("direct_io", false)?,
        sector_size: values.one_of("sector_size", &SECTORS, None)?,
    })
}
