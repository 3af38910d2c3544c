//! The write-intent bitmap of an array: shown where a study varied it; likely where the disks of a mirror
//! write more often than the copies need, or those of an array with parity more than data and parity.
//!
//! Sources: md(4), "BITMAP WRITE-INTENT LOGGING"; drivers/md/md-bitmap.c (`bitmap_startwrite`,
//! `bitmap_unplug`); mdadm(8), `--bitmap-chunk`.

use super::Rule;
use super::arrays::{Array, Did, MIN_WAITED, arrays};
use super::case::{Case, CaseCell, evidence};
use super::varied_setting::{self, NO_SETTING, Words};
use crate::words::percent;
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::stack::MdLevel;
use domain::units::{Unit, significant};

pub(super) const RULE: Rule = Rule {
    name: "bitmap",
    doc: "An array's write-intent bitmap costs writes of its own before the data are written.",
    needs: "cells that differ in the bitmap alone; else what an array and its members did in trials, and the array's copies or level",
    source: "md(4); drivers/md/md-bitmap.c (`bitmap_startwrite`, `bitmap_unplug`); mdadm(8)",
    yields_to: &[],
    run,
};

const REASON: &str = "Before md writes to a region whose bit in the bitmap is clear, it sets the bit on every member and waits for \
that. A small bitmap chunk means many bits, and so many such writes. After a power cut only the regions with a bit are \
synchronised again, which takes the longer the larger the chunk is.";

/// Said first: without a bitmap the array is as safe, and takes longer to be so again.
const BY_HAND: (&str, &str) = (
    "a larger bitmap chunk makes the resync after a power cut longer, and no bitmap means a resync of the whole array; \
`mdadm --grow --bitmap=none /dev/mdN`, then `mdadm --grow --bitmap=internal --bitmap-chunk=128M /dev/mdN`",
    "the same commands with the bitmap chunk that was in force (`mdadm -X` of a member shows it)",
);

const WORDS: Words = Words {
    rule: "bitmap",
    is_about: NO_SETTING,
    keys: &["bitmap", "bitmap_chunk"],
    what: "the array's bitmap",
    reason: |_, _| REASON.to_owned(),
    by_hand: BY_HAND,
};

/// Fewer further writes than this, for each of the array's own, are those of its superblock.
const MIN_FURTHER: f64 = 0.2;

/// Fewer pages than this share of the writes of an array with parity, beyond data and parity, wait for
/// little.
const MIN_OF_PARITY: f64 = 0.1;

/// What the bitmap is written in.
const PAGE: f64 = 4096.0;

/// Larger writes may be split at chunks and limits of the members, which makes more writes as well.
const MAX_SIZE: f64 = 131_072.0;

fn run(case: &Case<'_>) -> Vec<Finding> {
    if varied_setting::is_varied(case, &WORDS) {
        return varied_setting::findings(case, &WORDS);
    }
    let cells = case.cells();
    let found = cells.iter().flat_map(|cell| {
        let arrays = arrays(case, cell).into_iter();
        arrays.filter_map(|array| Some((cell, Further::of(&array, cell)?, array))).collect::<Vec<_>>()
    });
    let most = found.max_by(|(_, a, _), (_, b, _)| a.share.total_cmp(&b.share));
    most.map(|(cell, further, array)| finding(case, cell, &further, &array)).into_iter().collect()
}

/// Writes of members beyond the copies of what was written.
struct Further {
    /// For each write of the array's own.
    share: f64,
    figures: Vec<Evidence>,
}

impl Further {
    fn of(array: &Array, cell: &CaseCell<'_>) -> Option<Self> {
        if array.level.has_parity() {
            return Self::of_parity(array, cell);
        }
        let is_mirror = matches!(array.level, MdLevel::Raid1 | MdLevel::Raid10);
        if !is_mirror || array.has_bitmap != Some(true) || !array.is_whole(cell) {
            return None;
        }
        let own = cell.did(&array.name).filter(|own| own.writes > 0.0)?;
        let size = own.written / own.writes;
        let chunk = array.chunk.map_or(f64::INFINITY, |chunk| chunk.get() as f64);
        if size > MAX_SIZE.min(chunk / 4.0) {
            return None;
        }
        let all = array.members_did(cell)?.iter().map(|(_, did)| did.writes).sum::<f64>();
        let further = all - own.writes * f64::from(array.copies?);
        let share = further / own.writes;
        let (busiest, did) = array.busiest(cell)?;
        let source = format!("/proc/diskstats in {}", cell.source());
        let rate = |value| Unit::PerSecond.show(value);
        let figures = vec![
            evidence(format!("writes of {}", array.name), rate(own.writes), source.clone()),
            evidence("writes of its members, all together", rate(all), source.clone()),
            evidence("copies of each block", array.copies?.to_string(), array.source.clone()),
            evidence(format!("time in which {busiest} was busy"), percent(did.busy), source),
        ];
        (share >= MIN_FURTHER && array.waited_for(cell)? >= MIN_WAITED).then_some(Self { share, figures })
    }

    /// Of an array with parity: a byte that is written changes a byte of each parity, and no more. What its
    /// members write beyond that is the array's own account.
    fn of_parity(array: &Array, cell: &CaseCell<'_>) -> Option<Self> {
        if array.has_bitmap != Some(true) || !array.is_whole(cell) {
            return None;
        }
        let own = cell.did(&array.name).filter(|own| own.writes > 0.0)?;
        let members = array.members_did(cell)?;
        let sum = |figure: fn(&Did) -> f64| members.iter().map(|(_, did)| figure(did)).sum::<f64>();
        let parities = if array.level == MdLevel::Raid6 { 2.0 } else { 1.0 };
        let (written, writes) = (sum(|did| did.written), sum(|did| did.writes));
        let further = (written - own.written * (1.0 + parities)) / PAGE;
        let of_members = further / writes.max(1.0);
        let source = format!("/proc/diskstats in {}", cell.source());
        let figures = vec![
            evidence(
                format!("written to {}", array.name),
                Unit::BytesPerSecond.show(own.written),
                source.clone(),
            ),
            evidence(
                "written by its members, all together",
                Unit::BytesPerSecond.show(written),
                source.clone(),
            ),
            evidence(
                "at most written for each byte: data and parity",
                format!("{:.0}", 1.0 + parities),
                array.source.clone(),
            ),
            evidence("pages beyond that, of the writes of its members", percent(of_members), source),
        ];
        let counts = of_members >= MIN_OF_PARITY && array.waited_for(cell)? >= MIN_WAITED;
        counts.then_some(Self { share: further / own.writes, figures })
    }
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>, further: &Further, array: &Array) -> Finding {
    let (what, undo) = BY_HAND;
    Finding {
        rule: RULE.name,
        title: format!(
            "the disks of {} write {} times more for each write of {}: its bitmap is kept up to date",
            array.name,
            significant(further.share),
            cell.named()
        ),
        reason: REASON.into(),
        evidence: further.figures.clone(),
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy { what: what.replace("mdN", &array.name), settings: vec![], undo: undo.into() }),
        next: case.show_again(),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::summary::RunData;
    use domain::inventory::{Inventory, Md};

    fn machine(bitmap: &str) -> Inventory {
        let md = Md {
            level: Some("raid1".into()),
            raid_disks: Some(2),
            bitmap: Some(bitmap.into()),
            ..Md::default()
        };
        with_array(md, true, &["sda", "sdb"])
    }

    /// A hundred writes of 4 KiB a second, for which each member writes so often. The array is busy for so
    /// long of a second: writes that wait for one another leave its disks time.
    fn writes(each: u64, busy_ms: u64) -> RunData {
        let mut data =
            fio_run(&["rw=randwrite bs=4k"], |cell, block| vec![("throughput", about(4e5, cell, block))]);
        let member = |name| (name, 0, 0, each, each * 4096, 300);
        with_work(&mut data, &[("md0", 0, 0, 100, 409_600, busy_ms), member("sda"), member("sdb")]);
        data
    }

    #[test]
    fn a_mirror_whose_disks_write_more_than_its_copies_is_found() {
        let found = findings(RULE, &writes(160, 900), Some(&machine("+8")), None);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].title.starts_with("the disks of md0 write 1.20 times more"), "{}", found[0].title);
        assert!(found[0].remedy.as_ref().unwrap().what.starts_with("a larger bitmap chunk makes the resync"));
    }

    #[test]
    fn copies_alone_an_idle_array_or_no_bitmap_are_no_finding() {
        assert!(findings(RULE, &writes(101, 900), Some(&machine("+8")), None).is_empty());
        assert!(findings(RULE, &writes(160, 200), Some(&machine("+8")), None).is_empty());
        assert!(findings(RULE, &writes(160, 900), Some(&machine("none")), None).is_empty());
    }

    #[test]
    fn large_writes_are_split_and_tell_nothing() {
        let mut data = writes(160, 900);
        with_work(
            &mut data,
            &[("md0", 0, 0, 100, 100 << 20, 990), ("sda", 0, 0, 160, 0, 900), ("sdb", 0, 0, 160, 0, 900)],
        );
        assert!(findings(RULE, &data, Some(&machine("+8")), None).is_empty());
    }

    #[test]
    fn an_array_with_parity_that_writes_more_than_data_and_parity_is_found() {
        let machine = |bitmap: &str| {
            let md = Md { level: Some("raid5".into()), bitmap: Some(bitmap.into()), ..Md::default() };
            with_array(md, true, &["sda", "sdb", "sdc"])
        };
        let of = |pages_each: u64, bitmap: &str| {
            let mut data =
                fio_run(&["rw=randwrite bs=4k"], |cell, block| vec![("throughput", about(4e5, cell, block))]);
            let member = |name| (name, 50, 204_800, pages_each, pages_each * 4096, 300);
            with_work(
                &mut data,
                &[("md0", 0, 0, 150, 614_400, 900), member("sda"), member("sdb"), member("sdc")],
            );
            findings(RULE, &data, Some(&machine(bitmap)), None).len()
        };
        assert_eq!([of(140, "+8"), of(101, "+8"), of(140, "none")], [1, 0, 0]);
    }

    #[test]
    fn an_unknown_array_is_no_evidence() {
        assert!(findings(RULE, &writes(160, 900), None, None).is_empty());
    }

    #[test]
    fn a_bitmap_that_was_varied_is_shown() {
        let data = storage_run(&[FOUR_DISKS, RAID5], "array.bitmap", &[("none", 2e6), ("internal", 1e6)]);
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!(found.confidence, Confidence::Shown);
        assert!(found.title.contains("internal gives 0.50 times"), "{}", found.title);
        assert!(found.remedy.unwrap().what.starts_with("choose `none`: a larger bitmap chunk makes"));
    }
}
