//! What other programs get of a run, and what makes a run fail. The forms are held against what reads them
//! here: JUnit's and Otava's by their own words, sadf's by `flyball import`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support;
use crate::support::Place;
use serde_json::Value;

/// Two depths on a simulated hard disk, three seconds each.
const STUDY: &str = r#"
flyball = 1
name = "depths"
question = "How deep?"

[sim]
machine = "wd-green-server"

[stack.disk]
kind = "devices"
loop = "1GiB"

[workload.read]
tool = "fio"
options = { rw = "randread", bs = "4k", ioengine = "libaio", direct = true, time_based = true, runtime = "3s" }

[factor.depth]
option = "iodepth"
levels = [1, 8]

[measure]
repeats = 2
"#;

fn simulated(place: &Place, more: &[&str], code: i32) -> String {
    let file = place.study("depths", STUDY);
    let arguments = [&["run", file.as_str(), "--on", "sim", "--new"], more].concat();
    let output = place.output(&arguments);
    assert_eq!(output.status.code(), Some(code), "{}", support::stderr(&output));
    support::stderr(&output)
}

#[test]
fn a_run_fails_by_a_condition_and_says_which_cell() {
    let place = Place::new();
    simulated(&place, &["--fail-if", "iops < 10 /s", "--fail-if", "latency_p99 > 5 s where depth=8"], 0);
    let junit = place.path("junit.xml");
    let told = simulated(
        &place,
        &[
            "--fail-if",
            "iops < 65 /s",
            "--fail-if",
            "worse than depths by 20%",
            "--junit",
            junit.to_str().unwrap(),
        ],
        6,
    );
    assert!(told.contains("failed: read_1: iops < 65 /s: iops is"), "{told}");
    assert!(told.contains("undecided: read_8: worse than depths by 20%: cannot tell yet"), "{told}");
    assert_eq!(told.matches("failed: ").count(), 1, "{told}");
    let xml = std::fs::read_to_string(junit).unwrap();
    assert!(
        xml.contains(r#"<testsuite name="depths" tests="4" skipped="0" errors="0" failures="1">"#),
        "{xml}"
    );
    assert!(xml.contains(r#"<testcase name="read_1: iops &lt; 65 /s" classname="depths.read""#), "{xml}");
    let exported = place.output(&["export", "depths", "--format", "junit", "--fail-if", "iops < 65 /s"]);
    assert_eq!(exported.status.code(), Some(6));
    assert!(String::from_utf8_lossy(&exported.stdout).contains(r#"failures="1""#));
}

#[test]
fn a_condition_about_nothing_is_told_before_anything_is_run() {
    let place = Place::new();
    let file = place.study("depths", STUDY);
    let run = |condition: &str| place.fails(2, &["run", &file, "--on", "sim", "--fail-if", condition]);
    assert!(run("iops <").contains("is no value of at least 0"));
    assert!(run("worse than nothing").contains("cannot judge by `worse than nothing`"));
    assert!(
        run("iops < 5 /s where depth=64")
            .contains("no cell of the study has depth=64; its factors are depth (1, 8")
    );
    let said = run("iosp < 5 /s");
    assert!(
        said.contains("no workload of its cells reports the metric `iosp`; there are ")
            && said.contains(" iops,"),
        "{said}"
    );
    assert!(run("iops < 5 MB/s").contains("`5 MB/s` is no value of iops"));
    assert!(!place.path("notebook").exists(), "a notebook was made for nothing");
}

#[test]
fn a_trace_as_sadf_prints_it_is_read_by_what_reads_sadf() {
    let place = Place::new();
    simulated(&place, &[], 0);
    let trial = ["--trace", "b00.read_8.a0"];
    let file = place.path("trace.csv");
    let out = ["--format", "sadf", "--out", file.to_str().unwrap()];
    place.ok(&[&["export", "depths"], &trial[..], &out].concat());
    let text = std::fs::read_to_string(&file).unwrap();
    let seconds = text.lines().filter(|line| line.contains(";sd") || line.contains(";loop")).count();
    assert!(text.starts_with("# hostname;interval;timestamp;CPU;%user;%nice") && seconds >= 2, "{text}");
    let imported = place.ok(&["import", file.to_str().unwrap(), "--name", "back"]);
    assert!(imported.contains("sadf"), "{imported}");
    // The disk did the same number of requests in both.
    let reads = text.lines().rfind(|line| line.contains("DEV") || line.contains(";sd")).unwrap();
    println!("{reads}");

    let metrics = place.ok(&[&["export", "depths", "--format", "openmetrics"], &trial[..]].concat());
    assert!(metrics.ends_with("# EOF\n"));
    for family in ["node_cpu_seconds", "node_disk_reads_completed", "flyball_role_cpu_seconds"] {
        assert_eq!(metrics.matches(&format!("# TYPE {family} counter\n")).count(), 1, "{family}");
    }
    assert!(metrics.contains(r#"provenance="simulation"} "#), "{metrics}");
}

#[test]
fn a_trace_for_perfetto_is_packets_and_says_what_is_wrong_with_its_events() {
    let place = Place::new();
    simulated(&place, &[], 0);
    let file = place.path("trace.pftrace");
    let format = ["--format", "perfetto", "--out", file.to_str().unwrap()];
    let export = [&["export", "depths", "--trace", "b00.read_8.a0"], &format[..]].concat();
    place.ok(&export);
    let whole = std::fs::read(&file).unwrap();
    let text = String::from_utf8_lossy(&whole);
    assert_eq!(whole[0], 0x0a, "a packet is field 1 of the trace, and has a length");
    assert!(text.contains("read throughput") && text.contains("CPU time by role"), "tracks have names");
    let run = support::folders(&place.path("notebook/runs")).remove(0);
    std::fs::write(run.join("trials/b00.read_8.a0/events.bin"), "FLYEVT01 and no more").unwrap();
    let error = place.fails(1, &export);
    assert!(error.contains("cannot write the events of `b00.read_8.a0`"), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), whole, "what was there is kept");
}

fn json(place: &Place, arguments: &[&str]) -> Value {
    serde_json::from_str(&place.ok(&[&["--json"], arguments].concat())).unwrap()
}

/// Exports a trace as Parquet, imports the file, and holds the two traces against each other. The trial as it
/// was stored before and after comes back.
fn there_and_back(place: &Place, run: &str, trial: &str) -> (Value, Value) {
    let file = place.path("trace.parquet");
    let file = file.to_str().unwrap();
    let _ = std::fs::remove_file(file);
    place.ok(&["export", run, "--trace", trial, "--format", "parquet", "--out", file]);
    let told = json(place, &["import", file, "--name", "back"]);
    let back = told["runs"][0]["run"].as_str().unwrap().to_owned();
    let trace = |run: &str, trial: &str| place.ok(&["export", run, "--trace", trial, "--format", "csv"]);
    let (before, after) = (trace(run, trial), trace(&back, "b00.trace.a0"));
    assert!(before.lines().count() > 3, "{before}");
    assert_eq!(before, after, "a sample has changed");
    assert_eq!(told["runs"][0]["trials"][0]["samples"], before.lines().count() - 1);
    // What the columns mean, and when time zero was, is not in the CSV.
    let again = place.path("again.parquet");
    let out = ["--format", "parquet", "--out", again.to_str().unwrap()];
    place.ok(&[&["export", back.as_str(), "--trace", "b00.trace.a0"], &out[..]].concat());
    assert!(std::fs::read(file).unwrap() == std::fs::read(&again).unwrap(), "the files differ");
    std::fs::remove_file(again).unwrap();
    (json(place, &["show", run, trial]), json(place, &["show", &back, "b00.trace.a0"]))
}

#[test]
fn a_trace_as_parquet_is_imported_again_sample_for_sample() {
    let place = Place::new();
    simulated(&place, &[], 0);
    let (before, after) = there_and_back(&place, "depths", "b00.read_8.a0");
    assert_eq!(after["provenance"], "imported");
    assert_eq!(after["origin"]["tool"], "flyball");
    assert_eq!(after["origin"]["version"], env!("CARGO_PKG_VERSION"));
    // A trace has samples alone: fio's own figures, the settings and the machine stay behind, and it says so.
    let metric = |trial: &Value, name: &str| trial["measurement"]["metrics"][name]["value"].as_f64();
    let by_fio = metric(&before, "iops").unwrap();
    let by_counters = metric(&after, "read_iops").unwrap();
    assert!((by_counters / by_fio - 1.0).abs() < 0.1, "{by_counters} {by_fio}");
    assert_eq!(metric(&after, "iops"), None);
    assert_eq!(after["settings"].as_array().unwrap().len(), 0);
    assert!(
        after["measurement"]["warnings"][0].as_str().unwrap().contains("a trace has samples alone"),
        "{after}"
    );
    assert_eq!(after["measurement"]["roles"], before["measurement"]["roles"]);

    place.ok(&["record", "--interval", "10ms", "--", "sleep", "0.2"]);
    let (before, after) = there_and_back(&place, "recording-sleep", "b00.recorded.a0");
    for name in ["cpu_busy", "read_throughput", "write_throughput"] {
        assert_eq!(metric(&after, name), metric(&before, name), "{name}");
    }
    assert_eq!(after["started"], before["started"]);
    // It is shown as the recording that it is.
    let shown = place.ok(&["show", "back"]);
    assert!(shown.contains("What is in trace.parquet?") && shown.contains("It was recorded for"), "{shown}");
    assert!(place.ok(&["report", "back", "--out", "-"]).contains("What was recorded"));
}

#[test]
fn runs_over_time_are_a_table_and_trials_are_folders() {
    let place = Place::new();
    simulated(&place, &[], 0);
    simulated(&place, &[], 0);
    let table = place.ok(&["export", "depths", "--format", "otava", "--metric", "iops"]);
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows[0], "time,run,revision,kernel,machine,read_1,read_8");
    assert_eq!(rows.len(), 3);
    assert!(rows[1][..20] <= rows[2][..20], "oldest first: {table}");
    let config = place.ok(&["export", "depths", "--format", "otava-config"]);
    assert!(
        config.contains("    file: \"depths.csv\"") && config.contains("        direction: 1"),
        "{config}"
    );

    let folder = place.path("plots");
    let plots = ["export", "depths", "--format", "fio-plot", "--out", folder.to_str().unwrap()];
    place.ok(&plots);
    let log = folder.join("read_8/1/randread-iodepth-8-numjobs-1_iops.1.log");
    let text = std::fs::read_to_string(&log).unwrap();
    let of_log: Vec<f64> =
        text.lines().map(|line| line.split(", ").nth(1).unwrap().parse().unwrap()).collect();
    let mean = of_log.iter().sum::<f64>() / of_log.len() as f64;
    let of_run: f64 = rows[2].rsplit(',').next().unwrap().parse().unwrap();
    println!("{mean:.0} a second in {} rows of the log, {of_run:.0} in the report", of_log.len());
    assert!((mean / of_run - 1.0).abs() < 0.1);
    assert!(place.fails(1, &plots).contains("cannot make the folder"));
}

#[test]
fn forms_that_do_not_fit_are_told() {
    let place = Place::new();
    simulated(&place, &[], 0);
    for (arguments, why) in [
        (&["--format", "sadf"][..], "name the trial with --trace"),
        (&["--format", "junit", "--trace", "b00.read_1.a0"], "a trace is written as csv"),
        (&["--format", "fio-plot"], "name the one to make with --out DIR"),
        (&["--metric", "iops"], "--metric is for"),
        (&["--fail-if", "iops < 5 /s"], "--fail-if is for"),
    ] {
        let error = place.fails(2, &[&["export", "depths"], arguments].concat());
        assert!(error.contains(why), "{arguments:?}: {error}");
    }
}
