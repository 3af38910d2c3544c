use super::*;
use crate::block::DeviceStats;
use crate::testbed::{Answered, Came, Log, Step, Testbed, flushes, read, written};

const SIZE: u64 = 1 << 30;
const HEADER: u64 = 16 << 20;

fn options() -> Options {
    Options {
        kind: CryptKind::Luks2,
        cipher: "aes-xts-plain64".to_owned(),
        key_size: 512,
        sector_size: 512,
        no_read_workqueue: false,
        no_write_workqueue: false,
        same_cpu: false,
        submit_from_crypt: false,
    }
}

fn testbed(cpus: usize, options: Options, limits: Limits) -> (Testbed, PartId, Log) {
    let mut testbed = Testbed::new(cpus, 1_000);
    let (device, log) = testbed.device(SIZE, 100_000, 5_000_000);
    let costs = CryptCosts::of_cipher(&options.cipher, options.key_size, AesInstructions::Absent);
    let spec = CryptSpec { name: "dm-0".to_owned(), options, limits, queue: WorkQueue::Unbound, costs };
    testbed.world.core.devices.push(DeviceStats::new("dm-0"));
    let me = testbed.world.next_part();
    let crypt = Crypt::new(&mut testbed.world.core, me, device, 0, Bytes::new(SIZE), spec);
    testbed.world.add(Box::new(crypt));
    (testbed, me, log)
}

const OLD: Limits = Limits::of_kernel(6, 1);
const NEW: Limits = Limits::of_kernel(6, 12);

fn sequential(op: Op, count: u64, len: u64) -> Vec<Step> {
    (0..count).map(|n| Step::IoRequest(op, n * len, len)).collect()
}

fn ran(cpus: usize, options: Options, limits: Limits, depth: usize, steps: &[Step]) -> (Testbed, Log) {
    let (mut testbed, crypt, log) = testbed(cpus, options, limits);
    testbed.scripts(crypt, depth, vec![steps.to_vec()]);
    testbed.finish();
    assert!(testbed.world.core.bios.is_empty(), "a request was lost");
    assert_eq!(testbed.world.core.devices[0].in_flight, 0);
    (testbed, log)
}

fn thread_named(testbed: &Testbed, came: &Came) -> String {
    let threads: Vec<String> = testbed.world.core.cpus.thread_times().map(|(n, _, _)| n.to_owned()).collect();
    came.thread.map_or_else(|| "nobody".to_owned(), |thread| threads[thread.0 as usize].clone())
}

fn all_options() -> Vec<Options> {
    (0..16)
        .map(|bits: u32| Options {
            no_read_workqueue: bits & 1 != 0,
            no_write_workqueue: bits & 2 != 0,
            same_cpu: bits & 4 != 0,
            submit_from_crypt: bits & 8 != 0,
            ..options()
        })
        .collect()
}

#[test]
fn whatever_the_options_every_request_is_done_once_and_every_byte_moves() {
    let mut steps = sequential(Op::Write, 20, 192 << 10);
    steps.extend([Step::Fsync, Step::IoRequest(Op::Discard, 0, 1 << 20)]);
    steps.extend(sequential(Op::Read, 20, 192 << 10));
    for options in all_options() {
        for limits in [OLD, NEW] {
            let (testbed, log) = ran(4, options.clone(), limits, 8, &steps);
            let mut answered: Vec<usize> = testbed.answered.borrow().iter().map(|a| a.step).collect();
            answered.sort_unstable();
            assert_eq!(answered, (0..steps.len()).collect::<Vec<_>>(), "{options:?}");
            assert_eq!((written(&log), read(&log), flushes(&log)), (3_932_160, 3_932_160, 1));
            let stats = &testbed.world.core.devices[0];
            let pieces = if limits == NEW { 40 } else { 20 };
            assert_eq!((stats.reads.ios, stats.writes.ios, stats.flushes), (pieces, pieces, 1));
        }
    }
}

#[test]
fn data_lies_behind_the_header() {
    let (_, log) = ran(1, options(), OLD, 1, &[Step::IoRequest(Op::Write, 4096, 4096)]);
    assert_eq!(log.borrow()[0].offset, HEADER + 4096);
    let plain = Options { kind: CryptKind::Plain, ..options() };
    let (_, log) = ran(1, plain, OLD, 1, &[Step::IoRequest(Op::Write, 4096, 4096)]);
    assert_eq!(log.borrow()[0].offset, 4096);
}

#[test]
fn newer_kernels_split_reads_and_writes_at_128_kib() {
    let steps = [Step::IoRequest(Op::Read, 0, 2 << 20), Step::IoRequest(Op::Write, 0, 2 << 20)];
    let lens = |limits| {
        let (_, log) = ran(2, options(), limits, 1, &steps);
        let of = |op| log.borrow().iter().filter(|c| c.op == op).map(|c| c.len >> 10).collect::<Vec<_>>();
        (of(Op::Read), of(Op::Write))
    };
    assert_eq!(lens(OLD), (vec![2048], vec![1024; 2]));
    assert_eq!(lens(NEW), (vec![128; 16], vec![128; 16]));
}

#[test]
fn one_thread_writes_what_was_encrypted_by_place() {
    // Encrypted on four CPUs, and asked for from the end to the beginning: while the thread is busy the rest
    // is sorted.
    let steps: Vec<Step> = (0..32).rev().map(|n| Step::IoRequest(Op::Write, n << 20, 4096)).collect();
    let (testbed, log) = ran(4, options(), OLD, 32, &steps);
    let log = log.borrow();
    assert!(log.iter().all(|came| thread_named(&testbed, came) == "dmcrypt_write/dm-0"));
    let falls = log.windows(2).filter(|pair| pair[1].offset < pair[0].offset).count();
    assert!(falls < 16, "unsorted, there would be 31 steps back, and there are {falls}");
}

#[test]
fn the_options_decide_who_submits_a_write() {
    let submitter = |options| {
        let (testbed, log) = ran(2, options, OLD, 1, &[Step::IoRequest(Op::Write, 0, 65536)]);
        let came = log.borrow()[0];
        thread_named(&testbed, &came)
    };
    assert_eq!(submitter(Options { no_write_workqueue: true, ..options() }), "script 0");
    let from_crypt = submitter(Options { submit_from_crypt: true, ..options() });
    assert!(from_crypt.starts_with("kworker/u2:"), "{from_crypt}");
}

#[test]
fn without_a_work_queue_reads_are_decrypted_by_the_interrupt() {
    let steps = sequential(Op::Read, 10, 65536);
    let no_queue = Options { no_read_workqueue: true, ..options() };
    let (testbed, _) = ran(2, no_queue, OLD, 1, &steps);
    assert_eq!(testbed.used(Role::Crypt), 0);
    // 640 KiB at 30 cycles a byte and 1 GHz are 19 ms.
    assert!(testbed.used(Role::Interrupt) > 19_000_000, "{}", testbed.used(Role::Interrupt));
    let (testbed, _) = ran(2, options(), OLD, 1, &steps);
    assert!(testbed.used(Role::Crypt) > 19_000_000 && testbed.used(Role::Interrupt) < 1_000_000);
}

#[test]
fn kcryptd_uses_all_cpus_and_same_cpu_does_not() {
    let steps = sequential(Op::Write, 64, 65536);
    let time = |options| {
        let (mut testbed, crypt, _) = testbed(4, options, OLD);
        testbed.allowed = 1;
        testbed.scripts(crypt, 16, vec![steps.clone()]);
        testbed.finish();
        testbed.world.core.now
    };
    let (unbound, bound) = (time(options()), time(Options { same_cpu: true, ..options() }));
    // 4 MiB at 30 cycles a byte are 126 ms on one CPU.
    assert!(unbound < 60_000_000, "{unbound}");
    assert!(bound > 126_000_000, "{bound}");
}

#[test]
fn larger_sectors_cost_less() {
    let steps = sequential(Op::Read, 64, 65536);
    let used = |sector_size| {
        let (testbed, _) = ran(2, Options { sector_size, ..options() }, OLD, 1, &steps);
        testbed.used(Role::Crypt)
    };
    let (small, large) = (used(512), used(4096));
    // 8192 sectors against 1024, at 400 cycles each and 1 GHz.
    let saved = small - large;
    assert!((2_800_000..2_950_000).contains(&saved), "{saved}");
}

#[test]
fn the_same_machine_takes_the_same_course() {
    let course = || {
        let (testbed, log) = ran(4, options(), NEW, 8, &sequential(Op::Write, 40, 300 << 10));
        let answered: Vec<Answered> = testbed.answered.borrow().clone();
        (answered, log.borrow().clone())
    };
    assert_eq!(course(), course());
}

#[test]
fn ciphers_differ_in_cost() {
    let kib = |cipher, key, aes| CryptCosts::of_cipher(cipher, key, aes).kib.cycles;
    let xts = "aes-xts-plain64";
    assert!(kib(xts, 256, AesInstructions::Present) < kib(xts, 512, AesInstructions::Present));
    assert!(
        kib(xts, 512, AesInstructions::Present) < kib("serpent-xts-plain64", 512, AesInstructions::Absent)
    );
    assert!(
        kib("serpent-xts-plain64", 512, AesInstructions::Absent) < kib(xts, 256, AesInstructions::Absent)
    );
}

#[test]
fn kcryptd_is_what_the_kernel_had() {
    let of = |version| WorkQueue::of_kernel(KernelVersion::parse(version).unwrap());
    assert_eq!(["2.6.18", "2.6.23", "3.2", "3.19.8"].map(of), [WorkQueue::EachCpu; 4]);
    assert_eq!(["2.6.24", "2.6.37"].map(of), [WorkQueue::OneThread; 2]);
    assert_eq!(["4.0", "6.1", "6.12.117"].map(of), [WorkQueue::Unbound; 3]);
}
