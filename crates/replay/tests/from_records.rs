//! What a trial and an inventory tell of a load and of a machine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use analysis::facts::residency::PStates;
use analysis::facts::usage::{CpuUsage, DiskUsage, Transfers, Usage};
use domain::ids::RunId;
use domain::lab::{LabAccount, Pacing};
use domain::outcome::{Better, Metric, Outcome};
use domain::request::{Op, Served};
use domain::setting::{SettingName, SettingRecord};
use domain::time::{Nanos, Timestamp};
use domain::trace::{FrequencySource, Role, Series, SeriesKind, SeriesUnit, Trace, TraceHead};
use domain::trial::{DiskTotals, Measurement, Provenance, ThreadTime, Trial, Validity};
use domain::units::{Hertz, Unit};
use replay::{Load, Machine, NotRecorded, Unfit, UnknownMachine};
use sim::machine::{Driver, MachineSpec};
use std::collections::BTreeMap;
use std::path::Path;

/// Two seconds at 100 requests a second, of which the workload takes a quarter and dm-crypt a half of a CPU.
fn trial() -> Trial {
    let thread =
        |name: &str, role, ms| ThreadTime { name: name.into(), tid: 1, role, cpu: Nanos::from_millis(ms) };
    let metric = Metric { value: 100.0, unit: Unit::PerSecond, better: Better::Higher };
    let measurement = Measurement {
        outcome: Outcome {
            metrics: [("iops".to_owned(), metric)].into(),
            tool: "fio".into(),
            warnings: vec![],
        },
        commands: vec![],
        duration: Nanos::from_secs(2),
        roles: [
            (Role::Workload, Nanos::from_millis(500)),
            (Role::Crypt, Nanos::from_secs(1)),
            (Role::Flyball, Nanos::from_millis(40)),
            (Role::Writeback, Nanos::from_millis(1)),
        ]
        .into(),
        threads: vec![
            thread("fio", Role::Workload, 500),
            thread("kworker/u4:1", Role::Crypt, 600),
            thread("kworker/u4:2", Role::Crypt, 395),
            thread("kworker/u4:3", Role::Crypt, 5),
        ],
        disks: vec![],
        recorder: None,
        profile: None,
        windows: None,
        phases: vec![],
        spent: Default::default(),
        calls: None,
        disturbances: vec![],
    };
    Trial {
        run: RunId("r".into()),
        key: "b00.small.a0".parse().unwrap(),
        study: "s".into(),
        workload: "small".into(),
        levels: BTreeMap::new(),
        provenance: Provenance::Host,
        machine: "m".into(),
        started: Timestamp::from_unix_nanos(0),
        settings: vec![],
        environment: BTreeMap::new(),
        validity: Validity::Valid,
        measurement: Some(measurement),
        lab: None,
        origin: None,
    }
}

fn usage() -> Usage {
    let cpu = CpuUsage { system: 0.4, interrupts: 0.02, iowait: 0.3, ..CpuUsage::default() };
    let disk = |name: &str, depth, latency| DiskUsage {
        device: name.into(),
        busy: 0.5,
        depth: Some(depth),
        read: Transfers { rate: 100.0, bytes: 409_600.0, latency: Some(latency) },
        ..DiskUsage::default()
    };
    Usage {
        span: Nanos::from_secs(2),
        machine: Some(cpu),
        cpus: vec![(0, cpu), (1, cpu)],
        disks: vec![disk("dm-0", 2.5, 0.025), disk("sda", 1.6, 0.004)],
        ..Usage::default()
    }
}

#[test]
fn a_load_is_the_cpu_time_of_a_request_by_whose_threads_take_it() {
    let load = Load::of_usage(&trial(), &usage(), None, Some(4)).unwrap();
    assert_eq!(
        (load.rate, load.counted.as_str(), load.in_flight, load.in_flight_known),
        (100.0, "iops", 4, true)
    );
    let demands: Vec<(Role, u32)> = load.demands.iter().map(|demand| (demand.role, demand.threads)).collect();
    assert_eq!(
        demands,
        [(Role::Workload, 1), (Role::Crypt, 2)],
        "a thread that did next to nothing has no part"
    );
    let seconds: Vec<f64> = load.demands.iter().map(|demand| demand.seconds).collect();
    assert!((seconds[0] - 0.0025).abs() < 1e-9 && (seconds[1] - 0.005).abs() < 1e-9, "{seconds:?}");
    // 2% of two CPUs for 100 requests a second.
    assert!((load.interrupts - 0.0004).abs() < 1e-9, "{load:?}");
    assert_eq!(load.disk_latency, Some(0.004), "a mapping's requests wait for its threads too");
    assert!(
        load.waits_for_io && load.overlap == 0.0 && (load.beside - 0.02).abs() < 1e-9 && load.tick == 0.0,
        "{load:?}"
    );
}

#[test]
fn interrupts_are_what_idle_time_leaves_beside_the_threads_where_the_tick_saw_less() {
    // Threads have 0.25, 0.5, 0.02 and 0.0005 CPUs.
    let of = |executed| {
        let usage = Usage { executed: Some(executed), ..usage() };
        Load::of_usage(&trial(), &usage, None, Some(4)).unwrap().interrupts
    };
    assert!((of(0.9) - 0.001295).abs() < 1e-9, "{}", of(0.9));
    assert!((of(0.78) - 0.0004).abs() < 1e-9, "what the tick saw is more: {}", of(0.78));
}

/// A sample each 100 ms for 2 s: the disk has 100 requests a second all the time, and the workload takes a
/// whole CPU in the first second and a fifth in the other.
fn trace() -> Trace {
    let series =
        |name: &str, unit| Series { name: name.into(), unit, kind: SeriesKind::Counter { wraps_at: None } };
    let head = TraceHead {
        series: vec![
            series("role.workload.ns", SeriesUnit::Nanos),
            series("disk.sda.read_ios", SeriesUnit::Count),
        ],
        interval: Nanos::from_millis(100),
        start: Timestamp::from_unix_nanos(0),
        frequency: FrequencySource::TimeInState,
    };
    let used = |row: u64| Some(1_000_000 * (row.min(10) * 100 + row.saturating_sub(10) * 20));
    let columns = vec![(0..=20).map(used).collect(), (0..=20).map(|row| Some(10 * row)).collect()];
    Trace { head, times: (0..=20).map(|row| Nanos::from_millis(100 * row)).collect(), columns }
}

#[test]
fn a_lab_machine_is_what_ran_while_its_cpus_were_paced() {
    let of = |began: Option<u64>, span: u64| {
        let mut trial = trial();
        let (began, span) = (began.map(Nanos::from_millis), Nanos::from_millis(span));
        let pacing = Pacing { pace: 1e8, began, span, vcpus: vec![], energy: None };
        trial.lab = Some(LabAccount { dilation: 1.0, slowed: 10.0, pacing: Some(pacing), disks: vec![] });
        Load::of(&trial, &trace(), Some(1)).unwrap().demands[0].seconds * 100.0
    };
    let near = |used: f64, expected: f64| assert!((used - expected).abs() < 0.001, "{used}");
    near(of(Some(1000), 1000), 0.2);
    near(of(None, 1000), 0.6);
    // Two samples tell nothing.
    near(of(Some(1000), 150), 0.6);
}

#[test]
fn a_device_takes_from_its_driver_to_its_completion_where_that_was_recorded() {
    let mut trial = trial();
    let disk = |device: &str, count: u64, ms: u32| {
        let mut served = Served { count, ..Served::default() };
        (0..count).for_each(|_| served.service.add(1_000_000 * u64::from(ms)));
        DiskTotals {
            device: device.into(),
            read_ios: count,
            read_sectors: 8 * count,
            write_ios: 0,
            write_sectors: 0,
            busy: Nanos::ZERO,
            accesses: None,
            served: [(Op::Read, served)].into(),
            passage: None,
        }
    };
    // One that had next to nothing to do does not count, nor a layer without requests, nor a loop device,
    // whose requests take its threads' time.
    trial.measurement.as_mut().unwrap().disks = vec![
        disk("sda", 100, 2),
        disk("sdb", 90, 3),
        disk("sdc", 2, 50),
        disk("md0", 0, 0),
        disk("loop0", 100, 9),
    ];
    assert_eq!(Load::of_usage(&trial, &usage(), None, Some(4)).unwrap().disk_latency, Some(0.003));
}

#[test]
fn where_nobody_was_followed_the_machines_programs_are_the_load() {
    let of = |followed: Option<f64>| {
        let roles = [(Role::Crypt, 0.5), (Role::Other, 0.25), (Role::Kernel, 0.1)];
        let roles = roles.into_iter().chain(followed.map(|used| (Role::Workload, used))).collect();
        let load = Load::of_usage(&trial(), &usage(), Some(roles), None).unwrap();
        (load.demands.iter().map(|demand| demand.role).collect::<Vec<_>>(), load.beside)
    };
    assert_eq!(of(None), (vec![Role::Other, Role::Crypt], 0.1));
    assert_eq!(of(Some(0.2)), (vec![Role::Workload, Role::Crypt], 0.35));
}

/// The same, as perf recorded it: threads that ran, and nothing of what an idle CPU did.
fn imported() -> (Trial, Usage) {
    let mut trial = trial();
    trial.provenance = Provenance::Imported;
    let measured = trial.measurement.as_mut().unwrap();
    measured.outcome.tool = "perf-6.1".into();
    let busy = Metric { value: 0.4, unit: Unit::Share, better: Better::Lower };
    measured.outcome.metrics = [("cpu_busy".to_owned(), busy)].into();
    let usage = Usage { machine: None, cpus: vec![], ran: vec![(0, 0.2), (1, 0.6)], ..usage() };
    (trial, usage)
}

#[test]
fn of_events_the_load_has_both_ends_of_what_no_event_tells() {
    let (trial, usage) = imported();
    let load = Load::of_usage(&trial, &usage, None, None).unwrap();
    assert_eq!((load.rate, load.counted.as_str()), (100.0, "requests of dm-0"));
    assert_eq!((load.interrupts, load.waits_for_io), (0.0, true));
    assert_eq!(load.not_recorded, [NotRecorded::Interrupts, NotRecorded::WaitsForIo].into());
}

#[test]
fn a_command_that_sleeps_and_the_recorder_are_beside_what_is_recorded() {
    let (mut trial, usage) = imported();
    let measured = trial.measurement.as_mut().unwrap();
    let thread =
        |name: &str, role, ms| ThreadTime { name: name.into(), tid: 1, role, cpu: Nanos::from_millis(ms) };
    measured.threads = vec![
        thread("mariadbd", Role::Other, 900),
        thread("perf", Role::Other, 100),
        thread("sleep", Role::Workload, 1),
    ];
    let roles = || Some([(Role::Workload, 0.001), (Role::Other, 0.5)].into());
    let load = Load::of_usage(&trial, &usage, roles(), None).unwrap();
    let [demand] = load.demands.as_slice() else { panic!("{load:?}") };
    assert_eq!(demand.role, Role::Other);
    assert!((demand.seconds - 0.0045).abs() < 1e-9 && (load.beside - 0.051).abs() < 1e-9, "{load:?}");
    trial.measurement.as_mut().unwrap().threads[2].name = "fio".into();
    let load = Load::of_usage(&trial, &usage, roles(), None).unwrap();
    assert_eq!(load.demands[0].role, Role::Workload);
}

#[test]
fn the_frequency_of_events_is_that_of_the_cpu_that_ran_most() {
    let (trial, mut usage) = imported();
    let at = |cpu: &str, mhz| PStates { policy: cpu.into(), shares: vec![(Hertz::from_mhz(mhz), 1.0)] };
    usage.ran = vec![(0, 0.1), (2, 0.2), (10, 0.6)];
    usage.pstates = vec![at("cpu0", 800), at("cpu10", 2400), at("cpu2", 1600)];
    let frequency = |usage: &Usage| Load::of_usage(&trial, usage, None, None).unwrap().frequency;
    assert_eq!(frequency(&usage), Some(2.4e9));
    usage.pstates.remove(1);
    assert_eq!(frequency(&usage), None, "that of another CPU is none of it");
    // Policies are of the CPUs from their first on.
    usage.pstates = vec![at("policy0", 800), at("policy8", 2400), at("policy12", 1600)];
    assert_eq!(frequency(&usage), Some(2.4e9));
}

#[test]
fn samples_without_roles_are_one_load_of_all_cpu_time() {
    let (mut trial, _) = imported();
    let measured = trial.measurement.as_mut().unwrap();
    measured.outcome.tool = "sar".into();
    measured.roles.clear();
    measured.threads.clear();
    let load = Load::of_usage(&trial, &usage(), None, None).unwrap();
    let [demand] = load.demands.as_slice() else { panic!("{load:?}") };
    // Two CPUs of 40% each.
    assert!((demand.seconds - 0.008).abs() < 1e-9 && demand.threads == load.in_flight, "{load:?}");
    assert_eq!(load.not_recorded, [NotRecorded::Roles].into());
    let without_disks = Usage { disks: vec![], ..usage() };
    assert_eq!(Load::of_usage(&trial, &without_disks, None, None).unwrap_err(), Unfit::NoReport);
}

#[test]
fn events_that_do_not_tell_are_refused_by_their_names() {
    let with = |change: fn(&mut Trial, &mut Usage)| {
        let (mut trial, mut usage) = imported();
        change(&mut trial, &mut usage);
        Load::of_usage(&trial, &usage, None, None).unwrap_err()
    };
    assert_eq!(with(|trial, _| trial.measurement.as_mut().unwrap().roles.clear()), Unfit::NoSwitches);
    assert_eq!(
        with(|trial, _| trial.measurement.as_mut().unwrap().outcome.metrics.clear()),
        Unfit::UnknownTime
    );
    assert_eq!(with(|_, usage| usage.disks.clear()), Unfit::NoRequests);
    for (unfit, event) in
        [(Unfit::NoSwitches, "sched:sched_switch"), (Unfit::NoRequests, "block:block_rq_issue")]
    {
        let told = unfit.to_string();
        assert!(told.contains(event) && told.contains("`perf record -a -e "), "{told}");
    }
}

#[test]
fn a_machine_of_which_the_governor_is_not_known_asks_for_it_by_name() {
    let spec = machines().into_iter().find(|spec| spec.name == "lab").unwrap();
    let mut inventory = spec.inventory();
    for policy in &mut inventory.cpufreq.as_mut().unwrap().policies {
        policy.governor = None;
    }
    let error = Machine::of(&inventory, &[]).unwrap_err();
    assert_eq!(error, UnknownMachine::Governor);
    assert!(error.to_string().contains("--in-force governor=NAME"), "{error}");
    let governor = SettingRecord {
        setting: SettingName::parse("governor"),
        path: String::new(),
        before: String::new(),
        asked: "powersave".into(),
        got: "powersave".into(),
        after: None,
    };
    assert!(Machine::of(&inventory, &[governor]).is_ok());
}

#[test]
fn requests_in_flight_are_estimated_where_no_option_tells_them() {
    // 1.6 in the disk, and 0.75 CPUs.
    let load = Load::of_usage(&trial(), &usage(), None, None).unwrap();
    assert_eq!((load.in_flight, load.in_flight_known), (2, false));
}

#[test]
fn cpu_time_beside_the_disk_is_what_does_not_fit_into_a_request() {
    // One request in 10 ms: 7.9 ms of CPU time and 4 ms of the disk.
    let load = Load::of_usage(&trial(), &usage(), None, Some(1)).unwrap();
    assert!((load.overlap - (0.0079 + 0.004 - 0.010) / 0.0079).abs() < 0.01, "{load:?}");
}

#[test]
fn a_trial_that_tells_too_little_is_refused_with_the_reason() {
    let with = |change: fn(&mut Trial)| {
        let mut trial = trial();
        change(&mut trial);
        Load::of_usage(&trial, &Usage::default(), None, Some(1)).unwrap_err()
    };
    assert_eq!(with(|trial| trial.measurement = None), Unfit::Failed);
    assert_eq!(with(|trial| trial.validity = Validity::Failed("fio".into())), Unfit::Failed);
    assert_eq!(with(|trial| trial.measurement.as_mut().unwrap().outcome.metrics.clear()), Unfit::NoWork);
    assert_eq!(with(|trial| trial.measurement.as_mut().unwrap().roles.clear()), Unfit::NoCpuTime);
    let beside = with(|trial| {
        trial.measurement.as_mut().unwrap().roles.insert(Role::Beside, Nanos::from_millis(10));
    });
    assert_eq!(beside, Unfit::Beside);
    let of_trace = Some([(Role::Workload, 0.5), (Role::Beside, 0.5)].into());
    assert_eq!(Load::of_usage(&trial(), &usage(), of_trace, Some(1)).unwrap_err(), Unfit::Beside);
    let short = with(|trial| trial.measurement.as_mut().unwrap().duration = Nanos::from_millis(80));
    assert_eq!(short, Unfit::Short(Nanos::from_millis(80)));
    assert!(short.to_string().contains("80 ms") && short.to_string().contains("0.5 s"), "{short}");
}

#[test]
fn damaged_records_are_refused_or_bounded_and_nothing_overflows() {
    let with = |rate: f64, depth: u32, used: f64| {
        let mut trial = trial();
        trial.measurement.as_mut().unwrap().outcome.metrics.get_mut("iops").unwrap().value = rate;
        Load::of_usage(&trial, &usage(), Some([(Role::Workload, used)].into()), Some(depth))
    };
    assert_eq!(with(f64::INFINITY, 1, 0.5).unwrap_err(), Unfit::NoWork);
    assert_eq!(with(1e-300, 1, 0.5).unwrap_err(), Unfit::NoWork);
    let many = with(100.0, u32::MAX, 0.5).unwrap();
    assert_eq!(many.in_flight, 4096);
    let spec = machines().into_iter().find(|spec| spec.name == "lab").unwrap();
    let mut inventory = spec.inventory();
    inventory.kernel.hz = Some(0);
    inventory.cpus.online = domain::inventory::CpuList::parse("0-4095").unwrap();
    let machine = Machine::of(&inventory, &[]).unwrap();
    assert_eq!((machine.spec.hz, machine.spec.cpu.count), (250, 64));
    // More CPU time than there is: it does not fit, and that is seen.
    let greedy = with(0.01, 1, 1e12).unwrap();
    let replay = replay::Replay::new(Machine::of(&spec.inventory(), &[]).unwrap(), greedy).unwrap();
    assert!(!replay.fit().is_good(), "{:?}", replay.fit());
    for policy in &mut inventory.cpufreq.as_mut().unwrap().policies {
        policy.available = vec![domain::units::Hertz::from_khz(0)];
    }
    assert_eq!(Machine::of(&inventory, &[]), Err(UnknownMachine::Frequencies));
}

/// All machines that ship.
fn machines() -> Vec<MachineSpec> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/machines");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.map(|path| MachineSpec::parse(&std::fs::read_to_string(path).unwrap()).unwrap()).collect()
}

#[test]
fn the_machine_of_an_inventory_has_the_policies_of_what_was_looked_at() {
    let machines = machines();
    assert!(machines.len() > 10);
    let in_passive_mode = |spec: &MachineSpec| {
        let mut other = spec.clone();
        other.cpu.driver = spec.cpu.driver.in_mode("passive", spec.kernel)?;
        other.cpu.governor = "schedutil".into();
        Some(other)
    };
    let passive: Vec<MachineSpec> = machines.iter().filter_map(in_passive_mode).collect();
    assert!(!passive.is_empty());
    for spec in machines.into_iter().chain(passive) {
        let found = Machine::of(&spec.inventory(), &[]);
        if spec.cpu.driver == Driver::None {
            assert_eq!(found, Err(UnknownMachine::NoCpufreq), "{}", spec.name);
            continue;
        }
        let found = found.unwrap().spec;
        let of = |spec: &MachineSpec| {
            let cpu = &spec.cpu;
            let ends = (cpu.states.first().map(|s| s.frequency), cpu.states.last().map(|s| s.frequency));
            let idle: Vec<(String, u64)> =
                cpu.idle.iter().map(|s| (s.name.clone(), s.exit_latency_ns)).collect();
            (spec.kernel, spec.hz, cpu.count, cpu.driver, cpu.shared, cpu.frequency_invariant, ends, idle)
        };
        assert_eq!(of(&found), of(&spec), "{}", spec.name);
        assert_eq!(found.cpu.governor, spec.cpu.governor, "{}", spec.name);
    }
}

#[test]
fn a_driver_in_another_mode_begins_anew_and_its_governors_are_the_kernels() {
    let spec = machines().into_iter().find(|spec| spec.cpu.driver == Driver::IntelPstate).unwrap();
    let mut inventory = spec.inventory();
    let policy = &mut inventory.cpufreq.as_mut().unwrap().policies[0];
    policy.available_governors = vec!["performance".into(), "powersave".into()];
    policy.max = policy.hardware_min;
    let intel = inventory.cpufreq.as_mut().unwrap().intel_pstate.as_mut().unwrap();
    (intel.hwp, intel.hwp_dynamic_boost) = (Some(true), Some(true));
    inventory.kernel.release = Some("6.12.0".into());
    let record = |name: &str, got: &str| SettingRecord {
        setting: SettingName::parse(name),
        path: String::new(),
        before: String::new(),
        asked: got.into(),
        got: got.into(),
        after: None,
    };
    // As a ledger has them: the driver before its governor; a record may come in any order.
    let made = [record("governor", "ondemand"), record("intel_pstate.status", "passive")];
    let machine = Machine::of(&inventory, &made).unwrap();
    assert_eq!(
        (machine.spec.cpu.driver, machine.driver()),
        (Driver::IntelPstateHwp, Driver::IntelCpufreqHwp)
    );
    let names: Vec<(&str, &str)> =
        machine.in_force.iter().map(|one| (one.setting.name.as_str(), one.value.as_str())).collect();
    assert_eq!(names, [("intel_pstate.status", "passive"), ("governor", "ondemand")], "no limit is left");
    assert!(machine.governors.is_empty(), "those of the mode before are none of it");
    let off = Machine::of(&inventory, &[record("intel_pstate.status", "off")]);
    assert_eq!(off, Err(UnknownMachine::Mode("intel_pstate.status = off".into())));
    inventory.cpufreq.as_mut().unwrap().policies[0].driver = Some("amd-pstate".into());
    let amd = domain::inventory::AmdPstate { status: Some("guided".into()), prefcore: None };
    inventory.cpufreq.as_mut().unwrap().amd_pstate = Some(amd);
    let guided = Machine::of(&inventory, &[]).unwrap_err().to_string();
    assert!(
        guided.contains("amd_pstate.status = guided") && guided.contains("active and passive"),
        "{guided}"
    );
}

#[test]
fn what_a_trial_set_is_in_force_and_what_the_machine_had_is_at_rest() {
    let spec = machines().into_iter().find(|spec| spec.name == "lab").unwrap();
    let record = |name: &str, got: &str| SettingRecord {
        setting: SettingName::parse(name),
        path: String::new(),
        before: String::new(),
        asked: got.into(),
        got: format!("{got}\n"),
        after: None,
    };
    let made =
        [record("governor", "schedutil"), record("scheduler", "none"), record("ondemand.up_threshold", "40")];
    let machine = Machine::of(&spec.inventory(), &made).unwrap();
    let values = |settings: &[domain::setting::SettingRequest]| {
        settings.iter().map(|one| format!("{}={}", one.setting, one.value)).collect::<Vec<_>>().join(" ")
    };
    assert!(values(&machine.at_rest).contains("governor=ondemand"), "{}", values(&machine.at_rest));
    let in_force = values(&machine.in_force);
    assert!(in_force.contains("governor=schedutil") && in_force.contains("up_threshold=40"), "{in_force}");
    assert!(!in_force.contains("scheduler") && !in_force.contains("ondemand "), "{in_force}");
    let passive = [record("intel_pstate.status", "passive")];
    assert!(matches!(Machine::of(&spec.inventory(), &passive), Err(UnknownMachine::Mode(_))));
}
