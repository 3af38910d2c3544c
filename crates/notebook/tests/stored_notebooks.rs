//! Notebooks that earlier versions wrote are read for ever; and what they hold is exported.
#![allow(clippy::unwrap_used)]

use domain::trace::Role;
use domain::trial::{RunId, Trial, Validity};
use expect_test::{ExpectFile, expect, expect_file};
use notebook::{Notebook, TrialCounts, export};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs;
use std::path::{Path, PathBuf};

const RUN: &str = "stored-20261120-145516-7f3a";

fn stored(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/notebooks").join(version)
}

/// A copy, for opening a notebook makes its index.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn v1() -> (tempfile::TempDir, Notebook) {
    let root = tempfile::tempdir().unwrap();
    copy(&stored("v1"), root.path());
    let notebook = Notebook::open(root.path()).unwrap();
    (root, notebook)
}

fn trials() -> Vec<Trial> {
    let (_root, notebook) = v1();
    let (trials, problems) = notebook.trials(&RunId(RUN.into())).unwrap();
    assert_eq!(problems, []);
    trials
}

fn check(text: &[u8], expected: ExpectFile) {
    expected.assert_eq(std::str::from_utf8(text).unwrap());
}

#[test]
fn the_runs_of_version_1_are_read() {
    let (_root, notebook) = v1();
    let (runs, problems) = notebook.runs().unwrap();
    assert_eq!(problems, []);
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].trials, TrialCounts { valid: 3, disturbed: 1, failed: 1 });
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

#[test]
fn trials_are_exported_as_csv() {
    let mut out = Vec::new();
    export::trials_as_csv(&trials(), &mut out).unwrap();
    check(&out, expect_file!["expected/trials.csv"]);
}

#[test]
fn trials_are_exported_as_json_that_is_json() {
    let mut out = Vec::new();
    export::trials_as_json(&trials(), &mut out).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(json["schema"], 1);
    let stored = stored("v1/runs").join(RUN).join("trials/b00.randread_4k.a0/trial.json");
    let stored: serde_json::Value = serde_json::from_str(&fs::read_to_string(stored).unwrap()).unwrap();
    assert!(json["trials"].as_array().unwrap().contains(&stored));
}

#[test]
fn trials_are_exported_as_parquet() {
    let trials = trials();
    let mut out = Vec::new();
    export::trials_as_parquet(&trials, &mut out).unwrap();
    let file = SerializedFileReader::new(bytes::Bytes::from(out)).unwrap();
    assert_eq!(file.metadata().file_metadata().num_rows() as usize, trials.len());
    let mut rows = String::new();
    for row in file.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let value = |name: &str| row.get_column_iter().find(|(n, _)| *n == name).unwrap().1.to_string();
        let columns = ["key", "validity", "factor.bs", "metric.iops.per_second", "cpu.workload.seconds"];
        rows += &columns.map(value).join(" | ");
        rows.push('\n');
    }
    expect![[r#"
        "b00.randread_4k.a0" | "valid" | "4k" | 29649.350649 | 0.281960532
        "b00.randread_64k.a0" | "valid" | "64k" | 13006.993007 | 0.406692984
        "b01.randread_4k.a0" | "valid" | "4k" | 30294.705295 | 0.274300497
        "b01.randread_64k.a0" | "disturbed" | "64k" | 12983.016983 | 0.420625844
        "b00.randread_4k.a1" | "failed" | "4k" | null | null
    "#]]
    .assert_eq(&rows);
}

#[test]
fn a_trace_is_exported_as_csv() {
    let (_root, notebook) = v1();
    let trials = trials();
    let mut trace = notebook.trace(&trials[0].run, &trials[0].key).unwrap().unwrap();
    let mut out = Vec::new();
    export::trace_as_csv(&mut trace, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("t_ns,cpu.user,cpu.nice,"), "{}", &text[..80]);
    assert_eq!(text.lines().count(), trace.rows() + 1);
    let width = trace.head().series.len() + 1;
    assert!(text.lines().all(|line| line.split(',').count() == width));
}

#[test]
fn an_export_of_no_trials_is_still_a_table() {
    let mut csv = Vec::new();
    export::trials_as_csv(&[], &mut csv).unwrap();
    assert_eq!(csv.iter().filter(|b| **b == b'\n').count(), 1);
    let mut parquet = Vec::new();
    export::trials_as_parquet(&[], &mut parquet).unwrap();
    let file = SerializedFileReader::new(bytes::Bytes::from(parquet)).unwrap();
    assert_eq!(file.metadata().file_metadata().num_rows(), 0);
}

#[test]
fn a_full_disk_under_an_export_is_an_error() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let trials = trials();
    for outcome in [
        export::trials_as_csv(&trials, full()),
        export::trials_as_json(&trials, full()),
        export::trials_as_parquet(&trials, full()),
    ] {
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains("No space left on device"), "{text}");
    }
}
