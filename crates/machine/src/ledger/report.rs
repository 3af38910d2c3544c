//! What became of each change when it was undone.

use domain::inert::Lines;
use serde_json::json;
use std::fmt;

/// The version of the JSON form.
const SCHEMA: u32 = 1;

/// What became of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoOutcome {
    /// Put back.
    Restored {
        /// What was there.
        from: String,
        /// What is there now.
        to: String,
    },
    /// Nothing to do: it is as it was before, or was never done.
    Untouched,
    /// Our file or loop device was removed, or what we left on a claimed disk.
    Removed,
    /// Somebody else changed it since; it was left as it is.
    Foreign {
        /// What is there now.
        now: String,
        /// What was there before us.
        before: String,
    },
    /// What it belonged to is not there any more.
    Gone(String),
    /// It was lost with a restart of the machine.
    Rebooted,
    /// It could not be undone, and stays in the ledger.
    Failed(String),
}

/// One change and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// The setting with its object, or the file or device.
    pub what: String,
    /// The file that was written or made.
    pub path: String,
    /// What became of it.
    pub outcome: UndoOutcome,
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, path, outcome } = self;
        match outcome {
            UndoOutcome::Restored { from, to } => write!(f, "{what}: put back from `{from}` to `{to}`"),
            UndoOutcome::Untouched => write!(f, "{what}: as it was"),
            UndoOutcome::Removed => write!(f, "{what}: removed"),
            UndoOutcome::Foreign { now, before } => write!(
                f,
                "{what}: left alone, somebody else changed it: `{path}` is `{now}` now, before us it was `{before}`"
            ),
            UndoOutcome::Gone(reason) => write!(f, "{what}: nothing to put back: {reason}"),
            UndoOutcome::Rebooted => write!(f, "{what}: lost with a restart of the machine"),
            UndoOutcome::Failed(reason) => write!(f, "{what}: still changed: {reason}"),
        }
    }
}

/// What undoing everything came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Every change that there was, the last one first.
    pub undone: Vec<Undone>,
    /// What was noticed about the ledger itself.
    pub notes: Vec<String>,
    /// What of the ledger could not be read, so that something may still be changed; and what to do.
    pub damage: Vec<String>,
}

impl RestoreReport {
    /// What somebody else changed, and was left.
    pub fn foreign(&self) -> impl Iterator<Item = &Undone> {
        self.undone.iter().filter(|u| matches!(u.outcome, UndoOutcome::Foreign { .. }))
    }

    /// What is still changed.
    pub fn failed(&self) -> impl Iterator<Item = &Undone> {
        self.undone.iter().filter(|u| matches!(u.outcome, UndoOutcome::Failed(_)))
    }

    /// What was put back or removed.
    pub fn restored(&self) -> impl Iterator<Item = &Undone> {
        self.undone
            .iter()
            .filter(|u| matches!(u.outcome, UndoOutcome::Restored { .. } | UndoOutcome::Removed))
    }

    /// Whether everything is as it was before us, and nobody else was there.
    pub fn is_clean(&self) -> bool {
        self.foreign().next().is_none()
            && self.failed().next().is_none()
            && self.notes.is_empty()
            && self.damage.is_empty()
    }

    /// Why something is still changed, or may be; `None` where nothing is.
    pub fn left(&self) -> Option<String> {
        let failed = self.failed().next().map(|_| {
            "not everything could be put back; what is left stays in the ledger: see `flyball status`"
                .to_owned()
        });
        let damage = (!self.damage.is_empty()).then(|| {
            format!("what is known was undone, and more may be changed: {}", self.damage.join("; "))
        });
        let left: Vec<String> = failed.into_iter().chain(damage).collect();
        (!left.is_empty()).then(|| left.join("; "))
    }

    /// What was put back, a line each.
    pub fn in_words(&self) -> Lines {
        if !self.undone.is_empty() {
            return self.restored().collect();
        }
        let line =
            if self.damage.is_empty() { "nothing is changed" } else { "nothing that is known is changed" };
        [line].into_iter().collect()
    }

    /// All of it as JSON.
    pub fn as_json(&self) -> String {
        let all = |undone: &mut dyn Iterator<Item = &Undone>| {
            undone.map(ToString::to_string).collect::<Vec<String>>()
        };
        let value = json!({
            "schema": SCHEMA,
            "restored": all(&mut self.restored()),
            "left_alone": all(&mut self.foreign()),
            "failed": all(&mut self.failed()),
            "notes": self.notes,
            "damage": self.damage,
        });
        format!("{value:#}")
    }

    /// Adds a change, unless the same is said already: two changes of one file share a stranger's value.
    pub(super) fn push(&mut self, undone: Undone) {
        let told = |u: &Undone| u.path == undone.path && matches!(u.outcome, UndoOutcome::Foreign { .. });
        if !(matches!(undone.outcome, UndoOutcome::Foreign { .. }) && self.undone.iter().any(told)) {
            self.undone.push(undone);
        }
    }
}
