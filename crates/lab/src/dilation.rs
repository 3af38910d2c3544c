//! Time dilation: from the time of the machine that is stood for to the guest's, and back.
//!
//! A guest that is D times slower does in D seconds what the machine does in one. So a cell is *stretched*
//! before it runs there: what it says of time becomes D times as long, and what it says of rates D times as
//! low; and its trial is *shrunk* afterwards. Trace, commands and [`domain::lab::LabAccount`] stay in the
//! guest's time: they are raw.
//!
//! What no setting stretches is listed in [`UNSCALED`]; [`TIMERS`] are those that one does, and a guest has
//! to stretch the defaults of those that no cell sets. Sources: fio(1) 3.33 and how it reads numbers; the
//! kernel's `Documentation/admin-guide/{sysctl,pm}`, `Documentation/block`.

pub use domain::lab::{UNSCALED, Unscaled};

use domain::passage::Given;
use domain::plan::Cell;
use domain::setting::{SettingRecord, SettingRequest};
use domain::spent::Spent;
use domain::study::{Companion, Measure};
use domain::time::Nanos;
use domain::trial::{Measurement, Trial};
use domain::units::Unit;
use workloads::stretch::{longer, whole};

/// The slowest that the recorder samples; the same bound as a study's.
const SLOWEST_INTERVAL: Nanos = Nanos::from_secs(10);
/// The longest that a trial may take; the same bound as a study's.
const LONGEST_TIMEOUT: Nanos = Nanos::from_secs(86_400);
/// The longest that a trial waits for a quiet machine; the same bound as a study's.
const LONGEST_SETTLE: Nanos = Nanos::from_secs(3_600);

/// What is added to a setting's value that is no whole number of the machine's own time.
pub const IN_GUEST_TIME: &str = " (in the guest's time)";

/// How a quantity changes where time is stretched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scales {
    /// A span: D times as long in the guest.
    WithTime,
    /// A rate: D times as low in the guest.
    AgainstTime,
}

/// Settings that are spans or rates, by the last part of their name or path; and the timers of governors
/// ([`domain::cpufreq::is_timer`]).
pub const TIMERS: &[(&str, Scales)] = {
    use Scales::{AgainstTime, WithTime};
    &[
        // Writeback.
        ("dirty_expire_centisecs", WithTime),
        ("dirty_writeback_centisecs", WithTime),
        ("dirtytime_expire_seconds", WithTime),
        ("xfssyncd_centisecs", WithTime),
        // The scheduler: sysctls up to 5.12, debugfs since.
        ("sched_latency_ns", WithTime),
        ("sched_min_granularity_ns", WithTime),
        ("sched_wakeup_granularity_ns", WithTime),
        ("sched_migration_cost_ns", WithTime),
        ("sched_cfs_bandwidth_slice_us", WithTime),
        ("sched_rt_period_us", WithTime),
        ("sched_rt_runtime_us", WithTime),
        ("sched_rr_timeslice_ms", WithTime),
        ("latency_ns", WithTime),
        ("min_granularity_ns", WithTime),
        ("wakeup_granularity_ns", WithTime),
        ("base_slice_ns", WithTime),
        ("migration_cost_ns", WithTime),
        // The block layer and its schedulers.
        ("io_timeout", WithTime),
        ("wbt_lat_usec", WithTime),
        ("read_expire", WithTime),
        ("write_expire", WithTime),
        ("prio_aging_expire", WithTime),
        ("read_lat_nsec", WithTime),
        ("write_lat_nsec", WithTime),
        ("fifo_expire_sync", WithTime),
        ("fifo_expire_async", WithTime),
        ("slice_idle", WithTime),
        ("slice_idle_us", WithTime),
        ("timeout_sync", WithTime),
        // md.
        ("sync_speed_min", AgainstTime),
        ("sync_speed_max", AgainstTime),
        ("speed_limit_min", AgainstTime),
        ("speed_limit_max", AgainstTime),
    ]
};

/// Turns a cell, and how it is measured, into the guest's time, which is `d` times slower.
///
/// fio's times and rates, also of loads beside the workload, and their lead; those of loads on a database;
/// settings of [`TIMERS`]; the recorder's interval, the timeout and the settling, each within what is
/// allowed. What fio or the kernel does not read as a number stays as it is. dd says nothing of time, and
/// what a command's arguments say of it is not known: they stay.
pub fn stretch(cell: &mut Cell, measure: &mut Measure, d: f64) {
    workloads::of(&cell.workload.tool).stretch(&mut cell.workload.options, d);
    for Companion { load, lead } in &mut cell.beside {
        workloads::of(&load.tool).stretch(&mut load.options, d);
        *lead = longer(*lead, d);
    }
    cell.settings.iter_mut().for_each(|request| stretch_setting(request, d));
    stretch_stack(cell, d);
    measure.interval = longer(measure.interval, d).min(SLOWEST_INTERVAL);
    measure.timeout = longer(measure.timeout, d).min(LONGEST_TIMEOUT);
    measure.settle = longer(measure.settle, d).min(LONGEST_SETTLE);
}

/// Turns a trial of the guest into the time of the machine that is stood for.
///
/// Metrics by their unit: rates times `d`; times, and joules by the guest's own counters, over `d`; shares,
/// counts and watts as they are. The trial's duration, the CPU time
/// of roles and threads, the busy time of disks, the recorder's CPU time and span: over `d`. Settings of
/// [`TIMERS`]: back, where that is a whole number that stretches to what was read; else as read, marked with
/// [`IN_GUEST_TIME`]. Environment, disturbances, commands and the account of the lab stay: they tell of the
/// guest.
///
/// A script that reproduces the trial in a guest has to be made before.
pub fn shrink(trial: &mut Trial, d: f64) {
    trial.settings.iter_mut().for_each(|record| shrink_setting(record, d));
    if let Some(measurement) = &mut trial.measurement {
        shrink_measurement(measurement, d);
    }
}

/// The value that a setting has in the guest; `None` where it is none of [`TIMERS`] or no number above zero,
/// by which the kernel means something else than a time.
pub fn stretched_value(setting: &str, value: &str, d: f64) -> Option<String> {
    scaled_value(setting, value, d)
}

/// The timers of what is built, which start with it: a default stays as it is where nobody writes another
/// one.
fn stretch_stack(cell: &mut Cell, d: f64) {
    let layers = cell.stack.iter_mut().filter(|_| d != 1.0).flat_map(|stack| &mut stack.layers);
    for (timer, usual) in layers.flat_map(|layer| layer.part.timers()) {
        *timer = Some(longer(timer.unwrap_or(usual), d));
    }
}

fn stretch_setting(request: &mut SettingRequest, d: f64) {
    if let Some(value) = scaled_value(&request.setting.name, &request.value, d) {
        request.value = value;
    }
}

fn shrink_setting(record: &mut SettingRecord, d: f64) {
    let name = record.setting.name.clone();
    if scales(&name).is_none() || d == 1.0 {
        return;
    }
    let shrink = |value: &mut String| {
        let back = scaled_value(&name, value, 1.0 / d);
        let exact = back.filter(|back| scaled_value(&name, back, d).as_ref() == Some(value));
        match exact {
            Some(exact) => *value = exact,
            None if number_above_zero(value).is_some() => value.push_str(IN_GUEST_TIME),
            None => {}
        }
    };
    [&mut record.before, &mut record.asked, &mut record.got].into_iter().for_each(shrink);
    record.after.iter_mut().for_each(shrink);
}

/// How a setting scales, by the last part of its name or path.
fn scales(setting: &str) -> Option<Scales> {
    let last = setting.rsplit(['/', '.']).next()?;
    let known = TIMERS.iter().find(|(name, _)| *name == last).map(|(_, scales)| *scales);
    known.or_else(|| domain::cpufreq::is_timer(last).then_some(Scales::WithTime))
}

/// The kernel keeps most of these in an `int`: what is larger it would refuse.
const MAX_VALUE: f64 = 2_147_483_647.0;

fn scaled_value(setting: &str, value: &str, d: f64) -> Option<String> {
    let factor = match scales(setting)? {
        Scales::WithTime => d,
        Scales::AgainstTime => 1.0 / d,
    };
    let number = number_above_zero(value)? as f64;
    // Zero means off, or no bound.
    whole((number * factor).clamp(1.0, MAX_VALUE.max(number)))
}

fn number_above_zero(value: &str) -> Option<u64> {
    value.trim().parse::<u64>().ok().filter(|number| *number > 0)
}

fn shrink_measurement(measurement: &mut Measurement, d: f64) {
    for metric in measurement.outcome.metrics.values_mut() {
        metric.value *= per_unit(&metric.unit, d);
    }
    let shorten = |span: &mut Nanos| *span = longer(*span, 1.0 / d);
    shorten(&mut measurement.duration);
    measurement.roles.values_mut().for_each(shorten);
    measurement.threads.iter_mut().for_each(|thread| shorten(&mut thread.cpu));
    measurement.disks.iter_mut().for_each(|disk| shorten(&mut disk.busy));
    for took in measurement.disks.iter_mut().flat_map(|disk| disk.served.values_mut()) {
        for part in [&mut took.queue, &mut took.service, &mut took.whole] {
            *part = part.scaled(1.0 / d);
        }
    }
    let passages = measurement.disks.iter_mut().filter_map(|disk| disk.passage.as_mut());
    for given in passages.flat_map(|passage| passage.given.values_mut()) {
        let Given { before, below, between, after, .. } = given;
        [before, below, between, after].into_iter().for_each(shorten);
    }
    let shorten_spent = |spent: &mut Spent| {
        let waits = spent.wait_ns.iter_mut();
        for ns in [&mut spent.cpu_ns, &mut spent.ready_ns].into_iter().chain(waits) {
            *ns = longer(Nanos::new(*ns), 1.0 / d).get();
        }
    };
    measurement.spent.values_mut().for_each(shorten_spent);
    for called in measurement.calls.iter_mut().flat_map(|calls| calls.of.values_mut()) {
        called.took = called.took.scaled(1.0 / d);
        shorten_spent(&mut called.spent);
        called.woken_by.values_mut().for_each(shorten);
        called.with_bios.times_mut().into_iter().for_each(shorten);
    }
    if let Some(profile) = &mut measurement.profile {
        shorten(&mut profile.period);
    }
    for windows in measurement.windows.iter_mut().flat_map(|windows| windows.cpus.values_mut()) {
        shorten(&mut windows.time);
        shorten(&mut windows.busy);
    }
    for phase in &mut measurement.phases {
        shorten(&mut phase.begin);
        shorten(&mut phase.end);
        for metric in phase.metrics.values_mut() {
            metric.value *= per_unit(&metric.unit, d);
        }
    }
    if let Some(recorder) = &mut measurement.recorder {
        shorten(&mut recorder.cpu);
        shorten(&mut recorder.span);
    }
}

/// What a metric of the guest is multiplied by.
fn per_unit(unit: &Unit, d: f64) -> f64 {
    match unit {
        Unit::BytesPerSecond | Unit::PerSecond => d,
        Unit::Seconds | Unit::Joules => 1.0 / d,
        Unit::Watts | Unit::Hertz | Unit::Share | Unit::Count => 1.0,
        Unit::Other(name) if name.ends_with("/s") => d,
        Unit::Other(name) if ["ns", "us", "µs", "ms", "s", "min", "h"].contains(&name.as_str()) => 1.0 / d,
        Unit::Other(_) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::calls::{Call, Called, Calls, WithBios};
    use domain::ids::{CellId, RunId, TrialKey};
    use domain::outcome::{Better, Metric, Outcome};
    use domain::passage::Passage;
    use domain::phase::Phase;
    use domain::request::Op;
    use domain::setting::SettingName;
    use domain::stack::{LayerSpec, StackSpec};
    use domain::study::{Tool, Workload};
    use domain::time::Timestamp;
    use domain::took::Took;
    use domain::trace::{FrequencySource, Role};
    use domain::trial::{DiskTotals, Provenance, RecorderReport, ThreadTime, Validity};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn cell(options: &[(&str, &str)], settings: &[(&str, &str)]) -> Cell {
        let options = options.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let request = |(name, value): &(&str, &str)| SettingRequest {
            setting: SettingName::parse(name),
            value: (*value).into(),
        };
        Cell {
            id: CellId::new(["w"]),
            workload: Workload { name: "w".into(), tool: Tool::Fio, options },
            levels: BTreeMap::new(),
            settings: settings.iter().map(request).collect(),
            beside: Vec::new(),
            stack: None,
            kernel: None,
            machine: None,
            pstates: None,
        }
    }

    #[test]
    fn a_command_and_dd_keep_their_words() {
        let mut cell = cell(&[("runtime", "5")], &[]);
        cell.workload.tool = Tool::Dd;
        stretch(&mut cell, &mut Measure::default(), 20.0);
        assert_eq!(cell.workload.options["runtime"], "5");
    }

    #[test]
    fn settings_of_time_are_stretched_and_others_are_not() {
        let mut cell = cell(
            &[],
            &[
                ("ondemand.sampling_rate", "10000"),
                ("vm.dirty_expire_centisecs", "3000"),
                ("wbt_lat_usec@sda", "-1"),
                ("wbt_lat_usec@sdb", "0"),
                ("sync_speed_max", "200000"),
                ("sync_speed_min", "system"),
                ("/sys/kernel/debug/sched/latency_ns", "24000000"),
                ("vm.dirty_expire_centisecs", "2000000000"),
                ("ondemand.up_threshold", "95"),
                ("read_ahead_kb", "128"),
            ],
        );
        stretch(&mut cell, &mut Measure::default(), 20.0);
        let values: Vec<&str> = cell.settings.iter().map(|s| s.value.as_str()).collect();
        let expected =
            ["200000", "60000", "-1", "0", "10000", "system", "480000000", "2147483647", "95", "128"];
        assert_eq!(values, expected);
    }

    #[test]
    fn an_arrays_delay_before_it_is_clean_is_stretched_also_where_it_is_the_kernels_own() {
        let delay = |level: &str, own: Option<&str>, d| {
            let layer = |name: &str, values: &[(&str, &str)]| LayerSpec {
                name: name.into(),
                values: values.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
            };
            let mut array = layer("array", &[("kind", "md"), ("on", "disks"), ("level", level)]);
            array.values.extend(own.map(|own| ("safe_mode_delay".into(), own.into())));
            let disks = layer("disks", &[("kind", "devices"), ("count", "4"), ("loop", "64MiB")]);
            let mut cell = cell(&[], &[]);
            cell.stack = Some(StackSpec { layers: vec![disks, array] }.build().unwrap());
            stretch(&mut cell, &mut Measure::default(), d);
            cell.stack.unwrap().layers[1].array().unwrap().safe_mode_delay
        };
        assert_eq!(delay("5", None, 3.0), Some(Nanos::from_millis(600)));
        assert_eq!(delay("10", Some("50ms"), 3.0), Some(Nanos::from_millis(150)));
        assert_eq!(delay("1", Some("0s"), 3.0), Some(Nanos::ZERO));
        assert_eq!((delay("5", None, 1.0), delay("0", None, 3.0)), (None, None));
    }

    #[test]
    fn how_it_is_measured_is_stretched_within_bounds() {
        let mut measure = Measure::default();
        stretch(&mut cell(&[], &[]), &mut measure, 20.0);
        assert_eq!(
            (measure.interval, measure.timeout, measure.settle),
            (Nanos::from_millis(200), Nanos::from_secs(12_000), Nanos::from_secs(200))
        );
        stretch(&mut cell(&[], &[]), &mut measure, 1000.0);
        assert_eq!(
            (measure.interval, measure.timeout, measure.settle),
            (SLOWEST_INTERVAL, LONGEST_TIMEOUT, LONGEST_SETTLE)
        );
    }

    fn record(name: &str, value: &str) -> SettingRecord {
        SettingRecord {
            setting: SettingName::parse(name),
            path: "/sys/x".into(),
            before: value.into(),
            asked: value.into(),
            got: value.into(),
            after: Some(value.into()),
        }
    }

    #[test]
    fn a_setting_that_is_no_whole_number_of_the_machines_time_says_so() {
        let mut trial = trial(1, &[]);
        trial.settings =
            vec![record("schedutil.rate_limit_us", "200001"), record("schedutil.rate_limit_us", "0")];
        shrink(&mut trial, 20.0);
        assert_eq!(trial.settings[0].got, "200001 (in the guest's time)");
        assert_eq!(trial.settings[1].got, "0");
    }

    /// A trial of a machine on which everything takes `slower` times as long.
    fn trial(slower: u64, values: &[f64]) -> Trial {
        let s = slower as f64;
        let of = |ns: u64| Nanos::new(ns * slower);
        let units = [
            (Unit::BytesPerSecond, 1.0 / s),
            (Unit::PerSecond, 1.0 / s),
            (Unit::Seconds, s),
            (Unit::Share, 1.0),
            (Unit::Count, 1.0),
            (Unit::Watts, 1.0),
            (Unit::Hertz, 1.0),
            // The same watts for longer.
            (Unit::Joules, s),
            (Unit::Other("ms".into()), s),
            (Unit::Other("MB/s".into()), 1.0 / s),
            (Unit::Other("apples".into()), 1.0),
        ];
        let metric = |(index, value): (usize, &f64)| {
            let (unit, factor) = units[index % units.len()].clone();
            (format!("m{index}"), Metric { value: value * factor, unit, better: Better::Higher })
        };
        let metrics = values.iter().enumerate().map(metric).collect();
        let [before, below, between, after] = [3, 5_000_000, 70, 11].map(of);
        let given = Given { followed: 7, before, below, between, after, ..Given::default() };
        let with_bios = WithBios { followed: 7, before, below, between, after, ..WithBios::default() };
        let called = Called {
            took: Took::sums(7, of(6_000_000), of(1_000_000)),
            spent: Spent { cpu_ns: of(55).get(), ..Spent::default() },
            woken_by: [(Role::Journal, of(5_000_000))].into(),
            with_bios,
            ..Called::default()
        };
        let calls = Calls { of: [((Role::Workload, Call::Fsync), called)].into(), queued: None };
        Trial {
            run: RunId("r".into()),
            key: TrialKey { block: 0, cell: CellId::new(["w"]), attempt: 0 },
            study: "s".into(),
            workload: "w".into(),
            levels: BTreeMap::new(),
            provenance: Provenance::Lab,
            machine: "m".into(),
            started: Timestamp::default(),
            settings: vec![
                record("ondemand.sampling_rate", &(10_000 * slower).to_string()),
                record("read_ahead_kb", "128"),
            ],
            environment: BTreeMap::new(),
            validity: Validity::Valid,
            measurement: Some(Measurement {
                outcome: Outcome { metrics, tool: "fio".into(), warnings: vec![] },
                commands: vec![],
                duration: of(5_000_000_123),
                roles: BTreeMap::from([(Role::Workload, of(77)), (Role::Crypt, of(12_345_678))]),
                threads: vec![ThreadTime { name: "fio".into(), tid: 7, role: Role::Workload, cpu: of(99) }],
                disks: vec![DiskTotals {
                    device: "dm-0".into(),
                    read_ios: 300,
                    read_sectors: 2400,
                    write_ios: 0,
                    write_sectors: 0,
                    busy: of(4_000_000),
                    accesses: None,
                    served: Default::default(),
                    passage: Some(Passage { given: [(Op::Read, given)].into(), ..Passage::default() }),
                }],
                recorder: Some(RecorderReport {
                    samples: 500,
                    missed: 0,
                    cpu: of(1_000),
                    span: of(5_000_000_000),
                    frequency: FrequencySource::TimeInState,
                    energy: None,
                    cpu_changes: Vec::new(),
                    absent: vec![],
                }),
                profile: None,
                windows: None,
                phases: vec![Phase {
                    name: Some("warm".into()),
                    begin: of(1_000_000),
                    end: of(3_000_000),
                    metrics: BTreeMap::new(),
                }],
                spent: Default::default(),
                calls: Some(calls),
                disturbances: vec![],
            }),
            lab: None,
            origin: None,
        }
    }

    proptest! {
        #[test]
        fn what_is_slower_by_the_dilation_comes_back_as_it_was(
            slower in 1_u64..2_000,
            values in proptest::collection::vec(1e-6..1e12_f64, 0..12),
        ) {
            let mut guest = trial(slower, &values);
            shrink(&mut guest, slower as f64);
            let own = trial(1, &values);
            let (guest_metrics, own_metrics) = (
                std::mem::take(&mut guest.measurement.as_mut().unwrap().outcome.metrics),
                &own.measurement.as_ref().unwrap().outcome.metrics,
            );
            for (name, metric) in own_metrics {
                let back = guest_metrics[name].value;
                prop_assert!((back / metric.value - 1.0).abs() < 1e-12, "{name}: {back}");
            }
            let mut own = own.clone();
            own.measurement.as_mut().unwrap().outcome.metrics.clear();
            prop_assert_eq!(guest, own);
        }

        #[test]
        fn a_stretched_setting_comes_back_as_it_was(value in 1_u64..100_000, d in 1.0..20_000.0_f64) {
            let mut cell = cell(&[], &[("ondemand.sampling_rate", &value.to_string())]);
            stretch(&mut cell, &mut Measure::default(), d);
            let mut trial = trial(1, &[]);
            trial.settings = vec![record("ondemand.sampling_rate", &cell.settings[0].value)];
            shrink(&mut trial, d);
            prop_assert_eq!(&trial.settings[0].got, &value.to_string());
        }

        #[test]
        fn no_setting_makes_it_panic(value in "\\PC{0,12}", d in 1.0..1e6_f64) {
            for setting in ["sampling_rate", "sync_speed_max"] {
                stretch(&mut cell(&[], &[(setting, &value)]), &mut Measure::default(), d);
            }
        }
    }

    #[test]
    fn a_dilation_of_one_changes_nothing() {
        let mut it = trial(1, &[1.0, 2.0, 3.0]);
        shrink(&mut it, 1.0);
        assert_eq!(it, trial(1, &[1.0, 2.0, 3.0]));
    }
}
