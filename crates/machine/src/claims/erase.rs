//! Erasing what Flyball has left on a disk: zeros over head and tail, so that no superblock of ours is found there.
//!
//! Only where every signature is ours, or was there before us and may be overwritten. It can be cut short anywhere and
//! begun again: the head goes last, and the places behind it first.

use super::error::{ClaimError, Doing};
use super::examine::What;
use super::gate::Taken;
use super::identity::{self, DiskIdentity};
use super::node;
use super::own::is_own_uuid;
use super::reason::Reason;
use super::signatures::{Signature, ends};
use super::store::{read_ends, sha256};
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Further copies of a btrfs superblock (`fs/btrfs/disk-io.h`, `btrfs_sb_offset`), which `btrfs rescue` finds.
const BTRFS_MIRRORS: [u64; 2] = [64 << 20, 256 << 30];
const BTRFS_LENGTH: usize = 4096;
const BTRFS_MAGIC: (usize, &[u8; 8]) = (0x40, b"_BHRfS_M");
const BTRFS_UUID: std::ops::Range<usize> = 0x20..0x30;

const BLOCK: u64 = 1 << 20;

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Erased {
    /// Head and tail are zero.
    Zeroed,
    /// Head and tail are as they were before us.
    Untouched,
    /// Something is there that is not ours; it was left.
    Foreign(String),
    /// There is no such disk now.
    Gone(String),
}

/// Erases what we left on the disk of this identity. `before` are the signatures, and `digest` the digest of head and
/// tail, when it was taken; `None` is a digest of zeros. `step` is called before each write.
///
/// # Errors
/// [`ClaimError::Refused`] where it is in use; those of reading and writing.
pub(crate) fn erase(
    claimed: &DiskIdentity,
    before: &[Signature],
    digest: Option<&str>,
    step: &mut dyn FnMut() -> io::Result<()>,
) -> Result<Erased, ClaimError> {
    let mut found = identity::find(claimed)?;
    let Some(node) = found.pop() else {
        return Ok(Erased::Gone("there is no such disk now".to_owned()));
    };
    if !found.is_empty() {
        let differences = format!("{} answers to it too", found[0].name);
        return Err(super::gate::another(Doing::Erase, &node.path, differences));
    }
    // Signatures are judged below: what stands against it here is use alone.
    let taken = Taken::take(node, OFlags::RDWR)?.refuse_unless(Doing::Erase, |_| true)?;
    let failed = |source| node::device_error("erase", &taken.node.path, source);
    let (device, size) = (taken.device(), taken.node.size.get());
    let unchanged = match digest {
        None => taken.examined.blank,
        Some(digest) => sha256(&read_ends(device, size).map_err(failed)?) == digest,
    };
    if unchanged {
        device.sync_all().map_err(failed)?;
        return Ok(Erased::Untouched);
    }
    let foreign = taken.examined.reasons(|what| match what {
        What::Signature(signature) => signature.is_own() || before.contains(signature),
        What::Data => true,
    });
    if !foreign.is_empty() {
        let words: Vec<String> = foreign.iter().map(Reason::to_string).collect();
        return Ok(Erased::Foreign(words.join("; ")));
    }
    overwrite(device, size, step).map_err(failed)?;
    Ok(Erased::Zeroed)
}

fn overwrite(device: &File, size: u64, step: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
    for start in BTRFS_MIRRORS.into_iter().filter(|start| start + BTRFS_LENGTH as u64 <= size) {
        let mut block = vec![0; BTRFS_LENGTH];
        device.read_exact_at(&mut block, start)?;
        if is_own_btrfs(&block) {
            step()?;
            device.write_all_at(&[0; BTRFS_LENGTH], start)?;
        }
    }
    let zeros = vec![0; BLOCK as usize];
    for (start, length) in ends(size).into_iter().rev() {
        // From its end to its beginning: what the first blocks say stays until the last moment.
        let mut left = length;
        while left > 0 {
            let part = if left.is_multiple_of(BLOCK) { BLOCK } else { left % BLOCK };
            left -= part;
            step()?;
            device.write_all_at(&zeros[..part as usize], start + left)?;
        }
    }
    device.sync_all()
}

fn is_own_btrfs(block: &[u8]) -> bool {
    let (at, magic) = BTRFS_MAGIC;
    let uuid: String = block[BTRFS_UUID].iter().map(|byte| format!("{byte:02x}")).collect();
    block[at..at + magic.len()] == *magic && is_own_uuid(&uuid)
}
