//! The trials of a run as a table: what CSV and Parquet have in common.
//!
//! It has one row a trial, in the order given. Columns are named by what they hold: `factor.NAME`,
//! `metric.NAME.UNIT`, `setting.NAME@OBJECT` (as it was read back), `cpu.ROLE.seconds`. A value that was not
//! measured is empty, never zero.

use domain::energy::EnergyAccount;
use domain::time::Timestamp;
use domain::trial::Trial;
use notebook::record::{unit_name, validity_of};
use std::collections::BTreeSet;

/// A table by columns.
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
}

/// One column; `values` has one entry a trial.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) values: Values,
}

/// The values of a column.
pub(crate) enum Values {
    Text(Vec<Option<String>>),
    Integer(Vec<Option<i64>>),
    Number(Vec<Option<f64>>),
    Time(Vec<Option<Timestamp>>),
}

impl Table {
    pub(crate) fn of(trials: &[Trial]) -> Self {
        let mut table = Self { columns: Vec::new() };
        table.text("run", trials, |t| Some(t.run.0.clone()));
        table.text("key", trials, |t| Some(t.key.folder()));
        table.text("study", trials, |t| Some(t.study.clone()));
        table.text("workload", trials, |t| Some(t.workload.clone()));
        table.text("cell", trials, |t| Some(t.key.cell.as_str().to_owned()));
        table.push("block", Values::Integer(each(trials, |t| Some(i64::from(t.key.block)))));
        table.push("attempt", Values::Integer(each(trials, |t| Some(i64::from(t.key.attempt)))));
        table.push("started", Values::Time(each(trials, |t| Some(t.started))));
        table.text("provenance", trials, |t| Some(t.provenance.name().to_owned()));
        table.text("machine", trials, |t| Some(t.machine.clone()));
        table.text("validity", trials, |t| Some(validity_of(t).0.to_owned()));
        table.text("reason", trials, |t| validity_of(t).1);
        table.text("tool", trials, |t| Some(t.measurement.as_ref()?.outcome.tool.clone()));
        table.number("duration.seconds", trials, |t| Some(t.measurement.as_ref()?.duration.secs()));
        table.factors(trials);
        table.metrics(trials);
        table.energy(trials);
        table.settings(trials);
        table.roles(trials);
        table
    }

    fn factors(&mut self, trials: &[Trial]) {
        let names: BTreeSet<&String> = trials.iter().flat_map(|t| t.levels.keys()).collect();
        for name in names {
            self.text(&format!("factor.{name}"), trials, |t| t.levels.get(name).cloned());
        }
    }

    /// A metric that has two units has two columns: values of different units are never in one.
    fn metrics(&mut self, trials: &[Trial]) {
        let metrics =
            |t: &Trial| t.measurement.iter().flat_map(|m| m.outcome.metrics.clone()).collect::<Vec<_>>();
        let names: BTreeSet<_> =
            trials.iter().flat_map(metrics).map(|(name, metric)| (name, metric.unit)).collect();
        for (name, unit) in names {
            self.number(&format!("metric.{name}.{}", unit_name(&unit)), trials, |t| {
                let metric = t.measurement.as_ref()?.outcome.metrics.get(&name)?;
                (metric.unit == unit).then_some(metric.value)
            });
        }
    }

    /// By what the energy was measured, where any trial says it.
    fn energy(&mut self, trials: &[Trial]) {
        let by = |t: &Trial| Some(energy_of(t)?.in_words());
        if trials.iter().any(|t| by(t).is_some()) {
            self.text("energy.by", trials, by);
        }
    }

    fn settings(&mut self, trials: &[Trial]) {
        let names: BTreeSet<_> = trials.iter().flat_map(|t| &t.settings).map(|s| &s.setting).collect();
        for name in names {
            self.text(&format!("setting.{name}"), trials, |t| {
                t.settings.iter().rfind(|s| s.setting == *name).map(|s| s.got.clone())
            });
        }
    }

    fn roles(&mut self, trials: &[Trial]) {
        let roles: BTreeSet<_> =
            trials.iter().filter_map(|t| t.measurement.as_ref()).flat_map(|m| m.roles.keys()).collect();
        for role in roles {
            self.number(&format!("cpu.{role}.seconds"), trials, |t| {
                t.measurement.as_ref()?.roles.get(role).map(|cpu| cpu.secs())
            });
        }
    }

    fn text(&mut self, name: &str, trials: &[Trial], value: impl Fn(&Trial) -> Option<String>) {
        self.push(name, Values::Text(each(trials, value)));
    }

    fn number(&mut self, name: &str, trials: &[Trial], value: impl Fn(&Trial) -> Option<f64>) {
        self.push(name, Values::Number(each(trials, value)));
    }

    fn push(&mut self, name: &str, values: Values) {
        self.columns.push(Column { name: name.to_owned(), values });
    }
}

/// By what a trial's energy was measured.
pub(crate) fn energy_of(trial: &Trial) -> Option<&EnergyAccount> {
    trial.measurement.as_ref()?.recorder.as_ref()?.energy.as_ref()
}

fn each<T>(trials: &[Trial], value: impl Fn(&Trial) -> Option<T>) -> Vec<Option<T>> {
    trials.iter().map(value).collect()
}
