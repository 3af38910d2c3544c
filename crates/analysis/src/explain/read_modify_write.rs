//! An array with parity reads from its disks in order to write: the counters of the disks show it.
//!
//! The array's own reads are those of its users; what its disks read beyond them is old data and old parity.
//!
//! Sources: drivers/md/raid5.c (`handle_stripe_dirtying`); md(4), "RAID4" and "RAID5".

use super::Rule;
use crate::facts::arrays::{Array, Did, MIN_WAITED, arrays, synchronising};
use crate::facts::case::{Case, CaseCell, evidence};
use crate::facts::used;
use crate::stats::quantile::median;
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::units::{Bytes, Unit, significant};

pub(super) const RULE: Rule = Rule {
    name: "read-modify-write",
    doc: "An array with parity reads old data and parity from its disks before it writes.",
    needs: "what the array and its members did in trials; the array in the inventory or in the study; of large single writes a recording's trace",
    source: "drivers/md/raid5.c (`handle_stripe_dirtying`); md(4)",
    yields_to: &["parity-writes", "stripe-cache"],
    run,
};

/// Below this share of what is written the reads are at the edges of whole stripes.
const MIN_READ: f64 = 0.5;

/// So many reads of its disks for each write of the array, and each write waits for one, however few bytes
/// they are. Of writes of several stripes they are at the edges. An array that is read as well has more
/// requests below it than it was given, for reads are split at chunks.
const MIN_READS: f64 = 1.0;
const STRIPES_WITH_EDGES: f64 = 2.0;

/// An array that is read less than this share of what is written is one that is written to.
const MAX_READ: f64 = 0.05;

/// What an array's members read that nobody asked it for.
pub(super) struct Extra {
    /// Bytes for each byte that was written to the array.
    pub share: f64,
    /// Requests for each write of the array.
    requests: f64,
    /// How many stripes a write of the array fills, mean; infinite where the chunk is not known.
    stripes: f64,
    /// The same a second.
    pub read: f64,
    /// The array's own.
    pub own: Did,
    /// The share of the time in which somebody waited for the array.
    pub waited: f64,
    /// The busiest member, and how busy it was.
    pub busiest: (String, f64),
}

impl Extra {
    /// Of an array with parity that was written to, and whose members served nothing else; `None` where that
    /// is not known or not so.
    pub(super) fn of(array: &Array, cell: &CaseCell<'_>) -> Option<Self> {
        let own = cell.did(&array.name).filter(|own| own.written > 0.0)?;
        // Of an array that lacks a disk, what reads of the missing data cost cannot be told apart.
        let only_writes = own.read <= MAX_READ * own.written;
        if !array.level.has_parity()
            || synchronising(cell, &array.name).is_some()
            || array.missing > 0 && !only_writes
        {
            return None;
        }
        let members = array.members_did(cell)?;
        let read = members.iter().map(|(_, did)| did.read).sum::<f64>() - own.read;
        let requests = members.iter().map(|(_, did)| did.reads).sum::<f64>() - own.reads;
        let (name, did) = array.busiest(cell)?;
        let busiest = (name.to_owned(), did.busy);
        let requests = requests / own.writes.max(f64::MIN_POSITIVE);
        let stripes = array.stripe().map_or(f64::INFINITY, |stripe| own.written / own.writes / stripe);
        Some(Self {
            share: read / own.written,
            requests,
            stripes,
            read,
            own,
            waited: array.waited_for(cell)?,
            busiest,
        })
    }
}

impl Extra {
    /// Whether the array's writes wait for reads of its disks.
    pub(super) fn reads_first(&self) -> bool {
        let is_written = self.own.read <= MAX_READ * self.own.written;
        let at_edges = self.requests >= MIN_READS && self.stripes <= STRIPES_WITH_EDGES;
        self.share >= MIN_READ || is_written && at_edges
    }
}

fn run(case: &Case<'_>) -> Vec<Finding> {
    let cells = case.cells();
    let found = cells.iter().flat_map(|cell| {
        let arrays = arrays(case, cell).into_iter();
        arrays.filter_map(|array| Some((cell, Extra::of(&array, cell)?, array))).collect::<Vec<_>>()
    });
    let reads = found.filter(|(cell, extra, array)| {
        let waits = extra.reads_first() || waits_for_edges(case, cell, array, extra);
        waits && extra.waited >= MIN_WAITED
    });
    // Of several cells the one in which it is most.
    let most = reads.max_by(|(_, a, _), (_, b, _)| a.share.total_cmp(&b.share));
    let by_reads = most.map(|(cell, extra, array)| finding(case, cell, &extra, &array));
    by_reads.or_else(|| cells.iter().find_map(|cell| by_size(case, cell))).into_iter().collect()
}

/// Whether a load that waits for each of its writes, with no more of them in flight than there are disks,
/// waits for reads at their edges, however few bytes they are: they are done before anything of the write
/// is. Of several writes in order each fills the edge of the one before. Of the reads that a write needs,
/// those of one disk at least are one after the other.
fn waits_for_edges(case: &Case<'_>, cell: &CaseCell<'_>, array: &Array, extra: &Extra) -> bool {
    let members = u32::try_from(array.members.len()).unwrap_or(u32::MAX);
    let most = if writes_at_random(cell) { members } else { 1 };
    let is_single = cell.profile().depth.is_some_and(|depth| depth <= most) && cell.profile().is_direct();
    let waiting = array.members.iter().filter_map(|name| {
        let each = cell.did(name)?.reads / extra.own.writes.max(f64::MIN_POSITIVE);
        Some(each.min(1.0) * latency_of_reads(case, cell, name)?)
    });
    let longest = waiting.fold(0.0, f64::max);
    let is_first = extra.requests >= MIN_READS && extra.own.read <= MAX_READ * extra.own.written;
    let write = cell.metric("latency_mean").filter(|latency| *latency > 0.0);
    is_single && is_first && write.is_some_and(|write| longest >= MIN_OF_A_WRITE * write)
}

/// Less of a write's time is lost in what else it waits for.
const MIN_OF_A_WRITE: f64 = 0.1;

/// Seconds that a read of a device takes, mean; the median of its traces.
fn latency_of_reads(case: &Case<'_>, cell: &CaseCell<'_>, device: &str) -> Option<f64> {
    let own = case.usages.iter().filter(|(key, _)| key.cell == cell.cell.id);
    let disks = own.filter_map(|(_, usage)| usage.disks.iter().find(|disk| disk.device == device));
    median(&disks.filter_map(|disk| disk.read.latency).collect::<Vec<f64>>())
}

/// Beside a resync nobody can tell which reads are for writes. That random writes of less than a stripe
/// need them is how the level works.
fn by_size(case: &Case<'_>, cell: &CaseCell<'_>) -> Option<Finding> {
    let all = arrays(case, cell).into_iter();
    let mut resyncing =
        all.filter(|array| array.level.has_parity() && synchronising(cell, &array.name).is_some());
    let array = resyncing.find(|array| array.waited_for(cell) >= Some(MIN_WAITED))?;
    let own = cell.did(&array.name).filter(|own| own.writes > 0.0 && own.read <= MAX_READ * own.written)?;
    let (size, chunk) = (Bytes::new((own.written / own.writes) as u64), array.chunk?);
    if !writes_parts(&array, cell) {
        return None;
    }
    let name = &array.name;
    let source = format!("/proc/diskstats in {}", cell.source());
    Some(Finding {
        rule: RULE.name,
        title: format!(
            "{name} is written to at random, {size} at a time: it may have to read before it writes"
        ),
        reason: format!(
            "A write that is less than a stripe changes the parity too. md reads the old data and the old parity, or the rest \
of the stripe, before it writes. How much of what the disks of {name} read was for that cannot be told beside a resync."
        ),
        evidence: vec![
            evidence(format!("size of a write of {name}, mean"), size.to_string(), source),
            evidence("chunk", chunk.to_string(), array.source.clone()),
            evidence(
                "level and members",
                format!("RAID{}, {}", array.level.name(), array.members.len()),
                array.source.clone(),
            ),
        ],
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(remedy()),
        next: case.show_again(),
        compared: vec![],
    })
}

/// Whether each write is less than a stripe, and the next one lies anywhere: none of them fills what another
/// began.
pub(super) fn writes_parts(array: &Array, cell: &CaseCell<'_>) -> bool {
    let at_random = writes_at_random(cell);
    let size = cell.did(&array.name).filter(|own| own.writes > 0.0).map(|own| own.written / own.writes);
    at_random && size.zip(array.stripe()).is_some_and(|(size, stripe)| size < stripe)
}

/// Whether the next write lies anywhere.
fn writes_at_random(cell: &CaseCell<'_>) -> bool {
    match cell.access() {
        Some(access) => access == "randwrite",
        None => cell.pattern().is_some_and(|pattern| used::is_random(&pattern.writes)),
    }
}

fn remedy() -> Remedy {
    Remedy {
        what: "let the application write whole stripes, or choose RAID10 for small writes; what either gains was not measured \
here"
            .into(),
        settings: vec![],
        undo: "an array's level is chosen when it is made: copy the data away, and back".into(),
    }
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>, extra: &Extra, array: &Array) -> Finding {
    let name = &array.name;
    let source = format!("/proc/diskstats in {}", cell.source());
    let bytes = |value| Unit::BytesPerSecond.show(value);
    Finding {
        rule: RULE.name,
        title: format!(
            "{name} reads {} times what is written to it, from its disks, before it writes",
            significant(extra.share)
        ),
        reason: format!(
            "A write that is less than a stripe changes the parity too. md reads the old data and the old parity, or the rest \
of the stripe, before it writes. These reads are on the path of each write: {name} had writes in flight for {} of the time.",
            percent(extra.waited)
        ),
        evidence: vec![
            evidence(format!("written to {name}"), bytes(extra.own.written), source.clone()),
            evidence(format!("read from {name}"), bytes(extra.own.read), source.clone()),
            evidence("read from its members beyond that", bytes(extra.read), source.clone()),
            evidence(
                format!("time in which {name} had requests in flight"),
                percent(extra.waited),
                source.clone(),
            ),
            evidence(format!("time in which {} was busy", extra.busiest.0), percent(extra.busiest.1), source),
            evidence(
                "level and members",
                format!("RAID{}, {}", array.level.name(), array.members.len()),
                array.source.clone(),
            ),
        ],
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(remedy()),
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
    use domain::trace::Role;

    const MEMBERS: &[&str] = &["sda", "sdb", "sdc"];

    fn machine(level: &str, degraded: u32) -> Inventory {
        let md = Md { level: Some(level.into()), degraded: Some(degraded), ..Md::default() };
        with_array(md, true, MEMBERS)
    }

    /// Random writes of 4 KiB, for each of which the array reads so many times as much. The array is busy for
    /// so long of a second, its disks for less.
    fn writes(read_times: u64, busy_ms: u64) -> RunData {
        let mut data = fio_run(&["rw=randwrite bs=4k direct=1"], |cell, block| {
            vec![("throughput", about(4e5, cell, block))]
        });
        let member = |name| (name, 30 * read_times, 131_072 * read_times, 70, 262_144, 300);
        let array = ("md0", 0, 0, 96, 393_216, busy_ms);
        with_work(&mut data, &[array, member("sda"), member("sdb"), member("sdc")]);
        data
    }

    #[test]
    fn reads_that_nobody_asked_for_are_found_at_the_disks() {
        let found = findings(RULE, &writes(2, 800), Some(&machine("raid5", 0)), None);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(
            found[0].title,
            "md0 reads 2.00 times what is written to it, from its disks, before it writes"
        );
        assert_eq!(found[0].confidence, Confidence::Likely);
        assert!(found[0].remedy.as_ref().unwrap().settings.is_empty());
    }

    #[test]
    fn a_read_for_each_write_counts_where_the_edges_of_writes_are_most_of_them() {
        use domain::units::Bytes;
        let of = |chunk_kib: u64, reads: u64| {
            let md =
                Md { level: Some("raid5".into()), chunk: Some(Bytes::from_kib(chunk_kib)), ..Md::default() };
            let mut data = fio_run(&["rw=randwrite bs=64k direct=1"], |cell, block| {
                vec![("throughput", about(6.5e6, cell, block))]
            });
            let member = |name| (name, reads, reads * 4096, 100, 3 << 20, 300);
            with_work(
                &mut data,
                &[("md0", 0, 0, 100, 6_553_600, 900), member("sda"), member("sdb"), member("sdc")],
            );
            findings(RULE, &data, Some(&with_array(md, true, MEMBERS)), None).len()
        };
        assert_eq!([of(32, 40), of(32, 20), of(8, 40)], [1, 0, 0]);
    }

    #[test]
    fn reads_that_the_array_was_asked_for_are_no_edges_though_they_are_split() {
        use domain::units::Bytes;
        let of = |asked: u64| {
            let chunk = Some(Bytes::from_kib(32));
            let md = Md { level: Some("raid5".into()), chunk, ..Md::default() };
            let mut data = fio_run(&["rw=randrw bs=64k direct=1"], |cell, block| {
                vec![("throughput", about(6.5e6, cell, block))]
            });
            // Each read of the array is two of its disks.
            let own = asked * 65_536;
            let member = |name| (name, 40 + asked * 2 / 3, 40 * 4096 + own / 3, 100, 3 << 20, 300);
            let array = ("md0", asked, own, 100, 6_553_600, 900);
            with_work(&mut data, &[array, member("sda"), member("sdb"), member("sdc")]);
            findings(RULE, &data, Some(&with_array(md, true, MEMBERS)), None).len()
        };
        assert_eq!([of(0), of(100)], [1, 0]);
    }

    #[test]
    fn single_writes_of_many_stripes_wait_for_reads_at_their_edges() {
        use crate::facts::usage::{DiskUsage, Transfers, Usage};
        use crate::summarise::summarise;
        use domain::units::Bytes;
        let of = |options: &str, latency: f64| {
            let chunk = Some(Bytes::from_kib(64));
            let machine =
                with_array(Md { level: Some("raid5".into()), chunk, ..Md::default() }, false, MEMBERS);
            let mut data = fio_run(&[options], |_, _| vec![("throughput", 6e8), ("latency_mean", 1.6e-3)]);
            let member = |name, reads| (name, reads, reads * 8192, 600, 300 << 20, 300);
            let array = ("md0", 0, 0, 600, 600 << 20, 730);
            with_work(&mut data, &[array, member("sda", 600), member("sdb", 0), member("sdc", 0)]);
            let read = Transfers { latency: Some(latency), ..Transfers::default() };
            let disks = vec![DiskUsage { device: "sda".into(), read, ..DiskUsage::default() }];
            let usages = [(data.trials[0].key.clone(), Usage { disks, ..Usage::default() })];
            let summary = summarise(&data, None);
            (RULE.run)(&Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) })
                .len()
        };
        let single = "rw=write bs=1m direct=1";
        assert_eq!([of(single, 400e-6), of(single, 100e-6)], [1, 0]);
        assert_eq!(of("rw=write bs=1m direct=1 ioengine=libaio iodepth=32", 400e-6), 0);
    }

    #[test]
    fn whole_stripes_an_idle_array_and_mirrors_are_no_finding() {
        assert!(findings(RULE, &writes(0, 800), Some(&machine("raid5", 0)), None).is_empty());
        assert!(findings(RULE, &writes(2, 100), Some(&machine("raid5", 0)), None).is_empty());
        assert!(findings(RULE, &writes(2, 800), Some(&machine("raid10", 0)), None).is_empty());
    }

    #[test]
    fn reads_of_a_rebuild_are_not_those_of_writes() {
        assert_eq!(
            findings(RULE, &writes(2, 800), Some(&machine("raid5", 1)), None).len(),
            1,
            "it only writes"
        );
        let mut data = writes(2, 800);
        with_thread(&mut data, "md0_resync", Role::Array, 20);
        assert!(findings(RULE, &data, Some(&machine("raid5", 0)), None).is_empty());
    }

    #[test]
    fn beside_a_resync_small_random_writes_are_possibly_those_that_read() {
        let of = |level: &str, chunk_kib: u64| {
            let md =
                Md { chunk: Some(Bytes::from_kib(chunk_kib)), level: Some(level.into()), ..Md::default() };
            let mut data = writes(2, 800);
            with_thread(&mut data, "md0_resync", Role::Array, 20);
            findings(RULE, &data, Some(&with_array(md, true, MEMBERS)), None)
        };
        let found = of("raid5", 64).swap_remove(0);
        assert_eq!(
            found.title,
            "md0 is written to at random, 4 KiB at a time: it may have to read before it writes"
        );
        assert_eq!(found.confidence, Confidence::Possible);
        assert!(of("raid10", 64).is_empty() && of("raid5", 2).is_empty(), "no parity, whole stripes");
    }

    #[test]
    fn an_unknown_array_or_disks_that_were_not_recorded_are_no_evidence() {
        assert!(findings(RULE, &writes(2, 800), None, None).is_empty());
        let data = fio_run(&["rw=randwrite"], |cell, block| vec![("throughput", about(4e5, cell, block))]);
        assert!(findings(RULE, &data, Some(&machine("raid5", 0)), None).is_empty());
    }

    #[test]
    fn the_array_that_a_study_builds_is_known_by_what_its_trials_found() {
        let mut data = storage_run(&[FOUR_DISKS, RAID5], "array.chunk", &[("64KiB", 4e5)]);
        let member = |name| (name, 60, 262_144, 70, 262_144, 800);
        with_work(
            &mut data,
            &[
                ("md9", 0, 0, 128, 524_288, 900),
                member("loop0"),
                member("loop1"),
                member("loop2"),
                member("loop3"),
            ],
        );
        assert!(findings(RULE, &data, None, None).is_empty());
        with_environment(&mut data, &[("devices", "md9 > loop0 > loop1 > loop2 > loop3 > vda")]);
        let found = findings(RULE, &data, None, None);
        assert!(found[0].title.starts_with("md9 reads 2.00 times"), "{found:#?}");
    }

    #[test]
    fn as_many_random_writes_as_there_are_disks_wait_for_reads_at_their_edges() {
        use crate::facts::usage::{DiskUsage, Transfers, Usage};
        use crate::summarise::summarise;
        use domain::units::Bytes;
        let of = |rw: &str, depth: u32| {
            let chunk = Some(Bytes::from_kib(4));
            let machine =
                with_array(Md { level: Some("raid5".into()), chunk, ..Md::default() }, false, MEMBERS);
            let options = format!("rw={rw} bs=64k direct=1 ioengine=libaio iodepth={depth}");
            let mut data = fio_run(&[&options], |_, _| vec![("throughput", 4e8), ("latency_mean", 588e-6)]);
            let member = |name, reads| (name, reads, reads * 4096, 9000, 210 << 20, 700);
            let array = ("md0", 0, 0, 6700, 6700 << 16, 990);
            with_work(&mut data, &[array, member("sda", 4500), member("sdb", 4500), member("sdc", 4500)]);
            let read = Transfers { latency: Some(309e-6), ..Transfers::default() };
            let disks = vec![DiskUsage { device: "sda".into(), read, ..DiskUsage::default() }];
            let usages = [(data.trials[0].key.clone(), Usage { disks, ..Usage::default() })];
            let summary = summarise(&data, None);
            (RULE.run)(&Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) })
                .len()
        };
        assert_eq!([of("randwrite", 3), of("randwrite", 32), of("write", 3)], [1, 0, 0]);
    }
}
