//! The names of the kernel's functions that kworkers executed.

use crate::{Error, Result};
use events::{Kind, header};
use parse::kernel::kallsyms;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

/// The functions at these addresses, as far as the running kernel names them (`/proc/kallsyms`; without
/// CAP_SYSLOG, or where `kernel.kptr_restrict` is 2, it names none).
pub fn of(proc: &Path, addresses: &BTreeSet<u64>) -> BTreeMap<u64, String> {
    let Ok(file) = File::open(proc.join("kallsyms")) else { return BTreeMap::new() };
    let mut names = BTreeMap::new();
    for line in BufReader::new(file).lines().map_while(std::result::Result::ok) {
        if let Some((address, name)) = kallsyms::function(&line).filter(|(at, _)| addresses.contains(at)) {
            names.entry(address).or_insert_with(|| name.to_owned());
        }
    }
    names
}

/// Adds them to a recording of events, so that it needs no kernel to be read.
///
/// # Errors
/// Where it cannot be written.
pub fn append(path: &Path, names: &BTreeMap<u64, String>) -> Result<()> {
    let error = |error| Error::Spool { action: "write", path: path.to_owned(), error };
    let mut file = OpenOptions::new().append(true).open(path).map_err(error)?;
    let mut bytes = Vec::new();
    for (address, name) in names {
        bytes.extend(header(Kind::Symbol, 0, 8 + name.len()));
        bytes.extend(address.to_le_bytes());
        bytes.extend(name.as_bytes());
    }
    file.write_all(&bytes).map_err(error)
}
