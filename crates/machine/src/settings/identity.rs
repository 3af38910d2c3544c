//! Which object a file belongs to, so that a value is never put back on another that took its name.

use crate::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Counted anew at each start of the machine.
const DISKSEQ: &str = "diskseq";

/// What tells an object from another of the same name; empty for what has only one (a sysctl).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Identity(BTreeMap<String, String>);

impl Identity {
    /// Whether both may be one object: nothing that is known of both differs.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        self.0.iter().all(|(key, value)| other.0.get(key).is_none_or(|found| found == value))
    }

    /// What of it stays when the machine is started again.
    pub(crate) fn lasting(&self) -> Self {
        Self(self.0.iter().filter(|(key, _)| *key != DISKSEQ).map(|(k, v)| (k.clone(), v.clone())).collect())
    }

    /// Whether nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(key, value)| format!("{key} {value}")).collect();
        f.write_str(&parts.join(", "))
    }
}

/// The identity of the object that `path` belongs to: for a block device its `diskseq` (a number that the
/// kernel never gives twice in one boot, since 5.15) with its serial numbers; for a cpufreq policy its CPUs.
pub(crate) fn identity(machine: &dyn Machine, path: &str) -> Identity {
    let mut known = BTreeMap::new();
    let mut note = |key: &str, path: String| {
        if let Some(value) = machine.text(&path).filter(|v| !v.is_empty()) {
            known.insert(key.to_owned(), value);
        }
    };
    if let Some(disk) = component_after(path, "block") {
        let disk = format!("/sys/block/{disk}");
        note(DISKSEQ, format!("{disk}/diskseq"));
        note("wwid", format!("{disk}/device/wwid"));
        note("nvme wwid", format!("{disk}/wwid"));
        note("serial", format!("{disk}/device/serial"));
        note("dm uuid", format!("{disk}/dm/uuid"));
        note("md uuid", format!("{disk}/md/uuid"));
    }
    if let Some(policy) = component_after(path, "cpufreq").filter(|c| c.starts_with("policy")) {
        note("cpus", format!("{}/{policy}/related_cpus", super::CPUFREQ));
    }
    Identity(known)
}

/// The component that follows the last one called `name`, where something follows that in turn.
pub(crate) fn component_after<'a>(path: &'a str, name: &str) -> Option<&'a str> {
    let parts: Vec<&str> = path.split('/').collect();
    let at = parts.iter().rposition(|part| *part == name)?;
    (at + 2 < parts.len()).then(|| parts[at + 1])
}
