//! The stripe cache of RAID 4, 5 and 6 is full of requests while the array's disks and its thread have time
//! left: what a load asks for waits to be let in.
//!
//! Each stripe that is worked on takes a place of the cache. Where all are taken, the submitter waits in
//! `raid5_get_active_stripe` until a quarter of them is free again. So requests in flight on the array that
//! take three quarters of the places, in the mean, are as many as the cache lets in (Little's law).
//!
//! Since Linux 4.1 the size is the least one: whenever a submitter found no stripe, the thread adds one when
//! it has nothing else to do (`R5_ALLOC_MORE`). What a load keeps in flight is in the cache after so many
//! passes of the thread, so that a small size costs it nothing for long.
//!
//! A resync takes its stripes from the same cache. Where none is free it waits for one, and a tick more so
//! that it does not swamp the cache. A full cache thus holds the resync back in favour of the load, and a
//! larger one lets it go on.
//!
//! Sources: drivers/md/raid5.c (`raid5_get_active_stripe`, `raid5_make_request`, `raid5_sync_request`);
//! `Documentation/admin-guide/md.rst` (`stripe_cache_size`); Little, Operations Research 9(3), 1961.

use super::Rule;
use super::read_modify_write::Extra;
use super::{stripe_cache, varied_setting};
use crate::facts::arrays::{Array, Did, MIN_WAITED, PAGE, arrays, in_flight, synchronising};
use crate::facts::case::{Case, CaseCell, evidence};
use crate::facts::usage::AT_LIMIT;
use crate::words::percent;
use domain::finding::{Confidence, Finding};
use domain::units::significant;

pub(super) const RULE: Rule = Rule {
    name: "stripe-cache-full",
    doc: "The stripe cache of an array with parity is full of requests, while its disks and its thread have time left.",
    needs: "a recording's trace: requests in flight on the array; what the array and its members did in trials; `stripe_cache_size` in the inventory",
    source: "drivers/md/raid5.c (`raid5_get_active_stripe`); Documentation/admin-guide/md.rst (`stripe_cache_size`)",
    yields_to: &["stripe-cache", "slowest-member"],
    run,
};

/// Submitters that found no free stripe go on when so much of the cache is in use, and no more.
const FULL: f64 = 0.75;

/// A cache that holds fewer requests than this leaves disks and thread waiting for one another.
const FEW: f64 = 4.0;

/// A cache that has grown to what is in flight within this share of a trial was too small for no time that
/// counts.
const SOON: f64 = 0.1;

/// Whole stripes are written without a read: from this share of what is written on some were not whole.
const SOME_READ: f64 = 0.01;

fn run(case: &Case<'_>) -> Vec<Finding> {
    if varied_setting::is_varied(case, &stripe_cache::WORDS) {
        return Vec::new();
    }
    let cells = case.cells();
    let found = cells.iter().filter(|cell| cell.profile().writes()).find_map(|cell| of_cell(case, cell));
    found.into_iter().collect()
}

fn of_cell(case: &Case<'_>, cell: &CaseCell<'_>) -> Option<Finding> {
    let is_meant = |array: &Array| array.level.has_parity() && synchronising(cell, &array.name).is_none();
    arrays(case, cell).into_iter().filter(is_meant).find_map(|array| {
        let size = array.stripe_cache_size.filter(|size| *size < stripe_cache::TO_TRY)?;
        let own = cell.did(&array.name).filter(|own| own.writes > 0.0 && own.written > own.read)?;
        let each = stripes_of_a_write(&array, cell, &own);
        let taken = in_flight(case, cell, &array.name)? * each;
        // A stripe is done when the last of its disks is.
        let (_, busiest) = array.busiest(cell)?;
        let have_time = busiest.busy < AT_LIMIT && array.thread_share(cell)? < AT_LIMIT;
        // Writes in order that are not yet whole stripes may become so; others need more side by side.
        let is_partial = || Extra::of(&array, cell).is_none_or(|extra| extra.share >= SOME_READ);
        let is_in_order = cell.writes_in_order();
        let holds_few = || f64::from(size) / each < FEW && !has_grown(cell, &own, (size, each));
        let may_fill = || !stripe_cache::fills_none(case, &array, cell);
        let gains = if is_in_order { is_partial() && may_fill() } else { holds_few() };
        let is_full = taken >= FULL * f64::from(size) && array.waited_for(cell)? >= MIN_WAITED;
        (is_full && have_time && gains).then(|| finding(cell, &array, (size, taken), busiest.busy))
    })
}

/// Whether the cache soon held all that the load keeps in flight. A thread that has time left is woken by
/// each write at least once, and has added a stripe when it sleeps again.
fn has_grown(cell: &CaseCell<'_>, own: &Did, (size, each): (u32, f64)) -> bool {
    let depth = cell.profile().depth.filter(|_| !cell.writes_behind());
    let seconds = cell.median_of(|measured| cell.loaded(measured)).unwrap_or(0.0);
    let lacking = |depth: u32| f64::from(depth) * each - f64::from(size);
    depth.is_some_and(|depth| lacking(depth) <= SOON * own.writes * seconds)
}

/// How many stripes a write of the array takes, at the least: those that its bytes fill, and where it begins
/// anywhere, one for each page of a chunk.
fn stripes_of_a_write(array: &Array, cell: &CaseCell<'_>, own: &Did) -> f64 {
    let bytes = own.written / own.writes;
    let filled = bytes / (PAGE * array.data_members().max(1) as f64);
    let chunk = array.chunk.map_or(bytes, |chunk| chunk.get() as f64);
    if cell.writes_in_order() { filled } else { filled.max(bytes.min(chunk) / PAGE) }
}

fn finding(cell: &CaseCell<'_>, array: &Array, (size, taken): (u32, f64), busy: f64) -> Finding {
    let name = &array.name;
    let source = format!("/proc/diskstats in {}", cell.source());
    Finding {
        rule: RULE.name,
        title: format!(
            "writes of {} wait for room in the stripe cache of {name}, whose busiest disk was so for {} of the time",
            cell.named(),
            percent(busy)
        ),
        reason: "Each stripe that is worked on takes a place of the cache. Where all are taken, whoever submits waits until a \
quarter is free again, and disks and the array's thread get no more to do meanwhile. A larger cache lets more requests in, \
and takes memory: a page for each member in each stripe."
            .into(),
        evidence: vec![
            evidence(
                "stripes that requests in flight take, mean",
                significant(taken),
                "requests in flight, by the size of a write",
            ),
            evidence("stripe_cache_size, in pages a member", size.to_string(), array.source.clone()),
            evidence("time in which its busiest member was busy", percent(busy), source),
        ],
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(stripe_cache::remedy(array, ", and measure what that gains")),
        next: stripe_cache::next(array),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::facts::usage::{DiskUsage, Usage};
    use crate::summarise::summarise;
    use domain::inventory::Md;
    use domain::trace::Role;
    use domain::units::Bytes;

    fn found(rw: &str, depth: f64, size: u32, busy_ms: [u64; 2]) -> usize {
        found_with(rw, depth, size, busy_ms, 500)
    }

    /// Writes of 1 MiB to a RAID5 of four, so many in flight on the array, whose thread and disks are busy
    /// for so long of a second, while each disk reads so often.
    fn found_with(rw: &str, depth: f64, size: u32, busy_ms: [u64; 2], reads: u64) -> usize {
        let options = format!("rw={rw} bs=1m direct=1 ioengine=libaio iodepth=32");
        found_beside(&[], &options, depth, size, busy_ms, reads)
    }

    fn found_of(options: &str, depth: f64, size: u32, busy_ms: [u64; 2], reads: u64) -> usize {
        found_beside(&[], options, depth, size, busy_ms, reads)
    }

    /// The same beside further threads of the array.
    fn found_beside(
        threads: &[&str],
        options: &str,
        depth: f64,
        size: u32,
        [thread_ms, members_ms]: [u64; 2],
        reads: u64,
    ) -> usize {
        let mut data = fio_run(&[options], |cell, block| vec![("throughput", about(7e8, cell, block))]);
        let member = |name| (name, reads, reads << 18, 900, 340 << 20, members_ms);
        with_work(
            &mut data,
            &[("md0", 0, 0, 700, 700 << 20, 990), member("sda"), member("sdb"), member("sdc"), member("sdd")],
        );
        with_thread(&mut data, "md0_raid5", Role::Array, thread_ms);
        threads.iter().for_each(|thread| with_thread(&mut data, thread, Role::Array, 6));
        let md = Md {
            level: Some("raid5".into()),
            chunk: Some(Bytes::from_kib(512)),
            stripe_cache_size: Some(size),
            ..Md::default()
        };
        let machine = with_array(md, false, &["sda", "sdb", "sdc", "sdd"]);
        let md0 = DiskUsage { device: "md0".into(), busy: 0.99, depth: Some(depth), ..DiskUsage::default() };
        let usages = [(data.trials[0].key.clone(), Usage { disks: vec![md0], ..Usage::default() })];
        let summary = summarise(&data, None);
        let case = Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) };
        (RULE.run)(&case).len()
    }

    #[test]
    fn a_full_cache_is_found_where_disks_and_thread_have_time() {
        // 1 MiB over chunks of 512 KiB takes 128 stripes.
        assert_eq!(found("randwrite", 3.3, 256, [820, 650]), 1);
        assert_eq!(found("randwrite", 1.0, 256, [820, 650]), 0, "there is room");
        assert_eq!(found("randwrite", 3.3, 256, [950, 650]), 0, "the thread has no time");
        assert_eq!(found("randwrite", 3.3, 256, [820, 950]), 0, "the disks have no time");
        assert_eq!(found("randwrite", 90.0, 2048, [820, 650]), 0, "it holds as many as keep disks busy");
    }

    #[test]
    fn a_full_cache_holds_a_resync_back_in_favour_of_the_load() {
        let options = "rw=randwrite bs=1m direct=1 ioengine=libaio iodepth=32";
        let of = |threads: &[&str]| found_beside(threads, options, 3.3, 256, [820, 650], 500);
        assert_eq!([of(&[]), of(&["md1_resync"]), of(&["md0_resync"])], [1, 1, 0]);
    }

    #[test]
    fn a_cache_that_has_grown_to_what_is_in_flight_is_large_enough() {
        let of = |depth: u32, writes: u64| {
            let options = format!("rw=randwrite bs=64k direct=1 ioengine=libaio iodepth={depth}");
            let mut data = fio_run(&[&options], |cell, block| vec![("throughput", about(2e7, cell, block))]);
            let member = |name| (name, writes, 0, writes, writes << 15, 700);
            let array = ("md0", 0, 0, writes, writes << 16, 990);
            with_work(&mut data, &[array, member("sda"), member("sdb"), member("sdc")]);
            with_thread(&mut data, "md0_raid5", Role::Array, 30);
            let chunk = Some(Bytes::from_kib(512));
            let md = Md { level: Some("raid5".into()), chunk, stripe_cache_size: Some(32), ..Md::default() };
            let machine = with_array(md, true, &["sda", "sdb", "sdc"]);
            let md0 = DiskUsage { device: "md0".into(), depth: Some(4.0), ..DiskUsage::default() };
            let usages = [(data.trials[0].key.clone(), Usage { disks: vec![md0], ..Usage::default() })];
            let summary = summarise(&data, None);
            let case = Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) };
            (RULE.run)(&case).len()
        };
        // Four writes lack 32 stripes, 32 of them 480.
        assert_eq!([of(4, 330), of(4, 300), of(32, 330)], [0, 1, 1]);
    }

    #[test]
    fn an_array_that_lacks_a_disk_gets_no_larger_cache_without_a_measurement() {
        let of = |missing| {
            let options = "rw=randwrite bs=64k direct=1 ioengine=libaio iodepth=32";
            let mut data = fio_run(&[options], |cell, block| vec![("throughput", about(2e7, cell, block))]);
            let member = |name| (name, 300, 0, 300, 300 << 15, 700);
            let array = ("md0", 0, 0, 300, 300 << 16, 990);
            with_work(&mut data, &[array, member("sda"), member("sdb"), member("sdc")]);
            with_thread(&mut data, "md0_raid5", Role::Array, 30);
            let md = Md {
                level: Some("raid5".into()),
                chunk: Some(Bytes::from_kib(512)),
                stripe_cache_size: Some(32),
                degraded: Some(missing),
                ..Md::default()
            };
            let machine = with_array(md, true, &["sda", "sdb", "sdc"]);
            let md0 = DiskUsage { device: "md0".into(), depth: Some(4.0), ..DiskUsage::default() };
            let usages = [(data.trials[0].key.clone(), Usage { disks: vec![md0], ..Usage::default() })];
            let summary = summarise(&data, None);
            let case = Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) };
            let found = (RULE.run)(&case).swap_remove(0);
            (found.remedy.unwrap().settings.len(), found.next)
        };
        assert_eq!(of(0), (1, "flyball tune --set stripe_cache_size@md0=4096 --persist".into()));
        assert_eq!(of(1), (0, "flyball tune --set stripe_cache_size@md0=4096 -- COMMAND".into()));
    }

    #[test]
    fn writes_in_order_take_whole_stripes() {
        // 1 MiB fills 85 stripes of three pages.
        assert_eq!([found("write", 2.5, 256, [500, 500]), found("write", 2.0, 256, [500, 500])], [1, 0]);
        assert_eq!(found_with("write", 2.5, 256, [500, 500], 0), 0, "all stripes are whole");
        // Of chunks of 512 KiB on three disks, 3 MiB are two stripes.
        let of = |depth: u32| {
            let options = format!("rw=write bs=1m direct=1 ioengine=libaio iodepth={depth}");
            found_of(&options, 2.5, 256, [500, 500], 500)
        };
        assert_eq!([of(2), of(4)], [0, 1], "less than whole stripes in flight");
    }
}
