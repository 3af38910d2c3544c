//! `make install` without make: what is installed works, and is removed again.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn install(arguments: &[&str], destination: &Path) -> Output {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/install");
    let mut command = Command::new(script);
    command.args(arguments).arg(env!("CARGO_BIN_EXE_flyball"));
    let output = command.env("DESTDIR", destination).env("PREFIX", "/opt/it").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn what_is_installed_works_without_the_checkout_and_goes_again() {
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("opt/it");
    std::fs::create_dir_all(to.join("bin")).unwrap();
    std::fs::write(to.join("bin/other"), "somebody's").unwrap();
    let told = install(&[], place.path());
    assert!(String::from_utf8_lossy(&told.stderr).contains("next: flyball diagnose"), "{told:?}");
    for file in [
        "share/man/man1/flyball.1",
        "share/man/man1/flyball-run.1",
        "share/bash-completion/completions/flyball",
        "share/zsh/site-functions/_flyball",
        "share/fish/vendor_completions.d/flyball.fish",
        "lib/systemd/system/flyball-recover.service",
        "share/flyball/studies/quick.toml",
        "share/doc/flyball/LICENSE-MIT",
    ] {
        assert!(std::fs::metadata(to.join(file)).unwrap().len() > 100, "{file}");
    }
    let run = |arguments: &[&str]| {
        let mut command = Command::new(to.join("bin/flyball"));
        command
            .args(arguments)
            .current_dir(place.path())
            .env("FLYBALL_NOTEBOOK", place.path().join("notebook"));
        command.output().unwrap()
    };
    assert!(run(&["--version"]).status.success());
    let planned = run(&["run", "quick", "--dry-run"]);
    assert!(String::from_utf8_lossy(&planned.stdout).contains("cells, each"), "{planned:?}");
    install(&["--uninstall"], place.path());
    assert_eq!(files(place.path()), [to.join("bin/other")]);
}
