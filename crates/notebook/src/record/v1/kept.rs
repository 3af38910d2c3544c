//! Schema 1: a run in one small file, of which a page of the book is made.

use super::measured::{MetricRecord, ProfileRecord, WindowsRecord, names_of, roles_of};
use super::{Meaning, RunRecord, ValidityRecord};
use crate::kept::{Keep, Kept};
use domain::ids::{CellId, TrialKey};
use domain::outcome::{Metric, Outcome};
use domain::profile::Profile;
use domain::time::Nanos;
use domain::trial::{Measurement, Run, Trial};
use domain::windows::GovernorWindows;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All but the trials. Values of a trial stand in the order of `metrics`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptHead {
    schema: u64,
    written_by: String,
    run: RunRecord,
    study_text: String,
    machine: String,
    environment: BTreeMap<String, String>,
    metrics: BTreeMap<String, MetricRecord>,
    cells: Vec<CellRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CellRecord {
    cell: String,
    workload: String,
    levels: BTreeMap<String, String>,
}

/// One trial: a line of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptTrial {
    cell: usize,
    block: u32,
    attempt: u32,
    validity: ValidityRecord,
    values: Vec<Option<f64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duration_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    roles_ns: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profile: Option<ProfileRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    windows: Option<WindowsRecord>,
}

/// The whole file as it is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptRecord {
    kept: KeptHead,
    trials: Vec<KeptTrial>,
}

/// What is kept of a run, in two parts.
pub(crate) fn records(kept: &Kept, keep: &Keep) -> (KeptHead, Vec<KeptTrial>) {
    let mut metrics: BTreeMap<String, MetricRecord> = BTreeMap::new();
    let mut cells: Vec<CellRecord> = Vec::new();
    for trial in &kept.trials {
        for (name, metric) in trial.measurement.iter().flat_map(|m| &m.outcome.metrics) {
            if keep.metrics.contains(name) && !metrics.contains_key(name) {
                metrics.insert(name.clone(), (&Metric { value: 0.0, ..metric.clone() }).into());
            }
        }
        if !cells.iter().any(|cell| cell.cell == trial.key.cell.as_str()) {
            let (workload, levels) = (trial.workload.clone(), trial.levels.clone());
            cells.push(CellRecord { cell: trial.key.cell.as_str().to_owned(), workload, levels });
        }
    }
    let trials = kept.trials.iter().map(|trial| {
        let measurement = trial.measurement.as_ref();
        let roles = measurement.filter(|_| keep.roles).map(|m| names_of(&m.roles)).unwrap_or_default();
        KeptTrial {
            cell: cells
                .iter()
                .position(|cell| cell.cell == trial.key.cell.as_str())
                .expect("each was put there"),
            block: trial.key.block,
            attempt: trial.key.attempt,
            validity: (&trial.validity).into(),
            values: metrics.keys().map(|name| trial.metric(name)).collect(),
            duration_ns: measurement.map(|m| m.duration.get()),
            roles_ns: roles,
            profile: measurement
                .filter(|_| keep.profile)
                .and_then(|m| m.profile.as_ref())
                .map(ProfileRecord::from),
            windows: measurement
                .filter(|_| keep.windows)
                .and_then(|m| m.windows.as_ref())
                .map(WindowsRecord::from),
        }
    });
    let trials = trials.collect();
    let environment = kept.trials.first().map(|trial| trial.environment.clone()).unwrap_or_default();
    let head = KeptHead {
        schema: super::SCHEMA,
        written_by: crate::record::PROGRAM.to_owned(),
        // Whose folders that command named is nothing for a reader elsewhere.
        run: RunRecord::from(&Run { command: Vec::new(), ..kept.run.clone() }),
        study_text: kept.run.study_text.clone(),
        machine: kept.machine.clone(),
        environment,
        metrics,
        cells,
    };
    (head, trials)
}

impl KeptRecord {
    pub(crate) fn into_kept(self) -> Meaning<Kept> {
        let head = self.kept;
        let run = head.run.into_run(head.study_text)?;
        let metrics: BTreeMap<String, Metric> =
            head.metrics.into_iter().map(|(name, metric)| (name, metric.into())).collect();
        let trials: Meaning<Vec<Trial>> = self
            .trials
            .into_iter()
            .map(|record| {
                let cell = head.cells.get(record.cell).ok_or_else(|| {
                    format!("a trial is of cell {}, and there are {}", record.cell, head.cells.len())
                })?;
                trial(record, cell, &run, &metrics, &head.environment)
            })
            .collect();
        Ok(Kept { machine: head.machine, trials: trials?, run })
    }
}

fn trial(
    record: KeptTrial,
    cell: &CellRecord,
    run: &Run,
    metrics: &BTreeMap<String, Metric>,
    environment: &BTreeMap<String, String>,
) -> Meaning<Trial> {
    if record.values.len() != metrics.len() {
        return Err(format!("a trial has {} values of {} metrics", record.values.len(), metrics.len()));
    }
    let values = metrics.iter().zip(&record.values);
    let values = values.filter_map(|((name, metric), value)| {
        Some((name.clone(), Metric { value: (*value)?, ..metric.clone() }))
    });
    let measurement = match record.duration_ns {
        None => None,
        Some(duration) => Some(Measurement {
            outcome: Outcome { metrics: values.collect(), tool: String::new(), warnings: vec![] },
            commands: vec![],
            duration: Nanos::new(duration),
            roles: roles_of(record.roles_ns)?,
            threads: vec![],
            disks: vec![],
            recorder: None,
            profile: record.profile.map(Profile::try_from).transpose()?,
            windows: record.windows.map(GovernorWindows::try_from).transpose()?,
            phases: Vec::new(),
            spent: Default::default(),
            calls: None,
            disturbances: vec![],
        }),
    };
    Ok(Trial {
        run: run.id.clone(),
        key: TrialKey { block: record.block, cell: CellId::from_stored(&cell.cell), attempt: record.attempt },
        study: run.study.clone(),
        workload: cell.workload.clone(),
        levels: cell.levels.clone(),
        provenance: run.provenance,
        machine: run.machine.clone(),
        started: run.started,
        settings: vec![],
        environment: environment.clone(),
        validity: record.validity.into(),
        measurement,
        lab: None,
        origin: None,
    })
}
