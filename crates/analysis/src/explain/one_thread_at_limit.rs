//! One kernel thread is at its core's limit: the array, the encryption, the journal or the loop device cannot
//! go faster than one core does, however many there are.
//!
//! Sources: drivers/md/raid5.c (`raid5d`), raid10.c (`raid10d`); drivers/md/dm-crypt.c (`dmcrypt_write`);
//! fs/jbd2/commit.c; drivers/block/loop.c.

use super::Rule;
use super::next_step::UNTUNE;
use super::read_modify_write::{Extra, writes_parts};
use super::{crypt_workqueues, group_threads, varied_setting};
use crate::facts::arrays::{Array, MIN_WAITED, PAGE, arrays, in_flight, rotates, synchronising};
use crate::facts::case::{Case, CaseCell, evidence};
use crate::facts::cpu_share;
use crate::facts::frequency_policy::highest;
use crate::words::{counted, percent};
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::inventory::BlockKind;
use domain::outcome::Better;
use domain::setting::{SettingName, SettingRequest};
use domain::stack::MdLevel;
use domain::trace::Role;

pub(super) const RULE: Rule = Rule {
    name: "one-thread-at-limit",
    doc: "A single kernel thread (array, encryption, journal, loop) is at its core's limit.",
    needs: "CPU time of kernel threads in trials",
    source: "drivers/md/raid5.c (`raid5d`), raid10.c (`raid10d`); drivers/md/dm-crypt.c (`dmcrypt_write`); fs/jbd2/commit.c; drivers/block/loop.c",
    yields_to: &[],
    run,
};

/// A thread this busy waits for nothing but the CPU; the rest is start, end and the scheduler's own work.
const AT_LIMIT: f64 = 0.9;

/// An array's thread that is this busy makes a stripe wait for it 1.5 times as long as it handles one, where
/// stripes come as they come (u/(1-u), Kleinrock, Queueing Systems volume 1, 3.2). It handles them in
/// batches, and waits for disks between, so that it is not at its core's limit where it is what the array
/// waits for.
pub(super) const STRIPES_WAIT: f64 = 0.6;

/// Threads that handle stripes after the remedy, the array's own among them, and how many stripes wait where
/// another one is woken (raid5.c, `raid5_wakeup_stripe_thread`, `MAX_STRIPE_BATCH`).
const HANDLING: f64 = 5.0;
const BATCH: f64 = 8.0;

/// A stripe that is read before it is written passes its thread twice.
const WAKE_UPS: f64 = 2.0;

/// Seconds in which a state is entered at least once where it is one that CPUs are in.
const ENOUGH_TO_SEE: f64 = 0.1;

/// A gain by more threads below this is no reason to name the one.
const MIN_GAIN: f64 = 1.1;

/// Stripes in flight from which on several threads have work.
const STRIPES: f64 = 4.0;

/// Spinning disks that are this busy, in the mean, have no time for what more threads would ask. Flash serves
/// many requests at once: that it always has one tells nothing of its limit (iostat(1), `%util`).
const DISKS_AT_LIMIT: f64 = 0.9;

/// A worker that is less busy did a moment's work.
const HAS_WORK: f64 = 0.1;

/// Threads of which one does the work of a whole layer.
const ROLES: [Role; 4] = [Role::Array, Role::Crypt, Role::Journal, Role::Loop];

fn run(case: &Case<'_>) -> Vec<Finding> {
    // All threads share the limit of an only CPU, and work that is spread finds no other one.
    if case.inventory.is_some_and(|machine| machine.cpus.online.len() == 1) {
        return Vec::new();
    }
    let cells = case.cells();
    // Where a study varied what spreads the work, the rule about that tells what it gave.
    let is_told = |role: Role| match role {
        Role::Array => varied_setting::is_varied(case, &group_threads::WORDS),
        Role::Crypt => varied_setting::is_varied(case, &crypt_workqueues::WORDS),
        _ => false,
    };
    let mut found: Vec<(Role, Finding)> = Vec::new();
    for cell in &cells {
        let Some((name, role, share)) = busiest(cell).filter(|it| is_limit(case, it, cell)) else { continue };
        // One that has the rate that it asks for is held back by nothing.
        let is_paced = cell.keeps_its_pace() && case.summary.better == Better::Higher;
        if is_told(role) || is_paced {
            continue;
        }
        match found.iter_mut().find(|(known, _)| *known == role) {
            Some((_, finding)) => finding.evidence.push(figure(cell, &name, share)),
            None => found.push((role, finding(case, cell, &name, role, share))),
        }
    }
    found.into_iter().map(|(_, finding)| told_of_all(finding)).collect()
}

/// Whether a thread is what its layer waits for. That of an array with parity is it earlier, where enough
/// stripes are in flight, the array is waited for, and its disks have time left: from [`STRIPES_WAIT`] of its
/// time on where its stripes have to be read before they are written, which takes each of them to the thread
/// again; or where the time that requests wait for it is worth [`MIN_GAIN`], of as many threads as have work.
fn is_limit(case: &Case<'_>, (name, role, share): &(String, Role, f64), cell: &CaseCell<'_>) -> bool {
    let has_parity = *role == Role::Array && PARITY.iter().any(|level| name.ends_with(level));
    let all = arrays(case, cell);
    let array = all.iter().find(|array| array_of(name) == Some(array.name.as_str()));
    let passes_it = cell.profile().writes() || array.is_some_and(|array| computes_reads(array, cell));
    let syncs = array.is_some_and(|array| synchronising(cell, &array.name).is_some());
    let has_stripes = syncs || cell.bytes_in_flight().is_some_and(|bytes| bytes >= STRIPES * PAGE);
    let many = passes_it && has_stripes;
    let is_waited_for = || array.and_then(|array| array.waited_for(cell)) >= Some(MIN_WAITED);
    let have_time = |array: &Array| {
        let busy = array.mean_busy(cell);
        busy.is_some_and(|busy| busy < DISKS_AT_LIMIT) || busy.is_some() && !rotates(case, array)
    };
    let is_earlier = || is_waited_for() && array.is_some_and(have_time);
    if !has_parity || !many || !is_earlier() || waits_for_room(case, cell) {
        return *share >= AT_LIMIT;
    }
    // Beside a resync nobody can tell which reads are for writes.
    let reads_first = array.is_some_and(|array| {
        Extra::of(array, cell).map_or_else(|| writes_parts(array, cell), |extra| extra.reads_first())
    });
    // Several threads give spinning disks their requests in no order. Work that is spread looks like less on
    // each CPU to a governor, which lowers the frequency further.
    let may_harm = array.is_none_or(|array| rotates(case, array)) || is_slowed(case);
    let gains = || {
        // A resync has stripes for all of them.
        let stripes = array.and_then(|array| stripes_in_flight(array, cell, reads_first));
        let stripes = if syncs { Some(f64::INFINITY) } else { stripes };
        let handling = HANDLING.min(stripes.unwrap_or(0.0) / BATCH).floor();
        let faster = by_more_threads(case, cell, *share, handling.max(1.0));
        let waits = array.and_then(|array| waits_to_be_computed(case, array, cell));
        let computed = waits.map_or(1.0, |waits| cpu_share::gain(waits, handling.max(1.0)));
        faster.unwrap_or(1.0).max(computed) >= MIN_GAIN && !may_harm && !cpu_share::disks_decide(case, cell)
    };
    share / (1.0 - interrupted(case, cell)) >= STRIPES_WAIT && reads_first || gains()
}

/// Whether many direct writes in flight wait for room in the caches of flash: half of all are done in less
/// than half of the mean. Those that wait for a thread, or for what is read before them, take alike.
fn waits_for_room(case: &Case<'_>, cell: &CaseCell<'_>) -> bool {
    let is_deep = cell.profile().depth >= Some(DEEP) && cell.profile().is_direct() && !cell.is_synced();
    let is_flash = || !arrays(case, cell).iter().any(|array| rotates(case, array));
    is_deep && cell.profile().writes() && cpu_share::few_take_long(cell) && is_flash()
}

/// So many in flight hide what one of them finds in the stripe cache and another does not.
const DEEP: u32 = 8;

/// The share of a CPU's time that interrupts take, mean over all: a thread that runs there has the rest of
/// it.
fn interrupted(case: &Case<'_>, cell: &CaseCell<'_>) -> f64 {
    let own = case.usages.iter().filter(|(key, _)| key.cell == cell.cell.id);
    let cpus = own.map(|(_, usage)| usage.cpus.len()).max().filter(|cpus| *cpus > 0);
    let cores = cell.cores(&[Role::Interrupt]).zip(cpus);
    cores.map_or(0.0, |(cores, cpus)| (cores / cpus as f64).min(AT_LIMIT))
}

/// The share of random reads' time in which those of what a disk lacks wait for the thread, where nothing
/// else is asked: the array has more of them in flight than its disks have (Little's law). What is read for
/// one is read from all others at once, and it waits for the last of these: the sum of 1/n of the mean,
/// where times are exponential.
fn waits_to_be_computed(case: &Case<'_>, array: &Array, cell: &CaseCell<'_>) -> Option<f64> {
    let own = cell.did(&array.name).filter(|own| own.reads > 0.0 && own.writes == 0.0)?;
    let alone = array.missing > 0 && synchronising(cell, &array.name).is_none() && cell.reads_at_random();
    let members = array.members_did(cell).filter(|_| alone && array.data_members() > 1)?;
    let (read, reads) =
        members.iter().fold((0.0, 0.0), |sum, (_, did)| (sum.0 + did.read, sum.1 + did.reads));
    let needed = array.data_members();
    let computed = ((read / own.read - 1.0) / (needed as f64 - 1.0)).clamp(0.0, 1.0);
    let last = (1..=needed).map(|n| 1.0 / n as f64).sum::<f64>();
    let at_disks = members.iter().map(|(name, _)| in_flight(case, cell, name)).sum::<Option<f64>>()?;
    let of_disks = own.reads * at_disks / reads * (1.0 - computed + computed * last);
    let all = in_flight(case, cell, &array.name).filter(|all| *all > 0.0)?;
    Some((1.0 - of_disks / all).clamp(0.0, 1.0))
}

/// Whether a governor keeps the busiest CPU well below what it may run at.
fn is_slowed(case: &Case<'_>) -> bool {
    let ran_at =
        cpu_share::ran_at(case).filter(|(_, policy)| policy.governor.as_deref() != Some("performance"));
    let most = ran_at.and_then(|(hertz, policy)| Some((hertz, highest(case, policy)?.hz() as f64)));
    most.is_some_and(|(hertz, most)| hertz * MIN_GAIN < most)
}

/// Whether its reads pass its thread too: it computes what a disk lacks from all others. The first
/// synchronisation of a RAID5 fills its last disk (mdadm(8), `--create`), that of a RAID6 writes parity
/// alone.
fn computes_reads(array: &Array, cell: &CaseCell<'_>) -> bool {
    let fills_a_disk = array.level != MdLevel::Raid6 && synchronising(cell, &array.name).is_some();
    let lacks_data = array.missing > 0 || fills_a_disk;
    lacks_data && cell.profile().reads()
}

/// How many stripes a load keeps in flight on an array that are handled by themselves: of each request the
/// pages of a chunk that it fills, where stripes are read or written in parts. Whole stripes that lie side by
/// side in a chunk are handled together, by the first of them (raid5.c, `stripe_add_to_batch_list`).
fn stripes_in_flight(array: &Array, cell: &CaseCell<'_>, in_parts: bool) -> Option<f64> {
    let own = cell.did(&array.name).filter(|own| own.requests() > 0.0)?;
    let bytes = (own.read + own.written) / own.requests();
    let whole = bytes / (PAGE * array.data_members().max(1) as f64);
    let of_chunk = array.chunk.map(|chunk| bytes.min(chunk.get() as f64) / PAGE);
    let parts = of_chunk.unwrap_or(bytes / PAGE);
    let batches = whole / of_chunk.unwrap_or(1.0).max(1.0);
    let each = if in_parts || computes_reads(array, cell) { whole.max(parts) } else { batches };
    Some(each * f64::from(cell.profile().depth?.max(1)))
}

/// What more threads give a load that waits for each of its requests: the thread's part of a request's time
/// becomes shorter. What they lose it: CPUs that sleep have to wake up for them, to read and again to write.
fn by_more_threads(case: &Case<'_>, cell: &CaseCell<'_>, share: f64, handling: f64) -> Option<f64> {
    let depth = cell.profile().depth.filter(|_| !cell.writes_behind())?;
    let faster = cpu_share::gain(cpu_share::share(share, f64::from(depth.max(1)), share), handling);
    let waking = cell.metric("latency_mean").filter(|latency| *latency > 0.0);
    let waking = waking.map_or(0.0, |latency| WAKE_UPS * slept(case) / latency);
    Some(1.0 / (1.0 / faster + waking))
}

/// Seconds that it takes to leave the deepest idle state that CPUs were in while a load ran, at worst.
fn slept(case: &Case<'_>) -> f64 {
    let states = case.inventory.and_then(|inventory| inventory.cpuidle.as_ref()).map(|idle| &idle.states);
    let entered = |index: u32| {
        let mut all = case.usages.iter().flat_map(|(_, usage)| &usage.idle);
        all.any(|(number, idling)| *number == index && idling.entries * ENOUGH_TO_SEE >= 1.0)
    };
    let all = states.into_iter().flatten().filter(|state| entered(state.index));
    all.filter_map(|state| Some(state.latency?.secs())).fold(0.0, f64::max)
}

/// Of a thread that is not at its core's limit.
const PART_OF_THE_TIME: &str = "One thread handles all stripes of the array, several of which were in flight while its disks had \
time left. A stripe waits while the thread handles another; more threads may handle them side by side. Whether that gains \
was not measured.";

/// What the names of the threads of arrays end with whose work can be spread.
const PARITY: [&str; 3] = ["_raid4", "_raid5", "_raid6"];

fn figure(cell: &CaseCell<'_>, name: &str, share: f64) -> Evidence {
    evidence(
        format!("CPU time of `{name}` as a share of its load's time, median"),
        percent(share),
        cell.source(),
    )
}

/// One cause in several cells is one finding, which says how many they are.
fn told_of_all(mut finding: Finding) -> Finding {
    let others = finding.evidence.len() - 1;
    if others > 0 {
        finding.title += &format!(", and so in {}", counted(others, "other cell"));
    }
    finding
}

fn finding(case: &Case<'_>, cell: &CaseCell<'_>, name: &str, role: Role, share: f64) -> Finding {
    let (what, settings, undo) = remedy(case, name, role);
    let (is, reason, confidence) = if share >= AT_LIMIT {
        let reason = format!(
            "All requests of this layer ({role}) pass through one thread, and a thread runs on one core at a time. More cores \
do not help; a higher frequency of that core does, in proportion, and so does anything that spreads the work."
        );
        ("is", reason, Confidence::Likely)
    } else {
        ("may be", PART_OF_THE_TIME.to_owned(), Confidence::Possible)
    };
    Finding {
        rule: RULE.name,
        title: format!(
            "{} {is} held back by one kernel thread: `{name}` used {} of one core",
            cell.named(),
            percent(share)
        ),
        reason,
        evidence: vec![figure(cell, name, share)],
        confidence,
        gain: None,
        remedy: Some(Remedy { what: what.into(), settings, undo: undo.into() }),
        next: "flyball inspect".into(),
        compared: vec![],
    }
}

/// The thread of these roles with the largest median share of a core over the cell's trials. Encryption's
/// work queue has as many workers as there is work for: one of them is no limit where others did a part of
/// its work.
fn busiest(cell: &CaseCell<'_>) -> Option<(String, Role, f64)> {
    let threads = cell.trials.iter().filter_map(|t| t.measurement.as_ref()).flat_map(|m| &m.threads);
    let mut names: Vec<(&str, Role)> =
        threads.filter(|t| ROLES.contains(&t.role)).map(|t| (t.name.as_str(), t.role)).collect();
    names.sort_unstable();
    names.dedup();
    let shares = names.into_iter().filter_map(|(name, role)| {
        let share = cell.median_of(|m| {
            let busiest = m.threads.iter().filter(|t| t.name == name && t.role == role).map(|t| t.cpu).max();
            let cpu_s = busiest.map_or(0.0, |cpu| cpu.secs());
            Some(cpu_s / cell.loaded(m)?)
        })?;
        Some((name.to_owned(), role, share))
    });
    let shares: Vec<(String, Role, f64)> = shares.collect();
    let is_worker =
        |(name, role, _): &(String, Role, f64)| *role == Role::Crypt && name.starts_with("kworker/");
    let have_work = shares.iter().filter(|it| is_worker(it) && it.2 >= HAS_WORK).count();
    let alone = shares.into_iter().filter(|it| have_work < 2 || !is_worker(it));
    alone.max_by(|(.., a), (.., b)| a.total_cmp(b))
}

/// What spreads the work of a thread's layer, and how it is undone.
fn remedy(case: &Case<'_>, thread: &str, role: Role) -> (&'static str, Vec<SettingRequest>, &'static str) {
    // What the workload works on may lie above the array.
    let object = array_of(thread).map(str::to_owned);
    match role {
        Role::Array if is_known_without_workers(case, thread) => (
            "raise the frequency of the core that it runs on; the work of this level of array cannot be spread",
            vec![],
            UNTUNE,
        ),
        Role::Array => (
            "for RAID 4, 5 and 6, let several threads work on stripes (group_thread_cnt); for others, raise the core's frequency",
            vec![SettingRequest {
                setting: SettingName { name: "group_thread_cnt".into(), object },
                value: "4".into(),
            }],
            UNTUNE,
        ),
        Role::Crypt => (
            "encrypt in the caller's own context: `cryptsetup refresh --perf-no_read_workqueue --perf-no_write_workqueue NAME`",
            vec![],
            "`cryptsetup refresh NAME` without these flags",
        ),
        Role::Loop => (
            "let the loop device pass the page cache by, which makes it asynchronous: `losetup --direct-io=on /dev/loopN`",
            vec![],
            "`losetup --direct-io=off /dev/loopN`",
        ),
        _ => (
            "commit less often or elsewhere: an external journal, fewer fsync calls, `data=ordered` instead of `data=journal`",
            vec![],
            "mount with the options that were in force before",
        ),
    }
}

/// The array whose thread this is: `md127` of `md127_raid5`.
fn array_of(thread: &str) -> Option<&str> {
    thread.rsplit_once('_').map(|(array, _)| array)
}

/// Whether a thread is that of an array of a level that has no worker threads: by its name, or by the array
/// in the inventory.
fn is_known_without_workers(case: &Case<'_>, thread: &str) -> bool {
    let by_name = thread.ends_with("_raid1") || thread.ends_with("_raid10");
    let array = array_of(thread).and_then(|array| case.inventory?.device(array));
    let by_array = array.is_some_and(|array| match &array.kind {
        BlockKind::Md(md) => md.level.is_some() && md.group_thread_count.is_none(),
        _ => false,
    });
    by_name || by_array
}

#[cfg(test)]
mod tests {
    use super::super::testing::{about, findings, fio_run};
    use super::*;
    use domain::Nanos;
    use domain::trial::ThreadTime;

    /// A run of one-second trials in which a thread of this role used so many milliseconds.
    fn with_thread(role: Role, used: u64) -> crate::summary::RunData {
        let mut data = fio_run(&["rw=write"], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        for trial in &mut data.trials {
            let thread = ThreadTime { name: "md0_raid5".into(), tid: 7, role, cpu: Nanos::from_millis(used) };
            trial.measurement.as_mut().unwrap().threads = vec![thread];
        }
        data
    }

    #[test]
    fn an_array_thread_that_fills_its_core_is_found() {
        // The target may be an encrypted volume over the array, which has no such setting.
        let found = findings(RULE, &with_thread(Role::Array, 970), None, Some("dm-0")).swap_remove(0);
        assert_eq!(found.title, "w0 is held back by one kernel thread: `md0_raid5` used 97% of one core");
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "group_thread_cnt@md0 = 4");
    }

    #[test]
    fn on_a_machine_of_one_cpu_no_thread_is_held_back_by_its_core() {
        use super::super::testing::bare_machine;
        use domain::inventory::CpuList;
        let found = |cpus: &str| {
            let mut machine = bare_machine();
            machine.cpus.online = CpuList::parse(cpus).unwrap();
            findings(RULE, &with_thread(Role::Crypt, 970), Some(&machine), Some("dm-0")).len()
        };
        assert_eq!(["0", "0-1"].map(found), [0, 1]);
    }

    #[test]
    fn an_array_that_has_no_worker_threads_is_not_asked_for_them() {
        use super::super::testing::with_array;
        use domain::inventory::Md;
        let of = |level: &str, workers| {
            let md = Md { level: Some(level.into()), group_thread_count: workers, ..Md::default() };
            let machine = with_array(md, true, &["sda", "sdb"]);
            findings(RULE, &with_thread(Role::Array, 970), Some(&machine), Some("md0")).swap_remove(0).remedy
        };
        assert!(of("raid10", None).unwrap().settings.is_empty());
        let mut mirror = with_thread(Role::Array, 970);
        let measured = mirror.trials.iter_mut().filter_map(|trial| trial.measurement.as_mut());
        measured.for_each(|measured| measured.threads[0].name = "md9_raid10".into());
        assert!(findings(RULE, &mirror, None, None).swap_remove(0).remedy.unwrap().settings.is_empty());
        assert_eq!(of("raid5", Some(0)).unwrap().settings.len(), 1);
    }

    #[test]
    fn a_thread_of_an_array_with_parity_whose_disks_have_time_may_be_the_limit_earlier() {
        use super::super::testing::{with_array, with_thread, with_work};
        use domain::inventory::Md;
        let md = Md { level: Some("raid5".into()), group_thread_count: Some(0), ..Md::default() };
        let machine = |rotational| with_array(md.clone(), rotational, &["sda", "sdb", "sdc"]);
        let of = |depth: u32, (members_ms, rotational): (u64, bool), used_ms: u64| {
            let options = format!("rw=randwrite bs=4k direct=1 ioengine=libaio iodepth={depth}");
            let mut data = fio_run(&[&options], |cell, block| vec![("throughput", about(1e8, cell, block))]);
            let member = |name| (name, 70, 286_720, 70, 286_720, members_ms);
            with_work(
                &mut data,
                &[("md0", 0, 0, 100, 409_600, 990), member("sda"), member("sdb"), member("sdc")],
            );
            with_thread(&mut data, "md0_raid5", Role::Array, used_ms);
            findings(RULE, &data, Some(&machine(rotational)), Some("md0"))
        };
        let found = of(32, (300, true), 700).swap_remove(0);
        assert_eq!(found.title, "w0 may be held back by one kernel thread: `md0_raid5` used 70% of one core");
        assert_eq!(found.confidence, Confidence::Possible);
        assert_eq!(of(32, (950, false), 700).len(), 1, "flash that is always asked may have time");
        assert!(of(1, (300, true), 700).is_empty(), "one stripe at a time");
        assert!(of(32, (950, true), 700).is_empty(), "the disks have no time");
        assert!(of(32, (300, true), 400).is_empty(), "a stripe waits for others than the thread");
    }

    #[test]
    fn a_load_at_its_rate_and_one_that_waits_for_room_in_flash_are_held_back_by_no_thread() {
        use super::super::testing::{with_array, with_thread, with_work};
        use domain::inventory::Md;
        let md = Md { level: Some("raid5".into()), group_thread_count: Some(0), ..Md::default() };
        let machine = with_array(md, false, &["sda", "sdb", "sdc"]);
        let of = |options: &str, used_ms: u64, latencies: [f64; 2]| {
            let mut data = fio_run(&[options], |cell, block| {
                let [mean, half] = latencies;
                vec![
                    ("throughput", about(1e8, cell, block)),
                    ("iops", 100.0),
                    ("latency_mean", mean),
                    ("latency_p50", half),
                ]
            });
            let member = |name| (name, 70, 286_720, 70, 286_720, 950);
            with_work(
                &mut data,
                &[("md0", 0, 0, 100, 409_600, 990), member("sda"), member("sdb"), member("sdc")],
            );
            with_thread(&mut data, "md0_raid5", Role::Array, used_ms);
            findings(RULE, &data, Some(&machine), Some("md0")).len()
        };
        let deep = "rw=randwrite bs=4k direct=1 ioengine=libaio iodepth=32";
        assert_eq!([of(deep, 700, [4e-4, 3e-4]), of(deep, 700, [4e-4, 1.9e-4])], [1, 0]);
        assert_eq!(of(deep, 950, [4e-4, 1.9e-4]), 1, "it is at its core's limit");
        assert_eq!(of(&format!("{deep} rate_iops=100"), 950, [4e-4, 3e-4]), 0);
        assert_eq!(of(&format!("{deep} rate_iops=200"), 950, [4e-4, 3e-4]), 1, "it does not reach its rate");
    }

    #[test]
    fn a_thread_that_is_a_part_of_each_request_is_named_where_more_threads_would_pay() {
        use super::super::testing::{with_array, with_thread, with_work};
        use domain::inventory::Md;
        let md = Md { level: Some("raid5".into()), group_thread_count: Some(0), ..Md::default() };
        let machine = with_array(md, false, &["sda", "sdb", "sdc"]);
        let of = |used_ms: u64, read: u64| {
            let mut data = fio_run(&["rw=randwrite bs=64k direct=1"], |cell, block| {
                vec![("throughput", about(6.5e6, cell, block))]
            });
            let member = |name| (name, read / 4096, read, 100, 4 << 20, 400);
            with_work(
                &mut data,
                &[("md0", 0, 0, 100, 6_553_600, 990), member("sda"), member("sdb"), member("sdc")],
            );
            with_thread(&mut data, "md0_raid5", Role::Array, used_ms);
            findings(RULE, &data, Some(&machine), Some("md0")).len()
        };
        // Of one request that waits for a fifth of its time; what five threads leave of that is a fifth of
        // it.
        assert_eq!([of(200, 4 << 20), of(80, 4 << 20), of(200, 0)], [1, 0, 0]);
    }

    #[test]
    fn beside_a_resync_random_writes_of_less_than_a_stripe_are_those_that_read() {
        use super::super::testing::{with_array, with_thread, with_work};
        use domain::inventory::Md;
        use domain::units::Bytes;
        let of = |rw: &str, chunk_kib: u64| {
            let md = Md {
                level: Some("raid5".into()),
                chunk: Some(Bytes::from_kib(chunk_kib)),
                group_thread_count: Some(0),
                ..Md::default()
            };
            let machine = with_array(md, false, &["sda", "sdb", "sdc"]);
            let options = format!("rw={rw} bs=64k direct=1 ioengine=libaio iodepth=32");
            let mut data =
                fio_run(&[&options], |cell, block| vec![("throughput", about(6.5e6, cell, block))]);
            let member = |name| (name, 300, 10 << 20, 300, 10 << 20, 600);
            with_work(
                &mut data,
                &[("md0", 0, 0, 100, 6_553_600, 990), member("sda"), member("sdb"), member("sdc")],
            );
            with_thread(&mut data, "md0_raid5", Role::Array, 760);
            with_thread(&mut data, "md0_resync", Role::Array, 10);
            findings(RULE, &data, Some(&machine), Some("md0")).len()
        };
        assert_eq!([of("randwrite", 512), of("randwrite", 16), of("write", 512)], [1, 0, 0]);
    }

    #[test]
    fn more_threads_are_not_proposed_where_their_cpus_sleep_deeply() {
        use super::super::testing::{with_array, with_thread, with_work};
        use crate::facts::usage::{Idling, Usage};
        use crate::summarise::summarise;
        use domain::inventory::{CpuList, Cpuidle, IdleState, Md};
        let of = |exit_us, entries| {
            let md = Md { level: Some("raid5".into()), group_thread_count: Some(0), ..Md::default() };
            let state = IdleState {
                index: 1,
                name: "C6".into(),
                description: None,
                latency: Some(Nanos::from_micros(exit_us)),
                residency: None,
                cpus: CpuList::parse("0-1").unwrap(),
                disabled: CpuList::default(),
            };
            let mut machine = with_array(md, false, &["sda", "sdb", "sdc"]);
            let states = vec![state];
            machine.cpuidle =
                Some(Cpuidle { driver: None, governor: None, available_governors: vec![], states });
            let mut data = fio_run(&["rw=randwrite bs=64k direct=1"], |_, _| vec![("latency_mean", 600e-6)]);
            let member = |name| (name, 1000, 4 << 20, 100, 4 << 20, 400);
            with_work(
                &mut data,
                &[("md0", 0, 0, 100, 6_553_600, 990), member("sda"), member("sdb"), member("sdc")],
            );
            with_thread(&mut data, "md0_raid5", Role::Array, 220);
            let idle = vec![(1, Idling { entries, cpus: 0.5 })];
            let usages = [(data.trials[0].key.clone(), Usage { idle, ..Usage::default() })];
            let summary = summarise(&data, None);
            let case = Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) };
            (RULE.run)(&case).len()
        };
        assert_eq!([of(90, 3000.0), of(2, 3000.0), of(90, 0.0)], [0, 1, 1]);
    }

    #[test]
    fn one_of_several_workers_of_encryption_is_no_limit() {
        use super::super::testing::with_thread;
        let of = |other_ms: u64| {
            let mut data =
                fio_run(&["rw=write"], |cell, block| vec![("throughput", about(1e8, cell, block))]);
            with_thread(&mut data, "kworker/u2:0+kcryptd/dm-0", Role::Crypt, 950);
            with_thread(&mut data, "kworker/u2:1+kcryptd/dm-0", Role::Crypt, other_ms);
            findings(RULE, &data, None, None).len()
        };
        assert_eq!([of(10), of(600)], [1, 0]);
    }

    #[test]
    fn one_thread_in_several_cells_is_one_finding() {
        let mut data = fio_run(&["rw=write", "rw=randwrite", "rw=read"], |cell, b| {
            vec![("throughput", about(1e8, cell, b))]
        });
        for trial in data.trials.iter_mut().filter(|trial| trial.workload != "w2") {
            let cpu = Nanos::from_millis(970);
            let thread = ThreadTime { name: "md0_raid5".into(), tid: 7, role: Role::Array, cpu };
            trial.measurement.as_mut().unwrap().threads = vec![thread];
        }
        let found = findings(RULE, &data, None, None);
        assert_eq!(found.len(), 1);
        assert!(found[0].title.ends_with("97% of one core, and so in 1 other cell"), "{}", found[0].title);
        assert_eq!(found[0].evidence.len(), 2);
    }

    #[test]
    fn a_half_busy_thread_or_the_workload_itself_is_no_finding() {
        assert!(findings(RULE, &with_thread(Role::Array, 500), None, None).is_empty());
        assert!(findings(RULE, &with_thread(Role::Workload, 990), None, None).is_empty());
    }

    #[test]
    fn a_study_that_varies_the_threads_has_told_already_what_they_give() {
        use super::super::testing::{FOUR_DISKS, RAID5, storage_run};
        let levels = [("0", 1e8), ("4", 1.8e8)];
        let mut data = storage_run(&[FOUR_DISKS, RAID5], "array.group_thread_cnt", &levels);
        super::super::testing::with_thread(&mut data, "md0_raid5", Role::Array, 990);
        assert!(findings(RULE, &data, None, None).is_empty());
    }

    #[test]
    fn without_threads_nothing_is_said() {
        let data = fio_run(&["rw=write"], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        assert!(findings(RULE, &data, None, None).is_empty());
    }

    #[test]
    fn whole_stripes_of_a_chunk_are_handled_by_the_first_of_them() {
        use super::super::testing::{with_array, with_thread, with_work};
        use domain::inventory::Md;
        use domain::units::Bytes;
        let of = |chunk_kib| {
            let chunk = Some(Bytes::from_kib(chunk_kib));
            let md = Md { level: Some("raid5".into()), chunk, group_thread_count: Some(0), ..Md::default() };
            let machine = with_array(md, false, &["sda", "sdb", "sdc"]);
            let mut data = fio_run(&["rw=write bs=1m direct=1"], |_, _| vec![("throughput", 1e9)]);
            let member = |name| (name, 0, 0, 900, 512 << 20, 850);
            with_work(
                &mut data,
                &[("md0", 0, 0, 1000, 1000 << 20, 990), member("sda"), member("sdb"), member("sdc")],
            );
            with_thread(&mut data, "md0_raid5", Role::Array, 200);
            findings(RULE, &data, Some(&machine), Some("md0")).len()
        };
        // Of 128 stripes each, 32 wait by themselves, or 8.
        assert_eq!([of(16), of(64)], [1, 0]);
    }

    #[test]
    fn interrupts_take_the_time_of_the_cpu_on_which_the_thread_runs() {
        use super::super::testing::{with_array, with_thread, with_work};
        use crate::facts::usage::{CpuUsage, Usage};
        use crate::summarise::summarise;
        use domain::inventory::Md;
        let of = |cpus: u32| {
            let md = Md { level: Some("raid5".into()), group_thread_count: Some(0), ..Md::default() };
            let machine = with_array(md, false, &["sda", "sdb", "sdc"]);
            let options = "rw=randwrite bs=4k direct=1 ioengine=libaio iodepth=32";
            let mut data = fio_run(&[options], |_, _| vec![("throughput", 1e8)]);
            let member = |name| (name, 70, 286_720, 70, 286_720, 840);
            with_work(
                &mut data,
                &[("md0", 0, 0, 100, 409_600, 990), member("sda"), member("sdb"), member("sdc")],
            );
            with_thread(&mut data, "md0_raid5", Role::Array, 590);
            with_thread(&mut data, "irq/0", Role::Interrupt, 380);
            let cpus = (0..cpus).map(|cpu| (cpu, CpuUsage::default())).collect();
            let usages = [(data.trials[0].key.clone(), Usage { cpus, ..Usage::default() })];
            let summary = summarise(&data, None);
            let case = Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) };
            (RULE.run)(&case).len()
        };
        // 59% of a core are 73% of what interrupts leave of each of two, and 59.4% of each of 64.
        assert_eq!([of(2), of(64)], [1, 0]);
    }

    #[test]
    fn random_reads_that_are_at_no_disk_wait_to_be_computed() {
        use super::super::testing::{with_array, with_thread, with_work};
        use crate::facts::usage::{DiskUsage, Usage};
        use crate::summarise::summarise;
        use domain::inventory::Md;
        let of = |on_array: f64| {
            let md = Md {
                level: Some("raid5".into()),
                group_thread_count: Some(0),
                degraded: Some(1),
                ..Md::default()
            };
            let machine = with_array(md, false, &["sda", "sdb", "sdc"]);
            let options = "rw=randread bs=4k direct=1 ioengine=libaio iodepth=32";
            let mut data = fio_run(&[options], |_, _| vec![("throughput", 4e8)]);
            // A quarter of the reads is computed of three others.
            let member = |name| (name, 50_000, 50_000 << 12, 0, 0, 800);
            let array = ("md0", 100_000, 100_000 << 12, 0, 0, 990);
            with_work(&mut data, &[array, member("sda"), member("sdb"), member("sdc")]);
            with_thread(&mut data, "md0_raid5", Role::Array, 400);
            let disk = |name: &str, depth| DiskUsage {
                device: name.into(),
                depth: Some(depth),
                ..DiskUsage::default()
            };
            let disks = vec![disk("md0", on_array), disk("sda", 6.0), disk("sdb", 6.0), disk("sdc", 6.0)];
            let usages = [(data.trials[0].key.clone(), Usage { disks, ..Usage::default() })];
            let summary = summarise(&data, None);
            let case = Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) };
            (RULE.run)(&case).len()
        };
        assert_eq!([of(30.0), of(16.0)], [1, 0]);
    }

    /// Direct requests on an array of three disks of flash, so large and so many at once, with a thread that
    /// is so busy; what the members read of a megabyte written, or of all that is read.
    fn of_requests(rw: &str, (kib, depth): (u64, u32), used_ms: u64, (degraded, reads): (u32, u64)) -> usize {
        use super::super::testing::{with_array, with_thread, with_work};
        use domain::inventory::Md;
        let md = Md {
            level: Some("raid5".into()),
            group_thread_count: Some(0),
            degraded: Some(degraded),
            ..Md::default()
        };
        let machine = with_array(md, false, &["sda", "sdb", "sdc"]);
        let options = format!("rw={rw} bs={kib}k direct=1 ioengine=libaio iodepth={depth}");
        let mut data = fio_run(&[&options], |_, _| vec![("throughput", 1e9)]);
        let member = |name| (name, reads, reads * 4096, 900, 340 << 20, 850);
        let count = (1 << 20) / kib;
        let array = match rw {
            "read" => ("md0", count, 1 << 30, 0, 0, 990),
            _ => ("md0", 0, 0, count, 1 << 30, 990),
        };
        with_work(&mut data, &[array, member("sda"), member("sdb"), member("sdc")]);
        with_thread(&mut data, "md0_raid5", Role::Array, used_ms);
        findings(RULE, &data, Some(&machine), Some("md0")).len()
    }

    #[test]
    fn whole_stripes_wait_for_the_thread_too_where_few_requests_are_in_flight() {
        let of = |depth, used_ms| of_requests("write", (1024, depth), used_ms, (0, 100));
        assert_eq!([of(4, 540), of(1, 170), of(32, 540), of(1, 80)], [1, 1, 0, 0]);
        assert_eq!(of(32, 970), 1, "it is at its core's limit");
    }

    #[test]
    fn another_thread_is_woken_for_each_eight_stripes_that_wait() {
        let of = |kib, depth| of_requests("randwrite", (kib, depth), 400, (0, 200_000));
        assert_eq!([of(64, 1), of(16, 1), of(16, 2)], [1, 0, 0]);
    }

    #[test]
    fn reads_of_an_array_that_lacks_a_disk_pass_its_thread() {
        let of = |degraded, used_ms| of_requests("read", (128, 1), used_ms, (degraded, 1000));
        assert_eq!([of(1, 240), of(1, 60), of(0, 240)], [1, 0, 0]);
    }

    #[test]
    fn more_threads_are_not_proposed_for_platters_nor_below_the_frequency_that_there_is() {
        use super::super::testing::{watched, with_array, with_thread, with_work};
        use crate::facts::residency::PStates;
        use crate::facts::usage::{CpuUsage, Usage};
        use crate::summarise::summarise;
        use domain::inventory::{CpuList, Md};
        use domain::units::Hertz;
        let of = |rotational, mhz| {
            let md = Md { level: Some("raid5".into()), group_thread_count: Some(0), ..Md::default() };
            let mut machine = with_array(md, rotational, &["sda", "sdb", "sdc"]);
            machine.cpufreq = watched("powersave").cpufreq;
            let policy = &mut machine.cpufreq.as_mut().unwrap().policies[0];
            policy.cpus = CpuList::parse("0-1").unwrap();
            policy.max = Some(Hertz::from_mhz(3600));
            let options = "rw=randwrite bs=64k direct=1 ioengine=libaio iodepth=2";
            let mut data = fio_run(&[options], |_, _| vec![("throughput", 1e8)]);
            let member = |name| (name, 2000, 130 << 20, 2000, 130 << 20, 600);
            with_work(
                &mut data,
                &[("md0", 0, 0, 2000, 131 << 20, 990), member("sda"), member("sdb"), member("sdc")],
            );
            with_thread(&mut data, "md0_raid5", Role::Array, 500);
            let cpus = vec![(0, CpuUsage { system: 0.5, ..CpuUsage::default() })];
            let pstates =
                vec![PStates { policy: "policy0".into(), shares: vec![(Hertz::from_mhz(mhz), 1.0)] }];
            let usages = [(data.trials[0].key.clone(), Usage { cpus, pstates, ..Usage::default() })];
            let summary = summarise(&data, None);
            (RULE.run)(&Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) })
                .len()
        };
        assert_eq!([of(false, 3600), of(false, 1600), of(true, 3600)], [1, 0, 0]);
    }

    #[test]
    fn beside_a_resync_single_reads_wait_for_the_thread_as_well() {
        use super::super::testing::{with_array, with_thread, with_work};
        use domain::inventory::Md;
        let of = |level: &str, used_ms| {
            let md = Md { level: Some(level.into()), group_thread_count: Some(0), ..Md::default() };
            let machine = with_array(md, false, &["sda", "sdb", "sdc"]);
            let mut data = fio_run(&["rw=randread bs=4k direct=1"], |_, _| vec![("throughput", 1e7)]);
            let member = |name| (name, 2900, 190 << 20, 0, 0, 690);
            with_work(
                &mut data,
                &[("md0", 3500, 3500 * 4096, 0, 0, 980), member("sda"), member("sdb"), member("sdc")],
            );
            with_thread(&mut data, &format!("md0_{level}"), Role::Array, used_ms);
            with_thread(&mut data, "md0_resync", Role::Array, 10);
            findings(RULE, &data, Some(&machine), Some("md0")).len()
        };
        assert_eq!([of("raid5", 270), of("raid5", 60)], [1, 0]);
        assert_eq!(of("raid6", 270), 0, "no disk lacks data");
    }
}
