//! An array lacks a disk while it works: shown where a study left one out; likely where its disks read more
//! than was asked for; possible where it is busy.
//!
//! Sources: `Documentation/admin-guide/md.rst` (`degraded`); drivers/md/raid5.c (`fetch_block`: what is
//! missing is computed from all others).

use super::Rule;
use super::one_thread_at_limit::STRIPES_WAIT;
use super::varied_setting::{self, NO_SETTING, Words};
use crate::facts::arrays::{Array, Did, MIN_WAITED, arrays};
use crate::facts::case::{Case, CaseCell, evidence};
use crate::facts::usage::AT_LIMIT;
use crate::words::{counted, percent};
use domain::finding::{Confidence, Finding, Remedy};
use domain::stack::MdLevel;
use domain::units::significant;

pub(super) const RULE: Rule = Rule {
    name: "degraded-array",
    doc: "An array lacks a disk while it is busy: others do the work of the missing one.",
    needs: "cells that differ in missing members alone; else the array in the inventory or the study, and what it did in trials",
    source: "Documentation/admin-guide/md.rst (`degraded`); drivers/md/raid5.c (`fetch_block`)",
    yields_to: &[],
    run,
};

const REASON: &str = "The array survives fewer failures than it is made for. With parity each read of the missing disk's data \
reads all others, and is computed; a mirror serves all reads from the disks that are left.";

/// Said first: what is lacking is safety, and then speed.
const BY_HAND: (&str, &str) = (
    "replace the disk soon, since the next failure may lose the data: `mdadm --manage /dev/mdN --add /dev/DISK`; the array is \
slower until it is rebuilt",
    "`mdadm --manage /dev/mdN --fail /dev/DISK --remove /dev/DISK`, which leaves the array as it is now",
);

const WORDS: Words = Words {
    rule: "degraded-array",
    is_about: NO_SETTING,
    keys: &["missing"],
    what: "a missing member",
    reason: |_, _| REASON.to_owned(),
    by_hand: BY_HAND,
};

/// An array that is less busy has nobody who waits for the missing disk.
const MIN_BUSY: f64 = 0.1;

/// So much more than the array's own reads is what was read to compute the missing.
const MIN_EXTRA: f64 = 1.1;

fn run(case: &Case<'_>) -> Vec<Finding> {
    if varied_setting::is_varied(case, &WORDS) {
        return varied_setting::findings(case, &WORDS);
    }
    let cells = case.cells();
    let found = cells.iter().flat_map(|cell| {
        let busy = arrays(case, cell).into_iter().filter_map(|array| {
            let (_, Did { busy, .. }) = array.busiest(cell).filter(|_| array.missing > 0)?;
            (busy >= MIN_BUSY && does_more(&array, cell, busy)).then_some((cell, array, busy))
        });
        busy.collect::<Vec<_>>()
    });
    let busiest = found.max_by(|(.., a), (.., b)| a.total_cmp(b));
    busiest.map(|(cell, array, busy)| finding(case, cell, &array, busy)).into_iter().collect()
}

/// Whether somebody waits for work that is there since a disk is missing: reads of which others compute what
/// it had, or those of a mirror whose other disks have no time left. What is written to a mirror costs the
/// others nothing more, and what is read of RAID1 in order one disk alone serves (raid1.c, `read_balance`).
fn does_more(array: &Array, cell: &CaseCell<'_>, busy: f64) -> bool {
    let waits = array.waited_for(cell).is_none_or(|waited| waited >= MIN_WAITED);
    let computes =
        array.level.has_parity() && (computed(array, cell).is_some() || waits_for_thread(array, cell));
    let reads = cell.did(&array.name).is_some_and(|own| own.read > own.written);
    let by_one = array.level == MdLevel::Raid1 && cell.profile().reads_in_order();
    let reads = reads && !by_one;
    waits && (computes || !array.level.has_parity() && reads && busy >= AT_LIMIT)
}

/// Whether reads of an array with parity wait for the thread that computes what is missing. Reads in order
/// need what is read for that anyway, so that no byte more is read. An array that lacks no disk serves reads
/// past its thread.
fn waits_for_thread(array: &Array, cell: &CaseCell<'_>) -> bool {
    cell.profile().reads() && array.thread_share(cell) >= Some(STRIPES_WAIT)
}

/// What members read for each byte that was read from the array, where it is more than that.
fn computed(array: &Array, cell: &CaseCell<'_>) -> Option<f64> {
    let own = cell.did(&array.name)?.read;
    let read = array.members_did(cell)?.iter().map(|(_, did)| did.read).sum::<f64>();
    (own > 0.0).then(|| read / own).filter(|times| *times >= MIN_EXTRA)
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>, array: &Array, busy: f64) -> Finding {
    let name = &array.name;
    let all = array.members.len() + array.missing as usize;
    let times = computed(array, cell).filter(|_| array.level.has_parity());
    let source = format!("/proc/diskstats in {}", cell.source());
    let mut figures = vec![
        evidence("missing members", format!("{} of {all}", array.missing), array.source.clone()),
        evidence("time in which its busiest member was busy", percent(busy), source.clone()),
    ];
    figures.extend(times.map(|times| {
        evidence(
            "read from its members for what was read from it",
            format!("{} times", significant(times)),
            source,
        )
    }));
    let (what, undo) = BY_HAND;
    Finding {
        rule: RULE.name,
        title: format!(
            "{name} lacks {} of {}, and its disks were busy {} of the time in {}",
            array.missing,
            counted(all, "disk"),
            percent(busy),
            cell.named()
        ),
        reason: REASON.into(),
        evidence: figures,
        confidence: if times.is_some() { Confidence::Likely } else { Confidence::Possible },
        gain: None,
        remedy: Some(Remedy {
            what: what.replace("mdN", name),
            settings: vec![],
            undo: undo.replace("mdN", name),
        }),
        next: case.next_look(),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::summary::RunData;
    use domain::inventory::{Inventory, Md};

    fn machine(degraded: u32) -> Inventory {
        let md = Md { level: Some("raid5".into()), degraded: Some(degraded), ..Md::default() };
        with_array(md, true, &["sda", "sdb"])
    }

    fn reads_of(throughput: f64) -> RunData {
        fio_run(&["rw=randread bs=4k direct=1"], |cell, block| {
            vec![("throughput", about(throughput, cell, block))]
        })
    }

    fn reads(each: u64, busy_ms: u64) -> RunData {
        let mut data = reads_of(4e5);
        let member = |name| (name, each, each * 4096, 0, 0, busy_ms);
        with_work(&mut data, &[("md0", 100, 409_600, 0, 0, busy_ms), member("sda"), member("sdb")]);
        data
    }

    #[test]
    fn a_busy_array_whose_disks_compute_what_is_missing_is_found() {
        let found = findings(RULE, &reads(67, 800), Some(&machine(1)), None).swap_remove(0);
        assert_eq!(found.title, "md0 lacks 1 of 3 disks, and its disks were busy 80% of the time in w0");
        assert_eq!(found.confidence, Confidence::Likely);
        assert_eq!(found.evidence[2].figure, "1.34 times");
        assert!(found.remedy.unwrap().what.contains("--manage /dev/md0 --add"));
    }

    #[test]
    fn a_degraded_array_that_is_not_busy_and_a_whole_one_are_no_finding() {
        assert!(findings(RULE, &reads(67, 40), Some(&machine(1)), None).is_empty());
        assert!(findings(RULE, &reads(50, 800), Some(&machine(1)), None).is_empty(), "nothing is computed");
        assert!(findings(RULE, &reads(67, 800), Some(&machine(0)), None).is_empty());
    }

    #[test]
    fn a_mirror_that_lacks_a_disk_serves_reads_from_fewer_and_writes_as_before() {
        let md = Md { level: Some("raid1".into()), degraded: Some(1), ..Md::default() };
        let machine = with_array(md, true, &["sda"]);
        let of = |[reads, writes]: [u64; 2]| {
            let mut data = reads_of(4e5);
            let work = |name| (name, reads, reads * 4096, writes, writes * 4096, 950);
            with_work(&mut data, &[work("md0"), work("sda")]);
            findings(RULE, &data, Some(&machine), None).len()
        };
        assert_eq!([of([100, 0]), of([0, 100])], [1, 0]);
    }

    #[test]
    fn without_the_disks_or_the_machine_nothing_is_said() {
        let data = fio_run(&["rw=randread"], |cell, block| vec![("throughput", about(4e5, cell, block))]);
        assert!(findings(RULE, &data, Some(&machine(1)), None).is_empty());
        assert!(findings(RULE, &reads(67, 800), None, None).is_empty());
    }

    #[test]
    fn a_missing_member_that_was_varied_is_shown() {
        let data = storage_run(&[FOUR_DISKS, RAID5], "array.missing", &[("0", 2e6), ("1", 1e6)]);
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!(found.confidence, Confidence::Shown);
        assert!(found.title.contains("1 gives 0.50 times"), "{}", found.title);
    }

    #[test]
    fn reads_that_the_arrays_thread_computes_are_found_where_no_byte_more_is_read() {
        use domain::trace::Role;
        let of = |used_ms: u64| {
            let options = "rw=read bs=1m direct=1 ioengine=libaio iodepth=32";
            let mut data = fio_run(&[options], |_, _| vec![("throughput", 1e9)]);
            let member = |name| (name, 1500, 500 << 20, 0, 0, 750);
            with_work(&mut data, &[("md0", 1000, 1000 << 20, 0, 0, 990), member("sda"), member("sdb")]);
            with_thread(&mut data, "md0_raid5", Role::Array, used_ms);
            findings(RULE, &data, Some(&machine(1)), None).len()
        };
        assert_eq!([of(900), of(240)], [1, 0]);
    }

    #[test]
    fn one_disk_serves_what_is_read_of_a_mirror_in_order() {
        let of = |rw: &str| {
            let md = Md { level: Some("raid1".into()), degraded: Some(1), ..Md::default() };
            let machine = with_array(md, true, &["sda"]);
            let mut data = fio_run(&[&format!("rw={rw} bs=64k")], |_, _| vec![("throughput", 5e8)]);
            let disk = |name| (name, 7867, 7867 << 16, 0, 0, 999);
            with_work(&mut data, &[disk("md0"), disk("sda")]);
            findings(RULE, &data, Some(&machine), None).len()
        };
        assert_eq!([of("read"), of("randread")], [0, 1]);
    }
}
