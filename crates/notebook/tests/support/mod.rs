//! What the tests of whole notebooks share.
#![allow(dead_code, clippy::unwrap_used)]

use domain::Sink;
use domain::ids::{CellId, RunId, TrialKey};
use domain::outcome::{Better, Metric, Outcome};
use domain::rng::Seed;
use domain::setting::{SettingName, SettingRecord};
use domain::time::{Nanos, Timestamp};
use domain::trace::{FrequencySource, Role, Series, SeriesKind, SeriesUnit, TraceHead};
use domain::trial::{Measurement, Provenance, Run, Trial, Validity};
use domain::units::Unit;
use notebook::{Notebook, RunFolder};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// How many rows the trace of each trial has here.
pub const ROWS: u64 = 50;

pub fn run(id: &str) -> Run {
    Run {
        id: RunId(id.to_owned()),
        study: "quick".to_owned(),
        study_text: "flyball = 1\nname = \"quick\"\n".to_owned(),
        seed: Seed(u64::MAX),
        started: Timestamp::from_unix_nanos(1_795_183_502_000_000_000),
        finished: None,
        provenance: Provenance::Host,
        machine: "4f2a".to_owned(),
        flyball: "0.1.0".to_owned(),
        revision: Some("3fa2c1d0e5".to_owned()),
        command: ["run", "quick.toml"].map(str::to_owned).to_vec(),
    }
}

pub fn key(block: u32, cell: &str) -> TrialKey {
    TrialKey { block, cell: CellId::new(["read", cell]), attempt: 0 }
}

pub fn trial(run: &Run, key: &TrialKey) -> Trial {
    let throughput = Metric { value: 5.7e7, unit: Unit::BytesPerSecond, better: Better::Higher };
    let latency = Metric { value: 0.1 + 0.2, unit: Unit::Seconds, better: Better::Lower };
    let metrics =
        BTreeMap::from([("throughput".to_owned(), throughput), ("latency_p99".to_owned(), latency)]);
    Trial {
        run: run.id.clone(),
        key: key.clone(),
        study: run.study.clone(),
        workload: "read".to_owned(),
        levels: BTreeMap::from([("bs".to_owned(), key.cell.as_str()[5..].to_owned())]),
        provenance: run.provenance,
        machine: run.machine.clone(),
        started: Timestamp::from_unix_nanos(run.started.unix_nanos() + i64::from(key.block) * 1_000_000_000),
        settings: vec![SettingRecord {
            setting: SettingName::parse("read_ahead_kb@loop3"),
            path: "/sys/block/loop3/queue/read_ahead_kb".to_owned(),
            before: "128".to_owned(),
            asked: "256".to_owned(),
            got: "256".to_owned(),
            after: None,
        }],
        environment: BTreeMap::from([("kernel".to_owned(), "6.1.0, \"quoted\"".to_owned())]),
        validity: Validity::Valid,
        measurement: Some(Measurement {
            outcome: Outcome { metrics, tool: "fio-3.33".to_owned(), warnings: vec![] },
            commands: vec![vec!["fio".to_owned(), "--bs=4k".to_owned()]],
            duration: Nanos::from_millis(1500),
            roles: BTreeMap::from([(Role::Workload, Nanos::from_millis(700))]),
            threads: vec![],
            disks: vec![],
            recorder: None,
            profile: None,
            windows: None,
            phases: vec![],
            spent: Default::default(),
            calls: None,
            disturbances: vec![],
        }),
        lab: None,
        origin: None,
    }
}

pub fn head() -> TraceHead {
    let series = |name: &str, unit, kind| Series { name: name.to_owned(), unit, kind };
    TraceHead {
        series: vec![
            series("cpu0.user", SeriesUnit::Ticks, SeriesKind::Counter { wraps_at: None }),
            series("freq.cpu0.khz", SeriesUnit::Kilohertz, SeriesKind::Gauge),
            series(
                "rapl.package-0.uj",
                SeriesUnit::Microjoules,
                SeriesKind::Counter { wraps_at: Some(262_143_328_850) },
            ),
        ],
        interval: Nanos::from_millis(10),
        start: Timestamp::from_unix_nanos(1_795_183_502_000_000_000),
        frequency: FrequencySource::ScalingCurFreq,
    }
}

pub fn fill(sink: &mut dyn Sink) {
    sink.begin(&head()).unwrap();
    for i in 0..ROWS {
        let frequency = (!i.is_multiple_of(5)).then_some(2_500_000 - i);
        sink.row(Nanos::from_millis(10 * i), &[Some(i), frequency, Some(u64::MAX - i)]).unwrap();
    }
}

/// Measures nothing and stores a trial with all its parts.
pub fn store(folder: &RunFolder, key: &TrialKey) -> notebook::Result<PathBuf> {
    let mut staging = folder.begin(key)?;
    fs::write(staging.raw_dir().join("fio.json"), "{}").unwrap();
    fill(staging.sink());
    staging.commit(&trial(folder.run(), key), "#!/bin/sh\nfio --bs=4k\n")
}

/// Asserts that every part of a trial is there and whole.
pub fn assert_whole(notebook: &Notebook, run: &Run, key: &TrialKey) {
    assert_eq!(notebook.trial(&run.id, key).unwrap(), trial(run, key));
    let mut trace = notebook.trace(&run.id, key).unwrap().expect("the trial has a trace");
    let trace = trace.read(usize::MAX, |_| true).unwrap();
    assert_eq!((trace.head, trace.times.len() as u64), (head(), ROWS));
    let folder = notebook.trial_folder(&run.id, key);
    assert_eq!(fs::read_to_string(folder.join("raw/fio.json")).unwrap(), "{}");
    assert_eq!(fs::read_to_string(folder.join("reproduce.sh")).unwrap(), "#!/bin/sh\nfio --bs=4k\n");
}

/// What is in the staging folder besides its lock.
pub fn staged(notebook: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(notebook.join("staging")) else { return Vec::new() };
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != ".lock").collect()
}
