//! Replays of loads whose rate follows from arithmetic: cycles at a frequency, and a wait.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use domain::setting::{SettingName, SettingRequest};
use domain::time::Nanos;
use domain::trace::Role;
use domain::units::{Bytes, Hertz};
use governors::KernelVersion;
use governors::autonomous::{AutonomousSpec, Permille};
use replay::{Demand, Load, Machine, NotRecorded, Replay};
use sim::block::Interrupts;
use sim::cpu::{Begins, IdleTime};
use sim::machine::{Costs, CpuSpec, Driver, Figure, MachineSpec, Origin, PState, Variation};
use std::collections::BTreeMap;

fn setting(name: &str, value: &str) -> SettingRequest {
    SettingRequest { setting: SettingName::parse(name), value: value.to_owned() }
}

/// CPUs of 1 and 2 GHz under acpi-cpufreq.
fn machine(cpus: usize, in_force: &[(&str, &str)]) -> Machine {
    let state = |mhz| PState { frequency: Hertz::from_mhz(mhz), busy_watts: None, idle_watts: None };
    let in_force: Vec<SettingRequest> = in_force.iter().map(|(name, value)| setting(name, value)).collect();
    let nothing = Figure { is: 0.0, origin: Origin::Source("a test".into()) };
    Machine {
        spec: MachineSpec {
            name: "test".into(),
            about: String::new(),
            kernel: KernelVersion::new(6, 12, 0),
            dilation: 1.0,
            slice_dilation: 1.0,
            start_delay: Nanos::ZERO,
            hz: 250,
            memory: Bytes::new(0),
            cpu: CpuSpec {
                model: String::new(),
                processor: None,
                count: cpus,
                driver: Driver::AcpiCpufreq,
                governor: "performance".into(),
                shared: true,
                base: Hertz::from_mhz(2000),
                epp: String::new(),
                hardware: AutonomousSpec::default(),
                states: vec![state(1000), state(2000)],
                turbo: Vec::new(),
                transition: Nanos::from_micros(10),
                transition_latency: Nanos::from_micros(10),
                frequency_invariant: true,
                work_per_cycle: 1.0,
                interrupts: Interrupts::Submitter,
                begins: Begins::New,
                idle_time: IdleTime::Exact,
                idle: Vec::new(),
            },
            disks: Vec::new(),
            links: BTreeMap::new(),
            costs: Costs { given: [("switch", nothing)].into(), work_per_cycle: 1.0, factor: 1.0 },
            variation: Variation::NONE,
        },
        at_rest: in_force.clone(),
        in_force,
        governors: Vec::new(),
        preferences: Vec::new(),
    }
}

/// Requests of so many ms of CPU time, so many in flight.
fn load(rate: f64, cpu_ms: f64, in_flight: u32) -> Load {
    Load {
        rate,
        counted: "iops".into(),
        in_flight,
        in_flight_known: true,
        demands: vec![Demand { role: Role::Workload, seconds: cpu_ms / 1e3, threads: in_flight }],
        overlap: 0.0,
        disk_latency: None,
        interrupts: 0.0,
        waits_for_io: true,
        frequency: None,
        beside: 0.0,
        tick: 0.0,
        not_recorded: Default::default(),
    }
}

fn assert_near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 0.02, "{value}, and not {expected}");
}

#[test]
fn one_request_at_a_time_takes_its_cycles_and_its_wait() {
    // 4 ms at 2 GHz and 6 ms of waiting: 10 ms; at 1 GHz 8 ms and 6 ms.
    let replay = Replay::new(machine(1, &[("governor", "performance")]), load(100.0, 4.0, 1)).unwrap();
    assert!(replay.fit().error() < 0.01, "{:?}", replay.fit());
    assert_near(replay.fit().wait, 0.006);
    let slow = replay.predict(&[setting("governor", "powersave")]).unwrap();
    assert_near(slow.rate.value, 10.0 / 14.0);
    assert_near(slow.frequency, 1e9);
    assert_near(slow.latency, 0.014);
    // Where a quarter of its CPU time waits for memory, it takes 7 ms instead of 8.
    assert!(slow.rate.low < 10.0 / 14.0 && slow.rate.high > 10.0 / 13.0, "{slow:?}");
}

#[test]
fn what_was_recorded_at_a_low_frequency_is_predicted_at_a_high_one() {
    let replay = Replay::new(machine(1, &[("governor", "powersave")]), load(1000.0 / 14.0, 8.0, 1)).unwrap();
    let fast = replay.predict(&[setting("governor", "performance")]).unwrap();
    assert_near(fast.rate.value, 14.0 / 10.0);
}

#[test]
fn a_full_cpu_gives_what_its_frequency_gives() {
    let replay = Replay::new(machine(1, &[("governor", "performance")]), load(250.0, 4.0, 8)).unwrap();
    let slow = replay.predict(&[setting("governor", "powersave")]).unwrap();
    assert_near(slow.rate.value, 0.5);
    assert_near(slow.busy, 1.0);
}

#[test]
fn ondemand_stays_low_below_its_threshold_and_goes_up_above_it() {
    // At 2 GHz busy for 10% of the time, at 1 GHz for 18%.
    let replay = Replay::new(machine(1, &[("governor", "performance")]), load(100.0, 1.0, 1)).unwrap();
    let ondemand = |threshold: &str| {
        let settings = [
            setting("governor", "ondemand"),
            setting("ondemand.io_is_busy", "0"),
            setting("ondemand.sampling_rate", "100000"),
            setting("ondemand.up_threshold", threshold),
        ];
        replay.predict(&settings).unwrap().rate.value
    };
    assert_near(ondemand("95"), 10.0 / 11.0);
    assert_near(ondemand("5"), 1.0);
}

#[test]
fn conservative_comes_up_from_idle_unless_it_is_known_to_have_stayed_up() {
    // At 1 GHz busy for 57% of the time, at 2 GHz for 40%: it stays where it is.
    let known = Replay::new(machine(1, &[("governor", "performance")]), load(100.0, 4.0, 1)).unwrap();
    let windows = ("conservative.sampling_rate", "100000");
    let may = known.predict(&[setting("governor", "conservative"), setting(windows.0, windows.1)]).unwrap();
    assert_near(may.rate.value, 10.0 / 14.0);
    assert!(may.rate.high > 1.0, "{may:?}");
    let recorded = Load { frequency: Some(2e9), ..load(100.0, 4.0, 1) };
    let stayed = Replay::new(machine(1, &[("governor", "conservative"), windows]), recorded).unwrap();
    assert!(stayed.fit().is_good(), "{:?}", stayed.fit());
    assert_near(stayed.predict(&[setting("governor", "powersave")]).unwrap().rate.value, 10.0 / 14.0);
}

#[test]
fn a_limit_of_the_frequency_is_lifted_in_what_is_predicted_without_asking() {
    let in_force = [("governor", "performance"), ("max_freq", "1000000")];
    let replay = Replay::new(machine(1, &in_force), load(1000.0 / 14.0, 8.0, 1)).unwrap();
    let asked = replay::what_matters(&replay);
    let lifted = setting("max_freq", "2000000");
    let alone: Vec<_> = asked.iter().filter(|one| one.settings == [lifted.clone()]).collect();
    assert_eq!(alone.len(), 1, "{asked:?}");
    assert_near(replay.predict(&alone[0].settings).unwrap().rate.value, 14.0 / 10.0);
    assert!(asked.iter().any(|one| one.settings == [setting("governor", "schedutil"), lifted.clone()]));
    let free = Replay::new(machine(1, &[("governor", "performance")]), load(100.0, 4.0, 1)).unwrap();
    assert!(replay::what_matters(&free).iter().flat_map(|one| &one.settings).all(|one| *one != lifted));
}

#[test]
fn the_interval_holds_both_ends_of_what_was_not_recorded() {
    // The other end has 1 ms more of interrupts' CPU time and 1 ms less of a wait: 10 ms become 14 or 15.
    let slow = |not_recorded: &[NotRecorded]| {
        let load = Load { not_recorded: not_recorded.iter().copied().collect(), ..load(100.0, 4.0, 1) };
        let replay = Replay::new(machine(1, &[("governor", "performance")]), load).unwrap();
        assert_near(replay.fit().wait, 0.006);
        replay.predict(&[setting("governor", "powersave")]).unwrap().rate
    };
    let (all, without) = (slow(&[]), slow(&[NotRecorded::Interrupts]));
    assert_near(all.value, without.value);
    assert_near(without.low / all.low, 14.0 / 15.0);
    assert_near(without.high, all.high);
}

#[test]
fn a_governor_that_counts_waits_as_busy_is_run_with_waits_and_without() {
    // At 1 GHz busy for 4 of 10 ms, and with its waits all of the time.
    let ondemand = |not_recorded: &[NotRecorded]| {
        let load = Load { not_recorded: not_recorded.iter().copied().collect(), ..load(100.0, 2.0, 1) };
        let replay = Replay::new(machine(1, &[("governor", "performance")]), load).unwrap();
        let settings = [
            setting("governor", "ondemand"),
            setting("ondemand.io_is_busy", "1"),
            setting("ondemand.sampling_rate", "100000"),
            setting("ondemand.up_threshold", "80"),
        ];
        replay.predict(&settings).unwrap().rate
    };
    let (known, unknown) = (ondemand(&[]), ondemand(&[NotRecorded::WaitsForIo]));
    assert_near(known.value, 1.0);
    assert!(unknown.low < known.low * 0.9 && known.value == unknown.value, "{known:?} {unknown:?}");
}

#[test]
fn schedutil_goes_up_for_a_thread_that_waits_for_its_disk_and_for_no_other() {
    // At 1 GHz busy for 0.2 of 0.5 ms. Each wait for a disk doubles the boost, and the scheduler's sums halve
    // it each 1.024 ms at most.
    let schedutil = |waits_for_io: bool| {
        let load = Load { waits_for_io, ..load(2500.0, 0.1, 1) };
        let replay = Replay::new(machine(1, &[("governor", "performance")]), load).unwrap();
        replay.predict(&[setting("governor", "schedutil")]).unwrap().rate.value
    };
    assert_near(schedutil(true), 1.0);
    assert_near(schedutil(false), 0.4 / 0.5);
}

#[test]
fn a_processor_that_chooses_itself_is_run_by_both_assumptions_unless_its_frequency_tells() {
    let averaging = |aims: (u16, u16)| {
        let share = |thousandths| Permille::new(thousandths).unwrap();
        AutonomousSpec::averaging(
            Nanos::from_millis(4),
            Nanos::from_millis(1),
            (share(aims.0), share(aims.1)),
        )
    };
    let replay = |epp: &str, hardware: AutonomousSpec, frequency: Option<f64>| {
        let mut machine = machine(1, &[("governor", "powersave"), ("epp", epp)]);
        machine.spec.cpu.driver = Driver::IntelPstateHwp;
        machine.spec.cpu.hardware = hardware;
        Replay::new(machine, Load { frequency, ..load(100.0, 4.0, 1) }).unwrap()
    };
    let balanced = [setting("epp", "balance_power")];
    let (one, other) = (averaging((100, 200)), AutonomousSpec::default());
    let either = replay("performance", one, None).predict(&balanced).unwrap().rate;
    let other_alone = replay("performance", other, None).predict(&balanced).unwrap().rate;
    assert_near(either.value, 1.0);
    assert!(other_alone.value < 0.97, "{other_alone:?}");
    // The model's own error at no change is a tenth.
    assert!(either.low < other_alone.value / 1.1 && either.high > 1.1, "{either:?} {other_alone:?}");
    // Recorded under the preference, at the frequency that the other assumption gives.
    let at = replay("performance", other, None).predict(&balanced).unwrap().frequency;
    let told = replay("balance_power", one, Some(at));
    assert!(told.fit().frequency.is_some_and(|ratio| (ratio - 1.0).abs() < 0.1), "{:?}", told.fit());
}

#[test]
fn governors_of_the_kernel_are_predicted_for_a_driver_that_chooses_by_itself() {
    let mut machine = machine(1, &[("intel_pstate.status", "active"), ("governor", "performance")]);
    machine.spec.cpu.driver = Driver::IntelPstate;
    let replay = Replay::new(machine, load(100.0, 4.0, 1)).unwrap();
    let passive = |governor: &str| {
        let settings = [setting("intel_pstate.status", "passive"), setting("governor", governor)];
        replay.predict(&settings).unwrap().rate.value
    };
    assert_near(passive("performance"), 1.0);
    assert_near(passive("powersave"), 10.0 / 14.0);
    let error = replay.predict(&[setting("governor", "powersave"), setting("ondemand.up_threshold", "40")]);
    assert!(error.unwrap_err().to_string().contains("ondemand.up_threshold"), "active mode has no governors");
    let asked = replay::what_matters(&replay);
    let schedutil = [setting("intel_pstate.status", "passive"), setting("governor", "schedutil")];
    assert!(asked.iter().any(|one| one.settings == schedutil), "{asked:?}");
    // A limit is gone with the mode, so that a gain would not be the governor's.
    let mut limited = replay.machine().clone();
    limited.in_force.push(setting("max_freq", "1000000"));
    let asked = replay::what_matters(&Replay::new(limited, load(100.0, 4.0, 1)).unwrap());
    assert!(asked.iter().flat_map(|one| &one.settings).all(|one| *one != schedutil[0]), "{asked:?}");
    let mut old = replay.machine().clone();
    old.spec.kernel = KernelVersion::new(4, 4, 0);
    let asked = replay::what_matters(&Replay::new(old, load(100.0, 4.0, 1)).unwrap());
    assert!(asked.iter().flat_map(|one| &one.settings).all(|one| *one != schedutil[0]), "{asked:?}");
}

#[test]
fn equal_recordings_give_equal_predictions() {
    let predict = || {
        let replay = Replay::new(machine(2, &[("governor", "ondemand")]), load(300.0, 3.0, 4)).unwrap();
        replay.predict(&[setting("governor", "schedutil")]).unwrap()
    };
    assert_eq!(predict(), predict());
}

#[test]
fn a_setting_that_the_machine_has_not_is_refused_by_name() {
    let replay = Replay::new(machine(1, &[("governor", "performance")]), load(100.0, 4.0, 1)).unwrap();
    for (name, value) in [("governor", "onfire"), ("epp", "power"), ("scheduler", "none")] {
        let error = replay.predict(&[setting(name, value)]).unwrap_err().to_string();
        assert!(error.contains(value) || error.contains(name), "{error}");
    }
}
