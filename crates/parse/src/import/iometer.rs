//! IOMeter's results file (CSV): a result an access specification, of all managers together.
//!
//! The file is made of parts that begin with a line of names in quotes (`'Target Type,Target Name,…`); the
//! lines below it are values at the same places. Of the targets `ALL` is read, and each `MANAGER` and `DISK`
//! is left out. MB are 2^20 bytes until 1.1.0-rc1, and 10^6 where a name says `(Decimal)`. Source: IOMeter's
//! User's Guide ("Results file format") and `PageAccess.cpp`, `ManagerList.cpp`, `Manager.cpp`
//! (`SaveResults`) of iometer 1.1.0.

use super::error::{Error, Place};
use super::{Imported, Part};
use domain::outcome::{Better, Metric, Outcome};
use domain::units::Unit;
use std::collections::BTreeMap;

const WHAT: &str = "iometer";
const MIB: f64 = 1_048_576.0;

/// A column's name, the metric, its unit, what it is multiplied by, which way is good.
const COLUMNS: [(&str, &str, Unit, f64, Better); 16] = [
    ("IOps", "iops", Unit::PerSecond, 1.0, Better::Higher),
    ("Read IOps", "read_iops", Unit::PerSecond, 1.0, Better::Higher),
    ("Write IOps", "write_iops", Unit::PerSecond, 1.0, Better::Higher),
    ("MBps", "throughput", Unit::BytesPerSecond, MIB, Better::Higher),
    ("Read MBps", "read_throughput", Unit::BytesPerSecond, MIB, Better::Higher),
    ("Write MBps", "write_throughput", Unit::BytesPerSecond, MIB, Better::Higher),
    ("MBps (Binary)", "throughput", Unit::BytesPerSecond, MIB, Better::Higher),
    ("Read MBps (Binary)", "read_throughput", Unit::BytesPerSecond, MIB, Better::Higher),
    ("Write MBps (Binary)", "write_throughput", Unit::BytesPerSecond, MIB, Better::Higher),
    ("MBps (Decimal)", "throughput", Unit::BytesPerSecond, 1e6, Better::Higher),
    ("Read MBps (Decimal)", "read_throughput", Unit::BytesPerSecond, 1e6, Better::Higher),
    ("Write MBps (Decimal)", "write_throughput", Unit::BytesPerSecond, 1e6, Better::Higher),
    ("Transactions per Second", "transactions", Unit::PerSecond, 1.0, Better::Higher),
    ("Average Response Time", "latency_mean", Unit::Seconds, 1e-3, Better::Lower),
    ("Maximum Response Time", "latency_max", Unit::Seconds, 1e-3, Better::Lower),
    ("% CPU Utilization", "cpu", Unit::Share, 0.01, Better::Lower),
];

pub(super) fn read(text: &str) -> Result<Imported, Error> {
    let mut imported = Imported::default();
    let mut names: Vec<&str> = Vec::new();
    let mut place = Place { offset: 0, line: 1 };
    let mut version = None;
    for whole in text.split_inclusive('\n') {
        let line = whole.trim();
        if let Some(header) = line.strip_prefix('\'') {
            names = header.split(',').map(str::trim).collect();
        } else {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            match (names.first().copied(), fields.as_slice()) {
                (Some("Target Type"), ["ALL", ..]) => {
                    let part = result(&names, &fields, version);
                    let found = fields.len();
                    let part = part.ok_or_else(|| {
                        let reason = format!("expected {} values for `ALL`, and found {found}", names.len());
                        Error::at(WHAT, place, reason).after(&format!("{} results", imported.parts.len()))
                    })?;
                    imported.parts.push(part);
                }
                (Some("Time Stamp"), [time, ..]) if time.contains(':') => {
                    imported.facts.entry("date".to_owned()).or_insert_with(|| (*time).to_owned());
                }
                (Some("Version"), [v, ..]) if !v.is_empty() => version = Some(*v),
                _ => {}
            }
        }
        place = Place { offset: place.offset + whole.len() as u64, line: place.line + 1 };
    }
    Ok(imported)
}

fn result(names: &[&str], fields: &[&str], version: Option<&str>) -> Option<Part> {
    let value = |name: &str| names.iter().position(|n| *n == name).and_then(|i| fields.get(i)).copied();
    let mut metrics = BTreeMap::new();
    for (column, name, unit, scale, better) in COLUMNS {
        if let Some(number) = value(column).and_then(|v| v.parse::<f64>().ok()).filter(|v| v.is_finite()) {
            metrics.insert(name.to_owned(), Metric { value: number * scale, unit, better });
        }
    }
    if metrics.is_empty() {
        return None;
    }
    let tool = version.map_or_else(|| "iometer".to_owned(), |version| format!("iometer-{version}"));
    let name = value("Access Specification Name").filter(|n| !n.is_empty()).unwrap_or("iometer");
    let mut part = Part::new(name, Outcome { metrics, tool, warnings: Vec::new() });
    for (column, fact) in [("# Workers", "workers"), ("# Managers", "managers"), ("# Disks", "disks")] {
        part.facts.extend(value(column).filter(|v| !v.is_empty()).map(|v| (fact.to_owned(), v.to_owned())));
    }
    Some(part)
}
