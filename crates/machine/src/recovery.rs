//! Opening the ledger where a Flyball and its supervisor may have died: first what is left of its workloads
//! is ended, for that writes to what is to be undone.

use crate::LocalMachine;
use crate::ledger::{Ledger, RestoreReport, UndoOutcome};
use crate::settings::Error;
use crate::workload::end_orphans;
use std::path::Path;
use std::time::Duration;

/// As [`Ledger::open`].
///
/// # Errors
/// Those of [`Ledger::open`].
pub fn open<'m>(state: &Path, machine: &'m LocalMachine) -> Result<(Ledger<'m>, RestoreReport), Error> {
    after_orphans(|| Ledger::open(state, machine))
}

/// As [`Ledger::open_within`].
///
/// # Errors
/// Those of [`Ledger::open`].
pub fn open_within<'m>(
    patience: Duration,
    state: &Path,
    machine: &'m LocalMachine,
) -> Result<(Ledger<'m>, RestoreReport), Error> {
    after_orphans(|| Ledger::open_within(patience, state, machine))
}

/// As [`Ledger::recover`]: a damaged ledger is set aside.
///
/// # Errors
/// Those of [`Ledger::recover`].
pub fn recover<'m>(state: &Path, machine: &'m LocalMachine) -> Result<(Ledger<'m>, RestoreReport), Error> {
    after_orphans(|| Ledger::recover(state, machine))
}

/// What was being started when its owner died has the owner's lock until it runs, and only then carries a
/// mark: whoever has the ledger looks again.
fn after_orphans<'m>(
    open: impl Fn() -> Result<(Ledger<'m>, RestoreReport), Error>,
) -> Result<(Ledger<'m>, RestoreReport), Error> {
    end_orphans();
    let (ledger, report) = open()?;
    if end_orphans() == 0 {
        return Ok((ledger, report));
    }
    drop(ledger);
    let (ledger, mut again) = open()?;
    again
        .undone
        .extend(report.undone.into_iter().filter(|undone| !matches!(undone.outcome, UndoOutcome::Failed(_))));
    again.notes.extend(report.notes);
    again.damage.extend(report.damage);
    Ok((ledger, again))
}
