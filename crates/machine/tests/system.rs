//! What the recorded machines lack: energy counters, firmware names, rival daemons. Written by hand after
//! `Documentation/power/powercap/powercap.rst`, systemd.unit(5) and the daemons' own files. And that no text
//! of a kernel file makes the inventory panic.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use domain::inventory::{Inventory, Tickless};
use machine::{Machine, RecordedMachine};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

fn inventory(files: &[(&str, &str)]) -> Inventory {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    machine::inventory::take(&RecordedMachine::open(folder.path()).unwrap()).unwrap()
}

const CPU: (&str, &str) = ("proc/cpuinfo", "processor : 0\nflags : fpu\n");

#[test]
fn rivals_are_named_with_their_state_and_profile() {
    let rivals = inventory(&[
        CPU,
        ("proc/812/comm", "tuned\n"),
        ("proc/900/comm", "bash\n"),
        ("usr/lib/systemd/system/tuned.service", ""),
        ("usr/lib/systemd/system/irqbalance.service", ""),
        ("usr/lib/systemd/system/tlp.service", ""),
        ("etc/systemd/system/multi-user.target.wants/tuned.service", ""),
        ("etc/systemd/system/multi-user.target.wants/tlp.service", ""),
        ("etc/tuned/active_profile", "throughput-performance\n"),
    ])
    .rivals;
    let found: Vec<_> =
        rivals.iter().map(|r| (r.name.as_str(), r.running, r.enabled, r.profile.as_deref())).collect();
    assert_eq!(
        found,
        [
            ("tuned", true, Some(true), Some("throughput-performance")),
            ("TLP", false, Some(true), None),
            ("irqbalance", false, Some(false), None),
        ]
    );
}

#[test]
fn rapl_domains_carry_the_name_of_their_package() {
    let files = "ro|/sys/class/powercap/intel-rapl/enabled|1\n\
        ro|/sys/class/powercap/intel-rapl:0/name|package-0\n\
        ro|/sys/class/powercap/intel-rapl:0/energy_uj|262143\n\
        ro|/sys/class/powercap/intel-rapl:0/max_energy_range_uj|262143328850\n\
        ro|/sys/class/powercap/intel-rapl:0:1/name|dram\n\
        ro|/sys/bus/event_source/devices/power/events/energy-pkg|event=0x02\n\
        ro|/sys/bus/event_source/devices/power/events/energy-pkg.scale|2.3e-10\n";
    let power = inventory(&[CPU, ("sys/inlinefiles.txt", files)]).power;
    let found: Vec<_> = power.rapl.iter().map(|d| (d.name.as_str(), d.readable)).collect();
    assert_eq!(found, [("package-0", true), ("package-0/dram", false)]);
    assert_eq!(power.rapl[0].max_energy.map(|e| e.get()), Some(262_143_328_850));
    assert_eq!(power.perf_events, ["energy-pkg"]);
    assert!(power.is_measurable());
}

#[test]
fn sensors_of_hwmon_and_power_supplies_are_found_and_measure_where_rapl_does_not() {
    let files = "ro|/sys/class/hwmon/hwmon0/name|power_meter\n\
        ro|/sys/class/hwmon/hwmon0/power1_average|210000000\n\
        ro|/sys/class/power_supply/AC/type|Mains\n\
        ro|/sys/class/power_supply/AC/online|1\n\
        ro|/sys/class/power_supply/BAT0/type|Battery\n\
        ro|/sys/class/power_supply/BAT0/status|Full\n\
        ro|/sys/class/power_supply/BAT0/power_now|0\n";
    let found = inventory(&[CPU, ("sys/inlinefiles.txt", files)]);
    let sensors: Vec<_> = found.power.hwmon.iter().map(|sensor| sensor.in_column()).collect();
    assert_eq!(sensors, ["power_meter-0.power1"]);
    let supplies: Vec<_> = found.power.supplies.iter().map(|supply| supply.name.as_str()).collect();
    assert_eq!(supplies, ["AC", "BAT0"]);
    assert!(found.power.is_measurable());
    assert!(!found.absent.iter().any(|absent| absent.what == "energy counters"));
    let rest: String =
        files.lines().filter(|line| !line.contains("hwmon")).map(|line| format!("{line}\n")).collect();
    let found = inventory(&[CPU, ("sys/inlinefiles.txt", &rest)]);
    assert!(!found.power.is_measurable());
    let absent = found.absent.iter().find(|absent| absent.what == "energy counters").unwrap();
    assert!(
        absent.means.ends_with("the machine does not run on battery: `BAT0` is `Full`"),
        "{}",
        absent.means
    );
}

#[test]
fn counters_that_only_root_may_read_are_absent_with_that_reason() {
    let files = "ro|/sys/class/powercap/intel-rapl:0/name|package-0\n";
    let absent = inventory(&[CPU, ("sys/inlinefiles.txt", files)]).absent;
    let energy = absent.iter().find(|a| a.what == "energy counters").unwrap();
    assert!(energy.means.contains("run as root"), "{}", energy.means);
}

#[test]
fn real_hardware_without_cpufreq_is_told_to_look_at_its_firmware() {
    let inventory = inventory(&[CPU]);
    assert_eq!(inventory.is_virtual(), Some(false));
    assert!(inventory.absent[0].means.contains("firmware"), "{}", inventory.absent[0].means);
}

#[test]
fn the_command_line_decides_what_the_kernel_was_built_to_do() {
    let config =
        "CONFIG_HZ=1000\nCONFIG_NO_HZ_FULL=y\nCONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_PREEMPT_DYNAMIC=y\n";
    let boot = |command_line: &str| {
        inventory(&[
            CPU,
            ("proc/version", "Linux version 6.1.0-test (a@b) #1 SMP PREEMPT_DYNAMIC\n"),
            ("boot/config-6.1.0-test", config),
            ("proc/cmdline", command_line),
        ])
        .kernel
    };
    let plain = boot("ro quiet");
    assert_eq!((plain.hz, plain.tickless), (Some(1000), Some(Tickless::Idle)));
    assert_eq!(plain.preemption.unwrap().mode.as_deref(), Some("voluntary"));
    let chosen = boot("preempt=full nohz=off");
    assert_eq!(chosen.tickless, Some(Tickless::Periodic));
    assert_eq!(chosen.preemption.unwrap().mode.as_deref(), Some("full"));
}

#[test]
fn the_machine_id_is_digested_and_not_shown() {
    let inventory = inventory(&[CPU, ("etc/machine-id", "0123456789abcdef0123456789abcdef\n")]);
    assert!(inventory.virtualisation.machine_id_digest.is_some());
    assert!(!serde_json::to_string(&inventory).unwrap().contains("0123456789abcdef"));
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/machines").join(name)
}

/// Files that a parser or a number reads, on machines that have them.
const READ: [(&str, &str); 14] = [
    ("dell-9360-kbl", "/proc/cpuinfo"),
    ("dell-9360-kbl", "/sys/devices/system/cpu/cpufreq/policy0/affected_cpus"),
    ("dell-9360-kbl", "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq"),
    ("dell-9360-kbl", "/sys/devices/system/cpu/cpufreq/policy1/energy_performance_preference"),
    ("dell-9360-kbl", "/sys/devices/system/cpu/cpufreq/policy1/cpuinfo_transition_latency"),
    ("dell-9360-kbl", "/sys/devices/system/cpu/cpu2/cpuidle/state3/latency"),
    ("dell-9360-kbl", "/sys/devices/system/cpu/cpu2/power/energy_perf_bias"),
    ("dell-9360-kbl", "/sys/devices/system/cpu/intel_pstate/max_perf_pct"),
    ("vm-2cpu", "/proc/meminfo"),
    ("vm-2cpu", "/proc/mounts"),
    ("vm-2cpu", "/proc/stat"),
    ("vm-2cpu", "/proc/config.gz"),
    ("vm-2cpu", "/sys/block/vda/queue/read_ahead_kb"),
    ("vm-2cpu", "/sys/block/vda/queue/nr_requests"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_text_of_a_kernel_file_makes_the_inventory_panic(
        (machine, path) in proptest::sample::select(READ.to_vec()),
        text in prop_oneof!["[0-9]{1,25}", "[-0-9,.:/ a-z\n\\[\\]]{0,40}", ".{0,40}"],
    ) {
        let machine = RecordedMachine::open(fixture(machine)).unwrap();
        machine.write(Path::new(path), text.as_bytes()).unwrap();
        if let Ok(inventory) = machine::inventory::take(&machine) {
            prop_assert!(!machine::identity(&inventory).is_empty());
        }
    }
}
