//! Every dependency's licence is one that this project may ship with.
//!
//! Reads what `cargo metadata` knows, of every platform: what this one does not build is fetched once. Needs
//! no further tool.

use cargo_metadata::{MetadataCommand, Package};
use spdx::{Expression, ParseMode};
use std::error::Error;

/// Licences that permit what Apache-2.0 OR MIT promises.
const ALLOWED: [&str; 11] = [
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "Unicode-3.0",
    "Unlicense",
    "CC0-1.0",
    "BSL-1.0",
];

/// The one package of this workspace under another licence, and that licence. It declares the interface of
/// QEMU's plugin header, which is GPL-2.0-or-later; QEMU loads it at run time, and nothing of ours links to
/// it.
const EXEMPT: (&str, &str) = ("pstate-plugin", "GPL-2.0-or-later");

/// The packages whose licence is not allowed, as lines for people.
pub fn check() -> Result<Vec<String>, Box<dyn Error>> {
    let metadata = MetadataCommand::new().other_options(vec!["--locked".into()]).exec()?;
    let mut problems = Vec::new();
    for package in &metadata.packages {
        match package.license.as_deref() {
            Some(expression) if allows(expression) => {}
            Some(expression) if is_exempt(package, expression) => {}
            Some(expression) => {
                problems.push(format!("{} {}: licence `{expression}`", package.name, package.version))
            }
            None => problems.push(format!("{} {}: states no licence", package.name, package.version)),
        }
    }
    Ok(problems)
}

/// Only the workspace's own package of that name: one from a registry has a source.
fn is_exempt(package: &Package, expression: &str) -> bool {
    package.source.is_none() && (package.name.as_str(), expression) == EXEMPT
}

/// Whether an SPDX expression can be satisfied by allowed licences; an exception only ever permits more.
fn allows(expression: &str) -> bool {
    let Ok(expression) = Expression::parse_mode(expression, ParseMode::LAX) else { return false };
    expression
        .evaluate(|wanted| ALLOWED.iter().any(|name| wanted.license.id().is_some_and(|id| id.name == *name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dependency_may_be_shipped() {
        let problems = check().unwrap();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn an_expression_is_satisfied_by_the_allowed_licences_alone() {
        for good in [
            "MIT",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "MIT/Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(allows(good), "{good}");
        }
        for bad in
            ["GPL-3.0", "MIT AND GPL-3.0", "", "MIT OR", "(MIT", "MIT)", "AGPL-3.0 WITH LLVM-exception"]
        {
            assert!(!allows(bad), "{bad}");
        }
    }
}
