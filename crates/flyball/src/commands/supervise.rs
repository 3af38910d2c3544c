//! `flyball supervise`: the supervisor's half of a run. Nobody types it.

use crate::exit::End;
use anyhow::Result;
use machine::LocalMachine;
use machine::settings::Error;
use machine::supervise::{Ending, supervise_main};
use std::io::{self, BufReader};
use std::path::Path;

/// Watches over the process at the other end of standard input.
pub fn supervise(state: &Path) -> Result<End> {
    let ending = match supervise_main(BufReader::new(io::stdin()), terminal::verbatim(), state, &LocalMachine)
    {
        // Who was faster to take the lock has put everything back as the first thing it did.
        Err(Error::Busy { .. }) => return Ok(End::Done),
        other => other?,
    };
    if let Ending::Recovered { report, .. } = &ending {
        // Standard error is still the terminal of the one that died.
        report.restored().for_each(|undone| terminal::say(format_args!("flyball was killed; {undone}")));
        terminal::restored(report);
    }
    Ok(End::Done)
}
