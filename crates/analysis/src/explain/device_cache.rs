//! A device wrote fast at first and slowly at the end, always busy: what it writes to first is full.
//!
//! Flash that stores several bits a cell has a part that it writes with one; host-managed and drive-managed
//! shingled disks, and controllers, have such parts as well.

use super::Rule;
use crate::facts::case::{Case, evidence};
use crate::facts::usage::{Course, DiskUsage, Phase, Usage};
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::units::Unit;

pub(super) const RULE: Rule = Rule {
    name: "device-cache",
    doc: "A device's cache for writes is full: it wrote much faster at first than at the end.",
    needs: "a recording's trace of eight seconds or more: disks",
    source: "Documentation/admin-guide/iostats.rst; what a device does inside is its vendor's own",
    yields_to: &[],
    run,
};

/// At first against at the end. Assumed: the zones that a spinning disk reaches meanwhile differ by less.
const MIN_TIMES: f64 = 2.0;

/// The device has to be what decides, at the end.
const MIN_BUSY: f64 = 0.9;

/// Requests of another size, or another mix, are other work.
const ALIKE: std::ops::RangeInclusive<f64> = 0.67..=1.5;

/// Reads beside the writes, as a share of what is written.
const MAX_READ: f64 = 0.1;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let times =
        |usage: &Usage| slowed(case, usage).map(|(_, course)| course.first.written / course.last.written);
    let found = case.worst_usage(times);
    found.and_then(|(source, usage, _)| finding(case, &source, slowed(case, usage)?)).into_iter().collect()
}

/// The device that slowed down most, of those that stand on no other.
fn slowed<'u>(case: &Case<'_>, usage: &'u Usage) -> Option<(&'u DiskUsage, Course)> {
    let is_disk = |disk: &&DiskUsage| {
        let known = case.inventory.and_then(|inventory| inventory.device(&disk.device));
        known.is_none_or(|device| device.built_of.is_empty())
    };
    let courses = usage.disks.iter().filter(is_disk).filter_map(|disk| Some((disk, disk.course?)));
    let full = courses.filter(|(_, course)| has_filled(course));
    full.max_by(|(_, a), (_, b)| {
        (a.first.written / a.last.written).total_cmp(&(b.first.written / b.last.written))
    })
}

fn has_filled(course: &Course) -> bool {
    let Course { first, last } = course;
    let size = |phase: &Phase| phase.written / phase.writes;
    let writes = |phase: &Phase| phase.writes > 0.0 && phase.read <= phase.written * MAX_READ;
    let alike = ALIKE.contains(&(size(first) / size(last)));
    writes(first)
        && writes(last)
        && alike
        && last.busy >= MIN_BUSY
        && first.written >= last.written * MIN_TIMES
}

fn finding(case: &Case<'_>, source: &str, (disk, course): (&DiskUsage, Course)) -> Option<Finding> {
    let Course { first, last } = course;
    let bytes = |value| Unit::BytesPerSecond.show(value);
    let device = &disk.device;
    Some(Finding {
        rule: RULE.name,
        title: format!(
            "{device} wrote {} at first and {} at the end: its fast part for writes is full",
            bytes(first.written),
            bytes(last.written)
        ),
        reason: "Many devices take writes into a fast part first, and move them to their place later. Where more is written than \
that part holds, writes are as fast as the move. Heat makes some devices slower as well."
            .into(),
        evidence: vec![
            evidence(format!("written to {device} in the first quarter"), bytes(first.written), source),
            evidence("the same in the last quarter", bytes(last.written), source),
            evidence("time in which it was busy, at first and at the end", format!("{} and {}", percent(first.busy), percent(last.busy)), source),
            evidence("size of a write, at first and at the end", format!(
                "{} and {} bytes",
                (first.written / first.writes).round(),
                (last.written / last.writes).round()
            ), source),
        ],
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy {
            what: "count on the lower rate for long writes; where bursts matter, keep them below what the fast part holds, and leave \
the device time between them"
                .into(),
            settings: vec![],
            undo: "nothing was changed".into(),
        }),
        next: case.show_again(),
        compared: vec![],
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn usage(first: (f64, f64), last: (f64, f64), busy: f64, size: f64) -> Usage {
        let phase = |(written, read): (f64, f64), size: f64, busy| Phase {
            busy,
            writes: written / size,
            written,
            read,
        };
        let course = Course { first: phase(first, 131_072.0, 0.95), last: phase(last, size, busy) };
        let disk = DiskUsage { device: "nvme0n1".into(), course: Some(course), ..DiskUsage::default() };
        Usage { disks: vec![disk], ..Usage::default() }
    }

    #[test]
    fn a_device_that_slows_down_while_it_is_busy_is_found() {
        let found =
            findings_of_usage(RULE, &usage((2e9, 0.0), (5e8, 0.0), 0.99, 131_072.0), None).swap_remove(0);
        assert_eq!(
            found.title,
            "nvme0n1 wrote 2.00 GB/s at first and 500 MB/s at the end: its fast part for writes is full"
        );
    }

    #[test]
    fn a_load_that_ends_other_requests_and_reads_beside_are_no_finding() {
        let large = 131_072.0;
        assert!(findings_of_usage(RULE, &usage((2e9, 0.0), (5e8, 0.0), 0.3, large), None).is_empty());
        assert!(findings_of_usage(RULE, &usage((2e9, 0.0), (1.5e9, 0.0), 0.99, large), None).is_empty());
        assert!(findings_of_usage(RULE, &usage((2e9, 0.0), (5e8, 0.0), 0.99, 4096.0), None).is_empty());
        assert!(findings_of_usage(RULE, &usage((2e9, 0.0), (5e8, 9e8), 0.99, large), None).is_empty());
    }

    #[test]
    fn a_trace_that_is_too_short_is_no_evidence() {
        let disk = DiskUsage { device: "nvme0n1".into(), busy: 0.99, ..DiskUsage::default() };
        assert!(findings_of_usage(RULE, &Usage { disks: vec![disk], ..Usage::default() }, None).is_empty());
    }
}
