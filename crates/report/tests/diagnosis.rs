//! The screen of a machine that was watched, looked at as a whole.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use analysis::facts::usage::{CpuUsage, DiskUsage, Pressure, Transfers, Usage};
use analysis::server::WatchedServer;
use domain::finding::{Confidence, Evidence, Finding, NotMeasured, Remedy};
use domain::inventory::{BlockDevice, BlockKind, Inventory, Md, Mount};
use domain::trace::Role;
use domain::trial::ThreadTime;
use domain::units::Unit;
use domain::{Better, Metric, Nanos};
use expect_test::expect;
use machine::RecordedMachine;
use report::{Diagnosis, diagnosis_text};
use std::path::Path;

const NAMES: [&str; 5] = ["adl0", "clx2s0", "dell-latitude-5420-tgl", "spr1", "vm-2cpu"];

fn inventory(name: &str) -> Inventory {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/machines").join(name);
    machine::inventory::take(&RecordedMachine::open(folder).unwrap()).unwrap()
}

/// `vm-2cpu` with ext4 on an array of two disks.
fn server() -> Inventory {
    let mut inventory = inventory("vm-2cpu");
    let disk = |name: &str| BlockDevice {
        name: name.into(),
        kind: BlockKind::Disk,
        built_of: vec![],
        number: None,
        size: None,
        read_only: None,
        removable: None,
        transport: None,
        model: None,
        serial: None,
        wwn: None,
        queue: None,
        start: None,
        link: None,
        node: None,
    };
    let md = Md { level: Some("raid1".into()), ..Md::default() };
    let array = BlockDevice {
        kind: BlockKind::Md(Box::new(md)),
        built_of: vec!["sda".into(), "sdb".into()],
        ..disk("md0")
    };
    inventory.devices = vec![array, disk("sda"), disk("sdb")];
    inventory.mounts = vec![Mount {
        source: "/dev/md0".into(),
        mountpoint: "/srv".into(),
        filesystem: "ext4".into(),
        options: vec!["rw".into()],
        device: Some("md0".into()),
        journal: None,
    }];
    inventory
}

fn usage() -> Usage {
    let disk = |device: &str, busy: f64| DiskUsage {
        device: device.into(),
        busy,
        depth: Some(2.0),
        read: Transfers { rate: 118.4, bytes: 485_000.0, latency: Some(0.0271) },
        write: Transfers { rate: 4.0, bytes: 16_384.0, latency: Some(0.009) },
        ..DiskUsage::default()
    };
    let cpu = CpuUsage { user: 0.081, system: 0.04, interrupts: 0.002, iowait: 0.33, steal: 0.0 };
    Usage {
        span: Nanos::from_millis(30_000),
        machine: Some(cpu),
        cpus: vec![(0, cpu), (1, CpuUsage { user: 0.3, ..cpu })],
        disks: ["md0", "sda", "sdb", "loop0", "loop1"].map(|name| disk(name, 0.97)).to_vec(),
        pressure: Pressure { cpu: Some(0.02), io: Some(0.61), memory: Some(0.0) },
        ..Usage::default()
    }
}

fn finding(title: &str) -> Finding {
    Finding {
        rule: "device-at-limit",
        title: title.into(),
        reason: String::new(),
        evidence: vec![Evidence { what: String::new(), figure: String::new(), source: String::new() }],
        confidence: Confidence::Likely,
        gain: None,
        remedy: None,
        next: "flyball inspect".into(),
        compared: vec![],
    }
}

fn screen(inventory: &Inventory, usage: &Usage, findings: &[Finding], width: usize) -> String {
    screen_of(inventory, usage, findings, width, None)
}

fn screen_of(
    inventory: &Inventory,
    usage: &Usage,
    findings: &[Finding],
    width: usize,
    server: Option<&WatchedServer<'_>>,
) -> String {
    let thread =
        |name: &str, role, ms| ThreadTime { name: name.into(), tid: 1, role, cpu: Nanos::from_millis(ms) };
    let not_measured = ["power and energy", "at which frequency the CPUs ran"]
        .map(|what| NotMeasured { what: what.into(), why: "hidden".into() });
    let diagnosis = Diagnosis {
        inventory,
        usage,
        duration: Nanos::from_millis(30_000),
        watched: "what was running",
        own_cpu: None,
        server,
        threads: &[
            thread("mariadbd", Role::Other, 2900),
            thread("md0_raid1", Role::Array, 600),
            thread("sshd", Role::Other, 3),
        ],
        findings,
        not_measured: &not_measured,
        run: "watched-20261124-041700-7f3a",
        program: "flyball",
    };
    diagnosis_text(&diagnosis, width)
}

#[test]
fn a_watched_server_has_its_place_on_the_screen() {
    let metric = |value: f64, unit: Unit| Metric { value, unit, better: Better::Higher };
    let figures = [
        ("transactions", metric(669.0, Unit::PerSecond)),
        ("write_transactions", metric(641.0, Unit::PerSecond)),
        ("queries", metric(4_480.0, Unit::PerSecond)),
        ("rows_read", metric(8_840.0, Unit::PerSecond)),
        ("log_syncs", metric(669.0, Unit::PerSecond)),
        ("buffer_hits", metric(0.999, Unit::Share)),
        ("statement_latency_mean", metric(354e-6, Unit::Seconds)),
        ("transaction_active_mean", metric(3.87e-3, Unit::Seconds)),
    ];
    let watched = WatchedServer {
        name: "PostgreSQL at /run/postgresql",
        version: "PostgreSQL 15.18 (Debian 15.18-0+deb12u1)",
        data: Some("/var/lib/postgresql/15/main"),
        device: Some("md0"),
        metrics: figures.iter().map(|(name, metric)| (*name, metric)).collect(),
        began_anew: None,
    };
    let found = [finding("the disk sda was busy 97% of the time: it is at its limit")];
    let text = screen_of(&server(), &usage(), &found, 80, Some(&watched));
    let of_server: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("Server")).collect();
    let of_server = of_server.split(|line| line.starts_with("CPU")).next().unwrap().join("\n");
    expect![[r#"
        Server       PostgreSQL 15.18 at /run/postgresql, data in
                       /var/lib/postgresql/15/main on md0
                     transactions 669 /s, queries 4.48 k/s, log_syncs 669 /s,
                       statement_latency_mean 354 µs"#]]
    .assert_eq(&of_server);
    assert!(text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_server_whose_disk_is_busy_is_one_screen() {
    let found = [finding("the disk sda was busy 97% of the time: it is at its limit")];
    expect![[r#"
        Machine      2 × Intel(R) Xeon(R) Processor, Linux 6.18.44, a virtual machine
                       (kvm), 23.5 GiB
        Watched      30.0 s of what was running
        CPU          busy 12.3% (programs 8.1%, kernel 4%, interrupts 0.2%),
                       idle for I/O 33%, tasks waited for I/O 61%
                     the busiest, CPU 1: 34.2%
                     frequency policy: not visible here
                     busiest threads, of one CPU: mariadbd 9.7% (other),
                       md0_raid1 2% (array)
        Disks                 busy reads                      writes
                     md0       97% 118 /s 485 kB/s 27.1 ms    4.00 /s 16.4 kB/s 9.00 ms
                     sda       97% 118 /s 485 kB/s 27.1 ms    4.00 /s 16.4 kB/s 9.00 ms
                     sdb       97% 118 /s 485 kB/s 27.1 ms    4.00 /s 16.4 kB/s 9.00 ms
                     and 2 more that did less
        I/O path     ext4 on /srv > raid1 (md0) > sda, sdb
        Not visible  power and energy, at which frequency the CPUs ran
        Verdict      the disk sda was busy 97% of the time: it is at its limit (likely)
        Next         what this disk gives; why; a page
            flyball check
            flyball explain watched-20261124-041700-7f3a
            flyball report watched-20261124-041700-7f3a
    "#]]
    .assert_eq(&screen(&server(), &usage(), &found, 80));
}

#[test]
fn every_machine_fits_the_screen() {
    let found = vec![finding("tasks waited for I/O in 61% of the time"); 4];
    for name in NAMES {
        let text = screen(&inventory(name), &usage(), &found, 80);
        assert!(text.lines().count() <= 24, "{name}\n{text}");
        for width in [80, 60] {
            let text = screen(&inventory(name), &usage(), &found, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{name} {width}\n{text}");
        }
    }
}

/// Long paths, findings of several lines, and more busy disks than there is room for.
#[test]
fn what_has_no_room_is_left_out_and_the_verdict_and_its_commands_stay() {
    let mut inventory = server();
    let deep = |name: &str, below: &str| BlockDevice {
        name: name.into(),
        built_of: vec![below.into()],
        kind: BlockKind::Disk,
        ..inventory.devices[1].clone()
    };
    let loops = [deep("loop0", "md0"), deep("loop1", "sdb")];
    inventory.devices.extend(loops);
    for (device, folder) in [("loop0", "one"), ("loop1", "another")] {
        let mountpoint = format!("/srv/a-folder-with-a-long-name/and-one-below-it/{folder}");
        let mount = Mount { device: Some(device.into()), mountpoint, ..inventory.mounts[0].clone() };
        inventory.mounts.push(mount);
    }
    let title = "CPU 1 was busy 92.2% of the time, all 2 CPUs together 67%, and what it did takes a second line: one thread has the work";
    let text = screen(&inventory, &usage(), &vec![finding(title); 4], 80);
    assert!(text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for section in ["Machine", "Watched", "CPU", "Disks", "I/O path", "Verdict      CPU 1 was busy", "Next"] {
        assert!(text.lines().any(|line| line.starts_with(section)), "{section}\n{text}");
    }
    assert!(text.ends_with("flyball report watched-20261124-041700-7f3a\n"), "{text}");
}

#[test]
fn an_idle_machine_has_no_limit_and_a_next_command() {
    let text = screen(&inventory("vm-2cpu"), &Usage::default(), &[], 80);
    assert!(text.contains("no block device had a request"), "{text}");
    assert!(text.contains("Verdict      no limit was found"), "{text}");
    assert!(text.contains("Next         what this disk gives; a page\n    flyball check\n"), "{text}");
}

#[test]
fn what_is_to_be_done_by_hand_leaves_the_first_command_to_what_leads_on() {
    let first = |nexts: &[&str]| {
        let of = |next: &&str| {
            let remedy = Remedy { what: "do it".into(), settings: vec![], undo: "undo it".into() };
            Finding { next: (*next).into(), remedy: Some(remedy), ..finding("it is slow") }
        };
        let found: Vec<Finding> = nexts.iter().map(of).collect();
        let text = screen(&inventory("vm-2cpu"), &usage(), &found, 80);
        let at = text.find("\nNext ").unwrap();
        text[at..].lines().find(|line| line.starts_with("    ")).unwrap().trim().to_owned()
    };
    let show = "flyball show watched-20261124-041700-7f3a";
    let tune = "flyball tune --set governor=performance --persist";
    assert_eq!(first(&[show, tune]), tune);
    assert_eq!(first(&[show]), "flyball explain watched-20261124-041700-7f3a");
}
