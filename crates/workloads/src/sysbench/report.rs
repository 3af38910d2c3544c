//! sysbench's report: what it writes at its end, of 0.4 to 1.1, whichever test it ran. The last report in a
//! text counts.
//!
//! Latencies are those of events (transactions, requests), in milliseconds in the text and in seconds here.
//! `Mb` of 0.4 are MiB, as in its `sb_fileio.c`. The share of `--percentile` gives the metric its name:
//! `latency_p95`.
//!
//! Source: `src/sysbench.c`, `src/db_driver.c`, `src/tests/*/sb_*.c` of sysbench, and real output.
//!
//! Not a goal: its reports by interval, its histogram.

use crate::report::{Metrics, ToolError, shared_metric, tail};
use domain::units::Unit;
use domain::{Better, Outcome};

const TOOL: &str = "sysbench";

const MIB: f64 = 1_048_576.0;

/// Whether a line begins a report or what precedes it.
pub fn begins(line: &str) -> bool {
    line.starts_with("sysbench ") && line[9..].starts_with(|c: char| c.is_ascii_digit())
}

/// Reads a report.
///
/// # Errors
/// Where a text holds none, or sysbench says that it failed.
pub fn report(text: &str) -> Result<Outcome, ToolError> {
    let mut found = Found::default();
    let mut warnings = Vec::new();
    for line in text.lines().map(str::trim) {
        if begins(line) {
            found = Found { version: line.split_whitespace().nth(1).map(str::to_owned), ..Found::default() };
            warnings.clear();
        } else if let Some(message) = line.strip_prefix("FATAL: ") {
            return Err(ToolError::Failed { tool: TOOL, message: message.to_owned() });
        } else if let Some(message) = line.strip_prefix("WARNING: ") {
            warnings.push(message.to_owned());
        } else {
            found.take(line);
        }
    }
    if found.metrics.0.is_empty() {
        return Err(match text.trim() {
            "" => ToolError::Empty { tool: TOOL },
            _ => ToolError::NoReport {
                tool: TOOL,
                wanted: "line of a summary, as `total time:`",
                tail: tail(text),
            },
        });
    }
    let version = found.version.take().map(|version| version.trim_end_matches(':').to_owned());
    let tool = version.map_or_else(|| TOOL.to_owned(), |version| format!("{TOOL}-{version}"));
    Ok(Outcome { metrics: found.sums().0, tool, warnings })
}

#[derive(Default)]
struct Found {
    metrics: Metrics,
    version: Option<String>,
    /// Whether latencies follow: `min`, `avg` and `max` stand nowhere else.
    in_latencies: bool,
    /// All queries, of which 0.4 and 0.5 give no rate: that of their `read/write requests` leaves out `BEGIN`
    /// and `COMMIT`.
    queries: Option<f64>,
}

impl Found {
    fn take(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("Read ") {
            self.old_transfer(rest);
        }
        if line.starts_with("Latency (ms)") || line.starts_with("per-request statistics") {
            self.in_latencies = true;
        } else if line.starts_with("Threads fairness") {
            self.in_latencies = false;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Total", "operations:", _, rate, "per", "second)"] => {
                self.put_number("operations", rate.trim_start_matches('('), 1.0);
            }
            // `%8.2f` may leave a blank after the bracket.
            ["Total", "operations:", _, "(", rate, "per", "second)"] => {
                self.put_number("operations", rate, 1.0)
            }
            [_, "MiB" | "MB", "transferred", rate, "MiB/sec)" | "MB/sec)"] => {
                self.put_number("throughput", rate.trim_start_matches('('), MIB);
            }
            [rate, "Requests/sec", "executed"] => self.put_number("iops", rate, 1.0),
            ["read:" | "write:" | "fsync:", iops, rest @ ..] => self.new_file_line(words[0], iops, rest),
            _ => self.keyed(line),
        }
    }

    fn keyed(&mut self, line: &str) {
        let Some((key, value)) = line.split_once(':') else { return };
        let value = value.trim();
        match key {
            "transactions" => self.per_second("transactions", value),
            "queries" => self.per_second("queries", value),
            "total" => self.queries = value.parse().ok().filter(|queries: &f64| queries.is_finite()),
            "ignored errors" | "deadlocks" => self.per_second("errors", value),
            "events per second" | "events/s (eps)" => self.put_number("events", value, 1.0),
            "reads/s" => self.put_number("read_iops", value, 1.0),
            "writes/s" => self.put_number("write_iops", value, 1.0),
            "fsyncs/s" => self.put_number("fsyncs", value, 1.0),
            "read, MiB/s" => self.put_number("read_throughput", value, MIB),
            "written, MiB/s" => self.put_number("write_throughput", value, MIB),
            "total time" | "time elapsed" => self.put_number("elapsed", value.trim_end_matches('s'), 1.0),
            "avg" | "min" | "max" if self.in_latencies => {
                let name = if key == "avg" { "mean" } else { key };
                self.put_number(&format!("latency_{name}"), value.trim_end_matches("ms"), 1e-3);
            }
            _ if key.ends_with("percentile") && self.in_latencies => {
                let digits: String = key.chars().filter(char::is_ascii_digit).collect();
                self.put_number(&format!("latency_p{digits}"), value.trim_end_matches("ms"), 1e-3);
            }
            _ => {}
        }
    }

    /// `10000  (999.50 per sec.)`.
    fn per_second(&mut self, name: &str, value: &str) {
        if let Some((_, rate)) = value.split_once('(')
            && let Some(rate) = rate.trim().strip_suffix("per sec.)")
        {
            self.put_number(name, rate.trim(), 1.0);
        }
    }

    /// `93.75Mb  Written 62.5Mb  Total transferred 156.25Mb  (15.625Mb/sec)` of 0.4.
    fn old_transfer(&mut self, line: &str) {
        if let Some((_, rate)) = line.rsplit_once('(')
            && let Some((number, scale)) = rate.strip_suffix("b/sec)").and_then(letter)
        {
            self.put_number("throughput", number, scale);
        }
    }

    /// `read:  IOPS=11188.58 174.82 MiB/s (183.31 MB/s)` of 1.1.
    fn new_file_line(&mut self, key: &str, iops: &str, rest: &[&str]) {
        let Some(iops) = iops.strip_prefix("IOPS=") else { return };
        let (name, throughput) = match key {
            "read:" => ("read_iops", "read_throughput"),
            "write:" => ("write_iops", "write_throughput"),
            _ => ("fsyncs", ""),
        };
        self.put_number(name, iops, 1.0);
        if let ([rate, "MiB/s", ..], true) = (rest, !throughput.is_empty()) {
            self.put_number(throughput, rate, MIB);
        }
    }

    fn put_number(&mut self, name: &str, text: &str, scale: f64) {
        let Some(value) = text.parse::<f64>().ok().filter(|v| v.is_finite()) else { return };
        // `0.00` ms is less than sysbench prints, and not nothing.
        if value == 0.0 && name.starts_with("latency") {
            return;
        }
        let own = match name {
            "events" | "operations" | "fsyncs" => (Unit::PerSecond, Better::Higher),
            _ => (Unit::Seconds, Better::Lower),
        };
        let (unit, better) = shared_metric(name).unwrap_or(own);
        self.metrics.put_as(name, value * scale, unit, better);
    }

    /// With reads and writes together, which sysbench's file test states apart, and the rate of queries where
    /// it states none.
    fn sums(mut self) -> Metrics {
        let elapsed =
            self.metrics.0.get("elapsed").map(|metric| metric.value).filter(|elapsed| *elapsed > 0.0);
        if let (Some(queries), Some(elapsed), false) =
            (self.queries, elapsed, self.metrics.0.contains_key("queries"))
        {
            self.metrics.put("queries", queries / elapsed);
        }
        for (sum, parts) in
            [("iops", ["read_iops", "write_iops"]), ("throughput", ["read_throughput", "write_throughput"])]
        {
            let values = parts.map(|part| self.metrics.0.get(part).map(|metric| metric.value));
            if let [Some(read), Some(write)] = values {
                self.metrics.put(sum, read + write);
            }
        }
        self.metrics
    }
}

/// `15.625M`: a number and its power of 1024.
fn letter(text: &str) -> Option<(&str, f64)> {
    let scale = match text.as_bytes().last()? {
        b'K' => 1024.0,
        b'M' => MIB,
        b'G' => MIB * 1024.0,
        _ => return Some((text, 1.0)),
    };
    Some((&text[..text.len() - 1], scale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::shown;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    macro_rules! fixture {
        ($name:literal) => {
            include_str!(concat!("../../../../fixtures/tools/sysbench/", $name))
        };
    }

    fn check(text: &str, expected: Expect) {
        expected.assert_eq(&shown(report(text)));
    }

    #[test]
    fn transactions_and_their_latencies_are_read() {
        check(
            fixture!("oltp-1.0.20.txt"),
            expect![[r#"
            sysbench-1.0.20
            elapsed = 10.0 s
            errors = 0.300 /s
            latency_max = 25.2 ms
            latency_mean = 4.00 ms
            latency_min = 1.50 ms
            latency_p99 = 9.50 ms
            queries = 20.0 k/s
            transactions = 1000 /s
        "#]],
        );
    }

    #[test]
    fn reads_and_writes_of_files_are_summed() {
        check(
            fixture!("fileio-1.0.20.txt"),
            expect![[r#"
                sysbench-1.0.20
                elapsed = 2.00 s
                fsyncs = 374 /s
                iops = 18.6 k/s
                latency_max = 48.3 ms
                latency_mean = 50.0 µs
                read_iops = 11.2 k/s
                read_throughput = 183 MB/s
                throughput = 306 MB/s
                write_iops = 7.46 k/s
                write_throughput = 122 MB/s
            "#]],
        );
    }

    #[test]
    fn the_form_of_0_4_is_read() {
        check(
            fixture!("fileio-0.4.12.txt"),
            expect![[r#"
            sysbench-0.4.12
            elapsed = 10.0 s
            iops = 1.00 k/s
            latency_max = 20.5 ms
            latency_mean = 950 µs
            latency_min = 10.0 µs
            latency_p95 = 2.25 ms
            throughput = 16.4 MB/s
        "#]],
        );
    }

    #[test]
    fn the_other_tests_have_rates_of_their_own() {
        check(
            fixture!("cpu-1.0.20.txt"),
            expect![[r#"
            sysbench-1.0.20
            elapsed = 2.01 s
            events = 1.59 k/s
            latency_max = 47.0 ms
            latency_mean = 1.25 ms
            latency_min = 200 µs
            latency_p95 = 7.98 ms
        "#]],
        );
        check(
            fixture!("memory-1.0.20.txt"),
            expect![[r#"
                sysbench-1.0.20
                elapsed = 1.00 s
                latency_max = 21.1 ms
                operations = 2.18 M/s
                throughput = 2.24 GB/s
            "#]],
        );
    }

    #[test]
    fn the_form_of_1_1_is_read() {
        check(
            "Throughput:\n  read:  IOPS=200.00 2.00 MiB/s (2.10 MB/s)\n  write: IOPS=100.00 1.00 MiB/s (1.05 MB/s)\n  fsync: IOPS=5.00\n",
            expect![[r#"
                sysbench
                fsyncs = 5.00 /s
                iops = 300 /s
                read_iops = 200 /s
                read_throughput = 2.10 MB/s
                throughput = 3.15 MB/s
                write_iops = 100 /s
                write_throughput = 1.05 MB/s
            "#]],
        );
    }

    #[test]
    fn a_failure_is_told_in_sysbenchs_words_and_other_text_is_none() {
        check(
            "sysbench 1.0.20 (x)\nFATAL: unable to connect\n",
            expect![[r#"
            sysbench failed: unable to connect
        "#]],
        );
        check(
            "hello\n",
            expect![[r#"
            cannot read the report of sysbench: it holds no line of a summary, as `total time:`; the text ends with `hello`; see what sysbench wrote to its standard error
        "#]],
        );
        check(
            "",
            expect![[r#"
            cannot read the report of sysbench: it is empty; see what sysbench wrote to its standard error
        "#]],
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "((sysbench |Read |read:|Latency \\(ms\\)|avg:|transactions:|[0-9. ()a-zµ]{0,20})[: ]?|\n){0,30}") {
            let _ = report(&text);
        }
    }
}
