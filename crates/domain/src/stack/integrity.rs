//! dm-integrity, which keeps a tag of each sector below it and holds what is read against that:
//! `Documentation/admin-guide/device-mapper/dm-integrity.rst`, integritysetup(8).

use super::layer::{Described, Kind};
use super::values::Values;
use super::{Part, StackError};
use crate::time::Nanos;
use crate::units::Bytes;
use std::fmt;

pub(super) const KIND: Kind = Kind {
    name: "integrity",
    keys: &[
        "kind",
        "use",
        "on",
        "algorithm",
        "tag_size",
        "sector_size",
        "interleave_sectors",
        "mode",
        "journal_size",
        "journal_watermark",
        "journal_commit_time",
        "bitmap_sectors_per_bit",
        "bitmap_flush_time",
    ],
    read: |values| read(values).map(Part::Integrity),
};

/// dm-integrity (integritysetup(8)).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Integrity {
    /// What the tag of a sector is.
    pub algorithm: TagAlgorithm,
    /// How many bytes of it are kept.
    pub tag_size: u32,
    /// What has a tag: 512 to 4096 bytes.
    pub sector_size: u32,
    /// So many sectors of 512 bytes lie between two areas of tags; `None` for the kernel's own choice.
    pub interleave_sectors: Option<u32>,
    /// How data and its tag are kept in agreement.
    pub mode: IntegrityMode,
    /// The area of the journal, in which a bitmap lies too; `None` for the kernel's own choice.
    pub journal_size: Option<Bytes>,
    /// How full a journal is when it is written back, in percent.
    pub journal_watermark: Option<u32>,
    /// How long a journal may wait before it is committed.
    pub journal_commit_time: Option<Nanos>,
    /// How many sectors of 512 bytes a bit of the bitmap stands for.
    pub bitmap_sectors_per_bit: Option<u32>,
    /// How long bits of the bitmap stay set.
    pub bitmap_flush_time: Option<Nanos>,
}

/// The kernel's own commit time and flush time (`DEFAULT_AUTOCOMMIT_MSEC`, `BITMAP_FLUSH_INTERVAL`).
const USUAL_TIME: Nanos = Nanos::from_secs(10);

/// Longer than anybody waits for a commit.
const LONGEST_TIME: Nanos = Nanos::from_secs(3600);

/// A section of the journal has some hundred KiB, and the kernel rounds to whole sections.
const JOURNALS: std::ops::RangeInclusive<Bytes> = Bytes::from_mib(1)..=Bytes::from_mib(4096);

/// Checksums and hashes without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "these are their names")]
pub enum TagAlgorithm {
    Crc32c,
    Crc32,
    Sha1,
    Sha256,
}

impl TagAlgorithm {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Crc32c, Self::Crc32, Self::Sha1, Self::Sha256];

    /// As integritysetup and the kernel take it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Crc32 => "crc32",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }

    /// How many bytes it gives.
    pub const fn size(self) -> u32 {
        match self {
            Self::Crc32c | Self::Crc32 => 4,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

/// How data and its tag are kept in agreement when the machine stops between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IntegrityMode {
    /// Both are written to a journal first.
    Journal,
    /// A bitmap says which regions are being written; after a crash their tags are made anew.
    Bitmap,
    /// They are not.
    Direct,
}

impl IntegrityMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Journal, Self::Bitmap, Self::Direct];

    /// Its name in a study.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Bitmap => "bitmap",
            Self::Direct => "direct",
        }
    }
}

impl Described for Integrity {
    fn gives(&self, below: u32) -> u32 {
        below
    }

    /// That of its mode.
    fn timers(&mut self) -> Vec<(&mut Option<Nanos>, Nanos)> {
        match self.mode {
            IntegrityMode::Journal => vec![(&mut self.journal_commit_time, USUAL_TIME)],
            IntegrityMode::Bitmap => vec![(&mut self.bitmap_flush_time, USUAL_TIME)],
            IntegrityMode::Direct => Vec::new(),
        }
    }
}

impl fmt::Display for Integrity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "integrity {} {}", self.algorithm.name(), self.mode.name())
    }
}

fn read(values: &Values<'_>) -> Result<Integrity, StackError> {
    const SECTORS: [(&str, u32); 4] = [("512", 512), ("1024", 1024), ("2048", 2048), ("4096", 4096)];
    let algorithms = TagAlgorithm::ALL.map(|algorithm| (algorithm.name(), algorithm));
    let modes = IntegrityMode::ALL.map(|mode| (mode.name(), mode));
    let algorithm = values.one_of("algorithm", &algorithms, TagAlgorithm::Crc32c)?;
    let mode = values.one_of("mode", &modes, IntegrityMode::Journal)?;
    let sector_size = values.one_of("sector_size", &SECTORS, 512)?;
    // The least and the most that the kernel takes: MIN_LOG2_INTERLEAVE_SECTORS and
    // MAX_LOG2_INTERLEAVE_SECTORS, which is 31.
    let interleave_sectors = power_of_two(values, "interleave_sectors", 8)?;
    let bitmap_sectors_per_bit = power_of_two(values, "bitmap_sectors_per_bit", sector_size / 512)?;
    let watermark = values.count("journal_watermark", 1..=99)?;
    let commit_time = time(values, "journal_commit_time")?;
    let flush_time = time(values, "bitmap_flush_time")?;
    let (has_journal, has_bitmap) = (mode == IntegrityMode::Journal, mode == IntegrityMode::Bitmap);
    // A factor over modes sets these for all of them. Where a mode has no such thing, it is left out.
    Ok(Integrity {
        algorithm,
        tag_size: values.count("tag_size", 1..=algorithm.size())?.unwrap_or(algorithm.size()),
        sector_size,
        interleave_sectors,
        mode,
        journal_size: values.size("journal_size", JOURNALS)?,
        journal_watermark: watermark.filter(|_| has_journal),
        journal_commit_time: commit_time.filter(|_| has_journal),
        bitmap_sectors_per_bit: bitmap_sectors_per_bit.filter(|_| has_bitmap),
        bitmap_flush_time: flush_time.filter(|_| has_bitmap),
    })
}

fn power_of_two(values: &Values<'_>, key: &'static str, least: u32) -> Result<Option<u32>, StackError> {
    let count = values.count(key, least..=1 << 31)?;
    if count.is_some_and(|count| !count.is_power_of_two()) {
        return values.refuse(key, "has to be a power of two");
    }
    Ok(count)
}

/// In whole milliseconds, as integritysetup takes it.
fn time(values: &Values<'_>, key: &'static str) -> Result<Option<Nanos>, StackError> {
    const MILLISECOND: Nanos = Nanos::from_millis(1);
    let time = values.time(key, MILLISECOND..=LONGEST_TIME)?;
    if time.is_some_and(|time| !time.get().is_multiple_of(MILLISECOND.get())) {
        return values.refuse(key, "has to be in whole milliseconds");
    }
    Ok(time)
}
