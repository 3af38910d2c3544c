//! The packages whose code is in the program that is released.
//!
//! Those that `flyball` and the lab's plugin depend on as they run, on one platform. Not among them is what
//! only builds, tests or expands macros: it leaves no code of its own.

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, NodeDep, Package, PackageId, TargetKind};
use spdx::Expression;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

/// The packages that a release has files of.
const RELEASED: [&str; 2] = ["flyball", "pstate-plugin"];

/// A package of a release, and what it depends on.
pub struct Shipped<'m> {
    /// What cargo knows of it.
    pub package: &'m Package,
    /// The shipped packages that it depends on.
    pub needs: BTreeSet<&'m PackageId>,
}

/// What cargo knows of this workspace on a platform, as `x86_64-unknown-linux-gnu`.
///
/// # Errors
/// Where cargo cannot say.
pub fn metadata(target: &str) -> Result<Metadata, Box<dyn Error>> {
    let options = ["--locked", "--filter-platform", target].map(String::from);
    Ok(MetadataCommand::new().other_options(options).exec()?)
}

/// The shipped packages, by name and version.
///
/// # Errors
/// Where the metadata has no graph.
pub fn packages(metadata: &Metadata) -> Result<Vec<Shipped<'_>>, Box<dyn Error>> {
    let graph = metadata.resolve.as_ref().ok_or("cargo metadata gives no graph of dependencies")?;
    let nodes: BTreeMap<&PackageId, &Vec<NodeDep>> =
        graph.nodes.iter().map(|node| (&node.id, &node.deps)).collect();
    let mut open: Vec<&PackageId> = metadata
        .workspace_packages()
        .iter()
        .filter(|package| RELEASED.contains(&package.name.as_str()))
        .map(|package| &package.id)
        .collect();
    let mut found = BTreeMap::new();
    while let Some(id) = open.pop() {
        if found.contains_key(id) {
            continue;
        }
        let all = nodes.get(id).into_iter().flat_map(|deps| deps.iter());
        let needs: BTreeSet<&PackageId> =
            all.filter(|dep| runs(dep) && !expands(&metadata[&dep.pkg])).map(|dep| &dep.pkg).collect();
        open.extend(&needs);
        found.insert(id, Shipped { package: &metadata[id], needs });
    }
    let mut shipped: Vec<Shipped> = found.into_values().collect();
    shipped.sort_by(|a, b| (&a.package.name, &a.package.version).cmp(&(&b.package.name, &b.package.version)));
    Ok(shipped)
}

/// Whether the code of a dependency is used as the program runs.
fn runs(dependency: &NodeDep) -> bool {
    dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal)
}

fn expands(package: &Package) -> bool {
    package.targets.iter().any(|target| target.kind.contains(&TargetKind::ProcMacro))
}

/// A package's licence as SPDX writes it: some still say `MIT/Apache-2.0`.
///
/// # Errors
/// Where it states none.
pub fn licence(package: &Package) -> Result<String, Box<dyn Error>> {
    let stated = package
        .license
        .as_deref()
        .ok_or_else(|| format!("{} {}: states no licence", package.name, package.version))?;
    let canonical = Expression::canonicalize(stated)?;
    Ok(canonical.unwrap_or_else(|| stated.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        let metadata = metadata("x86_64-unknown-linux-gnu").unwrap();
        packages(&metadata).unwrap().iter().map(|shipped| shipped.package.name.to_string()).collect()
    }

    #[test]
    fn what_runs_is_shipped_and_what_builds_or_tests_is_not() {
        let names = names();
        for there in ["flyball", "pstate-plugin", "domain", "rusqlite", "libsqlite3-sys", "serde_core"] {
            assert!(names.iter().any(|name| name == there), "{there}");
        }
        for absent in ["xtask", "testing", "cc", "syn", "serde_derive", "tempfile", "proptest", "expect-test"]
        {
            assert!(!names.iter().any(|name| name == absent), "{absent}");
        }
    }

    #[test]
    fn an_old_way_to_write_a_licence_becomes_spdx() {
        let metadata = metadata("x86_64-unknown-linux-gnu").unwrap();
        for shipped in packages(&metadata).unwrap() {
            let licence = licence(shipped.package).unwrap();
            assert!(Expression::parse(&licence).is_ok(), "{}: {licence}", shipped.package.name);
        }
    }
}
