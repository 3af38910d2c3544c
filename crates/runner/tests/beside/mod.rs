//! Loads beside the workload: real process trees, from before the workload's start until after its end.

use crate::fixture::{FILE, Fixture, cell, command, failed};
use domain::plan::Cell;
use domain::study::{Companion, Tool, Workload};
use domain::time::Nanos;
use domain::trace::Role;
use domain::trial::{Trial, Validity};
use runner::{Done, Stop};
use std::collections::BTreeMap;
use std::path::Path;

/// A workload that is this script, beside a load that is that one.
fn beside(workload: &str, load: &str, lead: Nanos) -> Cell {
    let load = Workload { name: "neighbour".into(), tool: command(load), options: BTreeMap::new() };
    Cell { beside: vec![Companion { load, lead }], ..cell(command(workload), &[], &[]) }
}

/// Whether a process runs whose number is in this file.
fn runs(file: &Path) -> bool {
    let pid = std::fs::read_to_string(file).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
}

fn cpu(trial: &Trial, role: Role) -> Nanos {
    trial.measurement.as_ref().unwrap().roles.get(&role).copied().unwrap_or_default()
}

/// What so many busy processes can use beside the workload at most, and while the recorder starts and stops.
fn most(trial: &Trial, processes: u64) -> Nanos {
    let span = trial.measurement.as_ref().unwrap().duration + Nanos::from_millis(500);
    Nanos::new(span.get() * processes)
}

/// Milliseconds that a disturbance names of a shell: "by `sh` (thread 7) 27 ms".
fn used_by_sh(detail: &str) -> f64 {
    let Some((_, named)) = detail.split_once("`sh` (thread ") else { return 0.0 };
    let mut words = named.split([' ', ',']).skip(1);
    let (value, unit) = (words.next().unwrap().parse::<f64>().unwrap(), words.next().unwrap());
    match unit {
        "s" => value * 1e3,
        "ms" => value,
        _ => value / 1e3,
    }
}

#[test]
fn a_load_runs_before_and_beside_the_workload_and_ends_with_all_that_it_started() {
    let fixture = Fixture::new();
    let at = |name: &str| fixture.path(name);
    // One loop in its group, and one that has left it.
    let load = format!(
        "setsid sh -c 'echo $$ > {}; while :; do :; done' & echo $$ > {}; while :; do :; done",
        at("left").display(),
        at("first").display()
    );
    let workload = format!(
        "until [ -s {} ] && [ -s {} ]; do sleep 0.1; done; sleep 0.6; echo answer 1",
        at("left").display(),
        at("first").display()
    );
    let cell = beside(&workload, &load, Nanos::from_secs(2));
    let Done { trial, beside, .. } = fixture.trial(FILE, &cell).unwrap();
    assert!(!matches!(trial.validity, Validity::Failed(_)), "{:?}", trial.validity);
    assert_eq!(trial.metric("answer"), Some(1.0));
    assert!(!runs(&at("left")) && !runs(&at("first")), "its processes live on");
    // Of two loops, beside the workload and not before it.
    let (own, its) = (cpu(&trial, Role::Workload), cpu(&trial, Role::Beside));
    assert!(own < its && its < most(&trial, 2), "workload {own}, beside {its}");
    let threads = &trial.measurement.as_ref().unwrap().threads;
    assert!(threads.iter().any(|thread| thread.role == Role::Beside && thread.name == "sh"), "{threads:?}");
    let commands = &trial.measurement.as_ref().unwrap().commands;
    assert_eq!((commands.len(), &commands[1]), (2, &beside[0].argv));
    if let Validity::Disturbed(all) = &trial.validity {
        // Others may be at work here, but not what the study has beside its workload: both loops run for more
        // than two seconds, of which a moment passes until it is seen whose they are.
        assert!(all.iter().all(|one| used_by_sh(&one.detail) < 200.0), "{all:?}");
    }
}

#[test]
fn a_load_that_ends_in_its_lead_fails_the_trial_before_the_workload_begins() {
    let fixture = Fixture::new();
    let begun = fixture.path("begun");
    let workload = format!("touch {}; echo answer 1", begun.display());
    let cell = beside(&workload, "echo no luck >&2; exit 7", Nanos::from_secs(30));
    let text = failed(fixture.trial(FILE, &cell));
    assert!(text.starts_with("the load `neighbour` beside the workload did not run until"), "{text}");
    assert!(text.contains("with exit code 7; it said: no luck; let it go on"), "{text}");
    assert!(!begun.exists());
}

#[test]
fn a_load_that_ends_beside_the_workload_ends_that_too_and_fails_the_trial() {
    let fixture = Fixture::new();
    let ended = fixture.path("ended");
    let workload = format!("sleep 50; touch {}; echo answer 1", ended.display());
    let text = failed(fixture.trial(FILE, &beside(&workload, "sleep 0.5", Nanos::ZERO)));
    assert!(text.contains("`sh` ended by itself after") && text.contains("with exit code 0"), "{text}");
    assert!(!ended.exists(), "the workload went on");
}

#[test]
fn a_load_whose_program_is_not_there_is_no_trial() {
    let mut cell = beside("echo answer 1", "", Nanos::ZERO);
    cell.beside[0].load.tool = Tool::Command { argv: vec!["no-such-program".into()], metrics: vec![] };
    match Fixture::new().trial(FILE, &cell) {
        Err(Stop::Unsupported(why)) => assert!(why.contains("cannot run `no-such-program`"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn fio_keeps_a_cpu_busy_without_a_target_and_leaves_its_report() {
    let fixture = Fixture::new();
    let cell = beside_fio("sleep 1; echo answer 1", &[("ioengine", "cpuio"), ("cpuload", "100")], 4);
    let Done { trial, .. } = fixture.trial(FILE, &cell).unwrap();
    // What its job used in the lead is no part of the trial.
    let its = cpu(&trial, Role::Beside);
    assert!(its > Nanos::ZERO && its < most(&trial, 1), "{its} in {trial:?}");
    assert!(fixture.path("raw/beside-neighbour/fio.json").exists());
}

#[test]
fn a_job_of_fio_that_fails_ends_the_others_and_fails_the_trial() {
    let fixture = Fixture::new();
    // One of two jobs finds the end of the target.
    let options =
        [("rw", "read"), ("bs", "4k"), ("size", "4M"), ("offset_increment", "4M"), ("numjobs", "2")];
    let workload =
        format!("truncate -s 4M {}; sleep 50; echo answer 1", fixture.path("work/target").display());
    let text = failed(fixture.trial(FILE, &beside_fio(&workload, &options, 0)));
    assert!(text.starts_with("the load `neighbour` beside the workload did not run until"), "{text}");
}

/// A workload that is this script, beside fio with these options.
fn beside_fio(workload: &str, options: &[(&str, &str)], lead_s: u64) -> Cell {
    let mut cell = beside(workload, "", Nanos::from_secs(lead_s));
    let load = &mut cell.beside[0].load;
    load.tool = Tool::Fio;
    load.options = options.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    workloads::of(&load.tool).without_end(&mut load.options).unwrap().unwrap();
    cell
}
