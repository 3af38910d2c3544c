//! Reads of a loop device came from the page cache of the file below it: direct reads of the loop device, and
//! yet memory was measured.
//!
//! Source: drivers/block/loop.c (`lo_rw_aio`, `loop_update_dio`); losetup(8), `--direct-io`.

use super::Rule;
use crate::facts::case::{Case, CaseCell, evidence};
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::units::Unit;

pub(super) const RULE: Rule = Rule {
    name: "loop-cache",
    doc: "Reads of a loop device came from the page cache of the file below it.",
    needs: "what the loop device and the device below its file read in trials",
    source: "drivers/block/loop.c (`lo_rw_aio`, `loop_update_dio`); losetup(8), `--direct-io`",
    yields_to: &["page-cache"],
    run,
};

/// Where the device below read less than this share, memory served the rest.
const MIN_SHARE: f64 = 0.5;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let cells = case.cells();
    let found = cells.iter().filter_map(|cell| Some((cell, served(cell)?)));
    let most = found.min_by(|(_, a), (_, b)| (a.below / a.read).total_cmp(&(b.below / b.read)));
    most.map(|(cell, served)| finding(case, cell, &served)).into_iter().collect()
}

struct Served {
    device: String,
    /// Bytes a second that the loop device read.
    read: f64,
    below_name: String,
    /// Bytes a second that the device below its file read.
    below: f64,
}

/// What a loop device read, where the one below it read far less.
fn served(cell: &CaseCell<'_>) -> Option<Served> {
    let below = cell.trials.iter().find_map(|trial| trial.environment.get("devices"))?;
    let mut names = below.split(" > ");
    let device = names.next().filter(|name| name.starts_with("loop"))?;
    let below_name = names.next()?;
    let read = cell.did(device)?.read;
    let below = cell.did(below_name)?.read;
    let is_memory = read > 0.0 && below / read < MIN_SHARE;
    is_memory.then(|| Served { device: device.into(), read, below_name: below_name.into(), below })
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>, served: &Served) -> Finding {
    let Served { device, read, below_name, below } = served;
    let bytes = |value| Unit::BytesPerSecond.show(value);
    Finding {
        rule: RULE.name,
        title: format!(
            "{} measured memory: the page cache below {device} served {} of its reads",
            cell.named(),
            percent(1.0 - below / read)
        ),
        reason: "A loop device reads its file through the page cache unless it has direct I/O. A direct read of the loop device \
passes its own cache by, and not that of the file below. Data that was written or read lately then comes from memory."
            .into(),
        evidence: vec![
            evidence(format!("read from {device}"), bytes(*read), format!("/proc/diskstats in {}", cell.source())),
            evidence(format!("read from {below_name} below it"), bytes(*below), "/proc/diskstats"),
        ],
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy {
            what: format!(
                "to measure the device, give the loop device direct I/O (`losetup --direct-io=on /dev/{device}`), or drop the \
caches before each trial (`drop_caches = true`)"
            ),
            settings: vec![],
            undo: format!("`losetup --direct-io=off /dev/{device}`"),
        }),
        next: format!("flyball show {}", case.data.run.id),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::summary::RunData;

    fn reads(devices: &str, below: u64) -> RunData {
        let mut data = fio_run(&["rw=randread direct=1"], |_, _| vec![("throughput", 1e7)]);
        with_work(
            &mut data,
            &[("loop3", 2500, 10_240_000, 0, 0, 900), ("vda", below / 4096, below, 0, 0, 90)],
        );
        with_environment(&mut data, &[("devices", devices)]);
        data
    }

    #[test]
    fn direct_reads_of_a_loop_device_that_memory_serves_are_found() {
        let found = findings(RULE, &reads("loop3 > vda", 1_024_000), None, None).swap_remove(0);
        assert_eq!(found.title, "w0 measured memory: the page cache below loop3 served 90% of its reads");
        assert_eq!(found.remedy.unwrap().undo, "`losetup --direct-io=off /dev/loop3`");
    }

    #[test]
    fn reads_that_reach_the_device_and_targets_that_are_no_loop_are_no_finding() {
        assert!(findings(RULE, &reads("loop3 > vda", 10_000_000), None, None).is_empty());
        assert!(findings(RULE, &reads("vda", 1_024_000), None, None).is_empty());
    }

    #[test]
    fn what_lies_below_or_was_read_has_to_be_known() {
        let mut data = reads("loop3 > vda", 0);
        data.trials.iter_mut().for_each(|trial| trial.environment.clear());
        assert!(findings(RULE, &data, None, None).is_empty());
        let mut data = reads("loop3 > vda", 0);
        with_work(&mut data, &[]);
        assert!(findings(RULE, &data, None, None).is_empty());
    }
}
