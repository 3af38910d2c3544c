//! Every notebook that is kept in fixtures/notebooks, on the real command line: whatever became of the study
//! format since, its runs are listed, shown, compared and reported.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Place, folders, stderr};
use serde_json::Value;
use std::fs;
use std::path::Path;

#[test]
fn every_kept_notebook_is_listed_shown_explained_and_reported() {
    let kept = folders(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/notebooks"));
    assert!(!kept.is_empty());
    for folder in kept {
        let place = Place::new();
        testing::copy_folder(&folder, &place.path("notebook"));
        let listed: Value = serde_json::from_str(&place.ok(&["list", "--json"])).unwrap();
        let runs = listed["runs"].as_array().unwrap();
        assert!(!runs.is_empty(), "{folder:?}");
        for run in runs {
            let (name, verdict) = (run["run"].as_str().unwrap(), run["verdict"].as_str().unwrap());
            assert!(!verdict.contains("cannot read"), "{folder:?}: {verdict}");
            for words in [
                &["show", name][..],
                &["show", "--full", name],
                &["explain", name],
                &["report", name, "--out", "page.html"],
                &["report", name, "--format", "text"],
                &["report", name, "--format", "csv"],
                &["export", name, "--format", "csv"],
            ] {
                assert!(!place.ok(words).is_empty(), "{folder:?}: {words:?}");
            }
        }
    }
}

#[test]
fn a_run_whose_study_is_not_read_is_shown_by_its_trials_and_says_so() {
    let place = Place::new();
    testing::copy_folder(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/notebooks/v1"),
        &place.path("notebook"),
    );
    let shown = place.output(&["show", "--full", "stored"]);
    let (text, told) = (String::from_utf8(shown.stdout.clone()).unwrap(), stderr(&shown));
    // As wide as whoever runs the test has it.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("does not read the study of `stored-20261120-145516-7f3a` (line 8"), "{told}");
    assert!(text.contains("This version cannot read its study's file"), "{text}");
    assert!(text.contains("4k") && text.contains("64k") && text.contains("MB/s"), "{text}");
    assert!(place.ok(&["compare", "stored", "--factor", "bs"]).contains("64k against 4k"));
    // What nothing is known of is refused as ever.
    let run = place.path("notebook/runs/stored-20261120-145516-7f3a");
    fs::remove_dir_all(run.join("trials")).unwrap();
    fs::create_dir(run.join("trials")).unwrap();
    assert!(place.fails(1, &["show", "stored"]).contains("cannot read the study of"));
    assert!(place.ok(&["list"]).contains("this version cannot read its study"));
}
