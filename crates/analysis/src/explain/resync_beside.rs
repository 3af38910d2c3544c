//! An array was synchronised, rebuilt or checked while the workload ran: shown where a study varied it, else
//! likely by the thread that did it.
//!
//! Sources: drivers/md/md.c (`md_do_sync`, `is_mddev_idle`); `Documentation/admin-guide/md.rst`
//! (`sync_action`, `sync_speed_min`).

use super::Rule;
use super::varied_setting::{self, NO_SETTING, Words};
use crate::facts::arrays::{Array, MIN_WAITED, arrays, in_flight, rotates, synchronising};
use crate::facts::case::{Case, CaseCell, evidence};
use crate::facts::cpu_share;
use crate::facts::usage::AT_LIMIT;
use crate::words::counted;
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::inventory::BlockKind;
use domain::stack::MdLevel;
use domain::trial::Validity;
use domain::units::Unit;
use std::collections::BTreeSet;

pub(super) const RULE: Rule = Rule {
    name: "resync-beside",
    doc: "An array was synchronised, rebuilt or checked while the workload ran.",
    needs: "cells that differ in the resync alone; else the threads of trials, or trials that were disturbed by a resync",
    source: "drivers/md/md.c (`md_do_sync`, `is_mddev_idle`); Documentation/admin-guide/md.rst (`sync_action`)",
    yields_to: &[],
    run,
};

const REASON: &str = "A resync reads every disk of the array from begin to end, and writes what differs. md slows it down while \
there is other work, to `sync_speed_min` at the least. On spinning disks each change between the two costs a seek.";

const BY_HAND: (&str, &str) = (
    "wait until it has ended (`mdadm --wait /dev/mdN`); a slower resync means longer without redundancy, and is not proposed",
    "nothing was changed",
);

const WORDS: Words = Words {
    rule: "resync-beside",
    is_about: NO_SETTING,
    keys: &["resync"],
    what: "a resync in the background",
    reason: |_, _| REASON.to_owned(),
    by_hand: BY_HAND,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    if varied_setting::is_varied(case, &WORDS) {
        return varied_setting::findings(case, &WORDS);
    }
    let figures: Vec<Evidence> = by_threads(case).into_iter().chain(by_disturbance(case)).collect();
    let Some(array) = figures.first().map(|_| array(case)) else { return Vec::new() };
    let name = array.as_deref().unwrap_or("an array");
    vec![Finding {
        rule: RULE.name,
        title: format!("{name} was synchronised or checked while the workload ran"),
        reason: REASON.into(),
        evidence: figures,
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(Remedy {
            what: format!(
                "{}; a check alone can be put off: `mdadm --misc --action=idle /dev/{node}`",
                BY_HAND.0.replace("mdN", array.as_deref().unwrap_or("mdN")),
                node = array.as_deref().unwrap_or("mdN")
            ),
            settings: vec![],
            undo: format!("`mdadm --misc --action=check /dev/{}`", array.as_deref().unwrap_or("mdN")),
        }),
        next: case.next_look(),
        compared: vec![],
    }]
}

/// The array whose thread was seen.
fn array(case: &Case<'_>) -> Option<String> {
    let cells = case.cells();
    cells.iter().find_map(|cell| names(cell).into_iter().find(|name| synchronising(cell, name).is_some()))
}

/// The arrays whose threads a cell's trials name: `md127` of `md127_resync`.
fn names(cell: &CaseCell<'_>) -> BTreeSet<String> {
    let threads = cell.trials.iter().filter_map(|t| t.measurement.as_ref()).flat_map(|m| &m.threads);
    let array = |name: &str| {
        let (array, _) = name.split_once('_')?;
        let number = array.strip_prefix("md")?;
        (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then(|| array.to_owned())
    };
    threads.filter_map(|thread| array(&thread.name)).collect()
}

/// Whether somebody waited for an array whose disks had little time left; also where that is not known.
fn is_waited_for(case: &Case<'_>, cell: &CaseCell<'_>) -> bool {
    let reads_ahead = cell.profile().reads_in_order() && !cell.profile().is_direct();
    let least = if cell.writes_behind() || reads_ahead { MIN_BUSY_BEHIND } else { MIN_BUSY };
    let waits = |array: &Array| {
        let known = array.waited_for(cell).zip(array.busiest(cell));
        let is_waited = known.is_none_or(|(waited, (_, did))| waited >= MIN_WAITED && did.busy >= least);
        let spins = rotates(case, array);
        let moves = MIN_OF_RESYNC[usize::from(spins)];
        let seeks = !spins || requests_of_resync(array, cell).is_none_or(|share| share >= MIN_OF_SEEKS);
        let moved = seeks && of_resync(array, cell).is_none_or(|share| share >= moves);
        let behind = if spins { None } else { behind_others(array, cell) };
        // Of few reads of flash their latencies tell it: those that wait for a resync's take longer.
        let is_asked = known.is_none_or(|(waited, _)| waited >= MIN_WAITED);
        let waits_behind = |share| is_asked && share >= MIN_BEHIND;
        // A thread that has no time left, or a cache of flash that is full, is what all wait for. That reads
        // pass the thread is due to the resync: of a disk that it fills they are computed.
        let by_thread = array.level.has_parity() && cell.profile().writes();
        let others_decide = by_thread && array.thread_share(cell) >= Some(AT_LIMIT)
            || cpu_share::waits_for_room_in_flash(case, cell);
        let moved = moved || reads_first_copies(case, cell, array);
        let waits = behind.map_or(is_waited, waits_behind) && moved && !others_decide;
        waits && reaches_disks(array, cell)
    };
    // An array that is known and did nothing is waited for by nobody.
    let knows_one =
        case.inventory.is_some_and(|all| all.devices.iter().any(|it| matches!(it.kind, BlockKind::Md(_))));
    let arrays = arrays(case, cell);
    arrays.is_empty() && !knows_one || arrays.iter().any(waits)
}

/// The share of their time by which requests take longer in the mean than half of them do: flash serves each
/// in the same time, but for those that wait for others. `None` of loads whose requests differ, and where
/// more are in flight than there are disks: these wait for one another, all of them the longer beside a
/// resync.
fn behind_others(array: &Array, cell: &CaseCell<'_>) -> Option<f64> {
    let profile = cell.profile();
    let members = u32::try_from(array.members.len()).unwrap_or(u32::MAX);
    // Writes to an array with parity differ by what is read before them.
    let take_the_same = if profile.is_direct() {
        profile.reads() || !array.level.has_parity() && !cell.is_synced()
    } else {
        cell.reads_at_random() && reaches_the_array(array, cell)
    };
    let are_few = profile.depth.is_some_and(|depth| depth <= members) && take_the_same;
    let (median, mean) = (cell.metric("latency_p50")?, cell.metric("latency_mean")?);
    (are_few && mean > 0.0).then(|| 1.0 - median / mean)
}

/// Whether reads of a mirror queue at one of its disks, while another has half as many or less: what is not
/// in step yet is read from the first of its copies alone (raid1.c, raid10.c, `read_balance`), however
/// little the resync itself moves. Of RAID1 one disk serves reads in order in any case.
fn reads_first_copies(case: &Case<'_>, cell: &CaseCell<'_>, array: &Array) -> bool {
    let is_mirror = matches!(array.level, MdLevel::Raid1 | MdLevel::Raid10);
    let by_one = array.level == MdLevel::Raid1 && cell.profile().reads_in_order();
    let members = array.members_did(cell).unwrap_or_default();
    let least = members.iter().map(|(_, did)| did.read).fold(f64::INFINITY, f64::min);
    let most = members.iter().max_by(|(_, a), (_, b)| a.read.total_cmp(&b.read));
    let queues = most.is_some_and(|(name, did)| {
        let is_uneven = least * 2.0 <= did.read && did.busy >= AT_LIMIT;
        is_uneven && in_flight(case, cell, name) >= Some(TWO_AT_ONCE)
    });
    is_mirror && cell.profile().reads() && !by_one && queues
}

/// Requests at a disk from which on another copy would have served one of them.
const TWO_AT_ONCE: f64 = 2.0;

/// Whether more than next to nothing of what a load wrote reached the array while it ran. The rest lies in
/// the page cache, and how fast that took it no disk decides.
fn reaches_disks(array: &Array, cell: &CaseCell<'_>) -> bool {
    let by_tool = cell.written_by_tool().filter(|_| cell.writes_behind());
    by_tool.zip(cell.did(&array.name)).is_none_or(|(tool, own)| own.written >= MIN_REACHES * tool)
}

/// Where less than this share of the bytes waits for disks, those that are twice as fast gain less than it.
const MIN_REACHES: f64 = 0.1;

/// Whether nearly each read through the page cache misses it, so that latencies are those of the array.
fn reaches_the_array(array: &Array, cell: &CaseCell<'_>) -> bool {
    let reads = cell.did(&array.name).map(|own| own.reads);
    reads.zip(cell.metric("iops")).is_some_and(|(reads, asked)| reads >= MISSES * asked)
}

/// Fewer reads of the array for each of the tool leave some to the page cache.
const MISSES: f64 = 0.9;

/// From this share on a tenth is gained without.
const MIN_BEHIND: f64 = 0.09;

/// The most that a resync can have been of what the members moved: all that they read beyond what the array
/// was asked for, and as much written.
fn of_resync(array: &Array, cell: &CaseCell<'_>) -> Option<f64> {
    let own = cell.did(&array.name).filter(|own| own.requests() > 0.0)?;
    let members = array.members_did(cell)?;
    let read: f64 = members.iter().map(|(_, did)| did.read).sum();
    let moved: f64 = read + members.iter().map(|(_, did)| did.written).sum::<f64>();
    (moved > 0.0).then(|| 2.0 * (read - own.read).max(0.0) / moved)
}

/// The most that a resync can have been of the members' requests: all their reads, and as many writes, where
/// the array itself reads nothing. What it reads may reach its members in other pieces.
fn requests_of_resync(array: &Array, cell: &CaseCell<'_>) -> Option<f64> {
    cell.did(&array.name).filter(|own| own.writes > 0.0 && own.reads == 0.0)?;
    let members = array.members_did(cell)?;
    let all: f64 = members.iter().map(|(_, did)| did.requests()).sum();
    let read: f64 = members.iter().map(|(_, did)| did.reads).sum();
    (all > 0.0).then(|| 2.0 * read / all)
}

/// A resync that moves less than this share takes no time of the disks that counts: of flash, from whose time
/// it takes as much, and of spinning ones, where each change between the two costs a seek.
const MIN_OF_RESYNC: [f64; 2] = [MIN_BEHIND, 0.02];

/// A change costs a spinning disk two seeks at the most, there and back: where fewer of its requests are the
/// resync's, less than a tenth of its time is.
const MIN_OF_SEEKS: f64 = 0.1;

/// Disks that are less busy have time for the resync as well.
const MIN_BUSY: f64 = 0.5;

/// Writes into the page cache, and reads ahead into it, wait for no single request: disks have to be busier
/// before they decide.
const MIN_BUSY_BEHIND: f64 = 0.7;

fn by_threads(case: &Case<'_>) -> Vec<Evidence> {
    let cells = case.cells();
    let seen = cells.iter().filter(|cell| is_waited_for(case, cell)).flat_map(|cell| {
        let arrays = names(cell).into_iter();
        let threads = arrays.filter_map(|array| synchronising(cell, &array));
        let told = threads.filter(|(_, cpu_s)| *cpu_s > 0.0).map(|(thread, cpu_s)| {
            evidence(
                format!("CPU time of `{thread}` in a trial, median"),
                Unit::Seconds.show(cpu_s),
                cell.source(),
            )
        });
        told.collect::<Vec<_>>()
    });
    seen.collect()
}

/// Trials that do not count since an array was synchronised meanwhile.
fn by_disturbance(case: &Case<'_>) -> Option<Evidence> {
    let of = |validity: &Validity| match validity {
        Validity::Disturbed(all) => all.iter().find(|d| d.kind == "resync").map(|d| d.detail.clone()),
        _ => None,
    };
    let told: Vec<String> = case.data.trials.iter().filter_map(|trial| of(&trial.validity)).collect();
    let figure = format!("{}: {}", counted(told.len(), "trial"), told.first()?);
    Some(evidence("trials that do not count for it", figure, "guards during the trials"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use domain::trace::Role;
    use domain::trial::Disturbance;

    fn quiet() -> crate::summary::RunData {
        fio_run(&["rw=randread bs=4k"], |cell, block| vec![("throughput", about(4e5, cell, block))])
    }

    #[test]
    fn the_thread_of_a_resync_is_found() {
        let mut data = quiet();
        with_thread(&mut data, "md127_resync", Role::Array, 40);
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!(found.title, "md127 was synchronised or checked while the workload ran");
        assert_eq!(found.evidence[0].figure, "40.0 ms");
        assert_eq!(found.remedy.unwrap().undo, "`mdadm --misc --action=check /dev/md127`");
    }

    #[test]
    fn a_resync_that_moved_next_to_nothing_beside_the_load_is_no_finding() {
        use domain::inventory::Md;
        let md = Md { level: Some("raid10".into()), ..Md::default() };
        let machine = with_array(md, true, &["sda", "sdb"]);
        let of = |each: u64| {
            let mut data = quiet();
            let member = |name| (name, 100, each, 0, 0, 950);
            with_work(&mut data, &[("md0", 200, 200 << 20, 0, 0, 990), member("sda"), member("sdb")]);
            with_thread(&mut data, "md0_resync", Role::Array, 1);
            findings(RULE, &data, Some(&machine), None).len()
        };
        assert_eq!([of(101 << 20), of(103 << 20), of(130 << 20)], [0, 1, 1]);
    }

    #[test]
    fn single_reads_of_flash_tell_by_their_latency_whether_they_wait_for_a_resync() {
        use domain::inventory::Md;
        let md = Md { level: Some("raid10".into()), ..Md::default() };
        let of_depth = |depth: u32, rotational, mean: f64| {
            let options = format!("rw=randread bs=4k direct=1 ioengine=libaio iodepth={depth}");
            let mut data = fio_run(&[&options], move |_, _| {
                vec![("throughput", 3e7), ("latency_p50", 100e-6), ("latency_mean", mean)]
            });
            let member = |name| (name, 9000, 90 << 20, 0, 0, 600);
            with_work(&mut data, &[("md0", 8000, 32 << 20, 0, 0, 970), member("sda"), member("sdb")]);
            with_thread(&mut data, "md0_resync", Role::Array, 6);
            findings(RULE, &data, Some(&with_array(md.clone(), rotational, &["sda", "sdb"])), None).len()
        };
        let of = |rotational, mean| of_depth(1, rotational, mean);
        assert_eq!([of(false, 101e-6), of(false, 120e-6), of(true, 101e-6)], [0, 1, 1]);
        assert_eq!([of_depth(2, false, 101e-6), of_depth(4, false, 101e-6)], [0, 1]);
    }

    #[test]
    fn single_reads_that_miss_the_page_cache_tell_it_as_well() {
        use domain::inventory::Md;
        let md = Md { level: Some("raid10".into()), ..Md::default() };
        let of = |reads: u64, mean: f64| {
            let mut data = fio_run(&["rw=randread bs=4k"], move |_, _| {
                vec![("iops", 8000.0), ("latency_p50", 100e-6), ("latency_mean", mean)]
            });
            // Disks that would seem to have time for both.
            let member = |name| (name, 9000, 90 << 20, 0, 0, 400);
            with_work(&mut data, &[("md0", reads, 32 << 20, 0, 0, 970), member("sda"), member("sdb")]);
            with_thread(&mut data, "md0_resync", Role::Array, 6);
            findings(RULE, &data, Some(&with_array(md.clone(), false, &["sda", "sdb"])), None).len()
        };
        assert_eq!([of(8000, 120e-6), of(8000, 101e-6), of(4000, 120e-6)], [1, 0, 0]);
    }

    #[test]
    fn trials_that_a_resync_disturbed_are_told() {
        let mut data = quiet();
        let resync = Disturbance {
            kind: "resync".into(),
            detail: "arrays were being synchronised (md0: check)".into(),
        };
        data.trials[0].validity = Validity::Disturbed(vec![resync]);
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!(found.evidence[0].figure, "1 trial: arrays were being synchronised (md0: check)");
    }

    #[test]
    fn the_arrays_own_thread_one_that_slept_or_another_disturbance_are_no_finding() {
        let mut data = quiet();
        with_thread(&mut data, "md127_raid5", Role::Array, 900);
        with_thread(&mut data, "md126_resync", Role::Array, 0);
        let steal = Disturbance { kind: "steal".into(), detail: String::new() };
        data.trials[0].validity = Validity::Disturbed(vec![steal]);
        assert!(findings(RULE, &data, None, None).is_empty());
        assert!(findings(RULE, &quiet(), None, None).is_empty());
    }

    #[test]
    fn reads_in_order_and_writes_of_a_mirror_tell_by_their_latency_as_well() {
        use domain::inventory::Md;
        let of = |level: &str, options: &str, mean: f64| {
            let md = Md { level: Some(level.into()), ..Md::default() };
            let mut data = fio_run(&[options], move |_, _| {
                vec![("throughput", 3e7), ("latency_p50", 44e-6), ("latency_mean", mean)]
            });
            let member = |name| (name, 1569, 98 << 20, 8300, 34 << 20, 450);
            with_work(&mut data, &[("md0", 0, 0, 16_600, 68 << 20, 810), member("sda"), member("sdb")]);
            with_thread(&mut data, "md0_resync", Role::Array, 6);
            findings(RULE, &data, Some(&with_array(md, false, &["sda", "sdb"])), None).len()
        };
        let (reads, writes) = ("rw=read bs=128k direct=1", "rw=randwrite bs=4k direct=1");
        assert_eq!([of("raid10", reads, 55e-6), of("raid10", reads, 45e-6)], [1, 0]);
        assert_eq!([of("raid10", writes, 55e-6), of("raid10", writes, 45e-6)], [1, 0]);
        assert_eq!(of("raid5", writes, 55e-6), 0, "some are read for");
    }

    #[test]
    fn reads_ahead_of_a_reader_wait_for_disks_that_are_busy() {
        use domain::inventory::Md;
        let of = |busy_ms: u64| {
            let md = Md { level: Some("raid10".into()), ..Md::default() };
            let mut data = fio_run(&["rw=read bs=4k"], |_, _| vec![("throughput", 3e8)]);
            let member = |name| (name, 7100, 280 << 20, 0, 0, busy_ms);
            with_work(&mut data, &[("md0", 11_000, 350 << 20, 0, 0, 800), member("sda"), member("sdb")]);
            with_thread(&mut data, "md0_resync", Role::Array, 6);
            findings(RULE, &data, Some(&with_array(md, false, &["sda", "sdb"])), None).len()
        };
        assert_eq!([of(620), of(900)], [0, 1]);
    }

    #[test]
    fn a_mirror_that_is_not_in_step_is_read_from_the_first_of_its_copies() {
        use crate::facts::usage::{DiskUsage, Usage};
        use crate::summarise::summarise;
        use domain::inventory::Md;
        let of = |level: &str, second: u64, depth: f64| {
            let md = Md { level: Some(level.into()), ..Md::default() };
            let machine = with_array(md, false, &["sda", "sdb"]);
            let mut data = fio_run(&["rw=read bs=1m"], |_, _| vec![("throughput", 5e8)]);
            let disk = |name, reads: u64| (name, reads, reads << 16, 0, 0, 999);
            let work = [disk("md0", 7900), disk("sda", 8000 - second), disk("sdb", second)];
            with_work(&mut data, &work);
            with_thread(&mut data, "md0_resync", Role::Array, 6);
            let sda = DiskUsage { device: "sda".into(), depth: Some(depth), ..DiskUsage::default() };
            let usages = [(data.trials[0].key.clone(), Usage { disks: vec![sda], ..Usage::default() })];
            let summary = summarise(&data, None);
            let case = Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) };
            (RULE.run)(&case).len()
        };
        assert_eq!([of("raid10", 100, 7.0), of("raid10", 3900, 7.0), of("raid10", 100, 1.0)], [1, 0, 0]);
        assert_eq!(of("raid1", 100, 7.0), 0, "one disk serves it");
    }

    #[test]
    fn reads_pass_the_thread_since_there_is_a_resync() {
        use domain::inventory::Md;
        let of = |rw: &str| {
            let md = Md { level: Some("raid5".into()), ..Md::default() };
            let options = format!("rw={rw} bs=1m direct=1 ioengine=libaio iodepth=32");
            let mut data = fio_run(&[&options], |_, _| vec![("throughput", 7e8)]);
            let member = |name| (name, 1800, 620 << 20, 300, 300 << 12, 620);
            with_work(&mut data, &[("md0", 1000, 1000 << 20, 0, 0, 980), member("sda"), member("sdb")]);
            with_thread(&mut data, "md0_resync", Role::Array, 6);
            with_thread(&mut data, "md0_raid5", Role::Array, 960);
            findings(RULE, &data, Some(&with_array(md, false, &["sda", "sdb"])), None).len()
        };
        assert_eq!([of("randread"), of("randwrite")], [1, 0]);
    }

    #[test]
    fn what_the_page_cache_takes_waits_for_no_disk() {
        use domain::inventory::Md;
        let of = |by_tool: f64| {
            let md = Md { level: Some("raid10".into()), ..Md::default() };
            let mut data = fio_run(&["rw=randwrite bs=4k"], move |_, _| vec![("write_throughput", by_tool)]);
            let member = |name| (name, 270, 270 << 16, 400, 400 << 12, 990);
            with_work(&mut data, &[("md0", 0, 0, 800, 800 << 12, 980), member("sda"), member("sdb")]);
            with_thread(&mut data, "md0_resync", Role::Array, 6);
            findings(RULE, &data, Some(&with_array(md, true, &["sda", "sdb"])), None).len()
        };
        assert_eq!([of(56e6), of(5e6)], [0, 1]);
    }

    #[test]
    fn a_resync_that_is_a_small_part_of_all_is_no_finding() {
        use domain::inventory::Md;
        // Bytes count on flash, and on spinning disks requests.
        let of = |rotational, reads: u64, each: u64| {
            let md = Md { level: Some("raid10".into()), ..Md::default() };
            let options = "rw=randwrite bs=4k direct=1 ioengine=libaio iodepth=32";
            let mut data = fio_run(&[options], |_, _| vec![("throughput", 3e6)]);
            let member = |name| (name, reads, reads * each, 366, 366 * 4096, 980);
            with_work(&mut data, &[("md0", 0, 0, 366, 366 * 4096, 990), member("sda"), member("sdb")]);
            with_thread(&mut data, "md0_resync", Role::Array, 6);
            findings(RULE, &data, Some(&with_array(md, rotational, &["sda", "sdb"])), None).len()
        };
        assert_eq!([of(true, 17, 65_536), of(true, 60, 65_536)], [0, 1]);
        assert_eq!([of(false, 14, 4096), of(false, 60, 4096)], [0, 1]);
    }

    #[test]
    fn a_resync_that_others_than_disks_outweigh_is_no_finding() {
        use domain::inventory::Md;
        let of = |level: &str, (options, mean): (&str, f64), thread_ms, md_busy| {
            let md = Md { level: Some(level.into()), ..Md::default() };
            let mut data = fio_run(&[options], move |_, _| {
                vec![("throughput", 7e8), ("latency_p50", 59e-6), ("latency_mean", mean)]
            });
            let member = |name| (name, 4400, 480 << 20, 3400, 360 << 20, 970);
            with_work(&mut data, &[("md0", 0, 0, 5494, 686 << 20, md_busy), member("sda"), member("sdb")]);
            with_thread(&mut data, "md0_resync", Role::Array, 6);
            with_thread(&mut data, "md0_raid5", Role::Array, thread_ms);
            findings(RULE, &data, Some(&with_array(md, false, &["sda", "sdb"])), Some("md0")).len()
        };
        let deep = ("rw=randwrite bs=128k direct=1 ioengine=libaio iodepth=32", 60e-6);
        assert_eq!([of("raid5", deep, 500, 990), of("raid5", deep, 920, 990)], [1, 0]);
        let single = |mean| ("rw=write bs=128k direct=1", mean);
        assert_eq!([of("raid10", single(80e-6), 0, 990), of("raid10", single(283e-6), 0, 990)], [1, 0]);
        assert_eq!(of("raid10", single(80e-6), 0, 10), 0, "nobody waits for the array");
    }
}
