//! A Linux software array over all devices below: md(4), mdadm(8).

use super::layer::{Described, Kind, Misfit, misfit};
use super::values::{CHUNKS, Values};
use super::{MAX_DEVICES, Part, StackError};
use crate::time::Nanos;
use crate::units::Bytes;
use std::fmt;

type Result<T> = std::result::Result<T, StackError>;

pub(super) const KIND: Kind = Kind {
    name: "md",
    keys: &[
        "kind",
        "use",
        "on",
        "level",
        "layout",
        "chunk",
        "bitmap",
        "bitmap_chunk",
        "write_mostly",
        "spares",
        "missing",
        "resync",
        "stripe_cache_size",
        "group_thread_cnt",
        "safe_mode_delay",
    ],
    read: |values| read(values).map(Part::Md),
};

/// An array (mdadm(8), md(4)).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Md {
    /// `linear`, `0`, `1`, `4`, `5`, `6` or `10`.
    pub level: MdLevel,
    /// As mdadm names it: `n2`, `f2`, `o2`, `left-symmetric`; `None` for mdadm's own choice.
    pub layout: Option<String>,
    /// Chunk size, where the level has one; `None` for mdadm's own choice.
    pub chunk: Option<Bytes>,
    /// Whether it has a write-intent bitmap.
    pub bitmap: Bitmap,
    /// What one bit of it stands for; `None` for mdadm's own choice.
    pub bitmap_chunk: Option<Bytes>,
    /// So many of the members that are there, the last ones, are read only where no other has the data.
    /// Level 1 alone.
    pub write_mostly: u32,
    /// So many of the devices below, the last ones, are spares.
    pub spares: u32,
    /// So many members, the last ones before the spares, are left out: the array is degraded.
    pub missing: u32,
    /// What becomes of the first resync.
    pub resync: Resync,
    /// `md/stripe_cache_size`, in pages a device; levels 4, 5 and 6.
    pub stripe_cache_size: Option<u32>,
    /// `md/group_thread_cnt`; levels 4, 5 and 6.
    pub group_thread_cnt: Option<u32>,
    /// `md/safe_mode_delay`, of levels with redundancy: so long after its last write an array is marked
    /// clean, for which its members are flushed, and again before the next write (md(4)). Zero: never.
    pub safe_mode_delay: Option<Nanos>,
}

/// The kernel's own `safe_mode_delay` (`drivers/md/md.c`: `DEFAULT_SAFEMODE_DELAY`), to which it adds a tick.
pub const SAFE_MODE_DELAY: Nanos = Nanos::from_millis(200);

/// A level of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MdLevel {
    /// One after the other.
    Linear,
    /// Striped.
    Raid0,
    /// Mirrored.
    Raid1,
    /// Striped, with a disk of parity.
    Raid4,
    /// Striped, with parity on each in turn.
    Raid5,
    /// Striped, with two parities.
    Raid6,
    /// Striped and mirrored.
    Raid10,
}

impl MdLevel {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Linear, Self::Raid0, Self::Raid1, Self::Raid4, Self::Raid5, Self::Raid6, Self::Raid10];

    /// As mdadm takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Raid0 => "0",
            Self::Raid1 => "1",
            Self::Raid4 => "4",
            Self::Raid5 => "5",
            Self::Raid6 => "6",
            Self::Raid10 => "10",
        }
    }

    /// Whether it has parity, and with it a stripe cache.
    pub const fn has_parity(self) -> bool {
        matches!(self, Self::Raid4 | Self::Raid5 | Self::Raid6)
    }

    /// Whether it survives the loss of a member, and with it has resync, bitmap and spares.
    pub const fn is_redundant(self) -> bool {
        !matches!(self, Self::Linear | Self::Raid0)
    }

    /// Whether data is laid out in chunks.
    pub const fn has_chunks(self) -> bool {
        !matches!(self, Self::Raid1)
    }

    /// The least number of members.
    pub const fn least_members(self) -> u32 {
        match self {
            Self::Linear | Self::Raid0 | Self::Raid1 | Self::Raid10 => 2,
            Self::Raid4 | Self::Raid5 => 3,
            Self::Raid6 => 4,
        }
    }
}

/// A write-intent bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bitmap {
    /// None.
    None,
    /// On the members.
    Internal,
    /// On the members, without a lock: `drivers/md/md-llbitmap.c`, since Linux 6.18.
    Lockless,
}

impl Bitmap {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Internal, Self::Lockless];

    /// Its name in a study.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Internal => "internal",
            Self::Lockless => "llbitmap",
        }
    }
}

/// What becomes of the first resync of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resync {
    /// It is waited for.
    Wait,
    /// The members are said to be in agreement (`--assume-clean`). Mirrors and parity are then wrong where
    /// nothing was written, which costs no time and matters to nobody who reads only what was written.
    Skip,
    /// It runs in the background of the workload and is started anew for each trial: of a missing member, its
    /// rebuilding on a spare.
    Background,
}

impl Described for Md {
    fn gives(&self, _below: u32) -> u32 {
        1
    }

    fn fits(&self, below: u32) -> std::result::Result<(), Misfit> {
        let members = below.saturating_sub(self.spares);
        let least = self.level.least_members();
        if members < least {
            return misfit(
                "level",
                format!("is {}, which needs {least} members; there are {members}", self.level.name()),
            );
        }
        let bearable = match self.level {
            MdLevel::Linear | MdLevel::Raid0 => 0,
            MdLevel::Raid1 => members - 1,
            MdLevel::Raid4 | MdLevel::Raid5 => 1,
            MdLevel::Raid6 => 2,
            MdLevel::Raid10 => members / 2,
        };
        if self.missing > bearable {
            return misfit(
                "missing",
                format!("is {}, and this array runs without {bearable} at the most", self.missing),
            );
        }
        let there = members - self.missing;
        if self.write_mostly >= there {
            let (marked, most) = (self.write_mostly, there - 1);
            return misfit(
                "write_mostly",
                format!("is {marked}, and one member has to be left to read from: {most} at the most"),
            );
        }
        // `mdadm --create` marks all devices that follow the option, and spares come last.
        if self.write_mostly > 0 && self.spares > 0 {
            return misfit("write_mostly", "cannot stand beside `spares`, which mdadm would mark too");
        }
        // What is missing can only be rebuilt on a spare, and one at a time.
        if self.resync == Resync::Background && self.missing > self.spares.min(1) {
            let (missing, spares) = (self.missing, self.spares);
            return misfit(
                "resync",
                format!(
                    "is `background`, which rebuilds one missing member on a spare; {missing} are missing, and there are \
{spares} spares; write `missing = 1` and `spares = 1`"
                ),
            );
        }
        Ok(())
    }

    fn resyncs_in_background(&self) -> bool {
        self.resync == Resync::Background
    }

    fn timers(&mut self) -> Vec<(&mut Option<Nanos>, Nanos)> {
        if self.level.is_redundant() {
            vec![(&mut self.safe_mode_delay, SAFE_MODE_DELAY)]
        } else {
            Vec::new()
        }
    }
}

impl fmt::Display for Md {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level.name();
        if self.level == MdLevel::Linear {
            f.write_str(level)?
        } else {
            write!(f, "raid{level}")?
        }
        self.layout.iter().try_for_each(|layout| write!(f, " {layout}"))?;
        self.chunk.iter().try_for_each(|chunk| write!(f, " {chunk}"))?;
        if self.missing > 0 { write!(f, " degraded by {}", self.missing) } else { Ok(()) }
    }
}

/// mdadm(8), `--bitmap-chunk`; the superblock of a bitmap has 32 bits for it.
const BITMAP_CHUNKS: std::ops::RangeInclusive<Bytes> = Bytes::from_kib(4)..=Bytes::from_mib(1024);

/// Longer than anybody waits for a clean array.
const LONGEST_SAFE_MODE_DELAY: Nanos = Nanos::from_secs(60);

/// `resync`. Its older word `beside` is understood until version 0.2.
fn resync(values: &Values<'_>) -> Result<Resync> {
    if values.text("resync") == Some("beside") {
        return Ok(Resync::Background);
    }
    let choices = [("wait", Resync::Wait), ("skip", Resync::Skip), ("background", Resync::Background)];
    values.one_of("resync", &choices, Resync::Wait)
}

fn read(values: &Values<'_>) -> Result<Md> {
    if values.text("level").is_none() {
        return values.refuse("level", "is missing; write `level = 5`");
    }
    let levels = MdLevel::ALL.map(|level| (level.name(), level));
    let level = values.one_of("level", &levels, MdLevel::Raid0)?;
    let layout = values.word("layout", "-")?;
    let chunk = values.size("chunk", CHUNKS)?;
    let bitmap = values.one_of("bitmap", &Bitmap::ALL.map(|bitmap| (bitmap.name(), bitmap)), Bitmap::None)?;
    let bitmap_chunk = values.size("bitmap_chunk", BITMAP_CHUNKS)?;
    let write_mostly = values.count("write_mostly", 0..=MAX_DEVICES)?.unwrap_or(0);
    let spares = values.count("spares", 0..=MAX_DEVICES)?.unwrap_or(0);
    let missing = values.count("missing", 0..=2)?.unwrap_or(0);
    let resync = resync(values)?;
    // The kernel's own bounds: drivers/md/raid5.c, raid5_set_cache_size and raid5_store_group_thread_cnt.
    let stripe_cache_size = values.count("stripe_cache_size", 17..=32768)?;
    let group_thread_cnt = values.count("group_thread_cnt", 0..=8192)?;
    let safe_mode_delay = values.time("safe_mode_delay", Nanos::ZERO..=LONGEST_SAFE_MODE_DELAY)?;
    if chunk.is_some_and(|chunk| !chunk.get().is_power_of_two()) {
        return values.refuse("chunk", "has to be a power of two");
    }
    if bitmap_chunk.is_some_and(|chunk| !chunk.get().is_power_of_two()) {
        return values.refuse("bitmap_chunk", "has to be a power of two");
    }
    let bitmap = if level.is_redundant() { bitmap } else { Bitmap::None };
    // A factor over levels sets these for all of them. Where a level has no such thing, it is left out.
    Ok(Md {
        level,
        layout: layout.filter(|layout| suits(level, layout)),
        chunk: chunk.filter(|_| level.has_chunks()),
        bitmap,
        bitmap_chunk: bitmap_chunk.filter(|_| bitmap == Bitmap::Internal),
        write_mostly: if level == MdLevel::Raid1 { write_mostly } else { 0 },
        spares: if level.is_redundant() { spares } else { 0 },
        missing,
        resync: if level.is_redundant() { resync } else { Resync::Skip },
        stripe_cache_size: stripe_cache_size.filter(|_| level.has_parity()),
        group_thread_cnt: group_thread_cnt.filter(|_| level.has_parity()),
        safe_mode_delay: safe_mode_delay.filter(|_| level.is_redundant()),
    })
}

/// Whether a layout's name is one of this level: `n2` is RAID10's, `left-symmetric` RAID5's and RAID6's.
fn suits(level: MdLevel, layout: &str) -> bool {
    let near_far_offset = layout.starts_with(['n', 'f', 'o']) && layout[1..].parse::<u8>().is_ok();
    match level {
        MdLevel::Raid10 => near_far_offset,
        MdLevel::Raid5 | MdLevel::Raid6 => !near_far_offset,
        MdLevel::Linear | MdLevel::Raid0 | MdLevel::Raid1 | MdLevel::Raid4 => false,
    }
}
