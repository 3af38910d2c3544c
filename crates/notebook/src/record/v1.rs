//! Schema 1. These types are never changed in a way that alters what they read: a change makes `v2.rs`.
//!
//! Times are nanoseconds, of the epoch (UTC) where the name begins a point in time; metrics are in the base
//! unit that they name.

mod calls;
pub(crate) mod kept;
mod lab;
mod measured;

use crate::recording::Recording;
use calls::CallsRecord;
use domain::calls::Calls;
use domain::ids::{CellId, RunId, TrialKey};
use domain::lab::LabAccount;
use domain::phase::Phase;
use domain::profile::Profile;
use domain::rng::Seed;
use domain::setting::{SettingName, SettingRecord};
use domain::time::{Nanos, Timestamp};
use domain::trial::{
    DiskTotals, Disturbance, Measurement, Origin, Provenance, Run, ThreadTime, Trial, Validity,
};
use domain::windows::GovernorWindows;
use lab::LabRecord;
use measured::{
    DiskRecord, DisturbanceRecord, MeasurementRecord, MetricRecord, PhaseRecord, ProfileRecord,
    RecorderRecord, SpentRecord, ThreadRecord, WindowsRecord, names_of, roles_of, spent_of, spent_records,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const SCHEMA: u64 = 1;

/// Why a record of the right form has no meaning.
type Meaning<T> = Result<T, String>;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunRecord {
    schema: u64,
    written_by: String,
    id: String,
    study: String,
    seed: u64,
    started_ns: i64,
    finished_ns: Option<i64>,
    provenance: String,
    machine: String,
    flyball: String,
    revision: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    command: Vec<String>,
}

/// Cells that a machine cannot run, and why.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkippedRecord {
    schema: u64,
    written_by: String,
    cells: BTreeMap<String, String>,
}

impl From<&BTreeMap<CellId, String>> for SkippedRecord {
    fn from(cells: &BTreeMap<CellId, String>) -> Self {
        Self {
            schema: SCHEMA,
            written_by: super::PROGRAM.to_owned(),
            cells: cells.iter().map(|(cell, why)| (cell.as_str().to_owned(), why.clone())).collect(),
        }
    }
}

impl SkippedRecord {
    pub(crate) fn into_cells(self) -> BTreeMap<CellId, String> {
        self.cells.into_iter().map(|(cell, why)| (CellId::from_stored(&cell), why)).collect()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrialRecord {
    schema: u64,
    written_by: String,
    run: String,
    block: u32,
    cell: String,
    attempt: u32,
    study: String,
    workload: String,
    levels: BTreeMap<String, String>,
    provenance: String,
    machine: String,
    started_ns: i64,
    validity: ValidityRecord,
    settings: Vec<SettingValue>,
    environment: BTreeMap<String, String>,
    measurement: Option<MeasurementRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lab: Option<LabRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<OriginRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OriginRecord {
    tool: String,
    version: Option<String>,
    file: String,
    sha256: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordingRecord {
    schema: u64,
    written_by: String,
    name: String,
    machine: String,
    started_ns: i64,
    command: Option<Vec<String>>,
    exit_code: Option<i32>,
    environment: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metrics: BTreeMap<String, MetricRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    duration_ns: u64,
    roles_ns: BTreeMap<String, u64>,
    threads: Vec<ThreadRecord>,
    disks: Vec<DiskRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profile: Option<ProfileRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    windows: Option<WindowsRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    phases: Vec<PhaseRecord>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    spent: BTreeMap<String, SpentRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calls: Option<CallsRecord>,
    recorder: RecorderRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum ValidityRecord {
    Valid,
    Traced,
    Disturbed(Vec<DisturbanceRecord>),
    Failed(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingValue {
    name: String,
    object: Option<String>,
    path: String,
    before: String,
    asked: String,
    got: String,
    after: Option<String>,
}

impl From<&Run> for RunRecord {
    fn from(run: &Run) -> Self {
        Self {
            schema: SCHEMA,
            written_by: super::PROGRAM.to_owned(),
            id: run.id.0.clone(),
            study: run.study.clone(),
            seed: run.seed.0,
            started_ns: run.started.unix_nanos(),
            finished_ns: run.finished.map(Timestamp::unix_nanos),
            provenance: run.provenance.name().to_owned(),
            machine: run.machine.clone(),
            flyball: run.flyball.clone(),
            revision: run.revision.clone(),
            command: run.command.clone(),
        }
    }
}

impl RunRecord {
    pub(crate) fn into_run(self, study_text: String) -> Meaning<Run> {
        Ok(Run {
            id: RunId(self.id),
            study: self.study,
            study_text,
            seed: Seed(self.seed),
            started: Timestamp::from_unix_nanos(self.started_ns),
            finished: self.finished_ns.map(Timestamp::from_unix_nanos),
            provenance: provenance(&self.provenance)?,
            machine: self.machine,
            flyball: self.flyball,
            revision: self.revision,
            command: self.command,
        })
    }
}

impl From<&Trial> for TrialRecord {
    fn from(trial: &Trial) -> Self {
        Self {
            schema: SCHEMA,
            written_by: super::PROGRAM.to_owned(),
            run: trial.run.0.clone(),
            block: trial.key.block,
            cell: trial.key.cell.as_str().to_owned(),
            attempt: trial.key.attempt,
            study: trial.study.clone(),
            workload: trial.workload.clone(),
            levels: trial.levels.clone(),
            provenance: trial.provenance.name().to_owned(),
            machine: trial.machine.clone(),
            started_ns: trial.started.unix_nanos(),
            validity: (&trial.validity).into(),
            settings: trial.settings.iter().map(SettingValue::from).collect(),
            environment: trial.environment.clone(),
            measurement: trial.measurement.as_ref().map(MeasurementRecord::from),
            lab: trial.lab.as_ref().map(LabRecord::from),
            origin: trial.origin.as_ref().map(OriginRecord::from),
        }
    }
}

impl TryFrom<TrialRecord> for Trial {
    type Error = String;
    fn try_from(record: TrialRecord) -> Meaning<Self> {
        let lab = record.lab.map(LabAccount::from);
        let mut measurement = record.measurement.map(Measurement::try_from).transpose()?;
        // Earlier versions kept what the guest's recorder said, or that of a state's name.
        if let (Some(account), Some(measurement)) = (&lab, &mut measurement) {
            domain::per_work::set_frequency(account, &mut measurement.outcome.metrics);
        }
        Ok(Self {
            run: RunId(record.run),
            key: TrialKey {
                block: record.block,
                cell: CellId::from_stored(&record.cell),
                attempt: record.attempt,
            },
            study: record.study,
            workload: record.workload,
            levels: record.levels,
            provenance: provenance(&record.provenance)?,
            machine: record.machine,
            started: Timestamp::from_unix_nanos(record.started_ns),
            settings: record.settings.into_iter().map(SettingRecord::from).collect(),
            environment: record.environment,
            validity: record.validity.into(),
            measurement,
            lab,
            origin: record.origin.map(Origin::from),
        })
    }
}

impl From<&Origin> for OriginRecord {
    fn from(origin: &Origin) -> Self {
        let Origin { tool, version, file, sha256 } = origin.clone();
        Self { tool, version, file, sha256 }
    }
}

impl From<OriginRecord> for Origin {
    fn from(record: OriginRecord) -> Self {
        let OriginRecord { tool, version, file, sha256 } = record;
        Self { tool, version, file, sha256 }
    }
}

impl From<&Recording> for RecordingRecord {
    fn from(recording: &Recording) -> Self {
        Self {
            schema: SCHEMA,
            written_by: super::PROGRAM.to_owned(),
            name: recording.name.clone(),
            machine: recording.machine.clone(),
            started_ns: recording.started.unix_nanos(),
            command: recording.command.clone(),
            exit_code: recording.exit_code,
            environment: recording.environment.clone(),
            metrics: recording.metrics.iter().map(|(name, metric)| (name.clone(), metric.into())).collect(),
            warnings: recording.warnings.clone(),
            duration_ns: recording.duration.get(),
            roles_ns: names_of(&recording.roles),
            threads: recording.threads.iter().map(ThreadRecord::from).collect(),
            disks: recording.disks.iter().map(DiskRecord::from).collect(),
            profile: recording.profile.as_ref().map(ProfileRecord::from),
            windows: recording.windows.as_ref().map(WindowsRecord::from),
            phases: recording.phases.iter().map(PhaseRecord::from).collect(),
            spent: spent_records(&recording.spent),
            calls: recording.calls.as_ref().map(CallsRecord::from),
            recorder: (&recording.recorder).into(),
        }
    }
}

impl TryFrom<RecordingRecord> for Recording {
    type Error = String;
    fn try_from(record: RecordingRecord) -> Meaning<Self> {
        Ok(Self {
            name: record.name,
            machine: record.machine,
            started: Timestamp::from_unix_nanos(record.started_ns),
            command: record.command,
            exit_code: record.exit_code,
            environment: record.environment,
            metrics: record.metrics.into_iter().map(|(name, metric)| (name, metric.into())).collect(),
            warnings: record.warnings,
            duration: Nanos::new(record.duration_ns),
            roles: roles_of(record.roles_ns)?,
            threads: record.threads.into_iter().map(ThreadTime::try_from).collect::<Meaning<_>>()?,
            disks: record.disks.into_iter().map(DiskTotals::try_from).collect::<Meaning<_>>()?,
            profile: record.profile.map(Profile::try_from).transpose()?,
            windows: record.windows.map(GovernorWindows::try_from).transpose()?,
            phases: record.phases.into_iter().map(Phase::from).collect(),
            spent: spent_of(record.spent)?,
            calls: record.calls.map(Calls::try_from).transpose()?,
            recorder: record.recorder.try_into()?,
        })
    }
}

impl From<&Validity> for ValidityRecord {
    fn from(validity: &Validity) -> Self {
        match validity {
            Validity::Valid => Self::Valid,
            Validity::Traced => Self::Traced,
            Validity::Disturbed(list) => Self::Disturbed(list.iter().map(DisturbanceRecord::from).collect()),
            Validity::Failed(reason) => Self::Failed(reason.clone()),
        }
    }
}

impl From<ValidityRecord> for Validity {
    fn from(record: ValidityRecord) -> Self {
        match record {
            ValidityRecord::Valid => Self::Valid,
            ValidityRecord::Traced => Self::Traced,
            ValidityRecord::Disturbed(list) => {
                Self::Disturbed(list.into_iter().map(Disturbance::from).collect())
            }
            ValidityRecord::Failed(reason) => Self::Failed(reason),
        }
    }
}

impl From<&SettingRecord> for SettingValue {
    fn from(s: &SettingRecord) -> Self {
        Self {
            name: s.setting.name.clone(),
            object: s.setting.object.clone(),
            path: s.path.clone(),
            before: s.before.clone(),
            asked: s.asked.clone(),
            got: s.got.clone(),
            after: s.after.clone(),
        }
    }
}

impl From<SettingValue> for SettingRecord {
    fn from(value: SettingValue) -> Self {
        Self {
            setting: SettingName { name: value.name, object: value.object },
            path: value.path,
            before: value.before,
            asked: value.asked,
            got: value.got,
            after: value.after,
        }
    }
}

fn provenance(name: &str) -> Meaning<Provenance> {
    Provenance::from_name(name).ok_or_else(|| format!("`{name}` is no provenance"))
}
