//! Studies that ship with the program, run by their names where no checkout is.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::Place;
use serde_json::Value;

#[test]
fn a_shipped_study_is_run_by_its_name_in_a_folder_that_has_none() {
    let place = Place::new();
    let plan = place.measure(&["run", "quick", "--dry-run"]);
    assert!(plan.starts_with("How much do block size") && plan.contains("6 cells"), "{plan}");
    place.ok(&["run", "published/dmcrypt", "--on", "sim", "--seed", "1"]);
    assert!(place.ok(&["list"]).contains("dmcrypt-published-"), "no run");
    let again =
        place.ok(&["run", "dmcrypt-published", "--on", "sim", "--machine", "pentium4-2800", "--dry-run"]);
    assert!(again.contains("machine pentium4-2800"), "{again}");
}

#[test]
fn a_page_of_a_shipped_study_finds_its_parts() {
    let place = Place::new();
    place.ok(&["run", "published/dmcrypt", "--on", "sim", "--seed", "1"]);
    let page = place.ok(&["report", "--published", "dmcrypt-ondemand", "--format", "text"]);
    assert!(page.contains("--on sim --seed 1") && page.contains("published/dmcrypt-utilisation"), "{page}");
}

#[test]
fn a_file_of_a_shipped_name_is_the_one_that_is_run_and_that_is_said() {
    let place = Place::new();
    std::fs::create_dir(place.path("quick")).unwrap();
    let plan = place.measure(&["run", "quick", "--dry-run"]);
    assert!(plan.contains("block size"), "a folder is no study: {plan}");
    std::fs::remove_dir(place.path("quick")).unwrap();
    std::fs::write(place.path("quick"), "flyball = 1\nmine = true\n").unwrap();
    let said = place.fails(2, &["run", "quick", "--dry-run"]);
    assert!(said.contains("note: `quick` is the file of that name here"), "{said}");
    assert!(said.contains("quick:2:1: `mine`: unknown key"), "{said}");
    let said = place.fails(2, &["run", "./quick", "--dry-run"]);
    assert!(!said.contains("note:"), "{said}");
}

#[test]
fn a_wrong_name_is_answered_with_the_nearest() {
    let place = Place::new();
    for arguments in [
        &["run", "raid-level"][..],
        &["run", "raid-level", "--on", "sim"],
        &["lab", "run", "raid-level", "--dry-run"],
        &["sim", "calibrate", "raid-level"],
        &["report", "--published", "raid-level"],
    ] {
        let said = place.fails(2, arguments);
        assert!(
            said.contains("did you mean `raid-levels`? `flyball list --studies`"),
            "{arguments:?}: {said}"
        );
    }
    let said = place.fails(2, &["run", "quick", "--on", "sim", "--machine", "server-nmve"]);
    assert!(said.contains("did you mean `server-nvme`? `flyball sim machines` lists"), "{said}");
}

#[test]
fn the_shipped_studies_are_listed_with_what_they_run_on() {
    let place = Place::new();
    let json: Value = serde_json::from_str(&place.ok(&["list", "--studies", "--json"])).unwrap();
    let on = |name: &str| {
        let studies = json["studies"].as_array().unwrap();
        studies.iter().find(|study| study["name"] == name).unwrap()["on"].clone()
    };
    assert_eq!(on("quick"), serde_json::json!(["host", "lab"]));
    assert_eq!(on("oltp-governors"), serde_json::json!(["host", "lab", "sim"]));
    assert_eq!(on("raid5-journal-sim"), serde_json::json!(["sim"]));
    let narrow = place.flyball(&["list", "--studies"]).env("COLUMNS", "80").output().unwrap();
    let text = String::from_utf8(narrow.stdout).unwrap();
    assert!(text.contains("published/dmcrypt-utilisation"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    place.fails(2, &["list", "quick", "--studies"]);
}

#[test]
fn runs_of_two_kinds_of_machine_are_compared_on_request_and_judge_no_condition() {
    let place = Place::new();
    let study = "flyball = 1\nname = \"t\"\nquestion = \"q\"\ntarget.file = \"1MiB\"\n[workload.dd]\ntool = \"dd\"\n[measure]\nrepeats = 2\nsettle = \"100ms\"\nunder_load = true\n";
    let file = place.study("t", study);
    place.measure(&["run", &file, "--seed", "1"]);
    let simulated = ["run", &file, "--on", "sim", "--machine", "server-nvme", "--seed", "1"];
    place.ok(&simulated);
    let said = place.fails(1, &["compare", "t", "t~1"]);
    assert!(said.contains("different provenance") && said.trim().ends_with("; add --across"), "{said}");
    assert!(place.fails(1, &["compare", "t"]).contains("is of another, and --across compares them"));
    place.ok(&["compare", "t", "t~1", "--across"]);
    let runs = || std::fs::read_dir(place.path("notebook/runs")).unwrap().count();
    let before = runs();
    let said = place.fails(2, &[&simulated[..], &["--new", "--fail-if", "worse than t~1"]].concat());
    assert!(said.contains("is of another kind of machine (host)"), "{said}");
    assert_eq!(runs(), before, "something was run");
}
