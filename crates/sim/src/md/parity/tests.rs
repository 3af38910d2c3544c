//! What RAID4, 5 and 6 read and write, to the byte.

use super::super::resync::Content;
use super::*;
use crate::block::DeviceStats;
use crate::block::{Disk, Interrupts, QueueSpec, Scheduler};
use crate::cpu::Cost;
use crate::md::Member;
use crate::md::tests::{asked, many, md, sum, testbed};
use crate::testbed::{Answered, Came, Log, Step, Testbed, flushes, read, written};
use disks::DiskSpec;
use domain::stack::MdLevel;
use proptest::prelude::*;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const MS: u64 = 1_000_000;

/// What an array over so many members did.
struct Ran {
    testbed: Testbed,
    logs: Vec<Log>,
    spec: ArraySpec,
    me: PartId,
}

impl Ran {
    fn bytes(&self) -> (u64, u64) {
        (sum(&self.logs, read), sum(&self.logs, written))
    }

    fn counter(&self, wanted: &str) -> u64 {
        let mut found = None;
        self.testbed.world.part(self.me).counters(&mut |name, value| {
            if name == wanted {
                found = Some(value);
            }
        });
        found.unwrap()
    }
}

/// Passes requests on as writeback does: nobody waits for them.
struct NobodyWaits {
    me: PartId,
    below: PartId,
}

impl Part for NobodyWaits {
    fn submit(&mut self, core: &mut Core, id: BioId) {
        let bio = core.bios[id.0];
        let on = Bio::new(self.me, self.below, bio.op, bio.offset, bio.len, u64::from(id.0));
        core.submit(Bio { sync: false, ..on });
    }

    fn done(&mut self, core: &mut Core, bio: &Bio) {
        core.complete(BioId(bio.tag as u32));
    }
}

#[derive(Clone, Copy)]
struct Setup {
    level: MdLevel,
    members: u32,
    missing: Option<u32>,
    depth: usize,
    waited_for: bool,
    /// After how long the array is called clean.
    clean_after: Option<Time>,
    costs: MdCosts,
    spec: ParitySpec,
}

impl Setup {
    fn new(level: MdLevel, members: u32) -> Self {
        let (costs, spec) = (MdCosts::default(), ParitySpec::default());
        Self { level, members, missing: None, depth: 1, waited_for: true, clean_after: None, costs, spec }
    }

    fn run(self, scripts: Vec<Vec<Step>>) -> Ran {
        let missing: Vec<u32> = self.missing.into_iter().collect();
        let (mut testbed, mut spec, logs) = testbed(&md(self.level, None), self.members, &missing);
        (spec.safe_mode_delay, spec.costs) = (self.clean_after, self.costs);
        let me = testbed.world.next_part();
        let array = Parity::new(&mut testbed.world.core, me, 0, &spec, self.spec);
        testbed.world.add(Box::new(array));
        let mut target = me;
        if !self.waited_for {
            let on = testbed.world.next_part();
            target = testbed.world.add(Box::new(NobodyWaits { me: on, below: me }));
        }
        let steps: usize = scripts.iter().flatten().filter(|step| !matches!(step, Step::Sleep(_))).count();
        testbed.scripts(target, self.depth, scripts);
        testbed.finish();
        assert_eq!(testbed.answered.borrow().len(), steps);
        assert!(testbed.world.core.bios.is_empty() || self.spec.resync.is_some(), "requests are left");
        Ran { testbed, logs, spec, me }
    }
}

fn write(offset: u64, len: u64) -> Vec<Step> {
    vec![Step::IoRequest(Op::Write, offset, len)]
}

#[test]
fn a_full_stripe_is_written_without_reading() {
    for (level, members, parities) in [(MdLevel::Raid4, 3, 1), (MdLevel::Raid5, 5, 1), (MdLevel::Raid6, 6, 2)]
    {
        let row = 64 * KIB * u64::from(members - parities);
        for waited_for in [true, false] {
            let setup = Setup { waited_for, ..Setup::new(level, members) };
            let ran = setup.run(vec![write(0, 2 * row)]);
            assert_eq!(ran.bytes(), (0, 2 * 64 * KIB * u64::from(members)), "{level:?} {waited_for}");
            assert_eq!(ran.counter("stripes_reconstructed"), 32);
            // Fifteen of each sixteen join the first one's batch.
            assert_eq!(ran.counter("stripes_batched"), 30);
        }
    }
}

#[test]
fn a_small_write_reads_what_is_less() {
    let check = |level, members, blocks, reads: u64, writes: u64| {
        for waited_for in [true, false] {
            let setup = Setup { waited_for, ..Setup::new(level, members) };
            let steps = (0..blocks).map(|n| Step::IoRequest(Op::Write, n * 64 * KIB, 4 * KIB)).collect();
            let ran = Setup { depth: 8, ..setup }.run(vec![steps]);
            assert_eq!(ran.bytes(), (reads * 4 * KIB, writes * 4 * KIB), "{level:?} {members} {blocks}");
        }
    };
    check(MdLevel::Raid5, 5, 1, 2, 2);
    // Of two data blocks the other one is read: less than the old data and the parity.
    check(MdLevel::Raid5, 3, 1, 1, 2);
    // As much either way: reconstruction.
    check(MdLevel::Raid5, 4, 1, 2, 2);
    check(MdLevel::Raid6, 6, 1, 3, 3);
    check(MdLevel::Raid6, 8, 1, 3, 3);
}

/// What Linux 6.12 read and wrote, by the counters of the members (null_blk), for the same writes: its
/// superblocks apart.
#[test]
fn as_much_is_read_and_written_as_by_the_kernel() {
    let apart = |n: u64| Step::IoRequest(Op::Write, n * 256 * KIB, 4 * KIB);
    let stream =
        |len: u64| (0..10 * MIB / len).map(|n| Step::IoRequest(Op::Write, n * len, len)).collect::<Vec<_>>();
    let check = |level, members, depth, steps: Vec<Step>, reads_kib: u64, writes_kib: u64| {
        let ran = Setup { depth, ..Setup::new(level, members) }.run(vec![steps]);
        assert_eq!(ran.bytes(), (reads_kib * KIB, writes_kib * KIB), "{level:?} of {members}, depth {depth}");
    };
    for depth in [1, 32] {
        check(MdLevel::Raid5, 5, depth, (0..500).map(apart).collect(), 4000, 4000);
    }
    check(MdLevel::Raid5, 3, 1, (0..500).map(apart).collect(), 2000, 4000);
    check(MdLevel::Raid6, 6, 1, (0..500).map(apart).collect(), 6000, 6000);
    check(MdLevel::Raid5, 5, 1, stream(256 * KIB), 0, 12_800);
    // A row's first write reads two blocks, the next two one each, the last none.
    check(MdLevel::Raid5, 5, 1, stream(64 * KIB), 10_240, 20_480);
    check(MdLevel::Raid5, 5, 1, stream(4 * KIB), 10_240, 20_480);
}

/// Reads and writes of each member that is a disk with its queue, and how many more were merged into those.
fn requests(scripts: Vec<Vec<Step>>) -> Vec<[(u64, u64); 2]> {
    let model = DiskSpec::shipped("nvme").unwrap();
    let (mut testbed, mut spec, _) = testbed(&md(MdLevel::Raid5, None), 5, &[]);
    for disk in 0..5 {
        testbed.world.core.bank.add_disk(&model, None);
        testbed.world.core.devices.push(DeviceStats::new(&format!("sd{disk}")));
        let me = testbed.world.next_part();
        let queue = QueueSpec {
            scheduler: Scheduler::MqDeadline,
            tags: 64,
            most_bytes: MIB,
            most_segments: 168,
            dispatch: Cost::NONE,
            dispatch_page: Cost::NONE,
            interrupt: Cost::cycles(2000),
            interrupts: Interrupts::Submitter,
            kernel: governors::KernelVersion::new(6, 12, 0),
        };
        testbed.world.add(Box::new(Disk::new(me, disk, disk + 1, model.capacity, queue)));
        testbed.world.attach(disk, me);
        spec.members[disk] = Some(Member { part: me, rotational: false, write_mostly: false });
    }
    let me = testbed.world.next_part();
    let array = Parity::new(&mut testbed.world.core, me, 0, &spec, ParitySpec::default());
    testbed.world.add(Box::new(array));
    testbed.scripts(me, 1, scripts);
    testbed.finish();
    let of = |stats: &DeviceStats| [&stats.reads, &stats.writes].map(|ops| (ops.ios, ops.merges));
    testbed.world.core.devices[1..].iter().map(of).collect()
}

/// As above: of full stripes, each member saw 40 writes into which 600 had been merged; of a stream of 64
/// KiB, 32 reads and 64 writes, 960 merged.
#[test]
fn blocks_merge_under_the_threads_plug_as_with_the_kernel() {
    let stream =
        |len: u64| (0..10 * MIB / len).map(|n| Step::IoRequest(Op::Write, n * len, len)).collect::<Vec<_>>();
    assert_eq!(requests(vec![stream(256 * KIB)]), vec![[(0, 0), (40, 600)]; 5]);
    assert_eq!(requests(vec![stream(64 * KIB)]), vec![[(32, 480), (64, 960)]; 5]);
}

#[test]
fn the_thread_finds_what_has_come_until_it_has_a_cpu() {
    // Two halves of a row from two CPUs at one moment: the thread is woken by the first.
    let ran = Setup::new(MdLevel::Raid5, 3).run(vec![write(0, 64 * KIB), write(64 * KIB, 64 * KIB)]);
    assert_eq!(ran.bytes(), (0, 3 * 64 * KIB));
}

#[test]
fn what_the_cache_has_is_not_read_again() {
    let again = |n| vec![Step::IoRequest(Op::Write, 0, 4 * KIB); n];
    let ran = Setup::new(MdLevel::Raid5, 5).run(vec![again(10)]);
    assert_eq!(ran.bytes(), (2 * 4 * KIB, 20 * 4 * KIB));
    assert_eq!(ran.counter("stripes_modified"), 10);
}

#[test]
fn a_part_of_a_block_is_read_before_it_is_written() {
    let ran = Setup::new(MdLevel::Raid5, 5).run(vec![write(512, 1024)]);
    assert_eq!(ran.bytes(), (2 * 4 * KIB, 2 * 4 * KIB));
}

#[test]
fn writes_that_nobody_waits_for_gather_in_their_stripe() {
    // Four writes make a full row, one after the other, from one context each.
    let steps: Vec<Step> = (0..4).map(|n| Step::IoRequest(Op::Write, n * 64 * KIB, 64 * KIB)).collect();
    let busy: Vec<Step> = (0..40).map(|n| Step::IoRequest(Op::Write, (n + 9) * 256 * KIB, 4 * KIB)).collect();
    let setup = Setup { waited_for: false, depth: 8, ..Setup::new(MdLevel::Raid5, 5) };
    let ran = setup.run(vec![busy, steps]);
    let (reads, writes) = ran.bytes();
    assert_eq!((reads, writes), (40 * 2 * 4 * KIB, 5 * 64 * KIB + 40 * 2 * 4 * KIB), "no row was read");
}

#[test]
fn reads_pass_the_cache_by_and_degraded_ones_read_all_others() {
    let reads =
        |n: u64| (0..n).map(|n| Step::IoRequest(Op::Read, n * 64 * KIB, 64 * KIB)).collect::<Vec<_>>();
    let ran = Setup::new(MdLevel::Raid5, 4).run(vec![reads(12)]);
    assert_eq!((ran.bytes(), ran.counter("stripes_handled")), ((12 * 64 * KIB, 0), 0));
    let degraded = Setup { missing: Some(0), ..Setup::new(MdLevel::Raid5, 4) };
    // In three of four rows of four the first member has data: one chunk each, for which three are read.
    let ran = degraded.run(vec![reads(12)]);
    assert_eq!(
        ran.bytes(),
        ((9 + 3 * 3 - 2 * 3) * 64 * KIB, 0),
        "what the cache has by then is not read again"
    );
    assert_eq!(ran.logs[0].borrow().len(), 0);
}

#[test]
fn a_degraded_array_writes_what_there_is() {
    for (level, members) in [(MdLevel::Raid5, 5), (MdLevel::Raid6, 6)] {
        for missing in 0..members {
            let setup = Setup { missing: Some(missing), ..Setup::new(level, members) };
            let data = u64::from(members) - if level == MdLevel::Raid5 { 1 } else { 2 };
            let ran = setup.run(vec![write(0, data * 64 * KIB)]);
            assert_eq!(ran.bytes(), (0, u64::from(members - 1) * 64 * KIB), "{level:?} without {missing}");
            let one = setup.run(vec![write(0, 4 * KIB)]);
            let stripe = ran.spec.geometry.stripe(0);
            let (reads, writes) = one.bytes();
            let lost_parity = stripe.parity == missing || stripe.second == Some(missing);
            let lost_own = stripe.data(0) == missing;
            let parities = u64::from(members) - data;
            let wanted = 1 + parities - u64::from(lost_parity || lost_own);
            assert_eq!(writes, wanted * 4 * KIB, "{level:?} without {missing}");
            assert!(reads <= u64::from(members) * 4 * KIB, "{reads}");
        }
    }
}

#[test]
fn a_rebuild_reads_all_others_once_and_writes_the_new_member_once() {
    for (level, members) in [(MdLevel::Raid5, 4), (MdLevel::Raid6, 5)] {
        let mut setup = Setup::new(level, members);
        setup.spec.resync = Some(ResyncSpec::new(Repair::Rebuild(members - 1)));
        let ran = setup.run(vec![vec![Step::Sleep(60_000 * MS), Step::Fsync]]);
        let used = ran.spec.geometry.used().get();
        assert_eq!(ran.logs.last().map(written), Some(used));
        assert_eq!(ran.bytes(), (used * u64::from(members - 1), used), "{level:?}");
    }
}

#[test]
fn the_first_resync_reads_everything_and_writes_parities_that_are_wrong() {
    for (content, share) in [(Content::Agrees, 0), (Content::Differs, 1)] {
        let mut setup = Setup::new(MdLevel::Raid5, 4);
        setup.spec.resync = Some(ResyncSpec::new(Repair::Resync(content)));
        let ran = setup.run(vec![vec![Step::Sleep(60_000 * MS), Step::Fsync]]);
        let used = ran.spec.geometry.used().get();
        assert_eq!(ran.bytes(), (4 * used, share * used));
    }
}

#[test]
fn a_small_cache_makes_submitters_wait_and_grows() {
    let mut setup = Setup { depth: 64, ..Setup::new(MdLevel::Raid5, 4) };
    setup.spec.stripe_cache_size = 17;
    let size = 3 * 64 * MIB;
    let mut second = many(Op::Write, size);
    second.extend([Step::Sleep(60_000 * MS), Step::Fsync]);
    let ran = setup.run(vec![many(Op::Write, size), second]);
    assert!(ran.counter("stripe_waits") > 0 && ran.counter("stripe_cache_size") > 17);
    assert_eq!(ran.counter("stripe_cache_active"), 0);
}

#[test]
fn a_thread_without_a_stripe_asks_for_no_more_until_it_has_one() {
    for clean in [None, Some(200 * MS)] {
        let mut setup = Setup { depth: 64, ..Setup::new(MdLevel::Raid5, 4) };
        setup.spec.stripe_cache_size = 17;
        setup.clean_after = clean;
        let ran =
            setup.run(vec![(0..200).map(|n| Step::IoRequest(Op::Write, n * 256 * KIB, 4096)).collect()]);
        let answered = ran.testbed.answered.borrow();
        let under_way = |at| answered.iter().filter(|other| other.since <= at && at < other.at).count();
        let most = answered.iter().map(|one| under_way(one.since)).max().unwrap();
        let stripes = ran.counter("stripe_cache_size") as usize;
        assert!(
            (17..=stripes + 1).contains(&most) && stripes < 60,
            "{most} at a time with {stripes} stripes"
        );
    }
}

/// What threads whose names have this in them took of CPUs of 1 GHz: cycles.
fn busy(ran: &Ran, name: &str) -> u64 {
    let threads = ran.testbed.world.core.cpus.thread_times();
    threads.filter(|(thread, ..)| thread.contains(name)).map(|(_, _, ns)| ns).sum()
}

#[test]
fn the_arrays_thread_pays_for_what_a_full_row_makes_it_look_at_copy_and_send() {
    // So much that what it takes to switch to the thread does not count.
    let many = 1_000_000;
    let each = Cost::cycles(many);
    let took = |level, members, costs| {
        let setup = Setup { costs, ..Setup::new(level, members) };
        let ran = setup.run(vec![write(0, 256 * KIB)]);
        (busy(&ran, "md0_raid") / many, ran.counter("stripes_handled"))
    };
    let raid5 = |costs| took(MdLevel::Raid5, 5, costs);
    let blocks = 16 * 5;
    assert_eq!(raid5(MdCosts { stripe_io: each, ..MdCosts::FREE }).0, blocks);
    // The first of the batch stands for all.
    let (times, looks) = raid5(MdCosts { stripe_member: each, ..MdCosts::FREE });
    // The last look answers the write, with which this machine stops.
    assert_eq!(times, (looks - 1) * 5);
    // Woken by what the disks answer, and by the request: half of it before it looks, and half when it has
    // found nothing more, which the last time is after this machine has stopped.
    let halves = raid5(MdCosts { wake: each.times(2), ..MdCosts::FREE }).0;
    assert!((3..=2 * blocks).contains(&halves) && halves % 2 == 1, "{halves}");
    // For each of 64 pages half of them are passed.
    assert_eq!(raid5(MdCosts { stripe_seek: each, ..MdCosts::FREE }).0, 64 * 32);
    let more = MdCosts { syndrome_byte_1024: 1024 * many, ..MdCosts::FREE };
    assert_eq!(raid5(more).0, 0);
    assert_eq!(took(MdLevel::Raid6, 6, more).0, 2 * 256 * KIB, "into each of two parities");
}

#[test]
fn the_arrays_thread_does_the_work_or_its_group_does() {
    let mut setup = Setup { depth: 16, ..Setup::new(MdLevel::Raid5, 5) };
    let steps = vec![many(Op::Write, 4 * 64 * MIB)];
    let alone = setup.run(steps.clone());
    assert!(busy(&alone, "md0_raid5") > 0);
    setup.spec.group_threads = 2;
    let group = setup.run(steps);
    assert!(busy(&group, "raid5wq") > 10 * busy(&group, "md0_raid5"));
    assert_eq!(alone.bytes().1, group.bytes().1);
}

#[test]
fn a_bitmap_is_written_first() {
    let mut setup = Setup::new(MdLevel::Raid5, 4);
    setup.spec.bitmap = Some(BitmapSpec::default());
    let ran = setup.run(vec![vec![
        Step::IoRequest(Op::Write, 0, 192 * KIB),
        Step::Sleep(20_000 * MS),
        Step::Fsync,
    ]]);
    for log in &ran.logs {
        let log = log.borrow();
        assert!(log[0].op == Op::Flush && log[1].fua && log[1].len == 4 * KIB, "{log:?}");
        assert!(log[2].at > log[1].at + MS && log[2].op == Op::Write && log[2].offset >= MIB);
    }
    // The page is written once more, when its bits are cleared; and the script flushes.
    assert_eq!(ran.logs.iter().map(flushes).sum::<usize>(), 4 * 3);
    assert_eq!(ran.bytes().1, 4 * (64 + 2 * 4) * KIB);
}

/// What came to each member, and what was answered when.
type Course = (Vec<Vec<Came>>, Vec<Answered>);

#[test]
fn the_same_requests_take_the_same_course() {
    let course = || -> Course {
        let setup = Setup { depth: 8, ..Setup::new(MdLevel::Raid6, 6) };
        let ran = setup.run(vec![many(Op::Write, 4 * 64 * MIB), many(Op::Read, 4 * 64 * MIB)]);
        let answered = ran.testbed.answered.borrow().clone();
        (ran.logs.iter().map(|log| log.borrow().clone()).collect(), answered)
    };
    assert_eq!(course(), course());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    /// Whatever comes, everything is answered, the cache is free again, and each write reached as many
    /// members as it has to at least.
    #[test]
    fn everything_is_answered(
        six: bool,
        members in 4_u32..7,
        missing in prop::option::of(0_u32..4),
        cache in 17_u32..300,
        group_threads in 0_u32..3,
        waited_for: bool,
        bitmap: bool,
        rebuilds: bool,
        depth in 1_usize..40,
        asks in prop::collection::vec((any::<bool>(), 0_u64..3000, 1_u64..600, any::<bool>()), 1..60),
    ) {
        let level = if six { MdLevel::Raid6 } else { MdLevel::Raid5 };
        let mut setup = Setup { missing, depth, waited_for, ..Setup::new(level, members) };
        setup.spec.stripe_cache_size = cache;
        setup.spec.group_threads = group_threads;
        setup.spec.bitmap = bitmap.then(BitmapSpec::default);
        if rebuilds && missing.is_none() {
            setup.spec.resync = Some(ResyncSpec::new(Repair::Rebuild(0)));
        }
        let step = |(reads, at, len, sectors): &(bool, u64, u64, bool)| {
            let unit = if *sectors { 512 } else { 4096 };
            Step::IoRequest(if *reads { Op::Read } else { Op::Write }, at * unit, len * unit)
        };
        let mut steps: Vec<Step> = asks.iter().map(step).collect();
        // Stripes are free a little later than their requests are answered.
        steps.extend([Step::Sleep(3_000_000 * MS), Step::Fsync]);
        let writes: Vec<Step> = steps.iter().filter(|s| matches!(s, Step::IoRequest(Op::Write, ..))).copied().collect();
        let ran = setup.run(vec![steps]);
        let has_lost = missing.is_some() || setup.spec.resync.is_some();
        prop_assert!(has_lost || ran.bytes().1 >= asked(&writes).min(1));
        if setup.spec.resync.is_none() {
            prop_assert_eq!(ran.counter("stripe_cache_active"), 0);
        }
        prop_assert_eq!(ran.testbed.world.core.devices[0].in_flight, 0);
    }
}
