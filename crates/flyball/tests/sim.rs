//! Studies on simulated machines, as a user runs them: what comes out says that it is a model's, is the same
//! again, and is held against what was published; what no model knows is said.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it saw"
)]

use crate::support;
use crate::support::Place;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies");

fn shipped(name: &str) -> String {
    format!("{FOLDER}/{name}.toml")
}

/// The report of a study that is run in the simulator.
fn simulated(place: &Place, study: &str, further: &[&str]) -> serde_json::Value {
    let text = place.measure(&[&["run", study, "--on", "sim", "--json"], further].concat());
    serde_json::from_str(&text).unwrap()
}

/// The published reports that are studies for the simulation, and how many of their rows must agree at least:
/// what was seen when they were shipped.
const PUBLISHED: [(&str, usize); 3] =
    [("published/dmcrypt", 2), ("published/raid10", 9), ("published/raid-levels", 12)];

#[test]
fn the_published_studies_run_on_their_machines_beside_what_was_published() {
    for (name, least) in PUBLISHED {
        let place = Place::new();
        let report = simulated(&place, &shipped(name), &["--seed", "1"]);
        let rows = report["published"].as_array().unwrap();
        let agree = rows.iter().filter(|row| row["agrees"] == "yes").count();
        eprintln!("{name}: {agree} of {} published rows agree", rows.len());
        assert!(agree >= least, "{name}: {agree} rows agree: {rows:#?}");
        assert_eq!(report["run"]["provenance"], "simulation");
        let page = place.ok(&["report", report["run"]["id"].as_str().unwrap(), "--format", "text"]);
        assert!(page.contains("computed, and not measured"), "{page}");
    }
}

/// The studies that reproduce the five reports, the rule that names what each report found, and words of its
/// first finding.
const CAUSES: [(&str, &str, [&str; 2]); 5] = [
    ("dmcrypt-ondemand", "governor", ["the throughput of ondemand", "schedutil gives"]),
    ("raid10-upgrade", "governor", ["the throughput of hwp-powersave", "hwp-performance gives"]),
    ("oltp-governors", "governor", ["pstate-powersave gives", "the transactions of pstate-performance"]),
    ("raid-levels", "parity-writes", ["randwrite pays for the parity of RAID5", "RAID10 gives"]),
    ("raid5-journal-sim", "journal-mode", ["how the filesystem journals decides", "journal-mirror gives"]),
];

#[test]
fn the_cause_of_each_report_is_the_first_finding_of_its_simulated_run() {
    // One takes as long as the four others.
    for (name, rule, words) in
        CAUSES.into_iter().filter(|(name, ..)| testing::is_whole() || !name.ends_with("-sim"))
    {
        let place = Place::new();
        let report = simulated(&place, name, &["--seed", "1"]);
        let first = &report["findings"][0];
        assert_eq!(
            (first["rule"].as_str(), first["confidence"].as_str()),
            (Some(rule), Some("shown")),
            "{name}"
        );
        let title = first["title"].as_str().unwrap();
        assert!(words.iter().all(|words| title.contains(words)), "{name}: {title}");
    }
}

/// One load under one policy, which nothing is compared with: small reads from dm-crypt, of a CPU that starts
/// under ondemand.
const ALONE: &str = r#"
flyball = 1
name = "alone"
question = "What is slow?"

[sim]
machine = "lab"

[stack.disk]
kind = "devices"
null_blk = "1GiB"
attributes = "irqmode=2 completion_nsec=10000000"

[stack.vault]
kind = "crypt"
on = "disk"
type = "plain"
cipher = "aes-cbc-essiv:sha256"
key_size = 256

[workload.small]
tool = "fio"
options = { rw = "read", bs = "4k", ioengine = "psync", direct = true, time_based = true, runtime = "8s" }

[lab]
pstates = "laptop-5"

[measure]
metric = "throughput"
repeats = 1
interval = "250ms"

[settings]
"#;

#[test]
fn a_study_of_one_cell_is_explained_by_its_trace_and_by_the_settings_that_it_made() {
    let place = Place::new();
    let explained = |settings: &str| {
        let study = place.study("alone", &format!("{ALONE}{settings}"));
        let report = simulated(&place, &study, &["--seed", "1", "--new"]);
        report["findings"].as_array().unwrap().clone()
    };
    let slow =
        "governor = \"ondemand\"\n\"ondemand.sampling_rate\" = 100000\n\"ondemand.up_threshold\" = 95\n";
    let findings = explained(slow);
    let first = &findings[0];
    assert_eq!(first["rule"], "threshold-not-reached", "{first}");
    assert_eq!(first["evidence"][0]["source"], "trace of b00.small.a0");
    assert_eq!(first["remedy"]["settings"][0], "ondemand.up_threshold = 40");
    // The machine starts under ondemand, and this study does not run under it.
    let findings = explained("governor = \"performance\"\n");
    assert!(findings.iter().all(|finding| finding["rule"] != "governor"), "{findings:#?}");
}

/// Reads in order from an array that the study builds, with a read-ahead of a few pages.
const BUILT: &str = r#"
flyball = 1
name = "built"
question = "What is slow?"

[stack.disks]
kind = "devices"
count = 4
lab = ["disk"]

[stack.array]
kind = "md"
on = "disks"
level = 10
chunk = "64KiB"
resync = "skip"

[workload.stream]
tool = "fio"
options = { rw = "read", bs = "128k", time_based = true, runtime = "2s" }

[settings]
read_ahead_kb = "16"

[measure]
metric = "throughput"
repeats = 1

[lab]
vcpus = 2

[[lab.disk]]
name = "disk"
count = 4
model = "plain-7200"
size = "512MiB"
"#;

#[test]
fn what_a_study_builds_is_known_to_the_rules_with_its_settings() {
    let place = Place::new();
    let study = place.study("built", BUILT);
    let report = simulated(&place, &study, &["--machine", "lab", "--seed", "1", "--new"]);
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["rule"] == "read-ahead").unwrap();
    let read_at = |evidence: &serde_json::Value| evidence["source"] == "/sys/block/md0/queue/read_ahead_kb";
    let window = found["evidence"].as_array().unwrap().iter().find(|evidence| read_at(evidence)).unwrap();
    assert_eq!(window["figure"], "16 KiB");
    assert_eq!(found["remedy"]["settings"][0], "read_ahead_kb@md0 = 4096");
    // Nothing of a simulation is to be changed on this host.
    assert!(found["next"].as_str().unwrap().starts_with("flyball show "), "{found}");
}

#[test]
fn a_cell_of_several_is_judged_by_its_own_trace_and_storage() {
    let place = Place::new();
    let study = place.study(
        "built",
        &format!("{BUILT}\n[factor.layout]\nstack = \"array.layout\"\nlevels = [\"n2\", \"f2\"]\n"),
    );
    let report = simulated(&place, &study, &["--machine", "lab", "--seed", "1", "--new"]);
    let rules = |report: &serde_json::Value| -> Vec<String> {
        let findings = report["findings"].as_array().unwrap().iter();
        findings.map(|finding| finding["rule"].as_str().unwrap().to_owned()).collect()
    };
    // A comparison of levels tells nothing of what was set for all of them.
    let all = report["findings"].as_array().unwrap().iter();
    let of_both: Vec<_> = all.filter(|finding| finding["rule"] == "read-ahead").collect();
    assert_eq!(of_both.len(), 1, "{report:#}");
    assert!(of_both[0]["title"].as_str().unwrap().ends_with("is 16 KiB (in both cells)"), "{report:#}");
    let leads_on = of_both[0]["next"].as_str().unwrap();
    assert!(
        leads_on.starts_with("flyball explain built-") && leads_on.contains(" --cell stream_"),
        "{report:#}"
    );
    let text = place.ok(&["explain", "built"]);
    let command = text.lines().find_map(|line| line.trim().strip_prefix("flyball explain ")).unwrap();
    let (run, cell) = command.split_once(" --cell ").unwrap();
    assert!(["stream_n2", "stream_f2"].contains(&cell), "{text}");
    let alone = place.ok(&["explain", run, "--cell", cell, "--json"]);
    let alone: serde_json::Value = serde_json::from_str(&alone).unwrap();
    assert!(rules(&alone).contains(&"read-ahead".to_owned()), "{alone:#}");
    assert_eq!(alone["cells"].as_array().unwrap().len(), 1);
    let none = place.fails(1, &["explain", run, "--cell", "stream_o2"]);
    assert!(none.contains("no valid trial of a cell `stream_o2`; there are stream_f2, stream_n2"), "{none}");
}

/// Reads at random from a hard disk, whose angle and offsets are of the seed.
const RANDOM: &str = r#"
flyball = 1
name = "random"
question = "Does a seed decide all?"

[sim]
machine = "wd-green-server"

[stack.disk]
kind = "devices"
loop = "4GiB"

[workload.read]
tool = "fio"
options = { rw = "randread", bs = "4k", ioengine = "libaio", direct = true, time_based = true, runtime = "2s", randrepeat = false }

[factor.depth]
option = "iodepth"
levels = [1, 8]

[measure]
metric = "iops"
repeats = 2
"#;

/// Writes of 4 KiB to a file of ext4, each followed by fsync.
const SYNCED: &str = r#"
flyball = 1
name = "synced"
question = "What does an fsync cost?"

[target]
file = "64MiB"

[stack.disk]
kind = "devices"
loop = "4GiB"

[stack.files]
kind = "filesystem"
on = "disk"
type = "ext4"

[workload.write]
tool = "fio"
options = { rw = "randwrite", bs = "4k", ioengine = "psync", fsync = 1, time_based = true, runtime = "1s" }

[measure]
metric = "iops"
repeats = 1
"#;

#[test]
fn an_fsync_on_a_data_centre_disk_does_not_wait_for_the_flash() {
    let place = Place::new();
    let study = place.study("synced", SYNCED);
    let report = simulated(&place, &study, &["--machine", "server-nvme", "--seed", "1"]);
    let iops = report["cells"][0]["median"].as_f64().unwrap();
    // A page alone takes 570 us to program; with its journal a write would come to 500 a second at most.
    assert!(iops > 3_000.0, "{iops} synced writes a second");
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let medians = |seed: &str| {
        let place = Place::new();
        let study = place.study("random", RANDOM);
        let report = simulated(&place, &study, &["--seed", seed]);
        let cells = report["cells"].as_array().unwrap().clone();
        cells.iter().map(|cell| cell["median"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(medians("4"), medians("4"));
    assert_ne!(medians("4"), medians("5"));
}

#[test]
fn the_labs_own_machine_does_what_the_lab_does() {
    let place = Place::new();
    let in_lab = "\n[[lab.disk]]\nname = \"disk\"\nmodel = \"plain-7200\"\n[lab.factor.depth]\nlevels = [8]\n[lab.measure]\nrepeats = 1\n";
    let study = place.study("random", &format!("{}{in_lab}", RANDOM.replace("4GiB", "64MiB")));
    let cells = |arguments: &[&str]| {
        let report: serde_json::Value = serde_json::from_str(&place.ok(arguments)).unwrap();
        let cells = report["cells"].as_array().unwrap().iter();
        let run = report["run"]["id"].as_str().unwrap().to_owned();
        (cells.map(|cell| cell["cell"].as_str().unwrap().to_owned()).collect::<Vec<_>>(), run)
    };
    let run = ["run", &study, "--on", "sim", "--seed", "1", "--json"];
    assert_eq!(cells(&run).0, ["read_1", "read_8"], "on the study's machine");
    let (simulated, id) = cells(&[&run[..], &["--machine", "lab"]].concat());
    assert_eq!(simulated, ["read_8"]);
    assert_eq!(cells(&["show", &id, "--json"]).0, ["read_8"]);

    // An earlier version made all cells of it.
    let path = place.path("notebook/runs").join(&id).join("study.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("levels = [8]", "levels = [1]")).unwrap();
    assert_eq!(cells(&["show", &id, "--json"]).0, ["read_1", "read_8"]);
}

#[test]
fn a_machine_that_is_wrong_or_missing_is_named_with_its_line() {
    let place = Place::new();
    let study = shipped("published/dmcrypt");
    let error = place.fails(2, &["run", &study, "--on", "sim", "--machine", "toaster"]);
    assert!(error.contains("toaster") && error.contains("`flyball sim machines` lists"), "{error}");
    let list = place.ok(&["sim", "machines"]);
    assert!(list.lines().any(|line| line.starts_with("server-nvme ") && line.contains(" 4 ")), "{list}");

    let good = std::fs::read_to_string(format!("{FOLDER}/machines/pentium4-2800.toml")).unwrap();
    let cases = [
        (good.replace("hz = 250", "hz = 7"), "7 is not from 100 to 1000"),
        (good.replace("count = 2", "count = 0"), "0 is not from 1 to 64"),
        (good.replace("crypt_byte", "crypt_bite"), "nothing costs `crypt_bite`"),
        (good.replace(", range = [10, 100]", ""), "`range = [least, most]`"),
        (good.replace("driver = \"acpi-cpufreq\"", "driver = \"magic\""), "no driver is named `magic`"),
    ];
    for (text, expected) in cases {
        std::fs::write(place.path("machine.toml"), &text).unwrap();
        let path = place.path("machine.toml");
        let error = place.fails(2, &["run", &study, "--on", "sim", "--machine", path.to_str().unwrap()]);
        assert!(error.contains(expected) && error.contains(": "), "{error}");
        assert!(!place.path("notebook").exists(), "a notebook was made for nothing");
    }
}

#[test]
fn a_machine_is_only_for_the_simulation_and_a_study_without_one_says_so() {
    let place = Place::new();
    let error = place.fails(2, &["run", &shipped("quick"), "--machine", "lab"]);
    assert!(error.contains("--on sim"), "{error}");
    let error = place.fails(2, &["run", &shipped("quick"), "--on", "sim"]);
    assert!(error.contains("--machine") && error.contains("[sim]"), "{error}");
}

#[test]
fn what_no_model_knows_is_skipped_with_its_reason() {
    let place = Place::new();
    let study = std::fs::read_to_string(shipped("published/dmcrypt")).unwrap();
    let odd = study.replace(
        "settings = { governor = \"powersave\"",
        "settings = { governor = \"powersave\", nr_requests = 4",
    );
    let study = place.study("odd", &odd);
    let output = place.output(&["run", &study, "--on", "sim", "--seed", "1"]);
    let said = support::stderr(&output);
    assert!(said.contains("skipped: dd_powersave") && said.contains("nr_requests"), "{said}");
}

/// Layers that no model knows, in two cells of three.
const WITHOUT_A_MODEL: &str = r#"
flyball = 1
name = "layers"
question = "Which layers have no model?"

[stack.disk]
kind = "devices"
lab = "disk"
loop = "64MiB"

[stack.tags]
kind = "integrity"
on = "disk"
use = false

[stack.image]
kind = "loop"
on = "tags"
use = false

[factor.layer]
[[factor.layer.level]]
name = "none"
[[factor.layer.level]]
name = "integrity"
stack = { "tags.use" = true }
[[factor.layer.level]]
name = "loop"
stack = { "image.use" = true }

[workload.read]
tool = "fio"
options = { rw = "randread", bs = "4k", ioengine = "psync", direct = true, number_ios = 20 }

[[lab.disk]]
name = "disk0"
model = "plain-7200"

[measure]
metric = "throughput"
repeats = 3
"#;

#[test]
fn layers_without_a_model_are_skipped_by_name() {
    let place = Place::new();
    let study = place.study("layers", WITHOUT_A_MODEL);
    let output = place.output(&["run", &study, "--on", "sim", "--seed", "1", "--machine", "lab"]);
    let said = support::stderr(&output);
    for (cell, layer, what) in
        [("read_integrity", "tags", "dm-integrity"), ("read_loop", "image", "a loop device")]
    {
        let wanted = format!("skipped: {cell}: `stack.{layer}`: {what} is not modelled");
        assert!(said.contains(&wanted), "{said}");
    }
    assert!(!said.contains("skipped: read_none"), "{said}");
    assert_eq!(place.trials().len(), 3, "{said}");
}

/// Several requests that each need half of the stripe cache.
const EXHAUSTING: &str = r#"
flyball = 1
name = "exhausting"
question = "Does an array whose cache is exhausted go on?"

[stack.disks]
kind = "devices"
count = 4
lab = "disk"

[stack.array]
kind = "md"
on = "disks"
level = 6
resync = "skip"

[factor.chunk]
stack = "array.chunk"
levels = ["32KiB", "512KiB"]

[workload.write]
tool = "fio"
options = { rw = "randwrite", bs = "1m", ioengine = "libaio", direct = true, time_based = true, runtime = "4s", randrepeat = false }

[factor.depth]
option = "iodepth"
levels = [8, 32]

[[lab.disk]]
name = "disk"
count = 4
model = "plain-7200"
size = "256MiB"

[measure]
metric = "throughput"
repeats = 3
"#;

#[test]
fn an_array_whose_stripe_cache_is_exhausted_goes_on() {
    let place = Place::new();
    let study = place.study("exhausting", EXHAUSTING);
    for seed in ["1", "2", "3"] {
        let output =
            place.output(&["run", &study, "--on", "sim", "--machine", "lab", "--seed", seed, "--new"]);
        let said = support::stderr(&output);
        assert!(!said.contains("failed:"), "{said}");
    }
}

/// An array with parity, whose settings or bitmap are varied.
const PARITY: &str = r#"
flyball = 1
name = "parity"
question = "What do settings of an array with parity decide?"

[stack.disks]
kind = "devices"
count = 4
lab = "disk"
loop = "1GiB"

[stack.array]
kind = "md"
on = "disks"
level = 5
resync = "skip"

[workload.load]
tool = "fio"
options = { LOAD, ioengine = "libaio", direct = true, time_based = true, runtime = "1s", randrepeat = false }

[factor.varied]
VARIED

[[lab.disk]]
name = "disk"
count = 4
model = "pm9a3-3840gb"
size = "1GiB"

[measure]
metric = "throughput"
repeats = 1
"#;

/// What a load gets at each of two levels.
fn at_two_levels(machine: &str, load: &str, varied: &str) -> [f64; 2] {
    let place = Place::new();
    let study = place.study("parity", &PARITY.replace("LOAD", load).replace("VARIED", varied));
    let report = simulated(&place, &study, &["--machine", machine, "--seed", "1"]);
    let medians: Vec<f64> =
        report["cells"].as_array().unwrap().iter().map(|cell| cell["median"].as_f64().unwrap()).collect();
    medians.try_into().unwrap()
}

#[test]
fn settings_and_the_bitmap_of_an_array_with_parity_have_their_effect() {
    let random = "rw = \"randwrite\", bs = \"4k\", iodepth = 64";
    let setting = |name: &str, levels: &str| format!("setting = \"{name}\"\nlevels = {levels}");
    let in_order = "rw = \"write\", bs = \"1m\", iodepth = 32";
    let stripes = at_two_levels("server-nvme", in_order, &setting("stripe_cache_size", "[17, 4096]"));
    let threads = at_two_levels("server-nvme", random, &setting("group_thread_cnt", "[0, 4]"));
    let random = "rw = \"randwrite\", bs = \"4k\", iodepth = 1";
    let bitmap = |chunk: &str| {
        format!(
            "[[factor.varied.level]]\nname = \"{chunk}\"\nstack = {{ \"array.bitmap\" = \"internal\", \"array.bitmap_chunk\" = \"{chunk}\" }}\n"
        )
    };
    let chunks = at_two_levels("lab", random, &[bitmap("64KiB"), bitmap("256MiB")].concat());
    eprintln!("stripes {stripes:?}, threads {threads:?}, bitmap chunks {chunks:?}");
    for [less, more] in [stripes, threads, chunks] {
        assert!(more > 1.1 * less, "stripes {stripes:?}, threads {threads:?}, bitmap chunks {chunks:?}");
    }
}

#[test]
fn a_setting_of_arrays_with_parity_is_refused_where_there_is_none() {
    let place = Place::new();
    let varied = "setting = \"stripe_cache_size\"\nlevels = [256, 4096]";
    let text = PARITY.replace("level = 5", "level = 0").replace("LOAD", "rw = \"read\"");
    let study = place.study("parity", &text.replace("VARIED", varied));
    let output = place.output(&["run", &study, "--on", "sim", "--machine", "server-nvme", "--seed", "1"]);
    let said = support::stderr(&output);
    let wanted =
        "`stripe_cache_size` cannot be set in the simulation: the cell has no array of level 4, 5 or 6";
    assert!(said.contains(wanted), "{said}");
    assert!(place.trials().is_empty(), "{said}");
}

#[test]
fn an_array_is_synchronised_beside_its_workload_for_all_of_a_trial_or_the_trial_says_so() {
    let place = Place::new();
    let text = include_str!("studies/resync.toml");
    let run = |name: &str, text: &str| {
        let study = place.study(name, text);
        place.output(&["run", &study, "--on", "sim", "--machine", "lab", "--seed", "1", "--new"])
    };
    run("resync", text);
    let shown: serde_json::Value = serde_json::from_str(&place.ok(&["show", "resync", "--json"])).unwrap();
    let of = |state: &str| {
        let cell = shown["cells"].as_array().unwrap().iter().find(|cell| cell["levels"]["state"] == state);
        cell.unwrap()["median"].as_f64().unwrap()
    };
    let [whole, first, rebuilding] = ["whole", "first-resync", "rebuilding"].map(of);
    assert!([first, rebuilding].iter().all(|value| (0.3..0.85).contains(&(value / whole))), "{shown:#}");

    let small =
        text.replace("\"1GiB\"", "\"32MiB\"").replace("\"2s\"", "\"40s\"").replace("\"resync\"", "\"small\"");
    let said = support::stderr(&run("small", &small));
    assert!(said.contains("synchronised before the workload ended"), "{said}");

    let wrong = text.replace("spares = 1", "spares = 0").replace("\"resync\"", "\"wrong\"");
    let said = support::stderr(&run("wrong", &wrong));
    assert!(said.contains("rebuilds one missing member on a spare"), "{said}");
}

#[test]
fn a_fit_is_judged_by_rows_that_it_has_not_seen() {
    let place = Place::new();
    let study = shipped("published/dmcrypt");
    // Under ondemand a window of a second passes at the lowest frequency, which no cost can make up for.
    let held = ["--hold-out", "governor=ondemand", "--hold-out", "governor=ondemand-40"];
    let arguments = [&["sim", "calibrate", &study][..], &held, &["--budget", "40", "--json"]].concat();
    let fit: serde_json::Value = serde_json::from_str(&place.ok(&arguments)).unwrap();
    let held: Vec<&str> = fit["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["held_out"] == true)
        .map(|row| row["row"].as_str().unwrap())
        .collect();
    assert_eq!(held, ["throughput of dd_ondemand", "throughput of dd_ondemand-40"]);
    // 3.0 million cycles of one CPU for 64 KiB are 46 a byte; two are busy for 73% of the time.
    let crypt = fit["figures"].as_array().unwrap().iter().find(|f| f["figure"] == "crypt_byte").unwrap();
    let is = crypt["fitted"].as_f64().unwrap();
    eprintln!("crypt_byte {is:.1} cycles, identified: {}", crypt["identified"]);
    assert!((60.0..75.0).contains(&is) && crypt["identified"] == true, "{crypt}");

    let error = place.fails(2, &["sim", "calibrate", &study, "--hold-out", "governor=none"]);
    assert!(error.contains("`none`"), "{error}");
}

/// A trace of one device, replayed on a hard disk: when it was asked for, or at once.
const REPLAYED: &str = r#"
flyball = 1
name = "replayed"
question = "How long does a recorded load take?"

[sim]
machine = "wd-green-server"

[stack.disk]
kind = "devices"
loop = "4GiB"

[workload.load]
tool = "fio"
options = { read_iolog = "load.txt", ioengine = "libaio", direct = true, iodepth = 4 }

[factor.stall]
option = "replay_no_stall"
levels = [false, true]

[measure]
metric = "elapsed"
repeats = 1
"#;

#[test]
fn a_recorded_trace_is_replayed_in_its_time_or_as_fast_as_the_disk_goes() {
    let place = Place::new();
    let study = place.study("replayed", REPLAYED);
    let iolog: String = (0..200)
        .map(|n| {
            format!(
                "{} f {} {} 4096\n",
                n * 50_000,
                if n % 2 == 0 { "read" } else { "write" },
                n * 8_388_608_u64
            )
        })
        .collect();
    let blkparse: String = (0..200)
        .map(|n| format!("8,0 0 {n} {}.{:09} 1 Q R {} + 8 [x]\n", n / 20, n % 20 * 50_000_000, n * 16_384))
        .collect();
    for trace in [format!("fio version 3 iolog\n0 f add\n0 f open\n{iolog}"), blkparse] {
        std::fs::write(place.path("load.txt"), trace).unwrap();
        let text = place.ok(&["run", &study, "--on", "sim", "--new", "--seed", "1", "--json"]);
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        let elapsed = |cell: &str| {
            let cells = report["cells"].as_array().unwrap();
            let cell = cells.iter().find(|c| c["cell"].as_str().unwrap().ends_with(cell)).unwrap();
            cell["median"].as_f64().unwrap()
        };
        let (stalling, at_once) = (elapsed("false"), elapsed("true"));
        eprintln!("in its time {stalling} s, at once {at_once} s");
        // The last request comes after 9.95 s, and takes some milliseconds.
        assert!((9.95..10.05).contains(&stalling) && at_once < 5.0, "{stalling} {at_once}");
    }
    let wrong = [
        ("fio version 3 iolog\n0 f add\n0 f open\n0 f trim 0 4096\n", "line 4 of the trace"),
        (
            "fio version 3 iolog\n0 f add\n0 f open\n0 f read 409600000000000 4096\n",
            "make the target as large",
        ),
        ("fio version 3 iolog\n0 f add\n0 f open\n0 f read 1000 4096\n", "no whole sectors"),
        ("8,0 0 1 0.0 1 Q R 0 + 8 [x]\n8,16 0 1 0.1 1 Q R 0 + 8 [x]\n", "it is of 2 files or devices"),
    ];
    for (trace, told) in wrong {
        std::fs::write(place.path("load.txt"), trace).unwrap();
        let output = place.flyball(&["run", &study, "--on", "sim", "--new"]).output().unwrap();
        let said = support::stderr(&output);
        assert!(said.contains(told), "{said}");
    }
    let output = place.flyball(&["run", &study]).output().unwrap();
    assert!(
        support::stderr(&output).contains("replays a trace (`read_iolog`), which only the simulation knows")
    );
}

/// The report's array under its modes, on a smaller machine: the set is twice its memory.
const BONNIE: &str = r#"
flyball = 1
name = "bonnie"
question = "Do Bonnie's phases relate as they must?"

[sim]
machine = "MACHINE"

[target]
file = "1MiB"

[stack.disks]
kind = "devices"
count = 11
loop = "64MiB"

[stack.array]
kind = "md"
on = "disks"
level = 5
chunk = "32KiB"
spares = 1
bitmap = "none"
resync = "skip"

[stack.files]
kind = "filesystem"
on = "array"
type = "ext3"
mount = "barrier=0"

[workload.bonnie]
tool = "bonnie"
options = { flavour = "bonnie-1", size = "192MiB", seeks = 200 }

[factor.data]
stack = "files.data"
levels = ["ordered", "journal"]

[measure]
metric = "block_write"
repeats = 1
interval = "1s"
timeout = "3600s"
"#;

/// What each cell of a run gave, by cell and metric.
fn figures(place: &Place) -> std::collections::BTreeMap<(String, String), f64> {
    let trials = place.trial_files();
    let of_trial = |text: &String| {
        let trial: serde_json::Value = serde_json::from_str(text).unwrap();
        let cell = trial["cell"].as_str().unwrap().to_owned();
        let metrics = trial["measurement"]["metrics"].as_object().unwrap();
        let each =
            metrics.iter().map(|(name, m)| ((cell.clone(), name.clone()), m["value"].as_f64().unwrap()));
        each.collect::<Vec<_>>()
    };
    trials.iter().flat_map(of_trial).collect()
}

#[test]
fn bonnie_s_phases_relate_as_they_must() {
    let shipped = std::fs::read_to_string(format!("{FOLDER}/machines/p4-2002.toml")).unwrap();
    let small = shipped.replace("memory = \"512 MiB\"", "memory = \"96 MiB\"");
    let at = |mhz: &str| {
        let place = Place::new();
        let machine = small.replace("mhz = 1600", &format!("mhz = {mhz}"));
        std::fs::write(place.path("machine.toml"), machine).unwrap();
        let path = place.path("machine.toml");
        let study = place.study("bonnie", &BONNIE.replace("MACHINE", path.to_str().unwrap()));
        place.measure(&["run", &study, "--on", "sim", "--seed", "1"]);
        figures(&place)
    };
    let (slow, usual) = (at("800"), at("1600"));
    let of = |all: &std::collections::BTreeMap<(String, String), f64>, data: &str, name: &str| {
        all[&(format!("bonnie_{data}"), name.to_owned())]
    };
    for name in ["per_char_write", "rewrite", "block_write", "per_char_read", "block_read"] {
        let values =
            [(&slow, "ordered"), (&usual, "ordered"), (&usual, "journal")].map(|(a, d)| of(a, d, name) / 1e6);
        eprintln!("{name}: {values:.1?} MB/s at 800 MHz, at 1600, and with data=journal");
    }
    let usually = |name| of(&usual, "ordered", name);
    assert!(usually("rewrite") < usually("block_read") && usually("rewrite") < usually("block_write"));
    for name in ["rewrite", "block_write"] {
        assert!(of(&usual, "journal", name) <= usually(name), "{name}");
    }
    let gain = usually("per_char_read") / of(&slow, "ordered", "per_char_read");
    assert!((1.85..2.05).contains(&gain), "twice the frequency gives {gain} times as many characters");
    assert!(usually("cpu_per_char_read") > 0.9 && usually("cpu_block_read") < 0.6);
    let gain = usually("block_read") / of(&slow, "ordered", "block_read");
    assert!((0.95..1.3).contains(&gain), "blocks are as fast as the bus: {gain}");
}

#[test]
fn a_run_is_one_screen_whose_commands_work_and_full_is_all_of_it() {
    let place = Place::new();
    let study = shipped("published/dmcrypt");
    let output =
        place.flyball(&["run", &study, "--on", "sim", "--seed", "1"]).env("COLUMNS", "80").output().unwrap();
    let screen = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(screen.lines().count() <= 24, "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    let sections = ["Question", "Machine", "Run", "Figures", "Verdict", "Next"];
    let places: Vec<usize> =
        sections.iter().map(|name| screen.find(&format!("\n{name}")).unwrap_or(0)).collect();
    assert!(places.windows(2).all(|pair| pair[0] < pair[1] || pair == [0, 0]), "{places:?}\n{screen}");
    for line in screen.lines().skip_while(|line| !line.starts_with("Next")) {
        let command = line.trim_start_matches("Next").trim().split("  (").next().unwrap();
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        if words.first().is_some_and(|word| ["explain", "show", "report"].contains(word)) {
            place.ok(&words);
        }
    }
    let run = screen.split_whitespace().find(|word| word.starts_with("dmcrypt-")).unwrap().to_owned();
    let full = place.ok(&["show", "--full", &run]);
    assert!(full.contains("What each factor changes") && full.contains("\nAgain\n"), "{full}");
    assert_eq!(place.ok(&["show", "--json", &run]), place.ok(&["show", "--full", "--json", &run]));
    let said = support::stderr(&output);
    let tenths = said.lines().filter(|line| line.contains(" trials (") && line.contains("%)")).count();
    assert!((1..=10).contains(&tenths), "{said}");
}

/// Four disks, and a governor of the kernel.
const PICKY: &str = r#"
flyball = 1
name = "picky"
question = "Which machine can take this?"

[target]
file = "8MiB"

[stack.disks]
kind = "devices"
count = 4
loop = "64MiB"
lab = "disk"

[stack.array]
kind = "md"
on = "disks"
level = 0

[workload.read]
tool = "fio"
options = { rw = "read", direct = true, size = "8m" }

[settings]
governor = "ondemand"
"#;

#[test]
fn a_study_without_a_machine_is_offered_those_that_fit_and_why_the_others_do_not() {
    let place = Place::new();
    let study = place.study("picky", PICKY);
    let said = place.fails(2, &["run", &study, "--on", "sim"]);
    let first = said.lines().next().unwrap();
    assert!(first.contains("these fit it: ") && first.contains("skylake-leap421"), "{said}");
    let of_a_file = place.fails(2, &["run", "quick", "--on", "sim"]);
    let without: Vec<&str> = of_a_file.lines().filter(|line| line.ends_with(": no disk")).collect();
    assert!(matches!(without[..], [line] if line.contains("xeon-e5-acpi")), "{of_a_file}");
    assert!(!of_a_file.contains("has not so many"), "{of_a_file}");
    assert!(!first.contains("pentium4-1500") && !first.contains("server-nvme"), "{said}");
    let small = said.lines().find(|line| line.ends_with(": 1 disk of 4")).unwrap_or_default();
    assert!(small.contains("not pentium4-1500, pentium4-2800,"), "{said}");
    assert!(said.contains("server-nvme: amd-pstate-epp has no ondemand"), "{said}");
    let list = place.ok(&["sim", "machines", &study]);
    let fit =
        list.lines().position(|line| line.starts_with("skylake-leap421 ") && line.contains(" yes ")).unwrap();
    let other =
        list.lines().position(|line| line.starts_with("pentium4-1500 ") && line.contains(" no ")).unwrap();
    assert!(fit < other, "{list}");
    place.measure(&["run", &study, "--on", "sim", "--machine", "skylake-leap421", "--dry-run"]);
}

/// Small encrypted reads of a slow device on one CPU, with and without a load that keeps it busy.
const BESIDE: &str = r#"
flyball = 1
name = "beside"
question = "Does a busy neighbour raise the frequency?"

[sim]
machine = "lab"

[lab]
vcpus = 1
pstates = "laptop-5"

[stack.disk]
kind = "devices"
null_blk = "1GiB"
attributes = "irqmode=2 completion_nsec=10000000"

[stack.vault]
kind = "crypt"
on = "disk"
type = "plain"
cipher = "aes-cbc-essiv:sha256"
key_size = 256

[workload.small]
tool = "fio"
options = { rw = "read", bs = "4k", ioengine = "psync", direct = true, number_ios = 100 }

[beside.burner]
LOAD

[settings]
governor = "GOVERNOR"
TUNABLES

[factor.burner]
beside = "burner"
levels = [false, true]

[measure]
repeats = 5
confidence = 0.9
interval = "1s"
"#;

const BURNER: &str = "tool = \"fio\"\noptions = { ioengine = \"cpuio\", cpuload = 100 }";

/// The CPU time by role of each level's first trial, of a run under this governor.
fn roles_of_beside(governor: &str) -> std::collections::BTreeMap<String, serde_json::Value> {
    let place = Place::new();
    let tunables = "\"ondemand.sampling_rate\" = 100000\n\"ondemand.up_threshold\" = 95\n";
    let text = BESIDE.replace("LOAD", BURNER).replace("GOVERNOR", governor);
    let text = text.replace("TUNABLES\n", if governor == "ondemand" { tunables } else { "" });
    place.ok(&["run", &place.study("beside", &text), "--on", "sim", "--seed", "1"]);
    let trials = place.trial_files().into_iter().map(|text| {
        let trial: serde_json::Value = serde_json::from_str(&text).unwrap();
        let level = trial["levels"]["burner"].as_str().unwrap().to_owned();
        (level, trial["measurement"]["roles_ns"].clone())
    });
    trials.collect()
}

#[test]
fn a_busy_load_beside_the_workload_brings_ondemand_to_the_top_and_its_time_is_not_the_workloads() {
    let (ondemand, performance) = (roles_of_beside("ondemand"), roles_of_beside("performance"));
    let (alone, with) = (&ondemand["false"], &ondemand["true"]);
    assert!(alone["beside"].is_null());
    let used = |roles: &serde_json::Value, role: &str| roles[role].as_f64().unwrap();
    // As much as the rest together, and the workload has no more of its own than alone at a lower frequency.
    assert!(used(with, "beside") > used(with, "crypt") + used(with, "workload"), "{with}");
    assert!(used(with, "workload") < used(alone, "workload"), "{with} beside it, {alone} alone");
    // The same bytes take the less CPU time to decrypt, the higher the frequency is.
    let slower = |roles| used(roles, "crypt") / used(&performance["false"], "crypt");
    assert!(
        slower(alone) > 1.2 && slower(with) < 1.05,
        "{} alone, {} beside it",
        slower(alone),
        slower(with)
    );
}

#[test]
fn a_load_that_no_model_knows_is_refused_by_name() {
    let place = Place::new();
    let load = "tool = \"command\"\nargv = [\"bzip2\"]";
    let text = BESIDE.replace("LOAD", load).replace("GOVERNOR", "performance").replace("TUNABLES", "");
    let study = place.study("beside", &text);
    let output = place.output(&["run", &study, "--on", "sim", "--seed", "1"]);
    let said = support::stderr(&output);
    assert!(said.contains("the load `burner` beside the workload: the simulation knows fio"), "{said}");
    assert!(said.contains("not what `bzip2` would do"), "{said}");
}

#[test]
fn what_a_slow_machine_spends_on_fio_s_looks_and_on_flyball_s_samples_is_in_its_model() {
    let place = Place::new();
    let head = BESIDE.split("[beside.burner]").next().unwrap();
    let text = format!(
        "{head}[workload.copied]\ntool = \"dd\"\noptions = {{ bs = \"4k\", count = 100, iflag = \"direct\" }}\n\n\
         [factor.governor]\nsetting = \"governor\"\nlevels = [\"performance\", \"powersave\"]\n\n[measure]\nrepeats = 1\ninterval = \"1s\"\n"
    );
    place.ok(&["run", &place.study("beside", &text), "--on", "sim", "--seed", "1"]);
    let mut cells = std::collections::BTreeMap::new();
    for text in place.trial_files() {
        let trial: serde_json::Value = serde_json::from_str(&text).unwrap();
        let measured = &trial["measurement"];
        let threads = measured["threads"].as_array().unwrap().iter();
        let has_rcu = threads.into_iter().any(|thread| thread["name"] == "rcu_preempt");
        let (span, recorder) =
            (measured["duration_ns"].as_f64().unwrap(), measured["recorder"]["cpu_ns"].as_f64().unwrap());
        if trial["levels"]["governor"] == "performance" {
            // A sample a second takes 270,000 of the 20 million instructions of a second, and ticks.
            let share = recorder / (span / 1e9).floor() / 1e9;
            assert!((0.0135..0.016).contains(&share), "{share}");
        }
        cells.insert(trial["workload"].as_str().unwrap().to_owned(), has_rcu);
    }
    // Only what fio looks for frees names of a tmpfs.
    assert_eq!((cells["small"], cells["copied"]), (true, false));
}
