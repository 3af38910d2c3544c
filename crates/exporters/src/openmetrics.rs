//! A trace as OpenMetrics 1.0 text with node_exporter's names, so that its dashboards and queries fit; what
//! node_exporter does not have is named `flyball_…`.
//!
//! One family is made at a time from its own columns, so that a long trace is never in memory as a whole.

use crate::{Exporter, Result, Sink, StoredTrace, Writer};
use domain::inert;
use domain::time::Timestamp;
use domain::trace::{Series, SeriesKind, Trace, TraceHead, growth};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A trace for Prometheus.
pub(crate) struct Openmetrics;

impl Exporter for Openmetrics {
    fn name(&self) -> &'static str {
        "openmetrics"
    }

    fn about(&self) -> &'static str {
        "A trace with node_exporter's names, for Prometheus"
    }

    fn writers(&self) -> &'static [Writer] {
        &[Writer::Trace(write)]
    }
}

fn write(trace: &mut StoredTrace<'_>, out: &mut dyn Sink) -> Result<()> {
    trace.warn_of_dilation(out)?;
    let (run, trial) = (trace.run()?, trace.key.folder());
    let labels =
        [("run", run.id.0.as_str()), ("trial", trial.as_str()), ("provenance", run.provenance.name())];
    for family in families(trace.rows.head()) {
        let columns = trace.rows.read(usize::MAX, |series| family.is_of(&series.name))?;
        out.write_all(family.text(&columns, &labels).as_bytes())?;
    }
    Ok(out.write_all(END.as_bytes())?)
}

/// Labels that every sample carries: which run, which trial, on what kind of machine.
type Labels<'a> = [(&'a str, &'a str)];

/// What ends the text.
const END: &str = "# EOF\n";

/// The metrics of one name.
#[derive(Clone, Debug)]
struct Family {
    name: String,
    kind: SeriesKind,
    /// Column, labels beside the common ones, and what a count of it is in the metric's unit.
    columns: Vec<Column>,
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    labels: OwnLabels,
    scale: f64,
}

/// What tells a sample from others of its family.
type OwnLabels = Vec<(&'static str, String)>;

/// The families of a trace with these columns.
fn families(head: &TraceHead) -> Vec<Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for series in &head.series {
        let Some((name, labels, scale)) = meaning(series) else { continue };
        let kind = series.kind;
        let family =
            families.entry(name.clone()).or_insert_with(|| Family { name, kind, columns: Vec::new() });
        family.columns.push(Column { name: series.name.clone(), labels, scale });
    }
    families.into_values().collect()
}

impl Family {
    /// Whether it is made of this column.
    fn is_of(&self, column: &str) -> bool {
        self.columns.iter().any(|c| c.name == column)
    }

    /// Its text, from a trace that has its columns.
    fn text(&self, trace: &Trace, common: &Labels<'_>) -> String {
        let (kind, suffix) = match self.kind {
            SeriesKind::Gauge => ("gauge", ""),
            SeriesKind::Counter { .. } => ("counter", "_total"),
        };
        let mut text = format!("# TYPE {} {kind}\n", self.name);
        for unit in ["seconds", "bytes", "hertz", "joules"] {
            if self.name.ends_with(&format!("_{unit}")) {
                let _ = writeln!(text, "# UNIT {} {unit}", self.name);
            }
        }
        for column in &self.columns {
            let Some(index) = trace.head.series.iter().position(|s| s.name == column.name) else { continue };
            let own = column.labels.iter().map(|(name, value)| (*name, value.as_str()));
            let labels: Vec<String> = own
                .chain(common.iter().copied())
                .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
                .collect();
            let labels = labels.join(",");
            let mut count = Unwrapped::new(trace.head.series[index].kind);
            for (time, value) in trace.times.iter().zip(&trace.columns[index]) {
                let Some(value) = value else { continue };
                let at = Timestamp::from_unix_nanos(trace.head.start.unix_nanos() + time.get() as i64);
                let (seconds, rest) = (at.unix_nanos() / 1_000_000_000, at.unix_nanos() % 1_000_000_000);
                let value = in_units(count.next(*value), column.scale);
                let _ = writeln!(text, "{}{suffix}{{{labels}}} {value} {seconds}.{rest:09}", self.name);
            }
        }
        text
    }
}

/// Divided by a whole number where the unit is larger: a hundredth of 7 is 0.07, and 7 times 0.01 is 0.07 and
/// a bit.
fn in_units(count: u128, scale: f64) -> f64 {
    if scale < 1.0 { count as f64 / (1.0 / scale).round() } else { count as f64 * scale }
}

/// A counter that goes on where the hardware's starts again.
struct Unwrapped {
    wraps_at: Option<u64>,
    last: u64,
    before: u128,
}

impl Unwrapped {
    fn new(kind: SeriesKind) -> Self {
        let wraps_at = if let SeriesKind::Counter { wraps_at } = kind { wraps_at } else { None };
        Self { wraps_at, last: 0, before: 0 }
    }

    fn next(&mut self, value: u64) -> u128 {
        if value < self.last {
            // Readers take a counter that falls for one that began anew.
            let has_wrapped = growth(self.last, value, self.wraps_at).is_some();
            self.before = if has_wrapped { self.before + u128::from(self.wraps_at.unwrap_or(0)) } else { 0 };
        }
        self.last = value;
        self.before + u128::from(value)
    }
}

/// A column's name as `{name, labels, scale}`; `None` for what is the sum of others.
fn meaning(series: &Series) -> Option<(String, OwnLabels, f64)> {
    let name = series.name.as_str();
    let (object, quantity) = name.rsplit_once('.').unwrap_or(("", name));
    let label = |name: &'static str, value: &str| vec![(name, value.to_owned())];
    if object == "cpu" {
        return None;
    }
    if let Some(cpu) = number_after(object, "cpu") {
        let labels = [label("cpu", cpu), label("mode", quantity)].concat();
        return Some(("node_cpu_seconds".into(), labels, 0.01));
    }
    if let Some(device) = object.strip_prefix("disk.")
        && let Some((name, scale)) = disk(quantity)
    {
        return Some((name.into(), label("device", device), scale));
    }
    if let Some((policy, khz)) = name.strip_prefix("freq.").and_then(|rest| rest.split_once(".time."))
        && let (Some(policy), Ok(khz)) = (number_after(policy, "policy"), khz.parse::<u64>())
    {
        let hertz = (u128::from(khz) * 1000).to_string();
        let labels = [label("policy", policy), label("frequency_hertz", &hertz)].concat();
        return Some(("flyball_cpufreq_time_in_state_seconds".into(), labels, 0.01));
    }
    if let Some(cpu) = object.strip_prefix("freq.").and_then(|object| number_after(object, "cpu")) {
        return Some(match quantity {
            "khz" => ("node_cpu_scaling_frequency_hertz".into(), label("cpu", cpu), 1e3),
            other => (format!("flyball_cpu_{}", word(other)), label("cpu", cpu), 1.0),
        });
    }
    if let Some((cpu, state)) = object.strip_prefix("idle.").and_then(|rest| rest.split_once('.'))
        && let (Some(cpu), Some(state)) = (number_after(cpu, "cpu"), number_after(state, "state"))
    {
        let labels = [label("cpu", cpu), label("state", state)].concat();
        return Some(match quantity {
            "us" => ("flyball_cpuidle_seconds".into(), labels, 1e-6),
            other => (format!("flyball_cpuidle_{}", word(other)), labels, 1.0),
        });
    }
    if let Some(resource) = object.strip_prefix("psi.") {
        let how = if quantity == "some_us" { "waiting" } else { "stalled" };
        return Some((format!("node_pressure_{}_{how}_seconds", word(resource)), vec![], 1e-6));
    }
    if let Some((zone, index)) = object.strip_prefix("rapl.").and_then(|zone| zone.rsplit_once('-')) {
        return Some((format!("node_rapl_{}_joules", word(zone)), label("index", index), 1e-6));
    }
    if let Some((chip, sensor)) = object.strip_prefix("hwmon.").and_then(|sensor| sensor.split_once('.')) {
        let labels = [label("chip", chip), label("sensor", sensor)].concat();
        return Some(match quantity {
            "uj" => ("node_hwmon_energy_joule".into(), labels, 1e-6),
            "average_uw" => ("node_hwmon_power_average_watt".into(), labels, 1e-6),
            _ => ("node_hwmon_power_watt".into(), labels, 1e-6),
        });
    }
    if let Some(battery) = object.strip_prefix("battery.") {
        return Some(("node_power_supply_power_watt".into(), label("power_supply", battery), 1e-6));
    }
    if let Some(role) = object.strip_prefix("role.") {
        return Some(("flyball_role_cpu_seconds".into(), label("role", role), 1e-9));
    }
    if name == "system.context_switches" {
        return Some(("node_context_switches".into(), vec![], 1.0));
    }
    if name == "recorder.ns" {
        return Some(("flyball_recorder_cpu_seconds".into(), vec![], 1e-9));
    }
    let family = match series.kind {
        SeriesKind::Gauge => "flyball_value",
        SeriesKind::Counter { .. } => "flyball_count",
    };
    Some((family.into(), [label("series", name), label("unit", series.unit.name())].concat(), 1.0))
}

/// node_exporter's names of what `/proc/diskstats` counts (its collector `diskstats`).
fn disk(quantity: &str) -> Option<(&'static str, f64)> {
    Some(match quantity {
        "read_ios" => ("node_disk_reads_completed", 1.0),
        "read_sectors" => ("node_disk_read_bytes", 512.0),
        "read_ms" => ("node_disk_read_time_seconds", 1e-3),
        "write_ios" => ("node_disk_writes_completed", 1.0),
        "write_sectors" => ("node_disk_written_bytes", 512.0),
        "write_ms" => ("node_disk_write_time_seconds", 1e-3),
        "in_flight" => ("node_disk_io_now", 1.0),
        "io_ms" => ("node_disk_io_time_seconds", 1e-3),
        "weighted_ms" => ("node_disk_io_time_weighted_seconds", 1e-3),
        _ => return None,
    })
}

fn number_after<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let number = text.strip_prefix(word)?;
    (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then_some(number)
}

/// A part of a metric's name: letters, digits and `_`.
fn word(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// A label's value (OpenMetrics 1.0, "escaped-string"); what is live in it is shown as an escape, and that as
/// text.
fn escaped(text: &str) -> String {
    inert::one_line(text).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::time::Nanos;
    use domain::trace::{FrequencySource, SeriesUnit};
    use expect_test::expect;

    fn text(columns: &[(&str, SeriesKind, &[Option<u64>])]) -> String {
        let series = |(name, kind, _): &(&str, SeriesKind, &[Option<u64>])| Series {
            name: (*name).into(),
            unit: SeriesUnit::Thousandths,
            kind: *kind,
        };
        let head = TraceHead {
            series: columns.iter().map(series).collect(),
            interval: Nanos::from_millis(10),
            start: Timestamp::from_unix_nanos(1_700_000_000_500_000_000),
            frequency: FrequencySource::None,
        };
        let times = (0..columns[0].2.len() as u64).map(|i| Nanos::from_millis(250 * i)).collect();
        let columns = columns.iter().map(|(_, _, values)| values.to_vec()).collect();
        let trace = Trace { head: head.clone(), times, columns };
        families(&head).iter().map(|family| family.text(&trace, &[("run", "a\"b")])).collect()
    }

    #[test]
    fn counters_gauges_and_labels() {
        const COUNTER: SeriesKind = SeriesKind::Counter { wraps_at: None };
        let text = text(&[
            ("cpu.user", COUNTER, &[Some(9), Some(9)]),
            ("cpu1.user", COUNTER, &[Some(1), Some(3)]),
            ("disk.nvme0n1.read_sectors", COUNTER, &[Some(2), None]),
            ("freq.cpu0.khz", SeriesKind::Gauge, &[Some(800_000), Some(1)]),
            ("freq.policy0.time.1200000", COUNTER, &[Some(5), Some(7)]),
            ("rapl.package-0.uj", SeriesKind::Counter { wraps_at: Some(1000) }, &[Some(900), Some(100)]),
            ("system.context_switches", COUNTER, &[Some(40), Some(52)]),
            ("tool.vmstat.r", SeriesKind::Gauge, &[Some(1500), Some(0)]),
        ]);
        expect![[r##"
            # TYPE flyball_cpufreq_time_in_state_seconds counter
            # UNIT flyball_cpufreq_time_in_state_seconds seconds
            flyball_cpufreq_time_in_state_seconds_total{policy="0",frequency_hertz="1200000000",run="a\"b"} 0.05 1700000000.500000000
            flyball_cpufreq_time_in_state_seconds_total{policy="0",frequency_hertz="1200000000",run="a\"b"} 0.07 1700000000.750000000
            # TYPE flyball_value gauge
            flyball_value{series="tool.vmstat.r",unit="0.001",run="a\"b"} 1500 1700000000.500000000
            flyball_value{series="tool.vmstat.r",unit="0.001",run="a\"b"} 0 1700000000.750000000
            # TYPE node_context_switches counter
            node_context_switches_total{run="a\"b"} 40 1700000000.500000000
            node_context_switches_total{run="a\"b"} 52 1700000000.750000000
            # TYPE node_cpu_scaling_frequency_hertz gauge
            # UNIT node_cpu_scaling_frequency_hertz hertz
            node_cpu_scaling_frequency_hertz{cpu="0",run="a\"b"} 800000000 1700000000.500000000
            node_cpu_scaling_frequency_hertz{cpu="0",run="a\"b"} 1000 1700000000.750000000
            # TYPE node_cpu_seconds counter
            # UNIT node_cpu_seconds seconds
            node_cpu_seconds_total{cpu="1",mode="user",run="a\"b"} 0.01 1700000000.500000000
            node_cpu_seconds_total{cpu="1",mode="user",run="a\"b"} 0.03 1700000000.750000000
            # TYPE node_disk_read_bytes counter
            # UNIT node_disk_read_bytes bytes
            node_disk_read_bytes_total{device="nvme0n1",run="a\"b"} 1024 1700000000.500000000
            # TYPE node_rapl_package_joules counter
            # UNIT node_rapl_package_joules joules
            node_rapl_package_joules_total{index="0",run="a\"b"} 0.0009 1700000000.500000000
            node_rapl_package_joules_total{index="0",run="a\"b"} 0.0011 1700000000.750000000
        "##]]
        .assert_eq(&text);
    }

    #[test]
    fn sensors_and_batteries_have_node_exporters_names() {
        const COUNTER: SeriesKind = SeriesKind::Counter { wraps_at: None };
        let text = text(&[
            ("hwmon.amd_energy-0.Esocket0.uj", COUNTER, &[Some(7_000_000)]),
            ("hwmon.power_meter-0.power1.average_uw", SeriesKind::Gauge, &[Some(210_000_000)]),
            ("battery.BAT0.uw", SeriesKind::Gauge, &[Some(11_500_000)]),
        ]);
        for line in [
            r#"node_hwmon_energy_joule_total{chip="amd_energy-0",sensor="Esocket0",run="a\"b"} 7 "#,
            r#"node_hwmon_power_average_watt{chip="power_meter-0",sensor="power1",run="a\"b"} 210 "#,
            r#"node_power_supply_power_watt{power_supply="BAT0",run="a\"b"} 11.5 "#,
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
