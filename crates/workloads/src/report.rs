//! What tools report: text to [`Outcome`](domain::Outcome), one `report.rs` a tool.
//!
//! Metrics that tools share carry the names of [`SHARED_METRICS`], so that a fio and a dd trial can stand in
//! one table. A number that a tool did not report is absent, never zero.

use crate::tool;
use domain::lab::ENERGY_MODELLED;
use domain::outcome::CPU_BUSY;
use domain::per_work;
use domain::study::{Study, Workload};
use domain::units::Unit;
use domain::{Better, Metric};
use std::collections::BTreeMap;

/// The metrics that mean the same whichever tool reports them: name, unit, which way is good.
///
/// `cpu_user` and `cpu_system` are CPU time over elapsed time, as a share of *one* CPU: four busy jobs give
/// up to 4.
pub const SHARED_METRICS: [MetricRow; 19] = [
    ("throughput", Unit::BytesPerSecond, Better::Higher),
    ("read_throughput", Unit::BytesPerSecond, Better::Higher),
    ("write_throughput", Unit::BytesPerSecond, Better::Higher),
    ("iops", Unit::PerSecond, Better::Higher),
    ("read_iops", Unit::PerSecond, Better::Higher),
    ("write_iops", Unit::PerSecond, Better::Higher),
    ("latency_mean", Unit::Seconds, Better::Lower),
    ("latency_p50", Unit::Seconds, Better::Lower),
    ("latency_p99", Unit::Seconds, Better::Lower),
    ("latency_p999", Unit::Seconds, Better::Lower),
    ("syncs", Unit::PerSecond, Better::Higher),
    ("sync_latency_mean", Unit::Seconds, Better::Lower),
    ("sync_latency_p50", Unit::Seconds, Better::Lower),
    ("sync_latency_p99", Unit::Seconds, Better::Lower),
    ("sync_latency_p999", Unit::Seconds, Better::Lower),
    ("elapsed", Unit::Seconds, Better::Lower),
    ("cpu_user", Unit::Share, Better::Lower),
    ("cpu_system", Unit::Share, Better::Lower),
    ("context_switches", Unit::PerSecond, Better::Lower),
];

/// A metric: name, unit, which way is good.
pub type MetricRow = (&'static str, Unit, Better);

/// Unit and direction of a shared metric, of one of a tool's own, of a watched server's, or of Flyball's own;
/// `None` for any other name.
pub fn shared_metric(name: &str) -> Option<(Unit, Better)> {
    let of_tools = || crate::ALL.iter().flat_map(|tool| tool.metric_rows());
    SHARED_METRICS
        .into_iter()
        .chain([(CPU_BUSY, Unit::Share, Better::Lower)])
        .chain(per_work::METRICS)
        .chain(domain::database::counters::METRICS)
        .find(|(n, ..)| *n == name)
        .or_else(|| of_tools().find(|(n, ..)| *n == name))
        .map(|(_, unit, better)| (unit, better))
}

/// The metrics that a workload of this study reports, with their units; those that only its trials know are
/// not among them ([`tool::Metrics::Any`]). Last come those that Flyball adds where the machine counts them.
pub fn reported<'s>(study: &Study, workload: &'s Workload) -> Vec<(&'s str, Unit)> {
    let mut reported: Vec<(&str, Unit)> = match crate::of(&workload.tool).metrics() {
        tool::Metrics::Known(rows) => rows.into_iter().map(|(name, unit, _)| (name, unit)).collect(),
        tool::Metrics::ByPattern => by_pattern(workload),
        tool::Metrics::Any => Vec::new(),
    };
    reported.push((CPU_BUSY, Unit::Share));
    if study.lab.pstates.is_some() {
        reported.push((ENERGY_MODELLED, Unit::Joules));
    }
    let of_machine = per_work::METRICS.into_iter().filter(|(metric, ..)| {
        per_work::is_possible(metric, |work| reported.iter().any(|(name, _)| *name == work))
    });
    let of_machine: Vec<(&str, Unit)> = of_machine.map(|(name, unit, _)| (name, unit)).collect();
    reported.extend(of_machine);
    reported
}

/// Of every command it is known how long it ran.
fn by_pattern(workload: &Workload) -> Vec<(&str, Unit)> {
    let patterns = workload.tool.command().map_or(&[][..], |(_, metrics)| metrics);
    let named = patterns.iter().map(|metric| (metric.name.as_str(), metric.unit.clone()));
    named.filter(|(name, _)| *name != "elapsed").chain([("elapsed", Unit::Seconds)]).collect()
}

/// Why a tool's report gave no outcome.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// There is nothing in it.
    #[error("cannot read the report of {tool}: it is empty; see what {tool} wrote to its standard error")]
    Empty {
        /// Which tool.
        tool: &'static str,
    },
    /// There is text, but not the report.
    #[error(
        "cannot read the report of {tool}: it holds no {wanted}; the text ends with `{tail}`; see what {tool} wrote to its standard error"
    )]
    NoReport {
        /// Which tool.
        tool: &'static str,
        /// What was looked for.
        wanted: &'static str,
        /// The last of the text.
        tail: String,
    },
    /// The report begins, and then is cut short or makes no sense.
    #[error(
        "cannot read the report of {tool}: byte {offset} (line {line}, column {column} of its JSON): {reason}; was {tool} killed, or the disk full? run the trial again"
    )]
    Malformed {
        /// Which tool.
        tool: &'static str,
        /// Bytes from the start of the report to where reading stopped.
        offset: u64,
        /// Line of the JSON, from 1.
        line: usize,
        /// Column of that line, from 1.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// The report could not be read from where it lies.
    #[error("cannot read the report of {tool}: {source}; check the disk that holds the trial's raw files")]
    Read {
        /// Which tool.
        tool: &'static str,
        /// As the kernel gave it.
        source: std::io::Error,
    },
    /// The tool itself says that it failed.
    #[error("{tool} failed: {message}")]
    Failed {
        /// Which tool.
        tool: &'static str,
        /// Its own words.
        message: String,
    },
    /// The tool ran, and neither read nor wrote anything.
    #[error(
        "{tool} neither read nor wrote anything; check its size, count and runtime options, and that it is a reading or writing workload"
    )]
    NothingDone {
        /// Which tool.
        tool: &'static str,
    },
    /// The tool ran for less than its clock resolves, so there is no rate.
    #[error("{tool} ran for less than it can measure; let it do more, with a larger size, count or runtime")]
    TooShort {
        /// Which tool.
        tool: &'static str,
    },
    /// A pattern of a command's metric found nothing.
    #[error(
        "cannot find the metric `{metric}`: pattern `{pattern}` matches nothing in the output, which ends with `{tail}`; correct the pattern, or make the command print the number"
    )]
    NoMatch {
        /// The metric's name.
        metric: String,
        /// Its pattern.
        pattern: String,
        /// The last of the output.
        tail: String,
    },
    /// What a pattern found is not a number.
    #[error(
        "cannot read the metric `{metric}`: pattern `{pattern}` took `{text}`, which is not a number; make its group take the digits alone"
    )]
    NotANumber {
        /// The metric's name.
        metric: String,
        /// Its pattern.
        pattern: String,
        /// What it took.
        text: String,
    },
    /// A pattern is not one.
    #[error("cannot use the pattern of metric `{metric}`: {reason}")]
    BadPattern {
        /// The metric's name.
        metric: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Collects shared metrics under their names.
#[derive(Default)]
pub(crate) struct Metrics(pub(crate) BTreeMap<String, Metric>);

impl Metrics {
    /// Puts in a metric of [`SHARED_METRICS`], in its base unit.
    pub(crate) fn put(&mut self, name: &str, value: f64) {
        let (unit, better) = shared_metric(name).expect("parsers name only metrics of the table");
        self.put_as(name, value, unit, better);
    }

    /// Puts in a metric of a tool's own.
    pub(crate) fn put_as(&mut self, name: &str, value: f64, unit: Unit, better: Better) {
        self.0.insert(name.to_owned(), Metric { value, unit, better });
    }
}

/// How much of an output an error shows: enough for the last message of most tools.
const TAIL_CHARS: usize = 300;

/// The last of a text, on one line, without anything that a terminal would obey.
pub(crate) fn tail(text: &str) -> String {
    let text = text.trim_end();
    let start = text.char_indices().rev().nth(TAIL_CHARS - 1).map_or(0, |(index, _)| index);
    let lines: Vec<&str> = text[start..].lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    domain::inert::one_line(&lines.join(" | ")).into_owned()
}

#[cfg(test)]
pub(crate) mod testing {
    use super::ToolError;
    use domain::Outcome;

    /// An outcome as text, a line a metric, or the error.
    pub fn shown(result: Result<Outcome, ToolError>) -> String {
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(error) => return format!("{error}\n"),
        };
        let mut text = format!("{}\n", outcome.tool);
        for (name, metric) in &outcome.metrics {
            text += &format!("{name} = {}\n", metric.unit.show(metric.value));
        }
        for warning in &outcome.warnings {
            text += &format!("warning: {warning}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_bounded_and_never_cuts_a_character() {
        assert_eq!(tail("a\n\n  b \n"), "a | b");
        assert_eq!(tail(&"µ".repeat(1000)), "µ".repeat(TAIL_CHARS));
        assert_eq!(tail(""), "");
    }
}
