//! Claimed disks: written down before they are overwritten, and found again by what identifies them, in this boot or a
//! later one. Undoing erases our own superblocks, so that nobody assembles or mounts them; what a claim has backed up
//! goes back only when a person gives the disk back.

use super::Ledger;
use super::record::{Act, DiskRecord, Pending};
use super::report::Fate;
use crate::claims::{self, Claimed, Erased};
use crate::settings::Error;
use std::io;

impl Ledger<'_> {
    /// Announces that a claimed disk will be overwritten. Call it before the first destructive act on that disk, and
    /// drop what it gives back before the ledger is finished.
    ///
    /// # Errors
    /// [`Error::Claim`] where the disk cannot be read; [`Error::State`]. Nothing is to be written then.
    pub fn overwrite(&mut self, claimed: Claimed) -> Result<Claimed, Error> {
        let record = DiskRecord {
            id: self.next_id(),
            boot: self.boot.clone(),
            path: claimed.path().display().to_string(),
            claim: claimed.claim().id.clone(),
            disk: claimed.identity().clone(),
            before: claimed.examined().signatures.clone(),
            digest: claimed.digest()?,
        };
        self.announce(Pending::new(Act::Disk(record)))?;
        Ok(claimed)
    }
}

/// The disk, for people.
pub(super) fn in_words(record: &DiskRecord) -> String {
    format!("what Flyball wrote to `{}` ({})", record.path, record.disk.in_words())
}

/// Erases what we left on the disk. `boot` is `None` where it is not known which boot this is.
pub(super) fn erase(record: &DiskRecord, boot: Option<&str>) -> Fate {
    if is_void(record, boot) {
        return Fate::Rebooted;
    }
    erase_by_steps(record, &mut || Ok(()))
}

/// `step` is called before each write to the disk.
fn erase_by_steps(record: &DiskRecord, step: &mut dyn FnMut() -> io::Result<()>) -> Fate {
    match claims::erase(&record.disk, &record.before, &record.digest, step) {
        Ok(Erased::Erased) => Fate::Removed,
        Ok(Erased::Untouched) => Fate::Untouched,
        Ok(Erased::Gone(reason)) => Fate::Gone(reason),
        Ok(Erased::Foreign(now)) => Fate::Foreign { now, before: held_before(record) },
        Err(error) => Fate::Failed(error.to_string()),
    }
}

/// What undoing would do, for people. The disk is not looked at: that takes opening it, and a run may be on.
pub(super) fn foresee(record: &DiskRecord, boot: &str) -> Fate {
    if is_void(record, Some(boot)) { Fate::Rebooted } else { Fate::Removed }
}

/// A disk without a name that lasts is not to be found again after a restart.
fn is_void(record: &DiskRecord, boot: Option<&str>) -> bool {
    !record.disk.outlives_a_restart() && boot.is_some_and(|boot| boot != record.boot)
}

fn held_before(record: &DiskRecord) -> String {
    let words: Vec<String> = record.before.iter().map(ToString::to_string).collect();
    if words.is_empty() { "without signatures".to_owned() } else { words.join(", ") }
}
