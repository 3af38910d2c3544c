//! `flyball mark`: what begins when, in a recording that goes on, and what was done from mark to mark.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support;
use crate::support::{Place, wait_until};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_flyball");

/// Where a recording into a notebook, and one into a folder of its own, have their pipe.
fn is_recording(place: &Place, staging: &str) -> bool {
    let pipes = ["raw/marks", "trials/b00.recorded.a0/raw/marks"];
    let begun = support::folders(&place.path(staging));
    begun.iter().any(|run| pipes.iter().any(|pipe| run.join(pipe).exists()))
}

fn begin(place: &Place, arguments: &[&str], staging: &str) -> Child {
    let mut recording = place.flyball(arguments);
    let recording = recording.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it is recorded", || is_recording(place, staging));
    recording
}

/// The phases that a recording says it has, and how long each took, in ms.
fn phases(json: &[u8]) -> Vec<(Option<String>, u64)> {
    let json: serde_json::Value = serde_json::from_slice(json).unwrap();
    let phase = |phase: &serde_json::Value| {
        let time = |end: &str| phase[end].as_u64().unwrap();
        (phase["name"].as_str().map(str::to_owned), (time("end_ns") - time("begin_ns")) / 1_000_000)
    };
    json["phases"].as_array().unwrap().iter().map(phase).collect()
}

#[test]
fn a_recorded_command_marks_what_it_does_in_three_ways() {
    let place = Place::new();
    let command = format!(
        "sleep 0.3; '{PROGRAM}' mark busy; timeout 0.5 sh -c 'while :; do :; done'; \
         echo ' idle ' > \"$FLYBALL_MARKS\"; sleep 0.5; printf 'the end' >&$FLYBALL_MARK_FD; sleep 0.2"
    );
    let mut kept = None;
    // A mark is as late as its reader waits for a CPU.
    testing::on_a_quiet_host(|| {
        let output = place.output(&["record", "--json", "--", "bash", "-c", &command]);
        assert_eq!(output.status.code(), Some(0), "{}", support::stderr(&output));
        let found = phases(&output.stdout);
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_deref()).collect();
        assert_eq!(names, [None, Some("busy"), Some("idle"), Some("the end")]);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let busy = json["phases"][1]["metrics"]["cpu_busy"]["value"].as_f64().unwrap();
        let cpus = std::thread::available_parallelism().unwrap().get() as f64;
        kept = Some(json);
        // A line without an end counts when the recording ends: nothing is behind it.
        let are_long = [(0, 250), (1, 450), (2, 450)].into_iter().all(|(at, least)| found[at].1 >= least);
        let is_right = are_long && busy > 0.5 / cpus;
        is_right.then_some(()).ok_or_else(|| format!("{found:?}, busy {busy}"))
    });
    let json = kept.unwrap();
    let run = json["run"].as_str().unwrap();
    for arguments in [&["show", run][..], &["show", run, "b00.recorded.a0"]] {
        let shown = place.ok(arguments);
        assert!(shown.contains("From mark to mark") || shown.contains("FROM MARK TO MARK"), "{shown}");
        let rows: Vec<&str> = shown.lines().filter(|line| line.trim_start().starts_with("busy ")).collect();
        assert_eq!(rows.len(), 1, "{shown}");
    }
    place.ok(&["report", run, "-o", "page.html"]);
    assert!(std::fs::read_to_string(place.path("page.html")).unwrap().contains("From mark to mark"));
    place.ok(&["export", "--format", "timeline", run, "--trace", "b00.recorded.a0", "-o", "timeline.html"]);
    assert!(!is_recording(&place, "notebook/staging"));
    let kept = place.path("notebook/runs").join(run).join("trials/b00.recorded.a0/raw/marks");
    assert!(!kept.exists(), "the pipe is gone with the recording");
}

#[test]
fn whoever_is_beside_a_recording_marks_it_by_its_place() {
    for (arguments, staging, mark) in [
        (&["record", "--json"][..], "notebook/staging", &["mark", "64 threads"][..]),
        (&["record", "--json", "--out", "here"], "here.staging", &["mark", "64 threads", "--out", "here"]),
    ] {
        let place = Place::new();
        let recording = begin(&place, arguments, staging);
        assert_eq!(place.ok(mark), "");
        kill_process(Pid::from_child(&recording), Signal::INT).unwrap();
        let output = recording.wait_with_output().unwrap();
        let names: Vec<_> = phases(&output.stdout).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [None, Some("64 threads".to_owned())]);
        // It has ended.
        let refused = place.fails(1, mark);
        assert!(refused.contains("nothing is being recorded into"), "{refused}");
    }
}

#[test]
fn whoever_is_beside_a_trial_of_a_study_marks_it_by_its_notebook() {
    let place = Place::new();
    let text = "flyball = 1\nname = \"beside\"\nquestion = \"?\"\n[workload.load]\ntool = \"command\"\n\
                argv = [\"sh\", \"-c\", \"while [ ! -e go ]; do sleep 0.05; done\"]\n\
                [measure]\nmetric = \"elapsed\"\nrepeats = 1\nretries = 0\nsettle = \"0s\"\ndrop_caches = false\n";
    let text = text.replace(" go ", &format!(" {} ", place.path("go").display()));
    let file = place.study("beside", &text);
    let mut run = place.flyball(&["run", "--new", &file]);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_marked = || place.output(&["mark", "transactions"]).status.success();
    wait_until("its trial runs", is_marked);
    std::fs::write(place.path("go"), "").unwrap();
    run.wait().unwrap();
    let trial = place.ok(&["show", "--json", "beside", "b00.load.a0"]);
    let trial: serde_json::Value = serde_json::from_str(&trial).unwrap();
    let found = phases(trial["measurement"].to_string().as_bytes());
    assert_eq!(found.last().unwrap().0.as_deref(), Some("transactions"), "{found:?}");
    let refused = place.fails(1, &["mark", "late"]);
    assert!(refused.contains("no trial of a study runs on this host for it"), "{refused}");
}

#[test]
fn marks_of_a_recording_that_is_none_or_with_no_name_are_refused() {
    let place = Place::new();
    let refused = place.fails(2, &["mark", " "]);
    assert!(refused.contains("this one is empty"), "{refused}");
    let refused = place.fails(2, &["mark", &"x".repeat(65)]);
    assert!(refused.contains("at most 64 characters"), "{refused}");
    // A pipe that a killed recording left, a file, and nothing.
    mknodat(CWD, place.path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    std::fs::write(place.path("file"), "kept").unwrap();
    for (name, why) in [("pipe", "has ended"), ("nothing", "has ended"), ("file", "it is no named pipe")] {
        let mut mark = place.flyball(&["mark", "load"]);
        // The notebook that `Place` names is that of nobody who is recorded.
        mark.env("FLYBALL_MARKS", place.path(name));
        let output = mark.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(support::stderr(&output).contains(why), "{name}: {}", support::stderr(&output));
    }
    assert_eq!(std::fs::read_to_string(place.path("file")).unwrap(), "kept");
}

/// A study whose command marks what it does.
#[test]
fn the_workload_of_a_trial_marks_what_it_does() {
    let place = Place::new();
    let script = format!(
        "sleep 0.2; '{PROGRAM}' mark busy; timeout 0.3 sh -c 'while :; do :; done'; echo idle > $FLYBALL_MARKS; sleep 0.2; \
         printf 'the end' >&$FLYBALL_MARK_FD"
    );
    let text = format!(
        "flyball = 1\nname = \"marked\"\nquestion = \"?\"\n[workload.phases]\ntool = \"command\"\n\
         argv = [\"bash\", \"-c\", \"{script}\"]\n[workload.quiet]\ntool = \"command\"\nargv = [\"sleep\", \"0.1\"]\n\
         [measure]\nmetric = \"elapsed\"\nrepeats = 1\nretries = 9\nsettle = \"0s\"\ndrop_caches = false\nunder_load = true\n"
    );
    let file = place.study("marked", &text);
    place.ok(&["run", "--new", &file]);
    // The attempts at a trial end with one that counts.
    let trial_of = |cell: &str| {
        let attempts = place.trials().into_iter().filter(|trial| trial.starts_with(&format!("b00.{cell}.")));
        attempts.max().unwrap()
    };
    let (marked, quiet) = (trial_of("phases"), trial_of("quiet"));
    let trial: serde_json::Value =
        serde_json::from_str(&place.ok(&["show", "--json", "marked", &marked])).unwrap();
    let found: Vec<_> =
        phases(trial["measurement"].to_string().as_bytes()).into_iter().map(|(name, _)| name).collect();
    let names: Vec<_> = found.iter().map(|name| name.as_deref()).collect();
    assert_eq!(names, [None, Some("busy"), Some("idle"), Some("the end")]);
    let shown = place.ok(&["show", "marked", &marked]).to_lowercase();
    assert!(shown.contains("from mark to mark") && shown.contains("busy"), "{shown}");
    assert!(!place.ok(&["show", "marked", &quiet]).to_lowercase().contains("from mark to mark"));
    let full = place.ok(&["show", "--full", "marked"]).to_lowercase();
    assert!(
        full.contains(&format!("from mark to mark, {marked}")) && !full.contains("to mark, b00.quiet"),
        "{full}"
    );
    place.ok(&["report", "marked", "-o", "page.html"]);
    assert!(
        std::fs::read_to_string(place.path("page.html"))
            .unwrap()
            .contains(&format!("From mark to mark, {marked}"))
    );
    place.ok(&["export", "--format", "perfetto", "marked", "--trace", &marked, "-o", "trace"]);
    let exported = std::fs::read(place.path("trace")).unwrap();
    assert!(exported.windows(7).any(|part| part == b"the end"));
    // The pipe is gone with the trial.
    let run = &support::folders(&place.path("notebook/runs"))[0];
    assert!(!run.join(format!("trials/{marked}/raw/marks")).exists());
}
