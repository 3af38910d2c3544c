//! Runs that are removed.
#![allow(clippy::unwrap_used)]

mod support;

use domain::ids::RunId;
use domain::time::Timestamp;
use domain::trial::Run;
use notebook::{Error, Notebook};
use std::fs;
use support::{key, run, staged, store};

#[test]
fn a_removed_run_is_gone_with_its_trials_and_others_stay() {
    let root = tempfile::tempdir().unwrap();
    let notebook = Notebook::create(&root.path().join("n")).unwrap();
    for id in ["quick-1", "quick-2"] {
        store(&notebook.create_run(&run(id), "{}").unwrap(), &key(0, "4k")).unwrap();
    }
    assert!(notebook.run_size(&RunId("quick-1".into())).unwrap().get() > 0);
    notebook.remove_run(&RunId("quick-1".into())).unwrap();
    let (runs, problems) = notebook.runs().unwrap();
    assert_eq!(runs.iter().map(|entry| entry.run.id.0.as_str()).collect::<Vec<_>>(), ["quick-2"]);
    assert_eq!(runs[0].trials.valid, 1);
    assert!(problems.is_empty() && staged(notebook.folder()).is_empty());
    assert!(matches!(notebook.remove_run(&RunId("quick-1".into())), Err(Error::NoSuchRun { .. })));
}

#[test]
fn a_run_that_is_measured_is_not_removed() {
    let root = tempfile::tempdir().unwrap();
    let notebook = Notebook::create(&root.path().join("n")).unwrap();
    let measured = notebook.create_run(&run("quick-1"), "{}").unwrap();
    let id = measured.run().id.clone();
    assert!(notebook.is_measured(&id).unwrap());
    assert!(matches!(notebook.remove_run(&id), Err(Error::RunBusy { .. })));
    drop(measured);
    assert!(!notebook.is_measured(&id).unwrap());
    notebook.remove_run(&id).unwrap();
}

#[test]
fn no_link_is_followed_and_nothing_outside_is_named() {
    let root = tempfile::tempdir().unwrap();
    let notebook = Notebook::create(&root.path().join("n")).unwrap();
    let measured = notebook.create_run(&run("quick-1"), "{}").unwrap();
    drop(measured);
    let victim = root.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("run.json"), "precious").unwrap();
    std::os::unix::fs::symlink(&victim, notebook.folder().join("runs/linked")).unwrap();
    for name in ["linked", "../../victim", "..", ".", "", "/etc", "quick-1/trials"] {
        assert!(notebook.remove_run(&RunId(name.into())).is_err(), "{name}");
    }
    std::os::unix::fs::symlink(&victim, notebook.folder().join("runs/quick-1/trials/inner")).unwrap();
    notebook.remove_run(&RunId("quick-1".into())).unwrap();
    assert_eq!(fs::read_to_string(victim.join("run.json")).unwrap(), "precious");
}

#[test]
fn a_run_that_cannot_be_read_can_be_removed() {
    let root = tempfile::tempdir().unwrap();
    let notebook = Notebook::create(&root.path().join("n")).unwrap();
    drop(notebook.create_run(&run("quick-1"), "{}").unwrap());
    fs::write(notebook.folder().join("runs/quick-1/run.json"), "torn").unwrap();
    let id = RunId("quick-1".into());
    assert!(notebook.find("quick-1").is_err() && notebook.has_run(&id));
    notebook.remove_run(&id).unwrap();
    assert!(!notebook.has_run(&id));
}

#[test]
fn what_no_later_run_goes_on_with_is_abandoned() {
    let root = tempfile::tempdir().unwrap();
    let notebook = Notebook::create(&root.path().join("n")).unwrap();
    let of = |id: &str, machine: &str, finished: Option<i64>| Run {
        machine: machine.into(),
        finished: finished.map(Timestamp::from_unix_nanos),
        ..run(id)
    };
    // Newest first.
    let runs = [of("d", "m", None), of("c", "m", None), of("b", "other", None), of("a", "m", Some(1))];
    let names: Vec<&str> = notebook.abandoned(&runs).into_iter().map(|run| run.id.0.as_str()).collect();
    assert_eq!(names, ["c"]);
}
