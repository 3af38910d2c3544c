use super::jobs::{Latencies, Latency};
use super::*;
use crate::report::testing::shown;
use expect_test::{Expect, expect};
use proptest::prelude::*;

macro_rules! fixture {
    ($name:literal) => {
        &include_bytes!(concat!("../../../../../fixtures/tools/fio/", $name, ".json"))[..]
    };
}

fn check(report: &[u8], expected: Expect) {
    expected.assert_eq(&shown(read(report)));
}

fn value(report: &[u8], metric: &str) -> f64 {
    read(report).unwrap().metrics[metric].value
}

#[test]
fn a_read_has_no_figures_of_writes() {
    check(
        fixture!("read-3.33"),
        expect![[r#"
        fio-3.33
        context_switches = 446 /s
        cpu_system = 27.2%
        cpu_user = 0%
        elapsed = 202 ms
        iops = 17.4 k/s
        latency_mean = 56.0 µs
        latency_p50 = 9.41 µs
        latency_p99 = 2.18 ms
        latency_p999 = 3.49 ms
        read_iops = 17.4 k/s
        read_throughput = 2.28 GB/s
        throughput = 2.28 GB/s
    "#]],
    );
}

#[test]
fn a_write_at_depth_is_read() {
    check(
        fixture!("write-3.33"),
        expect![[r#"
        fio-3.33
        context_switches = 990 /s
        cpu_system = 7.46%
        cpu_user = 7.46%
        elapsed = 201 ms
        iops = 3.94 k/s
        latency_mean = 976 µs
        latency_p50 = 963 µs
        latency_p99 = 1.65 ms
        latency_p999 = 2.64 ms
        throughput = 4.13 GB/s
        write_iops = 3.94 k/s
        write_throughput = 4.13 GB/s
    "#]],
    );
}

#[test]
fn what_a_sync_takes_is_told_beside_the_writes() {
    check(
        fixture!("fsync-3.33"),
        expect![[r#"
            fio-3.33
            context_switches = 1.60 k/s
            cpu_system = 0%
            cpu_user = 6.58%
            elapsed = 304 ms
            iops = 2.42 k/s
            latency_mean = 6.42 µs
            latency_p50 = 3.66 µs
            latency_p99 = 32.6 µs
            latency_p999 = 54.5 µs
            sync_latency_mean = 3.26 ms
            sync_latency_p50 = 3.56 ms
            sync_latency_p99 = 12.6 ms
            sync_latency_p999 = 15.8 ms
            syncs = 605 /s
            throughput = 9.92 MB/s
            write_iops = 2.42 k/s
            write_throughput = 9.92 MB/s
        "#]],
    );
}

/// fio 3.33 says here that 397 calls of 5.16 ms each, of one thread, one after another, took 487 ms.
#[test]
fn what_a_sync_takes_is_left_out_where_fio_counts_it_wrongly() {
    let old = fixture!("fsync-libaio-3.33");
    check(
        old,
        expect![[r#"
        fio-3.33
        context_switches = 1.04 k/s
        cpu_system = 3.29%
        cpu_user = 0%
        elapsed = 487 ms
        iops = 821 /s
        latency_mean = 3.63 ms
        latency_p50 = 138 µs
        latency_p99 = 16.1 ms
        latency_p999 = 17.7 ms
        syncs = 815 /s
        throughput = 3.36 MB/s
        write_iops = 821 /s
        write_throughput = 3.36 MB/s
        warning: fio-3.33: left out how long calls of fsync took: with libaio, fio 3.31 to 3.40 counts that from the write before; psync, io_uring, and fio 3.41 tell it
    "#]],
    );
    let text = std::str::from_utf8(old).unwrap();
    let mean = |text: &str| {
        let metrics = read(text.as_bytes()).unwrap().metrics;
        metrics.get("sync_latency_mean").map(|metric| metric.value)
    };
    let told = mean(&text.replacen("fio-3.33", "fio-3.41", 1)).unwrap();
    assert!((told - 5.16e-3).abs() < 1e-5, "{told}");
    assert_eq!(mean(&text.replacen("libaio", "io_uring", 1)), Some(told));
    // An option that is given again is there again.
    let again = text.replacen("\"rw\" :", "\"ioengine\" : \"psync\", \"rw\" :", 1);
    assert_eq!(mean(&again), Some(told));
    // The option may stand in the job file's `[global]`.
    let own = "\"ioengine\" : \"libaio\",";
    let without = text.replacen(own, "", 1);
    assert_eq!(mean(&without), Some(told));
    let global = without.replacen(
        "\"jobs\" :",
        &format!("\"global options\" : {{ {} }},\n\"jobs\" :", own.trim_end_matches(',')),
        1,
    );
    assert_eq!(mean(&global), None);
}

#[test]
fn reads_and_writes_are_told_apart_and_summed() {
    check(
        fixture!("mixed-3.33"),
        expect![[r#"
        fio-3.33
        context_switches = 40.4 k/s
        cpu_system = 23.9%
        cpu_user = 0%
        elapsed = 201 ms
        iops = 40.4 k/s
        latency_mean = 24.2 µs
        latency_p50 = 15.3 µs
        latency_p99 = 36.6 µs
        latency_p999 = 453 µs
        read_iops = 20.0 k/s
        read_throughput = 82.0 MB/s
        throughput = 166 MB/s
        write_iops = 20.4 k/s
        write_throughput = 83.7 MB/s
    "#]],
    );
}

#[test]
fn jobs_of_their_own_are_summed() {
    check(
        fixture!("four-jobs-3.33"),
        expect![[r#"
        fio-3.33
        context_switches = 88.6 k/s
        cpu_system = 38.8%
        cpu_user = 14.4%
        elapsed = 201 ms
        iops = 88.6 k/s
        latency_mean = 44.4 µs
        latency_p50 = 42.2 µs
        latency_p99 = 69.1 µs
        latency_p999 = 465 µs
        read_iops = 43.3 k/s
        read_throughput = 178 MB/s
        throughput = 363 MB/s
        write_iops = 45.2 k/s
        write_throughput = 185 MB/s
    "#]],
    );
}

#[test]
fn a_group_of_jobs_has_the_same_figures_as_its_jobs() {
    let (jobs, group) = (fixture!("four-jobs-3.33"), fixture!("four-jobs-grouped-3.33"));
    // Two runs of one workload on a shared machine: within a factor, where a wrong sum is off by four.
    for metric in ["throughput", "elapsed", "latency_mean", "cpu_system", "context_switches"] {
        let ratio = value(jobs, metric) / value(group, metric);
        assert!((0.5..2.0).contains(&ratio), "{metric}: {ratio}");
    }
}

#[test]
fn what_a_job_does_not_report_is_unknown_and_not_zero() {
    let whole = String::from_utf8(fixture!("four-jobs-3.33").to_vec()).unwrap();
    let lacking = |key: &str| whole.replacen(&format!("\"{key}\""), "\"another\"", 1);
    for (key, metric) in [("usr_cpu", "cpu_user"), ("sys_cpu", "cpu_system"), ("ctx", "context_switches")] {
        let metrics = read(lacking(key).as_bytes()).unwrap().metrics;
        assert!(!metrics.contains_key(metric) && metrics.contains_key("throughput"), "{key}: {metrics:?}");
    }
}

#[test]
fn percentiles_from_bins_are_the_ones_that_fio_prints() {
    for report in [fixture!("read-3.33"), fixture!("write-3.39"), fixture!("four-jobs-grouped-3.39")] {
        let json: serde_json::Value = serde_json::from_slice(report).unwrap();
        for direction in ["read", "write"] {
            let clat = json["jobs"][0][direction]["clat_ns"].clone();
            let Ok(latency) = serde_json::from_value::<Latency>(clat) else { continue };
            let own = latency.percentile.clone();
            let mut latencies = Latencies::default();
            latencies.add(latency);
            for (percent, ns) in own {
                let percent: f64 = percent.parse().unwrap();
                assert_eq!(latencies.percentile_ns(percent), Some(ns), "{direction} {percent}");
            }
        }
    }
}

#[test]
fn fio_3_39_is_read_as_3_33_is() {
    check(
        fixture!("mixed-3.39"),
        expect![[r#"
        fio-3.39
        context_switches = 36.9 k/s
        cpu_system = 25.4%
        cpu_user = 1.99%
        elapsed = 201 ms
        iops = 36.9 k/s
        latency_mean = 26.5 µs
        latency_p50 = 29.3 µs
        latency_p99 = 49.4 µs
        latency_p999 = 313 µs
        read_iops = 18.1 k/s
        read_throughput = 74.3 MB/s
        throughput = 151 MB/s
        write_iops = 18.8 k/s
        write_throughput = 76.8 MB/s
    "#]],
    );
    for report in [fixture!("read-3.39"), fixture!("four-jobs-3.39"), fixture!("four-jobs-grouped-3.39")] {
        assert_eq!(read(report).unwrap().tool, "fio-3.39");
    }
}

#[test]
fn the_normal_form_around_the_json_is_left_alone() {
    check(
        fixture!("json-normal-3.33"),
        expect![[r#"
        fio-3.33
        context_switches = 51.3 k/s
        cpu_system = 27.4%
        cpu_user = 1.99%
        elapsed = 201 ms
        iops = 51.3 k/s
        latency_mean = 19.0 µs
        latency_p50 = 16.8 µs
        latency_p99 = 33.5 µs
        latency_p999 = 118 µs
        read_iops = 51.3 k/s
        read_throughput = 210 MB/s
        throughput = 210 MB/s
    "#]],
    );
    assert_eq!(read(fixture!("json-normal-3.39")).unwrap().warnings, [""; 0]);
}

#[test]
fn jobs_without_bins_have_no_percentile_together() {
    let outcome = read(fixture!("four-jobs-plain-3.33")).unwrap();
    assert!(outcome.metrics.contains_key("latency_mean"));
    assert!(!outcome.metrics.contains_key("latency_p99"));
}

#[test]
fn latency_that_fio_did_not_measure_is_absent() {
    let outcome = read(fixture!("no-clat-3.33")).unwrap();
    assert!(outcome.metrics.contains_key("throughput"));
    assert!(!outcome.metrics.keys().any(|name| name.starts_with("latency")));
}

#[test]
fn unified_reporting_has_sums_and_no_directions() {
    let outcome = read(fixture!("unified-3.33")).unwrap();
    assert!(outcome.metrics.contains_key("throughput") && outcome.metrics.contains_key("latency_p99"));
    assert!(!outcome.metrics.contains_key("read_throughput"));
}

#[test]
fn a_note_before_the_json_is_a_warning() {
    let warned =
        ["note: both iodepth >= 1 and synchronous I/O engine are selected, queue depth will be capped at 1"];
    assert_eq!(read(fixture!("warning-3.33")).unwrap().warnings, warned);
    assert_eq!(read(fixture!("warning-3.39")).unwrap().warnings, warned);
}

#[test]
fn a_failed_job_fails_in_fios_own_words() {
    check(
        fixture!("no-space-3.33"),
        expect![[r#"
        fio failed: job `nospace`: pid=19375, err=28/file:io_u.c:1876, func=io_u error, error=No space left on device
    "#]],
    );
    check(
        fixture!("no-space-3.39"),
        expect![[r#"
        fio failed: job `nospace`: pid=19649, err=28/file:io_u.c:1976, func=io_u error, error=No space left on device
    "#]],
    );
    check(
        fixture!("missing-file-3.33"),
        expect![[r#"
        fio neither read nor wrote anything; check its size, count and runtime options, and that it is a reading or writing workload
    "#]],
    );
}

#[test]
fn a_complaint_without_a_report_is_shown() {
    check(
        fixture!("bad-option-3.33"),
        expect![[r#"
        cannot read the report of fio: it holds no JSON; the text ends with `and write mix | : readwrite  Sequential read and write mix | : randrw     Random read and write mix | : trimwrite  Trim and write mix, trims preceding writes | : randtrimwrite Randomly trim and write mix, trims preceding writes`; see what fio wrote to its standard error
    "#]],
    );
    check(
        fixture!("engine-missing-3.39"),
        expect![[r#"
        cannot read the report of fio: it holds no JSON; the text ends with `fio: file:ioengines.c:135, func=dlopen, error=libaio: cannot open shared object file: No such file or directory`; see what fio wrote to its standard error
    "#]],
    );
    check(
        b"",
        expect![[r#"
        cannot read the report of fio: it is empty; see what fio wrote to its standard error
    "#]],
    );
    check(
        b"{}",
        expect![[r#"
        cannot read the report of fio: byte 2 (line 1, column 2 of its JSON): missing field `fio version`; was fio killed, or the disk full? run the trial again
    "#]],
    );
}

#[test]
fn a_report_that_is_cut_short_names_the_byte() {
    check(
        &fixture!("read-3.33")[..5000],
        expect![[r#"
            cannot read the report of fio: byte 5000 (line 195, column 18 of its JSON): it ends here, unfinished; was fio killed, or the disk full? run the trial again
        "#]],
    );
    check(
        b"note: x\n{\n  \"jobs\" : [\n  nan ]",
        expect![[r#"
            cannot read the report of fio: byte 28 (line 3, column 4 of its JSON): expected ident; was fio killed, or the disk full? run the trial again
        "#]],
    );
}

#[test]
fn no_input_or_output_is_no_rate() {
    let idle = r#"{"fio version": "fio-3.33", "jobs": []}"#;
    check(
        idle.as_bytes(),
        expect![[r#"
        fio neither read nor wrote anything; check its size, count and runtime options, and that it is a reading or writing workload
    "#]],
    );
}

#[test]
fn errors_that_fio_was_told_to_pass_over_are_warned_of() {
    let report = String::from_utf8(fixture!("read-3.39").to_vec()).unwrap();
    let report =
        report.replacen("\"majf\"", "\"total_err\" : 7,\n      \"first_error\" : 5,\n      \"majf\"", 1);
    assert_eq!(read(report.as_bytes()).unwrap().warnings, ["7 I/O errors were passed over"]);
}

#[test]
fn it_does_not_matter_in_what_pieces_a_report_comes() {
    for report in [fixture!("four-jobs-3.33"), fixture!("warning-3.39"), fixture!("json-normal-3.33")] {
        let pieces = io::BufReader::with_capacity(7, report);
        assert_eq!(read(pieces).unwrap(), read(report).unwrap());
    }
    for report in
        [fixture!("no-space-3.33"), fixture!("bad-option-3.33"), &fixture!("read-3.33")[..5000], b""]
    {
        let pieces = io::BufReader::with_capacity(7, report);
        assert_eq!(read(pieces).unwrap_err().to_string(), read(report).unwrap_err().to_string());
    }
}

#[test]
fn endless_text_without_a_report_is_given_up() {
    let endless = io::BufReader::new(io::repeat(b'x'));
    assert!(matches!(read(endless), Err(ToolError::NoReport { .. })));
}

proptest! {
    #[test]
    fn a_report_cut_anywhere_is_an_error_or_the_same_outcome(at in 0_usize..13_541) {
        let whole = fixture!("read-3.33");
        match read(&whole[..at]) {
            Ok(outcome) => prop_assert_eq!(outcome, read(whole).unwrap()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn damaged_bytes_never_make_it_panic(at in 0_usize..13_541, byte: u8) {
        let mut report = fixture!("read-3.33").to_vec();
        report[at] = byte;
        let _ = read(&report[..]);
    }
}
