//! How a filesystem journals: shown where a study varied it; likely where all data go through the journal and
//! the device writes them twice.
//!
//! Sources: ext4(5), `data=journal`; fs/jbd2/commit.c; fs/ext4/ext4_jbd2.h (`ext4_should_journal_data`).

use super::Rule;
use super::varied_setting::{self, NO_SETTING, Words};
use crate::facts::arrays::disks_below;
use crate::facts::case::{Case, CaseCell, evidence};
use crate::facts::usage::AT_LIMIT;
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::BlockDevice;
use domain::units::{Unit, significant};

pub(super) const RULE: Rule = Rule {
    name: "journal-mode",
    doc: "The way in which the filesystem journals makes a difference: data=journal writes all data twice.",
    needs: "cells that differ in the journal alone; else what the tool and the device wrote in trials, and the mount options",
    source: "ext4(5); fs/jbd2/commit.c; fs/ext4/ext4_jbd2.h (`ext4_should_journal_data`)",
    yields_to: &[],
    run,
};

const REASON: &str = "With `data=journal` data go to the journal first and to their place later. `data=ordered` writes them to \
their place before the metadata are committed, `data=writeback` at any time. A journal on another device takes its writes \
and flushes away from the data's.";

/// Said first: what is written over in place may be torn by a power cut, and stale data may show.
const BY_HAND: (&str, &str) = (
    "after a power cut `data=ordered` may leave an overwritten file half old and half new, `data=writeback` also old content in \
new files, and a filesystem without a journal needs a full check; where that is acceptable, mount with `data=ordered`",
    "mount with the options that were in force before",
);

const WORDS: Words = Words {
    rule: "journal-mode",
    is_about: NO_SETTING,
    keys: &["data", "journal"],
    what: "how the filesystem journals",
    reason: |_, _| REASON.to_owned(),
    by_hand: BY_HAND,
};

/// A device that writes less than this for each byte of the tool does not write the data twice.
const MIN_TIMES: f64 = 1.7;

/// What the journal has is written to its place later: where the disk has no time left, a trial ends before
/// all is. Metadata alone are less than this beyond the data.
const MIN_TIMES_AT_LIMIT: f64 = 1.25;

fn run(case: &Case<'_>) -> Vec<Finding> {
    if varied_setting::is_varied(case, &WORDS) {
        return varied_setting::findings(case, &WORDS);
    }
    let cells = case.cells();
    let found = cells.iter().filter_map(|cell| Some((cell, Twice::of(case, cell)?)));
    let most = found.max_by(|(_, a), (_, b)| a.times().total_cmp(&b.times()));
    most.map(|(cell, twice)| finding(case, cell, &twice)).into_iter().collect()
}

/// Whether direct writes here and there are faster by such a journal. It takes them through the page cache
/// (`ext4_should_use_dio`), so that they wait for nobody, and the disk gets them one after another. Without
/// it each would cost a spinning disk a seek, and take flash longer than these take.
fn is_spared_the_disk(case: &Case<'_>, cell: &CaseCell<'_>) -> bool {
    let waits_without = cell.access() == Some("randwrite") && cell.profile().is_direct() && !cell.is_synced();
    let below = case.inventory.zip(cell.device()).map(|(all, device)| disks_below(all, device));
    let rotates = |disk: &&BlockDevice| disk.queue.as_ref().and_then(|it| it.rotational) == Some(true);
    let spins = || below.is_some_and(|disks| disks.iter().any(rotates));
    let is_single = cell.profile().depth == Some(1);
    let is_fast = || is_single && cell.metric("iops").is_some_and(|iops| iops * OF_FLASH > 1.0);
    waits_without && (spins() || is_fast())
}

/// Seconds that a single direct write to flash takes at the least: system call, link, the disk's cache,
/// interrupt.
const OF_FLASH: f64 = 25e-6;

struct Twice {
    device: String,
    /// Bytes a second that the tool wrote.
    tool: f64,
    /// Bytes a second that the device wrote.
    written: f64,
}

impl Twice {
    fn of(case: &Case<'_>, cell: &CaseCell<'_>) -> Option<Self> {
        let options = cell.trials.iter().find_map(|trial| trial.environment.get("mount_options"))?;
        if !options.split(',').any(|option| option == "data=journal") || cell.shares_its_target() {
            return None;
        }
        let device = cell.device()?.to_owned();
        let tool = cell.written_by_tool().filter(|rate| *rate > 0.0)?;
        let did = cell.did(&device)?;
        // A rate that is kept is none the higher without.
        if is_spared_the_disk(case, cell) || cell.keeps_its_pace() {
            return None;
        }
        let is_at_limit = did.busy >= AT_LIMIT;
        let least = if is_at_limit { MIN_TIMES_AT_LIMIT } else { MIN_TIMES };
        let found = Self { written: did.written, device, tool };
        (found.times() >= least).then_some(found)
    }

    fn times(&self) -> f64 {
        self.written / self.tool
    }
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>, twice: &Twice) -> Finding {
    let Twice { device, tool, written } = twice;
    let bytes = |value| Unit::BytesPerSecond.show(value);
    let (what, undo) = BY_HAND;
    Finding {
        rule: RULE.name,
        title: format!(
            "{device} writes {} times what {} writes: with data=journal all data are written twice",
            significant(twice.times()),
            cell.named()
        ),
        reason: REASON.into(),
        evidence: vec![
            evidence("written by the tool", bytes(*tool), cell.source()),
            evidence(format!("written to {device}"), bytes(*written), "/proc/diskstats"),
            evidence("mount option", "data=journal", "the trial's mount"),
        ],
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy { what: what.into(), settings: vec![], undo: undo.into() }),
        next: case.show_again(),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::summary::RunData;

    fn writes(options: &str, written: u64) -> RunData {
        writes_of("rw=write bs=64k", options, written, 890)
    }

    fn writes_of(load: &str, options: &str, written: u64, busy_ms: u64) -> RunData {
        let mut data = fio_run(&[load], |_, _| vec![("throughput", 1e8), ("write_throughput", 1e8)]);
        with_work(&mut data, &[("sda", 0, 0, 1000, written, busy_ms)]);
        with_environment(&mut data, &[("mount_options", options), ("device", "sda")]);
        data
    }

    #[test]
    fn of_a_disk_without_time_left_a_part_is_not_yet_at_its_place() {
        let of = |written, busy_ms| {
            let data = writes_of("rw=randwrite bs=16k", "rw,data=journal", written, busy_ms);
            findings(RULE, &data, None, None).len()
        };
        assert_eq!([of(134_000_000, 990), of(134_000_000, 600), of(110_000_000, 990)], [1, 0, 0]);
    }

    #[test]
    fn direct_writes_that_the_journal_takes_off_the_disks_path_are_no_finding() {
        let of = |load: &str, rotational, iops: f64| {
            let mut data = fio_run(&[load], move |_, _| {
                vec![("iops", iops), ("throughput", 1e8), ("write_throughput", 1e8)]
            });
            with_work(&mut data, &[("sda", 0, 0, 1000, 204_800_000, 800)]);
            with_environment(&mut data, &[("mount_options", "rw,data=journal"), ("device", "sda")]);
            findings(RULE, &data, Some(&on_disk(rotational)), None).len()
        };
        let direct = "rw=randwrite bs=4k direct=1";
        assert_eq!([of(direct, false, 20_000.0), of(direct, false, 48_000.0)], [1, 0]);
        assert_eq!([of(direct, true, 1400.0), of("rw=randwrite bs=4k", true, 1400.0)], [0, 1]);
        assert_eq!(of("rw=write bs=128k direct=1", true, 1400.0), 1);
    }

    #[test]
    fn data_that_are_written_twice_are_found_and_the_risk_is_said_first() {
        let found = findings(RULE, &writes("rw,data=journal", 204_800_000), None, None).swap_remove(0);
        assert!(found.title.starts_with("sda writes 2.05 times what w0 writes"), "{}", found.title);
        let remedy = found.remedy.unwrap();
        assert!(
            remedy.settings.is_empty() && remedy.what.starts_with("after a power cut"),
            "{}",
            remedy.what
        );
    }

    #[test]
    fn another_mode_or_a_device_that_writes_once_is_no_finding() {
        assert!(findings(RULE, &writes("rw,data=ordered", 204_800_000), None, None).is_empty());
        assert!(findings(RULE, &writes("rw,data=journal", 102_400_000), None, None).is_empty());
    }

    #[test]
    fn what_a_load_beside_it_writes_is_no_evidence() {
        let found = |options_of_load: &str| {
            let mut data = writes("rw,data=journal", 204_800_000);
            data.study.beside = vec![beside(options_of_load)];
            findings(RULE, &data, None, None).len()
        };
        assert_eq!((found("rw=write"), found("ioengine=cpuio cpuload=50")), (0, 1));
    }

    #[test]
    fn disks_that_were_not_recorded_are_no_evidence() {
        let mut data = writes("rw,data=journal", 0);
        with_work(&mut data, &[]);
        assert!(findings(RULE, &data, None, None).is_empty());
    }

    #[test]
    fn a_mode_that_was_varied_is_shown() {
        let disk: Table<'_> = ("disk", &[("kind", "devices"), ("count", "1"), ("loop", "256MiB")]);
        let files: Table<'_> = ("files", &[("kind", "filesystem"), ("on", "disk"), ("type", "ext4")]);
        let data = storage_run(&[disk, files], "files.data", &[("journal", 1e8), ("ordered", 1.8e8)]);
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!(found.confidence, Confidence::Shown);
        assert!(found.title.contains("ordered gives 1.80 times"), "{}", found.title);
        assert!(found.remedy.unwrap().settings.is_empty());
    }

    #[test]
    fn a_rate_that_is_kept_is_none_the_higher_without_a_journal_of_data() {
        let of = |rate: u64| {
            let load = format!("rw=randwrite bs=16k fsync=1 rate_iops={rate}");
            let mut data = writes_of(&load, "rw,data=journal", 250_000_000, 890);
            let measured = data.trials.iter_mut().filter_map(|trial| trial.measurement.as_mut());
            measured.for_each(|measured| {
                let iops = measured.outcome.metrics["throughput"].clone();
                measured
                    .outcome
                    .metrics
                    .insert("iops".into(), domain::outcome::Metric { value: 20.0, ..iops });
            });
            findings(RULE, &data, None, None).len()
        };
        assert_eq!([of(20), of(40)], [0, 1]);
    }
}
