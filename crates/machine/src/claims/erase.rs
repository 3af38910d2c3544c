//! Erasing what Flyball has left on a disk, and writing into the claim what is there then, so that the disk
//! may be overwritten again.
//!
//! Who erases may have seen all of it: it is the process that overwrote the disk, or its supervisor right
//! after its death. To such a witness whatever lies on the disk is the run's own, as long as every signature
//! is. It zeroes head and tail, so that no superblock of ours is found there.
//!
//! Everybody else comes later, and others may have been there before. He zeroes the blocks with superblocks
//! that bear a UUID of ours and nothing else, and renews the claim only where the disk is then as it was
//! before the run. Else it waits for a person.
//!
//! All of it can be cut short anywhere and begun again: the head goes last, and the places behind it first;
//! the claim is renewed when everything is zero and flushed.

use super::error::{ClaimError, Doing};
use super::examine::{What, look};
use super::gate::Taken;
use super::identity::{self, DiskIdentity};
use super::in_use::Held;
use super::node;
use super::own::Secret;
use super::reason::Reason;
use super::seen::{Moment, Seen};
use super::signatures::{Signature, ends};
use super::store::{Claim, Store, read_ends, sha256};
use crate::workload::Mark;
use rustix::fs::OFlags;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Further copies of a btrfs superblock (`fs/btrfs/disk-io.h`, `btrfs_sb_offset`), which `btrfs rescue`
/// finds.
const BTRFS_MIRRORS: [u64; 2] = [64 << 20, 256 << 30];
const BTRFS_LENGTH: usize = 4096;
const BTRFS_MAGIC: (usize, &[u8; 8]) = (0x40, b"_BHRfS_M");
const BTRFS_UUID: std::ops::Range<usize> = 0x20..0x30;

const BLOCK: u64 = 1 << 20;
/// What a superblock's magic number lies in, and no other superblock.
const SUPERBLOCK: u64 = 4096;
/// The first superblock hides the second one of LUKS2; nothing has more than ZFS's four.
const MAX_COPIES: usize = 8;

/// What a run has announced before it wrote, and who asks now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left<'a> {
    /// Where the claim is.
    pub state: &'a Path,
    /// The id of the claim.
    pub claim: &'a str,
    /// Which disk.
    pub disk: &'a DiskIdentity,
    /// The signatures before the run.
    pub before: &'a [Signature],
    /// The digest of head and tail before the run; `None` is a digest of zeros.
    pub digest: Option<&'a str>,
    /// Which start of the machine this is; `None` where that is not known.
    pub boot: Option<&'a str>,
    /// The processes to whom it is known what was written: who overwrote it is one of them, or not.
    pub witnesses: &'a [Mark],
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Erased {
    /// What we left is no more.
    Removed(Binding),
    /// Nothing had to be erased.
    Untouched(Binding),
    /// Something is there that is not ours; it was left.
    Foreign(String),
    /// There is no such disk now.
    Gone(String),
}

/// What became of the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// It says what is on the disk; or it is none that could.
    Good,
    /// Nobody can tell whose is what lies between head and tail, and the gate refuses the disk.
    Lost,
}

/// Erases what we left on a disk, and renews its claim. `step` is called before each write.
///
/// # Errors
/// [`ClaimError::Refused`] where it is in use; those of reading and writing.
pub(crate) fn erase(left: &Left<'_>, step: &mut dyn FnMut() -> io::Result<()>) -> Result<Erased, ClaimError> {
    let mut found = identity::find(left.disk)?;
    let Some(node) = found.pop() else {
        return Ok(Erased::Gone("there is no such disk now".to_owned()));
    };
    if !found.is_empty() {
        let differences = format!("{} answers to it too", found[0].name);
        return Err(super::gate::another(Doing::Erase, &node.path, differences));
    }
    let store = Store::at(left.state);
    let claim = store.find(left.claim)?.filter(|claim| claim.seen.is_some());
    if claim.as_ref().is_some_and(|claim| claim.overwriting.is_none()) {
        // What was left is in the claim already: the last one died right after that. What came since is not
        // ours.
        return Ok(Erased::Untouched(Binding::Good));
    }
    // Signatures are judged below: what stands against it here is use alone.
    let taken = Taken::take(node, OFlags::RDWR)?.refuse_unless(Doing::Erase, |_| true)?;
    let is_witness = claim.as_ref().is_some_and(|claim| left.is_seen_by_a_witness_of(claim));
    let eraser = Eraser { left, store, secret: Secret::load(left.state)?, claim, taken };
    if is_witness { eraser.witnessed(step) } else { eraser.later(step) }
}

impl Left<'_> {
    fn is_seen_by_a_witness_of(&self, claim: &Claim) -> bool {
        let Some(overwriting) = &claim.overwriting else { return false };
        let is_known = self.witnesses.iter().any(|mark| mark.as_str() == overwriting.by);
        is_known && self.boot == Some(&overwriting.boot)
    }
}

type Step<'a> = &'a mut dyn FnMut() -> io::Result<()>;

struct Eraser<'a> {
    left: &'a Left<'a>,
    store: Store,
    secret: Option<Secret>,
    /// One that says what was seen before the run.
    claim: Option<Claim>,
    taken: Taken,
}

impl Eraser<'_> {
    fn witnessed(mut self, step: Step<'_>) -> Result<Erased, ClaimError> {
        if self.has_ends_of_before()? {
            return Ok(Erased::Untouched(self.renew(step)?));
        }
        let was_there = |signature: &Signature| self.left.before.contains(signature);
        let foreign = self.taken.examined.reasons(|what| match what {
            What::Signature(signature) => self.is_own(signature) || was_there(signature),
            What::Data => true,
        });
        if !foreign.is_empty() {
            return Ok(told(&foreign));
        }
        self.overwrite(step)?;
        Ok(Erased::Removed(self.renew(step)?))
    }

    fn later(mut self, step: Step<'_>) -> Result<Erased, ClaimError> {
        if self.is_as_before()? {
            return Ok(Erased::Untouched(self.renew(step)?));
        }
        // A signature of before may be somebody's again by now, who has mounted what the run was to
        // overwrite.
        let foreign = self.taken.examined.reasons(|what| match what {
            What::Signature(signature) => self.is_own(signature),
            What::Data => true,
        });
        if !foreign.is_empty() {
            return Ok(told(&foreign));
        }
        let is_nameless = !self.taken.examined.blank && self.taken.examined.signatures.is_empty();
        let is_removed = self.remove_superblocks(step)?;
        let binding = match self.is_as_before()? {
            true => self.renew(step)?,
            false => Binding::Lost,
        };
        Ok(match is_removed {
            true => Erased::Removed(binding),
            false if is_nameless => told(&[Reason::Data]),
            false => Erased::Untouched(binding),
        })
    }

    /// Whether the disk is as it was before the run, as far as that was written down.
    fn is_as_before(&mut self) -> Result<bool, ClaimError> {
        match self.seen().cloned() {
            Some(seen) => Ok(seen.changes(&mut self.taken)?.is_empty()),
            None => self.has_ends_of_before(),
        }
    }

    fn is_own(&self, signature: &Signature) -> bool {
        self.secret.as_ref().is_some_and(|secret| secret.made(signature))
    }

    fn seen(&self) -> Option<&Seen> {
        self.claim.as_ref().and_then(|claim| claim.seen.as_ref())
    }

    fn has_ends_of_before(&self) -> Result<bool, ClaimError> {
        Ok(match self.left.digest {
            None => self.taken.examined.blank,
            Some(digest) => {
                let ends = read_ends(self.taken.device(), self.taken.node.size.get());
                sha256(&ends.map_err(|source| self.failed(source))?) == digest
            }
        })
    }

    fn overwrite(&mut self, step: Step<'_>) -> Result<(), ClaimError> {
        let size = self.taken.node.size.get();
        let written = overwrite(self.taken.device(), size, self.secret.as_ref(), step);
        written.map_err(|source| self.failed(source))?;
        // What the claim is to say is read back.
        self.taken.examined = look(&self.taken.node, Held::ByUs)?;
        if self.taken.examined.blank && self.taken.examined.signatures.is_empty() {
            return Ok(());
        }
        Err(self.failed(io::Error::other("zeros were written, and it reads otherwise")))
    }

    fn renew(&self, step: Step<'_>) -> Result<Binding, ClaimError> {
        self.taken.device().sync_all().map_err(|source| self.failed(source))?;
        let Some(claim) = &self.claim else { return Ok(Binding::Good) };
        let seen = Seen::of(&self.taken, Moment::Left)?;
        step().map_err(|source| self.failed(source))?;
        self.store.change(claim, |claim| {
            claim.seen = Some(seen);
            claim.overwriting = None;
        })?;
        Ok(Binding::Good)
    }

    /// Zeroes the blocks that hold superblocks of ours, and says whether there were any.
    fn remove_superblocks(&mut self, step: Step<'_>) -> Result<bool, ClaimError> {
        let before = self.taken.examined.signatures.clone();
        for _ in 0..MAX_COPIES {
            let own = self.taken.examined.signatures.iter().filter(|signature| self.is_own(signature));
            let blocks: BTreeSet<u64> =
                own.map(|signature| signature.offset / SUPERBLOCK * SUPERBLOCK).collect();
            if blocks.is_empty() {
                break;
            }
            let (device, size) = (self.taken.device(), self.taken.node.size.get());
            let written = erase_btrfs_mirrors(device, size, self.secret.as_ref(), step)
                .and_then(|()| {
                    zero(
                        device,
                        blocks.iter().rev().map(|start| (*start, SUPERBLOCK.min(size - start))),
                        step,
                    )
                })
                .and_then(|()| device.sync_all());
            written.map_err(|source| self.failed(source))?;
            self.taken.examined = look(&self.taken.node, Held::ByUs)?;
        }
        Ok(self.taken.examined.signatures != before)
    }

    fn failed(&self, source: io::Error) -> ClaimError {
        node::device_error("erase", &self.taken.node.path, source)
    }
}

fn told(foreign: &[Reason]) -> Erased {
    let words: Vec<String> = foreign.iter().map(Reason::to_string).collect();
    Erased::Foreign(words.join("; "))
}

fn overwrite(device: &File, size: u64, secret: Option<&Secret>, step: Step<'_>) -> io::Result<()> {
    erase_btrfs_mirrors(device, size, secret, step)?;
    for (start, length) in ends(size).into_iter().rev() {
        // From its end to its beginning: what the first blocks say stays until the last moment.
        let parts =
            (0..length.div_ceil(BLOCK)).rev().map(|n| (start + n * BLOCK, BLOCK.min(length - n * BLOCK)));
        zero(device, parts, step)?;
    }
    device.sync_all()
}

/// Each of at most [`BLOCK`] bytes.
fn zero(device: &File, parts: impl Iterator<Item = (u64, u64)>, step: Step<'_>) -> io::Result<()> {
    let zeros = vec![0; BLOCK as usize];
    for (start, length) in parts {
        step()?;
        device.write_all_at(&zeros[..length as usize], start)?;
    }
    Ok(())
}

fn erase_btrfs_mirrors(device: &File, size: u64, secret: Option<&Secret>, step: Step<'_>) -> io::Result<()> {
    for start in BTRFS_MIRRORS.into_iter().filter(|start| start + BTRFS_LENGTH as u64 <= size) {
        let mut block = vec![0; BTRFS_LENGTH];
        device.read_exact_at(&mut block, start)?;
        if secret.is_some_and(|secret| is_own_btrfs(&block, secret)) {
            step()?;
            device.write_all_at(&[0; BTRFS_LENGTH], start)?;
        }
    }
    Ok(())
}

fn is_own_btrfs(block: &[u8], secret: &Secret) -> bool {
    let (at, magic) = BTRFS_MAGIC;
    let uuid: String = block[BTRFS_UUID].iter().map(|byte| format!("{byte:02x}")).collect();
    block[at..at + magic.len()] == *magic && secret.gave(&uuid)
}
