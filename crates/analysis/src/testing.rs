//! Studies, plans and trials for tests, small and all alike but for what a test is about.

use crate::summary::RunData;
use domain::Nanos;
use domain::ids::{RunId, TrialKey};
use domain::outcome::{Better, Metric, Outcome};
use domain::plan::Plan;
use domain::rng::Seed;
use domain::study::{Factor, Level, Measure, Study, Target, Tool, Workload};
use domain::time::Timestamp;
use domain::trial::{Measurement, Provenance, Run, Trial, Validity};
use domain::units::Unit;
use std::collections::BTreeMap;

/// One fio workload `w`, and a factor with these levels, each an option of the factor's name.
pub fn study(factors: &[(&str, &[&str])]) -> Study {
    let level = |factor: &str, name: &str| Level {
        name: name.into(),
        options: BTreeMap::from([(factor.to_owned(), name.to_owned())]),
        settings: vec![],
        stack: domain::stack::Changes::new(),
        beside: Default::default(),
        kernel: None,
        machine: None,
        pstates: None,
    };
    let factor = |(name, levels): &(&str, &[&str])| Factor {
        name: (*name).into(),
        levels: levels.iter().map(|l| level(name, l)).collect(),
        workloads: vec![],
    };
    Study {
        name: "s".into(),
        question: "what decides?".into(),
        primary: vec![],
        target: Target::File(domain::units::Bytes::from_mib(256)),
        workloads: vec![Workload { name: "w".into(), tool: Tool::Fio, options: BTreeMap::new() }],
        beside: vec![],
        factors: factors.iter().map(factor).collect(),
        settings: vec![],
        measure: Measure::default(),
        stack: None,
        lab: domain::lab::Lab::default(),
        sim: domain::study::Sim::default(),
        published: vec![],
        page: None,
    }
}

/// The plan of one factor `f` with these levels: cells `w_LEVEL`.
pub fn plan_of(levels: &[&str]) -> Plan {
    Plan::new(study(&[("f", levels)]), Seed(1)).unwrap()
}

/// A measured metric.
fn metric(name: &str, value: f64) -> Metric {
    let (unit, better) = match name {
        "throughput" | "read_throughput" | "write_throughput" => (Unit::BytesPerSecond, Better::Higher),
        "iops" | "read_iops" | "write_iops" => (Unit::PerSecond, Better::Higher),
        _ => (Unit::Seconds, Better::Lower),
    };
    Metric { value, unit, better }
}

/// A valid trial of one second with these metrics.
pub fn valid(key: TrialKey, metrics: &[(&str, f64)]) -> Trial {
    let metrics = metrics.iter().map(|(name, value)| ((*name).to_owned(), metric(name, *value))).collect();
    let measurement = Measurement {
        outcome: Outcome { metrics, tool: "fio-3.33".into(), warnings: vec![] },
        commands: vec![],
        duration: Nanos::from_secs(1),
        roles: BTreeMap::new(),
        threads: vec![],
        disks: vec![],
        recorder: None,
        profile: None,
        windows: None,
        phases: vec![],
        spent: Default::default(),
        calls: None,
        disturbances: vec![],
    };
    Trial {
        run: RunId("s-1".into()),
        key,
        study: "s".into(),
        workload: "w".into(),
        levels: BTreeMap::new(),
        provenance: Provenance::Host,
        machine: "m".into(),
        started: Timestamp::default(),
        settings: vec![],
        environment: BTreeMap::new(),
        validity: Validity::Valid,
        measurement: Some(measurement),
        lab: None,
        origin: None,
    }
}

/// A trial whose workload failed before it reported.
pub fn failed(key: TrialKey) -> Trial {
    Trial { validity: Validity::Failed("fio ended with code 1".into()), measurement: None, ..valid(key, &[]) }
}

/// A run of a study whose every cell was measured in `blocks` blocks, with the metrics that `outcome` gives
/// for a cell's levels and a block.
pub fn run(
    study: Study,
    blocks: u32,
    outcome: impl Fn(&BTreeMap<String, String>, u32) -> Vec<(&'static str, f64)>,
) -> RunData {
    let plan = Plan::new(study, Seed(1)).unwrap();
    let mut trials = Vec::new();
    for block in 0..blocks {
        for index in plan.block_order(block) {
            let cell = &plan.cells[index];
            let key = TrialKey { block, cell: cell.id.clone(), attempt: 0 };
            let mut trial = valid(key, &outcome(&cell.levels, block));
            trial.workload.clone_from(&cell.workload.name);
            trial.levels.clone_from(&cell.levels);
            trials.push(trial);
        }
    }
    let run = Run {
        id: RunId("s-1".into()),
        study: plan.study.name.clone(),
        study_text: String::new(),
        seed: plan.seed,
        started: Timestamp::default(),
        finished: None,
        provenance: Provenance::Host,
        machine: "m".into(),
        flyball: "0.1.0".into(),
        revision: None,
        command: Vec::new(),
    };
    RunData { run, study: plan.study, trials, skipped: BTreeMap::new() }
}
