//! Changing a machine so that it can be undone.
//!
//! Each change is written down, with what was there before, and is on the disk before it is made; it is read
//! back and verified; it is undone in reverse order. Kill the program at any point: what is left in the
//! ledger is undone when a ledger is opened next, by the [supervisor](crate::supervise) or by the next
//! Flyball. A value that somebody else has written since is left alone and reported. Settings do not outlive
//! a restart of the machine, so that their records are void after one; files of our own are removed all the
//! same, and what was left on a [claimed](crate::claims) disk is erased.
//!
//! A ledger that another version of this program has written to, and that is not understood to the last
//! field, is not touched, and neither is the machine. Of a damaged one all else is undone; then nothing is
//! changed any more until [`Ledger::recover`] has said so.
//!
//! Dropping a [`Ledger`] undoes nothing: an error could not be told. Call [`Ledger::restore`] after each
//! trial and [`Ledger::finish`] at the end.

mod apply;
mod built;
mod databases;
mod devices;
mod hand_over;
mod held;
mod journal;
mod line;
mod objects;
mod record;
mod report;
mod served;
mod status;
mod undo;
mod whereabouts;

pub use apply::{PlannedWrite, preview};
pub use built::Built;
pub(crate) use built::NULL_BLK;
pub use databases::OwnDatabase;
pub use objects::{LoopDevice, OwnFile};
pub use report::{RestoreReport, UndoOutcome, Undone};
pub use status::{PendingChange, Status, status};

use crate::Machine;
use crate::lock::Lock;
use crate::settings::Error;
use crate::workload::Mark;
use devices::Eraser;
use domain::setting::{SettingName, SettingRecord};
use journal::{Journal, Loaded};
use objects::Held;
use record::{Pending, Record};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use undo::{Scope, Under};

/// How long a second Flyball waits for the first: long enough for a supervisor to end its work, short enough
/// to be told at once that another run is on.
const PATIENCE: Duration = Duration::from_secs(1);

/// What undoes a ledger.
const UNDO: &str = "flyball restore";

/// The ledger of this machine, held by this process alone.
#[derive(Debug)]
pub struct Ledger<'m> {
    machine: &'m dyn Machine,
    journal: Journal,
    pending: Vec<Pending>,
    boot: String,
    last_id: u64,
    held: Held,
    /// Settings that the kernel takes back when these are dropped.
    limits: Vec<crate::Held>,
    /// Its file holds lines that cannot be read, and must not be emptied.
    is_damaged: bool,
    eraser: Eraser,
    _lock: Lock,
}

impl std::fmt::Debug for dyn Machine + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Machine")
    }
}

impl<'m> Ledger<'m> {
    /// Opens the ledger in this folder, which is made where it is missing, and undoes what an earlier process
    /// left changed. What cannot be undone stays in the ledger, and is in the report.
    ///
    /// # Errors
    /// [`Error::Busy`] where another Flyball has it; [`Error::State`] where the folder cannot be used;
    /// [`Error::NotUnderstood`] where another version has written to it: nothing is touched then;
    /// [`Error::Damaged`] where a change may have been lost: what was readable is undone then.
    pub fn open(state: &Path, machine: &'m dyn Machine) -> Result<(Self, RestoreReport), Error> {
        Self::open_within(PATIENCE, state, machine)
    }

    /// The same, waiting longer or shorter for another Flyball to end.
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn open_within(
        patience: Duration,
        state: &Path,
        machine: &'m dyn Machine,
    ) -> Result<(Self, RestoreReport), Error> {
        Self::take_over(patience, state, machine, None)
    }

    /// The same for the supervisor of a process that has died just now: what that one has written to claimed
    /// disks is known to be its own.
    pub(crate) fn take_over(
        patience: Duration,
        state: &Path,
        machine: &'m dyn Machine,
        worker: Option<Mark>,
    ) -> Result<(Self, RestoreReport), Error> {
        let (mut ledger, report, damage) = Self::begin(patience, state, machine, worker)?;
        if !damage.is_empty() {
            return Err(Error::Damaged { what: damage.join("; "), undone: in_short(&report) });
        }
        ledger.journal.retire(&ledger.pending)?;
        Ok((ledger, report))
    }

    /// The same for whoever is told of it and sees to it: a damaged ledger is set aside, and the report says
    /// what was damaged.
    ///
    /// # Errors
    /// As [`Ledger::open`], but for [`Error::Damaged`].
    pub fn recover(state: &Path, machine: &'m dyn Machine) -> Result<(Self, RestoreReport), Error> {
        let (mut ledger, mut report, damage) = Self::begin(PATIENCE, state, machine, None)?;
        report.damage = damage;
        if ledger.is_damaged {
            match ledger.journal.set_aside(machine.now().unix_nanos()) {
                Ok(copy) => report.damage.push(format!(
                    "the damaged ledger is kept as `{}`; see what of this machine it names, and set that right by hand",
                    copy.display()
                )),
                Err(error) => {
                    let path = journal::path(state);
                    report.damage.push(format!(
                        "no copy of `{}` could be kept: {error}; it is left as it is, make room for one and run \
                         `flyball restore` again",
                        path.display()
                    ));
                    return Ok((ledger, report));
                }
            }
            ledger.is_damaged = false;
        }
        ledger.journal.retire(&ledger.pending)?;
        Ok((ledger, report))
    }

    /// Undoes what is readable. The ledger's file still holds all that it held.
    fn begin(
        patience: Duration,
        state: &Path,
        machine: &'m dyn Machine,
        worker: Option<Mark>,
    ) -> Result<(Self, RestoreReport, Vec<String>), Error> {
        let eraser = Eraser::new(state, worker);
        let boot = boot_id(machine)?;
        let state = &files::trust::make(state, 0o700)?;
        let lock = Lock::take(state, machine, patience)?;
        crate::lasting::understand(state)?;
        let loaded = journal::load(state)?;
        refuse_foreign(state, &loaded)?;
        let journal = Journal::open(state, &loaded)?;
        let Loaded { pending, last_id, torn, damaged, .. } = loaded;
        let is_damaged = !damaged.is_empty();
        let held = Held::new();
        let mut ledger = Self {
            machine,
            journal,
            pending,
            boot,
            last_id,
            held,
            limits: vec![],
            is_damaged,
            eraser,
            _lock: lock,
        };
        let lasting = crate::lasting::resume(&mut ledger, state)?;
        let mut report = ledger.undo(0, &Scope::Everything);
        report.notes.extend(lasting.notes);
        if torn {
            let note = "the last line of the ledger was cut off: what it announces never happened";
            report.notes.push(note.to_owned());
        }
        let lines = is_damaged.then(|| in_words(state, &damaged));
        Ok((ledger, report, lines.into_iter().chain(lasting.damage).collect()))
    }

    /// Puts every setting back, in reverse order. Files and loop devices of our own stay, and claimed disks
    /// as they are.
    pub fn restore(&mut self) -> RestoreReport {
        self.limits.clear();
        self.undo_and_retire(0, &Scope::Settings)
    }

    /// Puts every setting back, removes our loop devices and files, erases what we left on claimed disks, and
    /// gives the machine free for others. Drop each [`Claimed`](crate::claims::Claimed) before.
    pub fn finish(mut self) -> RestoreReport {
        self.limits.clear();
        self.undo_and_retire(0, &Scope::Everything)
    }

    /// Reads each setting again, into `after`, and says which ones differ from what they were right after the
    /// write: somebody else wrote, or they cannot be read (`after` is `None` then).
    pub fn reread(&self, records: &mut [SettingRecord]) -> Vec<SettingName> {
        let mut changed = Vec::new();
        for record in records {
            record.after = crate::settings::read(self.machine, &record.path).ok().flatten();
            let as_it_was =
                record.after.as_deref().is_some_and(|after| crate::settings::same(after, &record.got));
            if !as_it_was {
                changed.push(record.setting.clone());
            }
        }
        changed
    }

    fn undo(&mut self, from: usize, scope: &Scope<'_>) -> RestoreReport {
        let under = Under { machine: self.machine, held: &self.held, eraser: &self.eraser };
        let report = undo::undo(&under, &mut self.journal, &mut self.pending, from, scope);
        // A file that was removed keeps its space as long as it is open.
        let pending: BTreeSet<u64> = self.pending.iter().map(Pending::id).collect();
        self.held.retain(|id, _| pending.contains(id));
        report
    }

    fn undo_and_retire(&mut self, from: usize, scope: &Scope<'_>) -> RestoreReport {
        let mut report = self.undo(from, scope);
        if self.is_damaged {
            return report;
        }
        if let Err(error) = self.journal.retire(&self.pending) {
            // What is undone is marked so, or will be found to be undone.
            report.notes.push(error.to_string());
        }
        report
    }

    /// Undoes the change that was announced last, because making it has failed.
    fn undo_last(&mut self) {
        // Where this fails, it stays pending and is tried again at the end.
        let _ = self.undo(self.pending.len() - 1, &Scope::Everything);
    }

    /// Takes back the announcement of what was not done.
    fn forget_last(&mut self) -> Result<(), Error> {
        let last = self.pending.pop().expect("something was announced just now");
        self.journal.note(&Record::Done { id: last.id() })
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn announce(&mut self, entry: Pending) -> Result<(), Error> {
        self.journal.announce(&entry.records())?;
        self.pending.push(entry);
        Ok(())
    }
}

/// Stops where a line is whole and not understood: undoing all but what it says may undo too much or too
/// little.
fn refuse_foreign(state: &Path, loaded: &Loaded) -> Result<(), Error> {
    match foreign_in_words(state, loaded) {
        Some((what, by)) => Err(Error::NotUnderstood { what, by, undo: UNDO }),
        None => Ok(()),
    }
}

/// What is not understood, and which Flyball wrote it, where it says that.
fn foreign_in_words(state: &Path, loaded: &Loaded) -> Option<(String, Option<String>)> {
    let first = loaded.first_foreign.as_ref()?;
    let path = journal::path(state);
    let what = format!("the ledger `{}`, {}: the first of these {first}", path.display(), loaded.foreign);
    Some((what, first.by.clone()))
}

fn in_words(state: &Path, damaged: &journal::Lines) -> String {
    let path = journal::path(state);
    format!("{damaged} of the ledger `{}` cannot be read, so that a change may be left", path.display())
}

/// What became of all that could be read.
fn in_short(report: &RestoreReport) -> String {
    let left: Vec<String> = report.failed().chain(report.foreign()).map(ToString::to_string).collect();
    match (report.restored().count(), left.is_empty()) {
        (0, true) => "nothing else was changed".to_owned(),
        (_, true) => "all else was put back".to_owned(),
        (_, false) => format!("of all else this was not put back: {}", left.join("; ")),
    }
}

/// The text that is written for a value. An empty one needs the newline, for writing nothing does nothing.
fn bytes(value: &str) -> Vec<u8> {
    if value.is_empty() { b"\n".to_vec() } else { value.as_bytes().to_vec() }
}

fn boot_id(machine: &dyn Machine) -> Result<String, Error> {
    const PATH: &str = "/proc/sys/kernel/random/boot_id";
    let bytes = machine.read(Path::new(PATH)).map_err(|source| Error::State {
        what: "read which start of the machine this is from",
        path: PATH.into(),
        source,
    })?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}
