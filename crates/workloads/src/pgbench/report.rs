//! pgbench's report: what it writes to its standard output at its end (PostgreSQL 9.4 to 17, `printResults`
//! of its `pgbench.c`).
//!
//! Its progress goes to standard error, and is no business of this.

use crate::report::{Metrics, ToolError, tail};
use domain::Outcome;

const TOOL: &str = "pgbench";

/// Whether a line begins a report.
pub fn begins(line: &str) -> bool {
    line.starts_with("pgbench (") || line.starts_with("transaction type: ")
}

/// Reads a report. Without the time that it takes to connect, where pgbench says so of its rate.
///
/// # Errors
/// Where a text holds none, or no transaction was done.
pub fn report(text: &str) -> Result<Outcome, ToolError> {
    if text.trim().is_empty() {
        return Err(ToolError::Empty { tool: TOOL });
    }
    let mut metrics = Metrics::default();
    let (mut done, mut failed, mut rate) = (None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(value) = line.strip_prefix("latency average = ") {
            put_milliseconds(&mut metrics, "latency_mean", value);
        } else if let Some(value) = line.strip_prefix("latency average: ") {
            put_milliseconds(&mut metrics, "latency_mean", value);
        } else if let Some(value) =
            line.strip_prefix("latency stddev = ").or(line.strip_prefix("latency stddev: "))
        {
            put_milliseconds(&mut metrics, "latency_stddev", value);
        } else if let Some(value) = line.strip_prefix("number of transactions actually processed: ") {
            done = number(value.split('/').next().unwrap_or(value));
        } else if let Some(value) = line.strip_prefix("number of failed transactions: ") {
            failed = number(value);
        } else if let Some(value) = line.strip_prefix("tps = ") {
            // Up to 13 there are two of them; the other one includes the connecting.
            let is_other = value.contains("including connections establishing");
            rate = if is_other { rate.or(number(value)) } else { number(value) };
        }
    }
    let (Some(done), Some(rate)) = (done, rate) else {
        return Err(ToolError::NoReport { tool: TOOL, wanted: "line `tps = …`", tail: tail(text) });
    };
    if done == 0.0 || rate == 0.0 {
        let message = "no transaction was done; give it more time".to_owned();
        return Err(ToolError::Failed { tool: TOOL, message });
    }
    metrics.put("transactions", rate);
    let elapsed = done / rate;
    metrics.put("elapsed", elapsed);
    if let Some(failed) = failed {
        metrics.put("errors", failed / elapsed);
    }
    Ok(Outcome { metrics: metrics.0, tool: version(text), warnings: Vec::new() })
}

/// `pgbench (15.18 (Debian 15.18-0+deb12u1))`, from version 14 on.
fn version(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    let number = first.strip_prefix("pgbench (").and_then(|rest| rest.split([' ', ')']).next());
    number.map_or_else(|| TOOL.to_owned(), |number| format!("{TOOL}-{number}"))
}

fn number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

fn put_milliseconds(metrics: &mut Metrics, name: &str, value: &str) {
    if let Some(value) = number(value) {
        metrics.put(name, value / 1000.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::shown;
    use expect_test::expect;

    #[test]
    fn a_real_report_is_read() {
        let text = include_str!("../../../../fixtures/tools/pgbench/select-only-15.18.txt");
        expect![[r#"
            pgbench-15.18
            elapsed = 2.99 s
            errors = 0 /s
            latency_mean = 52.0 µs
            latency_stddev = 167 µs
            transactions = 38.7 k/s
        "#]]
        .assert_eq(&shown(report(text)));
    }

    #[test]
    fn an_older_report_is_read_without_its_connecting() {
        let text = "transaction type: <builtin: TPC-B (sort of)>\nscaling factor: 1\nnumber of transactions actually processed: \
                    1000/1000\nlatency average = 0.500 ms\ntps = 1990.0 (including connections establishing)\ntps = 2000.0 \
                    (excluding connections establishing)\n";
        let outcome = report(text).unwrap();
        assert_eq!(outcome.metrics["transactions"].value, 2000.0);
        assert_eq!(outcome.metrics["elapsed"].value, 0.5);
        assert!(!outcome.metrics.contains_key("errors"));
    }

    #[test]
    fn what_is_no_report_is_told() {
        assert!(matches!(report(" \n"), Err(ToolError::Empty { .. })));
        assert!(matches!(report("pgbench (15.18)\n"), Err(ToolError::NoReport { .. })));
        let none = "number of transactions actually processed: 0\ntps = 0.000000\n";
        assert!(report(none).unwrap_err().to_string().contains("no transaction was done"));
    }
}
