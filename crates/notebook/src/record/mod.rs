//! What is stored as JSON: versioned types of their own, converted both ways.
//!
//! Each file names its schema. A file of a newer schema is refused with the program version that is needed;
//! one of an older schema is read by its own module for ever, and a notebook of it stays among the fixtures.

mod v1;

use crate::error::{Error, Result};
use crate::kept::{Keep, Kept};
use crate::recording::Recording;
use domain::ids::CellId;
use domain::inventory::Storage;
use domain::trial::{Run, Trial};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

pub use crate::index::{unit_name, validity_of};

/// The schema that is written.
pub const SCHEMA: u64 = 1;

/// The version of this program, kept in each file.
pub const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// A bound on one JSON file. The largest trial, with all its threads, disks and settings, takes under 1 MiB.
const MAX_BYTES: u64 = 64 << 20;

/// What every file of every schema begins with.
#[derive(Deserialize)]
struct Version {
    schema: u64,
    #[serde(default)]
    written_by: Option<String>,
}

/// The JSON of a run. The study's text stands in a file of its own.
pub(crate) fn run_text(run: &Run) -> String {
    pretty(&v1::RunRecord::from(run))
}

/// The JSON of what could not be run.
pub(crate) fn skipped_text(cells: &BTreeMap<CellId, String>) -> String {
    pretty(&v1::SkippedRecord::from(cells))
}

/// Reads what could not be run.
pub(crate) fn read_skipped(path: &Path) -> Result<BTreeMap<CellId, String>> {
    let record: v1::SkippedRecord = read(path)?;
    Ok(record.into_cells())
}

/// The JSON of a trial.
///
/// # Errors
/// Where a metric is not a finite number.
pub(crate) fn trial_text(trial: &Trial) -> Result<String> {
    check_numbers(trial)?;
    Ok(pretty(&v1::TrialRecord::from(trial)))
}

/// The JSON of a recording.
pub(crate) fn recording_text(recording: &Recording) -> String {
    pretty(&v1::RecordingRecord::from(recording))
}

/// Reads a run, whose study's text is `study_text`.
pub(crate) fn read_run(path: &Path, study_text: String) -> Result<Run> {
    let record: v1::RunRecord = read(path)?;
    record.into_run(study_text).map_err(|reason| Error::damaged(path, reason))
}

/// Reads a trial.
pub(crate) fn read_trial(path: &Path) -> Result<Trial> {
    let record: v1::TrialRecord = read(path)?;
    Trial::try_from(record).map_err(|reason| Error::damaged(path, reason))
}

/// The JSON of the storage that a trial stood on.
pub(crate) fn storage_text(storage: &Storage) -> String {
    pretty(storage)
}

/// Reads it.
pub(crate) fn read_storage(path: &Path) -> Result<Storage> {
    read(path)
}

/// Reads a recording.
pub(crate) fn read_recording(path: &Path) -> Result<Recording> {
    let record: v1::RecordingRecord = read(path)?;
    Recording::try_from(record).map_err(|reason| Error::damaged(path, reason))
}

/// A run in one small file: the head on a line, then a line for each trial.
///
/// # Errors
/// Where a metric is not a finite number.
pub(crate) fn kept_text(kept: &Kept, keep: &Keep) -> Result<String> {
    kept.trials.iter().try_for_each(check_numbers)?;
    let (head, trials) = v1::kept::records(kept, keep);
    let line =
        |record: serde_json::Result<String>| record.expect("records hold strings, numbers and maps by name");
    let trials: Vec<String> = trials.iter().map(|trial| line(serde_json::to_string(trial))).collect();
    let head = line(serde_json::to_string(&head));
    Ok(format!("{{\"kept\":{head},\n\"trials\":[\n{}\n]}}\n", trials.join(",\n")))
}

/// Reads such a file.
pub(crate) fn read_kept(path: &Path) -> Result<Kept> {
    #[derive(Deserialize)]
    struct Head {
        kept: Version,
    }
    let text = read_text(path)?;
    let head: Head = serde_json::from_str(&text).map_err(|e| Error::damaged(path, e))?;
    let Version { schema, written_by } = head.kept;
    check_schema(path, schema, written_by.clone())?;
    let record: v1::kept::KeptRecord =
        serde_json::from_str(&text).map_err(|e| Error::damaged(path, with_writer(&e, written_by)))?;
    record.into_kept().map_err(|reason| Error::damaged(path, reason))
}

/// The JSON of a trial on one line, without the brackets around all of them.
///
/// # Errors
/// Where `out` cannot be written.
pub fn write_trial(trial: &Trial, out: &mut dyn std::io::Write) -> serde_json::Result<()> {
    serde_json::to_writer(out, &v1::TrialRecord::from(trial))
}

/// A file's whole text.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    files::regular::text(path, MAX_BYTES).map_err(Error::io("read", path))
}

fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T> {
    let text = read_text(path)?;
    let version: Version = serde_json::from_str(&text).map_err(|e| Error::damaged(path, e))?;
    check_schema(path, version.schema, version.written_by.clone())?;
    serde_json::from_str(&text).map_err(|e| Error::damaged(path, with_writer(&e, version.written_by)))
}

/// What is wrong with a file, and where another version wrote it, which.
fn with_writer(error: &serde_json::Error, written_by: Option<String>) -> String {
    match written_by.filter(|by| by != PROGRAM) {
        Some(by) => format!("{error}; flyball {by} wrote it, and this is flyball {PROGRAM}"),
        None => error.to_string(),
    }
}

/// Refuses a schema that this program does not know.
pub(crate) fn check_schema(path: &Path, schema: u64, written_by: Option<String>) -> Result<()> {
    match schema {
        SCHEMA => Ok(()),
        0 => Err(Error::damaged(path, "its schema is 0, which was never written")),
        newer => Err(Error::newer(path, newer, written_by)),
    }
}

/// JSON has no infinity and no NaN; and no tool measures one.
fn check_numbers(trial: &Trial) -> Result<()> {
    let metrics = trial.measurement.iter().flat_map(|m| &m.outcome.metrics);
    let metrics = metrics.map(|(name, metric)| (name.as_str(), metric.value));
    let dilation = trial.lab.iter().map(|lab| ("time dilation", lab.dilation));
    let pace = trial.lab.iter().filter_map(|lab| Some(("pace", lab.pacing.as_ref()?.pace)));
    match metrics.chain(dilation).chain(pace).find(|(_, value)| !value.is_finite()) {
        None => Ok(()),
        Some((name, value)) => {
            Err(Error::NotANumber { trial: trial.key.folder(), what: name.to_owned(), value })
        }
    }
}

fn pretty(record: &impl serde::Serialize) -> String {
    let mut text =
        serde_json::to_string_pretty(record).expect("records hold strings, numbers and maps by name");
    text.push('\n');
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use domain::access::{AccessPattern, Accesses};
    use domain::calls::{Call, Called, Calls, WithBios};
    use domain::energy::{EnergyAccount, EnergySource};
    use domain::ids::{CellId, RunId, TrialKey};
    use domain::inventory::CpuList;
    use domain::lab::{
        DiskService, IdleRecord, LabAccount, Pacing, RegisterRequest, StateRecord, VcpuRecord,
    };
    use domain::outcome::{Better, Metric, Outcome};
    use domain::passage::{Bios, Given, Passage, Passed};
    use domain::phase::Phase;
    use domain::profile::{Interrupts, Profile, Subsystem};
    use domain::request::{Op, Served};
    use domain::setting::{SettingName, SettingRecord};
    use domain::spent::{Spent, Wait};
    use domain::time::{Nanos, Timestamp};
    use domain::took::Took;
    use domain::trace::{FrequencySource, Role};
    use domain::trial::{
        CpuChange, DiskTotals, Disturbance, Measurement, Origin, Provenance, RecorderReport, ThreadTime,
        Validity,
    };
    use domain::units::{Bytes, Hertz, Microjoules, Unit};
    use domain::windows::{Boundary, GovernorWindows, Windows};
    use expect_test::expect;
    use proptest::collection::{btree_map, vec};
    use proptest::option;
    use proptest::prelude::*;

    fn provenance() -> impl Strategy<Value = Provenance> {
        use Provenance::*;
        prop_oneof![Just(Host), Just(Lab), Just(Simulation), Just(Imported)]
    }

    fn role() -> impl Strategy<Value = Role> {
        (0..Role::ALL.len()).prop_map(|i| Role::ALL[i])
    }

    fn nanos() -> impl Strategy<Value = Nanos> {
        any::<u64>().prop_map(Nanos::new)
    }

    fn unit() -> impl Strategy<Value = Unit> {
        use Unit::*;
        prop_oneof![
            Just(BytesPerSecond),
            Just(PerSecond),
            Just(Seconds),
            Just(Joules),
            Just(Watts),
            Just(Hertz),
            Just(Share),
            Just(Count),
            prop_oneof![Just("seconds".to_owned()), any::<String>()].prop_map(Other),
        ]
    }

    fn metric() -> impl Strategy<Value = Metric> {
        let finite = any::<f64>().prop_filter("finite", |v| v.is_finite());
        let better = prop_oneof![Just(Better::Higher), Just(Better::Lower)];
        (finite, unit(), better).prop_map(|(value, unit, better)| Metric { value, unit, better })
    }

    fn disturbance() -> impl Strategy<Value = Disturbance> {
        any::<(String, String)>().prop_map(|(kind, detail)| Disturbance { kind, detail })
    }

    fn validity() -> impl Strategy<Value = Validity> {
        prop_oneof![
            Just(Validity::Valid),
            Just(Validity::Traced),
            vec(disturbance(), 0..3).prop_map(Validity::Disturbed),
            any::<String>().prop_map(Validity::Failed),
        ]
    }

    fn thread() -> impl Strategy<Value = ThreadTime> {
        (any::<String>(), any::<u32>(), role(), nanos()).prop_map(|(name, tid, role, cpu)| ThreadTime {
            name,
            tid,
            role,
            cpu,
        })
    }

    fn disk() -> impl Strategy<Value = DiskTotals> {
        let served = btree_map(prop::sample::select(Op::ALL.to_vec()), served(), 0..3);
        let passage = option::of(passage());
        (any::<String>(), any::<[u64; 4]>(), nanos(), option::of(pattern()), served, passage).prop_map(
            |(device, n, busy, accesses, served, passage)| DiskTotals {
                device,
                read_ios: n[0],
                read_sectors: n[1],
                write_ios: n[2],
                write_sectors: n[3],
                busy,
                accesses,
                served,
                passage,
            },
        )
    }

    fn passage() -> impl Strategy<Value = Passage> {
        let bios = |[count, sectors]: [u64; 2]| Bios { count, sectors };
        let given =
            any::<(u64, [[u64; 2]; 2], [u64; 4])>().prop_map(move |(followed, [all, made], times)| {
                let [before, below, between, after] = times.map(Nanos::new);
                Given { bios: bios(all), followed, made: bios(made), before, below, between, after }
            });
        let op = || prop::sample::select(Op::ALL.to_vec());
        let passed =
            any::<([u64; 2], u64)>().prop_map(move |(all, requests)| Passed { bios: bios(all), requests });
        let passed = btree_map((any::<String>(), op()), passed, 0..4);
        (btree_map(op(), given, 0..3), passed).prop_map(|(given, passed)| Passage { given, passed })
    }

    fn served() -> impl Strategy<Value = Served> {
        // What an earlier version stored has sums alone.
        let sums = any::<[u64; 3]>()
            .prop_map(|[count, sum, max]| Took::sums(count, Nanos::new(sum), Nanos::new(max)));
        let times = vec(any::<u64>(), 0..4).prop_map(|times| {
            let mut took = Took::default();
            times.into_iter().for_each(|ns| took.add(ns));
            took
        });
        let took = || prop_oneof![sums.clone(), times.clone()];
        (any::<(u64, u64)>(), took(), took(), took()).prop_map(|((count, sectors), queue, service, whole)| {
            Served { count, sectors, queue, service, whole }
        })
    }

    fn spent() -> impl Strategy<Value = Spent> {
        any::<(u64, u64, [u64; Wait::ALL.len()], u64)>()
            .prop_map(|(cpu_ns, ready_ns, wait_ns, switches)| Spent { cpu_ns, ready_ns, wait_ns, switches })
    }

    fn calls() -> impl Strategy<Value = Calls> {
        let with_bios =
            any::<([u64; 4], [u64; 4])>().prop_map(|([count, bios, sectors, followed], times)| {
                let [before, below, between, after] = times.map(Nanos::new);
                WithBios {
                    count,
                    bios: Bios { count: bios, sectors },
                    followed,
                    before,
                    below,
                    between,
                    after,
                }
            });
        let woken_by = btree_map(role(), nanos(), 0..3);
        let called = (any::<[u64; 3]>(), served(), spent(), woken_by, with_bios).prop_map(
            |([count, failed, bytes], served, spent, woken_by, with_bios)| Called {
                count,
                failed,
                bytes: Bytes::new(bytes),
                took: served.service,
                spent,
                woken_by,
                with_bios,
            },
        );
        let call = prop::sample::select(Call::ALL.to_vec());
        let bios = any::<[u64; 2]>().prop_map(|[count, sectors]| Bios { count, sectors });
        let op = prop::sample::select(Op::ALL.to_vec());
        let queued = option::of(btree_map((any::<String>(), role(), op), bios, 0..3));
        (btree_map((role(), call), called, 0..3), queued).prop_map(|(of, queued)| Calls { of, queued })
    }

    fn phase() -> impl Strategy<Value = Phase> {
        (option::of(any::<String>()), nanos(), nanos(), btree_map(any::<String>(), metric(), 0..3))
            .prop_map(|(name, begin, end, metrics)| Phase { name, begin, end, metrics })
    }

    fn pattern() -> impl Strategy<Value = AccessPattern> {
        let of = |[bios, sectors, in_order, ahead, synchronous]: [u64; 5]| Accesses {
            bios,
            sectors,
            in_order,
            ahead,
            synchronous,
        };
        any::<[[u64; 5]; 2]>()
            .prop_map(move |[reads, writes]| AccessPattern { reads: of(reads), writes: of(writes) })
    }

    fn recorder() -> impl Strategy<Value = RecorderReport> {
        let frequency = prop_oneof![
            Just(FrequencySource::AperfMperf),
            Just(FrequencySource::TimeInState),
            Just(FrequencySource::ScalingCurFreq),
            Just(FrequencySource::None),
        ];
        let energy = option::of(energy());
        let change = (nanos(), any::<u32>(), any::<bool>()).prop_map(|(at, cpu, online)| CpuChange {
            at,
            cpu,
            online,
        });
        let changes = vec(change, 0..3);
        (any::<u64>(), any::<u64>(), nanos(), nanos(), frequency, energy, changes, vec(any::<String>(), 0..3))
            .prop_map(|(samples, missed, cpu, span, frequency, energy, cpu_changes, absent)| RecorderReport {
                samples,
                missed,
                cpu,
                span,
                frequency,
                energy,
                cpu_changes,
                absent,
            })
    }

    fn energy() -> impl Strategy<Value = EnergyAccount> {
        let source = prop::sample::select(EnergySource::ALL.to_vec());
        (source, vec(any::<String>(), 0..3), option::of(any::<u64>()))
            .prop_map(|(source, of, readings)| EnergyAccount { source, of, readings })
    }

    fn interrupts() -> impl Strategy<Value = Interrupts> {
        let held_off = btree_map(prop::sample::select(Subsystem::ALL.to_vec()), any::<u64>(), 0..4);
        let handlers = btree_map(any::<String>(), nanos(), 0..3);
        (held_off, any::<u64>(), handlers).prop_map(|(held_off, unsampled, handlers)| Interrupts {
            held_off,
            unsampled,
            handlers,
        })
    }

    fn profile() -> impl Strategy<Value = Profile> {
        let subsystem = || prop::sample::select(Subsystem::ALL.to_vec());
        let samples = btree_map((role(), subsystem()), any::<u64>(), 0..4);
        let inclusive = btree_map(subsystem(), any::<u64>(), 0..4);
        let functions = btree_map(any::<String>(), any::<u64>(), 0..3);
        (nanos(), samples, inclusive, functions, any::<u64>(), option::of(interrupts())).prop_map(
            |(period, samples, inclusive, functions, lost, interrupts)| Profile {
                period,
                samples,
                inclusive,
                functions,
                lost,
                interrupts,
            },
        )
    }

    fn windows() -> impl Strategy<Value = GovernorWindows> {
        let counts = btree_map((option::of(any::<u32>()), 0..=Windows::FULL), any::<u64>(), 0..4);
        let windows =
            (nanos(), nanos(), counts).prop_map(|(time, busy, counts)| Windows { time, busy, counts });
        let list = proptest::collection::btree_set(0_u32..64, 1..4).prop_map(|cpus| {
            let mut list = CpuList::default();
            cpus.into_iter().for_each(|cpu| list.insert(cpu));
            list
        });
        let shared = btree_map(any::<u16>(), list, 0..2);
        let boundary = prop::sample::select(Boundary::ALL.to_vec());
        let governor = (boundary, option::of(0.0..100.0), any::<bool>(), option::of(nanos()));
        (governor, btree_map(any::<u16>(), windows, 0..3), shared).prop_map(|(governor, cpus, shared)| {
            let (boundary, threshold, counts_waiting, rate_limit) = governor;
            GovernorWindows { boundary, threshold, counts_waiting, rate_limit, cpus, shared }
        })
    }

    fn measurement() -> impl Strategy<Value = Measurement> {
        let outcome =
            (btree_map(any::<String>(), metric(), 0..4), any::<String>(), vec(any::<String>(), 0..2))
                .prop_map(|(metrics, tool, warnings)| Outcome { metrics, tool, warnings });
        (
            outcome,
            vec(vec(any::<String>(), 0..3), 0..3),
            nanos(),
            btree_map(role(), nanos(), 0..4),
            vec(thread(), 0..3),
            vec(disk(), 0..3),
            (
                option::of(profile()),
                option::of(windows()),
                btree_map(role(), spent(), 0..3),
                vec(phase(), 0..3),
                option::of(calls()),
            ),
            option::of(recorder()),
            vec(disturbance(), 0..2),
        )
            .prop_map(
                |(outcome, commands, duration, roles, threads, disks, events, recorder, disturbances)| {
                    let (profile, windows, spent, phases, calls) = events;
                    Measurement {
                        outcome,
                        commands,
                        duration,
                        roles,
                        threads,
                        disks,
                        profile,
                        windows,
                        spent,
                        calls,
                        phases,
                        recorder,
                        disturbances,
                    }
                },
            )
    }

    fn vcpu() -> impl Strategy<Value = VcpuRecord> {
        let hertz = || any::<u64>().prop_map(Hertz::from_hz);
        let state = (hertz(), hertz(), nanos(), nanos(), any::<u64>()).prop_map(
            |(frequency, clock, time, busy, count)| StateRecord {
                frequency,
                clock: Some(clock),
                time,
                busy,
                instructions: count,
            },
        );
        let transitions = vec((nanos(), hertz()), 0..3);
        let idle = (any::<String>(), any::<u64>(), nanos()).prop_map(|(name, entries, time)| IdleRecord {
            name,
            entries,
            time,
        });
        let asked = (nanos(), any::<u32>(), any::<u64>()).prop_map(|(at, register, value)| RegisterRequest {
            at,
            register,
            value,
        });
        let kept = (vec(idle, 0..3), vec(asked, 0..3));
        (any::<u32>(), vec(state, 0..3), transitions, any::<u64>(), nanos(), kept).prop_map(
            |(cpu, states, transitions, transitions_total, late, (idle, requests))| VcpuRecord {
                cpu,
                states,
                transitions,
                transitions_total,
                late,
                idle,
                requests,
            },
        )
    }

    fn lab() -> impl Strategy<Value = LabAccount> {
        let positive = || 1.0..1e9_f64;
        let energy = option::of(any::<u64>().prop_map(Microjoules::new));
        let pacing = (positive(), option::of(nanos()), nanos(), vec(vcpu(), 0..3), energy)
            .prop_map(|(pace, began, span, vcpus, energy)| Pacing { pace, began, span, vcpus, energy });
        let disk = (any::<String>(), any::<u64>(), nanos(), nanos(), nanos()).prop_map(
            |(disk, requests, modelled, late, latest)| DiskService { disk, requests, modelled, late, latest },
        );
        (positive(), 1.0..1e4, option::of(pacing), vec(disk, 0..3))
            .prop_map(|(dilation, slowed, pacing, disks)| LabAccount { dilation, slowed, pacing, disks })
    }

    fn origin() -> impl Strategy<Value = Origin> {
        (any::<[String; 3]>(), option::of(any::<String>()))
            .prop_map(|([tool, file, sha256], version)| Origin { tool, version, file, sha256 })
    }

    fn setting() -> impl Strategy<Value = SettingRecord> {
        (any::<[String; 5]>(), option::of(any::<String>()), option::of(any::<String>())).prop_map(
            |([name, path, before, asked, got], object, after)| SettingRecord {
                setting: SettingName { name, object },
                path,
                before,
                asked,
                got,
                after,
            },
        )
    }

    prop_compose! {
        /// Any trial at all.
        pub(crate) fn trial()(
            names in any::<[String; 4]>(),
            cell in "[a-z0-9.]{1,8}(_[a-z0-9.-]{1,8}){0,3}",
            numbers in any::<(u32, u32, i64)>(),
            levels in btree_map(any::<String>(), any::<String>(), 0..3),
            provenance in provenance(),
            settings in vec(setting(), 0..3),
            environment in btree_map(any::<String>(), any::<String>(), 0..3),
            validity in validity(),
            measurement in option::of(measurement()),
            lab in option::of(lab()),
            origin in option::of(origin()),
        ) -> Trial {
            let [run, study, workload, machine] = names;
            let (block, attempt, started) = numbers;
            Trial {
                run: RunId(run),
                key: TrialKey { block, cell: CellId::from_stored(&cell), attempt },
                study,
                workload,
                levels,
                provenance,
                machine,
                started: Timestamp::from_unix_nanos(started),
                settings,
                environment,
                validity,
                measurement,
                lab,
                origin,
            }
        }
    }

    fn write(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    proptest! {
        #[test]
        fn every_trial_is_read_back_as_it_was(trial in trial()) {
            let file = write(&trial_text(&trial).unwrap());
            let mut trial = trial;
            // Of the lab the frequency is the record's.
            if let (Some(account), Some(measurement)) = (&trial.lab, &mut trial.measurement) {
                domain::per_work::set_frequency(account, &mut measurement.outcome.metrics);
            }
            prop_assert_eq!(read_trial(file.path()).unwrap(), trial);
        }

        #[test]
        fn every_run_is_read_back_as_it_was(
            names in any::<[String; 5]>(),
            seed in any::<u64>(),
            started in any::<i64>(),
            finished in option::of(any::<i64>()),
            provenance in provenance(),
            revision in option::of(any::<String>()),
            command in prop::collection::vec(any::<String>(), 0..4),
        ) {
            let [id, study, study_text, machine, flyball] = names;
            let run = Run {
                id: RunId(id),
                study,
                study_text: study_text.clone(),
                seed: domain::rng::Seed(seed),
                started: Timestamp::from_unix_nanos(started),
                finished: finished.map(Timestamp::from_unix_nanos),
                provenance,
                machine,
                flyball,
                revision,
                command,
            };
            let file = write(&run_text(&run));
            prop_assert_eq!(read_run(file.path(), study_text).unwrap(), run);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in vec(any::<u8>(), 0..200)) {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), bytes).unwrap();
            prop_assert!(read_trial(file.path()).is_err());
        }
    }

    #[test]
    fn a_newer_schema_names_the_version_that_is_needed() {
        let file = write(r#"{"schema": 2, "written_by": "0.7.0", "wholly": "new"}"#);
        let text = read_trial(file.path())
            .unwrap_err()
            .to_string()
            .replace(&file.path().display().to_string(), "FILE");
        expect!["cannot read `FILE`: it has schema 2, and this is flyball 0.1.0, which knows schemas up to 1; use flyball 0.7.0 or newer"]
            .assert_eq(&text);
    }

    /// A trial as 0.1.0 wrote it, with this in the place of its last field.
    fn read_with(last: &str) -> Result<Trial> {
        let text = format!(
            r#"{{ "schema": 1, "written_by": "0.1.0", "run": "r", "block": 0, "cell": "w", "attempt": 0, "study": "s",
                "workload": "w", "levels": {{}}, "provenance": "lab", "machine": "m", "started_ns": 0,
                "validity": "valid", "settings": [], "environment": {{}}, "measurement": null{last} }}"#
        );
        read_trial(write(&text).path())
    }

    #[test]
    fn a_trial_is_read_with_and_without_what_the_lab_knows_of_it() {
        assert_eq!(read_with("").unwrap().lab, None);
        let account = r#", "lab": { "dilation": 20.0, "pacing": {
            "instructions_per_second": 2e7, "began_ns": 4000, "span_ns": 9000, "energy_uj": 5, "vcpus": [
                { "cpu": 0, "states": [{ "hz": 2800000000, "time_ns": 9000, "busy_ns": 7000, "instructions": 140 }],
                  "transitions": [[0, 2800000000]], "transitions_total": 1, "late_ns": 3 }] },
            "disks": [{ "disk": "ssd", "requests": 1, "modelled_ns": 2, "late_ns": 3, "latest_ns": 4 }] }"#;
        let lab = read_with(account).unwrap().lab.unwrap();
        let pacing = lab.pacing.unwrap();
        assert_eq!((lab.dilation, pacing.began), (20.0, Some(Nanos::new(4000))));
        assert_eq!(pacing.vcpus[0].transitions, [(Nanos::ZERO, Hertz::from_mhz(2800))]);
        assert_eq!((pacing.vcpus[0].states[0].busy, lab.disks[0].latest), (Nanos::new(7000), Nanos::new(4)));
        let odd = account.replace("\"cpu\"", "\"core\"");
        assert!(read_with(&odd).unwrap_err().to_string().contains("`core`"));
    }

    #[test]
    fn an_unknown_field_is_an_error_with_its_line() {
        let file = write("{\n \"schema\": 1,\n \"surprise\": 2\n}");
        let text = read_trial(file.path()).unwrap_err().to_string();
        assert!(text.contains("unknown field `surprise`") && text.contains("line 3"), "{text}");
    }
}
