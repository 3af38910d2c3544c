//! The events of a recording that was just made.

use crate::error::{Error, Result};
use events::Facts;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// The size of reads from the file.
const READ_BYTES: usize = 1 << 20;

/// Reads the events, names the functions that kworkers executed, and adds the names to the file: by then it
/// needs no kernel to be read. It is on the disk when this returns.
///
/// # Errors
/// Where the file cannot be read or written.
pub fn read(path: &Path) -> Result<Facts> {
    let doing = || format!("cannot read the events in `{}`", path.display());
    let mut names = BTreeMap::new();
    let open = || Ok(BufReader::with_capacity(READ_BYTES, File::open(path)?));
    let facts = Facts::read_naming(open, |addresses| {
        names = recorder::functions_at(Path::new("/proc"), addresses);
        names.clone()
    });
    let facts = facts.map_err(Error::during(doing()))?;
    // Behind a frame that is torn nothing can be read.
    if facts.is_whole {
        recorder::name_functions(path, &names)?;
    }
    File::open(path).and_then(|file| file.sync_all()).map_err(Error::during(doing()))?;
    Ok(facts)
}

/// What is to be said of a recording that lacks events.
pub fn loss(facts: &Facts) -> Option<String> {
    let lost = facts.all_lost();
    (lost > 0).then(|| {
        format!(
            "{lost} events were lost: their ring was full, or they were being written when recording ended; what follows one is unknown until it is seen again; a shorter --interval drains the rings more often"
        )
    })
}
