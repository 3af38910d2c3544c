//! The names of the kernel's functions that were executed.

use crate::{Error, Result};
use events::{Kind, header};
use parse::kernel::kallsyms;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

/// The functions that these addresses are in, by where they begin: `name`, or `name [module]`, as far as the
/// running kernel names them (`/proc/kallsyms`; without CAP_SYSLOG, or where `kernel.kptr_restrict` is 2, it
/// names none).
pub fn of(proc: &Path, addresses: &BTreeSet<u64>) -> BTreeMap<u64, String> {
    let Ok(file) = File::open(proc.join("kallsyms")) else { return BTreeMap::new() };
    let mut functions: Vec<(u64, String)> = Vec::new();
    for line in BufReader::new(file).lines().map_while(std::result::Result::ok) {
        let Some(function) = kallsyms::function(&line) else { continue };
        let name = match function.module {
            Some(module) => format!("{} [{module}]", function.name),
            None => function.name.to_owned(),
        };
        functions.push((function.address, name));
    }
    // Modules stand behind the rest, and of two names for one address the first is kept.
    functions.sort_by_key(|(address, _)| *address);
    functions.dedup_by_key(|(address, _)| *address);
    let of = |address: &u64| {
        let behind = functions.partition_point(|(begin, _)| begin <= address);
        behind.checked_sub(1).map(|at| functions[at].clone())
    };
    addresses.iter().filter_map(of).collect()
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
