//! Database servers in lab machines: the guest's Flyball makes them as on any host, a network between that
//! delays as it was asked to, which not every host's kernel can, and what a run leaves that is killed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support;
use crate::support::{Place, is_root, lab, wait_until};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const KERNEL: &str = "6.12";

/// What the network adds each way.
const DELAY: f64 = 0.005;

const STUDY: &str = r#"
flyball = 1
name = "servers"
question = "Do servers run in a guest as they do on a host?"
[workload.near]
tool = "sysbench"
options = { test = "oltp_point_select", tables = 20, table_size = 1000000, time = 1 }
[workload.far]
tool = "sysbench"
options = { test = "oltp_point_select", tables = 20, table_size = 1000000, time = 1, network_delay = "5ms" }
[workload.pg]
tool = "pgbench"
options = { scale = 1, time = 1, builtin = "select-only", network_delay = "5ms" }
[measure]
metric = "transactions"
repeats = 6
settle = "0s"
retries = 0
interval = "100ms"
[lab]
vcpus = 2
memory = "1GiB"
kernel = "6.12"
[lab.measure]
repeats = 1
[lab.workload.near]
options = { tables = 1, table_size = 1000 }
[lab.workload.far]
options = { tables = 1, table_size = 1000 }
"#;

/// Why there is no lab machine with databases here.
fn missing(place: &Place) -> Option<String> {
    let programs = ["sysbench", "mariadbd", "mariadb-install-db", "pgbench", "setpriv", "tc"];
    lab::missing(place, KERNEL).or_else(|| lab::without(&programs))
}

fn trials(place: &Place) -> Vec<Value> {
    place.trial_files().iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

fn metric(trial: &Value, name: &str) -> f64 {
    let value = &trial["measurement"]["metrics"][name]["value"];
    value.as_f64().unwrap_or_else(|| panic!("no `{name}` in {trial:#}"))
}

/// The files of this name below a folder.
fn files(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            found.extend(files(&entry.path(), name));
        } else if entry.file_name() == name {
            found.push(entry.path());
        }
    }
    found
}

/// The shortest transaction that sysbench saw, in seconds: what a busy host adds to some is not in it.
fn shortest(place: &Place, workload: &str) -> f64 {
    let of_it = |path: &PathBuf| path.to_string_lossy().contains(&format!(".{workload}."));
    let all = files(&place.path("notebook/runs"), "stdout.txt");
    let text = fs::read_to_string(all.iter().find(|path| of_it(path)).unwrap()).unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("min:")).unwrap();
    line.trim().parse::<f64>().unwrap() / 1e3
}

#[test]
fn servers_run_in_a_guest_and_a_network_delays() {
    if !testing::is_measured_in_turn(5) {
        return;
    }
    let place = Place::new();
    if let Some(why) = missing(&place) {
        eprintln!("skipped: {why}");
        return;
    }
    let begun = Instant::now();
    place.measure(&["lab", "run", &place.study("servers", STUDY)]);
    let trials = trials(&place);
    assert_eq!(trials.len(), 3, "one repeat, as the lab has it");
    let of = |workload: &str| trials.iter().find(|trial| trial["workload"] == workload).unwrap();
    for (workload, server) in [("near", "MariaDB"), ("far", "MariaDB"), ("pg", "PostgreSQL")] {
        let trial = of(workload);
        eprintln!(
            "{workload}: {:.0} transactions/s, mean {:.2} ms",
            metric(trial, "transactions"),
            metric(trial, "latency_mean") * 1e3
        );
        let environment = &trial["environment"];
        assert!(environment["server"].as_str().unwrap().contains(server), "{trial:#}");
        assert_eq!(environment["server network"].is_string(), workload != "near");
        assert_eq!(trial["provenance"], "lab");
    }
    let (near, far) = (shortest(&place, "near"), shortest(&place, "far"));
    eprintln!(
        "the shortest transaction: {:.2} ms, and {:.2} ms over a network of 5 ms each way",
        near * 1e3,
        far * 1e3
    );
    assert!(far >= 2.0 * DELAY && near < 2.0 * DELAY, "{near} {far}");
    assert!(metric(of("pg"), "latency_mean") >= 2.0 * DELAY);
    // The data are of the lab's size.
    let made = files(&place.path("notebook/runs"), "server-prepare.out.txt");
    let said = made.iter().map(|path| fs::read_to_string(path).unwrap()).collect::<Vec<_>>().concat();
    assert!(said.contains("Inserting 1000 records into 'sbtest1'") && !said.contains("sbtest2"), "{said}");
    eprintln!("three trials and their servers took {:?}", begun.elapsed());
}

#[test]
fn a_run_that_is_killed_leaves_no_machine() {
    if !testing::is_measured_in_turn(6) {
        return;
    }
    let place = Place::new();
    if let Some(why) = missing(&place) {
        eprintln!("skipped: {why}");
        return;
    }
    let mut run = place
        .flyball(&["lab", "run", &place.study("servers", STUDY)])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // While it makes its server: the trial is staged by then, and no file of it has come.
    let staging = place.path("notebook/staging");
    let is_staged =
        || fs::read_dir(&staging).into_iter().flatten().flatten().any(|entry| entry.path().is_dir());
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_staged() {
        assert!(Instant::now() < deadline && run.try_wait().unwrap().is_none(), "no trial was begun");
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(Duration::from_secs(3));
    let machines = lab::machines_of(run.id());
    assert!(!machines.is_empty());
    run.kill().unwrap();
    run.wait().unwrap();
    for machine in machines {
        wait_until("the machine is gone", || !Path::new("/proc").join(machine.to_string()).exists());
    }
    assert!(!place.work_files().iter().any(|path| path.is_file()));
}

/// Programs are hidden from it in a mount namespace of its own.
#[test]
fn what_a_guest_would_lack_is_told_before_anything_is_made() {
    let place = Place::new();
    if !is_root() || lab::without(&["mariadbd", "tc", "unshare"]).is_some() {
        eprintln!("skipped: needs root, MariaDB and tc, to hide them");
        return;
    }
    let study = place.study("servers", STUDY);
    let hide =
        "for program in mariadbd tc; do mount --bind /dev/null $(readlink -f $(command -v $program)); done";
    let run = format!("{hide}; exec {} lab run {study}", env!("CARGO_BIN_EXE_flyball"));
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-ec", &run])
        .env("FLYBALL_NOTEBOOK", place.path("notebook"))
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap();
    let told = support::stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("here is no `mariadbd` (Debian's mariadb-server-core), `tc` (Debian's iproute2)"),
        "{told}"
    );
    assert!(!place.path("notebook").exists());
}
