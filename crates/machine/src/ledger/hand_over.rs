//! Changes that leave the ledger in order to last, and that come back to it in order to be undone.

use super::record::{Act, Change, Got, Pending, Record, Value};
use super::{Ledger, RestoreReport, Scope};
use crate::lasting::{Entry, Inverse, Keep, OldValue};
use crate::settings::Error;

/// A setting's change that is not undone yet.
pub(crate) struct Held {
    pub id: u64,
    pub path: String,
    pub inverse: Inverse,
}

impl Ledger<'_> {
    /// After which id come the changes that are made from now on.
    pub(crate) const fn mark(&self) -> u64 {
        self.last_id
    }

    /// Which start of the machine this is.
    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    /// The settings that were changed after this mark.
    pub(crate) fn held_since(&self, mark: u64) -> Vec<Held> {
        let held = |entry: &Pending| match &entry.act {
            Act::Setting(change) if change.id > mark => {
                let inverse = inverse(change, entry.got.as_ref());
                Some(Held { id: change.id, path: change.path.clone(), inverse })
            }
            _ => None,
        };
        self.pending.iter().filter_map(held).collect()
    }

    /// Forgets changes without undoing them: what they are is written down elsewhere. They are forgotten all
    /// at once, or none is.
    ///
    /// # Errors
    /// [`Error::State`].
    pub(crate) fn give_up(&mut self, ids: &[u64]) -> Result<(), Error> {
        self.pending.retain(|entry| !ids.contains(&entry.id()));
        if self.is_damaged {
            // Its file must not be made anew; cut short, this is done again by whoever resumes.
            let done: Vec<Record> = ids.iter().map(|id| Record::Done { id: *id }).collect();
            return self.journal.announce(&done);
        }
        self.journal.retire(&self.pending)
    }

    /// Takes lasting changes back, so that they are undone as any other. What is here already is not taken
    /// twice.
    ///
    /// # Errors
    /// [`Error::State`].
    pub(crate) fn take_back(&mut self, entries: &[Entry]) -> Result<(), Error> {
        let taken: Vec<Pending> = entries.iter().filter_map(|entry| self.pending_of(entry)).collect();
        if taken.is_empty() {
            return Ok(());
        }
        let lines: Vec<Record> = taken.iter().flat_map(Pending::records).collect();
        self.journal.announce(&lines)?;
        self.pending.extend(taken);
        Ok(())
    }

    /// `None` where there is nothing to undo: the value was there before, or is taken back already.
    fn pending_of(&mut self, entry: &Entry) -> Option<Pending> {
        let inverse = entry.inverse.as_ref()?;
        let is_here = |p: &Pending| matches!(&p.act, Act::Setting(c) if c.path == entry.path && c.old == inverse.old && c.new == entry.new);
        if self.pending.iter().any(is_here) {
            return None;
        }
        let value = |old: &OldValue| Value { path: old.path.clone(), value: old.value.clone() };
        let keeps = inverse.keeps.iter().map(|k| Value { path: k.path.clone(), value: k.value.clone() });
        let id = self.next_id();
        let change = Change {
            id,
            boot: self.boot.clone(),
            setting: entry.setting.clone(),
            path: entry.path.clone(),
            identity: entry.identity.clone(),
            old: inverse.old.clone(),
            new: entry.new.clone(),
            instead: inverse.instead.as_ref().map(value),
            keeps: keeps.collect(),
        };
        let kept = inverse.keeps.iter().map(|keep| keep.after.clone()).collect();
        let got = Some(Got { id, value: entry.new.clone(), kept });
        Some(Pending { act: Act::Setting(change), got, returning: None })
    }

    /// Undoes everything, and says what became of it.
    pub(crate) fn undo_everything(&mut self) -> RestoreReport {
        self.undo_and_retire(0, &Scope::Everything)
    }
}

fn inverse(change: &Change, got: Option<&Got>) -> Inverse {
    let keep = |(index, keep): (usize, &Value)| Keep {
        path: keep.path.clone(),
        value: keep.value.clone(),
        after: got.and_then(|got| got.kept.get(index)).cloned().flatten(),
    };
    let old = |value: &Value| OldValue { path: value.path.clone(), value: value.value.clone() };
    Inverse {
        old: change.old.clone(),
        instead: change.instead.as_ref().map(old),
        keeps: change.keeps.iter().enumerate().map(keep).collect(),
    }
}
