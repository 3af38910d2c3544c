//! Other tools' files from the command line to a report: every fixture, two imports held against each other,
//! and files that are wrong.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support;
use crate::support::Place;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tools");

/// Reports of tools that failed, which hold no figure, and what is compressed in a way that is not read.
const WITHOUT_FIGURES: [&str; 14] = [
    "dd/missing.txt",
    "dd/no-space.txt",
    "dd/nothing.txt",
    "dd/skip-past-end.txt",
    "fio/bad-option-3.33.json",
    "fio/engine-missing-3.39.json",
    "fio/missing-file-3.33.json",
    "fio/no-space-3.33.json",
    "fio/no-space-3.39.json",
    "fio/text-failed-3.33.txt",
    "fio/no-clat-3.33.json",
    "fio/unified-3.33.json",
    "perf/stacks-6.1.kallsyms",
    "PROVENANCE.md",
];

fn fixtures() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in std::fs::read_dir(TOOLS).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()) {
        files.extend(std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()));
    }
    files.sort();
    files
}

fn fixture(name: &str) -> String {
    format!("{TOOLS}/{name}")
}

fn json(place: &Place, arguments: &[&str]) -> Value {
    serde_json::from_str(&place.ok(&[&["--json"], arguments].concat())).unwrap()
}

#[test]
fn what_perf_recorded_is_a_recording_with_events() {
    let place = Place::new();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tools/perf/record-6.1.data");
    place.ok(&["import", file.to_str().unwrap(), "--name", "perf"]);
    let shown = place.ok(&["show", "perf"]);
    // dd read sixteen times 64 KiB, and perf counted 106 samples.
    for part in
        ["106 recorded, 0 lost", "1 MiB in 16", "disks read 152 MB/s", "workload", "dd ", "--format timeline"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    place.ok(&["export", "perf", "--trace", "b00.recorded.a0", "--format", "timeline", "--out", "perf.html"]);
    assert!(std::fs::metadata(place.path("perf.html")).unwrap().len() > 10_000);
    // What is packed is unpacked first, and what perf wrote into a pipe is refused with what to do.
    let bytes = std::fs::read(&file).unwrap();
    let mut piped = bytes.clone();
    piped[8..16].copy_from_slice(&16_u64.to_ne_bytes());
    std::fs::write(place.path("piped.data"), piped).unwrap();
    let output = place.output(&["import", "piped.data"]);
    let told = support::stderr(&output);
    assert!(
        !output.status.success() && told.contains("`perf record -o FILE` writes a file that is read"),
        "{told}"
    );
}

#[test]
fn what_trace_cmd_recorded_is_a_recording_with_events() {
    let place = Place::new();
    for (file, name, events) in
        [("record-v6-3.1.6.dat", "old", 254), ("record-v7-mono-3.1.6.dat", "new", 260)]
    {
        let told = json(&place, &["import", &fixture(&format!("trace-cmd/{file}")), "--name", name]);
        let read = &told["runs"][0];
        assert_eq!(read["trials"][0]["tool"], "trace-cmd-3.1.6", "{told}");
        assert_eq!(read["files"][0]["facts"]["kernel"], "6.18.44-fc-v657", "{told}");
        let shown = place.ok(&["show", name]);
        // dd read sixteen times 64 KiB of a loop device, whose kworker is named with its function.
        let recorded = format!("{events} recorded, 0 lost");
        for part in [&recorded, "1 MiB in 16", "workload", "loop_rootcg_workfn", "--format timeline"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
    place.ok(&["export", "new", "--trace", "b00.recorded.a0", "--format", "perfetto", "--out", "trace"]);
    assert!(std::fs::metadata(place.path("trace")).unwrap().len() > 10_000);
    // As it is by default: what is compressed is unpacked where it is read.
    place.ok(&["import", &fixture("trace-cmd/record-v7-zstd-3.1.6.dat"), "--name", "zstd"]);
    let shown = place.ok(&["show", "zstd"]);
    assert!(shown.contains("383 recorded, 0 lost") && shown.contains("1 MiB in 16"), "{shown}");
}

#[test]
fn what_perf_script_printed_is_the_recording_that_its_file_is() {
    let place = Place::new();
    for (file, name) in [("record-6.1.data", "data"), ("script-tasks-6.1.txt", "text")] {
        let told = json(&place, &["import", &fixture(&format!("perf/{file}")), "--name", name]);
        let span = &told["runs"][0]["trials"][0]["metrics"]["elapsed"]["value"];
        assert!((span.as_f64().unwrap() - 0.006_9).abs() < 1e-3, "{told}");
    }
    let [data, text] = ["data", "text"].map(|name| place.ok(&["show", name]));
    for part in ["106 recorded, 0 lost", "1 MiB in 16", "disks read 152 MB/s", "workload", "dd "] {
        assert!(text.contains(part) && data.contains(part), "{part}: {text}");
    }
    place.ok(&["export", "text", "--trace", "b00.recorded.a0", "--format", "timeline", "--out", "text.html"]);
    // What the text leaves open is said with the trial, and what cannot be read too.
    let trial = json(&place, &["show", "text", "b00.recorded.a0"]).to_string();
    assert!(trial.contains("does not say what happened in an interrupt"), "{trial}");
    let packed = "a 7 [001] 5.000001: 10 instructions: ffff main (/bin/a)\n".repeat(3);
    std::fs::write(place.path("counted.txt"), packed).unwrap();
    let told = place.fails(1, &["import", "counted.txt", "--as", "perf-script"]);
    assert!(told.contains("no samples of cpu-clock or cycles; `perf script` of a"), "{told}");
}

#[test]
fn call_stacks_of_perf_say_what_cpu_time_was_spent_in() {
    let place = Place::new();
    place.ok(&["import", &fixture("perf/script-stacks-6.1.txt"), "--name", "text"]);
    let kallsyms = fixture("perf/stacks-6.1.kallsyms");
    let data = fixture("perf/stacks-6.1.data");
    place.ok(&["import", &data, "--kallsyms", &kallsyms, "--name", "data"]);
    let [text, from_data] = ["text", "data"].map(|name| place.ok(&["show", name]));
    let shares = |shown: &str| {
        let lines = shown.lines().skip_while(|line| !line.starts_with("What it was spent in"));
        lines.take_while(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(shares(&text).len() > 5, "{text}");
    assert_eq!(shares(&text), shares(&from_data));
    for part in ["filesystem", "VFS, page cache", "user space", "workload"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let trial = json(&place, &["show", "data", "b00.recorded.a0"]).to_string();
    assert!(trial.contains("cpu_time"), "{trial}");
    // The page and the timeline take it as another recording.
    place.ok(&["report", "text", "--out", "page.html"]);
    // Without names, and with those of something else.
    place.ok(&["import", &data, "--again", "--name", "unnamed"]);
    let unnamed = place.ok(&["show", "unnamed"]);
    assert!(unnamed.contains("unnamed kernel"), "{unnamed}");
    let told = place.fails(1, &["import", &data, "--again", "--kallsyms", "/dev/null"]);
    assert!(told.contains("`/dev/null`") && told.contains("it is empty"), "{told}");
    let told = place
        .fails(1, &["import", &fixture("perf/script-stacks-6.1.txt"), "--again", "--kallsyms", &kallsyms]);
    assert!(told.contains("import it without --kallsyms"), "{told}");
}

#[test]
fn every_file_of_every_tool_becomes_a_run_that_is_shown_explained_and_reported() {
    let place = Place::new();
    let (mut runs, mut trials, mut samples) = (0, 0, 0);
    for file in fixtures() {
        let name = file.strip_prefix(TOOLS).unwrap().display().to_string();
        if WITHOUT_FIGURES.contains(&name.as_str()) {
            continue;
        }
        let told = json(&place, &["import", file.to_str().unwrap()]);
        let run = told["runs"][0]["run"].as_str().unwrap_or_else(|| panic!("{name}: {told}")).to_owned();
        let found = told["runs"][0]["trials"].as_array().unwrap();
        assert!(!found.is_empty(), "{name}");
        runs += 1;
        trials += found.len();
        samples += found.iter().filter_map(|t| t["samples"].as_u64()).sum::<u64>();
        let shown = place.ok(&["show", &run]);
        assert!(shown.contains("on imported"), "{name}: {shown}");
        place.ok(&["explain", &run]);
        let page = place.path("page.html");
        place.ok(&["report", &run, "--out", page.to_str().unwrap()]);
        assert!(std::fs::read_to_string(&page).unwrap().contains("</html>"), "{name}");
        let trial = found[0]["trial"].as_str().unwrap();
        assert!(place.ok(&["show", &run, trial]).contains("SHA-256"), "{name}");
        let stored = json(&place, &["show", &run, trial]);
        assert_eq!(stored["provenance"], "imported", "{name}");
        assert_eq!(stored["settings"].as_array().unwrap().len(), 0, "{name}");
        assert_eq!(stored["origin"]["sha256"], told["runs"][0]["files"][0]["sha256"], "{name}");
    }
    eprintln!("{runs} files became {trials} trials with {samples} samples");
    assert!(runs > 50, "{runs}");
}

#[test]
fn what_an_article_and_a_mail_hold_is_imported_as_it_stands() {
    let place = Place::new();
    let told =
        json(&place, &["import", &fixture("bonnie/1.2-in-a-mail.txt"), &fixture("dd/two-in-an-article.txt")]);
    let metrics = &told["runs"][0]["trials"][0]["metrics"];
    assert_eq!(metrics["block_read"]["value"], 93_332.0 * 1024.0);
    assert!((metrics["cpu_per_char_read"]["value"].as_f64().unwrap() - 0.979).abs() < 1e-9);
    assert_eq!(told["runs"][0]["files"][0]["facts"]["md0"], "active raid5, level 5, 32k chunk, algorithm 2");
    let dd = told["runs"][1]["trials"].as_array().unwrap();
    let rate = |trial: &Value| trial["metrics"]["throughput"]["value"].as_f64().unwrap();
    assert_eq!(dd.len(), 2);
    assert!((rate(&dd[1]) / rate(&dd[0]) - 8.64089 / 1.14821).abs() < 1e-9, "{dd:?}");
}

#[test]
fn two_imports_are_compared_and_other_provenances_refused() {
    let place = Place::new();
    let file = fixture("hyperfine/1.15.json");
    place.ok(&["import", "--name", "before", &file]);
    let mut slower: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    for result in slower["results"].as_array_mut().unwrap() {
        for time in result["times"].as_array_mut().unwrap() {
            *time = Value::from(time.as_f64().unwrap() * 3.0);
        }
    }
    std::fs::write(place.path("after.json"), slower.to_string()).unwrap();
    place.ok(&["import", "--name", "after", place.path("after.json").to_str().unwrap()]);
    let text = place.ok(&["compare", "before", "after"]);
    assert!(text.contains("Worse in 2 of 2 cells"), "{text}");
    let study = place.path("study.toml");
    std::fs::write(&study, "flyball = 1\nname = \"own\"\nquestion = \"How long?\"\n[workload.sleep-0-01]\ntool = \"command\"\nargv = [\"true\"]\n[measure]\nmetric = \"elapsed\"\nrepeats = [1, 1]\ndrop_caches = false\n").unwrap();
    // On a busy machine its trial does not count; a run it is all the same.
    place.output(&["run", study.to_str().unwrap()]);
    let refused = place.fails(1, &["compare", "before", "own"]);
    assert!(refused.contains("different provenance"), "{refused}");
    let across = place.output(&["compare", "before", "own", "--across"]);
    assert!(!support::stderr(&across).contains("provenance"), "{}", support::stderr(&across));
    std::fs::write(
        &study,
        "flyball = 1\nname = \"x\"\nquestion = \"?\"\n[workload.w]\ntool = \"imported\"\n",
    )
    .unwrap();
    let refused = place.fails(2, &["run", study.to_str().unwrap()]);
    assert!(refused.contains("imported"), "{refused}");
}

#[test]
fn the_same_file_is_refused_until_asked_for() {
    let place = Place::new();
    let file = fixture("sysbench/cpu-1.0.20.txt");
    place.ok(&["import", &file]);
    let refused = place.fails(1, &["import", &file]);
    assert!(refused.contains("imported already, as `cpu-1-") && refused.contains("--again"), "{refused}");
    place.ok(&["import", "--again", &file]);
    place.ok(&["import", "--dry-run", &file]);
    assert_eq!(json(&place, &["list"])["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn files_of_one_measurement_are_one_run_and_the_samples_its_trace() {
    let place = Place::new();
    let told = json(
        &place,
        &[
            "import",
            "--together",
            "--name",
            "both",
            &fixture("fio/read-3.33.json"),
            &fixture("sadf/12.6.json"),
        ],
    );
    let trials = told["runs"][0]["trials"].as_array().unwrap();
    assert_eq!((trials.len(), trials[0]["samples"].as_u64()), (1, Some(2)));
    let trial = trials[0]["trial"].as_str().unwrap();
    let trace = place.ok(&["export", "both", "--trace", trial]);
    let head = trace.lines().next().unwrap();
    assert!(head.starts_with("t_ns,cpu.user,") && head.contains("disk.vda.read_sectors"), "{head}");
    assert_eq!(trace.lines().count(), 4, "{trace}");
    let page = place.ok(&["report", "both", "--out", "-"]);
    assert!(page.contains("Frequency, from tool"), "the trace is not drawn");
}

#[test]
fn packed_files_and_standard_input_are_read() {
    let place = Place::new();
    let text = std::fs::read(fixture("sar/12.6-am.txt")).unwrap();
    let packed = place.path("sar.gz");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&text).unwrap();
    let packed_bytes = encoder.finish().unwrap();
    std::fs::write(&packed, &packed_bytes).unwrap();
    let told = json(&place, &["import", packed.to_str().unwrap()]);
    assert_eq!(told["runs"][0]["trials"][0]["samples"], 2);
    std::fs::write(&packed, &packed_bytes[..packed_bytes.len() / 2]).unwrap();
    let told = place.fails(1, &["import", packed.to_str().unwrap()]);
    let half = packed_bytes.len() / 2;
    assert!(
        told.contains("cannot import") && told.contains(&format!("at byte {half} of the packed")),
        "{told}"
    );
    let output = assert_cmd::Command::cargo_bin("flyball")
        .unwrap()
        .args(["import", "--dry-run", "-"])
        .write_stdin(text)
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("standard input: text"), "{output:?}");
}

#[test]
fn a_run_of_several_samplers_is_about_what_they_have_in_common() {
    let place = Place::new();
    let comment = fixture("turbostat/sar-sadf-turbostat-in-a-comment.txt");
    place.ok(&["import", "--name", "comment", &comment]);
    let text = place.ok(&["show", "--full", "comment"]);
    assert!(text.contains("turbostat: freq.all") && !text.contains("no valid trial"), "{text}");
    let by_power = place.ok(&["report", "comment", "--format", "text", "--metric", "power"]);
    assert_eq!(by_power.matches("not reported").count(), 2, "{by_power}");
}

#[test]
fn pipes_by_name_are_read_once_and_devices_not_at_all() {
    let place = Place::new();
    let pipes = [place.path("one"), place.path("two")];
    for pipe in &pipes {
        rustix::fs::mknodat(rustix::fs::CWD, pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    }
    let writers = pipes.clone().map(|pipe| {
        let text = std::fs::read(fixture("sar/12.6-am.txt")).unwrap();
        std::thread::spawn(move || std::fs::write(pipe, text).unwrap())
    });
    let [one, two] = pipes.each_ref().map(|pipe| pipe.to_str().unwrap());
    let told = place.ok(&["import", "--dry-run", one, two]);
    assert_eq!(told.matches("2 samples").count(), 2, "{told}");
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let link = place.path("link");
    std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
    for device in ["/dev/zero", "/dev/urandom", "/dev/null", link.to_str().unwrap()] {
        assert!(place.fails(1, &["import", device]).contains("it is a device"), "{device}");
    }
}

/// A directory of Parquet's that claims so many row groups, in the compact protocol of Thrift: the version,
/// and a list of structures of which each ends at once.
fn claiming(row_groups: u32) -> Vec<u8> {
    let mut directory = vec![0x15, 2, 0x19, 0xfc];
    let mut rest = row_groups;
    while rest >= 0x80 {
        directory.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    directory.push(rest as u8);
    directory.resize(directory.len() + row_groups as usize, 0);
    let length = (directory.len() as u32).to_le_bytes();
    [b"PAR1".as_slice(), &directory, &length, b"PAR1"].concat()
}

#[test]
fn a_parquet_file_that_is_no_trace_is_refused_and_takes_no_more_memory_than_its_reader_has() {
    let place = Place::new();
    let whole = std::fs::read(fixture("flyball/record-0.1.0.parquet")).unwrap();
    place.ok(&["import", &fixture("dd/read.txt"), "--name", "table"]);
    let table = place.path("table.parquet");
    place.ok(&["export", "table", "--format", "parquet", "--out", table.to_str().unwrap()]);
    for (bytes, wanted) in [
        (std::fs::read(&table).unwrap(), "it is a table of trials that Flyball exported"),
        (whole[..whole.len() / 2].to_vec(), "it was damaged or cut short: copy it again"),
        (whole[..4].to_vec(), "it was damaged or cut short: copy it again"),
        // Each takes a byte in the file, and some hundred in memory.
        (claiming(60_000_000), "more than the 2 GiB of memory"),
    ] {
        let file = place.path("other.parquet");
        std::fs::write(&file, bytes).unwrap();
        let error = place.fails(1, &["import", file.to_str().unwrap()]);
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
    assert_eq!(json(&place, &["list"])["runs"].as_array().unwrap().len(), 1, "one of them was stored");
}

#[test]
fn what_another_form_would_make_readable_says_so() {
    let place = Place::new();
    let text = std::fs::read_to_string(fixture("sar/12.6-am.txt")).unwrap();
    let wide: Vec<u8> =
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    for (bytes, wanted) in [
        (wide, "`iconv -f UTF-16 -t UTF-8 FILE`"),
        (b"BZh91AY&SY\x01\x02".to_vec(), "bzip2 packed it"),
        (b"PK\x03\x04\x14\0".to_vec(), "it is a ZIP archive"),
    ] {
        let file = place.path("other");
        std::fs::write(&file, bytes).unwrap();
        let error = place.fails(1, &["import", file.to_str().unwrap()]);
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn a_binary_file_of_sysstat_is_read_through_sadf() {
    let Some(sadc) =
        ["/usr/lib/sysstat/sadc", "/usr/lib64/sa/sadc"].into_iter().find(|p| Path::new(p).exists())
    else {
        return eprintln!("skipped: sysstat is not installed");
    };
    let place = Place::new();
    let file = place.path("sa");
    let made = std::process::Command::new(sadc).args(["1", "3"]).arg(&file).status().unwrap();
    assert!(made.success());
    let told = json(&place, &["import", file.to_str().unwrap()]);
    assert_eq!(told["runs"][0]["trials"][0]["tool"], "sadf");
    assert!(told["runs"][0]["trials"][0]["samples"].as_u64().unwrap() >= 1, "{told}");
}

#[test]
fn wrong_files_are_errors_that_say_where_and_leave_nothing() {
    let place = Place::new();
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(place.path(name), bytes).unwrap();
        place.path(name).to_str().unwrap().to_owned()
    };
    let whole = std::fs::read(fixture("sadf/12.6.json")).unwrap();
    for (name, bytes, wanted) in [
        (
            "letter",
            b"dear all,\nno figures here\n".to_vec(),
            "cannot tell which tool wrote it: it begins with `dear all,`",
        ),
        ("empty", Vec::new(), "it is empty"),
        ("binary", (0..=255).cycle().take(5000).collect(), "neither text nor anything that is known"),
        ("cut", whole[..2000].to_vec(), "byte 2"),
        (
            "long",
            [&b"Linux 6.1 (h) 11/21/26 _x86_64_ (2 CPU)\n"[..], &b"x".repeat(2 << 20)].concat(),
            "longer than 1024 KiB",
        ),
        ("deep", [&b"{\"sysstat\":"[..], &b"[".repeat(100_000)].concat(), "deeper than 64 levels"),
    ] {
        let error = place.fails(1, &["import", &write(name, &bytes)]);
        assert!(error.contains(wanted), "{name}: {error}");
    }
    assert!(place.fails(1, &["import", "/nonexistent"]).contains("/nonexistent"));
    assert!(place.fails(2, &["import", "--as", "excel", "x"]).contains("there is no kind of file `excel`"));
    assert!(place.fails(1, &["import", &fixture("dd/missing.txt")]).contains("cannot import"));
    assert!(!place.path("notebook").exists(), "a notebook was made for nothing");
}

#[test]
fn a_machine_that_sar_saw_at_its_limit_is_said_to_be_cpu_bound() {
    let place = Place::new();
    place.ok(&["import", "--name", "busy", &fixture("sar/12.6-busy.txt")]);
    for command in [&["show", "busy"][..], &["explain", "busy"]] {
        let text = place.ok(command);
        assert!(text.contains("The CPUs were busy") && text.contains("CPU-bound"), "{text}");
    }
}

#[test]
fn the_normal_output_of_fio_is_a_run_like_that_of_its_json() {
    let place = Place::new();
    let told = json(&place, &["import", "--name", "text", &fixture("fio/text-four-jobs-grouped-3.33.txt")]);
    assert_eq!(told["runs"][0]["trials"].as_array().unwrap().len(), 1, "{told}");
    let stored = json(&place, &["show", "text", "b00.mixed.a0"]);
    let metrics = stored["measurement"]["metrics"].as_object().unwrap();
    for name in ["throughput", "read_iops", "write_iops", "latency_mean", "cpu_system"] {
        assert!(metrics.contains_key(name), "{name}: {metrics:?}");
    }
    assert!(place.ok(&["show", "text"]).contains("Verdict"));
}
