//! One row a trial, for spreadsheets and data frames.
//!
//! Values are in their base units, which stand in the column's name: `metric.throughput (B/s)`. What is not
//! known is an empty field. A name that two tools report in different units has two columns. A text that a
//! spreadsheet would compute has an apostrophe before it ([`csv_cell`]).

use crate::Report;
use crate::wording::{standing, why_not_counted};
use domain::inert::csv_cell;
use domain::outcome::Metric;
use domain::trial::Trial;
use domain::units::Unit;
use std::collections::BTreeSet;

const FIXED: [&str; 12] = [
    "run",
    "study",
    "provenance",
    "machine",
    "workload",
    "cell",
    "block",
    "attempt",
    "started",
    "duration (s)",
    "validity",
    "why",
];

/// What a trial of the lab has besides.
const LAB: [&str; 3] = ["lab.dilation", "lab.cpu_late (share of 1)", "lab.disk_late (s)"];

/// Every trial of a run, disturbed and failed ones too, in the order of measurement.
pub fn csv(report: &Report) -> String {
    let trials = &report.data.trials;
    let factors: BTreeSet<&str> = trials.iter().flat_map(|t| t.levels.keys().map(String::as_str)).collect();
    let metrics: BTreeSet<(&str, &Unit)> =
        trials.iter().flat_map(metrics_of).map(|(n, m)| (n, &m.unit)).collect();
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let mut write = |fields: &mut dyn Iterator<Item = String>| {
        writer.write_record(fields.map(|field| csv_cell(&field).into_owned())).expect(NEVER);
    };
    let head = FIXED.iter().map(|name| (*name).to_owned());
    let head = head.chain(factors.iter().map(|f| format!("factor.{f}")));
    let head = head.chain(metrics.iter().map(|(name, unit)| column(name, unit)));
    let in_lab = trials.iter().any(|trial| trial.lab.is_some());
    write(&mut head.chain(LAB.iter().filter(|_| in_lab).map(|name| (*name).to_owned())));
    for trial in trials {
        let levels = factors.iter().map(|f| trial.levels.get(*f).cloned().unwrap_or_default());
        let values = metrics.iter().map(|(name, unit)| value(trial, name, unit));
        let lab = lab(trial).into_iter().filter(|_| in_lab);
        write(&mut fixed(trial).into_iter().chain(levels).chain(values).chain(lab));
    }
    let bytes = writer.into_inner().expect(NEVER);
    String::from_utf8(bytes).expect("only text was written")
}

const NEVER: &str = "a Vec takes all that is written to it, and every record has one length";

fn fixed(trial: &Trial) -> [String; FIXED.len()] {
    let duration = trial.measurement.as_ref().map(|m| m.duration.secs().to_string());
    [
        trial.run.to_string(),
        trial.study.clone(),
        trial.provenance.name().to_owned(),
        trial.machine.clone(),
        trial.workload.clone(),
        trial.key.cell.to_string(),
        trial.key.block.to_string(),
        trial.key.attempt.to_string(),
        trial.started.iso(),
        duration.unwrap_or_default(),
        standing(&trial.validity).to_owned(),
        why_not_counted(&trial.validity),
    ]
}

fn lab(trial: &Trial) -> [String; LAB.len()] {
    let account = trial.lab.as_ref();
    let late = account.and_then(|a| a.pacing.as_ref()?.lateness());
    let disks = account.map(|a| a.disks.iter().map(|disk| disk.late.secs()).sum::<f64>());
    [account.map(|a| a.dilation), late, disks].map(|value| value.map(|v| v.to_string()).unwrap_or_default())
}

fn metrics_of(trial: &Trial) -> impl Iterator<Item = (&str, &Metric)> {
    trial.measurement.iter().flat_map(|m| &m.outcome.metrics).map(|(name, metric)| (name.as_str(), metric))
}

fn value(trial: &Trial, name: &str, unit: &Unit) -> String {
    let metric = metrics_of(trial).find(|(n, m)| *n == name && m.unit == *unit);
    let value = metric.map(|(_, m)| m.value).filter(|value| value.is_finite());
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn column(name: &str, unit: &Unit) -> String {
    match base(unit) {
        "" => format!("metric.{name}"),
        unit => format!("metric.{name} ({unit})"),
    }
}

fn base(unit: &Unit) -> &str {
    match unit {
        Unit::BytesPerSecond => "B/s",
        Unit::PerSecond => "1/s",
        Unit::Seconds => "s",
        Unit::Joules => "J",
        Unit::Watts => "W",
        Unit::Hertz => "Hz",
        Unit::Share => "share of 1",
        Unit::Count => "",
        Unit::Other(name) => name,
    }
}
