//! Tables of P-states: shipped ones, files, and those made from a machine that was inspected or recorded.

use crate::error::{Error, Result};
use domain::inventory::Inventory;
use domain::lab::{Lab, PStateTable};
use lab::pstates;
use machine::RecordedMachine;
use std::path::Path;

/// A bound on an inventory's file: a machine with a thousand CPUs and disks takes a few MiB.
const MAX_INVENTORY: u64 = 64 << 20;

/// A table of a lab machine, by the name that its study has for it: see [`load`].
///
/// # Errors
/// As [`load`].
pub(crate) fn of_lab(lab: &Lab, name_or_path: &str, folder: &Path) -> Result<PStateTable> {
    let mut table = load(name_or_path, folder)?;
    if let Some(pace) = lab.pace {
        table.pace = pace;
    }
    Ok(table)
}

/// The table of this name, the file at this path (seen from `folder`), or the one that is like a machine: a
/// folder as `flyball inspect --root` reads it, or a file of `flyball inspect --json`.
///
/// # Errors
/// [`Error::Usage`] where there is no such thing, or no table can be made of it.
fn load(name_or_path: &str, folder: &Path) -> Result<PStateTable> {
    let path = folder.join(name_or_path);
    let is_shipped = pstates::shipped().any(|(name, _)| name == name_or_path);
    let inventory = if !is_shipped && path.is_dir() {
        recorded(&path)
    } else if name_or_path.ends_with(".json") {
        inspected(&path)
    } else {
        return pstates::load(name_or_path, folder).map_err(|error| Error::Usage(error.to_string()));
    };
    let made = inventory.and_then(|inventory| pstates::table_of(&inventory)).map_err(|why| {
        let path = path.display();
        Error::Usage(format!(
            "cannot make a table of P-states from the machine `{path}`: {why}; name a shipped table, such as `laptop-5`, or \
             write one (docs/LAB.md)"
        ))
    })?;
    pstates::parse(name_or_path, &made).map_err(|error| Error::Usage(error.to_string()))
}

/// A table as a command line names it: a file or folder of the folder that the command was given in counts
/// before one of the study's.
pub fn table_named_here(name_or_path: &str) -> String {
    let is_shipped = pstates::shipped().any(|(name, _)| name == name_or_path);
    match std::path::absolute(name_or_path) {
        Ok(path) if !is_shipped && path.exists() => path.display().to_string(),
        _ => name_or_path.to_owned(),
    }
}

fn recorded(path: &Path) -> std::result::Result<Inventory, String> {
    let machine = RecordedMachine::open(path).map_err(|error| error.to_string())?;
    machine::inventory::take(&machine).map_err(|error| error.to_string())
}

fn inspected(path: &Path) -> std::result::Result<Inventory, String> {
    let text =
        files::regular::text(path, MAX_INVENTORY).map_err(|error| format!("it cannot be read: {error}"))?;
    serde_json::from_str(&text)
        .map_err(|error| format!("it is no inventory, as `flyball inspect --json` writes one: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::lab::{PStateDomains, PStateDriver, Ratios};

    fn fixture(name: &str) -> String {
        format!("{}/../../fixtures/machines/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    /// Driver, ratios or states in MHz, idle states.
    fn shown(table: &PStateTable) -> String {
        let driver = match &table.driver {
            PStateDriver::Acpi => {
                let mhz: Vec<u64> = table.states.iter().map(|s| s.frequency.hz() / 1_000_000).collect();
                format!("acpi {mhz:?}")
            }
            PStateDriver::Intel(Ratios { least, base, turbo, hwp }) => {
                format!("intel {least} {base} {turbo:?} hwp {}", hwp.is_some())
            }
            PStateDriver::Amd(Ratios { least, base, turbo, .. }) => format!("amd {least} {base} {turbo:?}"),
        };
        let idle: Vec<String> = table.idle.iter().map(|s| format!("{} {}", s.name, s.latency)).collect();
        format!("{driver}; {}", idle.join(", "))
    }

    #[test]
    fn each_recorded_machine_with_a_driver_becomes_a_table_like_it() {
        for (machine, expected) in [
            ("adl0", "intel 4 21 [47] hwp true; C1E 2 µs, C6 170 µs, C8 200 µs, C10 230 µs"),
            ("bdwep0", "intel 12 24 [36] hwp false; C1 2 µs, C1E 10 µs, C3 40 µs, C6 133 µs"),
            ("clx2s0", "intel 10 24 [39] hwp true; C1 2 µs, C1E 10 µs, C6 92 µs"),
            ("hswep0", "intel 12 26 [36] hwp false; C1 2 µs, C1E 10 µs, C3 33 µs, C6 133 µs"),
            ("milan0", "acpi [2801, 2800, 2100, 1500]; "),
            ("spr1", "intel 8 22 [38] hwp true; C1 1 µs, C1E 2 µs, C6 290 µs"),
            ("turin0", "amd 12 32 [44]; C1 1 µs, C2 100 µs"),
            ("lab-raid5-raid10", "acpi [2800, 2100, 1400, 700, 350]; "),
        ] {
            let table = load(&fixture(machine), Path::new("/nonexistent")).unwrap();
            assert_eq!(shown(&table), expected, "{machine}");
        }
    }

    #[test]
    fn an_inventorys_file_is_as_good_as_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let machine = RecordedMachine::open(Path::new(&fixture("spr1"))).unwrap();
        let inventory = machine::inventory::take(&machine).unwrap();
        std::fs::write(folder.path().join("mine.json"), serde_json::to_string(&inventory).unwrap()).unwrap();
        let table = load("mine.json", folder.path()).unwrap();
        assert_eq!((table.name.as_str(), table.domains), ("mine.json", PStateDomains::PerCpu));
        assert_eq!(shown(&table), shown(&load(&fixture("spr1"), Path::new("")).unwrap()));
    }

    #[test]
    fn a_machine_that_no_guest_can_be_like_is_refused_with_the_reason() {
        let told = |name: &str| load(name, Path::new("/nonexistent")).unwrap_err().to_string();
        let text = told(&fixture("vm-2cpu"));
        assert!(text.contains("vm-2cpu`: the machine has no cpufreq policy; name a shipped table"), "{text}");
        assert!(
            told("mine.json").contains("`/nonexistent/mine.json`: it cannot be read"),
            "{}",
            told("mine.json")
        );
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("other.json"), "{\"schema\": 1}").unwrap();
        let text = load("other.json", folder.path()).unwrap_err().to_string();
        assert!(text.contains("it is no inventory, as `flyball inspect --json` writes one"), "{text}");
        assert!(told("laptop-6").contains("no P-state table is named `laptop-6`"), "{}", told("laptop-6"));
    }
}
