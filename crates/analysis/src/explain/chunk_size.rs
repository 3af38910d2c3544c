//! Requests that cross the chunks of an array: each keeps two disks busy. Shown where a study varied the
//! chunk, else likely where the disks serve more random requests than the array.
//!
//! Sources: md(4), "RAID0"; drivers/md/raid0.c (`raid0_make_request`), raid10.c, raid5.c
//! (`in_chunk_boundary`).

use super::Rule;
use super::varied_setting::{self, NO_SETTING, Words};
use crate::facts::arrays::{Array, Did, MIN_WAITED, arrays, rotates};
use crate::facts::case::{Case, CaseCell, evidence};
use crate::words::percent;
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::units::{Unit, significant};

pub(super) const RULE: Rule = Rule {
    name: "chunk-size",
    doc: "Random requests of an array cross its chunks, so that each of them keeps more than one disk busy.",
    needs: "cells that differ in the chunk alone; else what an array and its members did in trials of random reads or writes; the disks in the inventory",
    source: "md(4); drivers/md/raid0.c (`raid0_make_request`), raid10.c, raid5.c (`in_chunk_boundary`)",
    yields_to: &[],
    run,
};

const REASON: &str = "A request that crosses the end of a chunk is split, and each part goes to another disk. A spinning disk \
needs a seek for each part, so that random requests a second fall with the parts of a request. Large requests in order gain \
by it, since several disks transfer at once.";

const BY_HAND: (&str, &str) = (
    "a chunk is chosen when the array is made; `mdadm --grow /dev/mdN --chunk=512 --backup-file=FILE` moves all data, which \
takes long and wants a backup first",
    "the same command with the chunk that was in force",
);

const WORDS: Words = Words {
    rule: "chunk-size",
    is_about: NO_SETTING,
    keys: &["chunk"],
    what: "the array's chunk",
    reason: |_, _| REASON.to_owned(),
    by_hand: BY_HAND,
};

/// Fewer reads of disks for each of the array are requests that lie unluckily.
const MIN_PARTS: f64 = 1.3;

/// Disks that are less busy have time for both parts.
const MIN_BUSY: f64 = 0.5;

fn run(case: &Case<'_>) -> Vec<Finding> {
    if varied_setting::is_varied(case, &WORDS) {
        return varied_setting::findings(case, &WORDS);
    }
    let cells = case.cells();
    let random = cells.iter().filter(|cell| cell.reads_at_random() || writes_at_random(cell));
    let found = random.flat_map(|cell| {
        let arrays = arrays(case, cell).into_iter();
        arrays.filter_map(|array| Some((cell, Split::of(case, &array, cell)?, array))).collect::<Vec<_>>()
    });
    let most = found.max_by(|(_, a, _), (_, b, _)| a.parts.total_cmp(&b.parts));
    most.map(|(cell, split, array)| finding(case, cell, split, &array)).into_iter().collect()
}

/// Whether it writes here and there, by its options: what the kernel writes back is in some order.
fn writes_at_random(cell: &CaseCell<'_>) -> bool {
    cell.access() == Some("randwrite")
}

struct Split {
    /// Whether requests are reads.
    reads: bool,
    /// Requests of disks for each of the array, beyond its copies.
    parts: f64,
    figures: Vec<Evidence>,
}

impl Split {
    fn of(case: &Case<'_>, array: &Array, cell: &CaseCell<'_>) -> Option<Self> {
        if !array.level.has_chunks() || !array.is_whole(cell) || !rotates(case, array) {
            return None;
        }
        let (own, members) = (cell.did(&array.name)?, array.members_did(cell)?);
        let reads = cell.reads_at_random();
        // With parity, and with a bitmap, disks write for other reasons too.
        if !reads && (array.level.has_parity() || array.has_bitmap != Some(false)) {
            return None;
        }
        let of = |did: &Did| if reads { did.reads } else { did.writes };
        let all = members.iter().map(|(_, did)| of(did)).sum::<f64>();
        let copies = if reads { 1.0 } else { f64::from(array.copies.unwrap_or(1)) };
        let busy = array.mean_busy(cell)?;
        let parts = all / (of(&own) * copies);
        let what = if reads { "reads" } else { "writes" };
        let source = format!("/proc/diskstats in {}", cell.source());
        let mut figures = vec![
            evidence(format!("{what} of {}", array.name), Unit::PerSecond.show(of(&own)), source.clone()),
            evidence(
                format!("{what} of its members, all together"),
                Unit::PerSecond.show(all),
                source.clone(),
            ),
            evidence("time in which its members were busy, mean", percent(busy), source),
        ];
        figures.extend(
            cell.block_size().map(|size| evidence("size of a request", size.to_string(), "the study")),
        );
        figures.extend(array.chunk.map(|chunk| evidence("chunk", chunk.to_string(), array.source.clone())));
        let known = of(&own) > 0.0 && parts.is_finite();
        (known && parts >= MIN_PARTS && busy >= MIN_BUSY && array.waited_for(cell)? >= MIN_WAITED)
            .then_some(Self { reads, parts, figures })
    }
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>, split: Split, array: &Array) -> Finding {
    let (by_hand, undo) = BY_HAND;
    let what = if split.reads { "read" } else { "write" };
    Finding {
        rule: RULE.name,
        title: format!(
            "each {what} of {} in {} takes {} {what}s of its disks: requests cross its chunks",
            array.name,
            cell.named(),
            significant(split.parts)
        ),
        reason: REASON.into(),
        evidence: split.figures,
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy {
            what: by_hand.replace("mdN", &array.name),
            settings: vec![],
            undo: undo.into(),
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
    use domain::inventory::{Inventory, Md};
    use domain::units::Bytes;

    fn machine() -> Inventory {
        machine_of(true)
    }

    fn machine_of(rotational: bool) -> Inventory {
        let md = Md { level: Some("raid0".into()), chunk: Some(Bytes::from_kib(16)), ..Md::default() };
        with_array(md, rotational, &["sda", "sdb"])
    }

    fn reads(rw: &str, each: u64, busy_ms: u64) -> RunData {
        let options = format!("rw={rw} bs=32k direct=1");
        let mut data = fio_run(&[&options], |cell, block| vec![("throughput", about(4e6, cell, block))]);
        let member = |name| (name, each, each * 16_384, 0, 0, busy_ms);
        with_work(&mut data, &[("md0", 100, 3_276_800, 0, 0, 990), member("sda"), member("sdb")]);
        data
    }

    #[test]
    fn random_reads_that_are_split_are_found() {
        let found = findings(RULE, &reads("randread", 100, 900), Some(&machine()), None);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].title.contains("takes 2.00 reads of its disks"), "{}", found[0].title);
        assert!(found[0].evidence.iter().any(|e| e.figure == "16 KiB"));
    }

    #[test]
    fn reads_in_order_whole_requests_and_idle_disks_are_no_finding() {
        assert!(findings(RULE, &reads("read", 100, 900), Some(&machine()), None).is_empty());
        assert!(findings(RULE, &reads("randread", 53, 900), Some(&machine()), None).is_empty());
        assert!(findings(RULE, &reads("randread", 100, 200), Some(&machine()), None).is_empty());
    }

    #[test]
    fn random_writes_that_are_split_are_found_beyond_copies_and_bitmap() {
        let of = |level: &str, bitmap: &str, each: u64| {
            let md = Md {
                level: Some(level.into()),
                layout: Some("near=2".into()),
                bitmap: Some(bitmap.into()),
                ..Md::default()
            };
            let machine = with_array(md, true, &["sda", "sdb", "sdc", "sdd"]);
            let mut data = fio_run(&["rw=randwrite bs=32k"], |cell, block| {
                vec![("throughput", about(4e6, cell, block))]
            });
            let member = |name| (name, 0, 0, each, each * 16_384, 900);
            let members = ["sda", "sdb", "sdc", "sdd"].map(member);
            let work: Vec<_> = [("md0", 0, 0, 100, 3_276_800, 990)].into_iter().chain(members).collect();
            with_work(&mut data, &work);
            findings(RULE, &data, Some(&machine), None)
        };
        let found = of("raid0", "none", 50).swap_remove(0);
        assert!(found.title.contains("each write of md0 in w0 takes 2.00 writes"), "{}", found.title);
        assert_eq!([of("raid10", "none", 100).len(), of("raid10", "none", 50).len()], [1, 0]);
        assert!(of("raid10", "+8", 100).is_empty() && of("raid5", "none", 100).is_empty());
    }

    #[test]
    fn flash_and_unknown_disks_or_arrays_are_no_finding() {
        let data = reads("randread", 100, 900);
        assert!(findings(RULE, &data, Some(&machine_of(false)), None).is_empty());
        let mut unknown = machine();
        unknown.devices.truncate(1);
        assert!(findings(RULE, &data, Some(&unknown), None).is_empty());
        assert!(findings(RULE, &data, None, None).is_empty());
    }

    #[test]
    fn a_chunk_that_was_varied_is_shown() {
        let data = storage_run(&[FOUR_DISKS, RAID5], "array.chunk", &[("16KiB", 1e6), ("512KiB", 1.4e6)]);
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!(found.confidence, Confidence::Shown);
        assert!(found.title.contains("512KiB gives 1.40 times"), "{}", found.title);
    }
}
