//! The machine that something was recorded on, as somebody names it: what `flyball inspect --json` said
//! there, or a simulated machine whose CPUs are like it.

use crate::error::{Error, Result};
use crate::simulation::{SHIPPED, load};
use domain::inventory::{Inventory, SCHEMA};
use serde::Deserialize;
use std::path::Path;

/// A bound on an inventory: one of 512 CPUs with a frequency policy each has some 2 MB.
const MAX_FILE: u64 = 32 << 20;

/// What writes such a file.
const WRITES: &str = "`flyball inspect --json > FILE` on that machine writes one";

/// The machine of a name, or of a file from `folder`.
///
/// # Errors
/// [`Error::Usage`].
pub fn recorded_on(name_or_path: &str, folder: &Path) -> Result<Inventory> {
    let path = folder.join(name_or_path);
    let is_shipped = SHIPPED.iter().any(|(name, _)| *name == name_or_path);
    if is_shipped || path.extension().is_some_and(|extension| extension == "toml") || !path.exists() {
        return Ok(load(name_or_path, folder)?.spec.inventory());
    }
    let refused = |why: String| Error::Usage(format!("cannot take `{}` as a machine: {why}", path.display()));
    let text =
        files::regular::text(&path, MAX_FILE).map_err(|error| refused(format!("{error}; {WRITES}")))?;
    parsed(&text).map_err(refused)
}

/// The one thing that all versions of an inventory say.
#[derive(Deserialize)]
struct Version {
    schema: u32,
}

fn parsed(text: &str) -> std::result::Result<Inventory, String> {
    let no_inventory = |error: serde_json::Error| format!("it is no inventory: {error}; {WRITES}");
    let Version { schema } = serde_json::from_str(text).map_err(no_inventory)?;
    if schema != SCHEMA {
        return Err(format!(
            "it is an inventory of version {schema}, and version {SCHEMA} is read here; {WRITES}"
        ));
    }
    serde_json::from_str(text).map_err(no_inventory)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_an_inventory_or_a_simulated_one_and_all_else_says_what_writes_one() {
        let folder = tempfile::tempdir().unwrap();
        let by = |name: &str| recorded_on(name, folder.path());
        let lab = by("lab").unwrap();
        let text = serde_json::to_string(&lab).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("machine.json", &text);
        assert_eq!(by("machine.json").unwrap(), lab);
        let refused = |name: &str| by(name).unwrap_err().to_string();
        write("cut.json", &text[..text.len() / 2]);
        write("old.json", &text.replacen(&format!("\"schema\":{SCHEMA}"), "\"schema\":77", 1));
        write("report.json", "{\"fio version\": \"fio-3.33\"}");
        for (name, wanted) in [
            ("cut.json", "EOF while parsing"),
            ("old.json", "version 77"),
            ("report.json", "missing field `schema`"),
        ] {
            let told = refused(name);
            assert!(told.contains(wanted) && told.contains("flyball inspect --json"), "{told}");
        }
        std::fs::File::create(folder.path().join("large.json")).unwrap().set_len(MAX_FILE + 1).unwrap();
        assert!(refused("large.json").contains("flyball inspect --json"), "{}", refused("large.json"));
        assert!(refused("labb").contains("lab"), "{}", refused("labb"));
    }
}
