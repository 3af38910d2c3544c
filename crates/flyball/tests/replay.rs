//! `flyball replay`: what it predicts of a simulated run beside what that measured, and what it refuses.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support::Place;
use serde_json::Value;

/// One CPU that works 14 ms for each read of 10 ms, under four policies.
fn run(place: &Place) {
    place.measure(&["run", "dmcrypt-ondemand", "--on", "sim", "--seed", "3"]);
}

fn json(place: &Place, arguments: &[&str]) -> Value {
    serde_json::from_str(&place.ok(&[arguments, &["--json"]].concat())).unwrap()
}

#[test]
fn predictions_agree_with_what_the_same_run_measured() {
    let place = Place::new();
    run(&place);
    let checked = json(&place, &["replay", "dmcrypt-ondemand", "--check"]);
    let of = |name: &str| checked[name].as_f64().unwrap();
    assert_eq!(checked["pairs"].as_array().unwrap().len(), 24);
    assert_eq!(of("pairs_of_a_fit"), 24.0);
    assert!(of("median_error") < 0.03 && of("worst_error") < 0.1, "{checked:#}");
    assert!(of("covered") >= 22.0 && of("wrong_sign") == 0.0, "{checked:#}");
}

#[test]
fn a_slow_trial_is_told_which_threshold_would_have_helped() {
    let place = Place::new();
    run(&place);
    let trial = "b00.small_ondemand-95.a0";
    let asked = ["replay", "dmcrypt-ondemand", trial, "--sweep", "ondemand.up_threshold=95,40"];
    let predicted = json(&place, &asked);
    let ratio = |at: usize| predicted["predictions"][at]["prediction"]["rate_ratio"].as_f64().unwrap();
    assert_eq!(predicted["predictions"][0]["settings"][0]["value"], "40", "the best is first: {predicted:#}");
    assert!(ratio(0) > 1.1 && (ratio(1) - 1.0).abs() < 0.03, "{predicted:#}");
    let text = place.ok(&["replay", "dmcrypt-ondemand", trial]);
    assert!(text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("ondemand.up_threshold=40") && text.contains("--check"), "{text}");
    assert!(!text.contains(" tune "), "a simulation's predictions are not for this host: {text}");
}

#[test]
fn a_recording_of_a_machine_without_cpufreq_says_that_no_governor_decided() {
    if std::path::Path::new("/sys/devices/system/cpu/cpufreq/policy0").exists() {
        eprintln!("skipped: this machine has cpufreq");
        return;
    }
    let place = Place::new();
    let run = place.ok(&["record", "--for", "1s", "--json"]);
    let run: Value = serde_json::from_str(&run).unwrap();
    let said = place.fails(1, &["replay", run["run"].as_str().unwrap()]);
    assert!(said.contains("had no cpufreq driver"), "{said}");
}

#[test]
fn what_cannot_be_replayed_is_refused_with_the_reason() {
    let place = Place::new();
    run(&place);
    let refused = |arguments: &[&str], code: i32, why: &str| {
        let said = place.fails(code, &[&["replay", "dmcrypt-ondemand"], arguments].concat());
        assert!(said.contains(why), "{said}");
    };
    refused(&["b09.small_ondemand-95.a0"], 1, "there is no such trial");
    refused(&["nothing"], 2, "nothing");
    refused(&["--governor", "onfire"], 2, "onfire");
    refused(&["--set", "epp=power"], 2, "epp");
    refused(&["--set", "governor"], 2, "SETTING=VALUE");
    refused(&["--sweep", "ondemand.up_threshold"], 2, "ondemand.up_threshold");
    refused(&["--check", "--all"], 2, "--all");
}
