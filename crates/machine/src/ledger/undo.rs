//! Undoing: in reverse order, each change by what is there now.
//!
//! Three cases: what we wrote is there, so the old value goes back; the old value is there, so nothing is to
//! be done; anything else is somebody else's, and is left and reported. Each step may be cut short and begun
//! again.

use super::devices::{self, Eraser};
use super::journal::Journal;
use super::objects::Held;
use super::record::{Act, Change, Pending, Record, Value};
use super::report::{RestoreReport, UndoOutcome, Undone};
use super::{built, objects};
use crate::Machine;
use crate::settings::{identity, is_rounding, means_absent, read, read_late, same};
use std::collections::BTreeSet;
use std::path::Path;

/// Some refusals end when another value is back (a minimum above the maximum), so that what failed is tried
/// again after the rest; a third pass has never helped.
const PASSES: usize = 2;

/// Which changes to undo.
#[derive(Clone, Copy)]
pub(super) enum Scope<'a> {
    /// Settings; files and loop devices of our own stay.
    Settings,
    /// Everything.
    Everything,
    /// These changes, by their ids.
    These(&'a BTreeSet<u64>),
}

impl Scope<'_> {
    fn holds(&self, entry: &Pending) -> bool {
        match self {
            Self::Settings => matches!(entry.act, Act::Setting(_)),
            Self::Everything => true,
            Self::These(ids) => ids.contains(&entry.id()),
        }
    }
}

/// On which machine changes are undone, and what is known of those that are no settings.
pub(super) struct Under<'a> {
    pub machine: &'a dyn Machine,
    /// Files that this process holds open: found again where they were moved.
    pub held: &'a Held,
    /// Erases what was left on claimed disks.
    pub eraser: &'a Eraser,
}

/// Undoes what is pending from index `from` on; what fails stays pending.
pub(super) fn undo(
    under: &Under<'_>,
    journal: &mut Journal,
    pending: &mut Vec<Pending>,
    from: usize,
    scope: &Scope<'_>,
) -> RestoreReport {
    let mut report = RestoreReport::default();
    let Under { machine, held, eraser } = *under;
    let boot = super::boot_id(machine).ok();
    let mut undoer = Undoer { machine, journal, held, eraser, boot, blocked: BTreeSet::new() };
    for pass in 1..=PASSES {
        let before = pending.len();
        undoer.blocked.clear();
        report.undone.retain(|u| !matches!(u.outcome, UndoOutcome::Failed(_)));
        for index in (from..pending.len()).rev() {
            if !scope.holds(&pending[index]) {
                continue;
            }
            let mut entry = pending[index].clone();
            let undone = undoer.entry(&mut entry, &mut report);
            if matches!(undone.outcome, UndoOutcome::Failed(_)) {
                pending[index] = entry;
            } else {
                // Should this note be lost, the change is judged again, and found to be undone.
                let _ = undoer.journal.note(&Record::Done { id: entry.id() });
                pending.remove(index);
            }
            report.push(undone);
        }
        let progress = pending.len() < before;
        if report.failed().next().is_none() || !progress || pass == PASSES {
            break;
        }
    }
    report
}

struct Undoer<'a> {
    machine: &'a dyn Machine,
    journal: &'a mut Journal,
    held: &'a Held,
    eraser: &'a Eraser,
    /// `None` where it cannot be read: then nothing is known to be void, and everything is judged.
    boot: Option<String>,
    /// Files of which a later change could not be undone: the earlier ones have to wait for it.
    blocked: BTreeSet<String>,
}

/// What is to be done about one file.
enum Verdict {
    Ours,
    Already,
    Foreign(String),
    Gone(String),
}

impl Undoer<'_> {
    fn entry(&mut self, entry: &mut Pending, report: &mut RestoreReport) -> Undone {
        let same_boot = self.boot.as_deref().is_none_or(|boot| boot == entry.boot());
        let (what, path, outcome) = match &entry.act {
            Act::Setting(change) => {
                let (what, path) = (change.setting.clone(), change.path.clone());
                let outcome = if same_boot { self.setting(entry, report) } else { UndoOutcome::Rebooted };
                (what, path, outcome)
            }
            Act::Loop(device) => {
                let node = crate::loopdev::node(device.number).display().to_string();
                let outcome = if same_boot { objects::remove_loop(device) } else { UndoOutcome::Rebooted };
                if matches!(outcome, UndoOutcome::Failed(_)) {
                    self.blocked.insert(device.file.clone());
                }
                (node.clone(), node, outcome)
            }
            Act::Built(record) => {
                let what = record.part.what();
                (what.clone(), what, built::take_down(self.machine, record, same_boot))
            }
            Act::Disk(disk) => {
                let (outcome, note) = self.eraser.erase(disk, self.boot.as_deref());
                report.notes.extend(note);
                (devices::in_words(disk), disk.path.clone(), outcome)
            }
            Act::File(file) => {
                let outcome = if self.blocked.contains(&file.path) {
                    UndoOutcome::Failed("a loop device still uses it".into())
                } else {
                    objects::remove_file(file, self.held.get(&file.id), same_boot)
                };
                (file.path.clone(), file.path.clone(), outcome)
            }
        };
        if matches!(outcome, UndoOutcome::Failed(_)) {
            self.blocked.insert(path.clone());
        }
        Undone { what, path, outcome }
    }

    fn setting(&mut self, entry: &mut Pending, report: &mut RestoreReport) -> UndoOutcome {
        let Act::Setting(change) = entry.act.clone() else { unreachable!("the caller has matched it") };
        let waits = |path: &String| self.blocked.contains(path);
        if waits(&change.path) || change.keeps.iter().any(|keep| waits(&keep.path)) {
            return UndoOutcome::Failed("a later change has to be undone first".into());
        }
        self.put_back(&change, entry, report).unwrap_or_else(UndoOutcome::Failed)
    }

    /// `Err` says why it failed.
    fn put_back(
        &mut self,
        change: &Change,
        entry: &mut Pending,
        report: &mut RestoreReport,
    ) -> Result<UndoOutcome, String> {
        let now = self.read(&change.path)?;
        let verdict = self.judge(change, entry, now.as_deref());
        let outcome = match verdict {
            Verdict::Gone(reason) => return Ok(UndoOutcome::Gone(reason)),
            Verdict::Foreign(now) => {
                return Ok(UndoOutcome::Foreign { now, before: change.old.clone() });
            }
            // Never done; or done, and undone by somebody else, who then has taken over what came with it.
            Verdict::Already if entry.returning.is_none() => return Ok(UndoOutcome::Untouched),
            Verdict::Already => UndoOutcome::Untouched,
            Verdict::Ours => {
                UndoOutcome::Restored { from: now.clone().unwrap_or_default(), to: change.old.clone() }
            }
        };
        let foreign = self.returning(change, entry)?;
        if matches!(outcome, UndoOutcome::Restored { .. }) {
            let value = change.instead.clone();
            let write =
                value.unwrap_or_else(|| Value { path: change.path.clone(), value: change.old.clone() });
            self.write(&write)?;
            let is_late = |back: &str| now.as_deref().is_some_and(|now| same(back, now));
            let back = self.read_late(&change.path, is_late)?;
            if !back.as_deref().is_some_and(|back| same(back, &change.old)) {
                let shown = back.unwrap_or_else(|| "nothing".into());
                return Err(format!(
                    "`{}` was written to `{}`, and it reads `{shown}`",
                    write.value, write.path
                ));
            }
        }
        for keep in change.keeps.iter().filter(|keep| !foreign.contains(&keep.path)) {
            self.put_back_kept(keep)?;
        }
        for path in foreign {
            let keep = change.keeps.iter().find(|keep| keep.path == path);
            let before = keep.map(|keep| keep.value.clone()).unwrap_or_default();
            let now = self.read(&path)?.unwrap_or_default();
            let outcome = UndoOutcome::Foreign { now, before };
            report.push(Undone { what: path.clone(), path, outcome });
        }
        Ok(outcome)
    }

    /// Reads before it judges anything else, so that a machine that cannot be read is never taken for another
    /// one.
    fn judge(&self, change: &Change, entry: &Pending, now: Option<&str>) -> Verdict {
        let Some(now) = now else { return Verdict::Gone(format!("there is no `{}` now", change.path)) };
        if !change.identity.agrees_with(&identity(self.machine, &change.path)) {
            return Verdict::Gone(format!("`{}` belongs to another object now", change.path));
        }
        judge(change, entry, now)
    }

    /// Which of the kept files somebody else has changed, written down before the change itself is undone:
    /// from then on the kernel's own resetting of them looks just like a stranger's write.
    fn returning(&mut self, change: &Change, entry: &mut Pending) -> Result<Vec<String>, String> {
        if change.keeps.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(foreign) = &entry.returning {
            return Ok(foreign.clone());
        }
        let mut foreign = Vec::new();
        for (index, keep) in change.keeps.iter().enumerate() {
            let got = entry.got.as_ref().and_then(|got| got.kept.get(index)).and_then(Option::as_deref);
            let (Some(got), Some(now)) = (got, self.read(&keep.path)?) else { continue };
            if !same(&now, &keep.value) && !same(&now, got) {
                foreign.push(keep.path.clone());
            }
        }
        let record = Record::Returning { id: change.id, foreign: foreign.clone() };
        self.journal.note(&record).map_err(|error| error.to_string())?;
        entry.returning = Some(foreign.clone());
        Ok(foreign)
    }

    fn put_back_kept(&self, keep: &Value) -> Result<(), String> {
        let Some(now) = self.read(&keep.path)? else { return Ok(()) };
        if same(&now, &keep.value) {
            return Ok(());
        }
        self.write(keep)?;
        let back = self.read(&keep.path)?.unwrap_or_default();
        if same(&back, &keep.value) {
            return Ok(());
        }
        Err(format!("`{}` was written to `{}`, and it reads `{back}`", keep.value, keep.path))
    }

    fn read(&self, path: &str) -> Result<Option<String>, String> {
        read(self.machine, path).map_err(|error| format!("cannot read `{path}`: {error}"))
    }

    fn read_late(&self, path: &str, waits: impl Fn(&str) -> bool) -> Result<Option<String>, String> {
        read_late(self.machine, path, waits).map_err(|error| format!("cannot read `{path}`: {error}"))
    }

    fn write(&self, value: &Value) -> Result<(), String> {
        match self.machine.write(Path::new(&value.path), &super::bytes(&value.value)) {
            Err(error) if !means_absent(&error) => {
                Err(format!("cannot write `{}` to `{}`: {error}", value.value, value.path))
            }
            // What is gone is found out by the reading back.
            _ => Ok(()),
        }
    }
}

/// The three cases, for a value that is there.
fn judge(change: &Change, entry: &Pending, now: &str) -> Verdict {
    let ours = |value: &str| same(now, value);
    // The kernel may have made something else of our value, and the writer died before it could see what.
    let unseen_rounding = || entry.got.is_none() && is_rounding(&change.old, &change.new, now);
    if same(now, &change.old) {
        Verdict::Already
    } else if ours(&change.new) || entry.got.as_ref().is_some_and(|got| ours(&got.value)) || unseen_rounding()
    {
        Verdict::Ours
    } else {
        Verdict::Foreign(now.to_owned())
    }
}

/// What undoing a setting would do, for people: see [`super::Status`].
pub(super) fn foresee(machine: &dyn Machine, change: &Change, entry: &Pending, boot: &str) -> UndoOutcome {
    if change.boot != boot {
        return UndoOutcome::Rebooted;
    }
    let now = match read(machine, &change.path) {
        Ok(Some(now)) => now,
        Ok(None) => return UndoOutcome::Gone(format!("there is no `{}` now", change.path)),
        Err(error) => return UndoOutcome::Failed(format!("cannot read `{}`: {error}", change.path)),
    };
    if !change.identity.agrees_with(&identity(machine, &change.path)) {
        return UndoOutcome::Gone(format!("`{}` belongs to another object now", change.path));
    }
    match judge(change, entry, &now) {
        Verdict::Already => UndoOutcome::Untouched,
        Verdict::Ours => UndoOutcome::Restored { from: now, to: change.old.clone() },
        Verdict::Foreign(now) => UndoOutcome::Foreign { now, before: change.old.clone() },
        Verdict::Gone(reason) => UndoOutcome::Gone(reason),
    }
}
