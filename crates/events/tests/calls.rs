//! What threads did in system calls, and what filesystems made of these.

#![allow(clippy::unwrap_used, reason = "it is a test")]

mod made;

use domain::Nanos;
use domain::calls::{Call, Called, Calls};
use domain::passage::Bios;
use domain::trace::Role;
use domain::units::Bytes;
use events::facts::Wait;
use events::{Facts, Op, Owner};
use made::{File, HARDIRQ};
use proptest::prelude::*;

/// Letters of prev_state in the recorded format.
const RUNNABLE: u64 = 0;
const BLOCKED: u64 = 2;
const DEAD: u64 = 0x10;

/// Threads: the workload's two, the journal's, a kworker.
const FIO: u64 = 7;
const OTHER_FIO: u64 = 8;
const JOURNAL: u64 = 20;
const KWORKER: u64 = 30;

/// A disk, and a mapping on it.
const SDA: u64 = 8 << 20;
const DM: u64 = 253 << 20;

/// A recording that grows, of what happens on two CPUs.
struct Recorded(File);

impl Recorded {
    fn new() -> Self {
        let mut file = File::new();
        file.device(SDA as u32, "sda");
        file.device(DM as u32, "dm-0");
        file.task(FIO as u32, Owner::Workload, "fio");
        file.task(OTHER_FIO as u32, Owner::Workload, "fio");
        file.task(JOURNAL as u32, Owner::Kernel, "jbd2/sda-8");
        file.task(KWORKER as u32, Owner::Kernel, "kworker/0:1");
        Self(file)
    }

    fn begin(&mut self, cpu: u16, time: u64, tid: u64, call: &str) {
        self.0.event(cpu, time, &format!("syscalls/sys_enter_{call}"), &[("common_pid", tid)]);
    }

    fn end(&mut self, cpu: u16, time: u64, tid: u64, call: &str, returned: i64) {
        let fields = [("common_pid", tid), ("ret", returned as u64)];
        self.0.event(cpu, time, &format!("syscalls/sys_exit_{call}"), &fields);
    }

    fn switch(&mut self, cpu: u16, time: u64, from: u64, state: u64, to: u64) {
        self.0.switch(cpu, time, from, state, to);
    }

    fn wake(&mut self, cpu: u16, time: u64, by: u64, flags: u64, whom: u64) {
        let fields = [("common_pid", by), ("common_flags", flags), ("pid", whom)];
        self.0.event(cpu, time, "sched/sched_waking", &fields);
    }

    /// A thread queues a bio.
    fn queue(&mut self, time: u64, by: u64, device: u64, sector: u64, sectors: u64, rwbs: &str) {
        let mut letters = [0; 8];
        letters[..rwbs.len()].copy_from_slice(rwbs.as_bytes());
        let fields = [
            ("common_pid", by),
            ("dev", device),
            ("sector", sector),
            ("nr_sector", sectors),
            ("rwbs", u64::from_ne_bytes(letters)),
        ];
        self.0.event(0, time, "block/block_bio_queue", &fields);
    }

    /// A layer announces what becomes of sectors of its own.
    fn remap(&mut self, time: u64, by: u64, from: (u64, u64), to: (u64, u64), sectors: u64) {
        let fields = [
            ("common_pid", by),
            ("dev", to.0),
            ("sector", to.1),
            ("nr_sector", sectors),
            ("old_dev", from.0),
            ("old_sector", from.1),
            ("rwbs", u64::from(b'W')),
        ];
        self.0.event(0, time, "block/block_bio_remap", &fields);
    }

    /// An interrupt ends a request of the disk.
    fn done(&mut self, time: u64, sector: u64, sectors: u64, rwbs: char) {
        let fields = [
            ("common_flags", HARDIRQ),
            ("dev", SDA),
            ("sector", sector),
            ("nr_sector", sectors),
            ("rwbs", rwbs as u64),
        ];
        self.0.event(0, time, "block/block_rq_complete", &fields);
    }

    fn facts(mut self, end: u64) -> Facts {
        self.0.end(end);
        self.0.facts()
    }

    fn calls(self, end: u64) -> Calls {
        self.facts(end).calls.unwrap()
    }

    fn of(self, call: Call) -> Called {
        self.calls(1_000_000).of.remove(&(Role::Workload, call)).unwrap()
    }
}

fn waited(called: &Called, wait: Wait) -> u64 {
    called.spent.waited(wait).get()
}

fn times(called: &Called) -> [u64; 4] {
    called.with_bios.times().map(Nanos::get)
}

/// ext4: the data is written by whoever calls fsync, then the journal's thread commits.
fn fsync() -> Recorded {
    let mut recorded = Recorded::new();
    recorded.switch(0, 50, 0, RUNNABLE, FIO);
    recorded.begin(0, 100, FIO, "fsync");
    recorded.queue(130, FIO, SDA, 800, 8, "WS");
    recorded.switch(0, 140, FIO, BLOCKED, 0);
    recorded.done(240, 800, 8, 'W');
    recorded.wake(0, 241, 0, HARDIRQ, FIO);
    recorded.switch(0, 250, 0, RUNNABLE, FIO);
    recorded.switch(0, 270, FIO, BLOCKED, 0);
    recorded.queue(300, JOURNAL, SDA, 4096, 16, "WS");
    recorded.done(600, 4096, 16, 'W');
    recorded.wake(1, 640, JOURNAL, 0, FIO);
    recorded.switch(0, 645, 0, RUNNABLE, FIO);
    recorded.end(0, 660, FIO, "fsync", 0);
    recorded
}

#[test]
fn an_fsync_waits_for_its_own_data_and_then_for_the_journal() {
    let of = fsync().of(Call::Fsync);
    assert_eq!((of.count, of.failed, of.bytes, of.took.count), (1, 0, Bytes::new(0), 1));
    assert_eq!((of.spent.cpu_ns, of.spent.ready_ns), (40 + 20 + 15, 9 + 5));
    assert_eq!([waited(&of, Wait::Io), waited(&of, Wait::Thread)], [101, 370]);
    assert_eq!(of.woken_by, [(Role::Journal, Nanos::new(370))].into());
    assert_eq!((of.took.sum, of.spent.all()), (Nanos::new(560), Nanos::new(560)));
    assert_eq!((of.with_bios.count, of.with_bios.followed), (1, 1));
    assert_eq!((of.with_bios.bios, of.share_without_bios()), (Bios::one(8), Some(0.0)));
    assert_eq!(times(&of), [30, 110, 0, 420]);
}

#[test]
fn what_the_journal_writes_stands_beside_what_the_call_wrote() {
    let mut recorded = fsync();
    recorded.begin(0, 700, FIO, "pwrite64");
    recorded.end(0, 710, FIO, "pwrite64", 4096);
    let calls = recorded.calls(1000);
    let queued = calls.queued.as_ref().unwrap();
    let of = |role| queued[&("sda".to_owned(), role, Op::Write)];
    assert_eq!((of(Role::Workload), of(Role::Journal)), (Bios::one(8), Bios::one(16)));
    assert_eq!(calls.asked(Op::Write), (1, Bytes::new(4096)));
    assert_eq!(calls.amplification(Op::Write, of(Role::Journal)), Some(2.0));
}

#[test]
fn a_call_that_the_page_cache_serves_has_no_bio_and_one_that_fails_moves_nothing() {
    let mut recorded = Recorded::new();
    recorded.switch(0, 50, 0, RUNNABLE, FIO);
    recorded.begin(0, 100, FIO, "pread64");
    recorded.end(0, 107, FIO, "pread64", 4096);
    recorded.begin(0, 200, FIO, "pread64");
    recorded.end(0, 203, FIO, "pread64", -5);
    let of = recorded.of(Call::Pread);
    assert_eq!((of.count, of.failed, of.bytes), (2, 1, Bytes::new(4096)));
    assert_eq!((of.spent.cpu_ns, of.took.sum, of.share_without_bios()), (10, Nanos::new(10), Some(1.0)));
}

#[test]
fn a_flush_ends_with_the_wait_for_it() {
    let mut recorded = Recorded::new();
    recorded.switch(0, 50, 0, RUNNABLE, FIO);
    recorded.begin(0, 100, FIO, "fdatasync");
    recorded.queue(110, FIO, DM, 0, 0, "FWS");
    // What dm makes of it.
    recorded.queue(112, FIO, SDA, 0, 0, "FWS");
    recorded.switch(0, 120, FIO, BLOCKED, 0);
    recorded.done(500, u64::MAX, 0, 'F');
    recorded.wake(0, 502, 0, HARDIRQ, FIO);
    recorded.switch(0, 510, 0, RUNNABLE, FIO);
    recorded.end(0, 530, FIO, "fdatasync", 0);
    let of = recorded.of(Call::Fdatasync);
    assert_eq!((of.with_bios.bios, of.with_bios.followed), (Bios { count: 1, sectors: 0 }, 1));
    assert_eq!((times(&of), waited(&of, Wait::Io)), ([10, 392, 0, 28], 382));
}

#[test]
fn what_a_layer_passes_on_is_not_what_the_filesystem_queued() {
    let mut recorded = Recorded::new();
    recorded.switch(0, 50, 0, RUNNABLE, FIO);
    recorded.begin(0, 100, FIO, "pwrite64");
    recorded.queue(120, FIO, DM, 64, 8, "WS");
    recorded.remap(121, FIO, (DM, 64), (SDA, 2112), 8);
    recorded.queue(122, FIO, SDA, 2112, 8, "WS");
    recorded.switch(0, 130, FIO, BLOCKED, 0);
    recorded.done(400, 2112, 8, 'W');
    let ended = [("dev", DM), ("sector", 64), ("nr_sector", 8), ("rwbs", u64::from(b'W'))];
    recorded.0.event(0, 410, "block/block_bio_complete", &ended);
    recorded.wake(0, 411, 0, HARDIRQ, FIO);
    recorded.switch(0, 420, 0, RUNNABLE, FIO);
    recorded.end(0, 430, FIO, "pwrite64", 4096);
    let calls = recorded.calls(1000);
    let queued: Vec<_> = calls.queued.iter().flatten().collect();
    assert_eq!(queued, [(&("dm-0".to_owned(), Role::Workload, Op::Write), &Bios::one(8))]);
    let of = &calls.of[&(Role::Workload, Call::Pwrite)];
    assert_eq!((times(of), of.with_bios.bios), ([20, 290, 0, 20], Bios::one(8)));
}

#[test]
fn a_read_returns_while_its_read_ahead_goes_on() {
    let mut recorded = Recorded::new();
    recorded.switch(0, 50, 0, RUNNABLE, FIO);
    recorded.begin(0, 100, FIO, "pread64");
    recorded.queue(110, FIO, SDA, 0, 8, "R");
    recorded.queue(115, FIO, SDA, 8, 64, "RA");
    recorded.switch(0, 120, FIO, BLOCKED, 0);
    recorded.done(300, 0, 8, 'R');
    recorded.wake(0, 301, 0, HARDIRQ, FIO);
    recorded.switch(0, 310, 0, RUNNABLE, FIO);
    recorded.end(0, 330, FIO, "pread64", 4096);
    // It is no bio of this call.
    recorded.begin(0, 340, FIO, "pread64");
    recorded.done(500, 8, 64, 'R');
    recorded.end(0, 510, FIO, "pread64", 4096);
    let of = recorded.of(Call::Pread);
    assert_eq!((of.with_bios.count, of.with_bios.bios), (1, Bios { count: 2, sectors: 72 }));
    assert_eq!((times(&of), of.took.count), ([10, 220, 0, 0], 2));
}

#[test]
fn who_woke_is_told_by_what_a_kworker_executes() {
    const FUNCTION: u64 = 0xffff_ffff_8100_0000;
    let mut recorded = Recorded::new();
    recorded.0.symbol(FUNCTION, "wb_workfn");
    recorded.switch(0, 50, 0, RUNNABLE, FIO);
    recorded.begin(0, 100, FIO, "write");
    recorded.switch(0, 120, FIO, BLOCKED, 0);
    let fields = [("common_pid", KWORKER), ("function", FUNCTION)];
    recorded.0.event(1, 130, "workqueue/workqueue_execute_start", &fields);
    recorded.wake(1, 150, KWORKER, 0, FIO);
    recorded.switch(0, 160, 0, RUNNABLE, FIO);
    recorded.end(0, 170, FIO, "write", 4096);
    let of = recorded.of(Call::Write);
    assert_eq!(of.woken_by, [(Role::Writeback, Nanos::new(30))].into());
}

#[test]
fn after_a_loss_nothing_is_known_of_calls_that_were_under_way() {
    let mut recorded = Recorded::new();
    recorded.switch(0, 50, 0, RUNNABLE, FIO);
    recorded.begin(0, 100, FIO, "pwrite64");
    recorded.0.lost(1, 150, 1);
    recorded.end(0, 200, FIO, "pwrite64", 512);
    recorded.begin(0, 300, FIO, "pwrite64");
    recorded.end(0, 320, FIO, "pwrite64", 512);
    let of = recorded.of(Call::Pwrite);
    assert_eq!((of.count, of.bytes, of.took.count, of.took.sum), (2, Bytes::new(1024), 1, Nanos::new(20)));
}

#[test]
fn who_runs_after_a_loss_is_known_from_the_next_call_on() {
    let mut recorded = Recorded::new();
    recorded.switch(0, 50, 0, RUNNABLE, FIO);
    recorded.0.lost(0, 100, 1);
    recorded.begin(0, 300, FIO, "pwrite64");
    recorded.end(0, 340, FIO, "pwrite64", 512);
    recorded.switch(0, 350, FIO, BLOCKED, 0);
    let facts = recorded.facts(1000);
    let thread = facts.threads.iter().find(|thread| u64::from(thread.tid) == FIO).unwrap();
    assert_eq!((thread.spent.cpu_ns, facts.cpus[&0].unknown_ns), (50, 250));
    let of = &facts.calls.unwrap().of[&(Role::Workload, Call::Pwrite)];
    assert_eq!((of.spent.cpu_ns, of.took.sum), (40, Nanos::new(40)));
}

#[test]
fn the_end_of_a_call_that_had_begun_before_is_counted_and_has_no_time() {
    let mut recorded = Recorded::new();
    recorded.switch(0, 50, 0, RUNNABLE, FIO);
    recorded.end(0, 100, FIO, "read", 10);
    recorded.begin(0, 120, FIO, "read");
    let of = recorded.of(Call::Read);
    assert_eq!((of.count, of.bytes, of.took.count), (1, Bytes::new(10), 0));
}

#[test]
fn without_switches_a_call_takes_time_that_nobody_knows_the_use_of() {
    let mut file = File::with_formats(|name| name.starts_with("syscalls/"));
    file.task(FIO as u32, Owner::Workload, "fio");
    let mut recorded = Recorded(file);
    recorded.begin(0, 100, FIO, "pwrite64");
    recorded.end(0, 140, FIO, "pwrite64", 512);
    let facts = recorded.facts(1000);
    assert!(facts.roles.values().all(|spent| spent.cpu_ns == 0), "{:?}", facts.roles);
    let calls = facts.calls.unwrap();
    let of = &calls.of[&(Role::Workload, Call::Pwrite)];
    assert_eq!((of.spent.cpu_ns, waited(of, Wait::Unknown), of.took.sum), (0, 40, Nanos::new(40)));
    assert_eq!(calls.queued, None, "bios were not recorded");
}

#[test]
fn where_no_calls_were_recorded_nothing_is_said_of_them() {
    let mut file = File::with_formats(|name| !name.starts_with("syscalls/"));
    file.end(100);
    assert_eq!(file.facts().calls, None);
}

#[test]
fn calls_of_ten_thousand_threads_are_followed_at_once() {
    let mut recorded = Recorded::new();
    for tid in 100..10_100 {
        recorded.0.task(tid as u32, Owner::Workload, "fio");
    }
    for tid in 100..10_100 {
        recorded.switch(0, 10 * tid, if tid == 100 { 0 } else { tid - 1 }, BLOCKED, tid);
        recorded.begin(0, 10 * tid + 5, tid, "fsync");
    }
    recorded.switch(0, 101_000, 10_099, BLOCKED, 0);
    for tid in 100..10_100 {
        let at = 200_000 + 10 * tid;
        recorded.wake(1, at, JOURNAL, 0, tid);
        recorded.switch(0, at + 2, if tid == 100 { 0 } else { tid - 1 }, BLOCKED, tid);
        recorded.end(0, at + 4, tid, "fsync", 0);
    }
    let of = recorded.of(Call::Fsync);
    assert_eq!((of.count, of.took.count, of.spent.all()), (10_000, 10_000, of.took.sum));
    assert_eq!(of.spent.cpu_ns, 10_000 * (5 + 2));
}

/// What may happen next, to a thread on a CPU.
fn step() -> impl Strategy<Value = (u8, u16, u64, u64, bool)> {
    (0..9_u8, 0..2_u16, prop::sample::select(vec![FIO, OTHER_FIO, JOURNAL]), 1..40_u64, any::<bool>())
}

proptest! {
    #[test]
    fn time_is_conserved_and_calls_have_no_more_cpu_time_than_their_thread(
        steps in prop::collection::vec(step(), 0..200)
    ) {
        let mut recorded = Recorded::new();
        let (mut now, mut running) = (10, [0_u64; 2]);
        for (what, cpu, tid, later, is_true_to_life) in steps {
            now += later;
            // Now and then somebody acts where nobody has seen it arrive.
            let on = running[usize::from(cpu)];
            let actor = if is_true_to_life { on } else { tid };
            match what {
                0..=2 => {
                    let to = if running.contains(&tid) { 0 } else { tid };
                    recorded.switch(cpu, now, actor, [RUNNABLE, BLOCKED, DEAD][usize::from(what)], to);
                    running[usize::from(cpu)] = to;
                }
                3 => recorded.begin(cpu, now, actor, "fsync"),
                4 => recorded.end(cpu, now, actor, "fsync", 0),
                5 => recorded.wake(cpu, now, actor, if later > 20 { HARDIRQ } else { 0 }, tid),
                6 => recorded.queue(now, actor, SDA, 8 * (later % 4), 8, "WS"),
                7 => recorded.done(now, 8 * (later % 4), 8, 'W'),
                _ if later > 37 => recorded.0.lost(cpu, now, 1),
                _ => recorded.queue(now, actor, SDA, 0, 0, "FWS"),
            }
        }
        let facts = recorded.facts(now + 10);
        let calls = facts.calls.unwrap();
        for ((role, _), of) in &calls.of {
            prop_assert_eq!(of.spent.all(), of.took.sum);
            prop_assert!(of.took.count <= of.count && of.with_bios.count <= of.took.count);
            let parts = of.with_bios.times().into_iter().fold(Nanos::ZERO, Nanos::saturating_add);
            prop_assert!(parts <= of.took.sum);
            let cpu = facts.roles.get(role).map_or(0, |spent| spent.cpu_ns);
            prop_assert!(of.spent.cpu_ns <= cpu, "{} ns of {cpu}", of.spent.cpu_ns);
            let woken = of.woken_by.values().fold(Nanos::ZERO, |all, ns| all.saturating_add(*ns));
            prop_assert_eq!(woken, of.spent.waited(Wait::Thread));
        }
    }
}
