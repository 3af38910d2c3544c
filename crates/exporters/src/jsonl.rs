//! JSON Lines (jsonlines.org): an object a trial, for jq and for programs that read as they go.
//!
//! It has what a table has, and each setting as it was asked for and as it was read back. Names are the same
//! as in the columns of CSV and Parquet where they hold the same. A number that is not finite is `null`, as
//! is all that is not known.

use crate::table::energy_of;
use crate::{Exporter, Result, Sink, Writer};
use domain::energy::EnergyAccount;
use domain::inert;
use domain::outcome::Better;
use domain::setting::SettingRecord;
use domain::trial::{Measurement, Trial};
use notebook::record::{unit_name, validity_of};
use serde_json::{Map, Value, json};

/// A line a trial.
pub(crate) struct JsonLines;

impl Exporter for JsonLines {
    fn name(&self) -> &'static str {
        "jsonl"
    }

    fn about(&self) -> &'static str {
        "JSON Lines, an object a trial, for jq"
    }

    fn writers(&self) -> &'static [Writer] {
        &[Writer::Trials(trials)]
    }
}

fn trials(trials: &[Trial], out: &mut dyn Sink) -> Result<()> {
    for trial in trials {
        // JSON escapes line breaks within strings, so that an object is one line; what else would act is
        // escaped here.
        writeln!(out, "{}", inert::json(&object(trial).to_string()))?;
    }
    Ok(())
}

fn object(trial: &Trial) -> Value {
    let (validity, reason) = validity_of(trial);
    let measurement = trial.measurement.as_ref();
    json!({
        "run": trial.run.0,
        "key": trial.key.folder(),
        "study": trial.study,
        "workload": trial.workload,
        "cell": trial.key.cell.as_str(),
        "factors": trial.levels,
        "block": trial.key.block,
        "attempt": trial.key.attempt,
        "started": trial.started.iso(),
        "provenance": trial.provenance.name(),
        "machine": trial.machine,
        "validity": validity,
        "reason": reason,
        "tool": measurement.map(|m| &m.outcome.tool),
        "duration_seconds": measurement.map(|m| m.duration.secs()),
        "metrics": measurement.map_or_else(Map::new, metrics),
        "energy_by": energy_of(trial).map(energy),
        "settings": trial.settings.iter().map(setting).collect::<Vec<_>>(),
        "cpu_seconds": measurement.map_or_else(Map::new, cpu_seconds),
    })
}

/// By name. `json!` makes `null` of a value that is not finite.
fn metrics(measurement: &Measurement) -> Map<String, Value> {
    let metrics = measurement.outcome.metrics.iter();
    let of = |metric: &domain::outcome::Metric| {
        let better = match metric.better {
            Better::Higher => "higher",
            Better::Lower => "lower",
        };
        json!({ "value": metric.value, "unit": unit_name(&metric.unit), "better": better })
    };
    metrics.map(|(name, metric)| (name.clone(), of(metric))).collect()
}

/// By what the energy was measured.
fn energy(account: &EnergyAccount) -> Value {
    json!({ "source": account.source.name(), "of": account.of, "readings": account.readings })
}

/// By role.
fn cpu_seconds(measurement: &Measurement) -> Map<String, Value> {
    measurement.roles.iter().map(|(role, cpu)| (role.to_string(), json!(cpu.secs()))).collect()
}

fn setting(setting: &SettingRecord) -> Value {
    json!({
        "setting": setting.setting.to_string(),
        "before": setting.before,
        "asked": setting.asked,
        "got": setting.got,
        "after": setting.after,
    })
}
