use super::*;
use crate::block::DeviceStats;
use crate::block::{Interrupts, QueueSpec, Scheduler};
use crate::dm::crypt::{AesInstructions, Crypt, CryptCosts, CryptSpec, Limits};
use crate::engine::Part;
use crate::page_cache::{File, FileSpec};
use crate::testbed::{Answered, Came, Log, Step, Testbed, flushes, read, written};
use disks::{DiskSpec, Op};
use domain::units::Bytes;

const MIB: u64 = 1 << 20;
const DEVICE: u64 = 2 << 30;
const SIZE: u64 = 512 << 20;

fn options(kind: FilesystemKind, data: JournalMode) -> Options {
    Options {
        kind,
        features: Features::Own,
        data: Some(data),
        journal: Where::Internal,
        mkfs: Vec::new(),
        mount: Vec::new(),
    }
}

fn fs(kind: FilesystemKind, data: JournalMode) -> FsSpec {
    FsSpec::new(&options(kind, data), DEVICE, None).unwrap()
}

const EXT4: fn() -> FsSpec = || fs(FilesystemKind::Ext4, JournalMode::Ordered);

/// All the filesystems, modes and places of journals that differ.
fn all() -> Vec<FsSpec> {
    let mut all = Vec::new();
    for kind in [FilesystemKind::Ext3, FilesystemKind::Ext4] {
        all.extend(JournalMode::ALL.map(|data| fs(kind, data)));
    }
    let like_ext3 = FsSpec { features: Features::Ext3, ..EXT4() };
    let without = FsSpec { journal: JournalPlace::None, ..EXT4() };
    let careless = FsSpec { barrier: false, ..EXT4() };
    let xfs = fs(FilesystemKind::Xfs, JournalMode::Ordered);
    all.extend([like_ext3, without, careless, xfs, fs(FilesystemKind::Ext2, JournalMode::Ordered)]);
    all
}

struct Seen {
    testbed: Testbed,
    file: PartId,
    log: Log,
    journal: Log,
    spec: FsSpec,
}

impl Seen {
    fn count(&self, name: &str) -> u64 {
        self.testbed.counters(self.file)[name]
    }

    /// Every byte below is accounted for.
    fn check_bytes(&self) {
        let all = written(&self.log) + written(&self.journal);
        let parts = ["data_written_bytes", "journal_bytes", "metadata_bytes"].map(|name| self.count(name));
        assert_eq!(all, parts.iter().sum::<u64>(), "{parts:?} {:?}", self.spec);
        assert_eq!(read(&self.log), self.count("data_read_bytes"));
    }

    fn in_journal(&self, came: &Came) -> bool {
        let style = self.spec.style();
        let start = Layout::journal_start(style, DEVICE) * BLOCK;
        (start..start + self.spec.journal_bytes).contains(&came.offset)
    }
}

/// Scripts over a file of which `laid_out` bytes are there.
fn ran(spec: FsSpec, laid_out: u64, depth: usize, memory: u64, scripts: Vec<Vec<Step>>) -> Seen {
    let mut testbed = Testbed::new(2, 2_000);
    let (device, log) = testbed.device(DEVICE, 50_000, 5_000_000);
    let (journal_device, journal) = testbed.device(DEVICE, 50_000, 5_000_000);
    let mut spec = spec;
    if let JournalPlace::External(part) = &mut spec.journal {
        *part = journal_device;
    }
    let me = testbed.world.next_part();
    let file = FileSpec {
        laid_out: Bytes::new(laid_out),
        ..FileSpec::new("sda1", Bytes::new(SIZE), Bytes::new(memory), (6, 12))
    };
    let file = File::on_filesystem(&mut testbed.world.core, me, device, Bytes::new(DEVICE), file, spec);
    testbed.world.add(Box::new(file));
    testbed.scripts(me, depth, scripts);
    testbed.finish();
    Seen { testbed, file: me, log, journal, spec }
}

fn sequential(op: Op, total: u64, len: u64) -> Vec<Step> {
    (0..total / len).map(|n| Step::IoRequest(op, n * len, len)).collect()
}

fn and(mut steps: Vec<Step>, last: Step) -> Vec<Step> {
    steps.push(last);
    steps
}

#[test]
fn data_is_written_once_and_with_a_data_journal_twice() {
    for spec in all() {
        let steps = and(sequential(Op::Write, 32 * MIB, 65536), Step::Fsync);
        let mut seen = ran(spec, 0, 1, 1024 * MIB, vec![steps]);
        seen.check_bytes();
        if spec.journals_data() {
            assert!(seen.count("journal_bytes") > 32 * MIB, "{spec:?}");
            // At their places they are after the flusher's time.
            seen.testbed.idle(60 * SECOND);
            seen.check_bytes();
        }
        assert_eq!(seen.count("data_written_bytes"), 32 * MIB, "{spec:?}");
        assert_eq!((seen.count("dirty_bytes"), seen.count("writeback_bytes")), (0, 0), "{spec:?}");
    }
}

#[test]
fn a_data_journal_writes_descriptors_blocks_and_a_record() {
    let steps = and(sequential(Op::Write, MIB, 65536), Step::Fsync);
    let spec = fs(FilesystemKind::Ext4, JournalMode::Journal);
    let seen = ran(spec, SIZE, 1, 1024 * MIB, vec![steps]);
    assert_eq!(seen.count("commits"), 1);
    // 256 blocks and the inode; 254 fit a descriptor; the record.
    assert_eq!(seen.count("journal_bytes"), (257 + 2 + 1) * BLOCK);
}

#[test]
fn everything_is_in_its_place_after_a_while() {
    for spec in all() {
        let mut seen = ran(spec, 0, 1, 1024 * MIB, vec![sequential(Op::Write, 16 * MIB, 65536)]);
        seen.testbed.idle(200 * SECOND);
        seen.check_bytes();
        assert_eq!(seen.count("data_written_bytes"), 16 * MIB, "{spec:?}");
        assert_eq!((seen.count("dirty_bytes"), seen.count("writeback_bytes")), (0, 0), "{spec:?}");
        assert!(seen.count("metadata_bytes") >= 3 * BLOCK, "{spec:?}");
        let before = written(&seen.log);
        seen.testbed.idle(200 * SECOND);
        assert_eq!(written(&seen.log), before, "{spec:?}: a machine with nothing to do writes");
    }
}

#[test]
fn a_commit_is_a_flush_and_a_record_with_fua() {
    let steps = and(sequential(Op::Write, MIB, 65536), Step::Fsync);
    let seen = ran(EXT4(), 0, 1, 1024 * MIB, vec![steps]);
    let log = seen.log.borrow();
    let [.., before, last] = &log[..] else { panic!("{log:?}") };
    assert_eq!((before.op, last.op, last.fua, last.len), (Op::Flush, Op::Write, true, BLOCK));
    assert!(seen.in_journal(last));
    // Descriptor and blocks come before the flush, in the journal's order.
    let offsets: Vec<u64> = log.iter().filter(|came| seen.in_journal(came)).map(|came| came.offset).collect();
    assert!(offsets.windows(2).all(|pair| pair[1] == pair[0] + BLOCK), "{offsets:?}");
}

#[test]
fn without_barriers_nothing_is_flushed() {
    let steps = and(sequential(Op::Write, MIB, 65536), Step::Fsync);
    let seen = ran(FsSpec { barrier: false, ..EXT4() }, 0, 1, 1024 * MIB, vec![steps]);
    assert_eq!((flushes(&seen.log), seen.log.borrow().iter().filter(|came| came.fua).count()), (0, 0));
    assert_eq!(seen.count("commits"), 1);
}

#[test]
fn ordered_data_is_written_before_the_commit_and_with_writeback_it_is_not() {
    // Nobody waits: the commit comes after 5 s, the flusher after 30.
    let data_before_the_record = |data| {
        let mut seen = ran(
            fs(FilesystemKind::Ext3, data),
            0,
            1,
            1024 * MIB,
            vec![sequential(Op::Write, 4 * MIB, 65536)],
        );
        seen.testbed.idle(10 * SECOND);
        assert_eq!(seen.count("commits"), 1);
        seen.check_bytes();
        let log = seen.log.borrow();
        let record = log.iter().position(|came| came.fua).unwrap();
        log[..record].iter().filter(|came| !seen.in_journal(came)).map(|came| came.len).sum::<u64>()
    };
    assert_eq!(data_before_the_record(JournalMode::Ordered), 4 * MIB);
    assert_eq!(data_before_the_record(JournalMode::Writeback), 0);
}

#[test]
fn a_commit_waits_until_ordered_data_is_on_its_device() {
    let ordered = fs(FilesystemKind::Ext3, JournalMode::Ordered);
    for barrier in [true, false] {
        let spec = FsSpec { journal: JournalPlace::External(PartId::NOBODY), barrier, ..ordered };
        let mut seen = ran(spec, 0, 1, 1024 * MIB, vec![sequential(Op::Write, 16 * MIB, 65536)]);
        seen.testbed.idle(10 * SECOND);
        let first = seen.log.borrow()[0].at;
        let record = seen.journal.borrow().last().unwrap().at;
        // 16 MiB at 5 ms each; the journal's device has nothing else to do.
        assert!(record - first >= 80_000_000, "{}", record - first);
        let flushed = usize::from(barrier);
        assert_eq!((flushes(&seen.log), flushes(&seen.journal)), (flushed, flushed));
    }
}

#[test]
fn what_is_overwritten_needs_no_order() {
    let spec = fs(FilesystemKind::Ext3, JournalMode::Ordered);
    let mut seen = ran(spec, SIZE, 1, 1024 * MIB, vec![sequential(Op::Write, 4 * MIB, 65536)]);
    seen.testbed.idle(10 * SECOND);
    assert_eq!((seen.count("commits"), seen.count("data_written_bytes")), (1, 0));
}

#[test]
fn fdatasync_of_what_is_overwritten_commits_nothing() {
    for (step, commits) in [(Step::DataSync, 0), (Step::Fsync, 1)] {
        let seen = ran(EXT4(), SIZE, 1, 1024 * MIB, vec![vec![Step::IoRequest(Op::Write, 0, 65536), step]]);
        assert_eq!((seen.count("commits"), flushes(&seen.log)), (commits, 1));
    }
}

#[test]
fn somebody_waits_for_the_device_as_long_as_an_fsync_lasts() {
    // The journal's thread while the program waits for that.
    for step in [Step::DataSync, Step::Fsync] {
        let one = |n: u64| [Step::IoRequest(Op::Write, n * 65536, 4096), step];
        let mut seen = ran(EXT4(), SIZE, 1, 1024 * MIB, vec![(0..20).flat_map(one).collect()]);
        let core = &mut seen.testbed.world.core;
        let waited: u64 = (0..2).map(|cpu| core.cpus.times(core.now, cpu).iowait_ns).sum();
        let busy: u64 = (0..2).map(|cpu| core.cpus.times(core.now, cpu).busy_ns).sum();
        assert!(waited + busy >= core.now / 100 * 95, "{waited} and {busy} of {} ns", core.now);
    }
}

#[test]
fn many_that_wait_share_a_commit() {
    let script = |n: u64| {
        let step = move |k| Step::IoRequest(Op::Write, (n * 40 + k) * 65536, 4096);
        (0..20).flat_map(move |k| [step(k), Step::Fsync]).collect()
    };
    let alone = ran(EXT4(), 0, 1, 1024 * MIB, vec![script(0)]);
    let together = ran(EXT4(), 0, 1, 1024 * MIB, (0..8).map(script).collect());
    assert_eq!(alone.count("commits"), 20);
    assert!(together.count("commits") < 100, "{}", together.count("commits"));
    together.check_bytes();
}

#[test]
fn a_journal_elsewhere_takes_its_writes_with_it() {
    let spec = FsSpec { journal: JournalPlace::External(PartId::NOBODY), ..EXT4() };
    let seen = ran(spec, 0, 1, 1024 * MIB, vec![and(sequential(Op::Write, 8 * MIB, 65536), Step::Fsync)]);
    seen.check_bytes();
    assert_eq!(written(&seen.journal), seen.count("journal_bytes"));
    assert_eq!((written(&seen.log), flushes(&seen.journal)), (8 * MIB, 1));
}

#[test]
fn a_small_journal_is_cleared_again_and_again() {
    let kinds = [
        fs(FilesystemKind::Ext3, JournalMode::Journal),
        fs(FilesystemKind::Ext4, JournalMode::Journal),
        fs(FilesystemKind::Ext4, JournalMode::Ordered),
    ];
    for spec in kinds {
        let spec = FsSpec { journal_bytes: 1100 * BLOCK, ..spec };
        let steps: Vec<Step> = match spec.journals_data() {
            true => and(sequential(Op::Write, 64 * MIB, 65536), Step::Fsync),
            false => {
                (0..600).flat_map(|n| [Step::IoRequest(Op::Write, n * 65536, 4096), Step::Fsync]).collect()
            }
        };
        let total: u64 =
            steps.iter().map(|s| if let Step::IoRequest(_, _, len) = s { *len } else { 0 }).sum();
        let mut seen = ran(spec, 0, 1, 1024 * MIB, vec![steps]);
        let tails = seen
            .log
            .borrow()
            .iter()
            .filter(|came| came.offset == Layout::journal_start(spec.style(), DEVICE) * BLOCK)
            .count();
        assert!(tails > 1, "{spec:?}: the log's beginning moved {tails} times");
        seen.testbed.idle(100 * SECOND);
        seen.check_bytes();
        assert_eq!(seen.count("data_written_bytes"), total, "{spec:?}");
    }
}

#[test]
fn new_blocks_of_a_direct_write_are_the_file_s_after_fsync() {
    for spec in all() {
        let steps: Vec<Step> = (0..64).map(|n| Step::Direct(Op::Write, n * MIB / 4, MIB / 4)).collect();
        let seen = ran(spec, 0, 1, 1024 * MIB, vec![and(steps, Step::Fsync)]);
        seen.check_bytes();
        if !spec.journals_data() {
            assert_eq!(seen.count("data_written_bytes"), 16 * MIB);
        }
    }
}

#[test]
fn xfs_writes_little_log_and_only_when_asked() {
    let steps = and(sequential(Op::Write, 8 * MIB, 65536), Step::Fsync);
    let seen = ran(fs(FilesystemKind::Xfs, JournalMode::Ordered), 0, 1, 1024 * MIB, vec![steps]);
    assert_eq!((seen.count("commits"), seen.count("journal_bytes")), (1, BLOCK));
}

#[test]
fn holes_are_read_without_a_device() {
    let seen = ran(EXT4(), MIB, 1, 64 * MIB, vec![sequential(Op::Read, 8 * MIB, 65536)]);
    assert_eq!((read(&seen.log), seen.testbed.answered.borrow().len()), (MIB, 128));
}

#[test]
fn the_journal_s_size_is_mke2fs_s() {
    let sizes = [(100 * MIB, 4), (DEVICE, 64), (20 << 30, 128), (40 << 30, 256), (1 << 40, 1024)];
    for (device, mib) in sizes {
        assert_eq!(journal_bytes(device), mib * MIB, "{device}");
    }
}

#[test]
fn mount_options_are_read() {
    let with = |word: &str| {
        let options =
            Options { mount: vec![word.to_owned()], ..options(FilesystemKind::Ext4, JournalMode::Ordered) };
        FsSpec::new(&options, DEVICE, None)
    };
    assert!(!with("noatime,nobarrier").unwrap().barrier && !with("barrier=0").unwrap().barrier);
    assert_eq!(with("commit=60").unwrap().commit_ns, 60 * SECOND);
    assert!(with("commit=soon").is_err());
    assert!(FsSpec::new(&options(FilesystemKind::Btrfs, JournalMode::Ordered), DEVICE, None).is_err());
}

fn mixture() -> Vec<Vec<Step>> {
    let script = |n: u64| {
        (0..300_u64).map(move |k| {
            let at = (k * 7_907 + n * 104_729) % 60_000 * 512;
            let len = 512 * (1 + (k * 31 + n) % 500);
            match (k + n) % 9 {
                0 => Step::Direct(Op::Read, at / 4096 * 4096, 4096 * (1 + k % 40)),
                1 => Step::Direct(Op::Write, at / 4096 * 4096, 4096 * (1 + k % 40)),
                2 if k % 5 == 0 => Step::Fsync,
                2 if k % 5 == 1 => Step::DataSync,
                3 if k % 7 == 0 => Step::Sleep(300_000_000),
                4 if k % 3 == 0 => Step::Durable(at, len),
                5 | 6 => Step::IoRequest(Op::Write, at, len),
                _ => Step::IoRequest(Op::Read, at, len),
            }
        })
    };
    (0..4).map(|n| script(n).collect()).collect()
}

#[test]
fn whatever_the_filesystem_every_request_is_answered_and_every_byte_accounted_for() {
    for spec in all() {
        for (depth, journal) in [(1, spec.journal_bytes), (6, 1100 * BLOCK)] {
            let spec = FsSpec { journal_bytes: journal, ..spec };
            let course = || {
                let mut seen = ran(spec, 8 * MIB, depth, 20 * MIB, mixture());
                let answered: Vec<Answered> = seen.testbed.answered.borrow().clone();
                let asked = mixture().concat().iter().filter(|s| !matches!(s, Step::Sleep(_))).count();
                assert_eq!(answered.len(), asked, "{spec:?}");
                assert!(seen.count("most_dirty_bytes") <= 4 * MIB, "{spec:?}");
                seen.check_bytes();
                seen.testbed.idle(200 * SECOND);
                seen.check_bytes();
                assert_eq!(seen.count("dirty_bytes") + seen.count("writeback_bytes"), 0, "{spec:?}");
                assert!(seen.testbed.world.core.bios.is_empty(), "{spec:?}: a request was lost");
                let log = seen.log.borrow().clone();
                (answered, log)
            };
            assert_eq!(course(), course(), "{spec:?}");
        }
    }
}

const SSD: &str = "samsung-850-evo";
const HDD: &str = "plain-7200";

/// A file on ext4 on dm-crypt on a disk.
fn stack(scripts: Vec<Vec<Step>>, depth: usize, model: &str) -> (Testbed, PartId) {
    let mut testbed = Testbed::new(4, 2_000);
    let disk = DiskSpec::shipped(model).unwrap();
    let disk = disk.with_size(Bytes::new(DEVICE + (16 << 20))).unwrap();
    let queue = QueueSpec {
        scheduler: Scheduler::MqDeadline,
        tags: 32,
        most_bytes: 1280 << 10,
        most_segments: 168,
        dispatch: Cost::NONE,
        dispatch_page: Cost::NONE,
        interrupt: Cost::cycles(3_000),
        interrupts: Interrupts::Submitter,
        kernel: governors::KernelVersion::new(6, 12, 0),
    };
    let below = testbed.disk(&disk, queue);
    let options = domain::stack::Crypt {
        kind: domain::stack::CryptKind::Luks2,
        cipher: "aes-xts-plain64".to_owned(),
        key_size: 512,
        sector_size: 4096,
        no_read_workqueue: false,
        no_write_workqueue: false,
        same_cpu: false,
        submit_from_crypt: false,
    };
    let costs = CryptCosts::of_cipher(&options.cipher, options.key_size, AesInstructions::Present);
    let crypt = CryptSpec {
        name: "dm-0".to_owned(),
        options,
        limits: Limits::of_kernel(6, 12),
        queue: crate::dm::crypt::WorkQueue::Unbound,
        costs,
    };
    testbed.world.core.devices.push(DeviceStats::new("dm-0"));
    let me = testbed.world.next_part();
    let crypt = Crypt::new(&mut testbed.world.core, me, below, 1, disk.capacity, crypt);
    let size = Bytes::new(crypt.size());
    testbed.world.add(Box::new(crypt));
    let top = testbed.world.next_part();
    let spec = FileSpec { laid_out: Bytes::new(64 * MIB), ..file_spec(512 * MIB) };
    let fs = FsSpec::new(&options_of_ext4(), size.get(), None).unwrap();
    let file = File::on_filesystem(&mut testbed.world.core, top, me, size, spec, fs);
    testbed.world.add(Box::new(file));
    testbed.scripts(top, depth, scripts);
    testbed.finish();
    (testbed, top)
}

fn file_spec(memory: u64) -> FileSpec {
    FileSpec::new("dm-0", Bytes::new(SIZE), Bytes::new(memory), (6, 12))
}

fn options_of_ext4() -> Options {
    options(FilesystemKind::Ext4, JournalMode::Ordered)
}

#[test]
fn a_whole_stack_moves_every_byte_through_each_of_its_parts() {
    let mut steps = and(sequential(Op::Write, 128 * MIB, MIB), Step::Fsync);
    steps.extend((0..256).map(|n| Step::Direct(Op::Read, n * MIB / 2, MIB / 2)));
    for model in [SSD, HDD] {
        let (mut testbed, file) = stack(vec![steps.clone()], 1, model);
        testbed.idle(100 * SECOND);
        let counters = testbed.counters(file);
        let down = ["data_written_bytes", "journal_bytes", "metadata_bytes"].map(|name| counters[name]);
        let [disk, crypt] = &testbed.world.core.devices[..] else { panic!("two devices") };
        assert_eq!((crypt.writes.bytes, disk.writes.bytes), (down.iter().sum(), down.iter().sum()));
        assert_eq!((crypt.reads.bytes, disk.reads.bytes), (128 * MIB, 128 * MIB));
        assert_eq!((disk.in_flight, crypt.in_flight), (0, 0));
        // What dm-crypt takes apart at 128 KiB, the block layer makes one again.
        assert_eq!(crypt.reads.ios, 1024);
        assert!(disk.reads.ios <= crypt.reads.ios && disk.writes.ios < crypt.writes.ios);
        assert!(testbed.used(Role::Crypt) > 0 && testbed.used(Role::Journal) > 0);
    }
}

#[test]
fn a_whole_stack_takes_the_same_course_each_time() {
    let course = || {
        let (testbed, file) = stack(mixture(), 4, HDD);
        let answered: Vec<Answered> = testbed.answered.borrow().clone();
        (answered, testbed.counters(file), testbed.world.core.devices.clone(), testbed.world.events())
    };
    assert_eq!(course(), course());
}
