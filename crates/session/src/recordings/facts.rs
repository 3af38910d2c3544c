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
    let mut lacks = Vec::new();
    if facts.announced > 0 {
        lacks.push(format!(
            "{} events were lost, for their ring was full: a shorter --interval drains it more often",
            facts.announced
        ));
    }
    if facts.unannounced() > 0 {
        lacks.push(format!(
            "{} events fired of which the kernel wrote no record and announced no loss (`perf record` does not see them either)",
            facts.unannounced()
        ));
    }
    for (cpu, unseen) in facts.unseen_switches() {
        lacks.push(format!("at least {unseen} switches of CPU {cpu} were not even counted by the kernel"));
    }
    let follows = "what follows a loss is unknown until it is seen again";
    (!lacks.is_empty()).then(|| format!("{}; {follows}", lacks.join("; ")))
}
