//! A filesystem's journal and its data lie on the same spinning disk, and the workload waits for commits.
//!
//! Sources: fs/jbd2/commit.c (`jbd2_journal_commit_transaction`); ext4(5), `journal_path`; xfs(5), `logdev`.

use super::Rule;
use super::flushes::Syncs;
use crate::facts::arrays::disks_below;
use crate::facts::case::{Case, CaseCell, evidence};
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::BlockDevice;

pub(super) const RULE: Rule = Rule {
    name: "journal-on-data-disk",
    doc: "The journal lies on the same spinning disks as the data, and the workload waits for its commits.",
    needs: "the tool's calls of fsync; the filesystem below the target; its disks in the inventory",
    source: "fs/jbd2/commit.c (`jbd2_journal_commit_transaction`); ext4(5); xfs(5)",
    yields_to: &[],
    run,
};

/// Filesystems with a journal that may lie elsewhere, and the mount options that say that it does.
const JOURNALS: &[(&str, &[&str])] = &[
    ("ext3", &["journal_dev=", "journal_path="]),
    ("ext4", &["journal_dev=", "journal_path="]),
    ("xfs", &["logdev="]),
];

/// Half a revolution of the fastest disks, 15,000 a minute, in seconds: who waits for less waits for no
/// platter. A virtual disk says that it rotates unless its host says otherwise.
const LEAST_LATENCY: f64 = 2e-3;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let cells = case.cells();
    let found = cells.iter().find_map(|cell| {
        let syncs = Syncs::that_decide(cell).filter(|syncs| syncs.latency >= LEAST_LATENCY)?;
        let filesystem = with_own_journal(cell)?;
        let disks = disks_below(case.inventory?, cell.device()?);
        let rotates =
            |disk: &&BlockDevice| disk.queue.as_ref().and_then(|queue| queue.rotational) == Some(true);
        // A commit is on the medium when the slowest disk has its part.
        let disk = disks.into_iter().find(rotates)?;
        Some(finding(case, cell, &syncs, filesystem, disk))
    });
    found.into_iter().collect()
}

/// The filesystem below the target, where its journal lies within it.
fn with_own_journal<'c>(cell: &'c CaseCell<'_>) -> Option<&'c str> {
    let read =
        |name: &str| cell.trials.iter().find_map(|trial| trial.environment.get(name)).map(String::as_str);
    let (filesystem, elsewhere) = JOURNALS.iter().find(|(name, _)| Some(*name) == read("filesystem"))?;
    let options = read("mount_options")?;
    let is_elsewhere = options.split(',').any(|option| elsewhere.iter().any(|sign| option.starts_with(sign)));
    // A study may put it elsewhere, which the options of ext4 do not show.
    let by_study = cell.cell.stack.as_ref().is_some_and(|stack| stack.top().beside().is_some());
    (!is_elsewhere && !by_study).then_some(*filesystem)
}

fn finding(
    case: &Case<'_>,
    cell: &CaseCell<'_>,
    syncs: &Syncs,
    filesystem: &str,
    disk: &BlockDevice,
) -> Finding {
    let mut figures = syncs.figures(cell);
    figures.push(evidence("filesystem, its journal within it", filesystem, "the trial's mount"));
    let path = format!("/sys/block/{}/queue/rotational", disk.name);
    figures.push(evidence(format!("spinning disk {}", disk.name), "rotational = 1", path));
    Finding {
        rule: RULE.name,
        title: format!("journal and data share spinning disks: {} {}", cell.named(), syncs.told()),
        reason: "A commit writes the journal, flushes, and writes the commit record. Between that the data are written at their \
place. Each change between the two places moves the heads."
            .into(),
        evidence: figures,
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy {
            what: "a filesystem with its journal elsewhere depends on both devices; where that is acceptable, put it on another \
one (ext4, unmounted: `mke2fs -O journal_dev /dev/OTHER`, `tune2fs -O ^has_journal /dev/DATA`, \
`tune2fs -J device=/dev/OTHER /dev/DATA`), and measure"
                .into(),
            settings: vec![],
            undo: "unmounted: `tune2fs -O ^has_journal /dev/DATA`, then `tune2fs -j /dev/DATA`".into(),
        }),
        next: case.show_again(),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::summary::RunData;

    fn writes(latency: f64, options: &str) -> RunData {
        let mut data = fio_run(&["rw=randwrite bs=4k fsync=1"], move |_, _| {
            vec![("throughput", 4e5), ("syncs", 100.0), ("sync_latency_mean", latency)]
        });
        with_environment(&mut data, &[("filesystem", "ext4"), ("mount_options", options), ("device", "sda")]);
        data
    }

    #[test]
    fn commits_on_the_datas_own_spinning_disk_are_found() {
        let found = findings(RULE, &writes(9e-3, "rw,relatime"), Some(&on_disk(true)), None).swap_remove(0);
        assert!(found.title.ends_with("w0 spends 90% of its time in fsync, 9.00 ms for each call"));
        assert_eq!(found.confidence, Confidence::Possible);
    }

    #[test]
    fn a_commit_waits_for_the_one_disk_that_spins() {
        use domain::inventory::Md;
        let md = Md { level: Some("raid0".into()), ..Md::default() };
        let of = |rotational| {
            let mut machine = with_array(md.clone(), false, &["sda", "sdb"]);
            machine.devices[2].queue.as_mut().unwrap().rotational = Some(rotational);
            let mut data = writes(9e-3, "rw");
            with_environment(&mut data, &[("device", "md0")]);
            findings(RULE, &data, Some(&machine), None).len()
        };
        assert_eq!([of(true), of(false)], [1, 0]);
    }

    #[test]
    fn flash_a_journal_elsewhere_and_few_syncs_are_no_finding() {
        assert!(findings(RULE, &writes(9e-3, "rw"), Some(&on_disk(false)), None).is_empty());
        assert!(
            findings(RULE, &writes(9e-3, "rw,journal_path=/dev/x"), Some(&on_disk(true)), None).is_empty()
        );
        assert!(findings(RULE, &writes(1e-4, "rw"), Some(&on_disk(true)), None).is_empty());
    }

    #[test]
    fn a_virtual_disk_that_answers_before_a_platter_could_is_no_finding() {
        let fast = |latency| {
            let mut data = writes(latency, "rw");
            for trial in &mut data.trials {
                let metrics = &mut trial.measurement.as_mut().unwrap().outcome.metrics;
                metrics.get_mut("syncs").unwrap().value = 0.9 / latency;
            }
            findings(RULE, &data, Some(&on_disk(true)), None).is_empty()
        };
        assert!(fast(1.1e-4) && !fast(2.1e-3));
    }

    #[test]
    fn without_the_mount_or_the_disk_nothing_is_said() {
        let mut data = writes(9e-3, "rw");
        assert!(findings(RULE, &data, None, None).is_empty());
        data.trials.iter_mut().for_each(|trial| {
            trial.environment.remove("mount_options");
        });
        assert!(findings(RULE, &data, Some(&on_disk(true)), None).is_empty());
    }
}
