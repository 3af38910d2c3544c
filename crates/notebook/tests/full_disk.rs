//! Disks that are full or cannot be written. They need a small file system of their own, so root.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use domain::Sink;
use domain::ids::RunId;
use domain::rng::Seed;
use domain::time::Nanos;
use notebook::{Error, Notebook};
use std::fs;
use std::path::Path;
use std::process::Command;
use support::{assert_whole, key, run, staged, store, trial};

/// A tmpfs of 512 KiB; unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = mount(&["-t", "tmpfs", "-o", "size=512k", "tmpfs"], folder.path());
        if !mounted {
            println!("skipped: mounting a tmpfs needs root");
        }
        mounted.then_some(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

fn mount(arguments: &[&str], folder: &Path) -> bool {
    Command::new("mount").args(arguments).arg(folder).output().is_ok_and(|o| o.status.success())
}

#[test]
fn a_full_disk_is_said_and_loses_nothing_that_was_committed() {
    let Some(disk) = SmallDisk::mount() else { return };
    let notebook = Notebook::create(&disk.path().join("notebook")).unwrap();
    let folder = notebook.create_run(&run("quick-1"), "{}").unwrap();
    store(&folder, &key(0, "4k")).unwrap();
    let ballast = disk.path().join("ballast");
    assert!(fs::write(&ballast, vec![1; 1 << 20]).is_err(), "the disk is not small");

    let error = store_small(&folder, 1).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("No space left on device") && text.contains("free some space there"), "{text}");
    assert_whole(&Notebook::open(notebook.folder()).unwrap(), folder.run(), &key(0, "4k"));
    assert_eq!(staged(notebook.folder()), Vec::<String>::new());
    assert_eq!(notebook.runs().unwrap().0[0].trials.valid, 1, "a full disk cannot be read");

    fs::remove_file(&ballast).unwrap();
    store(&folder, &key(1, "4k")).unwrap();
    assert_whole(&notebook, folder.run(), &key(1, "4k"));
}

/// A trial without a trace.
fn store_small(folder: &notebook::RunFolder, block: u32) -> notebook::Result<std::path::PathBuf> {
    let it = key(block, "4k");
    folder.begin(&it)?.commit(&trial(folder.run(), &it), "#!/bin/sh\n")
}

#[test]
fn a_trace_that_does_not_fit_fails_its_trial_and_no_other() {
    let Some(disk) = SmallDisk::mount() else { return };
    let notebook = Notebook::create(&disk.path().join("notebook")).unwrap();
    let folder = notebook.create_run(&run("quick-1"), "{}").unwrap();
    store(&folder, &key(0, "4k")).unwrap();

    let mut staging = folder.begin(&key(1, "4k")).unwrap();
    let sink = staging.sink();
    sink.begin(&support::head()).unwrap();
    // Values that do not pack: more of them than the disk holds.
    let mut noise = Seed(1).stream("noise");
    let mut value = || Some(noise.bits());
    let lost = (0..100_000).find_map(|i| sink.row(Nanos::new(i), &[value(), value(), None]).err());
    let error = staging.commit(&trial(folder.run(), &key(1, "4k")), "").unwrap_err();
    assert!(matches!(error, Error::TraceNotWritten { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("No space left on device"), "{text}; the sink said {lost:?}");
    assert_eq!(staged(notebook.folder()), Vec::<String>::new());
    assert_eq!(notebook.trial_keys(&folder.run().id).unwrap().0, [key(0, "4k")]);
    store(&folder, &key(1, "4k")).unwrap();
}

#[test]
fn a_read_only_notebook_is_read_and_refuses_to_be_written() {
    let Some(disk) = SmallDisk::mount() else { return };
    let place = disk.path().join("notebook");
    let notebook = Notebook::create(&place).unwrap();
    store(&notebook.create_run(&run("quick-1"), "{}").unwrap(), &key(0, "4k")).unwrap();
    assert!(mount(&["-o", "remount,ro"], disk.path()));

    let notebook = Notebook::open(&place).unwrap();
    assert_eq!(notebook.runs().unwrap().0[0].trials.valid, 1);
    assert_eq!(notebook.find("quick").unwrap(), RunId("quick-1".into()));
    assert_whole(&notebook, &run("quick-1"), &key(0, "4k"));
    for error in [
        notebook.open_run(&RunId("quick-1".into())).unwrap_err(),
        notebook.create_run(&run("quick-2"), "{}").unwrap_err(),
        Notebook::create(&disk.path().join("another")).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.contains("Read-only file system") && text.contains("--notebook"), "{text}");
    }
}
