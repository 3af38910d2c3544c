//! powertop's CSV report (`--csv`): what it says of the whole system.
//!
//! Sections are headed ` * * * NAME * * *`, fields parted by `;`. Its lists of processes, devices and
//! tunables are left out: they are estimates of powertop's own model, and no measurements. Source:
//! `src/report/report-data-html.cpp`, `src/report/report.cpp`, and real output of 2.14.

use super::error::Error;
use super::{Imported, Part};
use domain::outcome::{Better, Metric, Outcome};
use domain::units::Unit;

const TOOL: &str = "powertop";

pub(super) fn read(text: &str) -> Result<Imported, Error> {
    let mut imported = Imported::default();
    let mut outcome = Outcome { tool: TOOL.to_owned(), ..Outcome::default() };
    let (mut section, mut package, mut idle) = (String::new(), String::new(), false);
    // Of which CPU the lines of the frequency report are.
    let mut cpu = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("*  *  *").and_then(|l| l.strip_suffix("*  *  *")) {
            name.trim().clone_into(&mut section);
            idle = section == "Processor Idle State Report";
            continue;
        }
        let fields: Vec<&str> = line.split(';').map(str::trim).collect();
        match fields.as_slice() {
            ["PowerTOP Version", version, ..] => {
                let (version, date) = version.split_once(" ran at ").unwrap_or((version, ""));
                outcome.tool = format!("{TOOL}-{}", version.trim_start_matches('v'));
                fact(&mut imported, "date", date);
            }
            ["Kernel Version", value, ..] => {
                fact(&mut imported, "kernel", value.trim_start_matches("Linux version "))
            }
            ["System Name", value, ..] => fact(&mut imported, "system", value),
            ["CPU Information", value, ..] => fact(&mut imported, "cpu", value),
            ["OS Information", value, ..] => fact(&mut imported, "os", value),
            [target, ..] if target.starts_with("Target:") => {
                for field in &fields {
                    put_summary(&mut outcome, field);
                }
            }
            [name] if name.starts_with("CPU ") => cpu = name.strip_prefix("CPU "),
            ["Average", value, ..] => {
                if let (Some(cpu), Some(value)) = (cpu, hertz(value)) {
                    let metric = Metric { value, unit: Unit::Hertz, better: Better::Higher };
                    outcome.metrics.insert(format!("frequency.cpu-{cpu}"), metric);
                }
            }
            ["Package", number, ..] => (*number).clone_into(&mut package),
            ["CPU" | "Core", ..] => package.clear(),
            ["", core, ..] if core.starts_with("Core ") => package.clear(),
            [state, value, ..] if idle && !package.is_empty() && !state.is_empty() => {
                if let Some(percent) = value.strip_suffix('%').and_then(number) {
                    let metric = Metric { value: percent / 100.0, unit: Unit::Share, better: Better::Higher };
                    outcome
                        .metrics
                        .insert(format!("idle.package-{package}.{}", state.replace(' ', "_")), metric);
                }
            }
            [first, ..] if first.starts_with("The battery reports a discharge rate of") => {
                if let Some(watts) = first.rsplit_once("of").and_then(|(_, w)| watts(w.trim())) {
                    outcome.metrics.insert(
                        "power".to_owned(),
                        Metric { value: watts, unit: Unit::Watts, better: Better::Lower },
                    );
                }
            }
            _ => {}
        }
    }
    if !outcome.metrics.is_empty() {
        imported.parts.push(Part::new(TOOL, outcome));
    }
    Ok(imported)
}

fn fact(imported: &mut Imported, name: &str, value: &str) {
    if !value.is_empty() {
        imported.facts.insert(name.to_owned(), value.to_owned());
    }
}

/// `System:  3.9 wakeup/s`, `CPU:  178.0% usage`, of the line that begins with `Target:`.
fn put_summary(outcome: &mut Outcome, field: &str) {
    let Some((what, value)) = field.split_once(':') else { return };
    let mut words = value.split_whitespace();
    let (Some(first), unit) = (words.next(), words.next().unwrap_or("")) else { return };
    let (name, value, unit) = match (what, first.strip_suffix('%'), unit) {
        // Of one CPU: two busy ones give 200%.
        ("CPU", Some(percent), _) => ("cpu_usage", number(percent).map(|p| p / 100.0), Unit::Share),
        ("System", None, _) => ("wakeups", number(first), Unit::PerSecond),
        ("GPU", None, _) => ("gpu_operations", number(first), Unit::PerSecond),
        ("GFX", None, _) => ("gpu_wakeups", number(first), Unit::PerSecond),
        ("VFS", None, _) => ("vfs_operations", number(first), Unit::PerSecond),
        _ => return,
    };
    if let Some(value) = value {
        outcome.metrics.insert(name.to_owned(), Metric { value, unit, better: Better::Lower });
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|value| value.is_finite())
}

/// `2.0 GHz`, `800 MHz`: by APERF, MPERF and the TSC, while the CPU was not idle.
fn hertz(text: &str) -> Option<f64> {
    let (value, unit) = text.split_once(' ')?;
    let scale = match unit.trim() {
        "GHz" => 1e9,
        "MHz" => 1e6,
        "kHz" => 1e3,
        _ => return None,
    };
    number(value).map(|value| value * scale)
}

/// `12.3 W`, `850 mW`.
fn watts(text: &str) -> Option<f64> {
    let (value, unit) = text.split_once(' ')?;
    let scale = match unit.trim() {
        "W" => 1.0,
        "mW" => 1e-3,
        _ => return None,
    };
    number(value).map(|value| value * scale)
}
