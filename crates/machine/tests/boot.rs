//! The service that restores at boot: what is written, what is refused, what systemd says to it.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use machine::boot::{self, Error};
use machine::lasting::Roots;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that lies where one may be installed: every Linux has this one.
fn program() -> PathBuf {
    fs::canonicalize("/bin/true").unwrap()
}

fn there() -> (tempfile::TempDir, Roots) {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots::below(folder.path());
    (folder, roots)
}

#[test]
fn what_is_installed_is_removed_again_and_both_may_be_done_twice() {
    let (folder, roots) = there();
    for _ in 0..2 {
        let written = boot::install(&roots, &program(), Path::new("/var/lib/flyball")).unwrap();
        let link = fs::read_link(&written[1]).unwrap();
        assert_eq!(written[1].parent().unwrap().join(link).canonicalize().unwrap(), written[0]);
        assert!(fs::read_to_string(&written[0]).unwrap().contains("ExecStop="));
    }
    assert_eq!(boot::uninstall(&roots).unwrap().len(), 2);
    assert_eq!(boot::uninstall(&roots).unwrap().len(), 0);
    let wants = folder.path().join("etc/systemd/system/sysinit.target.wants");
    assert_eq!(fs::read_dir(wants).unwrap().count(), 0);
}

#[test]
fn a_unit_that_is_not_ours_is_left() {
    let (folder, roots) = there();
    let unit = folder.path().join("etc/systemd/system/flyball-recover.service");
    fs::create_dir_all(unit.parent().unwrap()).unwrap();
    fs::write(&unit, "[Unit]\n").unwrap();
    let state = Path::new("/var/lib/flyball");
    assert!(matches!(boot::install(&roots, &program(), state), Err(Error::NotOurs { .. })));
    assert!(matches!(boot::uninstall(&roots), Err(Error::NotOurs { .. })));
    assert_eq!(fs::read_to_string(&unit).unwrap(), "[Unit]\n");
}

#[test]
fn a_program_that_anybody_may_replace_or_that_is_gone_after_a_restart_is_refused() {
    let (_folder, roots) = there();
    let state = Path::new("/var/lib/flyball");
    let refused = |program: &Path| boot::install(&roots, program, state).unwrap_err().to_string();
    let temporary = tempfile::tempdir().unwrap();
    let program = temporary.path().join("flyball");
    fs::write(&program, "").unwrap();
    assert!(refused(&program).contains("/tmp"), "{}", refused(&program));
    // A checkout may itself lie in a temporary folder; no system's /var/lib does.
    let Ok(here) = tempfile::tempdir_in("/var/lib") else {
        return testing::skip_in_part("one of two cases: a folder that lasts can be made by root alone");
    };
    let program = here.path().join("flyball");
    fs::write(&program, "").unwrap();
    fs::set_permissions(here.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(refused(&program).contains("everybody may write"), "{}", refused(&program));
}

#[test]
fn systemd_takes_the_unit_without_a_warning() {
    let (_folder, roots) = there();
    let written = boot::install(&roots, &program(), Path::new("/var/lib/flyball")).unwrap();
    let output = match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&written[0]).output()
    {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: systemd-analyze cannot be run: {error}");
            return;
        }
    };
    let told = String::from_utf8_lossy(&output.stderr);
    let ours: Vec<&str> = told.lines().filter(|line| line.contains("flyball")).collect();
    assert!(output.status.success() && ours.is_empty(), "{told}");
    // Enabled, as part of a whole start: whatever stands in a circle is dropped by systemd, which says so.
    let path = format!("{}:", roots.etc.join("systemd/system").display());
    let mut whole = Command::new("systemd-analyze");
    whole.args(["verify", "--man=no", "multi-user.target"]).env("SYSTEMD_UNIT_PATH", path);
    let told = String::from_utf8_lossy(&whole.output().unwrap().stderr).into_owned();
    assert!(!told.contains("flyball") && !told.contains("cycle"), "{told}");
    println!("systemd-analyze verify: no complaint, and no circle in a start up to multi-user.target");
}
