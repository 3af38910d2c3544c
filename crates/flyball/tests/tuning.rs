//! `flyball tune` on loads that run already: a process, what a command tells, a database server. Each depends
//! on a sysctl that no other test writes, and is there after whatever becomes of the measurement.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support::database_server::{Server, password_file};
use crate::support::{Place, is_root, stderr, wait_until};
use domain::database::Kind;
use domain::rng::{Rng, Seed};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testing::Extent;

const SYSCTL: &str = "/proc/sys/vm/compaction_proactiveness";

fn value() -> String {
    fs::read_to_string(SYSCTL).unwrap().trim().to_owned()
}

/// The sysctl as it was, put back whatever happens; and this file's tests one at a time.
struct Before(String, #[expect(dead_code, reason = "held")] fs::File);

impl Before {
    /// With another value for the time of a test.
    fn with(set: &str) -> Option<Self> {
        if !is_root() {
            eprintln!("skipped: settings are written as root");
            return None;
        }
        let alone = fs::File::create(std::env::temp_dir().join("flyball-tuning-test.lock")).unwrap();
        alone.lock().unwrap();
        let before = Self(value(), alone);
        fs::write(SYSCTL, set).unwrap();
        Some(before)
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        let _ = fs::write(SYSCTL, &self.0);
    }
}

/// A loop of a shell that counts as fast as the sysctl lets it: a tenth as fast at 90 as at 10.
struct Load {
    process: Child,
    count: PathBuf,
}

impl Load {
    fn start(place: &Place) -> Self {
        let count = place.path("count");
        fs::write(&count, "").unwrap();
        let script = format!(
            "while :; do printf . >> '{}'; sleep 0.$(printf %03d $(cat {SYSCTL})); done",
            count.display()
        );
        let process = Command::new("sh").args(["-c", &script]).stdout(Stdio::null()).spawn().unwrap();
        Self { process, count }
    }

    fn pid(&self) -> String {
        self.process.id().to_string()
    }

    /// What prints how often it has counted.
    fn counted(&self) -> String {
        format!("wc -c < '{}'", self.count.display())
    }

    fn is_there(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const SHORT: [&str; 4] = ["--for", "700ms", "--wash-out", "100ms"];

fn tune(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.flyball(&["tune"]);
    command.args(SHORT).args(arguments).env("FLYBALL_ROOT", place.path("root"));
    command
}

/// What is said on both streams.
fn said(place: &Place, arguments: &[&str]) -> String {
    let output = tune(place, arguments).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

/// What is said where it has these words; `None` where other load of the host kept them from being found.
fn found(place: &Place, arguments: &[&str], words: &str) -> Option<String> {
    let mut text = None;
    testing::on_a_quiet_host(|| {
        let heard = said(place, arguments);
        if !heard.contains(words) {
            return Err(format!("no `{words}` in:\n{heard}"));
        }
        text = Some(heard);
        Ok(())
    });
    text
}

fn newest(place: &Place) -> Value {
    serde_json::from_str(&place.ok(&["show", "tune", "--json"])).unwrap()
}

#[test]
fn a_change_is_measured_on_a_load_that_runs_by_the_number_that_a_command_prints() {
    let place = Place::new();
    let Some(_before) = Before::with("90") else { return };
    let mut load = Load::start(&place);
    let counted = load.counted();
    let by = ["--metric-command", counted.as_str()];
    let better = [&["--set", "vm.compaction_proactiveness=10"], &by[..]].concat();
    if found(&place, &better, "tune --set vm.compaction_proactiveness=10 --persist`").is_none() {
        return;
    }
    assert_eq!(value(), "90");
    let shown = newest(&place);
    assert_eq!(shown["metric"].as_str(), Some("load_rate"), "{shown:#}");
    fs::write(SYSCTL, "10").unwrap();
    let worse = [&["--set", "vm.compaction_proactiveness=90", "--persist"], &by[..]].concat();
    if found(&place, &worse, "the change is not kept: it is worse").is_none() {
        return;
    }
    assert!(value() == "10" && load.is_there() && !place.path("root").exists());
}

#[test]
fn the_best_of_many_changes_is_found_and_then_measured_by_trials_of_its_own() {
    let place = Place::new();
    let Some(_before) = Before::with("90") else { return };
    let mut load = Load::start(&place);
    let counted = load.counted();
    let search = |values: &str, words: &str| {
        let set = format!("vm.compaction_proactiveness={values}");
        found(&place, &["--search", "--set", &set, "--metric-command", &counted, "--seed", "5"], words)
    };
    let kept = "tune --set vm.compaction_proactiveness=10 --persist`";
    let Some(better) = search("95, 85, 70, 40, 10", kept) else { return };
    assert!(better.contains("`compaction_proactiveness=10` is the best of 6 cells"), "{better}");
    assert!(
        better.contains("now measured by trials of its own: vm.compaction_proactiveness = 10"),
        "{better}"
    );
    let searched: Value = serde_json::from_str(&place.ok(&["show", "tune-search", "--json"])).unwrap();
    let trials = |cell: &Value| cell["trials"].as_array().map_or(0, Vec::len);
    let often: Vec<usize> = searched["cells"].as_array().unwrap().iter().map(trials).collect();
    assert_eq!(often.iter().sum::<usize>(), 6 + 2 * 2, "{often:?}");
    assert_eq!(value(), "90");
    fs::write(SYSCTL, "10").unwrap();
    let none = "none of them is better than the machine as it is; nothing is changed";
    if search("60,90", none).is_none() {
        return;
    }
    let unknown = ["--search", "--set", "vm.no_such_key=1,2", "--metric-command", &counted];
    let output = tune(&place, &unknown).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("none of them could be measured here; nothing is changed"), "{told}");
    assert!(value() == "10" && load.is_there());
}

#[test]
fn a_search_without_a_load_or_a_choice_is_refused() {
    let place = Place::new();
    let refused = |arguments: &[&str]| place.fails(2, &[&["tune"], arguments].concat());
    let values = ["--search", "--set", "vm.swappiness=10,20"];
    assert!(refused(&values).contains("nothing to measure the changes by; name a load"));
    let one = refused(&["--search", "--set", "vm.swappiness=10", "--", "true"]);
    assert!(one.contains("needs values to choose between"), "{one}");
    let choice = refused(&["--goal", "pareto", "--set", "vm.swappiness=10", "--", "true"]);
    assert!(choice.contains("a choice between speed and watts takes several changes"), "{choice}");
    if !Path::new("/sys/class/powercap/intel-rapl:0").exists() {
        let pareto = [&["tune", "--goal", "pareto"], &values[..], &["--", "true"]].concat();
        let blind = place.fails(1, &pareto);
        assert!(blind.contains("cannot measure `power` of the study `tune-search`"), "{blind}");
    }
    let none = refused(&["--search", "--", "true"]);
    assert!(none.contains("needs values to choose between"), "{none}");
    // Nothing is measured before it is clear what.
    assert!(!place.path("notebook/runs").exists());
}

#[test]
fn a_process_is_measured_by_its_own_counters_and_its_childrens() {
    let place = Place::new();
    let Some(_before) = Before::with("90") else { return };
    let mut load = Load::start(&place);
    let pid = load.pid();
    let set = ["--set", "vm.compaction_proactiveness=10"];
    let dry = said(&place, &[&set[..], &["--pid", &pid, "--dry-run"]].concat());
    assert!(dry.contains(&format!("watches process {pid} (sh); nothing is done to it")), "{dry}");
    assert!(dry.contains(&format!("flyball record --for 700ms --pid {pid}")), "{dry}");
    let better = [&set[..], &["--pid", &pid, "--metric", "io_calls"]].concat();
    if found(&place, &better, "to keep the change").is_none() {
        return;
    }
    assert!(value() == "90" && load.is_there());
    let trial = place.ok(&["show", "tune", "b00.load_before.a0"]);
    assert!(trial.contains("running load") && trial.contains("kept, as a running load has them"), "{trial}");
}

#[test]
fn a_load_that_is_not_there_or_ends_or_tells_no_number_is_named_and_nothing_is_left() {
    let place = Place::new();
    let Some(_before) = Before::with("90") else { return };
    let refused = |arguments: &[&str], code: i32| {
        let output =
            tune(&place, &[&["--set", "vm.compaction_proactiveness=10"], arguments].concat()).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert_eq!(value(), "90");
        stderr(&output) + &String::from_utf8(output.stdout).unwrap()
    };
    let mut gone = Command::new("true").spawn().unwrap();
    let pid = gone.id().to_string();
    gone.wait().unwrap();
    assert!(refused(&["--pid", &pid], 1).contains("pgrep -l NAME"));
    assert!(refused(&["--server", "mariadb", "--server-address", "/nowhere/s.sock"], 1).contains("/nowhere"));
    refused(&["--pid", &pid, "--", "true"], 2);
    refused(&["--metric-is", "level"], 2);
    let of_words = refused(&["--metric-command", "echo fast"], 3);
    assert!(of_words.contains("printed `fast`, and not one number alone"), "{of_words}");
    let failing = refused(&["--metric-command", "echo no such table >&2; exit 7"], 3);
    assert!(failing.contains("exit code 7; it said: no such table"), "{failing}");
    // One that ends once a trial of it is there.
    let mut short = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = short.id().to_string();
    let arguments = ["--set", "vm.compaction_proactiveness=10", "--pid", &pid];
    let mut tuning = tune(&place, &[&arguments[..], &["--metric", "io_calls"]].concat());
    let trials = place.trials().len();
    let tuning = tuning.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("a trial is kept", || place.trials().len() > trials);
    short.kill().unwrap();
    short.wait().unwrap();
    let output = tuning.wait_with_output().unwrap();
    let ended = stderr(&output) + &String::from_utf8(output.stdout.clone()).unwrap();
    // With 0 where each side has a trial by then.
    assert!(matches!(output.status.code(), Some(0 | 3)) && value() == "90", "{ended}");
    assert!(ended.contains("ended while it was measured"), "{ended}");
}

#[test]
fn a_database_is_measured_by_its_own_transactions() {
    let place = Place::new();
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { return };
        if kind == Kind::MariaDb {
            server.sql("GRANT PROCESS ON *.* TO bench@localhost");
        }
        let (name, address, password) = (kind.name(), server.address(), password_file(&place));
        let text = format!(
            "flyball = 1\nname = \"db\"\nquestion = \"?\"\n[workload.load]\ntool = \"running\"\n\
             options = {{ server = \"{name}\", server_address = \"{address}\", server_user = \"bench\", \
             server_password_file = \"{password}\", for = \"3s\", wash_out = \"0s\" }}\n\
             [measure]\nmetric = \"write_transactions\"\nunder_load = true\nrepeats = 2\n",
        );
        let study = place.study("db", &text);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                server.sql("CREATE SCHEMA load_");
                server.sql("CREATE TABLE load_.t (a INT)");
                while !stop.load(Ordering::Relaxed) {
                    server.sql("INSERT INTO load_.t VALUES (1)");
                }
            });
            let run = place.output(&["run", &study, "--json"]);
            stop.store(true, Ordering::Relaxed);
            assert!(matches!(run.status.code(), Some(0 | 3)), "{}", stderr(&run));
            let shown: Value = serde_json::from_slice(&run.stdout).unwrap();
            let median = shown["cells"][0]["median"].as_f64().unwrap_or_else(|| panic!("{shown:#}"));
            assert!(median > 0.5, "{kind:?}: {median} transactions a second");
        });
    }
}

/// At any moment, the worker alone, or with its supervisor, which the next start makes up for.
#[test]
fn killed_while_it_measures_a_running_load_it_leaves_the_setting_and_the_load_as_they_were() {
    let place = Place::new();
    let Some(_before) = Before::with("90") else { return };
    let mut load = Load::start(&place);
    let extent = Extent::of(8, 40);
    let mut points: Rng = Seed(extent.seed).stream("kills of tune");
    let (pid, mut in_the_middle) = (load.pid(), 0);
    for round in 0..extent.count {
        let arguments = ["--set", "vm.compaction_proactiveness=10", "--pid", &pid, "--metric", "io_calls"];
        let mut tuning =
            tune(&place, &arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(3).mul_f64(points.unit()));
        in_the_middle += u32::from(value() == "10");
        let is_killed = kill_process(Pid::from_child(&tuning), Signal::KILL);
        is_killed.unwrap();
        tuning.wait().unwrap();
        wait_until("the supervisor puts the setting back", || value() == "90");
        assert!(load.is_there(), "round {round}");
    }
    println!("{} kills, {in_the_middle} of them while the setting was another", extent.count);
    let status: Value = serde_json::from_str(&place.ok(&["status", "--json"])).unwrap();
    assert_eq!(status["changes"].as_array().map(Vec::len).unwrap_or_default(), 0, "{status:#}");
}
