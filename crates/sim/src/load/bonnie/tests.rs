use super::*;
use crate::fs::FsSpec;
use crate::page_cache::{File, FileSpec};
use crate::testbed::{Log, Testbed, flushes, read, written};
use domain::stack::{Features, Filesystem, FilesystemKind, Journal, JournalMode};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;
const TOTAL: Bytes = Bytes::from_mib(64);
const MEMORY: u64 = 16 * MIB;

fn load(options: &[(&str, &str)]) -> Bonnie {
    let options: BTreeMap<String, String> =
        options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Bonnie::parse(&options).unwrap()
}

/// A hundred cycles a character, in both ways.
fn spec(options: &[(&str, &str)]) -> BonnieSpec {
    BonnieSpec {
        load: load(options),
        total: TOTAL,
        call: Cost::cycles(3_000),
        back: Cost::cycles(1_000),
        chars_written: Cost::cycles(100 * BUFFER),
        chars_read: Cost::cycles(100 * BUFFER),
    }
}

fn on(kind: FilesystemKind, data: Option<JournalMode>) -> FsSpec {
    let options = Filesystem {
        kind,
        features: Features::Own,
        data,
        journal: Journal::Internal,
        mkfs: Vec::new(),
        mount: Vec::new(),
    };
    FsSpec::new(&options, 1 << 30, None).unwrap()
}

struct Ran {
    done: Vec<Done>,
    log: Log,
    counters: BTreeMap<String, u64>,
}

impl Ran {
    fn of(&self, phase: Phase) -> Done {
        *self.done.iter().find(|done| done.phase == phase).unwrap()
    }

    /// Bytes a second.
    fn rate(&self, phase: Phase) -> f64 {
        let done = self.of(phase);
        done.amount as f64 * 1e9 / done.elapsed as f64
    }
}

/// On a device of 200 MB/s and 100 µs a request, of 1 GiB.
fn ran(mhz: u64, fs: FsSpec, spec: BonnieSpec) -> Ran {
    let mut testbed = Testbed::new(1, mhz);
    let (device, log) = testbed.device(1 << 30, 100_000, 5_000_000);
    let me = testbed.world.next_part();
    let mut file = FileSpec::new("target", TOTAL, Bytes::new(MEMORY), (6, 12));
    file.laid_out = Bytes::new(0);
    let part = File::on_filesystem(&mut testbed.world.core, me, device, Bytes::new(1 << 30), file, fs);
    testbed.world.add(Box::new(part));
    let of = testbed.world.next_part();
    let bonnie = BonnieLoad::new(&mut testbed.world.core, of, me, spec, Seed(1));
    let told = bonnie.told();
    testbed.world.add(Box::new(bonnie));
    testbed.finish();
    let done = told.borrow().clone();
    Ran { done, log, counters: testbed.counters(me) }
}

const OLD: &[(&str, &str)] =
    &[("flavour", "bonnie-1"), ("size", "64MiB"), ("file_size", "16MiB"), ("seeks", "300")];

#[test]
fn phases_come_in_order_and_the_device_sees_what_each_moves() {
    let ran = ran(2_000, on(FilesystemKind::Ext2, None), spec(OLD));
    let order: Vec<Phase> = ran.done.iter().map(|done| done.phase).collect();
    assert_eq!(order, load(OLD).phases());
    assert!(ran.done[..5].iter().all(|done| done.amount == TOTAL.get()) && ran.done[5].amount == 300);
    // Rewritten, and read in two ways: three times all, but what was still in memory; and the seeks with
    // their read-ahead.
    let (came, went) = (read(&ran.log) / MIB, written(&ran.log) / MIB);
    assert!((3 * 64 - 3 * 16..=3 * 64 + 8).contains(&came), "{came} MiB were read");
    // Characters, rewritten, blocks: but what was dirty when its file was removed, and what was left at the
    // end.
    assert!((3 * 64 - 8..=3 * 64 + 4).contains(&went), "{went} MiB were written");
    assert_eq!(flushes(&ran.log), 0, "Bonnie 1.x flushes nothing");
}

#[test]
fn bonnie_plus_plus_flushes_when_it_closes() {
    let spec = spec(&[("size", "64MiB"), ("seeks", "300")]);
    let ran = ran(2_000, on(FilesystemKind::Ext4, None), spec);
    assert!(flushes(&ran.log) >= 3, "{} flushes", flushes(&ran.log));
    assert_eq!(ran.counters["dirty_bytes"], 0);
    assert_eq!(ran.of(Phase::PerCharWrite).amount, 3 * MIB);
}

#[test]
fn a_phase_is_charged_what_bonnie_s_own_threads_execute() {
    let ran = ran(1_000, on(FilesystemKind::Ext2, None), spec(OLD));
    let chars = TOTAL.get() * 100;
    for phase in [Phase::PerCharWrite, Phase::PerCharRead] {
        let done = ran.of(phase);
        // At 1 GHz a cycle is a nanosecond: the characters, and system calls, copies and pages on top.
        assert!(done.cpu > chars && done.cpu < chars * 5 / 4, "{done:?}, characters alone {chars}");
        assert!(done.cpu <= done.elapsed);
    }
    for done in &ran.done {
        assert!(done.cpu <= done.elapsed, "{done:?}");
    }
    let (blocks, chars) = (ran.of(Phase::BlockRead), ran.of(Phase::PerCharRead));
    assert!(blocks.cpu < chars.cpu / 5, "{blocks:?} {chars:?}");
}

#[test]
fn characters_are_as_fast_as_the_cpu_and_blocks_as_the_device() {
    let at = |mhz| ran(mhz, on(FilesystemKind::Ext2, None), spec(OLD));
    let (slow, fast) = (at(400), at(800));
    for phase in [Phase::PerCharWrite, Phase::PerCharRead] {
        let gain = fast.rate(phase) / slow.rate(phase);
        assert!((1.9..2.05).contains(&gain), "{phase:?}: {gain}");
    }
    let (slow, fast) = (at(4_000), at(8_000));
    for phase in [Phase::BlockWrite, Phase::BlockRead] {
        let gain = fast.rate(phase) / slow.rate(phase);
        assert!((0.97..1.1).contains(&gain), "{phase:?}: {gain}");
        assert!(fast.rate(Phase::Rewrite) < fast.rate(phase), "{phase:?}");
    }
}

#[test]
fn data_in_the_journal_is_written_twice_and_costs_time() {
    let of = |mode| ran(2_000, on(FilesystemKind::Ext3, Some(mode)), spec(OLD));
    let (ordered, journal) = (of(JournalMode::Ordered), of(JournalMode::Journal));
    let (once, twice) = (written(&ordered.log), written(&journal.log));
    assert!(twice as f64 > 1.8 * once as f64, "{once} and {twice} bytes");
    for phase in [Phase::BlockWrite, Phase::Rewrite] {
        assert!(journal.rate(phase) < ordered.rate(phase), "{phase:?}");
    }
}
