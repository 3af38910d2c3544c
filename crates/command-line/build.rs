//! Tells the program which commit it is built from, for `flyball --version`.
//!
//! Without git, or outside Flyball's own repository, there is no commit, and nothing is said. A commit alone
//! is told and no date, so that one commit gives the same bytes. Only this crate and the program are built
//! anew where the commit changes.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace, seen from this crate.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// How many digits of the commit are told: enough for any repository of this size, for ever.
const DIGITS: &str = "--short=12";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(commit) = is_own_repository().then(|| git(&["rev-parse", DIGITS, "HEAD"])).flatten() else {
        return;
    };
    // HEAD changes when another branch is checked out, its log with every commit. Cargo runs this again each
    // time where a file is named that is not there.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name]).map(|path| Path::new(ROOT).join(path));
        if let Some(path) = path.filter(|path| path.is_file()) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    println!("cargo::rustc-env=FLYBALL_COMMIT={commit}");
}

/// Whether this workspace is the repository itself: sources may have been unpacked inside another one.
fn is_own_repository() -> bool {
    let top =
        git(&["rev-parse", "--show-toplevel"]).map(PathBuf::from).and_then(|path| path.canonicalize().ok());
    top.is_some() && top == Path::new(ROOT).canonicalize().ok()
}

/// What git says, where it can say it.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(ROOT).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}
