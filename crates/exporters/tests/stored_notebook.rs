//! What a stored notebook holds, as each format has it.
#![allow(clippy::unwrap_used)]

use domain::energy::{EnergyAccount, EnergySource};
use domain::ids::RunId;
use domain::trial::{Trial, Validity};
use expect_test::{expect, expect_file};
use exporters::{Sink, StoredTrace, Writer, named};
use notebook::Notebook;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const RUN: &str = "stored-20261120-145516-7f3a";

fn stored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/notebooks/v1")
}

fn notebook() -> (tempfile::TempDir, Notebook) {
    let root = tempfile::tempdir().unwrap();
    testing::copy_folder(&stored(), root.path());
    let notebook = Notebook::open(root.path()).unwrap();
    (root, notebook)
}

fn trials() -> Vec<Trial> {
    let (_root, notebook) = notebook();
    let (trials, problems) = notebook.trials(&RunId(RUN.into())).unwrap();
    assert_eq!(problems, []);
    trials
}

/// A sink without warnings.
struct Plain<W>(W);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write + Send> Sink for Plain<W> {
    fn warn(&mut self, warning: &str) {
        panic!("warned: {warning}");
    }
}

fn write_trials(format: &str, trials: &[Trial], sink: &mut dyn Sink) -> exporters::Result<()> {
    let writers = named(format).unwrap().writers().iter();
    let mut writers = writers.filter_map(|w| if let Writer::Trials(write) = w { Some(write) } else { None });
    writers.next().expect("it is a format of trials")(trials, sink)
}

fn exported(format: &str, trials: &[Trial]) -> Vec<u8> {
    let mut out = Plain(Vec::new());
    write_trials(format, trials, &mut out).unwrap();
    out.0
}

fn exported_trace(format: &str) -> Vec<u8> {
    let (_root, notebook) = notebook();
    let (run, key) = (RunId(RUN.into()), trials()[0].key.clone());
    let rows = notebook.trace(&run, &key).unwrap().unwrap();
    let mut trace = StoredTrace { notebook: &notebook, run: &run, key: &key, rows };
    let mut out = Plain(Vec::new());
    for writer in named(format).unwrap().writers() {
        if let Writer::Trace(write) = writer {
            write(&mut trace, &mut out).unwrap();
        }
    }
    out.0
}

/// Three trials: of the second it is not known by what its energy was measured, and the third was disturbed.
fn trials_with_energy() -> Vec<Trial> {
    let account = |source, of: &str, readings| EnergyAccount { source, of: vec![of.into()], readings };
    let rapl = account(EnergySource::Rapl, "package-0", None);
    let battery = account(EnergySource::Battery, "BAT0", Some(61));
    let mut of_all: Vec<Trial> = std::iter::repeat_n(trials().remove(0), 3).collect();
    for (trial, energy) in of_all.iter_mut().zip([Some(rapl), None, Some(battery)]) {
        trial.measurement.as_mut().unwrap().recorder.as_mut().unwrap().energy = energy;
    }
    of_all[2].validity = Validity::Disturbed(vec![]);
    of_all
}

#[test]
fn each_trial_says_by_what_its_energy_was_measured() {
    let trials = trials_with_energy();
    let lines = String::from_utf8(exported("jsonl", &trials)).unwrap();
    let by = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["energy_by"].take();
    assert_eq!(
        lines.lines().map(by).collect::<Vec<_>>(),
        [
            serde_json::json!({ "source": "rapl", "of": ["package-0"], "readings": null }),
            serde_json::Value::Null,
            serde_json::json!({ "source": "battery", "of": ["BAT0"], "readings": 61 }),
        ]
    );
    let table = exported("csv", &trials);
    let mut rows = csv::Reader::from_reader(&table[..]);
    let column = rows.headers().unwrap().iter().position(|name| name == "energy.by").unwrap();
    let by: Vec<String> = rows.records().map(|row| row.unwrap()[column].to_owned()).collect();
    assert_eq!(by, ["RAPL, package-0", "", "battery, BAT0: sampled power, 61 readings"]);
    let without = String::from_utf8(exported("csv", &trials[1..2])).unwrap();
    assert!(!without.contains("energy.by"), "no trial says it: {without}");
}

#[test]
fn csv_has_a_row_a_trial() {
    let text = String::from_utf8(exported("csv", &trials())).unwrap();
    expect_file!["expected/trials.csv"].assert_eq(&text);
}

#[test]
fn json_has_each_trial_as_it_is_stored() {
    let json: serde_json::Value = serde_json::from_slice(&exported("json", &trials())).unwrap();
    assert_eq!(json["schema"], 1);
    let file = stored().join("runs").join(RUN).join("trials/b00.randread_4k.a0/trial.json");
    let trial: serde_json::Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert!(json["trials"].as_array().unwrap().contains(&trial));
}

#[test]
fn json_lines_have_an_object_a_trial() {
    let trials = trials();
    let text = String::from_utf8(exported("jsonl", &trials)).unwrap();
    assert_eq!(text.lines().count(), trials.len());
    let keys: Vec<String> = text.lines().map(|line| parsed(line)["key"].to_string()).collect();
    assert_eq!(keys, trials.iter().map(|t| format!("\"{}\"", t.key.folder())).collect::<Vec<_>>());
    let lines: Vec<serde_json::Value> = text.lines().map(parsed).collect();
    expect_file!["expected/first-trial.json"].assert_eq(&format!("{:#}\n", lines[0]));
    let failed = lines.iter().find(|line| line["validity"] == "failed").unwrap();
    assert!(failed["reason"].as_str().unwrap().contains("fio"), "{failed}");
    assert_eq!((&failed["tool"], &failed["metrics"]), (&serde_json::Value::Null, &serde_json::json!({})));
}

fn parsed(line: &str) -> serde_json::Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn no_text_breaks_a_json_line_and_no_number_is_other_than_json() {
    const HOSTILE: &str = "a\"}\n{\"run\":\"forged\"}\r\u{1b}[2J\u{202e}\u{2028}\u{9b}\u{7f}";
    let mut trial = trials().remove(0);
    trial.workload = HOSTILE.into();
    trial.levels.insert(HOSTILE.into(), HOSTILE.into());
    trial.settings[0].got = HOSTILE.into();
    let metrics = &mut trial.measurement.as_mut().unwrap().outcome.metrics;
    let mut sample = metrics["iops"].clone();
    for (name, value) in [("nan", f64::NAN), ("inf", f64::INFINITY), (HOSTILE, f64::NEG_INFINITY)] {
        sample.value = value;
        metrics.insert(name.into(), sample.clone());
    }
    let text = String::from_utf8(exported("jsonl", &[trial])).unwrap();
    let (line, rest) = text.split_once('\n').unwrap();
    assert_eq!(rest, "", "an object is one line");
    assert!(!line.chars().any(domain::inert::is_live), "{line}");
    let object = parsed(line);
    assert_eq!((&object["workload"], &object["factors"][HOSTILE]), (&HOSTILE.into(), &HOSTILE.into()));
    assert_eq!(object["settings"][0]["got"], HOSTILE);
    for name in ["nan", "inf", HOSTILE] {
        assert_eq!(object["metrics"][name]["value"], serde_json::Value::Null, "{name}");
    }
}

#[test]
fn parquet_has_a_row_a_trial() {
    let trials = trials();
    let file = SerializedFileReader::new(bytes::Bytes::from(exported("parquet", &trials))).unwrap();
    assert_eq!(file.metadata().file_metadata().num_rows() as usize, trials.len());
    let mut rows = String::new();
    for row in file.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let value = |name: &str| row.get_column_iter().find(|(n, _)| *n == name).unwrap().1.to_string();
        let columns = ["key", "validity", "factor.bs", "metric.iops.per_second", "cpu.workload.seconds"];
        rows += &columns.map(value).join(" | ");
        rows.push('\n');
    }
    expect![[r#"
        "b00.randread_4k.a0" | "valid" | "4k" | 29649.350649 | 0.281960532
        "b00.randread_64k.a0" | "valid" | "64k" | 13006.993007 | 0.406692984
        "b01.randread_4k.a0" | "valid" | "4k" | 30294.705295 | 0.274300497
        "b01.randread_64k.a0" | "disturbed" | "64k" | 12983.016983 | 0.420625844
        "b00.randread_4k.a1" | "failed" | "4k" | null | null
    "#]]
    .assert_eq(&rows);
}

#[test]
fn a_trace_as_csv_has_every_sample() {
    let (_root, notebook) = notebook();
    let trace = notebook.trace(&RunId(RUN.into()), &trials()[0].key).unwrap().unwrap();
    let text = String::from_utf8(exported_trace("csv")).unwrap();
    assert!(text.starts_with("t_ns,cpu.user,cpu.nice,"), "{}", &text[..80]);
    assert_eq!(text.lines().count(), trace.rows() + 1);
    let width = trace.head().series.len() + 1;
    assert!(text.lines().all(|line| line.split(',').count() == width));
}

#[test]
fn a_trace_as_parquet_is_the_stored_file() {
    let file = stored().join("runs").join(RUN).join("trials/b00.randread_4k.a0/trace.parquet");
    assert_eq!(exported_trace("parquet"), fs::read(file).unwrap());
}

#[test]
fn a_table_of_no_trials_is_still_a_table() {
    let csv = exported("csv", &[]);
    assert_eq!(csv.iter().filter(|b| **b == b'\n').count(), 1);
    let file = SerializedFileReader::new(bytes::Bytes::from(exported("parquet", &[]))).unwrap();
    assert_eq!(file.metadata().file_metadata().num_rows(), 0);
}

#[test]
fn a_full_disk_is_an_error() {
    let trials = trials();
    for exporter in exporters::ALL {
        for writer in exporter.writers() {
            let Writer::Trials(write) = writer else { continue };
            let mut full = Plain(File::options().write(true).open("/dev/full").unwrap());
            let text = write(&trials, &mut full).unwrap_err().to_string();
            assert!(text.contains("No space left on device"), "{exporter:?}: {text}");
        }
    }
}
