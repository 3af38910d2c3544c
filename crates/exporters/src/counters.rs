//! Counters from the samples of a trace: rates of what counts, values of what does not, and what follows from
//! several columns (a CPU's busy share and frequency, a device's latency).
//!
//! A column is read at a time, so that a long trace is never in memory as a whole. A value stands where its
//! step begins. Where samples are missing there is none.

use crate::Result;
use analysis::facts::rates::{Step, TICK_SECONDS, coarse, rates};
use domain::trace::{Series, SeriesKind, SeriesUnit, Trace};
use notebook::TraceReader;
use report::trace_view::frequency;
use std::collections::BTreeSet;

/// What a CPU is while it is not idle.
const BUSY: [&str; 6] = ["user", "nice", "system", "irq", "softirq", "steal"];

/// A track of values, in base units.
#[derive(Clone, Debug)]
pub(crate) struct Counter<'c> {
    /// What it is of: `CPU 3`, `disk sda`, `power`.
    pub group: &'c str,
    pub name: &'c str,
    /// Empty where it is a number of things.
    pub unit: &'c str,
    /// In the order of time.
    pub steps: Vec<Step>,
}

/// Gives all counters that are not zero throughout: most machines have devices that nobody uses.
pub(crate) fn each(rows: &mut TraceReader, take: &mut dyn FnMut(Counter<'_>) -> Result<()>) -> Result<()> {
    let series = rows.head().series.clone();
    let mut reader = Reader { rows, take };
    reader.frequencies()?;
    for cpu in objects(&series, "cpu", ".idle") {
        reader.busy(cpu)?;
    }
    for series in &series {
        if let Some(place) = place(&series.name) {
            reader.column(series, &place)?;
        }
    }
    for device in objects(&series, "disk.", ".read_ios") {
        reader.latency(device, "read")?;
        reader.latency(device, "write")?;
    }
    Ok(())
}

struct Reader<'r> {
    rows: &'r mut TraceReader,
    take: &'r mut dyn FnMut(Counter<'_>) -> Result<()>,
}

impl Reader<'_> {
    /// By CPU or policy, from whichever source the trace has.
    fn frequencies(&mut self) -> Result<()> {
        let trace = self.rows.read(usize::MAX, |series| series.name.starts_with("freq."))?;
        for (name, steps) in frequency::steps(&trace) {
            let group = if name.starts_with("cpu") { cpu_group(&name) } else { name.clone() };
            self.counter((&group, "frequency"), "Hz", steps)?;
        }
        Ok(())
    }

    fn busy(&mut self, cpu: &str) -> Result<()> {
        let names = BUSY.map(|state| format!("cpu{cpu}.{state}"));
        let mut trace = self.rows.read(usize::MAX, |series| names.contains(&series.name))?;
        let Some(first) = trace.head.series.first().cloned().filter(|_| trace.columns.len() == BUSY.len())
        else {
            return Ok(());
        };
        let sum = |row: usize| trace.columns.iter().map(|column| column[row]).sum::<Option<u64>>();
        trace.columns = vec![(0..trace.times.len()).map(sum).collect()];
        trace.head.series.truncate(1);
        let steps = coarse(rates(&trace, &first.name, TICK_SECONDS * 100.0)).collect();
        self.counter((&cpu_group(&format!("cpu{cpu}")), "busy"), "%", steps)
    }

    /// Milliseconds a request, as the kernel counted both.
    fn latency(&mut self, device: &str, way: &str) -> Result<()> {
        let [time, count] = ["ms", "ios"].map(|quantity| format!("disk.{device}.{way}_{quantity}"));
        let trace = self.rows.read(usize::MAX, |series| [&time, &count].contains(&&series.name))?;
        let counts = coarse(rates(&trace, &count, 1.0));
        let per_request = |(time, count): (Step, Step)| {
            let is_same = (time.from, time.to) == (count.from, count.to);
            (is_same && count.value > 0.0).then(|| Step { value: time.value / count.value, ..time })
        };
        let steps = coarse(rates(&trace, &time, 1.0)).zip(counts).filter_map(per_request).collect();
        self.counter((&format!("disk {device}"), &format!("{way} latency")), "ms", steps)
    }

    /// One column in base units.
    fn column(&mut self, series: &Series, place: &Place) -> Result<()> {
        let trace = self.rows.read(usize::MAX, |one| one.name == series.name)?;
        let (scale, unit) = base_unit(series.unit);
        let (steps, unit) = match series.kind {
            SeriesKind::Gauge => (values(&trace, scale), unit.to_owned()),
            SeriesKind::Counter { .. } => {
                let rates = rates(&trace, &series.name, scale);
                let is_coarse = matches!(series.unit, SeriesUnit::Ticks | SeriesUnit::Millis);
                let steps = if is_coarse { coarse(rates).collect() } else { rates.collect() };
                (steps, rate_unit(unit))
            }
        };
        self.counter((&place.group, &place.name), &unit, steps)
    }

    fn counter(&mut self, (group, name): (&str, &str), unit: &str, steps: Vec<Step>) -> Result<()> {
        if steps.iter().all(|step| step.value == 0.0) {
            return Ok(());
        }
        (self.take)(Counter { group, name, unit, steps })
    }
}

/// The values of a gauge, each until the next that there is.
fn values(trace: &Trace, scale: f64) -> Vec<Step> {
    let Some(column) = trace.columns.first() else { return Vec::new() };
    let value = |(row, value): (usize, &Option<u64>)| {
        let at = trace.times[row];
        Some(Step { from: at, to: at, value: (*value)? as f64 * scale })
    };
    column.iter().enumerate().filter_map(value).collect()
}

/// Where a column's counter stands.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    group: String,
    name: String,
}

/// `None` for a column that is shown by what follows from it.
fn place(column: &str) -> Option<Place> {
    let (object, quantity) = column.rsplit_once('.').unwrap_or(("trace", column));
    let of = |group: &str, name: &str| Some(Place { group: group.to_owned(), name: name.to_owned() });
    let is_cpu = object.strip_prefix("cpu").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    if is_cpu || object.starts_with("freq.") {
        return None;
    }
    if let Some(device) = object.strip_prefix("disk.") {
        return of(&format!("disk {device}"), disk(quantity)?);
    }
    if let Some((cpu, state)) = object.strip_prefix("idle.").and_then(|rest| rest.split_once('.')) {
        let kind = if quantity == "us" { "time" } else { quantity };
        return of(&cpu_group(cpu), &format!("idle {state} {kind}"));
    }
    if let Some(resource) = object.strip_prefix("psi.") {
        return of("pressure", &format!("{resource} {}", quantity.trim_end_matches("_us")));
    }
    if let Some(zone) = object.strip_prefix("rapl.") {
        return of("power", zone);
    }
    if let Some(sensor) = object.strip_prefix("hwmon.").or_else(|| object.strip_prefix("battery.")) {
        return of("power", sensor);
    }
    if let Some(role) = object.strip_prefix("role.") {
        return of("CPU time by role", role);
    }
    of(object, quantity)
}

/// A column of `/proc/diskstats` as a rate; the times of requests are in the latency.
fn disk(quantity: &str) -> Option<&str> {
    Some(match quantity {
        "read_ios" => "reads",
        "read_sectors" => "read throughput",
        "write_ios" => "writes",
        "write_sectors" => "write throughput",
        "in_flight" => "in flight",
        "weighted_ms" => "in flight, mean",
        "io_ms" => "busy",
        "read_ms" | "write_ms" => return None,
        other => other,
    })
}

/// A count of it in this unit.
fn base_unit(unit: SeriesUnit) -> (f64, &'static str) {
    match unit {
        SeriesUnit::Ticks => (TICK_SECONDS, "s"),
        SeriesUnit::Nanos => (1e-9, "s"),
        SeriesUnit::Micros => (1e-6, "s"),
        SeriesUnit::Millis => (1e-3, "s"),
        SeriesUnit::Sectors => (512.0, "B"),
        SeriesUnit::Kilohertz => (1e3, "Hz"),
        SeriesUnit::Microjoules => (1e-6, "J"),
        SeriesUnit::Count => (1.0, ""),
        SeriesUnit::Ppm => (1e-4, "%"),
        SeriesUnit::BytesPerSecond => (1.0, "B/s"),
        SeriesUnit::MilliPerSecond => (1e-3, "1/s"),
        SeriesUnit::Microwatts => (1e-6, "W"),
        SeriesUnit::Thousandths => (1e-3, ""),
    }
}

/// That unit a second.
fn rate_unit(unit: &str) -> String {
    match unit {
        "J" => "W".to_owned(),
        "" => "1/s".to_owned(),
        unit => format!("{unit}/s"),
    }
}

/// `CPU 3` of `cpu3`.
fn cpu_group(cpu: &str) -> String {
    format!("CPU {}", cpu.trim_start_matches("cpu"))
}

/// The names between a prefix and a suffix, each once; that of all CPUs together is empty and left out.
fn objects<'s>(series: &'s [Series], prefix: &str, suffix: &str) -> BTreeSet<&'s str> {
    let between = |series: &'s Series| series.name.strip_prefix(prefix)?.strip_suffix(suffix);
    series.iter().filter_map(between).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_a_place_or_is_shown_by_what_follows_from_it() {
        let text = |column: &str| place(column).map(|place| format!("{} | {}", place.group, place.name));
        for (column, expected) in [
            ("disk.nvme0n1.read_ios", "disk nvme0n1 | reads"),
            ("disk.sda.io_ms", "disk sda | busy"),
            ("idle.cpu12.state1.us", "CPU 12 | idle state1 time"),
            ("psi.io.full_us", "pressure | io full"),
            ("rapl.package-0.uj", "power | package-0"),
            ("hwmon.power_meter-0.power1.average_uw", "power | power_meter-0.power1"),
            ("battery.BAT0.uw", "power | BAT0"),
            ("role.workload.ns", "CPU time by role | workload"),
            ("system.context_switches", "system | context_switches"),
            ("tool.vmstat.r", "tool.vmstat | r"),
        ] {
            assert_eq!(text(column).as_deref(), Some(expected), "{column}");
        }
        for column in ["cpu.user", "cpu3.idle", "freq.cpu0.khz", "freq.policy0.time.100", "disk.sda.read_ms"]
        {
            assert_eq!(text(column), None, "{column}");
        }
    }

    #[test]
    fn a_rate_is_in_its_unit_a_second() {
        let of = |unit| rate_unit(base_unit(unit).1);
        assert_eq!(of(SeriesUnit::Microjoules), "W");
        assert_eq!(of(SeriesUnit::Sectors), "B/s");
        assert_eq!(of(SeriesUnit::Nanos), "s/s");
        assert_eq!(of(SeriesUnit::Count), "1/s");
    }
}
