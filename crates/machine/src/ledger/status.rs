//! What is changed now, and what undoing it would do: read only, without the lock.

use super::record::{Act, Pending};
use super::report::{UndoOutcome, Undone};
use super::{UNDO, boot_id, devices, foreign_in_words, in_words, journal, objects, undo};
use crate::Machine;
use crate::lock::{self, Holder};
use crate::settings::Error;
use domain::inert::Lines;
use serde_json::{Value, json};
use std::path::Path;

/// The version of the JSON form.
const SCHEMA: u32 = 1;

/// What the ledger of a machine says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Who has the ledger, or had it last. Alive: a run is on, and what is changed now is meant to be.
    pub holder: Option<Holder>,
    /// What is not undone yet, in the order in which it was done.
    pub changes: Vec<PendingChange>,
    /// Why there may be changes that are not among these: `flyball restore` has to say more.
    pub problems: Vec<String>,
}

impl Status {
    /// A line each, and who measures here.
    pub fn as_text(&self) -> Lines {
        let mut lines = Lines::default();
        match &self.holder {
            Some(holder) if holder.alive => {
                lines.line(format_args!("a Flyball is measuring here: process {0}; wait for it, or end it with `kill -INT {0}`: it puts back what is changed", holder.pid));
            }
            _ => {}
        }
        match (self.changes.is_empty(), self.problems.is_empty()) {
            (true, true) => lines.line("nothing is changed"),
            (true, false) => lines.line("nothing that is known is changed"),
            (false, _) => {}
        }
        lines.extend(self.changes.iter().map(line));
        lines
    }

    /// A few words for each thing that is changed, and for what is not known; none where nothing is.
    pub fn in_short(&self) -> Vec<String> {
        let change = |change: &PendingChange| match (&change.before, &change.asked) {
            (Some(before), Some(asked)) => format!("{} is {asked} (was {before})", change.what),
            _ => format!("{} is Flyball's", change.what),
        };
        let unknown =
            (!self.problems.is_empty()).then(|| "not all of it is known: `flyball status`".to_owned());
        self.changes.iter().map(change).chain(unknown).collect()
    }

    /// The same as JSON, with what `lasting` says of lasting changes.
    pub fn as_json(&self, lasting: &Value) -> String {
        let change = |c: &PendingChange| {
            let foreseen = Undone { what: c.what.clone(), path: c.path.clone(), outcome: c.outcome.clone() };
            json!({ "what": c.what, "path": c.path, "before": c.before, "asked": c.asked, "restore": foreseen.to_string() })
        };
        let holder = self.holder.as_ref().map(|h| json!({ "pid": h.pid, "alive": h.alive }));
        let value = json!({
            "schema": SCHEMA,
            "holder": holder,
            "changed": self.changes.iter().map(change).collect::<Vec<_>>(),
            "lasting": lasting,
            "notes": self.problems,
        });
        format!("{value:#}")
    }
}

fn line(change: &PendingChange) -> String {
    match (&change.before, &change.asked) {
        (Some(before), Some(asked)) => {
            format!("{}: was `{before}`, written `{asked}`: `{}`", change.what, change.path)
        }
        _ => format!("{}: made by Flyball", change.what),
    }
}

/// A change that is not undone yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingChange {
    /// The setting with its object, or the file or device.
    pub what: String,
    /// The file.
    pub path: String,
    /// What a setting was before; `None` for files, devices of our own and claimed disks.
    pub before: Option<String>,
    /// What was written; `None` likewise.
    pub asked: Option<String>,
    /// What `flyball restore` would do now.
    pub outcome: UndoOutcome,
}

/// Reads the ledger in this folder. Nothing is changed, and nobody has to wait.
///
/// # Errors
/// [`Error::State`] where it cannot be read.
pub fn status(state: &Path, machine: &dyn Machine) -> Result<Status, Error> {
    let loaded = journal::load(state)?;
    let boot = boot_id(machine)?;
    let foreign =
        foreign_in_words(state, &loaded).map(|(what, by)| Error::NotUnderstood { what, by, undo: UNDO });
    let damaged = (!loaded.damaged.is_empty()).then(|| {
        let lines = in_words(state, &loaded.damaged);
        format!("{lines}; run `flyball restore`, which keeps a copy and says what to do")
    });
    let problems = foreign.map(|error| error.to_string()).into_iter().chain(damaged).collect();
    let changes = loaded.pending.iter().map(|entry| look(entry, machine, &boot)).collect();
    Ok(Status { holder: lock::holder(state, machine), changes, problems })
}

fn look(entry: &Pending, machine: &dyn Machine, boot: &str) -> PendingChange {
    let own = |path: String| PendingChange {
        what: path.clone(),
        path,
        before: None,
        asked: None,
        outcome: objects::foresee(entry, machine),
    };
    match &entry.act {
        Act::Setting(change) => PendingChange {
            what: change.setting.clone(),
            path: change.path.clone(),
            before: Some(change.old.clone()),
            asked: Some(change.new.clone()),
            outcome: undo::foresee(machine, change, entry, boot),
        },
        Act::Disk(disk) => PendingChange {
            what: devices::in_words(disk),
            path: disk.path.clone(),
            before: None,
            asked: None,
            outcome: devices::foresee(disk, boot),
        },
        Act::File(file) => own(file.path.clone()),
        Act::Built(built) => own(built.part.what()),
        Act::Loop(device) => own(crate::loopdev::node(device.number).display().to_string()),
    }
}
