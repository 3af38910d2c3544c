//! Read-ahead: shown where a study varied it; else likely where sequential reads through the page cache are
//! slower than large direct ones, and the window is small.
//!
//! Source: `Documentation/ABI/stable/sysfs-block` (`read_ahead_kb`), mm/readahead.c.

use super::Rule;
use super::next_step::{NOT_KEPT, UNTUNE, measure_command, tune_command};
use super::pair::Pair;
use super::varied_setting::{self, NO_KEYS, NOTHING_BY_HAND, Words};
use crate::facts::arrays::{Array, Did, arrays, disks_below, rotates};
use crate::facts::case::{Case, CaseCell, evidence};
use crate::facts::cpu_share;
use crate::summary::{Comparison, Verdict};
use crate::words::{bracketed_certainty, difference, percent};
use domain::finding::{Confidence, Finding, Gain, Remedy};
use domain::inventory::BlockDevice;
use domain::setting::{SettingName, SettingRequest};
use domain::units::Bytes;

pub(super) const RULE: Rule = Rule {
    name: "read-ahead",
    doc: "Sequential reads are limited by how far the kernel reads ahead.",
    needs: "cells that differ in read-ahead, or in direct and buffered reads, alone; else what the device did in trials of reads in order; the device in the inventory",
    source: "Documentation/ABI/stable/sysfs-block (`read_ahead_kb`); mm/readahead.c",
    yields_to: &[],
    run,
};

const REASON: &str = "A sequential reader waits for each piece unless the kernel has already asked for it. It asks for no \
more than the read-ahead window at once, so that on an array, a network or any device with latency the window \
divided by that latency bounds the throughput.";

const WORDS: Words = Words {
    rule: "read-ahead",
    is_about: |name| name == "read_ahead_kb",
    keys: NO_KEYS,
    what: "read-ahead",
    reason: |_, _| REASON.to_owned(),
    by_hand: NOTHING_BY_HAND,
};

/// The kernel's default window, VM_READAHEAD_PAGES; a larger one was chosen by somebody, or by the array's
/// geometry.
const DEFAULT_WINDOW: Bytes = Bytes::from_kib(128);

/// Direct requests at least this large show what the device gives a reader that asks for much at once.
const LARGE: Bytes = Bytes::from_mib(1);

/// Options of how a file is read in order: through the page cache, whose window decides the size of requests,
/// or not.
const HOW_IT_IS_READ: &[&str] = &["direct", "buffered", "bs", "blocksize", "ioengine", "iodepth", "iflag"];

/// The window to try: it covers a 10 ms latency at 400 MB/s.
const WINDOW_TO_TRY_KIB: u64 = 4096;

/// Direct reads must be faster by this much: the copy out of the cache alone costs a fast device some of it.
const MIN_GAIN: f64 = 1.25;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let shown = varied_setting::findings(case, &WORDS);
    if !shown.is_empty() {
        return shown;
    }
    by_direct_reads(case).or_else(|| by_small_reads(case)).into_iter().collect()
}

/// Reading ahead lets device and CPU work side by side: where either is busy for more of the time, that gives
/// less than a tenth more.
const IDLE_BETWEEN: f64 = 0.9;

/// A device that is less busy has nobody who waits for it.
const MIN_BUSY: f64 = 0.5;

/// A disk that has requests in flight for so much of the time is never left waiting.
const ALWAYS: f64 = 0.98;

/// So many in flight, in the mean, are the reader's own and those that are read ahead of it.
const AHEAD_OF_THE_READER: f64 = 1.5;

/// Whether one disk has a read of a whole default window in flight all of the time, and the next one behind
/// it, at the rate of its link: the reader waits for that rate, not for the disk's latency.
fn is_always_asked(case: &Case<'_>, name: &str, below: &BlockDevice, did: &Did) -> bool {
    let disks = case.usages.iter().flat_map(|(_, usage)| &usage.disks).filter(|disk| disk.device == name);
    let depth = disks.filter_map(|disk| disk.depth).min_by(f64::total_cmp);
    let is_whole = did.read / did.reads >= DEFAULT_WINDOW.get() as f64;
    cpu_share::is_at_its_link(below, did)
        && is_whole
        && did.busy >= ALWAYS
        && depth >= Some(AHEAD_OF_THE_READER)
}

/// Bytes a second from which on a SATA disk of 6 Gbit/s gives a twentieth more at most: data sheets name 540
/// to 560 MB/s.
const FULL_LINK: f64 = 534e6;

/// Whether a disk that serves moves all that its link carries, however it is asked.
fn has_a_full_link(cell: &CaseCell<'_>, below: &[&BlockDevice]) -> bool {
    let is_full = |disk: &&&BlockDevice| {
        let did = cell.did(&disk.name);
        did.is_some_and(|did| did.read >= FULL_LINK && cpu_share::is_at_its_link(disk, &did))
    };
    below.iter().any(|disk| is_full(&disk))
}

/// Reads of so many bytes cost CPUs more by the byte than by the request, and a CPU that is so busy has no
/// time for more of them.
const OF_MANY_PAGES: f64 = 65_536.0;
const NO_TIME_LEFT: f64 = 0.95;

/// From this size on a spinning disk's own cache makes up for the time between two reads; less by as much as
/// the last piece of a file makes the mean smaller.
const OF_A_DISK: f64 = 16_000.0;

/// How spinning disks of an array with parity serve reads in order, in pieces so large that each disk reads
/// on into its own cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PastParity {
    /// There are none such.
    No,
    /// One disk at a time: others are idle meanwhile, or fill their caches.
    OneByOne,
    /// Each piece asks several disks at once.
    SideBySide,
}

/// The chunks of parity lie between those that a reader asks for. A disk that is asked for the next chunk
/// when it has read past the parity by itself has it; one that has it in its queue before turns to it, and
/// may wait for the platter. So a wider window gains where disks wait for one another, and costs where they
/// do not. Which of both counts more depends on the disks' firmware, and nothing that is recorded tells.
fn past_parity(case: &Case<'_>, cell: &CaseCell<'_>, size: f64) -> PastParity {
    let with_parity = |array: &Array| array.level.has_parity() && rotates(case, array);
    let Some(array) = arrays(case, cell).into_iter().find(with_parity).filter(|_| size >= OF_A_DISK) else {
        return PastParity::No;
    };
    match array.chunk {
        Some(chunk) if size > chunk.get() as f64 => PastParity::SideBySide,
        _ => PastParity::OneByOne,
    }
}

/// Reads in order through the page cache that reach a device in small pieces, one or two at a time.
fn by_small_reads(case: &Case<'_>) -> Option<Finding> {
    let cells = case.cells();
    let in_order = cells.iter().filter(|cell| {
        let profile = cell.profile();
        profile.reads_in_order() && !profile.is_direct() && !cell.is_at_its_limit() && !cell.pauses()
    });
    in_order.into_iter().find_map(|cell| small_reads(case, cell))
}

fn small_reads(case: &Case<'_>, cell: &CaseCell<'_>) -> Option<Finding> {
    let (name, inventory) = (cell.device()?, case.inventory?);
    let window = inventory.device(name)?.queue.as_ref()?.read_ahead.filter(|it| *it <= DEFAULT_WINDOW)?;
    // A spinning disk that serves alone reads ahead by itself, into its own cache.
    let below = disks_below(inventory, name);
    let serve = below.iter().filter(|disk| cell.did(&disk.name).is_some_and(|did| did.reads > 0.0));
    let is_alone = serve.count() == 1 && below.iter().all(rotates_disk);
    let did = cell.did(name).filter(|did| did.reads > 0.0 && did.busy >= MIN_BUSY)?;
    let size = did.read / did.reads;
    let reads_by_itself = is_alone && size >= OF_A_DISK;
    // Nothing is read ahead of a reader who asks for more than the window at once: the device is idle while
    // he takes what he got.
    let asks_for_more = cell.block_size().is_some_and(|block| block > window && size <= block.get() as f64);
    let busiest = below.iter().filter_map(|disk| Some(cell.did(&disk.name)?.busy)).fold(0.0, f64::max);
    // An array or a layer above disks has requests in flight as long as one of its disks has.
    let spins = below.iter().any(rotates_disk);
    let device = if below.is_empty() || spins { did.busy } else { busiest };
    let is_idle_between = asks_for_more && device.max(busiest_cpu(case)) <= IDLE_BETWEEN;
    // Spinning disks of an array read a stream ahead into their own caches. Where they are nearly as busy as
    // they can be with what the reader asks for at once, a wider window gives no more of it.
    let stream = asks_for_more && !is_idle_between && size >= OF_A_DISK && below.iter().all(rotates_disk);
    let leaves_nothing = stream && busiest * MIN_GAIN > 1.0;
    let past_parity = past_parity(case, cell, size);
    if has_a_full_link(cell, &below)
        || reads_by_itself
        || leaves_nothing
        || past_parity == PastParity::SideBySide
        || size > DEFAULT_WINDOW.get() as f64 && !is_idle_between
    {
        return None;
    }
    // What a CPU does for reads of many pages it does by the byte: to decrypt, to copy. One that has no time
    // left for these has none for larger ones.
    if size >= OF_MANY_PAGES && busiest_cpu(case) >= NO_TIME_LEFT {
        return None;
    }
    if let [disk] = &below[..]
        && is_always_asked(case, name, disk, &did)
    {
        return None;
    }
    let wider = wider(name);
    let source = format!("/proc/diskstats in {}", cell.source());
    let size = Bytes::new(size as u64);
    Some(Finding {
        rule: RULE.name,
        title: format!(
            "{} reads in order, and {name} gets it in pieces of {size}: the read-ahead window is {window}",
            cell.named()
        ),
        reason: REASON.into(),
        evidence: vec![
            evidence(format!("size of a read of {name}, mean"), size.to_string(), source.clone()),
            evidence(format!("time in which {name} had requests in flight"), percent(did.busy), source),
            evidence(
                "read-ahead window",
                window.to_string(),
                format!("/sys/block/{name}/queue/read_ahead_kb"),
            ),
        ],
        confidence: Confidence::Likely,
        gain: None,
        remedy: Some(match past_parity {
            PastParity::No => Remedy {
                what: format!(
                    "try a window of {WINDOW_TO_TRY_KIB} KiB, and measure what it gains; files that are open keep the window with which they were opened"
                ),
                settings: vec![wider.clone()],
                undo: UNTUNE.into(),
            },
            _ => Remedy {
                what: format!(
                    "measure a window of {WINDOW_TO_TRY_KIB} KiB before it is kept: it lets the disks read side by side, and may make them wait for their platters behind each chunk of parity"
                ),
                settings: vec![],
                undo: NOT_KEPT.into(),
            },
        }),
        next: if past_parity == PastParity::No { tune_command(&wider) } else { measure_command(&wider) },
        compared: vec![],
    })
}

fn rotates_disk(disk: &&BlockDevice) -> bool {
    disk.queue.as_ref().and_then(|queue| queue.rotational) == Some(true)
}

/// How busy the busiest CPU of any trace was.
fn busiest_cpu(case: &Case<'_>) -> f64 {
    let all = case.usages.iter().flat_map(|(_, usage)| &usage.cpus);
    all.map(|(_, cpu)| cpu.busy()).fold(0.0, f64::max)
}

fn wider(device: &str) -> SettingRequest {
    SettingRequest {
        setting: SettingName { name: "read_ahead_kb".into(), object: Some(device.into()) },
        value: WINDOW_TO_TRY_KIB.to_string(),
    }
}

fn by_direct_reads(case: &Case<'_>) -> Option<Finding> {
    let window = case.device()?.queue.as_ref()?.read_ahead.filter(|window| *window <= DEFAULT_WINDOW)?;
    let cells = case.cells();
    let sequential: Vec<&CaseCell<'_>> =
        cells.iter().filter(|cell| cell.profile().reads_in_order()).collect();
    let pairs = sequential.iter().filter(|cell| !cell.profile().is_direct()).flat_map(|buffered| {
        let is_large = |cell: &CaseCell<'_>| cell.block_size().is_some_and(|size| size >= LARGE);
        let direct = sequential.iter().filter(move |cell| cell.profile().is_direct() && is_large(cell));
        direct.filter_map(|direct| Pair::of(buffered, direct, |part| part.is_option(HOW_IT_IS_READ)))
    });
    let pair = pairs.into_iter().next()?;
    let (buffered, direct) = (pair.a(), pair.b());
    let comparison = pair.compare(case, ("buffered reads", "large direct reads"))?;
    let (_, high) = comparison.extent().filter(|(low, _)| *low >= MIN_GAIN)?;
    if comparison.verdict != Verdict::Better {
        return None;
    }
    let device = case.target_device?;
    let path = format!("/sys/block/{device}/queue/read_ahead_kb");
    let wider = wider(device);
    Some(Finding {
        rule: RULE.name,
        title: format!(
            "a read-ahead window of {window} may hold sequential reads back: large direct reads give {} of buffered ones",
            difference(&comparison)
        ),
        reason: REASON.into(),
        evidence: figures(&comparison, buffered, direct, (window, &path)),
        confidence: Confidence::Likely,
        // Read-ahead can at best reach what direct reads do, and at worst change nothing.
        gain: Some(Gain { metric: comparison.metric.clone(), low: 1.0, ratio: comparison.ratio?, high }),
        remedy: Some(Remedy {
            what: format!("try a window of {WINDOW_TO_TRY_KIB} KiB"),
            settings: vec![wider.clone()],
            undo: UNTUNE.into(),
        }),
        next: tune_command(&wider),
        compared: vec![pair.cells()],
    })
}

fn figures(
    comparison: &Comparison,
    buffered: &CaseCell<'_>,
    direct: &CaseCell<'_>,
    (window, path): (Bytes, &str),
) -> Vec<domain::finding::Evidence> {
    let Comparison { medians, unit, .. } = comparison;
    vec![
        evidence(
            "direct against buffered",
            format!("{}{}", difference(comparison), bracketed_certainty(comparison)),
            "measured in the same blocks",
        ),
        evidence("median of buffered reads", unit.show(medians.0), buffered.source()),
        evidence("median of large direct reads", unit.show(medians.1), direct.source()),
        evidence("read-ahead window", window.to_string(), path),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{about, bare_machine, findings, fio_run, setting_run, tool_run, with_work};
    use super::*;
    use crate::facts::usage::Usage;
    use crate::summary::RunData;
    use domain::ids::TrialKey;
    use domain::inventory::Inventory;
    use domain::study::Tool;

    const BUFFERED: &str = "rw=read bs=128k";
    const DIRECT: &str = "rw=read bs=1m direct=1";

    fn direct_times(factor: f64) -> RunData {
        fio_run(&[BUFFERED, DIRECT], move |cell, block| {
            vec![("throughput", about([1e8, 1e8 * factor][cell], cell, block))]
        })
    }

    /// How many findings there are of reads of vda.
    fn named(data: &RunData, usages: &[(TrialKey, Usage)], machine: &Inventory) -> usize {
        let summary = crate::summarise::summarise(data, None);
        let case = Case {
            inventory: Some(machine),
            target_device: Some("vda"),
            usages,
            ..Case::new(data, &summary)
        };
        (RULE.run)(&case).len()
    }

    #[test]
    fn a_window_that_was_varied_and_matters_is_shown() {
        let data = setting_run("read_ahead_kb", &["0", "128", "4096"], |level, block| {
            about([0.2e8, 1e8, 1.9e8][level], level, block)
        });
        let found = findings(RULE, &data, None, None);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].confidence, Confidence::Shown);
        assert!((found[0].gain.as_ref().unwrap().ratio - 9.5).abs() < 0.1);
        assert_eq!(found[0].remedy.as_ref().unwrap().settings[0].value, "4096");
    }

    #[test]
    fn dd_is_a_sequential_reader_unless_it_writes() {
        let count = |options: [&str; 2]| {
            let data = tool_run(&Tool::Dd, &options, |cell, block| {
                vec![("throughput", about([1e8, 2e8][cell], cell, block))]
            });
            findings(RULE, &data, Some(&bare_machine()), Some("vda")).len()
        };
        assert_eq!(count(["bs=64k", "bs=1M iflag=direct"]), 1);
        assert_eq!(count(["bs=64k direction=write", "bs=1M direction=write oflag=direct"]), 0);
    }

    #[test]
    fn buffered_reads_far_below_direct_ones_make_a_small_window_likely() {
        let found = findings(RULE, &direct_times(2.0), Some(&bare_machine()), Some("vda")).swap_remove(0);
        assert_eq!(found.confidence, Confidence::Likely);
        assert_eq!(found.next, "flyball tune --set read_ahead_kb@vda=4096 --persist");
        assert_eq!(found.remedy.unwrap().undo, "flyball tune --undo");
    }

    #[test]
    fn buffered_reads_near_direct_ones_or_a_large_window_are_no_finding() {
        assert!(findings(RULE, &direct_times(1.1), Some(&bare_machine()), Some("vda")).is_empty());
        let mut machine = bare_machine();
        machine.devices[0].queue.as_mut().unwrap().read_ahead = Some(Bytes::from_mib(4));
        assert!(findings(RULE, &direct_times(2.0), Some(&machine), Some("vda")).is_empty());
    }

    #[test]
    fn a_disk_that_always_has_the_next_read_is_not_waited_for_by_its_latency() {
        use crate::facts::usage::DiskUsage;
        let of = |transport: &str, reads: u64, busy_ms: u64, depth: f64| {
            let mut data = fio_run(&[BUFFERED], |cell, block| vec![("throughput", about(5e8, cell, block))]);
            with_work(&mut data, &[("vda", reads, reads * 131_072, 0, 0, busy_ms)]);
            let disk = DiskUsage { device: "vda".into(), depth: Some(depth), ..DiskUsage::default() };
            let usages = [(data.trials[0].key.clone(), Usage { disks: vec![disk], ..Usage::default() })];
            let mut machine = bare_machine();
            machine.devices[0].transport = Some(transport.to_owned());
            named(&data, &usages, &machine)
        };
        let sata = [of("sata", 4000, 1000, 1.0), of("sata", 4000, 1000, 1.9), of("sata", 4000, 800, 1.9)];
        assert_eq!(sata, [1, 0, 1]);
        // 537 MB/s are what the link gives, however it is asked.
        assert_eq!(of("sata", 4100, 800, 1.0), 0);
        assert_eq!(of("sata", 14_000, 1000, 1.9), 1, "a faster link");
        assert_eq!(of("nvme", 4000, 1000, 1.9), 1, "another link");
    }

    #[test]
    fn large_pieces_are_no_finding_where_a_cpu_has_no_time_for_more() {
        use crate::facts::usage::CpuUsage;
        let of = |size: u64, system| {
            let mut data = fio_run(&[BUFFERED], |cell, block| vec![("throughput", about(1e8, cell, block))]);
            with_work(&mut data, &[("vda", 800, 800 * size, 0, 0, 900)]);
            let cpus = vec![(0, CpuUsage { system, ..CpuUsage::default() })];
            let usages = [(data.trials[0].key.clone(), Usage { cpus, ..Usage::default() })];
            named(&data, &usages, &bare_machine())
        };
        assert_eq!([of(131_072, 0.5), of(131_072, 0.98), of(16_384, 0.98)], [1, 0, 1]);
    }

    #[test]
    fn a_reader_of_more_than_the_window_leaves_the_device_idle_between() {
        use crate::facts::usage::CpuUsage;
        let of = |block: &str, busy_ms, system| {
            let options = format!("rw=read bs={block}");
            let mut data = fio_run(&[&options], |cell, b| vec![("throughput", about(1e9, cell, b))]);
            with_work(&mut data, &[("vda", 1000, 1000 << 20, 0, 0, busy_ms)]);
            let cpus = vec![(0, CpuUsage { system, ..CpuUsage::default() })];
            let usages = [(data.trials[0].key.clone(), Usage { cpus, ..Usage::default() })];
            named(&data, &usages, &bare_machine())
        };
        assert_eq!([of("1m", 800, 0.8), of("1m", 960, 0.8), of("1m", 800, 0.96)], [1, 0, 0]);
        assert_eq!(of("4k", 800, 0.8), 0);
    }

    #[test]
    fn an_array_that_is_always_asked_has_disks_that_are_idle_between() {
        use super::super::testing::with_array;
        use domain::inventory::{Md, Queue};
        let of = |rotational, busy_ms| {
            let mut machine = with_array(Md::default(), rotational, &["sda", "sdb"]);
            machine.devices[0].name = "vda".into();
            machine.devices[0].queue =
                Some(Queue { read_ahead: Some(Bytes::from_kib(32)), ..Queue::default() });
            let mut data = fio_run(&["rw=read bs=1m"], |_, _| vec![("throughput", 1.7e9)]);
            let member = |name| (name, 1600, 800 << 20, 0, 0, busy_ms);
            with_work(&mut data, &[("vda", 1600, 1600 << 20, 0, 0, 999), member("sda"), member("sdb")]);
            named(&data, &[], &machine)
        };
        assert_eq!([of(false, 590), of(false, 950), of(true, 590)], [1, 0, 0]);
    }

    #[test]
    fn without_the_device_nothing_is_said() {
        assert!(findings(RULE, &direct_times(2.0), None, Some("vda")).is_empty());
        assert!(findings(RULE, &direct_times(2.0), Some(&bare_machine()), None).is_empty());
    }

    #[test]
    fn the_end_of_a_file_makes_no_reads_small_that_a_disk_makes_up_for() {
        let of = |size: u64, less: u64| {
            let mut data = fio_run(&["rw=read bs=4k"], |_, _| vec![("throughput", 2e8)]);
            with_work(&mut data, &[("vda", 12_000, 12_000 * size - less, 0, 0, 999)]);
            let mut machine = bare_machine();
            machine.devices[0].queue.as_mut().unwrap().rotational = Some(true);
            named(&data, &[], &machine)
        };
        assert_eq!([of(16_384, 0), of(16_384, 12_288), of(8192, 0)], [0, 0, 1]);
    }

    #[test]
    fn spinning_disks_with_parity_between_get_no_wider_window_without_a_measurement() {
        use super::super::testing::with_array;
        use domain::inventory::{Md, Queue};
        let of = |level: &str, rotational, chunk_kib, piece: u64| {
            let chunk = Some(Bytes::from_kib(chunk_kib));
            let md = Md { level: Some(level.into()), chunk, ..Md::default() };
            let mut machine = with_array(md, rotational, &["sda", "sdb", "sdc"]);
            machine.devices[0].name = "vda".into();
            machine.devices[0].queue =
                Some(Queue { read_ahead: Some(Bytes::from_kib(128)), ..Queue::default() });
            let mut data = fio_run(&["rw=read bs=4k"], |_, _| vec![("throughput", 3e8)]);
            let member = |name| (name, 800, 100 << 20, 0, 0, 400);
            let array = ("vda", 2400, 2400 * piece, 0, 0, 900);
            with_work(&mut data, &[array, member("sda"), member("sdb"), member("sdc")]);
            let summary = crate::summarise::summarise(&data, None);
            let case =
                Case { inventory: Some(&machine), target_device: Some("vda"), ..Case::new(&data, &summary) };
            let found = (RULE.run)(&case).pop()?;
            assert!(found.next.starts_with("flyball tune --set read_ahead_kb@vda=4096 --"), "{}", found.next);
            Some(found.remedy.unwrap().settings.len())
        };
        assert_eq!(of("raid5", true, 512, 131_072), Some(0), "one disk at a time");
        assert_eq!(of("raid5", true, 64, 131_072), None, "two disks at a time");
        assert_eq!(of("raid5", true, 64, 8192), Some(1), "pieces that no disk makes up for");
        assert_eq!([of("raid0", true, 64, 131_072), of("raid5", false, 64, 131_072)], [Some(1), Some(1)]);
    }

    #[test]
    fn spinning_disks_that_are_busy_with_what_a_reader_asks_for_have_no_more() {
        use super::super::testing::with_array;
        use domain::inventory::{Md, Queue};
        let of = |rotational, busy_ms| {
            let mut machine = with_array(Md::default(), rotational, &["sda", "sdb"]);
            machine.devices[0].name = "vda".into();
            machine.devices[0].queue =
                Some(Queue { read_ahead: Some(Bytes::from_kib(16)), ..Queue::default() });
            let mut data = fio_run(&[BUFFERED], |_, _| vec![("throughput", 1e9)]);
            let member = |name| (name, 4900, 160 << 20, 0, 0, busy_ms);
            with_work(&mut data, &[("vda", 2600, 2600 * 131_000, 0, 0, 999), member("sda"), member("sdb")]);
            named(&data, &[], &machine)
        };
        assert_eq!([of(true, 880), of(true, 400), of(false, 880)], [0, 1, 1]);
    }
}
