//! Findings of one case do not contradict each other, whatever the machine and the load.

use super::testing::*;
use super::{RULES, explain};
use crate::facts::case::Case;
use crate::facts::usage::*;
use crate::summarise::summarise;
use crate::summary::RunData;
use domain::Nanos;
use domain::finding::Finding;
use domain::inventory::*;
use domain::outcome::{Better, Metric};
use domain::rng::{Rng, Seed};
use domain::setting::{SettingName, SettingRequest};
use domain::trace::Role;
use domain::units::{Bytes, Hertz, Unit};
use std::collections::{BTreeMap, BTreeSet};

fn one<T: Copy>(of: &[T], rng: &mut Rng) -> T {
    of[rng.below(of.len())]
}

fn some_policy(rng: &mut Rng) -> Policy {
    let governor = one(&["ondemand", "conservative", "schedutil", "powersave", "performance"], rng);
    Policy {
        cpus: CpuList::parse("0-1").unwrap(),
        driver: Some(one(&["acpi-cpufreq", "intel_pstate", "intel_cpufreq"], rng).into()),
        governor: Some(governor.into()),
        available_governors: vec!["performance".into(), governor.into()],
        max: Some(Hertz::from_mhz(one(&[2000, 3500], rng))),
        hardware_max: Some(Hertz::from_mhz(3500)),
        base: Some(Hertz::from_mhz(2400)),
        epp: one(&[None, Some("power"), Some("balance_performance")], rng).map(str::to_owned),
        epb: vec![one(&[6, 15], rng)],
        ..Policy::default()
    }
}

/// A machine with an array of two disks, encryption on it, and settings of any kind.
fn some_machine(rng: &mut Rng) -> Inventory {
    let level = one(&["raid0", "raid1", "raid5", "raid6", "raid10"], rng);
    let md = Md {
        level: Some(level.into()),
        layout: Some("near=2".into()),
        chunk: Some(Bytes::from_kib(64)),
        raid_disks: Some(2),
        degraded: Some(one(&[0, 1], rng)),
        bitmap: Some(one(&["none", "+8"], rng).into()),
        stripe_cache_size: Some(one(&[256, 8192], rng)),
        group_thread_count: Some(0),
        ..Md::default()
    };
    let mut machine = with_array(md, one(&[true, false], rng), &["sda", "sdb"]);
    let mut crypt = with_crypt(false, "aes-xts-plain64", one(&[512, 4096], rng), &[]).devices.swap_remove(0);
    crypt.built_of = vec!["md0".into()];
    machine.devices.push(crypt);
    for device in &mut machine.devices {
        device.queue = Some(Queue {
            rotational: Some(one(&[true, false], rng)),
            scheduler: Some(one(&["none", "bfq"], rng).into()),
            nr_requests: Some(64),
            read_ahead: Some(Bytes::from_kib(one(&[128, 4096], rng))),
            physical_block: Some(Bytes::new(4096)),
            ..Queue::default()
        });
    }
    let policy = some_policy(rng);
    let tunables =
        [("up_threshold", "95"), ("sampling_rate", "10000"), ("io_is_busy", one(&["0", "1"], rng))];
    let tunables: BTreeMap<String, String> =
        tunables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let named = ["ondemand", "conservative"].map(|name| (name.to_owned(), tunables.clone()));
    let mut cpufreq = machine_with(policy).cpufreq.unwrap();
    cpufreq.tunables = named.into();
    cpufreq.boost = Some(one(&[true, false], rng));
    cpufreq.intel_pstate = Some(IntelPstate {
        status: Some("active".into()),
        no_turbo: Some(one(&[true, false], rng)),
        hwp_dynamic_boost: Some(false),
        min_perf: None,
        max_perf: None,
        hwp: Some(true),
    });
    let state = IdleState {
        index: 2,
        name: "C6".into(),
        description: None,
        latency: Some(Nanos::from_micros(133)),
        residency: None,
        cpus: CpuList::parse("0-1").unwrap(),
        disabled: CpuList::default(),
    };
    let idle = Cpuidle { driver: None, governor: None, available_governors: vec![], states: vec![state] };
    machine.kernel.sysctls.insert("vm.dirty_background_ratio".into(), "10".into());
    Inventory { cpufreq: Some(cpufreq), cpuidle: Some(idle), ..machine }
}

fn some_usage(rng: &mut Rng) -> Usage {
    let cpu = |rng: &mut Rng| CpuUsage {
        user: 0.9 * rng.unit(),
        interrupts: 0.5 * rng.unit(),
        iowait: 0.5 * rng.unit(),
        ..CpuUsage::default()
    };
    Usage {
        machine: Some(cpu(rng)),
        cpus: vec![(0, cpu(rng)), (1, cpu(rng))],
        awake: vec![(0, Awake { share: rng.unit(), hertz: 3e9 * rng.unit() })],
        idle: vec![(2, Idling { entries: 9000.0 * rng.unit(), cpus: 1.0 })],
        unwritten: Some(Unwritten { slowed: rng.unit(), most: rng.unit() }),
        disks: vec![DiskUsage { device: "sda".into(), busy: rng.unit(), ..DiskUsage::default() }],
        pressure: Pressure { cpu: None, io: Some(rng.unit()), memory: Some(rng.unit()) },
        ..Usage::default()
    }
}

/// Trials of two workloads that did anything to the machine's devices.
fn some_trials(rng: &mut Rng) -> RunData {
    let options = |rng: &mut Rng| {
        format!(
            "rw={} bs={} direct={} ioengine={} iodepth={}",
            one(&["read", "randread", "write", "randwrite"], rng),
            one(&["512", "4k", "1m"], rng),
            one(&["0", "1"], rng),
            one(&["psync", "libaio"], rng),
            one(&["1", "1", "200"], rng)
        )
    };
    let workloads = [options(rng), options(rng)];
    let rates = [1e7 * (1.0 + 9.0 * rng.unit()), 1e7 * (1.0 + 9.0 * rng.unit())];
    let mut data = fio_run(&[&workloads[0], &workloads[1]], |cell, block| {
        let rate = about(rates[cell], cell, block);
        vec![("throughput", rate), ("read_throughput", rate), ("iops", rate / 4096.0), ("latency_p50", 2e-4)]
    });
    let work = |device, rng: &mut Rng| {
        let (reads, writes) = (rng.below(900) as u64, rng.below(900) as u64);
        let size = one(&[4096, 1 << 20], rng);
        (device, reads, reads * size, writes, writes * 4096, rng.below(1000) as u64)
    };
    let did = ["md0", "dm-0", "sda", "sdb"].map(|device| work(device, rng));
    with_work(&mut data, &did);
    with_thread(&mut data, "fio", Role::Workload, rng.below(1000) as u64);
    with_thread(&mut data, "md0_raid5", Role::Array, rng.below(1000) as u64);
    with_thread(&mut data, "kworker/u8:1-kcryptd", Role::Crypt, rng.below(1000) as u64);
    with_environment(&mut data, &[("device", one(&["md0", "dm-0", "sda"], rng))]);
    data
}

fn settings(findings: &[Finding]) -> Vec<(&'static str, SettingRequest)> {
    let of = |finding: &Finding| -> Vec<(&'static str, SettingRequest)> {
        let all = finding.remedy.as_ref().map_or(&[][..], |remedy| remedy.settings.as_slice());
        all.iter().map(|setting| (finding.rule, setting.clone())).collect()
    };
    findings.iter().flat_map(of).collect()
}

/// Why two settings cannot both be in force, or the one makes the other pointless.
fn contradict(a: &SettingRequest, b: &SettingRequest) -> Option<String> {
    let meets = |a: &SettingName, b: &SettingName| {
        a.name == b.name && (a.object == b.object || a.object.is_none() || b.object.is_none())
    };
    let values = meets(&a.setting, &b.setting) && a.value != b.value;
    let is_tunable_of_another = |governor: &SettingRequest, tunable: &SettingRequest| {
        let owner = tunable.setting.name.split_once('.').map(|(owner, _)| owner);
        let rules = ["ondemand", "conservative", "schedutil"];
        governor.setting.name == "governor"
            && owner.is_some_and(|owner| rules.contains(&owner) && owner != governor.value)
    };
    let pointless = is_tunable_of_another(a, b) || is_tunable_of_another(b, a);
    (values || pointless).then(|| format!("`{a}` and `{b}`"))
}

#[test]
fn no_two_findings_propose_settings_that_contradict_each_other() {
    let mut rng = Seed(20_261_126).stream("contradictions");
    let mut proposing: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..1500 {
        let (machine, data) = (some_machine(&mut rng), some_trials(&mut rng));
        let summary = summarise(&data, None);
        let usages = [(data.trials[0].key.clone(), some_usage(&mut rng))];
        let watched = if rng.below(2) == 0 { &usages[..] } else { &[] };
        let case = Case {
            inventory: Some(&machine),
            target_device: Some("md0"),
            usages: watched,
            ..Case::new(&data, &summary)
        };
        let findings = explain(&case);
        let all = settings(&findings);
        all.iter().for_each(|(rule, _)| *proposing.entry(rule).or_default() += 1);
        for (index, (rule, setting)) in all.iter().enumerate() {
            for (other, against) in &all[index + 1..] {
                let why = contradict(setting, against);
                assert_eq!(why, None, "{rule} against {other}: {machine:#?}");
            }
        }
    }
    for rule in
        ["governor", "io-is-busy", "sampling-window", "low-frequency", "hwp-dynamic-boost", "energy-bias"]
            .into_iter()
            .chain(["cpu-at-limit", "frequency-capped", "idle-exit-latency", "stripe-cache", "request-slots"])
            .chain(["read-ahead-too-large", "dirty-limit", "one-thread-at-limit"])
    {
        let count = proposing.get(rule).copied().unwrap_or(0);
        assert!(count >= 10, "{rule} proposed hardly anything: {proposing:?}");
        assert!(RULES.iter().any(|known| known.name == rule));
    }
}

/// What looks ill and has nothing to do: each of these is a finding beside load.
#[test]
fn an_idle_machine_is_told_of_its_configuration_and_of_nothing_else() {
    let md = Md { level: Some("raid5".into()), degraded: Some(1), ..Md::default() };
    let policy = Policy {
        governor: Some("ondemand".into()),
        base: Some(Hertz::from_mhz(2400)),
        epb: vec![15],
        cpus: CpuList::parse("0-1").unwrap(),
        ..Policy::default()
    };
    let mut machine = with_array(md, true, &["sda", "sdb"]);
    machine.cpufreq = machine_with(policy).cpufreq;
    machine.kernel.clocksource = Some("hpet".into());
    let mut data = fio_run(&["rw=randread bs=4k"], |cell, block| {
        vec![("throughput", about(4096.0, cell, block)), ("iops", 1.0), ("latency_p50", 2e-4)]
    });
    let did = |device| (device, 1, 4096, 1, 4096, 9);
    with_work(&mut data, &[did("md0"), did("sda"), did("sdb")]);
    with_thread(&mut data, "fio", Role::Workload, 2);
    let busy = Metric { value: 0.01, unit: Unit::Share, better: Better::Lower };
    for trial in &mut data.trials {
        let metrics = &mut trial.measurement.as_mut().unwrap().outcome.metrics;
        metrics.insert(domain::outcome::CPU_BUSY.into(), busy.clone());
    }
    let usage = Usage {
        machine: Some(CpuUsage { user: 0.01, ..CpuUsage::default() }),
        awake: vec![(0, Awake { share: 0.01, hertz: 8e8 })],
        idle: vec![(2, Idling { entries: 30.0, cpus: 2.0 })],
        unwritten: Some(Unwritten { slowed: 0.0, most: 0.01 }),
        disks: vec![DiskUsage { device: "sda".into(), busy: 0.01, ..DiskUsage::default() }],
        ..Usage::default()
    };
    let usages = [(data.trials[0].key.clone(), usage)];
    let summary = summarise(&data, None);
    let case = Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) };
    let rules: BTreeSet<&str> = explain(&case).into_iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, BTreeSet::from(["array-at-risk", "governor"]));
}
