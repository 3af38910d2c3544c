//! Files that outlive a version of the program, on the real command line: what an older one wrote is read as
//! ever, and what a newer one wrote stops everything that would change the machine, untouched.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Place, SMALL, stderr};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A whole line of the ledger, as any version writes it.
fn line(json: &str) -> String {
    format!("{} {:08x} {json}\n", json.len(), crc32fast::hash(json.as_bytes()))
}

/// What a version that is not there yet might write.
fn newer() -> String {
    line(r#"{"v":3,"by":"9.9.9","record":"spell","id":9,"path":"/proc/sys/vm/swappiness"}"#)
}

/// A file that is not made yet whose making is announced, as version 1 wrote it.
fn file(place: &Place) -> String {
    let (boot, path) = (boot_id(), place.path("target"));
    line(&format!(
        r#"{{"record":"file","id":1,"boot":"{boot}","path":"{}","inode":null}}"#,
        path.canonicalize().unwrap().display()
    ))
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned()
}

/// A place whose ledger holds these lines; the file that [`file`] names is there.
fn with(lines: impl Fn(&Place) -> Vec<String>) -> (Place, PathBuf) {
    let place = Place::new();
    fs::write(place.path("target"), "").unwrap();
    fs::create_dir(place.path("state")).unwrap();
    let ledger = place.path("state/ledger");
    fs::write(&ledger, lines(&place).concat()).unwrap();
    (place, ledger)
}

/// Every command that changes the machine, with the file that it needs.
fn commands(place: &Place) -> Vec<Vec<String>> {
    let study = place.study("small", SMALL);
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
    vec![
        words("restore"),
        words("restore --json"),
        vec!["run".to_owned(), study],
        words("tune --set vm.stat_interval=2 --persist"),
        words("tune --undo"),
    ]
}

fn refused(place: &Place, arguments: &[String]) -> String {
    let mut command = place.flyball(&[]);
    command.args(arguments).env("FLYBALL_ROOT", place.path("root"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr(&output));
    stderr(&output)
}

/// The supervisor of a process that has died: it clears up after it.
fn supervise(place: &Place) -> (Option<i32>, String) {
    let state = place.path("state");
    let mut command: Command = place.flyball(&["supervise", state.to_str().unwrap()]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), stderr(&output))
}

#[test]
fn a_ledger_of_version_1_is_undone() {
    let (place, ledger) = with(|place| vec![file(place)]);
    assert!(place.ok(&["status"]).contains("made by Flyball"));
    assert!(place.ok(&["restore"]).contains("target: removed"));
    assert!(!place.path("target").exists());
    assert_eq!(fs::read(&ledger).unwrap(), b"");
}

#[test]
fn a_ledger_that_a_newer_version_wrote_stops_every_command_and_stays_as_it_is() {
    for lines in [|place: &Place| vec![file(place), newer()], |place: &Place| vec![newer(), file(place)]] {
        let (place, ledger) = with(lines);
        let before = fs::read(&ledger).unwrap();
        let mut told: Vec<String> = commands(&place).iter().map(|words| refused(&place, words)).collect();
        let (code, said) = supervise(&place);
        assert_eq!(code, Some(1), "{said}");
        told.push(said);
        told.push(place.fails(1, &["status"]));
        for said in told {
            assert!(said.contains("Flyball 9.9.9") && said.contains("of version 9.9.9"), "{said}");
            assert!(said.contains("line ") && said.contains("path `/proc/sys/vm/swappiness`"), "{said}");
        }
        assert_eq!(fs::read(&ledger).unwrap(), before);
        assert!(place.path("target").exists() && !place.path("notebook").exists());
        let shown = place.output(&["status", "--json"]);
        assert_eq!(shown.status.code(), Some(1));
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        assert_eq!(shown["changed"].as_array().unwrap().len(), 1, "{shown}");
        assert!(shown["notes"][0].as_str().unwrap().contains("9.9.9"), "{shown}");
    }
}

#[test]
fn a_damaged_ledger_is_told_once_and_kept() {
    let torn = "90 00000000 {\"record\":\"change\"}\n".to_owned();
    let (place, ledger) = with(|place| vec![torn.clone(), file(place)]);
    let (code, said) = supervise(&place);
    assert!(code == Some(1) && said.contains("run `flyball restore`"), "{said}");
    assert!(!place.path("target").exists(), "what is known was not undone");
    assert!(place.fails(1, &["status"]).contains("line 1 of the ledger"));
    let study = place.study("small", SMALL);
    assert!(place.fails(1, &["run", &study]).contains("run `flyball restore`"));
    assert!(!place.path("notebook").exists());
    let said = place.fails(1, &["restore"]);
    assert!(said.contains("line 1") && said.contains("is kept as"), "{said}");
    let copies = fs::read_dir(place.path("state")).unwrap().map(|entry| entry.unwrap().path());
    let copy = copies.into_iter().find(|path| path.to_str().unwrap().contains("damaged")).unwrap();
    assert!(fs::read_to_string(&copy).unwrap().starts_with(&torn));
    assert_eq!(fs::read(&ledger).unwrap(), b"");
    assert!(place.ok(&["restore"]).contains("nothing is changed"));
    place.ok(&["status"]);
}

#[test]
fn a_line_that_was_being_written_when_its_writer_died_is_nothing() {
    let (place, _) = with(|place| vec![file(place), newer()[..30].to_owned()]);
    assert!(place.ok(&["restore"]).contains("target: removed"));
}

#[test]
fn lasting_changes_that_a_newer_version_wrote_stop_every_command_and_stay_as_they_are() {
    let (place, ledger) = with(|place| vec![file(place)]);
    let lasting = place.path("state/lasting.json");
    for text in [
        r#"{"version": 2, "by": "9.9.9", "phase": "done", "entries": [], "files": []}"#,
        r#"{"version": 1, "by": "9.9.9", "phase": "done", "entries": [], "files": [], "also": 1}"#,
    ] {
        fs::write(&lasting, text).unwrap();
        let before = fs::read(&ledger).unwrap();
        let mut told: Vec<String> = commands(&place).iter().map(|words| refused(&place, words)).collect();
        told.push(supervise(&place).1);
        told.push(place.fails(1, &["status"]));
        for said in told {
            assert!(said.contains("`flyball tune --undo` of version 9.9.9"), "{said}");
        }
        assert!(
            place.output(&["status"]).stdout.starts_with(place.path("target").to_str().unwrap().as_bytes())
        );
        assert_eq!(fs::read_to_string(&lasting).unwrap(), text);
        assert_eq!(fs::read(&ledger).unwrap(), before);
    }
    fs::write(&lasting, r#"{"version": 1, "phase": "done", "entries": [], "files": []}"#).unwrap();
    assert!(place.ok(&["restore"]).contains("target: removed"));
}
