//! What the notebook holds, as a list; and what goes from it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Place, SIMULATED, folders};
use std::process::Command;

/// So many runs of the study.
fn with_runs(count: usize) -> (Place, Vec<String>) {
    let place = Place::new();
    let study = place.study("small", SIMULATED);
    for seed in 0..count {
        place.measure(&[
            "run",
            &study,
            "--on",
            "sim",
            "--machine",
            "server-nvme",
            "--new",
            "--seed",
            &seed.to_string(),
        ]);
    }
    let names = runs(&place);
    assert_eq!(names.len(), count);
    (place, names)
}

fn runs(place: &Place) -> Vec<String> {
    let folders = folders(&place.path("notebook/runs"));
    folders.iter().map(|run| run.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

fn listed(place: &Place, columns: &str, arguments: &[&str]) -> String {
    let mut command: Command = place.flyball(&[&["list"], arguments].concat());
    let output = command.env("COLUMNS", columns).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_list_has_a_header_a_verdict_and_the_width_of_the_terminal() {
    let (place, names) = with_runs(2);
    for columns in ["80", "60"] {
        let text = listed(&place, columns, &[]);
        let width = columns.parse().unwrap();
        assert!(text.starts_with("RUN "), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{columns}: {text}");
        assert!(names.iter().all(|name| text.split_whitespace().any(|word| word == name)), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("block: 64k has ") && words.contains("throughput of 4k"), "{text}");
    }
}

#[test]
fn filters_choose_the_same_runs_in_text_and_json() {
    let (place, names) = with_runs(2);
    for (arguments, count) in [
        (&["--study", "small"][..], 2),
        (&["small", "-n", "1"], 1),
        (&["--since", "1d"], 2),
        (&["--until", "1d"], 0),
        (&["--since", "2100-01-01"], 0),
        (&["--provenance", "sim"], 2),
        (&["--provenance", "host"], 0),
        (&["--unfinished"], 0),
        (&["--finished"], 2),
        (&["--machine", "no-such"], 0),
    ] {
        let text = listed(&place, "400", arguments);
        assert_eq!(names.iter().filter(|name| text.contains(*name)).count(), count, "{arguments:?}: {text}");
        let json: serde_json::Value =
            serde_json::from_str(&listed(&place, "80", &[arguments, &["--json"]].concat())).unwrap();
        assert_eq!(json["runs"].as_array().unwrap().len(), count, "{arguments:?}");
    }
    place.fails(2, &["list", "--since", "yesterday"]);
}

#[test]
fn a_run_is_removed_when_it_is_named_and_confirmed() {
    let (place, names) = with_runs(2);
    let nobody = place.fails(2, &["rm", &names[0]]);
    assert!(nobody.contains("add --yes"), "{nobody}");
    let several = place.fails(2, &["rm", "small", "--yes"]);
    assert!(several.contains("the study has 2 runs"), "{several}");
    let ambiguous = place.fails(2, &["rm", "small-2", "--yes"]);
    assert!(ambiguous.contains("2 runs begin so"), "{ambiguous}");
    let none = place.fails(2, &["rm", &names[0], "no-such", "--yes"]);
    assert!(none.contains("cannot remove `no-such`"), "{none}");
    assert_eq!(runs(&place), names, "all or nothing");
    place.ok(&["rm", &names[0], "--yes"]);
    assert_eq!(runs(&place), names[1..]);
    assert!(place.left_over().is_empty());
}

#[test]
fn a_run_that_is_measured_is_not_removed() {
    let (place, names) = with_runs(1);
    let lock = std::fs::File::open(place.path("notebook/runs").join(&names[0]).join(".lock")).unwrap();
    lock.lock().unwrap();
    let busy = place.fails(4, &["rm", &names[0], "--yes"]);
    assert!(busy.contains("another flyball is measuring it"), "{busy}");
    assert_eq!(place.ok(&["gc", "--keep", "0", "--yes"]).matches(&names[0]).count(), 0);
    assert_eq!(runs(&place), names);
}

#[test]
fn what_could_go_is_shown_and_goes_only_when_asked() {
    let (place, names) = with_runs(2);
    assert!(place.ok(&["gc"]).contains("nothing could go"));
    assert!(place.ok(&["gc", "--older-than", "90d"]).contains("nothing could go"));
    let text = place.ok(&["gc", "--keep", "1"]);
    assert_eq!(names.iter().filter(|name| text.contains(*name)).count(), 1, "{text}");
    assert_eq!(runs(&place), names, "shown alone");
    place.ok(&["gc", "--keep", "1", "--yes"]);
    assert_eq!(runs(&place).len(), 1);
    assert!(place.left_over().is_empty());
}

#[test]
fn a_run_is_compared_with_the_one_before_it_by_its_study_and_by_its_id() {
    let (place, names) = with_runs(1);
    let alone = place.fails(1, &["compare", &names[0]]);
    assert!(alone.contains("no run of the study `small` is older"), "{alone}");
    let study = place.study("small", SIMULATED);
    place.measure(&["run", &study, "--on", "sim", "--machine", "server-nvme", "--new", "--seed", "7"]);
    assert_eq!(place.ok(&["compare", "small"]), place.ok(&["compare", "small~1", "small"]));
    let newest = runs(&place).into_iter().find(|run| *run != names[0]).unwrap();
    assert_eq!(place.ok(&["compare", &newest]), place.ok(&["compare", "small"]));
}

#[test]
fn a_dry_run_refuses_what_the_run_would() {
    let place = Place::new();
    let study = place.study("small", &format!("{SIMULATED}\n[settings]\ngoverner = \"performance\"\n"));
    for arguments in [&["run", &study][..], &["run", &study, "--dry-run"]] {
        let error = place.fails(2, arguments);
        assert!(error.contains("did you mean `governor`?"), "{arguments:?}: {error}");
    }
    let study = place.study("plain", SIMULATED);
    for on in ["host", "sim"] {
        let arguments =
            ["run", &study, "--dry-run", "--on", on, "--fail-if", "throughput < 5 MB/s where colour=red"];
        let mut arguments = arguments.to_vec();
        if on == "sim" {
            arguments.extend(["--machine", "server-nvme"]);
        }
        let error = place.fails(2, &arguments);
        assert!(error.contains("colour"), "{on}: {error}");
    }
}
