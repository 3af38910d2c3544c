//! Time dilation: from the time of the machine that is stood for to the guest's, and back.
//!
//! A guest that is D times slower does in D seconds what the machine does in one. So a cell is *stretched* before it runs
//! there: what it says of time becomes D times as long, and what it says of rates D times as low; and its trial is
//! *shrunk* afterwards. Trace, commands and [`domain::lab::LabAccount`] stay in the guest's time: they are raw.
//!
//! What no setting stretches is listed in [`UNSCALED`]; [`TIMERS`] are those that one does, and a guest has to stretch
//! the defaults of those that no cell sets. Sources: fio(1) 3.33 and how it reads numbers; the kernel's
//! `Documentation/admin-guide/{sysctl,pm}`, `Documentation/block`.

mod databases;

pub use domain::lab::{UNSCALED, Unscaled};

use domain::plan::Cell;
use domain::setting::{SettingRecord, SettingRequest};
use domain::stack::{Part, SAFE_MODE_DELAY};
use domain::study::{Measure, Tool};
use domain::time::Nanos;
use domain::trial::{Measurement, Trial};
use domain::units::Unit;
use std::collections::BTreeMap;

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

/// Settings that are spans or rates, by the last part of their name or path.
pub const TIMERS: &[(&str, Scales)] = {
    use Scales::{AgainstTime, WithTime};
    &[
        // cpufreq: ondemand, conservative, schedutil (µs).
        ("sampling_rate", WithTime),
        ("rate_limit_us", WithTime),
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

/// fio's options of time, with the nanoseconds of a bare number.
const FIO_TIMES: &[(&str, u64)] = &[
    ("runtime", 1_000_000_000),
    ("timeout", 1_000_000_000),
    ("ramp_time", 1_000_000_000),
    ("startdelay", 1_000_000_000),
    ("start_delay", 1_000_000_000),
    ("steadystate_duration", 1_000_000_000),
    ("steadystate_ramp_time", 1_000_000_000),
    ("thinktime_iotime", 1_000_000_000),
    ("thinktime", 1_000),
    ("thinktime_spin", 1_000),
    ("latency_target", 1_000),
    ("latency_window", 1_000),
    ("max_latency", 1_000),
];

/// fio's options that are numbers of milliseconds or microseconds and take no unit.
const FIO_NUMBERS_OF_TIME: &[&str] =
    &["rate_cycle", "bwavgtime", "iopsavgtime", "log_avg_msec", "log_hist_msec", "cpuchunks"];

/// fio's options of rates.
const FIO_RATES: &[&str] = &["rate", "rate_min", "rate_iops", "rate_iops_min"];

/// Turns a cell, and how it is measured, into the guest's time, which is `d` times slower.
///
/// fio's times and rates, those of loads on a database, settings of [`TIMERS`]; the recorder's interval, the timeout and the settling, each within what
/// is allowed. What fio or the kernel does not read as a number stays as it is. dd says nothing of time, and what a
/// command's arguments say of it is not known: they stay.
pub fn stretch(cell: &mut Cell, measure: &mut Measure, d: f64) {
    match cell.workload.tool {
        Tool::Fio => stretch_fio(&mut cell.workload.options, d),
        Tool::Sysbench | Tool::Pgbench if d != 1.0 => databases::stretch(&mut cell.workload, d),
        _ => {}
    }
    cell.settings.iter_mut().for_each(|request| stretch_setting(request, d));
    stretch_stack(cell, d);
    measure.interval = longer(measure.interval, d).min(SLOWEST_INTERVAL);
    measure.timeout = longer(measure.timeout, d).min(LONGEST_TIMEOUT);
    measure.settle = longer(measure.settle, d).min(LONGEST_SETTLE);
}

/// Turns a trial of the guest into the time of the machine that is stood for.
///
/// Metrics by their unit: rates times `d`, times over `d`; shares, counts, watts and joules as they are, for the guest
/// has no meter of its own (see [`domain::lab::energy_metric`]). The trial's duration, the CPU time of roles and threads,
/// the busy time of disks, the recorder's CPU time and span: over `d`. Settings of [`TIMERS`]: back, where that is a whole
/// number that stretches to what was read; else as read, marked with [`IN_GUEST_TIME`]. Environment, disturbances,
/// commands and the account of the lab stay: they tell of the guest.
///
/// A script that reproduces the trial in a guest has to be made before.
pub fn shrink(trial: &mut Trial, d: f64) {
    trial.settings.iter_mut().for_each(|record| shrink_setting(record, d));
    if let Some(measurement) = &mut trial.measurement {
        shrink_measurement(measurement, d);
    }
}

/// The value that a setting has in the guest; `None` where it is none of [`TIMERS`] or no number above zero, by which
/// the kernel means something else than a time.
pub fn stretched_value(setting: &str, value: &str, d: f64) -> Option<String> {
    scaled_value(setting, value, d)
}

fn stretch_fio(options: &mut BTreeMap<String, String>, d: f64) {
    for (name, value) in options {
        let name = name.as_str();
        let stretched = if let Some((_, unit_ns)) = FIO_TIMES.iter().find(|(time, _)| *time == name) {
            each(value, &[',', '-'], |part| fio_time(part, *unit_ns, d))
        } else if FIO_NUMBERS_OF_TIME.contains(&name) {
            each(value, &[','], |part| whole(part.parse::<u64>().ok()? as f64 * d))
        } else if FIO_RATES.contains(&name) {
            // A rate of 0 is none at all.
            each(value, &[','], |part| whole((fio_bytes(part)? as f64 / d).max(1.0)))
        } else {
            None
        };
        if let Some(stretched) = stretched {
            *value = stretched;
        }
    }
}

/// Changes each part of a list such as `1m,500k`; empty and zero ones stay. `None` where a part is no number.
fn each(value: &str, separators: &[char], change: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut text = String::new();
    for piece in value.split_inclusive(separators) {
        let part = piece.trim_end_matches(separators);
        match part.trim() {
            "" | "0" => text.push_str(part),
            number => text.push_str(&change(number)?),
        }
        text.push_str(&piece[part.len()..]);
    }
    Some(text)
}

/// A time as fio reads it, stretched, in microseconds.
fn fio_time(text: &str, bare_ns: u64, d: f64) -> Option<String> {
    let (number, unit) = fio_number(text)?;
    let unit_ns = match unit.to_ascii_lowercase().as_str() {
        "" => bare_ns,
        "d" => 86_400_000_000_000,
        "h" => 3_600_000_000_000,
        "m" => 60_000_000_000,
        "s" => 1_000_000_000,
        "ms" | "msec" => 1_000_000,
        "us" | "usec" => 1_000,
        _ => return None,
    };
    let stretched_us = number as f64 * unit_ns as f64 / 1e3 * d;
    Some(format!("{}us", whole(stretched_us)?))
}

/// A number of bytes as fio reads it: in its default `kb_base`, `k` and `kB` are 1024 and `KiB` is 1000.
fn fio_bytes(text: &str) -> Option<u64> {
    let (number, unit) = fio_number(text)?;
    let unit = unit.to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (letter, base) = unit.strip_suffix('i').map_or((unit, 1024_u64), |letter| (letter, 1000));
    let power = ["", "k", "m", "g", "t", "p"].iter().position(|p| *p == letter)?;
    number.checked_mul(base.checked_pow(u32::try_from(power).ok()?)?)
}

/// A whole number and its unit. fio reads nothing after a point, not even the unit: `1.5m` is 1.
fn fio_number(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = if unit.starts_with('.') { "" } else { unit };
    Some((number.parse().ok()?, unit))
}

/// A count as text; `None` where it is too large to be one.
fn whole(value: f64) -> Option<String> {
    (value.is_finite() && value < 9e18).then(|| format!("{}", value.round() as u64))
}

/// An array's own timer, which starts with the array: a default stays as it is where nobody writes another one.
fn stretch_stack(cell: &mut Cell, d: f64) {
    let layers = cell.stack.iter_mut().filter(|_| d != 1.0).flat_map(|stack| &mut stack.layers);
    for layer in layers {
        if let Part::Md(md) = &mut layer.part
            && md.level.is_redundant()
        {
            md.safe_mode_delay = Some(longer(md.safe_mode_delay.unwrap_or(SAFE_MODE_DELAY), d));
        }
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
    TIMERS.iter().find(|(name, _)| *name == last).map(|(_, scales)| *scales)
}

/// The kernel keeps most of these in an `int`: what is larger it would refuse.
const MOST_VALUE: f64 = 2_147_483_647.0;

fn scaled_value(setting: &str, value: &str, d: f64) -> Option<String> {
    let factor = match scales(setting)? {
        Scales::WithTime => d,
        Scales::AgainstTime => 1.0 / d,
    };
    let number = number_above_zero(value)? as f64;
    // Zero means off, or no bound.
    whole((number * factor).clamp(1.0, MOST_VALUE.max(number)))
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
    if let Some(recorder) = &mut measurement.recorder {
        shorten(&mut recorder.cpu);
        shorten(&mut recorder.span);
    }
}

/// What a metric of the guest is multiplied by.
fn per_unit(unit: &Unit, d: f64) -> f64 {
    match unit {
        Unit::BytesPerSecond | Unit::PerSecond => d,
        Unit::Seconds => 1.0 / d,
        Unit::Joules | Unit::Watts | Unit::Share | Unit::Count => 1.0,
        Unit::Other(name) if name.ends_with("/s") => d,
        Unit::Other(name) if ["ns", "us", "µs", "ms", "s", "min", "h"].contains(&name.as_str()) => 1.0 / d,
        Unit::Other(_) => 1.0,
    }
}

fn longer(span: Nanos, factor: f64) -> Nanos {
    // A float that is too large becomes the largest span.
    Nanos::new((span.get() as f64 * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::outcome::{Better, Metric, Outcome};
    use domain::plan::CellId;
    use domain::setting::SettingName;
    use domain::stack::{Draft, DraftLayer};
    use domain::study::Workload;
    use domain::time::Timestamp;
    use domain::trace::{FrequencySource, Role};
    use domain::trial::{DiskTotals, Provenance, RecorderReport, RunId, ThreadTime, TrialKey, Validity};
    use proptest::prelude::*;

    fn fio(option: &str, value: &str) -> String {
        let mut cell = cell(&[(option, value)], &[]);
        stretch(&mut cell, &mut Measure::default(), 20.0);
        cell.workload.options[option].clone()
    }

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
            stack: None,
            kernel: None,
            machine: None,
        }
    }

    #[test]
    fn times_of_fio_are_stretched_as_fio_reads_them() {
        for (option, value, stretched) in [
            ("runtime", "5", "100000000us"),
            ("runtime", "5s", "100000000us"),
            ("runtime", "1m", "1200000000us"),
            ("runtime", "0", "0"),
            ("ramp_time", "200ms", "4000000us"),
            ("startdelay", "1-2", "20000000us-40000000us"),
            ("thinktime", "150", "3000us"),
            ("thinktime", "10ms", "200000us"),
            ("thinktime_iotime", "9", "180000000us"),
            ("max_latency", "10ms,,1", "200000us,,20us"),
            ("latency_target", "500", "10000us"),
            ("log_avg_msec", "100", "2000"),
            ("cpuchunks", "50000", "1000000"),
            // fio 3.33 reads 1.5s as 1 and its default unit.
            ("runtime", "1.5s", "20000000us"),
            ("thinktime_blocks", "4", "4"),
            ("runtime", "soon", "soon"),
        ] {
            assert_eq!(fio(option, value), stretched, "{option} = {value}");
        }
    }

    #[test]
    fn rates_of_fio_fall_and_never_to_none() {
        for (option, value, stretched) in [
            ("rate", "1m", "52429"),
            ("rate", "20MiB,,40k", "1000000,,2048"),
            ("rate", ",500k", ",25600"),
            ("rate_iops", "1000,2000", "50,100"),
            ("rate_iops", "10", "1"),
            ("rate_min", "0", "0"),
            ("rate_process", "poisson", "poisson"),
        ] {
            assert_eq!(fio(option, value), stretched, "{option} = {value}");
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
            let layer = |name: &str, values: &[(&str, &str)]| DraftLayer {
                name: name.into(),
                values: values.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
            };
            let mut array = layer("array", &[("kind", "md"), ("on", "disks"), ("level", level)]);
            array.values.extend(own.map(|own| ("safe_mode_delay".into(), own.into())));
            let disks = layer("disks", &[("kind", "devices"), ("count", "4"), ("loop", "64MiB")]);
            let mut cell = cell(&[], &[]);
            cell.stack = Some(Draft { layers: vec![disks, array] }.build().unwrap());
            stretch(&mut cell, &mut Measure::default(), d);
            let Part::Md(md) = &cell.stack.unwrap().layers[1].part else { panic!() };
            md.safe_mode_delay
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
            (Unit::Other("ms".into()), s),
            (Unit::Other("MB/s".into()), 1.0 / s),
            (Unit::Other("apples".into()), 1.0),
        ];
        let metric = |(index, value): (usize, &f64)| {
            let (unit, factor) = units[index % units.len()].clone();
            (format!("m{index}"), Metric { value: value * factor, unit, better: Better::Higher })
        };
        let metrics = values.iter().enumerate().map(metric).collect();
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
                }],
                recorder: Some(RecorderReport {
                    samples: 500,
                    missed: 0,
                    cpu: of(1_000),
                    span: of(5_000_000_000),
                    frequency: FrequencySource::TimeInState,
                    absent: vec![],
                }),
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
        fn no_option_makes_it_panic(value in "\\PC{0,12}", d in 1.0..1e6_f64) {
            for (option, _) in FIO_TIMES {
                stretch(&mut cell(&[(option, &value)], &[("sampling_rate", &value)]), &mut Measure::default(), d);
            }
            for option in FIO_RATES.iter().chain(FIO_NUMBERS_OF_TIME) {
                stretch(&mut cell(&[(option, &value)], &[("sync_speed_max", &value)]), &mut Measure::default(), d);
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
