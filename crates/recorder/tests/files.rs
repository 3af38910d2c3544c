//! Recordings of folders that hold what other machines' kernels wrote.

#![allow(clippy::unwrap_used, reason = "it is a test")]

mod memory;

use domain::Nanos;
use domain::trace::{FrequencySource, SeriesKind};
use expect_test::expect;
use memory::trace;
use recorder::{MAX_INTERVAL, Recorder, RecorderConfig, Recording, Roots, ThreadScope, Writing};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const STAT: &str = include_str!("../fixtures/vm-2cpu.stat");
const DISKSTATS: &str = include_str!("../fixtures/vm-2cpu.diskstats");
const PRESSURE: &str = include_str!("../fixtures/vm-2cpu.pressure-io");
const MILAN: &str = include_str!("../fixtures/milan0-sys.txt");

/// A machine in a folder, recorded with two samples: as it was, and as it became.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.write("proc/stat", STAT);
        machine.write("proc/diskstats", DISKSTATS);
        for resource in ["cpu", "io", "memory"] {
            machine.write(&format!("proc/pressure/{resource}"), PRESSURE);
        }
        machine
    }

    /// With the frequencies and idle states of an EPYC.
    fn milan() -> Self {
        let machine = Self::new();
        for line in MILAN.lines() {
            let words: Vec<_> = line.splitn(3, '|').collect();
            let path = machine.0.path().join(words[1].trim_start_matches('/'));
            let before = fs::read_to_string(&path).unwrap_or_default();
            machine.write(words[1].trim_start_matches('/'), &format!("{before}{}\n", words[2]));
        }
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn record(&self, become_other: impl FnOnce()) -> Recording {
        let path = |name: &str| self.0.path().join(name);
        let recorder = Recorder::start(RecorderConfig {
            interval: MAX_INTERVAL.into(),
            spool: path("spool"),
            threads: ThreadScope::None,
            writing: Writing::WhenFull,
            events: None,
            beside: Vec::new(),
            roots: Roots { proc: path("proc"), sys: path("sys") },
        })
        .unwrap();
        become_other();
        recorder.stop().unwrap()
    }
}

#[test]
fn a_machines_files_become_the_documented_columns() {
    let machine = Machine::milan();
    let recording = machine.record(|| {});
    let trace = trace(&recording);
    let shown: Vec<String> = trace
        .head
        .series
        .iter()
        .zip(&trace.columns)
        .filter(|(series, _)| !series.name.starts_with("disk.loop") && series.name != "recorder.ns")
        .map(|(series, column)| format!("{} {} {:?}", series.name, series.unit.name(), column[1].unwrap()))
        .collect();
    expect![[r#"
        cpu.user ticks 10399
        cpu.nice ticks 1724
        cpu.system ticks 3102
        cpu.idle ticks 403789
        cpu.iowait ticks 1855
        cpu.irq ticks 0
        cpu.softirq ticks 264
        cpu.steal ticks 4
        cpu0.user ticks 3241
        cpu0.nice ticks 971
        cpu0.system ticks 1149
        cpu0.idle ticks 204904
        cpu0.iowait ticks 180
        cpu0.irq ticks 0
        cpu0.softirq ticks 117
        cpu0.steal ticks 1
        cpu1.user ticks 7158
        cpu1.nice ticks 753
        cpu1.system ticks 1952
        cpu1.idle ticks 198885
        cpu1.iowait ticks 1674
        cpu1.irq ticks 0
        cpu1.softirq ticks 146
        cpu1.steal ticks 2
        system.context_switches count 1061242
        disk.vda.read_ios count 56196
        disk.vda.read_sectors sectors 5594602
        disk.vda.read_ms ms 18870
        disk.vda.write_ios count 26906
        disk.vda.write_sectors sectors 3307856
        disk.vda.write_ms ms 5344
        disk.vda.in_flight count 0
        disk.vda.io_ms ms 9948
        disk.vda.weighted_ms ms 25094
        disk.zram0.read_ios count 0
        disk.zram0.read_sectors sectors 0
        disk.zram0.read_ms ms 0
        disk.zram0.write_ios count 0
        disk.zram0.write_sectors sectors 0
        disk.zram0.write_ms ms 0
        disk.zram0.in_flight count 0
        disk.zram0.io_ms ms 0
        disk.zram0.weighted_ms ms 0
        psi.cpu.some_us us 7067111
        psi.io.some_us us 7067111
        psi.io.full_us us 6888683
        psi.memory.some_us us 7067111
        psi.memory.full_us us 6888683
        freq.policy0.time.2800000 ticks 247
        freq.policy0.time.2100000 ticks 354
        freq.policy0.time.1500000 ticks 192543
        freq.policy1.time.2800000 ticks 42
        freq.policy1.time.2100000 ticks 203
        freq.policy1.time.1500000 ticks 192900
        idle.cpu0.state0.us us 289
        idle.cpu0.state0.entries count 17
        idle.cpu0.state1.us us 184261
        idle.cpu0.state1.entries count 7814
        idle.cpu0.state2.us us 1934386831
        idle.cpu0.state2.entries count 14284
        idle.cpu1.state0.us us 98
        idle.cpu1.state0.entries count 7
        idle.cpu1.state1.us us 178937
        idle.cpu1.state1.entries count 7152
        idle.cpu1.state2.us us 1932958777
        idle.cpu1.state2.entries count 6983"#]]
    .assert_eq(&shown.join("\n"));
    assert_eq!(recording.report().samples, 2);
}

#[test]
fn frequencies_come_from_time_in_state_and_else_from_scaling_cur_freq() {
    let machine = Machine::milan();
    assert_eq!(machine.record(|| {}).report().frequency, FrequencySource::TimeInState);
    let machine = Machine::new();
    machine.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1500000\n");
    let recording = machine.record(|| {});
    assert_eq!(recording.report().frequency, FrequencySource::ScalingCurFreq);
    assert_eq!(trace(&recording).column("freq.cpu0.khz"), Some(&[Some(1_500_000); 2][..]));
}

#[test]
fn what_a_machine_does_not_have_is_named() {
    let machine = Machine::new();
    fs::remove_dir_all(machine.0.path().join("proc/pressure")).unwrap();
    let report = machine.record(|| {}).report().clone();
    assert_eq!(report.frequency, FrequencySource::None);
    let absent = report.absent.join("\n");
    for what in ["no pressure", "no aperf/mperf", "no cpuidle driver", "no RAPL domain"] {
        assert!(absent.contains(what), "{what} in {absent}");
    }
}

#[test]
fn a_cpu_and_a_disk_that_vanish_become_none_and_not_zero() {
    let machine = Machine::new();
    let recording = machine.record(|| {
        machine.write("proc/stat", &without(STAT, "cpu1 "));
        machine.write("proc/diskstats", &without(DISKSTATS, " loop7 "));
    });
    let trace = trace(&recording);
    for name in ["cpu1.user", "cpu1.steal", "disk.loop7.read_ios", "disk.loop7.weighted_ms"] {
        let column = trace.column(name).unwrap();
        assert!(column[0].is_some() && column[1].is_none(), "{name}: {column:?}");
    }
    assert!(trace.column("cpu0.user").unwrap()[1].is_some());
}

#[test]
fn a_cpu_that_goes_offline_is_told_with_its_time_and_its_columns_end() {
    let machine = Machine::new();
    let online = "sys/devices/system/cpu/online";
    machine.write(online, "0-1\n");
    let recording = machine.record(|| {
        machine.write("proc/stat", &without(STAT, "cpu1 "));
        machine.write(online, "0\n");
    });
    let trace = trace(&recording);
    let [change] = recording.report().cpu_changes[..] else { panic!("{:?}", recording.report()) };
    assert_eq!((change.cpu, change.online, change.at), (1, false, trace.times[1]));
    assert_eq!(trace.column("system.cpus_online"), Some(&[Some(2), Some(1)][..]));
    assert_eq!(trace.column("cpu1.idle").unwrap()[1], None);
    let back = machine.record(|| machine.write(online, "0-1\n"));
    assert_eq!(back.report().cpu_changes.iter().map(|change| change.online).collect::<Vec<_>>(), [true]);
    assert!(machine.record(|| {}).report().cpu_changes.is_empty());
}

#[test]
fn a_disk_that_appears_has_done_what_it_counts() {
    let machine = Machine::new();
    let recording = machine.record(|| {
        let new = "   9     127 md127 10 0 80 5 20 0 160 5 0 7 10\n";
        machine.write("proc/diskstats", &format!("{DISKSTATS}{new}"));
    });
    let trace = trace(&recording);
    assert_eq!(trace.column("disk.md127.read_ios"), Some(&[None, Some(10)][..]));
    let disks = recording.disks();
    assert_eq!(disks.len(), 1, "vda did nothing: {disks:?}");
    assert_eq!((disks[0].device.as_str(), disks[0].read_ios, disks[0].write_sectors), ("md127", 10, 160));
}

#[test]
fn a_millisecond_counter_that_wraps_goes_on() {
    let machine = Machine::new();
    machine.write("proc/diskstats", "254 0 vda 1 0 8 0 0 0 0 0 0 4294967290 0\n");
    let recording = machine.record(|| machine.write("proc/diskstats", "254 0 vda 2 0 16 0 0 0 0 0 0 4 0\n"));
    assert_eq!(recording.disks()[0].busy, Nanos::from_millis(10));
    let head = recording.head();
    let series = head.series.iter().find(|s| s.name == "disk.vda.io_ms").unwrap();
    assert_eq!(series.kind, SeriesKind::Counter { wraps_at: Some(1 << 32) });
}

#[test]
fn energy_says_where_it_wraps() {
    let machine = Machine::new();
    let zone = "sys/class/powercap/intel-rapl:0";
    machine.write(&format!("{zone}/name"), "package-0\n");
    machine.write(&format!("{zone}/max_energy_range_uj"), "262143328850\n");
    machine.write(&format!("{zone}/energy_uj"), "262143328000\n");
    let recording = machine.record(|| machine.write(&format!("{zone}/energy_uj"), "150\n"));
    let trace = trace(&recording);
    assert_eq!(trace.column("rapl.package-0.uj"), Some(&[Some(262_143_328_000), Some(150)][..]));
    let series = trace.head.series.iter().find(|s| s.name == "rapl.package-0.uj").unwrap();
    assert_eq!(series.kind, SeriesKind::Counter { wraps_at: Some(262_143_328_850) });
}

/// A package that RAPL counts.
const RAPL: [(&str, &str); 3] = [
    ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
    ("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n"),
    ("sys/class/powercap/intel-rapl:0/energy_uj", "1000\n"),
];

/// A board with an ACPI power meter.
const METER: [(&str, &str); 2] = [
    ("sys/class/hwmon/hwmon0/name", "power_meter\n"),
    ("sys/class/hwmon/hwmon0/power1_average", "210000000\n"),
];

/// A graphics card.
const CARD: [(&str, &str); 3] = [
    ("sys/class/hwmon/hwmon1/name", "amdgpu\n"),
    ("sys/class/hwmon/hwmon1/power1_average", "9000000\n"),
    ("sys/class/hwmon/hwmon1/power1_label", "PPT\n"),
];

/// A socket and a core of it that amd_energy counts.
const SOCKET: [(&str, &str); 5] = [
    ("sys/class/hwmon/hwmon2/name", "amd_energy\n"),
    ("sys/class/hwmon/hwmon2/energy1_label", "Ecore000\n"),
    ("sys/class/hwmon/hwmon2/energy1_input", "40\n"),
    ("sys/class/hwmon/hwmon2/energy2_label", "Esocket0\n"),
    ("sys/class/hwmon/hwmon2/energy2_input", "700\n"),
];

/// A laptop without mains.
const BATTERY: [(&str, &str); 5] = [
    ("sys/class/power_supply/AC/type", "Mains\n"),
    ("sys/class/power_supply/AC/online", "0\n"),
    ("sys/class/power_supply/BAT0/type", "Battery\n"),
    ("sys/class/power_supply/BAT0/status", "Discharging\n"),
    ("sys/class/power_supply/BAT0/power_now", "11543000\n"),
];

/// What a column holds.
type Values = Vec<Option<u64>>;

/// The columns of energy with what they hold at both samples, and what is said of sources.
fn energy(
    files: &[&[(&str, &str)]],
    become_other: impl FnOnce(&Machine),
) -> (Vec<(String, Values)>, Vec<String>) {
    let machine = Machine::new();
    files.iter().copied().flatten().for_each(|(path, text)| machine.write(path, text));
    let recording = machine.record(|| become_other(&machine));
    let trace = trace(&recording);
    let is_of_energy =
        |name: &str| ["rapl", "hwmon", "battery", "supply"].iter().any(|it| name.starts_with(it));
    let columns = trace.head.series.iter().zip(&trace.columns);
    let columns = columns.filter(|(series, _)| is_of_energy(&series.name));
    let columns = columns.map(|(series, column)| (series.name.clone(), column.clone())).collect();
    let is_said = |note: &&String| note.contains("energy") || note.contains("power");
    (columns, recording.report().absent.iter().filter(is_said).cloned().collect())
}

#[test]
fn one_source_of_energy_is_read_and_what_else_there_is_is_named() {
    let of = |files: &[&[(&str, &str)]]| {
        let (columns, said) = energy(files, |_| {});
        (columns.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), said)
    };
    let (columns, said) = of(&[&RAPL, &METER, &BATTERY]);
    assert_eq!(columns, ["rapl.package-0.uj"]);
    let meter = "no readings of hwmon's `power_meter-0 power1`: RAPL shows the energy";
    assert_eq!(said, [meter, "no power of the battery `BAT0`: RAPL shows the energy"]);
    let (columns, said) = of(&[&METER, &CARD, &SOCKET, &BATTERY]);
    assert_eq!(columns, ["hwmon.amd_energy-0.Esocket0.uj", "hwmon.amd_energy-0.Ecore000.uj"]);
    assert!(said.contains(&"no power of the battery `BAT0`: hwmon shows the energy".to_owned()), "{said:?}");
    assert_eq!(of(&[&METER, &CARD, &BATTERY]).0, ["hwmon.power_meter-0.power1.average_uw"]);
    let (columns, said) = of(&[&CARD, &BATTERY]);
    assert_eq!(columns, ["supply.on_battery", "battery.BAT0.uw"]);
    let card = "no power by hwmon: the sensors of hwmon are of devices: `amdgpu-0 PPT`";
    assert!(said.contains(&card.to_owned()), "{said:?}");
}

#[test]
fn a_sensor_of_hwmon_shows_what_it_says_at_each_sample() {
    let (columns, _) = energy(&[&METER], |machine| machine.write(METER[1].0, "190000000\n"));
    let column = [Some(210_000_000), Some(190_000_000)];
    assert_eq!(columns, [("hwmon.power_meter-0.power1.average_uw".to_owned(), column.to_vec())]);
}

#[test]
fn a_battery_shows_what_it_delivers_until_the_mains_supply_the_machine() {
    let column = |name: &str, values: [Option<u64>; 2]| (name.to_owned(), values.to_vec());
    let (columns, _) = energy(&[&BATTERY], |machine| machine.write(BATTERY[4].0, "12000000\n"));
    let watts = column("battery.BAT0.uw", [Some(11_543_000), Some(12_000_000)]);
    assert_eq!(columns, [column("supply.on_battery", [Some(1); 2]), watts]);
    let (columns, _) = energy(&[&BATTERY], |machine| machine.write(BATTERY[1].0, "1\n"));
    let watts = column("battery.BAT0.uw", [Some(11_543_000), None]);
    assert_eq!(columns, [column("supply.on_battery", [Some(1), Some(0)]), watts]);
}

#[test]
fn a_battery_that_is_charging_or_full_gives_nothing_and_says_why() {
    for status in ["Charging", "Full"] {
        let line = format!("{status}\n");
        let with = [BATTERY[0], BATTERY[1], BATTERY[2], (BATTERY[3].0, line.as_str()), BATTERY[4]];
        let (columns, said) = energy(&[&with], |_| {});
        assert!(columns.is_empty(), "{columns:?}");
        let why = format!("no power of a battery: the machine does not run on battery: `BAT0` is `{status}`");
        assert!(said.contains(&why), "{said:?}");
    }
}

#[test]
fn a_text_that_is_not_what_the_kernel_writes_is_an_error_with_its_line() {
    let machine = Machine::new();
    let path = |name: &str| machine.0.path().join(name);
    machine.write("proc/stat", "cpu  1 2 3\ncpu0 1 two 3\n");
    let recorder = Recorder::start(RecorderConfig {
        interval: MAX_INTERVAL.into(),
        spool: path("spool"),
        threads: ThreadScope::None,
        writing: Writing::WhenFull,
        events: None,
        beside: Vec::new(),
        roots: Roots { proc: path("proc"), sys: path("sys") },
    })
    .unwrap();
    let error = recorder.stop().unwrap_err().to_string();
    assert!(error.contains("ticks in line 2 of /proc/stat: `cpu0 1 two 3`"), "{error}");
}

#[test]
fn a_torn_recording_gives_the_rows_before_the_tear() {
    let machine = Machine::milan();
    let whole = trace(&machine.record(|| machine.write("proc/diskstats", &without(DISKSTATS, "vda"))));
    let bytes = fs::read(machine.0.path().join("spool")).unwrap();
    let torn = machine.0.path().join("torn");
    let mut seen = [0; 3];
    for cut in 0..bytes.len() {
        fs::write(&torn, &bytes[..cut]).unwrap();
        let Ok(recording) = Recording::open(torn.clone()) else { continue };
        let part = trace(&recording);
        assert!(part.times.len() < 2, "cut at {cut}: the last row is not known to be whole");
        if !part.times.is_empty() {
            assert!(recording.report().absent.iter().any(|note| note.contains("no RAPL domain")));
        }
        assert!(recording.report().absent.iter().any(|note| note.contains("not ended properly")));
        assert_eq!(part.times, whole.times[..part.times.len()]);
        for (series, column) in part.head.series.iter().zip(&part.columns) {
            assert_eq!(column, &whole.column(&series.name).unwrap()[..column.len()], "{}", series.name);
        }
        seen[part.times.len()] += 1;
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn damage_anywhere_never_panics() {
    let machine = Machine::milan();
    machine.record(|| machine.write("proc/stat", &without(STAT, "cpu1 ")));
    let bytes = fs::read(machine.0.path().join("spool")).unwrap();
    let damaged = machine.0.path().join("damaged");
    for at in 0..bytes.len() {
        let mut copy = bytes.clone();
        copy[at] ^= 1 << (at % 8);
        fs::write(&damaged, &copy).unwrap();
        if let Ok(recording) = Recording::open(damaged.clone()) {
            let _ = recording.decode(&mut memory::Memory::default());
        }
    }
}

#[test]
fn a_foreign_file_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    fs::write(&path, "not a recording").unwrap();
    let error = Recording::open(path).unwrap_err().to_string();
    assert!(error.contains("notes.txt") && error.contains("not a recording of this version"), "{error}");
}

#[test]
fn a_machine_without_proc_and_an_interval_out_of_bounds_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = RecorderConfig::new(MAX_INTERVAL, folder.path().join("spool"));
    config.roots.proc = folder.path().join("nowhere");
    let error = Recorder::start(config.clone()).unwrap_err().to_string();
    assert!(error.contains("nowhere/stat"), "{error}");
    config.interval = Nanos::from_micros(1).into();
    let error = Recorder::start(config).unwrap_err().to_string();
    assert!(error.starts_with("cannot record every 1 µs: the interval has to be between"), "{error}");
}

fn without(text: &str, word: &str) -> String {
    text.lines().filter(|line| !line.contains(word)).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_spool_that_cannot_be_made_names_its_path() {
    let spool = Path::new("/nonexistent/spool").to_owned();
    let error = Recorder::start(RecorderConfig::new(MAX_INTERVAL, spool)).unwrap_err().to_string();
    assert!(error.contains("cannot create the recording `/nonexistent/spool`"), "{error}");
}
