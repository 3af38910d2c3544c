//! The benchmark does not do what its options say: buffered libaio, compressible data, a file that fits into
//! memory.
//!
//! Source: fio(1): "libaio … queued behavior only with non-buffered I/O"; `zero_buffers`,
//! `buffer_compress_percentage`.

use super::Rule;
use crate::facts::case::{Case, CaseCell, evidence};
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::units::{Bytes, significant};
use workloads::options::is_on;

pub(super) const RULE: Rule = Rule {
    name: "misleading-options",
    doc: "The benchmark does not do what its options say.",
    needs: "the study's options",
    source: "fio(1) (`libaio`, `zero_buffers`, `buffer_compress_percentage`)",
    yields_to: &[],
    run,
};

/// Data that compresses by this share or more is not what a database writes.
const COMPRESSIBLE_PERCENT: u32 = 90;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let cells = case.cells();
    let checks = [buffered_queue, compressible, in_memory];
    checks.iter().filter_map(|check| cells.iter().find_map(|cell| check(case, cell))).collect()
}

/// An asynchronous engine on the page cache: requests are handled one after another, whatever `iodepth` says.
fn buffered_queue(_: &Case<'_>, cell: &CaseCell<'_>) -> Option<Finding> {
    let depth = cell.option(&["iodepth"])?;
    let queues = cell.is_fio() && cell.option(&["ioengine"]) == Some("libaio") && depth != "1";
    if !queues || cell.profile().is_direct() {
        return None;
    }
    let asked = evidence(
        format!("options of {}", cell.cell.id),
        format!("ioengine=libaio iodepth={depth}, no direct=1"),
        "the study",
    );
    let seen = cell.metric("iops").zip(cell.metric("latency_mean")).map(|(iops, latency)| {
        evidence(
            "requests in flight, as measured",
            significant(iops * latency),
            format!("IOPS times mean latency, {}", cell.source()),
        )
    });
    let confidence = if seen.is_some() { Confidence::Likely } else { Confidence::Possible };
    Some(finding(
        format!(
            "{} asks for a queue of {depth} and gets one of 1: libaio queues only direct I/O",
            cell.cell.id
        ),
        "Through the page cache, io_submit(2) does the whole request before it returns: reads wait for the device, writes are \
copied into memory. There is never more than one in flight for each job.",
        std::iter::once(asked).chain(seen).collect(),
        confidence,
        "add `direct = 1`, or take an engine that queues buffered I/O (`io_uring`)",
        "fio --enghelp=libaio",
    ))
}

/// Zeros, or nearly: controllers and filesystems that compress, and thin volumes, do not store them at all.
fn compressible(_: &Case<'_>, cell: &CaseCell<'_>) -> Option<Finding> {
    if !cell.is_fio() || !cell.profile().writes() {
        return None;
    }
    let zeros = cell.option(&["zero_buffers"]).is_some_and(is_on);
    let percent = cell
        .option(&["buffer_compress_percentage"])
        .and_then(|text| text.trim_end_matches('%').parse::<u32>().ok());
    let figure = match percent {
        _ if zeros => "zero_buffers=1".to_owned(),
        Some(percent) if percent >= COMPRESSIBLE_PERCENT => format!("buffer_compress_percentage={percent}"),
        _ => return None,
    };
    Some(finding(
        format!("{} writes data that compresses to nearly nothing", cell.cell.id),
        "SSD controllers, filesystems and thin volumes that compress or detect zeros store little or nothing of such data, and \
are faster with it than with anything real.",
        vec![evidence(format!("options of {}", cell.cell.id), figure, "the study")],
        Confidence::Possible,
        "leave the option out: fio's own buffers do not compress; or set the percentage that the real data has",
        "fio --cmdhelp=buffer_compress_percentage",
    ))
}

/// Buffered reads of a file that fits into memory: sooner or later they are reads of memory.
fn in_memory(case: &Case<'_>, cell: &CaseCell<'_>) -> Option<Finding> {
    let memory = case.inventory?.memory.total?;
    let size = target_size(case, cell)?;
    let reads = cell.is_fio() && !cell.profile().writes() && !cell.profile().is_direct();
    // With the cache dropped before each trial, one pass over the file does come from the device.
    let one_pass = case.data.study.measure.drop_caches && !cell.option(&["time_based"]).is_some_and(is_on);
    if !reads || size >= memory || one_pass {
        return None;
    }
    Some(finding(
        format!("{} reads a file of {size} through the page cache of a machine with {memory}", cell.cell.id),
        "A file that fits into memory is read from the device once at most, and from memory ever after.",
        vec![
            evidence("size of what is read", size.to_string(), "the study"),
            evidence("memory", memory.to_string(), "/proc/meminfo"),
        ],
        Confidence::Possible,
        "add `direct = 1`, or read a file larger than memory",
        "grep -E 'MemTotal|^Cached' /proc/meminfo",
    ))
}

fn target_size(case: &Case<'_>, cell: &CaseCell<'_>) -> Option<Bytes> {
    cell.option(&["size"]).and_then(Bytes::parse).or(case.data.study.target.size())
}

fn finding(
    title: String,
    reason: &str,
    evidence: Vec<Evidence>,
    confidence: Confidence,
    what: &str,
    next: &str,
) -> Finding {
    let undo = "nothing to undo: this is about the measurement, not the machine";
    let remedy = Remedy { what: what.into(), settings: vec![], undo: undo.into() };
    Finding {
        rule: RULE.name,
        title,
        reason: reason.into(),
        evidence,
        confidence,
        gain: None,
        remedy: Some(remedy),
        next: next.into(),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{about, bare_machine, findings, fio_run};
    use super::*;

    fn titles(options: &str, with_machine: Option<&domain::inventory::Inventory>) -> Vec<String> {
        let data = fio_run(&[options], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        findings(RULE, &data, with_machine, None).into_iter().map(|f| f.title).collect()
    }

    #[test]
    fn buffered_libaio_is_found_and_direct_or_uring_is_not() {
        let found = titles("rw=randread ioengine=libaio iodepth=32", None);
        assert_eq!(found, ["w0 asks for a queue of 32 and gets one of 1: libaio queues only direct I/O"]);
        for fine in [
            "rw=randread ioengine=libaio iodepth=32 direct=1",
            "rw=randread ioengine=io_uring iodepth=32",
            "rw=randread ioengine=libaio",
        ] {
            assert!(titles(fine, None).is_empty(), "{fine}");
        }
    }

    #[test]
    fn the_queue_that_was_measured_makes_it_likely() {
        let data = fio_run(&["rw=randread ioengine=libaio iodepth=32"], |_, _| {
            vec![("iops", 10_000.0), ("latency_mean", 98e-6)]
        });
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!((found.confidence, found.evidence[1].figure.as_str()), (Confidence::Likely, "0.980"));
    }

    #[test]
    fn zeros_that_are_written_are_found_and_zeros_that_are_read_are_not() {
        assert_eq!(titles("rw=write zero_buffers=1", None).len(), 1);
        assert_eq!(titles("rw=randrw buffer_compress_percentage=95", None).len(), 1);
        assert!(titles("rw=write buffer_compress_percentage=50", None).is_empty());
        assert!(titles("rw=read zero_buffers=1", None).is_empty());
    }

    #[test]
    fn a_file_that_fits_into_memory_is_found_where_it_is_read_more_than_once() {
        let machine = bare_machine();
        assert_eq!(titles("rw=randread size=1g time_based=1", Some(&machine)).len(), 1);
        for fine in [
            "rw=randread size=1g",
            "rw=randread size=8g time_based=1",
            "rw=randread size=1g time_based=1 direct=1",
        ] {
            assert!(titles(fine, Some(&machine)).is_empty(), "{fine}");
        }
        assert!(titles("rw=randread size=1g time_based=1", None).is_empty());
    }
}
