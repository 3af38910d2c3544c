//! Runs of fio for the tests of rules: each cell a workload with its own options.

use crate::facts::case::Case;
use crate::facts::usage::Usage;
use crate::summarise::summarise;
use crate::summary::RunData;
use crate::testing::{run, study};
use domain::Nanos;
use domain::finding::Finding;
use domain::inventory::*;
use domain::lab::{LabAccount, Pacing, StateRecord, VcpuRecord};
use domain::setting::{SettingName, SettingRequest};
use domain::stack::{LayerSpec, StackSpec};
use domain::study::{Companion, Factor, Level, Tool, Workload};
use domain::trace::Role;
use domain::trial::{DiskTotals, ThreadTime};
use domain::units::{Bytes, Hertz};
use std::collections::BTreeMap;

/// fio's options, as `key=value` words.
pub fn options(words: &str) -> BTreeMap<String, String> {
    words.split_whitespace().filter_map(|w| w.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()
}

/// Direct random reads of 4 KiB at this depth.
pub fn with_depth(depth: &str) -> String {
    format!("rw=randread bs=4k direct=1 ioengine=libaio iodepth={depth}")
}

/// fio with these options beside a workload.
pub fn beside(words: &str) -> Companion {
    let load = Workload { name: "neighbour".into(), tool: Tool::Fio, options: options(words) };
    Companion { load, lead: Nanos::ZERO }
}

/// A run of fio workloads `w0`, `w1`, … with these options, eight blocks each.
pub fn fio_run(workloads: &[&str], outcome: impl Fn(usize, u32) -> Vec<(&'static str, f64)>) -> RunData {
    tool_run(&Tool::Fio, workloads, outcome)
}

/// The same of another tool.
pub fn tool_run(
    tool: &Tool,
    workloads: &[&str],
    outcome: impl Fn(usize, u32) -> Vec<(&'static str, f64)>,
) -> RunData {
    let mut study = study(&[("only", &["one"])]);
    study.factors.clear();
    let workload = |(index, words): (usize, &&str)| Workload {
        name: format!("w{index}"),
        tool: tool.clone(),
        options: options(words),
    };
    study.workloads = workloads.iter().enumerate().map(workload).collect();
    let mut data = run(study, 8, |_, _| vec![]);
    for trial in &mut data.trials {
        let index: usize = trial.workload[1..].parse().unwrap();
        let filled = crate::testing::valid(trial.key.clone(), &outcome(index, trial.key.block));
        trial.measurement = filled.measurement;
    }
    data
}

/// A run of one fio workload and a factor `f` whose levels set one setting.
pub fn setting_run(setting: &str, values: &[&str], outcome: impl Fn(usize, u32) -> f64) -> RunData {
    let mut study = study(&[]);
    study.workloads[0].options = options("rw=read bs=128k");
    let level = |value: &&str| Level {
        name: (*value).into(),
        options: BTreeMap::new(),
        settings: vec![SettingRequest { setting: SettingName::parse(setting), value: (*value).into() }],
        stack: domain::stack::Changes::new(),
        beside: Default::default(),
        kernel: None,
        machine: None,
        pstates: None,
    };
    study.factors =
        vec![Factor { name: "f".into(), levels: values.iter().map(level).collect(), workloads: vec![] }];
    run(study, 8, |levels, block| {
        let index = values.iter().position(|v| *v == levels["f"]).unwrap();
        vec![("throughput", outcome(index, block))]
    })
}

/// A value with a noise of about one percent that differs from cell to cell.
pub fn about(value: f64, cell: usize, block: u32) -> f64 {
    value * (1.0 + f64::from((block * 7 + cell as u32 * 5) % 11) / 1000.0)
}

/// What the lab recorded of a trial whose CPUs were below their highest frequency for so much of the time.
pub fn account(below: f64) -> LabAccount {
    let state = |mhz, share: f64| StateRecord {
        frequency: Hertz::from_mhz(mhz),
        clock: Some(Hertz::from_mhz(mhz)),
        time: Nanos::new((share * 1e9) as u64),
        busy: Nanos::new((share * 8e8) as u64),
        instructions: 1,
    };
    let cpu = VcpuRecord {
        cpu: 0,
        states: vec![state(2800, 1.0 - below), state(2100, below)],
        transitions: vec![],
        transitions_total: 0,
        idle: Vec::new(),
        requests: Vec::new(),
        late: Nanos::ZERO,
    };
    let pacing = Pacing { pace: 2e7, began: None, span: Nanos::from_secs(1), vcpus: vec![cpu], energy: None };
    LabAccount { dilation: 1.0, slowed: 1.0, pacing: Some(pacing), disks: vec![] }
}

/// What each trial read from the device.
pub fn with_device_reads(data: &mut RunData, device: &str, bytes: u64, busy: Nanos) {
    for trial in &mut data.trials {
        let totals = DiskTotals {
            device: device.into(),
            read_ios: bytes / 4096,
            read_sectors: bytes / 512,
            write_ios: 0,
            write_sectors: 0,
            busy,
            accesses: None,
            served: Default::default(),
            passage: None,
        };
        trial.measurement.as_mut().unwrap().disks = vec![totals];
    }
}

/// What a device did in a trial of one second: its name, reads, bytes read, writes, bytes written, and the
/// milliseconds in which it was busy.
pub type Work<'t> = (&'t str, u64, u64, u64, u64, u64);

/// The same in every trial.
pub fn with_work(data: &mut RunData, work: &[Work<'_>]) {
    let totals = |(device, reads, read, writes, written, busy_ms): &Work<'_>| DiskTotals {
        device: (*device).into(),
        read_ios: *reads,
        read_sectors: read / 512,
        write_ios: *writes,
        write_sectors: written / 512,
        busy: Nanos::from_millis(*busy_ms),
        accesses: None,
        served: Default::default(),
        passage: None,
    };
    for trial in &mut data.trials {
        trial.measurement.as_mut().unwrap().disks = work.iter().map(totals).collect();
    }
}

/// A value in every trial's environment.
pub fn with_environment(data: &mut RunData, values: &[(&str, &str)]) {
    for trial in &mut data.trials {
        trial
            .environment
            .extend(values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    }
}

/// A thread of every trial, which lasts a second, with the milliseconds of CPU time that it used.
pub fn with_thread(data: &mut RunData, name: &str, role: Role, used_ms: u64) {
    for trial in &mut data.trials {
        let cpu = Nanos::from_millis(used_ms);
        let measured = trial.measurement.as_mut().unwrap();
        measured.threads.push(ThreadTime { name: name.into(), tid: 7, role, cpu });
        measured.roles.insert(role, cpu);
    }
}

/// A machine with an array `md0` of disks `sda`, `sdb`, …, all of them in step.
pub fn with_array(md: Md, rotational: bool, members: &[&str]) -> Inventory {
    let mut machine = on_disk(rotational);
    let sda = machine.devices.pop().unwrap();
    let mut md0 = machine.devices.pop().unwrap();
    let member = |(slot, device): (u32, &&str)| MdMember {
        device: (*device).into(),
        slot: Some(slot),
        state: vec!["in_sync".into()],
    };
    md0.built_of = members.iter().map(|name| (*name).to_owned()).collect();
    md0.kind = BlockKind::Md(Box::new(Md { members: (0..).zip(members).map(member).collect(), ..md }));
    let disks = members.iter().map(|name| BlockDevice { name: (*name).into(), ..sda.clone() });
    machine.devices = std::iter::once(md0).chain(disks).collect();
    machine
}

/// A machine with `dm-0`, called `secret`, which encrypts the disk `sda`.
pub fn with_crypt(rotational: bool, cipher: &str, sector: u64, flags: &[&str]) -> Inventory {
    let mut machine = on_disk(rotational);
    machine.devices[1].transport = Some("sata".into());
    let crypt = Crypt {
        cipher: cipher.into(),
        key: None,
        sector: Bytes::new(sector),
        flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
    };
    machine.devices[0].name = "dm-0".into();
    machine.devices[0].kind = BlockKind::DeviceMapper(Box::new(DeviceMapper {
        name: Some("secret".into()),
        owner: Some("CRYPT-LUKS2".into()),
        targets: vec!["crypt".into()],
        crypt: Some(crypt),
        suspended: None,
    }));
    machine
}

/// One table of a study's storage: its name, and its keys with their values.
pub type Table<'t> = (&'t str, &'t [(&'t str, &'t str)]);

/// A run of one fio workload on storage of which a factor `f` varies one key, `array.bitmap`: the values, and
/// the throughput with each.
pub fn storage_run(tables: &[Table<'_>], path: &str, levels: &[(&str, f64)]) -> RunData {
    let names: Vec<&str> = levels.iter().map(|(value, _)| *value).collect();
    let mut study = study(&[("f", &names)]);
    study.workloads[0].options = options("rw=randwrite bs=4k direct=1 ioengine=libaio iodepth=32");
    let layer = |(name, values): &Table<'_>| LayerSpec {
        name: (*name).into(),
        values: values.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
    };
    study.stack = Some(StackSpec { layers: tables.iter().map(layer).collect() });
    for level in &mut study.factors[0].levels {
        level.options.clear();
        level.stack = [(path.to_owned(), level.name.clone())].into();
    }
    run(study, 8, |of, block| {
        let index = levels.iter().position(|(value, _)| of["f"] == *value).unwrap();
        vec![("throughput", about(levels[index].1, index, block))]
    })
}

/// Four small devices for a study's storage.
pub const FOUR_DISKS: Table<'_> = ("disks", &[("kind", "devices"), ("count", "4"), ("loop", "256MiB")]);

/// A RAID5 over them.
pub const RAID5: Table<'_> =
    ("array", &[("kind", "md"), ("on", "disks"), ("level", "5"), ("bitmap", "none"), ("resync", "skip")]);

/// The findings of one rule for a run, its machine known or not.
pub fn findings(
    rule: super::Rule,
    data: &RunData,
    inventory: Option<&Inventory>,
    target_device: Option<&str>,
) -> Vec<Finding> {
    let summary = summarise(data, None);
    (rule.run)(&Case { inventory, target_device, ..Case::new(data, &summary) })
}

/// The findings of one rule for a machine that was watched without a workload.
pub fn findings_of_usage(rule: super::Rule, usage: &Usage, inventory: Option<&Inventory>) -> Vec<Finding> {
    let data = fio_run(&["rw=read"], |_, _| vec![]);
    let usages = [(data.trials[0].key.clone(), usage.clone())];
    let summary = summarise(&data, None);
    (rule.run)(&Case { inventory, usages: &usages, ..Case::new(&data, &summary) })
}

/// The findings of a rule where a command was watched that used so many CPUs.
pub fn findings_of_command(rule: super::Rule, usage: &Usage, cpus: f64) -> Vec<Finding> {
    findings_with_roles(rule, usage, &[(Role::Workload, cpus)])
}

/// The findings of a rule where these roles used so many CPUs each.
pub fn findings_with_roles(rule: super::Rule, usage: &Usage, roles: &[(Role, f64)]) -> Vec<Finding> {
    let mut data = fio_run(&["rw=read"], |_, _| vec![]);
    let measured = data.trials[0].measurement.as_mut().unwrap();
    let used = |cpus: f64| Nanos::new((measured.duration.get() as f64 * cpus) as u64);
    measured.roles = roles.iter().map(|(role, cpus)| (*role, used(*cpus))).collect();
    let usages = [(data.trials[0].key.clone(), usage.clone())];
    let summary = summarise(&data, None);
    (rule.run)(&Case { usages: &usages, ..Case::new(&data, &summary) })
}

/// A machine with this governor, which has `performance` too.
pub fn watched(governor: &str) -> Inventory {
    machine_with(Policy {
        governor: Some(governor.into()),
        available_governors: vec!["performance".into(), governor.into()],
        ..Policy::default()
    })
}

/// A machine under this governor, with tunables of it that all policies share.
pub fn with_tunables(governor: &str, tunables: &[(&str, &str)]) -> Inventory {
    let mut machine = watched(governor);
    let tunables = tunables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    machine.cpufreq.as_mut().unwrap().tunables.insert(governor.into(), tunables);
    machine
}

/// A machine with an array `md0` of one disk `sda`.
pub fn on_disk(rotational: bool) -> Inventory {
    let mut machine = bare_machine();
    let mut sda = machine.devices.remove(0);
    sda.name = "sda".into();
    sda.queue = Some(Queue { rotational: Some(rotational), ..Queue::default() });
    let md0 = BlockDevice { name: "md0".into(), built_of: vec!["sda".into()], queue: None, ..sda.clone() };
    machine.devices = vec![md0, sda];
    machine
}

/// A machine of two CPUs with a disk `vda`, and nothing else.
pub fn bare_machine() -> Inventory {
    let vda = BlockDevice {
        name: "vda".into(),
        kind: BlockKind::Disk,
        built_of: vec![],
        number: None,
        size: Some(Bytes::from_mib(20 << 10)),
        read_only: None,
        removable: None,
        transport: None,
        model: None,
        serial: None,
        wwn: None,
        queue: Some(Queue { read_ahead: Some(Bytes::from_kib(128)), ..Queue::default() }),
        start: None,
        link: None,
        node: None,
    };
    Inventory {
        schema: SCHEMA,
        host: None,
        os: None,
        cpus: Cpus {
            online: CpuList::parse("0-1").unwrap(),
            present: None,
            cores: Some(2),
            packages: Some(1),
            threads_per_core: Some(1),
            smt_control: None,
            model: CpuModel::default(),
            core_types: vec![],
            nodes: vec![],
            base: None,
            max: None,
        },
        cpufreq: None,
        frequency_sources: vec![],
        cpuidle: None,
        kernel: Kernel::default(),
        memory: Memory { total: Some(Bytes::from_mib(4 << 10)), ..Memory::default() },
        devices: vec![vda],
        mounts: vec![],
        power: Power::default(),
        virtualisation: Virtualisation::default(),
        rivals: vec![],
        absent: vec![],
    }
}

/// The same with one frequency policy.
pub fn machine_with(policy: Policy) -> Inventory {
    let cpufreq = Cpufreq {
        policies: vec![policy],
        intel_pstate: None,
        amd_pstate: None,
        boost: None,
        frequency_invariant: None,
        tunables: BTreeMap::new(),
    };
    Inventory { cpufreq: Some(cpufreq), ..bare_machine() }
}
