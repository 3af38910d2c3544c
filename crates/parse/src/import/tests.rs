//! Every fixture, as it is imported; and that nothing makes a reader panic.

use super::*;
use domain::bench::SinkError;
use domain::time::Nanos;
use domain::trace::TraceHead;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use std::io::Cursor;

macro_rules! fixture {
    ($name:literal) => {
        include_bytes!(concat!("../../../../fixtures/tools/", $name)).as_slice()
    };
}

/// A trace, as the first rows of a few columns.
#[derive(Default)]
struct Rows {
    head: Option<TraceHead>,
    rows: Vec<(Nanos, Vec<Option<u64>>)>,
}

impl Sink for Rows {
    fn begin(&mut self, head: &TraceHead) -> Result<(), SinkError> {
        let names: std::collections::BTreeSet<&str> = head.series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names.len(), head.series.len(), "two columns have one name");
        self.head = Some(head.clone());
        Ok(())
    }
    fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> Result<(), SinkError> {
        self.rows.push((time, values.to_vec()));
        Ok(())
    }
}

fn import(bytes: &[u8]) -> Result<(Kind, Imported), Error> {
    let kind = recognise(&bytes[..bytes.len().min(HEAD)]).unwrap_or(Kind::Text(None));
    read(kind, &mut Cursor::new(bytes), Pace::default()).map(|imported| (kind, imported))
}

fn rows(bytes: &[u8], kind: Kind, series: &Series) -> Rows {
    let mut rows = Rows::default();
    stream(kind, &mut Cursor::new(bytes), Pace::default(), series, &mut rows).unwrap();
    rows
}

/// Facts, notes, each part with up to twelve metrics, and what its trace looks like.
fn shown(bytes: &[u8]) -> String {
    let (kind, imported) = match import(bytes) {
        Ok(found) => found,
        Err(error) => return format!("{error}\n"),
    };
    let mut text = format!("{}\n", kind.name());
    for (name, value) in &imported.facts {
        text += &format!("{name}: {value}\n");
    }
    for note in &imported.notes {
        text += &format!("note: {note}\n");
    }
    for part in &imported.parts {
        let started = part.started.map_or(String::new(), |s| format!(" at {}", s.iso()));
        text += &format!(
            "[{}] {}{started} {}\n",
            part.name,
            part.outcome.tool,
            part.command.clone().unwrap_or_default().join(" ")
        );
        for (name, metric) in part.outcome.metrics.iter().take(12) {
            text += &format!("  {name} = {}\n", metric.unit.show(metric.value));
        }
        if let Some(series) = &part.series {
            text += &trace(&rows(bytes, kind, series), series);
        }
    }
    text
}

fn trace(rows: &Rows, series: &Series) -> String {
    let head = rows.head.as_ref().unwrap();
    let known =
        head.series.iter().enumerate().filter(|(i, _)| rows.rows.iter().any(|(_, row)| row[*i].is_some()));
    let shown: Vec<(usize, &str)> = known.map(|(i, s)| (i, s.name.as_str())).take(4).collect();
    let mut text = format!(
        "  {} samples, {} columns, every {}, frequency {}; {}\n",
        series.samples,
        head.series.len(),
        head.interval,
        head.frequency.name(),
        shown.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
    );
    for (time, row) in rows.rows.iter().take(3) {
        let values = shown.iter().map(|(i, _)| row[*i].map_or("-".to_owned(), |v| v.to_string()));
        text += &format!("  {time}: {}\n", values.collect::<Vec<_>>().join(" "));
    }
    text
}

fn check(bytes: &[u8], expected: Expect) {
    expected.assert_eq(&shown(bytes));
}

#[test]
fn the_normal_output_of_fio_is_read() {
    check(
        fixture!("fio/text-four-jobs-grouped-3.33.txt"),
        expect![[r#"
        text
        [mixed] fio-3.33 
          context_switches = 19.5 k/s
          cpu_system = 41.0%
          cpu_user = 5.52%
          elapsed = 201 ms
          iops = 68.3 k/s
          latency_mean = 461 µs
          read_iops = 47.1 k/s
          read_throughput = 193 MB/s
          throughput = 280 MB/s
          write_iops = 21.2 k/s
          write_throughput = 86.6 MB/s
    "#]],
    );
    check(
        fixture!("fio/text-four-jobs-3.33.txt"),
        expect![[r#"
        text
        [mixed] fio-3.33 
          context_switches = 15.4 k/s
          cpu_system = 51.5%
          cpu_user = 0%
          elapsed = 201 ms
          iops = 64.6 k/s
          latency_mean = 487 µs
          read_iops = 44.6 k/s
          read_throughput = 183 MB/s
          throughput = 265 MB/s
          write_iops = 20.0 k/s
          write_throughput = 81.8 MB/s
    "#]],
    );
    check(
        fixture!("fio/text-fsync-3.33.txt"),
        expect![[r#"
        text
        [commit] fio-3.33 
          context_switches = 1.00 k/s
          cpu_system = 0%
          cpu_user = 3.63%
          elapsed = 304 ms
          iops = 1.53 k/s
          latency_mean = 6.85 µs
          latency_p50 = 3.31 µs
          latency_p99 = 35.6 µs
          latency_p999 = 59.6 µs
          sync_latency_mean = 2.58 ms
          sync_latency_p50 = 2.51 ms
          sync_latency_p99 = 5.54 ms
    "#]],
    );
    check(
        fixture!("fio/text-two-names-3.33.txt"),
        expect![[r#"
        text
        [readers] fio-3.33 
          context_switches = 6.60 k/s
          cpu_system = 53.0%
          cpu_user = 3.96%
          elapsed = 203 ms
          iops = 175 k/s
          latency_mean = 10.1 µs
          read_iops = 175 k/s
          read_throughput = 716 MB/s
          throughput = 716 MB/s
        [writer] fio-3.33 
          context_switches = 820 /s
          cpu_system = 26.3%
          cpu_user = 1.95%
          elapsed = 206 ms
          iops = 10.3 k/s
          latency_mean = 73.1 µs
          latency_p50 = 17.0 µs
          latency_p99 = 490 µs
          latency_p999 = 11.1 ms
          throughput = 677 MB/s
          write_iops = 10.3 k/s
          write_throughput = 677 MB/s
    "#]],
    );
    check(
        fixture!("fio/text-unified-3.33.txt"),
        expect![[r#"
        text
        [uni] fio-3.33 
          context_switches = 9.62 k/s
          cpu_system = 22.1%
          cpu_user = 2.40%
          elapsed = 209 ms
          iops = 19.6 k/s
          latency_mean = 33.4 µs
          latency_p50 = 8.00 µs
          latency_p99 = 91.0 µs
          latency_p999 = 3.06 ms
          throughput = 80.3 MB/s
    "#]],
    );
}

#[test]
fn of_fio_s_reports_of_one_run_the_last_counts_and_a_failed_one_is_none() {
    check(
        fixture!("fio/text-status-interval-3.33.txt"),
        expect![[r#"
        text
        note: left out 3 reports of jobs that were written before the run's last one
        [interval] fio-3.33 
          context_switches = 11.8 k/s
          cpu_system = 35.4%
          cpu_user = 1.87%
          elapsed = 3.00 s
          iops = 11.8 k/s
          latency_mean = 83.4 µs
          latency_p50 = 63.0 µs
          latency_p99 = 155 µs
          latency_p999 = 4.55 ms
          read_iops = 11.8 k/s
          read_throughput = 48.2 MB/s
          throughput = 48.2 MB/s
    "#]],
    );
    check(
        fixture!("fio/text-failed-3.33.txt"),
        expect![[r#"
        there is nothing to import in it: it is of the kind text, and holds no figure: no line of it is a result
    "#]],
    );
    check(
        fixture!("fio/text-lat-percentiles-3.33.txt"),
        expect![[r#"
        text
        [lat] fio-3.33 
          context_switches = 13.2 k/s
          cpu_system = 32.0%
          cpu_user = 1.00%
          elapsed = 201 ms
          iops = 13.9 k/s
          latency_mean = 70.6 µs
          read_iops = 13.9 k/s
          read_throughput = 56.9 MB/s
          throughput = 56.9 MB/s
    "#]],
    );
    check(
        fixture!("fio/text-slow-3.33.txt"),
        expect![[r#"
        text
        [slow] fio-3.33 
          context_switches = 40.5 /s
          cpu_system = 0.650%
          cpu_user = 0.0500%
          elapsed = 2.00 s
          iops = 20.0 /s
          latency_mean = 1.11 ms
          latency_p50 = 758 µs
          latency_p99 = 5.34 ms
          latency_p999 = 5.34 ms
          throughput = 21.0 MB/s
          write_iops = 20.0 /s
          write_throughput = 21.0 MB/s
    "#]],
    );
}

#[test]
fn two_runs_of_fio_in_one_text_are_two_results() {
    let text = [
        fixture!("fio/text-read-3.33.txt"),
        fixture!("fio/text-fsync-3.33.txt"),
        fixture!("fio/text-read-3.33.txt"),
    ];
    let (_, imported) = import(&text.concat()).unwrap();
    let names: Vec<&str> = imported.parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["read", "commit", "read-2"]);
}

/// fio prints both forms of one run: what is whole in the text is the same, and what is rounded is near.
#[test]
fn the_text_of_fio_says_what_its_json_says() {
    for both in [fixture!("fio/json-normal-3.33.json"), fixture!("fio/json-normal-3.39.json")] {
        let (kind, json) = import(both).unwrap();
        assert_eq!(kind, Kind::FioJson);
        let whole = String::from_utf8_lossy(both);
        let end = whole.find("\n}\n").unwrap() + 3;
        let start = whole.find("\n{").unwrap_or(0);
        let normal = format!("{}\n{}", &whole[..start], &whole[end..]);
        let text =
            read(Kind::Text(Some("fio")), &mut Cursor::new(normal.as_bytes()), Pace::default()).unwrap();
        assert_eq!(text.parts.len(), json.parts.len());
        for (text, json) in text.parts.iter().zip(&json.parts) {
            assert_eq!(text.name, json.name);
            for (name, metric) in &text.outcome.metrics {
                let expected = json.outcome.metrics[name].value;
                let near = (metric.value - expected).abs() <= expected.abs() * 0.02 + 1e-6;
                assert!(near, "{name}: {} is not {expected}", metric.value);
            }
            assert!(text.outcome.metrics.len() >= 8, "{:?}", text.outcome.metrics.keys());
        }
    }
}

#[test]
fn two_reports_of_dd_in_an_article_are_two_results() {
    check(
        fixture!("dd/two-in-an-article.txt"),
        expect![[r#"
        text
        [dd] dd dd if=/dev/san2_data/test of=/dev/null bs=64k count=1000
          elapsed = 8.64 s
          iops = 116 /s
          throughput = 7.58 MB/s
        [dd-2] dd dd if=/dev/san2_data/test of=/dev/null bs=64k count=1000
          elapsed = 1.15 s
          iops = 871 /s
          throughput = 57.1 MB/s
    "#]],
    );
}

#[test]
fn the_table_of_bonnie_and_the_array_in_a_mail() {
    check(
        fixture!("bonnie/1.2-in-a-mail.txt"),
        expect![[r#"
        text
        md0: active raid5, level 5, 32k chunk, algorithm 2
        [bonnie] bonnie-1.2 
          block_read = 95.6 MB/s
          block_write = 27.1 MB/s
          cpu_block_read = 32.2%
          cpu_block_write = 21.7%
          cpu_per_char_read = 97.9%
          cpu_per_char_write = 88.9%
          cpu_rewrite = 13.4%
          per_char_read = 17.5 MB/s
          per_char_write = 15.2 MB/s
          rewrite = 22.8 MB/s
    "#]],
    );
}

#[test]
fn lines_of_bonnies_csv_are_repeats() {
    check(
        fixture!("bonnie/2.00a-twice.csv"),
        expect![[r#"
        text
        [bonnie] bonnie++-2.00a 
          latency_block_read = 46.4 ms
          latency_block_write = 12.3 ms
          latency_rewrite = 13.9 ms
          latency_seeks = 109 ms
        [bonnie] bonnie++-2.00a 
          latency_block_read = 2.52 ms
          latency_block_write = 8.03 ms
          latency_rewrite = 2.85 ms
          latency_seeks = 51.5 ms
    "#]],
    );
}

#[test]
fn a_table_of_bonnie_that_its_csv_follows_is_there_once() {
    check(
        fixture!("bonnie/2.00a-fast.txt"),
        expect![[r#"
        text
        [bonnie] bonnie++-2.00a 
          latency_block_read = 24.1 ms
          latency_block_write = 19.7 ms
          latency_rewrite = 12.2 ms
          latency_seeks = 23.2 ms
    "#]],
    );
}

/// Output of versions that others have published: [`PROVENANCE.md`](../../../../fixtures/tools/PROVENANCE.md)
/// says where.
#[test]
fn older_versions_say_the_same_in_other_words() {
    check(
        fixture!("fio/mixed-2.18.json"),
        expect![[r#"
        fio-json
        [mixed] fio-2.18 at 2026-11-23T07:54:21Z 
          context_switches = 11.5 k/s
          elapsed = 88.0 ms
          iops = 23.3 k/s
          latency_mean = 41.8 µs
          read_iops = 11.5 k/s
          read_throughput = 47.2 MB/s
          throughput = 95.3 MB/s
          write_iops = 11.7 k/s
          write_throughput = 48.1 MB/s
    "#]],
    );
    check(
        fixture!("fio/mixed-3.1.json"),
        expect![[r#"
        fio-json
        [mixed] fio-3.1 at 2026-11-23T07:54:25Z 
          context_switches = 12.5 k/s
          elapsed = 82.0 ms
          iops = 25.0 k/s
          latency_mean = 34.7 µs
          latency_p50 = 7.84 µs
          latency_p99 = 105 µs
          latency_p999 = 157 µs
          read_iops = 12.1 k/s
          read_throughput = 49.7 MB/s
          throughput = 102 MB/s
          write_iops = 12.9 k/s
          write_throughput = 52.6 MB/s
    "#]],
    );
    check(
        fixture!("sysbench/oltp-0.4.12.txt"),
        expect![[r#"
            text
            [sysbench-oltp] sysbench-0.4.12 
              elapsed = 60.0 s
              errors = 0 /s
              latency_max = 6.22 ms
              latency_mean = 930 µs
              latency_min = 510 µs
              latency_p95 = 1.10 ms
              queries = 34.4 k/s
              transactions = 17.2 k/s
        "#]],
    );
    check(
        fixture!("pgbench/tpcb-9.4.txt"),
        expect![[r#"
        text
        [pgbench] pgbench 
          elapsed = 300 s
          transactions = 267 /s
    "#]],
    );
    check(
        fixture!("pgbench/tpcb-10.txt"),
        expect![[r#"
        text
        [pgbench] pgbench 
          elapsed = 600 s
          latency_mean = 10.6 ms
          latency_stddev = 14.7 ms
          transactions = 753 /s
    "#]],
    );
    check(
        fixture!("dd/2004.txt"),
        expect![[r#"
        text
        [dd] dd 
          elapsed = 28.4 ms
          iops = 352 /s
          throughput = 369 MB/s
    "#]],
    );
    check(
        fixture!("dd/bsd-and-busybox.txt"),
        expect![[r#"
        text
        [dd] dd 
          elapsed = 481 s
          iops = 2.03 /s
          throughput = 2.12 MB/s
        [dd-2] dd 
          elapsed = 13.2 ms
          iops = 756 /s
          throughput = 793 MB/s
    "#]],
    );
    check(
        fixture!("bonnie/1.97.txt"),
        expect![[r#"
        text
        [bonnie] bonnie++-1.97 
          block_read = 278 MB/s
          block_write = 80.9 MB/s
          cpu_block_read = 13.0%
          cpu_block_write = 7.00%
          cpu_create_random = 6.00%
          cpu_create_seq = 7.00%
          cpu_delete_random = 13.0%
          cpu_delete_seq = 12.0%
          cpu_per_char_read = 92.0%
          cpu_per_char_write = 97.0%
          cpu_rewrite = 11.0%
          cpu_seeks = 53.0%
    "#]],
    );
    check(
        fixture!("bonnie/1.96-no-data-in-a-mail.txt"),
        expect![[r#"
        text
        [bonnie] bonnie++-1.96 
          cpu_create_random = 16.0%
          cpu_create_seq = 14.0%
          cpu_delete_random = 3.00%
          cpu_delete_seq = 4.00%
          cpu_stat_random = 13.0%
          cpu_stat_seq = 12.0%
          create_random = 1.87 k/s
          create_seq = 1.70 k/s
          delete_random = 1.27 k/s
          delete_seq = 1.33 k/s
          latency_create_random = 505 ms
          latency_create_seq = 3.87 s
    "#]],
    );
    check(
        fixture!("iostat/9.0-x-k.txt"),
        expect![[r#"
        text
        architecture: x86_64
        cpus: 4
        date: 07/16/2014
        host: colin
        kernel: 2.6.32-279.el6.x86_64
        note: iostat: it has one sample: where that is the first that the tool printed, it counts since the machine's start
        note: iostat: it has no clock: its samples are drawn one second apart; --interval TIME says how far they are
        [iostat] iostat 
          disk.dm-0.busy = 0.340%
          disk.dm-0.latency_mean = 209 ms
          disk.dm-0.read_iops = 0.0400 /s
          disk.dm-0.read_throughput = 287 B/s
          disk.dm-0.write_iops = 3.05 /s
          disk.dm-0.write_throughput = 12.5 kB/s
          disk.dm-1.busy = 0.760%
          disk.dm-1.latency_mean = 74.3 ms
          disk.dm-1.read_iops = 0.0200 /s
          disk.dm-1.read_throughput = 471 B/s
          disk.dm-1.write_iops = 5.82 /s
          disk.dm-1.write_throughput = 23.8 kB/s
          1 samples, 33 columns, every 0 ns, frequency none; iostat.disk.sda.rrqm/s iostat.disk.sda.wrqm/s iostat.disk.sda.read_iops iostat.disk.sda.write_iops
          0 ns: 20 7250 40 1900
    "#]],
    );
    check(
        fixture!("iostat/9.0-x.txt"),
        expect![[r#"
        text
        note: iostat: left out its first sample, which counts since the machine's start
        note: iostat: it has no clock: its samples are drawn one second apart; --interval TIME says how far they are
        [iostat] iostat 
          cpu.idle = 34.8%
          cpu.iowait = 48.3%
          cpu.nice = 0.500%
          cpu.steal = 0%
          cpu.system = 8.96%
          cpu.user = 7.47%
          disk.sda.busy = 84.4%
          disk.sda.latency_mean = 10.6 ms
          disk.sda.read_iops = 99.0 /s
          disk.sda.read_throughput = 1.15 MB/s
          disk.sda.write_iops = 7.00 /s
          disk.sda.write_throughput = 1.15 MB/s
          1 samples, 28 columns, every 0 ns, frequency none; iostat.cpu.user iostat.cpu.nice iostat.cpu.system iostat.cpu.iowait
          0 ns: 74700 5000 89600 482600
    "#]],
    );
    check(
        fixture!("turbostat/2012-in-a-manual.txt"),
        expect![[r#"
        text
        note: turbostat: it has no clock: its samples are drawn one second apart; --interval TIME says how far they are
        [turbostat] turbostat 
          freq.all = 3440 MHz
          power = 94.0 W
          power.package-0 = 48.1 W
          turbostat.%c1 = 9.18%
          turbostat.%c3 = 0%
          turbostat.%c6 = 85.3%
          turbostat.%c7 = 0%
          turbostat.%pc2 = 0%
          turbostat.%pc3 = 0%
          turbostat.%pc6 = 0%
          turbostat.%pc7 = 0%
          turbostat.Busy% = 5.54%
          1 samples, 45 columns, every 0 ns, frequency tool; turbostat.Busy% freq.all.khz turbostat.TSC_MHz turbostat.SMI
          0 ns: 55400 3440000 2900000 0
    "#]],
    );
}

#[test]
fn sar_sadf_and_turbostat_in_a_comment() {
    check(
        fixture!("turbostat/sar-sadf-turbostat-in-a-comment.txt"),
        expect![[r#"
        text
        host: deva01
        note: turbostat: it has no clock: its samples are drawn one second apart; --interval TIME says how far they are
        [sadf] sadf at 2016-05-10T16:20:42Z 
          freq.all = 2389 MHz
          1 samples, 5 columns, every 1.0 s, frequency tool; freq.all.khz freq.cpu0.khz freq.cpu1.khz freq.cpu2.khz
          0 ns: - - - -
          1.0 s: 2388700 1903020 1331340 3300780
        [sar] sar 
          freq.all = 2389 MHz
          1 samples, 4 columns, every 1.0 s, frequency tool; freq.all.khz freq.cpu0.khz freq.cpu1.khz freq.cpu2.khz
          0 ns: - - - -
          1.0 s: 2388700 1903020 1331340 3300780
        [turbostat] turbostat 
          freq.all = 2389 MHz
          power = 76.1 W
          power.package-0 = 39.6 W
          turbostat.%Busy = 0.0300%
          turbostat.Avg_MHz = 1.00 MHz
          turbostat.CPU%c1 = 0.0900%
          turbostat.CPU%c3 = 0.720%
          turbostat.CPU%c6 = 99.2%
          turbostat.CPU%c7 = 0%
          turbostat.CoreTmp = 38.0
          turbostat.PKG_% = 0%
          turbostat.Pkg%pc2 = 0%
          1 samples, 70 columns, every 0 ns, frequency tool; turbostat.Avg_MHz turbostat.%Busy freq.all.khz turbostat.TSC_MHz
          0 ns: 1000 300 2389000 2500000
    "#]],
    );
}

#[test]
fn turbostat_of_a_hybrid_cpu() {
    check(
        fixture!("turbostat/2024.12.03.txt"),
        expect![[r#"
        text
        turbostat: 2024.12.03
        [turbostat] turbostat at 2025-01-21T12:15:56Z 
          freq.all = 629 MHz
          power = 1.29 W
          turbostat.Any%C0 = 2.02%
          turbostat.Avg_MHz = 1.00 MHz
          turbostat.Busy% = 0.125%
          turbostat.C10 = 773
          turbostat.C10% = 99.8%
          turbostat.C1E = 25.8
          turbostat.C1E% = 0.0200%
          turbostat.C6 = 17.5
          turbostat.C6% = 0.0175%
          turbostat.C8 = 40.5
          4 samples, 385 columns, every 5.0 s, frequency tool; turbostat.Avg_MHz turbostat.Busy% freq.all.khz turbostat.TSC_MHz
          0 ns: - - - -
          5.0 s: 1000 1400 640000 2499000
          10.0 s: 1000 1200 552000 2496000
    "#]],
    );
}

#[test]
fn text_of_sar() {
    check(
        fixture!("sar/12.6-cpu-disk-queue.txt"),
        expect![[r#"
            text
            architecture: x86_64
            cpus: 2
            date: 11/21/26
            host: vm
            kernel: 6.18.44
            [sar] sar at 2026-11-21T22:14:08Z 
              cpu.idle = 0.167%
              cpu.iowait = 0%
              cpu.nice = 40.6%
              cpu.steal = 0.333%
              cpu.system = 21.6%
              cpu.user = 37.3%
              disk.loop0.busy = 0%
              disk.loop0.discard_throughput = 0 B/s
              disk.loop0.iops = 0 /s
              disk.loop0.read_throughput = 0 B/s
              disk.loop0.write_throughput = 0 B/s
              disk.loop1.busy = 0%
              3 samples, 67 columns, every 1.0 s, frequency tool; cpu.user cpu.nice cpu.system cpu.iowait
              0 ns: 0 0 0 0
              1.0 s: 91 74 33 0
              2.0 s: 150 165 83 0
        "#]],
    );
    check(
        fixture!("sar/12.6-am.txt"),
        expect![[r#"
        text
        architecture: x86_64
        cpus: 2
        date: 11/21/26
        host: vm
        kernel: 6.18.44
        [sar] sar at 2026-11-21T22:14:11Z 
          cpu.idle = 0%
          cpu.iowait = 0%
          cpu.nice = 42.1%
          cpu.steal = 0%
          cpu.system = 18.2%
          cpu.user = 39.6%
          2 samples, 6 columns, every 1.0 s, frequency none; cpu.user cpu.nice cpu.system cpu.iowait
          0 ns: 0 0 0 0
          1.0 s: 76 85 39 0
          2.0 s: 159 169 73 0
    "#]],
    );
    check(
        fixture!("sar/12.6-iso-all-net.txt"),
        expect![[r#"
        text
        architecture: x86_64
        cpus: 2
        date: 2026-11-21
        host: vm
        kernel: 6.18.44
        [sar] sar at 2026-11-21T22:14:13Z 
          cpu.gnice = 0%
          cpu.guest = 0%
          cpu.idle = 0%
          cpu.iowait = 0%
          cpu.irq = 0%
          cpu.nice = 50.0%
          cpu.softirq = 0%
          cpu.steal = 0.500%
          cpu.system = 12.8%
          cpu.user = 36.8%
          sar.net.eth0.%ifutil = 0%
          sar.net.eth0.rxcmp/s = 0 /s
          2 samples, 42 columns, every 1.0 s, frequency none; cpu.user cpu.nice cpu.system cpu.iowait
          0 ns: 0 0 0 0
          1.0 s: 66 109 24 0
          2.0 s: 147 200 51 0
    "#]],
    );
}

#[test]
fn json_and_database_lines_of_sadf() {
    check(
        fixture!("sadf/12.6.json"),
        expect![[r#"
            sysstat-json
            architecture: x86_64
            cpus: 2
            date: 2026-11-21
            host: vm
            kernel: 6.18.44
            time zone: UTC
            [sadf] sadf at 2026-11-21T22:14:06Z 
              cpu.idle = 1.73%
              cpu.iowait = 0%
              cpu.nice = 39.9%
              cpu.steal = 0%
              cpu.system = 17.2%
              cpu.user = 41.1%
              disk.loop0.busy = 0%
              disk.loop0.discard_throughput = 0 B/s
              disk.loop0.iops = 0 /s
              disk.loop0.read_throughput = 0 B/s
              disk.loop0.write_throughput = 0 B/s
              disk.loop1.busy = 0%
              2 samples, 124 columns, every 1.0 s, frequency tool; cpu.user cpu.nice cpu.system cpu.iowait
              0 ns: 0 0 0 0
              1.0 s: 84 73 39 0
              2.0 s: 165 160 69 0
        "#]],
    );
    check(
        fixture!("sadf/12.6-d.txt"),
        expect![[r#"
            text
            host: vm
            [sadf] sadf at 2026-11-21T22:14:06Z 
              cpu.idle = 1.73%
              cpu.iowait = 0%
              cpu.nice = 39.9%
              cpu.steal = 0%
              cpu.system = 17.2%
              cpu.user = 41.1%
              disk.loop0.busy = 0%
              disk.loop0.discard_throughput = 0 B/s
              disk.loop0.iops = 0 /s
              disk.loop0.read_throughput = 0 B/s
              disk.loop0.write_throughput = 0 B/s
              disk.loop1.busy = 0%
              2 samples, 58 columns, every 1.0 s, frequency none; sadf.cpu.user sadf.cpu.nice sadf.cpu.system sadf.cpu.iowait
              0 ns: - - - -
              1.0 s: 418700 364500 197000 0
              2.0 s: 403900 433500 147800 0
        "#]],
    );
}

#[test]
fn iostat() {
    check(
        fixture!("iostat/12.6-x.txt"),
        expect![[r#"
            text
            architecture: x86_64
            cpus: 2
            date: 11/21/26
            host: vm
            kernel: 6.18.44
            note: iostat: left out its first sample, which counts since the machine's start
            note: iostat: it has no clock: its samples are drawn one second apart; --interval TIME says how far they are
            [iostat] iostat 
              cpu.idle = 0.250%
              cpu.iowait = 0%
              cpu.nice = 54.5%
              cpu.steal = 0%
              cpu.system = 12.7%
              cpu.user = 32.6%
              disk.loop0.busy = 0%
              disk.loop0.discard_throughput = 0 B/s
              disk.loop0.read_iops = 0 /s
              disk.loop0.read_throughput = 0 B/s
              disk.loop0.write_iops = 0 /s
              disk.loop0.write_throughput = 0 B/s
              2 samples, 50 columns, every 0 ns, frequency none; iostat.cpu.user iostat.cpu.nice iostat.cpu.system iostat.cpu.iowait
              0 ns: 335000 550000 115000 0
              1.0 s: 316800 539600 138600 0
        "#]],
    );
    check(
        fixture!("iostat/12.6-t-d.txt"),
        expect![[r#"
        text
        architecture: x86_64
        cpus: 2
        date: 11/21/26
        host: vm
        kernel: 6.18.44
        note: iostat: left out its first sample, which counts since the machine's start
        [iostat] iostat at 2026-11-21T22:14:17Z 
          disk.vda.discard_throughput = 4.10 kB/s
          disk.vda.iops = 762 /s
          disk.vda.read_throughput = 25.3 MB/s
          disk.vda.write_throughput = 0 B/s
          1 samples, 4 columns, every 1.0 s, frequency none; iostat.disk.vda.iops disk.vda.read_sectors disk.vda.write_sectors iostat.disk.vda.discard_throughput
          0 ns: - 0 0 -
          1.0 s: 762000 49456 0 4096
    "#]],
    );
    check(
        fixture!("iostat/12.6.json"),
        expect![[r#"
        sysstat-json
        architecture: x86_64
        cpus: 2
        date: 11/21/26
        host: vm
        kernel: 6.18.44
        note: iostat: left out its first sample, which counts since the machine's start
        [iostat] iostat at 2026-11-21T22:14:18Z 
          cpu.idle = 0%
          cpu.iowait = 0%
          cpu.nice = 55.8%
          cpu.steal = 0%
          cpu.system = 17.1%
          cpu.user = 27.1%
          disk.vda.busy = 0.800%
          disk.vda.discard_throughput = 0 B/s
          disk.vda.read_iops = 145 /s
          disk.vda.read_latency_mean = 950 µs
          disk.vda.read_throughput = 3.27 MB/s
          disk.vda.write_iops = 0 /s
          1 samples, 28 columns, every 1.0 s, frequency none; cpu.user cpu.nice cpu.system cpu.iowait
          0 ns: 0 0 0 0
          1.0 s: 54 112 34 0
    "#]],
    );
}

#[test]
fn mpstat_pidstat_and_vmstat() {
    check(
        fixture!("mpstat/12.6.txt"),
        expect![[r#"
        text
        architecture: x86_64
        cpus: 2
        date: 11/21/26
        host: vm
        kernel: 6.18.44
        [mpstat] mpstat at 2026-11-21T22:14:19Z 
          cpu.gnice = 0%
          cpu.guest = 0%
          cpu.idle = 0.250%
          cpu.iowait = 0%
          cpu.irq = 0%
          cpu.nice = 47.0%
          cpu.softirq = 0%
          cpu.steal = 0%
          cpu.system = 16.4%
          cpu.user = 36.3%
          2 samples, 30 columns, every 1.0 s, frequency none; cpu.user cpu.nice cpu.system cpu.iowait
          0 ns: 0 0 0 0
          1.0 s: 68 100 31 0
          2.0 s: 145 188 66 0
    "#]],
    );
    check(
        fixture!("mpstat/12.6.json"),
        expect![[r#"
        sysstat-json
        architecture: x86_64
        cpus: 2
        date: 11/21/26
        host: vm
        kernel: 6.18.44
        [mpstat] mpstat at 2026-11-21T22:14:22Z 
          cpu.gnice = 0%
          cpu.guest = 0%
          cpu.idle = 0%
          cpu.iowait = 0%
          cpu.irq = 0%
          cpu.nice = 48.9%
          cpu.softirq = 0%
          cpu.steal = 0%
          cpu.system = 18.6%
          cpu.user = 32.6%
          2 samples, 30 columns, every 0 ns, frequency none; mpstat.cpu.user mpstat.cpu.nice mpstat.cpu.system mpstat.cpu.iowait
          0 ns: 381900 422100 196000 0
          1.0 s: 54000000 111000000 35000000 0
    "#]],
    );
    check(
        fixture!("pidstat/12.6.txt"),
        expect![[r#"
        text
        architecture: x86_64
        cpus: 2
        date: 11/21/26
        host: vm
        kernel: 6.18.44
        [pidstat] pidstat at 2026-11-21T22:42:23Z 
          2 samples, 5 columns, every 1.0 s, frequency none; pidstat.19335.dd.%usr pidstat.19335.dd.%system pidstat.19335.dd.%guest pidstat.19335.dd.%wait
          0 ns: - - - -
          1.0 s: 58800 460800 0 480400
          2.0 s: 60000 410000 0 520000
    "#]],
    );
    check(
        fixture!("pidstat/12.6-t.txt"),
        expect![[r#"
        text
        architecture: x86_64
        cpus: 2
        date: 11/22/26
        host: vm
        kernel: 6.18.44
        [pidstat] pidstat at 2026-11-22T23:09:56Z 
          2 samples, 14 columns, every 2.0 s, frequency none; pidstat.9224.dd.%usr pidstat.9224.dd.%system pidstat.9224.dd.%guest pidstat.9224.dd.%wait
          0 ns: - - - -
          2.0 s: 54300 178300 0 689900
          3.0 s: 78400 196100 0 735300
    "#]],
    );
    check(
        fixture!("pidstat/12.7.9.json"),
        expect![[r#"
        sysstat-json
        architecture: x86_64
        cpus: 2
        date: 11/22/26
        host: vm
        kernel: 6.18.44
        [pidstat] pidstat at 2026-11-22T23:48:37Z 
          2 samples, 16 columns, every 0 ns, frequency none; pidstat.task-cpu-load.0.3885..usr pidstat.task-cpu-load.0.3885..system pidstat.task-cpu-load.0.3885..guest pidstat.task-cpu-load.0.3885..wait
          0 ns: 2830 20750 0 63210
          1.0 s: 7920 28710 0 75250
    "#]],
    );
    check(
        fixture!("pidstat/12.6-h.txt"),
        expect![[r#"
        text
        architecture: x86_64
        cpus: 2
        date: 11/21/26
        host: vm
        kernel: 6.18.44
        [pidstat] pidstat at 2026-11-21T22:42:26Z 
          2 samples, 9 columns, every 1.0 s, frequency none; pidstat.19335.dd.%usr pidstat.19335.dd.%system pidstat.19335.dd.%guest pidstat.19335.dd.%wait
          0 ns: 58800 539200 0 460800
          1.0 s: 77700 514600 0 398100
    "#]],
    );
    check(
        fixture!("vmstat/4.0-t.txt"),
        expect![[r#"
        text
        note: vmstat: left out its first sample, which counts since the machine's start
        [vmstat] vmstat at 2026-11-21T22:14:27Z 
          cpu.idle = 0%
          cpu.iowait = 0%
          cpu.steal = 0%
          cpu.system = 10.5%
          cpu.user = 90.0%
          vmstat.b = 0
          vmstat.bi_kB/s = 2.05 kB/s
          vmstat.bo_kB/s = 0 B/s
          vmstat.buff = 86.5 k
          vmstat.cache = 4.79 M
          vmstat.cs/s = 10.3 k/s
          vmstat.free = 15.5 M
          2 samples, 17 columns, every 1.0 s, frequency none; vmstat.r vmstat.b vmstat.swpd vmstat.free
          0 ns: - - - -
          1.0 s: 5000 0 0 15455056000
          2.0 s: 6000 0 0 15455056000
    "#]],
    );
    check(
        fixture!("vmstat/4.0-w.txt"),
        expect![[r#"
        text
        note: vmstat: left out its first sample, which counts since the machine's start
        note: vmstat: it has no clock: its samples are drawn one second apart; --interval TIME says how far they are
        [vmstat] vmstat 
          cpu.gu = 0%
          cpu.idle = 0%
          cpu.iowait = 0%
          cpu.steal = 0%
          cpu.system = 14.5%
          cpu.user = 85.5%
          vmstat.b = 0
          vmstat.bi_kB/s = 827 kB/s
          vmstat.bo_kB/s = 4.16 MB/s
          vmstat.buff = 86.5 k
          vmstat.cache = 4.79 M
          vmstat.cs/s = 9.91 k/s
          2 samples, 18 columns, every 0 ns, frequency none; vmstat.r vmstat.b vmstat.swpd vmstat.free
          0 ns: 6000 0 0 15456984000
          1.0 s: 7000 0 0 15456984000
    "#]],
    );
}

#[test]
fn of_fios_reports_while_it_runs_the_last_counts() {
    check(
        fixture!("fio/status-interval-3.33.json"),
        expect![[r#"
        fio-json
        note: left out 2 reports that were written before the run's last one
        [a] fio-3.33 at 2026-11-22T22:38:58Z 
          context_switches = 1.61 k/s
          cpu_system = 5.54%
          cpu_user = 0%
          elapsed = 2.00 s
          iops = 1.61 k/s
          latency_mean = 619 µs
          latency_p50 = 261 µs
          latency_p99 = 3.98 ms
          latency_p999 = 6.52 ms
          read_iops = 1.61 k/s
          read_throughput = 6.60 MB/s
          throughput = 6.60 MB/s
    "#]],
    );
    // Reports of two runs: both count, whichever is first.
    let two = [fixture!("fio/mixed-3.33.json"), fixture!("fio/read-3.33.json")].concat();
    check(
        &two,
        expect![[r#"
        fio-json
        [mixed] fio-3.33 at 2026-11-20T14:09:51Z 
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
        [seqread] fio-3.33 at 2026-11-20T14:09:50Z 
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
    let twice = [fixture!("fio/read-3.33.json"), fixture!("fio/read-3.33.json")].concat();
    let imported = read(Kind::FioJson, &mut Cursor::new(&twice), Pace::default()).unwrap();
    assert_eq!(imported.parts.len(), 1, "one run that was copied twice is one run");
    // One that was written anew without indentation.
    let text = String::from_utf8_lossy(fixture!("fio/read-3.33.json"));
    let flat: Vec<&str> = text.lines().map(str::trim_start).collect();
    let imported = read(Kind::FioJson, &mut Cursor::new(flat.join("\n")), Pace::default()).unwrap();
    assert_eq!(imported.parts.len(), 1);
    // Two, with every brace at the beginning of a line.
    let flat: Vec<String> = [fixture!("fio/mixed-3.33.json"), fixture!("fio/read-3.33.json")]
        .map(|one| String::from_utf8_lossy(one).replace("\n ", "\n").replace("  ", ""))
        .into();
    let imported = read(Kind::FioJson, &mut Cursor::new(flat.concat()), Pace::default()).unwrap();
    assert_eq!(
        imported.parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>(),
        ["mixed", "seqread"]
    );
    // Cut within the last one: what stands there is told from the file's beginning.
    let whole = fixture!("fio/status-interval-3.33.json");
    let error =
        read(Kind::FioJson, &mut Cursor::new(&whole[..whole.len() - 500]), Pace::default()).unwrap_err();
    expect!["cannot read it as fio-json: byte 18772 (line 783): it ends here, within a text; understood before that: 0 jobs"].assert_eq(&error.to_string());
}

#[test]
fn jobs_of_fio_in_json_and_in_terse() {
    check(
        fixture!("fio/mixed-3.33.json"),
        expect![[r#"
        fio-json
        [mixed] fio-3.33 at 2026-11-20T14:09:51Z 
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
    "#]],
    );
    check(
        fixture!("fio/warning-3.39.json"),
        expect![[r#"
        fio-json
        note: note: both iodepth >= 1 and synchronous I/O engine are selected, queue depth will be capped at 1
        [depth] fio-3.39 at 2026-11-20T14:10:00Z 
          context_switches = 51.2 k/s
          cpu_system = 28.9%
          cpu_user = 0%
          elapsed = 201 ms
          iops = 51.2 k/s
          latency_mean = 19.1 µs
          latency_p50 = 15.4 µs
          latency_p99 = 36.1 µs
          latency_p999 = 424 µs
          read_iops = 51.2 k/s
          read_throughput = 210 MB/s
          throughput = 210 MB/s
    "#]],
    );
    check(
        fixture!("fio/terse-v3-3.33.txt"),
        expect![[r#"
        fio-terse
        [seq] fio-3.33 
          cpu_system = 46.7%
          cpu_user = 0%
          elapsed = 76.0 ms
          iops = 26.9 k/s
          read_iops = 13.1 k/s
          read_throughput = 53.6 MB/s
          throughput = 110 MB/s
          write_iops = 13.9 k/s
          write_throughput = 56.8 MB/s
    "#]],
    );
    check(
        fixture!("fio/terse-v4-3.33.txt"),
        expect![[r#"
        fio-terse
        [seq] fio-3.33 
          cpu_system = 30.4%
          cpu_user = 0%
          elapsed = 126 ms
          iops = 16.3 k/s
          read_iops = 7.89 k/s
          read_throughput = 32.3 MB/s
          throughput = 66.6 MB/s
          write_iops = 8.37 k/s
          write_throughput = 34.3 MB/s
    "#]],
    );
    check(
        fixture!("fio/terse-v5-3.33.txt"),
        expect![[r#"
        fio-terse
        [seq] fio-3.33 
          cpu_system = 37.9%
          cpu_user = 0%
          elapsed = 67.0 ms
          iops = 30.6 k/s
          read_iops = 14.8 k/s
          read_throughput = 60.8 MB/s
          throughput = 125 MB/s
          write_iops = 15.7 k/s
          write_throughput = 64.4 MB/s
    "#]],
    );
}

#[test]
fn logs_of_fio() {
    check(
        fixture!("fio/log-bw-3.33.txt"),
        expect![[r#"
        fio-log
        note: the log does not say what it is of: --as fio-bw-log, fio-iops-log or fio-lat-log does
        [fio-log] fio 
          fio.log.read = 51.8 k
          fio.log.write = 51.7 k
          8 samples, 2 columns, every 0 ns, frequency none; fio.log.read fio.log.write
          0 ns: 64760000 66880000
          100 ms: 64565000 66909000
          200 ms: 59160000 57560000
    "#]],
    );
    let kind = Kind::from_name("fio-lat-log").unwrap();
    let imported = read(kind, &mut Cursor::new(fixture!("fio/log-lat-3.33.txt")), Pace::default()).unwrap();
    let metric = &imported.parts[0].outcome.metrics["read_latency_mean"];
    assert!((1e-6..1e-2).contains(&metric.value), "{metric:?}");
}

/// All that is made of a file, and its rows.
fn all(bytes: &[u8], kind: Kind) -> String {
    let imported = read(kind, &mut Cursor::new(bytes), Pace::default()).unwrap();
    let series = imported.parts.iter().filter_map(|part| part.series.as_ref());
    let rows: Vec<_> = series.map(|series| rows(bytes, kind, series).rows).collect();
    let parts: Vec<_> = imported.parts.iter().map(|part| (&part.name, &part.outcome, &part.facts)).collect();
    format!("{:?} {:?} {parts:?} {rows:?}", imported.facts, imported.notes)
}

#[test]
fn figures_do_not_depend_on_where_a_buffer_ends() {
    for (bytes, kind, step) in [
        (fixture!("sadf/12.6.json"), Kind::Sysstat, 7),
        (fixture!("iostat/12.6.json"), Kind::Sysstat, 11),
        (fixture!("fio/four-jobs-3.33.json"), Kind::FioJson, 211),
        (fixture!("fio/mixed-3.33.json"), Kind::FioJson, 53),
    ] {
        let wanted = all(bytes, kind);
        let open = bytes.windows(2).position(|pair| pair == b"{\n").unwrap() + 2;
        for at in (open..bytes.len()).step_by(step) {
            // So many blanks that the first buffer ends there.
            let blanks = b" ".repeat(json::CHUNK - at);
            let moved = [&bytes[..open], &blanks, &bytes[open..]].concat();
            assert_eq!(all(&moved, kind), wanted, "{} at byte {at}", kind.name());
        }
    }
}

#[test]
fn jobs_of_one_name_are_summed_as_the_runner_sums_them() {
    for bytes in [
        fixture!("fio/four-jobs-3.33.json"),
        fixture!("fio/four-jobs-plain-3.33.json"),
        fixture!("fio/unified-3.33.json"),
        fixture!("fio/fsync-3.33.json"),
        fixture!("fio/fsync-libaio-3.33.json"),
    ] {
        let (_, imported) = import(bytes).unwrap();
        let own = workloads::fio::report::read(Cursor::new(bytes)).unwrap();
        assert_eq!(imported.parts.len(), 1);
        assert_eq!(imported.parts[0].outcome.metrics, own.metrics);
    }
}

#[test]
fn latencies_of_syncs_are_left_out_where_fio_counts_them_wrongly_and_options_of_all_jobs_are_told() {
    let text = std::str::from_utf8(fixture!("fio/fsync-libaio-3.33.json")).unwrap();
    let own = "\"ioengine\" : \"libaio\",";
    let global = format!("\"global options\" : {{ {} }},\n\"jobs\" :", own.trim_end_matches(','));
    let of_all = text.replacen(own, "", 1).replacen("\"jobs\" :", &global, 1);
    for text in [text, &of_all] {
        let (_, imported) = import(text.as_bytes()).unwrap();
        assert!(imported.notes[0].contains("left out how long calls of fsync took"), "{:?}", imported.notes);
        assert_eq!(imported.parts[0].facts["option ioengine"], "libaio");
        let metrics = &imported.parts[0].outcome.metrics;
        assert!(metrics.contains_key("syncs") && !metrics.contains_key("sync_latency_mean"));
    }
}

#[test]
fn hyperfine_perf_hdparm_and_cpupower() {
    check(
        fixture!("hyperfine/1.15.json"),
        expect![[r#"
        hyperfine
        [sleep 0.01] hyperfine sh -c sleep 0.01
          elapsed = 11.2 ms
        [sleep 0.01] hyperfine sh -c sleep 0.01
          elapsed = 11.4 ms
        [sleep 0.01] hyperfine sh -c sleep 0.01
          elapsed = 15.2 ms
        [sleep 0.01] hyperfine sh -c sleep 0.01
          elapsed = 12.0 ms
        [sleep 0.01] hyperfine sh -c sleep 0.01
          elapsed = 11.2 ms
        [sleep 0.02] hyperfine sh -c sleep 0.02
          elapsed = 21.3 ms
        [sleep 0.02] hyperfine sh -c sleep 0.02
          elapsed = 21.1 ms
        [sleep 0.02] hyperfine sh -c sleep 0.02
          elapsed = 21.2 ms
        [sleep 0.02] hyperfine sh -c sleep 0.02
          elapsed = 21.8 ms
        [sleep 0.02] hyperfine sh -c sleep 0.02
          elapsed = 21.3 ms
    "#]],
    );
    check(
        fixture!("perf/6.1-x.csv"),
        expect![[r#"
        text
        [perf] perf stat 
          context-switches = 1.00
          page-faults = 57.0
          task-clock = 0.660 ms
    "#]],
    );
    // Of a lab machine at 2 GHz and 5.5 W, whose TSC counts 2.8 GHz.
    check(
        fixture!("perf/6.1-counters.csv"),
        expect![[r#"
        text
        [perf] perf stat 
          msr/aperf/ = 4.75 G
          msr/mperf/ = 6.64 G
          msr/tsc/ = 6.64 G
          power/energy-pkg/ = 13.2 J
    "#]],
    );
    check(
        fixture!("perf/6.1-counters.json"),
        expect![[r#"
        text
        [perf] perf stat 
          msr/aperf/ = 4.10 G
          msr/mperf/ = 5.73 G
          msr/tsc/ = 5.73 G
          power/energy-pkg/ = 11.3 J
    "#]],
    );
    check(
        fixture!("perf/6.1-x-I.csv"),
        expect![[r#"
        text
        [perf] perf stat 
          context-switches = 3.49 k
          task-clock = 713 ms
    "#]],
    );
    check(
        fixture!("perf/6.1.json"),
        expect![[r#"
        text
        [perf] perf stat 
          context-switches = 3.00
          page-faults = 58.0
          task-clock = 0.743 ms
    "#]],
    );
    check(
        fixture!("hdparm/9.65.txt"),
        expect![[r#"
        text
        [hdparm] hdparm 
          cached_read_throughput = 10.1 GB/s
          read_throughput = 243 MB/s
    "#]],
    );
    check(
        fixture!("cpupower/6.1-idle-info.txt"),
        expect![[r#"
        text
        cpuidle driver: haltpoll
        cpuidle governor: haltpoll
        cpupower: frequency and idle states
        [cpupower] cpupower 
    "#]],
    );
    check(
        fixture!("cpupower/6.1-monitor.txt"),
        expect![[r#"
        text
        [cpupower-monitor] cpupower 
          idle.POLL = 0%
          idle.halt = 0.110%
    "#]],
    );
    check(
        fixture!("cpupower/frequency-info-laptop.txt"),
        expect![[r#"
        text
        cpufreq driver: intel_pstate
        cpupower: frequency and idle states
        frequency: 800 MHz (asserted by call to kernel)
        frequency limits: 400 MHz - 4.20 GHz
        frequency policy: frequency should be within 400 MHz and 4.20 GHz.
        governor: powersave
        [cpupower] cpupower 
    "#]],
    );
}

#[test]
fn iometer_powertop_phoronix_and_stats_collect() {
    check(
        fixture!("iometer/1.1.0.csv"),
        expect![[r#"
        iometer
        date: 2012-03-04 10:11:12:000
        [4K random read] iometer-1.1.0-rc1 
          cpu = 1.25%
          iops = 512 /s
          latency_max = 250 ms
          latency_mean = 62.4 ms
          read_iops = 512 /s
          read_throughput = 2.10 MB/s
          throughput = 2.10 MB/s
          transactions = 512 /s
          write_iops = 0 /s
          write_throughput = 0 B/s
    "#]],
    );
    check(
        fixture!("powertop/2.14.csv"),
        expect![[r#"
        powertop
        cpu: 2 AMD EPYC
        date: Sat Nov 21 22:14:35 2026
        kernel: 6.18.44
        os: Debian GNU/Linux 12 (bookworm)
        [powertop] powertop-2.14 
          cpu_usage = 178%
          gpu_operations = 0 /s
          gpu_wakeups = 0 /s
          idle.package-0.POLL = 0%
          idle.package-0.haltpoll_idle = 0.200%
          vfs_operations = 0 /s
          wakeups = 3.90 /s
    "#]],
    );
    check(
        fixture!("powertop/2.14-frequencies.csv"),
        expect![[r#"
        powertop
        cpu: 2 QEMU TCG CPU version 2.5+
        date: Sat Nov 28 08:07:37 2026
        kernel: 6.12.117+deb12-amd64
        os: Flyball lab
        system: pc-q35-10.0
        [powertop] powertop-2.14 
          cpu_usage = 199%
          frequency.cpu-0 = 2.00 GHz
          frequency.cpu-1 = 3.00 GHz
          gpu_operations = 0 /s
          gpu_wakeups = 0 /s
          idle.package-0.C10_(pc10) = 0%
          idle.package-0.C2_(pc2) = 0%
          idle.package-0.C3_(pc3) = 0%
          idle.package-0.C6_(pc6) = 0%
          idle.package-0.C7_(pc7) = 0%
          idle.package-0.C8_(pc8) = 0%
          idle.package-0.C9_(pc9) = 0%
    "#]],
    );
    check(
        fixture!("phoronix/composite.xml"),
        expect![[r#"
        phoronix
        hardware: Processor: Example CPU @ 2.00GHz (4 Cores), Memory: 8GB
        software: OS: Debian 12, Kernel: 6.1.0 (x86_64), File-System: ext4
        test client: Phoronix Test Suite v10.8.4
        timestamp: 2024-01-02 09:59:00
        title: governors
        [Flexible IO Tester Type: Random Read - Block Size: 4KB schedutil] pts/fio-2.1.0 
          throughput = 100 MB/s
        [Flexible IO Tester Type: Random Read - Block Size: 4KB schedutil] pts/fio-2.1.0 
          throughput = 101 MB/s
        [Flexible IO Tester Type: Random Read - Block Size: 4KB schedutil] pts/fio-2.1.0 
          throughput = 102 MB/s
        [Flexible IO Tester Type: Random Read - Block Size: 4KB performance] pts/fio-2.1.0 
          throughput = 120 MB/s
        [Flexible IO Tester Type: Random Read - Block Size: 4KB performance] pts/fio-2.1.0 
          throughput = 121 MB/s
        [Flexible IO Tester Type: Random Read - Block Size: 4KB performance] pts/fio-2.1.0 
          throughput = 122 MB/s
    "#]],
    );
    check(
        fixture!("phoronix/result.json"),
        expect![[r#"
        phoronix
        kernel: 6.1.0 (x86_64)
        memory: 8GB
        os: Debian 12
        processor: Example CPU @ 2.00GHz (4 Cores)
        timestamp: 2024-01-02 10:30:00
        title: governors
        [SQLite Threads / Copies: 1] pts/sqlite-2.2.0 
          elapsed = 12.4 s
        [SQLite Threads / Copies: 1] pts/sqlite-2.2.0 
          elapsed = 12.6 s
    "#]],
    );
    check(
        fixture!("stats-collect/info.yml"),
        expect![[r#"
        stats-collect
        date: 21 Jan 2025
        reportid: adl0-stats-collect-20250121
        [stats-collect] stats-collect-1.0.41 sh -c sleep 120
    "#]],
    );
}

#[test]
fn sysbench_is_named_by_its_test() {
    check(
        fixture!("sysbench/cpu-1.0.20.txt"),
        expect![[r#"
        text
        [sysbench-cpu] sysbench-1.0.20 
          elapsed = 2.01 s
          events = 1.59 k/s
          latency_max = 47.0 ms
          latency_mean = 1.25 ms
          latency_min = 200 µs
          latency_p95 = 7.98 ms
    "#]],
    );
    let (_, imported) = import(fixture!("sysbench/oltp-1.0.20.txt")).unwrap();
    assert_eq!(imported.parts[0].name, "sysbench-oltp");
}

#[test]
fn pgbench_is_read_with_prose_around_it() {
    let report = String::from_utf8_lossy(fixture!("pgbench/select-only-15.18.txt"));
    let (_, imported) = import(format!("We saw:\n\n{report}\nand were content.\n").as_bytes()).unwrap();
    let part = &imported.parts[0];
    assert_eq!((part.name.as_str(), imported.parts.len()), ("pgbench", 1));
    assert!((part.outcome.metrics["transactions"].value - 38_711.807).abs() < 0.001);
    // Before 14, without its version, and with two rates.
    let old = "transaction type: <builtin: TPC-B (sort of)>\nscaling factor: 1\nnumber of transactions actually processed: 100/100\n\
               latency average = 2.000 ms\ntps = 400.0 (including connections establishing)\n\
               tps = 500.0 (excluding connections establishing)\n";
    let (_, imported) = import(old.as_bytes()).unwrap();
    assert_eq!(imported.parts[0].outcome.metrics["transactions"].value, 500.0);
}

#[test]
fn a_clock_that_somebody_gives_fills_the_recorders_counters() {
    let pace = Pace { interval: Some(Nanos::from_secs(2)) };
    let bytes = fixture!("iostat/12.6-x.txt");
    let imported = read(Kind::Text(None), &mut Cursor::new(bytes), pace).unwrap();
    let series = imported.parts[0].series.as_ref().unwrap();
    let rows = rows(bytes, Kind::Text(None), series);
    expect![[r#"
        trace
          2 samples, 50 columns, every 2.0 s, frequency none; cpu.user cpu.nice cpu.system cpu.iowait
          0 ns: 0 0 0 0
          2.0 s: 134 220 46 0
          4.0 s: 261 436 101 0
    "#]]
    .assert_eq(&format!("trace\n{}", trace(&rows, series)));
}

#[test]
fn files_that_are_cut_short_or_wrong_name_the_place_and_what_was_understood() {
    let cut = |bytes: &[u8], at: usize| import(&bytes[..at]).map(|_| ()).unwrap_err().to_string();
    expect!["cannot read it as sysstat-json: byte 1495 (line 24): it ends here, within a text; understood before that: 1 samples of sadf"].assert_eq(&cut(fixture!("sadf/12.6.json"), 1500));
    expect!["cannot read it as fio-json: byte 30000 (line 1187): it ends here, unfinished; understood before that: 1 jobs"].assert_eq(&cut(fixture!("fio/four-jobs-3.33.json"), 30_000));
    expect!["cannot read it as fio-terse: byte 0 (line 1): expected at least 92 fields, and found 26: the line is cut short; understood before that: 0 jobs"].assert_eq(&cut(fixture!("fio/terse-v3-3.33.txt"), 200));
    expect!["cannot read it as phoronix: byte 1191 (line 32): expected the end of a tag; it ends here, unfinished; understood before that: 0 values"].assert_eq(&cut(fixture!("phoronix/composite.xml"), 1200));
    expect!["cannot read it as hyperfine: byte 500 (line 20): EOF while parsing a list; understood before that: nothing"].assert_eq(&cut(fixture!("hyperfine/1.15.json"), 500));
    let mut long = fixture!("sar/12.6-am.txt").to_vec();
    long.resize(long.len() + (2 << 20), b'7');
    expect!["cannot read it as text: byte 368 (line 7): a line is longer than 1024 KiB, which no tool's is; understood before that: 0 reports and 2 samples"].assert_eq(&import(&long).map(|_| ()).unwrap_err().to_string());
    let deep = [&b"{\"sysstat\": {\"hosts\": "[..], &b"[".repeat(5000)].concat();
    expect!["cannot read it as sysstat-json: byte 84 (line 1): it is nested deeper than 64 levels, which no tool's is; understood before that: 0 samples of sysstat"].assert_eq(&import(&deep).map(|_| ()).unwrap_err().to_string());
    expect!["there is nothing to import in it: it is of the kind text, and holds no figure: no line of it is a result"].assert_eq(&import(b"a letter\nwithout figures\n").map(|_| ()).unwrap_err().to_string());
    expect!["cannot read it as fio-log: byte 17 (line 2): expected milliseconds, a value and a direction, parted by commas; understood before that: 1 samples"].assert_eq(&import(b"1, 2, 0, 4096, 0\n1, x\n").map(|_| ()).unwrap_err().to_string());
}

const ALL: [&[u8]; 27] = [
    fixture!("fio/text-four-jobs-grouped-3.33.txt"),
    fixture!("fio/text-fsync-3.33.txt"),
    fixture!("bonnie/1.2-in-a-mail.txt"),
    fixture!("bonnie/2.00a.csv"),
    fixture!("bonnie/2.00a.txt"),
    fixture!("sysbench/oltp-1.0.20.txt"),
    fixture!("dd/two-in-an-article.txt"),
    fixture!("turbostat/sar-sadf-turbostat-in-a-comment.txt"),
    fixture!("sar/12.6-cpu-disk-queue.txt"),
    fixture!("sadf/12.6.json"),
    fixture!("sadf/12.6-d.txt"),
    fixture!("iostat/12.6-x.txt"),
    fixture!("iostat/12.6.json"),
    fixture!("mpstat/12.6.txt"),
    fixture!("pidstat/12.6.txt"),
    fixture!("vmstat/4.0-t.txt"),
    fixture!("fio/mixed-3.33.json"),
    fixture!("fio/terse-v5-3.33.txt"),
    fixture!("fio/log-bw-3.33.txt"),
    fixture!("hyperfine/1.15.json"),
    fixture!("perf/6.1-x-I.csv"),
    fixture!("perf/6.1.json"),
    fixture!("iometer/1.1.0.csv"),
    fixture!("powertop/2.14.csv"),
    fixture!("powertop/2.14-frequencies.csv"),
    fixture!("phoronix/composite.xml"),
    fixture!("cpupower/6.1-monitor.txt"),
];

/// Reads as whatever it is, and whatever else it could be taken for.
fn survives(bytes: &[u8], taken_for: &str) {
    for kind in [recognise(bytes), Kind::from_name(taken_for)].into_iter().flatten() {
        if let Ok(imported) = read(kind, &mut Cursor::new(bytes), Pace::default()) {
            for series in imported.parts.iter().filter_map(|part| part.series.as_ref()) {
                stream(kind, &mut Cursor::new(bytes), Pace::default(), series, &mut Rows::default()).unwrap();
            }
        }
    }
}

proptest! {
    #[test]
    fn no_damage_makes_a_reader_panic(
        which in 0..ALL.len(),
        kind in 0..Kind::names().len(),
        cut in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        doubled in any::<prop::sample::Index>(),
    ) {
        let mut bytes = ALL[which].to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let at = doubled.index(bytes.len());
        let again: Vec<u8> = bytes[at..].iter().take(300).copied().collect();
        bytes.splice(at..at, again);
        survives(&bytes, Kind::names()[kind]);
        survives(&bytes[..cut.index(bytes.len())], Kind::names()[kind]);
    }
}
