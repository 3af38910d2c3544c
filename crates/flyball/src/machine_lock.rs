//! The machine's lock, as the places of this process have it.

use crate::places;
use anyhow::{Context, Result};
use machine::MachineLock;
use std::path::Path;
use std::process::Command;

/// Takes the machine's lock, which whoever measures or changes anything here holds until it is done.
///
/// # Errors
/// Where another Flyball has it, whatever its state folder is.
pub fn lock_machine() -> Result<Option<MachineLock>> {
    Ok(session::host::lock_machine(places::machine_lock().as_deref())?)
}

/// This program once more, to put things back should this process be killed.
pub fn supervisor(state: &Path) -> Result<Command> {
    let program =
        std::env::current_exe().context("cannot find this program's own file, to start the supervisor")?;
    let mut command = Command::new(program);
    command.arg("supervise").arg(state);
    Ok(command)
}
