//! Targets in a folder that is there already: one folder is made in it and removed, and nothing else is
//! touched.

use crate::fixture::{Fixture, Tmpfs, cell, is_root};
use domain::study::{self, Tool};
use domain::trial::Validity;
use domain::units::Bytes;
use machine::{Ledger, LocalMachine};
use runner::{Error, ExistingFolder, MIN_FREE};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const SIZE: Bytes = Bytes::from_mib(8);

fn in_folder(path: &Path) -> study::Target {
    study::Target::Folder { path: path.to_str().unwrap().to_owned(), size: SIZE }
}

/// A folder with files of somebody's.
fn somebodys(fixture: &Fixture) -> PathBuf {
    let folder = fixture.path("data");
    fs::create_dir_all(folder.join("flyball-target")).unwrap();
    fs::write(folder.join("target"), "precious").unwrap();
    fs::write(folder.join("flyball-target/target"), "precious too").unwrap();
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_made_in_a_folder_of_its_own_and_goes_with_it() {
    let fixture = Fixture::new();
    let folder = somebodys(&fixture);
    if let Err(error) = ExistingFolder::check(&folder, SIZE) {
        return testing::skip(format_args!("needs a filesystem with space: {error}"));
    }
    let mut ledger = fixture.ledger();
    let target = fixture.target(&mut ledger, in_folder(&folder)).unwrap().unwrap();
    let own = target.path().parent().unwrap().to_owned();
    assert_eq!(own.parent().unwrap(), fs::canonicalize(&folder).unwrap());
    assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
    assert_eq!((target.size(), fs::metadata(target.path()).unwrap().len()), (SIZE, SIZE.get()));
    let below = runner::environment::devices_below(&LocalMachine, &folder);
    assert_eq!(target.device(), below.first().map(String::as_str));
    let write = cell(Tool::Fio, &[("rw", "randwrite"), ("bs", "64k"), ("ioengine", "psync")], &[]);
    let trial = fixture.trial_on(&mut ledger, Some(&target), &write, None).unwrap().trial;
    assert!(!matches!(trial.validity, Validity::Failed(_)), "{:?}", trial.validity);
    assert!(ledger.finish().failed().next().is_none());
    assert_eq!(names(&folder), ["flyball-target", "target"]);
    assert_eq!(fs::read_to_string(folder.join("target")).unwrap(), "precious");
    assert_eq!(fs::read_to_string(folder.join("flyball-target/target")).unwrap(), "precious too");
    assert!(!fixture.path("work").exists(), "the work folder is not needed");
}

#[test]
fn what_a_killed_run_left_in_it_goes_at_the_next_start() {
    let fixture = Fixture::new();
    let folder = somebodys(&fixture);
    if let Err(error) = ExistingFolder::check(&folder, SIZE) {
        return testing::skip(format_args!("needs a filesystem with space: {error}"));
    }
    let mut ledger = fixture.ledger();
    let target = fixture.target(&mut ledger, in_folder(&folder)).unwrap().unwrap();
    // As a run that dies leaves it: nothing is undone.
    drop(ledger);
    assert!(target.path().exists());
    fs::write(target.path().with_file_name("left-by-a-tool"), "x").unwrap();
    let (ledger, report) = Ledger::open(&fixture.path("state"), &LocalMachine).unwrap();
    assert!(report.failed().next().is_none(), "{report:?}");
    assert_eq!(names(&folder), ["flyball-target", "target"]);
    ledger.finish();
}

#[test]
fn a_filesystem_keeps_a_tenth_and_a_gibibyte() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    let folder = fixture.path("small");
    let told = |size: Bytes| match ExistingFolder::check(&folder, size) {
        Err(Error::NoSpace { free, reserve, missing, .. }) => (free, reserve, missing),
        other => panic!("{other:?}"),
    };
    {
        let _small = Tmpfs::mount(&folder, "size=512m");
        assert_eq!(told(SIZE), (Bytes::from_mib(512), MIN_FREE, Bytes::from_mib(520)));
        let error = fixture.target(&mut fixture.ledger(), in_folder(&folder)).unwrap_err().to_string();
        assert!(error.contains("512 MiB are free there and 1 GiB must stay free"), "{error}");
        assert_eq!(names(&folder), [""; 0]);
    }
    let _large = Tmpfs::mount(&folder, "size=20g");
    assert_eq!(ExistingFolder::check(&folder, SIZE).unwrap().reserve, Bytes::from_mib(2048));
    assert_eq!(told(Bytes::from_mib(19 << 10)).1, Bytes::from_mib(2048));
}

#[test]
fn a_folder_that_others_may_turn_elsewhere_is_refused() {
    let fixture = Fixture::new();
    let folder = somebodys(&fixture);
    let open = fixture.path("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(ExistingFolder::check(&open, SIZE), Err(Error::Untrusted(_))));
    symlink(&folder, open.join("link")).unwrap();
    assert!(matches!(ExistingFolder::check(&open.join("link"), SIZE), Err(Error::Untrusted(_))));
    // A sticky folder, as `/tmp` is, and a link of one's own are good.
    fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
    symlink(&folder, fixture.path("link")).unwrap();
    for path in [&open, &fixture.path("link")] {
        match ExistingFolder::check(path, SIZE) {
            Ok(found) => assert_eq!(found.path, fs::canonicalize(path).unwrap()),
            // Whether it may be used is asked before there is room.
            Err(error) => assert!(matches!(error, Error::NoSpace { .. }), "{error}"),
        }
    }
    assert!(ExistingFolder::check(&fixture.path("none"), SIZE).is_err());
    assert!(ExistingFolder::check(&folder.join("target"), SIZE).is_err());
}
