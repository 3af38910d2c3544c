//! `flyball compare --history`: the question of the RAID10 report, end to end. An array was measured several
//! times before an upgrade and several times after; kernel and governor both changed.
//!
//! The runs are simulated: the machine of the report with its kernel and governor as a machine file has them.
//! A simulated machine is another one wherever its file differs, whereas a host stays itself through an
//! upgrade. So the tests write one machine's name into the runs of their own notebook; where they are about a
//! host, its provenance, its kernels and what was typed there, too.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support::{Place, folders};
use clap::CommandFactory;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The array of the report, random reads and writes.
const ARRAY: &str = r#"
flyball = 1
name = "array"
question = "How fast is the array?"

[stack.ssds]
kind = "devices"
count = 4
loop = "4GiB"

[stack.array]
kind = "md"
on = "ssds"
level = 10
layout = "n2"
chunk = "32KiB"
bitmap = "none"
resync = "skip"

[workload.randread]
tool = "fio"
options = { rw = "randread", bs = "512k", ioengine = "psync", direct = true, time_based = true, runtime = "1s" }

[workload.randwrite]
tool = "fio"
options = { rw = "randwrite", bs = "512k", ioengine = "psync", direct = true, time_based = true, runtime = "1s" }

[measure]
repeats = 4
interval = "10ms"
"#;

/// A machine of the report under this kernel and governor, as a file of this place. It has no sources of
/// variation: nothing differs but what changed.
fn machine(place: &Place, name: &str, kernel: &str, governor: &str) -> String {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/machines/skylake-leap421.toml");
    let text = std::fs::read_to_string(shipped).unwrap();
    let (text, _) = text.split_once("[variation]").unwrap();
    let line = |line: &str| match line.split(" = ").next() {
        Some("kernel") => format!("kernel = \"{kernel}\""),
        Some("governor") => format!("governor = \"{governor}\""),
        _ => line.to_owned(),
    };
    let file = format!("{name}.toml");
    std::fs::write(place.path(&file), text.lines().map(line).collect::<Vec<_>>().join("\n")).unwrap();
    file
}

/// So many runs of the study on a machine, each with a seed of its own.
fn measure(place: &Place, machine: &str, seeds: std::ops::Range<u32>) {
    for seed in seeds {
        let seed = seed.to_string();
        place.ok(&["run", "array.toml", "--on", "sim", "--machine", machine, "--seed", &seed, "--new"]);
    }
}

/// Before: kernel 4.1 with `performance`. After: kernel 4.4 with `powersave`, on the same CPUs.
fn upgraded(place: &Place, before: u32, after: u32) {
    place.study("array", ARRAY);
    let old = machine(place, "old", "4.1.0", "performance");
    let new = machine(place, "new", "4.4.0", "powersave");
    measure(place, &old, 1..before + 1);
    measure(place, &new, 101..after + 101);
}

/// The files of the notebook that say where a run was made, run by run and oldest first.
fn records(place: &Place) -> Vec<Vec<PathBuf>> {
    let begun = |run: &PathBuf| json_of(&run.join("run.json"))["started_ns"].as_i64().unwrap();
    let mut runs = folders(&place.path("notebook/runs"));
    runs.sort_by_key(begun);
    let files = |run: &PathBuf| {
        let trials = folders(&run.join("trials")).into_iter().map(|trial| trial.join("trial.json"));
        std::iter::once(run.join("run.json")).chain(trials).collect()
    };
    runs.iter().map(files).collect()
}

fn json_of(file: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// Gives all runs one machine's name; `edit` changes the records besides, by the number of their run.
fn on_one_machine(place: &Place, edit: impl Fn(usize, &mut Value)) {
    for (number, files) in records(place).iter().enumerate() {
        for file in files {
            let mut record = json_of(file);
            record["machine"] = json!("the-machine");
            edit(number, &mut record);
            std::fs::write(file, record.to_string()).unwrap();
        }
    }
}

/// As a host would have measured them, upgraded from one kernel of Debian to the next.
fn as_a_host(before: usize) -> impl Fn(usize, &mut Value) {
    move |number, record| {
        record["provenance"] = json!("host");
        if record["command"].is_array() {
            record["command"] = json!(["run", "array.toml"]);
        } else {
            let kernel = if number < before { "6.1.0-30-amd64" } else { "6.12.9-amd64" };
            record["environment"]["kernel"] = json!(kernel);
            record["environment"].as_object_mut().unwrap().remove("simulated machine");
        }
    }
}

fn json(place: &Place, arguments: &[&str]) -> Value {
    serde_json::from_str(&place.ok(&[arguments, &["--json"]].concat())).unwrap()
}

fn screen(place: &Place) -> String {
    let output = place.flyball(&["compare", "array", "--history"]).env("COLUMNS", "80").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    text
}

/// A command as a shell in this place takes it.
fn typed(place: &Place, command: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_flyball")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(place.folder.path()).env("PATH", path).env("NO_COLOR", "1");
    shell.env("FLYBALL_NOTEBOOK", place.path("notebook"));
    shell.env("FLYBALL_STATE", place.path("state")).env("FLYBALL_RUN", place.folder.path());
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn commands(experiment: &Value) -> Vec<String> {
    let all = experiment["commands"].as_array().unwrap();
    all.iter().map(|command| command.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_one_place_is_found_the_governor_ranked_and_the_experiment_tells() {
    let place = Place::new();
    upgraded(&place, 4, 3);
    on_one_machine(&place, |_, _| {});
    let found = json(&place, &["compare", "array", "--history"]);
    assert_eq!(found["changes"].as_array().unwrap().len(), 1, "{found:#}");
    let change = &found["changes"][0];
    assert_eq!(change["before"], found["runs"][3]["run"]);
    assert_eq!(change["after"], found["runs"][4]["run"]);
    assert_eq!(change["cells"].as_array().unwrap().len(), 2);
    assert!(change["cells"][0]["ratio"].as_f64().unwrap() < 0.6, "{change:#}");
    assert_eq!(change["cells"][0]["p"], Value::Null, "a model's seeds are no sample");

    let of = |at: usize| &change["causes"][at];
    assert_eq!((&of(0)["what"], &of(0)["standing"]), (&json!("governor"), &json!("predicted")), "{change:#}");
    assert_eq!((&of(0)["before"], &of(0)["after"]), (&json!("performance"), &json!("powersave")));
    assert!(of(0)["predicted"]["share_low"].as_f64().unwrap() > 0.0, "{change:#}");
    assert_eq!(of(0)["rules"][0]["rule"], "governor");
    assert_eq!((&of(1)["what"], &of(1)["standing"]), (&json!("kernel"), &json!("not-known")));
    assert!(!place.ok(&["compare", "array", "--history"]).contains("shown"));

    // The experiment runs as it is printed, and tells the governor's part: all of it, for the simulated
    // kernels do the same.
    let commands = commands(&change["experiments"][0]);
    assert_eq!(commands.len(), 3, "{commands:?}");
    let said: Vec<String> = commands.iter().map(|command| typed(&place, command)).collect();
    assert!(said[2].contains("powersave is worse than performance"), "{}", said[2]);
    let levels = json(&place, &["compare", "array-cause", "--factor", "governor"]);
    let ratio = |cell: &str| {
        let all = levels["comparisons"].as_array().unwrap();
        let of_cell = all.iter().find(|one| one["context"].as_str().unwrap().contains(cell)).unwrap();
        of_cell["ratio"].as_f64().unwrap()
    };
    let changed = change["cells"].as_array().unwrap();
    for cell in changed {
        let again = ratio(cell["cell"].as_str().unwrap());
        assert!((again / cell["ratio"].as_f64().unwrap() - 1.0).abs() < 0.02, "{cell:#} {levels:#}");
    }
    let screen = screen(&place);
    assert!(screen.contains("1. governor: performance, then powersave"), "{screen}");
    assert!(screen.contains("flyball new array-cause --from array.toml"), "{screen}");
}

#[test]
fn on_a_host_the_old_kernel_is_booted_or_run_in_the_lab() {
    let place = Place::new();
    upgraded(&place, 4, 3);
    on_one_machine(&place, as_a_host(4));
    let found = json(&place, &["compare", "array", "--history"]);
    let change = &found["changes"][0];
    let p = change["cells"][0]["p"].as_f64().unwrap();
    assert!(p > 0.0 && p < 0.01, "{change:#}");
    let experiments = change["experiments"].as_array().unwrap();
    let typed_by = |at: usize| commands(&experiments[at]);
    assert_eq!(
        typed_by(0),
        [
            "flyball new array-cause --from array.toml --levels governor=performance,powersave",
            "flyball run array-cause.toml",
            "flyball compare array-cause --factor governor",
        ]
    );
    assert_eq!(
        typed_by(1),
        ["flyball run array-cause.toml --new", "flyball compare array-cause~1 array-cause"]
    );
    assert_eq!(typed_by(2), ["flyball lab run array-cause.toml --kernel 6.1 --kernel 6.12"]);
    assert!(experiments[1]["what"].as_str().unwrap().contains("booting 6.1.0-30-amd64"), "{change:#}");
    typed(&place, &typed_by(0)[0]);
    for command in experiments.iter().flat_map(commands) {
        assert!(typed(&place, &format!("{command} --help")).contains("Usage: flyball"), "{command}");
    }
    let plan = place.measure(&["run", "array-cause.toml", "--dry-run"]);
    assert!(plan.contains("governor"), "{plan}");
    screen(&place);
}

#[test]
fn another_driver_is_one_difference_and_leads_to_the_governor_that_bounds_it() {
    let place = Place::new();
    place.study("array", ARRAY);
    measure(&place, "skylake-leap421", 1..5);
    measure(&place, "skylake-leap422", 5..9);
    on_one_machine(&place, |_, record| {
        if let Some(environment) = record.get_mut("environment").and_then(Value::as_object_mut) {
            environment.remove("simulated machine");
        }
    });
    let found = json(&place, &["compare", "array", "--history"]);
    let causes = &found["changes"][0]["causes"];
    let names: Vec<&str> =
        causes.as_array().unwrap().iter().map(|cause| cause["what"].as_str().unwrap()).collect();
    assert_eq!(names, ["frequency driver", "kernel"], "{found:#}");
    let commands = commands(&found["changes"][0]["experiments"][0]);
    assert!(commands[0].ends_with("--levels governor=powersave,performance"), "{commands:?}");
    assert!(commands[1].ends_with("--on sim --machine skylake-leap422"), "{commands:?}");
    typed(&place, &commands[0]);
    typed(&place, &commands[1]);
    assert!(typed(&place, &commands[2]).contains("performance"), "{commands:?}");
}

#[test]
fn where_the_kernel_alone_changed_the_old_one_is_booted() {
    let place = Place::new();
    upgraded(&place, 3, 3);
    on_one_machine(&place, as_a_host(3));
    // The machine of the runs before had the governor of those after.
    let runs = folders(&place.path("notebook/runs"));
    for run in runs {
        let file = run.join("machine.json");
        std::fs::write(&file, std::fs::read_to_string(&file).unwrap().replace("performance", "powersave"))
            .unwrap();
    }
    let found = json(&place, &["compare", "array", "--history"]);
    let change = &found["changes"][0];
    assert_eq!(change["causes"].as_array().unwrap().len(), 1, "{change:#}");
    assert_eq!(change["causes"][0]["what"], "kernel");
    assert_eq!(
        commands(&change["experiments"][0]),
        ["flyball run array.toml --new", "flyball compare array~1 array"]
    );
    for command in commands(&change["experiments"][0]) {
        assert!(typed(&place, &format!("{command} --help")).contains("Usage: flyball"), "{command}");
    }
}

#[test]
fn a_kernel_that_was_booted_before_without_the_change_is_cleared() {
    let place = Place::new();
    upgraded(&place, 4, 3);
    // The second run already had the new kernel, and the old speed.
    on_one_machine(&place, |number, record| {
        if let Some(environment) = record.get_mut("environment").filter(|_| number == 1) {
            environment["kernel"] = json!("4.4.0");
        }
    });
    let found = json(&place, &["compare", "array", "--history"]);
    let causes = found["changes"][0]["causes"].as_array().unwrap();
    let kernel = causes.iter().find(|cause| cause["what"] == "kernel").unwrap();
    assert_eq!((&kernel["standing"], &kernel["cleared_by"]), (&json!("little"), &found["runs"][1]["run"]));
    let governor = causes.iter().find(|cause| cause["what"] == "governor").unwrap();
    assert_eq!(governor["cleared_by"], Value::Null, "{found:#}");
}

#[test]
fn two_runs_are_compared_by_their_trials_and_the_screen_says_so() {
    let place = Place::new();
    upgraded(&place, 1, 1);
    on_one_machine(&place, |_, _| {});
    let found = json(&place, &["compare", "array", "--history"]);
    assert_eq!(found["by"], "last-two");
    assert_eq!(found["changes"][0]["causes"][0]["what"], "governor", "{found:#}");
    let screen = screen(&place);
    assert!(screen.contains("2 runs do not tell what runs differ by"), "{screen}");
}

#[test]
fn without_a_change_it_says_what_would_have_been_seen_and_ends_with_the_run_that_is_named() {
    let place = Place::new();
    upgraded(&place, 5, 2);
    on_one_machine(&place, |_, _| {});
    let before = json(&place, &["compare", "array~2", "--history"]);
    assert_eq!(
        (before["changes"].as_array().unwrap().len(), before["runs"].as_array().unwrap().len()),
        (0, 5)
    );
    let verdict = before["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("no change of throughput over 5 runs; a step of "), "{verdict}");
    let latency = json(&place, &["compare", "array", "--history", "--metric", "latency_mean"]);
    assert!(latency["changes"][0]["cells"][0]["ratio"].as_f64().unwrap() > 1.3, "{latency:#}");
    assert_eq!(latency["changes"][0]["causes"][0]["standing"], "predicted", "{latency:#}");
    let other = json(&place, &["compare", "array", "--history", "--metric", "latency_p99"]);
    let why = other["changes"][0]["causes"][0]["no_prediction"].as_str().unwrap();
    assert!(why.contains("latency_p99"), "{other:#}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let place = Place::new();
    upgraded(&place, 1, 0);
    for arguments in [&["array~1"][..], &["--factor", "block"], &["--across"]] {
        let said = place.fails(2, &[&["compare", "array", "--history"], arguments].concat());
        assert!(said.contains("--history") && said.contains("cannot be used with"), "{said}");
    }
    let said = place.fails(1, &["compare", "array", "--history", "--metric", "colour"]);
    assert!(said.contains("`colour`") && said.contains("throughput"), "{said}");
    assert!(place.ok(&["compare", "array", "--history"]).contains("1 run of array is no history"));
}

#[test]
fn each_option_with_which_a_run_may_have_begun_is_understood() {
    let program = command_line::Cli::command();
    let known: Vec<(&str, bool)> = session::experiment::known_options().collect();
    for path in [&["run"][..], &["lab", "run"]] {
        let command = path.iter().fold(&program, |at, name| at.find_subcommand(name).unwrap());
        for option in command.get_arguments().filter(|option| option.get_long().is_some()) {
            let name = format!("--{}", option.get_long().unwrap());
            let has_value = option.get_action().takes_values();
            assert!(
                known.contains(&(name.as_str(), has_value)),
                "{path:?} {name}, with a value: {has_value}"
            );
        }
    }
}
