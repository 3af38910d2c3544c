//! An outcome: what the workload's own tool reported, parsed; its text is kept verbatim beside it.

use crate::time::Nanos;
use crate::units::Unit;
use std::collections::BTreeMap;

/// Which way is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Better {
    /// More is better: throughput.
    Higher,
    /// Less is better: latency.
    Lower,
}

/// One number that a tool reported.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// In the unit's base (bytes a second, seconds).
    pub value: f64,
    /// What it is counted in.
    pub unit: Unit,
    /// Which way is good.
    pub better: Better,
}

/// What one run of a workload's tool reported.
///
/// Metrics that tools share carry the same names: `throughput` (bytes a second, reads and writes together),
/// `read_throughput`, `write_throughput`, `iops`, `read_iops`, `write_iops`, `latency_mean`, `latency_p50`,
/// `latency_p99`, `latency_p999` (seconds, completion latency as the tool measures it), `elapsed` (seconds).
/// A metric that the tool did not report is absent, never zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// By name.
    pub metrics: BTreeMap<String, Metric>,
    /// The tool and its version, as it states it: `fio-3.33`.
    pub tool: String,
    /// What the tool warned of, line by line.
    pub warnings: Vec<String>,
}

/// The name of the metric that Flyball adds to what a tool reports: the share of the time of all CPUs in
/// which they were not idle, whoever used them.
pub const CPU_BUSY: &str = "cpu_busy";

/// That metric: CPU time of all threads and interrupts over a span on so many CPUs; `None` where there is no
/// span.
pub fn cpu_busy(used: Nanos, span: Nanos, cpus: usize) -> Option<Metric> {
    let whole = span.secs() * cpus as f64;
    let value = (used.secs() / whole).min(1.0);
    (whole > 0.0).then_some(Metric { value, unit: Unit::Share, better: Better::Lower })
}
