//! A run from its start to its end, killed, interrupted, resumed, doubled, compared.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support;
use crate::support::{Place, SMALL, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Child;

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// The trials that `SMALL` plans: four cells in three blocks.
fn all_of_small() -> Vec<String> {
    let cells = ["read_256k", "read_4k", "write_256k", "write_4k"];
    (0..3).flat_map(|block| cells.map(|cell| format!("b{block:02}.{cell}.a0"))).collect()
}

/// Trials of the first attempt; a machine under test may disturb some, which are then repeated.
fn first_attempts(place: &Place) -> Vec<String> {
    place.trials().into_iter().filter(|t| t.ends_with(".a0")).collect()
}

#[test]
fn a_run_measures_every_cell_in_every_block_and_leaves_nothing() {
    let place = Place::new();
    let text = place.measure(&["run", &place.study("small", SMALL), "--seed", "7"]);
    assert!(text.contains("block size"), "the question is not answered:\n{text}");
    assert_eq!(first_attempts(&place), all_of_small());
    assert_eq!(place.left_over(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_dry_run_shows_commands_and_writes_and_does_nothing() {
    let place = Place::new();
    let text = place.measure(&["run", &place.study("small", SMALL), "--dry-run", "--seed", "7"]);
    assert!(text.contains("dd ") && text.contains("bs=262144") && text.contains("seed 7"), "{text}");
    assert!(!place.path("notebook").exists(), "a dry run made a notebook");
    assert!(!place.path("state").exists(), "a dry run made a state folder");
}

/// Two cells, of which no machine can run one.
const HALF: &str = r#"
flyball = 1
name = "half"
question = "What becomes of a cell that cannot be run?"

[workload.there]
tool = "command"
argv = ["true"]

[workload.gone]
tool = "command"
argv = ["flyball-has-no-such-program"]

[measure]
metric = "elapsed"
repeats = 1
settle = "0s"
"#;

#[test]
fn a_cell_that_cannot_be_run_is_told_first_and_the_others_are_run() {
    let place = Place::new();
    let study = place.study("half", HALF);
    let told = "1 of 2 cells can be run here; 1 cannot:";
    let output = place.output(&["run", &study, "--dry-run"]);
    assert_eq!(output.status.code(), Some(3), "as the run itself ends");
    let plan = String::from_utf8(output.stdout).unwrap();
    assert!(plan.contains(told) && plan.contains("flyball-has-no-such-program"), "{plan}");
    let json: serde_json::Value =
        serde_json::from_str(&place.measure(&["run", &study, "--dry-run", "--json"])).unwrap();
    let not_possible = |cell: usize| json["cells"][cell]["not_possible"].as_array().unwrap().len();
    assert_eq!([not_possible(0), not_possible(1)], [0, 1], "{json}");

    let junit = place.path("half.xml");
    let output = place.output(&["run", &study, "--junit", junit.to_str().unwrap()]);
    let (text, talk) = (String::from_utf8(output.stdout.clone()).unwrap(), support::stderr(&output));
    assert_eq!(output.status.code(), Some(3), "{talk}");
    assert!(talk.contains(told), "{talk}");
    assert_eq!(place.trials().iter().filter(|trial| trial.contains("gone")).count(), 0);
    assert!(first_attempts(&place).contains(&"b00.there.a0".to_owned()), "{talk}");
    assert!(text.contains("not possible here"), "{text}");
    let full = place.ok(&["show", "--full", "half"]);
    assert!(full.contains("not possible here") && full.contains("not possible on this machine: "), "{full}");
    let junit = std::fs::read_to_string(junit).unwrap();
    assert!(junit.contains("it could not be run: ") && junit.contains("no-such-program"), "{junit}");
    let again = place.ok(&["report", "half", "--format", "markdown"]);
    assert!(again.contains("not possible on this machine"), "the reason was not kept: {again}");
}

#[test]
fn kill_9_at_any_moment_loses_and_doubles_nothing() {
    let place = Place::new();
    let study = place.study("small", SMALL);
    for wanted in [1, 4, 7] {
        let mut child = place.spawn(&["run", &study]);
        wait_until("some trials are there", || {
            place.trials().len() >= wanted || child.try_wait().unwrap().is_some()
        });
        signal(&child, Signal::KILL);
        child.wait().unwrap();
    }
    wait_until("the supervisor has cleaned up", || place.work_files().is_empty());
    place.measure(&["run", &study]);
    assert_eq!(first_attempts(&place), all_of_small());
    assert_eq!(place.left_over(), Vec::<std::path::PathBuf>::new());
    let status = place.ok(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["changed"].as_array().map(Vec::len), Some(0), "{status}");
}

#[test]
fn a_study_edited_after_its_run_was_cut_short_begins_another_and_says_so() {
    let place = Place::new();
    let study = place.study("small", SMALL);
    let mut child = place.spawn(&["run", &study]);
    wait_until("a trial is there", || !place.trials().is_empty() || child.try_wait().unwrap().is_some());
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    wait_until("the supervisor has cleaned up", || place.work_files().is_empty());
    let runs = || -> Vec<String> {
        let listed: serde_json::Value = serde_json::from_str(&place.ok(&["list", "--json"])).unwrap();
        listed["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_owned()).collect()
    };
    let old = runs();
    assert_eq!(old.len(), 1, "{old:?}");

    place.study("small", &SMALL.replace("256k", "64k"));
    let told = support::stderr(&place.output(&["run", &study]));
    let copy = place.path("notebook/runs").join(&old[0]).join("study.toml");
    assert!(told.contains(&format!("the study file was changed since `{}` was begun", old[0])), "{told}");
    assert!(
        told.contains(&format!("`flyball show {}`", old[0])) && told.contains(copy.to_str().unwrap()),
        "{told}"
    );
    assert_eq!((runs().len(), runs()[1].clone()), (2, old[0].clone()));

    // Nothing of it is said where nothing was changed, and the old run goes on by its own copy.
    let told = support::stderr(&place.output(&["run", copy.to_str().unwrap()]));
    assert!(told.contains(&format!("run {},", old[0])) && !told.contains("was changed"), "{told}");
    assert_eq!(runs().len(), 2);
}

/// The processes whose arguments name this place, but for Flyball itself.
fn workloads_of(place: &Place) -> usize {
    let folder = place.folder.path().to_str().unwrap().to_owned();
    let arguments =
        |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(arguments);
    all.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .filter(|line| line.starts_with("fio") && line.contains(&folder))
        .count()
}

#[test]
fn kill_9_takes_the_jobs_of_fio_along_which_live_in_sessions_of_their_own() {
    let place = Place::new();
    let text = SMALL
        .replace("tool = \"dd\"", "tool = \"fio\"")
        .replace("direction = \"read\"", "rw = \"read\", runtime = \"60s\", time_based = true")
        .replace("direction = \"write\"", "rw = \"write\", runtime = \"60s\", time_based = true");
    let mut child = place.spawn(&["run", &place.study("jobs", &text)]);
    wait_until("fio and its job run", || workloads_of(&place) >= 2);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    wait_until("nothing of fio is left", || workloads_of(&place) == 0);
    wait_until("the target is removed", || !place.path("notebook/work/target").exists());
}

/// Whether a process runs whose number is in this file.
fn runs(file: &std::path::Path) -> bool {
    let pid = std::fs::read_to_string(file).unwrap_or_default();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn kill_9_takes_a_load_beside_the_workload_along_with_all_that_it_started() {
    let place = Place::new();
    let [first, left] = ["first", "left"].map(|name| place.path(name));
    let load = format!(
        "[beside.loops]\ntool = \"command\"\nlead = \"0s\"\n\
         argv = [\"sh\", \"-c\", \"setsid sh -c 'echo $$ > {}; sleep 1000; true' & echo $$ > {}; sleep 1000; true\"]\n",
        left.display(),
        first.display()
    );
    let text = SMALL
        .replace("tool = \"dd\"", "tool = \"fio\"")
        .replace("direction = \"read\"", "rw = \"read\", runtime = \"60s\", time_based = true")
        .replace("direction = \"write\"", "rw = \"write\", runtime = \"60s\", time_based = true");
    let mut child = place.spawn(&["run", &place.study("beside", &format!("{text}{load}"))]);
    wait_until("the load and the workload run", || runs(&first) && runs(&left) && workloads_of(&place) >= 2);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    wait_until("nothing of them is left", || !runs(&first) && !runs(&left) && workloads_of(&place) == 0);
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_the_next_run_adds_only_what_is_missing() {
    let place = Place::new();
    let study = place.study("small", SMALL);
    let mut child = place.spawn(&["run", &study]);
    wait_until("two trials are there", || place.trials().len() >= 2 || child.try_wait().unwrap().is_some());
    signal(&child, Signal::INT);
    let status = child.wait().unwrap();
    let before = place.trials();
    assert!(status.code() == Some(130) || before.len() == 12, "{status}, {before:?}");
    assert_eq!(place.left_over(), Vec::<std::path::PathBuf>::new());
    place.measure(&["run", &study]);
    assert_eq!(first_attempts(&place), all_of_small());
    assert_eq!(std::fs::read_dir(place.path("notebook/runs")).unwrap().count(), 1, "a second run was begun");
}

#[test]
fn a_finished_study_is_measured_anew_and_compares_as_the_same() {
    let place = Place::new();
    let study = place.study("small", SMALL);
    place.measure(&["run", &study]);
    place.measure(&["run", &study]);
    assert_eq!(std::fs::read_dir(place.path("notebook/runs")).unwrap().count(), 2);
    let text = place.ok(&["compare", "small~1", "small"]);
    assert!(text.contains("read_256k") || text.contains("read"), "{text}");
    let list = place.ok(&["list"]);
    assert_eq!(list.matches("small-").count(), 2, "{list}");
}

#[test]
fn two_flyballs_at_once_do_not_disturb_each_other() {
    let place = Place::new();
    let study = place.study("small", SMALL);
    let mut first = place.spawn(&["run", &study]);
    wait_until("the first one measures", || !place.trials().is_empty());
    let second = place.output(&["run", &study]);
    let first_is_done = first.try_wait().unwrap().is_some();
    assert!(second.status.code() == Some(4) || first_is_done, "{}", support::stderr(&second));
    if !first_is_done {
        assert!(support::stderr(&second).contains(&first.id().to_string()), "{}", support::stderr(&second));
    }
    assert!(matches!(first.wait().unwrap().code(), Some(0 | 3)));
}

#[test]
fn every_form_of_a_run_can_be_written() {
    let place = Place::new();
    // A page draws traces of trials that count, and on a busy host none would.
    place.measure(&["run", &place.study("small", SMALL), "--under-load"]);
    let page = place.path("page.html");
    place.ok(&["report", "small", "--out", page.to_str().unwrap()]);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!doctype html>") || html.starts_with("<!DOCTYPE html>"), "{}", &html[..80]);
    assert!(!html.contains("http://") && !html.contains("src=\"//"), "the page reaches for the network");
    place.ok(&["report", "small", "--trial", "b02.write_4k.a0", "--out", "one.html"]);
    let one = std::fs::read_to_string(place.path("one.html")).unwrap();
    assert!(one.len() < html.len(), "more than one trace was drawn");
    place.fails(2, &["report", "small", "--trial", "b77.write_4k.a0", "--out", "none.html"]);
    for format in ["markdown", "text", "csv", "json"] {
        assert!(!place.ok(&["report", "small", "--format", format]).is_empty(), "{format}");
    }
    let rows = place.ok(&["export", "small", "--format", "csv"]);
    assert!(rows.lines().count() > 12, "{rows}");
    let json: serde_json::Value =
        serde_json::from_str(&place.ok(&["export", "small", "--format", "json"])).unwrap();
    assert!(json.is_array() || json.is_object());
    let trace = place.ok(&["export", "small", "--trace", "b00.read_4k.a0", "--format", "csv"]);
    assert!(trace.starts_with("t_ns"), "{trace}");
}
