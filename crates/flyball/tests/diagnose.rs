//! `flyball diagnose`: one screen about the load that runs, whose commands work.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Place, stderr};
use std::process::Stdio;

/// One CPU's work for at least two seconds.
const BUSY: &str = "end=$(($(date +%s) + 3)); while [ $(date +%s) -lt $end ]; do :; done";

fn is_one_screen(text: &str) {
    assert!(text.lines().count() <= 24, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for section in ["Machine", "Watched", "CPU", "Disks", "Verdict", "Next"] {
        assert!(text.lines().any(|line| line.starts_with(section)), "{section}\n{text}");
    }
}

/// The commands of the section `Next`, each as its arguments.
fn next(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().skip_while(|line| !line.starts_with("Next"));
    let command = |line: &str| {
        let command = line.trim().strip_prefix("flyball ")?;
        Some(command.split(' ').map(str::to_owned).collect())
    };
    lines.filter_map(command).collect()
}

#[test]
fn a_busy_command_is_one_screen_whose_commands_work() {
    let place = Place::new();
    let said = place.ok(&["diagnose", "--", "sh", "-c", BUSY]);
    is_one_screen(&said);
    assert!(said.contains("of `sh -c"), "{}", said);
    assert!(said.contains(" of CPU time, "), "{said}");
    let next = next(&said);
    assert!(next.len() >= 2, "{next:?}");
    for command in next.iter().filter(|command| command[0] != "check") {
        place.ok(&command.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let list = place.ok(&["list"]);
    assert!(list.contains("recording-sh"), "{list}");
}

#[test]
fn a_running_process_is_watched_and_goes_on() {
    let place = Place::new();
    let mut process = std::process::Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
    let pid = process.id().to_string();
    let said = place.ok(&["diagnose", "--for", "1s", "--pid", &pid]);
    is_one_screen(&said);
    assert!(process.try_wait().unwrap().is_none(), "it was ended");
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn a_process_that_is_none_is_refused_before_anything_is_watched() {
    let place = Place::new();
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let pid = gone.id().to_string();
    let said = place.fails(2, &["diagnose", "--pid", &pid]);
    assert!(said.starts_with(&format!("error: cannot follow process {pid}: there is none; ")), "{said}");
    assert!(!place.path("notebook").exists());
}

#[test]
fn as_json_it_is_the_report_of_its_run() {
    let place = Place::new();
    let said = place.ok(&["diagnose", "--json", "--for", "1s"]);
    let value: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(value["findings"].is_array(), "{}", said);
}

#[test]
fn a_command_that_fails_is_diagnosed_and_its_code_is_given_back() {
    let place = Place::new();
    let output = place.output(&["diagnose", "--", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("Verdict"));
}

#[test]
fn what_cannot_be_watched_is_told() {
    let place = Place::new();
    let said = place.fails(2, &["diagnose", "--", "/no/such/program"]);
    assert!(said.contains("/no/such/program"), "{said}");
    let said = place.fails(2, &["diagnose", "--pid", "4194305"]);
    assert!(said.contains("cannot follow process 4194305"), "{said}");
}
