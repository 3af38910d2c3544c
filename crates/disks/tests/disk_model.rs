//! What holds for every disk model, whatever is asked of it.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use disks::{Completed, DiskSet, DiskSpec, LinkSpec, Op, Refused, Request, shipped};
use domain::rng::Seed;
use domain::time::Nanos;
use domain::units::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;

const DISKS: [&str; 6] =
    ["wd-green-1tb", "maxtor-5400-120gb", "plain-7200", "samsung-850-evo", "nvme", "pm9a3-3840gb"];
const LINKS: [&str; 6] = ["sata-3", "sata-2", "ide-ata133", "ide-ata100", "ide-ata66", "pci-33"];

fn file(name: &str) -> String {
    let (_, text) = shipped::DISKS.iter().find(|(shipped, _)| *shipped == name).unwrap();
    (*text).to_owned()
}

/// A disk cut down to 1 GiB, so that requests meet each other.
fn disk(name: &str) -> DiskSpec {
    DiskSpec::shipped(name).unwrap().with_size(Bytes::from_mib(1024)).unwrap()
}

fn link(name: &str) -> LinkSpec {
    LinkSpec::shipped(name).unwrap()
}

fn request(id: u64, op: Op, offset: u64, len: u64) -> Request {
    Request { id, op, fua: false, offset: Bytes::new(offset), len: Bytes::new(len) }
}

/// All that is done until nothing is left to happen.
fn drain(bank: &mut DiskSet) -> Vec<Completed> {
    let mut done = Vec::new();
    while let Some(at) = bank.next_event() {
        bank.advance(at, &mut done);
    }
    done
}

#[test]
fn step_by_step_the_same_is_done_at_the_same_time() {
    for name in DISKS {
        let bank = || {
            let mut bank = DiskSet::new(Seed(1));
            for _ in 0..2 {
                bank.add_disk(&disk(name), None);
            }
            for id in 0..20 {
                let op = if id % 3 == 0 { Op::Write } else { Op::Read };
                bank.submit(Nanos::new(0), id as usize % 2, request(id, op, id << 20, 64 << 10)).unwrap();
            }
            bank
        };
        let (mut done, mut steps, mut bank_by_steps) = (Vec::new(), 0, bank());
        while let Some((_, disks)) = bank_by_steps.advance_to_step(u64::MAX, &mut done) {
            assert!(disks <= 2, "{name}: {disks} of two disks");
            steps += u64::from(disks);
        }
        assert_eq!(done, drain(&mut bank()), "{name}");
        assert!(steps >= 20 && steps <= bank_by_steps.events(), "{name}: {steps}");
    }
}

/// One request of a random load: after how long, which disk, what.
#[derive(Clone, Debug)]
struct Act {
    after_us: u64,
    disk: usize,
    op: Op,
    fua: bool,
    block: u64,
    blocks: u64,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let op =
        prop_oneof![4 => Just(Op::Read), 4 => Just(Op::Write), 1 => Just(Op::Flush), 1 => Just(Op::Discard)];
    // Few blocks, so that requests overlap and follow each other; some gaps long enough to be idle.
    let after = prop_oneof![6 => 0..500_u64, 1 => 0..100_000_u64];
    let act = (after, 0..3_usize, op, prop::bool::weighted(0.1), 0..5_000_u64, 1..600_u64)
        .prop_map(|(after_us, disk, op, fua, block, blocks)| Act { after_us, disk, op, fua, block, blocks });
    prop::collection::vec(act, 1..120)
}

fn bank(model: &str, shared: Option<&str>) -> DiskSet {
    let mut bank = DiskSet::new(Seed(3));
    let shared = shared.map(|name| bank.add_link(&link(name)));
    for _ in 0..3 {
        bank.add_disk(&disk(model), shared);
    }
    bank
}

/// Runs a load; when each request was submitted, and what was done.
fn run(bank: &mut DiskSet, acts: &[Act]) -> (Vec<Nanos>, Vec<Completed>) {
    let (mut now, mut done, mut submitted) = (Nanos::ZERO, Vec::new(), Vec::new());
    for (id, act) in acts.iter().enumerate() {
        now = now + Nanos::from_micros(act.after_us);
        bank.advance(now, &mut done);
        let plain = request(id as u64, act.op, act.block * 4096, act.blocks * 4096);
        bank.submit(now, act.disk, Request { fua: act.fua, ..plain }).unwrap();
        submitted.push(now);
    }
    done.extend(drain(bank));
    (submitted, done)
}

/// Models and links that go together, a few at a time.
fn machines() -> impl Strategy<Value = (&'static str, Option<&'static str>)> {
    (prop::sample::select(&DISKS[..]), prop::option::of(prop::sample::select(&LINKS[..])))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_request_is_done_once_and_after_it_was_submitted((model, shared) in machines(), acts in acts()) {
        let mut bank = bank(model, shared);
        let (submitted, done) = run(&mut bank, &acts);
        prop_assert_eq!(bank.in_flight(), 0);
        let times: BTreeMap<u64, &Completed> = done.iter().map(|completed| (completed.id, completed)).collect();
        prop_assert_eq!(times.len(), acts.len());
        prop_assert_eq!(done.len(), acts.len());
        for (id, act) in acts.iter().enumerate() {
            let completed = times[&(id as u64)];
            prop_assert_eq!(completed.disk, act.disk);
            prop_assert_eq!(completed.submitted, submitted[id]);
            prop_assert!(completed.at > completed.submitted);
        }
        prop_assert!(done.windows(2).all(|pair| pair[0].at <= pair[1].at), "time runs back");
    }

    #[test]
    fn the_same_seed_and_requests_give_the_same_times((model, shared) in machines(), acts in acts()) {
        let (_, first) = run(&mut bank(model, shared), &acts);
        let (_, second) = run(&mut bank(model, shared), &acts);
        prop_assert_eq!(first, second);
    }

    #[test]
    fn asking_more_often_changes_no_time((model, shared) in machines(), acts in acts()) {
        let (_, rarely) = run(&mut bank(model, shared), &acts);
        let mut often_asked = bank(model, shared);
        let (mut now, mut done) = (Nanos::ZERO, Vec::new());
        for (id, act) in acts.iter().enumerate() {
            let next = now + Nanos::from_micros(act.after_us);
            while now + Nanos::from_micros(37) < next {
                now = now + Nanos::from_micros(37);
                often_asked.advance(now, &mut done);
            }
            now = next;
            let plain = request(id as u64, act.op, act.block * 4096, act.blocks * 4096);
            often_asked.submit(now, act.disk, Request { fua: act.fua, ..plain }).unwrap();
        }
        done.extend(drain(&mut often_asked));
        prop_assert_eq!(rarely, done);
    }

    #[test]
    fn no_text_makes_a_disk_file_panic(text in "\\PC*", at in 0..1_500_usize, cut in 0..40_usize) {
        let _ = DiskSpec::parse(&text);
        let mut file = file("samsung-850-evo");
        let at = (0..=at.min(file.len())).rev().find(|at| file.is_char_boundary(*at)).unwrap_or(0);
        let end = (at + cut).min(file.len());
        if file.is_char_boundary(end) {
            file.replace_range(at..end, &text);
        }
        let _ = DiskSpec::parse(&file);
    }
}

/// How long random writes and a flush after them take until both are done; the flush's own time comes second.
fn flushed(model: &str, writes: u64) -> (Nanos, Nanos) {
    let mut bank = DiskSet::new(Seed(1));
    bank.add_disk(&disk(model), None);
    for id in 0..writes {
        bank.submit(Nanos::ZERO, 0, request(id, Op::Write, (id * 7_919 % 200_000) * 4096, 4096)).unwrap();
    }
    let mut done = Vec::new();
    while done.len() < writes as usize {
        let next = bank.next_event().unwrap();
        bank.advance(next, &mut done);
    }
    let written = done.iter().map(|completed| completed.at).max().unwrap();
    bank.submit(written, 0, request(writes, Op::Flush, 0, 0)).unwrap();
    let flush = drain(&mut bank).into_iter().find(|completed| completed.id == writes).unwrap();
    (written, flush.at - written)
}

#[test]
fn a_flush_waits_until_what_was_written_is_on_the_medium() {
    for model in ["wd-green-1tb", "plain-7200"] {
        let (written, flush) = flushed(model, 40);
        // 40 places on a platter take some milliseconds each, and the writes were answered long before.
        assert!(written < Nanos::from_millis(20), "{model}: {written}");
        assert!(flush > Nanos::from_millis(100), "{model}: {flush}");
    }
    for model in ["samsung-850-evo", "nvme"] {
        let (written, flush) = flushed(model, 40);
        assert!(written < Nanos::from_millis(1), "{model}: {written}");
        assert!(flush > Nanos::from_micros(800), "{model}: {flush}");
    }
}

#[test]
fn a_flush_of_a_disk_that_outlives_a_power_cut_waits_for_nothing() {
    let (_, flush) = flushed("pm9a3-3840gb", 40);
    assert!(flush < Nanos::from_micros(20), "{flush}");
    let unprotected =
        file("pm9a3-3840gb").replace("power_loss_protection = true", "power_loss_protection = false");
    assert_ne!(unprotected, file("pm9a3-3840gb"));
    let mut bank = DiskSet::new(Seed(1));
    let small = |text: &str| DiskSpec::parse(text).unwrap().with_size(Bytes::from_mib(1024)).unwrap();
    bank.add_disk(&small(&file("pm9a3-3840gb")), None);
    bank.add_disk(&small(&unprotected), None);
    for disk in 0..2 {
        let forced = Request { fua: true, ..request(disk as u64, Op::Write, 500 << 20, 4096) };
        bank.submit(Nanos::ZERO, disk, forced).unwrap();
    }
    let done = drain(&mut bank);
    let at = |id| done.iter().find(|completed| completed.id == id).unwrap().at;
    assert!(at(0) < Nanos::from_micros(30), "{}", at(0));
    assert!(at(1) > Nanos::from_micros(500), "{}", at(1));
}

#[test]
fn a_flush_of_nothing_is_quick() {
    let (_, flush) = flushed("plain-7200", 1);
    let mut bank = DiskSet::new(Seed(1));
    bank.add_disk(&disk("plain-7200"), None);
    bank.submit(Nanos::ZERO, 0, request(0, Op::Flush, 0, 0)).unwrap();
    let nothing = drain(&mut bank)[0].at;
    assert!(nothing < Nanos::from_micros(200) && nothing < flush, "{nothing} {flush}");
}

#[test]
fn forced_unit_access_takes_the_platter_s_time() {
    let time = |fua| {
        let mut bank = DiskSet::new(Seed(1));
        bank.add_disk(&disk("plain-7200"), None);
        bank.submit(Nanos::ZERO, 0, Request { fua, ..request(0, Op::Write, 500 << 20, 4096) }).unwrap();
        drain(&mut bank)[0].at
    };
    assert!(time(false) < Nanos::from_micros(300), "{}", time(false));
    assert!(time(true) > Nanos::from_millis(1), "{}", time(true));
}

#[test]
fn writes_as_large_as_the_buffer_are_done_behind_part_of_a_page() {
    for model in DISKS {
        let mut bank = bank(model, None);
        let writes = [(0, 4096), (1 << 20, 64 << 20), (128 << 20, 4096), (256 << 20, 64 << 20), (0, 8192)];
        for (id, (offset, len)) in writes.into_iter().enumerate() {
            bank.submit(Nanos::ZERO, 0, request(id as u64, Op::Write, offset, len)).unwrap();
        }
        assert_eq!(drain(&mut bank).len(), writes.len(), "{model}");
    }
}

#[test]
fn what_a_disk_has_no_blocks_for_is_refused() {
    let mut bank = DiskSet::new(Seed(1));
    bank.add_disk(&disk("nvme"), None);
    let size = 1 << 30;
    for (offset, len, refused) in [
        (0, 0, Refused::Empty),
        (size, 512, Refused::BeyondEnd { offset: size, len: 512, size }),
        (size - 512, 1024, Refused::BeyondEnd { offset: size - 512, len: 1024, size }),
        (u64::MAX - 511, 512, Refused::BeyondEnd { offset: u64::MAX - 511, len: 512, size }),
        (100, 512, Refused::Unaligned { offset: 100, len: 512, block: 512 }),
    ] {
        assert_eq!(bank.submit(Nanos::ZERO, 0, request(0, Op::Read, offset, len)), Err(refused));
    }
    assert_eq!(bank.submit(Nanos::ZERO, 9, request(0, Op::Flush, 0, 0)), Err(Refused::NoSuchDisk(9)));
    bank.submit(Nanos::ZERO, 0, request(0, Op::Discard, 0, size)).unwrap();
    bank.submit(Nanos::ZERO, 0, request(1, Op::Write, 0, size)).unwrap();
    bank.submit(Nanos::ZERO, 0, request(2, Op::Read, 0, size)).unwrap();
    assert_eq!(drain(&mut bank).len(), 3);
}

/// The rate at which disks on one link read sequentially together, in MB/s.
fn together(model: &str, link_name: &str, disks: usize) -> f64 {
    let mut bank = DiskSet::new(Seed(1));
    let shared = bank.add_link(&link(link_name));
    sequential_reads(bank, model, &vec![shared; disks])
}

/// The rate at which disks on these links read sequentially, in MB/s.
fn sequential_reads(mut bank: DiskSet, model: &str, links: &[usize]) -> f64 {
    let end = Nanos::from_secs(2);
    for link in links {
        bank.add_disk(&DiskSpec::shipped(model).unwrap(), Some(*link));
    }
    let (mut next, mut done, mut bytes) = (vec![0_u64; links.len()], Vec::new(), 0_u64);
    let mut submit = |bank: &mut DiskSet, now, disk: usize| {
        bank.submit(now, disk, request(0, Op::Read, next[disk], 128 << 10)).unwrap();
        next[disk] += 128 << 10;
    };
    (0..links.len()).for_each(|disk| submit(&mut bank, Nanos::ZERO, disk));
    while let Some(at) = bank.next_event().filter(|at| *at < end) {
        bank.advance(at, &mut done);
        for completed in done.drain(..) {
            bytes += 128 << 10;
            submit(&mut bank, completed.at, completed.disk);
        }
    }
    bytes as f64 / 1e6 / end.secs()
}

#[test]
fn bytes_pass_all_links_of_a_chain() {
    let chained = |cables: usize, disks: usize| {
        let mut bank = DiskSet::new(Seed(1));
        let bus = bank.add_link(&link("pci-33"));
        let links: Vec<usize> =
            (0..cables).map(|_| bank.add_link_behind(&link("ide-ata66"), Some(bus))).collect();
        let links: Vec<usize> = links.into_iter().flat_map(|cable| vec![cable; disks]).collect();
        sequential_reads(bank, "maxtor-5400-120gb", &links)
    };
    let (cable, one, all) = (together("maxtor-5400-120gb", "ide-ata66", 2), chained(1, 2), chained(4, 2));
    eprintln!(
        "two disks on a cable {cable:.1} MB/s, on a bus too {one:.1}; eight on four cables of a bus {all:.1}"
    );
    // The bus is faster than a cable, and slower than four.
    assert!((0.99..=1.0).contains(&(one / cable)), "{one} {cable}");
    assert!(all < 112.5 && all < 4.0 * cable && all > 90.0, "{all} {cable}");
}

#[test]
fn a_shared_bus_bounds_the_disks_on_it() {
    let one = together("maxtor-5400-120gb", "pci-33", 1);
    let eight = together("maxtor-5400-120gb", "pci-33", 8);
    assert!((35.0..36.5).contains(&one), "{one}");
    assert!((105.0..112.5).contains(&eight), "{eight}");
    let ssds = together("samsung-850-evo", "sata-3", 4);
    assert!((520.0..551.0).contains(&ssds), "{ssds}");
}

#[test]
fn on_an_ide_cable_one_disk_waits_for_the_other() {
    let time = |link_name: &str| {
        let mut bank = DiskSet::new(Seed(1));
        let shared = bank.add_link(&link(link_name));
        for drive in 0..2 {
            bank.add_disk(&disk("maxtor-5400-120gb"), Some(shared));
            for id in 0..50 {
                let place = (id * 7_919 + drive as u64 * 104_729) % 200_000;
                bank.submit(Nanos::ZERO, drive, request(id, Op::Read, place * 4096, 4096)).unwrap();
            }
        }
        drain(&mut bank).last().unwrap().at
    };
    let (cable, bus) = (time("ide-ata133").secs(), time("pci-33").secs());
    assert!((1.8..2.2).contains(&(cable / bus)), "{cable} {bus}");
}

#[test]
fn errors_of_a_file_name_line_and_value() {
    let good = file("plain-7200");
    let error = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        DiskSpec::parse(&good.replace(from, to)).unwrap_err().to_string()
    };
    let line = good.lines().position(|line| line.starts_with("rpm")).unwrap() + 1;
    assert!(error("rpm = 7200", "rmp = 7200").starts_with(&format!("{line}:1: unknown field `rmp`")));
    assert!(error("\"8.5 ms\"", "\"8.5\"").contains("`8.5` is no time; write it as"));
    assert!(error("\"8.5 ms\"", "\"85 ms\"").contains("no rising seek curve goes through"));
    assert!(error("rpm = 7200", "rpm = 7").contains("`hdd.rpm`: 7 is not from 1000 to 30000"));
    assert!(error("flyball_disk = 1", "flyball_disk = 2").contains("version 2 is not known"));
    assert!(error("[hdd]", "[ssd]").contains("field"));
}
