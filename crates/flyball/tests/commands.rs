//! The commands that measure nothing, or almost nothing.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support;
use crate::support::Place;
use serde_json::Value;

const MACHINES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/machines");

#[test]
fn a_recorded_machine_is_inspected_as_text_and_json() {
    let place = Place::new();
    let folder = format!("{MACHINES}/adl0");
    let text = place.ok(&["inspect", "--root", &folder]);
    assert!(text.contains("12th Gen Intel"), "{text}");
    let json: Value = serde_json::from_str(&place.ok(&["inspect", "--root", &folder, "--json"])).unwrap();
    assert_eq!(json["schema"], 1);
    assert!(json["cpufreq"]["policies"].as_array().is_some_and(|p| !p.is_empty()), "no policies");
}

#[test]
fn settings_are_listed_with_value_range_and_meaning_in_eighty_columns() {
    let place = Place::new();
    let folder = format!("{MACHINES}/adl0");
    let output = place.flyball(&["settings", "--root", &folder]).env("COLUMNS", "80").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let governor = "governor: who chooses the frequency\n  policy0-policy15 = powersave\n  takes performance, powersave\n";
    assert!(text.contains(governor), "{text}");
    assert!(text.contains("not on this machine: ") && !text.contains("vm.swappiness"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let json: Value = serde_json::from_str(&place.ok(&["settings", "vm.swappiness", "--json"])).unwrap();
    assert_eq!(json["settings"][0]["values"][0]["path"], "/proc/sys/vm/swappiness");
    let object = place.ok(&["settings", "max_freq@policy8", "--root", &folder]);
    assert!(object.contains("policy8 = 3400MHz"), "{object}");
    let error = place.fails(2, &["settings", "governer"]);
    assert!(error.contains("did you mean `governor`?"), "{error}");
    let error = place.fails(2, &["settings", "@loop999"]);
    assert!(error.contains("no object `loop999`"), "{error}");
}

#[test]
fn a_misspelt_setting_of_a_study_is_answered_with_the_nearest() {
    let place = Place::new();
    for (wrong, near, code) in [("governer", "governor", 2), ("vm.dirty_ration", "vm.dirty_ratio", 2)] {
        place.ok(&["new", "s", "--out", "s.toml"]);
        let text = std::fs::read_to_string(place.path("s.toml")).unwrap();
        std::fs::write(place.path("s.toml"), format!("{text}[settings]\n\"{wrong}\" = \"5\"\n")).unwrap();
        let simulated = place.fails(2, &["run", "s.toml", "--on", "sim", "--machine", "server-nvme"]);
        assert!(simulated.contains(&format!("did you mean `{near}`?")), "{simulated}");
        let refused = place.fails(2, &["run", "s.toml"]);
        assert!(refused.contains(&format!("did you mean `{near}`?")), "{refused}");
        assert!(!place.path("notebook").exists(), "nothing was begun");
        let output = place.output(&["run", "s.toml", "--dry-run"]);
        let said = format!("{}{}", support::stderr(&output), String::from_utf8_lossy(&output.stdout));
        assert!(said.contains(&format!("did you mean `{near}`?")), "{said}");
        assert_eq!(output.status.code(), Some(code), "{said}");
        std::fs::remove_file(place.path("s.toml")).unwrap();
    }
}

#[test]
fn the_version_has_the_commit_where_there_is_one() {
    let place = Place::new();
    let version = place.ok(&["--version"]);
    assert_eq!(place.ok(&["-V"]).trim(), format!("flyball {}", env!("CARGO_PKG_VERSION")));
    let git = ["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "--short=12", "HEAD"];
    let head =
        std::process::Command::new("git").args(git).output().ok().filter(|output| output.status.success());
    let commit = head.map(|head| format!(" ({})", String::from_utf8_lossy(&head.stdout).trim()));
    assert_eq!(
        version.trim(),
        format!("flyball {}{}", env!("CARGO_PKG_VERSION"), commit.unwrap_or_default())
    );
}

#[test]
fn this_machine_is_inspected() {
    let json: Value = serde_json::from_str(&Place::new().ok(&["inspect", "--json"])).unwrap();
    assert!(json["kernel"]["release"].is_string());
}

#[test]
fn a_folder_that_is_no_recorded_machine_is_refused() {
    let error = Place::new().fails(1, &["inspect", "--root", "/nonexistent"]);
    assert!(error.contains("/nonexistent"), "{error}");
}

#[test]
fn a_command_is_recorded_with_its_cpu_time_and_its_exit_code_passed_on() {
    let place = Place::new();
    let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 7";
    let output = place.output(&["record", "--json", "--", "sh", "-c", busy]);
    assert_eq!(output.status.code(), Some(7), "{}", support::stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["exit_code"], 7);
    assert!(json["samples"].as_u64().unwrap() > 1, "{json}");
    let workload_ns = json["role_cpu_ns"]["workload"].as_u64().unwrap();
    assert!(workload_ns > 10_000_000, "{json}");
    let folder = std::path::PathBuf::from(json["folder"].as_str().unwrap());
    assert!(folder.join("trace.parquet").exists() && folder.join("trial.json").exists());
    assert!(!folder.join("raw/samples.spool").exists(), "the spool was left");
}

#[test]
fn a_recording_goes_where_it_is_told_to() {
    let place = Place::new();
    place.ok(&["record", "--for", "200ms", "--out", "here"]);
    assert!(place.path("here/trace.parquet").exists());
    assert!(!place.path("notebook").exists(), "a notebook was made for nothing");
}

#[test]
fn a_command_that_does_not_exist_is_named_and_nothing_is_kept() {
    let place = Place::new();
    let error = place.fails(2, &["record", "--", "no-such-command"]);
    assert!(error.contains("no-such-command"), "{error}");
    let kept = std::fs::read_dir(place.path("notebook/runs")).map_or(0, Iterator::count);
    assert_eq!(kept, 0);
}

#[test]
fn completions_and_man_pages_come_from_the_arguments() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(place.ok(&["completions", shell]).contains("inspect"), "{shell}");
    }
    place.ok(&["man", "pages"]);
    assert!(place.path("pages/flyball.1").exists() && place.path("pages/flyball-run.1").exists());
}

#[test]
fn nothing_is_changed_where_nothing_was_run() {
    let place = Place::new();
    assert!(place.ok(&["status"]).contains("nothing is changed"));
    assert!(place.ok(&["restore"]).contains("nothing"));
    assert!(place.ok(&["list"]).trim().is_empty());
    assert!(!place.path("notebook").exists() && !place.path("state").exists());
}
