//! A trial's device as fio's own logs have a job: `randread-iodepth-8-numjobs-1_bw.1.log`, the names and rows that fio-plot
//! reads. The figures are those of the kernel's counters of the device, not of fio's clocks: so there is no latency.

use crate::trace_view::grid::{Grid, SECTOR_BYTES, rates};
use domain::time::Nanos;
use domain::trace::Trace;
use std::fmt::Write;

/// A log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FioLog {
    /// The file's name.
    pub name: String,
    /// Its rows: milliseconds, value, 0 for reads and 1 for writes, 0, 0 (fio(1), "log file formats").
    pub text: String,
}

/// A row is at least this long: what the kernel counts in a shorter span is a request or two.
const ROW: Nanos = Nanos::from_millis(100);

/// Bandwidth in KiB/s and requests a second of a device over the trace. Nothing where the trace does not have it.
///
/// `job` names it: the pattern, how many requests are in flight, and how many jobs.
pub fn fio_logs(trace: &Trace, device: &str, job: (&str, &str, &str)) -> Vec<FioLog> {
    let grid = Grid::every(trace, trace.head.interval.max(ROW));
    let log = |kind: &str, quantity: &str, scale: f64| {
        let ways = ["read", "write"].map(|way| {
            let column = format!("disk.{device}.{way}_{quantity}");
            grid.line(way, rates(trace, &column, scale)).buckets
        });
        let mut text = String::new();
        for i in 0..grid.count {
            for (number, way) in ways.iter().enumerate() {
                let Some(value) = way[i].map(|bucket| bucket.mean).filter(|mean| *mean > 0.0) else {
                    continue;
                };
                let ms = (i as u64 + 1) * grid.width_ns / 1_000_000;
                let _ = writeln!(text, "{ms}, {value:.0}, {number}, 0, 0");
            }
        }
        let (rw, depth, jobs) = job;
        FioLog { name: format!("{rw}-iodepth-{depth}-numjobs-{jobs}_{kind}.1.log"), text }
    };
    let logs = [log("bw", "sectors", SECTOR_BYTES / 1024.0), log("iops", "ios", 1.0)];
    logs.into_iter().filter(|log| !log.text.is_empty()).collect()
}
