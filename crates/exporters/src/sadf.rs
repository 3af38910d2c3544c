//! A trace as `sadf -d` prints an activity file: CPUs, frequencies, block devices, in rows of whole seconds.
//!
//! The columns have sysstat's names and units (sadf(1), sysstat 12), and each table begins with a line that
//! names them; what the trace does not hold (discards: `dkB/s`) is not a column, for a zero would be a lie.

use crate::{Error, Exporter, Result, Sink, StoredTrace, Writer};
use analysis::facts::rates::{SECTOR_BYTES, TICK_SECONDS, names_between, rates};
use domain::inert::csv_cell;
use domain::time::{Nanos, Timestamp};
use domain::trace::Trace;
use report::trace_view::Line;
use report::trace_view::frequency;
use report::trace_view::grid::Grid;
use std::fmt::Write;

/// A trace in rows of whole seconds.
pub(crate) struct Sadf;

impl Exporter for Sadf {
    fn name(&self) -> &'static str {
        "sadf"
    }

    fn about(&self) -> &'static str {
        "A trace as `sadf -d` prints it"
    }

    fn writers(&self) -> &'static [Writer] {
        &[Writer::Trace(write)]
    }
}

fn write(trace: &mut StoredTrace<'_>, out: &mut dyn Sink) -> Result<()> {
    trace.warn_of_dilation(out)?;
    let samples = trace.rows.read(usize::MAX, |_| true)?;
    let uneven = |why: Uneven| {
        let trial = trace.key.folder();
        Error::Unsuitable(format!("cannot write the trace of `{trial}` as sadf does: {why}"))
    };
    let text = sadf(&samples, &trace.run()?.machine).map_err(uneven)?;
    Ok(out.write_all(text.as_bytes())?)
}

/// Why a trace has no rows of whole seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Uneven {
    /// What it spans.
    span: Nanos,
    /// The length of a row.
    row: Nanos,
}

impl std::fmt::Display for Uneven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (span, row) = (self.span.secs(), self.row.secs());
        write!(f, "it spans {span:.1} s, and sadf's rows are whole seconds, here {row}; csv has every sample")
    }
}

/// What `/proc/stat` counts, and the column that shows it.
const STATES: [(&str, &[&str]); 6] = [
    ("%user", &["user"]),
    ("%nice", &["nice"]),
    ("%system", &["system", "irq", "softirq"]),
    ("%iowait", &["iowait"]),
    ("%steal", &["steal"]),
    ("%idle", &["idle"]),
];

/// The rows of a trace, a second each, or as much longer as its samples lie apart.
fn sadf(trace: &Trace, host: &str) -> std::result::Result<String, Uneven> {
    let row = Nanos::from_secs(trace.head.interval.get().div_ceil(1_000_000_000).max(1));
    let grid = Grid::every(trace, row);
    if grid.count == 0 {
        return Err(Uneven { span: grid.span, row });
    }
    let host = field(host);
    let rows = Rows { trace, grid, row, host };
    Ok([rows.cpus(), rows.frequencies(), rows.disks()].concat())
}

struct Rows<'t> {
    trace: &'t Trace,
    grid: Grid,
    row: Nanos,
    host: String,
}

impl Rows<'_> {
    /// The mean of a counter's rate in each row.
    fn rate(&self, column: &str, scale: f64) -> Vec<Option<f64>> {
        let line = self.grid.line(column, rates(self.trace, column, scale));
        line.buckets.into_iter().map(|bucket| bucket.map(|b| b.mean)).collect()
    }

    /// A table: its columns' names, and of each row and object its values where all are known.
    fn table(&self, columns: &str, objects: &[(String, Vec<Vec<Option<f64>>>)]) -> String {
        if objects.is_empty() {
            return String::new();
        }
        let mut text = format!("# hostname;interval;timestamp;{columns}\n");
        for i in 0..self.grid.count {
            for (name, values) in objects {
                let Some(values) = values.iter().map(|v| v[i]).collect::<Option<Vec<f64>>>() else {
                    continue;
                };
                let (name, seconds) = (field(name), self.row.get() / 1_000_000_000);
                let _ = write!(text, "{};{seconds};{};{name}", self.host, self.end(i));
                for value in values {
                    let _ = write!(text, ";{value:.2}");
                }
                text.push('\n');
            }
        }
        text
    }

    /// When a row ends: `2026-11-22 02:05:43 UTC`.
    fn end(&self, row: usize) -> String {
        let since = self.grid.start.get() + (row as u64 + 1) * self.row.get();
        let at = Timestamp::from_unix_nanos(self.trace.head.start.unix_nanos() + since as i64);
        let iso = at.iso();
        format!("{} {} UTC", &iso[..10], &iso[11..19])
    }

    fn cpus(&self) -> String {
        let names = names_between(self.trace, "cpu", ".idle");
        let objects: Vec<_> = names
            .iter()
            .filter_map(|cpu| {
                let sums: Vec<Vec<Option<f64>>> =
                    STATES.iter().map(|(_, parts)| self.summed(cpu, parts)).collect();
                let share =
                    |part: &Vec<Option<f64>>| (0..part.len()).map(|i| percent(&sums, part, i)).collect();
                let shares: Vec<Vec<Option<f64>>> = sums.iter().map(share).collect();
                let number = if cpu.is_empty() { "-1" } else { cpu };
                number.parse::<i32>().ok().map(|_| (number.to_owned(), shares))
            })
            .collect();
        let columns: Vec<&str> = STATES.iter().map(|(column, _)| *column).collect();
        self.table(&format!("CPU;{}", columns.join(";")), &objects)
    }

    fn summed(&self, cpu: &str, parts: &[&str]) -> Vec<Option<f64>> {
        let of = |part: &&str| self.rate(&format!("cpu{cpu}.{part}"), TICK_SECONDS);
        let zero = vec![Some(0.0); self.grid.count];
        parts.iter().map(of).fold(zero, |sum, part| added(&sum, &part))
    }

    fn frequencies(&self) -> String {
        let lines = frequency::each(self.trace, &self.grid);
        let object = |line: Line| {
            let number = line.name.trim_start_matches(|c: char| c.is_ascii_alphabetic()).to_owned();
            (number, vec![line.buckets.iter().map(|b| b.map(|b| b.mean / 1e6)).collect()])
        };
        self.table("CPU;MHz", &lines.into_iter().map(object).collect::<Vec<_>>())
    }

    fn disks(&self) -> String {
        let names = names_between(self.trace, "disk.", ".read_ios");
        let object = |name: &&str| {
            let rate = |quantity: &str, scale: f64| self.rate(&format!("disk.{name}.{quantity}"), scale);
            let ios = added(&rate("read_ios", 1.0), &rate("write_ios", 1.0));
            let (read, written) =
                (rate("read_sectors", SECTOR_BYTES / 1024.0), rate("write_sectors", SECTOR_BYTES / 1024.0));
            let waited = added(&rate("read_ms", 1.0), &rate("write_ms", 1.0));
            let size = over(&added(&read, &written), &ios);
            let values = vec![
                ios.clone(),
                read,
                written,
                size,
                rate("weighted_ms", 1e-3),
                over(&waited, &ios),
                rate("io_ms", 0.1),
            ];
            ((*name).to_owned(), values)
        };
        let objects: Vec<_> = names.iter().map(object).collect();
        self.table("DEV;tps;rkB/s;wkB/s;areq-sz;aqu-sz;await;%util", &objects)
    }
}

/// A text between semicolons, for which there is no quoting.
fn field(text: &str) -> String {
    csv_cell(&text.replace([';', '\n', '\r'], "_")).into_owned()
}

fn added(a: &[Option<f64>], b: &[Option<f64>]) -> Vec<Option<f64>> {
    a.iter().zip(b).map(|(a, b)| Some((*a)? + (*b)?)).collect()
}

/// Per request; sysstat prints zero where there was none.
fn over(a: &[Option<f64>], b: &[Option<f64>]) -> Vec<Option<f64>> {
    let per = |(a, b): (&Option<f64>, &Option<f64>)| {
        b.and_then(|b| if b > 0.0 { a.map(|a| a / b) } else { Some(0.0) })
    };
    a.iter().zip(b).map(per).collect()
}

/// One state's share of the time that all states took, in percent.
fn percent(states: &[Vec<Option<f64>>], part: &[Option<f64>], row: usize) -> Option<f64> {
    let all = states.iter().map(|state| state[row]).sum::<Option<f64>>()?;
    (all > 0.0).then_some(part[row]? / all * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::trace::{FrequencySource, Series, SeriesKind, SeriesUnit, TraceHead};
    use expect_test::expect;

    /// Samples each 250 ms of what grows by so much a sample.
    fn trace(samples: u64, columns: &[(&str, u64)]) -> Trace {
        let series = |(name, _): &(&str, u64)| Series {
            name: (*name).into(),
            unit: SeriesUnit::Count,
            kind: SeriesKind::Counter { wraps_at: None },
        };
        let head = TraceHead {
            series: columns.iter().map(series).collect(),
            interval: Nanos::from_millis(250),
            start: Timestamp::from_unix_nanos(1_700_000_000_000_000_000),
            frequency: FrequencySource::TimeInState,
        };
        let times = (0..samples).map(|i| Nanos::from_millis(250 * i)).collect();
        let grown = |by: u64| (0..samples).map(|i| Some(7 + i * by)).collect();
        Trace { head, times, columns: columns.iter().map(|(_, by)| grown(*by)).collect() }
    }

    #[test]
    fn rows_are_seconds_with_sysstats_columns() {
        let states = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
        let grown = [10, 0, 5, 8, 1, 0, 1, 0];
        let cpu = states.iter().zip(grown).map(|(state, by)| (format!("cpu0.{state}"), by));
        let disk = [
            "read_ios",
            "read_sectors",
            "read_ms",
            "write_ios",
            "write_sectors",
            "write_ms",
            "io_ms",
            "weighted_ms",
        ];
        let grown = [100, 800, 50, 0, 0, 0, 200, 100];
        let disk = disk.iter().zip(grown).map(|(quantity, by)| (format!("disk.sda.{quantity}"), by));
        let states =
            [("freq.policy0.time.1000000".to_owned(), 10), ("freq.policy0.time.2000000".to_owned(), 15)];
        let columns: Vec<(String, u64)> = cpu.chain(disk).chain(states).collect();
        let columns: Vec<(&str, u64)> = columns.iter().map(|(name, by)| (name.as_str(), *by)).collect();
        // Two seconds, and half of one that is no row.
        expect![[r"
            # hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle
            a_b;1;2023-11-14 22:13:21 UTC;0;40.00;0.00;24.00;4.00;0.00;32.00
            a_b;1;2023-11-14 22:13:22 UTC;0;40.00;0.00;24.00;4.00;0.00;32.00
            # hostname;interval;timestamp;CPU;MHz
            a_b;1;2023-11-14 22:13:21 UTC;0;1600.00
            a_b;1;2023-11-14 22:13:22 UTC;0;1600.00
            # hostname;interval;timestamp;DEV;tps;rkB/s;wkB/s;areq-sz;aqu-sz;await;%util
            a_b;1;2023-11-14 22:13:21 UTC;sda;400.00;1600.00;0.00;4.00;0.40;0.50;80.00
            a_b;1;2023-11-14 22:13:22 UTC;sda;400.00;1600.00;0.00;4.00;0.40;0.50;80.00
        "]]
        .assert_eq(&sadf(&trace(11, &columns), "a;b").unwrap());
    }

    #[test]
    fn a_trace_shorter_than_a_row_is_told() {
        let error = sadf(&trace(4, &[("cpu.user", 1)]), "a").unwrap_err().to_string();
        assert!(error.contains("it spans 0.8 s") && error.contains("csv has every sample"), "{error}");
        assert_eq!(sadf(&trace(9, &[]), "a").unwrap(), "");
    }
}
