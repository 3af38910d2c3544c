//! The write-intent bitmap of an array: shown where a study varied it; likely where the disks of a mirror
//! write more than the copies need, or those of an array with parity more than data and parity, and the array
//! waits for that; possible where a load that writes in order comes to so many regions of it.
//!
//! Sources: md(4), "BITMAP WRITE-INTENT LOGGING"; drivers/md/md-bitmap.c (`bitmap_startwrite`,
//! `bitmap_unplug`); mdadm(8), `--bitmap-chunk`.

use super::Rule;
use super::varied_setting::{self, NO_SETTING, Words};
use crate::facts::arrays::{Array, Did, MIN_WAITED, arrays, disks_below, in_flight, rotates, synchronising};
use crate::facts::case::{Case, CaseCell, evidence};
use crate::stats::quantile::median;
use crate::words::percent;
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::inventory::WriteCache;
use domain::stack::MdLevel;
use domain::units::{Bytes, Unit, significant};

pub(super) const RULE: Rule = Rule {
    name: "bitmap",
    doc: "An array's write-intent bitmap costs writes of its own before the data are written.",
    needs: "cells that differ in the bitmap alone; else what an array and its members did in trials, and the array's copies, level or bitmap chunk",
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

/// The bitmap's updates are waited for in so much of the time, at the least: less is lost in what else writes
/// wait for, and next to nothing is the superblock's.
const MIN_WAITING: f64 = 0.1;

/// Seconds that an update takes a spinning disk of 7200 revolutions a minute: it writes out its cache, and
/// then the page, each of which waits for the platter for half a revolution in the mean.
const OF_A_PLATTER: f64 = 8.3e-3;

/// Seconds that it takes flash whose cache is volatile, at the least: it programs a page. Of three bits a
/// cell that takes some 0.9 ms (32 dies with pages of 16 KiB write 520 MB/s: data sheet of Samsung's 850
/// EVO).
const OF_FLASH: f64 = 0.9e-3;

/// An update empties the caches of all members before its page is written, which no counter of writes shows:
/// where so many of their writes are pages of the bitmap, flushes are as many.
const MIN_OF_WRITES: f64 = 0.1;

/// What the bitmap is written in.
const PAGE: f64 = 4096.0;

fn run(case: &Case<'_>) -> Vec<Finding> {
    if varied_setting::is_varied(case, &WORDS) {
        return varied_setting::findings(case, &WORDS);
    }
    let cells = case.cells();
    let found = cells.iter().flat_map(|cell| {
        let arrays = arrays(case, cell).into_iter();
        arrays.filter_map(|array| Some((cell, Further::of(case, &array, cell)?, array))).collect::<Vec<_>>()
    });
    let most = found.max_by(|(_, a, _), (_, b, _)| a.waiting.total_cmp(&b.waiting));
    if let Some((cell, further, array)) = most {
        return vec![finding(case, cell, &further, &array)];
    }
    let passed = cells.iter().flat_map(|cell| {
        let arrays = arrays(case, cell).into_iter();
        arrays.filter_map(|array| Some((cell, Regions::of(case, &array, cell)?, array))).collect::<Vec<_>>()
    });
    let most = passed.max_by(|(_, a, _), (_, b, _)| a.waiting.total_cmp(&b.waiting));
    most.map(|(cell, regions, array)| by_regions(case, cell, &regions, &array)).into_iter().collect()
}

/// What writes in order ask of the bitmap: each region that they come to has a bit to be set. Those that are
/// in flight together, and in the stripe cache together, may share an update.
struct Regions {
    /// Of the array, that a bit stands for.
    chunk: Bytes,
    /// Updates a second, at the least.
    updates: f64,
    /// The least share of the time in which one was waited for.
    waiting: f64,
}

impl Regions {
    fn of(case: &Case<'_>, array: &Array, cell: &CaseCell<'_>) -> Option<Self> {
        if array.has_bitmap != Some(true) || synchronising(cell, &array.name).is_some() {
            return None;
        }
        let (own, chunk) = (cell.did(&array.name)?, array.bitmap_chunk?);
        let cached = array.stripe_cache_size.filter(|_| array.level.has_parity());
        let cached = cached.map_or(f64::INFINITY, |size| array.cached(size));
        let together = cell.bytes_in_flight()?.min(cached).max(chunk.get() as f64);
        let updates = own.written / together;
        let members = array.members_did(cell)?;
        let written = members.iter().filter(|(_, did)| did.writes > 0.0);
        let slowest =
            written.map(|(name, did)| of_a_write(case, cell, name, did)).fold(forced(case, array), f64::max);
        let waiting = (updates * slowest).min(1.0);
        let counts = cell.writes_in_order() && array.waited_for(cell)? >= MIN_WAITED;
        (counts && waiting >= MIN_WAITING).then_some(Self { chunk, updates, waiting })
    }
}

/// Seconds that an update takes the slowest kind of disk of an array at the least, which writes out its cache
/// for it; 0 where that is not known.
fn forced(case: &Case<'_>, array: &Array) -> f64 {
    if rotates(case, array) {
        OF_A_PLATTER
    } else if has_volatile_cache(case, array) {
        OF_FLASH
    } else {
        0.0
    }
}

fn by_regions(case: &Case<'_>, cell: &CaseCell<'_>, regions: &Regions, array: &Array) -> Finding {
    let (what, undo) = BY_HAND;
    let name = &array.name;
    let Regions { chunk, updates, waiting } = regions;
    let source = format!("/proc/diskstats in {}", cell.source());
    Finding {
        rule: RULE.name,
        title: format!(
            "the bitmap of {name} has a bit for each {chunk}: writes of {} in order may wait for {} updates of it a second",
            cell.named(),
            significant(*updates)
        ),
        reason: REASON.into(),
        evidence: vec![
            evidence("bitmap chunk", chunk.to_string(), array.source.clone()),
            evidence(
                "updates a second, where all that is in flight and in the stripe cache shares one",
                significant(*updates),
                source,
            ),
            evidence(
                "time in which one of these was waited for, at least",
                percent(*waiting),
                "the time of a member's write",
            ),
        ],
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy { what: what.replace("mdN", name), settings: vec![], undo: undo.into() }),
        next: case.show_again(),
        compared: vec![],
    }
}

/// Pages that members write beyond what the array was given.
struct Further {
    /// For each write of the array's own, all members together.
    share: f64,
    /// The least share of the time in which an update of the bitmap was waited for.
    waiting: f64,
    figures: Vec<Evidence>,
}

impl Further {
    /// Members write no byte more often than [`most_for_a_byte`] says, however requests are split and merged,
    /// and one that is missing makes it less. What they write beyond that is the array's own account. Each
    /// page of it goes to all members, and the array waits until the slowest has it. What a resync writes
    /// cannot be told from it.
    fn of(case: &Case<'_>, array: &Array, cell: &CaseCell<'_>) -> Option<Self> {
        if array.has_bitmap != Some(true) || synchronising(cell, &array.name).is_some() {
            return None;
        }
        let own = cell.did(&array.name).filter(|own| own.writes > 0.0)?;
        let members = array.members_did(cell)?;
        let written = members.iter().map(|(_, did)| did.written).sum::<f64>();
        let times = most_for_a_byte(array, cell, &own, &members)?;
        let pages = (written - own.written * times - ahead(case, cell, array, &own) * times) / PAGE;
        let slowest = members
            .iter()
            .map(|(name, did)| of_a_write(case, cell, name, did))
            .fold(forced(case, array), f64::max);
        let waiting = (pages / members.len() as f64 * slowest).min(1.0);
        let source = format!("/proc/diskstats in {}", cell.source());
        let rate = |bytes| Unit::BytesPerSecond.show(bytes);
        let figures = vec![
            evidence(format!("written to {}", array.name), rate(own.written), source.clone()),
            evidence("written by its members, all together", rate(written), source.clone()),
            evidence(
                "at most written for each byte: its copies, or data and parity",
                significant(times),
                array.source.clone(),
            ),
            evidence(
                "time in which an update of the bitmap was waited for, at least",
                percent(waiting),
                source,
            ),
        ];
        let writes = members.iter().map(|(_, did)| did.writes).sum::<f64>();
        let is_waited_for = waiting >= MIN_WAITING || pages >= MIN_OF_WRITES * writes;
        let counts = is_waited_for && array.waited_for(cell)? >= MIN_WAITED;
        counts.then_some(Self { share: pages / own.writes, waiting, figures })
    }
}

/// Bytes a second by which members are ahead of the array in a trial, at most: they have done their parts of
/// what it has in flight at the end, and it has not.
fn ahead(case: &Case<'_>, cell: &CaseCell<'_>, array: &Array, own: &Did) -> f64 {
    let seconds = cell.median_of(|measured| cell.loaded(measured));
    let bytes = in_flight(case, cell, &array.name).map(|depth| depth * own.written / own.writes);
    bytes.zip(seconds).map_or(0.0, |(bytes, seconds)| bytes / seconds)
}

/// Whether the kernel has a member write out its cache.
fn has_volatile_cache(case: &Case<'_>, array: &Array) -> bool {
    let below = |member: &String| case.inventory.map(|inventory| disks_below(inventory, member));
    let mut disks = array.members.iter().filter_map(below).flatten();
    disks.any(|disk| disk.queue.as_ref().and_then(|queue| queue.write_cache) == Some(WriteCache::WriteBack))
}

/// How often members write a byte of an array at most: a mirror for each copy. With parity a byte changes one
/// of each parity. Stripes that are written whole share their parities: in order, and without a read. Here
/// and there nothing may be read either, where the cache has the stripes.
fn most_for_a_byte(array: &Array, cell: &CaseCell<'_>, own: &Did, members: &[(&str, Did)]) -> Option<f64> {
    // A missing disk of RAID1 had a copy of each byte, one of RAID10 a copy of some.
    if array.level == MdLevel::Raid1 {
        return Some(f64::from(array.copies?.saturating_sub(array.missing)));
    }
    if array.level == MdLevel::Raid10 {
        return array.copies.map(f64::from);
    }
    if !array.level.has_parity() {
        return None;
    }
    let all = members.len() as f64 + f64::from(array.missing);
    let data = array.data_members() as f64;
    let read = members.iter().map(|(_, did)| did.read).sum::<f64>() - own.read;
    // Parity rotates, so that the missing disk would have had as much of all as each of the others.
    let there = members.len() as f64 / all;
    let is_whole = array.missing == 0 && cell.writes_in_order() && read <= EDGES * own.written;
    Some(if is_whole { all / data + read / own.written } else { (1.0 + all - data) * there })
}

/// Less is read, for each byte that is written, where stripes are written whole: at the edges of requests.
const EDGES: f64 = 0.01;

/// Seconds that a write of a device takes in the mean; where no trace tells, as if it served one at a time,
/// which is less.
fn of_a_write(case: &Case<'_>, cell: &CaseCell<'_>, device: &str, did: &Did) -> f64 {
    let own = case.usages.iter().filter(|(key, _)| key.cell == cell.cell.id);
    let disks = own.filter_map(|(_, usage)| usage.disks.iter().find(|disk| disk.device == device));
    let latencies: Vec<f64> = disks.filter_map(|disk| disk.write.latency).collect();
    median(&latencies).unwrap_or(did.busy / did.requests().max(1.0))
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>, further: &Further, array: &Array) -> Finding {
    let (what, undo) = BY_HAND;
    Finding {
        rule: RULE.name,
        title: format!(
            "the disks of {} write {} pages more for each write of {}: its bitmap is kept up to date",
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
        assert!(found[0].title.starts_with("the disks of md0 write 1.20 pages more"), "{}", found[0].title);
        assert!(found[0].remedy.as_ref().unwrap().what.starts_with("a larger bitmap chunk makes the resync"));
    }

    #[test]
    fn copies_alone_an_idle_array_or_no_bitmap_are_no_finding() {
        assert!(findings(RULE, &writes(101, 900), Some(&machine("+8")), None).is_empty());
        assert!(findings(RULE, &writes(160, 200), Some(&machine("+8")), None).is_empty());
        assert!(findings(RULE, &writes(160, 900), Some(&machine("none")), None).is_empty());
    }

    #[test]
    fn writes_that_are_split_are_no_more_bytes() {
        let of = |further: u64| {
            let mut data = writes(160, 900);
            let member = |name| (name, 0, 0, 400 + further, (100 << 20) + further * 4096, 900);
            with_work(&mut data, &[("md0", 0, 0, 100, 100 << 20, 990), member("sda"), member("sdb")]);
            findings(RULE, &data, Some(&machine("+8")), None).len()
        };
        assert_eq!([of(0), of(90)], [0, 1]);
    }

    #[test]
    fn what_members_have_done_of_writes_in_flight_is_no_bitmap() {
        use crate::facts::usage::{DiskUsage, Usage};
        let of = |depth: f64| {
            let mut data = fio_run(&["rw=write bs=1m"], |_, _| vec![("throughput", 1e8)]);
            // Forty of a hundred large writes more than the array has done.
            let member = |name| (name, 0, 0, 140, 140 << 20, 900);
            with_work(&mut data, &[("md0", 0, 0, 100, 100 << 20, 990), member("sda"), member("sdb")]);
            let disk = DiskUsage { device: "md0".into(), depth: Some(depth), ..DiskUsage::default() };
            let usages = [(data.trials[0].key.clone(), Usage { disks: vec![disk], ..Usage::default() })];
            let summary = crate::summarise::summarise(&data, None);
            let machine = machine("+8");
            (RULE.run)(&Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) })
                .len()
        };
        assert_eq!([of(1.0), of(50.0)], [1, 0]);
    }

    #[test]
    fn updates_that_are_soon_done_cost_nothing() {
        let of = |rotational, busy_ms| {
            let mut machine = machine("+8");
            let queues = machine.devices.iter_mut().filter_map(|device| device.queue.as_mut());
            queues.for_each(|queue| queue.rotational = Some(rotational));
            let mut data = writes(160, 900);
            let member = |name| (name, 0, 0, 1050, 1050 * 4096, busy_ms);
            with_work(&mut data, &[("md0", 0, 0, 1000, 4_096_000, 900), member("sda"), member("sdb")]);
            findings(RULE, &data, Some(&machine), None).len()
        };
        // Fifty pages a second beyond the copies: what a spinning disk has in its cache is soon done, a
        // forced page is not.
        assert_eq!([of(false, 300), of(true, 300)], [0, 1]);
    }

    #[test]
    fn a_missing_disk_hides_no_bitmap() {
        let mut machine = machine("+8");
        for device in &mut machine.devices {
            if let domain::inventory::BlockKind::Md(md) = &mut device.kind {
                (md.raid_disks, md.degraded) = (Some(3), Some(1));
            }
        }
        // Two copies of a hundred writes are left, and what two disks write beyond them.
        let of = |each| findings(RULE, &writes(each, 900), Some(&machine), None).len();
        assert_eq!([of(105), of(145)], [0, 1]);
    }

    #[test]
    fn whole_stripes_share_their_parity() {
        let md = Md { level: Some("raid5".into()), bitmap: Some("+8".into()), ..Md::default() };
        let machine = with_array(md, true, &["sda", "sdb", "sdc"]);
        let of = |rw: &str, read: u64| {
            let options = format!("rw={rw} bs=128k");
            let mut data = fio_run(&[&options], |cell, block| vec![("throughput", about(1e7, cell, block))]);
            // Half of 10 MB and forty pages of the bitmap.
            let member = |name| (name, 10, read, 120, (5 << 20) + 40 * 4096, 500);
            with_work(
                &mut data,
                &[("md0", 0, 0, 80, 10 << 20, 900), member("sda"), member("sdb"), member("sdc")],
            );
            findings(RULE, &data, Some(&machine), None).len()
        };
        assert_eq!([of("write", 0), of("write", 1 << 20), of("randwrite", 0)], [1, 0, 0]);
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
    fn writes_in_order_come_to_many_regions_of_a_small_bitmap_chunk() {
        let of = |options: &str, chunk: Option<u64>, cache: u32| {
            let md = Md {
                level: Some("raid5".into()),
                bitmap: Some("+8".into()),
                bitmap_chunk: chunk.map(Bytes::from_kib),
                stripe_cache_size: Some(cache),
                ..Md::default()
            };
            let machine = with_array(md, true, &["sda", "sdb", "sdc"]);
            let mut data = fio_run(&[options], |_, _| vec![("throughput", 3e7)]);
            // A third is read before it is written, so that writes beyond data and parity are not known.
            let member = |name| (name, 80, 4 << 20, 120, 17 << 20, 500);
            with_work(
                &mut data,
                &[("md0", 0, 0, 240, 30 << 20, 990), member("sda"), member("sdb"), member("sdc")],
            );
            findings(RULE, &data, Some(&machine), None).pop()
        };
        let deep = "rw=write bs=128k ioengine=libaio iodepth=32 direct=1";
        // 30 MiB a second, of which 256 stripes of 8 KiB are in the cache at once: 15 updates of 8.3 ms.
        let found = of(deep, Some(64), 256).unwrap();
        assert_eq!(
            found.title,
            "the bitmap of md0 has a bit for each 64 KiB: writes of w0 in order may wait for 15.0 updates of it a second"
        );
        assert_eq!((found.confidence, found.evidence[2].figure.as_str()), (Confidence::Possible, "12.5%"));
        assert_eq!(of(deep, Some(64 << 10), 256), None);
        assert_eq!(of(deep, None, 256), None);
        assert_eq!(of("rw=randwrite bs=128k ioengine=libaio iodepth=32 direct=1", Some(64), 256), None);
        // Eight times as many stripes, and the requests in flight are what bounds it: 4 MiB.
        assert_eq!(of(deep, Some(64), 2048), None);
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

    #[test]
    fn flash_with_a_volatile_cache_programs_a_page_for_each_update() {
        use domain::inventory::WriteCache;
        let of = |cache| {
            let mut machine = machine("+8");
            for queue in machine.devices.iter_mut().filter_map(|device| device.queue.as_mut()) {
                (queue.rotational, queue.write_cache) = (Some(false), Some(cache));
            }
            let mut data = writes(160, 900);
            // Two hundred pages a second, of which the counters of writes show a tenth of the time at most.
            let member = |name| (name, 0, 0, 13_700, 13_700 * 4096, 300);
            with_work(&mut data, &[("md0", 0, 0, 13_500, 13_500 * 4096, 900), member("sda"), member("sdb")]);
            findings(RULE, &data, Some(&machine), None).len()
        };
        assert_eq!([of(WriteCache::WriteBack), of(WriteCache::WriteThrough)], [1, 0]);
    }

    #[test]
    fn the_missing_disk_of_an_array_with_parity_had_its_part_of_all() {
        let of = |each: u64| {
            let md = Md {
                level: Some("raid6".into()),
                bitmap: Some("+8".into()),
                degraded: Some(1),
                ..Md::default()
            };
            let machine = with_array(md, true, &["sda", "sdb", "sdc"]);
            let mut data = fio_run(&["rw=randwrite bs=4k direct=1"], |_, _| vec![("throughput", 4e5)]);
            let member = |name| (name, 50, 204_800, each, each * 4096, 300);
            // Two and a quarter pages for each of two hundred writes are 150 for each disk that is left.
            with_work(
                &mut data,
                &[("md0", 0, 0, 200, 819_200, 900), member("sda"), member("sdb"), member("sdc")],
            );
            findings(RULE, &data, Some(&machine), None).len()
        };
        assert_eq!([of(151), of(185)], [0, 1]);
    }
}
