//! The core of a simulated machine: nothing is lost, time is conserved, work takes as long as the frequency
//! makes it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use disks::{DiskSet, DiskSpec, Op};
use domain::rng::Seed;
use domain::time::Nanos;
use domain::trace::Role;
use domain::units::Hertz;
use governors::{FrequencyTable, Governor, KernelVersion};
use sim::block::DeviceStats;
use sim::block::{Disk, Interrupts, QueueSpec, Scheduler};
use sim::cpu::{
    Begins, Chooser, Cost, Cpus, CpusSpec, IdleTime, PolicySpec, PowerModel, PowerState, ThreadId, Upkeep,
};
use sim::engine::{Core, Part, PartId};
use sim::engine::{Stopped, World};
use sim::load::jobs::{Given, IoRequest, JobSpec, Jobs, Watcher};
use sim::machine::MachineSpec;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const SECOND: u64 = 1_000_000_000;

fn job() -> JobSpec {
    JobSpec {
        name: "job".into(),
        depth: 1,
        sleeps_on_disk: true,
        flushes_in_flight: false,
        start: 0,
        counted_from: 0,
        until: Some(SECOND),
        rate_iops: None,
        rate_bytes: None,
        think: None,
        begin: Cost::NONE,
        end: Cost::NONE,
        submit: Cost::NONE,
        complete: Cost::NONE,
        pause: Cost::NONE,
        page: Cost::NONE,
        page_end: Cost::NONE,
        byte_cycles_1024: 0,
    }
}

fn disk(name: &str) -> DiskSpec {
    DiskSpec::shipped(name).unwrap()
}

fn of_policies(policies: Vec<PolicySpec>) -> Cpus {
    Cpus::new(CpusSpec {
        slice_dilation: 1.0,
        policies,
        tick: Nanos::from_millis(4),
        switch: Cost::NONE,
        upkeep: Upkeep::default(),
        power: PowerModel::new(vec![PowerState { khz: 1_000_000, busy_watts: 10.0, idle_watts: 1.0 }]),
        kernel: KernelVersion::new(6, 1, 0),
        base_khz: 1_000_000,
        idle: None,
    })
}

fn queue(scheduler: Scheduler) -> QueueSpec {
    QueueSpec {
        scheduler,
        tags: 32,
        most_bytes: 1 << 20,
        most_segments: 168,
        dispatch: Cost::NONE,
        dispatch_page: Cost::NONE,
        interrupt: Cost::NONE,
        interrupts: Interrupts::Submitter,
        kernel: KernelVersion::new(6, 1, 0),
    }
}

fn run(model: &str, cpus: usize, scheduler: Scheduler, jobs: &[(JobSpec, Op)], seed: u64) -> (World, Given) {
    run_with(model, cpus, queue(scheduler), jobs, seed)
}

fn run_with(model: &str, cpus: usize, queue: QueueSpec, jobs: &[(JobSpec, Op)], seed: u64) -> (World, Given) {
    run_watched(model, cpus, queue, jobs, seed, None)
}

/// A machine of so many CPUs at 1 GHz with one disk, and jobs that read or write 4 KiB at random, or write
/// and call fsync in turn, with a thread that looks at them at this cost.
fn run_watched(
    model: &str,
    cpus: usize,
    queue: QueueSpec,
    jobs: &[(JobSpec, Op)],
    seed: u64,
    look: Option<Cost>,
) -> (World, Given) {
    let spec = disk(model);
    let mut bank = DiskSet::new(Seed(seed));
    bank.add_disk(&spec, None);
    let cpus = of_policies(vec![PolicySpec::fixed((0..cpus).collect(), 1_000_000)]);
    let core = Core::new(cpus, bank, Seed(seed));
    let mut world = World::new(core);
    world.core.devices.push(DeviceStats::new("sda"));
    let front = world.next_part();
    world.add(Box::new(Disk::new(front, 0, 0, spec.capacity, queue)));
    world.attach(0, front);
    let me = world.next_part();
    let mut load = Jobs::new(me, front);
    let given = load.given();
    for (index, (spec, op)) in jobs.iter().enumerate() {
        let mut rng = Seed(seed).stream(&format!("job {index}"));
        let op = *op;
        let blocks = 1 << 16;
        let mut turns = [if op == Op::Flush { Op::Write } else { op }, op].into_iter().cycle();
        let source = move || match turns.next()? {
            Op::Flush => Some(IoRequest::flush(false)),
            op => Some(IoRequest::direct(op, rng.below(blocks) as u64 * 4096, 4096)),
        };
        let thread = world.core.cpus.thread(&spec.name, Role::Workload, 0);
        load.add(&mut world.core, thread, spec.clone(), Box::new(source));
    }
    if let Some(look) = look {
        let thread = world.core.cpus.thread("fio", Role::Workload, 0);
        load.watched_by(
            &mut world.core,
            Watcher { thread, every: 10_000_000, every_before: 100_000_000, cost: look, is_main: true },
        );
    }
    world.add(Box::new(load));
    assert_eq!(world.run(100 * SECOND, None, &mut ()), Stopped::Done);
    let given = given.borrow().clone();
    (world, given)
}

#[test]
fn a_job_thinks_from_the_end_of_what_is_in_flight() {
    let pause = SECOND / 20;
    let given = |depth| {
        let think = Some((pause, depth));
        let job = JobSpec { depth, think, until: Some(10 * SECOND), sleeps_on_disk: depth == 1, ..job() };
        run("plain-7200", 1, Scheduler::None, &[(job, Op::Read)], 3).1
    };
    // One at a time: each takes its own time and the pause.
    let one = given(1);
    let (each, latency) = ((one.ended - one.begun) / one.reads, one.latencies.mean().unwrap() as u64);
    assert!((each - pause).abs_diff(latency) < latency / 20, "{each} and {latency}");
    // Four at a time: between two pauses four are done, and the three or four that were in flight then.
    let four = given(4);
    let pauses = (four.ended - four.begun) / pause;
    assert!(four.reads < 8 * pauses && four.reads > one.reads, "{} in {pauses} pauses", four.reads);
}

#[test]
fn a_pause_costs_what_it_costs_and_takes_as_long() {
    let pause = SECOND / 20;
    let given = |cost| {
        let job = JobSpec { think: Some((pause, 1)), pause: Cost::cycles(cost), ..job() };
        run("plain-7200", 1, Scheduler::None, &[(job, Op::Read)], 3)
    };
    let ((_, without), (world, with)) = (given(0), given(2_000_000));
    let (.., used) = world.core.cpus.thread_times().find(|(name, ..)| *name == "job").unwrap();
    // At 1 GHz 2 ms each, after each read but the first.
    assert_eq!(used, (with.reads - 1) * 2_000_000);
    assert!(with.reads < without.reads, "{} and {}", with.reads, without.reads);
}

/// fio 3.33 counts completions anew when its ramp ends, and keeps the count after which it paused last: of
/// `--ioengine=null --thinktime=40000 --runtime=1s` it reports 25 reads, and with `--ramp_time=400ms` 35.
#[test]
fn after_a_ramp_as_many_requests_as_it_had_come_without_a_pause() {
    let reads = |ramp: u64| {
        let job = JobSpec {
            think: Some((SECOND / 25, 1)),
            counted_from: ramp,
            until: Some(ramp + SECOND),
            ..job()
        };
        run("nvme", 1, Scheduler::None, &[(job, Op::Read)], 3).1.reads
    };
    assert_eq!((reads(0), reads(2 * SECOND / 5)), (25, 35));
}

#[test]
fn a_thread_that_looks_at_jobs_does_so_each_10_ms() {
    let job = JobSpec { until: Some(SECOND), ..job() };
    let look = Some(Cost::cycles(100_000));
    let (world, _) = run_watched("plain-7200", 1, queue(Scheduler::None), &[(job, Op::Read)], 3, look);
    let (.., used) = world.core.cpus.thread_times().find(|(name, ..)| *name == "fio").unwrap();
    // Each look takes 100 us, so that 99 of them fit into a second.
    assert!((98 * 100_000..=100 * 100_000).contains(&used), "{used}");
}

#[test]
fn a_job_that_has_set_itself_up_begins_at_the_next_look_and_its_time_counts_from_then() {
    let ms = |ms: u64| ms * 1_000_000;
    let job = JobSpec {
        start: ms(100),
        counted_from: ms(200),
        until: Some(ms(200) + SECOND),
        begin: Cost::cycles(ms(250)),
        end: Cost::cycles(ms(50)),
        ..job()
    };
    let begun = |look| {
        let (world, given) =
            run_watched("nvme", 2, queue(Scheduler::None), &[(job.clone(), Op::Read)], 3, look);
        assert!((SECOND..SECOND + ms(1)).contains(&(given.ended - given.begun)), "{given:?}");
        // Its process is gone later than its last request.
        assert_eq!(world.core.now, given.ended + ms(50));
        let (.., used) = world.core.cpus.thread_times().find(|(name, ..)| *name == "job").unwrap();
        assert_eq!(used, ms(300));
        given.begun
    };
    // It is set up after 350 ms; the first look ends at 11 ms, and until it has begun they are 101 ms apart.
    // Its ramp is 100 ms.
    assert_eq!(begun(Some(Cost::cycles(ms(1)))), ms(11 + 4 * 101 + 100));
    assert_eq!(begun(None), ms(350 + 100));
}

#[test]
fn every_request_is_done_once_and_the_disk_counts_what_the_job_counts() {
    for scheduler in [Scheduler::None, Scheduler::MqDeadline] {
        let job = JobSpec { depth: 16, sleeps_on_disk: false, ..job() };
        let (world, given) = run("plain-7200", 1, scheduler, &[(job.clone(), Op::Read), (job, Op::Write)], 7);
        let sda = &world.core.devices[0];
        assert!(world.core.bios.is_empty());
        assert_eq!(sda.in_flight, 0);
        assert_eq!(sda.reads.ios + sda.reads.merges, given.reads);
        assert_eq!((sda.reads.bytes, sda.writes.bytes), (given.read_bytes, given.write_bytes));
        assert_eq!(given.latencies.count(), given.reads + given.writes);
    }
}

#[test]
fn interrupts_come_to_the_submitter_or_to_any_cpu() {
    let shares = |interrupts| {
        let queue = QueueSpec { interrupt: Cost::cycles(10_000), interrupts, ..queue(Scheduler::None) };
        let (world, given) = run_with("nvme", 4, queue, &[(job(), Op::Read)], 5);
        let times: Vec<u64> = (0..4).map(|cpu| world.core.cpus.interrupt_time(cpu) / 10_000).collect();
        assert_eq!(times.iter().sum::<u64>(), given.reads);
        times.into_iter().map(move |handled| handled as f64 / given.reads as f64).collect::<Vec<_>>()
    };
    assert_eq!(shares(Interrupts::Submitter).into_iter().filter(|share| *share > 0.0).count(), 1);
    assert!(shares(Interrupts::Any).into_iter().all(|share| (share - 0.25).abs() < 0.02));
}

#[test]
fn the_disk_has_a_request_when_the_driver_has_had_its_time_and_a_direct_one_pays_for_its_page() {
    let job = JobSpec { page: Cost::cycles(7_000), ..job() };
    let mean = |dispatch, job: &JobSpec| {
        let queue = QueueSpec { dispatch: Cost::cycles(dispatch), ..queue(Scheduler::None) };
        let (world, given) = run_with("nvme", 1, queue, &[(job.clone(), Op::Read)], 5);
        let used: u64 = world.core.cpus.thread_times().map(|(_, _, used)| used).sum();
        // The last request may be under way.
        assert_eq!(used / (dispatch + 7_000), given.reads, "{dispatch} cycles at 1 GHz, and those of a page");
        given.latencies.mean().unwrap()
    };
    let longer = mean(50_000, &job) - mean(0, &job);
    assert!((longer - 50_000.0).abs() < 1_000.0, "{longer}");
}

#[test]
fn little_s_law_holds() {
    let job = JobSpec { depth: 8, sleeps_on_disk: false, until: Some(20 * SECOND), ..job() };
    let (_, given) = run("plain-7200", 1, Scheduler::None, &[(job, Op::Read)], 3);
    let rate = given.reads as f64 / (given.ended - given.begun) as f64;
    let in_flight = rate * given.latencies.mean().unwrap();
    assert!((in_flight - 8.0).abs() < 0.1, "{in_flight}");
}

#[test]
fn the_same_seed_gives_the_same_course_and_another_one_another() {
    let job = JobSpec { depth: 4, sleeps_on_disk: false, ..job() };
    let of = |seed| {
        let (world, given) = run("plain-7200", 2, Scheduler::MqDeadline, &[(job.clone(), Op::Read)], seed);
        (world.events(), given.ended, given.latencies.mean())
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn a_cpu_is_busy_or_idle_and_what_threads_used_is_what_it_was_busy() {
    let cost = Cost { cycles: 20_000, stall_ns: 5_000 };
    let job = JobSpec { submit: cost, complete: cost, ..job() };
    let (mut world, given) = run("nvme", 2, Scheduler::None, &[(job.clone(), Op::Read), (job, Op::Read)], 1);
    let now = world.core.now;
    let times: Vec<_> = (0..2).map(|cpu| world.core.cpus.times(now, cpu)).collect();
    for cpu in &times {
        assert_eq!(cpu.busy_ns + cpu.idle_ns, now);
        assert!(cpu.iowait_ns <= cpu.idle_ns && cpu.iowait_ns > 0);
    }
    let busy: u64 = times.iter().map(|cpu| cpu.busy_ns).sum();
    assert_eq!(busy, world.core.cpus.thread_times().map(|(_, _, used)| used).sum::<u64>());
    // Each request takes 2 x (20 µs + 5 µs) of a CPU at 1 GHz.
    assert_eq!(busy / 50_000, given.reads);
    let joules = world.core.cpus.joules(now);
    let expected = (busy as f64 * 10.0 + (2 * now - busy) as f64) / 1e9;
    assert!((joules - expected).abs() < 1e-6, "{joules} {expected}");
}

#[test]
fn jobs_that_want_more_than_a_cpu_share_it_alike() {
    let job = JobSpec { submit: Cost::cycles(200_000), ..job() };
    let jobs = vec![(job, Op::Read); 3];
    let (world, _) = run("nvme", 1, Scheduler::None, &jobs, 1);
    let used: Vec<u64> =
        world.core.cpus.thread_times().filter(|t| t.1 == Role::Workload).map(|t| t.2).collect();
    let (least, most) = (used.iter().min().unwrap(), used.iter().max().unwrap());
    assert!(used.iter().sum::<u64>() > SECOND * 98 / 100, "{used:?}");
    assert!(most - least < SECOND / 50, "{used:?}");
}

#[test]
fn a_rate_is_kept() {
    let job = JobSpec { rate_iops: Some(50), until: Some(10 * SECOND), ..job() };
    let (_, given) = run("plain-7200", 1, Scheduler::None, &[(job, Op::Read)], 1);
    assert!((499..=501).contains(&given.reads), "{}", given.reads);
}

/// fio 3.33 with `rate_iops=20 fsync=1` for three seconds makes 60 writes and 60 calls of fsync.
#[test]
fn calls_of_fsync_do_not_count_towards_a_rate() {
    let job = JobSpec { rate_iops: Some(20), until: Some(3 * SECOND), ..job() };
    let (_, given) = run("plain-7200", 1, Scheduler::None, &[(job, Op::Flush)], 1);
    assert!((59..=61).contains(&given.writes), "{}", given.writes);
}

/// fio 3.33 with `thinktime=40000 fsync=1` for a second makes 25 writes.
#[test]
fn calls_of_fsync_do_not_count_towards_a_pause() {
    let job = JobSpec { think: Some((SECOND / 25, 1)), ..job() };
    assert_eq!(run("nvme", 1, Scheduler::None, &[(job, Op::Flush)], 1).1.writes, 25);
}

/// fio 3.33, libaio, `iodepth=4 fsync=1`, keeps 3.0 to 3.3 writes in flight by their rate and latency.
#[test]
fn a_call_of_fsync_does_not_wait_for_what_else_is_in_flight() {
    let of = |depth, flushes_in_flight| {
        let job = JobSpec { depth, sleeps_on_disk: false, flushes_in_flight, ..job() };
        let (_, given) = run("nvme", 1, Scheduler::None, &[(job, Op::Flush)], 3);
        let took = (given.ended - given.begun) as f64;
        assert!(given.writes.abs_diff(given.flushes) <= u64::from(depth), "{given:?}");
        let in_calls = given.sync_latencies.mean().unwrap() * given.flushes as f64 / took;
        (given.latencies.mean().unwrap() * given.writes as f64 / took, in_calls)
    };
    let (one, four) = (of(1, false), of(4, false));
    assert!(one.0 + one.1 <= 1.0 && one.1 > 0.5, "{one:?}");
    assert!(four.0 > 1.5 && four.1 > 0.5 && four.1 <= 1.0, "one call at a time, writes beside it: {four:?}");
    let (_, in_flight) = of(4, true);
    assert!(in_flight > 2.0, "io_uring has several at a time: {in_flight}");
}

/// A thread that works for ever, one that works when it is told to, and how fast the first one's CPU is at
/// times.
struct Naps {
    me: PartId,
    steady: ThreadId,
    napping: ThreadId,
    /// When the second begins to work, and for how long.
    works: Vec<(u64, u64)>,
    looks: Vec<u64>,
    seen: Rc<RefCell<Vec<u64>>>,
}

const LOOK: u64 = u64::MAX;

impl Naps {
    fn start(&self, core: &mut Core) {
        core.run(self.steady, Cost { cycles: 0, stall_ns: SECOND }, self.me, 0);
        self.works.iter().for_each(|(at, ns)| core.at(*at, self.me, *ns));
        self.looks.iter().for_each(|at| core.at(*at, self.me, LOOK));
    }
}

impl Part for Naps {
    fn timer(&mut self, core: &mut Core, token: u64) {
        match token {
            LOOK => self.seen.borrow_mut().push(core.cpus.khz(0)),
            stall_ns => core.run(self.napping, Cost { cycles: 0, stall_ns }, self.me, 0),
        }
    }

    fn worked(&mut self, _: &mut Core, _: u64) {}
}

#[test]
fn turbo_is_shared_each_half_millisecond_and_a_short_sleep_is_none() {
    const US: u64 = 1_000;
    let policy =
        |cpu| PolicySpec { turbo: vec![3_000_000, 2_500_000], ..PolicySpec::fixed(vec![cpu], 2_001_000) };
    let core = Core::new(of_policies(vec![policy(0), policy(1)]), DiskSet::new(Seed(1)), Seed(1));
    let mut world = World::new(core);
    let steady = world.core.cpus.thread("steady", Role::Workload, 1);
    let napping = world.core.cpus.thread("napping", Role::Workload, 2);
    let seen = Rc::default();
    let part = Naps {
        me: world.next_part(),
        steady,
        napping,
        // It sleeps from 1.3 to 1.6 ms, and from 2.1 ms on.
        works: vec![(1_200 * US, 100 * US), (1_600 * US, 500 * US)],
        // The hardware has looked at 1.5, 2, 2.5 and 3 ms.
        looks: [100, 1_400, 1_550, 1_700, 2_200, 2_600, 3_100].map(|us| us * US).to_vec(),
        seen: Rc::clone(&seen),
    };
    part.start(&mut world.core);
    world.add(Box::new(part));
    world.run(4_000 * US, None, &mut ());
    let ghz: Vec<f64> = seen.borrow().iter().map(|khz| *khz as f64 / 1e6).collect();
    assert_eq!(ghz, [3.0, 3.0, 2.5, 2.5, 2.5, 2.5, 3.0]);
}

/// How fast a CPU of 500 MHz to 1 GHz under ondemand is after half a second of work for 3 ms between each two
/// ticks, none of which finds it busy.
fn work_between_ticks(idle_time: IdleTime) -> u64 {
    let (slow, fast) = (Hertz::from_khz(500_000), Hertz::from_khz(1_000_000));
    let mut policy = PolicySpec { idle_time, ..PolicySpec::fixed(vec![0], 1_000_000) };
    policy.view.table = Some(FrequencyTable::new(vec![slow, fast]).unwrap());
    (policy.view.hardware_min, policy.view.min, policy.view.current) = (slow, slow, slow);
    let tunables = BTreeMap::from([("up_threshold".to_owned(), "40".to_owned())]);
    let kernel = KernelVersion::new(6, 1, 0);
    policy.chooser =
        Chooser::Kernel(Governor::new("ondemand", &tunables, kernel, 250, &policy.view).unwrap());
    let mut world = World::new(Core::new(of_policies(vec![policy]), DiskSet::new(Seed(1)), Seed(1)));
    let napping = world.core.cpus.thread("napping", Role::Workload, 1);
    let (me, seen) = (world.next_part(), Rc::default());
    let naps = Naps { me, steady: napping, napping, works: vec![], looks: vec![], seen: Rc::clone(&seen) };
    (0..125).for_each(|tick| world.core.at(tick * 4_000_000 + 500_000, me, 3_000_000));
    world.core.at(499_000_000, me, LOOK);
    world.add(Box::new(naps));
    world.run(500_000_000, None, &mut ());
    seen.take()[0]
}

#[test]
fn a_governor_that_reads_idle_time_by_ticks_sees_no_work_between_them() {
    assert_eq!(work_between_ticks(IdleTime::Exact), 1_000_000);
    assert_eq!(work_between_ticks(IdleTime::Ticks), 500_000);
}

const MACHINE: &str = r#"flyball_machine = 1
name = "m"
about = "a machine of the test"
kernel = "6.1.0"
hz = 250
memory = "1 GiB"
[cpu]
model = "m"
source = "assumed"
count = 1
driver = "acpi-cpufreq"
governor = "ondemand"
transition = "10 us"
state = [{ mhz = 500 }, { mhz = 1000 }]
"#;

#[test]
fn a_governor_that_has_seen_idle_cpus_begins_at_the_lowest_frequency() {
    let begins = |line: &str| {
        let machine = MachineSpec::parse(&format!("{MACHINE}{line}")).unwrap();
        (machine.cpu.begins, sim::assemble::cpus(&machine, &[]).unwrap().khz(0))
    };
    assert_eq!(begins(""), (Begins::New, 1_000_000));
    assert_eq!(begins("begins = \"idle\"\n"), (Begins::Idle, 500_000));
}

/// How fast a machine's CPU is at this time under constant work, from the lowest frequency on. Its kernel is
/// older than 4.14: ondemand looks a thousand times as seldom as it takes to change, as it is told.
fn under_work(lines: &str, at_ms: u64) -> u64 {
    let text = MACHINE.replace("6.1.0", "4.4.0").replace("transition = \"10 us\"\n", lines);
    let machine = MachineSpec::parse(&format!("{text}begins = \"idle\"\n")).unwrap();
    let cpus = sim::assemble::cpus(&machine, &[]).unwrap();
    let mut world = World::new(Core::new(cpus, DiskSet::new(Seed(1)), Seed(1)));
    let steady = world.core.cpus.thread("steady", Role::Workload, 1);
    let (me, seen) = (world.next_part(), Rc::default());
    let looks = vec![at_ms * 1_000_000];
    let load = Naps { me, steady, napping: steady, works: vec![], looks, seen: Rc::clone(&seen) };
    load.start(&mut world.core);
    world.add(Box::new(load));
    world.run(SECOND, None, &mut ());
    seen.take()[0]
}

#[test]
fn how_often_a_governor_looks_follows_from_the_latency_that_the_kernel_is_told() {
    let slow = "transition = \"500 us\"\n";
    let quick = format!("{slow}transition_latency = \"10 us\"\n");
    assert_eq!([under_work(slow, 60), under_work(slow, 600)], [500_000, 1_000_000]);
    assert_eq!([under_work(&quick, 5), under_work(&quick, 60)], [500_000, 1_000_000]);
}

#[test]
fn what_a_machine_file_cannot_say_of_idle_time_and_the_beginning_is_named_with_its_line() {
    let error = |line: &str| MachineSpec::parse(&format!("{MACHINE}{line}\n")).unwrap_err().to_string();
    let said = error("idle_time = \"jiffies\"");
    assert!(said.contains("15") && said.contains("idle time is `exact` or `ticks`, not `jiffies`"), "{said}");
    let said = error("begins = \"busy\"");
    assert!(said.contains("governors begin `new` or `idle`, not `busy`"), "{said}");
    let said = error("interrupts = \"all\"");
    assert!(said.contains("interrupts are for `submitter`, `any` or `drawn`, not `all`"), "{said}");
}
