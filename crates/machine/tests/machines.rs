//! The inventory of recorded machines, held against facts that were looked up in their files with grep and
//! awk.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use domain::inventory::{CoreKind, Inventory, Policy};
use domain::trace::FrequencySource;
use domain::units::{Bytes, Hertz};
use machine::RecordedMachine;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/machines").join(name)
}

fn inventory(name: &str) -> Inventory {
    machine::inventory::take(&RecordedMachine::open(folder(name)).unwrap()).unwrap()
}

fn policies(inventory: &Inventory) -> &[Policy] {
    &inventory.cpufreq.as_ref().unwrap().policies
}

/// What a whole machine has in common.
struct Facts {
    name: &'static str,
    model: &'static str,
    microcode: &'static str,
    cpus: usize,
    cores: u32,
    packages: u32,
    nodes: usize,
    driver: &'static str,
    governor: &'static str,
    epp: Option<&'static str>,
    epb: &'static [u8],
    idle_driver: &'static str,
    idle_states: &'static [&'static str],
}

const MACHINES: [Facts; 11] = [
    Facts {
        name: "adl0",
        model: "12th Gen Intel(R) Core(TM) i7-1260P",
        microcode: "0x437",
        cpus: 16,
        cores: 12,
        packages: 1,
        nodes: 1,
        driver: "intel_pstate",
        governor: "powersave",
        epp: Some("balance_performance"),
        epb: &[7],
        idle_driver: "intel_idle",
        idle_states: &["POLL", "C1E", "C6", "C8", "C10"],
    },
    Facts {
        name: "arl-h-1",
        model: "Genuine Intel(R) 0000",
        microcode: "0x118",
        cpus: 14,
        cores: 14,
        packages: 1,
        nodes: 1,
        driver: "intel_pstate",
        governor: "powersave",
        epp: Some("balance_performance"),
        epb: &[6],
        idle_driver: "intel_idle",
        idle_states: &["POLL", "C1_ACPI", "C2_ACPI", "C3_ACPI"],
    },
    Facts {
        name: "bdwep0",
        model: "Intel(R) Xeon(R) CPU E5-2699A v4 @ 2.40GHz",
        microcode: "0xb000040",
        cpus: 88,
        cores: 44,
        packages: 2,
        nodes: 4,
        driver: "intel_cpufreq",
        governor: "schedutil",
        epp: None,
        epb: &[7],
        idle_driver: "intel_idle",
        idle_states: &["POLL", "C1", "C1E", "C3", "C6"],
    },
    Facts {
        name: "clx2s0",
        model: "Intel(R) Xeon(R) Platinum 8260L CPU @ 2.40GHz",
        microcode: "0x400001c",
        cpus: 96,
        cores: 48,
        packages: 2,
        nodes: 2,
        driver: "intel_pstate",
        governor: "powersave",
        epp: Some("balance_performance"),
        epb: &[7],
        idle_driver: "intel_idle",
        idle_states: &["POLL", "C1", "C1E", "C6"],
    },
    Facts {
        name: "dell-9360-kbl",
        model: "Intel(R) Core(TM) i7-7500U CPU @ 2.70GHz",
        microcode: "0xf6",
        cpus: 4,
        cores: 2,
        packages: 1,
        nodes: 1,
        driver: "intel_pstate",
        governor: "powersave",
        epp: Some("balance_performance"),
        epb: &[6],
        idle_driver: "intel_idle",
        idle_states: &["POLL", "C1", "C1E", "C3", "C6", "C7s", "C8", "C9", "C10"],
    },
    Facts {
        name: "dell-latitude-5420-tgl",
        model: "11th Gen Intel(R) Core(TM) i7-1185G7 @ 3.00GHz",
        microcode: "0x9a",
        cpus: 8,
        cores: 4,
        packages: 1,
        nodes: 1,
        driver: "intel_pstate",
        governor: "powersave",
        epp: Some("balance_performance"),
        epb: &[6],
        idle_driver: "intel_idle",
        idle_states: &["POLL", "C1_ACPI", "C2_ACPI", "C3_ACPI"],
    },
    Facts {
        name: "hswep0",
        model: "Intel(R) Xeon(R) CPU E5-2697 v3 @ 2.60GHz",
        microcode: "0x49",
        cpus: 56,
        cores: 28,
        packages: 2,
        nodes: 2,
        driver: "intel_cpufreq",
        governor: "schedutil",
        epp: None,
        epb: &[7],
        idle_driver: "intel_idle",
        idle_states: &["POLL", "C1", "C1E", "C3", "C6"],
    },
    Facts {
        name: "ivbep1",
        model: "Intel(R) Xeon(R) CPU E5-2697 v2 @ 2.70GHz",
        microcode: "0x42e",
        cpus: 48,
        cores: 24,
        packages: 2,
        nodes: 2,
        driver: "intel_cpufreq",
        governor: "schedutil",
        epp: None,
        epb: &[],
        idle_driver: "intel_idle",
        idle_states: &["POLL", "C1", "C1E", "C3", "C6"],
    },
    Facts {
        name: "milan0",
        model: "AMD EPYC 7543 32-Core Processor",
        microcode: "0xa0011d5",
        cpus: 128,
        cores: 64,
        packages: 2,
        nodes: 2,
        driver: "acpi-cpufreq",
        governor: "schedutil",
        epp: None,
        epb: &[],
        idle_driver: "acpi_idle",
        idle_states: &["POLL", "C1", "C2"],
    },
    Facts {
        name: "spr1",
        model: "Intel(R) Xeon(R) Platinum 8460H",
        microcode: "0x2b000603",
        cpus: 320,
        cores: 160,
        packages: 4,
        nodes: 4,
        driver: "intel_pstate",
        governor: "powersave",
        epp: Some("balance_performance"),
        epb: &[6],
        idle_driver: "intel_idle",
        idle_states: &["POLL", "C1", "C1E", "C6"],
    },
    Facts {
        name: "turin0",
        model: "AMD EPYC 9555 64-Core Processor",
        microcode: "0xb00215a",
        cpus: 256,
        cores: 128,
        packages: 2,
        nodes: 2,
        driver: "amd-pstate-epp",
        governor: "performance",
        epp: Some("performance"),
        epb: &[],
        idle_driver: "acpi_idle",
        idle_states: &["POLL", "C1", "C2"],
    },
];

#[test]
fn every_recorded_machine_has_the_processors_that_its_files_show() {
    for facts in MACHINES {
        let cpus = inventory(facts.name).cpus;
        assert_eq!(cpus.model.name.as_deref(), Some(facts.model), "{}", facts.name);
        assert_eq!(cpus.model.microcode.as_deref(), Some(facts.microcode), "{}", facts.name);
        assert_eq!(cpus.online.len(), facts.cpus, "{}", facts.name);
        assert_eq!(cpus.cores, Some(facts.cores), "{}", facts.name);
        assert_eq!(cpus.packages, Some(facts.packages), "{}", facts.name);
        assert_eq!(cpus.nodes.len(), facts.nodes, "{}", facts.name);
        let threads = if facts.name == "arl-h-1" { 1 } else { 2 };
        assert_eq!(cpus.threads_per_core, Some(threads), "{}", facts.name);
    }
}

#[test]
fn every_recorded_machine_has_the_policies_that_its_files_show() {
    for facts in MACHINES {
        let inventory = inventory(facts.name);
        assert_eq!(policies(&inventory).len(), facts.cpus, "{}", facts.name);
        for policy in policies(&inventory) {
            let name = format!("{} policy{}", facts.name, policy.id);
            assert_eq!(policy.cpus.to_string(), policy.id.to_string(), "{name}");
            assert_eq!(policy.driver.as_deref(), Some(facts.driver), "{name}");
            assert_eq!(policy.governor.as_deref(), Some(facts.governor), "{name}");
            assert_eq!(policy.epp.as_deref(), facts.epp, "{name}");
            assert_eq!(policy.epb, facts.epb, "{name}");
            assert_eq!(policy.is_capped(), Some(false), "{name}");
        }
    }
}

#[test]
fn every_recorded_machine_has_the_idle_states_that_its_files_show() {
    for facts in MACHINES {
        let inventory = inventory(facts.name);
        let idle = inventory.cpuidle.as_ref().unwrap();
        assert_eq!(idle.driver.as_deref(), Some(facts.idle_driver), "{}", facts.name);
        assert_eq!(idle.governor.as_deref(), Some("menu"), "{}", facts.name);
        let names: Vec<&str> = idle.states.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, facts.idle_states, "{}", facts.name);
        assert!(idle.states.iter().all(|s| s.cpus == inventory.cpus.online), "{}", facts.name);
        // On hswep0 C3 is switched off on all 56 CPUs, and nothing else is anywhere.
        let off: Vec<&str> =
            idle.states.iter().filter(|s| !s.disabled.is_empty()).map(|s| s.name.as_str()).collect();
        assert_eq!(off, if facts.name == "hswep0" { vec!["C3"] } else { vec![] }, "{}", facts.name);
        assert!(idle.states.iter().all(|s| s.disabled.is_empty() || s.disabled == s.cpus));
    }
}

#[test]
fn hybrid_processors_tell_their_kinds_of_cores_apart() {
    let kinds = |name: &str| -> Vec<_> {
        let types = inventory(name).cpus.core_types.into_iter();
        types
            .map(|t| (t.kind, t.cpus.to_string(), t.cores, t.base.map(Hertz::khz), t.max.map(Hertz::khz)))
            .collect()
    };
    assert_eq!(
        kinds("adl0"),
        [
            (CoreKind::Performance, "0-7".into(), Some(4), Some(2_100_000), Some(4_700_000)),
            (CoreKind::Efficient, "8-15".into(), Some(8), Some(1_500_000), Some(3_400_000)),
        ]
    );
    assert_eq!(
        kinds("arl-h-1"),
        [
            (CoreKind::Performance, "0-3".into(), Some(4), Some(2_300_000), Some(4_500_000)),
            (CoreKind::Efficient, "4-11".into(), Some(8), Some(1_400_000), Some(3_900_000)),
            (CoreKind::LowPower, "12-13".into(), Some(2), Some(700_000), Some(2_500_000)),
        ]
    );
    assert!(kinds("spr1").is_empty());
}

#[test]
fn intel_pstate_tells_its_mode_and_whether_the_processor_chooses() {
    let of = |name| inventory(name).cpufreq.unwrap().intel_pstate.unwrap();
    let active = of("clx2s0");
    assert_eq!((active.status.as_deref(), active.hwp), (Some("active"), Some(true)));
    assert_eq!((active.no_turbo, active.hwp_dynamic_boost), (Some(false), Some(true)));
    assert_eq!((active.min_perf.map(|r| r.get()), active.max_perf.map(|r| r.get())), (Some(0.25), Some(1.0)));
    let passive = of("ivbep1");
    assert_eq!((passive.status.as_deref(), passive.hwp), (Some("passive"), Some(false)));
    assert_eq!(passive.hwp_dynamic_boost, None);
    assert_eq!(inventory("milan0").cpufreq.unwrap().intel_pstate, None);
}

#[test]
fn acpi_cpufreq_has_steps_and_a_boost_beyond_them() {
    let inventory = inventory("milan0");
    let policy = &policies(&inventory)[0];
    let steps: Vec<u64> = policy.available.iter().map(|f| f.khz()).collect();
    assert_eq!(steps, [1_500_000, 2_100_000, 2_800_000]);
    assert_eq!(
        (policy.max, policy.hardware_max),
        (Some(Hertz::from_khz(2_800_000)), Some(Hertz::from_khz(3_739_225)))
    );
    assert_eq!((policy.boost, policy.is_capped()), (Some(true), Some(false)));
    assert_eq!(policy.time_in_state.len(), 3);
    assert_eq!(policy.time_in_state[0].time, domain::Nanos::from_millis(1_925_430));
    let cpufreq = inventory.cpufreq.as_ref().unwrap();
    assert_eq!(cpufreq.boost, Some(true));
    assert_eq!(cpufreq.tunables["schedutil"]["rate_limit_us"], "1000");
    assert_eq!(inventory.frequency_sources, [FrequencySource::TimeInState, FrequencySource::ScalingCurFreq]);
    assert_eq!(inventory.cpus.base, Some(Hertz::from_mhz(2801)));
}

#[test]
fn a_limit_below_the_hardware_is_a_cap() {
    let machine = RecordedMachine::open(folder("spr1")).unwrap();
    let path = "/sys/devices/system/cpu/cpufreq/policy7/scaling_max_freq";
    machine::Machine::write(&machine, Path::new(path), b"2200000").unwrap();
    let inventory = machine::inventory::take(&machine).unwrap();
    let capped: Vec<u32> =
        policies(&inventory).iter().filter(|p| p.is_capped() == Some(true)).map(|p| p.id).collect();
    assert_eq!(capped, [7]);
}

#[test]
fn passive_intel_and_amd_policies_have_a_transition_latency_only_where_the_driver_knows_one() {
    let latency = |name| policies(&inventory(name))[0].transition_latency;
    assert_eq!(latency("hswep0"), Some(domain::Nanos::from_micros(20)));
    assert_eq!(latency("spr1"), None);
    assert_eq!(latency("milan0"), None);
}

#[test]
fn a_recording_without_cpufreq_says_what_that_means() {
    let inventory = inventory("vm-2cpu");
    assert_eq!((inventory.cpufreq.as_ref(), inventory.cpuidle.as_ref()), (None, None));
    let absent: Vec<&str> = inventory.absent.iter().map(|a| a.what.as_str()).collect();
    assert_eq!(absent, ["cpufreq", "frequency counters", "cpuidle", "energy counters", "disk model"]);
    assert!(inventory.absent[0].means.contains("hypervisor"));
    assert_eq!(inventory.is_virtual(), Some(true));
    assert_eq!(inventory.virtualisation.hypervisor.as_deref(), Some("kvm"));
    assert_eq!(inventory.virtualisation.container.as_deref(), Some("docker"));
    assert_eq!(inventory.kernel.hz, Some(250));
    assert_eq!(inventory.kernel.config.as_deref(), Some("/proc/config.gz"));
    assert_eq!(inventory.kernel.mitigations["meltdown"], "Not affected");
}

#[test]
fn a_recorded_disk_has_its_queue_and_filesystem_and_unused_loop_devices_are_left_out() {
    let inventory = inventory("vm-2cpu");
    let names: Vec<&str> = inventory.devices.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["vda"]);
    let disk = &inventory.devices[0];
    assert_eq!((disk.size, disk.transport.as_deref()), (Some(Bytes::new(256 << 30)), Some("virtio")));
    let queue = disk.queue.as_ref().unwrap();
    assert_eq!(queue.scheduler.as_deref(), Some("mq-deadline"));
    assert_eq!((queue.read_ahead, queue.nr_requests), (Some(Bytes::from_mib(8)), Some(256)));
    assert_eq!(inventory.mounts_of("vda").map(|m| m.mountpoint.as_str()).collect::<Vec<_>>(), ["/"]);
}

#[test]
fn an_inventory_survives_json() {
    for name in ["adl0", "milan0", "vm-2cpu", "lab-raid5-raid10", "lab-raid6-luks2"] {
        let inventory = inventory(name);
        let json = serde_json::to_string(&inventory).unwrap();
        assert_eq!(serde_json::from_str::<Inventory>(&json).unwrap(), inventory, "{name}");
        assert!(json.starts_with("{\"schema\":1,"));
    }
}

#[test]
fn machines_differ_in_identity_and_settings_do_not_change_it() {
    let mut identities: Vec<String> =
        MACHINES.iter().map(|facts| machine::identity(&inventory(facts.name))).collect();
    identities.push(machine::identity(&inventory("vm-2cpu")));
    let mut distinct = identities.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 12);
    let mut changed = inventory("milan0");
    changed.kernel.release = Some("7.1".into());
    changed.cpufreq.as_mut().unwrap().policies[0].governor = Some("performance".into());
    changed.memory.available = None;
    assert_eq!(machine::identity(&changed), machine::identity(&inventory("milan0")));
}

#[test]
fn a_number_that_is_none_is_an_error_with_its_file() {
    let machine = RecordedMachine::open(folder("milan0")).unwrap();
    let path = "/sys/devices/system/cpu/cpufreq/policy3/scaling_max_freq";
    machine::Machine::write(&machine, Path::new(path), b"fast").unwrap();
    let error = machine::inventory::take(&machine).unwrap_err().to_string();
    assert!(error.contains(path) && error.contains("`fast` is not a number"), "{error}");
}

#[test]
fn a_folder_that_is_no_machine_is_an_error() {
    let empty = tempfile::tempdir().unwrap();
    std::fs::create_dir(empty.path().join("proc")).unwrap();
    let error = machine::inventory::take(&RecordedMachine::open(empty.path()).unwrap()).unwrap_err();
    assert!(error.to_string().contains("is this the root of a machine"), "{error}");
}
