//! `flyball replay`: what it predicts of a simulated run beside what that measured, and what it refuses.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support::Place;
use serde_json::Value;

/// One CPU that works 14 ms for each read of 10 ms, under four policies.
fn run(place: &Place) {
    place.measure(&["run", "dmcrypt-ondemand", "--on", "sim", "--seed", "3"]);
}

fn json(place: &Place, arguments: &[&str]) -> Value {
    serde_json::from_str(&place.ok(&[arguments, &["--json"]].concat())).unwrap()
}

#[test]
fn predictions_agree_with_what_the_same_run_measured() {
    let place = Place::new();
    run(&place);
    let checked = json(&place, &["replay", "dmcrypt-ondemand", "--check"]);
    let of = |name: &str| checked[name].as_f64().unwrap();
    assert_eq!(checked["pairs"].as_array().unwrap().len(), 24);
    assert_eq!(of("pairs_of_a_fit"), 24.0);
    assert!(of("median_error") < 0.03 && of("worst_error") < 0.1, "{checked:#}");
    assert!(of("covered") >= 22.0 && of("wrong_sign") == 0.0, "{checked:#}");
}

#[test]
fn a_slow_trial_is_told_which_threshold_would_have_helped() {
    let place = Place::new();
    run(&place);
    let trial = "b00.small_ondemand-95.a0";
    let asked = ["replay", "dmcrypt-ondemand", trial, "--sweep", "ondemand.up_threshold=95,40"];
    let predicted = json(&place, &asked);
    let ratio = |at: usize| predicted["predictions"][at]["prediction"]["rate_ratio"].as_f64().unwrap();
    assert_eq!(predicted["predictions"][0]["settings"][0]["value"], "40", "the best is first: {predicted:#}");
    assert!(ratio(0) > 1.1 && (ratio(1) - 1.0).abs() < 0.03, "{predicted:#}");
    let text = place.ok(&["replay", "dmcrypt-ondemand", trial]);
    assert!(text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("ondemand.up_threshold=40") && text.contains("--check"), "{text}");
    assert!(!text.contains(" tune "), "a simulation's predictions are not for this host: {text}");
}

#[test]
fn a_recording_of_a_machine_without_cpufreq_says_that_no_governor_decided() {
    if std::path::Path::new("/sys/devices/system/cpu/cpufreq/policy0").exists() {
        eprintln!("skipped: this machine has cpufreq");
        return;
    }
    let place = Place::new();
    let run = place.ok(&["record", "--for", "1s", "--json"]);
    let run: Value = serde_json::from_str(&run).unwrap();
    let said = place.fails(1, &["replay", run["run"].as_str().unwrap()]);
    assert!(said.contains("had no cpufreq driver"), "{said}");
}

#[test]
fn what_cannot_be_replayed_is_refused_with_the_reason() {
    let place = Place::new();
    run(&place);
    let refused = |arguments: &[&str], code: i32, why: &str| {
        let said = place.fails(code, &[&["replay", "dmcrypt-ondemand"], arguments].concat());
        assert!(said.contains(why), "{said}");
    };
    refused(&["b09.small_ondemand-95.a0"], 1, "there is no such trial");
    refused(&["nothing"], 2, "nothing");
    refused(&["--governor", "onfire"], 2, "onfire");
    refused(&["--set", "epp=power"], 2, "epp");
    refused(&["--set", "governor"], 2, "SETTING=VALUE");
    refused(&["--sweep", "ondemand.up_threshold"], 2, "ondemand.up_threshold");
    refused(&["--check", "--all"], 2, "--all");
}

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tools");
const MACHINES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/machines");

/// What `flyball inspect --json` says of two CPUs of 350 to 2800 MHz under schedutil.
fn inspected(place: &Place) {
    let root = format!("{MACHINES}/lab-raid5-raid10");
    std::fs::write(place.path("machine.json"), place.ok(&["inspect", "--root", &root, "--json"])).unwrap();
}

/// What `perf script` prints of so many reads, one at a time: each 4 ms of CPU time and then 6 ms of a disk,
/// at 2800 MHz. `thread` is who reads.
fn script(reads: u64, thread: impl Fn(u64) -> (String, u64)) -> String {
    let mut text = String::new();
    let mut line = |us: u64, who: (&str, u64), what: String| {
        let seconds = 100.0 + us as f64 / 1e6;
        text += &format!("{:>16} {:>5} [000] {seconds:.6}: {what}\n", who.0, who.1);
    };
    let idle = ("swapper", 0);
    for read in 0..reads {
        let (name, tid) = thread(read);
        let who = (name.as_str(), tid);
        let switch = |prev: (&str, u64), state: &str, next: (&str, u64)| {
            format!(
                "sched:sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> next_comm={} next_pid={} \
                 next_prio=120",
                prev.0, prev.1, next.0, next.1
            )
        };
        let (begin, sectors) = (read * 10_000, format!("{} + 8 [x]", 2048 + 8 * read));
        if read % 10 == 0 {
            line(begin, idle, "power:cpu_frequency: state=2800000 cpu_id=0".to_owned());
        }
        line(begin + 1, idle, switch(("swapper/0", 0), "R", who));
        line(begin + 4_000, who, format!("block:block_rq_issue: 8,0 R 4096 () {sectors}"));
        line(begin + 4_001, who, switch(who, "D", ("swapper/0", 0)));
        line(
            begin + 9_999,
            idle,
            format!("block:block_rq_complete: 8,0 R () {}", sectors.replace("[x]", "[0]")),
        );
    }
    text
}

fn one_reader(_: u64) -> (String, u64) {
    ("reader".to_owned(), 4000)
}

/// Imports a text of `perf script`.
fn imported(place: &Place, name: &str, text: &str) {
    std::fs::write(place.path("events.txt"), text).unwrap();
    place.ok(&["import", "events.txt", "--as", "perf-script", "--name", name]);
}

#[test]
fn what_perf_recorded_elsewhere_is_replayed_on_the_machine_that_is_given() {
    let place = Place::new();
    imported(&place, "reads", &script(150, one_reader));
    let told = place.fails(1, &["replay", "reads"]);
    for part in
        ["P-states, driver, governor", "flyball inspect --json > machine.json", "--machine machine.json"]
    {
        assert!(told.contains(part), "{told}");
    }
    inspected(&place);
    let given = ["replay", "reads", "--machine", "machine.json", "--in-force", "governor=performance"];
    let predicted = json(&place, &[&given[..], &["--governor", "powersave"]].concat());
    let of = |pointer: &str| {
        predicted.pointer(pointer).unwrap_or_else(|| panic!("{pointer}: {predicted:#}")).clone()
    };
    assert_eq!(of("/load/counted"), "requests of 8:0");
    assert!((of("/load/rate_per_second").as_f64().unwrap() - 100.0).abs() < 1.0, "{predicted:#}");
    assert!((of("/load/cpu_seconds_per_request").as_f64().unwrap() - 0.004).abs() < 1e-4, "{predicted:#}");
    assert!((of("/fit/frequency").as_f64().unwrap() - 1.0).abs() < 0.01, "{predicted:#}");
    // At an eighth of the frequency a read takes 32 and 6 ms instead of 4 and 6.
    let ratio = of("/predictions/0/prediction/rate_ratio").as_f64().unwrap();
    assert!((ratio / (10.0 / 38.0) - 1.0).abs() < 0.05, "{predicted:#}");
    assert_eq!(of("/load/not_recorded"), serde_json::json!(["interrupts_of_idle_cpus", "waits_for_io"]));
    let text = place.ok(&given);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "as given, machine.json: 2 CPUs under acpi-cpufreq, 350 MHz to 2.80 GHz, Linux 6.1",
        "Not recorded, so that both ends are in the interval: interrupts of idle CPUs",
        "governor=performance",
        "no policy is predicted to gain",
    ] {
        assert!(words.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // A simulated machine is one too; of one with fewer CPUs the recording cannot be.
    assert!(place.ok(&["replay", "reads", "--machine", "lab"]).contains("as given, lab: 1 CPU"));
    let told =
        place.fails(1, &["replay", "reads", "--machine", "machine.json", "--in-force", "scheduler=none"]);
    assert!(told.contains("`scheduler` is no setting of frequency policy"), "{told}");
    let told = place.fails(2, &["replay", "reads", "--machine", "events.txt"]);
    assert!(told.contains("it is no inventory") && told.contains("flyball inspect --json"), "{told}");
}

#[test]
fn a_report_with_the_events_of_its_time_counts_what_the_tool_asked_for() {
    let place = Place::new();
    inspected(&place);
    std::fs::write(place.path("events.txt"), script(200, one_reader)).unwrap();
    let report = format!("{TOOLS}/fio/status-interval-3.33.json");
    place.ok(&["import", "--together", &report, "events.txt", "--name", "both"]);
    let given = ["replay", "both", "--machine", "machine.json", "--in-force", "governor=performance"];
    let predicted = json(&place, &given);
    let of = |name: &str| predicted["load"][name].clone();
    assert_eq!(of("counted"), "iops");
    let (rate, cpu) =
        (of("rate_per_second").as_f64().unwrap(), of("cpu_seconds_per_request").as_f64().unwrap());
    assert!((rate - 1610.0).abs() < 10.0 && (cpu * rate - 0.4).abs() < 0.01, "{predicted:#}");
    // The report alone does not say what the CPUs did.
    place.ok(&["import", "--again", &report, "--name", "report"]);
    let told = place.fails(1, &["replay", "report", "--machine", "machine.json"]);
    assert!(told.contains("figures alone"), "{told}");
}

/// 614 reads of a MiB with as much arithmetic, which perf and Flyball recorded side by side.
#[test]
fn the_same_reads_recorded_by_perf_and_by_flyball_are_predicted_alike() {
    let place = Place::new();
    inspected(&place);
    place.ok(&["import", &format!("{TOOLS}/perf/reads-6.1.data.gz"), "--name", "perf"]);
    place.ok(&["import", &format!("{TOOLS}/flyball/reads-beside-perf.parquet"), "--name", "own"]);
    let [perf, own] = ["perf", "own"].map(|name| {
        let given =
            ["replay", name, "--machine", "machine.json", "--in-force", "governor=performance", "--all"];
        json(&place, &given)
    });
    let ratios = |of: &Value| {
        let all = of["predictions"].as_array().unwrap().iter();
        let mut all: Vec<(String, f64)> = all
            .map(|one| (one["settings"].to_string(), one["prediction"]["rate_ratio"].as_f64().unwrap()))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    };
    let (perf_ratios, own_ratios) = (ratios(&perf), ratios(&own));
    assert!(perf_ratios.len() > 8 && perf_ratios.len() == own_ratios.len(), "{perf:#}");
    for ((settings, by_perf), (same, by_own)) in perf_ratios.iter().zip(&own_ratios) {
        assert_eq!(settings, same);
        assert!((by_perf / by_own - 1.0).abs() < 0.1, "{settings}: {by_perf} by perf, {by_own} by Flyball");
    }
}

#[test]
fn events_that_tell_too_little_are_refused_by_the_name_of_the_event_and_a_command() {
    let whole = script(150, one_reader);
    let without = |part: &str| {
        whole.lines().filter(|line| !line.contains(part)).map(|line| format!("{line}\n")).collect()
    };
    // perf tells of a loss within the 4 ms of every second read.
    let mut reads = 0;
    let lost: String = whole
        .lines()
        .map(|line| {
            reads += u32::from(line.contains("rq_issue"));
            match line.contains("rq_issue") && reads % 2 == 0 {
                true => format!(
                    "{line}\n          reader  4000 [000] {}: PERF_RECORD_LOST lost 7\n",
                    &line[29..39]
                ),
                false => format!("{line}\n"),
            }
        })
        .collect();
    let place = Place::new();
    inspected(&place);
    let cases: [(&str, String, &[&str]); 4] = [
        ("no-switches", without("sched_switch"), &["sched:sched_switch"]),
        ("no-requests", without("block:"), &["block:block_rq_issue"]),
        ("short", script(20, one_reader), &["it lasted 1", "0.5 s"]),
        ("lost", lost, &["not known for more than 5%", "-m 64M"]),
    ];
    for (name, text, wanted) in cases {
        imported(&place, name, &text);
        let told = place.fails(1, &["replay", name, "--machine", "machine.json"]);
        assert!(wanted.iter().all(|part| told.contains(part)), "{name}: {told}");
        assert!(name == "short" || told.contains("perf record -a -e sched:sched_switch"), "{name}: {told}");
    }
    place.ok(&["import", &format!("{TOOLS}/fio/terse-v3-3.33.txt"), "--name", "figures"]);
    let told = place.fails(1, &["replay", "figures", "--machine", "machine.json"]);
    assert!(told.contains("figures alone"), "{told}");
}

#[test]
fn a_damaged_file_and_thousands_of_threads_end_in_an_error_or_a_prediction() {
    let place = Place::new();
    inspected(&place);
    // Each read by a thread of its own.
    let many = script(6000, |read| (format!("t{read}"), 5000 + read));
    imported(&place, "many", &many);
    let predicted = json(&place, &["replay", "many", "--machine", "machine.json", "--governor", "powersave"]);
    assert!(predicted["load"]["in_flight"].as_f64().unwrap() <= 2.0, "{predicted:#}");
    let whole = std::fs::read(format!("{TOOLS}/perf/record-6.1.data")).unwrap();
    for share in [1, 3, 7] {
        let name = format!("cut{share}.data");
        std::fs::write(place.path(&name), &whole[..whole.len() * share / 8]).unwrap();
        let output = place.output(&["import", &name, "--name", &name]);
        let code = output.status.code();
        assert!(code == Some(0) || code == Some(1), "{output:?}");
        if code == Some(0) {
            place.fails(1, &["replay", &name.replace('.', "-"), "--machine", "machine.json"]);
        }
    }
}
