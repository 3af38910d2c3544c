//! What a release is made of, in CycloneDX's JSON (<https://cyclonedx.org/docs/1.5/json/>).
//!
//! Written here, of what `cargo metadata` knows: a tool of somebody else's would be one program more to trust
//! with a release, and knows neither SQLite nor the C library within the program. No time of day and no
//! random number is in it, so that one commit gives the same bytes.

use crate::shipped::{self, Shipped};
use cargo_metadata::{Package, PackageId};
use serde_json::{Value, json};
use std::error::Error;
use std::fs;

/// Something in the program that cargo does not know.
#[derive(Debug, PartialEq, Eq)]
pub struct Linked {
    /// Its name, as `glibc`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence, as SPDX writes it.
    pub licence: String,
}

impl Linked {
    /// Reads `NAME=VERSION=LICENCE`.
    pub fn read(text: &str) -> Option<Self> {
        let [name, version, licence] = text.split('=').collect::<Vec<_>>().try_into().ok()?;
        (![name, version, licence].contains(&"")).then(|| Self::new(name, version, licence))
    }

    fn new(name: &str, version: &str, licence: &str) -> Self {
        Self { name: name.to_owned(), version: version.to_owned(), licence: licence.to_owned() }
    }

    fn component(&self) -> Value {
        json!({
            "type": "library",
            "bom-ref": format!("{}@{}", self.name, self.version),
            "name": self.name,
            "version": self.version,
            "licenses": [{ "expression": self.licence }],
        })
    }
}

/// The bill of materials of a release: for which platform, when its commit was made (`2026-11-25T01:16:00Z`),
/// and what it is linked with beside crates.
///
/// # Errors
/// Where cargo cannot say what is shipped, or a package states no licence.
pub fn of_release(target: &str, at: &str, linked: &[Linked]) -> Result<String, Box<dyn Error>> {
    let metadata = shipped::metadata(target)?;
    let all = shipped::packages(&metadata)?;
    let (own, used): (Vec<&Shipped>, Vec<&Shipped>) =
        all.iter().partition(|shipped| shipped.package.name == "flyball");
    let flyball = own.first().ok_or("the workspace has no package `flyball`")?.package;
    let mut components =
        used.iter().map(|shipped| component(shipped.package)).collect::<Result<Vec<_>, _>>()?;
    components.extend(sqlite(&all)?.iter().map(Linked::component));
    components.extend(linked.iter().map(Linked::component));
    let bill = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": at,
            "component": application(flyball, target)?,
            "properties": [{ "name": "cdx:rustc:sbom:target:triple", "value": target }],
        },
        "components": components,
        "dependencies": all.iter().map(|shipped| dependency(shipped, &metadata)).collect::<Vec<_>>(),
    });
    Ok(format!("{bill:#}\n"))
}

fn application(flyball: &Package, target: &str) -> Result<Value, Box<dyn Error>> {
    let mut value = component(flyball)?;
    value["type"] = "application".into();
    value["description"] = format!("the program flyball for {target}").into();
    Ok(value)
}

fn component(package: &Package) -> Result<Value, Box<dyn Error>> {
    let mut value = json!({
        "type": "library",
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version,
        "scope": "required",
        "licenses": [{ "expression": shipped::licence(package)? }],
    });
    // A crate of this workspace is in no registry, and a package URL would say that it is.
    if package.source.is_some() {
        value["purl"] = reference(package).into();
    }
    Ok(value)
}

fn reference(package: &Package) -> String {
    let scheme = if package.source.is_some() { "pkg:cargo/" } else { "" };
    format!("{scheme}{}@{}", package.name, package.version)
}

fn dependency(shipped: &Shipped, metadata: &cargo_metadata::Metadata) -> Value {
    let name = |id: &&PackageId| reference(&metadata[id]);
    json!({ "ref": reference(shipped.package), "dependsOn": shipped.needs.iter().map(name).collect::<Vec<_>>() })
}

/// SQLite, whose source is within a crate, by the version that its header states.
fn sqlite(all: &[Shipped]) -> Result<Option<Linked>, Box<dyn Error>> {
    let Some(bundle) = all.iter().find(|shipped| shipped.package.name == "libsqlite3-sys") else {
        return Ok(None);
    };
    let header = bundle.package.manifest_path.with_file_name("sqlite3").join("sqlite3.h");
    let text = fs::read_to_string(&header).map_err(|error| format!("cannot read `{header}`: {error}"))?;
    let version = sqlite_version(&text).ok_or_else(|| format!("`{header}` states no SQLITE_VERSION"))?;
    Ok(Some(Linked::new("sqlite", version, "blessing")))
}

fn sqlite_version(header: &str) -> Option<&str> {
    let line = header.lines().find(|line| line.starts_with("#define SQLITE_VERSION "))?;
    line.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn bill() -> Value {
        let glibc = Linked::read("glibc=2.36=LGPL-2.1-or-later").unwrap();
        let text = of_release("x86_64-unknown-linux-gnu", "2026-01-01T00:00:00Z", &[glibc]).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn texts<'v>(list: &'v Value, key: &str) -> Vec<&'v str> {
        list.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap()).collect()
    }

    #[test]
    fn the_bill_names_crates_sqlite_and_the_c_library_each_once() {
        let bill = bill();
        let names = texts(&bill["components"], "bom-ref");
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for name in ["pkg:cargo/rusqlite@", "sqlite@3.", "glibc@2.36", "domain@", "pstate-plugin@"] {
            assert!(names.iter().any(|n| n.starts_with(name)), "{name}: {names:?}");
        }
    }

    #[test]
    fn every_dependency_leads_to_something_that_the_bill_names() {
        let bill = bill();
        let own = bill["metadata"]["component"]["bom-ref"].as_str().unwrap();
        let mut named: BTreeSet<&str> = texts(&bill["components"], "bom-ref").into_iter().collect();
        named.insert(own);
        for entry in bill["dependencies"].as_array().unwrap() {
            assert!(named.contains(entry["ref"].as_str().unwrap()), "{entry}");
            for to in entry["dependsOn"].as_array().unwrap() {
                assert!(named.contains(to.as_str().unwrap()), "{entry}");
            }
        }
    }

    #[test]
    fn what_is_linked_has_a_name_a_version_and_a_licence() {
        for wrong in ["", "glibc", "glibc=2.36", "glibc==MIT", "a=b=c=d"] {
            assert_eq!(Linked::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sqlite_states_its_version_in_its_header() {
        assert_eq!(sqlite_version("/* x */\n#define SQLITE_VERSION        \"3.50.4\"\n"), Some("3.50.4"));
        assert_eq!(sqlite_version("#define SQLITE_VERSION_NUMBER 3050004\n"), None);
    }
}
