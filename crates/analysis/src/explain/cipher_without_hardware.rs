//! Encryption takes so many cycles a byte that the cipher has no instructions of the CPU: shown where a study
//! varied the cipher; likely by the CPU time of dm-crypt's threads.
//!
//! Sources: drivers/md/dm-crypt.c; arch/x86/crypto/aesni-intel_asm.S, crypto/aes_generic.c; cryptsetup(8),
//! `benchmark`.

use super::Rule;
use super::varied_setting::{self, NO_SETTING, Words};
use crate::facts::arrays::{Encrypted, encrypted, in_flight};
use crate::facts::case::{Case, CaseCell, evidence};
use crate::facts::cpu_share::{self, Bound};
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::Inventory;
use domain::trace::Role;
use domain::units::{Hertz, Unit, significant};

pub(super) const RULE: Rule = Rule {
    name: "cipher-without-hardware",
    doc: "Encryption takes many cycles a byte: the cipher has no instructions of this CPU.",
    needs: "cells that differ in the cipher alone; else CPU time of encryption and what dm-crypt's device did in trials, and the CPU's frequency",
    source: "drivers/md/dm-crypt.c; arch/x86/crypto/aesni-intel_asm.S, crypto/aes_generic.c; cryptsetup(8)",
    yields_to: &[],
    run,
};

const REASON: &str = "A cipher for which the CPU has instructions takes far fewer cycles a byte than one in software. Encryption is on \
the path of each request, and takes the longer the lower the CPU's frequency is.";

/// Said first: all data are written anew.
const BY_HAND: (&str, &str) = (
    "`cryptsetup benchmark` shows which ciphers are fast here, and `grep -m1 -o aes /proc/cpuinfo` whether the CPU has \
instructions for AES; the cipher is chosen when the volume is made, and changing it writes all data anew: make a backup \
first, then `cryptsetup reencrypt --cipher aes-xts-plain64 /dev/DEVICE`",
    "`cryptsetup reencrypt` with the cipher that was in force, after a backup",
);

const WORDS: Words = Words {
    rule: "cipher-without-hardware",
    is_about: NO_SETTING,
    keys: &["cipher", "key_size"],
    what: "the cipher",
    reason: |_, _| REASON.to_owned(),
    by_hand: BY_HAND,
};

/// Assumed: AES-XTS with instructions stays below it, also where the CPU runs at a third of its highest
/// frequency, by which the cycles are counted; software does not.
const MIN_CYCLES: f64 = 10.0;

/// No cipher in software takes so many: what does is something else, as a clock that is slower than the CPU's
/// nominal one.
const MAX_CYCLES: f64 = 1000.0;

/// What instructions of the CPU take of a byte; assumed, on the high side (`cryptsetup benchmark` shows 1
/// to 3).
const WITH_INSTRUCTIONS: f64 = 3.0;

/// Cycles of a request that are none of its bytes: through dm-crypt's queues, or from the page cache to the
/// disk where it is written back; and, where those queues are passed by and the CPU time of whoever asks is
/// not told apart, through all other layers as well. Assumed, on the high side.
const OF_A_REQUEST: [f64; 2] = [15_000.0, 60_000.0];

/// A device that has no more in flight than this, in the mean, has one request at a time: whoever reads waits
/// for each of them.
const ONE_AT_A_TIME: f64 = 1.0;

/// Encryption that takes less of one core decides nothing: of a load with many requests in flight, and of one
/// that waits for each of them, whose time it is a part of.
const MIN_CORES: [f64; 2] = [0.3, 0.1];

fn run(case: &Case<'_>) -> Vec<Finding> {
    if varied_setting::is_varied(case, &WORDS) {
        return varied_setting::findings(case, &WORDS);
    }
    let Some(highest) = case.inventory.and_then(highest) else { return Vec::new() };
    // Where it was counted at which frequency the CPUs ran, by that one.
    let ran_at = cpu_share::ran_at(case).map(|(hertz, _)| Hertz::from_khz((hertz / 1e3) as u64));
    let frequency = ran_at.map_or(highest, |ran_at| ran_at.min(highest));
    let cells = case.cells();
    let found = cells.iter().flat_map(|cell| {
        let costly = encrypted(case, cell)
            .into_iter()
            .filter_map(|it| Some((cell, Cost::of(case, cell, &it, frequency)?, it)));
        costly.collect::<Vec<_>>()
    });
    let most = found.max_by(|(_, a, _), (_, b, _)| a.cycles.total_cmp(&b.cycles));
    let frequency = match ran_at {
        Some(ran_at) if ran_at < highest => ("frequency at which the busiest CPU ran, mean", ran_at),
        _ => ("highest frequency of the CPUs", highest),
    };
    most.and_then(|(cell, cost, it)| finding(case, cell, &cost, frequency, &it)).into_iter().collect()
}

/// The highest frequency of any CPU: with that no cycle is counted that was not there.
fn highest(inventory: &Inventory) -> Option<Hertz> {
    let policies = inventory.cpufreq.iter().flat_map(|cpufreq| &cpufreq.policies);
    policies.filter_map(|policy| policy.hardware_max).chain(inventory.cpus.max).max()
}

/// What encryption takes, where the cipher is what takes it.
struct Cost {
    /// Cycles a byte.
    cycles: f64,
    /// CPU time by a trial's time: encryption's own threads', or all threads'.
    cores: f64,
    /// Whether it is all threads', since nothing tells encryption's own apart.
    of_all: bool,
}

impl Cost {
    fn of(case: &Case<'_>, cell: &CaseCell<'_>, it: &Encrypted<'_>, frequency: Hertz) -> Option<Self> {
        // Past dm-crypt's queues whoever asks encrypts. What fio does beside is bounded by its requests; what
        // a database does is not.
        let of_all = it.crypt.flags.iter().any(|flag| flag.ends_with("_workqueue"));
        // A rate that is kept is none the higher with another cipher.
        if of_all && !cell.is_fio() || cell.keeps_its_pace() {
            return None;
        }
        let cores = if of_all { encrypting(cell, it)? } else { it.cores };
        let of_a_request = OF_A_REQUEST[usize::from(of_all && !cell.writes_behind())];
        let bytes = it.did.read + it.did.written;
        let cycles = (cores * frequency.hz() as f64 - it.did.requests() * of_a_request) / bytes;
        let is_asked_singly = || {
            let waiting = in_flight(case, cell, &it.device.name);
            it.did.writes == 0.0 && waiting.is_some_and(|waiting| waiting <= ONE_AT_A_TIME)
        };
        let is_single = cell.profile().depth == Some(1) && (cell.profile().is_direct() || is_asked_singly());
        let least = MIN_CORES[usize::from(is_single)];
        (cores >= least && (MIN_CYCLES..=MAX_CYCLES).contains(&cycles)).then_some(Self {
            cycles,
            cores,
            of_all,
        })
    }
}

/// CPU time of all that may encrypt past dm-crypt's queues, in cores. Below it an array's thread works on
/// what is encrypted already, and of writes so do interrupts.
fn encrypting(cell: &CaseCell<'_>, it: &Encrypted<'_>) -> Option<f64> {
    let of_array = cell.cores(&[Role::Array])?;
    let of_interrupts = if it.did.read > 0.0 { 0.0 } else { cell.cores(&[Role::Interrupt])? };
    // What is written into the page cache is encrypted by the threads that write it back.
    let of_workload = if cell.writes_behind() { cell.cores(&[Role::Workload])? } else { 0.0 };
    Some((it.all_cores - of_array - of_interrupts - of_workload).max(0.0))
}

fn finding(
    case: &Case<'_>,
    cell: &CaseCell<'_>,
    cost: &Cost,
    (what_frequency, frequency): (&str, Hertz),
    it: &Encrypted<'_>,
) -> Option<Finding> {
    let device = &it.device.name;
    let (what, undo) = BY_HAND;
    // Encryption is nearly all that CPUs do there.
    let gain = match cpu_share::bound(case, cost.cycles / WITH_INSTRUCTIONS) {
        Bound::Nothing => return None,
        Bound::AtMost { times, .. } => cpu_share::expected(case, times),
        Bound::Unknown => None,
    };
    Some(Finding {
        rule: RULE.name,
        title: format!(
            "encryption of {device} takes up to {} cycles a byte in {}",
            significant(cost.cycles),
            cell.named()
        ),
        reason: REASON.into(),
        evidence: vec![
            evidence(
                format!(
                    "CPU time of {}, in cores, median",
                    if cost.of_all { "all threads" } else { "encryption" }
                ),
                significant(cost.cores),
                cell.source(),
            ),
            evidence(
                format!("read from and written to {device}"),
                Unit::BytesPerSecond.show(it.did.read + it.did.written),
                "/proc/diskstats",
            ),
            evidence(what_frequency, frequency.to_string(), "/sys/devices/system/cpu/cpufreq"),
            evidence("cipher", it.crypt.cipher.clone(), "dmsetup table"),
        ],
        confidence: if cost.of_all { Confidence::Possible } else { Confidence::Likely },
        gain,
        remedy: Some(Remedy { what: what.into(), settings: vec![], undo: undo.into() }),
        next: case.show_again(),
        compared: vec![],
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use domain::inventory::Policy;
    use domain::study::Tool;
    use domain::trace::Role;

    fn machine(max_mhz: Option<u64>) -> Inventory {
        machine_of(max_mhz, &[])
    }

    fn machine_of(max_mhz: Option<u64>, flags: &[&str]) -> Inventory {
        let policy = Policy { hardware_max: max_mhz.map(Hertz::from_mhz), ..Policy::default() };
        let machine = with_crypt(false, "serpent-xts-plain64", 4096, flags);
        Inventory { cpufreq: machine_with(policy).cpufreq, ..machine }
    }

    fn of(used_ms: u64, requests: u64, bytes: u64, machine: &Inventory) -> Vec<Finding> {
        let mut data =
            fio_run(&["rw=read bs=1m"], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        with_work(&mut data, &[("dm-0", requests, bytes, 0, 0, 900)]);
        with_thread(&mut data, "kworker/u8:1-kcryptd", Role::Crypt, used_ms);
        findings(RULE, &data, Some(machine), Some("dm-0"))
    }

    #[test]
    fn many_cycles_a_byte_are_found_with_the_cipher() {
        let found = of(900, 100, 102_400_000, &machine(Some(3000))).swap_remove(0);
        assert_eq!(found.title, "encryption of dm-0 takes up to 26.4 cycles a byte in w0");
        assert_eq!(found.evidence[3].figure, "serpent-xts-plain64");
        assert_eq!(of(900, 25_000, 102_400_000, &machine(Some(3000))).len(), 1, "requests of 4 KiB");
    }

    #[test]
    fn past_the_queues_all_cpu_time_of_fio_is_counted_and_that_of_another_tool_is_not() {
        let machine = machine_of(Some(3000), &["no_read_workqueue", "no_write_workqueue"]);
        let of = |tool: &Tool, beside_ms: u64| {
            let mut data = tool_run(tool, &["rw=read bs=1m"], |cell, block| {
                vec![("throughput", about(1e8, cell, block))]
            });
            with_work(&mut data, &[("dm-0", 100, 102_400_000, 0, 0, 900)]);
            with_thread(&mut data, "the load", Role::Workload, 900);
            with_thread(&mut data, "kworker/u8:1-kcryptd", Role::Crypt, 1);
            with_thread(&mut data, "a load beside it", Role::Beside, beside_ms);
            findings(RULE, &data, Some(&machine), Some("dm-0"))
        };
        let found = of(&Tool::Fio, 0).swap_remove(0);
        assert_eq!(of(&Tool::Fio, 900)[0].title, found.title, "a load beside it encrypts nothing");
        assert_eq!(found.confidence, Confidence::Possible);
        assert_eq!(found.evidence[0].what, "CPU time of all threads, in cores, median");
        assert_eq!(found.evidence[0].figure, "0.901");
        assert!(of(&Tool::Dd, 0).is_empty());
    }

    #[test]
    fn past_the_queues_an_array_below_and_interrupts_of_writes_encrypt_nothing() {
        let machine = machine_of(Some(3000), &["no_read_workqueue", "no_write_workqueue"]);
        let of = |role, own_ms: u64, other_ms: u64| {
            let mut data = fio_run(&["rw=randwrite bs=16k direct=1"], |cell, b| {
                vec![("throughput", about(5e7, cell, b))]
            });
            with_work(&mut data, &[("dm-0", 0, 0, 2500, 40_960_000, 900)]);
            with_thread(&mut data, "fio", Role::Workload, own_ms);
            with_thread(&mut data, "another", role, other_ms);
            findings(RULE, &data, Some(&machine), Some("dm-0")).len()
        };
        assert_eq!(
            [of(Role::Kworker, 50, 500), of(Role::Array, 50, 500), of(Role::Interrupt, 50, 500)],
            [1, 0, 0]
        );
        assert_eq!(of(Role::Array, 250, 0), 1, "a quarter of the time of a request that is waited for");
    }

    #[test]
    fn a_fast_cipher_small_requests_and_little_cpu_time_are_no_finding() {
        let machine = machine(Some(3000));
        assert!(of(900, 2000, 2_048_000_000, &machine).is_empty());
        assert!(of(900, 180_000, 92_160_000, &machine).is_empty());
        assert!(of(90, 10, 10_240_000, &machine).is_empty());
        // Three thousand cycles a byte are no cipher's.
        assert!(of(900, 100, 900_000, &machine).is_empty());
    }

    #[test]
    fn without_the_frequency_or_cpu_time_nothing_is_said() {
        assert!(of(900, 100, 102_400_000, &machine(None)).is_empty());
        let mut data =
            fio_run(&["rw=read bs=1m"], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        with_work(&mut data, &[("dm-0", 100, 102_400_000, 0, 0, 900)]);
        assert!(findings(RULE, &data, Some(&machine(Some(3000))), Some("dm-0")).is_empty());
    }

    #[test]
    fn a_cipher_that_was_varied_is_shown() {
        let disk: Table<'_> = ("disk", &[("kind", "devices"), ("count", "1"), ("loop", "256MiB")]);
        let crypt: Table<'_> = ("crypt", &[("kind", "crypt"), ("on", "disk")]);
        let levels = [("serpent-xts-plain64", 1e8), ("aes-xts-plain64", 9e8)];
        let data = storage_run(&[disk, crypt], "crypt.cipher", &levels);
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert!(found.title.contains("aes-xts-plain64 gives 9.00 times"), "{}", found.title);
    }

    #[test]
    fn who_writes_into_the_page_cache_encrypts_nothing() {
        let machine = machine_of(Some(3000), &["no_read_workqueue", "no_write_workqueue"]);
        let of = |role| {
            let mut data = fio_run(&["rw=randwrite bs=16k"], |_, _| vec![("throughput", 5e7)]);
            with_work(&mut data, &[("dm-0", 0, 0, 2500, 40_960_000, 900)]);
            with_thread(&mut data, "another", role, 500);
            findings(RULE, &data, Some(&machine), Some("dm-0")).len()
        };
        assert_eq!([of(Role::Workload), of(Role::Kworker)], [0, 1]);
    }

    #[test]
    fn pages_that_are_written_back_pass_through_few_layers() {
        let machine = machine_of(Some(2800), &["no_read_workqueue", "no_write_workqueue"]);
        let of = |written_back_ms: u64| {
            let mut data = fio_run(&["rw=randwrite bs=16k"], |_, _| vec![("throughput", 1e8)]);
            with_work(&mut data, &[("dm-0", 0, 0, 20_000, 20_000 << 12, 900)]);
            with_thread(&mut data, "kworker/u8:0-flush", Role::Writeback, written_back_ms);
            findings(RULE, &data, Some(&machine), Some("dm-0")).len()
        };
        // 100,000 cycles a page, and 42,000, of which a cipher with instructions takes 12,000.
        assert_eq!([of(714), of(300)], [1, 0]);
    }

    #[test]
    fn a_reader_of_the_page_cache_waits_for_a_device_that_has_one_request() {
        use crate::facts::usage::{DiskUsage, Usage};
        let of = |depth, used_ms: u64| {
            let options = "rw=randread bs=4k ioengine=psync";
            let mut data = fio_run(&[options], |_, _| vec![("throughput", 3.5e7)]);
            with_work(&mut data, &[("dm-0", 8500, 8500 << 12, 0, 0, 940)]);
            with_thread(&mut data, "kworker/u8:1-kcryptd", Role::Crypt, used_ms);
            let disk = DiskUsage { device: "dm-0".into(), depth: Some(depth), ..DiskUsage::default() };
            let usages = [(data.trials[0].key.clone(), Usage { disks: vec![disk], ..Usage::default() })];
            let summary = crate::summarise::summarise(&data, None);
            let machine = machine(Some(3600));
            (RULE.run)(&Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) })
                .len()
        };
        assert_eq!([of(0.94, 250), of(1.6, 250), of(1.6, 350)], [1, 0, 1]);
    }

    #[test]
    fn what_instructions_give_is_bounded_by_the_cpus_part_and_by_platters() {
        let of = |busy_ms| {
            let options = "rw=randread bs=64k direct=1 ioengine=libaio iodepth=2";
            let mut data = fio_run(&[options], |_, _| vec![("throughput", 1e8)]);
            let disk = |name| (name, 1600, 1600 << 16, 0, 0, busy_ms);
            with_work(&mut data, &[disk("dm-0"), disk("sda")]);
            with_thread(&mut data, "kworker/u8:1-kcryptd", Role::Crypt, 900);
            let policy = Policy { hardware_max: Some(Hertz::from_mhz(3000)), ..Policy::default() };
            let machine = with_crypt(true, "serpent-xts-plain64", 4096, &[]);
            let machine = Inventory { cpufreq: machine_with(policy).cpufreq, ..machine };
            let found = findings(RULE, &data, Some(&machine), Some("dm-0"));
            found.into_iter().map(|found| found.gain.unwrap().ratio).collect::<Vec<f64>>()
        };
        assert!(matches!(of(500)[..], [times] if (times - 2.0).abs() < 0.01), "{:?}", of(500));
        assert!(of(1000).is_empty(), "the disk has no time left");
    }
}
