//! What arrays do to their members: counts that have to be exact.

use super::*;
use crate::block::{Interrupts, QueueSpec, Scheduler};
use crate::cpu::Cost;
use crate::engine::PartId;
use crate::testbed::{Log, Step, Testbed, flushes, read, written};
use disks::{DiskSpec, Op};
use domain::stack::{Bitmap, Lvm, Md, MdLevel, Resync};
use domain::units::Bytes;
use governors::KernelVersion;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const SIZE: u64 = 64 * MIB;
const MS: u64 = 1_000_000;

pub(super) fn md(level: MdLevel, layout: Option<&str>) -> Md {
    Md {
        level,
        layout: layout.map(str::to_owned),
        chunk: Some(Bytes::from_kib(64)),
        bitmap: Bitmap::None,
        bitmap_chunk: None,
        write_mostly: 0,
        spares: 0,
        missing: 0,
        resync: Resync::Skip,
        stripe_cache_size: None,
        group_thread_cnt: None,
        safe_mode_delay: None,
    }
}

/// A machine with devices of 64 MiB that take 1 ms a request and 10 ms a MiB, and what an array over them is.
pub(super) fn testbed(md: &Md, members: u32, missing: &[u32]) -> (Testbed, ArraySpec, Vec<Log>) {
    let mut testbed = Testbed::new(4, 1000);
    let devices: Vec<(PartId, Log)> = (0..members).map(|_| testbed.device(SIZE + MIB, MS, 10 * MS)).collect();
    let geometry = Geometry::over(md, members, Bytes::new(SIZE)).unwrap();
    let member = |part| Member { part, rotational: true, write_mostly: false };
    let there =
        |(role, (part, _)): (u32, &(PartId, Log))| (!missing.contains(&role)).then_some(member(*part));
    let spec = ArraySpec {
        name: "md0".into(),
        geometry,
        members: (0..).zip(&devices).map(there).collect(),
        data_offset: Bytes::from_mib(1),
        kernel: KernelVersion::new(6, 12, 0),
        costs: MdCosts::default(),
        safe_mode_delay: None,
    };
    testbed.world.core.devices.push(crate::block::DeviceStats::new("md0"));
    (testbed, spec, devices.into_iter().map(|(_, log)| log).collect())
}

/// An array without resync or bitmap, put into the machine.
fn stand(testbed: &mut Testbed, spec: &ArraySpec) -> PartId {
    let me = testbed.world.next_part();
    match spec.geometry.level() {
        MdLevel::Linear | MdLevel::Raid0 => testbed.world.add(Box::new(Striped::new(me, 0, spec))),
        _ => {
            let mirror = Mirror::new(&mut testbed.world.core, me, 0, spec, None, None);
            testbed.world.add(Box::new(mirror))
        }
    }
}

pub(super) fn sum(logs: &[Log], of: impl Fn(&Log) -> u64) -> u64 {
    logs.iter().map(of).sum()
}

/// Requests of many sizes at many places, each within the array.
pub(super) fn many(op: Op, size: u64) -> Vec<Step> {
    let lens = [4 * KIB, 64 * KIB, 128 * KIB, 12 * KIB, 1024 * KIB, 512, 68 * KIB];
    let place = |nth: u64, len| (nth * 1_234_567 * 4 * KIB) % (size - len) / (4 * KIB) * (4 * KIB);
    (0..70)
        .map(|nth| Step::IoRequest(op, place(nth, lens[nth as usize % 7]), lens[nth as usize % 7]))
        .collect()
}

pub(super) fn asked(steps: &[Step]) -> u64 {
    let len = |step: &Step| if let Step::IoRequest(_, _, len) = step { *len } else { 0 };
    steps.iter().map(len).sum()
}

#[test]
fn every_byte_goes_to_as_many_members_as_have_copies_and_is_read_from_one() {
    let arrays = [
        (MdLevel::Linear, None, 3),
        (MdLevel::Raid0, None, 4),
        (MdLevel::Raid1, None, 3),
        (MdLevel::Raid10, Some("n2"), 4),
        (MdLevel::Raid10, Some("n3"), 5),
        (MdLevel::Raid10, Some("f2"), 3),
        (MdLevel::Raid10, Some("o2"), 4),
    ];
    for (level, layout, members) in arrays {
        for depth in [1, 16] {
            let (mut testbed, spec, logs) = testbed(&md(level, layout), members, &[]);
            let array = stand(&mut testbed, &spec);
            let size = spec.geometry.size().get();
            let (writes, reads) = (many(Op::Write, size), many(Op::Read, size));
            let (wrote, has_read) = (asked(&writes), asked(&reads));
            let mut all = writes;
            all.extend(reads);
            all.push(Step::Fsync);
            let steps = all.len();
            testbed.scripts(array, depth, vec![all]);
            testbed.finish();
            let copies = u64::from(spec.geometry.copies());
            assert_eq!(sum(&logs, written), wrote * copies, "{level:?} {layout:?}");
            assert_eq!(sum(&logs, read), has_read, "{level:?} {layout:?}");
            assert_eq!(logs.iter().map(flushes).sum::<usize>(), members as usize);
            assert_eq!(testbed.answered.borrow().len(), steps);
            let stats = &testbed.world.core.devices[0];
            assert_eq!((stats.writes.bytes, stats.reads.bytes, stats.in_flight), (wrote, has_read, 0));
            assert!(testbed.world.core.bios.is_empty(), "requests are left");
        }
    }
}

#[test]
fn a_mirror_with_a_missing_member_reads_and_writes_the_others() {
    for (level, layout, members) in [(MdLevel::Raid1, None, 2), (MdLevel::Raid10, Some("n2"), 4)] {
        let (mut testbed, spec, logs) = testbed(&md(level, layout), members, &[1]);
        let array = stand(&mut testbed, &spec);
        let len = 256 * KIB;
        testbed.scripts(
            array,
            1,
            vec![vec![Step::IoRequest(Op::Write, 0, len), Step::IoRequest(Op::Read, 0, len)]],
        );
        testbed.finish();
        assert_eq!(logs[1].borrow().len(), 0);
        let half = if level == MdLevel::Raid10 { len / 2 } else { 0 };
        assert_eq!((sum(&logs, written), sum(&logs, read)), (len + half, len));
    }
}

#[test]
fn a_mirror_reads_a_sequential_stream_from_one_member_and_two_streams_from_two() {
    let stream =
        |from: u64| (0..64).map(|n| Step::IoRequest(Op::Read, from + n * 64 * KIB, 64 * KIB)).collect();
    let (mut testbed, spec, logs) = testbed(&md(MdLevel::Raid1, None), 2, &[]);
    let array = stand(&mut testbed, &spec);
    testbed.scripts(array, 1, vec![stream(0), stream(32 * MIB)]);
    testbed.finish();
    for log in &logs {
        let places: Vec<u64> = log.borrow().iter().map(|came| came.offset).collect();
        assert_eq!(places.len(), 64);
        assert!(places.windows(2).all(|pair| pair[1] == pair[0] + 64 * KIB), "{places:?}");
    }
}

#[test]
fn before_6_6_writes_wait_for_the_plug_and_reach_all_copies_too() {
    let (mut testbed, mut spec, logs) = testbed(&md(MdLevel::Raid10, Some("n2")), 4, &[]);
    spec.kernel = KernelVersion::new(6, 1, 0);
    let array = stand(&mut testbed, &spec);
    let writes = many(Op::Write, spec.geometry.size().get());
    let wrote = asked(&writes);
    testbed.scripts(array, 8, vec![writes]);
    testbed.finish();
    assert_eq!(sum(&logs, written), 2 * wrote);
}

#[test]
fn far_copies_are_read_from_the_first_parts_of_the_members() {
    let (mut testbed, spec, logs) = testbed(&md(MdLevel::Raid10, Some("f2")), 2, &[]);
    let array = stand(&mut testbed, &spec);
    let size = spec.geometry.size().get();
    testbed.scripts(array, 8, vec![many(Op::Read, size)]);
    testbed.finish();
    let all = logs.iter().flat_map(|log| log.borrow().clone()).collect::<Vec<_>>();
    assert!(all.iter().all(|came| came.offset < MIB + SIZE / 2), "the outer half has everything");
}

#[test]
fn a_bitmap_is_on_all_members_before_the_data_and_cleared_later() {
    let (mut testbed, spec, logs) = testbed(&md(MdLevel::Raid1, None), 2, &[]);
    let me = testbed.world.next_part();
    let mirror = Mirror::new(&mut testbed.world.core, me, 0, &spec, Some(BitmapSpec::default()), None);
    testbed.world.add(Box::new(mirror));
    let sleep = Step::Sleep(20_000 * MS);
    let steps =
        vec![Step::IoRequest(Op::Write, 0, 4 * KIB), Step::IoRequest(Op::Write, 8 * KIB, 4 * KIB), sleep];
    testbed.scripts(me, 1, vec![steps]);
    testbed.finish();
    for log in &logs {
        let log = log.borrow();
        let what: Vec<_> = log.iter().map(|came| (came.op, came.offset / KIB, came.fua)).collect();
        let page = [(Op::Flush, MIB / KIB, false), (Op::Write, 8, true)];
        let data = [(Op::Write, MIB / KIB, false), (Op::Write, MIB / KIB + 8, false)];
        assert_eq!(what, [page, data, page].concat());
        assert!(log[2].at > log[1].at + MS && log[4].at > 14_000 * MS, "{log:?}");
    }
}

/// What came to each member of an array that marks itself clean 200 ms after its last write: in KiB, and
/// whether forced.
fn marked(level: MdLevel, delay: u64, steps: Vec<Step>) -> Vec<Vec<(Op, u64, bool)>> {
    let (mut testbed, mut spec, logs) = testbed(&md(level, None), 3, &[]);
    spec.safe_mode_delay = Some(delay);
    let me = testbed.world.next_part();
    if level == MdLevel::Raid5 {
        let parity = Parity::new(&mut testbed.world.core, me, 0, &spec, ParitySpec::default());
        testbed.world.add(Box::new(parity));
    } else {
        stand(&mut testbed, &spec);
    }
    testbed.scripts(me, 1, vec![steps]);
    testbed.finish();
    let what = |log: &Log| log.borrow().iter().map(|came| (came.op, came.offset / KIB, came.fua)).collect();
    logs.iter().map(what).collect()
}

#[test]
fn a_clean_array_is_marked_before_its_first_write_and_again_when_nobody_writes() {
    let write = |at| Step::IoRequest(Op::Write, at, 4 * KIB);
    let pause = Step::Sleep(500 * MS);
    let mark = [(Op::Flush, 1024, false), (Op::Write, 4, true)];
    let is_mark = |came: &(Op, u64, bool)| mark.contains(came);
    for level in [MdLevel::Raid1, MdLevel::Raid5] {
        for came in marked(level, 200 * MS, vec![write(0), pause, pause, write(0), pause]) {
            let marks = came.iter().filter(|came| is_mark(came)).count();
            assert_eq!((marks, &came[..2]), (8, &mark[..]), "in use, clean, in use, clean: {came:?}");
        }
        for came in marked(level, 200 * MS, vec![write(0), write(8 * KIB), Step::Sleep(100 * MS), write(0)]) {
            assert_eq!(came.iter().filter(|came| is_mark(came)).count(), 2, "not for so long: {came:?}");
        }
        for came in marked(level, 0, vec![write(0), pause, pause, write(0), pause]) {
            assert_eq!(came.iter().filter(|came| is_mark(came)).count(), 2, "never clean again: {came:?}");
        }
        let reads = vec![Step::IoRequest(Op::Read, 0, 4 * KIB), pause];
        assert!(marked(level, 200 * MS, reads).concat().iter().all(|came| !is_mark(came)));
    }
}

#[test]
fn a_level_without_redundancy_has_no_mark() {
    let came = marked(MdLevel::Raid0, 200 * MS, vec![Step::IoRequest(Op::Write, 0, 4 * KIB)]);
    assert_eq!(came.concat(), [(Op::Write, 1024, false)]);
}

#[test]
fn a_rebuild_reads_what_the_new_member_has_once_and_writes_it_once() {
    for (level, layout, members) in
        [(MdLevel::Raid1, None, 3), (MdLevel::Raid10, Some("n2"), 3), (MdLevel::Raid10, Some("f2"), 4)]
    {
        let (mut testbed, spec, logs) = testbed(&md(level, layout), members, &[]);
        let me = testbed.world.next_part();
        let resync = Some(ResyncSpec::new(Repair::Rebuild(1)));
        let mirror = Mirror::new(&mut testbed.world.core, me, 0, &spec, None, resync);
        testbed.world.add(Box::new(mirror));
        testbed.scripts(me, 1, vec![vec![Step::Sleep(60_000 * MS), Step::IoRequest(Op::Read, 0, 4 * KIB)]]);
        testbed.finish();
        assert_eq!(written(&logs[1]), spec.geometry.used().get(), "{level:?} {layout:?}");
        assert_eq!(sum(&logs, written), spec.geometry.used().get());
        assert_eq!(sum(&logs, read), spec.geometry.used().get() + 4 * KIB);
    }
}

#[test]
fn the_first_resync_of_a_raid1_copies_the_first_member_to_the_others() {
    let (mut testbed, spec, logs) = testbed(&md(MdLevel::Raid1, None), 3, &[]);
    let me = testbed.world.next_part();
    let resync = Some(ResyncSpec::new(Repair::Resync(Content::Differs)));
    let mirror = Mirror::new(&mut testbed.world.core, me, 0, &spec, None, resync);
    testbed.world.add(Box::new(mirror));
    let reads = (0..10).map(|n| Step::IoRequest(Op::Read, SIZE - (n + 1) * 64 * KIB, 4 * KIB)).collect();
    testbed.scripts(me, 1, vec![reads, vec![Step::Sleep(60_000 * MS), Step::Fsync]]);
    testbed.finish();
    assert_eq!([0, 1, 2].map(|m| read(&logs[m])), [SIZE + 40 * KIB, 0, 0], "before the resync was there");
    assert_eq!([0, 1, 2].map(|m| written(&logs[m])), [0, SIZE, SIZE]);
}

#[test]
fn a_logical_volume_goes_over_the_first_devices_in_whole_extents() {
    let lvm = Lvm { stripes: Some(2), stripe_size: Bytes::from_kib(64) };
    let members = [0, 1, 2].map(|part| Member { part: PartId(part), rotational: true, write_mostly: false });
    let sizes = [30, 29, 3].map(Bytes::from_mib);
    let kernel = KernelVersion::new(6, 1, 0);
    let volume = logical_volume("dm-0", &lvm, &members, &sizes, MdCosts::FREE, kernel).unwrap();
    assert_eq!((volume.geometry.size(), volume.members.len()), (Bytes::from_mib(56), 2));
}

#[test]
fn the_same_requests_take_the_same_course() {
    let course = || {
        let (mut testbed, spec, logs) = testbed(&md(MdLevel::Raid10, Some("n2")), 4, &[]);
        let array = stand(&mut testbed, &spec);
        let size = spec.geometry.size().get();
        testbed.scripts(array, 4, vec![many(Op::Write, size), many(Op::Read, size)]);
        testbed.finish();
        (logs.iter().map(|log| log.borrow().clone()).collect::<Vec<_>>(), testbed.answered.borrow().clone())
    };
    assert_eq!(course(), course());
}

/// Reads of each of four disks, and how many more were merged into them, for a read of 1 MiB from a RAID0
/// over them.
fn reads_of_one_mebibyte(step: Step, kernel: KernelVersion) -> Vec<(u64, u64)> {
    let (mut testbed, mut spec, _) = testbed(&md(MdLevel::Raid0, None), 4, &[]);
    spec.kernel = kernel;
    let model = DiskSpec::shipped("plain-7200").unwrap();
    for member in &mut spec.members {
        let queue = QueueSpec {
            scheduler: Scheduler::MqDeadline,
            tags: 128,
            most_bytes: MIB,
            most_segments: 168,
            dispatch: Cost::NONE,
            dispatch_page: Cost::NONE,
            interrupt: Cost::NONE,
            interrupts: Interrupts::Submitter,
            kernel,
        };
        let part = testbed.disk(&model, queue);
        *member = Some(Member { part, rotational: true, write_mostly: false });
    }
    let array = stand(&mut testbed, &spec);
    testbed.scripts(array, 1, vec![vec![step]]);
    testbed.finish();
    testbed.world.core.devices[1..].iter().map(|disk| (disk.reads.ios, disk.reads.merges)).collect()
}

/// As Linux 6.12 on the lab's disks, with chunks of 32 KiB and one read of 1 MiB at a time: 7808 requests of
/// 32 KiB to the members of a RAID10 (n2) for 244 reads.
#[test]
fn pieces_of_a_direct_read_merge_only_where_a_worker_runs_the_queue() {
    let direct = Step::Direct(Op::Read, 0, MIB);
    assert_eq!(reads_of_one_mebibyte(direct, KernelVersion::new(6, 12, 0)), [(4, 0); 4]);
    assert_eq!(reads_of_one_mebibyte(direct, KernelVersion::new(6, 1, 0)), [(1, 3); 4]);
}

#[test]
fn pieces_of_a_read_merge_under_the_plug_of_who_reads_ahead() {
    let plugged = Step::IoRequest(Op::Read, 0, MIB);
    assert_eq!(reads_of_one_mebibyte(plugged, KernelVersion::new(6, 12, 0)), [(1, 3); 4]);
}

#[test]
fn a_write_mostly_member_is_written_and_read_only_as_a_last_resort() {
    let read_and_written = |write_mostly: &[usize], missing: &[u32]| {
        let (mut testbed, mut spec, logs) = testbed(&md(MdLevel::Raid1, None), 3, missing);
        for member in write_mostly {
            spec.members[*member].as_mut().unwrap().write_mostly = true;
        }
        let array = stand(&mut testbed, &spec);
        let both = [many(Op::Write, SIZE), many(Op::Read, SIZE), vec![Step::Fsync]].concat();
        testbed.scripts(array, 16, vec![both]);
        testbed.finish();
        [0, 1, 2].map(|member| (written(&logs[member]) > 0, read(&logs[member]) > 0))
    };
    assert_eq!(read_and_written(&[], &[]), [(true, true); 3]);
    assert_eq!(read_and_written(&[0, 2], &[]), [(true, false), (true, true), (true, false)]);
    assert_eq!(read_and_written(&[1, 2], &[0]), [(false, false), (true, true), (true, false)]);
}
