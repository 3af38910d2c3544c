//! How much of a request's time is the CPU's, and what faster CPUs can give at most.
//!
//! A closed loop of N requests in flight does X of them a second, each of which takes R = N/X. With U cores
//! in use, the CPU's own time of a request is U/X. It waits behind others for the busiest thread: where that
//! is busy for a share u of its time, 1/(1-u) times as long in the mean. So the CPU's share of R is
//! U/N/(1-u), and 1 at most. A bound, no prediction: what is done beside the request counts as well.
//!
//! Two loads differ from that. Writes into the page cache wait for no request of theirs: they are as fast
//! as the slowest stage on the way to the disks, so that the busiest thread's time is the most that the
//! CPUs can have of it. A spinning disk that has the next writes in its own cache, or in the page cache,
//! works while the CPUs do, so that these have a part of the time only where requests queue for them.
//!
//! A disk that is busy for a share b of the time can serve 1/b times as much at most (utilisation law):
//! that bounds the gain where the disk serves one request at a time, or always has as many as it can hold.
//!
//! Flash takes writes into its own cache until that is full. From then on some writes wait until it has
//! written out what came before, and the others are as fast as ever: it takes so many bytes a second in the
//! mean, whatever the CPUs do.
//!
//! Sources: Little, Operations Research 9(3), 1961; Kleinrock, Queueing Systems volume 1, 3.2.

use super::arrays::{Did, arrays, disks_below, in_flight};
use super::case::{Case, CaseCell, evidence};
use crate::facts::frequency_policy::highest;
use crate::facts::usage::{AT_LIMIT, Usage};
use crate::words::percent;
use domain::finding::{Evidence, Gain};
use domain::inventory::{BlockDevice, Policy, Queue, WriteCache};
use domain::outcome::Better;
use domain::trace::Role;
use domain::trial::Measurement;
use domain::units::significant;

/// Less than this is lost between two trials.
pub(crate) const MIN_GAIN: f64 = 1.05;

/// Requests that a disk has in its own cache or in its queue, where these are full: the places of NCQ.
const IN_THE_DISK: f64 = 32.0;

/// A queue that is filled in batches runs full where so many of its places are taken in the mean.
const NEARLY_FULL: f64 = 0.75 * IN_THE_DISK;

/// A spinning disk that is busy for so much of the time, with so many requests in the mean, has the next one
/// when it is done with one: it serves a stream as fast as it can.
const ALWAYS: f64 = 0.98;
const NEXT_WAITS: f64 = 1.25;

/// A disk has no larger cache of its own than this, in bytes. Writes in order of more than that are as fast
/// as its platters once it is full.
const LARGEST_CACHE: f64 = 512e6;

/// Writes of this size go into a disk's cache nearly at the rate of its link (SATA: 600 MB/s, 8b/10b). Where
/// they take twice as long, they wait for room in it.
const LARGE: f64 = 65_536.0;
const HALF_A_LINK: f64 = 300e6;

/// Half a revolution of the fastest disks, 15,000 a minute, in seconds: a write that takes longer waited for
/// the platter, since the disk's cache had no room for it.
const OF_A_PLATTER: f64 = 2e-3;

/// Direct writes that take so many times as long in the mean as half of them do: the slower half has three
/// quarters of the time at least, and waits for something that is no part of each write.
const SLOWER_HALF: f64 = 2.0;

/// What CPUs that are some times as fast can give a load.
pub(crate) enum Bound {
    /// Nothing that could be told from noise.
    Nothing,
    /// So many times as much at most.
    AtMost {
        /// The ratio, above 1.
        times: f64,
        /// What it rests on.
        figures: Vec<Evidence>,
    },
    /// Neither a load's threads nor its requests were recorded.
    Unknown,
}

/// Of the load that waits most for its CPUs.
pub(crate) fn bound(case: &Case<'_>, faster: f64) -> Bound {
    let cells = case.cells();
    // Whatever takes less time, a load that has the rate it asks for is none the faster.
    let is_paced = |cell: &CaseCell<'_>| cell.keeps_its_pace() && case.summary.better == Better::Higher;
    if !cells.is_empty() && cells.iter().all(is_paced) {
        return Bound::Nothing;
    }
    let Some((share, source)) = largest(case) else { return Bound::Unknown };
    let most_of_disks = cells.iter().map(|cell| most_of_disks(case, cell)).fold(1.0, f64::max);
    let times = gain(share, faster).min(most_of_disks);
    if times < MIN_GAIN {
        return Bound::Nothing;
    }
    let figures = vec![
        evidence("the CPUs' share of a request's time, at most", percent(share), source),
        evidence(
            "what CPUs that are faster in this proportion give, at most",
            format!("{} times", significant(times)),
            format!("that share, {} times as fast", significant(faster)),
        ),
    ];
    Bound::AtMost { times, figures }
}

/// The CPUs' largest share of a request's time, and where it was measured: of any cell, or of what was
/// watched where no cell tells one. What slower CPUs cost is bounded by it.
pub(crate) fn largest(case: &Case<'_>) -> Option<(f64, String)> {
    let cells = case.cells();
    let of_cells = cells.iter().filter_map(|cell| Some((of_cell(case, cell)?, cell.source())));
    let of_usages = case
        .usages
        .iter()
        .filter_map(|(key, usage)| Some((of_usage(usage)?, format!("trace of {}", key.folder()))));
    let most = of_cells.max_by(|(a, _), (b, _)| a.total_cmp(b));
    most.or_else(|| of_usages.max_by(|(a, _), (b, _)| a.total_cmp(b)))
}

/// What a load gains by CPUs that are `faster` times as fast, where this is their share of its time.
pub(crate) fn gain(share: f64, faster: f64) -> f64 {
    1.0 / (1.0 - share.clamp(0.0, 1.0) * (1.0 - 1.0 / faster.max(1.0)))
}

/// The frequency in Hz at which the busiest CPU ran in the mean, idle time included, and its policy; the
/// lowest of several traces. `None` where it was not counted.
pub(crate) fn ran_at<'a>(case: &Case<'a>) -> Option<(f64, &'a Policy)> {
    let policies = &case.inventory?.cpufreq.as_ref()?.policies;
    let of = |usage: &Usage| {
        let (busiest, _) = usage.cpus.iter().max_by(|(_, a), (_, b)| a.busy().total_cmp(&b.busy()))?;
        let policy = policies.iter().find(|policy| policy.cpus.contains(*busiest))?;
        let name = format!("policy{}", policy.id);
        let states = &usage.pstates.iter().find(|states| states.policy == name)?.shares;
        let mean = states.iter().map(|(at, share)| at.hz() as f64 * share).sum::<f64>();
        (mean > 0.0).then_some((mean, policy))
    };
    case.usages.iter().filter_map(|(_, usage)| of(usage)).min_by(|(a, _), (b, _)| a.total_cmp(b))
}

/// Whether CPUs at the highest frequency that they may run at would give a load nothing, by their share of a
/// request's time.
pub(crate) fn waits_for_disks_alone(case: &Case<'_>) -> bool {
    let faster = ran_at(case).and_then(|(hertz, policy)| Some(highest(case, policy)?.hz() as f64 / hertz));
    faster.is_some_and(|faster| matches!(bound(case, faster), Bound::Nothing))
}

/// How many times as much the disks of a cell can serve at most; infinite where nothing bounds it.
fn most_of_disks(case: &Case<'_>, cell: &CaseCell<'_>) -> f64 {
    // A thread that has no time left waits for no disk.
    if cell.is_at_its_limit() {
        return f64::INFINITY;
    }
    if waits_for_room_in_flash(case, cell) {
        return 1.0;
    }
    let disks = used_disks(case, cell);
    if let Some(most) = most_ahead_of_reader(case, cell, disks.len()) {
        return most;
    }
    let least = disks.into_iter().filter_map(|disk| {
        let (busy, waiting) = (cell.did(&disk.name)?.busy, in_flight(case, cell, &disk.name));
        // A disk that reads ahead by itself serves the faster the sooner it is asked.
        let is_asked_in_time = busy >= ALWAYS && waiting >= Some(NEXT_WAITS);
        let rotates = is_spinning(disk) && (is_asked_in_time || !cell.profile().reads_in_order());
        // So does flash that is read ahead of its reader.
        let is_behind = cell.profile().reads_in_order() && !cell.profile().is_direct();
        let is_ahead_of_reader = is_behind && is_asked_in_time;
        let is_at_its_link = cell.did(&disk.name).is_some_and(|did| is_at_its_link(disk, &did));
        let is_full = waiting >= Some(NEARLY_FULL) || busy >= ALWAYS && is_at_its_link;
        // What a disk behind the page cache is idle is before the kernel begins to write.
        let busy = if is_full && cell.writes_behind() { 1.0 } else { busy };
        (busy > 0.0 && (rotates || is_full || is_ahead_of_reader)).then_some(1.0 / busy)
    });
    least.fold(f64::INFINITY, f64::min)
}

/// How many times as much an array gives a reader who is read ahead of, where it has a request for each of
/// its disks all of the time: however soon the next is asked for, none of them is idle for want of it.
fn most_ahead_of_reader(case: &Case<'_>, cell: &CaseCell<'_>, disks: usize) -> Option<f64> {
    let is_behind = cell.profile().reads_in_order() && !cell.profile().is_direct();
    let device = cell.device().filter(|_| is_behind && disks > 1)?;
    let (busy, waiting) = (cell.did(device)?.busy, in_flight(case, cell, device)?);
    (busy >= ALWAYS && waiting >= NEARLY_ALL_DISKS * disks as f64).then_some(1.0 / busy)
}

/// So many requests in flight for each disk leave next to none idle.
const NEARLY_ALL_DISKS: f64 = 0.9;

/// Whether flash has no room in its cache for a good part of what is written to it, and decides how fast that
/// is: a few writes take most of the time of all.
pub(crate) fn waits_for_room_in_flash(case: &Case<'_>, cell: &CaseCell<'_>) -> bool {
    let disks = used_disks(case, cell);
    let is_flash =
        |disk: &&BlockDevice| disk.queue.as_ref().and_then(|queue| queue.rotational) == Some(false);
    let are_flash = !disks.is_empty() && disks.iter().all(is_flash);
    let waits_for_each = cell.profile().is_direct() && !cell.is_synced();
    // Those of an array with parity differ by what is read before them.
    let differ = arrays(case, cell).iter().any(|array| array.level.has_parity());
    cell.profile().writes() && waits_for_each && are_flash && few_take_long(cell) && !differ
}

/// Whether a few requests take most of the time of all: these wait for something that is no part of each.
pub(crate) fn few_take_long(cell: &CaseCell<'_>) -> bool {
    let times = cell.metric("latency_mean").zip(cell.metric("latency_p50"));
    times.is_some_and(|(mean, median)| median > 0.0 && mean >= SLOWER_HALF * median)
}

/// What a SATA link of 6 Gbit/s carries at most, in bytes a second (8b/10b), and the share of that which a
/// disk moves at its limit.
const OF_SATA: f64 = 600e6;
const AT_THE_LINK: f64 = 0.85;

/// Whether a disk moves what a SATA link of 6 Gbit/s carries. More than that is a faster link. Where the link
/// is not known, flash whose cache survives a power cut is taken for that of a server, with a faster one.
pub(crate) fn is_at_its_link(disk: &BlockDevice, did: &Did) -> bool {
    let is_volatile =
        || disk.queue.as_ref().and_then(|queue| queue.write_cache) == Some(WriteCache::WriteBack);
    let is_sata = disk.transport.as_deref().map_or_else(is_volatile, |transport| transport == "sata");
    is_sata && (AT_THE_LINK * OF_SATA..=OF_SATA).contains(&(did.read + did.written))
}

fn is_spinning(disk: &BlockDevice) -> bool {
    disk.queue.as_ref().and_then(|queue| queue.rotational) == Some(true)
}

/// Whether a CPU of any trace had no time left.
pub(crate) fn is_a_cpu_busy(case: &Case<'_>) -> bool {
    let mut all = case.usages.iter().flat_map(|(_, usage)| &usage.cpus);
    all.any(|(_, cpu)| cpu.busy() >= AT_LIMIT)
}

/// Whether the disks of a cell decide how fast it is, whatever a request waits for before and after them.
pub(crate) fn disks_decide(case: &Case<'_>, cell: &CaseCell<'_>) -> bool {
    disks_work_meanwhile(case, cell) || most_of_disks(case, cell) < MIN_GAIN
}

/// The disks below a cell's target that did anything.
fn used_disks<'a>(case: &Case<'a>, cell: &CaseCell<'_>) -> Vec<&'a BlockDevice> {
    let Some((inventory, device)) = case.inventory.zip(cell.device()) else { return Vec::new() };
    let did_anything = |disk: &&BlockDevice| cell.did(&disk.name).is_some_and(|did| did.requests() > 0.0);
    disks_below(inventory, device).into_iter().filter(did_anything).collect()
}

/// Whether the disks work while the CPUs do: spinning ones, whose own caches have the next writes. They take
/// more than the platters have, as those show that wait for one, or those in order that wait for room. An
/// array with parity reads before it writes, and waits for that.
fn disks_work_meanwhile(case: &Case<'_>, cell: &CaseCell<'_>) -> bool {
    let disks = used_disks(case, cell);
    let queue = |is: fn(&Queue) -> bool| disks.iter().all(|disk| disk.queue.as_ref().is_some_and(is));
    let spin = !disks.is_empty() && disks.iter().all(|disk| is_spinning(disk));
    let has_parity = || arrays(case, cell).iter().any(|array| array.level.has_parity());
    let caches = || queue(|queue| queue.write_cache == Some(WriteCache::WriteBack));
    let waits_for_platters = || {
        let each_waits = cell.metric("latency_p99") >= Some(OF_A_PLATTER);
        each_waits || disks.iter().all(|disk| fills_its_cache(cell, disk))
    };
    let writes = cell.profile().writes() && !cell.is_synced();
    writes && spin && caches() && waits_for_platters() && !has_parity()
}

/// Whether a disk was given more in order than its own cache holds, and took it more slowly than its link
/// does.
fn fills_its_cache(cell: &CaseCell<'_>, disk: &BlockDevice) -> bool {
    let Some(did) = cell.did(&disk.name).filter(|did| did.writes > 0.0 && did.busy > 0.0) else {
        return false;
    };
    let seconds = cell.median_of(|measured| cell.loaded(measured)).unwrap_or(0.0);
    let is_large = did.written / did.writes >= LARGE && did.written * seconds >= LARGEST_CACHE;
    cell.writes_in_order() && is_large && did.written / did.busy <= HALF_A_LINK
}

/// The gain of a finding: none at worst.
pub(crate) fn expected(case: &Case<'_>, times: f64) -> Option<Gain> {
    let metric = &case.summary.metric;
    let ratio = if case.summary.better == Better::Higher { times } else { 1.0 / times };
    Some(Gain { metric: metric.clone(), low: ratio.min(1.0), ratio, high: ratio.max(1.0) })
}

/// Of a cell whose threads were recorded and whose depth is known.
fn of_cell(case: &Case<'_>, cell: &CaseCell<'_>) -> Option<f64> {
    // What runs beside the load is no part of a request.
    let cores = cell.median_of(|m| {
        let of_load = m.roles.iter().filter(|(role, _)| **role != Role::Beside);
        per_second(cell, m, of_load.map(|(role, _)| cell.role_while_loaded(m, *role)).sum())
    })?;
    let busiest = cell.median_of(|m| {
        let of_load = m.threads.iter().filter(|thread| thread.role != Role::Beside);
        per_second(cell, m, of_load.map(|thread| cell.thread_while_loaded(m, thread)).fold(0.0, f64::max))
    })?;
    let is_behind = cell.writes_behind();
    let spin = || used_disks(case, cell).iter().any(|disk| is_spinning(disk));
    if is_behind && !spin() {
        return Some(busiest.min(1.0));
    }
    let depth = if is_behind { 1.0 } else { f64::from(cell.profile().depth?.max(1)) };
    let meanwhile = is_behind || disks_work_meanwhile(case, cell);
    let in_flight = if meanwhile { depth.max(IN_THE_DISK) } else { depth };
    Some(share(cores, in_flight, busiest))
}

fn per_second(cell: &CaseCell<'_>, measured: &Measurement, seconds: f64) -> Option<f64> {
    Some(seconds / cell.loaded(measured)?).filter(|_| !measured.roles.is_empty())
}

/// Of a machine that was watched: its busiest disk tells how many requests were in flight.
fn of_usage(usage: &Usage) -> Option<f64> {
    let cores = usage.machine?.busy() * usage.cpus.len().max(1) as f64;
    let busiest = usage.cpus.iter().map(|(_, cpu)| cpu.busy()).fold(0.0, f64::max);
    let in_flight = usage.disks.first().and_then(|disk| disk.depth).unwrap_or(0.0);
    Some(share(cores, in_flight.max(1.0), busiest))
}

/// The share of a request's time that is executed or waits for that: of so many cores in use, with so many
/// requests in flight, where the busiest thread is so busy.
pub(crate) fn share(cores: f64, in_flight: f64, busiest: f64) -> f64 {
    // One alone waits behind no other.
    let queued = if in_flight > 1.0 { 1.0 / (1.0 - busiest.min(0.999)) } else { 1.0 };
    (cores / in_flight * queued).min(1.0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::explain::testing::{fio_run, on_disk, with_array, with_thread, with_work};
    use crate::facts::usage::DiskUsage;
    use crate::summarise::summarise;
    use crate::summary::RunData;
    use domain::inventory::{Inventory, Md};

    /// Whether CPUs that are twice as fast give nothing to a load on this device, which had so many requests
    /// in flight.
    fn decides(machine: &Inventory, data: &RunData, device: &str, depth: f64) -> bool {
        let disks = vec![DiskUsage { device: device.into(), depth: Some(depth), ..DiskUsage::default() }];
        let usages = [(data.trials[0].key.clone(), Usage { disks, ..Usage::default() })];
        let summary = summarise(data, None);
        let case = Case {
            inventory: Some(machine),
            target_device: Some(device),
            usages: &usages,
            ..Case::new(data, &summary)
        };
        matches!(bound(&case, 2.0), Bound::Nothing)
    }

    #[test]
    fn a_single_request_in_flight_waits_for_all_that_is_executed() {
        assert!((share(0.2, 1.0, 0.2) - 0.2).abs() < 1e-9);
        assert!((gain(0.5, 2.0) - 4.0 / 3.0).abs() < 1e-9);
        assert!((gain(1.0, 3.0) - 3.0).abs() < 1e-9 && (gain(0.3, 1.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_load_beside_the_workload_is_no_part_of_a_request() {
        let of = |beside_ms: u64| {
            let mut data = fio_run(&["rw=randread bs=4k iodepth=4 ioengine=libaio direct=1"], |_, _| vec![]);
            with_thread(&mut data, "fio", Role::Workload, 300);
            if beside_ms > 0 {
                with_thread(&mut data, "bzip2", Role::Beside, beside_ms);
            }
            let summary = summarise(&data, None);
            let case = Case::new(&data, &summary);
            of_cell(&case, &case.cells()[0]).unwrap()
        };
        assert!((of(990) - of(0)).abs() < 1e-9, "{} instead of {}", of(990), of(0));
    }

    #[test]
    fn behind_the_page_cache_the_busiest_thread_is_all_that_cpus_can_have() {
        let of = |options: &str| {
            let mut data = fio_run(&[options], |_, _| vec![]);
            with_thread(&mut data, "kworker/u:0+flush", Role::Kworker, 650);
            with_thread(&mut data, "fio", Role::Workload, 400);
            let summary = summarise(&data, None);
            let case = Case::new(&data, &summary);
            of_cell(&case, &case.cells()[0]).unwrap()
        };
        assert!((of("rw=write bs=1m") - 0.65).abs() < 1e-9);
        assert!((of("rw=write bs=1m direct=1") - 1.0).abs() < 1e-9, "a single request waits for both");
    }

    #[test]
    fn a_spinning_disk_can_serve_no_more_than_its_time() {
        let of = |options: &str, rotational, busy_ms| {
            let mut data = fio_run(&[options], |_, _| vec![("iops", 100.0)]);
            with_thread(&mut data, "fio", Role::Workload, 500);
            with_work(&mut data, &[("sda", 0, 0, 100, 409_600, busy_ms)]);
            let summary = summarise(&data, None);
            let machine = on_disk(rotational);
            let case =
                Case { inventory: Some(&machine), target_device: Some("sda"), ..Case::new(&data, &summary) };
            match bound(&case, 2.0) {
                Bound::AtMost { times, .. } => times,
                Bound::Nothing => 1.0,
                Bound::Unknown => 0.0,
            }
        };
        let single = "rw=randwrite bs=4k direct=1";
        assert!((of(single, false, 900) - 4.0 / 3.0).abs() < 1e-9);
        assert!((of(single, true, 900) - 1.0 / 0.9).abs() < 1e-9);
        assert!((of(single, true, 980) - 1.0).abs() < 1e-9);
        let paced = format!("{single} rate_iops=100");
        assert!((of(&paced, false, 900) - 1.0).abs() < 1e-9, "it has the rate it asks for");
    }

    #[test]
    fn a_stream_that_a_spinning_disk_is_always_asked_for_is_as_fast_as_the_disk() {
        let of = |busy_ms, depth| {
            let mut data = fio_run(&["rw=read bs=1m"], |_, _| vec![]);
            with_thread(&mut data, "fio", Role::Workload, 500);
            with_work(&mut data, &[("sda", 187, 196 << 20, 0, 0, busy_ms)]);
            decides(&on_disk(true), &data, "sda", depth)
        };
        assert_eq!([of(999, 1.5), of(999, 1.0), of(900, 1.5)], [true, false, false]);
    }

    #[test]
    fn writes_in_order_that_fill_a_disks_cache_are_as_fast_as_its_platters() {
        let of = |options: &str, written: u64, busy_ms| {
            let mut data = fio_run(&[options], |_, _| vec![]);
            with_thread(&mut data, "fio", Role::Workload, 1500);
            with_work(&mut data, &[("sda", 0, 0, written >> 17, written, busy_ms)]);
            let measured = data.trials.iter_mut().filter_map(|trial| trial.measurement.as_mut());
            measured.for_each(|measured| measured.duration = domain::Nanos::from_secs(6));
            let summary = summarise(&data, None);
            let mut machine = on_disk(true);
            machine.devices[1].queue.as_mut().unwrap().write_cache = Some(WriteCache::WriteBack);
            let case =
                Case { inventory: Some(&machine), target_device: Some("sda"), ..Case::new(&data, &summary) };
            of_cell(&case, &case.cells()[0]).unwrap() < 0.02
        };
        let in_order = "rw=write bs=128k direct=1";
        // For 1.2 GB a disk is busy for three quarters of the time.
        assert!(of(in_order, 1200 << 20, 4500));
        assert!(!of(in_order, 1200 << 20, 2500), "as fast as its link");
        assert!(!of(in_order, 400 << 20, 4500), "less than its cache may hold");
        assert!(!of("rw=randwrite bs=128k direct=1", 1200 << 20, 4500), "here and there");
    }

    #[test]
    fn writes_that_a_spinning_disk_takes_into_its_cache_overlap_with_the_cpus() {
        let of = |p99: f64, cache| {
            let mut data = fio_run(&["rw=randwrite bs=4k direct=1"], |_, _| vec![("latency_p99", p99)]);
            with_thread(&mut data, "fio", Role::Workload, 200);
            with_work(&mut data, &[("sda", 0, 0, 100, 409_600, 500)]);
            let summary = summarise(&data, None);
            let mut machine = on_disk(true);
            machine.devices[1].queue.as_mut().unwrap().write_cache = Some(cache);
            let case =
                Case { inventory: Some(&machine), target_device: Some("sda"), ..Case::new(&data, &summary) };
            of_cell(&case, &case.cells()[0]).unwrap()
        };
        assert!(of(10e-3, WriteCache::WriteBack) < 0.01);
        assert!((of(0.1e-3, WriteCache::WriteBack) - 0.2).abs() < 1e-9, "its cache has room");
        assert!((of(10e-3, WriteCache::WriteThrough) - 0.2).abs() < 1e-9);
    }

    #[test]
    fn many_in_flight_hide_the_cpus_until_a_thread_has_no_time_left() {
        assert!(share(0.6, 32.0, 0.5) < 0.05);
        assert!(share(1.5, 32.0, 0.98) > 0.9);
    }

    #[test]
    fn writes_of_which_a_few_take_most_of_the_time_wait_for_room_in_flash() {
        let of = |options: &str, rotational, mean: f64| {
            let mut data = fio_run(&[options], |_, _| vec![("latency_p50", 64e-6), ("latency_mean", mean)]);
            with_thread(&mut data, "fio", Role::Workload, 500);
            with_work(&mut data, &[("sda", 0, 0, 7000, 900 << 20, 810)]);
            let (summary, machine) = (summarise(&data, None), on_disk(rotational));
            let case =
                Case { inventory: Some(&machine), target_device: Some("sda"), ..Case::new(&data, &summary) };
            matches!(bound(&case, 2.0), Bound::Nothing)
        };
        let direct = "rw=write bs=128k direct=1";
        assert_eq!([of(direct, false, 277e-6), of(direct, false, 100e-6)], [true, false]);
        assert!(!of(direct, true, 277e-6), "a platter that turns");
        assert!(!of("rw=read bs=128k direct=1", false, 277e-6), "reads");
        assert!(!of("rw=write bs=128k direct=1 fsync=1", false, 277e-6), "each waits for the medium");
    }

    #[test]
    fn flash_that_is_always_read_ahead_of_the_reader_decides() {
        let of = |options: &str, busy_ms, depth| {
            let mut data = fio_run(&[options], |_, _| vec![]);
            with_thread(&mut data, "fio", Role::Workload, 400);
            with_work(&mut data, &[("sda", 300, 300 << 20, 0, 0, busy_ms)]);
            decides(&on_disk(false), &data, "sda", depth)
        };
        let buffered = "rw=read bs=128k";
        assert_eq!(
            [of(buffered, 999, 6.2), of(buffered, 900, 6.2), of(buffered, 999, 1.0)],
            [true, false, false]
        );
        assert!(!of("rw=read bs=128k direct=1", 999, 6.2));
    }

    #[test]
    fn an_array_that_is_read_ahead_on_all_of_its_disks_decides() {
        let of = |depth: f64| {
            let mut data = fio_run(&["rw=read bs=128k"], |_, _| vec![]);
            with_thread(&mut data, "fio", Role::Workload, 400);
            let disk = |name, ms| (name, 300, 300 << 20, 0, 0, ms);
            with_work(&mut data, &[disk("md0", 999), disk("sda", 860), disk("sdb", 400)]);
            decides(&with_array(Md::default(), true, &["sda", "sdb"]), &data, "md0", depth)
        };
        assert_eq!([of(1.9), of(1.2)], [true, false]);
    }

    #[test]
    fn a_disk_that_moves_what_its_link_carries_decides() {
        let of = |transport: &str, read: u64| {
            let mut data =
                fio_run(&["rw=randread bs=64k direct=1 ioengine=libaio iodepth=32"], |_, _| vec![]);
            with_thread(&mut data, "fio", Role::Workload, 900);
            with_work(&mut data, &[("sda", read >> 16, read, 0, 0, 999)]);
            let summary = summarise(&data, None);
            let mut machine = on_disk(false);
            machine.devices[1].transport = Some(transport.to_owned());
            let case =
                Case { inventory: Some(&machine), target_device: Some("sda"), ..Case::new(&data, &summary) };
            matches!(bound(&case, 3.0), Bound::Nothing)
        };
        assert_eq!(
            [of("sata", 539_000_000), of("sata", 400_000_000), of("nvme", 539_000_000)],
            [true, false, false]
        );
    }
}
