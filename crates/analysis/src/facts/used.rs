//! How devices were used: what a load does that no options tell, a server or a process that was watched.
//!
//! Reads through the page cache are submitted as read-ahead, in order or not (kernel mm/readahead.c), and
//! writes through it by the kernel's own writing back, for which nobody waits (mm/page-writeback.c). What is
//! submitted otherwise passes the cache by, or is waited for as if it did.

use domain::access::{AccessPattern, Accesses};
use domain::inventory::Inventory;
use domain::trial::{DiskTotals, Trial};
use workloads::{Cache, Direction, Profile};

/// Fewer bios than this may be anybody's.
const MIN_BIOS: u64 = 100;

/// A load that reads may write a little: timestamps, a log.
const MOSTLY: f64 = 0.95;

/// In order are reads and writes of which so much continues what was before: a file has more than one piece,
/// programs are loaded beside, and some records are missing.
const MIN_IN_ORDER: f64 = 0.8;

/// Here and there are those of which no more does.
const MAX_AT_RANDOM: f64 = 0.1;

/// A bound on the layers between a device and its disks.
const MAX_LAYERS: usize = 16;

/// What a device's load does; `None` where too little was submitted to tell.
pub(crate) fn profile(pattern: &AccessPattern) -> Option<Profile> {
    let AccessPattern { reads, writes } = pattern;
    if reads.bios + writes.bios < MIN_BIOS {
        return None;
    }
    let of_reads = reads.sectors as f64 / (reads.sectors as f64 + writes.sectors as f64);
    let in_order = reads.share_in_order() >= Some(MIN_IN_ORDER);
    let direction = match of_reads >= MOSTLY {
        true if in_order => Direction::ReadsInOrder,
        true => Direction::Reads,
        false => Direction::Writes,
    };
    let passes_cache_by = match direction {
        Direction::Reads | Direction::ReadsInOrder => reads.share_ahead() < Some(0.5),
        Direction::Writes => writes.share_synchronous() >= Some(0.5),
        Direction::Unknown => false,
    };
    let cache = if passes_cache_by { Cache::Direct } else { Cache::Buffered };
    Some(Profile { cache, direction, depth: None })
}

/// Whether these are here and there.
pub(crate) fn is_random(accesses: &Accesses) -> bool {
    accesses.share_in_order().is_some_and(|share| share <= MAX_AT_RANDOM)
}

/// Whether nearly all that is done is written, one byte after another.
pub(crate) fn writes_in_order(pattern: &AccessPattern) -> bool {
    let AccessPattern { reads, writes } = pattern;
    let of_writes = writes.sectors as f64 / (reads.sectors as f64 + writes.sectors as f64);
    writes.bios >= MIN_BIOS && of_writes >= MOSTLY && writes.share_in_order() >= Some(MIN_IN_ORDER)
}

/// The device that a watched load uses: that which was given most bytes, of those that carry one another the
/// uppermost.
pub(crate) fn most_used<'a>(inventory: Option<&Inventory>, trials: &[&'a Trial]) -> Option<&'a str> {
    let measured = trials.iter().find_map(|trial| trial.measurement.as_ref())?;
    let size = |disk: &DiskTotals| {
        disk.accesses.map(|pattern| pattern.reads.sectors.saturating_add(pattern.writes.sectors))
    };
    let used: Vec<(&str, u64)> =
        measured.disks.iter().filter_map(|disk| Some((disk.device.as_str(), size(disk)?))).collect();
    let (mut most, _) = used.iter().copied().max_by_key(|(_, sectors)| *sectors)?;
    for _ in 0..MAX_LAYERS {
        let above = used.iter().filter(|(name, _)| is_built_of(inventory, name, most));
        let Some((above, _)) = above.max_by_key(|(_, sectors)| *sectors) else { break };
        most = above;
    }
    Some(most)
}

/// Whether one device lies on another, or on a part of it.
fn is_built_of(inventory: Option<&Inventory>, upper: &str, lower: &str) -> bool {
    let Some(inventory) = inventory else { return false };
    let is_upper = |name: &str| inventory.built_on(name).any(|above| above.name == upper);
    is_upper(lower) || inventory.built_on(lower).any(|part| is_upper(&part.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::testing::{bare_machine, on_disk};
    use domain::Nanos;

    fn some(bios: u64, in_order: u64, ahead: u64, synchronous: u64) -> Accesses {
        Accesses { bios, sectors: bios * 8, in_order: in_order * 8, ahead, synchronous }
    }

    fn of(reads: Accesses, writes: Accesses) -> Option<(Direction, Cache)> {
        profile(&AccessPattern { reads, writes }).map(|profile| (profile.direction, profile.cache))
    }

    #[test]
    fn what_a_load_does_is_seen_in_what_its_device_is_given() {
        let none = Accesses::default();
        assert_eq!(of(some(1000, 990, 980, 0), none), Some((Direction::ReadsInOrder, Cache::Buffered)));
        assert_eq!(of(some(1000, 990, 0, 0), none), Some((Direction::ReadsInOrder, Cache::Direct)));
        assert_eq!(of(some(1000, 20, 990, 0), none), Some((Direction::Reads, Cache::Buffered)));
        assert_eq!(of(some(1000, 20, 0, 990), none), Some((Direction::Reads, Cache::Direct)));
        assert_eq!(of(some(1000, 990, 980, 0), some(20, 0, 0, 20)).unwrap().0, Direction::ReadsInOrder);
        assert_eq!(of(some(500, 0, 0, 0), some(500, 0, 0, 490)), Some((Direction::Writes, Cache::Direct)));
        assert_eq!(of(none, some(500, 450, 0, 20)), Some((Direction::Writes, Cache::Buffered)));
        assert_eq!(of(some(50, 49, 49, 0), none), None, "too few to tell");
        assert!(writes_in_order(&AccessPattern { reads: none, writes: some(500, 490, 0, 0) }));
        assert!(!writes_in_order(&AccessPattern { reads: some(100, 0, 0, 0), writes: some(500, 490, 0, 0) }));
        assert!(is_random(&some(100, 5, 0, 0)) && !is_random(&some(100, 50, 0, 0)) && !is_random(&none));
    }

    #[test]
    fn of_devices_that_carry_one_another_the_uppermost_is_what_is_used() {
        let disk = |device: &str, bios| DiskTotals {
            device: device.into(),
            read_ios: bios,
            read_sectors: bios * 8,
            write_ios: 0,
            write_sectors: 0,
            busy: Nanos::ZERO,
            accesses: Some(AccessPattern { reads: some(bios, 0, 0, 0), writes: Accesses::default() }),
            served: Default::default(),
            passage: None,
        };
        let with = |disks: Vec<DiskTotals>| {
            let mut data = crate::explain::testing::fio_run(&["rw=read"], |_, _| vec![]);
            data.trials[0].measurement.as_mut().unwrap().disks = disks;
            data.trials.swap_remove(0)
        };
        let used = |inventory: Option<&Inventory>, disks: Vec<DiskTotals>| {
            most_used(inventory, &[&with(disks)]).map(str::to_owned)
        };
        let array = || vec![disk("sda", 1000), disk("md0", 900), disk("vda", 10)];
        assert_eq!(used(Some(&on_disk(true)), array()).as_deref(), Some("md0"));
        assert_eq!(used(Some(&bare_machine()), array()).as_deref(), Some("sda"));
        assert_eq!(used(None, array()).as_deref(), Some("sda"));
        assert_eq!(used(None, vec![]), None);
    }
}
