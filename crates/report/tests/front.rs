//! What a search for the trade-off of speed and watts found: on a screen, as JSON, and on a page.
#![allow(clippy::unwrap_used)]

mod cases;

use analysis::summarise::summarise;
use analysis::summary::RunData;
use domain::outcome::{Better, Metric};
use domain::plan::Plan;
use domain::rng::Seed;
use domain::setting::{SettingName, SettingRequest};
use domain::study::Until;
use domain::trial::Provenance;
use domain::units::Unit;
use report::Report;
use std::collections::BTreeMap;

/// Levels with throughput and watts: two of them beat all others.
const LEVELS: [(&str, f64, f64); 4] =
    [("before", 5e7, 20.0), ("performance", 1e8, 30.0), ("powersave", 5e7, 10.0), ("ondemand", 4e7, 25.0)];

fn searched(provenance: Provenance) -> RunData {
    let mut change = cases::factor("change", &LEVELS.map(|(name, ..)| name), &[]);
    for level in &mut change.levels {
        level.options.clear();
        if level.name != "before" {
            let setting = SettingName::parse("governor");
            level.settings = vec![SettingRequest { setting, value: level.name.clone() }];
        }
    }
    let mut study = cases::study("tune-search", "Which of 3 changes?", &["command"], vec![change]);
    study.measure.until = Until::Front;
    let plan = Plan::new(study.clone(), Seed(7)).unwrap();
    let of = |name: &str| *LEVELS.iter().find(|(level, ..)| *level == name).unwrap();
    let mut trials = cases::measured(&plan, 3, 0.0, |cell| of(&cell.levels["change"]).1);
    for trial in &mut trials {
        let watts = Metric { value: of(&trial.levels["change"]).2, unit: Unit::Watts, better: Better::Lower };
        trial.measurement.as_mut().unwrap().outcome.metrics.insert("power".into(), watts);
    }
    let mut run = cases::run(&study, cases::STUDY_TEXT);
    run.provenance = provenance;
    RunData { run, study, trials, skipped: BTreeMap::new() }
}

fn with<T>(data: &RunData, form: impl FnOnce(&Report) -> T) -> T {
    let summary = summarise(data, None);
    form(&Report {
        data,
        summary: &summary,
        findings: &[],
        not_measured: &[],
        machine: None,
        inventory_text: None,
        traces: &[],
    })
}

#[test]
fn each_setting_that_no_other_beats_has_its_figures_and_the_command_that_keeps_it() {
    let data = searched(Provenance::Host);
    let screen = with(&data, |report| report::short_text(report, "flyball", 80));
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "Of 4 cells no other beats in throughput and watts together: 2, from `performance`",
        "performance: 100 MB/s, 30.0 W, 300 J per GB",
        "powersave: 50.0 MB/s, 10.0 W, 200 J per GB",
        "flyball tune --set governor=performance --persist",
        "flyball tune --set governor=powersave --persist",
    ] {
        assert!(words.contains(part), "{part}: {screen}");
    }
    assert!(
        screen.lines().count() <= 24 && screen.lines().all(|line| line.chars().count() <= 80),
        "{screen}"
    );
    let json: serde_json::Value = serde_json::from_str(&with(&data, report::json)).unwrap();
    let front = json["front"].as_array().unwrap();
    let of = |at: usize, key: &str| front[at][key].clone();
    assert_eq!(front.len(), 2);
    assert_eq!((of(0, "cell"), of(0, "watts")), ("command_performance".into(), 30.0.into()));
    assert_eq!(of(1, "settings")["governor"], "powersave");
    assert_eq!(of(1, "keep"), "flyball tune --set governor=powersave --persist");
    assert!((of(1, "joules").as_f64().unwrap() - 2e-7).abs() < 1e-12);
    let page = with(&data, report::html);
    for part in ["throughput of command against watts", "flyball tune --set governor=powersave --persist"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn of_a_model_nothing_is_kept_and_of_another_run_there_is_no_front() {
    let mut data = searched(Provenance::Simulation);
    let screen = with(&data, |report| report::short_text(report, "flyball", 80));
    assert!(screen.contains("Trade-off") && !screen.contains("--persist"), "{screen}");
    data.study.measure.until = Until::Precise;
    assert!(!with(&data, report::json).contains("\"front\""));
    assert!(!with(&data, |report| report::short_text(report, "flyball", 80)).contains("Trade-off"));
}
