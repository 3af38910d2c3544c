//! The stripe cache of RAID 4, 5 and 6: shown where a study varied it; likely where writes in order did not
//! fill whole stripes in it, and the array had to read.
//!
//! Sources: `Documentation/admin-guide/md.rst` (`stripe_cache_size`); drivers/md/raid5.c (`setup_conf`,
//! `handle_stripe_dirtying`).

use super::Rule;
use super::next_step::{NOT_KEPT, UNTUNE, measure_command, tune_command};
use super::read_modify_write::Extra;
use super::varied_setting::{self, ByHand, Words};
use crate::facts::arrays::{Array, Did, MIN_WAITED, arrays, in_flight, rotates};
use crate::facts::case::{Case, CaseCell, evidence};
use crate::facts::cpu_share;
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::setting::{SettingName, SettingRequest};

pub(super) const RULE: Rule = Rule {
    name: "stripe-cache",
    doc: "The stripe cache of an array with parity is too small to collect whole stripes of writes in order.",
    needs: "cells that differ in `stripe_cache_size` alone; else what the array and its members did in trials of writes in order",
    source: "Documentation/admin-guide/md.rst (`stripe_cache_size`); drivers/md/raid5.c",
    yields_to: &["slowest-member"],
    run,
};

const REASON: &str = "md collects writes in stripes of its cache until a stripe is whole. A stripe that has to leave before it is \
whole costs reads of old data and parity. A larger cache holds more stripes, and takes memory: a page for each member in \
each stripe.";

const BY_HAND: ByHand =
    ("set `stripe_cache_size` where the array is assembled", "set it to its value before");

pub(super) const WORDS: Words = Words {
    rule: "stripe-cache",
    is_about: |name| name == "stripe_cache_size",
    keys: &["stripe_cache_size"],
    what: "the stripe cache",
    reason: |_, _| REASON.to_owned(),
    by_hand: BY_HAND,
};

/// Writes in order fill whole stripes, and read next to nothing. What is read beyond this share of what is
/// written is no accident at the edges.
const MIN_READ: f64 = 0.1;

/// A load that keeps fewer stripes than this in flight fills none of them before it waits.
const MIN_STRIPES: f64 = 2.0;

/// The size to try, in pages a member; the kernel's own is 256 (`NR_STRIPES`).
pub(super) const TO_TRY: u32 = 4096;

fn run(case: &Case<'_>) -> Vec<Finding> {
    if varied_setting::is_varied(case, &WORDS) {
        return varied_setting::findings(case, &WORDS);
    }
    let cells = case.cells();
    let in_order = cells.iter().filter(|cell| cell.writes_in_order());
    in_order.flat_map(|cell| of_cell(case, cell)).take(1).collect()
}

fn of_cell(case: &Case<'_>, cell: &CaseCell<'_>) -> Vec<Finding> {
    let found = arrays(case, cell).into_iter().filter_map(|array| {
        let size = array.stripe_cache_size.filter(|size| *size < TO_TRY)?;
        let extra = Extra::of(&array, cell)?;
        let holds_all =
            kept_in_flight(case, &array, cell).is_some_and(|bytes| bytes < array.cached(size) / 2.0);
        let costs = extra.share >= MIN_READ && (rotates(case, &array) || takes_time(&array, cell));
        let counts = !holds_all
            && !fills_none(case, &array, cell)
            && !is_full_link(case, &array, cell)
            && costs
            && extra.waited >= MIN_WAITED;
        counts.then(|| finding(cell, &array, size, &extra))
    });
    found.collect()
}

/// Whether a load has less in flight than whole stripes, which no cache can collect then.
pub(super) fn fills_none(case: &Case<'_>, array: &Array, cell: &CaseCell<'_>) -> bool {
    let kept = kept_in_flight(case, array, cell).zip(array.stripe());
    kept.is_some_and(|(bytes, stripe)| bytes < MIN_STRIPES * stripe)
}

/// How many bytes a load keeps in flight on an array. One that calls fsync waits for all of them before it
/// goes on, so that it has fewer than its depth: as many as a trace counted.
fn kept_in_flight(case: &Case<'_>, array: &Array, cell: &CaseCell<'_>) -> Option<f64> {
    let asked = cell.bytes_in_flight()?;
    let own = cell.did(&array.name).filter(|own| cell.is_synced() && own.writes > 0.0);
    let counted = own.and_then(|own| Some(in_flight(case, cell, &array.name)? * own.written / own.writes));
    Some(counted.map_or(asked, |counted| asked.min(counted)))
}

/// Whether a member moves as much as its link carries: a larger cache keeps more stripes waiting for it.
fn is_full_link(case: &Case<'_>, array: &Array, cell: &CaseCell<'_>) -> bool {
    let at_link = |name: &String| {
        let (disk, did) = (case.inventory?.device(name)?, cell.did(name)?);
        Some(!rotates(case, array) && cpu_share::is_at_its_link(disk, &did))
    };
    array.members.iter().filter_map(at_link).any(|is| is)
}

/// Whether reads take a tenth of the time of flash, by what it moves while it is busy: on spinning disks each
/// of them costs a seek, whatever it moves.
fn takes_time(array: &Array, cell: &CaseCell<'_>) -> bool {
    let Some(members) = array.members_did(cell) else { return false };
    let reading = |did: &Did| did.busy * did.read / (did.read + did.written).max(f64::MIN_POSITIVE);
    members.iter().any(|(_, did)| reading(did) >= MIN_READ)
}

/// The larger cache of an array.
fn larger(array: &Array) -> SettingRequest {
    SettingRequest {
        setting: SettingName { name: "stripe_cache_size".into(), object: Some(array.name.clone()) },
        value: TO_TRY.to_string(),
    }
}

/// To try it, and what it takes; `and` follows. In an array that lacks a disk a write waits for reads of all
/// others where its stripe lacks data (`need_this_block`). How many of these the disks that are left are
/// asked for at once depends on the cache, and nothing that is recorded tells whether more are better: there
/// it is to be measured first.
pub(super) fn remedy(array: &Array, and: &str) -> Remedy {
    let members = array.members.len();
    if array.missing > 0 {
        return Remedy {
            what: format!(
                "replace the disk that is missing first; {TO_TRY} stripes, which take as many pages of memory for each of {members} members, may gain or cost here: measure them before they are kept"
            ),
            settings: vec![],
            undo: NOT_KEPT.into(),
        };
    }
    Remedy {
        what: format!(
            "try {TO_TRY} stripes, which take as many pages of memory for each of {members} members{and}"
        ),
        settings: vec![larger(array)],
        undo: UNTUNE.into(),
    }
}

/// The command that goes with it.
pub(super) fn next(array: &Array) -> String {
    if array.missing > 0 { measure_command(&larger(array)) } else { tune_command(&larger(array)) }
}

fn finding(cell: &CaseCell<'_>, array: &Array, size: u32, extra: &Extra) -> Finding {
    let name = &array.name;
    let source = format!("/proc/diskstats in {}", cell.source());
    Finding {
        rule: RULE.name,
        title: format!(
            "{name} does not collect whole stripes of the writes of {}: it reads {} of what is written",
            cell.named(),
            percent(extra.share)
        ),
        reason: REASON.into(),
        evidence: vec![
            evidence("read from its members for what was written", percent(extra.share), source.clone()),
            evidence(format!("time in which {} was busy", extra.busiest.0), percent(extra.busiest.1), source),
            evidence("stripe_cache_size, in pages a member", size.to_string(), array.source.clone()),
        ],
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(remedy(array, "")),
        next: next(array),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::summary::RunData;
    use domain::inventory::{Inventory, Md};

    fn machine(size: Option<u32>) -> Inventory {
        let md = Md { level: Some("raid6".into()), stripe_cache_size: size, ..Md::default() };
        with_array(md, true, &["sda", "sdb", "sdc", "sdd"])
    }

    /// Writes of 64 KiB, of which the members read this share before.
    fn writes(rw: &str, read: u64, busy_ms: u64) -> RunData {
        let options = format!("rw={rw} bs=64k");
        let mut data = fio_run(&[&options], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        let member = |name| (name, read / 4096, read, 1000, 50 << 20, busy_ms);
        let array = ("md0", 0, 0, 1600, 100 << 20, 950);
        with_work(&mut data, &[array, member("sda"), member("sdb"), member("sdc"), member("sdd")]);
        data
    }

    #[test]
    fn writes_in_order_that_make_the_array_read_are_found_with_a_larger_cache() {
        let found = findings(RULE, &writes("write", 10 << 20, 900), Some(&machine(Some(256))), None);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].title.ends_with("it reads 40% of what is written"), "{}", found[0].title);
        assert_eq!(found[0].remedy.as_ref().unwrap().settings[0].to_string(), "stripe_cache_size@md0 = 4096");
    }

    #[test]
    fn random_writes_a_large_cache_and_whole_stripes_are_no_finding() {
        let of =
            |rw, read, size| findings(RULE, &writes(rw, read, 900), Some(&machine(Some(size))), None).len();
        assert_eq!(of("randwrite", 10 << 20, 256), 0);
        assert_eq!(of("write", 10 << 20, 8192), 0);
        assert_eq!(of("write", 100 << 10, 256), 0);
    }

    #[test]
    fn reads_that_take_flash_little_of_its_time_are_no_finding() {
        let of = |rotational, read, busy_ms| {
            let md = Md { level: Some("raid6".into()), stripe_cache_size: Some(256), ..Md::default() };
            let machine = with_array(md, rotational, &["sda", "sdb", "sdc", "sdd"]);
            findings(RULE, &writes("write", read, busy_ms), Some(&machine), None).len()
        };
        assert_eq!([of(true, 5 << 20, 900), of(false, 5 << 20, 900), of(false, 10 << 20, 900)], [1, 0, 1]);
    }

    #[test]
    fn without_the_size_in_force_nothing_is_proposed() {
        assert!(findings(RULE, &writes("write", 10 << 20, 900), Some(&machine(None)), None).is_empty());
        assert!(findings(RULE, &writes("write", 10 << 20, 900), None, None).is_empty());
    }

    #[test]
    fn a_cache_that_was_varied_is_shown() {
        let levels = [("256", 1e8), ("4096", 1.6e8)];
        let data = storage_run(&[FOUR_DISKS, RAID5], "array.stripe_cache_size", &levels);
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!(found.confidence, Confidence::Shown);
        assert!(found.title.contains("4096 gives 1.60 times the throughput of 256"), "{}", found.title);
        let by_setting =
            setting_run("stripe_cache_size", &["256", "4096"], |l, b| about([1e8, 1.6e8][l], l, b));
        let found = findings(RULE, &by_setting, None, None).swap_remove(0);
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "stripe_cache_size = 4096");
    }

    #[test]
    fn a_load_that_waits_for_the_medium_keeps_few_writes_in_flight() {
        use crate::facts::usage::{DiskUsage, Usage};
        use crate::summarise::summarise;
        let of = |depth| {
            let mut data =
                fio_run(&["rw=write bs=128k direct=1 ioengine=libaio iodepth=32 fsync=1"], |_, _| {
                    vec![("throughput", 9e7)]
                });
            let member = |name| (name, 2560, 10 << 20, 1000, 50 << 20, 900);
            let array = ("md0", 0, 0, 800, 100 << 20, 950);
            with_work(&mut data, &[array, member("sda"), member("sdb"), member("sdc"), member("sdd")]);
            let disks = vec![DiskUsage { device: "md0".into(), depth: Some(depth), ..DiskUsage::default() }];
            let usages = [(data.trials[0].key.clone(), Usage { disks, ..Usage::default() })];
            let (summary, machine) = (summarise(&data, None), machine(Some(256)));
            let case = Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) };
            (RULE.run)(&case).len()
        };
        assert_eq!([of(1.7), of(30.0)], [0, 1]);
    }

    #[test]
    fn no_larger_cache_is_proposed_for_less_than_stripes_or_for_a_link_that_is_full() {
        use domain::units::Bytes;
        let of = |options: &str, chunk_kib, mib: u64| {
            let chunk = Some(Bytes::from_kib(chunk_kib));
            let md = Md { level: Some("raid6".into()), stripe_cache_size: Some(32), chunk, ..Md::default() };
            let mut machine = with_array(md, false, &["sda", "sdb", "sdc", "sdd"]);
            machine.devices.iter_mut().for_each(|device| device.transport = Some("sata".into()));
            let mut data = fio_run(&[options], |_, _| vec![("throughput", 9e8)]);
            let member = |name| (name, mib, mib << 18, 4 * mib, (mib << 20) - (mib << 18), 900);
            let array = ("md0", 0, 0, 4 * mib, 2 * ((mib << 20) - (mib << 18)), 990);
            with_work(&mut data, &[array, member("sda"), member("sdb"), member("sdc"), member("sdd")]);
            findings(RULE, &data, Some(&machine), None).len()
        };
        let (few, many) = (
            "rw=write bs=128k direct=1 ioengine=libaio iodepth=4",
            "rw=write bs=1m direct=1 ioengine=libaio iodepth=32",
        );
        assert_eq!([of(few, 64, 200), of(few, 512, 200)], [1, 0], "half a stripe");
        assert_eq!([of(many, 64, 200), of(many, 64, 520)], [1, 0], "a full link");
    }
}
