use super::*;
use crate::block::null_blk::{Memory, MemorySpec};
use crate::cpu::{Cpus, CpusSpec, PolicySpec};
use crate::engine::{Stopped, World};
use disks::DiskSet;
use domain::time::Nanos;
use domain::units::Bytes;
use governors::KernelVersion;

const SECOND: u64 = 1_000_000_000;
const MILLI: u64 = 1_000_000;

/// Two statements of half a millisecond at 1 GHz each; no costs but these.
fn spec(clients: u32) -> OltpSpec {
    let statement =
        Statement { cost: Cost::cycles(500_000), request: 100, answer: 100, log: 0, commits: false };
    OltpSpec {
        clients,
        statements: vec![statement; 2],
        spread: 0.0,
        client: Cost::NONE,
        packet: Cost::NONE,
        client_ns: 0,
        network: None,
        think: 0,
        until: Some(SECOND),
        events: None,
        rate: None,
        bursts: None,
        log: None,
    }
}

fn network(delay_us: u64) -> Option<Network> {
    Some(Network { delay: Nanos::from_micros(delay_us), bandwidth: None })
}

/// A machine at 1 GHz without any cost of its own, a device whose requests take a millisecond, and a load.
fn machine(cpus: usize, make: impl FnOnce(PartId) -> OltpSpec) -> (World, Served) {
    let policies = vec![PolicySpec::fixed((0..cpus).collect(), 1_000_000)];
    let cpus = CpusSpec::bare(KernelVersion::new(6, 1, 0), policies);
    let mut world = World::new(Core::new(Cpus::new(cpus), DiskSet::new(Seed(1)), Seed(1)));
    world.core.devices.push(crate::block::DeviceStats::new("log"));
    let device = world.next_part();
    let memory = MemorySpec {
        size: Bytes::from_mib(64),
        latency_ns: MILLI,
        depth: 8,
        interrupt: Cost::NONE,
        request: Cost::NONE,
        byte_1024: 0,
        copy_byte_1024: 0,
        page: Cost::NONE,
        kernel: KernelVersion::new(6, 1, 0),
    };
    world.add(Box::new(Memory::new(device, 0, memory)));
    let me = world.next_part();
    let load = Oltp::new(&mut world.core, me, make(device), Seed(7));
    let served = load.served();
    world.add(Box::new(load));
    assert_eq!(world.run(1000 * SECOND, None, &mut ()), Stopped::Done);
    let served = served.borrow().clone();
    (world, served)
}

fn run(cpus: usize, spec: OltpSpec) -> (World, Served) {
    machine(cpus, |_| spec)
}

fn server_time(world: &World) -> u64 {
    let threads = world.core.cpus.thread_times();
    threads.filter(|(name, ..)| name.starts_with("server")).map(|(_, _, ns)| ns).sum()
}

fn close(value: f64, expected: f64, share: f64) {
    assert!((value - expected).abs() <= expected * share, "{value} is not {expected}");
}

#[test]
fn each_transaction_is_served_once_and_all_its_work_is_done() {
    for (cpus, clients, network) in [(1, 1, None), (1, 8, None), (4, 3, network(200)), (4, 32, network(20))] {
        let spec = OltpSpec { network, spread: 0.5, events: Some(1000), until: None, ..spec(clients) };
        let (world, served) = run(cpus, spec);
        assert_eq!((served.transactions, served.queries), (1000, 2000));
        assert_eq!(served.latencies.count(), 1000);
        // A cycle takes a nanosecond; a piece that is taken from its CPU is rounded up.
        close(server_time(&world) as f64, served.asked.cycles as f64, 1e-4);
        close(served.asked.cycles as f64, 1000.0 * 1e6, 0.03);
    }
}

#[test]
fn clients_are_as_many_as_their_rate_times_the_time_of_a_round() {
    for (cpus, clients, think) in [(1, 1, 0), (2, 8, 0), (4, 8, 3 * MILLI), (1, 16, 20 * MILLI)] {
        let spec = OltpSpec { network: network(100), think, until: Some(20 * SECOND), ..spec(clients) };
        let (_, served) = run(cpus, spec);
        let seconds = served.measured as f64 / 1e9;
        let rate = served.transactions as f64 / seconds;
        let round = served.latencies.mean().unwrap() / 1e9 + think as f64 / 1e9;
        close(rate * round, f64::from(clients), 0.01);
        // And under way at a time on the average, the time of a pause aside.
        let under_way = served.under_way as f64 / 1e9 / seconds;
        close(under_way, rate * served.latencies.mean().unwrap() / 1e9, 1e-6);
    }
}

#[test]
fn one_client_waits_for_its_server_and_the_network_and_nothing_else() {
    let (_, served) = run(1, OltpSpec { network: network(100), ..spec(1) });
    // Two statements, each half a millisecond and twice 100 µs.
    assert_eq!(served.latencies.mean(), Some(1_400_000.0));
    let (_, local) = run(1, spec(1));
    assert_eq!((local.latencies.mean(), local.transactions), (Some(1_000_000.0), 1000));
}

#[test]
fn a_thread_that_an_interrupt_wakes_stays_on_its_cpu_where_that_does_nothing_else() {
    let spec = OltpSpec { network: network(100), packet: Cost::cycles(10_000), ..spec(1) };
    let (mut world, _) = run(4, spec);
    let now = world.core.now;
    let busy: Vec<u64> = (0..4).map(|cpu| world.core.cpus.times(now, cpu).busy_ns).collect();
    assert!(busy[0] > SECOND / 2 && busy[1..] == [0; 3], "{busy:?}");
}

#[test]
fn a_link_carries_no_more_than_its_bandwidth() {
    let slow = Network { delay: Nanos::ZERO, bandwidth: Some(Bytes::new(1_000_000)) };
    let statement =
        Statement { cost: Cost::cycles(1000), request: 100, answer: 10_000, log: 0, commits: false };
    let spec =
        OltpSpec { network: Some(slow), statements: vec![statement], until: Some(10 * SECOND), ..spec(8) };
    let (_, served) = run(4, spec);
    close(served.transactions as f64, 1000.0, 0.01);
}

#[test]
fn cpus_that_are_all_busy_bound_the_rate_and_memory_has_its_share() {
    let (_, served) = run(2, OltpSpec { network: network(50), ..spec(16) });
    close(served.transactions as f64, 2000.0, 0.01);
    let mut stalled = spec(16);
    for statement in &mut stalled.statements {
        statement.cost.stall_ns = 500_000;
    }
    let (_, served) = run(2, stalled);
    close(served.transactions as f64, 1000.0, 0.02);
}

#[test]
fn bursts_alone_are_measured() {
    let bursts = Some((100 * MILLI, 20 * MILLI));
    let spec = OltpSpec { network: network(0), bursts, until: Some(10 * SECOND), ..spec(4) };
    let (world, served) = run(2, spec);
    // A hundred bursts, and in each what begins last and runs out: no more than two of one millisecond on
    // each CPU.
    let seconds = served.measured as f64 / 1e9;
    assert!((2.0..2.25).contains(&seconds), "{seconds}");
    close(served.transactions as f64 / seconds, 2000.0, 0.03);
    close(server_time(&world) as f64, served.transactions as f64 * 1e6, 1e-6);
    assert!(served.ended <= 10 * SECOND + 5 * MILLI, "{}", served.ended);
}

#[test]
fn transactions_come_at_their_rate_and_wait_from_their_coming_on() {
    let spec = OltpSpec { network: network(0), rate: Some(500), until: Some(20 * SECOND), ..spec(1) };
    let (_, served) = run(1, spec);
    close(served.transactions as f64, 10_000.0, 0.03);
    // A queue of deterministic service (M/D/1): the wait is load/(2(1-load)) times the service of 1 ms, at a
    // load of a half.
    close(served.latencies.mean().unwrap(), 1.5e6, 0.05);
}

#[test]
fn a_rate_in_bursts_comes_in_bursts_and_a_number_of_events_ends_it() {
    let spec = OltpSpec {
        network: network(0),
        rate: Some(500),
        bursts: Some((SECOND, 200 * MILLI)),
        until: Some(20 * SECOND),
        ..spec(4)
    };
    let (_, served) = run(4, spec.clone());
    close(served.transactions as f64, 2000.0, 0.06);
    close(served.measured as f64, 4e9, 0.02);
    let (_, served) = run(4, OltpSpec { events: Some(300), bursts: None, until: None, ..spec });
    assert_eq!(served.transactions, 300);
}

fn writing(device: PartId, clients: u32) -> OltpSpec {
    let write = Statement { log: 1000, ..spec(1).statements[0] };
    let commit = Statement { commits: true, cost: Cost::cycles(1000), ..write };
    OltpSpec {
        statements: vec![write, commit],
        log: Some((device, 64 << 20)),
        network: network(10),
        ..spec(clients)
    }
}

#[test]
fn each_commit_waits_for_the_log_and_those_that_meet_go_together() {
    let (_, one) = machine(1, |device| writing(device, 1));
    assert_eq!(one.flushes, one.transactions);
    // A write and a flush, of a millisecond each.
    assert!(one.latencies.mean().unwrap() > 2_500_000.0);
    let (world, many) = machine(8, |device| writing(device, 8));
    assert!(many.flushes < many.transactions / 2, "{} of {}", many.flushes, many.transactions);
    // The device has written all that was logged, and once for each flush.
    let device = &world.core.devices[0];
    assert_eq!((device.flushes, device.writes.ios), (many.flushes, many.flushes));
    assert!(device.writes.bytes >= many.transactions * 2000, "{device:?}");
}

#[test]
fn the_same_seed_gives_the_same_course() {
    let make = || OltpSpec { network: network(25), spread: 0.5, rate: Some(1500), ..spec(8) };
    assert_eq!(run(3, make()).1, run(3, make()).1);
}

#[test]
fn a_test_has_the_statements_that_sysbench_sends() {
    let cost = Cost { cycles: 9_000_000, stall_ns: 90_000 };
    let of = |test| {
        let all = statements(test, cost);
        (all.len(), all.iter().filter(|s| s.log > 0).count(), all.iter().filter(|s| s.commits).count())
    };
    assert_eq!(of(Test::ReadOnly), (16, 0, 0));
    assert_eq!(of(Test::ReadWrite), (20, 4, 1));
    assert_eq!(of(Test::PointSelect), (1, 0, 0));
    let sum = statements(Test::ReadOnly, cost).iter().fold(Cost::NONE, |sum, s| sum.and(s.cost));
    assert_eq!(sum, cost);
}
