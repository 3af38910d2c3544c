//! Writing and reading a whole notebook.

#![allow(clippy::unwrap_used)]

mod support;

use domain::ids::{CellId, RunId, TrialKey};
use domain::profile::{Interrupts, Profile, Subsystem};
use domain::time::Timestamp;
use domain::trial::{Run, Validity};
use expect_test::expect;
use notebook::{Error, Notebook, TrialCounts};
use rusqlite::Connection;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use support::{assert_whole, key, run, staged, store, trial};

fn new() -> (tempfile::TempDir, Notebook) {
    let root = tempfile::tempdir().unwrap();
    let notebook = Notebook::create(&root.path().join("notebook")).unwrap();
    (root, notebook)
}

/// A notebook with one run of three trials.
fn filled() -> (tempfile::TempDir, Notebook) {
    let (root, notebook) = new();
    let folder = notebook.create_run(&run("quick-1"), "{\"cpus\": 2}").unwrap();
    for trial in [key(0, "64k"), key(0, "4k"), key(1, "4k")] {
        store(&folder, &trial).unwrap();
    }
    (root, notebook)
}

fn without(root: &tempfile::TempDir, text: impl ToString) -> String {
    text.to_string().replace(&root.path().display().to_string(), "ROOT")
}

/// Asks the index as a user would, in the file.
fn ask(notebook: &Notebook, sql: &str) -> i64 {
    Connection::open(notebook.index_path()).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_stored_trial_is_read_back_with_all_its_parts() {
    let (_root, notebook) = filled();
    let (trials, problems) = notebook.trials(&RunId("quick-1".into())).unwrap();
    assert_eq!(problems, []);
    let keys: Vec<String> = trials.iter().map(|t| t.key.folder()).collect();
    assert_eq!(keys, ["b00.read_4k.a0", "b00.read_64k.a0", "b01.read_4k.a0"]);
    for t in &trials {
        assert_whole(&notebook, &run("quick-1"), &t.key);
    }
    let script = notebook.trial_folder(&RunId("quick-1".into()), &key(0, "4k")).join("reproduce.sh");
    assert_eq!(fs::metadata(script).unwrap().permissions().mode() & 0o111, 0o111);
    assert_eq!(notebook.machine_json(&RunId("quick-1".into())).unwrap(), "{\"cpus\": 2}");
    assert_eq!(staged(notebook.folder()), Vec::<String>::new());
}

#[test]
fn cells_that_could_not_be_run_are_noted_and_forgotten() {
    let (_root, notebook) = filled();
    let id = RunId("quick-1".into());
    let folder = notebook.open_run(&id).unwrap();
    assert!(notebook.skipped(&id).unwrap().is_empty());
    folder.forget_skipped().unwrap();
    for (cell, why) in [("read_4k", "no fio"), ("read_64k", "no `md`\nhere"), ("read_4k", "no array")] {
        folder.note_skipped(&[(CellId::from_stored(cell), why.to_owned())].into()).unwrap();
    }
    let noted = notebook.skipped(&id).unwrap();
    let noted: Vec<(&str, &str)> = noted.iter().map(|(cell, why)| (cell.as_str(), why.as_str())).collect();
    assert_eq!(noted, [("read_4k", "no array"), ("read_64k", "no `md`\nhere")]);
    let file = folder.path().join("skipped.json");
    fs::write(&file, "{\"schema\": 7}").unwrap();
    assert!(matches!(notebook.skipped(&id), Err(Error::Newer { .. })));
    assert!(matches!(folder.forget_skipped(), Err(Error::Newer { .. })));
    fs::write(&file, "{\"schema\": 1").unwrap();
    assert!(notebook.skipped(&id).is_err());
    folder.forget_skipped().unwrap();
    assert!(notebook.skipped(&id).unwrap().is_empty());
}

#[test]
fn a_trial_is_never_written_twice() {
    let (root, notebook) = filled();
    let folder = notebook.open_run(&RunId("quick-1".into())).unwrap();
    let error = folder.begin(&key(0, "4k")).unwrap_err();
    expect!["cannot store `ROOT/notebook/runs/quick-1/trials/b00.read_4k.a0`: it is there already, and what was measured is never overwritten"]
        .assert_eq(&without(&root, error));
    let (first, second) = (folder.begin(&key(2, "4k")).unwrap(), folder.begin(&key(2, "4k")).unwrap());
    let it = trial(folder.run(), &key(2, "4k"));
    first.commit(&it, "one").unwrap();
    assert!(matches!(second.commit(&it, "two"), Err(Error::Exists { .. })));
    let script = notebook.trial_folder(&folder.run().id, &key(2, "4k")).join("reproduce.sh");
    assert_eq!(fs::read_to_string(script).unwrap(), "one");
    assert_eq!(staged(notebook.folder()), Vec::<String>::new());
}

#[test]
fn a_run_is_never_begun_twice() {
    let (root, notebook) = filled();
    let error = notebook.create_run(&run("quick-1"), "{}").unwrap_err();
    expect!["cannot store `ROOT/notebook/runs/quick-1`: it is there already, and what was measured is never overwritten"]
        .assert_eq(&without(&root, error));
    assert_eq!(notebook.trial_keys(&RunId("quick-1".into())).unwrap().0.len(), 3);
}

#[test]
fn a_trial_that_is_dropped_leaves_nothing() {
    let (_root, notebook) = filled();
    let folder = notebook.open_run(&RunId("quick-1".into())).unwrap();
    let mut staging = folder.begin(&key(7, "4k")).unwrap();
    support::fill(staging.sink());
    drop(staging);
    assert_eq!(staged(notebook.folder()), Vec::<String>::new());
    assert_eq!(notebook.trial_keys(&folder.run().id).unwrap().0.len(), 3);
}

#[test]
fn a_metric_that_is_no_number_is_refused() {
    let (_root, notebook) = filled();
    let folder = notebook.open_run(&RunId("quick-1".into())).unwrap();
    let mut bad = trial(folder.run(), &key(3, "4k"));
    bad.measurement.as_mut().unwrap().outcome.metrics.get_mut("throughput").unwrap().value = f64::NAN;
    let error = folder.begin(&bad.key).unwrap().commit(&bad, "").unwrap_err();
    expect!["cannot store the trial b03.read_4k.a0: its throughput is NaN, which is not a number that a tool can have measured"]
        .assert_eq(&error.to_string());
    assert_eq!(staged(notebook.folder()), Vec::<String>::new());
}

#[test]
fn torn_and_foreign_folders_are_skipped_and_reported() {
    let (root, notebook) = filled();
    let id = RunId("quick-1".into());
    let trials = notebook.run_folder(&id).join("trials");
    fs::write(notebook.trial_folder(&id, &key(0, "4k")).join("trial.json"), "{\"schema\": 1, \"run\"")
        .unwrap();
    fs::create_dir(trials.join("b09.empty.a0")).unwrap();
    fs::create_dir(trials.join("my notes")).unwrap();
    fs::write(trials.join("notes.txt"), "").unwrap();
    fs::create_dir(trials.join("b08.read_4k.a0")).unwrap();
    fs::copy(trials.join("b01.read_4k.a0/trial.json"), trials.join("b08.read_4k.a0/trial.json")).unwrap();
    fs::create_dir_all(notebook.folder().join("runs/strange")).unwrap();

    let (read, mut problems) = notebook.trials(&id).unwrap();
    assert_eq!(read.len(), 2);
    problems.sort_by(|a, b| a.path.cmp(&b.path));
    let lines: Vec<String> =
        problems.iter().map(|p| without(&root, format!("{}: {}\n", p.path.display(), p.reason))).collect();
    expect![[r#"
        ROOT/notebook/runs/quick-1/trials/b00.read_4k.a0: EOF while parsing an object at line 1 column 19
        ROOT/notebook/runs/quick-1/trials/b08.read_4k.a0: it is the trial `b01.read_4k.a0` of the run `quick-1`, copied here
        ROOT/notebook/runs/quick-1/trials/b09.empty.a0: cannot read it: No such file or directory (os error 2)
        ROOT/notebook/runs/quick-1/trials/my notes: its name is not that of a trial
        ROOT/notebook/runs/quick-1/trials/notes.txt: it is not a folder, and not of this program
    "#]]
    .assert_eq(&lines.concat());
    let (runs, problems) = notebook.runs().unwrap();
    assert_eq!(runs[0].trials, TrialCounts { valid: 2, traced: 0, disturbed: 0, failed: 0 });
    assert_eq!(problems.len(), 6, "{problems:?}");
}

#[test]
fn a_folder_whose_name_is_no_text_is_reported_and_the_rest_is_read() {
    use std::os::unix::ffi::OsStrExt;
    let (_root, notebook) = filled();
    let name = std::ffi::OsStr::from_bytes(b"quick\xff");
    fs::create_dir(notebook.folder().join("runs").join(name)).unwrap();
    let (runs, problems) = notebook.runs().unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].reason.contains("its name is no text"), "{problems:?}");
}

#[test]
fn runs_are_listed_newest_first_with_their_trials_by_validity() {
    let (_root, notebook) = filled();
    let mut later = run("quick-2");
    later.started = Timestamp::from_unix_nanos(later.started.unix_nanos() + 1);
    let mut folder = notebook.create_run(&later, "{}").unwrap();
    for (block, validity) in
        [Validity::Disturbed(vec![]), Validity::Failed("fio: 1".into())].into_iter().enumerate()
    {
        let it = TrialKey { attempt: 1, ..key(block as u32, "4k") };
        let staging = folder.begin(&it).unwrap();
        staging.commit(&domain::Trial { validity, measurement: None, ..trial(&later, &it) }, "").unwrap();
    }
    folder.finish(Timestamp::from_unix_nanos(9)).unwrap();
    let (runs, problems) = notebook.runs().unwrap();
    assert_eq!(problems, []);
    let seen: Vec<_> = runs.iter().map(|e| (e.run.id.0.as_str(), e.run.finished, e.trials)).collect();
    assert_eq!(
        seen,
        [
            (
                "quick-2",
                Some(Timestamp::from_unix_nanos(9)),
                TrialCounts { valid: 0, traced: 0, disturbed: 1, failed: 1 }
            ),
            ("quick-1", None, TrialCounts { valid: 3, traced: 0, disturbed: 0, failed: 0 }),
        ]
    );
}

#[test]
fn only_the_latest_run_of_the_same_text_and_machine_is_gone_on_with() {
    let (_root, notebook) = filled();
    let it = run("quick-1");
    let find = |text: &str, machine: &str| notebook.unfinished("quick", text, machine).unwrap();
    assert_eq!(find(&it.study_text, &it.machine), Some(it.id.clone()));
    assert_eq!(find("flyball = 1\n", &it.machine), None);
    assert_eq!(find(&it.study_text, "another"), None);
    let other = |text: &str| notebook.unfinished_of_another_text("quick", text, &it.machine).unwrap();
    assert_eq!(other(&it.study_text), None);
    let (id, copy) = other("flyball = 1\n").unwrap();
    assert_eq!((id, std::fs::read_to_string(copy).unwrap()), (it.id.clone(), it.study_text.clone()));
    notebook.open_run(&it.id).unwrap().finish(Timestamp::from_unix_nanos(1)).unwrap();
    assert_eq!((find(&it.study_text, &it.machine), other("flyball = 1\n")), (None, None));
}

#[test]
fn a_run_is_gone_on_with_though_another_text_of_its_study_was_run_since() {
    let (_root, notebook) = filled();
    let it = run("quick-1");
    let edited = Run {
        study_text: "flyball = 1\n".into(),
        started: Timestamp::from_unix_nanos(i64::MAX),
        ..run("quick-2")
    };
    notebook.create_run(&edited, "null\n").unwrap();
    let find = |text: &str| notebook.unfinished("quick", text, &it.machine).unwrap();
    assert_eq!((find(&it.study_text), find("flyball = 1\n")), (Some(it.id), Some(edited.id)));
}

#[test]
fn the_index_answers_sql() {
    let (_root, notebook) = filled();
    notebook.index().unwrap();
    assert_eq!(
        ask(&notebook, "SELECT count(*) FROM results WHERE metric = 'throughput' AND value = 57000000"),
        3
    );
    assert_eq!(ask(&notebook, "SELECT count(*) FROM levels WHERE factor = 'bs' AND level = '4k'"), 2);
    assert_eq!(ask(&notebook, "SELECT count(*) FROM settings WHERE setting = 'read_ahead_kb@loop3'"), 3);
    assert_eq!(ask(&notebook, "SELECT count(*) FROM environment WHERE name = 'kernel'"), 3);
    assert_eq!(ask(&notebook, "SELECT count(*) FROM roles WHERE role = 'workload' AND cpu_s = 0.7"), 3);
}

#[test]
fn the_index_follows_the_folders() {
    let (_root, notebook) = filled();
    let id = RunId("quick-1".into());
    notebook.index().unwrap();
    fs::remove_dir_all(notebook.trial_folder(&id, &key(0, "4k"))).unwrap();
    store(&notebook.open_run(&id).unwrap(), &key(5, "4k")).unwrap();
    notebook.index().unwrap();
    assert_eq!(ask(&notebook, "SELECT count(*) FROM trials"), 3);
    assert_eq!(ask(&notebook, "SELECT count(*) FROM trials WHERE key = 'b05.read_4k.a0'"), 1);
    fs::remove_dir_all(notebook.run_folder(&id)).unwrap();
    notebook.index().unwrap();
    assert_eq!(ask(&notebook, "SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM metrics)"), 0);
}

#[test]
fn an_unusable_index_is_made_again() {
    let (_root, notebook) = filled();
    let path = notebook.index_path();
    let counts = || notebook.index().unwrap().counts().unwrap()["quick-1"].valid;
    assert_eq!(counts(), 3);
    let whole = fs::read(&path).unwrap();

    fs::write(&path, "not a database at all").unwrap();
    assert_eq!((counts(), ask(&notebook, "SELECT count(*) FROM trials")), (3, 3));
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert_eq!((counts(), ask(&notebook, "SELECT count(*) FROM trials")), (3, 3));
    fs::remove_file(&path).unwrap();
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE mine (x); INSERT INTO mine VALUES (1);")
        .unwrap();
    assert_eq!((counts(), ask(&notebook, "SELECT count(*) FROM trials")), (3, 3));
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert_eq!((counts(), ask(&notebook, "PRAGMA user_version")), (3, 2));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(counts(), 3);
}

#[test]
fn a_folder_of_other_things_does_not_become_a_notebook() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("thesis.tex"), "").unwrap();
    let error = Notebook::create(root.path()).unwrap_err();
    expect!["cannot make a notebook of `ROOT`: it holds `thesis.tex` and no `notebook.json`; name a new or empty folder with --notebook"]
        .assert_eq(&without(&root, error));
    let error = Notebook::open(&root.path().join("none")).unwrap_err();
    expect!["cannot open the notebook `ROOT/none`: there is none; run a study first, or name another with --notebook"]
        .assert_eq(&without(&root, error));
}

#[test]
fn a_notebook_of_a_newer_version_is_refused() {
    let (root, notebook) = new();
    fs::write(notebook.folder().join("notebook.json"), "{\"flyball_notebook\": 2, \"more\": 1}").unwrap();
    let error = Notebook::create(notebook.folder()).unwrap_err();
    expect!["cannot read `ROOT/notebook/notebook.json`: it has schema 2, and this is flyball 0.1.0, which knows schemas up to 1; use the version that wrote it"]
        .assert_eq(&without(&root, error));
}

#[test]
fn names_that_cannot_be_folders_are_refused() {
    let (_root, notebook) = new();
    for name in ["", "..", ".hidden", "a/b", &"x".repeat(300)] {
        assert!(matches!(notebook.create_run(&run(name), ""), Err(Error::BadName { .. })), "{name}");
    }
    let folder = notebook.create_run(&run("r"), "").unwrap();
    assert!(matches!(folder.begin(&key(0, &"x".repeat(300))), Err(Error::BadName { .. })));
}

#[test]
fn a_whole_run_is_there_with_its_trial_or_not_at_all() {
    let (_root, notebook) = new();
    let (run, key) = (run("whole"), key(0, "4k"));
    let mut dropped = notebook.begin_whole_run(&key).unwrap();
    support::fill(dropped.sink());
    assert_eq!(notebook.runs().unwrap(), (vec![], vec![]));
    drop(dropped);
    assert_eq!(staged(notebook.folder()), Vec::<String>::new());

    let mut whole = notebook.begin_whole_run(&key).unwrap();
    support::fill(whole.sink());
    whole.commit(&run, "null", &trial(&run, &key), "#!/bin/sh\n").unwrap();
    assert_eq!(notebook.run(&run.id).unwrap(), run);
    assert_eq!(notebook.trial(&run.id, &key).unwrap(), trial(&run, &key));
    assert_eq!(notebook.trace(&run.id, &key).unwrap().unwrap().rows() as u64, support::ROWS);
    let again = notebook.begin_whole_run(&key).unwrap();
    let refused = again.commit(&run, "null", &trial(&run, &key), "#!/bin/sh\n");
    assert!(matches!(refused, Err(Error::Exists { .. })), "{refused:?}");
}

#[test]
fn a_recording_is_read_back_with_its_trace() {
    let (root, notebook) = new();
    let transactions =
        domain::Metric { value: 12.5, unit: domain::units::Unit::PerSecond, better: domain::Better::Higher };
    let recording = notebook::Recording {
        name: "evening".into(),
        machine: "4f2a".into(),
        started: Timestamp::from_unix_nanos(5),
        command: Some(vec!["make".into(), "-j2".into()]),
        exit_code: Some(2),
        environment: [("kernel".to_owned(), "6.1".to_owned())].into(),
        metrics: [("transactions".to_owned(), transactions)].into(),
        warnings: vec!["sessions report late".into()],
        duration: domain::Nanos::from_secs(3),
        roles: [(domain::trace::Role::Journal, domain::Nanos::new(7))].into(),
        threads: vec![],
        disks: vec![],
        profile: Some(Profile {
            period: domain::Nanos::from_millis(1),
            samples: [((domain::trace::Role::Workload, Subsystem::Md), 5)].into(),
            inclusive: [(Subsystem::Md, 5), (Subsystem::Vfs, 5)].into(),
            functions: [("raid10_make_request [raid10]".to_owned(), 3)].into(),
            lost: 1,
            interrupts: Some(Interrupts {
                held_off: [(Subsystem::Md, 1)].into(),
                unsampled: 2,
                handlers: [("36 nvme0q1".to_owned(), domain::Nanos::from_millis(4))].into(),
            }),
        }),
        windows: None,
        phases: vec![],
        spent: Default::default(),
        calls: None,
        recorder: domain::trial::RecorderReport {
            samples: 300,
            missed: 1,
            cpu: domain::Nanos::from_micros(900),
            span: domain::Nanos::from_secs(3),
            frequency: domain::trace::FrequencySource::None,
            energy: None,
            cpu_changes: Vec::new(),
            absent: vec!["no cpufreq".into()],
        },
    };
    assert_eq!(notebook.recordings().unwrap(), (vec![], vec![]));
    let out = root.path().join("out");
    let mut folder = notebook::RecordingFolder::at(&out).unwrap();
    support::fill(folder.sink());
    folder.commit(&recording).unwrap();
    let (read, trace) = notebook::Recording::open(&out).unwrap();
    assert_eq!((read, trace.unwrap().rows() as u64), (recording, support::ROWS));
    assert!(!root.path().join("out.staging").exists(), "the staging folder is left over");
    assert!(matches!(notebook::RecordingFolder::at(&out), Err(Error::Exists { .. })));
}

#[test]
fn several_may_begin_a_notebook_at_the_same_moment() {
    for _ in 0..20 {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("notebook");
        let barrier = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            let begin = || {
                barrier.wait();
                Notebook::create(&folder)
            };
            let all: Vec<_> = (0..8).map(|_| scope.spawn(begin)).collect();
            for one in all {
                one.join().unwrap().unwrap();
            }
        });
    }
}
