//! What follows from events.

#![allow(clippy::unwrap_used, reason = "it is a test")]

mod made;

use domain::Nanos;
use domain::trace::Role;
use domain::windows::{Boundary, Windows};
use events::facts::{Between, Did, Interval, Spent, Wait, intervals};
use events::{Kind, Op, Owner};
use made::{File, HARDIRQ};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::Cursor;

/// Letters of prev_state in the recorded format.
const RUNNABLE: u64 = 0;
const SLEEPS: u64 = 1;
const BLOCKED: u64 = 2;
const DEAD: u64 = 0x10;
const PREEMPTED: u64 = 0x100;

/// Microseconds: causes are believed for fifty of them.
const US: u64 = 1_000;

fn waking(file: &mut File, time: u64, by: u64, flags: u64, whom: u64) {
    let fields = [("common_pid", by), ("common_flags", flags), ("pid", whom)];
    file.event(0, time, "sched/sched_waking", &fields);
}

#[test]
fn a_threads_time_is_on_a_cpu_ready_or_waiting_and_nothing_else() {
    let mut file = File::new();
    file.task(7, Owner::Workload, "fio");
    file.switch(0, 10 * US, 0, 0, 7);
    file.switch(0, 30 * US, 7, SLEEPS, 0);
    waking(&mut file, 100 * US, 8, 0, 7);
    file.switch(0, 105 * US, 0, 0, 7);
    file.switch(0, 125 * US, 7, PREEMPTED, 9);
    file.switch(0, 130 * US, 9, RUNNABLE, 7);
    file.end(150 * US);
    let facts = file.facts();
    let thread = facts.threads.iter().find(|thread| thread.tid == 7).unwrap();
    let spent = thread.spent;
    assert_eq!((spent.cpu_ns, spent.ready_ns), (60 * US, 10 * US));
    assert_eq!(spent.waited(Wait::Thread), Nanos::new(70 * US));
    // It was there at the start, and nobody knows what it waited for before it first ran.
    assert_eq!(spent.waited(Wait::Unknown), Nanos::new(10 * US));
    assert_eq!(spent.cpu_ns + spent.ready_ns + spent.wait_ns.iter().sum::<u64>(), 150 * US);
    assert_eq!(thread.role, Role::Workload);
    let cpu = &facts.cpus[&0];
    assert_eq!((cpu.busy_ns, cpu.idle_ns, cpu.unknown_ns), (65 * US, 85 * US, 0));
}

#[test]
fn of_a_cpu_that_went_offline_nothing_is_known_since_its_last_event() {
    let facts = |changes: &[(u64, u8)]| {
        let mut file = File::new();
        file.event(1, 5 * US, "power/cpu_frequency", &[("cpu_id", 1), ("state", 800_000)]);
        file.switch(1, 10 * US, 0, 0, 7);
        file.switch(1, 30 * US, 7, SLEEPS, 0);
        file.event(1, 35 * US, "power/cpu_idle", &[("cpu_id", 1), ("state", 2)]);
        for (at, online) in changes {
            file.frame(Kind::Cpu, 1, &[&(at * US).to_le_bytes()[..], &[*online]].concat());
        }
        file.switch(0, 90 * US, 0, 0, 8);
        file.end(100 * US);
        file.facts().cpus[&1].clone()
    };
    let stays = facts(&[]);
    assert_eq!((stays.busy_ns, stays.idle_ns, stays.unknown_ns), (20 * US, 80 * US, 0));
    for changes in [&[(50, 0)][..], &[(50, 0), (70, 1)], &[(99, 0)]] {
        let gone = facts(changes);
        assert_eq!((gone.busy_ns, gone.idle_ns, gone.unknown_ns), (20 * US, 10 * US, 70 * US), "{changes:?}");
        assert_eq!(gone.frequencies, [(800_000, 25 * US)].into());
        assert!(gone.idle_states.is_empty(), "nobody knows when it left it: {:?}", gone.idle_states);
    }
}

#[test]
fn of_a_cpu_that_came_back_all_is_known_from_its_next_event_on() {
    let mut file = File::new();
    file.switch(1, 10 * US, 0, 0, 7);
    for (at, online) in [(50, 0), (60, 1)] {
        file.frame(Kind::Cpu, 1, &[&(at * US).to_le_bytes()[..], &[online]].concat());
    }
    // The first event of its new rings.
    file.switch(1, 70 * US, 0, 0, 8);
    file.switch(1, 90 * US, 8, SLEEPS, 0);
    file.end(100 * US);
    let cpu = file.facts().cpus[&1].clone();
    assert_eq!((cpu.busy_ns, cpu.idle_ns, cpu.unknown_ns), (20 * US, 20 * US, 60 * US));
    assert_eq!(cpu.unseen_switches, 0, "nothing was dropped unseen");
}

/// What thread 7 waited for, which was woken at 100 µs after something.
fn wait_after(before: impl FnOnce(&mut File), flags: u64) -> Option<Wait> {
    let mut file = File::new();
    file.switch(0, 10 * US, 0, 0, 7);
    file.switch(0, 30 * US, 7, BLOCKED, 0);
    before(&mut file);
    waking(&mut file, 100 * US, 0, flags, 7);
    file.switch(0, 105 * US, 0, 0, 7);
    file.end(110 * US);
    let spent = file.facts().threads.iter().find(|thread| thread.tid == 7).unwrap().spent;
    Wait::ALL.into_iter().find(|wait| spent.waited(*wait) == Nanos::new(70 * US))
}

#[test]
fn what_ended_a_wait_is_what_it_was_for() {
    let complete = |file: &mut File, time| {
        let fields = [("common_flags", HARDIRQ), ("rwbs", u64::from(b'R')), ("nr_sector", 8)];
        file.event(0, time, "block/block_rq_complete", &fields);
    };
    assert_eq!(wait_after(|file| complete(file, 95 * US), HARDIRQ), Some(Wait::Io));
    // In another context, and long before.
    assert_eq!(wait_after(|file| complete(file, 95 * US), 0), Some(Wait::Thread));
    assert_eq!(wait_after(|file| complete(file, 45 * US), HARDIRQ), Some(Wait::Interrupt));
    let expire = |file: &mut File| {
        file.event(0, 99 * US, "timer/hrtimer_expire_entry", &[("common_flags", HARDIRQ)]);
    };
    assert_eq!(wait_after(expire, HARDIRQ), Some(Wait::Timer));
    assert_eq!(wait_after(|_| {}, HARDIRQ), Some(Wait::Interrupt));
    assert_eq!(wait_after(|_| {}, 0), Some(Wait::Thread));
}

#[test]
fn a_thread_that_had_begun_to_wait_for_a_lock_waited_for_that() {
    let mut file = File::new();
    file.switch(0, 10 * US, 0, 0, 7);
    file.event(0, 20 * US, "lock/contention_begin", &[("common_pid", 7)]);
    file.switch(0, 30 * US, 7, BLOCKED, 8);
    waking(&mut file, 100 * US, 8, 0, 7);
    file.switch(0, 105 * US, 8, SLEEPS, 7);
    file.event(0, 106 * US, "lock/contention_end", &[("common_pid", 7)]);
    file.switch(0, 110 * US, 7, SLEEPS, 0);
    waking(&mut file, 120 * US, 8, 0, 7);
    file.end(120 * US);
    let spent = file.facts().threads.iter().find(|thread| thread.tid == 7).unwrap().spent;
    assert_eq!(spent.waited(Wait::Lock), Nanos::new(70 * US));
    assert_eq!(spent.waited(Wait::Thread), Nanos::new(10 * US));
}

#[test]
fn a_wake_up_on_the_way_out_ends_the_wait_that_follows() {
    let mut file = File::new();
    file.switch(0, 10 * US, 0, 0, 7);
    // Another CPU sees it asleep before it has left this one.
    waking(&mut file, 29 * US, 8, 0, 7);
    file.switch(0, 30 * US, 7, SLEEPS, 0);
    file.switch(0, 32 * US, 0, 0, 7);
    file.end(40 * US);
    let spent = file.facts().threads.iter().find(|thread| thread.tid == 7).unwrap().spent;
    assert_eq!((spent.ready_ns, spent.waited(Wait::Unknown)), (2 * US, Nanos::ZERO));
}

#[test]
fn children_of_the_workload_are_the_workload_and_their_ends_keep_their_time() {
    let mut file = File::new();
    file.task(7, Owner::Workload, "sh");
    file.switch(0, 10, 0, 0, 7);
    for child in 100..5_000 {
        let at = 20 + (child - 100) * 10;
        file.event(
            0,
            at,
            "sched/sched_process_fork",
            &[("common_pid", 7), ("parent_pid", 7), ("child_pid", child)],
        );
        file.switch(0, at + 1, 7, SLEEPS, child);
        file.switch(0, at + 6, child, DEAD, 7);
    }
    file.end(60_000);
    let facts = file.facts();
    // The shell and its children ran all of the time from its first switch on.
    assert_eq!(facts.roles[&Role::Workload].cpu_ns, 60_000 - 10);
    assert!(facts.threads.len() < 1_100, "those that ended are not all kept");
}

#[test]
fn a_process_that_turned_out_to_be_the_workload_was_so_from_the_start() {
    let mut file = File::new();
    file.switch(0, 10, 0, 0, 4711);
    file.switch(0, 60, 4711, SLEEPS, 0);
    file.frame(Kind::Owner, 0, &[&4711_u32.to_le_bytes()[..], &[Owner::Workload as u8]].concat());
    file.end(100);
    assert_eq!(file.facts().roles[&Role::Workload].cpu_ns, 50);
}

#[test]
fn a_kworkers_time_is_that_of_what_it_executes() {
    let mut file = File::new();
    file.task(9, Owner::Kernel, "kworker/u8:1");
    let work = |file: &mut File, at, name, function| {
        file.event(0, at, name, &[("common_pid", 9), ("function", function)]);
    };
    let symbol = [&0x77_u64.to_le_bytes()[..], b"kcryptd_crypt"].concat();
    file.frame(Kind::Symbol, 0, &symbol);
    file.switch(0, 100, 0, 0, 9);
    work(&mut file, 110, "workqueue/workqueue_execute_start", 0x77);
    // It is preempted meanwhile.
    file.switch(0, 150, 9, PREEMPTED, 8);
    file.switch(0, 160, 8, SLEEPS, 9);
    work(&mut file, 180, "workqueue/workqueue_execute_end", 0x77);
    work(&mut file, 181, "workqueue/workqueue_execute_start", 0x99);
    work(&mut file, 186, "workqueue/workqueue_execute_end", 0x99);
    file.switch(0, 200, 9, SLEEPS, 0);
    file.end(200);
    let facts = file.facts();
    assert_eq!(facts.work["kcryptd_crypt"], (1, Nanos::new(60)));
    assert_eq!(facts.work["0x99"], (1, Nanos::new(5)), "what has no name is its address");
    assert_eq!(facts.roles[&Role::Crypt].cpu_ns, 60);
    assert_eq!(facts.roles[&Role::Kworker].cpu_ns, 30);
}

#[test]
fn what_follows_a_loss_is_unknown_until_it_is_seen_again() {
    let mut file = File::new();
    file.switch(0, 10 * US, 0, 0, 7);
    file.switch(0, 20 * US, 7, SLEEPS, 8);
    file.lost(0, 50 * US, 3);
    file.switch(0, 60 * US, 7, SLEEPS, 0);
    file.end(100 * US);
    let facts = file.facts();
    assert_eq!((facts.lost[&0], facts.announced, facts.unannounced()), (3, 3, 0));
    assert_eq!(facts.unseen_switches().count(), 0, "the loss explains what does not follow");
    let cpu = &facts.cpus[&0];
    assert_eq!((cpu.busy_ns, cpu.idle_ns, cpu.unknown_ns), (10 * US, 50 * US, 40 * US));
    let spent = facts.threads.iter().find(|thread| thread.tid == 7).unwrap().spent;
    assert_eq!(spent.cpu_ns, 10 * US);
}

#[test]
fn what_fired_and_is_not_there_was_lost() {
    let mut file = File::new();
    file.switch(1, 10, 0, 0, 7);
    let switch =
        file.tables().tracepoints.iter().find(|(_, p)| p.name == "sched/sched_switch").map(|(id, _)| *id);
    let fired = |count: u64| [&switch.unwrap().to_le_bytes()[..], &count.to_le_bytes()].concat();
    file.frame(Kind::Fired, 1, &fired(5));
    file.end(20);
    let facts = file.facts();
    assert_eq!((facts.all_lost(), facts.lost[&1], facts.unannounced()), (4, 4, 4));
    assert_eq!(facts.kinds["sched/sched_switch"].lost, 4);
}

#[test]
fn switches_that_do_not_follow_from_one_another_show_that_some_have_no_record() {
    let mut file = File::new();
    file.switch(0, 10 * US, 0, 0, 7);
    file.switch(0, 20 * US, 7, SLEEPS, 0);
    // The idle task's own switch to 7 is missing, and no loss was announced.
    file.switch(0, 50 * US, 7, SLEEPS, 0);
    file.end(100 * US);
    let facts = file.facts();
    assert_eq!(facts.unseen_switches().collect::<Vec<_>>(), [(0, 1)]);
    let cpu = &facts.cpus[&0];
    assert_eq!((cpu.busy_ns, cpu.idle_ns, cpu.unknown_ns), (10 * US, 60 * US, 30 * US));
}

const DISK: u64 = 0xfd << 20;

#[test]
fn a_request_has_a_queue_and_a_service_time_and_parts_of_it_are_one() {
    let mut file = File::new();
    file.block(100, "block/block_bio_queue", DISK, 0, 16, 'W');
    file.block(130, "block/block_rq_issue", DISK, 0, 16, 'W');
    file.block(170, "block/block_rq_complete", DISK, 0, 8, 'W');
    file.block(190, "block/block_rq_complete", DISK, 8, 8, 'W');
    // One whose begin was not seen counts, and has no time.
    file.block(195, "block/block_rq_complete", DISK, 64, 8, 'W');
    file.end(200);
    let facts = file.facts();
    let done = &facts.devices[&("253:0".to_owned(), Op::Write)];
    // 0xfd is 253; the device was not declared.
    assert_eq!((done.count, done.sectors, done.bios), (2, 24, 1));
    assert_eq!((done.queue.count, done.queue.sum), (1, Nanos::new(30)));
    assert_eq!((done.service.count, done.service.sum), (1, Nanos::new(60)));
}

#[test]
fn a_partitions_bio_is_a_request_of_its_disk() {
    let mut file = File::new();
    let device = |number: u64, name: &str| {
        let number = (number as u32).to_le_bytes();
        [&number[..], &(DISK as u32).to_le_bytes(), name.as_bytes()].concat()
    };
    file.frame(Kind::Device, 0, &device(DISK, "vda"));
    file.frame(Kind::Device, 0, &device(DISK + 1, "vda1"));
    file.block(100, "block/block_bio_queue", DISK + 1, 2048, 8, 'R');
    file.block(110, "block/block_rq_issue", DISK, 2048, 8, 'R');
    file.block(150, "block/block_rq_complete", DISK, 2048, 8, 'R');
    file.end(200);
    let facts = file.facts();
    assert_eq!(facts.devices.len(), 1);
    assert_eq!(facts.devices[&("vda".to_owned(), Op::Read)].queue.sum, Nanos::new(10));
}

#[test]
fn a_layer_of_bios_passes_them_on_and_has_one_time() {
    let mut file = File::new();
    let upper = 0xfc << 20;
    file.block(100, "block/block_bio_queue", upper, 0, 8, 'R');
    let remap =
        [("dev", DISK), ("sector", 2048), ("nr_sector", 8), ("old_dev", upper), ("rwbs", u64::from(b'R'))];
    file.event(0, 105, "block/block_bio_remap", &remap);
    file.block(106, "block/block_bio_queue", DISK, 2048, 8, 'R');
    file.block(190, "block/block_bio_complete", upper, 0, 8, 'R');
    file.end(200);
    let facts = file.facts();
    let done = &facts.devices[&("252:0".to_owned(), Op::Read)];
    assert_eq!((done.count, done.whole.sum), (1, Nanos::new(90)));
    let passed = facts.passages["252:0"].passed[&("253:0".to_owned(), Op::Read)];
    assert_eq!((passed.bios.count, passed.bios.sectors), (1, 8));
}

#[test]
fn a_cpus_frequencies_idle_states_and_interrupts_have_their_times() {
    let mut file = File::new();
    file.event(0, 10, "power/cpu_frequency", &[("state", 2_800_000), ("cpu_id", 1)]);
    file.event(0, 40, "power/cpu_frequency", &[("state", 1_200_000), ("cpu_id", 1)]);
    file.event(1, 50, "power/cpu_idle", &[("state", 2), ("cpu_id", 1)]);
    file.event(1, 90, "power/cpu_idle", &[("state", u64::from(u32::MAX)), ("cpu_id", 1)]);
    file.event(1, 91, "irq/irq_handler_entry", &[("irq", 36)]);
    file.event(1, 94, "irq/irq_handler_exit", &[("irq", 36)]);
    file.event(1, 95, "irq/softirq_entry", &[("vec", 4)]);
    file.event(1, 97, "irq/softirq_exit", &[("vec", 4)]);
    file.end(100);
    let facts = file.facts();
    let cpu = &facts.cpus[&1];
    assert_eq!(cpu.frequencies.iter().map(|(khz, ns)| (*khz, *ns)).collect::<Vec<_>>(), {
        [(1_200_000, 60), (2_800_000, 30)]
    });
    assert_eq!((cpu.idle_states[&2], cpu.irqs[&36], cpu.softirqs[&4]), ((1, 40), (1, 3), (1, 2)));
    assert_eq!(cpu.unknown_ns, 100, "no switch says who ran");
}

/// The windows of a file that are bounded by this.
fn windows_at(file: &File, boundary: Boundary) -> BTreeMap<u16, Windows> {
    file.facts().windows.remove(&boundary).unwrap_or_default()
}

/// Two windows of a governor, of 10 and 20 µs; with switches, or without any.
fn windows_of(has_switches: bool) -> File {
    let mut file = File::new();
    let work = |file: &mut File, time, what: &str| {
        let name = format!("workqueue/workqueue_execute_{what}");
        file.event(0, time, &name, &[("common_pid", 9), ("function", 0x77)]);
    };
    let switch = |file: &mut File, time, from, to| {
        if has_switches {
            file.switch(0, time, from, SLEEPS, to);
        }
    };
    file.event(0, 0, "power/cpu_frequency", &[("state", 800_000), ("cpu_id", 0)]);
    for (begin, busy_until) in [(0, 4), (10, 12), (30, 31)] {
        switch(&mut file, begin * US, 0, 9);
        work(&mut file, begin * US, "start");
        work(&mut file, (begin + 1) * US, "end");
        switch(&mut file, busy_until * US, 9, 0);
    }
    file.symbol(0x77, "dbs_work_handler");
    file.end(40 * US);
    file
}

#[test]
fn what_a_governor_saw_is_how_busy_the_cpu_was_between_two_of_its_samples() {
    let file = windows_of(true);
    let windows = windows_at(&file, Boundary::Sample);
    assert_eq!(windows.len(), 1);
    let of = &windows[&0];
    assert_eq!((of.time, of.busy), (Nanos::new(30 * US), Nanos::new(6 * US)));
    assert_eq!(of.counts, [((Some(800_000), 10), 1), ((Some(800_000), 40), 1)].into());
    let mut drawn = Vec::new();
    let tables = file.tables();
    intervals(Cursor::new(&file.bytes), &tables, |interval| {
        if let Did::Window { cpu: 0, between: Between::Executions(0x77), busy } = interval.what {
            drawn.push(((interval.end.get() - interval.begin.get()) / US, busy.get() / US));
        }
    })
    .unwrap();
    assert_eq!(drawn, [(10, 4), (20, 2)]);
}

/// A governor of two CPUs of one policy, which takes its samples on either; `declared` are the policies, and
/// `work` what is executed on CPU 1.
fn shared_windows(declared: &[(u16, &[u16])], work: u64) -> BTreeMap<u16, Windows> {
    let mut file = File::of_cpus(3);
    declared.iter().for_each(|(number, cpus)| file.policy(*number, cpus));
    for cpu in [0, 1] {
        let fields = [("state", 800_000), ("cpu_id", u64::from(cpu))];
        file.event(cpu, 0, "power/cpu_frequency", &fields);
    }
    let sample = |file: &mut File, cpu: u16, time, kworker, work| {
        file.switch(cpu, time, 0, 0, kworker);
        let fields = [("common_pid", kworker), ("work", work), ("function", 0x77)];
        file.event(cpu, time, "workqueue/workqueue_execute_start", &fields);
        file.event(cpu, time, "workqueue/workqueue_execute_end", &[("common_pid", kworker)]);
        file.switch(cpu, time, kworker, SLEEPS, 0);
    };
    file.switch(1, 0, 0, 0, 0);
    sample(&mut file, 0, 10 * US, 9, 0xa0);
    file.switch(1, 12 * US, 0, 0, 7);
    // CPU 1 is busy for 8 of 10, then it is for 3 of 10, and still runs when the sample is taken on it.
    sample(&mut file, 0, 20 * US, 9, 0xa0);
    file.switch(1, 23 * US, 7, SLEEPS, 0);
    file.switch(0, 24 * US, 0, 0, 6);
    file.switch(0, 29 * US, 6, SLEEPS, 0);
    sample(&mut file, 1, 30 * US, 8, work);
    file.symbol(0x77, "dbs_work_handler");
    file.end(40 * US);
    windows_at(&file, Boundary::Sample)
}

#[test]
fn a_governor_of_several_cpus_sees_the_busiest_wherever_it_takes_its_sample() {
    let windows = shared_windows(&[(0, &[0, 1])], 0xa0);
    assert_eq!(windows.keys().copied().collect::<Vec<_>>(), [0]);
    assert_eq!(windows[&0].counts, [((Some(800_000), 50), 1), ((Some(800_000), 80), 1)].into());
    assert_eq!((windows[&0].time, windows[&0].busy), (Nanos::new(20 * US), Nanos::new(13 * US)));
    // Without the policies each CPU is one by itself, as in recordings of earlier versions.
    let alone = shared_windows(&[], 0xa0);
    assert_eq!(alone[&0].counts, [((Some(800_000), 0), 1)].into());
    // Of CPU 2 nothing was seen, so that it may have been the busiest.
    assert!(shared_windows(&[(0, &[0, 1, 2])], 0xa0).is_empty());
}

#[test]
fn whose_sample_it_is_nobody_knows_where_one_work_is_executed_in_two_policies() {
    let policies: [(u16, &[u16]); 2] = [(0, &[0]), (1, &[1])];
    assert_eq!(shared_windows(&policies, 0xa1).len(), 1, "each has work of its own");
    assert!(shared_windows(&policies, 0xa0).is_empty());
}

/// The samples of CPU 0's policy, every 10 µs, each taken on one of these CPUs; with `asks`, the first of
/// them changes its frequency. CPU 0 is busy for 4 µs between two of them, and CPU 1 for 7.
fn samples_taken_on(cpus: &[u16], asks: bool) -> BTreeMap<u16, Windows> {
    let mut file = File::new();
    [0, 1].into_iter().for_each(|cpu| file.policy(cpu, &[cpu]));
    for (time, on) in (1..).map(|number| number * 10 * US).zip(cpus) {
        for (cpu, busy) in [(0, 4 * US), (1, 7 * US)] {
            file.switch(cpu, time - 9 * US, 0, 0, 5);
            file.switch(cpu, time - 9 * US + busy, 5, SLEEPS, 0);
        }
        let kworker = 90 + u64::from(*on);
        let by = ("common_pid", kworker);
        file.switch(*on, time, 0, 0, kworker);
        let fields = [by, ("work", 0xa0), ("function", 0x77)];
        file.event(*on, time, "workqueue/workqueue_execute_start", &fields);
        if asks && time == 10 * US {
            file.event(*on, time, "power/cpu_frequency", &[by, ("state", 1_600_000), ("cpu_id", 0)]);
        }
        file.event(*on, time, "workqueue/workqueue_execute_end", &[by]);
        file.switch(*on, time, kworker, SLEEPS, 0);
    }
    file.symbol(0x77, "dbs_work_handler");
    file.end(100 * US);
    windows_at(&file, Boundary::Sample)
}

#[test]
fn whose_sample_it_is_shows_where_it_changes_a_frequency_wherever_it_is_taken() {
    let windows = samples_taken_on(&[1, 0, 1, 0], true);
    assert_eq!(windows.keys().copied().collect::<Vec<_>>(), [0]);
    assert_eq!(windows[&0].counts, [((Some(1_600_000), 40), 2)].into(), "of CPU 0, also on CPU 1");
    assert!(samples_taken_on(&[1, 0, 1, 0], false).is_empty());
    let alone = samples_taken_on(&[0, 0, 0], false);
    assert_eq!(alone[&0].counts, [((None, 40), 2)].into());
}

/// A thread of a policy of two CPUs runs for 3, then for 6 of 10 µs; each time it is followed by a request
/// for another frequency, in the order in which the kernel tells of it.
fn asked() -> File {
    let mut file = File::new();
    file.policy(0, &[0, 1]);
    file.switch(1, 0, 0, 0, 0);
    let mut request = |time, khz| {
        let fields = |cpu| [("common_pid", 7), ("state", khz), ("cpu_id", cpu)];
        file.event(0, time, "power/cpu_frequency", &fields(0));
        // All within a moment.
        file.event(0, time + US / 5, "power/cpu_frequency", &fields(1));
        // In passive mode intel_pstate tells it too; this CPU has been busy for a half by its own counters.
        let sample = [("mperf", 500), ("tsc", 1000), ("core_busy", 90), ("from", 8), ("to", 20)];
        file.event(0, time, "power/pstate_sample", &sample);
    };
    request(10 * US, 800_000);
    request(20 * US, 2_000_000);
    request(30 * US, 1_200_000);
    file.switch(0, 0, 0, 0, 0);
    file.switch(0, 12 * US, 0, 0, 7);
    file.switch(0, 15 * US, 7, SLEEPS, 0);
    file.switch(0, 22 * US, 0, 0, 7);
    file.switch(0, 28 * US, 7, SLEEPS, 0);
    file.end(40 * US);
    file
}

#[test]
fn between_two_requests_for_a_frequency_lies_a_window_of_the_frequency_before() {
    let file = asked();
    let windows = windows_at(&file, Boundary::Request);
    assert_eq!(windows.keys().copied().collect::<Vec<_>>(), [0], "one of the policy, and none of CPU 1");
    assert_eq!(windows[&0].counts, [((Some(800_000), 30), 1), ((Some(2_000_000), 60), 1)].into());
    let mut drawn = Vec::new();
    let tables = file.tables();
    intervals(Cursor::new(&file.bytes), &tables, |interval| {
        if let Did::Window { cpu: 0, between: Between::Requests, busy } = interval.what {
            drawn.push((interval.begin.get() / US, interval.end.get() / US, busy.get() / US));
        }
    })
    .unwrap();
    assert_eq!(drawn, [(10, 20, 3), (20, 30, 6)]);
}

#[test]
fn what_intel_pstate_tells_of_a_governors_requests_is_told_apart_from_its_samples() {
    let windows = asked().facts().windows;
    assert!(!windows.contains_key(&Boundary::Sample), "no governor took a sample");
    assert_eq!(windows[&Boundary::Decision][&0].counts.keys().map(|(_, load)| *load).max(), Some(50));
    assert_eq!(windows[&Boundary::Request][&0].all(), 2);
}

#[test]
fn policies_that_share_a_cpu_are_damage() {
    let mut file = File::new();
    file.frame(Kind::Policy, 0, &[0, 0, 1, 0]);
    file.frame(Kind::Policy, 1, &[1, 0]);
    assert!(events::Tables::read(Cursor::new(&file.bytes)).is_err());
}

#[test]
fn without_switches_nobody_knows_how_busy_a_cpu_was() {
    assert!(windows_of(false).facts().windows.is_empty());
}

/// The sums of all intervals, as the facts have them.
fn check_sums(file: &File) {
    let (tables, facts) = (file.tables(), file.facts());
    let mut all: Vec<Interval> = Vec::new();
    intervals(Cursor::new(&file.bytes), &tables, |interval| all.push(*interval)).unwrap();
    let sum = |is: &dyn Fn(&Did) -> bool| {
        let of = all.iter().filter(|interval| is(&interval.what));
        of.map(|interval| interval.end.get() - interval.begin.get()).sum::<u64>()
    };
    for (number, cpu) in &facts.cpus {
        assert_eq!(sum(&|did| matches!(did, Did::Ran { cpu, .. } if cpu == number)), cpu.busy_ns);
        let of_states = cpu.idle_states.values().map(|(_, ns)| ns).sum::<u64>();
        assert_eq!(sum(&|did| matches!(did, Did::Idled { cpu, .. } if cpu == number)), of_states);
        let frequencies = cpu.frequencies.values().sum::<u64>();
        assert_eq!(sum(&|did| matches!(did, Did::RanAt { cpu, .. } if cpu == number)), frequencies);
        let irqs = cpu.irqs.values().map(|(_, ns)| ns).sum::<u64>();
        assert_eq!(sum(&|did| matches!(did, Did::Irq { cpu, .. } if cpu == number)), irqs);
        let softirqs = cpu.softirqs.values().map(|(_, ns)| ns).sum::<u64>();
        assert_eq!(sum(&|did| matches!(did, Did::Softirq { cpu, .. } if cpu == number)), softirqs);
    }
    let spent =
        |of: &dyn Fn(&Spent) -> u64| facts.threads.iter().map(|thread| of(&thread.spent)).sum::<u64>();
    assert_eq!(sum(&|did| matches!(did, Did::WasReady(_))), spent(&|spent| spent.ready_ns));
    for wait in Wait::ALL {
        let waited = spent(&|spent| spent.waited(wait).get());
        assert_eq!(sum(&|did| matches!(did, Did::Waited(_, of) if *of == wait)), waited, "{wait:?}");
    }
    let requests = all.iter().filter(|interval| matches!(interval.what, Did::Request { .. })).count() as u64;
    assert_eq!(requests, facts.devices.values().map(|done| done.count).sum::<u64>());
}

proptest! {
    #[test]
    fn intervals_are_what_the_sums_are_made_of(
        all in prop::collection::vec((0..9_u8, 0..2_u16, 0..40_u64, 0..4_u64, 0..4_u64, 0..3_u64), 0..120),
    ) {
        let mut file = File::new();
        file.task(1, Owner::Workload, "fio");
        file.device(8 << 20, "sda");
        let mut time = 0;
        let mut on = [0_u64; 2];
        for (kind, cpu, gap, a, b, c) in all {
            time += gap * US;
            let at = usize::from(cpu);
            let (of, state) = ([("common_pid", on[at])], [RUNNABLE, SLEEPS, DEAD][c as usize]);
            match kind {
                0..=2 => {
                    file.switch(cpu, time, on[at], state, a);
                    on[at] = a;
                }
                3 => file.event(cpu, time, "sched/sched_waking", &[of[0], ("pid", b)]),
                4 => file.event(cpu, time, "power/cpu_idle", &[of[0], ("state", a), ("cpu_id", b % 2)]),
                5 => file.event(cpu, time, "power/cpu_frequency", &[of[0], ("state", 1000 * a), ("cpu_id", b % 2)]),
                6 => file.block(time, ["block/block_bio_queue", "block/block_rq_issue", "block/block_rq_complete"][c as usize], 8 << 20, 8 * a, 8, 'R'),
                7 if c == 0 => file.event(cpu, time, "irq/irq_handler_entry", &[of[0], ("irq", a)]),
                7 => file.event(cpu, time, "irq/irq_handler_exit", &[of[0], ("irq", a)]),
                _ if c == 2 => file.lost(cpu, time, 3),
                _ => file.event(cpu, time, "irq/softirq_entry", &[of[0], ("vec", a)]),
            }
        }
        file.end(time + US);
        check_sums(&file);
    }
}
