//! A run in the lab: the governors of an encrypted volume, with the figures of a real one.

use super::{Case, bare, factor, measured, study, trace};
use domain::calls::{Call, Called, Calls, WithBios};
use domain::lab::{DiskService, Lab, LabAccount, Pacing, StateRecord, VcpuRecord};
use domain::passage::{Bios, Given, Passage, Passed};
use domain::plan::Plan;
use domain::profile::{Interrupts, Profile, Subsystem};
use domain::request::Op;
use domain::rng::Seed;
use domain::setting::{SettingName, SettingRecord};
use domain::spent::{Spent, Wait};
use domain::time::Nanos;
use domain::took::Took;
use domain::trace::{FrequencySource, Role};
use domain::trial::{DiskTotals, Provenance};
use domain::units::{Bytes, Hertz, Microjoules};
use domain::windows::{GovernorWindows, Windows};
use report::TraceView;
use std::collections::BTreeMap;

const MHZ: [u64; 4] = [2800, 2100, 1400, 350];

/// Shares of the time in each state.
fn shares(governor: &str) -> [f64; 4] {
    match governor {
        "performance" => [1.0, 0.0, 0.0, 0.0],
        "ondemand" => [0.36, 0.31, 0.21, 0.12],
        _ => [0.27, 0.33, 0.26, 0.14],
    }
}

/// Two seconds of the machine's own, twenty times as long in the guest, from 0.2 s on.
pub fn account(governor: &str, dilation: f64) -> LabAccount {
    let span_s = 1.8 * dilation;
    let of = |seconds: f64| Nanos::new((seconds * 1e9) as u64);
    let shares = shares(governor);
    let state = |(mhz, share): (&u64, &f64)| StateRecord {
        frequency: Hertz::from_mhz(*mhz),
        clock: Some(Hertz::from_mhz(*mhz)),
        time: of(share * span_s),
        busy: of(share * span_s * 0.81),
        instructions: (share * span_s * 0.81 * 2e7 * *mhz as f64 / 2800.0) as u64,
    };
    let states: Vec<StateRecord> =
        MHZ.iter().zip(&shares).map(state).filter(|s| s.time > Nanos::ZERO).collect();
    let mut transitions = Vec::new();
    let mut at = 0.0;
    for round in 0..12 {
        for (mhz, share) in MHZ.iter().zip(&shares).filter(|(_, share)| **share > 0.0) {
            if round == 0 || states.len() > 1 {
                transitions.push((of(at), Hertz::from_mhz(*mhz)));
            }
            at += share * span_s / 12.0;
        }
    }
    let energy =
        states.iter().map(|s| s.busy.secs() * 20.0 * (s.frequency.mhz() / 2800.0).powi(2)).sum::<f64>();
    LabAccount {
        dilation,
        slowed: 1.0,
        pacing: Some(Pacing {
            pace: 2e7,
            began: Some(of(0.2 * dilation)),
            span: of(span_s),
            vcpus: vec![VcpuRecord {
                cpu: 0,
                states,
                transitions_total: transitions.len() as u64,
                idle: Vec::new(),
                requests: Vec::new(),
                transitions,
                late: of(span_s * 0.004),
            }],
            energy: Some(Microjoules::new((energy * 1e6) as u64)),
        }),
        disks: vec![DiskService {
            disk: "ssd".into(),
            requests: 300,
            modelled: of(0.3 * dilation),
            late: of(0.006),
            latest: of(0.0011),
        }],
    }
}

/// What ondemand saw in 180 windows of 10 ms, most of them at half the threshold.
fn windows() -> GovernorWindows {
    let mut windows = Windows::default();
    for (mhz, counts) in [(2800, [4, 31, 22]), (1400, [12, 68, 9]), (350, [20, 14, 0])] {
        for (percent, count) in [32, 48, 97].into_iter().zip(counts) {
            let of = Nanos::from_millis(10);
            let busy = Nanos::new(of.get() * percent / 100);
            (0..count).for_each(|_| windows.add(Some(mhz * 1000), of, busy));
        }
    }
    GovernorWindows { threshold: Some(95.0), cpus: [(0, windows)].into(), ..GovernorWindows::default() }
}

/// A second of a CPU, most of it encryption on behalf of whoever reads.
fn profile() -> Profile {
    let of = [
        ((Role::Workload, Subsystem::User), 31),
        ((Role::Workload, Subsystem::Vfs), 54),
        ((Role::Workload, Subsystem::Block), 88),
        ((Role::Crypt, Subsystem::Crypt), 702),
        ((Role::Crypt, Subsystem::Scheduler), 43),
        ((Role::Workload, Subsystem::Interrupt), 58),
        ((Role::Crypt, Subsystem::Interrupt), 3),
        ((Role::Interrupt, Subsystem::Interrupt), 21),
    ];
    let interrupts = Interrupts {
        held_off: [(Subsystem::User, 38), (Subsystem::Interrupt, 20), (Subsystem::Crypt, 3)].into(),
        unsampled: 4,
        handlers: [("25 virtio0-request".to_owned(), Nanos::from_millis(48))].into(),
    };
    Profile {
        period: Nanos::from_millis(1),
        samples: of.into(),
        interrupts: Some(interrupts),
        ..Profile::default()
    }
}

/// A layer that is read: one read in a hundred could not be followed. Means in µs: before, below, after.
fn layer(device: &str, onto: &[&str], requests: u64, [before, below, after]: [u64; 3]) -> DiskTotals {
    let given = Given {
        bios: Bios { count: 20_000, sectors: 160_000 },
        followed: 19_800,
        made: Bios { count: 19_800, sectors: 158_400 },
        before: Nanos::from_micros(before * 19_800),
        below: Nanos::from_micros(below * 19_800),
        between: Nanos::ZERO,
        after: Nanos::from_micros(after * 19_800),
    };
    let share = onto.len() as u64;
    let passed =
        Passed { bios: Bios { count: 20_000 / share, sectors: 160_000 / share }, requests: requests / share };
    DiskTotals {
        device: device.into(),
        read_ios: 20_000,
        read_sectors: 160_000,
        write_ios: 0,
        write_sectors: 0,
        busy: Nanos::from_secs(1),
        accesses: None,
        served: BTreeMap::new(),
        passage: Some(Passage {
            given: [(Op::Read, given)].into(),
            passed: onto.iter().map(|to| (((*to).to_owned(), Op::Read), passed)).collect(),
        }),
    }
}

/// An encrypted volume on an array of two disks, which come in the order of `/proc/diskstats`.
fn volume() -> Vec<DiskTotals> {
    vec![layer("md0", &["sda", "sdb"], 19_800, [1, 446, 3]), layer("dm-0", &["md0"], 0, [5, 450, 745])]
}

/// Writes into the page cache, and syncs that wait for the journal.
fn calls() -> Calls {
    let took = |count: u64, each: u64| {
        let mut took = Took::default();
        (0..count).for_each(|_| took.add(each));
        took
    };
    let us = |count: u64, each: u64| Nanos::new(count * each * 1000);
    let write = Called {
        count: 4001,
        failed: 1,
        bytes: Bytes::new(4000 << 12),
        took: took(4000, 12_000),
        spent: Spent { cpu_ns: us(4000, 12).get(), ..Spent::default() },
        ..Called::default()
    };
    let mut waits = [0; Wait::ALL.len()];
    waits[Wait::Io as usize] = us(1000, 400).get();
    waits[Wait::Thread as usize] = us(1000, 560).get();
    let sync = Called {
        count: 1000,
        took: took(1000, 1_000_000),
        spent: Spent {
            cpu_ns: us(1000, 30).get(),
            ready_ns: us(1000, 10).get(),
            wait_ns: waits,
            switches: 3000,
        },
        woken_by: [(Role::Journal, us(1000, 500)), (Role::Kworker, us(1000, 60))].into(),
        with_bios: WithBios {
            count: 990,
            bios: Bios { count: 1980, sectors: 31_680 },
            followed: 990,
            before: us(990, 15),
            below: us(990, 420),
            between: us(990, 5),
            after: us(990, 560),
        },
        ..Called::default()
    };
    let queued = |role, count, sectors| (("dm-0".to_owned(), role, Op::Write), Bios { count, sectors });
    Calls {
        of: [
            ((Role::Workload, Call::Pwrite), write.clone()),
            ((Role::Workload, Call::Fdatasync), sync),
            ((Role::Other, Call::Write), write),
        ]
        .into(),
        queued: Some([queued(Role::Workload, 1980, 31_680), queued(Role::Journal, 3000, 24_000)].into()),
    }
}

/// One factor, three governors, time dilation 20.
pub fn lab() -> Case {
    let mut study = study(
        "crypt-governors",
        "What does the governor take from an encrypted volume?",
        &["read"],
        vec![factor("governor", &["performance", "ondemand", "schedutil"], &[])],
    );
    study.lab = Lab { pstates: Some("xeon-e5".into()), ..Lab::default() };
    let plan = Plan::new(study.clone(), Seed(3)).unwrap();
    let mut trials = measured(&plan, 6, 0.01, |cell| match cell.levels["governor"].as_str() {
        "performance" => 57e6,
        "ondemand" => 46e6,
        _ => 41e6,
    });
    for trial in &mut trials {
        let governor = trial.levels["governor"].clone();
        trial.provenance = Provenance::Lab;
        trial.environment.insert("kernel".into(), "6.1.0-44-amd64".into());
        let account = account(&governor, 20.0);
        let metric = domain::lab::energy_metric(&account).unwrap();
        let outcome = &mut trial.measurement.as_mut().unwrap().outcome;
        let pacing = account.pacing.as_ref().unwrap();
        let watts = pacing.energy.unwrap().joules() / pacing.span.secs();
        let power = domain::per_work::metric("power", watts).unwrap();
        outcome.metrics.insert(domain::lab::ENERGY_MODELLED.into(), metric);
        outcome.metrics.insert("power".into(), power);
        domain::per_work::add(&mut outcome.metrics);
        trial.lab = Some(account);
        let measured = trial.measurement.as_mut().unwrap();
        measured.windows = (governor == "ondemand").then(windows);
        measured.profile = (governor != "schedutil").then(profile);
        measured.disks = if governor == "ondemand" { volume() } else { vec![] };
        measured.calls = (governor == "ondemand").then(calls);
        trial.settings = vec![SettingRecord {
            setting: SettingName::parse("governor@policy0"),
            path: "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor".into(),
            before: "performance".into(),
            asked: governor.clone(),
            got: governor.clone(),
            after: Some(governor),
        }];
    }
    let mut case = bare(study, &plan, trials, "performance is better than ondemand and schedutil.");
    case.data.run.provenance = Provenance::Lab;
    case.traces = (case.data.trials.iter().take(3).enumerate())
        .map(|(i, trial)| {
            // A row each 200 ms of the guest is one each 10 ms of the machine.
            let mut trace = trace(i as u64, 200, FrequencySource::ScalingCurFreq);
            trace.times.iter_mut().for_each(|at| *at = Nanos::new(at.get() * 20));
            trace.head.interval = Nanos::from_millis(200);
            (trial.key.clone(), TraceView::of_lab(&trace, trial.lab.as_ref().unwrap()))
        })
        .collect();
    case
}
