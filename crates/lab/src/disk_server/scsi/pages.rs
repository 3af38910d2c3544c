//! What a disk tells of itself: INQUIRY and its vital product data, mode pages, capacity, logical units.

use super::{CDB, MAX_UNMAP, ScsiIdentity, Sense};

const VENDOR: &str = "FLYBALL";

/// The revision that QEMU's own disks tell, whose place these took: a guest's record of its disks is as it
/// was.
const REVISION: &str = "2.5+";

/// How many characters of its product's name a disk tells.
const PRODUCT: usize = 16;

/// How many characters of its name a disk tells as its designator, and as its serial number.
const MAX_NAME: usize = 36;

/// INQUIRY.
pub(super) fn inquiry(cdb: &[u8; CDB], identity: &ScsiIdentity) -> Result<Vec<u8>, Sense> {
    const VITAL: u8 = 1;
    match (cdb[1] & VITAL != 0, cdb[2]) {
        (true, page) => vital(page, identity),
        (false, 0) => Ok(standard(identity)),
        (false, _) => Err(Sense::INVALID_FIELD),
    }
}

fn standard(identity: &ScsiIdentity) -> Vec<u8> {
    const SPC_3: u8 = 5;
    const HIERARCHICAL_LUNS: u8 = 0x10;
    const SYNCHRONOUS: u8 = 0x10;
    const COMMAND_QUEUE: u8 = 2;
    let mut bytes = vec![0, 0, SPC_3, HIERARCHICAL_LUNS | 2, 31, 0, 0, SYNCHRONOUS | COMMAND_QUEUE];
    bytes.extend(text(VENDOR, 8));
    bytes.extend(text(&identity.product, PRODUCT));
    bytes.extend(text(REVISION, 4));
    bytes
}

/// ASCII of a fixed length, filled with spaces. A comma is left out, as it was where it separated options.
fn text(words: &str, len: usize) -> Vec<u8> {
    let is_plain = |byte: &u8| (b' '..=b'~').contains(byte) && *byte != b',';
    let mut bytes: Vec<u8> = words.bytes().filter(is_plain).take(len).collect();
    bytes.resize(len, b' ');
    bytes
}

fn vital(page: u8, identity: &ScsiIdentity) -> Result<Vec<u8>, Sense> {
    let name = || identity.name.bytes().take(MAX_NAME);
    let body = match page {
        0x00 if identity.can_unmap => vec![0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2],
        0x00 => vec![0x00, 0x80, 0x83, 0xb0, 0xb1],
        0x80 => name().collect(),
        0x83 => designator(name().collect()),
        0xb0 => limits(identity),
        0xb1 => {
            let mut bytes = identity.rotation_rate.to_be_bytes().to_vec();
            bytes.resize(60, 0);
            bytes
        }
        // UNMAP and both WRITE SAMEs; thin provisioning.
        0xb2 if identity.can_unmap => vec![0, 0xe0, 2, 0],
        _ => return Err(Sense::INVALID_FIELD),
    };
    let mut bytes = vec![0, page];
    bytes.extend((body.len() as u16).to_be_bytes());
    bytes.extend(body);
    Ok(bytes)
}

/// One designator: the unit's, in ASCII, of the vendor's own making.
fn designator(name: Vec<u8>) -> Vec<u8> {
    const ASCII: u8 = 2;
    const VENDOR_SPECIFIC: u8 = 0;
    let mut bytes = vec![ASCII, VENDOR_SPECIFIC, 0, name.len() as u8];
    bytes.extend(name);
    bytes
}

/// Block limits (VPD page B0), from its fifth byte on.
fn limits(identity: &ScsiIdentity) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    // A number of blocks of zero is no WRITE SAME to the end of the disk.
    bytes[0] = 1;
    let most = identity.most_blocks().to_be_bytes();
    bytes[4..8].copy_from_slice(&most);
    if identity.can_unmap {
        bytes[16..20].copy_from_slice(&MAX_UNMAP.to_be_bytes());
        bytes[20..24].copy_from_slice(&1_u32.to_be_bytes());
        let granularity = 4096_u32.max(identity.physical_block) / identity.geometry.logical_block;
        bytes[24..28].copy_from_slice(&granularity.to_be_bytes());
    }
    bytes[36..40].copy_from_slice(&most);
    bytes
}

/// MODE SENSE(6).
pub(super) fn mode_sense_6(cdb: &[u8; CDB], identity: &ScsiIdentity) -> Result<Vec<u8>, Sense> {
    let (block, pages) = mode(cdb, identity)?;
    let mut bytes = vec![0, 0, device_specific(identity), block.len() as u8];
    bytes.extend(block);
    bytes.extend(pages);
    bytes[0] = (bytes.len() - 1) as u8;
    Ok(bytes)
}

/// MODE SENSE(10).
pub(super) fn mode_sense_10(cdb: &[u8; CDB], identity: &ScsiIdentity) -> Result<Vec<u8>, Sense> {
    let (block, pages) = mode(cdb, identity)?;
    let mut bytes = vec![0, 0, 0, device_specific(identity), 0, 0, 0, block.len() as u8];
    bytes.extend(block);
    bytes.extend(pages);
    let len = (bytes.len() - 2) as u16;
    bytes[..2].copy_from_slice(&len.to_be_bytes());
    Ok(bytes)
}

/// It can be written, and knows forced unit access.
const fn device_specific(identity: &ScsiIdentity) -> u8 {
    const DPO_FUA: u8 = 0x10;
    if identity.geometry.has_write_cache { DPO_FUA } else { 0 }
}

/// The block descriptor, where it is wanted, and the pages that are asked for.
fn mode(cdb: &[u8; CDB], identity: &ScsiIdentity) -> Result<(Vec<u8>, Vec<u8>), Sense> {
    const NO_BLOCK: u8 = 8;
    const CHANGEABLE: u8 = 1;
    const SAVED: u8 = 3;
    let (control, page, subpage) = (cdb[2] >> 6, cdb[2] & 0x3f, cdb[3]);
    if control == SAVED {
        return Err(Sense::NOT_SAVED);
    }
    let pages = match (page, subpage) {
        (0x08, 0) => caching(identity, control == CHANGEABLE),
        (0x0a, 0) => control_page(),
        (0x3f, 0 | 0xff) => [caching(identity, control == CHANGEABLE), control_page()].concat(),
        _ => return Err(Sense::INVALID_FIELD),
    };
    let block = if cdb[1] & NO_BLOCK != 0 { Vec::new() } else { block_descriptor(identity) };
    Ok((block, pages))
}

fn block_descriptor(identity: &ScsiIdentity) -> Vec<u8> {
    let blocks = u32::try_from(identity.geometry.size / identity.block()).unwrap_or(0).min(0xff_ffff);
    [blocks.to_be_bytes(), identity.geometry.logical_block.to_be_bytes()].concat()
}

/// The caching page; nothing of it can be changed.
fn caching(identity: &ScsiIdentity, is_mask: bool) -> Vec<u8> {
    const WRITE_CACHE: u8 = 4;
    let mut bytes = vec![0; 20];
    (bytes[0], bytes[1]) = (0x08, 18);
    bytes[2] = if identity.geometry.has_write_cache && !is_mask { WRITE_CACHE } else { 0 };
    bytes
}

/// The control page: all of it is as usual.
fn control_page() -> Vec<u8> {
    let mut bytes = vec![0; 12];
    (bytes[0], bytes[1]) = (0x0a, 10);
    bytes
}

/// READ CAPACITY(10): the last block, or that it has more of them than fit here.
pub(super) fn capacity_10(identity: &ScsiIdentity) -> [u8; 8] {
    let last = u32::try_from(last_block(identity)).unwrap_or(u32::MAX);
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&last.to_be_bytes());
    bytes[4..].copy_from_slice(&identity.geometry.logical_block.to_be_bytes());
    bytes
}

/// READ CAPACITY(16).
pub(super) fn capacity_16(identity: &ScsiIdentity) -> [u8; 32] {
    const THIN: u8 = 0x80;
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&last_block(identity).to_be_bytes());
    bytes[8..12].copy_from_slice(&identity.geometry.logical_block.to_be_bytes());
    bytes[13] = (identity.physical_block / identity.geometry.logical_block).max(1).ilog2() as u8;
    bytes[14] = if identity.can_unmap { THIN } else { 0 };
    bytes
}

const fn last_block(identity: &ScsiIdentity) -> u64 {
    (identity.geometry.size / identity.block()).saturating_sub(1)
}

/// REPORT LUNS: unit 0 alone.
pub(super) fn luns() -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[3] = 8;
    bytes
}
