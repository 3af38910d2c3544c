//! The page cache served the reads: the device read far less than the tool did, so that memory was measured.

use super::Rule;
use crate::facts::case::{Case, CaseCell, evidence};
use crate::words::{counted, percent};
use domain::finding::{Confidence, Finding, Remedy};
use domain::trial::Measurement;
use domain::units::Bytes;

pub(super) const RULE: Rule = Rule {
    name: "page-cache",
    doc: "Reads came from memory, not from the device.",
    needs: "what the tool read, and what disks read in its trials",
    source: "mm/filemap.c (`filemap_read`)",
    yields_to: &[],
    run,
};

/// Where the device read less than this share of what the tool read, the rate is that of memory. Start-up and
/// counters that lag by a sample stay far above it.
const MIN_SHARE: f64 = 0.5;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let cells = case.cells();
    let mut all = cells.iter().filter_map(|cell| finding(case, cell));
    let Some(mut first) = all.next() else { return Vec::new() };
    // One cause in several cells is one finding.
    let others: Vec<Finding> = all.collect();
    if !others.is_empty() {
        first.title += &format!(", and so did {}", counted(others.len(), "other cell"));
        first.evidence.extend(others.into_iter().flat_map(|finding| finding.evidence));
    }
    vec![first]
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>) -> Option<Finding> {
    let tool = cell.median_of(|m| read_by_tool(m, cell)).filter(|bytes| *bytes > 0.0)?;
    let device = cell.median_of(|m| read_by_device(m, cell.device()))?;
    let share = device / tool;
    if share >= MIN_SHARE {
        return None;
    }
    let bytes = |value: f64| Bytes::new(value as u64).to_string();
    let name = cell.device().unwrap_or("all block devices");
    Some(Finding {
        rule: RULE.name,
        title: format!("{} measured memory: the page cache served {} of its reads", cell.named(), percent(1.0 - share)),
        reason: "What was read or written lately stays in memory, and a read of it never reaches the device. A file that fits \
into memory is read from there from the second time on, or from the first where it was just written."
            .into(),
        evidence: vec![
            evidence("read by the tool in a trial, median", bytes(tool), cell.source()),
            evidence(format!("read from {name} meanwhile"), bytes(device), "/proc/diskstats"),
        ],
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy {
            what: "to measure the device, read past the cache (`direct = 1`), or drop it before each trial \
(`drop_caches = true`), or use a file larger than memory"
                .into(),
            settings: vec![],
            undo: "nothing to undo: this is about the measurement, not the machine".into(),
        }),
        next: format!("flyball show {}", case.data.run.id),
        compared: vec![],
    })
}

/// The bytes that the tool says it read. `None` for a tool that does not say what of its throughput was
/// reads, for a recording, whose rates are those of all disks, and for bursts: rates are then over the
/// bursts alone, and how much was read is not in the trial.
pub(super) fn read_by_tool(measurement: &Measurement, cell: &CaseCell<'_>) -> Option<f64> {
    if cell.is_recorded() || cell.cell.workload.options.contains_key("duty_cycle") {
        return None;
    }
    let metric = |name: &str| measurement.outcome.metrics.get(name).map(|m| m.value);
    let all_reads = || metric("throughput").filter(|_| cell.profile().reads_in_order());
    let rate = metric("read_throughput").or_else(all_reads)?;
    let seconds = metric("elapsed").unwrap_or(measurement.duration.secs());
    Some(rate * seconds).filter(|bytes| *bytes > 0.0)
}

/// The bytes that were read from the target's device, or from the device that read most. `None` where disks
/// were not recorded.
pub(super) fn read_by_device(measurement: &Measurement, target: Option<&str>) -> Option<f64> {
    measurement.recorder.as_ref().map(|_| ()).or((!measurement.disks.is_empty()).then_some(()))?;
    let own = measurement.disks.iter().filter(|disk| target.is_none_or(|target| disk.device == target));
    let sectors = own.map(|disk| disk.read_sectors).max().unwrap_or(0);
    Some(Bytes::from_sectors(sectors).get() as f64)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{about, findings, fio_run, with_device_reads};
    use super::*;
    use domain::Nanos;

    /// A run that reads 100 MB a trial by the tool's account, and so much by the device's.
    fn reading(from_device: u64) -> crate::summary::RunData {
        reading_with("rw=read bs=128k", from_device)
    }

    fn reading_with(options: &str, from_device: u64) -> crate::summary::RunData {
        let mut data = fio_run(&[options], |cell, block| vec![("read_throughput", about(1e8, cell, block))]);
        with_device_reads(&mut data, "vda", from_device, Nanos::from_millis(500));
        data
    }

    #[test]
    fn reads_that_never_reached_the_device_are_found() {
        let found = findings(RULE, &reading(5_000_000), None, Some("vda")).swap_remove(0);
        assert!(
            found.title.starts_with("w0 measured memory: the page cache served 95% of its reads"),
            "{}",
            found.title
        );
        assert_eq!(found.confidence, Confidence::Likely);
    }

    #[test]
    fn several_cells_that_memory_served_are_one_finding() {
        let mut data = fio_run(&["rw=read bs=128k", "rw=read bs=64k"], |cell, block| {
            vec![("read_throughput", about(1e8, cell, block))]
        });
        with_device_reads(&mut data, "vda", 5_000_000, Nanos::from_millis(500));
        let found = findings(RULE, &data, None, Some("vda"));
        assert_eq!(found.len(), 1);
        assert!(found[0].title.ends_with(", and so did 1 other cell"), "{}", found[0].title);
    }

    #[test]
    fn rates_of_bursts_say_nothing_of_how_much_was_read() {
        let data = reading_with("rw=read bs=128k duty_cycle=20%", 5_000_000);
        assert!(findings(RULE, &data, None, Some("vda")).is_empty());
    }

    #[test]
    fn what_all_disks_read_in_a_recording_is_no_tools() {
        let mut data = reading(5_000_000);
        data.study.workloads[0].tool = domain::study::Tool::Recorded;
        assert!(findings(RULE, &data, None, Some("loop8")).is_empty());
    }

    #[test]
    fn each_cell_is_held_against_the_device_that_it_stood_on() {
        let mut data = reading(100_000_000);
        // Another stack than that of the run's first cell.
        for trial in &mut data.trials {
            trial.environment.insert("device".into(), "vda".into());
        }
        assert!(findings(RULE, &data, None, Some("md200")).is_empty());
    }

    #[test]
    fn a_device_that_did_nothing_at_all_is_the_strongest_case() {
        assert_eq!(findings(RULE, &reading(5_000_000), None, Some("vdb")).len(), 1);
    }

    #[test]
    fn reads_that_reached_the_device_are_no_finding() {
        assert!(findings(RULE, &reading(100_000_000), None, Some("vda")).is_empty());
        assert!(findings(RULE, &reading(100_000_000), None, None).is_empty());
    }

    #[test]
    fn without_a_record_of_disks_nothing_is_said() {
        let mut data = reading(0);
        data.trials.iter_mut().for_each(|t| t.measurement.as_mut().unwrap().disks.clear());
        assert!(findings(RULE, &data, None, Some("vda")).is_empty());
    }
}
