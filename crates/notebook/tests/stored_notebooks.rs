//! Notebooks that earlier versions wrote are read for ever.
#![allow(clippy::unwrap_used)]

use domain::ids::RunId;
use domain::trace::Role;
use domain::trial::{Trial, Validity};
use expect_test::expect;
use notebook::{Notebook, TrialCounts};
use std::fs;
use std::path::{Path, PathBuf};

const RUN: &str = "stored-20261120-145516-7f3a";

fn stored(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/notebooks").join(version)
}

fn v1() -> (tempfile::TempDir, Notebook) {
    let root = tempfile::tempdir().unwrap();
    testing::copy_folder(&stored("v1"), root.path());
    let notebook = Notebook::open(root.path()).unwrap();
    (root, notebook)
}

fn trials() -> Vec<Trial> {
    let (_root, notebook) = v1();
    let (trials, problems) = notebook.trials(&RunId(RUN.into())).unwrap();
    assert_eq!(problems, []);
    trials
}

#[test]
fn the_runs_of_version_1_are_read() {
    let (_root, notebook) = v1();
    let (runs, problems) = notebook.runs().unwrap();
    assert_eq!(problems, []);
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].trials, TrialCounts { valid: 3, traced: 0, disturbed: 1, failed: 1 });
    assert_eq!(
        runs[0].run.study_text,
        fs::read_to_string(stored("v1/runs").join(RUN).join("study.toml")).unwrap()
    );
    assert!(runs[0].run.finished.is_some());
    assert_eq!(notebook.find("stored@b47d").unwrap().0, RUN);
}

#[test]
fn the_trials_of_version_1_are_read() {
    let trials = trials();
    let keys: Vec<String> = trials.iter().map(|t| t.key.folder()).collect();
    expect![
        "b00.randread_4k.a0 b00.randread_64k.a0 b01.randread_4k.a0 b01.randread_64k.a0 b00.randread_4k.a1"
    ]
    .assert_eq(&keys.join(" "));
    let first = &trials[0];
    let measured = first.measurement.as_ref().unwrap();
    assert_eq!(measured.outcome.tool, "fio-3.33");
    assert!(measured.roles[&Role::Workload].secs() > 0.0);
    assert_eq!((measured.disks[0].device.as_str(), measured.threads[0].name.as_str()), ("vda", "fio"));
    assert_eq!(first.settings[0].setting.to_string(), "vm.dirty_ratio");
    let failed = trials.iter().find(|t| t.measurement.is_none()).unwrap();
    assert!(matches!(&failed.validity, Validity::Failed(reason) if reason.contains("fio")), "{failed:?}");
}

#[test]
fn the_traces_and_recordings_of_version_1_are_read() {
    let (_root, notebook) = v1();
    let trials = trials();
    let mut trace = notebook.trace(&trials[0].run, &trials[0].key).unwrap().unwrap();
    let reads = trace.read(usize::MAX, |series| series.name == "disk.vda.read_ios").unwrap();
    let reads = reads.column("disk.vda.read_ios").unwrap();
    assert!(reads.len() > 50 && reads.first() < reads.last(), "{reads:?}");
    let (recordings, problems) = notebook.recordings().unwrap();
    assert_eq!((recordings[0].name.as_str(), problems), ("idle", vec![]));
    let rows = notebook.recording_trace("idle").unwrap().unwrap().rows() as u64;
    assert_eq!(rows, recordings[0].recorder.samples);
}
