use super::*;
use crate::testbed::{Answered, Log, Step, Testbed, flushes, read, written};
use disks::Op;
use domain::trace::Role;

const MIB: u64 = 1 << 20;
const SECOND: Time = 1_000_000_000;
const DEVICE: u64 = 1 << 30;

fn spec(memory: u64) -> FileSpec {
    FileSpec::new("sda", Bytes::new(DEVICE), Bytes::new(memory), (6, 12))
}

/// A block device's pages over a device of 200 MB/s and 50 µs a request.
fn testbed(spec: FileSpec) -> (Testbed, PartId, Log) {
    let mut testbed = Testbed::new(2, 2_000);
    let (device, log) = testbed.device(DEVICE, 50_000, 5_000_000);
    let me = testbed.world.next_part();
    let file = File::on_device(&mut testbed.world.core, me, device, spec);
    testbed.world.add(Box::new(file));
    (testbed, me, log)
}

fn ran(spec: FileSpec, scripts: Vec<Vec<Step>>) -> (Testbed, PartId, Log) {
    let (mut testbed, file, log) = testbed(spec);
    testbed.scripts(file, 1, scripts);
    testbed.finish();
    (testbed, file, log)
}

fn sequential(op: Op, total: u64, len: u64) -> Vec<Step> {
    (0..total / len).map(|n| Step::IoRequest(op, n * len, len)).collect()
}

/// Offsets in no order, each once.
fn scattered(op: Op, count: u64, len: u64) -> Vec<Step> {
    (0..count).map(|n| Step::IoRequest(op, (n * 7_919 % count) * 64 * len, len)).collect()
}

#[test]
fn a_sequential_read_reads_each_byte_once_and_mostly_by_the_window() {
    let (testbed, file, log) = ran(spec(256 * MIB), vec![sequential(Op::Read, 32 * MIB, 4096)]);
    // The window that was read ahead when the last byte was asked for.
    let ahead = read(&log) - 32 * MIB;
    assert!(ahead <= 256 << 10, "{ahead}");
    let sizes: Vec<u64> = log.borrow().iter().map(|came| came.len >> 10).collect();
    assert_eq!(sizes[..6], [16, 32, 64, 128, 128, 128]);
    assert_eq!(testbed.counters(file)["data_read_bytes"], read(&log));
}

#[test]
fn reading_ahead_overlaps_with_the_program() {
    let time = |read_ahead| {
        let spec = FileSpec { read_ahead, ..spec(256 * MIB) };
        ran(spec, vec![sequential(Op::Read, 8 * MIB, 4096)]).0.world.core.now
    };
    // 2048 times 50 µs and the transfer, against 64 times.
    let (without, with) = (time(Bytes::new(0)), time(Bytes::from_kib(128)));
    assert!(without > 140_000_000 && with < 50_000_000, "{without} {with}");
}

#[test]
fn the_last_close_of_a_device_waits_for_what_is_read_ahead() {
    let reads = sequential(Op::Read, MIB, 65_536);
    let closed = [&reads[..], &[Step::IoRequest(Op::Discard, 0, DEVICE)]].concat();
    let (testbed, _, log) = ran(spec(256 * MIB), vec![closed]);
    let answered = testbed.answered.borrow();
    let (last_read, close) = (answered[answered.len() - 2].at, answered[answered.len() - 1].at);
    let log = log.borrow();
    // One after the other, 50 µs each and 5 ms for each MiB.
    let read =
        log.iter().fold(0, |free, request| request.at.max(free) + 50_000 + request.len * 5_000_000 / MIB);
    assert!(log.iter().all(|request| request.op == Op::Read), "a close asks the device for nothing");
    assert!(last_read < read && (read..read + 20_000).contains(&close), "{last_read}, {read}, {close}");
}

#[test]
fn what_was_read_is_not_read_again() {
    let mut steps = sequential(Op::Read, 4 * MIB, 65536);
    let (_, _, once) = ran(spec(64 * MIB), vec![steps.clone()]);
    steps.extend(steps.clone());
    let (_, _, twice) = ran(spec(64 * MIB), vec![steps]);
    assert_eq!(read(&once), read(&twice));
}

#[test]
fn a_file_larger_than_memory_is_read_again() {
    let mut steps = sequential(Op::Read, 32 * MIB, 65536);
    steps.extend(steps.clone());
    let (testbed, file, log) = ran(spec(16 * MIB), vec![steps]);
    assert!(read(&log) >= 64 * MIB, "{}", read(&log));
    assert!(testbed.counters(file)["cached_bytes"] <= 16 * MIB);
}

#[test]
fn random_reads_read_what_is_asked_for() {
    let (_, _, log) = ran(spec(512 * MIB), vec![scattered(Op::Read, 500, 4096)]);
    // The one at the beginning of the file counts as the beginning of a sequential one.
    assert_eq!(read(&log), 500 * 4096 + 3 * 4096);
    let advised = FileSpec { advice: Advice::Random, ..spec(512 * MIB) };
    let (_, _, log) = ran(advised, vec![scattered(Op::Read, 500, 4096)]);
    assert_eq!(read(&log), 500 * 4096);
}

#[test]
fn two_programs_read_ahead_each_for_itself() {
    let scripts = [0, 512 * MIB]
        .map(|from| (0..512).map(|n| Step::IoRequest(Op::Read, from + n * 4096, 4096)).collect());
    let (_, _, log) = ran(spec(256 * MIB), scripts.to_vec());
    assert!(log.borrow().len() < 60, "{}", log.borrow().len());
}

#[test]
fn a_write_is_done_when_it_is_copied_and_reaches_the_device_after_half_a_minute() {
    let (mut testbed, file, log) = ran(spec(256 * MIB), vec![sequential(Op::Write, 4 * MIB, 65536)]);
    assert!(testbed.world.core.now < 20_000_000, "{}", testbed.world.core.now);
    assert_eq!((written(&log), testbed.counters(file)["dirty_bytes"]), (0, 4 * MIB));
    testbed.idle(29 * SECOND);
    assert_eq!(written(&log), 0);
    testbed.idle(10 * SECOND);
    assert_eq!((written(&log), testbed.counters(file)["dirty_bytes"]), (4 * MIB, 0));
    assert!(log.borrow().iter().all(|came| came.len == 4096 && !came.sync), "{:?}", log.borrow());
    assert!(testbed.used(Role::Writeback) > 0);
}

#[test]
fn fsync_leaves_nothing_dirty_and_ends_with_a_flush() {
    let mut steps = scattered(Op::Write, 300, 8192);
    steps.push(Step::Fsync);
    let (testbed, file, log) = ran(spec(256 * MIB), vec![steps]);
    let counters = testbed.counters(file);
    assert_eq!((counters["dirty_bytes"], counters["writeback_bytes"]), (0, 0));
    assert_eq!(written(&log), 300 * 8192);
    assert_eq!((flushes(&log), log.borrow().last().unwrap().op), (1, Op::Flush));
}

#[test]
fn a_page_that_is_written_often_reaches_the_device_once() {
    let mut steps = vec![Step::IoRequest(Op::Write, 8192, 4096); 100];
    steps.push(Step::Fsync);
    let (_, _, log) = ran(spec(64 * MIB), vec![steps]);
    assert_eq!(written(&log), 4096);
}

#[test]
fn no_more_is_dirty_than_the_limit_and_writers_get_what_the_device_writes() {
    let memory = 100 * MIB;
    let scripts: Vec<Vec<Step>> = (0..3)
        .map(|n| (0..200).map(|k| Step::IoRequest(Op::Write, (n * 256 + k) * MIB, MIB)).collect())
        .collect();
    let (testbed, file, log) = ran(spec(memory), scripts);
    let counters = testbed.counters(file);
    assert!(counters["most_dirty_bytes"] <= memory / 5, "{}", counters["most_dirty_bytes"]);
    assert!(counters["writer_pauses"] > 0);
    // 600 MiB at 200 MB/s, but for what may stay dirty.
    let seconds = testbed.world.core.now as f64 / 1e9;
    assert!((2.7..3.5).contains(&seconds), "{seconds}");
    assert!(written(&log) >= 600 * MIB - memory / 5);
    // What the device was seen to write is near what it does write.
    let rate = counters["device_write_rate"] as f64 / MIB as f64;
    assert!((120.0..210.0).contains(&rate), "{rate}");
}

#[test]
fn the_limit_holds_for_many_writers_and_a_device_that_is_slower_than_was_thought() {
    let mut testbed = Testbed::new(4, 2_000);
    let (device, log) = testbed.device(DEVICE, 1_000_000, 500_000_000);
    let me = testbed.world.next_part();
    let file = File::on_device(&mut testbed.world.core, me, device, spec(10 * MIB));
    testbed.world.add(Box::new(file));
    let script = |n: u64| vec![Step::IoRequest(Op::Write, n * 16 * MIB, 2 * MIB)];
    testbed.scripts(me, 1, (0..12).map(script).collect());
    testbed.finish();
    let most = testbed.counters(me)["most_dirty_bytes"];
    assert!(most <= 2 * MIB && written(&log) >= 22 * MIB, "{most}");
}

#[test]
fn a_slow_device_slows_its_writer_down_before_the_limit() {
    let mut testbed = Testbed::new(2, 2_000);
    let (device, _) = testbed.device(DEVICE, 1_000_000, 50_000_000);
    let me = testbed.world.next_part();
    let file = File::on_device(&mut testbed.world.core, me, device, spec(400 * MIB));
    testbed.world.add(Box::new(file));
    testbed.scripts(me, 1, vec![sequential(Op::Write, 200 * MIB, 65536)]);
    testbed.finish();
    let most = testbed.counters(me)["most_dirty_bytes"];
    assert!((60 * MIB..=80 * MIB).contains(&most), "{most}");
}

#[test]
fn a_part_of_a_page_is_read_before_it_is_written() {
    let steps =
        vec![Step::IoRequest(Op::Write, 4096 + 512, 1024), Step::IoRequest(Op::Write, 3 * 4096, 4096)];
    let (_, _, log) = ran(spec(64 * MIB), vec![steps]);
    assert_eq!(read(&log), 4096);
    assert_eq!(log.borrow()[0].offset, 4096);
}

#[test]
fn direct_requests_go_past_the_pages_and_find_them_written() {
    let steps = vec![
        Step::IoRequest(Op::Write, 0, MIB),
        Step::Direct(Op::Read, 0, MIB),
        Step::Direct(Op::Write, 0, MIB),
        Step::IoRequest(Op::Read, 0, 4096),
    ];
    let (_, _, log) = ran(spec(64 * MIB), vec![steps]);
    let ops: Vec<(Op, u64)> = log.borrow().iter().map(|came| (came.op, came.len)).collect();
    // Written for the read's sake; read; written; and read again, as the write has thrown the pages out.
    assert_eq!(ops[..256], [(Op::Write, 4096); 256]);
    assert_eq!(ops[256..258], [(Op::Read, MIB), (Op::Write, MIB)]);
    assert_eq!((ops[258].0, log.borrow()[258].offset), (Op::Read, 0));
}

#[test]
fn a_large_direct_request_is_split_and_answered_once() {
    let (testbed, _, log) = ran(spec(64 * MIB), vec![vec![Step::Direct(Op::Write, 512, 4 * MIB)]]);
    assert_eq!((written(&log), log.borrow().len()), (4 * MIB, 5));
    assert_eq!(testbed.answered.borrow().len(), 1);
}

#[test]
fn durable_writes_are_on_the_medium_when_they_are_done() {
    let (_, _, log) =
        ran(spec(64 * MIB), vec![vec![Step::Durable(0, 8192), Step::DirectDurable(65536, 4096)]]);
    let seen: Vec<(Op, u64, bool)> = log.borrow().iter().map(|c| (c.op, c.len, c.fua)).collect();
    assert_eq!(seen[..2], [(Op::Write, 4096, false); 2]);
    assert_eq!(seen[2..], [(Op::Flush, 0, false), (Op::Write, 4096, true)]);
}

fn mixture() -> Vec<Vec<Step>> {
    let script = |n: u64| {
        (0..400_u64).map(move |k| {
            let at = (k * 7_907 + n * 104_729) % 60_000 * 512;
            let len = 512 * (1 + (k * 31 + n) % 500);
            match (k + n) % 9 {
                0 => Step::Direct(Op::Read, at / 4096 * 4096, 4096 * (1 + k % 40)),
                1 => Step::Direct(Op::Write, at / 4096 * 4096, 4096 * (1 + k % 40)),
                2 if k % 5 == 0 => Step::Fsync,
                3 if k % 7 == 0 => Step::Sleep(50_000_000),
                4 => Step::Durable(at, len),
                5 | 6 => Step::IoRequest(Op::Write, at, len),
                _ => Step::IoRequest(Op::Read, at, len),
            }
        })
    };
    (0..4).map(|n| script(n).collect()).collect()
}

#[test]
fn every_request_is_answered_once_and_the_course_is_the_same_each_time() {
    let course = |depth| {
        let (mut testbed, file, log) = testbed(spec(20 * MIB));
        testbed.scripts(file, depth, mixture());
        testbed.finish();
        assert!(testbed.counters(file)["most_dirty_bytes"] <= 4 * MIB);
        assert_eq!(testbed.counters(file)["data_written_bytes"], written(&log));
        assert_eq!(testbed.counters(file)["data_read_bytes"], read(&log));
        let answered: Vec<Answered> = testbed.answered.borrow().clone();
        (answered, log.borrow().clone())
    };
    for depth in [1, 8] {
        let (answered, log) = course(depth);
        let mut seen: Vec<(usize, usize)> = answered.iter().map(|a| (a.script, a.step)).collect();
        seen.sort_unstable();
        let sleeps = |(script, step): &(usize, usize)| matches!(mixture()[*script][*step], Step::Sleep(_));
        let all = (0..4).flat_map(|script| (0..400).map(move |step| (script, step)));
        assert_eq!(seen, all.filter(|s| !sleeps(s)).collect::<Vec<_>>());
        assert_eq!((answered, log), course(depth));
    }
}
