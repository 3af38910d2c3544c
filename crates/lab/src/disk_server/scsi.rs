//! The SCSI commands that a modelled disk understands: bytes in, a decision out. Nothing here touches data or
//! memory.
//!
//! Sources: SPC-4 (INQUIRY, MODE SENSE, REPORT LUNS, sense data) and SBC-3 (the rest). It is what Linux's
//! `sd` and sg3-utils ask for, with the answers that QEMU 10.0's `scsi-hd` gives; what a disk knows nothing
//! of is refused, as there. Left out: changing a mode page, protection information, reservations, and UNMAP
//! of several ranges in one command.

mod pages;

use super::model::{Act, DiskRequest, Geometry, MAX_BYTES, Refusal};
use disks::DiskSpec;
use disks::spec::MediumSpec;

/// How long a command is at most, as virtio-scsi carries it.
pub(super) const CDB: usize = 32;

/// The most blocks of one UNMAP.
const MAX_UNMAP: u32 = 1 << 21;

/// What a disk says of itself.
#[derive(Clone, Debug)]
pub(super) struct ScsiIdentity {
    /// Its serial number.
    name: String,
    product: String,
    rotation_rate: u16,
    physical_block: u32,
    geometry: Geometry,
    can_unmap: bool,
}

/// What follows from a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// These bytes, or as many of them as there is room for; none where a command has only a status.
    Say(Vec<u8>),
    /// The disk does this, and it is answered when it has.
    Do(DiskRequest),
    /// It fails.
    Refuse(Sense),
}

/// Why a command failed: sense key, additional sense code and its qualifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sense(u8, u8, u8);

impl Sense {
    pub(super) const INVALID_FIELD: Self = Self(5, 0x24, 0);
    const UNKNOWN_COMMAND: Self = Self(5, 0x20, 0);
    const BEYOND_END: Self = Self(5, 0x21, 0);
    const INVALID_PARAMETER: Self = Self(5, 0x26, 0);
    const SHORT_PARAMETERS: Self = Self(5, 0x1a, 0);
    const NOT_SAVED: Self = Self(5, 0x39, 0);
    const NO_SPACE: Self = Self(7, 0x27, 7);
    const MEDIUM_ERROR: Self = Self(3, 0x0c, 0);

    /// In the fixed format, as a current error.
    pub(super) const fn bytes(self) -> [u8; 18] {
        let mut bytes = [0; 18];
        (bytes[0], bytes[2], bytes[7]) = (0x70, self.0, 10);
        (bytes[12], bytes[13]) = (self.1, self.2);
        bytes
    }
}

impl From<Refusal> for Sense {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid => Self::INVALID_FIELD,
            Refusal::BeyondEnd => Self::BEYOND_END,
            Refusal::NoSpace => Self::NO_SPACE,
            Refusal::Io => Self::MEDIUM_ERROR,
        }
    }
}

impl ScsiIdentity {
    pub(super) fn new(name: &str, spec: &DiskSpec) -> Self {
        Self {
            name: name.to_owned(),
            product: spec.model.clone(),
            rotation_rate: spec.rotation_rate(),
            physical_block: spec.physical_block.get() as u32,
            geometry: Geometry::new(spec),
            can_unmap: matches!(spec.medium, MediumSpec::Ssd(_)),
        }
    }

    const fn block(&self) -> u64 {
        self.geometry.logical_block as u64
    }

    /// The most blocks of one read, write or run of zeros.
    const fn most_blocks(&self) -> u32 {
        MAX_BYTES / self.geometry.logical_block
    }
}

const TEST_UNIT_READY: u8 = 0x00;
const REQUEST_SENSE: u8 = 0x03;
const READ_6: u8 = 0x08;
const WRITE_6: u8 = 0x0a;
const INQUIRY: u8 = 0x12;
const MODE_SENSE_6: u8 = 0x1a;
const START_STOP: u8 = 0x1b;
const ALLOW_REMOVAL: u8 = 0x1e;
const READ_CAPACITY_10: u8 = 0x25;
const READ_10: u8 = 0x28;
const WRITE_10: u8 = 0x2a;
const SYNCHRONIZE_10: u8 = 0x35;
const WRITE_SAME_10: u8 = 0x41;
const UNMAP: u8 = 0x42;
const MODE_SENSE_10: u8 = 0x5a;
const READ_16: u8 = 0x88;
const WRITE_16: u8 = 0x8a;
const SYNCHRONIZE_16: u8 = 0x91;
const WRITE_SAME_16: u8 = 0x93;
const SERVICE_ACTION_IN: u8 = 0x9e;
const REPORT_LUNS: u8 = 0xa0;
const READ_12: u8 = 0xa8;
const WRITE_12: u8 = 0xaa;

/// How many bytes of its data a command is decided by: none for a write.
pub(super) fn parameter_bytes(cdb: &[u8; CDB], identity: &ScsiIdentity) -> usize {
    match cdb[0] {
        UNMAP => usize::from(half(cdb, 7)),
        WRITE_SAME_10 | WRITE_SAME_16 => identity.block() as usize,
        _ => 0,
    }
}

/// What follows from a command and the first of its data, [`parameter_bytes`] of them or as many as there
/// are.
pub(super) fn decide(cdb: &[u8; CDB], parameters: &[u8], identity: &ScsiIdentity) -> Decision {
    let decided = match cdb[0] {
        TEST_UNIT_READY | START_STOP | ALLOW_REMOVAL => Ok(Decision::Say(Vec::new())),
        REQUEST_SENSE => say(&Sense(0, 0, 0).bytes(), usize::from(cdb[4])),
        INQUIRY => pages::inquiry(cdb, identity).and_then(|bytes| say(&bytes, usize::from(half(cdb, 3)))),
        MODE_SENSE_6 => pages::mode_sense_6(cdb, identity).and_then(|bytes| say(&bytes, usize::from(cdb[4]))),
        MODE_SENSE_10 => {
            pages::mode_sense_10(cdb, identity).and_then(|bytes| say(&bytes, usize::from(half(cdb, 7))))
        }
        READ_CAPACITY_10 => say(&pages::capacity_10(identity), 8),
        SERVICE_ACTION_IN if cdb[1] & 0x1f == 0x10 => {
            say(&pages::capacity_16(identity), word(cdb, 10) as usize)
        }
        REPORT_LUNS => say(&pages::luns(), word(cdb, 6) as usize),
        SYNCHRONIZE_10 | SYNCHRONIZE_16 => {
            Ok(Decision::Do(DiskRequest { act: Act::Flush, fua: false, offset: 0, len: 0 }))
        }
        READ_6 | WRITE_6 | READ_10 | WRITE_10 | READ_12 | WRITE_12 | READ_16 | WRITE_16 => {
            transfer(cdb, identity)
        }
        WRITE_SAME_10 | WRITE_SAME_16 => write_same(cdb, parameters, identity),
        UNMAP if identity.can_unmap => unmap(cdb, parameters, identity),
        _ => Err(Sense::UNKNOWN_COMMAND),
    };
    decided.unwrap_or_else(Decision::Refuse)
}

fn say(bytes: &[u8], most: usize) -> Result<Decision, Sense> {
    Ok(Decision::Say(bytes[..bytes.len().min(most)].to_vec()))
}

/// Address and number of blocks of a command of 6, 10, 12 or 16 bytes.
fn extent(cdb: &[u8; CDB]) -> (u64, u32) {
    match cdb[0] {
        READ_6 | WRITE_6 => {
            let blocks = if cdb[4] == 0 { 256 } else { u32::from(cdb[4]) };
            (u64::from(word(cdb, 0) & 0x1f_ffff), blocks)
        }
        READ_12 | WRITE_12 => (u64::from(word(cdb, 2)), word(cdb, 6)),
        READ_16 | WRITE_16 | WRITE_SAME_16 => (double(cdb, 2), word(cdb, 10)),
        _ => (u64::from(word(cdb, 2)), u32::from(half(cdb, 7))),
    }
}

/// A range of blocks as a request for bytes; nothing is done where it is empty.
fn ask(act: Act, fua: bool, first: u64, blocks: u32, identity: &ScsiIdentity) -> Result<Decision, Sense> {
    let last = identity.geometry.size / identity.block();
    match first.checked_add(u64::from(blocks)) {
        Some(end) if end <= last => {}
        _ => return Err(Sense::BEYOND_END),
    }
    if blocks == 0 {
        return Ok(Decision::Say(Vec::new()));
    }
    // Both are within the disk, whose bytes are counted in 64 bits.
    let (offset, len) = (first * identity.block(), u64::from(blocks) * identity.block());
    Ok(Decision::Do(DiskRequest { act, fua, offset, len }))
}

fn transfer(cdb: &[u8; CDB], identity: &ScsiIdentity) -> Result<Decision, Sense> {
    let (first, blocks) = extent(cdb);
    let is_short = matches!(cdb[0], READ_6 | WRITE_6);
    let protection = !is_short && cdb[1] & 0xe0 != 0;
    if protection || blocks > identity.most_blocks() {
        return Err(Sense::INVALID_FIELD);
    }
    let act = match cdb[0] {
        READ_6 | READ_10 | READ_12 | READ_16 => Act::Read,
        _ => Act::Write,
    };
    ask(act, !is_short && cdb[1] & 8 != 0, first, blocks, identity)
}

/// Zeros, and nothing else, are written many times over. With UNMAP they need no place.
fn write_same(cdb: &[u8; CDB], parameters: &[u8], identity: &ScsiIdentity) -> Result<Decision, Sense> {
    const PROTECTION: u8 = 0xe0;
    const ANCHOR: u8 = 0x10;
    const UNMAP_BIT: u8 = 8;
    const NO_DATA: u8 = 1;
    let (first, blocks) = extent(cdb);
    let no_data = cdb[0] == WRITE_SAME_16 && cdb[1] & NO_DATA != 0;
    let wants_unmap = cdb[1] & UNMAP_BIT != 0;
    let is_unknown = cdb[1] & (PROTECTION | ANCHOR) != 0 || (wants_unmap && !identity.can_unmap);
    if is_unknown || blocks == 0 || blocks > identity.most_blocks() {
        return Err(Sense::INVALID_FIELD);
    }
    if !no_data && parameters.len() < identity.block() as usize {
        return Err(Sense::INVALID_FIELD);
    }
    if !no_data && parameters.iter().any(|byte| *byte != 0) {
        return Err(Sense::INVALID_FIELD);
    }
    let act = if wants_unmap { Act::Discard } else { Act::Zero };
    ask(act, false, first, blocks, identity)
}

fn unmap(cdb: &[u8; CDB], parameters: &[u8], identity: &ScsiIdentity) -> Result<Decision, Sense> {
    const ANCHOR: u8 = 1;
    if cdb[1] & ANCHOR != 0 {
        return Err(Sense::INVALID_FIELD);
    }
    if half(cdb, 7) == 0 {
        return Ok(Decision::Say(Vec::new()));
    }
    let Some(header) = parameters.first_chunk::<8>() else { return Err(Sense::SHORT_PARAMETERS) };
    let descriptors = usize::from(half(header, 2));
    let ranges = parameters.get(8..8 + descriptors).ok_or(Sense::SHORT_PARAMETERS)?;
    match (ranges.len() / 16, ranges.first_chunk::<16>()) {
        (0, _) | (_, None) => Ok(Decision::Say(Vec::new())),
        (1, Some(range)) if word(range, 8) <= MAX_UNMAP => {
            ask(Act::Discard, false, double(range, 0), word(range, 8), identity)
        }
        _ => Err(Sense::INVALID_PARAMETER),
    }
}

/// Big-endian numbers in bytes that are long enough.
fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    (u32::from(half(bytes, at)) << 16) | u32::from(half(bytes, at + 2))
}

fn double(bytes: &[u8], at: usize) -> u64 {
    (u64::from(word(bytes, at)) << 32) | u64::from(word(bytes, at + 4))
}

#[cfg(test)]
mod tests;
