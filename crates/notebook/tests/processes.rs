//! A notebook under several processes, and under processes that are killed.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use domain::ids::{RunId, TrialKey};
use domain::rng::Seed;
use domain::trial::Run;
use notebook::{Error, Notebook};
use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{assert_whole, key, run, staged, store};
use testing::Extent;

/// Which folder a child works in.
const FOLDER: &str = "FLYBALL_TEST_NOTEBOOK";
/// Which run.
const RUN: &str = "FLYBALL_TEST_RUN";

/// Starts this same test binary as a process of its own, in which only `role` runs.
fn child(role: &str, folder: &Path, run: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", role, "--ignored", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(RUN, run)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn open_or_create(notebook: &Notebook, run: &Run) -> notebook::RunFolder {
    match notebook.open_run(&run.id) {
        Err(Error::NoSuchRun { .. }) => notebook.create_run(run, "{}").unwrap(),
        opened => opened.unwrap(),
    }
}

/// A line of a child's output that is its own, without what the test harness prints before it.
fn said(line: &str, word: &str) -> Option<String> {
    line.split_once(word).map(|(_, rest)| rest.trim().to_owned())
}

#[test]
#[ignore = "the process that `kill_9_at_any_moment_…` starts and kills"]
fn writer() {
    let notebook = Notebook::create(Path::new(&env::var(FOLDER).unwrap())).unwrap();
    let folder = open_or_create(&notebook, &run(&env::var(RUN).unwrap()));
    let mut out = std::io::stdout();
    for block in 0..10_000 {
        let key = key(block, "4k");
        if !notebook.trial_folder(&folder.run().id, &key).join("trial.json").exists() {
            store(&folder, &key).unwrap();
            writeln!(out, "committed {}", key.folder()).unwrap();
            out.flush().unwrap();
        }
    }
}

#[test]
#[ignore = "the process that the tests of locks start"]
fn holder() {
    let notebook = Notebook::open(Path::new(&env::var(FOLDER).unwrap())).unwrap();
    let _folder = open_or_create(&notebook, &run(&env::var(RUN).unwrap()));
    println!("holding");
    // Until the other side closes the pipe.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// A child that holds a run.
fn holding(folder: &Path, run: &str) -> Child {
    let mut child = child("holder", folder, run);
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| said(&line, "holding").is_some()));
    child
}

#[test]
fn kill_9_at_any_moment_leaves_a_trial_whole_or_not_at_all() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("notebook");
    let extent = Extent::of(60, 1000);
    let mut delays = Seed(extent.seed).stream("delays");
    let span = until_it_commits();
    let mut all: BTreeSet<(RunId, TrialKey)> = BTreeSet::new();
    let mut left_overs = 0;
    for round in 0..extent.count {
        // A new run now and then, so that making one is killed too.
        let run = run(&format!("quick-{}", round / 5));
        let mut child = child("writer", &place, &run.id.0);
        std::thread::sleep(span.mul_f64(2.0 * delays.unit()));
        child.kill().unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        child.wait().unwrap();
        left_overs += staged(&place).len();

        let Ok(notebook) = Notebook::open(&place) else { continue };
        assert_eq!(staged(&place), Vec::<String>::new(), "round {round}");
        let (runs, problems) = notebook.runs().unwrap();
        assert_eq!(problems, [], "round {round}");
        let keys: BTreeSet<TrialKey> = match notebook.trial_keys(&run.id) {
            Ok((keys, _)) => keys.into_iter().collect(),
            Err(_) => BTreeSet::new(),
        };
        for key in &keys {
            assert_whole(&notebook, &run, key);
            all.insert((run.id.clone(), key.clone()));
        }
        for folder in text.lines().filter_map(|line| said(line, "committed ")) {
            let key = folder.parse::<TrialKey>().unwrap();
            assert!(keys.contains(&key), "round {round}: {folder} was committed and is lost");
        }
        let indexed: u64 = runs.iter().map(|entry| entry.trials.valid).sum();
        assert_eq!(indexed, all.len() as u64, "round {round}: the index and the folders differ");
    }
    let is_telling = all.len() > 5 && left_overs > 1;
    assert!(
        extent.count < 50 || is_telling,
        "{} trials, {left_overs} leftovers: this tests little",
        all.len()
    );
    let figure = format!("{} trials committed and whole, {left_overs} half-written ones removed", all.len());
    testing::promise("killed-notebooks", extent.count, figure);
}

/// How long a writer takes here to its first trial: what it does before and after is killed equally often.
fn until_it_commits() -> Duration {
    let root = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let mut child = child("writer", &root.path().join("notebook"), "quick-0");
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| said(&line, "committed ").is_some()));
    let took = begun.elapsed();
    child.kill().unwrap();
    child.wait().unwrap();
    took
}

#[test]
fn a_second_process_on_the_same_run_is_refused_with_the_pid_of_the_first() {
    let root = tempfile::tempdir().unwrap();
    let notebook = Notebook::create(&root.path().join("notebook")).unwrap();
    let mut first = holding(notebook.folder(), "quick-1");
    let pid = first.id();
    match notebook.open_run(&RunId("quick-1".into())) {
        Err(e @ Error::RunBusy { .. }) => assert_eq!(
            e.to_string(),
            format!(
                "cannot open the run `quick-1`: another flyball (pid {pid}) is measuring it; wait until it ends, or stop it first"
            )
        ),
        other => panic!("{other:?}"),
    }
    first.kill().unwrap();
    first.wait().unwrap();
    notebook.open_run(&RunId("quick-1".into())).expect("the dead hold nothing");
}

#[test]
fn processes_on_different_runs_do_not_disturb_each_other() {
    let root = tempfile::tempdir().unwrap();
    let notebook = Notebook::create(&root.path().join("notebook")).unwrap();
    let mut first = holding(notebook.folder(), "quick-1");
    let mine = notebook.create_run(&run("quick-2"), "{}").unwrap();
    store(&mine, &key(0, "4k")).unwrap();
    let mut second = holding(notebook.folder(), "quick-3");
    assert_eq!(notebook.runs().unwrap().0.len(), 3);
    for child in [&mut first, &mut second] {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn opening_a_notebook_spares_what_another_process_is_writing() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("notebook");
    let notebook = Notebook::create(&place).unwrap();
    let mine = notebook.create_run(&run("quick-1"), "{}").unwrap();
    let mut staging = mine.begin(&key(0, "4k")).unwrap();
    support::fill(staging.sink());
    let mut other = holding(&place, "quick-2");
    drop(other.stdin.take());
    other.wait().unwrap();
    std::fs::write(staging.raw_dir().join("fio.json"), "{}").unwrap();
    staging.commit(&support::trial(mine.run(), &key(0, "4k")), "#!/bin/sh\nfio --bs=4k\n").unwrap();
    assert_whole(&notebook, mine.run(), &key(0, "4k"));
}

#[test]
fn several_at_once_bring_a_missing_index_up_to_date() {
    let root = tempfile::tempdir().unwrap();
    let notebook = Notebook::create(&root.path().join("notebook")).unwrap();
    let folder = notebook.create_run(&run("quick-1"), "{}").unwrap();
    (0..20).for_each(|block| drop(store(&folder, &key(block, "4k")).unwrap()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let _ = std::fs::remove_file(notebook.index_path());
                    assert_eq!(notebook.runs().unwrap().0[0].trials.valid, 20);
                }
            });
        }
    });
}
